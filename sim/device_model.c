#include "sim/device_model.h"

#include "sim/hash.h"
#include "sim/idmap.h"

#include <string.h>

typedef struct stream {
    uint64_t handle;
    uint16_t device;
    uint64_t issued;    /* events recorded so far (completion by sync) */
    uint64_t completed; /* ... of which these are done */
} stream;

typedef struct event {
    uint32_t stream;
    uint32_t next_free; /* of an unused entry */
    uint64_t moment;    /* by sync: sequence number on the stream; by clock: nanoseconds */
} event;

typedef struct region {
    uint64_t address, size;
    uint64_t held;    /* bytes of capacity: the rounded segment, or the mapped pages */
    uint64_t aliased; /* bytes of other ranges' pages that it shows */
    uint16_t device;
    uint8_t range, live;
} region;

typedef struct device_state {
    uint64_t capacity, used;
    asim_device_counts counts;
} device_state;

struct asim_device_model {
    const asim_hostmem *mem;
    const asim_trace *trace;
    asim_profile profile;
    const asim_script *script;
    asim_clocks *clocks;
    bool by_clock;
    uint64_t next_address;
    device_state *devices;
    stream *streams;
    uint32_t stream_count;
    uint32_t *lane_streams; /* stream index of each lane */
    region *regions;
    size_t region_count, region_capacity;
    event *events;
    size_t event_count, event_capacity;
    uint32_t first_free_event;
    asim_capacity_span span;
    bool in_run;
};

static uint64_t round_up(uint64_t size, uint64_t granule)
{
    return size > UINT64_MAX - granule ? UINT64_MAX - granule + 1 : (size + granule - 1) & ~(granule - 1);
}

static uint64_t mib(uint64_t bytes)
{
    return bytes >> 20;
}

/* Memory of other streams is in use until they are done: cudaFree and unmapping wait for them. */
static void wait_for_device(asim_device_model *model, unsigned device)
{
    if (!model->by_clock)
        return;
    for (uint32_t i = 0; i < model->stream_count; i++)
        if (model->streams[i].device == device)
            asim_clocks_wait(model->clocks, model->clocks->stream_ns[i]);
}

static bool add_region(asim_device_model *model, unsigned device, uint64_t address, uint64_t size, bool range,
                       asim_region *ret_region)
{
    void *regions = model->regions;
    if (model->region_count >= UINT32_MAX || asim_mem_grow(model->mem, &regions, &model->region_capacity,
                                                           model->region_count + 1, sizeof(region), NULL))
        return false;
    model->regions = regions;
    model->regions[model->region_count] =
        (region){.address = address, .size = size, .device = (uint16_t)device, .range = range, .live = true};
    *ret_region = (asim_region){address, size, (uint32_t)model->region_count++};
    return true;
}

/* A fresh address; regions are a granule apart, so they never touch. 0 when address space is used up. */
static uint64_t fresh_address(asim_device_model *model, uint64_t size)
{
    uint64_t granule = model->profile.granule_bytes;
    uint64_t address = model->next_address, end;
    if (__builtin_add_overflow(address, round_up(size, granule), &end) || end > UINT64_MAX - 2 * granule)
        return 0;
    model->next_address = end + granule;
    return address;
}

static uint64_t now(const asim_device_model *model)
{
    return model->in_run ? model->script->event + 1 : 0;
}

static void note_used(asim_device_model *model, const device_state *device)
{
    if (device->used > model->span.lowest)
        model->span.lowest = device->used;
}

static void note_refused(asim_device_model *model, const device_state *device, uint64_t bytes)
{
    uint64_t needed;
    model->span.refused = now(model);
    if (!__builtin_add_overflow(device->used, bytes, &needed) && needed < model->span.below)
        model->span.below = needed;
}

static void note_asked(asim_device_model *model)
{
    uint64_t *asked = model->span.refused == now(model) ? &model->span.asked_after : &model->span.asked;
    if (*asked == UINT64_MAX)
        *asked = now(model);
}

