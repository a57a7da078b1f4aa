/* torchcache - the CUDA caching allocator of PyTorch ("native" backend), to the byte.
 *
 * What it models: every placement, segment, retry, failure and statistic of PyTorch's allocator, for the
 * release that the parameter torch names. Written from a behaviour specification whose rules are cited as
 * (R62); the specification was checked against recorded operations of the genuine allocator, release 2.6.0.
 *
 * How it works. Requests are rounded to 512 bytes. Up to 1 MiB they are served from the small pool, whose
 * segments have 2 MiB; larger ones from the large pool, whose segments have 20 MiB or, from 10 MiB on, the
 * request's own size in steps of 2 MiB. Free blocks are kept by stream and never leave it.
 *
 *     request   round -> search: best fit on exactly this stream
 *                   miss -> collect garbage -> new segment -> release what fits -> release all, new segment
 *                   hit, or new segment -> split off the rest if it is worth it -> hand out
 *
 *     split     [              free                ]      small pool: a rest of 512 bytes or more
 *               [ handed out ][        free        ]      large pool: a rest of more than 1 MiB
 *
 *     merge     [ free ][ freed ][ free ][ live ]   ->   [         free         ][ live ]
 *
 *     free      used by other streams: an event a stream; looked at when the next request begins
 *
 * Ties: the free set is ordered by (stream handle, size, address), from release 2.13 on by (stream handle,
 * size, age of the segment, address), and the first sufficient block is taken; releases walk that order.
 * Event queues are visited by ascending (device, stream), private pools by ascending id.
 *
 * Cost: O(1) for the usual request and free, O(log n) when n free blocks have nearly the same size; releases
 * and garbage collection are linear in the free blocks.
 *
 * This file is the table and the course of a request (section 8). The parts: _params, _conf options, _round
 * sizes, _search the free-block search, _blocks split and merge, _obtain segments and releases, _expandable
 * ranges, _events other streams, _pools private pools, _adopt opening states, _stats,
 * _message out of memory, _walk and _check.
 */
#include "policies/torchcache_blocks.h"
#include "policies/torchcache_params.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool asim_tc_fail(asim_tc_state *state, asim_code code, const char *format, ...)
{
    if (state->broken)
        return false;
    state->broken = true;
    va_list args;
    va_start(args, format);
    char text[ASIM_ERR_MESSAGE_MAX];
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    asim_fail(&state->fault, code, "%s", text);
    return false;
}

bool asim_tc_fail_driver(asim_tc_state *state, const char *operation)
{
    return asim_tc_fail(state, ASIM_E_BUG, "the device's %s operation failed for another reason than memory",
                        operation);
}

static asim_code fault_of(const asim_tc_state *state, asim_err *err)
{
    return asim_fail(err, state->fault.code, "%s", state->fault.message);
}

/* R114. */
static void set_limit(asim_tc_state *state, unsigned device, double fraction)
{
    uint64_t free_bytes, total;
    state->driver.ops->memory(state->driver.ctx, device, &free_bytes, &total);
    const double share = fraction * (double)total;
    uint64_t limit = (uint64_t)share;
    if (state->release->limit_rounds && share - (double)limit >= 0.5)
        limit++;
    if (state->release->full_lifts_limit && fraction >= 1)
        limit = ASIM_TC_UNLIMITED;
    state->devices[device].limit = limit;
}

asim_code asim_tc_begin(asim_policy_state *state, const asim_policy_env *env, const asim_tc_release *release,
                        const asim_tc_options *options, double fraction, asim_err *err)
{
    state->release = release;
    state->options = *options;
    state->mem = env->memory;
    state->listener = env->listener;
    state->counters = env->counters;
    state->lane_table = env->lanes;
    state->driver = env->device;
    asim_code code = asim_tc_tables_init(state, env, err);
    if (code)
        return code;
    for (unsigned i = 0; i < state->device_count; i++) {
        state->devices[i].stats.max_split_size = (int64_t)state->options.max_split;
        if (fraction >= 0)
            set_limit(state, i, fraction);
        else if (state->options.fraction < 1) /* R11 */
            set_limit(state, i, state->options.fraction);
    }
    return ASIM_OK;
}

static asim_code torchcache_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                                 asim_err *err)
{
    const asim_tc_params *given = block;
    const asim_tc_release *release = &asim_tc_releases[given->release];
    asim_tc_options options;
    asim_code code = asim_tc_params_read(given, release, &options, err);
    return code ? code : asim_tc_begin(state, env, release, &options, given->fraction, err);
}

