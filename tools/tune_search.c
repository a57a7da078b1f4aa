#include "tools/tune_search.h"

#include "sim/sweep.h"

#include <string.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

enum {
    GC_LEVELS = 12,
    ELITES_MAX = 4,
    ROUNDS_MAX = 3
};

typedef struct batch { /* settings of one round, and where each run puts its result */
    const asim_cli *cli;
    const asim_tune_job *job;
    asim_tune_found *found;
    asim_tune_setting *settings;
    size_t count, capacity;
    asim_tune_value *slots; /* count * trace_count */
    uint64_t deadline;      /* 0: none */
    asim_progress progress;
    pthread_mutex_t lock;
    asim_err err; /* of the first run that failed for lack of memory */
} batch;

static void ignore_warning(void *ctx, const char *path, const char *text)
{
    (void)ctx, (void)path, (void)text;
}

asim_code asim_tune_run(const asim_cli *cli, const asim_tune_job *job, const asim_tune_setting *setting,
                        size_t trace, asim_outcome_request request, const char *name,
                        asim_outcome *ret_outcome, asim_err *err)
{
    const asim_tune_base *base = job->base;
    const asim_tune_trace *t = &job->traces[trace];
    const bool same = asim_tune_equal(setting, &base->setting);
    char policy[64], conf[ASIM_PARAM_TEXT_MAX];
    asim_trace *changed = NULL;
    asim_progress none = {0};
    asim_tune_conf(base, setting, conf);
    snprintf(policy, sizeof policy, "torchcache,torch=%s", base->release->name);
    if (asim_tune_needs_fraction(base, setting))
        snprintf(policy, sizeof policy, "torchcache,torch=%s,fraction=0.%d", base->release->name,
                 ASIM_TUNE_FRACTION_PERCENT);
    const asim_setup_request setup = {.policy = policy, .conf = same ? job->conf : conf};
    request.setup = &setup;
    request.profile = job->profile;
    request.capacity = job->capacity;
    request.history = UINT64_MAX;
    asim_code code = ASIM_OK;
    if (asim_tune_changes_events(setting))
        code = asim_tune_trace_new(t->trace, base, setting, t->needs, cli->mem, &changed, err);
    if (!code)
        code = asim_outcome_replay(cli, &request, name ? name : t->path, changed ? changed : t->trace, &none,
                                   ret_outcome, err);
    asim_tune_trace_free(changed, cli->mem);
    return code;
}

static asim_code run_one(void *ctx, size_t unused, size_t number)
{
    batch *b = ctx;
    const asim_tune_job *job = b->job;
    const size_t trace = number % job->trace_count;
    asim_tune_value *slot = &b->slots[number];
    const asim_outcome_request request = {.warn = ignore_warning, .stop = job->stop};
    asim_outcome outcome = {0};
    asim_err err = ASIM_ERR_INIT;
    (void)unused;
    if (b->deadline && asim_wall_ns() > b->deadline)
        return ASIM_OK;
    asim_code code = asim_tune_run(b->cli, job, &b->settings[number / job->trace_count], trace, request, NULL,
                                   &outcome, &err);
    const uint64_t *metrics = outcome.run.record.metrics;
    slot->done = true;
    slot->faulty = code != ASIM_OK;
    slot->refused = metrics[ASIM_METRIC_ooms];
    slot->peak = slot->peak_sum = metrics[ASIM_METRIC_peak_reserved_bytes];
    slot->stall = metrics[ASIM_METRIC_stall_ns];
    slot->calls = metrics[ASIM_METRIC_device_allocs] + metrics[ASIM_METRIC_device_frees] +
                  metrics[ASIM_METRIC_device_maps] + metrics[ASIM_METRIC_device_unmaps];
    slot->retries = metrics[ASIM_METRIC_alloc_retries];
    slot->peak_lower = metrics[ASIM_METRIC_lower_bound_bytes];
    slot->worst = trace;
    asim_outcome_fini(&outcome, b->cli->mem);
    asim_progress_advance(&b->progress, job->traces[trace].trace->event_count);
    if (code != ASIM_E_SYSTEM)
        return ASIM_OK;
    pthread_mutex_lock(&b->lock);
    if (!b->err.code)
        b->err = err;
    pthread_mutex_unlock(&b->lock);
    return code;
}

