#include "policies/rmm_superblocks.h"

static bool grow_pieces(asim_rmm_superblocks *s, size_t need, asim_err *err)
{
    void *nodes = s->nodes, *pieces = s->pieces;
    asim_code code = asim_mem_grow(s->env.memory, &nodes, &s->node_capacity, need, sizeof *s->nodes, err);
    s->nodes = nodes;
    if (!code)
        code = asim_mem_grow(s->env.memory, &pieces, &s->piece_capacity, need, sizeof *s->pieces, err);
    s->pieces = pieces;
    return code == ASIM_OK;
}

static bool grow_supers(asim_rmm_superblocks *s, size_t need, asim_err *err)
{
    void *supers = s->supers;
    asim_code code = asim_mem_grow(s->env.memory, &supers, &s->super_capacity, need, sizeof *s->supers, err);
    s->supers = supers;
    return code == ASIM_OK;
}

asim_code asim_rmm_super_init(asim_rmm_superblocks *s, const asim_policy_env *env, asim_err *err)
{
    s->env = *env;
    s->piece_count = s->super_count = 1;
    s->arena_count = 1 + env->device_count + env->lane_count;
    s->arenas = asim_mem_new(env->memory, s->arena_count, sizeof *s->arenas);
    s->order = asim_mem_new(env->memory, s->arena_count, sizeof *s->order);
    if (!s->arenas || !s->order)
        return asim_fail_memory(err, s->arena_count * sizeof *s->arenas);
    if (env->device_count) {
        s->heaps = asim_mem_new(env->memory, env->device_count, sizeof *s->heaps);
        if (!s->heaps)
            return asim_fail_memory(err, env->device_count * sizeof *s->heaps);
    }
    if (!grow_pieces(s, 64, err) || !grow_supers(s, 16, err))
        return ASIM_E_SYSTEM;
    s->nodes[0] = (asim_rmm_node){0};
    s->pieces[0] = (asim_rmm_piece){.state = UINT8_MAX}; /* so that no neighbour never merges */
    s->supers[0] = (asim_rmm_superblock){0};
    return ASIM_OK;
}

void asim_rmm_super_fini(asim_rmm_superblocks *s)
{
    const asim_hostmem *memory = s->env.memory;
    if (!memory)
        return;
    asim_mem_free(memory, s->heaps, s->env.device_count, sizeof *s->heaps);
    asim_mem_free(memory, s->arenas, s->arena_count, sizeof *s->arenas);
    asim_mem_free(memory, s->order, s->arena_count, sizeof *s->order);
    asim_mem_free(memory, s->nodes, s->node_capacity, sizeof *s->nodes);
    asim_mem_free(memory, s->pieces, s->piece_capacity, sizeof *s->pieces);
    asim_mem_free(memory, s->supers, s->super_capacity, sizeof *s->supers);
}

static uint32_t piece_new(asim_rmm_superblocks *s)
{
    uint32_t fresh = s->spare_piece;
    if (fresh) {
        s->spare_piece = s->pieces[fresh].next;
        return fresh;
    }
    if (s->piece_count == s->piece_capacity && !grow_pieces(s, (size_t)s->piece_count + 1, &s->fault))
        return 0;
    return s->piece_count++;
}

static void piece_drop(asim_rmm_superblocks *s, uint32_t piece)
{
    s->nodes[piece] = (asim_rmm_node){0};
    s->pieces[piece] = (asim_rmm_piece){.next = s->spare_piece, .state = UINT8_MAX};
    s->spare_piece = piece;
}

static uint32_t super_new(asim_rmm_superblocks *s)
{
    uint32_t fresh = s->spare_super;
    if (fresh) {
        s->spare_super = s->supers[fresh].next;
        return fresh;
    }
    if (s->super_count == s->super_capacity && !grow_supers(s, (size_t)s->super_count + 1, &s->fault))
        return 0;
    return s->super_count++;
}

static void super_drop(asim_rmm_superblocks *s, uint32_t super)
{
    s->supers[super] = (asim_rmm_superblock){.next = s->spare_super};
    s->spare_super = super;
}

/* --- largest --- */

static void use_arena(asim_rmm_superblocks *s, uint32_t arena)
{
    if (s->arenas[arena].used)
        return;
    s->arenas[arena].used = true;
    s->order[s->order_count++] = arena;
}

static uint64_t largest_in(const asim_rmm_superblocks *s, uint32_t arena)
{
    return asim_rmm_fit_largest(s->arenas[arena].root, s->nodes);
}

