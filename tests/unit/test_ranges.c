#include "sim/ranges.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* What text stands for, joined by blanks. */
static const char *expand(const char *text, asim_range_kind kind, char joined[400])
{
    asim_values values = {0};
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_values_parse(text, kind, &values, asim_hostmem_libc(), &err), ASIM_OK, "%s: %s", text,
                 err.message);
    joined[0] = 0;
    for (size_t i = 0; i < values.count; i++) {
        size_t used = strlen(joined);
        snprintf(joined + used, 400 - used, "%s%s", i ? " " : "", values.items[i]);
    }
    asim_values_fini(&values, asim_hostmem_libc());
    return joined;
}

static void refused(const char *text, asim_range_kind kind, const char *part)
{
    asim_values values = {0};
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_values_parse(text, kind, &values, asim_hostmem_libc(), &err), ASIM_E_USAGE, "%s", text);
    cr_assert(strstr(err.message, part), "%s: %s", text, err.message);
    asim_values_fini(&values, asim_hostmem_libc());
}

Test(ranges, lists_and_ranges)
{
    char text[400];
    cr_assert_str_eq(expand("64,128,none", ASIM_RANGE_NUMBER, text), "64 128 none");
    cr_assert_str_eq(expand("20:33:+4", ASIM_RANGE_NUMBER, text), "20 24 28 32");
    cr_assert_str_eq(expand("20:32:+4", ASIM_RANGE_NUMBER, text), "20 24 28 32");
    cr_assert_str_eq(expand("32:2048:x2", ASIM_RANGE_NUMBER, text), "32 64 128 256 512 1024 2048");
    cr_assert_str_eq(expand("7:7:x3", ASIM_RANGE_NUMBER, text), "7");
    cr_assert_str_eq(expand("0:2:+1,none,8:16:x2", ASIM_RANGE_NUMBER, text), "0 1 2 none 8 16");
    cr_assert_str_eq(expand("18446744073709551613:18446744073709551615:+2", ASIM_RANGE_NUMBER, text),
                     "18446744073709551613 18446744073709551615");
}

/* No binary fraction comes between: three steps of a tenth are three tenths. */
Test(ranges, decimals_are_exact)
{
    char text[400];
    cr_assert_str_eq(expand("0.1:0.5:+0.1", ASIM_RANGE_NUMBER, text), "0.1 0.2 0.3 0.4 0.5");
    cr_assert_str_eq(expand("0.05:1:x4", ASIM_RANGE_NUMBER, text), "0.05 0.20 0.80");
    cr_assert_str_eq(expand("1:2:+0.25", ASIM_RANGE_NUMBER, text), "1.00 1.25 1.50 1.75 2.00");
}

Test(ranges, sizes)
{
    char text[400];
    cr_assert_str_eq(expand("1KiB:4KiB:x2", ASIM_RANGE_SIZE, text), "1024 2048 4096");
    cr_assert_str_eq(expand("1KiB:2K:+512", ASIM_RANGE_SIZE, text), "1024 1536 2048");
    cr_assert_str_eq(expand("40GiB,80GiB", ASIM_RANGE_SIZE, text), "40GiB 80GiB");
}

Test(ranges, words_keep_their_colons_and_brackets)
{
    char text[400];
    cr_assert_str_eq(expand("[256:1,512:2],4", ASIM_RANGE_NONE, text), "[256:1,512:2] 4");
    cr_assert_str_eq(expand("true,false", ASIM_RANGE_NONE, text), "true false");
    cr_assert_str_eq(expand("a:b:c", ASIM_RANGE_NONE, text), "a:b:c");
}

Test(ranges, refusals)
{
    refused("", ASIM_RANGE_NUMBER, "missing");
    refused("64,", ASIM_RANGE_NUMBER, "missing");
    refused("64,,128", ASIM_RANGE_NONE, "missing");
    refused("20:10:+4", ASIM_RANGE_NUMBER, "ends before it begins");
    refused("20:40", ASIM_RANGE_NUMBER, "LOW:HIGH:+STEP");
    refused("20:40:4", ASIM_RANGE_NUMBER, "LOW:HIGH:+STEP");
    refused("1:2:3:4", ASIM_RANGE_NUMBER, "LOW:HIGH:+STEP");
    refused("20:40:+0", ASIM_RANGE_NUMBER, "never ends");
    refused("20:40:x1", ASIM_RANGE_NUMBER, "2 or more");
    refused("20:40:x1.5", ASIM_RANGE_NUMBER, "factor");
    refused("0:40:x2", ASIM_RANGE_NUMBER, "can't begin at 0");
    refused("a:40:x2", ASIM_RANGE_NUMBER, "'a' is not a number");
    refused("1.:40:+1", ASIM_RANGE_NUMBER, "'1.' is not a number");
    refused("-1:40:+1", ASIM_RANGE_NUMBER, "'-1' is not a number");
    refused("none:40:+1", ASIM_RANGE_NUMBER, "'none' is not a number");
    refused("1GB:2GiB:+1GiB", ASIM_RANGE_SIZE, "not a size");
    refused("1:100001:+1", ASIM_RANGE_NUMBER, "more than 100000 values");
    refused("1:18446744073709551616:+1", ASIM_RANGE_NUMBER, "is not a number");
    refused("18446744073709551615:18446744073709551615:+0.1", ASIM_RANGE_NUMBER, "too many digits");
}

static void *refuse_nth(void *ctx, void *memory, size_t old_size, size_t new_size)
{
    int *left = ctx;
    if (new_size > 0 && (*left)-- == 0)
        return NULL;
    const asim_hostmem *heap = asim_hostmem_libc();
    return heap->resize(heap->ctx, memory, old_size, new_size);
}

Test(ranges, every_request_for_memory_may_fail)
{
    asim_code code = ASIM_E_SYSTEM;
    for (int n = 0; code; n++) {
        int left = n;
        asim_hostmem mem = {refuse_nth, &left};
        asim_values values = {0};
        code = asim_values_parse("none,1:20:+1", ASIM_RANGE_NUMBER, &values, &mem, NULL);
        cr_assert(code == ASIM_OK || code == ASIM_E_SYSTEM);
        cr_assert(n < 100);
        asim_values_fini(&values, &mem);
    }
}
