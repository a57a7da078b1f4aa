#include "policies/async_pool.h"

enum {
    SEEN_MAX = 1 << 20 /* entries of all rows together; streams beyond them wait for nobody */
};

/* Whether more than one stream names a device. */
static void note_streams(asim_async_pool *pool)
{
    for (uint32_t lane = 0; lane < pool->env.lane_count; lane++) {
        asim_async_device *device = &pool->devices[pool->env.lanes[lane].device];
        const uint32_t stream = asim_stream_of(pool->uses, lane);
        if (!device->named)
            device->stream = stream;
        else if (device->stream != stream)
            device->shared = true;
        device->named = true;
    }
}

asim_code asim_async_init(asim_async_pool *pool, const asim_policy_env *env, asim_stream_uses *uses,
                          asim_err *err)
{
    pool->env = *env;
    pool->uses = uses;
    asim_code code = asim_rb_init(&pool->rb, env, err);
    if (code || !env->device_count || !env->lane_count)
        return code;
    pool->devices = asim_mem_new(env->memory, env->device_count, sizeof *pool->devices);
    pool->streams = asim_mem_new(env->memory, env->lane_count, sizeof *pool->streams);
    if (!pool->devices || !pool->streams)
        return asim_fail_memory(err, env->lane_count * sizeof *pool->streams);
    for (uint32_t i = 0; i < env->device_count; i++)
        if (!(pool->devices[i].open = asim_rb_list_new(&pool->rb, err)))
            return ASIM_E_SYSTEM;
    note_streams(pool);
    return ASIM_OK;
}

void asim_async_fini(asim_async_pool *pool)
{
    const asim_hostmem *memory = pool->env.memory;
    asim_rb_fini(&pool->rb);
    if (!memory)
        return;
    for (uint32_t i = 0; pool->streams && i < pool->env.lane_count; i++) {
        asim_mem_free(memory, pool->streams[i].seen, pool->env.lane_count, sizeof(uint64_t));
        asim_mem_free(memory, pool->streams[i].events, ASIM_ASYNC_EVENTS, sizeof(asim_async_event));
    }
    asim_mem_free(memory, pool->streams, pool->env.lane_count, sizeof *pool->streams);
    asim_mem_free(memory, pool->devices, pool->env.device_count, sizeof *pool->devices);
    asim_mem_free(memory, pool->order, pool->order_capacity, sizeof *pool->order);
}

static unsigned device_of(const asim_async_pool *pool, uint32_t stream)
{
    return pool->env.lanes[stream].device;
}

static bool fits_order(asim_async_pool *pool)
{
    void *order = pool->order;
    if (pool->order_capacity >= pool->rb.block_capacity)
        return true;
    asim_code code = asim_mem_grow(pool->env.memory, &order, &pool->order_capacity, pool->rb.block_capacity,
                                   sizeof *pool->order, &pool->fault);
    pool->order = order;
    return code == ASIM_OK;
}

/* --- a stream's blocks by age --- */

static void order_leave(asim_async_pool *pool, asim_async_stream *stream, uint32_t block)
{
    const asim_async_order *o = &pool->order[block];
    *(o->prev ? &pool->order[o->prev].next : &stream->first) = o->next;
    *(o->next ? &pool->order[o->next].prev : &stream->last) = o->prev;
}

/* into takes the place of block, which is gone from it. */
static void order_replace(asim_async_pool *pool, asim_async_stream *stream, uint32_t block, uint32_t into)
{
    pool->order[into] = pool->order[block];
    const asim_async_order *o = &pool->order[into];
    *(o->prev ? &pool->order[o->prev].next : &stream->first) = into;
    *(o->next ? &pool->order[o->next].prev : &stream->last) = into;
}

static void order_append(asim_async_pool *pool, asim_async_stream *stream, uint32_t block, uint64_t age)
{
    pool->order[block] = (asim_async_order){.age = age, .prev = stream->last};
    *(stream->last ? &pool->order[stream->last].next : &stream->first) = block;
    stream->last = block;
}

/* --- open memory --- */

static void count_idle(asim_async_pool *pool, unsigned device, uint32_t block, int sign)
{
    if (asim_rb_is_whole(&pool->rb, block))
        pool->devices[device].idle += (uint32_t)sign;
}

