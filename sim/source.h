/* sim/source.h - importers and the sink they write to.
 *
 * An importer turns a foreign recording into events. It is a const table; the one for a file is chosen by
 * content (probe looks at the first bytes). It reads from an asim_input and writes to an asim_sink; it holds
 * no file names and no output format.
 */
#ifndef ASIM_SIM_SOURCE_H
#define ASIM_SIM_SOURCE_H

#include "sim/err.h"
#include "sim/event.h"
#include "sim/hostmem.h"

/* A stream of bytes, already decompressed. */
typedef struct asim_input {
    /* Reads up to capacity bytes into buffer; *ret_length 0 is the end. Errors name the position. */
    asim_code (*read)(void *ctx, void *buffer, size_t capacity, size_t *ret_length, asim_err *err);
    void *ctx;
} asim_input;

/* An event with what goes into the columns. Absent: ASIM_NO_ADDRESS, ASIM_NO_INDEX. */
typedef struct asim_sink_event {
    asim_event event;
    uint64_t time_ns;          /* nondecreasing; 0 for all where there is no time */
    uint64_t recorded_address; /* of an ALLOC */
    uint32_t stack;
} asim_sink_event;

/* Where an importer, a generator or a recorder puts a trace. Tables may grow while events are written;
 * interning the same thing twice gives the same index (but a device is a new one each time). Every call
 * returns ASIM_OK or ends the import. */
typedef struct asim_sink_ops {
    asim_code (*string)(void *ctx, const char *text, size_t length, uint32_t *ret_index, asim_err *err);
    asim_code (*stack)(void *ctx, const asim_frame *frames, size_t count, uint32_t *ret_index, asim_err *err);
    asim_code (*device)(void *ctx, const asim_trace_device *device, uint32_t *ret_index, asim_err *err);
    asim_code (*lane)(void *ctx, const asim_lane *lane, uint32_t *ret_index, asim_err *err);
    /* Before the first event. blocks: those of the segment, first_block and block_count are ignored. */
    asim_code (*opening)(void *ctx, const asim_opening_segment *segment, const asim_opening_block *blocks,
                         size_t block_count, asim_err *err);
    asim_code (*event)(void *ctx, const asim_sink_event *event, asim_err *err);
    /* A driver call of the recorded allocator; it belongs to the next event written (call->event is set by
     * the sink). */
    asim_code (*call)(void *ctx, const asim_recorded_call *call, asim_err *err);
    /* One fact about the whole: what it came from, the settings, the start, what it can't tell. */
    asim_code (*source)(void *ctx, const char *format, asim_err *err);
    asim_code (*settings)(void *ctx, const char *text, asim_err *err);
    asim_code (*start)(void *ctx, uint64_t unix_ns, asim_err *err);
    asim_code (*note)(void *ctx, const char *text, asim_err *err);
} asim_sink_ops;

typedef struct asim_sink {
    const asim_sink_ops *ops;
    void *ctx;
} asim_sink;

typedef struct asim_importer {
    const char *name;    /* as --format spells it: "torch-snapshot" */
    const char *summary; /* one line */
    /* 0: not mine; larger: more certain. head holds the first length bytes, at most 4096. */
    int (*probe)(const uint8_t *head, size_t length);
    asim_code (*import)(const asim_input *input, const asim_sink *sink, const asim_hostmem *mem,
                        asim_err *err);
} asim_importer;

#endif
