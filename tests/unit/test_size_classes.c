/* The size classes of jemalloc against table 1 of its manual page (4 KiB pages, quantum 16). Slabs: by
 * hand. */
#include "policies/size_classes.h"

#include <criterion/criterion.h>

static const uint64_t kib = 1024, quantum = 16;

Test(size_classes, the_manual_s_table)
{
    static const uint64_t table[] = {8,     16,    32,    48,    64,    80,    96,    112,    128,   160,
                                     192,   224,   256,   320,   384,   448,   512,   640,    768,   896,
                                     1024,  1280,  1536,  1792,  2048,  2560,  3072,  3584,   4096,  5120,
                                     6144,  7168,  8192,  10240, 12288, 14336, 16384, 20480,  24576, 28672,
                                     32768, 40960, 49152, 57344, 65536, 81920, 98304, 114688, 131072};
    uint64_t before = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; before = table[i++]) {
        cr_expect_eq(asim_je_class(before + 1, quantum), table[i], "%zu", i);
        cr_expect_eq(asim_je_class(table[i], quantum), table[i], "%zu", i);
        cr_expect_eq(asim_je_number(before + 1, quantum), i);
        cr_expect_eq(asim_je_number(table[i], quantum), i);
    }
    cr_expect_eq(asim_je_class(2048 * kib + 1, quantum), 2560 * kib);
    cr_expect_eq(asim_je_class(56 * kib * kib + 1, quantum), 64 * kib * kib);
    cr_expect_eq(asim_je_class((UINT64_C(6) << 60) + 1, quantum), UINT64_C(7) << 60);
}

Test(size_classes, no_class)
{
    cr_expect_eq(asim_je_class(0, quantum), 0);
    cr_expect_eq(asim_je_class((UINT64_C(7) << 60) + 1, quantum), 0);
    cr_expect_eq(asim_je_class(UINT64_MAX, quantum), 0);
}

/* 8 and 4096 fill a page; 48 = 3 x 16 needs 3 pages, 5120 = 5 x 1024 five, 14336 = 7 x 2048 seven; 8192 is
 * two pages. */
Test(size_classes, slabs_have_no_remainder)
{
    cr_expect_eq(asim_je_slab(8, 4096), 4096);
    cr_expect_eq(asim_je_slab(48, 4096), 12288);
    cr_expect_eq(asim_je_slab(4096, 4096), 4096);
    cr_expect_eq(asim_je_slab(5120, 4096), 20480);
    cr_expect_eq(asim_je_slab(14336, 4096), 28672);
    cr_expect_eq(asim_je_slab(8192, 4096), 8192);
}