static asim_code open_trace(void *ctx, size_t trace)
{
    (void)ctx, (void)trace;
    return ASIM_OK;
}

static void close_trace(void *ctx, size_t trace)
{
    (void)ctx, (void)trace;
}

/* The worth over all traces. */
static asim_tune_value join(const batch *b, size_t setting)
{
    const size_t traces = b->job->trace_count;
    asim_tune_value value = {.setting = b->settings[setting], .done = true};
    for (size_t t = 0; t < traces; t++) {
        const asim_tune_value *slot = &b->slots[setting * traces + t];
        value.done = value.done && slot->done;
        value.faulty = value.faulty || slot->faulty;
        value.refused += slot->refused;
        value.peak_sum += slot->peak;
        value.calls += slot->calls;
        value.retries += slot->retries;
        value.stall = slot->stall > value.stall ? slot->stall : value.stall;
        if (t == 0 || slot->peak > value.peak) {
            value.peak = slot->peak;
            value.peak_lower = slot->peak_lower;
            value.worst = t;
        }
    }
    return value;
}

static asim_code evaluate(batch *b, asim_err *err)
{
    const asim_tune_job *job = b->job;
    const size_t runs = b->count * job->trace_count;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const asim_sweep sweep = {.trace_count = 1,
                              .config_count = runs,
                              .jobs = job->jobs   ? job->jobs
                                      : cores > 0 ? (size_t)cores
                                                  : 1,
                              .stop = job->stop,
                              .open = open_trace,
                              .run = run_one,
                              .close = close_trace,
                              .ctx = b};
    if (runs == 0)
        return ASIM_OK;
    b->slots = asim_mem_new(b->cli->mem, runs, sizeof *b->slots);
    if (!b->slots)
        return asim_fail_memory(err, runs * sizeof *b->slots);
    for (size_t t = 0; t < job->trace_count; t++)
        asim_progress_expect(&b->progress, b->count * job->traces[t].trace->event_count);
    asim_code code = asim_sweep_work(&sweep, b->cli->mem, err);
    if (job->stop && atomic_load(job->stop))
        code = asim_fail(err, ASIM_E_SYSTEM, "stopped");
    else if (!code && b->err.code)
        code = asim_fail(err, b->err.code, "%s", b->err.message);
    asim_tune_found *found = b->found;
    if (!code)
        code = asim_mem_grow(b->cli->mem, (void **)&found->values, &found->capacity, found->count + b->count,
                             sizeof *found->values, err);
    for (size_t i = 0; i < b->count && !code; i++) {
        asim_tune_value value = join(b, i);
        found->out_of_time = found->out_of_time || !value.done;
        found->tried += value.done ? job->trace_count : 0;
        found->faulty += value.done && value.faulty;
        if (value.done && (!value.faulty || found->count == 0))
            found->values[found->count++] = value;
    }
    asim_mem_free(b->cli->mem, b->slots, runs, sizeof *b->slots);
    b->slots = NULL;
    return code;
}

/* Puts a setting on the list, unless it was tried, or makes no sense. */
static asim_code propose(batch *b, const asim_tune_setting *setting, asim_err *err)
{
    const bool fights =
        (setting->expandable || setting->switch_place) && (setting->max_split_mib || setting->gc);
    if (fights && !asim_tune_equal(setting, &b->job->base->setting))
        return ASIM_OK;
    for (size_t i = 0; i < b->found->count; i++)
        if (asim_tune_equal(setting, &b->found->values[i].setting))
            return ASIM_OK;
    for (size_t i = 0; i < b->count; i++)
        if (asim_tune_equal(setting, &b->settings[i]))
            return ASIM_OK;
    asim_code code = asim_mem_grow(b->cli->mem, (void **)&b->settings, &b->capacity, b->count + 1,
                                   sizeof *b->settings, err);
    if (!code)
        b->settings[b->count++] = *setting;
    return code;
}

static bool may(const asim_tune_job *job, asim_tune_knob knob)
{
    return !(job->forbidden >> knob & 1);
}

static asim_code rounding_of(const asim_tune_base *base, const asim_tune_setting *setting,
                             asim_tc_rounding *ret_rounding)
{
    char text[16];
    asim_tc_options plain;
    asim_tc_options_default(base->release, &plain);
    *ret_rounding = plain.rounding;
    ret_rounding->bypass = base->options.rounding.bypass;
    if (setting->divisions == ASIM_TUNE_GIVEN)
        *ret_rounding = base->options.rounding;
    else if (setting->divisions) {
        snprintf(text, sizeof text, "%u", setting->divisions);
        return asim_tc_divisions_parse(base->release, text, ret_rounding, NULL);
    }
    return ASIM_OK;
}

