/* Life cycle of an engine, the opening state, and the record. The events are in engine_loop.c. */
#include "sim/engine_state.h"
#include "sim/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void engine_warn(void *ctx, const char *text)
{
    asim_engine *engine = ctx;
    if (engine->config.warn)
        engine->config.warn(engine->config.ctx, text);
}

/* The most that the recording shows as held on one device, at its start or later. */
static uint64_t recorded_peak(const asim_trace *trace, unsigned device)
{
    uint64_t held = 0, peak;
    for (uint32_t i = 0; i < trace->opening_segment_count; i++)
        if (trace->lanes[trace->opening_segments[i].lane].device == device)
            held += trace->opening_segments[i].size;
    peak = held;
    for (uint32_t i = 0; i < trace->call_count; i++) {
        const asim_recorded_call *call = &trace->calls[i];
        if (call->lane >= trace->lane_count || trace->lanes[call->lane].device != device)
            continue;
        if (call->kind == ASIM_CALL_SEGMENT_ALLOC || call->kind == ASIM_CALL_MAP)
            held += call->size;
        else if (call->kind == ASIM_CALL_SEGMENT_FREE || call->kind == ASIM_CALL_UNMAP)
            held -= call->size < held ? call->size : held;
        peak = held > peak ? held : peak;
    }
    return peak;
}

uint64_t asim_engine_capacity(const asim_trace *trace, const asim_profile *profile, uint64_t capacity,
                              uint32_t device)
{
    const uint64_t gib = UINT64_C(1) << 30;
    if (capacity)
        return capacity;
    if (trace->devices[device].capacity)
        return trace->devices[device].capacity;
    uint64_t peak = recorded_peak(trace, device);
    return peak <= profile->capacity_bytes ? profile->capacity_bytes : (peak + gib - 1) / gib * gib;
}

static asim_code choose_capacities(asim_engine *engine, asim_err *err)
{
    const asim_trace *trace = engine->trace;
    const asim_run_config *config = &engine->config;
    if (trace->device_count == 0 || trace->device_count > ASIM_DEVICES_MAX)
        return asim_fail(err, ASIM_E_INPUT, "the trace names %" PRIu32 " devices; 1 to %d can be simulated",
                         trace->device_count, ASIM_DEVICES_MAX);
    for (uint32_t i = 0; i < trace->device_count; i++) {
        uint64_t given = config->capacities ? config->capacities[i] : config->capacity;
        engine->capacities[i] =
            config->capacities ? given : asim_engine_capacity(trace, &engine->profile, given, i);
        if (config->capacities || given || trace->devices[i].capacity ||
            engine->capacities[i] == engine->profile.capacity_bytes)
            continue;
        char text[200];
        snprintf(text, sizeof text,
                 "the recording holds %" PRIu64 " MiB on device %" PRIu32
                 ", more than the profile's memory: simulating %" PRIu64 " GiB (see --capacity)",
                 recorded_peak(trace, i) >> 20, i, engine->capacities[i] >> 30);
        engine_warn(engine, text);
    }
    return ASIM_OK;
}

static bool has_kernels(const asim_trace *trace)
{
    for (uint64_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].kind == ASIM_EV_KERNEL)
            return true;
    return false;
}

static asim_code start_observers(asim_engine *engine, asim_err *err)
{
    const asim_run_config *config = &engine->config;
    uint32_t count = config->observer_count + (config->check != ASIM_CHECK_OFF);
    if (count == 0)
        return ASIM_OK;
    engine->observers = asim_mem_new(engine->mem, count, sizeof(asim_observer_instance));
    if (!engine->observers)
        return asim_fail_memory(err, count * sizeof(asim_observer_instance));
    const asim_observer_use referee = {&asim_referee_observer, &engine->referee};
    for (uint32_t i = 0; i < count; i++) { /* the referee sees everything first */
        uint32_t given = config->check != ASIM_CHECK_OFF ? i - 1 : i;
        const asim_observer_use *use =
            config->check != ASIM_CHECK_OFF && i == 0 ? &referee : &config->observers[given];
        asim_observer_instance *instance = &engine->observers[i];
        instance->observer = use->observer;
        instance->state = asim_mem_new(engine->mem, 1, use->observer->state_size);
        if (!instance->state)
            return asim_fail_memory(err, use->observer->state_size);
        engine->observer_count = i + 1;
        asim_code code = use->observer->init
                             ? use->observer->init(instance->state, use->config, engine->mem, err)
                             : ASIM_OK;
        if (code)
            return code;
    }
    return ASIM_OK;
}

