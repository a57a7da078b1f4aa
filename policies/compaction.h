/* policies/compaction.h - compaction as a variant of any single-pool policy: merge, or move, and when.
 *
 *     before  [ A ][   ][ B ][ pinned ][   ][ C ][     ]
 *     after   [ A ][ B ][   ][ pinned ][ C ][          ]
 *
 * compact=none         freed blocks stay as they were cut: nothing merges and nothing moves
 * compact=incremental  a freed block merges with its free neighbours; nothing moves (the default)
 * compact=full         and live blocks move to the low end of the region, in address order, with the host
 *                      waiting: when a request fails that the free bytes could serve, before a request once
 *                      fragmentation has risen above a threshold, or at a mark (off-peak)
 * compact=on-switch    and they move so at a mark of a model switch, and only there
 *
 * Each movable block goes to the lowest address at which it fits between the pinned ones, not below the end
 * of the block that was placed before it; blocks of a buddy system go to multiples of their size. No
 * destination overlaps a block that is still there: every block ends up at or below its old address, and the
 * order of moves is that of addresses. A failed request moves blocks only if the plan makes room for it.
 *
 * Pinned are: blocks allocated as unmovable, blocks that are freed but pending, and (busy=pin) blocks whose
 * streams, of the allocation or of a later use, still have work to do when the compaction begins. With
 * busy=wait the host waits for the whole device first, and that wait is part of the pause. In a trace without
 * kernels nothing is known to run, and no stream counts as busy.
 *
 * Cost: the device charges each moved block (move_ns of the profile) and its bytes over the copy bandwidth;
 * asking a stream costs an event and a query. Host work is linear in the blocks of the device.
 */
#ifndef ASIM_POLICIES_COMPACTION_H
#define ASIM_POLICIES_COMPACTION_H

#include "policies/arena.h"

typedef enum asim_compact {
    ASIM_COMPACT_NONE,
    ASIM_COMPACT_INCREMENTAL,
    ASIM_COMPACT_FULL,
    ASIM_COMPACT_ON_SWITCH,
} asim_compact;

typedef struct asim_compaction_params { /* a member of the policy's parameter block */
    int compact;                        /* asim_compact */
    bool on_failure;
    uint64_t above; /* percent; ASIM_PARAM_NONE: no threshold */
    char at[ASIM_PARAM_TEXT_MAX];
    char switch_mark[ASIM_PARAM_TEXT_MAX];
    int busy; /* 0 pin, 1 wait */
} asim_compaction_params;

extern const char *const asim_compact_names[];
extern const char *const asim_compact_busy_names[];

/* For a policy's parameter table; type is the block, member its asim_compaction_params. */
#define ASIM_COMPACTION_PARAMS(block, member)                                                                \
    {.name = "compact",                                                                                      \
     .type = ASIM_PARAM_CHOICE,                                                                              \
     .offset = offsetof(block, member.compact),                                                              \
     .default_text = "incremental",                                                                          \
     .choices = asim_compact_names,                                                                          \
     .help = "none: freed blocks never merge; incremental: they do; full, on-switch: and live blocks move"}, \
        {.name = "compact_on_failure",                                                                       \
         .type = ASIM_PARAM_BOOL,                                                                            \
         .offset = offsetof(block, member.on_failure),                                                       \
         .default_text = "true",                                                                             \
         .help = "compact=full: move when a request fails, if that makes room for it"},                      \
        {.name = "compact_above",                                                                            \
         .type = ASIM_PARAM_U64,                                                                             \
         .offset = offsetof(block, member.above),                                                            \
         .default_text = "none",                                                                             \
         .max = 100,                                                                                         \
         .none_allowed = true,                                                                               \
         .help = "compact=full: move once 1 - largest free / free has risen above so many percent"},         \
        {.name = "compact_at",                                                                               \
         .type = ASIM_PARAM_TEXT,                                                                            \
         .offset = offsetof(block, member.at),                                                               \
         .default_text = "",                                                                                 \
         .help = "compact=full: move at marks whose label begins with this (off-peak); empty: at none"},     \
        {.name = "compact_switch",                                                                           \
         .type = ASIM_PARAM_TEXT,                                                                            \
         .offset = offsetof(block, member.switch_mark),                                                      \
         .default_text = "switch",                                                                           \
         .help = "compact=on-switch: move at marks whose label begins with this"},                           \
    {                                                                                                        \
        .name = "compact_busy", .type = ASIM_PARAM_CHOICE, .offset = offsetof(block, member.busy),           \
        .default_text = "pin", .choices = asim_compact_busy_names,                                           \
        .help = "blocks of streams with work to do: pin leaves them alone, wait waits for the device first"  \
    }

/* Settings that contradict each other: ASIM_E_USAGE with what to change. */
asim_code asim_compaction_check_params(const asim_compaction_params *params, asim_err *err);

/* Called by the arena. new: after the arena's own set-up, if anything may move. */
asim_code asim_compaction_new(asim_arena *arena, const asim_compaction_params *params, asim_err *err);
void asim_compaction_free(asim_arena *arena);
uint64_t asim_compaction_stream_bit(const asim_arena *arena, unsigned lane); /* 0 where nothing moves */
/* Before a request on the device, and when one failed that needs a free block of so many bytes. PLACED:
 * blocks have moved; REFUSED: nothing was to be done, or nothing that helps; BROKEN: see arena->fault. */
asim_alloc_result asim_compaction_before(asim_arena *arena, unsigned device);
asim_alloc_result asim_compaction_make_room(asim_arena *arena, unsigned device, uint64_t needed);

/* Operations of sim/policy.h. */
void asim_compaction_use(asim_arena *arena, uint32_t word, unsigned lane);
asim_code asim_compaction_mark(asim_arena *arena, const asim_event *event, const char *label, asim_err *err);
/* Compactions by trigger, and blocks that were pinned in them (each time anew). */
void asim_compaction_metrics(const asim_arena *arena,
                             void (*emit)(void *ctx, const char *name, uint64_t value), void *ctx);

#endif
