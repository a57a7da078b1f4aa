/* stitch - GMLake: scattered free memory is stitched together by mapping it at a second address.
 *
 * What it models: Guo, Zhang, Xu, Leng, Liu, Huang, Guo, Wu, Zhao, Zhao, Zhang: "GMLake: Efficient and
 * Transparent GPU Memory Defragmentation for Large-scale DNN Training with Virtual Memory Stitching", ASPLOS
 * 2024, https://arxiv.org/abs/2401.08156, and where the paper is silent its published code for PyTorch 2.0,
 * https://github.com/antgroup/glake (GMLake, 2024-11), with its options.
 *
 * How it works. Memory comes in chunks of 2 MiB. A primitive block (pBlock) is a range of them; a stitched
 * block (sBlock) a range of addresses that shows the chunks of several primitive ones. A request tries in
 * this order:
 *
 *     S1 exact      a free primitive block of its size, or a free stitched one
 *     S2 single     the smallest free primitive block with room, which is split
 *     S3 several    free blocks are enough together: they are stitched, largest first, the last one split
 *     S4 too few    what is missing is obtained from the device, and stitched to them
 *     S5 none       the device has no more: whole free ranges go back to it, and the request is tried again;
 * or fails
 *
 *     [## live ##][ free ][## live ##][ free ]  ->  one block at a second address, over both
 *
 * Freeing changes no mapping: a stitched block stays, and serves the next request of its size for nothing,
 * while all of its chunks are free. Above stitch_limit bytes of such addresses those not in use end, least
 * recently used first (StitchFree).
 *
 * Requests of up to 1 MiB take the caching allocator's ordinary path: multiples of 512 bytes from segments of
 * 2 MiB. Larger ones are rounded up to chunks, as in the published code; the paper draws the line at 2 MB.
 * Requests below fragment_limit are neither stitched nor topped up.
 *
 * The paper and the code differ. Here, as in the paper: a stitched block serves its exact size (the code: up
 * to reuse_limit times the request), a new range holds what is missing (the code: with reAlloc=1 only;
 * top_up=false otherwise). As in the code: free primitive neighbours merge again.
 *
 * How it is simulated: the device table maps pages of one range in another (alias), which costs what a map
 * costs and obtains nothing. A stitched block in use is told to the engine as the pieces that it is made of,
 * where they are at home, so that memory is counted once, however many addresses it has; the referee sees
 * each piece.
 *
 * Ties: best fit by (size, address). Cost: O(log n) for n blocks of one size where nothing is stitched; else
 * linear in the chunks of the request and the stitched blocks that show them.
 *
 * Left out: the code's use of other streams' free blocks, max_split_size_mb, memory limits, graph pools.
 */
#include "policies/registry.h"
#include "policies/stitch_blocks.h"
#include "policies/stream_uses.h"

#include <stddef.h>

#define MIB   (UINT64_C(1) << 20)
#define CHUNK ASIM_STITCH_CHUNK

enum {
    STITCHED = 1 << 30 /* in a word: a stitched block */
};

typedef struct stitch_params {
    uint64_t fragment_limit, stitch_limit, reuse_limit, defrag_level;
    bool top_up;
} stitch_params;

static const asim_param params[] = {
    {.name = "fragment_limit",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(stitch_params, fragment_limit),
     .default_text = "512MiB",
     .min = 0,
     .max = UINT64_MAX / 2,
     .help = "smaller requests are not stitched (fragLimit)"},
    {.name = "stitch_limit",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(stitch_params, stitch_limit),
     .default_text = "1000GiB",
     .min = 0,
     .max = UINT64_MAX / 2,
     .none_allowed = true,
     .help = "bytes of stitched addresses above which unused ones end (autoGC); none: no limit"},
    {.name = "reuse_limit",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(stitch_params, reuse_limit),
     .default_text = "1",
     .min = 1,
     .max = 1000,
     .help = "a stitched block serves requests this many times smaller; 1: its size alone; the code: 10 "
             "(reuseLimit)"},
    {.name = "defrag_level",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(stitch_params, defrag_level),
     .default_text = "0",
     .min = 0,
     .max = 1,
     .help = "0: stitch before asking the device; 1: once it refuses (defragLevel)"},
    {.name = "top_up",
     .type = ASIM_PARAM_BOOL,
     .offset = offsetof(stitch_params, top_up),
     .default_text = "true",
     .help = "obtain what is missing and stitch it to what is free (reAlloc); false: obtain all"},
};

