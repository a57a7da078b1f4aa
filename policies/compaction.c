#include "policies/compaction.h"

#include <string.h>

const char *const asim_compact_names[] = {"none", "incremental", "full", "on-switch", NULL};
const char *const asim_compact_busy_names[] = {"pin", "wait", NULL};

enum {
    BUSY_PIN = 0,
    STREAM_BITS = 64, /* the last bit stands for all streams from the 64th on */
    PROBES = 64,      /* an idle stream's event may take a moment on a real device */
};
#define NO_EVENT UINT64_MAX

typedef struct planned { /* a block that stays, in the order of its new address */
    uint32_t block;
    uint64_t target;
} planned;

struct asim_compaction {
    asim_compaction_params params;
    bool tells;       /* the device knows of running work */
    uint8_t *bits;    /* of each lane */
    uint64_t *events; /* of each lane: asked for and not yet seen done, or NO_EVENT */
    bool *armed;      /* of each device: fragmentation was at or below the threshold since the last time */
    uint32_t *live;   /* scratch: all blocks that aren't free, by address */
    size_t live_capacity;
    planned *plan;
    size_t plan_capacity;
    uint64_t on_failure, on_threshold, at_marks, pinned;
};

/* --- parameters --- */

asim_code asim_compaction_check_params(const asim_compaction_params *params, asim_err *err)
{
    const bool full = params->compact == ASIM_COMPACT_FULL;
    const bool on_switch = params->compact == ASIM_COMPACT_ON_SWITCH;
    const struct {
        const char *key, *goes_with;
        bool given, fits;
    } uses[] = {
        {"compact_on_failure", "full", !params->on_failure, full},
        {"compact_above", "full", params->above != ASIM_PARAM_NONE, full},
        {"compact_at", "full", params->at[0] != 0, full},
        {"compact_switch", "on-switch", strcmp(params->switch_mark, "switch") != 0, on_switch},
        {"compact_busy", "full or on-switch", params->busy != BUSY_PIN, full || on_switch},
    };
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        if (uses[i].given && !uses[i].fits)
            return asim_fail(err, ASIM_E_USAGE, "%s goes with compact=%s; with compact=%s it means nothing",
                             uses[i].key, uses[i].goes_with, asim_compact_names[params->compact]);
    if (full && !params->on_failure && params->above == ASIM_PARAM_NONE && !params->at[0])
        return asim_fail(
            err, ASIM_E_USAGE,
            "compact=full with compact_on_failure=false needs compact_above or compact_at: nothing "
            "would ever begin a compaction");
    if (on_switch && !params->switch_mark[0])
        return asim_fail(err, ASIM_E_USAGE, "compact=on-switch needs the label of a mark in compact_switch");
    return ASIM_OK;
}

/* --- streams --- */

/* Lanes of one stream share a bit as long as there are bits. */
static uint8_t bit_of(const asim_policy_env *env, uint32_t lane)
{
    const uint32_t last = STREAM_BITS - 1;
    for (uint32_t i = 0; i < lane && i < last; i++)
        if (env->lanes[i].device == env->lanes[lane].device &&
            env->lanes[i].stream == env->lanes[lane].stream)
            return (uint8_t)i;
    return (uint8_t)(lane < last ? lane : last);
}

/* Whether an idle stream counts as idle: without kernels in the trace only a later sync completes an event,
 * and a fresh one would never be seen done. */
static bool tells_of_work(const asim_device *table)
{
    uint64_t event = table->ops->event_record(table->ctx, 0);
    for (int i = 0; i < PROBES; i++)
        if (table->ops->event_query(table->ctx, event))
            return true;
    table->ops->event_wait(table->ctx, event);
    return false;
}

