/* lower-bound - the least memory that any allocator could hold: exactly what is live, at every moment.
 *
 * It is no allocator but a ruler. A device's live bytes, each request rounded up to `align`, are covered by
 * pages of one reserved range, mapped as the sum grows past them and never given back:
 *
 *     live    1.5 pages        2.3 pages        0.4 pages
 *     range   [mapped][mapped] [mapped][mapped][mapped] [mapped][mapped][mapped][    reserved    ]
 *
 * so reserved memory is at every moment the peak of live bytes so far, up to a page, and peak_reserved_bytes
 * of another policy divided by this one's says how far from the possible it is. A block whose free waits for
 * its recorded completion is live until then. A growing block (resize) grows in place: it never needs the
 * old and the new size at once. A request is refused when the sum would exceed the device.
 *
 * Source: the load of dynamic storage allocation: M. R. Garey and D. S. Johnson, Computers and
 * Intractability, 1979, problem SR2; no placement of blocks in one address space can need less, and some
 * instances need more. Cost: O(1) a request. No ties. Placements are no addresses in the range: each is a
 * number of its own, in ascending steps, and names no region.
 *
 * Left out: uses by other streams whose end is not recorded. Such a block counts as free when the program
 * frees it, which keeps the bound a lower one.
 */
#include "policies/registry.h"

#include <inttypes.h>
#include <stddef.h>

typedef struct bound_params {
    uint64_t align;
    uint64_t page;
} bound_params;

enum {
    PAGES_MAX = 1 << 26 /* of a device: the books keep four bytes for each */
};

static const asim_param params[] = {
    {.name = "align",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(bound_params, align),
     .default_text = "512",
     .min = 1,
     .max = UINT64_C(2) << 20,
     .help = "each request counts as a multiple of this many bytes"},
    {.name = "page",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(bound_params, page),
     .default_text = "2MiB",
     .min = 1,
     .max = UINT64_C(1) << 30,
     .help = "memory is mapped in pages of this many bytes"},
};

typedef struct device_state {
    asim_region range; /* size 0: not there yet */
    uint64_t active;   /* bytes of live and pending blocks */
    uint64_t mapped;
} device_state;

typedef struct block {
    uint64_t size; /* bytes, rounded; of a spare record: the next spare one */
    uint16_t lane;
} block;

struct asim_policy_state {
    asim_policy_env env;
    bound_params params;
    device_state *devices;
    block *blocks; /* [0] is none */
    size_t capacity;
    uint32_t count, spare;
    uint64_t next_address;
    asim_err fault;
};

static asim_code bound_init(asim_policy_state *state, const asim_policy_env *env, const void *block_of_params,
                            asim_err *err)
{
    state->env = *env;
    state->params = *(const bound_params *)block_of_params;
    state->count = 1;
    state->next_address = state->params.align;
    for (uint32_t d = 0; d < env->device_count; d++)
        if (env->capacities[d] / state->params.page >= PAGES_MAX)
            return asim_fail(err, ASIM_E_USAGE,
                             "pages of %" PRIu64 " bytes are too small for a device of %" PRIu64
                             " bytes: set page to %" PRIu64 " or more",
                             state->params.page, env->capacities[d], env->capacities[d] / PAGES_MAX + 1);
    state->devices = asim_mem_new(env->memory, env->device_count, sizeof *state->devices);
    if (!state->devices)
        return asim_fail_memory(err, env->device_count * sizeof *state->devices);
    return ASIM_OK;
}

static void bound_fini(asim_policy_state *state)
{
    if (!state->env.memory)
        return;
    asim_mem_free(state->env.memory, state->blocks, state->capacity, sizeof *state->blocks);
    asim_mem_free(state->env.memory, state->devices, state->env.device_count, sizeof *state->devices);
}

static uint32_t block_new(asim_policy_state *state)
{
    const uint32_t fresh = state->spare;
    if (fresh) {
        state->spare = (uint32_t)state->blocks[fresh].size;
        return fresh;
    }
    void *blocks = state->blocks;
    if (asim_mem_grow(state->env.memory, &blocks, &state->capacity, (size_t)state->count + 1, sizeof(block),
                      &state->fault))
        return 0;
    state->blocks = blocks;
    return state->count++;
}

static unsigned device_of(const asim_policy_state *state, uint32_t word)
{
    return state->env.lanes[state->blocks[word].lane].device;
}

static void block_end(asim_policy_state *state, uint32_t word)
{
    state->devices[device_of(state, word)].active -= state->blocks[word].size;
    state->blocks[word].size = state->spare;
    state->spare = word;
}

/* What is mapped and not live would all fit one block: nothing is ever fragmented. */
static void count_free(asim_policy_state *state)
{
    uint64_t free_bytes = 0;
    for (uint32_t d = 0; d < state->env.device_count; d++)
        free_bytes += state->devices[d].mapped - state->devices[d].active;
    state->env.counters->largest_free_bytes = free_bytes;
}

