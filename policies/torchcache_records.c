/* The growing tables of a torchcache run: blocks, notes, segments, shelves, and what is known from the lane
 * table at the start. Nothing here decides anything.
 */
#include "policies/torchcache_blocks.h"

#include <stdlib.h>
#include <string.h>

bool asim_tc_grow(asim_tc_state *state, void *array, size_t *capacity, size_t need, size_t item_size)
{
    void *memory;
    memcpy(&memory, array, sizeof memory); /* array: the address of a pointer to items of any type */
    asim_err err = ASIM_ERR_INIT;
    if (asim_mem_grow(state->mem, &memory, capacity, need, item_size, &err))
        return asim_tc_fail(state, err.code, "%s", err.message);
    memcpy(array, &memory, sizeof memory);
    return true;
}

uint32_t asim_tc_block_fresh(asim_tc_state *state)
{
    uint32_t block = state->block_count;
    if (block == UINT32_MAX) {
        asim_tc_fail(state, ASIM_E_SYSTEM, "more than %u blocks at once", UINT32_MAX - 1);
        return 0;
    }
    size_t need = (size_t)block + 1;
    if (need > state->extent_capacity && !asim_tc_grow(state, &state->extents, &state->extent_capacity,
                                                       need + need / 2 + 64, sizeof(asim_extent)))
        return 0;
    if (need > state->block_capacity && !asim_tc_grow(state, &state->blocks, &state->block_capacity,
                                                      state->extent_capacity, sizeof(asim_tc_block)))
        return 0;
    state->block_count = block + 1;
    return block;
}

uint32_t asim_tc_note_new(asim_tc_state *state)
{
    uint32_t note = state->spare_note;
    if (note) {
        state->spare_note = state->notes[note].next;
    } else {
        note = state->note_count;
        if (note == UINT32_MAX) {
            asim_tc_fail(state, ASIM_E_SYSTEM, "more than %u uses by other streams at once", UINT32_MAX - 1);
            return 0;
        }
        if (!asim_tc_grow(state, &state->notes, &state->note_capacity, (size_t)note + 1,
                          sizeof(asim_tc_note)))
            return 0;
        state->note_count = note + 1;
    }
    state->notes[note] = (asim_tc_note){0};
    return note;
}

void asim_tc_note_drop(asim_tc_state *state, uint32_t note)
{
    state->notes[note].next = state->spare_note;
    state->spare_note = note;
}

