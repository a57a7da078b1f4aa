#include "policies/rmm_bins.h"

asim_code asim_rmm_bins_init(asim_rmm_bins *bins, const asim_policy_env *env, unsigned least, unsigned most,
                             uint32_t blocks, asim_rmm_upstream *up, asim_err *err)
{
    bins->env = *env;
    bins->up = up;
    bins->blocks = blocks;
    bins->slot_count = bins->slab_count = 1;
    bins->exponent = least > 8 ? least : 8; /* 256 bytes: smaller ones are rounded up to that */
    if (most >= least)
        bins->count = most > bins->exponent ? most - bins->exponent + 1 : 1;
    if (!env->device_count)
        return ASIM_OK;
    bins->open = asim_mem_new(env->memory, env->device_count, sizeof *bins->open);
    if (!bins->open)
        return asim_fail_memory(err, env->device_count * sizeof *bins->open);
    if (!bins->count)
        return ASIM_OK;
    bins->bins = asim_mem_new(env->memory, (size_t)env->device_count * bins->count, sizeof *bins->bins);
    return bins->bins ? ASIM_OK : asim_fail_memory(err, bins->count * sizeof *bins->bins);
}

void asim_rmm_bins_fini(asim_rmm_bins *bins)
{
    const asim_hostmem *memory = bins->env.memory;
    if (!memory)
        return;
    const size_t count = (size_t)bins->env.device_count * bins->count;
    for (size_t i = 0; bins->bins && i < count; i++) {
        asim_mem_free(memory, bins->bins[i].queues, bins->env.lane_count, sizeof(asim_rmm_queue));
        asim_mem_free(memory, bins->bins[i].order, bins->bins[i].order_capacity, sizeof(uint32_t));
    }
    asim_mem_free(memory, bins->bins, count, sizeof *bins->bins);
    asim_mem_free(memory, bins->open, bins->env.device_count, sizeof *bins->open);
    asim_mem_free(memory, bins->slots, bins->slot_capacity, sizeof *bins->slots);
    asim_mem_free(memory, bins->slabs, bins->slab_capacity, sizeof *bins->slabs);
}

unsigned asim_rmm_bin_for(const asim_rmm_bins *bins, uint64_t size)
{
    if (size <= UINT64_C(1) << bins->exponent)
        return 0;
    const unsigned above = 64U - (unsigned)__builtin_clzll(size - 1) - bins->exponent;
    return above < bins->count ? above : bins->count;
}

uint64_t asim_rmm_slot_size(const asim_rmm_bins *bins, uint32_t slot)
{
    return asim_rmm_bin_size(bins, bins->slabs[bins->slots[slot].slab].bin % bins->count);
}

uint64_t asim_rmm_slot_address(const asim_rmm_bins *bins, uint32_t slot)
{
    const asim_rmm_slab *slab = &bins->slabs[bins->slots[slot].slab];
    return slab->address + (slot - slab->first) * asim_rmm_slot_size(bins, slot);
}

/* --- free slots --- */

static void count_free(asim_rmm_bins *bins, uint32_t bin, bool more)
{
    const unsigned number = bin % bins->count;
    uint64_t *total = &bins->free_slots[number];
    bins->bins[bin].free_slots += more ? 1U : UINT32_MAX;
    *total += more ? 1U : UINT64_MAX;
    if (*total)
        bins->sizes_free |= UINT32_C(1) << number;
    else
        bins->sizes_free &= ~(UINT32_C(1) << number);
}

static void push(asim_rmm_bins *bins, uint32_t bin, uint32_t stream, uint32_t slot)
{
    asim_rmm_queue *queue = &bins->bins[bin].queues[stream];
    bins->slots[slot].state = ASIM_BLOCK_FREE;
    bins->slots[slot].next = 0;
    if (queue->head)
        bins->slots[queue->tail].next = slot;
    else
        queue->head = slot;
    queue->tail = slot;
    count_free(bins, bin, true);
}

static uint32_t pop(asim_rmm_bins *bins, uint32_t bin, uint32_t stream)
{
    asim_rmm_queue *queue = &bins->bins[bin].queues[stream];
    const uint32_t slot = queue->head;
    if (!slot)
        return 0;
    queue->head = bins->slots[slot].next;
    count_free(bins, bin, false);
    return slot;
}

