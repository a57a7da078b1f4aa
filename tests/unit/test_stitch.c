/* stitch against the states of GMLake's search (S1 to S5 of the paper), the options of its published code
 * with what its tutorial says of them, and hand calculations beside each. Ranges of 10 MiB and more are
 * obtained as they are asked for. */
#include "tests/unit/policy_run.h"

#define ALL "fragment_limit=0"

/* Four blocks of 10 MiB fill the device, the first and third are freed: 20 MiB are free, 10 in one piece. */
static pr_run scattered(const char *params)
{
    pr_run run = pr_start(&asim_policy_stitch, params, 40 * MIB);
    for (uint32_t i = 0; i < 4; i++)
        pr_alloc(&run, i, 10 * MIB, 0);
    pr_free(&run, 0);
    pr_free(&run, 2);
    return run;
}

/* S3: together they serve 20 MiB, at a second address; no memory is obtained. A stitched block has no size of
 * its own: its pieces are booked. */
Test(stitch, s3_several_blocks)
{
    pr_run run = scattered(ALL);
    const uint64_t maps = pr_metric(&run, ASIM_METRIC_device_maps);
    pr_alloc(&run, 4, 20 * MIB, 0);
    cr_expect_eq(run.placed.region, ASIM_NO_INDEX);
    cr_expect_eq(run.placed.size, 0);
    cr_expect_eq(run.placed.rounded, 20 * MIB);
    cr_expect_eq(pr_own(&run, "stitch_stitches"), 1);
    cr_expect_eq(pr_own(&run, "stitch_address_bytes"), 20 * MIB);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), 40 * MIB);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_allocated_bytes), 40 * MIB);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_device_maps), maps + 2);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_largest_free_bytes), 0);
    pr_free(&run, 4);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_allocated_bytes), 20 * MIB);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_largest_free_bytes), 10 * MIB);
    pr_end(&run);
}

/* What a caching allocator makes of the same. */
Test(stitch, what_it_is_for)
{
    pr_run run = pr_start(&asim_policy_torchcache, "", 40 * MIB);
    for (uint32_t i = 0; i < 4; i++)
        pr_alloc(&run, i, 10 * MIB, 0);
    pr_free(&run, 0);
    pr_free(&run, 2);
    pr_alloc(&run, 4, 20 * MIB, 0); /* both segments go back, a new one comes: two driver calls and more */
    cr_expect_eq(run.book->frees, 2);
    pr_end(&run);
    run = pr_start(&asim_policy_torchcache, "", 40 * MIB); /* the same in two segments: nothing goes back */
    pr_alloc(&run, 0, 40 * MIB, 0);
    pr_free(&run, 0);
    for (uint32_t i = 0; i < 4; i++)
        pr_alloc(&run, i, 10 * MIB, 0);
    pr_free(&run, 0);
    pr_free(&run, 2);
    cr_expect(pr_refuses(&run, 4, 20 * MIB, 0));
    pr_end(&run);
    run = pr_start(&asim_policy_stitch, ALL, 40 * MIB);
    pr_alloc(&run, 0, 40 * MIB, 0);
    pr_free(&run, 0);
    for (uint32_t i = 0; i < 4; i++)
        pr_alloc(&run, i, 10 * MIB, 0);
    pr_free(&run, 0);
    pr_free(&run, 2);
    pr_alloc(&run, 4, 20 * MIB, 0);
    pr_end(&run);
}

/* S1: the stitched block stays, and serves its size again without a driver call; a primitive one of the exact
 * size goes first. While one of its chunks is in use it serves nobody. */
