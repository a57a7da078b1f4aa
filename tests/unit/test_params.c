#include "sim/params.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

struct block {
    uint64_t count, split, pool;
    bool merge;
    double fraction;
    int fit;
    char divisions[ASIM_PARAM_TEXT_MAX];
};

static const char *const fits[] = {"first", "best", NULL};

static const asim_param params[] = {
    {.name = "count",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(struct block, count),
     .default_text = "4",
     .min = 1,
     .max = 100,
     .help = "h"},
    {.name = "split",
     .type = ASIM_PARAM_MIB,
     .offset = offsetof(struct block, split),
     .default_text = "none",
     .min = UINT64_C(20) << 20,
     .max = UINT64_MAX,
     .none_allowed = true,
     .help = "h"},
    {.name = "pool",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(struct block, pool),
     .default_text = "8GiB",
     .min = 1 << 20,
     .max = UINT64_C(1) << 40,
     .help = "h"},
    {.name = "merge",
     .type = ASIM_PARAM_BOOL,
     .offset = offsetof(struct block, merge),
     .default_text = "true",
     .help = "h"},
    {.name = "fraction",
     .type = ASIM_PARAM_REAL,
     .offset = offsetof(struct block, fraction),
     .default_text = "0.5",
     .real_min = 0,
     .real_max = 1,
     .help = "h"},
    {.name = "fit",
     .type = ASIM_PARAM_CHOICE,
     .offset = offsetof(struct block, fit),
     .default_text = "best",
     .choices = fits,
     .help = "h"},
    {.name = "divisions",
     .type = ASIM_PARAM_TEXT,
     .offset = offsetof(struct block, divisions),
     .default_text = "",
     .help = "h"},
};

static const asim_param_table table = {params, sizeof params / sizeof params[0], sizeof(struct block)};

static void refused(const char *text, const char *message)
{
    struct block block, before;
    asim_params_default(&table, &block);
    before = block;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_params_parse(&table, &block, text, &err), ASIM_E_USAGE, "%s", text);
    cr_assert_str_eq(err.message, message);
    cr_assert_eq(memcmp(&block, &before, sizeof block), 0, "%s changed the block", text);
}

Test(params, defaults)
{
    struct block block;
    memset(&block, 0xAA, sizeof block);
    asim_params_default(&table, &block);
    cr_assert_eq(block.count, 4);
    cr_assert_eq(block.split, ASIM_PARAM_NONE);
    cr_assert_eq(block.pool, UINT64_C(8589934592));
    cr_assert(block.merge);
    cr_assert_eq(block.fraction, 0.5);
    cr_assert_eq(block.fit, 1);
    cr_assert_str_eq(block.divisions, "");
    char text[100] = "x";
    cr_assert_eq(asim_params_canonical(&table, &block, text, sizeof text), 0);
    cr_assert_str_eq(text, "");
}

Test(params, every_type_parses_and_spells_canonically)
{
    struct block block;
    asim_params_default(&table, &block);
    cr_assert_eq(asim_params_parse(&table, &block,
                                   "divisions=[256:1,512:2,>:4],fit=first,fraction=0.10,merge=off,"
                                   "pool=1536m,split=256,count=007",
                                   NULL),
                 ASIM_OK);
    cr_assert_eq(block.split, 268435456); /* 256 MiB */
    cr_assert_eq(block.pool, 1610612736);
    cr_assert_not(block.merge);
    cr_assert_str_eq(block.divisions, "[256:1,512:2,>:4]");
    char text[200];
    const char *expected = "count=7,split=256,pool=1536MiB,merge=false,fraction=0.1,fit=first,"
                           "divisions=[256:1,512:2,>:4]";
    cr_assert_eq(asim_params_canonical(&table, &block, text, sizeof text), strlen(expected));
    cr_assert_str_eq(text, expected);

    struct block again;
    asim_params_default(&table, &again);
    cr_assert_eq(asim_params_parse(&table, &again, text, NULL), ASIM_OK);
    cr_assert_eq(memcmp(&again, &block, sizeof block), 0);
}

Test(params, values_equal_to_the_default_are_not_spelled)
{
    struct block block;
    asim_params_default(&table, &block);
    cr_assert_eq(asim_params_parse(&table, &block, "pool=8192MiB,merge=True,split=none,fraction=5e-1", NULL),
                 ASIM_OK);
    char text[100];
    cr_assert_eq(asim_params_canonical(&table, &block, text, sizeof text), 0);
}

Test(params, canonical_text_is_cut_but_its_length_is_told)
{
    struct block block;
    asim_params_default(&table, &block);
    cr_assert_eq(asim_params_set(&table, &block, "count", "5", NULL), ASIM_OK);
    cr_assert_eq(asim_params_set(&table, &block, "merge", "0", NULL), ASIM_OK);
    char text[10];
    cr_assert_eq(asim_params_canonical(&table, &block, text, sizeof text), strlen("count=5,merge=false"));
    cr_assert_str_eq(text, "count=5,m");
    cr_assert_eq(asim_params_canonical(&table, &block, NULL, 0), strlen("count=5,merge=false"));
    cr_assert_eq(asim_params_canonical(&table, &block, text, 3), strlen("count=5,merge=false"));
    cr_assert_str_eq(text, "co");
}