/* Observers learn of the claimed memory as if it had just been obtained. */
static void tell_claimed(asim_engine *engine)
{
    const asim_ledger *ledger = &engine->ledger;
    for (uint32_t i = 0; i < ledger->region_count; i++) {
        const asim_held_region *region = &ledger->regions[i];
        asim_driver_call call = {.kind = ASIM_CALL_SEGMENT_ALLOC,
                                 .region = i,
                                 .address = region->address,
                                 .size = region->size,
                                 .device = region->device,
                                 .lane = region->lane};
        if (!region->live)
            continue;
        if (!region->range) {
            asim_engine_call(engine, &call);
            continue;
        }
        call.kind = ASIM_CALL_MAP;
        for (uint64_t page = 0; page < region->page_count; page++) {
            if (region->pages[page] == UINT32_MAX)
                continue;
            call.offset = page * region->page;
            call.address = region->address + call.offset;
            call.size = region->page;
            asim_engine_call(engine, &call);
        }
    }
}

static asim_code adopt_opening(asim_engine *engine, asim_err *err)
{
    const asim_trace *trace = engine->trace;
    asim_placement *placements =
        asim_mem_new(engine->mem, trace->opening_block_count, sizeof(asim_placement));
    if (!placements)
        return asim_fail_memory(err, trace->opening_block_count * sizeof(asim_placement));
    engine->ledger.claiming = true;
    engine->script.event = UINT64_MAX; /* the recorded calls of event 0 are not about what is mapped here */
    asim_code code = engine->policy->adopt(engine->state, trace, placements, err);
    engine->script.event = 0;
    engine->ledger.claiming = false;
    if (!code)
        tell_claimed(engine);
    if (engine->ledger.fault.code || engine->fault.code) {
        const asim_err *fault = engine->fault.code ? &engine->fault : &engine->ledger.fault;
        if (err)
            *err = *fault;
        code = fault->code;
    }
    for (uint32_t s = 0; s < trace->opening_segment_count && !code; s++) {
        const asim_opening_segment *segment = &trace->opening_segments[s];
        uint64_t address = segment->address;
        uint32_t region = asim_ledger_region_at(&engine->ledger, address);
        if (region != ASIM_NO_INDEX) /* a claim does not tell: for the record of its release */
            engine->ledger.regions[region].lane = segment->lane;
        for (uint32_t b = 0; b < segment->block_count && !code; b++) {
            const asim_opening_block *block = &trace->opening_blocks[segment->first_block + b];
            const asim_placement *placement = &placements[segment->first_block + b];
            if (block->state != ASIM_BLOCK_FREE && placement->address != address)
                code =
                    asim_fail(err, ASIM_E_BUG, "policy %s adopted the block at 0x%" PRIx64 " at 0x%" PRIx64,
                              engine->policy->name, address, placement->address);
            else if (block->state != ASIM_BLOCK_FREE)
                code = asim_engine_opening_adopt(engine, block, segment->lane, placement, err);
            address += block->size;
        }
    }
    asim_mem_free(engine->mem, placements, trace->opening_block_count, sizeof(asim_placement));
    return code;
}

static asim_code request_opening(asim_engine *engine, asim_err *err)
{
    const asim_trace *trace = engine->trace;
    for (uint32_t s = 0; s < trace->opening_segment_count; s++) {
        const asim_opening_segment *segment = &trace->opening_segments[s];
        for (uint32_t b = 0; b < segment->block_count; b++) {
            const asim_opening_block *block = &trace->opening_blocks[segment->first_block + b];
            asim_event event = {.kind = ASIM_EV_ALLOC, .lane = segment->lane, .id = block->id};
            event.size = block->requested ? block->requested : block->size;
            if (block->state == ASIM_BLOCK_FREE)
                continue;
            asim_code code =
                asim_engine_opening_alloc(engine, &event, block->state == ASIM_BLOCK_PENDING, err);
            if (code)
                return code;
        }
    }
    return ASIM_OK;
}

/* What happened so far was the opening: the run's counts and peaks begin now. */
static void begin_run(asim_engine *engine)
{
    const asim_books *books = &engine->books;
    asim_ledger *ledger = &engine->ledger;
    engine->in_run = true;
    engine->allocs = engine->frees = 0;
    engine->digest = ASIM_HASH_INIT;
    ledger->allocs = ledger->frees = ledger->maps = ledger->unmaps = 0;
    asim_device_model_reset_counts(engine->model);
    engine->clocks.host_ns = engine->clocks.stall_ns = 0;
    engine->moved_bytes = engine->compactions = engine->pause_ns = engine->max_pause_ns = 0;
    engine->peak_requested = books->requested;
    engine->peak_allocated = books->allocated;
    engine->peak_active = books->active;
    engine->peak_reserved = books->reserved;
    engine->peak_rounded = engine->rounded;
    engine->peak_internal = asim_books_internal(books);
    engine->peak_pinned = ledger->pinned;
    engine->frag_free = asim_books_free(books);
    engine->frag_largest = engine->counters.largest_free_bytes;
    engine->frag_ppm = engine->max_frag_ppm = asim_gap_ppm(engine->frag_largest, engine->frag_free);
}

