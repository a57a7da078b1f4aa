/* One event after another: the hot path of every run.
 *
 * Order within an event: clocks, the policy's operation (driver calls and completed frees come in between,
 * through the ledger and the listener), books, digest, comparison with the recording, observers, metrics.
 */
#include "sim/engine_state.h"

#include <inttypes.h>
#include <string.h>

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

static asim_code fail_fault(asim_engine *engine, asim_err *err)
{
    const asim_err *fault = engine->fault.code ? &engine->fault : &engine->ledger.fault;
    if (err)
        *err = *fault;
    return fault->code;
}

static inline bool has_fault(const asim_engine *engine)
{
    return UNLIKELY(engine->fault.code || engine->ledger.fault.code);
}

static asim_code fail_event(const asim_engine *engine, const asim_event *event, asim_code code, asim_err *err,
                            const char *what)
{
    const char *kind = asim_event_kind_name(event->kind);
    return asim_fail_at(err, code, engine->books.event, "event %" PRIu64 " (%s of slot %" PRIu32 "): %s",
                        engine->books.event, kind ? kind : "unknown", event->id, what);
}

/* The policy's check says what broke it: host memory that ran out is no fault of ours. */
static asim_code fail_broken(const asim_engine *engine, const asim_event *event, asim_err *err,
                             const char *what)
{
    asim_code code = engine->policy->check(engine->state, err);
    if (!code)
        return fail_event(engine, event, ASIM_E_BUG, err, what);
    if (err)
        asim_err_context(err, "event %" PRIu64, engine->books.event);
    return code;
}

/* --- allocation --- */

static asim_code tell_placed(asim_engine *engine, const asim_event *event, const asim_placement *placement,
                             asim_err *err)
{
    for (uint32_t i = 0; i < engine->observer_count; i++) {
        const asim_observer *observer = engine->observers[i].observer;
        asim_code code =
            observer->placed ? observer->placed(engine->observers[i].state, event, placement, err) : ASIM_OK;
        if (code)
            return code;
    }
    return ASIM_OK;
}

static asim_code grow_slots(asim_engine *engine, uint32_t id, asim_err *err)
{
    size_t old = engine->slot_capacity;
    void *slots = engine->slots;
    asim_code code =
        asim_mem_grow(engine->mem, &slots, &engine->slot_capacity, (size_t)id + 1, sizeof(asim_slot), err);
    engine->slots = slots;
    if (!code)
        memset(&engine->slots[old], 0, (engine->slot_capacity - old) * sizeof(asim_slot));
    return code;
}

/* For a policy that moves blocks: which slot a word stands for. */
static asim_code note_word(asim_engine *engine, uint32_t word, uint32_t id, asim_err *err)
{
    enum {
        WORDS_MAX = 1 << 28 /* words are indices of records: more than this is a fault */
    };
    if (word >= WORDS_MAX)
        return asim_fail(err, ASIM_E_BUG, "policy %s moves blocks, but the word %" PRIu32 " is no index",
                         engine->policy->name, word);
    if (word >= engine->word_capacity) {
        void *words = engine->slot_of_word;
        asim_code code = asim_mem_grow(engine->mem, &words, &engine->word_capacity, (size_t)word + 1,
                                       sizeof(uint32_t), err);
        engine->slot_of_word = words;
        if (code)
            return code;
    }
    engine->slot_of_word[word] = id;
    return ASIM_OK;
}

