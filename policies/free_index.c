#include "policies/free_index.h"

#include <stddef.h>

/* Odd multiplier: distinct indices have distinct priorities. */
static uint32_t priority(uint32_t block)
{
    return block * UINT32_C(0x9E3779B1);
}

static bool before(const asim_extent *a, const asim_extent *b)
{
    return a->size < b->size || (a->size == b->size && a->address < b->address);
}

void asim_free_insert_among(asim_free_index *index, asim_extent *extents, uint32_t block, unsigned bin)
{
    asim_extent *added = &extents[block];
    uint32_t *link = &index->roots[bin];
    uint32_t weight = priority(block);
    while (*link && priority(*link) > weight) {
        asim_extent *above = &extents[*link];
        link = before(added, above) ? &above->left : &above->right;
    }
    /* The tree that hung here is cut in two at the new key: what is less to the left, the rest to the right.
     */
    uint32_t rest = *link;
    *link = block;
    uint32_t *less = &added->left, *more = &added->right;
    while (rest) {
        asim_extent *node = &extents[rest];
        if (before(node, added)) {
            *less = rest;
            less = &node->right;
            rest = *less;
        } else {
            *more = rest;
            more = &node->left;
            rest = *more;
        }
    }
    *less = 0;
    *more = 0;
}

void asim_free_remove_among(asim_free_index *index, asim_extent *extents, uint32_t block, unsigned bin)
{
    asim_extent *gone = &extents[block];
    uint32_t *link = &index->roots[bin];
    while (*link != block) {
        asim_extent *above = &extents[*link];
        link = before(gone, above) ? &above->left : &above->right;
    }
    uint32_t low = gone->left, high = gone->right;
    while (low && high) {
        if (priority(low) > priority(high)) {
            *link = low;
            link = &extents[low].right;
            low = *link;
        } else {
            *link = high;
            link = &extents[high].left;
            high = *link;
        }
    }
    *link = low | high;
}

/* First bin that is not empty at or after bin, or ASIM_FREE_BINS. */
static unsigned bin_from(const asim_free_index *index, unsigned bin)
{
    if (bin >= ASIM_FREE_BINS)
        return ASIM_FREE_BINS;
    unsigned word = bin / 64;
    uint64_t bits = index->bits[word] >> (bin % 64);
    if (bits)
        return bin + (unsigned)__builtin_ctzll(bits);
    uint64_t words = index->summary >> word >> 1;
    if (!words)
        return ASIM_FREE_BINS;
    word += 1 + (unsigned)__builtin_ctzll(words);
    return word * 64 + (unsigned)__builtin_ctzll(index->bits[word]);
}

/* Last bin that is not empty before bin, or ASIM_FREE_BINS. */
static unsigned bin_before(const asim_free_index *index, unsigned bin)
{
    if (bin == 0)
        return ASIM_FREE_BINS;
    unsigned last = bin - 1, word = last / 64;
    uint64_t bits = index->bits[word] << (63 - last % 64);
    if (bits)
        return last - (unsigned)__builtin_clzll(bits);
    uint64_t words = index->summary & ((UINT64_C(1) << word) - 1);
    if (!words)
        return ASIM_FREE_BINS;
    word = 63U - (unsigned)__builtin_clzll(words);
    return word * 64 + 63U - (unsigned)__builtin_clzll(index->bits[word]);
}

static uint32_t leftmost(const asim_extent *extents, uint32_t node)
{
    while (extents[node].left)
        node = extents[node].left;
    return node;
}

static uint32_t rightmost(const asim_extent *extents, uint32_t node)
{
    while (extents[node].right)
        node = extents[node].right;
    return node;
}

uint32_t asim_free_from(const asim_free_index *index, const asim_extent *extents, unsigned bin)
{
    bin = bin_from(index, bin);
    return bin == ASIM_FREE_BINS ? 0 : leftmost(extents, index->roots[bin]);
}

uint32_t asim_free_below(const asim_free_index *index, const asim_extent *extents, uint64_t size)
{
    unsigned bin = asim_free_bin(size);
    uint32_t best = 0;
    for (uint32_t node = index->roots[bin]; node;) {
        if (extents[node].size < size) {
            best = node;
            node = extents[node].right;
        } else {
            node = extents[node].left;
        }
    }
    if (best)
        return best;
    bin = bin_before(index, bin);
    return bin == ASIM_FREE_BINS ? 0 : rightmost(extents, index->roots[bin]);
}

uint32_t asim_free_first(const asim_free_index *index, const asim_extent *extents)
{
    return asim_free_from(index, extents, 0);
}

uint32_t asim_free_last(const asim_free_index *index, const asim_extent *extents)
{
    unsigned bin = bin_before(index, ASIM_FREE_BINS);
    return bin == ASIM_FREE_BINS ? 0 : rightmost(extents, index->roots[bin]);
}

uint32_t asim_free_next(const asim_free_index *index, const asim_extent *extents, uint32_t block)
{
    const asim_extent *key = &extents[block];
    unsigned bin = asim_free_bin(key->size);
    uint32_t best = 0;
    for (uint32_t node = index->roots[bin]; node;) {
        if (before(key, &extents[node])) {
            best = node;
            node = extents[node].left;
        } else {
            node = extents[node].right;
        }
    }
    if (best)
        return best;
    return asim_free_from(index, extents, bin + 1);
}

uint32_t asim_free_prev(const asim_free_index *index, const asim_extent *extents, uint32_t block)
{
    const asim_extent *key = &extents[block];
    unsigned bin = asim_free_bin(key->size);
    uint32_t best = 0;
    for (uint32_t node = index->roots[bin]; node;) {
        if (before(&extents[node], key)) {
            best = node;
            node = extents[node].right;
        } else {
            node = extents[node].left;
        }
    }
    if (best)
        return best;
    bin = bin_before(index, bin);
    return bin == ASIM_FREE_BINS ? 0 : rightmost(extents, index->roots[bin]);
}

uint32_t asim_free_check(const asim_free_index *index, const asim_extent *extents, uint32_t limit)
{
    for (unsigned bin = 0; bin < ASIM_FREE_BINS; bin++)
        if (((index->bits[bin / 64] >> (bin % 64)) & 1) != (index->roots[bin] != 0))
            return UINT32_MAX;
    for (unsigned word = 0; word < ASIM_FREE_WORDS; word++)
        if (((index->summary >> word) & 1) != (index->bits[word] != 0))
            return UINT32_MAX;
    uint32_t seen = 0, last = 0;
    for (uint32_t node = asim_free_first(index, extents); node; node = asim_free_next(index, extents, node)) {
        const asim_extent *extent = &extents[node];
        if (last && !before(&extents[last], extent))
            return UINT32_MAX;
        if ((extent->left && priority(extent->left) > priority(node)) ||
            (extent->right && priority(extent->right) > priority(node)))
            return UINT32_MAX;
        if (seen++ == limit)
            return UINT32_MAX;
        last = node;
    }
    return seen;
}
