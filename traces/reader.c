/* The native format's readers: a whole file, or a window of its events.
 *
 * Memory follows what has been decoded: buffers hold one frame, whose size is judged before it is read, and
 * the arrays of the trace grow frame by frame. Counts in header and index are compared, never reserved.
 */
#include "traces/body.h"
#include "traces/check.h"
#include "traces/digest.h"
#include "traces/event_code.h"
#include "traces/native.h"
#include "traces/table_code.h"
#include "traces/zframe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

typedef struct reader {
    const asim_hostmem *mem;
    int fd;
    uint64_t file_size;
    asim_header header;
    asim_frame_entry *entries; /* of all frames but the index */
    size_t entry_count, entry_capacity;
    asim_unpacker *unpacker;
    asim_event_coder *coder;
    asim_buf frame, content;
    asim_body *body;
    asim_checker checker;
    asim_digest digest;
    bool newer;        /* of a newer minor version: what is unknown is skipped */
    bool skipped;      /* and something was */
    uint64_t *dropped; /* numbers of the events that were */
    size_t dropped_count, dropped_capacity;
    uint64_t first, count; /* the window */
} reader;

static asim_code read_at(reader *r, uint64_t offset, size_t length, asim_err *err)
{
    asim_buf_reset(&r->frame);
    asim_code code = asim_buf_reserve(&r->frame, length + 1, err);
    while (!code && r->frame.length < length) {
        ssize_t step = pread(r->fd, r->frame.bytes + r->frame.length, length - r->frame.length,
                             (off_t)(offset + r->frame.length));
        if (step < 0 && errno == EINTR)
            continue;
        if (step < 0)
            return asim_fail(err, errno == EISDIR ? ASIM_E_INPUT : ASIM_E_SYSTEM, "cannot be read: %s",
                             strerror(errno));
        if (step == 0)
            return asim_fail(err, ASIM_E_INPUT, "the file has shrunk while it was read");
        r->frame.length += (size_t)step;
    }
    return code;
}

/* Puts "frame N of M (what)" in front; frame 0 is the header. */
static asim_code in_frame(const reader *r, size_t index, asim_code code, asim_err *err)
{
    static const char *const names[] = {
        ['T'] = "tables", ['S'] = "opening segments", ['B'] = "opening blocks", ['C'] = "recorded calls"};
    const asim_frame_entry *entry = &r->entries[index];
    uint64_t total = r->header.frame_count;
    if (entry->type == ASIM_FRAME_EVENTS_TYPE && entry->count)
        asim_err_context(err,
                         "frame %zu of %" PRIu64 " (events %" PRIu64 " to %" PRIu64 ", at byte %" PRIu64 ")",
                         index + 1, total, entry->first, entry->first + entry->count - 1, entry->offset);
    else
        asim_err_context(err, "frame %zu of %" PRIu64 " (%s, at byte %" PRIu64 ")", index + 1, total,
                         entry->type < sizeof names / sizeof names[0] && names[entry->type]
                             ? names[entry->type]
                             : "of unknown type",
                         entry->offset);
    return code;
}

/* A file shorter than its header says: which frame is the first that is not whole? */
static asim_code fail_cut(reader *r, asim_err *err)
{
    uint64_t offset = ASIM_HEADER_SIZE, frame = 1;
    void *map = r->file_size > offset ? mmap(NULL, (size_t)r->file_size, PROT_READ, MAP_PRIVATE, r->fd, 0)
                                      : MAP_FAILED;
    while (map != MAP_FAILED && offset < r->file_size) {
        size_t length =
            ZSTD_findFrameCompressedSize((const uint8_t *)map + offset, (size_t)(r->file_size - offset));
        if (ZSTD_isError(length))
            break;
        offset += length;
        frame++;
    }
    if (map != MAP_FAILED)
        munmap(map, (size_t)r->file_size);
    return asim_fail_at(err, ASIM_E_INPUT, offset,
                        "cut off: frame %" PRIu64 " of %" PRIu64 " (at byte %" PRIu64
                        ") is not whole; the file has %" PRIu64 " of its %" PRIu64 " bytes; copy it again",
                        frame, r->header.frame_count, offset, r->file_size, r->header.file_size);
}

