/* traces/event_model.h - what encoder and decoder remember of the frame so far. Private to the two. */
#ifndef ASIM_TRACES_EVENT_MODEL_H
#define ASIM_TRACES_EVENT_MODEL_H

#include "sim/idmap.h"
#include "traces/event_code.h"

enum {                      /* address codes */
    ASIM_ADDRESS_AGAIN = 0, /* where the block of this size that was freed last lay */
    ASIM_ADDRESS_NEW = 1,
    ASIM_ADDRESS_NONE = 2,
    ASIM_ADDRESS_MET = 3, /* and above: met before in this frame */
};
enum {                   /* stack codes */
    ASIM_STACK_NEXT = 0, /* what followed the stack before, the last time */
    ASIM_STACK_NEW = 1,
    ASIM_STACK_MET = 2, /* and above */
};
enum {
    ASIM_SIZE_NEW = 0,
    ASIM_SIZE_MET = 1 /* and above */
};

struct asim_event_coder {
    const asim_hostmem *mem;
    size_t limit;       /* events of a frame; each array of the model has room for one item more */
    uint32_t *released; /* slots, the last on top */
    uint32_t released_count;
    uint32_t next_slot;                /* the first one never used */
    uint32_t last_freed;               /* with ASIM_FREE_PENDING */
    uint32_t *alloc_slot, *alloc_size; /* of the frame's allocations in order; index into sizes */
    uint64_t *alloc_address;
    uint32_t alloc_count;
    uint64_t *sizes, *freed_at; /* distinct sizes; where a block of that size was freed last */
    uint32_t size_count;
    uint64_t *addresses; /* distinct ones */
    uint32_t address_count;
    uint64_t last_address;         /* the last one that was new */
    uint32_t *stacks, *stack_next; /* distinct ones; which of them came next */
    uint32_t stack_count;
    /* Of an encoder. */
    uint64_t *slot_alloc; /* by slot: the number of its last allocation, and 1 */
    size_t slot_capacity;
    uint32_t slots_used; /* slots of the trace so far */
    uint64_t allocs;     /* of the trace so far */
    asim_idmap op_index, size_index, address_index, stack_index;
    asim_buf columns[ASIM_SECTIONS_MAX];
};

static inline void asim_model_reset(asim_event_coder *coder, uint32_t next_slot)
{
    coder->released_count = 0;
    coder->next_slot = next_slot;
    coder->last_freed = 0;
    coder->alloc_count = 0;
    coder->size_count = 0;
    coder->address_count = 0;
    coder->last_address = 0;
    coder->stack_count = 0;
}

/* The slot that an allocation is expected to take; it counts as taken. */
static inline uint32_t asim_model_next_slot(asim_event_coder *coder)
{
    return coder->released_count ? coder->released[--coder->released_count] : coder->next_slot;
}

static inline void asim_model_alloc(asim_event_coder *coder, uint32_t slot)
{
    if (slot >= coder->next_slot)
        coder->next_slot = slot + 1;
    coder->alloc_slot[coder->alloc_count++] = slot;
}

static inline void asim_model_release(asim_event_coder *coder, uint32_t slot)
{
    coder->released[coder->released_count++] = slot;
}

/* A size met for the first time. */
static inline uint32_t asim_model_new_size(asim_event_coder *coder, uint64_t size)
{
    coder->sizes[coder->size_count] = size;
    coder->freed_at[coder->size_count] = ASIM_NO_ADDRESS;
    return coder->size_count++;
}

/* The frame's allocation number seq was freed: its place is the first guess for its size. */
static inline void asim_model_vacate(asim_event_coder *coder, uint32_t seq)
{
    coder->freed_at[coder->alloc_size[seq]] = coder->alloc_address[seq];
}

static inline uint32_t asim_model_new_stack(asim_event_coder *coder, uint32_t stack)
{
    coder->stacks[coder->stack_count] = stack;
    coder->stack_next[coder->stack_count] = ASIM_NO_INDEX;
    return coder->stack_count++;
}

#endif
