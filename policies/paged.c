/* paged - the KV block pool of PagedAttention, as vLLM has it, before a policy that serves all the rest.
 *
 * What it models: Kwon et al., "Efficient Memory Management for Large Language Model Serving with
 * PagedAttention", SOSP 2023, sections 4.1 to 4.4 (https://arxiv.org/abs/2309.06180), and the block manager
 * of vLLM (SelfAttnBlockSpaceManager with the naive block allocator, releases 0.6 to 0.9;
 * https://github.com/vllm-project/vllm, vllm/core/block_manager.py and vllm/core/block/). block_tokens=16 and
 * utilization=0.9 are vLLM's defaults, of block_size and gpu_memory_utilization. A token's bytes are
 * 2 (key and value) x layers x KV heads x head size x bytes an element; the default of token_bytes is the
 * paper's example, OPT-13B: 2 x 40 layers x 5120 x 2 bytes = 800 KiB.
 *
 * How it works. A KV cache is a request with the flag ASIM_ALLOC_GROWS. It is made of blocks of equal size
 * out of one pool a device, which is taken at the device's first such request (vLLM: after the weights are
 * loaded). They lie anywhere; the cache's block table lists them. Where a RESIZE makes the cache larger than
 * its last block holds, it takes one block more; nothing moves, and less than one block a cache is wasted.
 * A cache that follows a PREFIX shares that prefix's blocks, each of which counts its references. Full blocks
 * are never written again. A block that the prefix fills in part is shared as well, until one of its users
 * writes behind the prefix: with more than one reference, it copies the block first.
 *
 *     table of A    0  1  4          pool   | A B | A B | B   | free | A   | free ..
 *     table of B    0  1  2                    0     1     2           4
 *
 * Everything that doesn't grow goes to the policy named by rest.
 *
 * Ties: a block given back last is taken first (the last block of a table that ends before the others of that
 * table); blocks never used, in address order, when none was given back. Cost: O(1) for a step of growth and
 * for each block of a cache that begins or ends; a cache that shares a prefix looks at all blocks of the
 * other one, too.
 *
 * What the numbers say. The pool is all of peak_reserved_bytes that KV caches take, full or not: its use is
 * told by peak_kv_blocks (in use at once), peak_shared_blocks (of those, with more than one reference),
 * block_copies and peak_tail_waste_bytes (room left in the last blocks, a sum over caches). A free block
 * counts as one free block, though any number of them will serve any cache: external_frag_ppm says nothing
 * here. requested_bytes counts a shared prefix once for each of its users.
 *
 * Left out: preemption by swapping or recomputing (a request that finds no block is refused), the watermark
 * of 1 % that vLLM keeps free for it, prefix caching by hash (only what a PREFIX names is shared), sliding
 * windows. Blocks are free when the cache is, or at its recorded completion: vLLM frees between two steps, so
 * uses by other streams hold nothing back.
 */
#include "policies/inner.h"
#include "policies/paged_pool.h"
#include "policies/registry.h"

#include <stddef.h>
#include <string.h>

typedef struct paged_params {
    uint64_t block_tokens, token_bytes, block_bytes, pool;
    double utilization;
    char rest[ASIM_PARAM_TEXT_MAX];
} paged_params;

enum {
    BLOCK_TOKENS = 16,
    TOKEN_BYTES = 2 * 40 * 5120 * 2
};

