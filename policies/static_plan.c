/* static-plan - clairvoyant: every lifetime is known, so every block has its place before the first request.
 *
 * What it models: memory planned offline from a recorded run, as STAlloc does for training (Reducing GPU
 * Memory Fragmentation via Spatio-Temporal Planning, 2025, https://arxiv.org/abs/2507.16274) and MiniMalloc
 * for accelerators (M. D. Moffitt, ASPLOS 2023, https://doi.org/10.1145/3623278.3624752). One region a
 * device, of the plan's size, is taken at the first request; after that a request looks up its offset.
 *
 *     plan     offset |    [ 2 ][  4  ]        run    alloc 2   ->  region + offset of 2
 *                     |[  1  ][ 3 ]                   free 1    ->  a gap, used by 3 because planned so
 *                     |__________________ event
 *
 * With lower-bound it brackets what is possible: the least memory lies between that one's peak and this
 * one's. The planner is static_plan_pack.h: several heuristics, then, for up to `exact` blocks, an exact
 * search of `effort` nodes. Blocks that may change size have their largest size throughout. Where the plan
 * needs more than the device has, the blocks that end beyond it are refused.
 *
 * Cost: of planning, see there; a request costs O(log64 n) to keep the gaps. Ties: the methods break them by
 * lifetime, size and the order of requests, and the first method with the best plan wins.
 *
 * Left out: STAlloc's runtime for requests that were not foreseen (the trace is the plan's own), and uses by
 * other streams whose end is not recorded: like the free of any block, the free of one that was used
 * elsewhere counts as its end, as though the program ordered the streams itself.
 */
#include "policies/registry.h"
#include "policies/static_plan_places.h"
#include "policies/static_plan_trace.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

typedef struct plan_params {
    uint64_t align, effort, exact;
} plan_params;

static const asim_param params[] = {
    {.name = "align",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(plan_params, align),
     .default_text = "512",
     .min = 1,
     .max = UINT64_C(2) << 20,
     .help = "offsets and sizes are multiples of this many bytes"},
    {.name = "effort",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(plan_params, effort),
     .default_text = "100000",
     .min = 0,
     .max = UINT64_MAX / 2,
     .help = "nodes of the exact search, a device (about half a million a second); 0: heuristics alone"},
    {.name = "exact",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(plan_params, exact),
     .default_text = "400",
     .min = 0,
     .max = ASIM_PLAN_EXACT_MAX,
     .help = "most blocks, of those whose lives hang together, that the exact search takes on"},
};

typedef struct device_state {
    asim_region region; /* size 0: not there yet */
    asim_places places;
    uint32_t *in_place; /* rank -> request and one */
    uint32_t ranks;
} device_state;

struct asim_policy_state {
    asim_policy_env env;
    plan_params params;
    asim_trace_plan plan;
    device_state *devices;
    uint32_t next; /* request */
    asim_err fault;
};

/* --- before the run ----------------------------------------------------------------------------------------
 */

typedef struct by_offset {
    uint64_t offset;
    uint32_t request;
} by_offset;

static int compare_offsets(const void *a, const void *b)
{
    const by_offset *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->request < y->request ? -1 : x->request > y->request;
}

static asim_code rank_offsets(asim_policy_state *state, uint32_t device, asim_err *err)
{
    const asim_hostmem *memory = state->env.memory;
    device_state *home = &state->devices[device];
    const size_t room = (size_t)state->plan.count + 1;
    by_offset *sorted = asim_mem_new(memory, room, sizeof *sorted);
    uint64_t *offsets = asim_mem_new(memory, room, sizeof *offsets);
    uint32_t count = 0;
    asim_code code = sorted && offsets ? ASIM_OK : asim_fail_memory(err, room * sizeof *sorted);
    for (uint32_t i = 0; i < state->plan.count && !code; i++)
        if (state->plan.requests[i].device == device && state->plan.requests[i].size)
            sorted[count++] = (by_offset){state->plan.requests[i].offset, i};
    if (!code)
        qsort(sorted, count, sizeof *sorted, compare_offsets);
    for (uint32_t i = 0; i < count && !code; i++) {
        if (home->ranks == 0 || offsets[home->ranks - 1] != sorted[i].offset)
            offsets[home->ranks++] = sorted[i].offset;
        state->plan.requests[sorted[i].request].rank = home->ranks - 1;
    }
    if (!code)
        code = asim_places_init(&home->places, offsets, home->ranks, memory, err);
    if (!code && home->ranks && !(home->in_place = asim_mem_new(memory, home->ranks, sizeof(uint32_t))))
        code = asim_fail_memory(err, home->ranks * sizeof(uint32_t));
    asim_mem_free(memory, offsets, room, sizeof *offsets);
    asim_mem_free(memory, sorted, room, sizeof *sorted);
    return code;
}

