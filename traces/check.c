#include "traces/check.h"

#include "traces/kinds.h"
#include "traces/tables.h"

#include <inttypes.h>
#include <string.h>

enum {
    SLOT_UNKNOWN = 3 /* beside asim_block_state: in a window, before the first event that names it */
};

void asim_checker_init(asim_checker *checker, const asim_hostmem *mem)
{
    *checker = (asim_checker){.mem = mem};
    asim_idmap_init(&checker->seen, mem);
}

void asim_checker_fini(asim_checker *checker)
{
    asim_mem_free(checker->mem, checker->slots, checker->capacity, 1);
    asim_idmap_fini(&checker->seen);
    asim_checker_init(checker, checker->mem);
}

void asim_checker_window(asim_checker *checker, uint64_t first_event, uint32_t slot_count)
{
    checker->window = true;
    checker->introduced = slot_count;
    checker->event_count = first_event;
    checker->slot_count = slot_count;
}

static unsigned slot_state(const asim_checker *checker, uint32_t id)
{
    uint32_t state = SLOT_UNKNOWN;
    if (id >= checker->slot_count)
        return ASIM_BLOCK_FREE;
    if (!checker->window)
        return checker->slots[id];
    asim_idmap_get(&checker->seen, id, &state);
    return state;
}

static asim_code set_slot(asim_checker *checker, uint32_t id, unsigned state, asim_err *err)
{
    if (checker->window)
        return asim_idmap_put(&checker->seen, id, state, err);
    if (id >= checker->capacity) {
        size_t old = checker->capacity;
        void *memory = checker->slots;
        asim_code code = asim_mem_grow(checker->mem, &memory, &checker->capacity, (size_t)id + 1, 1, err);
        checker->slots = memory;
        if (code)
            return code;
        memset(checker->slots + old, ASIM_BLOCK_FREE, checker->capacity - old);
    }
    checker->slots[id] = (uint8_t)state;
    if (id >= checker->slot_count)
        checker->slot_count = id + 1;
    return ASIM_OK;
}

static asim_code take_slot(asim_checker *checker, uint32_t id, asim_block_state state, asim_err *err)
{
    unsigned old = slot_state(checker, id);
    if (old == ASIM_BLOCK_LIVE || old == ASIM_BLOCK_PENDING)
        return asim_fail(err, ASIM_E_INPUT, "block %" PRIu32 " is %s already", id,
                         old == ASIM_BLOCK_LIVE ? "live" : "freed but still pending");
    return set_slot(checker, id, state, err);
}

static asim_code check_segment(const asim_trace *trace, uint32_t index, asim_err *err)
{
    const asim_opening_segment *segment = &trace->opening_segments[index];
    if (segment->lane >= trace->lane_count)
        return asim_fail(err, ASIM_E_INPUT, "lane %u does not exist", segment->lane);
    if (segment->stack != ASIM_NO_INDEX && segment->stack >= trace->stack_count)
        return asim_fail(err, ASIM_E_INPUT, "stack %" PRIu32 " does not exist", segment->stack);
    if (segment->expandable > 1 || segment->small > 1)
        return asim_fail(err, ASIM_E_INPUT, "expandable and small are 0 or 1");
    if (segment->size == 0 || segment->size > ASIM_SIZE_LIMIT ||
        segment->address > UINT64_MAX - segment->size)
        return asim_fail(err, ASIM_E_INPUT, "its size of %" PRIu64 " bytes is not possible", segment->size);
    if (index == 0)
        return ASIM_OK;
    const asim_opening_segment *before = segment - 1;
    unsigned device = trace->lanes[segment->lane].device, last = trace->lanes[before->lane].device;
    if (device < last || (device == last && segment->address < before->address))
        return asim_fail(err, ASIM_E_INPUT, "it is out of order: segments go by device, then address");
    if (device == last && segment->address - before->address < before->size)
        return asim_fail(err, ASIM_E_INPUT, "it overlaps the segment before it");
    return ASIM_OK;
}