static asim_code read_header(reader *r, asim_err *err)
{
    size_t length = r->file_size < ASIM_HEADER_SIZE ? (size_t)r->file_size : ASIM_HEADER_SIZE;
    asim_code code = read_at(r, 0, length, err);
    if (!code)
        code = asim_header_decode(r->frame.bytes, length, &r->header, err);
    if (code)
        return code;
    const asim_header *h = &r->header;
    r->newer = h->minor > ASIM_FORMAT_MINOR;
    if (r->file_size < h->file_size)
        return fail_cut(r, err);
    if (r->file_size > h->file_size)
        return asim_fail_at(err, ASIM_E_INPUT, h->file_size,
                            "%" PRIu64 " bytes follow the end of the trace, after frame %" PRIu64,
                            r->file_size - h->file_size, h->frame_count);
    if (h->index_offset < ASIM_HEADER_SIZE || h->index_offset >= h->file_size || h->frame_count == 0 ||
        h->frame_count - 1 > (h->index_offset - ASIM_HEADER_SIZE) / ASIM_FRAME_MIN ||
        h->slot_count > UINT32_MAX || h->event_count > h->frame_count * ASIM_FRAME_EVENTS)
        return asim_fail(err, ASIM_E_INPUT, "frame 0 (the header) promises more than the file holds");
    if (!r->newer && (h->flags & ~(uint32_t)(ASIM_HAS_TIMES | ASIM_HAS_ADDRESSES | ASIM_HAS_STACKS)))
        return asim_fail(err, ASIM_E_INPUT, "frame 0 (the header) has unknown flags");
    return ASIM_OK;
}

/* Sections of the content in r->content, whose first byte has to be type. */
static asim_code cut_content(reader *r, uint8_t type, unsigned end, asim_bytes sections[ASIM_SECTIONS_MAX],
                             asim_err *err)
{
    asim_bytes content = {r->content.bytes, r->content.bytes + r->content.length};
    uint8_t own;
    if (!asim_take_u8(&content, &own) || own != type)
        return asim_fail(err, ASIM_E_INPUT, "it is of another type than the index says");
    return asim_take_sections(content, end, r->newer, sections, &r->skipped, err);
}

/* What a frame of count items can need: a byte for each item at least, 64 of each at most. */
static bool plausible(const asim_frame_entry *entry)
{
    if (entry->length < ASIM_FRAME_MIN || entry->content > ASIM_FRAME_CONTENT || entry->content == 0)
        return false;
    switch (entry->type) {
    case ASIM_FRAME_EVENTS_TYPE:
    case ASIM_FRAME_SEGMENTS:
    case ASIM_FRAME_BLOCKS:
    case ASIM_FRAME_CALLS:
        return entry->count > 0 && entry->count <= ASIM_FRAME_EVENTS && entry->content >= entry->count &&
               entry->content <= 64 * (uint64_t)entry->count + 1024;
    default:
        return true;
    }
}

static asim_code check_index(reader *r, asim_err *err)
{
    uint64_t events = 0, segments = 0, blocks = 0, calls = 0, end = ASIM_HEADER_SIZE;
    for (size_t i = 0; i < r->entry_count; i++) {
        const asim_frame_entry *entry = &r->entries[i];
        if (!plausible(entry))
            return asim_fail(err, ASIM_E_INPUT,
                             "frame %zu promises %" PRIu64 " bytes for %" PRIu32 " items, which can't be",
                             i + 1, entry->content, entry->count);
        events += entry->type == ASIM_FRAME_EVENTS_TYPE ? entry->count : 0;
        segments += entry->type == ASIM_FRAME_SEGMENTS ? entry->count : 0;
        blocks += entry->type == ASIM_FRAME_BLOCKS ? entry->count : 0;
        calls += entry->type == ASIM_FRAME_CALLS ? entry->count : 0;
        end = entry->offset + entry->length;
    }
    const asim_header *h = &r->header;
    if (end != h->index_offset)
        return asim_fail(err, ASIM_E_INPUT, "its frames do not fill the file");
    if (events != h->event_count || segments != h->segment_count || blocks != h->block_count ||
        calls != h->call_count)
        return asim_fail(err, ASIM_E_INPUT, "its counts are not those of the header");
    return ASIM_OK;
}

