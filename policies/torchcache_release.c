#include "policies/torchcache_release.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define MIB    (UINT64_C(1) << 20)
#define BIT(o) (UINT32_C(1) << ASIM_TC_##o)

/* What a release knows, and those before it knew. */
#define OPTIONS_1_13 (BIT(MAX_SPLIT) | BIT(GC_THRESHOLD) | BIT(DIVISIONS))
#define OPTIONS_2_1  (OPTIONS_1_13 | BIT(BACKEND) | BIT(EXPANDABLE))
#define OPTIONS_2_2  (OPTIONS_2_1 | BIT(RELEASE_LOCK) | BIT(PINNED_REGISTER) | BIT(PINNED_THREADS))
#define OPTIONS_2_6  (OPTIONS_2_2 | BIT(MAX_ROUNDING) | BIT(PINNED_BACKGROUND))
#define OPTIONS_2_9  (OPTIONS_2_6 | BIT(GRAPH_REUSE))
#define OPTIONS_2_10 (OPTIONS_2_9 | BIT(FRACTION) | BIT(PINNED_SEGMENT))
#define OPTIONS_2_11 (OPTIONS_2_10 | BIT(LARGE_SEGMENT))
#define OPTIONS_2_13 (OPTIONS_2_11 | BIT(THROW) | BIT(PINNED_CATCH_ALL) | BIT(PINNED_SIZES))
#define OPTIONS_2_15 (OPTIONS_2_13 | BIT(RESERVE) | BIT(RESERVE_BY_CLASS))
#define OPTIONS_NPU                                                                                          \
    (BIT(MAX_SPLIT) | BIT(MAX_ROUNDING) | BIT(LARGE_SEGMENT) | BIT(GC_THRESHOLD) | BIT(DIVISIONS) |          \
     BIT(EXPANDABLE) | BIT(FRACTION) | BIT(PINNED_BACKGROUND) | BIT(PINNED_SEGMENT) | BIT(PINNED_SIZES) |    \
     BIT(NPU_BASE_ALIGN) | BIT(NPU_PAGE_SIZE) | BIT(NPU_SEGMENT_SIZE) | BIT(NPU_LAZY_RECLAIM) |              \
     BIT(NPU_THROW) | BIT(NPU_OTHERS))

/* What came with a release and stayed. */
#define SINCE_2_1 .division_list = true, .keeps_requested = true
#define SINCE_2_3 SINCE_2_1, .counts_driver_calls = true
#define SINCE_2_4                                                                                            \
    SINCE_2_3, .division_one_rounds = true, .division_zero = true, .drops_capture_uses = true,               \
               .oom_counts_pools = true
#define SINCE_2_5 SINCE_2_4, .pools_expand = true, .available_skips = true, .oom_names_limit = true
#define SINCE_2_8 SINCE_2_5, .pools_help = true
#define SINCE_2_10                                                                                           \
    SINCE_2_8, .lenient_grammar = true, .division_rest_next = true, .full_lifts_limit = true,                \
               .newest_scope_wins = true, .pools_unsplit = true
#define SINCE_2_11 SINCE_2_10, .resets_rounding = true, .pools_help_first = true
#define SINCE_2_13                                                                                           \
    SINCE_2_11, .limit_rounds = true, .captures_by_stream = true, .counts_rejections = true,                 \
                .oldest_first = true
#define SINCE_2_14 SINCE_2_13, .unsplit_ends = true
#define SINCE_2_15 SINCE_2_14, .returns_short_range = true, .oom_advises_reserve = true

#define OLD_MINIMUM (21 * MIB)
#define OLD_ADVICE  "max_split_size_mb"
#define ADVICE      "expandable_segments:True"

