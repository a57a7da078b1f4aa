/* tests/conform/conform.c - does every policy of the registry keep the contract of sim/policy.h? */
#include "policies/registry.h"
#include "tests/conform/conform_broken.h"
#include "tests/conform/conform_run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

enum {
    SEEDS = 3,
    EVENTS = 400,
    SHORT_EVENTS = 120,
};

/* Policies with other parameters than their defaults. A policy that is not named runs with its defaults. */
static const struct {
    const char *policy, *params;
} variants[] = {
    {"async", "release_threshold=none,allow_opportunistic=false"},
    {"async", "granularity=2MiB,max_size=48MiB,align=1,follow_event_dependencies=false"},
    {"async", "granularity=4MiB,release_threshold=16MiB,allow_internal_dependencies=false"},
    {"best-fit", "compact=full,compact_busy=wait"},
    {"best-fit", "compact=none"},
    {"best-fit", "pool=64MiB,compact=full,compact_above=30"},
    {"bfc", "allow_growth=true"},
    {"bfc", "allow_growth=true,garbage_collection=false,fragmentation_fraction=0.01,memory_fraction=0.5"},
    {"buddy", "pool=48MiB,compact=full"},
    {"buddy", "pool=48MiB,compact=none"},
    {"first-fit", "compact=full,compact_above=10,compact_on_failure=false"},
    {"first-fit", "compact=none"},
    {"first-fit", "pool=64MiB,align=4096,compact=full"},
    {"jemalloc", "dirty_decay_ms=0"},
    {"jemalloc", "quantum=512,page=64KiB,dirty_decay_ms=none,retain=false"},
    {"lower-bound", "align=1,page=4096"},
    {"native", "align=2MiB"},
    {"npu", "expandable_segments=true,multi_stream_lazy_reclaim=true"},
    {"npu", "expandable_segments=true,segment_size_mb=32,padding=0,roundup_power2_divisions=4"},
    {"npu", "garbage_collection_threshold=0.5,per_process_memory_fraction=0.7"},
    {"npu", "max_split_size_mb=32,max_non_split_rounding_mb=64,throw_on_npumalloc_oom=true"},
    {"npu", "page_size=1g"},
    {"paged", "block_bytes=1MiB,pool=32MiB"},
    {"paged", "block_tokens=3,token_bytes=70001,pool=20MiB,rest=[best-fit,pool=40MiB,compact=full]"},
    {"paged", "token_bytes=64KiB,utilization=0.3,rest=native"},
    {"paged", "block_bytes=100000,pool=30MiB,rest=stitch"},
    {"pow2", "pool=64MiB"},
    {"pow2", "pool=64MiB,merge=off"},
    {"pow2", "pool=64MiB,compact=full,compact_above=25"},
    {"pow2", "pool=64MiB,merge=off,compact=full"},
    {"pow2", "pool=48MiB,split=buddy,compact=full"},
    {"prealloc", "weights=20MiB,layers=4,width=256,max_length=512,batch=6,activations=16MiB"},
    {"prealloc", "weights=1MiB,layers=4,width=256,max_length=64,batch=20,activations=1MiB,rest=stitch"},
    {"rmm-arena", "arena_size=8MiB"},
    {"rmm-arena", "size_classes=true"},
    {"rmm-binning", "min_size_exponent=0,max_size_exponent=14,blocks_to_preallocate=3"},
    {"rmm-binning", "min_size_exponent=10,max_size_exponent=21,blocks_to_preallocate=2,upstream=pool"},
    {"rmm-binning", "min_size_exponent=none"},
    {"rmm-pool", "initial_pool_size=0"},
    {"rmm-pool", "initial_pool_size=1MiB,maximum_pool_size=40960256"},
    {"skeleton", "align=4096"},
    {"skeleton", "region=64MiB,align=1"},
    {"stitch", "fragment_limit=0"},
    {"stitch", "fragment_limit=4MiB,reuse_limit=10,top_up=false,stitch_limit=64MiB"},
    {"stitch", "fragment_limit=0,defrag_level=1,stitch_limit=0"},
    {"tiers", "registers=64KiB,sram=2MiB,rest=[first-fit,pool=64MiB,compact=full]"},
    {"tiers", "registers=8MiB,sram=4MiB,promote=top,rest=native"},
    {"tlsf", "second_level=1"},
    {"tlsf", "pool=64MiB,compact=full"},
    {"tlsf", "compact=none"},
    {"static-plan", "align=1,effort=0"},
    {"static-plan", "align=4096,effort=2000"},
    {"torchcache", "max_split_size_mb=24"},
    {"torchcache", "expandable_segments=true"},
    {"torchcache", "roundup_power2_divisions=4"},
    {"torchcache", "garbage_collection_threshold=0.5,fraction=0.7"},
    {"torchcache", "max_split_size_mb=32,max_non_split_rounding_mb=64"},
    {"torchcache", "torch=1.13,roundup_power2_divisions=1"},
};

