/* prealloc - memory of an inference program, reserved up front from a description of the model.
 *
 * What it models: serving as it was before paging, as Kwon et al. describe it (SOSP 2023, section 3.1, for
 * FasterTransformer and Orca): each sequence gets contiguous room for its maximum length when it begins, in
 * memory taken at the start. On each device there are three areas, sized by the parameters:
 *
 *     weights       weights bytes
 *     KV caches     batch slots of 2 (key and value) x layers x width x max_length x element_bytes
 *     activations   activations bytes
 *
 * width is KV heads x head size, which is the hidden size for multi-head attention. The defaults describe
 * Llama 3 8B in 16 bits: 8.03e9 weights, 32 layers, 8 KV heads of 128: 128 KiB a token, 1 GiB a sequence of
 * 8192 tokens.
 *
 * How it works. The areas of a device are taken at its first request. A request goes to
 *
 *     a KV slot     if it grows (ASIM_ALLOC_GROWS): a whole slot, however short it is; it grows in place
 *     weights       if it doesn't, and no mark and no KV cache came before it, on any device
 *     activations   if it doesn't, and one did
 *
 * and, if it has no room there, to the policy named by rest: more caches than batch, longer ones than
 * max_length (copied there when they outgrow their slot), and what an area is too small for. An area that the
 * device has no room for is left out, with a warning. Weights and activations are placed by best fit.
 *
 *     weights      [ w0 | w1 | w2 |   free   ]
 *     KV caches    [ A ......|  free    | B ........... ]    slots of one size
 *     activations  [ a | free | b |    free  ]
 *
 * Ties: of free blocks of one size the lowest address. Cost: O(1) for most requests, O(log n) where n free
 * blocks of an area have nearly the same size.
 *
 * What the numbers say: all that is reserved but not asked for is in internal_frag_bytes (in slots) or
 * free_bytes; peak_kv_slots of batch, peak_weights_bytes and peak_activations_bytes tell how much of each
 * area was used, fallthroughs and fallthrough_bytes what went to rest.
 *
 * Left out: uses by other streams hold nothing back (a program that plans its memory orders its own work);
 * sharing of prefixes.
 */
#include "policies/inner.h"
#include "policies/region_blocks.h"
#include "policies/registry.h"

#include <stddef.h>
#include <stdio.h>

enum {
    ALIGN = 512
};

typedef enum area {
    AREA_WEIGHTS,
    AREA_CACHES,
    AREA_ACTIVATIONS,
    AREAS
} area;

static const char *const area_names[AREAS] = {"the weights", "the KV caches", "the activations"};

typedef struct prealloc_params {
    uint64_t weights, layers, width, max_length, batch, element_bytes, activations;
    char rest[ASIM_PARAM_TEXT_MAX];
} prealloc_params;

static const asim_param params[] = {
    {.name = "weights",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(prealloc_params, weights),
     .default_text = "16060000000",
     .min = 0,
     .max = UINT64_C(1) << 50,
     .help = "bytes of the weights' area: what is asked for before the first mark and KV cache"},
    {.name = "layers",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(prealloc_params, layers),
     .default_text = "32",
     .min = 1,
     .max = 4096,
     .help = "layers of the model"},
    {.name = "width",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(prealloc_params, width),
     .default_text = "1024",
     .min = 1,
     .max = 1 << 20,
     .help = "KV heads x head size"},
    {.name = "max_length",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(prealloc_params, max_length),
     .default_text = "8192",
     .min = 1,
     .max = 1 << 24,
     .help = "tokens that each sequence has room for"},
    {.name = "batch",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(prealloc_params, batch),
     .default_text = "8",
     .min = 0,
     .max = 65536,
     .help = "sequences at once: slots of the KV area; requests that grow get one each"},
    {.name = "element_bytes",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(prealloc_params, element_bytes),
     .default_text = "2",
     .min = 1,
     .max = 8,
     .help = "bytes of an element of the KV cache"},
    {.name = "activations",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(prealloc_params, activations),
     .default_text = "1GiB",
     .min = 0,
     .max = UINT64_C(1) << 50,
     .help = "bytes of the activations' area: what is asked for after the first mark or KV cache"},
    {.name = "rest",
     .type = ASIM_PARAM_TEXT,
     .offset = offsetof(prealloc_params, rest),
     .default_text = "torchcache",
     .help = "policy of what does not fit: NAME or [NAME,key=value,...]"},
};

typedef struct device_areas {
    uint32_t lists[AREAS]; /* 0: the area is not there */
    bool open;
} device_areas;

