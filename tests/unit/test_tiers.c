/* tiers against hand calculations: which level serves an access, what is driven out, and the time. */
#include "tests/unit/policy_run.h"

/* Registers of 2 KiB, SRAM of 4 KiB; an access of registers takes 1 ns, of SRAM 10 ns, of HBM 100 ns, and
 * each 1000 bytes 1, 10 and 100 ns more. */
#define SMALL                                                                                                \
    "registers=2KiB,sram=4KiB,register_ps=1000,sram_ps=10000,hbm_ps=100000,register_gbs=1000,sram_gbs=100,"  \
    "hbm_gbs=10"

static void access_block(pr_run *run, uint32_t id, uint64_t size)
{
    pr_step(run, (asim_event){.kind = ASIM_EV_ACCESS, .id = id, .size = size});
}

static void expect_hits(const pr_run *run, uint64_t registers, uint64_t sram, uint64_t hbm, int line)
{
    cr_expect(pr_own(run, "register_hits") == registers && pr_own(run, "sram_hits") == sram &&
                  pr_own(run, "hbm_accesses") == hbm,
              "line %d: %llu, %llu, %llu hits", line, (unsigned long long)pr_own(run, "register_hits"),
              (unsigned long long)pr_own(run, "sram_hits"), (unsigned long long)pr_own(run, "hbm_accesses"));
    cr_expect_eq(pr_own(run, "accesses"), registers + sram + hbm);
}

#define HITS(registers, sram, hbm) expect_hits(&run, registers, sram, hbm, __LINE__)

/* One block climbs a level an access: 100 + 100 ns, then 10 + 10, then 1 + 1. */
Test(tiers, promotion_by_steps)
{
    pr_run run = pr_start(&asim_policy_tiers, SMALL, GIB);
    pr_alloc(&run, 0, 1000, 0);
    access_block(&run, 0, 1000);
    HITS(0, 0, 1);
    cr_expect_eq(pr_own(&run, "access_ns"), 200);
    access_block(&run, 0, 1000);
    HITS(0, 1, 1);
    cr_expect_eq(pr_own(&run, "access_ns"), 220);
    access_block(&run, 0, 1000);
    access_block(&run, 0, 1000);
    HITS(2, 1, 1);
    cr_expect_eq(pr_own(&run, "access_ns"), 224);
    cr_expect_eq(pr_own(&run, "hbm_only_ns"), 800);
    cr_expect_eq(pr_own(&run, "register_hit_ppm"), 500000);
    cr_expect_eq(pr_own(&run, "sram_hit_ppm"), 250000);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_largest_free_bytes), 2 * MIB - 1024);
    pr_end(&run);
}

Test(tiers, promotion_to_the_top)
{
    pr_run run = pr_start(&asim_policy_tiers, SMALL ",promote=top", GIB);
    pr_alloc(&run, 0, 1000, 0);
    pr_alloc(&run, 1, 3000, 0); /* too large for registers */
    pr_alloc(&run, 2, 5000, 0); /* and for SRAM */
    for (uint32_t i = 0; i < 3; i++) {
        access_block(&run, i, 5000);
        access_block(&run, i, 5000);
    }
    HITS(1, 1, 4);
    pr_end(&run);
}

/* SRAM has room for 4 blocks of 1 KiB. In the order 0 1 2 3 0' (which goes up) 4 5, it holds 1 2 3 4, then 5
 * drives out 1. */
Test(tiers, least_recently_used_goes)
{
    pr_run run = pr_start(&asim_policy_tiers, SMALL, GIB);
    for (uint32_t i = 0; i < 6; i++)
        pr_alloc(&run, i, 1024, 0);
    for (uint32_t i = 0; i < 4; i++)
        access_block(&run, i, 1024);
    access_block(&run, 0, 1024);
    access_block(&run, 4, 1024);
    HITS(0, 1, 5);
    cr_expect_eq(pr_own(&run, "sram_evictions"), 0);
    access_block(&run, 5, 1024);
    cr_expect_eq(pr_own(&run, "sram_evictions"), 1);
    access_block(&run, 1, 1024); /* gone; it comes back, and drives out 2 */
    HITS(0, 1, 7);
    access_block(&run, 0, 1024); /* in registers */
    HITS(1, 1, 7);
    access_block(&run, 2, 1024);
    HITS(1, 1, 8);
    cr_expect_eq(pr_own(&run, "sram_evictions"), 3);
    pr_end(&run);
}

