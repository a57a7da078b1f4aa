/* torchcache: private pools, scopes, captures, several devices (specification, section 16, and R8). */
#include "tests/unit/torchcache_run.h"

/* R103, R106, R108, R109, R57: a pool's memory is its own, and goes when the pool is released. */
Test(torchcache_pools, a_pool_of_its_own)
{
    tc_run run = tc_start("", GIB);
    tc_alloc(&run, 0, 4 * MIB, 0);
    tc_free(&run, 0);
    tc_pool(&run, ASIM_EV_POOL_BEGIN, 1, 0, ASIM_POOL_ALL);
    tc_expect(tc_alloc(&run, 1, 4 * MIB, 0), "A 1 0 4194304 sa:1:20971520:0");
    tc_pool(&run, ASIM_EV_POOL_END, 1, 0, 0);
    tc_expect(tc_alloc(&run, 2, 4 * MIB, 0), "A 0 0 4194304");
    tc_free(&run, 1);
    tc_free(&run, 2);
    tc_expect(tc_empty_cache(&run), ". sf:0:20971520");
    tc_pool(&run, ASIM_EV_POOL_RELEASE, 1, 0, 0);
    tc_expect(tc_empty_cache(&run), ". sf:1:20971520");
    tc_end(&run);
}

/* R106, 2.6: of several scopes that match, the one begun first. */
Test(torchcache_pools, the_scope_begun_first_wins)
{
    tc_run run = tc_start("torch=2.6", GIB);
    tc_pool(&run, ASIM_EV_POOL_BEGIN, 2, 0, 0);
    tc_pool(&run, ASIM_EV_POOL_JOIN, 2, 1, 0);
    tc_pool(&run, ASIM_EV_POOL_BEGIN, 1, 0, ASIM_POOL_ALL);
    tc_expect(tc_alloc(&run, 0, 4 * MIB, 1), "A 0 0 4194304 sa:0:20971520:1");
    tc_pool(&run, ASIM_EV_POOL_END, 2, 0, 0);
    tc_expect(tc_alloc(&run, 1, 4 * MIB, 1), "A 1 0 4194304 sa:1:20971520:1");
    tc_pool(&run, ASIM_EV_POOL_END, 1, 0, 0);
    tc_end(&run);
}

/* R78, R79: a free in a scope is put aside; the use made in it gets no event afterwards. */
Test(torchcache_pools, frees_are_put_aside_while_capturing)
{
    tc_run run = tc_start("", GIB);
    tc_alloc(&run, 0, 4 * MIB, 0);
    tc_pool(&run, ASIM_EV_POOL_BEGIN, 1, 0, ASIM_POOL_CAPTURE);
    tc_pool(&run, ASIM_EV_POOL_JOIN, 1, 0, 0);
    tc_use(&run, 0, 1);
    tc_expect(tc_free(&run, 0), ".");
    tc_expect(tc_alloc(&run, 1, 4 * MIB, 0), "A 1 0 4194304 sa:1:20971520:0");
    tc_pool(&run, ASIM_EV_POOL_END, 1, 0, 0);
    tc_expect(tc_alloc(&run, 2, 4 * MIB, 0), "A 0 0 4194304 fc:0:0");
    tc_end(&run);
}

/* R40 step 9, R77: up to 2.12 no full release and no retry while a scope is open, although memory is cached.
 */
Test(torchcache_pools, no_retry_while_capturing)
{
    tc_run run = tc_start("torch=2.11", 64 * MIB);
    tc_alloc(&run, 0, 40 * MIB, 0);
    tc_free(&run, 0);
    tc_pool(&run, ASIM_EV_POOL_BEGIN, 1, 0, ASIM_POOL_ALL);
    tc_expect(tc_alloc(&run, 1, 30 * MIB, 0), "O oom:25165824:31457280");
    cr_expect_eq(tc_number(&run, "num_alloc_retries"), 0);
    tc_pool(&run, ASIM_EV_POOL_END, 1, 0, 0);
    tc_expect(tc_alloc(&run, 2, 44 * MIB, 0), "A 1 0 46137344 sf:0:41943040 sa:1:46137344:0");
    cr_expect_eq(tc_number(&run, "num_alloc_retries"), 1);
    tc_end(&run);
}

/* R61: with an active pool, empty_cache of 2.6 and later concerns that pool alone, and only if it has no use
 * left. */
Test(torchcache_pools, empty_cache_of_the_active_pool)
{
    tc_run run = tc_start("torch=2.6", GIB);
    tc_alloc(&run, 0, 4 * MIB, 0);
    tc_free(&run, 0);
    tc_pool(&run, ASIM_EV_POOL_RETAIN, 1, 0, 0);
    tc_pool(&run, ASIM_EV_POOL_ENTER, 1, 0, 0);
    tc_expect(tc_empty_cache(&run), ".");
    cr_expect_eq(tc_number(&run, "num_sync_all_streams"), 0);
    tc_pool(&run, ASIM_EV_POOL_LEAVE, 0, 0, 0);
    tc_expect(tc_empty_cache(&run), ". sf:0:20971520");
    tc_end(&run);
}