struct asim_policy_state {
    asim_inner inner; /* first: see ASIM_INNER_TABLE */
    asim_policy_env env;
    uint64_t sizes[AREAS], slot; /* bytes */
    asim_region_blocks rb;
    device_areas *devices;
    uint8_t *areas; /* of each live or pending block, by index */
    size_t areas_capacity;
    uint64_t used[AREAS], peaks[AREAS]; /* bytes of blocks */
    uint64_t reserved[AREAS];
    uint64_t fallthroughs, fallthrough_bytes;
    bool running;   /* a mark or a KV cache came: what follows are no weights */
    bool outgrown;  /* the next request replaces a cache that has no room here */
    asim_err fault; /* why a call returned broken */
};

static uint64_t round_up(uint64_t size)
{
    return (size + ALIGN - 1) / ALIGN * ALIGN;
}

static asim_code prealloc_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                               asim_err *err)
{
    const prealloc_params *given = block;
    const unsigned __int128 slot =
        (unsigned __int128)2 * given->layers * given->width * given->max_length * given->element_bytes;
    state->env = *env;
    if (slot * (given->batch ? given->batch : 1) > UINT64_C(1) << 50)
        return asim_fail(
            err, ASIM_E_USAGE,
            "prealloc: the KV area would have more than 1024 TiB; make layers, width, max_length, "
            "batch or element_bytes smaller");
    state->slot = round_up((uint64_t)slot);
    state->sizes[AREA_WEIGHTS] = round_up(given->weights);
    state->sizes[AREA_CACHES] = state->slot * given->batch;
    state->sizes[AREA_ACTIVATIONS] = round_up(given->activations);
    asim_code code = asim_inner_init(&state->inner, "rest", given->rest, env, err);
    if (!code)
        code = asim_rb_init(&state->rb, env, err);
    if (!code && !(state->devices = asim_mem_new(env->memory, env->device_count, sizeof *state->devices)))
        code = asim_fail_memory(err, env->device_count * sizeof *state->devices);
    return code;
}

static void prealloc_fini(asim_policy_state *state)
{
    if (!state->env.memory)
        return;
    asim_mem_free(state->env.memory, state->devices, state->env.device_count, sizeof *state->devices);
    asim_mem_free(state->env.memory, state->areas, state->areas_capacity, sizeof *state->areas);
    asim_rb_fini(&state->rb);
    asim_inner_fini(&state->inner);
}

static void settle(asim_policy_state *state)
{
    state->inner.own_largest = asim_rb_largest(&state->rb);
    asim_inner_settle(&state->inner);
}

/* --- the areas --- */

static void warn_missing(const asim_policy_state *state, unsigned device, area which)
{
    char text[200];
    snprintf(text, sizeof text,
             "prealloc: device %u has no room for the %llu MiB of %s: what belongs there goes to rest=%s",
             device, (unsigned long long)(state->sizes[which] >> 20), area_names[which],
             state->inner.policy->name);
    state->env.listener->warn(state->env.listener->ctx, text);
}

static bool open_area(asim_policy_state *state, unsigned device, unsigned lane, area which)
{
    const asim_device *table = &state->env.device;
    const uint64_t size = state->sizes[which];
    asim_region region;
    if (size == 0)
        return true;
    const asim_device_result result = table->ops->alloc(table->ctx, device, size, lane, &region);
    if (result == ASIM_DEVICE_OOM)
        return warn_missing(state, device, which), true;
    if (result != ASIM_DEVICE_OK) {
        asim_fail(&state->fault, ASIM_E_BUG, "the device's alloc failed for another reason than memory");
        return false;
    }
    const uint32_t list = asim_rb_list_new(&state->rb, &state->fault);
    const uint32_t block = list ? asim_rb_region_add(&state->rb, &region, size, lane, &state->fault) : 0;
    if (!block)
        return false;
    asim_rb_put(&state->rb, list, block);
    state->devices[device].lists[which] = list;
    state->reserved[which] += size;
    return true;
}

static bool open_device(asim_policy_state *state, unsigned device, unsigned lane)
{
    state->devices[device].open = true;
    for (unsigned which = 0; which < AREAS; which++)
        if (!open_area(state, device, lane, (area)which))
            return false;
    settle(state);
    return true;
}

static bool note_area(asim_policy_state *state, uint32_t block, area which)
{
    void *areas = state->areas;
    asim_code code = asim_mem_grow(state->env.memory, &areas, &state->areas_capacity, (size_t)block + 1,
                                   sizeof *state->areas, &state->fault);
    state->areas = areas;
    if (!code)
        state->areas[block] = (uint8_t)which;
    return code == ASIM_OK;
}

