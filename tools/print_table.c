/* `run --format table`: one screen, most important first, exact bytes beside what people read. */
#include "tools/outcome.h"
#include "tools/units.h"

#include <inttypes.h>
#include <string.h>

#define BOLD  "\033[1m"
#define RED   "\033[1;31m"
#define GREEN "\033[1;32m"
#define PLAIN "\033[0m"

typedef struct table {
    FILE *out;
    bool colour;
    const asim_outcome *outcome;
    const uint64_t *metrics;
} table;

static void heading(const table *t, const char *text)
{
    fprintf(t->out, "\n%s%s%s\n", t->colour ? BOLD : "", text, t->colour ? PLAIN : "");
}

static void two_columns(const table *t, const char *label, asim_metric peak, asim_metric end)
{
    char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX];
    fprintf(t->out, "  %-26s %11s %12" PRIu64 "  %11s %12" PRIu64 "\n", label,
            asim_human_bytes(t->metrics[peak], a), t->metrics[peak], asim_human_bytes(t->metrics[end], b),
            t->metrics[end]);
}

static void gap_row(const table *t, const char *label, uint64_t bytes)
{
    char human[ASIM_UNITS_MAX];
    fprintf(t->out, "  %-52s %11s %12" PRIu64 "\n", label, asim_human_bytes(bytes, human), bytes);
}

static void print_head(const table *t)
{
    const asim_stored_run *run = &t->outcome->run;
    char text[ASIM_UNITS_MAX];
    fprintf(t->out, "%s%s%s\n", t->colour ? BOLD : "", run->trace_path, t->colour ? PLAIN : "");
    fprintf(t->out, "  trace   %s events", asim_human_count(run->trace_events, text));
    if (run->trace_source[0])
        fprintf(t->out, ", from %s", run->trace_source);
    if (run->trace_devices > 1)
        fprintf(t->out, ", %" PRIu32 " devices (sums below)", run->trace_devices);
    fprintf(t->out, "\n  policy  %s  %s", run->policy, run->params[0] ? run->params : "(default settings)");
    if (t->outcome->setup.torch[0])
        fprintf(t->out, "  [PyTorch %s%s]", t->outcome->setup.torch,
                t->outcome->setup.torch_recorded ? ", by the recording" : "");
    fprintf(t->out, "\n  device  %s, %s, costs %s\n", run->device,
            asim_human_bytes(run->record.capacity, text),
            t->outcome->profile.measured ? "measured" : "estimated");
}

static void print_memory(const table *t)
{
    const uint64_t *m = t->metrics;
    fprintf(t->out, "\n%s%-28s %11s %12s  %11s %12s%s\n", t->colour ? BOLD : "", "Memory", "peak", "bytes",
            "at the end", "bytes", t->colour ? PLAIN : "");
    two_columns(t, "requested by the program", ASIM_METRIC_peak_requested_bytes, ASIM_METRIC_requested_bytes);
    two_columns(t, "allocated (block sizes)", ASIM_METRIC_peak_allocated_bytes, ASIM_METRIC_allocated_bytes);
    two_columns(t, "active (with pending)", ASIM_METRIC_peak_active_bytes, ASIM_METRIC_active_bytes);
    two_columns(t, "reserved from the device", ASIM_METRIC_peak_reserved_bytes, ASIM_METRIC_reserved_bytes);
    two_columns(t, "as nvidia-smi shows it", ASIM_METRIC_peak_smi_bytes, ASIM_METRIC_smi_bytes);

    heading(t, "Where the gap between reserved and requested is, at the end");
    uint64_t free_bytes = m[ASIM_METRIC_free_bytes], pinned = m[ASIM_METRIC_pinned_bytes];
    gap_row(t, "rounding and slack inside allocated blocks", m[ASIM_METRIC_internal_frag_bytes]);
    gap_row(t, "freed blocks that wait for another stream",
            m[ASIM_METRIC_active_bytes] - m[ASIM_METRIC_allocated_bytes]);
    gap_row(t, "free, but pinned by live blocks of the same segment", pinned);
    gap_row(t, "free in whole segments (empty_cache returns them)",
            free_bytes > pinned ? free_bytes - pinned : 0);
    char peak[ASIM_UNITS_MAX], largest[ASIM_UNITS_MAX], gap[ASIM_UNITS_MAX];
    fprintf(
        t->out,
        "  at most %s were pinned; largest free block %s;\n  peak active fell short of peak reserved by %s\n",
        asim_human_bytes(m[ASIM_METRIC_peak_pinned_bytes], peak),
        asim_human_bytes(m[ASIM_METRIC_largest_free_bytes], largest),
        asim_human_ppm(m[ASIM_METRIC_reserve_gap_ppm], gap));
}

static void print_calls(const table *t)
{
    const uint64_t *m = t->metrics;
    char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX];
    heading(t, "Driver calls and time");
    fprintf(t->out, "  cudaMalloc %" PRIu64 ", cudaFree %" PRIu64 ", map %" PRIu64 ", unmap %" PRIu64 "\n",
            m[ASIM_METRIC_device_allocs], m[ASIM_METRIC_device_frees], m[ASIM_METRIC_device_maps],
            m[ASIM_METRIC_device_unmaps]);
    fprintf(t->out, "  retries %" PRIu64 ", cache flushes %" PRIu64 ", waits for events %" PRIu64 "\n",
            m[ASIM_METRIC_alloc_retries], m[ASIM_METRIC_cache_flushes], m[ASIM_METRIC_sync_waits]);
    uint64_t wall = t->outcome->run.wall_ns ? t->outcome->run.wall_ns : 1;
    fprintf(t->out, "  the allocator stalled the host for %s; replayed in %s, %.1f M events/s\n",
            asim_human_ns(m[ASIM_METRIC_stall_ns], a), asim_human_ns(wall, b),
            (double)t->outcome->run.trace_events * 1e3 / (double)wall);
}

