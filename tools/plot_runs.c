/* The plots that hold the runs of one trace against each other. */
#include "tools/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    BARS_SHOWN = 24 /* with more runs, the best of each policy */
};

typedef struct group {
    const asim_report_run **runs;
    size_t count, capacity;
    const asim_hostmem *mem;
} group;

static bool ran_out(const asim_report_run *run)
{
    return strcmp(run->status, "ok") != 0;
}

/* Least reserved memory first; then least time; then in the order of storing. Who ran out comes last. */
static int by_memory(const void *left, const void *right)
{
    const asim_report_run *a = *(const asim_report_run *const *)left,
                          *b = *(const asim_report_run *const *)right;
    const int64_t x[] = {ran_out(a), a->peak_reserved, a->stall_ns, a->run_id};
    const int64_t y[] = {ran_out(b), b->peak_reserved, b->stall_ns, b->run_id};
    for (int i = 0; i < 4; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static asim_code gather(const asim_report *report, int64_t trace_id, group *ret_group, asim_err *err)
{
    *ret_group = (group){.mem = report->mem, .capacity = report->run_count};
    ret_group->runs = asim_mem_new(report->mem, report->run_count, sizeof(asim_report_run *));
    if (!ret_group->runs)
        return asim_fail_memory(err, report->run_count * sizeof(asim_report_run *));
    for (size_t i = 0; i < report->run_count; i++)
        if (report->runs[i].trace_id == trace_id)
            ret_group->runs[ret_group->count++] = &report->runs[i];
    qsort(ret_group->runs, ret_group->count, sizeof(asim_report_run *), by_memory);
    return ASIM_OK;
}

static void disband(group *g)
{
    asim_mem_free(g->mem, g->runs, g->capacity, sizeof(asim_report_run *));
}

/* Of a group in order, the first run of each policy. */
static void keep_best(group *g)
{
    size_t kept = 0;
    for (size_t i = 0; i < g->count; i++) {
        size_t k = 0;
        while (k < kept && strcmp(g->runs[k]->policy, g->runs[i]->policy) != 0)
            k++;
        if (k == kept)
            g->runs[kept++] = g->runs[i];
    }
    g->count = kept;
}

static void title(asim_plot *plot, const asim_report_run *run, const char *what)
{
    snprintf(plot->title, sizeof plot->title, "%s: %.200s", what, asim_report_base(run->trace));
}

/* The series of that name, or a new one; its index, or SIZE_MAX on failure. */
static size_t series_of(asim_plot *plot, asim_plot_style style, const char *policy, const char *label,
                        asim_err *err)
{
    unsigned dash;
    const unsigned colour = asim_plot_policy_colour(policy, &dash);
    for (size_t i = 0; i < plot->series_count; i++)
        if (plot->series[i].style == style &&
            strncmp(plot->series[i].label, label, ASIM_PLOT_LABEL_MAX - 1) == 0)
            return i;
    asim_plot_series *series = asim_plot_add(plot, style, colour, err, "%s", label);
    if (!series)
        return SIZE_MAX;
    series->dash = dash;
    return plot->series_count - 1;
}

static asim_code add(asim_plot *plot, asim_plot_style style, const char *policy, const char *label,
                     const int64_t *row, asim_err *err)
{
    const size_t at = series_of(plot, style, policy, label, err);
    return at == SIZE_MAX ? err->code : asim_plot_row(plot, &plot->series[at], row, err);
}

static asim_code name_bar(asim_plot *plot, const asim_report_run *run, int64_t at, asim_err *err)
{
    return asim_plot_name_row(plot, at, err, "%s%s%.56s%s%s", run->policy, run->params[0] ? " " : "",
                              run->params, strlen(run->params) > 56 ? "..." : "",
                              ran_out(run) ? " (ran out)" : "");
}

asim_code asim_plot_policies(asim_report *report, const asim_report_run *run, asim_plot *plot, asim_err *err)
{
    group g;
    asim_code code = gather(report, run->trace_id, &g, err);
    title(plot, run, "Peak reserved memory");
    plot->x_label = "peak reserved";
    plot->x_unit = ASIM_PLOT_BYTES;
    if (g.count > BARS_SHOWN) {
        keep_best(&g);
        title(plot, run, "Peak reserved memory, the best run of each policy");
    }
    for (size_t i = 0; i < g.count && !code; i++) {
        const int64_t at = (int64_t)i;
        code = name_bar(plot, g.runs[i], at, err);
        if (!code)
            code = add(plot, ASIM_PLOT_BARS, g.runs[i]->policy, g.runs[i]->policy,
                       (int64_t[]){at, 0, g.runs[i]->peak_reserved}, err);
    }
    asim_plot_series *peak =
        code ? NULL : asim_plot_add(plot, ASIM_PLOT_TICKS, ASIM_PLOT_BLACK, err, "peak allocated");
    if (!code && !peak)
        code = err->code;
    for (size_t i = 0; i < g.count && !code; i++)
        code = asim_plot_row(plot, peak, (int64_t[]){(int64_t)i, g.runs[i]->peak_allocated}, err);
    disband(&g);
    return code;
}

asim_code asim_plot_stalls(asim_report *report, const asim_report_run *run, asim_plot *plot, asim_err *err)
{
    group g;
    asim_code code = gather(report, run->trace_id, &g, err);
    title(plot, run, "Stalls, the best run of each policy");
    plot->x_label = "host time in driver calls, waits and moves";
    plot->x_unit = ASIM_PLOT_NS;
    keep_best(&g);
    for (size_t i = 0; i < g.count && !code; i++) {
        code = name_bar(plot, g.runs[i], (int64_t)i, err);
        if (!code)
            code = add(plot, ASIM_PLOT_BARS, g.runs[i]->policy, g.runs[i]->policy,
                       (int64_t[]){(int64_t)i, 0, g.runs[i]->stall_ns}, err);
    }
    disband(&g);
    return code;
}

asim_code asim_plot_calls(asim_report *report, const asim_report_run *run, asim_plot *plot, asim_err *err)
{
    static const char *const labels[] = {"allocate", "free", "map", "unmap"};
    group g;
    asim_code code = gather(report, run->trace_id, &g, err);
    title(plot, run, "Driver calls, the best run of each policy");
    plot->x_label = "driver calls";
    keep_best(&g);
    for (unsigned kind = 0; kind < 4 && !code; kind++) /* no policy's colours: these are calls */
        if (!asim_plot_add(plot, ASIM_PLOT_BARS, (unsigned[]){1, 5, 0, 3}[kind], err, "%s", labels[kind]))
            code = err->code;
    for (size_t i = 0; i < g.count && !code; i++) {
        const asim_report_run *r = g.runs[i];
        const int64_t calls[] = {r->device_allocs, r->device_frees, r->device_maps, r->device_unmaps};
        int64_t begin = 0;
        code = name_bar(plot, r, (int64_t)i, err);
        for (unsigned kind = 0; kind < 4 && !code; begin += calls[kind++])
            code = asim_plot_row(plot, &plot->series[kind],
                                 (int64_t[]){(int64_t)i, begin, begin + calls[kind]}, err);
    }
    disband(&g);
    return code;
}

asim_code asim_plot_pareto(asim_report *report, const asim_report_run *run, asim_plot *plot, asim_err *err)
{
    group g;
    asim_code code = gather(report, run->trace_id, &g, err);
    title(plot, run, "Memory against stall time");
    plot->x_label = "stall time";
    plot->y_label = "peak reserved";
    plot->x_unit = ASIM_PLOT_NS;
    plot->y_unit = ASIM_PLOT_BYTES;
    plot->zero_y = false;
    while (g.count && ran_out(g.runs[g.count - 1])) /* they come last */
        g.count--;
    for (size_t i = 0; i < g.count && !code; i++)
        code = add(plot, ASIM_PLOT_POINTS, g.runs[i]->policy, g.runs[i]->policy,
                   (int64_t[]){g.runs[i]->stall_ns, g.runs[i]->peak_reserved}, err);
    asim_plot_series *front =
        code || !g.count ? NULL : asim_plot_add(plot, ASIM_PLOT_STEPS, ASIM_PLOT_BLACK, err, "Pareto front");
    if (!code && g.count && !front)
        code = err->code;
    if (front)
        front->width = 1;
    /* From the least time to the least memory; the group is in the other order. */
    for (size_t i = g.count; i-- > 0 && !code;) {
        bool beaten = false;
        for (size_t k = 0; k < i && !beaten; k++)
            beaten = g.runs[k]->stall_ns <= g.runs[i]->stall_ns;
        if (!beaten)
            code =
                asim_plot_row(plot, front, (int64_t[]){g.runs[i]->stall_ns, g.runs[i]->peak_reserved}, err);
    }
    disband(&g);
    return code;
}

#define KEY "max_split_size_mb="

/* The run's max_split_size_mb in MiB, or 0 where it has none; ret_rest: the policy with its other parameters.
 */
static int64_t split_of(const asim_report_run *run, char *ret_rest, size_t capacity)
{
    const char *at = run->params;
    while ((at = strstr(at, KEY)) && at != run->params && at[-1] != ',')
        at++;
    size_t before = at ? (size_t)(at - run->params) : strlen(run->params);
    const char *after = at ? at + strcspn(at, ",") : "";
    if (at && before && !*after)
        before--; /* the comma */
    if (at && !before && *after == ',')
        after++;
    if (at && before && *after == ',')
        after++;
    snprintf(ret_rest, capacity, "%s%s%.*s%s", run->policy, before || *after ? " " : "", (int)before,
             run->params, after);
    return at ? strtoll(at + strlen(KEY), NULL, 10) : 0;
}

static int by_split(const void *left, const void *right)
{
    char rest[8];
    const asim_report_run *a = *(const asim_report_run *const *)left,
                          *b = *(const asim_report_run *const *)right;
    const int64_t x = split_of(a, rest, sizeof rest), y = split_of(b, rest, sizeof rest);
    if (x != y)
        return x < y ? -1 : 1;
    return (a->run_id > b->run_id) - (a->run_id < b->run_id);
}

asim_code asim_plot_max_split(asim_report *report, const asim_report_run *run, asim_plot *plot, asim_err *err)
{
    group g;
    char rest[ASIM_PLOT_LABEL_MAX], label[ASIM_PLOT_LABEL_MAX + 16];
    asim_code code = gather(report, run->trace_id, &g, err);
    title(plot, run, "Peak reserved memory against max_split_size_mb");
    plot->x_label = "max_split_size_mb";
    plot->y_label = "peak reserved";
    plot->x_unit = ASIM_PLOT_MIB;
    plot->y_unit = ASIM_PLOT_BYTES;
    plot->zero_y = false;
    qsort(g.runs, g.count, sizeof(asim_report_run *), by_split);
    int64_t low = INT64_MAX, high = 0;
    for (size_t i = 0; i < g.count && !code; i++) {
        const int64_t mib = split_of(g.runs[i], rest, sizeof rest);
        if (mib <= 0 || ran_out(g.runs[i]))
            continue;
        low = mib < low ? mib : low;
        high = mib > high ? mib : high;
        code = add(plot, ASIM_PLOT_LINE, g.runs[i]->policy, rest, (int64_t[]){mib, g.runs[i]->peak_reserved},
                   err);
    }
    const size_t curves = plot->series_count;
    for (size_t i = 0; i < g.count && !code; i++) {
        size_t k = 0;
        if (split_of(g.runs[i], rest, sizeof rest) || ran_out(g.runs[i]))
            continue;
        while (k < curves && strcmp(plot->series[k].label, rest) != 0)
            k++;
        if (k == curves) /* a policy without that parameter */
            continue;
        snprintf(label, sizeof label, "%.140s, no limit", rest);
        asim_plot_series *level =
            asim_plot_add(plot, ASIM_PLOT_STEPS, plot->series[k].colour, err, "%s", label);
        if (!level)
            code = err->code;
        else
            level->dash = 1;
        if (!code)
            code = asim_plot_row(plot, level, (int64_t[]){low, g.runs[i]->peak_reserved}, err);
        if (!code)
            code = asim_plot_row(plot, level, (int64_t[]){high, g.runs[i]->peak_reserved}, err);
    }
    disband(&g);
    return code;
}
