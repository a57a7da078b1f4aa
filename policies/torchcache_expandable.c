/* Expandable segments: a reserved range of addresses into which pages are mapped (specification, section 15).
 *
 *     range   |<---------------------------- 9/8 of the device, in pages ---------------------------->|
 *             [ live ][ free ][  unmapped  ][ live ][        unmapped                                 ]
 *                     '--- growth starts here: the lowest hole with room, and a free block before it
 */
#include "policies/torchcache_blocks.h"

#include <string.h>

uint64_t asim_tc_page_size(const asim_tc_state *state, const asim_tc_shelf *shelf)
{
    const asim_tc_options *options = &state->options;
    if (!shelf->large)
        return ASIM_TC_SMALL_SEG;
    return options->huge_page ? options->huge_page : options->page ? options->page : options->large_segment;
}

uint64_t asim_tc_range_size(const asim_tc_state *state, const asim_tc_shelf *shelf)
{
    const asim_tc_options *options = &state->options;
    const uint64_t capacity = state->devices[shelf->device].capacity;
    uint64_t size = capacity + capacity / 8;
    if (options->reserve > 0) { /* R84 */
        double asked = options->reserve_is_share ? options->reserve * (double)capacity : options->reserve;
        if (asked < (double)size)
            size = asked < 1 ? 1 : (uint64_t)asked;
    }
    return asim_tc_ceil(size, asim_tc_page_size(state, shelf));
}

