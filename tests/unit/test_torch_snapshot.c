/* Import of hand-made snapshots: one question a test. Sizes and addresses are worked out by hand from the
 * rules that each test cites. Recordings and random programs are checked by tests/import/. */
#include "tests/pickle_text.h"
#include "traces/native.h"
#include "traces/torch_snapshot.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static asim_code import_with(const char *text, const asim_hostmem *mem, asim_trace **ret_trace, asim_err *err)
{
    size_t length;
    uint8_t *bytes = pickle_from_text(text, &length);
    memory_input memory = {bytes, length, 0, 0};
    asim_input input = memory_input_stream(&memory);
    asim_trace_builder *builder = NULL;
    asim_code code = asim_trace_builder_new(mem, &builder, err);
    if (!code) {
        asim_sink sink = asim_trace_builder_sink(builder);
        code = asim_importer_torch_snapshot.import(&input, &sink, mem, err);
        asim_code finished = asim_trace_builder_finish(builder, code ? NULL : ret_trace, code ? NULL : err);
        code = code ? code : finished;
    }
    free(bytes);
    return code;
}

static asim_trace *import(const char *text)
{
    asim_err err = ASIM_ERR_INIT;
    asim_trace *trace = NULL;
    asim_code code = import_with(text, asim_hostmem_libc(), &trace, &err);
    cr_assert_eq(code, ASIM_OK, "%s", err.message);
    return trace;
}

static void refused(const char *text, const char *expected)
{
    asim_err err = ASIM_ERR_INIT;
    asim_trace *trace = NULL;
    cr_expect_eq(import_with(text, asim_hostmem_libc(), &trace, &err), ASIM_E_INPUT, "%s", text);
    cr_expect(strstr(err.message, expected), "%s", err.message);
}

/* Every event as "kind:id:size@address " and every call as "(kind address size)", in order. */
static char *events_of(const asim_trace *t)
{
    static char text[8000];
    size_t at = 0;
    uint32_t call = 0;
    text[0] = 0;
    for (uint64_t i = 0; i < t->event_count; i++) {
        const asim_event *e = &t->events[i];
        for (; call < t->call_count && t->calls[call].event == i; call++)
            at += (size_t)snprintf(text + at, sizeof text - at, "(%u %" PRIx64 " %" PRIx64 ") ",
                                   t->calls[call].kind, t->calls[call].address, t->calls[call].size);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s", asim_event_kind_name(e->kind));
        if (e->kind == ASIM_EV_MARK)
            at += (size_t)snprintf(text + at, sizeof text - at, "%u:%s:%" PRIu64, e->flags,
                                   t->strings[e->id].text, e->size);
        else if (e->kind != ASIM_EV_TRIM)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s:%" PRIu32, e->flags ? "+" : "", e->id);
        if (e->kind == ASIM_EV_ALLOC)
            at += (size_t)snprintf(text + at, sizeof text - at, ":%" PRIu64, e->size);
        if (e->kind == ASIM_EV_ALLOC && t->recorded_addresses && t->recorded_addresses[i] != ASIM_NO_ADDRESS)
            at += (size_t)snprintf(text + at, sizeof text - at, "@%" PRIx64, t->recorded_addresses[i]);
        at += (size_t)snprintf(text + at, sizeof text - at, " ");
    }
    return text;
}

/* Every opening segment as "address+size lane[ small][ expandable]:", its blocks as " size/requested state".
 */
static char *opening_of(const asim_trace *t)
{
    static char text[8000];
    static const char *const states[] = {"free", "live", "pending"};
    size_t at = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < t->opening_segment_count; i++) {
        const asim_opening_segment *s = &t->opening_segments[i];
        at +=
            (size_t)snprintf(text + at, sizeof text - at, "%" PRIx64 "+%" PRIx64 " %u%s%s:", s->address,
                             s->size, s->lane, s->small ? " small" : "", s->expandable ? " expandable" : "");
        for (uint32_t k = 0; k < s->block_count; k++) {
            const asim_opening_block *b = &t->opening_blocks[s->first_block + k];
            at += (size_t)snprintf(text + at, sizeof text - at, " %" PRIu64 "/%" PRIu64 " %s", b->size,
                                   b->requested, states[b->state]);
        }
        at += (size_t)snprintf(text + at, sizeof text - at, "; ");
    }
    return text;
}

static bool has_note(const asim_trace *t, const char *text)
{
    for (uint32_t i = 0; i < t->note_count; i++)
        if (strstr(t->strings[t->notes[i]].text, text))
            return true;
    return false;
}

static void expect(const char *text, const char *opening, const char *events)
{
    asim_trace *trace = import(text);
    cr_expect_str_eq(opening_of(trace), opening, "%s", opening_of(trace));
    cr_expect_str_eq(events_of(trace), events, "%s", events_of(trace));
    asim_trace_release(trace);
}

#define SMALL "'total_size': 0x200000, 'stream': 0, 'segment_type': 'small'"
#define LARGE "'total_size': 0x1400000, 'stream': 0, 'segment_type': 'large'"
#define LIVE  "'state': 'active_allocated'"
#define FREED "'state': 'inactive'"

/* One small segment whose first block of 1024 bytes (1000 requested) lives to the end. */
#define ONE_LIVE                                                                                             \
    "[{'device': 0, 'address': 0x10000000, " SMALL ", 'blocks': ["                                           \
    "{'address': 0x10000000, 'size': 1024, 'requested_size': 1000, " LIVE "}, "                              \
    "{'address': 0x10000400, 'size': 0x1ffc00, 'requested_size': 77, " FREED "}]}]"

