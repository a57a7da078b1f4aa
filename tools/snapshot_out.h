/* tools/snapshot_out.h - a run's final state and history as a PyTorch memory snapshot. */
#ifndef ASIM_TOOLS_SNAPSHOT_OUT_H
#define ASIM_TOOLS_SNAPSHOT_OUT_H

#include "sim/engine.h"
#include "sim/history.h"
#include "tools/setup.h"

/* Writes path after the engine ran the trace to its end. The layout is that of the release that the policy
 * follows, or of the newest one. conf: the option string that the user or the recording gave, or NULL; it is
 * shown where it says what the policy's parameters say. Settings are those of a policy that models PyTorch's
 * allocator; others show none. */
asim_code asim_snapshot_out(const char *path, const asim_engine *engine, const asim_history *history,
                            const asim_trace *trace, const asim_setup *setup, const char *conf,
                            const asim_hostmem *mem, asim_err *err);

#endif
