/* traces/torch_notes.h - what a trace's notes say of the numbers that its snapshot used.
 *
 * An import numbers devices and private pools from 0 on; where the snapshot's own numbers are others, a note
 * keeps them (so that people see them, too) and the snapshot that is written after a run uses them again.
 */
#ifndef ASIM_TRACES_TORCH_NOTES_H
#define ASIM_TRACES_TORCH_NOTES_H

#include "sim/event.h"

#include <inttypes.h>

/* printf formats: size_t and uint64_t twice; size_t and unsigned. */
#define ASIM_TORCH_POOL_NOTE   "Pool %zu is the private pool (%" PRIu64 ", %" PRIu64 ")."
#define ASIM_TORCH_DEVICE_NOTE "Device %zu is device %u of the recording."

/* The id of a pool of the trace: as noted, or (0, pool). */
void asim_torch_noted_pool(const asim_trace *trace, unsigned pool, uint64_t *ret_first, uint64_t *ret_second);

/* The number of a device of the trace: as noted, or the same; below ASIM_DEVICES_MAX. */
unsigned asim_torch_noted_device(const asim_trace *trace, unsigned device);

#endif
