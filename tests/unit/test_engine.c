/* The engine, ledger and device model, with a policy small enough to calculate by hand: each request is
 * rounded to 1 MiB and gets a segment of its own; a block used on another stream waits for one event. */
#include "sim/device_model.h"
#include "sim/engine.h"
#include "sim/timeline.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define MIB UINT64_C(1048576)

enum {
    BLOCKS = 64
};

struct asim_policy_state {
    asim_policy_env env;
    struct {
        asim_region region;
        uint64_t size, requested, event;
        bool live, used, pending;
        unsigned use_lane;
    } blocks[BLOCKS];
};

static asim_code one_init(asim_policy_state *state, const asim_policy_env *env, const void *params,
                          asim_err *err)
{
    (void)params;
    (void)err;
    state->env = *env;
    return ASIM_OK;
}

static void process(asim_policy_state *state)
{
    asim_device device = state->env.device;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        if (!state->blocks[i].pending || !device.ops->event_query(device.ctx, state->blocks[i].event))
            continue;
        state->env.listener->free_done(state->env.listener->ctx, state->blocks[i].region.address,
                                       state->blocks[i].size, state->blocks[i].requested);
        device.ops->free(device.ctx, state->blocks[i].region.index);
        state->blocks[i].pending = state->blocks[i].live = false;
    }
}

static asim_alloc_result one_alloc(asim_policy_state *state, const asim_event *event,
                                   asim_placement *ret_placement)
{
    asim_device device = state->env.device;
    unsigned on = state->env.lanes[event->lane].device;
    uint64_t size = (event->size + MIB - 1) / MIB * MIB, free_bytes, total;
    process(state);
    if (size == 0)
        return ASIM_NOTHING;
    uint32_t i = 0;
    while (state->blocks[i].live)
        i++;
    if (device.ops->alloc(device.ctx, on, size, event->lane, &state->blocks[i].region) != ASIM_DEVICE_OK) {
        device.ops->memory(device.ctx, on, &free_bytes, &total);
        state->env.listener->refusal(state->env.listener->ctx, on, size, size, free_bytes);
        return ASIM_REFUSED;
    }
    state->blocks[i].size = size;
    state->blocks[i].requested = event->size;
    state->blocks[i].live = true;
    state->blocks[i].used = state->blocks[i].pending = false;
    *ret_placement =
        (asim_placement){state->blocks[i].region.address, size, size, state->blocks[i].region.index, i};
    return ASIM_PLACED;
}

static asim_free_result one_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    asim_device device = state->env.device;
    (void)completion_follows;
    if (state->blocks[word].used) {
        state->blocks[word].event = device.ops->event_record(device.ctx, state->blocks[word].use_lane);
        state->blocks[word].pending = true;
        return ASIM_FREE_LATER;
    }
    device.ops->free(device.ctx, state->blocks[word].region.index);
    state->blocks[word].live = false;
    return ASIM_FREED;
}

static void one_use(asim_policy_state *state, uint32_t word, unsigned lane)
{
    state->blocks[word].used = true;
    state->blocks[word].use_lane = lane;
}

static asim_code one_check(const asim_policy_state *state, asim_err *err)
{
    (void)state;
    (void)err;
    return ASIM_OK;
}

static void one_walk(const asim_policy_state *state, const asim_walker *walker)
{
    for (uint64_t last = 0;;) { /* by address */
        uint32_t i = BLOCKS;
        for (uint32_t k = 0; k < BLOCKS; k++)
            if (state->blocks[k].live && state->blocks[k].region.address > last &&
                (i == BLOCKS || state->blocks[k].region.address < state->blocks[i].region.address))
                i = k;
        if (i == BLOCKS)
            return;
        last = state->blocks[i].region.address;
        walker->segment(walker->ctx, &(asim_walk_segment){.address = state->blocks[i].region.address,
                                                          .size = state->blocks[i].size,
                                                          .region = state->blocks[i].region.index});
        walker->block(walker->ctx, &(asim_walk_block){.address = state->blocks[i].region.address,
                                                      .size = state->blocks[i].size,
                                                      .state = state->blocks[i].pending ? ASIM_BLOCK_PENDING
                                                                                        : ASIM_BLOCK_LIVE});
    }
}

