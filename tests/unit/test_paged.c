/* paged against the figures of the paper (Kwon et al., SOSP 2023) and what vLLM's block manager does. Sizes
 * are in tokens of 1000 bytes where nothing else is said; every step is fully checked. */
#include "tests/unit/policy_run.h"

#include "policies/registry.h"

enum {
    TOKEN = 1000
};

static asim_alloc_result ask_cache(pr_run *run, uint32_t id, uint64_t size, unsigned lane)
{
    return pr_step(run, (asim_event){ASIM_EV_ALLOC, ASIM_ALLOC_GROWS, (uint16_t)lane, id, size});
}

static void begin(pr_run *run, uint32_t id, uint64_t size)
{
    cr_assert_eq(ask_cache(run, id, size, 0), ASIM_PLACED);
}

static asim_alloc_result resize(pr_run *run, uint32_t id, uint64_t size)
{
    return pr_step(run, (asim_event){.kind = ASIM_EV_RESIZE, .id = id, .size = size});
}

static void grow(pr_run *run, uint32_t id, uint64_t size)
{
    cr_assert_eq(resize(run, id, size), ASIM_PLACED);
}

static void prefix(pr_run *run, uint32_t id, uint64_t size)
{
    pr_step(run, (asim_event){.kind = ASIM_EV_PREFIX, .id = id, .size = size});
}

static uint64_t blocks_in_use(const pr_run *run, uint64_t block_bytes)
{
    return pr_metric(run, ASIM_METRIC_allocated_bytes) / block_bytes;
}

#define FOUR "block_tokens=4,token_bytes=1000,pool=100000" /* 25 blocks of 4 tokens */

/* Section 4.3, figure 6: blocks of 4 tokens, a prompt of 7. The prompt takes 2 blocks, the first token that
 * is generated the room left in the second, the next one a third block. */
Test(paged, figure_6_growth_by_one_block)
{
    pr_run run = pr_start(&asim_policy_paged, FOUR, GIB);
    begin(&run, 0, 7 * TOKEN);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), 100000);
    const uint64_t stall = pr_metric(&run, ASIM_METRIC_stall_ns);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 2);
    cr_expect_eq(pr_own(&run, "tail_waste_bytes"), 1 * TOKEN);
    grow(&run, 0, 8 * TOKEN);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 2);
    cr_expect_eq(pr_own(&run, "tail_waste_bytes"), 0);
    grow(&run, 0, 9 * TOKEN);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 3);
    cr_expect_eq(pr_own(&run, "tail_waste_bytes"), 3 * TOKEN);
    cr_expect_eq(pr_own(&run, "kv_blocks"), 25);
    cr_expect_eq(pr_own(&run, "peak_kv_blocks"), 3);
    cr_expect_eq(pr_own(&run, "block_copies"), 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_moved_bytes), 0); /* nothing is copied to grow */
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_stall_ns), stall);
    pr_free(&run, 0);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 0);
    cr_expect_eq(pr_own(&run, "peak_tail_waste_bytes"), 3 * TOKEN);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), 100000); /* the pool stays */
    pr_end(&run);
}

/* Section 4.4, figure 8: two samples of one prompt of 7 tokens share its 2 blocks. The first to write finds
 * 2 references on the last one and copies it; the other then has it alone and writes in place. */
Test(paged, figure_8_copy_on_write)
{
    pr_run run = pr_start(&asim_policy_paged, FOUR, GIB);
    begin(&run, 0, 7 * TOKEN);
    prefix(&run, 0, 7 * TOKEN);
    begin(&run, 1, 7 * TOKEN);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 2);
    cr_expect_eq(pr_own(&run, "peak_shared_blocks"), 2);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_requested_bytes), 14 * TOKEN);
    grow(&run, 0, 8 * TOKEN);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 3);
    cr_expect_eq(pr_own(&run, "block_copies"), 1);
    grow(&run, 1, 8 * TOKEN);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 3);
    cr_expect_eq(pr_own(&run, "block_copies"), 1);
    grow(&run, 0, 9 * TOKEN);
    grow(&run, 1, 9 * TOKEN);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 5); /* 1 shared, and 2 each */
    cr_expect_eq(pr_own(&run, "block_copies"), 1);
    pr_free(&run, 0);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 3); /* the other keeps the shared one */
    pr_free(&run, 1);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 0);
    cr_expect_eq(pr_own(&run, "peak_kv_blocks"), 5);
    pr_end(&run);
}

