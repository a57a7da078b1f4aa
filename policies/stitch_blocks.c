#include "policies/stitch_blocks.h"

#define CHUNK ASIM_STITCH_CHUNK

static bool grow(asim_stitcher *st, void *array, size_t *capacity, size_t need, size_t item_size)
{
    void **items = array;
    return asim_mem_grow(st->env.memory, items, capacity, need, item_size, &st->fault) == ASIM_OK;
}

asim_code asim_stitch_init(asim_stitcher *st, const asim_policy_env *env, asim_err *err)
{
    st->env = *env;
    st->view_count = st->part_count = st->stitched_count = 1;
    return asim_rb_init(&st->rb, env, err);
}

void asim_stitch_fini(asim_stitcher *st)
{
    const asim_hostmem *memory = st->env.memory;
    if (!memory)
        return;
    for (uint32_t r = 0; r < st->rb.region_count && r < st->range_capacity; r++)
        asim_mem_free(memory, st->ranges[r].views, st->ranges[r].chunks, sizeof(uint32_t));
    for (uint32_t i = 1; i < st->rb.list_count && i < st->list_capacity; i++)
        asim_mem_free(memory, st->lists[i], 1, sizeof(asim_stitch_list));
    asim_rb_fini(&st->rb);
    asim_mem_free(memory, st->links, st->link_capacity, sizeof *st->links);
    asim_mem_free(memory, st->ranges, st->range_capacity, sizeof *st->ranges);
    asim_mem_free(memory, st->views, st->view_capacity, sizeof *st->views);
    asim_mem_free(memory, st->parts, st->part_capacity, sizeof *st->parts);
    asim_mem_free(memory, st->stitched, st->stitched_capacity, sizeof *st->stitched);
    asim_mem_free(memory, st->extents, st->extent_capacity, sizeof *st->extents);
    asim_mem_free(memory, st->lists, st->list_capacity, sizeof *st->lists);
}

uint32_t asim_stitch_list_new(asim_stitcher *st)
{
    const size_t old = st->list_capacity;
    if (!grow(st, &st->lists, &st->list_capacity, (size_t)st->rb.list_count + 1, sizeof *st->lists))
        return 0;
    for (size_t i = old; i < st->list_capacity; i++)
        st->lists[i] = NULL;
    asim_stitch_list *list = asim_mem_new(st->env.memory, 1, sizeof *list);
    if (!list) {
        asim_fail_memory(&st->fault, sizeof *list);
        return 0;
    }
    const uint32_t index = asim_rb_list_new(&st->rb, &st->fault);
    if (!index)
        asim_mem_free(st->env.memory, list, 1, sizeof *list);
    else
        st->lists[index] = list;
    return index;
}

/* --- primitive blocks on lists --- */

static bool grow_links(asim_stitcher *st)
{
    return st->link_capacity >= st->rb.block_capacity ||
           grow(st, &st->links, &st->link_capacity, st->rb.block_capacity, sizeof *st->links);
}

static void put(asim_stitcher *st, uint32_t list, uint32_t block)
{
    st->lists[list]->bytes += st->rb.extents[block].size;
    asim_rb_put(&st->rb, list, block);
}

static void unlist(asim_stitcher *st, uint32_t block)
{
    st->lists[st->rb.blocks[block].list]->bytes -= st->rb.extents[block].size;
    asim_rb_unlist(&st->rb, block);
}

/* Cuts a block on no list to size; the rest goes to list. False: fault. */
static bool cut(asim_stitcher *st, uint32_t block, uint32_t list, uint64_t size)
{
    if (st->rb.extents[block].size == size)
        return true;
    const uint32_t rest = asim_rb_split(&st->rb, block, size, &st->fault);
    if (!rest || !grow_links(st))
        return false;
    put(st, list, rest);
    return true;
}

