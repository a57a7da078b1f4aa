#include "tools/trace_info.h"

#include "tools/units.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

enum {
    WIDTH = 80
};

/* A point of a list, broken between words. */
static void print_wrapped(FILE *out, const char *text)
{
    size_t column = 5;
    fputs("    -", out);
    while (*text) {
        size_t length = strcspn(text, " ");
        if (column + 1 + length > WIDTH && column > 6) {
            fputs("\n     ", out);
            column = 5;
        }
        fprintf(out, " %.*s", (int)length, text);
        column += 1 + length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void print_origin(FILE *out, const asim_trace *trace, const char *imported)
{
    if (imported)
        fprintf(out, "  source     %s, imported in memory\n", imported);
    else if (trace->source != ASIM_NO_INDEX)
        fprintf(out, "  source     %s\n", trace->strings[trace->source].text);
    fprintf(out, "  digest     %016" PRIx64 "\n", trace->digest);
    time_t seconds = (time_t)(trace->start_unix_ns / UINT64_C(1000000000));
    struct tm broken;
    char text[64];
    if (trace->start_unix_ns && gmtime_r(&seconds, &broken) &&
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &broken))
        fprintf(out, "  began      %s\n", text);
    if (trace->settings != ASIM_NO_INDEX) {
        const char *settings = trace->strings[trace->settings].text;
        fprintf(out, "  settings   %s\n", settings[0] ? settings : "(defaults)");
    }
}

static void print_events(FILE *out, const asim_trace *trace, const asim_trace_info *info)
{
    char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX];
    fprintf(out, "  events     %s", asim_human_count(trace->event_count, a));
    if (info->has_times && trace->event_count)
        fprintf(out, " over %s", asim_human_ns(info->duration_ns, a));
    fputc('\n', out);
    for (unsigned kind = 1; kind < ASIM_EV_KINDS; kind++)
        if (info->kind_counts[kind])
            fprintf(out, "    %-14s %s\n", asim_event_kind_name(kind),
                    asim_human_count(info->kind_counts[kind], a));
    if (info->kind_counts[ASIM_EV_ALLOC])
        fprintf(out, "  requests   %s in all, of %" PRIu64 " sizes, the largest %s\n",
                asim_human_bytes(info->allocated_bytes, a), info->distinct_sizes,
                asim_human_bytes(info->largest_bytes, b));
    if (info->growing_allocs)
        fprintf(out, "  growing    %s requests are KV caches\n", asim_human_count(info->growing_allocs, a));
    if (info->unmovable_allocs)
        fprintf(out, "  unmovable  %s requests\n", asim_human_count(info->unmovable_allocs, a));
    fprintf(out, "  live       %s at the peak", asim_human_bytes(info->peak_live_bytes, a));
    if (trace->event_count)
        fprintf(out, " (event %" PRIu64 ")", info->peak_live_event);
    fprintf(out, ", %s at the end\n", asim_human_bytes(info->end_live_bytes, b));
}

static void print_tables(FILE *out, const asim_trace *trace, const asim_trace_info *info)
{
    char text[ASIM_UNITS_MAX];
    for (uint32_t i = 0; i < trace->device_count; i++) {
        const asim_trace_device *device = &trace->devices[i];
        fprintf(out, "  device %-3" PRIu32 " %s%s%s\n", i,
                device->name == ASIM_NO_INDEX ? "" : trace->strings[device->name].text,
                device->name == ASIM_NO_INDEX ? "" : ", ",
                device->capacity ? asim_human_bytes(device->capacity, text) : "memory not recorded");
    }
    fprintf(out, "  used       devices %" PRIu32 ", streams %" PRIu32 ", private pools %" PRIu32 "\n",
            info->devices_used, info->streams_used, info->pools_used);
}

static void print_state(FILE *out, const asim_trace *trace, const asim_trace_info *info)
{
    char a[ASIM_UNITS_MAX];
    if (trace->opening_segment_count)
        fprintf(out,
                "  before     %" PRIu32 " segments of %s; blocks: %" PRIu64 " live, %" PRIu64
                " pending, %" PRIu64 " free\n",
                trace->opening_segment_count, asim_human_bytes(info->opening_segment_bytes, a),
                info->opening_live_blocks, info->opening_pending_blocks, info->opening_free_blocks);
    else
        fprintf(out, "  before     nothing\n");
    if (info->has_addresses)
        fprintf(out, "  recorded   addresses of %s allocations", asim_human_count(info->with_address, a));
    else
        fprintf(out, "  recorded   no addresses");
    fprintf(out, ", %" PRIu32 " driver calls\n", trace->call_count);
    if (info->has_stacks)
        fprintf(out, "  stacks     %" PRIu32 " distinct, on %s events\n", trace->stack_count,
                asim_human_count(info->with_stack, a));
    else
        fprintf(out, "  stacks     none\n");
}

void asim_print_trace_info(FILE *out, const char *path, const char *imported, const asim_trace *trace,
                           const asim_trace_info *info)
{
    fprintf(out, "%s\n", path);
    print_origin(out, trace, imported);
    print_events(out, trace, info);
    print_tables(out, trace, info);
    print_state(out, trace, info);
    if (trace->note_count)
        fprintf(out, "  It can't tell:\n");
    for (uint32_t i = 0; i < trace->note_count; i++)
        print_wrapped(out, trace->strings[trace->notes[i]].text);
}
