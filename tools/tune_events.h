/* tools/tune_events.h - a trace as it would be had the program been changed a little.
 *
 * Three changes: settings are replaced after the first such mark (torch.cuda.memory._set_allocator_settings),
 * empty_cache is called right after a mark (each such mark, or the first), and a block is
 * allocated and freed at once, at the start or after a mark, on the stream that asks for most, so that its
 * segment is cached and cut up by what follows. The block has a share of what the trace needs at its peak
 * beyond its opening state, rounded up to 2 MiB, on each device.
 *
 * And one of the whole search: the trace begins with nothing instead of its opening state.
 */
#ifndef ASIM_TOOLS_TUNE_EVENTS_H
#define ASIM_TOOLS_TUNE_EVENTS_H

#include "tools/tune.h"

typedef struct asim_tune_need { /* of one device */
    uint64_t peak_bytes;        /* requested and alive at once, without the opening state; at least 0 */
    uint16_t lane;              /* of the default pool that asks for most bytes; ASIM_LANE_ALL: none */
} asim_tune_need;

/* Fills one need for each device of the trace. */
asim_code asim_tune_needs(const asim_trace *trace, asim_tune_need *ret_needs, const asim_hostmem *mem,
                          asim_err *err);

/* Bytes of the early block. */
uint64_t asim_tune_block_bytes(const asim_tune_need *need, unsigned percent);

/* Whether the setting changes the events at all. */
bool asim_tune_changes_events(const asim_tune_setting *setting);

/* The changed trace: its tables are those of the original, its events and columns are its own. Freed with
 * asim_tune_trace_free. */
asim_code asim_tune_trace_new(const asim_trace *trace, const asim_tune_base *base,
                              const asim_tune_setting *setting, const asim_tune_need *needs,
                              const asim_hostmem *mem, asim_trace **ret_trace, asim_err *err);

/* The trace as if it began with nothing: what is alive in its opening state is asked for first, in the order
 * of the opening state. What was recorded of placements is left out. Freed with asim_tune_trace_free. */
asim_code asim_tune_trace_afresh(const asim_trace *trace, const asim_hostmem *mem, asim_trace **ret_trace,
                                 asim_err *err);
void asim_tune_trace_free(asim_trace *trace, const asim_hostmem *mem); /* NULL is fine */

#endif
