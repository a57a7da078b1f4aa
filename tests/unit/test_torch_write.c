/* Snapshots written from plain structs: the opcodes to the byte for one small enough to write by hand, the
 * rest by reading it back with the importer, and every way in which the system may refuse. */
#include "tests/trace_sample.h"
#include "traces/input.h"
#include "traces/native.h"
#include "traces/pickle_write.h"
#include "traces/torch_layout.h"
#include "traces/torch_notes.h"
#include "traces/torch_snapshot.h"
#include "traces/torch_write.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64], target[80];

static void make_folder(void)
{
    strcpy(folder, "/tmp/allocsim-write-XXXXXX");
    cr_assert(mkdtemp(folder));
    snprintf(target, sizeof target, "%s/out", folder);
}

static int files_left(void)
{
    int count = 0;
    DIR *dir = opendir(folder);
    cr_assert(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void remove_folder(void)
{
    unlink(target);
    cr_assert_eq(rmdir(folder), 0, "something was left in %s", folder);
}

TestSuite(torch_write, .init = make_folder, .fini = remove_folder);

static size_t read_target(uint8_t *bytes, size_t size)
{
    FILE *file = fopen(target, "rb");
    cr_assert(file);
    size_t length = fread(bytes, 1, size, file);
    fclose(file);
    return length;
}

/* R158 to R162: what Python 3.11 gives for
 * pickle.dumps({'a': [0, 255, 256, 65536, -1, 2**31, 0x7F0000000000, 2**64 - 1, -2**40], 'b': (1, 2)}, 4),
 * written out by hand from the table of opcodes. */
Test(torch_write, opcodes)
{
    static const uint8_t expected[] = {
        0x80, 4,    0x95, 74,   0,    0,    0,    0,    0,   0,    0, /* PROTO 4, FRAME 74 */
        0x7D, 0x94, 0x28,                                             /* EMPTY_DICT MEMOIZE MARK */
        0x8C, 1,    'a',  0x94, 0x5D, 0x94, 0x28,                     /* "a", EMPTY_LIST MEMOIZE MARK */
        0x4B, 0,    0x4B, 255,  0x4D, 0,    1,    0x4A, 0,   0,    1,
        0, /* BININT1 BININT1 BININT2 BININT */
        0x4A, 255,  255,  255,  255,  0x8A, 5,    0,    0,   0,    128,
        0,                                                               /* BININT -1, LONG1 */
        0x8A, 6,    0,    0,    0,    0,    0,    0x7F,                  /* LONG1, 6 bytes */
        0x8A, 9,    255,  255,  255,  255,  255,  255,  255, 255,  0,    /* LONG1, 9 bytes */
        0x8A, 6,    0,    0,    0,    0,    0,    255,                   /* LONG1, negative */
        0x65, 0x8C, 1,    'b',  0x94, 0x4B, 1,    0x4B, 2,   0x86, 0x94, /* APPENDS "b" 1 2 TUPLE2 MEMOIZE */
        0x75, 0x2E};                                                     /* SETITEMS STOP */
    uint8_t bytes[200];
    asim_out_file *file;
    asim_pickle_out out;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_out_file_open(target, asim_hostmem_libc(), &file, &err), ASIM_OK, "%s", err.message);
    asim_pickle_out_init(&out, file, asim_hostmem_libc());
    asim_pickle_out_dict(&out);
    asim_pickle_batch dict = asim_pickle_batch_of(2, false), list = asim_pickle_batch_of(9, true);
    asim_pickle_out_before(&out, &dict);
    asim_pickle_out_text(&out, "a", 1);
    asim_pickle_out_list(&out);
    const uint64_t numbers[] = {0, 255, 256, 65536};
    for (size_t i = 0; i < 9; i++) {
        asim_pickle_out_before(&out, &list);
        if (i < 4)
            asim_pickle_out_unsigned(&out, numbers[i]);
        else if (i == 4)
            asim_pickle_out_signed(&out, -1);
        else if (i < 8)
            asim_pickle_out_unsigned(&out, i == 5   ? UINT64_C(1) << 31
                                           : i == 6 ? UINT64_C(0x7F0000000000)
                                                    : UINT64_MAX);
        else
            asim_pickle_out_signed(&out, -(INT64_C(1) << 40));
        asim_pickle_out_after(&out, &list);
    }
    asim_pickle_out_after(&out, &dict);
    asim_pickle_out_before(&out, &dict);
    asim_pickle_out_text(&out, "b", 1);
    asim_pickle_out_pair(&out, 1, 2);
    asim_pickle_out_after(&out, &dict);
    cr_assert_eq(asim_pickle_out_finish(&out, &err), ASIM_OK);
    asim_pickle_out_fini(&out);
    cr_assert_eq(access(target, F_OK), -1, "the name appears before the file is whole");
    cr_assert_eq(asim_out_file_commit(file, &err), ASIM_OK);
    asim_out_file_close(file);
    size_t length = read_target(bytes, sizeof bytes);
    cr_assert_eq(length, sizeof expected, "%zu bytes", length);
    for (size_t i = 0; i < length; i++)
        cr_assert_eq(bytes[i], expected[i], "byte %zu is 0x%02x instead of 0x%02x", i, bytes[i], expected[i]);
}

/* --- snapshots --- */

static const asim_string strings[] = {{"f", 1}, {"file.py", 7}, {"", 0}};
static const asim_frame frames[] = {{0, 1, 12}, {2, 1, 13}};
static const uint32_t stack_frames[] = {0, 1, 0};
static const asim_stack stacks[] = {{0, 2}, {2, 1}, {0, 0}};
static const asim_trace trace = {.strings = strings,
                                 .string_count = 3,
                                 .frames = frames,
                                 .frame_count = 2,
                                 .stack_frames = stack_frames,
                                 .stack_frame_count = 3,
                                 .stack_table = stacks,
                                 .stack_count = 3};
static const asim_torch_out_block blocks[] = {{512, 100, 0, ASIM_BLOCK_LIVE},
                                              {(2 << 20) - 512, 0, ASIM_NO_INDEX, ASIM_BLOCK_FREE},
                                              {20 << 20, 3 << 20, 1, ASIM_BLOCK_PENDING}};
static const asim_torch_out_segment segments[] = {
    {.address = 0x700000000000, .block_count = 2, .stack = ASIM_NO_INDEX, .small = true},
    {.address = 0x710000000000, .stream = 9, .first_block = 2, .block_count = 1, .pool = {3, 5}, .stack = 1}};
static const asim_torch_out_annotation annotations[] = {{1000, 0, 0, ASIM_MARK_BEGIN},
                                                        {2000, 0, 0, ASIM_MARK_END}};

static void entry(void *ctx, uint64_t number, asim_torch_out_entry *ret_entry)
{
    (void)ctx;
    *ret_entry = (asim_torch_out_entry){.address = 0x700000000000 + 512 * (number % 2),
                                        .size = 100,
                                        .time_us = 1000 + number,
                                        .stack = number % 4 < 2 ? 0 : ASIM_NO_INDEX,
                                        .device = 0};
    /* 512 bytes at the second place come and go; what is at the first was there before. */
    ret_entry->address = 0x700000000000 + 512;
    static const uint8_t actions[] = {ASIM_TORCH_OUT_ALLOC, ASIM_TORCH_OUT_FREE_REQUESTED,
                                      ASIM_TORCH_OUT_FREE_COMPLETED};
    ret_entry->action = actions[number % 3];
}

static asim_torch_out snapshot(unsigned release)
{
    static const asim_torch_out_settings settings = {.conf = "max_split_size_mb:64",
                                                     .max_split_size = 64 << 20};
    return (asim_torch_out){.release = release,
                            .trace = &trace,
                            .segments = segments,
                            .segment_count = 2,
                            .blocks = blocks,
                            .device_count = 1,
                            .entry_count = 3003, /* four batches, the last of three */
                            .entry = entry,
                            .timed = true,
                            .annotations = annotations,
                            .annotation_count = 2,
                            .settings = &settings};
}

static asim_trace *import(void)
{
    asim_err err = ASIM_ERR_INIT;
    asim_file_input *file;
    asim_trace_builder *builder;
    asim_trace *imported = NULL;
    cr_assert_eq(asim_file_input_open(target, asim_hostmem_libc(), &file, &err), ASIM_OK, "%s", err.message);
    cr_assert_eq(asim_trace_builder_new(asim_hostmem_libc(), &builder, &err), ASIM_OK);
    asim_input input = asim_file_input_stream(file);
    asim_sink sink = asim_trace_builder_sink(builder);
    cr_assert_eq(asim_importer_torch_snapshot.import(&input, &sink, asim_hostmem_libc(), &err), ASIM_OK, "%s",
                 err.message);
    cr_assert_eq(asim_trace_builder_finish(builder, &imported, &err), ASIM_OK, "%s", err.message);
    asim_file_input_close(file);
    return imported;
}

static size_t count_of(const uint8_t *bytes, size_t length, const char *text)
{
    size_t count = 0;
    for (const uint8_t *at = bytes; (at = memmem(at, length - (size_t)(at - bytes), text, strlen(text)));
         at++)
        count++;
    return count;
}

/* 20.3 and 21: which release writes which keys; a key is written once and fetched afterwards (R161). */
Test(torch_write, keys_of_releases)
{
    static const struct {
        const char *key;
        unsigned from;
    } keys[] = {{"total_size", 113},
                {"requested_size", 200},
                {"device_traces", 200},
                {"segment_pool_id", 201},
                {"address", 113},
                {"time_us", 202},
                {"allocator_settings", 204},
                {"external_annotations", 205},
                {"compile_context", 209},
                {"user_metadata", 210},
                {"\x8C\x07pool_id", 212}};
    static const unsigned releases[] = {113, 200, 201, 202, 204, 205, 206, 209, 210, 212, 299};
    static uint8_t bytes[1 << 20];
    for (size_t r = 0; r < sizeof releases / sizeof *releases; r++) {
        asim_err err = ASIM_ERR_INIT;
        asim_torch_out out = snapshot(releases[r]);
        cr_assert_eq(asim_torch_write(target, &out, asim_hostmem_libc(), &err), ASIM_OK, "%s", err.message);
        size_t length = read_target(bytes, sizeof bytes);
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            cr_assert_eq(count_of(bytes, length, keys[k].key), keys[k].from <= releases[r],
                         "release %u and the key %s", releases[r], keys[k].key);
    }
    cr_assert_eq(asim_torch_release("2.6"), 206);
    cr_assert_eq(asim_torch_release("1.13.1"), 113);
    cr_assert_eq(asim_torch_release("2.13"), 213);
    cr_assert_eq(asim_torch_release(""), ASIM_TORCH_NEWEST);
    cr_assert_eq(asim_torch_release("2.6x"), ASIM_TORCH_NEWEST);
    cr_assert_eq(asim_torch_release("9.1"), ASIM_TORCH_NEWEST);
}

Test(torch_write, reads_back)
{
    static const unsigned releases[] = {201, 206, 209, 212, 299};
    for (size_t r = 0; r < sizeof releases / sizeof *releases; r++) {
        asim_err err = ASIM_ERR_INIT;
        uint64_t first, second;
        asim_torch_out out = snapshot(releases[r]);
        cr_assert_eq(asim_torch_write(target, &out, asim_hostmem_libc(), &err), ASIM_OK, "%s", err.message);
        asim_trace *back = import();
        cr_assert_eq(back->opening_segment_count, 2);
        cr_assert_eq(back->opening_segments[1].address, 0x710000000000);
        cr_assert_eq(back->opening_blocks[0].requested, 100);
        cr_assert_eq(back->opening_blocks[2].state, ASIM_BLOCK_PENDING);
        cr_assert_eq(back->opening_blocks[2].requested, 3 << 20);
        const asim_lane *lane = &back->lanes[back->opening_segments[1].lane];
        cr_assert_eq(lane->stream, 9);
        asim_torch_noted_pool(back, lane->pool, &first, &second);
        cr_assert(first == 3 && second == 5, "the pool's id is noted");
        bool marked = releases[r] >= 205;
        cr_assert_eq(back->event_count, 2 * 1001 + (marked ? 2 : 0));
        cr_assert_eq(back->start_unix_ns, releases[r] >= 202 ? 1000000 : 0);
        if (releases[r] >= 204)
            cr_assert_str_eq(back->strings[back->settings].text, "max_split_size_mb:64");
        asim_trace_release(back);
    }
}

/* Section 26: a snapshot's keys tell the newest release that it can come from, and the import keeps it. */
Test(torch_write, keys_tell_the_release)
{
    static const struct {
        unsigned release, newest;
    } cases[] = {{201, 201},
                 {202, 202},
                 {204, 204},
                 {205, 207},
                 {206, 207},
                 {207, 207},
                 {209, 209},
                 {210, 211},
                 {211, 211},
                 {213, 213},
                 {214, ASIM_TORCH_NEWEST},
                 {ASIM_TORCH_NEWEST, ASIM_TORCH_NEWEST}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        asim_err err = ASIM_ERR_INIT;
        asim_torch_out out = snapshot(cases[i].release);
        cr_assert_eq(asim_torch_write(target, &out, asim_hostmem_libc(), &err), ASIM_OK, "%s", err.message);
        asim_trace *back = import();
        cr_assert_eq(asim_torch_noted_release(back), cases[i].newest, "%u: %u", cases[i].release,
                     asim_torch_noted_release(back));
        asim_trace_release(back);
        out.entry_count = 0; /* without history the keys of entries are not seen: nothing is said */
        cr_assert_eq(asim_torch_write(target, &out, asim_hostmem_libc(), &err), ASIM_OK, "%s", err.message);
        back = import();
        cr_assert_eq(asim_torch_noted_release(back), 0);
        asim_trace_release(back);
    }
}

Test(torch_write, host_memory_refused_at_each_request)
{
    asim_code code = ASIM_E_SYSTEM;
    uint64_t n = 0;
    asim_torch_out out = snapshot(206);
    for (; code && n < 1000; n++) {
        sample_memory memory;
        asim_err err = ASIM_ERR_INIT;
        sample_memory_init(&memory, n);
        code = asim_torch_write(target, &out, &memory.mem, &err);
        cr_assert_eq(memory.bytes, 0, "request %d: memory is not given back", (int)n);
        cr_assert_eq(files_left(), code ? 0 : 1, "request %d: a file is left", (int)n);
        cr_assert(!code || (code == ASIM_E_SYSTEM && strstr(err.message, "memory")), "%s", err.message);
    }
    cr_assert(!code && n > 5);
}

Test(torch_write, refused_by_the_system)
{
    asim_torch_out out = snapshot(206);
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_torch_write("/dev/full", &out, asim_hostmem_libc(), &err), ASIM_E_SYSTEM);
    cr_assert_str_eq(err.message, "/dev/full: can't be written: No space left on device");
    cr_assert_eq(asim_torch_write(folder, &out, asim_hostmem_libc(), &err), ASIM_E_SYSTEM);
    cr_assert(strstr(err.message, "Is a directory"), "%s", err.message);
    char missing[100];
    snprintf(missing, sizeof missing, "%s/none/out", folder);
    cr_assert_eq(asim_torch_write(missing, &out, asim_hostmem_libc(), &err), ASIM_E_SYSTEM);
    cr_assert(strstr(err.message, "No such file"), "%s", err.message);
    cr_assert_eq(asim_out_file_try(target, asim_hostmem_libc(), &err), ASIM_OK);
    cr_assert_eq(files_left(), 0);
}
