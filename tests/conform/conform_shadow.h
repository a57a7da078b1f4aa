/* tests/conform/conform_shadow.h - a shadow of the device: plain arrays, searched from end to end.
 *
 * An observer that keeps every block and every piece of held memory in two arrays and compares each with
 * each. Too simple to be wrong, and it shares no code with the referee or with any policy. Its rules: a block
 * is as large as its request, lies in memory held in the region it names, and touches no other block; what is
 * freed is live, what completes is pending; a refused request was told to the listener; the books agree.
 */
#ifndef ASIM_TESTS_CONFORM_CONFORM_SHADOW_H
#define ASIM_TESTS_CONFORM_CONFORM_SHADOW_H

#include "sim/observer.h"

enum {
    CONFORM_BLOCKS = 4096,
    CONFORM_HELD = 4096,
};

typedef struct conform_piece {
    uint64_t address, size, requested;
    uint32_t region;
    bool pending;
} conform_piece;

typedef struct conform_shadow {
    conform_piece blocks[CONFORM_BLOCKS]; /* live or pending, in no order */
    conform_piece held[CONFORM_HELD];
    size_t block_count, held_count;
    uint64_t placed, refusals; /* in the whole run */
    bool scattered;            /* some blocks are pieces of allocations */
} conform_shadow;

extern const asim_observer conform_shadow_observer; /* its config: a conform_shadow, zeroed */

#endif
