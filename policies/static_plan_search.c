/* The exact search for a plan of at most a given number of bytes: canonical solutions, depth first.
 *
 * After MiniMalloc (M. D. Moffitt, ASPLOS 2023, https://doi.org/10.1145/3623278.3624752). Items are placed in
 * order of their offsets (equal offsets: of their rank), each as low as what is placed allows. That suffices:
 * a plan in which an item could be lower while everything below it stays is not the one of least sum.
 *
 *     floor of a section     end of the highest item placed in it
 *     low of an item         highest floor of its sections, aligned: where it would go now
 *     least of an item       no lower than this in any plan that continues this one: its low, or, if the last
 *                            item placed is already above that, at least the smallest item on top of it
 *
 * A node is given up when
 *     - in some section the lowest `least` of the missing items, plus all their sizes, is too high;
 *     - some item could have gone, all of it, below the next one: then it would be there (dominance).
 * Items that span no common border fall apart into independent parts, which are searched one after another;
 * that one has no solution ends all of them. Of items that are equal in everything only the first is tried.
 *
 * The order in which candidates are tried is low, then rank, and which rank is good is luck: several are
 * tried in turn, with a limit of nodes that grows from round to round. Each independent part ranks its items
 * anew, by what is missing in its sections then, and begins again with offset 0: it is a problem of its own.
 * A search that ends within its limit has proven its answer. Nodes cost the sum of the lives, in sections, of
 * the items that are missing.
 */
#include "policies/static_plan_pack.h"
#include "policies/static_plan_part.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_LIMIT = 1 << 12, /* nodes of the first round, for each order */
    GROWTH = 4,            /* from round to round */
};

/* 'T': the most bytes missing in one of its sections; 'L': lifetime; 'A': lifetime times size. These three
 * are MiniMalloc's own. */
static const char *const orders[] = {"LAT", "TAL", "TLA"};

typedef struct searcher {
    const asim_plan_part *part;
    const asim_plan_item *items;
    const char *order;
    uint64_t enough;
    uint64_t steps, limit;
    uint64_t *low, *offsets;
    uint64_t *totals;           /* of each item: 'T', while its part is ranked */
    uint64_t *floors, *missing; /* of each section: its floor, the bytes that are not placed yet */
    uint64_t *least;            /* of each section: scratch */
    uint32_t *pool;             /* lists of items, nested */
    size_t pool_used, pool_size;
    uint64_t *undo; /* values that a placement changed, nested */
    size_t undo_used, undo_size;
} searcher;

static bool equal(const asim_plan_item *a, const asim_plan_item *b)
{
    return a->first == b->first && a->last == b->last && a->size == b->size && a->align == b->align;
}

typedef struct node {
    uint32_t *list; /* items that are missing, by rank */
    uint32_t count;
    uint32_t from, to; /* sections that they touch */
    uint64_t last;     /* offset of the item placed last in this part */
    uint32_t last_at;  /* items from here on in the list rank behind it */
} node;

static asim_plan_answer search(searcher *s, node n);

/* Whether the missing item at i in the list may come next: it lies above the item placed last, or beside it
 * and ranks behind it. */
static inline bool may_come(const searcher *s, const node *n, uint32_t i)
{
    const uint64_t low = s->low[n->list[i]];
    return low > n->last || (low == n->last && i >= n->last_at);
}

/* The section check. Also the lowest end that a missing item could have now. */
static bool has_room(searcher *s, const node *n, uint64_t *ret_lowest_end)
{
    uint64_t smallest = UINT64_MAX, lowest_end = UINT64_MAX;
    for (uint32_t i = 0; i < n->count; i++) {
        const uint64_t size = s->items[n->list[i]].size;
        smallest = size < smallest ? size : smallest;
    }
    for (uint32_t k = n->from; k < n->to; k++)
        s->least[k] = UINT64_MAX;
    for (uint32_t i = 0; i < n->count; i++) {
        const uint32_t item = n->list[i];
        const asim_plan_item *it = &s->items[item];
        const uint64_t end = s->low[item] + it->size;
        const uint64_t least = may_come(s, n, i) ? s->low[item] : n->last + smallest;
        lowest_end = end < lowest_end ? end : lowest_end;
        uint64_t *of = s->least;
        for (uint32_t k = it->first; k < it->last; k++)
            of[k] = least < of[k] ? least : of[k];
    }
    *ret_lowest_end = lowest_end;
    for (uint32_t k = n->from; k < n->to; k++)
        if (s->missing[k] && s->least[k] + s->missing[k] > s->enough)
            return false;
    return true;
}

