/* traces/zframe.h - zstd frames: one whole frame in, one whole frame out, all memory from asim_hostmem.
 *
 * Content begins with a type byte, then come sections: tag, varint length, bytes.
 */
#ifndef ASIM_TRACES_ZFRAME_H
#define ASIM_TRACES_ZFRAME_H

#include "sim/buf.h"
#include "traces/format.h"

typedef struct asim_packer asim_packer;

asim_packer *asim_packer_new(const asim_hostmem *mem, asim_err *err);
void asim_packer_free(asim_packer *packer); /* NULL is fine */

/* Compresses content into *frame, which is emptied first. The frame tells its content's size and ends with a
 * checksum. */
asim_code asim_pack(asim_packer *packer, int level, const asim_buf *content, asim_buf *frame, asim_err *err);

typedef struct asim_unpacker asim_unpacker;

asim_unpacker *asim_unpacker_new(const asim_hostmem *mem, asim_err *err);
void asim_unpacker_free(asim_unpacker *unpacker); /* NULL is fine */

/* Decompresses exactly one frame of exactly content_size bytes into *content, which is emptied first. The
 * caller has judged content_size; memory is taken only if the frame promises the same. ASIM_E_INPUT for
 * anything else and for a wrong checksum. */
asim_code asim_unpack(asim_unpacker *unpacker, const uint8_t *frame, size_t length, uint64_t content_size,
                      asim_buf *content, asim_err *err);

/* The content size that a frame promises, UINT64_MAX if it does not. */
uint64_t asim_promised_size(const uint8_t *frame, size_t length);

/* Adds one section; an empty one is left out. */
asim_code asim_put_section(asim_buf *content, uint8_t tag, const asim_buf *bytes, asim_err *err);

/* Cuts content, whose type byte has been taken, into its sections; absent ones are empty. A tag of end or
 * more, a repeated tag, or a length that does not fit is an error; with newer, unknown tags are skipped and
 * *ret_skipped is set. */
asim_code asim_take_sections(asim_bytes content, unsigned end, bool newer,
                             asim_bytes sections[ASIM_SECTIONS_MAX], bool *ret_skipped, asim_err *err);

#endif
