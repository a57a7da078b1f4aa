/* rmm-binning against what RMM's documentation and tests state (release 26.06, cited at each test), and
 * against hand calculations by the rules of its sources. */
#include "tests/unit/policy_run.h"

/* binning_memory_resource.hpp: "min_size_exponent==18 and max_size_exponent==22 creates bins of sizes 256KiB,
 * 512KiB, 1024KiB, 2048KiB and 4096KiB"; fixed_size_memory_resource.hpp: 128 blocks preallocated in each. */
Test(rmm_binning, bins_of_the_documentation)
{
    pr_run run = pr_start(&asim_policy_rmm_binning, "min_size_exponent=18,max_size_exponent=22", 4 * GIB);
    const uint64_t kib[] = {256, 512, 1024, 2048, 4096};
    pr_alloc(&run, 0, 1, 0);
    cr_assert_eq(run.book->allocs, 5);
    for (uint32_t i = 0; i < 5; i++) {
        cr_expect_eq(run.book->sizes[i], 128 * kib[i] * KIB);
        pr_alloc(&run, 1 + i, kib[i] * KIB, 0);
        cr_expect_eq(run.placed.size, kib[i] * KIB);
        pr_alloc(&run, 10 + i, kib[i] * KIB - 255, 0);
        cr_expect_eq(run.placed.size, kib[i] * KIB);
        cr_expect_eq(run.placed.rounded, kib[i] * KIB);
    }
    cr_expect_eq(run.book->allocs, 5);
    pr_alloc(&run, 20, 4 * MIB + 1, 0); /* larger than all bins: the upstream's */
    cr_expect_eq(run.placed.size, 4 * MIB + 1);
    cr_expect_eq(run.book->sizes[5], 4 * MIB + 1);
    pr_free(&run, 20);
    cr_expect_eq(run.book->frees, 1);
    pr_end(&run);
}

/* test_binning_memory_resource.py: exponents 10 to 17 make bins of 1 KiB to 128 KiB.
 * BinningTest.ExplicitBinMR: 512 bytes come from a bin of 1024. */
Test(rmm_binning, bins_of_the_tests)
{
    pr_run run = pr_start(&asim_policy_rmm_binning, "min_size_exponent=10,max_size_exponent=17", GIB);
    pr_alloc(&run, 0, 512, 0);
    cr_expect_eq(run.placed.size, 1024);
    cr_expect_eq(run.book->allocs, 8);
    cr_expect_eq(run.book->sizes[7], 128 * 128 * KIB);
    pr_alloc(&run, 1, 128 * MIB, 0);
    cr_expect_eq(run.book->sizes[8], 128 * MIB);
    pr_end(&run);
}

/* fixed_size_memory_resource.hpp: default blocks of 1 MiB, and the pool grows by 128 when all are taken. */
Test(rmm_binning, grows_by_as_many_blocks)
{
    pr_run run = pr_start(&asim_policy_rmm_binning, "min_size_exponent=20,max_size_exponent=20", GIB);
    const uint64_t base = pr_alloc(&run, 0, MIB, 0);
    for (uint32_t i = 1; i < 128; i++)
        cr_expect_eq(pr_alloc(&run, i, 1, 0), base + i * MIB);
    cr_expect_eq(run.book->allocs, 1);
    pr_alloc(&run, 128, 1, 0);
    cr_expect_eq(run.book->allocs, 2);
    cr_expect_eq(run.book->sizes[1], 128 * MIB);
    pr_end(&run);
}

/* First in, first out; a stream without free blocks takes from the first that has some. */
Test(rmm_binning, queues_of_streams)
{
    pr_run run = pr_start(&asim_policy_rmm_binning,
                          "min_size_exponent=20,max_size_exponent=20,blocks_to_preallocate=4", GIB);
    const uint64_t base = pr_alloc(&run, 0, MIB, 0);
    pr_alloc(&run, 1, MIB, 0);
    pr_free(&run, 1);
    cr_expect_eq(pr_alloc(&run, 1, MIB, 0), base + 2 * MIB); /* not the one freed last */
    cr_expect_eq(pr_alloc(&run, 2, MIB, 1), base + 3 * MIB);
    cr_expect_eq(pr_alloc(&run, 3, MIB, 2), base + MIB); /* the default stream's, and now none is free */
    pr_free(&run, 3);                                    /* to 2's queue */
    pr_free(&run, 2);                                    /* to 1's */
    cr_expect_eq(pr_alloc(&run, 4, MIB, 2), base + MIB);
    cr_expect_eq(pr_alloc(&run, 5, MIB, 0), base + 3 * MIB);
    pr_alloc(&run, 6, MIB, 1);
    cr_expect_eq(run.book->allocs, 2);
    pr_end(&run);
}

