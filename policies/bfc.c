/* bfc - TensorFlow's best-fit with coalescing allocator ("GPU_0_bfc"), one a device.
 *
 * What it models: TensorFlow 2.15, third_party/xla/third_party/tsl/tsl/framework/bfc_allocator.{h,cc} over
 * the plain cudaMalloc suballocator, as GPUBFCAllocator sets it up; https://github.com/tensorflow/tensorflow.
 *
 * How it works. Requests are rounded up to 256 bytes. Free chunks lie in 21 bins, by powers of two from 256
 * bytes on, ordered by (size, address) inside; the first chunk that is large enough is taken. As bins ascend
 * with size too, that is the best fit over all of them, and is found here without walking bins. A chunk is
 * split if it is at least twice the request, or if the rest reaches a limit: fragmentation_fraction of all
 * the memory, or 128 MiB where that is 0. Otherwise the whole chunk is handed out.
 *
 *     split     [              free               ]        size >= 2 x rounded, or rest >= limit
 *               [ live ][          free           ]
 *     whole     [ live                (slack)]             otherwise
 *     free      [ free ][ freed ][ free ]   ->   [          free          ]
 *
 *     miss      extend by one region -> (collect garbage, extend) -> (wait for events, all of it again)
 *
 * A region is as large as allow_growth says: all of the limit at once (false), or 2 MiB at first and twice as
 * much each time (true), or what the request needs, by further doubling; never beyond the limit. If the
 * device refuses, nine tenths of it are tried, again and again, while the request fits. Garbage collection
 * gives back all regions without a live chunk, if the request fits into them and what is left of the limit.
 *
 * Streams: BFC knows none, since TensorFlow's kernels share one: what is freed on one is handed to any other.
 * What other streams use is held until their events pass, as TensorFlow's event manager holds the tensor;
 * they are looked at when the next request begins. A request that fails while frees wait is tried again after
 * waiting for them (allow_retry_on_failure: TensorFlow waits up to 10 s for other threads' frees).
 *
 * Ties: best fit by (size, address). Cost: O(1) for the usual request and free, O(log n) when n free chunks
 * have nearly the same size; garbage collection is linear in the regions.
 *
 * Left out: the virtual-memory suballocator that joins regions (compiled out in that release), timestamped
 * chunks (SetTimingCounter, off by default), visitors, the memory dump. By default TensorFlow leaves some
 * memory to the system (225 to 1800 MiB by device): set system_memory for that; the default here is none,
 * as for the other policies. Where a refused region of less than 2,561 bytes no longer shrinks by a tenth,
 * the original asks for it for ever; here the request fails.
 */
#include "policies/region_blocks.h"
#include "policies/registry.h"
#include "policies/stream_uses.h"

#include <stddef.h>

#define MIB (UINT64_C(1) << 20)

enum {
    GRANULE = 256
};

static const uint64_t first_region = 2 * MIB, default_waste = 128 * MIB;
static const uint64_t largest_request = UINT64_C(1) << 60;

typedef struct bfc_params {
    uint64_t memory_limit;
    double memory_fraction;
    uint64_t system_memory;
    double fragmentation_fraction;
    bool allow_growth;
    bool garbage_collection;
    bool allow_retry_on_failure;
} bfc_params;

