/* What compare stands on: rows and their order, the observer that finds a parting, call sites, operands. The
 * observer is told by hand what a run would tell it. */
#include "tests/trace_sample.h"
#include "tools/compare.h"
#include "traces/native.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* --- rows --- */

Test(compare, rows_are_ordered_by_difference_then_count_then_size_then_key)
{
    asim_rows rows;
    asim_rows_init(&rows, asim_hostmem_libc());
    cr_assert_eq(asim_rows_add(&rows, 0, "same, small", 10, NULL), ASIM_OK);
    cr_assert_eq(asim_rows_add(&rows, 1, "same, small", 10, NULL), ASIM_OK);
    cr_assert_eq(asim_rows_add(&rows, 0, "b: minus 5", 5, NULL), ASIM_OK);
    cr_assert_eq(asim_rows_add(&rows, 1, "a: plus 5", 5, NULL), ASIM_OK);
    cr_assert_eq(asim_rows_add(&rows, 1, "plus 7", 4, NULL), ASIM_OK);
    cr_assert_eq(asim_rows_add(&rows, 1, "plus 7", 3, NULL), ASIM_OK);
    cr_assert_eq(asim_rows_add(&rows, 0, "same, two for one", 8, NULL), ASIM_OK);
    cr_assert_eq(asim_rows_add(&rows, 1, "same, two for one", 4, NULL), ASIM_OK);
    cr_assert_eq(asim_rows_add(&rows, 1, "same, two for one", 4, NULL), ASIM_OK);
    asim_rows_sort(&rows);
    static const char *const keys[] = {"plus 7", "a: plus 5", "b: minus 5", "same, two for one",
                                       "same, small"};
    cr_assert_eq(rows.count, 5);
    for (size_t i = 0; i < 5; i++)
        cr_assert_str_eq(rows.rows[i].key, keys[i]);
    cr_assert_eq(rows.rows[0].bytes[0], 0);
    cr_assert_eq(rows.rows[0].bytes[1], 7);
    cr_assert_eq(rows.rows[0].count[1], 2);
    asim_rows_fini(&rows);
}

/* --- the observer --- */

static const asim_event events[] = {{.kind = ASIM_EV_ALLOC, .id = 0, .size = 100},
                                    {.kind = ASIM_EV_ALLOC, .id = 1, .size = 200},
                                    {.kind = ASIM_EV_FREE, .id = 0}};
static const uint32_t stacks[] = {4, 5, 6};
static const asim_lane lanes[] = {{.stream = 0}};
static const asim_trace trace = {
    .events = events, .event_count = 3, .stacks = stacks, .lanes = lanes, .lane_count = 1};

static asim_observer_state *state_of(asim_watch *watch)
{
    asim_observer_state *state = calloc(1, asim_watch_observer.state_size);
    asim_watch_observer.init(state, watch, asim_hostmem_libc(), NULL);
    return state;
}

static void placed(asim_observer_state *state, uint64_t address, uint64_t size)
{
    const asim_placement placement = {.address = address, .size = size, .rounded = size};
    cr_assert_eq(asim_watch_observer.placed(state, &events[0], &placement, NULL), ASIM_OK);
}

static void call(asim_observer_state *state, asim_call_kind kind, uint64_t address, uint64_t size)
{
    const asim_driver_call made = {.kind = kind, .address = address, .size = size};
    cr_assert_eq(asim_watch_observer.call(state, &made, NULL), ASIM_OK);
}

static void after(asim_observer_state *state, uint64_t event, uint64_t reserved, uint64_t allocated)
{
    const asim_books books = {.event = event, .reserved = reserved, .allocated = allocated};
    cr_assert_eq(asim_watch_observer.after(state, &events[event], &books, NULL, NULL), ASIM_OK);
}

/* Runs the three events with the second placed at address, and frees the state. */
static void replay(asim_watch *watch, uint64_t address)
{
    asim_observer_state *state = state_of(watch);
    cr_assert_eq(asim_watch_begin(watch, 0, 0, NULL), ASIM_OK);
    call(state, ASIM_CALL_SEGMENT_ALLOC, 0x1000, 4096);
    placed(state, 0x1000, 512);
    after(state, 0, 4096, 512);
    placed(state, address, 512);
    after(state, 1, 4096, 1024);
    cr_assert_eq(asim_watch_observer.freed(state, 0x1000, 512, false, NULL), ASIM_OK);
    after(state, 2, 4096, 512);
    asim_watch_end(watch);
    free(state);
}

