/* jemalloc - size classes, slabs and extents, as jemalloc 5.3 does it on the host.
 *
 * Source: jemalloc 5.3, manual page (jemalloc.net/jemalloc.3.html) and src/ (sc.c, arena.c, extent.c).
 *
 *     request -> size class -> small (below 4 pages): a slot of a slab, the lowest free one of the slab of
 *                              lowest address; slabs are extents       [48|48|48| .. |48]
 *                           -> large: an extent of its own             [    20 KiB     ]
 *     extents come from the arena's free ones (best fit by size, then address; split, merged on free), else
 *     from the device: 2 MiB at first, one size class more each time, or the request if that is more.
 *
 * Streams: each stream has an arena of its own, as each thread is bound to one, so its frees are reusable for
 * it at once. Memory changes streams through the device alone. A block that other streams use waits for their
 * events. Decay is all or nothing: a region that has been wholly free for dirty_decay_ms of the host's clock
 * goes back, looked at whenever a request or a free comes by.
 *
 * Cost: as region_blocks.h; a slab's search is linear in its slots, and an arena's in its slabs with room.
 * Left out: thread caches; the gradual curve of decay, and decay of parts of regions (cudaFree takes whole
 * ones); the muzzy stage; the current slab that is kept until full, and serial numbers in the order of slabs
 * and extents (here the address alone); huge pages; sharing of an arena by streams (narenas).
 */
#include "policies/jemalloc_slabs.h"
#include "policies/registry.h"
#include "policies/size_classes.h"

#include <stddef.h>

enum {
    WORD_SLOT = 1, /* a word's lowest bit: a slot, else a block */
};

static const asim_param params[] = {
    {.name = "quantum",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(asim_jem_params, quantum),
     .default_text = "16",
     .min = 16,
     .max = 4096,
     .help = "smallest spacing of size classes, a power of two (lg-quantum)"},
    {.name = "page",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(asim_jem_params, page),
     .default_text = "4KiB",
     .min = 4096,
     .max = 65536,
     .help = "page size, a power of two; classes below four of them share slabs (lg-page)"},
    {.name = "dirty_decay_ms",
     .type = ASIM_PARAM_U64,
     .offset = offsetof(asim_jem_params, decay_ms),
     .default_text = "10000",
     .min = 0,
     .max = 1000000000,
     .none_allowed = true,
     .help =
         "milliseconds after which a wholly free region goes back to the device; 0: at once; none: never"},
    {.name = "retain",
     .type = ASIM_PARAM_BOOL,
     .offset = offsetof(asim_jem_params, grow),
     .default_text = "true",
     .help = "take ever larger regions; false: as many bytes as the extent needs"},
};

static bool is_power(uint64_t value)
{
    return (value & (value - 1)) == 0;
}

static asim_code jemalloc_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                               asim_err *err)
{
    state->env = *env;
    state->params = *(const asim_jem_params *)block;
    const asim_jem_params *p = &state->params;
    if (!is_power(p->quantum) || !is_power(p->page))
        return asim_fail(err, ASIM_E_USAGE, "jemalloc: quantum and page must be powers of two");
    if (p->quantum > p->page)
        return asim_fail(err, ASIM_E_USAGE, "jemalloc: quantum (%llu) is above page (%llu)",
                         (unsigned long long)p->quantum, (unsigned long long)p->page);
    for (uint64_t size = 1; (size = asim_je_class(size, p->quantum)) < 4 * p->page; size++)
        state->sizes[state->classes++] = size;
    state->due = UINT64_MAX;
    state->slab_count = 1;
    asim_code code = asim_rb_init(&state->rb, env, err);
    if (!code)
        code = asim_uses_init(&state->uses, env, err);
    if (code || !env->lane_count)
        return code;
    state->arenas = asim_mem_new(env->memory, env->lane_count, sizeof *state->arenas);
    return state->arenas ? ASIM_OK : asim_fail_memory(err, env->lane_count * sizeof *state->arenas);
}

static void jemalloc_fini(asim_policy_state *state)
{
    const asim_hostmem *memory = state->env.memory;
    asim_rb_fini(&state->rb);
    asim_uses_fini(&state->uses);
    if (!memory)
        return;
    asim_mem_free(memory, state->arenas, state->env.lane_count, sizeof *state->arenas);
    asim_mem_free(memory, state->slots, state->slot_capacity, sizeof *state->slots);
    asim_mem_free(memory, state->slabs, state->slab_capacity, sizeof *state->slabs);
    asim_mem_free(memory, state->slab_of, state->slab_of_capacity, sizeof *state->slab_of);
    asim_mem_free(memory, state->since, state->since_capacity, sizeof *state->since);
}

/* Gives back every region of the device (of all: ASIM_NO_INDEX) that became wholly free at until or before.
 */
