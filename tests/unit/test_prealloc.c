/* prealloc against hand calculations from its description of a model. */
#include "tests/unit/policy_run.h"

/* 2 x 2 layers x 64 x 32 tokens x 2 bytes: slots of 16 KiB, 512 bytes a token; 4 of them. */
#define SMALL "weights=1MiB,layers=2,width=64,max_length=32,batch=4,activations=512KiB,"

static asim_alloc_result ask_cache(pr_run *run, uint32_t id, uint64_t size)
{
    return pr_step(run, (asim_event){ASIM_EV_ALLOC, ASIM_ALLOC_GROWS, 0, id, size});
}

static asim_alloc_result resize(pr_run *run, uint32_t id, uint64_t size)
{
    return pr_step(run, (asim_event){.kind = ASIM_EV_RESIZE, .id = id, .size = size});
}

/* The example of the defaults, Llama 3 8B: 2 x 32 layers x 1024 x 2 bytes are 128 KiB a token; 8192 tokens 1
 * GiB; 8 sequences 8 GiB; 8.03e9 weights of 2 bytes. */
Test(prealloc, the_default_description)
{
    pr_run run = pr_start(&asim_policy_prealloc, "", 40 * GIB);
    pr_alloc(&run, 0, 1, 0);
    cr_expect_eq(run.book->allocs, 3);
    cr_expect_eq(run.book->sizes[0], 16060000256); /* in multiples of 512 */
    cr_expect_eq(run.book->sizes[1], 8 * GIB);
    cr_expect_eq(run.book->sizes[2], 1 * GIB);
    cr_expect_eq(ask_cache(&run, 1, 128 * KIB), ASIM_PLACED);
    cr_expect_eq(run.placed.size, GIB);
    pr_end(&run);
}

Test(prealloc, where_requests_go)
{
    pr_run run = pr_start(&asim_policy_prealloc, SMALL "rest=native", GIB);
    const uint64_t w0 = pr_alloc(&run, 0, 1000, 0), w1 = pr_alloc(&run, 1, 512, 0);
    cr_expect_eq(run.book->sizes[0], MIB);
    cr_expect_eq(run.book->sizes[1], 64 * KIB);
    cr_expect_eq(run.book->sizes[2], 512 * KIB);
    cr_expect_eq(w0, run.book->bases[0]);
    cr_expect_eq(w1, w0 + 1024);
    cr_expect_eq(ask_cache(&run, 2, 512), ASIM_PLACED); /* one token, a whole slot */
    cr_expect_eq(run.placed.address, run.book->bases[1]);
    cr_expect_eq(run.placed.size, 16 * KIB);
    cr_expect_eq(pr_alloc(&run, 3, 1000, 0), run.book->bases[2]); /* after the first cache: activations */
    cr_expect_eq(run.book->allocs, 3);
    cr_expect_eq(pr_own(&run, "peak_weights_bytes"), 1536);
    cr_expect_eq(pr_own(&run, "peak_kv_slots"), 1);
    cr_expect_eq(pr_own(&run, "peak_activations_bytes"), 1024);
    cr_expect_eq(pr_own(&run, "fallthroughs"), 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_internal_frag_bytes), 24 + 15872 + 24);
    pr_end(&run);
    run = pr_start(&asim_policy_prealloc, SMALL "rest=native", GIB);
    pr_alloc(&run, 0, 1000, 0);
    pr_alloc(&run, 1, 1000, PR_STREAMS); /* the other device has areas of its own */
    cr_expect_eq(run.book->allocs, 6);
    cr_expect_eq(run.placed.address, run.book->bases[3]);
    cr_expect_eq(pr_own(&run, "weights_area_bytes"), 2 * MIB);
    pr_end(&run);
}

/* A cache grows in its slot, up to max_length: nothing is copied. Beyond that it goes to rest, with its
 * contents, and stays there. */
Test(prealloc, growth)
{
    pr_run run = pr_start(&asim_policy_prealloc, SMALL "rest=native", GIB);
    cr_expect_eq(ask_cache(&run, 0, 512), ASIM_PLACED);
    const uint64_t slot = run.placed.address;
    for (uint64_t tokens = 2; tokens <= 32; tokens++) {
        cr_expect_eq(resize(&run, 0, tokens * 512), ASIM_PLACED);
        cr_expect_eq(run.placed.address, slot);
    }
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_moved_bytes), 0);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_requested_bytes), 16 * KIB);
    cr_expect_eq(resize(&run, 0, 33 * 512), ASIM_PLACED);
    cr_expect_eq(run.book->allocs, 4);
    cr_expect_eq(run.placed.address, run.book->bases[3]);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_moved_bytes), 16 * KIB);
    cr_expect_eq(resize(&run, 0, 34 * 512), ASIM_PLACED); /* not into the activations */
    cr_expect_eq(run.placed.address, run.book->bases[4]);
    cr_expect_eq(pr_own(&run, "fallthroughs"), 2);
    cr_expect_eq(ask_cache(&run, 1, 1), ASIM_PLACED);
    cr_expect_eq(run.placed.address, slot); /* which is free again */
    pr_free(&run, 0);
    pr_free(&run, 1);
    cr_expect_eq(run.book->frees, 2);
    pr_end(&run);
}

