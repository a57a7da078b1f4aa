/* policies/torchcache_stats.h - the allocator's statistics (section 18), one set a device.
 *
 * Nine statistics are kept for the small and the large pools. What is not stored follows from what is:
 * all = small + large except for peaks, and freed = base + allocated - current, base being the value of
 * current when the totals began. The peak of all is raised with every increase.
 */
#ifndef ASIM_POLICIES_TORCHCACHE_STATS_H
#define ASIM_POLICIES_TORCHCACHE_STATS_H

#include "policies/torchcache_release.h"

#include <stdint.h>

typedef enum asim_tc_stat { /* in the order of the report */
    ASIM_TC_ALLOCATION,
    ASIM_TC_SEGMENT,
    ASIM_TC_ACTIVE,
    ASIM_TC_INACTIVE_SPLIT,
    ASIM_TC_ALLOCATED_BYTES,
    ASIM_TC_RESERVED_BYTES,
    ASIM_TC_ACTIVE_BYTES,
    ASIM_TC_INACTIVE_SPLIT_BYTES,
    ASIM_TC_REQUESTED_BYTES,
    ASIM_TC_STATS
} asim_tc_stat;

typedef struct asim_tc_counter { /* a single statistic */
    int64_t current, peak, allocated, base;
} asim_tc_counter;

typedef struct asim_tc_pair { /* an array statistic; [0] small pools, [1] large pools */
    asim_tc_counter kind[2];
    int64_t peak_all;
} asim_tc_pair;

typedef struct asim_tc_stats {
    asim_tc_pair pairs[ASIM_TC_STATS];
    asim_tc_counter oversize_allocations, oversize_segments;
    int64_t num_alloc_retries, num_ooms, num_sync_all_streams, num_device_alloc, num_device_free;
    int64_t max_split_size; /* R122 */
} asim_tc_stats;

/* R118. */
static inline void asim_tc_counter_up(asim_tc_counter *counter, uint64_t amount)
{
    counter->current += (int64_t)amount;
    counter->allocated += (int64_t)amount;
    if (counter->peak < counter->current)
        counter->peak = counter->current;
}

/* R119: freed grows by itself, see above. */
static inline void asim_tc_counter_down(asim_tc_counter *counter, uint64_t amount)
{
    counter->current -= (int64_t)amount;
}

/* R65. */
static inline void asim_tc_up(asim_tc_stats *stats, asim_tc_stat stat, bool large, uint64_t amount)
{
    asim_tc_pair *pair = &stats->pairs[stat];
    asim_tc_counter_up(&pair->kind[large], amount);
    int64_t all = pair->kind[0].current + pair->kind[1].current;
    if (pair->peak_all < all)
        pair->peak_all = all;
}

static inline void asim_tc_down(asim_tc_stats *stats, asim_tc_stat stat, bool large, uint64_t amount)
{
    asim_tc_counter_down(&stats->pairs[stat].kind[large], amount);
}

static inline int64_t asim_tc_current(const asim_tc_stats *stats, asim_tc_stat stat)
{
    return stats->pairs[stat].kind[0].current + stats->pairs[stat].kind[1].current;
}

/* R125. */
void asim_tc_stats_reset_peaks(asim_tc_stats *stats);
void asim_tc_stats_reset_totals(asim_tc_stats *stats);

/* The flattened names and values of memory_stats(), "allocation.all.current" first (R126). */
void asim_tc_stats_report(const asim_tc_stats *stats, const asim_tc_release *release,
                          void (*emit)(void *ctx, const char *name, int64_t value), void *ctx);

#endif
