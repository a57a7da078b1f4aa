/* policies/torchcache_blocks.h - the usual path, inline: the free set, split and hand-out, merge and
 * completion (specification, sections 12 and 13).
 *
 *     hand-out     [        b free        ]  ->  [ front live ][ b free ]     front is a new record
 *     completion   [ p free ][ b ][ n free ] ->  [       b free         ]     b's record survives
 */
#ifndef ASIM_POLICIES_TORCHCACHE_BLOCKS_H
#define ASIM_POLICIES_TORCHCACHE_BLOCKS_H

#include "policies/torchcache_state.h"

/* --- records */

/* A record with undefined contents, or 0 (broken). */
static inline uint32_t asim_tc_block_new(asim_tc_state *state)
{
    uint32_t block = state->spare_block;
    if (!block)
        return asim_tc_block_fresh(state);
    state->spare_block = state->extents[block].next;
    return block;
}

static inline void asim_tc_block_drop(asim_tc_state *state, uint32_t block)
{
    state->blocks[block].state = ASIM_TC_SPARE;
    state->extents[block].next = state->spare_block;
    state->spare_block = block;
}

static inline asim_tc_shelf *asim_tc_shelf_of_block(const asim_tc_state *state, uint32_t block)
{
    return state->shelves[state->blocks[block].shelf];
}

static inline bool asim_tc_is_split(const asim_tc_state *state, uint32_t block) /* R1 */
{
    return (state->extents[block].prev | state->extents[block].next) != 0;
}

/* --- the free set. counters->largest_free_bytes may be too large until asim_tc_settle. */

void asim_tc_find_largest(asim_tc_state *state);

static inline void asim_tc_settle(asim_tc_state *state)
{
    if (state->largest_stale)
        asim_tc_find_largest(state);
}

static inline void asim_tc_free_add(asim_tc_state *state, asim_tc_shelf *shelf, uint32_t block)
{
    uint64_t size = state->extents[block].size;
    state->blocks[block].state = ASIM_TC_FREE;
    state->blocks[block].inserted = shelf->pool->searches;
    asim_free_insert(&shelf->free, state->extents, block);
    if (state->counters->largest_free_bytes < size)
        state->counters->largest_free_bytes = size;
}

static inline void asim_tc_free_take(asim_tc_state *state, asim_tc_shelf *shelf, uint32_t block)
{
    asim_free_remove(&shelf->free, state->extents, block);
    if (state->counters->largest_free_bytes == state->extents[block].size)
        state->largest_stale = true;
}

/* --- cutting and joining */

/* Links a new record in before block, for the size bytes that were or will be its front. Sets everything but
 * the state. Returns the front, or 0 (broken). */
static inline uint32_t asim_tc_link_front(asim_tc_state *state, uint32_t block, uint64_t address,
                                          uint64_t size)
{
    uint32_t front = asim_tc_block_new(state);
    if (!front)
        return 0;
    asim_extent *cut = &state->extents[front], *rest = &state->extents[block];
    const asim_tc_block *record = &state->blocks[block];
    cut->address = address;
    cut->size = size;
    cut->prev = rest->prev;
    cut->next = block;
    state->blocks[front] =
        (asim_tc_block){.shelf = record->shelf, .segment = record->segment, .expandable = record->expandable};
    if (rest->prev)
        state->extents[rest->prev].next = front;
    else
        state->segments[record->segment].first = front;
    rest->prev = front;
    return front;
}

/* Cuts size bytes off the front of a block in no set, into a record of its own. No statistic. */
static inline uint32_t asim_tc_cut_front(asim_tc_state *state, uint32_t block, uint64_t size)
{
    uint32_t front = asim_tc_link_front(state, block, state->extents[block].address, size);
    if (front) {
        state->extents[block].address += size;
        state->extents[block].size -= size;
    }
    return front;
}

/* Cuts what follows the first size bytes off a block in no set, into a record of its own. No statistic. */
uint32_t asim_tc_cut_back(asim_tc_state *state, uint32_t block, uint64_t size);

/* R69: unlinks other, the neighbour before (after) block, and adds its bytes to block. Both are in no set. */
static inline void asim_tc_absorb_prev(asim_tc_state *state, uint32_t block, uint32_t other)
{
    asim_extent *kept = &state->extents[block], *gone = &state->extents[other];
    kept->address = gone->address;
    kept->size += gone->size;
    kept->prev = gone->prev;
    if (gone->prev)
        state->extents[gone->prev].next = block;
    else
        state->segments[state->blocks[block].segment].first = block;
    asim_tc_block_drop(state, other);
}

static inline void asim_tc_absorb_next(asim_tc_state *state, uint32_t block, uint32_t other)
{
    asim_extent *kept = &state->extents[block], *gone = &state->extents[other];
    kept->size += gone->size;
    kept->next = gone->next;
    if (gone->next)
        state->extents[gone->next].prev = block;
    asim_tc_block_drop(state, other);
}

