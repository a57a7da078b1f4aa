/* allocsim run: traces through one policy; what comes out is printed and stored. */
#include "tools/expect.h"
#include "tools/outcome.h"
#include "traces/out_file.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const asim_verb asim_verb_run;

enum {
    RELEASES_MAX = 32
};

enum {
    FORMAT_TABLE,
    FORMAT_JSON,
    FORMAT_CSV,
    FORMAT_SUMMARY,
    FORMAT_SUMMARY_SHORT,
    FORMAT_TORCH_STATS,
};

typedef struct options {
    const char *policy, *max_split, *conf, *torch, *device, *db, *snapshot;
    uint64_t capacity, jobs, seed, samples, history;
    asim_option_list expect;
    int format, check;
    bool no_db, layout;
} options;

static const options defaults = {.db = "allocsim.db", .samples = 2000, .history = UINT64_MAX};

static const char *const formats[] = {"table",         "json",        "csv", "summary",
                                      "summary-short", "torch-stats", NULL};
static const char *const checks[] = {"off", "placements", "full", NULL};

#define AT(field) offsetof(options, field)
static const asim_option table[] = {
    {.name = "policy",
     .letter = 'p',
     .type = ASIM_OPTION_TEXT,
     .offset = AT(policy),
     .argument = "NAME[,KEY=V...]",
     .help = "policy and parameters [torchcache]"},
    {.name = "max-split",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(max_split),
     .argument = "MIB|none",
     .help = "the parameter max_split_size_mb"},
    {.name = "conf",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(conf),
     .argument = "STRING",
     .help = "as PYTORCH_CUDA_ALLOC_CONF [the recording's]"},
    {.name = "torch",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(torch),
     .argument = "VERSION",
     .help = "PyTorch release to follow [2.15; a recording's]"},
    {.name = "capacity",
     .type = ASIM_OPTION_SIZE,
     .offset = AT(capacity),
     .argument = "SIZE",
     .help = "device memory, as in 40GiB",
     .min = 1,
     .max = INT64_MAX},
    {.name = "device",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(device),
     .argument = "PROFILE",
     .help = "device profile, by name or file [generic-80g]"},
    {.name = "db",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(db),
     .argument = "FILE",
     .help = "the store [allocsim.db]"},
    {.name = "no-db", .type = ASIM_OPTION_FLAG, .offset = AT(no_db), .help = "store nothing"},
    {.name = "format",
     .letter = 'f',
     .type = ASIM_OPTION_CHOICE,
     .offset = AT(format),
     .argument = "FORMAT",
     .help = "table, json, csv, summary[-short], torch-stats",
     .choices = formats},
    {.name = "check",
     .type = ASIM_OPTION_CHOICE,
     .offset = AT(check),
     .argument = "LEVEL",
     .help = "off, placements or full [off]",
     .choices = checks},
    {.name = "expect",
     .type = ASIM_OPTION_LIST,
     .offset = AT(expect),
     .argument = "EXPR",
     .help = "no-oom, METRIC<=SIZE, ...: exit 1 if not so"},
    {.name = "jobs",
     .letter = 'j',
     .type = ASIM_OPTION_NUMBER,
     .offset = AT(jobs),
     .argument = "N",
     .help = "traces at a time [all cores]",
     .min = 1,
     .max = 1024},
    {.name = "seed",
     .type = ASIM_OPTION_NUMBER,
     .offset = AT(seed),
     .argument = "N",
     .help = "of randomised policies [0]",
     .max = INT64_MAX},
    {.name = "layout",
     .type = ASIM_OPTION_FLAG,
     .offset = AT(layout),
     .help = "store the final segments and blocks, too"},
    {.name = "snapshot",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(snapshot),
     .argument = "FILE",
     .help = "write the end as a PyTorch snapshot pickle"},
    {.name = "history",
     .type = ASIM_OPTION_NUMBER,
     .offset = AT(history),
     .argument = "N",
     .help = "latest entries of the snapshot's history [all]",
     .min = 1,
     .max = INT64_MAX},
    {.name = "samples",
     .type = ASIM_OPTION_NUMBER,
     .offset = AT(samples),
     .argument = "N",
     .help = "rows of the timeline stored, 6 or more [2000]",
     .max = 10000000},
};

