/* policies/static_plan_pack.h - offsets for buffers whose lifetimes are known: dynamic storage allocation,
 * offline.
 *
 * Given size, alignment and lifetime of each buffer, finds offsets in one address space so that no two that
 * live at the same time overlap, and its end, `bytes`, is as low as possible. NP-hard (Garey and Johnson,
 * SR2), so there are two halves: heuristics for any number of buffers, and an exact search for few.
 *
 *     bytes  |         [ b1 ][ b2 ]                 no buffer lives to the left of its begin,
 *            |         [    b3    ][     b4     ]   or to the right of its end
 *            |_________[           b5           ]__ time
 *
 * Neighbouring moments with the same set of live buffers are one section, and of the sections only those
 * count that no other contains: two buffers meet if and only if they share one. Where no buffer spans the
 * border between two sections, the two sides are packed apart.
 *
 * The result is a function of the arguments alone: effort is counted in steps, never in seconds. Host memory:
 * about 150 bytes a buffer, and up to 128 MiB for the pairs of buffers that meet.
 */
#ifndef ASIM_POLICIES_STATIC_PLAN_PACK_H
#define ASIM_POLICIES_STATIC_PLAN_PACK_H

#include "sim/err.h"
#include "sim/hostmem.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct asim_plan_buffer {
    uint64_t begin, end; /* lives in [begin, end), of any unit; begin < end */
    uint64_t size;       /* bytes */
    uint64_t align;      /* its offset is a multiple of this; at least 1 */
    uint64_t offset;     /* the result */
} asim_plan_buffer;

typedef struct asim_plan_options {
    uint64_t enough;    /* a plan of that many bytes is good enough; 0: as few as possible */
    uint64_t steps;     /* most nodes of the exact search, over all of it; 0: heuristics alone */
    uint32_t exact_max; /* most buffers of a part that the exact search takes on */
} asim_plan_options;

typedef struct asim_plan_result {
    uint64_t bytes;       /* end of the highest buffer */
    uint64_t lower_bound; /* no plan needs less: most bytes alive at once, or more if the search proved it */
    uint64_t steps;       /* nodes that the exact search visited */
    bool least;           /* proven: no plan needs less than bytes */
} asim_plan_result;

enum {
    ASIM_PLAN_EXACT_MAX = 2048 /* largest exact_max: the search needs the square of it in words */
};

/* Fills in the offsets. Errors: ASIM_E_INPUT (a buffer that ends before it begins, an alignment of 0, sizes
 * and alignments that add up to 2^62 or more), ASIM_E_SYSTEM. */
asim_code asim_plan_pack(asim_plan_buffer *buffers, uint32_t count, const asim_plan_options *options,
                         const asim_hostmem *mem, asim_plan_result *ret_result, asim_err *err);

#endif