/* Where a segment of this address stands, or would stand, in its device's order. */
static size_t order_place(const asim_tc_state *state, const asim_tc_device *device, uint64_t address)
{
    size_t low = 0, high = device->order_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (state->segments[device->order[middle]].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t asim_tc_segment_new(asim_tc_state *state, asim_tc_shelf *shelf, const asim_region *region,
                             uint64_t page)
{
    asim_tc_device *device = &state->devices[shelf->device];
    uint32_t block = asim_tc_block_new(state);
    if (!block)
        return 0;
    if (!asim_tc_grow(state, &device->order, &device->order_capacity, device->order_count + 1,
                      sizeof *device->order))
        return 0;
    uint32_t segment = state->spare_segment;
    if (segment) {
        state->spare_segment = state->segments[segment].first;
    } else {
        if (!asim_tc_grow(state, &state->segments, &state->segment_capacity, (size_t)state->segment_count + 1,
                          sizeof(asim_tc_segment)))
            return 0;
        segment = state->segment_count++;
    }
    uint64_t position = region->address;
    if (state->release->oldest_first) {
        position = state->next_position;
        if (region->size > UINT64_MAX - position) {
            asim_tc_fail(state, ASIM_E_INPUT, "segments of 2^64 bytes in all were obtained");
            return 0;
        }
        state->next_position += region->size;
    }
    state->segments[segment] = (asim_tc_segment){
        .address = region->address,
        .size = region->size,
        .shift = region->address - position,
        .page = page,
        .region = region->index,
        .first = block,
        .shelf = shelf->index,
    };
    state->extents[block] = (asim_extent){.address = position, .size = region->size};
    state->blocks[block] =
        (asim_tc_block){.shelf = shelf->index, .segment = segment, .expandable = page != 0};
    size_t place = order_place(state, device, region->address);
    memmove(device->order + place + 1, device->order + place,
            (device->order_count - place) * sizeof *device->order);
    device->order[place] = segment;
    device->order_count++;
    return block;
}

void asim_tc_segment_drop(asim_tc_state *state, uint32_t segment)
{
    asim_tc_segment *gone = &state->segments[segment];
    asim_tc_device *device = &state->devices[state->shelves[gone->shelf]->device];
    size_t place = order_place(state, device, gone->address);
    device->order_count--;
    memmove(device->order + place, device->order + place + 1,
            (device->order_count - place) * sizeof *device->order);
    gone->first = state->spare_segment;
    gone->size = 0;
    state->spare_segment = segment;
}

asim_tc_shelf *asim_tc_shelf_of(asim_tc_state *state, asim_tc_group *group, uint32_t stream, bool large)
{
    asim_tc_pool *pool = &group->pools[large];
    uint64_t handle = state->streams[stream].handle;
    size_t place = 0;
    while (place < pool->shelf_count && pool->shelves[place]->stream < handle)
        place++;
    if (place < pool->shelf_count && pool->shelves[place]->stream == handle)
        return pool->shelves[place];

    if (!asim_tc_grow(state, &pool->shelves, &pool->shelf_capacity, pool->shelf_count + 1,
                      sizeof *pool->shelves) ||
        !asim_tc_grow(state, &state->shelves, &state->shelf_capacity, state->shelf_count + 1,
                      sizeof *state->shelves))
        return NULL;
    asim_tc_shelf *shelf = asim_mem_new(state->mem, 1, sizeof *shelf);
    if (!shelf) {
        asim_tc_fail(state, ASIM_E_SYSTEM, "out of memory for the free blocks of another stream");
        return NULL;
    }
    shelf->stream = handle;
    shelf->group = group;
    shelf->pool = pool;
    shelf->stats = &state->devices[group->device].stats;
    shelf->requests = &shelf->stats->requests[large];
    shelf->index = (uint32_t)state->shelf_count;
    shelf->device = group->device;
    shelf->lane = state->streams[stream].lane;
    shelf->large = large;
    shelf->no_split = group->no_split;
    state->shelves[state->shelf_count++] = shelf;
    memmove(pool->shelves + place + 1, pool->shelves + place,
            (pool->shelf_count - place) * sizeof *pool->shelves);
    pool->shelves[place] = shelf;
    pool->shelf_count++;
    return shelf;
}

static int compare_streams(const void *a, const void *b)
{
    const asim_tc_stream *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->handle != y->handle)
        return x->handle < y->handle ? -1 : 1;
    return x->lane < y->lane ? -1 : x->lane > y->lane;
}

static uint32_t stream_of(const asim_tc_state *state, const asim_lane *lane)
{
    uint32_t low = 0, high = state->stream_count;
    while (low + 1 < high) {
        uint32_t middle = low + (high - low) / 2;
        const asim_tc_stream *stream = &state->streams[middle];
        if (stream->device < lane->device ||
            (stream->device == lane->device && stream->handle <= lane->stream))
            low = middle;
        else
            high = middle;
    }
    return low;
}

static asim_tc_group *group_make(asim_tc_state *state, unsigned device_index, uint16_t pool)
{
    asim_tc_device *device = &state->devices[device_index];
    size_t place = 0;
    while (place < device->group_count && device->groups[place]->pool < pool)
        place++;
    if (place < device->group_count && device->groups[place]->pool == pool)
        return device->groups[place];
    if (!asim_tc_grow(state, &device->groups, &device->group_capacity, device->group_count + 1,
                      sizeof *device->groups))
        return NULL;
    asim_tc_group *group = asim_mem_new(state->mem, 1, sizeof *group);
    if (!group) {
        asim_tc_fail(state, ASIM_E_SYSTEM, "out of memory for the pools of device %u", device_index);
        return NULL;
    }
    group->pool = pool;
    group->device = (uint16_t)device_index;
    memmove(device->groups + place + 1, device->groups + place,
            (device->group_count - place) * sizeof *device->groups);
    device->groups[place] = group;
    device->group_count++;
    return group;
}

asim_code asim_tc_tables_init(asim_tc_state *state, const asim_policy_env *env, asim_err *err)
{
    for (uint32_t i = 0; i < env->lane_count; i++)
        if (env->lanes[i].device >= env->device_count)
            return asim_fail(err, ASIM_E_INPUT, "lane %u names device %u of %u", i, env->lanes[i].device,
                             env->device_count);
    state->device_count = env->device_count;
    state->lane_count = env->lane_count;
    state->devices = asim_mem_new(state->mem, env->device_count, sizeof *state->devices);
    state->lanes = asim_mem_new(state->mem, env->lane_count, sizeof *state->lanes);
    state->streams = asim_mem_new(state->mem, env->lane_count, sizeof *state->streams);
    if ((env->device_count && !state->devices) || (env->lane_count && (!state->lanes || !state->streams)))
        return asim_fail_memory(err, env->lane_count * (sizeof *state->lanes + sizeof *state->streams) +
                                         env->device_count * sizeof *state->devices);
    for (uint32_t i = 0; i < env->lane_count; i++)
        state->streams[i] = (asim_tc_stream){env->lanes[i].stream, env->lanes[i].device, (uint16_t)i};
    if (env->lane_count)
        qsort(state->streams, env->lane_count, sizeof *state->streams, compare_streams);
    for (uint32_t i = 0; i < env->lane_count; i++) {
        const asim_tc_stream *stream = &state->streams[i];
        const asim_tc_stream *last = state->stream_count ? &state->streams[state->stream_count - 1] : NULL;
        if (!last || last->device != stream->device || last->handle != stream->handle)
            state->streams[state->stream_count++] = *stream;
    }
    state->block_count = state->note_count = state->segment_count = 1; /* index 0 is none */
    if (!asim_tc_grow(state, &state->extents, &state->extent_capacity, 64, sizeof(asim_extent)) ||
        !asim_tc_grow(state, &state->blocks, &state->block_capacity, state->extent_capacity,
                      sizeof(asim_tc_block)) ||
        !asim_tc_grow(state, &state->notes, &state->note_capacity, 16, sizeof(asim_tc_note)) ||
        !asim_tc_grow(state, &state->segments, &state->segment_capacity, 16, sizeof(asim_tc_segment)))
        goto broken;
    state->extents[0] = (asim_extent){0};
    state->blocks[0] = (asim_tc_block){.state = ASIM_TC_SPARE}; /* so that no neighbour never merges */
    for (unsigned i = 0; i < env->device_count; i++) {
        state->devices[i].capacity = env->capacities[i];
        state->devices[i].limit = ASIM_TC_UNLIMITED;
        if (!group_make(state, i, 0))
            goto broken;
    }
    for (uint32_t i = 0; i < env->lane_count; i++) {
        asim_tc_lane *lane = &state->lanes[i];
        lane->device = &state->devices[env->lanes[i].device];
        lane->stream = stream_of(state, &env->lanes[i]);
        lane->group = group_make(state, env->lanes[i].device, env->lanes[i].pool);
        if (!lane->group)
            goto broken;
    }
    return ASIM_OK;
broken:
    return asim_fail(err, state->fault.code, "%s", state->fault.message);
}

void asim_tc_tables_fini(asim_tc_state *state)
{
    const asim_hostmem *mem = state->mem;
    if (!mem)
        return;
    for (size_t i = 0; state->devices && i < state->device_count; i++) {
        asim_tc_device *device = &state->devices[i];
        for (size_t j = 0; j < device->group_count; j++) {
            asim_tc_group *group = device->groups[j];
            for (unsigned kind = 0; kind < 2; kind++)
                asim_mem_free(mem, group->pools[kind].shelves, group->pools[kind].shelf_capacity,
                              sizeof(asim_tc_shelf *));
            asim_mem_free(mem, group, 1, sizeof *group);
        }
        for (size_t j = 0; j < device->scope_count; j++)
            asim_mem_free(mem, device->scopes[j].streams, device->scopes[j].stream_capacity,
                          sizeof(uint32_t));
        asim_mem_free(mem, device->groups, device->group_capacity, sizeof *device->groups);
        asim_mem_free(mem, device->order, device->order_capacity, sizeof *device->order);
        asim_mem_free(mem, device->queues, device->queue_capacity, sizeof *device->queues);
        asim_mem_free(mem, device->deferred, device->deferred_capacity, sizeof *device->deferred);
        asim_mem_free(mem, device->scopes, device->scope_capacity, sizeof *device->scopes);
        asim_mem_free(mem, device->active, device->active_capacity, sizeof *device->active);
    }
    for (size_t i = 0; i < state->shelf_count; i++) {
        asim_mem_free(mem, state->shelves[i]->unmapped, state->shelves[i]->unmapped_capacity,
                      sizeof(uint32_t));
        asim_mem_free(mem, state->shelves[i], 1, sizeof *state->shelves[i]);
    }
    asim_mem_free(mem, state->shelves, state->shelf_capacity, sizeof *state->shelves);
    asim_mem_free(mem, state->devices, state->device_count, sizeof *state->devices);
    asim_mem_free(mem, state->lanes, state->lane_count, sizeof *state->lanes);
    asim_mem_free(mem, state->streams, state->lane_count, sizeof *state->streams);
    asim_mem_free(mem, state->extents, state->extent_capacity, sizeof *state->extents);
    asim_mem_free(mem, state->blocks, state->block_capacity, sizeof *state->blocks);
    asim_mem_free(mem, state->notes, state->note_capacity, sizeof *state->notes);
    asim_mem_free(mem, state->segments, state->segment_capacity, sizeof *state->segments);
    asim_mem_free(mem, state->scratch, state->scratch_capacity, sizeof *state->scratch);
}
