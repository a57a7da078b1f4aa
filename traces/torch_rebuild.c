/* Walking back: what the entries mean in reverse (R169).
 *
 *     alloc            the block at addr goes            free_completed   a block at addr comes (pending)
 *     segment_alloc    the segment goes                  free_requested   the pending block is live
 *     segment_free     a segment comes                   map, unmap       a mapped range goes, comes
 */
#include "traces/torch_rebuild.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB UINT64_C(1048576)

enum {
    SMALL_SEGMENT = 2097152,
    LARGE_SEGMENT = 20971520,
};

uint64_t asim_torch_round(const asim_torch_settings *settings, uint64_t n)
{
    if (n < 512)
        return 512;
    uint64_t divisions = 0;
    if (settings->divisions_present) {
        unsigned slot = 0;
        while (slot < 15 && n >> (21 + slot))
            slot++;
        divisions = settings->divisions[slot];
    }
    if (divisions > 1 && n > 512 * divisions) {
        unsigned power = 63u - (unsigned)__builtin_clzll(n);
        unsigned log = 63u - (unsigned)__builtin_clzll(divisions);
        uint64_t step = log < power ? UINT64_C(1) << (power - log) : 1;
        return (n & (n - 1)) == 0 ? n : (n + step - 1) / step * step;
    }
    return (n + 511) / 512 * 512;
}

void asim_torch_contradict(asim_torch_device *d, const char *format, ...)
{
    if (!d->contradicted) {
        va_list args;
        va_start(args, format);
        vsnprintf(d->contradiction, sizeof d->contradiction, format, args);
        va_end(args);
    }
    d->contradicted = true;
}

