/* The native format's writer: a sink that keeps one frame of events, the tables, and an index of frames. */
#include "traces/body.h"
#include "traces/check.h"
#include "traces/digest.h"
#include "traces/event_code.h"
#include "traces/kinds.h"
#include "traces/native.h"
#include "traces/table_code.h"
#include "traces/zframe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LEVEL_EVENTS = 3, /* of zstd: the bulk, where speed counts */
    LEVEL_TABLES = 12,
};

struct asim_trace_writer {
    const asim_hostmem *mem;
    char *path, *temporary;
    size_t path_size, temporary_size;
    int fd;
    uint64_t offset; /* in the file */
    asim_body *body; /* tables; opening state until the first event; events and calls not written yet */
    asim_table_mark mark;
    asim_checker checker;
    asim_digest digest;
    asim_event_coder *coder;
    asim_packer *packer;
    asim_buf content, frame, columns[ASIM_SECTIONS_MAX];
    asim_frame_entry *entries;
    size_t entry_count, entry_capacity;
    uint64_t events_written;
    asim_header header; /* counts so far */
    bool opening_done;
    asim_err failure; /* the first one: the file can't be completed */
};

static asim_code keep(asim_trace_writer *writer, asim_code code, asim_err *err)
{
    if (code && !writer->failure.code) {
        if (err)
            writer->failure = *err;
        else
            asim_fail(&writer->failure, code, "an earlier call on the trace writer failed");
    }
    return code;
}

static asim_code fail_system(const asim_trace_writer *writer, const char *what, asim_err *err)
{
    return asim_fail(err, ASIM_E_SYSTEM, "%s: %s: %s", writer->path, what, strerror(errno));
}

static asim_code write_all(asim_trace_writer *writer, const uint8_t *bytes, size_t length, uint64_t offset,
                           asim_err *err)
{
    for (size_t done = 0; done < length;) {
        ssize_t step = pwrite(writer->fd, bytes + done, length - done, (off_t)(offset + done));
        if (step < 0 && errno == EINTR)
            continue;
        if (step <= 0)
            return fail_system(writer, "cannot write the trace", err);
        done += (size_t)step;
    }
    return ASIM_OK;
}

/* Starts the content of a frame. */
static asim_code begin_frame(asim_trace_writer *writer, uint8_t type, asim_err *err)
{
    asim_buf_reset(&writer->content);
    return asim_buf_u8(&writer->content, type, err);
}

static asim_code end_frame(asim_trace_writer *writer, uint8_t type, uint64_t first, uint32_t count,
                           asim_err *err)
{
    if (type != ASIM_FRAME_INDEX && writer->content.length > ASIM_FRAME_CONTENT)
        return asim_fail(err, ASIM_E_BUG, "a frame of the trace grew to %zu bytes", writer->content.length);
    int level = type == ASIM_FRAME_EVENTS_TYPE ? LEVEL_EVENTS : LEVEL_TABLES;
    asim_code code = asim_mem_grow(writer->mem, (void **)&writer->entries, &writer->entry_capacity,
                                   writer->entry_count + 1, sizeof *writer->entries, err);
    if (!code)
        code = asim_pack(writer->packer, level, &writer->content, &writer->frame, err);
    if (!code)
        code = write_all(writer, writer->frame.bytes, writer->frame.length, writer->offset, err);
    if (code)
        return code;
    writer->entries[writer->entry_count++] = (asim_frame_entry){.offset = writer->offset,
                                                                .length = writer->frame.length,
                                                                .content = writer->content.length,
                                                                .first = first,
                                                                .count = count,
                                                                .type = type};
    writer->offset += writer->frame.length;
    return ASIM_OK;
}

static asim_code flush_tables(asim_trace_writer *writer, bool last, asim_err *err)
{
    asim_code code = ASIM_OK;
    while (!code && asim_tables_pending(&writer->body->tables, &writer->mark, last)) {
        code = begin_frame(writer, ASIM_FRAME_TABLES, err);
        if (!code)
            code = asim_encode_tables(&writer->body->tables, &writer->mark, last, writer->columns,
                                      &writer->content, err);
        if (!code)
            code = end_frame(writer, ASIM_FRAME_TABLES, 0, 0, err);
    }
    return code;
}

