/* Forward through the history (R165, R166).
 *
 * A run of segment_free / segment_unmap entries is an empty_cache of its own (a TRIM event) unless the next
 * entry is a segment_alloc, segment_map or oom. Then it may be the release-and-retry of that request, or an
 * empty_cache just before it. It was an empty_cache
 *   - if one of the released segments could have served the request itself (same stream, same pool kind,
 *     large enough, and within the limits of max_split_size): the request would have taken it;
 *   - or else if the request's memory and everything reserved before the release together are no more than
 *     was reserved at another time in the window: the device had room, so nothing had to be released.
 *     Not used where garbage collection is on, which releases without need.
 * Otherwise it is left to the request.
 */
#include "traces/torch_emit.h"

#include <stdlib.h>
#include <string.h>

enum {
    LARGE_SEGMENT = 20971520,
};
#define MIB         UINT64_C(1048576)
#define PENDING_BIT UINT32_C(0x80000000) /* of a slot in the map: its free was requested */

typedef struct feed { /* one device's history on its way out */
    asim_torch_device *d;
    asim_torch_cursor cursor;
    uint64_t next, end; /* entries */
    uint64_t judged;    /* releases before this entry belong to the request that follows */
    uint64_t time_ns, reserved;
    asim_idmap slots;          /* address -> slot of a live block */
    asim_torch_device pooled;  /* runs of private pools as they are now; only its runs are used */
    size_t pooled_next;        /* d->pooled is used up from its end down to here */
    asim_recorded_call *calls; /* of the next event */
    size_t call_count, call_capacity;
    uint16_t *lanes; /* of each route; ASIM_LANE_ALL: not asked for yet */
    uint16_t index;  /* of the sink's device */
} feed;

typedef struct emitter {
    const asim_torch_records *r;
    const asim_hostmem *mem;
    asim_sink sink;
    feed *feeds;
    size_t feed_count;
    uint64_t base_us, last_ns;
    uint32_t *strings; /* ours -> the sink's, or ASIM_NO_INDEX */
    uint32_t *stacks;
    uint32_t unnamed; /* the sink's string for a name that is missing */
    char *text;       /* room to clean strings and frames in */
    size_t text_capacity;
    asim_frame *frames;
    size_t frame_capacity;
    uint32_t *free_slots;
    size_t free_slot_count, free_slot_capacity;
    uint32_t slot_count;
    uint32_t *marks; /* annotations by time */
    size_t mark_next;
    asim_torch_tally *tally;
    asim_err *err;
} emitter;

/* --- tables of the sink -------------------------------------------------------------------------------- */

static asim_code string_of(emitter *m, uint32_t string, uint32_t *ret_index)
{
    if (string == ASIM_NO_INDEX) {
        *ret_index = m->unnamed;
        return ASIM_OK;
    }
    if (m->strings[string] == ASIM_NO_INDEX) {
        size_t length = m->r->strings.items[string].length;
        asim_code code = asim_mem_grow(m->mem, (void **)&m->text, &m->text_capacity, length + 1, 1, m->err);
        if (code)
            return code;
        asim_strtab_clean(m->text, asim_strtab_text(&m->r->strings, string), length);
        code = m->sink.ops->string(m->sink.ctx, m->text, length, &m->strings[string], m->err);
        if (code)
            return code;
    }
    *ret_index = m->strings[string];
    return ASIM_OK;
}

