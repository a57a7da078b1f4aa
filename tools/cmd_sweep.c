/* allocsim sweep: policies by parameters by capacities by traces, side by side; resumes where it stopped. */
#include "tools/expect.h"
#include "tools/interrupt.h"
#include "tools/setup.h"
#include "tools/sweep_print.h"

#include <inttypes.h>
#include <string.h>

extern const asim_verb asim_verb_sweep;

enum {
    FORMAT_TABLE,
    FORMAT_JSON,
    FORMAT_CSV,
    DB_MAX = 4096,
};

typedef struct options {
    asim_option_list policies, sets, confs, expect;
    const char *max_split, *torch, *capacity, *device, *db, *shard;
    uint64_t jobs, seed, samples;
    int format, sort, check;
    bool no_db;
} options;

static const options defaults = {.db = "allocsim.db", .samples = 200};

static const char *const formats[] = {"table", "json", "csv", NULL};
static const char *const checks[] = {"off", "placements", "full", NULL};

#define AT(field) offsetof(options, field)
static const asim_option table[] = {
    {.name = "policy",
     .letter = 'p',
     .type = ASIM_OPTION_LIST,
     .offset = AT(policies),
     .argument = "NAME[,KEY=RANGE]",
     .help = "repeatable; all: every one [torchcache]"},
    {.name = "set",
     .type = ASIM_OPTION_LIST,
     .offset = AT(sets),
     .argument = "KEY=RANGE",
     .help = "of all policies that have it; repeatable"},
    {.name = "max-split",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(max_split),
     .argument = "RANGE",
     .help = "--set max_split_size_mb=RANGE"},
    {.name = "conf",
     .type = ASIM_OPTION_LIST,
     .offset = AT(confs),
     .argument = "STRING",
     .help = "as PYTORCH_CUDA_ALLOC_CONF; repeatable"},
    {.name = "torch",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(torch),
     .argument = "LIST",
     .help = "PyTorch releases whose rules hold"},
    {.name = "capacity",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(capacity),
     .argument = "RANGE",
     .help = "device memory, as in 24GiB,40GiB"},
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
    {.name = "shard",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(shard),
     .argument = "K/N",
     .help = "only part K of N, into FILE.K-of-N.db"},
    {.name = "format",
     .letter = 'f',
     .type = ASIM_OPTION_CHOICE,
     .offset = AT(format),
     .argument = "FORMAT",
     .help = "table, json or csv",
     .choices = formats},
    {.name = "sort",
     .type = ASIM_OPTION_CHOICE,
     .offset = AT(sort),
     .argument = "COLUMN",
     .help = "reserved, internal, ..., failures [listed]",
     .choices = asim_sweep_orders},
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
     .help = "runs at a time [all cores]",
     .min = 1,
     .max = 1024},
    {.name = "seed",
     .type = ASIM_OPTION_NUMBER,
     .offset = AT(seed),
     .argument = "N",
     .help = "of randomised policies [0]",
     .max = INT64_MAX},
    {.name = "samples",
     .type = ASIM_OPTION_NUMBER,
     .offset = AT(samples),
     .argument = "N",
     .help = "rows of the timeline stored a run [200]",
     .max = 10000000},
};

/* "2/8" is part 1 of 8, counted from 0. */
static asim_code read_shard(const char *text, size_t *ret_shard, size_t *ret_shards, asim_err *err)
{
    char first[24];
    size_t length = strcspn(text, "/");
    uint64_t shard = 0, shards = 0;
    snprintf(first, sizeof first, "%.*s", (int)(length < sizeof first ? length : sizeof first), text);
    if (text[length] != '/' || asim_parse_u64(first, &shard, NULL) ||
        asim_parse_u64(text + length + 1, &shards, NULL) || shard < 1 || shard > shards ||
        shards > ASIM_SWEEP_MAX)
        return asim_fail(err, ASIM_E_USAGE, "--shard '%.40s' is not K/N with K from 1 to N, as in 2/8", text);
    *ret_shard = (size_t)shard - 1;
    *ret_shards = (size_t)shards;
    return ASIM_OK;
}

/* A part has a store of its own, so that parts on machines that share a folder don't meet. */
static asim_code name_store(const options *o, size_t shard, size_t shards, char ret_name[DB_MAX],
                            asim_err *err)
{
    size_t length = strlen(o->db);
    size_t stem = length > 3 && strcmp(o->db + length - 3, ".db") == 0 ? length - 3 : length;
    int written = o->shard ? snprintf(ret_name, DB_MAX, "%.*s.%zu-of-%zu%s", (int)stem, o->db, shard + 1,
                                      shards, stem < length ? ".db" : "")
                           : snprintf(ret_name, DB_MAX, "%s", o->db);
    if (written < 0 || written >= DB_MAX)
        return asim_fail(err, ASIM_E_USAGE, "--db: the name of the store is too long");
    return ASIM_OK;
}

static int print(const asim_cli *cli, const options *o, const asim_sweep_view *view)
{
    asim_err err = ASIM_ERR_INIT;
    asim_code code = o->format == FORMAT_JSON  ? asim_sweep_json(stdout, view, cli->mem, &err)
                     : o->format == FORMAT_CSV ? asim_sweep_csv(stdout, view, cli->mem, &err)
                                               : asim_sweep_table(stdout, view, cli->mem, &err);
    return code ? asim_say_error(&err) : 0;
}

