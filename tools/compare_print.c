/* `compare --format table`: what differs, where the runs part, and what peak memory was made of. */
#include "tools/compare.h"
#include "tools/units.h"

#include <inttypes.h>
#include <string.h>

#define BOLD  "\033[1m"
#define PLAIN "\033[0m"

typedef struct table {
    FILE *out;
    bool colour;
    const asim_comparison *c;
} table;

static void heading(const table *t, const char *text)
{
    fprintf(t->out, "\n%s%s%s\n", t->colour ? BOLD : "", text, t->colour ? PLAIN : "");
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static char *human(const char *name, uint64_t value, char text[ASIM_UNITS_MAX])
{
    if (ends_with(name, "_bytes"))
        return asim_human_bytes(value, text);
    if (ends_with(name, "_ns"))
        return asim_human_ns(value, text);
    if (ends_with(name, "_ppm"))
        return asim_human_ppm(value, text);
    return asim_human_count(value, text);
}

/* B - A, with its sign. */
static const char *signed_human(const char *name, const uint64_t pair[2], char ret_text[ASIM_UNITS_MAX + 1])
{
    bool more = pair[1] >= pair[0];
    ret_text[0] = pair[1] == pair[0] ? ' ' : more ? '+' : '-';
    human(name, more ? pair[1] - pair[0] : pair[0] - pair[1], ret_text + 1);
    return ret_text;
}

/* --- the sides --- */

static void print_side(const table *t, unsigned which)
{
    const asim_compare_side *side = &t->c->sides[which];
    char text[ASIM_UNITS_MAX];
    fprintf(t->out, "%s%c%s  %s", t->colour ? BOLD : "", 'A' + (char)which, t->colour ? PLAIN : "",
            side->name);
    if (side->kept.run_id)
        fprintf(t->out, ", of %s", side->trace_path);
    fprintf(t->out, "\n   %s  %s", side->policy, side->params[0] ? side->params : "(default settings)");
    if (side->torch[0])
        fprintf(t->out, "  [PyTorch %s]", side->torch);
    fprintf(t->out, "\n   %s, %s", side->device, asim_human_bytes(side->kept.record.capacity, text));
    if (side->seed)
        fprintf(t->out, ", seed %" PRIu64, side->seed);
    fprintf(t->out, "; %s events\n", asim_human_count(side->trace_events, text));
}

static void print_metrics(const table *t)
{
    char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX], difference[ASIM_UNITS_MAX + 1];
    uint64_t pair[2];
    const char *name;
    fprintf(t->out, "\n%s%-28s %16s %16s %16s%s\n", t->colour ? BOLD : "", "What differs", "A", "B", "B - A",
            t->colour ? PLAIN : "");
    bool any = false;
    for (size_t i = 0; (name = asim_compare_metric(t->c, i, pair)); i++) {
        if (pair[0] == pair[1])
            continue;
        any = true;
        fprintf(t->out, "  %-26s %16s %16s %16s\n", name, human(name, pair[0], a), human(name, pair[1], b),
                signed_human(name, pair, difference));
    }
    if (!any)
        fprintf(t->out, "  no metric, only where blocks lie\n");
}

static void print_phases(const table *t)
{
    const asim_compare_side *a = &t->c->sides[0], *b = &t->c->sides[1];
    size_t count = a->phase_count < b->phase_count ? a->phase_count : b->phase_count;
    uint64_t shown = 0, more = 0;
    char x[ASIM_UNITS_MAX], y[ASIM_UNITS_MAX], difference[ASIM_UNITS_MAX + 1];
    for (size_t i = 0; i < count; i++) {
        uint64_t pair[2] = {a->phases[i].peak_reserved, b->phases[i].peak_reserved};
        if (pair[0] == pair[1] || strcmp(a->phases[i].label, b->phases[i].label) != 0)
            continue;
        if (shown == t->c->rows_max) {
            more++;
            continue;
        }
        if (shown++ == 0)
            heading(t, "Phases whose peak reserved memory differs, in their order");
        fprintf(t->out, "  %-26.60s %16s %16s %16s\n", a->phases[i].label, asim_human_bytes(pair[0], x),
                asim_human_bytes(pair[1], y), signed_human("_bytes", pair, difference));
    }
    if (more)
        fprintf(t->out, "  ... and %" PRIu64 " more\n", more);
}

