/* Sizes of blocks that existed before the window and whose size no record gives (R170).
 *
 *     | block, rounded request | slack S |  free block ...  | next live block or end
 *       provisional size        `---------- gap -----------'
 *
 * A free block of an ordinary large pool is larger than 1 MiB (R7), so a gap of up to 1 MiB is all slack; in
 * a larger gap the first block placed there while ours lives stands where the free block begins.
 */
#include "traces/torch_rebuild.h"

#include <inttypes.h>

#define MIB UINT64_C(1048576)

typedef struct gap { /* of a block whose slack is open */
    uint64_t block, begin, end;
    uint32_t live;
    bool settled;
} gap;

typedef struct settle {
    asim_torch_device *d;
    const asim_torch_records *r;
    gap *gaps; /* by address */
    size_t gap_count, gap_capacity, open;
    asim_err *err;
} settle;

static asim_code one_block(settle *s, const asim_torch_run *run, size_t index, uint64_t next)
{
    asim_torch_device *d = s->d;
    asim_torch_live *live = &d->lives[index];
    uint64_t room = next - live->address;
    if (live->size > room) {
        if (live->exact || live->requested > room)
            asim_torch_contradict(d, "the block at 0x%" PRIx64 " overlaps what comes after it",
                                  live->address);
        live->size = room; /* rounded by other rules than we know (R28, or options that changed) */
        return ASIM_OK;
    }
    uint64_t space = room - live->size;
    if (live->exact || run->expandable || run->small || space == 0)
        return ASIM_OK;
    uint64_t max_split = s->r->settings.max_split_size;
    if (space <= MIB || live->size >= max_split) {
        live->size = room;
        d->slack_from_gap++;
        return ASIM_OK;
    }
    asim_code code = asim_mem_grow(s->r->mem, (void **)&s->gaps, &s->gap_capacity, s->gap_count + 1,
                                   sizeof *s->gaps, s->err);
    if (!code) {
        s->gaps[s->gap_count++] =
            (gap){live->address, live->address + live->size, next, (uint32_t)index, false};
        s->open++;
    }
    return code;
}

static void look_at(settle *s, const asim_torch_entry *e)
{
    size_t low = 0, high = s->gap_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->gaps[middle].block <= e->address)
            low = middle + 1;
        else
            high = middle;
    }
    gap *g = low ? &s->gaps[low - 1] : NULL;
    if (!g || g->settled)
        return;
    if (e->action == ASIM_TORCH_ALLOC) {
        if (e->address < g->begin || e->address >= g->end)
            return;
        if (e->address - g->begin <= MIB) {
            s->d->lives[g->live].size += e->address - g->begin;
            s->d->slack_from_fill++;
        } else {
            s->d->slack_unknown++;
        }
    } else if (e->address == g->block) {
        s->d->slack_unknown++;
    } else {
        return;
    }
    g->settled = true;
    s->open--;
}

asim_code asim_torch_settle_slack(asim_torch_device *d, const asim_torch_records *r,
                                  asim_torch_cursor *cursor, asim_err *err)
{
    settle s = {.d = d, .r = r, .err = err};
    asim_code code = ASIM_OK;
    size_t at = 0;
    for (size_t i = 0; i < d->run_count && !code; i++) {
        const asim_torch_run *run = &d->runs[i];
        uint64_t end = run->address + run->size;
        if (at < d->live_count && d->lives[at].address < run->address)
            break;
        for (; at < d->live_count && d->lives[at].address < end && !code; at++) {
            uint64_t next =
                at + 1 < d->live_count && d->lives[at + 1].address < end ? d->lives[at + 1].address : end;
            code = one_block(&s, run, at, next);
        }
    }
    if (!code && at < d->live_count)
        asim_torch_contradict(d, "the block at 0x%" PRIx64 " lies in no segment", d->lives[at].address);
    for (uint64_t i = 0; i < d->count && s.open && !code; i++) {
        const asim_torch_entry *e = asim_torch_cursor_at(cursor, d->first + i);
        bool ends = e->action == ASIM_TORCH_FREE_COMPLETED || e->action == ASIM_TORCH_FREE ||
                    (e->action == ASIM_TORCH_FREE_REQUESTED && d->free_is_both);
        if (ends || e->action == ASIM_TORCH_ALLOC)
            look_at(&s, e);
    }
    d->slack_unknown += s.open;
    asim_mem_free(r->mem, s.gaps, s.gap_capacity, sizeof *s.gaps);
    return code;
}