asim_code asim_compaction_new(asim_arena *arena, const asim_compaction_params *params, asim_err *err)
{
    const asim_policy_env *env = &arena->env;
    const asim_hostmem *mem = env->memory;
    if (params->compact != ASIM_COMPACT_FULL && params->compact != ASIM_COMPACT_ON_SWITCH)
        return ASIM_OK;
    asim_compaction *c = arena->compaction = asim_mem_new(mem, 1, sizeof *c);
    if (!c)
        return asim_fail_memory(err, sizeof *c);
    c->params = *params;
    if (!(c->armed = asim_mem_new(mem, env->device_count, sizeof *c->armed)))
        return asim_fail_memory(err, env->device_count * sizeof *c->armed);
    memset(c->armed, true, env->device_count * sizeof *c->armed);
    if (params->busy != BUSY_PIN || env->lane_count == 0)
        return ASIM_OK;
    if (!(c->bits = asim_mem_new(mem, env->lane_count, sizeof *c->bits)) ||
        !(c->events = asim_mem_new(mem, env->lane_count, sizeof *c->events)))
        return asim_fail_memory(err, env->lane_count * sizeof *c->events);
    for (uint32_t lane = 0; lane < env->lane_count; lane++) {
        c->bits[lane] = bit_of(env, lane);
        c->events[lane] = NO_EVENT;
    }
    c->tells = tells_of_work(&env->device);
    return ASIM_OK;
}

void asim_compaction_free(asim_arena *arena)
{
    asim_compaction *c = arena->compaction;
    const asim_policy_env *env = &arena->env;
    if (!c)
        return;
    asim_mem_free(env->memory, c->bits, env->lane_count, sizeof *c->bits);
    asim_mem_free(env->memory, c->events, env->lane_count, sizeof *c->events);
    asim_mem_free(env->memory, c->armed, env->device_count, sizeof *c->armed);
    asim_mem_free(env->memory, c->live, c->live_capacity, sizeof *c->live);
    asim_mem_free(env->memory, c->plan, c->plan_capacity, sizeof *c->plan);
    asim_mem_free(env->memory, c, 1, sizeof *c);
    arena->compaction = NULL;
}

uint64_t asim_compaction_stream_bit(const asim_arena *arena, unsigned lane)
{
    return arena->compaction && arena->compaction->bits ? UINT64_C(1) << arena->compaction->bits[lane] : 0;
}

void asim_compaction_use(asim_arena *arena, uint32_t word, unsigned lane)
{
    arena->notes[word].streams |= asim_compaction_stream_bit(arena, lane);
}

/* An event ends when it is seen done: the one that was not, the last time, is asked for first. */
static bool is_busy(asim_arena *arena, uint32_t lane)
{
    const asim_device *table = &arena->env.device;
    uint64_t *event = &arena->compaction->events[lane];
    if (*event != NO_EVENT && !table->ops->event_query(table->ctx, *event))
        return true;
    *event = table->ops->event_record(table->ctx, lane);
    if (*event == NO_EVENT) {
        asim_fail_memory(&arena->fault, sizeof(uint64_t));
        return true;
    }
    if (!table->ops->event_query(table->ctx, *event))
        return true;
    *event = NO_EVENT;
    return false;
}

/* The bits of the device's streams that still have work to do. */
static uint64_t busy_streams(asim_arena *arena, unsigned device)
{
    const asim_compaction *c = arena->compaction;
    uint64_t busy = 0;
    for (uint32_t lane = 0; c->tells && lane < arena->env.lane_count; lane++) {
        const bool asks = c->bits[lane] == lane || c->bits[lane] == STREAM_BITS - 1;
        if (asks && arena->env.lanes[lane].device == device && is_busy(arena, lane))
            busy |= UINT64_C(1) << c->bits[lane];
    }
    return busy;
}

/* --- the plan --- */

typedef struct outcome {
    uint32_t count;   /* of blocks in the plan */
    uint32_t pinned;  /* ... that may not move */
    bool moves;       /* at least one does */
    uint64_t largest; /* free block afterwards */
} outcome;

static bool is_pinned(const asim_arena *arena, uint32_t block, uint64_t busy)
{
    const asim_arena_note *note = &arena->notes[block];
    return note->state == ASIM_BLOCK_PENDING || note->unmovable || (note->streams & busy);
}

static bool list_live(asim_arena *arena, const asim_arena_home *home, uint32_t *ret_count)
{
    asim_compaction *c = arena->compaction;
    uint32_t count = 0;
    for (uint32_t b = home->first; b; b = arena->extents[b].next)
        count += arena->notes[b].state != ASIM_BLOCK_FREE;
    void *live = c->live, *plan = c->plan;
    asim_code code = asim_mem_grow(arena->env.memory, &live, &c->live_capacity, (size_t)count + 1,
                                   sizeof *c->live, &arena->fault);
    c->live = live;
    if (!code)
        code = asim_mem_grow(arena->env.memory, &plan, &c->plan_capacity, (size_t)count + 1, sizeof *c->plan,
                             &arena->fault);
    c->plan = plan;
    if (code)
        return false;
    count = 0;
    for (uint32_t b = home->first; b; b = arena->extents[b].next)
        if (arena->notes[b].state != ASIM_BLOCK_FREE)
            c->live[count++] = b;
    *ret_count = count;
    return true;
}