static const asim_param params[] = {
    {.name = "allow_growth",
     .type = ASIM_PARAM_BOOL,
     .offset = offsetof(bfc_params, allow_growth),
     .default_text = "false",
     .help = "begin with 2 MiB and double each new region; false: take all of the limit at once"},
    {.name = "garbage_collection",
     .type = ASIM_PARAM_BOOL,
     .offset = offsetof(bfc_params, garbage_collection),
     .default_text = "true",
     .help = "give free regions back to form a larger one before failing (TF_ENABLE_GPU_GARBAGE_COLLECTION)"},
    {.name = "allow_retry_on_failure",
     .type = ASIM_PARAM_BOOL,
     .offset = offsetof(bfc_params, allow_retry_on_failure),
     .default_text = "true",
     .help = "before failing, wait for frees that other streams hold up, and try again"},
    {.name = "fragmentation_fraction",
     .type = ASIM_PARAM_REAL,
     .offset = offsetof(bfc_params, fragmentation_fraction),
     .default_text = "0",
     .real_min = 0,
     .real_max = 1,
     .help = "share of the memory limit that a chunk may waste unsplit; 0: 128 MiB (internal_fragmentation_"
             "fraction)"},
    {.name = "memory_limit",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(bfc_params, memory_limit),
     .default_text = "none",
     .min = GRANULE,
     .max = UINT64_C(1) << 60,
     .none_allowed = true,
     .help = "bytes taken from a device at most; none: all that is free, or memory_fraction"},
    {.name = "memory_fraction",
     .type = ASIM_PARAM_REAL,
     .offset = offsetof(bfc_params, memory_fraction),
     .default_text = "0",
     .real_min = 0,
     .real_max = 1,
     .help =
         "share of all device memory taken at most (per_process_gpu_memory_fraction); 0: all that is free"},
    {.name = "system_memory",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(bfc_params, system_memory),
     .default_text = "0",
     .min = 0,
     .max = UINT64_C(1) << 40,
     .help =
         "bytes left free where neither limit nor fraction is set; TensorFlow: 225 to 1800 MiB by device"},
};

typedef struct bfc_device {
    uint64_t limit;       /* memory_limit_ */
    uint64_t next_region; /* curr_region_allocation_bytes_ */
    uint64_t waste;       /* a rest of this many bytes is always split off */
    uint64_t pool, peak_pool, in_use, peak_in_use, largest_alloc, allocs;
    uint32_t list;
    bool open;
} bfc_device;

struct asim_policy_state {
    asim_policy_env env;
    bfc_params params;
    asim_region_blocks rb;
    asim_stream_uses uses;
    bfc_device *devices;
    asim_err fault;
};

static asim_code bfc_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                          asim_err *err)
{
    state->env = *env;
    state->params = *(const bfc_params *)block;
    if (state->params.memory_limit != ASIM_PARAM_NONE && state->params.memory_fraction > 0)
        return asim_fail(err, ASIM_E_USAGE,
                         "bfc: memory_limit and memory_fraction both say how much memory to take; set one");
    if (state->params.system_memory > 0 &&
        (state->params.memory_limit != ASIM_PARAM_NONE || state->params.memory_fraction > 0))
        return asim_fail(err, ASIM_E_USAGE,
                         "bfc: system_memory has no effect beside memory_limit or memory_fraction; set one");
    asim_code code = asim_rb_init(&state->rb, env, err);
    if (!code)
        code = asim_uses_init(&state->uses, env, err);
    if (code || !env->device_count)
        return code;
    state->devices = asim_mem_new(env->memory, env->device_count, sizeof *state->devices);
    if (!state->devices)
        return asim_fail_memory(err, env->device_count * sizeof *state->devices);
    for (uint32_t d = 0; d < env->device_count; d++) {
        state->devices[d].list = asim_rb_list_new(&state->rb, err);
        if (!state->devices[d].list)
            return ASIM_E_SYSTEM;
    }
    return ASIM_OK;
}

static void bfc_fini(asim_policy_state *state)
{
    asim_rb_fini(&state->rb);
    asim_uses_fini(&state->uses);
    if (state->env.memory)
        asim_mem_free(state->env.memory, state->devices, state->env.device_count, sizeof *state->devices);
}

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + GRANULE - 1) / GRANULE * GRANULE;
}

