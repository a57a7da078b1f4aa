/* tools/tune_breaks.h - which values of max_split_size_mb can differ on a workload.
 *
 * PyTorch compares the maximum m with two kinds of sizes only (specification, R37, R54, R62):
 *
 *   - the rounded size r of a request of the large pool: r < m may split a block, and may not take one of m
 *     and more;
 *   - the size of a free block. With m no smaller than the segments for medium requests (L, 20 MiB), as every
 *     release demands, a free block of m and more is a whole segment of a size S that follows from r (L, or r
 *     in steps of 2 MiB): a segment of m and more is cut only for a request of less than m, which leaves a
 *     part of more than 1 MiB on both sides, and m <= S <= m + 1 MiB, so that both parts are below m.
 *
 * r < m and S >= m change between k and k + 1 MiB, where k is r or S in whole MiB: so what a run does is
 * constant between the values k + 1, and one value of each interval tells all. Beyond the largest, m limits
 * nothing.
 *
 *     r, S           45.5 46           91 92
 *     m      21 ... 45 | 46 | 47 ... 91 | 92 | 93 ...      (from 93 on as without the option)
 *
 * Two things are not covered by this: segments of the opening state that are cut already, whose parts may
 * have any size (then every whole MiB up to the largest of them counts), and expandable segments, with which
 * max_split_size_mb is not proposed at all.
 */
#ifndef ASIM_TOOLS_TUNE_BREAKS_H
#define ASIM_TOOLS_TUNE_BREAKS_H

#include "tools/tune.h"

enum {
    ASIM_TUNE_BREAKS_MAX = 400
};

typedef struct asim_tune_sizes { /* of all traces */
    uint64_t *sizes;             /* distinct requested sizes, ascending */
    size_t count, capacity;
    uint64_t *segments; /* distinct sizes of opening segments of the large pool, ascending */
    size_t segment_count, segment_capacity;
    uint64_t cut_bytes; /* the largest opening segment that is cut into blocks; 0: none */
    bool any_medium;    /* some request is served from segments of L */
} asim_tune_sizes;

/* Adds what a trace asks for. Freed with asim_tune_sizes_fini, also after an error. */
asim_code asim_tune_sizes_add(asim_tune_sizes *sizes, const asim_trace *trace, const asim_hostmem *mem,
                              asim_err *err);
void asim_tune_sizes_fini(asim_tune_sizes *sizes, const asim_hostmem *mem);

/* The values, in MiB, ascending, one of each interval but the last (which is `none`): the smallest in it.
 * rounding and large_segment are those of the setting. *ret_complete is false where there are more than
 * ASIM_TUNE_BREAKS_MAX: then the smallest of them are given, and of the others every so-manieth. */
asim_code asim_tune_breaks(const asim_tune_sizes *sizes, const asim_tc_release *release,
                           const asim_tc_rounding *rounding, uint64_t large_segment,
                           uint64_t ret_mib[ASIM_TUNE_BREAKS_MAX], size_t *ret_count, bool *ret_complete,
                           const asim_hostmem *mem, asim_err *err);

#endif
