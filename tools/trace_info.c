#include "tools/trace_info.h"

#include "tools/units.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

enum {
    WIDTH = 80
};

typedef struct totals {
    uint64_t kinds[ASIM_EV_KINDS];
    uint64_t allocated_bytes, largest, recorded, stacks;
} totals;

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

static totals count(const asim_trace *trace)
{
    totals t = {0};
    for (uint64_t i = 0; i < trace->event_count; i++) {
        const asim_event *event = &trace->events[i];
        t.kinds[event->kind < ASIM_EV_KINDS ? event->kind : ASIM_EV_NONE]++;
        if (event->kind == ASIM_EV_ALLOC) {
            t.allocated_bytes += event->size;
            t.largest = event->size > t.largest ? event->size : t.largest;
        }
        t.recorded += trace->recorded_addresses && trace->recorded_addresses[i] != ASIM_NO_ADDRESS;
        t.stacks += trace->stacks && trace->stacks[i] != ASIM_NO_INDEX;
    }
    return t;
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

static void print_events(FILE *out, const asim_trace *trace, const totals *t)
{
    char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX];
    fprintf(out, "  events     %s", asim_human_count(trace->event_count, a));
    if (trace->times_ns && trace->event_count)
        fprintf(out, " over %s", asim_human_ns(trace->times_ns[trace->event_count - 1], a));
    fputc('\n', out);
    for (unsigned kind = 1; kind < ASIM_EV_KINDS; kind++)
        if (t->kinds[kind])
            fprintf(out, "    %-14s %s\n", asim_event_kind_name(kind), asim_human_count(t->kinds[kind], a));
    if (t->kinds[ASIM_EV_ALLOC])
        fprintf(out, "  requests   %s in all, the largest %s\n", asim_human_bytes(t->allocated_bytes, a),
                asim_human_bytes(t->largest, b));
    fprintf(out, "  slots      %" PRIu32 " (most blocks at once)\n", trace->slot_count);
}

static void print_tables(FILE *out, const asim_trace *trace)
{
    char text[ASIM_UNITS_MAX];
    for (uint32_t i = 0; i < trace->device_count; i++) {
        const asim_trace_device *device = &trace->devices[i];
        fprintf(out, "  device %-3" PRIu32 " %s%s%s\n", i,
                device->name == ASIM_NO_INDEX ? "" : trace->strings[device->name].text,
                device->name == ASIM_NO_INDEX ? "" : ", ",
                device->capacity ? asim_human_bytes(device->capacity, text) : "memory not recorded");
    }
    uint32_t pools = 0;
    for (uint32_t i = 0; i < trace->lane_count; i++)
        pools += trace->lanes[i].pool != 0;
    fprintf(out,
            "  lanes      %" PRIu32 " (distinct device, stream and pool), %" PRIu32 " of private pools\n",
            trace->lane_count, pools);
}

static void print_state(FILE *out, const asim_trace *trace, const totals *t)
{
    uint64_t bytes = 0, live = 0, pending = 0;
    char a[ASIM_UNITS_MAX];
    for (uint32_t i = 0; i < trace->opening_segment_count; i++)
        bytes += trace->opening_segments[i].size;
    for (uint32_t i = 0; i < trace->opening_block_count; i++) {
        live += trace->opening_blocks[i].state == ASIM_BLOCK_LIVE;
        pending += trace->opening_blocks[i].state == ASIM_BLOCK_PENDING;
    }
    if (trace->opening_segment_count)
        fprintf(out,
                "  before     %" PRIu32 " segments of %s with %" PRIu64 " live and %" PRIu64
                " pending blocks\n",
                trace->opening_segment_count, asim_human_bytes(bytes, a), live, pending);
    else
        fprintf(out, "  before     nothing: it begins with empty memory, or does not tell\n");
    if (t->recorded)
        fprintf(out, "  recorded   addresses of %s allocations", asim_human_count(t->recorded, a));
    else
        fprintf(out, "  recorded   no addresses");
    fprintf(out, ", %" PRIu32 " driver calls\n", trace->call_count);
    fprintf(out, "  stacks     %" PRIu32 " distinct, on %s events\n", trace->stack_count,
            asim_human_count(t->stacks, a));
}

void asim_print_trace_info(FILE *out, const char *path, const char *imported, const asim_trace *trace)
{
    totals t = count(trace);
    fprintf(out, "%s\n", path);
    print_origin(out, trace, imported);
    print_events(out, trace, &t);
    print_tables(out, trace);
    print_state(out, trace, &t);
    if (trace->note_count)
        fprintf(out, "  It can't tell:\n");
    for (uint32_t i = 0; i < trace->note_count; i++)
        print_wrapped(out, trace->strings[trace->notes[i]].text);
}
