#include "tests/property/property_model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

enum {
    ALLOCATION,
    SEGMENT,
    ACTIVE,
    INACTIVE_SPLIT,
    ALLOCATED_BYTES,
    RESERVED_BYTES,
    ACTIVE_BYTES,
    INACTIVE_SPLIT_BYTES,
    REQUESTED_BYTES
};

static const char *const stat_names[MODEL_STATS] = {
    "allocation",      "segment",        "active",       "inactive_split",
    "allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes",
    "requested_bytes"};

void model_fail(model *m, const char *format, ...)
{
    if (m->failed)
        return;
    m->failed = true;
    va_list args;
    va_start(args, format);
    vsnprintf(m->message, sizeof m->message, format, args);
    va_end(args);
}

void model_init(model *m, const asim_lane *lanes, unsigned version, uint64_t max_split, bool expandable)
{
    *m = (model){.version = version,
                 .max_split = max_split,
                 .first_max_split = max_split == UINT64_MAX ? -1 : (int64_t)max_split,
                 .expandable = expandable,
                 .ever_expandable = expandable,
                 .lanes = lanes};
}

void model_fini(model *m)
{
    for (size_t i = 0; i < m->region_count; i++)
        free(m->regions[i].blocks);
    free(m->regions);
}

/* --- the blocks of a region */

static void *grown(void *items, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity)
        return items;
    *capacity = need * 2;
    items = realloc(items, *capacity * size);
    if (!items)
        abort();
    return items;
}

static void insert(model_region *region, size_t at, model_block block)
{
    region->blocks = grown(region->blocks, &region->capacity, region->count + 1, sizeof *region->blocks);
    memmove(region->blocks + at + 1, region->blocks + at, (region->count - at) * sizeof block);
    region->blocks[at] = block;
    region->count++;
}

static void take_out(model_region *region, size_t at)
{
    region->count--;
    memmove(region->blocks + at, region->blocks + at + 1, (region->count - at) * sizeof *region->blocks);
}

/* R69: joins all free blocks that touch. */
static void merge(model_region *region)
{
    for (size_t i = 0; i + 1 < region->count;) {
        model_block *a = &region->blocks[i], *b = a + 1;
        if (a->state == MODEL_FREE && b->state == MODEL_FREE && a->address + a->size == b->address) {
            a->size += b->size;
            take_out(region, i + 1);
        } else {
            i++;
        }
    }
}

/* The block that holds [address, address + size), or count. */
static size_t holder(const model_region *region, uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < region->count; i++)
        if (region->blocks[i].address <= address &&
            address + size <= region->blocks[i].address + region->blocks[i].size)
            return i;
    return region->count;
}

static model_region *region_with(model *m, uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < m->region_count; i++)
        if (holder(&m->regions[i], address, size) < m->regions[i].count)
            return &m->regions[i];
    model_fail(m, "%" PRIu64 " bytes at %#" PRIx64 " lie in no block that was seen", size, address);
    return NULL;
}

model_region *model_region_of(model *m, uint64_t address)
{
    for (size_t i = 0; i < m->region_count; i++)
        if (holder(&m->regions[i], address, 1) < m->regions[i].count)
            return &m->regions[i];
    return NULL;
}

static int by_address(const void *a, const void *b)
{
    const model_region *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->base < y->base ? -1 : x->base > y->base;
}

void model_sort(model *m)
{
    if (m->region_count)
        qsort(m->regions, m->region_count, sizeof *m->regions, by_address);
}

/* --- counting */

static void add(model_stat *stat, int64_t change)
{
    stat->current += change;
    if (change > 0)
        stat->allocated += change;
    else
        stat->freed -= change;
    if (stat->peak < stat->current)
        stat->peak = stat->current;
}

static void change(model_stat stats[3], unsigned large, int64_t now)
{
    const int64_t by = now - stats[1 + large].current;
    add(&stats[0], by); /* R65 */
    add(&stats[1 + large], by);
}

static void count_region(const model_region *region, int64_t counts[MODEL_STATS])
{
    counts[SEGMENT] += !region->expandable;
    for (size_t i = 0; i < region->count; i++) {
        const model_block *block = &region->blocks[i];
        const int64_t size = (int64_t)block->size;
        counts[RESERVED_BYTES] += size;
        if (block->state == MODEL_LIVE) {
            counts[ALLOCATION]++;
            counts[ALLOCATED_BYTES] += size;
        }
        if (block->state != MODEL_FREE) {
            counts[ACTIVE]++;
            counts[ACTIVE_BYTES] += size;
            counts[REQUESTED_BYTES] += (int64_t)block->requested;
        } else if (!region->expandable && region->count > 1) {
            counts[INACTIVE_SPLIT]++;
            counts[INACTIVE_SPLIT_BYTES] += size;
        }
    }
}

