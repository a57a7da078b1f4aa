/* sim/history.h - an observer that keeps the run's history, entry by entry, as PyTorch's recording does.
 *
 * Entries are those of an allocator's history (specification, section 20): allocations, frees (requested and
 * completed), driver calls and refusals, in the order in which they happen (R143). They carry the requested
 * size and the lane of the allocation, frees included (R140, R141). A ring bounds them: when capacity entries
 * are held, the next one takes the place of the oldest (R136).
 *
 * Nothing is entered before asim_history_begin, but blocks are remembered from the start: call it between
 * asim_engine_new, which puts the opening state in place, and asim_engine_run.
 *
 *     asim_history *history;
 *     asim_history_new(&trace, UINT64_MAX, mem, &history, &err);
 *     asim_observer_use use = {&asim_history_observer, history};
 *     ... asim_engine_new ...
 *     asim_history_begin(history);
 *     ... asim_engine_run ...
 *     for (uint64_t i = 0; i < asim_history_count(history); i++)
 *         look_at(asim_history_at(history, i));
 *     asim_history_free(history);
 *
 * Memory: 24 bytes an entry, about 60 a live block. Expected O(1) a callback.
 */
#ifndef ASIM_SIM_HISTORY_H
#define ASIM_SIM_HISTORY_H

#include "sim/observer.h"

typedef enum asim_history_kind {
    ASIM_HISTORY_ALLOC = 0,
    ASIM_HISTORY_FREE_REQUESTED = 1,
    ASIM_HISTORY_FREE_COMPLETED = 2,
    ASIM_HISTORY_SEGMENT_ALLOC = 3,
    ASIM_HISTORY_SEGMENT_FREE = 4,
    ASIM_HISTORY_MAP = 5,
    ASIM_HISTORY_UNMAP = 6,
    ASIM_HISTORY_OOM = 7,
} asim_history_kind;

typedef struct asim_history_entry {
    uint64_t address;    /* OOM: the device's free bytes */
    uint64_t size;       /* requested bytes; of a driver call: its bytes; OOM: the request as rounded */
    uint64_t event : 40; /* index of the trace's event during which it happened */
    uint64_t lane : 16;
    uint64_t kind : 8; /* asim_history_kind */
} asim_history_entry;

_Static_assert(sizeof(asim_history_entry) == 24, "an entry of the history costs 24 bytes");

/* What is remembered of a block until its free is completed. */
typedef struct asim_history_block {
    uint64_t requested; /* bytes */
    uint32_t stack;     /* of its allocation, or of the opening state; ASIM_NO_INDEX where none */
    uint16_t lane;
} asim_history_block;

typedef struct asim_history asim_history;

extern const asim_observer asim_history_observer; /* its config: an asim_history, which serves one run */

/* capacity: most entries kept, at least 1; UINT64_MAX: all of them. The trace must outlive the history. */
asim_code asim_history_new(const asim_trace *trace, uint64_t capacity, const asim_hostmem *mem,
                           asim_history **ret_history, asim_err *err);
void asim_history_free(asim_history *history); /* NULL is fine */
void asim_history_begin(asim_history *history);

uint64_t asim_history_count(const asim_history *history);
/* Entry number, below count, oldest first; valid until the run goes on. */
const asim_history_entry *asim_history_at(const asim_history *history, uint64_t number);
uint64_t asim_history_events(const asim_history *history); /* events that the run is past */

/* The live or pending block at address; false where there is none. */
bool asim_history_block_at(const asim_history *history, uint64_t address, asim_history_block *ret_block);
/* The stack of the event that obtained the memory which begins at address (or of the opening state), while no
 * smaller block was placed there; otherwise ASIM_NO_INDEX. */
uint32_t asim_history_segment_stack(const asim_history *history, uint64_t address);

#endif
