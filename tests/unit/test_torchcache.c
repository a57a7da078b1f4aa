/* torchcache without expandable segments: the worked examples of the specification, section 27, by its rules.
 */
#include "policies/torchcache_round.h"
#include "tests/unit/torchcache_run.h"

/* 27.1: R25, R26, R27. Rows: divisions; columns: requested size. */
Test(torchcache_round, table_of_divisions)
{
    static const uint64_t sizes[] = {
        1,    511,     512,           513,           1200,    2049,          3000,
        5000, 1 << 20, (1 << 20) + 1, (3 << 19) + 1, 3 << 20, (5 << 20) + 1, (100 << 20) + 1};
    static const struct {
        uint32_t divisions;
        uint64_t rounded[14];
    } rows[] = {
        {0,
         {512, 512, 512, 1024, 1536, 2560, 3072, 5120, 1048576, 1049088, 1573376, 3145728, 5243392,
          104858112}},
        {1,
         {512, 512, 512, 1024, 1536, 2560, 3072, 5120, 1048576, 1049088, 1573376, 3145728, 5243392,
          104858112}},
        {2,
         {512, 512, 512, 1024, 1536, 3072, 3072, 6144, 1048576, 1572864, 2097152, 3145728, 6291456,
          134217728}},
        {4,
         {512, 512, 512, 1024, 1536, 2560, 3072, 5120, 1048576, 1310720, 1835008, 3145728, 6291456,
          117440512}},
        {8,
         {512, 512, 512, 1024, 1536, 2560, 3072, 5120, 1048576, 1179648, 1703936, 3145728, 5767168,
          109051904}},
        {16,
         {512, 512, 512, 1024, 1536, 2560, 3072, 5120, 1048576, 1114112, 1638400, 3145728, 5505024,
          109051904}},
    };
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        asim_tc_rounding rounding = {.on = rows[row].divisions != 0, .bypass = UINT64_MAX};
        for (unsigned slot = 0; slot < ASIM_TC_SLOTS; slot++)
            rounding.divisions[slot] = rows[row].divisions;
        for (size_t i = 0; i < 14; i++)
            cr_expect_eq(asim_tc_round(&rounding, sizes[i]), rows[row].rounded[i], "%u divisions, %lu bytes",
                         rows[row].divisions, sizes[i]);
    }
}

/* R23: the slot is that of the size before rounding, from 32 GiB on the last. */
Test(torchcache_round, slots)
{
    asim_tc_rounding rounding = {.on = true, .bypass = UINT64_MAX};
    rounding.divisions[0] = 2;
    rounding.divisions[15] = 4;
    cr_expect_eq(asim_tc_round(&rounding, 2 * MIB - 1), 2 * MIB);
    cr_expect_eq(asim_tc_round(&rounding, 2 * MIB + 1), 2 * MIB + 512);
    cr_expect_eq(asim_tc_round(&rounding, 32 * GIB - 1), 32 * GIB);
    cr_expect_eq(asim_tc_round(&rounding, 32 * GIB + 1), 40 * GIB);
    cr_expect_eq(asim_tc_round(&rounding, 128 * GIB + 1), 160 * GIB);
}

/* R31, R32. */
Test(torchcache_round, segment_sizes)
{
    cr_expect_eq(asim_tc_segment_size(MIB, 20 * MIB), 2 * MIB);
    cr_expect_eq(asim_tc_segment_size(MIB + 512, 20 * MIB), 20 * MIB);
    cr_expect_eq(asim_tc_segment_size(10 * MIB - 512, 20 * MIB), 20 * MIB);
    cr_expect_eq(asim_tc_segment_size(10 * MIB, 20 * MIB), 10 * MIB);
    cr_expect_eq(asim_tc_segment_size(10 * MIB + 512, 20 * MIB), 12 * MIB);
}

/* R24. */
Test(torchcache, zero_bytes_and_too_many)
{
    tc_run run = tc_start("", GIB);
    tc_expect(tc_alloc(&run, 0, 0, 0), "N");
    tc_expect(tc_alloc(&run, 1, UINT64_C(1) << 60, 0), "O");
    cr_expect_eq(tc_number(&run, "num_ooms"), 0);
    cr_expect_eq(tc_number(&run, "num_alloc_retries"), 0);
    tc_end(&run);
}