static void one_fini(asim_policy_state *state)
{
    (void)state;
}

static asim_code one_adopt(asim_policy_state *state, const asim_trace *trace, asim_placement *ret_placements,
                           asim_err *err)
{
    for (uint32_t s = 0; s < trace->opening_segment_count; s++) {
        const asim_opening_segment *segment = &trace->opening_segments[s];
        asim_device device = state->env.device;
        if (device.ops->claim(device.ctx, 0, segment->address, segment->size, false,
                              &state->blocks[s].region) != ASIM_DEVICE_OK)
            return asim_fail(err, ASIM_E_USAGE, "no room");
        state->blocks[s].size = segment->size;
        state->blocks[s].live = true;
        ret_placements[segment->first_block] = (asim_placement){
            segment->address, segment->size, segment->size, state->blocks[s].region.index, s};
    }
    return ASIM_OK;
}

static const asim_policy one_segment_each = {
    .version = ASIM_POLICY_VERSION,
    .name = "one-segment-each",
    .summary = "test",
    .source = "test",
    .state_size = sizeof(asim_policy_state),
    .flags = ASIM_POLICY_MODELS_TORCH,
    .init = one_init,
    .alloc = one_alloc,
    .free = one_free,
    .use = one_use,
    .check = one_check,
    .walk = one_walk,
    .fini = one_fini,
    .adopt = one_adopt,
};

/* --- a trace without a file --- */

static const asim_lane lanes[] = {{.stream = 0}, {.stream = 1}};
static const asim_trace_device devices[] = {{.name = ASIM_NO_INDEX}};
static asim_trace trace;
static asim_profile profile;
static asim_run_config config;
static asim_run_record record;

#define ALLOC(slot, bytes)                                                                                   \
    {                                                                                                        \
        .kind = ASIM_EV_ALLOC, .id = (slot), .size = (bytes)                                                 \
    }
#define FREE(slot)                                                                                           \
    {                                                                                                        \
        .kind = ASIM_EV_FREE, .id = (slot)                                                                   \
    }
#define EVENTS(...)                                                                                          \
    static const asim_event events[] = {__VA_ARGS__};                                                        \
    set_events(events, sizeof events / sizeof events[0])

static void set_events(const asim_event *events, size_t count)
{
    trace = (asim_trace){.events = events,
                         .event_count = count,
                         .slot_count = 8,
                         .lanes = lanes,
                         .lane_count = 2,
                         .devices = devices,
                         .device_count = 1};
    asim_profile_builtin("generic-80g", &profile);
    config = (asim_run_config){.trace = &trace,
                               .policy = &one_segment_each,
                               .profile = &profile,
                               .check = ASIM_CHECK_FULL,
                               .capacity = 16 * MIB};
}

static asim_code run(asim_err *err)
{
    asim_engine *engine = NULL;
    asim_code code = asim_engine_new(&config, asim_hostmem_libc(), &engine, err);
    if (!code)
        code = asim_engine_run(engine, err);
    if (!code)
        asim_engine_record(engine, &record);
    asim_engine_free(engine);
    return code;
}

static void must_run(void)
{
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(run(&err), ASIM_OK, "%s", err.message);
}

#define METRIC(name) record.metrics[ASIM_METRIC_##name]

