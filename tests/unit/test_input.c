/* The byte stream of a file: packings by content, clear errors, bounded memory. */
#include "traces/input.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

static char folder[] = "/tmp/asim-test-input-XXXXXX";
static char path[200];

static void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
}

static void remove_folder(void)
{
    unlink(path);
    rmdir(folder);
}

TestSuite(input, .init = make_folder, .fini = remove_folder);

static void write_file(const void *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(bytes, 1, length, file), length);
    cr_assert_eq(fclose(file), 0);
}

static uint8_t *gzipped(const void *bytes, size_t length, size_t *ret_length)
{
    z_stream z = {0};
    size_t room = length + 1000;
    uint8_t *out = malloc(room);
    cr_assert_eq(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)length;
    z.next_out = out;
    z.avail_out = (uInt)room;
    cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    *ret_length = z.total_out;
    deflateEnd(&z);
    return out;
}

static uint8_t *zstd_packed(const void *bytes, size_t length, size_t *ret_length)
{
    size_t room = ZSTD_compressBound(length);
    uint8_t *out = malloc(room);
    ZSTD_CCtx *ctx = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(ctx, ZSTD_c_checksumFlag, 1);
    *ret_length = ZSTD_compress2(ctx, out, room, bytes, length);
    cr_assert_not(ZSTD_isError(*ret_length));
    ZSTD_freeCCtx(ctx);
    return out;
}

/* Reads everything in pieces; the number of bytes, or the error's message in err. */
static asim_code read_all(uint8_t *out, size_t room, size_t piece, size_t *ret_total, asim_err *err)
{
    asim_file_input *file;
    asim_code code = asim_file_input_open(path, asim_hostmem_libc(), &file, err);
    if (code)
        return code;
    asim_input input = asim_file_input_stream(file);
    size_t total = 0;
    for (;;) {
        uint8_t buffer[5000];
        size_t length = 0;
        code = input.read(input.ctx, buffer, piece, &length, err);
        if (code || length == 0)
            break;
        cr_assert_leq(total + length, room);
        memcpy(out + total, buffer, length);
        total += length;
    }
    *ret_total = total;
    asim_file_input_close(file);
    return code;
}

static uint8_t *noise(size_t length)
{
    uint8_t *bytes = malloc(length);
    uint32_t state = 12345;
    for (size_t i = 0; i < length; i++) {
        state = state * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(state >> 24) & 0x3F;
    }
    return bytes;
}

