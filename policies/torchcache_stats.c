#include "policies/torchcache_stats.h"

#include <stdio.h>

static void raise(int64_t *peak, int64_t value)
{
    if (*peak < value)
        *peak = value;
}

static void raise_amount(asim_tc_amount *peak, const asim_tc_amount *value)
{
    raise(&peak->count, value->count);
    raise(&peak->bytes, value->bytes);
    raise(&peak->requested, value->requested);
}

static asim_tc_amount sum(const asim_tc_amount *a, const asim_tc_amount *b)
{
    return (asim_tc_amount){a->count + b->count, a->bytes + b->bytes, a->requested + b->requested};
}

void asim_tc_stats_take_peaks(asim_tc_stats *stats)
{
    asim_tc_requests *small = &stats->requests[0], *large = &stats->requests[1];
    const asim_tc_amount live = sum(&small->live, &large->live);
    raise_amount(&small->peak, &small->live);
    raise_amount(&large->peak, &large->live);
    raise_amount(&stats->peak_all, &live);
    if (small->pending.count | large->pending.count) {
        const asim_tc_amount active[2] = {sum(&small->live, &small->pending),
                                          sum(&large->live, &large->pending)};
        const asim_tc_amount active_all = sum(&active[0], &active[1]);
        raise_amount(&small->peak_active, &active[0]);
        raise_amount(&large->peak_active, &active[1]);
        raise_amount(&stats->peak_active_all, &active_all);
    }
    stats->rising = false;
}

void asim_tc_count_adopted_pending(asim_tc_stats *stats, asim_tc_requests *requests, uint64_t size,
                                   uint64_t requested)
{
    requests->pending.count++;
    requests->pending.bytes += (int64_t)size;
    requests->adopted.count++;
    requests->adopted.bytes += (int64_t)size;
    requests->live.requested += (int64_t)requested;
    requests->total.requested += (int64_t)requested;
    stats->rising = true;
}

static void reset_peak(asim_tc_counter *counter)
{
    counter->peak = counter->current;
}

static void reset_total(asim_tc_counter *counter)
{
    counter->allocated = 0;
    counter->base = counter->current;
}

