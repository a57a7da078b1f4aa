/* The values of max_split_size_mb that can differ: tools/tune_breaks.h. */
#include "tools/tune_breaks.h"

#include <criterion/criterion.h>

#define MIB (UINT64_C(1) << 20)

static size_t breaks(const asim_tune_sizes *sizes, const char *release, uint64_t mib[ASIM_TUNE_BREAKS_MAX],
                     bool *ret_complete)
{
    const asim_tc_release *rules = asim_tc_release_named(release);
    asim_tc_options options;
    size_t count = 0;
    asim_tc_options_default(rules, &options);
    cr_assert_eq(asim_tune_breaks(sizes, rules, &options.rounding, ASIM_TC_LARGE_SEG, mib, &count,
                                  ret_complete, asim_hostmem_libc(), NULL),
                 ASIM_OK);
    return count;
}

/* The picture in the header: 45.5 MiB are served from segments of 46, 91 from segments of 92. Small requests
 * and those below 20 MiB change nothing; 2.6 takes 21 and more. */
Test(tune_breaks, intervals_of_two_sizes)
{
    uint64_t requests[] = {512, 2 * MIB, 91 * MIB / 2, 91 * MIB}, mib[ASIM_TUNE_BREAKS_MAX];
    const asim_tune_sizes sizes = {.sizes = requests, .count = 4};
    const uint64_t expected[] = {21, 46, 47, 92};
    bool complete;
    cr_assert_eq(breaks(&sizes, "2.6", mib, &complete), 4);
    cr_assert(complete);
    for (size_t i = 0; i < 4; i++)
        cr_expect_eq(mib[i], expected[i]);
}

/* Nothing above 20 MiB: every limit that 2.6 takes does what none does. */
Test(tune_breaks, none_that_differs)
{
    uint64_t requests[] = {2 * MIB, 19 * MIB}, mib[ASIM_TUNE_BREAKS_MAX];
    const asim_tune_sizes sizes = {.sizes = requests, .count = 2};
    bool complete;
    cr_expect_eq(breaks(&sizes, "2.6", mib, &complete), 0);
}

/* Parts of a segment that is cut at the start may have any size: each MiB from 21 to 29 counts; from 31 on
 * nothing is left to limit, and 30 is the size of the segment itself. */
Test(tune_breaks, segment_that_is_cut)
{
    uint64_t segments[] = {30 * MIB}, mib[ASIM_TUNE_BREAKS_MAX];
    const asim_tune_sizes sizes = {.segments = segments, .segment_count = 1, .cut_bytes = 30 * MIB};
    bool complete;
    cr_assert_eq(breaks(&sizes, "2.6", mib, &complete), 10);
    for (size_t i = 0; i < 10; i++)
        cr_expect_eq(mib[i], 21 + i);
}