Test(input, packings_are_known_by_content)
{
    enum {
        LENGTH = 300000
    };
    uint8_t *bytes = noise(LENGTH), *out = malloc(2 * LENGTH);
    asim_err err = ASIM_ERR_INIT;
    for (int packing = 0; packing < 3; packing++) {
        size_t length = LENGTH, total = 0;
        uint8_t *packed = packing == 0   ? bytes
                          : packing == 1 ? gzipped(bytes, LENGTH, &length)
                                         : zstd_packed(bytes, LENGTH, &length);
        static const char *const names[] = {"plain", "gzip", "zstd"};
        write_file(packed, length);
        for (size_t piece = 1; piece <= 5000; piece += 4999) {
            cr_assert_eq(read_all(out, 2 * LENGTH, piece, &total, &err), ASIM_OK, "%s", err.message);
            cr_assert_eq(total, LENGTH);
            cr_assert_eq(memcmp(out, bytes, LENGTH), 0);
        }
        asim_file_input *file;
        const uint8_t *head;
        uint64_t done, whole;
        cr_assert_eq(asim_file_input_open(path, asim_hostmem_libc(), &file, &err), ASIM_OK);
        cr_assert_str_eq(asim_file_input_packing(file), names[packing]);
        cr_assert_eq(asim_file_input_head(file, &head, &total, &err), ASIM_OK);
        cr_assert_eq(total, ASIM_INPUT_HEAD_MAX);
        cr_assert_eq(memcmp(head, bytes, total), 0);
        asim_file_input_progress(file, &done, &whole);
        cr_assert_eq(whole, length);
        cr_assert_leq(done, length);
        asim_file_input_close(file);
        if (packing) { /* two of them, one after the other, are one stream */
            uint8_t *twice = malloc(2 * length);
            memcpy(twice, packed, length);
            memcpy(twice + length, packed, length);
            write_file(twice, 2 * length);
            cr_assert_eq(read_all(out, 2 * LENGTH, 5000, &total, &err), ASIM_OK, "%s", err.message);
            cr_assert_eq(total, 2 * LENGTH);
            free(twice);
            /* Cut at any place: everything before it, then an error that says so. */
            for (size_t cut = 5; cut < length; cut += cut < 40 || cut + 40 > length ? 1 : 9973) {
                write_file(packed, cut);
                cr_expect_eq(read_all(out, 2 * LENGTH, 5000, &total, &err), ASIM_E_INPUT, "cut at %zu", cut);
                cr_expect(strstr(err.message, "truncated: the "), "cut at %zu: %s", cut, err.message);
                cr_expect_eq(err.position, cut);
            }
            /* A flipped byte is noticed, by the checksum at the latest. */
            packed[length / 2] ^= 0x10;
            write_file(packed, length);
            cr_expect_eq(read_all(out, 2 * LENGTH, 5000, &total, &err), ASIM_E_INPUT);
            cr_expect(strstr(err.message, "damaged "), "%s", err.message);
            free(packed);
        }
    }
    free(bytes);
    free(out);
}

Test(input, what_is_no_file)
{
    asim_err err = ASIM_ERR_INIT;
    size_t total;
    cr_expect_eq(read_all(NULL, 0, 1, &total, &err), ASIM_E_INPUT);
    cr_expect_str_eq(err.message, "can't be opened: No such file or directory");
    write_file("", 0);
    cr_expect_eq(read_all(NULL, 0, 1, &total, &err), ASIM_E_INPUT);
    cr_expect_str_eq(err.message, "the file is empty");
    uint8_t *packed = gzipped("", 0, &total);
    write_file(packed, total);
    free(packed);
    cr_expect_eq(read_all(NULL, 0, 1, &total, &err), ASIM_E_INPUT);
    cr_expect_str_eq(err.message, "the file is empty once unpacked");
    chmod(path, 0);
    if (geteuid() != 0) { /* root may read everything */
        cr_expect_eq(read_all(NULL, 0, 1, &total, &err), ASIM_E_SYSTEM);
        cr_expect_str_eq(err.message, "can't be opened: Permission denied");
    }
    unlink(path);
    mkdir(path, 0700);
    cr_expect_eq(read_all(NULL, 0, 1, &total, &err), ASIM_E_INPUT);
    cr_expect_str_eq(err.message, "is a directory: name a file");
    rmdir(path);
}

/* 1 GiB of zeros in a few tens of KiB: only the buffer counts, which read_all's own pieces show. */
Test(input, a_bomb_is_only_a_long_stream)
{
    enum {
        UNIT = 1 << 24
    };
    uint8_t *zeros = calloc(UNIT, 1);
    size_t length;
    uint8_t *packed = zstd_packed(zeros, UNIT, &length);
    FILE *file = fopen(path, "wb");
    for (int i = 0; i < 64; i++)
        fwrite(packed, 1, length, file);
    fclose(file);
    asim_file_input *input;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_file_input_open(path, asim_hostmem_libc(), &input, &err), ASIM_OK);
    asim_input stream = asim_file_input_stream(input);
    uint64_t total = 0;
    for (;;) {
        size_t got;
        cr_assert_eq(stream.read(stream.ctx, zeros, 1 << 20, &got, &err), ASIM_OK);
        if (!got)
            break;
        total += got;
    }
    cr_assert_eq(total, (uint64_t)64 * UNIT);
    asim_file_input_close(input);
    free(packed);
    free(zeros);
}
