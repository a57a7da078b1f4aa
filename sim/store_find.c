#include "sim/store_schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void bind_digest(sqlite3_stmt *statement, int column, uint64_t digest)
{
    char hex[17];
    snprintf(hex, sizeof hex, "%016" PRIx64, digest);
    sqlite3_bind_text(statement, column, hex, -1, SQLITE_TRANSIENT);
}

static void keep_metric(asim_kept_run *kept, const char *name, uint64_t value)
{
    for (unsigned i = 0; i < ASIM_METRIC_COUNT; i++)
        if (strcmp(name, asim_metric_name((asim_metric)i)) == 0) {
            kept->record.metrics[i] = value;
            return;
        }
    uint32_t next = kept->record.own_count;
    if (next == ASIM_POLICY_METRICS_MAX)
        return;
    snprintf(kept->own_names[next], ASIM_STORE_NAME_MAX, "%s", name);
    kept->record.own[next] = (asim_own_metric){kept->own_names[next], value};
    kept->record.own_count++;
}

static asim_code read_metrics(asim_store *store, asim_kept_run *kept, asim_err *err)
{
    sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(store->db, "SELECT name, value FROM metrics WHERE run_id=? ORDER BY name", -1,
                                &s, NULL);
    if (rc != SQLITE_OK)
        return asim_store_fail(store, rc, err);
    sqlite3_bind_int64(s, 1, kept->run_id);
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        const unsigned char *name = sqlite3_column_text(s, 0);
        if (name)
            keep_metric(kept, (const char *)name, (uint64_t)sqlite3_column_int64(s, 1));
    }
    asim_code code = rc == SQLITE_DONE ? ASIM_OK : asim_store_fail(store, rc, err);
    sqlite3_finalize(s);
    return code;
}

asim_code asim_store_find(asim_store *store, const asim_run_key *key, asim_kept_run *ret_kept,
                          bool *ret_found, asim_err *err)
{
    static const char sql[] =
        "SELECT run_id, status, placement_digest FROM runs JOIN traces USING(trace_id)"
        " WHERE digest=? AND policy=? AND params=? AND device=? AND device_digest=? AND capacity_bytes=?"
        " AND seed=?";
    bool empty = true;
    *ret_found = false;
    if (!store->db)
        return ASIM_OK;
    asim_code code = asim_store_identify(store, &empty, err);
    if (code || empty)
        return code;
    sqlite3_stmt *s;
    int rc = sqlite3_prepare_v2(store->db, sql, -1, &s, NULL);
    if (rc != SQLITE_OK)
        return asim_store_fail(store, rc, err);
    bind_digest(s, 1, key->trace_digest);
    sqlite3_bind_text(s, 2, key->policy, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 3, key->params, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 4, key->device, -1, SQLITE_STATIC);
    bind_digest(s, 5, key->device_digest);
    sqlite3_bind_int64(s, 6, (int64_t)key->capacity);
    sqlite3_bind_int64(s, 7, (int64_t)key->seed);
    rc = sqlite3_step(s);
    if (rc == SQLITE_ROW) {
        const unsigned char *status = sqlite3_column_text(s, 1), *digest = sqlite3_column_text(s, 2);
        *ret_kept = (asim_kept_run){.run_id = sqlite3_column_int64(s, 0)};
        ret_kept->record.status =
            status && strcmp((const char *)status, "oom") == 0 ? ASIM_RUN_OOM : ASIM_RUN_OK;
        ret_kept->record.placement_digest = digest ? strtoull((const char *)digest, NULL, 16) : 0;
        ret_kept->record.capacity = key->capacity;
        *ret_found = true;
    } else if (rc != SQLITE_DONE) {
        code = asim_store_fail(store, rc, err);
    }
    sqlite3_finalize(s);
    if (!code && *ret_found)
        code = read_metrics(store, ret_kept, err);
    return code;
}
