/* traces/text.h - traces as text, one event a line: for tests written by hand, for looking, for diff.
 *
 *     alloc a 512            # names are free to choose; a free name is a new block
 *     @1500 free a           # 1500 ns after the start
 *
 * traces/FORMAT.md, "Text form", has the grammar. Every trace can be written as text and read back: the
 * result has the same digest. A text without devices and lanes gets one of each.
 */
#ifndef ASIM_TRACES_TEXT_H
#define ASIM_TRACES_TEXT_H

#include "sim/source.h"

typedef struct asim_text_out {
    asim_code (*write)(void *ctx, const char *text, size_t length, asim_err *err);
    void *ctx;
} asim_text_out;

/* Writes the whole trace: tables, opening state, events. The text comes in portions of a few KiB. */
asim_code asim_text_write(const asim_trace *trace, const asim_hostmem *mem, const asim_text_out *out,
                          asim_err *err);

/* Only the events [first, first + count), and the recorded calls that belong to them; what lies behind the
 * end is left out. Lanes and stacks appear by their numbers. */
asim_code asim_text_write_events(const asim_trace *trace, uint64_t first, uint64_t count,
                                 const asim_hostmem *mem, const asim_text_out *out, asim_err *err);

/* Feeds a text to a sink. Errors are ASIM_E_INPUT, name the line and what was expected there; err->position
 * is the line. */
asim_code asim_text_read(const asim_input *input, const asim_sink *sink, const asim_hostmem *mem,
                         asim_err *err);

/* "text": the reader as an importer. */
extern const asim_importer asim_importer_text;

#endif
