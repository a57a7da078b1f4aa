#include "traces/body.h"

#include "traces/native.h"

asim_body *asim_body_new(const asim_hostmem *mem, asim_err *err)
{
    asim_body *body = asim_mem_new(mem, 1, sizeof *body);
    if (!body) {
        asim_fail_memory(err, sizeof *body);
        return NULL;
    }
    body->mem = mem;
    asim_tables_init(&body->tables, mem);
    return body;
}

void asim_body_free(asim_body *body)
{
    if (!body)
        return;
    const asim_hostmem *mem = body->mem;
    asim_tables_fini(&body->tables);
    asim_mem_free(mem, body->events, body->event_capacity, sizeof *body->events);
    asim_mem_free(mem, body->times, body->time_capacity, sizeof *body->times);
    asim_mem_free(mem, body->addresses, body->address_capacity, sizeof *body->addresses);
    asim_mem_free(mem, body->stacks, body->stack_capacity, sizeof *body->stacks);
    asim_mem_free(mem, body->segments, body->segment_capacity, sizeof *body->segments);
    asim_mem_free(mem, body->blocks, body->block_capacity, sizeof *body->blocks);
    asim_mem_free(mem, body->calls, body->call_capacity, sizeof *body->calls);
    asim_mem_free(mem, body, 1, sizeof *body);
}

void asim_trace_release(asim_trace *trace)
{
    asim_body_free((asim_body *)(void *)trace);
}

static asim_code grow(const asim_body *body, void **items, size_t *capacity, size_t need, size_t item_size,
                      asim_err *err)
{
    return asim_mem_grow(body->mem, items, capacity, need, item_size, err);
}

asim_code asim_body_reserve(asim_body *body, size_t extra, asim_err *err)
{
    size_t need = body->event_count + extra;
    asim_code code =
        grow(body, (void **)&body->events, &body->event_capacity, need, sizeof *body->events, err);
    if (!code && body->times)
        code = grow(body, (void **)&body->times, &body->time_capacity, need, sizeof *body->times, err);
    if (!code && body->addresses)
        code = grow(body, (void **)&body->addresses, &body->address_capacity, need, sizeof *body->addresses,
                    err);
    if (!code && body->stacks)
        code = grow(body, (void **)&body->stacks, &body->stack_capacity, need, sizeof *body->stacks, err);
    return code;
}

asim_code asim_body_want_times(asim_body *body, asim_err *err)
{
    if (body->times)
        return ASIM_OK;
    asim_code code = grow(body, (void **)&body->times, &body->time_capacity, body->event_capacity + 1,
                          sizeof *body->times, err);
    for (size_t i = 0; !code && i < body->event_count; i++)
        body->times[i] = 0;
    return code;
}

asim_code asim_body_want_addresses(asim_body *body, asim_err *err)
{
    if (body->addresses)
        return ASIM_OK;
    asim_code code = grow(body, (void **)&body->addresses, &body->address_capacity, body->event_capacity + 1,
                          sizeof *body->addresses, err);
    for (size_t i = 0; !code && i < body->event_count; i++)
        body->addresses[i] = ASIM_NO_ADDRESS;
    return code;
}

asim_code asim_body_want_stacks(asim_body *body, asim_err *err)
{
    if (body->stacks)
        return ASIM_OK;
    asim_code code = grow(body, (void **)&body->stacks, &body->stack_capacity, body->event_capacity + 1,
                          sizeof *body->stacks, err);
    for (size_t i = 0; !code && i < body->event_count; i++)
        body->stacks[i] = ASIM_NO_INDEX;
    return code;
}

asim_code asim_body_event(asim_body *body, const asim_sink_event *event, asim_err *err)
{
    asim_code code = asim_body_reserve(body, 1, err);
    if (!code && event->time_ns != 0)
        code = asim_body_want_times(body, err);
    if (!code && event->recorded_address != ASIM_NO_ADDRESS)
        code = asim_body_want_addresses(body, err);
    if (!code && event->stack != ASIM_NO_INDEX)
        code = asim_body_want_stacks(body, err);
    if (code)
        return code;
    body->events[body->event_count] = event->event;
    if (body->times)
        body->times[body->event_count] = event->time_ns;
    if (body->addresses)
        body->addresses[body->event_count] = event->recorded_address;
    if (body->stacks)
        body->stacks[body->event_count] = event->stack;
    body->event_count++;
    return ASIM_OK;
}

static asim_code one_more(const asim_body *body, void **items, size_t *capacity, size_t count,
                          size_t item_size, asim_err *err)
{
    if (count >= ASIM_NO_INDEX - 1)
        return asim_fail(err, ASIM_E_INPUT, "a trace holds at most 2^32 segments, blocks or recorded calls");
    return grow(body, items, capacity, count + 1, item_size, err);
}

asim_code asim_body_segment(asim_body *body, const asim_opening_segment *segment, asim_err *err)
{
    asim_code code = one_more(body, (void **)&body->segments, &body->segment_capacity, body->segment_count,
                              sizeof *body->segments, err);
    if (!code)
        body->segments[body->segment_count++] = *segment;
    return code;
}

asim_code asim_body_block(asim_body *body, const asim_opening_block *block, asim_err *err)
{
    asim_code code = one_more(body, (void **)&body->blocks, &body->block_capacity, body->block_count,
                              sizeof *body->blocks, err);
    if (!code)
        body->blocks[body->block_count++] = *block;
    return code;
}

asim_code asim_body_call(asim_body *body, const asim_recorded_call *call, asim_err *err)
{
    asim_code code = one_more(body, (void **)&body->calls, &body->call_capacity, body->call_count,
                              sizeof *body->calls, err);
    if (!code)
        body->calls[body->call_count++] = *call;
    return code;
}

void asim_body_view(asim_body *body)
{
    asim_trace *trace = &body->trace;
    asim_tables_view(&body->tables, trace);
    trace->events = body->events;
    trace->event_count = body->event_count;
    trace->times_ns = body->times;
    trace->recorded_addresses = body->addresses;
    trace->stacks = body->stacks;
    trace->opening_segments = body->segments;
    trace->opening_segment_count = (uint32_t)body->segment_count;
    trace->opening_blocks = body->blocks;
    trace->opening_block_count = (uint32_t)body->block_count;
    trace->calls = body->calls;
    trace->call_count = (uint32_t)body->call_count;
}