/* Words of text, in lines of at most 94 letters, indented by four. */
static void print_wrapped(FILE *out, const char *text)
{
    size_t column = 0;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (column > 0 && column + 1 + word > 90)
            column = 0;
        column += (size_t)fprintf(out, "%s%.*s", column ? " " : "\n    ", (int)word, text) - (column ? 0 : 5);
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

static void print_failures(const table *t)
{
    const asim_run_record *record = &t->outcome->run.record;
    char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX];
    heading(t, "Failures");
    if (record->status == ASIM_RUN_ERROR)
        fprintf(t->out, "  %sthe run ended early%s, at event %" PRIu64 ": this is what held then\n",
                t->colour ? RED : "", t->colour ? PLAIN : "", t->metrics[ASIM_METRIC_events]);
    if (!record->has_oom) {
        fprintf(t->out, "  none: every request%s was served\n",
                record->status == ASIM_RUN_ERROR ? " before that" : "");
        return;
    }
    const asim_oom *oom = &record->oom;
    uint64_t ooms = t->metrics[ASIM_METRIC_ooms];
    fprintf(t->out, "  %s%" PRIu64 " request%s ran out of memory%s; the first:\n", t->colour ? RED : "", ooms,
            ooms == 1 ? "" : "s", t->colour ? PLAIN : "");
    fprintf(t->out, "  event %" PRIu64 " on device %" PRIu32 " asked for %s (%" PRIu64 ")\n", oom->event,
            oom->device, asim_human_bytes(oom->requested_bytes, a), oom->requested_bytes);
    if (oom->segment_bytes)
        fprintf(t->out, "  a segment of %s was needed; the device had %s free\n",
                asim_human_bytes(oom->segment_bytes, a), asim_human_bytes(oom->device_free_bytes, b));
    else
        fprintf(t->out, "  the policy refused it without asking the device\n");
    fprintf(t->out, "  reserved %s", asim_human_bytes(oom->reserved_bytes, a));
    fprintf(t->out, ", of which allocated %s; largest free block %s\n",
            asim_human_bytes(oom->allocated_bytes, a), asim_human_bytes(oom->largest_free_bytes, b));
    const char *message = asim_outcome_message(t->outcome);
    if (message) {
        fprintf(t->out, "  PyTorch would say:");
        print_wrapped(t->out, message);
    }
}

static void print_side(const table *t, const char *side, bool is_call, uint32_t kind, uint64_t address)
{
    static const char *const calls[] = {"cudaMalloc ", "cudaFree ", "map ", "unmap "};
    char text[ASIM_UNITS_MAX];
    fprintf(t->out, "    %-9s  ", side);
    if (is_call && kind == ASIM_CALL_OOM) /* its address is what the device had free */
        fprintf(t->out, "out of memory, %s free\n", asim_human_bytes(address, text));
    else if (address == ASIM_NO_ADDRESS)
        fprintf(t->out, "nothing\n");
    else
        fprintf(t->out, "%s0x%" PRIx64 "\n", is_call && kind < ASIM_CALL_OOM ? calls[kind] : "", address);
}

static void print_mismatch(const table *t)
{
    const asim_mismatch *mismatch = &t->outcome->run.record.mismatch;
    char size[ASIM_UNITS_MAX];
    fprintf(t->out, "  first difference: event %" PRIu64 ", %s", mismatch->event,
            mismatch->is_call ? "driver call" : "allocation");
    fprintf(t->out, ", stream 0x%" PRIx64 ", %s (%" PRIu64 ")\n", t->outcome->run.mismatch_stream,
            asim_human_bytes(mismatch->size, size), mismatch->size);
    print_side(t, "recorded", mismatch->is_call, mismatch->recorded_kind, mismatch->recorded_address);
    print_side(t, "simulated", mismatch->is_call, mismatch->kind, mismatch->address);
}

static void print_agreement(const table *t)
{
    const asim_run_record *record = &t->outcome->run.record;
    const uint64_t *m = t->metrics;
    if (!record->has_recorded)
        return;
    bool all = m[ASIM_METRIC_recorded_matches] == m[ASIM_METRIC_recorded_allocs] &&
               m[ASIM_METRIC_recorded_call_matches] == m[ASIM_METRIC_recorded_calls];
    heading(t, "Agreement with the recording");
    fprintf(t->out, "  %s%" PRIu64 " of %" PRIu64 " allocations at the recorded address%s\n",
            t->colour ? (all ? GREEN : RED) : "", m[ASIM_METRIC_recorded_matches],
            m[ASIM_METRIC_recorded_allocs], t->colour ? PLAIN : "");
    fprintf(t->out, "  %" PRIu64 " of %" PRIu64 " driver calls in the recorded order\n",
            m[ASIM_METRIC_recorded_call_matches], m[ASIM_METRIC_recorded_calls]);
    if (record->has_mismatch)
        print_mismatch(t);
}

void asim_print_table(FILE *out, const asim_outcome *outcome, bool colour)
{
    table t = {out, colour, outcome, outcome->run.record.metrics};
    print_head(&t);
    print_memory(&t);
    print_failures(&t);
    print_agreement(&t);
    print_calls(&t);
    fprintf(out, "\nplacement digest %016" PRIx64 "\n", outcome->run.record.placement_digest);
    if (outcome->db && outcome->is_new)
        fprintf(out, "stored as run %" PRId64 " in %s\n", outcome->run_id, outcome->db);
    else if (outcome->db)
        fprintf(out, "already stored as run %" PRId64 " in %s\n", outcome->run_id, outcome->db);
    else
        fprintf(out, "not stored\n");
}
