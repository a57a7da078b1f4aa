/* native against what NVIDIA documents of cudaMalloc and cudaFree, named at each test. */
#include "tests/unit/policy_run.h"

/* Every allocation is a call, every free is one, and nothing is kept. */
Test(native, one_call_each)
{
    const uint64_t sizes[] = {1, 256, 257, MIB, 3 * MIB + 1};
    const uint64_t counted[] = {256, 256, 512, MIB, 3 * MIB + 256};
    pr_run run = pr_start(&asim_policy_native, "", GIB);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 5; i++) {
        const uint64_t address = pr_alloc(&run, i, sizes[i], i % PR_STREAMS);
        cr_expect_eq(address % 256, 0); /* Programming Guide: aligned to at least 256 bytes */
        cr_expect_eq(run.placed.size, counted[i]);
        cr_expect_eq(run.book->sizes[i], counted[i]);
        sum += counted[i];
    }
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), sum);
    for (uint32_t i = 0; i < 5; i++)
        pr_free(&run, i);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_device_allocs), 5);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_device_frees), 5);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_peak_reserved_bytes), sum);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_sync_waits), 5);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_free_bytes), 0);
    pr_end(&run);
}

/* "Managing memory allocations using cudaMalloc and cudaFree causes the GPU to synchronize across all
 * executing CUDA streams": a block of stream 0 is freed while stream 1 is busy for 1 ms. In nanoseconds, with
 * the costs of generic-80g: hit 500 + cudaMalloc of 1 MiB 100000 + 500 = 101000; launch 5000: stream 1 is
 * busy until 106000 + 1000000; hit 500: the host stands at 106500 and waits 999500; cudaFree of 1 MiB 100000
 * + 300. */
Test(native, a_free_waits_for_every_stream_of_the_device)
{
    pr_run run = pr_start_by_clock(&asim_policy_native, "", GIB);
    pr_alloc(&run, 0, MIB, 0);
    pr_kernel(&run, 1, 1000000);
    pr_free(&run, 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_stall_ns), 100500 + 999500 + 100300);
    pr_end(&run);
    run = pr_start_by_clock(&asim_policy_native, "", GIB); /* another device's streams are no matter */
    pr_alloc(&run, 0, MIB, 0);
    pr_kernel(&run, PR_STREAMS, 1000000);
    pr_free(&run, 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_stall_ns), 100500 + 100300);
    pr_end(&run);
}

/* The wait of cudaFree covers the other streams that use the block: its memory is free at once. */
Test(native, a_block_that_other_streams_use)
{
    pr_run run = pr_start(&asim_policy_native, "", 4 * MIB);
    pr_alloc(&run, 0, 3 * MIB, 0);
    pr_use(&run, 0, 1);
    cr_expect(pr_refuses(&run, 1, 2 * MIB, 0));
    pr_free(&run, 0);
    pr_alloc(&run, 1, 4 * MIB, 0);
    pr_end(&run);
}

/* cuMemAlloc: no bytes are an invalid value, too many are out of memory. */
Test(native, zero_and_huge)
{
    pr_run run = pr_start(&asim_policy_native, "", GIB);
    cr_expect_eq(pr_ask(&run, 0, 0, 0), ASIM_NOTHING);
    cr_expect(pr_refuses(&run, 1, GIB + 1, 0));
    cr_expect(pr_refuses(&run, 1, UINT64_C(1) << 62, 0));
    cr_expect(pr_refuses(&run, 1, UINT64_MAX - 255, 0));
    cr_expect(pr_refuses(&run, 1, UINT64_MAX, 0));
    pr_alloc(&run, 1, GIB, 0);
    pr_end(&run);
}

/* Pages of 2 MiB: three requests of 1 byte hold what the driver's pages hold. */
Test(native, counted_in_pages)
{
    pr_run run = pr_start(&asim_policy_native, "align=2MiB", GIB);
    for (uint32_t i = 0; i < 3; i++)
        pr_alloc(&run, i, 1, 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), 6 * MIB);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_internal_frag_bytes), 6 * MIB - 3);
    pr_end(&run);
}