static asim_alloc_result refuse(asim_policy_state *state, unsigned device, uint64_t rounded, uint64_t more)
{
    const asim_device *table = &state->env.device;
    uint64_t free_bytes, total;
    table->ops->memory(table->ctx, device, &free_bytes, &total);
    state->env.listener->refusal(state->env.listener->ctx, device, rounded, more, free_bytes);
    return ASIM_REFUSED;
}

/* Maps pages until active bytes are covered. */
static asim_device_result cover(asim_policy_state *state, unsigned device, unsigned lane, uint64_t active)
{
    device_state *home = &state->devices[device];
    const asim_device *table = &state->env.device;
    const uint64_t page = state->params.page;
    if (active <= home->mapped)
        return ASIM_DEVICE_OK;
    if (!home->range.size) {
        const uint64_t size = (state->env.capacities[device] + page - 1) / page * page;
        const asim_device_result result = table->ops->reserve(table->ctx, device, size, lane, &home->range);
        if (result != ASIM_DEVICE_OK) {
            home->range.size = 0;
            return result;
        }
    }
    const uint64_t more = (active - home->mapped + page - 1) / page * page;
    const asim_device_result result =
        table->ops->map(table->ctx, home->range.index, home->mapped, more, page);
    if (result == ASIM_DEVICE_OK)
        home->mapped += more;
    return result;
}

/* The block of word, of 0 bytes at first, becomes one of size bytes, rounded, at an address of its own. */
static asim_alloc_result take(asim_policy_state *state, uint32_t word, uint64_t size,
                              asim_placement *ret_placement)
{
    const unsigned device = device_of(state, word);
    device_state *home = &state->devices[device];
    const uint64_t align = state->params.align, rest = home->active - state->blocks[word].size;
    if (size > UINT64_MAX - align + 1)
        return refuse(state, device, size, size);
    const uint64_t rounded = (size + align - 1) / align * align;
    if (rest > state->env.capacities[device] || rounded > state->env.capacities[device] - rest)
        return refuse(state, device, rounded, rounded);
    const asim_device_result result = cover(state, device, state->blocks[word].lane, rest + rounded);
    if (result == ASIM_DEVICE_ERROR)
        return ASIM_BROKEN;
    if (result == ASIM_DEVICE_OOM)
        return refuse(state, device, rounded, rest + rounded - home->mapped);
    home->active = rest + rounded;
    state->blocks[word].size = rounded;
    count_free(state);
    *ret_placement = (asim_placement){.address = state->next_address,
                                      .size = rounded,
                                      .rounded = rounded,
                                      .region = ASIM_NO_INDEX,
                                      .word = word};
    state->next_address += rounded;
    return ASIM_PLACED;
}

static asim_alloc_result bound_alloc(asim_policy_state *state, const asim_event *event,
                                     asim_placement *ret_placement)
{
    if (event->size == 0)
        return ASIM_NOTHING;
    const uint32_t word = block_new(state);
    if (!word)
        return ASIM_BROKEN;
    state->blocks[word] = (block){.lane = event->lane};
    const asim_alloc_result result = take(state, word, event->size, ret_placement);
    if (result != ASIM_PLACED)
        block_end(state, word);
    return result;
}

/* A block of no bytes keeps one unit, as every block has an address. */
static asim_alloc_result bound_resize(asim_policy_state *state, uint32_t word, const asim_event *event,
                                      asim_placement *ret_placement)
{
    return take(state, word, event->size ? event->size : 1, ret_placement);
}

static asim_free_result bound_free_done(asim_policy_state *state, uint32_t word)
{
    block_end(state, word);
    count_free(state);
    return ASIM_FREED;
}

static asim_free_result bound_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    return completion_follows ? ASIM_FREE_LATER : bound_free_done(state, word);
}

static asim_code bound_check(const asim_policy_state *state, asim_err *err)
{
    if (state->fault.code)
        return asim_fail(err, state->fault.code, "%s", state->fault.message);
    for (uint32_t d = 0; d < state->env.device_count; d++)
        if (state->devices[d].active > state->devices[d].mapped)
            return asim_fail(err, ASIM_E_BUG, "device %" PRIu32 ": more is live than mapped", d);
    return ASIM_OK;
}

/* Its blocks have no place in the range. */
static void bound_walk(const asim_policy_state *state, const asim_walker *walker)
{
    (void)state;
    (void)walker;
}

const asim_policy asim_policy_lower_bound = {
    .version = ASIM_POLICY_VERSION,
    .flags = ASIM_POLICY_REFERENCE,
    .name = "lower-bound",
    .summary = "the peak of live bytes: what no allocator can go below",
    .source = "the load of dynamic storage allocation (Garey and Johnson, 1979, problem SR2)",
    .state_size = sizeof(asim_policy_state),
    .params = {params, sizeof params / sizeof params[0], sizeof(bound_params)},
    .init = bound_init,
    .alloc = bound_alloc,
    .free = bound_free,
    .check = bound_check,
    .walk = bound_walk,
    .fini = bound_fini,
    .free_done = bound_free_done,
    .resize = bound_resize,
};
