/* allocsim tune: searches the settings that a user can really set, and says which line to paste. */
#include "tools/interrupt.h"
#include "tools/load.h"
#include "tools/tune_print.h"
#include "traces/info.h"
#include "traces/native.h"

#include <string.h>

extern const asim_verb asim_verb_tune;

enum {
    FORMAT_TABLE,
    FORMAT_JSON,
    SAMPLES = 200
};

typedef struct options {
    asim_option_list forbid;
    const char *conf, *torch, *device, *budget, *db;
    uint64_t capacity, jobs;
    int objective, format;
    bool no_db, afresh;
} options;

static const options defaults = {.db = "allocsim.db"};

static const char *const formats[] = {"table", "json", NULL};
static const char *const objectives[] = {"peak", "stall", "fit", NULL};

#define AT(field) offsetof(options, field)
static const asim_option table[] = {
    {.name = "objective",
     .type = ASIM_OPTION_CHOICE,
     .offset = AT(objective),
     .argument = "WHAT",
     .help = "peak, stall or fit (serve all requests) [peak]",
     .choices = objectives},
    {.name = "forbid",
     .type = ASIM_OPTION_LIST,
     .offset = AT(forbid),
     .argument = "NAME",
     .help = "leave this setting out; repeatable"},
    {.name = "conf",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(conf),
     .argument = "STRING",
     .help = "what is set now [the recording's, or nothing]"},
    {.name = "torch",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(torch),
     .argument = "VERSION",
     .help = "PyTorch release whose rules hold"},
    {.name = "capacity",
     .type = ASIM_OPTION_SIZE,
     .offset = AT(capacity),
     .argument = "SIZE",
     .help = "device memory, as in 24GiB",
     .min = 1,
     .max = INT64_MAX},
    {.name = "device",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(device),
     .argument = "PROFILE",
     .help = "device profile, by name or file [generic-80g]"},
    {.name = "afresh",
     .type = ASIM_OPTION_FLAG,
     .offset = AT(afresh),
     .help = "of recordings from mid-run: begin with nothing"},
    {.name = "budget",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(budget),
     .argument = "TIME",
     .help = "search no longer, as in 30s or 5m [no limit]"},
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
     .help = "table or json",
     .choices = formats},
    {.name = "jobs",
     .letter = 'j',
     .type = ASIM_OPTION_NUMBER,
     .offset = AT(jobs),
     .argument = "N",
     .help = "runs at a time [all cores]",
     .min = 1,
     .max = 1024},
};

