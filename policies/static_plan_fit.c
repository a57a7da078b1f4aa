/* Orders of items, who meets whom, and first fit along an order.
 *
 * First fit of items in decreasing order of size is what TensorFlow Lite's and TVM's planners do (Y.
 * Pisarchyk and J. Lee, Efficient Memory Management for Deep Neural Net Inference, MLSys 2020 workshop);
 * other orders come out better on other traces, so several are tried.
 *
 *     placed before, and alive with the item:   [a]    [  b  ]      [c]
 *     gaps, from below:                            1           2         3
 *     the item goes to the first gap that is large enough, once aligned
 */
#include "policies/static_plan_part.h"

#include <stdlib.h>
#include <string.h>

/* --- orders ------------------------------------------------------------------------------------------------
 */

typedef struct sort_key {
    unsigned __int128 keys[3];
    uint32_t item;
} sort_key;

static int compare_keys(const void *a, const void *b)
{
    const sort_key *x = a, *y = b;
    for (int i = 0; i < 3; i++)
        if (x->keys[i] != y->keys[i])
            return x->keys[i] > y->keys[i] ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

/* The most bytes alive in one of the sections of each item: maxima of ranges, by doubling. */
static asim_code find_totals(const asim_plan_part *part, uint64_t *totals, asim_err *err)
{
    const uint32_t sections = part->section_count;
    unsigned levels = 1;
    while (sections >> levels)
        levels++;
    const size_t size = (size_t)levels * (sections + 1);
    uint64_t *table = asim_mem_new(part->mem, size, sizeof *table);
    if (!table)
        return asim_fail_memory(err, size * sizeof *table);
    for (uint32_t i = 0; i < part->count; i++) {
        table[part->items[i].first] += part->items[i].size;
        table[part->items[i].last] -= part->items[i].size; /* modulo 2^64; the sums are right again */
    }
    for (uint32_t k = 1; k < sections; k++)
        table[k] += table[k - 1];
    for (unsigned level = 1; level < levels; level++) {
        const uint64_t *below = &table[(size_t)(level - 1) * (sections + 1)];
        uint64_t *row = &table[(size_t)level * (sections + 1)];
        for (uint32_t k = 0; k + (1U << level) <= sections; k++) {
            const uint64_t right = below[k + (1U << (level - 1))];
            row[k] = below[k] > right ? below[k] : right;
        }
    }
    for (uint32_t i = 0; i < part->count; i++) {
        const uint32_t first = part->items[i].first, width = part->items[i].last - first;
        const unsigned level = 31U - (unsigned)__builtin_clz(width);
        const uint64_t *row = &table[(size_t)level * (sections + 1)];
        const uint64_t left = row[first], right = row[part->items[i].last - (1U << level)];
        totals[i] = left > right ? left : right;
    }
    asim_mem_free(part->mem, table, size, sizeof *table);
    return ASIM_OK;
}

asim_code asim_plan_order(const asim_plan_part *part, const char *criteria, uint32_t *ret_order,
                          asim_err *err)
{
    uint64_t *totals = NULL;
    asim_code code = ASIM_OK;
    sort_key *keys = asim_mem_new(part->mem, part->count, sizeof *keys);
    if (!keys)
        return asim_fail_memory(err, part->count * sizeof *keys);
    if (strchr(criteria, 'T')) {
        totals = asim_mem_new(part->mem, part->count, sizeof *totals);
        code = totals ? find_totals(part, totals, err) : asim_fail_memory(err, part->count * sizeof *totals);
    }
    for (uint32_t i = 0; i < part->count && !code; i++) {
        const asim_plan_item *item = &part->items[i];
        keys[i].item = i;
        for (int c = 0; c < 3 && criteria[c]; c++)
            keys[i].keys[c] = criteria[c] == 'L'   ? item->life
                              : criteria[c] == 'S' ? item->size
                              : criteria[c] == 'A' ? (unsigned __int128)item->life * item->size
                                                   : totals[i];
    }
    if (!code)
        qsort(keys, part->count, sizeof *keys, compare_keys);
    for (uint32_t i = 0; i < part->count && !code; i++)
        ret_order[i] = keys[i].item;
    asim_mem_free(part->mem, totals, part->count, sizeof *totals);
    asim_mem_free(part->mem, keys, part->count, sizeof *keys);
    return code;
}

/* --- who meets whom ----------------------------------------------------------------------------------------
 */

/* Items are sorted by first section: each meets those before it that have not ended by then. */
uint64_t asim_plan_pairs(const asim_plan_part *part, uint64_t limit)
{
    uint64_t pairs = 0;
    for (uint32_t i = 0; i < part->count && pairs < limit; i++) {
        /* Those that begin later, but before i ends. */
        uint32_t low = i + 1, high = part->count;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (part->items[middle].first < part->items[i].last)
                low = middle + 1;
            else
                high = middle;
        }
        pairs += low - i - 1;
    }
    return pairs < limit ? pairs : limit;
}

