/* tests/trace_sample.h - a small trace that holds something of everything: each kind of event, each table,
 * an opening state, times, recorded addresses, stacks, recorded calls, notes.
 */
#ifndef ASIM_TESTS_TRACE_SAMPLE_H
#define ASIM_TESTS_TRACE_SAMPLE_H

#include "sim/source.h"

/* Feeds the sample to a sink. */
asim_code sample_feed(const asim_sink *sink, asim_err *err);

/* Feeds a long random workload: count events on several lanes, with columns of every sort if rich. The same
 * seed gives the same trace. */
asim_code sample_feed_random(const asim_sink *sink, uint64_t seed, uint64_t count, bool rich, asim_err *err);

/* The sample, or a random one, built in memory; aborts the test on failure. */
asim_trace *sample_new(void);
asim_trace *sample_random_new(uint64_t seed, uint64_t count, bool rich);

/* "" if the two say the same in every field, otherwise what differs. */
const char *sample_difference(const asim_trace *a, const asim_trace *b);

/* A host-memory table that refuses request number refuse_at (0 is the first) and counts what is not given
 * back. */
typedef struct sample_memory {
    asim_hostmem mem;
    uint64_t requests, refuse_at;
    int64_t bytes, bytes_max; /* not given back yet; more than bytes_max is refused */
} sample_memory;

/* refuse_at UINT64_MAX: never. bytes_max may be set afterwards. */
void sample_memory_init(sample_memory *memory, uint64_t refuse_at);

#endif