static asim_code check_block(asim_checker *checker, const asim_trace *trace, const asim_opening_block *block,
                             asim_err *err)
{
    if (block->size == 0 || block->size > ASIM_SIZE_LIMIT)
        return asim_fail(err, ASIM_E_INPUT, "a size of %" PRIu64 " bytes is not possible", block->size);
    if (block->state != ASIM_BLOCK_FREE && block->requested > block->size) /* stale in free blocks (R2) */
        return asim_fail(err, ASIM_E_INPUT, "%" PRIu64 " bytes requested of a block of %" PRIu64,
                         block->requested, block->size);
    if (block->stack != ASIM_NO_INDEX && block->stack >= trace->stack_count)
        return asim_fail(err, ASIM_E_INPUT, "stack %" PRIu32 " does not exist", block->stack);
    if (block->state == ASIM_BLOCK_FREE)
        return block->id == ASIM_NO_INDEX ? ASIM_OK : asim_fail(err, ASIM_E_INPUT, "a free block has no id");
    if (block->state > ASIM_BLOCK_PENDING)
        return asim_fail(err, ASIM_E_INPUT, "state %u does not exist", block->state);
    if (block->id >= trace->opening_block_count)
        return asim_fail(err, ASIM_E_INPUT, "id %" PRIu32 " is not dense: there are %" PRIu32 " blocks",
                         block->id, trace->opening_block_count);
    return take_slot(checker, block->id, (asim_block_state)block->state, err);
}

asim_code asim_checker_opening(asim_checker *checker, const asim_trace *trace, asim_err *err)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < trace->opening_segment_count; i++) {
        const asim_opening_segment *segment = &trace->opening_segments[i];
        asim_code code = check_segment(trace, i, err);
        if (!code &&
            (segment->first_block != next || segment->block_count > trace->opening_block_count - next))
            code = asim_fail(err, ASIM_E_INPUT, "its blocks are not the next ones");
        uint64_t filled = 0;
        for (uint32_t k = 0; !code && k < segment->block_count; k++, next++) {
            code = check_block(checker, trace, &trace->opening_blocks[next], err);
            if (code)
                asim_err_context(err, "block %" PRIu32, k);
            else if (trace->opening_blocks[next].size > segment->size - filled)
                code = asim_fail(err, ASIM_E_INPUT, "its blocks are larger than its %" PRIu64 " bytes",
                                 segment->size);
            else
                filled += trace->opening_blocks[next].size;
        }
        if (!code && filled != segment->size)
            code = asim_fail(err, ASIM_E_INPUT,
                             "its blocks fill %" PRIu64 " of its %" PRIu64 " bytes; there may be no gap",
                             filled, segment->size);
        if (code) {
            asim_err_context(err, "opening segment %" PRIu32, i);
            return code;
        }
    }
    if (next != trace->opening_block_count)
        return asim_fail(err, ASIM_E_INPUT, "%" PRIu32 " opening blocks belong to no segment",
                         trace->opening_block_count - next);
    checker->introduced += trace->opening_block_count;
    return ASIM_OK;
}

static asim_code check_lane(const asim_trace *trace, const asim_event *event, asim_err *err)
{
    unsigned use = asim_kind_rules[event->kind].lane;
    if (use == ASIM_LANE_BY_SCOPE)
        use = ASIM_LANE_ONE_OR_ALL;
    if (use == ASIM_LANE_UNUSED)
        return event->lane == 0 ? ASIM_OK : asim_fail(err, ASIM_E_INPUT, "takes no lane, it has to be 0");
    if (event->kind == ASIM_EV_SYNC && (event->lane == ASIM_LANE_ALL) != (event->id == ASIM_SYNC_ALL))
        return asim_fail(err, ASIM_E_INPUT, "names a lane exactly if its scope is a stream or a device");
    if (use == ASIM_LANE_ONE_OR_ALL && event->lane == ASIM_LANE_ALL)
        return ASIM_OK;
    if (event->lane >= trace->lane_count)
        return asim_fail(err, ASIM_E_INPUT, "lane %u does not exist, there are %" PRIu32, event->lane,
                         trace->lane_count);
    if (use == ASIM_LANE_POOL && trace->lanes[event->lane].pool == 0)
        return asim_fail(err, ASIM_E_INPUT, "its lane names no pool");
    return ASIM_OK;
}