/* Enters a placed block into its slot, the books and the ledger. */
static inline asim_code enter_block(asim_engine *engine, const asim_event *event,
                                    const asim_placement *placement, asim_err *err)
{
    bool no_region = placement->region == ASIM_NO_INDEX;
    bool scattered = no_region && placement->size == 0 && engine->policy->flags & ASIM_POLICY_SCATTERS;
    if (UNLIKELY(!scattered && (placement->size < event->size || placement->rounded > placement->size ||
                                placement->rounded < event->size)))
        return fail_event(engine, event, ASIM_E_BUG, err,
                          "the policy's block is smaller than the request, or than the rounded request");
    if (UNLIKELY(no_region ? !scattered && !(engine->policy->flags & ASIM_POLICY_REFERENCE)
                           : !asim_ledger_occupy(&engine->ledger, placement->region, placement->address,
                                                 placement->size)))
        return fail_event(engine, event, ASIM_E_BUG, err,
                          "the policy placed it outside of memory that is held from the device");
    engine->slots[event->id] = (asim_slot){.address = placement->address,
                                           .size = placement->size,
                                           .rounded = placement->rounded,
                                           .requested = event->size,
                                           .region = placement->region,
                                           .word = placement->word,
                                           .lane = event->lane,
                                           .state = ASIM_SLOT_LIVE};
    asim_books *books = &engine->books;
    books->requested += event->size;
    books->allocated += placement->size;
    books->active += placement->size;
    books->live_blocks++;
    engine->rounded += placement->rounded;
    return UNLIKELY(engine->moves) ? note_word(engine, placement->word, event->id, err) : ASIM_OK;
}

/* Asked only once a request was refused: what it takes is no cost of a run that fits. */
static asim_code note_refusal(asim_engine *engine, const asim_event *event, asim_err *err)
{
    const asim_oom oom = {.event = engine->books.event,
                          .requested_bytes = event->size,
                          .segment_bytes = engine->refused_segment_bytes,
                          .allocated_bytes = engine->books.allocated,
                          .reserved_bytes = engine->books.reserved,
                          .device_free_bytes = engine->refused_device_free,
                          .largest_free_bytes = engine->counters.largest_free_bytes,
                          .device = engine->trace->lanes[event->lane].device};
    char text[ASIM_FAILURE_TEXT] = "";
    engine->ooms++;
    if (engine->failures.count < ASIM_FAILURES_MAX && engine->policy->refusal_text)
        engine->policy->refusal_text(engine->state, text, sizeof text);
    if (!engine->has_oom) {
        engine->has_oom = true;
        engine->oom_span = asim_device_model_span(engine->model);
        engine->oom_at = engine->in_run ? engine->books.event + 1 : 0;
        engine->oom = oom;
    }
    return asim_failures_add(&engine->failures, &oom, text, engine->mem, err);
}

static inline void note_peaks(asim_engine *engine)
{
    const asim_books *books = &engine->books;
    engine->peak_requested = asim_max(engine->peak_requested, books->requested);
    engine->peak_allocated = asim_max(engine->peak_allocated, books->allocated);
    engine->peak_active = asim_max(engine->peak_active, books->active);
    engine->peak_rounded = asim_max(engine->peak_rounded, engine->rounded);
    engine->peak_internal = asim_max(engine->peak_internal, asim_books_internal(books));
}

