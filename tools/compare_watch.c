#include "tools/compare_watch.h"

#include "sim/hash.h"

#include <string.h>

struct asim_observer_state {
    asim_watch *watch;
};

asim_code asim_watch_init(asim_watch *watch, const asim_trace *trace, bool same_trace,
                          const asim_watch *reference, const asim_hostmem *mem, asim_err *err)
{
    *watch = (asim_watch){.mem = mem,
                          .trace = trace,
                          .same_trace = same_trace,
                          .reference = reference,
                          .part_event = ASIM_WATCH_NEVER,
                          .peak_event = ASIM_WATCH_OPENING};
    if (reference || trace->event_count == 0)
        return ASIM_OK;
    watch->digests = asim_mem_new(mem, trace->event_count, sizeof *watch->digests);
    return watch->digests ? ASIM_OK : asim_fail_memory(err, trace->event_count * sizeof *watch->digests);
}

void asim_watch_fini(asim_watch *watch)
{
    if (!watch->mem)
        return;
    asim_mem_free(watch->mem, watch->digests, watch->digests ? watch->trace->event_count : 0,
                  sizeof *watch->digests);
    asim_mem_free(watch->mem, watch->held, watch->held_capacity, sizeof *watch->held);
    *watch = (asim_watch){0};
}

uint64_t asim_watch_request(const asim_trace *trace, uint64_t event)
{
    const asim_event *e = &trace->events[event];
    uint64_t digest = asim_hash_u64(0, (uint64_t)e->kind << 8 | e->flags);
    digest = asim_hash_u64(digest, e->size);
    if (e->kind == ASIM_EV_MARK || e->kind == ASIM_EV_SETTINGS) {
        const asim_string *text = e->id < trace->string_count ? &trace->strings[e->id] : NULL;
        digest = text ? asim_hash_bytes(digest, text->text, text->length) : digest;
    } else {
        digest = asim_hash_u64(digest, e->id);
    }
    if (e->lane < trace->lane_count) {
        const asim_lane *lane = &trace->lanes[e->lane];
        digest = asim_hash_u64(digest, lane->stream);
        digest = asim_hash_u64(digest, (uint64_t)lane->device << 16 | lane->pool);
    }
    return digest;
}

/* --- memory held, by address --- */

