/* sim/idmap and sim/buf. */
#include "sim/buf.h"
#include "sim/idmap.h"
#include "sim/rng.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static const asim_hostmem *libc_memory(void)
{
    return asim_hostmem_libc();
}

/* Against a plain array indexed by a small key space, so that chains form, wrap and shrink all the time. */
Test(idmap, behaves_like_an_array)
{
    enum {
        KEYS = 600
    };
    uint32_t shadow[KEYS];
    bool there[KEYS] = {false};
    size_t count = 0;
    asim_idmap map;
    asim_idmap_init(&map, libc_memory());
    asim_rng rng = {7};
    for (uint32_t step = 0; step < 200000; step++) {
        size_t k = (size_t)asim_rng_below(&rng, KEYS);
        uint64_t key = k * 512 + (k % 3 ? 0 : UINT64_C(0x7f0000000000)); /* key 0 is among them... */
        uint32_t value = 0xdead;
        /* ...and phases of mostly putting and mostly taking follow each other. */
        bool put = asim_rng_below(&rng, 10) < (step / 5000 % 2 ? 3U : 7U);
        if (put) {
            cr_assert_eq(asim_idmap_put(&map, key, step, NULL), ASIM_OK);
            count += !there[k];
            there[k] = true;
            shadow[k] = step;
        } else if (asim_idmap_take(&map, key, &value)) {
            cr_assert(there[k] && value == shadow[k]);
            there[k] = false;
            count--;
        } else {
            cr_assert(!there[k] && value == 0xdead);
        }
        cr_assert_eq(map.count, count);
        size_t other = (size_t)asim_rng_below(&rng, KEYS);
        uint64_t other_key = other * 512 + (other % 3 ? 0 : UINT64_C(0x7f0000000000));
        cr_assert_eq(asim_idmap_get(&map, other_key, &value), there[other]);
        if (there[other])
            cr_assert_eq(value, shadow[other]);
    }
    size_t cursor = 0, walked = 0;
    uint64_t key;
    uint32_t value;
    while (asim_idmap_next(&map, &cursor, &key, &value)) {
        size_t k = (size_t)(key % UINT64_C(0x7f0000000000)) / 512;
        cr_assert(there[k] && shadow[k] == value);
        walked++;
    }
    cr_assert_eq(walked, count);
    asim_idmap_reset(&map);
    cr_assert_eq(map.count, 0);
    cr_assert_not(asim_idmap_get(&map, 512, &value));
    asim_idmap_fini(&map);
    cr_assert_not(asim_idmap_get(&map, 512, &value));
    cr_assert_not(asim_idmap_take(&map, 512, NULL));
}

struct limited {
    size_t left;
};

static void *limited_resize(void *ctx, void *memory, size_t old_size, size_t new_size)
{
    struct limited *limited = ctx;
    if (new_size > old_size && limited->left-- == 0) {
        limited->left = 0;
        return NULL;
    }
    return libc_memory()->resize(NULL, memory, old_size, new_size);
}

Test(idmap, a_refused_growth_leaves_the_map_whole)
{
    struct limited limited = {1};
    asim_hostmem mem = {limited_resize, &limited};
    asim_idmap map;
    asim_idmap_init(&map, &mem);
    asim_err err = ASIM_ERR_INIT;
    uint64_t key = 0;
    while (asim_idmap_put(&map, key, (uint32_t)key, &err) == ASIM_OK)
        key++;
    cr_assert_eq(err.code, ASIM_E_SYSTEM);
    cr_assert_gt(key, 0);
    cr_assert_eq(map.count, key);
    for (uint64_t i = 0; i < key; i++) {
        uint32_t value;
        cr_assert(asim_idmap_get(&map, i, &value) && value == i);
    }
    asim_idmap_fini(&map);
}

Test(buf, numbers_come_back)
{
    asim_buf buf;
    asim_buf_init(&buf, libc_memory());
    uint64_t values[300];
    size_t count = 0;
    for (unsigned shift = 0; shift < 64; shift++) {
        values[count++] = UINT64_C(1) << shift;
        values[count++] = (UINT64_C(1) << shift) - 1;
        values[count++] = ~(UINT64_C(1) << shift);
    }
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(asim_buf_varint(&buf, values[i], NULL), ASIM_OK);
    asim_bytes in = {buf.bytes, buf.bytes + buf.length};
    for (size_t i = 0; i < count; i++) {
        uint64_t value;
        cr_assert(asim_take_varint(&in, &value));
        cr_assert_eq(value, values[i]);
        cr_assert_eq(asim_unzigzag(asim_zigzag((int64_t)value)), (int64_t)value);
    }
    cr_assert_eq(asim_bytes_left(&in), 0);
    cr_assert_eq(asim_zigzag(-1), 1);
    cr_assert_eq(asim_zigzag(1), 2);
    asim_buf_fini(&buf);
}

/* The LEB128 example of the DWARF standard (figure 46 of version 4): 128 is 0x80 0x01, 12857 is 0xb9 0x64. */
Test(buf, varints_are_leb128)
{
    uint8_t bytes[ASIM_VARINT_MAX];
    cr_assert_eq(asim_put_varint(bytes, 128) - bytes, 2);
    cr_assert(bytes[0] == 0x80 && bytes[1] == 0x01);
    cr_assert_eq(asim_put_varint(bytes, 12857) - bytes, 2);
    cr_assert(bytes[0] == 0xb9 && bytes[1] == 0x64);
    cr_assert_eq(asim_put_varint(bytes, UINT64_MAX) - bytes, ASIM_VARINT_MAX);
}

Test(buf, damaged_varints_are_refused)
{
    static const struct {
        size_t length;
        uint8_t bytes[12];
    } bad[] = {
        {0, {0}},
        {1, {0x80}},
        {2, {0x80, 0x00}}, /* longer than needed */
        {10, {255, 255, 255, 255, 255, 255, 255, 255, 255, 2}},
        {11, {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        asim_bytes in = {bad[i].bytes, bad[i].bytes + bad[i].length};
        uint64_t value = 5;
        cr_assert_not(asim_take_varint(&in, &value), "case %zu", i);
        cr_assert(in.next == bad[i].bytes && value == 5);
    }
    asim_bytes in = {bad[3].bytes, bad[3].bytes + 9}, part;
    cr_assert_not(asim_take_bytes(&in, 10, &part));
    cr_assert(asim_take_bytes(&in, 9, &part));
    cr_assert_eq(asim_bytes_left(&part), 9);
}

Test(buf, text_and_bytes_append)
{
    asim_buf buf;
    asim_buf_init(&buf, libc_memory());
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(asim_buf_printf(&buf, NULL, "%d,", i % 10), ASIM_OK);
    cr_assert_eq(buf.length, 2000);
    cr_assert_eq(asim_buf_append(&buf, "ab", 2, NULL), ASIM_OK);
    cr_assert_eq(asim_buf_u8(&buf, 'c', NULL), ASIM_OK);
    cr_assert_eq(memcmp(buf.bytes + 1996, "8,9,abc", 7), 0);
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_buf_reserve(&buf, SIZE_MAX, &err), ASIM_E_SYSTEM);
    cr_assert_eq(buf.length, 2003);
    uint8_t bytes[8];
    asim_put_u64(bytes, UINT64_C(0x0102030405060708));
    cr_assert_eq(bytes[0], 8);
    cr_assert_eq(asim_get_u64(bytes), UINT64_C(0x0102030405060708));
    cr_assert_eq(asim_get_u32(bytes), 0x05060708);
    asim_buf_fini(&buf);
}