/* After each single thing that happened. */
static void count_again(model *m, unsigned device)
{
    int64_t now[2][MODEL_STATS] = {{0}}, pools[MODEL_POOLS][2][MODEL_STATS] = {{{0}}};
    for (size_t i = 0; i < m->region_count; i++)
        if (m->regions[i].device == device) {
            const model_region *region = &m->regions[i];
            count_region(region, now[region->large]);
            count_region(region, pools[region->pool][region->large]);
        }
    for (unsigned s = 0; s < MODEL_STATS; s++) {
        model_stat *stat = m->devices[device].stats[s];
        for (unsigned kind = 0; kind < 2; kind++)
            change(stat, kind, now[kind][s]);
    }
    for (unsigned pool = 1; pool < MODEL_POOLS; pool++) /* R123 */
        for (unsigned kind = 0; kind < 2; kind++)
            change(m->devices[device].pool_reserved[pool], kind, pools[pool][kind][RESERVED_BYTES]);
}

/* --- what happens */

static model_region *new_region(model *m, const asim_driver_call *call, bool expandable)
{
    m->regions = grown(m->regions, &m->region_capacity, m->region_count + 1, sizeof *m->regions);
    model_region *region = &m->regions[m->region_count++];
    *region = (model_region){.index = call->region,
                             .device = call->device,
                             .pool = model_route(m, &m->lanes[m->event.lane]),
                             .large = m->event.size > MIB, /* R30 */
                             .expandable = expandable,
                             .base = call->address - (expandable ? call->offset : 0)};
    return region;
}

static model_region *by_index(model *m, uint32_t index)
{
    for (size_t i = 0; i < m->region_count; i++)
        if (m->regions[i].index == index)
            return &m->regions[i];
    return NULL;
}

static void segment_freed(model *m, const asim_driver_call *call)
{
    model_region *region = by_index(m, call->region);
    if (!region || region->count != 1 || region->blocks[0].state != MODEL_FREE ||
        region->blocks[0].size != call->size) {
        model_fail(m,
                   "region %u went back to the device, and is not one free block of %" PRIu64 " bytes (R53)",
                   call->region, call->size);
        return;
    }
    free(region->blocks);
    *region = m->regions[--m->region_count];
}

static void mapped(model *m, const asim_driver_call *call)
{
    model_region *region = by_index(m, call->region);
    if (!region)
        region = new_region(m, call, true);
    size_t at = 0;
    while (at < region->count && region->blocks[at].address < call->address)
        at++;
    insert(region, at, (model_block){.address = call->address, .size = call->size});
    merge(region);
}

static void unmapped(model *m, const asim_driver_call *call)
{
    model_region *region = by_index(m, call->region);
    size_t at = region ? holder(region, call->address, call->size) : 0;
    if (!region || at == region->count || region->blocks[at].state != MODEL_FREE) {
        model_fail(m, "%" PRIu64 " bytes of region %u were unmapped that are not free (R95)", call->size,
                   call->region);
        return;
    }
    const model_block block = region->blocks[at];
    const uint64_t end = call->address + call->size, block_end = block.address + block.size;
    take_out(region, at);
    if (end < block_end)
        insert(region, at, (model_block){.address = end, .size = block_end - end});
    if (block.address < call->address)
        insert(region, at, (model_block){.address = block.address, .size = call->address - block.address});
}

void model_call(model *m, const asim_driver_call *call)
{
    model_device *device = &m->devices[call->device];
    const bool oversize = call->size >= m->max_split;
    switch (call->kind) {
    case ASIM_CALL_SEGMENT_ALLOC:
        m->obtained = true;
        device->device_allocs++;
        if (oversize)
            add(&device->oversize_segments, 1);
        model_region *region = new_region(m, call, false);
        region->fresh = true;
        insert(region, 0, (model_block){.address = call->address, .size = call->size});
        break;
    case ASIM_CALL_SEGMENT_FREE:
        device->device_frees++;
        if (oversize)
            add(&device->oversize_segments, -1);
        segment_freed(m, call);
        break;
    case ASIM_CALL_MAP:
        m->obtained = true;
        device->device_allocs++;
        mapped(m, call);
        break;
    case ASIM_CALL_UNMAP:
        device->device_frees++;
        unmapped(m, call);
        break;
    case ASIM_CALL_OOM:
        device->ooms++;
        m->refused = true;
        break;
    }
    count_again(m, call->device);
}