static asim_code read_index(reader *r, asim_err *err)
{
    const asim_header *h = &r->header;
    size_t count = (size_t)h->frame_count - 1;
    asim_bytes sections[ASIM_SECTIONS_MAX];
    asim_code code = read_at(r, h->index_offset, (size_t)(h->file_size - h->index_offset), err);
    uint64_t size = code ? 0 : asim_promised_size(r->frame.bytes, r->frame.length);
    if (!code && size != UINT64_MAX && size / ASIM_INDEX_ENTRY_MAX > h->frame_count)
        code = asim_fail(err, ASIM_E_INPUT, "it promises %" PRIu64 " bytes for %" PRIu64 " frames", size,
                         h->frame_count);
    if (!code)
        code = asim_unpack(r->unpacker, r->frame.bytes, r->frame.length, size, &r->content, err);
    if (!code)
        code = cut_content(r, ASIM_FRAME_INDEX, ASIM_I_END, sections, err);
    if (!code)
        code =
            asim_mem_grow(r->mem, (void **)&r->entries, &r->entry_capacity, count, sizeof *r->entries, err);
    if (!code)
        code = asim_decode_index(sections, ASIM_HEADER_SIZE, r->entries, count, err);
    if (!code) {
        r->entry_count = count;
        code = check_index(r, err);
    }
    if (code)
        asim_err_context(err, "frame %" PRIu64 " of %" PRIu64 " (the index, at byte %" PRIu64 ")",
                         h->frame_count, h->frame_count, h->index_offset);
    return code;
}

static asim_code load_frame(reader *r, const asim_frame_entry *entry, unsigned end,
                            asim_bytes sections[ASIM_SECTIONS_MAX], asim_err *err)
{
    asim_code code = read_at(r, entry->offset, (size_t)entry->length, err);
    if (!code)
        code = asim_unpack(r->unpacker, r->frame.bytes, r->frame.length, entry->content, &r->content, err);
    return code ? code : cut_content(r, entry->type, end, sections, err);
}

/* Takes out the events that are unknown here, and remembers their numbers. */
static asim_code drop_unknown(reader *r, uint64_t first, asim_event_batch *batch, asim_err *err)
{
    size_t kept = 0;
    r->skipped = true;
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->events[i].kind == ASIM_EV_NONE) {
            asim_code code = asim_mem_grow(r->mem, (void **)&r->dropped, &r->dropped_capacity,
                                           r->dropped_count + 1, sizeof *r->dropped, err);
            if (code)
                return code;
            r->dropped[r->dropped_count++] = first + i;
            continue;
        }
        batch->events[kept] = batch->events[i];
        if (batch->times)
            batch->times[kept] = batch->times[i];
        if (batch->addresses)
            batch->addresses[kept] = batch->addresses[i];
        if (batch->stacks)
            batch->stacks[kept] = batch->stacks[i];
        kept++;
    }
    batch->count = kept;
    return ASIM_OK;
}

/* Keeps the events [skip, skip + keep) of a batch, moved to its front. */
static void clip(asim_event_batch *batch, size_t skip, size_t keep)
{
    if (skip) {
        memmove(batch->events, batch->events + skip, keep * sizeof *batch->events);
        if (batch->times)
            memmove(batch->times, batch->times + skip, keep * sizeof *batch->times);
        if (batch->addresses)
            memmove(batch->addresses, batch->addresses + skip, keep * sizeof *batch->addresses);
        if (batch->stacks)
            memmove(batch->stacks, batch->stacks + skip, keep * sizeof *batch->stacks);
    }
    batch->count = keep;
}

