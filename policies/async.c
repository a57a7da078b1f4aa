/* async - cudaMallocAsync and cudaFreeAsync: the stream-ordered pool of the CUDA driver, one a device.
 *
 * What it models: the device's default memory pool as NVIDIA documents it: CUDA Programming Guide,
 * "Stream-Ordered Memory Allocator", and CUDA Runtime API, "Stream Ordered Memory Allocator" (release 13.0),
 * https://docs.nvidia.com/cuda/. And the way PyTorch uses it (backend:cudaMallocAsync): a block that other
 * streams used is freed in an order after all of them; emptying the cache synchronises and trims to nothing.
 *
 * How it works. What a stream freed it may have again at once. Another stream may have it
 *
 *     once the host has synchronised with the freeing stream                 always
 *     if it was made to wait for that stream after the free                  follow_event_dependencies
 *     if the free is found to have been reached                              allow_opportunistic
 *     by being made to wait, where the device gives no more memory           allow_internal_dependencies
 *
 *     request   own list -> open list -> event dependencies -> completed frees -> new region
 *               refused: give back unused regions, new region -> internal dependencies -> wait for all uses
 *
 * At each synchronisation, of a stream or a device, the pool gives unused regions back until it holds no more
 * than release_threshold. A trim (empty_cache) waits for the device and gives back all it can.
 *
 * What the closed driver does not tell, and what is assumed here:
 *   - Memory is taken from the device in regions of granularity bytes or a multiple of it. 32 MiB: the
 * reserved 84490059776 bytes that are reported in RMM's issue 1245 are 2518 times that.
 *   - Blocks are multiples of 256 bytes; best fit by (size, address), the rest of a block is split off.
 *   - Free neighbours merge where the same streams may have them; a merged block is as young as its youngest
 * part.
 *   - Its blog says that the driver remaps unused memory where the pool is fragmented. Here unused regions
 * are given back before a new one is refused for good, which comes to the same in bytes; parts of regions
 * stay.
 *   - A trace has no waits between streams. That stream B uses a block of A (record_stream) is taken to say
 * that B waits for what A was given so far, as it must have for the block's contents.
 *   - Which frees have been reached is told by device events, for up to 256 frees of a stream; their host
 * time is charged. Inserted dependencies cost the host nothing, and no time is charged for them.
 *
 * Ties: streams in the order of the lanes that name them first; regions are given back from the highest
 * address down. Cost: O(1) for a request that its own stream's or the open list serves, and for a free; else
 * linear in the streams; a release is linear in the regions.
 *
 * Left out: pools besides the default one, graph memory nodes, sharing between processes, preferred
 * locations. Where a recording says when a free was complete, the block is freed on its own stream then.
 */
#include "policies/async_pool.h"
#include "policies/registry.h"

#include <stddef.h>

typedef struct async_params {
    uint64_t threshold, granularity, max_size, align;
    bool follow, opportunistic, internal;
} async_params;

static const asim_param params[] = {
    {.name = "release_threshold",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(async_params, threshold),
     .default_text = "0",
     .min = 0,
     .max = UINT64_MAX / 2,
     .none_allowed = true,
     .help = "bytes the pool holds on to at a synchronisation; none: all"},
    {.name = "follow_event_dependencies",
     .type = ASIM_PARAM_BOOL,
     .offset = offsetof(async_params, follow),
     .default_text = "true",
     .help = "a stream may have what others freed before it was made to wait for them"},
    {.name = "allow_opportunistic",
     .type = ASIM_PARAM_BOOL,
     .offset = offsetof(async_params, opportunistic),
     .default_text = "true",
     .help = "a stream may have what others freed once those frees are found to be reached"},
    {.name = "allow_internal_dependencies",
     .type = ASIM_PARAM_BOOL,
     .offset = offsetof(async_params, internal),
     .default_text = "true",
     .help = "a stream is made to wait for another's free where the device gives no more memory"},
    {.name = "granularity",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(async_params, granularity),
     .default_text = "32MiB",
     .min = UINT64_C(1) << 16,
     .max = UINT64_C(1) << 40,
     .help = "the pool takes memory in multiples of this many bytes (assumed)"},
    {.name = "max_size",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(async_params, max_size),
     .default_text = "none",
     .min = UINT64_C(1) << 16,
     .max = UINT64_MAX / 2,
     .none_allowed = true,
     .help = "bytes the pool holds at most (cudaMemPoolProps.maxSize); none: what the device gives"},
    {.name = "align",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(async_params, align),
     .default_text = "256",
     .min = 1,
     .max = UINT64_C(1) << 16,
     .help = "blocks are multiples of this many bytes (assumed)"},
};

