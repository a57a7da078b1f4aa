/* `sweep --format`: a table that is read from the top, CSV as `run` prints it, and one JSON array. */
#include "tools/outcome.h"
#include "tools/sweep_rows.h"
#include "tools/units.h"

#include <inttypes.h>
#include <string.h>

#define BOLD  "\033[1m"
#define RED   "\033[31m"
#define GREEN "\033[32m"
#define PLAIN "\033[0m"

enum {
    LABEL_MIN = 13, /* "configuration" */
    LABEL_MAX = 44, /* longer ones have a line of their own */
};

/* How much more is reserved than is alive at once, in tenths of a percent: "+9.5 %". */
static char *above(uint64_t reserved, uint64_t live, char text[ASIM_UNITS_MAX])
{
    if (live == 0) {
        strcpy(text, "-");
        return text;
    }
    bool less = reserved < live; /* null, or a run that did not serve everything */
    uint64_t gap = less ? live - reserved : reserved - live;
    uint64_t tenths = (uint64_t)(((unsigned __int128)gap * 1000 + live / 2) / live);
    if (tenths > 9999999)
        tenths = 9999999;
    snprintf(text, ASIM_UNITS_MAX, "%c%" PRIu64 ".%" PRIu64 " %%", less ? '-' : '+', tenths / 10,
             tenths % 10);
    return text;
}

/* The difference to the first row's peak: "-3.50 GiB", "=". */
static char *against(uint64_t reserved, uint64_t first, char text[ASIM_UNITS_MAX])
{
    char human[ASIM_UNITS_MAX];
    if (reserved == first)
        strcpy(text, "=");
    else
        snprintf(text, ASIM_UNITS_MAX, "%c%.30s", reserved < first ? '-' : '+',
                 asim_human_bytes(reserved < first ? first - reserved : reserved - first, human));
    return text;
}

static size_t label_width(const asim_sweep_rows *rows)
{
    size_t width = LABEL_MIN;
    for (size_t i = 0; i < rows->count; i++) {
        size_t length = rows->rows[i].label_size - 1;
        if (length <= LABEL_MAX && length > width)
            width = length;
    }
    return width;
}

static void print_row(FILE *out, const asim_sweep_view *view, const asim_sweep_trace *trace,
                      const asim_sweep_row *row, const asim_sweep_row *first, bool best, size_t width)
{
    char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX], c[ASIM_UNITS_MAX], d[ASIM_UNITS_MAX], e[ASIM_UNITS_MAX],
        f[ASIM_UNITS_MAX], g[ASIM_UNITS_MAX];
    bool failing = row->result->failed || row->failures > 0;
    const char *on = !view->colour ? "" : failing ? RED : best ? GREEN : "";
    const char *off = on[0] ? PLAIN : "";
    fprintf(out, "%s%c %-*s", on, best ? '*' : failing ? '!' : ' ', (int)width, row->label);
    if (row->label_size - 1 > width)
        fprintf(out, "\n  %-*s", (int)width, "");
    if (row->result->failed) {
        fprintf(out, "  no result: see the message%s\n", off);
        return;
    }
    fprintf(out, " %11s %9s %10s %11s %8s %7s %9s %8s%s\n", asim_human_bytes(row->reserved, a),
            above(row->reserved, trace->peak_live_bytes, b),
            row == first ? "(first)" : against(row->reserved, first->reserved, c),
            asim_human_bytes(row->internal, d), asim_human_ppm(row->external, e),
            asim_human_count(row->calls, f), asim_human_ns(row->stall, g),
            row->failures ? asim_human_count(row->failures, (char[ASIM_UNITS_MAX]){0}) : "none", off);
}

/* Parameters that stand in no label. */
static void print_shared(FILE *out, const asim_sweep_rows *rows)
{
    for (size_t i = 0; i < rows->shared_count; i++)
        if (rows->shared[i].text[0])
            fprintf(out, "  every %s here: %s\n", rows->shared[i].policy, rows->shared[i].text);
}

