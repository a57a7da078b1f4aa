/* sim/policy.h - the contract between the engine and an allocation policy.
 *
 * A policy decides where a request goes; the engine keeps the books. A policy is one const table: what it is
 * called, its parameters, how large its private state is, and its operations. The engine allocates the state,
 * so any number of instances run side by side; a policy has no writable globals.
 *
 * Order of calls: init; adopt, at most once, if the trace has an opening state that the devices can hold and
 * the policy an adopt operation; then alloc, free and the rest in trace order; fini last, also after a failed
 * init. check and walk may come between any two of them. Operations marked optional may be NULL; without
 * adopt the engine turns the opening state into ordinary allocations.
 *
 * Adding one: copy policies/skeleton.c, add a line to policies/registry.c and to policies/meson.build.
 */
#ifndef ASIM_SIM_POLICY_H
#define ASIM_SIM_POLICY_H

#include "sim/device.h"
#include "sim/err.h"
#include "sim/event.h"
#include "sim/hostmem.h"
#include "sim/params.h"
#include "sim/rng.h"

enum {
    ASIM_POLICY_VERSION = 1
};

/* Each policy defines the body of this tag for itself (sizeof it is the table's state_size). */
typedef struct asim_policy_state asim_policy_state;

typedef enum asim_alloc_result {
    ASIM_PLACED = 0,
    ASIM_REFUSED = 1, /* out of memory: a normal result, recorded */
    ASIM_NOTHING = 2, /* a request that gets no block and is no failure (zero bytes, in PyTorch) */
    ASIM_BROKEN = 3,  /* the policy's state or the device is in error, or host memory ran out: check then
                       * says which, and the run ends */
} asim_alloc_result;

typedef enum asim_free_result {
    ASIM_FREED = 0,       /* the block is reusable now */
    ASIM_FREE_LATER = 1,  /* pending: listener->free_done follows at some later operation */
    ASIM_FREE_BROKEN = 3, /* as ASIM_BROKEN */
} asim_free_result;

typedef struct asim_placement {
    uint64_t address;
    uint64_t size;    /* bytes of the block, at least the request; 0 if it is made of pieces */
    uint64_t rounded; /* the request as the policy rounds it; the rest of size is slack not split off */
    uint32_t region;  /* index of the device region that holds it; ASIM_NO_INDEX if it is made of pieces */
    uint32_t word;    /* the policy's own, opaque: given back with free, use, resize, free_done */
} asim_placement;

/* Numbers that only the policy can know. It keeps them current; the core reads them after each event. */
typedef struct asim_policy_counters {
    uint64_t largest_free_bytes; /* largest free block; under full checks the referee compares with walk */
    uint64_t search_steps;       /* free-list nodes looked at */
    uint64_t alloc_retries;      /* last attempts after everything cached was released */
    uint64_t cache_flushes;      /* releases of everything cached, retries and empty_cache alike */
    uint64_t sync_waits;         /* times that all pending events were waited for */
} asim_policy_counters;

/* What the core wants to be told while an operation runs. */
typedef struct asim_listener {
    /* A pending free completed: the block of size bytes at address (the position before any merge), whose
     * request was for requested bytes. */
    void (*free_done)(void *ctx, uint64_t address, uint64_t size, uint64_t requested);
    /* A request is about to be refused: the size it was rounded to, and what the driver reports as free.
     * segment_bytes: what was asked of the device. Only a request of 2^60 bytes or more may be refused
     * without it. */
    void (*refusal)(void *ctx, unsigned device, uint64_t rounded, uint64_t segment_bytes,
                    uint64_t device_free);
    /* The live block of word now begins at address in region (ASIM_POLICY_MOVES). The policy has copied it
     * with the device's copy, which charges the time; the new range may overlap the old one, and no other
     * block. A pending block may not move. */
    void (*moved)(void *ctx, uint32_t word, uint32_t region, uint64_t address);
    /* A compaction begins or ends: the engine counts them, and the host time that passes in between. */
    void (*pause)(void *ctx, bool begins);
    /* A piece of a scattered allocation (ASIM_POLICY_SCATTERS) is taken or given back: once, however many
     * allocations share it. A piece that ends is named as it was taken, never a part of it. */
    void (*piece)(void *ctx, uint32_t region, uint64_t address, uint64_t size, bool taken);
    /* A warning for the user, one line, at most once a run for each text. */
    void (*warn)(void *ctx, const char *text);
    void *ctx;
} asim_listener;

typedef struct asim_policy_env {
    asim_device device;
    const asim_hostmem *memory;
    asim_rng *rng;
    const asim_listener *listener;
    asim_policy_counters *counters; /* zeroed by the core before init */
    const asim_lane *lanes;         /* a request's lane indexes it */
    uint32_t lane_count;
    const uint64_t *capacities; /* bytes a device; a decision that depends on them asks the device (memory) */
    uint32_t device_count;
    uint64_t max_live; /* no more blocks than this live at once (a hint; 0 unknown) */
    /* ASIM_POLICY_CLAIRVOYANT: the trace that will be replayed, otherwise NULL; of a stepped engine it holds
     * no events, and what comes can't be foreseen. An opening state that is not adopted comes first, as
     * requests for its live blocks in table order. */
    const asim_trace *future;
} asim_policy_env;

/* walk reports every segment in (device, address) order, each followed by its blocks in address order. */
typedef struct asim_walk_segment {
    uint64_t address;
    uint64_t size; /* bytes held from the device */
    uint64_t stream;
    uint32_t region;
    uint16_t device;
    uint16_t pool; /* 0: the default pool */
    bool small;
    bool expandable;
} asim_walk_segment;