static asim_code vary_split(batch *b, const asim_tune_setting *from, asim_err *err)
{
    const asim_tune_base *base = b->job->base;
    const uint64_t large = from->large_segment_mib ? from->large_segment_mib * MIB : ASIM_TC_LARGE_SEG;
    asim_tc_rounding rounding;
    uint64_t values[ASIM_TUNE_BREAKS_MAX];
    size_t count;
    bool complete;
    if (rounding_of(base, from, &rounding))
        return ASIM_OK;
    asim_code code = asim_tune_breaks(b->job->sizes, base->release, &rounding, large, values, &count,
                                      &complete, b->cli->mem, err);
    if (code)
        return code;
    if (b->found->count == 1) { /* round 1 */
        b->found->breaks_complete = complete;
        b->found->break_count = count;
        memcpy(b->found->breaks, values, count * sizeof *values);
    }
    for (size_t i = count + 1; i > 0 && !code; i--) { /* of equal worth, the least restriction */
        asim_tune_setting setting = *from;
        setting.max_split_mib = i <= count ? values[i - 1] : 0;
        setting.expandable = false;
        code = propose(b, &setting, err);
    }
    return code;
}

/* Thresholds above which old segments go: parts of what the baseline reserves. */
static asim_code vary_gc(batch *b, const asim_tune_setting *from, asim_err *err)
{
    const asim_tune_value *baseline = &b->found->values[0];
    const asim_tune_trace *worst = &b->job->traces[baseline->worst];
    const uint64_t capacity = asim_engine_capacity(worst->trace, b->job->profile, b->job->capacity, 0);
    const double limit = (double)capacity * ASIM_TUNE_FRACTION_PERCENT / 100;
    asim_code code = ASIM_OK;
    for (uint64_t i = 1; i <= GC_LEVELS && !code; i++) {
        const uint64_t level = baseline->peak / (GC_LEVELS + 1) * i;
        asim_tune_setting setting = *from;
        setting.gc = (uint32_t)((double)level * 10000 / limit);
        setting.expandable = false;
        if (setting.gc > 0 && setting.gc < 10000)
            code = propose(b, &setting, err);
    }
    return code;
}

static asim_code vary_rounding(batch *b, const asim_tune_setting *from, asim_err *err)
{
    static const uint32_t divisions[] = {0, 2, 4, 8, 16, 32};
    static const uint64_t segments[] = {0, 12, 16, 24, 32, 48, 64, 96, 128, 256};
    const asim_tune_base *base = b->job->base;
    asim_code code = ASIM_OK;
    for (size_t i = 0; may(b->job, ASIM_KNOB_DIVISIONS) && i < sizeof divisions / sizeof *divisions && !code;
         i++) {
        asim_tune_setting setting = *from;
        setting.divisions = divisions[i];
        code = propose(b, &setting, err);
    }
    for (size_t i = 0;
         may(b->job, ASIM_KNOB_LARGE_SEGMENT) && i < sizeof segments / sizeof *segments && !code; i++) {
        asim_tune_setting setting = *from;
        setting.large_segment_mib = segments[i];
        if (asim_tc_has(base->release, ASIM_TC_LARGE_SEGMENT) && b->job->sizes->any_medium &&
            (!setting.max_split_mib || setting.max_split_mib >= segments[i]))
            code = propose(b, &setting, err);
    }
    return code;
}

