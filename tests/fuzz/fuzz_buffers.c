/* A list of buffers of any bytes: a trace, or an error that names a line. */
#include "traces/buffers.h"
#include "traces/native.h"

#include <stdlib.h>
#include <string.h>

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    source s = {data, size};
    const asim_input input = {give, &s};
    asim_err err = ASIM_ERR_INIT;
    asim_trace_builder *builder;
    asim_trace *trace = NULL;
    if (asim_trace_builder_new(asim_hostmem_libc(), &builder, &err))
        abort();
    const asim_sink sink = asim_trace_builder_sink(builder);
    const asim_code code = asim_importer_buffers.import(&input, &sink, asim_hostmem_libc(), &err);
    if (code != ASIM_OK && (code != ASIM_E_INPUT || strncmp(err.message, "line ", 5) != 0))
        abort();
    /* What the importer made of it keeps every rule of a trace. */
    if (asim_trace_builder_finish(builder, code ? NULL : &trace, &err))
        abort();
    if (trace && trace->event_count % 2)
        abort();
    asim_trace_release(trace);
    return 0;
}
