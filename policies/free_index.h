/* policies/free_index.h - an ordered set of free blocks: exact best fit by (size, address).
 *
 * Blocks are records in the policy's own growable array of asim_extent, named by 32-bit index; index 0 is "no
 * block". The set links records that are in it through left and right, so it never allocates and can't fail.
 *
 *     size -> bin (16 an octave) -> bitmap -> root of a small tree
 *
 *     summary 0010...            one bit for each word of bits that is not zero
 *     bits    ..01001000..       one bit for each bin that is not empty
 *     roots   [ 0 ][ 7 ][ 0 ][ 0 ][ 3 ]
 *                    |               \_ treap ordered by (size, address); larger priority on top
 *
 * Most bins hold one block or none: what happens then is inline here.
 *
 * Bins ascend with size, so the first block that is large enough is in the request's own bin, or else the
 * least of the next bin that holds any. Priorities are a bijective hash of the index (Seidel and Aragon,
 * Algorithmica 16, 1996): the shape of a tree depends on its members alone. Cost: a few dozen instructions
 * while bins hold a few blocks each, expected O(log n) for n blocks in one bin.
 */
#ifndef ASIM_POLICIES_FREE_INDEX_H
#define ASIM_POLICIES_FREE_INDEX_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct asim_extent {
    uint64_t address;
    uint64_t size;        /* bytes, 1 to 2^61 */
    uint32_t left, right; /* owned by the free index while the block is in it */
    uint32_t prev, next;  /* neighbours in address order; the policy's own */
} asim_extent;

_Static_assert(sizeof(asim_extent) == 32, "two records share a cache line");

enum {
    ASIM_FREE_BINS = 62 * 16,
    ASIM_FREE_WORDS = (ASIM_FREE_BINS + 63) / 64,
};

typedef struct asim_free_index { /* zeroed: empty */
    uint64_t summary;
    uint64_t bits[ASIM_FREE_WORDS];
    uint32_t roots[ASIM_FREE_BINS];
} asim_free_index;

/* Sixteen bins for each power of two: the exponent and the four highest bits of the fraction, as the IEEE
 * double of the size holds them side by side. Above 2^53, where the double is rounded, bins still ascend with
 * size. */
static inline unsigned asim_free_bin(uint64_t size)
{
    double units = (double)(int64_t)size;
    uint64_t bits;
    memcpy(&bits, &units, sizeof bits);
    return (unsigned)(bits >> 48) - (1023U << 4);
}

/* The slow halves of insert and remove: the bin holds other blocks too. */
void asim_free_insert_among(asim_free_index *index, asim_extent *extents, uint32_t block, unsigned bin);
void asim_free_remove_among(asim_free_index *index, asim_extent *extents, uint32_t block, unsigned bin);

static inline void asim_free_insert_into(asim_free_index *index, asim_extent *extents, uint32_t block,
                                         unsigned bin)
{
    if (index->roots[bin]) {
        asim_free_insert_among(index, extents, block, bin);
        return;
    }
    index->roots[bin] = block;
    index->bits[bin / 64] |= UINT64_C(1) << (bin % 64);
    index->summary |= UINT64_C(1) << (bin / 64);
    extents[block].left = extents[block].right = 0;
}

static inline bool asim_free_is_alone(const asim_free_index *index, const asim_extent *extents,
                                      uint32_t block, unsigned bin)
{
    return index->roots[bin] == block && (extents[block].left | extents[block].right) == 0;
}

static inline void asim_free_remove_from(asim_free_index *index, asim_extent *extents, uint32_t block,
                                         unsigned bin)
{
    if (!asim_free_is_alone(index, extents, block, bin)) {
        asim_free_remove_among(index, extents, block, bin);
        return;
    }
    index->roots[bin] = 0;
    uint64_t bits = index->bits[bin / 64] &= ~(UINT64_C(1) << (bin % 64));
    if (!bits)
        index->summary &= ~(UINT64_C(1) << (bin / 64));
}

/* The block must not be in the set, and its size and address may not change while it is. */
static inline void asim_free_insert(asim_free_index *index, asim_extent *extents, uint32_t block)
{
    asim_free_insert_into(index, extents, block, asim_free_bin(extents[block].size));
}

/* The block must be in the set. */
static inline void asim_free_remove(asim_free_index *index, asim_extent *extents, uint32_t block)
{
    asim_free_remove_from(index, extents, block, asim_free_bin(extents[block].size));
}

/* Takes size bytes off the front of a block in the set, which stays in it. */
static inline void asim_free_shrink(asim_free_index *index, asim_extent *extents, uint32_t block,
                                    uint64_t size)
{
    asim_extent *extent = &extents[block];
    const uint64_t rest = extent->size - size;
    const unsigned from = asim_free_bin(extent->size), into = asim_free_bin(rest);
    const bool stays = from == into && asim_free_is_alone(index, extents, block, from);
    if (!stays)
        asim_free_remove_from(index, extents, block, from);
    extent->address += size;
    extent->size = rest;
    if (!stays)
        asim_free_insert_into(index, extents, block, into);
}

/* The least block of the first bin at or after bin that holds any, or 0. */
uint32_t asim_free_from(const asim_free_index *index, const asim_extent *extents, unsigned bin);

/* The first block of at least size (1 or more) bytes in (size, address) order, or 0. *steps grows by the
 * blocks looked at. */
static inline uint32_t asim_free_find(const asim_free_index *index, const asim_extent *extents, uint64_t size,
                                      uint64_t *steps)
{
    unsigned bin = asim_free_bin(size);
    uint32_t best = 0;
    for (uint32_t node = index->roots[bin]; node;) {
        ++*steps;
        if (extents[node].size >= size) {
            best = node;
            node = extents[node].left;
        } else {
            node = extents[node].right;
        }
    }
    if (best)
        return best;
    ++*steps;
    return asim_free_from(index, extents, bin + 1);
}

/* The last block of fewer than size (1 or more) bytes, or 0. */
uint32_t asim_free_below(const asim_free_index *index, const asim_extent *extents, uint64_t size);

/* Ends and neighbours in (size, address) order, or 0. The block given must be in the set. */
uint32_t asim_free_first(const asim_free_index *index, const asim_extent *extents);
uint32_t asim_free_last(const asim_free_index *index, const asim_extent *extents);
uint32_t asim_free_next(const asim_free_index *index, const asim_extent *extents, uint32_t block);
uint32_t asim_free_prev(const asim_free_index *index, const asim_extent *extents, uint32_t block);

/* Walks the whole set and verifies order, priorities, bins and bitmaps, for at most limit blocks. Returns how
 * many there are, or UINT32_MAX on a fault. */
uint32_t asim_free_check(const asim_free_index *index, const asim_extent *extents, uint32_t limit);

#endif
