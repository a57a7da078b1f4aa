/* tools/outcome.h - one trace run through one policy, with all that is printed and stored of it.
 *
 * An outcome owns everything it holds; the trace is gone when it is returned, so that many traces can run one
 * after another in little memory. run is as asim_store_add takes it.
 */
#ifndef ASIM_TOOLS_OUTCOME_H
#define ASIM_TOOLS_OUTCOME_H

#include "sim/store.h"
#include "tools/json.h"
#include "tools/memory_summary.h"
#include "tools/progress.h"
#include "tools/setup.h"
#include "tools/torch_stats.h"

#include <stdatomic.h>

enum {
    ASIM_REFUSAL_TEXT = ASIM_FAILURE_TEXT /* bytes of the message about the first failure */
};

typedef struct asim_outcome_request {
    const asim_setup_request *setup;
    const asim_profile *profile;
    uint64_t capacity; /* bytes a device; 0: as asim_run_config says */
    uint64_t seed;
    asim_check check;
    size_t samples;       /* most that are kept; 0: none */
    bool layout;          /* keep the final segments and blocks */
    bool stats;           /* keep what memory_summary() shows */
    bool all_stats;       /* keep all of the policy's own statistics */
    const char *snapshot; /* where the final state and history go; NULL: nowhere */
    uint64_t history;     /* most entries of that history, or UINT64_MAX */
    /* Takes a run's warnings; NULL: they are said. */
    void (*warn)(void *ctx, const char *path, const char *text);
    void *ctx;
    const atomic_bool *stop; /* when it turns true the run ends as if by a fault; NULL: never */
} asim_outcome_request;

typedef struct asim_outcome {
    asim_stored_run run;
    asim_setup setup;
    asim_profile profile;
    asim_sample *samples;
    size_t sample_capacity;
    asim_phases phases;
    char **labels; /* one a phase */
    asim_layout layout;
    asim_memory_stats *stats;    /* one a device, or NULL */
    asim_torch_stats *all_stats; /* one a device, or NULL */
    asim_failures failures;
    char host[64];
    char source[64];
    char settings[ASIM_PARAM_TEXT_MAX]; /* the recording's, where they were taken; otherwise "" */
    /* Where it went; set by the caller who stores it. */
    const char *db; /* NULL: nowhere */
    bool is_new;
    int64_t run_id;
} asim_outcome;

/* What the modelled allocator says of the first failure; NULL: nothing. */
static inline const char *asim_outcome_message(const asim_outcome *outcome)
{
    return outcome->failures.count ? outcome->failures.items[0].message : NULL;
}

/* Loads path and runs it. On ASIM_OK *ret_outcome is filled and freed with asim_outcome_fini; a run that
 * ended by a fault fills it, too, and returns the fault. Errors name the file. */
asim_code asim_outcome_run(const asim_cli *cli, const asim_outcome_request *request, const char *path,
                           asim_progress *progress, asim_outcome *ret_outcome, asim_err *err);
/* The same with a trace that is in memory already; path is its name. */
asim_code asim_outcome_replay(const asim_cli *cli, const asim_outcome_request *request, const char *path,
                              const asim_trace *trace, asim_progress *progress, asim_outcome *ret_outcome,
                              asim_err *err);
void asim_outcome_fini(asim_outcome *outcome, const asim_hostmem *mem); /* a zeroed one is fine */

/* The forms of `run --format`. */
void asim_print_table(FILE *out, const asim_outcome *outcome, bool colour);
void asim_print_json(FILE *out, const asim_outcome *outcome);
void asim_print_csv_header(FILE *out);
void asim_print_csv(FILE *out, const asim_stored_run *run);
/* Of the JSON form: the members from "trace" to "metrics", which belong to every run. */
void asim_json_run(asim_json *json, const asim_stored_run *run);
/* Fails (ASIM_E_USAGE) for a policy that does not keep PyTorch's statistics. */
asim_code asim_print_summary(FILE *out, const asim_outcome *outcome, bool abbreviated, asim_err *err);
void asim_print_torch_stats(FILE *out, const asim_outcome *outcome);

#endif
