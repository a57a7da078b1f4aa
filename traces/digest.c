#include "traces/digest.h"

#include "sim/hash.h"

void asim_digest_init(asim_digest *digest)
{
    *digest = (asim_digest){.heads = ASIM_HASH_INIT,
                            .sizes = ASIM_HASH_INIT,
                            .times = ASIM_HASH_INIT,
                            .addresses = ASIM_HASH_INIT,
                            .stacks = ASIM_HASH_INIT,
                            .segments = ASIM_HASH_INIT,
                            .blocks = ASIM_HASH_INIT,
                            .calls = ASIM_HASH_INIT};
}

static uint64_t event_head(const asim_event *event)
{
    return (uint64_t)event->kind | (uint64_t)event->flags << 8 | (uint64_t)event->lane << 16 |
           (uint64_t)event->id << 32;
}

/* Columns that hold nothing but their default are the same as absent ones, so until the first other value
 * only the number of defaults matters: they are caught up with then. */
static uint64_t hash_u64_column(uint64_t state, bool *any, const uint64_t *items, uint64_t absent,
                                uint64_t before, size_t count)
{
    if (!*any) {
        size_t i = 0;
        while (items && i < count && items[i] == absent)
            i++;
        if (!items || i == count)
            return state;
        *any = true;
        for (uint64_t k = 0; k < before; k++)
            state = asim_hash_u64(state, absent);
    }
    for (size_t i = 0; i < count; i++)
        state = asim_hash_u64(state, items ? items[i] : absent);
    return state;
}

static uint64_t hash_u32_column(uint64_t state, bool *any, const uint32_t *items, uint32_t absent,
                                uint64_t before, size_t count)
{
    if (!*any) {
        size_t i = 0;
        while (items && i < count && items[i] == absent)
            i++;
        if (!items || i == count)
            return state;
        *any = true;
        for (uint64_t k = 0; k < before; k++)
            state = asim_hash_u64(state, absent);
    }
    for (size_t i = 0; i < count; i++)
        state = asim_hash_u64(state, items ? items[i] : absent);
    return state;
}

void asim_digest_events(asim_digest *digest, const asim_event *events, const uint64_t *times,
                        const uint64_t *addresses, const uint32_t *stacks, size_t count)
{
    uint64_t heads = digest->heads, sizes = digest->sizes;
    for (size_t i = 0; i < count; i++) {
        heads = asim_hash_u64(heads, event_head(&events[i]));
        sizes = asim_hash_u64(sizes, events[i].size);
    }
    digest->heads = heads;
    digest->sizes = sizes;
    uint64_t before = digest->event_count;
    digest->times = hash_u64_column(digest->times, &digest->any_time, times, 0, before, count);
    digest->addresses =
        hash_u64_column(digest->addresses, &digest->any_address, addresses, ASIM_NO_ADDRESS, before, count);
    digest->stacks =
        hash_u32_column(digest->stacks, &digest->any_stack, stacks, ASIM_NO_INDEX, before, count);
    digest->event_count += count;
}

void asim_digest_segment(asim_digest *digest, const asim_opening_segment *segment)
{
    uint64_t h = digest->segments;
    h = asim_hash_u64(h, segment->address);
    h = asim_hash_u64(h, segment->size);
    h = asim_hash_u64(h, (uint64_t)segment->block_count << 32 | segment->stack);
    h = asim_hash_u64(h, (uint64_t)segment->lane | (uint64_t)segment->expandable << 16 |
                             (uint64_t)segment->small << 24);
    digest->segments = h;
    digest->segment_count++;
}

void asim_digest_block(asim_digest *digest, const asim_opening_block *block)
{
    uint64_t h = digest->blocks;
    h = asim_hash_u64(h, block->size);
    h = asim_hash_u64(h, block->requested);
    h = asim_hash_u64(h, (uint64_t)block->id << 32 | block->stack);
    h = asim_hash_u64(h, block->state);
    digest->blocks = h;
    digest->block_count++;
}

void asim_digest_call(asim_digest *digest, const asim_recorded_call *call)
{
    uint64_t h = digest->calls;
    h = asim_hash_u64(h, call->event);
    h = asim_hash_u64(h, call->address);
    h = asim_hash_u64(h, call->size);
    h = asim_hash_u64(h, (uint64_t)call->lane | (uint64_t)call->kind << 16);
    digest->calls = h;
    digest->call_count++;
}

