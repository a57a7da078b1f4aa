/* tools/report.h - what `report` draws: the runs of a store, and the numbers of each plot.
 *
 * Plots of a run (timeline, fragmentation, layout), of all runs of a trace (max-split, pareto, policies,
 * calls, stalls) and of a trace file (sizes, lifetimes). A plot for which the store holds nothing stays
 * empty.
 */
#ifndef ASIM_TOOLS_REPORT_H
#define ASIM_TOOLS_REPORT_H

#include "sim/event.h"
#include "sim/store.h"
#include "tools/plot.h"

typedef struct asim_report_run {
    int64_t run_id, trace_id;
    char *trace, *policy, *params, *device, *status, *digest, *about;
    int64_t capacity, seed, events;
    int64_t peak_requested, peak_allocated, peak_reserved, lower_bound, reserve_gap_ppm, stall_ns, ooms;
    int64_t device_allocs, device_frees, device_maps, device_unmaps;
} asim_report_run;

typedef struct asim_report {
    const asim_hostmem *mem;
    asim_store *store;
    const char *path;
    asim_report_run *runs; /* in the order of storing */
    size_t run_count, run_capacity;
} asim_report;

/* Opens the store and reads its runs. ASIM_E_INPUT where it holds none; errors name the store. */
asim_code asim_report_open(const char *path, const asim_hostmem *mem, asim_report *ret_report, asim_err *err);
void asim_report_close(asim_report *report);

/* NULL where there is no such run. */
const asim_report_run *asim_report_find(const asim_report *report, int64_t run_id);
/* The run's policy with its parameters, as --policy takes them. */
void asim_report_policy(const asim_report_run *run, char *ret_text, size_t capacity);
/* The part of a path after its last slash. */
const char *asim_report_base(const char *path);

typedef enum asim_plot_scope {
    ASIM_PLOT_OF_RUN,
    ASIM_PLOT_OF_TRACE, /* of all runs of a trace; run: any of them */
    ASIM_PLOT_OF_FILE,  /* of a trace file */
} asim_plot_scope;

typedef struct asim_plot_kind {
    const char *name;
    asim_plot_scope scope;
    const char *about;   /* a sentence for the reader */
    const char *missing; /* what to do where there is nothing to plot */
    asim_code (*of_store)(asim_report *report, const asim_report_run *run, asim_plot *plot, asim_err *err);
    asim_code (*of_file)(const asim_trace *trace, asim_plot *plot, asim_err *err);
} asim_plot_kind;

enum {
    ASIM_PLOT_KINDS = 10
};
extern const asim_plot_kind asim_plot_kinds[ASIM_PLOT_KINDS];
const asim_plot_kind *asim_plot_kind_find(const char *name);

/* tools/plot_run.c */
asim_code asim_plot_timeline(asim_report *, const asim_report_run *, asim_plot *, asim_err *);
asim_code asim_plot_fragmentation(asim_report *, const asim_report_run *, asim_plot *, asim_err *);
asim_code asim_plot_layout(asim_report *, const asim_report_run *, asim_plot *, asim_err *);
/* tools/plot_runs.c */
asim_code asim_plot_max_split(asim_report *, const asim_report_run *, asim_plot *, asim_err *);
asim_code asim_plot_pareto(asim_report *, const asim_report_run *, asim_plot *, asim_err *);
asim_code asim_plot_policies(asim_report *, const asim_report_run *, asim_plot *, asim_err *);
asim_code asim_plot_calls(asim_report *, const asim_report_run *, asim_plot *, asim_err *);
asim_code asim_plot_stalls(asim_report *, const asim_report_run *, asim_plot *, asim_err *);
/* tools/plot_trace.c: by powers of two. A lifetime is a number of events. */
asim_code asim_plot_sizes(const asim_trace *, asim_plot *, asim_err *);
asim_code asim_plot_lifetimes(const asim_trace *, asim_plot *, asim_err *);

typedef struct asim_report_request {
    const int64_t *runs; /* those shown one by one; none: chosen from the store */
    size_t run_count;
    char *const *files; /* traces, for their histograms */
    asim_trace *const *traces;
    size_t trace_count;
} asim_report_request;

/* tools/report_html.c: one page with everything, appended to ret_page. */
asim_code asim_report_html(asim_report *report, const asim_report_request *request, asim_buf *ret_page,
                           asim_err *err);

#endif
