/* rmm-arena - RAPIDS's arenas against fragmentation (rmm::mr::arena_memory_resource), one set a device.
 *
 * What it models: RMM 26.06, cpp/include/rmm/mr/arena_memory_resource.hpp, detail/arena.hpp and
 * src/mr/detail/arena_memory_resource_impl.cpp, over cudaMalloc; https://github.com/rapidsai/rmm.
 *
 * How it works. One region, half of the free memory, is all there ever is. It is cut into superblocks of 1
 * MiB at least, each owned by the global arena or by the arena of a stream; blocks are taken first fit in
 * address order over all superblocks of an arena. Requests are rounded up to 256 bytes (or to jemalloc's size
 * classes).
 *
 *     > 1 MiB     global arena: an empty superblock is cut to size if 1 MiB stays, then the block taken
 *     <= 1 MiB    the stream's arena; if it has no room it acquires a superblock, cut to 1 MiB if empty
 *     no room     wait for the device, give all superblocks of all streams back to the global arena, once
 * more
 *
 *     free        to whoever owns the superblock by now; it merges with its neighbours in the superblock. A
 *                 superblock of the global arena that is empty merges with empty neighbours; one of a stream
 *                 stays until there is no room.
 *
 * Frees of more than 1 MiB, and of blocks whose superblock has gone to another owner, wait for the stream
 * that the block was allocated on, as the original does: that is stall time.
 *
 * A block that other streams use: RMM has no record_stream. Its users must order the free after all uses, and
 * here the block is held until the events of those uses have passed; they are looked at when the next request
 * begins, and have passed when the device was waited for.
 *
 * Ties: first fit by address leaves none. Cost: expected O(log n) in the free blocks of an arena for a
 * request and a free; giving all superblocks back is linear in their free blocks.
 *
 * Left out: per-thread default streams (a lane's stream is a stream), dump_log_on_failure, locks. The region
 * is taken at the first request on a device; where that fails, RMM's constructor throws, and here the request
 * is refused and the next one tries again. The header says that empty superblocks are returned at once; the
 * code returns them only when there is no room, and so does this. Size classes are the original's table, its
 * 54 KiB (for 56) included.
 */
#include "policies/registry.h"
#include "policies/rmm_superblocks.h"
#include "policies/stream_uses.h"

#include <stddef.h>

enum {
    ALIGN = 256 /* CUDA_ALLOCATION_ALIGNMENT */
};

static const uint64_t largest_request = UINT64_C(1) << 60;
static const uint64_t largest_class = UINT64_C(256) << 30;
static const uint64_t kib = 1024;

typedef struct rmm_arena_params {
    uint64_t arena_size;
    bool size_classes;
} rmm_arena_params;

static const asim_param params[] = {
    {.name = "arena_size",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(rmm_arena_params, arena_size),
     .default_text = "none",
     .min = ASIM_RMM_SUPERBLOCK,
     .max = UINT64_C(1) << 40,
     .none_allowed = true,
     .help = "bytes of the region taken from a device; none: half of what is free"},
    {.name = "size_classes",
     .type = ASIM_PARAM_BOOL,
     .offset = offsetof(rmm_arena_params, size_classes),
     .default_text = "false",
     .help = "round requests up to jemalloc's size classes (RMM_ARENA_USE_SIZE_CLASSES)"},
};

struct asim_policy_state {
    asim_policy_env env;
    rmm_arena_params params;
    asim_stream_uses uses;
    asim_rmm_superblocks supers;
    uint64_t defragmented;
};

static asim_code rmm_arena_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                                asim_err *err)
{
    state->env = *env;
    state->params = *(const rmm_arena_params *)block;
    asim_code code = asim_uses_init(&state->uses, env, err);
    return code ? code : asim_rmm_super_init(&state->supers, env, err);
}

static void rmm_arena_fini(asim_policy_state *state)
{
    asim_rmm_super_fini(&state->supers);
    asim_uses_fini(&state->uses);
}

/* align_to_size_class: steps of 256 up to 2 KiB, then four classes to each power of two; 0: beyond them all.
 */