/* After the arena's tree has changed. */
static void settle(asim_rmm_superblocks *s, uint32_t arena)
{
    const uint64_t largest = largest_in(s, arena);
    if (largest >= s->largest) {
        s->largest = largest;
        s->largest_arena = arena;
        return;
    }
    if (s->largest_arena != arena)
        return;
    s->largest = 0;
    for (uint32_t i = 0; i < s->order_count; i++)
        if (largest_in(s, s->order[i]) >= s->largest) {
            s->largest = largest_in(s, s->order[i]);
            s->largest_arena = s->order[i];
        }
}

uint64_t asim_rmm_super_largest(asim_rmm_superblocks *s)
{
    return s->largest;
}

/* --- superblocks --- */

bool asim_rmm_super_begin(asim_rmm_superblocks *s, unsigned device, const asim_region *region, uint64_t size)
{
    const uint32_t super = super_new(s), piece = super ? piece_new(s) : 0;
    const uint32_t global = asim_rmm_global(device);
    if (!piece)
        return false;
    s->heaps[device] = (asim_rmm_heap){*region, super};
    s->heaps[device].region.size = size;
    s->supers[super] = (asim_rmm_superblock){.address = region->address,
                                             .size = size,
                                             .first = piece,
                                             .arena = global,
                                             .device = (uint16_t)device};
    s->nodes[piece] = (asim_rmm_node){.address = region->address, .size = size};
    s->pieces[piece] = (asim_rmm_piece){.superblock = super};
    use_arena(s, global);
    asim_rmm_fit_insert(&s->arenas[global].root, s->nodes, piece);
    settle(s, global);
    return true;
}

static bool is_empty(const asim_rmm_superblocks *s, uint32_t super)
{
    const uint32_t first = s->supers[super].first;
    return s->pieces[first].state == ASIM_BLOCK_FREE && s->pieces[first].next == 0;
}

/* An empty superblock of the global arena keeps size bytes; the rest is a new one, empty and global too. */
static bool split_super(asim_rmm_superblocks *s, uint32_t super, uint64_t size)
{
    const uint32_t tail = super_new(s), piece = tail ? piece_new(s) : 0;
    if (!piece)
        return false;
    asim_rmm_superblock *head = &s->supers[super];
    uint32_t *root = &s->arenas[head->arena].root;
    s->supers[tail] = (asim_rmm_superblock){.address = head->address + size,
                                            .size = head->size - size,
                                            .first = piece,
                                            .prev = super,
                                            .next = head->next,
                                            .arena = head->arena,
                                            .device = head->device};
    if (head->next)
        s->supers[head->next].prev = tail;
    head->next = tail;
    head->size = size;
    asim_rmm_fit_set(s->nodes, head->first, head->address, size);
    s->nodes[piece] = (asim_rmm_node){.address = s->supers[tail].address, .size = s->supers[tail].size};
    s->pieces[piece] = (asim_rmm_piece){.superblock = tail};
    asim_rmm_fit_insert(root, s->nodes, piece);
    return true;
}

/* The later of two empty superblocks of one arena joins the earlier one. */
static void join_supers(asim_rmm_superblocks *s, uint32_t kept, uint32_t gone)
{
    asim_rmm_superblock *k = &s->supers[kept], *g = &s->supers[gone];
    uint32_t *root = &s->arenas[k->arena].root;
    asim_rmm_fit_remove(root, s->nodes, g->first);
    piece_drop(s, g->first);
    k->size += g->size;
    k->next = g->next;
    if (g->next)
        s->supers[g->next].prev = kept;
    asim_rmm_fit_set(s->nodes, k->first, k->address, k->size);
    super_drop(s, gone);
}

static bool is_empty_global(const asim_rmm_superblocks *s, uint32_t super)
{
    return super && s->supers[super].arena == asim_rmm_global(s->supers[super].device) && is_empty(s, super);
}

/* global_arena::coalesce, for a superblock that is there already. */
static void coalesce(asim_rmm_superblocks *s, uint32_t super)
{
    if (!is_empty_global(s, super))
        return;
    if (is_empty_global(s, s->supers[super].next))
        join_supers(s, super, s->supers[super].next);
    if (is_empty_global(s, s->supers[super].prev))
        join_supers(s, s->supers[super].prev, super);
}

static void move_super(asim_rmm_superblocks *s, uint32_t super, uint32_t arena)
{
    asim_rmm_superblock *moved = &s->supers[super];
    for (uint32_t b = moved->first; b; b = s->pieces[b].next)
        if (s->pieces[b].state == ASIM_BLOCK_FREE) {
            asim_rmm_fit_remove(&s->arenas[moved->arena].root, s->nodes, b);
            asim_rmm_fit_insert(&s->arenas[arena].root, s->nodes, b);
        }
    moved->arena = arena;
}