Test(torch_snapshot, probe_knows_its_files)
{
    const asim_importer *importer = &asim_importer_torch_snapshot;
    size_t length;
    uint8_t *bytes = pickle_from_text("{'segments': [], 'device_traces': []}", &length);
    cr_assert_eq(importer->probe(bytes, length), 100);
    cr_assert_eq(importer->probe(bytes, 2), 10);
    bytes[1] = 6;
    cr_assert_eq(importer->probe(bytes, length), 0);
    cr_assert_eq(importer->probe((const uint8_t *)"{\"traceEvents\"", 14), 0);
    free(bytes);
}

Test(torch_snapshot, state_only)
{
    asim_trace *t = import("{'segments': " ONE_LIVE ", 'device_traces': [[]]}");
    cr_assert_str_eq(opening_of(t), "10000000+200000 0 small: 1024/1000 live 2096128/77 free; ");
    cr_assert_eq(t->event_count, 0);
    cr_assert(
        has_note(t, "There is no history: the recording shows what is in memory, not how it came there."));
    cr_assert(has_note(t, "No call stacks were recorded."));
    cr_assert(has_note(t, "The allocator's settings are not recorded."));
    cr_assert_str_eq(t->strings[t->source].text, "torch-snapshot");
    asim_trace_release(t);
}

Test(torch_snapshot, empty_snapshots)
{
    asim_trace *t = import("{'segments': [], 'device_traces': []}");
    cr_assert_eq(t->device_count, 1);
    asim_trace_release(t);
    t = import("[]");
    cr_assert(has_note(t, "A bare list of segments"));
    asim_trace_release(t);
}

/* R165: a free completed by the next entry is one event; otherwise the completion has its own place. Slots
 * are used again. */
Test(torch_snapshot, requests_and_completions)
{
    expect("{'segments': [{'device': 0, 'address': 0x10000000, " SMALL ", 'blocks': ["
           "{'address': 0x10000000, 'size': 0x200000, 'requested_size': 0, " FREED "}]}], 'device_traces': [["
           "{'action': 'segment_alloc', 'addr': 0x10000000, 'size': 0x200000, 'stream': 0}, "
           "{'action': 'alloc', 'addr': 0x10000000, 'size': 100, 'stream': 0}, "
           "{'action': 'alloc', 'addr': 0x10000200, 'size': 200, 'stream': 0}, "
           "{'action': 'free_requested', 'addr': 0x10000000, 'size': 100, 'stream': 0}, "
           "{'action': 'free_requested', 'addr': 0x10000200, 'size': 200, 'stream': 0}, "
           "{'action': 'free_completed', 'addr': 0x10000200, 'size': 200, 'stream': 0}, "
           "{'action': 'snapshot', 'addr': 0, 'size': 512, 'stream': 0}, "
           "{'action': 'free_completed', 'addr': 0x10000000, 'size': 100, 'stream': 0}, "
           "{'action': 'alloc', 'addr': 0x10000000, 'size': 300, 'stream': 0}, "
           "{'action': 'free', 'addr': 0x10000000, 'size': 300, 'stream': 0}]]}",
           "",
           "(0 10000000 200000) alloc:0:100@10000000 alloc:1:200@10000200 free+:0 free:1 free_done:0 "
           "alloc:0:300@10000000 free:0 ");
}

/* R169: what the window frees without having allocated it was there at its start; a free whose request was
 * cut off was pending. What the final state knows of a block that lives through is kept, stale sizes of free
 * blocks that nothing touched too (R151). */
Test(torch_snapshot, the_window_begins_in_mid_run)
{
    expect(
        "{'segments': " ONE_LIVE ", 'device_traces': [["
        "{'action': 'free_completed', 'addr': 0x10000400, 'size': 600, 'stream': 0}, "
        "{'action': 'free_requested', 'addr': 0x10000a00, 'size': 512, 'stream': 0}, "
        "{'action': 'free_completed', 'addr': 0x10000a00, 'size': 512, 'stream': 0}]]}",
        "10000000+200000 0 small: 1024/1000 live 1024/600 pending 512/0 free 512/512 live 2094080/0 free; ",
        "free_done:1 free:2 ");
    asim_trace *t = import("{'segments': " ONE_LIVE ", 'device_traces': [["
                           "{'action': 'free_requested', 'addr': 0x10000a00, 'size': 512, 'stream': 0}, "
                           "{'action': 'free_completed', 'addr': 0x10000a00, 'size': 512, 'stream': 0}, "
                           "{'action': 'free_requested', 'addr': 0x10000400, 'size': 512, 'stream': 0}, "
                           "{'action': 'free_completed', 'addr': 0x10000400, 'size': 512, 'stream': 0}]]}");
    cr_assert(has_note(t, "begins in mid-run: 3 blocks are older"));
    asim_trace_release(t);
}

/* A pending block, under both of its names (R150); its request lies in the window, its completion does not.
 */
