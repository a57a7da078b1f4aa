/* The builder, the rules it enforces, the copy, the slots helper. */
#include "sim/rng.h"
#include "tests/trace_sample.h"
#include "traces/check.h"
#include "traces/digest.h"
#include "traces/native.h"
#include "traces/slots.h"
#include "traces/tables.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

Test(builder, keeps_what_it_is_given)
{
    asim_trace *trace = sample_new();
    cr_assert_eq(trace->event_count, 34);
    cr_assert_eq(trace->slot_count, 6);
    cr_assert_eq(trace->lane_count, 4);
    cr_assert_eq(trace->device_count, 2);
    cr_assert_str_eq(trace->strings[trace->source].text, "hand");
    cr_assert_str_eq(trace->strings[trace->notes[1]].text, "written by hand");
    cr_assert_eq(trace->stack_table[0].count, 3);
    cr_assert_eq(trace->frame_count, 3);
    cr_assert_eq(trace->opening_segments[1].first_block, 2);
    cr_assert_eq(trace->events[1].kind, ASIM_EV_ALLOC);
    cr_assert_eq(trace->recorded_addresses[1], UINT64_C(0x7f0000000200));
    cr_assert_eq(trace->times_ns[1], 1500);
    cr_assert_eq(trace->calls[0].event, 1);
    cr_assert_eq(trace->calls[4].event, 34);
    bool seen[ASIM_EV_KINDS] = {false};
    for (uint64_t i = 0; i < trace->event_count; i++)
        seen[trace->events[i].kind] = true;
    for (unsigned kind = 1; kind < ASIM_EV_KINDS; kind++)
        cr_assert(seen[kind], "the sample lacks %s", asim_event_kind_name(kind));
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_trace_check(trace, asim_hostmem_libc(), &err), ASIM_OK, "%s", err.message);
    asim_trace_release(trace);
    asim_trace_release(NULL);
}

Test(builder, a_copy_is_the_same)
{
    asim_trace *traces[2] = {sample_new(), sample_random_new(3, 5000, true)};
    for (int i = 0; i < 2; i++) {
        asim_trace_builder *builder;
        asim_err err = ASIM_ERR_INIT;
        cr_assert_eq(asim_trace_builder_new(asim_hostmem_libc(), &builder, &err), ASIM_OK);
        asim_sink sink = asim_trace_builder_sink(builder);
        cr_assert_eq(asim_trace_copy(traces[i], &sink, &err), ASIM_OK, "%s", err.message);
        asim_trace *copy;
        cr_assert_eq(asim_trace_builder_finish(builder, &copy, &err), ASIM_OK, "%s", err.message);
        cr_assert_str_eq(sample_difference(traces[i], copy), "");
        asim_trace_release(copy);
        asim_trace_release(traces[i]);
    }
}

/* Every field counts for the digest, columns of absent values don't. */
Test(digest, sees_every_field)
{
    asim_trace *trace = sample_new();
    uint64_t whole = trace->digest;
    asim_event *event = (asim_event *)(uintptr_t)&trace->events[1];
    event->size ^= 1;
    cr_assert_neq(asim_trace_digest(trace), whole);
    event->size ^= 1;
    event->lane ^= 1;
    cr_assert_neq(asim_trace_digest(trace), whole);
    event->lane ^= 1;
    cr_assert_eq(asim_trace_digest(trace), whole);
    ((uint64_t *)(uintptr_t)trace->times_ns)[0] = 7;
    cr_assert_neq(asim_trace_digest(trace), whole);
    ((uint64_t *)(uintptr_t)trace->times_ns)[0] = 0;
    asim_opening_block *block = (asim_opening_block *)(uintptr_t)&trace->opening_blocks[4];
    block->stack = 0;
    cr_assert_neq(asim_trace_digest(trace), whole);
    asim_trace_release(trace);

    trace = sample_random_new(1, 100, false);
    whole = trace->digest;
    uint64_t zeros[100] = {0};
    trace->times_ns = zeros;
    cr_assert_eq(asim_trace_digest(trace), whole);
    zeros[60] = 1;
    cr_assert_neq(asim_trace_digest(trace), whole);
    asim_trace_release(trace);
}

