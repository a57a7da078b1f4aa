/* async against what NVIDIA documents of the stream-ordered allocator: the examples of the Programming
 * Guide's chapter, each of its reuse policies alone, and the attributes of the Runtime API. Regions of 32
 * MiB. */
#include "tests/unit/policy_run.h"

#define CHUNK (32 * MIB)

static const char none_on[] =
    "release_threshold=none,follow_event_dependencies=false,allow_opportunistic=false,"
    "allow_internal_dependencies=false";

/* "memory freed in a stream can be reused immediately by a subsequent allocation request in the same stream"
 */
Test(async, the_same_stream_reuses_at_once)
{
    pr_run run = pr_start(&asim_policy_async, none_on, GIB);
    const uint64_t first = pr_alloc(&run, 0, CHUNK, 1);
    pr_free(&run, 0);
    cr_expect_eq(pr_alloc(&run, 0, CHUNK, 1), first);
    cr_expect_eq(run.book->allocs, 1);
    pr_end(&run);
}

/* "when a stream is synchronized with the CPU, the memory that was previously freed in that stream becomes
 * available for reuse for an allocation in any stream", whatever the policies. */
Test(async, synchronised_with_the_host)
{
    pr_run run = pr_start(&asim_policy_async, none_on, GIB);
    const uint64_t first = pr_alloc(&run, 0, CHUNK, 0);
    pr_free(&run, 0);
    cr_expect_neq(pr_alloc(&run, 0, CHUNK, 1), first);
    pr_sync(&run, 2);
    cr_expect_neq(pr_alloc(&run, 1, CHUNK, 2), first);
    pr_sync(&run, 0);
    cr_expect_eq(pr_alloc(&run, 2, CHUNK, 2), first);
    cr_expect_eq(run.book->allocs, 3);
    pr_end(&run);
}

/* The attribute's text: "When more than the release threshold bytes of memory are held by the memory pool,
 * the allocator will try to release memory back to the OS on the next call to stream, event or context
 * synchronize. (default 0)"; none stands for UINT64_MAX, which "will prevent the driver from attempting to
 * shrink". */
Test(async, release_threshold)
{
    const char *const params[] = {"", "release_threshold=64MiB", "release_threshold=none"};
    const uint64_t kept[] = {0, 2 * CHUNK, 3 * CHUNK};
    for (unsigned i = 0; i < 3; i++) {
        pr_run run = pr_start(&asim_policy_async, params[i], GIB);
        for (uint32_t k = 0; k < 3; k++)
            pr_alloc(&run, k, CHUNK, 0);
        for (uint32_t k = 0; k < 3; k++)
            pr_free(&run, k);
        cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), 3 * CHUNK); /* not before */
        pr_sync(&run, 0);
        cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), kept[i]);
        cr_expect_eq(pr_own(&run, "pool_released_bytes"), 3 * CHUNK - kept[i]);
        pr_end(&run);
    }
}

/* cudaMemPoolTrimTo: it "cannot release OS allocations that back outstanding asynchronous allocations". */
Test(async, trim)
{
    pr_run run = pr_start(&asim_policy_async, "release_threshold=none", GIB);
    pr_alloc(&run, 0, CHUNK, 0);
    pr_alloc(&run, 1, MIB, 0);
    pr_alloc(&run, 2, MIB, 0);
    pr_free(&run, 0);
    pr_free(&run, 1);
    pr_step(&run, (asim_event){.kind = ASIM_EV_TRIM, .lane = ASIM_LANE_ALL});
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), CHUNK);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_cache_flushes), 1);
    pr_free(&run, 2);
    pr_step(&run, (asim_event){.kind = ASIM_EV_TRIM, .lane = 0});
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), 0);
    pr_end(&run);
}

/* The guide's example of cudaMemPoolReuseFollowEventDependencies: a free, an event after it, and another
 * stream that waits for the event. Here the use of a second block says that the other stream waits. */
Test(async, follow_event_dependencies)
{
    for (unsigned follow = 0; follow < 2; follow++) {
        pr_run run = pr_start(&asim_policy_async,
                              follow ? "release_threshold=none,allow_opportunistic=false"
                                     : "release_threshold=none,allow_opportunistic=false,"
                                       "follow_event_dependencies=false",
                              GIB);
        const uint64_t after = pr_alloc(&run, 1, CHUNK, 0); /* the better fit, by its lower address */
        const uint64_t before = pr_alloc(&run, 0, CHUNK, 0);
        pr_alloc(&run, 2, MIB, 0);
        pr_free(&run, 0);
        pr_use(&run, 2, 1);
        pr_free(&run, 1); /* after the wait: not covered by it */
        cr_expect_eq(pr_alloc(&run, 3, CHUNK, 1) == before, follow);
        cr_expect_neq(pr_alloc(&run, 4, CHUNK, 1), after);
        cr_expect_eq(pr_own(&run, "pool_event_reuses"), follow);
        pr_end(&run);
    }
}

/* A wait for a stream is also one for all that the stream waited for: 2 waits for 1, which waited for 0. */
Test(async, dependencies_of_dependencies)
{
    pr_run run = pr_start(&asim_policy_async, "release_threshold=none,allow_opportunistic=false", GIB);
    const uint64_t first = pr_alloc(&run, 0, CHUNK, 0);
    pr_alloc(&run, 1, MIB, 0);
    pr_alloc(&run, 2, MIB, 1);
    pr_free(&run, 0);
    pr_use(&run, 1, 1);
    pr_use(&run, 2, 2);
    cr_expect_eq(pr_alloc(&run, 3, CHUNK, 2), first);
    pr_end(&run);
}

