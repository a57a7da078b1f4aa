#include "policies/torchcache_stats.h"

#include <stdio.h>

static const char *const stat_names[ASIM_TC_STATS] = {
    "allocation",      "segment",        "active",       "inactive_split",
    "allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes",
    "requested_bytes",
};

static void reset_totals(asim_tc_counter *counter)
{
    counter->allocated = 0;
    counter->base = counter->current;
}

void asim_tc_stats_reset_peaks(asim_tc_stats *stats)
{
    for (unsigned stat = 0; stat < ASIM_TC_STATS; stat++) {
        asim_tc_pair *pair = &stats->pairs[stat];
        for (unsigned kind = 0; kind < 2; kind++)
            pair->kind[kind].peak = pair->kind[kind].current;
        pair->peak_all = asim_tc_current(stats, (asim_tc_stat)stat);
    }
    stats->oversize_allocations.peak = stats->oversize_allocations.current;
    stats->oversize_segments.peak = stats->oversize_segments.current;
}

void asim_tc_stats_reset_totals(asim_tc_stats *stats)
{
    for (unsigned stat = 0; stat < ASIM_TC_STATS; stat++)
        for (unsigned kind = 0; kind < 2; kind++)
            reset_totals(&stats->pairs[stat].kind[kind]);
    reset_totals(&stats->oversize_allocations);
    reset_totals(&stats->oversize_segments);
    stats->num_alloc_retries = 0;
    stats->num_ooms = 0;
    stats->num_sync_all_streams = 0;
    stats->num_device_alloc = 0;
    stats->num_device_free = 0;
}

typedef struct reporter {
    void (*emit)(void *ctx, const char *name, int64_t value);
    void *ctx;
} reporter;

static void report_counter(const reporter *to, const char *stat, const char *part,
                           const asim_tc_counter *counter)
{
    const int64_t values[] = {counter->current, counter->peak, counter->allocated,
                              counter->base + counter->allocated - counter->current};
    static const char *const fields[] = {"current", "peak", "allocated", "freed"};
    for (unsigned i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s.%s", stat, part, fields[i]);
        to->emit(to->ctx, name, values[i]);
    }
}

void asim_tc_stats_report(const asim_tc_stats *stats, const asim_tc_release *release,
                          void (*emit)(void *ctx, const char *name, int64_t value), void *ctx)
{
    const reporter to = {emit, ctx};
    for (unsigned stat = 0; stat < ASIM_TC_STATS; stat++) {
        if (stat == ASIM_TC_REQUESTED_BYTES && !release->keeps_requested)
            continue;
        const asim_tc_pair *pair = &stats->pairs[stat];
        const asim_tc_counter *small = &pair->kind[0], *large = &pair->kind[1];
        const asim_tc_counter all = {small->current + large->current, pair->peak_all,
                                     small->allocated + large->allocated, small->base + large->base};
        report_counter(&to, stat_names[stat], ".all", &all);
        report_counter(&to, stat_names[stat], ".small_pool", small);
        report_counter(&to, stat_names[stat], ".large_pool", large);
    }
    report_counter(&to, "oversize_allocations", "", &stats->oversize_allocations);
    report_counter(&to, "oversize_segments", "", &stats->oversize_segments);
    emit(ctx, "num_alloc_retries", stats->num_alloc_retries);
    emit(ctx, "num_ooms", stats->num_ooms);
    if (release->counts_driver_calls) {
        emit(ctx, "num_sync_all_streams", stats->num_sync_all_streams);
        emit(ctx, "num_device_alloc", stats->num_device_alloc);
        emit(ctx, "num_device_free", stats->num_device_free);
    }
    emit(ctx, "max_split_size", stats->max_split_size);
}
