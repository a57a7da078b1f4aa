#include "sim/fit.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

enum {
    PARTS = 64 /* of the range, for the workers to take; fixed, so that the runs are the same for any number
                  of them */
};

typedef struct span_list {
    asim_fit_span *items;
    size_t count, capacity;
} span_list;

typedef struct search {
    const asim_fit_request *request;
    const asim_hostmem *mem;
    uint64_t granule, granules; /* bytes; capacities 1..granules of them are looked at */
    uint64_t step;              /* granules between tries */
    pthread_mutex_t lock;
    unsigned next_part;
    uint64_t runs, settled;
    bool over_budget, stopped;
    asim_code code;
    asim_err err;
    span_list parts[PARTS];
} search;

static asim_code add_span(const asim_hostmem *mem, span_list *list, asim_fit_span span, asim_err *err)
{
    if (span.lowest >= span.below)
        return ASIM_OK;
    if (list->count && list->items[list->count - 1].runs == span.runs &&
        list->items[list->count - 1].lowest == span.below) {
        list->items[list->count - 1].lowest = span.lowest;
        return ASIM_OK;
    }
    void *items = list->items;
    asim_code code = asim_mem_grow(mem, &items, &list->capacity, list->count + 1, sizeof(asim_fit_span), err);
    list->items = items;
    if (!code)
        list->items[list->count++] = span;
    return code;
}

/* One run at so many granules; the span is in bytes, rounded inwards to granules. */
static asim_code probe(search *s, uint64_t granules, asim_fit_span *ret_span, asim_err *err)
{
    asim_run_config config = s->request->config;
    config.capacity = granules * s->granule;
    config.capacities = NULL;
    config.stop_at_oom = true;
    config.observers = NULL;
    config.observer_count = 0;
    config.progress = NULL;
    asim_engine *engine = NULL;
    asim_run_record record;
    asim_code code = asim_engine_new(&config, s->mem, &engine, err);
    if (!code && !(code = asim_engine_run(engine, err))) {
        uint64_t lowest, below;
        asim_engine_record(engine, &record);
        asim_engine_same_capacities(engine, &lowest, &below);
        lowest = (lowest + s->granule - 1) / s->granule * s->granule;
        uint64_t end =
            below > UINT64_MAX - s->granule ? UINT64_MAX : (below + s->granule - 1) / s->granule * s->granule;
        *ret_span = (asim_fit_span){lowest < config.capacity ? lowest : config.capacity,
                                    end > config.capacity ? end : config.capacity + s->granule,
                                    record.status == ASIM_RUN_OK};
    }
    asim_engine_free(engine);
    return code;
}

/* Counts a run, and the granules that the one before has settled; false: no more may be made. */
static bool count_run(search *s, uint64_t settled)
{
    pthread_mutex_lock(&s->lock);
    s->runs++;
    s->settled += settled;
    s->over_budget = s->over_budget || (s->step == 1 && s->runs > s->request->max_runs);
    if (s->request->progress && s->request->progress(s->request->ctx, s->settled, s->granules))
        s->stopped = true;
    bool more = !s->over_budget && !s->stopped && !s->code;
    pthread_mutex_unlock(&s->lock);
    return more;
}

/* Finds, between a try and the next one below it that came out otherwise, where the change is. */
static asim_code narrow(search *s, span_list *list, uint64_t low, uint64_t high, bool high_runs,
                        asim_err *err)
{
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        asim_fit_span span;
        if (!count_run(s, 0))
            return ASIM_OK;
        asim_code code = probe(s, middle, &span, err);
        if (code)
            return code;
        if (span.runs == high_runs)
            high = middle;
        else
            low = middle;
    }
    uint64_t top = list->items[list->count - 1].lowest;
    return add_span(s->mem, list, (asim_fit_span){high * s->granule, top, high_runs}, err);
}

/* Capacities from (first, last] granules, from the top down. */
static asim_code search_part(search *s, uint64_t first, uint64_t last, span_list *list, asim_err *err)
{
    const uint64_t end = (last + 1) * s->granule;
    uint64_t at = last, above = 0, before = last;
    bool above_runs = false;
    while (at > first) {
        asim_fit_span span;
        if (!count_run(s, before - at))
            return ASIM_OK;
        before = at;
        asim_code code = probe(s, at, &span, err);
        if (code)
            return code;
        uint64_t bottom = span.lowest / s->granule;
        if (above && above_runs != span.runs && s->step > 1)
            code = narrow(s, list, at, above, above_runs, err);
        uint64_t top = list->count ? list->items[list->count - 1].lowest : end;
        if (bottom <= first)
            bottom = first + 1;
        if (!code)
            code = add_span(s->mem, list, (asim_fit_span){bottom * s->granule, top, span.runs}, err);
        if (code)
            return code;
        above = bottom;
        above_runs = span.runs;
        uint64_t next = bottom - 1;
        if (bottom == at && s->step > 1 && next > first) /* it told of itself only */
            next = at - first > s->step ? at - s->step : first + 1;
        at = next;
    }
    return ASIM_OK;
}