uint32_t asim_stitch_pick(asim_stitcher *st, uint32_t list, uint64_t size, bool exact)
{
    const uint32_t block =
        asim_free_find(&st->rb.lists[list]->index, st->rb.extents, size, &st->env.counters->search_steps);
    if (!block || (exact && st->rb.extents[block].size != size))
        return 0;
    unlist(st, block);
    return block;
}

/* --- chunks in use --- */

static void flip(asim_stitcher *st, uint32_t block, int sign)
{
    const asim_stitch_range *range = &st->ranges[st->rb.blocks[block].region];
    if (!range->viewed)
        return;
    const uint64_t base = st->rb.regions[st->rb.blocks[block].region].address;
    const uint64_t first = (st->rb.extents[block].address - base) / CHUNK;
    const uint64_t end = first + st->rb.extents[block].size / CHUNK;
    for (uint64_t chunk = first; chunk < end; chunk++)
        for (uint32_t v = range->views[chunk]; v; v = st->views[v].next) {
            const uint32_t index = st->views[v].stitched;
            asim_stitched *s = &st->stitched[index];
            if (sign > 0 && s->busy == 0)
                asim_free_remove(&st->lists[s->list]->free, st->extents, index);
            s->busy += (uint32_t)sign;
            if (s->busy == 0)
                asim_free_insert(&st->lists[s->list]->free, st->extents, index);
        }
}

static void make_live(asim_stitcher *st, uint32_t block, unsigned lane)
{
    st->rb.blocks[block].state = ASIM_BLOCK_LIVE;
    st->rb.blocks[block].lane = (uint16_t)lane;
    flip(st, block, 1);
}

bool asim_stitch_take(asim_stitcher *st, uint32_t block, uint32_t list, uint64_t size)
{
    if (!cut(st, block, list, size))
        return false;
    make_live(st, block, st->rb.blocks[block].lane);
    return true;
}

void asim_stitch_give(asim_stitcher *st, uint32_t block, uint32_t list)
{
    flip(st, block, -1);
    put(st, list, block);
}

/* --- memory --- */

static void driver_failed(asim_stitcher *st, const char *operation)
{
    asim_fail(&st->fault, ASIM_E_BUG, "the device's %s failed for another reason than memory", operation);
}

/* Enters a region as one free block; chunks 0: a segment. */
static uint32_t enter_region(asim_stitcher *st, const asim_region *region, uint64_t size, unsigned lane,
                             uint64_t chunks)
{
    const size_t old = st->range_capacity;
    if (!grow(st, &st->ranges, &st->range_capacity, (size_t)st->rb.region_count + 1, sizeof *st->ranges))
        return 0;
    for (size_t i = old; i < st->range_capacity; i++)
        st->ranges[i] = (asim_stitch_range){0};
    const uint32_t block = asim_rb_region_add(&st->rb, region, size, lane, &st->fault);
    if (!block || !grow_links(st))
        return 0;
    st->ranges[st->rb.blocks[block].region].chunks = (uint32_t)chunks;
    return block;
}

uint32_t asim_stitch_segment(asim_stitcher *st, unsigned lane, uint64_t size)
{
    const asim_device *table = &st->env.device;
    asim_region region;
    const asim_device_result result =
        table->ops->alloc(table->ctx, st->env.lanes[lane].device, size, lane, &region);
    if (result == ASIM_DEVICE_ERROR)
        driver_failed(st, "alloc");
    return result == ASIM_DEVICE_OK ? enter_region(st, &region, size, lane, 0) : 0;
}