static inline asim_code do_alloc(asim_engine *engine, const asim_event *event, uint64_t recorded,
                                 asim_alloc_result *ret_result, asim_placement *ret_placement, asim_err *err)
{
    if (UNLIKELY(event->id >= engine->slot_capacity)) {
        asim_code code = grow_slots(engine, event->id, err);
        if (code)
            return code;
    }
    uint8_t *slot_state = &engine->slots[event->id].state;
    if (UNLIKELY(*slot_state != ASIM_SLOT_EMPTY && *slot_state != ASIM_SLOT_BLANK))
        return fail_event(engine, event, ASIM_E_INPUT, err, "the slot is in use");
    engine->allocs++;
    engine->lane = event->lane;
    engine->clocks.host_ns += engine->profile.hit_ns;
    asim_placement placement;
    asim_alloc_result result = engine->policy->alloc(engine->state, event, &placement);
    if (has_fault(engine))
        return fail_fault(engine, err);
    *ret_result = result;
    if (UNLIKELY(result != ASIM_PLACED)) {
        if (result == ASIM_BROKEN)
            return fail_broken(engine, event, err, "the policy reports that its state is broken");
        engine->slots[event->id].state = ASIM_SLOT_BLANK;
        asim_engine_mix(engine, result == ASIM_REFUSED ? ASIM_DIGEST_REFUSED : ASIM_DIGEST_NOTHING,
                        event->size, event->id);
        asim_code code = result == ASIM_REFUSED ? note_refusal(engine, event, err) : ASIM_OK;
        if (code)
            return code;
        placement.address = ASIM_NO_ADDRESS;
    } else {
        asim_code code = enter_block(engine, event, &placement, err);
        if (code)
            return code;
        *ret_placement = placement;
        asim_engine_mix(engine, ASIM_DIGEST_PLACED, placement.address, placement.size);
        note_peaks(engine);
        if (UNLIKELY(engine->observer_count) && placement.size &&
            (code = tell_placed(engine, event, &placement, err)))
            return code;
    }
    if (recorded != ASIM_NO_ADDRESS && engine->compare) {
        engine->recorded_allocs++;
        if (placement.address == recorded)
            engine->recorded_matches++;
        else
            asim_engine_note_mismatch(engine, &(asim_mismatch){.event = engine->books.event,
                                                               .size = event->size,
                                                               .recorded_address = recorded,
                                                               .address = placement.address,
                                                               .lane = event->lane,
                                                               .recorded_kind = ASIM_NO_INDEX,
                                                               .kind = ASIM_NO_INDEX});
    }
    return ASIM_OK;
}

/* --- free --- */

static asim_code tell_freed(asim_engine *engine, const asim_slot *slot, bool pending, asim_err *err)
{
    if (UNLIKELY(slot->size == 0)) /* scattered: its pieces were told */
        return ASIM_OK;
    for (uint32_t i = 0; i < engine->observer_count; i++) {
        const asim_observer *observer = engine->observers[i].observer;
        asim_code code = observer->freed ? observer->freed(engine->observers[i].state, slot->address,
                                                           slot->size, pending, err)
                                         : ASIM_OK;
        if (code)
            return code;
    }
    return ASIM_OK;
}

static bool vacate(asim_engine *engine, const asim_slot *slot)
{
    return slot->region == ASIM_NO_INDEX ||
           asim_ledger_vacate(&engine->ledger, slot->region, slot->address, slot->size);
}

/* The block is on its way out before the policy hears of it, so that the policy may give the segment back to
 * the device at once; it comes back in if the policy keeps it pending. */
static inline asim_code do_free(asim_engine *engine, const asim_event *event, asim_err *err)
{
    if (UNLIKELY(event->id >= engine->slot_capacity))
        return fail_event(engine, event, ASIM_E_INPUT, err, "nothing lives there");
    asim_slot *slot = &engine->slots[event->id];
    if (UNLIKELY(slot->state != ASIM_SLOT_LIVE)) {
        if (slot->state != ASIM_SLOT_BLANK)
            return fail_event(engine, event, ASIM_E_INPUT, err, "nothing lives there");
        if (!(event->flags & ASIM_FREE_PENDING))
            slot->state = ASIM_SLOT_EMPTY;
        return ASIM_OK;
    }
    bool follows = event->flags & ASIM_FREE_PENDING;
    asim_books *books = &engine->books;
    engine->frees++;
    engine->clocks.host_ns += engine->profile.hit_ns;
    books->requested -= slot->requested;
    books->allocated -= slot->size;
    engine->rounded -= slot->rounded;
    books->live_blocks--;
    books->pending_blocks++;
    bool withheld = follows && !engine->policy->free_done;
    if (UNLIKELY(withheld)) {
        slot->state = ASIM_SLOT_WITHHELD; /* to the policy, and so to observers, it still lives */
        return ASIM_OK;
    }
    if (UNLIKELY(!vacate(engine, slot)))
        return fail_event(engine, event, ASIM_E_BUG, err, "the block's region is gone");
    asim_code code = ASIM_OK;
    asim_slot block = *slot;
    slot->state = follows ? ASIM_SLOT_PENDING : ASIM_SLOT_EMPTY;
    asim_free_result result = engine->policy->free(engine->state, block.word, follows);
    if (has_fault(engine))
        return fail_fault(engine, err);
    if (result == ASIM_FREED && !follows) {
        books->active -= block.size;
        books->pending_blocks--;
        asim_engine_mix(engine, ASIM_DIGEST_DONE, block.address, block.size);
        if (UNLIKELY(engine->observer_count))
            code = tell_freed(engine, &block, false, err);
        return code;
    }
    if (result != ASIM_FREE_LATER)
        return fail_broken(engine, event, err, "the policy's free failed, or did not wait");
    if (block.region != ASIM_NO_INDEX &&
        !asim_ledger_occupy(&engine->ledger, block.region, block.address, block.size))
        return fail_event(engine, event, ASIM_E_BUG, err, "the region of a pending block is gone");
    return engine->observer_count ? tell_freed(engine, &block, true, err) : ASIM_OK;
}

