/* Memory from and back to the driver: new segments, garbage collection, and the two releases (specification,
 * sections 9 to 11). The order of every release is stream, size, position (R60).
 */
#include "policies/torchcache_blocks.h"

/* R116. */
static bool is_rejected(asim_tc_state *state, const asim_tc_device *device, uint64_t size)
{
    uint64_t free_bytes, total;
    state->driver.ops->memory(state->driver.ctx, (unsigned)(device - state->devices), &free_bytes, &total);
    const uint64_t allowed = (uint64_t)(state->options.fraction * (double)total);
    state->rejected = device->reserved + size > allowed;
    return state->rejected;
}

bool asim_tc_obtain(asim_tc_state *state, asim_tc_shelf *shelf, uint64_t rounded, bool retry,
                    uint32_t *ret_block)
{
    asim_tc_device *device = &state->devices[shelf->device];
    const uint64_t size = asim_tc_segment_bytes(&state->options, rounded);
    *ret_block = 0;
    if (retry) {
        device->stats.num_alloc_retries++;
        state->counters->alloc_retries++;
    }
    if (device->limit != ASIM_TC_UNLIMITED && device->reserved + size > device->limit)
        return true;
    if (state->options.throws && is_rejected(state, device, size))
        return true;
    if (state->options.expandable && (shelf->group->pool == 0 || state->release->pools_expand))
        return asim_tc_expand(state, shelf, rounded, ret_block);

    asim_region region;
    asim_device_result result =
        state->driver.ops->alloc(state->driver.ctx, shelf->device, size, shelf->lane, &region);
    if (result == ASIM_DEVICE_OOM)
        return true;
    if (result != ASIM_DEVICE_OK)
        return asim_tc_fail_driver(state, "alloc");
    region.size = size;
    uint32_t block = asim_tc_segment_new(state, shelf, &region, 0);
    if (!block)
        return false;
    shelf->group->segments++;
    asim_tc_up(&device->stats.segment, shelf->large, 1);
    asim_tc_count_reserved(state, shelf, size);
    if (size >= state->options.max_split)
        asim_tc_counter_up(&device->stats.oversize_segments, 1);
    device->stats.num_device_alloc++;
    asim_tc_free_add(state, shelf, block);
    *ret_block = block;
    return true;
}

/* R53: block is free and covers its plain segment. */
static bool release_segment(asim_tc_state *state, asim_tc_shelf *shelf, uint32_t block)
{
    asim_tc_device *device = &state->devices[shelf->device];
    const uint32_t segment = state->blocks[block].segment;
    const uint64_t size = state->extents[block].size;
    if (asim_tc_is_split(state, block))
        return asim_tc_fail(state, ASIM_E_BUG,
                            "a part of a segment was to be returned to the device; max_split_size_mb was "
                            "lowered, or expandable_segments turned on beside it, in mid-run, which PyTorch "
                            "does not survive either");
    if (state->driver.ops->free(state->driver.ctx, state->segments[segment].region) != ASIM_DEVICE_OK)
        return asim_tc_fail_driver(state, "free");
    device->stats.num_device_free++;
    shelf->group->segments--;
    asim_tc_down(&device->stats.segment, shelf->large, 1);
    asim_tc_count_returned(state, shelf, size);
    if (size >= state->options.max_split)
        asim_tc_counter_down(&device->stats.oversize_segments, 1);
    asim_tc_free_take(state, shelf, block);
    asim_tc_segment_drop(state, segment);
    asim_tc_block_drop(state, block);
    return true;
}

/* torch_npu waits for the device before anything cached goes back. */
static void wait_first(asim_tc_state *state, unsigned device)
{
    if (state->release->waits_before_release)
        state->driver.ops->device_wait(state->driver.ctx, device);
}

static bool is_collectable(const asim_tc_state *state, uint32_t block)
{
    return !asim_tc_is_split(state, block);
}

