/* Private pools, the scopes that route requests to them, and the active pool (specification, section 16). */
#include "policies/torchcache_state.h"

#include <string.h>

void asim_tc_group_ensure(asim_tc_group *group)
{
    if (group->exists)
        return;
    group->exists = true;
    group->uses = 1;
    group->segments = 0;
}

void asim_tc_group_end(asim_tc_state *state, asim_tc_group *group)
{
    group->exists = false;
    group->pools[0].searches = group->pools[1].searches = 0;
    for (size_t i = 0; i < state->lane_count; i++)
        if (state->lanes[i].group == group)
            state->lanes[i].shelves[0] = state->lanes[i].shelves[1] = NULL;
}

static bool accepts(const asim_tc_scope *scope, uint32_t stream)
{
    for (size_t i = 0; i < scope->stream_count; i++)
        if (scope->streams[i] == stream)
            return true;
    return scope->all;
}

asim_tc_group *asim_tc_route(const asim_tc_state *state, const asim_tc_lane *lane)
{
    const asim_tc_device *device = lane->device;
    for (size_t i = 0; i < device->scope_count; i++) {
        size_t place = state->release->newest_scope_wins ? device->scope_count - 1 - i : i;
        if (accepts(&device->scopes[place], lane->stream))
            return device->scopes[place].group;
    }
    return lane->group;
}

bool asim_tc_current_captures(const asim_tc_device *device)
{
    for (size_t i = 0; i < device->scope_count; i++)
        if (device->scopes[i].capture && accepts(&device->scopes[i], device->current))
            return true;
    return false;
}

asim_tc_scope *asim_tc_scope_of(asim_tc_device *device, const asim_tc_group *group)
{
    for (size_t i = 0; i < device->scope_count; i++)
        if (device->scopes[i].group == group)
            return &device->scopes[i];
    return NULL;
}

/* R102: a pool that is still there but has no use left can't be taken up again. */
static asim_code retain(asim_tc_group *group, asim_err *err)
{
    if (group->exists && group->uses == 0)
        return asim_fail(
            err, ASIM_E_INPUT,
            "pool %u of device %u has no use left and is not gone yet; release its memory before "
            "its id is used again",
            group->pool, group->device);
    if (!group->exists) {
        asim_tc_group_ensure(group);
    } else {
        group->uses++;
    }
    return ASIM_OK;
}

static asim_code fail_mark(const asim_tc_state *state, const char *mark, bool is_split_mark, asim_err *err)
{
    const asim_tc_release *first = asim_tc_releases;
    while (!(is_split_mark ? first->pools_unsplit : first->pools_help))
        first++;
    return asim_fail(err, ASIM_E_INPUT, "PyTorch %s has no %s for pools; the first release with it is %s",
                     state->release->name, mark, first->name);
}

static void set_no_split(asim_tc_group *group, bool on)
{
    group->no_split = on;
    for (unsigned large = 0; large < 2; large++)
        for (size_t i = 0; i < group->pools[large].shelf_count; i++)
            group->pools[large].shelves[i]->no_split = on;
}

/* R111, R112: a pool is made, or one use of it more, with its options. */
static asim_code retain_marked(asim_tc_state *state, asim_tc_group *group, unsigned marks, asim_err *err)
{
    if (marks & ASIM_POOL_USE_ON_OOM && !state->release->pools_help)
        return fail_mark(state, "use_on_oom", false, err);
    if (marks & ASIM_POOL_NO_SPLIT && !state->release->pools_unsplit)
        return fail_mark(state, "no_split", true, err);
    asim_code code = retain(group, err);
    if (code)
        return code;
    if (marks & ASIM_POOL_USE_ON_OOM)
        group->use_on_oom = true;
    if (marks & ASIM_POOL_NO_SPLIT)
        set_no_split(group, true);
    return ASIM_OK;
}

/* R103, R104. */
static void release_use(const asim_tc_state *state, asim_tc_group *group)
{
    if (--group->uses > 0)
        return;
    group->use_on_oom = false;
    if (state->release->unsplit_ends)
        set_no_split(group, false);
}

