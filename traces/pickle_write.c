#include "traces/pickle_write.h"

#include <inttypes.h>

enum {
    BATCH = 1000, /* R160 */
    FRAME_TARGET = 64 << 10,
    FRAME_LEAST = 4, /* a shorter rest goes without a frame */
    PROTOCOL = 4,
};

enum {
    OP_PROTO = 0x80,
    OP_FRAME = 0x95,
    OP_STOP = 0x2E,
    OP_MARK = 0x28,
    OP_EMPTY_DICT = 0x7D,
    OP_EMPTY_LIST = 0x5D,
    OP_SETITEM = 0x73,
    OP_SETITEMS = 0x75,
    OP_APPEND = 0x61,
    OP_APPENDS = 0x65,
    OP_TUPLE2 = 0x86,
    OP_MEMOIZE = 0x94,
    OP_BINGET = 0x68,
    OP_LONG_BINGET = 0x6A,
    OP_SHORT_BINUNICODE = 0x8C,
    OP_BINUNICODE = 0x58,
    OP_BININT = 0x4A,
    OP_BININT1 = 0x4B,
    OP_BININT2 = 0x4D,
    OP_LONG1 = 0x8A,
    OP_BINFLOAT = 0x47,
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
};

static void put(asim_pickle_out *out, const void *bytes, size_t length)
{
    if (!out->err.code)
        asim_buf_append(&out->frame, bytes, length, &out->err);
}

static void put_op(asim_pickle_out *out, uint8_t op)
{
    put(out, &op, 1);
}

static void put_file(asim_pickle_out *out, const void *bytes, size_t length)
{
    if (!out->err.code)
        asim_out_file_write(out->file, bytes, length, &out->err);
}

static void end_frame(asim_pickle_out *out)
{
    uint8_t header[9] = {OP_FRAME};
    asim_put_u64(header + 1, out->frame.length);
    if (out->frame.length >= FRAME_LEAST)
        put_file(out, header, sizeof header);
    if (out->frame.length)
        put_file(out, out->frame.bytes, out->frame.length);
    asim_buf_reset(&out->frame);
}

/* Frames end between objects, never inside one. */
static void begin_object(asim_pickle_out *out)
{
    if (out->frame.length >= FRAME_TARGET)
        end_frame(out);
}

static uint32_t memoise(asim_pickle_out *out)
{
    if (out->memo_count == UINT32_MAX && !out->err.code)
        asim_fail(&out->err, ASIM_E_SYSTEM, "more than 2^32 objects in one pickle");
    put_op(out, OP_MEMOIZE);
    return out->memo_count++;
}

void asim_pickle_out_init(asim_pickle_out *out, asim_out_file *file, const asim_hostmem *mem)
{
    *out = (asim_pickle_out){.file = file, .err = ASIM_ERR_INIT};
    asim_buf_init(&out->frame, mem);
    const uint8_t start[2] = {OP_PROTO, PROTOCOL};
    put_file(out, start, sizeof start);
}

void asim_pickle_out_fini(asim_pickle_out *out)
{
    asim_buf_fini(&out->frame);
}

uint32_t asim_pickle_out_dict(asim_pickle_out *out)
{
    begin_object(out);
    put_op(out, OP_EMPTY_DICT);
    return memoise(out);
}

uint32_t asim_pickle_out_list(asim_pickle_out *out)
{
    begin_object(out);
    put_op(out, OP_EMPTY_LIST);
    return memoise(out);
}

uint32_t asim_pickle_out_text(asim_pickle_out *out, const char *text, size_t length)
{
    uint8_t header[5] = {OP_BINUNICODE};
    begin_object(out);
    if (length < 256) {
        header[0] = OP_SHORT_BINUNICODE;
        header[1] = (uint8_t)length;
        put(out, header, 2);
        put(out, text, length);
        return memoise(out);
    }
    if (length > UINT32_MAX && !out->err.code)
        asim_fail(&out->err, ASIM_E_SYSTEM, "a text of %zu bytes", length);
    asim_put_u32(header + 1, (uint32_t)length);
    if (length < FRAME_TARGET) {
        put(out, header, sizeof header);
        put(out, text, length);
    } else { /* goes between two frames */
        end_frame(out);
        put_file(out, header, sizeof header);
        put_file(out, text, length);
    }
    return memoise(out);
}