static asim_code stack_of(emitter *m, uint32_t stack, uint32_t *ret_index)
{
    *ret_index = ASIM_NO_INDEX;
    if (stack == ASIM_NO_INDEX)
        return ASIM_OK;
    m->tally->stacks++;
    if (m->stacks[stack] == ASIM_NO_INDEX) {
        const asim_stack *s = &m->r->stacks[stack];
        asim_code code = asim_mem_grow(m->mem, (void **)&m->frames, &m->frame_capacity, s->count,
                                       sizeof *m->frames, m->err);
        for (uint32_t i = 0; i < s->count && !code; i++) {
            const asim_frame *frame = &m->r->frames[m->r->stack_frames[s->first + i]];
            m->frames[i].line = frame->line;
            code = string_of(m, frame->function, &m->frames[i].function);
            if (!code)
                code = string_of(m, frame->file, &m->frames[i].file);
        }
        if (!code)
            code = m->sink.ops->stack(m->sink.ctx, m->frames, s->count, &m->stacks[stack], m->err);
        if (code)
            return code;
    }
    *ret_index = m->stacks[stack];
    return ASIM_OK;
}

static asim_code lane_of(emitter *m, const feed *f, uint64_t stream, uint16_t pool, uint16_t *ret_lane)
{
    uint32_t lane;
    asim_code code = m->sink.ops->lane(m->sink.ctx, &(asim_lane){stream, f->index, pool}, &lane, m->err);
    if (!code && lane >= ASIM_LANES_MAX)
        code = asim_fail(m->err, ASIM_E_INPUT, "more than %d combinations of device, stream and pool",
                         ASIM_LANES_MAX);
    *ret_lane = (uint16_t)lane;
    return code;
}

/* The lane of an entry: its own pool, else that of the segment that holds address, else the default. */
static asim_code entry_lane(emitter *m, feed *f, const asim_torch_entry *e, uint64_t address,
                            uint16_t *ret_lane)
{
    const asim_torch_route *route = &m->r->routes[e->route];
    uint16_t pool = route->pool;
    if (pool == ASIM_TORCH_NO_POOL) {
        const asim_torch_run *run = f->pooled.run_count ? asim_torch_run_at(&f->pooled, address) : NULL;
        pool = run ? run->pool : 0;
        if (pool)
            return lane_of(m, f, route->stream, pool, ret_lane);
    }
    asim_code code = ASIM_OK;
    if (f->lanes[e->route] == ASIM_LANE_ALL)
        code = lane_of(m, f, route->stream, pool, &f->lanes[e->route]);
    *ret_lane = f->lanes[e->route];
    return code;
}

static asim_code new_slot(emitter *m, uint32_t *ret_slot)
{
    if (m->free_slot_count) {
        *ret_slot = m->free_slots[--m->free_slot_count];
        return ASIM_OK;
    }
    if (m->slot_count == PENDING_BIT)
        return asim_fail(m->err, ASIM_E_INPUT, "more than 2^31 blocks live at once");
    *ret_slot = m->slot_count++;
    return ASIM_OK;
}

static asim_code drop_slot(emitter *m, uint32_t slot)
{
    asim_code code = asim_mem_grow(m->mem, (void **)&m->free_slots, &m->free_slot_capacity,
                                   m->free_slot_count + 1, sizeof *m->free_slots, m->err);
    if (!code)
        m->free_slots[m->free_slot_count++] = slot;
    return code;
}

/* --- opening state ------------------------------------------------------------------------------------- */

