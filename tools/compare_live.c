/* Runs replayed for a comparison: once for the results, once more to look at the peak and the parting. */
#include "sim/history.h"
#include "tools/compare.h"
#include "tools/units.h"

#include <inttypes.h>
#include <string.h>

/* --- first pass --- */

static void warn(void *ctx, const char *text)
{
    const asim_compare_side *side = ctx;
    asim_say("%s: warning: %s", side->name, text);
}

static void no_warning(void *ctx, const char *text)
{
    (void)ctx;
    (void)text;
}

static asim_code keep_phases(const asim_cli *cli, const asim_phases *phases, const asim_trace *trace,
                             asim_compare_side *side, asim_err *err)
{
    if (phases->count == 0)
        return ASIM_OK;
    side->phases = asim_mem_new(cli->mem, phases->count, sizeof *side->phases);
    if (!side->phases)
        return asim_fail_memory(err, phases->count * sizeof *side->phases);
    side->phase_count = side->phase_capacity = phases->count;
    for (size_t i = 0; i < phases->count; i++) {
        const asim_phase *phase = &phases->phases[i];
        snprintf(side->phases[i].label, sizeof side->phases[i].label, "%s",
                 trace->strings[phase->label].text);
        asim_compare_plain(side->phases[i].label);
        side->phases[i].peak_allocated = phase->peak_allocated;
        side->phases[i].peak_reserved = phase->peak_reserved;
        side->phases[i].end_reserved = phase->end_reserved;
    }
    return ASIM_OK;
}

/* The record's own metrics point into the policy's tables, which live as long as the program. */
static void keep_record(const asim_engine *engine, asim_compare_side *side)
{
    asim_engine_record(engine, &side->kept.record);
    asim_engine_refusal_text(engine, side->refusal, sizeof side->refusal);
}

static void describe(const asim_compare_request *request, const asim_setup *setup,
                     const asim_profile *profile, const asim_trace *trace, asim_compare_side *side)
{
    snprintf(side->policy, sizeof side->policy, "%s", setup->policy->name);
    snprintf(side->params, sizeof side->params, "%s", setup->canonical);
    snprintf(side->device, sizeof side->device, "%s", profile->name);
    snprintf(side->torch, sizeof side->torch, "%s", setup->torch);
    side->trace = trace;
    side->trace_digest = trace->digest;
    side->trace_events = trace->event_count;
    side->seed = request->seed;
}

asim_code asim_compare_replay(const asim_cli *cli, const asim_compare_request *request,
                              const asim_trace *trace, asim_watch *watch, asim_compare_side *side,
                              asim_err *err)
{
    asim_setup setup;
    asim_profile profile;
    asim_engine *engine = NULL;
    asim_phases phases = {0};
    asim_run_record record;
    asim_code code = asim_setup_policy(cli, &request->setup, trace, &setup, err);
    if (code)
        return asim_err_context(err, "%s", side->name);
    if ((code = asim_setup_profile(cli, request->setup.device, &profile, err))) {
        asim_setup_fini(&setup, cli->mem);
        return code;
    }
    describe(request, &setup, &profile, trace, side);
    asim_observer_use uses[] = {{&asim_watch_observer, watch}, {&asim_phases_observer, &phases}};
    asim_run_config config = {.trace = trace,
                              .policy = setup.policy,
                              .params = setup.params,
                              .profile = &profile,
                              .capacity = request->capacity,
                              .seed = request->seed,
                              .observers = uses,
                              .observer_count = 2,
                              .warn = warn,
                              .ctx = side};
    code = asim_engine_new(&config, cli->mem, &engine, err);
    if (!code) {
        asim_engine_record(engine, &record);
        code = asim_watch_begin(watch, record.metrics[ASIM_METRIC_reserved_bytes],
                                record.metrics[ASIM_METRIC_allocated_bytes], err);
    }
    if (!code && !(code = asim_engine_run(engine, err))) {
        asim_watch_end(watch);
        keep_record(engine, side);
        side->peak_event = watch->peak_event;
        side->peak_held = watch->peak_held;
        code = keep_phases(cli, &phases, trace, side, err);
    }
    asim_engine_free(engine);
    asim_phases_fini(&phases);
    asim_setup_fini(&setup, cli->mem);
    return code ? asim_err_context(err, "%s", side->name) : ASIM_OK;
}

/* --- second pass --- */

typedef struct looking {
    const asim_cli *cli;
    asim_comparison *comparison;
    unsigned which;
    const asim_engine *engine;
    const asim_history *history;
    asim_watch *watch;
} looking;

