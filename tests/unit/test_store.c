#include "sim/store.h"

#include <criterion/criterion.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];
static char path[128];

static void make_folder(void)
{
    strcpy(folder, "/tmp/asim-store-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.db", folder);
}

static void remove_folder(void)
{
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(store, .init = make_folder, .fini = remove_folder);

static const asim_sample samples[] = {{1, 10, 1, 2, 3, 4, 5}, {7, 20, 6, 7, 8, 9, 10}};
static const asim_phase phases[] = {
    {.label = 3, .kind = ASIM_MARK_PHASE, .first_event = 2, .last_event = 6, .peak_reserved = 99}};
static const char *const labels[] = {"forward"};

static asim_stored_run example(void)
{
    asim_stored_run run = {.trace_digest = UINT64_C(0x123456789ABCDEF0),
                           .policy = "torchcache",
                           .params = "max_split_size_mb=256",
                           .device = "generic-80g",
                           .device_digest = 7,
                           .seed = 1,
                           .trace_path = "it's.zst",
                           .trace_source = "torch-snapshot",
                           .trace_events = 8,
                           .trace_devices = 1,
                           .policy_version = 1,
                           .samples = samples,
                           .sample_count = 2,
                           .phases = phases,
                           .phase_labels = labels,
                           .phase_count = 1,
                           .wall_ns = 5,
                           .host = "host",
                           .program = "allocsim test"};
    run.record.capacity = UINT64_C(80) << 30;
    run.record.placement_digest = 0xAB;
    run.record.metrics[ASIM_METRIC_peak_reserved_bytes] = 4096;
    return run;
}

static asim_code add(const asim_stored_run *run, int64_t *ret_id, bool *ret_is_new, asim_err *err)
{
    asim_store *store;
    asim_code code = asim_store_open(path, ASIM_STORE_WRITE, asim_hostmem_libc(), &store, err);
    if (code)
        return code;
    code = asim_store_add(store, run, ret_id, ret_is_new, err);
    asim_store_close(store);
    return code;
}

static void query(const char *sql, const char *expected)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    cr_assert_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    cr_assert_eq(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    cr_assert_eq(sqlite3_step(statement), SQLITE_ROW, "%s", sql);
    cr_assert_str_eq((const char *)sqlite3_column_text(statement, 0), expected, "%s", sql);
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

static void execute(const char *sql)
{
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

static void refused(asim_code code, const char *part)
{
    asim_err err = ASIM_ERR_INIT;
    asim_stored_run run = example();
    int64_t id;
    bool is_new;
    cr_assert_eq(add(&run, &id, &is_new, &err), code, "%s", err.message);
    cr_assert(strstr(err.message, part), "%s", err.message);
    cr_assert_eq(strncmp(err.message, path, strlen(path)), 0, "%s", err.message);
}

static void count_fault(void *ctx, const char *text)
{
    (void)text;
    ++*(int *)ctx;
}

static uint64_t faults_found(void)
{
    asim_store *store;
    uint64_t faults = 0, runs = 0;
    int heard = 0;
    cr_assert_eq(asim_store_open(path, ASIM_STORE_READ, asim_hostmem_libc(), &store, NULL), ASIM_OK);
    cr_assert_eq(asim_store_check(store, count_fault, &heard, &faults, &runs, NULL), ASIM_OK);
    cr_assert_eq((uint64_t)heard, faults);
    cr_assert_eq(runs, 1);
    asim_store_close(store);
    return faults;
}

Test(store, keeps_every_part_of_a_run)
{
    asim_stored_run run = example();
    asim_layout layout = {0};
    asim_layout_collector collector = {&layout, asim_hostmem_libc(), ASIM_OK};
    asim_walker walker = asim_layout_walker(&collector);
    walker.segment(walker.ctx,
                   &(asim_walk_segment){.address = 0x1000, .size = 0x200, .stream = 5, .small = true});
    walker.block(walker.ctx,
                 &(asim_walk_block){.address = 0x1000, .size = 0x100, .state = ASIM_BLOCK_PENDING});
    walker.block(walker.ctx, &(asim_walk_block){.address = 0x1100, .size = 0x100, .state = ASIM_BLOCK_FREE});
    cr_assert_eq(collector.code, ASIM_OK);
    run.layout = &layout;
    run.record.status = ASIM_RUN_OOM;
    run.record.has_oom = true;
    char message[] = "no room";
    const asim_failure failures[] = {
        {.oom = {.event = 6, .requested_bytes = 11, .device_free_bytes = 12}, .message = message},
        {.oom = {.event = 7, .requested_bytes = 13}}};
    run.record.metrics[ASIM_METRIC_ooms] = 2;
    run.record.oom = failures[0].oom;
    run.failures = failures;
    run.failure_count = 2;
    run.record.has_mismatch = true;
    run.record.mismatch = (asim_mismatch){.event = 4, .recorded_address = 0x7000, .address = 0x8000};
    int64_t id = 0;
    bool is_new = false;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(add(&run, &id, &is_new, &err), ASIM_OK, "%s", err.message);
    cr_assert(is_new);
    asim_layout_fini(&layout, asim_hostmem_libc());

    query("PRAGMA user_version", "2");
    query("SELECT printf('%x', 1095977293) FROM pragma_application_id", "4153494d");
    query("SELECT digest||path||source||events FROM traces", "123456789abcdef0it's.zsttorch-snapshot8");
    query("SELECT policy||' '||params||' '||device||' '||capacity_bytes||' '||status||' '||placement_digest "
          "FROM runs",
          "torchcache max_split_size_mb=256 generic-80g 85899345920 oom 00000000000000ab");
    query("SELECT count(*) FROM metrics", "42");
    query("SELECT value FROM metrics WHERE name='peak_reserved_bytes'", "4096");
    query("SELECT group_concat(event||':'||reserved) FROM samples", "1:4,7:9");
    query("SELECT group_concat(event||' '||requested_bytes||' '||device_free_bytes||' '||message) FROM ooms",
          "6 11 12 no room,7 13 0 ");
    query("SELECT event||' '||recorded_address||' '||address FROM mismatches", "4 28672 32768");
    query("SELECT label||' '||kind||' '||first_event||' '||last_event||' '||peak_reserved FROM phases",
          "forward phase 2 6 99");
    query("SELECT group_concat(b.address||b.state) FROM segments s JOIN blocks b USING(run_id, segment)",
          "4096pending,4352free");
    query("SELECT trace||' '||peak_reserved_bytes||' '||status FROM run_summary", "it's.zst 4096 oom");
    query("SELECT host||' '||program||' '||wall_ns FROM about", "host allocsim test 5");
    cr_assert_eq(faults_found(), 0);
}

Test(store, the_same_run_is_kept_once)
{
    asim_stored_run run = example();
    int64_t first = 0, second = 0;
    bool is_new = false;
    cr_assert_eq(add(&run, &first, &is_new, NULL), ASIM_OK);
    cr_assert(is_new);
    run.wall_ns = 99;
    cr_assert_eq(add(&run, &second, &is_new, NULL), ASIM_OK);
    cr_assert_not(is_new);
    cr_assert_eq(second, first);
    query("SELECT count(*)||' '||max(wall_ns) FROM runs JOIN about USING(run_id)", "1 5");
    run.seed = 2;
    cr_assert_eq(add(&run, &second, &is_new, NULL), ASIM_OK);
    cr_assert(is_new);
    run.device_digest++;
    cr_assert_eq(add(&run, &second, &is_new, NULL), ASIM_OK);
    cr_assert(is_new);
    query("SELECT count(*)||' '||count(DISTINCT trace_id) FROM runs", "3 1");
}

Test(store, the_same_key_with_another_result_is_an_error)
{
    asim_stored_run run = example();
    int64_t id = 0;
    bool is_new = false;
    cr_assert_eq(add(&run, &id, &is_new, NULL), ASIM_OK);
    asim_err err = ASIM_ERR_INIT;
    run.record.placement_digest = 0xAC;
    cr_assert_eq(add(&run, &id, &is_new, &err), ASIM_E_BUG);
    cr_assert(strstr(err.message, "another placement digest: 00000000000000ab there, 00000000000000ac now"));
    run.record.placement_digest = 0xAB;
    run.record.metrics[ASIM_METRIC_peak_reserved_bytes]++;
    cr_assert_eq(add(&run, &id, &is_new, &err), ASIM_E_BUG);
    cr_assert(strstr(err.message, "another peak_reserved_bytes: 4096 there, 4097 now"));
    query("SELECT count(*) FROM runs", "1");
}

Test(store, what_is_no_store_of_ours_is_refused_and_left_alone)
{
    cr_assert_eq(mkdir(path, 0700), 0);
    refused(ASIM_E_INPUT, "a directory");
    cr_assert_eq(rmdir(path), 0);
    cr_assert_eq(mkfifo(path, 0600), 0);
    refused(ASIM_E_INPUT, "not a regular file");
    cr_assert_eq(unlink(path), 0);

    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    for (int i = 0; i < 300; i++)
        fputs("just some text\n", file);
    fclose(file);
    refused(ASIM_E_INPUT, "no SQLite database");
    struct stat status;
    cr_assert_eq(stat(path, &status), 0);
    cr_assert_eq(status.st_size, 4500);
    cr_assert_eq(unlink(path), 0);

    execute("CREATE TABLE t(x); INSERT INTO t VALUES(5)");
    refused(ASIM_E_INPUT, "another program");
    query("SELECT x FROM t", "5");
}

Test(store, a_newer_version_is_refused)
{
    asim_stored_run run = example();
    int64_t id = 0;
    bool is_new = false;
    cr_assert_eq(add(&run, &id, &is_new, NULL), ASIM_OK);
    execute("PRAGMA user_version=3");
    refused(ASIM_E_INPUT, "newer allocsim (schema version 3, this one knows 2)");
    execute("PRAGMA user_version=2");
    cr_assert_eq(faults_found(), 0);
}

/* The store of a run that failed twice, as version 1 kept it: the first failure, without a message. */
static void make_version_1(void)
{
    asim_stored_run run = example();
    const asim_failure failure = {.oom = {.event = 6, .requested_bytes = 11}};
    int64_t id = 0;
    bool is_new = false;
    run.record.status = ASIM_RUN_OOM;
    run.record.metrics[ASIM_METRIC_ooms] = 2;
    run.failures = &failure;
    run.failure_count = 1;
    cr_assert_eq(add(&run, &id, &is_new, NULL), ASIM_OK);
    execute("CREATE TABLE kept AS SELECT * FROM ooms;"
            "DROP TABLE ooms;"
            "CREATE TABLE ooms(run_id INTEGER NOT NULL REFERENCES runs ON DELETE CASCADE,"
            " event INTEGER NOT NULL, device INTEGER NOT NULL, requested_bytes INTEGER NOT NULL,"
            " segment_bytes INTEGER NOT NULL, allocated_bytes INTEGER NOT NULL,"
            " reserved_bytes INTEGER NOT NULL, device_free_bytes INTEGER NOT NULL,"
            " largest_free_bytes INTEGER NOT NULL, PRIMARY KEY(run_id, event)) WITHOUT ROWID;"
            "INSERT INTO ooms SELECT run_id, event, device, requested_bytes, segment_bytes, allocated_bytes,"
            " reserved_bytes, device_free_bytes, largest_free_bytes FROM kept;"
            "DROP TABLE kept; PRAGMA user_version=1");
}

Test(store, version_1_is_read_as_it_is)
{
    make_version_1();
    cr_assert_eq(faults_found(), 0);
    query("PRAGMA user_version", "1");
    query("SELECT count(*) FROM pragma_table_info('ooms')", "9");
}

Test(store, version_1_is_upgraded_by_a_change)
{
    make_version_1();
    asim_stored_run run = example();
    const asim_failure failure = {.oom = {.event = 4, .requested_bytes = 5}, .message = path};
    int64_t id = 0;
    bool is_new = false;
    asim_err err = ASIM_ERR_INIT;
    run.seed = 2;
    run.record.placement_digest = 0xAC;
    run.record.status = ASIM_RUN_OOM;
    run.record.metrics[ASIM_METRIC_ooms] = 1;
    run.failures = &failure;
    run.failure_count = 1;
    cr_assert_eq(add(&run, &id, &is_new, &err), ASIM_OK, "%s", err.message);
    query("PRAGMA user_version", "2");
    query("SELECT group_concat(event||' '||requested_bytes||' '||(message<>'')) FROM ooms", "6 11 0,4 5 1");
    query("PRAGMA integrity_check", "ok");
}

/* What fails leaves the older store as it was. */
Test(store, a_failed_change_upgrades_nothing)
{
    make_version_1();
    asim_stored_run run = example();
    int64_t id = 0;
    bool is_new = false;
    run.record.placement_digest = 0xAC;
    cr_assert_eq(add(&run, &id, &is_new, NULL), ASIM_E_BUG);
    query("PRAGMA user_version", "1");
    query("SELECT count(*) FROM pragma_table_info('ooms')", "9");
}

Test(store, version_1_is_merged_either_way)
{
    char older[sizeof path];
    make_version_1();
    memcpy(older, path, sizeof older);
    snprintf(path, sizeof path, "%s/new.db", folder);
    asim_stored_run run = example();
    int64_t id = 0;
    bool is_new = false;
    run.seed = 2;
    cr_assert_eq(add(&run, &id, &is_new, NULL), ASIM_OK);
    const char *const steps[][2] = {{path, older}, {older, path}};
    for (size_t i = 0; i < 2; i++) {
        asim_store *store;
        asim_merge_counts counts;
        asim_err err = ASIM_ERR_INIT;
        cr_assert_eq(asim_store_open(steps[i][0], ASIM_STORE_WRITE, asim_hostmem_libc(), &store, &err),
                     ASIM_OK, "%s", err.message);
        cr_assert_eq(asim_store_merge(store, &steps[i][1], 1, &counts, &err), ASIM_OK, "%s", err.message);
        cr_assert_eq(counts.added, 1);
        asim_store_close(store);
    }
    query("SELECT count(*)||event||message FROM ooms", "16");
    unlink(path);
    memcpy(path, older, sizeof path);
    query("PRAGMA user_version", "2");
    query("SELECT count(*)||event||message FROM ooms", "16");
    query("SELECT count(*) FROM runs", "2");
}

Test(store, missing_places_are_told)
{
    asim_store *store = NULL;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_store_open(path, ASIM_STORE_READ, asim_hostmem_libc(), &store, &err), ASIM_E_INPUT);
    cr_assert(strstr(err.message, "there is no such store"));
    snprintf(path, sizeof path, "%s/none/a.db", folder);
    refused(ASIM_E_SYSTEM, "can't be created");
    cr_assert_null(store);
}

/* An empty file is what a process that was killed while it created a store may leave. */
Test(store, an_empty_file_becomes_a_store)
{
    fclose(fopen(path, "w"));
    asim_stored_run run = example();
    int64_t id = 0;
    bool is_new = false;
    cr_assert_eq(add(&run, &id, &is_new, NULL), ASIM_OK);
    cr_assert_eq(faults_found(), 0);
}

Test(store, a_full_disk_leaves_nothing_behind)
{
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){20000, 20000});
        asim_stored_run run = example();
        int64_t id;
        bool is_new;
        asim_err err = ASIM_ERR_INIT;
        _exit(add(&run, &id, &is_new, &err) == ASIM_E_SYSTEM && strstr(err.message, "File too large") ? 0
                                                                                                      : 1);
    }
    int status = 1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    cr_assert_neq(rmdir(folder), -1, "something was left behind");
    cr_assert_eq(mkdir(folder, 0700), 0);
}

