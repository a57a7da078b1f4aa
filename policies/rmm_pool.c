/* rmm-pool - the coalescing best-fit pool of RAPIDS (rmm::mr::pool_memory_resource), one a device.
 *
 * What it models: RMM 26.06, cpp/include/rmm/mr/pool_memory_resource.hpp with its detail/ files
 * stream_ordered_memory_resource.hpp and coalescing_free_list.hpp, over cudaMalloc;
 * https://github.com/rapidsai/rmm. The initial size is that of its Python class: half of the free memory.
 *
 * How it works. Requests are rounded up to 256 bytes. Each stream has a free list; what is freed goes to the
 * list of the stream it was allocated on and merges with its neighbours there, never with what another stream
 * freed, nor beyond a region. A request takes the best fit of its own stream's list; else of another
 * stream's, which it then has to wait for on the device; else it merges the other lists into its own, one by
 * one, until there is a fit; else the pool grows. A block is always split to size.
 *
 *     list 1    [  free  ]      [ free ]             stream 1 asks for more than either:
 *     list 2              [free]                     2 is merged into 1,
 *     list 1    [          free          ]           and gives way to one block
 *
 *     growth    without a maximum: as much as the pool holds; with one: half of what is left of it; at least
 *               the request. Where the device refuses, half of that, and so on down to the request.
 *
 * The pool never shrinks. Another stream's wait is cudaStreamWaitEvent: it orders the streams on the device
 * and costs the host nothing, so no time is charged for it; pool_stream_waits counts them.
 *
 * A block that other streams use: RMM has no record_stream. Its users must order the free after all uses, and
 * here the block is held until the events of those uses have passed; they are looked at when the next request
 * begins, and waited for before a request fails.
 *
 * Ties: best fit by (size, address); other streams in the order of their first use (RMM: by the address of
 * their event, which is not specified). Cost: O(1) for the usual request and free, O(log n) when n free
 * blocks of one list have nearly the same size; a request that its own list can't serve is linear in the
 * streams, and a merge in the blocks moved.
 *
 * Left out: upstreams other than cudaMalloc, per-thread default streams (a lane's stream is a stream), the
 * mutex. The pool is created at the first request on its device; where that fails, RMM's constructor throws,
 * and here the request is refused and the next one tries again.
 */
#include "policies/registry.h"
#include "policies/rmm_upstream.h"

#include <stddef.h>

typedef struct rmm_pool_params {
    uint64_t initial, maximum;
} rmm_pool_params;

static const asim_param params[] = {
    {.name = "initial_pool_size",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(rmm_pool_params, initial),
     .default_text = "none",
     .min = 0,
     .max = ASIM_RMM_LARGEST,
     .none_allowed = true,
     .help = "bytes taken at first, a multiple of 256; none: half of the free device memory"},
    {.name = "maximum_pool_size",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(rmm_pool_params, maximum),
     .default_text = "none",
     .min = ASIM_RMM_ALIGN,
     .max = ASIM_RMM_LARGEST,
     .none_allowed = true,
     .help = "bytes the pool may grow to, a multiple of 256; none: all that the device gives"},
};

struct asim_policy_state {
    asim_policy_env env;
    asim_stream_uses uses;
    asim_rmm_upstream pool;
};

static asim_code rmm_pool_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                               asim_err *err)
{
    const rmm_pool_params *given = block;
    const asim_rmm_upstream_config config = {.initial = given->initial, .maximum = given->maximum};
    state->env = *env;
    asim_code code = asim_uses_init(&state->uses, env, err);
    return code ? code : asim_rmm_upstream_init(&state->pool, env, &config, &state->uses, err);
}

static void rmm_pool_fini(asim_policy_state *state)
{
    asim_rmm_upstream_fini(&state->pool);
    asim_uses_fini(&state->uses);
}

static void settle(asim_policy_state *state)
{
    state->env.counters->largest_free_bytes = asim_rb_largest(&state->pool.rb);
}

/* The events of a pending free have passed. */
static void complete(void *ctx, uint32_t word)
{
    asim_policy_state *state = ctx;
    const asim_extent *extent = &state->pool.rb.extents[word];
    state->env.listener->free_done(state->env.listener->ctx, extent->address, extent->size,
                                   state->pool.rb.blocks[word].requested);
    asim_rmm_give(&state->pool, word);
}

