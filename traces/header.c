#include "sim/buf.h"
#include "sim/hash.h"
#include "traces/format.h"

#include <inttypes.h>
#include <stdio.h>

void asim_header_encode(const asim_header *header, uint8_t bytes[ASIM_HEADER_SIZE])
{
    asim_put_u32(bytes, ASIM_SKIPPABLE_MAGIC);
    asim_put_u32(bytes + 4, ASIM_HEADER_BODY);
    memcpy(bytes + 8, ASIM_FORMAT_MAGIC, 8);
    asim_put_u32(bytes + 16, (uint32_t)header->major | (uint32_t)header->minor << 16);
    asim_put_u32(bytes + 20, header->flags);
    asim_put_u64(bytes + 24, header->event_count);
    asim_put_u64(bytes + 32, header->digest);
    asim_put_u64(bytes + 40, header->slot_count);
    asim_put_u64(bytes + 48, header->frame_count);
    asim_put_u64(bytes + 56, header->index_offset);
    asim_put_u64(bytes + 64, header->file_size);
    asim_put_u32(bytes + 72, header->segment_count);
    asim_put_u32(bytes + 76, header->block_count);
    asim_put_u32(bytes + 80, header->call_count);
    asim_put_u32(bytes + 84, 0);
    asim_put_u64(bytes + 88, asim_hash_bytes(ASIM_HASH_INIT, bytes, 88));
}

static asim_code fail_foreign(const uint8_t *bytes, size_t length, asim_err *err)
{
    static const uint8_t zeros[ASIM_HEADER_SIZE];
    if (length == 0)
        return asim_fail(err, ASIM_E_INPUT, "not an allocsim trace: the file is empty");
    if (length == ASIM_HEADER_SIZE && memcmp(bytes, zeros, length) == 0)
        return asim_fail(
            err, ASIM_E_INPUT,
            "not an allocsim trace: its header is blank, it was never completed; write it again");
    char begins[16] = "";
    size_t shown = length < 4 ? length : 4;
    for (size_t i = 0; i < shown; i++)
        snprintf(begins + 3 * i, 4, " %02x", bytes[i]);
    return asim_fail(
        err, ASIM_E_INPUT,
        "not an allocsim trace: it begins with the bytes%s; 'allocsim import' reads recordings of "
        "other programs, compressed ones too",
        begins);
}

asim_code asim_header_decode(const uint8_t *bytes, size_t length, asim_header *ret_header, asim_err *err)
{
    uint8_t fixed[16];
    asim_put_u32(fixed, ASIM_SKIPPABLE_MAGIC);
    asim_put_u32(fixed + 4, ASIM_HEADER_BODY);
    memcpy(fixed + 8, ASIM_FORMAT_MAGIC, 8);
    if (length == 0 || memcmp(bytes, fixed, length < 16 ? length : 16) != 0)
        return fail_foreign(bytes, length, err);
    if (length < ASIM_HEADER_SIZE)
        return asim_fail(err, ASIM_E_INPUT, "frame 0 (the header) is cut off after %zu bytes", length);
    asim_header header = {
        .major = (uint16_t)(asim_get_u32(bytes + 16) & 0xFFFF),
        .minor = (uint16_t)(asim_get_u32(bytes + 16) >> 16),
        .flags = asim_get_u32(bytes + 20),
        .event_count = asim_get_u64(bytes + 24),
        .digest = asim_get_u64(bytes + 32),
        .slot_count = asim_get_u64(bytes + 40),
        .frame_count = asim_get_u64(bytes + 48),
        .index_offset = asim_get_u64(bytes + 56),
        .file_size = asim_get_u64(bytes + 64),
        .segment_count = asim_get_u32(bytes + 72),
        .block_count = asim_get_u32(bytes + 76),
        .call_count = asim_get_u32(bytes + 80),
    };
    bool intact = asim_get_u64(bytes + 88) == asim_hash_bytes(ASIM_HASH_INIT, bytes, 88);
    if (header.major != ASIM_FORMAT_MAJOR)
        return asim_fail(
            err, ASIM_E_INPUT,
            "written in version %u.%u of the trace format%s; this allocsim reads version %d: use one "
            "that fits",
            header.major, header.minor, intact ? "" : " (or its header is damaged)", ASIM_FORMAT_MAJOR);
    if (!intact)
        return asim_fail(err, ASIM_E_INPUT, "frame 0 (the header) is damaged: its checksum is wrong");
    *ret_header = header;
    return ASIM_OK;
}