Test(engine, books_peaks_and_costs)
{
    EVENTS(ALLOC(0, MIB + 1), ALLOC(1, 3 * MIB), FREE(0), ALLOC(0, 0), FREE(0));
    must_run();
    cr_assert_eq(METRIC(events), 5);
    cr_assert_eq(METRIC(allocs), 3);
    cr_assert_eq(METRIC(frees), 1); /* nothing lives where zero bytes were asked for */
    cr_assert_eq(METRIC(requested_bytes), 3 * MIB);
    cr_assert_eq(METRIC(peak_requested_bytes), 4 * MIB + 1);
    cr_assert_eq(METRIC(peak_allocated_bytes), 5 * MIB);
    cr_assert_eq(METRIC(lower_bound_bytes), 5 * MIB);
    cr_assert_eq(METRIC(reserved_bytes), 3 * MIB);
    cr_assert_eq(METRIC(peak_reserved_bytes), 5 * MIB);
    cr_assert_eq(METRIC(peak_internal_frag_bytes), MIB - 1);
    cr_assert_eq(METRIC(internal_frag_bytes), 0);
    cr_assert_eq(METRIC(reserve_gap_ppm), 0);
    cr_assert_eq(METRIC(device_allocs), 2);
    cr_assert_eq(METRIC(device_frees), 1);
    cr_assert_eq(METRIC(peak_smi_bytes), 5 * MIB + 512 * MIB);
    /* two cudaMalloc of 2 and 3 MiB, one cudaFree of 2 MiB */
    cr_assert_eq(METRIC(stall_ns), 2 * profile.malloc_ns + 5 * profile.malloc_per_mib_ns + profile.free_ns +
                                       2 * profile.free_per_mib_ns);
    cr_assert_eq(record.status, ASIM_RUN_OK);
    cr_assert_not(record.has_recorded);
}

Test(engine, a_refusal_is_a_result)
{
    EVENTS(ALLOC(0, 10 * MIB), ALLOC(1, 7 * MIB), ALLOC(2, 5 * MIB), FREE(1), FREE(0), ALLOC(1, 7 * MIB));
    must_run();
    cr_assert_eq(record.status, ASIM_RUN_OOM);
    cr_assert_eq(METRIC(ooms), 1);
    cr_assert_eq(record.oom.event, 1);
    cr_assert_eq(record.oom.requested_bytes, 7 * MIB);
    cr_assert_eq(record.oom.reserved_bytes, 10 * MIB);
    cr_assert_eq(record.oom.device_free_bytes, 6 * MIB);
    cr_assert_eq(METRIC(frees), 1);
    /* granules of 2 MiB: 5 and 7 take 6 and 8, so 14 of 16 are used at the end */
    cr_assert_eq(METRIC(allocated_bytes), 12 * MIB);
}

/* Says how many blocks live, and nothing while none does. */
static size_t one_text(const asim_policy_state *state, char *ret_text, size_t capacity)
{
    unsigned live = 0;
    for (uint32_t i = 0; i < BLOCKS; i++)
        live += state->blocks[i].live;
    return (size_t)(live ? snprintf(ret_text, capacity, "with %u live", live) : 0);
}

/* Each with the words of its own moment; where the policy says nothing, none. */
Test(engine, failures_are_kept_with_their_words)
{
    EVENTS(ALLOC(0, 17 * MIB), ALLOC(1, MIB), ALLOC(2, 17 * MIB), ALLOC(3, 2 * MIB), ALLOC(4, 18 * MIB));
    asim_policy policy = one_segment_each;
    policy.refusal_text = one_text;
    config.policy = &policy;
    asim_engine *engine = NULL;
    asim_err err = ASIM_ERR_INIT;
    char text[32] = "";
    cr_assert_eq(asim_engine_new(&config, asim_hostmem_libc(), &engine, &err), ASIM_OK, "%s", err.message);
    cr_assert_eq(asim_engine_run(engine, &err), ASIM_OK, "%s", err.message);
    const asim_failures *kept = asim_engine_failures(engine);
    cr_assert_eq(kept->count, 3);
    cr_expect_eq(kept->items[0].oom.event, 0);
    cr_expect_null(kept->items[0].message);
    cr_expect_eq(kept->items[1].oom.event, 2);
    cr_expect_eq(kept->items[1].oom.reserved_bytes, MIB);
    cr_expect_str_eq(kept->items[1].message, "with 1 live");
    cr_expect_eq(kept->items[2].oom.requested_bytes, 18 * MIB);
    cr_expect_str_eq(kept->items[2].message, "with 2 live");
    cr_expect_eq(asim_engine_refusal_text(engine, text, sizeof text), 0); /* of the first */
    asim_failures taken;
    asim_engine_take_failures(engine, &taken);
    cr_expect_eq(taken.count, 3);
    cr_expect_eq(asim_engine_failures(engine)->count, 0);
    asim_failures_fini(&taken, asim_hostmem_libc());
    asim_engine_free(engine);
}