static asim_code opening_run(emitter *m, feed *f, const asim_torch_run *run, size_t *live_at,
                             asim_opening_block **blocks, size_t *capacity)
{
    asim_torch_device *d = f->d;
    uint64_t at = run->address, end = run->address + run->size;
    size_t count = 0, stale = 0, high = d->stale_count;
    asim_code code = ASIM_OK;
    while (stale < high) { /* the first one not before this run */
        size_t middle = (stale + high) / 2;
        if (d->stales[middle].address < at)
            stale = middle + 1;
        else
            high = middle;
    }
    while (at < end && !code) {
        const asim_torch_live *live = *live_at < d->live_count ? &d->lives[*live_at] : NULL;
        asim_opening_block block = {.id = ASIM_NO_INDEX, .stack = ASIM_NO_INDEX};
        if (live && live->address == at) {
            block.size = live->size;
            block.requested = live->requested;
            block.state = live->state;
            code = new_slot(m, &block.id);
            if (!code)
                code = stack_of(m, live->stack, &block.stack);
            bool pending = live->state == ASIM_BLOCK_PENDING;
            if (!code)
                code = asim_idmap_put(&f->slots, at, block.id | (pending ? PENDING_BIT : 0), m->err);
            *(pending ? &m->tally->opening_pending : &m->tally->opening_live) += 1;
            ++*live_at;
        } else {
            uint64_t next = live && live->address < end ? live->address : end;
            block.size = next - at;
            block.state = ASIM_BLOCK_FREE;
            while (stale < d->stale_count && d->stales[stale].address < at)
                stale++;
            const asim_torch_stale *s = stale < d->stale_count ? &d->stales[stale] : NULL;
            if (s && s->address == at && s->size == block.size && !s->touched)
                block.requested = s->requested; /* it lay there all the time (R151, R172) */
        }
        if (!code)
            code = asim_mem_grow(m->mem, (void **)blocks, capacity, count + 1, sizeof **blocks, m->err);
        if (!code)
            (*blocks)[count++] = block;
        at += block.size;
    }
    if (code)
        return code;
    asim_opening_segment segment = {
        .address = run->address, .size = run->size, .expandable = run->expandable, .small = run->small};
    code = lane_of(m, f, run->stream, run->pool, &segment.lane);
    if (!code)
        code = stack_of(m, run->stack, &segment.stack);
    if (!code)
        code = m->sink.ops->opening(m->sink.ctx, &segment, *blocks, count, m->err);
    if (!code && run->pool)
        code = asim_torch_run_insert(&f->pooled, m->mem, run, m->err);
    return code;
}

static asim_code opening(emitter *m, feed *f)
{
    asim_opening_block *blocks = NULL;
    size_t capacity = 0, live_at = 0;
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < f->d->run_count && !code; i++)
        code = opening_run(m, f, &f->d->runs[i], &live_at, &blocks, &capacity);
    asim_mem_free(m->mem, blocks, capacity, sizeof *blocks);
    return code;
}

/* --- events -------------------------------------------------------------------------------------------- */

static asim_code write_event(emitter *m, feed *f, asim_event event, uint64_t address, uint32_t stack)
{
    asim_sink_event out = {.event = event, .recorded_address = address};
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < f->call_count && !code; i++)
        code = m->sink.ops->call(m->sink.ctx, &f->calls[i], m->err);
    f->call_count = 0;
    if (f->time_ns > m->last_ns)
        m->last_ns = f->time_ns;
    out.time_ns = m->last_ns;
    if (!code)
        code = stack_of(m, stack, &out.stack);
    return code ? code : m->sink.ops->event(m->sink.ctx, &out, m->err);
}

static asim_code queue_call(emitter *m, feed *f, const asim_torch_entry *e, unsigned kind)
{
    asim_recorded_call call = {.address = e->address, .size = e->size, .kind = (uint8_t)kind};
    asim_code code = entry_lane(m, f, e, e->address, &call.lane);
    if (!code)
        code = asim_mem_grow(m->mem, (void **)&f->calls, &f->call_capacity, f->call_count + 1,
                             sizeof *f->calls, m->err);
    if (!code)
        f->calls[f->call_count++] = call;
    return code;
}

static void take_time(emitter *m, feed *f, const asim_torch_entry *e)
{
    if (!e->time_us)
        return;
    uint64_t time = e->time_us > m->base_us ? e->time_us - m->base_us : 0;
    time = time > UINT64_MAX / 1000 ? UINT64_MAX : time * 1000;
    if (time < f->time_ns)
        m->tally->times_back++;
    else
        f->time_ns = time;
}

static bool skipped(const asim_torch_entry *e)
{
    return e->action == ASIM_TORCH_UNKNOWN || e->action == ASIM_TORCH_SNAPSHOT;
}

