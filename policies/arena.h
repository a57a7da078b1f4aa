/* policies/arena.h - one region of memory a device, cut into blocks: what the single-pool policies share.
 *
 *     region  [ live ][ free ][ live ][ live ][        free        ]
 *     list       1 <----> 4 <----> 2 <----> 3 <----> 5                by address, without gaps
 *
 * The region is taken from the device at the first request for it and kept. Every byte of it belongs to one
 * block; blocks are records in one growing array, named by 32-bit index (0: none), which is also the word
 * that the engine keeps. A policy differs in where a request goes: that is its asim_fit, which files free
 * blocks in a structure of its own and finds one that is large enough. Cutting, merging, compaction
 * (compaction.h), refusals, the walk and the checks are here.
 *
 *     alloc   find, take out of the structure, cut: the front is handed out, the rest is filed
 *     free    merge with free neighbours (each taken out of the structure), file
 *
 * A free takes effect at once, unless the recording says when it completes; work of other streams is not
 * waited for. Cost: that of the fit's operations and a constant; nothing here is linear in the blocks but
 * walk, check and compaction.
 */
#ifndef ASIM_POLICIES_ARENA_H
#define ASIM_POLICIES_ARENA_H

#include "policies/free_index.h"
#include "sim/policy.h"

typedef struct asim_arena asim_arena;
typedef struct asim_compaction asim_compaction;
struct asim_compaction_params; /* policies/compaction.h */

enum {
    ASIM_ARENA_ALIGN_MIN = 512 /* bytes: the free index needs as much */
};

/* Beside asim_extent, which holds address, size and the neighbours. */
typedef struct asim_arena_note {
    union { /* the fit's own, while the block is filed */
        uint64_t value;
        struct {
            uint32_t prev, next; /* in a list of free blocks; see asim_arena_push */
        } link;
    } own;
    uint64_t streams; /* of a live block: a bit for each stream that uses it, see compaction.h */
    uint32_t up;      /* the fit's own too: what is above it in a tree */
    uint16_t device;
    uint8_t state;  /* asim_block_state; UINT8_MAX: the record is spare */
    bool unmovable; /* something outside knows its address */
} asim_arena_note;

_Static_assert(sizeof(asim_arena_note) == 24, "kept small: one for each block");

typedef struct asim_arena_home { /* one device */
    asim_region region;          /* size: what is cut into blocks */
    uint32_t first;              /* block of lowest address; 0: the region is not there yet */
    uint32_t free_count;
    uint64_t free_bytes, largest; /* of free blocks */
    asim_free_index *by_size;     /* where fit->sorted */
    void *own;                    /* fit->own_size zeroed bytes, the fit's structure for this device */
} asim_arena_home;

/* How a policy finds and files free blocks. Sizes are multiples of the alignment. All but find, file and take
 * may be NULL. */
typedef struct asim_fit {
    bool sorted;     /* every free block is kept in home->by_size too, which then tells the largest */
    size_t own_size; /* bytes a device */
    uint64_t (*round)(const asim_arena *arena, uint64_t size); /* NULL: up to the alignment; 0: too large */
    uint64_t (*needs)(const asim_arena *arena,
                      uint64_t size); /* a free block of this many is found for sure */
    uint32_t (*find)(asim_arena *arena, asim_arena_home *home, uint64_t size); /* a filed block, or 0 */
    void (*file)(asim_arena *arena, asim_arena_home *home, uint32_t block);
    void (*take)(asim_arena *arena, asim_arena_home *home, uint32_t block); /* out of the structure */
    /* The filed block grew or shrank at either end, and its neighbours in the structure are the same as
     * before: for a structure by address, which then is spared most of file and take. Not with sorted or
     * piece. */
    void (*resized)(asim_arena *arena, asim_arena_home *home, uint32_t block);
    uint64_t (*largest)(const asim_arena *arena, const asim_arena_home *home); /* where not sorted */
    /* A free range at offset from the region's start is filed in pieces: how large the first one is. NULL:
     * whole. Blocks of size bytes may then begin at multiples of size alone. */
    uint64_t (*piece)(const asim_arena *arena, uint64_t offset, uint64_t size);
    /* The free neighbour that a free block merges with, or 0. NULL: any. */
    uint32_t (*partner)(const asim_arena *arena, const asim_arena_home *home, uint32_t block);
    /* Whether the structure is sound and holds home->free_count blocks; ASIM_E_BUG if not. */
    asim_code (*check)(const asim_arena *arena, const asim_arena_home *home, asim_err *err);
} asim_fit;

struct asim_arena {
    const asim_fit *fit;
    asim_policy_env env;
    uint64_t pool, align; /* bytes; pool: ASIM_PARAM_NONE for all that the device has free */
    bool merges;          /* on free */
    asim_arena_home *homes;
    asim_extent *extents; /* [0] is none */
    asim_arena_note *notes;
    size_t extent_capacity, note_capacity;
    uint32_t count, spare;
    asim_compaction *compaction; /* NULL: nothing ever moves */
    asim_err fault;              /* why the run is broken */
};

/* The operations of sim/policy.h, for a policy whose state begins with its arena. pool and align: parameters
 * of the policy, align a power of two and at least ASIM_ARENA_ALIGN_MIN (refused with a message otherwise).
 * The arena must be zeroed; after a failed init fini is due all the same. */
asim_code asim_arena_init(asim_arena *arena, const asim_fit *fit, const asim_policy_env *env, uint64_t pool,
                          uint64_t align, const struct asim_compaction_params *compaction, asim_err *err);
