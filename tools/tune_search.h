/* tools/tune_search.h - the search: settings by traces, on all cores, the same answer for any number of them.
 *
 * Round 1 changes one knob of the baseline at a time; max_split_size_mb takes one value of each interval in
 * which it can't differ (tune_breaks.h). The next rounds do the same from the best settings so far, until a
 * round finds nothing better, or the budget is spent. Several traces are ranks of one job: one setting for
 * all; its peak and stall are those of the worst rank.
 */
#ifndef ASIM_TOOLS_TUNE_SEARCH_H
#define ASIM_TOOLS_TUNE_SEARCH_H

#include "tools/outcome.h"
#include "tools/tune_breaks.h"
#include "tools/tune_events.h"

typedef enum asim_tune_objective {
    ASIM_TUNE_PEAK,  /* least reserved at the peak; ties: least stall */
    ASIM_TUNE_STALL, /* least stall, with no more reserved than the baseline; ties: least reserved */
    ASIM_TUNE_FIT,   /* every request served; ties: least stall, then least reserved */
} asim_tune_objective;

typedef struct asim_tune_value { /* what a setting is worth, over all traces */
    asim_tune_setting setting;
    bool done;               /* on every trace */
    bool faulty;             /* some run ended by a fault, where PyTorch would not go on either */
    uint64_t refused;        /* requests, of all traces */
    uint64_t peak, peak_sum; /* reserved: of the worst trace, and of all */
    uint64_t stall;          /* ns, of the worst trace */
    uint64_t calls, retries; /* of all traces */
    uint64_t peak_lower;     /* lower_bound_bytes of the trace with the worst peak */
    size_t worst;            /* the trace with the worst peak */
} asim_tune_value;

typedef struct asim_tune_trace {
    const char *path;
    const asim_trace *trace; /* as it is searched: the original, or afresh */
    asim_trace *original, *afresh;
    asim_tune_need *needs;
    uint64_t peak_live_bytes;
} asim_tune_trace;

typedef struct asim_tune_job {
    const asim_tune_base *base;
    asim_tune_trace *traces;
    size_t trace_count;
    const asim_tune_sizes *sizes;
    const char *conf; /* the user's, or NULL */
    const asim_profile *profile;
    uint64_t capacity;  /* 0: as a run without --capacity */
    unsigned forbidden; /* bits of asim_tune_knob */
    asim_tune_objective objective;
    size_t jobs;        /* 0: one a core */
    uint64_t budget_ns; /* 0: none */
    const atomic_bool *stop;
} asim_tune_job;

typedef struct asim_tune_found {
    asim_tune_value *values; /* [0] is the baseline; in the order of the search, complete ones alone */
    size_t count, capacity;
    size_t tried;                          /* runs */
    size_t faulty;                         /* settings that ended by a fault */
    bool breaks_complete;                  /* every distinct value of max_split_size_mb was tried */
    bool out_of_time;                      /* the budget was spent */
    uint64_t breaks[ASIM_TUNE_BREAKS_MAX]; /* of the baseline's rounding */
    size_t break_count;
    size_t best; /* index; 0: nothing is better than the baseline */
} asim_tune_found;

/* Freed with asim_tune_found_fini, also after an error. ASIM_E_SYSTEM, too, when it was stopped. */
asim_code asim_tune_search(const asim_cli *cli, const asim_tune_job *job, asim_tune_found *found,
                           asim_err *err);
void asim_tune_found_fini(asim_tune_found *found, const asim_hostmem *mem);

/* Whether a is worth more than b for the objective; ties are broken by fewer changed knobs, then b stays. */
bool asim_tune_better(const asim_tune_job *job, const asim_tune_value *baseline, const asim_tune_value *a,
                      const asim_tune_value *b);

/* Whether the setting uses nothing that is forbidden. */
bool asim_tune_allows(const asim_tune_job *job, const asim_tune_setting *setting);

/* Indices of the settings that no other beats in both peak and stall, ascending by peak; those that refuse
 * requests are left out. Of more than capacity (2 at least), the first, the last and some between, at even
 * steps. Returns how many; *ret_total is how many there are. */
size_t asim_tune_front(const asim_tune_found *found, const asim_tune_base *base, size_t *ret_indices,
                       size_t capacity, size_t *ret_total);

/* One run of a setting on one trace; request's setup and capacity are filled in here. */
asim_code asim_tune_run(const asim_cli *cli, const asim_tune_job *job, const asim_tune_setting *setting,
                        size_t trace, asim_outcome_request request, const char *name,
                        asim_outcome *ret_outcome, asim_err *err);

#endif
