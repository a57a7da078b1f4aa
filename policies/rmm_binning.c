/* rmm-binning - RAPIDS's bins of fixed sizes over an upstream (rmm::mr::binning_memory_resource).
 *
 * What it models: RMM 26.06, cpp/include/rmm/mr/binning_memory_resource.hpp and
 * fixed_size_memory_resource.hpp with their detail/ and src/ files; https://github.com/rapidsai/rmm. The
 * exponents 18 and 22 are the example of its documentation; the resource itself has no default.
 *
 * How it works. There is a bin for each power of two from 2^min_size_exponent to 2^max_size_exponent bytes,
 * in 256 bytes at least. A request takes one block of the smallest bin that it fits into; larger ones go to
 * the upstream: the device itself, or rmm-pool's coalescing pool. A bin takes blocks_to_preallocate blocks
 * from the upstream at first, and as many again whenever none is free; it gives none back. With one exponent
 * only it is fixed_size_memory_resource.
 *
 *     300,000 bytes    bins   256 KiB [ ][ ][ ]..   512 KiB [x][ ][ ]..   .. 4 MiB [ ][ ][ ]..
 *     5,000,000 bytes  upstream
 *
 * Free blocks of a bin wait in a queue a stream, first in first out. A stream whose queue is empty takes from
 * the others', in the order of their first use, and waits for that stream on the device
 * (cudaStreamWaitEvent: no time is charged for it; bin_stream_waits counts them).
 *
 * A block that other streams use: RMM has no record_stream. Its users must order the free after all uses, and
 * here the block is held until the events of those uses have passed; they are looked at when the next request
 * begins, and waited for before a request fails.
 *
 * Ties: none in a queue; other streams in the order of their first use in the bin (RMM: by the address of
 * their event, which is not specified). Cost: O(1) for a request that its own stream can serve, else linear
 * in the streams; the upstream's for large ones.
 *
 * Left out: bins added one by one (add_bin), per-thread default streams, the mutex. All bins of a device take
 * their first blocks at the first request on it; where one can't, RMM's constructor throws, and here all is
 * given back, the request is refused and the next one tries again.
 */
#include "policies/registry.h"
#include "policies/rmm_bins.h"

#include <stddef.h>

enum {
    UPSTREAM_CUDA,
    UPSTREAM_POOL
};

typedef struct rmm_binning_params {
    uint64_t least, most, blocks, initial, maximum;
    int upstream;
} rmm_binning_params;

static const char *const upstreams[] = {"cuda", "pool", NULL};

static const asim_param params[] = {
    {.name = "min_size_exponent",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(rmm_binning_params, least),
     .default_text = "18",
     .min = 0,
     .max = 30,
     .none_allowed = true,
     .help = "the smallest bin has 2 to this power bytes (256 at least); none: no bins"},
    {.name = "max_size_exponent",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(rmm_binning_params, most),
     .default_text = "22",
     .min = 0,
     .max = 30,
     .none_allowed = true,
     .help = "the largest bin has 2 to this power bytes; none: no bins"},
    {.name = "blocks_to_preallocate",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(rmm_binning_params, blocks),
     .default_text = "128",
     .min = 1,
     .max = 65536,
     .help = "blocks that a bin begins with and grows by"},
    {.name = "upstream",
     .type = ASIM_PARAM_CHOICE,
     .offset = offsetof(rmm_binning_params, upstream),
     .default_text = "cuda",
     .choices = upstreams,
     .help = "where bins and larger requests take memory from: cuda (the device) or pool (rmm-pool's)"},
    {.name = "initial_pool_size",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(rmm_binning_params, initial),
     .default_text = "none",
     .min = 0,
     .max = ASIM_RMM_LARGEST,
     .none_allowed = true,
     .help = "of upstream=pool: as for rmm-pool"},
    {.name = "maximum_pool_size",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(rmm_binning_params, maximum),
     .default_text = "none",
     .min = ASIM_RMM_ALIGN,
     .max = ASIM_RMM_LARGEST,
     .none_allowed = true,
     .help = "of upstream=pool: as for rmm-pool"},
};

struct asim_policy_state {
    asim_policy_env env;
    asim_stream_uses uses;
    asim_rmm_upstream up;
    asim_rmm_bins bins;
};