/* The nested lists: an array that grows and shrinks like a stack, large enough for the deepest search. */
static uint32_t *push_list(searcher *s, uint32_t count)
{
    uint32_t *list = &s->pool[s->pool_used];
    s->pool_used += count;
    return list;
}

static void place(searcher *s, const node *n, uint32_t item)
{
    const asim_plan_item *it = &s->items[item];
    const uint64_t end = s->low[item] + it->size;
    s->offsets[item] = s->low[item];
    for (uint32_t k = it->first; k < it->last; k++) {
        s->undo[s->undo_used++] = s->floors[k];
        s->floors[k] = end;
        s->missing[k] -= it->size;
    }
    for (uint32_t i = 0; i < n->count; i++) {
        const uint32_t other = n->list[i];
        const asim_plan_item *o = &s->items[other];
        s->undo[s->undo_used++] = s->low[other];
        if (o->first < it->last && it->first < o->last && end > s->low[other])
            s->low[other] = o->align == 1 ? end : asim_plan_align(end, o->align);
    }
}

static void unplace(searcher *s, const node *n, uint32_t item)
{
    const asim_plan_item *it = &s->items[item];
    for (uint32_t i = n->count; i-- > 0;)
        s->low[n->list[i]] = s->undo[--s->undo_used];
    for (uint32_t k = it->last; k-- > it->first;) {
        s->floors[k] = s->undo[--s->undo_used];
        s->missing[k] += it->size;
    }
}

/* The borders in [from, to) that no missing item spans, as the ends of parts; returns how many parts. */
static uint32_t find_parts(searcher *s, const node *n, uint32_t *ends)
{
    uint32_t parts = 0, reach;
    uint64_t *far = s->least; /* of each section: the furthest end of an item that begins there */
    for (uint32_t k = n->from; k < n->to; k++)
        far[k] = 0;
    for (uint32_t i = 0; i < n->count; i++) {
        const asim_plan_item *it = &s->items[n->list[i]];
        far[it->first] = it->last > far[it->first] ? it->last : far[it->first];
    }
    for (uint32_t k = n->from; k < n->to;) {
        if (!far[k]) {
            k++;
            continue;
        }
        for (reach = (uint32_t)far[k]; k < reach; k++)
            if (far[k] > reach)
                reach = (uint32_t)far[k];
        ends[parts++] = reach;
    }
    return parts;
}

static int compare_ranks(const void *a, const void *b, void *ctx)
{
    const searcher *s = ctx;
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const asim_plan_item *i = &s->items[x], *k = &s->items[y];
    for (const char *c = s->order; *c; c++) {
        const unsigned __int128 p = *c == 'T'   ? s->totals[x]
                                    : *c == 'L' ? i->life
                                                : (unsigned __int128)i->life * i->size;
        const unsigned __int128 q = *c == 'T'   ? s->totals[y]
                                    : *c == 'L' ? k->life
                                                : (unsigned __int128)k->life * k->size;
        if (p != q)
            return p > q ? -1 : 1;
    }
    return x < y ? -1 : x > y;
}

static void rank(searcher *s, const node *n)
{
    for (uint32_t i = 0; i < n->count; i++) {
        const asim_plan_item *it = &s->items[n->list[i]];
        uint64_t most = 0;
        for (uint32_t k = it->first; k < it->last; k++)
            most = s->missing[k] > most ? s->missing[k] : most;
        s->totals[n->list[i]] = most;
    }
    qsort_r(n->list, n->count, sizeof *n->list, compare_ranks, s);
}

/* The first section that a missing item touches. */
static uint32_t find_begin(const searcher *s, const node *n)
{
    uint32_t begin = n->from;
    while (begin < n->to && !s->missing[begin])
        begin++;
    return begin;
}