/* Bins below 256 bytes are one of 256; none at all where an exponent is none (Python's default of -1). */
Test(rmm_binning, smallest_and_no_bins)
{
    pr_run run = pr_start(&asim_policy_rmm_binning, "min_size_exponent=0,max_size_exponent=9", GIB);
    pr_alloc(&run, 0, 1, 0);
    cr_expect_eq(run.placed.size, 256);
    cr_expect_eq(run.book->allocs, 2); /* 256 and 512 */
    pr_end(&run);
    run = pr_start(&asim_policy_rmm_binning, "min_size_exponent=none", GIB);
    pr_alloc(&run, 0, 1000, 0);
    cr_expect_eq(run.placed.size, 1000); /* cudaMalloc gets what was asked for */
    pr_free(&run, 0);
    cr_expect_eq(run.book->reserved, 0);
    pr_end(&run);
}

/* Over a pool (the third upstream of test_binning_memory_resource.py: PoolMemoryResource of 1 << 28): bins
 * and larger requests share its region. Eight bins of 128 blocks: 128 * 255 KiB in front, the rest behind. */
Test(rmm_binning, over_a_pool)
{
    pr_run run =
        pr_start(&asim_policy_rmm_binning,
                 "min_size_exponent=10,max_size_exponent=17,upstream=pool,initial_pool_size=256MiB", GIB);
    const uint64_t base = pr_alloc(&run, 0, 1024, 0);
    cr_expect_eq(run.book->allocs, 1);
    cr_expect_eq(run.book->sizes[0], 256 * MIB);
    cr_expect_eq(pr_alloc(&run, 1, 128 * KIB, 0), base + 128 * 127 * KIB);
    cr_expect_eq(pr_alloc(&run, 2, MIB + 1, 0), base + 128 * 255 * KIB);
    cr_expect_eq(run.placed.size, MIB + 256);
    pr_alloc(&run, 3, 255 * MIB, 0); /* the pool doubles */
    cr_expect_eq(run.book->sizes[1], 256 * MIB);
    pr_end(&run);
}

Test(rmm_binning, zero_huge_and_not_enough)
{
    pr_run run = pr_start(&asim_policy_rmm_binning, "", 4 * GIB);
    cr_expect_eq(pr_ask(&run, 0, 0, 0), ASIM_NOTHING);
    cr_expect(pr_refuses(&run, 1, UINT64_C(1) << 50, 0)); /* RMM's tests: 1 PiB is out of memory */
    cr_expect(pr_refuses(&run, 1, UINT64_MAX, 0));
    pr_end(&run);
    run = pr_start(&asim_policy_rmm_binning, "", 512 * MIB); /* 992 MiB of bins */
    cr_expect(pr_refuses(&run, 0, 1, 0));
    cr_expect_eq(run.book->reserved, 0); /* the first four were had and given back */
    cr_expect_eq(run.book->frees, 4);
    pr_end(&run);
}

Test(rmm_binning, uses_by_other_streams)
{
    pr_run run = pr_start(&asim_policy_rmm_binning,
                          "min_size_exponent=20,max_size_exponent=20,blocks_to_preallocate=2", 4 * MIB);
    const uint64_t base = pr_alloc(&run, 0, MIB, 0);
    pr_use(&run, 0, 1);
    pr_free(&run, 0);
    cr_expect_eq(pr_alloc(&run, 1, MIB, 0), base + MIB);
    pr_sync(&run, 1);
    cr_expect_eq(pr_alloc(&run, 2, MIB, 0), base);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_sync_waits), 0);
    pr_alloc(&run, 3, 2 * MIB, 0); /* larger than the bin: the rest of the device */
    pr_use(&run, 2, 1);
    pr_use(&run, 3, 2);
    pr_free(&run, 2);
    pr_free(&run, 3);
    cr_expect_eq(pr_alloc(&run, 4, MIB, 0), base); /* no slab can be had: both are waited for */
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_sync_waits), 1);
    cr_expect_eq(run.book->completed, 3);
    cr_expect_eq(run.book->reserved, 2 * MIB);
    pr_end(&run);
}

Test(rmm_binning, conflicts)
{
    pr_usage(&asim_policy_rmm_binning, "min_size_exponent=22,max_size_exponent=18", "above");
    pr_usage(&asim_policy_rmm_binning, "initial_pool_size=1MiB", "upstream=pool");
    pr_usage(&asim_policy_rmm_binning, "maximum_pool_size=1MiB", "upstream=pool");
    pr_usage(&asim_policy_rmm_binning, "upstream=pool,initial_pool_size=1000", "256");
    pr_usage(&asim_policy_rmm_binning, "max_size_exponent=31", "max_size_exponent");
    pr_usage(&asim_policy_rmm_binning, "upstream=arena", "upstream");
}