Test(stitch, s1_exact_match)
{
    pr_run run = scattered(ALL);
    const uint64_t first = pr_alloc(&run, 4, 20 * MIB, 0);
    const uint64_t maps = pr_metric(&run, ASIM_METRIC_device_maps);
    pr_free(&run, 4);
    cr_expect_eq(pr_alloc(&run, 4, 20 * MIB, 0), first);
    cr_expect_eq(pr_own(&run, "stitch_reuses"), 1);
    pr_free(&run, 4);
    pr_alloc(&run, 5, 10 * MIB, 0);
    cr_expect_eq(pr_own(&run, "stitch_exact_fits"), 1);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_device_maps), maps);
    cr_expect(pr_refuses(&run, 6, 20 * MIB, 0));
    pr_free(&run, 5);
    pr_end(&run);
}

/* S2: the smallest block with room is split, and its rest is another primitive block. */
Test(stitch, s2_single_block)
{
    pr_run run = pr_start(&asim_policy_stitch, ALL, GIB);
    const uint64_t large = pr_alloc(&run, 0, 30 * MIB, 0), small = pr_alloc(&run, 1, 20 * MIB, 0);
    pr_free(&run, 0);
    pr_free(&run, 1);
    cr_expect_eq(pr_alloc(&run, 2, 12 * MIB, 0), small);
    cr_expect_eq(pr_own(&run, "stitch_splits"), 1);
    cr_expect_eq(pr_alloc(&run, 3, 8 * MIB, 0), small + 12 * MIB);
    cr_expect_eq(pr_own(&run, "stitch_exact_fits"), 1);
    cr_expect_eq(pr_alloc(&run, 4, 8 * MIB, 0), large);
    pr_free(&run, 2); /* neighbours merge, as in the published code */
    pr_free(&run, 3);
    cr_expect_eq(pr_alloc(&run, 5, 20 * MIB, 0), small);
    pr_end(&run);
}

/* S4: 10 of 30 MiB are free, 20 are obtained and stitched to them; without topping up all 30 are. */
Test(stitch, s4_insufficient_blocks)
{
    for (unsigned tops_up = 0; tops_up < 2; tops_up++) {
        pr_run run = pr_start(&asim_policy_stitch, tops_up ? ALL : ALL ",top_up=false", GIB);
        pr_alloc(&run, 0, 10 * MIB, 0);
        pr_alloc(&run, 1, 10 * MIB, 0);
        pr_free(&run, 0);
        pr_alloc(&run, 2, 30 * MIB, 0);
        cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), tops_up ? 40 * MIB : 50 * MIB);
        cr_expect_eq(pr_own(&run, "stitch_top_ups"), tops_up);
        pr_end(&run);
    }
}

/* S5: out of memory. Below fragment_limit nothing is stitched, so whole ranges go back and a new one comes;
 * where the free memory lies within ranges that are in use, the request fails. */
Test(stitch, s5_out_of_memory)
{
    pr_run run = scattered("");
    pr_alloc(&run, 4, 20 * MIB, 0);
    cr_expect_eq(pr_own(&run, "stitch_stitches"), 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_alloc_retries), 1);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), 40 * MIB);
    cr_expect(pr_refuses(&run, 5, 2 * MIB, 0));
    pr_end(&run);
    run = pr_start(&asim_policy_stitch, "", 40 * MIB);
    pr_alloc(&run, 0, 40 * MIB, 0);
    pr_free(&run, 0);
    for (uint32_t i = 0; i < 4; i++)
        pr_alloc(&run, i, 10 * MIB, 0);
    pr_free(&run, 0);
    pr_free(&run, 2);
    cr_expect(pr_refuses(&run, 4, 20 * MIB, 0));
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_ooms), 1);
    pr_end(&run);
}

/* The tutorial: fragment_limit is 512 MB by default, and a request of that size is stitched; defrag_level 1
 * stitches "only when memory is not sufficient". */
