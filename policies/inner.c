#include "policies/inner.h"

#include "policies/registry.h"

#include <string.h>

/* --- what the inner policy tells --- */

static void tell_free_done(void *ctx, uint64_t address, uint64_t size, uint64_t requested)
{
    const asim_listener *outer = ((asim_inner *)ctx)->outer;
    outer->free_done(outer->ctx, address, size, requested);
}

static void tell_refusal(void *ctx, unsigned device, uint64_t rounded, uint64_t segment_bytes,
                         uint64_t device_free)
{
    const asim_listener *outer = ((asim_inner *)ctx)->outer;
    outer->refusal(outer->ctx, device, rounded, segment_bytes, device_free);
}

static void tell_moved(void *ctx, uint32_t word, uint32_t region, uint64_t address)
{
    const asim_listener *outer = ((asim_inner *)ctx)->outer;
    outer->moved(outer->ctx, word << 1 | 1, region, address);
}

static void tell_pause(void *ctx, bool begins)
{
    const asim_listener *outer = ((asim_inner *)ctx)->outer;
    outer->pause(outer->ctx, begins);
}

static void tell_piece(void *ctx, uint32_t region, uint64_t address, uint64_t size, bool taken)
{
    const asim_listener *outer = ((asim_inner *)ctx)->outer;
    outer->piece(outer->ctx, region, address, size, taken);
}

static void tell_warn(void *ctx, const char *text)
{
    const asim_listener *outer = ((asim_inner *)ctx)->outer;
    outer->warn(outer->ctx, text);
}

/* --- setting it up --- */

static asim_code refuse_kind(const asim_policy *policy, asim_err *err)
{
    if (policy->flags & ASIM_POLICY_HOLDS)
        return asim_fail(err, ASIM_E_USAGE,
                         "%s holds another policy itself; name one that doesn't: nesting is not possible",
                         policy->name);
    if (policy->flags & ASIM_POLICY_REFERENCE)
        return asim_fail(err, ASIM_E_USAGE, "%s is a reference, no allocator; name another policy",
                         policy->name);
    if (policy->flags & ASIM_POLICY_CLAIRVOYANT)
        return asim_fail(err, ASIM_E_USAGE,
                         "%s plans with the whole trace, of which it would see a part; name another policy",
                         policy->name);
    if ((policy->flags & ASIM_POLICY_MOVES) && !policy->free_done)
        return asim_fail(err, ASIM_E_USAGE, "%s moves blocks that wait for a completion; name another policy",
                         policy->name);
    return ASIM_OK;
}

/* Cuts "NAME" or "[NAME,key=value,...]" into *ret_name and *ret_params, both inside text. */
static asim_code cut_spec(char *text, char **ret_name, char **ret_params, asim_err *err)
{
    size_t length = strlen(text);
    *ret_name = text;
    *ret_params = text + length;
    if (text[0] != '[')
        return ASIM_OK;
    if (length < 3 || text[length - 1] != ']')
        return asim_fail(err, ASIM_E_USAGE, "write NAME or [NAME,key=value,...]");
    text[length - 1] = 0;
    *ret_name = text + 1;
    *ret_params = text + length - 1;
    char *comma = strchr(text, ',');
    if (comma) {
        *comma = 0;
        *ret_params = comma + 1;
        if (!**ret_params)
            return asim_fail(err, ASIM_E_USAGE, "a parameter is missing after the last comma");
    }
    return ASIM_OK;
}

static asim_code set_up(asim_inner *inner, const char *spec, asim_err *err)
{
    char text[ASIM_PARAM_TEXT_MAX], *name, *params;
    const size_t length = strlen(spec);
    if (length >= sizeof text)
        return asim_fail(err, ASIM_E_USAGE, "too long");
    memcpy(text, spec, length + 1);
    asim_code code = cut_spec(text, &name, &params, err);
    if (code)
        return code;
    const asim_policy *policy = asim_policy_find(name);
    if (!policy)
        return asim_fail(err, ASIM_E_USAGE, "there is no policy '%.64s'; 'allocsim policies' lists them",
                         name);
    if ((code = refuse_kind(policy, err)))
        return code;
    const asim_hostmem *mem = inner->env.memory;
    inner->params_size = policy->params.block_size + 1; /* of a policy without parameters too */
    if (!(inner->params = asim_mem_new(mem, inner->params_size, 1)))
        return asim_fail_memory(err, inner->params_size);
    asim_params_default(&policy->params, inner->params);
    if ((code = asim_params_parse(&policy->params, inner->params, params, err)))
        return asim_err_context(err, "%s", policy->name);
    if (!(inner->state = asim_mem_new(mem, 1, policy->state_size)))
        return asim_fail_memory(err, policy->state_size);
    inner->policy = policy;
    return policy->init(inner->state, &inner->env, inner->params, err);
}

