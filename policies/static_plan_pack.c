/* From buffers to parts, and which method packs a part how well. */
#include "policies/static_plan_pack.h"

#include "policies/static_plan_part.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    PAIRS_MAX = 1 << 23,   /* pairs of items that meet, for first fit: 64 MiB */
    SKYLINE_MAX = 1 << 18, /* items of a part up to which several orders are tried on the skyline */
    BISECTION_SHARE = 4,   /* of the steps that are left, a probe between the bounds takes one in so many */
};

/* The first of each is the one that a large part gets. */
static const char *const skyline_orders[] = {"LSA", "ASL", "SLA"};
static const char *const fit_orders[] = {"SLA", "ASL", "LSA", "TLA"};

#define COUNT(array) (sizeof(array) / sizeof *(array))

typedef struct planner {
    const asim_plan_options *options;
    const asim_hostmem *mem;
    asim_plan_buffer *buffers;
    uint32_t count, item_count;
    asim_plan_item *items; /* of buffers that have a size, sections numbered through */
    uint32_t *owners;      /* item -> buffer */
    uint64_t *offsets, *trial;
    uint32_t *order;
    uint64_t steps_left;
    asim_plan_result result;
} planner;

/* --- sections ----------------------------------------------------------------------------------------------
 */

typedef struct moment {
    uint64_t time;
    uint32_t buffer;
    bool begins; /* at one time what ends goes before what begins */
} moment;

static int compare_moments(const void *a, const void *b)
{
    const moment *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->begins != y->begins)
        return x->begins ? 1 : -1;
    return x->buffer < y->buffer ? -1 : x->buffer > y->buffer;
}

/* A section is a run of begins and what lives at its end; ends that follow leave only what is in it too.
 * Items come out by first section. */
static void number_sections(planner *p, const moment *moments, size_t count, uint32_t *item_of)
{
    uint32_t section = 0;
    bool after_begin = false;
    for (size_t i = 0; i < count; i++) {
        const asim_plan_buffer *b = &p->buffers[moments[i].buffer];
        if (moments[i].begins) {
            p->owners[p->item_count] = moments[i].buffer;
            item_of[moments[i].buffer] = p->item_count;
            p->items[p->item_count++] = (asim_plan_item){
                .size = b->size, .align = b->align, .life = b->end - b->begin, .first = section};
            after_begin = true;
            continue;
        }
        section += after_begin;
        after_begin = false;
        p->items[item_of[moments[i].buffer]].last = section;
    }
}

static asim_code check_buffers(const planner *p, asim_err *err)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const asim_plan_buffer *b = &p->buffers[i];
        if (b->begin >= b->end || b->align == 0)
            return asim_fail(err, ASIM_E_INPUT,
                             "buffer %" PRIu32 " lives from %" PRIu64 " to %" PRIu64
                             " with alignment %" PRIu64 ": its end must lie behind its begin, and the "
                             "alignment be 1 or more",
                             i, b->begin, b->end, b->align);
        if (b->size > UINT64_C(1) << 62 || b->align > UINT64_C(1) << 62 ||
            (sum += b->size + (b->align - 1)) >= UINT64_C(1) << 62)
            return asim_fail(err, ASIM_E_INPUT,
                             "buffer %" PRIu32 " of %" PRIu64
                             " bytes: sizes and alignments add up to 2^62 or more",
                             i, b->size);
    }
    return ASIM_OK;
}

static asim_code find_items(planner *p, asim_err *err)
{
    size_t count = 0;
    moment *moments = asim_mem_new(p->mem, 2 * (size_t)p->count, sizeof *moments);
    uint32_t *item_of = asim_mem_new(p->mem, p->count, sizeof *item_of);
    asim_code code = ASIM_OK;
    if (!moments || !item_of)
        code = asim_fail_memory(err, 2 * (uint64_t)p->count * sizeof *moments);
    for (uint32_t i = 0; i < p->count && !code; i++) {
        p->buffers[i].offset = 0;
        if (p->buffers[i].size == 0)
            continue;
        moments[count++] = (moment){p->buffers[i].begin, i, true};
        moments[count++] = (moment){p->buffers[i].end, i, false};
    }
    if (!code && count) {
        qsort(moments, count, sizeof *moments, compare_moments);
        number_sections(p, moments, count, item_of);
    }
    asim_mem_free(p->mem, item_of, p->count, sizeof *item_of);
    asim_mem_free(p->mem, moments, 2 * (size_t)p->count, sizeof *moments);
    return code;
}

