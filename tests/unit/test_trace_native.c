/* The native format: round trips, windows, damage of every sort, refusals of memory and disk. */
#include "sim/buf.h"
#include "sim/hash.h"
#include "tests/trace_sample.h"
#include "traces/digest.h"
#include "traces/format.h"
#include "traces/native.h"
#include "traces/table_code.h"
#include "traces/zframe.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

static char folder[64];

static void make_folder(void)
{
    strcpy(folder, "/tmp/asim-trace-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static size_t files_in_folder(void)
{
    DIR *dir = opendir(folder);
    size_t count = 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void remove_folder(void)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    rmdir(folder);
}

static const char *in_folder(const char *name)
{
    static char path[4][128];
    static unsigned next;
    char *own = path[next++ % 4];
    snprintf(own, 128, "%s/%s", folder, name);
    return own;
}

static asim_code write_trace(const asim_trace *trace, const char *path, const asim_hostmem *mem,
                             asim_err *err)
{
    asim_trace_writer *writer;
    asim_code code = asim_trace_writer_open(path, mem, &writer, err);
    if (code)
        return code;
    asim_sink sink = asim_trace_writer_sink(writer);
    code = asim_trace_copy(trace, &sink, err);
    asim_code last = asim_trace_writer_close(writer, code != ASIM_OK, err);
    return code ? code : last;
}

static asim_trace *load(const char *path)
{
    asim_err err = ASIM_ERR_INIT;
    asim_trace *trace = NULL;
    cr_assert_eq(asim_trace_load(path, asim_hostmem_libc(), NULL, NULL, &trace, &err), ASIM_OK, "%s",
                 err.message);
    return trace;
}

typedef struct bytes {
    uint8_t *data;
    size_t length;
} bytes;

static bytes slurp(const char *path)
{
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file);
    bytes all = {malloc(1 << 24), 0};
    all.length = fread(all.data, 1, 1 << 24, file);
    fclose(file);
    return all;
}

static void spill(const char *path, const uint8_t *data, size_t length)
{
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(data, 1, length, file), length);
    fclose(file);
}

static void seal_header(uint8_t *file)
{
    asim_put_u64(file + 88, asim_hash_bytes(ASIM_HASH_INIT, file, 88));
}

TestSuite(native, .init = make_folder, .fini = remove_folder);

Test(native, what_was_written_is_read)
{
    asim_trace *traces[] = {sample_new(), sample_random_new(1, 1, false), sample_random_new(2, 150000, true),
                            sample_random_new(3, 70000, false), sample_random_new(4, 65536, true)};
    for (size_t i = 0; i < sizeof traces / sizeof traces[0]; i++) {
        asim_err err = ASIM_ERR_INIT;
        const char *path = in_folder("a.zst");
        cr_assert_eq(write_trace(traces[i], path, asim_hostmem_libc(), &err), ASIM_OK, "%s", err.message);
        cr_assert_eq(files_in_folder(), 1);
        asim_trace *back = load(path);
        cr_assert_str_eq(sample_difference(traces[i], back), "", "trace %zu", i);
        bytes file = slurp(path);
        cr_assert_eq(asim_get_u64(file.data + 24), traces[i]->event_count);
        cr_assert_eq(asim_get_u64(file.data + 32), traces[i]->digest);
        free(file.data);
        asim_trace_release(back);
        asim_trace_release(traces[i]);
    }
}

Test(native, a_trace_without_events)
{
    asim_trace_writer *writer;
    asim_err err = ASIM_ERR_INIT;
    const char *path = in_folder("a.zst");
    cr_assert_eq(asim_trace_writer_open(path, asim_hostmem_libc(), &writer, &err), ASIM_OK);
    cr_assert_eq(asim_trace_writer_close(writer, false, &err), ASIM_OK, "%s", err.message);
    asim_trace *trace = load(path);
    cr_assert(trace->event_count == 0 && trace->slot_count == 0 && trace->source == ASIM_NO_INDEX);
    asim_trace_release(trace);
}

