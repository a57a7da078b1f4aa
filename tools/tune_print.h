/* tools/tune_print.h - what `tune` found, for people and for programs. */
#ifndef ASIM_TOOLS_TUNE_PRINT_H
#define ASIM_TOOLS_TUNE_PRINT_H

#include "tools/tune_search.h"
#include "tools/tune_trap.h"

enum {
    ASIM_TUNE_FRONT_MAX = 12,
    ASIM_TUNE_LINES_MAX = 32,
    ASIM_TUNE_LINE_MAX = 1024
};

typedef struct asim_tune_view {
    const asim_tune_job *job;
    const asim_tune_found *found;
    const asim_tune_trap *trap;
    const char *torch_why;      /* where the release comes from: "as named", ... */
    bool torch_assumed;         /* neither named nor told by the recording */
    const char *objective_name; /* as typed */
    const char *db;             /* NULL: not stored */
    const int64_t *run_ids;     /* of the confirmed runs: baseline and best, a pair a trace */
    bool colour;
} asim_tune_view;

/* Whether the best setting is better in what was asked for; otherwise there is nothing to gain. */
bool asim_tune_gains(const asim_tune_view *view);

void asim_tune_table(FILE *out, const asim_tune_view *view);
void asim_tune_json(FILE *out, const asim_tune_view *view);

#endif