static uint64_t size_class(uint64_t size)
{
    if (size > largest_class)
        return 0;
    const unsigned power = size > 2 * kib ? 63U - (unsigned)__builtin_clzll(size - 1) : 10;
    const uint64_t step = UINT64_C(1) << (power - 2), class = (size + step - 1) / step * step;
    if (class == 56 * kib)
        return size <= 54 * kib ? 54 * kib : 64 * kib;
    return class;
}

static uint64_t rounded_size(const asim_policy_state *state, uint64_t size)
{
    return state->params.size_classes ? size_class(size) : (size + ALIGN - 1) / ALIGN * ALIGN;
}

static void settle(asim_policy_state *state)
{
    state->env.counters->largest_free_bytes = asim_rmm_super_largest(&state->supers);
}

/* The device's region, at its first request. */
static asim_alloc_result begin(asim_policy_state *state, unsigned lane, uint64_t *ret_asked)
{
    const unsigned device = state->env.lanes[lane].device;
    const asim_device *table = &state->env.device;
    uint64_t free_bytes, total, size = state->params.arena_size;
    table->ops->memory(table->ctx, device, &free_bytes, &total);
    if (size == ASIM_PARAM_NONE)
        size = free_bytes / 2;
    size = size / ALIGN * ALIGN;
    *ret_asked = size > ASIM_RMM_SUPERBLOCK ? size : ASIM_RMM_SUPERBLOCK;
    if (size < ASIM_RMM_SUPERBLOCK)
        return ASIM_REFUSED;
    asim_region region;
    const asim_device_result result = table->ops->alloc(table->ctx, device, size, lane, &region);
    if (result == ASIM_DEVICE_OOM)
        return ASIM_REFUSED;
    if (result != ASIM_DEVICE_OK) {
        asim_fail(&state->supers.fault, ASIM_E_BUG,
                  "the device's alloc failed for another reason than memory");
        return ASIM_BROKEN;
    }
    return asim_rmm_super_begin(&state->supers, device, &region, size) ? ASIM_PLACED : ASIM_BROKEN;
}

/* arena_memory_resource::deallocate. */
static void give(asim_policy_state *state, uint32_t block)
{
    const asim_rmm_piece *piece = &state->supers.pieces[block];
    const uint32_t own = asim_rmm_arena_of(&state->supers, asim_stream_of(&state->uses, piece->lane));
    const asim_device *table = &state->env.device;
    const bool large = asim_rmm_is_large(state->supers.nodes[block].size);
    const uint32_t owner = state->supers.supers[piece->superblock].arena;
    if (large || owner != own)
        table->ops->stream_wait(table->ctx, piece->lane);
    asim_rmm_super_give(&state->supers, block);
}

/* The events of a pending free have passed. */
static void complete(void *ctx, uint32_t word)
{
    asim_policy_state *state = ctx;
    const asim_rmm_node *node = &state->supers.nodes[word];
    state->env.listener->free_done(state->env.listener->ctx, node->address, node->size,
                                   state->supers.pieces[word].requested);
    give(state, word);
}

/* arena_memory_resource::defragment. */
static void defragment(asim_policy_state *state, unsigned device)
{
    const asim_device *table = &state->env.device;
    table->ops->device_wait(table->ctx, device);
    if (asim_uses_pending(&state->uses)) {
        state->env.counters->sync_waits++;
        asim_uses_poll(&state->uses, true, complete, state);
    }
    asim_rmm_super_clean(&state->supers, device);
    state->defragmented++;
}

static asim_alloc_result refuse(asim_policy_state *state, unsigned device, uint64_t rounded, uint64_t asked)
{
    uint64_t free_bytes, total;
    state->env.device.ops->memory(state->env.device.ctx, device, &free_bytes, &total);
    settle(state);
    state->env.listener->refusal(state->env.listener->ctx, device, rounded, asked, free_bytes);
    return ASIM_REFUSED;
}