/* The whole file, header included, is a valid zstd stream: the zstd program can test and unpack it. */
Test(native, is_a_zstd_stream)
{
    asim_trace *trace = sample_new();
    const char *path = in_folder("a.zst");
    write_trace(trace, path, asim_hostmem_libc(), NULL);
    asim_trace_release(trace);
    bytes file = slurp(path);
    size_t offset = 0, frames = 0;
    while (offset < file.length) {
        size_t length = ZSTD_findFrameCompressedSize(file.data + offset, file.length - offset);
        cr_assert_not(ZSTD_isError(length));
        offset += length;
        frames++;
    }
    cr_assert_eq(frames, 1 + asim_get_u64(file.data + 48));
    free(file.data);
}

/* An empty column may be NULL. */
static bool same(const void *a, const void *b, size_t length)
{
    return length == 0 || memcmp(a, b, length) == 0;
}

static void check_window(const asim_trace *whole, const char *path, uint64_t first, uint64_t count)
{
    asim_err err = ASIM_ERR_INIT;
    asim_trace *window;
    cr_assert_eq(asim_trace_load_window(path, first, count, asim_hostmem_libc(), &window, &err), ASIM_OK,
                 "%s", err.message);
    uint64_t expected = whole->event_count - first < count ? whole->event_count - first : count;
    cr_assert_eq(window->event_count, expected);
    cr_assert(same(window->events, whole->events + first, expected * sizeof *whole->events));
    cr_assert(same(window->times_ns, whole->times_ns + first, expected * 8));
    cr_assert(same(window->recorded_addresses, whole->recorded_addresses + first, expected * 8));
    cr_assert(same(window->stacks, whole->stacks + first, expected * 4));
    cr_assert_eq(window->stack_count, whole->stack_count);
    cr_assert_eq(window->opening_segment_count, first ? 0 : whole->opening_segment_count);
    uint32_t call = 0;
    for (uint32_t i = 0; i < whole->call_count; i++) {
        uint64_t event = whole->calls[i].event;
        if (event < first || (event >= first + expected && first + expected != whole->event_count))
            continue;
        cr_assert_lt(call, window->call_count);
        cr_assert_eq(window->calls[call].event, event - first);
        cr_assert_eq(window->calls[call].address, whole->calls[i].address);
        call++;
    }
    cr_assert_eq(call, window->call_count);
    for (uint64_t i = 0; i < expected; i++)
        cr_assert(window->events[i].kind > ASIM_EV_USE || window->events[i].id < window->slot_count);
    asim_trace_release(window);
}

Test(native, windows)
{
    asim_trace *whole = sample_random_new(5, 200000, true);
    const char *path = in_folder("a.zst");
    cr_assert_eq(write_trace(whole, path, asim_hostmem_libc(), NULL), ASIM_OK);
    static const uint64_t windows[][2] = {{0, 10},     {0, 65536},      {65536, 65536},  {65535, 2},
                                          {100000, 1}, {199990, 1000},  {0, UINT64_MAX}, {70000, 130000},
                                          {200000, 5}, {131071, 65537}, {3, 0}};
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++)
        if (windows[i][0] <= whole->event_count)
            check_window(whole, path, windows[i][0], windows[i][1]);
    asim_trace *window;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_trace_load_window(path, whole->event_count + 1, 1, asim_hostmem_libc(), &window, &err),
                 ASIM_E_USAGE);
    asim_trace_release(whole);
    whole = sample_new();
    cr_assert_eq(write_trace(whole, path, asim_hostmem_libc(), NULL), ASIM_OK);
    for (uint64_t first = 0; first <= whole->event_count; first++)
        check_window(whole, path, first, 7);
    asim_trace_release(whole);
}