const asim_tc_release asim_tc_releases[] = {
    {"1.13", OPTIONS_1_13 | BIT(BYPASS), OLD_MINIMUM, OLD_ADVICE, .old_grammar = true, .oom_old_order = true,
     .oom_names_limit = true},
    {"2.1", OPTIONS_2_1, OLD_MINIMUM, OLD_ADVICE, SINCE_2_1},
    {"2.2", OPTIONS_2_2, OLD_MINIMUM, ADVICE, SINCE_2_1},
    {"2.3", OPTIONS_2_2, OLD_MINIMUM, ADVICE, SINCE_2_3},
    {"2.4", OPTIONS_2_2, OLD_MINIMUM, ADVICE, SINCE_2_4},
    {"2.5", OPTIONS_2_2, OLD_MINIMUM, ADVICE, SINCE_2_5, .trims_default = true},
    {"2.6", OPTIONS_2_6, OLD_MINIMUM, ADVICE, SINCE_2_5, .last_try_in_pool = true},
    {"2.7", OPTIONS_2_6, OLD_MINIMUM, ADVICE, SINCE_2_5, .last_try_in_pool = true,
     .no_expandable_active = true},
    {"2.8", OPTIONS_2_6, OLD_MINIMUM, ADVICE, SINCE_2_8},
    {"2.9", OPTIONS_2_9, OLD_MINIMUM, ADVICE, SINCE_2_8},
    {"2.10", OPTIONS_2_10, 20 * MIB, ADVICE, SINCE_2_10},
    {"2.11", OPTIONS_2_11, 0, ADVICE, SINCE_2_11},
    {"2.13", OPTIONS_2_13, 0, ADVICE, SINCE_2_13},
    {"2.14", OPTIONS_2_13, 0, ADVICE, SINCE_2_14},
    {"2.15", OPTIONS_2_15, 0, ADVICE, SINCE_2_15},
    {.name = NULL},
};

/* Forked from PyTorch 2.13's, with the order of free blocks of those before, and a limit cut off at the byte.
 */
const asim_tc_release asim_tc_npu = {"for NPUs",
                                     OPTIONS_NPU,
                                     0,
                                     "max_split_size_mb",
                                     SINCE_2_11,
                                     .captures_by_stream = true,
                                     .counts_rejections = true,
                                     .waits_before_release = true};

const char *const asim_tc_release_names[] = {"1.13", "2.1", "2.2",  "2.3",  "2.4",  "2.5",  "2.6",  "2.7",
                                             "2.8",  "2.9", "2.10", "2.11", "2.13", "2.14", "2.15", NULL};

const asim_tc_release *asim_tc_release_named(const char *name)
{
    for (size_t i = 0; asim_tc_releases[i].name; i++)
        if (strcmp(asim_tc_releases[i].name, name) == 0)
            return &asim_tc_releases[i];
    return NULL;
}

/* The length of "2.9" in "2.9.1+cu128"; 0: not a version. */
static size_t series_length(const char *text)
{
    size_t first = strspn(text, "0123456789"), second = 0;
    if (first && text[first] == '.')
        second = strspn(text + first + 1, "0123456789");
    if (!second)
        return 0;
    const char *rest = text + first + 1 + second;
    return !*rest || *rest == '.' || *rest == '+' || isalpha((unsigned char)*rest) ? first + 1 + second : 0;
}

asim_code asim_tc_release_find(const char *text, int *ret_index, asim_err *err)
{
    size_t length = series_length(text);
    char list[160] = "";
    for (int i = 0; asim_tc_release_names[i]; i++) {
        const char *name = asim_tc_release_names[i];
        if (length && strlen(name) == length && !memcmp(name, text, length)) {
            *ret_index = i;
            return ASIM_OK;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", name);
    }
    if (length == 4 && !memcmp(text, "2.12", 4))
        return asim_fail(
            err, ASIM_E_USAGE,
            "release 2.12 chooses between free blocks of one size in an order that is not known; "
            "2.11 and 2.13 are the nearest that are; allowed: %s",
            list);
    return asim_fail(err, ASIM_E_USAGE, "not one of its values; allowed: %s", list);
}