void asim_rmm_super_clean(asim_rmm_superblocks *s, unsigned device)
{
    const uint32_t global = asim_rmm_global(device);
    uint32_t next;
    for (uint32_t super = s->heaps[device].first; super; super = next) {
        next = s->supers[super].next;
        if (s->supers[super].arena == global)
            continue;
        const uint32_t from = s->supers[super].arena;
        move_super(s, super, global);
        settle(s, from);
        if (is_empty_global(s, next))
            next = s->supers[next].next; /* it is about to join this one */
        coalesce(s, super);
    }
    settle(s, global);
}

/* --- blocks --- */

/* Takes size bytes off the front of a free block; 0: host memory ran out. */
static uint32_t carve(asim_rmm_superblocks *s, uint32_t found, uint64_t size)
{
    uint32_t *root = &s->arenas[s->supers[s->pieces[found].superblock].arena].root;
    const asim_rmm_node node = s->nodes[found];
    if (node.size == size) {
        asim_rmm_fit_remove(root, s->nodes, found);
        s->pieces[found].state = ASIM_BLOCK_LIVE;
        return found;
    }
    const uint32_t taken = piece_new(s);
    if (!taken)
        return 0;
    asim_rmm_piece *rest = &s->pieces[found];
    s->nodes[taken] = (asim_rmm_node){.address = node.address, .size = size};
    s->pieces[taken] = (asim_rmm_piece){
        .superblock = rest->superblock, .prev = rest->prev, .next = found, .state = ASIM_BLOCK_LIVE};
    *(rest->prev ? &s->pieces[rest->prev].next : &s->supers[rest->superblock].first) = taken;
    rest->prev = taken;
    asim_rmm_fit_set(s->nodes, found, node.address + size, node.size - size);
    return taken;
}

/* global_arena::first_fit: *ret_block, of a superblock that was split off if it was empty and large enough.
 */
static bool find_global(asim_rmm_superblocks *s, unsigned device, uint64_t size, uint32_t *ret_block)
{
    const uint64_t least = size > ASIM_RMM_SUPERBLOCK ? size : ASIM_RMM_SUPERBLOCK;
    *ret_block = asim_rmm_fit_first(s->arenas[asim_rmm_global(device)].root, s->nodes, size,
                                    &s->env.counters->search_steps);
    const uint32_t super = s->pieces[*ret_block].superblock;
    return !*ret_block || !is_empty(s, super) || s->supers[super].size < least + ASIM_RMM_SUPERBLOCK ||
           split_super(s, super, least);
}

bool asim_rmm_super_take(asim_rmm_superblocks *s, unsigned device, uint32_t arena, uint64_t size,
                         uint32_t *ret_block)
{
    const uint32_t global = asim_rmm_global(device);
    uint32_t found = 0;
    use_arena(s, arena);
    *ret_block = 0;
    if (!asim_rmm_is_large(size))
        found = asim_rmm_fit_first(s->arenas[arena].root, s->nodes, size, &s->env.counters->search_steps);
    if (!found) {
        if (!find_global(s, device, size, &found))
            return false;
        if (!found)
            return true;
        if (!asim_rmm_is_large(size)) {
            move_super(s, s->pieces[found].superblock, arena);
            s->acquired++;
        }
    }
    *ret_block = carve(s, found, size);
    settle(s, global);
    settle(s, arena);
    return *ret_block != 0;
}

void asim_rmm_super_give(asim_rmm_superblocks *s, uint32_t block)
{
    asim_rmm_piece *piece = &s->pieces[block];
    const uint32_t super = piece->superblock, arena = s->supers[super].arena;
    const uint32_t prev = piece->prev, next = piece->next;
    const asim_rmm_node node = s->nodes[block];
    uint32_t *root = &s->arenas[arena].root;
    const bool joins_prev = s->pieces[prev].state == ASIM_BLOCK_FREE;
    const bool joins_next = s->pieces[next].state == ASIM_BLOCK_FREE;
    *piece = (asim_rmm_piece){.superblock = super, .prev = prev, .next = next};
    if (joins_prev) {
        const uint32_t after = joins_next ? s->pieces[next].next : next;
        const uint64_t size = s->nodes[prev].size + node.size + (joins_next ? s->nodes[next].size : 0);
        if (joins_next) {
            asim_rmm_fit_remove(root, s->nodes, next);
            piece_drop(s, next);
        }
        piece_drop(s, block);
        s->pieces[prev].next = after;
        if (after)
            s->pieces[after].prev = prev;
        asim_rmm_fit_set(s->nodes, prev, s->nodes[prev].address, size);
    } else if (joins_next) {
        piece_drop(s, block);
        s->pieces[next].prev = prev;
        *(prev ? &s->pieces[prev].next : &s->supers[super].first) = next;
        asim_rmm_fit_set(s->nodes, next, node.address, node.size + s->nodes[next].size);
    } else {
        asim_rmm_fit_insert(root, s->nodes, block);
    }
    coalesce(s, super);
    settle(s, arena);
}