uint32_t asim_stitch_obtain(asim_stitcher *st, unsigned lane, uint64_t size)
{
    const asim_device *table = &st->env.device;
    const unsigned device = st->env.lanes[lane].device;
    asim_region region;
    if (size > st->env.capacities[device] || size / CHUNK > UINT32_MAX)
        return 0;
    asim_device_result result = table->ops->reserve(table->ctx, device, size, lane, &region);
    if (result == ASIM_DEVICE_ERROR)
        driver_failed(st, "reserve");
    if (result != ASIM_DEVICE_OK)
        return 0;
    result = table->ops->map(table->ctx, region.index, 0, size, CHUNK);
    if (result == ASIM_DEVICE_OK)
        return enter_region(st, &region, size, lane, size / CHUNK);
    if (result == ASIM_DEVICE_ERROR)
        driver_failed(st, "map");
    else if (table->ops->unreserve(table->ctx, region.index) != ASIM_DEVICE_OK)
        driver_failed(st, "unreserve");
    return 0;
}

/* --- records of stitched blocks --- */

static void order_leave(asim_stitcher *st, uint32_t index)
{
    const asim_stitched *s = &st->stitched[index];
    *(s->older ? &st->stitched[s->older].newer : &st->oldest) = s->newer;
    *(s->newer ? &st->stitched[s->newer].older : &st->newest) = s->older;
}

static void order_append(asim_stitcher *st, uint32_t index)
{
    asim_stitched *s = &st->stitched[index];
    s->older = st->newest;
    s->newer = 0;
    *(st->newest ? &st->stitched[st->newest].newer : &st->oldest) = index;
    st->newest = index;
}

static void note_use(asim_stitcher *st, uint32_t index)
{
    order_leave(st, index);
    order_append(st, index);
}

static uint32_t stitched_new(asim_stitcher *st)
{
    const uint32_t fresh = st->spare_stitched;
    if (fresh) {
        st->spare_stitched = st->stitched[fresh].newer;
        return fresh;
    }
    const size_t need = (size_t)st->stitched_count + 1;
    if (!grow(st, &st->stitched, &st->stitched_capacity, need, sizeof *st->stitched) ||
        !grow(st, &st->extents, &st->extent_capacity, need, sizeof *st->extents))
        return 0;
    return st->stitched_count++;
}

static uint32_t part_new(asim_stitcher *st)
{
    const uint32_t fresh = st->spare_part;
    if (fresh) {
        st->spare_part = st->parts[fresh].next;
        return fresh;
    }
    return grow(st, &st->parts, &st->part_capacity, (size_t)st->part_count + 1, sizeof *st->parts)
               ? st->part_count++
               : 0;
}

static uint32_t view_new(asim_stitcher *st)
{
    const uint32_t fresh = st->spare_view;
    if (fresh) {
        st->spare_view = st->views[fresh].next;
        return fresh;
    }
    return grow(st, &st->views, &st->view_capacity, (size_t)st->view_count + 1, sizeof *st->views)
               ? st->view_count++
               : 0;
}

/* Every chunk of a part learns that index shows it. */
static bool add_views(asim_stitcher *st, uint32_t index, const asim_stitch_part *part)
{
    asim_stitch_range *range = &st->ranges[part->region];
    if (!range->views) {
        range->views = asim_mem_new(st->env.memory, range->chunks, sizeof *range->views);
        if (!range->views)
            return asim_fail_memory(&st->fault, range->chunks * sizeof *range->views), false;
    }
    for (uint32_t chunk = part->first; chunk < part->first + part->count; chunk++) {
        const uint32_t view = view_new(st);
        if (!view)
            return false;
        st->views[view] = (asim_stitch_view){index, range->views[chunk]};
        range->views[chunk] = view;
        range->viewed++;
    }
    return true;
}

static void drop_views(asim_stitcher *st, uint32_t index, const asim_stitch_part *part)
{
    asim_stitch_range *range = &st->ranges[part->region];
    for (uint32_t chunk = part->first; chunk < part->first + part->count; chunk++) {
        uint32_t *link = &range->views[chunk];
        while (st->views[*link].stitched != index)
            link = &st->views[*link].next;
        const uint32_t view = *link;
        *link = st->views[view].next;
        st->views[view] = (asim_stitch_view){0, st->spare_view};
        st->spare_view = view;
        range->viewed--;
    }
}