Test(torch_snapshot, blocks_that_are_pending_at_the_end)
{
    static const char *const names[] = {"active_pending_free", "active_awaiting_free"};
    for (size_t i = 0; i < 2; i++) {
        char text[2000];
        snprintf(text, sizeof text,
                 "{'segments': [{'device': 0, 'address': 0x10000000, " SMALL ", 'blocks': ["
                 "{'address': 0x10000000, 'size': 512, 'requested_size': 5, 'state': '%s'}, "
                 "{'address': 0x10000200, 'size': 512, 'requested_size': 6, 'state': '%s'}, "
                 "{'address': 0x10000400, 'size': 0x1ffc00, 'requested_size': 0, " FREED
                 "}]}], 'device_traces': [["
                 "{'action': 'free_requested', 'addr': 0x10000200, 'size': 6, 'stream': 0}, "
                 "{'action': 'alloc', 'addr': 0x10000400, 'size': 9, 'stream': 0}, "
                 "{'action': 'free_requested', 'addr': 0x10000400, 'size': 9, 'stream': 0}, "
                 "{'action': 'free_completed', 'addr': 0x10000400, 'size': 9, 'stream': 0}]]}",
                 names[i], names[i]);
        expect(text, "10000000+200000 0 small: 512/5 pending 512/6 live 2096128/0 free; ",
               "free+:1 alloc:2:9@10000400 free:2 ");
        asim_trace *t = import(text);
        cr_assert(has_note(t, "1 of the blocks at the start were already freed"));
        cr_assert(has_note(t, "2 freed blocks still wait"));
        asim_trace_release(t);
    }
}

/* R170. A large segment of 20 MiB with one block of 2,000,000 requested bytes at its start, freed in the
 * window. Rounded it ends at 2,000,384 = 0x1e8600 (3907 x 512). */
#define SLACK(more, history)                                                                                 \
    "{'segments': [{'device': 0, 'address': 0x10000000, " LARGE ", 'blocks': [" more                         \
    "]}], 'device_traces': [[" history "]]}"
#define FREE_IT                                                                                              \
    "{'action': 'free_requested', 'addr': 0x10000000, 'size': 2000000, 'stream': 0}, "                       \
    "{'action': 'free_completed', 'addr': 0x10000000, 'size': 2000000, 'stream': 0}"
#define PUT(where, size) "{'action': 'alloc', 'addr': " where ", 'size': " size ", 'stream': 0}, "
#define TAKE(where, size)                                                                                    \
    "{'action': 'free_requested', 'addr': " where ", 'size': " size ", 'stream': 0}, "                       \
    "{'action': 'free_completed', 'addr': " where ", 'size': " size ", 'stream': 0}, "

Test(torch_snapshot, slack_of_blocks_at_the_start)
{
    /* Gap of 512 up to the next live block: all slack. */
    expect(SLACK("{'address': 0x10000000, 'size': 0x1e8800, 'requested_size': 0, " FREED "}, "
                 "{'address': 0x101e8800, 'size': 0x1217800, 'requested_size': 0x1217800, " LIVE "}",
                 FREE_IT),
           "10000000+1400000 0: 2000896/2000000 live 18970624/18970624 live; ", "free:0 ");
    /* Gap of exactly 1 MiB: all slack; one byte-step (512) more: not. */
    expect(SLACK("{'address': 0x10000000, 'size': 0x2e8600, 'requested_size': 0, " FREED "}, "
                 "{'address': 0x102e8600, 'size': 0x1117a00, 'requested_size': 0x1117a00, " LIVE "}",
                 FREE_IT),
           "10000000+1400000 0: 3048960/2000000 live 17922560/17922560 live; ", "free:0 ");
    expect(SLACK("{'address': 0x10000000, 'size': 0x2e8800, 'requested_size': 0, " FREED "}, "
                 "{'address': 0x102e8800, 'size': 0x1117800, 'requested_size': 0x1117800, " LIVE "}",
                 FREE_IT),
           "10000000+1400000 0: 2000384/2000000 live 1049088/0 free 17922048/17922048 live; ", "free:0 ");
    /* Third case: while it lives, a block is placed 0x80000 after its provisional end. */
    expect(SLACK("{'address': 0x10000000, 'size': 0x1400000, 'requested_size': 0, " FREED "}",
                 PUT("0x10268600", "0x400000") TAKE("0x10268600", "0x400000") FREE_IT),
           "10000000+1400000 0: 2524672/2000000 live 18446848/0 free; ",
           "alloc:1:4194304@10268600 free:1 free:0 ");
    /* The same placement after its own free says nothing about it. */
    expect(SLACK("{'address': 0x10000000, 'size': 0x1400000, 'requested_size': 0, " FREED "}",
                 FREE_IT ", " PUT("0x10268600", "0x400000") TAKE(
                     "0x10268600", "0x400000") "{'action': 'snapshot', 'addr': 0, 'size': 0, 'stream': 0}"),
           "10000000+1400000 0: 2000384/2000000 live 18971136/0 free; ",
           "free:0 alloc:0:4194304@10268600 free:0 ");
    /* Farther than 1 MiB away: S is unknown, 0 is used. */
    expect(SLACK("{'address': 0x10000000, 'size': 0x1400000, 'requested_size': 0, " FREED "}",
                 PUT("0x10300000", "0x400000") TAKE("0x10300000", "0x400000") FREE_IT),
           "10000000+1400000 0: 2000384/2000000 live 18971136/0 free; ",
           "alloc:1:4194304@10300000 free:1 free:0 ");
}

