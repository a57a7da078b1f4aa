/* sim/buf.h - a byte buffer that grows, and a cursor over bytes that are not trusted.
 *
 * Numbers are little-endian, or LEB128 varints: 7 bits a byte, lowest first, the high bit says that more
 * follow; at most 10 bytes for 64 bits, and the shortest form only. Signed numbers are zigzag: 0, -1, 1, -2
 * become 0, 1, 2, 3.
 */
#ifndef ASIM_SIM_BUF_H
#define ASIM_SIM_BUF_H

#include "sim/err.h"
#include "sim/hostmem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    ASIM_VARINT_MAX = 10 /* bytes */
};

typedef struct asim_buf {
    const asim_hostmem *mem;
    uint8_t *bytes; /* NULL while empty */
    size_t length;
    size_t capacity;
} asim_buf;

void asim_buf_init(asim_buf *buf, const asim_hostmem *mem);
void asim_buf_fini(asim_buf *buf); /* frees; empty and usable again */

static inline void asim_buf_reset(asim_buf *buf)
{
    buf->length = 0;
}

/* Room for extra bytes more, which may then be written at bytes + length. Errors: ASIM_E_SYSTEM; the content
 * stays. */
asim_code asim_buf_reserve(asim_buf *buf, size_t extra, asim_err *err);

asim_code asim_buf_append(asim_buf *buf, const void *bytes, size_t length, asim_err *err);
asim_code asim_buf_u8(asim_buf *buf, uint8_t value, asim_err *err);
asim_code asim_buf_varint(asim_buf *buf, uint64_t value, asim_err *err);
asim_code asim_buf_printf(asim_buf *buf, asim_err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline uint64_t asim_zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline int64_t asim_unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* Writes a varint at p, where ASIM_VARINT_MAX bytes must be free; returns what follows it. */
static inline uint8_t *asim_put_varint(uint8_t *p, uint64_t value)
{
    while (value >= 0x80) {
        *p++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *p++ = (uint8_t)value;
    return p;
}

static inline void asim_put_u32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> (8 * i));
}

static inline void asim_put_u64(uint8_t *p, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(value >> (8 * i));
}

static inline uint32_t asim_get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t asim_get_u64(const uint8_t *p)
{
    return (uint64_t)asim_get_u32(p) | (uint64_t)asim_get_u32(p + 4) << 32;
}

/* Bytes from next up to end. A take that fails returns false and leaves next where it was. */
typedef struct asim_bytes {
    const uint8_t *next;
    const uint8_t *end;
} asim_bytes;

static inline size_t asim_bytes_left(const asim_bytes *in)
{
    return (size_t)(in->end - in->next);
}

/* False for a varint that is cut off, longer than 64 bits, or not in its shortest form. */
bool asim_take_long_varint(asim_bytes *in, uint64_t *ret_value);

static inline bool asim_take_varint(asim_bytes *in, uint64_t *ret_value)
{
    if (in->next < in->end && *in->next < 0x80) {
        *ret_value = *in->next++;
        return true;
    }
    return asim_take_long_varint(in, ret_value);
}

static inline bool asim_take_u8(asim_bytes *in, uint8_t *ret_value)
{
    if (in->next == in->end)
        return false;
    *ret_value = *in->next++;
    return true;
}

/* The next length bytes as a cursor of their own. */
static inline bool asim_take_bytes(asim_bytes *in, uint64_t length, asim_bytes *ret_part)
{
    if (length > asim_bytes_left(in))
        return false;
    *ret_part = (asim_bytes){in->next, in->next + length};
    in->next += length;
    return true;
}

#endif
