/* allocsim fit: the smallest device on which a trace runs, a line for each policy and trace. */
#include "sim/fit.h"
#include "tools/json.h"
#include "tools/load.h"
#include "tools/outcome.h"
#include "tools/units.h"
#include "traces/native.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

extern const asim_verb asim_verb_fit;

typedef struct options {
    asim_option_list policies;
    const char *max_split, *conf, *torch, *device;
    uint64_t capacity, jobs, runs;
    int format;
} options;

static const options defaults = {.runs = 4000};
static const char *const formats[] = {"table", "json", NULL};

#define AT(field) offsetof(options, field)
static const asim_option table[] = {
    {.name = "policy",
     .letter = 'p',
     .type = ASIM_OPTION_LIST,
     .offset = AT(policies),
     .argument = "NAME[,KEY=V...]",
     .help = "policy and parameters; repeatable [torchcache]"},
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
     .help = "the PyTorch release whose rules hold"},
    {.name = "capacity",
     .type = ASIM_OPTION_SIZE,
     .offset = AT(capacity),
     .argument = "SIZE",
     .help = "the largest device looked at [the profile's]",
     .min = 1,
     .max = INT64_MAX},
    {.name = "device",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(device),
     .argument = "PROFILE",
     .help = "device profile, by name or file [generic-80g]"},
    {.name = "runs",
     .type = ASIM_OPTION_NUMBER,
     .offset = AT(runs),
     .argument = "N",
     .help = "most runs for an exact answer [4000]",
     .min = 16,
     .max = UINT64_C(1) << 32},
    {.name = "jobs",
     .letter = 'j',
     .type = ASIM_OPTION_NUMBER,
     .offset = AT(jobs),
     .argument = "N",
     .help = "threads [all cores]",
     .min = 1,
     .max = 64},
    {.name = "format",
     .letter = 'f',
     .type = ASIM_OPTION_CHOICE,
     .offset = AT(format),
     .argument = "F",
     .help = "table or json",
     .choices = formats},
};

typedef struct answer {
    const char *trace;
    const asim_setup *setup;
    asim_fit fit;
    uint64_t top, granule, lower_bound; /* bytes */
} answer;

typedef struct bar {
    asim_progress *progress;
    uint64_t shown;
} bar;

static bool advance(void *ctx, uint64_t settled, uint64_t granules)
{
    bar *b = ctx;
    if (settled < b->shown) { /* a second walk */
        asim_progress_expect(b->progress, granules);
        b->shown = 0;
    }
    asim_progress_advance(b->progress, settled - b->shown);
    b->shown = settled;
    return false;
}

/* What no placement of the policy can do without, from a run on the largest device. */
static asim_code find_bound(const asim_cli *cli, const asim_fit_request *request, answer *a, asim_err *err)
{
    asim_run_config config = request->config;
    asim_engine *engine = NULL;
    asim_run_record record;
    config.capacity = request->top;
    asim_code code = asim_engine_new(&config, cli->mem, &engine, err);
    if (!code && !(code = asim_engine_run(engine, err))) {
        asim_engine_record(engine, &record);
        a->lower_bound = record.metrics[ASIM_METRIC_lower_bound_bytes];
    }
    asim_engine_free(engine);
    return code;
}

static void print_islands(const answer *a)
{
    char x[ASIM_UNITS_MAX], y[ASIM_UNITS_MAX];
    const asim_fit *fit = &a->fit;
    size_t shown = 0, hidden = 0;
    for (size_t i = 0; i < fit->span_count; i++) {
        const asim_fit_span *span = &fit->spans[i];
        if (span->runs || span->lowest < fit->smallest)
            continue;
        if (shown == 4) {
            hidden++;
            continue;
        }
        printf("%s%s to %s", shown ? ", " : "  but fails from ", asim_human_bytes(span->lowest, x),
               asim_human_bytes(span->below - a->granule, y));
        shown++;
    }
    if (hidden)
        printf(" and in %zu more ranges", hidden);
    if (shown)
        putchar('\n');
}

