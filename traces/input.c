#include "traces/input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum {
    DISK_BUFFER = 1 << 17,
    ZSTD_WINDOW_LOG_MAX = 27,
};

typedef enum packing {
    PLAIN,
    GZIP,
    ZSTD,
} packing;

struct asim_file_input {
    const asim_hostmem *mem;
    int fd;
    packing packing;
    bool disk_ended;
    bool unit_ended; /* gzip member or zstd frame: another may follow */
    bool gzip_ready;
    uint64_t disk_read, disk_size;
    z_stream gzip;
    ZSTD_DCtx *zstd;
    size_t at, filled; /* disk bytes not taken yet */
    asim_err pending;  /* met while the head was read; reported once the head is taken */
    size_t head_at, head_filled;
    uint8_t head[ASIM_INPUT_HEAD_MAX];
    uint8_t disk[DISK_BUFFER];
};

static uint64_t position(const asim_file_input *f)
{
    return f->disk_read - (f->filled - f->at);
}

static asim_code read_bytes(asim_file_input *f, uint8_t *out, size_t room, size_t *ret_length, asim_err *err)
{
    ssize_t length;
    do {
        length = read(f->fd, out, room);
    } while (length < 0 && errno == EINTR);
    if (length < 0)
        return asim_fail_at(err, ASIM_E_SYSTEM, f->disk_read, "can't be read at byte %" PRIu64 ": %s",
                            f->disk_read, strerror(errno));
    *ret_length = (size_t)length;
    f->disk_read += (uint64_t)length;
    f->disk_ended = length == 0;
    return ASIM_OK;
}

static asim_code read_disk(asim_file_input *f, asim_err *err)
{
    f->at = f->filled = 0;
    return read_bytes(f, f->disk, sizeof f->disk, &f->filled, err);
}

static asim_code damaged(const asim_file_input *f, const char *what, const char *why, asim_err *err)
{
    return asim_fail_at(err, ASIM_E_INPUT, position(f), "damaged %s data near byte %" PRIu64 ": %s", what,
                        position(f), why);
}

static asim_code cut(const asim_file_input *f, const char *what, asim_err *err)
{
    return asim_fail_at(err, ASIM_E_INPUT, position(f),
                        "truncated: the %s data ends at byte %" PRIu64 " before it is complete", what,
                        position(f));
}

static asim_code read_plain(asim_file_input *f, uint8_t *out, size_t room, size_t *ret_length)
{
    size_t length = f->filled - f->at < room ? f->filled - f->at : room;
    memcpy(out, f->disk + f->at, length);
    f->at += length;
    *ret_length = length;
    return ASIM_OK;
}

static asim_code read_gzip(asim_file_input *f, uint8_t *out, size_t room, size_t *ret_length, asim_err *err)
{
    if (f->unit_ended) {
        inflateReset(&f->gzip);
        f->unit_ended = false;
    }
    f->gzip.next_in = f->disk + f->at;
    f->gzip.avail_in = (uInt)(f->filled - f->at);
    f->gzip.next_out = out;
    f->gzip.avail_out = (uInt)(room < (1u << 30) ? room : 1u << 30);
    uInt given = f->gzip.avail_out;
    int result = inflate(&f->gzip, Z_NO_FLUSH);
    f->at = f->filled - f->gzip.avail_in;
    *ret_length = given - f->gzip.avail_out;
    if (result == Z_STREAM_END)
        f->unit_ended = true;
    else if (result == Z_MEM_ERROR)
        return asim_fail_memory(err, 1 << 15);
    else if (result != Z_OK && result != Z_BUF_ERROR)
        return damaged(f, "gzip", f->gzip.msg ? f->gzip.msg : "no reason given", err);
    return ASIM_OK;
}

static asim_code read_zstd(asim_file_input *f, uint8_t *out, size_t room, size_t *ret_length, asim_err *err)
{
    ZSTD_inBuffer in = {f->disk, f->filled, f->at};
    ZSTD_outBuffer to = {out, room, 0};
    size_t result = ZSTD_decompressStream(f->zstd, &to, &in);
    f->at = in.pos;
    *ret_length = to.pos;
    if (ZSTD_isError(result))
        return damaged(f, "zstd", ZSTD_getErrorName(result), err);
    f->unit_ended = result == 0;
    return ASIM_OK;
}

static asim_code read_unpacked(asim_file_input *f, uint8_t *out, size_t room, size_t *ret_length,
                               asim_err *err)
{
    *ret_length = 0;
    const char *name = asim_file_input_packing(f);
    if (f->packing == PLAIN && f->at == f->filled && room >= sizeof f->disk / 2 && !f->disk_ended)
        return read_bytes(f, out, room, ret_length, err); /* straight to where it is wanted */
    while (room) {
        /* A decompressor may hold output although the disk buffer is empty, so it is asked before the end. */
        if (f->at == f->filled && !f->disk_ended) {
            asim_code code = read_disk(f, err);
            if (code)
                return code;
        }
        if (f->at == f->filled && (f->packing == PLAIN || f->unit_ended))
            return ASIM_OK;
        if (f->packing == GZIP && f->unit_ended && f->disk[f->at] != 0x1F) {
            f->at = f->filled; /* padding after the last member, as gzip itself ignores it */
            f->disk_ended = true;
            return ASIM_OK;
        }
        size_t before = f->at;
        asim_code code = f->packing == PLAIN  ? read_plain(f, out, room, ret_length)
                         : f->packing == GZIP ? read_gzip(f, out, room, ret_length, err)
                                              : read_zstd(f, out, room, ret_length, err);
        if (code || *ret_length)
            return code;
        if (f->at == before && f->at == f->filled && f->disk_ended && !f->unit_ended)
            return cut(f, name, err);
    }
    return ASIM_OK;
}