/* A window needs only its own frames: damage elsewhere is not even seen. */
Test(native, a_window_reads_nothing_else)
{
    asim_trace *whole = sample_random_new(6, 200000, true);
    const char *path = in_folder("a.zst");
    cr_assert_eq(write_trace(whole, path, asim_hostmem_libc(), NULL), ASIM_OK);
    bytes file = slurp(path);
    size_t offset = ASIM_HEADER_SIZE, largest = 0, at = 0;
    for (int frame = 0; frame < 3; frame++) { /* tables, then the first two frames of events */
        size_t length = ZSTD_findFrameCompressedSize(file.data + offset, file.length - offset);
        if (length > largest && at == 0 && frame > 0)
            at = offset + length / 2;
        offset += length;
    }
    file.data[at] ^= 0x40;
    spill(path, file.data, file.length);
    asim_err err = ASIM_ERR_INIT;
    asim_trace *trace;
    cr_assert_eq(asim_trace_load(path, asim_hostmem_libc(), NULL, NULL, &trace, &err), ASIM_E_INPUT);
    cr_assert_not_null(strstr(err.message, "frame 2 of "), "%s", err.message);
    cr_assert_not_null(strstr(err.message, "(events 0 to 65535, at byte "), "%s", err.message);
    check_window(whole, path, 131072, 1000);
    asim_trace_release(whole);
    free(file.data);
}

static asim_code load_bytes(const uint8_t *data, size_t length, asim_trace **ret_trace, asim_err *err)
{
    const char *path = in_folder("damaged.zst");
    spill(path, data, length);
    return asim_trace_load(path, asim_hostmem_libc(), NULL, NULL, ret_trace, err);
}

Test(native, every_cut_is_noticed)
{
    asim_trace *trace = sample_new();
    const char *path = in_folder("a.zst");
    cr_assert_eq(write_trace(trace, path, asim_hostmem_libc(), NULL), ASIM_OK);
    asim_trace_release(trace);
    bytes file = slurp(path);
    size_t boundary = ASIM_HEADER_SIZE, frame = 1, frames = asim_get_u64(file.data + 48);
    for (size_t length = 0; length < file.length; length++) {
        asim_err err = ASIM_ERR_INIT;
        asim_trace *none = NULL;
        cr_assert_eq(load_bytes(file.data, length, &none, &err), ASIM_E_INPUT);
        char expected[64];
        if (length < 16)
            strcpy(expected, length ? ": not an allocsim trace: it begins with" : "the file is empty");
        else if (length < ASIM_HEADER_SIZE)
            snprintf(expected, sizeof expected, "frame 0 (the header) is cut off after %zu bytes", length);
        else {
            size_t whole = ZSTD_findFrameCompressedSize(file.data + boundary, file.length - boundary);
            if (length >= boundary + whole) {
                boundary += whole;
                frame++;
            }
            snprintf(expected, sizeof expected, "cut off: frame %zu of %zu (at byte %zu)", frame, frames,
                     boundary);
        }
        cr_assert(length > 0 && length < 16 ? err.message[0] != 0 : strstr(err.message, expected) != NULL,
                  "%zu bytes: '%s' lacks '%s'", length, err.message, expected);
    }
    file.data = realloc(file.data, file.length + 1);
    file.data[file.length] = 0;
    asim_err err = ASIM_ERR_INIT;
    asim_trace *none = NULL;
    cr_assert_eq(load_bytes(file.data, file.length + 1, &none, &err), ASIM_E_INPUT);
    cr_assert_not_null(strstr(err.message, "1 bytes follow the end of the trace"));
    free(file.data);
}

Test(native, every_flipped_byte_is_noticed_or_harmless, .timeout = 120)
{
    asim_trace *trace = sample_new();
    const char *path = in_folder("a.zst");
    cr_assert_eq(write_trace(trace, path, asim_hostmem_libc(), NULL), ASIM_OK);
    bytes file = slurp(path);
    size_t harmless = 0;
    for (size_t i = 0; i < file.length; i++)
        for (unsigned mask = 1; mask < 256; mask = mask == 1 ? 0x80 : mask == 0x80 ? 0xFF : 256) {
            asim_err err = ASIM_ERR_INIT;
            asim_trace *other = NULL;
            file.data[i] ^= (uint8_t)mask;
            asim_code code = load_bytes(file.data, file.length, &other, &err);
            file.data[i] ^= (uint8_t)mask;
            if (code == ASIM_OK) {
                cr_assert_str_eq(sample_difference(trace, other), "", "byte %zu", i);
                harmless++;
            } else {
                cr_assert_eq(code, ASIM_E_INPUT, "byte %zu: %s", i, err.message);
                cr_assert(i < 20 || strstr(err.message, ": frame ") || strstr(err.message, "cut off"),
                          "byte %zu: %s", i, err.message);
            }
            asim_trace_release(other);
        }
    cr_assert_lt(harmless, file.length / 10);
    free(file.data);
    asim_trace_release(trace);
}