/* Blocks of a fit that files in pieces begin at multiples of their size, which is a power of two. */
static uint64_t first_place(const asim_arena *arena, const asim_arena_home *home, uint64_t from,
                            uint64_t size)
{
    if (!arena->fit->piece)
        return from;
    return home->region.address + ((from - home->region.address + size - 1) & ~(size - 1));
}

static void note_gap(const asim_arena *arena, const asim_arena_home *home, uint64_t from, uint64_t to,
                     uint64_t *largest)
{
    while (from < to) {
        uint64_t piece = to - from;
        if (arena->fit->piece)
            piece = arena->fit->piece(arena, from - home->region.address, piece);
        *largest = piece > *largest ? piece : *largest;
        from += piece;
    }
}

/* Where every block goes. Two fingers run over the blocks by address: the next pinned one, and the next that
 * moves. The latter's own place is always left, so it never has to look beyond it. */
static bool make_plan(asim_arena *arena, const asim_arena_home *home, uint64_t busy, outcome *ret)
{
    asim_compaction *c = arena->compaction;
    uint32_t count, pin = 0, planned_count = 0;
    if (!list_live(arena, home, &count))
        return false;
    *ret = (outcome){.count = count};
    uint64_t at = home->region.address, filled = at;
    for (uint32_t m = 0; m <= count; m++) {
        const bool last = m == count; /* what is pinned behind all others */
        const uint32_t block = last ? 0 : c->live[m];
        if (!last && is_pinned(arena, block, busy))
            continue;
        const uint64_t size = arena->extents[block].size;
        uint64_t target = last ? UINT64_MAX : first_place(arena, home, at, size);
        for (;; pin++) {
            while (pin < count && !is_pinned(arena, c->live[pin], busy))
                pin++;
            if (pin == count)
                break;
            const asim_extent *wall = &arena->extents[c->live[pin]];
            if (!last && target + size <= wall->address)
                break;
            note_gap(arena, home, filled, wall->address, &ret->largest);
            c->plan[planned_count++] = (planned){c->live[pin], wall->address};
            ret->pinned++;
            at = filled = wall->address + wall->size;
            target = last ? UINT64_MAX : first_place(arena, home, at, size);
        }
        if (last)
            break;
        note_gap(arena, home, filled, target, &ret->largest);
        c->plan[planned_count++] = (planned){block, target};
        ret->moves |= target != arena->extents[block].address;
        at = filled = target + size;
    }
    note_gap(arena, home, filled, home->region.address + home->region.size, &ret->largest);
    return true;
}

/* --- the moves --- */

static bool move_blocks(asim_arena *arena, unsigned device, uint32_t count)
{
    const asim_device *table = &arena->env.device;
    const asim_listener *listener = arena->env.listener;
    const asim_arena_home *home = &arena->homes[device];
    const planned *plan = arena->compaction->plan;
    for (uint32_t i = 0; i < count; i++) {
        asim_extent *extent = &arena->extents[plan[i].block];
        if (plan[i].target == extent->address)
            continue;
        if (table->ops->copy(table->ctx, device, plan[i].target, extent->address, extent->size) !=
            ASIM_DEVICE_OK) {
            asim_fail(&arena->fault, ASIM_E_SYSTEM, "the device could not copy a block");
            return false;
        }
        extent->address = plan[i].target;
        listener->moved(listener->ctx, plan[i].block, home->region.index, plan[i].target);
    }
    return true;
}

/* All free blocks go, before the blocks that stay take new addresses. */
static void drop_free(asim_arena *arena, const asim_arena_home *home)
{
    for (uint32_t b = home->first, next; b; b = next) {
        next = arena->extents[b].next;
        if (arena->notes[b].state != ASIM_BLOCK_FREE)
            continue;
        asim_arena_take(arena, b);
        asim_arena_retire(arena, b);
    }
}