static asim_code flush_calls(asim_trace_writer *writer, asim_err *err)
{
    asim_body *body = writer->body;
    if (body->call_count == 0)
        return ASIM_OK;
    for (size_t i = 0; i < body->call_count; i++)
        asim_digest_call(&writer->digest, &body->calls[i]);
    asim_code code = flush_tables(writer, false, err);
    if (!code)
        code = begin_frame(writer, ASIM_FRAME_CALLS, err);
    if (!code)
        code = asim_encode_calls(body->calls, body->call_count, writer->columns, &writer->content, err);
    if (!code)
        code = end_frame(writer, ASIM_FRAME_CALLS, body->calls[0].event, (uint32_t)body->call_count, err);
    body->call_count = 0;
    return code;
}

static asim_code flush_events(asim_trace_writer *writer, asim_err *err)
{
    asim_body *body = writer->body;
    if (body->event_count == 0)
        return ASIM_OK;
    asim_event_batch batch = {.events = body->events,
                              .times = body->times,
                              .addresses = body->addresses,
                              .stacks = body->stacks,
                              .count = body->event_count};
    asim_digest_events(&writer->digest, batch.events, batch.times, batch.addresses, batch.stacks,
                       batch.count);
    asim_code code = flush_tables(writer, false, err);
    if (!code)
        code = begin_frame(writer, ASIM_FRAME_EVENTS_TYPE, err);
    if (!code)
        code = asim_encode_events(writer->coder, writer->events_written, &batch, &writer->content, err);
    if (!code)
        code = end_frame(writer, ASIM_FRAME_EVENTS_TYPE, writer->events_written, (uint32_t)batch.count, err);
    writer->events_written += batch.count;
    body->event_count = 0;
    return code;
}

static asim_code write_segments(asim_trace_writer *writer, asim_err *err)
{
    asim_body *body = writer->body;
    asim_code code = ASIM_OK;
    for (size_t i = 0; !code && i < body->segment_count; i += ASIM_FRAME_ITEMS) {
        size_t count =
            body->segment_count - i < ASIM_FRAME_ITEMS ? body->segment_count - i : ASIM_FRAME_ITEMS;
        for (size_t k = i; k < i + count; k++)
            asim_digest_segment(&writer->digest, &body->segments[k]);
        code = begin_frame(writer, ASIM_FRAME_SEGMENTS, err);
        if (!code)
            code = asim_encode_segments(body->segments + i, count, writer->columns, &writer->content, err);
        if (!code)
            code = end_frame(writer, ASIM_FRAME_SEGMENTS, 0, (uint32_t)count, err);
    }
    return code;
}

static asim_code write_blocks(asim_trace_writer *writer, asim_err *err)
{
    asim_body *body = writer->body;
    asim_code code = ASIM_OK;
    for (size_t i = 0; !code && i < body->block_count; i += ASIM_FRAME_ITEMS) {
        size_t count = body->block_count - i < ASIM_FRAME_ITEMS ? body->block_count - i : ASIM_FRAME_ITEMS;
        for (size_t k = i; k < i + count; k++)
            asim_digest_block(&writer->digest, &body->blocks[k]);
        code = begin_frame(writer, ASIM_FRAME_BLOCKS, err);
        if (!code)
            code = asim_encode_blocks(body->blocks + i, count, writer->columns, &writer->content, err);
        if (!code)
            code = end_frame(writer, ASIM_FRAME_BLOCKS, 0, (uint32_t)count, err);
    }
    return code;
}

static asim_code end_opening(asim_trace_writer *writer, asim_err *err)
{
    if (writer->opening_done)
        return ASIM_OK;
    writer->opening_done = true;
    asim_body *body = writer->body;
    asim_body_view(body);
    asim_code code = asim_checker_opening(&writer->checker, &body->trace, err);
    if (!code)
        code = flush_tables(writer, false, err);
    if (!code)
        code = write_segments(writer, err);
    if (!code)
        code = write_blocks(writer, err);
    writer->header.segment_count = (uint32_t)body->segment_count;
    writer->header.block_count = (uint32_t)body->block_count;
    return code;
}

