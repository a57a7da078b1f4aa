#include "tests/golden_input.h"

#include <errno.h>
#include <stdio.h>
#include <zstd.h>

enum {
    BUFFER = 1 << 17
};

struct golden_input {
    FILE *file;
    ZSTD_DStream *stream; /* NULL: the file is plain text */
    bool begun, frame_open;
    bool more; /* the decoder may hold output that did not fit */
    uint64_t line;
    ZSTD_inBuffer in;
    size_t first, last; /* what of text has not been taken yet */
    char raw[BUFFER], text[BUFFER];
};

asim_code golden_input_open(const char *path, golden_input **ret_input, asim_err *err)
{
    golden_input *input = asim_mem_new(asim_hostmem_libc(), 1, sizeof *input);
    if (!input)
        return asim_fail_memory(err, sizeof *input);
    input->file = fopen(path, "rb");
    if (!input->file) {
        int error = errno;
        golden_input_close(input);
        return asim_fail(err, ASIM_E_INPUT, "can't be opened: %s", strerror(error));
    }
    *ret_input = input;
    return ASIM_OK;
}

void golden_input_close(golden_input *input)
{
    if (!input)
        return;
    if (input->file)
        fclose(input->file);
    ZSTD_freeDStream(input->stream);
    asim_mem_free(asim_hostmem_libc(), input, 1, sizeof *input);
}

static asim_code read_raw(golden_input *input, asim_err *err)
{
    size_t length = fread(input->raw, 1, sizeof input->raw, input->file);
    if (length == 0 && ferror(input->file))
        return asim_fail(err, ASIM_E_INPUT, "can't be read: %s", strerror(errno));
    input->in = (ZSTD_inBuffer){input->raw, length, 0};
    return ASIM_OK;
}

static asim_code start(golden_input *input, asim_err *err)
{
    static const char magic[] = {'\x28', '\xb5', '\x2f', '\xfd'};
    asim_code code = read_raw(input, err);
    if (code)
        return code;
    input->begun = true;
    if (input->in.size < sizeof magic || memcmp(input->raw, magic, sizeof magic))
        return ASIM_OK;
    input->stream = ZSTD_createDStream();
    return input->stream ? ASIM_OK : asim_fail_memory(err, ZSTD_DStreamInSize());
}

/* Leaves first == last at the end of the file. */
static asim_code fill(golden_input *input, asim_err *err)
{
    asim_code code;
    input->first = input->last = 0;
    if (!input->begun && (code = start(input, err)))
        return code;
    while (input->last == 0) {
        if (input->in.pos == input->in.size && !input->more) {
            if ((code = read_raw(input, err)))
                return code;
            if (input->in.size == 0)
                return input->frame_open
                           ? asim_fail(err, ASIM_E_INPUT, "line %llu: the compressed data ends early",
                                       (unsigned long long)input->line)
                           : ASIM_OK;
        }
        ZSTD_outBuffer out = {input->text, sizeof input->text, 0};
        if (input->stream) {
            size_t rest = ZSTD_decompressStream(input->stream, &out, &input->in);
            if (ZSTD_isError(rest))
                return asim_fail(err, ASIM_E_INPUT, "line %llu: the compressed data is damaged: %s",
                                 (unsigned long long)input->line, ZSTD_getErrorName(rest));
            input->frame_open = rest != 0;
            input->more = out.pos == out.size;
        } else {
            memcpy(input->text, input->raw, input->in.size);
            out.pos = input->in.pos = input->in.size;
        }
        input->last = out.pos;
    }
    return ASIM_OK;
}

asim_code golden_input_line(golden_input *input, golden_text *text, size_t limit, bool *ret_end,
                            asim_err *err)
{
    size_t begin = text->length;
    for (;;) {
        if (input->first == input->last) {
            asim_code code = fill(input, err);
            if (code)
                return code;
            if (input->first == input->last)
                break;
        }
        const char *from = input->text + input->first;
        size_t there = input->last - input->first;
        const char *newline = memchr(from, '\n', there);
        size_t length = newline ? (size_t)(newline - from) : there;
        if (length >= limit - text->length)
            return asim_fail(err, ASIM_E_INPUT, "line %llu: the case is longer than %zu bytes",
                             (unsigned long long)input->line + 1, limit);
        if (memchr(from, 0, length))
            return asim_fail(err, ASIM_E_INPUT, "line %llu: a zero byte, where only text is expected",
                             (unsigned long long)input->line + 1);
        golden_text_append(text, from, length);
        input->first += length + (newline ? 1 : 0);
        if (newline) {
            golden_text_append(text, "", 1);
            input->line++;
            *ret_end = false;
            return text->refused ? asim_fail_memory(err, text->length + length) : ASIM_OK;
        }
    }
    if (text->length != begin)
        return asim_fail(err, ASIM_E_INPUT, "line %llu: the file ends inside this line",
                         (unsigned long long)input->line + 1);
    *ret_end = true;
    return ASIM_OK;
}

uint64_t golden_input_line_number(const golden_input *input)
{
    return input->line;
}