/* R47 to R51. */
bool asim_tc_collect_garbage(asim_tc_state *state, asim_tc_device *device)
{
    asim_tc_pool *pool = &device->groups[0]->pools[1];
    const uint64_t threshold = (uint64_t)(state->options.gc_threshold * (double)device->limit);
    if (device->reserved <= threshold)
        return true;
    const uint64_t target = device->reserved - threshold;
    uint64_t freed = 0, total_age = 0, count = 0;
    for (size_t i = 0; i < pool->shelf_count; i++) {
        const asim_free_index *free = &pool->shelves[i]->free;
        for (uint32_t b = asim_free_first(free, state->extents); b;
             b = asim_free_next(free, state->extents, b))
            if (is_collectable(state, b)) {
                total_age += pool->searches - state->blocks[b].inserted;
                count++;
            }
    }
    if (count > 0)
        wait_first(state, (unsigned)(device - state->devices));
    bool progress = true;
    while (freed < target && progress && count > 0) {
        const double mean = (double)total_age / (double)count; /* fixed for the round */
        progress = false;
        for (size_t i = 0; i < pool->shelf_count; i++) {
            asim_tc_shelf *shelf = pool->shelves[i];
            uint32_t next;
            for (uint32_t b = asim_free_first(&shelf->free, state->extents); b; b = next) {
                next = asim_free_next(&shelf->free, state->extents, b);
                uint64_t age = pool->searches - state->blocks[b].inserted;
                if (!is_collectable(state, b) || state->blocks[b].expandable || (double)age < mean)
                    continue;
                freed += state->extents[b].size;
                total_age -= age;
                count--;
                progress = true;
                if (!release_segment(state, shelf, b))
                    return false;
            }
        }
    }
    return true;
}

/* R55. */
static bool fail_expandable(asim_tc_state *state)
{
    return asim_tc_fail(
        state, ASIM_E_BUG,
        "a block of an expandable segment was to be returned to the device as a whole; PyTorch %s "
        "does not survive max_split_size_mb with expandable_segments here either",
        state->release->name);
}

/* R54. */
bool asim_tc_release_available(asim_tc_state *state, asim_tc_shelf *shelf, uint64_t rounded,
                               bool *ret_success)
{
    const uint64_t limit = state->options.max_split;
    *ret_success = false;
    if (limit == ASIM_TC_UNLIMITED)
        return true;
    wait_first(state, shelf->device);
    const uint64_t wanted = rounded > limit ? rounded : limit;
    uint32_t found = asim_free_find(&shelf->free, state->extents, wanted, &state->counters->search_steps);
    if (found && state->blocks[found].expandable && !state->release->available_skips)
        return fail_expandable(state);
    if (found && !state->blocks[found].expandable) {
        *ret_success = true;
        return release_segment(state, shelf, found);
    }
    uint64_t freed = 0;
    uint32_t before = asim_free_below(&shelf->free, state->extents, wanted);
    while (freed < wanted && before && state->extents[before].size >= limit) {
        uint32_t block = before;
        before = asim_free_prev(&shelf->free, state->extents, block);
        if (state->blocks[block].expandable && !state->release->available_skips)
            return fail_expandable(state);
        if (state->blocks[block].expandable)
            continue;
        freed += state->extents[block].size;
        if (!release_segment(state, shelf, block))
            return false;
    }
    *ret_success = freed >= wanted;
    return true;
}

/* R59. */
static bool release_pool(asim_tc_state *state, asim_tc_pool *pool)
{
    size_t collected = 0;
    for (size_t i = 0; i < pool->shelf_count; i++) {
        asim_tc_shelf *shelf = pool->shelves[i];
        uint32_t next;
        for (uint32_t b = asim_free_first(&shelf->free, state->extents); b; b = next) {
            next = asim_free_next(&shelf->free, state->extents, b);
            if (state->blocks[b].expandable) {
                if (!asim_tc_grow(state, &state->scratch, &state->scratch_capacity, collected + 1,
                                  sizeof *state->scratch))
                    return false;
                state->scratch[collected++] = b;
            } else if (!asim_tc_is_split(state, b) && !release_segment(state, shelf, b)) {
                return false;
            }
        }
    }
    for (size_t i = 0; i < collected; i++) /* unmapping one leaves the records of the others alone */
        if (!asim_tc_unmap(state, state->scratch[i]))
            return false;
    return true;
}

bool asim_tc_release_all(asim_tc_state *state, unsigned device_index, uint16_t pool)
{
    asim_tc_device *device = &state->devices[device_index];
    wait_first(state, device_index);
    if (pool == 0 && !asim_tc_capturing(state, device)) {
        asim_tc_group *group = device->groups[0];
        state->counters->cache_flushes++;
        if (!asim_tc_sync_events(state, device, NULL) || !release_pool(state, &group->pools[1]) ||
            !release_pool(state, &group->pools[0]))
            return false;
    }
    for (size_t i = 1; i < device->group_count; i++) { /* R183: ascending */
        asim_tc_group *group = device->groups[i];
        if (!group->exists || group->uses > 0 || (pool != 0 && pool != group->pool))
            continue;
        if (pool == group->pool && !asim_tc_sync_events(state, device, group))
            return false;
        if (!release_pool(state, &group->pools[0]) || !release_pool(state, &group->pools[1]))
            return false;
        if (group->segments == 0)
            asim_tc_group_end(state, group);
    }
    return true;
}
