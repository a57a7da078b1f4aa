#include "sim/buf.h"
#include "traces/kinds.h"
#include "traces/text.h"
#include "traces/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const char *const asim_sync_words[] = {"stream", "device", "all", NULL};
const char *const asim_mark_words[] = {"iteration", "phase", "request", "other", NULL};
const char *const asim_phase_words[] = {"point", "begin", "end", NULL};
const char *const asim_reset_words[] = {"peaks", "totals", NULL};
const char *const asim_call_words[] = {"segment_alloc", "segment_free", "map", "unmap", "oom", NULL};
const char *const asim_block_words[] = {"free", "live", "pending", NULL};

enum {
    FLUSH_BYTES = 1 << 14
};

typedef struct writer {
    const asim_trace *trace;
    const asim_text_out *out;
    asim_buf buf;
    asim_err *err;
    asim_code code; /* the first failure; the rest does nothing */
    uint64_t time_ns;
} writer;

#define PRINT(w, ...)                                                                                        \
    do {                                                                                                     \
        if (!(w)->code)                                                                                      \
            (w)->code = asim_buf_printf(&(w)->buf, (w)->err, __VA_ARGS__);                                   \
    } while (0)

static void flush(writer *w, size_t least)
{
    if (w->code || w->buf.length < least || w->buf.length == 0)
        return;
    w->code = w->out->write(w->out->ctx, (const char *)w->buf.bytes, w->buf.length, w->err);
    asim_buf_reset(&w->buf);
}

static void end_line(writer *w)
{
    PRINT(w, "\n");
    flush(w, FLUSH_BYTES);
}

static void print_string(writer *w, uint32_t index)
{
    const asim_string *string = &w->trace->strings[index];
    PRINT(w, "\"");
    for (uint32_t i = 0; i < string->length; i++) {
        unsigned char c = (unsigned char)string->text[i];
        if (c == '"' || c == '\\')
            PRINT(w, "\\%c", c);
        else if (c == '\n')
            PRINT(w, "\\n");
        else if (c < 0x20 || c == 0x7F)
            PRINT(w, "\\x%02x", c);
        else if (!w->code)
            w->code = asim_buf_u8(&w->buf, c, w->err);
    }
    PRINT(w, "\"");
}

static void print_lane(writer *w, unsigned lane)
{
    if (lane == ASIM_LANE_ALL)
        PRINT(w, " lane=all");
    else if (lane != 0)
        PRINT(w, " lane=%u", lane);
}

static void print_stack(writer *w, uint32_t stack)
{
    if (stack != ASIM_NO_INDEX)
        PRINT(w, " stack=%" PRIu32, stack);
}

/* The shortest decimal that reads back as the same double. */
static void print_fraction(writer *w, uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (memcmp(&back, &value, sizeof back) == 0)
            break;
    }
    PRINT(w, " %s", text);
}

static void print_event(writer *w, uint64_t i)
{
    const asim_trace *trace = w->trace;
    const asim_event *event = &trace->events[i];
    const asim_kind_rule *rule = &asim_kind_rules[event->kind];
    uint64_t time_ns = trace->times_ns ? trace->times_ns[i] : 0;
    if (time_ns != w->time_ns)
        PRINT(w, "@%" PRIu64 " ", time_ns);
    w->time_ns = time_ns;
    PRINT(w, "%s", asim_event_kind_name(event->kind));
    if (rule->id == ASIM_ID_NEW || rule->id == ASIM_ID_LIVE || rule->id == ASIM_ID_PENDING)
        PRINT(w, " %" PRIu32, event->id);
    if (rule->size == ASIM_SIZE_BYTES || rule->size == ASIM_SIZE_TIME)
        PRINT(w, " %" PRIu64, event->size);
    if (event->kind == ASIM_EV_SYNC)
        PRINT(w, " %s", asim_sync_words[event->id]);
    else if (event->kind == ASIM_EV_STATS_RESET)
        PRINT(w, " %s", asim_reset_words[event->id]);
    else if (event->kind == ASIM_EV_FRACTION)
        print_fraction(w, event->size);
    else if (event->kind == ASIM_EV_MARK)
        PRINT(w, " %s %s", asim_phase_words[event->flags], asim_mark_words[event->size]);
    if (rule->id == ASIM_ID_STRING) {
        PRINT(w, " ");
        print_string(w, event->id);
    }
    if (event->kind == ASIM_EV_FREE && (event->flags & ASIM_FREE_PENDING))
        PRINT(w, " pending");
    if (event->kind == ASIM_EV_ALLOC)
        PRINT(w, "%s%s", event->flags & ASIM_ALLOC_UNMOVABLE ? " unmovable" : "",
              event->flags & ASIM_ALLOC_GROWS ? " grows" : "");
    if (event->kind == ASIM_EV_POOL_RETAIN)
        PRINT(w, "%s%s", event->flags & ASIM_POOL_USE_ON_OOM ? " use_on_oom" : "",
              event->flags & ASIM_POOL_NO_SPLIT ? " no_split" : "");
    if (event->kind == ASIM_EV_POOL_BEGIN)
        PRINT(w, "%s%s", event->flags & ASIM_POOL_ALL ? " all" : "",
              event->flags & ASIM_POOL_CAPTURE ? " capture" : "");
    if (event->kind == ASIM_EV_TRIM && event->lane == 0)
        PRINT(w, " lane=0");
    else if (event->lane != ASIM_LANE_ALL) /* what sync all and trim mean of themselves */
        print_lane(w, event->lane);
    if (trace->recorded_addresses && trace->recorded_addresses[i] != ASIM_NO_ADDRESS)
        PRINT(w, " at=0x%" PRIx64, trace->recorded_addresses[i]);
    if (trace->stacks)
        print_stack(w, trace->stacks[i]);
    end_line(w);
}

