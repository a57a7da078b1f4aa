/* sim/device_model.h - the simulated device: address space, capacity, granules, clocks and costs.
 *
 * Memory is accounted in granules of the profile (2 MiB): an allocation, or the creation of a page, succeeds
 * while used + size, rounded up, is at most the capacity; there is no physical fragmentation. Addresses of
 * fresh regions ascend, are aligned to the granule, never touch and are never used twice (specification 9.1).
 *
 * With a script (the recorded driver calls of a trace) the model answers as the recorded driver did: a call
 * that the recording shows next gets the recorded address; an allocation in whose place the recording shows a
 * release or a failure is refused. From the first call that the recording does not show, the script is
 * dropped and capacity alone decides.
 */
#ifndef ASIM_SIM_DEVICE_MODEL_H
#define ASIM_SIM_DEVICE_MODEL_H

#include "sim/device.h"
#include "sim/engine.h"

typedef struct asim_device_counts { /* of one device */
    uint64_t allocs, failed_allocs, frees;
    uint64_t pages, failed_pages, released_pages; /* pages that an incomplete map gave back count as both */
    uint64_t reserves;
    uint64_t event_records, event_queries;
} asim_device_counts;

#endif
