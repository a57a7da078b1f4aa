#include "policies/rmm_upstream.h"

static uint64_t free_memory(const asim_policy_env *env, unsigned device)
{
    uint64_t free_bytes, total;
    env->device.ops->memory(env->device.ctx, device, &free_bytes, &total);
    return free_bytes;
}

static uint64_t initial_size(const asim_rmm_upstream *up, unsigned device)
{
    if (up->config.initial != ASIM_PARAM_NONE)
        return up->config.initial;
    return free_memory(&up->env, device) / 2 / ASIM_RMM_ALIGN * ASIM_RMM_ALIGN;
}

static asim_code check_sizes(const asim_rmm_upstream *up, asim_err *err)
{
    const asim_rmm_upstream_config *c = &up->config;
    if (c->initial != ASIM_PARAM_NONE && c->initial % ASIM_RMM_ALIGN)
        return asim_fail(err, ASIM_E_USAGE, "initial_pool_size must be a multiple of 256 bytes, %llu is none",
                         (unsigned long long)c->initial);
    if (c->maximum == ASIM_PARAM_NONE)
        return ASIM_OK;
    if (c->maximum % ASIM_RMM_ALIGN)
        return asim_fail(err, ASIM_E_USAGE, "maximum_pool_size must be a multiple of 256 bytes, %llu is none",
                         (unsigned long long)c->maximum);
    for (unsigned device = 0; device < up->env.device_count; device++)
        if (initial_size(up, device) > c->maximum)
            return asim_fail(err, ASIM_E_USAGE,
                             "initial_pool_size (%llu; by default half of the free device memory) exceeds "
                             "maximum_pool_size (%llu)",
                             (unsigned long long)initial_size(up, device), (unsigned long long)c->maximum);
    return ASIM_OK;
}

asim_code asim_rmm_upstream_init(asim_rmm_upstream *up, const asim_policy_env *env,
                                 const asim_rmm_upstream_config *config, asim_stream_uses *uses,
                                 asim_err *err)
{
    up->env = *env;
    up->config = *config;
    up->uses = uses;
    asim_code code = config->plain ? ASIM_OK : check_sizes(up, err);
    if (!code)
        code = asim_rb_init(&up->rb, env, err);
    if (code || !env->device_count || !env->lane_count)
        return code;
    up->pools = asim_mem_new(env->memory, env->device_count, sizeof *up->pools);
    up->lists = asim_mem_new(env->memory, env->lane_count, sizeof *up->lists);
    if (!up->pools || !up->lists)
        return asim_fail_memory(err, env->device_count * sizeof *up->pools);
    return ASIM_OK;
}

void asim_rmm_upstream_fini(asim_rmm_upstream *up)
{
    const asim_hostmem *memory = up->env.memory;
    asim_rb_fini(&up->rb);
    if (!memory)
        return;
    for (uint32_t i = 0; up->pools && i < up->env.device_count; i++)
        asim_mem_free(memory, up->pools[i].streams, up->pools[i].stream_capacity, sizeof(uint32_t));
    asim_mem_free(memory, up->pools, up->env.device_count, sizeof *up->pools);
    asim_mem_free(memory, up->lists, up->env.lane_count, sizeof *up->lists);
}

/* The free list of a lane's stream; the first call for a stream takes its place in the order. 0: broken. */
static uint32_t list_of(asim_rmm_upstream *up, unsigned lane)
{
    const uint32_t stream = asim_stream_of(up->uses, lane);
    if (up->lists[stream])
        return up->lists[stream];
    asim_rmm_pool *pool = &up->pools[up->env.lanes[lane].device];
    void *streams = pool->streams;
    if (asim_mem_grow(up->env.memory, &streams, &pool->stream_capacity, (size_t)pool->stream_count + 1,
                      sizeof *pool->streams, &up->fault))
        return 0;
    pool->streams = streams;
    const uint32_t list = asim_rb_list_new(&up->rb, &up->fault);
    if (list) {
        pool->streams[pool->stream_count++] = stream;
        up->lists[stream] = list;
    }
    return list;
}

