/* Snapshot import on any bytes: an error or a trace. Host memory is bounded by the input's size. */
#include "tests/pickle_text.h"
#include "traces/native.h"
#include "traces/torch_snapshot.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    counting_memory counter = {.limit = (16 << 20) + 256 * size};
    asim_hostmem mem = counting_memory_table(&counter);
    memory_input memory = {data, size, 0, 0};
    asim_input input = memory_input_stream(&memory);
    asim_trace_builder *builder;
    asim_trace *trace = NULL;
    asim_err err = ASIM_ERR_INIT;
    if (asim_trace_builder_new(&mem, &builder, &err))
        return 0;
    asim_sink sink = asim_trace_builder_sink(builder);
    asim_code code = asim_importer_torch_snapshot.import(&input, &sink, &mem, &err);
    asim_code finished = asim_trace_builder_finish(builder, code ? NULL : &trace, &err);
    /* A trace that the importer wrote is well formed: whatever came in, only the import may refuse it. */
    if ((!code && finished) || code == ASIM_E_BUG || code == ASIM_E_SYSTEM)
        abort();
    asim_trace_release(trace);
    if (counter.used)
        abort();
    return 0;
}
