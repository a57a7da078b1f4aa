/* The single-pool policies: expected values are those of their sources, or calculated beside them. */
#include "policies/tlsf_map.h"
#include "tests/unit/pool_run.h"

static pool_run start(const asim_policy *policy, const char *params)
{
    return pool_start(policy, params, 4 * GIB, ASIM_COMPLETION_SYNC);
}

/* Knuth, TAOCP 1, 2.5: areas of 1300 and 1200 are free, and 1000, 1100 and 250 are asked for. In KiB: the
 * pool of 3 MiB holds 1300, a wall of 8, 1200 and a wall of 564. */
static pool_run knuths_areas(const asim_policy *policy)
{
    pool_run run = start(policy, "pool=3MiB");
    cr_assert_eq(pool_alloc(&run, 0, 1300 * KIB), 0);
    cr_assert_eq(pool_alloc(&run, 1, 8 * KIB), 1300 * KIB);
    cr_assert_eq(pool_alloc(&run, 2, 1200 * KIB), 1308 * KIB);
    cr_assert_eq(pool_alloc(&run, 3, 564 * KIB), 2508 * KIB);
    pool_free(&run, 0);
    pool_free(&run, 2);
    return run;
}

/* "First-fit: 300, 1200; 300, 100; 50, 100." */
Test(first_fit, knuths_three_requests)
{
    pool_run run = knuths_areas(&asim_policy_first_fit);
    cr_expect_eq(pool_alloc(&run, 10, 1000 * KIB), 0);
    cr_expect_str_eq(pool_blocks(&run), "L1000K f300K L8K f1200K L564K");
    cr_expect_eq(pool_alloc(&run, 11, 1100 * KIB), 1308 * KIB);
    cr_expect_str_eq(pool_blocks(&run), "L1000K f300K L8K L1100K f100K L564K");
    cr_expect_eq(pool_alloc(&run, 12, 250 * KIB), 1000 * KIB);
    cr_expect_str_eq(pool_blocks(&run), "L1000K L250K f50K L8K L1100K f100K L564K");
    pool_end(&run);
}

/* "Best-fit: 1300, 200; 200, 200; stuck." */
Test(best_fit, knuths_three_requests)
{
    pool_run run = knuths_areas(&asim_policy_best_fit);
    cr_expect_eq(pool_alloc(&run, 10, 1000 * KIB), 1308 * KIB);
    cr_expect_str_eq(pool_blocks(&run), "f1300K L8K L1000K f200K L564K");
    cr_expect_eq(pool_alloc(&run, 11, 1100 * KIB), 0);
    cr_expect_str_eq(pool_blocks(&run), "L1100K f200K L8K L1000K f200K L564K");
    cr_expect_eq(pool_alloc(&run, 12, 250 * KIB), POOL_REFUSED);
    /* Of two blocks of 200 the lower one. */
    cr_expect_eq(pool_alloc(&run, 13, 200 * KIB), 1100 * KIB);
    pool_end(&run);
}

/* The four ways in which a freed block meets its neighbours, and a structure that is emptied and filled. */
static void merges(const asim_policy *policy)
{
    pool_run run = start(policy, "pool=8MiB");
    for (uint32_t i = 0; i < 8; i++)
        cr_assert_eq(pool_alloc(&run, i, MIB), i * MIB);
    cr_expect_str_eq(pool_blocks(&run), "L1 L1 L1 L1 L1 L1 L1 L1");
    cr_expect_eq(pool_alloc(&run, 9, 1), POOL_REFUSED);
    pool_free(&run, 3); /* between two live ones */
    cr_expect_str_eq(pool_blocks(&run), "L1 L1 L1 f1 L1 L1 L1 L1");
    pool_free(&run, 2); /* before a free one */
    cr_expect_str_eq(pool_blocks(&run), "L1 L1 f2 L1 L1 L1 L1");
    pool_free(&run, 4); /* behind one */
    cr_expect_str_eq(pool_blocks(&run), "L1 L1 f3 L1 L1 L1");
    pool_free(&run, 0);
    pool_free(&run, 1); /* between two */
    cr_expect_str_eq(pool_blocks(&run), "f5 L1 L1 L1");
    pool_free(&run, 7);
    pool_free(&run, 6);
    pool_free(&run, 5);
    cr_expect_str_eq(pool_blocks(&run), "f8");
    cr_expect_eq(pool_alloc(&run, 0, 8 * MIB), 0);
    pool_end(&run);
}

