#include "tools/outcome.h"

#include "tools/load.h"
#include "tools/snapshot_out.h"
#include "traces/native.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

/* What the engine's callbacks are given. */
typedef struct running {
    const asim_outcome_request *request;
    const char *path;
    asim_progress *progress;
    uint64_t reported;
} running;

static void warn(void *ctx, const char *text)
{
    const running *r = ctx;
    if (r->request->warn)
        r->request->warn(r->request->ctx, r->path, text);
    else
        asim_say("%s: warning: %s", r->path, text);
}

static bool advance(void *ctx, uint64_t events_done)
{
    running *r = ctx;
    asim_progress_advance(r->progress, events_done - r->reported);
    r->reported = events_done;
    return r->request->stop && atomic_load_explicit(r->request->stop, memory_order_relaxed);
}

static bool has_marks(const asim_trace *trace)
{
    for (uint64_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].kind == ASIM_EV_MARK)
            return true;
    return false;
}

static asim_code keep_labels(asim_outcome *outcome, const asim_trace *trace, const asim_hostmem *mem,
                             asim_err *err)
{
    size_t count = outcome->phases.count;
    if (count == 0)
        return ASIM_OK;
    outcome->labels = asim_mem_new(mem, count, sizeof *outcome->labels);
    if (!outcome->labels)
        return asim_fail_memory(err, count * sizeof *outcome->labels);
    for (size_t i = 0; i < count; i++) {
        const asim_string *string = &trace->strings[outcome->phases.phases[i].label];
        char *copy = asim_mem_new(mem, (size_t)string->length + 1, 1);
        if (!copy)
            return asim_fail_memory(err, (uint64_t)string->length + 1);
        memcpy(copy, string->text, string->length);
        outcome->labels[i] = copy;
    }
    return ASIM_OK;
}

static asim_code keep_results(const asim_outcome_request *request, asim_engine *engine,
                              const asim_trace *trace, const asim_timeline *timeline, const asim_hostmem *mem,
                              asim_outcome *outcome, asim_err *err)
{
    asim_engine_take_failures(engine, &outcome->failures);
    if (timeline) {
        outcome->sample_capacity = request->samples;
        outcome->samples = asim_mem_new(mem, request->samples, sizeof(asim_sample));
        if (!outcome->samples)
            return asim_fail_memory(err, request->samples * sizeof(asim_sample));
        outcome->run.sample_count = asim_timeline_samples(timeline, outcome->samples, request->samples);
    }
    if (request->layout) {
        asim_layout_collector collector = {&outcome->layout, mem, ASIM_OK};
        asim_walker walker = asim_layout_walker(&collector);
        asim_engine_walk(engine, &walker);
        if (collector.code)
            return asim_fail_memory(err, outcome->layout.block_count * sizeof(asim_layout_block));
    }
    if (request->stats) {
        outcome->stats = asim_mem_new(mem, trace->device_count, sizeof *outcome->stats);
        if (!outcome->stats)
            return asim_fail_memory(err, trace->device_count * sizeof *outcome->stats);
        for (uint32_t device = 0; device < trace->device_count; device++)
            asim_engine_report(engine, device, asim_memory_stats_take, &outcome->stats[device]);
    }
    if (request->all_stats) {
        outcome->all_stats = asim_mem_new(mem, trace->device_count, sizeof *outcome->all_stats);
        if (!outcome->all_stats)
            return asim_fail_memory(err, trace->device_count * sizeof *outcome->all_stats);
        for (uint32_t device = 0; device < trace->device_count; device++) {
            asim_torch_stats *stats = &outcome->all_stats[device];
            stats->mem = mem;
            asim_engine_report(engine, device, asim_torch_stats_take, stats);
            if (stats->lacks_memory)
                return asim_fail_memory(err, (stats->count + 1) * sizeof *stats->items);
        }
    }
    return keep_labels(outcome, trace, mem, err);
}

/* The option string of the user, or of the recording. */
static const char *given_conf(const asim_outcome_request *request, const asim_trace *trace)
{
    if (request->setup->conf)
        return request->setup->conf;
    return trace->settings == ASIM_NO_INDEX ? NULL : trace->strings[trace->settings].text;
}

static asim_code simulate(const asim_cli *cli, const asim_outcome_request *request, const asim_trace *trace,
                          running *r, asim_outcome *outcome, asim_err *err)
{
    asim_timeline *timeline = NULL;
    asim_history *history = NULL;
    asim_observer_use uses[3];
    uint32_t use_count = 0;
    asim_code code = ASIM_OK;
    if (request->samples) {
        code = asim_timeline_new(request->samples, cli->mem, &timeline, err);
        uses[use_count++] = (asim_observer_use){&asim_timeline_observer, timeline};
    }
    if (has_marks(trace))
        uses[use_count++] = (asim_observer_use){&asim_phases_observer, &outcome->phases};
    if (request->snapshot && !code) {
        code = asim_history_new(trace, request->history, cli->mem, &history, err);
        uses[use_count++] = (asim_observer_use){&asim_history_observer, history};
    }
    asim_run_config config = {.trace = trace,
                              .policy = outcome->setup.policy,
                              .params = outcome->setup.params,
                              .profile = &outcome->profile,
                              .capacity = request->capacity,
                              .seed = request->seed,
                              .check = request->check,
                              .observers = uses,
                              .observer_count = use_count,
                              .warn = warn,
                              .progress = advance,
                              .ctx = r};
    asim_engine *engine = NULL;
    uint64_t started = asim_wall_ns();
    if (!code)
        code = asim_engine_new(&config, cli->mem, &engine, err);
    if (!code) {
        if (history)
            asim_history_begin(history);
        code = asim_engine_run(engine, err);
        outcome->run.wall_ns = asim_wall_ns() - started;
        asim_engine_record(engine, &outcome->run.record);
        if (code)
            outcome->run.record.status = ASIM_RUN_ERROR;
        asim_err second = ASIM_ERR_INIT;
        asim_code kept = keep_results(request, engine, trace, timeline, cli->mem, outcome, &second);
        if (kept && !code) {
            code = kept;
            *err = second;
        }
        if (history && !code)
            code = asim_snapshot_out(request->snapshot, engine, history, trace, &outcome->setup,
                                     given_conf(request, trace), cli->mem, err);
    }
    asim_engine_free(engine);
    asim_history_free(history);
    asim_timeline_free(timeline);
    return code;
}

