/* sim/phases.h - an observer that keeps bytes by phase: what a trace's marks with a begin and an end enclose.
 *
 * Phases may nest and overlap; an end belongs to the innermost open phase of the same label and kind. A mark
 * that is neither begin nor end is a phase of its own event alone. A phase that never ends gets the last
 * event. At most ASIM_PHASES_MAX are kept, the first ones.
 */
#ifndef ASIM_SIM_PHASES_H
#define ASIM_SIM_PHASES_H

#include "sim/observer.h"

enum {
    ASIM_PHASES_MAX = 100000,
    ASIM_PHASES_OPEN_MAX = 64, /* open at once; a begin beyond that is not followed */
};

typedef struct asim_phase {
    uint32_t label; /* string of the trace */
    uint8_t kind;   /* asim_mark_kind */
    bool open;
    uint64_t first_event, last_event;
    uint64_t begin_ns, end_ns; /* virtual host clock */
    /* Bytes: within the phase, its marks included. */
    uint64_t peak_requested, peak_allocated, peak_active, peak_reserved;
    uint64_t end_allocated, end_reserved;
} asim_phase;

typedef struct asim_phases {
    asim_phase *phases; /* in order of their first events */
    size_t count, capacity;
    uint32_t open[ASIM_PHASES_OPEN_MAX]; /* indices of open phases, innermost last */
    uint32_t open_count;
    const asim_hostmem *mem;
} asim_phases;

/* Its config: an asim_phases, zeroed by the caller, who frees it with asim_phases_fini. */
extern const asim_observer asim_phases_observer;
void asim_phases_fini(asim_phases *phases);

#endif