/* A block of size bytes out of an area: 0 with no fault if there is no room. */
static uint32_t take(asim_policy_state *state, uint32_t list, uint64_t size, unsigned lane, area which)
{
    asim_region_blocks *rb = &state->rb;
    const uint32_t block = asim_rb_take(rb, list, size, &state->inner.counters.search_steps);
    if (!block)
        return 0;
    if (rb->extents[block].size > size) {
        const uint32_t rest = asim_rb_split(rb, block, size, &state->fault);
        if (!rest)
            return 0;
        asim_rb_put(rb, list, rest);
    }
    rb->blocks[block].state = ASIM_BLOCK_LIVE;
    rb->blocks[block].lane = (uint16_t)lane;
    if (!note_area(state, block, which))
        return 0;
    state->used[which] += size;
    if (state->used[which] > state->peaks[which])
        state->peaks[which] = state->used[which];
    return block;
}

static asim_placement placement_of(const asim_policy_state *state, uint32_t block, uint64_t rounded)
{
    const asim_region_blocks *rb = &state->rb;
    return (asim_placement){.address = rb->extents[block].address,
                            .size = rb->extents[block].size,
                            .rounded = rounded,
                            .region = rb->regions[rb->blocks[block].region].index,
                            .word = block << 1};
}

/* --- the operations --- */

static bool is_broken(const asim_policy_state *state)
{
    return state->fault.code || state->inner.fault.code;
}

static asim_alloc_result prealloc_alloc(asim_policy_state *state, const asim_event *event,
                                        asim_placement *ret_placement)
{
    const unsigned device = state->env.lanes[event->lane].device;
    const bool grows = event->flags & ASIM_ALLOC_GROWS, outgrown = state->outgrown;
    if (is_broken(state))
        return ASIM_BROKEN;
    if (event->size == 0 && !grows)
        return ASIM_NOTHING;
    if (!state->devices[device].open && !open_device(state, device, event->lane))
        return ASIM_BROKEN;
    state->running |= grows;
    state->outgrown = false;
    const area which = grows ? AREA_CACHES : state->running ? AREA_ACTIVATIONS : AREA_WEIGHTS;
    const uint32_t list = state->devices[device].lists[which];
    if (list && !outgrown && event->size <= state->sizes[which] && (!grows || event->size <= state->slot)) {
        const uint64_t size = grows ? state->slot : round_up(event->size);
        const uint32_t block = take(state, list, size, event->lane, which);
        if (state->fault.code)
            return ASIM_BROKEN;
        if (block) {
            *ret_placement = placement_of(state, block, grows ? event->size : size);
            settle(state);
            return ASIM_PLACED;
        }
    }
    const asim_alloc_result result = asim_inner_alloc(&state->inner, event, ret_placement);
    if (result == ASIM_PLACED) {
        state->fallthroughs++;
        state->fallthrough_bytes += event->size;
    }
    return result;
}

/* A cache that outgrows its slot, or lies in rest already, is replaced by the engine: that request goes to
 * rest. */
static asim_alloc_result prealloc_resize(asim_policy_state *state, uint32_t word, const asim_event *event,
                                         asim_placement *ret_placement)
{
    if (is_broken(state))
        return ASIM_BROKEN;
    if (asim_inner_owns(word)) {
        const asim_alloc_result result = asim_inner_resize(&state->inner, word, event, ret_placement);
        state->outgrown = result == ASIM_NOTHING;
        return result;
    }
    if (state->areas[word >> 1] != AREA_CACHES)
        return ASIM_NOTHING;
    if (event->size > state->slot) {
        state->outgrown = true;
        return ASIM_NOTHING;
    }
    *ret_placement = placement_of(state, word >> 1, event->size);
    return ASIM_PLACED;
}

static asim_free_result prealloc_free_done(asim_policy_state *state, uint32_t word)
{
    if (asim_inner_owns(word))
        return asim_inner_free_done(&state->inner, word);
    const uint32_t block = word >> 1;
    const area which = (area)state->areas[block];
    const unsigned device = state->rb.regions[state->rb.blocks[block].region].device;
    state->used[which] -= state->rb.extents[block].size;
    asim_rb_put(&state->rb, state->devices[device].lists[which], block);
    settle(state);
    return ASIM_FREED;
}

static asim_free_result prealloc_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    if (asim_inner_owns(word))
        return asim_inner_free(&state->inner, word, completion_follows);
    if (!completion_follows)
        return prealloc_free_done(state, word);
    state->rb.blocks[word >> 1].state = ASIM_BLOCK_PENDING;
    return ASIM_FREE_LATER;
}

static asim_code prealloc_mark(asim_policy_state *state, const asim_event *event, const char *label,
                               asim_err *err)
{
    state->running = true;
    return asim_inner_mark(state, event, label, err);
}

