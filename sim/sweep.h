/* sim/sweep.h - a grid of runs, traces by configurations, worked off by threads.
 *
 * Runs are numbered trace by trace: number = trace * config_count + config. Threads take them in that order,
 * so that few traces are in memory at a time; a trace is opened once, by whoever comes first, and read by
 * all. Nothing that a run computes depends on the number of threads; only the order in which runs end does.
 *
 *     asim_sweep sweep = {.trace_count = 2, .config_count = 64, .jobs = 8, .run = run_one, .ctx = &mine,
 * ...}; code = asim_sweep_work(&sweep, mem, &err);
 */
#ifndef ASIM_SIM_SWEEP_H
#define ASIM_SIM_SWEEP_H

#include "sim/err.h"
#include "sim/hostmem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct asim_sweep {
    size_t trace_count, config_count;
    size_t shard, shards;    /* only runs whose number is shard modulo shards; shards 0: all */
    size_t jobs;             /* threads */
    const atomic_bool *stop; /* when it turns true no further run begins; NULL: never */

    /* Makes a trace readable; called once, and other runs of it wait. Anything but ASIM_OK leaves out its
     * runs and its close. */
    asim_code (*open)(void *ctx, size_t trace);
    /* One run, on any thread. Anything but ASIM_OK ends the sweep: no further run begins. */
    asim_code (*run)(void *ctx, size_t trace, size_t config);
    /* After the last run of a trace, or when the sweep ends before. */
    void (*close)(void *ctx, size_t trace);
    void *ctx;
} asim_sweep;

/* Whether a run belongs to the sweep's part of the grid. */
bool asim_sweep_has(const asim_sweep *sweep, size_t number);

/* Returns when all threads are done. ASIM_E_SYSTEM: no thread could be started, or out of memory; what a
 * callback returned is the caller's to remember. */
asim_code asim_sweep_work(const asim_sweep *sweep, const asim_hostmem *mem, asim_err *err);

#endif
