/* tools/compare.h - two runs side by side: what differs, where they part, and what memory was made of.
 *
 * A side is a run that was replayed just now, or one that a store holds. A comparison of two replayed sides
 * knows the first event at which they part, and explains peak reserved memory; of stored ones it explains the
 * final layout, where both stores hold it. All numbers are integers, all orders total: the same input gives
 * the same text.
 */
#ifndef ASIM_TOOLS_COMPARE_H
#define ASIM_TOOLS_COMPARE_H

#include "sim/store.h"
#include "tools/cli.h"
#include "tools/compare_rows.h"
#include "tools/compare_watch.h"
#include "tools/outcome.h"

enum {
    ASIM_COMPARE_TEXT = 4096,
    ASIM_COMPARE_LABEL = 128,
};

typedef struct asim_compare_phase {
    char label[ASIM_COMPARE_LABEL];
    uint64_t peak_allocated, peak_reserved, end_reserved; /* bytes */
} asim_compare_phase;

/* A, or B. */
typedef struct asim_compare_side {
    char name[ASIM_COMPARE_TEXT + 24]; /* a trace's path, or STORE:RUN */
    char trace_path[ASIM_COMPARE_TEXT], params[ASIM_COMPARE_TEXT];
    char policy[64], device[128], torch[32];
    uint64_t trace_digest, trace_events, seed;
    asim_kept_run kept; /* run_id is 0 for a replayed one */
    char refusal[ASIM_REFUSAL_TEXT];
    asim_compare_phase *phases;
    size_t phase_count, phase_capacity;
    bool has_layout;
    asim_layout layout; /* after peak_event, or a stored run's last event */

    /* Of a replayed side. */
    const asim_trace *trace; /* NULL for a stored one */
    uint64_t peak_event;     /* see tools/compare_watch.h; ASIM_WATCH_OPENING: before event 0 */
    uint64_t peak_held;   /* bytes reserved then: less than the metric where the peak lay inside an event */
    asim_effects effects; /* of the event at which the sides part */
} asim_compare_side;

/* What a part of the reserved memory is grouped by; each accounts for all of it. */
typedef enum asim_compare_view {
    ASIM_VIEW_USE,     /* requested, rounding, pending, free */
    ASIM_VIEW_SEGMENT, /* size, pool and stream of the segment */
    ASIM_VIEW_CLASS,   /* power of two above the block's size, by state */
    ASIM_VIEW_STREAM,
    ASIM_VIEW_GROWN, /* call site that made the allocator ask the device */
    ASIM_VIEW_LIVE,  /* call site of the blocks that live then: no free memory here */
    ASIM_VIEWS,
} asim_compare_view;

typedef struct asim_comparison {
    asim_compare_side sides[2];
    bool differs;
    bool same_trace, replayed; /* replayed: both sides */
    bool has_views, has_sites;
    asim_rows views[ASIM_VIEWS];
    bool parted;
    bool part_requests;  /* it is the traces that say different things there */
    uint64_t part_event; /* or ASIM_WATCH_OPENING */
    uint64_t rows_max;   /* of each view that are printed */
} asim_comparison;

/* How a side's trace is run. */
typedef struct asim_compare_request {
    asim_setup_request setup;
    uint64_t capacity, seed; /* capacity 0: as asim_run_config says */
} asim_compare_request;

/* Replays trace as a side. reference: the digests of the other side's events, to find where they part, or
 * NULL: they are kept in watch. watch was begun by asim_watch_init. Errors name the trace. */
asim_code asim_compare_replay(const asim_cli *cli, const asim_compare_request *request,
                              const asim_trace *trace, asim_watch *watch, asim_compare_side *side,
                              asim_err *err);
/* Replays it once more, up to the peak and the event of the parting: fills layout, effects and the views. */
asim_code asim_compare_explain(const asim_cli *cli, const asim_compare_request *request,
                               asim_comparison *comparison, unsigned which, asim_err *err);

/* Whether path is a store of ours, or FILE:RUN with a store for FILE: *ret_file is then that file, and
 * *ret_run its run, or 0 for all of them. */
bool asim_compare_names_store(const char *path, char ret_file[ASIM_COMPARE_TEXT], int64_t *ret_run);
/* A run of a store, as a side. A run that is not there: ASIM_E_USAGE. */
asim_code asim_compare_load(const asim_cli *cli, const char *file, int64_t run, asim_compare_side *side,
                            asim_err *err);

/* Two stores, run by run. */
typedef struct asim_compare_counts {
    uint64_t same, differing, only_a, only_b;
} asim_compare_counts;
typedef struct asim_compare_sink {
    /* A run of one or both stores; NULL where it is missing. Not called for runs that are the same. */
    void (*run)(void *ctx, const asim_compare_side *a, const asim_compare_side *b);
    void *ctx;
} asim_compare_sink;
asim_code asim_compare_stores(const asim_cli *cli, const char *a, const char *b,
                              const asim_compare_sink *sink, asim_compare_counts *ret_counts, asim_err *err);

/* Whether results differ: status, metrics, and the placements where the trace is the same. */
bool asim_compare_results_differ(const asim_compare_side *a, const asim_compare_side *b);
/* Adds side's layout to the views that need nothing else. */
asim_code asim_compare_add_layout(asim_comparison *comparison, unsigned which, asim_err *err);

void asim_comparison_init(asim_comparison *comparison, const asim_hostmem *mem);
void asim_comparison_fini(asim_comparison *comparison, const asim_hostmem *mem);

void asim_compare_print_table(FILE *out, const asim_comparison *comparison, bool colour);
void asim_compare_print_json(FILE *out, const asim_comparison *comparison);

/* "function (file:line)" of the line that asked, by a stack of the trace: the innermost Python line outside
 * of PyTorch's own files; else the innermost Python line, step of a backward pass, operator, or line of all.
 */
void asim_compare_site(const asim_trace *trace, uint32_t stack, char *ret_text, size_t capacity);
/* Text out of a recording: control characters, which a terminal would obey, become '?'. */
void asim_compare_plain(char *text);
const char *asim_compare_view_name(asim_compare_view view); /* "by segment" */
const char *asim_compare_view_key(asim_compare_view view);  /* of JSON */
/* Metric number i of a side, by its place among those that both may have; NULL past the end. */
const char *asim_compare_metric(const asim_comparison *comparison, size_t i, uint64_t ret_values[2]);

#endif