/* A sink with one device and one lane, fed with events of which the last is refused. */
static void refuse(const asim_event *events, size_t count, const char *expected)
{
    asim_trace_builder *builder;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_trace_builder_new(asim_hostmem_libc(), &builder, &err), ASIM_OK);
    asim_sink sink = asim_trace_builder_sink(builder);
    uint32_t index;
    asim_trace_device device = {ASIM_NO_INDEX, 0};
    asim_lane lane = {.stream = 0};
    sink.ops->device(sink.ctx, &device, &index, &err);
    sink.ops->lane(sink.ctx, &lane, &index, &err);
    sink.ops->string(sink.ctx, "only", 4, &index, &err);
    for (size_t i = 0; i < count; i++) {
        asim_sink_event event = {events[i], 0, ASIM_NO_ADDRESS, ASIM_NO_INDEX};
        asim_code code = sink.ops->event(sink.ctx, &event, &err);
        cr_assert_eq(code, i + 1 < count ? ASIM_OK : ASIM_E_INPUT, "%s: %s", expected, err.message);
    }
    cr_assert_str_eq(err.message, expected);
    cr_assert_eq(err.position, count - 1);
    asim_trace *trace;
    asim_err again = ASIM_ERR_INIT;
    cr_assert_eq(asim_trace_builder_finish(builder, &trace, &again), ASIM_E_INPUT);
    cr_assert_str_eq(again.message, expected);
}

#define REFUSE(expected, ...)                                                                                \
    do {                                                                                                     \
        asim_event events[] = {__VA_ARGS__};                                                                 \
        refuse(events, sizeof events / sizeof events[0], expected);                                          \
    } while (0)
#define ALLOC(slot)                                                                                          \
    {                                                                                                        \
        .kind = ASIM_EV_ALLOC, .id = slot, .size = 512                                                       \
    }
#define FREE(slot, how)                                                                                      \
    {                                                                                                        \
        .kind = ASIM_EV_FREE, .id = slot, .flags = how                                                       \
    }

Test(check, refuses_what_breaks_a_rule)
{
    REFUSE("event 0 (unknown): kind 0 does not exist", {.kind = 0});
    REFUSE("event 0 (unknown): kind 22 does not exist", {.kind = ASIM_EV_KINDS});
    REFUSE("event 0 (free): block 0 is not live", FREE(0, 0));
    REFUSE("event 0 (alloc): flags 4 do not exist", {.kind = ASIM_EV_ALLOC, .flags = 4});
    REFUSE("event 0 (prefix): block 0 is not live", {.kind = ASIM_EV_PREFIX, .size = 1});
    REFUSE("event 2 (prefix): block 0 is freed already and pending", ALLOC(0), FREE(0, 1),
           {.kind = ASIM_EV_PREFIX, .size = 1});
    REFUSE("event 1 (prefix): flags 1 do not exist", ALLOC(0), {.kind = ASIM_EV_PREFIX, .flags = 1});
    REFUSE("event 1 (prefix): takes no lane, it has to be 0", ALLOC(0), {.kind = ASIM_EV_PREFIX, .lane = 1});
    REFUSE("event 1 (prefix): a size of 9223372036854775808 is too large", ALLOC(0),
           {.kind = ASIM_EV_PREFIX, .size = UINT64_C(1) << 63});
    REFUSE("event 1 (alloc): block 0 is live already", ALLOC(0), ALLOC(0));
    REFUSE("event 1 (alloc): id 2 is not dense: only 1 blocks came before it", ALLOC(0), ALLOC(2));
    REFUSE("event 2 (free): block 0 is not live", ALLOC(0), FREE(0, 0), FREE(0, 0));
    REFUSE("event 2 (alloc): block 0 is freed but still pending already", ALLOC(0), FREE(0, 1), ALLOC(0));
    REFUSE("event 2 (free_done): block 0 is not live", ALLOC(0), FREE(0, 0), {.kind = ASIM_EV_FREE_DONE});
    REFUSE("event 1 (free_done): block 0 is live", ALLOC(0), {.kind = ASIM_EV_FREE_DONE});
    REFUSE("event 2 (use): block 0 is freed already and pending", ALLOC(0), FREE(0, 1),
           {.kind = ASIM_EV_USE});
    REFUSE("event 1 (free): flags 2 do not exist", ALLOC(0), FREE(0, 2));
    REFUSE("event 0 (alloc): lane 1 does not exist, there are 1", {.kind = ASIM_EV_ALLOC, .lane = 1});
    REFUSE("event 1 (free): takes no lane, it has to be 0", ALLOC(0), {.kind = ASIM_EV_FREE, .lane = 1});
    REFUSE("event 1 (free): takes no size, it has to be 0", ALLOC(0), {.kind = ASIM_EV_FREE, .size = 1});
    REFUSE("event 0 (kernel): takes no id, it has to be 0", {.kind = ASIM_EV_KERNEL, .id = 1});
    REFUSE("event 0 (alloc): a size of 9223372036854775808 is too large",
           {.kind = ASIM_EV_ALLOC, .size = UINT64_C(1) << 63});
    REFUSE("event 0 (mark): string 1 does not exist", {.kind = ASIM_EV_MARK, .id = 1});
    REFUSE("event 0 (mark): flags 3 do not exist", {.kind = ASIM_EV_MARK, .flags = 3});
    REFUSE("event 0 (mark): number 4 does not exist, at most 3", {.kind = ASIM_EV_MARK, .size = 4});
    REFUSE("event 0 (sync): number 3 does not exist, at most 2", {.kind = ASIM_EV_SYNC, .id = 3});
    REFUSE("event 0 (sync): names a lane exactly if its scope is a stream or a device",
           {.kind = ASIM_EV_SYNC, .id = ASIM_SYNC_ALL});
    REFUSE("event 0 (fraction): the fraction does not lie between 0 and 1",
           {.kind = ASIM_EV_FRACTION, .size = UINT64_C(0x7ff8000000000000)});
    REFUSE("event 0 (pool_begin): its lane names no pool", {.kind = ASIM_EV_POOL_BEGIN});
}

