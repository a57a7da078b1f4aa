/* policies/rmm_bins.h - bins of blocks of one size each (rmm::mr::fixed_size_memory_resource).
 *
 *     bin of 1 MiB    slab 0 [slot][slot][slot] .. 128 of them     taken from the upstream in one piece
 *                     slab 1 [slot][slot][slot] ..                 when no slot is free on any stream
 *     free slots      stream 0: 5 -> 9 -> 2      stream 3: 17      first in, first out
 *
 * Bins have all powers of two in a range, in 256 bytes at least; each device has its own. A slab never goes
 * back. All calls are O(1), but for a request whose stream has no free slot: it looks at the other streams'
 * queues of the bin, in the order of their first use there.
 */
#ifndef ASIM_POLICIES_RMM_BINS_H
#define ASIM_POLICIES_RMM_BINS_H

#include "policies/rmm_upstream.h"

enum {
    ASIM_RMM_BINS_MAX = 31
};

typedef struct asim_rmm_slot {
    uint64_t requested; /* of a live or pending slot */
    uint32_t slab;
    uint32_t next; /* of a free slot: the one behind it in its queue */
    uint32_t uses; /* of a live slot: its list in stream_uses.h */
    uint16_t lane; /* of a live or pending slot: who asked */
    uint8_t state; /* asim_block_state */
} asim_rmm_slot;

typedef struct asim_rmm_slab {
    uint64_t address;
    uint32_t block; /* of the upstream */
    uint32_t first; /* slot; the others follow */
    uint32_t bin;   /* index into bins */
} asim_rmm_slab;

typedef struct asim_rmm_queue {
    uint32_t head, tail; /* slots */
    bool known;          /* in the bin's order */
} asim_rmm_queue;

typedef struct asim_rmm_bin {
    asim_rmm_queue *queues; /* by stream number (stream_uses.h); NULL: not opened yet */
    uint32_t *order;        /* streams in the order of their first use */
    size_t order_capacity;
    uint32_t order_count, free_slots;
} asim_rmm_bin;

typedef struct asim_rmm_bins {
    asim_policy_env env;
    asim_rmm_upstream *up;
    unsigned count;       /* bins a device */
    unsigned exponent;    /* the smallest holds 2^exponent bytes */
    uint32_t blocks;      /* slots a slab */
    asim_rmm_bin *bins;   /* count for each device */
    bool *open;           /* by device */
    asim_rmm_slot *slots; /* [0] is none */
    size_t slot_capacity;
    uint32_t slot_count;
    asim_rmm_slab *slabs; /* [0] is none */
    size_t slab_capacity;
    uint32_t slab_count;
    uint64_t free_slots[ASIM_RMM_BINS_MAX]; /* by size, over all devices */
    uint32_t sizes_free;                    /* a bit for each size of which a slot is free */
    uint64_t stream_waits;                  /* cudaStreamWaitEvent, on taking what another stream freed */
    asim_err fault;
} asim_rmm_bins;

/* Bins of 2^least to 2^most bytes (at most 30), none where most < least, of slabs of blocks slots. up must be
 * set up and outlive it. fini follows in any case. */
asim_code asim_rmm_bins_init(asim_rmm_bins *bins, const asim_policy_env *env, unsigned least, unsigned most,
                             uint32_t blocks, asim_rmm_upstream *up, asim_err *err);
void asim_rmm_bins_fini(asim_rmm_bins *bins); /* accepts a zeroed and a half-built one */

/* The number of the smallest bin for size bytes; bins->count: it is too large for all. */
unsigned asim_rmm_bin_for(const asim_rmm_bins *bins, uint64_t size);

static inline uint64_t asim_rmm_bin_size(const asim_rmm_bins *bins, unsigned number)
{
    return UINT64_C(1) << (bins->exponent + number);
}

/* Before the first request on lane's device: a slab for each bin. ASIM_REFUSED: one could not be had, and all
 * are returned to the upstream; *ret_asked is what the device would have had to give. */
asim_alloc_result asim_rmm_bins_open(asim_rmm_bins *bins, unsigned lane, uint64_t *ret_asked);

/* A slot of the bin on lane's device, live. ASIM_REFUSED, *ret_asked: as above. */
asim_alloc_result asim_rmm_slot_take(asim_rmm_bins *bins, unsigned number, unsigned lane, uint32_t *ret_slot,
                                     uint64_t *ret_asked);

/* To the end of the queue of the stream that it was allocated on. */
void asim_rmm_slot_give(asim_rmm_bins *bins, uint32_t slot);

uint64_t asim_rmm_slot_address(const asim_rmm_bins *bins, uint32_t slot);
uint64_t asim_rmm_slot_size(const asim_rmm_bins *bins, uint32_t slot);

/* Bytes of the largest free slot. */
static inline uint64_t asim_rmm_bins_largest(const asim_rmm_bins *bins)
{
    return bins->sizes_free ? asim_rmm_bin_size(bins, 31U - (unsigned)__builtin_clz(bins->sizes_free)) : 0;
}

/* An upstream's block that is a slab has its number in uses, and has requested 0. */
static inline uint32_t asim_rmm_slab_in(const asim_rmm_bins *bins, uint32_t block)
{
    const asim_rb_block *b = &bins->up->rb.blocks[block];
    return b->requested ? 0 : b->uses;
}

/* The word that names a slot to the engine; those of the upstream's blocks are even. */
static inline uint32_t asim_rmm_slot_word(uint32_t slot)
{
    return slot << 1 | 1;
}

/* For asim_rb_walk over the upstream, ctx an asim_rmm_bins: shows the slots of a slab. */
bool asim_rmm_bins_show(const void *ctx, uint32_t block, const asim_walker *walker);

/* Queues, counts and states agree. */
asim_code asim_rmm_bins_check(const asim_rmm_bins *bins, asim_err *err);

#endif
