/* Runs out of stores, for a comparison. */
#include "sim/store_schema.h"
#include "tools/compare.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_store(const char *path)
{
    unsigned char head[72];
    FILE *file = fopen(path, "rb");
    size_t length = file ? fread(head, 1, sizeof head, file) : 0;
    if (file)
        fclose(file);
    if (length < sizeof head || memcmp(head, "SQLite format 3", 16) != 0)
        return false;
    uint32_t application =
        (uint32_t)head[68] << 24 | (uint32_t)head[69] << 16 | (uint32_t)head[70] << 8 | head[71];
    return application == ASIM_STORE_APPLICATION;
}

bool asim_compare_names_store(const char *path, char ret_file[ASIM_COMPARE_TEXT], int64_t *ret_run)
{
    struct stat info;
    size_t length = strlen(path);
    if (length >= ASIM_COMPARE_TEXT)
        return false;
    strcpy(ret_file, path);
    *ret_run = 0;
    if (stat(path, &info) == 0)
        return is_store(path);
    char *colon = strrchr(ret_file, ':');
    if (!colon || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")] || strlen(colon + 1) > 18)
        return false;
    *colon = 0;
    *ret_run = strtoll(colon + 1, NULL, 10);
    return *ret_run > 0 && (is_store(ret_file) || stat(ret_file, &info) != 0);
}

static void copy_text(sqlite3_stmt *s, int column, char *ret_text, size_t capacity)
{
    const unsigned char *text = sqlite3_column_text(s, column);
    snprintf(ret_text, capacity, "%s", text ? (const char *)text : "");
}

static uint64_t digest_of(sqlite3_stmt *s, int column)
{
    const unsigned char *text = sqlite3_column_text(s, column);
    return text ? strtoull((const char *)text, NULL, 16) : 0;
}

static asim_code prepare(asim_store *store, const char *sql, int64_t run, sqlite3_stmt **ret_statement,
                         asim_err *err)
{
    int rc = sqlite3_prepare_v2(store->db, sql, -1, ret_statement, NULL);
    if (rc != SQLITE_OK)
        return asim_store_fail(store, rc, err);
    sqlite3_bind_int64(*ret_statement, 1, run);
    return ASIM_OK;
}

/* --- one run --- */

#define KEY_COLUMNS                                                                                          \
    "SELECT run_id, digest, path, events, policy, params, device, device_digest, capacity_bytes, seed"       \
    " FROM runs JOIN traces USING(trace_id)"

/* A row of KEY_COLUMNS, and what asim_store_find tells of it. */
static asim_code read_run(asim_store *store, sqlite3_stmt *s, const char *file, asim_compare_side *side,
                          uint64_t *ret_device_digest, asim_err *err)
{
    side->trace_digest = digest_of(s, 1);
    copy_text(s, 2, side->trace_path, sizeof side->trace_path);
    side->trace_events = (uint64_t)sqlite3_column_int64(s, 3);
    copy_text(s, 4, side->policy, sizeof side->policy);
    copy_text(s, 5, side->params, sizeof side->params);
    copy_text(s, 6, side->device, sizeof side->device);
    *ret_device_digest = digest_of(s, 7);
    side->seed = (uint64_t)sqlite3_column_int64(s, 9);
    snprintf(side->name, sizeof side->name, "%.*s:%" PRId64, ASIM_COMPARE_TEXT - 1, file,
             (int64_t)sqlite3_column_int64(s, 0));
    asim_run_key key = {side->trace_digest, side->policy,       side->params,
                        side->device,       *ret_device_digest, (uint64_t)sqlite3_column_int64(s, 8),
                        side->seed};
    bool found;
    asim_code code = asim_store_find(store, &key, &side->kept, &found, err);
    if (!code && !found)
        code = asim_fail(err, ASIM_E_INPUT, "%s: run %" PRId64 " can't be read again", file,
                         (int64_t)sqlite3_column_int64(s, 0));
    return code;
}

static asim_code read_oom(asim_store *store, int64_t run, asim_compare_side *side, asim_err *err)
{
    static const char sql[] =
        "SELECT event, device, requested_bytes, segment_bytes, allocated_bytes, reserved_bytes,"
        " device_free_bytes, largest_free_bytes FROM ooms WHERE run_id=? ORDER BY event LIMIT 1";
    sqlite3_stmt *s;
    asim_code code = prepare(store, sql, run, &s, err);
    if (code)
        return code;
    int rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        side->kept.record.has_oom = true;
        side->kept.record.oom = (asim_oom){.event = (uint64_t)sqlite3_column_int64(s, 0),
                                           .device = (uint32_t)sqlite3_column_int64(s, 1),
                                           .requested_bytes = (uint64_t)sqlite3_column_int64(s, 2),
                                           .segment_bytes = (uint64_t)sqlite3_column_int64(s, 3),
                                           .allocated_bytes = (uint64_t)sqlite3_column_int64(s, 4),
                                           .reserved_bytes = (uint64_t)sqlite3_column_int64(s, 5),
                                           .device_free_bytes = (uint64_t)sqlite3_column_int64(s, 6),
                                           .largest_free_bytes = (uint64_t)sqlite3_column_int64(s, 7)};
    } else if (rc != SQLITE_DONE) {
        code = asim_store_fail(store, rc, err);
    }
    sqlite3_finalize(s);
    return code;
}