static asim_alloc_result rmm_arena_alloc(asim_policy_state *state, const asim_event *event,
                                         asim_placement *ret_placement)
{
    const unsigned device = state->env.lanes[event->lane].device;
    asim_rmm_superblocks *supers = &state->supers;
    uint64_t asked = 0;
    if (supers->fault.code)
        return ASIM_BROKEN;
    if (event->size == 0)
        return ASIM_NOTHING;
    if (asim_uses_pending(&state->uses))
        asim_uses_poll(&state->uses, false, complete, state);
    if (event->size > largest_request)
        return refuse(state, device, event->size, event->size);
    uint64_t rounded = rounded_size(state, event->size);
    if (!rounded) /* the original rounds to 2^64 - 1 and finds no room */
        return refuse(state, device, event->size, event->size);
    if (!supers->heaps[device].first) {
        const asim_alloc_result begun = begin(state, event->lane, &asked);
        if (begun != ASIM_PLACED)
            return begun == ASIM_REFUSED ? refuse(state, device, rounded, asked) : begun;
    }
    const uint32_t arena = asim_rmm_arena_of(supers, asim_stream_of(&state->uses, event->lane));
    uint32_t block;
    if (!asim_rmm_super_take(supers, device, arena, rounded, &block))
        return ASIM_BROKEN;
    if (!block) {
        state->env.counters->alloc_retries++;
        defragment(state, device);
        if (!asim_rmm_super_take(supers, device, arena, rounded, &block))
            return ASIM_BROKEN;
    }
    if (!block)
        return refuse(state, device, rounded, rounded);
    supers->pieces[block].requested = event->size;
    supers->pieces[block].lane = event->lane;
    settle(state);
    *ret_placement = (asim_placement){.address = supers->nodes[block].address,
                                      .size = supers->nodes[block].size,
                                      .rounded = rounded,
                                      .region = supers->heaps[device].region.index,
                                      .word = block};
    return ASIM_PLACED;
}

static asim_free_result rmm_arena_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    asim_rmm_piece *piece = &state->supers.pieces[word];
    if (state->supers.fault.code)
        return ASIM_FREE_BROKEN;
    if (completion_follows) {
        asim_uses_forget(&state->uses, &piece->uses);
        piece->state = ASIM_BLOCK_PENDING;
        return ASIM_FREE_LATER;
    }
    if (piece->uses) {
        piece->state = ASIM_BLOCK_PENDING;
        return asim_uses_wait(&state->uses, &piece->uses, word, &state->supers.fault) ? ASIM_FREE_BROKEN
                                                                                      : ASIM_FREE_LATER;
    }
    give(state, word);
    settle(state);
    return ASIM_FREED;
}

static asim_free_result rmm_arena_free_done(asim_policy_state *state, uint32_t word)
{
    give(state, word);
    settle(state);
    return ASIM_FREED;
}

static void rmm_arena_use(asim_policy_state *state, uint32_t word, unsigned lane)
{
    asim_rmm_piece *piece = &state->supers.pieces[word];
    asim_uses_add(&state->uses, &piece->uses, piece->lane, lane, &state->supers.fault);
}

static asim_code rmm_arena_check(const asim_policy_state *state, asim_err *err)
{
    return asim_rmm_super_check(&state->supers, err);
}

static void rmm_arena_walk(const asim_policy_state *state, const asim_walker *walker)
{
    asim_rmm_super_walk(&state->supers, walker);
}

static void rmm_arena_metrics(const asim_policy_state *state,
                              void (*emit)(void *ctx, const char *name, uint64_t value), void *ctx)
{
    emit(ctx, "arena_superblocks_acquired", state->supers.acquired);
    emit(ctx, "arena_defragmentations", state->defragmented);
}

const asim_policy asim_policy_rmm_arena = {
    .version = ASIM_POLICY_VERSION,
    .name = "rmm-arena",
    .summary = "RAPIDS's arenas: superblocks for each stream out of one region",
    .source = "RMM 26.06, rmm::mr::arena_memory_resource",
    .state_size = sizeof(asim_policy_state),
    .params = {params, sizeof params / sizeof params[0], sizeof(rmm_arena_params)},
    .init = rmm_arena_init,
    .alloc = rmm_arena_alloc,
    .free = rmm_arena_free,
    .check = rmm_arena_check,
    .walk = rmm_arena_walk,
    .fini = rmm_arena_fini,
    .free_done = rmm_arena_free_done,
    .use = rmm_arena_use,
    .metrics = rmm_arena_metrics,
};
