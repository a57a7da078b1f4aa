/* sim/intervals.h - disjoint half-open intervals of addresses, each with a 32-bit value, in address order.
 *
 * Sorted runs of at most 256 intervals in an array of runs: search is two binary searches, an insertion moves
 * at most one run's contents. For books and checks, where code that is plainly right matters most.
 */
#ifndef ASIM_SIM_INTERVALS_H
#define ASIM_SIM_INTERVALS_H

#include "sim/hostmem.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct asim_interval {
    uint64_t start, end; /* start < end */
    uint32_t value;
} asim_interval;

struct asim_interval_run;

typedef struct asim_intervals {
    const asim_hostmem *mem;
    struct asim_interval_run **runs; /* none is empty */
    size_t run_count, run_capacity;
    size_t count; /* intervals in all */
} asim_intervals;

void asim_intervals_init(asim_intervals *set, const asim_hostmem *mem);
void asim_intervals_fini(asim_intervals *set);

/* Adds one; ASIM_E_BUG, naming both, if it is empty or overlaps another. */
asim_code asim_intervals_add(asim_intervals *set, asim_interval interval, asim_err *err);

/* Removes the interval that begins at start; false where none does. */
bool asim_intervals_remove(asim_intervals *set, uint64_t start);

/* The interval that holds address, or failing that the first one after it; NULL where none is. Valid until
 * the next change. */
const asim_interval *asim_intervals_find(const asim_intervals *set, uint64_t address);

/* Calls visit on each in ascending order. */
void asim_intervals_each(const asim_intervals *set, void (*visit)(void *ctx, const asim_interval *interval),
                         void *ctx);

#endif