static bool is_used(const asim_stitcher *st, uint32_t index)
{
    return st->stitched[index].active > 0;
}

/* Ends a stitched block that is not in use. False: fault. */
static bool dissolve(asim_stitcher *st, uint32_t index)
{
    const asim_device *table = &st->env.device;
    asim_stitched *s = &st->stitched[index];
    if (s->busy == 0)
        asim_free_remove(&st->lists[s->list]->free, st->extents, index);
    for (uint32_t part = s->parts, next; part; part = next) {
        next = st->parts[part].next;
        drop_views(st, index, &st->parts[part]);
        st->parts[part] = (asim_stitch_part){.next = st->spare_part};
        st->spare_part = part;
    }
    st->stitched_bytes -= s->chunks * CHUNK;
    order_leave(st, index);
    const uint32_t range = s->range;
    *s = (asim_stitched){.newer = st->spare_stitched, .state = ASIM_RB_SPARE};
    st->spare_stitched = index;
    if (table->ops->unalias(table->ctx, range, CHUNK) == ASIM_DEVICE_OK &&
        table->ops->unreserve(table->ctx, range) == ASIM_DEVICE_OK)
        return true;
    driver_failed(st, "unalias or unreserve");
    return false;
}

uint32_t asim_stitch_shrink(asim_stitcher *st, uint64_t most)
{
    uint32_t ended = 0, newer;
    for (uint32_t index = st->oldest; index && st->stitched_bytes > most; index = newer) {
        newer = st->stitched[index].newer;
        if (is_used(st, index))
            continue;
        if (!dissolve(st, index))
            return UINT32_MAX;
        ended++;
    }
    return ended;
}

/* --- release --- */

/* Ends all that shows chunks of a range; false: something that does is in use, or fault. */
static bool clear_views(asim_stitcher *st, uint32_t region)
{
    const asim_stitch_range *range = &st->ranges[region];
    for (uint32_t chunk = 0; range->viewed && chunk < range->chunks; chunk++)
        for (uint32_t v = range->views[chunk]; v; v = st->views[v].next)
            if (is_used(st, st->views[v].stitched))
                return false;
    for (uint32_t chunk = 0; range->viewed && chunk < range->chunks; chunk++)
        while (range->views[chunk])
            if (!dissolve(st, st->views[range->views[chunk]].stitched))
                return false;
    return true;
}

static bool return_region(asim_stitcher *st, uint32_t r)
{
    const asim_device *table = &st->env.device;
    const asim_rb_region region = st->rb.regions[r];
    asim_stitch_range *range = &st->ranges[r];
    const bool done = range->chunks ? table->ops->unmap(table->ctx, region.index, 0, region.size, CHUNK) ==
                                              ASIM_DEVICE_OK &&
                                          table->ops->unreserve(table->ctx, region.index) == ASIM_DEVICE_OK
                                    : table->ops->free(table->ctx, region.index) == ASIM_DEVICE_OK;
    if (!done)
        return driver_failed(st, "release of memory"), false;
    unlist(st, region.first);
    asim_rb_region_drop(&st->rb, r);
    asim_mem_free(st->env.memory, range->views, range->chunks, sizeof *range->views);
    *range = (asim_stitch_range){0};
    return true;
}

bool asim_stitch_release(asim_stitcher *st, unsigned device, uint64_t *ret_bytes)
{
    uint32_t next;
    *ret_bytes = 0;
    for (uint32_t r = st->rb.first_region; r; r = next) {
        const asim_rb_region region = st->rb.regions[r];
        next = region.next;
        if (region.device != device || !st->rb.blocks[region.first].list ||
            !asim_rb_is_whole(&st->rb, region.first))
            continue;
        if (!clear_views(st, r)) {
            if (st->fault.code)
                return false;
            continue;
        }
        if (!return_region(st, r))
            return false;
        *ret_bytes += region.size;
    }
    return true;
}

