/* torchcache with expandable segments: the worked examples of the specification, section 27, by its rules. */
#include "tests/unit/torchcache_run.h"

#define ON "expandable_segments=true"

/* 27.4: R90, R91, R95, R96; D = 16 GiB. */
Test(torchcache_expandable, growth_and_partial_unmapping)
{
    tc_run run = tc_start(ON, 16 * GIB);
    tc_expect(tc_alloc(&run, 0, 16 * MIB, 0), "A 0 0 16777216 sm:0:0:20971520");
    tc_expect(tc_alloc(&run, 1, 16 * MIB, 0), "A 0 16777216 16777216 sm:0:20971520:20971520");
    tc_free(&run, 1);
    tc_expect(tc_empty_cache(&run), ". su:0:20971520:20971520");
    tc_expect(tc_alloc(&run, 2, 5 * MIB, 0), "A 0 16777216 5242880 sm:0:20971520:20971520");
    tc_free(&run, 0);
    tc_free(&run, 2);
    tc_expect(tc_empty_cache(&run), ". su:0:0:41943040");
    tc_expect(tc_stat(&run, "reserved_bytes.all"), "0/41943040/62914560/62914560");
    tc_expect(tc_stat(&run, "segment.all"), "0/0/0/0");
    cr_expect_eq(tc_number(&run, "num_device_alloc"), 3);
    cr_expect_eq(tc_number(&run, "num_device_free"), 2);
    tc_expect(tc_alloc(&run, 3, 1, 0), "A 1 0 512 sm:1:0:2097152"); /* R96: a new range */
    tc_end(&run);
}

/* 27.5: R87, R88. */
Test(torchcache_expandable, holes_are_first_fit_by_address)
{
    tc_run run = tc_start(ON, 16 * GIB);
    for (uint32_t id = 0; id < 5; id++)
        tc_alloc(&run, id, 20 * MIB, 0);
    tc_free(&run, 1);
    tc_free(&run, 3);
    tc_expect(tc_empty_cache(&run), ". su:0:20971520:20971520 su:0:62914560:20971520");
    tc_expect(tc_alloc(&run, 5, 4 * MIB, 0), "A 0 20971520 4194304 sm:0:20971520:20971520");
    tc_expect(tc_alloc(&run, 6, 30 * MIB, 0), "A 0 104857600 31457280 sm:0:104857600:41943040");
    tc_end(&run);
}

/* 27.6: R90 step 1, R44. */
Test(torchcache_expandable, out_of_memory)
{
    tc_run run = tc_start(ON, 64 * MIB);
    tc_alloc(&run, 0, 20 * MIB, 0);
    tc_alloc(&run, 1, 20 * MIB, 0);
    tc_expect(tc_alloc(&run, 2, 40 * MIB, 0), "O oom:25165824:41943040");
    cr_expect_eq(tc_number(&run, "num_alloc_retries"), 1);
    cr_expect_eq(tc_number(&run, "reserved_bytes.all.current"), 41943040);
    tc_end(&run);
}

/* 27.11: R92a, R92, up to 2.14; from 2.15 on such a range goes back at once (R87). */
Test(torchcache_expandable, a_request_beyond_any_range)
{
    tc_run run = tc_start("torch=2.14," ON, 64 * MIB);
    tc_expect(tc_alloc(&run, 0, 100 * MIB, 0), "O oom:67108864:104857600");
    cr_expect_eq(tc_number(&run, "num_alloc_retries"), 1);
    cr_expect_eq(tc_number(&run, "num_ooms"), 1);
    cr_expect_eq(tc_number(&run, "num_sync_all_streams"), 1);
    tc_expect(tc_alloc(&run, 1, 4 * MIB, 0), "A 0 0 4194304 sm:0:0:20971520");
    tc_expect(tc_alloc(&run, 2, 1, 0), "A 2 0 512 sm:2:0:2097152"); /* two ranges were reserved before */
    tc_end(&run);
}

/* 27.12: R37 step 3, R38, R63, R82. The range has the first address, but can still grow. */
Test(torchcache_expandable, switching_in_mid_run)
{
    tc_run run = tc_start("", 80 * GIB);
    tc_settings(&run, "expandable_segments:True");
    tc_expect(tc_alloc(&run, 0, 4 * MIB, 0), "A 0 0 4194304 sm:0:0:20971520");
    tc_free(&run, 0);
    tc_settings(&run, "expandable_segments:False");
    tc_expect(tc_alloc(&run, 1, 4 * MIB, 0), "A 1 0 4194304 sa:1:20971520:0");
    tc_free(&run, 1);
    tc_settings(&run, "expandable_segments:True");
    tc_expect(tc_alloc(&run, 2, 4 * MIB, 0), "A 1 0 4194304");
    tc_expect(tc_alloc(&run, 3, 3 * MIB, 0), "A 1 4194304 3145728");
    tc_expect(tc_empty_cache(&run), ". su:0:0:20971520");
    tc_free(&run, 2);
    tc_free(&run, 3);
    tc_expect(tc_empty_cache(&run), ". sf:1:20971520");
    tc_end(&run);
}