static asim_code do_free_done(asim_engine *engine, const asim_event *event, asim_err *err)
{
    asim_slot *slot = event->id < engine->slot_capacity ? &engine->slots[event->id] : NULL;
    if (slot && slot->state == ASIM_SLOT_BLANK) {
        slot->state = ASIM_SLOT_EMPTY;
        return ASIM_OK;
    }
    if (!slot || (slot->state != ASIM_SLOT_PENDING && slot->state != ASIM_SLOT_WITHHELD))
        return fail_event(engine, event, ASIM_E_INPUT, err, "no free is pending there");
    bool withheld = slot->state == ASIM_SLOT_WITHHELD;
    asim_slot block = *slot;
    slot->state = ASIM_SLOT_EMPTY;
    if (!vacate(engine, &block))
        return fail_event(engine, event, ASIM_E_BUG, err, "the region of a pending block is gone");
    asim_free_result result = withheld ? engine->policy->free(engine->state, block.word, false)
                                       : engine->policy->free_done(engine->state, block.word);
    if (has_fault(engine))
        return fail_fault(engine, err);
    if (result != ASIM_FREED)
        return fail_broken(engine, event, err, "the policy did not complete the free");
    engine->books.active -= block.size;
    engine->books.pending_blocks--;
    asim_engine_mix(engine, ASIM_DIGEST_DONE, block.address, block.size);
    if (withheld)
        return tell_freed(engine, &block, false, err);
    if (UNLIKELY(block.size == 0)) /* scattered: its pieces were told */
        return ASIM_OK;
    for (uint32_t i = 0; i < engine->observer_count; i++) {
        const asim_observer *observer = engine->observers[i].observer;
        asim_code code = observer->completed
                             ? observer->completed(engine->observers[i].state, block.address, block.size, err)
                             : ASIM_OK;
        if (code)
            return code;
    }
    return ASIM_OK;
}

/* Allocate, copy, free, as a growing contiguous cache does. The old block waits aside meanwhile, where a
 * policy that moves blocks may still move it. */