/* More caches than the batch, longer ones than a slot, more weights and activations than their areas hold. */
Test(prealloc, what_does_not_fit_falls_through)
{
    pr_run run = pr_start(&asim_policy_prealloc, SMALL "rest=native", GIB);
    pr_alloc(&run, 0, MIB - 512, 0);
    pr_alloc(&run, 1, 1024, 0);
    cr_expect_eq(run.book->sizes[3], 1024);
    pr_alloc(&run, 2, 512, 0); /* there is room for this one */
    cr_expect_eq(run.book->allocs, 4);
    for (uint32_t i = 0; i < 4; i++)
        cr_expect_eq(ask_cache(&run, 3 + i, 512), ASIM_PLACED);
    cr_expect_eq(run.book->allocs, 4);
    cr_expect_eq(ask_cache(&run, 7, 512), ASIM_PLACED);
    cr_expect_eq(run.book->allocs, 5);
    pr_free(&run, 3);
    cr_expect_eq(ask_cache(&run, 3, 16 * KIB + 1), ASIM_PLACED);
    cr_expect_eq(run.book->allocs, 6);
    pr_alloc(&run, 8, 512 * KIB + 1, 0);
    cr_expect_eq(run.book->allocs, 7);
    cr_expect_eq(pr_own(&run, "peak_kv_slots"), 4);
    cr_expect_eq(pr_own(&run, "fallthroughs"), 4);
    cr_expect_eq(pr_own(&run, "fallthrough_bytes"), 1024 + 512 + 16 * KIB + 1 + 512 * KIB + 1);
    cr_expect(pr_refuses(&run, 9, 2 * GIB, 0));
    cr_expect(pr_refuses(&run, 9, UINT64_MAX, 0));
    cr_expect_eq(ask_cache(&run, 10, UINT64_MAX), ASIM_REFUSED);
    cr_expect_eq(pr_ask(&run, 11, 0, 0), ASIM_NOTHING);
    pr_end(&run);
}

/* An area of 30 MiB on a device of 20 MiB is left out, the others are there. */
Test(prealloc, areas_that_the_device_refuses)
{
    pr_run run = pr_start(&asim_policy_prealloc, SMALL "rest=torchcache", 20 * MIB);
    pr_alloc(&run, 0, 512, 0);
    cr_expect_eq(run.book->allocs, 3);
    pr_end(&run);
    run = pr_start(&asim_policy_prealloc, SMALL "weights=30MiB,rest=native", 20 * MIB);
    pr_alloc(&run, 0, 512, 0);
    cr_expect_eq(run.book->sizes[0], 64 * KIB);
    cr_expect_eq(run.book->sizes[2], 512);
    cr_expect_eq(pr_own(&run, "weights_area_bytes"), 0);
    cr_expect_eq(pr_own(&run, "fallthroughs"), 1);
    pr_end(&run);
    run = pr_start(&asim_policy_prealloc, "weights=0,batch=0,activations=0,rest=native", GIB);
    pr_alloc(&run, 0, 512, 0);
    cr_expect_eq(ask_cache(&run, 1, 512), ASIM_PLACED);
    cr_expect_eq(run.book->allocs, 2); /* no areas at all */
    pr_end(&run);
}

Test(prealloc, recorded_completions)
{
    pr_run run = pr_start(&asim_policy_prealloc, SMALL "batch=1,rest=native", GIB);
    cr_expect_eq(ask_cache(&run, 0, 512), ASIM_PLACED);
    pr_step(&run, (asim_event){ASIM_EV_FREE, ASIM_FREE_PENDING, 0, 0, 0});
    cr_expect_eq(ask_cache(&run, 1, 512), ASIM_PLACED);
    cr_expect_eq(run.book->allocs, 4); /* the slot is not free yet */
    pr_step(&run, (asim_event){.kind = ASIM_EV_FREE_DONE, .id = 0});
    cr_expect_eq(ask_cache(&run, 2, 512), ASIM_PLACED);
    cr_expect_eq(run.book->allocs, 4);
    pr_end(&run);
}

Test(prealloc, parameters)
{
    pr_usage(&asim_policy_prealloc, "layers=4096,width=1048576,max_length=16777216",
             "the KV area would have more than 1024 TiB");
    pr_usage(&asim_policy_prealloc, "layers=0", "out of range; allowed: 1 to 4096");
    pr_usage(&asim_policy_prealloc, "rest=paged", "nesting is not possible");
}