typedef void (*each_fn)(const asim_policy *policy, const char *params);

/* Calls each on every policy of the registry with its defaults, and on every variant. */
static void for_all(each_fn each)
{
    for (size_t i = 0; asim_policies[i]; i++) {
        each(asim_policies[i], "");
        for (size_t k = 0; k < sizeof variants / sizeof *variants; k++)
            if (!strcmp(variants[k].policy, asim_policies[i]->name))
                each(asim_policies[i], variants[k].params);
    }
}

static conform_workload *workload(uint64_t seed, unsigned shape, size_t events)
{
    conform_workload *w = malloc(sizeof *w);
    cr_assert_not_null(w);
    conform_workload_make(w, seed, shape, events);
    return w;
}

Test(conform, tables_are_sound_and_names_unique)
{
    for (size_t i = 0; asim_policies[i]; i++) {
        const asim_policy *policy = asim_policies[i];
        asim_err err = ASIM_ERR_INIT;
        cr_assert_eq(asim_policy_validate(policy, &err), ASIM_OK, "%s", err.message);
        cr_assert_eq(asim_policy_find(policy->name), policy, "%s is not found by its name", policy->name);
    }
    cr_assert_null(asim_policy_find("no-such-policy"));
    cr_assert_null(asim_policy_find(""));
}

Test(conform, parameters)
{
    for (size_t i = 0; asim_policies[i]; i++) {
        const asim_param_table *table = &asim_policies[i]->params;
        char *block = calloc(1, table->block_size + 1), text[ASIM_PARAM_TEXT_MAX + 64],
             pair[ASIM_PARAM_TEXT_MAX + 128];
        asim_err err = ASIM_ERR_INIT;
        asim_params_default(table, block);
        cr_assert_eq(asim_params_parse(table, block, "no_such_parameter=1", &err), ASIM_E_USAGE);
        cr_assert(strstr(err.message, "no_such_parameter"), "%s: %s", asim_policies[i]->name, err.message);
        for (size_t k = 0; k < table->count; k++) {
            asim_param_format(&table->params[k], block, text, sizeof text);
            snprintf(pair, sizeof pair, "%s=%s", table->params[k].name, text);
            cr_assert_eq(asim_params_parse(table, block, pair, &err), ASIM_OK, "%s: %s", pair, err.message);
            cr_assert_eq(asim_params_canonical(table, block, text, sizeof text), 0, "%s is no default: %s",
                         pair, text);
        }
        free(block);
    }
}

static uint64_t total_placed, total_refused;

static void random_runs(const asim_policy *policy, const char *params)
{
    for (unsigned shape = 0; shape < CONFORM_SHAPES; shape++)
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            conform_workload *w = workload(seed * 1000 + shape, shape, EVENTS);
            conform_options options = {.policy = policy,
                                       .params = params,
                                       .workload = w,
                                       .capacity = (seed == 0 ? 4096 : 96) * MIB,
                                       .check = ASIM_CHECK_FULL,
                                       .shadow = true};
            conform_outcome outcome;
            cr_assert_eq(conform_run(&options, &outcome), ASIM_OK, "%s,%s, shape %u, seed %d: %s",
                         policy->name, params, shape, (int)seed, outcome.err.message);
            total_placed += outcome.placed;
            total_refused += outcome.refusals;
            free(w);
        }
}

Test(conform, random_workloads_against_the_shadow_and_the_referee, .timeout = 240)
{
    for_all(random_runs);
    cr_assert_gt(total_placed, 10000); /* the runs did something */
    cr_assert_gt(total_refused, 1000);
}

static void run_twice(const asim_policy *policy, const char *params)
{
    conform_outcome outcomes[3];
    for (int i = 0; i < 3; i++) { /* the third without checks: watching changes nothing */
        conform_workload *w = workload(7, CONFORM_USES | CONFORM_PENDING | CONFORM_RESIZES, EVENTS);
        conform_options options = {.policy = policy,
                                   .params = params,
                                   .workload = w,
                                   .capacity = 96 * MIB,
                                   .check = i == 2 ? ASIM_CHECK_OFF : ASIM_CHECK_FULL,
                                   .shadow = i != 2};
        cr_assert_eq(conform_run(&options, &outcomes[i]), ASIM_OK, "%s: %s", policy->name,
                     outcomes[i].err.message);
        free(w);
    }
    for (int i = 1; i < 3; i++) {
        cr_assert_eq(outcomes[0].record.placement_digest, outcomes[i].record.placement_digest, "%s,%s",
                     policy->name, params);
        cr_assert_arr_eq(outcomes[0].record.metrics, outcomes[i].record.metrics,
                         sizeof outcomes[0].record.metrics, "%s,%s", policy->name, params);
    }
}