Test(compare, runs_part_at_the_first_other_placement)
{
    asim_watch a, b, c;
    cr_assert_eq(asim_watch_init(&a, &trace, true, NULL, asim_hostmem_libc(), NULL), ASIM_OK);
    cr_assert_eq(asim_watch_init(&b, &trace, true, &a, asim_hostmem_libc(), NULL), ASIM_OK);
    cr_assert_eq(asim_watch_init(&c, &trace, true, &a, asim_hostmem_libc(), NULL), ASIM_OK);
    replay(&a, 0x1200);
    replay(&b, 0x1200);
    replay(&c, 0x1400);
    cr_assert_eq(b.part_event, ASIM_WATCH_NEVER);
    cr_assert_eq(c.part_event, 1);
    /* Reserved never grows after event 0; most of it is allocated after event 1. */
    cr_assert_eq(a.peak_event, 1);
    cr_assert_eq(a.peak_held, 4096);
    asim_watch_fini(&a);
    asim_watch_fini(&b);
    asim_watch_fini(&c);
}

/* Of two traces, where blocks lie does not count, but what is asked for does, and that one goes on. */
Test(compare, traces_part_where_they_ask_for_something_else)
{
    static const asim_event other_events[] = {{.kind = ASIM_EV_ALLOC, .id = 0, .size = 100},
                                              {.kind = ASIM_EV_ALLOC, .id = 1, .size = 200},
                                              {.kind = ASIM_EV_FREE, .id = 1}};
    asim_trace other = trace, shorter = trace;
    other.events = other_events;
    shorter.event_count = 2;
    asim_watch a, b, c;
    cr_assert_eq(asim_watch_init(&a, &trace, false, NULL, asim_hostmem_libc(), NULL), ASIM_OK);
    cr_assert_eq(asim_watch_init(&b, &other, false, &a, asim_hostmem_libc(), NULL), ASIM_OK);
    replay(&a, 0x1200);
    replay(&b, 0x1400);
    cr_assert_eq(b.part_event, 2);
    cr_assert_eq(asim_watch_init(&c, &shorter, false, &a, asim_hostmem_libc(), NULL), ASIM_OK);
    asim_observer_state *state = state_of(&c);
    cr_assert_eq(asim_watch_begin(&c, 0, 0, NULL), ASIM_OK);
    call(state, ASIM_CALL_SEGMENT_ALLOC, 0x9000, 4096);
    placed(state, 0x9000, 512);
    after(state, 0, 4096, 512);
    placed(state, 0x9200, 512);
    after(state, 1, 4096, 1024);
    asim_watch_end(&c);
    cr_assert_eq(c.part_event, 2, "the shorter trace ends where the longer one goes on");
    free(state);
    asim_watch_fini(&a);
    asim_watch_fini(&b);
    asim_watch_fini(&c);
}

/* Memory that goes back in other pieces than it came: [0, 30) by event 0 and [30, 40) by event 1, then [10,
 * 20) goes, then [25, 35): what stays is [0, 10), [20, 25) of the first and [35, 40) of the second. */
Test(compare, held_memory_is_cut_by_what_goes_back)
{
    static const asim_held stays[] = {{0, 10, 4, 0}, {20, 5, 4, 0}, {35, 5, 5, 0}};
    asim_watch watch = {.mem = asim_hostmem_libc(),
                        .trace = &trace,
                        .second = true,
                        .peak_event = ASIM_WATCH_NEVER,
                        .look_event = ASIM_WATCH_NEVER};
    asim_observer_state *state = state_of(&watch);
    cr_assert_eq(asim_watch_begin(&watch, 0, 0, NULL), ASIM_OK);
    call(state, ASIM_CALL_MAP, 0, 30);
    after(state, 0, 30, 0);
    call(state, ASIM_CALL_MAP, 30, 10);
    call(state, ASIM_CALL_UNMAP, 10, 10);
    call(state, ASIM_CALL_UNMAP, 25, 10);
    cr_assert_eq(watch.held_count, 3);
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(watch.held[i].address, stays[i].address);
        cr_assert_eq(watch.held[i].size, stays[i].size);
        cr_assert_eq(watch.held[i].stack, stays[i].stack);
    }
    call(state, ASIM_CALL_SEGMENT_FREE, 0, 100);
    cr_assert_eq(watch.held_count, 0);
    free(state);
    asim_watch_fini(&watch);
}

/* --- both passes --- */

/* A trace under two settings, as the verb does it. */
static asim_code compare_all(const asim_cli *cli, const asim_trace *sample, asim_comparison *c, asim_err *err)
{
    const asim_compare_request requests[2] = {{.setup = {.policy = "torchcache"}},
                                              {.setup = {.policy = "native"}}};
    asim_watch watches[2] = {{.mem = NULL}, {.mem = NULL}};
    asim_comparison_init(c, cli->mem);
    c->same_trace = c->replayed = true;
    asim_code code = ASIM_OK;
    for (unsigned i = 0; i < 2 && !code; i++) {
        code = asim_watch_init(&watches[i], sample, true, i ? &watches[0] : NULL, cli->mem, err);
        if (!code)
            code = asim_compare_replay(cli, &requests[i], sample, &watches[i], &c->sides[i], err);
    }
    c->parted = !code && watches[1].part_event != ASIM_WATCH_NEVER;
    c->part_event = watches[1].part_event;
    for (unsigned i = 0; i < 2 && !code; i++)
        code = asim_compare_explain(cli, &requests[i], c, i, err);
    asim_watch_fini(&watches[0]);
    asim_watch_fini(&watches[1]);
    return code;
}

