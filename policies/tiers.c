/* tiers - the memory of a GPU as a cache of three levels: registers, SRAM, HBM.
 *
 * What it models: the hierarchy that FlashAttention is written for (Dao et al., NeurIPS 2022, section 2.1):
 * HBM, and on each multiprocessor SRAM (shared memory) and registers, each smaller and faster than the one
 * below. The defaults are an A100 SXM of 40 GB: 108 multiprocessors with 192 KiB of SRAM at 19 TB/s together
 * and HBM at 1555 GB/s (that paper); 256 KiB of registers each (NVIDIA's A100 whitepaper), at 108 x 64 lanes
 * x 3 operands x 4 bytes x 1.41 GHz; latencies of 1, 23 and 290 cycles of 1.41 GHz for registers, shared and
 * global memory (Abdelkhalik et al., "Demystifying the Nvidia Ampere Architecture through Microbenchmarking",
 * HPEC 2022; the register's is taken to be one cycle).
 *
 * How it works. Blocks live in HBM, where the policy named by rest places them. An ACCESS event touches the
 * first size bytes of its block, and is served by the level that holds as many of them; it takes
 *
 *     latency of that level + bytes / bandwidth of that level
 *
 * Then the block is promoted: promote=step, from HBM to SRAM and from SRAM to registers, one level an access;
 * promote=top, to registers at once. What does not fit into a level at all goes to the one below. A level
 * that is full makes room by giving up its least recently used block, which goes down one level: from
 * registers to SRAM, where it may drive out another one, from SRAM to HBM, which has it anyway.
 *
 *     access c     registers  [ a ]          [ b ]        b was hit in SRAM: a goes down
 *     access b     SRAM       [ b | c ]      [ a | c ]
 *                  HBM        a b c d ..     a b c d ..
 *
 * A freed block leaves its level. A device has one of each level, shared by all its streams.
 *
 * Ties: none; the order of use is total. Cost: O(1) for an access, and for each block that is driven out.
 *
 * What the numbers say: register_hits, sram_hits and hbm_accesses add up to accesses (of a byte at least);
 * the ..._hit_ppm are shares of it; access_ns is the time of all, hbm_only_ns what they would take without
 * the upper levels. It is time of the GPU, no part of stall_ns.
 *
 * Left out: lines and banks (a block is held as far as it was touched, or not), writes that differ from
 * reads, the L2 cache, several multiprocessors with caches of their own, overlap of accesses.
 */
#include "policies/inner.h"
#include "policies/registry.h"

#include <stddef.h>
#include <string.h>

typedef enum level {
    HBM,
    SRAM,
    REGISTERS,
    LEVELS
} level;

enum {
    PROMOTE_STEP,
    PROMOTE_TOP
};

typedef struct tiers_params {
    uint64_t capacity[LEVELS], latency_ps[LEVELS], bandwidth[LEVELS]; /* bandwidth in bytes a ns */
    int promote;
    char rest[ASIM_PARAM_TEXT_MAX];
} tiers_params;

static const char *const promotions[] = {"step", "top", NULL};

#define CAPACITY(text, which, bytes, what)                                                                   \
    {                                                                                                        \
        .name = text, .type = ASIM_PARAM_BYTES, .offset = offsetof(tiers_params, capacity[which]),           \
        .default_text = bytes, .min = 0, .max = UINT64_C(1) << 40,                                           \
        .help = "bytes of " what " on a device; 0: there are none"                                           \
    }
#define LATENCY(text, which, ps)                                                                             \
    {                                                                                                        \
        .name = text, .type = ASIM_PARAM_U64, .offset = offsetof(tiers_params, latency_ps[which]),           \
        .default_text = ps, .min = 0, .max = 1000000000, .help = "picoseconds of each access"                \
    }
#define BANDWIDTH(text, which, gbs)                                                                          \
    {                                                                                                        \
        .name = text, .type = ASIM_PARAM_U64, .offset = offsetof(tiers_params, bandwidth[which]),            \
        .default_text = gbs, .min = 1, .max = 1000000000, .help = "GB/s, that is bytes a nanosecond"         \
    }