Test(engine, the_first_thousand_failures_are_kept)
{
    static asim_event many[ASIM_FAILURES_MAX + 5];
    const size_t count = sizeof many / sizeof many[0];
    for (size_t i = 0; i < count; i++)
        many[i] = (asim_event)ALLOC(0, 17 * MIB);
    set_events(many, count);
    asim_engine *engine = NULL;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_engine_new(&config, asim_hostmem_libc(), &engine, &err), ASIM_OK, "%s", err.message);
    cr_assert_eq(asim_engine_run(engine, &err), ASIM_OK, "%s", err.message);
    asim_engine_record(engine, &record);
    cr_expect_eq(METRIC(ooms), count);
    cr_expect_eq(asim_engine_failures(engine)->count, 1000);
    cr_expect_eq(asim_engine_failures(engine)->items[999].oom.event, 999);
    asim_engine_free(engine);
}

Test(engine, a_use_delays_completion_until_its_stream_is_synchronised)
{
    EVENTS(ALLOC(0, 4 * MIB), {.kind = ASIM_EV_USE, .id = 0, .lane = 1}, FREE(0), ALLOC(1, MIB),
           {.kind = ASIM_EV_SYNC, .id = ASIM_SYNC_STREAM, .lane = 0}, ALLOC(2, MIB),
           {.kind = ASIM_EV_SYNC, .id = ASIM_SYNC_STREAM, .lane = 1}, FREE(2));
    must_run();
    cr_assert_eq(METRIC(allocated_bytes), MIB);
    cr_assert_eq(METRIC(active_bytes), 5 * MIB); /* no allocation has looked since the sync of stream 1 */
    cr_assert_eq(METRIC(peak_active_bytes), 6 * MIB);
    static const asim_event more[] = {
        ALLOC(0, 4 * MIB), {.kind = ASIM_EV_USE, .id = 0, .lane = 1},
        FREE(0),           {.kind = ASIM_EV_SYNC, .id = ASIM_SYNC_ALL, .lane = ASIM_LANE_ALL},
        ALLOC(1, MIB),
    };
    set_events(more, 5);
    must_run();
    cr_assert_eq(METRIC(active_bytes), MIB);
}

Test(engine, with_kernels_the_clocks_decide)
{
    /* the kernel on stream 1 takes 1 ms; the second allocation comes too early, the third late enough */
    static const uint64_t times[] = {0, 1000, 2000, 3000, 4000, 2000000};
    EVENTS(ALLOC(0, 4 * MIB), {.kind = ASIM_EV_USE, .id = 0, .lane = 1},
           {.kind = ASIM_EV_KERNEL, .lane = 1, .size = 1000000}, FREE(0), ALLOC(1, MIB), ALLOC(2, MIB));
    trace.times_ns = times;
    must_run();
    cr_assert_eq(METRIC(active_bytes), 2 * MIB);
    cr_assert_eq(METRIC(peak_active_bytes), 5 * MIB);
}

Test(engine, a_recorded_completion_wins_over_a_policy_without_pending_blocks)
{
    EVENTS(ALLOC(0, 4 * MIB), {.kind = ASIM_EV_FREE, .flags = ASIM_FREE_PENDING, .id = 0}, ALLOC(1, 2 * MIB),
           {.kind = ASIM_EV_FREE_DONE, .id = 0});
    must_run();
    cr_assert_eq(METRIC(peak_active_bytes), 6 * MIB);
    cr_assert_eq(METRIC(active_bytes), 2 * MIB);
    cr_assert_eq(METRIC(peak_allocated_bytes), 4 * MIB);
}

Test(engine, growing_copies_into_a_fresh_block)
{
    EVENTS(ALLOC(0, 2 * MIB), {.kind = ASIM_EV_RESIZE, .id = 0, .size = 4 * MIB},
           {.kind = ASIM_EV_RESIZE, .id = 0, .size = 15 * MIB});
    must_run();
    cr_assert_eq(METRIC(allocs), 1);
    cr_assert_eq(METRIC(requested_bytes), 4 * MIB); /* 4 + 16 do not fit 16: the old block stays */
    cr_assert_eq(METRIC(peak_allocated_bytes), 6 * MIB);
    cr_assert_eq(METRIC(moved_bytes), 2 * MIB);
    cr_assert_eq(METRIC(ooms), 1);
}