static bool purge(asim_policy_state *state, uint32_t device, uint64_t until)
{
    asim_region_blocks *rb = &state->rb;
    const uint64_t decay = state->params.decay_ms == ASIM_PARAM_NONE ? 0 : state->params.decay_ms * 1000000;
    uint64_t due = UINT64_MAX;
    for (uint32_t r = rb->first_region, next; r; r = next) {
        next = rb->regions[r].next;
        const uint32_t first = rb->regions[r].first;
        if (rb->blocks[first].state != ASIM_BLOCK_FREE || !asim_rb_is_whole(rb, first))
            continue;
        if ((device == ASIM_NO_INDEX || device == rb->regions[r].device) && state->since[r] <= until) {
            if (state->env.device.ops->free(state->env.device.ctx, rb->regions[r].index) != ASIM_DEVICE_OK) {
                asim_fail(&state->fault, ASIM_E_BUG, "the device's free failed");
                return false;
            }
            state->purged += rb->regions[r].size;
            asim_rb_region_drop(rb, r);
        } else if (state->since[r] + decay < due) {
            due = state->since[r] + decay;
        }
    }
    state->due = state->params.decay_ms == ASIM_PARAM_NONE ? UINT64_MAX : due;
    return true;
}

static bool decay(asim_policy_state *state)
{
    if (state->due == UINT64_MAX)
        return true;
    const uint64_t moment = asim_jem_now(state);
    return moment < state->due || purge(state, ASIM_NO_INDEX, moment - state->params.decay_ms * 1000000);
}

static asim_placement placement_of(const asim_policy_state *state, uint32_t word)
{
    uint32_t block = word >> 1;
    asim_placement placement = {.word = word};
    if (word & WORD_SLOT) {
        const asim_jem_slab *home = &state->slabs[state->slots[word >> 1].slab];
        placement.address = asim_jem_slot_address(state, word >> 1);
        placement.size = state->sizes[home->number];
        block = home->block;
    } else {
        placement.address = state->rb.extents[block].address;
        placement.size = state->rb.extents[block].size;
    }
    placement.rounded = placement.size;
    placement.region = state->rb.regions[state->rb.blocks[block].region].index;
    return placement;
}

typedef struct owned {
    uint64_t *requested;
    uint32_t *uses;
    uint8_t *state;
    uint16_t lane;
} owned;

static owned owned_by(asim_policy_state *state, uint32_t word)
{
    if (word & WORD_SLOT) {
        asim_jem_slot *own = &state->slots[word >> 1];
        return (owned){&own->requested, &own->uses, &own->state, own->lane};
    }
    asim_rb_block *own = &state->rb.blocks[word >> 1];
    return (owned){&own->requested, &own->uses, &own->state, own->lane};
}

static bool give(asim_policy_state *state, uint32_t word)
{
    if (word & WORD_SLOT)
        return asim_jem_give_slot(state, word >> 1);
    return asim_jem_give_extent(state, asim_stream_of(&state->uses, state->rb.blocks[word >> 1].lane),
                                word >> 1);
}

static void complete(void *ctx, uint32_t word)
{
    asim_policy_state *state = ctx;
    const asim_placement placement = placement_of(state, word);
    state->env.listener->free_done(state->env.listener->ctx, placement.address, placement.size,
                                   *owned_by(state, word).requested);
    give(state, word);
}

static void settle(asim_policy_state *state)
{
    const uint64_t slot_size =
        state->with_free ? state->sizes[63 - (unsigned)__builtin_clzll(state->with_free)] : 0;
    const uint64_t block = asim_rb_largest(&state->rb);
    state->env.counters->largest_free_bytes = slot_size > block ? slot_size : block;
}

static asim_alloc_result refuse(asim_policy_state *state, unsigned device, uint64_t rounded, uint64_t asked)
{
    uint64_t free_bytes, total;
    state->env.device.ops->memory(state->env.device.ctx, device, &free_bytes, &total);
    settle(state);
    state->env.listener->refusal(state->env.listener->ctx, device, rounded, asked, free_bytes);
    return ASIM_REFUSED;
}

static asim_alloc_result take(asim_policy_state *state, unsigned lane, uint64_t size, uint32_t *ret_word,
                              uint64_t *ret_asked)
{
    uint32_t found = 0;
    asim_alloc_result result;
    if (size < 4 * state->params.page) {
        const unsigned number = asim_je_number(size, state->params.quantum);
        result = asim_jem_take_slot(state, lane, number, &found, ret_asked);
        *ret_word = found << 1 | WORD_SLOT;
    } else {
        result = asim_jem_take_extent(state, lane, size, &found, ret_asked);
        *ret_word = found << 1;
    }
    return found > UINT32_MAX / 2 ? ASIM_BROKEN : result;
}