/* Driver calls (R166). 20 MiB at 0x10000000 is released, then 40 MiB obtained at 0x20000000. */
#define GREW(first, settings)                                                                                \
    "{'segments': [{'device': 0, 'address': 0x20000000, 'total_size': 0x2800000, 'stream': 0, "              \
    "'segment_type': 'large', 'blocks': [{'address': 0x20000000, 'size': 0x2800000, 'requested_size': "      \
    "0x2800000, " LIVE "}]}], 'device_traces': [[" first                                                     \
    "{'action': 'segment_free', 'addr': 0x10000000, 'size': 0x1400000, 'stream': 0}, "                       \
    "{'action': 'segment_alloc', 'addr': 0x20000000, 'size': 0x2800000, 'stream': 0}, "                      \
    "{'action': 'alloc', 'addr': 0x20000000, 'size': 0x2800000, 'stream': 0}]]" settings "}"

Test(torch_snapshot, releases_before_new_memory)
{
    /* Too small for the request, and never as much reserved: the request's own retry. */
    asim_trace *t = import(GREW("", ""));
    cr_expect_str_eq(events_of(t), "(1 10000000 1400000) (0 20000000 2800000) alloc:0:41943040@20000000 ");
    cr_expect_str_eq(opening_of(t), "10000000+1400000 0: 20971520/0 free; ");
    cr_expect(has_note(t, "1 as the request's own retry"));
    asim_trace_release(t);
    /* 80 MiB were reserved earlier in the window: there was room for 20 + 40, so nothing had to go. */
    t = import(GREW("{'action': 'segment_alloc', 'addr': 0x30000000, 'size': 0x3c00000, 'stream': 0}, "
                    "{'action': 'alloc', 'addr': 0x30000000, 'size': 0x3c00000, 'stream': 0}, "
                    "{'action': 'free_requested', 'addr': 0x30000000, 'size': 0x3c00000, 'stream': 0}, "
                    "{'action': 'free_completed', 'addr': 0x30000000, 'size': 0x3c00000, 'stream': 0}, "
                    "{'action': 'segment_free', 'addr': 0x30000000, 'size': 0x3c00000, 'stream': 0}, "
                    "{'action': 'snapshot', 'addr': 0, 'size': 0, 'stream': 0}, "
                    "{'action': 'free_completed', 'addr': 0x9000, 'size': 1, 'stream': 0}, ",
                    ""));
    cr_expect_str_eq(events_of(t),
                     "(0 30000000 3c00000) alloc:0:62914560@30000000 free:0 (1 30000000 3c00000) trim "
                     "(1 10000000 1400000) trim (0 20000000 2800000) alloc:0:41943040@20000000 ");
    cr_expect(has_note(t, "1 because the device had room"));
    cr_expect(has_note(t, "1 frees of addresses that are not known"));
    asim_trace_release(t);
    /* A released segment of 60 MiB could have served the 40: an empty_cache came first. */
    t = import(GREW("{'action': 'segment_free', 'addr': 0x30000000, 'size': 0x3c00000, 'stream': 0}, ", ""));
    cr_expect_str_eq(events_of(t), "(1 30000000 3c00000) (1 10000000 1400000) trim (0 20000000 2800000) "
                                   "alloc:0:41943040@20000000 ");
    cr_expect(has_note(t, "1 taken as an empty_cache before the request because a released segment could"));
    asim_trace_release(t);
    /* With a split limit of 50 MiB it could not (R37): smaller requests never get such a block. */
    t = import(GREW("{'action': 'segment_free', 'addr': 0x30000000, 'size': 0x3c00000, 'stream': 0}, ",
                    ", 'allocator_settings': {'PYTORCH_CUDA_ALLOC_CONF': 'max_split_size_mb:50', "
                    "'max_split_size': 0x3200000}"));
    cr_expect_str_eq(events_of(t), "(1 30000000 3c00000) (1 10000000 1400000) (0 20000000 2800000) "
                                   "alloc:0:41943040@20000000 ");
    cr_expect_str_eq(t->strings[t->settings].text, "max_split_size_mb:50");
    asim_trace_release(t);
    /* Nor from another stream. */
    t = import(GREW("{'action': 'segment_free', 'addr': 0x30000000, 'size': 0x3c00000, 'stream': 7}, ", ""));
    cr_expect_str_eq(events_of(t), "(1 30000000 3c00000) (1 10000000 1400000) (0 20000000 2800000) "
                                   "alloc:0:41943040@20000000 ");
    asim_trace_release(t);
}

Test(torch_snapshot, releases_alone_are_empty_cache)
{
    expect("{'segments': [], 'device_traces': [["
           "{'action': 'segment_free', 'addr': 0x10000000, 'size': 0x1400000, 'stream': 0}, "
           "{'action': 'segment_free', 'addr': 0x20000000, 'size': 0x200000, 'stream': 3}]]}",
           "10000000+1400000 0: 20971520/0 free; 20000000+200000 1 small: 2097152/0 free; ",
           "(1 10000000 1400000) (1 20000000 200000) trim ");
    /* One empty_cache works on every device. */
    expect("{'segments': [], 'device_traces': [["
           "{'action': 'segment_free', 'addr': 0x10000000, 'size': 0x1400000, 'stream': 0, 'time_us': 5}], ["
           "{'action': 'segment_free', 'addr': 0x10000000, 'size': 0x1400000, 'stream': 0, 'time_us': 6}]]}",
           "10000000+1400000 0: 20971520/0 free; 10000000+1400000 1: 20971520/0 free; ",
           "(1 10000000 1400000) (1 10000000 1400000) trim ");
}