struct asim_policy_state {
    asim_policy_env env;
    stitch_params params;
    asim_stream_uses uses;
    asim_stitcher st;
    uint32_t (*lists)[2]; /* by stream number: small, large; 0: none yet */
    uint64_t exact, split, stitched, topped, reused, ended;
};

static asim_code stitch_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                             asim_err *err)
{
    state->env = *env;
    state->params = *(const stitch_params *)block;
    asim_code code = asim_uses_init(&state->uses, env, err);
    if (!code)
        code = asim_stitch_init(&state->st, env, err);
    if (code || !env->lane_count)
        return code;
    state->lists = asim_mem_new(env->memory, env->lane_count, sizeof *state->lists);
    return state->lists ? ASIM_OK : asim_fail_memory(err, env->lane_count * sizeof *state->lists);
}

static void stitch_fini(asim_policy_state *state)
{
    asim_stitch_fini(&state->st);
    asim_uses_fini(&state->uses);
    if (state->env.memory)
        asim_mem_free(state->env.memory, state->lists, state->env.lane_count, sizeof *state->lists);
}

static void settle(asim_policy_state *state)
{
    state->env.counters->largest_free_bytes = asim_rb_largest(&state->st.rb);
}

static bool is_small(uint64_t size)
{
    return size <= MIB;
}

/* 0: fault. */
static uint32_t list_of(asim_policy_state *state, unsigned lane, uint64_t size)
{
    uint32_t *list = &state->lists[asim_stream_of(&state->uses, lane)][!is_small(size)];
    if (!*list)
        *list = asim_stitch_list_new(&state->st);
    return *list;
}

static void give(asim_policy_state *state, uint32_t word)
{
    if (word & STITCHED) {
        asim_stitch_leave(&state->st, word ^ STITCHED);
        return;
    }
    asim_stitch_give(&state->st, word,
                     list_of(state, state->st.rb.blocks[word].lane, state->st.rb.extents[word].size));
}

/* The events of a pending free have passed. */
static void complete(void *ctx, uint32_t word)
{
    asim_policy_state *state = ctx;
    const asim_listener *listener = state->env.listener;
    if (word & STITCHED) {
        const asim_stitched *s = &state->st.stitched[word ^ STITCHED];
        listener->free_done(listener->ctx, s->address, 0, s->requested);
    } else {
        const asim_extent *extent = &state->st.rb.extents[word];
        listener->free_done(listener->ctx, extent->address, extent->size,
                            state->st.rb.blocks[word].requested);
    }
    give(state, word);
}

/* --- the course of a request: words, 0 for none --- */

static uint32_t take(asim_policy_state *state, uint32_t block, unsigned lane, uint32_t list, uint64_t size)
{
    state->st.rb.blocks[block].lane = (uint16_t)lane;
    return asim_stitch_take(&state->st, block, list, size) ? block : 0;
}

static uint32_t enter(asim_policy_state *state, uint32_t stitched, unsigned lane, uint64_t size)
{
    if (!asim_stitch_enter(&state->st, stitched, lane, size))
        return 0;
    state->reused++;
    return stitched | STITCHED;
}

static bool may_stitch(const asim_policy_state *state, uint64_t size)
{
    return size >= state->params.fragment_limit;
}

/* S3, and with extra S4. */
static uint32_t stitch(asim_policy_state *state, unsigned lane, uint32_t list, uint64_t size, uint32_t extra)
{
    asim_stitcher *st = &state->st;
    const uint64_t there = st->lists[list]->bytes + (extra ? st->rb.extents[extra].size : 0);
    if (!may_stitch(state, size) || there < size)
        return 0;
    const uint32_t made = asim_stitch_stitch(st, lane, list, size, extra);
    if (!made)
        return 0;
    if (state->params.stitch_limit != ASIM_PARAM_NONE && st->stitched_bytes > state->params.stitch_limit) {
        const uint32_t ended = asim_stitch_shrink(st, state->params.stitch_limit);
        if (ended == UINT32_MAX)
            return 0;
        state->ended += ended;
    }
    *(extra ? &state->topped : &state->stitched) += 1;
    return made | STITCHED;
}

