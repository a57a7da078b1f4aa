#include "sim/err.h"
#include "sim/hash.h"
#include "sim/hostmem.h"
#include "sim/rng.h"

#include <criterion/criterion.h>
#include <string.h>

Test(err, context_goes_in_front)
{
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_fail_at(&err, ASIM_E_INPUT, 7, "bad byte %d", 3), ASIM_E_INPUT);
    cr_assert_eq(asim_err_context(&err, "a.zst"), ASIM_E_INPUT);
    cr_assert_str_eq(err.message, "a.zst: bad byte 3");
    cr_assert_eq(err.position, 7);
    cr_assert_eq(asim_fail(NULL, ASIM_E_BUG, "ignored"), ASIM_E_BUG);
}

Test(err, long_messages_are_cut)
{
    asim_err err = ASIM_ERR_INIT;
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    asim_fail(&err, ASIM_E_INPUT, "%s", text);
    cr_assert_eq(strlen(err.message), ASIM_ERR_MESSAGE_MAX - 1);
    asim_err_context(&err, "%s", text);
    cr_assert_eq(strlen(err.message), ASIM_ERR_MESSAGE_MAX - 1);
}

Test(hostmem, sizes_that_overflow_are_refused)
{
    const asim_hostmem *mem = asim_hostmem_libc();
    asim_err err = ASIM_ERR_INIT;
    cr_assert_null(asim_mem_new(mem, SIZE_MAX, 2));
    cr_assert_null(asim_mem_new(mem, 0, 8));
    void *items = NULL;
    size_t capacity = 0;
    cr_assert_eq(asim_mem_grow(mem, &items, &capacity, SIZE_MAX / 4, 8, &err), ASIM_E_SYSTEM);
    cr_assert_null(items);
    cr_assert_eq(capacity, 0);
    cr_assert_eq(asim_mem_grow(mem, &items, &capacity, 3, 8, &err), ASIM_OK);
    cr_assert_geq(capacity, 3);
    asim_mem_free(mem, items, capacity, 8);
}

/* splitmix64 with seed 1234567: the first outputs as published with the reference implementation. */
Test(rng, reference_values)
{
    asim_rng rng = {1234567};
    cr_assert_eq(asim_rng_next(&rng), UINT64_C(6457827717110365317));
    cr_assert_eq(asim_rng_next(&rng), UINT64_C(3203168211198807973));
    for (int i = 0; i < 1000; i++)
        cr_assert_lt(asim_rng_below(&rng, 7), 7);
}

Test(hash, depends_on_every_byte_and_the_length)
{
    uint64_t a = asim_hash_bytes(ASIM_HASH_INIT, "abcdefgh", 8);
    cr_assert_neq(a, asim_hash_bytes(ASIM_HASH_INIT, "abcdefgi", 8));
    cr_assert_neq(a, asim_hash_bytes(ASIM_HASH_INIT, "abcdefgh\0", 9));
    cr_assert_eq(a, asim_hash_u64(asim_hash_u64(ASIM_HASH_INIT, UINT64_C(0x6867666564636261)), 8));
}
