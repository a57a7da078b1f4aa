#include "policies/region_blocks.h"

static asim_code grow_blocks(asim_region_blocks *rb, size_t need, asim_err *err)
{
    void *extents = rb->extents, *blocks = rb->blocks;
    asim_code code =
        asim_mem_grow(rb->memory, &extents, &rb->extent_capacity, need, sizeof *rb->extents, err);
    rb->extents = extents;
    if (!code)
        code = asim_mem_grow(rb->memory, &blocks, &rb->block_capacity, need, sizeof *rb->blocks, err);
    rb->blocks = blocks;
    return code;
}

asim_code asim_rb_init(asim_region_blocks *rb, const asim_policy_env *env, asim_err *err)
{
    rb->memory = env->memory;
    rb->lanes = env->lanes;
    rb->block_count = rb->region_count = rb->list_count = 1;
    asim_code code = grow_blocks(rb, 64, err);
    if (code)
        return code;
    rb->extents[0] = (asim_extent){0};
    rb->blocks[0] = (asim_rb_block){.state = ASIM_RB_SPARE}; /* so that no neighbour never merges */
    void *lists = rb->lists;
    code = asim_mem_grow(rb->memory, &lists, &rb->list_capacity, 1, sizeof *rb->lists, err);
    rb->lists = lists;
    return code;
}

void asim_rb_fini(asim_region_blocks *rb)
{
    if (!rb->memory)
        return;
    for (uint32_t i = 1; rb->lists && i < rb->list_count; i++)
        asim_mem_free(rb->memory, rb->lists[i], 1, sizeof **rb->lists);
    asim_mem_free(rb->memory, rb->lists, rb->list_capacity, sizeof *rb->lists);
    asim_mem_free(rb->memory, rb->extents, rb->extent_capacity, sizeof *rb->extents);
    asim_mem_free(rb->memory, rb->blocks, rb->block_capacity, sizeof *rb->blocks);
    asim_mem_free(rb->memory, rb->regions, rb->region_capacity, sizeof *rb->regions);
}

uint32_t asim_rb_list_new(asim_region_blocks *rb, asim_err *err)
{
    void *lists = rb->lists;
    if (asim_mem_grow(rb->memory, &lists, &rb->list_capacity, (size_t)rb->list_count + 1, sizeof *rb->lists,
                      err))
        return 0;
    rb->lists = lists;
    rb->lists[rb->list_count] = asim_mem_new(rb->memory, 1, sizeof **rb->lists);
    if (!rb->lists[rb->list_count]) {
        asim_fail_memory(err, sizeof **rb->lists);
        return 0;
    }
    return rb->list_count++;
}

static uint32_t block_new(asim_region_blocks *rb, asim_err *err)
{
    uint32_t fresh = rb->spare_block;
    if (fresh) {
        rb->spare_block = rb->extents[fresh].next;
        return fresh;
    }
    if (rb->block_count == rb->block_capacity && grow_blocks(rb, (size_t)rb->block_count + 1, err))
        return 0;
    return rb->block_count++;
}

static void block_drop(asim_region_blocks *rb, uint32_t block)
{
    rb->blocks[block] = (asim_rb_block){.state = ASIM_RB_SPARE};
    rb->extents[block] = (asim_extent){.next = rb->spare_block};
    rb->spare_block = block;
}

/* --- largest --- */

static inline void touch(asim_region_blocks *rb, uint32_t list)
{
    const uint32_t room = sizeof rb->touched / sizeof *rb->touched;
    for (uint32_t i = 0; i < rb->touched_count && i < room; i++)
        if (rb->touched[i] == list)
            return;
    if (rb->touched_count < room)
        rb->touched[rb->touched_count] = list;
    if (rb->touched_count <= room)
        rb->touched_count++;
}

static inline void settle_list(asim_region_blocks *rb, uint32_t list)
{
    rb->lists[list]->largest = rb->extents[asim_free_last(&rb->lists[list]->index, rb->extents)].size;
}

static void find_largest(asim_region_blocks *rb)
{
    rb->largest_list = 0;
    for (uint32_t i = 1; i < rb->list_count; i++)
        if (!rb->largest_list || rb->lists[i]->largest > rb->lists[rb->largest_list]->largest)
            rb->largest_list = i;
}

/* Only where the list that held the largest block has lost it are the others looked at. */
uint64_t asim_rb_largest(asim_region_blocks *rb)
{
    const uint32_t room = sizeof rb->touched / sizeof *rb->touched, holder = rb->largest_list;
    const uint64_t was = holder ? rb->lists[holder]->largest : 0;
    if (rb->touched_count > room) {
        for (uint32_t i = 1; i < rb->list_count; i++)
            settle_list(rb, i);
        find_largest(rb);
    } else {
        for (uint32_t i = 0; i < rb->touched_count; i++)
            settle_list(rb, rb->touched[i]);
        if (!holder || rb->lists[holder]->largest < was)
            find_largest(rb);
        else
            for (uint32_t i = 0; i < rb->touched_count; i++)
                if (rb->lists[rb->touched[i]]->largest > rb->lists[rb->largest_list]->largest)
                    rb->largest_list = rb->touched[i];
    }
    rb->touched_count = 0;
    return rb->largest_list ? rb->lists[rb->largest_list]->largest : 0;
}

