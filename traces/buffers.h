/* traces/buffers.h - lists of buffers as MiniMalloc and TelaMalloc write them: sizes with known lifetimes.
 *
 *     id,lower,upper,size
 *     b1,0,3,4
 *
 * The first line names the columns, in any order: id (or buffer, buffer_id), lower (begin, start), upper and
 * size must be there, alignment, offset and gaps may; others are an error. A buffer lives from lower on, and
 * no longer at upper; a column called end instead holds the last moment of life, one less. Numbers are
 * decimal and below 2^63. Nothing is quoted. https://github.com/google/minimalloc, M. D. Moffitt, MiniMalloc,
 * ASPLOS 2023.
 *
 * As an importer ("minimalloc-csv") it makes an ALLOC and a FREE of each buffer, in order of time; at one
 * moment frees come first, and each kind in the order of the rows. Times are the file's own.
 */
#ifndef ASIM_TRACES_BUFFERS_H
#define ASIM_TRACES_BUFFERS_H

#include "sim/source.h"

typedef struct asim_buffer_row {
    uint64_t lower, upper; /* lower < upper */
    uint64_t size;
    uint64_t alignment; /* 1 where the file doesn't say */
    uint64_t offset;    /* ASIM_NO_ADDRESS where the file doesn't say */
} asim_buffer_row;

typedef struct asim_buffer_list {
    const asim_hostmem *mem;
    asim_buffer_row *rows; /* row i stands in line i + 2, blank lines aside */
    size_t count, capacity;
    bool has_alignments; /* one is not 1 */
    bool has_offsets;
    bool has_gaps; /* a gap in a lifetime is named; gaps are not kept */
} asim_buffer_list;

/* Reads a whole file. Errors are ASIM_E_INPUT, name the line and what was expected there; err->position is
 * the line. Whatever comes back, asim_buffers_fini follows. Memory: 40 bytes a row. */
asim_code asim_buffers_read(const asim_input *input, const asim_hostmem *mem, asim_buffer_list *ret_list,
                            asim_err *err);
void asim_buffers_fini(asim_buffer_list *list);

extern const asim_importer asim_importer_buffers;

#endif