/* One region of exactly size bytes, as a block on no list. */
static asim_alloc_result obtain(asim_rmm_upstream *up, unsigned lane, uint64_t size, uint32_t *ret_block)
{
    const asim_device *table = &up->env.device;
    asim_region region;
    const asim_device_result result =
        table->ops->alloc(table->ctx, up->env.lanes[lane].device, size, lane, &region);
    if (result == ASIM_DEVICE_OOM)
        return ASIM_REFUSED;
    if (result != ASIM_DEVICE_OK) {
        asim_fail(&up->fault, ASIM_E_BUG, "the device's alloc failed for another reason than memory");
        return ASIM_BROKEN;
    }
    *ret_block = asim_rb_region_add(&up->rb, &region, size, lane, &up->fault);
    return *ret_block ? ASIM_PLACED : ASIM_BROKEN;
}

/* pool_memory_resource::size_to_grow; 0: there is no room below the maximum. */
static uint64_t size_to_grow(const asim_rmm_upstream *up, const asim_rmm_pool *pool, uint64_t size)
{
    if (up->config.maximum == ASIM_PARAM_NONE)
        return size > pool->size ? size : pool->size;
    const uint64_t remaining =
        (up->config.maximum - pool->size + ASIM_RMM_ALIGN - 1) / ASIM_RMM_ALIGN * ASIM_RMM_ALIGN;
    if (size > remaining)
        return 0;
    return size > remaining / 2 ? size : remaining / 2;
}

/* pool_memory_resource::try_to_expand: half as much after each refusal, down to what is needed. */
static asim_alloc_result expand(asim_rmm_upstream *up, unsigned lane, uint64_t most, uint64_t least,
                                uint32_t *ret_block)
{
    asim_rmm_pool *pool = &up->pools[up->env.lanes[lane].device];
    for (uint64_t size = most; size >= least;) {
        const asim_alloc_result result = obtain(up, lane, size, ret_block);
        if (result == ASIM_PLACED)
            pool->size += size;
        if (result != ASIM_REFUSED || size == least)
            return result;
        size = size / 2 > least ? size / 2 : least;
    }
    return ASIM_REFUSED;
}

unsigned asim_rmm_default_lane(const asim_rmm_upstream *up, unsigned lane)
{
    for (unsigned i = 0; i < up->env.lane_count; i++)
        if (up->env.lanes[i].stream == 0 && up->env.lanes[i].device == up->env.lanes[lane].device)
            return i;
    return lane;
}

static asim_alloc_result prime(asim_rmm_upstream *up, unsigned lane, uint64_t *ret_asked)
{
    asim_rmm_pool *pool = &up->pools[up->env.lanes[lane].device];
    const uint64_t size = initial_size(up, up->env.lanes[lane].device);
    uint32_t block;
    if (size) {
        const unsigned home = asim_rmm_default_lane(up, lane);
        const uint32_t list = list_of(up, home);
        *ret_asked = size;
        const asim_alloc_result result = list ? expand(up, home, size, size, &block) : ASIM_BROKEN;
        if (result != ASIM_PLACED)
            return result;
        asim_rb_put(&up->rb, list, block);
    }
    pool->primed = true;
    return ASIM_PLACED;
}

/* stream_ordered_memory_resource::get_block, but for the pool's growth. *ret_from: the list where the block
 * was, which the rest of it returns to. 0: there is none. */
