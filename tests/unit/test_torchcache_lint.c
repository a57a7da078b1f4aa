/* What is said about option strings (specification, section 5). */
#include "policies/torchcache_lint.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static asim_tc_lint lint_as(const char *release, const char *text, double fraction)
{
    asim_tc_lint lint;
    cr_assert_not_null(asim_tc_release_named(release));
    memset(&lint, 0x5a, sizeof lint);
    asim_tc_lint_conf(asim_tc_release_named(release), text, fraction, &lint);
    return lint;
}

static void show(const asim_tc_lint *lint, char *ret_text, size_t capacity)
{
    size_t used = 0;
    ret_text[0] = 0;
    for (size_t i = 0; i < lint->count && used < capacity; i++)
        used += (size_t)snprintf(ret_text + used, capacity - used, "%s: %s\n",
                                 lint->findings[i].refused ? "error" : "warning", lint->findings[i].text);
}

/* Exactly one finding, which holds the words. */
static void expect_one(const char *release, const char *text, double fraction, bool refused,
                       const char *words)
{
    asim_tc_lint lint = lint_as(release, text, fraction);
    char all[4096];
    show(&lint, all, sizeof all);
    cr_expect_eq(lint.count, 1, "PyTorch %s, %s: expected one finding with '%s', found\n%s", release, text,
                 words, all);
    cr_expect_eq(lint.refused, refused, "PyTorch %s, %s", release, text);
    cr_expect_not_null(strstr(all, words), "PyTorch %s, %s: expected '%s', found\n%s", release, text, words,
                       all);
}

static void expect_warning(const char *release, const char *text, const char *words)
{
    expect_one(release, text, -1, false, words);
}

static void expect_refused(const char *release, const char *text, const char *words)
{
    expect_one(release, text, -1, true, words);
}

static void expect_silence(const char *release, const char *text, double fraction)
{
    asim_tc_lint lint = lint_as(release, text, fraction);
    char all[4096];
    show(&lint, all, sizeof all);
    cr_expect_eq(lint.count, 0, "PyTorch %s, %s: expected nothing, found\n%s", release, text, all);
    cr_expect_not(lint.refused);
}

Test(torchcache_lint, nothing_to_say)
{
    expect_silence("2.6", "", -1);
    expect_silence("2.6", " max_split_size_mb : 128 , garbage_collection_threshold : 0.8 ", 0.5);
    expect_silence("2.6", "expandable_segments:True", -1);
    expect_silence("2.6", "max_split_size_mb:128,max_non_split_rounding_mb:64", -1);
    expect_silence("2.6", "roundup_power2_divisions:4", -1);
    expect_silence("2.6", "roundup_power2_divisions:[1:2,2:4,4:8,>:8]", -1);
    expect_silence("1.13", "roundup_power2_divisions:4,roundup_bypass_threshold_mb:64", -1);
    expect_silence("1.13", "max_split_size_mb::30 garbage_collection_threshold:0.5", 1);
}

/* R47, R50, R51, R37 step 4, R100, R29. */
Test(torchcache_lint, settings_that_do_nothing_or_fight)
{
    expect_warning("2.6", "garbage_collection_threshold:0.8", "nothing without a memory fraction");
    expect_warning("1.13", "garbage_collection_threshold:0.8", "nothing without a memory fraction");
    expect_one("2.6", "garbage_collection_threshold:0.8,expandable_segments:True", 0.5, false,
               "nothing with expandable_segments");
    expect_warning("2.6", "expandable_segments:True,max_split_size_mb:128",
                   "free blocks of 128 MiB and more are kept from smaller requests");
    expect_silence("2.6", "expandable_segments:False,max_split_size_mb:128", -1);
    expect_warning("2.6", "max_non_split_rounding_mb:64", "nothing without max_split_size_mb");
    expect_warning("1.13", "roundup_bypass_threshold_mb:64", "nothing without roundup_power2_divisions");
}

