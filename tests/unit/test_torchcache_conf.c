/* The option string (specification, section 5), as the releases parse it: 2.6 unless another is named. What
 * the specification leaves open was asked of the published releases (tests/oracle/FINDINGS.md). */
#include "policies/torchcache_conf.h"

#include <criterion/criterion.h>
#include <stdio.h>
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

static void refuse_as(const char *release, const char *text, const char *why)
{
    asim_err err = ASIM_ERR_INIT;
    asim_tc_options options;
    asim_tc_options_default(release_of(release), &options);
    cr_expect_eq(asim_tc_options_replace(release_of(release), text, &options, &err), ASIM_E_USAGE, "%s: %s",
                 release, text);
    cr_expect(strstr(err.message, why), "%s: %s: %s", release, text, err.message);
}

/* A series, a patch release, a build; 2.12 is refused with its reason. */
Test(torchcache_conf, release_names)
{
    static const char *const same[][2] = {{"2.6", "2.6"},         {"2.6.0", "2.6"},
                                          {"2.9.1+cu128", "2.9"}, {"2.10.0a0+git", "2.10"},
                                          {"1.13.1", "1.13"},     {"2.15.0", "2.15"}};
    static const char *const refused[] = {"", "2", "2.", "2.99", "0.4", ".6", "2.1 ", "v2.6"};
    asim_err err = ASIM_ERR_INIT;
    int index = -1;
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        cr_assert_eq(asim_tc_release_find(same[i][0], &index, &err), ASIM_OK, "%s: %s", same[i][0],
                     err.message);
        cr_expect_str_eq(asim_tc_releases[index].name, same[i][1]);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        cr_expect_eq(asim_tc_release_find(refused[i], &index, &err), ASIM_E_USAGE, "%s", refused[i]);
    err = (asim_err)ASIM_ERR_INIT;
    cr_expect_eq(asim_tc_release_find("2.12.1", &index, &err), ASIM_E_USAGE);
    cr_expect(strstr(err.message, "order that is not known"), "%s", err.message);
}

