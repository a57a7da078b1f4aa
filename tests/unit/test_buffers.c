/* Lists of buffers: the events made of them, what is refused, and that memory may run out anywhere. */
#include "traces/buffers.h"
#include "traces/formats.h"
#include "traces/input.h"
#include "traces/native.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
    const char *bytes;
    size_t length, read, portion;
} text;

static asim_code give(void *ctx, void *buffer, size_t capacity, size_t *ret_length, asim_err *err)
{
    text *t = ctx;
    (void)err;
    size_t length = t->length - t->read;
    length = length < capacity ? length : capacity;
    length = length < t->portion ? length : t->portion;
    memcpy(buffer, t->bytes + t->read, length);
    t->read += length;
    *ret_length = length;
    return ASIM_OK;
}

static asim_code import(const char *string, size_t portion, const asim_hostmem *mem, asim_trace **ret_trace,
                        asim_err *err)
{
    text t = {.bytes = string, .length = strlen(string), .portion = portion};
    const asim_input input = {give, &t};
    asim_trace_builder *builder;
    asim_code code = asim_trace_builder_new(mem, &builder, err);
    if (code)
        return code;
    const asim_sink sink = asim_trace_builder_sink(builder);
    code = asim_importer_buffers.import(&input, &sink, mem, err);
    const asim_code last = asim_trace_builder_finish(builder, code ? NULL : ret_trace, code ? NULL : err);
    return code ? code : last;
}

static asim_trace *imported(const char *string, size_t portion)
{
    asim_err err = ASIM_ERR_INIT;
    asim_trace *trace = NULL;
    cr_assert_eq(import(string, portion, asim_hostmem_libc(), &trace, &err), ASIM_OK, "%s", err.message);
    return trace;
}

typedef struct expected {
    uint64_t time;
    uint8_t kind;
    uint32_t id;
    uint64_t size;
} expected;

static void expect_events(const asim_trace *trace, const expected *events, size_t count)
{
    cr_assert_eq(trace->event_count, count);
    for (size_t i = 0; i < count; i++) {
        cr_expect_eq(trace->times_ns[i], events[i].time, "event %zu", i);
        cr_expect_eq(trace->events[i].kind, events[i].kind, "event %zu", i);
        cr_expect_eq(trace->events[i].id, events[i].id, "event %zu", i);
        cr_expect_eq(trace->events[i].size, events[i].size, "event %zu", i);
    }
}

/* The example of MiniMalloc's README, with what must become of it written out by hand: at 3, b1 goes before
 * b2 comes; at 9, b2 and b3 go, in the order of their rows, before b4 takes the slot released last. */
static const char example[] = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n";
static const expected example_events[] = {
    {0, ASIM_EV_ALLOC, 0, 4}, {0, ASIM_EV_ALLOC, 1, 4}, {0, ASIM_EV_ALLOC, 2, 4}, {3, ASIM_EV_FREE, 0, 0},
    {3, ASIM_EV_ALLOC, 0, 4}, {9, ASIM_EV_FREE, 0, 0},  {9, ASIM_EV_FREE, 1, 0},  {9, ASIM_EV_ALLOC, 1, 4},
    {21, ASIM_EV_FREE, 1, 0}, {21, ASIM_EV_FREE, 2, 0},
};

Test(buffers, become_allocs_and_frees_in_order_of_time)
{
    for (size_t portion = 1; portion < 100; portion += 16) {
        asim_trace *trace = imported(example, portion);
        expect_events(trace, example_events, sizeof example_events / sizeof *example_events);
        cr_expect_eq(trace->slot_count, 3);
        cr_expect_eq(trace->device_count, 1);
        cr_expect_str_eq(trace->strings[trace->source].text, "minimalloc-csv");
        asim_trace_release(trace);
    }
}

/* Columns in another order and by their older names, whose end is the last moment; a mark at the beginning,
 * line ends of DOS, no end of the last line, a blank line. */