Test(stitch, limits_of_the_tutorial)
{
    pr_run run = pr_start(&asim_policy_stitch, "", 2 * GIB);
    for (uint32_t i = 0; i < 4; i++)
        pr_alloc(&run, i, 256 * MIB, 0);
    pr_free(&run, 0);
    pr_free(&run, 2);
    pr_alloc(&run, 4, 512 * MIB, 0);
    cr_expect_eq(pr_own(&run, "stitch_stitches"), 1);
    pr_end(&run);
    run = pr_start(&asim_policy_stitch, "defrag_level=1,top_up=false", GIB + 512 * MIB);
    for (uint32_t i = 0; i < 4; i++)
        pr_alloc(&run, i, 256 * MIB, 0);
    pr_free(&run, 0);
    pr_free(&run, 2);
    pr_alloc(&run, 4, 512 * MIB, 0);
    cr_expect_eq(pr_own(&run, "stitch_stitches"), 0);
    pr_alloc(&run, 5, 512 * MIB, 0);
    cr_expect_eq(pr_own(&run, "stitch_stitches"), 1);
    pr_end(&run);
}

/* The tutorial's reuseLimit: a stitched block of up to so many times the request is used from its front. 12
 * of 20 MiB: the first 10 and 2 of the others, whose 8 stay free. */
Test(stitch, reuse_limit)
{
    pr_run run = scattered(ALL ",reuse_limit=10");
    const uint64_t first = pr_alloc(&run, 4, 20 * MIB, 0);
    pr_free(&run, 4);
    cr_expect_eq(pr_alloc(&run, 5, 12 * MIB, 0), first);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_allocated_bytes), 32 * MIB);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_largest_free_bytes), 8 * MIB);
    pr_alloc(&run, 6, 8 * MIB, 0);
    cr_expect_eq(pr_own(&run, "stitch_exact_fits"), 1);
    pr_free(&run, 5);
    pr_free(&run, 6);
    cr_expect_eq(pr_alloc(&run, 7, 20 * MIB, 0), first);
    pr_end(&run);
}

/* StitchFree: 20 + 24 MiB of addresses are above 40, and the first stitched block, which is not in use, ends;
 * a block in use never does. */
Test(stitch, stitch_free)
{
    pr_run run = pr_start(&asim_policy_stitch, ALL ",stitch_limit=40MiB", 80 * MIB);
    for (uint32_t i = 0; i < 4; i++)
        pr_alloc(&run, i, i < 2 ? 10 * MIB : 14 * MIB, 0);
    pr_free(&run, 0);
    pr_free(&run, 1);
    pr_alloc(&run, 4, 20 * MIB, 0);
    pr_free(&run, 2);
    pr_free(&run, 3);
    pr_free(&run, 4);
    pr_alloc(&run, 5, 24 * MIB, 0); /* 14 and 10 of the other */
    cr_expect_eq(pr_own(&run, "stitch_ends"), 1);
    cr_expect_eq(pr_own(&run, "stitch_address_bytes"), 24 * MIB);
    pr_end(&run);
}

/* With no addresses to spare every stitched block ends that is not in use, and none that is. */
Test(stitch, stitch_free_leaves_what_is_used)
{
    pr_run run = pr_start(&asim_policy_stitch, ALL ",stitch_limit=0", 80 * MIB);
    for (uint32_t i = 0; i < 8; i++)
        pr_alloc(&run, i, 10 * MIB, 0);
    for (uint32_t i = 0; i < 8; i += 2)
        pr_free(&run, i);
    pr_alloc(&run, 8, 20 * MIB, 0);
    pr_alloc(&run, 9, 20 * MIB, 0);
    cr_expect_eq(pr_own(&run, "stitch_ends"), 0);
    cr_expect_eq(pr_own(&run, "stitch_address_bytes"), 40 * MIB);
    pr_free(&run, 8);
    pr_free(&run, 1);
    pr_alloc(&run, 10, 30 * MIB, 0);
    cr_expect_eq(pr_own(&run, "stitch_ends"), 1);
    pr_end(&run);
}

