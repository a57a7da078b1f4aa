/* The planner against optima found by hand and by trying every order, and the policy on short traces. */
#include "policies/static_plan_pack.h"
#include "sim/rng.h"
#include "tests/unit/policy_run.h"
#include "traces/buffers.h"
#include "traces/native.h"
#include "traces/text.h"

#include <stdio.h>

enum {
    SMALL = 7 /* buffers of which every order is tried */
};

static const asim_plan_options thorough = {.steps = 1000000, .exact_max = ASIM_PLAN_EXACT_MAX};

/* Whether it is a plan at all: every pair, and every offset. */
static void expect_plan(const asim_plan_buffer *b, uint32_t count, uint64_t bytes)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(b[i].offset % b[i].align, 0);
        end = b[i].size && b[i].offset + b[i].size > end ? b[i].offset + b[i].size : end;
        for (uint32_t k = 0; k < i; k++)
            cr_assert(b[i].end <= b[k].begin || b[k].end <= b[i].begin ||
                          b[i].offset + b[i].size <= b[k].offset || b[k].offset + b[k].size <= b[i].offset,
                      "buffers %u and %u overlap", k, i);
    }
    cr_assert_eq(end, bytes);
}

static asim_plan_result pack(asim_plan_buffer *buffers, uint32_t count, const asim_plan_options *options)
{
    asim_plan_result result;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_plan_pack(buffers, count, options, asim_hostmem_libc(), &result, &err), ASIM_OK, "%s",
                 err.message);
    expect_plan(buffers, count, result.bytes);
    return result;
}

/* The example of MiniMalloc's README, which it packs into 12; 12 are alive at once. */
Test(static_plan, published_example)
{
    asim_plan_buffer b[] = {
        {0, 3, 4, 1, 0}, {3, 9, 4, 1, 0}, {0, 9, 4, 1, 0}, {9, 21, 4, 1, 0}, {0, 21, 4, 1, 0}};
    const asim_plan_result result = pack(b, 5, &thorough);
    cr_expect_eq(result.bytes, 12);
    cr_expect_eq(result.lower_bound, 12);
    cr_expect(result.least);
}

/* 5 and 3 bytes at once, at multiples of 4: 3 below and 5 from 4 on end at 9; the other way round at 11. */
Test(static_plan, alignment_costs_what_it_must)
{
    asim_plan_buffer b[] = {{0, 2, 5, 4, 0}, {1, 3, 3, 4, 0}};
    const asim_plan_result result = pack(b, 2, &thorough);
    cr_expect_eq(result.bytes, 9);
    cr_expect(result.least);
}

Test(static_plan, nothing_and_no_bytes)
{
    asim_plan_result result = pack(NULL, 0, &thorough);
    cr_expect_eq(result.bytes, 0);
    cr_expect(result.least);
    asim_plan_buffer b[] = {{0, 9, 0, 64, 7}, {0, 9, 0, 1, 7}, {3, 4, 10, 64, 7}};
    result = pack(b, 3, &thorough);
    cr_expect_eq(result.bytes, 10);
    cr_expect_eq(b[0].offset, 0);
}

/* Lives that only touch share memory; those that overlap by one moment don't. */
Test(static_plan, the_end_is_exclusive)
{
    asim_plan_buffer b[] = {{0, 5, 8, 1, 0}, {5, 9, 8, 1, 0}};
    cr_expect_eq(pack(b, 2, &thorough).bytes, 8);
    b[0].end = 6;
    cr_expect_eq(pack(b, 2, &thorough).bytes, 16);
}

static void expect_refused(asim_plan_buffer *buffers, uint32_t count, const char *words)
{
    asim_plan_result result;
    asim_err err = ASIM_ERR_INIT;
    cr_expect_eq(asim_plan_pack(buffers, count, &thorough, asim_hostmem_libc(), &result, &err), ASIM_E_INPUT);
    cr_expect(strstr(err.message, words), "%s", err.message);
}

Test(static_plan, what_cannot_be_planned)
{
    asim_plan_buffer late = {5, 5, 1, 1, 0}, unaligned = {0, 1, 1, 0, 0}, huge = {0, 1, UINT64_MAX, 1, 0},
                     steep = {0, 1, 1, UINT64_MAX, 0};
    asim_plan_buffer sum[] = {{0, 1, UINT64_C(1) << 61, 1, 0}, {1, 2, UINT64_C(1) << 61, 1, 0}};
    expect_refused(&late, 1, "buffer 0 lives from 5 to 5");
    expect_refused(&unaligned, 1, "alignment 0");
    expect_refused(&huge, 1, "2^62 or more");
    expect_refused(&steep, 1, "2^62 or more");
    expect_refused(sum, 2, "buffer 1 of 2305843009213693952 bytes");
    sum[1].size--;
    cr_expect_eq(pack(sum, 2, &thorough).bytes, UINT64_C(1) << 61);
}