static bool releases(const asim_torch_entry *e)
{
    return e->action == ASIM_TORCH_SEGMENT_FREE || e->action == ASIM_TORCH_SEGMENT_UNMAP;
}

static bool obtains(const asim_torch_entry *e)
{
    return e->action == ASIM_TORCH_SEGMENT_ALLOC || e->action == ASIM_TORCH_SEGMENT_MAP;
}

static asim_code on_alloc(emitter *m, feed *f, const asim_torch_entry *e)
{
    asim_event event = {.kind = ASIM_EV_ALLOC, .size = e->size};
    uint32_t old;
    asim_code code = ASIM_OK;
    if (asim_idmap_take(&f->slots, e->address, &old)) {
        bool pending = old & PENDING_BIT;
        m->tally->reused_addresses++;
        old &= ~PENDING_BIT;
        asim_event end = {.kind = pending ? ASIM_EV_FREE_DONE : ASIM_EV_FREE, .id = old};
        code = write_event(m, f, end, ASIM_NO_ADDRESS, ASIM_NO_INDEX);
        *(pending ? &m->tally->dones : &m->tally->frees) += 1;
        if (!code)
            code = drop_slot(m, old);
    }
    if (!code)
        code = new_slot(m, &event.id);
    if (!code)
        code = asim_idmap_put(&f->slots, e->address, event.id, m->err);
    if (!code)
        code = entry_lane(m, f, e, e->address, &event.lane);
    m->tally->allocs++;
    return code ? code
                : write_event(m, f, event, f->d->contradicted ? ASIM_NO_ADDRESS : e->address, e->stack);
}

static asim_code on_free(emitter *m, feed *f, const asim_torch_entry *e)
{
    asim_event event = {.kind = ASIM_EV_FREE};
    asim_torch_entry entry = *e;
    bool completes = e->action != ASIM_TORCH_FREE_REQUESTED || f->d->free_is_both;
    uint32_t slot;
    if (!asim_idmap_get(&f->slots, e->address, &slot)) {
        m->tally->unknown_frees += completes;
        return ASIM_OK;
    }
    if (!completes && f->next + 1 < f->end) {
        const asim_torch_entry *after = asim_torch_cursor_at(&f->cursor, f->next + 1);
        if (after->action == ASIM_TORCH_FREE_COMPLETED && after->address == entry.address) {
            completes = true;
            f->next++;
        }
    }
    event.id = slot & ~PENDING_BIT;
    if (slot & PENDING_BIT) {
        if (!completes)
            return ASIM_OK; /* requested twice */
        event.kind = ASIM_EV_FREE_DONE;
        m->tally->dones++;
    } else {
        event.flags = completes ? 0 : ASIM_FREE_PENDING;
        *(completes ? &m->tally->frees : &m->tally->pendings) += 1;
    }
    asim_code code = write_event(m, f, event, ASIM_NO_ADDRESS, entry.stack);
    if (code)
        return code;
    if (!completes)
        return asim_idmap_put(&f->slots, entry.address, slot | PENDING_BIT, m->err);
    asim_idmap_take(&f->slots, entry.address, &slot);
    return drop_slot(m, event.id);
}

static asim_code on_oom(emitter *m, feed *f, const asim_torch_entry *e)
{
    asim_event event = {.kind = ASIM_EV_ALLOC, .size = e->size};
    asim_torch_entry entry = *e;
    asim_code code = queue_call(m, f, &entry, ASIM_CALL_OOM);
    if (!code)
        code = new_slot(m, &event.id); /* never used again: a policy that does serve it keeps the block */
    if (!code)
        code = entry_lane(m, f, &entry, ASIM_NO_ADDRESS, &event.lane);
    m->tally->ooms++;
    return code ? code : write_event(m, f, event, ASIM_NO_ADDRESS, entry.stack);
}

/* --- driver calls -------------------------------------------------------------------------------------- */

