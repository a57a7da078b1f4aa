/* The option string (specification, section 5), as release 2.6 parses it. */
#include "policies/torchcache_conf.h"

#include <criterion/criterion.h>
#include <string.h>

#define MIB UINT64_C(1048576)

static asim_tc_options parse(const char *text)
{
    asim_err err = ASIM_ERR_INIT;
    asim_tc_options options;
    asim_tc_options_default(&asim_tc_releases[0], &options);
    cr_assert_eq(asim_tc_options_replace(&asim_tc_releases[0], text, &options, &err), ASIM_OK, "%s: %s", text,
                 err.message);
    return options;
}

/* Every option, R12 (spaces), R17 (a repeated key overrides). */
Test(torchcache_conf, options)
{
    asim_tc_options options = parse("");
    cr_expect_eq(options.max_split, UINT64_MAX);
    cr_expect_eq(options.max_rounding, 20 * MIB);
    options = parse("max_split_size_mb:100,max_non_split_rounding_mb:30,garbage_collection_threshold:0.5,"
                    "expandable_segments:True,release_lock_on_cudamalloc:True,backend:native");
    cr_expect_eq(options.max_split, 100 * MIB);
    cr_expect_eq(options.max_rounding, 30 * MIB);
    cr_expect_float_eq(options.gc_threshold, 0.5, 0);
    cr_expect(options.expandable);
    options = parse(" max_split _size_mb : 1 28 , max_split_size_mb:64MB ");
    cr_expect_eq(options.max_split, 64 * MIB); /* R19: trailing garbage */
    options = parse("max_split_size_mb:-1");
    cr_expect_eq(options.max_split, UINT64_MAX / MIB * MIB); /* R19: wraps, then is clamped */
}

/* R20, R21, R22: before the fix the last listed slot is overwritten by '>'. */
Test(torchcache_conf, divisions)
{
    static const uint32_t listed[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 8, 8, 8, 8, 8, 8};
    asim_tc_options options = parse("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");
    cr_expect_arr_eq(options.rounding.divisions, listed, sizeof listed);
    options = parse("roundup_power2_divisions:[>:8]");
    cr_expect_eq(options.rounding.divisions[0], 8);
    cr_expect_eq(options.rounding.divisions[15], 8);
    options = parse("roundup_power2_divisions:[64:4,1048576:0]");
    cr_expect_eq(options.rounding.divisions[6], 4);
    cr_expect_eq(options.rounding.divisions[7], 0); /* between listed ones: off */
    cr_expect_eq(options.rounding.divisions[15], 0);
    options = parse("roundup_power2_divisions:16");
    cr_expect_eq(options.rounding.divisions[7], 16);
    cr_expect(options.rounding.on);
}

/* R10: what a new string resets, and what it leaves. */
Test(torchcache_conf, replacing)
{
    asim_err err = ASIM_ERR_INIT;
    asim_tc_options options =
        parse("max_split_size_mb:100,max_non_split_rounding_mb:30,expandable_segments:True,"
              "garbage_collection_threshold:0.5,roundup_power2_divisions:4");
    cr_assert_eq(asim_tc_options_replace(&asim_tc_releases[0], "", &options, &err), ASIM_OK);
    cr_expect_eq(options.max_split, UINT64_MAX);
    cr_expect_float_eq(options.gc_threshold, 0, 0);
    cr_expect(!options.rounding.on);
    cr_expect_eq(options.max_rounding, 30 * MIB);
    cr_expect(options.expandable);
}

Test(torchcache_conf, refusals)
{
    static const char *const cases[][2] = {
        {"max_split_size_mb:20", "too small"}, /* 5.3: must be above 20 */
        {"max_non_split_rounding_mb:20", "too small"},
        {"max_split_size_mb:x", "not a number"},
        {"max_split_size_mb=100", "no allocator option"},
        {"max_split_size_mb", "expected ':'"},
        {"max_split_size_mb:100 expandable_segments:True", "expected ','"}, /* R12: spaces vanish */
        {"max_split_size_mb:99999999999", "does not fit"},
        {"expandable_segments:true", "neither True nor False"}, /* R18 */
        {"garbage_collection_threshold:1.0", "above 0 and below 1"},
        {"garbage_collection_threshold:0", "above 0 and below 1"},
        {"roundup_power2_divisions:3", "not a power of two"},
        {"roundup_power2_divisions:0", "not a power of two"}, /* R20 */
        {"roundup_power2_divisions:[3:4]", "not a power of two"},
        {"roundup_power2_divisions:[4:4", "expected ','"},
        {"roundup_bypass_threshold_mb:4", "no allocator option"}, /* 1.13 alone */
        {"large_segment_size_mb:32", "no allocator option"},      /* later releases */
        {"backend:cudaMallocAsync", "only native"},
        {",", "no allocator option"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        asim_err err = ASIM_ERR_INIT;
        asim_tc_options options, before;
        memset(&options, 0, sizeof options);
        asim_tc_options_default(&asim_tc_releases[0], &options);
        before = options;
        cr_expect_eq(asim_tc_options_replace(&asim_tc_releases[0], cases[i][0], &options, &err), ASIM_E_USAGE,
                     "%s", cases[i][0]);
        cr_expect(strstr(err.message, cases[i][1]), "%s: %s", cases[i][0], err.message);
        cr_expect_eq(options.max_split, before.max_split);
    }
}