/* 5.3 and section 26: which release knows which option. */
Test(torchcache_conf, options_by_release)
{
    static const char *const cases[][3] = {
        /* the text, the last release that refuses it, the first that takes it */
        {"backend:native", "1.13", "2.1"},
        {"expandable_segments:True", "1.13", "2.1"},
        {"roundup_power2_divisions:[64:4,>:8]", "1.13", "2.1"},
        {"release_lock_on_hipmalloc:True", "2.1", "2.2"},
        {"pinned_num_register_threads:4", "2.1", "2.2"},
        {"roundup_power2_divisions:[64:0,>:8]", "2.3", "2.4"}, /* R21 */
        {"max_non_split_rounding_mb:30", "2.5", "2.6"},
        {"pinned_use_background_threads:True", "2.5", "2.6"},
        {"graph_capture_record_stream_reuse:True", "2.8", "2.9"},
        {"max_split_size_mb:20", "2.9", "2.10"},
        {"per_process_memory_fraction:0.5", "2.9", "2.10"},
        {"large_segment_size_mb:40", "2.10", "2.11"},
        {"throw_on_cudamalloc_oom:True", "2.11", "2.13"},
        {"pinned_max_cached_size_mb:4", "2.11", "2.13"},
        {"expandable_segments_reserve:0.5", "2.14", "2.15"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        refuse_as(cases[i][1], cases[i][0], "");
        parse_as(cases[i][2], cases[i][0]);
    }
}

/* R14, R12, R16, R19: the grammar from 2.10 on takes any separator, and misses one only at the end. */
Test(torchcache_conf, lenient_grammar)
{
    cr_expect_eq(parse_as("2.10", "max_split_size_mb,30").max_split, 30 * MIB);
    cr_expect(parse_as("2.10", "max_split_size_mb:30:expandable_segments:True").expandable);
    cr_expect_eq(parse_as("2.10", "max_split_size_mb\t:30,").max_split, 30 * MIB);
    cr_expect_eq(parse_as("2.10", "max_split_size_mb:3000000000").max_split, 3000000000 * MIB);
    refuse_as("2.10", "max_split_size_mb:30:4", "no allocator option '4'");
    refuse_as("2.10", ",max_split_size_mb:30", "no allocator option ','");
    refuse_as("2.10", "max_split_size_mb::30", "not a number");
    refuse_as("2.10", "max_split_size_mb", "at the end");
    refuse_as("2.10", "roundup_power2_divisions:[64:2,>:4", "at the end");
    refuse_as("2.15", "expandable_segments_reserve_by_class:[a]", "at the end");
    refuse_as("2.9", "max_split_size_mb,30", "expected ':'");
    refuse_as("2.9", "max_split_size_mb\t:30", "no allocator option");
    refuse_as("2.9", "max_split_size_mb:3000000000", "does not fit");
}

/* R21: where '>' begins. R22 has the list. */
Test(torchcache_conf, rest_of_the_divisions)
{
    static const uint32_t listed[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8};
    asim_tc_options options = parse_as("2.10", "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");
    cr_expect_arr_eq(options.rounding.divisions, listed, sizeof listed);
    cr_expect_eq(parse_as("2.10", "roundup_power2_divisions:[>:4]").rounding.divisions[0], 0);
    cr_expect_eq(parse_as("2.9", "roundup_power2_divisions:[>:4]").rounding.divisions[0], 4);
    /* Intervals have 64 bits in every release with a list. */
    cr_expect_eq(parse_as("2.6", "roundup_power2_divisions:[4294967296:4]").rounding.divisions[15], 4);
}

/* 5.3, R10, R17: large segments are read first, bound the two others from below, and reset one of them. */
Test(torchcache_conf, large_segments)
{
    asim_err err = ASIM_ERR_INIT;
    refuse_as("2.11", "max_split_size_mb:30,large_segment_size_mb:40", "40 and more");
    refuse_as("2.11", "large_segment_size_mb:10", "more than 10");
    asim_tc_options options = parse_as("2.11", "max_split_size_mb:64,large_segment_size_mb:40");
    cr_expect_eq(options.large_segment, 40 * MIB);
    cr_expect_eq(options.max_rounding, 40 * MIB);
    cr_assert_eq(asim_tc_options_replace(release_of("2.11"), "max_non_split_rounding_mb:50", &options, &err),
                 ASIM_OK);
    cr_expect_eq(options.max_rounding, 50 * MIB);
    cr_assert_eq(asim_tc_options_replace(release_of("2.11"), "", &options, &err), ASIM_OK);
    cr_expect_eq(options.max_rounding, 40 * MIB);
    cr_expect_eq(options.large_segment, 40 * MIB); /* keeps its value */
    cr_expect_eq(parse_as("2.11", "large_segment_size_mb:40,large_segment_size_mb:12").large_segment,
                 12 * MIB);
}

/* R84: what is no positive, finite number is ignored. */
Test(torchcache_conf, reserves)
{
    asim_tc_options options = parse_as("2.15", "expandable_segments_reserve:0.5");
    cr_expect(options.reserve_is_share);
    cr_expect_float_eq(options.reserve, 0.5, 0);
    options =
        parse_as("2.15", "expandable_segments_reserve:2G,expandable_segments_reserve_by_class:[a:1,b:2G]");
    cr_expect_not(options.reserve_is_share);
    cr_expect_float_eq(options.reserve, 2147483648.0, 0);
    static const char *const ignored[] = {"x", "-1", "0", "inf", "nan", "1Gx", "1T"};
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "expandable_segments_reserve:%s", ignored[i]);
        cr_expect_float_eq(parse_as("2.15", text).reserve, 0, 0, "%s", text);
    }
}
