#include "traces/info.h"

#include "sim/idmap.h"
#include "traces/kinds.h"

typedef struct slot { /* of a live block; size 0 is possible, so live is kept apart */
    uint64_t size;
    bool live, opening;
} slot;

typedef struct describer {
    const asim_trace *trace;
    asim_trace_info info;
    slot *slots;
    asim_idmap sizes;
    uint8_t *lane_used;
    uint64_t live_bytes, live_blocks;
} describer;

static void add(describer *d, uint32_t id, uint64_t size, bool opening)
{
    d->slots[id] = (slot){.size = size, .live = true, .opening = opening};
    d->live_bytes += size;
    d->live_blocks++;
}

static void drop(describer *d, uint32_t id)
{
    if (!d->slots[id].live) /* in a window: a block that was there before */
        return;
    d->live_bytes -= d->slots[id].size;
    d->live_blocks--;
    d->info.frees_of_opening += d->slots[id].opening;
    d->slots[id] = (slot){0};
}

static void note_peak(describer *d, uint64_t event)
{
    asim_trace_info *info = &d->info;
    if (d->live_bytes > info->peak_live_bytes) {
        info->peak_live_bytes = d->live_bytes;
        info->peak_live_event = event;
    }
    if (d->live_blocks > info->peak_live_blocks)
        info->peak_live_blocks = d->live_blocks;
}

static void describe_opening(describer *d)
{
    const asim_trace *trace = d->trace;
    asim_trace_info *info = &d->info;
    for (uint32_t i = 0; i < trace->opening_segment_count; i++) {
        info->opening_segment_bytes += trace->opening_segments[i].size;
        d->lane_used[trace->opening_segments[i].lane] = 1;
    }
    for (uint32_t i = 0; i < trace->opening_block_count; i++) {
        const asim_opening_block *block = &trace->opening_blocks[i];
        if (block->state == ASIM_BLOCK_LIVE) {
            add(d, block->id, block->requested ? block->requested : block->size, true);
            info->opening_live_blocks++;
        } else if (block->state == ASIM_BLOCK_PENDING) {
            info->opening_pending_blocks++;
        } else {
            info->opening_free_blocks++;
            info->opening_free_bytes += block->size;
        }
    }
    info->opening_live_bytes = d->live_bytes;
    info->peak_live_bytes = d->live_bytes;
    info->peak_live_blocks = d->live_blocks;
}

static asim_code describe_event(describer *d, uint64_t i, asim_err *err)
{
    const asim_event *event = &d->trace->events[i];
    asim_trace_info *info = &d->info;
    asim_code code = ASIM_OK;
    info->kind_counts[event->kind]++;
    if (asim_kind_rules[event->kind].lane != ASIM_LANE_UNUSED && event->lane != ASIM_LANE_ALL)
        d->lane_used[event->lane] = 1;
    if (event->kind == ASIM_EV_ALLOC) {
        info->growing_allocs += (event->flags & ASIM_ALLOC_GROWS) != 0;
        info->unmovable_allocs += (event->flags & ASIM_ALLOC_UNMOVABLE) != 0;
        add(d, event->id, event->size, false);
        info->allocated_bytes += event->size;
        code = asim_idmap_put(&d->sizes, event->size, 0, err);
    } else if (event->kind == ASIM_EV_RESIZE && d->slots[event->id].live) {
        d->live_bytes += event->size - d->slots[event->id].size;
        d->slots[event->id].size = event->size;
    } else if (event->kind == ASIM_EV_FREE) {
        drop(d, event->id);
    }
    if (event->kind == ASIM_EV_ALLOC || event->kind == ASIM_EV_RESIZE) {
        note_peak(d, i);
        if (event->size > info->largest_bytes)
            info->largest_bytes = event->size;
    }
    return code;
}

/* Lanes are few, streams and pools fewer: look at the ones before. */
static void count_lanes(describer *d)
{
    const asim_trace *trace = d->trace;
    for (uint32_t i = 0; i < trace->lane_count; i++) {
        bool device = d->lane_used[i], stream = device, pool = device && trace->lanes[i].pool != 0;
        for (uint32_t k = 0; d->lane_used[i] && k < i && (device || stream || pool); k++) {
            const asim_lane *a = &trace->lanes[i], *b = &trace->lanes[k];
            if (!d->lane_used[k] || a->device != b->device)
                continue;
            device = false;
            stream = stream && a->stream != b->stream;
            pool = pool && a->pool != b->pool;
        }
        d->info.devices_used += device;
        d->info.streams_used += stream;
        d->info.pools_used += pool;
    }
}

static void describe_columns(describer *d)
{
    const asim_trace *trace = d->trace;
    asim_trace_info *info = &d->info;
    info->has_times = trace->times_ns != NULL;
    info->has_addresses = trace->recorded_addresses != NULL;
    info->has_stacks = trace->stacks != NULL;
    if (trace->times_ns && trace->event_count)
        info->duration_ns = trace->times_ns[trace->event_count - 1] - trace->times_ns[0];
    for (uint64_t i = 0; trace->recorded_addresses && i < trace->event_count; i++)
        info->with_address += trace->recorded_addresses[i] != ASIM_NO_ADDRESS;
    for (uint64_t i = 0; trace->stacks && i < trace->event_count; i++)
        info->with_stack += trace->stacks[i] != ASIM_NO_INDEX;
    for (uint32_t i = 0; i < trace->stack_count; i++)
        if (trace->stack_table[i].count > info->stack_depth_max)
            info->stack_depth_max = trace->stack_table[i].count;
    for (uint32_t i = 0; i < trace->call_count; i++)
        info->call_counts[trace->calls[i].kind]++;
}

asim_code asim_trace_describe(const asim_trace *trace, const asim_hostmem *mem, asim_trace_info *ret_info,
                              asim_err *err)
{
    describer d = {.trace = trace};
    size_t slots = (size_t)trace->slot_count + 1, lanes = (size_t)trace->lane_count + 1;
    asim_code code = ASIM_OK;
    asim_idmap_init(&d.sizes, mem);
    d.slots = asim_mem_new(mem, slots, sizeof *d.slots);
    d.lane_used = asim_mem_new(mem, lanes, 1);
    if (!d.slots || !d.lane_used)
        code = asim_fail_memory(err, (uint64_t)slots * sizeof *d.slots);
    if (!code)
        describe_opening(&d);
    for (uint64_t i = 0; !code && i < trace->event_count; i++)
        code = describe_event(&d, i, err);
    if (!code) {
        describe_columns(&d);
        count_lanes(&d);
        d.info.end_live_bytes = d.live_bytes;
        d.info.end_live_blocks = d.live_blocks;
        d.info.distinct_sizes = d.sizes.count;
        *ret_info = d.info;
    }
    asim_idmap_fini(&d.sizes);
    asim_mem_free(mem, d.slots, slots, sizeof *d.slots);
    asim_mem_free(mem, d.lane_used, lanes, 1);
    return code;
}
