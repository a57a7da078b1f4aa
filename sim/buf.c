#include "sim/buf.h"

#include <stdarg.h>
#include <stdio.h>

void asim_buf_init(asim_buf *buf, const asim_hostmem *mem)
{
    *buf = (asim_buf){.mem = mem};
}

void asim_buf_fini(asim_buf *buf)
{
    asim_mem_free(buf->mem, buf->bytes, buf->capacity, 1);
    asim_buf_init(buf, buf->mem);
}

asim_code asim_buf_reserve(asim_buf *buf, size_t extra, asim_err *err)
{
    if (extra <= buf->capacity - buf->length)
        return ASIM_OK;
    if (extra > SIZE_MAX - buf->length)
        return asim_fail_memory(err, UINT64_MAX);
    void *memory = buf->bytes;
    asim_code code = asim_mem_grow(buf->mem, &memory, &buf->capacity, buf->length + extra, 1, err);
    buf->bytes = memory;
    return code;
}

asim_code asim_buf_append(asim_buf *buf, const void *bytes, size_t length, asim_err *err)
{
    asim_code code = asim_buf_reserve(buf, length, err);
    if (code || length == 0)
        return code;
    memcpy(buf->bytes + buf->length, bytes, length);
    buf->length += length;
    return ASIM_OK;
}

asim_code asim_buf_u8(asim_buf *buf, uint8_t value, asim_err *err)
{
    return asim_buf_append(buf, &value, 1, err);
}

asim_code asim_buf_varint(asim_buf *buf, uint64_t value, asim_err *err)
{
    asim_code code = asim_buf_reserve(buf, ASIM_VARINT_MAX, err);
    if (code)
        return code;
    buf->length = (size_t)(asim_put_varint(buf->bytes + buf->length, value) - buf->bytes);
    return ASIM_OK;
}

asim_code asim_buf_printf(asim_buf *buf, asim_err *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        return asim_fail(err, ASIM_E_BUG, "a text cannot be formatted");
    asim_code code = asim_buf_reserve(buf, (size_t)length + 1, err);
    if (code)
        return code;
    va_start(args, format);
    vsnprintf((char *)buf->bytes + buf->length, (size_t)length + 1, format, args);
    va_end(args);
    buf->length += (size_t)length;
    return ASIM_OK;
}

bool asim_take_long_varint(asim_bytes *in, uint64_t *ret_value)
{
    uint64_t value = 0;
    const uint8_t *p = in->next;
    for (unsigned shift = 0; shift < 64 && p < in->end; shift += 7) {
        uint8_t byte = *p++;
        if (shift == 63 && byte > 1)
            return false;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            if (byte == 0 && shift != 0)
                return false;
            in->next = p;
            *ret_value = value;
            return true;
        }
    }
    return false;
}