static const asim_param params[] = {
    CAPACITY("registers", REGISTERS, "27MiB", "registers"),
    CAPACITY("sram", SRAM, "20.25MiB", "SRAM"),
    LATENCY("register_ps", REGISTERS, "709"),
    LATENCY("sram_ps", SRAM, "16312"),
    LATENCY("hbm_ps", HBM, "205674"),
    BANDWIDTH("register_gbs", REGISTERS, "116937"),
    BANDWIDTH("sram_gbs", SRAM, "19000"),
    BANDWIDTH("hbm_gbs", HBM, "1555"),
    {.name = "promote",
     .type = ASIM_PARAM_CHOICE,
     .offset = offsetof(tiers_params, promote),
     .default_text = "step",
     .choices = promotions,
     .help = "where an access brings its block: step (one level up) or top (registers)"},
    {.name = "rest",
     .type = ASIM_PARAM_TEXT,
     .offset = offsetof(tiers_params, rest),
     .default_text = "torchcache",
     .help = "policy that places blocks in HBM: NAME or [NAME,key=value,...]"},
};

typedef struct entry {     /* of a block, by the inner policy's word */
    uint64_t size;         /* of the block, as asked for */
    uint64_t held;         /* bytes in its level, if above HBM */
    uint32_t newer, older; /* in the order of use there; 0: none */
    uint16_t device;
    uint8_t level;
} entry;

typedef struct tier {
    uint64_t used;
    uint32_t newest, oldest; /* entries, numbered from 1; 0: none */
} tier;

struct asim_policy_state {
    asim_inner inner; /* first: see ASIM_INNER_TABLE */
    asim_policy_env env;
    tiers_params given;
    tier (*tiers)[LEVELS]; /* by device; that of HBM is not used */
    entry *entries;        /* [0] is none: an entry's number is the inner policy's word and 1 */
    size_t capacity;
    uint64_t hits[LEVELS], evictions[LEVELS];
    unsigned __int128 time_ps, hbm_ps;
    asim_err fault;
};

static asim_code tiers_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                            asim_err *err)
{
    const tiers_params *given = block;
    state->env = *env;
    state->given = *given;
    if (given->latency_ps[REGISTERS] > given->latency_ps[SRAM] ||
        given->latency_ps[SRAM] > given->latency_ps[HBM])
        return asim_fail(err, ASIM_E_USAGE,
                         "tiers: register_ps, sram_ps and hbm_ps have to ascend: an upper level is faster");
    asim_code code = asim_inner_init(&state->inner, "rest", given->rest, env, err);
    if (!code && !(state->tiers = asim_mem_new(env->memory, env->device_count, sizeof *state->tiers)))
        code = asim_fail_memory(err, env->device_count * sizeof *state->tiers);
    return code;
}

static void tiers_fini(asim_policy_state *state)
{
    if (!state->env.memory)
        return;
    asim_mem_free(state->env.memory, state->tiers, state->env.device_count, sizeof *state->tiers);
    asim_mem_free(state->env.memory, state->entries, state->capacity, sizeof *state->entries);
    asim_inner_fini(&state->inner);
}

/* --- the levels --- */

static void leave(asim_policy_state *state, uint32_t number)
{
    entry *e = &state->entries[number];
    tier *t = &state->tiers[e->device][e->level];
    if (e->level == HBM)
        return;
    *(e->newer ? &state->entries[e->newer].older : &t->newest) = e->older;
    *(e->older ? &state->entries[e->older].newer : &t->oldest) = e->newer;
    t->used -= e->held;
    e->level = HBM;
}

/* Puts a block that is in HBM alone on top of a level that can hold bytes of it; its oldest ones go down. */
static void enter(asim_policy_state *state, uint32_t number, level to, uint64_t bytes)
{
    entry *e = &state->entries[number];
    tier *t = &state->tiers[e->device][to];
    while (t->used + bytes > state->given.capacity[to]) {
        const uint32_t victim = t->oldest;
        const uint64_t held = state->entries[victim].held;
        leave(state, victim);
        state->evictions[to]++;
        if (to == REGISTERS && held <= state->given.capacity[SRAM])
            enter(state, victim, SRAM, held);
    }
    e->level = (uint8_t)to;
    e->held = bytes;
    e->older = t->newest;
    e->newer = 0;
    *(t->newest ? &state->entries[t->newest].newer : &t->oldest) = number;
    t->newest = number;
    t->used += bytes;
}