/* --- stitching --- */

uint32_t asim_stitch_find(asim_stitcher *st, uint32_t list, uint64_t size, uint64_t most)
{
    const asim_free_index *index = &st->lists[list]->free;
    const uint32_t found = asim_free_find(index, st->extents, size, &st->env.counters->search_steps);
    return found && st->extents[found].size <= most ? found : 0;
}

/* Free blocks for size bytes off list, linked in order, the last one cut to fit. *ret_first; false: fault. */
static bool gather(asim_stitcher *st, uint32_t list, uint64_t size, uint32_t extra, uint32_t *ret_first)
{
    uint32_t last = 0;
    for (uint64_t left = size; left;) {
        const uint32_t block =
            !last && extra ? extra : asim_free_last(&st->rb.lists[list]->index, st->rb.extents);
        if (block != extra)
            unlist(st, block);
        st->env.counters->search_steps++;
        *(last ? &st->links[last] : ret_first) = block;
        st->links[block] = 0;
        last = block;
        if (st->rb.extents[block].size > left && !cut(st, block, list, left))
            return false;
        left -= st->rb.extents[block].size;
    }
    return true;
}

static void tell_pieces(asim_stitcher *st, uint32_t first, bool taken)
{
    const asim_listener *listener = st->env.listener;
    for (uint32_t b = first; b; b = st->links[b])
        listener->piece(listener->ctx, st->rb.regions[st->rb.blocks[b].region].index,
                        st->rb.extents[b].address, st->rb.extents[b].size, taken);
}

/* A range that shows the blocks. *ret_done false: the device refuses, nothing is left. False: fault. */
static bool show(asim_stitcher *st, unsigned lane, uint64_t size, uint32_t first, asim_region *ret_region,
                 bool *ret_done)
{
    const asim_device *table = &st->env.device;
    uint64_t offset = 0;
    *ret_done = false;
    asim_device_result result =
        table->ops->reserve(table->ctx, st->env.lanes[lane].device, size, lane, ret_region);
    if (result != ASIM_DEVICE_OK)
        return result == ASIM_DEVICE_OOM || (driver_failed(st, "reserve"), false);
    for (uint32_t b = first; b && result == ASIM_DEVICE_OK; b = st->links[b]) {
        const asim_rb_region *home = &st->rb.regions[st->rb.blocks[b].region];
        const asim_extent *extent = &st->rb.extents[b];
        result = table->ops->alias(table->ctx, ret_region->index, offset, home->index,
                                   extent->address - home->address, extent->size, CHUNK);
        offset += result == ASIM_DEVICE_OK ? extent->size : 0;
    }
    *ret_done = result == ASIM_DEVICE_OK;
    if (result == ASIM_DEVICE_ERROR)
        return driver_failed(st, "alias"), false;
    if (result == ASIM_DEVICE_OOM &&
        ((offset && table->ops->unalias(table->ctx, ret_region->index, CHUNK) != ASIM_DEVICE_OK) ||
         table->ops->unreserve(table->ctx, ret_region->index) != ASIM_DEVICE_OK))
        return driver_failed(st, "unreserve"), false;
    return true;
}

