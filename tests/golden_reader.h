/* tests/golden_reader.h - what golden_case.c (files and cases) and golden_ops.c (operations) share. */
#ifndef ASIM_TESTS_GOLDEN_READER_H
#define ASIM_TESTS_GOLDEN_READER_H

#include "sim/idmap.h"
#include "tests/golden_case.h"
#include "tests/golden_input.h"

enum {
    GOLDEN_NO_POOL = 0xFF,
};

typedef struct golden_device_state { /* what makes the next operation one that may follow */
    uint32_t uses[GOLDEN_POOLS];
    bool filling[GOLDEN_POOLS];
    uint8_t capture[GOLDEN_STREAMS];  /* pool of the capture that the stream takes part in, or none */
    uint8_t captured[GOLDEN_STREAMS]; /* pool of the capture that was begun on the stream, or none */
    uint32_t active_count;
} golden_device_state;

struct golden_reader {
    golden_input *input;
    golden_case c;
    asim_idmap slots; /* ID to slot */
    bool *live;       /* by slot */
    size_t live_capacity;
    golden_device_state devices[GOLDEN_DEVICES];
    uint32_t device; /* the current one */
};

/* The error for a line that is not what it should be; returns ASIM_E_INPUT. */
asim_code golden_bad_line(const golden_reader *reader, asim_err *err, const char *what, const char *line);

/* Parses the operation at op->text, whose result stands at op->expected, and checks that it may follow. */
asim_code golden_parse_op(golden_reader *reader, golden_op *op, asim_err *err);

#endif
