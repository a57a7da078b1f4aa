/* tests/golden_text.h - a growing text and the numbers of the golden files.
 *
 * Scanners read one field, move *text behind it and return false, leaving *text alone, where the field is not
 * what they expect. A field ends at a space or at the end of the text.
 */
#ifndef ASIM_TESTS_GOLDEN_TEXT_H
#define ASIM_TESTS_GOLDEN_TEXT_H

#include "sim/hostmem.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef struct golden_text {
    char *bytes; /* length bytes; zero-terminated only where golden_text_line has been called */
    size_t length, capacity;
    bool refused; /* host memory ran out: what was appended since is missing */
} golden_text;

void golden_text_fini(golden_text *text);
void golden_text_append(golden_text *text, const char *bytes, size_t length);
void golden_text_number(golden_text *text, uint64_t number);

static inline void golden_text_string(golden_text *text, const char *string)
{
    golden_text_append(text, string, strlen(string));
}

/* " " or ":" and so on, then the number. */
static inline void golden_text_field(golden_text *text, char separator, uint64_t number)
{
    golden_text_append(text, &separator, 1);
    golden_text_number(text, number);
}

/* A decimal number of at most limit. */
bool golden_scan_number(const char **text, uint64_t limit, uint64_t *ret_number);
/* A space. */
bool golden_scan_space(const char **text);
/* A memory fraction, 0 to 1. */
bool golden_scan_fraction(const char **text, double *ret_fraction);

#endif