static void expect_input_error(const char *path, const char *expected)
{
    asim_err err = ASIM_ERR_INIT;
    asim_trace *none = NULL;
    cr_assert_eq(asim_trace_load(path, asim_hostmem_libc(), NULL, NULL, &none, &err), ASIM_E_INPUT, "%s",
                 expected);
    char whole[400];
    snprintf(whole, sizeof whole, "%s: %s", path, expected);
    cr_assert_eq(strncmp(err.message, whole, strlen(whole)), 0, "'%s' instead of '%s'", err.message, whole);
}

Test(native, what_is_no_trace)
{
    expect_input_error(folder, "not an allocsim trace: it is a directory");
    expect_input_error("/dev/null", "not an allocsim trace: it is no regular file");
    expect_input_error(in_folder("none"), "cannot be opened: No such file or directory");
    spill(in_folder("text"), (const uint8_t *)"alloc a 512\n", 12);
    expect_input_error(in_folder("text"), "not an allocsim trace: it begins with the bytes 61 6c 6c 6f; "
                                          "'allocsim import' reads recordings of other programs");
    uint8_t blank[200] = {0};
    spill(in_folder("blank"), blank, sizeof blank);
    expect_input_error(in_folder("blank"),
                       "not an allocsim trace: its header is blank, it was never completed");
    char bomb[300];
    size_t length;
    uint8_t *zeros = calloc(1, 1 << 20);
    length = ZSTD_compress(bomb, sizeof bomb, zeros, 1 << 20, 3);
    cr_assert_not(ZSTD_isError(length));
    spill(in_folder("bomb"), (uint8_t *)bomb, length);
    free(zeros);
    expect_input_error(in_folder("bomb"), "not an allocsim trace: it begins with the bytes 28 b5 2f fd");
}

Test(native, other_versions)
{
    asim_trace *trace = sample_new();
    const char *path = in_folder("a.zst");
    cr_assert_eq(write_trace(trace, path, asim_hostmem_libc(), NULL), ASIM_OK);
    asim_trace_release(trace);
    bytes file = slurp(path);
    file.data[16] = 2;
    spill(path, file.data, file.length);
    expect_input_error(path, "written in version 2.2 of the trace format (or its header is damaged); "
                             "this allocsim reads version 1");
    seal_header(file.data);
    spill(path, file.data, file.length);
    expect_input_error(path, "written in version 2.2 of the trace format; this allocsim reads version 1");
    file.data[16] = 1;
    file.data[18] = 9;
    seal_header(file.data);
    spill(path, file.data, file.length);
    asim_trace_release(load(path));
    free(file.data);
}

/* Headers and frames that promise more than there is. */
Test(native, promises_take_no_memory)
{
    asim_trace *trace = sample_new();
    const char *path = in_folder("a.zst");
    cr_assert_eq(write_trace(trace, path, asim_hostmem_libc(), NULL), ASIM_OK);
    asim_trace_release(trace);
    bytes file = slurp(path);
    static const struct {
        size_t at;
        uint64_t value;
        const char *expected;
    } promises[] = {
        {24, UINT64_C(1) << 60, "frame 0 (the header) promises more than the file holds"},
        {24, 1000, "frame 7 of 7 (the index, at byte "},
        {40, UINT64_C(1) << 40, "frame 0 (the header) promises more than the file holds"},
        {40, 4000000000, "the events do not have the digest that frame 0 (the header) gives"},
        {48, UINT64_C(1) << 60, "frame 0 (the header) promises more than the file holds"},
        {48, 9, "frame 9 of 9 (the index, at byte "},
        {56, UINT64_C(1) << 60, "frame 0 (the header) promises more than the file holds"},
        {56, 97, "frame 0 (the header) promises more than the file holds"},
        {32, 0, "the events do not have the digest that frame 0 (the header) gives"},
    };
    for (size_t i = 0; i < sizeof promises / sizeof promises[0]; i++) {
        uint8_t *copy = malloc(file.length);
        memcpy(copy, file.data, file.length);
        asim_put_u64(copy + promises[i].at, promises[i].value);
        seal_header(copy);
        spill(path, copy, file.length);
        free(copy);
        sample_memory memory;
        sample_memory_init(&memory, UINT64_MAX);
        memory.bytes_max = 1 << 20; /* an honest load of this trace takes half of it */
        asim_err err = ASIM_ERR_INIT;
        asim_trace *none = NULL;
        cr_assert_eq(asim_trace_load(path, &memory.mem, NULL, NULL, &none, &err), ASIM_E_INPUT, "%zu: %s", i,
                     err.message);
        cr_assert_not_null(strstr(err.message, promises[i].expected), "%zu: %s", i, err.message);
        cr_assert_eq(memory.bytes, 0);
    }
    free(file.data);
}