static void put_open(asim_async_pool *pool, unsigned device, uint32_t block)
{
    count_idle(pool, device, asim_rb_put(&pool->rb, pool->devices[device].open, block), 1);
}

/* Opens all blocks of a stream up to an age. */
static void open_until(asim_async_pool *pool, uint32_t number, uint64_t age)
{
    asim_async_stream *stream = &pool->streams[number];
    if (stream->done < age)
        stream->done = age;
    while (stream->first && pool->order[stream->first].age <= age) {
        const uint32_t block = stream->first;
        order_leave(pool, stream, block);
        asim_rb_unlist(&pool->rb, block);
        put_open(pool, device_of(pool, number), block);
    }
}

/* --- taking --- */

static uint32_t make_live(asim_async_pool *pool, uint32_t block, uint32_t stream)
{
    pool->rb.blocks[block].state = ASIM_BLOCK_LIVE;
    pool->rb.blocks[block].lane = (uint16_t)stream;
    return block;
}

/* A block of a stream's list, for another or the same; the rest keeps its place. */
static uint32_t take_from(asim_async_pool *pool, asim_async_stream *from, uint32_t block, uint32_t stream,
                          uint64_t size)
{
    asim_rb_unlist(&pool->rb, block);
    if (pool->rb.extents[block].size == size) {
        order_leave(pool, from, block);
        return make_live(pool, block, stream);
    }
    const uint32_t rest = asim_rb_split(&pool->rb, block, size, &pool->fault);
    if (!rest || !fits_order(pool))
        return 0;
    order_replace(pool, from, block, asim_rb_put(&pool->rb, from->list, rest));
    return make_live(pool, block, stream);
}

static uint32_t best_fit(asim_async_pool *pool, uint32_t list, uint64_t size)
{
    return asim_free_find(&pool->rb.lists[list]->index, pool->rb.extents, size,
                          &pool->env.counters->search_steps);
}

uint32_t asim_async_own(asim_async_pool *pool, uint32_t stream, uint64_t size)
{
    asim_async_stream *own = &pool->streams[stream];
    const uint32_t block = own->first ? best_fit(pool, own->list, size) : 0;
    return block ? take_from(pool, own, block, stream, size) : 0;
}

uint32_t asim_async_open(asim_async_pool *pool, uint32_t stream, uint64_t size)
{
    const unsigned device = device_of(pool, stream);
    const uint32_t block = best_fit(pool, pool->devices[device].open, size);
    if (!block)
        return 0;
    count_idle(pool, device, block, -1);
    asim_rb_unlist(&pool->rb, block);
    if (pool->rb.extents[block].size > size) {
        const uint32_t rest = asim_rb_split(&pool->rb, block, size, &pool->fault);
        if (!rest || !fits_order(pool))
            return 0;
        put_open(pool, device, rest);
    }
    return make_live(pool, block, stream);
}

uint32_t asim_async_seen(asim_async_pool *pool, uint32_t stream, uint64_t size)
{
    const uint64_t *seen = pool->streams[stream].seen;
    for (uint32_t other = 0; seen && other < pool->env.lane_count; other++) {
        asim_async_stream *from = &pool->streams[other];
        if (!seen[other] || !from->first || pool->order[from->first].age > seen[other] ||
            device_of(pool, other) != device_of(pool, stream))
            continue;
        const asim_free_index *index = &pool->rb.lists[from->list]->index;
        uint32_t block = best_fit(pool, from->list, size);
        for (unsigned looks = 0; block && looks < ASIM_ASYNC_LOOKS; looks++) {
            if (pool->order[block].age <= seen[other])
                return take_from(pool, from, block, stream, size);
            pool->env.counters->search_steps++;
            block = asim_free_next(index, pool->rb.extents, block);
        }
    }
    return 0;
}

uint32_t asim_async_any(asim_async_pool *pool, uint32_t stream, uint64_t size)
{
    for (uint32_t other = 0; other < pool->env.lane_count; other++) {
        asim_async_stream *from = &pool->streams[other];
        if (!from->first || device_of(pool, other) != device_of(pool, stream))
            continue;
        const uint32_t block = best_fit(pool, from->list, size);
        if (block)
            return take_from(pool, from, block, stream, size);
    }
    return 0;
}

