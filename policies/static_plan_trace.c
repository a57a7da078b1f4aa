#include "policies/static_plan_trace.h"

#include <inttypes.h>

typedef struct reading {
    asim_trace_plan *plan;
    const asim_policy_env *env;
    uint64_t align;
    uint32_t *owners; /* slot -> request that holds it, and one; 0: none */
    uint64_t *spans;  /* of request i: its begin at 2 i, its end at 2 i + 1 */
    size_t span_room;
    uint64_t end; /* of all events */
} reading;

/* Bytes in the plan, or 0: it can't hold so many. */
static uint64_t planned_size(const reading *r, unsigned device, uint64_t size)
{
    if (size > r->env->capacities[device] || size > UINT64_MAX - r->align)
        return 0;
    const uint64_t rounded = (size + r->align - 1) / r->align * r->align;
    return rounded <= r->env->capacities[device] ? rounded : 0;
}

static asim_code add_request(reading *r, uint32_t slot, unsigned lane, uint64_t size, uint64_t time,
                             asim_err *err)
{
    asim_trace_plan *plan = r->plan;
    if (lane >= r->env->lane_count || r->env->lanes[lane].device >= r->env->device_count)
        return asim_fail(err, ASIM_E_INPUT, "an allocation on lane %u, which the trace doesn't have", lane);
    if (slot >= r->env->future->slot_count)
        return asim_fail(err, ASIM_E_INPUT, "an allocation in slot %" PRIu32 " of %" PRIu32, slot,
                         r->env->future->slot_count);
    if (plan->count == UINT32_MAX / 2)
        return asim_fail(err, ASIM_E_INPUT, "more allocations than a plan can hold");
    void *requests = plan->requests, *spans = r->spans;
    asim_code code = asim_mem_grow(plan->memory, &requests, &plan->request_room, (size_t)plan->count + 1,
                                   sizeof *plan->requests, err);
    plan->requests = requests;
    if (!code)
        code = asim_mem_grow(plan->memory, &spans, &r->span_room, 2 * ((size_t)plan->count + 1),
                             sizeof *r->spans, err);
    r->spans = spans;
    if (code)
        return code;
    const unsigned device = r->env->lanes[lane].device;
    plan->requests[plan->count] =
        (asim_plan_request){.asked = size, .size = planned_size(r, device, size), .device = (uint16_t)device};
    r->spans[2 * (size_t)plan->count] = time;
    r->spans[2 * (size_t)plan->count + 1] = r->end;
    r->owners[slot] = ++plan->count;
    return ASIM_OK;
}

static void end_request(reading *r, uint32_t slot, uint64_t time)
{
    if (r->owners[slot])
        r->spans[2 * (size_t)(r->owners[slot] - 1) + 1] = time;
    r->owners[slot] = 0;
}

static void grow_request(reading *r, uint32_t slot, uint64_t size)
{
    asim_plan_request *request = r->owners[slot] ? &r->plan->requests[r->owners[slot] - 1] : NULL;
    if (!request || !request->size)
        return;
    const uint64_t planned = planned_size(r, request->device, size);
    request->size = planned > request->size ? planned : request->size;
}

static asim_code read_event(reading *r, const asim_event *event, uint64_t time, asim_err *err)
{
    const bool names_block = event->kind == ASIM_EV_ALLOC || event->kind == ASIM_EV_FREE ||
                             event->kind == ASIM_EV_FREE_DONE || event->kind == ASIM_EV_RESIZE;
    if (!names_block)
        return ASIM_OK;
    if (event->id >= r->env->future->slot_count)
        return asim_fail(err, ASIM_E_INPUT, "event %" PRIu64 " names slot %" PRIu32 " of %" PRIu32, time - 1,
                         event->id, r->env->future->slot_count);
    if (event->kind == ASIM_EV_ALLOC)
        return add_request(r, event->id, event->lane, event->size, time, err);
    if (event->kind == ASIM_EV_RESIZE)
        grow_request(r, event->id, event->size);
    else if (event->kind == ASIM_EV_FREE_DONE || !(event->flags & ASIM_FREE_PENDING))
        end_request(r, event->id, time);
    return ASIM_OK;
}