/* Several independent parts, or one that is narrower than before: the one with the fullest section first, as
 * it is the likeliest to fail. */
static asim_plan_answer search_parts(searcher *s, const node *n, uint32_t *ends, uint32_t parts)
{
    asim_plan_answer answer = ASIM_PLAN_FOUND;
    for (uint32_t done = 0; done < parts && answer == ASIM_PLAN_FOUND; done++) {
        uint32_t best = parts, from = n->from;
        uint64_t fullest = 0;
        node part = *n;
        for (uint32_t p = 0, begin = find_begin(s, n); p < parts; p++) {
            const uint32_t end = ends[p] & ~(UINT32_C(1) << 31);
            uint64_t full = 0;
            for (uint32_t k = begin; k < end; k++)
                if (s->missing[k] && s->floors[k] + s->missing[k] > full)
                    full = s->floors[k] + s->missing[k];
            if (end == ends[p] && (best == parts || full > fullest)) {
                best = p;
                fullest = full;
                from = begin;
            }
            begin = end;
        }
        part.from = from;
        part.last = 0;
        part.last_at = 0;
        part.to = ends[best];
        part.list = push_list(s, n->count);
        part.count = 0;
        for (uint32_t i = 0; i < n->count; i++) {
            const asim_plan_item *it = &s->items[n->list[i]];
            if (it->first >= part.from && it->last <= part.to)
                part.list[part.count++] = n->list[i];
        }
        s->pool_used -= n->count - part.count;
        rank(s, &part);
        answer = search(s, part);
        s->pool_used -= part.count;
        ends[best] |= UINT32_C(1) << 31;
    }
    return answer;
}

/* Places in the list, in order of (low, rank): insertion is stable. */
static uint32_t find_candidates(const searcher *s, const node *n, uint64_t lowest_end, uint32_t *candidates)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n->count; i++) {
        const uint32_t item = n->list[i];
        if (!may_come(s, n, i) || s->low[item] >= lowest_end)
            continue;
        uint32_t at = count++;
        for (; at > 0 && s->low[n->list[candidates[at - 1]]] > s->low[item]; at--)
            candidates[at] = candidates[at - 1];
        candidates[at] = i;
    }
    return count;
}

static asim_plan_answer search(searcher *s, node n)
{
    uint64_t lowest_end;
    if (n.count == 0)
        return ASIM_PLAN_FOUND;
    if (s->steps == s->limit)
        return ASIM_PLAN_STOPPED;
    s->steps++;
    if (!has_room(s, &n, &lowest_end))
        return ASIM_PLAN_NONE;
    uint32_t *scratch = push_list(s, n.count);
    asim_plan_answer answer = ASIM_PLAN_NONE;
    const uint32_t parts = find_parts(s, &n, scratch);
    if (parts > 1 || find_begin(s, &n) > n.from || scratch[0] < n.to) {
        answer = search_parts(s, &n, scratch, parts);
        s->pool_used -= n.count;
        return answer;
    }
    const uint32_t candidates = find_candidates(s, &n, lowest_end, scratch);
    node next = n;
    next.list = push_list(s, n.count - 1);
    next.count = n.count - 1;
    for (uint32_t c = 0; c < candidates && answer == ASIM_PLAN_NONE; c++) {
        const uint32_t at = scratch[c], item = n.list[at];
        if (c > 0 && equal(&s->items[item], &s->items[n.list[scratch[c - 1]]]))
            continue;
        memcpy(next.list, n.list, at * sizeof *n.list);
        memcpy(next.list + at, n.list + at + 1, (n.count - at - 1) * sizeof *n.list);
        next.last = s->low[item];
        next.last_at = at;
        place(s, &next, item);
        answer = search(s, next);
        unplace(s, &next, item);
    }
    s->pool_used -= n.count - 1;
    s->pool_used -= n.count;
    return answer;
}

/* --- one order, all orders ---------------------------------------------------------------------------------
 */

