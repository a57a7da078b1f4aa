/* skeleton - first fit in one region a device: the smallest policy that keeps the contract. Copy it to begin
 * a new one; the numbered remarks say what to change. It is listed and tested like every other policy, and
 * left out of recommendations.
 *
 * 1. A policy's file opens with what the algorithm is, where it comes from, its cost, what breaks ties, and a
 *    picture of what it does to blocks. Here: Knuth, TAOCP 1, 2.5, algorithm A; linear in the blocks; the
 *    lowest address with room wins.
 *
 *     alloc  [ live ][      free      ]   ->   [ live ][ live ][ free ]
 *     free   [ free ][ freed ][ free ]    ->   [         free         ]
 */
#include "policies/registry.h"

#include <stddef.h>

/* 2. Parameters: a struct, and one line in the table for each member. Nothing else needs to know them. */
typedef struct skeleton_params {
    uint64_t region; /* bytes; none: all of the device */
    uint64_t align;
} skeleton_params;

static const asim_param params[] = {
    {.name = "region",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(skeleton_params, region),
     .default_text = "none",
     .min = UINT64_C(2) << 20,
     .max = UINT64_MAX / 2,
     .none_allowed = true,
     .help = "bytes of the one region taken from each device; none: all of it"},
    {.name = "align",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(skeleton_params, align),
     .default_text = "512",
     .min = 1,
     .max = UINT64_C(2) << 20,
     .help = "block sizes are multiples of this many bytes"},
};

/* 3. Blocks live in one growing array and are named by 32-bit index, which is also the word the engine keeps
 *    for a live block: a free needs no look-up. */
typedef struct block {
    uint64_t address, size;
    uint32_t prev, next; /* neighbours by address; 0: none */
    uint16_t device;
    uint8_t state; /* asim_block_state */
} block;

typedef struct device_state {
    asim_region region;
    uint32_t first; /* block of lowest address; 0: the region is not there yet */
} device_state;

/* 4. The tag's body is this file's own; the engine hands it over zeroed. */
struct asim_policy_state {
    asim_policy_env env;
    skeleton_params params;
    device_state *devices;
    block *blocks; /* [0] is none */
    size_t capacity;
    uint32_t count, spare;
    asim_err fault; /* why the run is broken */
};

/* 5. init gets the device, the host-memory table and the lanes, and nothing else. It may fail at any point:
 *    fini follows and must cope with what is there. */
static asim_code skeleton_init(asim_policy_state *state, const asim_policy_env *env,
                               const void *block_of_params, asim_err *err)
{
    state->env = *env;
    state->params = *(const skeleton_params *)block_of_params;
    state->count = 1;
    state->devices = asim_mem_new(env->memory, env->device_count, sizeof *state->devices);
    if (!state->devices)
        return asim_fail_memory(err, env->device_count * sizeof *state->devices);
    return ASIM_OK;
}

static void skeleton_fini(asim_policy_state *state)
{
    if (!state->env.memory)
        return;
    asim_mem_free(state->env.memory, state->blocks, state->capacity, sizeof *state->blocks);
    asim_mem_free(state->env.memory, state->devices, state->env.device_count, sizeof *state->devices);
}

static uint32_t block_new(asim_policy_state *state)
{
    uint32_t fresh = state->spare;
    if (fresh) {
        state->spare = state->blocks[fresh].next;
        return fresh;
    }
    void *blocks = state->blocks;
    if (asim_mem_grow(state->env.memory, &blocks, &state->capacity, (size_t)state->count + 1, sizeof(block),
                      &state->fault))
        return 0;
    state->blocks = blocks;
    return state->count++;
}

/* 6. Memory is reached through the device table alone. Out of memory there is a normal answer; anything else
 *    is a fault. */