static asim_code on_obtain(emitter *m, feed *f, const asim_torch_entry *e)
{
    asim_torch_entry entry = *e;
    asim_torch_device *d = f->d;
    f->reserved += entry.size;
    if (d->contradicted)
        return ASIM_OK;
    const asim_torch_route *route = &m->r->routes[entry.route];
    uint16_t pool = route->pool == ASIM_TORCH_NO_POOL ? 0 : route->pool;
    if (f->pooled_next && d->pooled[f->pooled_next - 1].entry == f->next)
        pool = d->pooled[--f->pooled_next].pool;
    if (pool) {
        asim_torch_run run = {.address = entry.address, .size = entry.size, .pool = pool};
        asim_code code = asim_torch_run_insert(&f->pooled, m->mem, &run, m->err);
        if (code)
            return code;
    }
    return queue_call(m, f, &entry,
                      entry.action == ASIM_TORCH_SEGMENT_MAP ? ASIM_CALL_MAP : ASIM_CALL_SEGMENT_ALLOC);
}

static asim_code on_release(emitter *m, feed *f, const asim_torch_entry *e)
{
    asim_torch_entry entry = *e;
    f->reserved -= entry.size;
    if (f->d->contradicted)
        return ASIM_OK;
    asim_code code = queue_call(
        m, f, &entry, entry.action == ASIM_TORCH_SEGMENT_UNMAP ? ASIM_CALL_UNMAP : ASIM_CALL_SEGMENT_FREE);
    asim_torch_run *run = f->pooled.run_count ? asim_torch_run_at(&f->pooled, entry.address) : NULL;
    if (!code && run && entry.address + entry.size <= run->address + run->size)
        code = asim_torch_run_cut(&f->pooled, m->mem, run, entry.address, entry.size, m->err);
    return code;
}

static bool could_serve(const emitter *m, const asim_torch_entry *released, const asim_torch_entry *request,
                        uint64_t rounded)
{
    const asim_torch_route *from = &m->r->routes[released->route], *to = &m->r->routes[request->route];
    uint64_t max_split = m->r->settings.max_split_size;
    bool unmap = released->action == ASIM_TORCH_SEGMENT_UNMAP;
    bool small = unmap ? released->size % LARGE_SEGMENT != 0 : released->size == 2 * MIB;
    if (from->stream != to->stream || from->pool != to->pool || small != (rounded <= MIB) ||
        released->size < rounded)
        return false;
    if (unmap || max_split == UINT64_MAX)
        return true;
    return rounded < max_split ? released->size < max_split : released->size < rounded + LARGE_SEGMENT;
}

/* Is the run of releases that begins at entry f->next an empty_cache? *ret_end: the entry after the run. */
static bool is_trim(emitter *m, feed *f, uint64_t *ret_end)
{
    asim_torch_tally *tally = m->tally;
    uint64_t begin = f->next, end = begin, granted = 0;
    while (end < f->end && releases(asim_torch_cursor_at(&f->cursor, end)))
        end++;
    *ret_end = end;
    uint64_t at = end;
    while (at < f->end && skipped(asim_torch_cursor_at(&f->cursor, at)))
        at++;
    if (at == f->end)
        return true;
    while (at < f->end && obtains(asim_torch_cursor_at(&f->cursor, at)))
        granted += asim_torch_cursor_at(&f->cursor, at++)->size;
    asim_torch_entry request = {0};
    if (at < f->end)
        request = *asim_torch_cursor_at(&f->cursor, at);
    bool oom = request.action == ASIM_TORCH_OOM;
    if (!granted && !oom)
        return true;
    if (oom || request.action == ASIM_TORCH_ALLOC) {
        uint64_t rounded = oom ? request.size : asim_torch_round(&m->r->settings, request.size);
        for (uint64_t i = begin; i < end; i++) {
            if (could_serve(m, asim_torch_cursor_at(&f->cursor, i), &request, rounded)) {
                tally->fitting_releases++;
                return true;
            }
        }
    }
    if (granted && !f->d->contradicted && !(m->r->settings.gc_threshold > 0) &&
        f->reserved + granted <= f->d->max_reserved) {
        tally->roomy_releases++;
        return true;
    }
    tally->retry_releases++;
    return false;
}

