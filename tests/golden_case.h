/* tests/golden_case.h - reads the files of tests/golden/, plain or zstd, one case at a time.
 *
 * The format is described in tests/golden/README.md. Nothing in a file is believed: every line is parsed
 * and the operations must make sense one after another (an ID that is allocated twice, a pool that is ended
 * but was never begun, a stream that does not exist are errors with the line's number). Memory is bounded by
 * GOLDEN_CASE_MAX bytes of text a case. Expected results are kept as text.
 */
#ifndef ASIM_TESTS_GOLDEN_CASE_H
#define ASIM_TESTS_GOLDEN_CASE_H

#include "sim/err.h"
#include "tests/golden_text.h"

enum {
    GOLDEN_DEVICES = 8,
    GOLDEN_STREAMS = 4,
    GOLDEN_POOLS = 4,
    GOLDEN_NESTED = 64, /* contexts of active pools */
    GOLDEN_CASE_MAX = 1 << 29,
};

typedef enum golden_format {
    GOLDEN_BASE,         /* 119 or 122 statistics, G lines of 10 numbers */
    GOLDEN_EXTENDED,     /* ... of 11: pools, captures, devices, maps */
    GOLDEN_RELEASE_1_13, /* 107 statistics, G lines of 8 numbers, tokens sa and sf alone */
} golden_format;

enum { /* numbers in a line Q */
    GOLDEN_STATISTICS_1_13 = 107,
    GOLDEN_STATISTICS_2_1 = 119, /* requested_bytes, no counts of device calls; releases 2.0 to 2.2 */
    GOLDEN_STATISTICS = 122,
};

typedef enum golden_op_kind {
    GOLDEN_ALLOC,    /* slot, size, stream */
    GOLDEN_FREE,     /* slot */
    GOLDEN_USE,      /* slot, stream, device of the stream */
    GOLDEN_TRIM,     /* */
    GOLDEN_SYNC,     /* stream, or GOLDEN_STREAMS for every one */
    GOLDEN_QUERY,    /* */
    GOLDEN_MAP,      /* size: expected lines of the map */
    GOLDEN_FRACTION, /* size: the bits of the double */
    GOLDEN_SETTINGS, /* string */
    GOLDEN_RESET,    /* slot: 0 peaks, 1 accumulated totals */
    GOLDEN_DEVICE,   /* device */
    GOLDEN_RETAIN,   /* pool */
    GOLDEN_BEGIN,    /* pool, streams: a bit each, or 0 for all */
    GOLDEN_END,      /* pool */
    GOLDEN_RELEASE,  /* pool */
    GOLDEN_ENTER,    /* pool */
    GOLDEN_LEAVE,    /* */
    GOLDEN_CAPTURE,  /* stream, pool */
    GOLDEN_JOIN,     /* stream: the one that joins; pool */
    GOLDEN_CAPTURED, /* stream, pool */
} golden_op_kind;

typedef struct golden_op {
    uint64_t size;
    size_t text;     /* offset in the case's text: the operation, a zero, the expected result, a zero */
    size_t expected; /* offset of the result; the lines of a map follow it, a zero behind each */
    uint32_t slot;   /* dense number of the ID within the case */
    uint32_t string; /* index into strings */
    uint8_t kind, stream, device, pool, streams;
} golden_op;

typedef struct golden_end { /* what is expected of one device after the last operation: offsets in text */
    size_t statistics, map, counts;
    size_t map_lines;
} golden_end;

typedef struct golden_case {
    golden_text text; /* every line of the case, a zero behind each */
    const char *name, *conf;
    uint64_t capacities[GOLDEN_DEVICES];
    golden_end ends[GOLDEN_DEVICES];
    uint32_t device_count;
    double fraction;
    bool has_fraction, has_pools;
    golden_format format;
    unsigned statistics; /* numbers in the lines Q */
    golden_op *ops;
    size_t op_count, op_capacity;
    uint32_t slot_count;
    size_t *strings; /* offsets in text of the options of GOLDEN_SETTINGS */
    size_t string_count, string_capacity;
} golden_case;

typedef struct golden_reader golden_reader;

asim_code golden_reader_open(const char *path, golden_reader **ret_reader, asim_err *err);
void golden_reader_close(golden_reader *reader); /* NULL is fine */

/* Reads the next case into *ret_case, which stays valid until the next call or the close; NULL at the end of
 * the file. Errors name the line. */
asim_code golden_reader_next(golden_reader *reader, const golden_case **ret_case, asim_err *err);

static inline const char *golden_at(const golden_case *c, size_t offset)
{
    return c->text.bytes + offset;
}

#endif
