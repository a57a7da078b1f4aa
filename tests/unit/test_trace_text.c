/* The text form: every trace as text and back, the convenience of hand-written texts, each error. */
#include "tests/trace_sample.h"
#include "traces/formats.h"
#include "traces/native.h"
#include "traces/text.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
    char *bytes;
    size_t length, capacity, read;
    size_t portion; /* bytes given at a time */
} text;

static asim_code collect(void *ctx, const char *bytes, size_t length, asim_err *err)
{
    text *t = ctx;
    (void)err;
    if (t->length + length + 1 > t->capacity) {
        t->capacity = 2 * (t->length + length + 1);
        t->bytes = realloc(t->bytes, t->capacity);
    }
    memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
    t->bytes[t->length] = 0;
    return ASIM_OK;
}

static asim_code give(void *ctx, void *buffer, size_t capacity, size_t *ret_length, asim_err *err)
{
    text *t = ctx;
    (void)err;
    size_t length = t->length - t->read;
    length = length < capacity ? length : capacity;
    length = t->portion && length > t->portion ? t->portion : length;
    memcpy(buffer, t->bytes + t->read, length);
    t->read += length;
    *ret_length = length;
    return ASIM_OK;
}

static asim_code parse(text *t, const asim_hostmem *mem, asim_trace **ret_trace, asim_err *err)
{
    asim_trace_builder *builder;
    asim_code code = asim_trace_builder_new(mem, &builder, err);
    if (code)
        return code;
    asim_sink sink = asim_trace_builder_sink(builder);
    asim_input input = {give, t};
    t->read = 0;
    code = asim_text_read(&input, &sink, mem, err);
    asim_code last = asim_trace_builder_finish(builder, code ? NULL : ret_trace, code ? NULL : err);
    return code ? code : last;
}

static asim_trace *parse_text(const char *string, size_t portion)
{
    asim_err err = ASIM_ERR_INIT;
    asim_trace *trace = NULL;
    text t = {.bytes = (char *)(uintptr_t)string, .length = strlen(string), .portion = portion};
    cr_assert_eq(parse(&t, asim_hostmem_libc(), &trace, &err), ASIM_OK, "%s", err.message);
    return trace;
}

Test(text, what_was_written_is_read)
{
    asim_trace *traces[] = {sample_new(), sample_random_new(11, 20000, true),
                            sample_random_new(12, 3000, false)};
    for (size_t i = 0; i < 3; i++)
        for (size_t portion = 0; portion < 8; portion += 7) {
            text t = {.portion = portion};
            asim_text_out out = {collect, &t};
            asim_err err = ASIM_ERR_INIT;
            cr_assert_eq(asim_text_write(traces[i], asim_hostmem_libc(), &out, &err), ASIM_OK, "%s",
                         err.message);
            asim_trace *back = NULL;
            cr_assert_eq(parse(&t, asim_hostmem_libc(), &back, &err), ASIM_OK, "%s", err.message);
            cr_assert_str_eq(sample_difference(traces[i], back), "");
            /* and the text of what was read is the same text */
            text again = {0};
            out.ctx = &again;
            cr_assert_eq(asim_text_write(back, asim_hostmem_libc(), &out, &err), ASIM_OK);
            cr_assert_str_eq(t.bytes, again.bytes);
            asim_trace_release(back);
            free(t.bytes);
            free(again.bytes);
        }
    for (size_t i = 0; i < 3; i++)
        asim_trace_release(traces[i]);
}

