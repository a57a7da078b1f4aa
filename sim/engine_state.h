/* sim/engine_state.h - the inside of an engine, shared by engine.c (life cycle, record) and engine_loop.c
 * (events) and engine_tell.c (what the policy and the device tell meanwhile). Nobody else includes it.
 */
#ifndef ASIM_SIM_ENGINE_STATE_H
#define ASIM_SIM_ENGINE_STATE_H

#include "sim/device_model.h"
#include "sim/engine.h"
#include "sim/hash.h"
#include "sim/ledger.h"
#include "sim/referee.h"

typedef enum asim_slot_state {
    ASIM_SLOT_EMPTY = 0,
    ASIM_SLOT_LIVE = 1,
    ASIM_SLOT_PENDING = 2,  /* freed; the policy waits for the recorded completion */
    ASIM_SLOT_WITHHELD = 3, /* freed; the policy knows no pending state, so it hears of it at completion */
    ASIM_SLOT_BLANK = 4,    /* its request got no block: frees and uses of it are skipped */
} asim_slot_state;

typedef struct asim_slot {
    uint64_t address, size, rounded, requested;
    uint32_t region, word;
    uint16_t lane;
    uint8_t state; /* asim_slot_state */
} asim_slot;

typedef struct asim_observer_instance {
    const asim_observer *observer;
    asim_observer_state *state;
} asim_observer_instance;

struct asim_engine {
    asim_run_config config;
    const asim_hostmem *mem;
    const asim_trace *trace;
    const asim_policy *policy;
    asim_policy_state *state;
    asim_policy_counters counters;
    asim_listener listener;
    asim_policy_env env;
    asim_rng rng;
    asim_profile profile;
    uint64_t capacities[ASIM_DEVICES_MAX];
    asim_clocks clocks;
    asim_script script;
    asim_device_model *model;
    asim_ledger ledger;
    asim_books books;
    asim_slot *slots;
    size_t slot_capacity;
    asim_referee referee;
    asim_observer_instance *observers;
    uint32_t observer_count;
    bool compare;   /* recorded placements are this policy's own */
    bool moves;     /* the policy may move blocks: slot_of_word is kept */
    bool in_run;    /* the opening state is in place: calls and completions count */
    asim_err fault; /* code set inside a callback: the run ends after the operation */

    uint64_t digest;
    uint64_t events, allocs, frees, ooms, moved_bytes;
    uint64_t compactions, pause_began_ns, pause_ns, max_pause_ns;
    uint32_t *slot_of_word; /* ASIM_NO_INDEX: the block that a resize is replacing, which lies in replaced */
    size_t word_capacity;
    asim_slot replaced;
    uint16_t lane; /* of the request that runs */
    uint64_t rounded, peak_rounded;
    uint64_t peak_requested, peak_allocated, peak_active, peak_reserved, peak_internal, peak_pinned;
    uint64_t frag_ppm, max_frag_ppm, frag_free, frag_largest;
    unsigned __int128 frag_weighted; /* sum of ppm x weight */
    uint64_t frag_weight;
    uint64_t last_time_ns;
    uint64_t recorded_allocs, recorded_matches;
    bool has_oom, has_mismatch;
    asim_oom oom;
    asim_failures failures;
    asim_mismatch mismatch;
    asim_capacity_span oom_span; /* at the first refusal */
    uint64_t oom_at;             /* its event, counted as in the span */
    bool fits;                   /* the opening state's segments fit into the devices */
    uint64_t opening_held;       /* bytes that they take, of the device that takes most */
    /* The refusal that the policy announced while its alloc runs. */
    uint64_t refused_segment_bytes, refused_device_free;
};

/* What the digest holds, each as a tag mixed with the numbers that follow it. */
enum {
    ASIM_DIGEST_PLACED = 1,
    ASIM_DIGEST_REFUSED,
    ASIM_DIGEST_NOTHING,
    ASIM_DIGEST_DONE,
    ASIM_DIGEST_CALL,
    ASIM_DIGEST_MOVED
};

static inline void asim_engine_mix(asim_engine *engine, uint64_t tag, uint64_t a, uint64_t b)
{
    engine->digest = asim_hash_u64(asim_hash_u64(engine->digest, a ^ tag << 60), b);
}

static inline uint64_t asim_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Keeps the first one. */
void asim_engine_note_mismatch(asim_engine *engine, const asim_mismatch *mismatch);

/* Puts one allocation of the opening state in place for a policy that can't adopt, and one that is adopted.
 */
asim_code asim_engine_opening_alloc(asim_engine *engine, const asim_event *event, bool pending,
                                    asim_err *err);
asim_code asim_engine_opening_adopt(asim_engine *engine, const asim_opening_block *block, unsigned lane,
                                    const asim_placement *placement, asim_err *err);

/* The listener and the ledger's callback; ctx is the engine. */
void asim_engine_free_done(void *ctx, uint64_t address, uint64_t size, uint64_t requested);
void asim_engine_refusal(void *ctx, unsigned device, uint64_t rounded, uint64_t segment_bytes,
                         uint64_t device_free);
void asim_engine_moved(void *ctx, uint32_t word, uint32_t region, uint64_t address);
void asim_engine_pause(void *ctx, bool begins);
void asim_engine_piece(void *ctx, uint32_t region, uint64_t address, uint64_t size, bool taken);
void asim_engine_call(void *ctx, const asim_driver_call *call);

/* Rounding and slack; 0 where shared pieces hold more than one allocation asked for. */
static inline uint64_t asim_books_internal(const asim_books *books)
{
    return books->allocated > books->requested ? books->allocated - books->requested : 0;
}

/* Free bytes inside reserved memory; 0 for a policy that reserves nothing (null). */
static inline uint64_t asim_books_free(const asim_books *books)
{
    return books->reserved > books->active ? books->reserved - books->active : 0;
}

#endif