/* Where a block of this address stands, or would stand, among the unmapped ones. */
static size_t unmapped_place(const asim_tc_state *state, const asim_tc_shelf *shelf, uint64_t address)
{
    size_t low = 0, high = shelf->unmapped_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (asim_tc_address(state, shelf->unmapped[middle]) < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool asim_tc_unmapped_add(asim_tc_state *state, asim_tc_shelf *shelf, uint32_t block)
{
    if (!asim_tc_grow(state, &shelf->unmapped, &shelf->unmapped_capacity, shelf->unmapped_count + 1,
                      sizeof *shelf->unmapped))
        return false;
    size_t place = unmapped_place(state, shelf, asim_tc_address(state, block));
    memmove(shelf->unmapped + place + 1, shelf->unmapped + place,
            (shelf->unmapped_count - place) * sizeof *shelf->unmapped);
    shelf->unmapped[place] = block;
    shelf->unmapped_count++;
    state->blocks[block].state = ASIM_TC_UNMAPPED;
    return true;
}

void asim_tc_unmapped_take(asim_tc_state *state, asim_tc_shelf *shelf, uint32_t block)
{
    size_t place = unmapped_place(state, shelf, asim_tc_address(state, block));
    shelf->unmapped_count--;
    memmove(shelf->unmapped + place, shelf->unmapped + place + 1,
            (shelf->unmapped_count - place) * sizeof *shelf->unmapped);
}

/* Merges block with its neighbours of the given state (free, or unmapped), the one before first. The block
 * itself is in no set. */
static void merge_neighbours(asim_tc_state *state, asim_tc_shelf *shelf, uint32_t block, uint8_t like)
{
    for (unsigned side = 0; side < 2; side++) {
        uint32_t other = side == 0 ? state->extents[block].prev : state->extents[block].next;
        if (state->blocks[other].state != like)
            continue;
        if (like == ASIM_TC_FREE)
            asim_tc_free_take(state, shelf, other);
        else
            asim_tc_unmapped_take(state, shelf, other);
        if (side == 0)
            asim_tc_absorb_prev(state, block, other);
        else
            asim_tc_absorb_next(state, block, other);
    }
}

static bool is_idle(const asim_tc_state *state, uint32_t block)
{
    return state->blocks[block].state == ASIM_TC_FREE || state->blocks[block].state == ASIM_TC_UNMAPPED;
}

/* R87: where growth for a request starts; a new range where no hole has room. 0: no room, or broken. */
static uint32_t find_place(asim_tc_state *state, asim_tc_shelf *shelf, uint64_t rounded)
{
    for (size_t i = 0; i < shelf->unmapped_count; i++) {
        uint32_t start = shelf->unmapped[i], prev = state->extents[start].prev;
        state->counters->search_steps++;
        if (prev && is_idle(state, prev))
            start = prev;
        uint64_t sum = 0;
        for (uint32_t b = start; b && is_idle(state, b); b = state->extents[b].next) {
            sum += state->extents[b].size;
            if (sum >= rounded)
                return start;
        }
    }
    asim_region region;
    uint64_t size = asim_tc_range_size(state, shelf), free_bytes, total;
    if (shelf->has_range ||
        size < rounded) /* on a larger device the range would be longer: it counts as asked */
        state->driver.ops->memory(state->driver.ctx, shelf->device, &free_bytes, &total);
    shelf->has_range = true;
    asim_device_result result =
        state->driver.ops->reserve(state->driver.ctx, shelf->device, size, shelf->lane, &region);
    if (result == ASIM_DEVICE_OOM)
        return 0;
    if (result != ASIM_DEVICE_OK) {
        asim_tc_fail_driver(state, "reserve");
        return 0;
    }
    if (state->release->returns_short_range && size < rounded) {
        if (state->driver.ops->unreserve(state->driver.ctx, region.index) != ASIM_DEVICE_OK)
            asim_tc_fail_driver(state, "unreserve");
        return 0;
    }
    region.size = size;
    uint32_t block = asim_tc_segment_new(state, shelf, &region, asim_tc_page_size(state, shelf));
    if (!block || !asim_tc_unmapped_add(state, shelf, block))
        return 0;
    return block;
}

/* R90: maps enough pages for want bytes at the start of an unmapped block, which becomes free and merges.
 * *ret_mapped false: no memory, nothing changed. */
static bool map_front(asim_tc_state *state, asim_tc_shelf *shelf, uint32_t block, uint64_t want,
                      bool *ret_mapped)
{
    asim_tc_device *device = &state->devices[shelf->device];
    const asim_tc_segment *range = &state->segments[state->blocks[block].segment];
    const uint64_t size = asim_tc_ceil(want, range->page);
    *ret_mapped = false;
    asim_device_result result = state->driver.ops->map(
        state->driver.ctx, range->region, asim_tc_address(state, block) - range->address, size, range->page);
    if (result == ASIM_DEVICE_OOM)
        return true;
    if (result != ASIM_DEVICE_OK)
        return asim_tc_fail_driver(state, "map");
    asim_tc_unmapped_take(state, shelf, block);
    if (size < state->extents[block].size) {
        uint32_t rest = asim_tc_cut_back(state, block, size); /* the record stays with the front (R2) */
        if (!rest)
            return false;
        if (!asim_tc_unmapped_add(state, shelf, rest))
            return false;
    }
    merge_neighbours(state, shelf, block, ASIM_TC_FREE);
    asim_tc_free_add(state, shelf, block);
    asim_tc_count_reserved(state, shelf, size);
    device->stats.num_device_alloc++;
    *ret_mapped = true;
    return true;
}

bool asim_tc_expand(asim_tc_state *state, asim_tc_shelf *shelf, uint64_t rounded, uint32_t *ret_block)
{
    *ret_block = 0;
    uint32_t block = find_place(state, shelf, rounded);
    if (!block)
        return !state->broken;
    for (;;) {
        uint64_t size = state->extents[block].size, want = rounded;
        uint32_t hole = block;
        if (state->blocks[block].state == ASIM_TC_FREE) {
            if (size >= rounded)
                break;
            hole = state->extents[block].next;
            want = rounded - size;
        }
        if (want > state->extents[hole].size)
            want = state->extents[hole].size;
        bool mapped;
        if (!map_front(state, shelf, hole, want, &mapped))
            return false;
        if (!mapped)
            return true; /* what was mapped so far stays (R92) */
        block = hole;    /* its record absorbed the free block before it */
        if (state->extents[block].size < rounded &&
            state->blocks[state->extents[block].next].state != ASIM_TC_UNMAPPED)
            return true; /* R92a: even the whole range is too small */
    }
    shelf->group->segments++;
    *ret_block = block;
    return true;
}

bool asim_tc_align_base(asim_tc_state *state, asim_tc_shelf *shelf, uint32_t block, uint64_t rounded)
{
    const uint64_t align = state->options.base_align, over = asim_tc_address(state, block) % align;
    if (rounded < ASIM_TC_ROUND_SEG || !state->options.expandable || !over ||
        align - over + rounded > state->extents[block].size)
        return true;
    asim_tc_free_take(state, shelf, block);
    const uint32_t front = asim_tc_cut_front(state, block, align - over);
    if (!front)
        return false;
    asim_tc_free_add(state, shelf, front);
    asim_tc_free_add(state, shelf, block);
    return true;
}

bool asim_tc_unmap(asim_tc_state *state, uint32_t block)
{
    asim_tc_shelf *shelf = asim_tc_shelf_of_block(state, block);
    asim_tc_device *device = &state->devices[shelf->device];
    const uint32_t segment = state->blocks[block].segment;
    const asim_tc_segment range = state->segments[segment];
    const uint64_t start = asim_tc_address(state, block) - range.address;
    const uint64_t end = start + state->extents[block].size;
    const uint64_t first = asim_tc_ceil(start, range.page), last = end / range.page * range.page;
    if (first >= last)
        return true;
    state->driver.ops->stream_wait(state->driver.ctx, shelf->lane);
    if (state->driver.ops->unmap(state->driver.ctx, range.region, first, last - first, range.page) !=
        ASIM_DEVICE_OK)
        return asim_tc_fail_driver(state, "unmap");
    asim_tc_free_take(state, shelf, block);
    if (start < first) {
        uint32_t front = asim_tc_cut_front(state, block, first - start);
        if (!front)
            return false;
        asim_tc_free_add(state, shelf, front);
    }
    if (last < end) {
        uint32_t back = asim_tc_cut_back(state, block, last - first);
        if (!back)
            return false;
        asim_tc_free_add(state, shelf, back);
    }
    merge_neighbours(state, shelf, block, ASIM_TC_UNMAPPED);
    asim_tc_count_returned(state, shelf, last - first);
    shelf->group->segments--;
    device->stats.num_device_free++;
    if (asim_tc_is_split(state, block))
        return asim_tc_unmapped_add(state, shelf, block);
    /* R96: nothing is mapped any more. */
    if (state->driver.ops->unreserve(state->driver.ctx, range.region) != ASIM_DEVICE_OK)
        return asim_tc_fail_driver(state, "unreserve");
    asim_tc_segment_drop(state, segment);
    asim_tc_block_drop(state, block);
    return true;
}