static asim_code rmm_binning_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                                  asim_err *err)
{
    const rmm_binning_params *given = block;
    const bool plain = given->upstream == UPSTREAM_CUDA;
    const bool binned = given->least != ASIM_PARAM_NONE && given->most != ASIM_PARAM_NONE;
    const asim_rmm_upstream_config config = {
        .plain = plain, .initial = given->initial, .maximum = given->maximum};
    state->env = *env;
    if (plain && (given->initial != ASIM_PARAM_NONE || given->maximum != ASIM_PARAM_NONE))
        return asim_fail(err, ASIM_E_USAGE,
                         "rmm-binning: initial_pool_size and maximum_pool_size need upstream=pool");
    if (binned && given->least > given->most)
        return asim_fail(
            err, ASIM_E_USAGE,
            "rmm-binning: min_size_exponent (%llu) is above max_size_exponent (%llu): there would "
            "be no bins; say none for that",
            (unsigned long long)given->least, (unsigned long long)given->most);
    asim_code code = asim_uses_init(&state->uses, env, err);
    if (!code)
        code = asim_rmm_upstream_init(&state->up, env, &config, &state->uses, err);
    if (!code)
        code =
            asim_rmm_bins_init(&state->bins, env, binned ? (unsigned)given->least : 1,
                               binned ? (unsigned)given->most : 0, (uint32_t)given->blocks, &state->up, err);
    return code;
}

static void rmm_binning_fini(asim_policy_state *state)
{
    asim_rmm_bins_fini(&state->bins);
    asim_rmm_upstream_fini(&state->up);
    asim_uses_fini(&state->uses);
}

static bool is_broken(const asim_policy_state *state)
{
    return state->up.fault.code || state->bins.fault.code;
}

static void settle(asim_policy_state *state)
{
    const uint64_t slot = asim_rmm_bins_largest(&state->bins);
    const uint64_t block = state->up.config.plain ? 0 : asim_rb_largest(&state->up.rb);
    state->env.counters->largest_free_bytes = slot > block ? slot : block;
}

/* What is kept for a live or pending word, be it a slot or a block of the upstream. */
typedef struct owned {
    uint64_t *requested;
    uint32_t *uses;
    uint8_t *state;
    uint16_t lane;
} owned;

static owned owned_by(asim_policy_state *state, uint32_t word)
{
    if (word & 1) {
        asim_rmm_slot *slot = &state->bins.slots[word >> 1];
        return (owned){&slot->requested, &slot->uses, &slot->state, slot->lane};
    }
    asim_rb_block *block = &state->up.rb.blocks[word >> 1];
    return (owned){&block->requested, &block->uses, &block->state, block->lane};
}

static bool give(asim_policy_state *state, uint32_t word)
{
    if (!(word & 1))
        return asim_rmm_give(&state->up, word >> 1);
    asim_rmm_slot_give(&state->bins, word >> 1);
    return true;
}

static asim_placement placement_of(const asim_policy_state *state, uint32_t word)
{
    asim_placement placement = {.word = word};
    uint32_t block = word >> 1;
    if (word & 1) {
        placement.address = asim_rmm_slot_address(&state->bins, word >> 1);
        placement.size = asim_rmm_slot_size(&state->bins, word >> 1);
        block = state->bins.slabs[state->bins.slots[word >> 1].slab].block;
    } else {
        placement.address = state->up.rb.extents[block].address;
        placement.size = state->up.rb.extents[block].size;
    }
    placement.region = asim_rmm_region(&state->up, block);
    return placement;
}

/* The events of a pending free have passed. */
static void complete(void *ctx, uint32_t word)
{
    asim_policy_state *state = ctx;
    const asim_placement placement = placement_of(state, word);
    state->env.listener->free_done(state->env.listener->ctx, placement.address, placement.size,
                                   *owned_by(state, word).requested);
    give(state, word);
}

static asim_alloc_result refuse(asim_policy_state *state, unsigned device, uint64_t rounded, uint64_t asked)
{
    uint64_t free_bytes, total;
    state->env.device.ops->memory(state->env.device.ctx, device, &free_bytes, &total);
    settle(state);
    state->env.listener->refusal(state->env.listener->ctx, device, rounded, asked, free_bytes);
    return ASIM_REFUSED;
}

static asim_alloc_result take(asim_policy_state *state, const asim_event *event, uint64_t rounded,
                              uint32_t *ret_word, uint64_t *ret_asked)
{
    asim_rmm_bins *bins = &state->bins;
    const unsigned number = asim_rmm_bin_for(bins, event->size);
    uint32_t found = 0;
    asim_alloc_result result = ASIM_PLACED;
    if (!bins->open[state->env.lanes[event->lane].device])
        result = asim_rmm_bins_open(bins, event->lane, ret_asked);
    if (result != ASIM_PLACED)
        return result;
    if (number < bins->count) {
        result = asim_rmm_slot_take(bins, number, event->lane, &found, ret_asked);
        *ret_word = asim_rmm_slot_word(found);
        return result;
    }
    result = asim_rmm_take(&state->up, event->lane, rounded, &found, ret_asked);
    *ret_word = found << 1;
    return found > UINT32_MAX / 2 ? ASIM_BROKEN : result;
}

