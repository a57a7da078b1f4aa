#include "sim/phases.h"

#include <string.h>

struct asim_observer_state {
    asim_phases *phases;
};

static asim_code phases_init(asim_observer_state *state, const void *config, const asim_hostmem *mem,
                             asim_err *err)
{
    (void)err;
    /* The caller's own object comes through the const pointer that every observer's config has. */
    memcpy(&state->phases, &config, sizeof config);
    state->phases->mem = mem;
    return ASIM_OK;
}

static void raise(uint64_t *peak, uint64_t value)
{
    if (value > *peak)
        *peak = value;
}

static void account(asim_phase *phase, const asim_books *books)
{
    raise(&phase->peak_requested, books->requested);
    raise(&phase->peak_allocated, books->allocated);
    raise(&phase->peak_active, books->active);
    raise(&phase->peak_reserved, books->reserved);
    phase->last_event = books->event;
    phase->end_ns = books->host_ns;
    phase->end_allocated = books->allocated;
    phase->end_reserved = books->reserved;
}

static void end_phase(asim_phases *all, const asim_event *event)
{
    for (uint32_t i = all->open_count; i-- > 0;) {
        asim_phase *phase = &all->phases[all->open[i]];
        if (phase->label != event->id || phase->kind != event->size)
            continue;
        phase->open = false;
        memmove(&all->open[i], &all->open[i + 1], (all->open_count - i - 1) * sizeof all->open[0]);
        all->open_count--;
        return;
    }
}

static asim_code phases_after(asim_observer_state *state, const asim_event *event, const asim_books *books,
                              const asim_policy_counters *counters, asim_err *err)
{
    (void)counters;
    asim_phases *all = state->phases;
    for (uint32_t i = 0; i < all->open_count; i++)
        account(&all->phases[all->open[i]], books);
    if (event->kind != ASIM_EV_MARK)
        return ASIM_OK;
    if (event->flags & ASIM_MARK_END) {
        end_phase(all, event);
        return ASIM_OK;
    }
    bool open = event->flags & ASIM_MARK_BEGIN;
    if (all->count == ASIM_PHASES_MAX || (open && all->open_count == ASIM_PHASES_OPEN_MAX))
        return ASIM_OK;
    void *items = all->phases;
    asim_code code = asim_mem_grow(all->mem, &items, &all->capacity, all->count + 1, sizeof(asim_phase), err);
    if (code)
        return code;
    all->phases = items;
    asim_phase *phase = &all->phases[all->count];
    *phase = (asim_phase){.label = event->id,
                          .kind = (uint8_t)event->size,
                          .open = open,
                          .first_event = books->event,
                          .begin_ns = books->host_ns};
    account(phase, books);
    if (open)
        all->open[all->open_count++] = (uint32_t)all->count;
    all->count++;
    return ASIM_OK;
}

const asim_observer asim_phases_observer = {
    .name = "phases", .state_size = sizeof(asim_observer_state), .init = phases_init, .after = phases_after};

void asim_phases_fini(asim_phases *phases)
{
    if (phases->mem)
        asim_mem_free(phases->mem, phases->phases, phases->capacity, sizeof(asim_phase));
    *phases = (asim_phases){0};
}
