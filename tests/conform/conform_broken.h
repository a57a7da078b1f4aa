/* tests/conform/conform_broken.h - policies with one fault each, to show that the suite can fail.
 *
 * Each is the skeleton with one operation that lies from its n-th call on.
 */
#ifndef ASIM_TESTS_CONFORM_CONFORM_BROKEN_H
#define ASIM_TESTS_CONFORM_CONFORM_BROKEN_H

#include "sim/policy.h"

typedef enum conform_fault {
    CONFORM_SOUND,        /* none: the wrapper itself does no harm */
    CONFORM_OVERLAP,      /* a block is handed out that is live already */
    CONFORM_OUTSIDE,      /* a block lies behind its region */
    CONFORM_WRONG_REGION, /* the placement names another region */
    CONFORM_TOO_SMALL,    /* a block is one byte smaller than the request */
    CONFORM_DOUBLE_FREE,  /* a free that is done is reported again */
    CONFORM_LARGEST,      /* the largest free block is overstated */
    CONFORM_LYING_DONE,   /* free_done says it is done, but the block stays pending */
    CONFORM_KEPT_FREE,    /* free says it is done, but the block stays live */
    CONFORM_RETURNS_LIVE, /* the region goes back to the device with blocks inside */
    CONFORM_SHORT_WALK,   /* walk leaves out a block */
    CONFORM_SILENT,       /* a refusal is not told */
    CONFORM_FORGETS,      /* fini keeps host memory */
    CONFORM_CAPRICIOUS,   /* refuses by something outside of the run */
    CONFORM_FAILS_CHECK,  /* its own check fails */
    CONFORM_FAULTS
} conform_fault;

extern const asim_policy conform_broken; /* parameter fault: one of the words of conform_fault_names */
extern const char *const conform_fault_names[CONFORM_FAULTS + 1];

#endif