/* R93: the limit counts the whole segment size although one page would do. */
Test(torchcache_expandable, the_limit_counts_segment_sizes)
{
    tc_run run = tc_start(ON ",fraction=0.5", 128 * MIB);
    tc_expect(tc_alloc(&run, 0, 44 * MIB, 0), "A 0 0 46137344 sm:0:0:62914560");
    tc_expect(tc_alloc(&run, 1, 16 * MIB, 0), "A 0 46137344 16777216");
    tc_expect(tc_alloc(&run, 2, 2 * MIB, 0), "O oom:71303168:2097152");
    tc_end(&run);
}

/* R87: from 2.15 on a range too small for its request is given back, and the next request has one of its own.
 */
Test(torchcache_expandable, a_short_range_goes_back)
{
    tc_run run = tc_start("torch=2.15,expandable_segments=true", 64 * MIB);
    tc_expect(tc_alloc(&run, 0, 100 * MIB, 0), "O oom:67108864:104857600");
    tc_expect(tc_alloc(&run, 1, 4 * MIB, 0), "A 2 0 4194304 sm:2:0:20971520");
    tc_end(&run);
}

/* R84: a reserve of half the device, 512 MiB, is 26 pages; a request that its rest can't hold has a new
 * range. */
Test(torchcache_expandable, a_reserve)
{
    tc_run run = tc_start("torch=2.15,conf=[expandable_segments:True,expandable_segments_reserve:0.5]", GIB);
    tc_expect(tc_alloc(&run, 0, 300 * MIB, 0), "A 0 0 314572800 sm:0:0:314572800");
    tc_expect(tc_alloc(&run, 1, 230 * MIB, 0), "A 1 0 241172480 sm:1:0:251658240");
    tc_expect(tc_alloc(&run, 2, 220 * MIB, 0), "A 0 314572800 230686720 sm:0:314572800:230686720");
    tc_end(&run);
}

/* R54: what is looked for is the larger of request and limit, so that the free expandable block in between,
 * which is passed over, does not end the search for an oversize one; no last attempt is needed. */
Test(torchcache_expandable, an_oversize_block_goes_although_a_free_page_fits)
{
    tc_run run = tc_start(ON ",torch=2.6,max_split_size_mb=100", 200 * MIB);
    tc_expect(tc_alloc(&run, 0, 40 * MIB, 0), "A 0 0 41943040 sm:0:0:41943040");
    tc_free(&run, 0);
    tc_settings(&run, "max_split_size_mb:100,expandable_segments:False");
    tc_expect(tc_alloc(&run, 1, 150 * MIB, 0), "A 1 0 157286400 sa:1:157286400:0");
    tc_free(&run, 1);
    tc_expect(tc_alloc(&run, 2, 30 * MIB, 0), "A 2 0 31457280 sf:1:157286400 sa:2:31457280:0");
    cr_expect_eq(tc_number(&run, "num_alloc_retries"), 0);
    tc_end(&run);
}

/* R91, R95, R57: as many unmappings as obtains, and a pool without a use is gone; its id is free again
 * (R102). */
Test(torchcache_expandable, a_pool_ends_with_its_last_unmapping)
{
    tc_run run = tc_start(ON ",torch=2.6", GIB);
    tc_pool(&run, ASIM_EV_POOL_BEGIN, 1, 0, ASIM_POOL_ALL);
    tc_expect(tc_alloc(&run, 0, 4 * MIB, 0), "A 0 0 4194304 sm:0:0:20971520");
    tc_free(&run, 0);
    tc_pool(&run, ASIM_EV_POOL_END, 1, 0, 0);
    tc_pool(&run, ASIM_EV_POOL_RELEASE, 1, 0, 0);
    tc_expect(tc_empty_cache(&run), ". su:0:0:20971520");
    tc_expect(tc_pool(&run, ASIM_EV_POOL_BEGIN, 1, 0, ASIM_POOL_ALL), ".");
    tc_expect(tc_alloc(&run, 1, 4 * MIB, 0), "A 1 0 4194304 sm:1:0:20971520");
    tc_end(&run);
}