/* --- R62 and R64 */

static inline bool asim_tc_splits(const asim_tc_options *options, const asim_tc_shelf *shelf,
                                  uint64_t rounded, uint64_t rest, bool expandable)
{
    if (shelf->no_split)
        return false;
    if (!shelf->large || expandable)
        return rest >= ASIM_TC_MIN_BLOCK;
    return rest > ASIM_TC_SMALL_MAX && rounded < options->max_split;
}

/* Hands out of block, which is in the shelf's free set, what a request needs; expandable: whether
 * expandable segments are active for it (R63). Returns the block handed out, or 0 (broken). */
static inline uint32_t asim_tc_hand_out(asim_tc_state *state, asim_tc_shelf *shelf, uint32_t block,
                                        uint64_t rounded, uint64_t requested, bool expandable)
{
    asim_tc_stats *stats = shelf->stats;
    const bool large = shelf->large, plain = !state->blocks[block].expandable;
    const bool was_split = asim_tc_is_split(state, block);
    const uint64_t whole = state->extents[block].size;
    uint64_t size = whole;
    if (asim_tc_splits(&state->options, shelf, rounded, whole - rounded, expandable)) {
        size = rounded;
        uint32_t front = asim_tc_link_front(state, block, state->extents[block].address, size);
        if (!front)
            return 0;
        asim_free_shrink(&shelf->free, state->extents, block, size);
        state->blocks[block].inserted = shelf->pool->searches;
        if (state->counters->largest_free_bytes == whole)
            state->largest_stale = true;
        block = front;
        if (plain && was_split) {
            asim_tc_down(&stats->inactive_split_bytes, large, size);
        } else if (plain) {
            asim_tc_up(&stats->inactive_split_bytes, large, whole - size);
            asim_tc_up(&stats->inactive_split, large, 1);
        }
    } else {
        asim_tc_free_take(state, shelf, block);
        if (plain && was_split) {
            asim_tc_down(&stats->inactive_split_bytes, large, size);
            asim_tc_down(&stats->inactive_split, large, 1);
        }
    }
    state->blocks[block].state = ASIM_TC_LIVE;
    state->blocks[block].requested = requested;
    asim_tc_count_handed_out(stats, shelf->requests, size, requested);
    if (size >= state->options.max_split)
        asim_tc_counter_up(&stats->oversize_allocations, 1);
    return block;
}

/* --- R68, without step 5 */

/* Merges a block that was handed out with its free neighbours, the one before first, and puts it into the
 * free set. */
static inline void asim_tc_make_free(asim_tc_state *state, asim_tc_shelf *shelf, uint32_t block)
{
    const uint64_t size = state->extents[block].size;
    const uint32_t prev = state->extents[block].prev, next = state->extents[block].next;
    unsigned merges = 0;
    if (state->blocks[prev].state == ASIM_TC_FREE) {
        asim_tc_free_take(state, shelf, prev);
        asim_tc_absorb_prev(state, block, prev);
        merges++;
    }
    if (state->blocks[next].state == ASIM_TC_FREE) {
        asim_tc_free_take(state, shelf, next);
        asim_tc_absorb_next(state, block, next);
        merges++;
    }
    asim_tc_free_add(state, shelf, block);
    if (state->blocks[block].expandable)
        return;
    /* The net change of what is free and split: 1 - merges blocks and size bytes while it is split, else all
     * that was absorbed goes. */
    asim_tc_stats *stats = shelf->stats;
    if (asim_tc_is_split(state, block)) {
        asim_tc_up(&stats->inactive_split_bytes, shelf->large, size);
        if (merges == 0)
            asim_tc_up(&stats->inactive_split, shelf->large, 1);
        else
            asim_tc_down(&stats->inactive_split, shelf->large, merges - 1);
    } else {
        asim_tc_down(&stats->inactive_split_bytes, shelf->large, state->extents[block].size - size);
        asim_tc_down(&stats->inactive_split, shelf->large, merges);
    }
}

/* R68 for a block that was pending. */
void asim_tc_complete(asim_tc_state *state, uint32_t block);

/* Memory came from the driver, or went back. */
static inline void asim_tc_count_reserved(asim_tc_state *state, asim_tc_shelf *shelf, uint64_t size)
{
    asim_tc_device *device = &state->devices[shelf->device];
    device->reserved += size;
    asim_tc_up(&device->stats.reserved_bytes, shelf->large, size);
    asim_tc_up(&shelf->group->reserved_bytes, shelf->large, size);
    shelf->group->has_obtained = true;
}

static inline void asim_tc_count_returned(asim_tc_state *state, asim_tc_shelf *shelf, uint64_t size)
{
    asim_tc_device *device = &state->devices[shelf->device];
    device->reserved -= size;
    asim_tc_down(&device->stats.reserved_bytes, shelf->large, size);
    asim_tc_down(&shelf->group->reserved_bytes, shelf->large, size);
}

#endif
