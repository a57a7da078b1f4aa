/* policies/stitch_blocks.h - primitive and stitched blocks: physical memory in chunks, and second addresses
 * for it.
 *
 *     primitive blocks    range A [##### live #####][--- free ---]      range B [-- free --][## live ##]
 *                                                   |            |              |          |
 *     stitched block      range S                   [------------------------------------]
 *
 * A range that holds memory is a region of region_blocks.h, its primitive blocks are that one's blocks; they
 * split and merge as their chunks are taken and given. A stitched block is a range of addresses that shows
 * chunks of primitive ranges, whatever blocks those chunks belong to at the time: it is free while all of its
 * chunks are. So each chunk knows the stitched blocks that show it, and each stitched block how many of its
 * chunks are in use.
 *
 * Cost of taking or giving memory: O(1) beside the free index where no stitched block shows any of the
 * range's chunks; else linear in the chunks and in the stitched blocks that show them.
 */
#ifndef ASIM_POLICIES_STITCH_BLOCKS_H
#define ASIM_POLICIES_STITCH_BLOCKS_H

#include "policies/region_blocks.h"

#define ASIM_STITCH_CHUNK (UINT64_C(2) << 20)

typedef struct asim_stitch_view { /* a stitched block shows this chunk */
    uint32_t stitched;
    uint32_t next; /* of the same chunk; 0: none */
} asim_stitch_view;

typedef struct asim_stitch_part { /* of a stitched block: chunks of one range, in order of its addresses */
    uint32_t region;              /* of region_blocks */
    uint32_t first, count;        /* chunks */
    uint32_t next;                /* 0: none */
} asim_stitch_part;

typedef struct asim_stitched {
    uint64_t address; /* of its range */
    uint32_t range;   /* the device's index */
    uint32_t chunks;  /* in all */
    uint32_t busy;    /* chunks in use, by itself or by others */
    uint32_t active;  /* chunks that it is in use with, from its front; 0: not in use */
    uint32_t parts;   /* first part */
    uint32_t blocks;  /* while in use: its primitive blocks, linked by asim_stitch_link */
    uint32_t list;    /* its stream's */
    uint32_t uses;    /* while in use: its list in stream_uses.h */
    uint64_t requested;
    uint32_t older, newer; /* by last use, all of them */
    uint16_t lane, device;
    uint8_t state; /* asim_block_state, of the use; ASIM_RB_SPARE */
} asim_stitched;

typedef struct asim_stitch_range { /* beside the region of the same index */
    uint32_t *views;               /* by chunk: the first view; NULL: nothing ever showed it, or no chunks */
    uint32_t chunks;               /* 0: a segment of the caching path */
    uint32_t viewed;               /* views in all */
} asim_stitch_range;

typedef struct asim_stitch_list { /* beside the list of region_blocks of the same index */
    asim_free_index free;         /* stitched blocks that are free */
    uint64_t bytes;               /* free, in primitive blocks */
} asim_stitch_list;

typedef struct asim_stitcher {
    asim_policy_env env;
    asim_region_blocks rb;
    uint32_t *links; /* beside each primitive block: the next of its stitched block */
    size_t link_capacity;
    asim_stitch_range *ranges;
    size_t range_capacity;
    asim_stitch_view *views; /* [0] is none, as below */
    asim_stitch_part *parts;
    asim_stitched *stitched;
    asim_extent *extents;     /* of stitched blocks: address and size, for the free index */
    asim_stitch_list **lists; /* [0] is none */
    size_t view_capacity, part_capacity, stitched_capacity, extent_capacity, list_capacity;
    uint32_t view_count, part_count, stitched_count, spare_view, spare_part, spare_stitched;
    uint32_t oldest, newest;
    uint64_t stitched_bytes; /* addresses of all stitched blocks */
    asim_err fault;          /* why a call returned false or 0 */
} asim_stitcher;

asim_code asim_stitch_init(asim_stitcher *st, const asim_policy_env *env, asim_err *err);
void asim_stitch_fini(asim_stitcher *st); /* accepts a zeroed one */

/* A new list of free blocks; 0: fault. */
uint32_t asim_stitch_list_new(asim_stitcher *st);

/* The smallest free primitive block of list with size bytes, taken off it; 0: none. exact: of that size
 * alone. */
uint32_t asim_stitch_pick(asim_stitcher *st, uint32_t list, uint64_t size, bool exact);

/* Memory of chunks for lane, as one free block on no list. 0: the device refuses, or fault. */
uint32_t asim_stitch_obtain(asim_stitcher *st, unsigned lane, uint64_t size);

/* The same for a segment of the caching path: plain memory, which is never stitched. */
uint32_t asim_stitch_segment(asim_stitcher *st, unsigned lane, uint64_t size);

/* Gives back every region of the device that is one free block on a list; stitched blocks that show it go
 * first. *ret bytes. False: fault. */
bool asim_stitch_release(asim_stitcher *st, unsigned device, uint64_t *ret_bytes);

/* Makes a free block on no list live, cut to size; the rest goes to list. False: fault. */
bool asim_stitch_take(asim_stitcher *st, uint32_t block, uint32_t list, uint64_t size);

/* A live block goes back to list. */
void asim_stitch_give(asim_stitcher *st, uint32_t block, uint32_t list);

/* The smallest free stitched block of list with at least size bytes and at most most; 0: none. */
uint32_t asim_stitch_find(asim_stitcher *st, uint32_t list, uint64_t size, uint64_t most);

/* Stitches free blocks of list, largest first, and takes them for size bytes. extra: a free block on no list
 * that comes first, or 0. There must be enough. Returns the stitched block, in use; 0: the device refuses,
 * and everything is on list again; or fault. */
uint32_t asim_stitch_stitch(asim_stitcher *st, unsigned lane, uint32_t list, uint64_t size, uint32_t extra);

/* Takes a free stitched block, from its front, for size bytes. False: fault. */
bool asim_stitch_enter(asim_stitcher *st, uint32_t stitched, unsigned lane, uint64_t size);

/* A stitched block is out of use: its primitive blocks go back to its list, and the listener hears of its
 * pieces. */
void asim_stitch_leave(asim_stitcher *st, uint32_t stitched);

/* Ends stitched blocks that are not in use, the least recently used first, until most bytes of addresses are
 * left or none. Returns how many, or UINT32_MAX: fault. */
uint32_t asim_stitch_shrink(asim_stitcher *st, uint64_t most);

/* Counts, views, orders, and the primitive blocks themselves. */
asim_code asim_stitch_check(const asim_stitcher *st, asim_err *err);

#endif