static uint64_t fold(uint64_t state, uint64_t section, uint64_t count)
{
    return asim_hash_u64(asim_hash_u64(state, section), count);
}

static uint64_t hash_strings(const asim_trace *trace)
{
    uint64_t h = ASIM_HASH_INIT;
    for (uint32_t i = 0; i < trace->string_count; i++)
        h = asim_hash_bytes(h, trace->strings[i].text, trace->strings[i].length);
    return h;
}

static uint64_t hash_frames(const asim_trace *trace)
{
    uint64_t h = ASIM_HASH_INIT;
    for (uint32_t i = 0; i < trace->frame_count; i++) {
        h = asim_hash_u64(h, (uint64_t)trace->frames[i].function << 32 | trace->frames[i].file);
        h = asim_hash_u64(h, trace->frames[i].line);
    }
    return h;
}

static uint64_t hash_stacks(const asim_trace *trace)
{
    uint64_t h = ASIM_HASH_INIT;
    for (uint32_t i = 0; i < trace->stack_count; i++) {
        const asim_stack *stack = &trace->stack_table[i];
        for (uint32_t k = 0; k < stack->count; k++)
            h = asim_hash_u64(h, trace->stack_frames[stack->first + k]);
        h = asim_hash_u64(h, stack->count);
    }
    return h;
}

static uint64_t hash_devices(const asim_trace *trace)
{
    uint64_t h = ASIM_HASH_INIT;
    for (uint32_t i = 0; i < trace->device_count; i++)
        h = asim_hash_u64(asim_hash_u64(h, trace->devices[i].name), trace->devices[i].capacity);
    return h;
}

static uint64_t hash_lanes(const asim_trace *trace)
{
    uint64_t h = ASIM_HASH_INIT;
    for (uint32_t i = 0; i < trace->lane_count; i++) {
        const asim_lane *lane = &trace->lanes[i];
        h = asim_hash_u64(asim_hash_u64(h, lane->stream), (uint64_t)lane->device << 16 | lane->pool);
    }
    return h;
}

static uint64_t hash_notes(const asim_trace *trace)
{
    uint64_t h = ASIM_HASH_INIT;
    for (uint32_t i = 0; i < trace->note_count; i++)
        h = asim_hash_u64(h, trace->notes[i]);
    return h;
}

uint64_t asim_digest_finish(const asim_digest *digest, const asim_trace *tables)
{
    uint64_t h = ASIM_HASH_INIT;
    h = fold(h, hash_strings(tables), tables->string_count);
    h = fold(h, hash_frames(tables), tables->frame_count);
    h = fold(h, hash_stacks(tables), tables->stack_count);
    h = fold(h, hash_devices(tables), tables->device_count);
    h = fold(h, hash_lanes(tables), tables->lane_count);
    h = fold(h, hash_notes(tables), tables->note_count);
    h = fold(h, (uint64_t)tables->source << 32 | tables->settings, tables->start_unix_ns);
    h = fold(h, digest->segments, digest->segment_count);
    h = fold(h, digest->blocks, digest->block_count);
    h = fold(h, digest->heads, digest->event_count);
    h = fold(h, digest->sizes, digest->event_count);
    h = fold(h, digest->any_time ? digest->times : 0, digest->any_time);
    h = fold(h, digest->any_address ? digest->addresses : 0, digest->any_address);
    h = fold(h, digest->any_stack ? digest->stacks : 0, digest->any_stack);
    return fold(h, digest->calls, digest->call_count);
}

uint64_t asim_trace_digest(const asim_trace *trace)
{
    asim_digest digest;
    asim_digest_init(&digest);
    for (uint32_t i = 0; i < trace->opening_segment_count; i++)
        asim_digest_segment(&digest, &trace->opening_segments[i]);
    for (uint32_t i = 0; i < trace->opening_block_count; i++)
        asim_digest_block(&digest, &trace->opening_blocks[i]);
    asim_digest_events(&digest, trace->events, trace->times_ns, trace->recorded_addresses, trace->stacks,
                       (size_t)trace->event_count);
    for (uint32_t i = 0; i < trace->call_count; i++)
        asim_digest_call(&digest, &trace->calls[i]);
    return asim_digest_finish(&digest, trace);
}
