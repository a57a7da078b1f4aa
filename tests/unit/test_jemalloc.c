/* jemalloc: size classes as in table 1 of its manual page; slabs, growth, streams and decay by hand. */
#include "tests/unit/policy_run.h"

/* Requests of 1, 100 and 5000 bytes take the classes 8, 112 and 5120; 20481 takes 24 KiB. */
Test(jemalloc, rounds_to_the_manual_s_classes)
{
    pr_run run = pr_start(&asim_policy_jemalloc, "", GIB);
    const uint64_t asked[] = {1, 100, 5000, 20481};
    for (uint32_t i = 0; i < 4; i++)
        pr_alloc(&run, i, asked[i], 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_allocated_bytes), 8 + 112 + 5120 + 24576);
    pr_end(&run);
}

/* A slab of 112 bytes: slots in address order; of two freed ones the lower is taken first. */
Test(jemalloc, the_lowest_slot_first)
{
    pr_run run = pr_start(&asim_policy_jemalloc, "", GIB);
    const uint64_t base = pr_alloc(&run, 0, 112, 0);
    for (uint32_t i = 1; i < 5; i++)
        cr_expect_eq(pr_alloc(&run, i, 112, 0), base + i * 112);
    pr_free(&run, 3);
    pr_free(&run, 1);
    cr_expect_eq(pr_alloc(&run, 5, 112, 0), base + 112);
    cr_expect_eq(pr_alloc(&run, 6, 112, 0), base + UINT64_C(336));
    pr_end(&run);
}

/* Regions of 2 MiB, then 2.5 MiB, the next size class; without retain as much as is asked. */
Test(jemalloc, growth)
{
    const char *const params[] = {"", "retain=false"};
    const uint64_t reserved[] = {4 * MIB + MIB / 2, 4 * MIB};
    for (unsigned i = 0; i < 2; i++) {
        pr_run run = pr_start(&asim_policy_jemalloc, params[i], GIB);
        pr_alloc(&run, 0, 2 * MIB, 0);
        pr_alloc(&run, 1, 2 * MIB, 0);
        cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), reserved[i]);
        pr_end(&run);
    }
}

/* A freed extent is its own stream's at once, and no other's. */
Test(jemalloc, an_arena_a_stream)
{
    pr_run run = pr_start(&asim_policy_jemalloc, "", GIB);
    const uint64_t first = pr_alloc(&run, 0, MIB, 0);
    pr_free(&run, 0);
    cr_expect_neq(pr_alloc(&run, 1, MIB, 1), first);
    cr_expect_eq(pr_alloc(&run, 2, MIB, 0), first);
    pr_end(&run);
}

/* Wholly free regions: at once with 0, never with none. */
Test(jemalloc, decay)
{
    const char *const params[] = {"dirty_decay_ms=0", "dirty_decay_ms=none"};
    for (unsigned i = 0; i < 2; i++) {
        pr_run run = pr_start(&asim_policy_jemalloc, params[i], GIB);
        pr_alloc(&run, 0, MIB, 0);
        pr_free(&run, 0);
        cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), i ? 2 * MIB : 0);
        cr_expect_eq(pr_own(&run, "purged_bytes"), i ? 0 : 2 * MIB);
        pr_end(&run);
    }
}

/* The host waits for a kernel of 9 s, then for one of 2 s: the 10 s since the free are over only then. The
 * clock is looked at by the next request (of another stream). */
Test(jemalloc, decay_over_the_clock)
{
    pr_run run = pr_start_by_clock(&asim_policy_jemalloc, "", GIB);
    pr_alloc(&run, 0, MIB, 0);
    pr_free(&run, 0);
    pr_kernel(&run, 0, UINT64_C(9000000000));
    pr_sync(&run, 0);
    pr_alloc(&run, 1, 8, 1);
    cr_expect_eq(pr_own(&run, "purged_bytes"), 0);
    pr_kernel(&run, 0, UINT64_C(2000000000));
    pr_sync(&run, 0);
    pr_alloc(&run, 2, 8, 1);
    cr_expect_eq(pr_own(&run, "purged_bytes"), 2 * MIB);
    pr_end(&run);
}

Test(jemalloc, messages)
{
    pr_usage(&asim_policy_jemalloc, "quantum=48", "powers of two");
}