Test(torch_snapshot, a_failed_request)
{
    asim_trace *t = import("{'segments': " ONE_LIVE ", 'device_traces': [["
                           "{'action': 'segment_free', 'addr': 0x20000000, 'size': 0x1400000, 'stream': 0}, "
                           "{'action': 'oom', 'device_free': 4096, 'size': 0x4000000, 'stream': 0}, "
                           "{'action': 'alloc', 'addr': 0x10000400, 'size': 8, 'stream': 0}, "
                           "{'action': 'free_completed', 'addr': 0x10000400, 'size': 8, 'stream': 0}]]}");
    cr_expect_str_eq(events_of(t),
                     "(1 20000000 1400000) (4 1000 4000000) alloc:1:67108864 alloc:2:8@10000400 free:2 ");
    cr_expect(has_note(t, "1 requests failed; their size is recorded rounded"));
    asim_trace_release(t);
}

/* Expandable ranges (R90, R95): mapped runs grow and shrink; at the start the run had 40 MiB in two halves.
 */
Test(torch_snapshot, expandable_ranges)
{
    expect("{'segments': [{'device': 0, 'address': 0x40000000, 'total_size': 0x2800000, 'stream': 0, "
           "'segment_type': 'large', 'is_expandable': True, 'blocks': ["
           "{'address': 0x40000000, 'size': 0x2800000, 'requested_size': 0x2800000, " LIVE
           "}]}], 'device_traces': [["
           "{'action': 'segment_unmap', 'addr': 0x42800000, 'size': 0x1400000, 'stream': 0}, "
           "{'action': 'snapshot', 'addr': 0, 'size': 0, 'stream': 0}, "
           "{'action': 'free', 'addr': 0x9000, 'size': 0, 'stream': 0}, "
           "{'action': 'segment_map', 'addr': 0x41400000, 'size': 0x1400000, 'stream': 0}, "
           "{'action': 'alloc', 'addr': 0x40000000, 'size': 0x2800000, 'stream': 0}]]}",
           "40000000+1400000 0 expandable: 20971520/0 free; 42800000+1400000 0 expandable: 20971520/0 free; ",
           "(3 42800000 1400000) trim (2 41400000 1400000) alloc:0:41943040@40000000 ");
}

/* Stream handles are 64-bit (R141); pool ids in entries and in segments. */
Test(torch_snapshot, streams_and_pools)
{
    asim_trace *t =
        import("{'segments': [{'device': 0, 'address': 0x10000000, 'total_size': 0x200000, 'stream': -16, "
               "'segment_type': "
               "'small', 'segment_pool_id': (0, 3), 'blocks': [{'address': 0x10000000, 'size': 0x200000, "
               "'requested_size': 0, " FREED "}]}, "
               "{'device': 0, 'address': 0x20000000, 'total_size': 0x200000, 'stream': 0x7fff00000000ff00, "
               "'segment_type': "
               "'small', 'segment_pool_id': (0, 0), 'blocks': [{'address': 0x20000000, 'size': 0x200000, "
               "'requested_size': 0, " FREED "}]}], 'device_traces': [["
               "{'action': 'segment_alloc', 'addr': 0x10000000, 'size': 0x200000, 'stream': -16}, "
               "{'action': 'alloc', 'addr': 0x10000000, 'size': 7, 'stream': -16}, "
               "{'action': 'alloc', 'addr': 0x20000000, 'size': 8, 'stream': 0x7fff00000000ff00, 'pool_id': "
               "(9, 4)}, "
               "{'action': 'free', 'addr': 0x20000000, 'size': 8, 'stream': 0x7fff00000000ff00}, "
               "{'action': 'free', 'addr': 0x10000000, 'size': 7, 'stream': -16}]]}");
    const asim_lane *first = &t->lanes[t->events[0].lane], *second = &t->lanes[t->events[1].lane];
    cr_expect_eq(first->stream, UINT64_MAX - 15);
    cr_expect_eq(first->pool, 1);
    cr_expect_eq(second->stream, UINT64_C(0x7fff00000000ff00));
    cr_expect_eq(second->pool, 2);
    cr_expect(has_note(t, "Pool 1 is the private pool (0, 3)."));
    cr_expect(has_note(t, "Pool 2 is the private pool (9, 4)."));
    asim_trace_release(t);
}

/* Only devices in use count; they are merged by time, and each one's clock may not run back (R173). */
Test(torch_snapshot, devices_and_times)
{
    asim_trace *t = import(
        "{'device_traces': [[], [{'action': 'alloc', 'addr': 0x1, 'size': 1, 'stream': 0, 'time_us': "
        "1000010}, "
        "{'action': 'alloc', 'addr': 0x2, 'size': 2, 'stream': 0, 'time_us': 1000005}], [], "
        "[{'action': 'alloc', 'addr': 0x3, 'size': 3, 'stream': 0, 'time_us': 1000000}, "
        "{'action': 'alloc', 'addr': 0x4, 'size': 4, 'stream': 0, 'time_us': 1000010}]], 'segments': []}");
    cr_expect_eq(t->device_count, 2);
    cr_expect_eq(t->start_unix_ns, UINT64_C(1000000000));
    cr_expect_str_eq(events_of(t), "alloc:0:3 alloc:1:1 alloc:2:2 alloc:3:4 ");
    cr_expect_eq(t->times_ns[0], 0);
    cr_expect_eq(t->times_ns[1], 10000);
    cr_expect_eq(t->times_ns[2], 10000);
    cr_expect_eq(t->times_ns[3], 10000);
    cr_expect_eq(t->lanes[t->events[0].lane].device, 1);
    cr_expect_eq(t->lanes[t->events[1].lane].device, 0);
    cr_expect(has_note(t, "Device 1 is device 3 of the recording."));
    cr_expect(has_note(t, "The clock ran backwards 1 times"));
    cr_expect(has_note(t, "Recorded placements contradict the segments of device 1 (an allocation at"));
    asim_trace_release(t);
}

