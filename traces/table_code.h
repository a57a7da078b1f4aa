/* traces/table_code.h - tables, opening state, recorded calls and the index to sections and back (FORMAT.md).
 *
 * Encoders append the sections of one frame to *content and use *columns, ASIM_SECTIONS_MAX initialised
 * buffers, for the parts. Decoders check that indices fit 32 bits and that counts agree; what the items mean
 * is for traces/check.h.
 */
#ifndef ASIM_TRACES_TABLE_CODE_H
#define ASIM_TRACES_TABLE_CODE_H

#include "traces/body.h"
#include "traces/format.h"

/* How much of each table has been written. */
typedef struct asim_table_mark {
    size_t strings, frames, stacks, devices, lanes, notes;
    bool facts;
} asim_table_mark;

/* True if the tables hold something that mark has not; facts (source, settings, start) only with last. */
bool asim_tables_pending(const asim_tables *tables, const asim_table_mark *mark, bool last);

/* One frame of what is pending, as much as fits; moves the mark. */
asim_code asim_encode_tables(const asim_tables *tables, asim_table_mark *mark, bool last, asim_buf *columns,
                             asim_buf *content, asim_err *err);
asim_code asim_decode_tables(const asim_bytes sections[ASIM_SECTIONS_MAX], asim_tables *tables,
                             const asim_hostmem *mem, asim_err *err);

asim_code asim_encode_segments(const asim_opening_segment *segments, size_t count, asim_buf *columns,
                               asim_buf *content, asim_err *err);
asim_code asim_encode_blocks(const asim_opening_block *blocks, size_t count, asim_buf *columns,
                             asim_buf *content, asim_err *err);
asim_code asim_encode_calls(const asim_recorded_call *calls, size_t count, asim_buf *columns,
                            asim_buf *content, asim_err *err);

/* Append count items to the body; first_block of segments goes on from the segments before. */
asim_code asim_decode_segments(const asim_bytes sections[ASIM_SECTIONS_MAX], size_t count, asim_body *body,
                               asim_err *err);
asim_code asim_decode_blocks(const asim_bytes sections[ASIM_SECTIONS_MAX], size_t count, asim_body *body,
                             asim_err *err);
asim_code asim_decode_calls(const asim_bytes sections[ASIM_SECTIONS_MAX], size_t count, asim_body *body,
                            asim_err *err);

asim_code asim_encode_index(const asim_frame_entry *entries, size_t count, asim_buf *columns,
                            asim_buf *content, asim_err *err);

/* Fills count entries; offsets go on from offset, the first of event frames from 0. */
asim_code asim_decode_index(const asim_bytes sections[ASIM_SECTIONS_MAX], uint64_t offset,
                            asim_frame_entry *entries, size_t count, asim_err *err);

#endif
