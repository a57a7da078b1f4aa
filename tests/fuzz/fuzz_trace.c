/* A trace file of any bytes: loads, or is refused; what loads keeps the rules and is the same once copied. A
 * second time the header's checksum and sizes are made right, so that mutations get behind them. */
#include "sim/buf.h"
#include "sim/hash.h"
#include "traces/check.h"
#include "traces/format.h"
#include "traces/info.h"
#include "traces/native.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try(const char *path, const uint8_t *data, size_t size)
{
    asim_err err = ASIM_ERR_INIT;
    asim_trace *trace = NULL, *window = NULL;
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
    asim_code code = asim_trace_load(path, asim_hostmem_libc(), NULL, NULL, &trace, &err);
    if (code != ASIM_OK && code != ASIM_E_INPUT)
        abort();
    if (code == ASIM_OK) {
        asim_trace_info info;
        if (asim_trace_check(trace, asim_hostmem_libc(), &err) ||
            asim_trace_describe(trace, asim_hostmem_libc(), &info, &err) || info.kind_counts[ASIM_EV_NONE])
            abort();
    }
    code = asim_trace_load_window(path, 2, 3, asim_hostmem_libc(), &window, &err);
    if (code == ASIM_OK && window->event_count > 3)
        abort();
    asim_trace_release(window);
    asim_trace_release(trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64];
    if (!path[0])
        snprintf(path, sizeof path, "/tmp/asim-fuzz-trace.%ld", (long)getpid());
    try(path, data, size);
    if (size >= ASIM_HEADER_SIZE) {
        uint8_t *own = malloc(size);
        if (!own)
            abort();
        memcpy(own, data, size);
        asim_put_u64(own + 64, size);
        asim_put_u64(own + 88, asim_hash_bytes(ASIM_HASH_INIT, own, 88));
        try(path, own, size);
        free(own);
    }
    unlink(path);
    return 0;
}
