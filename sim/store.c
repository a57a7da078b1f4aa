#include "sim/store_schema.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BUSY_TIMEOUT_MS = 60000
};

asim_code asim_store_fail(asim_store *store, int rc, asim_err *err)
{
    int system = store->db ? sqlite3_system_errno(store->db) : 0;
    if (!system && store->db)
        sqlite3_file_control(store->db, "main", SQLITE_FCNTL_LAST_ERRNO, &system);
    const char *reason = system ? strerror(system) : "";
    const char *separator = system ? ": " : "";
    switch (rc & 0xFF) {
    case SQLITE_NOTADB:
        return asim_fail(err, ASIM_E_INPUT,
                         "%s: not a store of allocsim: it is no SQLite database; name another with --db",
                         store->path);
    case SQLITE_CORRUPT:
        return asim_fail(err, ASIM_E_INPUT,
                         "%s: the store is damaged (%s); 'sqlite3 FILE .recover' shows what can be read",
                         store->path, sqlite3_errmsg(store->db));
    case SQLITE_FULL:
        return asim_fail(err, ASIM_E_SYSTEM, "%s: the disk is full; nothing was stored", store->path);
    case SQLITE_READONLY:
        return asim_fail(err, ASIM_E_SYSTEM,
                         "%s: the store can't be written: the file or its folder is read-only", store->path);
    case SQLITE_BUSY:
        return asim_fail(err, ASIM_E_SYSTEM, "%s: another process has kept the store locked for %d seconds",
                         store->path, BUSY_TIMEOUT_MS / 1000);
    case SQLITE_CANTOPEN:
        return asim_fail(err, ASIM_E_SYSTEM, "%s: the store can't be opened%s%s", store->path, separator,
                         reason);
    case SQLITE_IOERR:
        return asim_fail(err, ASIM_E_SYSTEM, "%s: the store can't be read or written%s%s", store->path,
                         separator, reason);
    case SQLITE_NOMEM:
        return asim_fail(err, ASIM_E_SYSTEM, "%s: out of host memory in SQLite", store->path);
    default:
        return asim_fail(err, ASIM_E_BUG, "%s: SQLite reports: %s", store->path,
                         store->db ? sqlite3_errmsg(store->db) : sqlite3_errstr(rc));
    }
}

asim_code asim_store_exec(asim_store *store, const char *sql, asim_err *err)
{
    int rc = sqlite3_exec(store->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? ASIM_OK : asim_store_fail(store, rc, err);
}

static asim_code read_integer(asim_store *store, const char *sql, int64_t *ret_value, asim_err *err)
{
    sqlite3_stmt *statement;
    int rc = sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(statement);
        if (rc == SQLITE_ROW)
            *ret_value = sqlite3_column_int64(statement, 0);
        sqlite3_finalize(statement);
    }
    return rc == SQLITE_ROW ? ASIM_OK : asim_store_fail(store, rc, err);
}

asim_code asim_store_identify(asim_store *store, bool *ret_empty, asim_err *err)
{
    int64_t application = 0, version = 0, tables = 0;
    /* The three belong together: another process may be creating the store at this moment. */
    asim_code code = asim_store_exec(store, "SAVEPOINT identify", err);
    if (code)
        return code;
    if (!(code = read_integer(store, "PRAGMA application_id", &application, err)) &&
        !(code = read_integer(store, "PRAGMA user_version", &version, err)))
        code = read_integer(store, "SELECT count(*) FROM sqlite_master", &tables, err);
    sqlite3_exec(store->db, "RELEASE identify", NULL, NULL, NULL);
    if (code)
        return code;
    if (application == 0 && version == 0 && tables == 0) {
        *ret_empty = true;
        return ASIM_OK;
    }
    if (application != ASIM_STORE_APPLICATION)
        return asim_fail(
            err, ASIM_E_INPUT,
            "%s: not a store of allocsim: an SQLite database of another program; name another with --db",
            store->path);
    if (version > ASIM_STORE_VERSION)
        return asim_fail(err, ASIM_E_INPUT,
                         "%s: the store was written by a newer allocsim (schema version %" PRId64
                         ", this one knows %d); use that program, or another --db",
                         store->path, version, ASIM_STORE_VERSION);
    if (version < 1)
        return asim_fail(err, ASIM_E_INPUT, "%s: the store is damaged (schema version %" PRId64 ")",
                         store->path, version);
    *ret_empty = false;
    store->version = (int)version;
    return ASIM_OK;
}

asim_code asim_store_upgrade(asim_store *store, asim_err *err)
{
    static const char *const steps[ASIM_STORE_VERSION] = {
        [1] = "ALTER TABLE ooms ADD COLUMN message TEXT NOT NULL DEFAULT ''; PRAGMA user_version=2"};
    asim_code code = ASIM_OK;
    while (!code && store->version < ASIM_STORE_VERSION)
        if (!(code = asim_store_exec(store, steps[store->version], err)))
            store->version++;
    return code;
}

