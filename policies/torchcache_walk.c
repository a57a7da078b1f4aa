/* What a memory snapshot shows: segments by device and address, each with its blocks (section 21). An
 * expandable range shows as its maximal mapped runs (R146); free blocks show stale requested sizes (R151).
 */
#include "policies/torchcache_state.h"

static void show_block(const asim_tc_state *state, uint32_t block, const asim_walker *walker)
{
    const asim_walk_block shown = {
        .address = asim_tc_address(state, block),
        .size = state->extents[block].size,
        .requested = state->release->keeps_requested ? state->blocks[block].requested : 0,
        .word = block,
        .state = (asim_block_state)state->blocks[block].state,
    };
    walker->block(walker->ctx, &shown);
}

/* Shows the run of mapped blocks that begins at block; returns the block after it, or 0. */
static uint32_t show_run(const asim_tc_state *state, uint32_t block, const asim_walker *walker)
{
    const asim_tc_segment *segment = &state->segments[state->blocks[block].segment];
    const asim_tc_shelf *shelf = state->shelves[segment->shelf];
    asim_walk_segment shown = {
        .address = asim_tc_address(state, block),
        .stream = shelf->stream,
        .region = segment->region,
        .device = shelf->device,
        .pool = shelf->group->pool,
        .small = !shelf->large,
        .expandable = segment->page != 0,
    };
    uint32_t end = block;
    for (; end && state->blocks[end].state != ASIM_TC_UNMAPPED; end = state->extents[end].next)
        shown.size += state->extents[end].size;
    walker->segment(walker->ctx, &shown);
    for (; block != end; block = state->extents[block].next)
        show_block(state, block, walker);
    return end;
}

void asim_tc_walk(const asim_tc_state *state, const asim_walker *walker)
{
    for (size_t i = 0; i < state->device_count; i++) {
        const asim_tc_device *device = &state->devices[i];
        for (size_t j = 0; j < device->order_count; j++) {
            uint32_t block = state->segments[device->order[j]].first;
            while (block) {
                if (state->blocks[block].state == ASIM_TC_UNMAPPED)
                    block = state->extents[block].next;
                else
                    block = show_run(state, block, walker);
            }
        }
    }
}
