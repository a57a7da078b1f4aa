/* torchcache takes over the opening state of a recording that begins in mid-run. */
#include "tests/unit/torchcache_run.h"

#define BASE (UINT64_C(0x7f) << 40)

/* One line a segment of device 0: "G OFFSET SIZE: size/requested/state ...", offsets from BASE. */
typedef struct layout {
    char text[2048];
    size_t length;
} layout;

static void see_segment(void *ctx, const asim_walk_segment *segment)
{
    layout *shown = ctx;
    shown->length +=
        (size_t)snprintf(shown->text + shown->length, sizeof shown->text - shown->length,
                         "G %" PRIu64 " %" PRIu64 ":", (segment->address - BASE) / MIB, segment->size / MIB);
}

static void see_block(void *ctx, const asim_walk_block *block)
{
    layout *shown = ctx;
    shown->length += (size_t)snprintf(shown->text + shown->length, sizeof shown->text - shown->length,
                                      " %" PRIu64 "/%" PRIu64 "/%d", block->size / MIB, block->requested,
                                      (int)block->state);
}

static const char *show(const tc_run *run)
{
    static layout shown;
    memset(&shown, 0, sizeof shown);
    const asim_walker walker = {see_segment, see_block, &shown};
    asim_engine_walk(run->engine, &walker);
    return shown.text;
}

static const asim_opening_block blocks[] = {
    {.size = 4 * MIB, .requested = 4 * MIB, .id = 0, .state = ASIM_BLOCK_LIVE},
    {.size = 6 * MIB, .requested = 77, .id = ASIM_NO_INDEX, .state = ASIM_BLOCK_FREE},
    {.size = 10 * MIB, .requested = 10 * MIB - 5, .id = 1, .state = ASIM_BLOCK_PENDING},
    {.size = 12 * MIB, .id = ASIM_NO_INDEX, .state = ASIM_BLOCK_FREE},
    /* expandable: two runs */
    {.size = 40 * MIB, .requested = 40 * MIB, .id = 2, .state = ASIM_BLOCK_LIVE},
    {.size = 16 * MIB, .requested = 16 * MIB, .id = 3, .state = ASIM_BLOCK_LIVE},
    {.size = 4 * MIB, .id = ASIM_NO_INDEX, .state = ASIM_BLOCK_FREE},
};

/* R2, R5, R172: current values from the state, totals equal to them, no counter moved. */
Test(torchcache_adopt, plain_segments)
{
    const asim_opening_segment segments[] = {
        {.address = BASE, .size = 20 * MIB, .first_block = 0, .block_count = 3, .lane = tc_lane(0, 0, 0)},
        {.address = BASE + 64 * MIB,
         .size = 12 * MIB,
         .first_block = 3,
         .block_count = 1,
         .lane = tc_lane(0, 1, 0)},
    };
    const asim_trace opening = {.slot_count = 8,
                                .opening_segments = segments,
                                .opening_segment_count = 2,
                                .opening_blocks = blocks,
                                .opening_block_count = 4};
    tc_run run = tc_start_from("", 64 * MIB, &opening);
    tc_expect(show(&run), "G 0 20: 4/4194304/1 6/77/0 10/10485755/2G 64 12: 12/0/0");
    tc_expect(tc_stat(&run, "allocation.all"), "1/1/1/0");
    tc_expect(tc_stat(&run, "active_bytes.all"), "14680064/14680064/14680064/0");
    tc_expect(tc_stat(&run, "requested_bytes.all"), "14680059/14680059/14680059/0");
    tc_expect(tc_stat(&run, "inactive_split_bytes.all"), "6291456/6291456/6291456/0");
    tc_expect(tc_stat(&run, "reserved_bytes.all"), "33554432/33554432/33554432/0");
    tc_expect(tc_stat(&run, "segment.all"), "2/2/2/0");
    cr_expect_eq(tc_number(&run, "num_device_alloc"), 0);

    tc_expect(tc_alloc(&run, 4, 12 * MIB, 1), "A 1 0 12582912");
    tc_expect(tc_alloc(&run, 5, 6 * MIB, 0), "A 0 4194304 6291456");
    tc_step(&run, (asim_event){ASIM_EV_FREE_DONE, 0, 0, 1, 0});
    tc_expect(tc_alloc(&run, 6, 9 * MIB, 0), "A 0 10485760 10485760");
    for (uint32_t id = 4; id < 7; id++)
        tc_free(&run, id);
    tc_free(&run, 0);
    tc_empty_cache(&run);
    tc_expect(show(&run), "");
    cr_expect_eq(tc_number(&run, "num_device_free"), 2);
    tc_end(&run);
}

/* R83, R85, R87: the two runs are one range; the hole between them is filled first. */
Test(torchcache_adopt, expandable_ranges)
{
    const asim_opening_segment segments[] = {
        {.address = BASE, .size = 40 * MIB, .first_block = 4, .block_count = 1, .lane = 0, .expandable = 1},
        {.address = BASE + 80 * MIB,
         .size = 20 * MIB,
         .first_block = 5,
         .block_count = 2,
         .lane = 0,
         .expandable = 1},
    };
    const asim_trace opening = {.slot_count = 8,
                                .opening_segments = segments,
                                .opening_segment_count = 2,
                                .opening_blocks = blocks,
                                .opening_block_count = 7};
    tc_run run = tc_start_from("expandable_segments=true", 16 * GIB, &opening);
    tc_expect(show(&run), "G 0 40: 40/41943040/1G 80 20: 16/16777216/1 4/0/0");
    tc_expect(tc_stat(&run, "segment.all"), "0/0/0/0");
    tc_expect(tc_stat(&run, "reserved_bytes.all"), "62914560/62914560/62914560/0");
    tc_expect(tc_alloc(&run, 5, 30 * MIB, 0), "A 0 41943040 31457280 sm:0:41943040:41943040");
    tc_expect(tc_alloc(&run, 6, 20 * MIB, 0), "A 0 100663296 20971520 sm:0:104857600:20971520");
    tc_expect(show(&run), "G 0 120: 40/41943040/1 30/31457280/1 10/0/0 16/16777216/1 20/20971520/1 4/0/0");
    tc_end(&run);
}
