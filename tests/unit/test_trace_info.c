/* traces/info, the samples, and the example of traces/FORMAT.md. */
#include "tests/trace_sample.h"
#include "traces/info.h"
#include "traces/input.h"
#include "traces/native.h"
#include "traces/text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *source_path(const char *name)
{
    static char path[2][512];
    static unsigned next;
    const char *root = getenv("ASIM_SOURCE_ROOT");
    char *own = path[next++ % 2];
    snprintf(own, 512, "%s/%s", root ? root : ".", name);
    return own;
}

static asim_trace *read_text_file(const char *path)
{
    asim_err err = ASIM_ERR_INIT;
    asim_file_input *file;
    asim_trace_builder *builder;
    asim_trace *trace;
    cr_assert_eq(asim_file_input_open(path, asim_hostmem_libc(), &file, &err), ASIM_OK, "%s: %s", path,
                 err.message);
    cr_assert_eq(asim_trace_builder_new(asim_hostmem_libc(), &builder, &err), ASIM_OK);
    asim_sink sink = asim_trace_builder_sink(builder);
    asim_input input = asim_file_input_stream(file);
    cr_assert_eq(asim_text_read(&input, &sink, asim_hostmem_libc(), &err), ASIM_OK, "%s: %s", path,
                 err.message);
    cr_assert_eq(asim_trace_builder_finish(builder, &trace, &err), ASIM_OK, "%s", err.message);
    asim_file_input_close(file);
    return trace;
}

/* The sample's numbers, counted by hand from tests/trace_sample.c. */
Test(info, of_the_sample)
{
    asim_trace *trace = sample_new();
    asim_trace_info info;
    cr_assert_eq(asim_trace_describe(trace, asim_hostmem_libc(), &info, NULL), ASIM_OK);
    cr_assert_eq(info.kind_counts[ASIM_EV_ALLOC], 4);
    cr_assert_eq(info.kind_counts[ASIM_EV_FREE], 3);
    cr_assert_eq(info.kind_counts[ASIM_EV_SYNC], 3);
    cr_assert_eq(info.kind_counts[ASIM_EV_MARK], 3);
    for (int kind = 0; kind < 5; kind++)
        cr_assert_eq(info.call_counts[kind], 1);
    cr_assert_eq(info.opening_live_bytes, 100 + (8 << 20));
    cr_assert_eq(info.opening_live_blocks, 2);
    cr_assert_eq(info.opening_pending_blocks, 1);
    cr_assert_eq(info.opening_free_bytes, (2 << 20) - 512 + (8 << 20));
    cr_assert_eq(info.opening_segment_bytes, 22 << 20);
    cr_assert_eq(info.kind_counts[ASIM_EV_PREFIX], 1);
    cr_assert_eq(info.growing_allocs, 1);
    cr_assert_eq(info.unmovable_allocs, 1);
    /* 8 MiB, the second 1000, 3 GiB after the resize, and 20 MiB in event 21: the peak */
    cr_assert_eq(info.peak_live_bytes, (UINT64_C(28) << 20) + 1000 + (UINT64_C(3) << 30));
    cr_assert_eq(info.peak_live_event, 21);
    cr_assert_eq(info.end_live_bytes, (UINT64_C(20) << 20) + 1000 + (UINT64_C(3) << 30));
    cr_assert_eq(info.end_live_blocks, 3);
    cr_assert_eq(info.peak_live_blocks, 4);
    cr_assert_eq(info.allocated_bytes, 2000 + (20 << 20));
    cr_assert_eq(info.largest_bytes, UINT64_C(3) << 30);
    cr_assert_eq(info.frees_of_opening, 2);
    cr_assert_eq(info.duration_ns, 43500);
    cr_assert_eq(info.with_address, 3);
    cr_assert_eq(info.with_stack, 6);
    cr_assert_eq(info.stack_depth_max, 3);
    cr_assert_eq(info.distinct_sizes, 3);
    cr_assert_eq(info.devices_used, 2);
    cr_assert_eq(info.streams_used, 3);
    cr_assert_eq(info.pools_used, 1);
    asim_trace_release(trace);
}

Test(info, refused_memory_leaves_nothing)
{
    asim_trace *trace = sample_new();
    bool done = false;
    for (uint64_t n = 0; !done; n++) {
        sample_memory memory;
        sample_memory_init(&memory, n);
        asim_trace_info info;
        asim_code code = asim_trace_describe(trace, &memory.mem, &info, NULL);
        done = memory.requests <= n;
        cr_assert_eq(code, done ? ASIM_OK : ASIM_E_SYSTEM);
        cr_assert_eq(memory.bytes, 0);
    }
    asim_trace_release(trace);
}

/* A file that an earlier version wrote, and its text: later readers have to see the same in both. */
static asim_trace *stays_readable(const char *native_path, const char *text_path)
{
    asim_err err = ASIM_ERR_INIT;
    asim_trace *native, *text = read_text_file(source_path(text_path));
    cr_assert_eq(asim_trace_load(source_path(native_path), asim_hostmem_libc(), NULL, NULL, &native, &err),
                 ASIM_OK, "%s", err.message);
    cr_assert_str_eq(sample_difference(native, text), "");
    asim_trace_release(text);
    return native;
}

Test(samples, version_1_0_stays_readable)
{
    asim_trace *native = stays_readable("traces/samples/everything.zst", "traces/samples/everything.text");
    cr_assert_eq(native->event_count, 33);
    asim_trace_release(native);
}

Test(samples, version_1_1_stays_readable)
{
    asim_trace *native =
        stays_readable("traces/samples/everything-1.1.zst", "traces/samples/everything-1.1.text");
    for (uint64_t i = 0; i < native->event_count; i++)
        cr_assert(native->events[i].kind != ASIM_EV_POOL_RETAIN || !native->events[i].flags);
    asim_trace_release(native);
}

Test(samples, version_1_2_stays_readable)
{
    asim_trace *native =
                   stays_readable("traces/samples/everything-1.2.zst", "traces/samples/everything-1.2.text"),
               *sample = sample_new();
    cr_assert_str_eq(sample_difference(native, sample), "");
    asim_trace_release(native);
    asim_trace_release(sample);
}

static asim_code append(void *ctx, const char *text, size_t length, asim_err *err)
{
    (void)err;
    strncat(ctx, text, length);
    return ASIM_OK;
}

/* The two blocks of ```text at the end of FORMAT.md: the first, read, prints as the second. */
Test(format, the_example_is_true)
{
    static char all[1 << 16], printed[1 << 12];
    FILE *file = fopen(source_path("traces/FORMAT.md"), "rb");
    cr_assert_not_null(file);
    all[fread(all, 1, sizeof all - 1, file)] = 0;
    fclose(file);
    char *given = strstr(all, "```text\n") + 8, *end = strstr(given, "```"),
         *shown = strstr(end + 3, "```text\n") + 8;
    *end = 0;
    *strstr(shown, "```") = 0;
    char path[] = "/tmp/asim-format-XXXXXX";
    int fd = mkstemp(path);
    FILE *out = fdopen(fd, "wb");
    fputs(given, out);
    fclose(out);
    asim_trace *trace = read_text_file(path);
    remove(path);
    asim_text_out text = {append, printed};
    cr_assert_eq(asim_text_write_events(trace, 0, UINT64_MAX, asim_hostmem_libc(), &text, NULL), ASIM_OK);
    cr_assert_str_eq(printed, shown);
    cr_assert_eq(trace->slot_count, 3);
    asim_trace_release(trace);
}