asim_code asim_inner_init(asim_inner *inner, const char *key, const char *spec, const asim_policy_env *env,
                          asim_err *err)
{
    inner->outer = env->listener;
    inner->outer_counters = env->counters;
    inner->listener = (asim_listener){.free_done = tell_free_done,
                                      .refusal = tell_refusal,
                                      .moved = tell_moved,
                                      .pause = tell_pause,
                                      .piece = tell_piece,
                                      .warn = tell_warn,
                                      .ctx = inner};
    inner->env = *env;
    inner->env.listener = &inner->listener;
    inner->env.counters = &inner->counters;
    inner->env.future = NULL;
    asim_idmap_init(&inner->withheld, env->memory);
    asim_code code = set_up(inner, spec, err);
    return code == ASIM_E_USAGE ? asim_err_context(err, "parameter %s=%.64s", key, spec) : code;
}

void asim_inner_fini(asim_inner *inner)
{
    const asim_hostmem *mem = inner->env.memory;
    if (!mem)
        return;
    if (inner->policy)
        inner->policy->fini(inner->state);
    asim_mem_free(mem, inner->state, 1, inner->policy ? inner->policy->state_size : 0);
    asim_mem_free(mem, inner->params, inner->params_size, 1);
    asim_idmap_fini(&inner->withheld);
}

/* --- operations --- */

/* Half of all words are the inner policy's. */
static asim_alloc_result translate(asim_inner *inner, asim_alloc_result result, asim_placement *placement)
{
    if (result != ASIM_PLACED)
        return result;
    if (placement->word > UINT32_MAX >> 1) {
        asim_fail(&inner->fault, ASIM_E_BUG,
                  "policy %s has words above 2^31, which can't stand behind another", inner->policy->name);
        return ASIM_BROKEN;
    }
    placement->word = placement->word << 1 | 1;
    return result;
}

asim_alloc_result asim_inner_alloc(asim_inner *inner, const asim_event *event, asim_placement *ret_placement)
{
    asim_alloc_result result = inner->policy->alloc(inner->state, event, ret_placement);
    asim_inner_settle(inner);
    return translate(inner, result, ret_placement);
}

/* A policy without free_done hears of such a free when it completes, as from the engine. */
asim_free_result asim_inner_free(asim_inner *inner, uint32_t word, bool completion_follows)
{
    const uint32_t own = asim_inner_index(word);
    if (completion_follows && !inner->policy->free_done)
        return asim_idmap_put(&inner->withheld, own, 0, &inner->fault) ? ASIM_FREE_BROKEN : ASIM_FREE_LATER;
    asim_free_result result = inner->policy->free(inner->state, own, completion_follows);
    asim_inner_settle(inner);
    return result;
}

asim_free_result asim_inner_free_done(asim_inner *inner, uint32_t word)
{
    const uint32_t own = asim_inner_index(word);
    if (!inner->policy->free_done) {
        asim_idmap_take(&inner->withheld, own, NULL);
        return asim_inner_free(inner, word, false);
    }
    asim_free_result result = inner->policy->free_done(inner->state, own);
    asim_inner_settle(inner);
    return result;
}

asim_alloc_result asim_inner_resize(asim_inner *inner, uint32_t word, const asim_event *event,
                                    asim_placement *ret_placement)
{
    if (!inner->policy->resize)
        return ASIM_NOTHING;
    asim_alloc_result result =
        inner->policy->resize(inner->state, asim_inner_index(word), event, ret_placement);
    asim_inner_settle(inner);
    return translate(inner, result, ret_placement);
}

void asim_inner_access(asim_inner *inner, uint32_t word, const asim_event *event)
{
    if (inner->policy->access)
        inner->policy->access(inner->state, asim_inner_index(word), event);
}

void asim_inner_metrics(const asim_inner *inner, void (*emit)(void *ctx, const char *name, uint64_t value),
                        void *ctx)
{
    if (inner->policy->metrics)
        inner->policy->metrics(inner->state, emit, ctx);
}

size_t asim_inner_refusal_text(const asim_inner *inner, char *ret_text, size_t capacity)
{
    return inner->policy->refusal_text ? inner->policy->refusal_text(inner->state, ret_text, capacity) : 0;
}

asim_code asim_inner_check(const asim_inner *inner, asim_err *err)
{
    if (inner->fault.code)
        return asim_fail(err, inner->fault.code, "%s", inner->fault.message);
    asim_code code = inner->policy->check(inner->state, err);
    return code ? asim_err_context(err, "%s, which stands behind it", inner->policy->name) : ASIM_OK;
}

