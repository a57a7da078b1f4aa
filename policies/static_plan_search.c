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
 *     - in some section, the lowest `least` of the items that are missing there, plus their sizes, is too
 * high;
 *     - some item could have gone, all of it, below the next one: then it would be there (dominance).
 * Items that span no common border fall apart into independent parts, which are searched one after another;
 * that one has no solution ends all of them. Of items that are equal in everything only the first is tried.
 *
 * The order in which candidates are tried is low, then rank, and which rank is good is luck: several are
 * tried in turn, with a limit of nodes that grows from round to round. A search that ends within its limit
 * has proven its answer. Nodes cost the sum of the lives, in sections, of the items that are missing.
 */
#include "policies/static_plan_pack.h"
#include "policies/static_plan_part.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_LIMIT = 1 << 12, /* nodes of the first round, for each order */
    GROWTH = 4,            /* from round to round */
};

static const char *const orders[] = {"TLA", "LAT", "TAL", "SLT", "AST"};

typedef struct searcher {
    const asim_plan_part *part;
    uint64_t enough;
    uint64_t steps, limit;
    asim_plan_item *items; /* by rank */
    uint32_t *ranks;       /* rank -> index in the part */
    uint64_t *low, *offsets;
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
    uint32_t from, to;  /* sections that they touch */
    uint64_t last;      /* offset of the item placed last */
    uint32_t last_rank; /* and its rank; UINT32_MAX before the first */
} node;

static asim_plan_answer search(searcher *s, node n);

/* Whether a missing item may come next: it lies above the item placed last, or beside it and later in rank.
 */
