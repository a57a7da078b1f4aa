/* tests/unit/pool_run.h - drives a single-pool policy through the engine, with full checks after each step.
 *
 *     pool_run run = pool_start(&asim_policy_first_fit, "pool=8MiB", 64 * MIB, ASIM_COMPLETION_SYNC);
 *     cr_expect_eq(pool_alloc(&run, 0, MIB), 0);          // offset in the pool, POOL_REFUSED or POOL_NOTHING
 *     pool_free(&run, 0);
 *     pool_end(&run);
 *
 * Lanes 0 to 2 are streams of device 0, lane 3 one of device 1.
 */
#ifndef ASIM_TESTS_UNIT_POOL_RUN_H
#define ASIM_TESTS_UNIT_POOL_RUN_H

#include "policies/registry.h"
#include "sim/engine.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB          UINT64_C(1024)
#define MIB          (UINT64_C(1) << 20)
#define GIB          (UINT64_C(1) << 30)
#define POOL_REFUSED UINT64_MAX
#define POOL_NOTHING (UINT64_MAX - 1)

typedef struct pool_run {
    asim_engine *engine;
    asim_trace *trace;
    void *params;
    asim_placement last;
} pool_run;

/* What the copies and waits of these runs cost: 7 ns a block, 1 MiB a microsecond, 11 ns a wait. */
static const asim_profile pool_profile = {.name = "test",
                                          .origin = "estimated: round numbers",
                                          .capacity_bytes = UINT64_C(1) << 36,
                                          .granule_bytes = 512,
                                          .wait_ns = 11,
                                          .move_ns = 7,
                                          .copy_bytes_per_us = MIB};

static inline asim_code pool_try(const asim_policy *policy, const char *params, uint64_t capacity,
                                 asim_completion completion, pool_run *ret_run, asim_err *err)
{
    static const asim_trace_device devices[2] = {{ASIM_NO_INDEX, 0}, {ASIM_NO_INDEX, 0}};
    static const asim_lane lanes[4] = {{0, 0, 0}, {17, 0, 0}, {18, 0, 0}, {33, 1, 0}};
    static const asim_string strings[] = {{"off-peak 2 am", 13}, {"switch to model B", 17}, {"step", 4}};
    pool_run run = {.trace = calloc(1, sizeof(asim_trace)), .params = calloc(1, policy->params.block_size)};
    *run.trace = (asim_trace){.lanes = lanes,
                              .lane_count = 4,
                              .devices = devices,
                              .device_count = 2,
                              .strings = strings,
                              .string_count = 3,
                              .source = ASIM_NO_INDEX,
                              .settings = ASIM_NO_INDEX};
    asim_params_default(&policy->params, run.params);
    asim_code code = asim_params_parse(&policy->params, run.params, params, err);
    const asim_run_config config = {.trace = run.trace,
                                    .policy = policy,
                                    .params = run.params,
                                    .profile = &pool_profile,
                                    .capacity = capacity,
                                    .check = ASIM_CHECK_FULL,
                                    .completion = completion};
    if (!code)
        code = asim_engine_new(&config, asim_hostmem_libc(), &run.engine, err);
    *ret_run = run;
    return code;
}

static inline pool_run pool_start(const asim_policy *policy, const char *params, uint64_t capacity,
                                  asim_completion completion)
{
    pool_run run;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(pool_try(policy, params, capacity, completion, &run, &err), ASIM_OK, "%s", err.message);
    return run;
}

static inline void pool_end(pool_run *run)
{
    asim_engine_free(run->engine);
    free(run->trace);
    free(run->params);
}

/* The message of a start that must fail. */
static inline const char *pool_complaint(const asim_policy *policy, const char *params)
{
    static asim_err err;
    pool_run run;
    err = (asim_err)ASIM_ERR_INIT;
    cr_expect_eq(pool_try(policy, params, GIB, ASIM_COMPLETION_SYNC, &run, &err), ASIM_E_USAGE, "%s", params);
    pool_end(&run);
    return err.message;
}

typedef struct pool_layout {
    char text[2048];
    uint64_t base; /* of the first segment */
    uint64_t word_address;
    uint32_t word;
} pool_layout;

static inline void pool_see_segment(void *ctx, const asim_walk_segment *segment)
{
    pool_layout *layout = ctx;
    if (!layout->base)
        layout->base = segment->address;
}

static inline void pool_see_block(void *ctx, const asim_walk_block *block)
{
    static const char states[] = {'f', 'L', 'p'};
    pool_layout *layout = ctx;
    if (block->state == ASIM_BLOCK_LIVE && block->word == layout->word)
        layout->word_address = block->address;
    size_t used = strlen(layout->text);
    if (block->size % MIB == 0)
        snprintf(layout->text + used, sizeof layout->text - used, "%s%c%llu", used ? " " : "",
                 states[block->state], (unsigned long long)(block->size / MIB));
    else
        snprintf(layout->text + used, sizeof layout->text - used, "%s%c%lluK", used ? " " : "",
                 states[block->state], (unsigned long long)(block->size / KIB));
}

static inline pool_layout pool_look(const pool_run *run, uint32_t word)
{
    pool_layout layout = {.word = word};
    const asim_walker walker = {pool_see_segment, pool_see_block, &layout};
    asim_engine_walk(run->engine, &walker);
    return layout;
}

/* "L2 f1 p3": a live block of 2 MiB, a free one of 1, a pending one of 3; K for KiB. */
static inline const char *pool_blocks(const pool_run *run)
{
    static pool_layout layout;
    layout = pool_look(run, ASIM_NO_INDEX);
    return layout.text;
}

static inline asim_alloc_result pool_step(pool_run *run, asim_event event)
{
    asim_err err = ASIM_ERR_INIT;
    asim_alloc_result result = ASIM_NOTHING;
    asim_code code = asim_engine_step(run->engine, &event, &result, &run->last, &err);
    cr_assert_eq(code, ASIM_OK, "%s", err.message);
    return result;
}

static inline uint64_t pool_alloc_on(pool_run *run, uint32_t id, uint64_t size, uint16_t lane, uint8_t flags)
{
    asim_alloc_result result = pool_step(run, (asim_event){ASIM_EV_ALLOC, flags, lane, id, size});
    return result == ASIM_PLACED    ? run->last.address - pool_look(run, 0).base
           : result == ASIM_REFUSED ? POOL_REFUSED
                                    : POOL_NOTHING;
}

static inline uint64_t pool_alloc(pool_run *run, uint32_t id, uint64_t size)
{
    return pool_alloc_on(run, id, size, 0, 0);
}

static inline void pool_free(pool_run *run, uint32_t id)
{
    pool_step(run, (asim_event){.kind = ASIM_EV_FREE, .id = id});
}

static inline uint64_t pool_metric(const pool_run *run, asim_metric metric)
{
    asim_run_record record;
    asim_engine_record(run->engine, &record);
    return record.metrics[metric];
}

#endif