/* A range is as long as its device is large, or of a length of its own: on a device smaller in proportion, or
 * by less, it would still reach to end. */
static void note_range(asim_device_model *model, const device_state *device, const region *range,
                       uint64_t end, uint64_t page)
{
    uint64_t needed = end > range->size - page ? range->size : end + page;
    unsigned __int128 capacity = (unsigned __int128)device->capacity * needed / range->size + 1;
    if (capacity > model->span.lowest)
        model->span.lowest = capacity < device->capacity ? (uint64_t)capacity : device->capacity;
}

static bool take(asim_device_model *model, device_state *device, uint64_t bytes)
{
    if (bytes > device->capacity || device->used > device->capacity - bytes) {
        note_refused(model, device, bytes);
        return false;
    }
    device->used += bytes;
    note_used(model, device);
    return true;
}

static asim_device_result model_alloc(void *ctx, unsigned device, uint64_t size, unsigned lane,
                                      asim_region *ret_region)
{
    asim_device_model *model = ctx;
    device_state *state = &model->devices[device];
    (void)lane;
    asim_clocks_stall(model->clocks, model->profile.malloc_ns + mib(size) * model->profile.malloc_per_mib_ns);
    const asim_recorded_call *recorded = asim_script_peek(model->script);
    uint64_t held = round_up(size, model->profile.granule_bytes), address = 0;
    if (recorded) {
        if (recorded->kind == ASIM_CALL_SEGMENT_ALLOC && recorded->size == size)
            address = recorded->address;
        else if (recorded->kind == ASIM_CALL_SEGMENT_FREE || recorded->kind == ASIM_CALL_UNMAP ||
                 recorded->kind == ASIM_CALL_OOM)
            held = UINT64_MAX;
    }
    if (size == 0 || !take(model, state, held)) {
        state->counts.failed_allocs++;
        return ASIM_DEVICE_OOM;
    }
    if (!address)
        address = fresh_address(model, size);
    if (!address || !add_region(model, device, address, size, false, ret_region)) {
        state->used -= held;
        return ASIM_DEVICE_ERROR;
    }
    model->regions[ret_region->index].held = held;
    state->counts.allocs++;
    return ASIM_DEVICE_OK;
}

static region *live_region(asim_device_model *model, uint32_t index, bool range)
{
    if (index >= model->region_count || !model->regions[index].live || model->regions[index].range != range)
        return NULL;
    return &model->regions[index];
}

static asim_device_result model_free(void *ctx, uint32_t index)
{
    asim_device_model *model = ctx;
    region *r = live_region(model, index, false);
    if (!r)
        return ASIM_DEVICE_ERROR;
    wait_for_device(model, r->device);
    asim_clocks_stall(model->clocks, model->profile.free_ns + mib(r->size) * model->profile.free_per_mib_ns);
    model->devices[r->device].used -= r->held;
    model->devices[r->device].counts.frees++;
    r->live = false;
    return ASIM_DEVICE_OK;
}

static asim_device_result model_reserve(void *ctx, unsigned device, uint64_t size, unsigned lane,
                                        asim_region *ret_region)
{
    asim_device_model *model = ctx;
    (void)lane;
    asim_clocks_stall(model->clocks, model->profile.reserve_ns);
    /* The first page of a fresh range is mapped at its start (R85, R90), so a recorded map tells where. */
    const asim_recorded_call *recorded = asim_script_peek(model->script);
    uint64_t address =
        recorded && recorded->kind == ASIM_CALL_MAP ? recorded->address : fresh_address(model, size);
    if (!address || size == 0)
        return ASIM_DEVICE_OOM;
    if (!add_region(model, device, address, size, true, ret_region))
        return ASIM_DEVICE_ERROR;
    model->devices[device].counts.reserves++;
    return ASIM_DEVICE_OK;
}

