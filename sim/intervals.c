#include "sim/intervals.h"

#include <inttypes.h>
#include <string.h>

enum {
    RUN_MAX = 256
};

struct asim_interval_run {
    size_t count;
    asim_interval items[RUN_MAX];
};

typedef struct asim_interval_run run;

void asim_intervals_init(asim_intervals *set, const asim_hostmem *mem)
{
    memset(set, 0, sizeof *set);
    set->mem = mem;
}

void asim_intervals_fini(asim_intervals *set)
{
    for (size_t i = 0; i < set->run_count; i++)
        asim_mem_free(set->mem, set->runs[i], 1, sizeof(run));
    if (set->mem)
        asim_mem_free(set->mem, set->runs, set->run_capacity, sizeof(run *));
    memset(set, 0, sizeof *set);
}

/* Index of the first run whose last interval ends after address; run_count if none. */
static size_t find_run(const asim_intervals *set, uint64_t address)
{
    size_t low = 0, high = set->run_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const run *r = set->runs[middle];
        if (r->items[r->count - 1].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Index of the first interval of r that ends after address. */
static size_t find_item(const run *r, uint64_t address)
{
    size_t low = 0, high = r->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->items[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const asim_interval *asim_intervals_find(const asim_intervals *set, uint64_t address)
{
    size_t r = find_run(set, address);
    return r == set->run_count ? NULL : &set->runs[r]->items[find_item(set->runs[r], address)];
}

/* Makes room for a run at index at. */
static asim_code insert_run(asim_intervals *set, size_t at, asim_err *err)
{
    void *runs = set->runs;
    asim_code code =
        asim_mem_grow(set->mem, &runs, &set->run_capacity, set->run_count + 1, sizeof(run *), err);
    set->runs = runs;
    if (code)
        return code;
    run *fresh = asim_mem_new(set->mem, 1, sizeof(run));
    if (!fresh)
        return asim_fail_memory(err, sizeof(run));
    memmove(&set->runs[at + 1], &set->runs[at], (set->run_count - at) * sizeof(run *));
    set->runs[at] = fresh;
    set->run_count++;
    return ASIM_OK;
}

asim_code asim_intervals_add(asim_intervals *set, asim_interval interval, asim_err *err)
{
    if (interval.start >= interval.end)
        return asim_fail(err, ASIM_E_BUG, "the range at 0x%" PRIx64 " is empty", interval.start);
    size_t r = find_run(set, interval.start);
    if (r == set->run_count && r > 0)
        r--;
    if (set->run_count == 0) {
        asim_code code = insert_run(set, 0, err);
        if (code)
            return code;
    }
    size_t i = find_item(set->runs[r], interval.start);
    if (i < set->runs[r]->count && set->runs[r]->items[i].start < interval.end) {
        const asim_interval *other = &set->runs[r]->items[i];
        return asim_fail(err, ASIM_E_BUG,
                         "0x%" PRIx64 " to 0x%" PRIx64 " overlaps 0x%" PRIx64 " to 0x%" PRIx64,
                         interval.start, interval.end, other->start, other->end);
    }
    if (set->runs[r]->count == RUN_MAX) {
        asim_code code = insert_run(set, r + 1, err);
        if (code)
            return code;
        run *full = set->runs[r], *upper = set->runs[r + 1];
        upper->count = RUN_MAX / 2;
        full->count = RUN_MAX - upper->count;
        memcpy(upper->items, &full->items[full->count], upper->count * sizeof upper->items[0]);
        if (i > full->count) {
            i -= full->count;
            r++;
        }
    }
    run *target = set->runs[r];
    memmove(&target->items[i + 1], &target->items[i], (target->count - i) * sizeof target->items[0]);
    target->items[i] = interval;
    target->count++;
    set->count++;
    return ASIM_OK;
}

bool asim_intervals_remove(asim_intervals *set, uint64_t start)
{
    size_t r = find_run(set, start);
    if (r == set->run_count)
        return false;
    run *source = set->runs[r];
    size_t i = find_item(source, start);
    if (source->items[i].start != start)
        return false;
    source->count--;
    memmove(&source->items[i], &source->items[i + 1], (source->count - i) * sizeof source->items[0]);
    if (source->count == 0) {
        asim_mem_free(set->mem, source, 1, sizeof(run));
        set->run_count--;
        memmove(&set->runs[r], &set->runs[r + 1], (set->run_count - r) * sizeof(run *));
    }
    set->count--;
    return true;
}

void asim_intervals_each(const asim_intervals *set, void (*visit)(void *ctx, const asim_interval *interval),
                         void *ctx)
{
    for (size_t r = 0; r < set->run_count; r++)
        for (size_t i = 0; i < set->runs[r]->count; i++)
            visit(ctx, &set->runs[r]->items[i]);
}