struct asim_policy_state {
    asim_policy_env env;
    async_params params;
    asim_stream_uses uses;
    asim_async_pool pool;
    uint64_t event_reuses, opportunistic_reuses, internal_reuses, released;
};

static asim_code async_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                            asim_err *err)
{
    state->env = *env;
    state->params = *(const async_params *)block;
    const async_params *given = &state->params;
    if (given->max_size != ASIM_PARAM_NONE && given->max_size < given->granularity)
        return asim_fail(err, ASIM_E_USAGE,
                         "max_size (%llu bytes) is below granularity (%llu): the pool could hold nothing",
                         (unsigned long long)given->max_size, (unsigned long long)given->granularity);
    if (given->granularity % given->align)
        return asim_fail(err, ASIM_E_USAGE, "granularity (%llu bytes) must be a multiple of align (%llu)",
                         (unsigned long long)given->granularity, (unsigned long long)given->align);
    asim_code code = asim_uses_init(&state->uses, env, err);
    return code ? code : asim_async_init(&state->pool, env, &state->uses, err);
}

static void async_fini(asim_policy_state *state)
{
    asim_async_fini(&state->pool);
    asim_uses_fini(&state->uses);
}

static void settle(asim_policy_state *state)
{
    state->env.counters->largest_free_bytes = asim_rb_largest(&state->pool.rb);
}

static asim_code fault_of(const asim_policy_state *state, asim_err *err)
{
    const asim_err *fault = &state->pool.fault;
    return fault->code ? asim_fail(err, fault->code, "%s", fault->message) : ASIM_OK;
}

/* The uses of a block by other streams have passed: it is freed on its own. */
static void complete(void *ctx, uint32_t word)
{
    asim_policy_state *state = ctx;
    const asim_extent *extent = &state->pool.rb.extents[word];
    state->env.listener->free_done(state->env.listener->ctx, extent->address, extent->size,
                                   state->pool.rb.blocks[word].requested);
    asim_async_give(&state->pool, word);
}

/* New memory, within max_size. */
static uint32_t grow(asim_policy_state *state, unsigned lane, uint64_t size)
{
    const uint64_t step = state->params.granularity, held = (size + step - 1) / step * step;
    const uint64_t now = state->pool.devices[state->env.lanes[lane].device].size;
    uint32_t block = 0;
    if (state->params.max_size == ASIM_PARAM_NONE ||
        (held <= state->params.max_size && now <= state->params.max_size - held))
        asim_async_grow(&state->pool, lane, held, size, &block);
    return block;
}

static uint32_t reuse(asim_policy_state *state, uint32_t stream, uint64_t size)
{
    asim_async_pool *pool = &state->pool;
    uint32_t block = asim_async_own(pool, stream, size);
    if (!block && !pool->fault.code)
        block = asim_async_open(pool, stream, size);
    if (!block && !pool->fault.code && state->params.follow) {
        block = asim_async_seen(pool, stream, size);
        state->event_reuses += block != 0;
    }
    if (!block && !pool->fault.code && state->params.opportunistic &&
        pool->devices[state->env.lanes[stream].device].shared) {
        asim_async_poll(pool, state->env.lanes[stream].device);
        block = asim_async_open(pool, stream, size);
        state->opportunistic_reuses += block != 0;
    }
    return block;
}

