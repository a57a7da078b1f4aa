/* pow2 - the pooled allocator of NPU runtimes: one pool, size classes by powers of two, newest free block
 * first.
 *
 * The published design: a pool of 8 GiB is taken at the start; a request is rounded up to a power of two, its
 * class; each class has a LIFO list of free blocks. An empty list falls back to the next larger class that
 * has a block: that one is split, and the remainder returned. A freed block merges with both neighbours.
 *
 *     400 KB   [                  pool                  ]
 *     ->       [ 512 KB ][          remainder           ]      112 KB of the block, 22 %, are wasted
 *
 * split=remainder, as published: a block larger than the class is split, and a remainder of any size goes to
 * the list of the power of two that is not above it, as does what merges. So lists hold blocks that don't
 * match their class: a remainder of 300 KB later serves the class 256 KB, and leaves one of 44. split=buddy:
 * blocks have powers of two at multiples of their size, are halved, and merge with their buddies alone
 * (policies/order_lists.h): the policy buddy, with this one's pool.
 *
 * merge=auto merges on free as compact says (not with none); off never does, so that only a compaction that
 * moves blocks joins what is free; on contradicts compact=none.
 *
 * Ties: the block that entered a list last. Cost: a fixed number of steps, and those of the index that knows
 * the largest free block. Left out: the source's map from addresses to blocks and its locks.
 */
#include "policies/compaction.h"
#include "policies/order_lists.h"
#include "policies/registry.h"

#include <stddef.h>

enum {
    SPLIT_REMAINDER,
    SPLIT_BUDDY,
    MERGE_AUTO = 0,
    MERGE_ON,
    MERGE_OFF
};

typedef struct pow2_params {
    uint64_t pool, align;
    int split, merge;
    asim_compaction_params compaction;
} pow2_params;

static const char *const splits[] = {"remainder", "buddy", NULL};
static const char *const merges[] = {"auto", "on", "off", NULL};

static const asim_param params[] = {
    ASIM_ARENA_PARAMS(pow2_params, "8GiB", "min_block", "bytes of the smallest class, a power of two"),
    {.name = "split",
     .type = ASIM_PARAM_CHOICE,
     .offset = offsetof(pow2_params, split),
     .default_text = "remainder",
     .choices = splits,
     .help = "of a larger block the rest of any size goes back to the lists, or it is halved into buddies"},
    {.name = "merge",
     .type = ASIM_PARAM_CHOICE,
     .offset = offsetof(pow2_params, merge),
     .default_text = "auto",
     .choices = merges,
     .help = "a freed block merges with free neighbours; auto: unless compact=none"},
    ASIM_COMPACTION_PARAMS(pow2_params, compaction),
};

struct asim_policy_state {
    asim_arena arena;
};

static const asim_fit by_remainder = {
    .sorted = true,
    .own_size = sizeof(asim_order_lists),
    .round = asim_order_round,
    .find = asim_order_find,
    .file = asim_order_file,
    .take = asim_order_take,
    .check = asim_order_check,
};

static const asim_fit by_buddies = {
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

static asim_code pow2_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                           asim_err *err)
{
    const pow2_params *given = block;
    if (given->merge == MERGE_ON && given->compaction.compact == ASIM_COMPACT_NONE) {
        state->arena.env = *env;
        return asim_fail(
            err, ASIM_E_USAGE,
            "merge=on contradicts compact=none, with which freed blocks never merge; leave one out");
    }
    asim_code code = asim_arena_init(&state->arena, given->split == SPLIT_BUDDY ? &by_buddies : &by_remainder,
                                     env, given->pool, given->align, &given->compaction, err);
    if (given->merge == MERGE_OFF)
        state->arena.merges = false;
    return code;
}

ASIM_ARENA_OPERATIONS(pow2)

const asim_policy asim_policy_pow2 = {
    ASIM_ARENA_TABLE(pow2),
    .name = "pow2",
    .summary = "one pool, size classes by powers of two, newest free block first (NPU runtimes)",
    .source = "the pooled NPU allocator as published: 8 GiB, LIFO lists, split, merge on free",
    .params = {params, sizeof params / sizeof params[0], sizeof(pow2_params)},
};
