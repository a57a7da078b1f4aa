#include "policies/arena.h"

#include "policies/compaction.h"

#include <inttypes.h>

/* --- records --- */

static bool grow_records(asim_arena *arena)
{
    const asim_hostmem *mem = arena->env.memory;
    void *extents = arena->extents, *notes = arena->notes;
    asim_code code = asim_mem_grow(mem, &extents, &arena->extent_capacity, (size_t)arena->count + 1,
                                   sizeof(asim_extent), &arena->fault);
    arena->extents = extents;
    if (!code)
        code = asim_mem_grow(mem, &notes, &arena->note_capacity, (size_t)arena->count + 1,
                             sizeof(asim_arena_note), &arena->fault);
    arena->notes = notes;
    return !code;
}

uint32_t asim_arena_record(asim_arena *arena)
{
    uint32_t fresh = arena->spare;
    if (fresh) {
        arena->spare = arena->extents[fresh].next;
        return fresh;
    }
    if (arena->count == UINT32_MAX) {
        asim_fail_memory(&arena->fault, (uint64_t)UINT32_MAX * sizeof(asim_extent));
        return 0;
    }
    if ((arena->count >= arena->extent_capacity || arena->count >= arena->note_capacity) &&
        !grow_records(arena))
        return 0;
    return arena->count++;
}

void asim_arena_retire(asim_arena *arena, uint32_t block)
{
    arena->extents[block].next = arena->spare;
    arena->notes[block].state = UINT8_MAX;
    arena->spare = block;
}

/* --- free blocks in and out of the structures --- */

static void file_block(asim_arena *arena, uint32_t block)
{
    asim_arena_home *home = &arena->homes[arena->notes[block].device];
    home->free_bytes += arena->extents[block].size;
    home->free_count++;
    if (arena->fit->sorted)
        asim_free_insert(home->by_size, arena->extents, block);
    arena->fit->file(arena, home, block);
}

void asim_arena_take(asim_arena *arena, uint32_t block)
{
    asim_arena_home *home = &arena->homes[arena->notes[block].device];
    home->free_bytes -= arena->extents[block].size;
    home->free_count--;
    if (arena->fit->sorted)
        asim_free_remove(home->by_size, arena->extents, block);
    arena->fit->take(arena, home, block);
}

void asim_arena_settle(asim_arena *arena, unsigned device)
{
    asim_arena_home *home = &arena->homes[device];
    if (arena->fit->sorted) {
        uint32_t last = asim_free_last(home->by_size, arena->extents);
        home->largest = last ? arena->extents[last].size : 0;
    } else {
        home->largest = arena->fit->largest(arena, home);
    }
    uint64_t largest = home->largest;
    for (uint32_t d = 0; d < arena->env.device_count; d++)
        if (arena->homes[d].largest > largest)
            largest = arena->homes[d].largest;
    arena->env.counters->largest_free_bytes = largest;
}

uint32_t asim_arena_file_gap(asim_arena *arena, unsigned device, uint32_t before, uint64_t address,
                             uint64_t size)
{
    asim_arena_home *home = &arena->homes[device];
    while (size > 0) {
        const uint64_t piece =
            arena->fit->piece ? arena->fit->piece(arena, address - home->region.address, size) : size;
        const uint32_t block = asim_arena_record(arena);
        if (!block)
            return 0;
        const uint32_t after = before ? arena->extents[before].next : home->first;
        arena->extents[block] =
            (asim_extent){.address = address, .size = piece, .prev = before, .next = after};
        arena->notes[block] = (asim_arena_note){.device = (uint16_t)device, .state = ASIM_BLOCK_FREE};
        if (after)
            arena->extents[after].prev = block;
        if (before)
            arena->extents[before].next = block;
        else
            home->first = block;
        file_block(arena, block);
        before = block;
        address += piece;
        size -= piece;
    }
    return before;
}

/* The later of two neighbours joins the earlier one; neither is filed. */
static uint32_t join(asim_arena *arena, uint32_t a, uint32_t b)
{
    asim_extent *extents = arena->extents;
    const uint32_t kept = extents[a].address < extents[b].address ? a : b, gone = kept == a ? b : a;
    extents[kept].size += extents[gone].size;
    extents[kept].next = extents[gone].next;
    if (extents[gone].next)
        extents[extents[gone].next].prev = kept;
    arena->notes[kept].state = ASIM_BLOCK_FREE;
    asim_arena_retire(arena, gone);
    return kept;
}