static asim_code load_events(reader *r, const asim_frame_entry *entry, asim_err *err)
{
    asim_bytes sections[ASIM_SECTIONS_MAX];
    asim_body *body = r->body;
    asim_code code = load_frame(r, entry, ASIM_E_END, sections, err);
    if (!code)
        code = asim_body_reserve(body, entry->count, err);
    if (code)
        return code;
    asim_event_batch batch = {.events = body->events + body->event_count,
                              .times = body->times ? body->times + body->event_count : NULL,
                              .addresses = body->addresses ? body->addresses + body->event_count : NULL,
                              .stacks = body->stacks ? body->stacks + body->event_count : NULL,
                              .count = entry->count};
    size_t unknown = 0;
    code = asim_decode_events(r->coder, sections, entry->first, r->newer, &batch, &unknown, err);
    uint64_t from = entry->first > r->first ? entry->first : r->first, end = r->first + r->count;
    uint64_t to = entry->first + entry->count < end ? entry->first + entry->count : end;
    if (!code && to - from < entry->count)
        clip(&batch, (size_t)(from - entry->first), (size_t)(to - from));
    if (!code && unknown)
        code = drop_unknown(r, from, &batch, err);
    if (!code)
        code = asim_checker_events(&r->checker, &body->trace, batch.events, batch.times, batch.addresses,
                                   batch.stacks, batch.count, err);
    if (code)
        return code;
    asim_digest_events(&r->digest, batch.events, batch.times, batch.addresses, batch.stacks, batch.count);
    body->event_count += batch.count;
    return ASIM_OK;
}

/* Calls of the window, with their events counted from its start and without the dropped ones. */
static asim_code load_calls(reader *r, const asim_frame_entry *entry, asim_err *err)
{
    asim_bytes sections[ASIM_SECTIONS_MAX];
    asim_body *body = r->body;
    size_t kept = body->call_count, dropped = 0;
    asim_code code = load_frame(r, entry, ASIM_C_END, sections, err);
    if (!code)
        code = asim_decode_calls(sections, entry->count, body, err);
    if (!code && body->call_count > kept && body->calls[kept].event != entry->first)
        code = asim_fail(err, ASIM_E_INPUT, "its first event is not the one of the index");
    bool to_end = r->first + r->count == r->header.event_count;
    for (size_t i = kept; !code && i < body->call_count; i++) {
        asim_recorded_call call = body->calls[i];
        code = asim_check_call(&body->trace, NULL, &call, r->header.event_count, err);
        if (code || call.event < r->first || (call.event >= r->first + r->count && !to_end))
            continue;
        while (dropped < r->dropped_count && r->dropped[dropped] < call.event)
            dropped++;
        call.event -= r->first + dropped;
        if (kept && body->calls[kept - 1].event > call.event)
            code = asim_fail(err, ASIM_E_INPUT, "recorded calls are not in the order of their events");
        body->calls[kept++] = call;
    }
    body->call_count = kept;
    return code;
}

/* Whether a frame has something of the window. */
static bool wanted(const reader *r, size_t index, uint8_t type)
{
    const asim_frame_entry *entry = &r->entries[index];
    uint64_t end = r->first + r->count;
    if (entry->type != type)
        return false;
    if (type == ASIM_FRAME_EVENTS_TYPE)
        return entry->first < end && entry->first + entry->count > r->first;
    if (type == ASIM_FRAME_SEGMENTS || type == ASIM_FRAME_BLOCKS)
        return r->first == 0;
    if (type != ASIM_FRAME_CALLS || end == r->header.event_count)
        return true;
    return entry->first < end;
}