static asim_code replace_block(asim_engine *engine, const asim_event *event, asim_alloc_result *ret_result,
                               asim_placement *ret_placement, asim_err *err)
{
    asim_slot *slot = &engine->slots[event->id];
    engine->replaced = *slot;
    const uint32_t word = slot->word;
    asim_event request = {.kind = ASIM_EV_ALLOC, .lane = slot->lane, .id = event->id, .size = event->size};
    asim_event release = {.kind = ASIM_EV_FREE, .lane = slot->lane, .id = event->id};
    slot->state = ASIM_SLOT_EMPTY;
    if (engine->moves)
        engine->slot_of_word[word] = ASIM_NO_INDEX;
    asim_code code = do_alloc(engine, &request, ASIM_NO_ADDRESS, ret_result, ret_placement, err);
    const asim_slot fresh = engine->slots[event->id], old = engine->replaced;
    engine->slots[event->id] = old;
    engine->replaced.state = ASIM_SLOT_EMPTY;
    if (engine->moves)
        engine->slot_of_word[word] = event->id;
    engine->allocs--;
    if (code || *ret_result == ASIM_REFUSED)
        return code; /* the old block stays as it is */
    if (*ret_result == ASIM_PLACED) {
        uint64_t kept = old.requested < event->size ? old.requested : event->size;
        asim_device device = asim_ledger_table(&engine->ledger);
        device.ops->copy(device.ctx, engine->trace->lanes[old.lane].device, fresh.address, old.address, kept);
        engine->moved_bytes += kept;
    }
    code = do_free(engine, &release, err);
    engine->frees--;
    engine->slots[event->id] = fresh;
    if (engine->moves && *ret_result == ASIM_PLACED)
        engine->slot_of_word[fresh.word] = event->id;
    return code;
}

static asim_code do_resize(asim_engine *engine, const asim_event *event, asim_alloc_result *ret_result,
                           asim_placement *ret_placement, asim_err *err)
{
    asim_slot *slot = event->id < engine->slot_capacity ? &engine->slots[event->id] : NULL;
    if (slot && slot->state == ASIM_SLOT_BLANK)
        return ASIM_OK;
    if (!slot || slot->state != ASIM_SLOT_LIVE)
        return fail_event(engine, event, ASIM_E_INPUT, err, "nothing lives there");
    if (!engine->policy->resize)
        return replace_block(engine, event, ret_result, ret_placement, err);
    asim_books *books = &engine->books;
    const asim_slot old = *slot;
    engine->lane = old.lane;
    if (!vacate(engine, slot))
        return fail_event(engine, event, ASIM_E_BUG, err, "the block's region is gone");
    asim_placement placement;
    asim_alloc_result result = engine->policy->resize(engine->state, old.word, event, &placement);
    if (has_fault(engine))
        return fail_fault(engine, err);
    if (result == ASIM_BROKEN)
        return fail_broken(engine, event, err, "the policy reports that its state is broken");
    if (result != ASIM_PLACED) {
        if (old.region != ASIM_NO_INDEX &&
            !asim_ledger_occupy(&engine->ledger, old.region, old.address, old.size))
            return fail_event(engine, event, ASIM_E_BUG, err, "the block's region is gone");
        if (result == ASIM_NOTHING)
            return replace_block(engine, event, ret_result, ret_placement, err);
        *ret_result = result;
        asim_engine_mix(engine, ASIM_DIGEST_REFUSED, event->size, event->id);
        return note_refusal(engine, &(asim_event){.kind = event->kind, .lane = old.lane, .size = event->size},
                            err);
    }
    books->requested -= old.requested;
    books->allocated -= old.size;
    books->active -= old.size;
    books->live_blocks--;
    engine->rounded -= old.rounded;
    asim_code code = engine->observer_count ? tell_freed(engine, &old, false, err) : ASIM_OK;
    const asim_event grown = {.kind = ASIM_EV_ALLOC, .lane = old.lane, .id = event->id, .size = event->size};
    if (!code)
        code = enter_block(engine, &grown, &placement, err);
    if (code)
        return code;
    asim_engine_mix(engine, ASIM_DIGEST_PLACED, placement.address, placement.size);
    note_peaks(engine);
    *ret_result = result;
    *ret_placement = placement;
    return engine->observer_count && placement.size ? tell_placed(engine, &grown, &placement, err) : ASIM_OK;
}

/* --- the rest --- */