static asim_alloc_result jemalloc_alloc(asim_policy_state *state, const asim_event *event,
                                        asim_placement *ret_placement)
{
    const unsigned device = state->env.lanes[event->lane].device;
    if (state->fault.code)
        return ASIM_BROKEN;
    if (event->size == 0)
        return ASIM_NOTHING;
    if (asim_uses_pending(&state->uses))
        asim_uses_poll(&state->uses, false, complete, state);
    if (!decay(state) || state->fault.code)
        return ASIM_BROKEN;
    if (event->size > ASIM_JEM_LARGEST_REQUEST)
        return refuse(state, device, event->size, event->size);
    const uint64_t size = asim_je_class(event->size, state->params.quantum);
    uint64_t asked = size;
    uint32_t word = 0;
    asim_alloc_result result = take(state, event->lane, size, &word, &asked);
    if (result == ASIM_REFUSED) { /* other streams' free memory goes back before giving up */
        state->env.counters->alloc_retries++;
        if (asim_uses_pending(&state->uses)) {
            state->env.counters->sync_waits++;
            asim_uses_poll(&state->uses, true, complete, state);
        }
        state->env.counters->cache_flushes++;
        if (state->fault.code || !purge(state, device, UINT64_MAX))
            return ASIM_BROKEN;
        result = take(state, event->lane, size, &word, &asked);
    }
    if (result != ASIM_PLACED)
        return result == ASIM_REFUSED ? refuse(state, device, size, asked) : result;
    *owned_by(state, word).requested = event->size;
    settle(state);
    *ret_placement = placement_of(state, word);
    return ASIM_PLACED;
}

static asim_free_result finish(asim_policy_state *state, uint32_t word)
{
    if (!give(state, word) || !decay(state))
        return ASIM_FREE_BROKEN;
    settle(state);
    return ASIM_FREED;
}

static asim_free_result jemalloc_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    if (state->fault.code)
        return ASIM_FREE_BROKEN;
    const owned own = owned_by(state, word);
    if (!completion_follows && !*own.uses)
        return finish(state, word);
    *own.state = ASIM_BLOCK_PENDING;
    if (completion_follows)
        asim_uses_forget(&state->uses, own.uses);
    else if (asim_uses_wait(&state->uses, own.uses, word, &state->fault))
        return ASIM_FREE_BROKEN;
    return ASIM_FREE_LATER;
}

static void jemalloc_use(asim_policy_state *state, uint32_t word, unsigned lane)
{
    const owned own = owned_by(state, word);
    asim_uses_add(&state->uses, own.uses, own.lane, lane, &state->fault);
}

static asim_code jemalloc_check(const asim_policy_state *state, asim_err *err)
{
    if (state->fault.code)
        return asim_fail(err, state->fault.code, "%s", state->fault.message);
    for (uint32_t s = 1; s < state->slab_count; s++) {
        const asim_jem_slab *home = &state->slabs[s];
        const uint64_t size = state->sizes[home->number], bytes = asim_je_slab(size, state->params.page);
        uint32_t free_count = 0;
        if (!home->block)
            continue;
        for (uint32_t i = 0; i < bytes / size; i++) {
            const bool is_free = state->slots[home->first + i].state == ASIM_BLOCK_FREE;
            free_count += is_free;
            if (is_free && i < home->hint)
                return asim_fail(err, ASIM_E_BUG, "slab %u has a free slot below its hint", s);
        }
        if (state->rb.extents[home->block].size != bytes || state->slab_of[home->block] != s ||
            free_count != home->free_count || free_count == bytes / size)
            return asim_fail(err, ASIM_E_BUG, "slab %u: extent or count of free slots is wrong", s);
    }
    return asim_rb_check(&state->rb, err);
}

static bool show(const void *ctx, uint32_t block, const asim_walker *walker)
{
    const asim_policy_state *state = ctx;
    const uint32_t s = block < state->slab_of_capacity ? state->slab_of[block] : 0;
    const uint64_t size = s ? state->sizes[state->slabs[s].number] : state->rb.extents[block].size;
    const uint64_t count = state->rb.extents[block].size / size;
    for (uint32_t i = 0; i < count; i++) {
        const asim_jem_slot *own = s ? &state->slots[state->slabs[s].first + i] : NULL;
        const asim_walk_block shown = {
            .address = state->rb.extents[block].address + i * size,
            .size = size,
            .requested = own ? own->requested : state->rb.blocks[block].requested,
            .word = own ? (state->slabs[s].first + i) << 1 | WORD_SLOT : block << 1,
            .state = (asim_block_state)(own ? own->state : state->rb.blocks[block].state)};
        walker->block(walker->ctx, &shown);
    }
    return true;
}

static void jemalloc_walk(const asim_policy_state *state, const asim_walker *walker)
{
    asim_rb_walk(&state->rb, walker, show, state);
}

static void jemalloc_metrics(const asim_policy_state *state,
                             void (*emit)(void *ctx, const char *name, uint64_t value), void *ctx)
{
    emit(ctx, "purged_bytes", state->purged);
}

const asim_policy asim_policy_jemalloc = {
    .version = ASIM_POLICY_VERSION,
    .name = "jemalloc",
    .summary = "jemalloc's size classes, slabs and extents, an arena a stream",
    .source = "jemalloc 5.3, manual page and src/",
    .state_size = sizeof(asim_policy_state),
    .params = {params, sizeof params / sizeof params[0], sizeof(asim_jem_params)},
    .init = jemalloc_init,
    .alloc = jemalloc_alloc,
    .free = jemalloc_free,
    .check = jemalloc_check,
    .walk = jemalloc_walk,
    .fini = jemalloc_fini,
    .free_done = finish,
    .use = jemalloc_use,
    .metrics = jemalloc_metrics,
};
