/* Compaction by hand calculation, and random runs in which it happens all the time. The costs are those of
 * pool_profile: 7 ns a block and 1 MiB a microsecond. */
#include "sim/rng.h"
#include "tests/unit/pool_run.h"

static pool_run start(const char *params, asim_completion completion)
{
    return pool_start(&asim_policy_first_fit, params, GIB, completion);
}

static void mark(pool_run *run, uint32_t string, uint8_t flags)
{
    pool_step(run, (asim_event){ASIM_EV_MARK, flags, 0, string, ASIM_MARK_OTHER});
}

/* 16 MiB: A 2, B 3, C 2, D 5, E 4; B and D go. 8 are free, in holes of 3 and 5. */
static void two_holes(pool_run *run, uint8_t flags_of_c, uint16_t lane_of_c)
{
    cr_assert_eq(pool_alloc(run, 0, 2 * MIB), 0);
    cr_assert_eq(pool_alloc(run, 1, 3 * MIB), 2 * MIB);
    cr_assert_eq(pool_alloc_on(run, 2, 2 * MIB, lane_of_c, flags_of_c), 5 * MIB);
    cr_assert_eq(pool_alloc(run, 3, 5 * MIB), 7 * MIB);
    cr_assert_eq(pool_alloc(run, 4, 4 * MIB), 12 * MIB);
    pool_free(run, 1);
    pool_free(run, 3);
    cr_assert_str_eq(pool_blocks(run), "L2 f3 L2 f5 L4");
}

/* C and E move: 6 MiB in 6 us, and 7 ns for each of them. */
Test(compaction, a_request_that_fails_moves_blocks)
{
    pool_run run = start("pool=16MiB,compact=full", ASIM_COMPLETION_SYNC);
    two_holes(&run, 0, 0);
    cr_expect_eq(pool_alloc(&run, 5, 6 * MIB), 8 * MIB);
    cr_expect_str_eq(pool_blocks(&run), "L2 L2 L4 L6 f2");
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_moved_bytes), 6 * MIB);
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_compactions), 1);
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_pause_ns), 6000 + 2 * 7);
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_max_pause_ns), 6000 + 2 * 7);
    pool_free(&run, 2); /* words are the same as before */
    pool_free(&run, 0);
    cr_expect_str_eq(pool_blocks(&run), "f4 L4 L6 f2");
    pool_end(&run);
}

Test(compaction, the_other_modes_refuse)
{
    static const char *const modes[] = {"pool=16MiB,compact=none", "pool=16MiB,compact=incremental",
                                        "pool=16MiB,compact=on-switch",
                                        "pool=16MiB,compact=full,compact_on_failure=false,compact_at=x"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        pool_run run = start(modes[i], ASIM_COMPLETION_SYNC);
        two_holes(&run, 0, 0);
        cr_expect_eq(pool_alloc(&run, 5, 6 * MIB), POOL_REFUSED, "%s", modes[i]);
        cr_expect_eq(pool_metric(&run, ASIM_METRIC_moved_bytes), 0);
        pool_end(&run);
    }
}

/* Nothing moves for a request that would be refused all the same: 9 of 8 free MiB. */
Test(compaction, is_not_tried_in_vain)
{
    pool_run run = start("pool=16MiB,compact=full", ASIM_COMPLETION_SYNC);
    two_holes(&run, 0, 0);
    cr_expect_eq(pool_alloc(&run, 5, 9 * MIB), POOL_REFUSED);
    cr_expect_str_eq(pool_blocks(&run), "L2 f3 L2 f5 L4");
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_compactions), 0);
    pool_end(&run);
}

/* C stays at 5; E (4) does not fit into the 3 before it and slides to 7: room for 5, not for 6. */
Test(compaction, unmovable_blocks_stay)
{
    pool_run run = start("pool=16MiB,compact=full,compact_at=off-peak", ASIM_COMPLETION_SYNC);
    two_holes(&run, ASIM_ALLOC_UNMOVABLE, 0);
    cr_expect_eq(pool_alloc(&run, 5, 6 * MIB), POOL_REFUSED);
    cr_expect_str_eq(pool_blocks(&run), "L2 f3 L2 f5 L4");
    mark(&run, 0, 0);
    cr_expect_str_eq(pool_blocks(&run), "L2 f3 L2 L4 f5");
    pool_end(&run);
}

