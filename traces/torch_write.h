/* traces/torch_write.h - writes a PyTorch memory snapshot: what is in memory, and the history before it.
 *
 * The file has the layout of a PyTorch release (specification, sections 20 to 22): its keys and their order,
 * as PyTorch's own _memory_viz.py and viewer page read them. Everything comes as plain structs; history
 * entries are asked for one by one, so that nothing is kept twice. The file is written beside its target and
 * renamed (traces/out_file.h).
 *
 *     asim_torch_out out = {.release = 206, .trace = &trace, .segments = segments, ...};
 *     code = asim_torch_write("run.pickle", &out, mem, &err);
 *
 * Memory: four bytes a string, frame and stack of the trace.
 */
#ifndef ASIM_TRACES_TORCH_WRITE_H
#define ASIM_TRACES_TORCH_WRITE_H

#include "sim/event.h"
#include "sim/hostmem.h"

enum {
    ASIM_TORCH_OUT_DIVISIONS = 16,
};

typedef enum asim_torch_out_action {
    ASIM_TORCH_OUT_ALLOC,
    ASIM_TORCH_OUT_FREE_REQUESTED,
    ASIM_TORCH_OUT_FREE_COMPLETED,
    ASIM_TORCH_OUT_SEGMENT_ALLOC,
    ASIM_TORCH_OUT_SEGMENT_FREE,
    ASIM_TORCH_OUT_SEGMENT_MAP,
    ASIM_TORCH_OUT_SEGMENT_UNMAP,
    ASIM_TORCH_OUT_OOM, /* its address is the device's free bytes (R44) */
    ASIM_TORCH_OUT_ACTIONS
} asim_torch_out_action;

typedef struct asim_torch_out_pool { /* (0, 0): the default pool */
    uint64_t first, second;
} asim_torch_out_pool;

typedef struct asim_torch_out_block {
    uint64_t size;
    uint64_t requested; /* of a free block: stale (R151) */
    uint32_t stack;     /* of the trace, or ASIM_NO_INDEX */
    uint8_t state;      /* asim_block_state */
} asim_torch_out_block;

typedef struct asim_torch_out_segment {
    uint64_t address, stream;
    size_t first_block, block_count; /* in the blocks below; they fill the segment from its address on */
    asim_torch_out_pool pool;
    uint32_t stack;
    uint16_t device; /* as the file numbers it */
    bool small, expandable;
} asim_torch_out_segment;

typedef struct asim_torch_out_entry {
    uint64_t address, size, stream;
    uint64_t time_us; /* since 1970 */
    asim_torch_out_pool pool;
    uint32_t stack;
    uint16_t device;
    uint8_t action; /* asim_torch_out_action */
} asim_torch_out_entry;

typedef struct asim_torch_out_annotation {
    uint64_t time_us;
    uint32_t name; /* string of the trace */
    uint16_t device;
    uint8_t flags; /* ASIM_MARK_BEGIN, ASIM_MARK_END or neither */
} asim_torch_out_annotation;

typedef struct asim_torch_out_settings { /* R154 */
    const char *conf;                    /* the option string; "" where there was none */
    int64_t max_split_size;              /* bytes; -1: unlimited */
    double gc_threshold;
    bool expandable;
    uint32_t divisions[ASIM_TORCH_OUT_DIVISIONS]; /* of roundup_power2_divisions, by slot */
} asim_torch_out_settings;

typedef struct asim_torch_out {
    unsigned release;                       /* 206 for 2.6: asim_torch_release */
    const asim_trace *trace;                /* its strings, frames and stacks */
    const asim_torch_out_segment *segments; /* by device, then address (R146) */
    size_t segment_count;
    const asim_torch_out_block *blocks;
    uint32_t device_count; /* histories are written for devices 0 to device_count - 1 */

    /* The history, oldest first; entry fills in all fields. */
    uint64_t entry_count;
    void (*entry)(void *ctx, uint64_t number, asim_torch_out_entry *ret_entry);
    void *ctx;
    bool timed; /* entries have times; otherwise the key is left out */

    const asim_torch_out_annotation *annotations;
    size_t annotation_count;
    const asim_torch_out_settings *settings; /* NULL: none, and no key */
} asim_torch_out;

/* "2.6" and "2.6.1" are 206, "1.13" is 113; ASIM_TORCH_NEWEST for anything else. */
unsigned asim_torch_release(const char *text);

/* Release 1.13 keeps no history and no annotations: those are left out (section 21). */
asim_code asim_torch_write(const char *path, const asim_torch_out *out, const asim_hostmem *mem,
                           asim_err *err);

#endif
