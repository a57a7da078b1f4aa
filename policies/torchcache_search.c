/* The search for a free block: best fit by (size, address) on exactly the request's stream (R37). The first
 * sufficient block is found inline, in torchcache.c; here are the rules that may pass it over. */
#include "policies/torchcache_state.h"

/* How large a block of an expandable segment is or could grow; of a plain one, its size. */
static uint64_t room(const asim_tc_state *state, uint32_t block)
{
    uint64_t size = state->extents[block].size;
    uint32_t next = state->extents[block].next;
    if (state->blocks[block].expandable && state->blocks[next].state == ASIM_TC_UNMAPPED)
        size += state->extents[next].size;
    return size;
}

/* Whether a block could grow to the end of its range, which is longer on a larger device (R84). */
static bool reaches_end(const asim_tc_state *state, uint32_t block)
{
    uint32_t next = state->extents[block].next;
    return state->blocks[block].expandable && state->blocks[next].state == ASIM_TC_UNMAPPED &&
           state->extents[next].next == 0;
}

/* R37 step 3: of the sufficient blocks from found on, the first whose successor has no less room. */
static uint32_t least_room(const asim_tc_state *state, const asim_tc_shelf *shelf, uint32_t found,
                           uint64_t *steps)
{
    bool asks = false;
    while (state->blocks[found].expandable) {
        uint32_t next = asim_free_next(&shelf->free, state->extents, found);
        ++*steps;
        asks = asks || (next && (reaches_end(state, found) || reaches_end(state, next)));
        if (!next || room(state, next) >= room(state, found))
            break;
        found = next;
    }
    if (asks) /* the choice may depend on the device's size */
        state->driver.ops->memory(state->driver.ctx, shelf->device, &(uint64_t){0}, &(uint64_t){0});
    return found;
}

static uint32_t next_plain(const asim_tc_state *state, const asim_tc_shelf *shelf, uint32_t found,
                           uint64_t *steps)
{
    while (found && state->blocks[found].expandable) {
        found = asim_free_next(&shelf->free, state->extents, found);
        ++*steps;
    }
    return found;
}

uint32_t asim_tc_search_from(asim_tc_state *state, const asim_tc_shelf *shelf, uint32_t found,
                             uint64_t rounded, bool expandable)
{
    const asim_tc_options *options = &state->options;
    uint64_t *steps = &state->counters->search_steps;
    found = expandable ? least_room(state, shelf, found, steps) : next_plain(state, shelf, found, steps);
    if (!found)
        return 0;
    uint64_t size = state->extents[found].size;
    if (rounded < options->max_split)
        return size >= options->max_split ? 0 : found;
    return size - rounded >= options->max_rounding ? 0 : found;
}
