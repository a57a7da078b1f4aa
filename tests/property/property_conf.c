/* Option strings, drawn by the grammar of the specification's section 5 for each release. */
#include "tests/property/property_scenario.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

typedef enum key {
    MAX_SPLIT,
    MAX_ROUNDING,
    GC,
    DIVISIONS,
    BYPASS,
    EXPANDABLE,
    LARGE_SEGMENT,
    RESERVE,
    THROW,
    FRACTION,
    BACKEND,
    RELEASE_LOCK,
    HOST_REGISTER,
    HOST_THREADS,
    HOST_BACKGROUND,
    GRAPH_REUSE,
    KEYS
} key;

/* A value that every release with the key accepts. */
static const struct {
    const char *name, *sample;
} keys[KEYS] = {
    [MAX_SPLIT] = {"max_split_size_mb", "100"},
    [MAX_ROUNDING] = {"max_non_split_rounding_mb", "100"},
    [GC] = {"garbage_collection_threshold", "0.5"},
    [DIVISIONS] = {"roundup_power2_divisions", "4"},
    [BYPASS] = {"roundup_bypass_threshold_mb", "4"},
    [EXPANDABLE] = {"expandable_segments", "True"},
    [LARGE_SEGMENT] = {"large_segment_size_mb", "12"},
    [RESERVE] = {"expandable_segments_reserve", "0.5"},
    [THROW] = {"throw_on_cudamalloc_oom", "True"},
    [FRACTION] = {"per_process_memory_fraction", "0.5"},
    [BACKEND] = {"backend", "native"},
    [RELEASE_LOCK] = {"release_lock_on_cudamalloc", "True"},
    [HOST_REGISTER] = {"pinned_use_cuda_host_register", "True"},
    [HOST_THREADS] = {"pinned_num_register_threads", "4"},
    [HOST_BACKGROUND] = {"pinned_use_background_threads", "True"},
    [GRAPH_REUSE] = {"graph_capture_record_stream_reuse", "False"},
};

unsigned version_of(const char *release)
{
    char *end;
    unsigned long major = strtoul(release, &end, 10);
    return (unsigned)(major * 100 + (*end ? strtoul(end + 1, NULL, 10) : 0));
}

static bool takes(const asim_policy *policy, const char *release, const char *conf)
{
    void *block = calloc(1, policy->params.block_size);
    char text[300];
    asim_err err = ASIM_ERR_INIT;
    asim_code code;
    if (!block)
        abort();
    /* Parameters are read when a run begins: a run on nothing. */
    asim_params_default(&policy->params, block);
    snprintf(text, sizeof text, "torch=%s,conf=[%s]", release, conf);
    code = asim_params_parse(&policy->params, block, text, &err);
    if (!code) {
        asim_policy_counters counters = {0};
        const asim_policy_env env = {.memory = asim_hostmem_libc(), .counters = &counters};
        void *state = calloc(1, policy->state_size);
        if (!state)
            abort();
        code = policy->init(state, &env, block, &err);
        policy->fini(state);
        free(state);
    }
    free(block);
    return code == ASIM_OK;
}

void grammar_read(const asim_policy *policy, grammar *ret_grammar)
{
    *ret_grammar = (grammar){.policy = policy};
    for (size_t i = 0; i < policy->params.count; i++)
        if (!strcmp(policy->params.params[i].name, "torch"))
            for (const char *const *name = policy->params.params[i].choices;
                 *name && ret_grammar->release_count < SCENARIO_RELEASES; name++)
                ret_grammar->releases[ret_grammar->release_count++] = *name;
    for (size_t r = 0; r < ret_grammar->release_count; r++)
        for (unsigned k = 0; k < KEYS; k++) {
            char conf[100];
            snprintf(conf, sizeof conf, "%s:%s", keys[k].name, keys[k].sample);
            if (takes(policy, ret_grammar->releases[r], conf))
                ret_grammar->keys[r] |= UINT32_C(1) << k;
        }
}

__attribute__((format(printf, 2, 3))) static void put(drawn_conf *conf, const char *format, ...)
{
    size_t length = strlen(conf->text);
    va_list args;
    va_start(args, format);
    vsnprintf(conf->text + length, sizeof conf->text - length, format, args);
    va_end(args);
}

/* R20 and R21. */
static void draw_divisions(asim_rng *rng, bool list, drawn_conf *conf)
{
    if (!list || asim_rng_below(rng, 2)) {
        put(conf, "%u", 1u << asim_rng_below(rng, 5));
        return;
    }
    put(conf, "[");
    unsigned interval = (unsigned)asim_rng_below(rng, 3);
    for (unsigned items = 1 + (unsigned)asim_rng_below(rng, 3); items > 0; items--) {
        put(conf, "%u:%u,", 1u << interval, 1u << asim_rng_below(rng, 4));
        interval += 1 + (unsigned)asim_rng_below(rng, 3);
    }
    if (asim_rng_below(rng, 2))
        put(conf, ">:%u]", 1u << asim_rng_below(rng, 4));
    else
        conf->text[strlen(conf->text) - 1] = ']';
}

static void draw_value(asim_rng *rng, key k, bool list, drawn_conf *conf)
{
    static const unsigned splits[] = {25, 26, 32, 40, 64, 100, 200};
    uint64_t mib;
    bool on;
    switch (k) {
    case MAX_SPLIT:
        mib = splits[asim_rng_below(rng, sizeof splits / sizeof splits[0])];
        conf->max_split = mib * MIB;
        put(conf, "%" PRIu64, mib);
        break;
    case MAX_ROUNDING:
        put(conf, "%u", splits[asim_rng_below(rng, sizeof splits / sizeof splits[0])]);
        break;
    case GC:
        put(conf, "0.%u", 1 + (unsigned)asim_rng_below(rng, 9));
        break;
    case DIVISIONS:
        draw_divisions(rng, list, conf);
        break;
    case BYPASS:
        put(conf, "%u", 1 + (unsigned)asim_rng_below(rng, 40));
        break;
    case EXPANDABLE:
        on = asim_rng_below(rng, 4) > 0;
        conf->expandable = on;
        put(conf, "%s", on ? "True" : "False");
        break;
    case LARGE_SEGMENT:
        put(conf, "%u", 11 + (unsigned)asim_rng_below(rng, 14));
        break;
    case RESERVE:
        put(conf, asim_rng_below(rng, 2) ? "0.%u" : "%uG", 1 + (unsigned)asim_rng_below(rng, 9));
        break;
    case THROW:
        put(conf, "%s", asim_rng_below(rng, 2) ? "True" : "False");
        break;
    case FRACTION:
        conf->limits = true;
        put(conf, "0.%u", 5 + (unsigned)asim_rng_below(rng, 5));
        break;
    default:
        put(conf, "%s", keys[k].sample);
        break;
    }
}

void conf_draw(const grammar *rules, size_t release, asim_rng *rng, drawn_conf *ret_conf)
{
    const uint32_t known = rules->keys[release];
    *ret_conf = (drawn_conf){.max_split = UINT64_MAX, .expandable = -1};
    for (unsigned count = (unsigned)asim_rng_below(rng, 5); count > 0; count--) {
        /* Those that change results more often than the others. */
        key k = (key)asim_rng_below(rng, asim_rng_below(rng, 3) ? FRACTION : KEYS);
        if (!(known >> k & 1))
            continue;
        put(ret_conf, "%s%s:", ret_conf->text[0] ? asim_rng_below(rng, 4) ? "," : ", " : "", keys[k].name);
        draw_value(rng, k, !(known >> BYPASS & 1), ret_conf);
    }
}
