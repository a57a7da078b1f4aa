/* tools/memory_summary.h - PyTorch's memory_summary() text, from a policy's report (specification, section
 * 19).
 */
#ifndef ASIM_TOOLS_MEMORY_SUMMARY_H
#define ASIM_TOOLS_MEMORY_SUMMARY_H

#include "sim/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
    ASIM_SUMMARY_ARRAYS = 9,   /* statistics kept for all, small_pool and large_pool */
    ASIM_SUMMARY_SINGLES = 2,  /* oversize_allocations, oversize_segments */
    ASIM_SUMMARY_COUNTERS = 2, /* num_ooms, num_alloc_retries */
    ASIM_SUMMARY_NAMES = (ASIM_SUMMARY_ARRAYS * 3 + ASIM_SUMMARY_SINGLES) * 4 + ASIM_SUMMARY_COUNTERS,
};

typedef struct asim_memory_stats {
    int64_t values[ASIM_SUMMARY_NAMES];
    bool known[ASIM_SUMMARY_NAMES];
} asim_memory_stats;

/* An emit function for asim_engine_report; ctx is an asim_memory_stats, zeroed. Other names are ignored. */
void asim_memory_stats_take(void *ctx, const char *name, int64_t value);

/* The first name that was not reported, or NULL. old_release: 1.13, which has no requested_bytes (R132). */
const char *asim_memory_stats_missing(const asim_memory_stats *stats, bool old_release, char text[64]);

/* Writes the text, with PyTorch's line ends; old_release: in the manner of 1.13 (R133); abbreviated: without
 * the rows of the pools (R132). */
void asim_memory_summary(FILE *out, const asim_memory_stats *stats, unsigned device, bool old_release,
                         bool abbreviated);

#endif
