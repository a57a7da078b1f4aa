#include "tools/snapshot_out.h"

#include "policies/registry.h"
#include "policies/torchcache_params.h"
#include "traces/torch_notes.h"
#include "traces/torch_write.h"

#include <stdlib.h>
#include <string.h>

typedef struct snapshot {
    const asim_history *history;
    const asim_trace *trace;
    const asim_hostmem *mem;
    asim_torch_out out;
    asim_torch_out_segment *segments;
    size_t segment_capacity;
    asim_torch_out_block *blocks;
    size_t block_count, block_capacity;
    asim_torch_out_annotation *annotations;
    size_t annotation_capacity;
    asim_torch_out_settings settings;
    char conf[2 * ASIM_PARAM_TEXT_MAX + 256];
    uint16_t devices[ASIM_DEVICES_MAX]; /* the file's number of each */
    asim_torch_out_pool *pools;         /* the file's id of each */
    size_t pool_count;
    asim_code code; /* of the walk */
    asim_err *err;
} snapshot;

/* --- numbers of devices and pools --- */

static asim_code number_all(snapshot *s)
{
    const asim_trace *trace = s->trace;
    for (uint32_t i = 0; i < trace->device_count; i++) {
        s->devices[i] = (uint16_t)asim_torch_noted_device(trace, i);
        if (s->devices[i] >= s->out.device_count)
            s->out.device_count = s->devices[i] + 1U;
    }
    for (uint32_t i = 0; i < trace->lane_count; i++)
        if (trace->lanes[i].pool >= s->pool_count)
            s->pool_count = trace->lanes[i].pool + (size_t)1;
    s->pools = asim_mem_new(s->mem, s->pool_count + 1, sizeof *s->pools);
    if (!s->pools)
        return asim_fail_memory(s->err, (s->pool_count + 1) * sizeof *s->pools);
    for (size_t i = 1; i < s->pool_count; i++)
        asim_torch_noted_pool(trace, (unsigned)i, &s->pools[i].first, &s->pools[i].second);
    return ASIM_OK;
}

static asim_torch_out_pool pool_id(const snapshot *s, unsigned pool)
{
    return pool < s->pool_count ? s->pools[pool] : (asim_torch_out_pool){0, pool};
}

/* --- segments --- */

static void take_segment(void *ctx, const asim_walk_segment *segment)
{
    snapshot *s = ctx;
    void *items = s->segments;
    if (!s->code)
        s->code = asim_mem_grow(s->mem, &items, &s->segment_capacity, s->out.segment_count + 1,
                                sizeof *s->segments, s->err);
    if (s->code)
        return;
    s->segments = items;
    s->segments[s->out.segment_count++] =
        (asim_torch_out_segment){.address = segment->address,
                                 .stream = segment->stream,
                                 .first_block = s->block_count,
                                 .pool = pool_id(s, segment->pool),
                                 .stack = asim_history_segment_stack(s->history, segment->address),
                                 .device = s->devices[segment->device],
                                 .small = segment->small,
                                 .expandable = segment->expandable};
}

static void take_block(void *ctx, const asim_walk_block *block)
{
    snapshot *s = ctx;
    void *items = s->blocks;
    if (!s->code)
        s->code =
            asim_mem_grow(s->mem, &items, &s->block_capacity, s->block_count + 1, sizeof *s->blocks, s->err);
    if (s->code)
        return;
    s->blocks = items;
    asim_torch_out_block out = {.size = block->size,
                                .requested = block->requested,
                                .stack = ASIM_NO_INDEX,
                                .state = (uint8_t)block->state};
    asim_history_block known;
    if (block->state != ASIM_BLOCK_FREE && asim_history_block_at(s->history, block->address, &known)) {
        out.requested = known.requested;
        out.stack = known.stack;
    }
    s->blocks[s->block_count++] = out;
    s->segments[s->out.segment_count - 1].block_count++;
}