/* A copy is of one block and takes the profile's time: generic-80g has 5000 ns for each, and 1.2 TB/s: 10000
 * ns for 12 MB. */
Test(paged, a_copy_costs_time)
{
    pr_run run = pr_start(&asim_policy_paged, "block_bytes=12000000,pool=120000000", GIB);
    begin(&run, 0, 1);
    const uint64_t before = pr_metric(&run, ASIM_METRIC_stall_ns);
    prefix(&run, 0, 1);
    begin(&run, 1, 2); /* writes behind the prefix at once */
    cr_expect_eq(pr_own(&run, "block_copies"), 1);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_stall_ns) - before, 15000);
    pr_end(&run);
}

/* Section 1 and 3: a token of OPT-13B has 800 KiB, a sequence of 2048 tokens 1.6 GB; vLLM's blocks hold 16
 * tokens: 12.5 MiB, and 128 of them for that sequence. */
Test(paged, the_papers_model)
{
    pr_run run = pr_start(&asim_policy_paged, "", 4 * GIB);
    begin(&run, 0, 2048 * 800 * KIB);
    cr_expect_eq(pr_own(&run, "kv_block_bytes"), 13107200);
    cr_expect_eq(pr_own(&run, "peak_kv_blocks"), 128);
    /* 0.9 of 4 GiB is 3,865,470,566 bytes: 294 blocks */
    cr_expect_eq(pr_own(&run, "kv_blocks"), 294);
    pr_end(&run);
}

/* vLLM's gpu_memory_utilization: the pool takes what others left of that share. 0.9 GiB is 966,367,641 bytes;
 * 256 MiB are there already, and 697,932,185 bytes hold 665 blocks of 1 MiB. */
Test(paged, the_pool_takes_what_is_left)
{
    pr_run run = pr_start(&asim_policy_paged, "block_bytes=1MiB", GIB);
    pr_alloc(&run, 0, 256 * MIB, 0);
    begin(&run, 1, 1);
    cr_expect_eq(pr_own(&run, "kv_blocks"), 665);
    cr_expect_eq(run.book->sizes[1], 665 * MIB);
    cr_expect_eq(ask_cache(&run, 2, MIB, PR_STREAMS),
                 ASIM_PLACED); /* the other device has a pool of its own */
    cr_expect_eq(pr_own(&run, "kv_blocks"), 665 + 921);
    pr_end(&run);
    run = pr_start(&asim_policy_paged, "block_bytes=1MiB,utilization=0.2", GIB);
    pr_alloc(&run, 0, 256 * MIB, 0); /* more than 0.2 of it */
    cr_expect_eq(ask_cache(&run, 1, 1, 0), ASIM_REFUSED);
    pr_free(&run, 0);
    pr_step(&run, (asim_event){.kind = ASIM_EV_TRIM, .lane = ASIM_LANE_ALL});
    pr_free(&run, 1);
    begin(&run, 1, 1); /* it tries again */
    cr_expect_eq(pr_own(&run, "kv_blocks"), 204);
    pr_end(&run);
}

/* vLLM's allocator gives blocks never used in ascending order, and those given back before them, the last
 * first; a table is given back from its first block on. */
Test(paged, order_of_blocks)
{
    pr_run run = pr_start(&asim_policy_paged, "block_bytes=4096,pool=64KiB", GIB);
    begin(&run, 0, 3 * 4096);
    const uint64_t third = run.placed.address; /* of the last block */
    begin(&run, 1, 4096);
    cr_expect_eq(run.placed.address, third + 4096);
    pr_free(&run, 0); /* blocks 0, 1, 2 */
    begin(&run, 2, 4096);
    cr_expect_eq(run.placed.address, third);
    begin(&run, 3, 4096);
    cr_expect_eq(run.placed.address, third - 4096);
    begin(&run, 4, 2 * 4096);
    cr_expect_eq(run.placed.address, third + 2 * 4096); /* block 0, then one never used */
    pr_end(&run);
}