static void print_trace(FILE *out, const asim_sweep_view *view, const asim_sweep_trace *trace,
                        const asim_sweep_rows *rows)
{
    char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX];
    const char *bold = view->colour ? BOLD : "", *plain = view->colour ? PLAIN : "";
    fprintf(out, "%s%s%s\n  %s events", bold, trace->path, plain, asim_human_count(trace->events, a));
    if (trace->devices > 1)
        fprintf(out, " on %" PRIu32 " devices (sums below)", trace->devices);
    fprintf(out, "; at most %s are alive at once: no allocator reserves less\n",
            asim_human_bytes(trace->peak_live_bytes, b));
    fprintf(out, "  device %s, %s, costs %s\n", view->profile->name,
            asim_human_bytes(rows->rows[0].result->run.record.capacity, a),
            view->profile->measured ? "measured" : "estimated");
    print_shared(out, rows);
    size_t width = label_width(rows), best = asim_sweep_rows_best(rows), first = 0;
    while (first + 1 < rows->count && rows->rows[first].result->failed)
        first++;
    fprintf(out, "\n%s  %-*s %11s %9s %10s %11s %8s %7s %9s %8s%s\n", bold, (int)width, "configuration",
            "reserved", "above", "against", "internal", "external", "driver", "stall", "requests", plain);
    fprintf(out, "%s  %-*s %11s %9s %10s %11s %8s %7s %9s %8s%s\n", bold, (int)width, "", "at peak", "alive",
            "the first", "frag, peak", "mean", "calls", "", "refused", plain);
    for (size_t i = 0; i < rows->count; i++)
        print_row(out, view, trace, &rows->rows[i], &rows->rows[first], i == best && rows->count > 1, width);
    if (best < rows->count && rows->count > 1)
        fputs("  * reserves least of those that serve every request\n", out);
    for (size_t i = 0; i < rows->count; i++)
        if (!rows->rows[i].result->failed && rows->rows[i].failures > 0) {
            fputs("  ! did not serve every request: what it reserved is no answer\n", out);
            break;
        }
}

/* A table for each trace and capacity: what runs on different devices is not compared. */
static asim_code print_capacity(FILE *out, const asim_sweep_view *view, const asim_sweep_trace *trace,
                                uint64_t capacity, bool *first, const asim_hostmem *mem, asim_err *err)
{
    asim_sweep_rows rows;
    asim_code code = asim_sweep_rows_make(view, trace, true, capacity, &rows, mem, err);
    if (!code)
        code = asim_sweep_rows_label(&rows, mem, err);
    if (!code && rows.count > 0) {
        if (!*first)
            fputc('\n', out);
        *first = false;
        print_trace(out, view, trace, &rows);
    }
    asim_sweep_rows_fini(&rows, mem);
    return code;
}

/* Whether configuration k is the first of its capacity: capacities are the outermost of the plan's loops. */
static bool begins_capacity(const asim_sweep_plan *plan, size_t k)
{
    return k == 0 || plan->configs[k - 1].capacity != plan->configs[k].capacity;
}

asim_code asim_sweep_table(FILE *out, const asim_sweep_view *view, const asim_hostmem *mem, asim_err *err)
{
    const asim_sweep_plan *plan = view->plan;
    bool first = true;
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < view->outcome->trace_count; i++)
        for (size_t k = 0; k < plan->count && !code; k++)
            if (begins_capacity(plan, k))
                code = print_capacity(out, view, &view->outcome->traces[i], plan->configs[k].capacity, &first,
                                      mem, err);
    for (size_t k = 0; k < plan->count && !code; k++)
        if (begins_capacity(plan, k))
            asim_sweep_totals(out, view, plan->configs[k].capacity);
    return code;
}

/* Calls print for each result of each trace, in the view's order. */
static asim_code for_each(const asim_sweep_view *view,
                          void (*print)(void *ctx, const asim_sweep_result *result), void *ctx,
                          const asim_hostmem *mem, asim_err *err)
{
    for (size_t i = 0; i < view->outcome->trace_count; i++) {
        asim_sweep_rows rows;
        asim_code code = asim_sweep_rows_make(view, &view->outcome->traces[i], false, 0, &rows, mem, err);
        for (size_t k = 0; k < rows.count && !code; k++)
            if (rows.rows[k].result->done)
                print(ctx, rows.rows[k].result);
        asim_sweep_rows_fini(&rows, mem);
        if (code)
            return code;
    }
    return ASIM_OK;
}

static void print_csv(void *ctx, const asim_sweep_result *result)
{
    asim_print_csv(ctx, &result->run);
}

asim_code asim_sweep_csv(FILE *out, const asim_sweep_view *view, const asim_hostmem *mem, asim_err *err)
{
    asim_print_csv_header(out);
    return for_each(view, print_csv, out, mem, err);
}

static void print_json(void *ctx, const asim_sweep_result *result)
{
    asim_json *json = ctx;
    asim_json_begin(json, NULL, '{');
    asim_json_run(json, &result->run);
    if (result->run_id)
        asim_json_integer(json, "run_id", result->run_id);
    else
        asim_json_null(json, "run_id");
    asim_json_end(json, '}');
}

asim_code asim_sweep_json(FILE *out, const asim_sweep_view *view, const asim_hostmem *mem, asim_err *err)
{
    asim_json json = {.out = out};
    asim_json_begin(&json, NULL, '[');
    asim_code code = for_each(view, print_json, &json, mem, err);
    asim_json_end(&json, ']');
    return code;
}
