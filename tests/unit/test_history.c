/* The history observer, told by hand what a run would tell it. Orders and sizes are those of the
 * specification's section 20. */
#include "sim/history.h"
#include "tests/trace_sample.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEGMENT = 2 << 20
};

static const asim_lane lanes[] = {{.stream = 0}, {.stream = 77}};
static const uint32_t stacks[] = {4, 5, 6, 7, 8, 9};
static const asim_opening_block opening_blocks[] = {
    {.size = 1024, .requested = 1000, .id = 2, .stack = 40, .state = ASIM_BLOCK_LIVE},
    {.size = SEGMENT - 1024, .id = ASIM_NO_INDEX, .stack = ASIM_NO_INDEX}};
static const asim_opening_segment opening_segments[] = {
    {.address = 0x100000, .size = SEGMENT, .block_count = 2, .stack = 41}};
static const asim_trace trace = {.event_count = 6,
                                 .slot_count = 4,
                                 .stacks = stacks,
                                 .lanes = lanes,
                                 .lane_count = 2,
                                 .opening_segments = opening_segments,
                                 .opening_segment_count = 1,
                                 .opening_blocks = opening_blocks,
                                 .opening_block_count = 2};

typedef struct watch { /* one observer and the history behind it */
    asim_history *history;
    asim_observer_state *state;
    uint64_t event;
} watch;

static asim_code watch_new(watch *w, uint64_t capacity, const asim_hostmem *mem, asim_err *err)
{
    memset(w, 0, sizeof *w);
    asim_code code = asim_history_new(&trace, capacity, mem, &w->history, err);
    if (code)
        return code;
    w->state = calloc(1, asim_history_observer.state_size);
    return asim_history_observer.init(w->state, w->history, mem, err);
}

static void watch_free(watch *w)
{
    free(w->state);
    asim_history_free(w->history);
}

static asim_code place(watch *w, uint64_t address, uint64_t size, uint64_t block, unsigned lane, uint32_t id,
                       asim_err *err)
{
    const asim_event event = {.kind = ASIM_EV_ALLOC, .lane = (uint16_t)lane, .id = id, .size = size};
    const asim_placement placement = {.address = address, .size = block, .rounded = block};
    return asim_history_observer.placed(w->state, &event, &placement, err);
}

static asim_code tell(watch *w, asim_call_kind kind, uint64_t address, uint64_t size, asim_err *err)
{
    const asim_driver_call call = {.kind = kind, .address = address, .size = size, .lane = 1};
    return asim_history_observer.call(w->state, &call, err);
}

static void next(watch *w)
{
    const asim_event event = {.kind = ASIM_EV_ALLOC};
    const asim_books books = {.event = w->event++};
    cr_assert_eq(asim_history_observer.after(w->state, &event, &books, NULL, NULL), ASIM_OK);
}

#define ENTRY(number, what, where, bytes, of_lane, at_event)                                                 \
    do {                                                                                                     \
        const asim_history_entry *entry = asim_history_at(w.history, number);                                \
        cr_assert_eq(entry->kind, what, "entry %d is a %d", (int)(number), (int)entry->kind);                \
        cr_assert_eq(entry->address, where);                                                                 \
        cr_assert_eq(entry->size, bytes, "entry %d has size %d", (int)(number), (int)entry->size);           \
        cr_assert_eq(entry->lane, of_lane);                                                                  \
        cr_assert_eq(entry->event, at_event);                                                                \
    } while (0)

/* R140 and R141: entries of frees carry the requested size and the lane of the allocation, also where the
 * allocation was before the history began. R143: the order within an event. */
Test(history, entries_carry_what_was_asked_for)
{
    watch w;
    asim_history_block block;
    cr_assert_eq(watch_new(&w, UINT64_MAX, asim_hostmem_libc(), NULL), ASIM_OK);
    cr_assert_eq(place(&w, 0x100000, 1000, 1024, 0, 2, NULL), ASIM_OK);
    cr_assert_eq(asim_history_count(w.history), 0, "the opening state is no history");
    asim_history_begin(w.history);

    tell(&w, ASIM_CALL_SEGMENT_ALLOC, 0x900000, SEGMENT, NULL);
    place(&w, 0x900000, 100, 512, 1, 0, NULL);
    next(&w);
    asim_history_observer.freed(w.state, 0x900000, 512, true, NULL); /* waits for another stream */
    next(&w);
    cr_assert(asim_history_block_at(w.history, 0x900000, &block));
    cr_assert_eq(block.requested, 100);
    cr_assert_eq(block.stack, 4);
    cr_assert_eq(block.lane, 1);
    asim_history_observer.completed(w.state, 0x900000, 512, NULL);
    cr_assert_not(asim_history_block_at(w.history, 0x900000, &block));
    place(&w, 0x900200, 300, 512, 1, 0, NULL);
    next(&w);
    cr_assert(asim_history_block_at(w.history, 0x100000, &block));
    cr_assert_eq(block.stack, 40, "the opening state's stack");
    asim_history_observer.freed(w.state, 0x100000, 1024, false, NULL);
    next(&w);
    tell(&w, ASIM_CALL_OOM, 12345, 1 << 30, NULL);
    next(&w);

    cr_assert_eq(asim_history_count(w.history), 8);
    cr_assert_eq(asim_history_events(w.history), 5);
    ENTRY(0, ASIM_HISTORY_SEGMENT_ALLOC, 0x900000, SEGMENT, 1, 0);
    ENTRY(1, ASIM_HISTORY_ALLOC, 0x900000, 100, 1, 0);
    ENTRY(2, ASIM_HISTORY_FREE_REQUESTED, 0x900000, 100, 1, 1);
    ENTRY(3, ASIM_HISTORY_FREE_COMPLETED, 0x900000, 100, 1, 2);
    ENTRY(4, ASIM_HISTORY_ALLOC, 0x900200, 300, 1, 2);
    ENTRY(5, ASIM_HISTORY_FREE_REQUESTED, 0x100000, 1000, 0, 3);
    ENTRY(6, ASIM_HISTORY_FREE_COMPLETED, 0x100000, 1000, 0, 3);
    ENTRY(7, ASIM_HISTORY_OOM, 12345, 1 << 30, 1, 4);
    watch_free(&w);
}