static void sum_up(const asim_cli *cli, const asim_sweep_job *job, const asim_sweep_outcome *outcome)
{
    size_t runs = outcome->ran + outcome->kept;
    if (outcome->failed)
        asim_say("without a result, by a fault: %zu of %zu runs (what reads the same was said once)",
                 outcome->failed, outcome->total);
    if (outcome->doubles)
        asim_note(cli, "configurations that are the same as another, and shown once: %zu", outcome->doubles);
    if (outcome->total == 0 && outcome->unopened == 0)
        asim_note(cli, "this part has no run: there are fewer runs than parts");
    else if (job->store && runs > 0)
        asim_note(cli, "runs in %s: %zu, of which %zu were there before", job->db, runs, outcome->kept);
}

/* Of every run, also of those that were stored before. */
static int check_expectations(const asim_sweep_view *view, const asim_expectation *expectations, size_t count)
{
    int status = 0;
    for (size_t t = 0; t < view->outcome->trace_count; t++)
        for (size_t c = 0; view->outcome->traces[t].opened && c < view->outcome->config_count; c++) {
            const asim_sweep_result *result = view->outcome->traces[t].results[c];
            for (size_t i = 0; result && result->done && i < count; i++) {
                if (asim_expect_holds(&expectations[i], &result->run.record))
                    continue;
                asim_metric metric = expectations[i].metric;
                asim_say("%s: %s%s%s: expected %s, but %s is %" PRIu64, result->run.trace_path,
                         result->run.policy, result->run.params[0] ? "," : "", result->run.params,
                         expectations[i].text, asim_metric_name(metric), result->run.record.metrics[metric]);
                status = ASIM_EXIT_NO;
            }
        }
    return status;
}

static int work(asim_cli *cli, const options *o, asim_sweep_job *job, const asim_expectation *expectations)
{
    asim_sweep_outcome outcome;
    job->stop = asim_interrupt_watch();
    asim_sweep_go(cli, job, &outcome);
    int status = outcome.status;
    if (atomic_load(job->stop)) {
        if (job->store)
            asim_say("stopped; runs in %s: %zu; the same command goes on from there", job->db,
                     outcome.ran + outcome.kept);
        else
            asim_say("stopped; nothing is stored");
        status = ASIM_E_SYSTEM;
    } else {
        const asim_sweep_view view = {.plan = job->plan,
                                      .outcome = &outcome,
                                      .profile = job->profile,
                                      .order = (asim_sweep_order)o->sort,
                                      .colour = cli->colour};
        int printed = print(cli, o, &view),
            expected = check_expectations(&view, expectations, o->expect.count);
        status = printed > status ? printed : status;
        status = expected > status ? expected : status;
        sum_up(cli, job, &outcome);
    }
    asim_sweep_outcome_fini(&outcome, cli->mem);
    return status;
}

static int run(asim_cli *cli, const void *values, char **operands, size_t count)
{
    const options *o = values;
    asim_err err = ASIM_ERR_INIT;
    const asim_sweep_request request = {o->policies, o->sets, o->confs, o->max_split, o->torch, o->capacity};
    asim_sweep_plan plan = {0};
    asim_profile profile;
    char db[DB_MAX];
    asim_sweep_job job = {.plan = &plan,
                          .profile = &profile,
                          .paths = operands,
                          .path_count = count,
                          .seed = o->seed,
                          .samples = (size_t)o->samples,
                          .jobs = (size_t)o->jobs,
                          .check = (asim_check)o->check,
                          .db = db};
    asim_code code = ASIM_OK;
    asim_expectation *expectations = asim_mem_new(cli->mem, o->expect.count + 1, sizeof *expectations);
    if (!expectations)
        code = asim_fail_memory(&err, (o->expect.count + 1) * sizeof *expectations);
    for (size_t i = 0; i < o->expect.count && !code; i++)
        code = asim_expect_parse(o->expect.items[i], &expectations[i], &err);
    if (!code && o->samples > 0 && o->samples < 6)
        code = asim_fail(&err, ASIM_E_USAGE, "--samples: write 0 for none, or 6 and more");
    if (!code && o->shard)
        code = read_shard(o->shard, &job.shard, &job.shards, &err);
    if (!code)
        code = name_store(o, job.shard, job.shards, db, &err);
    if (!code)
        code = asim_setup_profile(cli, o->device, &profile, &err);
    if (!code)
        code = asim_sweep_plan_make(cli, &request, &plan, &err);
    if (!code && plan.count > ASIM_SWEEP_MAX / count)
        code = asim_fail(&err, ASIM_E_USAGE,
                         "%zu configurations of %zu traces are more than %d runs: take larger steps, or "
                         "fewer traces at a time",
                         plan.count, count, ASIM_SWEEP_MAX);
    if (!code && !o->no_db)
        code = asim_store_open(db, ASIM_STORE_WRITE, cli->mem, &job.store, &err);
    int status = code ? asim_say_error(&err) : work(cli, o, &job, expectations);
    asim_store_close(job.store);
    asim_sweep_plan_fini(&plan, cli->mem);
    asim_mem_free(cli->mem, expectations, o->expect.count + 1, sizeof *expectations);
    asim_interrupt_follow();
    return status;
}

const asim_verb asim_verb_sweep = {
    .name = "sweep",
    .operands = "TRACE...",
    .summary = "Replays traces with every combination of policies and values",
    .text = "RANGE: values as in 64,128,none, and LOW:HIGH:+STEP or LOW:HIGH:xFACTOR.",
    .example = "sweep --policy torchcache --max-split none,32:256:x2 trace.zst",
    .options = table,
    .option_count = sizeof table / sizeof table[0],
    .values_size = sizeof(options),
    .defaults = &defaults,
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .run = run,
};