/* What the workers share: they take the next trace, and hand its outcome over in the order of the arguments.
 */
typedef struct batch {
    const asim_cli *cli;
    const asim_outcome_request *request;
    char **paths;
    size_t count, next;
    asim_outcome *outcomes;
    asim_code *codes;
    asim_err *errs;
    bool *ready;
    size_t delivered; /* outcomes before this one are printed and freed */
    size_t ahead;     /* no worker starts a trace this many places after it */
    asim_progress *progress;
    pthread_mutex_t lock;
    pthread_cond_t changed;
} batch;

static void *work(void *argument)
{
    batch *b = argument;
    for (;;) {
        pthread_mutex_lock(&b->lock);
        while (b->next < b->count && b->next >= b->delivered + b->ahead)
            pthread_cond_wait(&b->changed, &b->lock);
        size_t index = b->next < b->count ? b->next++ : b->count;
        pthread_mutex_unlock(&b->lock);
        if (index == b->count)
            return NULL;
        b->errs[index] = (asim_err)ASIM_ERR_INIT;
        asim_code code = asim_outcome_run(b->cli, b->request, b->paths[index], b->progress,
                                          &b->outcomes[index], &b->errs[index]);
        pthread_mutex_lock(&b->lock);
        b->codes[index] = code;
        b->ready[index] = true;
        pthread_cond_broadcast(&b->changed);
        pthread_mutex_unlock(&b->lock);
    }
}

static int check_expectations(const asim_outcome *outcome, const asim_expectation *expectations, size_t count)
{
    int status = 0;
    for (size_t i = 0; i < count; i++)
        if (!asim_expect_holds(&expectations[i], &outcome->run.record)) {
            asim_metric metric = expectations[i].metric;
            asim_say("%s: expected %s, but %s is %" PRIu64, outcome->run.trace_path, expectations[i].text,
                     asim_metric_name(metric), outcome->run.record.metrics[metric]);
            status = ASIM_EXIT_NO;
        }
    return status;
}

static int print(const asim_cli *cli, const options *o, const asim_outcome *outcome, size_t index)
{
    asim_err err = ASIM_ERR_INIT;
    switch (o->format) {
    case FORMAT_TABLE:
        if (index > 0)
            putchar('\n');
        asim_print_table(stdout, outcome, cli->colour);
        break;
    case FORMAT_JSON:
        asim_print_json(stdout, outcome);
        break;
    case FORMAT_CSV:
        if (index == 0)
            asim_print_csv_header(stdout);
        asim_print_csv(stdout, &outcome->run);
        break;
    case FORMAT_TORCH_STATS:
        asim_print_torch_stats(stdout, outcome);
        break;
    default:
        if (asim_print_summary(stdout, outcome, o->format == FORMAT_SUMMARY_SHORT, &err))
            return asim_say_error(&err);
    }
    return 0;
}

/* What is odd about the option string: the user's own once for each release that is followed, unless it was
 * said before the first trace; a recording's with its trace. */
static void warn_of_conf(const options *o, const asim_outcome *outcome, const char **said)
{
    const asim_setup *setup = &outcome->setup;
    char prefix[PATH_MAX + 64];
    if (!setup->policy || (o->conf && setup->torch_named))
        return;
    if (!o->conf) {
        if (!outcome->settings[0])
            return;
        snprintf(prefix, sizeof prefix, "%s: the recording's settings", outcome->run.trace_path);
        asim_setup_warn_conf(setup, outcome->settings, prefix);
        return;
    }
    size_t i = 0;
    while (i < RELEASES_MAX && said[i] && said[i] != setup->torch)
        i++;
    if (i < RELEASES_MAX && !said[i]) {
        said[i] = setup->torch;
        asim_setup_warn_conf(setup, o->conf, "--conf");
    }
}