static asim_code read_trace(reading *r, asim_err *err)
{
    const asim_trace *trace = r->env->future;
    asim_code code = ASIM_OK;
    for (uint32_t s = 0; s < trace->opening_segment_count && !code; s++) {
        const asim_opening_segment *segment = &trace->opening_segments[s];
        for (uint32_t b = 0; b < segment->block_count && !code; b++) {
            const asim_opening_block *block = &trace->opening_blocks[segment->first_block + b];
            if (block->state != ASIM_BLOCK_FREE)
                code = add_request(r, block->id, segment->lane,
                                   block->requested ? block->requested : block->size, 0, err);
        }
    }
    for (uint64_t i = 0; i < trace->event_count && !code; i++)
        code = read_event(r, &trace->events[i], i + 1, err);
    return code;
}

static asim_code plan_device(reading *r, uint32_t device, const asim_plan_options *options, asim_err *err)
{
    asim_trace_plan *plan = r->plan;
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->count; i++)
        count += plan->requests[i].device == device && plan->requests[i].size;
    if (count == 0)
        return ASIM_OK;
    asim_plan_buffer *buffers = asim_mem_new(plan->memory, count, sizeof *buffers);
    if (!buffers)
        return asim_fail_memory(err, count * sizeof *buffers);
    for (uint32_t i = 0, k = 0; i < plan->count; i++)
        if (plan->requests[i].device == device && plan->requests[i].size)
            buffers[k++] = (asim_plan_buffer){.begin = r->spans[2 * (size_t)i],
                                              .end = r->spans[2 * (size_t)i + 1],
                                              .size = plan->requests[i].size,
                                              .align = r->align};
    asim_code code = asim_plan_pack(buffers, count, options, plan->memory, &plan->results[device], err);
    for (uint32_t i = 0, k = 0; i < plan->count && !code; i++)
        if (plan->requests[i].device == device && plan->requests[i].size)
            plan->requests[i].offset = buffers[k++].offset;
    asim_mem_free(plan->memory, buffers, count, sizeof *buffers);
    return code;
}

asim_code asim_trace_plan_make(asim_trace_plan *plan, const asim_policy_env *env, uint64_t align,
                               const asim_plan_options *options, asim_err *err)
{
    const asim_hostmem *memory = env->memory;
    const uint32_t slots = env->future->slot_count;
    reading r = {.plan = plan, .env = env, .align = align, .end = env->future->event_count + 2};
    asim_code code = ASIM_OK;
    *plan = (asim_trace_plan){.memory = memory, .device_count = env->device_count};
    plan->results = asim_mem_new(memory, env->device_count, sizeof *plan->results);
    if (!plan->results || (slots && !(r.owners = asim_mem_new(memory, slots, sizeof *r.owners))))
        code = asim_fail_memory(err, slots * sizeof *r.owners);
    if (!code)
        code = read_trace(&r, err);
    for (uint32_t d = 0; d < env->device_count && !code; d++)
        if ((code = plan_device(&r, d, options, err)))
            asim_err_context(err, "the plan of device %" PRIu32, d);
    asim_mem_free(memory, r.owners, slots, sizeof *r.owners);
    asim_mem_free(memory, r.spans, r.span_room, sizeof *r.spans);
    return code;
}

void asim_trace_plan_fini(asim_trace_plan *plan)
{
    if (!plan->memory)
        return;
    asim_mem_free(plan->memory, plan->requests, plan->request_room, sizeof *plan->requests);
    asim_mem_free(plan->memory, plan->results, plan->device_count, sizeof *plan->results);
    *plan = (asim_trace_plan){.memory = NULL};
}