/* Everything in run that points into the outcome; the outcome must not move afterwards. */
static void connect(asim_outcome *outcome, const asim_outcome_request *request, const char *path,
                    const asim_trace *trace)
{
    asim_stored_run *run = &outcome->run;
    run->trace_digest = trace->digest;
    run->trace_path = path;
    run->trace_events = trace->event_count;
    run->trace_devices = trace->device_count;
    if (trace->source != ASIM_NO_INDEX)
        snprintf(outcome->source, sizeof outcome->source, "%s", trace->strings[trace->source].text);
    run->trace_source = outcome->source;
    run->policy = outcome->setup.policy->name;
    run->policy_version = outcome->setup.policy->version;
    run->params = outcome->setup.canonical;
    run->device = outcome->profile.name;
    run->device_digest = asim_profile_digest(&outcome->profile);
    run->seed = request->seed;
    if (run->record.has_mismatch && run->record.mismatch.lane < trace->lane_count)
        run->mismatch_stream = trace->lanes[run->record.mismatch.lane].stream;
    run->failures = outcome->failures.items;
    run->failure_count = outcome->failures.count;
    run->samples = outcome->samples;
    run->phases = outcome->phases.phases;
    run->phase_labels = (const char *const *)outcome->labels;
    run->phase_count = outcome->labels ? outcome->phases.count : 0;
    run->layout = request->layout ? &outcome->layout : NULL;
    if (gethostname(outcome->host, sizeof outcome->host - 1) != 0)
        outcome->host[0] = 0;
    run->host = outcome->host;
    run->program = "allocsim " ASIM_PROGRAM_VERSION;
    run->stored_unix_s = (uint64_t)time(NULL);
}

asim_code asim_outcome_replay(const asim_cli *cli, const asim_outcome_request *request, const char *path,
                              const asim_trace *trace, asim_progress *progress, asim_outcome *ret_outcome,
                              asim_err *err)
{
    asim_outcome *outcome = ret_outcome;
    *outcome = (asim_outcome){.profile = *request->profile};
    asim_code code = asim_setup_policy(cli, request->setup, trace, &outcome->setup, err);
    if (!code) {
        if (!request->setup->conf && trace->settings != ASIM_NO_INDEX)
            snprintf(outcome->settings, sizeof outcome->settings, "%s", trace->strings[trace->settings].text);
        running r = {request, path, progress, 0};
        code = simulate(cli, request, trace, &r, outcome, err);
        connect(outcome, request, path, trace);
        if (code)
            asim_err_context(err, "%s", path);
    }
    if (code && outcome->run.record.status != ASIM_RUN_ERROR)
        asim_outcome_fini(outcome, cli->mem);
    return code;
}

asim_code asim_outcome_run(const asim_cli *cli, const asim_outcome_request *request, const char *path,
                           asim_progress *progress, asim_outcome *ret_outcome, asim_err *err)
{
    asim_trace *trace = NULL;
    const char *imported = NULL;
    *ret_outcome = (asim_outcome){0};
    asim_code code = asim_load_trace(cli, path, &trace, &imported, err);
    if (code)
        return code;
    if (imported)
        asim_note(cli, "%s: a %s recording, imported in memory; 'allocsim import %s -o TRACE.zst' keeps it",
                  path, imported, path);
    asim_progress_expect(progress, trace->event_count);
    code = asim_outcome_replay(cli, request, path, trace, progress, ret_outcome, err);
    asim_trace_release(trace);
    return code;
}

void asim_outcome_fini(asim_outcome *outcome, const asim_hostmem *mem)
{
    for (size_t i = 0; outcome->labels && i < outcome->phases.count; i++)
        if (outcome->labels[i])
            asim_mem_free(mem, outcome->labels[i], strlen(outcome->labels[i]) + 1, 1);
    asim_mem_free(mem, outcome->labels, outcome->phases.count, sizeof *outcome->labels);
    asim_mem_free(mem, outcome->samples, outcome->sample_capacity, sizeof(asim_sample));
    asim_mem_free(mem, outcome->stats, outcome->run.trace_devices, sizeof *outcome->stats);
    for (uint32_t device = 0; outcome->all_stats && device < outcome->run.trace_devices; device++)
        asim_torch_stats_fini(&outcome->all_stats[device]);
    asim_mem_free(mem, outcome->all_stats, outcome->run.trace_devices, sizeof *outcome->all_stats);
    asim_failures_fini(&outcome->failures, mem);
    asim_phases_fini(&outcome->phases);
    asim_layout_fini(&outcome->layout, mem);
    asim_setup_fini(&outcome->setup, mem);
    *outcome = (asim_outcome){0};
}
