#include "tools/tune_events.h"

#include "traces/digest.h"

#include <string.h>

#define BLOCK_STEP (UINT64_C(2) << 20)

typedef struct column { /* where the copy stands */
    asim_event *events;
    uint64_t *times, *addresses;
    uint64_t count;
} column;

static void measure(const asim_trace *trace, uint64_t *sizes, uint16_t *lanes, uint64_t *by_lane,
                    asim_tune_need *needs)
{
    int64_t live[ASIM_DEVICES_MAX] = {0};
    for (uint64_t i = 0; i < trace->event_count; i++) {
        const asim_event *event = &trace->events[i];
        bool frees = event->kind == ASIM_EV_FREE || event->kind == ASIM_EV_RESIZE;
        if (frees && lanes[event->id] != ASIM_LANE_ALL)
            live[trace->lanes[lanes[event->id]].device] -= (int64_t)sizes[event->id];
        if (event->kind == ASIM_EV_FREE)
            lanes[event->id] = ASIM_LANE_ALL;
        if (event->kind == ASIM_EV_ALLOC) {
            lanes[event->id] = event->lane;
            by_lane[event->lane] += event->size;
        }
        if ((event->kind != ASIM_EV_ALLOC && event->kind != ASIM_EV_RESIZE) ||
            event->size >= ASIM_TC_HARD_LIMIT || lanes[event->id] == ASIM_LANE_ALL)
            continue;
        sizes[event->id] = event->size;
        unsigned device = trace->lanes[lanes[event->id]].device;
        live[device] += (int64_t)event->size;
        if (live[device] > 0 && (uint64_t)live[device] > needs[device].peak_bytes)
            needs[device].peak_bytes = (uint64_t)live[device];
    }
}

/* Blocks of the opening state that are freed make room: they count as taken away. */
static void take_opening(const asim_trace *trace, uint64_t *sizes, uint16_t *lanes)
{
    for (uint32_t s = 0; s < trace->opening_segment_count; s++) {
        const asim_opening_segment *segment = &trace->opening_segments[s];
        for (uint32_t b = 0; b < segment->block_count; b++) {
            const asim_opening_block *block = &trace->opening_blocks[segment->first_block + b];
            if (block->state == ASIM_BLOCK_FREE)
                continue;
            sizes[block->id] = block->requested ? block->requested : block->size;
            lanes[block->id] = segment->lane;
        }
    }
}

asim_code asim_tune_needs(const asim_trace *trace, asim_tune_need *ret_needs, const asim_hostmem *mem,
                          asim_err *err)
{
    const size_t slots = (size_t)trace->slot_count + 1, lane_count = (size_t)trace->lane_count + 1;
    uint64_t *sizes = asim_mem_new(mem, slots, sizeof *sizes);
    uint16_t *lanes = asim_mem_new(mem, slots, sizeof *lanes);
    uint64_t *by_lane = asim_mem_new(mem, lane_count, sizeof *by_lane);
    asim_code code = sizes && lanes && by_lane ? ASIM_OK : asim_fail_memory(err, slots * sizeof *sizes);
    for (uint32_t i = 0; i < trace->device_count; i++)
        ret_needs[i] = (asim_tune_need){.lane = ASIM_LANE_ALL};
    if (!code) {
        memset(lanes, 0xFF, slots * sizeof *lanes);
        take_opening(trace, sizes, lanes);
        measure(trace, sizes, lanes, by_lane, ret_needs);
    }
    for (uint32_t i = 0; !code && i < trace->lane_count; i++) {
        asim_tune_need *need = &ret_needs[trace->lanes[i].device];
        bool better = need->lane == ASIM_LANE_ALL || by_lane[i] > by_lane[need->lane];
        if (trace->lanes[i].pool == 0 && by_lane[i] > 0 && better)
            need->lane = (uint16_t)i;
    }
    asim_mem_free(mem, sizes, slots, sizeof *sizes);
    asim_mem_free(mem, lanes, slots, sizeof *lanes);
    asim_mem_free(mem, by_lane, lane_count, sizeof *by_lane);
    return code;
}

uint64_t asim_tune_block_bytes(const asim_tune_need *need, unsigned percent)
{
    uint64_t bytes = need->peak_bytes / 100 * percent;
    return asim_tc_ceil(bytes, BLOCK_STEP);
}

bool asim_tune_changes_events(const asim_tune_setting *setting)
{
    return setting->trim_place || setting->block_percent || setting->switch_place;
}

static void append(column *copy, asim_event event, uint64_t time)
{
    copy->events[copy->count] = event;
    if (copy->times)
        copy->times[copy->count] = time;
    if (copy->addresses)
        copy->addresses[copy->count] = ASIM_NO_ADDRESS;
    copy->count++;
}