/* The shelf a request is served from; NULL: broken. */
static asim_tc_shelf *shelf_for(asim_tc_state *state, asim_tc_lane *lane, bool large)
{
    if (lane->group->pool)
        asim_tc_group_ensure(lane->group);
    else if (lane->device->scope_count > 0) {
        asim_tc_group *group = asim_tc_route(state, lane);
        if (group != lane->group)
            return asim_tc_shelf_of(state, group, lane->stream, large);
    }
    lane->shelves[large] = asim_tc_shelf_of(state, lane->group, lane->stream, large);
    return lane->shelves[large];
}

/* The innermost pool entered, or 0. */
static uint16_t active_pool(const asim_tc_device *device)
{
    return device->active_count ? device->active[device->active_count - 1] : 0;
}

/* R37. The block found stays in its set. */
static inline uint32_t search(asim_tc_state *state, asim_tc_shelf *shelf, uint64_t rounded, bool expandable)
{
    const asim_tc_options *options = &state->options;
    if (options->gc_threshold > 0 && state->devices[shelf->device].limit != ASIM_TC_UNLIMITED)
        shelf->pool->searches++;
    uint32_t found = asim_free_find(&shelf->free, state->extents, rounded, &state->counters->search_steps);
    if (found && (state->blocks[found].expandable || state->extents[found].size >= options->max_split))
        found = asim_tc_search_from(state, shelf, found, rounded, expandable);
    return found;
}

/* A request that found no free block. */
typedef struct asim_tc_need {
    asim_tc_shelf *shelf; /* becomes that of the pool that helped out */
    uint64_t rounded;
    uint32_t stream;
    bool expandable; /* R63; becomes false when another pool helps out */
} asim_tc_need;

/* R111; does nothing for a request that goes to a private pool. */
static bool ask_pools(asim_tc_state *state, asim_tc_need *need, uint32_t *ret_block)
{
    asim_tc_device *device = &state->devices[need->shelf->device];
    if (need->shelf->group->pool != 0)
        return true;
    for (size_t i = 1; i < device->group_count && !*ret_block; i++) {
        asim_tc_group *group = device->groups[i];
        if (!group->use_on_oom)
            continue;
        if (asim_tc_scope_of(device, group))
            return asim_tc_fail(state, ASIM_E_INPUT,
                                "pool %u of device %u is to help a request out of memory while it is being "
                                "filled; PyTorch does not survive that either",
                                group->pool, group->device);
        asim_tc_shelf *shelf = asim_tc_shelf_of(state, group, need->stream, need->shelf->large);
        if (!shelf)
            return false;
        *ret_block = search(state, shelf, need->rounded, false);
        if (*ret_block) {
            need->shelf = shelf;
            need->expandable = false;
        }
    }
    return true;
}

/* R40, steps 4 to 10: the search found nothing. *ret_block 0: refused. */
static bool obtain_memory(asim_tc_state *state, asim_tc_need *need, uint32_t *ret_block)
{
    asim_tc_shelf *shelf = need->shelf;
    const uint64_t rounded = need->rounded;
    asim_tc_device *device = &state->devices[shelf->device];
    *ret_block = 0;
    state->rejected = false;
    if (device->limit != ASIM_TC_UNLIMITED && state->options.gc_threshold > 0 &&
        !asim_tc_collect_garbage(state, device))
        return false;
    if (!asim_tc_obtain(state, shelf, rounded, false, ret_block))
        return false;
    if (*ret_block || state->rejected)
        return true;
    if (state->release->pools_help_first && !ask_pools(state, need, ret_block))
        return false;
    if (*ret_block)
        return true;
    bool released;
    if (!asim_tc_release_available(state, shelf, rounded, &released))
        return false;
    if (released && !asim_tc_obtain(state, shelf, rounded, false, ret_block))
        return false;
    if (*ret_block || state->rejected)
        return true;
    if (!asim_tc_capturing(state, device)) {
        const uint16_t pool = state->release->last_try_in_pool ? active_pool(device) : 0;
        if (!asim_tc_release_all(state, shelf->device, pool) ||
            !asim_tc_obtain(state, shelf, rounded, true, ret_block))
            return false;
    }
    return *ret_block || state->rejected || state->release->pools_help_first ||
           ask_pools(state, need, ret_block);
}

/* F of R175. */
static uint64_t free_in_private_pools(const asim_tc_state *state, const asim_tc_device *device)
{
    uint64_t sum = 0;
    for (size_t i = 1; i < device->group_count; i++)
        for (unsigned large = 0; large < 2; large++) {
            const asim_tc_pool *pool = &device->groups[i]->pools[large];
            for (size_t k = 0; k < pool->shelf_count; k++) {
                const asim_free_index *free = &pool->shelves[k]->free;
                for (uint32_t b = asim_free_first(free, state->extents); b;
                     b = asim_free_next(free, state->extents, b))
                    sum += state->extents[b].size;
            }
        }
    return sum;
}