/* The limits of a device, once it is asked for memory for the first time. */
static void open_device(asim_policy_state *state, unsigned index)
{
    bfc_device *device = &state->devices[index];
    const bfc_params *p = &state->params;
    uint64_t free_bytes, total;
    state->env.device.ops->memory(state->env.device.ctx, index, &free_bytes, &total);
    device->limit = p->memory_limit;
    if (p->memory_fraction > 0)
        device->limit = (uint64_t)((double)total * p->memory_fraction);
    else if (device->limit == ASIM_PARAM_NONE)
        device->limit = free_bytes > p->system_memory ? free_bytes - p->system_memory : 0;
    device->next_region =
        round_up(p->allow_growth && device->limit > first_region ? first_region : device->limit);
    if (!device->next_region) /* so that doubling gets somewhere */
        device->next_region = GRANULE;
    device->waste = p->fragmentation_fraction > 0
                        ? (uint64_t)(p->fragmentation_fraction * (double)device->limit)
                        : default_waste;
    device->open = true;
}

/* BFCAllocator::Extend. ASIM_REFUSED: no memory for it. */
static asim_alloc_result extend(asim_policy_state *state, unsigned index, unsigned lane, uint64_t rounded)
{
    bfc_device *device = &state->devices[index];
    const asim_device *table = &state->env.device;
    const uint64_t available = (device->limit - device->pool) / GRANULE * GRANULE;
    if (rounded > available)
        return ASIM_REFUSED;
    bool grown = false;
    for (; rounded > device->next_region; grown = true)
        device->next_region *= 2;
    uint64_t bytes = device->next_region < available ? device->next_region : available;
    asim_region region;
    asim_device_result result;
    while ((result = table->ops->alloc(table->ctx, index, bytes, lane, &region)) == ASIM_DEVICE_OOM) {
        const uint64_t less = round_up((uint64_t)((float)bytes * 0.9F));
        if (less < rounded || less >= bytes)
            return ASIM_REFUSED;
        bytes = less;
    }
    if (result != ASIM_DEVICE_OK) {
        asim_fail(&state->fault, ASIM_E_BUG, "the device's alloc failed for another reason than memory");
        return ASIM_BROKEN;
    }
    if (!grown && device->next_region < largest_request)
        device->next_region *= 2;
    const uint32_t block = asim_rb_region_add(&state->rb, &region, bytes, lane, &state->fault);
    if (!block)
        return ASIM_BROKEN;
    asim_rb_put(&state->rb, device->list, block);
    device->pool += bytes;
    if (device->pool > device->peak_pool)
        device->peak_pool = device->pool;
    return ASIM_PLACED;
}

static bool is_free_region(const asim_region_blocks *rb, uint32_t region)
{
    const uint32_t first = rb->regions[region].first;
    return rb->blocks[first].state == ASIM_BLOCK_FREE && asim_rb_is_whole(rb, first);
}

/* BFCAllocator::DeallocateFreeRegions. ASIM_REFUSED: it would not help. */
static asim_alloc_result collect_garbage(asim_policy_state *state, unsigned index, uint64_t rounded)
{
    bfc_device *device = &state->devices[index];
    const asim_region_blocks *rb = &state->rb;
    uint64_t total = 0;
    if (!state->params.garbage_collection)
        return ASIM_REFUSED;
    for (uint32_t r = rb->first_region; r; r = rb->regions[r].next)
        if (rb->regions[r].device == index && is_free_region(rb, r))
            total += rb->regions[r].size;
    if (total == 0 || rounded > device->limit - device->pool + total)
        return ASIM_REFUSED;
    uint32_t next;
    for (uint32_t r = rb->first_region; r; r = next) {
        next = rb->regions[r].next;
        if (rb->regions[r].device != index || !is_free_region(rb, r))
            continue;
        if (state->env.device.ops->free(state->env.device.ctx, rb->regions[r].index) != ASIM_DEVICE_OK) {
            asim_fail(&state->fault, ASIM_E_BUG, "the device's free failed");
            return ASIM_BROKEN;
        }
        device->pool -= rb->regions[r].size;
        asim_rb_region_drop(&state->rb, r);
    }
    state->env.counters->cache_flushes++;
    return ASIM_PLACED;
}

static uint32_t find(asim_policy_state *state, unsigned index, uint64_t rounded)
{
    return asim_rb_take(&state->rb, state->devices[index].list, rounded, &state->env.counters->search_steps);
}