/* 27.2: R25, R31, R62, R64, R68, R57 (large before small), R118 to R121. */
Test(torchcache, default_options)
{
    tc_run run = tc_start("", GIB);
    tc_expect(tc_alloc(&run, 0, 1, 0), "A 0 0 512 sa:0:2097152:0");
    tc_expect(tc_alloc(&run, 1, 1000, 0), "A 0 512 1024");
    tc_expect(tc_alloc(&run, 2, 1048576, 0), "A 0 1536 1048576");
    tc_expect(tc_alloc(&run, 3, 1048577, 0), "A 1 0 1049088 sa:1:20971520:0");
    tc_expect(tc_stat(&run, "allocation.all"), "4/4/4/0");
    tc_expect(tc_stat(&run, "segment.all"), "2/2/2/0");
    tc_expect(tc_stat(&run, "inactive_split.all"), "2/2/2/0");
    tc_expect(tc_stat(&run, "allocated_bytes.all"), "2099200/2099200/2099200/0");
    tc_expect(tc_stat(&run, "reserved_bytes.all"), "23068672/23068672/23068672/0");
    tc_expect(tc_stat(&run, "inactive_split_bytes.all"), "20969472/20969472/22019072/1049600");
    tc_expect(tc_stat(&run, "requested_bytes.all"), "2098154/2098154/2098154/0");
    tc_expect(tc_free(&run, 0), ". fc:0:0");
    tc_expect(tc_free(&run, 2), ". fc:0:1536");
    tc_expect(tc_free(&run, 1), ". fc:0:512");
    tc_expect(tc_stat(&run, "inactive_split.all"), "1/3/3/2");
    tc_expect(tc_stat(&run, "inactive_split_bytes.all"), "19922432/22018560/23068160/3145728");
    tc_expect(tc_free(&run, 3), ". fc:1:0");
    tc_expect(tc_empty_cache(&run), ". sf:1:20971520 sf:0:2097152");
    cr_expect_eq(tc_number(&run, "reserved_bytes.all.current"), 0);
    cr_expect_eq(tc_number(&run, "active.all.current"), 0);
    cr_expect_eq(tc_number(&run, "num_device_free"), 2);
    cr_expect_eq(tc_number(&run, "num_sync_all_streams"), 1);
    cr_expect_eq(tc_number(&run, "max_split_size"), -1);
    tc_end(&run);
}

/* 27.3: R62 case 3, the slack of up to 1 MiB. */
Test(torchcache, unsplit_slack)
{
    tc_run run = tc_start("", GIB);
    tc_expect(tc_alloc(&run, 0, 6 * MIB, 0), "A 0 0 6291456 sa:0:20971520:0");
    tc_expect(tc_alloc(&run, 1, 27 * MIB / 2, 0), "A 0 6291456 14680064");
    tc_expect(tc_stat(&run, "inactive_split.all"), "0/1/1/1");
    cr_expect_eq(tc_number(&run, "requested_bytes.all.current"), 6291456 + 14155776);
    tc_end(&run);
}

/* The last size that is not split, and the first that is (R62: strictly more than 1 MiB). */
Test(torchcache, split_needs_more_than_a_mebibyte)
{
    tc_run run = tc_start("", GIB);
    tc_expect(tc_alloc(&run, 0, 9 * MIB, 0), "A 0 0 9437184 sa:0:20971520:0");
    tc_expect(tc_alloc(&run, 1, 10 * MIB - 512, 0), "A 0 9437184 10485248");
    tc_expect(tc_free(&run, 1), ". fc:0:9437184");
    tc_expect(tc_alloc(&run, 2, 10 * MIB, 0), "A 0 9437184 11534336");
    tc_end(&run);
}

