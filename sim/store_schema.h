/* sim/store_schema.h - the tables of a store, version ASIM_STORE_VERSION. Shared by the store_*.c.
 *
 * A change of a table is a new version: raise ASIM_STORE_VERSION and teach asim_store_upgrade.
 */
#ifndef ASIM_SIM_STORE_SCHEMA_H
#define ASIM_SIM_STORE_SCHEMA_H

#include "sim/store.h"

#include <sqlite3.h>

#define ASIM_STORE_SCHEMA                                                                                    \
    "PRAGMA application_id=1095977293;"                                                                      \
    "PRAGMA user_version=2;"                                                                                 \
    "CREATE TABLE traces(trace_id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, path TEXT NOT NULL,"     \
    " source TEXT NOT NULL, events INTEGER NOT NULL, devices INTEGER NOT NULL);"                             \
    "CREATE TABLE runs(run_id INTEGER PRIMARY KEY,"                                                          \
    " trace_id INTEGER NOT NULL REFERENCES traces, policy TEXT NOT NULL, params TEXT NOT NULL,"              \
    " device TEXT NOT NULL, device_digest TEXT NOT NULL, capacity_bytes INTEGER NOT NULL,"                   \
    " seed INTEGER NOT NULL, status TEXT NOT NULL CHECK(status IN ('ok', 'oom')),"                           \
    " placement_digest TEXT NOT NULL, policy_version INTEGER NOT NULL,"                                      \
    " UNIQUE(trace_id, policy, params, device, device_digest, capacity_bytes, seed));"                       \
    "CREATE TABLE metrics(run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE, name TEXT NOT NULL,"    \
    " value INTEGER NOT NULL, PRIMARY KEY(run_id, name)) WITHOUT ROWID;"                                     \
    "CREATE TABLE samples(run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,"                        \
    " event INTEGER NOT NULL, time_ns INTEGER NOT NULL, requested INTEGER NOT NULL,"                         \
    " allocated INTEGER NOT NULL, active INTEGER NOT NULL, reserved INTEGER NOT NULL,"                       \
    " largest_free INTEGER NOT NULL, PRIMARY KEY(run_id, event)) WITHOUT ROWID;"                             \
    "CREATE TABLE ooms(run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,"                           \
    " event INTEGER NOT NULL, device INTEGER NOT NULL, requested_bytes INTEGER NOT NULL,"                    \
    " segment_bytes INTEGER NOT NULL, allocated_bytes INTEGER NOT NULL, reserved_bytes INTEGER NOT NULL,"    \
    " device_free_bytes INTEGER NOT NULL, largest_free_bytes INTEGER NOT NULL,"                              \
    " message TEXT NOT NULL DEFAULT '',"                                                                     \
    " PRIMARY KEY(run_id, event)) WITHOUT ROWID;"                                                            \
    "CREATE TABLE mismatches(run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,"                     \
    " event INTEGER NOT NULL, is_call INTEGER NOT NULL, stream INTEGER NOT NULL, size INTEGER NOT NULL,"     \
    " recorded_address INTEGER NOT NULL, address INTEGER NOT NULL,"                                          \
    " PRIMARY KEY(run_id, event)) WITHOUT ROWID;"                                                            \
    "CREATE TABLE segments(run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,"                       \
    " segment INTEGER NOT NULL, device INTEGER NOT NULL, address INTEGER NOT NULL, size INTEGER NOT NULL,"   \
    " stream INTEGER NOT NULL, pool INTEGER NOT NULL, small INTEGER NOT NULL,"                               \
    " expandable INTEGER NOT NULL, PRIMARY KEY(run_id, segment)) WITHOUT ROWID;"                             \
    "CREATE TABLE blocks(run_id INTEGER NOT NULL, segment INTEGER NOT NULL, address INTEGER NOT NULL,"       \
    " size INTEGER NOT NULL, requested INTEGER NOT NULL,"                                                    \
    " state TEXT NOT NULL CHECK(state IN ('free', 'live', 'pending')),"                                      \
    " PRIMARY KEY(run_id, segment, address),"                                                                \
    " FOREIGN KEY(run_id, segment) REFERENCES segments ON DELETE CASCADE) WITHOUT ROWID;"                    \
    "CREATE TABLE phases(run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,"                         \
    " phase INTEGER NOT NULL, label TEXT NOT NULL, kind TEXT NOT NULL, first_event INTEGER NOT NULL,"        \
    " last_event INTEGER NOT NULL, begin_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL,"                      \
    " peak_requested INTEGER NOT NULL, peak_allocated INTEGER NOT NULL, peak_active INTEGER NOT NULL,"       \
    " peak_reserved INTEGER NOT NULL, end_allocated INTEGER NOT NULL, end_reserved INTEGER NOT NULL,"        \
    " PRIMARY KEY(run_id, phase)) WITHOUT ROWID;"                                                            \
    "CREATE TABLE about(run_id INTEGER PRIMARY KEY REFERENCES runs ON DELETE CASCADE,"                       \
    " wall_ns INTEGER NOT NULL, stored_at TEXT NOT NULL, host TEXT NOT NULL, program TEXT NOT NULL);"        \
    "CREATE VIEW run_summary AS SELECT run_id, path AS trace, policy, params, device, capacity_bytes, seed," \
    " status,"                                                                                               \
    " max(CASE name WHEN 'peak_requested_bytes' THEN value END) AS peak_requested_bytes,"                    \
    " max(CASE name WHEN 'peak_allocated_bytes' THEN value END) AS peak_allocated_bytes,"                    \
    " max(CASE name WHEN 'peak_reserved_bytes' THEN value END) AS peak_reserved_bytes,"                      \
    " max(CASE name WHEN 'reserve_gap_ppm' THEN value END) AS reserve_gap_ppm,"                              \
    " max(CASE name WHEN 'device_allocs' THEN value END) AS device_allocs,"                                  \
    " max(CASE name WHEN 'alloc_retries' THEN value END) AS alloc_retries,"                                  \
    " max(CASE name WHEN 'ooms' THEN value END) AS ooms,"                                                    \
    " max(CASE name WHEN 'stall_ns' THEN value END) AS stall_ns,"                                            \
    " max(CASE name WHEN 'recorded_allocs' THEN value END) AS recorded_allocs,"                              \
    " max(CASE name WHEN 'recorded_matches' THEN value END) AS recorded_matches"                             \
    " FROM runs JOIN traces USING(trace_id) JOIN metrics USING(run_id) GROUP BY run_id;"

struct asim_store {
    const asim_hostmem *mem;
    asim_store_mode mode;
    sqlite3 *db;  /* NULL until a missing file is created */
    bool created; /* this process made the file */
    int version;  /* of its schema, as asim_store_identify found it last */
    char path[4096];
};

/* Opens and recognises the file; *ret_empty: it holds no table yet. */
asim_code asim_store_connect(asim_store *store, bool *ret_empty, asim_err *err);
asim_code asim_store_identify(asim_store *store, bool *ret_empty, asim_err *err);

/* Brings an older store to ASIM_STORE_VERSION, inside a transaction. */
asim_code asim_store_upgrade(asim_store *store, asim_err *err);

/* Lets change write inside one transaction, into a file that is created if need be and has its tables; on an
 * error nothing of it stays. */
asim_code asim_store_change(asim_store *store,
                            asim_code (*change)(asim_store *store, void *ctx, asim_err *err), void *ctx,
                            asim_err *err);

/* Turns what SQLite reported last into a message of ours. */
asim_code asim_store_fail(asim_store *store, int rc, asim_err *err);
asim_code asim_store_exec(asim_store *store, const char *sql, asim_err *err);

#endif