Test(buffers, other_spellings_mean_the_same)
{
    asim_trace *trace =
        imported("\xEF\xBB\xBFsize,end,start,buffer_id\r\n4,2,0,b1\r\n4,8,3,b2\r\n\r\n4,8,0,b3\r\n"
                 "4,20,9,b4\r\n4,20,0,b5",
                 7);
    expect_events(trace, example_events, sizeof example_events / sizeof *example_events);
    asim_trace_release(trace);
}

Test(buffers, what_is_lost_is_said)
{
    asim_trace *trace = imported(
        "id,lower,upper,size,alignment,gaps,offset\n0,1,4,0,64,2-3,128\n1,5,9223372036854775797,1,1,,0\n",
        100);
    const expected events[] = {{1, ASIM_EV_ALLOC, 0, 0},
                               {4, ASIM_EV_FREE, 0, 0},
                               {5, ASIM_EV_ALLOC, 0, 1},
                               {INT64_MAX - 10, ASIM_EV_FREE, 0, 0}};
    expect_events(trace, events, 4);
    const char *const words[] = {"Names", "Alignments", "Offsets", "Gaps"};
    cr_assert_eq(trace->note_count, 4);
    for (size_t i = 0; i < 4; i++)
        cr_expect(strstr(trace->strings[trace->notes[i]].text, words[i]), "%s", words[i]);
    asim_trace_release(trace);
    trace = imported("lower,upper,size,id\n", 100);
    cr_expect_eq(trace->event_count, 0);
    cr_expect_eq(trace->note_count, 1);
    asim_trace_release(trace);
}

