/* traces/torch_notes.h - what a trace's notes say of the numbers that its snapshot used.
 *
 * An import numbers devices and private pools from 0 on; where the snapshot's own numbers are others, a note
 * keeps them (so that people see them, too) and the snapshot that is written after a run uses them again.
 */
#ifndef ASIM_TRACES_TORCH_NOTES_H
#define ASIM_TRACES_TORCH_NOTES_H

#include "sim/event.h"
#include "traces/torch_layout.h"

#include <inttypes.h>

/* printf formats: unsigned four times (2.10 to 2.11), or twice; size_t and uint64_t twice; size_t and
 * unsigned. */
#define ASIM_TORCH_LAYOUT_NOTE "PyTorch's release is not recorded; the keys are those of %u.%u to %u.%u."
#define ASIM_TORCH_NEWEST_NOTE "PyTorch's release is not recorded; the keys are those of %u.%u and later."
#define ASIM_TORCH_POOL_NOTE   "Pool %zu is the private pool (%" PRIu64 ", %" PRIu64 ")."
#define ASIM_TORCH_DEVICE_NOTE "Device %zu is device %u of the recording."

/* The id of a pool of the trace: as noted, or (0, pool). */
void asim_torch_noted_pool(const asim_trace *trace, unsigned pool, uint64_t *ret_first, uint64_t *ret_second);

/* The newest release that the snapshot can come from by its keys, 211 for 2.11, or ASIM_TORCH_NEWEST; 0: not
 * noted, as in traces of other formats, of snapshots without history, and imported before this was noted. */
unsigned asim_torch_noted_release(const asim_trace *trace);

/* The number of a device of the trace: as noted, or the same; below ASIM_DEVICES_MAX. */
unsigned asim_torch_noted_device(const asim_trace *trace, unsigned device);

#endif