static double bits_to_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static asim_code policy_event(asim_engine *engine, const asim_event *event, asim_err *err)
{
    const asim_policy *policy = engine->policy;
    asim_policy_state *state = engine->state;
    const asim_trace *trace = engine->trace;
    switch (event->kind) {
    case ASIM_EV_USE:
    case ASIM_EV_ACCESS:
    case ASIM_EV_PREFIX: {
        asim_slot *slot = event->id < engine->slot_capacity ? &engine->slots[event->id] : NULL;
        if (!slot || slot->state == ASIM_SLOT_EMPTY)
            return fail_event(engine, event, ASIM_E_INPUT, err, "nothing lives there");
        if (slot->state != ASIM_SLOT_LIVE)
            return ASIM_OK;
        if (event->kind == ASIM_EV_USE && policy->use)
            policy->use(state, slot->word, event->lane);
        else if (event->kind == ASIM_EV_ACCESS && policy->access)
            policy->access(state, slot->word, event);
        else if (event->kind == ASIM_EV_PREFIX && policy->prefix)
            policy->prefix(state, slot->word, event);
        return ASIM_OK;
    }
    case ASIM_EV_KERNEL:
        asim_device_model_kernel(engine->model, event->lane, event->size);
        return ASIM_OK;
    case ASIM_EV_SYNC:
        asim_device_model_sync(engine->model, (asim_sync_scope)event->id, event->lane);
        return policy->sync ? policy->sync(state, event, err) : ASIM_OK;
    case ASIM_EV_TRIM:
        return policy->trim ? policy->trim(state, event, err) : ASIM_OK;
    case ASIM_EV_POOL_RETAIN:
    case ASIM_EV_POOL_BEGIN:
    case ASIM_EV_POOL_JOIN:
    case ASIM_EV_POOL_END:
    case ASIM_EV_POOL_RELEASE:
    case ASIM_EV_POOL_ENTER:
    case ASIM_EV_POOL_LEAVE:
        return policy->pool ? policy->pool(state, event, err) : ASIM_OK;
    case ASIM_EV_SETTINGS:
        return policy->settings ? policy->settings(state, trace->strings[event->id].text, err) : ASIM_OK;
    case ASIM_EV_FRACTION:
        return policy->fraction ? policy->fraction(state, trace->lanes[event->lane].device,
                                                   bits_to_double(event->size), err)
                                : ASIM_OK;
    case ASIM_EV_STATS_RESET:
        if (policy->reset_stats)
            policy->reset_stats(state, trace->lanes[event->lane].device, event->id == 0);
        return ASIM_OK;
    case ASIM_EV_MARK:
        return policy->mark ? policy->mark(state, event, trace->strings[event->id].text, err) : ASIM_OK;
    default:
        return ASIM_OK;
    }
}

/* Options and pools that the policy refuses stand in the trace: it is at fault, not the command line. */
static asim_code refuse_event(const asim_engine *engine, const asim_event *event, asim_code code,
                              asim_err *err)
{
    const char *kind = asim_event_kind_name(event->kind);
    if (code == ASIM_E_USAGE)
        code = ASIM_E_INPUT;
    if (err) {
        err->code = code;
        if (strncmp(err->message, "event ", strlen("event ")) != 0)
            asim_err_context(err, "event %" PRIu64 " (%s)", engine->books.event, kind ? kind : "unknown");
    }
    return code;
}

static inline asim_code dispatch(asim_engine *engine, const asim_event *event, uint64_t recorded,
                                 asim_alloc_result *ret_result, asim_placement *ret_placement, asim_err *err)
{
    switch (event->kind) {
    case ASIM_EV_ALLOC:
        return do_alloc(engine, event, recorded, ret_result, ret_placement, err);
    case ASIM_EV_FREE:
        return do_free(engine, event, err);
    case ASIM_EV_FREE_DONE:
        return do_free_done(engine, event, err);
    case ASIM_EV_RESIZE:
        return do_resize(engine, event, ret_result, ret_placement, err);
    default: {
        asim_code code = policy_event(engine, event, err);
        return code                ? refuse_event(engine, event, code, err)
               : has_fault(engine) ? fail_fault(engine, err)
                                   : ASIM_OK;
    }
    }
}