/* --- passed on from the table of the outer policy, whose state begins with its inner --- */

static asim_code settled(asim_inner *inner, asim_code code)
{
    asim_inner_settle(inner);
    return code;
}

void asim_inner_use(asim_policy_state *state, uint32_t word, unsigned lane)
{
    asim_inner *inner = (asim_inner *)state;
    if (!asim_inner_owns(word) || !inner->policy->use)
        return;
    inner->policy->use(inner->state, asim_inner_index(word), lane);
    asim_inner_settle(inner);
}

asim_code asim_inner_sync(asim_policy_state *state, const asim_event *event, asim_err *err)
{
    asim_inner *inner = (asim_inner *)state;
    return inner->policy->sync ? settled(inner, inner->policy->sync(inner->state, event, err)) : ASIM_OK;
}

asim_code asim_inner_trim(asim_policy_state *state, const asim_event *event, asim_err *err)
{
    asim_inner *inner = (asim_inner *)state;
    return inner->policy->trim ? settled(inner, inner->policy->trim(inner->state, event, err)) : ASIM_OK;
}

asim_code asim_inner_pool(asim_policy_state *state, const asim_event *event, asim_err *err)
{
    asim_inner *inner = (asim_inner *)state;
    return inner->policy->pool ? settled(inner, inner->policy->pool(inner->state, event, err)) : ASIM_OK;
}

asim_code asim_inner_settings(asim_policy_state *state, const char *text, asim_err *err)
{
    asim_inner *inner = (asim_inner *)state;
    return inner->policy->settings ? settled(inner, inner->policy->settings(inner->state, text, err))
                                   : ASIM_OK;
}

asim_code asim_inner_fraction(asim_policy_state *state, unsigned device, double fraction, asim_err *err)
{
    asim_inner *inner = (asim_inner *)state;
    return inner->policy->fraction
               ? settled(inner, inner->policy->fraction(inner->state, device, fraction, err))
               : ASIM_OK;
}

asim_code asim_inner_mark(asim_policy_state *state, const asim_event *event, const char *label, asim_err *err)
{
    asim_inner *inner = (asim_inner *)state;
    return inner->policy->mark ? settled(inner, inner->policy->mark(inner->state, event, label, err))
                               : ASIM_OK;
}

void asim_inner_reset_stats(asim_policy_state *state, unsigned device, bool peaks)
{
    asim_inner *inner = (asim_inner *)state;
    if (inner->policy->reset_stats)
        inner->policy->reset_stats(inner->state, device, peaks);
}

void asim_inner_report(const asim_policy_state *state, unsigned device,
                       void (*emit)(void *ctx, const char *name, int64_t value), void *ctx)
{
    const asim_inner *inner = (const asim_inner *)state;
    if (inner->policy->report)
        inner->policy->report(inner->state, device, emit, ctx);
}

/* --- the walk of both --- */

typedef struct merge {
    const asim_inner *inner;
    const asim_inner_own *own;
    const asim_walker *walker;
    bool more; /* the outer has a segment left: next */
    asim_walk_segment next;
} merge;

static void advance(merge *m)
{
    m->more = m->own && m->own->next(m->own->ctx, &m->next);
}

static void merged_segment(void *ctx, const asim_walk_segment *segment)
{
    merge *m = ctx;
    while (m->more && (m->next.device < segment->device ||
                       (m->next.device == segment->device && m->next.address < segment->address))) {
        m->own->show(m->own->ctx, m->walker);
        advance(m);
    }
    m->walker->segment(m->walker->ctx, segment);
}

static void merged_block(void *ctx, const asim_walk_block *block)
{
    merge *m = ctx;
    asim_walk_block shown = *block;
    uint32_t none;
    if (block->state == ASIM_BLOCK_LIVE && m->inner->withheld.count &&
        asim_idmap_get(&m->inner->withheld, block->word, &none))
        shown.state = ASIM_BLOCK_PENDING;
    if (block->state == ASIM_BLOCK_LIVE)
        shown.word = block->word << 1 | 1;
    m->walker->block(m->walker->ctx, &shown);
}

void asim_inner_walk(const asim_inner *inner, const asim_inner_own *own, const asim_walker *walker)
{
    merge m = {.inner = inner, .own = own, .walker = walker};
    const asim_walker merged = {merged_segment, merged_block, &m};
    advance(&m);
    inner->policy->walk(inner->state, &merged);
    for (; m.more; advance(&m))
        own->show(own->ctx, walker);
}
