/* sim/event.h - what a trace says: events, tables, opening state. Read-only once decoded.
 *
 * A trace records the workload (sizes, lifetimes, streams, phases), never one allocator's decisions. What
 * the recorded allocator itself did (addresses, segments) rides along in columns of its own, as a check.
 * One decoded trace is shared, unchanged, by every run of a sweep.
 */
#ifndef ASIM_SIM_EVENT_H
#define ASIM_SIM_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum asim_event_kind {
    ASIM_EV_NONE = 0,
    ASIM_EV_ALLOC = 1,         /* id, size, lane */
    ASIM_EV_FREE = 2,          /* id; flag ASIM_FREE_PENDING: its completion is recorded and follows */
    ASIM_EV_FREE_DONE = 3,     /* id of a block freed with ASIM_FREE_PENDING: it is reusable from here on */
    ASIM_EV_USE = 4,           /* id, lane: that stream uses the block too (record_stream) */
    ASIM_EV_RESIZE = 5,        /* id, size: the allocation's new size; its contents are kept */
    ASIM_EV_ACCESS = 6,        /* id, size: bytes touched, lane */
    ASIM_EV_KERNEL = 7,        /* lane: its stream is busy for size nanoseconds more */
    ASIM_EV_SYNC = 8,          /* id: asim_sync_scope; lane names the stream or the device */
    ASIM_EV_TRIM = 9,          /* empty_cache; lane ASIM_LANE_ALL: every device, default scope */
    ASIM_EV_POOL_RETAIN = 10,  /* lane's (device, pool): one use more; creates the pool; flags below */
    ASIM_EV_POOL_BEGIN = 11,   /* retain, then requests that match are routed to the pool; flags below */
    ASIM_EV_POOL_JOIN = 12,    /* lane's stream is routed to lane's pool, whose scope is open */
    ASIM_EV_POOL_END = 13,     /* routing to the pool ends; the use stays */
    ASIM_EV_POOL_RELEASE = 14, /* one use less; at 0 the pool's memory may be released */
    ASIM_EV_POOL_ENTER = 15,   /* lane's pool becomes the active one (contexts nest) */
    ASIM_EV_POOL_LEAVE = 16,   /* the pool that was active before is active again, or none */
    ASIM_EV_SETTINGS = 17,     /* id: string; the allocator's option string is replaced */
    ASIM_EV_FRACTION = 18,     /* lane names the device; size: the bits of an IEEE double, 0 to 1 */
    ASIM_EV_STATS_RESET = 19,  /* lane names the device; id: 0 peaks, 1 accumulated totals */
    ASIM_EV_MARK = 20,   /* id: string (the label); size: asim_mark_kind; flags: begin, end or neither */
    ASIM_EV_PREFIX = 21, /* id, size: the next ALLOC that grows begins with the same size bytes as block id */
    ASIM_EV_KINDS = 22
} asim_event_kind;

enum {                        /* flags, by kind */
    ASIM_ALLOC_UNMOVABLE = 1, /* ALLOC: something outside knows its address; compaction leaves it alone */
    ASIM_ALLOC_GROWS = 2,     /* ALLOC: a KV cache, whose size RESIZE events change */
    ASIM_FREE_PENDING = 1,    /* FREE */
    ASIM_POOL_USE_ON_OOM = 1, /* POOL_RETAIN: gives free blocks to requests that find no memory */
    ASIM_POOL_NO_SPLIT = 2,   /* POOL_RETAIN: a request gets a whole segment of the pool */
    ASIM_POOL_ALL = 1,        /* POOL_BEGIN: requests of every stream; otherwise those of POOL_JOIN alone */
    ASIM_POOL_CAPTURE = 2,    /* POOL_BEGIN: a graph capture, rather than a user's scope */
    ASIM_MARK_BEGIN = 1,      /* MARK */
    ASIM_MARK_END = 2,        /* MARK */
};

typedef enum asim_sync_scope {
    ASIM_SYNC_STREAM = 0, /* all work issued so far on the lane's stream completes */
    ASIM_SYNC_DEVICE = 1, /* ... on every stream of the lane's device */
    ASIM_SYNC_ALL = 2,    /* ... on every device */
} asim_sync_scope;

typedef enum asim_mark_kind {
    ASIM_MARK_ITERATION = 0,
    ASIM_MARK_PHASE = 1,
    ASIM_MARK_REQUEST = 2,
    ASIM_MARK_OTHER = 3,
} asim_mark_kind;

/* 16 bytes. id is a dense slot number: a slot is reused once its block's free has completed, so an array of
 * trace->slot_count entries holds every live block. */
typedef struct asim_event {
    uint8_t kind;
    uint8_t flags;
    uint16_t lane; /* index into trace->lanes */
    uint32_t id;
    uint64_t size;
} asim_event;

_Static_assert(sizeof(asim_event) == 16, "a resident event costs 16 bytes");

