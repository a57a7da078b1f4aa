/* traces/torch_rebuild.h - from a snapshot's end back to the state in which its history began.
 *
 * Specification section 23: the final segments and blocks are walked back through the history (R169), sizes
 * of blocks that only the history shows are corrected for slack (R170), and what is not live is free, in
 * maximal runs. One device at a time. Where history and segments contradict each other nothing is guessed:
 * the device is marked and the first contradiction is told in words.
 */
#ifndef ASIM_TRACES_TORCH_REBUILD_H
#define ASIM_TRACES_TORCH_REBUILD_H

#include "traces/torch_records.h"

typedef struct asim_torch_run { /* a cudaMalloc segment, or a maximal mapped run of an expandable one */
    uint64_t address, size, stream;
    uint32_t stack;
    uint16_t pool;
    bool expandable, small;
    bool guessed; /* small is a guess until a block is seen inside */
} asim_torch_run;

typedef struct asim_torch_live { /* a block that is not free */
    uint64_t address, size, requested;
    uint32_t stack;
    uint8_t state; /* asim_block_state */
    bool exact;    /* size is recorded; otherwise rounded from the request, without slack */
    bool gone;     /* not there at the window's start (a place to be used again) */
} asim_torch_live;

typedef struct asim_torch_stale { /* a free block at the end */
    uint64_t address, size, requested;
    bool touched; /* something next to it or in it changed during the window */
} asim_torch_stale;

typedef struct asim_torch_pooled { /* a segment_alloc or segment_map of a private pool, and which */
    uint64_t entry;
    uint16_t pool;
} asim_torch_pooled;

typedef struct asim_torch_device {
    /* From the history. */
    unsigned number; /* as recorded */
    uint64_t first, count;
    uint64_t actions[ASIM_TORCH_ACTIONS];
    bool free_is_both;       /* free_requested alone: it completes at once (completions are not recorded) */
    bool completion_is_both; /* free_completed alone: it is the request too (as tools write it, R167) */
    uint64_t max_reserved;   /* largest total seen in the window, relative to no limit */
    uint64_t start_reserved;
    bool has_pools; /* some segment belongs to a private pool */

    /* The state at the window's start; valid unless contradicted. */
    asim_torch_run *runs; /* by address */
    size_t run_count, run_capacity;
    asim_torch_live *lives; /* by address, none gone */
    size_t live_count, live_capacity;
    asim_torch_stale *stales; /* by address */
    size_t stale_count, stale_capacity;
    asim_torch_pooled *pooled; /* by entry, descending */
    size_t pooled_count, pooled_capacity;

    bool contradicted;
    char contradiction[160];  /* the first */
    uint64_t unknown_frees;   /* of addresses outside every known segment */
    uint64_t slack_from_gap;  /* blocks whose slack was read from the gap behind them */
    uint64_t slack_from_fill; /* ... from the first block placed into that gap (R170, third case) */
    uint64_t slack_unknown;   /* ... taken as none */
} asim_torch_device;

/* The size a request of n bytes is rounded to (R25), under the snapshot's rounding divisions. */
uint64_t asim_torch_round(const asim_torch_settings *settings, uint64_t n);

/* device->number is set, all else zero. */
asim_code asim_torch_rebuild(asim_torch_device *device, const asim_torch_records *r, asim_err *err);
void asim_torch_device_fini(asim_torch_device *device, const asim_hostmem *mem);

/* Corrects the sizes of the blocks at the start (R170); checks that they fit. Part of the above. */
asim_code asim_torch_settle_slack(asim_torch_device *device, const asim_torch_records *r,
                                  asim_torch_cursor *cursor, asim_err *err);

/* Marks the device; the text is kept if it is the first. */
void asim_torch_contradict(asim_torch_device *device, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The set of runs, by address: the run that holds address or NULL; add one; take a range out of one. */
asim_torch_run *asim_torch_run_at(const asim_torch_device *device, uint64_t address);
asim_code asim_torch_run_insert(asim_torch_device *device, const asim_hostmem *mem, const asim_torch_run *run,
                                asim_err *err);
asim_code asim_torch_run_cut(asim_torch_device *device, const asim_hostmem *mem, asim_torch_run *run,
                             uint64_t address, uint64_t size, asim_err *err);

#endif
