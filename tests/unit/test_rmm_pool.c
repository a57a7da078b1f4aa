/* rmm-pool against what RMM's own tests assert (cpp/tests/mr/pool_mr_tests.cpp of release 26.06, named at
 * each test), and against hand calculations by the rules of its sources. */
#include "tests/unit/policy_run.h"

/* ThrowMaxLessThanInitial, NonAlignedPoolSize, with the sizes used there. */
Test(rmm_pool, sizes_that_the_constructor_refuses)
{
    pr_usage(&asim_policy_rmm_pool, "initial_pool_size=1024,maximum_pool_size=256", "exceeds");
    pr_usage(&asim_policy_rmm_pool, "initial_pool_size=1000031,maximum_pool_size=1000192",
             "initial_pool_size");
    pr_usage(&asim_policy_rmm_pool, "initial_pool_size=1000192,maximum_pool_size=1000200",
             "maximum_pool_size");
    pr_usage(&asim_policy_rmm_pool, "maximum_pool_size=1MiB", "by default half"); /* of 1 GiB */
}

/* InitialAndMaxPoolSizeEqual; PoolSize: at least the initial 1 MiB. */
Test(rmm_pool, initial_size)
{
    pr_run run = pr_start(&asim_policy_rmm_pool, "initial_pool_size=1000192,maximum_pool_size=1000192", GIB);
    pr_alloc(&run, 0, 1000, 0);
    cr_expect_eq(run.book->sizes[0], 1000192);
    cr_expect_eq(run.placed.size, 1024); /* 1000 in steps of 256 */
    pr_end(&run);
    run = pr_start(&asim_policy_rmm_pool, "initial_pool_size=1MiB", GIB);
    pr_alloc(&run, 0, 4096, 0);
    cr_expect_geq(run.book->reserved, MIB);
    pr_end(&run);
}

/* AllocateNinetyPercent and TwoLargeBuffers: half of the free memory at first serves a quarter twice. */
Test(rmm_pool, two_large_buffers)
{
    pr_run run = pr_start(&asim_policy_rmm_pool, "", GIB);
    pr_alloc(&run, 0, GIB / 4, 0);
    pr_alloc(&run, 1, GIB / 4, 0);
    cr_expect_eq(run.book->allocs, 1);
    cr_expect_eq(run.book->reserved, GIB / 2);
    pr_end(&run);
}

/* ForceGrowth, first half: 1000, 4000 and 500 bytes fit into 6000 of the upstream, 2000 more don't. There the
 * upstream counts bytes; the model device counts in pages of 2 MiB, so the same with 2 MiB for 1000 bytes.
 * 2 MiB -> pool of 2; 8 MiB -> at least as much as the pool holds: 8, in all 10; 1 MiB -> doubles the pool by
 * 10, which the device (12 MiB) refuses, then 5, 2.5, 1.25; that has 2 MiB; in all 11.25. 4 MiB: refused. */
Test(rmm_pool, force_growth)
{
    pr_run run = pr_start(&asim_policy_rmm_pool, "initial_pool_size=0", 12 * MIB);
    pr_alloc(&run, 0, 2 * MIB, 0);
    pr_alloc(&run, 1, 8 * MIB, 0);
    pr_alloc(&run, 2, MIB, 0);
    cr_expect(pr_refuses(&run, 3, 4 * MIB, 0));
    cr_assert_eq(run.book->allocs, 3);
    cr_expect_eq(run.book->sizes[0], 2 * MIB);
    cr_expect_eq(run.book->sizes[1], 8 * MIB);
    cr_expect_eq(run.book->sizes[2], MIB + MIB / 4);
    pr_end(&run);
}

/* ForceGrowth, second half, with its own numbers: a maximum of 8192 bytes. 1000 takes half of that, 4096, of
 * which 1024 are used; 4000 (4096 rounded) finds 3072 free there, and 4096 are left: the pool grows by them,
 * which there the upstream's limit of 6000 forbids and here nothing does; 500 and 2000 fit into the 3072. */
Test(rmm_pool, force_growth_with_a_maximum)
{
    pr_run run = pr_start(&asim_policy_rmm_pool, "initial_pool_size=0,maximum_pool_size=8192", GIB);
    pr_alloc(&run, 0, 1000, 0);
    cr_expect_eq(run.book->sizes[0], 4096);
    cr_expect(pr_refuses(&run, 1, 4096 + 1, 0));
    pr_alloc(&run, 1, 500, 0);
    cr_expect_eq(run.placed.size, 512);
    pr_alloc(&run, 2, 2000, 0);
    cr_expect_eq(run.placed.size, 2048);
    cr_expect_eq(run.book->allocs, 1);
    pr_alloc(&run, 3, 4000, 0);
    cr_expect_eq(run.book->sizes[1], 4096);
    cr_expect_eq(run.placed.size, 4096);
    cr_expect(pr_refuses(&run, 4, 1024, 0)); /* the pool has its maximum, 512 bytes are free */
    pr_alloc(&run, 4, 512, 0);
    pr_end(&run);
}