static void append_blocks(column *copy, const asim_trace *trace, const asim_tune_need *needs,
                          unsigned percent, uint64_t time)
{
    for (uint32_t d = 0; d < trace->device_count; d++) {
        const uint32_t id = trace->slot_count + d;
        if (needs[d].lane == ASIM_LANE_ALL)
            continue;
        append(copy,
               (asim_event){.kind = ASIM_EV_ALLOC,
                            .lane = needs[d].lane,
                            .id = id,
                            .size = asim_tune_block_bytes(&needs[d], percent)},
               time);
        append(copy, (asim_event){.kind = ASIM_EV_FREE, .lane = needs[d].lane, .id = id}, time);
    }
}

/* Copies events, and shifts recorded calls with those that they belong to. */
static void fill(column *copy, asim_recorded_call *calls, const asim_trace *trace, const asim_tune_base *base,
                 const asim_tune_setting *setting, const asim_tune_need *needs)
{
    const asim_tune_place *trim = setting->trim_place ? &base->places[setting->trim_place - 1] : NULL,
                          *turn = setting->switch_place ? &base->places[setting->switch_place - 1] : NULL,
                          *block = setting->block_place ? &base->places[setting->block_place - 1] : NULL;
    bool blocks_done = setting->block_percent == 0;
    uint32_t call = 0;
    if (!blocks_done && !block) {
        append_blocks(copy, trace, needs, setting->block_percent,
                      trace->times_ns && trace->event_count ? trace->times_ns[0] : 0);
        blocks_done = true;
    }
    for (uint64_t i = 0; i < trace->event_count; i++) {
        const asim_event *event = &trace->events[i];
        const uint64_t time = trace->times_ns ? trace->times_ns[i] : 0;
        for (; call < trace->call_count && trace->calls[call].event == i; call++) {
            calls[call] = trace->calls[call];
            calls[call].event = copy->count;
        }
        append(copy, *event, time);
        if (copy->addresses)
            copy->addresses[copy->count - 1] = trace->recorded_addresses[i];
        if (turn && asim_tune_at_place(trace, event, turn)) {
            append(copy, (asim_event){.kind = ASIM_EV_SETTINGS, .id = trace->string_count}, time);
            turn = NULL;
        }
        if (trim && asim_tune_at_place(trace, event, trim)) {
            append(copy, (asim_event){.kind = ASIM_EV_TRIM, .lane = ASIM_LANE_ALL}, time);
            trim = setting->trim_each ? trim : NULL;
        }
        if (!blocks_done && asim_tune_at_place(trace, event, block)) {
            append_blocks(copy, trace, needs, setting->block_percent, time);
            blocks_done = true;
        }
    }
}

/* The number of events that may be added: the arrays have room for so many. */
static uint64_t most_added(const asim_trace *trace, const asim_tune_base *base,
                           const asim_tune_setting *setting)
{
    uint64_t added = 2 * (uint64_t)trace->device_count + 1;
    for (uint64_t i = 0; setting->trim_place && i < trace->event_count; i++)
        added += asim_tune_at_place(trace, &trace->events[i], &base->places[setting->trim_place - 1]);
    return added;
}

typedef struct own_trace { /* what asim_tune_trace_new gives begins with the trace */
    asim_trace trace;
    column copy;
    asim_recorded_call *calls;
    size_t room, call_room;
    asim_string *strings; /* with conf at the end; NULL: the trace's */
    size_t string_room;
    char conf[ASIM_PARAM_TEXT_MAX];
} own_trace;

static asim_code own_new(const asim_trace *trace, uint64_t events, bool addresses, const asim_hostmem *mem,
                         own_trace **ret_own, asim_err *err)
{
    own_trace *own = asim_mem_new(mem, 1, sizeof *own);
    if (!own)
        return asim_fail_memory(err, sizeof *own);
    own->room = (size_t)events + 1;
    own->call_room = (size_t)trace->call_count + 1;
    own->copy.events = asim_mem_new(mem, own->room, sizeof *own->copy.events);
    own->calls = asim_mem_new(mem, own->call_room, sizeof *own->calls);
    bool whole = own->copy.events && own->calls;
    if (trace->times_ns)
        whole = (own->copy.times = asim_mem_new(mem, own->room, sizeof *own->copy.times)) && whole;
    if (addresses)
        whole = (own->copy.addresses = asim_mem_new(mem, own->room, sizeof *own->copy.addresses)) && whole;
    if (!whole) {
        asim_code code = asim_fail_memory(err, own->room * sizeof *own->copy.events);
        asim_tune_trace_free(&own->trace, mem);
        return code;
    }
    *ret_own = own;
    return ASIM_OK;
}

