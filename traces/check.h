/* traces/check.h - the rules of a trace. Writers refuse what breaks them, readers believe nothing else.
 *
 *  - every index (lane, device, string, stack, frame) is in its table; fields that a kind does not use are 0;
 *  - an ALLOC takes a slot that is not busy; FREE, USE, RESIZE, ACCESS and PREFIX name a live one; FREE_DONE
 * names one freed with ASIM_FREE_PENDING, which stays busy until then;
 *  - ids are dense: at most the number of blocks (opening and allocated) that came before;
 *  - times do not run backwards; sizes are below 2^63; a fraction lies between 0 and 1;
 *  - recorded addresses belong to ALLOC alone; recorded calls are ordered by event;
 *  - opening segments are sorted by device, then address, do not overlap, and are filled by their blocks;
 * live and pending blocks have slots of their own, free ones have none.
 *
 * A checker keeps one byte a slot. It takes the events in portions, in order:
 *
 *     asim_checker checker;
 *     asim_checker_init(&checker, mem);
 *     code = asim_checker_opening(&checker, trace, &err);
 *     code = asim_checker_events(&checker, trace, events, times, addresses, stacks, count, &err);
 *     asim_checker_fini(&checker);
 *
 * Errors are ASIM_E_INPUT; the message names the event, which is also err->position.
 */
#ifndef ASIM_TRACES_CHECK_H
#define ASIM_TRACES_CHECK_H

#include "sim/err.h"
#include "sim/event.h"
#include "sim/hostmem.h"
#include "sim/idmap.h"

typedef struct asim_checker {
    const asim_hostmem *mem;
    uint8_t *slots; /* asim_block_state of each; those at slot_count and above are free */
    size_t capacity;
    uint32_t slot_count; /* largest id so far, and 1 */
    uint64_t introduced; /* opening blocks and ALLOC events so far */
    uint64_t event_count;
    uint64_t last_time_ns;
    bool window;     /* a slot not seen before may hold any block */
    asim_idmap seen; /* of a window: states of the slots it has named, instead of slots */
} asim_checker;

void asim_checker_init(asim_checker *checker, const asim_hostmem *mem);
void asim_checker_fini(asim_checker *checker);

/* A trace of which only a window is seen: ids may be anything below slot_count, and a slot of which the
 * window has not said anything yet may be live, pending or free. Call before the first event. */
void asim_checker_window(asim_checker *checker, uint64_t first_event, uint32_t slot_count);

/* The opening state of *trace, whose tables are filled. Call once, before the first event. */
asim_code asim_checker_opening(asim_checker *checker, const asim_trace *trace, asim_err *err);

/* The next count events; columns may be NULL. Only the tables of *trace are looked at. */
asim_code asim_checker_events(asim_checker *checker, const asim_trace *trace, const asim_event *events,
                              const uint64_t *times, const uint64_t *addresses, const uint32_t *stacks,
                              size_t count, asim_err *err);

/* One recorded call, after *previous (NULL: the first); event_count: of the whole trace. */
asim_code asim_check_call(const asim_trace *trace, const asim_recorded_call *previous,
                          const asim_recorded_call *call, uint64_t event_count, asim_err *err);

/* A whole trace: every rule, the tables and the slot count included. The digest is not compared. */
asim_code asim_trace_check(const asim_trace *trace, const asim_hostmem *mem, asim_err *err);

#endif
