/* policies/paged_pool.h - one device's pool of KV blocks: references, tables, copies.
 *
 * A cache's table is the chain from its last block back to its first. As caches share prefixes only, a block
 * has the same block before it in every table that it is in, so the tables are one forest, and the link to
 * the block before is all that is kept:
 *
 *     A  1 <- 2 <- 5         A shares 1 and 2 with B: these have two references
 *     B  1 <- 2 <- 3 <- 4
 *
 * Blocks are numbered from 1, in address order; 0 is none. Those never used are handed out in that order;
 * those given back lie on a stack and come first.
 */
#ifndef ASIM_POLICIES_PAGED_POOL_H
#define ASIM_POLICIES_PAGED_POOL_H

#include "sim/policy.h"

typedef struct asim_paged_block {
    uint32_t references; /* tables that it is in; 0: free */
    uint32_t before;     /* in those tables; of a free one: the next on the stack */
} asim_paged_block;

typedef struct asim_paged_totals { /* of all pools */
    uint64_t blocks, in_use, peak_in_use;
    uint64_t shared, peak_shared; /* blocks with more than one reference */
    uint64_t copies;              /* on write */
} asim_paged_totals;

typedef struct asim_paged_pool {
    const asim_policy_env *env;
    asim_paged_totals *totals;
    asim_region region;
    uint64_t block_bytes;
    uint32_t count;           /* of blocks; 0: the pool is not there yet */
    uint32_t begun;           /* blocks 1 to begun have been used */
    uint32_t stack;           /* free ones among those */
    uint32_t in_use;          /* blocks with references */
    asim_paged_block *blocks; /* [0] is none */
    size_t capacity;
} asim_paged_pool;

typedef struct asim_paged_table {
    uint32_t last, count; /* of its blocks */
} asim_paged_table;

enum {
    ASIM_PAGED_BLOCKS_MAX = 1 << 30
};

/* Takes count blocks (1 to ASIM_PAGED_BLOCKS_MAX) from the device. */
asim_device_result asim_paged_open(asim_paged_pool *pool, unsigned device, unsigned lane, uint32_t count);
void asim_paged_fini(asim_paged_pool *pool);

static inline uint32_t asim_paged_free(const asim_paged_pool *pool)
{
    return pool->count - pool->in_use;
}

static inline uint64_t asim_paged_address(const asim_paged_pool *pool, uint32_t block)
{
    return pool->region.address + (block ? block - 1 : 0) * pool->block_bytes;
}

/* Room for the records of more blocks, of which so many are free. Afterwards asim_paged_append can't fail. */
asim_code asim_paged_prepare(asim_paged_pool *pool, uint32_t more, asim_err *err);

/* Appends a free block to a table. */
void asim_paged_append(asim_paged_pool *pool, asim_paged_table *table);

/* Makes an empty table begin with the first count blocks of another. Linear in the other's blocks. */
void asim_paged_share(asim_paged_pool *pool, asim_paged_table *table, const asim_paged_table *from,
                      uint32_t count);

/* The block of a table at an index below its count. Linear. */
uint32_t asim_paged_at(const asim_paged_pool *pool, const asim_paged_table *table, uint32_t index);

/* Copies a block's contents; charged by the device. False: the device failed. */
bool asim_paged_copy(asim_paged_pool *pool, unsigned device, uint32_t to, uint32_t from);

/* Takes the last so many blocks out of a table; those that are in no other become free. */
void asim_paged_cut(asim_paged_pool *pool, asim_paged_table *table, uint32_t blocks);

/* The free stack and the counts are as they should be. */
asim_code asim_paged_check_pool(const asim_paged_pool *pool, asim_err *err);

#endif
