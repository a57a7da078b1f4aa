/* The memory hooks of zstd are declared for static linking only, but every shared zstd exports them. */
#define ZSTD_STATIC_LINKING_ONLY
#include "traces/zframe.h"

#include <inttypes.h>
#include <zstd.h>
#include <zstd_errors.h>

struct asim_packer {
    const asim_hostmem *mem;
    ZSTD_CCtx *context;
};

struct asim_unpacker {
    const asim_hostmem *mem;
    ZSTD_DCtx *context;
};

/* zstd frees without telling the size, so that it is kept in front. */
typedef union sized {
    size_t size;
    max_align_t align;
} sized;

static void *zstd_alloc(void *opaque, size_t size)
{
    const asim_hostmem *mem = opaque;
    if (size > SIZE_MAX - sizeof(sized))
        return NULL;
    sized *memory = mem->resize(mem->ctx, NULL, 0, size + sizeof(sized));
    if (!memory)
        return NULL;
    memory->size = size + sizeof(sized);
    return memory + 1;
}

static void zstd_free(void *opaque, void *memory)
{
    const asim_hostmem *mem = opaque;
    if (memory) {
        sized *own = (sized *)memory - 1;
        mem->resize(mem->ctx, own, own->size, 0);
    }
}

static ZSTD_customMem hooks(const asim_hostmem *mem)
{
    return (ZSTD_customMem){zstd_alloc, zstd_free, (void *)(uintptr_t)mem};
}

asim_packer *asim_packer_new(const asim_hostmem *mem, asim_err *err)
{
    asim_packer *packer = asim_mem_new(mem, 1, sizeof *packer);
    if (packer) {
        packer->mem = mem;
        packer->context = ZSTD_createCCtx_advanced(hooks(mem));
    }
    if (!packer || !packer->context) {
        asim_packer_free(packer);
        asim_fail_memory(err, sizeof *packer);
        return NULL;
    }
    return packer;
}

void asim_packer_free(asim_packer *packer)
{
    if (!packer)
        return;
    ZSTD_freeCCtx(packer->context);
    asim_mem_free(packer->mem, packer, 1, sizeof *packer);
}

asim_code asim_pack(asim_packer *packer, int level, const asim_buf *content, asim_buf *frame, asim_err *err)
{
    size_t bound = ZSTD_compressBound(content->length);
    asim_buf_reset(frame);
    asim_code code = asim_buf_reserve(frame, bound, err);
    if (code)
        return code;
    ZSTD_CCtx_setParameter(packer->context, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(packer->context, ZSTD_c_checksumFlag, 1);
    size_t length =
        ZSTD_compress2(packer->context, frame->bytes, frame->capacity, content->bytes, content->length);
    if (ZSTD_isError(length)) {
        if (ZSTD_getErrorCode(length) == ZSTD_error_memory_allocation)
            return asim_fail_memory(err, content->length);
        return asim_fail(err, ASIM_E_BUG, "zstd could not compress a frame: %s", ZSTD_getErrorName(length));
    }
    frame->length = length;
    return ASIM_OK;
}

asim_unpacker *asim_unpacker_new(const asim_hostmem *mem, asim_err *err)
{
    asim_unpacker *unpacker = asim_mem_new(mem, 1, sizeof *unpacker);
    if (unpacker) {
        unpacker->mem = mem;
        unpacker->context = ZSTD_createDCtx_advanced(hooks(mem));
    }
    if (!unpacker || !unpacker->context) {
        asim_unpacker_free(unpacker);
        asim_fail_memory(err, sizeof *unpacker);
        return NULL;
    }
    return unpacker;
}

void asim_unpacker_free(asim_unpacker *unpacker)
{
    if (!unpacker)
        return;
    ZSTD_freeDCtx(unpacker->context);
    asim_mem_free(unpacker->mem, unpacker, 1, sizeof *unpacker);
}

uint64_t asim_promised_size(const uint8_t *frame, size_t length)
{
    unsigned long long size = ZSTD_getFrameContentSize(frame, length);
    bool known = size != ZSTD_CONTENTSIZE_ERROR && size != ZSTD_CONTENTSIZE_UNKNOWN && length >= 4 &&
                 asim_get_u32(frame) == ASIM_ZSTD_MAGIC;
    return known ? size : UINT64_MAX;
}

asim_code asim_unpack(asim_unpacker *unpacker, const uint8_t *frame, size_t length, uint64_t content_size,
                      asim_buf *content, asim_err *err)
{
    uint64_t promised = asim_promised_size(frame, length);
    if (promised == UINT64_MAX)
        return asim_fail(err, ASIM_E_INPUT, "it is damaged: it does not begin like one");
    if (promised != content_size)
        return asim_fail(err, ASIM_E_INPUT,
                         "it is damaged: it promises %" PRIu64 " bytes, the index says %" PRIu64, promised,
                         content_size);
    if (!(frame[4] & 4))
        return asim_fail(err, ASIM_E_INPUT, "it is damaged: it has no checksum");
    asim_buf_reset(content);
    asim_code code = asim_buf_reserve(content, (size_t)content_size + 1, err);
    if (code)
        return code;
    size_t got = ZSTD_decompressDCtx(unpacker->context, content->bytes, (size_t)content_size, frame, length);
    if (ZSTD_isError(got)) {
        if (ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation)
            return asim_fail_memory(err, content_size);
        return asim_fail(err, ASIM_E_INPUT, "it is damaged: %s", ZSTD_getErrorName(got));
    }
    if (got != content_size)
        return asim_fail(err, ASIM_E_INPUT, "it is damaged: it holds %zu bytes instead of %" PRIu64, got,
                         content_size);
    content->length = got;
    return ASIM_OK;
}

asim_code asim_put_section(asim_buf *content, uint8_t tag, const asim_buf *bytes, asim_err *err)
{
    if (bytes->length == 0)
        return ASIM_OK;
    asim_code code = asim_buf_u8(content, tag, err);
    if (!code)
        code = asim_buf_varint(content, bytes->length, err);
    return code ? code : asim_buf_append(content, bytes->bytes, bytes->length, err);
}

asim_code asim_take_sections(asim_bytes content, unsigned end, bool newer,
                             asim_bytes sections[ASIM_SECTIONS_MAX], bool *ret_skipped, asim_err *err)
{
    bool seen[ASIM_SECTIONS_MAX] = {false};
    for (unsigned i = 0; i < ASIM_SECTIONS_MAX; i++)
        sections[i] = (asim_bytes){content.end, content.end};
    while (content.next < content.end) {
        uint8_t tag = 0;
        uint64_t length;
        asim_bytes part;
        if (!asim_take_u8(&content, &tag) || !asim_take_varint(&content, &length) ||
            !asim_take_bytes(&content, length, &part))
            return asim_fail(err, ASIM_E_INPUT, "section %u is longer than the frame", tag);
        if (tag == 0 || tag >= end) {
            if (!newer)
                return asim_fail(err, ASIM_E_INPUT, "section %u does not exist in this version", tag);
            *ret_skipped = true;
            continue;
        }
        if (seen[tag])
            return asim_fail(err, ASIM_E_INPUT, "section %u is there twice", tag);
        seen[tag] = true;
        sections[tag] = part;
    }
    return ASIM_OK;
}