Test(first_fit, merges)
{
    merges(&asim_policy_first_fit);
}

Test(best_fit, merges)
{
    merges(&asim_policy_best_fit);
}

/* The worked example of Wikipedia's article "Buddy memory allocation": 1024K, smallest block 64K; A 34K, B
 * 66K, C 35K, D 67K come, then B, D, A and C go. */
Test(buddy, the_published_example)
{
    pool_run run = start(&asim_policy_buddy, "pool=2MiB,min_block=64KiB");
    cr_assert_eq(pool_alloc(&run, 9, 1024 * KIB), 0); /* the example has half of this pool */
    cr_expect_eq(pool_alloc(&run, 0, 34 * KIB), 1024 * KIB);
    cr_expect_str_eq(pool_blocks(&run), "L1 L64K f64K f128K f256K f512K");
    cr_expect_eq(pool_alloc(&run, 1, 66 * KIB), (1024 + 128) * KIB);
    cr_expect_str_eq(pool_blocks(&run), "L1 L64K f64K L128K f256K f512K");
    cr_expect_eq(pool_alloc(&run, 2, 35 * KIB), (1024 + 64) * KIB);
    cr_expect_str_eq(pool_blocks(&run), "L1 L64K L64K L128K f256K f512K");
    cr_expect_eq(pool_alloc(&run, 3, 67 * KIB), (1024 + 256) * KIB);
    cr_expect_str_eq(pool_blocks(&run), "L1 L64K L64K L128K L128K f128K f512K");
    pool_free(&run, 1);
    cr_expect_str_eq(pool_blocks(&run), "L1 L64K L64K f128K L128K f128K f512K");
    pool_free(&run, 3); /* 256K, whose buddy is in use */
    cr_expect_str_eq(pool_blocks(&run), "L1 L64K L64K f128K f256K f512K");
    pool_free(&run, 0);
    cr_expect_str_eq(pool_blocks(&run), "L1 f64K L64K f128K f256K f512K");
    pool_free(&run, 2); /* 128K, 256K, 512K, and all of it */
    cr_expect_str_eq(pool_blocks(&run), "L1 f1");
    pool_free(&run, 9);
    cr_expect_str_eq(pool_blocks(&run), "f2");
    pool_end(&run);
}

/* 7 MiB are 4, 2 and 1; neighbours of one size that are no buddies stay apart. */
Test(buddy, a_pool_that_is_no_power_of_two)
{
    pool_run run = start(&asim_policy_buddy, "pool=7MiB");
    cr_expect_eq(pool_alloc(&run, 0, 5 * MIB), POOL_REFUSED); /* takes 8 */
    cr_expect_str_eq(pool_blocks(&run), "f4 f2 f1");
    cr_expect_eq(pool_alloc(&run, 1, 2 * MIB), 4 * MIB);
    cr_expect_eq(pool_alloc(&run, 2, 2 * MIB), 0);
    cr_expect_str_eq(pool_blocks(&run), "L2 f2 L2 f1");
    pool_free(&run, 1); /* at 4: its buddy would be at 6, and have 2 */
    cr_expect_str_eq(pool_blocks(&run), "L2 f2 f2 f1");
    pool_free(&run, 2);
    cr_expect_str_eq(pool_blocks(&run), "f4 f2 f1");
    pool_end(&run);
}

Test(single_pool, compact_none_never_merges)
{
    pool_run run = start(&asim_policy_first_fit, "pool=4MiB,compact=none");
    cr_assert_eq(pool_alloc(&run, 0, MIB), 0);
    cr_assert_eq(pool_alloc(&run, 1, MIB), MIB);
    pool_free(&run, 0);
    pool_free(&run, 1);
    cr_expect_str_eq(pool_blocks(&run), "f1 f1 f2");
    cr_expect_eq(pool_alloc(&run, 2, 3 * MIB), POOL_REFUSED);
    pool_end(&run);
}