/* S1 and S2. */
static uint32_t reuse(asim_policy_state *state, unsigned lane, uint32_t list, uint64_t size)
{
    asim_stitcher *st = &state->st;
    uint32_t found = asim_stitch_pick(st, list, size, true);
    if (found) {
        state->exact++;
        return take(state, found, lane, list, size);
    }
    found = is_small(size) ? 0 : asim_stitch_find(st, list, size, size);
    if (found)
        return enter(state, found, lane, size);
    found = asim_stitch_pick(st, list, size, false);
    if (found) {
        state->split++;
        return take(state, found, lane, list, size);
    }
    if (is_small(size) || state->params.reuse_limit == 1)
        return 0;
    found = asim_stitch_find(st, list, size, size * state->params.reuse_limit);
    return found ? enter(state, found, lane, size) : 0;
}

/* The caching allocator's sizes: 20 MiB below 10, else in steps of 2. */
static uint64_t range_size(uint64_t size)
{
    return size < 10 * MIB ? 20 * MIB : (size + CHUNK - 1) / CHUNK * CHUNK;
}

/* S4. *ret_asked: of the device. */
static uint32_t obtain(asim_policy_state *state, unsigned lane, uint32_t list, uint64_t size,
                       uint64_t *ret_asked)
{
    asim_stitcher *st = &state->st;
    if (is_small(size)) {
        const uint32_t segment = asim_stitch_segment(st, lane, *ret_asked = CHUNK);
        return segment ? take(state, segment, lane, list, size) : 0;
    }
    const uint64_t there = st->lists[list]->bytes;
    const bool tops_up = state->params.top_up && may_stitch(state, size) && there > 0 && there < size;
    const uint32_t range =
        asim_stitch_obtain(st, lane, *ret_asked = range_size(tops_up ? size - there : size));
    if (!range || st->rb.extents[range].size >= size)
        return range ? take(state, range, lane, list, size) : 0;
    return stitch(state, lane, list, size, range);
}

static uint32_t serve(asim_policy_state *state, unsigned lane, uint32_t list, uint64_t size,
                      uint64_t *ret_asked)
{
    asim_stitcher *st = &state->st;
    uint32_t word = reuse(state, lane, list, size);
    if (!word && !st->fault.code && state->params.defrag_level == 0 && !is_small(size))
        word = stitch(state, lane, list, size, 0);
    if (!word && !st->fault.code)
        word = obtain(state, lane, list, size, ret_asked);
    if (!word && !st->fault.code && state->params.defrag_level == 1 && !is_small(size))
        word = stitch(state, lane, list, size, 0);
    return word;
}

/* S5: all events are waited for, and whole free ranges go back. */
static bool flush(asim_policy_state *state, unsigned device)
{
    uint64_t released;
    state->env.counters->cache_flushes++;
    if (asim_uses_pending(&state->uses)) {
        state->env.counters->sync_waits++;
        asim_uses_poll(&state->uses, true, complete, state);
    }
    return asim_stitch_release(&state->st, device, &released);
}

static asim_alloc_result refuse(asim_policy_state *state, unsigned device, uint64_t size, uint64_t asked)
{
    uint64_t free_bytes, total;
    state->env.device.ops->memory(state->env.device.ctx, device, &free_bytes, &total);
    settle(state);
    state->env.listener->refusal(state->env.listener->ctx, device, size, asked, free_bytes);
    return ASIM_REFUSED;
}

static asim_placement placement_of(asim_policy_state *state, uint32_t word, uint64_t requested,
                                   uint64_t rounded)
{
    asim_stitcher *st = &state->st;
    if (word & STITCHED) {
        asim_stitched *s = &st->stitched[word ^ STITCHED];
        s->requested = requested;
        return (asim_placement){
            .address = s->address, .rounded = rounded, .region = ASIM_NO_INDEX, .word = word};
    }
    st->rb.blocks[word].requested = requested;
    return (asim_placement){.address = st->rb.extents[word].address,
                            .size = st->rb.extents[word].size,
                            .rounded = rounded,
                            .region = st->rb.regions[st->rb.blocks[word].region].index,
                            .word = word};
}