/* R61: empty_cache of 2.5 looks at no active pool (recorded from the wheel of 2.5.1: tests/golden). */
Test(torchcache_pools, empty_cache_of_2_5_looks_at_no_active_pool)
{
    tc_run run = tc_start("torch=2.5", GIB);
    tc_alloc(&run, 0, 4 * MIB, 0);
    tc_free(&run, 0);
    tc_pool(&run, ASIM_EV_POOL_RETAIN, 1, 0, 0);
    tc_pool(&run, ASIM_EV_POOL_ENTER, 1, 0, 0);
    tc_expect(tc_empty_cache(&run), ". sf:0:20971520");
    tc_end(&run);
}

/* A lane that names a pool goes there without a scope: recordings that carry pool ids. */
Test(torchcache_pools, lanes_that_name_a_pool)
{
    tc_run run = tc_start("", GIB);
    tc_expect(tc_step(&run, (asim_event){ASIM_EV_ALLOC, 0, tc_lane(0, 0, 1), 0, 4 * MIB}),
              "A 0 0 4194304 sa:0:20971520:0");
    tc_expect(tc_alloc(&run, 1, 4 * MIB, 0), "A 1 0 4194304 sa:1:20971520:0");
    tc_free(&run, 0);
    tc_expect(tc_empty_cache(&run), ".");
    tc_end(&run);
}

/* R123, R125: what each private pool holds, from 2.13 on; the entry survives the pool's memory. */
Test(torchcache_pools, reserved_by_private_pools)
{
    tc_run run = tc_start("torch=2.13", GIB);
    tc_pool(&run, ASIM_EV_POOL_BEGIN, 1, 0, ASIM_POOL_ALL);
    tc_alloc(&run, 0, 4 * MIB, 0);
    tc_alloc(&run, 1, 1000, 0);
    tc_pool(&run, ASIM_EV_POOL_END, 1, 0, 0);
    tc_alloc(&run, 2, 30 * MIB, 0);
    cr_expect_str_eq(tc_stat(&run, "reserved_bytes_by_private_pools.0_1.all"),
                     "23068672/23068672/23068672/0");
    cr_expect_str_eq(tc_stat(&run, "reserved_bytes_by_private_pools.0_1.small_pool"),
                     "2097152/2097152/2097152/0");
    tc_free(&run, 0);
    tc_free(&run, 1);
    tc_pool(&run, ASIM_EV_POOL_RELEASE, 1, 0, 0);
    tc_empty_cache(&run);
    cr_expect_str_eq(tc_stat(&run, "reserved_bytes_by_private_pools.0_1.all"),
                     "0/23068672/23068672/23068672");
    tc_end(&run);
}

/* R8: devices share nothing; an event completes on the device of its stream (R76). */
Test(torchcache_pools, devices)
{
    tc_run run = tc_start("", 64 * MIB);
    tc_expect(tc_step(&run, (asim_event){ASIM_EV_ALLOC, 0, tc_lane(1, 0, 0), 0, 40 * MIB}),
              "A 0 0 41943040 sa:0:41943040:0");
    tc_expect(tc_alloc(&run, 1, 40 * MIB, 0), "A 1 0 41943040 sa:1:41943040:0");
    tc_step(&run,
            (asim_event){ASIM_EV_USE, 0, tc_lane(1, 0, 0), 1, 0}); /* handle 0 there too: ignored (R71) */
    tc_expect(tc_free(&run, 1), ". fc:1:0");
    tc_expect(tc_alloc(&run, 1, 40 * MIB, 0), "A 1 0 41943040");
    tc_step(&run, (asim_event){ASIM_EV_USE, 0, tc_lane(1, 1, 0), 1, 0});
    tc_expect(tc_free(&run, 1), ".");
    tc_step(&run, (asim_event){ASIM_EV_SYNC, 0, tc_lane(1, 1, 0), ASIM_SYNC_STREAM, 0});
    tc_expect(tc_alloc(&run, 1, 40 * MIB, 0), "A 1 0 41943040 fc:1:0");
    tc_end(&run);
}

/* R106: from 2.10 on the scope begun last. */
Test(torchcache_pools, the_scope_begun_last_wins)
{
    tc_run run = tc_start("torch=2.10", GIB);
    tc_pool(&run, ASIM_EV_POOL_BEGIN, 2, 0, ASIM_POOL_ALL);
    tc_pool(&run, ASIM_EV_POOL_BEGIN, 1, 0, ASIM_POOL_ALL);
    tc_alloc(&run, 0, 4 * MIB, 0);
    tc_free(&run, 0);
    tc_pool(&run, ASIM_EV_POOL_END, 1, 0, 0);
    tc_expect(tc_alloc(&run, 1, 4 * MIB, 0), "A 1 0 4194304 sa:1:20971520:0");
    tc_pool(&run, ASIM_EV_POOL_END, 2, 0, 0);
    tc_end(&run);
}

