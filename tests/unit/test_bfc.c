/* bfc against the values that TensorFlow's own test asserts (gpu_bfc_allocator_test.cc, named at each test),
 * and against hand calculations by the rules of bfc_allocator.cc. */
#include "tests/unit/policy_run.h"

static void expect_stats(const pr_run *run, int64_t allocs, int64_t in_use, int64_t peak, int64_t largest)
{
    cr_expect_eq(pr_stat(run, "num_allocs"), allocs);
    cr_expect_eq(pr_stat(run, "bytes_in_use"), in_use);
    cr_expect_eq(pr_stat(run, "peak_bytes_in_use"), peak);
    cr_expect_eq(pr_stat(run, "largest_alloc_size"), largest);
}

/* NoDups: CheckStats(&a, 1023, 654336, 654336, 1024), then (1023, 0, 654336, 1024). By hand: 255 requests of
 * up to 255 bytes and one of 256 take 256, and so on: 256 * 256 * (1 + 2 + 3 + 4) - 1024 (no request of
 * 1024). */
Test(bfc, no_dups)
{
    pr_run run = pr_start(&asim_policy_bfc, "memory_limit=1GiB", 4 * GIB);
    for (uint32_t size = 1; size < 1024; size++)
        pr_alloc(&run, size, size, 0);
    expect_stats(&run, 1023, 654336, 654336, 1024);
    for (uint32_t size = 1; size < 1024; size++)
        pr_free(&run, size);
    expect_stats(&run, 1023, 0, 654336, 1024);
    pr_end(&run);
}

/* ExerciseCoalescing: after each round all memory is one chunk again, and the first address comes back. */
Test(bfc, exercise_coalescing)
{
    pr_run run = pr_start(&asim_policy_bfc, "memory_limit=1GiB", 4 * GIB);
    const uint64_t sizes[] = {1024 * 4, 1048576 * 8, 2048 * 8, 10485760 * 4};
    const uint64_t first = pr_alloc(&run, 0, 1024 * 4, 0);
    pr_free(&run, 0);
    expect_stats(&run, 1, 0, 4096, 4096);
    for (int round = 0; round < 1024; round++) {
        for (uint32_t i = 0; i < 4; i++)
            pr_alloc(&run, i, sizes[i], 0);
        for (uint32_t i = 0; i < 4; i++)
            pr_free(&run, i);
    }
    expect_stats(&run, 4097, 0, 1024 * 4 + 1048576 * 8 + 2048 * 8 + 10485760 * 4, 10485760 * 4);
    cr_expect_eq(pr_alloc(&run, 0, 1024 * 4, 0), first);
    cr_expect_eq(run.book->allocs, 1);
    pr_end(&run);
}

/* AllocateZeroBufSize, AllocatedVsRequested, and the failure in AllocationsAndDeallocations. */
Test(bfc, zero_small_and_huge)
{
    pr_run run = pr_start(&asim_policy_bfc, "memory_limit=1GiB", 4 * GIB);
    cr_expect_eq(pr_ask(&run, 0, 0, 0), ASIM_NOTHING);
    pr_alloc(&run, 1, 4, 0);
    cr_expect_eq(run.placed.size, 256);
    cr_expect(pr_refuses(&run, 2, (1 << 30) + 1, 0));
    cr_expect(pr_refuses(&run, 2, UINT64_MAX, 0));
    cr_expect(pr_refuses(&run, 2, UINT64_MAX - 255, 0));
    pr_alloc(&run, 2, 4, 0);
    pr_end(&run);
}

/* TestCustomMemoryLimit: with a limit of 2 MiB, 256 bytes fit and 8 MiB do not. */
Test(bfc, custom_memory_limit)
{
    pr_run run = pr_start(&asim_policy_bfc, "memory_limit=2MiB", 4 * GIB);
    pr_alloc(&run, 0, 4 << 6, 0);
    cr_expect(pr_refuses(&run, 1, 4 * (2 << 20), 0));
    cr_expect_eq(run.book->reserved, 2 * MIB);
    pr_end(&run);
}

