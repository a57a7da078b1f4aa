#include "traces/gen.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    STEP_NS = 1000 /* between two events */
};

const asim_generator *const asim_generators[] = {&asim_gen_steady, &asim_gen_churn, &asim_gen_adversary,
                                                 &asim_gen_train, NULL};

const asim_generator *asim_generator_named(const char *name)
{
    for (size_t i = 0; asim_generators[i]; i++)
        if (strcmp(asim_generators[i]->name, name) == 0)
            return asim_generators[i];
    return NULL;
}

void asim_gen_begin(asim_gen_writer *w, const char *source, uint32_t streams, const asim_sink *sink,
                    const asim_hostmem *mem, asim_err *err)
{
    *w = (asim_gen_writer){.sink = sink, .mem = mem, .err = err};
    uint32_t device, lane;
    w->code = sink->ops->source(sink->ctx, source, err);
    if (!w->code)
        w->code = sink->ops->device(sink->ctx, &(asim_trace_device){ASIM_NO_INDEX, 0}, &device, err);
    for (uint32_t i = 0; i < streams && i < 64 && !w->code; i++) {
        w->code = sink->ops->lane(sink->ctx, &(asim_lane){.stream = i}, &lane, err);
        w->lanes[w->lane_count++] = (uint16_t)lane;
    }
}

asim_code asim_gen_end(asim_gen_writer *w)
{
    asim_mem_free(w->mem, w->spare, w->spare_capacity, sizeof *w->spare);
    w->spare = NULL;
    return w->code;
}

static void put(asim_gen_writer *w, asim_event event)
{
    if (w->code)
        return;
    w->time_ns += STEP_NS;
    w->events++;
    const asim_sink_event out = {event, w->time_ns, ASIM_NO_ADDRESS, ASIM_NO_INDEX};
    w->code = w->sink->ops->event(w->sink->ctx, &out, w->err);
}

uint32_t asim_gen_alloc(asim_gen_writer *w, uint64_t size, uint32_t stream, uint8_t flags)
{
    uint32_t slot = w->spare_count ? w->spare[--w->spare_count] : w->slot_count++;
    put(w, (asim_event){
               .kind = ASIM_EV_ALLOC, .flags = flags, .lane = w->lanes[stream], .id = slot, .size = size});
    return slot;
}

void asim_gen_free(asim_gen_writer *w, uint32_t slot)
{
    void *spare = w->spare;
    put(w, (asim_event){.kind = ASIM_EV_FREE, .id = slot});
    if (!w->code)
        w->code =
            asim_mem_grow(w->mem, &spare, &w->spare_capacity, w->spare_count + 1, sizeof *w->spare, w->err);
    w->spare = spare;
    if (!w->code)
        w->spare[w->spare_count++] = slot;
}

void asim_gen_use(asim_gen_writer *w, uint32_t slot, uint32_t stream)
{
    put(w, (asim_event){.kind = ASIM_EV_USE, .lane = w->lanes[stream], .id = slot});
}

void asim_gen_kernel(asim_gen_writer *w, uint32_t stream, uint64_t ns)
{
    put(w, (asim_event){.kind = ASIM_EV_KERNEL, .lane = w->lanes[stream], .size = ns});
}

void asim_gen_sync(asim_gen_writer *w)
{
    put(w, (asim_event){.kind = ASIM_EV_SYNC, .id = ASIM_SYNC_DEVICE, .lane = w->lanes[0]});
}

void asim_gen_mark(asim_gen_writer *w, asim_mark_kind kind, uint8_t flags, const char *label, uint64_t number)
{
    char text[128];
    uint32_t string;
    if (w->code)
        return;
    if (number == UINT64_MAX)
        snprintf(text, sizeof text, "%s", label);
    else
        snprintf(text, sizeof text, "%s %" PRIu64, label, number);
    w->code = w->sink->ops->string(w->sink->ctx, text, strlen(text), &string, w->err);
    put(w, (asim_event){.kind = ASIM_EV_MARK, .flags = flags, .id = string, .size = kind});
}

void asim_gen_note(asim_gen_writer *w, const char *text)
{
    if (!w->code)
        w->code = w->sink->ops->note(w->sink->ctx, text, w->err);
}

/* Powers of two by a draw of the exponent, then evenly in between: no floating point, so the same everywhere.
 */
uint64_t asim_gen_size(asim_rng *rng, uint64_t low, uint64_t high)
{
    if (low >= high)
        return low;
    unsigned first = 63 - (unsigned)__builtin_clzll(low | 1), last = 63 - (unsigned)__builtin_clzll(high);
    for (;;) {
        unsigned exponent = first + (unsigned)asim_rng_below(rng, last - first + 1);
        uint64_t size = (UINT64_C(1) << exponent) + asim_rng_below(rng, UINT64_C(1) << exponent);
        size = (size + 3) / 4 * 4;
        if (size >= low && size <= high)
            return size;
    }
}