/* The stream takes its place in the bin's order. */
static bool know(asim_rmm_bins *bins, uint32_t bin, uint32_t stream)
{
    asim_rmm_bin *b = &bins->bins[bin];
    if (b->queues[stream].known)
        return true;
    void *order = b->order;
    if (asim_mem_grow(bins->env.memory, &order, &b->order_capacity, (size_t)b->order_count + 1,
                      sizeof *b->order, &bins->fault))
        return false;
    b->order = order;
    b->order[b->order_count++] = stream;
    b->queues[stream].known = true;
    return true;
}

/* --- slabs --- */

/* A slab for the bin, all of its slots at the end of the queue of lane's stream. */
static asim_alloc_result slab_new(asim_rmm_bins *bins, uint32_t bin, unsigned lane, uint64_t *ret_asked)
{
    void *slots = bins->slots, *slabs = bins->slabs;
    if (bins->blocks > UINT32_MAX / 2 - bins->slot_count) { /* words have 31 bits for slots */
        asim_fail(&bins->fault, ASIM_E_SYSTEM, "more than %u blocks of fixed size", UINT32_MAX / 2);
        return ASIM_BROKEN;
    }
    if (asim_mem_grow(bins->env.memory, &slabs, &bins->slab_capacity, (size_t)bins->slab_count + 1,
                      sizeof *bins->slabs, &bins->fault))
        return ASIM_BROKEN;
    bins->slabs = slabs;
    if (asim_mem_grow(bins->env.memory, &slots, &bins->slot_capacity, (size_t)bins->slot_count + bins->blocks,
                      sizeof *bins->slots, &bins->fault))
        return ASIM_BROKEN;
    bins->slots = slots;
    const uint64_t size = asim_rmm_bin_size(bins, bin % bins->count) * bins->blocks;
    uint32_t block;
    const asim_alloc_result result = asim_rmm_take(bins->up, lane, size, &block, ret_asked);
    if (result != ASIM_PLACED)
        return result;
    const uint32_t slab = bins->slab_count++;
    bins->up->rb.blocks[block].uses = slab;
    bins->slabs[slab] = (asim_rmm_slab){.address = bins->up->rb.extents[block].address,
                                        .block = block,
                                        .first = bins->slot_count,
                                        .bin = bin};
    for (uint32_t i = 0; i < bins->blocks; i++) {
        bins->slots[bins->slot_count] = (asim_rmm_slot){.slab = slab};
        push(bins, bin, asim_stream_of(bins->up->uses, lane), bins->slot_count++);
    }
    return ASIM_PLACED;
}

/* Slabs made last, with all slots free, go back to the upstream. */
static bool undo_slabs(asim_rmm_bins *bins, uint32_t kept)
{
    while (bins->slab_count > kept) {
        const asim_rmm_slab *slab = &bins->slabs[--bins->slab_count];
        asim_rmm_bin *bin = &bins->bins[slab->bin];
        for (uint32_t i = 0; i < bin->order_count; i++)
            while (pop(bins, slab->bin, bin->order[i]) != 0)
                continue;
        bins->slot_count = slab->first;
        bins->up->rb.blocks[slab->block].uses = 0;
        if (!asim_rmm_give(bins->up, slab->block))
            return false;
    }
    return true;
}

asim_alloc_result asim_rmm_bins_open(asim_rmm_bins *bins, unsigned lane, uint64_t *ret_asked)
{
    const unsigned device = bins->env.lanes[lane].device, home = asim_rmm_default_lane(bins->up, lane);
    const uint32_t kept = bins->slab_count;
    asim_alloc_result result = ASIM_PLACED;
    for (unsigned number = 0; number < bins->count && result == ASIM_PLACED; number++) {
        const uint32_t bin = device * bins->count + number;
        asim_rmm_bin *b = &bins->bins[bin];
        if (!b->queues)
            b->queues = asim_mem_new(bins->env.memory, bins->env.lane_count, sizeof *b->queues);
        if (!b->queues) {
            asim_fail_memory(&bins->fault, bins->env.lane_count * sizeof *b->queues);
            return ASIM_BROKEN;
        }
        result = know(bins, bin, asim_stream_of(bins->up->uses, home)) ? slab_new(bins, bin, home, ret_asked)
                                                                       : ASIM_BROKEN;
    }
    if (result == ASIM_REFUSED && !undo_slabs(bins, kept))
        return ASIM_BROKEN;
    bins->open[device] = result == ASIM_PLACED;
    return result;
}