static uint32_t partner_of(const asim_arena *arena, uint32_t block)
{
    const asim_extent *extent = &arena->extents[block];
    if (arena->fit->partner)
        return arena->fit->partner(arena, &arena->homes[arena->notes[block].device], block);
    if (extent->next && arena->notes[extent->next].state == ASIM_BLOCK_FREE)
        return extent->next;
    if (extent->prev && arena->notes[extent->prev].state == ASIM_BLOCK_FREE)
        return extent->prev;
    return 0;
}

/* --- the region --- */

static asim_alloc_result refuse(asim_arena *arena, unsigned device, uint64_t rounded, uint64_t segment)
{
    const asim_device *table = &arena->env.device;
    uint64_t free_bytes, total;
    table->ops->memory(table->ctx, device, &free_bytes, &total);
    arena->env.listener->refusal(arena->env.listener->ctx, device, rounded, segment, free_bytes);
    return ASIM_REFUSED;
}

static asim_alloc_result open_region(asim_arena *arena, unsigned device, unsigned lane, uint64_t rounded)
{
    asim_arena_home *home = &arena->homes[device];
    const asim_device *table = &arena->env.device;
    uint64_t size = arena->pool, total;
    if (size == ASIM_PARAM_NONE) {
        table->ops->memory(table->ctx, device, &size, &total);
        size &= ~(arena->align - 1);
    }
    asim_device_result result =
        size ? table->ops->alloc(table->ctx, device, size, lane, &home->region) : ASIM_DEVICE_OOM;
    if (result != ASIM_DEVICE_OK)
        return result == ASIM_DEVICE_OOM ? refuse(arena, device, rounded, size) : ASIM_BROKEN;
    if (!asim_arena_file_gap(arena, device, 0, home->region.address, size))
        return ASIM_BROKEN;
    asim_arena_settle(arena, device);
    return ASIM_PLACED;
}

/* --- operations --- */

asim_code asim_arena_init(asim_arena *arena, const asim_fit *fit, const asim_policy_env *env, uint64_t pool,
                          uint64_t align, const asim_compaction_params *compaction, asim_err *err)
{
    arena->fit = fit;
    arena->env = *env;
    arena->pool = pool;
    arena->align = align;
    arena->merges = compaction->compact != ASIM_COMPACT_NONE;
    arena->count = 1;
    if (align < ASIM_ARENA_ALIGN_MIN || (align & (align - 1)))
        return asim_fail(err, ASIM_E_USAGE,
                         "the smallest block, %" PRIu64 " bytes, is not a power of two from %d on", align,
                         ASIM_ARENA_ALIGN_MIN);
    if (pool != ASIM_PARAM_NONE && pool % align)
        return asim_fail(err, ASIM_E_USAGE,
                         "pool=%" PRIu64 " is not a multiple of the smallest block, %" PRIu64
                         " bytes; change one of them",
                         pool, align);
    asim_code code = asim_compaction_check_params(compaction, err);
    if (code)
        return code;
    arena->homes = asim_mem_new(env->memory, env->device_count, sizeof *arena->homes);
    if (!arena->homes)
        return asim_fail_memory(err, env->device_count * sizeof *arena->homes);
    for (uint32_t d = 0; d < env->device_count; d++) {
        asim_arena_home *home = &arena->homes[d];
        if (fit->sorted && !(home->by_size = asim_mem_new(env->memory, 1, sizeof *home->by_size)))
            return asim_fail_memory(err, sizeof *home->by_size);
        if (fit->own_size && !(home->own = asim_mem_new(env->memory, 1, fit->own_size)))
            return asim_fail_memory(err, fit->own_size);
    }
    return asim_compaction_new(arena, compaction, err);
}

void asim_arena_fini(asim_arena *arena)
{
    const asim_hostmem *mem = arena->env.memory;
    if (!mem)
        return;
    asim_compaction_free(arena);
    for (uint32_t d = 0; arena->homes && d < arena->env.device_count; d++) {
        asim_mem_free(mem, arena->homes[d].by_size, 1, sizeof(asim_free_index));
        asim_mem_free(mem, arena->homes[d].own, 1, arena->fit->own_size);
    }
    asim_mem_free(mem, arena->homes, arena->env.device_count, sizeof *arena->homes);
    asim_mem_free(mem, arena->extents, arena->extent_capacity, sizeof *arena->extents);
    asim_mem_free(mem, arena->notes, arena->note_capacity, sizeof *arena->notes);
}