/* R21, R22, R27, R28. */
Test(torchcache_lint, divisions)
{
    expect_warning("2.6", "roundup_power2_divisions:1", "changes nothing");
    expect_warning("2.6", "roundup_power2_divisions:[1:1,>:0]", "changes nothing");
    expect_warning("1.13", "roundup_power2_divisions:1", "leaves sizes above 512 bytes unrounded");
    expect_warning("2.6", "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
                   "1024 MiB gets 8 divisions and not 4");
    expect_silence("2.6", "roundup_power2_divisions:[256:1,512:2,1024:8,>:8]", -1);
    expect_silence("2.6", "roundup_power2_divisions:[>:8]", -1);
    expect_warning("2.6", "roundup_power2_divisions:[4:2,16:4,>:4]",
                   "sizes from 8 MiB to 16 MiB are in no interval");
    expect_warning("2.6", "roundup_power2_divisions:[4:2,8:4]", "sizes from 16 MiB on are in no interval");
    expect_silence("2.6", "roundup_power2_divisions:[4:2,8:0,>:0]", -1);
    asim_tc_lint lint = lint_as("2.6", "roundup_power2_divisions:[4:2,16:4]", -1);
    cr_expect_eq(lint.count, 2);
}

/* R12, R17, R19, 5.3. */
Test(torchcache_lint, read_otherwise_than_it_looks)
{
    expect_warning("2.6", "max_split_size_mb:128MB", "'128MB' is read as 128");
    expect_warning("1.13", "max_split_size_mb:128MB", "'128MB' is read as 128");
    expect_one("2.6", "garbage_collection_threshold:0.8x", 0.5, false, "'0.8x' is read as 0.8");
    expect_warning("2.6", "roundup_power2_divisions:4.5", "'4.5' is read as 4");
    expect_warning("2.6", "roundup_power2_divisions:[1:2MB,>:2]", "'2MB' is read as 2");
    expect_warning("2.6", "max_split_size_mb:-1", "-1 wraps round to a huge number");
    asim_tc_lint lint = lint_as("2.6", "max_split_size_mb:-1,expandable_segments:True", -1);
    cr_expect_eq(lint.count, 1); /* no limit: nothing to fight */
    expect_warning("2.6", "max_split_size_mb: 1 28", "'1 28' is read as '128'");
    expect_warning("2.6", "max_split_ size_mb:128", "'max_split_ size_mb' is read as 'max_split_size_mb'");
    expect_warning("2.6", "max_split_size_mb:64,max_split_size_mb:32", "the last one holds, 32");
    lint = lint_as("2.6", "max_split_size_mb:64,max_split_size_mb:48,max_split_size_mb:32", -1);
    cr_expect_eq(lint.count, 1);
}

/* 5.3: options without effect on one thread, or on the device. */
Test(torchcache_lint, options_without_effect)
{
    expect_warning("2.6", "pinned_use_cuda_host_register:True", "concerns pinned host memory");
    expect_warning("2.6", "pinned_num_register_threads:8", "concerns pinned host memory");
    expect_warning("2.6", "release_lock_on_cudamalloc:True", "several threads");
    expect_warning("2.6", "backend:native", "changes nothing");
}

/* R14, R16, R18, R20, 5.3: one finding for each option that is unknown, else the parser's word. */
Test(torchcache_lint, refused)
{
    expect_refused("2.6", "max_split_size_mb:20", "takes 21 and more");
    expect_refused("2.6", "expandable_segments:true", "neither True nor False");
    expect_refused("2.6", "roundup_power2_divisions:3", "not a power of two");
    expect_refused("2.6", "garbage_collection_threshold:1", "below 1");
    expect_refused("2.6", "max_split_size_mb:abc", "not a number");
    expect_refused("2.6", "backend:cudaMallocAsync", "only native is simulated");
    expect_refused("2.6", "max_split_sise_mb:64", "did you mean 'max_split_size_mb'?");
    expect_refused("2.6", "max_split_size_mb=64", "did you mean 'max_split_size_mb'?");
    expect_refused("2.6", "frobnicate:1", "no option 'frobnicate'");
    expect_refused("2.6", "roundup_bypass_threshold_mb:64", "was last in 1.13");
    expect_refused("1.13", "expandable_segments:True", "it came later, and is in 2.");
    expect_refused("2.6", "expandable_segments_handle_type:1", "no option 'expandable_segments_handle_type'");
    asim_tc_lint lint = lint_as("2.6", "foo:1,expandable_segment:True", -1);
    cr_expect_eq(lint.count, 2);
    cr_expect(lint.findings[0].refused && lint.findings[1].refused && lint.refused);
    lint = lint_as("2.6", "max_split_size_mb:1,foo:1", -1); /* both faults are told */
    cr_expect_eq(lint.count, 2);
}