/* A pool a device, taken when the device is first asked; a pool that the device can't give is a refusal. */
Test(single_pool, pools_are_taken_at_the_first_request)
{
    pool_run run = start(&asim_policy_best_fit, "pool=16MiB");
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_reserved_bytes), 0);
    cr_expect_eq(pool_alloc(&run, 0, 0), POOL_NOTHING);
    cr_expect_eq(pool_alloc(&run, 1, 1), 0);
    cr_expect_eq(run.last.size, 512);
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_reserved_bytes), 16 * MIB);
    cr_expect_neq(pool_alloc_on(&run, 2, MIB, 3, 0), POOL_REFUSED);
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_reserved_bytes), 32 * MIB);
    cr_expect_eq(pool_alloc(&run, 3, 16 * MIB), POOL_REFUSED);
    cr_expect_eq(pool_alloc(&run, 4, UINT64_MAX), POOL_REFUSED);
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_device_allocs), 2);
    pool_end(&run);
    run = start(&asim_policy_best_fit, "pool=5GiB");
    cr_expect_eq(pool_alloc(&run, 0, 1), POOL_REFUSED);
    pool_end(&run);
    run = start(&asim_policy_best_fit, ""); /* all of the device */
    cr_expect_eq(pool_alloc(&run, 0, 4 * GIB), 0);
    pool_end(&run);
}

Test(single_pool, contradictions_get_a_message)
{
    const asim_policy *policy = &asim_policy_first_fit;
    cr_expect(strstr(pool_complaint(policy, "align=768"), "768"));
    cr_expect(strstr(pool_complaint(policy, "pool=2098176,align=4096"), "multiple"));
    cr_expect(strstr(pool_complaint(policy, "compact_above=20"), "compact_above goes with compact=full"));
    cr_expect(strstr(pool_complaint(policy, "compact=on-switch,compact_at=night"), "compact_at goes with"));
    cr_expect(strstr(pool_complaint(policy, "compact=full,compact_switch=load"), "compact=on-switch"));
    cr_expect(strstr(pool_complaint(policy, "compact=none,compact_busy=wait"), "compact_busy goes with"));
    cr_expect(strstr(pool_complaint(policy, "compact_on_failure=false"), "compact_on_failure goes with"));
    cr_expect(strstr(pool_complaint(policy, "compact=full,compact_on_failure=false"), "would ever begin"));
    cr_expect(strstr(pool_complaint(policy, "compact=on-switch,compact_switch="), "needs the label"));
}

/* 460 is 256 + 204: the eighth power, and the part floor(204 * 16 / 256) = 12 of 16. The search for 460
 * begins in the next list, at 464. */
Test(tlsf, the_mapping_of_the_paper)
{
    cr_expect_eq(asim_tlsf_map(460, 4).f, 8);
    cr_expect_eq(asim_tlsf_map(460, 4).s, 12);
    cr_expect_eq(asim_tlsf_round(460, 4), 464);
    cr_expect_eq(asim_tlsf_map(464, 4).s, 13);
    cr_expect_eq(asim_tlsf_round(448, 4), 448); /* 256 + 12 * 16 */
    cr_expect_eq(asim_tlsf_round(511, 4), 512);
    cr_expect_eq(asim_tlsf_map(512, 4).f, 9);
    cr_expect_eq(asim_tlsf_map(512, 4).s, 0);
}

/* A hole of 460 KiB is in the list from 448 to 463: it serves 448, not 460. */
Test(tlsf, a_good_fit_is_not_the_best)
{
    pool_run run = start(&asim_policy_tlsf, "pool=2MiB,second_level=4");
    cr_assert_eq(pool_alloc(&run, 0, 460 * KIB), 0);
    cr_assert_eq(pool_alloc(&run, 1, 1536 * KIB), 460 * KIB);
    cr_assert_eq(pool_alloc(&run, 2, 52 * KIB), 1996 * KIB);
    pool_free(&run, 0);
    cr_expect_eq(pool_alloc(&run, 3, 460 * KIB), POOL_REFUSED);
    cr_expect_eq(pool_alloc(&run, 3, 448 * KIB), 0);
    cr_expect_str_eq(pool_blocks(&run), "L448K f12K L1536K L52K");
    pool_end(&run);
}

Test(tlsf, merges)
{
    merges(&asim_policy_tlsf);
}

/* The published figure: 400 KB take 512, 112 are wasted, 22 % (112 / 512 = 21.9). */
Test(pow2, the_published_waste)
{
    pool_run run = pool_start(&asim_policy_pow2, "", 80 * GIB, ASIM_COMPLETION_SYNC);
    cr_expect_eq(pool_alloc(&run, 0, 400 * KIB), 0);
    cr_expect_eq(run.last.size, 512 * KIB);
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_internal_frag_bytes), 112 * KIB);
    cr_expect_eq(pool_metric(&run, ASIM_METRIC_reserved_bytes), 8 * GIB);
    pool_end(&run);
}

