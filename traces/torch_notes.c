#include "traces/torch_notes.h"

#include <stdio.h>
#include <string.h>

void asim_torch_noted_pool(const asim_trace *trace, unsigned pool, uint64_t *ret_first, uint64_t *ret_second)
{
    *ret_first = 0;
    *ret_second = pool;
    for (uint32_t i = 0; pool > 0 && i < trace->note_count; i++) {
        size_t number;
        uint64_t first, second;
        if (sscanf(trace->strings[trace->notes[i]].text, ASIM_TORCH_POOL_NOTE, &number, &first, &second) ==
                3 &&
            number == pool) {
            *ret_first = first;
            *ret_second = second;
            return;
        }
    }
}

unsigned asim_torch_noted_device(const asim_trace *trace, unsigned device)
{
    for (uint32_t i = 0; i < trace->note_count; i++) {
        size_t number;
        unsigned recorded;
        if (sscanf(trace->strings[trace->notes[i]].text, ASIM_TORCH_DEVICE_NOTE, &number, &recorded) == 2 &&
            number == device && recorded < ASIM_DEVICES_MAX)
            return recorded;
    }
    return device;
}

unsigned asim_torch_noted_release(const asim_trace *trace)
{
    for (uint32_t i = 0; i < trace->note_count; i++) {
        const char *text = trace->strings[trace->notes[i]].text;
        unsigned from[2], to[2];
        int read = 0;
        if (sscanf(text, ASIM_TORCH_LAYOUT_NOTE "%n", &from[0], &from[1], &to[0], &to[1], &read) == 4 &&
            read > 0 && to[0] < 100 && to[1] < 100)
            return to[0] * 100 + to[1];
        if (sscanf(text, ASIM_TORCH_NEWEST_NOTE "%n", &from[0], &from[1], &read) == 2 && read > 0)
            return ASIM_TORCH_NEWEST;
    }
    return 0;
}
