/* The option string (specification, section 5), as release 2.6 parses it. */
#include "policies/torchcache_conf.h"

#include <criterion/criterion.h>
#include <string.h>

#define MIB UINT64_C(1048576)

static const asim_tc_release *release_of(const char *name)
{
    for (size_t i = 0; asim_tc_releases[i].name; i++)
        if (strcmp(asim_tc_releases[i].name, name) == 0)
            return &asim_tc_releases[i];
    cr_assert(false, "no release %s", name);
    return NULL;
}

static asim_tc_options parse_as(const char *release, const char *text)
{
    asim_err err = ASIM_ERR_INIT;
    asim_tc_options options;
    asim_tc_options_default(release_of(release), &options);
    cr_assert_eq(asim_tc_options_replace(release_of(release), text, &options, &err), ASIM_OK, "%s: %s", text,
                 err.message);
    return options;
}

static asim_tc_options parse(const char *text)
{
    return parse_as("2.6", text);
}

Test(torchcache_conf, names_match_the_table)
{
    size_t i = 0;
    for (; asim_tc_releases[i].name; i++)
        cr_expect_str_eq(asim_tc_releases[i].name, asim_tc_release_names[i]);
    cr_expect_null(asim_tc_release_names[i]);
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
    cr_assert_eq(asim_tc_options_replace(release_of("2.6"), "", &options, &err), ASIM_OK);
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
        asim_tc_options_default(release_of("2.6"), &options);
        before = options;
        cr_expect_eq(asim_tc_options_replace(release_of("2.6"), cases[i][0], &options, &err), ASIM_E_USAGE,
                     "%s", cases[i][0]);
        cr_expect(strstr(err.message, cases[i][1]), "%s: %s", cases[i][0], err.message);
        cr_expect_eq(options.max_split, before.max_split);
    }
}

/* R15: the grammar of 1.13. */
Test(torchcache_conf, old_grammar)
{
    asim_tc_options options =
        parse_as("1.13", " max_split_size_mb::100 , nothing ,\tgarbage_collection_threshold:0.5:9 ");
    cr_expect_eq(options.max_split, 100 * MIB);
    cr_expect_float_eq(options.gc_threshold, 0.5, 0);
    options = parse_as("1.13", "roundup_power2_divisions:4 roundup_bypass_threshold_mb:8");
    cr_expect_eq(options.rounding.divisions[0], 4);
    cr_expect_eq(options.rounding.divisions[15], 4);
    cr_expect_eq(options.rounding.bypass, 8 * MIB);
    cr_expect_eq(parse_as("1.13", "").max_split, UINT64_MAX);
    cr_expect_eq(parse_as("1.13", "nothing:").max_split, UINT64_MAX);

    asim_err err = ASIM_ERR_INIT;
    cr_expect_eq(asim_tc_options_replace(release_of("1.13"), "expandable_segments:True", &options, &err),
                 ASIM_E_USAGE);
    cr_expect(strstr(err.message, "1.13 has no allocator option 'expandable_segments'"), "%s", err.message);
    cr_expect_eq(asim_tc_options_replace(release_of("1.13"), "max_split_size_mb:20", &options, &err),
                 ASIM_E_USAGE);
}

/* R28 and R29: the rounding of 1.13. */
Test(torchcache_conf, old_rounding)
{
    asim_tc_options options = parse_as("1.13", "roundup_power2_divisions:1");
    cr_expect_eq(asim_tc_round(&options.rounding, 511), 512);
    cr_expect_eq(asim_tc_round(&options.rounding, 512), 512);
    cr_expect_eq(asim_tc_round(&options.rounding, 1000), 1000);
    options = parse_as("1.13", "roundup_power2_divisions:4,roundup_bypass_threshold_mb:8");
    cr_expect_eq(asim_tc_round(&options.rounding, 8 * MIB - 1), 8 * MIB);
    cr_expect_eq(asim_tc_round(&options.rounding, 8 * MIB + 1), 8 * MIB + 512);
}