static asim_code load_type(reader *r, uint8_t type, asim_err *err)
{
    asim_bytes sections[ASIM_SECTIONS_MAX];
    asim_body *body = r->body;
    asim_code code = ASIM_OK;
    for (size_t i = 0; !code && i < r->entry_count; i++) {
        const asim_frame_entry *entry = &r->entries[i];
        if (!wanted(r, i, type))
            continue;
        if (type == ASIM_FRAME_EVENTS_TYPE) {
            code = load_events(r, entry, err);
        } else if (type == ASIM_FRAME_CALLS) {
            code = load_calls(r, entry, err);
        } else if (type == ASIM_FRAME_TABLES) {
            code = load_frame(r, entry, ASIM_T_END, sections, err);
            code = code ? code : asim_decode_tables(sections, &body->tables, r->mem, err);
        } else if (type == ASIM_FRAME_SEGMENTS) {
            code = load_frame(r, entry, ASIM_S_END, sections, err);
            code = code ? code : asim_decode_segments(sections, entry->count, body, err);
        } else {
            code = load_frame(r, entry, ASIM_B_END, sections, err);
            code = code ? code : asim_decode_blocks(sections, entry->count, body, err);
        }
        if (code)
            in_frame(r, i, code, err);
    }
    return code;
}

static asim_code want_columns(reader *r, asim_err *err)
{
    asim_code code = ASIM_OK;
    if (r->header.flags & ASIM_HAS_TIMES)
        code = asim_body_want_times(r->body, err);
    if (!code && (r->header.flags & ASIM_HAS_ADDRESSES))
        code = asim_body_want_addresses(r->body, err);
    if (!code && (r->header.flags & ASIM_HAS_STACKS))
        code = asim_body_want_stacks(r->body, err);
    return code;
}

static asim_code load_content(reader *r, asim_err *err)
{
    asim_body *body = r->body;
    asim_code code = load_type(r, ASIM_FRAME_TABLES, err);
    if (!code)
        code = load_type(r, ASIM_FRAME_SEGMENTS, err);
    if (!code)
        code = load_type(r, ASIM_FRAME_BLOCKS, err);
    asim_body_view(body);
    if (!code && r->first == 0)
        code = asim_checker_opening(&r->checker, &body->trace, err);
    else if (!code)
        asim_checker_window(&r->checker, r->first, (uint32_t)r->header.slot_count);
    if (!code)
        code = want_columns(r, err);
    if (!code)
        code = load_type(r, ASIM_FRAME_EVENTS_TYPE, err);
    if (!code)
        code = load_type(r, ASIM_FRAME_CALLS, err);
    for (size_t i = 0; !code && i < r->entry_count; i++)
        if (!strchr("TSBEC", r->entries[i].type)) {
            r->skipped = true;
            if (!r->newer)
                code = in_frame(r, i, asim_fail(err, ASIM_E_INPUT, "frames of this type do not exist"), err);
        }
    return code;
}

static asim_code open_file(reader *r, const char *path, asim_err *err)
{
    struct stat status;
    r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer must not hang us */
    if (r->fd < 0)
        return asim_fail(err, errno == ENOENT || errno == ENOTDIR ? ASIM_E_INPUT : ASIM_E_SYSTEM,
                         "cannot be opened: %s", strerror(errno));
    if (fstat(r->fd, &status) != 0)
        return asim_fail(err, ASIM_E_SYSTEM, "cannot be read: %s", strerror(errno));
    if (!S_ISREG(status.st_mode))
        return asim_fail(err, ASIM_E_INPUT, "not an allocsim trace: it is %s",
                         S_ISDIR(status.st_mode) ? "a directory" : "no regular file");
    r->file_size = (uint64_t)status.st_size;
    return ASIM_OK;
}

static asim_code prepare(reader *r, const char *path, asim_err *err)
{
    asim_code code = open_file(r, path, err);
    if (!code)
        code = read_header(r, err);
    if (code)
        return code;
    r->unpacker = asim_unpacker_new(r->mem, err);
    r->body = r->unpacker ? asim_body_new(r->mem, err) : NULL;
    if (!r->body)
        return ASIM_E_SYSTEM;
    code = read_index(r, err);
    size_t limit = 0;
    for (size_t i = 0; !code && i < r->entry_count; i++)
        if (r->entries[i].type == ASIM_FRAME_EVENTS_TYPE && r->entries[i].count > limit)
            limit = r->entries[i].count;
    if (!code && !(r->coder = asim_event_coder_new(r->mem, limit, err)))
        code = ASIM_E_SYSTEM;
    return code;
}