static void print_failure(const table *t, unsigned which)
{
    const asim_compare_side *side = &t->c->sides[which];
    const asim_oom *oom = &side->kept.record.oom;
    char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX], c[ASIM_UNITS_MAX];
    fprintf(t->out, "  %c  ", 'A' + (char)which);
    if (!side->kept.record.has_oom) {
        fputs("every request was served\n", t->out);
        return;
    }
    fprintf(t->out, "%" PRIu64 " refused; first event %" PRIu64 ": asked for %s with %s reserved, %s in use",
            side->kept.record.metrics[ASIM_METRIC_ooms], oom->event,
            asim_human_bytes(oom->requested_bytes, a), asim_human_bytes(oom->reserved_bytes, b),
            asim_human_bytes(oom->allocated_bytes, c));
    fprintf(t->out, ",\n     largest free block %s, %s free on device %" PRIu32 "\n",
            asim_human_bytes(oom->largest_free_bytes, a), asim_human_bytes(oom->device_free_bytes, b),
            oom->device);
}

static void print_failures(const table *t)
{
    if (!t->c->sides[0].kept.record.has_oom && !t->c->sides[1].kept.record.has_oom)
        return;
    heading(t, "Failures");
    print_failure(t, 0);
    print_failure(t, 1);
}

/* --- where they part --- */

static const char *plain(const char *text, char ret_text[ASIM_COMPARE_TEXT])
{
    snprintf(ret_text, ASIM_COMPARE_TEXT, "%s", text);
    asim_compare_plain(ret_text);
    return ret_text;
}

static void print_request(const table *t, const asim_compare_side *side, uint64_t event)
{
    char text[ASIM_UNITS_MAX], label[ASIM_COMPARE_TEXT];
    if (event >= side->trace_events) {
        fputs("nothing: the trace ends here\n", t->out);
        return;
    }
    const asim_event *e = &side->trace->events[event];
    const char *kind = asim_event_kind_name(e->kind);
    fprintf(t->out, "%s", kind ? kind : "unknown");
    if (e->kind == ASIM_EV_ALLOC || e->kind == ASIM_EV_RESIZE || e->kind == ASIM_EV_PREFIX)
        fprintf(t->out, " of %s (%" PRIu64 ")", asim_human_bytes(e->size, text), e->size);
    if (e->kind == ASIM_EV_MARK || e->kind == ASIM_EV_SETTINGS)
        fprintf(t->out, " \"%s\"", plain(side->trace->strings[e->id].text, label));
    else if (e->kind >= ASIM_EV_ALLOC && e->kind <= ASIM_EV_ACCESS)
        fprintf(t->out, ", block %" PRIu32, e->id);
    if (e->lane < side->trace->lane_count) {
        const asim_lane *lane = &side->trace->lanes[e->lane];
        fprintf(t->out, ", device %u, stream 0x%" PRIx64, (unsigned)lane->device, lane->stream);
        if (lane->pool)
            fprintf(t->out, ", pool %u", (unsigned)lane->pool);
    }
    fputc('\n', t->out);
}

static void print_effect(const table *t, const asim_effect *effect)
{
    static const char *const words[] = {
        [ASIM_EFFECT_PLACED] = "placed",
        [ASIM_EFFECT_FREED] = "freed",
        [ASIM_EFFECT_PENDING] = "freed, reusable later,",
        [ASIM_EFFECT_COMPLETED] = "reusable now:",
        [ASIM_EFFECT_CALL + ASIM_CALL_SEGMENT_ALLOC] = "new segment",
        [ASIM_EFFECT_CALL + ASIM_CALL_SEGMENT_FREE] = "segment given back",
        [ASIM_EFFECT_CALL + ASIM_CALL_MAP] = "mapped",
        [ASIM_EFFECT_CALL + ASIM_CALL_UNMAP] = "unmapped",
    };
    char text[ASIM_UNITS_MAX], left[ASIM_UNITS_MAX];
    if (effect->kind == ASIM_EFFECT_CALL + ASIM_CALL_OOM)
        fprintf(t->out, "     refused: %s (%" PRIu64 "), the device has %s free\n",
                asim_human_bytes(effect->size, text), effect->size, asim_human_bytes(effect->address, left));
    else
        fprintf(t->out, "     %s %s (%" PRIu64 ") at 0x%" PRIx64 "\n", words[effect->kind],
                asim_human_bytes(effect->size, text), effect->size, effect->address);
}