static asim_code check_size(const asim_event *event, asim_err *err)
{
    const asim_kind_rule *rule = &asim_kind_rules[event->kind];
    double fraction;
    switch ((asim_size_use)rule->size) {
    case ASIM_SIZE_UNUSED:
        if (event->size)
            return asim_fail(err, ASIM_E_INPUT, "takes no size, it has to be 0");
        break;
    case ASIM_SIZE_BYTES:
    case ASIM_SIZE_TIME:
        if (event->size > ASIM_SIZE_LIMIT)
            return asim_fail(err, ASIM_E_INPUT, "a size of %" PRIu64 " is too large", event->size);
        break;
    case ASIM_SIZE_FRACTION:
        memcpy(&fraction, &event->size, sizeof fraction);
        if (!(fraction >= 0 && fraction <= 1))
            return asim_fail(err, ASIM_E_INPUT, "the fraction does not lie between 0 and 1");
        break;
    case ASIM_SIZE_NUMBER:
        if (event->size > rule->size_max)
            return asim_fail(err, ASIM_E_INPUT, "number %" PRIu64 " does not exist, at most %u", event->size,
                             rule->size_max);
        break;
    }
    return ASIM_OK;
}

static asim_code check_id(asim_checker *checker, const asim_trace *trace, const asim_event *event,
                          asim_err *err)
{
    static const char *const states[] = {"not live", "live", "freed already and pending"};
    const asim_kind_rule *rule = &asim_kind_rules[event->kind];
    asim_code code;
    unsigned state, wanted;
    switch ((asim_id_use)rule->id) {
    case ASIM_ID_UNUSED:
        return event->id == 0 ? ASIM_OK : asim_fail(err, ASIM_E_INPUT, "takes no id, it has to be 0");
    case ASIM_ID_STRING:
        if (event->id >= trace->string_count)
            return asim_fail(err, ASIM_E_INPUT, "string %" PRIu32 " does not exist", event->id);
        return ASIM_OK;
    case ASIM_ID_NUMBER:
        if (event->id > rule->id_max)
            return asim_fail(err, ASIM_E_INPUT, "number %" PRIu32 " does not exist, at most %u", event->id,
                             rule->id_max);
        return ASIM_OK;
    case ASIM_ID_NEW:
        if (event->id > checker->introduced || event->id == ASIM_NO_INDEX ||
            (checker->window && event->id >= checker->slot_count))
            return asim_fail(err, ASIM_E_INPUT,
                             "id %" PRIu32 " is not dense: only %" PRIu64 " blocks came before it", event->id,
                             checker->introduced);
        code = take_slot(checker, event->id, ASIM_BLOCK_LIVE, err);
        checker->introduced += !code && !checker->window;
        return code;
    case ASIM_ID_LIVE:
    case ASIM_ID_PENDING:
        state = slot_state(checker, event->id);
        wanted = rule->id == ASIM_ID_LIVE ? ASIM_BLOCK_LIVE : ASIM_BLOCK_PENDING;
        if (state != SLOT_UNKNOWN && state != wanted)
            return asim_fail(err, ASIM_E_INPUT, "block %" PRIu32 " is %s", event->id, states[state]);
        if (event->kind == ASIM_EV_FREE)
            wanted = event->flags & ASIM_FREE_PENDING ? ASIM_BLOCK_PENDING : ASIM_BLOCK_FREE;
        else if (event->kind == ASIM_EV_FREE_DONE)
            wanted = ASIM_BLOCK_FREE;
        return set_slot(checker, event->id, wanted, err);
    }
    return asim_fail(err, ASIM_E_BUG, "the kind's rule is incomplete");
}