/* --- following a recording --- */

static const asim_recorded_call calls[] = {
    {.event = 0, .address = 0x7f0000000000, .size = 2 * MIB, .kind = ASIM_CALL_SEGMENT_ALLOC},
    {.event = 1, .address = 0x7e0000000000, .size = 3 * MIB, .kind = ASIM_CALL_SEGMENT_ALLOC},
    {.event = 2, .address = 0x7f0000000000, .size = 2 * MIB, .kind = ASIM_CALL_SEGMENT_FREE},
};

Test(engine, the_script_gives_recorded_addresses)
{
    static const uint64_t recorded[] = {0x7f0000000000, 0x7e0000000000, ASIM_NO_ADDRESS};
    EVENTS(ALLOC(0, 2 * MIB), ALLOC(1, 3 * MIB), FREE(0));
    trace.recorded_addresses = recorded;
    trace.calls = calls;
    trace.call_count = 3;
    must_run();
    cr_assert_eq(METRIC(recorded_allocs), 2);
    cr_assert_eq(METRIC(recorded_matches), 2);
    cr_assert_eq(METRIC(recorded_calls), 3);
    cr_assert_eq(METRIC(recorded_call_matches), 3);
    cr_assert(record.has_recorded);
    cr_assert_not(record.has_mismatch);
    config.ignore_recorded = true;
    must_run();
    cr_assert_eq(METRIC(recorded_allocs), 0);
    cr_assert_not(record.has_recorded);
}

Test(engine, the_first_difference_is_kept)
{
    static const uint64_t recorded[] = {0x7f0000000000, 0x7e0000000000, ASIM_NO_ADDRESS};
    EVENTS(ALLOC(0, 2 * MIB), ALLOC(1, 4 * MIB), FREE(0));
    trace.recorded_addresses = recorded;
    trace.calls = calls;
    trace.call_count = 3;
    must_run();
    cr_assert_eq(METRIC(recorded_matches), 1);
    cr_assert_eq(METRIC(recorded_call_matches), 1);
    cr_assert(record.has_mismatch);
    cr_assert_eq(record.mismatch.event, 1);
    cr_assert(record.mismatch.is_call);
    cr_assert_eq(record.mismatch.recorded_address, 0x7e0000000000);
    cr_assert_eq(record.mismatch.kind, ASIM_CALL_SEGMENT_ALLOC);
    cr_assert_gt(record.mismatch.address, 0x7f0000000000); /* fresh, above everything recorded */
}

Test(engine, the_script_refuses_where_the_recording_shows_a_release)
{
    static const asim_recorded_call refused[] = {
        {.event = 0, .address = 0x7f0000000000, .size = 2 * MIB, .kind = ASIM_CALL_SEGMENT_ALLOC},
        {.event = 1, .address = 0, .size = 2 * MIB, .kind = ASIM_CALL_OOM},
    };
    static const uint64_t recorded[] = {0x7f0000000000, ASIM_NO_ADDRESS};
    EVENTS(ALLOC(0, 2 * MIB), ALLOC(1, 2 * MIB));
    trace.recorded_addresses = recorded;
    trace.calls = refused;
    trace.call_count = 2;
    must_run();
    cr_assert_eq(METRIC(ooms), 1);
    cr_assert_eq(METRIC(recorded_call_matches), 2);
    cr_assert_not(record.has_mismatch);
}

Test(engine, a_recorded_call_that_is_not_made_is_a_difference)
{
    static const uint64_t recorded[] = {0x7f0000000000, 0x7e0000000000, ASIM_NO_ADDRESS};
    EVENTS(ALLOC(0, 2 * MIB), ALLOC(1, 3 * MIB), {.kind = ASIM_EV_TRIM, .lane = ASIM_LANE_ALL});
    trace.recorded_addresses = recorded;
    trace.calls = calls;
    trace.call_count = 3;
    must_run();
    cr_assert(record.has_mismatch);
    cr_assert_eq(record.mismatch.event, 2);
    cr_assert_eq(record.mismatch.recorded_kind, ASIM_CALL_SEGMENT_FREE);
    cr_assert_eq(record.mismatch.kind, ASIM_NO_INDEX);
}