static void print_stack(const table *t, const asim_compare_side *side, uint64_t event)
{
    const asim_trace *trace = side->trace;
    uint32_t stack =
        trace->stacks && event < trace->event_count ? trace->stacks[event] : (uint32_t)ASIM_NO_INDEX;
    if (stack >= trace->stack_count)
        return;
    char function[ASIM_COMPARE_TEXT], file[ASIM_COMPARE_TEXT];
    const asim_stack *lines = &trace->stack_table[stack];
    for (uint32_t i = 0; i < lines->count; i++) {
        const asim_frame *frame = &trace->frames[trace->stack_frames[lines->first + i]];
        fprintf(t->out, "     %s %s (%s:%" PRIu32 ")\n",
                i ? "  called by" : "call stack:", plain(trace->strings[frame->function].text, function),
                plain(trace->strings[frame->file].text, file), frame->line);
    }
}

static void print_parting(const table *t)
{
    const asim_comparison *c = t->c;
    if (!c->replayed)
        return;
    heading(t, "Where they part");
    if (!c->parted) {
        fputs("  nowhere: every placement, free and driver call is the same\n", t->out);
        return;
    }
    if (c->part_event == ASIM_WATCH_OPENING)
        fputs("  before the first event, in the memory that the recording begins with\n", t->out);
    else
        fprintf(t->out, "  event %" PRIu64 "%s\n", c->part_event,
                c->part_requests ? ": the traces ask for different things" : "");
    for (unsigned which = 0; which < 2; which++) {
        const asim_compare_side *side = &c->sides[which];
        fprintf(t->out, "  %c  ", 'A' + (char)which);
        if (c->part_event == ASIM_WATCH_OPENING)
            fputs("puts it in place\n", t->out);
        else
            print_request(t, side, c->part_event);
        for (uint64_t i = 0; i < side->effects.total && i < ASIM_EFFECTS_MAX; i++)
            print_effect(t, &side->effects.items[i]);
        if (side->effects.total > ASIM_EFFECTS_MAX)
            fprintf(t->out, "     ... and %" PRIu64 " more\n", side->effects.total - ASIM_EFFECTS_MAX);
        if (side->effects.total == 0)
            fputs("     nothing happens\n", t->out);
        if (c->part_event != ASIM_WATCH_OPENING && (which == 1 || !c->same_trace))
            print_stack(t, side, c->part_event);
    }
}

/* --- what memory was made of --- */

static void moment(const asim_compare_side *side, char text[64])
{
    if (side->peak_event == ASIM_WATCH_OPENING)
        snprintf(text, 64, "before the first event");
    else
        snprintf(text, 64, "after event %" PRIu64, side->peak_event);
}

static void print_view(const table *t, asim_compare_view view)
{
    const asim_rows *rows = &t->c->views[view];
    char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX], difference[ASIM_UNITS_MAX + 1];
    bool counts = view != ASIM_VIEW_USE;
    fprintf(t->out, "  %s%s%s\n", t->colour ? BOLD : "", asim_compare_view_name(view),
            t->colour ? PLAIN : "");
    for (size_t i = 0; i < rows->count; i++) {
        const asim_row *row = &rows->rows[i];
        if (i == t->c->rows_max) {
            fprintf(t->out, "    ... and %zu more\n", rows->count - i);
            break;
        }
        fprintf(t->out, "    %11s %11s %12s", asim_human_bytes(row->bytes[0], a),
                asim_human_bytes(row->bytes[1], b), signed_human("_bytes", row->bytes, difference));
        if (counts)
            fprintf(t->out, "  %6" PRIu64 " %6" PRIu64, row->count[0], row->count[1]);
        fprintf(t->out, "  %s\n", row->key);
    }
}

static void print_views(const table *t)
{
    const asim_comparison *c = t->c;
    char a[64], b[64];
    if (!c->has_views)
        return;
    if (c->replayed) {
        moment(&c->sides[0], a);
        moment(&c->sides[1], b);
        heading(t, "Reserved memory at its peak");
        fprintf(t->out, "  A %s, B %s\n", a, b);
        for (unsigned which = 0; which < 2; which++) {
            uint64_t peak = c->sides[which].kept.record.metrics[ASIM_METRIC_peak_reserved_bytes];
            if (c->sides[which].peak_held < peak)
                fprintf(t->out, "  %c held still more for a moment inside an event: %s\n", 'A' + (char)which,
                        asim_human_bytes(peak, a));
        }
    } else {
        heading(t, "Reserved memory at the end");
    }
    fprintf(t->out, "    %11s %11s %12s  %6s %6s\n", "A", "B", "B - A", "A", "B");
    for (unsigned view = 0; view < ASIM_VIEWS; view++)
        if (c->has_sites || view < ASIM_VIEW_GROWN)
            print_view(t, (asim_compare_view)view);
}

/* --- in words --- */

