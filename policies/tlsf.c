/* tlsf - two-level segregated fit in one pool: a textbook reference.
 *
 * Masmano, Ripoll, Crespo and Real, "TLSF: a New Dynamic Memory Allocator for Real-Time Systems", ECRTS 2004.
 * A list of free blocks for each of 2^J equal parts of each power of two (tlsf_map.h), the block freed last
 * in front, and two levels of bits that say which lists have any:
 *
 *     first   ..1010..            one bit for each power of two
 *     second  [0100 0001]  [..]   one bit for each of its 2^J parts
 *     list        |    \_ 9
 *                 \_ 7 -> 3
 *
 * A request is rounded up to where a list begins and takes the head of the first list from there on that has
 * any: every block in it is large enough, so nothing is searched (a good fit). The front is handed out, the
 * rest is filed; a freed block merges with free neighbours. A fixed number of steps each.
 *
 * The rounding is of the search alone, not of the block; so a request may fail beside a free block of its
 * size, which lies in a list that also holds smaller ones. Left out: headers inside the memory, and the
 * growing of the pool. The largest free block, which the algorithm never asks for, is known through an index
 * of its own.
 */
#include "policies/arena.h"
#include "policies/compaction.h"
#include "policies/registry.h"
#include "policies/tlsf_map.h"

#include <stddef.h>

enum {
    J_MAX = 5
};

typedef struct tlsf_params {
    uint64_t pool, align, j;
    asim_compaction_params compaction;
} tlsf_params;

static const asim_param params[] = {
    ASIM_ARENA_PARAMS(tlsf_params, "none", "align",
                      "block sizes are multiples of this many bytes, a power of two"),
    {.name = "second_level",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(tlsf_params, j),
     .default_text = "5",
     .min = 1,
     .max = J_MAX,
     .help = "J: each power of two is divided into 2^J lists"},
    ASIM_COMPACTION_PARAMS(tlsf_params, compaction),
};

struct asim_policy_state {
    asim_arena arena;
    unsigned j;
};

typedef struct lists { /* of one device */
    uint64_t first;
    uint32_t second[64];
    uint32_t heads[64][1 << J_MAX];
} lists;

static unsigned j_of(const asim_arena *arena)
{
    return ((const asim_policy_state *)arena)->j;
}

static uint64_t needs(const asim_arena *arena, uint64_t size)
{
    return size > UINT64_C(1) << 61 ? UINT64_MAX : asim_tlsf_round(size, j_of(arena));
}

static uint32_t find(asim_arena *arena, asim_arena_home *home, uint64_t size)
{
    const lists *all = home->own;
    const asim_tlsf_index least = asim_tlsf_map(asim_tlsf_round(size, j_of(arena)), j_of(arena));
    arena->env.counters->search_steps++;
    uint32_t second = all->second[least.f] & (UINT32_MAX << least.s);
    unsigned f = least.f;
    if (!second) {
        const uint64_t first = all->first & (UINT64_MAX << f << 1);
        if (!first)
            return 0;
        f = (unsigned)__builtin_ctzll(first);
        second = all->second[f];
    }
    return all->heads[f][__builtin_ctz(second)];
}

static void file(asim_arena *arena, asim_arena_home *home, uint32_t block)
{
    lists *all = home->own;
    const asim_tlsf_index at = asim_tlsf_map(arena->extents[block].size, j_of(arena));
    asim_arena_push(arena, &all->heads[at.f][at.s], block);
    all->second[at.f] |= UINT32_C(1) << at.s;
    all->first |= UINT64_C(1) << at.f;
}

static void take(asim_arena *arena, asim_arena_home *home, uint32_t block)
{
    lists *all = home->own;
    const asim_tlsf_index at = asim_tlsf_map(arena->extents[block].size, j_of(arena));
    asim_arena_unlink(arena, &all->heads[at.f][at.s], block);
    if (all->heads[at.f][at.s])
        return;
    all->second[at.f] &= ~(UINT32_C(1) << at.s);
    if (!all->second[at.f])
        all->first &= ~(UINT64_C(1) << at.f);
}

static asim_code check(const asim_arena *arena, const asim_arena_home *home, asim_err *err)
{
    const lists *all = home->own;
    uint32_t seen = 0;
    for (unsigned f = 0; f < 64; f++) {
        if ((all->first >> f & 1) != (all->second[f] != 0))
            return asim_fail(err, ASIM_E_BUG, "the first-level bit %u is wrong", f);
        for (unsigned s = 0; s < 1 << J_MAX; s++) {
            const uint32_t head = all->heads[f][s];
            if ((all->second[f] >> s & 1) != (head != 0))
                return asim_fail(err, ASIM_E_BUG, "the second-level bit %u of %u is wrong", s, f);
            for (uint32_t b = head, before = 0; b; before = b, b = arena->notes[b].own.link.next) {
                const asim_tlsf_index at = asim_tlsf_map(arena->extents[b].size, j_of(arena));
                if (arena->notes[b].state != ASIM_BLOCK_FREE || arena->notes[b].own.link.prev != before ||
                    at.f != f || at.s != s || seen++ == home->free_count)
                    return asim_fail(err, ASIM_E_BUG, "block %u is in the list (%u, %u) by mistake", b, f, s);
            }
        }
    }
    if (seen != home->free_count)
        return asim_fail(err, ASIM_E_BUG, "%u blocks are in the lists, %u are free", seen, home->free_count);
    return ASIM_OK;
}

static const asim_fit fit = {.sorted = true,
                             .own_size = sizeof(lists),
                             .needs = needs,
                             .find = find,
                             .file = file,
                             .take = take,
                             .check = check};

static asim_code tlsf_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                           asim_err *err)
{
    const tlsf_params *given = block;
    state->j = (unsigned)given->j;
    return asim_arena_init(&state->arena, &fit, env, given->pool, given->align, &given->compaction, err);
}

ASIM_ARENA_OPERATIONS(tlsf)

const asim_policy asim_policy_tlsf = {
    ASIM_ARENA_TABLE(tlsf),
    .name = "tlsf",
    .summary = "two-level segregated fit in one pool",
    .source = "Masmano, Ripoll, Crespo and Real, TLSF, ECRTS 2004",
    .params = {params, sizeof params / sizeof params[0], sizeof(tlsf_params)},
};