/* R44. */
static asim_alloc_result refuse(asim_tc_state *state, const asim_tc_shelf *shelf, uint64_t rounded)
{
    const uint64_t size = asim_tc_segment_bytes(&state->options, rounded);
    uint64_t free_bytes, total;
    asim_tc_device *device = &state->devices[shelf->device];
    const asim_tc_stats *stats = &device->stats;
    state->driver.ops->memory(state->driver.ctx, shelf->device, &free_bytes, &total);
    device->stats.num_ooms++;
    state->refusal = (asim_tc_refusal){
        .kind = ASIM_TC_OUT_OF_MEMORY,
        .attempted = size,
        .total = total,
        .free = free_bytes,
        .limit = device->limit,
        .allocated = (uint64_t)(stats->requests[0].live.bytes + stats->requests[1].live.bytes),
        .pool_free = state->release->oom_counts_pools ? free_in_private_pools(state, device) : 0,
        .reserved = device->reserved,
        .range = state->options.expandable ? asim_tc_range_size(state, shelf) : 0,
        .device = shelf->device};
    asim_tc_settle(state);
    state->listener->refusal(state->listener->ctx, shelf->device, rounded, size, free_bytes);
    return ASIM_REFUSED;
}

asim_alloc_result asim_tc_alloc(asim_policy_state *state, const asim_event *event,
                                asim_placement *ret_placement)
{
    asim_tc_lane *lane = &state->lanes[event->lane];
    const uint64_t size = event->size;
    if (lane->device->attention > 0)
        lane->device->current = lane->stream;
    if (size == 0)
        return ASIM_NOTHING;
    if (size >= ASIM_TC_HARD_LIMIT) { /* R24: refused before the allocator hears of it */
        state->refusal = (asim_tc_refusal){.kind = ASIM_TC_TOO_LARGE, .requested = size};
        return ASIM_REFUSED;
    }
    const uint64_t rounded = asim_tc_round(&state->options.rounding, size);
    const bool large = asim_tc_is_large(rounded);
    asim_tc_shelf *shelf = lane->shelves[large];
    bool waiting = false; /* for events that were not looked at */
    if (lane->device->attention > 0) {
        if (lane->device->scope_count > 0)
            shelf = NULL;
        waiting = !asim_tc_capturing(state, lane->device);
        if (waiting && asim_tc_looks_now(state, lane->device)) {
            waiting = false;
            if (!asim_tc_process_events(state, lane->device))
                return ASIM_BROKEN;
        }
    }
    if (!shelf && !(shelf = shelf_for(state, lane, large)))
        return ASIM_BROKEN;

    bool expandable = state->options.expandable;
    uint32_t block = search(state, shelf, rounded, expandable);
    if (!block && waiting) {
        if (!asim_tc_process_events(state, lane->device))
            return ASIM_BROKEN;
        block = search(state, shelf, rounded, expandable);
    }
    if (!block) {
        asim_tc_need need = {shelf, rounded, lane->stream, expandable};
        if (!obtain_memory(state, &need, &block))
            return ASIM_BROKEN;
        shelf = need.shelf;
        expandable = need.expandable;
        if (!block && state->rejected) { /* R116 */
            state->devices[shelf->device].stats.num_oom_rejections++;
            state->refusal = (asim_tc_refusal){.kind = ASIM_TC_REJECTED, .requested = size};
            asim_tc_settle(state);
            return ASIM_REFUSED;
        }
        if (!block)
            return refuse(state, shelf, rounded);
    }
    if (state->options.base_align && !asim_tc_align_base(state, shelf, block, rounded))
        return ASIM_BROKEN;
    block = asim_tc_hand_out(state, shelf, block, rounded, size, expandable);
    if (!block || state->broken)
        return ASIM_BROKEN;
    asim_tc_settle(state);
    *ret_placement = (asim_placement){
        .address = asim_tc_address(state, block),
        .size = state->extents[block].size,
        .rounded = rounded,
        .region = state->segments[state->blocks[block].segment].region,
        .word = block,
    };
    return ASIM_PLACED;
}

/* R66. */
asim_free_result asim_tc_free(asim_policy_state *state, uint32_t block, bool completion_follows)
{
    asim_tc_shelf *shelf = asim_tc_shelf_of_block(state, block);
    asim_tc_stats *stats = shelf->stats;
    const uint64_t size = state->extents[block].size;
    if (size >= state->options.max_split)
        asim_tc_counter_down(&stats->oversize_allocations, 1);
    if (!completion_follows && !state->blocks[block].uses) {
        asim_tc_count_freed(stats, shelf->requests, size, state->blocks[block].requested);
        asim_tc_make_free(state, shelf, block);
        asim_tc_settle(state);
        return ASIM_FREED;
    }
    asim_tc_count_pending(stats, shelf->requests, size);
    state->blocks[block].state = ASIM_TC_PENDING;
    if (completion_follows)
        asim_tc_uses_clear(state, block);
    else if (!asim_tc_free_used(state, block))
        return ASIM_FREE_BROKEN;
    return ASIM_FREE_LATER;
}