/* R15. */
Test(torchcache_lint, old_grammar)
{
    expect_warning("1.13", "max_split_size_mb", "'max_split_size_mb' is passed over");
    expect_warning("1.13", "max_split_size_mb:30:4", "what follows the second colon is passed over");
    asim_tc_lint lint = lint_as("1.13", "max_split_size_mb : 30", -1);
    cr_expect_eq(lint.count, 3);
    cr_expect_not(lint.refused);
    lint = lint_as("1.13", "max_split_ size_mb:30", -1);
    cr_expect_eq(lint.count, 2);
    cr_expect(lint.refused);
}

/* More than there is room for. */
Test(torchcache_lint, many)
{
    char text[4096] = "";
    for (int i = 0; i < 60; i++)
        strcat(text, i ? ",x:1" : "x:1");
    asim_tc_lint lint = lint_as("2.6", text, -1);
    cr_expect_eq(lint.count, ASIM_TC_FINDINGS_MAX);
    cr_expect_eq(lint.left_out, 60 - ASIM_TC_FINDINGS_MAX);
    memset(text, 'y', sizeof text - 1); /* one endless word */
    text[sizeof text - 1] = 0;
    lint = lint_as("2.6", text, -1);
    cr_expect(lint.refused);
    memset(text, '[', sizeof text - 1);
    lint = lint_as("2.6", text, -1);
    cr_expect(lint.refused);
}

/* 5.3: an option is told apart by release. */
Test(torchcache_lint, releases)
{
    expect_refused("2.1", "max_non_split_rounding_mb:30", "is in 2.6");
    expect_refused("2.9", "large_segment_size_mb:30", "is in 2.11");
    expect_refused("2.9", "per_process_memory_fraction:0.5", "is in 2.10");
    expect_refused("2.14", "expandable_segments_reserve:0.5", "is in 2.15");
    expect_refused("2.9", "max_split_size_mb:20", "takes 21 and more");
    expect_silence("2.10", "max_split_size_mb:20", -1);
    expect_refused("2.11", "large_segment_size_mb:30,max_split_size_mb:25", "takes 30 and more");
    expect_warning("2.1", "roundup_power2_divisions:1", "PyTorch 2.1 leaves sizes above 512 bytes unrounded");
    expect_warning("2.4", "roundup_power2_divisions:1", "changes nothing");
}

/* R47 with R11; R84. */
Test(torchcache_lint, later_settings)
{
    expect_silence("2.10", "garbage_collection_threshold:0.5,per_process_memory_fraction:0.5", -1);
    expect_warning("2.10", "per_process_memory_fraction:1.0", "sets no limit");
    expect_warning("2.15", "expandable_segments_reserve:0.5", "nothing without expandable_segments:True");
    expect_silence("2.15", "expandable_segments_reserve:0.5,expandable_segments:True", -1);
}

/* R21: from 2.10 on '>' begins after the last interval listed, and alone leaves out the first one. */
Test(torchcache_lint, rest_of_the_intervals)
{
    expect_warning("2.9", "roundup_power2_divisions:[4:2,>:4]", "4 MiB gets 4 divisions and not 2");
    expect_silence("2.10", "roundup_power2_divisions:[4:2,>:4]", -1);
    expect_silence("2.9", "roundup_power2_divisions:[>:4]", -1);
    expect_warning("2.10", "roundup_power2_divisions:[>:4]", "sizes from 0 to 2 MiB are in no interval");
}

/* R12 and R14: from 2.10 on all white space vanishes, and separators are not looked at. */
Test(torchcache_lint, lenient_grammar)
{
    expect_warning("2.10", "max_split_size_mb:1\t28", "is read as '128'");
    expect_silence("2.10", "max_split_size_mb:\t128\n", -1);
    expect_warning("2.10", "max_split_size_mb[128", "wrong sign between its parts");
    expect_warning("2.10", "max_split_size_mb:128:expandable_segments:False", "wrong sign between its parts");
    expect_refused("2.9", "max_split_size_mb[128", "expected ':' instead of '['");
}
