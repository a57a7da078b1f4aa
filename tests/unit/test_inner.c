/* A policy behind another one (policies/inner.h), seen through paged: what may stand there, and that its
 * blocks, moves, completions and walk arrive as if it stood alone. Every step is fully checked. */
#include "tests/unit/policy_run.h"

#define POOL "block_bytes=4096,pool=64KiB,"

static void begin_cache(pr_run *run, uint32_t id, uint64_t size)
{
    cr_assert_eq(pr_step(run, (asim_event){ASIM_EV_ALLOC, ASIM_ALLOC_GROWS, 0, id, size}), ASIM_PLACED);
}

Test(inner, what_may_stand_there)
{
    static const struct {
        const char *params, *words;
    } cases[] = {
        {"rest=nosuch", "parameter rest=nosuch: there is no policy 'nosuch'; 'allocsim policies' lists them"},
        {"rest=paged", "nesting is not possible"},
        {"rest=[paged,block_bytes=1]", "nesting is not possible"},
        {"rest=null", "null is a reference, no allocator"},
        {"rest=lower-bound", "lower-bound is a reference, no allocator"},
        {"rest=[]", "write NAME or [NAME,key=value,...]"},
        {"rest=[torchcache", "write NAME or [NAME,key=value,...]"},
        {"rest=[torchcache]]", "there is no policy 'torchcache]'"},
        {"rest=[torchcache,]", "a parameter is missing after the last comma"},
        {"rest=[torchcache,color=red]", "torchcache: there is no parameter 'color'"},
        {"rest=[best-fit,align=3]", "parameter rest=[best-fit,align=3]: "},
        {"rest=", "there is no policy ''"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        pr_usage(&asim_policy_paged, cases[i].params, cases[i].words);
}

Test(inner, parameters_reach_it)
{
    pr_run run = pr_start(&asim_policy_paged, POOL "rest=[first-fit,pool=8MiB,align=4096]", GIB);
    pr_alloc(&run, 0, 1, 0);
    cr_expect_eq(run.placed.size, 4096);
    cr_expect_eq(run.book->sizes[0], 8 * MIB);
    pr_end(&run);
    run = pr_start(&asim_policy_paged, POOL "rest=[torchcache]", GIB);
    pr_alloc(&run, 0, 1, 0);
    cr_expect_eq(run.placed.size, 512);
    pr_end(&run);
}

/* A pool of 8 MiB with holes of 2 and 2 MiB: 3 MiB fit once the live blocks have moved together. Words of
 * caches and of the moved blocks don't meet. */
Test(inner, its_moves_arrive)
{
    pr_run run = pr_start(&asim_policy_paged, POOL "rest=[best-fit,pool=8MiB,compact=full]", GIB);
    for (uint32_t i = 0; i < 4; i++) {
        pr_alloc(&run, 2 * i, 2 * MIB, 0);
        begin_cache(&run, 2 * i + 1, 4096);
    }
    pr_free(&run, 0);
    pr_free(&run, 4);
    pr_alloc(&run, 0, 3 * MIB, 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_compactions), 1);
    cr_expect_gt(pr_metric(&run, ASIM_METRIC_moved_bytes), 0);
    for (uint32_t i = 0; i < 8; i++)
        if (i != 4)
            pr_free(&run, i);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_allocated_bytes), 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_largest_free_bytes), 8 * MIB);
    pr_end(&run);
}

/* native has no free_done: it hears of the free when the completion is due, as it would from the engine. */
Test(inner, completions_that_it_does_not_know)
{
    pr_run run = pr_start(&asim_policy_paged, POOL "rest=native", GIB);
    pr_alloc(&run, 0, MIB, 0);
    pr_alloc(&run, 1, MIB, 0);
    pr_step(&run, (asim_event){ASIM_EV_FREE, ASIM_FREE_PENDING, 0, 0, 0});
    cr_expect_eq(run.book->frees, 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_active_bytes), 2 * MIB);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_allocated_bytes), MIB);
    pr_step(&run, (asim_event){.kind = ASIM_EV_FREE_DONE, .id = 0});
    cr_expect_eq(run.book->frees, 1);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_active_bytes), MIB);
    pr_free(&run, 1);
    cr_expect_eq(run.book->frees, 2);
    pr_end(&run);
}

/* Segments before, between and behind the pool's, on both devices: the walk shows them by address. */
Test(inner, the_walks_merge)
{
    pr_run run = pr_start(&asim_policy_paged, POOL "rest=native", GIB);
    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t lane = 0; lane < PR_STREAMS * PR_DEVICES; lane += PR_STREAMS) {
            const uint32_t id = 10 * round + lane;
            pr_alloc(&run, id, MIB, lane);
            cr_assert_eq(
                pr_step(&run, (asim_event){ASIM_EV_ALLOC, ASIM_ALLOC_GROWS, (uint16_t)lane, id + 1, 5000}),
                ASIM_PLACED);
            pr_alloc(&run, id + 2, MIB, lane);
        }
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_reserved_bytes), 8 * MIB + 2 * 64 * KIB);
    pr_end(&run);
}

/* A KV cache that does not fit is no affair of the inner policy's; its own refusals it describes, whatever
 * came before. */
Test(inner, each_refusal_is_described_by_its_own_policy)
{
    pr_run run = pr_start(&asim_policy_paged, POOL "rest=torchcache", GIB);
    cr_expect(pr_refuses(&run, 0, 2 * GIB, 0));
    cr_expect_eq(pr_step(&run, (asim_event){ASIM_EV_ALLOC, ASIM_ALLOC_GROWS, 0, 1, 2 * GIB}), ASIM_REFUSED);
    cr_expect(pr_refuses(&run, 2, 3 * GIB, 0));
    const asim_failures *failures = asim_engine_failures(run.engine);
    cr_assert_eq(failures->count, 3);
    cr_assert_not_null(failures->items[0].message);
    cr_expect(strstr(failures->items[0].message, "2.00 GiB"), "%s", failures->items[0].message);
    cr_expect_null(failures->items[1].message);
    cr_assert_not_null(failures->items[2].message);
    cr_expect(strstr(failures->items[2].message, "3.00 GiB"), "%s", failures->items[2].message);
    pr_end(&run);
}

/* What the inner policy counts and says is there; its blocks that wait for another stream complete. */
Test(inner, its_counts_and_completions)
{
    pr_run run = pr_start(&asim_policy_paged, POOL "rest=torchcache", GIB);
    pr_alloc(&run, 0, 3 * MIB, 0);
    pr_use(&run, 0, 1);
    pr_free(&run, 0);
    cr_expect_eq(run.book->completed, 0);
    pr_sync(&run, 1);
    pr_alloc(&run, 1, 512, 0);
    cr_expect_eq(run.book->completed, 1);
    pr_step(&run, (asim_event){.kind = ASIM_EV_TRIM, .lane = 0});
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_cache_flushes), 1);
    char text[400];
    cr_expect_eq(asim_engine_refusal_text(run.engine, text, sizeof text), 0);
    cr_expect(pr_refuses(&run, 2, 2 * GIB, 0));
    cr_expect_gt(asim_engine_refusal_text(run.engine, text, sizeof text), 0);
    pr_end(&run);
}
