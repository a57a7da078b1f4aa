/* tools/compare_watch.h - an observer that finds where a run parts from another, and stops to look there.
 *
 * First pass: a digest of what happened in each event (placements, frees, driver calls, refusals) is kept, or
 * compared with those of the other run; and the peak is noted: of the
 * moments with most reserved memory the first with most of it allocated. Second pass,
 * with look_event and peak_event set: what happened in look_event is kept in full, and at_peak is called
 * after peak_event. What happens while the opening state is put in place counts as event ASIM_WATCH_OPENING.
 *
 * Memory: 8 bytes an event for the digests; 24 a driver call whose memory is held (second pass).
 */
#ifndef ASIM_TOOLS_COMPARE_WATCH_H
#define ASIM_TOOLS_COMPARE_WATCH_H

#include "sim/observer.h"

#define ASIM_WATCH_OPENING UINT64_MAX
#define ASIM_WATCH_NEVER   (UINT64_MAX - 1)

typedef enum asim_effect_kind {
    ASIM_EFFECT_PLACED,
    ASIM_EFFECT_FREED,
    ASIM_EFFECT_PENDING,
    ASIM_EFFECT_COMPLETED,
    ASIM_EFFECT_CALL, /* and more: ASIM_EFFECT_CALL + asim_call_kind */
} asim_effect_kind;

typedef struct asim_effect {
    uint64_t address, size; /* of a refusal: free bytes of the device, the request as rounded */
    unsigned kind;
} asim_effect;

enum {
    ASIM_EFFECTS_MAX = 32 /* of one event that are kept, the first ones */
};

typedef struct asim_effects {
    asim_effect items[ASIM_EFFECTS_MAX];
    uint64_t total; /* also those that are not kept */
} asim_effects;

typedef struct asim_held { /* memory of one driver call */
    uint64_t address, size;
    uint32_t stack; /* of the event that called; ASIM_NO_INDEX where none */
    uint32_t opening;
} asim_held;

typedef struct asim_watch {
    const asim_hostmem *mem;
    const asim_trace *trace;
    bool same_trace; /* as the other run's: addresses count, requests need not be compared */
    bool begun;
    uint64_t event, digest;

    uint64_t opening_digest;
    uint64_t *digests; /* event_count of them, or NULL */
    const struct asim_watch *reference;
    uint64_t part_event; /* ASIM_WATCH_NEVER: nowhere */
    uint64_t peak_event, peak_held, peak_allocated;

    bool second;
    uint64_t look_event;
    asim_effects *effects;
    asim_held *held; /* by address */
    size_t held_count, held_capacity;
    asim_code (*at_peak)(void *ctx, asim_err *err);
    void *ctx;
} asim_watch;

extern const asim_observer asim_watch_observer; /* its config: an asim_watch, which serves one run */

/* reference: a watch whose run is over; NULL: this one keeps its digests. */
asim_code asim_watch_init(asim_watch *watch, const asim_trace *trace, bool same_trace,
                          const asim_watch *reference, const asim_hostmem *mem, asim_err *err);
void asim_watch_fini(asim_watch *watch); /* a zeroed one is fine */
/* Between asim_engine_new and asim_engine_run; reserved, allocated: the bytes then. */
asim_code asim_watch_begin(asim_watch *watch, uint64_t reserved, uint64_t allocated, asim_err *err);
/* After the run of the shorter or longer trace: a difference in length is a parting, too. */
void asim_watch_end(asim_watch *watch);
/* Of what a trace says at an event, for traces that differ. */
uint64_t asim_watch_request(const asim_trace *trace, uint64_t event);

#endif