/* R77: from 2.13 on a scope of the user's is no capture situation, nor is a capture on another stream. */
Test(torchcache_pools, captures_by_stream)
{
    tc_run run = tc_start("torch=2.13", 64 * MIB);
    tc_alloc(&run, 0, 40 * MIB, 0);
    tc_free(&run, 0);
    tc_pool(&run, ASIM_EV_POOL_BEGIN, 1, 0, ASIM_POOL_ALL);
    tc_expect(tc_alloc(&run, 1, 30 * MIB, 0), "A 1 0 31457280 sf:0:41943040 sa:1:31457280:0");
    tc_pool(&run, ASIM_EV_POOL_END, 1, 0, 0);
    tc_free(&run, 1);
    tc_pool(&run, ASIM_EV_POOL_BEGIN, 2, 1, ASIM_POOL_CAPTURE);
    tc_pool(&run, ASIM_EV_POOL_JOIN, 2, 1, 0);
    tc_expect(tc_alloc(&run, 2, 50 * MIB, 1), "O oom:35651584:52428800"); /* stream 1 captures: no release */
    cr_expect_eq(tc_number(&run, "num_alloc_retries"), 1);
    tc_pool(&run, ASIM_EV_POOL_RELEASE, 1, 0, 0);
    tc_expect(tc_alloc(&run, 3, 50 * MIB, 0), "A 2 0 52428800 sf:1:31457280 sa:2:52428800:0");
    cr_expect_eq(tc_number(&run, "num_alloc_retries"), 2);
    tc_end(&run);
}

/* R81: up to 2.4 private pools have ordinary segments; R63: split as the option says all the same. */
Test(torchcache_pools, pools_without_ranges)
{
    tc_run run = tc_start("torch=2.4,expandable_segments=true", GIB);
    tc_pool(&run, ASIM_EV_POOL_BEGIN, 1, 0, ASIM_POOL_ALL);
    tc_expect(tc_alloc(&run, 0, 9 * MIB, 0), "A 0 0 9437184 sa:0:20971520:0");
    tc_expect(tc_alloc(&run, 1, 10 * MIB + 512 * KIB, 0), "A 0 9437184 11010048");
    tc_pool(&run, ASIM_EV_POOL_END, 1, 0, 0);
    tc_end(&run);
}

/* R61: with an active pool and no scope, the last attempt of 2.6 and 2.7 leaves the default pools alone. */
Test(torchcache_pools, the_last_try_follows_the_active_pool)
{
    static const char *const releases[] = {"torch=2.5", "torch=2.6", "torch=2.7", "torch=2.8"};
    for (size_t i = 0; i < 4; i++) {
        tc_run run = tc_start(releases[i], 64 * MIB);
        tc_alloc(&run, 0, 40 * MIB, 0);
        tc_free(&run, 0);
        tc_pool(&run, ASIM_EV_POOL_RETAIN, 1, 0, 0);
        tc_pool(&run, ASIM_EV_POOL_ENTER, 1, 0, 0);
        tc_expect(tc_alloc(&run, 1, 50 * MIB, 0), i == 1 || i == 2
                                                      ? "O oom:25165824:52428800"
                                                      : "A 1 0 52428800 sf:0:41943040 sa:1:52428800:0");
        tc_pool(&run, ASIM_EV_POOL_LEAVE, 0, 0, 0);
        tc_end(&run);
    }
}

/* R61: with an active pool, the last attempt of 2.6 and 2.7 concerns that pool alone, which is in use here;
 * later ones release the cache. */
Test(torchcache_pools, the_last_attempt_with_an_active_pool)
{
    static const struct {
        const char *params, *expected;
    } cases[] = {
        {"torch=2.6", "O oom:25165824:52428800"},
        {"torch=2.7", "O oom:25165824:52428800"},
        {"torch=2.8", "A 1 0 52428800 sf:0:41943040 sa:1:52428800:0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tc_run run = tc_start(cases[i].params, 64 * MIB);
        tc_alloc(&run, 0, 40 * MIB, 0);
        tc_free(&run, 0);
        tc_pool(&run, ASIM_EV_POOL_RETAIN, 1, 0, 0);
        tc_pool(&run, ASIM_EV_POOL_ENTER, 1, 0, 0);
        tc_expect(tc_alloc(&run, 1, 50 * MIB, 0), cases[i].expected);
        cr_expect_eq(tc_number(&run, "num_alloc_retries"), 1);
        tc_end(&run);
    }
}
