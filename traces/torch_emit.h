/* traces/torch_emit.h - the rebuilt state and the history of a snapshot, written to a sink.
 *
 * Devices are merged by time, device order on ties; annotations come before the events of their time. How
 * driver calls are told apart (R166): see the banner of torch_emit.c.
 */
#ifndef ASIM_TRACES_TORCH_EMIT_H
#define ASIM_TRACES_TORCH_EMIT_H

#include "sim/source.h"
#include "traces/torch_rebuild.h"

typedef struct asim_torch_tally { /* what the notes tell about the events */
    uint64_t allocs, frees, pendings, dones, ooms, trims, marks;
    uint64_t unknown_frees;    /* left out */
    uint64_t reused_addresses; /* allocations where a block was still in use: that one ended first */
    uint64_t times_back;       /* clocks that ran backwards, held still */
    uint64_t never_completed;  /* frees requested, not completed at the end */
    uint64_t calls_left;       /* driver calls after the last request */
    uint64_t fitting_releases; /* releases before a new segment that could have served the request */
    uint64_t roomy_releases;   /* ... although the device had had room for it */
    uint64_t retry_releases;   /* ... left to the request */
    uint64_t marks_left;       /* annotations of a history without times */
    uint64_t marks_end_first;  /* annotations that end without having begun */
    uint64_t opening_live, opening_pending;
    uint64_t stacks; /* events and blocks that name a call stack */
} asim_torch_tally;

/* devices: those in use, ascending numbers; device i is sink device i. base_us: the wall clock that becomes
 * time 0. */
asim_code asim_torch_emit(const asim_torch_records *r, asim_torch_device *devices, size_t device_count,
                          uint64_t base_us, const asim_sink *sink, asim_torch_tally *ret_tally,
                          asim_err *err);

#endif
