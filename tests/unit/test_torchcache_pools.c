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

/* Two pools' worth of free memory on 200 MiB: pool 1, marked, holds 100 MiB, the default pools 50 MiB. */
static tc_run start_with_helper(const char *params)
{
    tc_run run = tc_start(params, 200 * MIB);
    tc_pool(&run, ASIM_EV_POOL_RETAIN, 1, 0, ASIM_POOL_USE_ON_OOM);
    tc_pool(&run, ASIM_EV_POOL_BEGIN, 1, 0, ASIM_POOL_ALL);
    tc_expect(tc_alloc(&run, 0, 100 * MIB, 0), "A 0 0 104857600 sa:0:104857600:0");
    tc_pool(&run, ASIM_EV_POOL_END, 1, 0, 0);
    tc_free(&run, 0);
    tc_expect(tc_alloc(&run, 1, 50 * MIB, 0), "A 1 0 52428800 sa:1:52428800:0");
    tc_free(&run, 1);
    return run;
}

/* R42, R111: 90 MiB while 50 are left on the device. Up to 2.10 the cached 50 go first, so the device has
 * 100 and pool 1 is not asked; it is for 60 MiB more, of which the device has 10. From 2.11 on pool 1 gives
 * 90 of its 100 at once; for 60 more it has 10, and the release then makes room. */
Test(torchcache_pools, a_marked_pool_helps_out)
{
    static const char *const late[] = {"torch=2.8", "torch=2.9", "torch=2.10"}, *const early[] = {
                                                                                    "torch=2.11",
                                                                                    "torch=2.13",
                                                                                    "torch=2.14",
                                                                                    "torch=2.15"};
    for (size_t i = 0; i < 3; i++) {
        tc_run run = start_with_helper(late[i]);
        tc_expect(tc_alloc(&run, 2, 90 * MIB, 0), "A 2 0 94371840 sf:1:52428800 sa:2:94371840:0");
        tc_expect(tc_alloc(&run, 3, 60 * MIB, 0), "A 0 0 62914560");
        cr_assert_eq(tc_number(&run, "num_alloc_retries"), 2);
        tc_end(&run);
    }
    for (size_t i = 0; i < 4; i++) {
        tc_run run = start_with_helper(early[i]);
        tc_expect(tc_alloc(&run, 2, 90 * MIB, 0), "A 0 0 94371840");
        cr_assert_eq(tc_number(&run, "num_alloc_retries"), 0);
        tc_expect(tc_alloc(&run, 3, 60 * MIB, 0), "A 2 0 62914560 sf:1:52428800 sa:2:62914560:0");
        cr_assert_eq(tc_number(&run, "num_alloc_retries"), 1);
        tc_end(&run);
    }
}

/* R107, R111: the block stays its pool's; R104: the pool helps no more once its last use is gone, here before
 * 140 MiB are asked for. The device has 200 - 100 left after the release of 50, and 200 after pool 1's. */
Test(torchcache_pools, a_helper_keeps_its_memory_and_ends_with_its_last_use)
{
    tc_run run = start_with_helper("torch=2.11");
    tc_expect(tc_alloc(&run, 2, 90 * MIB, 0), "A 0 0 94371840");
    tc_free(&run, 2);
    tc_expect(tc_empty_cache(&run), ". sf:1:52428800");
    tc_pool(&run, ASIM_EV_POOL_RELEASE, 1, 0, 0);
    tc_expect(tc_alloc(&run, 3, 100 * MIB, 0), "A 2 0 104857600 sa:2:104857600:0");
    tc_expect(tc_alloc(&run, 4, 60 * MIB, 0), "A 0 0 62914560");
    tc_free(&run, 4);
    tc_pool(&run, ASIM_EV_POOL_RELEASE, 1, 0, 0);
    tc_expect(tc_alloc(&run, 4, 60 * MIB, 0), "A 3 0 62914560 sf:0:104857600 sa:3:62914560:0");
    tc_end(&run);
}

/* R111: with expandable segments on, a helper's plain blocks alone are looked at, and split as without them:
 * 99.5 of 100 MiB leave no more than 1 MiB. */