/* After any addition to a table: what the rules look at has moved or grown. */
static asim_code added(asim_trace_writer *writer, asim_code code, asim_err *err)
{
    asim_tables_view(&writer->body->tables, &writer->body->trace);
    return keep(writer, code, err);
}

static asim_code write_string(void *ctx, const char *text, size_t length, uint32_t *ret_index, asim_err *err)
{
    asim_trace_writer *writer = ctx;
    return added(writer, asim_tables_string(&writer->body->tables, text, length, ret_index, err), err);
}

static asim_code write_stack(void *ctx, const asim_frame *frames, size_t count, uint32_t *ret_index,
                             asim_err *err)
{
    asim_trace_writer *writer = ctx;
    return added(writer, asim_tables_stack(&writer->body->tables, frames, count, ret_index, err), err);
}

static asim_code write_device(void *ctx, const asim_trace_device *device, uint32_t *ret_index, asim_err *err)
{
    asim_trace_writer *writer = ctx;
    return added(writer, asim_tables_device(&writer->body->tables, device, ret_index, err), err);
}

static asim_code write_lane(void *ctx, const asim_lane *lane, uint32_t *ret_index, asim_err *err)
{
    asim_trace_writer *writer = ctx;
    return added(writer, asim_tables_lane(&writer->body->tables, lane, ret_index, err), err);
}

static asim_code write_opening(void *ctx, const asim_opening_segment *segment,
                               const asim_opening_block *blocks, size_t block_count, asim_err *err)
{
    asim_trace_writer *writer = ctx;
    asim_body *body = writer->body;
    if (writer->opening_done)
        return keep(writer, asim_fail(err, ASIM_E_INPUT, "opening state after the first event"), err);
    asim_opening_segment own = *segment;
    own.first_block = (uint32_t)body->block_count;
    own.block_count = (uint32_t)block_count;
    asim_code code = asim_body_segment(body, &own, err);
    for (size_t i = 0; !code && i < block_count; i++)
        code = asim_body_block(body, &blocks[i], err);
    return keep(writer, code, err);
}

static asim_code write_event(void *ctx, const asim_sink_event *event, asim_err *err)
{
    asim_trace_writer *writer = ctx;
    asim_body *body = writer->body;
    asim_code code = writer->opening_done ? ASIM_OK : end_opening(writer, err);
    if (!code)
        code = asim_checker_events(&writer->checker, &body->trace, &event->event, &event->time_ns,
                                   &event->recorded_address, &event->stack, 1, err);
    if (!code && body->event_count == ASIM_FRAME_EVENTS)
        code = flush_events(writer, err);
    if (code)
        return keep(writer, code, err);
    unsigned minor = asim_event_minor(&event->event);
    if (minor > writer->header.minor)
        writer->header.minor = (uint16_t)minor;
    size_t i = body->event_count++;
    body->events[i] = event->event;
    body->times[i] = event->time_ns;
    body->addresses[i] = event->recorded_address;
    body->stacks[i] = event->stack;
    return ASIM_OK;
}

static asim_code write_call(void *ctx, const asim_recorded_call *call, asim_err *err)
{
    asim_trace_writer *writer = ctx;
    asim_body *body = writer->body;
    asim_recorded_call own = *call;
    own.event = writer->events_written + body->event_count;
    asim_code code = asim_check_call(&body->trace, NULL, &own, own.event, err);
    if (!code && ++writer->header.call_count == ASIM_NO_INDEX)
        code = asim_fail(err, ASIM_E_INPUT, "a trace holds at most 2^32 recorded calls");
    if (!code)
        code = end_opening(writer, err);
    if (!code && body->call_count == ASIM_FRAME_ITEMS)
        code = flush_calls(writer, err);
    return keep(writer, code ? code : asim_body_call(body, &own, err), err);
}

static asim_code write_source(void *ctx, const char *format, asim_err *err)
{
    asim_trace_writer *writer = ctx;
    return added(writer, asim_tables_source(&writer->body->tables, format, err), err);
}

