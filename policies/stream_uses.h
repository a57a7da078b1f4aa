/* policies/stream_uses.h - which streams use a block besides its own, and the frees that wait for them.
 *
 * While a block lives, each other stream that uses it is noted once. At its free each note becomes a device
 * event, at the tail of its stream's queue; the free is complete when all of its events are.
 *
 *     use    block 7: [stream 2]-[stream 5]
 *     free   queues:  2: ..-[7]   5: ..-[7]     block 7 waits for two
 *     poll   from the head of each queue, until an event is not done
 *
 * Streams are numbered by the first lane that names them; queues are visited in that order, so which free
 * completes first is the same in every run. Cost: a use is linear in the streams that use the block; a poll
 * in the streams that are waited for and the events done.
 */
#ifndef ASIM_POLICIES_STREAM_USES_H
#define ASIM_POLICIES_STREAM_USES_H

#include "sim/policy.h"

typedef struct asim_use_note asim_use_note;
typedef struct asim_use_queue asim_use_queue;

typedef struct asim_stream_uses {
    const asim_hostmem *memory;
    asim_device device;
    const asim_lane *lanes;
    uint32_t lane_count;
    uint32_t *streams;      /* of each lane: the first lane of the same device and stream */
    asim_use_queue *queues; /* by stream */
    uint32_t *active;       /* streams whose queues hold events, ascending */
    uint32_t active_count;
    asim_use_note *notes; /* [0] is none */
    size_t note_capacity;
    uint32_t note_count, spare;
} asim_stream_uses;

/* Called for each free that is complete: word as given to asim_uses_wait. It may not add or wait. */
typedef void (*asim_uses_done)(void *ctx, uint32_t word);

/* env is copied from. ASIM_E_SYSTEM, ASIM_E_INPUT (a lane of no device); fini follows in any case. */
asim_code asim_uses_init(asim_stream_uses *uses, const asim_policy_env *env, asim_err *err);
void asim_uses_fini(asim_stream_uses *uses); /* accepts a zeroed one */

/* The number of a lane's stream: the least lane that names the same. */
static inline uint32_t asim_stream_of(const asim_stream_uses *uses, unsigned lane)
{
    return uses->streams[lane];
}

/* *list, 0 at first, is the block's. Notes that lane's stream uses the block, unless that is own_lane's. */
asim_code asim_uses_add(asim_stream_uses *uses, uint32_t *list, unsigned own_lane, unsigned lane,
                        asim_err *err);

/* The block is freed in another way: its notes go. */
void asim_uses_forget(asim_stream_uses *uses, uint32_t *list);

/* The notes of *list, which may not be empty, become events; word is told to done when all have passed. */
asim_code asim_uses_wait(asim_stream_uses *uses, uint32_t *list, uint32_t word, asim_err *err);

/* Ends the events that are done, on every device; with block, waits for all of them. */
void asim_uses_poll(asim_stream_uses *uses, bool block, asim_uses_done done, void *ctx);

/* Is any free waiting? */
static inline bool asim_uses_pending(const asim_stream_uses *uses)
{
    return uses->active_count > 0;
}

#endif