/* The guide's example of cudaMemPoolReuseAllowOpportunistic: "after some time, the kernel finishes running".
 * Stream 1 is busy for 10 ms, stream 0 for 1 ms; the host waits for stream 1. */
Test(async, allow_opportunistic)
{
    for (unsigned allow = 0; allow < 2; allow++) {
        pr_run run = pr_start_by_clock(
            &asim_policy_async,
            allow ? "release_threshold=none" : "release_threshold=none,allow_opportunistic=false", GIB);
        const uint64_t first = pr_alloc(&run, 0, CHUNK, 0);
        pr_kernel(&run, 0, 1000000);
        pr_free(&run, 0);
        cr_expect_neq(pr_alloc(&run, 1, CHUNK, 1), first); /* the kernel still runs */
        pr_kernel(&run, 1, 10000000);
        pr_sync(&run, 1);
        cr_expect_eq(pr_alloc(&run, 2, CHUNK, 1) == first, allow);
        cr_expect_eq(pr_own(&run, "pool_opportunistic_reuses"), allow);
        pr_end(&run);
    }
}

/* The guide's example of cudaMemPoolReuseAllowInternalDependencies: "Failing to allocate and map more
 * physical memory from the OS, the driver will look for memory whose availability depends on another stream's
 * pending progress." */
Test(async, allow_internal_dependencies)
{
    for (unsigned allow = 0; allow < 2; allow++) {
        pr_run run =
            pr_start_by_clock(&asim_policy_async, allow ? "" : "allow_internal_dependencies=false", CHUNK);
        const uint64_t first = pr_alloc(&run, 0, CHUNK, 0);
        pr_kernel(&run, 0, UINT64_C(1000000000));
        pr_free(&run, 0);
        if (allow)
            cr_expect_eq(pr_alloc(&run, 1, CHUNK, 1), first);
        else
            cr_expect(pr_refuses(&run, 1, CHUNK, 1));
        cr_expect_eq(pr_own(&run, "pool_internal_reuses"), allow);
        cr_expect_lt(pr_metric(&run, ASIM_METRIC_stall_ns), UINT64_C(1000000000)); /* the host doesn't wait */
        pr_end(&run);
    }
}

/* Regions: RMM's issue 1245 shows 84490059776 bytes reserved, 2518 * 32 MiB. A block of 40 MiB takes two
 * times 32, and what is left of it serves others. */
Test(async, granularity)
{
    cr_expect_eq(UINT64_C(84490059776) % CHUNK, 0);
    pr_run run = pr_start(&asim_policy_async, "", GIB);
    pr_alloc(&run, 0, 1, 0);
    cr_expect_eq(run.placed.size, 256);
    cr_expect_eq(run.book->sizes[0], CHUNK);
    pr_alloc(&run, 1, 40 * MIB, 0);
    cr_expect_eq(run.book->sizes[1], 2 * CHUNK);
    pr_alloc(&run, 2, 24 * MIB, 0);
    cr_expect_eq(run.book->allocs, 2);
    pr_end(&run);
}

/* A fragmented pool: what is unused in whole regions is given back before a request fails. */
Test(async, unused_regions_make_room)
{
    pr_run run = pr_start(&asim_policy_async, "release_threshold=none", 3 * CHUNK);
    for (uint32_t i = 0; i < 3; i++)
        pr_alloc(&run, i, CHUNK, 0);
    pr_free(&run, 0);
    pr_free(&run, 2);
    pr_alloc(&run, 3, 2 * CHUNK, 0);
    cr_expect_eq(run.book->frees, 2);
    cr_expect(pr_refuses(&run, 4, 1, 0));
    pr_end(&run);
}

/* A block that another stream used is free once that stream has passed; before a request fails, it is waited
 * for. */
Test(async, uses_by_other_streams)
{
    pr_run run = pr_start(&asim_policy_async, "release_threshold=none", 2 * CHUNK);
    const uint64_t first = pr_alloc(&run, 0, CHUNK, 0);
    pr_use(&run, 0, 1);
    pr_free(&run, 0);
    const uint64_t second = pr_alloc(&run, 1, CHUNK, 0);
    cr_expect_neq(second, first);
    pr_sync(&run, 1);
    cr_expect_eq(run.book->completed, 1);
    cr_expect_eq(pr_alloc(&run, 2, CHUNK, 0), first);
    pr_use(&run, 1, 1);
    pr_free(&run, 1);
    cr_expect_eq(pr_alloc(&run, 3, CHUNK, 0), second);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_sync_waits), 1);
    pr_end(&run);
}

/* cudaMemPoolProps.maxSize. */
Test(async, the_largest_size_of_the_pool)
{
    pr_run run = pr_start(&asim_policy_async, "max_size=64MiB", GIB);
    pr_alloc(&run, 0, CHUNK, 0);
    cr_expect(pr_refuses(&run, 1, CHUNK + 1, 0));
    pr_alloc(&run, 1, CHUNK, 0);
    cr_expect(pr_refuses(&run, 2, 1, 0));
    pr_end(&run);
    pr_usage(&asim_policy_async, "max_size=16MiB", "below granularity");
    pr_usage(&asim_policy_async, "align=257", "multiple of align");
}

Test(async, zero_and_huge)
{
    pr_run run = pr_start(&asim_policy_async, "", GIB);
    cr_expect_eq(pr_ask(&run, 0, 0, 0), ASIM_NOTHING);
    cr_expect(pr_refuses(&run, 1, UINT64_MAX, 0));
    cr_expect(pr_refuses(&run, 1, UINT64_MAX - 255, 0));
    cr_expect(pr_refuses(&run, 1, UINT64_C(1) << 50, 0));
    cr_expect(pr_refuses(&run, 1, GIB + 1, 0));
    pr_alloc(&run, 1, GIB, 0);
    pr_end(&run);
}
