/* policies/rmm_superblocks.h - RAPIDS's arenas: superblocks, exchanged between the global arena of a device
 * and the arenas of its streams (rmm::mr::detail::arena).
 *
 *     device    [ superblock   ][ superblock            ][ superblock ][ superblock                      ]
 *     owner       stream 1        global                   stream 2      global, empty
 *     blocks    [live][  free ] [live         ][ free  ] [  free     ] [ free                            ]
 *
 * Superblocks cover the one region of a device without gaps, blocks cover a superblock; neither merges with a
 * neighbour of another owner. An arena finds free blocks first fit in address order (rmm_first_fit.h) over
 * all of its superblocks. Records are named by 32-bit index; 0 is none.
 */
#ifndef ASIM_POLICIES_RMM_SUPERBLOCKS_H
#define ASIM_POLICIES_RMM_SUPERBLOCKS_H

#include "policies/rmm_first_fit.h"
#include "sim/policy.h"

#define ASIM_RMM_SUPERBLOCK (UINT64_C(1) << 20) /* superblock::minimum_size */

typedef struct asim_rmm_piece { /* a block, beside the node of the same index, which holds address and size */
    uint64_t requested;         /* of a live or pending block */
    uint32_t superblock;
    uint32_t prev, next; /* neighbours in the superblock */
    uint32_t uses;       /* of a live block: its list in stream_uses.h */
    uint16_t lane;       /* of a live or pending block: who asked */
    uint8_t state;       /* asim_block_state; UINT8_MAX: spare */
} asim_rmm_piece;

typedef struct asim_rmm_superblock {
    uint64_t address, size;
    uint32_t first;      /* block */
    uint32_t prev, next; /* superblocks of the device in address order */
    uint32_t arena;      /* owner */
    uint16_t device;
} asim_rmm_superblock;

typedef struct asim_rmm_arena {
    uint32_t root; /* of the tree of its free blocks */
    bool used;     /* by any request */
} asim_rmm_arena;

typedef struct asim_rmm_heap {
    asim_region region;
    uint32_t first; /* superblock; 0: the region is not there yet */
} asim_rmm_heap;

typedef struct asim_rmm_superblocks {
    asim_policy_env env;
    asim_rmm_heap *heaps;   /* by device */
    asim_rmm_arena *arenas; /* [0] is none; of each device, the global one; of each stream */
    uint32_t arena_count;
    uint32_t *order; /* arenas in the order of their first use */
    uint32_t order_count;
    asim_rmm_node *nodes; /* [0] is none */
    asim_rmm_piece *pieces;
    size_t node_capacity, piece_capacity;
    uint32_t piece_count, spare_piece;
    asim_rmm_superblock *supers; /* [0] is none */
    size_t super_capacity;
    uint32_t super_count, spare_super;
    uint32_t largest_arena; /* holds the largest free block */
    uint64_t largest;
    uint64_t acquired; /* superblocks that went to a stream's arena */
    asim_err fault;    /* why a call returned false or ASIM_BROKEN */
} asim_rmm_superblocks;

asim_code asim_rmm_super_init(asim_rmm_superblocks *s, const asim_policy_env *env, asim_err *err);
void asim_rmm_super_fini(asim_rmm_superblocks *s); /* accepts a zeroed and a half-built one */

/* The device's region, of size bytes (a superblock's at least), is the first superblock of its global arena.
 */
bool asim_rmm_super_begin(asim_rmm_superblocks *s, unsigned device, const asim_region *region, uint64_t size);

static inline uint32_t asim_rmm_global(unsigned device)
{
    return 1 + device;
}

static inline uint32_t asim_rmm_arena_of(const asim_rmm_superblocks *s, uint32_t stream)
{
    return 1 + s->env.device_count + stream;
}

/* Does the global arena serve this size itself? */
static inline bool asim_rmm_is_large(uint64_t size)
{
    return size > ASIM_RMM_SUPERBLOCK;
}

/* A block of exactly size bytes (a multiple of 256, up to 2^60) for an arena of the device: a large one from
 * the global arena, others from the arena, which acquires a superblock where it has no room. 0 in *ret_block:
 * there is no room. False: host memory ran out. */
bool asim_rmm_super_take(asim_rmm_superblocks *s, unsigned device, uint32_t arena, uint64_t size,
                         uint32_t *ret_block);

/* Frees a block: it merges with its neighbours, and a superblock of the global arena that is empty now with
 * its empty neighbours. */
void asim_rmm_super_give(asim_rmm_superblocks *s, uint32_t block);

/* All superblocks of the device go to its global arena. */
void asim_rmm_super_clean(asim_rmm_superblocks *s, unsigned device);

/* Bytes of the largest free block. Linear in the arenas used, where the one that held it has lost it. */
uint64_t asim_rmm_super_largest(asim_rmm_superblocks *s);

asim_code asim_rmm_super_check(const asim_rmm_superblocks *s, asim_err *err);
void asim_rmm_super_walk(const asim_rmm_superblocks *s, const asim_walker *walker);

#endif