static asim_code vary_calls(batch *b, const asim_tune_setting *from, asim_err *err)
{
    static const uint32_t shares[] = {100, 75, 50, 110};
    const asim_tune_base *base = b->job->base;
    asim_code code = ASIM_OK;
    for (uint32_t p = 1; may(b->job, ASIM_KNOB_EMPTY_CACHE) && p <= base->place_count && !code; p++)
        for (unsigned each = 0; each < 1 + (base->places[p - 1].count > 1) && !code; each++) {
            asim_tune_setting setting = *from;
            setting.trim_place = p;
            setting.trim_each = each;
            code = propose(b, &setting, err);
        }
    const bool turns = may(b->job, ASIM_KNOB_PHASE_SETTINGS) && may(b->job, ASIM_KNOB_EXPANDABLE) &&
                       asim_tc_has(base->release, ASIM_TC_EXPANDABLE);
    for (uint32_t p = 1; turns && p <= base->place_count && !code; p++) {
        asim_tune_setting setting = *from;
        setting.switch_place = p;
        code = propose(b, &setting, err);
    }
    for (uint32_t p = 0; may(b->job, ASIM_KNOB_PREALLOCATION) && p <= base->place_count && !code; p++)
        for (size_t i = 0; i < (p == 0 ? 4 : 2) && !code; i++) {
            asim_tune_setting setting = *from;
            setting.block_percent = shares[i];
            setting.block_place = p;
            code = propose(b, &setting, err);
        }
    return code;
}

static asim_code vary(batch *b, const asim_tune_setting *from, asim_err *err)
{
    const asim_tune_base *base = b->job->base;
    asim_code code = ASIM_OK;
    if (may(b->job, ASIM_KNOB_MAX_SPLIT))
        code = vary_split(b, from, err);
    if (!code && may(b->job, ASIM_KNOB_EXPANDABLE) && asim_tc_has(base->release, ASIM_TC_EXPANDABLE)) {
        asim_tune_setting setting = *from;
        setting.expandable = true;
        setting.max_split_mib = setting.gc = 0;
        code = propose(b, &setting, err);
    }
    if (!code)
        code = vary_rounding(b, from, err);
    if (!code && may(b->job, ASIM_KNOB_GC))
        code = vary_gc(b, from, err);
    return code ? code : vary_calls(b, from, err);
}

/* The baseline without what is forbidden, and with nothing set at all. */
static asim_code vary_baseline(batch *b, asim_err *err)
{
    asim_tune_setting allowed = b->job->base->setting;
    const asim_tune_setting defaults = {0};
    if (!may(b->job, ASIM_KNOB_MAX_SPLIT))
        allowed.max_split_mib = 0;
    if (!may(b->job, ASIM_KNOB_GC))
        allowed.gc = 0;
    if (!may(b->job, ASIM_KNOB_DIVISIONS))
        allowed.divisions = 0;
    if (!may(b->job, ASIM_KNOB_EXPANDABLE))
        allowed.expandable = false;
    if (!may(b->job, ASIM_KNOB_LARGE_SEGMENT))
        allowed.large_segment_mib = 0;
    asim_code code = propose(b, &allowed, err);
    if (!code)
        code = propose(b, &defaults, err);
    if (!code)
        code = vary(b, &allowed, err);
    return code || asim_tune_equal(&allowed, &defaults) ? code : vary(b, &defaults, err);
}

static int order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

bool asim_tune_better(const asim_tune_job *job, const asim_tune_value *baseline, const asim_tune_value *a,
                      const asim_tune_value *b)
{
    const bool bounded = job->objective == ASIM_TUNE_STALL && baseline->refused == 0;
    const bool above_a = bounded && a->peak > baseline->peak, above_b = bounded && b->peak > baseline->peak;
    int by_peak = order(a->peak, b->peak), by_stall = order(a->stall, b->stall);
    int keys[] = {(int)a->faulty - (int)b->faulty,
                  order(a->refused, b->refused),
                  (int)above_a - (int)above_b,
                  job->objective == ASIM_TUNE_PEAK ? by_peak : by_stall,
                  job->objective == ASIM_TUNE_PEAK ? order(a->peak_sum, b->peak_sum) : by_peak,
                  job->objective == ASIM_TUNE_PEAK ? by_stall : order(a->peak_sum, b->peak_sum),
                  order(asim_tune_changes(&a->setting, &job->base->setting),
                        asim_tune_changes(&b->setting, &job->base->setting))};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i])
            return keys[i] < 0;
    return false;
}

bool asim_tune_allows(const asim_tune_job *job, const asim_tune_setting *setting)
{
    return (may(job, ASIM_KNOB_MAX_SPLIT) || !setting->max_split_mib) &&
           (may(job, ASIM_KNOB_GC) || !setting->gc) &&
           (may(job, ASIM_KNOB_DIVISIONS) || !setting->divisions) &&
           (may(job, ASIM_KNOB_EXPANDABLE) || !setting->expandable) &&
           (may(job, ASIM_KNOB_LARGE_SEGMENT) || !setting->large_segment_mib);
}