/* A policy that returns memory within a free: the free comes first in the history. */
Test(history, releases_of_a_free_come_after_it)
{
    for (uint64_t capacity = 1; capacity < 8; capacity++) {
        static const int kinds[] = {ASIM_HISTORY_ALLOC, ASIM_HISTORY_FREE_REQUESTED,
                                    ASIM_HISTORY_FREE_COMPLETED, ASIM_HISTORY_UNMAP,
                                    ASIM_HISTORY_SEGMENT_FREE};
        watch w;
        cr_assert_eq(watch_new(&w, capacity, asim_hostmem_libc(), NULL), ASIM_OK);
        asim_history_begin(w.history);
        place(&w, 0x900000, 100, 512, 0, 0, NULL);
        next(&w);
        tell(&w, ASIM_CALL_UNMAP, 0xA00000, SEGMENT, NULL);
        tell(&w, ASIM_CALL_SEGMENT_FREE, 0x900000, SEGMENT, NULL);
        asim_history_observer.freed(w.state, 0x900000, 512, false, NULL);
        uint64_t count = asim_history_count(w.history);
        cr_assert_eq(count, capacity < 5 ? capacity : 5);
        /* Of a ring too small for all of it, the frees are entered last and so they are what is kept. */
        for (uint64_t i = 0; i < count && capacity >= 5; i++)
            cr_assert_eq(asim_history_at(w.history, i)->kind, kinds[5 - count + i]);
        watch_free(&w);
    }
}

/* R136: the ring holds the latest, and reads from the oldest on. */
Test(history, the_ring_overwrites_the_oldest)
{
    watch w;
    cr_assert_eq(watch_new(&w, 3, asim_hostmem_libc(), NULL), ASIM_OK);
    asim_history_begin(w.history);
    for (uint64_t i = 0; i < 1000; i++) {
        place(&w, 0x1000 * (i + 1), i + 1, 4096, 0, 0, NULL);
        next(&w);
        cr_assert_eq(asim_history_count(w.history), i + 1 < 3 ? i + 1 : 3);
    }
    for (unsigned i = 0; i < 3; i++)
        ENTRY(i, ASIM_HISTORY_ALLOC, 0x1000U * (998 + i), 998 + i, 0, 997 + i);
    asim_err err = ASIM_ERR_INIT;
    asim_history *none = NULL;
    cr_assert_eq(asim_history_new(&trace, 0, asim_hostmem_libc(), &none, &err), ASIM_E_USAGE);
    cr_assert_null(none);
    watch_free(&w);
}

/* The stack of a segment is known until a smaller block is cut from its beginning. */
Test(history, a_cut_segment_loses_its_stack)
{
    watch w;
    cr_assert_eq(watch_new(&w, 10, asim_hostmem_libc(), NULL), ASIM_OK);
    cr_assert_eq(asim_history_segment_stack(w.history, 0x100000), 41);
    asim_history_begin(w.history);
    next(&w);
    tell(&w, ASIM_CALL_SEGMENT_ALLOC, 0x900000, SEGMENT, NULL);
    place(&w, 0x900000, SEGMENT - 5, SEGMENT, 0, 0, NULL);
    cr_assert_eq(asim_history_segment_stack(w.history, 0x900000), 5, "of event 1");
    asim_history_observer.freed(w.state, 0x900000, SEGMENT, false, NULL);
    place(&w, 0x900000, 512, 512, 0, 0, NULL);
    cr_assert_eq(asim_history_segment_stack(w.history, 0x900000), ASIM_NO_INDEX);
    tell(&w, ASIM_CALL_SEGMENT_FREE, 0x100000, SEGMENT, NULL);
    cr_assert_eq(asim_history_segment_stack(w.history, 0x100000), ASIM_NO_INDEX);
    watch_free(&w);
}

static asim_code use_all(const asim_hostmem *mem, asim_err *err)
{
    watch w;
    asim_code code = watch_new(&w, UINT64_MAX, mem, err);
    if (!code)
        code = place(&w, 0x100000, 1000, 1024, 0, 2, err);
    if (!code)
        asim_history_begin(w.history);
    for (uint64_t i = 0; i < 100 && !code; i++) {
        code = tell(&w, ASIM_CALL_SEGMENT_ALLOC, 0x900000 + i * SEGMENT, SEGMENT, err);
        if (!code)
            code = place(&w, 0x900000 + i * SEGMENT, 100, 512, 0, 0, err);
        if (!code && i % 3 == 0)
            code = asim_history_observer.freed(w.state, 0x900000 + i * SEGMENT, 512, i % 2, err);
        if (!code)
            next(&w);
    }
    watch_free(&w);
    return code;
}

Test(history, host_memory_refused_at_each_request)
{
    asim_code code = ASIM_E_SYSTEM;
    uint64_t n = 0;
    for (; code && n < 10000; n++) {
        sample_memory memory;
        asim_err err = ASIM_ERR_INIT;
        sample_memory_init(&memory, n);
        code = use_all(&memory.mem, &err);
        cr_assert_eq(memory.bytes, 0, "request %d: memory is not given back", (int)n);
        cr_assert(!code || (code == ASIM_E_SYSTEM && err.message[0]));
    }
    cr_assert(!code && n > 5);
}