static asim_alloc_result stitch_alloc(asim_policy_state *state, const asim_event *event,
                                      asim_placement *ret_placement)
{
    const unsigned device = state->env.lanes[event->lane].device;
    asim_stitcher *st = &state->st;
    if (st->fault.code)
        return ASIM_BROKEN;
    if (event->size == 0)
        return ASIM_NOTHING;
    if (event->size >= UINT64_C(1) << 50)
        return refuse(state, device, event->size, event->size);
    const uint64_t step = is_small(event->size) ? 512 : CHUNK;
    const uint64_t size = (event->size + step - 1) / step * step;
    const uint32_t list = list_of(state, event->lane, size);
    uint64_t asked = size;
    uint32_t word = 0;
    if (list && asim_uses_pending(&state->uses))
        asim_uses_poll(&state->uses, false, complete, state);
    if (list)
        word = serve(state, event->lane, list, size, &asked);
    if (!word && !st->fault.code && flush(state, device)) {
        state->env.counters->alloc_retries++;
        word = serve(state, event->lane, list, size, &asked);
    }
    if (st->fault.code)
        return ASIM_BROKEN;
    if (!word)
        return refuse(state, device, size, asked);
    *ret_placement = placement_of(state, word, event->size, size);
    settle(state);
    return ASIM_PLACED;
}

static asim_free_result stitch_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    asim_stitcher *st = &state->st;
    const bool is_stitched = word & STITCHED;
    if (st->fault.code)
        return ASIM_FREE_BROKEN;
    uint32_t *uses = is_stitched ? &st->stitched[word ^ STITCHED].uses : &st->rb.blocks[word].uses;
    if (!completion_follows && !*uses) {
        give(state, word);
        settle(state);
        return ASIM_FREED;
    }
    *(is_stitched ? &st->stitched[word ^ STITCHED].state : &st->rb.blocks[word].state) = ASIM_BLOCK_PENDING;
    if (completion_follows)
        asim_uses_forget(&state->uses, uses);
    else if (asim_uses_wait(&state->uses, uses, word, &st->fault))
        return ASIM_FREE_BROKEN;
    return ASIM_FREE_LATER;
}

static asim_free_result stitch_free_done(asim_policy_state *state, uint32_t word)
{
    give(state, word);
    settle(state);
    return ASIM_FREED;
}

static void stitch_use(asim_policy_state *state, uint32_t word, unsigned lane)
{
    asim_stitcher *st = &state->st;
    if (word & STITCHED) {
        asim_stitched *s = &st->stitched[word ^ STITCHED];
        asim_uses_add(&state->uses, &s->uses, s->lane, lane, &st->fault);
    } else {
        asim_rb_block *block = &st->rb.blocks[word];
        asim_uses_add(&state->uses, &block->uses, block->lane, lane, &st->fault);
    }
}

static asim_code stitch_check(const asim_policy_state *state, asim_err *err)
{
    return asim_stitch_check(&state->st, err);
}

static asim_code stitch_trim(asim_policy_state *state, const asim_event *event, asim_err *err)
{
    for (unsigned d = 0; d < state->env.device_count; d++)
        if (event->lane == ASIM_LANE_ALL || state->env.lanes[event->lane].device == d)
            if (!state->st.fault.code)
                flush(state, d);
    settle(state);
    const asim_err *fault = &state->st.fault;
    return fault->code ? asim_fail(err, fault->code, "%s", fault->message) : ASIM_OK;
}

static void stitch_walk(const asim_policy_state *state, const asim_walker *walker)
{
    asim_rb_walk(&state->st.rb, walker, NULL, NULL);
}

static void stitch_metrics(const asim_policy_state *state,
                           void (*emit)(void *ctx, const char *name, uint64_t value), void *ctx)
{
    emit(ctx, "stitch_exact_fits", state->exact);
    emit(ctx, "stitch_splits", state->split);
    emit(ctx, "stitch_stitches", state->stitched);
    emit(ctx, "stitch_top_ups", state->topped);
    emit(ctx, "stitch_reuses", state->reused);
    emit(ctx, "stitch_ends", state->ended);
    emit(ctx, "stitch_address_bytes", state->st.stitched_bytes);
}

const asim_policy asim_policy_stitch = {
    .version = ASIM_POLICY_VERSION,
    .flags = ASIM_POLICY_SCATTERS,
    .name = "stitch",
    .summary = "GMLake: scattered free memory mapped together at a second address",
    .source = "Guo et al., GMLake, ASPLOS 2024",
    .state_size = sizeof(asim_policy_state),
    .params = {params, sizeof params / sizeof params[0], sizeof(stitch_params)},
    .init = stitch_init,
    .alloc = stitch_alloc,
    .free = stitch_free,
    .check = stitch_check,
    .walk = stitch_walk,
    .fini = stitch_fini,
    .free_done = stitch_free_done,
    .use = stitch_use,
    .trim = stitch_trim,
    .metrics = stitch_metrics,
};
