/* traces/event_code.h - the events of one frame to columns and back (FORMAT.md, "Events frame").
 *
 * Both directions keep the same model, forgotten at each frame, so that frames stay independent: which slots
 * were released, in which order blocks were allocated, which sizes, addresses and stacks were met. What the
 * model foresees costs a byte or nothing.
 */
#ifndef ASIM_TRACES_EVENT_CODE_H
#define ASIM_TRACES_EVENT_CODE_H

#include "sim/buf.h"
#include "sim/event.h"
#include "traces/format.h"

/* Up to ASIM_FRAME_EVENTS events and their columns; absent columns are NULL. */
typedef struct asim_event_batch {
    asim_event *events;
    uint64_t *times, *addresses;
    uint32_t *stacks;
    size_t count;
} asim_event_batch;

typedef struct asim_event_coder asim_event_coder;

/* For frames of at most limit events: 56 bytes of model for each, and for an encoder 8 bytes a slot. */
asim_event_coder *asim_event_coder_new(const asim_hostmem *mem, size_t limit, asim_err *err);
void asim_event_coder_free(asim_event_coder *coder); /* NULL is fine */

/* Appends the sections of an events frame to *content. The events keep the rules of traces/check.h, and come
 * in the order of the trace: the coder remembers slots from frame to frame. */
asim_code asim_encode_events(asim_event_coder *coder, uint64_t first, const asim_event_batch *batch,
                             asim_buf *content, asim_err *err);

/* Decodes a frame of batch->count events, the first of which must be number first, into the arrays of *batch.
 * times and stacks get their defaults where the frame has none; a column that the frame has but *batch
 * lacks is an error. Events of kinds that do not exist here get kind ASIM_EV_NONE if newer is set, otherwise
 * they are an error; *ret_unknown counts them. What the events say is not checked. */
asim_code asim_decode_events(asim_event_coder *coder, const asim_bytes sections[ASIM_SECTIONS_MAX],
                             uint64_t first, bool newer, asim_event_batch *batch, size_t *ret_unknown,
                             asim_err *err);

#endif