/* R37: among the free blocks of the same pool, stream and kind none fits better; for plain searches without
 * the rules of oversize and expandable blocks. */
static void check_best(model *m, const model_region *home, const model_block *found, uint64_t rounded)
{
    if (home->fresh || m->ever_expandable || m->max_split != UINT64_MAX)
        return;
    for (size_t i = 0; i < m->region_count; i++) {
        const model_region *region = &m->regions[i];
        if (region->fresh || region->device != home->device || region->stream != home->stream ||
            region->pool != home->pool || region->large != home->large)
            continue;
        for (size_t k = 0; k < region->count; k++) {
            const model_block *other = &region->blocks[k];
            if (other->state != MODEL_FREE || other->size < rounded || other->size > found->size)
                continue;
            if (other->size < found->size || (other->address < found->address && m->version < 213))
                model_fail(m,
                           "the block of %" PRIu64 " bytes at %#" PRIx64 " fits %" PRIu64
                           " bytes better than the one at %#" PRIx64 " (R37)",
                           other->size, other->address, rounded, found->address);
        }
    }
}

void model_placed(model *m, const asim_event *event, const asim_placement *placement)
{
    const uint64_t address = placement->address, size = placement->size;
    model_region *region = region_with(m, address, size);
    if (!region)
        return;
    size_t at = holder(region, address, size);
    const model_block found = region->blocks[at];
    const uint64_t rest = found.size - placement->rounded;
    if (found.state != MODEL_FREE || found.address != address)
        model_fail(m, "the block at %#" PRIx64 " is not the front of a free one (R64)", address);
    check_best(m, region, &found, placement->rounded);
    /* R62 and R63. */
    bool splits =
        !region->large || m->expandable ? rest >= 512 : placement->rounded < m->max_split && rest > MIB;
    if (size != (splits ? placement->rounded : found.size))
        model_fail(m, "%" PRIu64 " of %" PRIu64 " free bytes were handed out for %" PRIu64 " (R62)", size,
                   found.size, placement->rounded);
    if (region->large != (event->size > MIB))
        model_fail(m, "a request of %" PRIu64 " bytes was served from the %s pool (R30)", event->size,
                   region->large ? "large" : "small");
    region->blocks[at] = (model_block){address, size, event->size, MODEL_LIVE};
    if (size < found.size)
        insert(region, at + 1, (model_block){.address = address + size, .size = found.size - size});
    if (size >= m->max_split)
        add(&m->devices[region->device].oversize_allocations, 1);
    m->ids[event->id] = (model_id){MODEL_ID_LIVE, region->device};
    count_again(m, region->device);
}

static model_block *used_block(model *m, uint64_t address, uint64_t size, model_block_state state,
                               model_region **ret_region)
{
    model_region *region = region_with(m, address, size);
    model_block *block = region ? &region->blocks[holder(region, address, size)] : NULL;
    if (block && (block->address != address || block->size != size || block->state != state))
        model_fail(m, "a free at %#" PRIx64 ", %" PRIu64 " bytes, fits no block", address, size);
    *ret_region = region;
    return m->failed ? NULL : block;
}

void model_completed(model *m, uint64_t address, uint64_t size)
{
    model_region *region;
    model_block *block = used_block(m, address, size, MODEL_PENDING, &region);
    if (!block)
        return;
    block->state = MODEL_FREE;
    merge(region);
    count_again(m, region->device);
}

void model_freed(model *m, uint64_t address, uint64_t size, bool pending)
{
    model_region *region;
    model_block *block = used_block(m, address, size, MODEL_LIVE, &region);
    if (!block)
        return;
    block->state = MODEL_PENDING;
    if (size >= m->max_split)
        add(&m->devices[region->device].oversize_allocations, -1);
    count_again(m, region->device);
    if (!pending)
        model_completed(m, address, size);
}

/* --- comparing */

static int64_t field_of(const model_stat *stat, const char *field, bool *ret_known)
{
    *ret_known = true;
    if (!strcmp(field, "current"))
        return stat->current;
    if (!strcmp(field, "peak"))
        return stat->peak;
    if (!strcmp(field, "allocated"))
        return stat->allocated;
    *ret_known = !strcmp(field, "freed");
    return stat->freed;
}