/* A block that fits before a pinned one goes there: F (1) from behind C. */
Test(compaction, blocks_pass_a_pinned_one_where_they_fit)
{
    pool_run run = start("pool=16MiB,compact=full,compact_at=off-peak", ASIM_COMPLETION_SYNC);
    two_holes(&run, ASIM_ALLOC_UNMOVABLE, 0);
    pool_free(&run, 4);
    cr_assert_eq(pool_alloc(&run, 6, 4 * MIB), 7 * MIB); /* 9 are free from 7 on */
    cr_assert_eq(pool_alloc(&run, 7, 4 * MIB), 11 * MIB);
    cr_assert_eq(pool_alloc(&run, 8, 1 * MIB), 2 * MIB);
    pool_free(&run, 6);
    cr_assert_str_eq(pool_blocks(&run), "L2 L1 f2 L2 f4 L4 f1");
    pool_free(&run, 8);
    cr_assert_eq(pool_alloc(&run, 9, 3 * MIB), 2 * MIB);
    cr_assert_eq(pool_alloc(&run, 10, 1 * MIB), 7 * MIB);
    pool_free(&run, 9);
    cr_assert_str_eq(pool_blocks(&run), "L2 f3 L2 L1 f3 L4 f1");
    mark(&run, 0, 0);
    cr_expect_str_eq(pool_blocks(&run), "L2 L1 f2 L2 L4 f5");
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_moved_bytes), 5 * MIB);
    pool_end(&run);
}

/* A freed block whose completion is recorded and yet to come. */
Test(compaction, pending_blocks_stay)
{
    pool_run run = start("pool=16MiB,compact=full,compact_at=off-peak", ASIM_COMPLETION_SYNC);
    two_holes(&run, 0, 0);
    pool_step(&run, (asim_event){.kind = ASIM_EV_FREE, .flags = ASIM_FREE_PENDING, .id = 2});
    mark(&run, 0, 0);
    cr_expect_str_eq(pool_blocks(&run), "L2 f3 p2 L4 f5");
    pool_step(&run, (asim_event){.kind = ASIM_EV_FREE_DONE, .id = 2});
    mark(&run, 0, 0);
    cr_expect_str_eq(pool_blocks(&run), "L2 L4 f10");
    pool_end(&run);
}

/* Stream 1 runs a kernel of 1 ms: C, which it allocated, is pinned; so is A, which it uses. Then it is done.
 */
Test(compaction, blocks_of_a_running_kernel_stay)
{
    pool_run run = start("pool=16MiB,compact=full,compact_at=off-peak", ASIM_COMPLETION_CLOCK);
    two_holes(&run, 0, 1);
    pool_step(&run, (asim_event){.kind = ASIM_EV_KERNEL, .lane = 1, .size = 1000000});
    cr_expect_eq(pool_alloc(&run, 5, 6 * MIB), POOL_REFUSED);
    mark(&run, 0, 0);
    cr_expect_str_eq(pool_blocks(&run), "L2 f3 L2 L4 f5");
    pool_step(&run, (asim_event){.kind = ASIM_EV_SYNC, .lane = 1, .id = ASIM_SYNC_STREAM});
    cr_expect_eq(pool_alloc(&run, 5, 6 * MIB), 8 * MIB);
    cr_expect_str_eq(pool_blocks(&run), "L2 L2 L4 L6 f2");
    pool_step(&run, (asim_event){.kind = ASIM_EV_USE, .lane = 1, .id = 2});
    pool_free(&run, 0); /* L2 at 0 */
    pool_step(&run, (asim_event){.kind = ASIM_EV_KERNEL, .lane = 1, .size = 1000000});
    pool_step(&run, (asim_event){.kind = ASIM_EV_USE, .lane = 1, .id = 4});
    mark(&run, 0, 0);
    cr_expect_str_eq(pool_blocks(&run), "f2 L2 L4 L6 f2");
    pool_end(&run);
}

/* Or the host waits for it: 1 ms of the kernel, 11 ns of the wait, 6014 ns of the moves. */
Test(compaction, or_the_device_is_waited_for)
{
    pool_run run = start("pool=16MiB,compact=full,compact_busy=wait", ASIM_COMPLETION_CLOCK);
    two_holes(&run, 0, 1);
    pool_step(&run, (asim_event){.kind = ASIM_EV_KERNEL, .lane = 1, .size = 1000000});
    uint64_t before = pool_metric(&run, ASIM_METRIC_stall_ns);
    cr_expect_eq(pool_alloc(&run, 5, 6 * MIB), 8 * MIB);
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_pause_ns), 1000000 + 6000 + 2 * 7);
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_stall_ns), before + 1000000 + 6000 + 2 * 7);
    pool_end(&run);
}

/* 1 - 5/8 is 37.5 %. The check comes before a request; a second one waits until it has been below again. */
Test(compaction, above_a_threshold)
{
    pool_run run = start("pool=16MiB,compact=full,compact_above=38", ASIM_COMPLETION_SYNC);
    two_holes(&run, 0, 0);
    cr_expect_eq(pool_alloc(&run, 5, MIB), 2 * MIB);
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_compactions), 0);
    pool_end(&run);
    run = start("pool=16MiB,compact=full,compact_above=37", ASIM_COMPLETION_SYNC);
    two_holes(&run, 0, 0);
    cr_expect_eq(pool_alloc(&run, 5, MIB), 8 * MIB);
    cr_expect_str_eq(pool_blocks(&run), "L2 L2 L4 L1 f7");
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_compactions), 1);
    pool_end(&run);
}

