/* null - places every request at a fresh address and never uses the device.
 *
 * It measures what the engine itself costs. Addresses ascend in steps of 512 bytes; nothing is reused, so it
 * is no allocator: every recommendation leaves it out. Cost: O(1). No ties.
 */
#include "policies/registry.h"

struct asim_policy_state {
    uint64_t next;
};

static asim_code null_init(asim_policy_state *state, const asim_policy_env *env, const void *params,
                           asim_err *err)
{
    (void)env;
    (void)params;
    (void)err;
    state->next = 512;
    return ASIM_OK;
}

static asim_alloc_result null_alloc(asim_policy_state *state, const asim_event *event,
                                    asim_placement *ret_placement)
{
    if (event->size == 0)
        return ASIM_NOTHING;
    if (event->size > UINT64_MAX - 511 - state->next)
        return ASIM_REFUSED; /* the address space is used up */
    uint64_t size = (event->size + 511) / 512 * 512;
    if (size > UINT64_MAX - state->next)
        return ASIM_REFUSED;
    *ret_placement = (asim_placement){
        .address = state->next, .size = size, .rounded = size, .region = ASIM_NO_INDEX, .word = 0};
    state->next += size;
    return ASIM_PLACED;
}

static asim_free_result null_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    (void)state;
    (void)word;
    return completion_follows ? ASIM_FREE_LATER : ASIM_FREED;
}

static asim_free_result null_free_done(asim_policy_state *state, uint32_t word)
{
    (void)state;
    (void)word;
    return ASIM_FREED;
}

static asim_code null_check(const asim_policy_state *state, asim_err *err)
{
    if (state->next % 512 != 0)
        return asim_fail(err, ASIM_E_BUG, "the next address is not a multiple of 512");
    return ASIM_OK;
}

/* It holds no segments. */
static void null_walk(const asim_policy_state *state, const asim_walker *walker)
{
    (void)state;
    (void)walker;
}

static void null_fini(asim_policy_state *state)
{
    (void)state;
}

const asim_policy asim_policy_null = {
    .version = ASIM_POLICY_VERSION,
    .flags = ASIM_POLICY_REFERENCE,
    .name = "null",
    .summary = "a fresh address for every request, no device: what the engine alone costs",
    .source = "none",
    .state_size = sizeof(asim_policy_state),
    .init = null_init,
    .alloc = null_alloc,
    .free = null_free,
    .check = null_check,
    .walk = null_walk,
    .fini = null_fini,
    .free_done = null_free_done,
};