Test(torch_snapshot, annotations)
{
    asim_trace *t = import(
        "{'segments': [], 'device_traces': [[{'action': 'snapshot', 'addr': 0, 'size': 0, 'stream': 0, "
        "'time_us': "
        "20}]], 'external_annotations': [{'stage': 'END', 'name': 'warm-up', 'device': 0, 'time_us': 10}, "
        "{'name': 'ProfilerStep#2', 'stage': 'START', 'device': 0, 'time_us': 30}, "
        "{'name': 'Optimizer.step#Adam.step', 'stage': 'START', 'device': 0, 'time_us': 25}, "
        "{'name': 'Step 4', 'stage': 'END', 'device': 0, 'time_us': 40}, "
        "{'name': 'stepwise', 'stage': 'END', 'device': 0, 'time_us': 41}]}");
    cr_expect_str_eq(events_of(t), "mark2:warm-up:1 mark1:Optimizer.step#Adam.step:1 mark1:ProfilerStep#2:0 "
                                   "mark2:Step 4:0 mark2:stepwise:1 ");
    cr_expect_eq(t->times_ns[1], 15000);
    cr_expect(has_note(t, "3 annotated ranges end without having begun"));
    asim_trace_release(t);
}

Test(torch_snapshot, call_stacks)
{
    asim_trace *t = import(
        "{'segments': [{'device': 0, 'address': 0x10000000, " SMALL
        ", 'frames': [{'name': 'main', 'filename': "
        "'a.py', 'line': 3}], 'blocks': [{'address': 0x10000000, 'size': 512, 'requested_size': 1, " LIVE
        ", 'frames': [{'line': 7, 'filename': 'b.py', 'name': 'f'}, {'filename': 'a.py', 'line': 3, 'name': "
        "'main'}]}, "
        "{'address': 0x10000200, 'size': 0x1ffe00, 'requested_size': 0, " FREED
        ", 'frames': []}]}], 'device_traces': [["
        "{'action': 'free_completed', 'addr': 0x10000200, 'size': 2, 'stream': 0, 'frames': [{'name': 'f', "
        "'filename': 'b.py', 'line': 7}, {'name': 'main', 'filename': 'a.py', 'line': 3}]}]]}");
    cr_assert_eq(t->stack_count, 2); /* equal contents are one stack, in whatever order the keys came */
    cr_expect_eq(t->opening_blocks[0].stack, t->stacks[0]);
    cr_expect_neq(t->opening_segments[0].stack, t->stacks[0]);
    const asim_stack *s = &t->stack_table[t->stacks[0]];
    const asim_frame *inner = &t->frames[t->stack_frames[s->first]];
    cr_expect_eq(s->count, 2);
    cr_expect_str_eq(t->strings[inner->function].text, "f");
    cr_expect_str_eq(t->strings[inner->file].text, "b.py");
    cr_expect_eq(inner->line, 7);
    asim_trace_release(t);
}

/* Blocks without addresses and a history instead of frames (2.0); no requested size and a bare list (1.13).
 */
Test(torch_snapshot, old_layouts)
{
    expect("{'segments': [{'device': 0, 'address': 0x10000000, " SMALL ", 'blocks': ["
           "{'size': 512, 'requested_size': 0, " FREED "}, {'size': 1024, 'requested_size': 1000, " LIVE "}, "
           "{'size': 0x1ffa00, 'requested_size': 0, " FREED "}]}], 'device_traces': [[]]}",
           "10000000+200000 0 small: 512/0 free 1024/1000 live 2095616/0 free; ", "");
    expect("[{'device': 0, 'address': 0x10000000, " SMALL ", 'blocks': [{'size': 1024, 'state': "
           "'active_allocated', 'history': [{'addr': 0x10000000, 'real_size': 900, 'frames': []}, {'addr': "
           "0x10000000, 'real_size': 300, 'frames': []}]}, {'size': 0x1ffc00, 'state': 'inactive'}]}]",
           "10000000+200000 0 small: 1024/900 live 2096128/0 free; ", "");
}

Test(torch_snapshot, unknown_keys_actions_and_repetitions)
{
    asim_trace *t = import(
        "{'colour': {'a': [1, {'b': None}]}, 'segments': " ONE_LIVE ", 'host_traces': [[{'action': 'alloc', "
        "'addr': 5, 'size': 6}]], 'device_traces': [[{'size': 4, 'mood': (1, 2, 3), 'stream': 0, 'action': "
        "'teleport'}, {'addr': 0x10000400, 'stream': 0, 'size': 5, 'action': 'oom', 'size': 6, 'action': "
        "'alloc'}, {'action': 'free', 'addr': 0x10000400, 'size': 6, 'stream': 0, 'user_metadata': "
        "'mine'}]]}");
    cr_expect_str_eq(events_of(t), "alloc:1:6@10000400 free:1 "); /* the later of two equal keys holds */
    cr_expect(has_note(t, "1 history entries of device 0 have an action that is not known"));
    cr_expect(has_note(t, "compile contexts or user metadata: not imported"));
    asim_trace_release(t);
}

