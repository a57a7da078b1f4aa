/* traces/format.h - the constants of the native format, shared by writer and reader. FORMAT.md defines them;
 * this header only gives them names.
 */
#ifndef ASIM_TRACES_FORMAT_H
#define ASIM_TRACES_FORMAT_H

#include "sim/err.h"

#include <stddef.h>
#include <stdint.h>

#define ASIM_FORMAT_MAGIC "ALLOCSIM"

enum {
    ASIM_FORMAT_MAJOR = 1,
    ASIM_FORMAT_MINOR = 2,
    ASIM_HEADER_SIZE = 96, /* bytes, the 8 of the skippable frame's own header included */
    ASIM_HEADER_BODY = ASIM_HEADER_SIZE - 8,
    ASIM_FRAME_EVENTS = 1 << 16,  /* most events of a frame */
    ASIM_FRAME_ITEMS = 1 << 16,   /* most segments, blocks or calls of a frame */
    ASIM_FRAME_CONTENT = 1 << 23, /* most bytes of a frame's content, but the index's */
    ASIM_FRAME_MIN = 12,          /* fewest bytes of a compressed frame: every one has a checksum */
    ASIM_INDEX_ENTRY_MAX = 32,    /* most bytes of the index's content for each frame listed, and once more */
};
#define ASIM_SKIPPABLE_MAGIC UINT32_C(0x184D2A5A)
#define ASIM_ZSTD_MAGIC      UINT32_C(0xFD2FB528)

enum { /* header flags: which columns exist */
    ASIM_HAS_TIMES = 1,
    ASIM_HAS_ADDRESSES = 2,
    ASIM_HAS_STACKS = 4,
};

/* The first byte of a frame's content. */
enum {
    ASIM_FRAME_TABLES = 'T',
    ASIM_FRAME_SEGMENTS = 'S',
    ASIM_FRAME_BLOCKS = 'B',
    ASIM_FRAME_EVENTS_TYPE = 'E',
    ASIM_FRAME_CALLS = 'C',
    ASIM_FRAME_INDEX = 'I',
};

/* Sections of each kind of frame: a tag byte, the length as a varint, the bytes. */
enum { /* tables */
    ASIM_T_STRING_LENGTHS = 1,
    ASIM_T_STRING_TEXT,
    ASIM_T_FRAME_FUNCTIONS,
    ASIM_T_FRAME_FILES,
    ASIM_T_FRAME_LINES,
    ASIM_T_STACK_COUNTS,
    ASIM_T_STACK_FRAMES,
    ASIM_T_DEVICES,
    ASIM_T_LANES,
    ASIM_T_NOTES,
    ASIM_T_FACTS,
    ASIM_T_END
};
enum { /* segments */
    ASIM_S_LANES = 1,
    ASIM_S_FLAGS,
    ASIM_S_ADDRESSES,
    ASIM_S_SIZES,
    ASIM_S_BLOCK_COUNTS,
    ASIM_S_STACKS,
    ASIM_S_END
};
enum { /* blocks */
    ASIM_B_STATES = 1,
    ASIM_B_SIZES,
    ASIM_B_REQUESTED,
    ASIM_B_IDS,
    ASIM_B_STACKS,
    ASIM_B_END
};
enum { /* events */
    ASIM_E_HEAD = 1,
    ASIM_E_OPS,
    ASIM_E_CODES,
    ASIM_E_AGES,
    ASIM_E_IDS,
    ASIM_E_NUMBERS,
    ASIM_E_SIZES,
    ASIM_E_NEW_SIZES,
    ASIM_E_TIMES,
    ASIM_E_DONE_TIMES,
    ASIM_E_ADDRESSES,
    ASIM_E_NEW_ADDRESSES,
    ASIM_E_STACKS,
    ASIM_E_NEW_STACKS,
    ASIM_E_END
};
enum { /* calls */
    ASIM_C_EVENTS = 1,
    ASIM_C_KINDS,
    ASIM_C_LANES,
    ASIM_C_ADDRESSES,
    ASIM_C_SIZES,
    ASIM_C_END
};
enum { /* index */
    ASIM_I_TYPES = 1,
    ASIM_I_LENGTHS,
    ASIM_I_CONTENTS,
    ASIM_I_COUNTS,
    ASIM_I_FIRSTS,
    ASIM_I_END
};
enum {
    ASIM_SECTIONS_MAX = 16 /* tags are below this */
};

/* How an operation of an events frame codes its id, and bits for what else it has. */
enum {
    ASIM_OP_NO_ID = 0,
    ASIM_OP_NEW = 1,     /* the predicted slot */
    ASIM_OP_NEW_ID = 2,  /* another slot: ids column */
    ASIM_OP_AGE = 3,     /* a live slot: ages column */
    ASIM_OP_DONE = 4,    /* the slot that was freed last */
    ASIM_OP_DONE_ID = 5, /* another one: ids column */
    ASIM_OP_NUMBER = 6,  /* numbers column */
    ASIM_OP_ID_MASK = 7,
    ASIM_OP_SIZE = 8,      /* sizes column */
    ASIM_OP_MAGNITUDE = 16 /* numbers column, after the id */
};

typedef struct asim_header {
    uint16_t major, minor;
    uint32_t flags;
    uint64_t event_count;
    uint64_t digest;
    uint64_t slot_count;
    uint64_t frame_count; /* the header's is not counted, the index's is */
    uint64_t index_offset;
    uint64_t file_size;
    uint32_t segment_count, block_count, call_count;
} asim_header;

/* The 96 bytes at the start of a file. Decoding checks magic, version and checksum; ASIM_E_INPUT otherwise.
 * length: bytes of the file that were read, at most 96. */
void asim_header_encode(const asim_header *header, uint8_t bytes[ASIM_HEADER_SIZE]);
asim_code asim_header_decode(const uint8_t *bytes, size_t length, asim_header *ret_header, asim_err *err);

typedef struct asim_frame_entry { /* of the index */
    uint64_t offset;              /* in the file */
    uint64_t length;              /* compressed */
    uint64_t content;             /* decompressed */
    uint64_t first;               /* E: first event; C: event of the first call; otherwise 0 */
    uint32_t count;               /* events, segments, blocks, calls; 0 of tables */
    uint8_t type;
} asim_frame_entry;

#endif
