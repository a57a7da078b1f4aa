/* sim/referee.h - an observer that checks every placement from the outside; it shares no code with a policy.
 *
 * Rules: a block is at least as large as its request, lies in memory held from the device and in the region
 * that its placement names, and overlaps no other block that is live or pending; what is freed or completed
 * was live or pending and has the size it was placed with; no memory goes back to the device with a live or
 * pending block in it. A broken rule ends the run (ASIM_E_BUG).
 */
#ifndef ASIM_SIM_REFEREE_H
#define ASIM_SIM_REFEREE_H

#include "sim/intervals.h"
#include "sim/observer.h"

typedef struct asim_referee {
    asim_intervals held;    /* memory held from the device; value: region */
    asim_intervals blocks;  /* value: 0 live, 1 pending */
    asim_intervals leaving; /* blocks whose memory went back during this event: gone when it ends */
} asim_referee;

extern const asim_observer asim_referee_observer; /* its config: an asim_referee, initialised */

void asim_referee_init(asim_referee *referee, const asim_hostmem *mem);
void asim_referee_fini(asim_referee *referee);

/* Full check: the policy's own, and its walk against what the referee saw: segments in order and all of what
 * is held, tiled by their blocks, live and pending blocks the same, the largest free block as reported. */
asim_code asim_referee_full(const asim_referee *referee, const asim_policy *policy,
                            const asim_policy_state *state, const asim_policy_counters *counters,
                            uint64_t reserved_bytes, asim_err *err);

#endif