/* The record of a range that shows the blocks, which are free and on no list. 0: fault. */
static uint32_t note_stitched(asim_stitcher *st, unsigned lane, uint32_t list, uint64_t size, uint32_t first,
                              const asim_region *region)
{
    const uint32_t index = stitched_new(st);
    uint32_t last = 0;
    if (!index)
        return 0;
    st->stitched[index] = (asim_stitched){.address = region->address,
                                          .range = region->index,
                                          .chunks = (uint32_t)(size / CHUNK),
                                          .list = list,
                                          .lane = (uint16_t)lane,
                                          .device = st->env.lanes[lane].device};
    for (uint32_t b = first; b; b = st->links[b]) {
        const uint32_t part = part_new(st), home = st->rb.blocks[b].region;
        if (!part)
            return 0;
        st->parts[part] = (asim_stitch_part){
            .region = home,
            .first = (uint32_t)((st->rb.extents[b].address - st->rb.regions[home].address) / CHUNK),
            .count = (uint32_t)(st->rb.extents[b].size / CHUNK)};
        *(last ? &st->parts[last].next : &st->stitched[index].parts) = part;
        last = part;
        if (!add_views(st, index, &st->parts[part]))
            return 0;
    }
    st->extents[index] = (asim_extent){.address = region->address, .size = size};
    asim_free_insert(&st->lists[list]->free, st->extents, index);
    order_append(st, index);
    st->stitched_bytes += size;
    return index;
}

/* The linked blocks, free and on no list, are those of a stitched block in use. */
static void occupy(asim_stitcher *st, uint32_t index, unsigned lane, uint32_t first, uint64_t size)
{
    asim_stitched *s = &st->stitched[index];
    for (uint32_t b = first; b; b = st->links[b])
        make_live(st, b, lane);
    s->active = (uint32_t)(size / CHUNK);
    s->blocks = first;
    s->lane = (uint16_t)lane;
    s->state = ASIM_BLOCK_LIVE;
    note_use(st, index);
    tell_pieces(st, first, true);
}

uint32_t asim_stitch_stitch(asim_stitcher *st, unsigned lane, uint32_t list, uint64_t size, uint32_t extra)
{
    uint32_t first = 0;
    asim_region region;
    bool done;
    if (!gather(st, list, size, extra, &first) || !show(st, lane, size, first, &region, &done))
        return 0;
    if (!done) {
        for (uint32_t b = first, next; b; b = next) {
            next = st->links[b];
            put(st, list, b);
        }
        return 0;
    }
    const uint32_t index = note_stitched(st, lane, list, size, first, &region);
    if (index)
        occupy(st, index, lane, first, size);
    return index;
}

/* Cuts [start, end) of a region, which is free and on list, out of its blocks; appends them to a chain whose
 * last block is *last. False: fault. */
static bool carve(asim_stitcher *st, uint32_t list, uint32_t region, uint64_t start, uint64_t end,
                  uint32_t *first, uint32_t *last)
{
    uint32_t b = st->rb.regions[region].first;
    while (st->rb.extents[b].address + st->rb.extents[b].size <= start)
        b = st->rb.extents[b].next;
    while (start < end) {
        const uint64_t skip = start - st->rb.extents[b].address;
        unlist(st, b);
        if (skip) {
            const uint32_t front = b;
            b = asim_rb_split(&st->rb, front, skip, &st->fault);
            if (!b || !grow_links(st))
                return false;
            put(st, list, front);
        }
        if (start + st->rb.extents[b].size > end && !cut(st, b, list, end - start))
            return false;
        *(*last ? &st->links[*last] : first) = b;
        st->links[b] = 0;
        *last = b;
        start += st->rb.extents[b].size;
        b = st->rb.extents[b].next;
    }
    return true;
}

bool asim_stitch_enter(asim_stitcher *st, uint32_t index, unsigned lane, uint64_t size)
{
    const asim_stitched s = st->stitched[index];
    uint32_t first = 0, last = 0;
    uint64_t left = size;
    for (uint32_t part = s.parts; part && left; part = st->parts[part].next) {
        const asim_stitch_part *p = &st->parts[part];
        const uint64_t start = st->rb.regions[p->region].address + p->first * CHUNK;
        const uint64_t bytes = left < p->count * CHUNK ? left : p->count * CHUNK;
        if (!carve(st, s.list, p->region, start, start + bytes, &first, &last))
            return false;
        left -= bytes;
    }
    occupy(st, index, lane, first, size);
    return true;
}

