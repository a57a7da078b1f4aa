/* sim/timeline.h - an observer that keeps bytes over time, thinned out but with every peak.
 *
 * Events fall into buckets of equal length. Of each bucket three moments are kept: the last, the one with the
 * most reserved and the one with the most allocated bytes. When the buckets are used up, neighbours are
 * joined and the length doubles; so at most `capacity` samples remain and no maximum is lost.
 *
 *     asim_timeline *timeline;
 *     asim_timeline_new(2000, mem, &timeline, &err);
 *     asim_observer_use use = {&asim_timeline_observer, timeline};
 *     ... run ...
 *     size_t count = asim_timeline_samples(timeline, samples, 2000);
 */
#ifndef ASIM_SIM_TIMELINE_H
#define ASIM_SIM_TIMELINE_H

#include "sim/observer.h"

typedef struct asim_sample {
    uint64_t event;   /* index of the event after which this holds */
    uint64_t time_ns; /* virtual host clock */
    uint64_t requested, allocated, active, reserved, largest_free; /* bytes */
} asim_sample;

typedef struct asim_timeline asim_timeline;

extern const asim_observer asim_timeline_observer; /* its config: an asim_timeline */

/* capacity: most samples kept, at least 6. One timeline serves one run. */
asim_code asim_timeline_new(size_t capacity, const asim_hostmem *mem, asim_timeline **ret_timeline,
                            asim_err *err);
void asim_timeline_free(asim_timeline *timeline); /* NULL is fine */

/* Copies the samples in event order, at most capacity of them, without repeats; returns how many. */
size_t asim_timeline_samples(const asim_timeline *timeline, asim_sample *ret_samples, size_t capacity);

#endif
