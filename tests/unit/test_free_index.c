#include "policies/free_index.h"
#include "sim/rng.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCKS = 600
};

typedef struct model { /* a sorted array, too simple to be wrong */
    asim_extent extents[BLOCKS + 1];
    asim_free_index index;
    uint32_t sorted[BLOCKS];
    size_t count;
} model;

static bool before(const model *m, uint32_t a, uint32_t b)
{
    const asim_extent *x = &m->extents[a], *y = &m->extents[b];
    return x->size < y->size || (x->size == y->size && x->address < y->address);
}

static void add(model *m, uint32_t block, uint64_t address, uint64_t size)
{
    m->extents[block].address = address;
    m->extents[block].size = size;
    asim_free_insert(&m->index, m->extents, block);
    size_t place = m->count++;
    for (; place > 0 && before(m, block, m->sorted[place - 1]); place--)
        m->sorted[place] = m->sorted[place - 1];
    m->sorted[place] = block;
}

static void take(model *m, size_t place)
{
    asim_free_remove(&m->index, m->extents, m->sorted[place]);
    memmove(m->sorted + place, m->sorted + place + 1, (m->count - place - 1) * sizeof m->sorted[0]);
    m->count--;
}

static uint32_t at(const model *m, size_t place)
{
    return place < m->count ? m->sorted[place] : 0;
}

static void compare(const model *m, uint64_t size)
{
    uint64_t steps = 0;
    size_t place = 0;
    while (place < m->count && m->extents[m->sorted[place]].size < size)
        place++;
    cr_assert_eq(asim_free_find(&m->index, m->extents, size, &steps), at(m, place));
    cr_assert_eq(asim_free_below(&m->index, m->extents, size), place ? at(m, place - 1) : 0);
    cr_assert_gt(steps, 0);
}

Test(free_index, empty_finds_nothing)
{
    static model m;
    compare(&m, 512);
    compare(&m, UINT64_C(1) << 60);
    cr_assert_eq(asim_free_first(&m.index, m.extents), 0);
    cr_assert_eq(asim_free_last(&m.index, m.extents), 0);
    cr_assert_eq(asim_free_check(&m.index, m.extents, 0), 0);
}

/* Bins ascend with size, from the smallest block to the largest, and none is out of range. */
Test(free_index, bins_ascend)
{
    unsigned last = 0;
    for (uint64_t size = 1; size < UINT64_C(1) << 61; size += size / 40 + 1) {
        unsigned bin = asim_free_bin(size);
        cr_assert_geq(bin, last);
        cr_assert_lt(bin, ASIM_FREE_BINS);
        last = bin;
    }
    cr_assert_eq(asim_free_bin(1), 0);
    cr_assert_eq(asim_free_bin(512), 9 * 16);
    cr_assert_lt(asim_free_bin(UINT64_C(1) << 61), ASIM_FREE_BINS);
}

/* A block that shrinks keeps its place among the others. */
Test(free_index, shrinks_in_place)
{
    static model m;
    uint64_t steps = 0;
    add(&m, 1, 0, 100 * 512);
    add(&m, 2, 100 * 512, 101 * 512);
    asim_free_shrink(&m.index, m.extents, 2, 512); /* as large as the first now: the address decides */
    cr_assert_eq(asim_free_find(&m.index, m.extents, 100 * 512, &steps), 1);
    asim_free_shrink(&m.index, m.extents, 1, 90 * 512);
    cr_assert_eq(m.extents[1].address, 90 * 512);
    cr_assert_eq(asim_free_find(&m.index, m.extents, 11 * 512, &steps), 2);
    cr_assert_eq(asim_free_find(&m.index, m.extents, 10 * 512, &steps), 1);
    asim_free_shrink(&m.index, m.extents, 2, 512); /* alone in its bin, which stays the same */
    cr_assert_eq(asim_free_find(&m.index, m.extents, 11 * 512, &steps), 2);
    cr_assert_eq(m.extents[2].size, 99 * 512);
    cr_assert_eq(asim_free_check(&m.index, m.extents, 2), 2);
}

/* R33: by size, then by address. */
Test(free_index, lowest_address_wins_among_equals)
{
    static model m;
    uint64_t steps = 0;
    add(&m, 1, 9000, 1024);
    add(&m, 2, 3000, 1024);
    add(&m, 3, 5000, 1024);
    add(&m, 4, 100, 1536);
    cr_assert_eq(asim_free_find(&m.index, m.extents, 513, &steps), 2);
    cr_assert_eq(asim_free_next(&m.index, m.extents, 2), 3);
    cr_assert_eq(asim_free_next(&m.index, m.extents, 1), 4);
    cr_assert_eq(asim_free_prev(&m.index, m.extents, 4), 1);
    cr_assert_eq(asim_free_below(&m.index, m.extents, 1536), 1);
}

static void churn(uint64_t seed, uint64_t sizes, unsigned shift)
{
    model *m = calloc(1, sizeof *m);
    uint32_t spare[BLOCKS], spares = 0;
    asim_rng rng = {seed};
    for (uint32_t block = BLOCKS; block > 0; block--)
        spare[spares++] = block;
    for (unsigned step = 0; step < 4000; step++) {
        if (spares && (m->count == 0 || asim_rng_below(&rng, 5) < 3)) {
            uint64_t size = (asim_rng_below(&rng, sizes) + 1) << asim_rng_below(&rng, shift) << 9;
            add(m, spare[--spares], asim_rng_next(&rng) >> 16, size);
        } else {
            size_t place = asim_rng_below(&rng, m->count);
            spare[spares++] = m->sorted[place];
            take(m, place);
        }
        compare(m, 512 + asim_rng_below(&rng, sizes << shift << 9));
        if (step % 64 == 0) {
            cr_assert_eq(asim_free_check(&m->index, m->extents, BLOCKS), m->count);
            for (size_t i = 0; i < m->count; i++) {
                cr_assert_eq(asim_free_next(&m->index, m->extents, m->sorted[i]), at(m, i + 1));
                cr_assert_eq(asim_free_prev(&m->index, m->extents, m->sorted[i]), i ? m->sorted[i - 1] : 0);
            }
        }
    }
    free(m);
}

Test(free_index, agrees_with_a_sorted_array)
{
    churn(1, 3, 1);     /* few sizes: long chains of equals */
    churn(2, 4000, 1);  /* all sizes of a small pool */
    churn(3, 1000, 41); /* up to 2^60 */
}