static asim_code stream_read(void *ctx, void *buffer, size_t capacity, size_t *ret_length, asim_err *err)
{
    asim_file_input *f = ctx;
    if (f->head_at < f->head_filled) {
        size_t length = f->head_filled - f->head_at;
        if (length > capacity)
            length = capacity;
        memcpy(buffer, f->head + f->head_at, length);
        f->head_at += length;
        *ret_length = length;
        return ASIM_OK;
    }
    if (f->pending.code) {
        if (err)
            *err = f->pending;
        return f->pending.code;
    }
    return read_unpacked(f, buffer, capacity, ret_length, err);
}

/* The whole head is read when the file is opened: so an empty file is noticed, and head can't fail. */
static asim_code start(asim_file_input *f, asim_err *caller_err)
{
    asim_err own = ASIM_ERR_INIT, *err = caller_err ? caller_err : &own;
    asim_code code = read_disk(f, err);
    if (code)
        return code;
    if (f->filled == 0)
        return asim_fail_at(err, ASIM_E_INPUT, 0, "the file is empty");
    while (f->filled < 4 && !f->disk_ended) { /* a pipe may give less than the magic number */
        ssize_t length = read(f->fd, f->disk + f->filled, sizeof f->disk - f->filled);
        if (length <= 0)
            break;
        f->filled += (size_t)length;
        f->disk_read += (uint64_t)length;
    }
    if (f->filled >= 3 && f->disk[0] == 0x1F && f->disk[1] == 0x8B && f->disk[2] == 8) {
        f->packing = GZIP;
        if (inflateInit2(&f->gzip, 15 + 16) != Z_OK)
            return asim_fail_memory(err, 1 << 15);
        f->gzip_ready = true;
    } else if (f->filled >= 4 && f->disk[0] == 0x28 && f->disk[1] == 0xB5 && f->disk[2] == 0x2F &&
               f->disk[3] == 0xFD) {
        f->packing = ZSTD;
        f->zstd = ZSTD_createDCtx();
        if (!f->zstd ||
            ZSTD_isError(ZSTD_DCtx_setParameter(f->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX)))
            return asim_fail_memory(err, 1 << 17);
    }
    while (f->head_filled < sizeof f->head) {
        size_t length = 0;
        code = read_unpacked(f, f->head + f->head_filled, sizeof f->head - f->head_filled, &length, err);
        if (code && f->head_filled == 0)
            return code;
        if (code)
            f->pending = *err;
        if (code || length == 0)
            break;
        f->head_filled += length;
    }
    if (f->head_filled == 0)
        return asim_fail_at(err, ASIM_E_INPUT, 0, "the file is empty once unpacked");
    return ASIM_OK;
}

asim_code asim_file_input_open(const char *path, const asim_hostmem *mem, asim_file_input **ret_file,
                               asim_err *err)
{
    int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return asim_fail(err, errno == ENOENT || errno == ENOTDIR ? ASIM_E_INPUT : ASIM_E_SYSTEM,
                         "can't be opened: %s", strerror(errno));
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
        close(fd);
        return asim_fail(err, ASIM_E_INPUT, "is a directory: name a file");
    }
    asim_file_input *f = asim_mem_new(mem, 1, sizeof *f);
    if (!f) {
        close(fd);
        return asim_fail_memory(err, sizeof *f);
    }
    f->mem = mem;
    f->fd = fd;
    f->disk_size = S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
    asim_code code = start(f, err);
    if (code) {
        asim_file_input_close(f);
        return code;
    }
    *ret_file = f;
    return ASIM_OK;
}

void asim_file_input_close(asim_file_input *f)
{
    if (!f)
        return;
    if (f->gzip_ready)
        inflateEnd(&f->gzip);
    ZSTD_freeDCtx(f->zstd);
    close(f->fd);
    asim_mem_free(f->mem, f, 1, sizeof *f);
}

asim_input asim_file_input_stream(asim_file_input *f)
{
    return (asim_input){stream_read, f};
}

asim_code asim_file_input_head(asim_file_input *f, const uint8_t **ret_head, size_t *ret_length,
                               asim_err *err)
{
    if (f->head_at)
        return asim_fail(err, ASIM_E_BUG, "the head of an input is asked for after reading began");
    *ret_head = f->head;
    *ret_length = f->head_filled;
    return ASIM_OK;
}

const char *asim_file_input_packing(const asim_file_input *f)
{
    return f->packing == GZIP ? "gzip" : f->packing == ZSTD ? "zstd" : "plain";
}

void asim_file_input_progress(const asim_file_input *f, uint64_t *ret_done, uint64_t *ret_total)
{
    *ret_done = position(f);
    *ret_total = f->disk_size;
}
