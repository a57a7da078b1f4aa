/* The sink that builds a trace in memory, and the copy from a trace to a sink. */
#include "traces/body.h"
#include "traces/check.h"
#include "traces/digest.h"
#include "traces/native.h"

struct asim_trace_builder {
    const asim_hostmem *mem;
    asim_body *body;
    asim_checker checker;
    bool opening_done; /* checked, which happens before the first event or at the end */
    asim_err failure;  /* the first one: the trace can't be finished */
};

/* Remembers the first failure. */
static asim_code keep(asim_trace_builder *builder, asim_code code, asim_err *err)
{
    if (code && !builder->failure.code) {
        if (err)
            builder->failure = *err;
        else
            asim_fail(&builder->failure, code, "an earlier call on the trace builder failed");
    }
    return code;
}

static asim_code end_opening(asim_trace_builder *builder, asim_err *err)
{
    if (builder->opening_done)
        return ASIM_OK;
    builder->opening_done = true;
    asim_body_view(builder->body);
    return asim_checker_opening(&builder->checker, &builder->body->trace, err);
}

static asim_code build_string(void *ctx, const char *text, size_t length, uint32_t *ret_index, asim_err *err)
{
    asim_trace_builder *builder = ctx;
    return keep(builder, asim_tables_string(&builder->body->tables, text, length, ret_index, err), err);
}

static asim_code build_stack(void *ctx, const asim_frame *frames, size_t count, uint32_t *ret_index,
                             asim_err *err)
{
    asim_trace_builder *builder = ctx;
    return keep(builder, asim_tables_stack(&builder->body->tables, frames, count, ret_index, err), err);
}

static asim_code build_device(void *ctx, const asim_trace_device *device, uint32_t *ret_index, asim_err *err)
{
    asim_trace_builder *builder = ctx;
    return keep(builder, asim_tables_device(&builder->body->tables, device, ret_index, err), err);
}

static asim_code build_lane(void *ctx, const asim_lane *lane, uint32_t *ret_index, asim_err *err)
{
    asim_trace_builder *builder = ctx;
    return keep(builder, asim_tables_lane(&builder->body->tables, lane, ret_index, err), err);
}

static asim_code build_opening(void *ctx, const asim_opening_segment *segment,
                               const asim_opening_block *blocks, size_t block_count, asim_err *err)
{
    asim_trace_builder *builder = ctx;
    asim_body *body = builder->body;
    if (builder->opening_done)
        return keep(builder, asim_fail(err, ASIM_E_INPUT, "opening state after the first event"), err);
    asim_opening_segment own = *segment;
    own.first_block = (uint32_t)body->block_count;
    own.block_count = (uint32_t)block_count;
    asim_code code = asim_body_segment(body, &own, err);
    for (size_t i = 0; !code && i < block_count; i++)
        code = asim_body_block(body, &blocks[i], err);
    return keep(builder, code, err);
}

static asim_code build_event(void *ctx, const asim_sink_event *event, asim_err *err)
{
    asim_trace_builder *builder = ctx;
    asim_code code = end_opening(builder, err);
    if (!code) {
        asim_tables_view(&builder->body->tables, &builder->body->trace);
        code = asim_checker_events(&builder->checker, &builder->body->trace, &event->event, &event->time_ns,
                                   &event->recorded_address, &event->stack, 1, err);
    }
    if (!code)
        code = asim_body_event(builder->body, event, err);
    return code ? keep(builder, code, err) : ASIM_OK;
}

static asim_code build_call(void *ctx, const asim_recorded_call *call, asim_err *err)
{
    asim_trace_builder *builder = ctx;
    asim_body *body = builder->body;
    asim_recorded_call own = *call;
    own.event = body->event_count;
    asim_tables_view(&body->tables, &body->trace);
    asim_code code = asim_check_call(&body->trace, NULL, &own, own.event, err);
    return keep(builder, code ? code : asim_body_call(body, &own, err), err);
}

static asim_code build_source(void *ctx, const char *format, asim_err *err)
{
    asim_trace_builder *builder = ctx;
    return keep(builder, asim_tables_source(&builder->body->tables, format, err), err);
}

static asim_code build_settings(void *ctx, const char *text, asim_err *err)
{
    asim_trace_builder *builder = ctx;
    return keep(builder, asim_tables_settings(&builder->body->tables, text, err), err);
}

static asim_code build_start(void *ctx, uint64_t unix_ns, asim_err *err)
{
    (void)err;
    asim_trace_builder *builder = ctx;
    builder->body->tables.start_unix_ns = unix_ns;
    return ASIM_OK;
}

static asim_code build_note(void *ctx, const char *text, asim_err *err)
{
    asim_trace_builder *builder = ctx;
    return keep(builder, asim_tables_note(&builder->body->tables, text, err), err);
}

static const asim_sink_ops builder_ops = {
    .string = build_string,
    .stack = build_stack,
    .device = build_device,
    .lane = build_lane,
    .opening = build_opening,
    .event = build_event,
    .call = build_call,
    .source = build_source,
    .settings = build_settings,
    .start = build_start,
    .note = build_note,
};