static asim_alloc_result open_region(asim_policy_state *state, unsigned device, unsigned lane)
{
    device_state *home = &state->devices[device];
    const asim_device *table = &state->env.device;
    uint64_t size = state->params.region;
    if (size == ASIM_PARAM_NONE) {
        uint64_t free_bytes, total;
        table->ops->memory(table->ctx, device, &free_bytes, &total);
        size = free_bytes;
    }
    asim_device_result result = table->ops->alloc(table->ctx, device, size, lane, &home->region);
    if (result != ASIM_DEVICE_OK)
        return result == ASIM_DEVICE_OOM ? ASIM_REFUSED : ASIM_BROKEN;
    home->first = block_new(state);
    if (!home->first)
        return ASIM_BROKEN;
    state->blocks[home->first] =
        (block){.address = home->region.address, .size = home->region.size, .device = (uint16_t)device};
    return ASIM_PLACED;
}

/* 7. The largest free block is the one number that the engine can't know. This is linear, and fine for a
 *    lesson; a real policy keeps it current as it goes. */
static void count_largest(asim_policy_state *state)
{
    uint64_t largest = 0;
    for (uint32_t d = 0; d < state->env.device_count; d++)
        for (uint32_t b = state->devices[d].first; b; b = state->blocks[b].next)
            if (state->blocks[b].state == ASIM_BLOCK_FREE && state->blocks[b].size > largest)
                largest = state->blocks[b].size;
    state->env.counters->largest_free_bytes = largest;
}

/* 8. Before ASIM_REFUSED the listener is told. */
static asim_alloc_result refuse(asim_policy_state *state, unsigned device, uint64_t rounded)
{
    const asim_device *table = &state->env.device;
    uint64_t free_bytes, total;
    table->ops->memory(table->ctx, device, &free_bytes, &total);
    state->env.listener->refusal(state->env.listener->ctx, device, rounded, rounded, free_bytes);
    return ASIM_REFUSED;
}

static asim_alloc_result skeleton_alloc(asim_policy_state *state, const asim_event *event,
                                        asim_placement *ret_placement)
{
    const unsigned device = state->env.lanes[event->lane].device;
    const uint64_t align = state->params.align;
    device_state *home = &state->devices[device];
    if (event->size == 0)
        return ASIM_NOTHING;
    if (event->size > UINT64_MAX - align)
        return refuse(state, device, event->size);
    const uint64_t size = (event->size + align - 1) / align * align;
    if (!home->first) {
        asim_alloc_result opened = open_region(state, device, event->lane);
        if (opened != ASIM_PLACED)
            return opened == ASIM_REFUSED ? refuse(state, device, size) : opened;
    }
    uint32_t found = home->first;
    for (; found; found = state->blocks[found].next) {
        state->env.counters->search_steps++;
        if (state->blocks[found].state == ASIM_BLOCK_FREE && state->blocks[found].size >= size)
            break;
    }
    if (!found) {
        count_largest(state);
        return refuse(state, device, size);
    }
    if (state->blocks[found].size > size) {
        uint32_t rest = block_new(state);
        if (!rest)
            return ASIM_BROKEN;
        block *front = &state->blocks[found];
        state->blocks[rest] = (block){.address = front->address + size,
                                      .size = front->size - size,
                                      .prev = found,
                                      .next = front->next,
                                      .device = front->device};
        if (front->next)
            state->blocks[front->next].prev = rest;
        front->next = rest;
        front->size = size;
    }
    state->blocks[found].state = ASIM_BLOCK_LIVE;
    count_largest(state);
    *ret_placement = (asim_placement){.address = state->blocks[found].address,
                                      .size = state->blocks[found].size,
                                      .rounded = size,
                                      .region = home->region.index,
                                      .word = found};
    return ASIM_PLACED;
}

/* The later of two neighbours joins the earlier one. */
static void join(asim_policy_state *state, uint32_t kept, uint32_t gone)
{
    block *blocks = state->blocks;
    blocks[kept].size += blocks[gone].size;
    blocks[kept].next = blocks[gone].next;
    if (blocks[gone].next)
        blocks[blocks[gone].next].prev = kept;
    blocks[gone] = (block){.next = state->spare, .state = UINT8_MAX};
    state->spare = gone;
}