/* Unused regions go, and a new one is asked for. */
static uint32_t regrow(asim_policy_state *state, unsigned lane, uint64_t size)
{
    const uint64_t released = asim_async_release(&state->pool, state->env.lanes[lane].device, 0);
    state->released += released;
    return released && !state->pool.fault.code ? grow(state, lane, size) : 0;
}

/* The device has refused: give back, depend, wait. */
static uint32_t last_resort(asim_policy_state *state, unsigned lane, uint32_t stream, uint64_t size)
{
    asim_async_pool *pool = &state->pool;
    const unsigned device = state->env.lanes[lane].device;
    uint32_t block = regrow(state, lane, size);
    if (block || pool->fault.code || !state->params.internal)
        return block;
    if (!(block = asim_async_any(pool, stream, size)) && !pool->fault.code) {
        asim_async_open_all(pool, device);
        block = asim_async_open(pool, stream, size);
    }
    if (!block && !pool->fault.code)
        block = regrow(state, lane, size);
    state->internal_reuses += block != 0;
    if (block || pool->fault.code || !asim_uses_pending(&state->uses))
        return block;
    state->env.counters->sync_waits++;
    asim_uses_poll(&state->uses, true, complete, state);
    asim_async_open_all(pool, device);
    if (!pool->fault.code)
        block = asim_async_open(pool, stream, size);
    return block || pool->fault.code ? block : regrow(state, lane, size);
}

static asim_alloc_result refuse(asim_policy_state *state, unsigned device, uint64_t size)
{
    uint64_t free_bytes, total;
    state->env.device.ops->memory(state->env.device.ctx, device, &free_bytes, &total);
    settle(state);
    state->env.listener->refusal(state->env.listener->ctx, device, size, size, free_bytes);
    return ASIM_REFUSED;
}

static asim_alloc_result async_alloc(asim_policy_state *state, const asim_event *event,
                                     asim_placement *ret_placement)
{
    asim_async_pool *pool = &state->pool;
    const unsigned device = state->env.lanes[event->lane].device;
    const uint32_t stream = asim_stream_of(&state->uses, event->lane);
    if (pool->fault.code)
        return ASIM_BROKEN;
    if (event->size == 0)
        return ASIM_NOTHING;
    if (event->size >= UINT64_C(1) << 60)
        return refuse(state, device, event->size);
    const uint64_t align = state->params.align, size = (event->size + align - 1) / align * align;
    if (state->params.opportunistic && asim_uses_pending(&state->uses))
        asim_uses_poll(&state->uses, false, complete, state);
    uint32_t block = reuse(state, stream, size);
    if (!block && !pool->fault.code)
        block = grow(state, event->lane, size);
    if (!block && !pool->fault.code)
        block = last_resort(state, event->lane, stream, size);
    if (pool->fault.code)
        return ASIM_BROKEN;
    if (!block)
        return refuse(state, device, size);
    pool->rb.blocks[block].requested = event->size;
    settle(state);
    *ret_placement = (asim_placement){.address = pool->rb.extents[block].address,
                                      .size = size,
                                      .rounded = size,
                                      .region = pool->rb.regions[pool->rb.blocks[block].region].index,
                                      .word = block};
    return ASIM_PLACED;
}

static asim_free_result async_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    asim_rb_block *block = &state->pool.rb.blocks[word];
    if (state->pool.fault.code)
        return ASIM_FREE_BROKEN;
    if (completion_follows || block->uses)
        block->state = ASIM_BLOCK_PENDING;
    if (completion_follows)
        asim_uses_forget(&state->uses, &block->uses);
    else if (block->uses && asim_uses_wait(&state->uses, &block->uses, word, &state->pool.fault))
        return ASIM_FREE_BROKEN;
    if (block->state == ASIM_BLOCK_PENDING)
        return ASIM_FREE_LATER;
    const bool given = asim_async_give(&state->pool, word);
    settle(state);
    return given ? ASIM_FREED : ASIM_FREE_BROKEN;
}

static asim_free_result async_free_done(asim_policy_state *state, uint32_t word)
{
    const bool given = asim_async_give(&state->pool, word);
    settle(state);
    return given ? ASIM_FREED : ASIM_FREE_BROKEN;
}