asim_free_result asim_tc_free_done(asim_policy_state *state, uint32_t block)
{
    if (state->blocks[block].state != ASIM_TC_PENDING || state->blocks[block].events ||
        state->blocks[block].uses) {
        asim_tc_fail(state, ASIM_E_BUG, "block %u can't complete: its free is not pending on the recording",
                     block);
        return ASIM_FREE_BROKEN;
    }
    asim_tc_complete(state, block);
    asim_tc_settle(state);
    return ASIM_FREED;
}

void asim_tc_use(asim_policy_state *state, uint32_t block, unsigned lane)
{
    asim_tc_use_add(state, block, lane); /* a failure is kept and reported by the next operation */
}

/* R61. */
asim_code asim_tc_trim(asim_policy_state *state, const asim_event *event, asim_err *err)
{
    for (unsigned i = 0; i < state->device_count; i++) {
        const asim_tc_device *device = &state->devices[i];
        uint16_t pool = state->release->trims_default ? 0 : active_pool(device);
        if (event->lane != ASIM_LANE_ALL) {
            if (state->lane_table[event->lane].device != i)
                continue;
            if (state->lane_table[event->lane].pool)
                pool = state->lane_table[event->lane].pool;
        }
        if (!asim_tc_release_all(state, i, pool))
            return fault_of(state, err);
    }
    asim_tc_settle(state);
    return state->broken ? fault_of(state, err) : ASIM_OK;
}

/* R10. */
static asim_code torchcache_settings(asim_policy_state *state, const char *text, asim_err *err)
{
    return asim_tc_options_replace(state->release, text, &state->options, err);
}

asim_code asim_tc_fraction(asim_policy_state *state, unsigned device, double fraction, asim_err *err)
{
    if (!(fraction >= 0 && fraction <= 1))
        return asim_fail(err, ASIM_E_INPUT, "a memory fraction of %g; it must be 0 to 1", fraction);
    set_limit(state, device, fraction);
    return ASIM_OK;
}

void asim_tc_reset_stats(asim_policy_state *state, unsigned device, bool peaks)
{
    asim_tc_device *d = &state->devices[device];
    for (size_t i = 1; i < d->group_count; i++)
        asim_tc_pair_reset(&d->groups[i]->reserved_bytes, peaks);
    if (peaks)
        asim_tc_stats_reset_peaks(&d->stats);
    else
        asim_tc_stats_reset_totals(&d->stats);
}

void asim_tc_report(const asim_policy_state *state, unsigned device,
                    void (*emit)(void *ctx, const char *name, int64_t value), void *ctx)
{
    const asim_tc_device *d = &state->devices[device];
    asim_tc_stats_report(&d->stats, state->release, emit, ctx);
    for (size_t i = 1; i < d->group_count && state->release->counts_rejections; i++) {
        const asim_tc_group *group = d->groups[i];
        char name[48];
        if (!group->has_obtained) /* R123: a pool that never got memory has no entry */
            continue;
        snprintf(name, sizeof name, "reserved_bytes_by_private_pools.0_%u", group->pool);
        asim_tc_pair_report(&group->reserved_bytes, name, emit, ctx);
    }
}

static size_t torchcache_refusal_text(const asim_policy_state *state, char *ret_text, size_t capacity)
{
    return asim_tc_refusal_text(state->release, &state->refusal, ret_text, capacity);
}

const asim_policy asim_policy_torchcache = {
    .version = ASIM_POLICY_VERSION,
    .flags = ASIM_POLICY_MODELS_TORCH,
    .name = "torchcache",
    .summary = "PyTorch's CUDA caching allocator, to the byte",
    .source = "PyTorch, backend native; releases: see the parameter torch",
    .state_size = sizeof(asim_policy_state),
    .params = {asim_tc_param_list, ASIM_TC_PARAMS, sizeof(asim_tc_params)},
    .init = torchcache_init,
    .alloc = asim_tc_alloc,
    .free = asim_tc_free,
    .check = asim_tc_check,
    .walk = asim_tc_walk,
    .fini = asim_tc_tables_fini,
    .adopt = asim_tc_adopt,
    .free_done = asim_tc_free_done,
    .use = asim_tc_use,
    .trim = asim_tc_trim,
    .pool = asim_tc_pool_event,
    .settings = torchcache_settings,
    .fraction = asim_tc_fraction,
    .reset_stats = asim_tc_reset_stats,
    .report = asim_tc_report,
    .refusal_text = torchcache_refusal_text,
};
