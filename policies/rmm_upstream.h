/* policies/rmm_upstream.h - what RAPIDS's policies take memory from: the device itself, or a coalescing pool.
 *
 * The pool is rmm::mr::pool_memory_resource; alone, it is the policy rmm-pool. rmm-binning puts its bins on
 * top of either. One free list a stream; each device has a pool of its own.
 *
 *     take    own stream's list, best fit
 *             -> the other streams' lists, one by one: best fit; the rest stays on that list
 *             -> merge the other lists into the own one, one by one, until there is a fit
 *             -> one more region from the device
 *     give    to the list of the stream that the block was allocated on, merging there
 */
#ifndef ASIM_POLICIES_RMM_UPSTREAM_H
#define ASIM_POLICIES_RMM_UPSTREAM_H

#include "policies/region_blocks.h"
#include "policies/stream_uses.h"

enum {
    ASIM_RMM_ALIGN = 256 /* CUDA_ALLOCATION_ALIGNMENT */
};

/* No request above this is looked at: it could not be rounded. */
#define ASIM_RMM_LARGEST (UINT64_C(1) << 60)

typedef struct asim_rmm_upstream_config {
    bool plain;       /* no pool: each block is a call of the device */
    uint64_t initial; /* bytes of a pool at first; ASIM_PARAM_NONE: half of what is free */
    uint64_t maximum; /* bytes of a pool at most; ASIM_PARAM_NONE: no limit */
} asim_rmm_upstream_config;

typedef struct asim_rmm_pool {
    uint64_t size;     /* bytes held */
    uint32_t *streams; /* numbers (stream_uses.h) in the order of first use */
    size_t stream_capacity;
    uint32_t stream_count;
    bool primed; /* the initial region is there */
} asim_rmm_pool;

typedef struct asim_rmm_upstream {
    asim_policy_env env;
    asim_rmm_upstream_config config;
    asim_region_blocks rb;
    asim_stream_uses *uses; /* the policy's own: numbers streams */
    asim_rmm_pool *pools;   /* by device */
    uint32_t *lists;        /* by stream number; 0: not used yet */
    uint64_t stream_waits;  /* cudaStreamWaitEvent, on taking from another stream's list */
    uint64_t merges;        /* of lists that held blocks */
    asim_err fault;         /* why a call returned ASIM_BROKEN */
} asim_rmm_upstream;

/* uses must be set up already and outlive it. ASIM_E_USAGE: sizes that RMM refuses too (not a multiple of 256
 * bytes, initial above maximum). fini follows in any case. */
asim_code asim_rmm_upstream_init(asim_rmm_upstream *up, const asim_policy_env *env,
                                 const asim_rmm_upstream_config *config, asim_stream_uses *uses,
                                 asim_err *err);
void asim_rmm_upstream_fini(asim_rmm_upstream *up); /* accepts a zeroed one */

/* A block of size bytes (a multiple of ASIM_RMM_ALIGN, at most ASIM_RMM_LARGEST; any if plain) for lane. On
 * ASIM_PLACED *ret_block is live and belongs to lane's stream. On ASIM_REFUSED *ret_asked is what the device
 * would have had to give. */
asim_alloc_result asim_rmm_take(asim_rmm_upstream *up, unsigned lane, uint64_t size, uint32_t *ret_block,
                                uint64_t *ret_asked);

/* Takes a live block back. False: broken. */
bool asim_rmm_give(asim_rmm_upstream *up, uint32_t block);

/* The lane of the default stream of lane's device, where what exists from the beginning lies; lane itself
 * where none names that stream. Linear in the lanes. */
unsigned asim_rmm_default_lane(const asim_rmm_upstream *up, unsigned lane);

/* The device's index of the region that holds a block. */
static inline uint32_t asim_rmm_region(const asim_rmm_upstream *up, uint32_t block)
{
    return up->rb.regions[up->rb.blocks[block].region].index;
}

/* Counts of pools and lists, and rb itself. */
asim_code asim_rmm_upstream_check(const asim_rmm_upstream *up, asim_err *err);

#endif
