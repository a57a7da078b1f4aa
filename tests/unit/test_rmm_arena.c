/* rmm-arena against what RMM's own tests assert (cpp/tests/mr/arena_mr_tests.cpp of release 26.06, named at
 * each test; there an arena of four superblocks of 1 MiB), and against hand calculations by its sources.
 * Stream 1 stands for "an arena"; the global arena is reached by requests above 1 MiB. */
#include "tests/unit/policy_run.h"

static pr_run start(uint64_t superblocks)
{
    char params[64];
    snprintf(params, sizeof params, "arena_size=%llu", (unsigned long long)(superblocks * MIB));
    return pr_start(&asim_policy_rmm_arena, params, GIB);
}

/* AlignToSizeClass: each pair is asserted there; 54 KiB stands in the table of the source. */
Test(rmm_arena, align_to_size_class)
{
    static const struct {
        uint64_t size, rounded;
    } cases[] = {
        {8, 256},
        {256, 256},
        {264, 512},
        {512, 512},
        {17 * KIB, 20 * KIB},
        {13 * MIB, 14 * MIB},
        {2500 * MIB, 2560 * MIB},
        {49 * KIB, 54 * KIB},
        {55 * KIB, 64 * KIB},
        {2049, 2560},
    };
    pr_run run = pr_start(&asim_policy_rmm_arena, "size_classes=true", 16 * GIB);
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pr_alloc(&run, i, cases[i].size, 0);
        cr_expect_eq(run.placed.size, cases[i].rounded, "%llu", (unsigned long long)cases[i].size);
    }
    cr_expect(pr_refuses(&run, 50, UINT64_C(1) << 50, 0)); /* 1 PiB: all bits set there */
    pr_end(&run);
    run = pr_start(&asim_policy_rmm_arena, "size_classes=true", 260 * GIB); /* 128 GiB is a class */
    pr_alloc(&run, 0, 128 * GIB, 0);
    cr_expect_eq(run.placed.size, 128 * GIB);
    pr_end(&run);
}

/* SuperblockFirstFit, with 512 in place of the first block. */
Test(rmm_arena, superblock_first_fit)
{
    pr_run run = start(4);
    const uint64_t base = pr_alloc(&run, 0, KIB, 1);
    cr_expect_eq(run.placed.size, KIB);
    cr_expect_eq(pr_alloc(&run, 1, 2 * KIB, 1), base + KIB);
    pr_free(&run, 0);
    cr_expect_eq(pr_alloc(&run, 2, 512, 1), base);
    cr_expect_eq(run.placed.size, 512);
    pr_end(&run);
}

/* ArenaAllocate: 1 MiB, then 256 bytes of the next superblock. GlobalArenaAcquire: four and no more. */
Test(rmm_arena, acquires)
{
    pr_run run = start(4);
    const uint64_t base = pr_alloc(&run, 0, MIB, 1);
    cr_expect_eq(run.book->sizes[0], 4 * MIB);
    cr_expect_eq(base, run.book->bases[0]);
    cr_expect_eq(pr_alloc(&run, 1, 256, 1), base + MIB);
    cr_expect_eq(pr_alloc(&run, 2, 256, 2), base + 2 * MIB); /* the arena of another stream has its own */
    cr_expect_eq(pr_alloc(&run, 3, MIB, 1), base + 3 * MIB);
    cr_expect_eq(pr_own(&run, "arena_superblocks_acquired"), 4);
    cr_expect(pr_refuses(&run, 4, MIB, 1));
    pr_end(&run);
}

/* ArenaDeallocateMergePrevious, ..MergeNext, ..MergePreviousAndNext. */
Test(rmm_arena, merges)
{
    for (uint32_t first = 0; first < 2; first++) {
        pr_run run = start(4);
        const uint64_t base = pr_alloc(&run, 0, 256, 1);
        pr_alloc(&run, 1, 256, 1);
        pr_alloc(&run, 2, 256, 1);
        pr_free(&run, first);
        pr_free(&run, 1 - first);
        cr_expect_eq(pr_alloc(&run, 3, 512, 1), base);
        pr_end(&run);
    }
    pr_run run = start(4);
    const uint64_t base = pr_alloc(&run, 0, 256, 1);
    pr_alloc(&run, 1, 256, 1);
    pr_free(&run, 0);
    pr_free(&run, 1);
    cr_expect_eq(pr_alloc(&run, 2, 2 * KIB, 1), base);
    pr_end(&run);
}

/* GlobalArenaDeallocateAlignUp: two blocks of a bit more than 1 MiB, freed, leave all of the arena in one. */
Test(rmm_arena, global_deallocate)
{
    pr_run run = start(4);
    const uint64_t base = pr_alloc(&run, 0, MIB + 256, 0);
    pr_alloc(&run, 1, MIB + 512, 0);
    pr_free(&run, 0);
    pr_free(&run, 1);
    cr_expect_eq(pr_alloc(&run, 2, 4 * MIB, 0), base);
    cr_expect_eq(pr_own(&run, "arena_defragmentations"), 0);
    pr_end(&run);
}

/* ArenaDefragment, Defragment: four superblocks that streams have kept go back before all is taken at once.
 */
