/* policies/torchcache_state.h - the records of a torchcache run and what its parts offer each other.
 *
 *     lane ---> shelf (one stream's share of one pool of one device)
 *                 |-- free: its free mapped blocks by (size, position)
 *                 `-- unmapped: its unmapped blocks by address
 *     device --- groups: the default pools first, then private ones by ascending id; a group is a small and a
 *                large pool (R4); a pool is its shelves by ascending stream, which is the order of R33
 *
 * A block's extent holds its position, which orders blocks of one size as the release does (R33): the address
 * itself, or, where the oldest segment comes first, a place in one line of all segments by age. Addresses are
 * read with asim_tc_address.
 *
 * Blocks are two records of the same 32-bit index, an asim_extent and an asim_tc_block; an index is what the
 * engine keeps as a block's word. Index 0 is none. Records that were destroyed are used again, last first.
 * Which record a block lives in decides which stale requested size a free block shows (R2).
 *
 * Functions that can need host memory or call the device return false, or 0, after asim_tc_fail has noted
 * why; from then on the run is broken and check() gives the reason.
 */
#ifndef ASIM_POLICIES_TORCHCACHE_STATE_H
#define ASIM_POLICIES_TORCHCACHE_STATE_H

#include "policies/free_index.h"
#include "policies/torchcache_conf.h"
#include "policies/torchcache_message.h"
#include "policies/torchcache_stats.h"
#include "sim/policy.h"

typedef enum asim_tc_block_state {
    ASIM_TC_FREE = ASIM_BLOCK_FREE,
    ASIM_TC_LIVE = ASIM_BLOCK_LIVE,
    ASIM_TC_PENDING = ASIM_BLOCK_PENDING, /* freed, waits for events, for free_done or on the deferred list */
    ASIM_TC_UNMAPPED = 3,                 /* address space without memory */
    ASIM_TC_SPARE = 4,                    /* the record is not in use */
} asim_tc_block_state;

typedef struct asim_tc_block {
    uint64_t requested; /* of the last allocation that used this record */
    uint64_t inserted;  /* its pool's search count at the last insertion into the free set (R39) */
    uint32_t shelf;
    uint32_t segment;
    uint32_t uses;   /* first note: streams that use it too, ascending */
    uint16_t events; /* recorded and not completed */
    uint8_t state;
    bool expandable;
} asim_tc_block;

_Static_assert(sizeof(asim_tc_block) == 32, "two records share a cache line");

/* One region of the device: a plain segment, or a reserved range with pages mapped into it. */
typedef struct asim_tc_segment {
    uint64_t address, size;
    uint64_t shift;  /* added to a position it gives the address, modulo 2^64 */
    uint64_t page;   /* bytes; 0: a plain segment */
    uint32_t region; /* the device's index */
    uint32_t first;  /* its block of lowest address */
    uint32_t shelf;
} asim_tc_segment;

/* A use of a block by another stream; later, the event that stands for it in that stream's queue. */
typedef struct asim_tc_note {
    uint64_t event;
    uint32_t block;
    uint32_t stream;
    uint32_t next;
    bool captured; /* the use was made in a capture situation */
} asim_tc_note;

typedef struct asim_tc_queue { /* events of one stream, oldest first */
    uint32_t stream;
    uint32_t head, tail;
} asim_tc_queue;

typedef struct asim_tc_group asim_tc_group;

typedef struct asim_tc_shelf asim_tc_shelf;

typedef struct asim_tc_pool {
    uint64_t searches; /* R37 step 1 */
    asim_tc_shelf **shelves;
    size_t shelf_count, shelf_capacity;
} asim_tc_pool;

struct asim_tc_shelf {
    asim_free_index free;
    asim_tc_pool *pool;
    asim_tc_stats *stats;       /* of its device */
    asim_tc_requests *requests; /* of those, its kind's */
    asim_tc_group *group;
    uint64_t stream; /* handle */
    uint32_t index;  /* in state->shelves */
    uint16_t device;
    uint16_t lane; /* one with this device and stream, for driver calls */
    bool large;
    bool has_range;     /* one was reserved before */
    bool no_split;      /* R112: its group's */
    uint32_t *unmapped; /* by ascending address */
    size_t unmapped_count, unmapped_capacity;
};

struct asim_tc_group {
    uint16_t pool; /* id; 0: the default pools */
    uint16_t device;
    bool exists;                 /* private: created and not yet released for good */
    int64_t uses;                /* private: at 0 freeable */
    int64_t segments;            /* private: R45, R53, R91, R95 */
    asim_tc_pair reserved_bytes; /* private: R123 */
    bool has_obtained;           /* private: it ever got memory */
    bool use_on_oom;             /* private: R111 */
    bool no_split;               /* private: R112 */
    asim_tc_pool pools[2];       /* small, large */
};

typedef struct asim_tc_scope { /* an open allocation scope (R103) */
    asim_tc_group *group;
    bool all;     /* every stream; otherwise those of streams */
    bool capture; /* a graph capture */
    uint32_t *streams;
    size_t stream_count, stream_capacity;
} asim_tc_scope;