/* A frame of the right form whose content is far larger than its items need. */
Test(native, a_bomb_inside_is_refused)
{
    asim_err err = ASIM_ERR_INIT;
    asim_packer *packer = asim_packer_new(asim_hostmem_libc(), &err);
    asim_buf content, frame, index, file;
    asim_buf *all[] = {&content, &frame, &index, &file};
    for (int i = 0; i < 4; i++)
        asim_buf_init(all[i], asim_hostmem_libc());
    uint64_t size = UINT64_C(1) << 28;
    cr_assert_eq(asim_buf_reserve(&content, size, &err), ASIM_OK);
    memset(content.bytes, 0, size);
    content.bytes[0] = 'E';
    content.length = size;
    cr_assert_eq(asim_pack(packer, 3, &content, &frame, &err), ASIM_OK);
    asim_buf_reset(&content);
    asim_buf_u8(&content, 'I', &err);
    uint64_t values[4] = {'E', frame.length, size, 65536};
    for (uint8_t tag = 1; tag <= 4; tag++) {
        asim_buf part;
        asim_buf_init(&part, asim_hostmem_libc());
        asim_buf_varint(&part, values[tag - 1], &err);
        asim_put_section(&content, tag, &part, &err);
        asim_buf_fini(&part);
    }
    cr_assert_eq(asim_pack(packer, 3, &content, &index, &err), ASIM_OK);
    asim_header header = {.major = 1,
                          .event_count = 65536,
                          .frame_count = 2,
                          .index_offset = 96 + frame.length,
                          .file_size = 96 + frame.length + index.length};
    uint8_t head[ASIM_HEADER_SIZE];
    asim_header_encode(&header, head);
    asim_buf_append(&file, head, sizeof head, &err);
    asim_buf_append(&file, frame.bytes, frame.length, &err);
    asim_buf_append(&file, index.bytes, index.length, &err);
    spill(in_folder("bomb.zst"), file.bytes, file.length);
    sample_memory memory;
    sample_memory_init(&memory, UINT64_MAX);
    memory.bytes_max = 8 << 20;
    asim_trace *none = NULL;
    cr_assert_eq(asim_trace_load(in_folder("bomb.zst"), &memory.mem, NULL, NULL, &none, &err), ASIM_E_INPUT);
    cr_assert_not_null(
        strstr(err.message, "frame 1 promises 268435456 bytes for 65536 items, which can't be"), "%s",
        err.message);
    for (int i = 0; i < 4; i++)
        asim_buf_fini(all[i]);
    asim_packer_free(packer);
}

Test(native, refused_memory_leaves_nothing, .timeout = 120)
{
    asim_trace *trace = sample_new();
    bool written = false, read = false;
    for (uint64_t n = 0; !written; n++) {
        sample_memory memory;
        sample_memory_init(&memory, n);
        asim_err err = ASIM_ERR_INIT;
        asim_code code = write_trace(trace, in_folder("a.zst"), &memory.mem, &err);
        written = memory.requests <= n;
        cr_assert_eq(code, written ? ASIM_OK : ASIM_E_SYSTEM, "request %d: %s", (int)n, err.message);
        cr_assert_eq(memory.bytes, 0, "request %d", (int)n);
        cr_assert_eq(files_in_folder(), written ? 1 : 0, "request %d", (int)n);
    }
    for (uint64_t n = 0; !read; n++) {
        sample_memory memory;
        sample_memory_init(&memory, n);
        asim_err err = ASIM_ERR_INIT;
        asim_trace *back = NULL;
        asim_code code = asim_trace_load(in_folder("a.zst"), &memory.mem, NULL, NULL, &back, &err);
        read = memory.requests <= n;
        cr_assert_eq(code, read ? ASIM_OK : ASIM_E_SYSTEM, "request %d: %s", (int)n, err.message);
        asim_trace_release(back);
        cr_assert_eq(memory.bytes, 0, "request %d", (int)n);
    }
    asim_trace_release(trace);
}