void asim_async_grow(asim_async_pool *pool, unsigned lane, uint64_t region_size, uint64_t size,
                     uint32_t *ret_block)
{
    const asim_device *table = &pool->env.device;
    const unsigned device = pool->env.lanes[lane].device;
    asim_region region;
    *ret_block = 0;
    const asim_device_result result = table->ops->alloc(table->ctx, device, region_size, lane, &region);
    if (result == ASIM_DEVICE_OOM)
        return;
    if (result != ASIM_DEVICE_OK) {
        asim_fail(&pool->fault, ASIM_E_BUG, "the device's alloc failed for another reason than memory");
        return;
    }
    const uint32_t block = asim_rb_region_add(&pool->rb, &region, region_size, lane, &pool->fault);
    if (!block || !fits_order(pool))
        return;
    pool->devices[device].size += region_size;
    put_open(pool, device, block);
    *ret_block = asim_async_open(pool, asim_stream_of(pool->uses, lane), size);
}

/* --- giving --- */

/* An event at the end of what stream was given, for its last free. */
static bool record(asim_async_pool *pool, uint32_t number)
{
    asim_async_stream *stream = &pool->streams[number];
    if (!stream->events) {
        stream->events = asim_mem_new(pool->env.memory, ASIM_ASYNC_EVENTS, sizeof *stream->events);
        if (!stream->events)
            return asim_fail_memory(&pool->fault, ASIM_ASYNC_EVENTS * sizeof *stream->events), false;
    }
    if (stream->event_count == ASIM_ASYNC_EVENTS)
        return true;
    const uint64_t event = pool->env.device.ops->event_record(pool->env.device.ctx, number);
    if (event == UINT64_MAX)
        return asim_fail_memory(&pool->fault, sizeof event), false;
    stream->events[(stream->event_first + stream->event_count++) % ASIM_ASYNC_EVENTS] =
        (asim_async_event){event, stream->frees};
    return true;
}

/* Ends the events that are done. */
static void poll_stream(asim_async_pool *pool, uint32_t number)
{
    asim_async_stream *stream = &pool->streams[number];
    while (stream->event_count) {
        const asim_async_event *event = &stream->events[stream->event_first];
        if (!pool->env.device.ops->event_query(pool->env.device.ctx, event->event))
            break;
        const uint64_t frees = event->frees;
        stream->event_first = (stream->event_first + 1) % ASIM_ASYNC_EVENTS;
        stream->event_count--;
        open_until(pool, number, frees);
    }
}

bool asim_async_give(asim_async_pool *pool, uint32_t block)
{
    const uint32_t number = asim_stream_of(pool->uses, pool->rb.blocks[block].lane);
    asim_async_stream *stream = &pool->streams[number];
    if (!stream->list && !(stream->list = asim_rb_list_new(&pool->rb, &pool->fault)))
        return false;
    const uint32_t around[] = {pool->rb.extents[block].prev, pool->rb.extents[block].next};
    for (unsigned i = 0; i < 2; i++)
        if (around[i] && pool->rb.blocks[around[i]].state == ASIM_BLOCK_FREE &&
            pool->rb.blocks[around[i]].list == stream->list)
            order_leave(pool, stream, around[i]);
    order_append(pool, stream, asim_rb_put(&pool->rb, stream->list, block), ++stream->frees);
    return !pool->devices[device_of(pool, number)].shared || record(pool, number);
}

/* --- what is known of the streams --- */

static uint64_t *seen_of(asim_async_pool *pool, uint32_t number)
{
    asim_async_stream *stream = &pool->streams[number];
    if (stream->seen || (pool->rows + 1) * pool->env.lane_count > SEEN_MAX)
        return stream->seen;
    stream->seen = asim_mem_new(pool->env.memory, pool->env.lane_count, sizeof *stream->seen);
    if (!stream->seen)
        asim_fail_memory(&pool->fault, pool->env.lane_count * sizeof *stream->seen);
    else
        pool->rows++;
    return stream->seen;
}

void asim_async_follow(asim_async_pool *pool, uint32_t stream, uint32_t other)
{
    const uint64_t *theirs = pool->streams[other].seen;
    uint64_t *seen = stream == other ? NULL : seen_of(pool, stream);
    if (!seen)
        return;
    for (uint32_t i = 0; theirs && i < pool->env.lane_count; i++)
        if (seen[i] < theirs[i])
            seen[i] = theirs[i];
    seen[other] = pool->streams[other].frees;
}