/* --- against every order -----------------------------------------------------------------------------------
 */

/* Some best plan puts each buffer, in the order of their offsets, as low as those before it allow: the least
 * over all orders is the optimum. */
static uint64_t least_of_orders(asim_plan_buffer *b, uint32_t placed, uint32_t count, uint64_t so_far,
                                uint64_t best)
{
    if (placed == count)
        return so_far < best ? so_far : best;
    for (uint32_t next = placed; next < count; next++) {
        asim_plan_buffer swap = b[placed];
        b[placed] = b[next];
        b[next] = swap;
        uint64_t low = 0;
        for (uint32_t i = 0; i < placed; i++)
            if (b[i].begin < b[placed].end && b[placed].begin < b[i].end && b[i].offset + b[i].size > low)
                low = b[i].offset + b[i].size;
        b[placed].offset = (low + b[placed].align - 1) / b[placed].align * b[placed].align;
        const uint64_t end = b[placed].offset + b[placed].size;
        best = least_of_orders(b, placed + 1, count, end > so_far ? end : so_far, best);
        swap = b[placed];
        b[placed] = b[next];
        b[next] = swap;
    }
    return best;
}

Test(static_plan, finds_the_optimum_of_every_order, .timeout = 120)
{
    asim_rng rng = {1};
    uint64_t above_load = 0, searched = 0;
    for (int round = 0; round < 1500; round++) {
        asim_plan_buffer b[SMALL], copy[SMALL];
        const uint32_t count = 1 + (uint32_t)asim_rng_below(&rng, SMALL);
        for (uint32_t i = 0; i < count; i++) {
            b[i] = (asim_plan_buffer){.begin = asim_rng_below(&rng, 7), .size = 1 + asim_rng_below(&rng, 5)};
            b[i].end = b[i].begin + 1 + asim_rng_below(&rng, 4);
            b[i].align = round % 3 ? 1 : UINT64_C(1) << asim_rng_below(&rng, 3);
        }
        memcpy(copy, b, sizeof b);
        const uint64_t optimum = least_of_orders(copy, 0, count, 0, UINT64_MAX);
        const asim_plan_result result = pack(b, count, &thorough);
        cr_assert_eq(result.bytes, optimum, "round %d", round);
        cr_assert(result.least, "round %d", round);
        uint64_t load = 0;
        for (uint64_t t = 0; t < 12; t++) {
            uint64_t live = 0;
            for (uint32_t i = 0; i < count; i++)
                live += b[i].begin <= t && t < b[i].end ? b[i].size : 0;
            load = live > load ? live : load;
        }
        above_load += optimum > load;
        searched += result.steps > 0;
    }
    cr_expect_gt(above_load, 20); /* the rounds were not all easy */
    cr_expect_gt(searched, 20);
}

/* --- effort ------------------------------------------------------------------------------------------------
 */

static uint32_t random_buffers(asim_plan_buffer *b, uint32_t count, uint64_t seed)
{
    asim_rng rng = {seed};
    for (uint32_t i = 0; i < count; i++) {
        b[i] = (asim_plan_buffer){.begin = asim_rng_below(&rng, 2 * count), .align = 1};
        b[i].end = b[i].begin + 1 + asim_rng_below(&rng, asim_rng_below(&rng, 8) ? 20 : count);
        b[i].size = 1 + asim_rng_below(&rng, 1000);
    }
    return count;
}

Test(static_plan, effort_is_bounded_and_repeatable)
{
    enum {
        COUNT = 300
    };
    static const uint64_t steps[] = {0, 1, 100, 20000};
    asim_plan_buffer b[COUNT], again[COUNT];
    uint64_t before = UINT64_MAX;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const asim_plan_options options = {.steps = steps[i], .exact_max = COUNT};
        random_buffers(b, COUNT, 5);
        random_buffers(again, COUNT, 5);
        const asim_plan_result result = pack(b, COUNT, &options), second = pack(again, COUNT, &options);
        cr_expect_leq(result.steps, steps[i]);
        cr_expect_leq(result.bytes, before); /* the search never makes it worse */
        cr_expect_leq(result.lower_bound, result.bytes);
        cr_expect_eq(second.bytes, result.bytes);
        cr_expect_eq(second.steps, result.steps);
        cr_expect_arr_eq(b, again, sizeof b);
        before = result.bytes;
    }
    const asim_plan_options easy = {.enough = UINT64_MAX, .steps = 1000, .exact_max = COUNT};
    random_buffers(b, COUNT, 5);
    cr_expect_eq(pack(b, COUNT, &easy).steps, 0); /* what is enough needs no search */
}