/* The halves may end in odd sizes: of 7424 left of 8448, half is 3712 = 14.5 * 256; the last 128 bytes of
 * that region are a block that nothing fits into, until its neighbour is free. */
Test(rmm_pool, odd_halves)
{
    pr_run run = pr_start(&asim_policy_rmm_pool, "initial_pool_size=1024,maximum_pool_size=8448", GIB);
    pr_alloc(&run, 0, 1024, 0);
    pr_alloc(&run, 1, 3584, 0);
    cr_expect_eq(run.book->sizes[1], 3712);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_largest_free_bytes), 128);
    pr_free(&run, 1);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_largest_free_bytes), 3712);
    pr_end(&run);
}

Test(rmm_pool, zero_and_huge)
{
    pr_run run = pr_start(&asim_policy_rmm_pool, "", GIB);
    cr_expect_eq(pr_ask(&run, 0, 0, 0), ASIM_NOTHING);
    cr_expect(pr_refuses(&run, 1, UINT64_C(1) << 50, 0)); /* RMM's tests: 1 PiB is out of memory */
    cr_expect(pr_refuses(&run, 1, UINT64_MAX, 0));
    cr_expect(pr_refuses(&run, 1, UINT64_MAX - 255, 0));
    pr_end(&run);
}

/* Blocks freed on two streams don't merge until one of them needs it; best fit within a list. The pool of
 * 4 MiB lies on the default stream's list: the others take from there. */
Test(rmm_pool, lists_of_streams)
{
    pr_run run = pr_start(&asim_policy_rmm_pool, "initial_pool_size=4MiB,maximum_pool_size=4MiB", GIB);
    const uint64_t base = pr_alloc(&run, 0, MIB, 1);
    cr_expect_eq(pr_own(&run, "pool_stream_waits"), 1);
    cr_expect_eq(pr_alloc(&run, 1, MIB, 2), base + MIB);
    cr_expect_eq(pr_alloc(&run, 2, MIB, 1), base + 2 * MIB);
    cr_expect_eq(pr_alloc(&run, 3, MIB, 2), base + 3 * MIB);
    pr_free(&run, 0);
    pr_free(&run, 1);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_largest_free_bytes), MIB); /* lists 1 and 2: unmerged */
    cr_expect_eq(pr_own(&run, "pool_list_merges"), 0);
    cr_expect_eq(pr_alloc(&run, 0, 512 * KIB, 2), base + MIB); /* its own list first */
    pr_free(&run, 0);
    cr_expect_eq(pr_alloc(&run, 0, 2 * MIB, 1), base); /* 2's list merged into 1's */
    cr_expect_eq(pr_own(&run, "pool_list_merges"), 1);
    pr_free(&run, 0);
    cr_expect_eq(pr_alloc(&run, 0, MIB, 3), base); /* from list 1; its rest goes back there */
    cr_expect_eq(pr_alloc(&run, 1, MIB, 1), base + MIB);
    cr_expect(pr_refuses(&run, 4, 1, 0));
    pr_end(&run);
}

/* Best fit, and of equals the lower address. */
Test(rmm_pool, best_fit)
{
    pr_run run = pr_start(&asim_policy_rmm_pool, "initial_pool_size=8MiB,maximum_pool_size=8MiB", GIB);
    const uint64_t sizes[] = {3, 1, 2, 1, 1};
    uint64_t at[5];
    for (uint32_t i = 0; i < 5; i++)
        at[i] = pr_alloc(&run, i, sizes[i] * MIB, 0);
    pr_free(&run, 0); /* 3, live, 2, live, 1: free are 3, 2 and 1 MiB */
    pr_free(&run, 2);
    pr_free(&run, 4);
    cr_expect_eq(pr_alloc(&run, 5, MIB, 0), at[4]);
    cr_expect_eq(pr_alloc(&run, 6, MIB, 0), at[2]); /* leaves 1 there */
    pr_free(&run, 5);
    cr_expect_eq(pr_alloc(&run, 5, MIB, 0), at[2] + MIB); /* two of 1 MiB */
    pr_end(&run);
}

Test(rmm_pool, uses_by_other_streams)
{
    pr_run run = pr_start(&asim_policy_rmm_pool, "initial_pool_size=2MiB,maximum_pool_size=2MiB", GIB);
    const uint64_t base = pr_alloc(&run, 0, MIB, 0);
    pr_use(&run, 0, 1);
    pr_free(&run, 0);
    cr_expect_eq(pr_alloc(&run, 1, MIB, 0), base + MIB); /* not that one yet */
    pr_sync(&run, 1);
    cr_expect_eq(pr_alloc(&run, 2, MIB, 0), base);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_sync_waits), 0);
    pr_use(&run, 2, 1);
    pr_free(&run, 2);
    cr_expect_eq(pr_alloc(&run, 3, MIB, 0), base); /* waited for */
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_sync_waits), 1);
    pr_end(&run);
}