static const asim_param params[] = {
    {.name = "block_tokens",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(paged_params, block_tokens),
     .default_text = "16",
     .min = 1,
     .max = 65536,
     .help = "tokens that a block holds (vLLM: block_size)"},
    {.name = "token_bytes",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(paged_params, token_bytes),
     .default_text = "none",
     .min = 1,
     .max = UINT64_C(1) << 30,
     .none_allowed = true,
     .help = "KV bytes of a token: 2 x layers x KV heads x head size x bytes an element; none: 800 KiB"},
    {.name = "block_bytes",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(paged_params, block_bytes),
     .default_text = "none",
     .min = 1,
     .max = UINT64_C(1) << 40,
     .none_allowed = true,
     .help = "bytes of a block, instead of block_tokens and token_bytes"},
    {.name = "pool",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(paged_params, pool),
     .default_text = "none",
     .min = 1,
     .max = UINT64_C(1) << 60,
     .none_allowed = true,
     .help = "bytes of the pool of blocks on each device, rounded down to blocks; none: by utilization"},
    {.name = "utilization",
     .type = ASIM_PARAM_REAL,
     .offset = offsetof(paged_params, utilization),
     .default_text = "0.9",
     .real_min = 0.01,
     .real_max = 1,
     .help = "the pool takes what is missing to this share of the device's memory (gpu_memory_utilization)"},
    {.name = "rest",
     .type = ASIM_PARAM_TEXT,
     .offset = offsetof(paged_params, rest),
     .default_text = "torchcache",
     .help = "policy of everything that does not grow: NAME or [NAME,key=value,...]"},
};

typedef struct cache {
    uint64_t size; /* bytes asked for; of a spare record: unused */
    asim_paged_table table;
    uint32_t own; /* blocks of the table that it took itself, at most */
    uint16_t device;
    uint8_t state; /* asim_block_state */
} cache;

struct asim_policy_state {
    asim_inner inner; /* first: see ASIM_INNER_TABLE */
    asim_policy_env env;
    uint64_t block_bytes, pool_bytes;
    double utilization;
    asim_paged_pool *pools; /* one a device */
    asim_paged_totals totals;
    cache *caches; /* [0] is none; words are twice their index */
    size_t capacity;
    uint32_t count, spare; /* spare ones are linked by table.last */
    uint32_t prefix_of;    /* the cache that the next one shares a prefix with, or 0 */
    uint64_t prefix_bytes;
    uint64_t tail_waste, peak_tail_waste;
    bool refused; /* the latest request that was refused is one for a KV cache, not the inner policy's */
    asim_err fault;
};

/* --- setting up --- */

static asim_code choose_block(asim_policy_state *state, const paged_params *given, asim_err *err)
{
    if (given->block_bytes != ASIM_PARAM_NONE) {
        if (given->token_bytes != ASIM_PARAM_NONE || given->block_tokens != BLOCK_TOKENS)
            return asim_fail(err, ASIM_E_USAGE,
                             "paged: block_bytes excludes block_tokens and token_bytes; give either");
        state->block_bytes = given->block_bytes;
        return ASIM_OK;
    }
    uint64_t token = given->token_bytes == ASIM_PARAM_NONE ? TOKEN_BYTES : given->token_bytes;
    state->block_bytes = given->block_tokens * token;
    return ASIM_OK;
}

static asim_code paged_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                            asim_err *err)
{
    const paged_params *given = block;
    state->env = *env;
    state->pool_bytes = given->pool;
    state->utilization = given->utilization;
    asim_code code = choose_block(state, given, err);
    if (!code && given->pool < state->block_bytes)
        code = asim_fail(err, ASIM_E_USAGE,
                         "paged: pool=%llu bytes holds no block of %llu (block_tokens x token_bytes)",
                         (unsigned long long)given->pool, (unsigned long long)state->block_bytes);
    if (!code)
        code = asim_inner_init(&state->inner, "rest", given->rest, env, err);
    if (code)
        return code;
    if (!(state->pools = asim_mem_new(env->memory, env->device_count, sizeof *state->pools)))
        return asim_fail_memory(err, env->device_count * sizeof *state->pools);
    for (uint32_t d = 0; d < env->device_count; d++)
        state->pools[d] = (asim_paged_pool){
            .env = &state->env, .totals = &state->totals, .block_bytes = state->block_bytes};
    return ASIM_OK;
}

static void paged_fini(asim_policy_state *state)
{
    if (!state->env.memory)
        return;
    for (uint32_t d = 0; state->pools && d < state->env.device_count; d++)
        asim_paged_fini(&state->pools[d]);
    asim_mem_free(state->env.memory, state->pools, state->env.device_count, sizeof *state->pools);
    asim_mem_free(state->env.memory, state->caches, state->capacity, sizeof *state->caches);
    asim_inner_fini(&state->inner);
}