static void async_use(asim_policy_state *state, uint32_t word, unsigned lane)
{
    asim_rb_block *block = &state->pool.rb.blocks[word];
    asim_uses_add(&state->uses, &block->uses, block->lane, lane, &state->pool.fault);
    if (state->params.follow)
        asim_async_follow(&state->pool, asim_stream_of(&state->uses, lane),
                          asim_stream_of(&state->uses, block->lane));
}

/* What the synchronisation guarantees to be complete is opened; then memory above the threshold is released.
 */
static asim_code async_sync(asim_policy_state *state, const asim_event *event, asim_err *err)
{
    asim_async_pool *pool = &state->pool;
    const asim_sync_scope scope = (asim_sync_scope)event->id;
    if (pool->fault.code)
        return fault_of(state, err);
    if (asim_uses_pending(&state->uses))
        asim_uses_poll(&state->uses, false, complete, state);
    const unsigned device = scope == ASIM_SYNC_ALL ? 0 : state->env.lanes[event->lane].device;
    if (scope == ASIM_SYNC_STREAM)
        asim_async_done(pool, asim_stream_of(&state->uses, event->lane));
    for (uint32_t i = 0; scope != ASIM_SYNC_STREAM && i < state->env.lane_count; i++)
        if (scope == ASIM_SYNC_ALL || state->env.lanes[i].device == device)
            asim_async_done(pool, i);
    for (unsigned d = 0; d < state->env.device_count; d++)
        if ((scope == ASIM_SYNC_ALL || d == device) && state->params.threshold != ASIM_PARAM_NONE &&
            pool->devices[d].size > state->params.threshold)
            state->released += asim_async_release(pool, d, state->params.threshold);
    settle(state);
    return fault_of(state, err);
}

static asim_code async_trim(asim_policy_state *state, const asim_event *event, asim_err *err)
{
    const asim_device *table = &state->env.device;
    if (state->pool.fault.code)
        return fault_of(state, err);
    state->env.counters->cache_flushes++;
    for (unsigned d = 0; d < state->env.device_count; d++) {
        if (event->lane != ASIM_LANE_ALL && state->env.lanes[event->lane].device != d)
            continue;
        table->ops->device_wait(table->ctx, d);
        asim_uses_poll(&state->uses, false, complete, state);
        for (uint32_t i = 0; i < state->env.lane_count; i++)
            if (state->env.lanes[i].device == d)
                asim_async_done(&state->pool, i);
        state->released += asim_async_release(&state->pool, d, 0);
    }
    settle(state);
    return fault_of(state, err);
}

static asim_code async_check(const asim_policy_state *state, asim_err *err)
{
    return asim_async_check(&state->pool, err);
}

static void async_walk(const asim_policy_state *state, const asim_walker *walker)
{
    asim_rb_walk(&state->pool.rb, walker, NULL, NULL);
}

static void async_metrics(const asim_policy_state *state,
                          void (*emit)(void *ctx, const char *name, uint64_t value), void *ctx)
{
    emit(ctx, "pool_event_reuses", state->event_reuses);
    emit(ctx, "pool_opportunistic_reuses", state->opportunistic_reuses);
    emit(ctx, "pool_internal_reuses", state->internal_reuses);
    emit(ctx, "pool_released_bytes", state->released);
}

const asim_policy asim_policy_async = {
    .version = ASIM_POLICY_VERSION,
    .name = "async",
    .summary = "cudaMallocAsync: the CUDA driver's stream-ordered pool",
    .source = "CUDA 13.0, stream-ordered memory allocator, as documented",
    .state_size = sizeof(asim_policy_state),
    .params = {params, sizeof params / sizeof params[0], sizeof(async_params)},
    .init = async_init,
    .alloc = async_alloc,
    .free = async_free,
    .check = async_check,
    .walk = async_walk,
    .fini = async_fini,
    .free_done = async_free_done,
    .use = async_use,
    .sync = async_sync,
    .trim = async_trim,
    .metrics = async_metrics,
};