/* 27.7: R37 step 4, R54, R62. */
Test(torchcache, oversize_blocks)
{
    tc_run run = tc_start("max_split_size_mb=100", 400 * MIB);
    tc_expect(tc_alloc(&run, 0, 150 * MIB, 0), "A 0 0 157286400 sa:0:157286400:0");
    tc_expect(tc_alloc(&run, 1, 120 * MIB, 0), "A 1 0 125829120 sa:1:125829120:0");
    tc_free(&run, 0);
    tc_free(&run, 1);
    tc_expect(tc_alloc(&run, 2, 130 * MIB, 0), "A 2 0 136314880 sa:2:136314880:0");
    tc_expect(tc_alloc(&run, 3, 101 * MIB, 0), "A 1 0 125829120");
    tc_expect(tc_alloc(&run, 4, 60 * MIB, 0), "A 3 0 62914560 sf:0:157286400 sa:3:62914560:0");
    cr_expect_eq(tc_number(&run, "num_alloc_retries"), 0);
    tc_expect(tc_stat(&run, "oversize_allocations"), "2/2/4/2");
    tc_expect(tc_stat(&run, "oversize_segments"), "2/3/3/1");
    tc_end(&run);
}

/* 27.7, second part: R54 step 4, the largest first. */
Test(torchcache, release_from_the_largest_down)
{
    tc_run run = tc_start("max_split_size_mb=100", 400 * MIB);
    tc_alloc(&run, 0, 110 * MIB, 0);
    tc_alloc(&run, 1, 120 * MIB, 0);
    tc_alloc(&run, 2, 130 * MIB, 0);
    for (uint32_t id = 0; id < 3; id++)
        tc_free(&run, id);
    tc_expect(tc_alloc(&run, 3, 200 * MIB, 0),
              "A 3 0 209715200 sf:2:136314880 sf:1:125829120 sa:3:209715200:0");
    tc_end(&run);
}

/* R37 step 4, non-split rounding (section 5.3): a block of exactly the request + r is refused. */
Test(torchcache, non_split_rounding)
{
    tc_run run = tc_start("max_split_size_mb=100,max_non_split_rounding_mb=30", GIB);
    tc_alloc(&run, 0, 150 * MIB, 0);
    tc_free(&run, 0);
    tc_expect(tc_alloc(&run, 1, 120 * MIB, 0), "A 1 0 125829120 sa:1:125829120:0");
    tc_expect(tc_alloc(&run, 2, 121 * MIB, 0), "A 0 0 157286400");
    tc_end(&run);
}

/* 27.8: R40 steps 9 and 10, R44. */
Test(torchcache, retry_and_failure)
{
    tc_run run = tc_start("", 64 * MIB);
    tc_alloc(&run, 0, 20 * MIB, 0);
    tc_alloc(&run, 1, 20 * MIB, 0);
    tc_alloc(&run, 2, 22 * MIB, 0);
    tc_free(&run, 0);
    tc_free(&run, 1);
    tc_expect(tc_alloc(&run, 3, 40 * MIB, 0), "A 3 0 41943040 sf:0:20971520 sf:1:20971520 sa:3:41943040:0");
    cr_expect_eq(tc_number(&run, "num_alloc_retries"), 1);
    cr_expect_eq(tc_number(&run, "num_sync_all_streams"), 1);
    tc_expect(tc_alloc(&run, 4, 23 * MIB, 0), "O oom:2097152:24117248");
    cr_expect_eq(tc_number(&run, "num_alloc_retries"), 2);
    cr_expect_eq(tc_number(&run, "num_ooms"), 1);
    asim_run_record record;
    asim_engine_record(run.engine, &record);
    cr_expect_eq(record.oom.segment_bytes, 24 * MIB); /* R175 item 1 */
    cr_expect_eq(record.oom.requested_bytes, 23 * MIB);
    tc_end(&run);
}

/* 27.9: R39, R47 to R50, R114. */
Test(torchcache, garbage_collection)
{
    tc_run run = tc_start("garbage_collection_threshold=0.5,fraction=0.5", GIB);
    for (uint32_t id = 0; id < 4; id++)
        tc_alloc(&run, id, (40 + 20 * id) * MIB, 0);
    for (uint32_t id = 0; id < 4; id++)
        tc_free(&run, id);
    tc_expect(tc_alloc(&run, 4, 50 * MIB, 0), "A 1 0 52428800");
    tc_expect(tc_alloc(&run, 5, 90 * MIB, 0), "A 3 0 94371840");
    tc_free(&run, 4);
    tc_free(&run, 5);
    tc_expect(tc_alloc(&run, 6, 110 * MIB, 0),
              "A 4 0 115343360 sf:0:41943040 sf:2:83886080 sa:4:115343360:0");
    tc_end(&run);
}