static asim_code take_run(emitter *m, feed *f, uint64_t end)
{
    asim_code code = ASIM_OK;
    for (; f->next < end && !code; f->next++)
        code = on_release(m, f, asim_torch_cursor_at(&f->cursor, f->next));
    return code;
}

/* empty_cache works on every device in turn: what other devices release next belongs to the same call. */
static asim_code on_releases(emitter *m, feed *f)
{
    uint64_t end;
    if (f->next < f->judged) {
        asim_code code = on_release(m, f, asim_torch_cursor_at(&f->cursor, f->next));
        f->next++;
        return code;
    }
    if (!is_trim(m, f, &end)) {
        f->judged = end;
        return ASIM_OK;
    }
    asim_code code = take_run(m, f, end);
    for (size_t i = 0; i < m->feed_count && !code; i++) {
        feed *other = &m->feeds[i];
        if (other == f)
            continue;
        uint64_t next = other->next;
        while (next < other->end && skipped(asim_torch_cursor_at(&other->cursor, next)))
            next++;
        if (next == other->end || next < other->judged ||
            !releases(asim_torch_cursor_at(&other->cursor, next)))
            continue;
        other->next = next;
        take_time(m, other, asim_torch_cursor_at(&other->cursor, next));
        if (!is_trim(m, other, &end)) {
            other->judged = end;
            continue;
        }
        code = take_run(m, other, end);
        for (size_t k = 0; k < other->call_count && !code; k++) {
            code = asim_mem_grow(m->mem, (void **)&f->calls, &f->call_capacity, f->call_count + 1,
                                 sizeof *f->calls, m->err);
            if (!code)
                f->calls[f->call_count++] = other->calls[k];
        }
        other->call_count = 0;
    }
    m->tally->trims++;
    asim_event event = {.kind = ASIM_EV_TRIM, .lane = ASIM_LANE_ALL};
    return code ? code : write_event(m, f, event, ASIM_NO_ADDRESS, ASIM_NO_INDEX);
}

static asim_code one_entry(emitter *m, feed *f)
{
    const asim_torch_entry *e = asim_torch_cursor_at(&f->cursor, f->next);
    asim_code code = ASIM_OK;
    take_time(m, f, e);
    switch (e->action) {
    case ASIM_TORCH_ALLOC:
        code = on_alloc(m, f, e);
        break;
    case ASIM_TORCH_FREE:
    case ASIM_TORCH_FREE_REQUESTED:
    case ASIM_TORCH_FREE_COMPLETED:
        code = on_free(m, f, e);
        break;
    case ASIM_TORCH_SEGMENT_ALLOC:
    case ASIM_TORCH_SEGMENT_MAP:
        code = on_obtain(m, f, e);
        break;
    case ASIM_TORCH_SEGMENT_FREE:
    case ASIM_TORCH_SEGMENT_UNMAP:
        return on_releases(m, f); /* goes on by itself */
    case ASIM_TORCH_OOM:
        code = on_oom(m, f, e);
        break;
    default:
        break;
    }
    f->next++;
    return code;
}

/* --- annotations --------------------------------------------------------------------------------------- */