static uint64_t time_of(const asim_policy_state *state, level at, uint64_t bytes)
{
    return state->given.latency_ps[at] +
           (uint64_t)((unsigned __int128)bytes * 1000 / state->given.bandwidth[at]);
}

static void touch(asim_policy_state *state, uint32_t number, uint64_t bytes)
{
    entry *e = &state->entries[number];
    const level at = e->level != HBM && e->held >= bytes ? (level)e->level : HBM;
    const uint64_t keep = at == HBM ? bytes : e->held;
    state->hits[at]++;
    state->time_ps += time_of(state, at, bytes);
    state->hbm_ps += time_of(state, HBM, bytes);
    level to = state->given.promote == PROMOTE_TOP || at != HBM ? REGISTERS : SRAM;
    while (to != HBM && keep > state->given.capacity[to])
        to = (level)(to - 1);
    leave(state, number);
    if (to != HBM)
        enter(state, number, to, keep);
}

/* --- the operations --- */

static bool is_broken(const asim_policy_state *state)
{
    return state->fault.code || state->inner.fault.code;
}

/* The entry of a block just placed. */
static asim_alloc_result note(asim_policy_state *state, const asim_event *event, unsigned device,
                              uint32_t word)
{
    enum {
        WORDS_MAX = 1 << 28 /* words are indices of records: more than this is a fault */
    };
    const uint32_t number = asim_inner_index(word) + 1;
    const size_t before = state->capacity;
    void *entries = state->entries;
    asim_code code = number > WORDS_MAX
                         ? asim_fail(&state->fault, ASIM_E_BUG, "the word %u of policy %s is no index",
                                     number - 1, state->inner.policy->name)
                         : asim_mem_grow(state->env.memory, &entries, &state->capacity, (size_t)number + 1,
                                         sizeof *state->entries, &state->fault);
    state->entries = entries;
    if (code)
        return ASIM_BROKEN;
    if (state->capacity > before)
        memset(&state->entries[before], 0, (state->capacity - before) * sizeof *state->entries);
    state->entries[number] = (entry){.size = event->size, .device = (uint16_t)device};
    return ASIM_PLACED;
}

static asim_alloc_result tiers_alloc(asim_policy_state *state, const asim_event *event,
                                     asim_placement *ret_placement)
{
    if (is_broken(state))
        return ASIM_BROKEN;
    const asim_alloc_result result = asim_inner_alloc(&state->inner, event, ret_placement);
    return result == ASIM_PLACED
               ? note(state, event, state->env.lanes[event->lane].device, ret_placement->word)
               : result;
}

/* What was held of a block that was resized is held no longer. */
static asim_alloc_result tiers_resize(asim_policy_state *state, uint32_t word, const asim_event *event,
                                      asim_placement *ret_placement)
{
    if (is_broken(state))
        return ASIM_BROKEN;
    const asim_alloc_result result = asim_inner_resize(&state->inner, word, event, ret_placement);
    if (result != ASIM_PLACED)
        return result;
    const unsigned device = state->entries[asim_inner_index(word) + 1].device;
    leave(state, asim_inner_index(word) + 1);
    return note(state, event, device, ret_placement->word);
}

static asim_free_result tiers_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    leave(state, asim_inner_index(word) + 1);
    return asim_inner_free(&state->inner, word, completion_follows);
}

static asim_free_result tiers_free_done(asim_policy_state *state, uint32_t word)
{
    return asim_inner_free_done(&state->inner, word);
}

