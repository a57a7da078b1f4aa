/* tests/unit/policy_run.h - drives any policy through the engine, a step at a time, fully checked.
 *
 *     pr_run run = pr_start(&asim_policy_bfc, "allow_growth=true", GIB);
 *     pr_alloc(&run, 0, 4, 0);
 *     cr_assert_eq(run.placed.size, 256);
 *     cr_assert(pr_refuses(&run, 1, 2 * GIB, 0));
 *     pr_end(&run);
 *
 * Two devices of the same capacity, each with the streams 0 to 3. An event of another stream is done once
 * that stream is synchronised. Regions are seen as segments; walks count blocks.
 */
#ifndef ASIM_TESTS_UNIT_POLICY_RUN_H
#define ASIM_TESTS_UNIT_POLICY_RUN_H

#include "policies/registry.h"
#include "sim/engine.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB UINT64_C(1024)
#define MIB UINT64_C(1048576)
#define GIB (UINT64_C(1) << 30)

enum {
    PR_STREAMS = 4,
    PR_DEVICES = 2,
    PR_SEGMENTS = 256
};

typedef struct pr_book { /* what was asked of the device */
    uint64_t allocs, frees, reserved;
    uint64_t sizes[PR_SEGMENTS]; /* of each segment allocated, in order */
    uint64_t bases[PR_SEGMENTS];
    uint64_t completed; /* pending frees that were completed */
} pr_book;

typedef struct pr_run {
    asim_engine *engine;
    pr_book *book;
    asim_trace *trace;
    asim_lane *lanes;
    void *params;
    asim_placement placed; /* by the last pr_alloc */
} pr_run;

struct asim_observer_state {
    pr_book *book;
};

static inline asim_code pr_see_init(asim_observer_state *state, const void *config, const asim_hostmem *mem,
                                    asim_err *err)
{
    (void)mem;
    (void)err;
    memcpy(&state->book, config, sizeof state->book);
    return ASIM_OK;
}

static inline asim_code pr_see_call(asim_observer_state *state, const asim_driver_call *call, asim_err *err)
{
    pr_book *book = state->book;
    (void)err;
    if (call->kind == ASIM_CALL_SEGMENT_ALLOC) {
        cr_assert_lt(book->allocs, PR_SEGMENTS);
        book->bases[book->allocs] = call->address;
        book->sizes[book->allocs++] = call->size;
        book->reserved += call->size;
    } else if (call->kind == ASIM_CALL_SEGMENT_FREE) {
        book->frees++;
        book->reserved -= call->size;
    }
    return ASIM_OK;
}

static inline asim_code pr_see_completed(asim_observer_state *state, uint64_t address, uint64_t size,
                                         asim_err *err)
{
    (void)address;
    (void)size;
    (void)err;
    state->book->completed++;
    return ASIM_OK;
}

static const asim_observer pr_observer = {
    .name = "policy_run",
    .state_size = sizeof(asim_observer_state),
    .init = pr_see_init,
    .call = pr_see_call,
    .completed = pr_see_completed,
};

/* What init says to these parameters; ASIM_OK: *ret_run is to be ended. */
static inline asim_code pr_try_by(asim_completion completion, const asim_policy *policy, const char *params,
                                  uint64_t capacity, pr_run *ret_run, asim_err *err)
{
    static const asim_trace_device devices[PR_DEVICES] = {{ASIM_NO_INDEX, 0}, {ASIM_NO_INDEX, 0}};
    pr_run run = {.book = calloc(1, sizeof(pr_book)),
                  .trace = calloc(1, sizeof(asim_trace)),
                  .lanes = calloc((size_t)PR_STREAMS * PR_DEVICES, sizeof(asim_lane)),
                  .params = calloc(1, policy->params.block_size + 1)};
    for (unsigned lane = 0; lane < PR_STREAMS * PR_DEVICES; lane++)
        run.lanes[lane] = (asim_lane){.stream = lane % PR_STREAMS, .device = (uint16_t)(lane / PR_STREAMS)};
    run.trace->lanes = run.lanes;
    run.trace->lane_count = PR_STREAMS * PR_DEVICES;
    run.trace->devices = devices;
    run.trace->device_count = PR_DEVICES;
    run.trace->source = run.trace->settings = ASIM_NO_INDEX;
    asim_profile profile;
    cr_assert(asim_profile_builtin("generic-80g", &profile));
    const asim_observer_use use = {&pr_observer, &run.book};
    asim_run_config config = {.trace = run.trace,
                              .policy = policy,
                              .params = run.params,
                              .profile = &profile,
                              .capacity = capacity,
                              .check = ASIM_CHECK_FULL,
                              .completion = completion,
                              .observers = &use,
                              .observer_count = 1};
    asim_params_default(&policy->params, run.params);
    asim_code code = asim_params_parse(&policy->params, run.params, params, err);
    if (!code)
        code = asim_engine_new(&config, asim_hostmem_libc(), &run.engine, err);
    *ret_run = run;
    return code;
}