/* Metrics that change with any event. weight: of the state that held until now. */
static inline void settle(asim_engine *engine)
{
    uint64_t free_bytes = asim_books_free(&engine->books);
    uint64_t largest = engine->counters.largest_free_bytes;
    if (free_bytes != engine->frag_free || largest != engine->frag_largest) {
        engine->frag_free = free_bytes;
        engine->frag_largest = largest;
        engine->frag_ppm = asim_gap_ppm(largest, free_bytes);
        engine->max_frag_ppm = asim_max(engine->max_frag_ppm, engine->frag_ppm);
    }
    engine->peak_pinned = asim_max(engine->peak_pinned, engine->ledger.pinned);
}

static asim_code tell_after(asim_engine *engine, const asim_event *event, asim_err *err)
{
    engine->books.host_ns = engine->clocks.host_ns;
    engine->books.stall_ns = engine->clocks.stall_ns;
    for (uint32_t i = 0; i < engine->observer_count; i++) {
        const asim_observer *observer = engine->observers[i].observer;
        asim_code code = observer->after ? observer->after(engine->observers[i].state, event, &engine->books,
                                                           &engine->counters, err)
                                         : ASIM_OK;
        if (code)
            return code;
    }
    if (engine->config.check != ASIM_CHECK_FULL)
        return ASIM_OK;
    return asim_referee_full(&engine->referee, engine->policy, engine->state, &engine->counters,
                             engine->books.reserved, err);
}

static inline asim_code one_event(asim_engine *engine, const asim_event *event, uint64_t recorded,
                                  asim_alloc_result *ret_result, asim_placement *ret_placement, asim_err *err)
{
    asim_code code = dispatch(engine, event, recorded, ret_result, ret_placement, err);
    if (UNLIKELY(code))
        return code;
    settle(engine);
    if (UNLIKELY(engine->observer_count) && (code = tell_after(engine, event, err)))
        return asim_err_context(err, "after event %" PRIu64, engine->books.event), code;
    engine->events++;
    return ASIM_OK;
}

/* A recorded call of this event that was not made ends the script. */
static void end_script_event(asim_engine *engine, uint64_t event)
{
    const asim_recorded_call *missed = asim_script_peek(&engine->script);
    if (!missed)
        return;
    engine->script.active = false;
    asim_engine_note_mismatch(engine, &(asim_mismatch){.event = event,
                                                       .size = missed->size,
                                                       .recorded_address = missed->address,
                                                       .address = ASIM_NO_ADDRESS,
                                                       .lane = missed->lane,
                                                       .is_call = true,
                                                       .recorded_kind = missed->kind,
                                                       .kind = ASIM_NO_INDEX});
}

asim_code asim_engine_run(asim_engine *engine, asim_err *err)
{
    enum {
        PROGRESS_EVERY = 1 << 20
    };
    const asim_trace *trace = engine->trace;
    asim_alloc_result result;
    asim_placement placement;
    for (uint64_t i = 0; i < trace->event_count; i++) {
        engine->books.event = i;
        uint64_t weight = 1;
        if (trace->times_ns) {
            weight = trace->times_ns[i] - engine->last_time_ns;
            engine->last_time_ns = trace->times_ns[i];
            engine->clocks.host_ns = asim_max(engine->clocks.host_ns, trace->times_ns[i]);
        }
        engine->frag_weighted += (unsigned __int128)engine->frag_ppm * weight;
        engine->frag_weight += weight;
        engine->script.event = i;
        uint64_t recorded = trace->recorded_addresses ? trace->recorded_addresses[i] : ASIM_NO_ADDRESS;
        asim_code code = one_event(engine, &trace->events[i], recorded, &result, &placement, err);
        if (UNLIKELY(code))
            return code;
        if (UNLIKELY(engine->script.active))
            end_script_event(engine, i);
        if (UNLIKELY(engine->ooms) && engine->config.stop_at_oom)
            break;
        if (UNLIKELY(i % PROGRESS_EVERY == PROGRESS_EVERY - 1) && engine->config.progress &&
            engine->config.progress(engine->config.ctx, i + 1))
            return asim_fail(err, ASIM_E_SYSTEM, "stopped after event %" PRIu64, i);
    }
    if (engine->config.progress)
        engine->config.progress(engine->config.ctx, trace->event_count);
    return ASIM_OK;
}