/* One outcome: stored first, so that what is printed is true. Returns its exit status. */
static int deliver(const asim_cli *cli, const options *o, asim_store *store, asim_outcome *outcome,
                   asim_code code, asim_err *err, const asim_expectation *expectations, size_t index)
{
    if (code && outcome->run.record.status != ASIM_RUN_ERROR)
        return asim_say_error(err);
    if (code) {
        print(cli, o, outcome, index);
        return asim_say_error(err);
    }
    if (store) {
        if (asim_store_add(store, &outcome->run, &outcome->run_id, &outcome->is_new, err))
            return asim_say_error(err);
        outcome->db = o->db;
    }
    int status = print(cli, o, outcome, index);
    if (o->format != FORMAT_TABLE && outcome->db)
        asim_note(cli, "%s as run %" PRId64 " in %s", outcome->is_new ? "stored" : "already stored",
                  outcome->run_id, o->db);
    int expected = check_expectations(outcome, expectations, o->expect.count);
    return status ? status : expected;
}

static int run_batch(asim_cli *cli, const options *o, batch *b, asim_store *store,
                     const asim_expectation *expectations)
{
    const char *said[RELEASES_MAX] = {NULL};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t jobs = o->jobs ? (size_t)o->jobs : cores > 0 ? (size_t)cores : 1;
    if (jobs > b->count)
        jobs = b->count;
    b->ahead = 2 * jobs;
    pthread_t *threads = asim_mem_new(cli->mem, jobs, sizeof *threads);
    size_t started = 0;
    while (threads && started < jobs && pthread_create(&threads[started], NULL, work, b) == 0)
        started++;
    int status = 0;
    if (started == 0) {
        asim_say("no thread can be started: out of memory or over a limit of the system");
        status = ASIM_E_SYSTEM;
    }
    for (size_t i = 0; i < b->count && started > 0; i++) {
        pthread_mutex_lock(&b->lock);
        while (!b->ready[i])
            pthread_cond_wait(&b->changed, &b->lock);
        pthread_mutex_unlock(&b->lock);
        asim_progress_wipe(b->progress);
        if (!b->codes[i])
            warn_of_conf(o, &b->outcomes[i], said);
        int one = deliver(cli, o, store, &b->outcomes[i], b->codes[i], &b->errs[i], expectations, i);
        if (one > status)
            status = one;
        asim_outcome_fini(&b->outcomes[i], cli->mem);
        pthread_mutex_lock(&b->lock);
        b->delivered = i + 1;
        pthread_cond_broadcast(&b->changed);
        pthread_mutex_unlock(&b->lock);
    }
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    asim_mem_free(cli->mem, threads, jobs, sizeof *threads);
    return status;
}

static int run_traces(asim_cli *cli, const options *o, const asim_outcome_request *request, char **paths,
                      size_t count, asim_store *store, const asim_expectation *expectations)
{
    const asim_hostmem *mem = cli->mem;
    asim_progress progress;
    batch b = {.cli = cli, .request = request, .paths = paths, .count = count, .progress = &progress};
    b.outcomes = asim_mem_new(mem, count, sizeof *b.outcomes);
    b.codes = asim_mem_new(mem, count, sizeof *b.codes);
    b.errs = asim_mem_new(mem, count, sizeof *b.errs);
    b.ready = asim_mem_new(mem, count, sizeof *b.ready);
    int status = ASIM_E_SYSTEM;
    if (b.outcomes && b.codes && b.errs && b.ready) {
        pthread_mutex_init(&b.lock, NULL);
        pthread_cond_init(&b.changed, NULL);
        asim_progress_init(&progress, cli, "replaying");
        status = run_batch(cli, o, &b, store, expectations);
        asim_progress_fini(&progress);
        pthread_cond_destroy(&b.changed);
        pthread_mutex_destroy(&b.lock);
    } else {
        asim_say("out of host memory");
    }
    asim_mem_free(mem, b.outcomes, count, sizeof *b.outcomes);
    asim_mem_free(mem, b.codes, count, sizeof *b.codes);
    asim_mem_free(mem, b.errs, count, sizeof *b.errs);
    asim_mem_free(mem, b.ready, count, sizeof *b.ready);
    return status;
}

/* A slip of the keyboard may not cost a file: only a pickle is replaced, and never the one that is replayed.
 */
