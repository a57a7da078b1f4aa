#include "tools/report.h"

#include "sim/store_schema.h"

#include <string.h>

const asim_plot_kind asim_plot_kinds[ASIM_PLOT_KINDS] = {
    {"timeline", ASIM_PLOT_OF_RUN,
     "Bytes over the events of the run. The space between reserved and allocated is memory that the policy "
     "holds and nobody uses.",
     "the run has no samples", asim_plot_timeline, NULL},
    {"fragmentation", ASIM_PLOT_OF_RUN,
     "Idle: the part of reserved memory that no block uses. Scattered: the part of the free memory that is "
     "not "
     "in its largest block. Slack: the part of allocated memory that nobody asked for.",
     "the run has no samples", asim_plot_fragmentation, NULL},
    {"layout", ASIM_PLOT_OF_RUN,
     "Where everything lies at the end: a line a segment, live blocks coloured by size, grey is free. Of "
     "more than "
     "60 segments, those with most free memory beside live blocks.",
     "the run was stored without its layout; 'allocsim run --layout' keeps it", asim_plot_layout, NULL},
    {"policies", ASIM_PLOT_OF_TRACE,
     "Peak reserved bytes, the runs with the least first; the black line is the peak of allocated blocks.",
     "the trace has no runs", asim_plot_policies, NULL},
    {"max-split", ASIM_PLOT_OF_TRACE,
     "Peak reserved bytes against max_split_size_mb, a curve for each policy; a dashed line is the run "
     "without "
     "a limit.",
     "no runs differ in max_split_size_mb; 'allocsim sweep --max-split 20:1024:+20' makes them",
     asim_plot_max_split, NULL},
    {"pareto", ASIM_PLOT_OF_TRACE,
     "Memory against time lost to driver calls. Every run is a point; on the line lie those that no other "
     "run "
     "beats in both. Runs that ran out of memory are left out.",
     "no run of the trace served every request", asim_plot_pareto, NULL},
    {"calls", ASIM_PLOT_OF_TRACE, "Calls of the device driver, the best run of each policy.",
     "the trace has no runs", asim_plot_calls, NULL},
    {"stalls", ASIM_PLOT_OF_TRACE,
     "Host time in driver calls, waits and moves, by the device's cost table; the best run of each policy.",
     "the trace has no runs", asim_plot_stalls, NULL},
    {"sizes", ASIM_PLOT_OF_FILE, "Allocations of the trace by size, in powers of two.",
     "the trace allocates nothing", NULL, asim_plot_sizes},
    {"lifetimes", ASIM_PLOT_OF_FILE, "How many events allocations live, in powers of two.",
     "the trace allocates nothing", NULL, asim_plot_lifetimes},
};

const asim_plot_kind *asim_plot_kind_find(const char *name)
{
    for (size_t i = 0; i < ASIM_PLOT_KINDS; i++)
        if (strcmp(asim_plot_kinds[i].name, name) == 0)
            return &asim_plot_kinds[i];
    return NULL;
}

static char *keep(const asim_hostmem *mem, sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    const size_t length = text ? strlen(text) : 0;
    char *copy = asim_mem_new(mem, length + 1, 1);
    if (copy && text)
        memcpy(copy, text, length);
    return copy;
}

enum {
    TEXTS = 7
};

static void texts_of(asim_report_run *run, char **ret_texts[TEXTS])
{
    char **all[TEXTS] = {&run->trace,  &run->policy, &run->params, &run->device,
                         &run->status, &run->digest, &run->about};
    memcpy(ret_texts, all, sizeof all);
}

/* The columns that read_run takes, in its order. */
#define METRIC(name) ", (SELECT value FROM metrics m WHERE m.run_id=r.run_id AND name='" name "')"
static const char select_runs[] =
    "SELECT run_id, trace_id, path, policy, params, device, status, placement_digest,"
    " coalesce((SELECT program || ', ' || stored_at FROM about a WHERE a.run_id=r.run_id), ''),"
    " capacity_bytes, seed, events" /* then metrics */
    METRIC("peak_requested_bytes") METRIC("peak_allocated_bytes") METRIC("peak_reserved_bytes")
        METRIC("lower_bound_bytes") METRIC("reserve_gap_ppm") METRIC("stall_ns") METRIC("ooms")
            METRIC("device_allocs") METRIC("device_frees") METRIC("device_maps")
                METRIC("device_unmaps") " FROM runs r JOIN traces USING(trace_id) ORDER BY run_id";