/* BFCAllocator::AllocateRawInternal without its split. *ret_block is taken off the list. */
static asim_alloc_result obtain(asim_policy_state *state, unsigned index, unsigned lane, uint64_t rounded,
                                uint32_t *ret_block)
{
    *ret_block = find(state, index, rounded);
    if (*ret_block)
        return ASIM_PLACED;
    asim_alloc_result result = extend(state, index, lane, rounded);
    if (result == ASIM_REFUSED) {
        result = collect_garbage(state, index, rounded);
        if (result == ASIM_PLACED)
            result = extend(state, index, lane, rounded);
    }
    if (result == ASIM_PLACED)
        *ret_block = find(state, index, rounded);
    return result;
}

static uint32_t give_back(asim_policy_state *state, uint32_t block)
{
    bfc_device *device = &state->devices[state->rb.regions[state->rb.blocks[block].region].device];
    device->in_use -= state->rb.extents[block].size;
    return asim_rb_put(&state->rb, device->list, block);
}

/* The events of a pending free have passed. */
static void complete(void *ctx, uint32_t block)
{
    asim_policy_state *state = ctx;
    const asim_extent *extent = &state->rb.extents[block];
    state->env.listener->free_done(state->env.listener->ctx, extent->address, extent->size,
                                   state->rb.blocks[block].requested);
    give_back(state, block);
}

static void settle(asim_policy_state *state)
{
    state->env.counters->largest_free_bytes = asim_rb_largest(&state->rb);
}

static asim_alloc_result refuse(asim_policy_state *state, unsigned index, uint64_t rounded)
{
    uint64_t free_bytes, total;
    state->env.device.ops->memory(state->env.device.ctx, index, &free_bytes, &total);
    settle(state);
    state->env.listener->refusal(state->env.listener->ctx, index, rounded, rounded, free_bytes);
    return ASIM_REFUSED;
}

static asim_alloc_result bfc_alloc(asim_policy_state *state, const asim_event *event,
                                   asim_placement *ret_placement)
{
    const unsigned index = state->env.lanes[event->lane].device;
    bfc_device *device = &state->devices[index];
    if (state->fault.code)
        return ASIM_BROKEN;
    if (event->size == 0)
        return ASIM_NOTHING;
    if (asim_uses_pending(&state->uses))
        asim_uses_poll(&state->uses, false, complete, state);
    if (event->size > largest_request)
        return refuse(state, index, event->size);
    if (!device->open)
        open_device(state, index);
    const uint64_t rounded = round_up(event->size);
    uint32_t block = 0;
    asim_alloc_result result = obtain(state, index, event->lane, rounded, &block);
    if (result == ASIM_REFUSED && state->params.allow_retry_on_failure && asim_uses_pending(&state->uses)) {
        state->env.counters->sync_waits++;
        state->env.counters->alloc_retries++;
        asim_uses_poll(&state->uses, true, complete, state);
        result = obtain(state, index, event->lane, rounded, &block);
    }
    if (result != ASIM_PLACED)
        return result == ASIM_REFUSED ? refuse(state, index, rounded) : result;
    const uint64_t whole = state->rb.extents[block].size;
    if (whole >= rounded * 2 || whole - rounded >= device->waste) {
        if (whole > rounded) {
            const uint32_t rest = asim_rb_split(&state->rb, block, rounded, &state->fault);
            if (!rest)
                return ASIM_BROKEN;
            asim_rb_put(&state->rb, device->list, rest);
        }
    }
    const asim_extent *extent = &state->rb.extents[block];
    asim_rb_block *taken = &state->rb.blocks[block];
    taken->state = ASIM_BLOCK_LIVE;
    taken->requested = event->size;
    taken->lane = event->lane;
    device->allocs++;
    device->in_use += extent->size;
    if (device->in_use > device->peak_in_use)
        device->peak_in_use = device->in_use;
    if (extent->size > device->largest_alloc)
        device->largest_alloc = extent->size;
    settle(state);
    *ret_placement = (asim_placement){.address = extent->address,
                                      .size = extent->size,
                                      .rounded = rounded,
                                      .region = state->rb.regions[taken->region].index,
                                      .word = block};
    return ASIM_PLACED;
}