uint32_t asim_pickle_out_pair(asim_pickle_out *out, uint64_t first, uint64_t second)
{
    begin_object(out);
    asim_pickle_out_unsigned(out, first);
    asim_pickle_out_unsigned(out, second);
    put_op(out, OP_TUPLE2);
    return memoise(out);
}

/* Two's complement in as few bytes as hold the sign: *top is what lies above the 64 bits of bits. */
static void put_long(asim_pickle_out *out, uint64_t bits, uint8_t top)
{
    uint8_t bytes[11] = {OP_LONG1};
    asim_put_u64(bytes + 2, bits);
    bytes[10] = top;
    uint8_t length = 9;
    while (length > 1 && bytes[1 + length] == top && (bytes[length] & 0x80) == (top & 0x80))
        length--;
    bytes[1] = length;
    put(out, bytes, 2 + (size_t)length);
}

static void put_int(asim_pickle_out *out, int32_t value)
{
    uint8_t bytes[5] = {OP_BININT};
    asim_put_u32(bytes + 1, (uint32_t)value);
    if (value >= 0 && value < 1 << 8) {
        bytes[0] = OP_BININT1;
        put(out, bytes, 2);
    } else if (value >= 0 && value < 1 << 16) {
        bytes[0] = OP_BININT2;
        put(out, bytes, 3);
    } else {
        put(out, bytes, 5);
    }
}

void asim_pickle_out_unsigned(asim_pickle_out *out, uint64_t value)
{
    begin_object(out);
    if (value <= INT32_MAX)
        put_int(out, (int32_t)value);
    else
        put_long(out, value, 0);
}

void asim_pickle_out_signed(asim_pickle_out *out, int64_t value)
{
    begin_object(out);
    if (value >= INT32_MIN && value <= INT32_MAX)
        put_int(out, (int32_t)value);
    else
        put_long(out, (uint64_t)value, value < 0 ? 0xFF : 0);
}

void asim_pickle_out_double(asim_pickle_out *out, double value)
{
    uint8_t bytes[9] = {OP_BINFLOAT};
    uint64_t bits;
    _Static_assert(sizeof bits == sizeof value, "a double has 64 bits");
    memcpy(&bits, &value, sizeof bits);
    for (int i = 0; i < 8; i++)
        bytes[1 + i] = (uint8_t)(bits >> (56 - 8 * i));
    begin_object(out);
    put(out, bytes, sizeof bytes);
}

void asim_pickle_out_bool(asim_pickle_out *out, bool value)
{
    begin_object(out);
    put_op(out, value ? OP_NEWTRUE : OP_NEWFALSE);
}

void asim_pickle_out_get(asim_pickle_out *out, uint32_t memo)
{
    uint8_t bytes[5] = {OP_LONG_BINGET};
    asim_put_u32(bytes + 1, memo);
    begin_object(out);
    if (memo < 256)
        bytes[0] = OP_BINGET;
    put(out, bytes, memo < 256 ? 2 : 5);
}

/* A batch of one item has no mark. */
static bool has_mark(const asim_pickle_batch *batch)
{
    return batch->count - batch->done / BATCH * BATCH > 1;
}

void asim_pickle_out_before(asim_pickle_out *out, const asim_pickle_batch *batch)
{
    if (batch->done % BATCH == 0 && has_mark(batch))
        put_op(out, OP_MARK);
}

void asim_pickle_out_after(asim_pickle_out *out, asim_pickle_batch *batch)
{
    bool several = has_mark(batch);
    batch->done++;
    if (batch->done % BATCH == 0 || batch->done == batch->count) {
        uint8_t one = batch->list ? OP_APPEND : OP_SETITEM, many = batch->list ? OP_APPENDS : OP_SETITEMS;
        put_op(out, several ? many : one);
    }
}

asim_code asim_pickle_out_finish(asim_pickle_out *out, asim_err *err)
{
    put_op(out, OP_STOP);
    end_frame(out);
    if (out->err.code && err)
        *err = out->err;
    return out->err.code;
}