/* "30s", "500ms", "5m", "1h". */
static asim_code read_budget(const char *text, uint64_t *ret_ns, asim_err *err)
{
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {{"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000}};
    char number[16];
    uint64_t value = 0;
    size_t digits = strspn(text, "0123456789");
    snprintf(number, sizeof number, "%.*s", (int)(digits < 15 ? digits : 15), text);
    if (digits > 0 && digits < 10 && !asim_parse_u64(number, &value, NULL) && value > 0)
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (strcmp(text + digits, units[i].unit) == 0) {
                *ret_ns = value * units[i].ns;
                return ASIM_OK;
            }
    return asim_fail(err, ASIM_E_USAGE, "--budget '%.40s' is no time: write 500ms, 30s, 5m or 1h", text);
}

static asim_code read_forbidden(const asim_option_list *forbid, unsigned *ret_bits, asim_err *err)
{
    for (size_t i = 0; i < forbid->count; i++) {
        size_t k = 0;
        while (asim_tune_knobs[k] && strcmp(asim_tune_knobs[k], forbid->items[i]) != 0)
            k++;
        if (k == ASIM_KNOBS) {
            const char *near = asim_nearest(forbid->items[i], asim_tune_knobs);
            return asim_fail(err, ASIM_E_USAGE,
                             "--forbid '%.60s': no such setting%s%s%s; there are max_split_size_mb, "
                             "garbage_collection_threshold, roundup_power2_divisions, expandable_segments, "
                             "large_segment_size_mb, empty_cache, preallocation, phase_settings",
                             forbid->items[i], near ? "; did you mean " : "", near ? near : "",
                             near ? "?" : "");
        }
        *ret_bits |= 1U << k;
    }
    return ASIM_OK;
}

static asim_code load_trace(const asim_cli *cli, asim_tune_trace *trace, bool afresh, asim_tune_sizes *sizes,
                            asim_err *err)
{
    const char *path = trace->path, *imported = NULL;
    asim_trace_info info;
    asim_code code = asim_load_trace(cli, path, &trace->original, &imported, err);
    if (code)
        return code;
    if (imported)
        asim_note(cli, "%s: a %s recording, imported in memory; 'allocsim import %s -o TRACE.zst' keeps it",
                  path, imported, path);
    if (trace->original->device_count == 0)
        return asim_fail(err, ASIM_E_INPUT, "%s: the trace names no device", path);
    if (afresh && trace->original->opening_segment_count)
        code = asim_tune_trace_afresh(trace->original, cli->mem, &trace->afresh, err);
    trace->trace = trace->afresh ? trace->afresh : trace->original;
    trace->needs = asim_mem_new(cli->mem, ASIM_DEVICES_MAX, sizeof *trace->needs);
    if (!code && !trace->needs)
        code = asim_fail_memory(err, ASIM_DEVICES_MAX * sizeof *trace->needs);
    if (!code)
        code = asim_tune_needs(trace->trace, trace->needs, cli->mem, err);
    if (!code)
        code = asim_tune_sizes_add(sizes, trace->trace, cli->mem, err);
    if (!code && !(code = asim_trace_describe(trace->trace, cli->mem, &info, err)))
        trace->peak_live_bytes = info.peak_live_bytes;
    return code ? asim_err_context(err, "%s", path) : ASIM_OK;
}

/* One program for all ranks: the early block is as large as the neediest asks for. */
static void share_needs(asim_tune_job *job)
{
    for (unsigned d = 0; d < ASIM_DEVICES_MAX; d++) {
        uint64_t most = 0;
        for (size_t t = 0; t < job->trace_count; t++)
            most = job->traces[t].needs[d].peak_bytes > most ? job->traces[t].needs[d].peak_bytes : most;
        for (size_t t = 0; t < job->trace_count; t++)
            job->traces[t].needs[d].peak_bytes = most;
    }
}

static asim_code load_traces(const asim_cli *cli, asim_tune_job *job, char **paths, bool afresh,
                             asim_tune_sizes *sizes, asim_err *err)
{
    for (size_t t = 0; t < job->trace_count; t++) {
        job->traces[t].path = paths[t];
        asim_code code = load_trace(cli, &job->traces[t], afresh, sizes, err);
        if (code)
            return code;
    }
    share_needs(job);
    return ASIM_OK;
}

/* Runs a setting on every trace under the referee, compares with what the search saw, and stores. */
static asim_code confirm(const asim_cli *cli, const asim_tune_job *job, const asim_tune_value *value,
                         asim_store *store, int64_t *ids, asim_err *err)
{
    const asim_outcome_request request = {
        .check = ASIM_CHECK_PLACEMENTS, .samples = SAMPLES, .stop = job->stop};
    uint64_t peak = 0, refused = 0;
    char words[ASIM_TUNE_TEXT_MAX];
    asim_tune_words(job->base, &value->setting, words);
    for (size_t t = 0; t < job->trace_count; t++) {
        char name[4096];
        asim_outcome outcome = {0};
        bool is_new, changed = job->traces[t].afresh || asim_tune_changes_events(&value->setting);
        snprintf(name, sizeof name, "%.2000s (%s%.1800s)", job->traces[t].path,
                 job->traces[t].afresh ? "afresh, " : "", words);
        asim_code code =
            asim_tune_run(cli, job, &value->setting, t, request, changed ? name : NULL, &outcome, err);
        const uint64_t reserved = outcome.run.record.metrics[ASIM_METRIC_peak_reserved_bytes];
        peak = reserved > peak ? reserved : peak;
        refused += outcome.run.record.metrics[ASIM_METRIC_ooms];
        if (!code && store)
            code = asim_store_add(store, &outcome.run, &ids[2 * t], &is_new, err);
        asim_outcome_fini(&outcome, cli->mem);
        if (code)
            return code;
    }
    if (peak != value->peak || refused != value->refused)
        return asim_fail(err, ASIM_E_BUG, "the confirming run of '%.200s' differs from that of the search",
                         words);
    return ASIM_OK;
}

static asim_code find_and_print(const asim_cli *cli, const options *o, asim_tune_job *job,
                                asim_tune_view *view, asim_store *store, asim_err *err)
{
    asim_tune_found found = {0};
    asim_tune_trap trap = {0};
    int64_t *ids = asim_mem_new(cli->mem, 2 * job->trace_count, sizeof *ids);
    asim_code code = ids ? asim_tune_search(cli, job, &found, err)
                         : asim_fail_memory(err, 2 * job->trace_count * sizeof *ids);
    view->found = &found;
    view->trap = &trap;
    if (!code)
        code = asim_tune_try_trap(cli, job, &found, &trap, err);
    if (!code && !found.values[0].faulty)
        code = confirm(cli, job, &found.values[0], store, ids, err);
    if (!code && asim_tune_gains(view))
        code = confirm(cli, job, &found.values[found.best], store, ids + 1, err);
    if (!code) {
        view->run_ids = ids;
        view->db = store ? o->db : NULL;
        if (o->format == FORMAT_JSON)
            asim_tune_json(stdout, view);
        else
            asim_tune_table(stdout, view);
    }
    asim_tune_found_fini(&found, cli->mem);
    asim_mem_free(cli->mem, ids, 2 * job->trace_count, sizeof *ids);
    return code;
}

static const char *why(const asim_setup *setup)
{
    return setup->torch_named ? "as named" : setup->torch_recorded ? "by the recording" : "assumed";
}

static asim_code work(const asim_cli *cli, const options *o, char **paths, asim_tune_job *job,
                      asim_store *store, asim_err *err)
{
    const asim_setup_request request = {.policy = "torchcache", .conf = o->conf, .torch = o->torch};
    asim_tune_sizes sizes = {0};
    asim_tune_base base = {0};
    asim_setup setup = {0};
    asim_code code = load_traces(cli, job, paths, o->afresh, &sizes, err);
    const asim_trace *first = job->traces[0].original;
    if (!code && !(code = asim_setup_policy(cli, &request, first, &setup, err)))
        code = asim_setup_check_conf(&setup, o->conf, err);
    if (!code) {
        const bool recorded = !o->conf && first->settings != ASIM_NO_INDEX;
        const char *given = recorded ? first->strings[first->settings].text : o->conf ? o->conf : "";
        asim_setup_warn_conf(&setup, o->conf, "--conf");
        code = asim_tune_base_make(asim_tc_release_named(setup.torch), given, &base, err);
        base.from_recording = recorded;
        if (code)
            asim_err_context(err, recorded ? "the recording's settings" : "--conf");
    }
    if (!code) {
        asim_tune_find_places(first, &base);
        job->base = &base;
        job->sizes = &sizes;
        asim_tune_view view = {.job = job,
                               .torch_why = why(&setup),
                               .torch_assumed = !setup.torch_named && !setup.torch_recorded,
                               .objective_name = objectives[o->objective],
                               .colour = cli->colour};
        code = find_and_print(cli, o, job, &view, store, err);
    }
    asim_setup_fini(&setup, cli->mem);
    asim_tune_sizes_fini(&sizes, cli->mem);
    return code;
}

static int run(asim_cli *cli, const void *values, char **operands, size_t count)
{
    const options *o = values;
    asim_err err = ASIM_ERR_INIT;
    asim_profile profile;
    asim_store *store = NULL;
    asim_tune_job job = {.trace_count = count,
                         .conf = o->conf,
                         .profile = &profile,
                         .capacity = o->capacity,
                         .objective = (asim_tune_objective)o->objective,
                         .jobs = (size_t)o->jobs};
    const asim_setup_request request = {.policy = "torchcache", .conf = o->conf, .torch = o->torch};
    asim_setup setup = {0};
    asim_code code = read_forbidden(&o->forbid, &job.forbidden, &err);
    if (!code && o->budget)
        code = read_budget(o->budget, &job.budget_ns, &err);
    if (!code)
        code = asim_setup_profile(cli, o->device, &profile, &err);
    if (!code && !(code = asim_setup_policy(cli, &request, NULL, &setup, &err))) /* before files are read */
        code = asim_setup_check_conf(&setup, o->conf, &err);
    asim_setup_fini(&setup, cli->mem);
    if (!code && !o->no_db)
        code = asim_store_open(o->db, ASIM_STORE_WRITE, cli->mem, &store, &err);
    job.traces = code ? NULL : asim_mem_new(cli->mem, count, sizeof *job.traces);
    if (!code && !job.traces)
        code = asim_fail_memory(&err, count * sizeof *job.traces);
    if (!code) {
        job.stop = asim_interrupt_watch();
        code = work(cli, o, operands, &job, store, &err);
    }
    const int status = code ? asim_say_error(&err) : 0;
    for (size_t t = 0; job.traces && t < count; t++) {
        asim_mem_free(cli->mem, job.traces[t].needs, ASIM_DEVICES_MAX, sizeof *job.traces[t].needs);
        asim_tune_trace_free(job.traces[t].afresh, cli->mem);
        asim_trace_release(job.traces[t].original);
    }
    asim_mem_free(cli->mem, job.traces, count, sizeof *job.traces);
    asim_store_close(store);
    asim_interrupt_follow();
    return status;
}

const asim_verb asim_verb_tune = {
    .name = "tune",
    .operands = "TRACE...",
    .summary = "Finds the settings of PyTorch's allocator that suit a workload",
    .text = "Several traces are ranks of one job: one setting for all of them.",
    .example = "tune --forbid expandable_segments trace.zst",
    .options = table,
    .option_count = sizeof table / sizeof table[0],
    .values_size = sizeof(options),
    .defaults = &defaults,
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .run = run,
};
