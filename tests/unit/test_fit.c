/* The smallest device: against brute force over every granule, and on traces whose answers are known by hand.
 */
#include "policies/registry.h"
#include "sim/fit.h"

#include <criterion/criterion.h>
#include <string.h>

#define MIB UINT64_C(1048576)

static const asim_lane lanes[] = {{.stream = 0}};
static const asim_trace_device devices[] = {{.name = ASIM_NO_INDEX}};
static asim_trace trace;
static asim_profile profile;
static max_align_t params[256];

static asim_fit_request request_for(const char *policy, const char *text, const asim_event *events,
                                    size_t count)
{
    const asim_policy *found = asim_policy_find(policy);
    cr_assert(found);
    cr_assert_leq(found->params.block_size, sizeof params);
    asim_params_default(&found->params, params);
    cr_assert_eq(asim_params_parse(&found->params, params, text, NULL), ASIM_OK);
    trace = (asim_trace){.events = events,
                         .event_count = count,
                         .slot_count = 64,
                         .lanes = lanes,
                         .lane_count = 1,
                         .devices = devices,
                         .device_count = 1};
    asim_profile_builtin("generic-80g", &profile);
    return (asim_fit_request){
        .config = {.trace = &trace, .policy = found, .params = params, .profile = &profile},
        .top = 512 * MIB,
        .max_runs = 10000,
        .jobs = 1};
}

static asim_fit find(const asim_fit_request *request)
{
    asim_fit fit;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_fit_find(request, asim_hostmem_libc(), &fit, &err), ASIM_OK, "%s", err.message);
    return fit;
}

static bool runs_at(const asim_fit_request *request, uint64_t capacity)
{
    asim_run_config config = request->config;
    asim_run_record record;
    asim_engine *engine;
    config.capacity = capacity;
    cr_assert_eq(asim_engine_new(&config, asim_hostmem_libc(), &engine, NULL), ASIM_OK);
    cr_assert_eq(asim_engine_run(engine, NULL), ASIM_OK);
    asim_engine_record(engine, &record);
    asim_engine_free(engine);
    return record.status == ASIM_RUN_OK;
}

static bool says(const asim_fit *fit, uint64_t capacity)
{
    for (size_t i = 0; i < fit->span_count; i++)
        if (capacity >= fit->spans[i].lowest && capacity < fit->spans[i].below)
            return fit->spans[i].runs;
    cr_assert_fail("no span holds %lu", (unsigned long)capacity);
    return false;
}

#define ALLOC(slot, bytes)                                                                                   \
    {                                                                                                        \
        .kind = ASIM_EV_ALLOC, .id = (slot), .size = (bytes)                                                 \
    }
#define FREE(slot)                                                                                           \
    {                                                                                                        \
        .kind = ASIM_EV_FREE, .id = (slot)                                                                   \
    }
#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* 60 MiB, freed, and 80 MiB: the cached 60 are given back when the 80 find no room, so 80 MiB are enough. */
Test(fit, what_is_cached_is_given_back)
{
    static const asim_event events[] = {ALLOC(0, 60 * MIB), FREE(0), ALLOC(1, 80 * MIB), FREE(1)};
    asim_fit_request request = request_for("torchcache", "", events, COUNT(events));
    asim_fit fit = find(&request);
    cr_assert(fit.ever && fit.beyond);
    cr_assert_eq(fit.smallest, 80 * MIB);
    cr_assert_eq(fit.always, 80 * MIB);
    cr_assert_eq(fit.step, 2 * MIB);
    cr_assert_leq(fit.run_count, 140); /* a run each for 64 parts at most twice, and the top */
    asim_fit_fini(&fit, asim_hostmem_libc());
}

Test(fit, a_trace_that_never_runs)
{
    static const asim_event events[] = {ALLOC(0, 600 * MIB)};
    asim_fit_request request = request_for("torchcache", "", events, COUNT(events));
    asim_fit fit = find(&request);
    cr_assert_not(fit.ever);
    cr_assert_eq(fit.always, UINT64_MAX);
    cr_assert_eq(fit.span_count, 1);
    asim_fit_fini(&fit, asim_hostmem_libc());
}

static uint32_t draw(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* Random traces, every granule tried: exact spans, and, for policies that ask for the device's size, exact
 * where the walk fits into its budget. The number of threads changes nothing. */
Test(fit, brute_force_agrees)
{
    static const struct {
        const char *policy, *params;
    } tried[] = {{"torchcache", ""},
                 {"torchcache", "max_split_size_mb=32"},
                 {"torchcache", "fraction=0.8"},
                 {"torchcache", "expandable_segments=true"},
                 {"skeleton", ""}};
    static asim_event events[300];
    unsigned islands = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        uint64_t random = seed;
        bool live[64] = {false};
        size_t count = 0;
        while (count < COUNT(events)) {
            uint32_t slot = draw(&random) % 12;
            asim_event event = {.kind = live[slot] ? ASIM_EV_FREE : ASIM_EV_ALLOC, .id = slot};
            if (!live[slot])
                event.size = (draw(&random) % 48 + 1) * MIB - draw(&random) % 1000;
            live[slot] = !live[slot];
            events[count++] = event;
        }
        for (size_t i = 0; i < COUNT(tried); i++) {
            asim_fit_request request = request_for(tried[i].policy, tried[i].params, events, count);
            asim_fit fit = find(&request);
            for (uint64_t capacity = 2 * MIB; capacity <= request.top; capacity += 2 * MIB)
                cr_assert_eq(says(&fit, capacity), runs_at(&request, capacity), "seed %lu, %s %s: %lu MiB",
                             (unsigned long)seed, tried[i].policy, tried[i].params,
                             (unsigned long)(capacity / MIB));
            cr_assert_eq(fit.step, 2 * MIB);
            islands += fit.always != fit.smallest;
            request.jobs = 4;
            asim_fit again = find(&request);
            cr_assert_eq(again.span_count, fit.span_count);
            cr_assert_eq(again.run_count, fit.run_count);
            for (size_t k = 0; k < fit.span_count; k++)
                cr_assert(again.spans[k].lowest == fit.spans[k].lowest &&
                          again.spans[k].below == fit.spans[k].below &&
                          again.spans[k].runs == fit.spans[k].runs);
            asim_fit_fini(&again, asim_hostmem_libc());
            asim_fit_fini(&fit, asim_hostmem_libc());
        }
    }
    cr_assert_gt(islands, 0, "no trace shows that success is not monotone");
}

/* With too small a budget the boundary is still found, and the step says how far apart the tries were. */
Test(fit, a_budget_makes_steps)
{
    static const asim_event events[] = {ALLOC(0, 60 * MIB), ALLOC(1, 41 * MIB), FREE(0), FREE(1)};
    asim_fit_request request = request_for("skeleton", "", events, COUNT(events));
    request.max_runs = 20;
    asim_fit fit = find(&request);
    cr_assert_eq(fit.step, 26 * MIB); /* 256 granules in 20 tries: 13 of them each */
    cr_assert_eq(fit.smallest, 102 * MIB);
    cr_assert_eq(fit.always, 102 * MIB);
    cr_assert_not(fit.beyond);
    asim_fit_fini(&fit, asim_hostmem_libc());
}
