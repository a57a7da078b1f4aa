#include "tests/conform/conform_broken.h"

#include "policies/registry.h"

#include <stdlib.h>
#include <string.h>

enum {
    FROM_CALL = 5, /* the lie begins with this allocation */
    WORDS = 4096,
};

const char *const conform_fault_names[CONFORM_FAULTS + 1] = {
    "sound",       "overlap",   "outside",      "wrong-region", "too-small", "double-free", "largest",
    "lying-done",  "kept-free", "returns-live", "short-walk",   "silent",    "forgets",     "capricious",
    "fails-check", NULL};

typedef struct broken_params {
    int fault;
} broken_params;

static const asim_param params[] = {
    {.name = "fault",
     .type = ASIM_PARAM_CHOICE,
     .offset = offsetof(broken_params, fault),
     .default_text = "sound",
     .choices = conform_fault_names,
     .help = "what is wrong with it"},
};

struct asim_policy_state {
    conform_fault fault;
    uint64_t allocs;
    asim_placement last;          /* placed before the lies began */
    asim_placement placed[WORDS]; /* by the skeleton's word */
    asim_policy_env env;
    asim_listener listener; /* what the skeleton gets */
    const asim_listener *outer;
    asim_policy_state *inner;
};

static const asim_policy *const skeleton = &asim_policy_skeleton;

static void pass_refusal(void *ctx, unsigned device, uint64_t rounded, uint64_t segment_bytes,
                         uint64_t device_free)
{
    asim_policy_state *state = ctx;
    if (state->fault != CONFORM_SILENT)
        state->outer->refusal(state->outer->ctx, device, rounded, segment_bytes, device_free);
}

static asim_code broken_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                             asim_err *err)
{
    state->fault = (conform_fault)((const broken_params *)block)->fault;
    state->env = *env;
    state->outer = env->listener;
    state->listener = *env->listener;
    state->listener.refusal = pass_refusal;
    state->listener.ctx = state;
    state->env.listener = &state->listener;
    state->inner = asim_mem_new(env->memory, 1, skeleton->state_size);
    if (!state->inner)
        return asim_fail_memory(err, skeleton->state_size);
    char inner_params[4096];
    asim_params_default(&skeleton->params, inner_params);
    return skeleton->init(state->inner, &state->env, inner_params, err);
}

static void broken_fini(asim_policy_state *state)
{
    if (!state->inner)
        return;
    skeleton->fini(state->inner);
    if (state->fault != CONFORM_FORGETS)
        asim_mem_free(state->env.memory, state->inner, 1, skeleton->state_size);
}

static asim_alloc_result broken_alloc(asim_policy_state *state, const asim_event *event,
                                      asim_placement *ret_placement)
{
    const asim_device *device = &state->env.device;
    if (state->fault == CONFORM_CAPRICIOUS && getenv("CONFORM_CAPRICE")) {
        state->outer->refusal(state->outer->ctx, state->env.lanes[event->lane].device, event->size,
                              event->size, 0);
        return ASIM_REFUSED;
    }
    asim_alloc_result result = skeleton->alloc(state->inner, event, ret_placement);
    if (result != ASIM_PLACED)
        return result;
    if (ret_placement->word < WORDS)
        state->placed[ret_placement->word] = *ret_placement;
    if (++state->allocs < FROM_CALL) {
        state->last = *ret_placement;
        return result;
    }
    switch (state->fault) {
    case CONFORM_OVERLAP:
        ret_placement->address = state->last.address;
        break;
    case CONFORM_OUTSIDE:
        ret_placement->address += UINT64_C(1) << 32;
        break;
    case CONFORM_WRONG_REGION:
        ret_placement->region++;
        break;
    case CONFORM_TOO_SMALL:
        ret_placement->size = ret_placement->rounded = event->size - 1;
        break;
    case CONFORM_LARGEST:
        state->env.counters->largest_free_bytes += UINT64_C(1) << 40;
        break;
    case CONFORM_RETURNS_LIVE:
        device->ops->free(device->ctx, ret_placement->region);
        break;
    default:
        break;
    }
    return ASIM_PLACED;
}

static asim_free_result broken_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    bool lies = state->allocs >= FROM_CALL;
    if (state->fault == CONFORM_KEPT_FREE && lies && !completion_follows)
        return ASIM_FREED;
    asim_free_result result = skeleton->free(state->inner, word, completion_follows);
    if (state->fault == CONFORM_DOUBLE_FREE && lies && result == ASIM_FREED && word < WORDS)
        state->outer->free_done(state->outer->ctx, state->placed[word].address, state->placed[word].size,
                                state->placed[word].rounded);
    return result;
}

static asim_free_result broken_free_done(asim_policy_state *state, uint32_t word)
{
    return state->fault == CONFORM_LYING_DONE ? ASIM_FREED : skeleton->free_done(state->inner, word);
}

static asim_code broken_check(const asim_policy_state *state, asim_err *err)
{
    if (state->fault == CONFORM_FAILS_CHECK && state->allocs >= FROM_CALL)
        return asim_fail(err, ASIM_E_BUG, "something is rotten");
    return skeleton->check(state->inner, err);
}

typedef struct short_walk {
    const asim_walker *outer;
    unsigned blocks;
} short_walk;

static void short_segment(void *ctx, const asim_walk_segment *segment)
{
    short_walk *walk = ctx;
    walk->outer->segment(walk->outer->ctx, segment);
}

static void short_block(void *ctx, const asim_walk_block *block)
{
    short_walk *walk = ctx;
    if (++walk->blocks != 2)
        walk->outer->block(walk->outer->ctx, block);
}

static void broken_walk(const asim_policy_state *state, const asim_walker *walker)
{
    short_walk walk = {walker, 0};
    asim_walker narrowed = {short_segment, short_block, &walk};
    skeleton->walk(state->inner, state->fault == CONFORM_SHORT_WALK ? &narrowed : walker);
}

const asim_policy conform_broken = {
    .version = ASIM_POLICY_VERSION,
    .flags = ASIM_POLICY_SINGLE_POOL,
    .name = "broken",
    .summary = "the skeleton with a fault",
    .source = "none",
    .state_size = sizeof(asim_policy_state),
    .params = {params, 1, sizeof(broken_params)},
    .init = broken_init,
    .alloc = broken_alloc,
    .free = broken_free,
    .check = broken_check,
    .walk = broken_walk,
    .fini = broken_fini,
    .free_done = broken_free_done,
};
