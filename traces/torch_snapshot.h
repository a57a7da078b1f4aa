/* traces/torch_snapshot.h - import of PyTorch CUDA memory snapshots.
 *
 * Reads what torch.cuda.memory._dump_snapshot(), pickle.dump of _snapshot() or memory_snapshot() (a bare list
 * of segments) and the C++ _memory_snapshot_pickled write. Layouts: specification sections 20 to 22; how the
 * opening state and the requests are found: section 23 (traces/torch_rebuild.h, traces/torch_emit.h).
 *
 * What becomes of it: allocations with requested size, recorded address and call stack; frees, with their
 * completion where it came later; empty_cache as TRIM; a request that failed as an ALLOC with a recorded oom
 * call; annotations as MARK; the recorded driver calls; the segments and blocks that were there when the
 * history began. Notes say in sentences what the recording can't tell.
 *
 * Memory: about 12 bytes a history entry, the distinct stacks, and the state at one moment.
 */
#ifndef ASIM_TRACES_TORCH_SNAPSHOT_H
#define ASIM_TRACES_TORCH_SNAPSHOT_H

#include "sim/source.h"

extern const asim_importer asim_importer_torch_snapshot; /* "torch-snapshot" */

#endif
