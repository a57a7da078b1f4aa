/* tools/sweep_run.h - a sweep at work: every configuration of a plan on every trace, stored as it ends.
 *
 * What the store holds already is not run again: its numbers are read back. Configurations that mean the same
 * on a trace (equal canonical parameters) are run once, as the first of them.
 */
#ifndef ASIM_TOOLS_SWEEP_RUN_H
#define ASIM_TOOLS_SWEEP_RUN_H

#include "sim/profile.h"
#include "sim/store.h"
#include "tools/sweep_plan.h"

#include <stdatomic.h>

typedef struct asim_sweep_result {
    asim_stored_run run;                    /* key, texts and record; no samples, phases, layout */
    char *params;                           /* what run.params points to */
    char (*own_names)[ASIM_STORE_NAME_MAX]; /* of a run that was read back, or NULL */
    size_t config;                          /* index into the plan */
    bool done;                              /* run holds a result */
    bool failed;                            /* it ended by a fault, which was said */
    bool kept;                              /* it was in the store before */
    int64_t run_id;                         /* in the store; 0: not stored */
} asim_sweep_result;

typedef struct asim_sweep_trace {
    const char *path;
    bool opened; /* it could be read */
    bool opening_failed;
    uint64_t digest, events;
    uint32_t devices;
    char source[64];
    uint64_t peak_live_bytes;    /* the most that is requested and alive at once */
    asim_sweep_result **results; /* one a configuration; NULL: not of this part, or the same as another */
    struct asim_trace *trace;    /* while it is worked on */
} asim_sweep_trace;

typedef struct asim_sweep_job {
    const asim_sweep_plan *plan;
    const asim_profile *profile;
    char **paths;
    size_t path_count;
    uint64_t seed;
    size_t samples; /* rows of the timeline that are stored; 0: none */
    size_t jobs;    /* threads; 0: one a core */
    asim_check check;
    size_t shard, shards;
    asim_store *store; /* NULL: none */
    const char *db;    /* its name */
    const atomic_bool *stop;
} asim_sweep_job;

typedef struct asim_sweep_outcome {
    asim_sweep_trace *traces;
    size_t trace_count, config_count;
    size_t total;    /* runs of this part, without doubles */
    size_t ran;      /* now */
    size_t kept;     /* found in the store */
    size_t failed;   /* by a fault */
    size_t doubles;  /* configurations that were the same as another */
    size_t unopened; /* traces */
    int status;      /* exit status; every fault was said */
} asim_sweep_outcome;

/* Works until done or stopped. *ret_outcome is always filled, and freed with asim_sweep_outcome_fini. */
void asim_sweep_go(const asim_cli *cli, const asim_sweep_job *job, asim_sweep_outcome *ret_outcome);
void asim_sweep_outcome_fini(asim_sweep_outcome *outcome, const asim_hostmem *mem);

#endif