typedef struct asim_walk_block {
    uint64_t address;
    uint64_t size;
    uint64_t requested; /* of a free block: what the policy still remembers, as PyTorch's snapshots show it */
    uint32_t word;      /* of a live block */
    asim_block_state state;
} asim_walk_block;

typedef struct asim_walker {
    void (*segment)(void *ctx, const asim_walk_segment *segment);
    void (*block)(void *ctx, const asim_walk_block *block);
    void *ctx;
} asim_walker;

enum {                            /* flags */
    ASIM_POLICY_MODELS_TORCH = 1, /* recorded placements of a torch snapshot are its own: compare them */
    ASIM_POLICY_SINGLE_POOL = 2,  /* one region, so compaction variants apply */
    ASIM_POLICY_REFERENCE =
        4,                 /* not an allocator (null): its placements may name no region (ASIM_NO_INDEX) */
    ASIM_POLICY_MOVES = 8, /* may move live blocks; words are then indices of its records, kept dense */
    ASIM_POLICY_CLAIRVOYANT = 16, /* plans with the whole trace: env->future */
    ASIM_POLICY_SCATTERS = 32,    /* an allocation may be made of pieces, told with listener->piece */
    ASIM_POLICY_HOLDS = 64,       /* holds another policy behind itself (policies/inner.h) */
};

enum {
    ASIM_POLICY_METRICS_MAX = 16 /* numbers of a policy's own in a run's record */
};

typedef struct asim_policy {
    uint32_t version; /* ASIM_POLICY_VERSION */
    uint32_t flags;
    const char *name;    /* as typed: lower case */
    const char *summary; /* one line */
    const char *source;  /* what it models: paper, product and release */
    size_t state_size;
    asim_param_table params;

    asim_code (*init)(asim_policy_state *state, const asim_policy_env *env, const void *params,
                      asim_err *err);
    /* event is an ALLOC: size bytes on lane. On ASIM_PLACED *ret_placement is filled. */
    asim_alloc_result (*alloc)(asim_policy_state *state, const asim_event *event,
                               asim_placement *ret_placement);
    /* completion_follows: the recording says when (free_done comes); the policy may not complete it itself.
     */
    asim_free_result (*free)(asim_policy_state *state, uint32_t word, bool completion_follows);
    /* Verifies every invariant of its own; cost at most linear. ASIM_E_BUG with a message on a fault. */
    asim_code (*check)(const asim_policy_state *state, asim_err *err);
    void (*walk)(const asim_policy_state *state, const asim_walker *walker);
    void (*fini)(asim_policy_state *state); /* accepts a zeroed and a half-built state */

    /* Optional. Those that return asim_code: anything but ASIM_OK ends the run. */
    /* Take over the opening state. ret_placements: one for each of trace->opening_blocks, filled for those
     * that are live or pending. */
    asim_code (*adopt)(asim_policy_state *state, const asim_trace *trace, asim_placement *ret_placements,
                       asim_err *err);
    asim_free_result (*free_done)(asim_policy_state *state, uint32_t word); /* where free may wait */
    void (*use)(asim_policy_state *state, uint32_t word, unsigned lane);
    asim_code (*sync)(asim_policy_state *state, const asim_event *event, asim_err *err);
    asim_code (*trim)(asim_policy_state *state, const asim_event *event, asim_err *err);
    asim_code (*pool)(asim_policy_state *state, const asim_event *event, asim_err *err); /* POOL_... */
    asim_code (*settings)(asim_policy_state *state, const char *text, asim_err *err);
    asim_code (*fraction)(asim_policy_state *state, unsigned device, double fraction, asim_err *err);
    asim_code (*mark)(asim_policy_state *state, const asim_event *event, const char *label, asim_err *err);
    /* The block of word is to hold event->size bytes. PLACED: *ret_placement says where it is now, perhaps
     * where it was, and its word; contents that had to move were copied with the device's copy. REFUSED: it
     * stays as it was. NOTHING, and without the operation: the engine allocates, copies and frees. */
    asim_alloc_result (*resize)(asim_policy_state *state, uint32_t word, const asim_event *event,
                                asim_placement *ret_placement);
    void (*access)(asim_policy_state *state, uint32_t word, const asim_event *event);
    /* The next ALLOC with ASIM_ALLOC_GROWS begins with the same event->size bytes as the block of word. */
    void (*prefix)(asim_policy_state *state, uint32_t word, const asim_event *event);
    void (*reset_stats)(asim_policy_state *state, unsigned device, bool peaks);
    /* The policy's own statistics of one device, by name, in a fixed order ("num_ooms"). */
    void (*report)(const asim_policy_state *state, unsigned device,
                   void (*emit)(void *ctx, const char *name, int64_t value), void *ctx);
    /* Numbers of the whole run that no other policy has ("sram_hits"), at most ASIM_POLICY_METRICS_MAX; the
     * names are constants in the style of sim/metrics.h, and none of its names. */
    void (*metrics)(const asim_policy_state *state, void (*emit)(void *ctx, const char *name, uint64_t value),
                    void *ctx);
    /* What the modelled allocator says of the latest request that it refused: one line, written as snprintf
     * does. Returns its length; 0 where nothing was refused, or nothing is said of that one. The engine asks
     * right after each refusal. */
    size_t (*refusal_text)(const asim_policy_state *state, char *ret_text, size_t capacity);
} asim_policy;

/* Checks a table when it is registered: version, name, required operations, parameters that parse their
 * defaults, state size. ASIM_E_BUG with what is wrong. */
asim_code asim_policy_validate(const asim_policy *policy, asim_err *err);

#endif