static void settle(asim_policy_state *state)
{
    const bool any = state->totals.in_use < state->totals.blocks;
    state->inner.own_largest = any ? state->block_bytes : 0;
    asim_inner_settle(&state->inner);
}

static asim_alloc_result refuse(asim_policy_state *state, unsigned device, uint64_t rounded, uint64_t asked)
{
    uint64_t free_bytes, total;
    state->env.device.ops->memory(state->env.device.ctx, device, &free_bytes, &total);
    settle(state);
    state->refused = true;
    state->env.listener->refusal(state->env.listener->ctx, device, rounded, asked, free_bytes);
    return ASIM_REFUSED;
}

/* ASIM_REFUSED: the device has no room for it now; the next request tries again. */
static asim_alloc_result open_pool(asim_policy_state *state, unsigned device, unsigned lane,
                                   uint64_t *ret_asked)
{
    uint64_t free_bytes, total, bytes = state->pool_bytes;
    state->env.device.ops->memory(state->env.device.ctx, device, &free_bytes, &total);
    if (bytes == ASIM_PARAM_NONE) {
        const uint64_t limit = (uint64_t)((double)total * state->utilization), taken = total - free_bytes;
        bytes = limit > taken ? limit - taken : 0;
    }
    uint64_t count = bytes / state->block_bytes;
    if (count > ASIM_PAGED_BLOCKS_MAX)
        count = ASIM_PAGED_BLOCKS_MAX;
    *ret_asked = count ? count * state->block_bytes : state->block_bytes;
    if (count == 0)
        return ASIM_REFUSED;
    switch (asim_paged_open(&state->pools[device], device, lane, (uint32_t)count)) {
    case ASIM_DEVICE_OK:
        return ASIM_PLACED;
    case ASIM_DEVICE_OOM:
        return ASIM_REFUSED;
    case ASIM_DEVICE_ERROR:
        break;
    }
    asim_fail(&state->fault, ASIM_E_BUG, "the device's alloc failed for another reason than memory");
    return ASIM_BROKEN;
}

/* --- caches --- */

static uint32_t cache_new(asim_policy_state *state)
{
    if (state->spare) {
        uint32_t fresh = state->spare;
        state->spare = state->caches[fresh].table.last;
        return fresh;
    }
    if (asim_mem_grow(state->env.memory, (void **)&state->caches, &state->capacity, (size_t)state->count + 2,
                      sizeof *state->caches, &state->fault))
        return 0;
    return ++state->count;
}

static void cache_drop(asim_policy_state *state, uint32_t index)
{
    state->caches[index] = (cache){.table.last = state->spare};
    state->spare = index;
}

static uint64_t blocks_for(const asim_policy_state *state, uint64_t size)
{
    return size / state->block_bytes + (size % state->block_bytes != 0);
}

/* The room left in a cache's last block. */
static uint64_t tail_of(const asim_policy_state *state, const cache *c)
{
    return c->table.count * state->block_bytes - c->size;
}

static void set_size(asim_policy_state *state, cache *c, uint64_t size, uint64_t tail_before)
{
    c->size = size;
    state->tail_waste += tail_of(state, c) - tail_before;
    if (state->tail_waste > state->peak_tail_waste)
        state->peak_tail_waste = state->tail_waste;
    if (c->own > c->table.count)
        c->own = c->table.count;
}

static asim_placement placement_of(const asim_policy_state *state, uint32_t index)
{
    const cache *c = &state->caches[index];
    return (asim_placement){.address = asim_paged_address(&state->pools[c->device], c->table.last),
                            .rounded = c->own * state->block_bytes,
                            .region = ASIM_NO_INDEX,
                            .word = index << 1};
}

/* Blocks that there are not enough of: what is said of a request for size bytes. */
static asim_alloc_result refuse_blocks(asim_policy_state *state, unsigned device, uint64_t size,
                                       uint64_t missing)
{
    const uint64_t largest = UINT64_C(1) << 60;
    const uint64_t rounded = size < largest ? blocks_for(state, size) * state->block_bytes : size;
    return refuse(state, device, rounded, size < largest ? missing * state->block_bytes : size);
}

