#include "tests/conform/conform_run.h"

#include "sim/rng.h"

#include <stdlib.h>
#include <string.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)

static const uint64_t thresholds[] = {1,         256,      512,      1 * KIB, 4 * KIB,  64 * KIB,
                                      512 * KIB, 1 * MIB,  2 * MIB,  4 * MIB, 10 * MIB, 12 * MIB,
                                      16 * MIB,  20 * MIB, 24 * MIB, 32 * MIB};
static const uint64_t huge[] = {UINT64_C(1) << 40, UINT64_C(1) << 62, UINT64_MAX - 511, UINT64_MAX};

static uint64_t random_size(asim_rng *rng, unsigned shape)
{
    size_t count = sizeof thresholds / sizeof *thresholds - (shape & CONFORM_SMALL ? 8 : 0);
    uint64_t dice = asim_rng_below(rng, 100);
    if (dice < 3)
        return 0;
    if (dice < 5)
        return huge[asim_rng_below(rng, sizeof huge / sizeof *huge)];
    uint64_t size = thresholds[asim_rng_below(rng, count)];
    if (dice < 50)
        return size + asim_rng_below(rng, 3) - 1; /* on it, or one byte beside it */
    return 1 + asim_rng_below(rng, size);
}

enum {
    SLOT_EMPTY,
    SLOT_LIVE,
    SLOT_PENDING
};

typedef struct generator {
    asim_rng rng;
    unsigned shape;
    uint8_t slots[CONFORM_SLOTS];
    uint16_t lanes[CONFORM_SLOTS]; /* of the allocation */
} generator;

/* A random slot in that state, or CONFORM_SLOTS. */
static uint32_t pick(generator *g, uint8_t state)
{
    uint32_t first = (uint32_t)asim_rng_below(&g->rng, CONFORM_SLOTS);
    for (uint32_t i = 0; i < CONFORM_SLOTS; i++)
        if (g->slots[(first + i) % CONFORM_SLOTS] == state)
            return (first + i) % CONFORM_SLOTS;
    return CONFORM_SLOTS;
}

static asim_event random_event(generator *g, uint32_t lane_count)
{
    uint64_t dice = asim_rng_below(&g->rng, 100);
    uint16_t lane = (uint16_t)asim_rng_below(&g->rng, lane_count);
    uint32_t slot;
    if ((g->shape & CONFORM_RESIZES) && asim_rng_below(&g->rng, 8) == 0 &&
        (slot = pick(g, SLOT_LIVE)) < CONFORM_SLOTS) {
        const bool access = asim_rng_below(&g->rng, 2);
        return (asim_event){.kind = access ? ASIM_EV_ACCESS : ASIM_EV_PREFIX,
                            .lane = access ? lane : 0,
                            .id = slot,
                            .size = random_size(&g->rng, g->shape)};
    }
    if (dice < 2)
        return (asim_event){.kind = ASIM_EV_TRIM, .lane = ASIM_LANE_ALL};
    if (dice < 12 && (g->shape & CONFORM_USES) && (slot = pick(g, SLOT_LIVE)) < CONFORM_SLOTS)
        return (asim_event){.kind = ASIM_EV_USE, .lane = lane, .id = slot};
    if (dice < 16 && (g->shape & CONFORM_USES)) {
        uint32_t scope = (uint32_t)asim_rng_below(&g->rng, 3);
        return (asim_event){
            .kind = ASIM_EV_SYNC, .lane = scope == ASIM_SYNC_ALL ? ASIM_LANE_ALL : lane, .id = scope};
    }
    if (dice < 30 && (slot = pick(g, SLOT_PENDING)) < CONFORM_SLOTS) {
        g->slots[slot] = SLOT_EMPTY;
        return (asim_event){.kind = ASIM_EV_FREE_DONE, .lane = g->lanes[slot], .id = slot};
    }
    if (dice < 35 && (g->shape & CONFORM_RESIZES) && (slot = pick(g, SLOT_LIVE)) < CONFORM_SLOTS)
        return (asim_event){.kind = ASIM_EV_RESIZE,
                            .lane = g->lanes[slot],
                            .id = slot,
                            .size = random_size(&g->rng, g->shape)};
    if (dice < 68 && (slot = pick(g, SLOT_EMPTY)) < CONFORM_SLOTS) {
        g->slots[slot] = SLOT_LIVE;
        g->lanes[slot] = lane;
        return (asim_event){.kind = ASIM_EV_ALLOC,
                            .flags = g->shape & CONFORM_RESIZES ? (uint8_t)asim_rng_below(&g->rng, 4) : 0,
                            .lane = lane,
                            .id = slot,
                            .size = random_size(&g->rng, g->shape)};
    }
    if ((slot = pick(g, SLOT_LIVE)) < CONFORM_SLOTS) {
        bool pending = (g->shape & CONFORM_PENDING) && asim_rng_below(&g->rng, 2);
        g->slots[slot] = pending ? SLOT_PENDING : SLOT_EMPTY;
        return (asim_event){.kind = ASIM_EV_FREE,
                            .flags = pending ? ASIM_FREE_PENDING : 0,
                            .lane = g->lanes[slot],
                            .id = slot};
    }
    return (asim_event){.kind = ASIM_EV_TRIM, .lane = ASIM_LANE_ALL};
}

