#include "traces/text_tokens.h"

enum {
    PORTION = 1 << 16 /* bytes read at once */
};

void asim_text_lines_init(asim_text_lines *lines, const asim_input *input, const asim_hostmem *mem)
{
    *lines = (asim_text_lines){.input = input, .mem = mem};
    asim_buf_init(&lines->text, mem);
}

void asim_text_lines_fini(asim_text_lines *lines)
{
    asim_buf_fini(&lines->text);
    asim_mem_free(lines->mem, lines->tokens, lines->capacity, sizeof *lines->tokens);
    asim_text_lines_init(lines, lines->input, lines->mem);
}

/* The next line, zero-terminated in place, or NULL at the end. */
static asim_code next_line(asim_text_lines *lines, char **ret_line, size_t *ret_length, asim_err *err)
{
    asim_buf *text = &lines->text;
    size_t looked = lines->start;
    for (;;) {
        char *newline =
            looked < text->length ? memchr(text->bytes + looked, '\n', text->length - looked) : NULL;
        size_t length =
            newline ? (size_t)((uint8_t *)newline - text->bytes) - lines->start : text->length - lines->start;
        if (length > ASIM_TEXT_LINE_MAX)
            return asim_fail(err, ASIM_E_INPUT, "longer than %d bytes", ASIM_TEXT_LINE_MAX);
        if (newline || lines->end) {
            *ret_line = newline || length ? (char *)text->bytes + lines->start : NULL;
            *ret_length = length;
            if (*ret_line)
                (*ret_line)[length] = 0; /* there is always a byte free behind the text */
            lines->start += length + (newline != NULL);
            return ASIM_OK;
        }
        if (lines->start) {
            memmove(text->bytes, text->bytes + lines->start, length);
            text->length = length;
            lines->start = 0;
        }
        looked = length;
        asim_code code = asim_buf_reserve(text, PORTION + 1, err);
        size_t got = 0;
        if (!code)
            code = lines->input->read(lines->input->ctx, text->bytes + text->length, PORTION, &got, err);
        if (code)
            return code;
        text->length += got;
        lines->end = got == 0;
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that an escape stands for; *p stands on what follows the backslash, and is moved past it. */
static asim_code unescape(char **p, char *ret_byte, asim_err *err)
{
    char c = *(*p)++;
    if (c == 'n' || c == 't' || c == '"' || c == '\\') {
        *ret_byte = (char)(c == 'n' ? '\n' : c == 't' ? '\t' : c);
        return ASIM_OK;
    }
    int high = c == 'x' ? hex_digit((*p)[0]) : -1, low = high >= 0 ? hex_digit((*p)[1]) : -1;
    if (low < 0 || high * 16 + low == 0)
        return asim_fail(err, ASIM_E_INPUT, "a backslash is followed by one of n t \" \\ or by xHH");
    *p += 2;
    *ret_byte = (char)(high * 16 + low);
    return ASIM_OK;
}

/* One word at *p, unescaped in place: it never grows. */
static asim_code take_token(char **p, asim_token *ret_token, asim_err *err)
{
    char *in = *p, *out = *p;
    *ret_token = (asim_token){.text = out, .quoted_first = *in == '"'};
    bool quoted = false;
    while (*in && (quoted || (*in != ' ' && *in != '\t' && *in != '\r' && *in != '#'))) {
        char c = *in++;
        if (c == '"') {
            quoted = !quoted;
            continue;
        }
        if (quoted && c == '\\') {
            asim_code code = unescape(&in, &c, err);
            if (code)
                return code;
        }
        *out++ = c;
    }
    if (quoted)
        return asim_fail(err, ASIM_E_INPUT, "a quote is not closed");
    *p = *in == 0 || *in == '#' ? in : in + 1;
    *out = 0; /* at most over the byte that ended the word, where it ends the line too if that was # */
    ret_token->length = (size_t)(out - ret_token->text);
    return ASIM_OK;
}

asim_code asim_text_next(asim_text_lines *lines, const asim_token **ret_tokens, size_t *ret_count,
                         asim_err *err)
{
    char *line = NULL;
    size_t length = 0, count = 0;
    while (count == 0) {
        asim_code code = next_line(lines, &line, &length, err);
        if (code)
            return code;
        if (!line)
            break;
        lines->number++;
        if (memchr(line, 0, length))
            return asim_fail(err, ASIM_E_INPUT, "there is a zero byte in it; a text has none");
        for (char *p = line; *p && *p != '#';) {
            if (*p == ' ' || *p == '\t' || *p == '\r') {
                p++;
                continue;
            }
            code = asim_mem_grow(lines->mem, (void **)&lines->tokens, &lines->capacity, count + 1,
                                 sizeof *lines->tokens, err);
            if (!code)
                code = take_token(&p, &lines->tokens[count], err);
            if (code)
                return code;
            count++;
        }
    }
    *ret_tokens = lines->tokens;
    *ret_count = count;
    return ASIM_OK;
}
