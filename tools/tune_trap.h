/* tools/tune_trap.h - the two settings that fight: max_split_size_mb with expandable_segments:True.
 *
 * Free blocks of the maximum and more are kept from smaller requests. In a segment that grows, what was freed
 * merges into such blocks, so that smaller requests map new memory each time (pytorch issue 123548). `tune`
 * never proposes the pair; it runs it, and shows what comes of it on this workload.
 */
#ifndef ASIM_TOOLS_TUNE_TRAP_H
#define ASIM_TOOLS_TUNE_TRAP_H

#include "tools/tune_search.h"

enum {
    ASIM_TUNE_POINTS = 7
};

typedef struct asim_tune_trap {
    bool warns;             /* the pair needs 5 % more than either alone, or the user has set it */
    bool users;             /* the baseline has both */
    bool ends;              /* with both, PyTorch does not survive this trace */
    uint64_t max_split_mib; /* of the pair */
    uint64_t peak, split_alone, expandable_alone; /* reserved at the peak */
    size_t trace;
    uint64_t points[ASIM_TUNE_POINTS]; /* reserved, at equal distances along the trace */
    size_t point_count;
} asim_tune_trap;

/* Not run, and nothing to warn of, where the release has no expandable segments, or either is forbidden and
 * the baseline does not have both. */
asim_code asim_tune_try_trap(const asim_cli *cli, const asim_tune_job *job, const asim_tune_found *found,
                             asim_tune_trap *ret_trap, asim_err *err);

#endif
