/* sim/fit.h - the smallest device memory at which a trace runs through a policy without a failure.
 *
 * Success is not monotone in capacity: a larger device may keep more cached, split other blocks, and fail. So
 * nothing is bisected where it can be helped. A run at one capacity tells for which others it would have gone
 * the same (from the most in use to the least refused: asim_engine_same_capacities), and a walk from the top
 * down, from span to span, covers every granule in as many runs as there are different courses. Runs end at
 * their first refusal.
 *
 * Where a policy asks how large the device is, a run tells of its own capacity only. If the walk would then
 * take more than max_runs, capacities at even steps are tried, and each step across which the outcome changes
 * is bisected; the result then says how far apart the tries were.
 */
#ifndef ASIM_SIM_FIT_H
#define ASIM_SIM_FIT_H

#include "sim/engine.h"

typedef struct asim_fit_span { /* capacities of one outcome */
    uint64_t lowest, below;    /* bytes, multiples of the granule; lowest <= capacity < below */
    bool runs;
} asim_fit_span;

typedef struct asim_fit_request {
    asim_run_config config; /* capacity, stop_at_oom, observers and progress are the fit's own */
    uint64_t top;           /* bytes: the largest capacity that is looked at */
    uint64_t max_runs;
    unsigned jobs; /* threads; the result does not depend on it */
    /* Called from one thread at a time, after each run: granules that are settled by now, of how many; a
     * second, coarser walk begins again. Returns true to stop (ASIM_E_SYSTEM). NULL: not called. */
    bool (*progress)(void *ctx, uint64_t settled, uint64_t granules);
    void *ctx;
} asim_fit_request;

typedef struct asim_fit {
    asim_fit_span *spans; /* from the top down to one granule, without gaps; neighbours differ in outcome */
    size_t span_count, span_capacity;
    bool ever;         /* some capacity up to top runs */
    uint64_t smallest; /* the smallest one that does */
    uint64_t always;   /* the smallest one from which on all do, up to top; UINT64_MAX if top does not */
    bool beyond;       /* ... and beyond top: the run at the top has met no limit and asked for none */
    uint64_t step; /* bytes between the capacities that were tried; the granule where the result is exact */
    uint64_t run_count;
} asim_fit;

/* On ASIM_OK *ret_fit is filled and freed with asim_fit_fini. */
asim_code asim_fit_find(const asim_fit_request *request, const asim_hostmem *mem, asim_fit *ret_fit,
                        asim_err *err);
void asim_fit_fini(asim_fit *fit, const asim_hostmem *mem);

#endif
