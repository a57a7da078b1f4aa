/* policies/inner.h - a policy that stands behind another one and serves what that one leaves to it.
 *
 *     paged,block_tokens=16,rest=[torchcache,max_split_size_mb=128]
 *           |
 *           +-- KV caches: its own blocks          words  0  2  4 ..
 *           +-- everything else: torchcache        words  1  3  5 ..
 *
 * The outer policy has a text parameter that names the inner one: NAME, or [NAME,key=value,...] with
 * parameters as --policy takes them. The inner policy gets the same devices, lanes and host memory, but
 * counters and a listener of its own; its words are kept apart from the outer's by their lowest bit, so that
 * both stay dense. The outer policy calls the functions below from its operations of the same name; some need
 * no more than a place in its table (ASIM_INNER_TABLE).
 *
 * What an inner policy may be: an allocator of the registry. Refused with a message (ASIM_E_USAGE):
 * references, which hold no memory or too much (null, lower-bound); those that plan with the whole trace, of
 * which they would see a part only; and those that hold a policy themselves (ASIM_POLICY_HOLDS): no nesting.
 * As it may move blocks and scatter them, the outer table's flags include ASIM_INNER_FLAGS.
 *
 * Cost: one indirect call more, and a hash map of the blocks whose recorded completion an inner policy
 * without free_done may not hear of yet.
 */
#ifndef ASIM_POLICIES_INNER_H
#define ASIM_POLICIES_INNER_H

#include "sim/idmap.h"
#include "sim/policy.h"

enum {
    ASIM_INNER_FLAGS = ASIM_POLICY_HOLDS | ASIM_POLICY_MOVES | ASIM_POLICY_SCATTERS
};

typedef struct asim_inner {
    const asim_policy *policy; /* NULL: not set up */
    asim_policy_state *state;
    void *params;
    size_t params_size;
    asim_policy_env env; /* as the inner policy knows it */
    asim_listener listener;
    asim_policy_counters counters;
    const asim_listener *outer; /* the engine's */
    asim_policy_counters *outer_counters;
    uint64_t own_largest; /* largest free block of the outer policy's own memory, kept by that */
    asim_idmap withheld;  /* words, as the policy knows them, of frees that it has not heard of */
    asim_err fault;       /* why a call returned broken, where it is not the policy's fault */
} asim_inner;

/* Sets up the policy that spec names; key is the parameter's name, for messages. The inner must be zeroed and
 * stay where it is; fini is due also after a failure, and accepts a zeroed one. */
asim_code asim_inner_init(asim_inner *inner, const char *key, const char *spec, const asim_policy_env *env,
                          asim_err *err);
void asim_inner_fini(asim_inner *inner);

/* Whose a word is. The outer policy's own words are even. */
static inline bool asim_inner_owns(uint32_t word)
{
    return word & 1;
}

/* The inner policy's own word, an index of its records in every policy of the registry. */
static inline uint32_t asim_inner_index(uint32_t word)
{
    return word >> 1;
}

/* The operations that an outer policy calls from its own. Words are those of the outer policy, in placements
 * too; an inner policy without resize says ASIM_NOTHING. */
asim_alloc_result asim_inner_alloc(asim_inner *inner, const asim_event *event, asim_placement *ret_placement);
asim_free_result asim_inner_free(asim_inner *inner, uint32_t word, bool completion_follows);
asim_free_result asim_inner_free_done(asim_inner *inner, uint32_t word);
asim_alloc_result asim_inner_resize(asim_inner *inner, uint32_t word, const asim_event *event,
                                    asim_placement *ret_placement);
void asim_inner_access(asim_inner *inner, uint32_t word, const asim_event *event);
void asim_inner_metrics(const asim_inner *inner, void (*emit)(void *ctx, const char *name, uint64_t value),
                        void *ctx);
size_t asim_inner_refusal_text(const asim_inner *inner, char *ret_text, size_t capacity);
asim_code asim_inner_check(const asim_inner *inner, asim_err *err);

/* The outer policy's own segments, for the walk: next fills *ret_segment with the one after the last that was
 * shown (in (device, address) order), or returns false; show reports it and its blocks. */
typedef struct asim_inner_own {
    bool (*next)(void *ctx, asim_walk_segment *ret_segment);
    void (*show)(void *ctx, const asim_walker *walker);
    void *ctx;
} asim_inner_own;

/* Shows the inner policy's segments and the outer's own (NULL: none) merged in (device, address) order. */
void asim_inner_walk(const asim_inner *inner, const asim_inner_own *own, const asim_walker *walker);

/* Brings the outer policy's counters up to date: they are the inner's, but the largest free block is that of
 * either. The functions above do it; the outer does it where it changed inner->own_largest. */
static inline void asim_inner_settle(asim_inner *inner)
{
    asim_policy_counters *counters = inner->outer_counters;
    *counters = inner->counters;
    if (inner->own_largest > counters->largest_free_bytes)
        counters->largest_free_bytes = inner->own_largest;
}

/* Operations that are only passed on, for the table of an outer policy whose state begins with its inner. A
 * use of the outer policy's own blocks has no effect. */
void asim_inner_use(asim_policy_state *state, uint32_t word, unsigned lane);
asim_code asim_inner_sync(asim_policy_state *state, const asim_event *event, asim_err *err);
asim_code asim_inner_trim(asim_policy_state *state, const asim_event *event, asim_err *err);
asim_code asim_inner_pool(asim_policy_state *state, const asim_event *event, asim_err *err);
asim_code asim_inner_settings(asim_policy_state *state, const char *text, asim_err *err);
asim_code asim_inner_fraction(asim_policy_state *state, unsigned device, double fraction, asim_err *err);
asim_code asim_inner_mark(asim_policy_state *state, const asim_event *event, const char *label,
                          asim_err *err);
void asim_inner_reset_stats(asim_policy_state *state, unsigned device, bool peaks);
void asim_inner_report(const asim_policy_state *state, unsigned device,
                       void (*emit)(void *ctx, const char *name, int64_t value), void *ctx);

#define ASIM_INNER_TABLE                                                                                     \
    .version = ASIM_POLICY_VERSION, .flags = ASIM_INNER_FLAGS, .state_size = sizeof(asim_policy_state),      \
    .use = asim_inner_use, .sync = asim_inner_sync, .trim = asim_inner_trim, .pool = asim_inner_pool,        \
    .settings = asim_inner_settings, .fraction = asim_inner_fraction, .reset_stats = asim_inner_reset_stats, \
    .report = asim_inner_report

#endif