static size_t held_after(const asim_watch *watch, uint64_t address)
{
    size_t low = 0, high = watch->held_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (watch->held[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static asim_code hold(asim_watch *watch, uint64_t address, uint64_t size, uint32_t stack, bool opening,
                      asim_err *err)
{
    void *items = watch->held;
    asim_code code = asim_mem_grow(watch->mem, &items, &watch->held_capacity, watch->held_count + 1,
                                   sizeof *watch->held, err);
    if (code)
        return code;
    watch->held = items;
    size_t at = held_after(watch, address);
    memmove(&watch->held[at + 1], &watch->held[at], (watch->held_count - at) * sizeof *watch->held);
    watch->held[at] = (asim_held){address, size, stack, opening};
    watch->held_count++;
    return ASIM_OK;
}

/* [address, address + size) goes back to the device; it may be a part of what was obtained, or of several. */
static asim_code let_go(asim_watch *watch, uint64_t address, uint64_t size, asim_err *err)
{
    uint64_t end = address + size;
    size_t at = held_after(watch, address);
    if (at > 0 && watch->held[at - 1].address + watch->held[at - 1].size > address) {
        asim_held *left = &watch->held[at - 1];
        uint64_t left_end = left->address + left->size;
        left->size = address - left->address;
        if (left_end > end)
            return hold(watch, end, left_end - end, left->stack, left->opening, err);
    }
    size_t last = at;
    while (last < watch->held_count && watch->held[last].address + watch->held[last].size <= end)
        last++;
    memmove(&watch->held[at], &watch->held[last], (watch->held_count - last) * sizeof *watch->held);
    watch->held_count -= last - at;
    if (at < watch->held_count && watch->held[at].address < end) {
        watch->held[at].size -= end - watch->held[at].address;
        watch->held[at].address = end;
    }
    return ASIM_OK;
}

static asim_code hold_opening(asim_watch *watch, asim_err *err)
{
    const asim_trace *trace = watch->trace;
    asim_code code = ASIM_OK;
    for (uint32_t i = 0; i < trace->opening_segment_count && !code; i++) {
        const asim_opening_segment *segment = &trace->opening_segments[i];
        code = hold(watch, segment->address, segment->size, segment->stack, true, err);
    }
    return code;
}

/* --- life cycle --- */

static void close_event(asim_watch *watch, uint64_t event)
{
    const asim_watch *other = watch->reference;
    if (other && watch->part_event == ASIM_WATCH_NEVER &&
        (event >= other->trace->event_count || other->digests[event] != watch->digest))
        watch->part_event = event;
    if (watch->digests)
        watch->digests[event] = watch->digest;
    watch->digest = 0;
}

asim_code asim_watch_begin(asim_watch *watch, uint64_t reserved, uint64_t allocated, asim_err *err)
{
    watch->begun = true;
    watch->opening_digest = watch->digest;
    watch->digest = 0;
    if (watch->second) {
        /* An opening state that was adopted made no driver calls. */
        asim_code code = reserved && watch->held_count == 0 ? hold_opening(watch, err) : ASIM_OK;
        if (!code && watch->peak_event == ASIM_WATCH_OPENING)
            code = watch->at_peak(watch->ctx, err);
        return code;
    }
    watch->peak_held = reserved;
    watch->peak_allocated = allocated;
    if (watch->reference && watch->reference->opening_digest != watch->opening_digest)
        watch->part_event = ASIM_WATCH_OPENING;
    return ASIM_OK;
}

void asim_watch_end(asim_watch *watch)
{
    if (watch->reference && watch->part_event == ASIM_WATCH_NEVER &&
        watch->event < watch->reference->trace->event_count)
        watch->part_event = watch->event;
}

/* --- the observer --- */

static void note(asim_watch *watch, unsigned kind, uint64_t address, uint64_t size)
{
    uint64_t digest = asim_hash_u64(watch->digest, kind + 1);
    if (watch->same_trace)
        digest = asim_hash_u64(digest, address);
    watch->digest = asim_hash_u64(digest, size);
    if (watch->effects && (watch->begun ? watch->event : ASIM_WATCH_OPENING) == watch->look_event) {
        asim_effects *effects = watch->effects;
        if (effects->total < ASIM_EFFECTS_MAX)
            effects->items[effects->total] = (asim_effect){address, size, kind};
        effects->total++;
    }
}

static asim_code watch_init(asim_observer_state *state, const void *config, const asim_hostmem *mem,
                            asim_err *err)
{
    (void)mem;
    (void)err;
    /* The caller's own object comes through the const pointer that every observer's config has. */
    memcpy(&state->watch, &config, sizeof config);
    return ASIM_OK;
}

static asim_code watch_placed(asim_observer_state *state, const asim_event *event,
                              const asim_placement *placement, asim_err *err)
{
    (void)event;
    (void)err;
    note(state->watch, ASIM_EFFECT_PLACED, placement->address, placement->size);
    return ASIM_OK;
}

static asim_code watch_freed(asim_observer_state *state, uint64_t address, uint64_t size, bool pending,
                             asim_err *err)
{
    (void)err;
    note(state->watch, pending ? ASIM_EFFECT_PENDING : ASIM_EFFECT_FREED, address, size);
    return ASIM_OK;
}

static asim_code watch_completed(asim_observer_state *state, uint64_t address, uint64_t size, asim_err *err)
{
    (void)err;
    note(state->watch, ASIM_EFFECT_COMPLETED, address, size);
    return ASIM_OK;
}

static asim_code watch_call(asim_observer_state *state, const asim_driver_call *call, asim_err *err)
{
    asim_watch *watch = state->watch;
    note(watch, ASIM_EFFECT_CALL + (unsigned)call->kind, call->address, call->size);
    if (!watch->second)
        return ASIM_OK;
    uint32_t stack = ASIM_NO_INDEX;
    if (watch->begun && watch->trace->stacks && watch->event < watch->trace->event_count)
        stack = watch->trace->stacks[watch->event];
    if (call->kind == ASIM_CALL_SEGMENT_ALLOC || call->kind == ASIM_CALL_MAP)
        return hold(watch, call->address, call->size, stack, !watch->begun, err);
    if (call->kind == ASIM_CALL_SEGMENT_FREE || call->kind == ASIM_CALL_UNMAP)
        return let_go(watch, call->address, call->size, err);
    return ASIM_OK;
}

static asim_code watch_after(asim_observer_state *state, const asim_event *event, const asim_books *books,
                             const asim_policy_counters *counters, asim_err *err)
{
    asim_watch *watch = state->watch;
    uint64_t at = watch->event;
    (void)event;
    (void)counters;
    if (!watch->begun)
        return ASIM_OK;
    if (watch->second) {
        watch->event++;
        return at == watch->peak_event ? watch->at_peak(watch->ctx, err) : ASIM_OK;
    }
    if (!watch->same_trace)
        watch->digest = asim_hash_u64(watch->digest, asim_watch_request(watch->trace, at));
    close_event(watch, at);
    if (books->reserved > watch->peak_held ||
        (books->reserved == watch->peak_held && books->allocated > watch->peak_allocated)) {
        watch->peak_allocated = books->allocated;
        watch->peak_held = books->reserved;
        watch->peak_event = at;
    }
    watch->event++;
    return ASIM_OK;
}

const asim_observer asim_watch_observer = {
    .name = "watch",
    .state_size = sizeof(asim_observer_state),
    .init = watch_init,
    .placed = watch_placed,
    .freed = watch_freed,
    .completed = watch_completed,
    .call = watch_call,
    .after = watch_after,
};