Test(text, names_become_dense_slots)
{
    asim_trace *trace = parse_text("# a comment\n"
                                   "\n"
                                   "alloc weights 2MiB\n"
                                   "  alloc x 0.5k   # blanks and comments anywhere\r\n"
                                   "free weights\n"
                                   "@20 alloc y 7\n"
                                   "free x pending\n"
                                   "free_done x\n"
                                   "alloc weights 1\n"
                                   "trim",
                                   1);
    cr_assert_eq(trace->event_count, 8);
    cr_assert_eq(trace->slot_count, 2);
    cr_assert(trace->lane_count == 1 && trace->device_count == 1);
    static const uint32_t ids[] = {0, 1, 0, 0, 1, 1, 1};
    for (int i = 0; i < 7; i++)
        cr_assert_eq(trace->events[i].id, ids[i], "event %d", i);
    cr_assert_eq(trace->events[0].size, 2 << 20);
    cr_assert_eq(trace->events[1].size, 512);
    cr_assert_eq(trace->times_ns[2], 0);
    cr_assert_eq(trace->times_ns[3], 20);
    cr_assert_eq(trace->times_ns[7], 20);
    cr_assert_eq(trace->events[7].lane, ASIM_LANE_ALL);
    asim_trace_release(trace);
}

Test(text, caches_that_grow_and_share)
{
    asim_trace *trace = parse_text("alloc a 2KiB grows unmovable\n"
                                   "prefix a 1KiB\n"
                                   "alloc b 1KiB grows\n"
                                   "alloc c 1 unmovable\n"
                                   "alloc d 1\n",
                                   0);
    static const uint8_t flags[] = {ASIM_ALLOC_GROWS | ASIM_ALLOC_UNMOVABLE, 0, ASIM_ALLOC_GROWS,
                                    ASIM_ALLOC_UNMOVABLE, 0};
    for (int i = 0; i < 5; i++)
        cr_assert_eq(trace->events[i].flags, flags[i], "event %d", i);
    cr_assert(trace->events[1].kind == ASIM_EV_PREFIX && trace->events[1].id == 0);
    cr_assert_eq(trace->events[1].size, 1024);
    text t = {0};
    asim_text_out out = {collect, &t};
    cr_assert_eq(asim_text_write_events(trace, 0, 5, asim_hostmem_libc(), &out, NULL), ASIM_OK);
    cr_assert_str_eq(t.bytes, "alloc 0 2048 unmovable grows\nprefix 0 1024\nalloc 1 1024 grows\n"
                              "alloc 2 1 unmovable\nalloc 3 1\n");
    free(t.bytes);
    asim_trace_release(trace);
}

Test(text, marks_of_pools)
{
    asim_trace *trace = parse_text("lane p pool=1\n"
                                   "pool_retain no_split use_on_oom lane=p\n"
                                   "pool_retain use_on_oom lane=p\n"
                                   "pool_retain no_split lane=p\n"
                                   "pool_retain lane=p\n",
                                   1);
    static const uint8_t flags[] = {ASIM_POOL_USE_ON_OOM | ASIM_POOL_NO_SPLIT, ASIM_POOL_USE_ON_OOM,
                                    ASIM_POOL_NO_SPLIT, 0};
    for (int i = 0; i < 4; i++)
        cr_assert_eq(trace->events[i].flags, flags[i], "event %d", i);
    text t = {0};
    asim_text_out out = {collect, &t};
    cr_assert_eq(asim_text_write_events(trace, 0, 4, asim_hostmem_libc(), &out, NULL), ASIM_OK);
    cr_assert_str_eq(t.bytes, "pool_retain use_on_oom no_split\npool_retain use_on_oom\n"
                              "pool_retain no_split\npool_retain\n");
    free(t.bytes);
    asim_trace_release(trace);
}