static asim_code build_opening(const asim_opening_segment *segments, size_t count,
                               const asim_opening_block *blocks, asim_err *err)
{
    asim_trace_builder *builder;
    asim_trace *trace = NULL;
    cr_assert_eq(asim_trace_builder_new(asim_hostmem_libc(), &builder, err), ASIM_OK);
    asim_sink sink = asim_trace_builder_sink(builder);
    uint32_t index;
    asim_trace_device device = {ASIM_NO_INDEX, 0};
    asim_lane lane = {.stream = 0};
    sink.ops->device(sink.ctx, &device, &index, err);
    sink.ops->lane(sink.ctx, &lane, &index, err);
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(sink.ops->opening(sink.ctx, &segments[i], &blocks[i], 1, err), ASIM_OK);
    asim_code code = asim_trace_builder_finish(builder, &trace, err);
    asim_trace_release(trace);
    return code;
}

Test(check, refuses_an_impossible_opening_state)
{
    asim_opening_segment segments[2] = {{.address = 0x1000, .size = 1024, .stack = ASIM_NO_INDEX},
                                        {.address = 0x1400, .size = 1024, .stack = ASIM_NO_INDEX}};
    asim_opening_block blocks[2] = {
        {.size = 1024, .id = 0, .state = ASIM_BLOCK_LIVE, .stack = ASIM_NO_INDEX},
        {.size = 1024, .id = 1, .state = ASIM_BLOCK_LIVE, .stack = ASIM_NO_INDEX}};
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(build_opening(segments, 2, blocks, &err), ASIM_OK, "%s", err.message);
    blocks[1].id = 0;
    cr_assert_eq(build_opening(segments, 2, blocks, &err), ASIM_E_INPUT);
    cr_assert_str_eq(err.message, "opening segment 1: block 0: block 0 is live already");
    blocks[1].id = 2;
    cr_assert_eq(build_opening(segments, 2, blocks, &err), ASIM_E_INPUT);
    cr_assert_str_eq(err.message, "opening segment 1: block 0: id 2 is not dense: there are 2 blocks");
    blocks[1].id = 1;
    segments[1].address = 0x13ff;
    cr_assert_eq(build_opening(segments, 2, blocks, &err), ASIM_E_INPUT);
    cr_assert_str_eq(err.message, "opening segment 1: it overlaps the segment before it");
    segments[1].address = 0xfff;
    cr_assert_eq(build_opening(segments, 2, blocks, &err), ASIM_E_INPUT);
    segments[1].address = 0x1400;
    blocks[1].size = 512;
    cr_assert_eq(build_opening(segments, 2, blocks, &err), ASIM_E_INPUT);
    cr_assert_str_eq(err.message,
                     "opening segment 1: its blocks fill 512 of its 1024 bytes; there may be no gap");
    blocks[1].size = 1025;
    cr_assert_eq(build_opening(segments, 2, blocks, &err), ASIM_E_INPUT);
    cr_assert_str_eq(err.message, "opening segment 1: its blocks are larger than its 1024 bytes");
}