asim_code asim_plan_meets_new(const asim_plan_part *part, uint64_t pairs, asim_plan_meets *ret_meets,
                              asim_err *err)
{
    asim_plan_meets *m = ret_meets;
    *m = (asim_plan_meets){.pairs = pairs};
    m->starts = asim_mem_new(part->mem, (size_t)part->count + 2, sizeof *m->starts);
    m->others = asim_mem_new(part->mem, 2 * pairs + 1, sizeof *m->others);
    if (!m->starts || !m->others) {
        asim_plan_meets_free(part, m);
        return asim_fail_memory(err, 2 * pairs * sizeof *m->others);
    }
    /* Counted at the place after the next, so that filling in moves each start to where it belongs. */
    for (uint32_t i = 0; i < part->count; i++)
        for (uint32_t k = i + 1; k < part->count && part->items[k].first < part->items[i].last; k++) {
            m->starts[i + 2]++;
            m->starts[k + 2]++;
        }
    for (uint32_t i = 0; i < part->count; i++)
        m->starts[i + 2] += m->starts[i + 1];
    for (uint32_t i = 0; i < part->count; i++)
        for (uint32_t k = i + 1; k < part->count && part->items[k].first < part->items[i].last; k++) {
            m->others[m->starts[i + 1]++] = k;
            m->others[m->starts[k + 1]++] = i;
        }
    return ASIM_OK;
}

void asim_plan_meets_free(const asim_plan_part *part, asim_plan_meets *meets)
{
    asim_mem_free(part->mem, meets->starts, (size_t)part->count + 2, sizeof *meets->starts);
    asim_mem_free(part->mem, meets->others, 2 * meets->pairs + 1, sizeof *meets->others);
    *meets = (asim_plan_meets){0};
}

/* --- first fit ---------------------------------------------------------------------------------------------
 */

typedef struct extent {
    uint64_t offset, end;
} extent;

static int compare_extents(const void *a, const void *b)
{
    const extent *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

asim_code asim_plan_first_fit(const asim_plan_part *part, const asim_plan_meets *meets, const uint32_t *order,
                              uint64_t *ret_offsets, uint64_t *ret_bytes, asim_err *err)
{
    size_t most = 1;
    for (uint32_t i = 0; i < part->count; i++)
        if (meets->starts[i + 1] - meets->starts[i] > most)
            most = meets->starts[i + 1] - meets->starts[i];
    extent *extents = asim_mem_new(part->mem, most, sizeof *extents);
    if (!extents)
        return asim_fail_memory(err, most * sizeof *extents);
    memset(ret_offsets, 0xFF, part->count * sizeof *ret_offsets); /* UINT64_MAX: not placed yet */
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        const asim_plan_item *item = &part->items[order[i]];
        size_t count = 0;
        for (uint64_t k = meets->starts[order[i]]; k < meets->starts[order[i] + 1]; k++) {
            const uint32_t other = meets->others[k];
            if (ret_offsets[other] != UINT64_MAX)
                extents[count++] = (extent){ret_offsets[other], ret_offsets[other] + part->items[other].size};
        }
        qsort(extents, count, sizeof *extents, compare_extents);
        uint64_t offset = 0;
        for (size_t k = 0; k < count && extents[k].offset < offset + item->size; k++)
            if (extents[k].end > offset)
                offset = asim_plan_align(extents[k].end, item->align);
        ret_offsets[order[i]] = offset;
        bytes = offset + item->size > bytes ? offset + item->size : bytes;
    }
    asim_mem_free(part->mem, extents, most, sizeof *extents);
    *ret_bytes = bytes;
    return ASIM_OK;
}
