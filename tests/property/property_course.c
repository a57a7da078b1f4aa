/* The operations as such: which are well defined now, and what they say of scopes, retries and resets. */
#include "tests/property/property_model.h"

#include <string.h>

static bool scope_is_open(const model_device *device)
{
    for (unsigned pool = 1; pool < MODEL_POOLS; pool++)
        if (device->pools[pool].open)
            return true;
    return false;
}

/* R102: a pool without a use can't be taken up again before it is gone. */
static bool can_take_up(const model_pool *pool)
{
    return !pool->exists || pool->uses > 0;
}

static bool allows_pool_event(const model *m, const asim_event *event, const model_device *device,
                              const model_pool *pool)
{
    switch (event->kind) {
    case ASIM_EV_POOL_BEGIN:
        return !pool->open && can_take_up(pool);
    case ASIM_EV_POOL_RETAIN:
        return can_take_up(pool);
    case ASIM_EV_POOL_JOIN:
    case ASIM_EV_POOL_END:
        return pool->open;
    case ASIM_EV_POOL_RELEASE:
        /* A pool of expandable segments keeps a use: unmapping could undercount its segments (R97). */
        return pool->exists && pool->uses > 0 && (pool->uses > 1 || (!m->ever_expandable && !pool->open));
    case ASIM_EV_POOL_ENTER:
        return pool->exists && device->active_count < MODEL_NESTED && !(m->version == 207 && m->expandable);
    default:
        return device->active_count > 0;
    }
}

bool model_allows(const model *m, const asim_event *event)
{
    const asim_lane *lane = event->lane == ASIM_LANE_ALL ? NULL : &m->lanes[event->lane];
    const model_device *device = lane ? &m->devices[lane->device] : NULL;
    const model_id *id = event->id < MODEL_IDS ? &m->ids[event->id] : NULL;
    switch (event->kind) {
    case ASIM_EV_ALLOC:
        return id->state == MODEL_ID_EMPTY && (!lane->pool || can_take_up(&device->pools[lane->pool]));
    case ASIM_EV_FREE:
    case ASIM_EV_USE:
        return id->state == MODEL_ID_LIVE;
    case ASIM_EV_FREE_DONE:
        return id->state == MODEL_ID_PENDING;
    case ASIM_EV_TRIM: /* R58: not while a scope is open */
        for (unsigned i = 0; i < MODEL_DEVICES; i++)
            if (scope_is_open(&m->devices[i]))
                return false;
        return true;
    case ASIM_EV_SYNC:
    case ASIM_EV_SETTINGS:
    case ASIM_EV_FRACTION:
    case ASIM_EV_STATS_RESET:
        return true;
    default:
        return allows_pool_event(m, event, device, &device->pools[lane->pool]);
    }
}

uint16_t model_route(const model *m, const asim_lane *lane)
{
    const model_device *device = &m->devices[lane->device];
    for (unsigned i = 0; i < device->scope_count && !lane->pool; i++) {
        const model_scope *scope = &device->scopes[m->version >= 210 ? device->scope_count - 1 - i : i];
        bool accepts = scope->all;
        for (unsigned k = 0; k < scope->stream_count; k++)
            accepts |= scope->streams[k] == lane->stream;
        if (accepts)
            return scope->pool;
    }
    return lane->pool;
}

void model_begin(model *m, const asim_event *event)
{
    m->event = *event;
    m->refusals = 0;
    m->obtained = m->refused = false;
    for (size_t i = 0; i < m->region_count; i++)
        m->regions[i].fresh = false;
}

/* Whether a last attempt (R40 step 9) was made, from what the device answered. */
static void settle_request(model *m, model_device *device, asim_alloc_result result)
{
    const bool open = scope_is_open(device);
    bool may = true, must = false;
    if (result == ASIM_REFUSED) {
        may = m->event.size < UINT64_C(1) << 60; /* R24 */
        must = m->refused;
        device->rejections += may && !m->refused; /* R116: without an out-of-memory entry */
    } else if (result == ASIM_NOTHING || !m->obtained) {
        may = false; /* R41: a last attempt succeeds by new memory alone */
    } else {
        may = m->refusals > 0 || device->limited;
        must = m->refusals > 1 || (m->refusals == 1 && m->max_split == UINT64_MAX && !device->limited);
    }
    if (open && m->version < 213)
        may = false; /* R77 */
    else if (open)
        must = false;
    must = must && may;
    const bool in_pool = device->active_count > 0; /* R61: which pools step 9 releases */
    device->retries_least += must;
    device->retries_most += may;
    device->syncs_least += must && !in_pool;
    device->syncs_most += may;
    device->retry_syncs = !in_pool;
    m->doubts += may != must;
}

