#include "sim/store_schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The tables whose first column is run_id, parents first. A layout may be known of one of two equal runs
 * only: those tables are filled up. */
static const struct {
    const char *select, *insert;
    bool layout;
    const char *select_1; /* from a store of version 1, where that differs */
} tables[] = {
    {"SELECT * FROM metrics WHERE run_id=?", "INSERT INTO metrics VALUES(?,?,?)", false, NULL},
    {"SELECT * FROM samples WHERE run_id=?", "INSERT INTO samples VALUES(?,?,?,?,?,?,?,?)", false, NULL},
    {"SELECT * FROM ooms WHERE run_id=?", "INSERT INTO ooms VALUES(?,?,?,?,?,?,?,?,?,?)", false,
     "SELECT *, '' FROM ooms WHERE run_id=?"},
    {"SELECT * FROM mismatches WHERE run_id=?", "INSERT INTO mismatches VALUES(?,?,?,?,?,?,?)", false, NULL},
    {"SELECT * FROM phases WHERE run_id=?", "INSERT INTO phases VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)", false,
     NULL},
    {"SELECT * FROM about WHERE run_id=?", "INSERT INTO about VALUES(?,?,?,?,?)", false, NULL},
    {"SELECT * FROM segments WHERE run_id=?", "INSERT OR IGNORE INTO segments VALUES(?,?,?,?,?,?,?,?,?)",
     true, NULL},
    {"SELECT * FROM blocks WHERE run_id=?", "INSERT OR IGNORE INTO blocks VALUES(?,?,?,?,?,?)", true, NULL},
};

enum {
    TABLES = sizeof tables / sizeof tables[0]
};

typedef struct merger {
    asim_store *to, *from;
    sqlite3_stmt *select[TABLES], *insert[TABLES];
    sqlite3_stmt *runs;                   /* of the source, with their traces */
    sqlite3_stmt *add_trace, *find_trace; /* of the destination */
    sqlite3_stmt *add_run, *find_run;
    sqlite3_stmt *metrics; /* of the destination's run, to be compared */
    asim_merge_counts counts;
    asim_err *err;
} merger;

typedef struct merge_request {
    const char *const *paths;
    size_t count;
    asim_merge_counts counts;
} merge_request;

/* Columns of the source's runs. */
enum {
    RUN_ID,
    TRACE_FIRST, /* digest, path, source, events, devices */
    TRACE_COLUMNS = 5,
    KEY_FIRST = TRACE_FIRST + TRACE_COLUMNS, /* policy, params, device, device_digest, capacity, seed */
    KEY_COLUMNS = 6,
    STATUS = KEY_FIRST + KEY_COLUMNS,
    DIGEST,
    POLICY_VERSION,
};

static asim_code prepare(asim_store *store, const char *sql, sqlite3_stmt **ret_statement, asim_err *err)
{
    int rc = sqlite3_prepare_v2(store->db, sql, -1, ret_statement, NULL);
    return rc == SQLITE_OK ? ASIM_OK : asim_store_fail(store, rc, err);
}

static asim_code prepare_all(merger *m)
{
    const struct {
        asim_store *store;
        const char *sql;
        sqlite3_stmt **statement;
    } plans[] = {
        {m->from,
         "SELECT run_id, digest, path, source, events, devices, policy, params, device, device_digest,"
         " capacity_bytes, seed, status, placement_digest, policy_version"
         " FROM runs JOIN traces USING(trace_id) ORDER BY run_id",
         &m->runs},
        {m->to,
         "INSERT INTO traces(digest, path, source, events, devices) VALUES(?,?,?,?,?)"
         " ON CONFLICT(digest) DO NOTHING",
         &m->add_trace},
        {m->to, "SELECT trace_id FROM traces WHERE digest=?", &m->find_trace},
        {m->to,
         "INSERT INTO runs(trace_id, policy, params, device, device_digest, capacity_bytes, seed, status,"
         " placement_digest, policy_version) VALUES(?,?,?,?,?,?,?,?,?,?)",
         &m->add_run},
        {m->to,
         "SELECT run_id, placement_digest FROM runs WHERE trace_id=? AND policy=? AND params=? AND device=?"
         " AND device_digest=? AND capacity_bytes=? AND seed=?",
         &m->find_run},
        {m->to, "SELECT value FROM metrics WHERE run_id=? AND name=?", &m->metrics},
    };
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0] && !code; i++)
        code = prepare(plans[i].store, plans[i].sql, plans[i].statement, m->err);
    for (size_t i = 0; i < TABLES && !code; i++) {
        const bool older = m->from->version == 1 && tables[i].select_1;
        if (!(code = prepare(m->from, older ? tables[i].select_1 : tables[i].select, &m->select[i], m->err)))
            code = prepare(m->to, tables[i].insert, &m->insert[i], m->err);
        if (!code && sqlite3_column_count(m->select[i]) != sqlite3_bind_parameter_count(m->insert[i]))
            code = asim_fail(m->err, ASIM_E_INPUT, "%s: the store is damaged: a table has other columns",
                             m->from->path);
    }
    return code;
}

