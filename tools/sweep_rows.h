/* tools/sweep_rows.h - the rows of one comparison: which runs, in which order, and what they are called. */
#ifndef ASIM_TOOLS_SWEEP_ROWS_H
#define ASIM_TOOLS_SWEEP_ROWS_H

#include "tools/sweep_print.h"

typedef struct asim_sweep_row {
    const asim_sweep_result *result;
    char *label; /* "max_split_size_mb=64", or as asim_sweep_rows_label says */
    size_t label_size;
    uint64_t reserved, internal, external, calls, stall, failures;
} asim_sweep_row;

enum {
    ASIM_SHARED_MAX = 1024 /* bytes of a policy's shared parameters, with the closing zero */
};

/* The parameters that all rows of a policy have, if there are several rows: labels leave them out. */
typedef struct asim_sweep_shared {
    const char *policy;
    size_t rows;
    char text[ASIM_SHARED_MAX]; /* "torch=2.9,fraction=0.5", or "" */
} asim_sweep_shared;

typedef struct asim_sweep_rows {
    asim_sweep_row *rows;
    size_t count, capacity;
    asim_sweep_shared *shared; /* one a policy, in the order of their first rows */
    size_t shared_count, shared_capacity;
} asim_sweep_rows;

/* The results of one trace, ordered; with `only`, those whose configuration asks for this capacity. Runs that
 * were not reached are left out. Freed with asim_sweep_rows_fini, also after an error. */
asim_code asim_sweep_rows_make(const asim_sweep_view *view, const asim_sweep_trace *trace, bool only,
                               uint64_t capacity, asim_sweep_rows *rows, const asim_hostmem *mem,
                               asim_err *err);

/* Gives each row its label: the policy and those of its parameters that not all rows of the policy share; and
 * fills shared. */
asim_code asim_sweep_rows_label(asim_sweep_rows *rows, const asim_hostmem *mem, asim_err *err);

/* The row with the smallest reserved peak among those without failures (ties: the least stall, then the
 * first); count where no row is, or where all are equal. */
size_t asim_sweep_rows_best(const asim_sweep_rows *rows);

void asim_sweep_rows_fini(asim_sweep_rows *rows, const asim_hostmem *mem);

#endif