/* Whether the recorded segments fit into the simulated devices, granule by granule. */
static bool opening_fits(asim_engine *engine)
{
    const asim_trace *trace = engine->trace;
    const uint64_t granule = engine->profile.granule_bytes;
    bool fits = true;
    for (uint32_t device = 0; device < trace->device_count; device++) {
        uint64_t total = 0;
        for (uint32_t i = 0; i < trace->opening_segment_count; i++) {
            const asim_opening_segment *segment = &trace->opening_segments[i];
            if (trace->lanes[segment->lane].device != device)
                continue;
            uint64_t held = (segment->size + granule - 1) & ~(granule - 1);
            if (held < segment->size || __builtin_add_overflow(total, held, &total))
                total = UINT64_MAX;
        }
        fits = fits && total <= engine->capacities[device];
        engine->opening_held = asim_max(engine->opening_held, total);
    }
    return fits;
}

static asim_code start(asim_engine *engine, asim_err *err)
{
    const asim_run_config *config = &engine->config;
    const asim_trace *trace = engine->trace;
    const asim_policy *policy = engine->policy;
    asim_code code = choose_capacities(engine, err);
    if (code)
        return code;
    const bool fits = opening_fits(engine), adopts = policy->adopt && fits;
    engine->fits = fits;
    if (policy->adopt && !fits)
        engine_warn(engine,
                    "the recording begins with more reserved than the device has: its live blocks are "
                    "asked for anew, and nothing is compared with the recording");
    engine->compare = !config->ignore_recorded && (policy->flags & ASIM_POLICY_MODELS_TORCH) && adopts &&
                      trace->recorded_addresses;
    engine->script =
        (asim_script){.calls = trace->calls, .count = trace->call_count, .active = engine->compare};
    bool by_clock = config->completion == ASIM_COMPLETION_CLOCK ||
                    (config->completion == ASIM_COMPLETION_AUTO && has_kernels(trace));
    if ((code = asim_device_model_new(trace, &engine->profile, engine->capacities, by_clock, &engine->script,
                                      &engine->clocks, engine->mem, &engine->model, err)))
        return code;
    asim_device device = asim_device_model_table(engine->model);
    if (config->wrap_device)
        config->wrap_device(config->ctx, &device);
    asim_ledger_init(&engine->ledger, device, &engine->books, &engine->script, engine->mem);
    engine->ledger.told = asim_engine_call;
    engine->ledger.ctx = engine;
    asim_referee_init(&engine->referee, engine->mem);
    if ((code = start_observers(engine, err)))
        return code;
    engine->slot_capacity = trace->slot_count;
    if (trace->slot_count &&
        !(engine->slots = asim_mem_new(engine->mem, trace->slot_count, sizeof(asim_slot))))
        return asim_fail_memory(err, trace->slot_count * sizeof(asim_slot));

    engine->rng.state = config->seed;
    engine->moves = policy->flags & ASIM_POLICY_MOVES;
    engine->listener = (asim_listener){.free_done = asim_engine_free_done,
                                       .refusal = asim_engine_refusal,
                                       .moved = asim_engine_moved,
                                       .pause = asim_engine_pause,
                                       .piece = asim_engine_piece,
                                       .warn = engine_warn,
                                       .ctx = engine};
    engine->env = (asim_policy_env){.device = asim_ledger_table(&engine->ledger),
                                    .memory = engine->mem,
                                    .rng = &engine->rng,
                                    .listener = &engine->listener,
                                    .counters = &engine->counters,
                                    .lanes = trace->lanes,
                                    .lane_count = trace->lane_count,
                                    .capacities = engine->capacities,
                                    .device_count = trace->device_count,
                                    .max_live = trace->slot_count,
                                    .future = policy->flags & ASIM_POLICY_CLAIRVOYANT ? trace : NULL};
    if (!(engine->state = asim_mem_new(engine->mem, 1, policy->state_size)))
        return asim_fail_memory(err, policy->state_size);
    if ((code = policy->init(engine->state, &engine->env, config->params, err)))
        return code;
    if (trace->opening_segment_count && adopts)
        code = adopt_opening(engine, err);
    else if (trace->opening_segment_count)
        code = request_opening(engine, err);
    if (code)
        return asim_err_context(err, "opening state"), code;
    begin_run(engine);
    return ASIM_OK;
}