/* More than any method but the skyline takes on: it must be a plan, and not much above the bound. */
Test(static_plan, many_buffers)
{
    enum {
        COUNT = 20000
    };
    asim_plan_buffer *b = calloc(COUNT, sizeof *b);
    random_buffers(b, COUNT, 9);
    const asim_plan_options options = {.exact_max = 0};
    asim_plan_result result;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_plan_pack(b, COUNT, &options, asim_hostmem_libc(), &result, &err), ASIM_OK);
    for (uint32_t i = 0; i < COUNT; i++) /* beside the expected bytes, each against 200 others */
        for (uint32_t k = 0; k < 200; k++) {
            const asim_plan_buffer *x = &b[i], *y = &b[(i * UINT64_C(7919) + k * UINT64_C(104729)) % COUNT];
            cr_assert(x == y || x->end <= y->begin || y->end <= x->begin ||
                      x->offset + x->size <= y->offset || y->offset + y->size <= x->offset);
        }
    cr_expect_leq(result.bytes, result.lower_bound + result.lower_bound / 5);
    free(b);
}

typedef struct scarce {
    uint64_t left, bytes;
} scarce;

static void *scarce_resize(void *ctx, void *memory, size_t old_size, size_t new_size)
{
    scarce *s = ctx;
    if (new_size && s->left-- == 0) {
        s->left = 0;
        return NULL;
    }
    void *resized = asim_hostmem_libc()->resize(NULL, memory, old_size, new_size);
    s->bytes += new_size - old_size;
    return resized;
}

Test(static_plan, memory_may_run_out_anywhere)
{
    asim_plan_buffer b[40];
    const asim_plan_options options = {.steps = 2000, .exact_max = 40};
    for (uint64_t n = 0;; n++) {
        scarce s = {.left = n};
        const asim_hostmem mem = {scarce_resize, &s};
        asim_plan_result result;
        asim_err err = ASIM_ERR_INIT;
        random_buffers(b, 40, 3);
        const asim_code code = asim_plan_pack(b, 40, &options, &mem, &result, &err);
        cr_assert_eq(s.bytes, 0, "request %d: memory leaks", (int)n);
        if (code == ASIM_OK) {
            cr_expect_gt(n, 15);
            break;
        }
        cr_assert_eq(code, ASIM_E_SYSTEM);
    }
}

/* --- the policy --------------------------------------------------------------------------------------------
 */

typedef struct source {
    const char *text;
    size_t left;
} source;

static asim_code give(void *ctx, void *buffer, size_t capacity, size_t *ret_length, asim_err *err)
{
    source *s = ctx;
    (void)err;
    *ret_length = s->left < capacity ? s->left : capacity;
    memcpy(buffer, s->text, *ret_length);
    s->text += *ret_length;
    s->left -= *ret_length;
    return ASIM_OK;
}

static uint64_t own(const asim_run_record *record, const char *name)
{
    for (uint32_t i = 0; i < record->own_count; i++)
        if (!strcmp(record->own[i].name, name))
            return record->own[i].value;
    cr_assert_fail("no metric %s", name);
    return 0;
}

/* A text or a list of buffers through the policy, fully checked, on a device that counts single bytes. */
static asim_run_record run_text(const char *text, const char *params, uint64_t capacity)
{
    source s = {text, strlen(text)};
    const asim_input input = {give, &s};
    asim_trace_builder *builder;
    asim_trace *trace = NULL;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_trace_builder_new(asim_hostmem_libc(), &builder, &err), ASIM_OK);
    const asim_sink sink = asim_trace_builder_sink(builder);
    const asim_importer *importer = strncmp(text, "id,", 3) ? &asim_importer_text : &asim_importer_buffers;
    cr_assert_eq(importer->import(&input, &sink, asim_hostmem_libc(), &err), ASIM_OK, "%s", err.message);
    cr_assert_eq(asim_trace_builder_finish(builder, &trace, &err), ASIM_OK, "%s", err.message);
    const asim_param_table *table = &asim_policy_static_plan.params;
    void *block = calloc(1, table->block_size);
    asim_params_default(table, block);
    cr_assert_eq(asim_params_parse(table, block, params, &err), ASIM_OK, "%s", err.message);
    asim_profile profile;
    cr_assert(asim_profile_builtin("generic-80g", &profile));
    profile.granule_bytes = 1;
    const asim_run_config config = {.trace = trace,
                                    .policy = &asim_policy_static_plan,
                                    .params = block,
                                    .profile = &profile,
                                    .capacity = capacity,
                                    .check = ASIM_CHECK_FULL};
    asim_engine *engine = NULL;
    asim_run_record record;
    cr_assert_eq(asim_engine_new(&config, asim_hostmem_libc(), &engine, &err), ASIM_OK, "%s", err.message);
    cr_assert_eq(asim_engine_run(engine, &err), ASIM_OK, "%s", err.message);
    asim_engine_record(engine, &record);
    asim_engine_free(engine);
    asim_trace_release(trace);
    free(block);
    return record;
}