/* A lane is a distinct (device, stream, pool) of the trace: what a request is routed by. */
typedef struct asim_lane {
    uint64_t stream; /* the stream's handle as recorded; 0 is the legacy default stream */
    uint16_t device; /* index into trace->devices */
    uint16_t pool;   /* 0: none named (the default pool, or the one whose scope is open) */
} asim_lane;

enum {
    ASIM_LANE_ALL = 0xFFFF, /* no single device or stream */
    ASIM_LANES_MAX = 0xFFFF,
    ASIM_DEVICES_MAX = 64,
};

#define ASIM_NO_ADDRESS UINT64_MAX
#define ASIM_NO_INDEX   UINT32_MAX

typedef struct asim_string {
    const char *text; /* UTF-8, zero-terminated, may not hold zero bytes */
    uint32_t length;  /* bytes */
} asim_string;

typedef struct asim_frame { /* one line of a call stack */
    uint32_t function;      /* string */
    uint32_t file;          /* string */
    uint32_t line;
} asim_frame;

typedef struct asim_stack {
    uint32_t first; /* index into trace->stack_frames, innermost call first */
    uint32_t count;
} asim_stack;

typedef struct asim_trace_device {
    uint32_t name;     /* string, or ASIM_NO_INDEX */
    uint64_t capacity; /* bytes; 0 where the recording does not tell */
} asim_trace_device;

/* A segment that exists before the first event. Cut into blocks by asim_opening_block, without gaps. */
typedef struct asim_opening_segment {
    uint64_t address;
    uint64_t size;        /* bytes */
    uint32_t first_block; /* index into trace->opening_blocks */
    uint32_t block_count;
    uint16_t lane;
    uint8_t expandable; /* a maximal mapped run of an expandable segment */
    uint8_t small;      /* belongs to the pool for small requests */
    uint32_t stack;     /* or ASIM_NO_INDEX */
} asim_opening_segment;

typedef enum asim_block_state {
    ASIM_BLOCK_FREE = 0,
    ASIM_BLOCK_LIVE = 1,
    ASIM_BLOCK_PENDING = 2, /* freed, not reusable yet: waits for another stream */
} asim_block_state;

typedef struct asim_opening_block {
    uint64_t size;      /* bytes, the recorded or reconstructed block size */
    uint64_t requested; /* bytes; 0 where unknown */
    uint32_t id;        /* slot of a live or pending block; ASIM_NO_INDEX for a free one */
    uint32_t stack;     /* or ASIM_NO_INDEX */
    uint8_t state;      /* asim_block_state */
} asim_opening_block;

/* A driver call of the recorded allocator. */
typedef enum asim_call_kind {
    ASIM_CALL_SEGMENT_ALLOC = 0,
    ASIM_CALL_SEGMENT_FREE = 1,
    ASIM_CALL_MAP = 2,
    ASIM_CALL_UNMAP = 3,
    ASIM_CALL_OOM = 4, /* the request of this event failed; address: device free bytes, size: rounded */
} asim_call_kind;

typedef struct asim_recorded_call {
    uint64_t event; /* index of the event during which it happened */
    uint64_t address;
    uint64_t size;
    uint16_t lane;
    uint8_t kind; /* asim_call_kind */
} asim_recorded_call;

typedef struct asim_trace {
    uint64_t digest; /* of everything below, independent of how it is compressed */
    const asim_event *events;
    uint64_t event_count;
    uint32_t slot_count; /* every id of a block is below this */

    /* Columns of event_count items, or NULL where the recording has none. */
    const uint64_t *times_ns;           /* nondecreasing, from the recording's start */
    const uint64_t *recorded_addresses; /* of ALLOC events; ASIM_NO_ADDRESS otherwise */
    const uint32_t *stacks;             /* of any event; ASIM_NO_INDEX where none */

    const asim_lane *lanes;
    uint32_t lane_count;
    const asim_trace_device *devices;
    uint32_t device_count;
    const asim_string *strings;
    uint32_t string_count;
    const asim_frame *frames; /* distinct frames */
    uint32_t frame_count;
    const uint32_t *stack_frames; /* frame indices of all stacks, one after another */
    uint32_t stack_frame_count;
    const asim_stack *stack_table; /* distinct stacks */
    uint32_t stack_count;

    const asim_opening_segment *opening_segments; /* by device, then address */
    uint32_t opening_segment_count;
    const asim_opening_block *opening_blocks;
    uint32_t opening_block_count;

    const asim_recorded_call *calls; /* in recorded order */
    uint32_t call_count;

    uint32_t source;       /* string: the format it came from, "torch-snapshot", or ASIM_NO_INDEX */
    uint32_t settings;     /* string: the recorded allocator's option string, or ASIM_NO_INDEX */
    const uint32_t *notes; /* strings: what the recording can't tell, a sentence each */
    uint32_t note_count;
    uint64_t start_unix_ns; /* wall clock of the recording's start; 0 where unknown */
} asim_trace;

/* The kind's name as the text form spells it ("alloc"), or NULL for a kind that does not exist. */
const char *asim_event_kind_name(unsigned kind);

#endif