Test(conform, the_same_input_gives_the_same_record)
{
    for_all(run_twice);
}

/* Out of memory is a result: with hardly any device memory the run still reaches its end. */
static void run_starved(const asim_policy *policy, const char *params)
{
    conform_workload *w = workload(11, CONFORM_USES, EVENTS);
    conform_options options = {.policy = policy,
                               .params = params,
                               .workload = w,
                               .capacity = 2 * MIB,
                               .check = ASIM_CHECK_FULL,
                               .shadow = true};
    conform_outcome outcome;
    cr_assert_eq(conform_run(&options, &outcome), ASIM_OK, "%s,%s: %s", policy->name, params,
                 outcome.err.message);
    if (!(policy->flags & ASIM_POLICY_REFERENCE)) {
        cr_assert_eq(outcome.record.status, ASIM_RUN_OOM, "%s,%s", policy->name, params);
        cr_assert(outcome.record.has_oom);
    }
    free(w);
}

Test(conform, out_of_memory_is_survived)
{
    for_all(run_starved);
}

/* For every n: the n-th request for host memory is refused, the run ends with ASIM_E_SYSTEM, nothing leaks.
 */
static void refuse_host_memory(const asim_policy *policy, const char *params)
{
    conform_workload *w = workload(3, CONFORM_USES | CONFORM_PENDING | CONFORM_RESIZES, SHORT_EVENTS);
    for (uint64_t n = 1;; n++) {
        conform_memory memory;
        conform_memory_init(&memory, n);
        conform_options options = {.policy = policy,
                                   .params = params,
                                   .workload = w,
                                   .capacity = 96 * MIB,
                                   .check = ASIM_CHECK_PLACEMENTS,
                                   .memory = &memory};
        conform_outcome outcome;
        asim_code code = conform_run(&options, &outcome);
        cr_assert_eq(memory.bytes, 0, "%s,%s, request %d: memory leaks", policy->name, params, (int)n);
        cr_assert(!memory.misused, "%s,%s, request %d: freed with another size", policy->name, params,
                  (int)n);
        if (memory.requests < n) {
            cr_assert_eq(code, ASIM_OK);
            cr_assert_gt(n, 5);
            break;
        }
        cr_assert_eq(code, ASIM_E_SYSTEM, "%s,%s, request %d: %d, %s", policy->name, params, (int)n, code,
                     outcome.err.message);
    }
    free(w);
}

Test(conform, every_refusal_of_host_memory, .timeout = 120)
{
    for_all(refuse_host_memory);
}

/* For every n: the device's n-th call is refused for lack of memory: the run goes on, and nothing is broken.
 */
static void refuse_device_memory(const asim_policy *policy, const char *params)
{
    conform_workload *w = workload(5, CONFORM_USES | CONFORM_RESIZES, SHORT_EVENTS);
    for (uint64_t n = 1;; n++) {
        conform_faulty faulty = {.answer = ASIM_DEVICE_OOM, .refuse_at = n};
        conform_options options = {.policy = policy,
                                   .params = params,
                                   .workload = w,
                                   .capacity = 160 * MIB,
                                   .check = ASIM_CHECK_FULL,
                                   .shadow = true,
                                   .faulty = &faulty};
        conform_outcome outcome;
        cr_assert_eq(conform_run(&options, &outcome), ASIM_OK, "%s,%s, device call %d: %s", policy->name,
                     params, (int)n, outcome.err.message);
        if (faulty.calls < n)
            break;
    }
    free(w);
}

Test(conform, every_refusal_of_the_device, .timeout = 120)
{
    for_all(refuse_device_memory);
}