static asim_alloc_result refuse(asim_policy_state *state, unsigned device, uint64_t rounded, uint64_t asked)
{
    uint64_t free_bytes, total;
    state->env.device.ops->memory(state->env.device.ctx, device, &free_bytes, &total);
    settle(state);
    state->env.listener->refusal(state->env.listener->ctx, device, rounded, asked, free_bytes);
    return ASIM_REFUSED;
}

static asim_alloc_result rmm_pool_alloc(asim_policy_state *state, const asim_event *event,
                                        asim_placement *ret_placement)
{
    const unsigned device = state->env.lanes[event->lane].device;
    asim_rmm_upstream *pool = &state->pool;
    if (pool->fault.code)
        return ASIM_BROKEN;
    if (event->size == 0)
        return ASIM_NOTHING;
    if (asim_uses_pending(&state->uses))
        asim_uses_poll(&state->uses, false, complete, state);
    if (event->size > ASIM_RMM_LARGEST)
        return refuse(state, device, event->size, event->size);
    const uint64_t rounded = (event->size + ASIM_RMM_ALIGN - 1) / ASIM_RMM_ALIGN * ASIM_RMM_ALIGN;
    uint32_t block;
    uint64_t asked;
    asim_alloc_result result = asim_rmm_take(pool, event->lane, rounded, &block, &asked);
    if (result == ASIM_REFUSED && asim_uses_pending(&state->uses)) {
        state->env.counters->sync_waits++;
        asim_uses_poll(&state->uses, true, complete, state);
        result = asim_rmm_take(pool, event->lane, rounded, &block, &asked);
    }
    if (result != ASIM_PLACED)
        return result == ASIM_REFUSED ? refuse(state, device, rounded, asked) : result;
    pool->rb.blocks[block].requested = event->size;
    settle(state);
    *ret_placement = (asim_placement){.address = pool->rb.extents[block].address,
                                      .size = pool->rb.extents[block].size,
                                      .rounded = rounded,
                                      .region = asim_rmm_region(pool, block),
                                      .word = block};
    return ASIM_PLACED;
}

static asim_free_result rmm_pool_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    asim_rb_block *block = &state->pool.rb.blocks[word];
    if (state->pool.fault.code)
        return ASIM_FREE_BROKEN;
    if (completion_follows) {
        asim_uses_forget(&state->uses, &block->uses);
        block->state = ASIM_BLOCK_PENDING;
        return ASIM_FREE_LATER;
    }
    if (block->uses) {
        block->state = ASIM_BLOCK_PENDING;
        return asim_uses_wait(&state->uses, &block->uses, word, &state->pool.fault) ? ASIM_FREE_BROKEN
                                                                                    : ASIM_FREE_LATER;
    }
    asim_rmm_give(&state->pool, word);
    settle(state);
    return ASIM_FREED;
}

static asim_free_result rmm_pool_free_done(asim_policy_state *state, uint32_t word)
{
    asim_rmm_give(&state->pool, word);
    settle(state);
    return ASIM_FREED;
}

static void rmm_pool_use(asim_policy_state *state, uint32_t word, unsigned lane)
{
    asim_rb_block *block = &state->pool.rb.blocks[word];
    asim_uses_add(&state->uses, &block->uses, block->lane, lane, &state->pool.fault);
}

static asim_code rmm_pool_check(const asim_policy_state *state, asim_err *err)
{
    return asim_rmm_upstream_check(&state->pool, err);
}

static void rmm_pool_walk(const asim_policy_state *state, const asim_walker *walker)
{
    asim_rb_walk(&state->pool.rb, walker, NULL, NULL);
}

static void rmm_pool_metrics(const asim_policy_state *state,
                             void (*emit)(void *ctx, const char *name, uint64_t value), void *ctx)
{
    emit(ctx, "pool_stream_waits", state->pool.stream_waits);
    emit(ctx, "pool_list_merges", state->pool.merges);
}

const asim_policy asim_policy_rmm_pool = {
    .version = ASIM_POLICY_VERSION,
    .name = "rmm-pool",
    .summary = "RAPIDS's coalescing best-fit pool with a free list a stream",
    .source = "RMM 26.06, rmm::mr::pool_memory_resource",
    .state_size = sizeof(asim_policy_state),
    .params = {params, sizeof params / sizeof params[0], sizeof(rmm_pool_params)},
    .init = rmm_pool_init,
    .alloc = rmm_pool_alloc,
    .free = rmm_pool_free,
    .check = rmm_pool_check,
    .walk = rmm_pool_walk,
    .fini = rmm_pool_fini,
    .free_done = rmm_pool_free_done,
    .use = rmm_pool_use,
    .metrics = rmm_pool_metrics,
};