/* --- regions --- */

static uint32_t region_new(asim_region_blocks *rb, asim_err *err)
{
    uint32_t fresh = rb->spare_region;
    if (fresh) {
        rb->spare_region = rb->regions[fresh].next;
        return fresh;
    }
    void *regions = rb->regions;
    if (asim_mem_grow(rb->memory, &regions, &rb->region_capacity, (size_t)rb->region_count + 1,
                      sizeof *rb->regions, err))
        return 0;
    rb->regions = regions;
    return rb->region_count++;
}

/* The device mostly hands out ascending addresses: the search begins at the end. */
static void region_link(asim_region_blocks *rb, uint32_t fresh)
{
    asim_rb_region *region = &rb->regions[fresh];
    uint32_t after = rb->last_region;
    while (after &&
           (rb->regions[after].device > region->device ||
            (rb->regions[after].device == region->device && rb->regions[after].address > region->address)))
        after = rb->regions[after].prev;
    region->prev = after;
    region->next = after ? rb->regions[after].next : rb->first_region;
    *(after ? &rb->regions[after].next : &rb->first_region) = fresh;
    *(region->next ? &rb->regions[region->next].prev : &rb->last_region) = fresh;
}

uint32_t asim_rb_region_add(asim_region_blocks *rb, const asim_region *region, uint64_t size, unsigned lane,
                            asim_err *err)
{
    const uint32_t block = block_new(rb, err);
    if (!block)
        return 0;
    const uint32_t fresh = region_new(rb, err);
    if (!fresh) {
        block_drop(rb, block);
        return 0;
    }
    rb->regions[fresh] = (asim_rb_region){.address = region->address,
                                          .size = size,
                                          .stream = rb->lanes[lane].stream,
                                          .index = region->index,
                                          .first = block,
                                          .device = rb->lanes[lane].device,
                                          .held = true};
    region_link(rb, fresh);
    rb->extents[block] = (asim_extent){.address = region->address, .size = size};
    rb->blocks[block] = (asim_rb_block){.region = fresh, .state = ASIM_BLOCK_FREE};
    return block;
}

void asim_rb_unlist(asim_region_blocks *rb, uint32_t block)
{
    const uint32_t list = rb->blocks[block].list;
    asim_free_remove(&rb->lists[list]->index, rb->extents, block);
    rb->blocks[block].list = 0;
    touch(rb, list);
}

void asim_rb_region_drop(asim_region_blocks *rb, uint32_t region)
{
    asim_rb_region *gone = &rb->regions[region];
    if (rb->blocks[gone->first].list)
        asim_rb_unlist(rb, gone->first);
    block_drop(rb, gone->first);
    *(gone->prev ? &rb->regions[gone->prev].next : &rb->first_region) = gone->next;
    *(gone->next ? &rb->regions[gone->next].prev : &rb->last_region) = gone->prev;
    *gone = (asim_rb_region){.next = rb->spare_region};
    rb->spare_region = region;
}

/* --- blocks --- */

uint32_t asim_rb_take(asim_region_blocks *rb, uint32_t list, uint64_t size, uint64_t *steps)
{
    const uint32_t found = asim_free_find(&rb->lists[list]->index, rb->extents, size, steps);
    if (found)
        asim_rb_unlist(rb, found);
    return found;
}

uint32_t asim_rb_split(asim_region_blocks *rb, uint32_t block, uint64_t size, asim_err *err)
{
    const uint32_t rest = block_new(rb, err);
    if (!rest)
        return 0;
    asim_extent *front = &rb->extents[block];
    rb->extents[rest] = (asim_extent){
        .address = front->address + size, .size = front->size - size, .prev = block, .next = front->next};
    rb->blocks[rest] = (asim_rb_block){.region = rb->blocks[block].region, .state = ASIM_BLOCK_FREE};
    if (front->next)
        rb->extents[front->next].prev = rest;
    front->next = rest;
    front->size = size;
    return rest;
}

/* The later of two neighbours joins the earlier one. */
static void join(asim_region_blocks *rb, uint32_t kept, uint32_t gone)
{
    rb->extents[kept].size += rb->extents[gone].size;
    rb->extents[kept].next = rb->extents[gone].next;
    if (rb->extents[gone].next)
        rb->extents[rb->extents[gone].next].prev = kept;
    block_drop(rb, gone);
}