/* --- opening state --- */

static const asim_opening_block opening_blocks[] = {
    {.size = 6 * MIB, .requested = 5 * MIB, .id = 2, .state = ASIM_BLOCK_LIVE}};
static const asim_opening_segment opening_segments[] = {
    {.address = 0x500000000000, .size = 6 * MIB, .block_count = 1}};

static void set_opening(void)
{
    trace.opening_blocks = opening_blocks;
    trace.opening_block_count = 1;
    trace.opening_segments = opening_segments;
    trace.opening_segment_count = 1;
}

Test(engine, an_opening_state_is_adopted_or_asked_for)
{
    EVENTS(ALLOC(0, MIB), FREE(2));
    set_opening();
    must_run();
    cr_assert_eq(METRIC(peak_reserved_bytes), 7 * MIB);
    cr_assert_eq(METRIC(peak_requested_bytes), 6 * MIB);
    cr_assert_eq(METRIC(device_allocs), 1); /* claimed memory is no call of this run */
    cr_assert_eq(METRIC(device_frees), 1);
    asim_policy plain = one_segment_each;
    plain.adopt = NULL;
    config.policy = &plain;
    must_run();
    cr_assert_eq(METRIC(peak_reserved_bytes), 6 * MIB); /* the request was for 5 */
    cr_assert_eq(METRIC(allocs), 1);
}

Test(engine, a_recording_larger_than_the_profile_raises_the_capacity)
{
    static const asim_opening_block big_block[] = {
        {.size = UINT64_C(100) << 30, .requested = 1, .id = 2, .state = ASIM_BLOCK_LIVE}};
    static const asim_opening_segment big_segment[] = {
        {.address = 0x500000000000, .size = UINT64_C(100) << 30, .block_count = 1}};
    EVENTS(FREE(2));
    trace.opening_blocks = big_block;
    trace.opening_segments = big_segment;
    trace.opening_block_count = trace.opening_segment_count = 1;
    config.capacity = 0;
    must_run();
    cr_assert_eq(record.capacity, UINT64_C(100) << 30);
    /* Given less, the state can't be taken over: the block of 1 byte is asked for anew and takes 1 MiB. */
    config.capacity = UINT64_C(80) << 30;
    must_run();
    cr_assert_eq(METRIC(peak_reserved_bytes), MIB);
    cr_assert_eq(METRIC(frees), 1);
}

/* --- what may not be --- */

Test(engine, slots_are_checked)
{
    asim_err err = ASIM_ERR_INIT;
    EVENTS(ALLOC(0, MIB), ALLOC(0, MIB));
    cr_assert_eq(run(&err), ASIM_E_INPUT);
    cr_assert_str_eq(err.message, "event 1 (alloc of slot 0): the slot is in use");
    static const asim_event dead[] = {FREE(3)};
    set_events(dead, 1);
    cr_assert_eq(run(&err), ASIM_E_INPUT);
    cr_assert_str_eq(err.message, "event 0 (free of slot 3): nothing lives there");
    static const asim_event done[] = {ALLOC(0, MIB), {.kind = ASIM_EV_FREE_DONE, .id = 0}};
    set_events(done, 2);
    cr_assert_eq(run(&err), ASIM_E_INPUT);
}

