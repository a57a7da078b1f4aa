#include "sim/store_schema.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Statements are tried in a row; the first failure stays in code and makes the rest do nothing. */
typedef struct writer {
    asim_store *store;
    sqlite3_stmt *statement;
    int bound; /* columns given so far */
    asim_code code;
    asim_err *err;
} writer;

static void prepare(writer *w, const char *sql)
{
    sqlite3_finalize(w->statement);
    w->statement = NULL;
    w->bound = 0;
    if (w->code)
        return;
    int rc = sqlite3_prepare_v2(w->store->db, sql, -1, &w->statement, NULL);
    if (rc != SQLITE_OK)
        w->code = asim_store_fail(w->store, rc, w->err);
}

static void check_bind(writer *w, int rc)
{
    if (rc != SQLITE_OK)
        w->code = asim_store_fail(w->store, rc, w->err);
}

static void number(writer *w, uint64_t value)
{
    if (!w->code)
        check_bind(w, sqlite3_bind_int64(w->statement, ++w->bound, (int64_t)value));
}

static void text(writer *w, const char *value)
{
    if (!w->code)
        check_bind(w, sqlite3_bind_text(w->statement, ++w->bound, value, -1, SQLITE_TRANSIENT));
}

static void digest(writer *w, uint64_t value)
{
    char hex[17];
    snprintf(hex, sizeof hex, "%016" PRIx64, value);
    text(w, hex);
}

/* Runs the statement; true when it returned a row, which stays readable until prepare. */
static bool step(writer *w)
{
    if (w->code)
        return false;
    int rc = sqlite3_step(w->statement);
    if (rc == SQLITE_ROW)
        return true;
    if (rc != SQLITE_DONE)
        w->code = asim_store_fail(w->store, rc, w->err);
    sqlite3_reset(w->statement);
    w->bound = 0;
    return false;
}

static int64_t add_trace(writer *w, const asim_stored_run *run)
{
    prepare(w, "INSERT INTO traces(digest, path, source, events, devices) VALUES(?,?,?,?,?)"
               " ON CONFLICT(digest) DO NOTHING");
    digest(w, run->trace_digest);
    text(w, run->trace_path);
    text(w, run->trace_source);
    number(w, run->trace_events);
    number(w, run->trace_devices);
    step(w);
    prepare(w, "SELECT trace_id FROM traces WHERE digest=?");
    digest(w, run->trace_digest);
    return step(w) ? sqlite3_column_int64(w->statement, 0) : 0;
}

/* Compares with what an earlier run of this key left. */
static void compare(writer *w, int64_t run_id, const char *stored_digest, const asim_stored_run *run)
{
    char now[17];
    snprintf(now, sizeof now, "%016" PRIx64, run->record.placement_digest);
    if (strcmp(now, stored_digest) != 0) {
        w->code = asim_fail(w->err, ASIM_E_BUG,
                            "%s: run %" PRId64
                            " has the same key (trace, policy, parameters, device, capacity, seed) "
                            "but another placement digest: %.16s there, %s now; a different version of "
                            "allocsim wrote it, or this is a fault: please report it",
                            w->store->path, run_id, stored_digest, now);
        return;
    }
    prepare(w, "SELECT name, value FROM metrics WHERE run_id=?");
    number(w, (uint64_t)run_id);
    while (step(w)) {
        const char *name = (const char *)sqlite3_column_text(w->statement, 0);
        int64_t value = sqlite3_column_int64(w->statement, 1);
        for (unsigned i = 0; name && i < ASIM_METRIC_COUNT; i++)
            if (strcmp(name, asim_metric_name((asim_metric)i)) == 0 &&
                (int64_t)run->record.metrics[i] != value) {
                w->code = asim_fail(
                    w->err, ASIM_E_BUG,
                    "%s: run %" PRId64 " has the same key and placement digest but another %s: "
                    "%" PRId64 " there, %" PRIu64 " now; a different version of allocsim wrote it, or "
                    "this is a fault: please report it",
                    w->store->path, run_id, name, value, run->record.metrics[i]);
                return;
            }
    }
}

static int64_t add_run_row(writer *w, int64_t trace_id, const asim_stored_run *run, bool *ret_is_new)
{
    prepare(
        w, "SELECT run_id, placement_digest FROM runs WHERE trace_id=? AND policy=? AND params=? AND device=?"
           " AND device_digest=? AND capacity_bytes=? AND seed=?");
    number(w, (uint64_t)trace_id);
    text(w, run->policy);
    text(w, run->params);
    text(w, run->device);
    digest(w, run->device_digest);
    number(w, run->record.capacity);
    number(w, run->seed);
    if (step(w)) {
        int64_t run_id = sqlite3_column_int64(w->statement, 0);
        char stored[17];
        const unsigned char *found = sqlite3_column_text(w->statement, 1);
        snprintf(stored, sizeof stored, "%s", found ? (const char *)found : "");
        compare(w, run_id, stored, run);
        *ret_is_new = false;
        return run_id;
    }
    prepare(w,
            "INSERT INTO runs(trace_id, policy, params, device, device_digest, capacity_bytes, seed, status,"
            " placement_digest, policy_version) VALUES(?,?,?,?,?,?,?,?,?,?)");
    number(w, (uint64_t)trace_id);
    text(w, run->policy);
    text(w, run->params);
    text(w, run->device);
    digest(w, run->device_digest);
    number(w, run->record.capacity);
    number(w, run->seed);
    text(w, run->record.status == ASIM_RUN_OOM ? "oom" : "ok");
    digest(w, run->record.placement_digest);
    number(w, run->policy_version);
    step(w);
    *ret_is_new = true;
    return w->code ? 0 : sqlite3_last_insert_rowid(w->store->db);
}

