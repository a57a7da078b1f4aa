#include "policies/order_lists.h"

uint64_t asim_order_round(const asim_arena *arena, uint64_t size)
{
    if (size <= arena->align)
        return arena->align;
    return size > UINT64_C(1) << 62 ? 0 : UINT64_C(2) << asim_log2(size - 1);
}

uint32_t asim_order_find(asim_arena *arena, asim_arena_home *home, uint64_t size)
{
    const asim_order_lists *lists = home->own;
    const uint64_t bits = lists->bits >> asim_log2(size);
    arena->env.counters->search_steps++;
    return bits ? lists->heads[asim_log2(size) + (unsigned)__builtin_ctzll(bits)] : 0;
}

void asim_order_file(asim_arena *arena, asim_arena_home *home, uint32_t block)
{
    asim_order_lists *lists = home->own;
    const unsigned order = asim_log2(arena->extents[block].size);
    asim_arena_push(arena, &lists->heads[order], block);
    lists->bits |= UINT64_C(1) << order;
}

void asim_order_take(asim_arena *arena, asim_arena_home *home, uint32_t block)
{
    asim_order_lists *lists = home->own;
    const unsigned order = asim_log2(arena->extents[block].size);
    asim_arena_unlink(arena, &lists->heads[order], block);
    if (!lists->heads[order])
        lists->bits &= ~(UINT64_C(1) << order);
}

asim_code asim_order_check(const asim_arena *arena, const asim_arena_home *home, asim_err *err)
{
    const asim_order_lists *lists = home->own;
    uint32_t seen = 0;
    for (unsigned order = 0; order < 64; order++) {
        if ((lists->bits >> order & 1) != (lists->heads[order] != 0))
            return asim_fail(err, ASIM_E_BUG, "the bit of order %u is wrong", order);
        for (uint32_t b = lists->heads[order], before = 0; b; before = b, b = arena->notes[b].own.link.next)
            if (arena->notes[b].state != ASIM_BLOCK_FREE || arena->notes[b].own.link.prev != before ||
                asim_log2(arena->extents[b].size) != order || seen++ == home->free_count)
                return asim_fail(err, ASIM_E_BUG, "block %u is in the list of order %u by mistake", b, order);
    }
    if (seen != home->free_count)
        return asim_fail(err, ASIM_E_BUG, "%u blocks are in the lists, %u are free", seen, home->free_count);
    return ASIM_OK;
}

uint64_t asim_buddy_largest(const asim_arena *arena, const asim_arena_home *home)
{
    const asim_order_lists *lists = home->own;
    (void)arena;
    return lists->bits ? UINT64_C(1) << asim_log2(lists->bits) : 0;
}

uint64_t asim_buddy_piece(const asim_arena *arena, uint64_t offset, uint64_t size)
{
    const uint64_t fits = UINT64_C(1) << asim_log2(size), aligned = offset & -offset;
    (void)arena;
    return offset && aligned < fits ? aligned : fits;
}

uint32_t asim_buddy_partner(const asim_arena *arena, const asim_arena_home *home, uint32_t block)
{
    const asim_extent *extent = &arena->extents[block];
    const bool is_upper = (extent->address - home->region.address) & extent->size;
    const uint32_t other = is_upper ? extent->prev : extent->next;
    if (!other || arena->notes[other].state != ASIM_BLOCK_FREE || arena->extents[other].size != extent->size)
        return 0;
    return other;
}