/* The list anew, and the gaps filed. */
static bool relink(asim_arena *arena, unsigned device, uint32_t count)
{
    asim_arena_home *home = &arena->homes[device];
    const planned *plan = arena->compaction->plan;
    uint64_t at = home->region.address;
    uint32_t before = 0;
    home->first = 0;
    for (uint32_t i = 0; i <= count; i++) {
        const uint64_t next = i < count ? plan[i].target : home->region.address + home->region.size;
        if (before)
            arena->extents[before].next = 0;
        if (next > at && !(before = asim_arena_file_gap(arena, device, before, at, next - at)))
            return false;
        if (i == count)
            break;
        const uint32_t block = plan[i].block;
        arena->extents[block].prev = before;
        arena->extents[block].next = 0;
        if (before)
            arena->extents[before].next = block;
        else
            home->first = block;
        before = block;
        at = next + arena->extents[block].size;
    }
    asim_arena_settle(arena, device);
    return true;
}

/* needed: bytes that one free block must have afterwards, or nothing is done. */
static asim_alloc_result compact(asim_arena *arena, unsigned device, uint64_t needed, uint64_t *counter)
{
    asim_compaction *c = arena->compaction;
    asim_arena_home *home = &arena->homes[device];
    const asim_device *table = &arena->env.device;
    const asim_listener *listener = arena->env.listener;
    outcome plan;
    if (!home->first || home->free_bytes < needed || home->free_bytes == 0)
        return ASIM_REFUSED;
    const uint64_t busy = busy_streams(arena, device);
    if (arena->fault.code || !make_plan(arena, home, busy, &plan))
        return ASIM_BROKEN;
    if (!plan.moves || plan.largest < needed)
        return ASIM_REFUSED;
    listener->pause(listener->ctx, true);
    if (c->params.busy != BUSY_PIN)
        table->ops->device_wait(table->ctx, device);
    drop_free(arena, home);
    if (!move_blocks(arena, device, plan.count) || !relink(arena, device, plan.count))
        return ASIM_BROKEN;
    listener->pause(listener->ctx, false);
    c->pinned += plan.pinned;
    ++*counter;
    return ASIM_PLACED;
}

/* --- triggers --- */

asim_alloc_result asim_compaction_before(asim_arena *arena, unsigned device)
{
    asim_compaction *c = arena->compaction;
    const asim_arena_home *home = &arena->homes[device];
    if (c->params.above == ASIM_PARAM_NONE)
        return ASIM_REFUSED;
    const unsigned __int128 scattered = home->free_bytes - home->largest;
    const bool above = scattered * 100 > (unsigned __int128)home->free_bytes * c->params.above;
    const bool begins = above && c->armed[device];
    c->armed[device] = !above;
    return begins ? compact(arena, device, 0, &c->on_threshold) : ASIM_REFUSED;
}

asim_alloc_result asim_compaction_make_room(asim_arena *arena, unsigned device, uint64_t needed)
{
    asim_compaction *c = arena->compaction;
    if (c->params.compact != ASIM_COMPACT_FULL || !c->params.on_failure)
        return ASIM_REFUSED;
    return compact(arena, device, needed, &c->on_failure);
}

asim_code asim_compaction_mark(asim_arena *arena, const asim_event *event, const char *label, asim_err *err)
{
    asim_compaction *c = arena->compaction;
    if (!c || event->flags & ASIM_MARK_END)
        return ASIM_OK;
    const char *begins = c->params.compact == ASIM_COMPACT_FULL ? c->params.at : c->params.switch_mark;
    if (!begins[0] || strncmp(label, begins, strlen(begins)) != 0)
        return ASIM_OK;
    for (uint32_t d = 0; d < arena->env.device_count; d++)
        if (compact(arena, d, 0, &c->at_marks) == ASIM_BROKEN)
            return asim_fail(err, arena->fault.code, "%s", arena->fault.message);
    return ASIM_OK;
}

void asim_compaction_metrics(const asim_arena *arena,
                             void (*emit)(void *ctx, const char *name, uint64_t value), void *ctx)
{
    const asim_compaction *c = arena->compaction;
    if (!c)
        return;
    emit(ctx, "compactions_on_failure", c->on_failure);
    emit(ctx, "compactions_on_threshold", c->on_threshold);
    emit(ctx, "compactions_at_marks", c->at_marks);
    emit(ctx, "compaction_pinned_blocks", c->pinned);
}