static void own_finish(own_trace *own, const asim_trace *trace)
{
    own->trace = *trace;
    own->trace.events = own->copy.events;
    own->trace.event_count = own->copy.count;
    own->trace.times_ns = own->copy.times;
    own->trace.recorded_addresses = own->copy.addresses;
    own->trace.stacks = NULL;
    own->trace.calls = own->calls;
}

/* The option string of the added SETTINGS event becomes the last string of the table. */
static asim_code add_switch(own_trace *own, const asim_trace *trace, const asim_tune_base *base,
                            const asim_tune_setting *setting, const asim_hostmem *mem, asim_err *err)
{
    own->string_room = (size_t)trace->string_count + 1;
    own->strings = asim_mem_new(mem, own->string_room, sizeof *own->strings);
    if (!own->strings)
        return asim_fail_memory(err, own->string_room * sizeof *own->strings);
    if (trace->string_count)
        memcpy(own->strings, trace->strings, trace->string_count * sizeof *own->strings);
    asim_tune_switch_conf(base, setting, own->conf);
    own->strings[trace->string_count] = (asim_string){own->conf, (uint32_t)strlen(own->conf)};
    own->trace.strings = own->strings;
    own->trace.string_count++;
    return ASIM_OK;
}

asim_code asim_tune_trace_new(const asim_trace *trace, const asim_tune_base *base,
                              const asim_tune_setting *setting, const asim_tune_need *needs,
                              const asim_hostmem *mem, asim_trace **ret_trace, asim_err *err)
{
    own_trace *own = NULL;
    asim_code code = own_new(trace, trace->event_count + most_added(trace, base, setting),
                             trace->recorded_addresses != NULL, mem, &own, err);
    if (code)
        return code;
    fill(&own->copy, own->calls, trace, base, setting, needs);
    own_finish(own, trace);
    if (setting->switch_place && (code = add_switch(own, trace, base, setting, mem, err))) {
        asim_tune_trace_free(&own->trace, mem);
        return code;
    }
    own->trace.slot_count = trace->slot_count + (setting->block_percent ? trace->device_count : 0);
    own->trace.digest = asim_trace_digest(&own->trace);
    *ret_trace = &own->trace;
    return ASIM_OK;
}

static void append_opening(column *copy, const asim_trace *trace)
{
    const uint64_t time = trace->times_ns && trace->event_count ? trace->times_ns[0] : 0;
    for (uint32_t s = 0; s < trace->opening_segment_count; s++) {
        const asim_opening_segment *segment = &trace->opening_segments[s];
        for (uint32_t b = 0; b < segment->block_count; b++) {
            const asim_opening_block *block = &trace->opening_blocks[segment->first_block + b];
            asim_event event = {.kind = ASIM_EV_ALLOC, .lane = segment->lane, .id = block->id};
            if (block->state == ASIM_BLOCK_FREE)
                continue;
            event.size = block->requested ? block->requested : block->size;
            append(copy, event, time);
            event = (asim_event){.kind = ASIM_EV_FREE, .flags = ASIM_FREE_PENDING, .id = block->id};
            if (block->state == ASIM_BLOCK_PENDING) /* its completion is in the trace, or never comes */
                append(copy, event, time);
        }
    }
}

asim_code asim_tune_trace_afresh(const asim_trace *trace, const asim_hostmem *mem, asim_trace **ret_trace,
                                 asim_err *err)
{
    own_trace *own = NULL;
    asim_code code =
        own_new(trace, trace->event_count + 2 * (uint64_t)trace->opening_block_count, false, mem, &own, err);
    if (code)
        return code;
    append_opening(&own->copy, trace);
    for (uint64_t i = 0; i < trace->event_count; i++)
        append(&own->copy, trace->events[i], trace->times_ns ? trace->times_ns[i] : 0);
    own_finish(own, trace);
    own->trace.call_count = 0;
    own->trace.opening_segments = NULL;
    own->trace.opening_blocks = NULL;
    own->trace.opening_segment_count = own->trace.opening_block_count = 0;
    own->trace.digest = asim_trace_digest(&own->trace);
    *ret_trace = &own->trace;
    return ASIM_OK;
}

void asim_tune_trace_free(asim_trace *trace, const asim_hostmem *mem)
{
    own_trace *own = (own_trace *)trace;
    if (!own)
        return;
    asim_mem_free(mem, own->copy.events, own->room, sizeof *own->copy.events);
    asim_mem_free(mem, own->copy.times, own->room, sizeof *own->copy.times);
    asim_mem_free(mem, own->copy.addresses, own->room, sizeof *own->copy.addresses);
    asim_mem_free(mem, own->calls, own->call_room, sizeof *own->calls);
    asim_mem_free(mem, own->strings, own->string_room, sizeof *own->strings);
    asim_mem_free(mem, own, 1, sizeof *own);
}