/* Finds a block, by compaction if it must be; *ret_block is set if PLACED. */
static asim_alloc_result find_block(asim_arena *arena, unsigned device, uint64_t size, uint32_t *ret_block)
{
    asim_arena_home *home = &arena->homes[device];
    if (arena->compaction && asim_compaction_before(arena, device) == ASIM_BROKEN)
        return ASIM_BROKEN;
    *ret_block = size <= home->largest ? arena->fit->find(arena, home, size) : 0;
    if (*ret_block || !arena->compaction)
        return *ret_block ? ASIM_PLACED : ASIM_REFUSED;
    uint64_t needed = arena->fit->needs ? arena->fit->needs(arena, size) : size;
    asim_alloc_result moved = asim_compaction_make_room(arena, device, needed);
    if (moved == ASIM_PLACED)
        *ret_block = arena->fit->find(arena, home, size);
    return *ret_block ? ASIM_PLACED : moved == ASIM_BROKEN ? ASIM_BROKEN : ASIM_REFUSED;
}

/* A live block of size bytes off the front of a filed one. 0: out of host memory. */
static uint32_t cut(asim_arena *arena, unsigned device, uint32_t found, uint64_t size)
{
    asim_arena_home *home = &arena->homes[device];
    const uint64_t whole = arena->extents[found].size;
    if (size < whole && arena->fit->resized) {
        const uint32_t front = asim_arena_record(arena);
        if (!front)
            return 0;
        asim_extent *rest = &arena->extents[found];
        arena->extents[front] =
            (asim_extent){.address = rest->address, .size = size, .prev = rest->prev, .next = found};
        arena->notes[front] = (asim_arena_note){.device = (uint16_t)device, .state = ASIM_BLOCK_LIVE};
        *(rest->prev ? &arena->extents[rest->prev].next : &home->first) = front;
        rest->prev = front;
        rest->address += size;
        rest->size -= size;
        home->free_bytes -= size;
        arena->fit->resized(arena, home, found);
        return front;
    }
    asim_arena_take(arena, found);
    arena->extents[found].size = size;
    arena->notes[found].state = ASIM_BLOCK_LIVE;
    const uint64_t address = arena->extents[found].address + size;
    return size == whole || asim_arena_file_gap(arena, device, found, address, whole - size) ? found : 0;
}

/* A free neighbour takes the block over and stays filed; of two, the later one goes. */
static void release_in_place(asim_arena *arena, uint32_t block)
{
    asim_extent *extents = arena->extents;
    asim_arena_home *home = &arena->homes[arena->notes[block].device];
    uint32_t prev = extents[block].prev, next = extents[block].next;
    const bool joins_prev = prev && arena->notes[prev].state == ASIM_BLOCK_FREE;
    if (next && arena->notes[next].state == ASIM_BLOCK_FREE) {
        if (joins_prev) {
            asim_arena_take(arena, next);
            join(arena, block, next);
        } else {
            home->free_bytes += extents[block].size;
            extents[next].address = extents[block].address;
            extents[next].size += extents[block].size;
            extents[next].prev = prev;
            *(prev ? &extents[prev].next : &home->first) = next;
            asim_arena_retire(arena, block);
            arena->fit->resized(arena, home, next);
            return;
        }
    }
    if (!joins_prev) {
        file_block(arena, block);
        return;
    }
    home->free_bytes += extents[block].size;
    join(arena, prev, block);
    arena->fit->resized(arena, home, prev);
}

asim_alloc_result asim_arena_alloc(asim_arena *arena, const asim_event *event, asim_placement *ret_placement)
{
    const unsigned device = arena->env.lanes[event->lane].device;
    asim_arena_home *home = &arena->homes[device];
    if (event->size == 0)
        return ASIM_NOTHING;
    const uint64_t size =
        arena->fit->round ? arena->fit->round(arena, event->size) : asim_arena_round(arena, event->size);
    if (size == 0)
        return refuse(arena, device, event->size, 0);
    if (!home->first) {
        asim_alloc_result opened = open_region(arena, device, event->lane, size);
        if (opened != ASIM_PLACED)
            return opened;
    }
    uint32_t found;
    asim_alloc_result result = find_block(arena, device, size, &found);
    if (result != ASIM_PLACED)
        return result == ASIM_REFUSED ? refuse(arena, device, size, 0) : result;
    found = cut(arena, device, found, size);
    if (!found)
        return ASIM_BROKEN;
    arena->notes[found].unmovable = event->flags & ASIM_ALLOC_UNMOVABLE;
    arena->notes[found].streams = asim_compaction_stream_bit(arena, event->lane);
    asim_arena_settle(arena, device);
    *ret_placement = (asim_placement){.address = arena->extents[found].address,
                                      .size = arena->extents[found].size,
                                      .rounded = size,
                                      .region = home->region.index,
                                      .word = found};
    return ASIM_PLACED;
}