/* What the model says of a statistic by its flattened name (R126). */
static int64_t expected(const model_device *device, const model *m, const char *name, bool *ret_known)
{
    static const char *const kinds[] = {".all.", ".small_pool.", ".large_pool."};
    const struct {
        const char *name;
        int64_t value;
    } singles[] = {{"num_ooms", device->ooms},
                   {"num_device_alloc", device->device_allocs},
                   {"num_device_free", device->device_frees},
                   {"num_oom_rejections", device->rejections},
                   {"max_split_size", m->first_max_split}};
    for (size_t i = 0; i < sizeof singles / sizeof singles[0]; i++)
        if (!strcmp(name, singles[i].name)) {
            *ret_known = true;
            return singles[i].value;
        }
    static const char by_pool[] = "reserved_bytes_by_private_pools.0_";
    if (!strncmp(name, by_pool, sizeof by_pool - 1)) {
        char *rest;
        unsigned long pool = strtoul(name + sizeof by_pool - 1, &rest, 10);
        for (unsigned kind = 0; kind < 3 && pool > 0 && pool < MODEL_POOLS; kind++)
            if (!strncmp(rest, kinds[kind], strlen(kinds[kind])))
                return field_of(&device->pool_reserved[pool][kind], rest + strlen(kinds[kind]), ret_known);
    }
    if (!strncmp(name, "oversize_allocations.", 21))
        return field_of(&device->oversize_allocations, name + 21, ret_known);
    if (!strncmp(name, "oversize_segments.", 18))
        return field_of(&device->oversize_segments, name + 18, ret_known);
    for (unsigned s = 0; s < MODEL_STATS; s++) {
        size_t length = strlen(stat_names[s]);
        for (unsigned kind = 0; kind < 3 && !strncmp(name, stat_names[s], length); kind++)
            if (!strncmp(name + length, kinds[kind], strlen(kinds[kind])))
                return field_of(&device->stats[s][kind], name + length + strlen(kinds[kind]), ret_known);
    }
    *ret_known = false;
    return 0;
}

/* R123: what a private pool holds now. A region that comes and goes within one operation is never seen in its
 * pool, so peaks and totals aren't compared. */
static void compare_pool(model *m, unsigned device, const char *name, int64_t value)
{
    unsigned pool = 0;
    int read = 0;
    int64_t held = 0;
    if (sscanf(name, "reserved_bytes_by_private_pools.0_%u.%n", &pool, &read) != 1 || read == 0)
        model_fail(m, "the statistic %s names no pool", name);
    const char *kind = name + read;
    if (!strstr(kind, ".current"))
        return;
    for (size_t i = 0; i < m->region_count; i++) {
        const model_region *region = &m->regions[i];
        if (region->device != device || region->pool != pool || (kind[0] == 's' && region->large) ||
            (kind[0] == 'l' && !region->large))
            continue;
        for (size_t k = 0; k < region->count; k++)
            held += (int64_t)region->blocks[k].size;
    }
    if (held != value)
        model_fail(m, "device %u: %s is %" PRId64 ", the blocks say %" PRId64, device, name, value, held);
}

void model_compare(model *m, unsigned device, const char *name, int64_t value)
{
    if (!strncmp(name, "reserved_bytes_by_private_pools.", 32)) {
        compare_pool(m, device, name, value);
        return;
    }
    bool known;
    int64_t want = expected(&m->devices[device], m, name, &known);
    if (!known)
        model_fail(m,
                   "the statistic %s is not known to the model; teach it (tests/property/property_model.c)",
                   name);
    else if (value != want)
        model_fail(m, "device %u: %s is %" PRId64 ", the blocks say %" PRId64, device, name, value, want);
}

void model_compared(model *m, unsigned device, int64_t retries, int64_t syncs, bool has_syncs)
{
    model_device *d = &m->devices[device];
    if (retries < d->retries_least || retries > d->retries_most)
        model_fail(m, "device %u: num_alloc_retries is %" PRId64 ", it can be %" PRId64 " to %" PRId64,
                   device, retries, d->retries_least, d->retries_most);
    if (has_syncs && (syncs < d->syncs_least || syncs > d->syncs_most))
        model_fail(m, "device %u: num_sync_all_streams is %" PRId64 ", it can be %" PRId64 " to %" PRId64,
                   device, syncs, d->syncs_least, d->syncs_most);
    if (has_syncs && d->retry_syncs && retries - d->retries_least != syncs - d->syncs_least)
        model_fail(m, "device %u: a last attempt and a full release go together (R40 step 9)", device);
    d->retries_least = d->retries_most = retries;
    if (has_syncs)
        d->syncs_least = d->syncs_most = syncs;
    d->retry_syncs = false;
}