asim_code asim_engine_step(asim_engine *engine, const asim_event *event, asim_alloc_result *ret_result,
                           asim_placement *ret_placement, asim_err *err)
{
    asim_alloc_result result = ASIM_NOTHING;
    asim_placement placement = {.address = ASIM_NO_ADDRESS};
    bool names_string = event->kind == ASIM_EV_SETTINGS || event->kind == ASIM_EV_MARK;
    bool may_be_all = event->kind == ASIM_EV_TRIM || names_string ||
                      (event->kind == ASIM_EV_SYNC && event->id == ASIM_SYNC_ALL);
    if (event->kind == ASIM_EV_NONE || event->kind >= ASIM_EV_KINDS ||
        (event->lane >= engine->trace->lane_count && !(event->lane == ASIM_LANE_ALL && may_be_all)) ||
        (event->kind == ASIM_EV_SYNC && event->id > ASIM_SYNC_ALL) ||
        (names_string && event->id >= engine->trace->string_count))
        return fail_event(engine, event, ASIM_E_INPUT, err, "unknown kind, lane or string");
    engine->books.event = engine->events;
    engine->frag_weighted += engine->frag_ppm;
    engine->frag_weight++;
    asim_code code = one_event(engine, event, ASIM_NO_ADDRESS, &result, &placement, err);
    if (code)
        return code;
    if (ret_result)
        *ret_result = result;
    if (ret_placement && result == ASIM_PLACED)
        *ret_placement = placement;
    return ASIM_OK;
}

/* --- the opening state --- */

asim_code asim_engine_opening_alloc(asim_engine *engine, const asim_event *event, bool pending, asim_err *err)
{
    asim_alloc_result result;
    asim_placement placement;
    asim_code code = do_alloc(engine, event, ASIM_NO_ADDRESS, &result, &placement, err);
    if (code || !pending)
        return code;
    asim_event release = {
        .kind = ASIM_EV_FREE, .flags = ASIM_FREE_PENDING, .lane = event->lane, .id = event->id};
    return do_free(engine, &release, err);
}

asim_code asim_engine_opening_adopt(asim_engine *engine, const asim_opening_block *block, unsigned lane,
                                    const asim_placement *placement, asim_err *err)
{
    asim_event event = {.kind = ASIM_EV_ALLOC, .lane = (uint16_t)lane, .id = block->id};
    event.size = block->requested;
    if (block->id >= engine->slot_capacity || engine->slots[block->id].state != ASIM_SLOT_EMPTY)
        return fail_event(engine, &event, ASIM_E_INPUT, err, "the opening state uses a slot twice");
    asim_code code = enter_block(engine, &event, placement, err);
    if (!code && engine->observer_count)
        code = tell_placed(engine, &event, placement, err);
    if (code || block->state != ASIM_BLOCK_PENDING)
        return code;
    asim_slot *slot = &engine->slots[block->id];
    engine->books.requested -= slot->requested;
    engine->books.allocated -= slot->size;
    engine->rounded -= slot->rounded;
    engine->books.live_blocks--;
    engine->books.pending_blocks++;
    slot->state = ASIM_SLOT_PENDING;
    return engine->observer_count ? tell_freed(engine, slot, true, err) : ASIM_OK;
}
