/* import_dump FILE: imports a recording and prints what came of it, one fact a line, for scripts to check.
 * import_dump --count FILE: counts only, nothing is kept; for measurements. */
#include "traces/input.h"
#include "traces/native.h"
#include "traces/torch_snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct tally {
    uint64_t events, calls, notes;
    uint32_t strings, stacks, lanes, devices;
} tally;

static asim_code count_string(void *ctx, const char *text, size_t length, uint32_t *ret_index, asim_err *err)
{
    (void)text, (void)length, (void)err;
    *ret_index = ((tally *)ctx)->strings++;
    return ASIM_OK;
}

static asim_code count_stack(void *ctx, const asim_frame *frames, size_t count, uint32_t *ret_index,
                             asim_err *err)
{
    (void)frames, (void)count, (void)err;
    *ret_index = ((tally *)ctx)->stacks++;
    return ASIM_OK;
}

static asim_code count_device(void *ctx, const asim_trace_device *device, uint32_t *ret_index, asim_err *err)
{
    (void)device, (void)err;
    *ret_index = ((tally *)ctx)->devices++;
    return ASIM_OK;
}

static asim_code count_lane(void *ctx, const asim_lane *lane, uint32_t *ret_index, asim_err *err)
{
    (void)lane, (void)err;
    *ret_index = ((tally *)ctx)->lanes++ & 0xFF;
    return ASIM_OK;
}

static asim_code count_opening(void *ctx, const asim_opening_segment *segment,
                               const asim_opening_block *blocks, size_t block_count, asim_err *err)
{
    (void)ctx, (void)segment, (void)blocks, (void)block_count, (void)err;
    return ASIM_OK;
}

static asim_code count_event(void *ctx, const asim_sink_event *event, asim_err *err)
{
    (void)event, (void)err;
    ((tally *)ctx)->events++;
    return ASIM_OK;
}

static asim_code count_call(void *ctx, const asim_recorded_call *call, asim_err *err)
{
    (void)call, (void)err;
    ((tally *)ctx)->calls++;
    return ASIM_OK;
}

static asim_code count_text(void *ctx, const char *text, asim_err *err)
{
    (void)text, (void)err;
    ((tally *)ctx)->notes++;
    return ASIM_OK;
}

static asim_code count_start(void *ctx, uint64_t unix_ns, asim_err *err)
{
    (void)ctx, (void)unix_ns, (void)err;
    return ASIM_OK;
}

static const asim_sink_ops count_ops = {
    .string = count_string,
    .stack = count_stack,
    .device = count_device,
    .lane = count_lane,
    .opening = count_opening,
    .event = count_event,
    .call = count_call,
    .source = count_text,
    .settings = count_text,
    .start = count_start,
    .note = count_text,
};

static void print_trace(const asim_trace *t)
{
    if (t->source != ASIM_NO_INDEX)
        printf("source %s\n", t->strings[t->source].text);
    if (t->settings != ASIM_NO_INDEX)
        printf("settings %s\n", t->strings[t->settings].text);
    printf("start %" PRIu64 "\ndevices %" PRIu32 "\n", t->start_unix_ns, t->device_count);
    for (uint32_t i = 0; i < t->note_count; i++)
        printf("note %s\n", t->strings[t->notes[i]].text);
    for (uint32_t i = 0; i < t->lane_count; i++)
        printf("lane %" PRIu32 " %u %" PRIu64 " %u\n", i, t->lanes[i].device, t->lanes[i].stream,
               t->lanes[i].pool);
    for (uint32_t i = 0; i < t->stack_count; i++) {
        printf("stack %" PRIu32, i);
        for (uint32_t k = 0; k < t->stack_table[i].count; k++) {
            const asim_frame *f = &t->frames[t->stack_frames[t->stack_table[i].first + k]];
            printf("\t%s\t%s\t%" PRIu32, t->strings[f->function].text, t->strings[f->file].text, f->line);
        }
        printf("\n");
    }
    for (uint32_t i = 0; i < t->opening_segment_count; i++) {
        const asim_opening_segment *s = &t->opening_segments[i];
        printf("segment %" PRIu64 " %" PRIu64 " %u %u %u %d\n", s->address, s->size, s->lane, s->small,
               s->expandable, (int)s->stack);
        for (uint32_t k = 0; k < s->block_count; k++) {
            const asim_opening_block *b = &t->opening_blocks[s->first_block + k];
            printf("block %" PRIu64 " %" PRIu64 " %u %d %d\n", b->size, b->requested, b->state, (int)b->id,
                   (int)b->stack);
        }
    }
    uint32_t call = 0;
    for (uint64_t i = 0; i < t->event_count; i++) {
        const asim_event *e = &t->events[i];
        for (; call < t->call_count && t->calls[call].event == i; call++)
            printf("call %u %u %" PRIu64 " %" PRIu64 "\n", t->calls[call].kind, t->calls[call].lane,
                   t->calls[call].address, t->calls[call].size);
        printf("event %s %u %u %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRId64 " %d",
               asim_event_kind_name(e->kind), e->flags, e->lane, e->id, e->size,
               t->times_ns ? t->times_ns[i] : 0,
               t->recorded_addresses ? (int64_t)t->recorded_addresses[i] : -1,
               t->stacks ? (int)t->stacks[i] : -1);
        if (e->kind == ASIM_EV_MARK)
            printf(" %s", t->strings[e->id].text);
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    const asim_hostmem *mem = asim_hostmem_libc();
    asim_err err = ASIM_ERR_INIT;
    bool count = argc == 3 && strcmp(argv[1], "--count") == 0;
    if (argc != 2 && !count) {
        fprintf(stderr, "usage: import_dump [--count] FILE\n");
        return ASIM_E_USAGE;
    }
    asim_file_input *file = NULL;
    asim_trace_builder *builder = NULL;
    asim_trace *trace = NULL;
    tally counts = {0};
    asim_code code = asim_file_input_open(argv[argc - 1], mem, &file, &err);
    if (!code && !count)
        code = asim_trace_builder_new(mem, &builder, &err);
    if (!code) {
        asim_input input = asim_file_input_stream(file);
        asim_sink sink = count ? (asim_sink){&count_ops, &counts} : asim_trace_builder_sink(builder);
        code = asim_importer_torch_snapshot.import(&input, &sink, mem, &err);
    }
    asim_file_input_close(file);
    if (builder) {
        asim_code finished = asim_trace_builder_finish(builder, code ? NULL : &trace, code ? NULL : &err);
        code = code ? code : finished;
    }
    if (code) {
        fprintf(stderr, "import_dump: %s: %s\n", argv[argc - 1], err.message);
        return (int)code;
    }
    if (count)
        printf("events %" PRIu64 " calls %" PRIu64 " stacks %" PRIu32 "\n", counts.events, counts.calls,
               counts.stacks);
    else
        print_trace(trace);
    asim_trace_release(trace);
    return 0;
}