/* Live blocks by the line that asked for them. */
static asim_code add_live(looking *l, asim_err *err)
{
    asim_compare_side *side = &l->comparison->sides[l->which];
    char site[ASIM_ROW_KEY];
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < side->layout.block_count && !code; i++) {
        const asim_walk_block *block = &side->layout.blocks[i].block;
        asim_history_block known = {.stack = ASIM_NO_INDEX};
        if (block->state == ASIM_BLOCK_FREE)
            continue;
        asim_history_block_at(l->history, block->address, &known);
        asim_compare_site(side->trace, known.stack, site, sizeof site);
        code = asim_rows_add(&l->comparison->views[ASIM_VIEW_LIVE], l->which, site, block->size, err);
    }
    return code;
}

/* Memory held from the device by the line whose request made the allocator ask for it. */
static asim_code add_grown(looking *l, asim_err *err)
{
    asim_compare_side *side = &l->comparison->sides[l->which];
    char site[ASIM_ROW_KEY];
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < l->watch->held_count && !code; i++) {
        const asim_held *held = &l->watch->held[i];
        if (held->opening && held->stack == ASIM_NO_INDEX)
            snprintf(site, sizeof site, "(before the recording)");
        else
            asim_compare_site(side->trace, held->stack, site, sizeof site);
        code = asim_rows_add(&l->comparison->views[ASIM_VIEW_GROWN], l->which, site, held->size, err);
    }
    return code;
}

static asim_code at_peak(void *ctx, asim_err *err)
{
    looking *l = ctx;
    asim_compare_side *side = &l->comparison->sides[l->which];
    asim_layout_collector collector = {&side->layout, l->cli->mem, ASIM_OK};
    asim_walker walker = asim_layout_walker(&collector);
    asim_engine_walk(l->engine, &walker);
    if (collector.code)
        return asim_fail_memory(err, side->layout.block_count * sizeof(asim_layout_block));
    side->has_layout = true;
    asim_code code = asim_compare_add_layout(l->comparison, l->which, err);
    if (!code)
        code = add_live(l, err);
    return code ? code : add_grown(l, err);
}

asim_code asim_compare_explain(const asim_cli *cli, const asim_compare_request *request,
                               asim_comparison *comparison, unsigned which, asim_err *err)
{
    asim_compare_side *side = &comparison->sides[which];
    asim_setup setup;
    asim_profile profile;
    asim_engine *engine = NULL;
    asim_history *history = NULL;
    asim_run_record record;
    asim_watch watch = {.mem = cli->mem,
                        .trace = side->trace,
                        .same_trace = comparison->same_trace,
                        .part_event = ASIM_WATCH_NEVER,
                        .peak_event = side->peak_event,
                        .second = true,
                        .look_event = comparison->parted ? comparison->part_event : ASIM_WATCH_NEVER,
                        .effects = &side->effects,
                        .at_peak = at_peak};
    looking view = {.cli = cli, .comparison = comparison, .which = which, .watch = &watch};
    watch.ctx = &view;
    asim_code code = asim_setup_policy(cli, &request->setup, side->trace, &setup, err);
    if (code)
        return code;
    code = asim_setup_profile(cli, request->setup.device, &profile, err);
    if (!code)
        code = asim_history_new(side->trace, 1, cli->mem, &history, err);
    view.history = history;
    asim_observer_use uses[] = {{&asim_history_observer, history}, {&asim_watch_observer, &watch}};
    asim_run_config config = {.trace = side->trace,
                              .policy = setup.policy,
                              .params = setup.params,
                              .profile = &profile,
                              .capacity = request->capacity,
                              .seed = request->seed,
                              .observers = uses,
                              .observer_count = 2,
                              .warn = no_warning};
    if (!code)
        code = asim_engine_new(&config, cli->mem, &engine, err);
    if (!code) {
        view.engine = engine;
        asim_history_begin(history);
        asim_engine_record(engine, &record);
        code = asim_watch_begin(&watch, record.metrics[ASIM_METRIC_reserved_bytes],
                                record.metrics[ASIM_METRIC_allocated_bytes], err);
    }
    if (!code)
        code = asim_engine_run(engine, err);
    asim_engine_free(engine);
    asim_history_free(history);
    asim_watch_fini(&watch);
    asim_setup_fini(&setup, cli->mem);
    return code ? asim_err_context(err, "%s", side->name) : ASIM_OK;
}
