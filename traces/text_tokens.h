/* traces/text_tokens.h - lines of the text form, cut into words.
 *
 * Words are separated by blanks; # begins a comment. Inside "..." blanks and # are ordinary, and \" \\ \n \t
 * and \xHH stand for one byte; quotes may begin in the middle of a word, as in name="two words".
 */
#ifndef ASIM_TRACES_TEXT_TOKENS_H
#define ASIM_TRACES_TEXT_TOKENS_H

#include "sim/buf.h"
#include "sim/source.h"

enum {
    ASIM_TEXT_LINE_MAX = 8 << 20 /* bytes of one line */
};

typedef struct asim_token {
    const char *text; /* without quotes and escapes, zero-terminated */
    size_t length;
    bool quoted_first; /* it began with a quote: never a word of the language */
} asim_token;

typedef struct asim_text_lines {
    const asim_input *input;
    const asim_hostmem *mem;
    asim_buf text;   /* the line, and what was read behind it */
    size_t start;    /* of the next line */
    bool end;        /* of the input */
    uint64_t number; /* of the line given last, 1 is the first */
    asim_token *tokens;
    size_t capacity;
} asim_text_lines;

void asim_text_lines_init(asim_text_lines *lines, const asim_input *input, const asim_hostmem *mem);
void asim_text_lines_fini(asim_text_lines *lines);

/* The words of the next line that has any; *ret_count 0 is the end. They last until the next call. */
asim_code asim_text_next(asim_text_lines *lines, const asim_token **ret_tokens, size_t *ret_count,
                         asim_err *err);

#endif
