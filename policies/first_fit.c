/* first-fit - the free block of lowest address with room, in one pool: a textbook reference.
 *
 * Knuth, The Art of Computer Programming 1, section 2.5, algorithm A with a list in address order. The list
 * is a tree here, as in Stephenson, "Fast Fits: New Methods for Dynamic Storage Allocation", SOSP 1983, so
 * that the search goes past all blocks that are too small at once. Ordered by address; each node knows the
 * largest size below it:
 *
 *                [ 40: size 2, largest 9 ]             room for 5? the left side has at most 3, the node 2,
 *               /                         \            so it is on the right: down to 70
 *     [ 10: size 3, largest 3 ]   [ 70: size 9, largest 9 ]
 *
 * The shape is that of a treap whose priorities are a bijective hash of the record's index (Seidel and
 * Aragon, Algorithmica 16, 1996): expected O(log n) for n free blocks. No ties: addresses differ. The front
 * of the block is handed out, the rest stays free; a freed block merges with free neighbours.
 *
 * Left out: a roving pointer (next fit), and Knuth's threshold below which no rest is split off.
 */
#include "policies/arena.h"
#include "policies/compaction.h"
#include "policies/registry.h"

#include <stddef.h>

typedef struct first_fit_params {
    uint64_t pool, align;
    asim_compaction_params compaction;
} first_fit_params;

static const asim_param params[] = {
    ASIM_ARENA_PARAMS(first_fit_params, "none", "align",
                      "block sizes are multiples of this many bytes, a power of two"),
    ASIM_COMPACTION_PARAMS(first_fit_params, compaction),
};

struct asim_policy_state {
    asim_arena arena;
};

typedef struct fit_tree { /* of one device; a node's subtree: note->own.value is its largest size, note->up
                         its parent */
    uint32_t root;
} fit_tree;

static uint32_t priority(uint32_t block)
{
    return block * UINT32_C(0x9E3779B1);
}

static uint64_t largest_in(const asim_arena *arena, uint32_t node)
{
    return node ? arena->notes[node].own.value : 0;
}

static uint64_t largest_of(const asim_arena *arena, uint32_t node)
{
    const asim_extent *extent = &arena->extents[node];
    const uint64_t left = largest_in(arena, extent->left), right = largest_in(arena, extent->right);
    const uint64_t below = left > right ? left : right;
    return below > extent->size ? below : extent->size;
}

/* A subtree changed: its ancestors learn of it, as far as it matters to them. */
static void tell_ancestors(asim_arena *arena, uint32_t node)
{
    for (; node; node = arena->notes[node].up) {
        const uint64_t largest = largest_of(arena, node);
        if (arena->notes[node].own.value == largest)
            return;
        arena->notes[node].own.value = largest;
    }
}

static uint32_t *link_to(asim_arena *arena, fit_tree *tree, uint32_t node)
{
    const uint32_t up = arena->notes[node].up;
    if (!up)
        return &tree->root;
    return arena->extents[up].left == node ? &arena->extents[up].left : &arena->extents[up].right;
}

/* The node takes its parent's place, and the parent goes below it. */
static void rotate(asim_arena *arena, fit_tree *tree, uint32_t node)
{
    const uint32_t parent = arena->notes[node].up;
    asim_extent *low = &arena->extents[node], *high = &arena->extents[parent];
    uint32_t between;
    *link_to(arena, tree, parent) = node;
    if (high->left == node) {
        between = high->left = low->right;
        low->right = parent;
    } else {
        between = high->right = low->left;
        low->left = parent;
    }
    if (between)
        arena->notes[between].up = parent;
    arena->notes[node].up = arena->notes[parent].up;
    arena->notes[parent].up = node;
    arena->notes[node].own.value = arena->notes[parent].own.value;
    arena->notes[parent].own.value = largest_of(arena, parent);
}

