#include "tools/sweep_run.h"

#include "sim/hash.h"
#include "sim/sweep.h"
#include "tools/load.h"
#include "tools/outcome.h"
#include "traces/info.h"
#include "traces/native.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum {
    WARNINGS_MAX = 256 /* different texts that are remembered */
};

/* What the threads share. lock guards the store, the counts and the warnings. */
typedef struct session {
    const asim_cli *cli;
    const asim_sweep_job *job;
    asim_sweep_outcome *outcome;
    asim_sweep grid;
    asim_progress progress;
    uint64_t opened, opened_events; /* traces, and the events still to be replayed of them when opened */
    uint64_t guessed;               /* events expected of traces not opened yet */
    bool store_failed;
    uint64_t warnings[WARNINGS_MAX];
    size_t warning_count;
    pthread_mutex_t lock;
} session;

static void fail_with(session *s, int status)
{
    s->outcome->status = status > s->outcome->status ? status : s->outcome->status;
}

/* Whether a text about a trace is brought up for the first time. */
static bool is_news(session *s, const char *path, const char *text)
{
    uint64_t hash = asim_hash_bytes(asim_hash_bytes(ASIM_HASH_INIT, path, strlen(path)), text, strlen(text));
    pthread_mutex_lock(&s->lock);
    bool known = false;
    for (size_t i = 0; i < s->warning_count; i++)
        known = known || s->warnings[i] == hash;
    if (!known && s->warning_count < WARNINGS_MAX)
        s->warnings[s->warning_count++] = hash;
    pthread_mutex_unlock(&s->lock);
    return !known;
}

static void warn_once(void *ctx, const char *path, const char *text)
{
    if (is_news(ctx, path, text))
        asim_say("%s: warning: %s", path, text);
}

/* A run that ended by a fault; faults that read the same are said once, with the first to meet them. */
static void note_fault(session *s, asim_sweep_result *result, asim_err *err)
{
    asim_code code = err->code;
    if (is_news(s, result->run.trace_path, err->message)) {
        asim_err_context(err, "%s%s%s", result->run.policy, result->params[0] ? "," : "", result->params);
        asim_say_error(err);
    }
    pthread_mutex_lock(&s->lock);
    result->failed = true;
    s->outcome->failed++;
    fail_with(s, (int)code);
    pthread_mutex_unlock(&s->lock);
}

static asim_sweep_result *new_result(session *s, const asim_sweep_trace *trace, size_t config,
                                     const asim_setup *setup, asim_err *err)
{
    const asim_hostmem *mem = s->cli->mem;
    const asim_profile *profile = s->job->profile;
    asim_sweep_result *result = asim_mem_new(mem, 1, sizeof *result);
    char *params = result ? asim_mem_new(mem, strlen(setup->canonical) + 1, 1) : NULL;
    if (!params) {
        asim_mem_free(mem, result, 1, sizeof *result);
        asim_fail_memory(err, sizeof *result);
        return NULL;
    }
    strcpy(params, setup->canonical);
    result->params = params;
    result->config = config;
    result->run = (asim_stored_run){.trace_digest = trace->digest,
                                    .policy = setup->policy->name,
                                    .params = params,
                                    .device = profile->name,
                                    .device_digest = asim_profile_digest(profile),
                                    .seed = s->job->seed,
                                    .trace_path = trace->path,
                                    .trace_source = trace->source,
                                    .trace_events = trace->events,
                                    .trace_devices = trace->devices,
                                    .policy_version = setup->policy->version};
    result->run.record.capacity =
        asim_engine_capacity(trace->trace, profile, s->job->plan->configs[config].capacity, 0);
    return result;
}

static void free_result(asim_sweep_result *result, const asim_hostmem *mem)
{
    if (!result)
        return;
    asim_mem_free(mem, result->params, strlen(result->params) + 1, 1);
    asim_mem_free(mem, result->own_names, ASIM_POLICY_METRICS_MAX, sizeof *result->own_names);
    asim_mem_free(mem, result, 1, sizeof *result);
}