void conform_workload_make(conform_workload *ret_workload, uint64_t seed, unsigned shape, size_t events)
{
    conform_workload *w = ret_workload;
    generator g = {.rng = {seed}, .shape = shape};
    uint32_t devices = shape & CONFORM_TWO_DEVICES ? 2 : 1;
    memset(w, 0, sizeof *w);
    for (uint32_t d = 0; d < devices; d++) {
        w->devices[d].name = ASIM_NO_INDEX;
        for (uint32_t s = 0; s < CONFORM_STREAMS; s++)
            w->lanes[d * CONFORM_STREAMS + s] = (asim_lane){s ? d * 16 + s : 0, (uint16_t)d, 0};
    }
    for (size_t i = 0; i < events; i++)
        w->events[i] = random_event(&g, devices * CONFORM_STREAMS);
    w->trace = (asim_trace){
        .events = w->events,
        .event_count = events,
        .slot_count = CONFORM_SLOTS,
        .lanes = w->lanes,
        .lane_count = devices * CONFORM_STREAMS,
        .devices = w->devices,
        .device_count = devices,
        .source = ASIM_NO_INDEX,
        .settings = ASIM_NO_INDEX,
    };
}

/* --- host memory --- */

/* Each block is preceded by its size. */
static void *memory_resize(void *ctx, void *block, size_t old_size, size_t new_size)
{
    conform_memory *memory = ctx;
    size_t *head = block ? (size_t *)block - 2 : NULL;
    if (head && head[0] != old_size)
        memory->misused = true;
    if (new_size == 0) {
        memory->bytes -= head ? head[0] : 0;
        free(head);
        return NULL;
    }
    if (++memory->requests == memory->refuse_at)
        return NULL;
    size_t was = head ? head[0] : 0;
    size_t *fresh = realloc(head, new_size + 2 * sizeof *head);
    if (!fresh)
        return NULL;
    fresh[0] = new_size;
    memory->bytes += new_size - was;
    return fresh + 2;
}

void conform_memory_init(conform_memory *memory, uint64_t refuse_at)
{
    *memory = (conform_memory){.table = {memory_resize, memory}, .refuse_at = refuse_at};
}

/* --- the faulty device: every operation passed on, some refused --- */

static bool refuses(conform_faulty *faulty)
{
    return ++faulty->calls == faulty->refuse_at;
}