/* Largest first: of 10, 12 and 14 MiB that are free, 20 take 14 and 6 of the 12. */
Test(stitch, order_of_stitching)
{
    pr_run run = pr_start(&asim_policy_stitch, ALL, GIB);
    for (uint32_t i = 0; i < 3; i++)
        pr_alloc(&run, i, (10 + 2 * i) * MIB, 0);
    for (uint32_t i = 0; i < 3; i++)
        pr_free(&run, i);
    pr_alloc(&run, 3, 20 * MIB, 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_largest_free_bytes), 10 * MIB);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_free_bytes), 16 * MIB);
    pr_end(&run);
}

/* What stitching costs, with generic-80g: a range of addresses 20000 ns, and two maps of 5 chunks each. */
Test(stitch, costs)
{
    pr_run run = scattered(ALL);
    const uint64_t before = pr_metric(&run, ASIM_METRIC_stall_ns);
    pr_alloc(&run, 4, 20 * MIB, 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_stall_ns) - before, 20000 + 2 * (20000 + 5 * 60000));
    pr_free(&run, 4);
    pr_alloc(&run, 4, 20 * MIB, 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_stall_ns) - before, 20000 + 2 * (20000 + 5 * 60000));
    pr_end(&run);
}

/* Up to 1 MiB from segments of 2 MiB; above, whole chunks, from ranges of 20 MiB. */
Test(stitch, small_requests)
{
    pr_run run = pr_start(&asim_policy_stitch, ALL, GIB);
    pr_alloc(&run, 0, MIB, 0);
    cr_expect_eq(run.placed.size, MIB);
    pr_alloc(&run, 1, 1, 0);
    cr_expect_eq(run.placed.size, 512);
    cr_expect_eq(run.book->sizes[0], 2 * MIB);
    cr_expect_eq(run.book->allocs, 1);
    pr_alloc(&run, 2, MIB + 1, 0);
    cr_expect_eq(run.placed.size, 2 * MIB);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), 22 * MIB);
    pr_end(&run);
}

/* A stitched block that another stream uses is free once that has passed; other streams' memory is not
 * stitched. */
Test(stitch, streams)
{
    pr_run run = scattered(ALL);
    pr_alloc(&run, 4, 20 * MIB, 0);
    pr_use(&run, 4, 1);
    pr_free(&run, 4);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_allocated_bytes), 40 * MIB); /* its pieces are pending */
    pr_sync(&run, 1);
    pr_alloc(&run, 5, 20 * MIB, 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_sync_waits), 0);
    pr_free(&run, 5);
    pr_alloc(&run, 6, 4 * MIB,
             1); /* stream 1 has nothing: both ranges go back, and the stitched block with them */
    cr_expect_eq(pr_own(&run, "stitch_address_bytes"), 0);
    pr_end(&run);
}

Test(stitch, trim)
{
    pr_run run = scattered(ALL);
    pr_alloc(&run, 4, 20 * MIB, 0);
    pr_step(&run, (asim_event){.kind = ASIM_EV_TRIM, .lane = ASIM_LANE_ALL});
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), 40 * MIB);
    pr_free(&run, 4);
    pr_step(&run, (asim_event){.kind = ASIM_EV_TRIM, .lane = ASIM_LANE_ALL});
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), 20 * MIB);
    cr_expect_eq(pr_own(&run, "stitch_address_bytes"), 0);
    pr_end(&run);
}

Test(stitch, zero_and_huge)
{
    pr_run run = pr_start(&asim_policy_stitch, ALL, GIB);
    cr_expect_eq(pr_ask(&run, 0, 0, 0), ASIM_NOTHING);
    cr_expect(pr_refuses(&run, 1, UINT64_MAX, 0));
    cr_expect(pr_refuses(&run, 1, UINT64_MAX - 511, 0));
    cr_expect(pr_refuses(&run, 1, (UINT64_C(1) << 50) - 1, 0));
    cr_expect(pr_refuses(&run, 1, GIB + 1, 0));
    pr_alloc(&run, 1, GIB, 0);
    pr_end(&run);
    pr_usage(&asim_policy_stitch, "reuse_limit=0", "reuse_limit");
    pr_usage(&asim_policy_stitch, "defrag_level=2", "defrag_level");
}