static asim_device_result model_unreserve(void *ctx, uint32_t index)
{
    asim_device_model *model = ctx;
    region *r = live_region(model, index, true);
    if (!r || r->held || r->aliased)
        return ASIM_DEVICE_ERROR;
    asim_clocks_stall(model->clocks, model->profile.unreserve_ns);
    r->live = false;
    return ASIM_DEVICE_OK;
}

static bool is_page_range(const region *r, uint64_t offset, uint64_t size, uint64_t page)
{
    return r && page > 0 && size > 0 && offset % page == 0 && size % page == 0 && offset <= r->size &&
           size <= r->size - offset;
}

static asim_device_result model_map(void *ctx, uint32_t index, uint64_t offset, uint64_t size, uint64_t page)
{
    asim_device_model *model = ctx;
    region *r = live_region(model, index, true);
    if (!is_page_range(r, offset, size, page))
        return ASIM_DEVICE_ERROR;
    device_state *state = &model->devices[r->device];
    note_range(model, state, r, offset + size, page);
    const asim_recorded_call *recorded = asim_script_peek(model->script);
    uint64_t held = round_up(page, model->profile.granule_bytes), wanted = size / page;
    uint64_t possible = (state->capacity - state->used) / held;
    bool forced = recorded && (recorded->kind == ASIM_CALL_SEGMENT_FREE ||
                               recorded->kind == ASIM_CALL_UNMAP || recorded->kind == ASIM_CALL_OOM);
    if (forced)
        possible = 0;
    uint64_t got = wanted < possible ? wanted : possible;
    asim_clocks_stall(model->clocks, model->profile.map_ns + got * model->profile.map_per_page_ns);
    state->counts.pages += got;
    if (got < wanted) {
        state->counts.failed_pages++;
        state->counts.released_pages += got;
        if (!forced)
            note_refused(model, state, wanted > UINT64_MAX / held ? UINT64_MAX : wanted * held);
        if (got && model->by_clock)
            note_asked(model);
        return ASIM_DEVICE_OOM;
    }
    state->used += got * held;
    r->held += got * held;
    note_used(model, state);
    return ASIM_DEVICE_OK;
}

static asim_device_result model_unmap(void *ctx, uint32_t index, uint64_t offset, uint64_t size,
                                      uint64_t page)
{
    asim_device_model *model = ctx;
    region *r = live_region(model, index, true);
    if (!is_page_range(r, offset, size, page))
        return ASIM_DEVICE_ERROR;
    uint64_t pages = size / page, held = pages * round_up(page, model->profile.granule_bytes);
    if (held > r->held)
        return ASIM_DEVICE_ERROR;
    wait_for_device(model, r->device);
    asim_clocks_stall(model->clocks, model->profile.unmap_ns + pages * model->profile.unmap_per_page_ns);
    r->held -= held;
    model->devices[r->device].used -= held;
    model->devices[r->device].counts.released_pages += pages;
    return ASIM_DEVICE_OK;
}

static asim_device_result model_claim(void *ctx, unsigned device, uint64_t address, uint64_t size, bool range,
                                      asim_region *ret_region)
{
    asim_device_model *model = ctx;
    uint64_t held = range ? 0 : round_up(size, model->profile.granule_bytes);
    if (size == 0 || address > UINT64_MAX - size)
        return ASIM_DEVICE_ERROR;
    if (!take(model, &model->devices[device], held))
        return ASIM_DEVICE_OOM;
    if (!add_region(model, device, address, size, range, ret_region))
        return ASIM_DEVICE_ERROR;
    model->regions[ret_region->index].held = held;
    uint64_t after = round_up(address + size, model->profile.granule_bytes) + model->profile.granule_bytes;
    if (after > model->next_address)
        model->next_address = after;
    return ASIM_DEVICE_OK;
}

static void model_memory(void *ctx, unsigned device, uint64_t *ret_free, uint64_t *ret_total)
{
    asim_device_model *model = ctx;
    note_asked(model);
    *ret_free = model->devices[device].capacity - model->devices[device].used;
    *ret_total = model->devices[device].capacity;
}

