/* traces/digest.h - the digest of a trace: a hash of what it says, whatever the compression and frame size.
 *
 * Each section (events, each column, calls, opening state, each table) is hashed on its own with
 * sim/hash.h, then the section hashes are folded in a fixed order. So a writer that streams, a builder and a
 * reader get the same number. traces/FORMAT.md, "Digest", is the definition.
 */
#ifndef ASIM_TRACES_DIGEST_H
#define ASIM_TRACES_DIGEST_H

#include "sim/event.h"

typedef struct asim_digest {
    uint64_t heads, sizes, times, addresses, stacks; /* states over the events so far */
    uint64_t event_count;
    bool any_time, any_address, any_stack;
    uint64_t segments, segment_count;
    uint64_t blocks, block_count;
    uint64_t calls, call_count;
} asim_digest;

void asim_digest_init(asim_digest *digest);

/* times, addresses, stacks: NULL stands for a column of 0, ASIM_NO_ADDRESS, ASIM_NO_INDEX. */
void asim_digest_events(asim_digest *digest, const asim_event *events, const uint64_t *times,
                        const uint64_t *addresses, const uint32_t *stacks, size_t count);
void asim_digest_segment(asim_digest *digest, const asim_opening_segment *segment);
void asim_digest_block(asim_digest *digest, const asim_opening_block *block);
void asim_digest_call(asim_digest *digest, const asim_recorded_call *call);

/* The digest of what was added and of the tables of *tables (its other fields are not looked at). */
uint64_t asim_digest_finish(const asim_digest *digest, const asim_trace *tables);

/* The digest of a whole trace, computed anew. */
uint64_t asim_trace_digest(const asim_trace *trace);

#endif