Test(native, a_refused_disk_leaves_nothing)
{
    asim_trace *trace = sample_random_new(8, 100000, true);
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(write_trace(trace, in_folder("none/a.zst"), asim_hostmem_libc(), &err), ASIM_E_SYSTEM);
    cr_assert_not_null(strstr(err.message, "none/a.zst: cannot create the trace: No such file"), "%s",
                       err.message);
    cr_assert_eq(write_trace(trace, folder, asim_hostmem_libc(), &err), ASIM_E_SYSTEM);
    cr_assert_not_null(strstr(err.message, "is a directory"), "%s", err.message);
    cr_assert_eq(write_trace(trace, "/dev/null", asim_hostmem_libc(), &err), ASIM_E_SYSTEM);

    spill(in_folder("a.zst"), (const uint8_t *)"old", 3);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old, tight = {.rlim_cur = 100000, .rlim_max = RLIM_INFINITY};
    getrlimit(RLIMIT_FSIZE, &old);
    tight.rlim_max = old.rlim_max;
    setrlimit(RLIMIT_FSIZE, &tight);
    asim_code code = write_trace(trace, in_folder("a.zst"), asim_hostmem_libc(), &err);
    setrlimit(RLIMIT_FSIZE, &old);
    cr_assert_eq(code, ASIM_E_SYSTEM);
    cr_assert_not_null(strstr(err.message, "a.zst: cannot write the trace: File too large"), "%s",
                       err.message);
    cr_assert_eq(files_in_folder(), 1);
    bytes file = slurp(in_folder("a.zst"));
    cr_assert(file.length == 3 && memcmp(file.data, "old", 3) == 0);
    free(file.data);
    asim_trace_release(trace);
}

Test(native, an_abandoned_or_failed_trace_leaves_nothing)
{
    asim_trace_writer *writer;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_trace_writer_open(in_folder("a.zst"), asim_hostmem_libc(), &writer, &err), ASIM_OK);
    cr_assert_eq(asim_trace_writer_close(writer, true, &err), ASIM_OK);
    cr_assert_eq(files_in_folder(), 0);
    cr_assert_eq(asim_trace_writer_open(in_folder("a.zst"), asim_hostmem_libc(), &writer, &err), ASIM_OK);
    asim_sink sink = asim_trace_writer_sink(writer);
    asim_sink_event event = {{.kind = ASIM_EV_FREE}, 0, ASIM_NO_ADDRESS, ASIM_NO_INDEX};
    cr_assert_eq(sink.ops->event(sink.ctx, &event, &err), ASIM_E_INPUT);
    asim_err again = ASIM_ERR_INIT;
    cr_assert_eq(asim_trace_writer_close(writer, false, &again), ASIM_E_INPUT);
    cr_assert_str_eq(again.message, "event 0 (free): block 0 is not live");
    cr_assert_eq(files_in_folder(), 0);
}