/* Reads back what the store holds of it. */
static asim_code look_up(session *s, asim_sweep_result *result, asim_err *err)
{
    const asim_stored_run *run = &result->run;
    const asim_run_key key = {run->trace_digest,  run->policy,          run->params, run->device,
                              run->device_digest, run->record.capacity, run->seed};
    asim_kept_run kept;
    bool found = false;
    if (!s->job->store)
        return ASIM_OK;
    pthread_mutex_lock(&s->lock);
    asim_code code = asim_store_find(s->job->store, &key, &kept, &found, err);
    pthread_mutex_unlock(&s->lock);
    if (code || !found)
        return code;
    result->run.record = kept.record;
    if (kept.record.own_count > 0) {
        result->own_names = asim_mem_new(s->cli->mem, ASIM_POLICY_METRICS_MAX, sizeof *result->own_names);
        if (!result->own_names)
            return asim_fail_memory(err, sizeof kept.own_names);
        memcpy(result->own_names, kept.own_names, sizeof kept.own_names);
        for (uint32_t i = 0; i < kept.record.own_count; i++)
            result->run.record.own[i].name = result->own_names[i];
    }
    result->run_id = kept.run_id;
    result->done = result->kept = true;
    return ASIM_OK;
}

/* Keys that were seen on a trace: open addressing, half empty at least. */
typedef struct seen_keys {
    asim_sweep_result **slots;
    size_t mask;
} seen_keys;

static bool is_double(seen_keys *seen, asim_sweep_result *result)
{
    const asim_stored_run *run = &result->run;
    uint64_t hash = asim_hash_u64(ASIM_HASH_INIT, run->record.capacity);
    hash = asim_hash_bytes(hash, run->policy, strlen(run->policy));
    hash = asim_hash_bytes(hash, run->params, strlen(run->params));
    size_t at = (size_t)hash & seen->mask;
    for (; seen->slots[at]; at = (at + 1) & seen->mask) {
        const asim_stored_run *other = &seen->slots[at]->run;
        if (other->record.capacity == run->record.capacity && strcmp(other->policy, run->policy) == 0 &&
            strcmp(other->params, run->params) == 0)
            return true;
    }
    seen->slots[at] = result;
    return false;
}

/* Turns every configuration into a result to be filled. All of them are looked at, whatever the part, so that
 * doubles are the same ones in every part. */
static asim_code list_results(session *s, size_t index, asim_sweep_trace *trace, seen_keys *seen,
                              asim_err *err)
{
    const asim_sweep_plan *plan = s->job->plan;
    const asim_trace *events = trace->trace;
    for (size_t i = 0; i < plan->count; i++) {
        const asim_setup_request request = {.policy = plan->configs[i].policy, .conf = plan->configs[i].conf};
        asim_setup setup;
        asim_code code = asim_setup_policy(s->cli, &request, events, &setup, err);
        if (code)
            return code;
        asim_sweep_result *result = new_result(s, trace, i, &setup, err);
        asim_setup_fini(&setup, s->cli->mem);
        if (!result)
            return ASIM_E_SYSTEM;
        trace->results[i] = result; /* stays, so that its key is there to be compared with */
        bool mine = asim_sweep_has(&s->grid, index * plan->count + i);
        result->failed = is_double(seen, result) || !mine;
        if (!result->failed && (code = look_up(s, result, err)))
            return code;
        pthread_mutex_lock(&s->lock);
        s->outcome->doubles += mine && result->failed;
        s->outcome->total += !result->failed;
        s->outcome->kept += result->kept;
        pthread_mutex_unlock(&s->lock);
    }
    for (size_t i = 0; i < plan->count; i++)
        if (trace->results[i]->failed) { /* not run here */
            free_result(trace->results[i], s->cli->mem);
            trace->results[i] = NULL;
        }
    return ASIM_OK;
}

/* The bar's total: of traces that are not opened yet, as many events as of the others on average. */
static void expect_events(session *s, uint64_t events)
{
    pthread_mutex_lock(&s->lock);
    s->opened++;
    s->opened_events += events;
    uint64_t guess = s->opened_events / s->opened * (s->job->path_count - s->opened);
    uint64_t more = events + guess - s->guessed; /* may wrap, and unwraps when it is added */
    s->guessed = guess;
    pthread_mutex_unlock(&s->lock);
    asim_progress_expect(&s->progress, more);
}