Test(torchcache_pools, a_helper_takes_no_part_in_expandable_segments)
{
    static const char *const releases[][2] = {{"torch=2.10", "torch=2.10,expandable_segments=true"},
                                              {"torch=2.11", "torch=2.11,expandable_segments=true"}};
    for (size_t i = 0; i < 2; i++) {
        tc_run run = tc_start(releases[i][0], 200 * MIB);
        tc_pool(&run, ASIM_EV_POOL_RETAIN, 1, 0, ASIM_POOL_USE_ON_OOM);
        tc_pool(&run, ASIM_EV_POOL_BEGIN, 1, 0, ASIM_POOL_ALL);
        tc_alloc(&run, 0, 100 * MIB, 0);
        tc_pool(&run, ASIM_EV_POOL_END, 1, 0, 0);
        tc_free(&run, 0);
        tc_settings(&run, "expandable_segments:True");
        tc_expect(tc_alloc(&run, 1, 90 * MIB, 0), "A 1 0 94371840 sm:1:0:104857600");
        tc_expect(tc_alloc(&run, 2, 99 * MIB + 512 * KIB, 0), "A 0 0 104857600");
        tc_end(&run);

        run = tc_start(releases[i][1], 200 * MIB);
        tc_pool(&run, ASIM_EV_POOL_RETAIN, 1, 0, ASIM_POOL_USE_ON_OOM);
        tc_pool(&run, ASIM_EV_POOL_BEGIN, 1, 0, ASIM_POOL_ALL);
        tc_alloc(&run, 0, 100 * MIB, 0);
        tc_pool(&run, ASIM_EV_POOL_END, 1, 0, 0);
        tc_free(&run, 0);
        tc_alloc(&run, 1, 90 * MIB, 0);
        tc_expect(tc_alloc(&run, 2, 60 * MIB, 0), "O oom:0:62914560");
        tc_end(&run);
    }
}

/* R62 case 1, R112: a segment serves one request at a time; the block has the segment's size. */
Test(torchcache_pools, an_unsplit_pool)
{
    tc_run run = tc_start("torch=2.10", GIB);
    tc_pool(&run, ASIM_EV_POOL_RETAIN, 1, 0, ASIM_POOL_NO_SPLIT);
    tc_pool(&run, ASIM_EV_POOL_BEGIN, 1, 0, ASIM_POOL_ALL);
    tc_expect(tc_alloc(&run, 0, 1000, 0), "A 0 0 2097152 sa:0:2097152:0");
    tc_expect(tc_alloc(&run, 1, 1000, 0), "A 1 0 2097152 sa:1:2097152:0");
    tc_expect(tc_alloc(&run, 2, 4 * MIB, 0), "A 2 0 20971520 sa:2:20971520:0");
    tc_free(&run, 0);
    tc_expect(tc_alloc(&run, 3, 2 * MIB, 0), "A 3 0 20971520 sa:3:20971520:0");
    tc_expect(tc_alloc(&run, 4, 512, 0), "A 0 0 2097152");
    tc_pool(&run, ASIM_EV_POOL_END, 1, 0, 0);
    tc_expect(tc_alloc(&run, 5, 4 * MIB, 0), "A 4 0 4194304 sa:4:20971520:0"); /* the default pool splits */
    tc_end(&run);
}

/* R103: up to 2.13 the mark stays with the pool's id, from 2.14 on it goes with the last use. */
Test(torchcache_pools, when_an_unsplit_pool_ends)
{
    static const char *const releases[] = {"torch=2.10", "torch=2.13", "torch=2.14", "torch=2.15"};
    for (size_t i = 0; i < 4; i++) {
        tc_run run = tc_start(releases[i], GIB);
        tc_pool(&run, ASIM_EV_POOL_RETAIN, 1, 0, ASIM_POOL_NO_SPLIT);
        tc_pool(&run, ASIM_EV_POOL_RELEASE, 1, 0, 0);
        tc_empty_cache(&run);
        tc_pool(&run, ASIM_EV_POOL_BEGIN, 1, 0, ASIM_POOL_ALL);
        tc_expect(tc_alloc(&run, 0, 4 * MIB, 0),
                  i < 2 ? "A 0 0 20971520 sa:0:20971520:0" : "A 0 0 4194304 sa:0:20971520:0");
        tc_end(&run);
    }
}

static void expect_failure(tc_run *run, asim_event event, const char *why)
{
    asim_err err = ASIM_ERR_INIT;
    asim_alloc_result result;
    asim_placement placed;
    cr_assert_eq(asim_engine_step(run->engine, &event, &result, &placed, &err), ASIM_E_INPUT);
    cr_expect(strstr(err.message, why), "%s", err.message);
    tc_end(run);
}

/* A mark that the release does not have; and a pool that is to help while it is being filled (R103). */
Test(torchcache_pools, marks_that_fail)
{
    const asim_event help = {ASIM_EV_POOL_RETAIN, ASIM_POOL_USE_ON_OOM, tc_lane(0, 0, 1), 0, 0},
                     whole = {ASIM_EV_POOL_RETAIN, ASIM_POOL_NO_SPLIT, tc_lane(0, 0, 1), 0, 0};
    tc_run run = tc_start("torch=2.7", GIB);
    expect_failure(&run, help, "PyTorch 2.7 has no use_on_oom for pools; the first release with it is 2.8");
    run = tc_start("torch=2.9", GIB);
    expect_failure(&run, whole, "PyTorch 2.9 has no no_split for pools; the first release with it is 2.10");

    run = tc_start("torch=2.11", 20 * MIB);
    tc_step(&run, help);
    tc_pool(&run, ASIM_EV_POOL_BEGIN, 1, 0, 0);
    tc_pool(&run, ASIM_EV_POOL_JOIN, 1, 0, 0);
    expect_failure(&run, (asim_event){ASIM_EV_ALLOC, 0, tc_lane(0, 1, 0), 0, 30 * MIB},
                   "while it is being filled");
}