void asim_stitch_leave(asim_stitcher *st, uint32_t index)
{
    asim_stitched *s = &st->stitched[index];
    const uint32_t first = s->blocks;
    tell_pieces(st, first, false);
    s->active = s->blocks = 0;
    s->state = ASIM_BLOCK_FREE;
    for (uint32_t b = first, next; b; b = next) {
        next = st->links[b];
        asim_stitch_give(st, b, s->list);
    }
    note_use(st, index);
}

/* --- check --- */

/* Chunks of [first, first + count) of a region that are in blocks which are not free. */
static uint64_t busy_chunks(const asim_stitcher *st, const asim_stitch_part *part)
{
    const asim_rb_region *region = &st->rb.regions[part->region];
    const uint64_t start = region->address + part->first * CHUNK, end = start + part->count * CHUNK;
    uint64_t bytes = 0;
    for (uint32_t b = region->first; b; b = st->rb.extents[b].next) {
        const uint64_t from = st->rb.extents[b].address, to = from + st->rb.extents[b].size;
        if (st->rb.blocks[b].state != ASIM_BLOCK_FREE && from < end && to > start)
            bytes += (to < end ? to : end) - (from > start ? from : start);
    }
    return bytes / CHUNK;
}

static asim_code check_stitched(const asim_stitcher *st, uint32_t index, uint64_t *views, asim_err *err)
{
    const asim_stitched *s = &st->stitched[index];
    uint64_t chunks = 0, busy = 0, active = 0;
    for (uint32_t p = s->parts; p; p = st->parts[p].next) {
        if (!st->rb.regions[st->parts[p].region].held || !st->ranges[st->parts[p].region].views)
            return asim_fail(err, ASIM_E_BUG, "stitched block %u shows memory that is gone", index);
        chunks += st->parts[p].count;
        busy += busy_chunks(st, &st->parts[p]);
    }
    for (uint32_t b = s->blocks; b; b = st->links[b])
        active += st->rb.extents[b].size / CHUNK;
    *views += chunks;
    if (chunks != s->chunks || busy != s->busy || active != s->active || active > chunks)
        return asim_fail(err, ASIM_E_BUG, "stitched block %u: chunks, or those in use, are counted wrongly",
                         index);
    return ASIM_OK;
}

asim_code asim_stitch_check(const asim_stitcher *st, asim_err *err)
{
    uint64_t views = 0, viewed = 0, bytes = 0;
    uint32_t seen = 0, free_ones = 0, listed = 0;
    if (st->fault.code)
        return asim_fail(err, st->fault.code, "%s", st->fault.message);
    for (uint32_t index = st->oldest; index && seen < st->stitched_count;
         index = st->stitched[index].newer, seen++) {
        asim_code code = check_stitched(st, index, &views, err);
        if (code)
            return code;
        bytes += st->stitched[index].chunks * CHUNK;
        free_ones += st->stitched[index].busy == 0;
    }
    for (uint32_t r = st->rb.first_region; r; r = st->rb.regions[r].next)
        viewed += st->ranges[r].viewed;
    for (uint32_t i = 1; i < st->rb.list_count; i++) {
        const uint32_t count = asim_free_check(&st->lists[i]->free, st->extents, st->stitched_count);
        uint64_t sum = 0;
        for (uint32_t b = asim_free_first(&st->rb.lists[i]->index, st->rb.extents); b;
             b = asim_free_next(&st->rb.lists[i]->index, st->rb.extents, b))
            sum += st->rb.extents[b].size;
        if (count == UINT32_MAX || sum != st->lists[i]->bytes)
            return asim_fail(err, ASIM_E_BUG, "list %u: out of order, or its bytes are counted wrongly", i);
        listed += count;
    }
    if (views != viewed || bytes != st->stitched_bytes || free_ones != listed)
        return asim_fail(err, ASIM_E_BUG, "stitched blocks: %u free, %u listed; views or bytes differ",
                         free_ones, listed);
    return asim_rb_check(&st->rb, err);
}