Test(text, tables_and_opening_by_name)
{
    asim_trace *trace = parse_text("device gpu capacity=80GiB name=\"two words\"\n"
                                   "lane main device=gpu\n"
                                   "lane side stream=0x10 pool=2\n"
                                   "frame f step train.py 17\n"
                                   "stack s f f\n"
                                   "segment 0x1000 2KiB small lane=side stack=s\n"
                                   "block live a 512 requested=100\n"
                                   "block free 1536\n"
                                   "call oom 0x200 1G lane=side\n"
                                   "free a stack=s\n"
                                   "mark begin iteration \"lane=3\"\n",
                                   3);
    cr_assert_eq(trace->devices[0].capacity, UINT64_C(80) << 30);
    cr_assert_str_eq(trace->strings[trace->devices[0].name].text, "two words");
    cr_assert(trace->lanes[1].stream == 16 && trace->lanes[1].pool == 2);
    cr_assert(trace->frame_count == 1 && trace->stack_table[0].count == 2);
    cr_assert(trace->opening_segments[0].lane == 1 && trace->opening_segments[0].small);
    cr_assert_eq(trace->opening_blocks[0].requested, 100);
    cr_assert(trace->calls[0].kind == ASIM_CALL_OOM && trace->calls[0].size == 1 << 30);
    cr_assert(trace->stacks[0] == 0 && trace->stacks[1] == ASIM_NO_INDEX);
    cr_assert_str_eq(trace->strings[trace->events[1].id].text, "lane=3");
    asim_trace_release(trace);
}

Test(text, only_some_events)
{
    asim_trace *trace = parse_text("alloc a 1\n@5 alloc b 2\ncall map 0x10 4\nfree a\nfree b\n", 0);
    text t = {0};
    asim_text_out out = {collect, &t};
    cr_assert_eq(asim_text_write_events(trace, 1, 2, asim_hostmem_libc(), &out, NULL), ASIM_OK);
    cr_assert_str_eq(t.bytes, "@5 alloc 1 2\ncall map 0x10 4\nfree 0\n");
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_text_write_events(trace, 5, 1, asim_hostmem_libc(), &out, &err), ASIM_E_USAGE);
    free(t.bytes);
    asim_trace_release(trace);
}

Test(text, each_error_names_its_line)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"alloc a 512\nfree b", "line 2: block 'b' is not live"},
        {"alloc a 512\nalloc a 512", "line 2: block 'a' is live already"},
        {"\n\nallocate a 512", "line 3: 'allocate' is neither an event nor a statement"},
        {"alloc a", "line 1: a size is missing"},
        {"alloc a 12q", "line 1: '12q' is no size"},
        {"alloc a -1", "line 1: '-1' is no size"},
        {"alloc a 0x1G", "line 1: '0x1G' is no size"},
        {"alloc", "line 1: the block's id is missing"},
        {"alloc a 1 pending", "line 1: 'pending' is not understood behind alloc"},
        {"alloc a 1 grow", "line 1: 'grow' is not understood behind alloc"},
        {"free a grows", "line 1: block 'a' is not live"},
        {"alloc a 1\nfree a grows", "line 2: 'grows' is not understood behind free"},
        {"prefix a 1", "line 1: block 'a' is not live"},
        {"alloc a 1\nprefix a", "line 2: a size is missing"},
        {"alloc a 1 lane=7", "line 1: there is no lane '7'"},
        {"alloc a 1 stack=7", "line 1: there is no stack '7'"},
        {"@5", "line 1: an event is missing behind the time"},
        {"@x alloc a 1", "line 1: 'x' is no time in nanoseconds"},
        {"@5 alloc a 1\n@4 free a", "line 2: event 1 (free): its time of 4 ns lies before 5"},
        {"sync everything", "line 1: 'everything' is no scope (stream, device, all)"},
        {"mark begin epoch \"x\"", "line 1: 'epoch' is no kind of mark (iteration, phase, request, other)"},
        {"mark begin phase", "line 1: a label is missing"},
        {"fraction 0.5.5", "line 1: '0.5.5' is no fraction"},
        {"fraction 2", "line 1: event 0 (fraction): the fraction does not lie between 0 and 1"},
        {"pool_begin all", "line 1: event 0 (pool_begin): its lane names no pool"},
        {"note \"open", "line 1: a quote is not closed"},
        {"note \"a\\qb\"", "line 1: a backslash is followed by one of n t \" \\ or by xHH"},
        {"note \"a\\x00\"", "line 1: a backslash is followed by one of n t \" \\ or by xHH"},
        {"block free 512", "line 1: a block belongs below its segment"},
        {"segment 0x1000 1024\nblock free 512\nalloc a 1",
         "line 3: opening segment 0: its blocks fill 512 of its 1024 bytes; there may be no "
         "gap"},
        {"device a\ndevice a", "line 2: there is a device 'a' already"},
        {"lane a\nlane b", "line 2: there is a lane with this device, stream and pool already"},
        {"lane a pool=65536", "line 1: pools are numbers up to 65535"},
        {"frame f fn file 1\nstack a f\nstack b f", "line 3: there is a stack of these frames already"},
        {"stack a f", "line 1: there is no frame 'f'"},
        {"ids dense", "line 1: 'ids slots' or 'ids names' is possible"},
        {"ids slots\nalloc 1 512",
         "line 2: event 0 (alloc): id 1 is not dense: only 0 blocks came before it"},
        {"call rename 0 0", "line 1: 'rename' is no recorded call"},
        {"device a size=5", "line 1: capacity= or name= is possible here"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        asim_err err = ASIM_ERR_INIT;
        asim_trace *none = NULL;
        text t = {.bytes = (char *)(uintptr_t)cases[i].text, .length = strlen(cases[i].text)};
        cr_assert_eq(parse(&t, asim_hostmem_libc(), &none, &err), ASIM_E_INPUT, "%s", cases[i].text);
        cr_assert_str_eq(err.message, cases[i].message);
    }
    text zero = {.bytes = (char *)(uintptr_t) "alloc\0a 1", .length = 9};
    asim_err err = ASIM_ERR_INIT;
    asim_trace *none = NULL;
    cr_assert_eq(parse(&zero, asim_hostmem_libc(), &none, &err), ASIM_E_INPUT);
    cr_assert_str_eq(err.message, "line 1: there is a zero byte in it; a text has none");
}