static asim_code check_snapshot(const char *path, const char *trace, asim_err *err)
{
    enum {
        PICKLE = 0x80
    };
    struct stat in, out;
    if (stat(path, &out) != 0 || !S_ISREG(out.st_mode))
        return ASIM_OK;
    if (stat(trace, &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
        return asim_fail(err, ASIM_E_USAGE, "%s is both the trace and the snapshot; name another file", path);
    FILE *file = fopen(path, "rb");
    int first = file ? getc(file) : EOF;
    if (file)
        fclose(file);
    if (first != EOF && first != PICKLE)
        return asim_fail(err, ASIM_E_USAGE, "%s exists and is no pickle; name another file, or remove it",
                         path);
    return ASIM_OK;
}

/* Everything that can be wrong with the options is found before the first trace is read. */
static asim_code check_setup(const asim_cli *cli, const options *o, const asim_setup_request *request,
                             char **operands, size_t count, asim_err *err)
{
    if (o->snapshot && count > 1)
        return asim_fail(err, ASIM_E_USAGE, "--snapshot: one file holds one run; give one trace");
    if (o->samples > 0 && o->samples < 6)
        return asim_fail(err, ASIM_E_USAGE, "--samples: write 0 for none, or 6 and more");
    asim_setup trial;
    asim_code code = asim_setup_policy(cli, request, NULL, &trial, err);
    if (code)
        return code;
    if (o->format >= FORMAT_SUMMARY && !trial.policy->report)
        code = asim_fail(err, ASIM_E_USAGE,
                         "--format %s shows PyTorch's statistics; the policy %s keeps none (torchcache does)",
                         formats[o->format], trial.policy->name);
    if (!code)
        code = asim_setup_check_conf(&trial, o->conf, err);
    if (!code && trial.torch_named)
        asim_setup_warn_conf(&trial, o->conf, "--conf");
    asim_setup_fini(&trial, cli->mem);
    if (!code && o->snapshot &&
        ((code = check_snapshot(o->snapshot, operands[0], err)) ||
         (code = asim_out_file_try(o->snapshot, cli->mem, err))))
        asim_err_context(err, "--snapshot");
    return code;
}

static int run(asim_cli *cli, const void *values, char **operands, size_t count)
{
    const options *o = values;
    asim_err err = ASIM_ERR_INIT;
    asim_setup_request setup = {o->policy, o->max_split, o->conf, o->torch, o->device};
    asim_profile profile;
    if (check_setup(cli, o, &setup, operands, count, &err) ||
        asim_setup_profile(cli, o->device, &profile, &err))
        return asim_say_error(&err);
    asim_expectation *expectations = asim_mem_new(cli->mem, o->expect.count + 1, sizeof *expectations);
    if (!expectations) {
        asim_fail_memory(&err, (o->expect.count + 1) * sizeof *expectations);
        return asim_say_error(&err);
    }
    asim_store *store = NULL;
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < o->expect.count && !code; i++)
        code = asim_expect_parse(o->expect.items[i], &expectations[i], &err);
    if (!code && !o->no_db)
        code = asim_store_open(o->db, ASIM_STORE_WRITE, cli->mem, &store, &err);
    int status;
    if (code) {
        status = asim_say_error(&err);
    } else {
        asim_outcome_request request = {.setup = &setup,
                                        .profile = &profile,
                                        .capacity = o->capacity,
                                        .seed = o->seed,
                                        .check = (asim_check)o->check,
                                        .samples = o->no_db ? 0 : (size_t)o->samples,
                                        .layout = o->layout && !o->no_db,
                                        .snapshot = o->snapshot,
                                        .history = o->history,
                                        .stats =
                                            o->format == FORMAT_SUMMARY || o->format == FORMAT_SUMMARY_SHORT,
                                        .all_stats = o->format == FORMAT_TORCH_STATS};
        status = run_traces(cli, o, &request, operands, count, store, expectations);
    }
    asim_store_close(store);
    asim_mem_free(cli->mem, expectations, o->expect.count + 1, sizeof *expectations);
    return status;
}

const asim_verb asim_verb_run = {
    .name = "run",
    .operands = "TRACE...",
    .summary = "Replays traces through one policy, prints and stores the result",
    .example = "run --policy torchcache --max-split 256 trace.zst",
    .options = table,
    .option_count = sizeof table / sizeof table[0],
    .values_size = sizeof(options),
    .defaults = &defaults,
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .run = run,
};