static asim_code load(session *s, size_t index, asim_sweep_trace *trace, asim_err *err)
{
    const char *imported = NULL;
    asim_trace_info info;
    asim_code code = asim_load_trace(s->cli, trace->path, &trace->trace, &imported, err);
    if (code)
        return code;
    if (imported)
        asim_note(s->cli,
                  "%s: a %s recording, imported in memory; 'allocsim import %s -o TRACE.zst' keeps it",
                  trace->path, imported, trace->path);
    const asim_trace *events = trace->trace;
    if (events->device_count == 0)
        return asim_fail(err, ASIM_E_INPUT, "%s: the trace names no device", trace->path);
    if ((code = asim_trace_describe(events, s->cli->mem, &info, err)))
        return asim_err_context(err, "%s", trace->path);
    trace->digest = events->digest;
    trace->events = events->event_count;
    trace->devices = events->device_count;
    trace->peak_live_bytes = info.peak_live_bytes;
    if (events->source != ASIM_NO_INDEX)
        snprintf(trace->source, sizeof trace->source, "%s", events->strings[events->source].text);
    seen_keys seen = {.mask = 15};
    while (seen.mask < 2 * s->job->plan->count)
        seen.mask = 2 * seen.mask + 1;
    seen.slots = asim_mem_new(s->cli->mem, seen.mask + 1, sizeof(asim_sweep_result *));
    if (!seen.slots)
        return asim_fail_memory(err, (seen.mask + 1) * sizeof(asim_sweep_result *));
    code = list_results(s, index, trace, &seen, err);
    asim_mem_free(s->cli->mem, seen.slots, seen.mask + 1, sizeof(asim_sweep_result *));
    return code ? asim_err_context(err, "%s", trace->path) : ASIM_OK;
}

static asim_code open_trace(void *ctx, size_t index)
{
    session *s = ctx;
    asim_sweep_trace *trace = &s->outcome->traces[index];
    asim_err err = ASIM_ERR_INIT;
    asim_code code = load(s, index, trace, &err);
    uint64_t left = 0;
    for (size_t i = 0; i < s->job->plan->count && !code; i++)
        left += trace->results[i] && !trace->results[i]->done;
    expect_events(s, code ? 0 : left * trace->events);
    trace->opened = !code;
    trace->opening_failed = code != ASIM_OK;
    if (!code)
        return ASIM_OK;
    asim_trace_release(trace->trace);
    trace->trace = NULL;
    int status = asim_say_error(&err);
    pthread_mutex_lock(&s->lock);
    s->outcome->unopened++;
    fail_with(s, status);
    pthread_mutex_unlock(&s->lock);
    return code;
}

static void close_trace(void *ctx, size_t index)
{
    session *s = ctx;
    asim_trace_release(s->outcome->traces[index].trace);
    s->outcome->traces[index].trace = NULL;
}

/* Under the lock. What stays of a run when its outcome is gone. */
static asim_code keep(session *s, asim_sweep_result *result, asim_outcome *outcome, asim_err *err)
{
    asim_code code = ASIM_OK;
    bool is_new = false;
    if (s->job->store)
        code = asim_store_add(s->job->store, &outcome->run, &result->run_id, &is_new, err);
    if (code)
        return code;
    result->run.record = outcome->run.record;
    result->run.wall_ns = outcome->run.wall_ns;
    result->done = true;
    s->outcome->ran++;
    char text[40];
    snprintf(text, sizeof text, "%zu of %zu runs", s->outcome->ran + s->outcome->kept, s->outcome->total);
    asim_progress_note(&s->progress, text);
    return ASIM_OK;
}