static void file(asim_arena *arena, asim_arena_home *home, uint32_t block)
{
    fit_tree *tree = home->own;
    uint32_t *link = &tree->root, up = 0;
    const uint64_t address = arena->extents[block].address, size = arena->extents[block].size;
    while (*link) {
        up = *link;
        if (arena->notes[up].own.value < size)
            arena->notes[up].own.value = size;
        link = address < arena->extents[up].address ? &arena->extents[up].left : &arena->extents[up].right;
    }
    *link = block;
    arena->extents[block].left = arena->extents[block].right = 0;
    arena->notes[block].up = up;
    arena->notes[block].own.value = size;
    while ((up = arena->notes[block].up) && priority(up) < priority(block))
        rotate(arena, tree, block);
}

static void take(asim_arena *arena, asim_arena_home *home, uint32_t block)
{
    fit_tree *tree = home->own;
    const asim_extent *extent = &arena->extents[block];
    while (extent->left && extent->right)
        rotate(arena, tree, priority(extent->left) > priority(extent->right) ? extent->left : extent->right);
    const uint32_t child = extent->left | extent->right, up = arena->notes[block].up;
    *link_to(arena, tree, block) = child;
    if (child)
        arena->notes[child].up = up;
    tell_ancestors(arena, up);
}

static void resized(asim_arena *arena, asim_arena_home *home, uint32_t block)
{
    (void)home;
    tell_ancestors(arena, block);
}

static uint32_t find(asim_arena *arena, asim_arena_home *home, uint64_t size)
{
    uint32_t node = ((const fit_tree *)home->own)->root;
    if (largest_in(arena, node) < size)
        return 0;
    for (;;) { /* somewhere in this subtree there is room */
        const asim_extent *extent = &arena->extents[node];
        arena->env.counters->search_steps++;
        if (largest_in(arena, extent->left) >= size)
            node = extent->left;
        else if (extent->size >= size)
            return node;
        else
            node = extent->right;
    }
}

static uint64_t largest(const asim_arena *arena, const asim_arena_home *home)
{
    return largest_in(arena, ((const fit_tree *)home->own)->root);
}

/* Every free block is a node, found from below; the order among them follows from each link. */
static asim_code check(const asim_arena *arena, const asim_arena_home *home, asim_err *err)
{
    const uint32_t root = ((const fit_tree *)home->own)->root;
    for (uint32_t b = home->first; b; b = arena->extents[b].next) {
        const asim_extent *extent = &arena->extents[b];
        if (arena->notes[b].state != ASIM_BLOCK_FREE)
            continue;
        const uint32_t up = arena->notes[b].up;
        const bool is_left = up && arena->extents[up].left == b;
        if (up ? arena->notes[up].state != ASIM_BLOCK_FREE || priority(up) <= priority(b) ||
                     (!is_left && arena->extents[up].right != b) ||
                     is_left != (extent->address < arena->extents[up].address)
               : root != b)
            return asim_fail(err, ASIM_E_BUG, "the free block %u hangs in the wrong place of the tree", b);
        if (arena->notes[b].own.value != largest_of(arena, b))
            return asim_fail(err, ASIM_E_BUG, "the free block %u has forgotten the largest below it", b);
    }
    return ASIM_OK;
}

static const asim_fit fit = {.own_size = sizeof(fit_tree),
                             .find = find,
                             .file = file,
                             .take = take,
                             .resized = resized,
                             .largest = largest,
                             .check = check};

static asim_code first_fit_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                                asim_err *err)
{
    const first_fit_params *given = block;
    return asim_arena_init(&state->arena, &fit, env, given->pool, given->align, &given->compaction, err);
}

ASIM_ARENA_OPERATIONS(first_fit)

const asim_policy asim_policy_first_fit = {
    ASIM_ARENA_TABLE(first_fit),
    .name = "first-fit",
    .summary = "the free block of lowest address with room, in one pool",
    .source = "Knuth, The Art of Computer Programming 1, section 2.5; Stephenson, SOSP 1983",
    .params = {params, sizeof params / sizeof params[0], sizeof(first_fit_params)},
};
