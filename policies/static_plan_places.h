/* policies/static_plan_places.h - which blocks of a plan are in place now, and what is free between them.
 *
 *     region   | head gap |[ 4 ]|gap|[ 0 ][ 7 ]|      gap      |
 *     ranks         0       1         2    3   ...   of all planned offsets, live or not
 *     bits          .       1     .   1    1   .  .  .
 *
 * Offsets are known beforehand, so each distinct one has a rank; a bitmap over the ranks, with a bitmap of
 * its words above it and so on, finds the neighbours of any block in a few steps. Behind each block in place
 * lies its gap, perhaps of no bytes; gaps are in a free index, for the largest of them. Cost: O(log64 n) for
 * the neighbours, and what free_index.h costs.
 */
#ifndef ASIM_POLICIES_STATIC_PLAN_PLACES_H
#define ASIM_POLICIES_STATIC_PLAN_PLACES_H

#include "policies/free_index.h"
#include "sim/err.h"
#include "sim/hostmem.h"

enum {
    ASIM_PLACES_LEVELS = 6 /* 64 to the 6th is more than 2^32 */
};

typedef struct asim_places {
    const asim_hostmem *memory;
    uint32_t count;                     /* ranks */
    uint64_t *bits[ASIM_PLACES_LEVELS]; /* bits[0]: of the ranks; each of the others: of the words below */
    size_t words[ASIM_PLACES_LEVELS];
    asim_extent *gaps; /* [rank + 2]: behind the block of that rank; [1]: the head gap; [0] is none */
    uint64_t *ends;    /* of the block in place at a rank: offset of its end */
    uint64_t *offsets; /* of each rank, ascending */
    uint64_t size;     /* of the region */
    asim_free_index *free;
} asim_places;

/* offsets, count of them, ascending and distinct, are copied. Errors: ASIM_E_SYSTEM; fini follows anyway. */
asim_code asim_places_init(asim_places *places, const uint64_t *offsets, uint32_t count,
                           const asim_hostmem *memory, asim_err *err);
void asim_places_fini(asim_places *places); /* accepts a zeroed one */

/* The region is there, of size (1 to 2^61) bytes, and empty. */
void asim_places_open(asim_places *places, uint64_t size);

/* A block is put in place, or taken away; false: something else is there, or nothing. */
bool asim_places_put(asim_places *places, uint32_t rank, uint64_t size);
bool asim_places_take(asim_places *places, uint32_t rank);

uint64_t asim_places_largest(const asim_places *places); /* bytes of the largest gap */

/* The first rank in place at or after rank, or UINT32_MAX. */
uint32_t asim_places_from(const asim_places *places, uint32_t rank);

/* The gap behind the block of that rank, or the head gap for UINT32_MAX; perhaps of size 0. */
static inline const asim_extent *asim_places_gap(const asim_places *places, uint32_t rank)
{
    return &places->gaps[rank + 2]; /* UINT32_MAX wraps round to 1 */
}

/* Blocks and gaps fill the region, and the index holds the gaps. */
asim_code asim_places_check(const asim_places *places, asim_err *err);

#endif
