/* Best fit on the skyline: the heuristic for any number of items.
 *
 * After E. K. Burke, G. Kendall and G. Whitwell (A New Placement Heuristic for the Orthogonal Stock-Cutting
 * Problem, Operations Research 52, 2004), applied to memory by T. Sekiyama et al. (Profile-guided Memory
 * Optimization for Deep Neural Networks, 2018, https://arxiv.org/abs/1804.10001). The skyline is the upper
 * edge of what is placed, a step function over the sections. Again and again its lowest step (the leftmost of
 * several) is looked at: of the items whose life lies inside the step the first in order goes there; if there
 * is none, the step is lifted to its lower neighbour, and what is between is lost.
 *
 *      ___                     ___                       ___
 *     |   |     ___           |   |___  ___             |   |______
 *     |   |____|   |   ->     |   | i ||   |   ->       |   |..i...|     lost: the dots
 *         lowest step           an item fits in         none fits beside it
 *
 * Which item is first among those inside [a, b) is asked of a tree of boxes: items are points (first, last),
 * put on Morton's curve, eight to a leaf; each box knows its corners and the best place in order of those
 * still missing. Cost: O(n log n) to build; each item is placed once and leaves at most two steps beside it;
 * a question costs O(sqrt n) at worst, and some dozens of boxes on traces.
 */
#include "policies/static_plan_part.h"

#include <stdlib.h>

enum {
    LEAF = 8, /* items of a leaf */
};

typedef struct box { /* children of box i: 2 i and 2 i + 1; the root is 1 */
    uint32_t first_least, first_most, last_least, last_most;
    uint32_t best; /* of the missing items, by place in order; UINT32_MAX: none is missing */
} box;

typedef struct step { /* of the skyline */
    uint64_t height;
    uint32_t from, to;
    uint32_t prev, next; /* neighbours; 0: none */
    uint32_t at;         /* its place in the heap, from 1; of a spare one: the next spare one */
} step;

typedef struct skyline {
    const asim_plan_part *part;
    const uint32_t *order;
    uint32_t *points; /* items along the curve */
    uint32_t *places; /* item -> place in order; UINT32_MAX: it is placed */
    uint32_t *spots;  /* item -> index in points */
    box *boxes;
    uint32_t leaf_count; /* a power of two; box leaf_count + i is leaf i */
    step *steps;         /* [0] is none */
    uint32_t *heap;      /* from 1: steps by height, then from left to right */
    size_t step_room;
    uint32_t step_count, spare, heap_count;
} skyline;

/* --- the tree of boxes -------------------------------------------------------------------------------------
 */

typedef struct on_curve {
    uint64_t key;
    uint32_t item;
} on_curve;

static uint64_t spread(uint32_t value)
{
    uint64_t v = value;
    v = (v | v << 16) & UINT64_C(0x0000FFFF0000FFFF);
    v = (v | v << 8) & UINT64_C(0x00FF00FF00FF00FF);
    v = (v | v << 4) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    v = (v | v << 2) & UINT64_C(0x3333333333333333);
    return (v | v << 1) & UINT64_C(0x5555555555555555);
}

static int compare_on_curve(const void *a, const void *b)
{
    const on_curve *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

static asim_code put_on_curve(skyline *s, asim_err *err)
{
    const asim_plan_part *part = s->part;
    on_curve *curve = asim_mem_new(part->mem, part->count, sizeof *curve);
    if (!curve)
        return asim_fail_memory(err, part->count * sizeof *curve);
    for (uint32_t i = 0; i < part->count; i++)
        curve[i] = (on_curve){spread(part->items[i].first) << 1 | spread(part->items[i].last), i};
    qsort(curve, part->count, sizeof *curve, compare_on_curve);
    for (uint32_t i = 0; i < part->count; i++) {
        s->points[i] = curve[i].item;
        s->spots[curve[i].item] = i;
    }
    asim_mem_free(part->mem, curve, part->count, sizeof *curve);
    return ASIM_OK;
}

static uint32_t leaf_best(const skyline *s, uint32_t leaf)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = leaf * LEAF; i < leaf * LEAF + LEAF && i < s->part->count; i++)
        if (s->places[s->points[i]] < best)
            best = s->places[s->points[i]];
    return best;
}

