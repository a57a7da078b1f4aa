/* Blocks: the free set, split and hand-out, merge and completion (specification, sections 12 and 13).
 *
 *     hand-out     [        b free        ]  ->  [ front live ][ b free ]     front is a new record
 *     completion   [ p free ][ b ][ n free ] ->  [       b free         ]     b's record survives
 */
#include "policies/torchcache_state.h"

void asim_tc_free_add(asim_tc_state *state, asim_tc_shelf *shelf, uint32_t block)
{
    state->blocks[block].state = ASIM_TC_FREE;
    state->blocks[block].inserted = shelf->group->pools[shelf->large].searches;
    asim_free_insert(&shelf->free, state->extents, block);
    if (state->counters->largest_free_bytes < state->extents[block].size)
        state->counters->largest_free_bytes = state->extents[block].size;
}

void asim_tc_free_take(asim_tc_state *state, asim_tc_shelf *shelf, uint32_t block)
{
    asim_free_remove(&shelf->free, state->extents, block);
    if (state->counters->largest_free_bytes == state->extents[block].size)
        state->largest_stale = true;
}

void asim_tc_settle(asim_tc_state *state)
{
    if (!state->largest_stale)
        return;
    uint64_t largest = 0;
    for (size_t i = 0; i < state->shelf_count; i++) {
        uint32_t last = asim_free_last(&state->shelves[i]->free, state->extents);
        if (largest < state->extents[last].size)
            largest = state->extents[last].size;
    }
    state->counters->largest_free_bytes = largest;
    state->largest_stale = false;
}

uint32_t asim_tc_cut_front(asim_tc_state *state, uint32_t block, uint64_t size)
{
    uint32_t front = asim_tc_block_new(state);
    if (!front)
        return 0;
    asim_extent *cut = &state->extents[front], *rest = &state->extents[block];
    asim_tc_block *record = &state->blocks[front];
    *cut = (asim_extent){.address = rest->address, .size = size, .prev = rest->prev, .next = block};
    record->shelf = state->blocks[block].shelf;
    record->segment = state->blocks[block].segment;
    record->expandable = state->blocks[block].expandable;
    if (rest->prev)
        state->extents[rest->prev].next = front;
    else
        state->segments[record->segment].first = front;
    rest->prev = front;
    rest->address += size;
    rest->size -= size;
    return front;
}

void asim_tc_absorb(asim_tc_state *state, uint32_t block, uint32_t other)
{
    asim_extent *kept = &state->extents[block], *gone = &state->extents[other];
    if (kept->prev == other) {
        kept->address = gone->address;
        kept->prev = gone->prev;
        if (gone->prev)
            state->extents[gone->prev].next = block;
        else
            state->segments[state->blocks[block].segment].first = block;
    } else {
        kept->next = gone->next;
        if (gone->next)
            state->extents[gone->next].prev = block;
    }
    kept->size += gone->size;
    asim_tc_block_drop(state, other);
}

uint32_t asim_tc_hand_out(asim_tc_state *state, asim_tc_shelf *shelf, uint32_t block, uint64_t rounded,
                          uint64_t requested)
{
    asim_tc_stats *stats = &state->devices[shelf->device].stats;
    const asim_tc_options *options = &state->options;
    const bool large = shelf->large, plain = !state->blocks[block].expandable;
    const bool was_split = asim_tc_is_split(state, block);
    const uint64_t rest = state->extents[block].size - rounded;
    bool split; /* R62 */
    if (!large || options->expandable)
        split = rest >= ASIM_TC_MIN_BLOCK;
    else
        split = rounded < options->max_split && rest > ASIM_TC_SMALL_MAX;

    if (split) {
        uint32_t front = asim_tc_cut_front(state, block, rounded);
        if (!front)
            return 0;
        asim_tc_free_add(state, shelf, block);
        block = front;
        if (plain && was_split) {
            asim_tc_down(stats, ASIM_TC_INACTIVE_SPLIT_BYTES, large, rounded);
        } else if (plain) {
            asim_tc_up(stats, ASIM_TC_INACTIVE_SPLIT_BYTES, large, rest);
            asim_tc_up(stats, ASIM_TC_INACTIVE_SPLIT, large, 1);
        }
    } else if (plain && was_split) {
        asim_tc_down(stats, ASIM_TC_INACTIVE_SPLIT_BYTES, large, state->extents[block].size);
        asim_tc_down(stats, ASIM_TC_INACTIVE_SPLIT, large, 1);
    }

    const uint64_t size = state->extents[block].size;
    state->blocks[block].state = ASIM_TC_LIVE;
    state->blocks[block].requested = requested;
    asim_tc_up(stats, ASIM_TC_ALLOCATION, large, 1);
    asim_tc_up(stats, ASIM_TC_ALLOCATED_BYTES, large, size);
    asim_tc_up(stats, ASIM_TC_ACTIVE, large, 1);
    asim_tc_up(stats, ASIM_TC_ACTIVE_BYTES, large, size);
    asim_tc_up(stats, ASIM_TC_REQUESTED_BYTES, large, requested);
    if (size >= options->max_split)
        asim_tc_counter_up(&stats->oversize_allocations, 1);
    return block;
}

static void change(asim_tc_stats *stats, asim_tc_stat stat, bool large, uint64_t more, uint64_t less)
{
    if (more > less)
        asim_tc_up(stats, stat, large, more - less);
    else
        asim_tc_down(stats, stat, large, less - more);
}

void asim_tc_complete(asim_tc_state *state, uint32_t block)
{
    asim_tc_shelf *shelf = asim_tc_shelf_of_block(state, block);
    asim_tc_stats *stats = &state->devices[shelf->device].stats;
    const uint64_t size = state->extents[block].size;
    uint64_t merges = 0, absorbed = 0;
    for (unsigned side = 0; side < 2; side++) { /* the one before first (R68) */
        uint32_t other = side == 0 ? state->extents[block].prev : state->extents[block].next;
        if (state->blocks[other].state != ASIM_TC_FREE)
            continue;
        asim_tc_free_take(state, shelf, other);
        merges++;
        absorbed += state->extents[other].size;
        asim_tc_absorb(state, block, other);
    }
    asim_tc_free_add(state, shelf, block);
    if (!state->blocks[block].expandable) {
        bool split = asim_tc_is_split(state, block);
        change(stats, ASIM_TC_INACTIVE_SPLIT, shelf->large, split, merges);
        change(stats, ASIM_TC_INACTIVE_SPLIT_BYTES, shelf->large, split ? state->extents[block].size : 0,
               absorbed);
    }
    asim_tc_down(stats, ASIM_TC_ACTIVE, shelf->large, 1);
    asim_tc_down(stats, ASIM_TC_ACTIVE_BYTES, shelf->large, size);
    asim_tc_down(stats, ASIM_TC_REQUESTED_BYTES, shelf->large, state->blocks[block].requested);
}