static inline asim_code pr_try(const asim_policy *policy, const char *params, uint64_t capacity,
                               pr_run *ret_run, asim_err *err)
{
    return pr_try_by(ASIM_COMPLETION_SYNC, policy, params, capacity, ret_run, err);
}

static inline void pr_end(pr_run *run)
{
    asim_engine_free(run->engine);
    free(run->book);
    free(run->trace);
    free(run->lanes);
    free(run->params);
}

static inline pr_run pr_start(const asim_policy *policy, const char *params, uint64_t capacity)
{
    pr_run run;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(pr_try(policy, params, capacity, &run, &err), ASIM_OK, "%s", err.message);
    return run;
}

/* An event of a stream is done once the host's clock has passed the stream's: pr_kernel moves the latter. */
static inline pr_run pr_start_by_clock(const asim_policy *policy, const char *params, uint64_t capacity)
{
    pr_run run;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(pr_try_by(ASIM_COMPLETION_CLOCK, policy, params, capacity, &run, &err), ASIM_OK, "%s",
                 err.message);
    return run;
}

/* These parameters are refused as a mistake of usage, with words in the message. */
static inline void pr_usage(const asim_policy *policy, const char *params, const char *words)
{
    pr_run run;
    asim_err err = ASIM_ERR_INIT;
    cr_expect_eq(pr_try(policy, params, GIB, &run, &err), ASIM_E_USAGE, "%s", params);
    cr_expect(strstr(err.message, words), "%s: %s", params, err.message);
    pr_end(&run);
}

static inline asim_alloc_result pr_step(pr_run *run, asim_event event)
{
    asim_err err = ASIM_ERR_INIT;
    asim_alloc_result result = ASIM_NOTHING;
    asim_code code = asim_engine_step(run->engine, &event, &result, &run->placed, &err);
    cr_assert_eq(code, ASIM_OK, "%s", err.message);
    return result;
}

static inline asim_alloc_result pr_ask(pr_run *run, uint32_t id, uint64_t size, unsigned lane)
{
    return pr_step(run, (asim_event){ASIM_EV_ALLOC, 0, (uint16_t)lane, id, size});
}

/* Must be placed; returns the address. */
static inline uint64_t pr_alloc(pr_run *run, uint32_t id, uint64_t size, unsigned lane)
{
    cr_assert_eq(pr_ask(run, id, size, lane), ASIM_PLACED, "%llu bytes were not placed",
                 (unsigned long long)size);
    return run->placed.address;
}

/* Asks, and frees what it left behind (a refused request's slot). */
static inline bool pr_refuses(pr_run *run, uint32_t id, uint64_t size, unsigned lane)
{
    const bool refused = pr_ask(run, id, size, lane) == ASIM_REFUSED;
    pr_step(run, (asim_event){ASIM_EV_FREE, 0, (uint16_t)lane, id, 0});
    return refused;
}

static inline void pr_free(pr_run *run, uint32_t id)
{
    pr_step(run, (asim_event){ASIM_EV_FREE, 0, 0, id, 0});
}

static inline void pr_use(pr_run *run, uint32_t id, unsigned lane)
{
    pr_step(run, (asim_event){ASIM_EV_USE, 0, (uint16_t)lane, id, 0});
}

static inline void pr_sync(pr_run *run, unsigned lane)
{
    pr_step(run, (asim_event){ASIM_EV_SYNC, 0, (uint16_t)lane, ASIM_SYNC_STREAM, 0});
}

/* The lane's stream is busy for ns nanoseconds more. */
static inline void pr_kernel(pr_run *run, unsigned lane, uint64_t ns)
{
    pr_step(run, (asim_event){ASIM_EV_KERNEL, 0, (uint16_t)lane, 0, ns});
}

static inline uint64_t pr_metric(const pr_run *run, asim_metric metric)
{
    asim_run_record record;
    asim_engine_record(run->engine, &record);
    return record.metrics[metric];
}

/* A metric that only this policy has. */
static inline uint64_t pr_own(const pr_run *run, const char *name)
{
    asim_run_record record;
    asim_engine_record(run->engine, &record);
    for (uint32_t i = 0; i < record.own_count; i++)
        if (strcmp(record.own[i].name, name) == 0)
            return record.own[i].value;
    cr_assert_fail("no metric %s", name);
    return 0;
}

typedef struct pr_wanted {
    const char *name;
    int64_t value;
    bool found;
} pr_wanted;

static inline void pr_pick(void *ctx, const char *name, int64_t value)
{
    pr_wanted *wanted = ctx;
    if (strcmp(name, wanted->name) == 0) {
        wanted->value = value;
        wanted->found = true;
    }
}

/* A statistic of the policy's own, of device 0. */
static inline int64_t pr_stat(const pr_run *run, const char *name)
{
    pr_wanted wanted = {name, 0, false};
    asim_engine_report(run->engine, 0, pr_pick, &wanted);
    cr_assert(wanted.found, "no statistic %s", name);
    return wanted.value;
}

#endif
