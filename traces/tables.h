/* traces/tables.h - the tables of a trace while they grow: strings, stacks, devices, lanes, facts.
 *
 * Strings, frames, stacks and lanes are kept once: adding the same again gives the first index. A device is
 * new each time (two cards of one model are two devices). Frames are numbered in the order in which stacks
 * first use them. Pointers obtained through a view stay good until the next addition.
 */
#ifndef ASIM_TRACES_TABLES_H
#define ASIM_TRACES_TABLES_H

#include "sim/buf.h"
#include "sim/event.h"
#include "sim/idmap.h"

enum {
    ASIM_STRING_MAX = 1 << 20, /* bytes of one string */
    ASIM_STACK_MAX = 0xFFFF,   /* lines of one stack */
};

typedef struct asim_tables {
    const asim_hostmem *mem;
    asim_buf text; /* every string, each with its zero, in order */
    asim_string *strings;
    size_t string_count, string_capacity;
    asim_frame *frames;
    size_t frame_count, frame_capacity;
    uint32_t *stack_frames;
    size_t stack_frame_count, stack_frame_capacity;
    asim_stack *stacks;
    size_t stack_count, stack_capacity;
    asim_trace_device *devices;
    size_t device_count, device_capacity;
    asim_lane *lanes;
    size_t lane_count, lane_capacity;
    uint32_t *notes;
    size_t note_count, note_capacity;
    uint32_t source, settings; /* ASIM_NO_INDEX until set */
    uint64_t start_unix_ns;
    asim_idmap string_index, frame_index, stack_index, lane_index; /* by hash; a collision moves on by one */
} asim_tables;

void asim_tables_init(asim_tables *tables, const asim_hostmem *mem);
void asim_tables_fini(asim_tables *tables);

/* Gives up the look-up maps, which a finished trace does not need. Nothing may be added afterwards. */
void asim_tables_seal(asim_tables *tables);

/* The sink's calls of the same names. Bytes of text that are not UTF-8, and zero bytes, become U+FFFD.
 * Errors: ASIM_E_INPUT for indices out of range and for more than the limits; ASIM_E_SYSTEM. */
asim_code asim_tables_string(asim_tables *tables, const char *text, size_t length, uint32_t *ret_index,
                             asim_err *err);
asim_code asim_tables_stack(asim_tables *tables, const asim_frame *frames, size_t count, uint32_t *ret_index,
                            asim_err *err);
asim_code asim_tables_device(asim_tables *tables, const asim_trace_device *device, uint32_t *ret_index,
                             asim_err *err);
asim_code asim_tables_lane(asim_tables *tables, const asim_lane *lane, uint32_t *ret_index, asim_err *err);
asim_code asim_tables_source(asim_tables *tables, const char *format, asim_err *err);
asim_code asim_tables_settings(asim_tables *tables, const char *text, asim_err *err);
asim_code asim_tables_note(asim_tables *tables, const char *text, asim_err *err);

/* Lets the table fields of *trace point here. */
void asim_tables_view(const asim_tables *tables, asim_trace *trace);

/* How many bytes of text are well-formed UTF-8 (no surrogates, nothing overlong) without a zero byte. */
size_t asim_utf8_prefix(const char *text, size_t length);

#endif
