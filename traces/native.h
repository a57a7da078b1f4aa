/* traces/native.h - the native trace file (traces/FORMAT.md): writer, whole reader, window reader.
 *
 * A file is a sequence of independent zstd frames, so that a window of a large trace is read without what
 * precedes it. It is written under a temporary name and renamed when complete.
 */
#ifndef ASIM_TRACES_NATIVE_H
#define ASIM_TRACES_NATIVE_H

#include "sim/source.h"

typedef struct asim_trace_writer asim_trace_writer;

/* Starts writing path. asim_trace_writer_sink gives the sink; asim_trace_writer_close completes the file and
 * renames it, or, after any error or with abandon, removes what was written. The writer is freed either way.
 */
asim_code asim_trace_writer_open(const char *path, const asim_hostmem *mem, asim_trace_writer **ret_writer,
                                 asim_err *err);
asim_sink asim_trace_writer_sink(asim_trace_writer *writer);
asim_code asim_trace_writer_close(asim_trace_writer *writer, bool abandon, asim_err *err);

/* Reads a whole file; *ret_trace is freed with asim_trace_release. Nothing is believed: sizes are checked
 * against the file before memory is taken; every index is in range when this returns ASIM_OK, times do not
 * run backwards, and no id is live twice. Errors name the frame. warn (NULL allowed) hears of skipped kinds.
 */
asim_code asim_trace_load(const char *path, const asim_hostmem *mem, void (*warn)(void *, const char *),
                          void *warn_ctx, asim_trace **ret_trace, asim_err *err);

/* The events [first, first + count) alone (fewer where the trace ends), with all tables and their columns and
 * calls, counted from the window's start; ids are those of the whole trace. The opening state is there if
 * first is 0. Otherwise blocks may be freed of which the window knows no allocation: such a trace is for
 * looking at, not for running. Only the frames that hold all this are decoded. */
asim_code asim_trace_load_window(const char *path, uint64_t first, uint64_t count, const asim_hostmem *mem,
                                 asim_trace **ret_trace, asim_err *err);

void asim_trace_release(asim_trace *trace); /* NULL is fine */

/* A sink that builds a trace in memory (tests, small inputs). finish hands the trace over and frees the
 * builder; with ret_trace NULL it only frees. */
typedef struct asim_trace_builder asim_trace_builder;
asim_code asim_trace_builder_new(const asim_hostmem *mem, asim_trace_builder **ret_builder, asim_err *err);
asim_sink asim_trace_builder_sink(asim_trace_builder *builder);
asim_code asim_trace_builder_finish(asim_trace_builder *builder, asim_trace **ret_trace, asim_err *err);

/* Feeds a whole trace to a sink: what was read, written again. */
asim_code asim_trace_copy(const asim_trace *trace, const asim_sink *sink, asim_err *err);

#endif