static asim_code check_event(asim_checker *checker, const asim_trace *trace, const asim_event *event,
                             asim_err *err)
{
    if (event->kind == ASIM_EV_NONE || event->kind >= ASIM_EV_KINDS)
        return asim_fail(err, ASIM_E_INPUT, "kind %u does not exist", event->kind);
    const asim_kind_rule *rule = &asim_kind_rules[event->kind];
    if ((event->flags & ~rule->flags) ||
        (event->kind == ASIM_EV_MARK && event->flags == (ASIM_MARK_BEGIN | ASIM_MARK_END)))
        return asim_fail(err, ASIM_E_INPUT, "flags %u do not exist", event->flags);
    asim_code code = check_lane(trace, event, err);
    if (!code)
        code = check_size(event, err);
    return code ? code : check_id(checker, trace, event, err);
}

/* The two kinds that make up most of every trace, without a call; anything odd goes the long way. */
static inline bool check_common(asim_checker *checker, const asim_trace *trace, const asim_event *event)
{
    if (event->id >= checker->slot_count || checker->window)
        return false;
    uint8_t *slot = &checker->slots[event->id];
    if (event->kind == ASIM_EV_ALLOC) {
        if (*slot != ASIM_BLOCK_FREE || event->flags > (ASIM_ALLOC_UNMOVABLE | ASIM_ALLOC_GROWS) ||
            event->lane >= trace->lane_count || event->size > ASIM_SIZE_LIMIT)
            return false;
        *slot = ASIM_BLOCK_LIVE;
        checker->introduced++;
        return true;
    }
    if (event->kind != ASIM_EV_FREE || *slot != ASIM_BLOCK_LIVE || event->flags > ASIM_FREE_PENDING ||
        event->lane || event->size)
        return false;
    *slot = event->flags ? ASIM_BLOCK_PENDING : ASIM_BLOCK_FREE;
    return true;
}

static asim_code fail_event(asim_checker *checker, const asim_event *event, size_t index, asim_code code,
                            asim_err *err)
{
    const char *name = asim_event_kind_name(event->kind);
    uint64_t number = checker->event_count + index;
    asim_err_context(err, "event %" PRIu64 " (%s)", number, name ? name : "unknown");
    if (err)
        err->position = number;
    return code;
}

asim_code asim_checker_events(asim_checker *checker, const asim_trace *trace, const asim_event *events,
                              const uint64_t *times, const uint64_t *addresses, const uint32_t *stacks,
                              size_t count, asim_err *err)
{
    for (size_t i = 0; i < count; i++)
        if (!check_common(checker, trace, &events[i])) {
            asim_code code = check_event(checker, trace, &events[i], err);
            if (code)
                return fail_event(checker, &events[i], i, code, err);
        }
    for (size_t i = 0; times && i < count; i++) {
        if (times[i] < checker->last_time_ns)
            return fail_event(checker, &events[i], i,
                              asim_fail(err, ASIM_E_INPUT, "its time of %" PRIu64 " ns lies before %" PRIu64,
                                        times[i], checker->last_time_ns),
                              err);
        checker->last_time_ns = times[i];
    }
    for (size_t i = 0; addresses && i < count; i++)
        if (addresses[i] != ASIM_NO_ADDRESS && events[i].kind != ASIM_EV_ALLOC)
            return fail_event(checker, &events[i], i,
                              asim_fail(err, ASIM_E_INPUT, "only an alloc has a recorded address"), err);
    for (size_t i = 0; stacks && i < count; i++)
        if (stacks[i] != ASIM_NO_INDEX && stacks[i] >= trace->stack_count)
            return fail_event(checker, &events[i], i,
                              asim_fail(err, ASIM_E_INPUT, "stack %" PRIu32 " does not exist", stacks[i]),
                              err);
    checker->event_count += count;
    return ASIM_OK;
}