/* Also the folder: SQLite keeps a journal beside the file. */
static bool writable(const char *path)
{
    char copy[4096];
    snprintf(copy, sizeof copy, "%s", path);
    return access(path, W_OK) == 0 && access(dirname(copy), W_OK | X_OK) == 0;
}

asim_code asim_store_connect(asim_store *store, bool *ret_empty, asim_err *err)
{
    /* A reader, too, opens for writing where it may: only so is a journal rolled back that a killed writer
     * left. */
    int flags = SQLITE_OPEN_READONLY;
    if (store->mode == ASIM_STORE_WRITE)
        flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    else if (writable(store->path))
        flags = SQLITE_OPEN_READWRITE;
    int rc = sqlite3_open_v2(store->path, &store->db, flags, NULL);
    asim_code code = rc == SQLITE_OK ? ASIM_OK : asim_store_fail(store, rc, err);
    if (!code) {
        sqlite3_extended_result_codes(store->db, 1);
        sqlite3_busy_timeout(store->db, BUSY_TIMEOUT_MS);
        code = asim_store_exec(store, "PRAGMA foreign_keys=ON", err);
    }
    if (!code && store->mode == ASIM_STORE_READ)
        code = asim_store_exec(store, "PRAGMA query_only=ON", err);
    if (!code)
        code = asim_store_identify(store, ret_empty, err);
    if (code) {
        sqlite3_close(store->db);
        store->db = NULL;
    }
    return code;
}

static asim_code inspect_path(asim_store *store, bool *ret_exists, asim_err *err)
{
    struct stat status;
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", store->path);
    const char *parent = dirname(folder);
    if (stat(store->path, &status) != 0) {
        if (errno != ENOENT)
            return asim_fail(err, ASIM_E_SYSTEM, "%s: the store can't be opened: %s", store->path,
                             strerror(errno));
        if (store->mode == ASIM_STORE_READ)
            return asim_fail(err, ASIM_E_INPUT, "%s: there is no such store", store->path);
        if (stat(parent, &status) != 0)
            return asim_fail(err, ASIM_E_SYSTEM, "%s: the store can't be created: %s: %s", store->path,
                             parent, strerror(errno));
        if (access(parent, W_OK | X_OK) != 0)
            return asim_fail(err, ASIM_E_SYSTEM,
                             "%s: the store can't be created: the folder can't be written: %s", store->path,
                             strerror(errno));
        *ret_exists = false;
        return ASIM_OK;
    }
    if (S_ISDIR(status.st_mode))
        return asim_fail(err, ASIM_E_INPUT, "%s: a directory, not a store", store->path);
    if (!S_ISREG(status.st_mode))
        return asim_fail(err, ASIM_E_INPUT, "%s: not a regular file, so not a store", store->path);
    if (access(store->path, R_OK) != 0)
        return asim_fail(err, ASIM_E_SYSTEM, "%s: the store can't be read: %s", store->path, strerror(errno));
    if (store->mode == ASIM_STORE_WRITE && access(store->path, W_OK) != 0)
        return asim_fail(err, ASIM_E_SYSTEM, "%s: the store can't be written: %s", store->path,
                         strerror(errno));
    if (store->mode == ASIM_STORE_WRITE && access(parent, W_OK | X_OK) != 0)
        return asim_fail(err, ASIM_E_SYSTEM,
                         "%s: the store can't be written: its folder, which takes the journal, can't be: %s",
                         store->path, strerror(errno));
    *ret_exists = true;
    return ASIM_OK;
}

asim_code asim_store_open(const char *path, asim_store_mode mode, const asim_hostmem *mem,
                          asim_store **ret_store, asim_err *err)
{
    if (!path[0])
        return asim_fail(err, ASIM_E_USAGE, "the name of the store is empty");
    asim_store *store = asim_mem_new(mem, 1, sizeof *store);
    if (!store)
        return asim_fail_memory(err, sizeof *store);
    store->mem = mem;
    store->mode = mode;
    /* "./" keeps SQLite from taking a name such as :memory: for one of its own. */
    int length = snprintf(store->path, sizeof store->path, "%s%s", path[0] == ':' ? "./" : "", path);
    asim_code code = ASIM_OK;
    bool exists = false, empty = false;
    if (length < 0 || (size_t)length >= sizeof store->path)
        code = asim_fail(err, ASIM_E_SYSTEM, "the name of the store is too long");
    if (!code)
        code = inspect_path(store, &exists, err);
    if (!code && exists)
        code = asim_store_connect(store, &empty, err);
    if (!code && empty && mode == ASIM_STORE_READ)
        code = asim_fail(err, ASIM_E_INPUT, "%s: an empty file, not a store", store->path);
    if (code) {
        asim_store_close(store);
        return code;
    }
    *ret_store = store;
    return ASIM_OK;
}

void asim_store_close(asim_store *store)
{
    if (!store)
        return;
    sqlite3_close(store->db);
    asim_mem_free(store->mem, store, 1, sizeof *store);
}

static const char *text_column(sqlite3_stmt *statement, int column)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    return text ? (const char *)text : "";
}

