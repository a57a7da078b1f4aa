/* sim/metrics.h - the names and values of a run's metrics. All are integers (contract, section 4).
 *
 * Names end in their unit: _bytes, _ns, _ppm (millionths). "At the end" unless prefixed peak_, max_, mean_.
 */
#ifndef ASIM_SIM_METRICS_H
#define ASIM_SIM_METRICS_H

#include <stdint.h>

/* X(identifier, meaning): the order is that of every output. */
#define ASIM_METRICS(X)                                                                                      \
    X(events, "events replayed")                                                                             \
    X(allocs, "allocations asked for")                                                                       \
    X(frees, "frees asked for")                                                                              \
    X(requested_bytes, "asked for by live allocations")                                                      \
    X(peak_requested_bytes, "")                                                                              \
    X(allocated_bytes, "block sizes of live allocations")                                                    \
    X(peak_allocated_bytes, "")                                                                              \
    X(active_bytes, "live plus freed but pending blocks")                                                    \
    X(peak_active_bytes, "")                                                                                 \
    X(reserved_bytes, "held from the device")                                                                \
    X(peak_reserved_bytes, "")                                                                               \
    X(internal_frag_bytes, "allocated minus requested: rounding and slack")                                  \
    X(peak_internal_frag_bytes, "")                                                                          \
    X(free_bytes, "free inside reserved memory")                                                             \
    X(largest_free_bytes, "largest free block")                                                              \
    X(external_frag_ppm, "1 - largest free / free")                                                          \
    X(max_external_frag_ppm, "")                                                                             \
    X(mean_external_frag_ppm, "weighted by event time; by events where the trace has no time")               \
    X(reserve_gap_ppm, "1 - peak active / peak reserved")                                                    \
    X(pinned_bytes, "free bytes that share a segment (or page) with a live block")                           \
    X(peak_pinned_bytes, "")                                                                                 \
    X(smi_bytes, "reserved plus the context: what nvidia-smi shows")                                         \
    X(peak_smi_bytes, "")                                                                                    \
    X(device_allocs, "cudaMalloc calls that succeeded")                                                      \
    X(device_frees, "cudaFree calls")                                                                        \
    X(device_maps, "map calls that succeeded")                                                               \
    X(device_unmaps, "unmap calls")                                                                          \
    X(alloc_retries, "last attempts after everything cached was released")                                   \
    X(cache_flushes, "releases of everything cached")                                                        \
    X(sync_waits, "times that all pending events were waited for")                                           \
    X(ooms, "requests refused")                                                                              \
    X(stall_ns, "host time in driver calls, waits and moves")                                                \
    X(moved_bytes, "moved by compaction and by growing allocations")                                         \
    X(compactions, "")                                                                                       \
    X(pause_ns, "host time in compaction")                                                                   \
    X(max_pause_ns, "")                                                                                      \
    X(lower_bound_bytes, "peak of live block bytes: no placement can need less")                             \
    X(recorded_allocs, "allocations whose recorded address is known")                                        \
    X(recorded_matches, "... that got it")                                                                   \
    X(recorded_calls, "driver calls of the recording")                                                       \
    X(recorded_call_matches, "... that were made in the same order")                                         \
    X(search_steps, "free-list nodes looked at")

typedef enum asim_metric {
#define ASIM_METRIC_ENUM(name, meaning) ASIM_METRIC_##name,
    ASIM_METRICS(ASIM_METRIC_ENUM)
#undef ASIM_METRIC_ENUM
    ASIM_METRIC_COUNT
} asim_metric;

/* The metric's name, and one line on what it means ("" for the peak_ and max_ of the one before). */
const char *asim_metric_name(asim_metric metric);
const char *asim_metric_meaning(asim_metric metric);

/* 1 - part / whole in millionths, rounded down; 0 when whole is 0. */
uint64_t asim_gap_ppm(uint64_t part, uint64_t whole);

#endif