static void build_boxes(skyline *s)
{
    for (uint32_t leaf = 0; leaf < s->leaf_count; leaf++) {
        box *b = &s->boxes[s->leaf_count + leaf];
        *b = (box){UINT32_MAX, 0, UINT32_MAX, 0, leaf_best(s, leaf)};
        for (uint32_t i = leaf * LEAF; i < leaf * LEAF + LEAF && i < s->part->count; i++) {
            const asim_plan_item *item = &s->part->items[s->points[i]];
            b->first_least = item->first < b->first_least ? item->first : b->first_least;
            b->first_most = item->first > b->first_most ? item->first : b->first_most;
            b->last_least = item->last < b->last_least ? item->last : b->last_least;
            b->last_most = item->last > b->last_most ? item->last : b->last_most;
        }
    }
    for (uint32_t i = s->leaf_count; i-- > 1;) {
        const box *x = &s->boxes[2 * i], *y = &s->boxes[2 * i + 1];
        s->boxes[i] = (box){.first_least = x->first_least < y->first_least ? x->first_least : y->first_least,
                            .first_most = x->first_most > y->first_most ? x->first_most : y->first_most,
                            .last_least = x->last_least < y->last_least ? x->last_least : y->last_least,
                            .last_most = x->last_most > y->last_most ? x->last_most : y->last_most,
                            .best = x->best < y->best ? x->best : y->best};
    }
}

/* The least place in order of a missing item inside [from, to), if it is less than best; else best. */
static uint32_t first_inside(const skyline *s, uint32_t index, uint32_t from, uint32_t to, uint32_t best)
{
    const box *b = &s->boxes[index];
    if (b->best >= best || b->first_most < from || b->last_least > to)
        return best;
    if (b->first_least >= from && b->last_most <= to)
        return b->best;
    if (index >= s->leaf_count) {
        const uint32_t leaf = index - s->leaf_count;
        for (uint32_t i = leaf * LEAF; i < leaf * LEAF + LEAF && i < s->part->count; i++) {
            const asim_plan_item *item = &s->part->items[s->points[i]];
            if (item->first >= from && item->last <= to && s->places[s->points[i]] < best)
                best = s->places[s->points[i]];
        }
        return best;
    }
    const uint32_t near = 2 * index + (s->boxes[2 * index + 1].best < s->boxes[2 * index].best);
    best = first_inside(s, near, from, to, best);
    return first_inside(s, near ^ 1, from, to, best);
}

static void take_out(skyline *s, uint32_t item)
{
    uint32_t index = s->leaf_count + s->spots[item] / LEAF;
    s->places[item] = UINT32_MAX;
    s->boxes[index].best = leaf_best(s, s->spots[item] / LEAF);
    while (index /= 2) {
        const uint32_t x = s->boxes[2 * index].best, y = s->boxes[2 * index + 1].best;
        const uint32_t best = x < y ? x : y;
        if (s->boxes[index].best == best)
            return;
        s->boxes[index].best = best;
    }
}

/* --- the steps ---------------------------------------------------------------------------------------------
 */

static bool is_lower(const skyline *s, uint32_t a, uint32_t b)
{
    const step *x = &s->steps[a], *y = &s->steps[b];
    return x->height != y->height ? x->height < y->height : x->from < y->from;
}

static void set_at(skyline *s, uint32_t at, uint32_t index)
{
    s->heap[at] = index;
    s->steps[index].at = at;
}

/* Moves the step at that place of the heap to where it belongs. */
static void settle(skyline *s, uint32_t at)
{
    const uint32_t index = s->heap[at];
    for (; at > 1 && is_lower(s, index, s->heap[at / 2]); at /= 2)
        set_at(s, at, s->heap[at / 2]);
    for (uint32_t child; (child = 2 * at) <= s->heap_count; at = child) {
        child += child < s->heap_count && is_lower(s, s->heap[child + 1], s->heap[child]);
        if (!is_lower(s, s->heap[child], index))
            break;
        set_at(s, at, s->heap[child]);
    }
    set_at(s, at, index);
}

static void heap_remove(skyline *s, uint32_t index)
{
    const uint32_t at = s->steps[index].at, last = s->heap[s->heap_count--];
    if (last == index)
        return;
    set_at(s, at, last);
    settle(s, at);
}

/* There is room: steps don't overlap and none is empty. */
static uint32_t step_new(skyline *s, step fresh)
{
    uint32_t index = s->spare;
    if (index)
        s->spare = s->steps[index].at;
    else
        index = s->step_count++;
    s->steps[index] = fresh;
    if (fresh.prev)
        s->steps[fresh.prev].next = index;
    if (fresh.next)
        s->steps[fresh.next].prev = index;
    set_at(s, ++s->heap_count, index);
    settle(s, s->heap_count);
    return index;
}

/* The step's right neighbour, of the same height, becomes part of it. */
static void join_next(skyline *s, uint32_t index)
{
    step *kept = &s->steps[index];
    const uint32_t gone = kept->next;
    heap_remove(s, gone);
    kept->to = s->steps[gone].to;
    kept->next = s->steps[gone].next;
    if (kept->next)
        s->steps[kept->next].prev = index;
    s->steps[gone].at = s->spare;
    s->spare = gone;
}