static const asim_row *largest(const asim_comparison *c, asim_compare_view view, bool more)
{
    const asim_rows *rows = &c->views[view];
    for (size_t i = 0; i < rows->count; i++)
        if (more ? rows->rows[i].bytes[1] > rows->rows[i].bytes[0]
                 : rows->rows[i].bytes[1] < rows->rows[i].bytes[0])
            return &rows->rows[i];
    return NULL;
}

/* What most of a difference of reserved memory is made of, by the layouts that are at hand. */
static void print_parts(const table *t, bool more)
{
    const asim_comparison *c = t->c;
    const char *when = c->replayed ? "" : "at the end, ";
    const asim_row *use = largest(c, ASIM_VIEW_USE, more), *segment = largest(c, ASIM_VIEW_SEGMENT, more);
    const asim_row *site = largest(c, ASIM_VIEW_GROWN, more);
    char x[ASIM_UNITS_MAX], y[ASIM_UNITS_MAX];
    if (use)
        fprintf(t->out, "  %smostly %s: %s against %s\n", when, use->key, asim_human_bytes(use->bytes[1], x),
                asim_human_bytes(use->bytes[0], y));
    if (segment)
        fprintf(t->out, "  %sin %" PRIu64 " against %" PRIu64 " segments of %s\n", when, segment->count[1],
                segment->count[0], segment->key);
    if (site && c->has_sites)
        fprintf(t->out, "  asked of the device by %s: %s against %s\n", site->key,
                asim_human_bytes(site->bytes[1], x), asim_human_bytes(site->bytes[0], y));
}

static void print_why(const table *t)
{
    const asim_comparison *c = t->c;
    const uint64_t *a = c->sides[0].kept.record.metrics, *b = c->sides[1].kept.record.metrics;
    uint64_t reserved[2] = {a[ASIM_METRIC_peak_reserved_bytes], b[ASIM_METRIC_peak_reserved_bytes]};
    uint64_t end[2] = {a[ASIM_METRIC_reserved_bytes], b[ASIM_METRIC_reserved_bytes]};
    uint64_t stall[2] = {a[ASIM_METRIC_stall_ns], b[ASIM_METRIC_stall_ns]};
    bool more = reserved[1] > reserved[0];
    char x[ASIM_UNITS_MAX], y[ASIM_UNITS_MAX], z[ASIM_UNITS_MAX];
    heading(t, "In short");
    if (reserved[0] == reserved[1])
        fprintf(t->out, "  both reserve %s at most\n", asim_human_bytes(reserved[0], x));
    else
        fprintf(t->out, "  B reserves %s %s at most: %s against %s\n",
                asim_human_bytes(more ? reserved[1] - reserved[0] : reserved[0] - reserved[1], x),
                more ? "more" : "less", asim_human_bytes(reserved[1], y), asim_human_bytes(reserved[0], z));
    const uint64_t *shown = c->replayed ? reserved : end;
    if (c->has_views && shown[0] != shown[1])
        print_parts(t, shown[1] > shown[0]);
    if (stall[0] != stall[1])
        fprintf(t->out,
                "  B stalls the host for %s, A for %s (driver calls %" PRIu64 " and %" PRIu64
                ", retries %" PRIu64 " and %" PRIu64 ")\n",
                asim_human_ns(stall[1], x), asim_human_ns(stall[0], y),
                b[ASIM_METRIC_device_allocs] + b[ASIM_METRIC_device_frees] + b[ASIM_METRIC_device_maps] +
                    b[ASIM_METRIC_device_unmaps],
                a[ASIM_METRIC_device_allocs] + a[ASIM_METRIC_device_frees] + a[ASIM_METRIC_device_maps] +
                    a[ASIM_METRIC_device_unmaps],
                b[ASIM_METRIC_alloc_retries], a[ASIM_METRIC_alloc_retries]);
    if (a[ASIM_METRIC_ooms] != b[ASIM_METRIC_ooms])
        fprintf(t->out, "  requests refused for lack of memory: %" PRIu64 " in B, %" PRIu64 " in A\n",
                b[ASIM_METRIC_ooms], a[ASIM_METRIC_ooms]);
}

void asim_compare_print_table(FILE *out, const asim_comparison *comparison, bool colour)
{
    table t = {out, colour, comparison};
    print_side(&t, 0);
    print_side(&t, 1);
    if (!comparison->differs) {
        heading(&t, "Equal");
        fprintf(out, "  every metric%s is the same\n", comparison->same_trace ? " and every placement" : "");
        return;
    }
    print_why(&t);
    print_metrics(&t);
    print_failures(&t);
    print_parting(&t);
    print_phases(&t);
    print_views(&t);
}
