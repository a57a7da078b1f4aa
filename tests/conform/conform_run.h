/* tests/conform/conform_run.h - random workloads, and one run of one through the engine under watch.
 *
 * A workload is a pure function of its seed and shape. Sizes lie on the thresholds where allocators change
 * their minds, and one byte beside them; some are 0, some larger than any device.
 */
#ifndef ASIM_TESTS_CONFORM_CONFORM_RUN_H
#define ASIM_TESTS_CONFORM_CONFORM_RUN_H

#include "sim/engine.h"
#include "tests/conform/conform_shadow.h"

enum {                   /* shape: what occurs besides allocations and frees */
    CONFORM_SMALL = 1,   /* no request above 1 MiB */
    CONFORM_USES = 2,    /* other streams use blocks; streams are synchronised */
    CONFORM_PENDING = 4, /* the recording tells when frees complete */
    CONFORM_RESIZES = 8, /* caches that grow and share prefixes, unmovable blocks, accesses */
    CONFORM_TWO_DEVICES = 16,
    CONFORM_SHAPES = 32,

    CONFORM_EVENTS_MAX = 1024,
    CONFORM_SLOTS = 64,
    CONFORM_STREAMS = 3,
};

typedef struct conform_workload {
    asim_event events[CONFORM_EVENTS_MAX];
    asim_lane lanes[2 * CONFORM_STREAMS];
    asim_trace_device devices[2];
    asim_trace trace;
} conform_workload;

/* ret_workload is not to be moved afterwards: its trace points into it. */
void conform_workload_make(conform_workload *ret_workload, uint64_t seed, unsigned shape, size_t events);

typedef struct conform_faulty { /* a device that refuses: set before the run, read afterwards */
    asim_device inner;
    asim_device_result answer; /* what the refused call gets */
    uint64_t refuse_at;        /* calls from 1; 0: never */
    uint64_t calls;            /* calls of alloc, reserve and map so far */
} conform_faulty;

typedef struct conform_memory { /* host memory that counts, and refuses the n-th request */
    asim_hostmem table;
    uint64_t refuse_at; /* 0: never */
    uint64_t requests;
    uint64_t bytes; /* held */
    bool misused;   /* a block was given back with another size than it has */
} conform_memory;

void conform_memory_init(conform_memory *memory, uint64_t refuse_at);

typedef struct conform_options {
    const asim_policy *policy;
    const char *params; /* "key=value,..."; "" for the defaults */
    const conform_workload *workload;
    uint64_t capacity; /* bytes a device */
    asim_check check;
    bool shadow;
    conform_faulty *faulty; /* or NULL */
    conform_memory *memory; /* or NULL: the C library's */
} conform_options;

typedef struct conform_outcome {
    asim_run_record record;
    asim_err err;
    uint64_t placed, refusals; /* with a shadow */
} conform_outcome;

asim_code conform_run(const conform_options *options, conform_outcome *ret_outcome);

#endif
