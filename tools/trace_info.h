/* tools/trace_info.h - what `trace info` says of a trace. */
#ifndef ASIM_TOOLS_TRACE_INFO_H
#define ASIM_TOOLS_TRACE_INFO_H

#include "sim/event.h"
#include "traces/info.h"

#include <stdio.h>

/* imported: the importer's name where the file is a foreign recording, or NULL. */
void asim_print_trace_info(FILE *out, const char *path, const char *imported, const asim_trace *trace,
                           const asim_trace_info *info);

#endif