static uint64_t model_event_record(void *ctx, unsigned lane)
{
    asim_device_model *model = ctx;
    uint32_t index = model->first_free_event, on = model->lane_streams[lane];
    if (index != ASIM_NO_INDEX) {
        model->first_free_event = model->events[index].next_free;
    } else {
        void *events = model->events;
        if (asim_mem_grow(model->mem, &events, &model->event_capacity, model->event_count + 1, sizeof(event),
                          NULL))
            return UINT64_MAX;
        model->events = events;
        index = (uint32_t)model->event_count++;
    }
    asim_clocks_stall(model->clocks, model->profile.event_record_ns);
    stream *s = &model->streams[on];
    s->issued++;
    model->events[index] =
        (event){.stream = on, .moment = model->by_clock ? model->clocks->stream_ns[on] : s->issued};
    model->devices[s->device].counts.event_records++;
    return index;
}

static void end_event(asim_device_model *model, uint64_t index)
{
    model->events[index].next_free = model->first_free_event;
    model->first_free_event = (uint32_t)index;
}

static bool model_event_query(void *ctx, uint64_t index)
{
    asim_device_model *model = ctx;
    if (index >= model->event_count)
        return true;
    const event *e = &model->events[index];
    asim_clocks_stall(model->clocks, model->profile.event_query_ns);
    model->devices[model->streams[e->stream].device].counts.event_queries++;
    bool done = model->by_clock ? e->moment <= model->clocks->host_ns
                                : e->moment <= model->streams[e->stream].completed;
    if (done)
        end_event(model, index);
    return done;
}

static void model_event_wait(void *ctx, uint64_t index)
{
    asim_device_model *model = ctx;
    if (index >= model->event_count)
        return;
    const event *e = &model->events[index];
    asim_clocks_stall(model->clocks, model->profile.wait_ns);
    if (model->by_clock)
        asim_clocks_wait(model->clocks, e->moment);
    else if (model->streams[e->stream].completed < e->moment)
        model->streams[e->stream].completed = e->moment;
    end_event(model, index);
}

static void finish_stream(asim_device_model *model, uint32_t index)
{
    if (model->by_clock)
        asim_clocks_wait(model->clocks, model->clocks->stream_ns[index]);
    else
        model->streams[index].completed = model->streams[index].issued;
}

static void model_stream_wait(void *ctx, unsigned lane)
{
    asim_device_model *model = ctx;
    asim_clocks_stall(model->clocks, model->profile.wait_ns);
    finish_stream(model, model->lane_streams[lane]);
}

static void model_device_wait(void *ctx, unsigned device)
{
    asim_device_model *model = ctx;
    asim_clocks_stall(model->clocks, model->profile.wait_ns);
    for (uint32_t i = 0; i < model->stream_count; i++)
        if (model->streams[i].device == device)
            finish_stream(model, i);
}

static asim_device_result model_copy(void *ctx, unsigned device, uint64_t to, uint64_t from, uint64_t size)
{
    asim_device_model *model = ctx;
    (void)to;
    (void)from;
    (void)device;
    asim_clocks_stall(model->clocks, model->profile.move_ns + (uint64_t)((unsigned __int128)size * 1000 /
                                                                         model->profile.copy_bytes_per_us));
    return ASIM_DEVICE_OK;
}

/* Charged as a map: of its costs, creating the memory is the small part (GMLake, table 1: 18 of 115). */
static asim_device_result model_alias(void *ctx, uint32_t index, uint64_t offset, uint32_t from,
                                      uint64_t from_offset, uint64_t size, uint64_t page)
{
    asim_device_model *model = ctx;
    region *r = live_region(model, index, true);
    const region *source = live_region(model, from, true);
    if (!is_page_range(r, offset, size, page) || !is_page_range(source, from_offset, size, page) || r->held ||
        r == source)
        return ASIM_DEVICE_ERROR;
    asim_clocks_stall(model->clocks, model->profile.map_ns + size / page * model->profile.map_per_page_ns);
    r->aliased += size;
    return ASIM_DEVICE_OK;
}