static asim_code searcher_init(searcher *s, const asim_plan_part *part, uint64_t enough, asim_err *err)
{
    const size_t count = part->count, sections = part->section_count;
    size_t longest = 0;
    *s = (searcher){.part = part, .items = part->items, .enough = enough};
    for (uint32_t i = 0; i < part->count; i++)
        longest += part->items[i].last - part->items[i].first;
    /* A path places each item once. Where c are missing, a node holds two lists, of c at most, and if it is a
     * part of its own, the node that found that out two more. */
    s->pool_size = 2 * count * (count + 1) + 4 * count;
    s->undo_size = longest + count * (count + 1) / 2;
    s->totals = asim_mem_new(part->mem, count, sizeof *s->totals);
    s->low = asim_mem_new(part->mem, count, sizeof *s->low);
    s->offsets = asim_mem_new(part->mem, count, sizeof *s->offsets);
    s->floors = asim_mem_new(part->mem, sections, sizeof *s->floors);
    s->missing = asim_mem_new(part->mem, sections, sizeof *s->missing);
    s->least = asim_mem_new(part->mem, sections, sizeof *s->least);
    s->pool = asim_mem_new(part->mem, s->pool_size, sizeof *s->pool);
    s->undo = asim_mem_new(part->mem, s->undo_size, sizeof *s->undo);
    if (!s->totals || !s->low || !s->offsets || !s->floors || !s->missing || !s->least || !s->pool ||
        !s->undo)
        return asim_fail_memory(err, s->pool_size * sizeof *s->pool + s->undo_size * sizeof *s->undo);
    return ASIM_OK;
}

static void searcher_fini(searcher *s)
{
    const asim_hostmem *mem = s->part->mem;
    const size_t count = s->part->count, sections = s->part->section_count;
    asim_mem_free(mem, s->totals, count, sizeof *s->totals);
    asim_mem_free(mem, s->low, count, sizeof *s->low);
    asim_mem_free(mem, s->offsets, count, sizeof *s->offsets);
    asim_mem_free(mem, s->floors, sections, sizeof *s->floors);
    asim_mem_free(mem, s->missing, sections, sizeof *s->missing);
    asim_mem_free(mem, s->least, sections, sizeof *s->least);
    asim_mem_free(mem, s->pool, s->pool_size, sizeof *s->pool);
    asim_mem_free(mem, s->undo, s->undo_size, sizeof *s->undo);
}

static asim_plan_answer search_order(searcher *s, const char *order, uint64_t limit)
{
    const asim_plan_part *part = s->part;
    memset(s->floors, 0, part->section_count * sizeof *s->floors);
    memset(s->missing, 0, part->section_count * sizeof *s->missing);
    s->pool_used = s->undo_used = 0;
    s->order = order;
    node root = {.list = push_list(s, part->count), .count = part->count, .to = part->section_count};
    for (uint32_t i = 0; i < part->count; i++) {
        s->low[i] = 0;
        root.list[i] = i;
        for (uint32_t k = s->items[i].first; k < s->items[i].last; k++)
            s->missing[k] += s->items[i].size;
    }
    rank(s, &root);
    s->steps = 0;
    s->limit = limit;
    return search(s, root);
}

asim_code asim_plan_search(const asim_plan_part *part, uint64_t enough, uint64_t *steps,
                           asim_plan_answer *ret_answer, uint64_t *ret_offsets, asim_err *err)
{
    const size_t order_count = sizeof orders / sizeof *orders;
    searcher s;
    asim_plan_answer answer = ASIM_PLAN_STOPPED;
    asim_code code = searcher_init(&s, part, enough, err);
    uint64_t limit = FIRST_LIMIT;
    for (size_t turn = 0; !code && answer == ASIM_PLAN_STOPPED && *steps > 0; turn++) {
        if (turn && turn % order_count == 0)
            limit *= GROWTH;
        answer = search_order(&s, orders[turn % order_count], limit < *steps ? limit : *steps);
        *steps -= s.steps;
    }
    if (!code) {
        *ret_answer = answer;
        for (uint32_t i = 0; answer == ASIM_PLAN_FOUND && i < part->count; i++)
            ret_offsets[i] = s.offsets[i];
    }
    searcher_fini(&s);
    return code;
}