static bool prepare(asim_policy_state *state, asim_paged_pool *pool, uint64_t blocks)
{
    return blocks == 0 || asim_paged_prepare(pool, (uint32_t)blocks, &state->fault) == ASIM_OK;
}

/* Takes one block and fills it from another one. */
static bool append_copy(asim_policy_state *state, unsigned device, asim_paged_table *table, uint32_t from)
{
    asim_paged_pool *pool = &state->pools[device];
    asim_paged_append(pool, table);
    if (asim_paged_copy(pool, device, table->last, from))
        return true;
    asim_fail(&state->fault, ASIM_E_BUG, "the device's copy failed");
    return false;
}

/* What a new cache of size bytes shares with the one that a PREFIX named: whole blocks, and of a block filled
 * in part either the block itself or, if the new cache writes into it, a copy. */
typedef struct sharing {
    uint32_t from; /* 0: nothing is shared */
    uint32_t blocks;
    bool copies;
} sharing;

static sharing take_prefix(asim_policy_state *state, unsigned device, uint64_t size)
{
    const uint32_t from = state->prefix_of;
    const cache *other = &state->caches[from];
    state->prefix_of = 0;
    if (!from || other->device != device)
        return (sharing){.from = 0};
    uint64_t bytes = state->prefix_bytes < other->size ? state->prefix_bytes : other->size;
    if (bytes > size)
        bytes = size;
    const bool copies = bytes % state->block_bytes != 0 && size > bytes;
    return (sharing){from, (uint32_t)(blocks_for(state, bytes) - copies), copies};
}

static asim_alloc_result cache_alloc(asim_policy_state *state, const asim_event *event,
                                     asim_placement *ret_placement)
{
    const unsigned device = state->env.lanes[event->lane].device;
    asim_paged_pool *pool = &state->pools[device];
    uint64_t asked = 0;
    if (pool->count == 0) {
        asim_alloc_result opened = open_pool(state, device, event->lane, &asked);
        if (opened != ASIM_PLACED)
            return opened == ASIM_REFUSED ? refuse(state, device, event->size, asked) : opened;
    }
    const sharing shared = take_prefix(state, device, event->size);
    const uint64_t more = blocks_for(state, event->size) - shared.blocks;
    if (more > asim_paged_free(pool))
        return refuse_blocks(state, device, event->size, more);
    uint32_t index;
    if (!prepare(state, pool, more) || !(index = cache_new(state)))
        return ASIM_BROKEN;
    cache *c = &state->caches[index];
    *c = (cache){.own = (uint32_t)more, .device = (uint16_t)device, .state = ASIM_BLOCK_LIVE};
    uint64_t left = more;
    if (shared.from) {
        const asim_paged_table *from = &state->caches[shared.from].table;
        asim_paged_share(pool, &c->table, from, shared.blocks);
        if (shared.copies && !append_copy(state, device, &c->table, asim_paged_at(pool, from, shared.blocks)))
            return ASIM_BROKEN;
        left -= shared.copies;
    }
    for (; left > 0; left--)
        asim_paged_append(pool, &c->table);
    set_size(state, c, event->size, 0);
    *ret_placement = placement_of(state, index);
    settle(state);
    return ASIM_PLACED;
}

static asim_alloc_result cache_resize(asim_policy_state *state, uint32_t index, const asim_event *event,
                                      asim_placement *ret_placement)
{
    cache *c = &state->caches[index];
    asim_paged_pool *pool = &state->pools[c->device];
    const uint64_t need = blocks_for(state, event->size), tail = tail_of(state, c);
    if (need < c->table.count) {
        asim_paged_cut(pool, &c->table, c->table.count - (uint32_t)need);
    } else {
        const uint32_t last = c->table.last;
        const bool copies = event->size > c->size && tail > 0 && pool->blocks[last].references > 1;
        uint64_t more = need - c->table.count + copies;
        if (more > asim_paged_free(pool))
            return refuse_blocks(state, c->device, event->size, more);
        if (!prepare(state, pool, more))
            return ASIM_BROKEN;
        c->own += (uint32_t)more;
        if (copies) { /* the other users keep the block */
            asim_paged_cut(pool, &c->table, 1);
            if (!append_copy(state, c->device, &c->table, last))
                return ASIM_BROKEN;
            more--;
        }
        for (; more > 0; more--)
            asim_paged_append(pool, &c->table);
    }
    set_size(state, c, event->size, tail);
    *ret_placement = placement_of(state, index);
    settle(state);
    return ASIM_PLACED;
}