static asim_alloc_result rmm_binning_alloc(asim_policy_state *state, const asim_event *event,
                                           asim_placement *ret_placement)
{
    const unsigned device = state->env.lanes[event->lane].device;
    if (is_broken(state))
        return ASIM_BROKEN;
    if (event->size == 0)
        return ASIM_NOTHING;
    if (asim_uses_pending(&state->uses))
        asim_uses_poll(&state->uses, false, complete, state);
    if (event->size > ASIM_RMM_LARGEST)
        return refuse(state, device, event->size, event->size);
    uint64_t rounded = event->size, asked = 0;
    if (!state->up.config.plain || asim_rmm_bin_for(&state->bins, event->size) < state->bins.count)
        rounded = (rounded + ASIM_RMM_ALIGN - 1) / ASIM_RMM_ALIGN * ASIM_RMM_ALIGN;
    uint32_t word;
    asim_alloc_result result = take(state, event, rounded, &word, &asked);
    if (result == ASIM_REFUSED && asim_uses_pending(&state->uses)) {
        state->env.counters->sync_waits++;
        asim_uses_poll(&state->uses, true, complete, state);
        if (is_broken(state))
            return ASIM_BROKEN;
        result = take(state, event, rounded, &word, &asked);
    }
    if (result != ASIM_PLACED)
        return result == ASIM_REFUSED ? refuse(state, device, rounded, asked) : result;
    *owned_by(state, word).requested = event->size;
    settle(state);
    *ret_placement = placement_of(state, word);
    ret_placement->rounded = rounded;
    return ASIM_PLACED;
}

static asim_free_result rmm_binning_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    if (is_broken(state))
        return ASIM_FREE_BROKEN;
    const owned own = owned_by(state, word);
    if (completion_follows) {
        asim_uses_forget(&state->uses, own.uses);
        *own.state = ASIM_BLOCK_PENDING;
        return ASIM_FREE_LATER;
    }
    if (*own.uses) {
        *own.state = ASIM_BLOCK_PENDING;
        return asim_uses_wait(&state->uses, own.uses, word, &state->up.fault) ? ASIM_FREE_BROKEN
                                                                              : ASIM_FREE_LATER;
    }
    if (!give(state, word))
        return ASIM_FREE_BROKEN;
    settle(state);
    return ASIM_FREED;
}

static asim_free_result rmm_binning_free_done(asim_policy_state *state, uint32_t word)
{
    if (!give(state, word))
        return ASIM_FREE_BROKEN;
    settle(state);
    return ASIM_FREED;
}

static void rmm_binning_use(asim_policy_state *state, uint32_t word, unsigned lane)
{
    const owned own = owned_by(state, word);
    asim_uses_add(&state->uses, own.uses, own.lane, lane, &state->up.fault);
}

static asim_code rmm_binning_check(const asim_policy_state *state, asim_err *err)
{
    asim_code code = asim_rmm_upstream_check(&state->up, err);
    return code ? code : asim_rmm_bins_check(&state->bins, err);
}

/* A block of the upstream that is none of a bin's goes by an even word. */
static bool show(const void *ctx, uint32_t block, const asim_walker *walker)
{
    const asim_policy_state *state = ctx;
    if (asim_rmm_bins_show(&state->bins, block, walker))
        return true;
    const asim_walk_block shown = {.address = state->up.rb.extents[block].address,
                                   .size = state->up.rb.extents[block].size,
                                   .requested = state->up.rb.blocks[block].requested,
                                   .word = block << 1,
                                   .state = (asim_block_state)state->up.rb.blocks[block].state};
    walker->block(walker->ctx, &shown);
    return true;
}

static void rmm_binning_walk(const asim_policy_state *state, const asim_walker *walker)
{
    asim_rb_walk(&state->up.rb, walker, show, state);
}

static void rmm_binning_metrics(const asim_policy_state *state,
                                void (*emit)(void *ctx, const char *name, uint64_t value), void *ctx)
{
    emit(ctx, "bin_stream_waits", state->bins.stream_waits);
    emit(ctx, "bin_blocks", state->bins.slot_count ? state->bins.slot_count - 1 : 0);
    emit(ctx, "pool_stream_waits", state->up.stream_waits);
    emit(ctx, "pool_list_merges", state->up.merges);
}

const asim_policy asim_policy_rmm_binning = {
    .version = ASIM_POLICY_VERSION,
    .name = "rmm-binning",
    .summary = "RAPIDS's bins of fixed sizes over the device or a pool",
    .source = "RMM 26.06, rmm::mr::binning_memory_resource",
    .state_size = sizeof(asim_policy_state),
    .params = {params, sizeof params / sizeof params[0], sizeof(rmm_binning_params)},
    .init = rmm_binning_init,
    .alloc = rmm_binning_alloc,
    .free = rmm_binning_free,
    .check = rmm_binning_check,
    .walk = rmm_binning_walk,
    .fini = rmm_binning_fini,
    .free_done = rmm_binning_free_done,
    .use = rmm_binning_use,
    .metrics = rmm_binning_metrics,
};