static void expect_minor(const asim_event *events, size_t count, uint8_t minor)
{
    asim_trace_writer *writer;
    asim_err err = ASIM_ERR_INIT;
    uint32_t index;
    cr_assert_eq(asim_trace_writer_open(in_folder("a.zst"), asim_hostmem_libc(), &writer, &err), ASIM_OK);
    asim_sink sink = asim_trace_writer_sink(writer);
    cr_assert_eq(sink.ops->device(sink.ctx, &(asim_trace_device){.name = ASIM_NO_INDEX}, &index, &err),
                 ASIM_OK);
    cr_assert_eq(sink.ops->lane(sink.ctx, &(asim_lane){.stream = 0}, &index, &err), ASIM_OK);
    cr_assert_eq(sink.ops->lane(sink.ctx, &(asim_lane){.pool = 1}, &index, &err), ASIM_OK);
    for (size_t i = 0; i < count; i++) {
        asim_sink_event event = {events[i], 0, ASIM_NO_ADDRESS, ASIM_NO_INDEX};
        cr_assert_eq(sink.ops->event(sink.ctx, &event, &err), ASIM_OK, "%s", err.message);
    }
    cr_assert_eq(asim_trace_writer_close(writer, false, &err), ASIM_OK, "%s", err.message);
    bytes file = slurp(in_folder("a.zst"));
    cr_assert(file.data[16] == 1 && file.data[18] == minor, "version %d.%d", file.data[16], file.data[18]);
    asim_trace *trace = load(in_folder("a.zst"));
    cr_assert_eq(trace->event_count, count);
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(memcmp(&trace->events[i], &events[i], sizeof events[i]), 0, "event %zu", i);
    free(file.data);
    asim_trace_release(trace);
}

/* FORMAT.md, "Versions": a trace is written in the first version that has all that it holds. */
Test(native, the_version_is_the_lowest_that_will_do)
{
    asim_event plain[] = {{.kind = ASIM_EV_ALLOC, .id = 0, .size = 512},
                          {.kind = ASIM_EV_RESIZE, .id = 0, .size = 1024},
                          {.kind = ASIM_EV_FREE, .id = 0, .flags = ASIM_FREE_PENDING},
                          {.kind = ASIM_EV_FREE_DONE, .id = 0}};
    expect_minor(plain, 4, 0);
    plain[0].flags = ASIM_ALLOC_GROWS;
    expect_minor(plain, 4, 1);
    plain[0].flags = ASIM_ALLOC_UNMOVABLE;
    expect_minor(plain, 4, 1);
    plain[0].flags = ASIM_ALLOC_UNMOVABLE | ASIM_ALLOC_GROWS;
    expect_minor(plain, 4, 1);
    plain[0].flags = 0;
    plain[1] = (asim_event){.kind = ASIM_EV_PREFIX, .id = 0, .size = 100};
    expect_minor(plain, 4, 1);
    for (uint8_t flags = 0; flags < 4; flags++) {
        asim_event pool[] = {{.kind = ASIM_EV_POOL_RETAIN, .flags = flags, .lane = 1}};
        expect_minor(pool, 1, flags ? 2 : 0);
    }
}

/* The sample's file put together anew: its kernel event becomes one of kind 99, the events frame gets a
 * section of tag 15, and a frame of type 'Z' comes first. Everything else is right. */
