/* sim/device_model.h - the simulated device: address space, capacity, granules, clocks and costs.
 *
 * Memory is accounted in granules of the profile (2 MiB): an allocation, or the creation of a page, succeeds
 * while used + size, rounded up, is at most the capacity; there is no physical fragmentation. Addresses of
 * fresh regions ascend, are aligned to the granule, never touch and are never used twice (specification 9.1).
 * Regions are numbered from 0 in one sequence over all devices, allocations and reservations alike.
 *
 * An event is done when its stream's clock has passed it (completion by clock), or when its stream was
 * synchronised, by the trace or by the allocator, or a later event of the stream was waited for (completion
 * by sync). Releasing memory completes nothing, although it makes the host wait for the device's streams.
 *
 * With a script the model answers as the recorded driver did: see sim/script.h. A call that the recording
 * shows next gets the recorded address; an allocation in whose place the recording shows a release or a
 * failure is refused. Otherwise capacity alone decides.
 */
#ifndef ASIM_SIM_DEVICE_MODEL_H
#define ASIM_SIM_DEVICE_MODEL_H

#include "sim/clocks.h"
#include "sim/device.h"
#include "sim/event.h"
#include "sim/hostmem.h"
#include "sim/profile.h"
#include "sim/script.h"

typedef struct asim_device_counts { /* of one device */
    uint64_t allocs, failed_allocs, frees;
    uint64_t pages, failed_pages, released_pages; /* pages that an incomplete map gave back count as both */
    uint64_t reserves;
    uint64_t event_records, event_queries;
} asim_device_counts;

/* For which capacities the run so far would have gone exactly the same: from the most that was in use to the
 * least that was refused. It shows in more ways once somebody asked for it (memory), or, with completions by
 * clock, once a map was refused halfway: what follows is then known for this capacity only. Events are
 * counted from 1 here; 0 is what came before the run; UINT64_MAX: never. */
typedef struct asim_capacity_span {
    uint64_t lowest, below; /* bytes: lowest <= capacity < below; below UINT64_MAX: nothing was refused */
    uint64_t refused;       /* the event of the last refusal */
    uint64_t asked;         /* the event that first asked, before anything was refused to it */
    uint64_t asked_after;   /* the event that first asked after a refusal: to tell of it, or to act on it */
} asim_capacity_span;

typedef struct asim_device_model asim_device_model;

/* trace: its lanes, and the addresses of its opening state and calls, above which fresh regions lie.
 * capacities: one a device of the trace, copied. script and clocks stay the caller's. */
asim_code asim_device_model_new(const asim_trace *trace, const asim_profile *profile,
                                const uint64_t *capacities, bool completion_by_clock,
                                const asim_script *script, asim_clocks *clocks, const asim_hostmem *mem,
                                asim_device_model **ret_model, asim_err *err);
void asim_device_model_free(asim_device_model *model); /* NULL is fine */

asim_device asim_device_model_table(asim_device_model *model);

/* What the trace says of the streams: a SYNC, or a kernel of ns on the lane's stream. */
void asim_device_model_sync(asim_device_model *model, asim_sync_scope scope, unsigned lane);
void asim_device_model_kernel(asim_device_model *model, unsigned lane, uint64_t ns);

void asim_device_model_counts(const asim_device_model *model, unsigned device,
                              asim_device_counts *ret_counts);

asim_capacity_span asim_device_model_span(const asim_device_model *model);

/* Forgets what was counted so far: the opening state is not part of the run. */
void asim_device_model_reset_counts(asim_device_model *model);

#endif