static asim_code read_run(asim_report *report, sqlite3_stmt *row, asim_err *err)
{
    void *memory = report->runs;
    asim_code code = asim_mem_grow(report->mem, &memory, &report->run_capacity, report->run_count + 1,
                                   sizeof *report->runs, err);
    if (code)
        return code;
    report->runs = memory;
    asim_report_run *run = &report->runs[report->run_count++];
    *run =
        (asim_report_run){.run_id = sqlite3_column_int64(row, 0), .trace_id = sqlite3_column_int64(row, 1)};
    char **texts[TEXTS];
    texts_of(run, texts);
    for (int i = 0; i < TEXTS; i++)
        if (!(*texts[i] = keep(report->mem, row, 2 + i)))
            return asim_fail_memory(err, (uint64_t)sqlite3_column_bytes(row, 2 + i) + 1);
    int64_t *const numbers[] = {
        &run->capacity,       &run->seed,          &run->events,        &run->peak_requested,
        &run->peak_allocated, &run->peak_reserved, &run->lower_bound,   &run->reserve_gap_ppm,
        &run->stall_ns,       &run->ooms,          &run->device_allocs, &run->device_frees,
        &run->device_maps,    &run->device_unmaps};
    for (int i = 0; i < (int)(sizeof numbers / sizeof numbers[0]); i++)
        *numbers[i] = sqlite3_column_int64(row, 2 + TEXTS + i);
    return ASIM_OK;
}

static asim_code read_runs(asim_report *report, asim_err *err)
{
    sqlite3_stmt *row = NULL;
    int rc = SQLITE_OK;
    asim_code code = ASIM_OK;
    if (report->store->db)
        rc = sqlite3_prepare_v2(report->store->db, select_runs, -1, &row, NULL);
    while (row && !code && (rc = sqlite3_step(row)) == SQLITE_ROW)
        code = read_run(report, row, err);
    if (!code && rc != SQLITE_OK && rc != SQLITE_DONE)
        code = asim_store_fail(report->store, rc, err);
    sqlite3_finalize(row);
    if (!code && !report->run_count)
        code = asim_fail(err, ASIM_E_INPUT,
                         "%s holds no runs; 'allocsim run' or 'allocsim sweep' with --db %s puts some there",
                         report->path, report->path);
    return code;
}

asim_code asim_report_open(const char *path, const asim_hostmem *mem, asim_report *ret_report, asim_err *err)
{
    *ret_report = (asim_report){.mem = mem, .path = path};
    asim_code code = asim_store_open(path, ASIM_STORE_READ, mem, &ret_report->store, err);
    if (!code && (code = read_runs(ret_report, err)))
        asim_report_close(ret_report);
    return code;
}

void asim_report_close(asim_report *report)
{
    for (size_t i = 0; i < report->run_count; i++) {
        char **texts[TEXTS];
        texts_of(&report->runs[i], texts);
        for (int k = 0; k < TEXTS; k++)
            if (*texts[k])
                asim_mem_free(report->mem, *texts[k], strlen(*texts[k]) + 1, 1);
    }
    asim_mem_free(report->mem, report->runs, report->run_capacity, sizeof *report->runs);
    asim_store_close(report->store);
    *report = (asim_report){.mem = report->mem};
}

const asim_report_run *asim_report_find(const asim_report *report, int64_t run_id)
{
    for (size_t i = 0; i < report->run_count; i++)
        if (report->runs[i].run_id == run_id)
            return &report->runs[i];
    return NULL;
}

void asim_report_policy(const asim_report_run *run, char *ret_text, size_t capacity)
{
    snprintf(ret_text, capacity, "%s%s%s", run->policy, run->params[0] ? "," : "", run->params);
}

const char *asim_report_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