typedef struct asim_tc_device {
    asim_tc_stats stats;
    uint64_t reserved;      /* R8: bytes held from the driver */
    uint64_t limit;         /* R114; ASIM_TC_UNLIMITED: none set */
    uint64_t capacity;      /* D */
    uint32_t current;       /* stream of the latest request or capture, while a scope is open (R77) */
    uint64_t attention;     /* outstanding events + deferred blocks + open scopes: 0 on the usual path */
    asim_tc_group **groups; /* by ascending pool; [0] is the default one */
    size_t group_count, group_capacity;
    uint32_t *order; /* segments by address */
    size_t order_count, order_capacity;
    asim_tc_queue *queues; /* that hold events, by ascending stream */
    size_t queue_count, queue_capacity;
    uint32_t *deferred; /* blocks, in the order of their frees (R78) */
    size_t deferred_count, deferred_capacity;
    asim_tc_scope *scopes; /* open ones, oldest first */
    size_t scope_count, scope_capacity;
    uint16_t *active; /* pools entered and not left, innermost last (R61) */
    size_t active_count, active_capacity;
} asim_tc_device;

typedef struct asim_tc_stream { /* a distinct (device, stream) of the lane table */
    uint64_t handle;
    uint16_t device;
    uint16_t lane; /* the first with it */
} asim_tc_stream;

typedef struct asim_tc_lane {
    asim_tc_shelf *shelves[2]; /* of the lane's own pool: small, large; NULL until first used */
    asim_tc_device *device;
    asim_tc_group *group;
    uint32_t stream; /* index into state->streams */
} asim_tc_lane;

struct asim_policy_state {
    /* What every request reads. */
    asim_tc_lane *lanes;
    asim_extent *extents;
    asim_tc_block *blocks;
    asim_tc_segment *segments;
    asim_tc_shelf **shelves;
    asim_tc_options options;
    asim_policy_counters *counters;
    uint32_t spare_block; /* records not in use, linked by next */
    bool largest_stale;   /* counters->largest_free_bytes may be too large */
    bool broken;
    bool rejected; /* R116: the request at hand */

    asim_tc_device *devices;
    asim_tc_stream *streams; /* by ascending (device, handle) */
    asim_tc_note *notes;
    uint32_t *scratch;
    uint32_t spare_note, spare_segment;
    uint32_t block_count, note_count, segment_count; /* records that were ever in use, with index 0 */
    uint32_t stream_count;
    size_t extent_capacity, block_capacity, note_capacity, segment_capacity, shelf_capacity, scratch_capacity;
    size_t shelf_count, lane_count, device_count;
    uint64_t next_position; /* of the next segment, where the oldest comes first */
    const asim_tc_release *release;
    const asim_hostmem *mem;
    const asim_listener *listener;
    const asim_lane *lane_table;
    asim_device driver;
    asim_err fault;          /* why the run is broken */
    asim_tc_refusal refusal; /* the latest */
};

typedef asim_policy_state asim_tc_state;

/* --- torchcache.c */