/* TestForceAllowGrowth: the first region has 2 MiB with growth, all of the 2 GiB without. */
Test(bfc, first_region)
{
    const struct {
        const char *params;
        uint64_t first;
    } cases[] = {{"memory_limit=2GiB,allow_growth=true", 2 * MIB}, {"memory_limit=2GiB", 2 * GIB}};
    for (size_t i = 0; i < 2; i++) {
        pr_run run = pr_start(&asim_policy_bfc, cases[i].params, 4 * GIB);
        pr_alloc(&run, 0, 1, 0);
        cr_expect_eq(run.book->sizes[0], cases[i].first);
        pr_end(&run);
    }
}

static void fill_512_mib(pr_run *run)
{
    for (uint32_t i = 0; i < 128; i++)
        pr_alloc(run, i, 4 * MIB, 0);
    for (uint32_t i = 0; i < 127; i++)
        pr_free(run, i);
}

/* PhysicalAllocatorOomsFragmentation: 508 of 512 MiB are free but in several regions; no 508 MiB. By hand,
 * the regions: the first request doubles 2 to 4 MiB and takes that; the next leaves 4 and asks for 4, then
 * each time twice as much: 4, 4, 8, 16, .. 256 MiB, 512 in all minus what is left of the limit at the end: 8
 * regions of 4 + 4 + 8 + 16 + 32 + 64 + 128 + 256 = 512 MiB. */
Test(bfc, ooms_of_fragmentation)
{
    const uint64_t expected[] = {4, 4, 8, 16, 32, 64, 128, 256};
    pr_run run =
        pr_start(&asim_policy_bfc, "memory_limit=512MiB,allow_growth=true,garbage_collection=false", 4 * GIB);
    fill_512_mib(&run);
    cr_assert_eq(run.book->allocs, 8);
    for (size_t i = 0; i < 8; i++)
        cr_expect_eq(run.book->sizes[i], expected[i] * MIB);
    cr_expect(pr_refuses(&run, 200, 508 * MIB, 0));
    cr_expect_eq(run.book->frees, 0);
    pr_end(&run);
}

/* TestRegionDeallocation: all regions but the last live chunk's are given back. Here a request causes it: the
 * region that the live chunk is in has 256 MiB, so 256 MiB fit once the other seven are gone. The live chunk
 * is the last of 128 of 4 MiB, so it lies at the end of the last region. */
Test(bfc, region_deallocation)
{
    pr_run run = pr_start(&asim_policy_bfc, "memory_limit=512MiB,allow_growth=true", 4 * GIB);
    fill_512_mib(&run);
    pr_alloc(&run, 200, 252 * MIB, 0); /* all that is free in the last region */
    cr_expect_eq(run.book->frees, 0);
    pr_alloc(&run, 201, 256 * MIB, 0);
    cr_expect_eq(run.book->frees, 7);
    cr_expect_eq(run.book->reserved, 512 * MIB);
    cr_expect_eq(run.book->sizes[8], 256 * MIB);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_cache_flushes), 1);
    pr_end(&run);
}

/* The split rule of FindChunkPtr, at its two thresholds. */
Test(bfc, split_rule)
{
    pr_run run = pr_start(&asim_policy_bfc, "memory_limit=1GiB", GIB);
    pr_alloc(&run, 0, GIB - 128 * MIB, 0); /* the rest is 128 MiB: split off */
    cr_expect_eq(run.placed.size, GIB - 128 * MIB);
    pr_free(&run, 0);
    pr_alloc(&run, 0, GIB - 128 * MIB + 256, 0); /* it is less, and the chunk not twice the request */
    cr_expect_eq(run.placed.size, GIB);
    cr_expect_eq(run.placed.rounded, GIB - 128 * MIB + 256);
    pr_free(&run, 0);
    pr_end(&run);
    run = pr_start(&asim_policy_bfc, "memory_limit=1MiB", GIB);
    pr_alloc(&run, 0, 512 * KIB, 0); /* exactly twice: split */
    cr_expect_eq(run.placed.size, 512 * KIB);
    pr_free(&run, 0);
    pr_alloc(&run, 0, 512 * KIB + 1, 0);
    cr_expect_eq(run.placed.size, MIB);
    pr_end(&run);
    run = pr_start(&asim_policy_bfc, "memory_limit=1MiB,fragmentation_fraction=0.25", GIB);
    pr_alloc(&run, 0, 768 * KIB, 0); /* a rest of a quarter */
    cr_expect_eq(run.placed.size, 768 * KIB);
    pr_free(&run, 0);
    pr_alloc(&run, 0, 768 * KIB + 1, 0);
    cr_expect_eq(run.placed.size, MIB);
    pr_end(&run);
}