/* For every n: the device's n-th call fails for another reason: the run ends with an error, nothing leaks. */
static void fail_device(const asim_policy *policy, const char *params)
{
    conform_workload *w = workload(5, CONFORM_USES | CONFORM_RESIZES, SHORT_EVENTS);
    for (uint64_t n = 1;; n++) {
        conform_memory memory;
        conform_memory_init(&memory, 0);
        conform_faulty faulty = {.answer = ASIM_DEVICE_ERROR, .refuse_at = n};
        conform_options options = {.policy = policy,
                                   .params = params,
                                   .workload = w,
                                   .capacity = 160 * MIB,
                                   .memory = &memory,
                                   .faulty = &faulty};
        conform_outcome outcome;
        asim_code code = conform_run(&options, &outcome);
        cr_assert_eq(memory.bytes, 0, "%s,%s, device call %d: memory leaks", policy->name, params, (int)n);
        if (faulty.calls < n)
            break;
        cr_assert_neq(code, ASIM_OK, "%s,%s, device call %d: its failure was not noticed", policy->name,
                      params, (int)n);
        cr_assert_neq(outcome.err.message[0], 0);
    }
    free(w);
}

Test(conform, every_failure_of_the_device, .timeout = 120)
{
    for_all(fail_device);
}

/* --- the suite itself --- */

/* What the referee (with the engine) and the shadow say about each fault; NULL: it is none of their business.
 */
static const struct {
    const char *referee, *shadow;
} notices[CONFORM_FAULTS] = {
    [CONFORM_OVERLAP] = {"two blocks at once", "overlap"},
    [CONFORM_OUTSIDE] = {"outside of memory", "outside of memory"},
    [CONFORM_WRONG_REGION] = {"outside of memory", "outside of memory"},
    [CONFORM_TOO_SMALL] = {"smaller than the request", "smaller than the request"},
    [CONFORM_DOUBLE_FREE] = {"not pending there", "not pending there"},
    [CONFORM_LARGEST] = {"largest free block", "largest free block"},
    [CONFORM_LYING_DONE] = {"is not one that was placed", NULL},
    [CONFORM_KEPT_FREE] = {"is not one that was placed", NULL},
    [CONFORM_RETURNS_LIVE] = {"with live blocks inside", "with live blocks inside"},
    [CONFORM_SHORT_WALK] = {"do not fill it", NULL},
    [CONFORM_SILENT] = {NULL, "requests were refused"},
    [CONFORM_FAILS_CHECK] = {"something is rotten", NULL},
};

static asim_code run_broken(conform_fault fault, bool shadow, conform_memory *memory,
                            conform_outcome *outcome)
{
    char params[64];
    conform_workload *w = workload(1, CONFORM_PENDING, EVENTS);
    snprintf(params, sizeof params, "fault=%s", conform_fault_names[fault]);
    conform_options options = {.policy = &conform_broken,
                               .params = params,
                               .workload = w,
                               .capacity = 96 * MIB,
                               .check = shadow ? ASIM_CHECK_OFF : ASIM_CHECK_FULL,
                               .shadow = shadow,
                               .memory = memory};
    asim_code code = conform_run(&options, outcome);
    free(w);
    return code;
}

Test(suite, notices_every_broken_policy)
{
    for (int fault = 0; fault < CONFORM_FAULTS; fault++)
        for (int shadow = 0; shadow < 2; shadow++) {
            const char *expected = shadow ? notices[fault].shadow : notices[fault].referee;
            conform_outcome outcome;
            asim_code code = run_broken((conform_fault)fault, shadow, NULL, &outcome);
            cr_expect_eq(code, expected ? ASIM_E_BUG : ASIM_OK, "%s, shadow %d: %d, \"%s\"",
                         conform_fault_names[fault], shadow, code, outcome.err.message);
            cr_expect(!expected || strstr(outcome.err.message, expected), "%s, shadow %d: \"%s\"",
                      conform_fault_names[fault], shadow, outcome.err.message);
        }
}

Test(suite, notices_a_leak)
{
    conform_memory memory;
    conform_outcome outcome;
    conform_memory_init(&memory, 0);
    cr_assert_eq(run_broken(CONFORM_SOUND, false, &memory, &outcome), ASIM_OK);
    cr_assert_eq(memory.bytes, 0);
    cr_assert_gt(memory.requests, 5);
    conform_memory_init(&memory, 0);
    cr_assert_eq(run_broken(CONFORM_FORGETS, false, &memory, &outcome), ASIM_OK);
    cr_assert_gt(memory.bytes, 0);
}

Test(suite, notices_what_comes_from_outside_of_the_run)
{
    conform_outcome quiet, caprice;
    unsetenv("CONFORM_CAPRICE");
    cr_assert_eq(run_broken(CONFORM_CAPRICIOUS, false, NULL, &quiet), ASIM_OK);
    setenv("CONFORM_CAPRICE", "1", 1);
    cr_assert_eq(run_broken(CONFORM_CAPRICIOUS, false, NULL, &caprice), ASIM_OK);
    cr_assert_neq(quiet.record.placement_digest, caprice.record.placement_digest);
}
