/* best-fit - the smallest free block with room, in one pool: a textbook reference.
 *
 * Knuth, The Art of Computer Programming 1, section 2.5; measured beside its rivals by Wilson, Johnstone,
 * Neely and Boles, "Dynamic Storage Allocation: A Survey and Critical Review", IWMM 1995. Free blocks are
 * kept in (size, address) order (free_index.h): a few dozen instructions an operation, expected O(log n)
 * where many free blocks have nearly the same size. Of blocks of one size the lowest address is taken. The
 * front of the block is handed out, the rest stays free; a freed block merges with free neighbours.
 *
 *     free   [ 1200 ]     [ 1300 ]
 *     1000   [ 1000 |200] [ 1300 ]     the smaller block that is large enough
 *
 * Left out: boundary tags and headers inside the memory; a simulated device holds no bytes.
 */
#include "policies/arena.h"
#include "policies/compaction.h"
#include "policies/registry.h"

#include <stddef.h>

typedef struct best_fit_params {
    uint64_t pool, align;
    asim_compaction_params compaction;
} best_fit_params;

static const asim_param params[] = {
    ASIM_ARENA_PARAMS(best_fit_params, "none", "align",
                      "block sizes are multiples of this many bytes, a power of two"),
    ASIM_COMPACTION_PARAMS(best_fit_params, compaction),
};

struct asim_policy_state {
    asim_arena arena;
};

static uint32_t find(asim_arena *arena, asim_arena_home *home, uint64_t size)
{
    return asim_free_find(home->by_size, arena->extents, size, &arena->env.counters->search_steps);
}

/* The arena's own index is all there is. */
static void nothing_more(asim_arena *arena, asim_arena_home *home, uint32_t block)
{
    (void)arena;
    (void)home;
    (void)block;
}

static const asim_fit fit = {.sorted = true, .find = find, .file = nothing_more, .take = nothing_more};

static asim_code best_fit_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                               asim_err *err)
{
    const best_fit_params *given = block;
    return asim_arena_init(&state->arena, &fit, env, given->pool, given->align, &given->compaction, err);
}

ASIM_ARENA_OPERATIONS(best_fit)

const asim_policy asim_policy_best_fit = {
    ASIM_ARENA_TABLE(best_fit),
    .name = "best-fit",
    .summary = "the smallest free block with room, in one pool",
    .source = "Knuth, The Art of Computer Programming 1, section 2.5",
    .params = {params, sizeof params / sizeof params[0], sizeof(best_fit_params)},
};