/* 27.10: R66, R71 to R73, R69 (a pending neighbour), R124. */
Test(torchcache, record_stream)
{
    tc_run run = tc_start("", GIB);
    tc_expect(tc_alloc(&run, 0, 4 * MIB, 0), "A 0 0 4194304 sa:0:20971520:0");
    tc_expect(tc_alloc(&run, 1, 4 * MIB, 0), "A 0 4194304 4194304");
    tc_use(&run, 0, 1);
    tc_use(&run, 0, 1); /* counts once (R72) */
    tc_use(&run, 1, 0); /* its own stream: ignored (R71) */
    tc_expect(tc_free(&run, 0), ".");
    tc_expect(tc_stat(&run, "allocation.all"), "1/2/2/1");
    tc_expect(tc_stat(&run, "allocated_bytes.all"), "4194304/8388608/8388608/4194304");
    tc_expect(tc_stat(&run, "active.all"), "2/2/2/0");
    tc_expect(tc_stat(&run, "active_bytes.all"), "8388608/8388608/8388608/0");
    tc_expect(tc_alloc(&run, 2, 4 * MIB, 0), "A 0 8388608 4194304");
    tc_expect(tc_free(&run, 1), ". fc:0:4194304");
    tc_expect(tc_stat(&run, "inactive_split.all"), "2/2/2/0");
    tc_expect(tc_stat(&run, "inactive_split_bytes.all"), "12582912/16777216/20971520/8388608");
    tc_expect(tc_sync(&run, 1), ".");
    tc_expect(tc_alloc(&run, 3, 8 * MIB, 0), "A 0 0 8388608 fc:0:0");
    tc_expect(tc_stat(&run, "inactive_split.all"), "1/2/2/1");
    tc_expect(tc_stat(&run, "inactive_split_bytes.all"), "8388608/16777216/25165824/16777216");
    tc_end(&run);
}

/* R41: what the full release freed in part-used segments serves no request any more. */
Test(torchcache, no_second_search_after_the_full_release)
{
    tc_run run = tc_start("", 20 * MIB);
    tc_expect(tc_alloc(&run, 0, 9 * MIB, 0), "A 0 0 9437184 sa:0:20971520:0");
    tc_expect(tc_alloc(&run, 1, 9 * MIB, 0), "A 0 9437184 9437184");
    tc_use(&run, 0, 1);
    tc_expect(tc_free(&run, 0), ".");
    tc_expect(tc_alloc(&run, 2, 9 * MIB, 0), "O fc:0:0 oom:0:9437184");
    tc_expect(tc_alloc(&run, 3, 9 * MIB, 0), "A 0 0 9437184");
    tc_end(&run);
}

/* R33, R60: streams never share free blocks; a release goes by stream, then size. */
Test(torchcache, streams_keep_their_own)
{
    tc_run run = tc_start("", GIB);
    tc_expect(tc_alloc(&run, 0, 12 * MIB, 1), "A 0 0 12582912 sa:0:12582912:1");
    tc_expect(tc_alloc(&run, 1, 16 * MIB, 0), "A 1 0 16777216 sa:1:16777216:0");
    tc_expect(tc_alloc(&run, 2, 14 * MIB, 0), "A 2 0 14680064 sa:2:14680064:0");
    for (uint32_t id = 0; id < 3; id++)
        tc_free(&run, id);
    tc_expect(tc_alloc(&run, 3, 12 * MIB, 2), "A 3 0 12582912 sa:3:12582912:2");
    tc_free(&run, 3);
    tc_expect(tc_empty_cache(&run), ". sf:2:14680064 sf:1:16777216 sf:0:12582912 sf:3:12582912");
    tc_end(&run);
}

/* The recording says when a pending free completes (sim/event.h, FREE_DONE); no event is involved. */
Test(torchcache, recorded_completion)
{
    tc_run run = tc_start("", GIB);
    tc_alloc(&run, 0, 4 * MIB, 0);
    tc_expect(tc_step(&run, (asim_event){ASIM_EV_FREE, ASIM_FREE_PENDING, 0, 0, 0}), ".");
    tc_expect(tc_alloc(&run, 1, 4 * MIB, 0), "A 0 4194304 4194304");
    tc_expect(tc_stat(&run, "active.all"), "2/2/2/0");
    tc_expect(tc_step(&run, (asim_event){ASIM_EV_FREE_DONE, 0, 0, 0, 0}), ". fc:0:0");
    tc_expect(tc_alloc(&run, 2, 4 * MIB, 0), "A 0 0 4194304");
    tc_end(&run);
}

