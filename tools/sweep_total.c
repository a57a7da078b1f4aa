/* The last table of `sweep` over several traces (the ranks of one job): each configuration at its worst. */
#include "tools/sweep_print.h"
#include "tools/units.h"

#include <inttypes.h>
#include <string.h>

enum {
    LABEL_MIN = 13, /* "configuration" */
    LABEL_MAX = 44,
    LABEL_SIZE = 512,
};

typedef struct total {
    uint64_t reserved; /* of the worst trace */
    const char *worst; /* one that refuses requests is worse than one that reserves more */
    bool refuses;
    uint64_t sum, calls, stall, failures; /* over all traces */
} total;

/* False where a trace has no result of it: it is the same as another there, or it ended by a fault. */
static bool add_up(const asim_sweep_view *view, size_t config, total *ret_total)
{
    total t = {0};
    for (size_t i = 0; i < view->outcome->trace_count; i++) {
        const asim_sweep_trace *trace = &view->outcome->traces[i];
        const asim_sweep_result *result = trace->opened ? trace->results[config] : NULL;
        if (!trace->opened)
            continue;
        if (!result || !result->done)
            return false;
        const uint64_t *m = result->run.record.metrics;
        bool refuses = m[ASIM_METRIC_ooms] > 0;
        if (!t.worst || (refuses && !t.refuses) ||
            (refuses == t.refuses && m[ASIM_METRIC_peak_reserved_bytes] > t.reserved)) {
            t.reserved = m[ASIM_METRIC_peak_reserved_bytes];
            t.worst = trace->path;
            t.refuses = refuses;
        }
        t.sum += m[ASIM_METRIC_peak_reserved_bytes];
        t.calls += m[ASIM_METRIC_device_allocs] + m[ASIM_METRIC_device_frees] + m[ASIM_METRIC_device_maps] +
                   m[ASIM_METRIC_device_unmaps];
        t.stall += m[ASIM_METRIC_stall_ns];
        t.failures += m[ASIM_METRIC_ooms];
    }
    *ret_total = t;
    return t.worst != NULL;
}

/* As it was typed, with blanks: what a recording's own settings make of it differs from trace to trace. */
static void label_of(const asim_sweep_config *config, char ret_label[LABEL_SIZE])
{
    int depth = 0;
    snprintf(ret_label, LABEL_SIZE, "%s%s%s%s", config->policy, config->conf ? ",conf=[" : "",
             config->conf ? config->conf : "", config->conf ? "]" : "");
    for (char *p = ret_label; *p; p++) {
        depth += (*p == '[') - (*p == ']');
        if (*p == ',' && depth <= 0)
            *p = ' ';
    }
}

static size_t label_width(const asim_sweep_view *view, uint64_t capacity)
{
    size_t width = LABEL_MIN;
    for (size_t i = 0; i < view->plan->count; i++) {
        char label[LABEL_SIZE];
        label_of(&view->plan->configs[i], label);
        size_t length = strlen(label);
        if (view->plan->configs[i].capacity == capacity && length <= LABEL_MAX && length > width)
            width = length;
    }
    return width;
}

void asim_sweep_totals(FILE *out, const asim_sweep_view *view, uint64_t capacity)
{
    size_t opened = 0, width = label_width(view, capacity);
    char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX], c[ASIM_UNITS_MAX], d[ASIM_UNITS_MAX], e[ASIM_UNITS_MAX];
    for (size_t i = 0; i < view->outcome->trace_count; i++)
        opened += view->outcome->traces[i].opened;
    if (opened < 2)
        return;
    fprintf(out, "\nall %zu traces", opened);
    if (capacity)
        fprintf(out, ", on devices of %s", asim_human_bytes(capacity, a));
    fprintf(out, "\n\n  %-*s %11s %11s %8s %9s %8s  %s\n", (int)width, "configuration", "reserved",
            "reserved", "driver", "stall", "requests", "the worst");
    fprintf(out, "  %-*s %11s %11s %8s %9s %8s\n", (int)width, "", "by worst", "in sum", "calls", "",
            "refused");
    for (size_t i = 0; i < view->plan->count; i++) {
        total t;
        char label[LABEL_SIZE];
        if (view->plan->configs[i].capacity != capacity || !add_up(view, i, &t))
            continue;
        label_of(&view->plan->configs[i], label);
        fprintf(out, "%c %-*s", t.failures ? '!' : ' ', (int)width, label);
        if (strlen(label) > width)
            fprintf(out, "\n  %-*s", (int)width, "");
        fprintf(out, " %11s %11s %8s %9s %8s  %s\n", asim_human_bytes(t.reserved, a),
                asim_human_bytes(t.sum, b), asim_human_count(t.calls, c), asim_human_ns(t.stall, d),
                t.failures ? asim_human_count(t.failures, e) : "none", t.worst);
    }
}