/* Less than one block of each sequence is lost, whatever the lengths (section 4.3). */
Test(paged, waste_is_below_a_block_a_cache)
{
    pr_run run = pr_start(&asim_policy_paged, "block_bytes=4096,pool=16MiB", GIB);
    asim_rng rng = {5};
    uint64_t sizes[50] = {0}, sum = 0, held = 0;
    for (uint32_t i = 0; i < 50; i++)
        begin(&run, i, sizes[i] = 1 + asim_rng_below(&rng, 60000));
    for (int step = 0; step < 300; step++) {
        uint32_t i = (uint32_t)asim_rng_below(&rng, 50);
        grow(&run, i, sizes[i] += asim_rng_below(&rng, 3000));
    }
    for (uint32_t i = 0; i < 50; i++) {
        sum += sizes[i];
        held += (sizes[i] + 4095) / 4096 * 4096;
    }
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_allocated_bytes), held);
    cr_expect_eq(pr_own(&run, "tail_waste_bytes"), held - sum);
    cr_expect_lt(pr_own(&run, "peak_tail_waste_bytes"), 50 * 4096);
    pr_end(&run);
}

/* Of blocks of 4 tokens, a prefix of 10 shares 2; the third is copied when the new cache is longer. */
Test(paged, prefixes)
{
    pr_run run = pr_start(&asim_policy_paged, FOUR, GIB);
    begin(&run, 0, 20 * TOKEN);
    prefix(&run, 0, 10 * TOKEN);
    begin(&run, 1, 12 * TOKEN);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 6);
    cr_expect_eq(pr_own(&run, "block_copies"), 1);
    prefix(&run, 0, 8 * TOKEN); /* whole blocks: no copy */
    begin(&run, 2, 9 * TOKEN);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 7);
    cr_expect_eq(pr_own(&run, "block_copies"), 1);
    cr_expect_eq(pr_own(&run, "peak_shared_blocks"), 2); /* of three tables now */
    begin(&run, 3, 4 * TOKEN);                           /* a prefix is for one cache only */
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 8);
    prefix(&run, 0, 100 * TOKEN); /* longer than both: the 6 tokens of the new one */
    begin(&run, 4, 6 * TOKEN);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 8);
    pr_free(&run, 0);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 5); /* 2 shared ones, 1 of 1, 1 of 2, and 3's */
    grow(&run, 4, 7 * TOKEN);                        /* the block is shared with 1 and 2 */
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 6);
    cr_expect_eq(pr_own(&run, "block_copies"), 2);
    for (uint32_t i = 1; i < 5; i++)
        pr_free(&run, i);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 0);
    pr_end(&run);
}

Test(paged, prefixes_that_share_nothing)
{
    pr_run run = pr_start(&asim_policy_paged, FOUR, GIB);
    begin(&run, 0, 8 * TOKEN);
    prefix(&run, 0, 8 * TOKEN);
    pr_free(&run, 0); /* gone before the next one begins */
    begin(&run, 1, 8 * TOKEN);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 2);
    prefix(&run, 1, 8 * TOKEN);
    cr_expect_eq(ask_cache(&run, 2, 8 * TOKEN, PR_STREAMS), ASIM_PLACED); /* on the other device */
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 4);
    begin(&run, 3, 8 * TOKEN); /* that was the cache it was meant for */
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 6);
    prefix(&run, 1, 3 * TOKEN); /* a part of one block, and the new cache is longer: only a copy */
    begin(&run, 4, 8 * TOKEN);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 8);
    cr_expect_eq(pr_own(&run, "block_copies"), 1);
    cr_expect_eq(pr_own(&run, "peak_shared_blocks"), 0);
    pr_alloc(&run, 5, 512, 0); /* does not grow */
    prefix(&run, 1, 4 * TOKEN);
    prefix(&run, 5, 512); /* the last one counts */
    begin(&run, 6, 8 * TOKEN);
    cr_expect_eq(pr_own(&run, "peak_shared_blocks"), 0);
    pr_end(&run);
}

Test(paged, shrinking)
{
    pr_run run = pr_start(&asim_policy_paged, FOUR, GIB);
    begin(&run, 0, 20 * TOKEN);
    grow(&run, 0, 5 * TOKEN);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 2);
    cr_expect_eq(pr_own(&run, "tail_waste_bytes"), 3 * TOKEN);
    prefix(&run, 0, 5 * TOKEN);
    begin(&run, 1, 5 * TOKEN);
    grow(&run, 1, 2 * TOKEN); /* back into a shared block */
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 2);
    grow(&run, 1, 3 * TOKEN); /* and a write there */
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 3);
    cr_expect_eq(pr_own(&run, "block_copies"), 1);
    grow(&run, 0, 0);
    grow(&run, 1, 0);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 0);
    grow(&run, 0, 1);
    cr_expect_eq(blocks_in_use(&run, 4 * TOKEN), 1);
    pr_end(&run);
}

