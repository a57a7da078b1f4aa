/* The plots of one run, from its rows in samples, phases, segments and blocks. */
#include "sim/store_schema.h"
#include "tools/report.h"
#include "tools/units.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEGMENTS_SHOWN = 60, /* of a layout, those with most free memory beside live blocks */
    MARKS_SHOWN = 24
};

static asim_code prepare(asim_report *report, const asim_report_run *run, const char *sql,
                         sqlite3_stmt **ret_row, asim_err *err)
{
    *ret_row = NULL;
    int rc = sqlite3_prepare_v2(report->store->db, sql, -1, ret_row, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(*ret_row, 1, run->run_id);
    return rc == SQLITE_OK ? ASIM_OK : asim_store_fail(report->store, rc, err);
}

/* Ends a query: what went wrong, if anything. */
static asim_code finish(asim_report *report, sqlite3_stmt *row, int rc, asim_code code, asim_err *err)
{
    if (!code && rc != SQLITE_DONE)
        code = asim_store_fail(report->store, rc, err);
    sqlite3_finalize(row);
    return code;
}

static void title(asim_plot *plot, const asim_report_run *run, const char *what)
{
    snprintf(plot->title, sizeof plot->title, "%s: %.120s, %s%s%.200s (run %" PRId64 "%s)", what,
             asim_report_base(run->trace), run->policy, run->params[0] ? " " : "", run->params, run->run_id,
             strcmp(run->status, "oom") == 0 ? ", ran out of memory" : "");
}

static asim_code span(asim_report *report, const asim_report_run *run, asim_plot *plot, asim_err *err)
{
    sqlite3_stmt *row;
    asim_code code =
        prepare(report, run, "SELECT min(event), max(event) FROM samples WHERE run_id=?", &row, err);
    if (code)
        return code;
    int rc = sqlite3_step(row);
    if (rc == SQLITE_ROW) {
        plot->x_low = sqlite3_column_int64(row, 0);
        plot->x_high = sqlite3_column_int64(row, 1);
        rc = sqlite3_step(row);
    }
    return finish(report, row, rc, code, err);
}

/* The phases as marks at their first events; where there are more than fit, none. */
static asim_code mark_phases(asim_report *report, const asim_report_run *run, asim_plot *plot, asim_err *err)
{
    sqlite3_stmt *row;
    asim_code code = prepare(
        report, run, "SELECT first_event, label FROM phases WHERE run_id=? ORDER BY phase", &row, err);
    if (code)
        return code;
    int rc;
    while ((rc = sqlite3_step(row)) == SQLITE_ROW && !code && plot->mark_count <= MARKS_SHOWN) {
        const char *label = (const char *)sqlite3_column_text(row, 1);
        code = asim_plot_mark(plot, sqlite3_column_int64(row, 0), label ? label : "", err);
    }
    if (plot->mark_count > MARKS_SHOWN) {
        plot->mark_count = 0;
        rc = SQLITE_DONE;
    }
    return finish(report, row, rc, code, err);
}

/* Streams the run's samples into the plot's first count series; value computes series i of a row. */
static asim_code stream(asim_report *report, const asim_report_run *run, asim_plot *plot, size_t count,
                        int64_t (*value)(sqlite3_stmt *row, size_t series), asim_err *err)
{
    sqlite3_stmt *row;
    asim_code code = prepare(report, run,
                             "SELECT event, requested, allocated, active, reserved, largest_free FROM samples"
                             " WHERE run_id=? ORDER BY event",
                             &row, err);
    int rc = SQLITE_DONE;
    if (code)
        return code;
    while (!code && (rc = sqlite3_step(row)) == SQLITE_ROW)
        for (size_t i = 0; i < count && !code; i++)
            code = asim_plot_thin(plot, &plot->series[i], sqlite3_column_int64(row, 0), value(row, i), err);
    for (size_t i = 0; i < count && !code; i++)
        code = asim_plot_thinned(plot, &plot->series[i], err);
    return finish(report, row, rc, code, err);
}

enum { /* columns of a sample */
    EVENT,
    REQUESTED,
    ALLOCATED,
    ACTIVE,
    RESERVED,
    LARGEST_FREE
};

static int64_t bytes_of(sqlite3_stmt *row, size_t series)
{
    static const int columns[] = {RESERVED, ACTIVE, ALLOCATED, REQUESTED};
    return sqlite3_column_int64(row, columns[series]);
}

static asim_code add_level(asim_plot *plot, int64_t bytes, const char *label, unsigned colour, unsigned dash,
                           asim_err *err)
{
    asim_plot_series *series = asim_plot_add(plot, ASIM_PLOT_STEPS, colour, err, "%s", label);
    if (!series)
        return err->code;
    series->dash = dash;
    asim_code code = asim_plot_row(plot, series, (int64_t[]){plot->x_low, bytes}, err);
    return code ? code : asim_plot_row(plot, series, (int64_t[]){plot->x_high, bytes}, err);
}

asim_code asim_plot_timeline(asim_report *report, const asim_report_run *run, asim_plot *plot, asim_err *err)
{
    static const struct {
        const char *label;
        unsigned colour, dash, width;
    } lines[] = {{"reserved", 0, 0, 3}, {"active", 2, 0, 2}, {"allocated", 1, 0, 2}, {"requested", 7, 1, 1}};
    title(plot, run, "Memory");
    plot->x_label = "event";
    plot->y_label = "memory";
    plot->y_unit = ASIM_PLOT_BYTES;
    asim_code code = span(report, run, plot, err);
    for (size_t i = 0; i < 4 && !code; i++) {
        asim_plot_series *series =
            asim_plot_add(plot, ASIM_PLOT_STEPS, lines[i].colour, err, "%s", lines[i].label);
        if (!series)
            return err->code;
        series->dash = lines[i].dash;
        series->width = lines[i].width;
    }
    if (!code)
        code = stream(report, run, plot, 4, bytes_of, err);
    if (code || asim_plot_is_empty(plot))
        return code;
    code = add_level(plot, run->lower_bound, "lower bound", 4, 2, err);
    if (!code && run->capacity > 0)
        code = add_level(plot, run->capacity, "capacity", 8, 0, err);
    return code ? code : mark_phases(report, run, plot, err);
}

/* part / whole in millionths; 0 of nothing. Products fit: bytes stay below 2^63 and are divided as doubles
 * only where 10^6 times them would not. */
static int64_t ppm(int64_t part, int64_t whole)
{
    if (part <= 0 || whole <= 0)
        return 0;
    return part < INT64_MAX / 1000000 ? part * 1000000 / whole : part / (whole / 1000000 + 1);
}

static int64_t shares_of(sqlite3_stmt *row, size_t series)
{
    const int64_t reserved = sqlite3_column_int64(row, RESERVED), active = sqlite3_column_int64(row, ACTIVE);
    const int64_t allocated = sqlite3_column_int64(row, ALLOCATED);
    const int64_t idle = reserved - active;
    if (series == 0)
        return ppm(idle, reserved);
    if (series == 1)
        return ppm(idle - sqlite3_column_int64(row, LARGEST_FREE), idle);
    return ppm(allocated - sqlite3_column_int64(row, REQUESTED), allocated);
}

asim_code asim_plot_fragmentation(asim_report *report, const asim_report_run *run, asim_plot *plot,
                                  asim_err *err)
{
    static const char *const labels[] = {"idle of reserved", "scattered of free", "slack of allocated"};
    title(plot, run, "Fragmentation");
    plot->x_label = "event";
    plot->y_label = "share";
    plot->y_unit = ASIM_PLOT_PPM;
    asim_code code = span(report, run, plot, err);
    for (unsigned i = 0; i < 3 && !code; i++)
        if (!asim_plot_add(plot, ASIM_PLOT_STEPS, i, err, "%s", labels[i]))
            return err->code;
    if (!code)
        code = stream(report, run, plot, 3, shares_of, err);
    return code || asim_plot_is_empty(plot) ? code : mark_phases(report, run, plot, err);
}

/* The rows of a layout in order of address; blocks that share a pixel with their like become one. */
typedef struct mapping {
    asim_plot *plot;
    int64_t pixel; /* bytes */
    int64_t row[3][4];
    bool open[3];
} mapping;

static asim_code put(mapping *m, int kind, asim_err *err)
{
    if (!m->open[kind])
        return ASIM_OK;
    m->open[kind] = false;
    return asim_plot_row(m->plot, &m->plot->series[kind], m->row[kind], err);
}

static asim_code map_block(mapping *m, int kind, const int64_t row[4], asim_err *err)
{
    int64_t *last = m->row[kind];
    if (m->open[kind] && last[0] == row[0] && row[2] - last[1] < m->pixel) {
        last[2] = row[2];
        last[3] = row[3] > last[3] ? row[3] : last[3];
        return ASIM_OK;
    }
    asim_code code = put(m, kind, err);
    memcpy(last, row, sizeof m->row[kind]);
    m->open[kind] = true;
    return code;
}

static int kind_of(const char *state)
{
    return strcmp(state, "free") == 0 ? 0 : strcmp(state, "pending") == 0 ? 1 : 2;
}

static asim_code name_segment(asim_plot *plot, sqlite3_stmt *row, int64_t at, asim_err *err)
{
    return asim_plot_name_row(plot, at, err, "GPU %lld 0x%" PRIx64 "%s", sqlite3_column_int64(row, 1),
                              (uint64_t)sqlite3_column_int64(row, 2),
                              sqlite3_column_int64(row, 3) ? " small" : "");
}

static asim_code map_rows(asim_report *report, const asim_report_run *run, mapping *m, asim_err *err)
{
    sqlite3_stmt *row;
    asim_code code = prepare(report, run,
                             "WITH shown AS (SELECT segment, device, s.address AS base, small FROM segments s"
                             " JOIN blocks b USING(run_id, segment) WHERE run_id=?1 GROUP BY segment ORDER BY"
                             " sum(state='free') < count(*) AND sum(state='free') > 0 DESC,"
                             " sum((state='free') * b.size) DESC, segment LIMIT 60)"
                             " SELECT segment, device, base, small, address - base, size, state FROM shown"
                             " JOIN blocks USING(segment) WHERE run_id=?1"
                             " ORDER BY device, base, segment, address",
                             &row, err);
    if (code)
        return code;
    int rc = SQLITE_DONE;
    int64_t at = -1, segment = INT64_MIN;
    while (!code && (rc = sqlite3_step(row)) == SQLITE_ROW) {
        if (at < 0 || sqlite3_column_int64(row, 0) != segment) {
            segment = sqlite3_column_int64(row, 0);
            code = name_segment(m->plot, row, ++at, err);
        }
        const int64_t begin = sqlite3_column_int64(row, 4), size = sqlite3_column_int64(row, 5);
        const char *state = (const char *)sqlite3_column_text(row, 6);
        const int64_t rect[4] = {at, begin, begin + size, size};
        if (!code)
            code = map_block(m, kind_of(state ? state : ""), rect, err);
    }
    for (int kind = 0; kind < 3 && !code; kind++)
        code = put(m, kind, err);
    return finish(report, row, rc, code, err);
}

asim_code asim_plot_layout(asim_report *report, const asim_report_run *run, asim_plot *plot, asim_err *err)
{
    sqlite3_stmt *row;
    mapping m = {.plot = plot};
    int64_t count = 0;
    char what[80] = "Final layout";
    asim_code code =
        prepare(report, run, "SELECT count(*), max(size) FROM segments WHERE run_id=?", &row, err);
    if (code)
        return code;
    int rc = sqlite3_step(row);
    if (rc == SQLITE_ROW) {
        count = sqlite3_column_int64(row, 0);
        m.pixel = sqlite3_column_int64(row, 1) / ASIM_PLOT_COLUMNS;
        rc = sqlite3_step(row);
    }
    if ((code = finish(report, row, rc, code, err)))
        return code;
    if (count > SEGMENTS_SHOWN) /* those where live blocks keep most free memory from being released */
        snprintf(what, sizeof what, "Final layout, %d of %" PRId64 " segments, most pinned", SEGMENTS_SHOWN,
                 count);
    title(plot, run, what);
    plot->x_label = "offset in the segment";
    plot->y_label = "segment";
    plot->x_unit = ASIM_PLOT_BYTES;
    if (!asim_plot_add(plot, ASIM_PLOT_RECTS, ASIM_PLOT_GREY, err, "free") ||
        !asim_plot_add(plot, ASIM_PLOT_RECTS, 0, err, "freed, waits for a stream") ||
        !asim_plot_add(plot, ASIM_PLOT_RECTS, ASIM_PLOT_BY_SIZE, err, "live, coloured by size"))
        return err->code;
    return map_rows(report, run, &m, err);
}