static asim_device_result model_unalias(void *ctx, uint32_t index, uint64_t page)
{
    asim_device_model *model = ctx;
    region *r = live_region(model, index, true);
    if (!r || !r->aliased || page == 0)
        return ASIM_DEVICE_ERROR;
    wait_for_device(model, r->device);
    asim_clocks_stall(model->clocks,
                      model->profile.unmap_ns + r->aliased / page * model->profile.unmap_per_page_ns);
    r->aliased = 0;
    return ASIM_DEVICE_OK;
}

static uint64_t model_now_ns(void *ctx)
{
    const asim_device_model *model = ctx;
    return model->clocks->host_ns;
}

asim_device asim_device_model_table(asim_device_model *model)
{
    static const asim_device_ops ops = {
        .alloc = model_alloc,
        .free = model_free,
        .reserve = model_reserve,
        .unreserve = model_unreserve,
        .map = model_map,
        .unmap = model_unmap,
        .claim = model_claim,
        .memory = model_memory,
        .event_record = model_event_record,
        .event_query = model_event_query,
        .event_wait = model_event_wait,
        .stream_wait = model_stream_wait,
        .device_wait = model_device_wait,
        .copy = model_copy,
        .alias = model_alias,
        .unalias = model_unalias,
        .now_ns = model_now_ns,
    };
    return (asim_device){&ops, model};
}

void asim_device_model_sync(asim_device_model *model, asim_sync_scope scope, unsigned lane)
{
    uint32_t only = scope == ASIM_SYNC_STREAM ? model->lane_streams[lane] : ASIM_NO_INDEX;
    for (uint32_t i = 0; i < model->stream_count; i++) {
        bool meant =
            scope == ASIM_SYNC_ALL || i == only ||
            (scope == ASIM_SYNC_DEVICE && model->streams[i].device == model->trace->lanes[lane].device);
        if (!meant)
            continue;
        model->streams[i].completed = model->streams[i].issued;
        /* The program waits here, not the allocator: time passes, but it is no stall of the allocator's. */
        if (model->by_clock && model->clocks->stream_ns[i] > model->clocks->host_ns)
            model->clocks->host_ns = model->clocks->stream_ns[i];
    }
}

void asim_device_model_kernel(asim_device_model *model, unsigned lane, uint64_t ns)
{
    uint64_t *clock = &model->clocks->stream_ns[model->lane_streams[lane]];
    model->clocks->host_ns += model->profile.launch_ns;
    if (*clock < model->clocks->host_ns)
        *clock = model->clocks->host_ns;
    if (__builtin_add_overflow(*clock, ns, clock))
        *clock = UINT64_MAX / 2;
}

asim_capacity_span asim_device_model_span(const asim_device_model *model)
{
    return model->span;
}

void asim_device_model_counts(const asim_device_model *model, unsigned device, asim_device_counts *ret_counts)
{
    *ret_counts = model->devices[device].counts;
}

void asim_device_model_reset_counts(asim_device_model *model)
{
    model->in_run = true;
    for (uint32_t i = 0; i < model->trace->device_count; i++)
        memset(&model->devices[i].counts, 0, sizeof model->devices[i].counts);
}

static bool is_stream(const stream *s, const asim_lane *lane)
{
    return s->handle == lane->stream && s->device == lane->device;
}