static void add_results(writer *w, uint64_t run_id, const asim_stored_run *run)
{
    const asim_run_record *record = &run->record;
    prepare(w, "INSERT INTO metrics VALUES(?,?,?)");
    for (unsigned i = 0; i < ASIM_METRIC_COUNT && !w->code; i++) {
        if (record->metrics[i] > INT64_MAX)
            w->code = asim_fail(w->err, ASIM_E_BUG, "the metric %s does not fit a store: %" PRIu64,
                                asim_metric_name((asim_metric)i), record->metrics[i]);
        number(w, run_id);
        text(w, asim_metric_name((asim_metric)i));
        number(w, record->metrics[i]);
        step(w);
    }
    for (uint32_t i = 0; i < record->own_count && !w->code; i++) {
        if (record->own[i].value > INT64_MAX)
            w->code = asim_fail(w->err, ASIM_E_BUG, "the metric %s does not fit a store: %" PRIu64,
                                record->own[i].name, record->own[i].value);
        number(w, run_id);
        text(w, record->own[i].name);
        number(w, record->own[i].value);
        step(w);
    }
    prepare(w, "INSERT INTO samples VALUES(?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < run->sample_count && !w->code; i++) {
        const asim_sample *sample = &run->samples[i];
        const uint64_t values[] = {
            run_id,         sample->event,    sample->time_ns,     sample->requested, sample->allocated,
            sample->active, sample->reserved, sample->largest_free};
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
            number(w, values[k]);
        step(w);
    }
    if (record->has_mismatch) {
        const asim_mismatch *mismatch = &record->mismatch;
        const uint64_t values[] = {run_id,
                                   mismatch->event,
                                   mismatch->is_call,
                                   run->mismatch_stream,
                                   mismatch->size,
                                   mismatch->recorded_address,
                                   mismatch->address};
        prepare(w, "INSERT INTO mismatches VALUES(?,?,?,?,?,?,?)");
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
            number(w, values[k]);
        step(w);
    }
}

static void add_failures(writer *w, uint64_t run_id, const asim_stored_run *run)
{
    prepare(w, "INSERT INTO ooms VALUES(?,?,?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < run->failure_count && !w->code; i++) {
        const asim_oom *oom = &run->failures[i].oom;
        const char *message = run->failures[i].message;
        const uint64_t values[] = {run_id,
                                   oom->event,
                                   oom->device,
                                   oom->requested_bytes,
                                   oom->segment_bytes,
                                   oom->allocated_bytes,
                                   oom->reserved_bytes,
                                   oom->device_free_bytes,
                                   oom->largest_free_bytes};
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
            number(w, values[k]);
        text(w, message ? message : "");
        step(w);
    }
}

static void add_phases(writer *w, uint64_t run_id, const asim_stored_run *run)
{
    static const char *const kinds[] = {"iteration", "phase", "request", "other"};
    prepare(w, "INSERT INTO phases VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < run->phase_count && !w->code; i++) {
        const asim_phase *phase = &run->phases[i];
        number(w, run_id);
        number(w, i);
        text(w, run->phase_labels[i]);
        text(w, kinds[phase->kind <= ASIM_MARK_OTHER ? phase->kind : ASIM_MARK_OTHER]);
        const uint64_t values[] = {phase->first_event, phase->last_event,     phase->begin_ns,
                                   phase->end_ns,      phase->peak_requested, phase->peak_allocated,
                                   phase->peak_active, phase->peak_reserved,  phase->end_allocated,
                                   phase->end_reserved};
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
            number(w, values[k]);
        step(w);
    }
}

static void add_layout(writer *w, uint64_t run_id, const asim_layout *layout)
{
    static const char *const states[] = {"free", "live", "pending"};
    prepare(w, "INSERT OR IGNORE INTO segments VALUES(?,?,?,?,?,?,?,?,?)");
    for (size_t i = 0; i < layout->segment_count && !w->code; i++) {
        const asim_walk_segment *segment = &layout->segments[i];
        const uint64_t values[] = {run_id,
                                   i,
                                   segment->device,
                                   segment->address,
                                   segment->size,
                                   segment->stream,
                                   segment->pool,
                                   segment->small,
                                   segment->expandable};
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
            number(w, values[k]);
        step(w);
    }
    prepare(w, "INSERT OR IGNORE INTO blocks VALUES(?,?,?,?,?,?)");
    for (size_t i = 0; i < layout->block_count && !w->code; i++) {
        const asim_layout_block *block = &layout->blocks[i];
        number(w, run_id);
        number(w, block->segment);
        number(w, block->block.address);
        number(w, block->block.size);
        number(w, block->block.requested);
        text(w, states[block->block.state]);
        step(w);
    }
}