Test(store, a_fault_is_found)
{
    asim_stored_run run = example();
    int64_t id = 0;
    bool is_new = false;
    cr_assert_eq(add(&run, &id, &is_new, NULL), ASIM_OK);
    execute("DELETE FROM about");
    cr_assert_eq(faults_found(), 1);
    execute("INSERT INTO samples VALUES(77,1,1,1,1,1,1,1)"); /* no such run */
    cr_assert_eq(faults_found(), 2);
    execute(
        "INSERT INTO ooms VALUES(1,1,0,1,1,1,1,1,1,'')"); /* of a run without failures: by status, by count */
    cr_assert_eq(faults_found(), 4);
}

static void count_row(void *ctx, const asim_store_row *row)
{
    ++*(int *)ctx;
    cr_assert_str_eq(row->trace_path, "it's.zst");
    cr_assert_eq(row->peak_reserved_bytes, 4096);
}

/* Eight processes store eight runs each, all at once, into a file that none of them finds. */
Test(store, writers_wait_for_each_other, .timeout = 120)
{
    for (int writer = 0; writer < 8; writer++)
        if (fork() == 0) {
            int failed = 0;
            for (int i = 0; i < 8; i++) {
                asim_stored_run run = example();
                int64_t id;
                bool is_new;
                run.seed = (uint64_t)(writer * 8 + i);
                failed |= add(&run, &id, &is_new, NULL) != ASIM_OK || !is_new;
            }
            _exit(failed);
        }
    int status;
    while (wait(&status) > 0)
        cr_assert_eq(status, 0);
    asim_store *store;
    int rows = 0;
    cr_assert_eq(asim_store_open(path, ASIM_STORE_READ, asim_hostmem_libc(), &store, NULL), ASIM_OK);
    cr_assert_eq(asim_store_list(store, count_row, &rows, NULL), ASIM_OK);
    asim_store_close(store);
    cr_assert_eq(rows, 64);
}