static void prealloc_access(asim_policy_state *state, uint32_t word, const asim_event *event)
{
    if (asim_inner_owns(word))
        asim_inner_access(&state->inner, word, event);
}

static void prealloc_metrics(const asim_policy_state *state,
                             void (*emit)(void *ctx, const char *name, uint64_t value), void *ctx)
{
    emit(ctx, "weights_area_bytes", state->reserved[AREA_WEIGHTS]);
    emit(ctx, "peak_weights_bytes", state->peaks[AREA_WEIGHTS]);
    emit(ctx, "kv_area_bytes", state->reserved[AREA_CACHES]);
    emit(ctx, "peak_kv_slots", state->peaks[AREA_CACHES] / state->slot);
    emit(ctx, "activations_area_bytes", state->reserved[AREA_ACTIVATIONS]);
    emit(ctx, "peak_activations_bytes", state->peaks[AREA_ACTIVATIONS]);
    emit(ctx, "fallthroughs", state->fallthroughs);
    emit(ctx, "fallthrough_bytes", state->fallthrough_bytes);
    asim_inner_metrics(&state->inner, emit, ctx);
}

static size_t prealloc_refusal_text(const asim_policy_state *state, char *ret_text, size_t capacity)
{
    return asim_inner_refusal_text(&state->inner, ret_text, capacity);
}

static asim_code prealloc_check(const asim_policy_state *state, asim_err *err)
{
    if (state->fault.code)
        return asim_fail(err, state->fault.code, "%s", state->fault.message);
    const asim_region_blocks *rb = &state->rb;
    uint64_t used[AREAS] = {0};
    for (uint32_t b = 1; b < rb->block_count; b++)
        if (rb->blocks[b].state == ASIM_BLOCK_LIVE || rb->blocks[b].state == ASIM_BLOCK_PENDING)
            used[state->areas[b]] += rb->extents[b].size;
    for (unsigned which = 0; which < AREAS; which++)
        if (used[which] != state->used[which])
            return asim_fail(err, ASIM_E_BUG, "%llu bytes of %s are in use, counted as %llu",
                             (unsigned long long)used[which], area_names[which],
                             (unsigned long long)state->used[which]);
    asim_code code = asim_rb_check(rb, err);
    return code ? code : asim_inner_check(&state->inner, err);
}

/* --- the walk --- */

typedef struct area_walk {
    const asim_region_blocks *rb;
    uint32_t next, shown; /* regions */
} area_walk;

static asim_walk_segment segment_of(const asim_rb_region *region)
{
    return (asim_walk_segment){.address = region->address,
                               .size = region->size,
                               .stream = region->stream,
                               .region = region->index,
                               .device = region->device};
}

static bool next_area(void *ctx, asim_walk_segment *ret_segment)
{
    area_walk *walk = ctx;
    walk->shown = walk->next;
    if (!walk->shown)
        return false;
    walk->next = walk->rb->regions[walk->shown].next;
    *ret_segment = segment_of(&walk->rb->regions[walk->shown]);
    return true;
}

static void show_area(void *ctx, const asim_walker *walker)
{
    const area_walk *walk = ctx;
    const asim_region_blocks *rb = walk->rb;
    const asim_walk_segment segment = segment_of(&rb->regions[walk->shown]);
    walker->segment(walker->ctx, &segment);
    for (uint32_t b = rb->regions[walk->shown].first; b; b = rb->extents[b].next) {
        const asim_walk_block shown = {.address = rb->extents[b].address,
                                       .size = rb->extents[b].size,
                                       .word = b << 1,
                                       .state = (asim_block_state)rb->blocks[b].state};
        walker->block(walker->ctx, &shown);
    }
}

static void prealloc_walk(const asim_policy_state *state, const asim_walker *walker)
{
    area_walk walk = {.rb = &state->rb, .next = state->rb.first_region};
    const asim_inner_own own = {next_area, show_area, &walk};
    asim_inner_walk(&state->inner, &own, walker);
}

const asim_policy asim_policy_prealloc = {
    ASIM_INNER_TABLE,
    .name = "prealloc",
    .summary = "weights, KV caches of maximum length and activations reserved up front",
    .source = "inference before paging, as in Kwon et al., SOSP 2023, section 3.1",
    .params = {params, sizeof params / sizeof params[0], sizeof(prealloc_params)},
    .init = prealloc_init,
    .alloc = prealloc_alloc,
    .free = prealloc_free,
    .check = prealloc_check,
    .walk = prealloc_walk,
    .fini = prealloc_fini,
    .free_done = prealloc_free_done,
    .mark = prealloc_mark,
    .resize = prealloc_resize,
    .access = prealloc_access,
    .metrics = prealloc_metrics,
    .refusal_text = prealloc_refusal_text,
};
