#include "sim/intervals.h"
#include "sim/rng.h"

#include <criterion/criterion.h>
#include <string.h>

static asim_intervals set;

static void setup(void)
{
    asim_intervals_init(&set, asim_hostmem_libc());
}

static void teardown(void)
{
    asim_intervals_fini(&set);
}

TestSuite(intervals, .init = setup, .fini = teardown);

Test(intervals, touching_is_no_overlap_but_one_byte_is)
{
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_intervals_add(&set, (asim_interval){100, 200, 1}, &err), ASIM_OK);
    cr_assert_eq(asim_intervals_add(&set, (asim_interval){200, 300, 2}, &err), ASIM_OK);
    cr_assert_eq(asim_intervals_add(&set, (asim_interval){50, 100, 3}, &err), ASIM_OK);
    cr_assert_eq(asim_intervals_add(&set, (asim_interval){299, 301, 4}, &err), ASIM_E_BUG);
    cr_assert_eq(asim_intervals_add(&set, (asim_interval){0, 51, 4}, &err), ASIM_E_BUG);
    cr_assert_eq(asim_intervals_add(&set, (asim_interval){0, 1000, 4}, &err), ASIM_E_BUG);
    cr_assert_eq(asim_intervals_add(&set, (asim_interval){400, 400, 4}, &err), ASIM_E_BUG);
    cr_assert_eq(set.count, 3);
    cr_assert_eq(asim_intervals_find(&set, 199)->value, 1);
    cr_assert_eq(asim_intervals_find(&set, 200)->value, 2);
    cr_assert_eq(asim_intervals_find(&set, 0)->value, 3);
    cr_assert_null(asim_intervals_find(&set, 300));
    cr_assert_not(asim_intervals_remove(&set, 150));
    cr_assert(asim_intervals_remove(&set, 100));
    cr_assert_eq(asim_intervals_find(&set, 100)->value, 2);
}

static void check_ascending(void *ctx, const asim_interval *interval)
{
    uint64_t *position = ctx;
    cr_assert_geq(interval->start, *position);
    *position = interval->end;
}

/* Against a byte map of 4096 cells, over many splits and merges of runs. */
Test(intervals, random_against_a_byte_map)
{
    enum {
        CELLS = 4096
    };
    static uint8_t taken[CELLS];
    static uint16_t start_of[CELLS];
    asim_rng rng = {42};
    asim_err err = ASIM_ERR_INIT;
    size_t count = 0;
    for (int round = 0; round < 200000; round++) {
        uint64_t start = asim_rng_below(&rng, CELLS), size = 1 + asim_rng_below(&rng, round % 3 ? 3 : 40);
        uint64_t end = start + size > CELLS ? CELLS : start + size;
        if (taken[start] && asim_rng_below(&rng, 3)) {
            uint64_t from = start_of[start];
            cr_assert(asim_intervals_remove(&set, from));
            for (uint64_t i = from; i < CELLS && taken[i] && start_of[i] == from; i++)
                taken[i] = 0;
            count--;
            continue;
        }
        bool is_free = true;
        for (uint64_t i = start; i < end; i++)
            is_free &= !taken[i];
        asim_code code = asim_intervals_add(&set, (asim_interval){start, end, (uint32_t)start}, &err);
        cr_assert_eq(code, is_free ? ASIM_OK : ASIM_E_BUG);
        for (uint64_t i = start; is_free && i < end; i++) {
            taken[i] = 1;
            start_of[i] = (uint16_t)start;
        }
        count += is_free;
        cr_assert_eq(set.count, count);
    }
    uint64_t position = 0;
    asim_intervals_each(&set, check_ascending, &position);
}