/* Completions alone are frees (R167); requests alone complete at once. */
Test(torch_snapshot, half_recorded_frees)
{
    expect("{'segments': " ONE_LIVE ", 'device_traces': [["
           "{'action': 'free_completed', 'addr': 0x10000400, 'size': 6, 'stream': 0}, "
           "{'action': 'alloc', 'addr': 0x10000400, 'size': 7, 'stream': 0}, "
           "{'action': 'free_completed', 'addr': 0x10000400, 'size': 7, 'stream': 0}]]}",
           "10000000+200000 0 small: 1024/1000 live 512/6 live 2095616/0 free; ",
           "free:1 alloc:1:7@10000400 free:1 ");
    expect("{'segments': " ONE_LIVE ", 'device_traces': [["
           "{'action': 'alloc', 'addr': 0x10000400, 'size': 7, 'stream': 0}, "
           "{'action': 'free_requested', 'addr': 0x10000400, 'size': 7, 'stream': 0}]]}",
           "10000000+200000 0 small: 1024/1000 live 2096128/0 free; ", "alloc:1:7@10000400 free:1 ");
}

/* Nothing is made up where history and segments contradict each other. */
Test(torch_snapshot, contradictions)
{
    static const struct {
        const char *history, *note;
    } cases[] = {
        {"{'action': 'alloc', 'addr': 0x10000800, 'size': 6, 'stream': 0}",
         "the allocation at 0x10000800 is neither freed in the history nor there at the end"},
        {"{'action': 'alloc', 'addr': 0x70000000, 'size': 6, 'stream': 0}",
         "an allocation at 0x70000000 lies in no segment"},
        {"{'action': 'free', 'addr': 0x10000000, 'size': 6, 'stream': 0}",
         "the block at 0x10000000 is freed while another one is there"},
        {"{'action': 'segment_alloc', 'addr': 0x70000000, 'size': 0x200000, 'stream': 0}",
         "the segment obtained at 0x70000000 is neither released nor there at the end"},
        {"{'action': 'segment_free', 'addr': 0x10100000, 'size': 0x200000, 'stream': 0}",
         "the segment released at 0x10100000 overlaps another"},
        {"{'action': 'segment_map', 'addr': 0x10000000, 'size': 0x200000, 'stream': 0}",
         "the range mapped at 0x10000000 is neither unmapped nor there at the end"},
        {"{'action': 'segment_alloc', 'addr': 0x10000000, 'size': 0x200000, 'stream': 0}",
         "the block at 0x10000000 lies in no segment"},
        {"{'action': 'free', 'addr': 0x101fff00, 'size': 6000, 'stream': 0}",
         "the block at 0x101fff00 overlaps what comes after it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2000];
        snprintf(text, sizeof text, "{'segments': " ONE_LIVE ", 'device_traces': [[%s]]}", cases[i].history);
        asim_trace *t = import(text);
        cr_expect(has_note(t, "Recorded placements contradict the segments of device 0"), "case %zu", i);
        cr_expect(has_note(t, cases[i].note), "case %zu", i);
        cr_expect_eq(t->opening_segment_count, 0);
        cr_expect_eq(t->call_count, 0);
        asim_trace_release(t);
    }
    expect("{'segments': [], 'device_traces': [[{'action': 'alloc', 'addr': 8, 'size': 6, 'stream': 0}, "
           "{'action': 'alloc', 'addr': 8, 'size': 7, 'stream': 0}, {'action': 'free', 'addr': 8, 'size': 7, "
           "'stream': 0}, {'action': 'free', 'addr': 8, 'size': 7, 'stream': 0}]]}",
           "", "alloc:0:6 free:0 alloc:0:7 free:0 ");
}

/* Settings without a string are spelled as one; rounding divisions are applied (R25, R26): 5,000 bytes with 8
 * divisions round to 5,120 (steps of 512). With one slot of 2 at 2 MiB, 0x280001 rounds to 0x300000. */
Test(torch_snapshot, settings)
{
    asim_trace *t = import(
        "{'segments': [], 'device_traces': [[]], 'allocator_settings': {'PYTORCH_CUDA_ALLOC_CONF': '', "
        "'max_split_size': 0x8000000, 'expandable_segments': True}}");
    cr_expect_str_eq(t->strings[t->settings].text, "max_split_size_mb:128,expandable_segments:True");
    asim_trace_release(t);
    t = import(
        "{'segments': [], 'device_traces': [[]], 'allocator_settings': {'PYTORCH_CUDA_ALLOC_CONF': '', "
        "'max_split_size': -1}}");
    cr_expect_eq(t->settings, ASIM_NO_INDEX);
    cr_expect_not(has_note(t, "settings are not recorded"));
    asim_trace_release(t);
    expect("{'segments': [{'device': 0, 'address': 0x10000000, " LARGE
           ", 'blocks': [{'address': 0x10000000, 'size': "
           "0x1400000, 'requested_size': 0, " FREED "}]}], 'device_traces': [["
           "{'action': 'free', 'addr': 0x10000000, 'size': 0x280001, 'stream': 0}]], 'allocator_settings': "
           "{'PYTORCH_CUDA_ALLOC_CONF': 'roundup_power2_divisions:[2:2]', 'max_split_size': -1, "
           "'roundup_power2_divisions': {'1': 0, '2': 2, '4': 0}}}",
           "10000000+1400000 0: 3145728/2621441 live 17825792/0 free; ", "free:0 ");
}

Test(torch_snapshot, broken_snapshots_say_what_is_wrong)
{
    refused("5", "a pickle, but not of a memory snapshot");
    refused("{'weights': [1, 2]}", "a pickle, but not of a memory snapshot");
    refused("[1, 2, 3]", "a pickle, but not of a memory snapshot");
    refused("{'segments': 5}", "'segments' is not a list of the right things");
    refused("{'segments': [{'filename': 'x'}]}", "'segments' is not a list of the right things");
    refused("{'device_traces': [[1]]}", "'device_traces' is not a list of the right things");
    refused("{'device_traces': [[{'action': 'alloc', 'addr': 1, 'size': 1}, 5]]}",
            "a list mixes history entries with other things");
    refused("{'device_traces': [[{'action': 'alloc', 'size': 1}]]}", "a history entry without 'addr'");
    refused("{'device_traces': [[{'action': 'alloc', 'addr': 1}]]}", "a history entry without 'size'");
    refused("{'device_traces': [[{'action': 'alloc', 'addr': 'x', 'size': 1}]]}",
            "the value of 'addr' is not an integer of 64 bits");
    refused("{'device_traces': [[{'action': 'alloc', 'addr': 1, 'size': 0xffffffffffffffff}]]}",
            "runs past the end of the address space");
    refused("[{'address': 1, 'blocks': [{'size': 5, 'state': 'asleep'}]}]", "a block's 'state' is none of");
    refused("[{'address': 1, 'blocks': [{'state': 'inactive'}]}]", "a block without 'size'");
    refused("[{'address': 1, 'blocks': [3]}]", "a segment's 'blocks' are not a list of blocks of its own");
    refused("[{'blocks': []}]", "a segment without 'address'");
    refused("[{'address': 1, 'device': 64, 'blocks': []}]", "a segment on device 64: at most 64 devices");
    refused("[{'address': 0xffffffffffffff00, 'total_size': 0x200, 'blocks': []}]",
            "runs past the end of the address space");
}

Test(torch_snapshot, every_refusal_of_memory_is_an_error)
{
    const char *text =
        "{'segments': " ONE_LIVE ", 'device_traces': [["
        "{'action': 'alloc', 'addr': 0x10000400, 'size': 7, 'stream': 0, 'time_us': 5, 'pool_id': (0, 1), "
        "'frames': "
        "[{'name': 'f', 'filename': 'b.py', 'line': 7}]}, "
        "{'action': 'free_requested', 'addr': 0x10000400, 'size': 7, 'stream': 0, 'time_us': 6}, "
        "{'action': 'free_completed', 'addr': 0x10000400, 'size': 7, 'stream': 0, 'time_us': 6}, "
        "{'action': 'segment_free', 'addr': 0x40000000, 'size': 0x1400000, 'stream': 0, 'time_us': 7}]], "
        "'external_annotations': [{'stage': 'END', 'name': 'warm-up', 'device': 0, 'time_us': 10}]}";
    for (long n = 1;; n++) {
        counting_memory counter = {.refuse_at = n};
        asim_hostmem mem = counting_memory_table(&counter);
        asim_err err = ASIM_ERR_INIT;
        asim_trace *trace = NULL;
        asim_code code = import_with(text, &mem, &trace, &err);
        if (code == ASIM_OK)
            asim_trace_release(trace);
        cr_assert_eq(counter.used, 0, "request %ld: %zu bytes leak", n, counter.used);
        if (code == ASIM_OK) {
            cr_assert_gt(n, 30);
            break;
        }
        cr_assert_eq(code, ASIM_E_SYSTEM, "request %ld: %s", n, err.message);
    }
}

/* Cut anywhere and flipped anywhere: an error or a trace, never a crash or a leak. */
Test(torch_snapshot, damaged_at_every_byte)
{
    size_t length;
    uint8_t *bytes = pickle_from_text("{'segments': " ONE_LIVE ", 'device_traces': [["
                                      "{'action': 'free', 'addr': 0x10000400, 'size': 7, 'stream': 0}]]}",
                                      &length);
    for (size_t i = 0; i < length * 8; i++) {
        counting_memory counter = {.limit = 64 << 20};
        asim_hostmem mem = counting_memory_table(&counter);
        memory_input memory = {bytes, i % 8 ? length : i / 8, 0, 0};
        asim_input input = memory_input_stream(&memory);
        asim_trace_builder *builder;
        asim_err err = ASIM_ERR_INIT;
        uint8_t kept = bytes[i / 8];
        if (i % 8)
            bytes[i / 8] = (uint8_t)(kept ^ 1u << i % 8);
        cr_assert_eq(asim_trace_builder_new(&mem, &builder, &err), ASIM_OK);
        asim_sink sink = asim_trace_builder_sink(builder);
        asim_code code = asim_importer_torch_snapshot.import(&input, &sink, &mem, &err);
        asim_trace_builder_finish(builder, NULL, NULL);
        cr_expect(code == ASIM_OK || code == ASIM_E_INPUT, "bit %zu: %s", i, err.message);
        cr_expect(code == ASIM_OK || strstr(err.message, "byte ") ||
                      strstr(err.message, "not of a memory snapshot"),
                  "%s", err.message);
        cr_expect_eq(counter.used, 0);
        bytes[i / 8] = kept;
    }
    free(bytes);
}