asim_code asim_check_call(const asim_trace *trace, const asim_recorded_call *previous,
                          const asim_recorded_call *call, uint64_t event_count, asim_err *err)
{
    if (call->kind > ASIM_CALL_OOM)
        return asim_fail(err, ASIM_E_INPUT, "recorded call: kind %u does not exist", call->kind);
    if (call->lane >= trace->lane_count && call->lane != ASIM_LANE_ALL)
        return asim_fail(err, ASIM_E_INPUT, "recorded call: lane %u does not exist", call->lane);
    if (call->event > event_count)
        return asim_fail(err, ASIM_E_INPUT, "recorded call: event %" PRIu64 " does not exist", call->event);
    if (previous && call->event < previous->event)
        return asim_fail(err, ASIM_E_INPUT, "recorded calls are not in the order of their events");
    return ASIM_OK;
}

static asim_code check_tables(const asim_trace *trace, asim_err *err)
{
    for (uint32_t i = 0; i < trace->string_count; i++) {
        const asim_string *string = &trace->strings[i];
        if (string->length > ASIM_STRING_MAX ||
            asim_utf8_prefix(string->text, string->length) < string->length)
            return asim_fail(err, ASIM_E_INPUT, "string %" PRIu32 " is not UTF-8 or too long", i);
    }
    for (uint32_t i = 0; i < trace->frame_count; i++)
        if (trace->frames[i].function >= trace->string_count || trace->frames[i].file >= trace->string_count)
            return asim_fail(err, ASIM_E_INPUT, "frame %" PRIu32 " names a string that does not exist", i);
    for (uint32_t i = 0; i < trace->stack_frame_count; i++)
        if (trace->stack_frames[i] >= trace->frame_count)
            return asim_fail(err, ASIM_E_INPUT, "a stack names frame %" PRIu32 ", which does not exist",
                             trace->stack_frames[i]);
    for (uint32_t i = 0; i < trace->stack_count; i++)
        if (trace->stack_table[i].first > trace->stack_frame_count ||
            trace->stack_table[i].count > trace->stack_frame_count - trace->stack_table[i].first)
            return asim_fail(err, ASIM_E_INPUT, "stack %" PRIu32 " is out of range", i);
    if (trace->device_count > ASIM_DEVICES_MAX || trace->lane_count > ASIM_LANES_MAX)
        return asim_fail(err, ASIM_E_INPUT, "too many devices or lanes");
    for (uint32_t i = 0; i < trace->device_count; i++)
        if (trace->devices[i].name != ASIM_NO_INDEX && trace->devices[i].name >= trace->string_count)
            return asim_fail(err, ASIM_E_INPUT, "device %" PRIu32 "'s name does not exist", i);
    for (uint32_t i = 0; i < trace->lane_count; i++)
        if (trace->lanes[i].device >= trace->device_count)
            return asim_fail(err, ASIM_E_INPUT, "lane %" PRIu32 "'s device does not exist", i);
    for (uint32_t i = 0; i < trace->note_count; i++)
        if (trace->notes[i] >= trace->string_count)
            return asim_fail(err, ASIM_E_INPUT, "note %" PRIu32 " does not exist", i);
    if ((trace->source != ASIM_NO_INDEX && trace->source >= trace->string_count) ||
        (trace->settings != ASIM_NO_INDEX && trace->settings >= trace->string_count))
        return asim_fail(err, ASIM_E_INPUT, "the source or the settings name a string that does not exist");
    return ASIM_OK;
}

asim_code asim_trace_check(const asim_trace *trace, const asim_hostmem *mem, asim_err *err)
{
    asim_checker checker;
    asim_checker_init(&checker, mem);
    asim_code code = check_tables(trace, err);
    if (!code)
        code = asim_checker_opening(&checker, trace, err);
    if (!code)
        code = asim_checker_events(&checker, trace, trace->events, trace->times_ns, trace->recorded_addresses,
                                   trace->stacks, (size_t)trace->event_count, err);
    for (uint32_t i = 0; !code && i < trace->call_count; i++)
        code = asim_check_call(trace, i ? &trace->calls[i - 1] : NULL, &trace->calls[i], trace->event_count,
                               err);
    if (!code && checker.slot_count != trace->slot_count)
        code = asim_fail(err, ASIM_E_INPUT, "the slot count is %" PRIu32 ", but ids reach %" PRIu32,
                         trace->slot_count, checker.slot_count);
    asim_checker_fini(&checker);
    return code;
}