static asim_code plan_init(asim_policy_state *state, const asim_policy_env *env, const void *block_of_params,
                           asim_err *err)
{
    state->env = *env;
    state->params = *(const plan_params *)block_of_params;
    if (!env->future)
        return asim_fail(err, ASIM_E_USAGE,
                         "static-plan needs the whole trace: it can't serve another policy");
    const asim_plan_options options = {.steps = state->params.effort,
                                       .exact_max = (uint32_t)state->params.exact};
    asim_code code = asim_trace_plan_make(&state->plan, env, state->params.align, &options, err);
    if (code)
        return code;
    state->devices = asim_mem_new(env->memory, env->device_count, sizeof *state->devices);
    if (!state->devices)
        return asim_fail_memory(err, env->device_count * sizeof *state->devices);
    for (uint32_t d = 0; d < env->device_count && !code; d++)
        code = rank_offsets(state, d, err);
    return code;
}

static void plan_fini(asim_policy_state *state)
{
    const asim_hostmem *memory = state->env.memory;
    if (!memory)
        return;
    for (uint32_t d = 0; state->devices && d < state->env.device_count; d++) {
        asim_places_fini(&state->devices[d].places);
        asim_mem_free(memory, state->devices[d].in_place, state->devices[d].ranks, sizeof(uint32_t));
    }
    asim_mem_free(memory, state->devices, state->env.device_count, sizeof *state->devices);
    asim_trace_plan_fini(&state->plan);
}

/* --- requests ----------------------------------------------------------------------------------------------
 */

static asim_alloc_result refuse(asim_policy_state *state, unsigned device, uint64_t rounded, uint64_t segment)
{
    const asim_device *table = &state->env.device;
    uint64_t free_bytes, total;
    table->ops->memory(table->ctx, device, &free_bytes, &total);
    state->env.listener->refusal(state->env.listener->ctx, device, rounded, segment, free_bytes);
    return ASIM_REFUSED;
}

static void count_largest(asim_policy_state *state)
{
    uint64_t largest = 0;
    for (uint32_t d = 0; d < state->env.device_count; d++) {
        const uint64_t here = asim_places_largest(&state->devices[d].places);
        largest = here > largest ? here : largest;
    }
    state->env.counters->largest_free_bytes = largest;
}

/* As much of the plan as the device holds. */
static asim_alloc_result open_region(asim_policy_state *state, unsigned device, unsigned lane,
                                     uint64_t rounded)
{
    device_state *home = &state->devices[device];
    const asim_device *table = &state->env.device;
    uint64_t free_bytes, total, size = state->plan.results[device].bytes;
    table->ops->memory(table->ctx, device, &free_bytes, &total);
    if (size > free_bytes)
        size = free_bytes / state->params.align * state->params.align;
    if (size == 0)
        return refuse(state, device, rounded, rounded);
    asim_region region;
    const asim_device_result result = table->ops->alloc(table->ctx, device, size, lane, &region);
    if (result != ASIM_DEVICE_OK)
        return result == ASIM_DEVICE_OOM ? refuse(state, device, rounded, size) : ASIM_BROKEN;
    home->region = region;
    asim_places_open(&home->places, region.size);
    count_largest(state);
    return ASIM_PLACED;
}

static uint64_t rounded_size(const asim_policy_state *state, uint64_t size)
{
    const uint64_t align = state->params.align;
    return size > UINT64_MAX - align ? size : (size + align - 1) / align * align;
}

static asim_placement placement_of(const asim_policy_state *state, uint32_t word, uint64_t asked)
{
    const asim_plan_request *request = &state->plan.requests[word];
    const asim_region *region = &state->devices[request->device].region;
    return (asim_placement){.address = region->address + request->offset,
                            .size = request->size,
                            .rounded = rounded_size(state, asked),
                            .region = region->index,
                            .word = word};
}

static asim_alloc_result plan_alloc(asim_policy_state *state, const asim_event *event,
                                    asim_placement *ret_placement)
{
    const unsigned device = state->env.lanes[event->lane].device;
    const uint32_t word = state->next++;
    asim_plan_request *request = word < state->plan.count ? &state->plan.requests[word] : NULL;
    if (!request || request->asked != event->size || request->device != device) {
        asim_fail(&state->fault, request ? ASIM_E_BUG : ASIM_E_USAGE,
                  "request %" PRIu32 " is not in the trace: static-plan needs all of it beforehand", word);
        return ASIM_BROKEN;
    }
    if (event->size == 0)
        return ASIM_NOTHING;
    device_state *home = &state->devices[device];
    const uint64_t rounded = rounded_size(state, event->size);
    if (request->size == 0)
        return refuse(state, device, rounded, rounded);
    if (home->region.size == 0) {
        const asim_alloc_result opened = open_region(state, device, event->lane, rounded);
        if (opened != ASIM_PLACED)
            return opened;
    }
    if (request->size > home->region.size || request->offset > home->region.size - request->size)
        return refuse(state, device, rounded, state->plan.results[device].bytes);
    if (!asim_places_put(&home->places, request->rank, request->size)) {
        asim_fail(&state->fault, ASIM_E_BUG, "the place of request %" PRIu32 " is not free", word);
        return ASIM_BROKEN;
    }
    home->in_place[request->rank] = word + 1;
    request->state = ASIM_BLOCK_LIVE;
    count_largest(state);
    *ret_placement = placement_of(state, word, event->size);
    return ASIM_PLACED;
}