Test(text, refused_memory_leaves_nothing)
{
    asim_trace *trace = sample_new();
    text whole = {0};
    asim_text_out out = {collect, &whole};
    cr_assert_eq(asim_text_write(trace, asim_hostmem_libc(), &out, NULL), ASIM_OK);
    bool done = false;
    for (uint64_t n = 0; !done; n++) {
        sample_memory memory;
        sample_memory_init(&memory, n);
        asim_err err = ASIM_ERR_INIT;
        asim_trace *back = NULL;
        asim_code code = parse(&whole, &memory.mem, &back, &err);
        done = memory.requests <= n;
        cr_assert_eq(code, done ? ASIM_OK : ASIM_E_SYSTEM, "request %d: %s", (int)n, err.message);
        asim_trace_release(back);
        cr_assert_eq(memory.bytes, 0, "request %d", (int)n);
    }
    done = false;
    for (uint64_t n = 0; !done; n++) {
        sample_memory memory;
        sample_memory_init(&memory, n);
        text part = {0};
        out.ctx = &part;
        asim_code code = asim_text_write(trace, &memory.mem, &out, NULL);
        done = memory.requests <= n;
        cr_assert_eq(code, done ? ASIM_OK : ASIM_E_SYSTEM);
        cr_assert_eq(memory.bytes, 0);
        free(part.bytes);
    }
    free(whole.bytes);
    asim_trace_release(trace);
}

Test(formats, are_chosen_by_content)
{
    static const struct {
        const char *head, *name;
    } cases[] = {
        {"# note\n\n  alloc a 1\n", "text"},
        {"@5 free a", "text"},
        {"ids slots\n", "text"},
        {"\x80\x02}q", "torch-snapshot"},
        {"{\"traceEvents\":[]}", NULL},
        {"", NULL},
        {"allocator: 5\n", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const asim_importer *found = asim_importer_for((const uint8_t *)cases[i].head, strlen(cases[i].head));
        cr_assert_eq(!found, !cases[i].name, "%s", cases[i].head);
        if (found)
            cr_assert_str_eq(found->name, cases[i].name);
    }
    cr_assert_eq(asim_importer_named("text"), &asim_importer_text);
    cr_assert_null(asim_importer_named("word"));
}
