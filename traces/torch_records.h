/* traces/torch_records.h - what a PyTorch memory snapshot says, as flat tables, and the reader that fills
 * them.
 *
 * The reader is a client of the pickle reader: every dict is told apart by its keys when it is complete
 * (a history entry has `action`, a segment `blocks`, a block `state`, a frame `filename`, ...) and becomes a
 * record or a number. Keys may come in any order, be missing or unknown. Layouts and keys: specification
 * sections 20 to 22.
 */
#ifndef ASIM_TRACES_TORCH_RECORDS_H
#define ASIM_TRACES_TORCH_RECORDS_H

#include "sim/event.h"
#include "sim/idmap.h"
#include "traces/pickle.h"
#include "traces/torch_entries.h"

#define ASIM_TORCH_NO_POOL 0xFFFF /* of a route: the entry does not say */

typedef struct asim_torch_route {
    uint64_t stream;
    uint16_t pool;
} asim_torch_route;

typedef struct asim_torch_pool { /* number 0 is (0, 0), the default pool; others by first use */
    uint64_t first, second;
} asim_torch_pool;

typedef struct asim_torch_block {
    uint64_t address; /* ASIM_NO_ADDRESS: not told */
    uint64_t size, requested;
    uint32_t stack;
    uint8_t state; /* asim_block_state */
} asim_torch_block;

typedef struct asim_torch_segment {
    uint64_t address, size, stream;
    uint32_t first_block, block_count;
    uint32_t stack;
    uint16_t device, pool;
    bool expandable, small;
} asim_torch_segment;

typedef enum asim_torch_stage {
    ASIM_TORCH_MOMENT = 0,
    ASIM_TORCH_START = 1,
    ASIM_TORCH_END = 2,
} asim_torch_stage;

typedef struct asim_torch_annotation {
    uint64_t time_us;
    uint32_t name; /* string */
    uint8_t stage;
} asim_torch_annotation;

typedef struct asim_torch_range { /* consecutive records of one kind: what a list became */
    uint64_t first, count;
    uint8_t tag;
} asim_torch_range;

typedef struct asim_torch_settings {
    bool present;
    uint32_t conf;           /* string, or ASIM_NO_INDEX */
    uint64_t max_split_size; /* bytes; UINT64_MAX: unlimited */
    double gc_threshold;     /* 0: off */
    bool expandable;
    uint8_t divisions_present;
    uint32_t divisions[16]; /* of roundup_power2_divisions, by slot (R23) */
} asim_torch_settings;

typedef struct asim_torch_records {
    const asim_hostmem *mem;
    asim_pickle *pickle;
    asim_strtab strings;

    asim_frame *frames;
    size_t frame_count, frame_capacity;
    asim_idmap frame_index;
    uint32_t *stack_frames;
    size_t stack_frame_count, stack_frame_capacity;
    asim_stack *stacks;
    size_t stack_count, stack_capacity;
    asim_idmap stack_index;

    asim_torch_pool *pools;
    size_t pool_count, pool_capacity;
    asim_torch_pool *pairs; /* tuples of two integers, whatever they mean */
    size_t pair_count, pair_capacity;
    asim_idmap pair_index, pool_index;
    asim_torch_route *routes;
    size_t route_count, route_capacity;
    asim_idmap route_index;
    uint16_t last_route;

    asim_torch_entries entries;
    asim_torch_block *blocks;
    size_t block_count, block_capacity;
    uint64_t claimed_blocks; /* belong to a segment; those of the next one come after them */
    asim_torch_segment *segments;
    size_t segment_count, segment_capacity;
    asim_torch_annotation *annotations;
    size_t annotation_count, annotation_capacity;
    asim_torch_block *owners; /* from block histories: requested size and stack */
    size_t owner_count, owner_capacity;
    asim_torch_range *ranges;
    size_t range_count, range_capacity;

    asim_torch_settings settings;
    unsigned newest_key; /* release of the newest key met (traces/torch_layout.h); 0: none that tells */
    bool has_metadata;   /* some entry carries a user's text or a compile context that says something */
    /* Filled from the top level. */
    asim_torch_range segment_range;
    asim_torch_range trace_ranges; /* of ranges, one a device */
    bool bare;                     /* a list of segments, without history */
    bool bytes_follow;             /* after the pickle's end */
} asim_torch_records;

/* Reads a snapshot. The records must be zeroed before; fini accepts them in any state. */
asim_code asim_torch_records_read(asim_torch_records *r, const asim_input *input, const asim_hostmem *mem,
                                  asim_err *err);
void asim_torch_records_fini(asim_torch_records *r);

/* The history of one device, first to last: entries [*ret_first, *ret_first + count). */
uint64_t asim_torch_trace(const asim_torch_records *r, size_t device, uint64_t *ret_first);

/* --- tables (torch_tables.c) --- */
asim_code asim_torch_frame(asim_torch_records *r, asim_frame frame, uint32_t *ret_number, asim_err *err);
/* frames: items of a list, each one's payload a frame number. If their tags differ, they are not all frames:
 * *ret_number is ASIM_NO_INDEX. */
asim_code asim_torch_stack(asim_torch_records *r, const asim_pickle_item *frames, size_t count,
                           uint32_t *ret_number, asim_err *err);
asim_code asim_torch_pair(asim_torch_records *r, uint64_t first, uint64_t second, uint32_t *ret_number,
                          asim_err *err);
asim_code asim_torch_pool_number(asim_torch_records *r, uint32_t pair, uint16_t *ret_pool, asim_err *err);
asim_code asim_torch_route_number(asim_torch_records *r, uint64_t stream, uint16_t pool, uint16_t *ret_route,
                                  asim_err *err);

#endif
