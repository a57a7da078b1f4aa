/* Histograms of a trace file. Bin k of sizes holds 2^k to 2^(k+1) - 1 bytes, of lifetimes that many events.
 */
#include "tools/report.h"
#include "tools/units.h"

#include <inttypes.h>

enum {
    BINS = 64
};

static unsigned bin_of(uint64_t value)
{
    return value < 2 ? 0 : 63 - (unsigned)__builtin_clzll(value);
}

/* One box a bin, from the first that holds something to the last. */
static asim_code boxes(asim_plot *plot, const uint64_t *bins, bool bytes, const char *label, unsigned colour,
                       asim_err *err)
{
    unsigned first = 0, last = BINS;
    while (first < BINS && !bins[first])
        first++;
    while (last > first && !bins[last - 1])
        last--;
    asim_plot_series *series = asim_plot_add(plot, ASIM_PLOT_BOXES, colour, err, "%s", label);
    if (!series)
        return err->code;
    asim_code code = ASIM_OK;
    for (unsigned i = first; i < last && !code; i++) {
        const int64_t at = (int64_t)(i - first);
        char text[ASIM_UNITS_MAX];
        const uint64_t from = i ? UINT64_C(1) << i : 0;
        code = asim_plot_row(plot, series, (int64_t[]){at, (int64_t)bins[i]}, err);
        if (!code)
            code = asim_plot_name_row(plot, at, err, "%s",
                                      bytes ? asim_human_bytes(from, text) : asim_human_count(from, text));
    }
    return code;
}

asim_code asim_plot_sizes(const asim_trace *trace, asim_plot *plot, asim_err *err)
{
    uint64_t bins[BINS] = {0};
    for (uint64_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].kind == ASIM_EV_ALLOC)
            bins[bin_of(trace->events[i].size)]++;
    plot->x_label = "requested bytes, from";
    plot->y_label = "allocations";
    return boxes(plot, bins, true, "", 1, err);
}

asim_code asim_plot_lifetimes(const asim_trace *trace, asim_plot *plot, asim_err *err)
{
    uint64_t bins[BINS] = {0}, count = trace->slot_count;
    if (!count)
        return ASIM_OK;
    uint64_t *born = asim_mem_new(plot->mem, count, sizeof *born); /* 1 + index of its event */
    if (!born)
        return asim_fail_memory(err, count * sizeof *born);
    uint64_t lived = 0, stayed = 0;
    for (uint64_t i = 0; i < trace->event_count; i++) {
        const asim_event *event = &trace->events[i];
        if ((event->kind != ASIM_EV_ALLOC && event->kind != ASIM_EV_FREE) || event->id >= count)
            continue;
        if (event->kind == ASIM_EV_ALLOC) {
            born[event->id] = i + 1;
        } else if (born[event->id]) {
            bins[bin_of(i + 1 - born[event->id])]++;
            lived++;
            born[event->id] = 0;
        }
    }
    for (uint64_t i = 0; i < count; i++)
        stayed += born[i] != 0;
    asim_mem_free(plot->mem, born, count, sizeof *born);
    plot->x_label = "events from allocation to free, from";
    plot->y_label = "allocations";
    char label[96];
    snprintf(label, sizeof label, "%" PRIu64 " freed; %" PRIu64 " stay", lived, stayed);
    return boxes(plot, bins, false, label, 2, err);
}