/* R125. */
Test(torchcache, statistics_reset)
{
    tc_run run = tc_start("", GIB);
    tc_alloc(&run, 0, 4 * MIB, 0);
    tc_alloc(&run, 1, 4 * MIB, 0);
    tc_free(&run, 0);
    tc_step(&run, (asim_event){ASIM_EV_STATS_RESET, 0, 0, 0, 0});
    tc_expect(tc_stat(&run, "allocation.all"), "1/1/2/1");
    tc_step(&run, (asim_event){ASIM_EV_STATS_RESET, 0, 0, 1, 0});
    tc_expect(tc_stat(&run, "allocation.all"), "1/1/0/0");
    cr_expect_eq(tc_number(&run, "num_device_alloc"), 0);
    tc_free(&run, 1);
    tc_expect(tc_stat(&run, "allocation.all"), "0/1/0/1");
    tc_end(&run);
}

/* R33, R35: of two free segments of one size, the one of the lower address, from 2.13 on the older one. The
 * opening state names the older one, at the higher address, first. */
static void expect_tie(const char *params, uint32_t taken, const char *released)
{
    static const asim_opening_block blocks[] = {{.size = 30 * MIB, .state = ASIM_BLOCK_FREE},
                                                {.size = 30 * MIB, .state = ASIM_BLOCK_FREE}};
    static const asim_opening_segment segments[] = {
        {.address = 0x7f0000000000, .size = 30 * MIB, .first_block = 0, .block_count = 1},
        {.address = 0x7e0000000000, .size = 30 * MIB, .first_block = 1, .block_count = 1}};
    static const asim_trace opening = {.opening_segments = segments,
                                       .opening_segment_count = 2,
                                       .opening_blocks = blocks,
                                       .opening_block_count = 2,
                                       .slot_count = 1};
    tc_run run = tc_start_from(params, GIB, &opening);
    char placed[32];
    snprintf(placed, sizeof placed, "A %u 0 31457280", taken);
    tc_expect(tc_alloc(&run, 0, 30 * MIB, 0), placed);
    tc_free(&run, 0);
    tc_expect(tc_empty_cache(&run), released); /* R60: releases walk the same order */
    tc_end(&run);
}

Test(torchcache, ties_by_address)
{
    expect_tie("torch=2.11", 1, ". sf:1:31457280 sf:0:31457280");
}

Test(torchcache, ties_by_age)
{
    expect_tie("torch=2.13", 0, ". sf:0:31457280 sf:1:31457280");
    expect_tie("torch=2.15", 0, ". sf:0:31457280 sf:1:31457280");
}

/* R114: cut off, from 2.13 on rounded: 4194303.6 bytes let two segments of 2 MiB in. R115. */
Test(torchcache, limits_by_release)
{
    static const char *const fraction = ",fraction=0.0009765624068677425";
    static const struct {
        const char *torch, *second;
    } cases[] = {{"torch=2.11", "O oom:4292870144:1048576"}, {"torch=2.13", "A 1 0 1048576 sa:1:2097152:0"}};
    for (size_t i = 0; i < 2; i++) {
        char params[96];
        snprintf(params, sizeof params, "%s%s", cases[i].torch, fraction);
        tc_run run = tc_start(params, 4 * GIB);
        tc_alloc(&run, 0, MIB, 0);
        tc_alloc(&run, 2, MIB, 0);
        tc_expect(tc_alloc(&run, 1, MIB, 0), cases[i].second);
        tc_end(&run);
    }
}