static void *work(void *ctx)
{
    search *s = ctx;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        unsigned part = s->next_part++;
        bool stop = part >= PARTS || s->code || s->stopped || s->over_budget;
        pthread_mutex_unlock(&s->lock);
        if (stop)
            return NULL;
        /* Part 0 is the highest. */
        uint64_t first = (uint64_t)((unsigned __int128)s->granules * (PARTS - 1 - part) / PARTS);
        uint64_t last = (uint64_t)((unsigned __int128)s->granules * (PARTS - part) / PARTS);
        asim_err err = ASIM_ERR_INIT;
        asim_code code = search_part(s, first, last, &s->parts[part], &err);
        if (!code)
            continue;
        pthread_mutex_lock(&s->lock);
        if (!s->code) {
            s->code = code;
            s->err = err;
        }
        pthread_mutex_unlock(&s->lock);
    }
}

static void drop_parts(search *s)
{
    for (unsigned i = 0; i < PARTS; i++) {
        asim_mem_free(s->mem, s->parts[i].items, s->parts[i].capacity, sizeof(asim_fit_span));
        s->parts[i] = (span_list){NULL, 0, 0};
    }
}

static asim_code walk(search *s, asim_err *err)
{
    pthread_t threads[64];
    unsigned started = 0, wanted = s->request->jobs < 64 ? s->request->jobs : 64;
    s->next_part = 0;
    s->runs = s->settled = 0;
    while (started + 1 < wanted && pthread_create(&threads[started], NULL, work, s) == 0)
        started++;
    work(s);
    for (unsigned i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (s->code && err)
        *err = s->err;
    if (!s->code && s->stopped)
        return asim_fail(err, ASIM_E_SYSTEM, "stopped after %" PRIu64 " runs", s->runs);
    return s->code;
}

static asim_code collect(search *s, asim_fit *fit, asim_err *err)
{
    span_list all = {NULL, 0, 0};
    asim_code code = ASIM_OK;
    for (unsigned part = 0; part < PARTS && !code; part++)
        for (size_t i = 0; i < s->parts[part].count && !code; i++)
            code = add_span(s->mem, &all, s->parts[part].items[i], err);
    fit->spans = all.items;
    fit->span_count = all.count;
    fit->span_capacity = all.capacity;
    if (code)
        return code;
    fit->always = UINT64_MAX;
    if (all.items[0].runs)
        fit->always = all.items[0].lowest;
    for (size_t i = 0; i < all.count; i++)
        if (all.items[i].runs) {
            fit->ever = true;
            fit->smallest = all.items[i].lowest;
        }
    return ASIM_OK;
}

asim_code asim_fit_find(const asim_fit_request *request, const asim_hostmem *mem, asim_fit *ret_fit,
                        asim_err *err)
{
    search s = {.request = request, .mem = mem, .granule = request->config.profile->granule_bytes, .step = 1};
    s.granules = request->top / s.granule;
    *ret_fit = (asim_fit){0};
    if (s.granules == 0)
        return asim_fail(err, ASIM_E_USAGE,
                         "the largest capacity is below the device's granule of %" PRIu64 " bytes",
                         s.granule);
    pthread_mutex_init(&s.lock, NULL);
    asim_fit_span top;
    asim_code code = probe(&s, s.granules, &top, err);
    ret_fit->beyond = !code && top.runs && top.below == UINT64_MAX;
    if (!code)
        code = walk(&s, err);
    if (!code && s.over_budget) {
        drop_parts(&s);
        s.over_budget = false;
        s.step = (s.granules + request->max_runs - 1) / request->max_runs;
        s.step = s.step < 2 ? 2 : s.step;
        code = walk(&s, err);
    }
    ret_fit->step = s.step * s.granule;
    ret_fit->run_count = s.runs + 1;
    if (!code)
        code = collect(&s, ret_fit, err);
    drop_parts(&s);
    pthread_mutex_destroy(&s.lock);
    if (code)
        asim_fit_fini(ret_fit, mem);
    return code;
}

void asim_fit_fini(asim_fit *fit, const asim_hostmem *mem)
{
    asim_mem_free(mem, fit->spans, fit->span_capacity, sizeof(asim_fit_span));
    *fit = (asim_fit){0};
}