/* Behind 2 MiB there are 300 KiB: in the list of 256 KiB, whose next request cuts them. */
Test(pow2, remainders_serve_a_class_that_they_do_not_match)
{
    pool_run run = start(&asim_policy_pow2, "pool=2348KiB");
    cr_expect_eq(pool_alloc(&run, 0, 2 * MIB), 0);
    cr_expect_eq(pool_alloc(&run, 1, 200 * KIB), 2 * MIB);
    cr_expect_str_eq(pool_blocks(&run), "L2 L256K f44K");
    pool_end(&run);
    run = start(&asim_policy_pow2, "pool=2348KiB,split=buddy"); /* 300 are 256, 32, 8 and 4 */
    cr_expect_eq(pool_alloc(&run, 0, 2 * MIB), 0);
    cr_expect_eq(pool_alloc(&run, 1, 200 * KIB), 2 * MIB);
    cr_expect_eq(run.last.size, 256 * KIB);
    cr_expect_str_eq(pool_blocks(&run), "L2 L256K f32K f8K f4K");
    pool_end(&run);
}

Test(pow2, the_block_freed_last_comes_first)
{
    pool_run run = start(&asim_policy_pow2, "pool=4MiB,merge=off");
    for (uint32_t i = 0; i < 4; i++)
        cr_assert_eq(pool_alloc(&run, i, MIB), i * MIB);
    pool_free(&run, 2);
    pool_free(&run, 0);
    pool_free(&run, 1);
    cr_expect_str_eq(pool_blocks(&run), "f1 f1 f1 L1");
    cr_expect_eq(pool_alloc(&run, 4, MIB), MIB);
    cr_expect_eq(pool_alloc(&run, 5, MIB), 0);
    cr_expect_eq(pool_alloc(&run, 6, MIB), 2 * MIB);
    pool_end(&run);
    cr_expect(strstr(pool_complaint(&asim_policy_pow2, "merge=on,compact=none"), "contradicts"));
}

/* traces/samples/pool-published.text, in MB: what happens without rounding, and with it. */
Test(pow2, the_published_story_does_not_add_up)
{
    pool_run run = start(&asim_policy_first_fit, "pool=800MiB");
    cr_expect_eq(pool_alloc(&run, 0, 200 * MIB), 0);
    cr_expect_eq(pool_alloc(&run, 1, 100 * MIB), 200 * MIB);
    pool_free(&run, 1);
    cr_expect_eq(pool_alloc(&run, 2, 300 * MIB), 200 * MIB);
    cr_expect_eq(pool_alloc(&run, 3, 150 * MIB), 500 * MIB);
    pool_free(&run, 2);
    cr_expect_str_eq(pool_blocks(&run), "L200 f300 L150 f150");
    cr_expect_eq(pool_alloc(&run, 4, 250 * MIB), 200 * MIB);
    pool_end(&run);
    run = start(&asim_policy_pow2, "pool=800MiB");
    cr_expect_eq(pool_alloc(&run, 0, 200 * MIB), 0);
    cr_expect_eq(pool_alloc(&run, 1, 100 * MIB), 256 * MIB);
    pool_free(&run, 1);
    cr_expect_eq(pool_alloc(&run, 2, 300 * MIB), 256 * MIB);
    cr_expect_eq(pool_alloc(&run, 3, 150 * MIB), POOL_REFUSED);
    cr_expect_str_eq(pool_blocks(&run), "L256 L512 f32");
    pool_end(&run);
}

/* traces/samples/pool-corrected-pow2.text: holes of 150 and 200; three blocks of 194 in all move down by 150.
 */
Test(pow2, the_corrected_story)
{
    static const uint64_t sizes[] = {200, 128, 16, 4, 2, 128, 64, 2, 128, 64, 8};
    for (int full = 0; full < 2; full++) {
        pool_run run = start(&asim_policy_pow2, full ? "pool=800MiB,compact=full" : "pool=800MiB");
        for (uint32_t i = 0; i < 11; i++)
            cr_assert_neq(pool_alloc(&run, i, sizes[i] * MIB), POOL_REFUSED);
        for (uint32_t i = 1; i < 11; i++)
            if (i < 5 || i > 7)
                pool_free(&run, i);
        cr_expect_str_eq(pool_blocks(&run), "L256 f150 L128 L64 L2 f200");
        cr_expect_eq(pool_alloc(&run, 20, 250 * MIB), full ? 450 * MIB : POOL_REFUSED);
        cr_expect_eq(pool_metric(&run, ASIM_METRIC_moved_bytes), full ? 194 * MIB : 0);
        pool_end(&run);
    }
}