/* --- check and walk --- */

static asim_code check_super(const asim_rmm_superblocks *s, uint32_t super, uint64_t *free_blocks,
                             asim_err *err)
{
    const asim_rmm_superblock *sb = &s->supers[super];
    uint64_t end = sb->address, blocks = 0;
    uint32_t last = 0;
    for (uint32_t b = sb->first; b; last = b, b = s->pieces[b].next) {
        if (s->pieces[b].superblock != super || s->pieces[b].state > ASIM_BLOCK_PENDING ||
            s->pieces[b].prev != last || s->nodes[b].address != end || ++blocks > s->piece_count)
            return asim_fail(err, ASIM_E_BUG, "block %u does not join on to the one before it", b);
        if (last && s->pieces[b].state == ASIM_BLOCK_FREE && s->pieces[last].state == ASIM_BLOCK_FREE)
            return asim_fail(err, ASIM_E_BUG, "blocks %u and %u are free and did not merge", last, b);
        *free_blocks += s->pieces[b].state == ASIM_BLOCK_FREE;
        end += s->nodes[b].size;
    }
    if (end != sb->address + sb->size)
        return asim_fail(err, ASIM_E_BUG, "the blocks of superblock %u do not fill it", super);
    if (sb->size < ASIM_RMM_SUPERBLOCK)
        return asim_fail(err, ASIM_E_BUG, "superblock %u is smaller than the least size", super);
    if (is_empty_global(s, super) && is_empty_global(s, sb->next))
        return asim_fail(err, ASIM_E_BUG, "superblocks %u and %u are empty and did not merge", super,
                         sb->next);
    return ASIM_OK;
}

asim_code asim_rmm_super_check(const asim_rmm_superblocks *s, asim_err *err)
{
    uint64_t free_blocks = 0, in_trees = 0, largest = 0;
    if (s->fault.code)
        return asim_fail(err, s->fault.code, "%s", s->fault.message);
    for (uint32_t d = 0; d < s->env.device_count; d++) {
        uint64_t end = s->heaps[d].region.address;
        for (uint32_t super = s->heaps[d].first; super; super = s->supers[super].next) {
            if (s->supers[super].address != end)
                return asim_fail(err, ASIM_E_BUG, "superblock %u does not join on", super);
            end += s->supers[super].size;
            asim_code code = check_super(s, super, &free_blocks, err);
            if (code)
                return code;
        }
        if (end != s->heaps[d].region.address + s->heaps[d].region.size)
            return asim_fail(err, ASIM_E_BUG, "the superblocks of device %u do not fill its region", d);
    }
    for (uint32_t i = 1; i < s->arena_count; i++) {
        const uint32_t count = asim_rmm_fit_check(s->arenas[i].root, s->nodes);
        if (count == UINT32_MAX || (count && !s->arenas[i].used))
            return asim_fail(err, ASIM_E_BUG, "the free blocks of arena %u are out of order", i);
        in_trees += count;
        if (largest_in(s, i) > largest)
            largest = largest_in(s, i);
    }
    if (free_blocks != in_trees || largest != s->largest)
        return asim_fail(err, ASIM_E_BUG, "%llu blocks are free and %llu in trees, or the largest is wrong",
                         (unsigned long long)free_blocks, (unsigned long long)in_trees);
    return ASIM_OK;
}

void asim_rmm_super_walk(const asim_rmm_superblocks *s, const asim_walker *walker)
{
    for (uint32_t d = 0; d < s->env.device_count; d++) {
        const asim_rmm_heap *heap = &s->heaps[d];
        const asim_walk_segment segment = {.address = heap->region.address,
                                           .size = heap->region.size,
                                           .region = heap->region.index,
                                           .device = (uint16_t)d};
        if (!heap->first)
            continue;
        walker->segment(walker->ctx, &segment);
        for (uint32_t super = heap->first; super; super = s->supers[super].next)
            for (uint32_t b = s->supers[super].first; b; b = s->pieces[b].next) {
                const asim_walk_block shown = {.address = s->nodes[b].address,
                                               .size = s->nodes[b].size,
                                               .requested = s->pieces[b].requested,
                                               .word = b,
                                               .state = (asim_block_state)s->pieces[b].state};
                walker->block(walker->ctx, &shown);
            }
    }
}