void asim_arena_fini(asim_arena *arena);
asim_alloc_result asim_arena_alloc(asim_arena *arena, const asim_event *event, asim_placement *ret_placement);
asim_free_result asim_arena_free(asim_arena *arena, uint32_t word, bool completion_follows);
asim_free_result asim_arena_free_done(asim_arena *arena, uint32_t word);
asim_code asim_arena_check(const asim_arena *arena, asim_err *err);
void asim_arena_walk(const asim_arena *arena, const asim_walker *walker);

/* For compaction: a fresh record (0: out of host memory, arena->fault says so); a free range [address,
 * address + size), whose record follows before in the list (0: it is the first), cut into pieces and filed
 * (returns the last piece, 0 on failure); the largest free block brought up to date. */
uint32_t asim_arena_record(asim_arena *arena);
uint32_t asim_arena_file_gap(asim_arena *arena, unsigned device, uint32_t before, uint64_t address,
                             uint64_t size);
void asim_arena_take(asim_arena *arena, uint32_t block);
void asim_arena_retire(asim_arena *arena, uint32_t block);
void asim_arena_settle(asim_arena *arena, unsigned device);

/* Lists of free blocks through note->own.link; the head is a 32-bit index. */
static inline void asim_arena_push(asim_arena *arena, uint32_t *head, uint32_t block)
{
    arena->notes[block].own.link.prev = 0;
    arena->notes[block].own.link.next = *head;
    if (*head)
        arena->notes[*head].own.link.prev = block;
    *head = block;
}

static inline void asim_arena_unlink(asim_arena *arena, uint32_t *head, uint32_t block)
{
    const uint32_t prev = arena->notes[block].own.link.prev, next = arena->notes[block].own.link.next;
    if (prev)
        arena->notes[prev].own.link.next = next;
    else
        *head = next;
    if (next)
        arena->notes[next].own.link.prev = prev;
}

static inline uint64_t asim_arena_round(const asim_arena *arena, uint64_t size)
{
    return size > UINT64_MAX - arena->align ? 0 : (size + arena->align - 1) & ~(arena->align - 1);
}

static inline unsigned asim_log2(uint64_t size) /* rounded down; size > 0 */
{
    return 63U - (unsigned)__builtin_clzll(size);
}

/* For a policy's parameter table: pool and the smallest block, whose name differs. */
#define ASIM_ARENA_PARAMS(block, pool_default, align_name, align_help)                                       \
    {.name = "pool",                                                                                         \
     .type = ASIM_PARAM_BYTES,                                                                               \
     .offset = offsetof(block, pool),                                                                        \
     .default_text = pool_default,                                                                           \
     .min = UINT64_C(2) << 20,                                                                               \
     .max = UINT64_C(1) << 60,                                                                               \
     .none_allowed = true,                                                                                   \
     .help = "bytes of the one pool, taken from each device at its first request; none: all of it"},         \
    {                                                                                                        \
        .name = align_name, .type = ASIM_PARAM_BYTES, .offset = offsetof(block, align),                      \
        .default_text = "512", .min = ASIM_ARENA_ALIGN_MIN, .max = UINT64_C(2) << 20, .help = align_help     \
    }

/* For a policy's table: the operations of a policy whose state begins with asim_arena arena. */
#define ASIM_ARENA_OPERATIONS(prefix)                                                                        \
    static asim_alloc_result prefix##_alloc(asim_policy_state *state, const asim_event *event,               \
                                            asim_placement *ret_placement)                                   \
    {                                                                                                        \
        return asim_arena_alloc(&state->arena, event, ret_placement);                                        \
    }                                                                                                        \
    static asim_free_result prefix##_free(asim_policy_state *state, uint32_t word, bool completion_follows)  \
    {                                                                                                        \
        return asim_arena_free(&state->arena, word, completion_follows);                                     \
    }                                                                                                        \
    static asim_free_result prefix##_free_done(asim_policy_state *state, uint32_t word)                      \
    {                                                                                                        \
        return asim_arena_free_done(&state->arena, word);                                                    \
    }                                                                                                        \
    static asim_code prefix##_check(const asim_policy_state *state, asim_err *err)                           \
    {                                                                                                        \
        return asim_arena_check(&state->arena, err);                                                         \
    }                                                                                                        \
    static void prefix##_walk(const asim_policy_state *state, const asim_walker *walker)                     \
    {                                                                                                        \
        asim_arena_walk(&state->arena, walker);                                                              \
    }                                                                                                        \
    static void prefix##_fini(asim_policy_state *state)                                                      \
    {                                                                                                        \
        asim_arena_fini(&state->arena);                                                                      \
    }                                                                                                        \
    static void prefix##_use(asim_policy_state *state, uint32_t word, unsigned lane)                         \
    {                                                                                                        \
        asim_compaction_use(&state->arena, word, lane);                                                      \
    }                                                                                                        \
    static asim_code prefix##_mark(asim_policy_state *state, const asim_event *event, const char *label,     \
                                   asim_err *err)                                                            \
    {                                                                                                        \
        return asim_compaction_mark(&state->arena, event, label, err);                                       \
    }                                                                                                        \
    static void prefix##_metrics(const asim_policy_state *state,                                             \
                                 void (*emit)(void *ctx, const char *name, uint64_t value), void *ctx)       \
    {                                                                                                        \
        asim_compaction_metrics(&state->arena, emit, ctx);                                                   \
    }

#define ASIM_ARENA_TABLE(prefix)                                                                             \
    .version = ASIM_POLICY_VERSION, .flags = ASIM_POLICY_SINGLE_POOL | ASIM_POLICY_MOVES,                    \
    .state_size = sizeof(asim_policy_state), .init = prefix##_init, .alloc = prefix##_alloc,                 \
    .free = prefix##_free, .check = prefix##_check, .walk = prefix##_walk, .fini = prefix##_fini,            \
    .free_done = prefix##_free_done, .use = prefix##_use, .mark = prefix##_mark, .metrics = prefix##_metrics

#endif