static asim_code read_phases(const asim_cli *cli, asim_store *store, int64_t run, asim_compare_side *side,
                             asim_err *err)
{
    static const char sql[] = "SELECT label, peak_allocated, peak_reserved, end_reserved FROM phases"
                              " WHERE run_id=? ORDER BY phase";
    sqlite3_stmt *s;
    size_t capacity = 0, count = 0;
    asim_code code = prepare(store, sql, run, &s, err);
    if (code)
        return code;
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW && !code) {
        void *items = side->phases;
        code = asim_mem_grow(cli->mem, &items, &capacity, count + 1, sizeof *side->phases, err);
        if (code)
            break;
        side->phases = items;
        asim_compare_phase *phase = &side->phases[count++];
        copy_text(s, 0, phase->label, sizeof phase->label);
        asim_compare_plain(phase->label);
        phase->peak_allocated = (uint64_t)sqlite3_column_int64(s, 1);
        phase->peak_reserved = (uint64_t)sqlite3_column_int64(s, 2);
        phase->end_reserved = (uint64_t)sqlite3_column_int64(s, 3);
    }
    if (!code && rc != SQLITE_DONE)
        code = asim_store_fail(store, rc, err);
    sqlite3_finalize(s);
    side->phase_count = count;
    side->phase_capacity = capacity;
    return code;
}

static asim_block_state state_of(const unsigned char *text)
{
    if (text && strcmp((const char *)text, "live") == 0)
        return ASIM_BLOCK_LIVE;
    return text && strcmp((const char *)text, "pending") == 0 ? ASIM_BLOCK_PENDING : ASIM_BLOCK_FREE;
}

static asim_code read_layout(const asim_cli *cli, asim_store *store, int64_t run, asim_compare_side *side,
                             asim_err *err)
{
    static const char segments[] =
        "SELECT address, size, stream, device, pool, small, expandable FROM segments"
        " WHERE run_id=? ORDER BY segment";
    static const char blocks[] = "SELECT address, size, requested, state FROM blocks WHERE run_id=?"
                                 " ORDER BY segment, address";
    asim_layout_collector collector = {&side->layout, cli->mem, ASIM_OK};
    asim_walker walker = asim_layout_walker(&collector);
    sqlite3_stmt *s;
    asim_code code = prepare(store, segments, run, &s, err);
    if (code)
        return code;
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        side->has_layout = true;
        walker.segment(walker.ctx, &(asim_walk_segment){.address = (uint64_t)sqlite3_column_int64(s, 0),
                                                        .size = (uint64_t)sqlite3_column_int64(s, 1),
                                                        .stream = (uint64_t)sqlite3_column_int64(s, 2),
                                                        .device = (uint16_t)sqlite3_column_int64(s, 3),
                                                        .pool = (uint16_t)sqlite3_column_int64(s, 4),
                                                        .small = sqlite3_column_int64(s, 5) != 0,
                                                        .expandable = sqlite3_column_int64(s, 6) != 0});
    }
    if (rc != SQLITE_DONE)
        code = asim_store_fail(store, rc, err);
    sqlite3_finalize(s);
    if (code || !side->has_layout || (code = prepare(store, blocks, run, &s, err)))
        return code;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW)
        walker.block(walker.ctx, &(asim_walk_block){.address = (uint64_t)sqlite3_column_int64(s, 0),
                                                    .size = (uint64_t)sqlite3_column_int64(s, 1),
                                                    .requested = (uint64_t)sqlite3_column_int64(s, 2),
                                                    .state = state_of(sqlite3_column_text(s, 3))});
    if (rc != SQLITE_DONE)
        code = asim_store_fail(store, rc, err);
    sqlite3_finalize(s);
    if (!code && collector.code)
        code = asim_fail_memory(err, side->layout.block_count * sizeof(asim_layout_block));
    return code;
}

