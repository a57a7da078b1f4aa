/* native - no allocator at all: every allocation is a cudaMalloc, every free a cudaFree.
 *
 * What it models: the CUDA runtime's cudaMalloc and cudaFree, as a program calls them that keeps no cache
 * (PyTorch under PYTORCH_NO_CUDA_MEMORY_CACHING=1). CUDA C++ Programming Guide, "Device Memory" and
 * "Stream-Ordered Memory Allocator"; CUDA Driver API, cuMemAlloc and cuMemFree (release 13.0),
 * https://docs.nvidia.com/cuda/. It is the lower end of caching: nothing is ever held for later, and each
 * free makes the host wait until the device has done all that it was given.
 *
 *     alloc   a region of its own, rounded up to align      [ live ][..]
 *     free    wait for every stream of the device, then the region goes back
 *
 * A block that other streams use needs no care: the wait of cudaFree covers them, so its memory is free at
 * once, and the time is in stall_ns. sync_waits counts these waits. Where a recording says when a free was
 * complete, cudaFree is called then.
 *
 * A request of no bytes gets no block (cuMemAlloc calls it an invalid value).
 *
 * What the closed driver does not tell, and what is assumed: an address is aligned to at least 256 bytes (the
 * Programming Guide), so a block is counted in steps of that. The driver takes memory in large pages, and
 * seems to pack small requests into shared ones; here the device charges each call with whole granules of its
 * profile. A program with very many small blocks therefore runs out of memory earlier here than on a GPU.
 *
 * Ties: none, nothing is chosen. Cost: O(1) a call, besides the device's; linear in the live blocks where a
 * device hands out descending addresses.
 */
#include "policies/region_blocks.h"
#include "policies/registry.h"

#include <stddef.h>

typedef struct native_params {
    uint64_t align;
} native_params;

static const asim_param params[] = {
    {.name = "align",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(native_params, align),
     .default_text = "256",
     .min = 1,
     .max = UINT64_C(1) << 30,
     .help = "each allocation counts in multiples of this many bytes; 2MiB: as whole pages of the driver"},
};

struct asim_policy_state {
    asim_policy_env env;
    asim_region_blocks rb; /* one block a region, always live */
    uint64_t align;
    asim_err fault;
};

static asim_code native_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                             asim_err *err)
{
    state->env = *env;
    state->align = ((const native_params *)block)->align;
    return asim_rb_init(&state->rb, env, err);
}

static void native_fini(asim_policy_state *state)
{
    asim_rb_fini(&state->rb);
}

static asim_alloc_result refuse(const asim_policy_state *state, unsigned device, uint64_t size)
{
    const asim_device *table = &state->env.device;
    uint64_t free_bytes, total;
    table->ops->memory(table->ctx, device, &free_bytes, &total);
    state->env.listener->refusal(state->env.listener->ctx, device, size, size, free_bytes);
    return ASIM_REFUSED;
}

static asim_alloc_result native_alloc(asim_policy_state *state, const asim_event *event,
                                      asim_placement *ret_placement)
{
    const unsigned device = state->env.lanes[event->lane].device;
    const asim_device *table = &state->env.device;
    asim_region region;
    if (state->fault.code)
        return ASIM_BROKEN;
    if (event->size == 0)
        return ASIM_NOTHING;
    if (event->size > UINT64_MAX - state->align)
        return refuse(state, device, event->size);
    const uint64_t size = (event->size + state->align - 1) / state->align * state->align;
    const asim_device_result result = table->ops->alloc(table->ctx, device, size, event->lane, &region);
    if (result == ASIM_DEVICE_OOM)
        return refuse(state, device, size);
    if (result != ASIM_DEVICE_OK) {
        asim_fail(&state->fault, ASIM_E_BUG, "the device's alloc failed for another reason than memory");
        return ASIM_BROKEN;
    }
    const uint32_t block = asim_rb_region_add(&state->rb, &region, size, event->lane, &state->fault);
    if (!block)
        return ASIM_BROKEN;
    state->rb.blocks[block].state = ASIM_BLOCK_LIVE;
    state->rb.blocks[block].requested = event->size;
    *ret_placement = (asim_placement){
        .address = region.address, .size = size, .rounded = size, .region = region.index, .word = block};
    return ASIM_PLACED;
}

/* Without free_done: the engine calls when a recorded completion is due. */
static asim_free_result native_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    const asim_device *table = &state->env.device;
    const uint32_t region = state->rb.blocks[word].region;
    (void)completion_follows;
    state->env.counters->sync_waits++;
    if (table->ops->free(table->ctx, state->rb.regions[region].index) != ASIM_DEVICE_OK) {
        asim_fail(&state->fault, ASIM_E_BUG, "the device's free failed");
        return ASIM_FREE_BROKEN;
    }
    asim_rb_region_drop(&state->rb, region);
    return ASIM_FREED;
}

static asim_code native_check(const asim_policy_state *state, asim_err *err)
{
    if (state->fault.code)
        return asim_fail(err, state->fault.code, "%s", state->fault.message);
    for (uint32_t r = state->rb.first_region; r; r = state->rb.regions[r].next)
        if (!asim_rb_is_whole(&state->rb, state->rb.regions[r].first))
            return asim_fail(err, ASIM_E_BUG, "region %u holds more than one block", r);
    return asim_rb_check(&state->rb, err);
}

static void native_walk(const asim_policy_state *state, const asim_walker *walker)
{
    asim_rb_walk(&state->rb, walker, NULL, NULL);
}

const asim_policy asim_policy_native = {
    .version = ASIM_POLICY_VERSION,
    .name = "native",
    .summary = "no cache: every allocation is cudaMalloc, every free cudaFree and its wait",
    .source = "CUDA 13.0, cudaMalloc and cudaFree",
    .state_size = sizeof(asim_policy_state),
    .params = {params, sizeof params / sizeof params[0], sizeof(native_params)},
    .init = native_init,
    .alloc = native_alloc,
    .free = native_free,
    .check = native_check,
    .walk = native_walk,
    .fini = native_fini,
};