Test(compaction, at_a_model_switch)
{
    pool_run run = start("pool=16MiB,compact=on-switch", ASIM_COMPLETION_SYNC);
    two_holes(&run, 0, 0);
    mark(&run, 0, 0);
    mark(&run, 2, 0);
    mark(&run, 1, ASIM_MARK_END);
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_compactions), 0);
    mark(&run, 1, 0);
    cr_expect_str_eq(pool_blocks(&run), "L2 L2 L4 f8");
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_compactions), 1);
    mark(&run, 1, 0); /* nothing is left to move: no pause */
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_compactions), 1);
    pool_end(&run);
}

/* Buddies go to multiples of their size: 1 at 0, then 4 to 4, not to 1. */
Test(compaction, keeps_buddies_aligned)
{
    pool_run run = pool_start(&asim_policy_buddy, "pool=16MiB,compact=on-switch", GIB, ASIM_COMPLETION_SYNC);
    cr_assert_eq(pool_alloc(&run, 0, 4 * MIB), 0);
    cr_assert_eq(pool_alloc(&run, 1, MIB), 4 * MIB);
    cr_assert_eq(pool_alloc(&run, 2, 4 * MIB), 8 * MIB);
    pool_free(&run, 0);
    cr_assert_str_eq(pool_blocks(&run), "f4 L1 f1 f2 L4 f4");
    mark(&run, 1, 0);
    cr_expect_str_eq(pool_blocks(&run), "L1 f1 f2 L4 f8");
    pool_end(&run);
}

/* Everything at once, watched by the referee: no block is lost, none overlaps, words stay what they are. */
static void random_run(const asim_policy *policy, const char *params, uint64_t seed)
{
    enum {
        SLOTS = 48,
        STEPS = 1500
    };
    asim_rng rng = {seed};
    uint8_t live[SLOTS] = {0};
    pool_run run = pool_start(policy, params, GIB, ASIM_COMPLETION_CLOCK);
    for (int i = 0; i < STEPS; i++) {
        uint32_t slot = (uint32_t)asim_rng_below(&rng, SLOTS);
        uint64_t dice = asim_rng_below(&rng, 100);
        uint16_t lane = (uint16_t)asim_rng_below(&rng, 4);
        if (dice < 2)
            pool_step(&run, (asim_event){.kind = ASIM_EV_SYNC, .lane = ASIM_LANE_ALL, .id = ASIM_SYNC_ALL});
        else if (dice < 4)
            pool_step(&run, (asim_event){.kind = ASIM_EV_KERNEL, .lane = lane, .size = 3000});
        else if (dice < 8)
            mark(&run, (uint32_t)asim_rng_below(&rng, 3), 0);
        else if (live[slot] == 2)
            pool_step(&run, (asim_event){.kind = ASIM_EV_FREE_DONE, .id = slot}), live[slot] = 0;
        else if (live[slot] && dice < 20)
            pool_step(&run, (asim_event){.kind = ASIM_EV_USE, .lane = lane, .id = slot});
        else if (live[slot] && dice < 30)
            pool_step(
                &run,
                (asim_event){.kind = ASIM_EV_RESIZE, .id = slot, .size = 1 + asim_rng_below(&rng, 3 * MIB)});
        else if (live[slot] && dice < 35)
            pool_step(&run, (asim_event){.kind = ASIM_EV_FREE, .flags = ASIM_FREE_PENDING, .id = slot}),
                live[slot] = 2;
        else if (live[slot])
            pool_free(&run, slot), live[slot] = 0;
        else
            pool_alloc_on(&run, slot, 1 + asim_rng_below(&rng, asim_rng_below(&rng, 2) ? 3 * MIB : 64 * KIB),
                          lane, dice > 98 ? ASIM_ALLOC_UNMOVABLE : 0),
                live[slot] = 1;
    }
    cr_expect_gt(pool_metric(&run, ASIM_METRIC_compactions), 0, "%s,%s", policy->name, params);
    cr_expect_gt(pool_metric(&run, ASIM_METRIC_ooms), 3, "%s,%s", policy->name, params);
    pool_end(&run);
}

Test(compaction, random_runs, .timeout = 120)
{
    static const asim_policy *const policies[] = {&asim_policy_first_fit, &asim_policy_best_fit,
                                                  &asim_policy_buddy, &asim_policy_tlsf, &asim_policy_pow2};
    static const char *const params[] = {
        "pool=18MiB,compact=full", "pool=18MiB,compact=full,compact_above=20,compact_busy=wait",
        "pool=18MiB,compact=on-switch", "pool=18MiB,compact=full,compact_at=off,compact_on_failure=false"};
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++)
        for (size_t k = 0; k < sizeof params / sizeof *params; k++)
            for (uint64_t seed = 0; seed < 2; seed++)
                random_run(policies[p], params[k], seed);
}
