/* sim/observer.h - what watches a run: referee, timeline and whoever wants to know what happened.
 *
 * An observer is a const table with its own state, like a policy. It sees placements, completed frees and
 * driver calls in the order in which they happen, and may not change anything. The books (bytes, counts,
 * peaks) and the placement digest are kept by the engine itself; observers read them.
 */
#ifndef ASIM_SIM_OBSERVER_H
#define ASIM_SIM_OBSERVER_H

#include "sim/policy.h"

/* Bytes and counts over all devices, kept by the engine from placements and driver calls alone. */
typedef struct asim_books {
    uint64_t event;     /* index of the current event */
    uint64_t host_ns;   /* virtual host clock */
    uint64_t requested; /* bytes asked for by live allocations */
    uint64_t allocated; /* block bytes of live allocations */
    uint64_t active;    /* ... and of those freed but pending */
    uint64_t reserved;  /* held from the device */
    uint64_t live_blocks, pending_blocks;
    uint64_t stall_ns;
} asim_books;

typedef struct asim_driver_call {
    asim_call_kind kind; /* SEGMENT_ALLOC, SEGMENT_FREE, MAP, UNMAP, OOM */
    uint32_t region;     /* UINT32_MAX for OOM */
    uint64_t address;    /* OOM: the device's free bytes */
    uint64_t size;       /* OOM: the request, rounded by the policy */
    uint64_t offset;     /* MAP, UNMAP: of address inside its region, whose reservation is no recorded call */
    uint16_t device;
    uint16_t lane;
} asim_driver_call;

typedef struct asim_observer_state asim_observer_state;

typedef struct asim_observer {
    const char *name;
    size_t state_size;
    /* config: what the caller gave with this observer. NULL operations are skipped. */
    asim_code (*init)(asim_observer_state *state, const void *config, const asim_hostmem *mem, asim_err *err);
    /* The four below return ASIM_OK, or end the run with *err (ASIM_E_BUG for a broken rule). */
    asim_code (*placed)(asim_observer_state *state, const asim_event *event, const asim_placement *placement,
                        asim_err *err);
    asim_code (*freed)(asim_observer_state *state, uint64_t address, uint64_t size, bool pending,
                       asim_err *err); /* pending: not reusable yet */
    asim_code (*completed)(asim_observer_state *state, uint64_t address, uint64_t size, asim_err *err);
    asim_code (*call)(asim_observer_state *state, const asim_driver_call *call, asim_err *err);
    /* After each event, with the books and the policy's counters as they are now. */
    asim_code (*after)(asim_observer_state *state, const asim_event *event, const asim_books *books,
                       const asim_policy_counters *counters, asim_err *err);
    void (*fini)(asim_observer_state *state);
} asim_observer;

#endif