asim_alloc_result asim_rmm_slot_take(asim_rmm_bins *bins, unsigned number, unsigned lane, uint32_t *ret_slot,
                                     uint64_t *ret_asked)
{
    const uint32_t bin = bins->env.lanes[lane].device * bins->count + number;
    const uint32_t stream = asim_stream_of(bins->up->uses, lane);
    const asim_rmm_bin *b = &bins->bins[bin];
    if (!know(bins, bin, stream))
        return ASIM_BROKEN;
    bins->env.counters->search_steps++;
    uint32_t slot = pop(bins, bin, stream);
    for (uint32_t i = 0; !slot && b->free_slots && i < b->order_count; i++) {
        bins->env.counters->search_steps++;
        slot = pop(bins, bin, b->order[i]);
        bins->stream_waits += slot != 0;
    }
    if (!slot) {
        const asim_alloc_result result = slab_new(bins, bin, lane, ret_asked);
        if (result != ASIM_PLACED)
            return result;
        slot = pop(bins, bin, stream);
    }
    bins->slots[slot].state = ASIM_BLOCK_LIVE;
    bins->slots[slot].lane = (uint16_t)lane;
    *ret_slot = slot;
    return ASIM_PLACED;
}

void asim_rmm_slot_give(asim_rmm_bins *bins, uint32_t slot)
{
    const asim_rmm_slot *s = &bins->slots[slot];
    push(bins, bins->slabs[s->slab].bin, asim_stream_of(bins->up->uses, s->lane), slot);
}

/* --- walk and check --- */

bool asim_rmm_bins_show(const void *ctx, uint32_t block, const asim_walker *walker)
{
    const asim_rmm_bins *bins = ctx;
    const uint32_t slab = asim_rmm_slab_in(bins, block);
    for (uint32_t i = 0; slab && i < bins->blocks; i++) {
        const uint32_t slot = bins->slabs[slab].first + i;
        const asim_walk_block shown = {.address = asim_rmm_slot_address(bins, slot),
                                       .size = asim_rmm_slot_size(bins, slot),
                                       .requested = bins->slots[slot].requested,
                                       .word = asim_rmm_slot_word(slot),
                                       .state = (asim_block_state)bins->slots[slot].state};
        walker->block(walker->ctx, &shown);
    }
    return slab != 0;
}

static asim_code check_bin(const asim_rmm_bins *bins, uint32_t bin, asim_err *err)
{
    const asim_rmm_bin *b = &bins->bins[bin];
    uint32_t queued = 0;
    for (uint32_t i = 0; i < b->order_count; i++) {
        uint32_t last = 0;
        const asim_rmm_queue *queue = &b->queues[b->order[i]];
        for (uint32_t slot = queue->head; slot; last = slot, slot = bins->slots[slot].next) {
            if (bins->slots[slot].state != ASIM_BLOCK_FREE || bins->slabs[bins->slots[slot].slab].bin != bin)
                return asim_fail(err, ASIM_E_BUG, "slot %u is on a queue of bin %u and not free there", slot,
                                 bin);
            if (queued++ > bins->slot_count)
                return asim_fail(err, ASIM_E_BUG, "a queue of bin %u goes round in a circle", bin);
        }
        if (queue->head && queue->tail != last)
            return asim_fail(err, ASIM_E_BUG, "a queue of bin %u does not end at its tail", bin);
    }
    if (queued != b->free_slots)
        return asim_fail(err, ASIM_E_BUG, "bin %u has %u free slots, counted as %u", bin, queued,
                         b->free_slots);
    return ASIM_OK;
}

asim_code asim_rmm_bins_check(const asim_rmm_bins *bins, asim_err *err)
{
    if (bins->fault.code)
        return asim_fail(err, bins->fault.code, "%s", bins->fault.message);
    uint64_t free_slots = 0, counted = 0;
    for (uint32_t bin = 0; bin < bins->env.device_count * bins->count; bin++) {
        asim_code code = check_bin(bins, bin, err);
        if (code)
            return code;
        counted += bins->bins[bin].free_slots;
    }
    for (uint32_t slot = 1; slot < bins->slot_count; slot++)
        free_slots += bins->slots[slot].state == ASIM_BLOCK_FREE;
    if (free_slots != counted)
        return asim_fail(err, ASIM_E_BUG, "%llu slots are free, %llu are on queues",
                         (unsigned long long)free_slots, (unsigned long long)counted);
    return ASIM_OK;
}