static asim_code write_settings(void *ctx, const char *text, asim_err *err)
{
    asim_trace_writer *writer = ctx;
    return added(writer, asim_tables_settings(&writer->body->tables, text, err), err);
}

static asim_code write_start(void *ctx, uint64_t unix_ns, asim_err *err)
{
    (void)err;
    asim_trace_writer *writer = ctx;
    writer->body->tables.start_unix_ns = unix_ns;
    return ASIM_OK;
}

static asim_code write_note(void *ctx, const char *text, asim_err *err)
{
    asim_trace_writer *writer = ctx;
    return added(writer, asim_tables_note(&writer->body->tables, text, err), err);
}

static const asim_sink_ops writer_ops = {
    .string = write_string,
    .stack = write_stack,
    .device = write_device,
    .lane = write_lane,
    .opening = write_opening,
    .event = write_event,
    .call = write_call,
    .source = write_source,
    .settings = write_settings,
    .start = write_start,
    .note = write_note,
};

static void writer_free(asim_trace_writer *writer)
{
    const asim_hostmem *mem = writer->mem;
    if (writer->fd >= 0) {
        close(writer->fd);
        unlink(writer->temporary);
    }
    asim_body_free(writer->body);
    asim_checker_fini(&writer->checker);
    asim_event_coder_free(writer->coder);
    asim_packer_free(writer->packer);
    asim_buf_fini(&writer->content);
    asim_buf_fini(&writer->frame);
    for (unsigned i = 0; i < ASIM_SECTIONS_MAX; i++)
        asim_buf_fini(&writer->columns[i]);
    asim_mem_free(mem, writer->entries, writer->entry_capacity, sizeof *writer->entries);
    asim_mem_free(mem, writer->path, writer->path_size, 1);
    asim_mem_free(mem, writer->temporary, writer->temporary_size, 1);
    asim_mem_free(mem, writer, 1, sizeof *writer);
}

/* A file of this name in the same folder, so that the rename at the end can't cross file systems. */
static asim_code open_temporary(asim_trace_writer *writer, asim_err *err)
{
    struct stat status;
    if (stat(writer->path, &status) == 0 && !S_ISREG(status.st_mode))
        return asim_fail(err, ASIM_E_SYSTEM, "%s: %s; name a file to write the trace to", writer->path,
                         S_ISDIR(status.st_mode) ? "is a directory" : "is not a regular file");
    for (unsigned attempt = 0; attempt < 1000; attempt++) {
        snprintf(writer->temporary, writer->temporary_size, "%s.%ld-%u.tmp", writer->path, (long)getpid(),
                 attempt);
        writer->fd = open(writer->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->fd >= 0)
            return ASIM_OK;
        if (errno != EEXIST)
            break;
    }
    return fail_system(writer, "cannot create the trace", err);
}

static asim_code writer_fill(asim_trace_writer *writer, const char *path, asim_err *err)
{
    writer->path_size = strlen(path) + 1;
    writer->path = asim_mem_new(writer->mem, writer->path_size, 1);
    writer->temporary_size = writer->path_size + 48;
    writer->temporary = asim_mem_new(writer->mem, writer->temporary_size, 1);
    if (!writer->path || !writer->temporary)
        return asim_fail_memory(err, writer->temporary_size);
    memcpy(writer->path, path, writer->path_size);
    writer->body = asim_body_new(writer->mem, err);
    writer->coder = writer->body ? asim_event_coder_new(writer->mem, ASIM_FRAME_EVENTS, err) : NULL;
    writer->packer = writer->coder ? asim_packer_new(writer->mem, err) : NULL;
    if (!writer->packer)
        return ASIM_E_SYSTEM;
    asim_code code = asim_body_reserve(writer->body, ASIM_FRAME_EVENTS, err);
    if (!code)
        code = asim_body_want_times(writer->body, err);
    if (!code)
        code = asim_body_want_addresses(writer->body, err);
    if (!code)
        code = asim_body_want_stacks(writer->body, err);
    if (!code)
        code = open_temporary(writer, err);
    uint8_t blank[ASIM_HEADER_SIZE] = {0}; /* no trace yet, if we are killed */
    if (!code)
        code = write_all(writer, blank, sizeof blank, 0, err);
    writer->offset = ASIM_HEADER_SIZE;
    return code;
}