static void print_call(writer *w, const asim_recorded_call *call)
{
    PRINT(w, "call %s 0x%" PRIx64 " %" PRIu64, asim_call_words[call->kind], call->address, call->size);
    print_lane(w, call->lane);
    end_line(w);
}

static void print_events(writer *w, uint64_t first, uint64_t count)
{
    const asim_trace *trace = w->trace;
    uint64_t end = count < trace->event_count - first ? first + count : trace->event_count;
    uint32_t call = 0;
    while (call < trace->call_count && trace->calls[call].event < first)
        call++;
    for (uint64_t i = first; i < end && !w->code; i++) {
        for (; call < trace->call_count && trace->calls[call].event <= i; call++)
            print_call(w, &trace->calls[call]);
        print_event(w, i);
    }
    for (; end == trace->event_count && call < trace->call_count; call++)
        print_call(w, &trace->calls[call]);
}

static void print_strings(writer *w)
{
    const asim_trace *trace = w->trace;
    PRINT(w, "ids slots");
    end_line(w);
    for (uint32_t i = 0; i < trace->string_count; i++) {
        PRINT(w, "string ");
        print_string(w, i);
        end_line(w);
    }
    if (trace->source != ASIM_NO_INDEX) {
        PRINT(w, "source ");
        print_string(w, trace->source);
        end_line(w);
    }
    if (trace->settings != ASIM_NO_INDEX) {
        PRINT(w, "recorded_settings ");
        print_string(w, trace->settings);
        end_line(w);
    }
    if (trace->start_unix_ns) {
        PRINT(w, "start %" PRIu64, trace->start_unix_ns);
        end_line(w);
    }
    for (uint32_t i = 0; i < trace->note_count; i++) {
        PRINT(w, "note ");
        print_string(w, trace->notes[i]);
        end_line(w);
    }
}

static void print_tables(writer *w)
{
    const asim_trace *trace = w->trace;
    for (uint32_t i = 0; i < trace->frame_count; i++) {
        PRINT(w, "frame %" PRIu32 " ", i);
        print_string(w, trace->frames[i].function);
        PRINT(w, " ");
        print_string(w, trace->frames[i].file);
        PRINT(w, " %" PRIu32, trace->frames[i].line);
        end_line(w);
    }
    for (uint32_t i = 0; i < trace->stack_count; i++) {
        PRINT(w, "stack %" PRIu32, i);
        for (uint32_t k = 0; k < trace->stack_table[i].count; k++)
            PRINT(w, " %" PRIu32, trace->stack_frames[trace->stack_table[i].first + k]);
        end_line(w);
    }
    for (uint32_t i = 0; i < trace->device_count; i++) {
        PRINT(w, "device %" PRIu32 " capacity=%" PRIu64, i, trace->devices[i].capacity);
        if (trace->devices[i].name != ASIM_NO_INDEX) {
            PRINT(w, " name=");
            print_string(w, trace->devices[i].name);
        }
        end_line(w);
    }
    for (uint32_t i = 0; i < trace->lane_count; i++) {
        const asim_lane *lane = &trace->lanes[i];
        PRINT(w, "lane %" PRIu32 " device=%u stream=0x%" PRIx64 " pool=%u", i, lane->device, lane->stream,
              lane->pool);
        end_line(w);
    }
}

static void print_opening(writer *w)
{
    const asim_trace *trace = w->trace;
    for (uint32_t i = 0; i < trace->opening_segment_count; i++) {
        const asim_opening_segment *segment = &trace->opening_segments[i];
        PRINT(w, "segment 0x%" PRIx64 " %" PRIu64 "%s%s", segment->address, segment->size,
              segment->small ? " small" : "", segment->expandable ? " expandable" : "");
        print_lane(w, segment->lane);
        print_stack(w, segment->stack);
        end_line(w);
        for (uint32_t k = 0; k < segment->block_count; k++) {
            const asim_opening_block *block = &trace->opening_blocks[segment->first_block + k];
            PRINT(w, "block %s", asim_block_words[block->state]);
            if (block->state != ASIM_BLOCK_FREE)
                PRINT(w, " %" PRIu32, block->id);
            PRINT(w, " %" PRIu64, block->size);
            if (block->requested)
                PRINT(w, " requested=%" PRIu64, block->requested);
            print_stack(w, block->stack);
            end_line(w);
        }
    }
}

asim_code asim_text_write(const asim_trace *trace, const asim_hostmem *mem, const asim_text_out *out,
                          asim_err *err)
{
    writer w = {.trace = trace, .out = out, .err = err};
    asim_buf_init(&w.buf, mem);
    print_strings(&w);
    print_tables(&w);
    print_opening(&w);
    print_events(&w, 0, trace->event_count);
    flush(&w, 0);
    asim_buf_fini(&w.buf);
    return w.code;
}

asim_code asim_text_write_events(const asim_trace *trace, uint64_t first, uint64_t count,
                                 const asim_hostmem *mem, const asim_text_out *out, asim_err *err)
{
    if (first > trace->event_count)
        return asim_fail(err, ASIM_E_USAGE, "there is no event %" PRIu64 ", the trace has %" PRIu64, first,
                         trace->event_count);
    writer w = {.trace = trace, .out = out, .err = err};
    asim_buf_init(&w.buf, mem);
    print_events(&w, first, count);
    flush(&w, 0);
    asim_buf_fini(&w.buf);
    return w.code;
}
