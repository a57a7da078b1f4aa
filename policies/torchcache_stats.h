/* policies/torchcache_stats.h - the allocator's statistics (section 18), one set a device.
 *
 * What every request touches is kept to what can't be derived. Of the nine statistics of memory_stats(),
 * each with current, peak, allocated and freed for all, small and large pools:
 *
 *   - all = small + large, except for peaks, which are kept for all as well;
 *   - freed = base + allocated - current, base being the value of current when the totals began;
 *   - active = allocation + pending (freed, not reusable yet), and rises when allocation does;
 *   - peaks of what a request raises are taken before the next decrease, not at each increase: until then
 *     the current value is the peak. `rising` says that some increase has not been looked at yet.
 */
#ifndef ASIM_POLICIES_TORCHCACHE_STATS_H
#define ASIM_POLICIES_TORCHCACHE_STATS_H

#include "policies/torchcache_release.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct asim_tc_counter { /* a single statistic */
    int64_t current, peak, allocated, base;
} asim_tc_counter;

typedef struct asim_tc_pair { /* an array statistic; [0] small pools, [1] large pools */
    asim_tc_counter kind[2];
    int64_t peak_all;
} asim_tc_pair;

/* Blocks: how many, their bytes, and the bytes that were asked for. */
typedef struct asim_tc_amount {
    int64_t count, bytes, requested;
} asim_tc_amount;

typedef struct asim_tc_requests { /* of the small, or of the large pools */
    asim_tc_amount live;          /* handed out; requested: pending ones included */
    asim_tc_amount total;         /* handed out since the totals began */
    asim_tc_amount pending;       /* freed and not reusable yet; requested unused */
    asim_tc_amount adopted;       /* pending from the start: in the totals of active alone */
    asim_tc_amount base;          /* live when the totals began */
    asim_tc_amount base_active;   /* active when the totals began; requested unused */
    asim_tc_amount peak;          /* of live */
    asim_tc_amount peak_active;   /* of active while some were pending; requested unused */
} asim_tc_requests;

typedef struct asim_tc_stats {
    asim_tc_requests requests[2];
    asim_tc_amount peak_all, peak_active_all;
    bool rising;
    asim_tc_pair inactive_split, inactive_split_bytes;
    asim_tc_pair segment, reserved_bytes;
    asim_tc_counter oversize_allocations, oversize_segments;
    int64_t num_alloc_retries, num_ooms, num_sync_all_streams, num_device_alloc, num_device_free;
    int64_t num_oom_rejections;
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
static inline void asim_tc_up(asim_tc_pair *pair, bool large, uint64_t amount)
{
    asim_tc_counter_up(&pair->kind[large], amount);
    int64_t all = pair->kind[0].current + pair->kind[1].current;
    if (pair->peak_all < all)
        pair->peak_all = all;
}

static inline void asim_tc_down(asim_tc_pair *pair, bool large, uint64_t amount)
{
    asim_tc_counter_down(&pair->kind[large], amount);
}

/* The peaks of allocation, allocated_bytes, active, active_bytes and requested_bytes. */
void asim_tc_stats_take_peaks(asim_tc_stats *stats);

static inline void asim_tc_before_decrease(asim_tc_stats *stats)
{
    if (stats->rising)
        asim_tc_stats_take_peaks(stats);
}

/* requests belongs to stats. R64: a block of size bytes was handed out. */
static inline void asim_tc_count_handed_out(asim_tc_stats *stats, asim_tc_requests *requests, uint64_t size,
                                            uint64_t requested)
{
    requests->live.count++;
    requests->live.bytes += (int64_t)size;
    requests->live.requested += (int64_t)requested;
    requests->total.count++;
    requests->total.bytes += (int64_t)size;
    requests->total.requested += (int64_t)requested;
    stats->rising = true;
}

/* R66: its free was asked for, and R68: it is reusable, in one. */
static inline void asim_tc_count_freed(asim_tc_stats *stats, asim_tc_requests *requests, uint64_t size,
                                       uint64_t requested)
{
    asim_tc_before_decrease(stats);
    requests->live.count--;
    requests->live.bytes -= (int64_t)size;
    requests->live.requested -= (int64_t)requested;
}

/* R66 alone; R68 follows. */
static inline void asim_tc_count_pending(asim_tc_stats *stats, asim_tc_requests *requests, uint64_t size)
{
    asim_tc_count_freed(stats, requests, size, 0);
    requests->pending.count++;
    requests->pending.bytes += (int64_t)size;
}

/* R68 of a block that was pending. */
static inline void asim_tc_count_completed(asim_tc_stats *stats, asim_tc_requests *requests, uint64_t size,
                                           uint64_t requested)
{
    asim_tc_before_decrease(stats);
    requests->pending.count--;
    requests->pending.bytes -= (int64_t)size;
    requests->live.requested -= (int64_t)requested;
}

/* A pending block that was there from the start (an opening state): as if handed out and freed. */
void asim_tc_count_adopted_pending(asim_tc_stats *stats, asim_tc_requests *requests, uint64_t size,
                                   uint64_t requested);

/* R125. */
void asim_tc_stats_reset_peaks(asim_tc_stats *stats);
void asim_tc_stats_reset_totals(asim_tc_stats *stats);

/* The same for a statistic kept apart: its peaks, or its totals. */
void asim_tc_pair_reset(asim_tc_pair *pair, bool peaks);

/* One array statistic, as below: "NAME.all.current" and so on. */
void asim_tc_pair_report(const asim_tc_pair *pair, const char *name,
                         void (*emit)(void *ctx, const char *name, int64_t value), void *ctx);

/* The flattened names and values of memory_stats(), "allocation.all.current" first (R126). */
void asim_tc_stats_report(const asim_tc_stats *stats, const asim_tc_release *release,
                          void (*emit)(void *ctx, const char *name, int64_t value), void *ctx);

#endif