Test(paged, out_of_blocks)
{
    pr_run run = pr_start(&asim_policy_paged, "block_bytes=4096,pool=18000", GIB); /* 4 blocks */
    begin(&run, 0, 3 * 4096);
    cr_expect_eq(ask_cache(&run, 1, 2 * 4096, 0), ASIM_REFUSED);
    pr_free(&run, 1);
    begin(&run, 1, 4000);
    cr_expect_eq(resize(&run, 1, 4097), ASIM_REFUSED);
    grow(&run, 1, 4096); /* it is as it was */
    prefix(&run, 1, 4096);
    begin(&run, 2, 4096); /* shares, and needs no block */
    cr_expect_eq(resize(&run, 0, UINT64_MAX), ASIM_REFUSED);
    cr_expect_eq(resize(&run, 0, UINT64_C(1) << 59), ASIM_REFUSED);
    cr_expect_eq(ask_cache(&run, 3, UINT64_MAX, 0), ASIM_REFUSED);
    pr_free(&run, 3);
    cr_expect_eq(ask_cache(&run, 3, 0, 0), ASIM_PLACED); /* an empty cache may grow later */
    cr_expect_eq(resize(&run, 3, 1), ASIM_REFUSED);
    pr_free(&run, 0);
    grow(&run, 3, 3 * 4096);
    asim_run_record record;
    asim_engine_record(run.engine, &record);
    cr_expect(record.has_oom && record.oom.requested_bytes == 2 * 4096);
    cr_expect_eq(record.metrics[ASIM_METRIC_ooms], 6);
    pr_end(&run);
    run = pr_start(&asim_policy_paged, "block_bytes=4096,pool=2GiB", GIB);
    cr_expect_eq(ask_cache(&run, 0, 1, 0), ASIM_REFUSED); /* the pool is larger than the device */
    pr_end(&run);
}

/* The blocks of a cache whose free completes later stay in use until then. */
Test(paged, recorded_completions)
{
    pr_run run = pr_start(&asim_policy_paged, "block_bytes=4096,pool=16KiB", GIB);
    begin(&run, 0, 3 * 4096);
    pr_step(&run, (asim_event){ASIM_EV_FREE, ASIM_FREE_PENDING, 0, 0, 0});
    cr_expect_eq(blocks_in_use(&run, 4096), 3);
    cr_expect_eq(ask_cache(&run, 1, 2 * 4096, 0), ASIM_REFUSED);
    pr_free(&run, 1);
    pr_step(&run, (asim_event){.kind = ASIM_EV_FREE_DONE, .id = 0});
    cr_expect_eq(blocks_in_use(&run, 4096), 0);
    begin(&run, 1, 4 * 4096);
    pr_end(&run);
}

Test(paged, everything_else_goes_to_the_rest)
{
    pr_run run = pr_start(&asim_policy_paged, "block_bytes=1MiB,pool=100MiB", GIB);
    pr_alloc(&run, 0, 1000, 0);
    cr_expect_eq(run.placed.size, 1024); /* torchcache: multiples of 512, segments of 2 MiB */
    cr_expect_eq(run.book->sizes[0], 2 * MIB);
    begin(&run, 1, 1);
    cr_expect_eq(run.book->sizes[1], 100 * MIB);
    cr_expect_eq(resize(&run, 0, 3000), ASIM_PLACED); /* the engine allocates, copies and frees */
    cr_expect_eq(run.placed.size, 3072);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_moved_bytes), 1000);
    cr_expect_eq(pr_ask(&run, 2, 0, 0), ASIM_NOTHING);
    cr_expect(pr_refuses(&run, 3, 2 * GIB, 0));
    cr_expect_eq(pr_stat(&run, "num_ooms"), 1); /* torchcache's statistics */
    pr_end(&run);
}

Test(paged, parameters)
{
    pr_usage(&asim_policy_paged, "block_bytes=4096,token_bytes=1",
             "block_bytes excludes block_tokens and token_bytes");
    pr_usage(&asim_policy_paged, "block_bytes=4096,block_tokens=8",
             "block_bytes excludes block_tokens and token_bytes");
    pr_usage(&asim_policy_paged, "pool=1MiB", "pool=1048576 bytes holds no block of 13107200");
    pr_usage(&asim_policy_paged, "utilization=1.5", "utilization=1.5: out of range");
    pr_usage(&asim_policy_paged, "block_tokens=0", "out of range; allowed: 1 to 65536");
}
