/* tools/sweep_print.h - what a sweep found: a comparison table a trace, or a row a run for programs. */
#ifndef ASIM_TOOLS_SWEEP_PRINT_H
#define ASIM_TOOLS_SWEEP_PRINT_H

#include "tools/sweep_run.h"

#include <stdio.h>

typedef enum asim_sweep_order {
    ASIM_ORDER_LISTED, /* as the plan lists them */
    ASIM_ORDER_RESERVED,
    ASIM_ORDER_INTERNAL,
    ASIM_ORDER_EXTERNAL,
    ASIM_ORDER_CALLS,
    ASIM_ORDER_STALL,
    ASIM_ORDER_FAILURES,
} asim_sweep_order;

/* The words of --sort, in the order above, ended by NULL. */
extern const char *const asim_sweep_orders[];

typedef struct asim_sweep_view {
    const asim_sweep_plan *plan;
    const asim_sweep_outcome *outcome;
    const asim_profile *profile;
    asim_sweep_order order; /* smallest first, runs with failures last; ties as listed */
    bool colour;
} asim_sweep_view;

/* Over all traces, for the configurations of one capacity: each at its worst, that trace named, and in sum.
 * Prints nothing where fewer than two traces were opened. */
void asim_sweep_totals(FILE *out, const asim_sweep_view *view, uint64_t capacity);

/* Each fails (ASIM_E_SYSTEM) only for lack of memory. A run that ended by a fault has a line in the table
 * and none in the other forms. */
asim_code asim_sweep_table(FILE *out, const asim_sweep_view *view, const asim_hostmem *mem, asim_err *err);
asim_code asim_sweep_csv(FILE *out, const asim_sweep_view *view, const asim_hostmem *mem, asim_err *err);
asim_code asim_sweep_json(FILE *out, const asim_sweep_view *view, const asim_hostmem *mem, asim_err *err);

#endif
