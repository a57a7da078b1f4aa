/* policies/jemalloc_slabs.h - jemalloc's records: extents of an arena, and slabs cut into slots of one class.
 *
 *     arena -> roomy[class] -> slab (lowest address first) -> slots, the lowest free one first
 *           -> list of free extents (region_blocks.h), else a new region of the device
 *
 * A slab without a live slot gives its extent back at once. Slots are named by 32-bit index; the records of a
 * slab that went are kept for the next of its class. On failure state->fault is set and the result is
 * ASIM_BROKEN or false.
 */
#ifndef ASIM_POLICIES_JEMALLOC_SLABS_H
#define ASIM_POLICIES_JEMALLOC_SLABS_H

#include "policies/region_blocks.h"
#include "policies/stream_uses.h"

#define ASIM_JEM_FIRST_GROWTH    (UINT64_C(2) << 20)
#define ASIM_JEM_LARGEST_REQUEST (UINT64_C(1) << 60)

enum {
    ASIM_JEM_CLASSES = 64 /* more than the small classes of any quantum and page */
};

typedef struct asim_jem_params {
    uint64_t quantum, page, decay_ms;
    bool grow;
} asim_jem_params;

typedef struct asim_jem_slot {
    uint64_t requested;
    uint32_t slab, uses;
    uint16_t lane;
    uint8_t state; /* asim_block_state */
} asim_jem_slot;

typedef struct asim_jem_slab {
    uint32_t block; /* 0: spare */
    uint32_t first; /* slot */
    uint32_t free_count, hint;
    uint32_t prev, next; /* slabs of the class with room, by address; of a spare one: the next spare */
    uint32_t arena;
    uint8_t number; /* of its class */
} asim_jem_slab;

typedef struct asim_jem_arena {
    uint32_t list;
    uint64_t growth;
    uint32_t roomy[ASIM_JEM_CLASSES];
} asim_jem_arena;

struct asim_policy_state {
    asim_policy_env env;
    asim_jem_params params;
    asim_region_blocks rb;
    asim_stream_uses uses;
    asim_jem_arena *arenas; /* by stream */
    asim_jem_slot *slots;
    asim_jem_slab *slabs; /* [0] is none */
    uint32_t *slab_of;    /* by block: its slab */
    uint64_t *since;      /* by region: when it became wholly free */
    size_t slot_capacity, slab_capacity, slab_of_capacity, since_capacity;
    uint32_t slot_count, slab_count;
    uint32_t spare[ASIM_JEM_CLASSES];
    uint64_t sizes[ASIM_JEM_CLASSES], free_slots[ASIM_JEM_CLASSES], with_free;
    unsigned classes;
    uint64_t due; /* no region decays before */
    uint64_t purged;
    asim_err fault;
};

/* The host's clock, in nanoseconds. */
uint64_t asim_jem_now(const asim_policy_state *state);

/* A live block of exactly size bytes, on no list. When it needs the device, *ret_asked is what was asked. */
asim_alloc_result asim_jem_take_extent(asim_policy_state *state, unsigned lane, uint64_t size,
                                       uint32_t *ret_block, uint64_t *ret_asked);

/* The block returns to the arena of that number (a stream's); a region now wholly free starts to decay. */
bool asim_jem_give_extent(asim_policy_state *state, uint32_t arena_number, uint32_t block);

/* The lowest free slot of the lane's slab of lowest address; a new slab if none has room. number: of a small
 * class. */
asim_alloc_result asim_jem_take_slot(asim_policy_state *state, unsigned lane, unsigned number,
                                     uint32_t *ret_slot, uint64_t *ret_asked);
bool asim_jem_give_slot(asim_policy_state *state, uint32_t index);
uint64_t asim_jem_slot_address(const asim_policy_state *state, uint32_t index);

#endif