Test(engine, stepping_refuses_what_the_tables_do_not_hold)
{
    EVENTS({.kind = ASIM_EV_NONE});
    asim_err err = ASIM_ERR_INIT;
    asim_engine *engine;
    cr_assert_eq(asim_engine_new(&config, asim_hostmem_libc(), &engine, &err), ASIM_OK);
    static const asim_event bad[] = {{.kind = ASIM_EV_NONE},
                                     {.kind = ASIM_EV_KINDS},
                                     {.kind = ASIM_EV_ALLOC, .lane = 2, .size = 1},
                                     {.kind = ASIM_EV_SYNC, .lane = ASIM_LANE_ALL},
                                     {.kind = ASIM_EV_SYNC, .id = 3},
                                     {.kind = ASIM_EV_SETTINGS, .id = 0}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(asim_engine_step(engine, &bad[i], NULL, NULL, &err), ASIM_E_INPUT, "%zu", i);
    asim_event far = ALLOC(1000, MIB);
    asim_placement placement = {0};
    asim_alloc_result result;
    cr_assert_eq(asim_engine_step(engine, &far, &result, &placement, &err), ASIM_OK);
    cr_assert_eq(result, ASIM_PLACED);
    cr_assert_eq(placement.size, MIB);
    asim_engine_free(engine);
}

typedef struct failing_memory {
    long left;    /* requests that still succeed */
    long balance; /* bytes out */
} failing_memory;

static void *failing_resize(void *ctx, void *memory, size_t old_size, size_t new_size)
{
    failing_memory *mem = ctx;
    if (new_size && mem->left-- <= 0)
        return NULL;
    mem->balance += (long)new_size - (long)(memory ? old_size : 0);
    return asim_hostmem_libc()->resize(NULL, memory, old_size, new_size);
}

Test(engine, every_refusal_of_host_memory_is_survived)
{
    EVENTS(ALLOC(0, MIB), ALLOC(1, MIB), {.kind = ASIM_EV_USE, .id = 0, .lane = 1}, ALLOC(4, 17 * MIB),
           ALLOC(5, 17 * MIB), FREE(0), FREE(1));
    asim_policy policy = one_segment_each;
    policy.refusal_text = one_text;
    set_opening();
    config.policy = &policy;
    for (long n = 0;; n++) {
        failing_memory mem = {.left = n};
        asim_hostmem table = {failing_resize, &mem};
        asim_err err = ASIM_ERR_INIT;
        asim_engine *engine = NULL;
        asim_code code = asim_engine_new(&config, &table, &engine, &err);
        if (!code)
            code = asim_engine_run(engine, &err);
        asim_engine_free(engine);
        cr_assert_eq(mem.balance, 0, "request %ld: %ld bytes leaked", n, mem.balance);
        if (!code) {
            cr_assert_gt(n, 8);
            break;
        }
        cr_assert_eq(code, ASIM_E_SYSTEM, "request %ld: %s", n, err.message);
    }
}

/* --- determinism and the timeline --- */

Test(engine, the_digest_depends_on_placements_alone)
{
    EVENTS(ALLOC(0, 2 * MIB), FREE(0));
    must_run();
    uint64_t first = record.placement_digest;
    config.check = ASIM_CHECK_OFF;
    must_run();
    cr_assert_eq(record.placement_digest, first);
    static const asim_event other[] = {ALLOC(0, 3 * MIB), FREE(0)};
    set_events(other, 2);
    must_run();
    cr_assert_neq(record.placement_digest, first);
}

Test(timeline, thinning_keeps_every_peak)
{
    enum {
        COUNT = 10000
    };
    static asim_event events[COUNT];
    for (uint32_t i = 0; i < COUNT; i += 2) {
        events[i] = (asim_event)ALLOC(0, i == 5000 ? 9 * MIB : MIB);
        events[i + 1] = (asim_event)FREE(0);
    }
    set_events(events, COUNT);
    asim_timeline *timeline;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_timeline_new(5, asim_hostmem_libc(), &timeline, &err), ASIM_E_USAGE);
    cr_assert_eq(asim_timeline_new(60, asim_hostmem_libc(), &timeline, &err), ASIM_OK);
    asim_observer_use use = {&asim_timeline_observer, timeline};
    config.observers = &use;
    config.observer_count = 1;
    config.check = ASIM_CHECK_OFF;
    must_run();
    asim_sample samples[60];
    size_t count = asim_timeline_samples(timeline, samples, 60);
    cr_assert_leq(count, 60);
    cr_assert_geq(count, 10);
    bool peak = false;
    for (size_t i = 0; i < count; i++) {
        cr_assert(i == 0 || samples[i].event > samples[i - 1].event);
        peak |= samples[i].event == 5000 && samples[i].reserved == 9 * MIB;
    }
    cr_assert(peak);
    cr_assert_eq(samples[count - 1].event, COUNT - 1);
    asim_timeline_free(timeline);
}
