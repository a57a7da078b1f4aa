#include "policies/torchcache_blocks.h"

void asim_tc_find_largest(asim_tc_state *state)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < state->shelf_count; i++) {
        uint32_t last = asim_free_last(&state->shelves[i]->free, state->extents);
        if (largest < state->extents[last].size)
            largest = state->extents[last].size;
    }
    state->counters->largest_free_bytes = largest;
    state->largest_stale = false;
}

uint32_t asim_tc_cut_back(asim_tc_state *state, uint32_t block, uint64_t size)
{
    uint32_t back = asim_tc_block_new(state);
    if (!back)
        return 0;
    asim_extent *kept = &state->extents[block];
    const asim_tc_block *record = &state->blocks[block];
    state->extents[back] = (asim_extent){
        .address = kept->address + size, .size = kept->size - size, .prev = block, .next = kept->next};
    state->blocks[back] =
        (asim_tc_block){.shelf = record->shelf, .segment = record->segment, .expandable = record->expandable};
    if (kept->next)
        state->extents[kept->next].prev = back;
    kept->next = back;
    kept->size = size;
    return back;
}

void asim_tc_complete(asim_tc_state *state, uint32_t block)
{
    asim_tc_shelf *shelf = asim_tc_shelf_of_block(state, block);
    asim_tc_count_completed(shelf->stats, shelf->requests, state->extents[block].size,
                            state->blocks[block].requested);
    asim_tc_make_free(state, shelf, block);
}