asim_code asim_trace_writer_open(const char *path, const asim_hostmem *mem, asim_trace_writer **ret_writer,
                                 asim_err *err)
{
    asim_trace_writer *writer = asim_mem_new(mem, 1, sizeof *writer);
    if (!writer)
        return asim_fail_memory(err, sizeof *writer);
    writer->mem = mem;
    writer->fd = -1;
    asim_checker_init(&writer->checker, mem);
    asim_digest_init(&writer->digest);
    asim_buf_init(&writer->content, mem);
    asim_buf_init(&writer->frame, mem);
    for (unsigned i = 0; i < ASIM_SECTIONS_MAX; i++)
        asim_buf_init(&writer->columns[i], mem);
    asim_code code = writer_fill(writer, path, err);
    if (code) {
        writer_free(writer);
        return code;
    }
    *ret_writer = writer;
    return ASIM_OK;
}

asim_sink asim_trace_writer_sink(asim_trace_writer *writer)
{
    return (asim_sink){&writer_ops, writer};
}

static asim_code write_index(asim_trace_writer *writer, asim_err *err)
{
    writer->header.index_offset = writer->offset;
    asim_code code = begin_frame(writer, ASIM_FRAME_INDEX, err);
    if (!code)
        code =
            asim_encode_index(writer->entries, writer->entry_count, writer->columns, &writer->content, err);
    return code ? code : end_frame(writer, ASIM_FRAME_INDEX, 0, 0, err);
}

static asim_code write_header(asim_trace_writer *writer, asim_err *err)
{
    asim_header *header = &writer->header;
    const asim_digest *digest = &writer->digest;
    asim_tables_view(&writer->body->tables, &writer->body->trace);
    header->major = ASIM_FORMAT_MAJOR;
    header->flags = (digest->any_time ? ASIM_HAS_TIMES : 0U) |
                    (digest->any_address ? ASIM_HAS_ADDRESSES : 0U) |
                    (digest->any_stack ? ASIM_HAS_STACKS : 0U);
    header->event_count = writer->events_written;
    header->digest = asim_digest_finish(digest, &writer->body->trace);
    header->slot_count = writer->checker.slot_count;
    header->frame_count = writer->entry_count;
    header->file_size = writer->offset;
    uint8_t bytes[ASIM_HEADER_SIZE];
    asim_header_encode(header, bytes);
    return write_all(writer, bytes, sizeof bytes, 0, err);
}

/* The name must survive a crash too; where a folder can't be synced, the file system sees to it. */
static void sync_folder(const asim_trace_writer *writer)
{
    char *slash = strrchr(writer->temporary, '/');
    if (slash)
        slash[slash == writer->temporary] = 0;
    int folder = open(slash ? writer->temporary : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
}

static asim_code complete(asim_trace_writer *writer, asim_err *err)
{
    asim_code code = end_opening(writer, err);
    if (!code)
        code = flush_events(writer, err);
    if (!code)
        code = flush_calls(writer, err);
    if (!code)
        code = flush_tables(writer, true, err);
    if (!code)
        code = write_index(writer, err);
    if (!code)
        code = write_header(writer, err);
    if (!code && fsync(writer->fd) != 0)
        code = fail_system(writer, "cannot write the trace", err);
    if (!code && rename(writer->temporary, writer->path) != 0)
        code = fail_system(writer, "cannot rename the finished trace", err);
    if (code)
        return code;
    sync_folder(writer);
    close(writer->fd);
    writer->fd = -1;
    return ASIM_OK;
}

asim_code asim_trace_writer_close(asim_trace_writer *writer, bool abandon, asim_err *err)
{
    asim_code code = abandon ? ASIM_OK : writer->failure.code;
    if (code && err)
        *err = writer->failure;
    if (!code && !abandon)
        code = complete(writer, err);
    writer_free(writer);
    return code;
}