/* The first of the best that are allowed and not among the chosen; found->count: none. */
static size_t best_of(const asim_tune_job *job, const asim_tune_found *found, const size_t *chosen,
                      size_t chosen_count)
{
    size_t best = found->count;
    for (size_t i = 0; i < found->count; i++) {
        bool taken = !asim_tune_allows(job, &found->values[i].setting);
        for (size_t k = 0; k < chosen_count; k++) /* equal results lead to the same places */
            taken = taken || (found->values[chosen[k]].peak == found->values[i].peak &&
                              found->values[chosen[k]].stall == found->values[i].stall);
        if (!taken && (best == found->count ||
                       asim_tune_better(job, &found->values[0], &found->values[i], &found->values[best])))
            best = i;
    }
    return best;
}

asim_code asim_tune_search(const asim_cli *cli, const asim_tune_job *job, asim_tune_found *found,
                           asim_err *err)
{
    batch b = {.cli = cli, .job = job, .found = found, .err = ASIM_ERR_INIT};
    *found = (asim_tune_found){.breaks_complete = true};
    pthread_mutex_init(&b.lock, NULL);
    asim_progress_init(&b.progress, cli, "tuning");
    asim_code code = propose(&b, &job->base->setting, err);
    if (!code)
        code = evaluate(&b, err);
    b.deadline = job->budget_ns ? asim_wall_ns() + job->budget_ns : 0;
    for (unsigned round = 1; round <= ROUNDS_MAX && !code && !found->out_of_time; round++) {
        size_t elites[ELITES_MAX], elite_count = 0, best = found->best;
        b.count = 0;
        if (round == 1)
            code = vary_baseline(&b, err);
        for (; round > 1 && elite_count < ELITES_MAX && !code; elite_count++) {
            elites[elite_count] = best_of(job, found, elites, elite_count);
            if (elites[elite_count] == found->count)
                break;
            const asim_tune_setting from = found->values[elites[elite_count]].setting;
            if (!found->values[elites[elite_count]].faulty)
                code = vary(&b, &from, err);
        }
        if (!code)
            code = evaluate(&b, err);
        if (!code && (found->best = best_of(job, found, NULL, 0)) == found->count)
            found->best = 0;
        if (round > 1 && found->best == best)
            break;
    }
    asim_progress_fini(&b.progress);
    pthread_mutex_destroy(&b.lock);
    asim_mem_free(cli->mem, b.settings, b.capacity, sizeof *b.settings);
    return code;
}

void asim_tune_found_fini(asim_tune_found *found, const asim_hostmem *mem)
{
    asim_mem_free(mem, found->values, found->capacity, sizeof *found->values);
    *found = (asim_tune_found){0};
}

static bool before(const asim_tune_base *base, const asim_tune_value *a, const asim_tune_value *b)
{
    int keys[] = {order(a->peak, b->peak), order(a->stall, b->stall),
                  order(asim_tune_changes(&a->setting, &base->setting),
                        asim_tune_changes(&b->setting, &base->setting))};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i])
            return keys[i] < 0;
    return a < b;
}

/* The member of the front that follows those with at least this stall; found->count: none. */
static size_t next_on_front(const asim_tune_found *found, const asim_tune_base *base, uint64_t stall)
{
    size_t next = found->count;
    for (size_t i = 0; i < found->count; i++) {
        const asim_tune_value *value = &found->values[i];
        if (value->faulty || value->refused || value->stall >= stall)
            continue;
        if (next == found->count || before(base, value, &found->values[next]))
            next = i;
    }
    return next;
}

size_t asim_tune_front(const asim_tune_found *found, const asim_tune_base *base, size_t *ret_indices,
                       size_t capacity, size_t *ret_total)
{
    size_t total = 0, count = 0, number = 0;
    uint64_t stall = UINT64_MAX;
    for (size_t i; (i = next_on_front(found, base, stall)) < found->count; total++)
        stall = found->values[i].stall;
    stall = UINT64_MAX;
    for (size_t i; (i = next_on_front(found, base, stall)) < found->count; number++) {
        if (total <= capacity || number == count * (total - 1) / (capacity - 1))
            ret_indices[count++] = i;
        stall = found->values[i].stall;
    }
    *ret_total = total;
    return count;
}
