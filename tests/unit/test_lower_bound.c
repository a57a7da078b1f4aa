/* lower-bound against sums made by hand. */
#include "tests/unit/policy_run.h"

/* Three blocks of 3, 4 and 5 MiB, never more than two at once: at most 9 MiB are live, which is five pages of
 * 2 MiB. A request of one byte counts as 512. */
Test(lower_bound, reserves_the_peak_and_keeps_it)
{
    pr_run run = pr_start(&asim_policy_lower_bound, "", GIB);
    pr_alloc(&run, 0, 3 * MIB, 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), 4 * MIB);
    pr_alloc(&run, 1, 4 * MIB, 1); /* 7: another stream shares the device */
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), 8 * MIB);
    pr_free(&run, 0);
    pr_alloc(&run, 2, 5 * MIB, 0); /* 9 */
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_peak_reserved_bytes), 10 * MIB);
    pr_free(&run, 1);
    pr_alloc(&run, 3, 1, 0);
    cr_expect_eq(run.placed.size, 512);
    pr_free(&run, 2);
    pr_free(&run, 3);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), 10 * MIB);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_lower_bound_bytes), 9 * MIB);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_device_allocs), 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_device_unmaps), 0);
    pr_end(&run);
}

/* With units of one byte: 100 + 23 bytes, of which 100 are free later. */
Test(lower_bound, units_of_one_byte)
{
    pr_run run = pr_start(&asim_policy_lower_bound, "align=1,page=1", MIB);
    asim_run_record record;
    /* The device holds whole granules of 2 MiB, so that one of 1 MiB has none: refused by the device. */
    cr_expect(pr_refuses(&run, 0, 100, 0));
    asim_engine_record(run.engine, &record);
    cr_expect_eq(record.oom.segment_bytes, 100);
    cr_expect_eq(record.oom.device_free_bytes, MIB);
    pr_end(&run);
    run = pr_start(&asim_policy_lower_bound, "align=1,page=2MiB", 4 * MIB);
    pr_alloc(&run, 0, 100, 0);
    pr_alloc(&run, 1, 23, 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_lower_bound_bytes), 123);
    pr_free(&run, 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_allocated_bytes), 23);
    pr_end(&run);
}

/* Live bytes alone decide, wherever blocks would lie: 2 + 2 MiB with a hole between them leave 4 of 8. */
Test(lower_bound, refuses_what_exceeds_the_device_and_nothing_else)
{
    pr_run run = pr_start(&asim_policy_lower_bound, "", 8 * MIB);
    for (uint32_t id = 0; id < 4; id++)
        pr_alloc(&run, id, 2 * MIB, 0);
    cr_expect(pr_refuses(&run, 4, 1, 0));
    pr_free(&run, 0);
    pr_free(&run, 2);
    pr_alloc(&run, 4, 4 * MIB, 0);
    cr_expect(pr_refuses(&run, 5, UINT64_MAX, 0));
    cr_expect(pr_refuses(&run, 5, UINT64_MAX - 512, 0));
    cr_expect_eq(pr_ask(&run, 5, 0, 0), ASIM_NOTHING);
    pr_alloc(&run, 6, 8 * MIB, PR_STREAMS); /* the other device has its own 8 MiB */
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_peak_reserved_bytes), 16 * MIB);
    pr_end(&run);
}

/* A block lives until its completion; growing in place needs the new size alone: 6 of 8 MiB. */
Test(lower_bound, completions_and_growth)
{
    pr_run run = pr_start(&asim_policy_lower_bound, "", 8 * MIB);
    pr_alloc(&run, 0, 4 * MIB, 0);
    cr_expect_eq(pr_step(&run, (asim_event){.kind = ASIM_EV_RESIZE, .id = 0, .size = 6 * MIB}), ASIM_PLACED);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_moved_bytes), 0);
    pr_step(&run, (asim_event){.kind = ASIM_EV_FREE, .flags = ASIM_FREE_PENDING, .id = 0});
    cr_expect(pr_refuses(&run, 1, 4 * MIB, 0));
    pr_step(&run, (asim_event){.kind = ASIM_EV_FREE_DONE, .id = 0});
    pr_alloc(&run, 1, 8 * MIB, 0);
    cr_expect_eq(pr_step(&run, (asim_event){.kind = ASIM_EV_RESIZE, .id = 1, .size = 9 * MIB}), ASIM_REFUSED);
    pr_end(&run);
}

Test(lower_bound, page_tables_are_bounded)
{
    pr_usage(&asim_policy_lower_bound, "page=1", "too small"); /* 2^30 pages of one device */
}
