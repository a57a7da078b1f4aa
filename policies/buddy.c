/* buddy - the binary buddy system in one pool: a textbook reference.
 *
 * Knowlton, "A Fast Storage Allocator", CACM 8(10), 1965; Knuth, The Art of Computer Programming 1,
 * section 2.5, algorithms R and S. Blocks have 2^k bytes and begin at multiples of 2^k; a request takes the
 * next power of two. A larger block is halved until it fits, the upper halves stay free; a freed block merges
 * with its buddy, the other half, as long as that is free and whole. Lists by k, the block freed last in
 * front: at most one step for each power of two.
 *
 *     100   [             512             ]
 *     ->    [  128  ][ 128 ][     256     ]     handed out, free, free
 *     free  [             512             ]     128 + 128 = 256, 256 + 256 = 512
 *
 * A pool whose size is no power of two is cut into the largest aligned powers of two, from its low end.
 * Left out: Fibonacci and weighted buddies. A compaction moves blocks in address order to multiples of their
 * size, which may leave aligned gaps between a small block and a larger one.
 */
#include "policies/compaction.h"
#include "policies/order_lists.h"
#include "policies/registry.h"

#include <stddef.h>

typedef struct buddy_params {
    uint64_t pool, align;
    asim_compaction_params compaction;
} buddy_params;

static const asim_param params[] = {
    ASIM_ARENA_PARAMS(buddy_params, "none", "min_block", "bytes of the smallest block, a power of two"),
    ASIM_COMPACTION_PARAMS(buddy_params, compaction),
};

struct asim_policy_state {
    asim_arena arena;
};

static const asim_fit fit = {
    .own_size = sizeof(asim_order_lists),
    .round = asim_order_round,
    .find = asim_order_find,
    .file = asim_order_file,
    .take = asim_order_take,
    .largest = asim_buddy_largest,
    .piece = asim_buddy_piece,
    .partner = asim_buddy_partner,
    .check = asim_order_check,
};

static asim_code buddy_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                            asim_err *err)
{
    const buddy_params *given = block;
    return asim_arena_init(&state->arena, &fit, env, given->pool, given->align, &given->compaction, err);
}

ASIM_ARENA_OPERATIONS(buddy)

const asim_policy asim_policy_buddy = {
    ASIM_ARENA_TABLE(buddy),
    .name = "buddy",
    .summary = "binary buddy system in one pool",
    .source = "Knowlton, CACM 8(10), 1965; Knuth, The Art of Computer Programming 1, section 2.5",
    .params = {params, sizeof params / sizeof params[0], sizeof(buddy_params)},
};