static asim_code begin(asim_tc_state *state, asim_tc_device *device, asim_tc_group *group,
                       const asim_event *event, asim_err *err)
{
    if (asim_tc_scope_of(device, group))
        return asim_fail(err, ASIM_E_INPUT, "pool %u of device %u is being filled already", group->pool,
                         group->device);
    asim_code code = retain(group, err);
    if (code)
        return code;
    if (!asim_tc_grow(state, &device->scopes, &device->scope_capacity, device->scope_count + 1,
                      sizeof *device->scopes))
        return asim_fail(err, state->fault.code, "%s", state->fault.message);
    device->scopes[device->scope_count++] = (asim_tc_scope){
        .group = group,
        .all = (event->flags & ASIM_POOL_ALL) != 0,
        .capture = (event->flags & ASIM_POOL_CAPTURE) != 0,
    };
    if (event->flags & ASIM_POOL_CAPTURE)
        device->current = state->lanes[event->lane].stream;
    device->attention++;
    return ASIM_OK;
}

static asim_code join(asim_tc_state *state, asim_tc_scope *scope, uint32_t stream, asim_err *err)
{
    if (!asim_tc_grow(state, &scope->streams, &scope->stream_capacity, scope->stream_count + 1,
                      sizeof *scope->streams))
        return asim_fail(err, state->fault.code, "%s", state->fault.message);
    scope->streams[scope->stream_count++] = stream;
    return ASIM_OK;
}

static void end(asim_tc_state *state, asim_tc_device *device, asim_tc_scope *scope)
{
    asim_mem_free(state->mem, scope->streams, scope->stream_capacity, sizeof *scope->streams);
    device->scope_count--;
    memmove(scope, scope + 1, (size_t)(&device->scopes[device->scope_count] - scope) * sizeof *scope);
    device->attention--;
}

asim_code asim_tc_pool_event(asim_tc_state *state, const asim_event *event, asim_err *err)
{
    const asim_tc_lane *lane = &state->lanes[event->lane];
    asim_tc_device *device = lane->device;
    asim_tc_group *group = lane->group;
    asim_tc_scope *scope = asim_tc_scope_of(device, group);
    if (group->pool == 0 && event->kind != ASIM_EV_POOL_LEAVE)
        return asim_fail(err, ASIM_E_INPUT, "a %s event names no pool", asim_event_kind_name(event->kind));
    switch (event->kind) {
    case ASIM_EV_POOL_RETAIN:
        return retain_marked(state, group, event->flags, err);
    case ASIM_EV_POOL_BEGIN:
        return begin(state, device, group, event, err);
    case ASIM_EV_POOL_JOIN:
    case ASIM_EV_POOL_END:
        if (!scope)
            return asim_fail(err, ASIM_E_INPUT, "%s: pool %u of device %u is not being filled",
                             asim_event_kind_name(event->kind), group->pool, group->device);
        if (event->kind == ASIM_EV_POOL_JOIN)
            return join(state, scope, lane->stream, err);
        end(state, device, scope);
        return ASIM_OK;
    case ASIM_EV_POOL_RELEASE:
        if (!group->exists || group->uses == 0)
            return asim_fail(err, ASIM_E_INPUT, "pool %u of device %u has no use left to release",
                             group->pool, group->device);
        release_use(state, group);
        return ASIM_OK;
    case ASIM_EV_POOL_ENTER:
        if (state->options.expandable && state->release->no_expandable_active)
            return asim_fail(err, ASIM_E_INPUT,
                             "PyTorch %s refuses a pool of the user's together with expandable_segments:True",
                             state->release->name);
        if (!asim_tc_grow(state, &device->active, &device->active_capacity, device->active_count + 1,
                          sizeof *device->active))
            return asim_fail(err, state->fault.code, "%s", state->fault.message);
        device->active[device->active_count++] = group->pool;
        return ASIM_OK;
    case ASIM_EV_POOL_LEAVE:
        if (device->active_count == 0)
            return asim_fail(err, ASIM_E_INPUT, "pool_leave without a pool_enter before it");
        device->active_count--;
        return ASIM_OK;
    default:
        return asim_fail(err, ASIM_E_BUG, "event kind %u is no pool event", event->kind);
    }
}
