/* sim/clocks.h - virtual time of a run, in integer nanoseconds: one host clock, one clock a stream.
 *
 * A stream's clock is the moment at which the work issued to it so far will be done. stall_ns counts what the
 * host spent in driver calls, waits and moves; it is part of host_ns.
 */
#ifndef ASIM_SIM_CLOCKS_H
#define ASIM_SIM_CLOCKS_H

#include <stdint.h>

typedef struct asim_clocks {
    uint64_t host_ns;
    uint64_t stall_ns;
    uint64_t *stream_ns; /* by stream index of the device model */
} asim_clocks;

/* The host spends ns in a driver call. */
static inline void asim_clocks_stall(asim_clocks *clocks, uint64_t ns)
{
    clocks->host_ns += ns;
    clocks->stall_ns += ns;
}

/* The host waits until the moment until_ns. */
static inline void asim_clocks_wait(asim_clocks *clocks, uint64_t until_ns)
{
    if (until_ns > clocks->host_ns)
        asim_clocks_stall(clocks, until_ns - clocks->host_ns);
}

#endif