/* kBackpedalFactor: nine tenths, rounded up to 256, until the device grants it. The device has 96 MiB, the
 * limit says 100: 104857600 * 0.9 = 94371840 = 368640 * 256. */
Test(bfc, backpedals)
{
    pr_run run = pr_start(&asim_policy_bfc, "memory_limit=100MiB", 96 * MIB);
    pr_alloc(&run, 0, 1, 0);
    cr_expect_eq(run.book->sizes[0], 94371840);
    pr_end(&run);
    run = pr_start(&asim_policy_bfc, "memory_limit=100MiB", 96 * MIB);
    cr_expect(pr_refuses(&run, 0, 95 * MIB, 0)); /* 90 MiB are less than the request */
    cr_expect_eq(run.book->allocs, 0);
    pr_end(&run);
}

/* What another stream uses is reusable once that stream is done; before failing, it is waited for. */
Test(bfc, other_streams)
{
    pr_run run = pr_start(&asim_policy_bfc, "memory_limit=2MiB", GIB);
    const uint64_t first = pr_alloc(&run, 0, 2 * MIB, 0);
    pr_use(&run, 0, 1);
    pr_use(&run, 0, 0); /* its own: no matter */
    pr_free(&run, 0);
    cr_expect_eq(run.book->completed, 0);
    pr_sync(&run, 1);
    cr_expect_eq(pr_alloc(&run, 0, MIB, 2), first); /* any stream may have it */
    cr_expect_eq(run.book->completed, 1);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_sync_waits), 0);
    pr_use(&run, 0, 1);
    pr_use(&run, 0, 3);
    pr_free(&run, 0);
    cr_expect_eq(pr_alloc(&run, 0, 2 * MIB, 0), first);
    cr_expect_eq(run.book->completed, 2);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_sync_waits), 1);
    pr_end(&run);
    run = pr_start(&asim_policy_bfc, "memory_limit=2MiB,allow_retry_on_failure=false", GIB);
    pr_alloc(&run, 0, 2 * MIB, 0);
    pr_use(&run, 0, 1);
    pr_free(&run, 0);
    cr_expect(pr_refuses(&run, 1, 2 * MIB, 0));
    pr_end(&run);
}

Test(bfc, limits)
{
    pr_run run = pr_start(&asim_policy_bfc, "memory_fraction=0.25", GIB);
    pr_alloc(&run, 0, 1, 0);
    pr_alloc(&run, 1, 1, PR_STREAMS); /* the other device has its own */
    cr_expect_eq(run.book->sizes[0], 256 * MIB);
    cr_expect_eq(run.book->sizes[1], 256 * MIB);
    pr_end(&run);
    run = pr_start(&asim_policy_bfc, "system_memory=225MiB", GIB);
    pr_alloc(&run, 0, 1, 0);
    cr_expect_eq(run.book->sizes[0], GIB - 225 * MIB);
    pr_end(&run);
    run = pr_start(&asim_policy_bfc, "system_memory=2GiB", GIB); /* nothing is left */
    cr_expect(pr_refuses(&run, 0, 1, 0));
    pr_end(&run);
    pr_usage(&asim_policy_bfc, "memory_limit=1GiB,memory_fraction=0.5", "memory_fraction");
    pr_usage(&asim_policy_bfc, "memory_limit=1GiB,system_memory=1MiB", "system_memory");
    pr_usage(&asim_policy_bfc, "fragmentation_fraction=1.5", "fragmentation_fraction");
}