/* The step gets another height; neighbours of that height join. */
static void raise(skyline *s, uint32_t index, uint64_t height)
{
    s->steps[index].height = height;
    settle(s, s->steps[index].at);
    if (s->steps[index].next && s->steps[s->steps[index].next].height == height)
        join_next(s, index);
    const uint32_t prev = s->steps[index].prev;
    if (prev && s->steps[prev].height == height)
        join_next(s, prev);
}

static uint64_t lower_neighbour(const skyline *s, uint32_t index)
{
    const step *it = &s->steps[index];
    const uint64_t left = it->prev ? s->steps[it->prev].height : UINT64_MAX;
    const uint64_t right = it->next ? s->steps[it->next].height : UINT64_MAX;
    return left < right ? left : right;
}

/* Puts the item onto the step, inside which it lies; returns its offset. */
static uint64_t put(skyline *s, uint32_t index, const asim_plan_item *item)
{
    const step whole = s->steps[index];
    const uint64_t offset = asim_plan_align(whole.height, item->align);
    if (item->first > whole.from)
        step_new(s, (step){.height = whole.height,
                           .from = whole.from,
                           .to = item->first,
                           .prev = whole.prev,
                           .next = index});
    s->steps[index].from = item->first;
    if (item->last < whole.to)
        step_new(s, (step){.height = whole.height,
                           .from = item->last,
                           .to = whole.to,
                           .prev = index,
                           .next = whole.next});
    s->steps[index].to = item->last;
    raise(s, index, offset + item->size);
    return offset;
}

/* --- the whole ---------------------------------------------------------------------------------------------
 */

static asim_code skyline_init(skyline *s, const asim_plan_part *part, const uint32_t *order, asim_err *err)
{
    *s = (skyline){.part = part, .order = order, .leaf_count = 1, .step_count = 1};
    while ((uint64_t)s->leaf_count * LEAF < part->count)
        s->leaf_count *= 2;
    s->step_room = (size_t)part->section_count + 2;
    s->points = asim_mem_new(part->mem, part->count, sizeof *s->points);
    s->places = asim_mem_new(part->mem, part->count, sizeof *s->places);
    s->spots = asim_mem_new(part->mem, part->count, sizeof *s->spots);
    s->boxes = asim_mem_new(part->mem, 2 * (size_t)s->leaf_count, sizeof *s->boxes);
    s->steps = asim_mem_new(part->mem, s->step_room, sizeof *s->steps);
    s->heap = asim_mem_new(part->mem, s->step_room, sizeof *s->heap);
    if (!s->points || !s->places || !s->spots || !s->boxes || !s->steps || !s->heap)
        return asim_fail_memory(err, part->count * 64);
    asim_code code = put_on_curve(s, err);
    if (code)
        return code;
    for (uint32_t i = 0; i < part->count; i++)
        s->places[order[i]] = i;
    build_boxes(s);
    return ASIM_OK;
}

static void skyline_fini(skyline *s)
{
    const asim_hostmem *mem = s->part->mem;
    const size_t count = s->part->count;
    asim_mem_free(mem, s->points, count, sizeof *s->points);
    asim_mem_free(mem, s->places, count, sizeof *s->places);
    asim_mem_free(mem, s->spots, count, sizeof *s->spots);
    asim_mem_free(mem, s->boxes, 2 * (size_t)s->leaf_count, sizeof *s->boxes);
    asim_mem_free(mem, s->steps, s->step_room, sizeof *s->steps);
    asim_mem_free(mem, s->heap, s->step_room, sizeof *s->heap);
}

asim_code asim_plan_skyline(const asim_plan_part *part, const uint32_t *order, uint64_t *ret_offsets,
                            uint64_t *ret_bytes, asim_err *err)
{
    skyline s;
    uint64_t bytes = 0;
    asim_code code = skyline_init(&s, part, order, err);
    if (!code)
        step_new(&s, (step){.to = part->section_count});
    for (uint32_t placed = 0; !code && placed < part->count;) {
        const uint32_t lowest = s.heap[1];
        const step *it = &s.steps[lowest];
        const uint32_t place = first_inside(&s, 1, it->from, it->to, UINT32_MAX);
        if (place == UINT32_MAX) {
            raise(&s, lowest, lower_neighbour(&s, lowest));
            continue;
        }
        const uint32_t index = order[place];
        const asim_plan_item *item = &part->items[index];
        take_out(&s, index);
        ret_offsets[index] = put(&s, lowest, item);
        bytes = ret_offsets[index] + item->size > bytes ? ret_offsets[index] + item->size : bytes;
        placed++;
    }
    skyline_fini(&s);
    *ret_bytes = bytes;
    return code;
}
