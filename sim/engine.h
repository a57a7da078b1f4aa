/* sim/engine.h - one run: a trace through a policy on a device, and the record that comes out.
 *
 * The engine is a discrete-event simulator over virtual clocks (design: one host clock, one a stream, integer
 * nanoseconds). Its record is a pure function of (trace, policy, parameters, device profile, capacity, seed).
 *
 *     asim_run_config config = {.trace = &trace, .policy = policy, .params = block, .profile = &profile};
 *     asim_engine *engine;
 *     if (!(code = asim_engine_new(&config, mem, &engine, &err)) &&
 *         !(code = asim_engine_run(engine, &err)))
 *         asim_engine_record(engine, &record);
 *     asim_engine_free(engine);
 */
#ifndef ASIM_SIM_ENGINE_H
#define ASIM_SIM_ENGINE_H

#include "sim/failures.h"
#include "sim/metrics.h"
#include "sim/observer.h"
#include "sim/profile.h"

typedef enum asim_check {
    ASIM_CHECK_OFF = 0,
    ASIM_CHECK_PLACEMENTS = 1, /* the referee looks at every placement, free and driver call */
    ASIM_CHECK_FULL = 2,       /* and the policy's own check and walk after every event (slow) */
} asim_check;

typedef enum asim_completion {
    ASIM_COMPLETION_AUTO = 0,  /* by the clocks if the trace has kernels, else by sync events */
    ASIM_COMPLETION_CLOCK = 1, /* an event is done when its stream's clock has passed it */
    ASIM_COMPLETION_SYNC = 2,  /* an event is done at the next sync of its stream, or when waited for */
} asim_completion;

typedef struct asim_observer_use {
    const asim_observer *observer;
    const void *config;
} asim_observer_use;

typedef struct asim_run_config {
    const asim_trace *trace; /* for a stepped engine: tables and opening state only */
    const asim_policy *policy;
    const void *params; /* the policy's parameter block */
    const asim_profile *profile;
    uint64_t capacity;          /* bytes a device; 0: the trace's own where it tells, else the profile's */
    const uint64_t *capacities; /* or one a device of the trace; overrides capacity */
    uint64_t seed;
    asim_check check;
    asim_completion completion;
    bool stop_at_oom;     /* the run ends with the first refused request */
    bool ignore_recorded; /* neither follow nor compare what the recorded allocator did */
    const asim_observer_use *observers;
    uint32_t observer_count;
    /* Called once with the model device: may replace the table by one that wraps it, or by another device.
     * NULL: the model is used as it is. */
    void (*wrap_device)(void *ctx, asim_device *device);
    void (*warn)(void *ctx, const char *text);
    /* Called every few million events and at the end; returns true to stop the run (ASIM_E_SYSTEM). */
    bool (*progress)(void *ctx, uint64_t events_done);
    void *ctx;
} asim_run_config;

typedef enum asim_run_status {
    ASIM_RUN_OK = 0,
    ASIM_RUN_OOM = 1,   /* at least one request was refused; the run went on to the end */
    ASIM_RUN_ERROR = 2, /* it ended early, by a fault */
} asim_run_status;

typedef struct asim_mismatch { /* the first allocation or driver call that left the recording */
    uint64_t event;
    uint64_t size; /* requested bytes; of a driver call: its size */
    uint64_t recorded_address, address;
    uint16_t lane;
    bool is_call; /* a driver call rather than an allocation; kinds below (or ASIM_NO_INDEX: none) */
    uint32_t recorded_kind, kind;
} asim_mismatch;

typedef struct asim_own_metric { /* a number that only this policy has */
    const char *name;
    uint64_t value;
} asim_own_metric;

typedef struct asim_run_record {
    asim_run_status status;
    uint64_t placement_digest; /* over every placement, refusal, completed free and driver call, in order */
    uint64_t metrics[ASIM_METRIC_COUNT];
    asim_own_metric own[ASIM_POLICY_METRICS_MAX];
    uint32_t own_count;
    bool has_recorded; /* the recorded_... metrics mean something */
    bool has_oom, has_mismatch;
    asim_oom oom; /* the first refused request */
    asim_mismatch mismatch;
    uint64_t capacity; /* bytes of device 0, as used */
} asim_run_record;

typedef struct asim_engine asim_engine;

/* Bytes that a device of the trace has in a run whose config says capacity: that, or for 0 the trace's own,
 * else the profile's, or more where the recording holds more. Part of a run's key (that of device 0). */
uint64_t asim_engine_capacity(const asim_trace *trace, const asim_profile *profile, uint64_t capacity,
                              uint32_t device);

/* The config's pointers must stay valid until asim_engine_free. On success the opening state is in place. */
asim_code asim_engine_new(const asim_run_config *config, const asim_hostmem *mem, asim_engine **ret_engine,
                          asim_err *err);
void asim_engine_free(asim_engine *engine); /* NULL is fine */

/* Replays the whole trace. An out-of-memory of the policy is no error. */
asim_code asim_engine_run(asim_engine *engine, asim_err *err);

/* One event that is not in the trace: for tests and for traces that are still being recorded. Ids may grow;
 * lanes must be in the trace's table. *ret_placement (NULL allowed) is filled for an ALLOC that was placed.
 */
asim_code asim_engine_step(asim_engine *engine, const asim_event *event, asim_alloc_result *ret_result,
                           asim_placement *ret_placement, asim_err *err);

void asim_engine_record(const asim_engine *engine, asim_run_record *ret_record);

/* The policy's walk and report, for final layouts and statistics. */
void asim_engine_walk(const asim_engine *engine, const asim_walker *walker);
void asim_engine_report(const asim_engine *engine, unsigned device,
                        void (*emit)(void *ctx, const char *name, int64_t value), void *ctx);
/* The refused requests, with the policy's own words about each; they live as long as the engine, and move
 * when it goes on. */
const asim_failures *asim_engine_failures(const asim_engine *engine);
/* The same, handed over: asim_failures_fini(ret_failures, the engine's mem) frees them. The engine then has
 * none. */
void asim_engine_take_failures(asim_engine *engine, asim_failures *ret_failures);
/* The words about the first one, written as snprintf does; 0: none. */
size_t asim_engine_refusal_text(const asim_engine *engine, char *ret_text, size_t capacity);
/* What the model device counted for one device: see asim_device_counts in sim/device_model.h. */
struct asim_device_counts;
void asim_engine_device_counts(const asim_engine *engine, unsigned device,
                               struct asim_device_counts *ret_counts);

/* Whether a run of the same configuration with every device of capacity bytes would have gone the same, as
 * far as that is known: to its end, or, if a request was refused, to the first refusal. *ret_lowest <=
 * capacity < *ret_below; just the run's own capacity where nothing more is known. */
void asim_engine_same_capacities(const asim_engine *engine, uint64_t *ret_lowest, uint64_t *ret_below);

#endif
