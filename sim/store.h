/* sim/store.h - the SQLite file that keeps results: one transaction a run, one row a distinct configuration.
 *
 *     asim_store *store;
 *     if (!(code = asim_store_open("allocsim.db", ASIM_STORE_WRITE, mem, &store, &err)))
 *         code = asim_store_add(store, &run, &id, &is_new, &err);
 *     asim_store_close(store);
 *
 * Version 2 keeps every failure of a run, up to ASIM_FAILURES_MAX of them, with the message; version 1 kept
 * the first without it. The first change of a store of version 1 upgrades it, in that change's transaction;
 * its runs keep the one failure, with the message "". Reading leaves it as it is.
 *
 * The schema is the string in sim/store_schema.h; PRAGMA user_version is its version, PRAGMA application_id
 * is ASIM_STORE_APPLICATION. Digests are text of 16 hexadecimal digits. Addresses, streams and seeds are
 * signed 64-bit integers, as SQLite knows no others: what lies above 2^63 shows as negative.
 *
 * A file that does not exist is created by the first asim_store_add, in the same transaction as that run;
 * when that fails, no file is left behind. A process that dies at any moment leaves a store that opens and
 * holds every run whose asim_store_add had returned. Writers of one store wait for each other, a minute at
 * most. Errors name the store. A store is used by one thread.
 */
#ifndef ASIM_SIM_STORE_H
#define ASIM_SIM_STORE_H

#include "sim/engine.h"
#include "sim/phases.h"
#include "sim/timeline.h"

enum {
    ASIM_STORE_VERSION = 2,
    ASIM_STORE_APPLICATION = 0x4153494D, /* "ASIM" */
};

typedef struct asim_store asim_store;

typedef enum asim_store_mode {
    ASIM_STORE_READ = 0,  /* must exist; nothing is changed */
    ASIM_STORE_WRITE = 1, /* may be missing */
} asim_store_mode;

/* A block of a final layout; its segment is an index into the layout's segments. */
typedef struct asim_layout_block {
    asim_walk_block block;
    uint32_t segment;
} asim_layout_block;

typedef struct asim_layout {
    asim_walk_segment *segments;
    size_t segment_count, segment_capacity;
    asim_layout_block *blocks; /* in segment order */
    size_t block_count, block_capacity;
} asim_layout;

/* One finished run with all that is kept of it. Texts may not be NULL. */
typedef struct asim_stored_run {
    /* The key: trace digest, policy, params, device (name and digest), record.capacity, seed. */
    uint64_t trace_digest;
    const char *policy;
    const char *params; /* canonical spelling */
    const char *device; /* the profile's name */
    uint64_t device_digest;
    uint64_t seed;

    const char *trace_path;
    const char *trace_source; /* "torch-snapshot"; "" where unknown */
    uint64_t trace_events;
    uint32_t trace_devices;
    uint32_t policy_version;
    asim_run_record record;
    const asim_failure *failures; /* the first is record.oom */
    size_t failure_count;
    uint64_t mismatch_stream;
    const asim_sample *samples;
    size_t sample_count;
    const asim_phase *phases;
    const char *const *phase_labels; /* one a phase */
    size_t phase_count;
    const asim_layout *layout; /* NULL: not asked for */

    /* What may differ between machines. */
    uint64_t wall_ns;
    uint64_t stored_unix_s;
    const char *host;
    const char *program; /* "allocsim 0.1.0" */
} asim_stored_run;

/* ASIM_E_INPUT: not a store of ours, or one of a newer version, or damaged. ASIM_E_SYSTEM: can't be opened.
 */
asim_code asim_store_open(const char *path, asim_store_mode mode, const asim_hostmem *mem,
                          asim_store **ret_store, asim_err *err);
void asim_store_close(asim_store *store); /* NULL is fine */

/* Keeps the run. If its key is there already with the same placement digest and metrics, nothing changes and
 * *ret_is_new is false; with others: ASIM_E_BUG, nothing changes. A run that ended by a fault is refused. */
asim_code asim_store_add(asim_store *store, const asim_stored_run *run, int64_t *ret_run_id, bool *ret_is_new,
                         asim_err *err);

typedef struct asim_run_key {
    uint64_t trace_digest;
    const char *policy, *params, *device;
    uint64_t device_digest, capacity, seed;
} asim_run_key;

enum {
    ASIM_STORE_NAME_MAX = 48 /* bytes of an own metric's name, with the closing zero; longer ones are cut */
};

/* What a store tells again about a run: of its record the status, the digest, the metrics and the capacity.
 */
typedef struct asim_kept_run {
    int64_t run_id;
    asim_run_record record; /* own[i].name is own_names[i] */
    char own_names[ASIM_POLICY_METRICS_MAX][ASIM_STORE_NAME_MAX];
} asim_kept_run;

/* Looks for a run by its key; *ret_kept is filled where *ret_found. A file that does not exist yet holds
 * none. */
asim_code asim_store_find(asim_store *store, const asim_run_key *key, asim_kept_run *ret_kept,
                          bool *ret_found, asim_err *err);

typedef struct asim_merge_counts {
    uint64_t added; /* runs */
    uint64_t same;  /* runs that were there already, with the same results */
} asim_merge_counts;

/* Copies every run of the stores named by paths into store, in their order, all or none. A key that is there
 * with another placement digest or other metrics is an error (ASIM_E_BUG) that names both runs. A source that
 * is the store itself: ASIM_E_USAGE. */
asim_code asim_store_merge(asim_store *store, const char *const *paths, size_t count,
                           asim_merge_counts *ret_counts, asim_err *err);

/* What `db ls` shows of a run; the texts live until the callback returns. */
typedef struct asim_store_row {
    int64_t run_id;
    const char *trace_path, *policy, *params, *device, *status, *placement_digest;
    int64_t capacity_bytes, seed, events, peak_allocated_bytes, peak_reserved_bytes, ooms, stall_ns;
} asim_store_row;

/* Calls row for each run in the order in which they were stored. */
asim_code asim_store_list(asim_store *store, void (*row)(void *ctx, const asim_store_row *row), void *ctx,
                          asim_err *err);

/* Verifies the file, its references and that every run is whole. Each fault goes to fault; *ret_faults counts
 * them, *ret_runs the runs. */
asim_code asim_store_check(asim_store *store, void (*fault)(void *ctx, const char *text), void *ctx,
                           uint64_t *ret_faults, uint64_t *ret_runs, asim_err *err);

/* Collects a walk into a layout: give asim_layout_walker(&collector) to asim_engine_walk, then look at
 * collector.code. */
typedef struct asim_layout_collector {
    asim_layout *layout;
    const asim_hostmem *mem;
    asim_code code;
} asim_layout_collector;
asim_walker asim_layout_walker(asim_layout_collector *collector);
void asim_layout_fini(asim_layout *layout, const asim_hostmem *mem);

#endif
