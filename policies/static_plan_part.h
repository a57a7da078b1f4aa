/* policies/static_plan_part.h - one part of a plan, and the methods that pack it: first fit, skyline, search.
 *
 * A part is a set of items over sections 0 to section_count - 1 in which no border between sections is free
 * of items. Each method fills offsets, one an item, and says where the highest item ends.
 */
#ifndef ASIM_POLICIES_STATIC_PLAN_PART_H
#define ASIM_POLICIES_STATIC_PLAN_PART_H

#include "sim/err.h"
#include "sim/hostmem.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct asim_plan_item {
    uint64_t size;        /* bytes, at least 1 */
    uint64_t align;       /* at least 1 */
    uint64_t life;        /* end minus begin, in the unit of the buffers */
    uint32_t first, last; /* sections [first, last) */
} asim_plan_item;

typedef struct asim_plan_part {
    const asim_plan_item *items; /* by first section */
    uint32_t count;
    uint32_t section_count;
    uint64_t lower_bound; /* of this part alone */
    const asim_hostmem *mem;
} asim_plan_part;

static inline uint64_t asim_plan_align(uint64_t offset, uint64_t align)
{
    return (offset + align - 1) / align * align;
}

/* What an order of items looks at, largest first; ties go to the next criterion of the same string, in the
 * end to the lower index. 'L': lifetime; 'S': size; 'A': their product; 'T': the most bytes alive in one of
 * its sections. order has room for count indices. */
asim_code asim_plan_order(const asim_plan_part *part, const char *criteria, uint32_t *ret_order,
                          asim_err *err);

/* How many pairs of items meet, at most limit. Cost: linear. */
uint64_t asim_plan_pairs(const asim_plan_part *part, uint64_t limit);

/* First fit: each item in turn goes to the lowest offset that is free during its life. meets, from
 * asim_plan_meets, lists who meets whom. Cost: the number of pairs, times the logarithm of the largest list.
 */
typedef struct asim_plan_meets {
    uint64_t *starts; /* count + 1 places in others */
    uint32_t *others;
    uint64_t pairs;
} asim_plan_meets;

asim_code asim_plan_meets_new(const asim_plan_part *part, uint64_t pairs, asim_plan_meets *ret_meets,
                              asim_err *err);
void asim_plan_meets_free(const asim_plan_part *part, asim_plan_meets *meets);
asim_code asim_plan_first_fit(const asim_plan_part *part, const asim_plan_meets *meets, const uint32_t *order,
                              uint64_t *ret_offsets, uint64_t *ret_bytes, asim_err *err);

/* Best fit on the skyline: see static_plan_skyline.c. Among the items that fit, the first in order is taken.
 */
asim_code asim_plan_skyline(const asim_plan_part *part, const uint32_t *order, uint64_t *ret_offsets,
                            uint64_t *ret_bytes, asim_err *err);

typedef enum asim_plan_answer {
    ASIM_PLAN_FOUND,
    ASIM_PLAN_NONE,    /* proven: there is none */
    ASIM_PLAN_STOPPED, /* out of steps */
} asim_plan_answer;

/* Looks for a plan of at most `enough` bytes, in at most *steps nodes, which goes down by those visited. The
 * offsets are written if it is found. count is at most ASIM_PLAN_EXACT_MAX. See static_plan_search.c. */
asim_code asim_plan_search(const asim_plan_part *part, uint64_t enough, uint64_t *steps,
                           asim_plan_answer *ret_answer, uint64_t *ret_offsets, asim_err *err);

#endif