static void print_answer(const answer *a)
{
    char x[ASIM_UNITS_MAX], y[ASIM_UNITS_MAX], z[ASIM_UNITS_MAX];
    const asim_fit *fit = &a->fit;
    printf("%s, %s%s%s\n", a->trace, a->setup->policy->name, a->setup->canonical[0] ? "," : "",
           a->setup->canonical);
    if (!fit->ever) {
        printf("  does not run on any device up to %s; --capacity looks further\n",
               asim_human_bytes(a->top, x));
    } else {
        printf("  runs on %s (%" PRIu64 " bytes)", asim_human_bytes(fit->smallest, x), fit->smallest);
        if (fit->smallest == fit->always)
            printf(fit->beyond ? " and on every larger device\n" : " and on every larger device up to %s\n",
                   asim_human_bytes(a->top, y));
        else if (fit->always == UINT64_MAX)
            printf(", yet not on %s\n", asim_human_bytes(a->top, y));
        else
            printf(", on every device %s %s (%" PRIu64 " bytes)\n", fit->beyond ? "from" : "looked at from",
                   asim_human_bytes(fit->always, y), fit->always);
        print_islands(a);
    }
    printf("  live blocks alone need %s; ", asim_human_bytes(a->lower_bound, x));
    if (fit->step == a->granule)
        printf("exact to the granule of %s, %" PRIu64 " runs\n", asim_human_bytes(a->granule, y),
               fit->run_count);
    else
        printf("looked at every %s, as every granule would take more than --runs: exact where\n"
               "  the outcome changes, blind in between; %" PRIu64 " runs\n",
               asim_human_bytes(fit->step, z), fit->run_count);
}

static void json_answer(asim_json *json, const answer *a)
{
    const asim_fit *fit = &a->fit;
    asim_json_begin(json, NULL, '{');
    asim_json_text(json, "trace", a->trace);
    asim_json_text(json, "policy", a->setup->policy->name);
    asim_json_text(json, "params", a->setup->canonical);
    if (fit->ever)
        asim_json_number(json, "smallest_bytes", fit->smallest);
    else
        asim_json_null(json, "smallest_bytes");
    if (fit->always != UINT64_MAX)
        asim_json_number(json, "always_bytes", fit->always);
    else
        asim_json_null(json, "always_bytes");
    asim_json_number(json, "looked_up_to_bytes", a->top);
    asim_json_number(json, "holds_beyond", fit->beyond);
    asim_json_number(json, "step_bytes", fit->step);
    asim_json_number(json, "lower_bound_bytes", a->lower_bound);
    asim_json_number(json, "runs", fit->run_count);
    asim_json_begin(json, "spans", '[');
    for (size_t i = 0; i < fit->span_count; i++) {
        asim_json_begin(json, NULL, '{');
        asim_json_number(json, "lowest_bytes", fit->spans[i].lowest);
        asim_json_number(json, "below_bytes", fit->spans[i].below);
        asim_json_number(json, "runs", fit->spans[i].runs);
        asim_json_end(json, '}');
    }
    asim_json_end(json, ']');
    asim_json_end(json, '}');
}

typedef struct context {
    asim_cli *cli;
    const options *o;
    const asim_profile *profile;
    asim_json json;
} context;

/* One policy on one trace: found and printed. The smallest device is added to *worst where it is larger. */
static asim_code fit_policy(context *c, const asim_trace *trace, const char *path, const char *policy,
                            uint64_t *worst, asim_err *err)
{
    const options *o = c->o;
    const asim_setup_request wanted = {policy, o->max_split, o->conf, o->torch, o->device};
    asim_setup setup;
    asim_code code = asim_setup_policy(c->cli, &wanted, trace, &setup, err);
    if (code)
        return code;
    asim_progress progress;
    asim_progress_init(&progress, c->cli, "fitting");
    bar shown = {&progress, 0};
    uint64_t top = c->profile->capacity_bytes;
    for (uint32_t i = 0; i < trace->device_count; i++)
        top = trace->devices[i].capacity > top ? trace->devices[i].capacity : top;
    answer a = {.trace = path, .setup = &setup, .top = o->capacity ? o->capacity : top};
    a.granule = c->profile->granule_bytes;
    a.top -= a.top % a.granule;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    asim_fit_request request = {.config = {.trace = trace,
                                           .policy = setup.policy,
                                           .params = setup.params,
                                           .profile = c->profile,
                                           .ignore_recorded = true},
                                .top = a.top,
                                .max_runs = o->runs,
                                .jobs = o->jobs     ? (unsigned)o->jobs
                                        : cores > 0 ? (unsigned)cores
                                                    : 1,
                                .progress = advance,
                                .ctx = &shown};
    asim_progress_expect(&progress, a.top / a.granule);
    code = asim_fit_find(&request, c->cli->mem, &a.fit, err);
    if (!code)
        code = find_bound(c->cli, &request, &a, err);
    asim_progress_fini(&progress);
    if (!code && o->format)
        json_answer(&c->json, &a);
    else if (!code)
        print_answer(&a);
    if (!code && worst)
        *worst = !a.fit.ever ? UINT64_MAX : a.fit.always != UINT64_MAX ? a.fit.always : a.fit.smallest;
    asim_fit_fini(&a.fit, c->cli->mem);
    asim_setup_fini(&setup, c->cli->mem);
    return code;
}

