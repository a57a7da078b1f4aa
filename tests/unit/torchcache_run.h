/* tests/unit/torchcache_run.h - drives torchcache through the engine and writes what happens as one line.
 *
 *     tc_run run = tc_start("max_split_size_mb=100", 400 * MIB);
 *     tc_expect(tc_alloc(&run, 0, 150 * MIB, 0), "A 0 0 157286400 sa:0:157286400:0");
 *
 * First what came of it: "A REGION OFFSET SIZE", "O" (refused), "N" (nothing) or "."; then what the allocator
 * did on the way: sa and sf (segment allocated and freed), sm and su (mapped and unmapped), fc (a free
 * completed), oom:FREE:SIZE. Streams are 0 to 3; devices 0 and 1 share one capacity. Pools are 0 (none) to 2.
 * Everything is checked in full by the referee and by the policy itself after each step.
 */
#ifndef ASIM_TESTS_UNIT_TORCHCACHE_RUN_H
#define ASIM_TESTS_UNIT_TORCHCACHE_RUN_H

#include "policies/registry.h"
#include "sim/engine.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB UINT64_C(1024)
#define MIB UINT64_C(1048576)
#define GIB (UINT64_C(1) << 30)

enum {
    TC_STREAMS = 4,
    TC_POOLS = 3,
    TC_DEVICES = 2,
    TC_LANES = TC_STREAMS * TC_POOLS * TC_DEVICES,
    TC_REGIONS = 64
};

typedef struct tc_book { /* what an observer writes down */
    char text[4096];
    size_t length;
    uint64_t bases[TC_REGIONS];
    bool known[TC_REGIONS];
} tc_book;

typedef struct tc_run {
    asim_engine *engine;
    tc_book *book;
    asim_trace *trace;
    asim_lane *lanes;
    void *params;
} tc_run;

struct asim_observer_state {
    tc_book *book;
};

static inline uint16_t tc_lane(unsigned device, unsigned stream, unsigned pool)
{
    return (uint16_t)((device * TC_STREAMS + stream) * TC_POOLS + pool);
}

static inline unsigned tc_lane_stream(unsigned lane)
{
    return lane / TC_POOLS % TC_STREAMS;
}

__attribute__((format(printf, 2, 3))) static inline void tc_note(tc_book *book, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    book->length +=
        (size_t)vsnprintf(book->text + book->length, sizeof book->text - book->length, format, args);
    va_end(args);
    cr_assert_lt(book->length, sizeof book->text);
}

static inline unsigned tc_region_at(const tc_book *book, uint64_t address)
{
    unsigned best = 0;
    for (unsigned i = 0; i < TC_REGIONS; i++)
        if (book->known[i] && book->bases[i] <= address &&
            (!book->known[best] || book->bases[i] >= book->bases[best]))
            best = i;
    return best;
}

static inline asim_code tc_see_init(asim_observer_state *state, const void *config, const asim_hostmem *mem,
                                    asim_err *err)
{
    (void)mem;
    (void)err;
    memcpy(&state->book, config, sizeof state->book);
    return ASIM_OK;
}

static inline asim_code tc_see_call(asim_observer_state *state, const asim_driver_call *call, asim_err *err)
{
    (void)err;
    tc_book *book = state->book;
    if (call->kind == ASIM_CALL_OOM) {
        tc_note(book, " oom:%" PRIu64 ":%" PRIu64, call->address, call->size);
        return ASIM_OK;
    }
    cr_assert_lt(call->region, TC_REGIONS);
    bool plain = call->kind == ASIM_CALL_SEGMENT_ALLOC || call->kind == ASIM_CALL_SEGMENT_FREE;
    book->bases[call->region] = call->address - (plain ? 0 : call->offset);
    book->known[call->region] = true;
    if (call->kind == ASIM_CALL_SEGMENT_ALLOC)
        tc_note(book, " sa:%u:%" PRIu64 ":%u", call->region, call->size, tc_lane_stream(call->lane));
    else if (call->kind == ASIM_CALL_SEGMENT_FREE)
        tc_note(book, " sf:%u:%" PRIu64, call->region, call->size);
    else
        tc_note(book, " %s:%u:%" PRIu64 ":%" PRIu64, call->kind == ASIM_CALL_MAP ? "sm" : "su", call->region,
                call->offset, call->size);
    return ASIM_OK;
}

