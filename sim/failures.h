/* sim/failures.h - the requests of a run that were refused, each with what the modelled allocator says of it.
 *
 * The first ASIM_FAILURES_MAX are kept, in order; the metric ooms counts them all. A run without a failure
 * takes no memory here.
 */
#ifndef ASIM_SIM_FAILURES_H
#define ASIM_SIM_FAILURES_H

#include "sim/hostmem.h"

#include <stdint.h>

enum {
    ASIM_FAILURES_MAX = 1000,
    ASIM_FAILURE_TEXT = 768 /* bytes of a message that are kept, with the closing zero */
};

typedef struct asim_oom { /* a refused request, and the state that it was refused in */
    uint64_t event;
    uint64_t requested_bytes;
    uint64_t segment_bytes; /* that the device was asked for; 0: it was not asked */
    uint64_t allocated_bytes, reserved_bytes;
    uint64_t device_free_bytes, largest_free_bytes;
    uint32_t device;
} asim_oom;

typedef struct asim_failure {
    asim_oom oom;
    char *message; /* NULL: nothing is said */
} asim_failure;

typedef struct asim_failures { /* all zero: none */
    asim_failure *items;
    size_t count, capacity;
} asim_failures;

/* Appends one, with a copy of message (NULL or "": nothing is said); does nothing once ASIM_FAILURES_MAX are
 * kept. ASIM_E_SYSTEM: out of host memory; nothing was appended. */
asim_code asim_failures_add(asim_failures *failures, const asim_oom *oom, const char *message,
                            const asim_hostmem *mem, asim_err *err);

void asim_failures_fini(asim_failures *failures, const asim_hostmem *mem); /* all zero again */

#endif
