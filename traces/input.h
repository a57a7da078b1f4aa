/* traces/input.h - the bytes of a file as a stream, decompressed on the way.
 *
 * gzip and zstd are recognised by their first bytes, not by the name; everything else is passed on as it is.
 * What is held is one buffer and the decompressor's window (at most 128 MiB for zstd, 32 KiB for gzip),
 * however much the file unpacks to.
 *
 *     asim_file_input *file;
 *     if (!asim_file_input_open(path, mem, &file, &err)) {
 *         asim_input input = asim_file_input_stream(file);
 *         ...
 *     }
 *     asim_file_input_close(file);
 */
#ifndef ASIM_TRACES_INPUT_H
#define ASIM_TRACES_INPUT_H

#include "sim/source.h"

enum {
    ASIM_INPUT_HEAD_MAX = 4096
}; /* bytes that asim_file_input_head shows at most */

typedef struct asim_file_input asim_file_input;

/* Opens path ("-" is standard input). A directory, an unreadable and an empty file are errors of their own;
 * messages don't name the path. *ret_file is set on success only. */
asim_code asim_file_input_open(const char *path, const asim_hostmem *mem, asim_file_input **ret_file,
                               asim_err *err);
void asim_file_input_close(asim_file_input *file); /* NULL is fine */

/* The stream; valid until the file is closed. Its errors name the offset in the file as it lies on disk. */
asim_input asim_file_input_stream(asim_file_input *file);

/* The first bytes of what the stream gives (up to ASIM_INPUT_HEAD_MAX, fewer if there are no more), without
 * taking them from it. Before the first read only. */
asim_code asim_file_input_head(asim_file_input *file, const uint8_t **ret_head, size_t *ret_length,
                               asim_err *err);

/* "plain", "gzip" or "zstd". */
const char *asim_file_input_packing(const asim_file_input *file);

/* Bytes of the file read so far, as they lie on disk, and all of them (0 where unknown): for progress. */
void asim_file_input_progress(const asim_file_input *file, uint64_t *ret_done, uint64_t *ret_total);

#endif