static uint32_t find(asim_rmm_upstream *up, unsigned lane, uint32_t own, uint64_t size, uint32_t *ret_from)
{
    const asim_rmm_pool *pool = &up->pools[up->env.lanes[lane].device];
    uint64_t *steps = &up->env.counters->search_steps;
    *ret_from = own;
    uint32_t block = asim_rb_take(&up->rb, own, size, steps);
    for (uint32_t i = 0; !block && i < pool->stream_count; i++) {
        *ret_from = up->lists[pool->streams[i]];
        block = *ret_from == own ? 0 : asim_rb_take(&up->rb, *ret_from, size, steps);
        up->stream_waits += block != 0;
    }
    for (uint32_t i = 0; !block && i < pool->stream_count; i++) {
        const uint32_t other = up->lists[pool->streams[i]];
        if (other == own || !asim_free_first(&up->rb.lists[other]->index, up->rb.extents))
            continue;
        asim_rb_merge_lists(&up->rb, own, other);
        up->stream_waits++;
        up->merges++;
        *ret_from = own;
        block = asim_rb_take(&up->rb, own, size, steps);
    }
    return block;
}

static asim_alloc_result take_from_pool(asim_rmm_upstream *up, unsigned lane, uint64_t size,
                                        uint32_t *ret_block, uint64_t *ret_asked)
{
    asim_rmm_pool *pool = &up->pools[up->env.lanes[lane].device];
    if (!pool->primed) {
        const asim_alloc_result result = prime(up, lane, ret_asked);
        if (result != ASIM_PLACED)
            return result;
    }
    uint32_t from;
    const uint32_t own = list_of(up, lane);
    if (!own)
        return ASIM_BROKEN;
    *ret_block = find(up, lane, own, size, &from);
    if (!*ret_block) {
        *ret_asked = size;
        from = own;
        const asim_alloc_result result = expand(up, lane, size_to_grow(up, pool, size), size, ret_block);
        if (result != ASIM_PLACED)
            return result;
    }
    if (up->rb.extents[*ret_block].size > size) {
        const uint32_t rest = asim_rb_split(&up->rb, *ret_block, size, &up->fault);
        if (!rest)
            return ASIM_BROKEN;
        asim_rb_put(&up->rb, from, rest);
    }
    return ASIM_PLACED;
}

asim_alloc_result asim_rmm_take(asim_rmm_upstream *up, unsigned lane, uint64_t size, uint32_t *ret_block,
                                uint64_t *ret_asked)
{
    *ret_asked = size;
    const asim_alloc_result result = up->config.plain ? obtain(up, lane, size, ret_block)
                                                      : take_from_pool(up, lane, size, ret_block, ret_asked);
    if (result != ASIM_PLACED)
        return result;
    up->rb.blocks[*ret_block].state = ASIM_BLOCK_LIVE;
    up->rb.blocks[*ret_block].lane = (uint16_t)lane;
    return ASIM_PLACED;
}

bool asim_rmm_give(asim_rmm_upstream *up, uint32_t block)
{
    const uint32_t region = up->rb.blocks[block].region;
    if (!up->config.plain) {
        asim_rb_put(&up->rb, up->lists[asim_stream_of(up->uses, up->rb.blocks[block].lane)], block);
        return true;
    }
    if (up->env.device.ops->free(up->env.device.ctx, up->rb.regions[region].index) != ASIM_DEVICE_OK) {
        asim_fail(&up->fault, ASIM_E_BUG, "the device's free failed");
        return false;
    }
    up->rb.blocks[block].state = ASIM_BLOCK_FREE;
    asim_rb_region_drop(&up->rb, region);
    return true;
}

asim_code asim_rmm_upstream_check(const asim_rmm_upstream *up, asim_err *err)
{
    if (up->fault.code)
        return asim_fail(err, up->fault.code, "%s", up->fault.message);
    for (uint32_t d = 0; !up->config.plain && up->pools && d < up->env.device_count; d++) {
        uint64_t held = 0;
        for (uint32_t r = up->rb.first_region; r; r = up->rb.regions[r].next)
            held += up->rb.regions[r].device == d ? up->rb.regions[r].size : 0;
        if (held != up->pools[d].size)
            return asim_fail(err, ASIM_E_BUG, "the pool of device %u holds %llu bytes, counted as %llu", d,
                             (unsigned long long)held, (unsigned long long)up->pools[d].size);
    }
    return asim_rb_check(&up->rb, err);
}
