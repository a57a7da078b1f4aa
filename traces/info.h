/* traces/info.h - what 'allocsim trace info' tells about a trace, computed in one pass over it.
 */
#ifndef ASIM_TRACES_INFO_H
#define ASIM_TRACES_INFO_H

#include "sim/err.h"
#include "sim/event.h"
#include "sim/hostmem.h"

typedef struct asim_trace_info {
    uint64_t kind_counts[ASIM_EV_KINDS];     /* events of each kind */
    uint64_t growing_allocs;                 /* ALLOC with ASIM_ALLOC_GROWS */
    uint64_t unmovable_allocs;               /* ALLOC with ASIM_ALLOC_UNMOVABLE */
    uint64_t call_counts[ASIM_CALL_OOM + 1]; /* recorded driver calls of each asim_call_kind */

    /* Requested bytes. A block of the opening state counts with what was requested of it, or with its size
     * where that is unknown; from FREE on a block no longer counts, even if its completion is still to come.
     */
    uint64_t opening_live_bytes;
    uint64_t peak_live_bytes, peak_live_event; /* the first event after which the peak is reached */
    uint64_t end_live_bytes;
    uint64_t allocated_bytes; /* of all ALLOC events */
    uint64_t largest_bytes;   /* of one ALLOC or RESIZE */
    uint64_t end_live_blocks, peak_live_blocks;
    uint64_t opening_pending_blocks, opening_live_blocks, opening_free_blocks;
    uint64_t opening_segment_bytes, opening_free_bytes;
    uint64_t frees_of_opening; /* FREE events of blocks that existed before the first event */

    bool has_times, has_addresses, has_stacks;
    uint64_t duration_ns;  /* from the first event to the last; 0 without times */
    uint64_t with_address; /* ALLOC events that carry one */
    uint64_t with_stack;   /* events that carry one */
    uint64_t stack_depth_max;
    uint64_t distinct_sizes; /* of ALLOC events */
    uint32_t devices_used;   /* devices that some event's lane, or an opening segment, names */
    uint32_t streams_used;   /* distinct (device, stream) of the same */
    uint32_t pools_used;     /* distinct (device, pool) of the same, pool 0 apart */
} asim_trace_info;

/* The trace is a checked one (every loader and builder gives such). Memory: 16 bytes a slot and the distinct
 * sizes. Errors: ASIM_E_SYSTEM. */
asim_code asim_trace_describe(const asim_trace *trace, const asim_hostmem *mem, asim_trace_info *ret_info,
                              asim_err *err);

#endif