Test(rmm_arena, defragment)
{
    pr_run run = start(4);
    for (uint32_t i = 0; i < 4; i++)
        pr_alloc(&run, i, 32 * KIB, i);
    for (uint32_t i = 0; i < 4; i++)
        pr_free(&run, i);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_largest_free_bytes), MIB);
    cr_expect_eq(pr_alloc(&run, 0, 4 * MIB, 0), run.book->bases[0]);
    cr_expect_eq(pr_own(&run, "arena_defragmentations"), 1);
    cr_expect_eq(run.book->allocs, 1);
    pr_end(&run);
}

/* PerThreadToStreamDealloc: a block of stream 1 whose superblock went back to the global arena, and from
 * there to stream 0's, is freed there. By hand: 1's 256 bytes lie in the first of two superblocks, 2's 32 KiB
 * in the second, freed. 1 MiB for stream 0 finds no room, so both go back; the second is empty and is
 * acquired. 32 KiB more: the first has room, and goes to stream 0 with 1's block in it. */
Test(rmm_arena, frees_in_another_arena)
{
    pr_run run = start(2);
    const uint64_t base = pr_alloc(&run, 0, 256, 1);
    pr_alloc(&run, 1, 32 * KIB, 2);
    pr_free(&run, 1);
    cr_expect_eq(pr_alloc(&run, 1, MIB, 0), base + MIB);
    cr_expect_eq(pr_own(&run, "arena_defragmentations"), 1);
    cr_expect_eq(pr_alloc(&run, 2, 32 * KIB, 0), base + 256);
    pr_free(&run, 0);
    cr_expect_eq(pr_alloc(&run, 0, 256, 0), base); /* merged where its superblock is now */
    pr_free(&run, 0);
    pr_free(&run, 1);
    pr_free(&run, 2);
    cr_expect_eq(pr_alloc(&run, 0, 2 * MIB, 1), base);
    pr_end(&run);
}

/* SmallMediumLarge: with half of the memory, 256 bytes, 64 MiB and a third of what then is free. */
Test(rmm_arena, small_medium_large)
{
    pr_run run = pr_start(&asim_policy_rmm_arena, "", GIB);
    const uint64_t base = pr_alloc(&run, 0, 256, 0);
    cr_expect_eq(run.book->reserved, GIB / 2);
    cr_expect_eq(pr_alloc(&run, 1, 64 * MIB, 0), base + MIB); /* behind the small one's superblock */
    pr_alloc(&run, 2, GIB / 2 / 3, 0);
    pr_end(&run);
}

/* A superblock is cut only if 1 MiB stays: 3.5 MiB leave half a MiB in the global arena's superblock, where a
 * small request finds room by acquiring it whole. */
Test(rmm_arena, cut_leaves_a_superblock)
{
    pr_run run = start(4);
    const uint64_t base = pr_alloc(&run, 0, 3 * MIB + 512 * KIB, 0);
    cr_expect_eq(pr_alloc(&run, 1, 256, 1), base + 3 * MIB + 512 * KIB);
    pr_free(&run, 0); /* from the superblock that stream 1 owns now */
    pr_free(&run, 1);
    cr_expect_eq(pr_alloc(&run, 2, MIB, 1), base); /* it is stream 1's still */
    cr_expect_eq(pr_own(&run, "arena_superblocks_acquired"), 1);
    pr_end(&run);
}

/* SizeSmallerThanSuperblockSize, GlobalArenaAllocateExtraLarge. */
Test(rmm_arena, zero_huge_and_bounds)
{
    pr_run run = start(4);
    cr_expect_eq(pr_ask(&run, 0, 0, 0), ASIM_NOTHING);
    cr_expect(pr_refuses(&run, 1, UINT64_C(1) << 50, 0));
    cr_expect(pr_refuses(&run, 1, UINT64_MAX, 0));
    cr_expect(pr_refuses(&run, 1, 4 * MIB + 1, 0));
    pr_alloc(&run, 1, 4 * MIB, 0);
    pr_end(&run);
    pr_usage(&asim_policy_rmm_arena, "arena_size=256", "arena_size");
    run = pr_start(&asim_policy_rmm_arena, "arena_size=2GiB", GIB);
    cr_expect(pr_refuses(&run, 0, 1, 0));
    pr_end(&run);
}

Test(rmm_arena, uses_by_other_streams)
{
    pr_run run = start(1);
    const uint64_t base = pr_alloc(&run, 0, 512 * KIB, 0);
    pr_use(&run, 0, 1);
    pr_free(&run, 0);
    cr_expect_eq(pr_alloc(&run, 1, 512 * KIB, 0), base + 512 * KIB);
    pr_sync(&run, 1);
    cr_expect_eq(pr_alloc(&run, 2, 512 * KIB, 0), base);
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_sync_waits), 0);
    pr_use(&run, 2, 1);
    pr_free(&run, 2);
    cr_expect_eq(pr_alloc(&run, 3, 512 * KIB, 0), base); /* the device was waited for */
    cr_expect_eq(pr_metric(&run, ASIM_METRIC_sync_waits), 1);
    pr_end(&run);
}