Test(params, the_last_of_a_repeated_key_counts)
{
    struct block block;
    asim_params_default(&table, &block);
    cr_assert_eq(asim_params_parse(&table, &block, "count=5,count=6", NULL), ASIM_OK);
    cr_assert_eq(block.count, 6);
}

Test(params, errors_name_key_value_and_what_is_allowed)
{
    refused("count=0", "parameter count=0: out of range; allowed: 1 to 100");
    refused("count=101", "parameter count=101: out of range; allowed: 1 to 100");
    refused("count=none", "parameter count=none: 'none' is not a whole decimal number");
    refused("count=-1", "parameter count=-1: '-1' is not a whole decimal number");
    refused("count=", "parameter count=: '' is not a whole decimal number");
    refused("count=18446744073709551616", "parameter count=18446744073709551616: '18446744073709551616' is "
                                          "too large; the largest number is 18446744073709551615");
    refused("split=19", "parameter split=19: out of range; allowed: 20MiB and more, or none");
    refused("split=17592186044416", /* 2^44 MiB = 2^64 bytes */
            "parameter split=17592186044416: out of range; allowed: 20MiB and more, or none");
    refused("split=64MiB", "parameter split=64MiB: '64MiB' is not a whole decimal number");
    refused("pool=1K", "parameter pool=1K: out of range; allowed: 1MiB to 1TiB");
    refused("merge=yes", "parameter merge=yes: not a switch; allowed: true, false, on, off, 1, 0");
    refused("fraction=1.01", "parameter fraction=1.01: out of range; allowed: 0 to 1");
    refused("fraction=nan", "parameter fraction=nan: not a number; write it as in 0.25");
    refused("fraction=0x1", "parameter fraction=0x1: not a number; write it as in 0.25");
    refused("fraction=", "parameter fraction=: not a number; write it as in 0.25");
    refused("fit=worst", "parameter fit=worst: not one of its values; allowed: first, best");
    refused("fits=best", "there is no parameter 'fits'; known: count, split, pool, merge, fraction, fit, "
                         "divisions");
    refused("count=5,merge", "'merge' is not of the form key=value");
    refused("count=5,=3", "'=3' is not of the form key=value");
    refused("count=5,,merge=1", "'' is not of the form key=value");
    refused("count=5,", "a parameter is missing after the last comma");
}

Test(params, long_text_is_refused)
{
    char text[800] = "divisions=";
    memset(text + strlen(text), 'x', ASIM_PARAM_TEXT_MAX);
    struct block block;
    asim_params_default(&table, &block);
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_params_parse(&table, &block, text, &err), ASIM_E_USAGE);
    cr_assert(strstr(err.message, "too long; the limit is 511 bytes"));
    text[strlen("divisions=") + ASIM_PARAM_TEXT_MAX - 1] = 0;
    cr_assert_eq(asim_params_parse(&table, &block, text, &err), ASIM_OK);
    cr_assert_eq(strlen(block.divisions), ASIM_PARAM_TEXT_MAX - 1);
    cr_assert_eq(asim_params_set(&table, &block, "divisions", "a,b", &err), ASIM_E_USAGE);
    cr_assert_str_eq(err.message, "parameter divisions=a,b: a comma may only stand inside []");
}

Test(params, sizes)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"1536", 1536},
        {"1536B", 1536},
        {"3k", 3072},
        {"3KiB", 3072},
        {"80GiB", UINT64_C(85899345920)},
        {"80g", UINT64_C(85899345920)},
        {"2T", UINT64_C(2199023255552)},
        {"1.5M", 1572864},
        {"0.0009765625k", 1},
        {"1.000", 1},
        {"0.3k", 307},                       /* 307.2 */
        {"42.59GiB", UINT64_C(45730664284)}, /* 45,730,664,284.16 */
        {"9223372036854775807", INT64_MAX},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t bytes = 7;
        cr_assert_eq(asim_parse_size(good[i].text, &bytes, NULL), ASIM_OK, "%s", good[i].text);
        cr_assert_eq(bytes, good[i].bytes, "%s", good[i].text);
    }
    static const char *const bad[] = {"",
                                      "GiB",
                                      "-1",
                                      "+1",
                                      "1.",
                                      ".5k",
                                      "1GB",
                                      "1 GiB",
                                      "0x10",
                                      "1e9",
                                      "1.5",
                                      "0.3B",
                                      "8388608TiB",
                                      "1GiBB",
                                      "9223372036854775808",
                                      "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = 7;
        asim_err err = ASIM_ERR_INIT;
        cr_assert_eq(asim_parse_size(bad[i], &bytes, &err), ASIM_E_USAGE, "%s", bad[i]);
        cr_assert_eq(bytes, 7);
        cr_assert(err.message[0]);
    }
}