static asim_device_result faulty_alloc(void *ctx, unsigned device, uint64_t size, unsigned lane,
                                       asim_region *ret_region)
{
    conform_faulty *f = ctx;
    return refuses(f) ? f->answer : f->inner.ops->alloc(f->inner.ctx, device, size, lane, ret_region);
}

static asim_device_result faulty_free(void *ctx, uint32_t region)
{
    conform_faulty *f = ctx;
    return f->inner.ops->free(f->inner.ctx, region);
}

static asim_device_result faulty_reserve(void *ctx, unsigned device, uint64_t size, unsigned lane,
                                         asim_region *ret_region)
{
    conform_faulty *f = ctx;
    return refuses(f) ? f->answer : f->inner.ops->reserve(f->inner.ctx, device, size, lane, ret_region);
}

static asim_device_result faulty_unreserve(void *ctx, uint32_t region)
{
    conform_faulty *f = ctx;
    return f->inner.ops->unreserve(f->inner.ctx, region);
}

static asim_device_result faulty_map(void *ctx, uint32_t region, uint64_t offset, uint64_t size,
                                     uint64_t page)
{
    conform_faulty *f = ctx;
    return refuses(f) ? f->answer : f->inner.ops->map(f->inner.ctx, region, offset, size, page);
}

static asim_device_result faulty_unmap(void *ctx, uint32_t region, uint64_t offset, uint64_t size,
                                       uint64_t page)
{
    conform_faulty *f = ctx;
    return f->inner.ops->unmap(f->inner.ctx, region, offset, size, page);
}

static asim_device_result faulty_claim(void *ctx, unsigned device, uint64_t address, uint64_t size,
                                       bool range, asim_region *ret_region)
{
    conform_faulty *f = ctx;
    return f->inner.ops->claim(f->inner.ctx, device, address, size, range, ret_region);
}

static void faulty_memory(void *ctx, unsigned device, uint64_t *ret_free, uint64_t *ret_total)
{
    conform_faulty *f = ctx;
    f->inner.ops->memory(f->inner.ctx, device, ret_free, ret_total);
}

static uint64_t faulty_event_record(void *ctx, unsigned lane)
{
    conform_faulty *f = ctx;
    return f->inner.ops->event_record(f->inner.ctx, lane);
}

static bool faulty_event_query(void *ctx, uint64_t event)
{
    conform_faulty *f = ctx;
    return f->inner.ops->event_query(f->inner.ctx, event);
}

static uint64_t faulty_now_ns(void *ctx)
{
    conform_faulty *f = ctx;
    return f->inner.ops->now_ns(f->inner.ctx);
}

static void faulty_event_wait(void *ctx, uint64_t event)
{
    conform_faulty *f = ctx;
    f->inner.ops->event_wait(f->inner.ctx, event);
}

static void faulty_stream_wait(void *ctx, unsigned lane)
{
    conform_faulty *f = ctx;
    f->inner.ops->stream_wait(f->inner.ctx, lane);
}

static void faulty_device_wait(void *ctx, unsigned device)
{
    conform_faulty *f = ctx;
    f->inner.ops->device_wait(f->inner.ctx, device);
}

static asim_device_result faulty_copy(void *ctx, unsigned device, uint64_t to, uint64_t from, uint64_t size)
{
    conform_faulty *f = ctx;
    return f->inner.ops->copy(f->inner.ctx, device, to, from, size);
}

static asim_device_result faulty_alias(void *ctx, uint32_t region, uint64_t offset, uint32_t from,
                                       uint64_t from_offset, uint64_t size, uint64_t page)
{
    conform_faulty *f = ctx;
    return refuses(f) ? f->answer
                      : f->inner.ops->alias(f->inner.ctx, region, offset, from, from_offset, size, page);
}

static asim_device_result faulty_unalias(void *ctx, uint32_t region, uint64_t page)
{
    conform_faulty *f = ctx;
    return f->inner.ops->unalias(f->inner.ctx, region, page);
}