Test(builder, a_refused_request_leaves_nothing_behind)
{
    bool done = false;
    for (uint64_t n = 0; !done; n++) {
        sample_memory memory;
        sample_memory_init(&memory, n);
        asim_err err = ASIM_ERR_INIT;
        asim_trace_builder *builder;
        asim_trace *trace = NULL;
        asim_code code = asim_trace_builder_new(&memory.mem, &builder, &err);
        if (!code) {
            asim_sink sink = asim_trace_builder_sink(builder);
            code = sample_feed(&sink, &err);
            asim_code last = asim_trace_builder_finish(builder, &trace, &err);
            cr_assert_eq(code ? last : ASIM_OK, code);
            code = last;
        }
        done = memory.requests <= n;
        cr_assert_eq(code, done ? ASIM_OK : ASIM_E_SYSTEM, "request %d: %s", (int)n, err.message);
        asim_trace_release(trace);
        cr_assert_eq(memory.bytes, 0, "request %d", (int)n);
    }
}

Test(tables, intern_and_repair)
{
    asim_tables tables;
    asim_tables_init(&tables, asim_hostmem_libc());
    uint32_t a, b, c;
    cr_assert_eq(asim_tables_string(&tables, "x", 1, &a, NULL), ASIM_OK);
    for (int i = 0; i < 3000; i++) {
        char text[20];
        int length = snprintf(text, sizeof text, "string %d", i);
        cr_assert_eq(asim_tables_string(&tables, text, (size_t)length, &b, NULL), ASIM_OK);
    }
    cr_assert_str_eq(tables.strings[b].text, "string 2999");
    cr_assert_eq(asim_tables_string(&tables, "x", 1, &c, NULL), ASIM_OK);
    cr_assert_eq(a, c);
    cr_assert_str_eq(tables.strings[a].text, "x");
    static const char bad[] = "a\0b\xC0\x80\xED\xA0\x80"
                              "c\xF0\x9F\x98";
    cr_assert_eq(asim_tables_string(&tables, bad, sizeof bad - 1, &b, NULL), ASIM_OK);
    cr_assert_eq(asim_utf8_prefix(tables.strings[b].text, tables.strings[b].length),
                 tables.strings[b].length);
    cr_assert_eq(strncmp(tables.strings[b].text,
                         "a\xEF\xBF\xBD"
                         "b\xEF\xBF\xBD",
                         8),
                 0);
    asim_frame frame = {0, 9999, 1};
    cr_assert_eq(asim_tables_stack(&tables, &frame, 1, &c, NULL), ASIM_E_INPUT);
    asim_lane lane = {.device = 0};
    cr_assert_eq(asim_tables_lane(&tables, &lane, &c, NULL), ASIM_E_INPUT);
    asim_tables_fini(&tables);
}

Test(slots, are_dense_and_reused)
{
    asim_slots slots;
    asim_slots_init(&slots, asim_hostmem_libc());
    uint32_t a, b, c;
    cr_assert_eq(asim_slots_open(&slots, 0x7000, &a, NULL), ASIM_OK);
    cr_assert_eq(asim_slots_open(&slots, 0, &b, NULL), ASIM_OK);
    cr_assert(a == 0 && b == 1);
    cr_assert_eq(asim_slots_open(&slots, 0, &c, NULL), ASIM_E_INPUT);
    cr_assert(asim_slots_close(&slots, 0x7000, &c) && c == 0);
    cr_assert_not(asim_slots_close(&slots, 0x7000, &c));
    cr_assert_eq(asim_slots_open(&slots, 0x9000, &a, NULL), ASIM_OK);
    cr_assert_eq(a, 0);
    /* The key comes back while its old slot is still pending. */
    cr_assert(asim_slots_detach(&slots, 0x9000, &a));
    cr_assert_eq(asim_slots_open(&slots, 0x9000, &b, NULL), ASIM_OK);
    cr_assert_eq(b, 2);
    asim_slots_release(&slots, a);
    cr_assert_eq(asim_slots_open(&slots, 0xA000, &b, NULL), ASIM_OK);
    cr_assert_eq(b, a);
    cr_assert_eq(slots.slot_count, 3);
    cr_assert(asim_slots_find(&slots, 0xA000, &c) && c == a);
    asim_slots_fini(&slots);
}