asim_code asim_trace_builder_new(const asim_hostmem *mem, asim_trace_builder **ret_builder, asim_err *err)
{
    asim_trace_builder *builder = asim_mem_new(mem, 1, sizeof *builder);
    if (!builder)
        return asim_fail_memory(err, sizeof *builder);
    builder->mem = mem;
    builder->body = asim_body_new(mem, err);
    if (!builder->body) {
        asim_mem_free(mem, builder, 1, sizeof *builder);
        return ASIM_E_SYSTEM;
    }
    asim_checker_init(&builder->checker, mem);
    *ret_builder = builder;
    return ASIM_OK;
}

asim_sink asim_trace_builder_sink(asim_trace_builder *builder)
{
    return (asim_sink){&builder_ops, builder};
}

asim_code asim_trace_builder_finish(asim_trace_builder *builder, asim_trace **ret_trace, asim_err *err)
{
    asim_code code = ASIM_OK;
    if (ret_trace) {
        code = builder->failure.code;
        if (code && err)
            *err = builder->failure;
        if (!code)
            code = end_opening(builder, err);
    }
    asim_body *body = builder->body;
    if (ret_trace && !code) {
        asim_body_view(body);
        body->trace.slot_count = builder->checker.slot_count;
        body->trace.digest = asim_trace_digest(&body->trace);
        asim_tables_seal(&body->tables);
        *ret_trace = &body->trace;
    } else {
        asim_body_free(body);
    }
    asim_checker_fini(&builder->checker);
    asim_mem_free(builder->mem, builder, 1, sizeof *builder);
    return code;
}

static asim_code copy_tables(const asim_trace *trace, const asim_sink *sink, const asim_hostmem *mem,
                             asim_err *err)
{
    const asim_sink_ops *ops = sink->ops;
    asim_code code = ASIM_OK;
    uint32_t index;
    for (uint32_t i = 0; !code && i < trace->string_count; i++) {
        code = ops->string(sink->ctx, trace->strings[i].text, trace->strings[i].length, &index, err);
        if (!code && index != i)
            code = asim_fail(err, ASIM_E_USAGE, "a trace is copied to a sink that holds something already");
    }
    asim_frame *frames = NULL;
    size_t capacity = 0;
    for (uint32_t i = 0; !code && i < trace->stack_count; i++) {
        const asim_stack *stack = &trace->stack_table[i];
        code = asim_mem_grow(mem, (void **)&frames, &capacity, stack->count, sizeof *frames, err);
        for (uint32_t k = 0; !code && k < stack->count; k++)
            frames[k] = trace->frames[trace->stack_frames[stack->first + k]];
        if (!code)
            code = ops->stack(sink->ctx, frames, stack->count, &index, err);
    }
    asim_mem_free(mem, frames, capacity, sizeof *frames);
    for (uint32_t i = 0; !code && i < trace->device_count; i++)
        code = ops->device(sink->ctx, &trace->devices[i], &index, err);
    for (uint32_t i = 0; !code && i < trace->lane_count; i++)
        code = ops->lane(sink->ctx, &trace->lanes[i], &index, err);
    if (!code && trace->source != ASIM_NO_INDEX)
        code = ops->source(sink->ctx, trace->strings[trace->source].text, err);
    if (!code && trace->settings != ASIM_NO_INDEX)
        code = ops->settings(sink->ctx, trace->strings[trace->settings].text, err);
    if (!code && trace->start_unix_ns)
        code = ops->start(sink->ctx, trace->start_unix_ns, err);
    for (uint32_t i = 0; !code && i < trace->note_count; i++)
        code = ops->note(sink->ctx, trace->strings[trace->notes[i]].text, err);
    return code;
}

asim_code asim_trace_copy(const asim_trace *trace, const asim_sink *sink, asim_err *err)
{
    const asim_sink_ops *ops = sink->ops;
    asim_code code = copy_tables(trace, sink, asim_hostmem_libc(), err);
    for (uint32_t i = 0; !code && i < trace->opening_segment_count; i++) {
        const asim_opening_segment *segment = &trace->opening_segments[i];
        code = ops->opening(sink->ctx, segment, trace->opening_blocks + segment->first_block,
                            segment->block_count, err);
    }
    uint32_t call = 0;
    for (uint64_t i = 0; !code && i <= trace->event_count; i++) {
        for (; !code && call < trace->call_count && trace->calls[call].event <= i; call++)
            code = ops->call(sink->ctx, &trace->calls[call], err);
        if (code || i == trace->event_count)
            break;
        asim_sink_event event = {
            .event = trace->events[i],
            .time_ns = trace->times_ns ? trace->times_ns[i] : 0,
            .recorded_address = trace->recorded_addresses ? trace->recorded_addresses[i] : ASIM_NO_ADDRESS,
            .stack = trace->stacks ? trace->stacks[i] : ASIM_NO_INDEX,
        };
        code = ops->event(sink->ctx, &event, err);
    }
    return code;
}
