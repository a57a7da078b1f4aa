/* Uses of a block by other streams, and the events that stand for them after the free (section 14).
 *
 * A note is first a use in its block's list, ascending by stream; at the free it becomes an event at the tail
 * of its stream's queue. Queues are looked at in ascending (device, stream), which is the order of the stream
 * table (R183).
 */
#include "policies/torchcache_blocks.h"

#include <string.h>

bool asim_tc_use_add(asim_tc_state *state, uint32_t block, unsigned lane)
{
    const asim_tc_shelf *shelf = asim_tc_shelf_of_block(state, block);
    const bool captured = asim_tc_capturing(state, &state->devices[shelf->device]);
    if (state->lane_table[lane].stream == shelf->stream) /* by handle alone (R71) */
        return true;
    const uint32_t stream = state->lanes[lane].stream;
    uint32_t before = 0, after = state->blocks[block].uses;
    while (after && state->notes[after].stream < stream) {
        before = after;
        after = state->notes[after].next;
    }
    if (after && state->notes[after].stream == stream) {
        state->notes[after].captured |= captured;
        return true;
    }
    uint32_t note = asim_tc_note_new(state);
    if (!note)
        return false;
    state->notes[note] =
        (asim_tc_note){.block = block, .stream = stream, .next = after, .captured = captured};
    if (before)
        state->notes[before].next = note;
    else
        state->blocks[block].uses = note;
    return true;
}

void asim_tc_uses_clear(asim_tc_state *state, uint32_t block)
{
    uint32_t next;
    for (uint32_t note = state->blocks[block].uses; note; note = next) {
        next = state->notes[note].next;
        asim_tc_note_drop(state, note);
    }
    state->blocks[block].uses = 0;
}

/* The queue of a stream, made if there is none; NULL: broken. */
static asim_tc_queue *queue_of(asim_tc_state *state, asim_tc_device *device, uint32_t stream)
{
    size_t place = 0;
    while (place < device->queue_count && device->queues[place].stream < stream)
        place++;
    if (place < device->queue_count && device->queues[place].stream == stream)
        return &device->queues[place];
    if (!asim_tc_grow(state, &device->queues, &device->queue_capacity, device->queue_count + 1,
                      sizeof *device->queues))
        return NULL;
    memmove(device->queues + place + 1, device->queues + place,
            (device->queue_count - place) * sizeof *device->queues);
    device->queues[place] = (asim_tc_queue){.stream = stream};
    device->queue_count++;
    return &device->queues[place];
}

static void drop_empty_queues(asim_tc_device *device)
{
    size_t kept = 0;
    for (size_t i = 0; i < device->queue_count; i++)
        if (device->queues[i].head)
            device->queues[kept++] = device->queues[i];
    device->queue_count = kept;
}

/* R72: the block's uses become events. */
static bool insert_events(asim_tc_state *state, asim_tc_device *device, uint32_t block)
{
    uint32_t next;
    for (uint32_t note = state->blocks[block].uses; note; note = next) {
        next = state->notes[note].next;
        asim_tc_queue *queue = queue_of(state, device, state->notes[note].stream);
        if (!queue)
            return false;
        state->notes[note].event = state->driver.ops->event_record(
            state->driver.ctx, state->streams[state->notes[note].stream].lane);
        state->notes[note].next = 0;
        if (queue->tail)
            state->notes[queue->tail].next = note;
        else
            queue->head = note;
        queue->tail = note;
        state->blocks[block].uses = next;
        state->blocks[block].events++;
        device->attention++;
    }
    return true;
}

bool asim_tc_free_used(asim_tc_state *state, uint32_t block)
{
    asim_tc_device *device = &state->devices[asim_tc_shelf_of_block(state, block)->device];
    if (!asim_tc_capturing(state, device))
        return insert_events(state, device, block);
    if (state->options.graph_reuse)
        return asim_tc_fail(
            state, ASIM_E_USAGE,
            "graph_capture_record_stream_reuse:True is not simulated where a block that another "
            "stream uses is freed during a capture; set it to False");
    if (!asim_tc_grow(state, &device->deferred, &device->deferred_capacity, device->deferred_count + 1,
                      sizeof *device->deferred))
        return false;
    device->deferred[device->deferred_count++] = block;
    device->attention++;
    return true;
}

/* A pending free ends inside another operation: the engine hears of it. */
static void complete_late(asim_tc_state *state, uint32_t block)
{
    const asim_extent *extent = &state->extents[block];
    state->listener->free_done(state->listener->ctx, asim_tc_address(state, block), extent->size,
                               state->blocks[block].requested);
    asim_tc_complete(state, block);
}

/* R79. */
static bool take_up_deferred(asim_tc_state *state, asim_tc_device *device)
{
    for (size_t i = 0; i < device->deferred_count; i++) {
        uint32_t block = device->deferred[i], kept = 0, next;
        device->attention--;
        for (uint32_t note = state->blocks[block].uses; note; note = next) {
            next = state->notes[note].next;
            if (!state->notes[note].captured || !state->release->drops_capture_uses) {
                kept = note;
                continue;
            }
            if (kept)
                state->notes[kept].next = next;
            else
                state->blocks[block].uses = next;
            asim_tc_note_drop(state, note);
        }
        if (!state->blocks[block].uses)
            complete_late(state, block);
        else if (!insert_events(state, device, block))
            return false;
    }
    device->deferred_count = 0;
    return true;
}

/* The event of a note is done: the note goes, and with the last one of its block the free completes. */
static void finish_event(asim_tc_state *state, asim_tc_device *device, uint32_t note)
{
    uint32_t block = state->notes[note].block;
    asim_tc_note_drop(state, note);
    device->attention--;
    if (--state->blocks[block].events == 0)
        complete_late(state, block);
}

bool asim_tc_looks_now(const asim_tc_state *state, const asim_tc_device *device)
{
    return !state->options.lazy_reclaim ||
           device->attention - device->deferred_count - device->scope_count > ASIM_TC_LAZY_EVENTS;
}

bool asim_tc_process_events(asim_tc_state *state, asim_tc_device *device)
{
    if (!take_up_deferred(state, device))
        return false;
    for (size_t i = 0; i < device->queue_count; i++) {
        asim_tc_queue *queue = &device->queues[i];
        while (queue->head &&
               state->driver.ops->event_query(state->driver.ctx, state->notes[queue->head].event)) {
            uint32_t note = queue->head;
            queue->head = state->notes[note].next;
            finish_event(state, device, note);
        }
        if (!queue->head)
            queue->tail = 0;
    }
    drop_empty_queues(device);
    return true;
}

bool asim_tc_sync_events(asim_tc_state *state, asim_tc_device *device, const asim_tc_group *group)
{
    device->stats.num_sync_all_streams++;
    state->counters->sync_waits++;
    if (!take_up_deferred(state, device))
        return false;
    for (size_t i = 0; i < device->queue_count; i++) {
        asim_tc_queue *queue = &device->queues[i];
        uint32_t kept = 0, next;
        for (uint32_t note = queue->head; note; note = next) {
            next = state->notes[note].next;
            if (group && asim_tc_shelf_of_block(state, state->notes[note].block)->group != group) {
                kept = note;
                continue;
            }
            state->driver.ops->event_wait(state->driver.ctx, state->notes[note].event);
            if (kept)
                state->notes[kept].next = next;
            else
                queue->head = next;
            finish_event(state, device, note);
        }
        queue->tail = kept;
    }
    drop_empty_queues(device);
    return true;
}
