#include "policies/jemalloc_slabs.h"
#include "policies/size_classes.h"

#include <string.h>

uint64_t asim_jem_now(const asim_policy_state *state)
{
    return state->env.device.ops->now_ns(state->env.device.ctx);
}

/* An extent's block returns to its arena. */
bool asim_jem_give_extent(asim_policy_state *state, uint32_t arena_number, uint32_t block)
{
    asim_region_blocks *rb = &state->rb;
    block = asim_rb_put(rb, state->arenas[arena_number].list, block);
    if (!asim_rb_is_whole(rb, block) || state->params.decay_ms == ASIM_PARAM_NONE)
        return true;
    const uint64_t moment = asim_jem_now(state);
    state->since[rb->blocks[block].region] = moment;
    if (moment + state->params.decay_ms * 1000000 < state->due)
        state->due = moment + state->params.decay_ms * 1000000;
    return true;
}

static asim_alloc_result grow(asim_policy_state *state, asim_jem_arena *home, uint64_t size, unsigned lane,
                              uint32_t *ret_block, uint64_t *ret_asked)
{
    const asim_device *table = &state->env.device;
    const uint32_t device = state->env.lanes[lane].device;
    uint64_t bytes = state->params.grow && home->growth > size ? home->growth : size;
    asim_region region;
    asim_device_result result = table->ops->alloc(table->ctx, device, bytes, lane, &region);
    if (result == ASIM_DEVICE_OOM && bytes > size) {
        bytes = size;
        result = table->ops->alloc(table->ctx, device, bytes, lane, &region);
    } else if (result == ASIM_DEVICE_OK && state->params.grow && bytes < ASIM_JEM_LARGEST_REQUEST) {
        home->growth = asim_je_class(bytes + 1, state->params.quantum);
    }
    *ret_asked = bytes;
    if (result == ASIM_DEVICE_OOM)
        return ASIM_REFUSED;
    if (result != ASIM_DEVICE_OK) {
        asim_fail(&state->fault, ASIM_E_BUG, "the device's alloc failed for another reason than memory");
        return ASIM_BROKEN;
    }
    *ret_block = asim_rb_region_add(&state->rb, &region, bytes, lane, &state->fault);
    void *since = state->since;
    if (!*ret_block || asim_mem_grow(state->env.memory, &since, &state->since_capacity,
                                     state->rb.region_count + 1, sizeof *state->since, &state->fault))
        return ASIM_BROKEN;
    state->since = since;
    return ASIM_PLACED;
}

/* A block of exactly size bytes, on no list and marked live. */
asim_alloc_result asim_jem_take_extent(asim_policy_state *state, unsigned lane, uint64_t size,
                                       uint32_t *ret_block, uint64_t *ret_asked)
{
    asim_jem_arena *home = &state->arenas[asim_stream_of(&state->uses, lane)];
    if (!home->list) {
        home->list = asim_rb_list_new(&state->rb, &state->fault);
        home->growth = ASIM_JEM_FIRST_GROWTH;
        if (!home->list)
            return ASIM_BROKEN;
    }
    uint32_t block = asim_rb_take(&state->rb, home->list, size, &state->env.counters->search_steps);
    if (!block) {
        const asim_alloc_result result = grow(state, home, size, lane, &block, ret_asked);
        if (result != ASIM_PLACED)
            return result;
    }
    if (state->rb.extents[block].size > size) {
        const uint32_t rest = asim_rb_split(&state->rb, block, size, &state->fault);
        if (!rest)
            return ASIM_BROKEN;
        asim_rb_put(&state->rb, home->list, rest);
    }
    asim_rb_block *taken = &state->rb.blocks[block];
    taken->state = ASIM_BLOCK_LIVE;
    taken->lane = (uint16_t)lane;
    taken->requested = 0;
    *ret_block = block;
    return ASIM_PLACED;
}

static void count_free(asim_policy_state *state, unsigned number, uint64_t count)
{
    state->free_slots[number] = count;
    if (count)
        state->with_free |= UINT64_C(1) << number;
    else
        state->with_free &= ~(UINT64_C(1) << number);
}

static void unlink_slab(asim_policy_state *state, uint32_t s)
{
    const asim_jem_slab *gone = &state->slabs[s];
    if (gone->prev)
        state->slabs[gone->prev].next = gone->next;
    else
        state->arenas[gone->arena].roomy[gone->number] = gone->next;
    if (gone->next)
        state->slabs[gone->next].prev = gone->prev;
}

static void link_slab(asim_policy_state *state, uint32_t s)
{
    asim_jem_slab *fresh = &state->slabs[s];
    uint32_t *head = &state->arenas[fresh->arena].roomy[fresh->number];
    const uint64_t address = state->rb.extents[fresh->block].address;
    uint32_t before = 0, after = *head;
    for (; after && state->rb.extents[state->slabs[after].block].address < address;
         after = state->slabs[after].next)
        before = after;
    fresh->prev = before;
    fresh->next = after;
    if (before)
        state->slabs[before].next = s;
    else
        *head = s;
    if (after)
        state->slabs[after].prev = s;
}