static void write_future(const char *from, const char *to, uint16_t minor)
{
    asim_err err = ASIM_ERR_INIT;
    bytes old = slurp(from);
    asim_header header;
    cr_assert_eq(asim_header_decode(old.data, ASIM_HEADER_SIZE, &header, &err), ASIM_OK);
    asim_packer *packer = asim_packer_new(asim_hostmem_libc(), &err);
    asim_unpacker *unpacker = asim_unpacker_new(asim_hostmem_libc(), &err);
    asim_buf content, frame, file, columns[ASIM_SECTIONS_MAX];
    asim_buf_init(&content, asim_hostmem_libc());
    asim_buf_init(&frame, asim_hostmem_libc());
    asim_buf_init(&file, asim_hostmem_libc());
    for (int i = 0; i < ASIM_SECTIONS_MAX; i++)
        asim_buf_init(&columns[i], asim_hostmem_libc());
    asim_frame_entry entries[16] = {{.type = 'Z', .content = 3}};
    static const uint32_t counts[128] = {['S'] = 2, ['B'] = 5, ['E'] = 34, ['C'] = 5};
    asim_buf_append(&file, old.data, ASIM_HEADER_SIZE, &err);
    asim_buf_append(&content, "Z??", 3, &err);
    asim_pack(packer, 3, &content, &frame, &err);
    asim_buf_append(&file, frame.bytes, frame.length, &err);
    entries[0].length = frame.length;
    size_t count = 1;
    for (size_t at = ASIM_HEADER_SIZE; at < header.index_offset; count++) {
        size_t length = ZSTD_findFrameCompressedSize(old.data + at, old.length - at);
        cr_assert_eq(asim_unpack(unpacker, old.data + at, length, asim_promised_size(old.data + at, length),
                                 &content, &err),
                     ASIM_OK);
        at += length;
        if (content.bytes[0] == 'E') {
            static const uint8_t kernel[] = {ASIM_EV_KERNEL, 0, 1, ASIM_OP_MAGNITUDE};
            uint8_t *op = memmem(content.bytes, content.length, kernel, sizeof kernel);
            cr_assert_not_null(op);
            *op = 99;
            asim_buf_append(&content, "\x0f\x02??", 4, &err);
        }
        asim_pack(packer, 3, &content, &frame, &err);
        asim_buf_append(&file, frame.bytes, frame.length, &err);
        entries[count] = (asim_frame_entry){.length = frame.length,
                                            .content = content.length,
                                            .first = content.bytes[0] == 'C',
                                            .count = counts[content.bytes[0]],
                                            .type = content.bytes[0]};
    }
    header.index_offset = file.length;
    asim_buf_reset(&content);
    asim_buf_u8(&content, 'I', &err);
    cr_assert_eq(asim_encode_index(entries, count, columns, &content, &err), ASIM_OK);
    asim_pack(packer, 3, &content, &frame, &err);
    asim_buf_append(&file, frame.bytes, frame.length, &err);
    header.minor = minor;
    header.frame_count = count + 1;
    header.file_size = file.length;
    asim_header_encode(&header, file.bytes);
    spill(to, file.bytes, file.length);
    for (int i = 0; i < ASIM_SECTIONS_MAX; i++)
        asim_buf_fini(&columns[i]);
    asim_buf_fini(&content);
    asim_buf_fini(&frame);
    asim_buf_fini(&file);
    asim_packer_free(packer);
    asim_unpacker_free(unpacker);
    free(old.data);
}

static void count_warning(void *ctx, const char *text)
{
    ++*(int *)ctx;
    cr_assert_not_null(strstr(text, "version 1.3 of the trace format: 1 events of kinds unknown"), "%s",
                       text);
}

Test(native, a_newer_minor_version_is_read_as_far_as_it_is_known)
{
    asim_trace *sample = sample_new(), *trace;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(write_trace(sample, in_folder("a.zst"), asim_hostmem_libc(), &err), ASIM_OK);
    write_future(in_folder("a.zst"), in_folder("b.zst"), ASIM_FORMAT_MINOR + 1);
    int warnings = 0;
    cr_assert_eq(
        asim_trace_load(in_folder("b.zst"), asim_hostmem_libc(), count_warning, &warnings, &trace, &err),
        ASIM_OK, "%s", err.message);
    cr_assert_eq(warnings, 1);
    cr_assert_eq(trace->event_count, 33);
    cr_assert_eq(trace->digest, asim_trace_digest(trace));
    for (uint64_t i = 0, k = 0; i < 34; i++) {
        if (sample->events[i].kind == ASIM_EV_KERNEL)
            continue;
        cr_assert_eq(memcmp(&trace->events[k], &sample->events[i], sizeof(asim_event)), 0, "event %d",
                     (int)i);
        cr_assert_eq(trace->times_ns[k], sample->times_ns[i]);
        cr_assert_eq(trace->recorded_addresses[k], sample->recorded_addresses[i]);
        cr_assert_eq(trace->stacks[k++], sample->stacks[i]);
    }
    static const uint64_t call_events[] = {1, 20, 20, 33,
                                           33}; /* 1, 21, 21, 34, 34; the kernel was event 12 */
    for (int i = 0; i < 5; i++)
        cr_assert_eq(trace->calls[i].event, call_events[i]);
    asim_trace_release(trace);
    asim_trace_release(sample);

    write_future(in_folder("a.zst"), in_folder("c.zst"), ASIM_FORMAT_MINOR);
    cr_assert_eq(asim_trace_load(in_folder("c.zst"), asim_hostmem_libc(), NULL, NULL, &trace, &err),
                 ASIM_E_INPUT);
    cr_assert_not_null(strstr(err.message, "frame 5 of 8 (events 0 to 33, at byte "), "%s", err.message);
}