static int mark_order(const void *a, const void *b, void *ctx)
{
    const asim_torch_annotation *annotations = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (annotations[x].time_us != annotations[y].time_us)
        return annotations[x].time_us < annotations[y].time_us ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* ProfilerStep#12, iteration 3, step_7, Step: a pass of the program's main loop. */
static bool names_iteration(const char *name)
{
    static const char *const words[] = {"profilerstep", "iteration", "iter", "step"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]);
        char next = strncasecmp(name, words[i], length) == 0 ? name[length] : 'x';
        if (!((next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z')))
            return true;
    }
    return false;
}

static asim_code one_mark(emitter *m, const asim_torch_annotation *a)
{
    asim_sink_event out = {.recorded_address = ASIM_NO_ADDRESS, .stack = ASIM_NO_INDEX};
    out.event.kind = ASIM_EV_MARK;
    out.event.flags = a->stage == ASIM_TORCH_START ? ASIM_MARK_BEGIN
                      : a->stage == ASIM_TORCH_END ? ASIM_MARK_END
                                                   : 0;
    bool iteration = a->name != ASIM_NO_INDEX && names_iteration(asim_strtab_text(&m->r->strings, a->name));
    out.event.size = iteration ? ASIM_MARK_ITERATION : ASIM_MARK_PHASE;
    uint64_t time = a->time_us > m->base_us ? a->time_us - m->base_us : 0;
    time = time > UINT64_MAX / 1000 ? UINT64_MAX : time * 1000;
    if (time > m->last_ns)
        m->last_ns = time;
    out.time_ns = m->last_ns;
    asim_code code = string_of(m, a->name, &out.event.id);
    m->tally->marks++;
    return code ? code : m->sink.ops->event(m->sink.ctx, &out, m->err);
}

static asim_code order_marks(emitter *m)
{
    size_t count = m->r->annotation_count;
    if (count == 0)
        return ASIM_OK;
    m->marks = asim_mem_new(m->mem, count, sizeof *m->marks);
    if (!m->marks)
        return asim_fail_memory(m->err, count * sizeof *m->marks);
    for (size_t i = 0; i < count; i++)
        m->marks[i] = (uint32_t)i;
    qsort_r(m->marks, count, sizeof *m->marks, mark_order, m->r->annotations);
    /* An end whose name has no open beginning: the range began before the window. */
    asim_idmap open;
    asim_idmap_init(&open, m->mem);
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < count && !code; i++) {
        const asim_torch_annotation *a = &m->r->annotations[m->marks[i]];
        uint32_t depth = 0;
        asim_idmap_get(&open, a->name, &depth);
        if (a->stage == ASIM_TORCH_START)
            code = asim_idmap_put(&open, a->name, depth + 1, m->err);
        else if (a->stage == ASIM_TORCH_END && depth)
            code = asim_idmap_put(&open, a->name, depth - 1, m->err);
        else if (a->stage == ASIM_TORCH_END)
            m->tally->marks_end_first++;
    }
    asim_idmap_fini(&open);
    return code;
}

/* --- the whole ----------------------------------------------------------------------------------------- */

static asim_code start_feed(emitter *m, feed *f, asim_torch_device *d, uint16_t index)
{
    size_t routes = m->r->route_count ? m->r->route_count : 1;
    f->d = d;
    f->index = index;
    f->next = d->first;
    f->end = d->first + d->count;
    f->reserved = d->start_reserved;
    f->pooled_next = d->pooled_count;
    asim_torch_cursor_init(&f->cursor, &m->r->entries);
    asim_idmap_init(&f->slots, m->mem);
    f->lanes = asim_mem_new(m->mem, routes, sizeof *f->lanes);
    if (!f->lanes)
        return asim_fail_memory(m->err, routes * sizeof *f->lanes);
    memset(f->lanes, 0xFF, routes * sizeof *f->lanes);
    uint32_t number;
    asim_trace_device device = {ASIM_NO_INDEX, 0};
    asim_code code = m->sink.ops->device(m->sink.ctx, &device, &number, m->err);
    if (!code && !d->contradicted)
        code = opening(m, f);
    return code;
}

static asim_code play(emitter *m)
{
    const asim_torch_records *r = m->r;
    bool timed = m->base_us != 0;
    asim_code code = ASIM_OK;
    while (!code) {
        feed *first = NULL;
        uint64_t first_time = 0;
        for (size_t i = 0; i < m->feed_count; i++) {
            feed *f = &m->feeds[i];
            if (f->next == f->end)
                continue;
            uint64_t time = m->feed_count > 1 || m->mark_next < r->annotation_count
                                ? asim_torch_cursor_at(&f->cursor, f->next)->time_us
                                : 0;
            if (!first || time < first_time) {
                first = f;
                first_time = time;
            }
        }
        const asim_torch_annotation *mark =
            m->mark_next < r->annotation_count ? &r->annotations[m->marks[m->mark_next]] : NULL;
        if (mark && (!first || (timed && mark->time_us <= first_time))) {
            m->mark_next++;
            if (timed)
                code = one_mark(m, mark);
            else
                m->tally->marks_left++;
        } else if (first) {
            code = one_entry(m, first);
        } else {
            break;
        }
    }
    return code;
}

asim_code asim_torch_emit(const asim_torch_records *r, asim_torch_device *devices, size_t device_count,
                          uint64_t base_us, const asim_sink *sink, asim_torch_tally *ret_tally, asim_err *err)
{
    emitter m = {.r = r, .mem = r->mem, .sink = *sink, .base_us = base_us, .tally = ret_tally, .err = err};
    size_t strings = r->strings.count, stacks = r->stack_count ? r->stack_count : 1;
    memset(ret_tally, 0, sizeof *ret_tally);
    m.strings = asim_mem_new(r->mem, strings, sizeof *m.strings);
    m.stacks = asim_mem_new(r->mem, stacks, sizeof *m.stacks);
    m.feeds = asim_mem_new(r->mem, device_count, sizeof *m.feeds);
    asim_code code = ASIM_OK;
    if (!m.strings || !m.stacks || (device_count && !m.feeds)) {
        code = asim_fail_memory(err, strings * sizeof *m.strings + stacks * sizeof *m.stacks);
    } else {
        memset(m.strings, 0xFF, strings * sizeof *m.strings);
        memset(m.stacks, 0xFF, stacks * sizeof *m.stacks);
        code = sink->ops->string(sink->ctx, "??", 2, &m.unnamed, err);
        m.feed_count = device_count;
    }
    for (size_t i = 0; i < device_count && !code; i++)
        code = start_feed(&m, &m.feeds[i], &devices[i], (uint16_t)i);
    if (!code)
        code = order_marks(&m);
    if (!code)
        code = play(&m);
    for (size_t i = 0; i < m.feed_count; i++) {
        feed *f = &m.feeds[i];
        size_t cursor = 0;
        uint64_t address;
        uint32_t slot;
        while (!code && asim_idmap_next(&f->slots, &cursor, &address, &slot))
            ret_tally->never_completed += slot & PENDING_BIT ? 1 : 0;
        ret_tally->calls_left += f->call_count;
        asim_idmap_fini(&f->slots);
        asim_torch_device_fini(&f->pooled, r->mem);
        asim_mem_free(r->mem, f->calls, f->call_capacity, sizeof *f->calls);
        asim_mem_free(r->mem, f->lanes, r->route_count ? r->route_count : 1, sizeof *f->lanes);
    }
    asim_mem_free(r->mem, m.feeds, device_count, sizeof *m.feeds);
    asim_mem_free(r->mem, m.strings, strings, sizeof *m.strings);
    asim_mem_free(r->mem, m.stacks, stacks, sizeof *m.stacks);
    asim_mem_free(r->mem, m.text, m.text_capacity, 1);
    asim_mem_free(r->mem, m.frames, m.frame_capacity, sizeof *m.frames);
    asim_mem_free(r->mem, m.free_slots, m.free_slot_capacity, sizeof *m.free_slots);
    asim_mem_free(r->mem, m.marks, r->annotation_count, sizeof *m.marks);
    return code;
}
