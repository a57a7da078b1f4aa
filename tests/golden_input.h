/* tests/golden_input.h - lines of a text file that may be compressed with zstd, recognised by content. */
#ifndef ASIM_TESTS_GOLDEN_INPUT_H
#define ASIM_TESTS_GOLDEN_INPUT_H

#include "sim/err.h"
#include "tests/golden_text.h"

typedef struct golden_input golden_input;

asim_code golden_input_open(const char *path, golden_input **ret_input, asim_err *err);
void golden_input_close(golden_input *input); /* NULL is fine */

/* Appends the next line to *text with a zero in place of its newline; *ret_end tells that there is none.
 * A text that would pass limit bytes, a zero byte, and a last line without a newline are errors. */
asim_code golden_input_line(golden_input *input, golden_text *text, size_t limit, bool *ret_end,
                            asim_err *err);

uint64_t golden_input_line_number(const golden_input *input); /* of the line read last, from 1 */

#endif