Test(buffers, mistakes_name_their_line)
{
    static const struct {
        const char *text;
        uint64_t line;
        const char *words;
    } cases[] = {
        {"", 1, "missing"},
        {"id,lower,upper\n", 1, "must name id, lower, upper and size"},
        {"id,lower,upper,size,colour\n", 1, "'colour' is no column"},
        {"id,lower,upper,size,begin\n", 1, "'begin' stands there twice"},
        {"id,lower,upper,size,,,,,,,,,,,,,,,,\n", 1, "more than 16 columns"},
        {"id,lower,upper,size\n0,1,2,3\n0,1,2\n", 3, "has not the 4 fields"},
        {"id,lower,upper,size\n0,1,2,3,4\n", 2, "has not the 4 fields"},
        {"id,lower,upper,size\n0,1,2,-3\n", 2, "the size '-3' is no integer"},
        {"id,lower,upper,size\n0,1,2,\n", 2, "the size '' is no integer"},
        {"id,lower,upper,size\n0,1,2,0x3\n", 2, "the size '0x3' is no integer"},
        {"id,lower,upper,size\n0,1,2, 3\n", 2, "the size ' 3' is no integer"},
        {"id,lower,upper,size\n0,1,2,9223372036854775808\n", 2, "no integer"},
        {"id,lower,upper,size\n0,1,99999999999999999999999999,1\n", 2, "upper end"},
        {"id,lower,upper,size\n\n\n0,2,2,1\n", 4, "ends at 2, not after its begin at 2"},
        {"id,lower,end,size\n0,2,1,1\n", 2, "ends at 2"},
        {"id,lower,upper,size,alignment\n0,1,2,3,0\n", 2, "alignment '0'"},
        {"id,lower,upper,size,offset\n0,1,2,3,x\n", 2, "offset 'x'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        asim_err err = ASIM_ERR_INIT;
        asim_trace *trace = NULL;
        char line[32];
        snprintf(line, sizeof line, "line %" PRIu64 ": ", cases[i].line);
        cr_expect_eq(import(cases[i].text, 5, asim_hostmem_libc(), &trace, &err), ASIM_E_INPUT, "%s",
                     cases[i].text);
        cr_expect(strncmp(err.message, line, strlen(line)) == 0 && strstr(err.message, cases[i].words),
                  "%s: %s", cases[i].text, err.message);
        cr_expect_eq(err.position, cases[i].line);
    }
}

Test(buffers, a_line_has_an_end)
{
    char *long_line = malloc(200001);
    asim_err err = ASIM_ERR_INIT;
    asim_trace *trace = NULL;
    memset(long_line, '1', 200000);
    long_line[200000] = 0;
    cr_expect_eq(import(long_line, 1000, asim_hostmem_libc(), &trace, &err), ASIM_E_INPUT);
    cr_expect(strstr(err.message, "longer than 65536 bytes"), "%s", err.message);
    free(long_line);
}

Test(buffers, are_known_by_their_first_line)
{
    static const struct {
        const char *head;
        bool ours;
    } cases[] = {
        {"id,lower,upper,size\n0,1,2,3\n", true},
        {"size,id,end,begin,alignment\r\n", true},
        {"id,lower,upper,size", true},
        {"Thread,Time,Action,Pointer,Size,Stream\n", false},
        {"alloc a 512\n", false},
        {"", false},
        {"id,lower,upper\n", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const asim_importer *found = asim_importer_for((const uint8_t *)cases[i].head, strlen(cases[i].head));
        cr_expect_eq(found == &asim_importer_buffers, cases[i].ours, "%s", cases[i].head);
    }
    cr_expect_eq(asim_importer_named("minimalloc-csv"), &asim_importer_buffers);
}

/* The n-th request for memory is refused, for every n. */
typedef struct scarce {
    uint64_t left, bytes;
} scarce;

static void *scarce_resize(void *ctx, void *memory, size_t old_size, size_t new_size)
{
    scarce *s = ctx;
    if (new_size && s->left-- == 0) {
        s->left = 0;
        return NULL;
    }
    void *resized = asim_hostmem_libc()->resize(NULL, memory, old_size, new_size);
    s->bytes += new_size - old_size;
    return resized;
}

Test(buffers, memory_may_run_out_anywhere)
{
    for (uint64_t n = 0;; n++) {
        scarce s = {.left = n};
        const asim_hostmem mem = {scarce_resize, &s};
        asim_err err = ASIM_ERR_INIT;
        asim_trace *trace = NULL;
        const asim_code code = import(example, 100, &mem, &trace, &err);
        if (code == ASIM_OK) {
            cr_expect_gt(n, 5);
            asim_trace_release(trace);
            cr_expect_eq(s.bytes, 0);
            break;
        }
        cr_assert_eq(code, ASIM_E_SYSTEM, "request %d: %s", (int)n, err.message);
        cr_assert_eq(s.bytes, 0, "request %d: memory leaks", (int)n);
    }
}

/* The published sets: as many buffers as the files have lines, but the first (counted with wc). */
Test(buffers, published_sets)
{
    static const struct {
        const char *name;
        uint64_t buffers;
    } sets[] = {{"A.1048576", 154}, {"B.1048576", 170}, {"C.1048576", 203}, {"E.1048576", 215},
                {"F.1048576", 296}, {"H.1048576", 316}, {"I.1048576", 374}, {"input.12", 5}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        char path[4096];
        asim_file_input *file;
        asim_buffer_list list;
        asim_err err = ASIM_ERR_INIT;
        snprintf(path, sizeof path, "%s/tests/plan/buffers/%s.csv", getenv("ASIM_SOURCE_ROOT"), sets[i].name);
        cr_assert_eq(asim_file_input_open(path, asim_hostmem_libc(), &file, &err), ASIM_OK, "%s",
                     err.message);
        const asim_input input = asim_file_input_stream(file);
        cr_assert_eq(asim_buffers_read(&input, asim_hostmem_libc(), &list, &err), ASIM_OK, "%s", err.message);
        cr_expect_eq(list.count, sets[i].buffers, "%s", sets[i].name);
        asim_buffers_fini(&list);
        asim_file_input_close(file);
    }
}