/* Notes the first reason why the run is broken; returns false. */
bool asim_tc_fail(asim_tc_state *state, asim_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a device operation that neither worked nor ran out of memory. */
bool asim_tc_fail_driver(asim_tc_state *state, const char *operation);

/* Everything but the parameters of a run's beginning; fraction below 0: no limit but the options' own. */
asim_code asim_tc_begin(asim_tc_state *state, const asim_policy_env *env, const asim_tc_release *release,
                        const asim_tc_options *options, double fraction, asim_err *err);

/* The operations of sim/policy.h, for the policies that this allocator serves. */
asim_alloc_result asim_tc_alloc(asim_tc_state *state, const asim_event *event, asim_placement *ret_placement);
asim_free_result asim_tc_free(asim_tc_state *state, uint32_t block, bool completion_follows);
asim_free_result asim_tc_free_done(asim_tc_state *state, uint32_t block);
void asim_tc_use(asim_tc_state *state, uint32_t block, unsigned lane);
asim_code asim_tc_trim(asim_tc_state *state, const asim_event *event, asim_err *err);
asim_code asim_tc_fraction(asim_tc_state *state, unsigned device, double fraction, asim_err *err);
void asim_tc_reset_stats(asim_tc_state *state, unsigned device, bool peaks);
void asim_tc_report(const asim_tc_state *state, unsigned device,
                    void (*emit)(void *ctx, const char *name, int64_t value), void *ctx);

static inline uint64_t asim_tc_address(const asim_tc_state *state, uint32_t block)
{
    return state->extents[block].address + state->segments[state->blocks[block].segment].shift;
}

/* --- torchcache_records.c: growing tables and their records */

asim_code asim_tc_tables_init(asim_tc_state *state, const asim_policy_env *env, asim_err *err);
void asim_tc_tables_fini(asim_tc_state *state);
/* A record that was never in use; see asim_tc_block_new. */
uint32_t asim_tc_block_fresh(asim_tc_state *state);
uint32_t asim_tc_note_new(asim_tc_state *state);
void asim_tc_note_drop(asim_tc_state *state, uint32_t note);
/* A segment with one block that covers it; the block is in no set. Counts nothing. Returns the block. */
uint32_t asim_tc_segment_new(asim_tc_state *state, asim_tc_shelf *shelf, const asim_region *region,
                             uint64_t page);
void asim_tc_segment_drop(asim_tc_state *state, uint32_t segment);
/* The shelf of a group for one stream; made on first use. */
asim_tc_shelf *asim_tc_shelf_of(asim_tc_state *state, asim_tc_group *group, uint32_t stream, bool large);
/* Grows an array of item_size bytes an item to need items; on failure the run is broken. */
bool asim_tc_grow(asim_tc_state *state, void *array, size_t *capacity, size_t need, size_t item_size);

/* --- torchcache_search.c (section 7) */

/* R37 steps 3 to 5 for the first sufficient block: the block to use, still in its set; or 0. expandable:
 * whether expandable segments are active for the request. */
uint32_t asim_tc_search_from(asim_tc_state *state, const asim_tc_shelf *shelf, uint32_t found,
                             uint64_t rounded, bool expandable);

/* --- torchcache_obtain.c: new segments, garbage collection, releases (sections 9 to 11) */

/* R45. *ret_block: the found block, which is in the free set here; 0: no memory. False: broken. */
bool asim_tc_obtain(asim_tc_state *state, asim_tc_shelf *shelf, uint64_t rounded, bool retry,
                    uint32_t *ret_block);
bool asim_tc_collect_garbage(asim_tc_state *state, asim_tc_device *device);
bool asim_tc_release_available(asim_tc_state *state, asim_tc_shelf *shelf, uint64_t rounded,
                               bool *ret_success);
/* R57; pool 0: the default pools. */
bool asim_tc_release_all(asim_tc_state *state, unsigned device, uint16_t pool);

/* --- torchcache_expandable.c (section 15) */

/* R91, as asim_tc_obtain. */
bool asim_tc_expand(asim_tc_state *state, asim_tc_shelf *shelf, uint64_t rounded, uint32_t *ret_block);
/* Cuts the front off a free block, so that a request of 2 MiB or more begins at a multiple of base_align, if
 * there is room. False: broken. */
bool asim_tc_align_base(asim_tc_state *state, asim_tc_shelf *shelf, uint32_t block, uint64_t rounded);
/* R95 and R96. */
bool asim_tc_unmap(asim_tc_state *state, uint32_t block);
bool asim_tc_unmapped_add(asim_tc_state *state, asim_tc_shelf *shelf, uint32_t block);
void asim_tc_unmapped_take(asim_tc_state *state, asim_tc_shelf *shelf, uint32_t block);
/* R83. */
uint64_t asim_tc_range_size(const asim_tc_state *state, const asim_tc_shelf *shelf);
uint64_t asim_tc_page_size(const asim_tc_state *state, const asim_tc_shelf *shelf);

/* --- torchcache_events.c: uses by other streams (section 14) */

bool asim_tc_use_add(asim_tc_state *state, uint32_t block, unsigned lane);
void asim_tc_uses_clear(asim_tc_state *state, uint32_t block);
/* R66 for a block with uses. */
bool asim_tc_free_used(asim_tc_state *state, uint32_t block);
/* Whether a request looks at events before it searches. */
bool asim_tc_looks_now(const asim_tc_state *state, const asim_tc_device *device);
/* R73, outside capture situations. */
bool asim_tc_process_events(asim_tc_state *state, asim_tc_device *device);
/* R74; group NULL: all blocks. */
bool asim_tc_sync_events(asim_tc_state *state, asim_tc_device *device, const asim_tc_group *group);

/* Whether the current stream takes part in a capture. */
bool asim_tc_current_captures(const asim_tc_device *device);

/* R77: a capture situation. */
static inline bool asim_tc_capturing(const asim_tc_state *state, const asim_tc_device *device)
{
    return device->scope_count > 0 &&
           (!state->release->captures_by_stream || asim_tc_current_captures(device));
}

/* --- torchcache_pools.c: private pools and scopes (section 16) */

/* R106: the group that a request on a lane without a pool of its own goes to. */
asim_tc_group *asim_tc_route(const asim_tc_state *state, const asim_tc_lane *lane);
/* The open scope of a group; NULL: none. */
asim_tc_scope *asim_tc_scope_of(asim_tc_device *device, const asim_tc_group *group);
asim_code asim_tc_pool_event(asim_tc_state *state, const asim_event *event, asim_err *err);
/* A request names a private pool directly: it exists from then on (R102). */
void asim_tc_group_ensure(asim_tc_group *group);
/* The pool is gone; its id can be used anew (R57). */
void asim_tc_group_end(asim_tc_state *state, asim_tc_group *group);

/* --- torchcache_adopt.c, torchcache_walk.c, torchcache_check.c */

asim_code asim_tc_adopt(asim_tc_state *state, const asim_trace *trace, asim_placement *ret_placements,
                        asim_err *err);
void asim_tc_walk(const asim_tc_state *state, const asim_walker *walker);
asim_code asim_tc_check(const asim_tc_state *state, asim_err *err);

#endif
