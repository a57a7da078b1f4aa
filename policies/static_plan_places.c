#include "policies/static_plan_places.h"

#include <inttypes.h>

asim_code asim_places_init(asim_places *places, const uint64_t *offsets, uint32_t count,
                           const asim_hostmem *memory, asim_err *err)
{
    *places = (asim_places){.memory = memory, .count = count};
    size_t below = count;
    for (int level = 0; level < ASIM_PLACES_LEVELS; level++) {
        below = below / 64 + 1;
        places->words[level] = below;
        if (!(places->bits[level] = asim_mem_new(memory, below, sizeof(uint64_t))))
            return asim_fail_memory(err, below * sizeof(uint64_t));
    }
    places->gaps = asim_mem_new(memory, (size_t)count + 2, sizeof *places->gaps);
    places->ends = asim_mem_new(memory, (size_t)count + 1, sizeof *places->ends);
    places->offsets = asim_mem_new(memory, (size_t)count + 1, sizeof *places->offsets);
    places->free = asim_mem_new(memory, 1, sizeof *places->free);
    if (!places->gaps || !places->ends || !places->offsets || !places->free)
        return asim_fail_memory(err, count * sizeof *places->gaps);
    if (count)
        memcpy(places->offsets, offsets, count * sizeof *offsets);
    return ASIM_OK;
}

void asim_places_fini(asim_places *places)
{
    if (!places->memory)
        return;
    for (int level = 0; level < ASIM_PLACES_LEVELS; level++)
        asim_mem_free(places->memory, places->bits[level], places->words[level], sizeof(uint64_t));
    asim_mem_free(places->memory, places->gaps, (size_t)places->count + 2, sizeof *places->gaps);
    asim_mem_free(places->memory, places->ends, (size_t)places->count + 1, sizeof *places->ends);
    asim_mem_free(places->memory, places->offsets, (size_t)places->count + 1, sizeof *places->offsets);
    asim_mem_free(places->memory, places->free, 1, sizeof *places->free);
    *places = (asim_places){.memory = NULL};
}

/* --- neighbours --------------------------------------------------------------------------------------------
 */

uint32_t asim_places_from(const asim_places *places, uint32_t rank)
{
    uint64_t at = rank;
    for (int level = 0; level < ASIM_PLACES_LEVELS; level++, at = at / 64 + 1) {
        if (at / 64 >= places->words[level])
            return UINT32_MAX;
        uint64_t word = places->bits[level][at / 64] & ~UINT64_C(0) << (at % 64);
        if (!word)
            continue;
        at = at / 64 * 64 + (unsigned)__builtin_ctzll(word);
        while (level-- > 0)
            at = at * 64 + (unsigned)__builtin_ctzll(places->bits[level][at]);
        return (uint32_t)at;
    }
    return UINT32_MAX;
}

/* The last rank in place before rank, or UINT32_MAX. */
static uint32_t last_before(const asim_places *places, uint32_t rank)
{
    uint64_t at = rank;
    for (int level = 0; level < ASIM_PLACES_LEVELS; level++, at /= 64) {
        const uint64_t word = at % 64 ? places->bits[level][at / 64] & ~UINT64_C(0) >> (64 - at % 64) : 0;
        if (!word)
            continue;
        at = at / 64 * 64 + 63 - (unsigned)__builtin_clzll(word);
        while (level-- > 0)
            at = at * 64 + 63 - (unsigned)__builtin_clzll(places->bits[level][at]);
        return (uint32_t)at;
    }
    return UINT32_MAX;
}

static bool is_set(const asim_places *places, uint32_t rank)
{
    return places->bits[0][rank / 64] >> (rank % 64) & 1;
}

static void set(asim_places *places, uint32_t rank)
{
    uint64_t at = rank;
    for (int level = 0; level < ASIM_PLACES_LEVELS; level++, at /= 64)
        places->bits[level][at / 64] |= UINT64_C(1) << (at % 64);
}

static void clear(asim_places *places, uint32_t rank)
{
    uint64_t at = rank;
    for (int level = 0; level < ASIM_PLACES_LEVELS; level++, at /= 64)
        if (places->bits[level][at / 64] &= ~(UINT64_C(1) << (at % 64)))
            return;
}

/* --- gaps --------------------------------------------------------------------------------------------------
 */

static void set_gap(asim_places *places, uint32_t rank, uint64_t from, uint64_t to)
{
    const uint32_t gap = rank + 2;
    places->gaps[gap].address = from;
    places->gaps[gap].size = to - from;
    if (to > from)
        asim_free_insert(places->free, places->gaps, gap);
}

static void drop_gap(asim_places *places, uint32_t rank)
{
    if (places->gaps[rank + 2].size)
        asim_free_remove(places->free, places->gaps, rank + 2);
    places->gaps[rank + 2].size = 0;
}

void asim_places_open(asim_places *places, uint64_t size)
{
    places->size = size;
    set_gap(places, UINT32_MAX, 0, size);
}

bool asim_places_put(asim_places *places, uint32_t rank, uint64_t size)
{
    if (is_set(places, rank))
        return false;
    const uint32_t before = last_before(places, rank);
    const asim_extent gap = *asim_places_gap(places, before);
    const uint64_t offset = places->offsets[rank], end = gap.address + gap.size;
    if (gap.size == 0 || offset < gap.address || offset >= end || size > end - offset)
        return false;
    drop_gap(places, before);
    set_gap(places, before, gap.address, offset);
    set(places, rank);
    places->ends[rank] = offset + size;
    set_gap(places, rank, offset + size, end);
    return true;
}

bool asim_places_take(asim_places *places, uint32_t rank)
{
    if (!is_set(places, rank))
        return false;
    clear(places, rank);
    const uint32_t before = last_before(places, rank);
    const uint64_t from = asim_places_gap(places, before)->address;
    const uint64_t to = places->ends[rank] + asim_places_gap(places, rank)->size;
    drop_gap(places, rank);
    drop_gap(places, before);
    set_gap(places, before, from, to);
    return true;
}

uint64_t asim_places_largest(const asim_places *places)
{
    const uint32_t last = asim_free_last(places->free, places->gaps);
    return last ? places->gaps[last].size : 0;
}

asim_code asim_places_check(const asim_places *places, asim_err *err)
{
    uint64_t end = 0;
    uint32_t gaps = 0;
    if (!places->size)
        return ASIM_OK;
    for (uint32_t rank = UINT32_MAX;;) {
        const asim_extent *gap = asim_places_gap(places, rank);
        if (gap->address != end)
            return asim_fail(err, ASIM_E_BUG, "the gap at offset %" PRIu64 " should begin at %" PRIu64,
                             gap->address, end);
        end += gap->size;
        gaps += gap->size > 0;
        rank = asim_places_from(places, rank + 1);
        if (rank == UINT32_MAX)
            break;
        if (places->offsets[rank] != end)
            return asim_fail(err, ASIM_E_BUG, "the block at offset %" PRIu64 " should begin at %" PRIu64,
                             places->offsets[rank], end);
        end = places->ends[rank];
    }
    if (end != places->size)
        return asim_fail(err, ASIM_E_BUG, "blocks and gaps end at %" PRIu64 ", the region at %" PRIu64, end,
                         places->size);
    if (asim_free_check(places->free, places->gaps, places->count + 1) != gaps)
        return asim_fail(err, ASIM_E_BUG, "the index of gaps is damaged");
    return ASIM_OK;
}