asim_code asim_engine_new(const asim_run_config *config, const asim_hostmem *mem, asim_engine **ret_engine,
                          asim_err *err)
{
    asim_engine *engine = asim_mem_new(mem, 1, sizeof *engine);
    if (!engine)
        return asim_fail_memory(err, sizeof *engine);
    engine->config = *config;
    engine->mem = mem;
    engine->trace = config->trace;
    engine->policy = config->policy;
    engine->profile = *config->profile;
    asim_code code = start(engine, err);
    if (code) {
        asim_engine_free(engine);
        return code;
    }
    *ret_engine = engine;
    return ASIM_OK;
}

void asim_engine_free(asim_engine *engine)
{
    if (!engine)
        return;
    const asim_hostmem *mem = engine->mem;
    if (engine->state) {
        engine->policy->fini(engine->state);
        asim_mem_free(mem, engine->state, 1, engine->policy->state_size);
    }
    uint32_t allotted = engine->config.observer_count + (engine->config.check != ASIM_CHECK_OFF);
    for (uint32_t i = 0; engine->observers && i < allotted; i++) {
        asim_observer_instance *instance = &engine->observers[i];
        if (!instance->state)
            continue;
        if (instance->observer->fini)
            instance->observer->fini(instance->state);
        asim_mem_free(mem, instance->state, 1, instance->observer->state_size);
    }
    asim_mem_free(mem, engine->observers, allotted, sizeof(asim_observer_instance));
    asim_mem_free(mem, engine->slots, engine->slot_capacity, sizeof(asim_slot));
    asim_mem_free(mem, engine->slot_of_word, engine->word_capacity, sizeof(uint32_t));
    asim_failures_fini(&engine->failures, mem);
    asim_referee_fini(&engine->referee);
    asim_ledger_fini(&engine->ledger);
    asim_device_model_free(engine->model);
    asim_mem_free(mem, engine, 1, sizeof *engine);
}

static void add_own_metric(void *ctx, const char *name, uint64_t value)
{
    asim_run_record *record = ctx;
    if (record->own_count < ASIM_POLICY_METRICS_MAX)
        record->own[record->own_count++] = (asim_own_metric){name, value};
}

