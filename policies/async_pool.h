/* policies/async_pool.h - the memory of a stream-ordered pool: what was freed on which stream, and who may
 * have it.
 *
 * Free memory is on the list of the stream that it was freed on, or, once every stream may have it, on its
 * device's open list. Each free on a stream has a number; a block on a stream's list is as young as the
 * youngest free that went into it, and the stream's blocks are linked in that order:
 *
 *     list of stream A   [5]-[9]-[12]          A has freed 12 times
 *                         |    event of free 9 done: all up to 9 go to the open list
 *     stream B waited for A when A had freed 5 times: B may take [5], not [9]
 *
 * Cost: O(1) for a free and for a request that its own stream's or the open list serves, besides the free
 * index.
 */
#ifndef ASIM_POLICIES_ASYNC_POOL_H
#define ASIM_POLICIES_ASYNC_POOL_H

#include "policies/region_blocks.h"
#include "policies/stream_uses.h"

enum {
    ASIM_ASYNC_EVENTS = 256, /* of a stream at once; frees beyond them are covered by a later one */
    ASIM_ASYNC_LOOKS = 64,   /* blocks of one list looked at for one that a dependency covers */
};

typedef struct asim_async_event {
    uint64_t event;
    uint64_t frees; /* all frees of the stream up to this number are done when the event is */
} asim_async_event;

typedef struct asim_async_order { /* beside the block of the same index */
    uint64_t age;                 /* the number of its youngest free */
    uint32_t prev, next;          /* 0: none */
} asim_async_order;

typedef struct asim_async_stream {
    uint32_t list;        /* 0: nothing was freed on it yet */
    uint32_t first, last; /* its free blocks, oldest first */
    uint64_t frees;
    uint64_t done;            /* frees known to be complete */
    uint64_t *seen;           /* by stream: frees that this stream is ordered after; NULL: none */
    asim_async_event *events; /* a ring of ASIM_ASYNC_EVENTS; NULL until the first */
    uint32_t event_first, event_count;
} asim_async_stream;

typedef struct asim_async_device {
    uint64_t size;   /* bytes held */
    uint32_t open;   /* the list of what any stream may have */
    uint32_t idle;   /* regions that are one block on it */
    uint32_t stream; /* the first that names the device */
    bool named;
    bool shared; /* more than one does */
} asim_async_device;

typedef struct asim_async_pool {
    asim_policy_env env;
    asim_stream_uses *uses; /* the policy's own: numbers streams */
    asim_region_blocks rb;
    asim_async_order *order;
    size_t order_capacity;
    asim_async_stream *streams; /* by number */
    asim_async_device *devices;
    uint64_t rows;  /* of seen, that exist */
    asim_err fault; /* why a call returned false or 0 */
} asim_async_pool;

/* uses must be set up already and outlive it. fini follows in any case. */
asim_code asim_async_init(asim_async_pool *pool, const asim_policy_env *env, asim_stream_uses *uses,
                          asim_err *err);
void asim_async_fini(asim_async_pool *pool); /* accepts a zeroed one */

/* Each of these finds size bytes for stream, by one way, as a live block; 0: there are none, or pool->fault.
 */
uint32_t asim_async_own(asim_async_pool *pool, uint32_t stream, uint64_t size);  /* freed on it */
uint32_t asim_async_open(asim_async_pool *pool, uint32_t stream, uint64_t size); /* open to all */
uint32_t asim_async_seen(asim_async_pool *pool, uint32_t stream, uint64_t size); /* ordered after its free */
uint32_t asim_async_any(asim_async_pool *pool, uint32_t stream, uint64_t size);  /* freed anywhere */

/* A region of region_size bytes, size of which become the live block. *ret_block 0: the device refuses, or
 * pool->fault. */
void asim_async_grow(asim_async_pool *pool, unsigned lane, uint64_t region_size, uint64_t size,
                     uint32_t *ret_block);

/* A block is freed on the stream of its lane. False: pool->fault. */
bool asim_async_give(asim_async_pool *pool, uint32_t block);

/* stream waits, on the device, for all that other was given so far, and for all that other waited for. */
void asim_async_follow(asim_async_pool *pool, uint32_t stream, uint32_t other);

/* The host knows that stream is done: its memory, and that of what it waited for, is open to all. */
void asim_async_done(asim_async_pool *pool, uint32_t stream);

/* Opens what the events of every stream of the device show to be complete. */
void asim_async_poll(asim_async_pool *pool, unsigned device);

/* Opens everything freed on the device, whoever may still be using it. */
void asim_async_open_all(asim_async_pool *pool, unsigned device);

/* Gives back regions that are open as a whole, highest address first, while at least keep bytes stay held.
 * Returns the bytes; on a failure of the device pool->fault is set. */
uint64_t asim_async_release(asim_async_pool *pool, unsigned device, uint64_t keep);

/* Lists, orders, counts, and the blocks themselves. */
asim_code asim_async_check(const asim_async_pool *pool, asim_err *err);

#endif