static asim_code find_streams(asim_device_model *model, asim_err *err)
{
    const asim_trace *trace = model->trace;
    if (trace->lane_count == 0)
        return ASIM_OK;
    model->lane_streams = asim_mem_new(model->mem, trace->lane_count, sizeof(uint32_t));
    model->streams = asim_mem_new(model->mem, trace->lane_count, sizeof(stream));
    model->clocks->stream_ns = asim_mem_new(model->mem, trace->lane_count, sizeof(uint64_t));
    if (!model->lane_streams || !model->streams || !model->clocks->stream_ns)
        return asim_fail_memory(err, trace->lane_count * sizeof(stream));
    asim_idmap seen; /* a mixed key to a stream; two streams of one key are told apart by looking */
    asim_idmap_init(&seen, model->mem);
    asim_code code = ASIM_OK;
    for (uint32_t lane = 0; lane < trace->lane_count && !code; lane++) {
        const asim_lane *l = &trace->lanes[lane];
        uint64_t key = asim_hash_u64(asim_hash_u64(ASIM_HASH_INIT, l->device), l->stream);
        uint32_t i;
        if (!asim_idmap_get(&seen, key, &i))
            i = model->stream_count;
        else if (!is_stream(&model->streams[i], l))
            for (i = 0; i < model->stream_count && !is_stream(&model->streams[i], l);)
                i++;
        if (i == model->stream_count) {
            model->streams[model->stream_count++] = (stream){.handle = l->stream, .device = l->device};
            code = asim_idmap_put(&seen, key, i, err);
        }
        model->lane_streams[lane] = i;
    }
    asim_idmap_fini(&seen);
    return code;
}

/* Fresh regions lie above everything that the recording names, and at 1 TiB at least. */
static uint64_t first_address(const asim_trace *trace, uint64_t granule)
{
    uint64_t highest = UINT64_C(1) << 40;
    for (uint32_t i = 0; i < trace->opening_segment_count; i++) {
        uint64_t end = trace->opening_segments[i].address + trace->opening_segments[i].size;
        if (end > highest)
            highest = end;
    }
    for (uint32_t i = 0; i < trace->call_count; i++) {
        uint64_t end = trace->calls[i].address + trace->calls[i].size;
        if (trace->calls[i].kind != ASIM_CALL_OOM && end > highest)
            highest = end;
    }
    return highest > UINT64_MAX - 2 * granule
               ? UINT64_MAX - 2 * granule
               : round_up(highest, granule) + (trace->call_count ? granule : 0);
}

asim_code asim_device_model_new(const asim_trace *trace, const asim_profile *profile,
                                const uint64_t *capacities, bool completion_by_clock,
                                const asim_script *script, asim_clocks *clocks, const asim_hostmem *mem,
                                asim_device_model **ret_model, asim_err *err)
{
    asim_device_model *model = asim_mem_new(mem, 1, sizeof *model);
    if (!model)
        return asim_fail_memory(err, sizeof *model);
    model->mem = mem;
    model->trace = trace;
    model->profile = *profile;
    model->script = script;
    model->clocks = clocks;
    model->by_clock = completion_by_clock;
    model->first_free_event = ASIM_NO_INDEX;
    model->span = (asim_capacity_span){0, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    model->next_address = first_address(trace, profile->granule_bytes);
    model->devices = asim_mem_new(mem, trace->device_count, sizeof(device_state));
    asim_code code = model->devices ? find_streams(model, err)
                                    : asim_fail_memory(err, trace->device_count * sizeof(device_state));
    if (code) {
        asim_device_model_free(model);
        return code;
    }
    for (uint32_t i = 0; i < trace->device_count; i++)
        model->devices[i].capacity = capacities[i];
    *ret_model = model;
    return ASIM_OK;
}

void asim_device_model_free(asim_device_model *model)
{
    if (!model)
        return;
    const asim_hostmem *mem = model->mem;
    asim_mem_free(mem, model->clocks->stream_ns, model->trace->lane_count, sizeof(uint64_t));
    model->clocks->stream_ns = NULL;
    asim_mem_free(mem, model->lane_streams, model->trace->lane_count, sizeof(uint32_t));
    asim_mem_free(mem, model->streams, model->trace->lane_count, sizeof(stream));
    asim_mem_free(mem, model->devices, model->trace->device_count, sizeof(device_state));
    asim_mem_free(mem, model->regions, model->region_capacity, sizeof(region));
    asim_mem_free(mem, model->events, model->event_capacity, sizeof(event));
    asim_mem_free(mem, model, 1, sizeof *model);
}