static void cache_release(asim_policy_state *state, uint32_t index)
{
    cache *c = &state->caches[index];
    state->tail_waste -= tail_of(state, c);
    asim_paged_cut(&state->pools[c->device], &c->table, c->table.count);
    if (state->prefix_of == index)
        state->prefix_of = 0;
    cache_drop(state, index);
    settle(state);
}

/* --- the operations --- */

static bool is_broken(const asim_policy_state *state)
{
    return state->fault.code || state->inner.fault.code;
}

/* A refusal of the inner policy's is its own to describe. */
static asim_alloc_result heard(asim_policy_state *state, asim_alloc_result result)
{
    if (result == ASIM_REFUSED)
        state->refused = false;
    return result;
}

static asim_alloc_result paged_alloc(asim_policy_state *state, const asim_event *event,
                                     asim_placement *ret_placement)
{
    if (is_broken(state))
        return ASIM_BROKEN;
    if (event->flags & ASIM_ALLOC_GROWS)
        return cache_alloc(state, event, ret_placement);
    return heard(state, asim_inner_alloc(&state->inner, event, ret_placement));
}

static asim_alloc_result paged_resize(asim_policy_state *state, uint32_t word, const asim_event *event,
                                      asim_placement *ret_placement)
{
    if (is_broken(state))
        return ASIM_BROKEN;
    if (!asim_inner_owns(word))
        return cache_resize(state, word >> 1, event, ret_placement);
    return heard(state, asim_inner_resize(&state->inner, word, event, ret_placement));
}

static asim_free_result paged_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    if (asim_inner_owns(word))
        return asim_inner_free(&state->inner, word, completion_follows);
    if (completion_follows) {
        state->caches[word >> 1].state = ASIM_BLOCK_PENDING;
        return ASIM_FREE_LATER;
    }
    cache_release(state, word >> 1);
    return ASIM_FREED;
}

static asim_free_result paged_free_done(asim_policy_state *state, uint32_t word)
{
    if (asim_inner_owns(word))
        return asim_inner_free_done(&state->inner, word);
    cache_release(state, word >> 1);
    return ASIM_FREED;
}

static void paged_access(asim_policy_state *state, uint32_t word, const asim_event *event)
{
    if (asim_inner_owns(word))
        asim_inner_access(&state->inner, word, event);
}

/* What doesn't grow has no prefix to share: the next cache then begins with blocks of its own. */
static void paged_prefix(asim_policy_state *state, uint32_t word, const asim_event *event)
{
    state->prefix_of = asim_inner_owns(word) ? 0 : word >> 1;
    state->prefix_bytes = event->size;
}

static void paged_metrics(const asim_policy_state *state,
                          void (*emit)(void *ctx, const char *name, uint64_t value), void *ctx)
{
    const asim_paged_totals *totals = &state->totals;
    emit(ctx, "kv_block_bytes", state->block_bytes);
    emit(ctx, "kv_blocks", totals->blocks);
    emit(ctx, "peak_kv_blocks", totals->peak_in_use);
    emit(ctx, "peak_shared_blocks", totals->peak_shared);
    emit(ctx, "block_copies", totals->copies);
    emit(ctx, "tail_waste_bytes", state->tail_waste);
    emit(ctx, "peak_tail_waste_bytes", state->peak_tail_waste);
    asim_inner_metrics(&state->inner, emit, ctx);
}

static size_t paged_refusal_text(const asim_policy_state *state, char *ret_text, size_t capacity)
{
    return state->refused ? 0 : asim_inner_refusal_text(&state->inner, ret_text, capacity);
}

/* --- check and walk --- */