static void reader_init(reader *r, const asim_hostmem *mem)
{
    *r = (reader){.mem = mem, .fd = -1};
    asim_checker_init(&r->checker, mem);
    asim_digest_init(&r->digest);
    asim_buf_init(&r->frame, mem);
    asim_buf_init(&r->content, mem);
}

static void reader_fini(reader *r)
{
    if (r->fd >= 0)
        close(r->fd);
    asim_mem_free(r->mem, r->entries, r->entry_capacity, sizeof *r->entries);
    asim_mem_free(r->mem, r->dropped, r->dropped_capacity, sizeof *r->dropped);
    asim_unpacker_free(r->unpacker);
    asim_event_coder_free(r->coder);
    asim_buf_fini(&r->frame);
    asim_buf_fini(&r->content);
    asim_body_free(r->body);
    asim_checker_fini(&r->checker);
}

/* Events were hashed frame by frame, while they were in the cache. */
static uint64_t finish_digest(reader *r)
{
    const asim_trace *trace = &r->body->trace;
    for (uint32_t i = 0; i < trace->opening_segment_count; i++)
        asim_digest_segment(&r->digest, &trace->opening_segments[i]);
    for (uint32_t i = 0; i < trace->opening_block_count; i++)
        asim_digest_block(&r->digest, &trace->opening_blocks[i]);
    for (uint32_t i = 0; i < trace->call_count; i++)
        asim_digest_call(&r->digest, &trace->calls[i]);
    return asim_digest_finish(&r->digest, trace);
}

static asim_trace *hand_over(reader *r)
{
    asim_body *body = r->body;
    asim_tables_seal(&body->tables);
    asim_body_view(body);
    r->body = NULL;
    return &body->trace;
}

asim_code asim_trace_load(const char *path, const asim_hostmem *mem, void (*warn)(void *, const char *),
                          void *warn_ctx, asim_trace **ret_trace, asim_err *err)
{
    reader r;
    reader_init(&r, mem);
    asim_code code = prepare(&r, path, err);
    r.count = r.header.event_count;
    if (!code)
        code = load_content(&r, err);
    if (!code) {
        asim_body_view(r.body);
        r.body->trace.slot_count = r.checker.slot_count;
        r.body->trace.digest = finish_digest(&r);
        if (!r.skipped &&
            (r.body->trace.digest != r.header.digest || r.checker.slot_count != r.header.slot_count))
            code =
                asim_fail(err, ASIM_E_INPUT,
                          "the events do not have the digest that frame 0 (the header) gives: the file was "
                          "put together wrongly");
    }
    if (!code && r.skipped && warn) {
        char text[200];
        snprintf(
            text, sizeof text,
            "written in version %u.%u of the trace format: %zu events of kinds unknown to this allocsim, and "
            "perhaps other parts, were left out",
            r.header.major, r.header.minor, r.dropped_count);
        warn(warn_ctx, text);
    }
    if (code)
        asim_err_context(err, "%s", path);
    else
        *ret_trace = hand_over(&r);
    reader_fini(&r);
    return code;
}

asim_code asim_trace_load_window(const char *path, uint64_t first, uint64_t count, const asim_hostmem *mem,
                                 asim_trace **ret_trace, asim_err *err)
{
    reader r;
    reader_init(&r, mem);
    asim_code code = prepare(&r, path, err);
    if (!code && first > r.header.event_count)
        code = asim_fail(err, ASIM_E_USAGE, "the window begins at event %" PRIu64 ", but there are %" PRIu64,
                         first, r.header.event_count);
    if (!code) {
        r.first = first;
        r.count = count < r.header.event_count - first ? count : r.header.event_count - first;
        code = load_content(&r, err);
    }
    if (code) {
        asim_err_context(err, "%s", path);
    } else {
        asim_body_view(r.body);
        r.body->trace.slot_count = r.first ? (uint32_t)r.header.slot_count : r.checker.slot_count;
        r.body->trace.digest = finish_digest(&r);
        *ret_trace = hand_over(&r);
    }
    reader_fini(&r);
    return code;
}