/* Index of the first run that begins after address. */
static size_t run_after(const asim_torch_device *d, uint64_t address)
{
    size_t low = 0, high = d->run_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (d->runs[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

asim_torch_run *asim_torch_run_at(const asim_torch_device *d, uint64_t address)
{
    size_t after = run_after(d, address);
    if (after == 0)
        return NULL;
    asim_torch_run *run = &d->runs[after - 1];
    return address - run->address < run->size ? run : NULL;
}

static asim_code insert_run(asim_torch_device *d, const asim_hostmem *mem, size_t at,
                            const asim_torch_run *run, asim_err *err)
{
    asim_code code =
        asim_mem_grow(mem, (void **)&d->runs, &d->run_capacity, d->run_count + 1, sizeof *d->runs, err);
    if (code)
        return code;
    memmove(d->runs + at + 1, d->runs + at, (d->run_count - at) * sizeof *d->runs);
    d->runs[at] = *run;
    d->run_count++;
    return ASIM_OK;
}

static void remove_run(asim_torch_device *d, size_t at)
{
    d->run_count--;
    memmove(d->runs + at, d->runs + at + 1, (d->run_count - at) * sizeof *d->runs);
}

asim_code asim_torch_run_insert(asim_torch_device *d, const asim_hostmem *mem, const asim_torch_run *run,
                                asim_err *err)
{
    return insert_run(d, mem, run_after(d, run->address), run, err);
}

asim_code asim_torch_run_cut(asim_torch_device *d, const asim_hostmem *mem, asim_torch_run *run,
                             uint64_t address, uint64_t size, asim_err *err)
{
    asim_torch_run right = *run;
    right.address = address + size;
    right.size = run->address + run->size - right.address;
    run->size = address - run->address;
    size_t at = (size_t)(run - d->runs);
    if (run->size == 0 && right.size == 0)
        remove_run(d, at);
    else if (run->size == 0)
        *run = right;
    else if (right.size)
        return insert_run(d, mem, at + 1, &right, err);
    return ASIM_OK;
}

static bool overlaps(const asim_torch_device *d, size_t after, uint64_t address, uint64_t size)
{
    if (after && address - d->runs[after - 1].address < d->runs[after - 1].size)
        return true;
    return after < d->run_count && d->runs[after].address - address < size;
}

/* --- the final state ----------------------------------------------------------------------------------- */

typedef struct walk {
    asim_torch_device *d;
    const asim_torch_records *r;
    const asim_hostmem *mem;
    asim_idmap at; /* address -> index into lives */
    uint32_t *unused;
    size_t unused_count, unused_capacity;
    asim_torch_run *last; /* run of the last look-up; NULL after runs moved */
    asim_err *err;
} walk;

static asim_code add_live(walk *w, const asim_torch_live *live)
{
    asim_torch_device *d = w->d;
    uint32_t index;
    if (w->unused_count) {
        index = w->unused[--w->unused_count];
    } else {
        if (d->live_count >= UINT32_MAX)
            return asim_fail(w->err, ASIM_E_INPUT, "more than 2^32 blocks live at once");
        asim_code code = asim_mem_grow(w->mem, (void **)&d->lives, &d->live_capacity, d->live_count + 1,
                                       sizeof *d->lives, w->err);
        if (code)
            return code;
        index = (uint32_t)d->live_count++;
    }
    d->lives[index] = *live;
    return asim_idmap_put(&w->at, live->address, index, w->err);
}

static int by_address(const void *a, const void *b)
{
    const asim_torch_run *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static int stale_by_address(const void *a, const void *b)
{
    const asim_torch_stale *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static asim_code final_blocks(walk *w, const asim_torch_segment *s)
{
    asim_torch_device *d = w->d;
    uint64_t at = s->address;
    for (uint32_t i = 0; i < s->block_count; i++) {
        const asim_torch_block *b = &w->r->blocks[s->first_block + i];
        if (b->size == 0 || (b->address != ASIM_NO_ADDRESS && b->address != at)) {
            asim_torch_contradict(d, "the blocks of the segment at 0x%" PRIx64 " leave a gap or overlap",
                                  s->address);
            return ASIM_OK;
        }
        asim_code code = ASIM_OK;
        if (b->state != ASIM_BLOCK_FREE) {
            uint32_t other;
            if (b->requested > b->size)
                asim_torch_contradict(d, "the block at 0x%" PRIx64 " is smaller than what was asked for", at);
            if (asim_idmap_get(&w->at, at, &other))
                asim_torch_contradict(d, "two blocks at 0x%" PRIx64, at);
            code = add_live(w, &(asim_torch_live){.address = at,
                                                  .size = b->size,
                                                  .requested = b->requested,
                                                  .stack = b->stack,
                                                  .state = b->state,
                                                  .exact = true});
        } else {
            code = asim_mem_grow(w->mem, (void **)&d->stales, &d->stale_capacity, d->stale_count + 1,
                                 sizeof *d->stales, w->err);
            if (!code)
                d->stales[d->stale_count++] = (asim_torch_stale){at, b->size, b->requested, false};
        }
        if (code)
            return code;
        at += b->size;
    }
    if (at != s->address + s->size)
        asim_torch_contradict(d, "the blocks of the segment at 0x%" PRIx64 " do not add up to its size",
                              s->address);
    return ASIM_OK;
}

static asim_code final_state(walk *w)
{
    asim_torch_device *d = w->d;
    const asim_torch_records *r = w->r;
    uint64_t reserved = 0;
    for (uint64_t i = 0; i < r->segment_range.count; i++) {
        const asim_torch_segment *s = &r->segments[r->segment_range.first + i];
        if (s->device != d->number || s->size == 0)
            continue;
        asim_torch_run run = {s->address, s->size,       s->stream, s->stack,
                              s->pool,    s->expandable, s->small,  false};
        asim_code code = insert_run(d, w->mem, d->run_count, &run, w->err);
        if (!code)
            code = final_blocks(w, s);
        if (code)
            return code;
        d->has_pools = d->has_pools || s->pool;
        reserved += s->size;
    }
    if (d->run_count)
        qsort(d->runs, d->run_count, sizeof *d->runs, by_address);
    if (d->stale_count)
        qsort(d->stales, d->stale_count, sizeof *d->stales, stale_by_address);
    for (size_t i = 1; i < d->run_count; i++)
        if (d->runs[i].address - d->runs[i - 1].address < d->runs[i - 1].size)
            asim_torch_contradict(d, "the segment at 0x%" PRIx64 " overlaps the one before",
                                  d->runs[i].address);
    d->start_reserved = d->max_reserved = reserved;
    return ASIM_OK;
}

/* --- one step back ------------------------------------------------------------------------------------- */

static asim_torch_run *run_of(walk *w, uint64_t address)
{
    if (!w->last || address - w->last->address >= w->last->size)
        w->last = asim_torch_run_at(w->d, address);
    return w->last;
}

/* Free blocks of the final state that touch [address, address + size] did not just lie there. */
static void touch(asim_torch_device *d, uint64_t address, uint64_t size)
{
    size_t low = 0, high = d->stale_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (d->stales[middle].address + d->stales[middle].size < address)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < d->stale_count && d->stales[low].address <= address + size; low++)
        d->stales[low].touched = true;
}

static void learn_kind(asim_torch_run *run, uint64_t requested)
{
    if (run->guessed) {
        run->small = requested <= MIB;
        run->guessed = false;
    }
}

static asim_code undo_alloc(walk *w, const asim_torch_entry *e)
{
    asim_torch_device *d = w->d;
    asim_torch_run *run = run_of(w, e->address);
    uint32_t index;
    if (!run) {
        asim_torch_contradict(d, "an allocation at 0x%" PRIx64 " lies in no segment", e->address);
        return ASIM_OK;
    }
    if (!asim_idmap_take(&w->at, e->address, &index)) {
        asim_torch_contradict(
            d, "the allocation at 0x%" PRIx64 " is neither freed in the history nor there at the end",
            e->address);
        return ASIM_OK;
    }
    learn_kind(run, e->size);
    touch(d, e->address, d->lives[index].size + (run->small || run->expandable ? 0 : MIB));
    d->lives[index].gone = true;
    asim_code code = asim_mem_grow(w->mem, (void **)&w->unused, &w->unused_capacity, w->unused_count + 1,
                                   sizeof *w->unused, w->err);
    if (!code)
        w->unused[w->unused_count++] = index;
    return code;
}

static asim_code undo_completed(walk *w, const asim_torch_entry *e, bool requested_too)
{
    asim_torch_device *d = w->d;
    asim_torch_run *run = run_of(w, e->address);
    uint32_t index;
    if (!run) {
        d->unknown_frees++;
        return ASIM_OK;
    }
    if (asim_idmap_get(&w->at, e->address, &index)) {
        if (!(e->action == ASIM_TORCH_FREE && d->lives[index].state == ASIM_BLOCK_PENDING))
            asim_torch_contradict(d, "the block at 0x%" PRIx64 " is freed while another one is there",
                                  e->address);
        return ASIM_OK;
    }
    learn_kind(run, e->size);
    uint64_t size = asim_torch_round(&w->r->settings, e->size);
    touch(d, e->address, size + (run->small || run->expandable ? 0 : MIB));
    return add_live(w, &(asim_torch_live){.address = e->address,
                                          .size = size,
                                          .requested = e->size,
                                          .stack = ASIM_NO_INDEX,
                                          .state = requested_too ? ASIM_BLOCK_LIVE : ASIM_BLOCK_PENDING});
}

static asim_code undo_requested(walk *w, const asim_torch_entry *e)
{
    uint32_t index;
    if (w->d->free_is_both)
        return undo_completed(w, e, true);
    if (!asim_idmap_get(&w->at, e->address, &index)) {
        if (run_of(w, e->address))
            asim_torch_contradict(
                w->d, "the free of 0x%" PRIx64 " is requested and never completed, and the block is gone",
                e->address);
        return ASIM_OK;
    }
    if (w->d->lives[index].state != ASIM_BLOCK_PENDING)
        asim_torch_contradict(
            w->d, "the free of 0x%" PRIx64 " is requested, but the block is in use at the end", e->address);
    w->d->lives[index].state = ASIM_BLOCK_LIVE;
    return ASIM_OK;
}

/* The entry says which memory came, not for which pool; the segment at the end does. */
static asim_code note_pool(walk *w, uint64_t number, uint16_t pool)
{
    asim_torch_device *d = w->d;
    if (!pool)
        return ASIM_OK;
    asim_code code = asim_mem_grow(w->mem, (void **)&d->pooled, &d->pooled_capacity, d->pooled_count + 1,
                                   sizeof *d->pooled, w->err);
    if (!code)
        d->pooled[d->pooled_count++] = (asim_torch_pooled){number, pool};
    return code;
}

static asim_code undo_segment_alloc(walk *w, const asim_torch_entry *e, uint64_t number)
{
    asim_torch_device *d = w->d;
    size_t after = run_after(d, e->address);
    w->last = NULL;
    if (after == 0 || d->runs[after - 1].address != e->address || d->runs[after - 1].size != e->size) {
        asim_torch_contradict(
            d, "the segment obtained at 0x%" PRIx64 " is neither released nor there at the end", e->address);
        return ASIM_OK;
    }
    asim_code code = note_pool(w, number, d->runs[after - 1].pool);
    remove_run(d, after - 1);
    touch(d, e->address, e->size);
    d->start_reserved -= e->size;
    return code;
}

static asim_code undo_release(walk *w, const asim_torch_entry *e)
{
    asim_torch_device *d = w->d;
    bool unmap = e->action == ASIM_TORCH_SEGMENT_UNMAP;
    const asim_torch_route *route = &w->r->routes[e->route];
    size_t after = run_after(d, e->address);
    w->last = NULL;
    if (overlaps(d, after, e->address, e->size)) {
        asim_torch_contradict(d, "the segment released at 0x%" PRIx64 " overlaps another", e->address);
        return ASIM_OK;
    }
    d->start_reserved += e->size;
    if (d->start_reserved > d->max_reserved)
        d->max_reserved = d->start_reserved;
    touch(d, e->address, e->size);
    uint16_t pool = route->pool == ASIM_TORCH_NO_POOL ? 0 : route->pool;
    asim_torch_run run = {e->address, e->size, route->stream, e->stack, pool, unmap, false, false};
    run.small = unmap ? e->size % LARGE_SEGMENT != 0 : e->size == SMALL_SEGMENT;
    run.guessed = unmap;
    if (!unmap)
        return insert_run(d, w->mem, after, &run, w->err);
    asim_torch_run *left = after ? &d->runs[after - 1] : NULL;
    asim_torch_run *right = after < d->run_count ? &d->runs[after] : NULL;
    bool to_left =
        left && left->expandable && left->stream == run.stream && left->address + left->size == run.address;
    bool to_right =
        right && right->expandable && right->stream == run.stream && run.address + run.size == right->address;
    if (to_left && to_right && !left->guessed && !right->guessed && left->small != right->small)
        to_right = false;
    if (to_right && !to_left) {
        right->address = run.address;
        right->size += run.size;
    } else if (to_left) {
        left->size += run.size;
        if (to_right) {
            left->size += right->size;
            if (left->guessed) {
                left->small = right->small;
                left->guessed = right->guessed;
            }
            remove_run(d, after);
        }
    } else {
        return insert_run(d, w->mem, after, &run, w->err);
    }
    return ASIM_OK;
}

static asim_code undo_map(walk *w, const asim_torch_entry *e, uint64_t number)
{
    asim_torch_device *d = w->d;
    asim_torch_run *run = asim_torch_run_at(d, e->address);
    w->last = NULL;
    if (!run || !run->expandable || e->address + e->size > run->address + run->size) {
        asim_torch_contradict(d, "the range mapped at 0x%" PRIx64 " is neither unmapped nor there at the end",
                              e->address);
        return ASIM_OK;
    }
    d->start_reserved -= e->size;
    touch(d, e->address, e->size);
    asim_code code = note_pool(w, number, run->pool);
    return code ? code : asim_torch_run_cut(d, w->mem, run, e->address, e->size, w->err);
}

static asim_code step_back(walk *w, const asim_torch_entry *e, uint64_t number)
{
    switch (e->action) {
    case ASIM_TORCH_ALLOC:
        return undo_alloc(w, e);
    case ASIM_TORCH_FREE:
        return undo_completed(w, e, true);
    case ASIM_TORCH_FREE_COMPLETED:
        return undo_completed(w, e, w->d->completion_is_both);
    case ASIM_TORCH_FREE_REQUESTED:
        return undo_requested(w, e);
    case ASIM_TORCH_SEGMENT_ALLOC:
        return undo_segment_alloc(w, e, number);
    case ASIM_TORCH_SEGMENT_MAP:
        return undo_map(w, e, number);
    case ASIM_TORCH_SEGMENT_FREE:
    case ASIM_TORCH_SEGMENT_UNMAP:
        return undo_release(w, e);
    default:
        return ASIM_OK;
    }
}

static int live_by_address(const void *a, const void *b)
{
    const asim_torch_live *x = a, *y = b;
    if (x->gone != y->gone)
        return x->gone - y->gone;
    return x->address < y->address ? -1 : x->address > y->address;
}

asim_code asim_torch_rebuild(asim_torch_device *d, const asim_torch_records *r, asim_err *err)
{
    walk w = {.d = d, .r = r, .mem = r->mem, .err = err};
    asim_torch_cursor *cursor = asim_mem_new(r->mem, 1, sizeof *cursor);
    if (!cursor)
        return asim_fail_memory(err, sizeof *cursor);
    asim_torch_cursor_init(cursor, &r->entries);
    asim_idmap_init(&w.at, r->mem);
    d->count = asim_torch_trace(r, d->number, &d->first);
    for (uint64_t i = 0; i < d->count; i++)
        d->actions[asim_torch_cursor_at(cursor, d->first + i)->action]++;
    uint64_t completions = d->actions[ASIM_TORCH_FREE_COMPLETED] + d->actions[ASIM_TORCH_FREE];
    d->free_is_both = completions == 0;
    d->completion_is_both = d->actions[ASIM_TORCH_FREE_REQUESTED] == 0 && d->actions[ASIM_TORCH_ALLOC];
    asim_code code = final_state(&w);
    for (uint64_t i = d->count; !code && !d->contradicted && i-- > 0;)
        code = step_back(&w, asim_torch_cursor_at(cursor, d->first + i), d->first + i);
    if (!code && d->live_count)
        qsort(d->lives, d->live_count, sizeof *d->lives, live_by_address);
    while (d->live_count && d->lives[d->live_count - 1].gone)
        d->live_count--;
    if (!code && !d->contradicted)
        code = asim_torch_settle_slack(d, r, cursor, err);
    asim_idmap_fini(&w.at);
    asim_mem_free(r->mem, w.unused, w.unused_capacity, sizeof *w.unused);
    asim_mem_free(r->mem, cursor, 1, sizeof *cursor);
    return code;
}

void asim_torch_device_fini(asim_torch_device *d, const asim_hostmem *mem)
{
    asim_mem_free(mem, d->runs, d->run_capacity, sizeof *d->runs);
    asim_mem_free(mem, d->lives, d->live_capacity, sizeof *d->lives);
    asim_mem_free(mem, d->stales, d->stale_capacity, sizeof *d->stales);
    asim_mem_free(mem, d->pooled, d->pooled_capacity, sizeof *d->pooled);
    memset(d, 0, sizeof *d);
}