/* R57 and R61. */
static void settle_trim(model *m)
{
    for (unsigned i = 0; i < MODEL_DEVICES; i++) {
        model_device *device = &m->devices[i];
        const uint16_t active = device->active_count ? device->active[device->active_count - 1] : 0;
        const model_pool *pool = &device->pools[active];
        /* Where releases differ, or the pool may be gone, the reported number decides between none and one.
         */
        const bool sure =
            !active || ((m->version == 206 || m->version == 207) && (pool->uses > 0 || !pool->exists));
        device->syncs_least += sure && !active;
        device->syncs_most += !sure || !active;
        m->doubts += !sure;
        for (unsigned p = 1; p < MODEL_POOLS && !active; p++) {
            bool holds = false;
            for (size_t k = 0; k < m->region_count; k++)
                holds |= m->regions[k].device == i && m->regions[k].pool == p;
            if (!holds && device->pools[p].exists && device->pools[p].uses == 0)
                device->pools[p].exists = false;
        }
    }
}

static void reset(model_stat *stat, bool totals)
{
    if (totals)
        stat->allocated = stat->freed = 0;
    else
        stat->peak = stat->current;
}

/* R125. */
static void settle_reset(model_device *device, bool totals)
{
    for (unsigned s = 0; s < MODEL_STATS; s++)
        for (unsigned kind = 0; kind < 3; kind++)
            reset(&device->stats[s][kind], totals);
    for (unsigned pool = 1; pool < MODEL_POOLS; pool++)
        for (unsigned kind = 0; kind < 3; kind++)
            reset(&device->pool_reserved[pool][kind], totals);
    reset(&device->oversize_allocations, totals);
    reset(&device->oversize_segments, totals);
    if (totals) {
        device->ooms = device->rejections = device->device_allocs = device->device_frees = 0;
        device->retries_least = device->retries_most = device->syncs_least = device->syncs_most = 0;
    }
}

static void settle_scopes(model_device *device, const asim_event *event, const asim_lane *lane)
{
    unsigned place = 0;
    while (place < device->scope_count && device->scopes[place].pool != lane->pool)
        place++;
    model_scope *scope = &device->scopes[place];
    if (event->kind == ASIM_EV_POOL_BEGIN) {
        *scope = (model_scope){.pool = lane->pool, .all = event->flags & ASIM_POOL_ALL};
        device->scope_count++;
    } else if (event->kind == ASIM_EV_POOL_JOIN) {
        for (unsigned k = 0; k < scope->stream_count; k++)
            if (scope->streams[k] == lane->stream)
                return;
        scope->streams[scope->stream_count++] = lane->stream;
    } else if (event->kind == ASIM_EV_POOL_END) {
        device->scope_count--;
        memmove(scope, scope + 1, (device->scope_count - place) * sizeof *scope);
    }
}

static void settle_pool(model_device *device, const asim_event *event, const asim_lane *lane)
{
    const uint16_t index = lane->pool;
    settle_scopes(device, event, lane);
    model_pool *pool = &device->pools[index];
    switch (event->kind) {
    case ASIM_EV_POOL_BEGIN:
    case ASIM_EV_POOL_RETAIN:
        pool->open |= event->kind == ASIM_EV_POOL_BEGIN;
        pool->uses = pool->exists ? pool->uses + 1 : 1;
        pool->exists = true;
        break;
    case ASIM_EV_POOL_END:
        pool->open = false;
        break;
    case ASIM_EV_POOL_RELEASE:
        pool->uses--;
        break;
    case ASIM_EV_POOL_ENTER:
        device->active[device->active_count++] = index;
        break;
    case ASIM_EV_POOL_LEAVE:
        device->active_count--;
        break;
    default:
        break;
    }
}

void model_end(model *m, asim_alloc_result result)
{
    const asim_event *event = &m->event;
    const asim_lane *lane = event->lane == ASIM_LANE_ALL ? NULL : &m->lanes[event->lane];
    model_device *device = lane ? &m->devices[lane->device] : NULL;
    switch (event->kind) {
    case ASIM_EV_ALLOC:
        if (lane->pool && !device->pools[lane->pool].exists && event->size > 0 &&
            event->size < UINT64_C(1) << 60)
            device->pools[lane->pool] = (model_pool){.exists = true, .uses = 1};
        settle_request(m, device, result);
        break;
    case ASIM_EV_FREE:
        m->ids[event->id].state = event->flags & ASIM_FREE_PENDING ? MODEL_ID_PENDING : MODEL_ID_EMPTY;
        break;
    case ASIM_EV_FREE_DONE:
        m->ids[event->id].state = MODEL_ID_EMPTY;
        break;
    case ASIM_EV_TRIM:
        settle_trim(m);
        break;
    case ASIM_EV_FRACTION:
        device->limited = true;
        break;
    case ASIM_EV_STATS_RESET:
        settle_reset(device, event->id == 1);
        break;
    default:
        if (lane)
            settle_pool(device, event, lane);
    }
}