/* Of a policy with numbers of its own, and of one without: neither lacks anything, and both are found again.
 */
Test(store, own_metrics_are_kept_and_found)
{
    asim_err err = ASIM_ERR_INIT;
    asim_stored_run plain = example(), own = example();
    int64_t id;
    bool is_new, found;
    own.policy = "tiers";
    own.record.own[0] = (asim_own_metric){"sram_hits", 17};
    own.record.own_count = 1;
    cr_assert_eq(add(&plain, &id, &is_new, &err), ASIM_OK, "%s", err.message);
    cr_assert_eq(add(&own, &id, &is_new, &err), ASIM_OK, "%s", err.message);

    asim_store *store;
    asim_kept_run kept;
    uint64_t faults, runs;
    int heard = 0;
    cr_assert_eq(asim_store_open(path, ASIM_STORE_READ, asim_hostmem_libc(), &store, &err), ASIM_OK);
    cr_assert_eq(asim_store_check(store, count_fault, &heard, &faults, &runs, &err), ASIM_OK);
    cr_assert_eq(faults, 0);
    asim_run_key key = {own.trace_digest,  own.policy,          own.params, own.device,
                        own.device_digest, own.record.capacity, own.seed};
    cr_assert_eq(asim_store_find(store, &key, &kept, &found, &err), ASIM_OK, "%s", err.message);
    cr_assert(found);
    cr_assert_eq(kept.run_id, id);
    cr_assert_eq(kept.record.placement_digest, 0xAB);
    cr_assert_eq(kept.record.status, ASIM_RUN_OK);
    cr_assert_eq(kept.record.metrics[ASIM_METRIC_peak_reserved_bytes], 4096);
    cr_assert_eq(kept.record.own_count, 1);
    cr_assert_str_eq(kept.record.own[0].name, "sram_hits");
    cr_assert_eq(kept.record.own[0].value, 17);
    key.seed++;
    cr_assert_eq(asim_store_find(store, &key, &kept, &found, &err), ASIM_OK, "%s", err.message);
    cr_assert_not(found);
    asim_store_close(store);
}