static asim_code check_caches(const asim_policy_state *state, asim_err *err)
{
    uint64_t tables = 0, references = 0, waste = 0;
    for (uint32_t i = 1; i <= state->count; i++) {
        const cache *c = &state->caches[i];
        if (c->state == ASIM_BLOCK_FREE)
            continue;
        const asim_paged_pool *pool = &state->pools[c->device];
        uint32_t length = 0;
        for (uint32_t b = c->table.last; b && length <= c->table.count; b = pool->blocks[b].before) {
            if (pool->blocks[b].references == 0)
                return asim_fail(err, ASIM_E_BUG, "cache %u: its block %u is free", i, b);
            length++;
        }
        if (length != c->table.count || length != blocks_for(state, c->size))
            return asim_fail(err, ASIM_E_BUG, "cache %u: its table has %u blocks and says %u", i, length,
                             c->table.count);
        tables += length;
        waste += tail_of(state, c);
    }
    for (uint32_t d = 0; d < state->env.device_count; d++)
        for (uint32_t b = 1; b <= state->pools[d].begun; b++)
            references += state->pools[d].blocks[b].references;
    if (tables != references || waste != state->tail_waste)
        return asim_fail(err, ASIM_E_BUG, "tables and references, or the room in last blocks, don't add up");
    return ASIM_OK;
}

static asim_code paged_check(const asim_policy_state *state, asim_err *err)
{
    if (state->fault.code)
        return asim_fail(err, state->fault.code, "%s", state->fault.message);
    asim_code code = asim_inner_check(&state->inner, err);
    if (!code)
        code = check_caches(state, err);
    for (uint32_t d = 0; !code && d < state->env.device_count; d++)
        code = asim_paged_check_pool(&state->pools[d], err);
    return code;
}

typedef struct pool_walk {
    const asim_policy_state *state;
    uint32_t next; /* device */
} pool_walk;

static bool next_pool(void *ctx, asim_walk_segment *ret_segment)
{
    pool_walk *walk = ctx;
    for (; walk->next < walk->state->env.device_count; walk->next++) {
        const asim_paged_pool *pool = &walk->state->pools[walk->next];
        if (pool->count == 0)
            continue;
        *ret_segment = (asim_walk_segment){.address = pool->region.address,
                                           .size = pool->count * pool->block_bytes,
                                           .region = pool->region.index,
                                           .device = (uint16_t)walk->next};
        walk->next++;
        return true;
    }
    return false;
}

/* The pool that next_pool named last. */
static void show_pool(void *ctx, const asim_walker *walker)
{
    const pool_walk *walk = ctx;
    const asim_paged_pool *pool = &walk->state->pools[walk->next - 1];
    const asim_walk_segment segment = {.address = pool->region.address,
                                       .size = pool->count * pool->block_bytes,
                                       .region = pool->region.index,
                                       .device = (uint16_t)(walk->next - 1)};
    walker->segment(walker->ctx, &segment);
    for (uint32_t b = 1; b <= pool->count; b++) {
        const bool live = b <= pool->begun && pool->blocks[b].references > 0;
        const asim_walk_block shown = {.address = asim_paged_address(pool, b),
                                       .size = pool->block_bytes,
                                       .state = live ? ASIM_BLOCK_LIVE : ASIM_BLOCK_FREE};
        walker->block(walker->ctx, &shown);
    }
}

static void paged_walk(const asim_policy_state *state, const asim_walker *walker)
{
    pool_walk walk = {.state = state};
    const asim_inner_own own = {next_pool, show_pool, &walk};
    asim_inner_walk(&state->inner, &own, walker);
}

const asim_policy asim_policy_paged = {
    ASIM_INNER_TABLE,
    .name = "paged",
    .summary = "vLLM's pool of KV blocks with shared prefixes, before another policy",
    .source = "Kwon et al., SOSP 2023 (PagedAttention); vLLM 0.6 to 0.9, block manager",
    .params = {params, sizeof params / sizeof params[0], sizeof(paged_params)},
    .init = paged_init,
    .alloc = paged_alloc,
    .free = paged_free,
    .check = paged_check,
    .walk = paged_walk,
    .fini = paged_fini,
    .free_done = paged_free_done,
    .mark = asim_inner_mark,
    .resize = paged_resize,
    .access = paged_access,
    .prefix = paged_prefix,
    .metrics = paged_metrics,
    .refusal_text = paged_refusal_text,
};