static int segment_order(const void *a, const void *b)
{
    const asim_torch_out_segment *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

static asim_code take_segments(snapshot *s, const asim_engine *engine)
{
    const asim_walker walker = {take_segment, take_block, s};
    asim_engine_walk(engine, &walker);
    if (s->code || s->out.segment_count == 0)
        return s->code;
    qsort(s->segments, s->out.segment_count, sizeof *s->segments, segment_order);
    s->out.segments = s->segments;
    s->out.blocks = s->blocks;
    return ASIM_OK;
}

/* The segment that holds address at the end, or NULL. */
static const asim_torch_out_segment *segment_at(const snapshot *s, unsigned device, uint64_t address)
{
    size_t low = 0, high = s->out.segment_count;
    while (low < high) { /* the first one behind it */
        size_t middle = (low + high) / 2;
        const asim_torch_out_segment *at = &s->segments[middle];
        if (at->device < device || (at->device == device && at->address <= address))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || s->segments[low - 1].device != device)
        return NULL;
    uint64_t end = s->segments[low - 1].address;
    for (size_t i = 0; i < s->segments[low - 1].block_count && end <= address; i++)
        end += s->blocks[s->segments[low - 1].first_block + i].size;
    return address < end ? &s->segments[low - 1] : NULL;
}

/* --- history --- */

/* A trace whose events all happen at its start has no column of times. */
static bool has_times(const asim_trace *trace)
{
    return trace->times_ns || trace->start_unix_ns;
}

static uint64_t time_us(const asim_trace *trace, uint64_t event)
{
    uint64_t ns = trace->times_ns && event < trace->event_count ? trace->times_ns[event] : 0;
    return (ns > UINT64_MAX - trace->start_unix_ns ? UINT64_MAX : trace->start_unix_ns + ns) / 1000;
}

static void take_entry(void *ctx, uint64_t number, asim_torch_out_entry *ret_entry)
{
    static const asim_torch_out_action actions[] = {
        [ASIM_HISTORY_ALLOC] = ASIM_TORCH_OUT_ALLOC,
        [ASIM_HISTORY_FREE_REQUESTED] = ASIM_TORCH_OUT_FREE_REQUESTED,
        [ASIM_HISTORY_FREE_COMPLETED] = ASIM_TORCH_OUT_FREE_COMPLETED,
        [ASIM_HISTORY_SEGMENT_ALLOC] = ASIM_TORCH_OUT_SEGMENT_ALLOC,
        [ASIM_HISTORY_SEGMENT_FREE] = ASIM_TORCH_OUT_SEGMENT_FREE,
        [ASIM_HISTORY_MAP] = ASIM_TORCH_OUT_SEGMENT_MAP,
        [ASIM_HISTORY_UNMAP] = ASIM_TORCH_OUT_SEGMENT_UNMAP,
        [ASIM_HISTORY_OOM] = ASIM_TORCH_OUT_OOM,
    };
    const snapshot *s = ctx;
    const asim_trace *trace = s->trace;
    const asim_history_entry *entry = asim_history_at(s->history, number);
    const asim_event *event = entry->event < trace->event_count ? &trace->events[entry->event] : NULL;
    unsigned lane = entry->lane;
    if (lane >= trace->lane_count) /* a refusal is that of its event's request */
        lane = event && event->lane < trace->lane_count ? event->lane : 0;
    const asim_lane none = {0}, *from = trace->lane_count ? &trace->lanes[lane] : &none;
    uint32_t stack = event && trace->stacks ? trace->stacks[entry->event] : ASIM_NO_INDEX;
    if (entry->kind == ASIM_HISTORY_FREE_COMPLETED && event && event->kind == ASIM_EV_ALLOC)
        stack = ASIM_NO_INDEX; /* it ended while another request was served, whose stack this is */
    uint16_t device = s->devices[from->device];
    unsigned pool = from->pool;
    *ret_entry = (asim_torch_out_entry){.address = entry->address,
                                        .size = entry->size,
                                        .stream = from->stream,
                                        .time_us = time_us(trace, entry->event),
                                        .pool = pool_id(s, pool),
                                        .stack = stack,
                                        .device = device,
                                        .action = (uint8_t)actions[entry->kind]};
    if (pool == 0 && s->out.release >= 212 && entry->kind != ASIM_HISTORY_OOM) {
        const asim_torch_out_segment *home = segment_at(s, device, entry->address);
        if (home) /* the request named no pool: an open scope may have routed it to one */
            ret_entry->pool = home->pool;
    }
}

static asim_code take_marks(snapshot *s)
{
    const asim_trace *trace = s->trace;
    uint64_t end = asim_history_events(s->history);
    for (uint64_t i = 0; i < end && i < trace->event_count && has_times(trace); i++) {
        const asim_event *event = &trace->events[i];
        if (event->kind != ASIM_EV_MARK)
            continue;
        void *items = s->annotations;
        asim_code code = asim_mem_grow(s->mem, &items, &s->annotation_capacity, s->out.annotation_count + 1,
                                       sizeof *s->annotations, s->err);
        if (code)
            return code;
        s->annotations = items;
        unsigned device = event->lane < trace->lane_count ? trace->lanes[event->lane].device : 0;
        s->annotations[s->out.annotation_count++] = (asim_torch_out_annotation){.time_us = time_us(trace, i),
                                                                                .name = event->id,
                                                                                .device = s->devices[device],
                                                                                .flags = event->flags};
    }
    s->out.annotations = s->annotations;
    return ASIM_OK;
}

/* --- settings --- */

static bool same_options(const asim_tc_options *a, const asim_tc_options *b)
{
    return a->max_split == b->max_split && a->max_rounding == b->max_rounding &&
           a->gc_threshold >= b->gc_threshold && a->gc_threshold <= b->gc_threshold &&
           a->expandable == b->expandable && a->rounding.bypass == b->rounding.bypass &&
           memcmp(a->rounding.divisions, b->rounding.divisions, sizeof a->rounding.divisions) == 0;
}

/* The parameters that are options of PyTorch, as an option string. */
static void spell_parameters(const asim_setup *setup, char *text, size_t size)
{
    static const char *const options[] = {"max_split_size_mb",
                                          "max_non_split_rounding_mb",
                                          "garbage_collection_threshold",
                                          "roundup_power2_divisions",
                                          "roundup_bypass_threshold_mb",
                                          "expandable_segments",
                                          "conf"};
    const asim_param_table *table = &setup->policy->params;
    size_t length = 0;
    text[0] = 0;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        for (size_t k = 0; k < table->count; k++) {
            const asim_param *param = &table->params[k];
            char value[ASIM_PARAM_TEXT_MAX + 8];
            const char *shown = value;
            if (strcmp(param->name, options[i]) != 0)
                continue;
            asim_param_format(param, setup->params, value, sizeof value);
            if (strcmp(value, param->default_text) == 0)
                continue;
            if (param->type == ASIM_PARAM_BOOL)
                shown = strcmp(value, "true") == 0 ? "True" : "False";
            bool whole = strcmp(param->name, "conf") == 0;
            size_t last = strlen(value) - 1;
            if (whole && value[0] == '[' && value[last] == ']') {
                value[last] = 0;
                shown = value + 1;
            }
            length += (size_t)snprintf(text + length, size - length, "%s%s%s%s", length ? "," : "",
                                       whole ? "" : param->name, whole ? "" : ":", shown);
        }
}

static void take_settings(snapshot *s, const asim_setup *setup, const char *conf)
{
    if (setup->policy != &asim_policy_torchcache)
        return;
    const asim_tc_params *params = setup->params;
    const asim_tc_release *release = &asim_tc_releases[params->release];
    asim_tc_options options, given;
    if (asim_tc_params_read(params, release, &options, NULL))
        return; /* refused before the run */
    spell_parameters(setup, s->conf, sizeof s->conf);
    asim_tc_options_default(release, &given);
    if (conf && strlen(conf) < sizeof s->conf && !asim_tc_options_apply(release, conf, &given, NULL) &&
        same_options(&options, &given))
        strcpy(s->conf, conf);
    s->settings.conf = s->conf;
    const asim_trace *trace = s->trace;
    uint64_t end = asim_history_events(s->history);
    for (uint64_t i = 0; i < end && i < trace->event_count; i++)
        if (trace->events[i].kind == ASIM_EV_SETTINGS) { /* the last parsed string shows */
            s->settings.conf = trace->strings[trace->events[i].id].text;
            asim_tc_options_replace(release, s->settings.conf, &options, NULL);
        }
    s->settings.max_split_size = options.max_split == ASIM_TC_UNLIMITED ? -1 : (int64_t)options.max_split;
    s->settings.gc_threshold = options.gc_threshold;
    s->settings.expandable = options.expandable;
    _Static_assert((int)ASIM_TC_SLOTS == (int)ASIM_TORCH_OUT_DIVISIONS, "a division a slot");
    memcpy(s->settings.divisions, options.rounding.divisions, sizeof s->settings.divisions);
    s->out.settings = &s->settings;
}

asim_code asim_snapshot_out(const char *path, const asim_engine *engine, const asim_history *history,
                            const asim_trace *trace, const asim_setup *setup, const char *conf,
                            const asim_hostmem *mem, asim_err *err)
{
    snapshot *s = asim_mem_new(mem, 1, sizeof *s);
    if (!s)
        return asim_fail_memory(err, sizeof *s);
    s->history = history;
    s->trace = trace;
    s->mem = mem;
    s->err = err;
    s->out = (asim_torch_out){.release = asim_torch_release(setup->torch),
                              .trace = trace,
                              .entry_count = asim_history_count(history),
                              .entry = take_entry,
                              .ctx = s,
                              .timed = has_times(trace)};
    asim_code code = number_all(s);
    if (!code)
        code = take_segments(s, engine);
    if (!code)
        code = take_marks(s);
    if (!code) {
        take_settings(s, setup, conf);
        code = asim_torch_write(path, &s->out, mem, err);
    }
    asim_mem_free(mem, s->segments, s->segment_capacity, sizeof *s->segments);
    asim_mem_free(mem, s->blocks, s->block_capacity, sizeof *s->blocks);
    asim_mem_free(mem, s->annotations, s->annotation_capacity, sizeof *s->annotations);
    asim_mem_free(mem, s->pools, s->pool_count + 1, sizeof *s->pools);
    asim_mem_free(mem, s, 1, sizeof *s);
    return code;
}