static uint64_t sum(const asim_rows *rows, unsigned side)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < rows->count; i++)
        bytes += rows->rows[i].bytes[side];
    return bytes;
}

/* Every view accounts for all that is reserved at the peak, and every refused request for host memory is an
 * error that leaves nothing behind. */
Test(compare, host_memory_refused_at_each_request)
{
    asim_trace *sample = sample_new();
    asim_code code = ASIM_E_SYSTEM;
    for (uint64_t n = 0; code; n++) {
        sample_memory memory;
        sample_memory_init(&memory, n);
        const asim_cli cli = {.mem = &memory.mem, .quiet = true};
        asim_err err = ASIM_ERR_INIT;
        asim_comparison *c = calloc(1, sizeof *c);
        code = compare_all(&cli, sample, c, &err);
        cr_assert(code == ASIM_OK || code == ASIM_E_SYSTEM, "%s", err.message);
        for (unsigned side = 0; side < 2 && !code; side++) {
            cr_assert_neq(c->sides[side].peak_held, 0);
            for (unsigned view = 0; view < ASIM_VIEW_LIVE; view++)
                cr_assert_eq(sum(&c->views[view], side), c->sides[side].peak_held, "side %u, %s", side,
                             asim_compare_view_name((asim_compare_view)view));
        }
        asim_comparison_fini(c, cli.mem);
        free(c);
        cr_assert_eq(memory.bytes, 0, "request %lu", (unsigned long)n);
    }
    asim_trace_release(sample);
}

/* --- call sites --- */

#define TEXT(literal)                                                                                        \
    {                                                                                                        \
        literal, sizeof(literal) - 1                                                                         \
    }

Test(compare, a_call_site_is_the_innermost_line_that_tells_most)
{
    static const asim_string strings[] = {TEXT("torch::unwind::unwind()"),
                                          TEXT("at::_ops::mul::call(x)"),
                                          TEXT("torch::autograd::generated::MulBackward0::apply(x)"),
                                          TEXT("linear"),
                                          TEXT("step\n"),
                                          TEXT("??"),
                                          TEXT("C:\\venv\\site-packages\\torch\\nn.py"),
                                          TEXT("/srv/train.py")};
    static const asim_frame frames[] = {{0, 5, 0}, {1, 5, 0}, {2, 5, 0}, {3, 6, 9}, {4, 7, 12}, {4, 7, 99}};
    static const uint32_t lines[] = {0, 1, 2, 3, 4, 5};
    static const asim_stack table[] = {{0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 6}, {0, 0}};
    static const char *const sites[] = {"torch::unwind::unwind() (??:0)",
                                        "at::_ops::mul::call(x) (??:0)",
                                        "torch::autograd::generated::MulBackward0::apply(x) (??:0)",
                                        "linear (C:\\venv\\site-packages\\torch\\nn.py:9)",
                                        "step? (/srv/train.py:12)",
                                        "(no call stack)"};
    const asim_trace stacked = {.strings = strings,
                                .string_count = 8,
                                .frames = frames,
                                .frame_count = 6,
                                .stack_frames = lines,
                                .stack_frame_count = 6,
                                .stack_table = table,
                                .stack_count = 6};
    char site[ASIM_ROW_KEY];
    for (uint32_t i = 0; i < 6; i++) {
        asim_compare_site(&stacked, i, site, sizeof site);
        cr_assert_str_eq(site, sites[i]);
    }
    asim_compare_site(&stacked, ASIM_NO_INDEX, site, sizeof site);
    cr_assert_str_eq(site, "(no call stack)");
}

/* --- operands --- */

Test(compare, a_run_of_a_store_is_named_after_a_colon)
{
    char file[ASIM_COMPARE_TEXT];
    int64_t run = 0;
    cr_assert(asim_compare_names_store("missing.db:12", file, &run));
    cr_assert_str_eq(file, "missing.db");
    cr_assert_eq(run, 12);
    cr_assert_not(asim_compare_names_store("missing.db", file, &run));
    cr_assert_not(asim_compare_names_store("missing.db:", file, &run));
    cr_assert_not(asim_compare_names_store("missing.db:0", file, &run));
    cr_assert_not(asim_compare_names_store("missing.db:1x", file, &run));
    cr_assert_not(asim_compare_names_store("missing.db:99999999999999999999", file, &run));
}