asim_code asim_compare_load(const asim_cli *cli, const char *file, int64_t run, asim_compare_side *side,
                            asim_err *err)
{
    asim_store *store;
    sqlite3_stmt *s = NULL;
    uint64_t device_digest;
    asim_code code = asim_store_open(file, ASIM_STORE_READ, cli->mem, &store, err);
    if (code)
        return code;
    if (!(code = prepare(store, KEY_COLUMNS " WHERE run_id=?", run, &s, err))) {
        int rc = sqlite3_step(s);
        if (rc == SQLITE_ROW)
            code = read_run(store, s, file, side, &device_digest, err);
        else if (rc == SQLITE_DONE)
            code = asim_fail(err, ASIM_E_USAGE, "%s holds no run %" PRId64 "; 'allocsim db ls %s' lists them",
                             file, run, file);
        else
            code = asim_store_fail(store, rc, err);
    }
    sqlite3_finalize(s);
    if (!code)
        code = read_oom(store, run, side, err);
    if (!code)
        code = read_phases(cli, store, run, side, err);
    if (!code)
        code = read_layout(cli, store, run, side, err);
    asim_store_close(store);
    return code;
}

/* --- whole stores --- */

/* Each run of one store beside the run of the other with the same key. missing_only: those alone that the
 * other lacks. */
static asim_code match(asim_store *one, const char *one_file, asim_store *other, const char *other_file,
                       bool missing_only, asim_compare_side sides[2], const asim_compare_sink *sink,
                       asim_compare_counts *counts, asim_err *err)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(one->db, KEY_COLUMNS " ORDER BY run_id", -1, &s, NULL);
    asim_code code = rc == SQLITE_OK ? ASIM_OK : asim_store_fail(one, rc, err);
    while (!code && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        uint64_t device_digest;
        bool found = false;
        memset(sides, 0, 2 * sizeof *sides);
        if ((code = read_run(one, s, one_file, &sides[0], &device_digest, err)))
            break;
        asim_run_key key = {sides[0].trace_digest, sides[0].policy, sides[0].params,
                            sides[0].device,       device_digest,   sides[0].kept.record.capacity,
                            sides[0].seed};
        if ((code = asim_store_find(other, &key, &sides[1].kept, &found, err)))
            break;
        if (!found) {
            counts->only_a += !missing_only;
            counts->only_b += missing_only;
            sink->run(sink->ctx, missing_only ? NULL : &sides[0], missing_only ? &sides[0] : NULL);
            continue;
        }
        if (missing_only)
            continue;
        sides[1].trace_digest = sides[0].trace_digest;
        snprintf(sides[1].name, sizeof sides[1].name, "%.*s:%" PRId64, ASIM_COMPARE_TEXT - 1, other_file,
                 sides[1].kept.run_id);
        bool differ = asim_compare_results_differ(&sides[0], &sides[1]);
        counts->differing += differ;
        counts->same += !differ;
        if (differ)
            sink->run(sink->ctx, &sides[0], &sides[1]);
    }
    if (!code && rc != SQLITE_DONE)
        code = asim_store_fail(one, rc, err);
    sqlite3_finalize(s);
    return code;
}

asim_code asim_compare_stores(const asim_cli *cli, const char *a, const char *b,
                              const asim_compare_sink *sink, asim_compare_counts *ret_counts, asim_err *err)
{
    asim_store *one = NULL, *other = NULL;
    *ret_counts = (asim_compare_counts){0};
    asim_compare_side *sides = asim_mem_new(cli->mem, 2, sizeof *sides);
    if (!sides)
        return asim_fail_memory(err, 2 * sizeof *sides);
    asim_code code = asim_store_open(a, ASIM_STORE_READ, cli->mem, &one, err);
    if (!code)
        code = asim_store_open(b, ASIM_STORE_READ, cli->mem, &other, err);
    if (!code)
        code = match(one, a, other, b, false, sides, sink, ret_counts, err);
    if (!code)
        code = match(other, b, one, a, true, sides, sink, ret_counts, err);
    asim_store_close(one);
    asim_store_close(other);
    asim_mem_free(cli->mem, sides, 2, sizeof *sides);
    return code;
}