static const char example[] = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n";

/* The published example runs in its 12 bytes; in 11 it still runs, but not whole. */
Test(static_plan, runs_in_exactly_the_plan)
{
    asim_run_record record = run_text(example, "align=1", 12);
    cr_expect_eq(record.status, ASIM_RUN_OK);
    cr_expect_eq(record.metrics[ASIM_METRIC_peak_reserved_bytes], 12);
    cr_expect_eq(record.metrics[ASIM_METRIC_device_allocs], 1);
    cr_expect_eq(own(&record, "plan_bytes"), 12);
    cr_expect_eq(own(&record, "plan_lower_bound_bytes"), 12);
    record = run_text(example, "align=1", 11);
    cr_expect_eq(record.status, ASIM_RUN_OOM);
    cr_expect_eq(own(&record, "plan_bytes"), 12);
    cr_expect_eq(record.metrics[ASIM_METRIC_reserved_bytes], 11);
    cr_expect_eq(record.oom.segment_bytes, 12);
    record = run_text(example, "", 4096); /* each counts as 512 */
    cr_expect_eq(record.metrics[ASIM_METRIC_peak_reserved_bytes], 1536);
}

/* What waits for its completion is not reused before; what is freed at once is. */
Test(static_plan, blocks_live_until_their_completion)
{
    asim_run_record record =
        run_text("alloc a 512\nfree a pending\nalloc b 512\nfree_done a\nalloc c 512\n", "", 4096);
    cr_expect_eq(record.metrics[ASIM_METRIC_peak_reserved_bytes], 1024);
    record = run_text("alloc a 512\nfree a\nalloc b 512\n", "", 4096);
    cr_expect_eq(record.metrics[ASIM_METRIC_peak_reserved_bytes], 512);
}

/* The largest size counts from the start, nothing moves, and what no device could hold is refused alone. */
Test(static_plan, growing_blocks_keep_their_place)
{
    const asim_run_record record = run_text(
        "alloc a 100\nalloc b 512\nresize a 1000\nresize a 8000\nalloc z 8000\nfree a\nalloc c 1024\n", "",
        4096);
    cr_expect_eq(record.metrics[ASIM_METRIC_peak_reserved_bytes], 1536);
    cr_expect_eq(record.metrics[ASIM_METRIC_moved_bytes], 0);
    cr_expect_eq(record.metrics[ASIM_METRIC_ooms], 2);
    cr_expect_eq(record.metrics[ASIM_METRIC_lower_bound_bytes], 1536);
}

Test(static_plan, devices_are_planned_apart)
{
    const asim_run_record record = run_text(
        "device x\ndevice y\nlane x device=x\nlane y device=y\nalloc a 512 lane=x\nalloc b 1024 lane=y\n", "",
        4096);
    cr_expect_eq(record.metrics[ASIM_METRIC_device_allocs], 2);
    cr_expect_eq(own(&record, "plan_bytes"), 1536);
}

/* Stepped, without a trace, no request can be foreseen. */
Test(static_plan, needs_the_trace)
{
    pr_run run = pr_start(&asim_policy_static_plan, "", GIB);
    const asim_event event = {.kind = ASIM_EV_ALLOC, .size = 512};
    asim_err err = ASIM_ERR_INIT;
    cr_expect_eq(asim_engine_step(run.engine, &event, NULL, NULL, &err), ASIM_E_USAGE);
    cr_expect(strstr(err.message, "needs all of it beforehand"), "%s", err.message);
    pr_end(&run);
    pr_usage(&asim_policy_static_plan, "exact=2049", "exact");
}