/* Calls reset on each counter that is kept as such. */
static void for_counters(asim_tc_stats *stats, void (*reset)(asim_tc_counter *counter))
{
    asim_tc_pair *const pairs[] = {&stats->inactive_split, &stats->inactive_split_bytes, &stats->segment,
                                   &stats->reserved_bytes};
    for (unsigned i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        for (unsigned kind = 0; kind < 2; kind++)
            reset(&pairs[i]->kind[kind]);
    reset(&stats->oversize_allocations);
    reset(&stats->oversize_segments);
}

static int64_t current_of(const asim_tc_pair *pair)
{
    return pair->kind[0].current + pair->kind[1].current;
}

void asim_tc_pair_reset(asim_tc_pair *pair, bool peaks)
{
    for (unsigned kind = 0; kind < 2; kind++)
        (peaks ? reset_peak : reset_total)(&pair->kind[kind]);
    if (peaks)
        pair->peak_all = current_of(pair);
}

void asim_tc_stats_reset_peaks(asim_tc_stats *stats)
{
    for_counters(stats, reset_peak);
    stats->segment.peak_all = current_of(&stats->segment);
    stats->reserved_bytes.peak_all = current_of(&stats->reserved_bytes);
    stats->inactive_split.peak_all = current_of(&stats->inactive_split);
    stats->inactive_split_bytes.peak_all = current_of(&stats->inactive_split_bytes);
    for (unsigned kind = 0; kind < 2; kind++) {
        asim_tc_requests *requests = &stats->requests[kind];
        requests->peak = requests->live;
        requests->peak_active = sum(&requests->live, &requests->pending);
    }
    stats->peak_all = sum(&stats->requests[0].live, &stats->requests[1].live);
    stats->peak_active_all = sum(&stats->requests[0].peak_active, &stats->requests[1].peak_active);
    stats->rising = false;
}

void asim_tc_stats_reset_totals(asim_tc_stats *stats)
{
    for_counters(stats, reset_total);
    for (unsigned kind = 0; kind < 2; kind++) {
        asim_tc_requests *requests = &stats->requests[kind];
        requests->total = requests->adopted = (asim_tc_amount){0, 0, 0};
        requests->base = requests->live;
        requests->base_active = sum(&requests->live, &requests->pending);
    }
    stats->num_alloc_retries = 0;
    stats->num_ooms = 0;
    stats->num_sync_all_streams = 0;
    stats->num_device_alloc = 0;
    stats->num_device_free = 0;
    stats->num_oom_rejections = 0;
}

/* --- the report --- */

typedef struct reporter {
    void (*emit)(void *ctx, const char *name, int64_t value);
    void *ctx;
} reporter;

static void report_counter(const reporter *to, const char *stat, const char *part,
                           const asim_tc_counter *counter)
{
    static const char *const fields[] = {"current", "peak", "allocated", "freed"};
    const int64_t values[] = {counter->current, counter->peak, counter->allocated,
                              counter->base + counter->allocated - counter->current};
    for (unsigned i = 0; i < 4; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s%s.%s", stat, part, fields[i]);
        to->emit(to->ctx, name, values[i]);
    }
}

static void report_pair(const reporter *to, const char *stat, const asim_tc_pair *pair)
{
    const asim_tc_counter *small = &pair->kind[0], *large = &pair->kind[1];
    const asim_tc_counter all = {small->current + large->current, pair->peak_all,
                                 small->allocated + large->allocated, small->base + large->base};
    report_counter(to, stat, ".all", &all);
    report_counter(to, stat, ".small_pool", small);
    report_counter(to, stat, ".large_pool", large);
}

void asim_tc_pair_report(const asim_tc_pair *pair, const char *name,
                         void (*emit)(void *ctx, const char *name, int64_t value), void *ctx)
{
    report_pair(&(reporter){emit, ctx}, name, pair);
}

typedef struct derived { /* the five statistics that requests move, as counters */
    asim_tc_pair allocation, active, allocated_bytes, active_bytes, requested_bytes;
} derived;

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static derived derive(const asim_tc_stats *stats)
{
    derived out;
    for (unsigned kind = 0; kind < 2; kind++) {
        const asim_tc_requests *r = &stats->requests[kind];
        const asim_tc_amount active = sum(&r->live, &r->pending), total = sum(&r->total, &r->adopted);
        out.allocation.kind[kind] =
            (asim_tc_counter){r->live.count, r->peak.count, r->total.count, r->base.count};
        out.allocated_bytes.kind[kind] =
            (asim_tc_counter){r->live.bytes, r->peak.bytes, r->total.bytes, r->base.bytes};
        out.requested_bytes.kind[kind] =
            (asim_tc_counter){r->live.requested, r->peak.requested, r->total.requested, r->base.requested};
        out.active.kind[kind] = (asim_tc_counter){active.count, larger(r->peak.count, r->peak_active.count),
                                                  total.count, r->base_active.count};
        out.active_bytes.kind[kind] = (asim_tc_counter){
            active.bytes, larger(r->peak.bytes, r->peak_active.bytes), total.bytes, r->base_active.bytes};
    }
    out.allocation.peak_all = stats->peak_all.count;
    out.allocated_bytes.peak_all = stats->peak_all.bytes;
    out.requested_bytes.peak_all = stats->peak_all.requested;
    out.active.peak_all = larger(stats->peak_all.count, stats->peak_active_all.count);
    out.active_bytes.peak_all = larger(stats->peak_all.bytes, stats->peak_active_all.bytes);
    return out;
}

void asim_tc_stats_report(const asim_tc_stats *stats, const asim_tc_release *release,
                          void (*emit)(void *ctx, const char *name, int64_t value), void *ctx)
{
    const reporter to = {emit, ctx};
    asim_tc_stats now = *stats;
    asim_tc_stats_take_peaks(&now);
    const derived requests = derive(&now);
    report_pair(&to, "allocation", &requests.allocation);
    report_pair(&to, "segment", &now.segment);
    report_pair(&to, "active", &requests.active);
    report_pair(&to, "inactive_split", &now.inactive_split);
    report_pair(&to, "allocated_bytes", &requests.allocated_bytes);
    report_pair(&to, "reserved_bytes", &now.reserved_bytes);
    report_pair(&to, "active_bytes", &requests.active_bytes);
    report_pair(&to, "inactive_split_bytes", &now.inactive_split_bytes);
    if (release->keeps_requested)
        report_pair(&to, "requested_bytes", &requests.requested_bytes);
    report_counter(&to, "oversize_allocations", "", &now.oversize_allocations);
    report_counter(&to, "oversize_segments", "", &now.oversize_segments);
    emit(ctx, "num_alloc_retries", now.num_alloc_retries);
    emit(ctx, "num_ooms", now.num_ooms);
    if (release->counts_driver_calls) {
        emit(ctx, "num_sync_all_streams", now.num_sync_all_streams);
        emit(ctx, "num_device_alloc", now.num_device_alloc);
        emit(ctx, "num_device_free", now.num_device_free);
    }
    if (release->counts_rejections)
        emit(ctx, "num_oom_rejections", now.num_oom_rejections);
    emit(ctx, "max_split_size", now.max_split_size);
}