static void release(asim_policy_state *state, uint32_t word)
{
    block *blocks = state->blocks;
    blocks[word].state = ASIM_BLOCK_FREE;
    if (blocks[word].next && blocks[blocks[word].next].state == ASIM_BLOCK_FREE)
        join(state, word, blocks[word].next);
    if (blocks[word].prev && blocks[blocks[word].prev].state == ASIM_BLOCK_FREE)
        join(state, blocks[word].prev, word);
    count_largest(state);
}

/* 9. With completion_follows the recording says when the block is reusable: free_done comes then. Without a
 *    free_done operation the engine keeps the free back itself; this one shows how it is done. */
static asim_free_result skeleton_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    if (completion_follows) {
        state->blocks[word].state = ASIM_BLOCK_PENDING;
        return ASIM_FREE_LATER;
    }
    release(state, word);
    return ASIM_FREED;
}

static asim_free_result skeleton_free_done(asim_policy_state *state, uint32_t word)
{
    release(state, word);
    return ASIM_FREED;
}

/* 10. check verifies every invariant; tests call it after each event. */
static asim_code skeleton_check(const asim_policy_state *state, asim_err *err)
{
    if (state->fault.code)
        return asim_fail(err, state->fault.code, "%s", state->fault.message);
    for (uint32_t d = 0; d < state->env.device_count; d++) {
        const device_state *home = &state->devices[d];
        uint64_t end = home->region.address;
        for (uint32_t b = home->first, before = 0; b; before = b, b = state->blocks[b].next) {
            if (state->blocks[b].address != end || state->blocks[b].prev != before)
                return asim_fail(err, ASIM_E_BUG, "block %u does not join on to the one before it", b);
            if (before && state->blocks[before].state == ASIM_BLOCK_FREE &&
                state->blocks[b].state == ASIM_BLOCK_FREE)
                return asim_fail(err, ASIM_E_BUG, "blocks %u and %u are free and did not merge", before, b);
            end += state->blocks[b].size;
        }
        if (home->first && end != home->region.address + home->region.size)
            return asim_fail(err, ASIM_E_BUG, "the blocks of device %u do not fill its region", d);
    }
    return ASIM_OK;
}

/* 11. walk shows segments and blocks, for layouts and for the referee. */
static void skeleton_walk(const asim_policy_state *state, const asim_walker *walker)
{
    for (uint32_t d = 0; d < state->env.device_count; d++) {
        const device_state *home = &state->devices[d];
        if (!home->first)
            continue;
        const asim_walk_segment segment = {.address = home->region.address,
                                           .size = home->region.size,
                                           .region = home->region.index,
                                           .device = (uint16_t)d};
        walker->segment(walker->ctx, &segment);
        for (uint32_t b = home->first; b; b = state->blocks[b].next) {
            const asim_walk_block shown = {.address = state->blocks[b].address,
                                           .size = state->blocks[b].size,
                                           .word = b,
                                           .state = (asim_block_state)state->blocks[b].state};
            walker->block(walker->ctx, &shown);
        }
    }
}

/* 12. The table. Operations that are left out are not called; policy.h says what happens instead. */
const asim_policy asim_policy_skeleton = {
    .version = ASIM_POLICY_VERSION,
    .flags = ASIM_POLICY_SINGLE_POOL | ASIM_POLICY_REFERENCE,
    .name = "skeleton",
    .summary = "first fit in one region: the example to copy",
    .source = "Knuth, The Art of Computer Programming 1, section 2.5",
    .state_size = sizeof(asim_policy_state),
    .params = {params, sizeof params / sizeof params[0], sizeof(skeleton_params)},
    .init = skeleton_init,
    .alloc = skeleton_alloc,
    .free = skeleton_free,
    .check = skeleton_check,
    .walk = skeleton_walk,
    .fini = skeleton_fini,
    .free_done = skeleton_free_done,
};