static inline bool may_come(const searcher *s, const node *n, uint32_t item)
{
    return s->low[item] > n->last ||
           (s->low[item] == n->last && (n->last_rank == UINT32_MAX || item > n->last_rank));
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
        const uint64_t least = may_come(s, n, item) ? s->low[item] : n->last + smallest;
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

/* Several independent parts: the one with the fullest section first, as it is the likeliest to fail. */
static asim_plan_answer search_parts(searcher *s, const node *n, uint32_t *ends, uint32_t parts)
{
    asim_plan_answer answer = ASIM_PLAN_FOUND;
    for (uint32_t done = 0; done < parts && answer == ASIM_PLAN_FOUND; done++) {
        uint32_t best = parts, from = n->from;
        uint64_t fullest = 0;
        node part = *n;
        for (uint32_t p = 0, begin = n->from; p < parts; p++) {
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
        part.to = ends[best];
        part.list = push_list(s, n->count);
        part.count = 0;
        for (uint32_t i = 0; i < n->count; i++) {
            const asim_plan_item *it = &s->items[n->list[i]];
            if (it->first >= part.from && it->last <= part.to)
                part.list[part.count++] = n->list[i];
        }
        s->pool_used -= n->count - part.count;
        answer = search(s, part);
        s->pool_used -= part.count;
        ends[best] |= UINT32_C(1) << 31;
    }
    return answer;
}

/* Candidates in order of (low, rank): the list is by rank already, so insertion keeps it stable. */
static uint32_t find_candidates(const searcher *s, const node *n, uint64_t lowest_end, uint32_t *candidates)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n->count; i++) {
        const uint32_t item = n->list[i];
        if (!may_come(s, n, item) || s->low[item] >= lowest_end)
            continue;
        uint32_t at = count++;
        for (; at > 0 && s->low[candidates[at - 1]] > s->low[item]; at--)
            candidates[at] = candidates[at - 1];
        candidates[at] = item;
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
    if (parts > 1) {
        answer = search_parts(s, &n, scratch, parts);
        s->pool_used -= n.count;
        return answer;
    }
    const uint32_t candidates = find_candidates(s, &n, lowest_end, scratch);
    node next = n;
    next.list = push_list(s, n.count - 1);
    next.count = n.count - 1;
    for (uint32_t c = 0; c < candidates && answer == ASIM_PLAN_NONE; c++) {
        const uint32_t item = scratch[c];
        if (c > 0 && equal(&s->items[item], &s->items[scratch[c - 1]]))
            continue;
        for (uint32_t i = 0, k = 0; i < n.count; i++)
            if (n.list[i] != item)
                next.list[k++] = n.list[i];
        next.last = s->low[item];
        next.last_rank = item;
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
    *s = (searcher){.part = part, .enough = enough};
    for (uint32_t i = 0; i < part->count; i++)
        longest += part->items[i].last - part->items[i].first;
    /* A path places each item once; a node holds its own list, one of candidates or parts, and one more of a
     * part, each no longer than what is missing. */
    s->pool_size = 3 * count * (count + 1) / 2 + 3 * count;
    s->undo_size = longest + count * (count + 1) / 2;
    s->items = asim_mem_new(part->mem, count, sizeof *s->items);
    s->ranks = asim_mem_new(part->mem, count, sizeof *s->ranks);
    s->low = asim_mem_new(part->mem, count, sizeof *s->low);
    s->offsets = asim_mem_new(part->mem, count, sizeof *s->offsets);
    s->floors = asim_mem_new(part->mem, sections, sizeof *s->floors);
    s->missing = asim_mem_new(part->mem, sections, sizeof *s->missing);
    s->least = asim_mem_new(part->mem, sections, sizeof *s->least);
    s->pool = asim_mem_new(part->mem, s->pool_size, sizeof *s->pool);
    s->undo = asim_mem_new(part->mem, s->undo_size, sizeof *s->undo);
    if (!s->items || !s->ranks || !s->low || !s->offsets || !s->floors || !s->missing || !s->least ||
        !s->pool || !s->undo)
        return asim_fail_memory(err, s->pool_size * sizeof *s->pool + s->undo_size * sizeof *s->undo);
    return ASIM_OK;
}

static void searcher_fini(searcher *s)
{
    const asim_hostmem *mem = s->part->mem;
    const size_t count = s->part->count, sections = s->part->section_count;
    asim_mem_free(mem, s->items, count, sizeof *s->items);
    asim_mem_free(mem, s->ranks, count, sizeof *s->ranks);
    asim_mem_free(mem, s->low, count, sizeof *s->low);
    asim_mem_free(mem, s->offsets, count, sizeof *s->offsets);
    asim_mem_free(mem, s->floors, sections, sizeof *s->floors);
    asim_mem_free(mem, s->missing, sections, sizeof *s->missing);
    asim_mem_free(mem, s->least, sections, sizeof *s->least);
    asim_mem_free(mem, s->pool, s->pool_size, sizeof *s->pool);
    asim_mem_free(mem, s->undo, s->undo_size, sizeof *s->undo);
}

static asim_code search_order(searcher *s, const char *order, uint64_t limit, asim_plan_answer *ret_answer,
                              asim_err *err)
{
    const asim_plan_part *part = s->part;
    asim_code code = asim_plan_order(part, order, s->ranks, err);
    if (code)
        return code;
    memset(s->floors, 0, part->section_count * sizeof *s->floors);
    memset(s->missing, 0, part->section_count * sizeof *s->missing);
    s->pool_used = s->undo_used = 0;
    node root = {.list = push_list(s, part->count),
                 .count = part->count,
                 .to = part->section_count,
                 .last_rank = UINT32_MAX};
    for (uint32_t rank = 0; rank < part->count; rank++) {
        const asim_plan_item *item = &s->items[rank];
        s->items[rank] = part->items[s->ranks[rank]];
        s->low[rank] = 0;
        root.list[rank] = rank;
        for (uint32_t k = item->first; k < item->last; k++)
            s->missing[k] += item->size;
    }
    s->steps = 0;
    s->limit = limit;
    *ret_answer = search(s, root);
    return ASIM_OK;
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
        code = search_order(&s, orders[turn % order_count], limit < *steps ? limit : *steps, &answer, err);
        *steps -= s.steps;
    }
    if (!code) {
        *ret_answer = answer;
        for (uint32_t rank = 0; answer == ASIM_PLAN_FOUND && rank < part->count; rank++)
            ret_offsets[s.ranks[rank]] = s.offsets[rank];
    }
    searcher_fini(&s);
    return code;
}