static asim_code fit_trace(context *c, const char *path, uint64_t *needs, asim_err *err)
{
    static const char *const torchcache[] = {"torchcache"};
    const size_t count = c->o->policies.count ? c->o->policies.count : 1;
    const char *const *policies =
        c->o->policies.count ? (const char *const *)c->o->policies.items : torchcache;
    asim_trace *trace = NULL;
    asim_code code = asim_load_trace(c->cli, path, &trace, NULL, err);
    if (code)
        return code;
    for (size_t i = 0; i < count && !code; i++)
        code = fit_policy(c, trace, path, policies[i], &needs[i], err);
    asim_trace_release(trace);
    return code ? (asim_err_context(err, "%s", path), code) : ASIM_OK;
}

/* Of several traces (the ranks of one job): which needs the largest device. */
static void print_worst(const context *c, char **traces, size_t count, const uint64_t *needs, size_t policies)
{
    char x[ASIM_UNITS_MAX];
    for (size_t p = 0; p < policies; p++) {
        size_t worst = 0;
        for (size_t t = 1; t < count; t++)
            if (needs[t * policies + p] > needs[worst * policies + p])
                worst = t;
        const uint64_t need = needs[worst * policies + p];
        printf("all %zu traces, %s: ", count, c->o->policies.count ? c->o->policies.items[p] : "torchcache");
        if (need == UINT64_MAX)
            printf("%s does not run\n", traces[worst]);
        else
            printf("%s, because of %s\n", asim_human_bytes(need, x), traces[worst]);
    }
}

static int run(asim_cli *cli, const void *values, char **operands, size_t count)
{
    const options *o = values;
    asim_err err = ASIM_ERR_INIT;
    asim_profile profile;
    if (asim_setup_profile(cli, o->device, &profile, &err))
        return asim_say_error(&err);
    if (o->capacity && o->capacity < profile.granule_bytes) {
        asim_fail(&err, ASIM_E_USAGE, "--capacity: less than the device's granule of %" PRIu64 " bytes",
                  profile.granule_bytes);
        return asim_say_error(&err);
    }
    const size_t policies = o->policies.count ? o->policies.count : 1;
    for (size_t i = 0; i < o->policies.count || i == 0; i++) { /* before the first trace is read */
        const asim_setup_request wanted = {o->policies.count ? o->policies.items[i] : NULL, o->max_split,
                                           o->conf, o->torch, o->device};
        asim_setup trial;
        if (asim_setup_policy(cli, &wanted, NULL, &trial, &err))
            return asim_say_error(&err);
        asim_setup_fini(&trial, cli->mem);
    }
    uint64_t *needs = asim_mem_new(cli->mem, count * policies, sizeof *needs);
    if (!needs) {
        asim_fail_memory(&err, count * policies * sizeof *needs);
        return asim_say_error(&err);
    }
    context c = {.cli = cli, .o = o, .profile = &profile, .json = {.out = stdout}};
    asim_code code = ASIM_OK;
    if (o->format)
        asim_json_begin(&c.json, NULL, '[');
    for (size_t i = 0; i < count && !code; i++)
        code = fit_trace(&c, operands[i], needs + i * policies, &err);
    if (o->format && !code)
        asim_json_end(&c.json, ']');
    else if (!code && count > 1)
        print_worst(&c, operands, count, needs, policies);
    asim_mem_free(cli->mem, needs, count * policies, sizeof *needs);
    return code ? asim_say_error(&err) : 0;
}

const asim_verb asim_verb_fit = {
    .name = "fit",
    .operands = "TRACE...",
    .summary = "The smallest device memory on which a trace runs, per policy",
    .example = "fit --policy torchcache --max-split 256 trace.zst",
    .options = table,
    .option_count = sizeof table / sizeof table[0],
    .values_size = sizeof(options),
    .defaults = &defaults,
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .run = run,
};