static asim_alloc_result plan_resize(asim_policy_state *state, uint32_t word, const asim_event *event,
                                     asim_placement *ret_placement)
{
    const asim_plan_request *request = &state->plan.requests[word];
    if (event->size > request->size) {
        const uint64_t rounded = rounded_size(state, event->size);
        return refuse(state, request->device, rounded, rounded);
    }
    *ret_placement = placement_of(state, word, event->size);
    return ASIM_PLACED;
}

static asim_free_result plan_free_done(asim_policy_state *state, uint32_t word)
{
    asim_plan_request *request = &state->plan.requests[word];
    device_state *home = &state->devices[request->device];
    if (!asim_places_take(&home->places, request->rank)) {
        asim_fail(&state->fault, ASIM_E_BUG, "request %" PRIu32 " is not in its place", word);
        return ASIM_FREE_BROKEN;
    }
    home->in_place[request->rank] = 0;
    request->state = ASIM_BLOCK_FREE;
    count_largest(state);
    return ASIM_FREED;
}

static asim_free_result plan_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    if (!completion_follows)
        return plan_free_done(state, word);
    state->plan.requests[word].state = ASIM_BLOCK_PENDING;
    return ASIM_FREE_LATER;
}

/* --- watching ----------------------------------------------------------------------------------------------
 */

static asim_code plan_check(const asim_policy_state *state, asim_err *err)
{
    if (state->fault.code)
        return asim_fail(err, state->fault.code, "%s", state->fault.message);
    for (uint32_t d = 0; d < state->env.device_count; d++) {
        const asim_code code = asim_places_check(&state->devices[d].places, err);
        if (code)
            return asim_err_context(err, "device %" PRIu32, d);
    }
    return ASIM_OK;
}

static void show_gap(const device_state *home, uint32_t rank, const asim_walker *walker)
{
    const asim_extent *gap = asim_places_gap(&home->places, rank);
    const asim_walk_block shown = {
        .address = home->region.address + gap->address, .size = gap->size, .state = ASIM_BLOCK_FREE};
    if (gap->size)
        walker->block(walker->ctx, &shown);
}

static void plan_walk(const asim_policy_state *state, const asim_walker *walker)
{
    for (uint32_t d = 0; state->devices && d < state->env.device_count; d++) {
        const device_state *home = &state->devices[d];
        if (home->region.size == 0)
            continue;
        const asim_walk_segment segment = {.address = home->region.address,
                                           .size = home->region.size,
                                           .region = home->region.index,
                                           .device = (uint16_t)d};
        walker->segment(walker->ctx, &segment);
        show_gap(home, UINT32_MAX, walker);
        for (uint32_t rank = asim_places_from(&home->places, 0); rank != UINT32_MAX;
             rank = asim_places_from(&home->places, rank + 1)) {
            const uint32_t word = home->in_place[rank] - 1;
            const asim_plan_request *request = &state->plan.requests[word];
            const asim_walk_block shown = {.address = home->region.address + request->offset,
                                           .size = request->size,
                                           .requested = request->asked,
                                           .word = word,
                                           .state = (asim_block_state)request->state};
            walker->block(walker->ctx, &shown);
            show_gap(home, rank, walker);
        }
    }
}

/* Sums over the devices. */
static void plan_metrics(const asim_policy_state *state,
                         void (*emit)(void *ctx, const char *name, uint64_t value), void *ctx)
{
    uint64_t bytes = 0, bound = 0, steps = 0;
    for (uint32_t d = 0; d < state->plan.device_count && state->plan.results; d++) {
        bytes += state->plan.results[d].bytes;
        bound += state->plan.results[d].lower_bound;
        steps += state->plan.results[d].steps;
    }
    emit(ctx, "plan_bytes", bytes);
    emit(ctx, "plan_lower_bound_bytes", bound);
    emit(ctx, "plan_steps", steps);
}

const asim_policy asim_policy_static_plan = {
    .version = ASIM_POLICY_VERSION,
    .flags = ASIM_POLICY_CLAIRVOYANT,
    .name = "static-plan",
    .summary = "clairvoyant: the whole trace is packed before it begins",
    .source = "STAlloc (2025), MiniMalloc (Moffitt, ASPLOS 2023), skyline packing (Sekiyama et al., 2018)",
    .state_size = sizeof(asim_policy_state),
    .params = {params, sizeof params / sizeof params[0], sizeof(plan_params)},
    .init = plan_init,
    .alloc = plan_alloc,
    .free = plan_free,
    .check = plan_check,
    .walk = plan_walk,
    .fini = plan_fini,
    .free_done = plan_free_done,
    .resize = plan_resize,
    .metrics = plan_metrics,
};