static void tiers_access(asim_policy_state *state, uint32_t word, const asim_event *event)
{
    const uint32_t number = asim_inner_index(word) + 1;
    const uint64_t size = state->entries[number].size, bytes = event->size < size ? event->size : size;
    if (bytes)
        touch(state, number, bytes);
    asim_inner_access(&state->inner, word, event);
}

static uint64_t share_ppm(uint64_t part, uint64_t whole)
{
    return whole ? (uint64_t)((unsigned __int128)part * 1000000 / whole) : 0;
}

static void tiers_metrics(const asim_policy_state *state,
                          void (*emit)(void *ctx, const char *name, uint64_t value), void *ctx)
{
    const uint64_t *hits = state->hits, accesses = hits[HBM] + hits[SRAM] + hits[REGISTERS];
    emit(ctx, "accesses", accesses);
    emit(ctx, "register_hits", hits[REGISTERS]);
    emit(ctx, "sram_hits", hits[SRAM]);
    emit(ctx, "hbm_accesses", hits[HBM]);
    emit(ctx, "register_hit_ppm", share_ppm(hits[REGISTERS], accesses));
    emit(ctx, "sram_hit_ppm", share_ppm(hits[SRAM], accesses));
    emit(ctx, "register_evictions", state->evictions[REGISTERS]);
    emit(ctx, "sram_evictions", state->evictions[SRAM]);
    emit(ctx, "access_ns", (uint64_t)(state->time_ps / 1000));
    emit(ctx, "hbm_only_ns", (uint64_t)(state->hbm_ps / 1000));
    asim_inner_metrics(&state->inner, emit, ctx);
}

static size_t tiers_refusal_text(const asim_policy_state *state, char *ret_text, size_t capacity)
{
    return asim_inner_refusal_text(&state->inner, ret_text, capacity);
}

static asim_code check_tier(const asim_policy_state *state, unsigned device, level which, asim_err *err)
{
    const tier *t = &state->tiers[device][which];
    uint64_t used = 0;
    uint32_t newer = 0;
    for (uint32_t i = t->newest; i; newer = i, i = state->entries[i].older) {
        const entry *e = &state->entries[i];
        if (e->newer != newer || e->device != device || e->level != which || e->held > e->size ||
            e->held == 0)
            return asim_fail(err, ASIM_E_BUG,
                             "block %u does not belong into level %d, or its links are wrong", i - 1, which);
        used += e->held;
    }
    if (t->oldest != newer || used != t->used || used > state->given.capacity[which])
        return asim_fail(err, ASIM_E_BUG, "level %d holds %llu bytes, counted as %llu, and has room for %llu",
                         which, (unsigned long long)used, (unsigned long long)t->used,
                         (unsigned long long)state->given.capacity[which]);
    return ASIM_OK;
}

static asim_code tiers_check(const asim_policy_state *state, asim_err *err)
{
    if (state->fault.code)
        return asim_fail(err, state->fault.code, "%s", state->fault.message);
    asim_code code = asim_inner_check(&state->inner, err);
    for (uint32_t d = 0; !code && d < state->env.device_count; d++) {
        code = check_tier(state, d, SRAM, err);
        if (!code)
            code = check_tier(state, d, REGISTERS, err);
    }
    return code;
}

static void tiers_walk(const asim_policy_state *state, const asim_walker *walker)
{
    asim_inner_walk(&state->inner, NULL, walker);
}

const asim_policy asim_policy_tiers = {
    ASIM_INNER_TABLE,
    .name = "tiers",
    .summary = "registers and SRAM as LRU caches of blocks that another policy places in HBM",
    .source = "Dao et al., NeurIPS 2022 (FlashAttention), section 2.1: the A100's memory hierarchy",
    .params = {params, sizeof params / sizeof params[0], sizeof(tiers_params)},
    .init = tiers_init,
    .alloc = tiers_alloc,
    .free = tiers_free,
    .check = tiers_check,
    .walk = tiers_walk,
    .fini = tiers_fini,
    .free_done = tiers_free_done,
    .mark = asim_inner_mark,
    .resize = tiers_resize,
    .access = tiers_access,
    .metrics = tiers_metrics,
    .refusal_text = tiers_refusal_text,
};