/* Most bytes alive in one section of the part. */
static asim_code find_lower_bound(asim_plan_part *part, asim_err *err)
{
    const size_t count = (size_t)part->section_count + 1;
    uint64_t *sums = asim_mem_new(part->mem, count, sizeof *sums), live = 0;
    if (!sums)
        return asim_fail_memory(err, count * sizeof *sums);
    for (uint32_t i = 0; i < part->count; i++) {
        sums[part->items[i].first] += part->items[i].size;
        sums[part->items[i].last] -= part->items[i].size; /* modulo 2^64; the sum of all so far is right */
    }
    for (uint32_t k = 0; k < part->section_count; k++) {
        live += sums[k];
        part->lower_bound = live > part->lower_bound ? live : part->lower_bound;
    }
    asim_mem_free(part->mem, sums, count, sizeof *sums);
    return ASIM_OK;
}

/* --- one part ----------------------------------------------------------------------------------------------
 */

typedef struct packing {
    const asim_plan_part *part;
    uint64_t *offsets, *trial; /* the best so far, and the next one */
    uint32_t *order;
    uint64_t bytes; /* of the best so far */
    uint64_t enough;
} packing;

static void keep_better(packing *k, uint64_t bytes)
{
    if (bytes >= k->bytes)
        return;
    k->bytes = bytes;
    for (uint32_t i = 0; i < k->part->count; i++)
        k->offsets[i] = k->trial[i];
}

static asim_code try_skylines(packing *k, asim_err *err)
{
    const size_t tries = k->part->count <= SKYLINE_MAX ? COUNT(skyline_orders) : 1;
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < tries && k->bytes > k->enough && !code; i++) {
        uint64_t bytes = UINT64_MAX;
        code = asim_plan_order(k->part, skyline_orders[i], k->order, err);
        if (!code)
            code = asim_plan_skyline(k->part, k->order, k->trial, &bytes, err);
        if (!code)
            keep_better(k, bytes);
    }
    return code;
}

static asim_code try_first_fits(packing *k, asim_err *err)
{
    const uint64_t pairs = asim_plan_pairs(k->part, PAIRS_MAX);
    asim_plan_meets meets;
    if (k->bytes <= k->enough || pairs == PAIRS_MAX)
        return ASIM_OK;
    asim_code code = asim_plan_meets_new(k->part, pairs, &meets, err);
    if (code)
        return code;
    for (size_t i = 0; i < COUNT(fit_orders) && k->bytes > k->enough && !code; i++) {
        uint64_t bytes = UINT64_MAX;
        code = asim_plan_order(k->part, fit_orders[i], k->order, err);
        if (!code)
            code = asim_plan_first_fit(k->part, &meets, k->order, k->trial, &bytes, err);
        if (!code)
            keep_better(k, bytes);
    }
    asim_plan_meets_free(k->part, &meets);
    return code;
}

/* The least target first: it is often met. Then between what is known to be too low and what is known to be
 * possible; a probe that runs out of steps counts as too low, but proves nothing. *ret_least: how low a plan
 * could still be, as far as is proven. */
static asim_code try_search(planner *p, packing *k, uint64_t *ret_least, asim_err *err)
{
    uint64_t low = *ret_least > k->enough ? *ret_least : k->enough, target = low;
    asim_code code = ASIM_OK;
    for (bool first = true; low < k->bytes && p->steps_left && !code; first = false) {
        uint64_t share = first ? p->steps_left - p->steps_left / 2 : p->steps_left / BISECTION_SHARE + 1;
        uint64_t left = share;
        asim_plan_answer answer;
        if (!first)
            target = low + (k->bytes - low) / 2;
        code = asim_plan_search(k->part, target, &left, &answer, k->trial, err);
        if (code)
            break;
        p->steps_left -= share - left;
        p->result.steps += share - left;
        if (answer == ASIM_PLAN_FOUND) {
            uint64_t bytes = 0;
            for (uint32_t i = 0; i < k->part->count; i++)
                if (k->trial[i] + k->part->items[i].size > bytes)
                    bytes = k->trial[i] + k->part->items[i].size;
            keep_better(k, bytes);
            continue;
        }
        if (answer == ASIM_PLAN_NONE && *ret_least <= target)
            *ret_least = target + 1;
        low = target + 1;
    }
    return code;
}

