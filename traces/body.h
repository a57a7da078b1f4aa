/* traces/body.h - the memory behind a decoded trace while it grows: what builder and readers share.
 *
 * trace is the first member, so that asim_trace_release finds the rest. Columns exist from the first event
 * that has something for them; earlier events then get the absent value.
 */
#ifndef ASIM_TRACES_BODY_H
#define ASIM_TRACES_BODY_H

#include "sim/source.h"
#include "traces/tables.h"

typedef struct asim_body {
    asim_trace trace; /* filled by asim_body_view */
    const asim_hostmem *mem;
    asim_tables tables;
    asim_event *events;
    uint64_t *times, *addresses;
    uint32_t *stacks;
    size_t event_count; /* of all columns that exist */
    size_t event_capacity, time_capacity, address_capacity, stack_capacity;
    asim_opening_segment *segments;
    size_t segment_count, segment_capacity;
    asim_opening_block *blocks;
    size_t block_count, block_capacity;
    asim_recorded_call *calls;
    size_t call_count, call_capacity;
} asim_body;

asim_body *asim_body_new(const asim_hostmem *mem, asim_err *err);
void asim_body_free(asim_body *body); /* NULL is fine */

/* Room for extra events more in the events and in every column that exists. */
asim_code asim_body_reserve(asim_body *body, size_t extra, asim_err *err);

/* Make a column exist: the events so far get the absent value, and there is room as asim_body_reserve made.
 */
asim_code asim_body_want_times(asim_body *body, asim_err *err);
asim_code asim_body_want_addresses(asim_body *body, asim_err *err);
asim_code asim_body_want_stacks(asim_body *body, asim_err *err);

/* One item each; nothing is checked here but that counts fit. */
asim_code asim_body_event(asim_body *body, const asim_sink_event *event, asim_err *err);
asim_code asim_body_segment(asim_body *body, const asim_opening_segment *segment, asim_err *err);
asim_code asim_body_block(asim_body *body, const asim_opening_block *block, asim_err *err);
asim_code asim_body_call(asim_body *body, const asim_recorded_call *call, asim_err *err);

/* Lets body->trace point at everything; slot_count and digest are the caller's. */
void asim_body_view(asim_body *body);

#endif
