/* tools/load.h - a trace for a verb: a native file, or a foreign recording turned into a trace in memory. */
#ifndef ASIM_TOOLS_LOAD_H
#define ASIM_TOOLS_LOAD_H

#include "sim/event.h"
#include "sim/source.h"
#include "tools/cli.h"
#include "traces/input.h"

/* Whether the file begins like a trace of ours; false, too, when it can't be read. */
bool asim_is_native(const char *path);

/* *ret_imported (NULL allowed): the importer's name, or NULL for a native file. Warnings go to standard
 * error; errors name the file. The trace is freed with asim_trace_release. */
asim_code asim_load_trace(const asim_cli *cli, const char *path, asim_trace **ret_trace,
                          const char **ret_imported, asim_err *err);

/* Opens a foreign recording and finds its importer by content, or, when format is given, by name. Errors
 * don't name the file; format must be known. */
asim_code asim_recording_open(const asim_cli *cli, const char *path, const char *format,
                              asim_file_input **ret_file, const asim_importer **ret_importer, asim_err *err);

/* A whole small text file, zero-terminated; freed with asim_mem_free(mem, text, length + 1, 1). */
asim_code asim_load_text(const asim_cli *cli, const char *path, size_t limit, char **ret_text,
                         size_t *ret_length, asim_err *err);

#endif