static asim_code pack_part(planner *p, asim_plan_part *part, uint32_t first_item, asim_err *err)
{
    const uint64_t plan_bound = p->result.lower_bound;
    packing k = {.part = part,
                 .offsets = &p->offsets[first_item],
                 .trial = p->trial,
                 .order = p->order,
                 .bytes = UINT64_MAX,
                 .enough = p->options->enough > plan_bound ? p->options->enough : plan_bound};
    if (k.enough == UINT64_MAX) /* which stands for no plan yet */
        k.enough--;
    uint64_t least = part->lower_bound;
    asim_code code = try_skylines(&k, err);
    if (!code)
        code = try_first_fits(&k, err);
    if (!code && k.bytes > k.enough && part->count <= p->options->exact_max)
        code = try_search(p, &k, &least, err);
    if (k.bytes > p->result.bytes)
        p->result.bytes = k.bytes;
    /* Of the whole, the plan is the least if no part could be lower than the bound by which it stands out. */
    if (least > p->result.lower_bound)
        p->result.lower_bound = least;
    return code;
}

/* --- the whole ---------------------------------------------------------------------------------------------
 */

/* Parts are runs of items: a border is free where the furthest end so far is the next begin. */
static asim_code each_part(planner *p, asim_code (*visit)(planner *, asim_plan_part *, uint32_t, asim_err *),
                           asim_err *err)
{
    asim_code code = ASIM_OK;
    for (uint32_t from = 0, to; from < p->item_count && !code; from = to) {
        const uint32_t base = p->items[from].first;
        uint32_t reach = p->items[from].last;
        for (to = from + 1; to < p->item_count && p->items[to].first < reach; to++)
            reach = p->items[to].last > reach ? p->items[to].last : reach;
        for (uint32_t i = from; i < to; i++) {
            p->items[i].first -= base;
            p->items[i].last -= base;
        }
        asim_plan_part part = {
            .items = &p->items[from], .count = to - from, .section_count = reach - base, .mem = p->mem};
        code = find_lower_bound(&part, err);
        if (!code)
            code = visit(p, &part, from, err);
        for (uint32_t i = from; i < to; i++) {
            p->items[i].first += base;
            p->items[i].last += base;
        }
    }
    return code;
}

static asim_code note_bound(planner *p, asim_plan_part *part, uint32_t first_item, asim_err *err)
{
    (void)first_item;
    (void)err;
    if (part->lower_bound > p->result.lower_bound)
        p->result.lower_bound = part->lower_bound;
    return ASIM_OK;
}

static asim_code planner_init(planner *p, asim_err *err)
{
    const size_t count = p->count;
    p->items = asim_mem_new(p->mem, count, sizeof *p->items);
    p->owners = asim_mem_new(p->mem, count, sizeof *p->owners);
    p->offsets = asim_mem_new(p->mem, count, sizeof *p->offsets);
    p->trial = asim_mem_new(p->mem, count, sizeof *p->trial);
    p->order = asim_mem_new(p->mem, count, sizeof *p->order);
    if (!p->items || !p->owners || !p->offsets || !p->trial || !p->order)
        return asim_fail_memory(err, count * sizeof *p->items);
    return ASIM_OK;
}

static void planner_fini(planner *p)
{
    asim_mem_free(p->mem, p->items, p->count, sizeof *p->items);
    asim_mem_free(p->mem, p->owners, p->count, sizeof *p->owners);
    asim_mem_free(p->mem, p->offsets, p->count, sizeof *p->offsets);
    asim_mem_free(p->mem, p->trial, p->count, sizeof *p->trial);
    asim_mem_free(p->mem, p->order, p->count, sizeof *p->order);
}

asim_code asim_plan_pack(asim_plan_buffer *buffers, uint32_t count, const asim_plan_options *options,
                         const asim_hostmem *mem, asim_plan_result *ret_result, asim_err *err)
{
    planner p = {
        .options = options, .mem = mem, .buffers = buffers, .count = count, .steps_left = options->steps};
    asim_code code = check_buffers(&p, err);
    if (code || count == 0) {
        if (!code)
            *ret_result = (asim_plan_result){.least = true};
        return code;
    }
    code = planner_init(&p, err);
    if (!code)
        code = find_items(&p, err);
    if (!code)
        code = each_part(&p, note_bound, err);
    if (!code)
        code = each_part(&p, pack_part, err);
    for (uint32_t i = 0; i < p.item_count && !code; i++)
        buffers[p.owners[i]].offset = p.offsets[i];
    planner_fini(&p);
    p.result.least = p.result.bytes == p.result.lower_bound;
    if (!code)
        *ret_result = p.result;
    return code;
}