static asim_alloc_result open_slab(asim_policy_state *state, unsigned lane, unsigned number,
                                   uint32_t *ret_slab, uint64_t *ret_asked)
{
    const uint64_t size = state->sizes[number], bytes = asim_je_slab(size, state->params.page);
    const uint32_t count = (uint32_t)(bytes / size);
    const asim_hostmem *memory = state->env.memory;
    uint32_t s = state->spare[number], block = 0;
    if (!s) {
        void *slabs = state->slabs, *slots = state->slots;
        if (state->slot_count > UINT32_MAX / 4 ||
            asim_mem_grow(memory, &slabs, &state->slab_capacity, (size_t)state->slab_count + 1,
                          sizeof(asim_jem_slab), &state->fault))
            return ASIM_BROKEN;
        state->slabs = slabs;
        if (asim_mem_grow(memory, &slots, &state->slot_capacity, (size_t)state->slot_count + count,
                          sizeof(asim_jem_slot), &state->fault))
            return ASIM_BROKEN;
        state->slots = slots;
        s = state->slab_count++;
        state->slabs[s] = (asim_jem_slab){.first = state->slot_count, .number = (uint8_t)number};
        for (uint32_t i = 0; i < count; i++)
            state->slots[state->slot_count++] = (asim_jem_slot){.slab = s};
        state->spare[number] = s;
    }
    const asim_alloc_result result = asim_jem_take_extent(state, lane, bytes, &block, ret_asked);
    if (result != ASIM_PLACED)
        return result;
    const size_t known = state->slab_of_capacity;
    void *map = state->slab_of;
    if (asim_mem_grow(memory, &map, &state->slab_of_capacity, state->rb.block_count, sizeof(uint32_t),
                      &state->fault))
        return ASIM_BROKEN;
    state->slab_of = map;
    memset(state->slab_of + known, 0, (state->slab_of_capacity - known) * sizeof *state->slab_of);
    state->slab_of[block] = s;
    asim_jem_slab *fresh = &state->slabs[s];
    state->spare[number] = fresh->next;
    fresh->block = block;
    fresh->arena = asim_stream_of(&state->uses, lane);
    fresh->free_count = count;
    fresh->hint = 0;
    count_free(state, number, state->free_slots[number] + count);
    link_slab(state, s);
    *ret_slab = s;
    return ASIM_PLACED;
}

asim_alloc_result asim_jem_take_slot(asim_policy_state *state, unsigned lane, unsigned number,
                                     uint32_t *ret_slot, uint64_t *ret_asked)
{
    uint32_t s = state->arenas[asim_stream_of(&state->uses, lane)].roomy[number];
    if (!s) {
        const asim_alloc_result result = open_slab(state, lane, number, &s, ret_asked);
        if (result != ASIM_PLACED)
            return result;
    }
    asim_jem_slab *from = &state->slabs[s];
    uint32_t index = from->first + from->hint;
    while (state->slots[index].state != ASIM_BLOCK_FREE)
        index++;
    from->hint = index - from->first + 1;
    state->slots[index].state = ASIM_BLOCK_LIVE;
    state->slots[index].lane = (uint16_t)lane;
    count_free(state, number, state->free_slots[number] - 1);
    if (--from->free_count == 0)
        unlink_slab(state, s);
    *ret_slot = index;
    return ASIM_PLACED;
}

bool asim_jem_give_slot(asim_policy_state *state, uint32_t index)
{
    const uint32_t s = state->slots[index].slab;
    asim_jem_slab *home = &state->slabs[s];
    const uint64_t size = state->sizes[home->number];
    const uint32_t count = (uint32_t)(asim_je_slab(size, state->params.page) / size);
    state->slots[index].state = ASIM_BLOCK_FREE;
    if (index - home->first < home->hint)
        home->hint = index - home->first;
    count_free(state, home->number, state->free_slots[home->number] + 1);
    if (home->free_count++ == 0)
        link_slab(state, s);
    if (home->free_count < count)
        return true;
    unlink_slab(state, s);
    count_free(state, home->number, state->free_slots[home->number] - count);
    const uint32_t block = home->block;
    state->slab_of[block] = 0;
    home->block = 0;
    home->next = state->spare[home->number];
    state->spare[home->number] = s;
    return asim_jem_give_extent(state, home->arena, block);
}

uint64_t asim_jem_slot_address(const asim_policy_state *state, uint32_t index)
{
    const asim_jem_slab *home = &state->slabs[state->slots[index].slab];
    return state->rb.extents[home->block].address + (index - home->first) * state->sizes[home->number];
}
