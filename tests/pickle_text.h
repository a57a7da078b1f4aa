/* tests/pickle_text.h - pickles from text, and a stream of bytes in memory, for tests. */
#ifndef ASIM_TESTS_PICKLE_TEXT_H
#define ASIM_TESTS_PICKLE_TEXT_H

#include "sim/source.h"

/* Bytes in memory as an input; piece: how many a read gives at most (0: as many as there is room for). */
typedef struct memory_input {
    const uint8_t *bytes;
    size_t length, at, piece;
} memory_input;

asim_input memory_input_stream(memory_input *memory);

/* A Python literal of dicts, lists, tuples of up to three, integers of 64 bits, strings in single quotes
 * without escapes, True, False and None, as a pickle of protocol 4 (everything memoised, batches in one
 * piece). Aborts on anything else. Freed with free(). */
uint8_t *pickle_from_text(const char *text, size_t *ret_length);

/* Host memory that counts, refuses the n-th request from now on (0: never), and refuses beyond a limit. */
typedef struct counting_memory {
    size_t used, peak, limit; /* limit 0: none */
    long requests, refuse_at;
} counting_memory;

asim_hostmem counting_memory_table(counting_memory *memory);

#endif
