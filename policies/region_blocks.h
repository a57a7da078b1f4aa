/* policies/region_blocks.h - device regions cut into blocks, and any number of free lists over them.
 *
 *     region 0   [ live ][  free, list 1  ][ live ][ free, list 2 ][ free, list 1 ]
 *     region 1   [                      free, list 1                              ]
 *
 * The blocks of a region cover it without gaps and are linked in address order. A free block is on one list,
 * where the best fit by (size, address) is found (free_index.h), and merges with neighbours of its region
 * that are on the same list. Records are named by 32-bit index, 0 is none; the index of a live block serves
 * as the policy's word.
 *
 * Cost: O(1) for most calls, O(log n) when n free blocks of one list have nearly the same size.
 */
#ifndef ASIM_POLICIES_REGION_BLOCKS_H
#define ASIM_POLICIES_REGION_BLOCKS_H

#include "policies/free_index.h"
#include "sim/policy.h"

typedef struct asim_rb_block { /* beside the extent of the same index, which holds address, size, neighbours
                                */
    uint64_t requested;        /* of a live or pending block */
    uint32_t region;
    uint32_t list; /* of a free block; 0: on none */
    uint32_t uses; /* of a live block: its list in stream_uses.h */
    uint16_t lane; /* of a live or pending block: who asked */
    uint8_t state; /* asim_block_state; ASIM_RB_SPARE */
} asim_rb_block;

enum {
    ASIM_RB_SPARE = UINT8_MAX
};

typedef struct asim_rb_region {
    uint64_t address, size;
    uint64_t stream;     /* handle of the stream that asked for it */
    uint32_t index;      /* the device's name for it */
    uint32_t first;      /* block of lowest address */
    uint32_t prev, next; /* by device, then address */
    uint16_t device;
    bool held;
} asim_rb_region;

typedef struct asim_rb_list {
    asim_free_index index;
    uint64_t largest; /* as last settled */
} asim_rb_list;

typedef struct asim_region_blocks {
    const asim_hostmem *memory;
    const asim_lane *lanes;
    asim_extent *extents;
    asim_rb_block *blocks;
    size_t extent_capacity, block_capacity;
    uint32_t block_count, spare_block;
    asim_rb_region *regions;
    size_t region_capacity;
    uint32_t region_count, spare_region, first_region, last_region;
    asim_rb_list **lists; /* [0] is none */
    size_t list_capacity;
    uint32_t list_count;
    uint32_t largest_list;  /* the list that holds the largest free block */
    uint32_t touched[4];    /* lists changed since the last settling */
    uint32_t touched_count; /* 5: more than that */
} asim_region_blocks;

asim_code asim_rb_init(asim_region_blocks *rb, const asim_policy_env *env, asim_err *err);
void asim_rb_fini(asim_region_blocks *rb); /* accepts a zeroed and a half-built one */

/* A new empty list's number, or 0: host memory ran out, *err is set. */
uint32_t asim_rb_list_new(asim_region_blocks *rb, asim_err *err);

/* Enters a region that the device gave to lane, of size bytes, as one free block on no list. Returns the
 * block, or 0: host memory ran out, *err is set, nothing changed. */
uint32_t asim_rb_region_add(asim_region_blocks *rb, const asim_region *region, uint64_t size, unsigned lane,
                            asim_err *err);

/* Forgets a region whose blocks are one free block, which may be on a list. */
void asim_rb_region_drop(asim_region_blocks *rb, uint32_t region);

/* The first block of at least size (1 to 2^61) bytes of a list in (size, address) order, taken off it; 0:
 * there is none. *steps grows by the blocks looked at. */
uint32_t asim_rb_take(asim_region_blocks *rb, uint32_t list, uint64_t size, uint64_t *steps);

/* Takes a free block that is on a list off it. */
void asim_rb_unlist(asim_region_blocks *rb, uint32_t block);

/* Cuts size bytes, fewer than it has, off the front of a block that is on no list. Returns the rest, free and
 * on no list, or 0: host memory ran out, *err is set, nothing changed. */
uint32_t asim_rb_split(asim_region_blocks *rb, uint32_t block, uint64_t size, asim_err *err);

/* Puts a block that is on no list onto one, free, merged with its free neighbours on that list. Returns the
 * merged block; the others are gone. */
uint32_t asim_rb_put(asim_region_blocks *rb, uint32_t list, uint32_t block);

/* Moves all blocks of one list to another, in (size, address) order, merging there. */
void asim_rb_merge_lists(asim_region_blocks *rb, uint32_t into, uint32_t from);

static inline bool asim_rb_is_whole(const asim_region_blocks *rb, uint32_t block)
{
    return (rb->extents[block].prev | rb->extents[block].next) == 0;
}

/* Bytes of the largest free block on any list. */
uint64_t asim_rb_largest(asim_region_blocks *rb);

/* Every link, size and list is as it should be, and no two neighbours on one list are unmerged. */
asim_code asim_rb_check(const asim_region_blocks *rb, asim_err *err);

/* Shows everything, as the walk of a policy does. inside, NULL allowed, is asked to show a live block's
 * content in its place; false: it shows nothing there. */
void asim_rb_walk(const asim_region_blocks *rb, const asim_walker *walker,
                  bool (*inside)(const void *ctx, uint32_t block, const asim_walker *walker),
                  const void *ctx);

#endif