/* R114: the fraction 1 sets a limit up to 2.9, and none from 2.10 on: the request reaches the device. R11. */
Test(torchcache, a_full_fraction)
{
    tc_run run = tc_start("torch=2.9,fraction=1,garbage_collection_threshold=0.5", 64 * MIB);
    tc_alloc(&run, 0, 40 * MIB, 0);
    tc_free(&run, 0);
    tc_expect(tc_alloc(&run, 1, 50 * MIB, 0), "A 1 0 52428800 sf:0:41943040 sa:1:52428800:0");
    cr_expect_eq(tc_number(&run, "num_alloc_retries"), 0); /* collected, R47 */
    tc_end(&run);
    run = tc_start("torch=2.10,fraction=1,garbage_collection_threshold=0.5", 64 * MIB);
    tc_alloc(&run, 0, 40 * MIB, 0);
    tc_free(&run, 0);
    tc_alloc(&run, 1, 50 * MIB, 0);
    cr_expect_eq(tc_number(&run, "num_alloc_retries"), 1);
    tc_end(&run);
    run = tc_start("torch=2.10,conf=per_process_memory_fraction:0.5", 64 * MIB);
    tc_expect(tc_alloc(&run, 0, 40 * MIB, 0), "O oom:67108864:41943040");
    tc_end(&run);
}

/* R116: refused at once, with no retry, no oom entry and the cache kept. */
Test(torchcache, rejection)
{
    tc_run run =
        tc_start("torch=2.13,conf=[throw_on_cudamalloc_oom:True,per_process_memory_fraction:1.0]", 64 * MIB);
    tc_alloc(&run, 0, 40 * MIB, 0);
    tc_free(&run, 0);
    tc_expect(tc_alloc(&run, 1, 50 * MIB, 0), "O");
    cr_expect_eq(tc_number(&run, "num_ooms"), 0);
    cr_expect_eq(tc_number(&run, "num_alloc_retries"), 0);
    cr_expect_eq(tc_number(&run, "reserved_bytes.all.current"), 40 * MIB);
    tc_end(&run);
}

static void expect_text(const tc_run *run, size_t failure, const char *part)
{
    const asim_failures *failures = asim_engine_failures(run->engine);
    cr_assert_lt(failure, failures->count);
    const char *text = failures->items[failure].message;
    cr_assert_not_null(text);
    cr_expect(strstr(text, part), "%s is not in: %s", part, text);
}

/* R24, R116, R44: each refusal has the text of its sort. R116 names the request, and R175
 * the segment, 66 MiB for 65 MiB and a byte (R42). */
Test(torchcache, what_a_refusal_says)
{
    tc_run run = tc_start("torch=2.13,conf=throw_on_cudamalloc_oom:True", 64 * MIB);
    cr_expect_eq(asim_engine_failures(run.engine)->count, 0);
    tc_expect(tc_alloc(&run, 0, UINT64_C(1) << 60, 0), "O");
    expect_text(&run, 0, "more than 1EB");
    tc_expect(tc_alloc(&run, 1, 70 * MIB + MIB / 2 + 1, 0), "O");
    expect_text(&run, 1, ": 70.50 MiB were refused without asking");
    tc_end(&run);
    run = tc_start("torch=2.6", 64 * MIB);
    tc_expect(tc_alloc(&run, 0, 65 * MIB + 1, 0), "O oom:67108864:68157952");
    expect_text(&run, 0, "tried to get 66.00 MiB");
    tc_expect(tc_alloc(&run, 0, 70 * MIB, 0), "O oom:67108864:73400320");
    expect_text(&run, 1, "tried to get 70.00 MiB");
    tc_end(&run);
}

/* R114: 0.31249999404 of 64 MiB are 20971519.6 bytes: cut off, they are less than a segment of 20 MiB;
 * rounded to the nearest byte, as from 2.13 on, they are one. */
Test(torchcache, the_limit_in_whole_bytes)
{
    tc_run old = tc_start("torch=2.10,fraction=0.31249999404", 64 * MIB);
    tc_expect(tc_alloc(&old, 0, 4 * MIB, 0), "O oom:67108864:4194304");
    tc_end(&old);
    tc_run now = tc_start("torch=2.13,fraction=0.31249999404", 64 * MIB);
    tc_expect(tc_alloc(&now, 0, 4 * MIB, 0), "A 0 0 4194304 sa:0:20971520:0");
    tc_end(&now);
}

/* R116: 0.3125 of 64 MiB are 20 MiB, and a request that just fills them is not rejected. */
Test(torchcache, rejection_begins_above_the_share)
{
    tc_run run = tc_start("torch=2.13,conf=[throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.3125]",
                          64 * MIB);
    tc_expect(tc_alloc(&run, 0, 4 * MIB, 0), "A 0 0 4194304 sa:0:20971520:0");
    tc_end(&run);
}
