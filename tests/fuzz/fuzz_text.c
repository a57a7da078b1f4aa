/* A text of any bytes: a trace or an error that names a line. What is a trace is the same after being written
 * as text and read again. */
#include "sim/buf.h"
#include "traces/native.h"
#include "traces/text.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct source {
    const uint8_t *next;
    size_t left;
} source;

static asim_code give(void *ctx, void *buffer, size_t capacity, size_t *ret_length, asim_err *err)
{
    source *s = ctx;
    (void)err;
    size_t length = s->left < capacity ? s->left : capacity;
    if (length)
        memcpy(buffer, s->next, length);
    s->next += length;
    s->left -= length;
    *ret_length = length;
    return ASIM_OK;
}

static asim_code keep(void *ctx, const char *text, size_t length, asim_err *err)
{
    return asim_buf_append(ctx, text, length, err);
}

static asim_trace *parse(const uint8_t *data, size_t size, asim_err *err)
{
    source s = {data, size};
    asim_input input = {give, &s};
    asim_trace_builder *builder;
    asim_trace *trace = NULL;
    if (asim_trace_builder_new(asim_hostmem_libc(), &builder, err))
        abort();
    asim_sink sink = asim_trace_builder_sink(builder);
    asim_code code = asim_text_read(&input, &sink, asim_hostmem_libc(), err);
    if (code != ASIM_OK && (code != ASIM_E_INPUT || strncmp(err->message, "line ", 5) != 0))
        abort();
    asim_trace_builder_finish(builder, code ? NULL : &trace, err);
    return trace;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    asim_err err = ASIM_ERR_INIT;
    asim_trace *trace = parse(data, size, &err);
    if (!trace)
        return 0;
    asim_buf text;
    asim_buf_init(&text, asim_hostmem_libc());
    asim_text_out out = {keep, &text};
    if (asim_text_write(trace, asim_hostmem_libc(), &out, &err))
        abort();
    asim_trace *again = parse(text.bytes, text.length, &err);
    if (!again || again->digest != trace->digest)
        abort();
    asim_trace_release(again);
    asim_trace_release(trace);
    asim_buf_fini(&text);
    return 0;
}
