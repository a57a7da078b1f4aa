/* policies/order_lists.h - lists of free blocks by powers of two, newest first, and the rules of buddies.
 *
 *     bits   ...0100100      one bit for each order that has blocks
 *     heads  [ ][ ][9][ ][ ][4]...
 *                   |       \_ blocks of 2^5 to 2^6 - 1 bytes
 *                   \_ 9 -> 2 -> 7, the one freed last in front
 *
 * For an arena whose home->own is an asim_order_lists. Every operation takes a fixed number of steps.
 *
 * Buddies (Knowlton, CACM 8(10), 1965; Knuth, TAOCP 1, 2.5): a block of 2^k bytes begins at a multiple of
 * 2^k, and its buddy begins where bit k of that offset is the other way round.
 */
#ifndef ASIM_POLICIES_ORDER_LISTS_H
#define ASIM_POLICIES_ORDER_LISTS_H

#include "policies/arena.h"

typedef struct asim_order_lists {
    uint64_t bits;
    uint32_t heads[64];
} asim_order_lists;

/* For an asim_fit. */
uint64_t asim_order_round(const asim_arena *arena, uint64_t size); /* up to a power of two */
/* The newest block of the least order that has any, beginning with that of size, a power of two. */
uint32_t asim_order_find(asim_arena *arena, asim_arena_home *home, uint64_t size);
void asim_order_file(asim_arena *arena, asim_arena_home *home, uint32_t block);
void asim_order_take(asim_arena *arena, asim_arena_home *home, uint32_t block);
asim_code asim_order_check(const asim_arena *arena, const asim_arena_home *home, asim_err *err);

/* For an asim_fit of buddies, all of whose blocks have 2^k bytes. */
uint64_t asim_buddy_largest(const asim_arena *arena, const asim_arena_home *home);
uint64_t asim_buddy_piece(const asim_arena *arena, uint64_t offset, uint64_t size);
uint32_t asim_buddy_partner(const asim_arena *arena, const asim_arena_home *home, uint32_t block);

#endif