static void add_about(writer *w, uint64_t run_id, const asim_stored_run *run)
{
    time_t seconds = (time_t)run->stored_unix_s;
    struct tm broken;
    char stored_at[32] = "";
    if (gmtime_r(&seconds, &broken))
        strftime(stored_at, sizeof stored_at, "%Y-%m-%dT%H:%M:%SZ", &broken);
    prepare(w, "INSERT INTO about VALUES(?,?,?,?,?)");
    number(w, run_id);
    number(w, run->wall_ns);
    text(w, stored_at);
    text(w, run->host);
    text(w, run->program);
    step(w);
}

typedef struct addition {
    const asim_stored_run *run;
    int64_t run_id;
    bool is_new;
} addition;

static asim_code add_in_transaction(asim_store *store, void *ctx, asim_err *err)
{
    addition *a = ctx;
    const asim_stored_run *run = a->run;
    writer w = {.store = store, .err = err};
    int64_t trace_id = add_trace(&w, run);
    bool is_new = false;
    int64_t run_id = add_run_row(&w, trace_id, run, &is_new);
    if (is_new) {
        add_results(&w, (uint64_t)run_id, run);
        add_failures(&w, (uint64_t)run_id, run);
        add_phases(&w, (uint64_t)run_id, run);
        add_about(&w, (uint64_t)run_id, run);
    }
    /* A layout may be asked for later than the run: it is a function of the same key. */
    if (run->layout)
        add_layout(&w, (uint64_t)run_id, run->layout);
    prepare(&w, "SELECT 0");
    sqlite3_finalize(w.statement);
    a->run_id = run_id;
    a->is_new = is_new;
    return w.code;
}

/* A file that another process removed, after its own failure, while we waited for it. */
static bool has_moved(asim_store *store)
{
    int moved = 0;
    return sqlite3_file_control(store->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved;
}

/* Removes the file that this process made in vain, which is closed. Taking the bytes that SQLite locks for a
 * writer keeps others from filling it meanwhile; who waited for them finds that the file has moved. SQLite
 * itself can't be asked: on an empty file even its lock wants to write. */
static void remove_empty(const asim_store *store)
{
    struct stat here, there;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0x40000000, .l_len = 512};
    int fd = open(store->path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fcntl(fd, F_SETLK, &lock) == 0 && fstat(fd, &here) == 0 && here.st_size == 0 &&
        stat(store->path, &there) == 0 && here.st_ino == there.st_ino && here.st_dev == there.st_dev)
        unlink(store->path);
    close(fd);
}

asim_code asim_store_change(asim_store *store,
                            asim_code (*change)(asim_store *store, void *ctx, asim_err *err), void *ctx,
                            asim_err *err)
{
    for (;;) {
        asim_code code;
        bool empty = false;
        if (!store->db) {
            struct stat status;
            store->created = stat(store->path, &status) != 0;
            if ((code = asim_store_connect(store, &empty, err)))
                return code;
        }
        if ((code = asim_store_exec(store, "BEGIN IMMEDIATE", err)) == ASIM_OK) {
            if (has_moved(store)) {
                sqlite3_close(store->db);
                store->db = NULL;
                continue;
            }
            code = asim_store_identify(store, &empty, err);
            if (!code)
                code =
                    empty ? asim_store_exec(store, ASIM_STORE_SCHEMA, err) : asim_store_upgrade(store, err);
            if (!code)
                code = change(store, ctx, err);
            if (!code)
                code = asim_store_exec(store, "COMMIT", err);
            if (code)
                sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
        }
        if (code && store->created) {
            sqlite3_close(store->db);
            store->db = NULL;
            remove_empty(store);
        }
        if (!code)
            store->created = false; /* it holds a run now: it stays */
        return code;
    }
}

asim_code asim_store_add(asim_store *store, const asim_stored_run *run, int64_t *ret_run_id, bool *ret_is_new,
                         asim_err *err)
{
    addition a = {.run = run};
    if (store->mode != ASIM_STORE_WRITE || run->record.status == ASIM_RUN_ERROR)
        return asim_fail(err, ASIM_E_BUG, "%s: a run that can't be stored was given to the store",
                         store->path);
    asim_code code = asim_store_change(store, add_in_transaction, &a, err);
    if (code)
        return code;
    *ret_run_id = a.run_id;
    *ret_is_new = a.is_new;
    return ASIM_OK;
}