static inline bool is_free_on(const asim_region_blocks *rb, uint32_t block, uint32_t list)
{
    return rb->blocks[block].state == ASIM_BLOCK_FREE && rb->blocks[block].list == list;
}

uint32_t asim_rb_put(asim_region_blocks *rb, uint32_t list, uint32_t block)
{
    const uint32_t next = rb->extents[block].next, prev = rb->extents[block].prev;
    if (is_free_on(rb, next, list)) {
        asim_rb_unlist(rb, next);
        join(rb, block, next);
    }
    if (is_free_on(rb, prev, list)) {
        asim_rb_unlist(rb, prev);
        join(rb, prev, block);
        block = prev;
    }
    rb->blocks[block] = (asim_rb_block){.region = rb->blocks[block].region, .list = list};
    asim_free_insert(&rb->lists[list]->index, rb->extents, block);
    touch(rb, list);
    return block;
}

void asim_rb_merge_lists(asim_region_blocks *rb, uint32_t into, uint32_t from)
{
    uint32_t block;
    while ((block = asim_free_first(&rb->lists[from]->index, rb->extents)) != 0) {
        asim_rb_unlist(rb, block);
        asim_rb_put(rb, into, block);
    }
}

/* --- check and walk --- */

static asim_code check_region(const asim_region_blocks *rb, uint32_t region, uint32_t *seen, asim_err *err)
{
    const asim_rb_region *r = &rb->regions[region];
    uint64_t end = r->address;
    uint32_t last = 0;
    for (uint32_t b = r->first; b; last = b, b = rb->extents[b].next) {
        const asim_rb_block *block = &rb->blocks[b];
        if (b >= rb->block_count || block->region != region || block->state > ASIM_BLOCK_PENDING)
            return asim_fail(err, ASIM_E_BUG, "block %u is not one of region %u", b, region);
        if (rb->extents[b].address != end || rb->extents[b].prev != last || !rb->extents[b].size)
            return asim_fail(err, ASIM_E_BUG, "block %u does not join on to the one before it", b);
        if ((block->state == ASIM_BLOCK_FREE) != (block->list != 0))
            return asim_fail(err, ASIM_E_BUG, "block %u is free and on no list, or the reverse", b);
        if (last && block->list && rb->blocks[last].list == block->list)
            return asim_fail(err, ASIM_E_BUG, "blocks %u and %u are on one list and did not merge", last, b);
        if (++*seen > rb->block_count)
            return asim_fail(err, ASIM_E_BUG, "the blocks of region %u go round in a circle", region);
        end += rb->extents[b].size;
    }
    if (end != r->address + r->size)
        return asim_fail(err, ASIM_E_BUG, "the blocks of region %u do not fill it", region);
    return ASIM_OK;
}

asim_code asim_rb_check(const asim_region_blocks *rb, asim_err *err)
{
    uint32_t seen = 0, on_lists = 0, listed = 0;
    for (uint32_t r = rb->first_region; r; r = rb->regions[r].next) {
        asim_code code = check_region(rb, r, &seen, err);
        if (code)
            return code;
    }
    for (uint32_t b = 1; b < rb->block_count; b++)
        on_lists += rb->blocks[b].list != 0;
    for (uint32_t i = 1; i < rb->list_count; i++) {
        const uint32_t count = asim_free_check(&rb->lists[i]->index, rb->extents, rb->block_count);
        if (count == UINT32_MAX)
            return asim_fail(err, ASIM_E_BUG, "free list %u is out of order", i);
        listed += count;
    }
    if (listed != on_lists)
        return asim_fail(err, ASIM_E_BUG, "%u blocks should be on free lists, %u are", on_lists, listed);
    return ASIM_OK;
}

void asim_rb_walk(const asim_region_blocks *rb, const asim_walker *walker,
                  bool (*inside)(const void *ctx, uint32_t block, const asim_walker *walker), const void *ctx)
{
    for (uint32_t r = rb->first_region; r; r = rb->regions[r].next) {
        const asim_rb_region *region = &rb->regions[r];
        const asim_walk_segment segment = {.address = region->address,
                                           .size = region->size,
                                           .stream = region->stream,
                                           .region = region->index,
                                           .device = region->device};
        walker->segment(walker->ctx, &segment);
        for (uint32_t b = region->first; b; b = rb->extents[b].next) {
            const asim_rb_block *block = &rb->blocks[b];
            if (inside && block->state != ASIM_BLOCK_FREE && inside(ctx, b, walker))
                continue;
            const asim_walk_block shown = {.address = rb->extents[b].address,
                                           .size = rb->extents[b].size,
                                           .requested = block->requested,
                                           .word = b,
                                           .state = (asim_block_state)block->state};
            walker->block(walker->ctx, &shown);
        }
    }
}