static void release(asim_arena *arena, uint32_t block)
{
    const unsigned device = arena->notes[block].device;
    arena->notes[block].state = ASIM_BLOCK_FREE;
    if (arena->merges && arena->fit->resized) {
        release_in_place(arena, block);
    } else {
        for (uint32_t other; arena->merges && (other = partner_of(arena, block));) {
            asim_arena_take(arena, other);
            block = join(arena, block, other);
        }
        file_block(arena, block);
    }
    asim_arena_settle(arena, device);
}

asim_free_result asim_arena_free(asim_arena *arena, uint32_t word, bool completion_follows)
{
    if (completion_follows) {
        arena->notes[word].state = ASIM_BLOCK_PENDING;
        return ASIM_FREE_LATER;
    }
    release(arena, word);
    return ASIM_FREED;
}

asim_free_result asim_arena_free_done(asim_arena *arena, uint32_t word)
{
    release(arena, word);
    return ASIM_FREED;
}

/* --- check and walk --- */

static asim_code check_home(const asim_arena *arena, unsigned device, asim_err *err)
{
    const asim_arena_home *home = &arena->homes[device];
    uint64_t end = home->region.address, free_bytes = 0, largest = 0;
    uint32_t free_count = 0;
    for (uint32_t b = home->first, before = 0; b; before = b, b = arena->extents[b].next) {
        const asim_extent *extent = &arena->extents[b];
        if (extent->address != end || extent->prev != before || extent->size == 0 ||
            arena->notes[b].device != device)
            return asim_fail(err, ASIM_E_BUG, "block %u does not join on to the one before it", b);
        end += extent->size;
        if (arena->notes[b].state != ASIM_BLOCK_FREE)
            continue;
        if (arena->merges && partner_of(arena, b))
            return asim_fail(err, ASIM_E_BUG, "blocks %u and %u are free and did not merge", b,
                             partner_of(arena, b));
        free_bytes += extent->size;
        free_count++;
        largest = extent->size > largest ? extent->size : largest;
    }
    if (end != home->region.address + home->region.size)
        return asim_fail(err, ASIM_E_BUG, "the blocks of device %u do not fill its region", device);
    if (free_bytes != home->free_bytes || free_count != home->free_count || largest != home->largest)
        return asim_fail(err, ASIM_E_BUG,
                         "device %u: %u blocks of %" PRIu64 " bytes are free, %u of %" PRIu64 " are counted",
                         device, free_count, free_bytes, home->free_count, home->free_bytes);
    if (arena->fit->sorted && asim_free_check(home->by_size, arena->extents, free_count) != free_count)
        return asim_fail(err, ASIM_E_BUG, "device %u: the index of free blocks is out of order", device);
    return arena->fit->check ? arena->fit->check(arena, home, err) : ASIM_OK;
}

asim_code asim_arena_check(const asim_arena *arena, asim_err *err)
{
    if (arena->fault.code)
        return asim_fail(err, arena->fault.code, "%s", arena->fault.message);
    for (uint32_t d = 0; d < arena->env.device_count; d++) {
        asim_code code = check_home(arena, d, err);
        if (code)
            return code;
    }
    return ASIM_OK;
}

void asim_arena_walk(const asim_arena *arena, const asim_walker *walker)
{
    for (uint32_t d = 0; d < arena->env.device_count; d++) {
        const asim_arena_home *home = &arena->homes[d];
        if (!home->first)
            continue;
        const asim_walk_segment segment = {.address = home->region.address,
                                           .size = home->region.size,
                                           .region = home->region.index,
                                           .device = (uint16_t)d};
        walker->segment(walker->ctx, &segment);
        for (uint32_t b = home->first; b; b = arena->extents[b].next) {
            const asim_walk_block shown = {.address = arena->extents[b].address,
                                           .size = arena->extents[b].size,
                                           .word = b,
                                           .state = (asim_block_state)arena->notes[b].state};
            walker->block(walker->ctx, &shown);
        }
    }
}