static asim_code run_one(void *ctx, size_t index, size_t config)
{
    session *s = ctx;
    const asim_sweep_job *job = s->job;
    asim_sweep_trace *trace = &s->outcome->traces[index];
    asim_sweep_result *result = trace->results[config];
    if (!result || result->done)
        return ASIM_OK;
    const asim_sweep_config *chosen = &job->plan->configs[config];
    const asim_setup_request setup = {.policy = chosen->policy, .conf = chosen->conf};
    const asim_outcome_request request = {.setup = &setup,
                                          .profile = job->profile,
                                          .capacity = chosen->capacity,
                                          .seed = job->seed,
                                          .check = job->check,
                                          .samples = job->store ? job->samples : 0,
                                          .history = UINT64_MAX,
                                          .warn = warn_once,
                                          .ctx = s,
                                          .stop = job->stop};
    asim_err err = ASIM_ERR_INIT;
    asim_outcome outcome;
    asim_code code =
        asim_outcome_replay(s->cli, &request, trace->path, trace->trace, &s->progress, &outcome, &err);
    if (code) {
        asim_outcome_fini(&outcome, s->cli->mem);
        if (job->stop && atomic_load(job->stop))
            return ASIM_OK;
        note_fault(s, result, &err);
        return ASIM_OK;
    }
    pthread_mutex_lock(&s->lock);
    code = s->store_failed ? ASIM_E_SYSTEM : keep(s, result, &outcome, &err);
    bool news = code && !s->store_failed;
    s->store_failed = s->store_failed || code;
    pthread_mutex_unlock(&s->lock);
    asim_outcome_fini(&outcome, s->cli->mem);
    if (news) { /* said once, and the sweep ends */
        int status = asim_say_error(&err);
        pthread_mutex_lock(&s->lock);
        fail_with(s, status);
        pthread_mutex_unlock(&s->lock);
    }
    return code;
}

static bool make_traces(session *s)
{
    asim_sweep_outcome *outcome = s->outcome;
    outcome->trace_count = s->job->path_count;
    outcome->config_count = s->job->plan->count;
    outcome->traces = asim_mem_new(s->cli->mem, outcome->trace_count, sizeof *outcome->traces);
    for (size_t i = 0; outcome->traces && i < outcome->trace_count; i++) {
        asim_sweep_trace *trace = &outcome->traces[i];
        trace->path = s->job->paths[i];
        trace->results = asim_mem_new(s->cli->mem, outcome->config_count, sizeof(asim_sweep_result *));
        if (!trace->results)
            return false;
    }
    return outcome->traces != NULL;
}

void asim_sweep_go(const asim_cli *cli, const asim_sweep_job *job, asim_sweep_outcome *ret_outcome)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    session s = {.cli = cli, .job = job, .outcome = ret_outcome};
    asim_err err = ASIM_ERR_INIT;
    *ret_outcome = (asim_sweep_outcome){0};
    s.grid = (asim_sweep){.trace_count = job->path_count,
                          .config_count = job->plan->count,
                          .shard = job->shard,
                          .shards = job->shards,
                          .jobs = job->jobs   ? job->jobs
                                  : cores > 0 ? (size_t)cores
                                              : 1,
                          .stop = job->stop,
                          .open = open_trace,
                          .run = run_one,
                          .close = close_trace,
                          .ctx = &s};
    pthread_mutex_init(&s.lock, NULL);
    asim_progress_init(&s.progress, cli, "sweeping");
    asim_code code = make_traces(&s) ? asim_sweep_work(&s.grid, cli->mem, &err)
                                     : asim_fail_memory(&err, job->plan->count * sizeof(void *));
    asim_progress_fini(&s.progress);
    pthread_mutex_destroy(&s.lock);
    if (code)
        fail_with(&s, asim_say_error(&err));
}

void asim_sweep_outcome_fini(asim_sweep_outcome *outcome, const asim_hostmem *mem)
{
    for (size_t i = 0; outcome->traces && i < outcome->trace_count; i++) {
        asim_sweep_trace *trace = &outcome->traces[i];
        for (size_t k = 0; trace->results && k < outcome->config_count; k++)
            free_result(trace->results[k], mem);
        asim_mem_free(mem, trace->results, outcome->config_count, sizeof(asim_sweep_result *));
    }
    asim_mem_free(mem, outcome->traces, outcome->trace_count, sizeof *outcome->traces);
    *outcome = (asim_sweep_outcome){0};
}