/* Registers hold 2 blocks: the third that climbs sends the oldest down to SRAM, where it is hit again. */
Test(tiers, registers_give_to_sram)
{
    pr_run run = pr_start(&asim_policy_tiers, SMALL, GIB);
    for (uint32_t i = 0; i < 3; i++) {
        pr_alloc(&run, i, 1024, 0);
        access_block(&run, i, 1024);
        access_block(&run, i, 1024);
    }
    HITS(0, 3, 3);
    cr_expect_eq(pr_own(&run, "register_evictions"), 1);
    access_block(&run, 1, 1024);
    access_block(&run, 2, 1024);
    HITS(2, 3, 3);
    access_block(&run, 0, 1024); /* was sent down; goes up, and 1 comes down */
    HITS(2, 4, 3);
    access_block(&run, 1, 1024);
    HITS(2, 5, 3);
    cr_expect_eq(pr_own(&run, "register_evictions"), 3);
    pr_end(&run);
}

/* A level without LRU eviction would overflow: here the upper levels never hold more than they can (the
 * policy's check), and cyclic use of more than they hold misses every time. */
Test(tiers, cyclic_use_of_too_much)
{
    pr_run run = pr_start(&asim_policy_tiers, SMALL ",registers=0", GIB);
    for (uint32_t i = 0; i < 5; i++)
        pr_alloc(&run, i, 1024, 0);
    for (uint32_t k = 0; k < 50; k++)
        access_block(&run, k % 5, 1024);
    HITS(0, 0, 50);
    cr_expect_eq(pr_own(&run, "sram_evictions"), 46);
    for (uint32_t k = 0; k < 40; k++)
        access_block(&run, k % 4, 1024);
    HITS(0, 36, 54); /* 1 to 4 were there: 0 drives out 1, 1 drives out 2, ..; then 0 to 3 stay */
    pr_end(&run);
}

/* More bytes than are held are served by HBM; fewer by the level. What is freed or replaced is not held. */
Test(tiers, parts_and_ends)
{
    pr_run run = pr_start(&asim_policy_tiers, SMALL ",registers=0", GIB);
    pr_alloc(&run, 0, 3000, 0);
    access_block(&run, 0, 1000);
    access_block(&run, 0, 500);
    HITS(0, 1, 1);
    access_block(&run, 0, 1001);
    HITS(0, 1, 2);
    access_block(&run, 0, 1001);
    HITS(0, 2, 2);
    access_block(&run, 0, 0); /* touches nothing */
    HITS(0, 2, 2);
    access_block(&run, 0, UINT64_MAX); /* no more than the block has */
    access_block(&run, 0, 3000);
    HITS(0, 3, 3);
    pr_free(&run, 0);
    pr_alloc(&run, 0, 3000, 0);
    access_block(&run, 0, 1);
    HITS(0, 3, 4);
    pr_step(&run, (asim_event){.kind = ASIM_EV_RESIZE, .id = 0, .size = 4000});
    access_block(&run, 0, 1);
    HITS(0, 3, 5);
    cr_expect_eq(pr_own(&run, "sram_evictions"), 0);
    pr_end(&run);
}

/* Each device has levels of its own, and rest places: sizes and failures are torchcache's. */
Test(tiers, devices_and_rest)
{
    pr_run run = pr_start(&asim_policy_tiers, SMALL, GIB);
    pr_alloc(&run, 0, 4096, 0);
    pr_alloc(&run, 1, 4096, PR_STREAMS);
    access_block(&run, 0, 4096);
    access_block(&run, 1, 4096);
    access_block(&run, 0, 4096); /* does not fit into registers: stays */
    access_block(&run, 1, 4096);
    HITS(0, 2, 2);
    cr_expect_eq(pr_ask(&run, 2, 0, 0), ASIM_NOTHING);
    access_block(&run, 2, 10);
    HITS(0, 2, 2);
    cr_expect(pr_refuses(&run, 3, 2 * GIB, 0));
    cr_expect(pr_refuses(&run, 3, UINT64_MAX, 0));
    pr_end(&run);
}

/* The defaults are an A100: 1 MiB from HBM takes 205.674 + 1048576/1555 ns, that is 879.999; from SRAM 16.312
 * + 55.188 = 71.5. */
Test(tiers, an_a100)
{
    pr_run run = pr_start(&asim_policy_tiers, "", GIB);
    pr_alloc(&run, 0, MIB, 0);
    access_block(&run, 0, MIB);
    cr_expect_eq(pr_own(&run, "access_ns"), 879);
    access_block(&run, 0, MIB);
    cr_expect_eq(pr_own(&run, "access_ns"), 951);
    pr_end(&run);
}

Test(tiers, parameters)
{
    pr_usage(&asim_policy_tiers, "sram_ps=1", "register_ps, sram_ps and hbm_ps have to ascend");
    pr_usage(&asim_policy_tiers, "hbm_gbs=0", "out of range; allowed: 1 to 1000000000");
    pr_usage(&asim_policy_tiers, "promote=all", "allowed: step, top");
    pr_usage(&asim_policy_tiers, "rest=tiers", "nesting is not possible");
}