asim_code asim_store_list(asim_store *store, void (*row)(void *ctx, const asim_store_row *row), void *ctx,
                          asim_err *err)
{
    static const char sql[] =
        "SELECT run_id, path, policy, params, device, status, placement_digest, capacity_bytes, seed, events,"
        " (SELECT value FROM metrics m WHERE m.run_id=r.run_id AND name='peak_allocated_bytes'),"
        " (SELECT value FROM metrics m WHERE m.run_id=r.run_id AND name='peak_reserved_bytes'),"
        " (SELECT value FROM metrics m WHERE m.run_id=r.run_id AND name='ooms'),"
        " (SELECT value FROM metrics m WHERE m.run_id=r.run_id AND name='stall_ns')"
        " FROM runs r JOIN traces USING(trace_id) ORDER BY run_id";
    sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(store->db, sql, -1, &s, NULL);
    if (rc != SQLITE_OK)
        return asim_store_fail(store, rc, err);
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        asim_store_row found = {.run_id = sqlite3_column_int64(s, 0),
                                .trace_path = text_column(s, 1),
                                .policy = text_column(s, 2),
                                .params = text_column(s, 3),
                                .device = text_column(s, 4),
                                .status = text_column(s, 5),
                                .placement_digest = text_column(s, 6),
                                .capacity_bytes = sqlite3_column_int64(s, 7),
                                .seed = sqlite3_column_int64(s, 8),
                                .events = sqlite3_column_int64(s, 9),
                                .peak_allocated_bytes = sqlite3_column_int64(s, 10),
                                .peak_reserved_bytes = sqlite3_column_int64(s, 11),
                                .ooms = sqlite3_column_int64(s, 12),
                                .stall_ns = sqlite3_column_int64(s, 13)};
        row(ctx, &found);
    }
    asim_code code = rc == SQLITE_DONE ? ASIM_OK : asim_store_fail(store, rc, err);
    sqlite3_finalize(s);
    return code;
}

/* Each row that sql returns is a fault; its first column is the text, unless that is "ok". */
static asim_code count_faults(asim_store *store, const char *sql, const char *prefix,
                              void (*fault)(void *ctx, const char *text), void *ctx, uint64_t *faults,
                              asim_err *err)
{
    sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(store->db, sql, -1, &s, NULL);
    if (rc != SQLITE_OK)
        return asim_store_fail(store, rc, err);
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        const char *found = text_column(s, 0);
        if (strcmp(found, "ok") == 0)
            continue;
        char text[400];
        snprintf(text, sizeof text, "%s%s", prefix, found);
        ++*faults;
        fault(ctx, text);
    }
    asim_code code = rc == SQLITE_DONE ? ASIM_OK : asim_store_fail(store, rc, err);
    sqlite3_finalize(s);
    return code;
}

/* The metrics that every run has; a policy may add some of its own. */
#define QUOTED_NAME(name, meaning) "'" #name "',"
#define COMMON_NAMES               ASIM_METRICS(QUOTED_NAME) "''"

asim_code asim_store_check(asim_store *store, void (*fault)(void *ctx, const char *text), void *ctx,
                           uint64_t *ret_faults, uint64_t *ret_runs, asim_err *err)
{
    static const struct {
        const char *sql, *prefix;
    } checks[] = {
        {"PRAGMA integrity_check(20)", "SQLite: "},
        {"SELECT \"table\" || ' ' || coalesce(rowid, '') FROM pragma_foreign_key_check LIMIT 20",
         "a row without its run: "},
        {"SELECT run_id FROM runs r WHERE (SELECT count(*) FROM metrics m WHERE m.run_id=r.run_id AND name "
         "IN (" COMMON_NAMES ")) <> (SELECT count(DISTINCT name) FROM metrics WHERE name IN (" COMMON_NAMES
         ")) LIMIT 20",
         "metrics are missing in run "},
        {"SELECT run_id FROM runs WHERE run_id NOT IN (SELECT run_id FROM about) LIMIT 20",
         "'about' is missing in run "},
        {"SELECT run_id FROM runs WHERE (status='oom') <> (run_id IN (SELECT run_id FROM ooms)) LIMIT 20",
         "status and failures contradict each other in run "},
        {"SELECT run_id FROM ooms o GROUP BY run_id HAVING count(*) > coalesce((SELECT value FROM metrics m"
         " WHERE m.run_id=o.run_id AND name='ooms'), 0) LIMIT 20",
         "more failures than are counted in run "},
        {"SELECT run_id FROM runs WHERE length(placement_digest) <> 16 LIMIT 20",
         "the placement digest is not one in run "},
    };
    uint64_t faults = 0;
    int64_t runs = 0;
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0] && !code; i++)
        code = count_faults(store, checks[i].sql, checks[i].prefix, fault, ctx, &faults, err);
    if (!code)
        code = read_integer(store, "SELECT count(*) FROM runs", &runs, err);
    if (code)
        return code;
    *ret_faults = faults;
    *ret_runs = (uint64_t)runs;
    return ASIM_OK;
}