void asim_engine_record(const asim_engine *engine, asim_run_record *ret_record)
{
    const asim_books *books = &engine->books;
    const asim_ledger *ledger = &engine->ledger;
    const asim_policy_counters *counters = &engine->counters;
    const uint64_t context = engine->profile.context_bytes * engine->trace->device_count;
    memset(ret_record, 0, sizeof *ret_record);
    ret_record->status = engine->ooms ? ASIM_RUN_OOM : ASIM_RUN_OK;
    ret_record->placement_digest = engine->digest;
    ret_record->has_recorded = engine->compare;
    ret_record->has_oom = engine->has_oom;
    ret_record->oom = engine->oom;
    ret_record->has_mismatch = engine->has_mismatch;
    ret_record->mismatch = engine->mismatch;
    ret_record->capacity = engine->capacities[0];

    uint64_t *m = ret_record->metrics;
    m[ASIM_METRIC_events] = engine->events;
    m[ASIM_METRIC_allocs] = engine->allocs;
    m[ASIM_METRIC_frees] = engine->frees;
    m[ASIM_METRIC_requested_bytes] = books->requested;
    m[ASIM_METRIC_peak_requested_bytes] = engine->peak_requested;
    m[ASIM_METRIC_allocated_bytes] = books->allocated;
    m[ASIM_METRIC_peak_allocated_bytes] = engine->peak_allocated;
    m[ASIM_METRIC_active_bytes] = books->active;
    m[ASIM_METRIC_peak_active_bytes] = engine->peak_active;
    m[ASIM_METRIC_reserved_bytes] = books->reserved;
    m[ASIM_METRIC_peak_reserved_bytes] = engine->peak_reserved;
    m[ASIM_METRIC_internal_frag_bytes] = asim_books_internal(books);
    m[ASIM_METRIC_peak_internal_frag_bytes] = engine->peak_internal;
    m[ASIM_METRIC_free_bytes] = asim_books_free(books);
    m[ASIM_METRIC_largest_free_bytes] = counters->largest_free_bytes;
    m[ASIM_METRIC_external_frag_ppm] = asim_gap_ppm(counters->largest_free_bytes, asim_books_free(books));
    m[ASIM_METRIC_max_external_frag_ppm] = engine->max_frag_ppm;
    m[ASIM_METRIC_mean_external_frag_ppm] =
        engine->frag_weight ? (uint64_t)(engine->frag_weighted / engine->frag_weight) : 0;
    m[ASIM_METRIC_reserve_gap_ppm] = asim_gap_ppm(engine->peak_active, engine->peak_reserved);
    m[ASIM_METRIC_pinned_bytes] = ledger->pinned;
    m[ASIM_METRIC_peak_pinned_bytes] = engine->peak_pinned;
    m[ASIM_METRIC_smi_bytes] = books->reserved + context;
    m[ASIM_METRIC_peak_smi_bytes] = engine->peak_reserved + context;
    m[ASIM_METRIC_device_allocs] = ledger->allocs;
    m[ASIM_METRIC_device_frees] = ledger->frees;
    m[ASIM_METRIC_device_maps] = ledger->maps;
    m[ASIM_METRIC_device_unmaps] = ledger->unmaps;
    m[ASIM_METRIC_alloc_retries] = counters->alloc_retries;
    m[ASIM_METRIC_cache_flushes] = counters->cache_flushes;
    m[ASIM_METRIC_sync_waits] = counters->sync_waits;
    m[ASIM_METRIC_ooms] = engine->ooms;
    m[ASIM_METRIC_stall_ns] = engine->clocks.stall_ns;
    m[ASIM_METRIC_moved_bytes] = engine->moved_bytes;
    m[ASIM_METRIC_compactions] = engine->compactions;
    m[ASIM_METRIC_pause_ns] = engine->pause_ns;
    m[ASIM_METRIC_max_pause_ns] = engine->max_pause_ns;
    m[ASIM_METRIC_lower_bound_bytes] = engine->peak_rounded;
    m[ASIM_METRIC_recorded_allocs] = engine->recorded_allocs;
    m[ASIM_METRIC_recorded_matches] = engine->recorded_matches;
    m[ASIM_METRIC_recorded_calls] = engine->compare ? engine->trace->call_count : 0;
    m[ASIM_METRIC_recorded_call_matches] = ledger->call_matches;
    m[ASIM_METRIC_search_steps] = counters->search_steps;
    if (engine->policy->metrics)
        engine->policy->metrics(engine->state, add_own_metric, ret_record);
}

void asim_engine_same_capacities(const asim_engine *engine, uint64_t *ret_lowest, uint64_t *ret_below)
{
    const asim_capacity_span span =
        engine->has_oom ? engine->oom_span : asim_device_model_span(engine->model);
    const uint64_t own = engine->capacities[0];
    /* A refusal that the device had no part in may be the policy's answer to the device's size. One that it
     * had is told with its free memory, which is asked for afterwards. */
    bool known = span.asked == UINT64_MAX &&
                 (engine->has_oom ? span.refused == engine->oom_at && span.asked_after >= engine->oom_at
                                  : span.asked_after == UINT64_MAX);
    for (uint32_t i = 1; i < engine->trace->device_count; i++)
        known = known && engine->capacities[i] == own;
    *ret_lowest = known ? span.lowest : own;
    *ret_below = known ? span.below : own == UINT64_MAX ? own : own + 1;
    if (!known || !engine->policy->adopt || engine->opening_held == 0)
        return;
    if (engine->fits)
        *ret_lowest = asim_max(*ret_lowest, engine->opening_held);
    else if (engine->opening_held < *ret_below)
        *ret_below = engine->opening_held;
}

void asim_engine_walk(const asim_engine *engine, const asim_walker *walker)
{
    engine->policy->walk(engine->state, walker);
}

void asim_engine_report(const asim_engine *engine, unsigned device,
                        void (*emit)(void *ctx, const char *name, int64_t value), void *ctx)
{
    if (engine->policy->report)
        engine->policy->report(engine->state, device, emit, ctx);
}

const asim_failures *asim_engine_failures(const asim_engine *engine)
{
    return &engine->failures;
}

void asim_engine_take_failures(asim_engine *engine, asim_failures *ret_failures)
{
    *ret_failures = engine->failures;
    engine->failures = (asim_failures){0};
}

size_t asim_engine_refusal_text(const asim_engine *engine, char *ret_text, size_t capacity)
{
    const asim_failures *failures = &engine->failures;
    const char *text = failures->count && failures->items[0].message ? failures->items[0].message : "";
    return (size_t)snprintf(ret_text, capacity, "%s", text);
}

void asim_engine_device_counts(const asim_engine *engine, unsigned device, asim_device_counts *ret_counts)
{
    asim_device_model_counts(engine->model, device, ret_counts);
}