static void finalize_all(merger *m)
{
    for (size_t i = 0; i < TABLES; i++) {
        sqlite3_finalize(m->select[i]);
        sqlite3_finalize(m->insert[i]);
    }
    sqlite3_finalize(m->runs);
    sqlite3_finalize(m->add_trace);
    sqlite3_finalize(m->find_trace);
    sqlite3_finalize(m->add_run);
    sqlite3_finalize(m->find_run);
    sqlite3_finalize(m->metrics);
}

/* Runs a statement of the destination to its end. */
static asim_code finish(merger *m, sqlite3_stmt *statement)
{
    int rc = sqlite3_step(statement);
    if ((rc & 0xFF) == SQLITE_CONSTRAINT)
        return asim_fail(m->err, ASIM_E_INPUT,
                         "%s: the store is damaged: run %lld has a row that can't be: %s", m->from->path,
                         (long long)sqlite3_column_int64(m->runs, RUN_ID), sqlite3_errmsg(m->to->db));
    asim_code code = rc == SQLITE_DONE ? ASIM_OK : asim_store_fail(m->to, rc, m->err);
    sqlite3_reset(statement);
    return code;
}

/* Binds columns of a source's row, beginning with parameter first. */
static void bind_columns(sqlite3_stmt *to, int first, sqlite3_stmt *from, int column, int count)
{
    for (int i = 0; i < count; i++)
        sqlite3_bind_value(to, first + i, sqlite3_column_value(from, column + i));
}

static asim_code copy_rows(merger *m, size_t table, int64_t from_run, int64_t to_run)
{
    sqlite3_stmt *select = m->select[table], *insert = m->insert[table];
    int rc, columns = sqlite3_column_count(select);
    asim_code code = ASIM_OK;
    sqlite3_bind_int64(select, 1, from_run);
    while (!code && (rc = sqlite3_step(select)) != SQLITE_DONE) {
        if (rc != SQLITE_ROW)
            code = asim_store_fail(m->from, rc, m->err);
        if (code)
            break;
        sqlite3_bind_int64(insert, 1, to_run);
        bind_columns(insert, 2, select, 1, columns - 1);
        code = finish(m, insert);
    }
    sqlite3_reset(select);
    return code;
}

static const char *text_of(sqlite3_stmt *statement, int column)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    return text ? (const char *)text : "";
}

static asim_code contradict(merger *m, int64_t from_run, int64_t to_run, const char *what, const char *here,
                            const char *there)
{
    return asim_fail(m->err, ASIM_E_BUG,
                     "%s: run %" PRId64
                     " has the same key (trace, policy, parameters, device, capacity, seed) "
                     "as run %" PRId64 " of %s but another %s: %.40s there, %.40s here; nothing was merged; "
                     "different versions of allocsim wrote them, or this is a fault: please report it",
                     m->from->path, from_run, to_run, m->to->path, what, there, here);
}

/* Two runs of one key must have the same numbers. */
static asim_code compare(merger *m, int64_t from_run, int64_t to_run, const char *there_digest)
{
    const size_t metrics = 0; /* the first of the tables */
    const char *here_digest = text_of(m->runs, DIGEST);
    if (strcmp(here_digest, there_digest) != 0)
        return contradict(m, from_run, to_run, "placement digest", here_digest, there_digest);
    asim_code code = ASIM_OK;
    int rc = SQLITE_DONE;
    sqlite3_bind_int64(m->select[metrics], 1, from_run);
    while (!code && (rc = sqlite3_step(m->select[metrics])) == SQLITE_ROW) {
        const char *name = text_of(m->select[metrics], 1);
        sqlite3_bind_int64(m->metrics, 1, to_run);
        sqlite3_bind_text(m->metrics, 2, name, -1, SQLITE_TRANSIENT);
        bool found = sqlite3_step(m->metrics) == SQLITE_ROW;
        if (found && sqlite3_column_int64(m->metrics, 0) != sqlite3_column_int64(m->select[metrics], 2)) {
            char here[32], there[32];
            snprintf(here, sizeof here, "%lld", (long long)sqlite3_column_int64(m->select[metrics], 2));
            snprintf(there, sizeof there, "%lld", (long long)sqlite3_column_int64(m->metrics, 0));
            code = contradict(m, from_run, to_run, name, here, there);
        }
        sqlite3_reset(m->metrics);
    }
    if (!code && rc != SQLITE_DONE)
        code = asim_store_fail(m->from, rc, m->err);
    sqlite3_reset(m->select[metrics]);
    return code;
}