static inline void tc_completed(tc_book *book, uint64_t address)
{
    unsigned region = tc_region_at(book, address);
    tc_note(book, " fc:%u:%" PRIu64, region, address - book->bases[region]);
}

static inline asim_code tc_see_freed(asim_observer_state *state, uint64_t address, uint64_t size,
                                     bool pending, asim_err *err)
{
    (void)size;
    (void)err;
    if (!pending)
        tc_completed(state->book, address);
    return ASIM_OK;
}

static inline asim_code tc_see_completed(asim_observer_state *state, uint64_t address, uint64_t size,
                                         asim_err *err)
{
    (void)size;
    (void)err;
    tc_completed(state->book, address);
    return ASIM_OK;
}

static const asim_observer tc_observer = {
    .name = "torchcache_run",
    .state_size = sizeof(asim_observer_state),
    .init = tc_see_init,
    .call = tc_see_call,
    .freed = tc_see_freed,
    .completed = tc_see_completed,
};

/* opening: NULL, or a trace whose opening state begins the run (its lanes and devices are replaced). */
static inline tc_run tc_start_from(const char *params, uint64_t capacity, const asim_trace *opening)
{
    static const asim_trace_device devices[TC_DEVICES] = {{ASIM_NO_INDEX, 0}, {ASIM_NO_INDEX, 0}};
    const asim_policy *policy = &asim_policy_torchcache;
    tc_run run = {.book = calloc(1, sizeof(tc_book)),
                  .trace = calloc(1, sizeof(asim_trace)),
                  .lanes = calloc(TC_LANES, sizeof(asim_lane)),
                  .params = calloc(1, policy->params.block_size)};
    for (unsigned lane = 0; lane < TC_LANES; lane++) {
        unsigned device = lane / (TC_POOLS * TC_STREAMS), stream = tc_lane_stream(lane);
        run.lanes[lane] = (asim_lane){.stream = stream == 0 ? 0 : 16 * device + stream,
                                      .device = (uint16_t)device,
                                      .pool = (uint16_t)(lane % TC_POOLS)};
    }
    if (opening)
        *run.trace = *opening;
    run.trace->lanes = run.lanes;
    run.trace->lane_count = TC_LANES;
    run.trace->devices = devices;
    run.trace->device_count = TC_DEVICES;
    run.trace->source = run.trace->settings = ASIM_NO_INDEX;
    asim_err err = ASIM_ERR_INIT;
    asim_params_default(&policy->params, run.params);
    cr_assert_eq(asim_params_parse(&policy->params, run.params, params, &err), ASIM_OK, "%s", err.message);
    asim_profile profile;
    cr_assert(asim_profile_builtin("generic-80g", &profile));
    const asim_observer_use use = {&tc_observer, &run.book};
    const asim_run_config config = {.trace = run.trace,
                                    .policy = policy,
                                    .params = run.params,
                                    .profile = &profile,
                                    .capacity = capacity,
                                    .check = ASIM_CHECK_FULL,
                                    .completion = ASIM_COMPLETION_SYNC,
                                    .observers = &use,
                                    .observer_count = 1};
    cr_assert_eq(asim_engine_new(&config, asim_hostmem_libc(), &run.engine, &err), ASIM_OK, "%s",
                 err.message);
    return run;
}

static inline tc_run tc_start(const char *params, uint64_t capacity)
{
    return tc_start_from(params, capacity, NULL);
}

static inline void tc_end(tc_run *run)
{
    asim_engine_free(run->engine);
    free(run->book);
    free(run->trace);
    free(run->lanes);
    free(run->params);
}