static const asim_device_ops faulty_ops = {
    .alloc = faulty_alloc,
    .free = faulty_free,
    .reserve = faulty_reserve,
    .unreserve = faulty_unreserve,
    .map = faulty_map,
    .unmap = faulty_unmap,
    .claim = faulty_claim,
    .memory = faulty_memory,
    .event_record = faulty_event_record,
    .event_query = faulty_event_query,
    .event_wait = faulty_event_wait,
    .stream_wait = faulty_stream_wait,
    .device_wait = faulty_device_wait,
    .copy = faulty_copy,
    .alias = faulty_alias,
    .unalias = faulty_unalias,
    .now_ns = faulty_now_ns,
};

static void wrap(void *ctx, asim_device *device)
{
    conform_faulty *faulty = ctx;
    faulty->inner = *device;
    *device = (asim_device){&faulty_ops, faulty};
}

/* --- one run --- */

/* Requests of 2^60 bytes and more may be refused before the allocator hears of them (R24). */
static uint64_t unseen_requests(const conform_workload *w)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < w->trace.event_count; i++)
        count += (w->events[i].kind == ASIM_EV_ALLOC || w->events[i].kind == ASIM_EV_RESIZE) &&
                 w->events[i].size >= UINT64_C(1) << 60;
    return count;
}

static asim_code run(const conform_options *o, const void *params, conform_shadow *shadow,
                     conform_outcome *outcome)
{
    const asim_profile profile = {.name = "conform",
                                  .origin = "estimated: round numbers",
                                  .capacity_bytes = o->capacity,
                                  .granule_bytes = 2 * MIB,
                                  .hit_ns = 100,
                                  .malloc_ns = 1000,
                                  .free_ns = 1000,
                                  .map_ns = 1000,
                                  .unmap_ns = 1000,
                                  .copy_bytes_per_us = MIB};
    const asim_observer_use use = {&conform_shadow_observer, &shadow};
    const asim_run_config config = {.trace = &o->workload->trace,
                                    .policy = o->policy,
                                    .params = params,
                                    .profile = &profile,
                                    .capacity = o->capacity,
                                    .seed = 1,
                                    .check = o->check,
                                    .observers = &use,
                                    .observer_count = o->shadow ? 1 : 0,
                                    .wrap_device = o->faulty ? wrap : NULL,
                                    .ctx = o->faulty};
    asim_engine *engine = NULL;
    asim_code code =
        asim_engine_new(&config, o->memory ? &o->memory->table : asim_hostmem_libc(), &engine, &outcome->err);
    if (!code)
        code = asim_engine_run(engine, &outcome->err);
    if (!code)
        asim_engine_record(engine, &outcome->record);
    asim_engine_free(engine);
    outcome->placed = shadow->placed;
    outcome->refusals = shadow->refusals;
    uint64_t refused = outcome->record.metrics[ASIM_METRIC_ooms];
    if (!code && o->shadow &&
        (shadow->refusals > refused || refused - shadow->refusals > unseen_requests(o->workload)))
        code = asim_fail(&outcome->err, ASIM_E_BUG, "shadow: %llu requests were refused, %llu told",
                         (unsigned long long)refused, (unsigned long long)shadow->refusals);
    return code;
}

asim_code conform_run(const conform_options *options, conform_outcome *ret_outcome)
{
    const asim_param_table *table = &options->policy->params;
    *ret_outcome = (conform_outcome){.err = ASIM_ERR_INIT};
    conform_shadow *shadow = calloc(1, sizeof *shadow);
    void *params = calloc(1, table->block_size + 1);
    asim_code code = shadow && params ? ASIM_OK : asim_fail_memory(&ret_outcome->err, sizeof *shadow);
    if (!code) {
        asim_params_default(table, params);
        code = asim_params_parse(table, params, options->params, &ret_outcome->err);
    }
    if (!code)
        code = run(options, params, shadow, ret_outcome);
    free(shadow);
    free(params);
    return code;
}