static asim_free_result bfc_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    asim_rb_block *block = &state->rb.blocks[word];
    if (state->fault.code)
        return ASIM_FREE_BROKEN;
    if (completion_follows) {
        asim_uses_forget(&state->uses, &block->uses);
        block->state = ASIM_BLOCK_PENDING;
        return ASIM_FREE_LATER;
    }
    if (block->uses) {
        block->state = ASIM_BLOCK_PENDING;
        return asim_uses_wait(&state->uses, &block->uses, word, &state->fault) ? ASIM_FREE_BROKEN
                                                                               : ASIM_FREE_LATER;
    }
    give_back(state, word);
    settle(state);
    return ASIM_FREED;
}

static asim_free_result bfc_free_done(asim_policy_state *state, uint32_t word)
{
    give_back(state, word);
    settle(state);
    return ASIM_FREED;
}

static void bfc_use(asim_policy_state *state, uint32_t word, unsigned lane)
{
    asim_rb_block *block = &state->rb.blocks[word];
    asim_uses_add(&state->uses, &block->uses, block->lane, lane, &state->fault);
}

static asim_code bfc_check(const asim_policy_state *state, asim_err *err)
{
    if (state->fault.code)
        return asim_fail(err, state->fault.code, "%s", state->fault.message);
    for (uint32_t d = 0; d < state->env.device_count; d++) {
        const bfc_device *device = &state->devices[d];
        uint64_t pool = 0, in_use = 0;
        for (uint32_t r = state->rb.first_region; r; r = state->rb.regions[r].next) {
            if (state->rb.regions[r].device != d)
                continue;
            pool += state->rb.regions[r].size;
            for (uint32_t b = state->rb.regions[r].first; b; b = state->rb.extents[b].next)
                if (state->rb.blocks[b].state != ASIM_BLOCK_FREE)
                    in_use += state->rb.extents[b].size;
        }
        if (pool != device->pool || in_use != device->in_use || pool > device->limit)
            return asim_fail(err, ASIM_E_BUG,
                             "device %u: %llu bytes are held and %llu in use, counted as "
                             "%llu and %llu",
                             d, (unsigned long long)pool, (unsigned long long)in_use,
                             (unsigned long long)device->pool, (unsigned long long)device->in_use);
    }
    return asim_rb_check(&state->rb, err);
}

static void bfc_walk(const asim_policy_state *state, const asim_walker *walker)
{
    asim_rb_walk(&state->rb, walker, NULL, NULL);
}

/* AllocatorStats, by the names that TensorFlow prints. */
static void bfc_report(const asim_policy_state *state, unsigned index,
                       void (*emit)(void *ctx, const char *name, int64_t value), void *ctx)
{
    const bfc_device *device = &state->devices[index];
    emit(ctx, "num_allocs", (int64_t)device->allocs);
    emit(ctx, "bytes_in_use", (int64_t)device->in_use);
    emit(ctx, "peak_bytes_in_use", (int64_t)device->peak_in_use);
    emit(ctx, "largest_alloc_size", (int64_t)device->largest_alloc);
    emit(ctx, "bytes_limit", (int64_t)device->limit);
    emit(ctx, "pool_bytes", (int64_t)device->pool);
    emit(ctx, "peak_pool_bytes", (int64_t)device->peak_pool);
}

const asim_policy asim_policy_bfc = {
    .version = ASIM_POLICY_VERSION,
    .name = "bfc",
    .summary = "TensorFlow's best fit with coalescing",
    .source = "TensorFlow 2.15, tsl/framework/bfc_allocator",
    .state_size = sizeof(asim_policy_state),
    .params = {params, sizeof params / sizeof params[0], sizeof(bfc_params)},
    .init = bfc_init,
    .alloc = bfc_alloc,
    .free = bfc_free,
    .check = bfc_check,
    .walk = bfc_walk,
    .fini = bfc_fini,
    .free_done = bfc_free_done,
    .use = bfc_use,
    .report = bfc_report,
};