static inline const char *tc_step(tc_run *run, asim_event event)
{
    static char line[8192];
    asim_err err = ASIM_ERR_INIT;
    asim_alloc_result result = ASIM_NOTHING;
    asim_placement placed;
    run->book->length = 0;
    run->book->text[0] = 0;
    asim_code code = asim_engine_step(run->engine, &event, &result, &placed, &err);
    cr_assert_eq(code, ASIM_OK, "%s", err.message);
    if (event.kind != ASIM_EV_ALLOC)
        snprintf(line, sizeof line, ".%s", run->book->text);
    else if (result == ASIM_PLACED)
        snprintf(line, sizeof line, "A %u %" PRIu64 " %" PRIu64 "%s", placed.region,
                 placed.address - run->book->bases[placed.region], placed.size, run->book->text);
    else
        snprintf(line, sizeof line, "%s%s", result == ASIM_REFUSED ? "O" : "N", run->book->text);
    return line;
}

static inline const char *tc_alloc(tc_run *run, uint32_t id, uint64_t size, unsigned stream)
{
    return tc_step(run, (asim_event){ASIM_EV_ALLOC, 0, tc_lane(0, stream, 0), id, size});
}

static inline const char *tc_free(tc_run *run, uint32_t id)
{
    return tc_step(run, (asim_event){ASIM_EV_FREE, 0, 0, id, 0});
}

static inline const char *tc_use(tc_run *run, uint32_t id, unsigned stream)
{
    return tc_step(run, (asim_event){ASIM_EV_USE, 0, tc_lane(0, stream, 0), id, 0});
}

static inline const char *tc_empty_cache(tc_run *run)
{
    return tc_step(run, (asim_event){ASIM_EV_TRIM, 0, ASIM_LANE_ALL, 0, 0});
}

static inline const char *tc_sync(tc_run *run, unsigned stream)
{
    return tc_step(run, (asim_event){ASIM_EV_SYNC, 0, tc_lane(0, stream, 0), ASIM_SYNC_STREAM, 0});
}

static inline const char *tc_settings(tc_run *run, const char *text)
{
    const asim_string string = {text, (uint32_t)strlen(text)};
    run->trace->strings = &string;
    run->trace->string_count = 1;
    const char *line = tc_step(run, (asim_event){ASIM_EV_SETTINGS, 0, ASIM_LANE_ALL, 0, 0});
    run->trace->strings = NULL;
    run->trace->string_count = 0;
    return line;
}

static inline const char *tc_pool(tc_run *run, asim_event_kind kind, unsigned pool, unsigned stream,
                                  unsigned flags)
{
    return tc_step(run, (asim_event){(uint8_t)kind, (uint8_t)flags, tc_lane(0, stream, pool), 0, 0});
}

typedef struct tc_wanted {
    const char *name;
    int64_t value;
    bool found;
} tc_wanted;

static inline void tc_pick(void *ctx, const char *name, int64_t value)
{
    tc_wanted *wanted = ctx;
    if (strcmp(name, wanted->name) == 0) {
        wanted->value = value;
        wanted->found = true;
    }
}

static inline int64_t tc_number(const tc_run *run, const char *name)
{
    tc_wanted wanted = {name, 0, false};
    asim_engine_report(run->engine, 0, tc_pick, &wanted);
    cr_assert(wanted.found, "no statistic %s", name);
    return wanted.value;
}

/* current/peak/allocated/freed */
static inline const char *tc_stat(const tc_run *run, const char *name)
{
    static char text[128];
    static const char *const fields[] = {"current", "peak", "allocated", "freed"};
    size_t length = 0;
    for (unsigned i = 0; i < 4; i++) {
        char full[80];
        snprintf(full, sizeof full, "%s.%s", name, fields[i]);
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%" PRId64, i ? "/" : "",
                                   tc_number(run, full));
    }
    return text;
}

#define tc_expect(actual, expected) cr_expect_str_eq((actual), (expected))

#endif