static asim_code find_trace(merger *m, int64_t *ret_trace)
{
    bind_columns(m->add_trace, 1, m->runs, TRACE_FIRST, TRACE_COLUMNS);
    asim_code code = finish(m, m->add_trace);
    if (code)
        return code;
    bind_columns(m->find_trace, 1, m->runs, TRACE_FIRST, 1);
    int rc = sqlite3_step(m->find_trace);
    if (rc == SQLITE_ROW)
        *ret_trace = sqlite3_column_int64(m->find_trace, 0);
    else
        code = asim_store_fail(m->to, rc, m->err);
    sqlite3_reset(m->find_trace);
    return code;
}

static asim_code merge_run(merger *m)
{
    int64_t trace = 0, from_run = sqlite3_column_int64(m->runs, RUN_ID);
    asim_code code = find_trace(m, &trace);
    if (code)
        return code;
    sqlite3_bind_int64(m->find_run, 1, trace);
    bind_columns(m->find_run, 2, m->runs, KEY_FIRST, KEY_COLUMNS);
    int rc = sqlite3_step(m->find_run);
    bool known = rc == SQLITE_ROW;
    int64_t to_run = known ? sqlite3_column_int64(m->find_run, 0) : 0;
    if (known)
        code = compare(m, from_run, to_run, text_of(m->find_run, 1));
    else if (rc != SQLITE_DONE)
        code = asim_store_fail(m->to, rc, m->err);
    sqlite3_reset(m->find_run);
    if (!known && !code) {
        sqlite3_bind_int64(m->add_run, 1, trace);
        bind_columns(m->add_run, 2, m->runs, KEY_FIRST, KEY_COLUMNS);
        bind_columns(m->add_run, 2 + KEY_COLUMNS, m->runs, STATUS, 3); /* status, digest, policy version */
        code = finish(m, m->add_run);
        to_run = sqlite3_last_insert_rowid(m->to->db);
    }
    for (size_t i = 0; i < TABLES && !code; i++)
        if (!known || tables[i].layout)
            code = copy_rows(m, i, from_run, to_run);
    m->counts.added += !known;
    m->counts.same += known;
    return code;
}

static bool same_file(const char *a, const char *b)
{
    struct stat left, right;
    return stat(a, &left) == 0 && stat(b, &right) == 0 && left.st_dev == right.st_dev &&
           left.st_ino == right.st_ino;
}

static asim_code merge_store(asim_store *to, const char *path, asim_merge_counts *counts, asim_err *err)
{
    merger m = {.to = to, .err = err, .counts = *counts};
    if (same_file(to->path, path))
        return asim_fail(err, ASIM_E_USAGE, "%s is both the result and one of the stores to merge", path);
    asim_code code = asim_store_open(path, ASIM_STORE_READ, to->mem, &m.from, err);
    if (code)
        return code;
    bool empty = false;
    code = asim_store_exec(m.from, "BEGIN", err); /* one state of it, whoever writes or upgrades meanwhile */
    if (!code)
        code = asim_store_identify(m.from, &empty, err);
    if (!code)
        code = prepare_all(&m);
    int rc = SQLITE_DONE;
    while (!code && (rc = sqlite3_step(m.runs)) == SQLITE_ROW)
        code = merge_run(&m);
    if (!code && rc != SQLITE_DONE)
        code = asim_store_fail(m.from, rc, err);
    finalize_all(&m);
    asim_store_close(m.from);
    *counts = m.counts;
    return code;
}

static asim_code merge_all(asim_store *store, void *ctx, asim_err *err)
{
    merge_request *request = ctx;
    asim_code code = ASIM_OK;
    request->counts = (asim_merge_counts){0};
    for (size_t i = 0; i < request->count && !code; i++)
        code = merge_store(store, request->paths[i], &request->counts, err);
    return code;
}

asim_code asim_store_merge(asim_store *store, const char *const *paths, size_t count,
                           asim_merge_counts *ret_counts, asim_err *err)
{
    merge_request request = {.paths = paths, .count = count};
    if (store->mode != ASIM_STORE_WRITE)
        return asim_fail(err, ASIM_E_BUG, "%s: the store is not open for writing", store->path);
    asim_code code = asim_store_change(store, merge_all, &request, err);
    if (!code)
        *ret_counts = request.counts;
    return code;
}