void asim_async_done(asim_async_pool *pool, uint32_t number)
{
    const asim_async_stream *stream = &pool->streams[number];
    poll_stream(pool, number);
    open_until(pool, number, stream->frees);
    for (uint32_t i = 0; stream->seen && i < pool->env.lane_count; i++)
        if (i != number && stream->seen[i] > pool->streams[i].done)
            open_until(pool, i, stream->seen[i]);
}

void asim_async_poll(asim_async_pool *pool, unsigned device)
{
    for (uint32_t i = 0; i < pool->env.lane_count; i++)
        if (pool->streams[i].first && device_of(pool, i) == device)
            poll_stream(pool, i);
}

void asim_async_open_all(asim_async_pool *pool, unsigned device)
{
    for (uint32_t i = 0; i < pool->env.lane_count; i++)
        if (device_of(pool, i) == device)
            open_until(pool, i, pool->streams[i].frees);
}

uint64_t asim_async_release(asim_async_pool *pool, unsigned device, uint64_t keep)
{
    asim_async_device *home = &pool->devices[device];
    uint64_t released = 0;
    uint32_t before;
    for (uint32_t r = pool->rb.last_region; r && home->idle; r = before) {
        const asim_rb_region region = pool->rb.regions[r];
        before = region.prev;
        if (region.device != device || pool->rb.blocks[region.first].list != home->open ||
            !asim_rb_is_whole(&pool->rb, region.first) || home->size - region.size < keep ||
            home->size < region.size)
            continue;
        if (pool->env.device.ops->free(pool->env.device.ctx, region.index) != ASIM_DEVICE_OK) {
            asim_fail(&pool->fault, ASIM_E_BUG, "the device's free failed");
            break;
        }
        asim_rb_region_drop(&pool->rb, r);
        home->idle--;
        home->size -= region.size;
        released += region.size;
    }
    return released;
}

/* --- check --- */

static asim_code check_stream(const asim_async_pool *pool, uint32_t number, uint32_t *listed, asim_err *err)
{
    const asim_async_stream *stream = &pool->streams[number];
    uint64_t age = 0;
    uint32_t last = 0;
    for (uint32_t b = stream->first; b; last = b, b = pool->order[b].next) {
        if (pool->rb.blocks[b].list != stream->list || pool->order[b].prev != last ||
            pool->order[b].age < age || pool->order[b].age > stream->frees ||
            ++*listed > pool->rb.block_count)
            return asim_fail(err, ASIM_E_BUG, "block %u is out of the order of stream %u", b, number);
        age = pool->order[b].age;
    }
    return last == stream->last
               ? ASIM_OK
               : asim_fail(err, ASIM_E_BUG, "the last block of stream %u is another", number);
}

asim_code asim_async_check(const asim_async_pool *pool, asim_err *err)
{
    uint32_t ordered = 0, listed = 0;
    if (pool->fault.code)
        return asim_fail(err, pool->fault.code, "%s", pool->fault.message);
    for (uint32_t i = 0; i < pool->env.lane_count; i++) {
        asim_code code = check_stream(pool, i, &ordered, err);
        if (code)
            return code;
    }
    for (uint32_t d = 0; d < pool->env.device_count && pool->devices; d++) {
        uint64_t size = 0;
        uint32_t idle = 0;
        for (uint32_t r = pool->rb.first_region; r; r = pool->rb.regions[r].next) {
            const asim_rb_region *region = &pool->rb.regions[r];
            if (region->device != d)
                continue;
            size += region->size;
            idle += pool->rb.blocks[region->first].list == pool->devices[d].open &&
                    asim_rb_is_whole(&pool->rb, region->first);
            for (uint32_t b = region->first; b; b = pool->rb.extents[b].next)
                listed += pool->rb.blocks[b].list && pool->rb.blocks[b].list != pool->devices[d].open;
        }
        if (size != pool->devices[d].size || idle != pool->devices[d].idle)
            return asim_fail(err, ASIM_E_BUG, "device %u: %llu bytes and %u idle regions, counted otherwise",
                             d, (unsigned long long)size, idle);
    }
    if (ordered != listed)
        return asim_fail(err, ASIM_E_BUG, "%u blocks are on lists of streams, %u in their orders", listed,
                         ordered);
    return asim_rb_check(&pool->rb, err);
}
