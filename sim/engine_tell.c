/* What the policy and the device tell while an operation runs: into the books, the digest and the observers.
 */
#include "sim/engine_state.h"

#include <inttypes.h>

void asim_engine_free_done(void *ctx, uint64_t address, uint64_t size, uint64_t requested)
{
    asim_engine *engine = ctx;
    (void)requested;
    uint32_t region = asim_ledger_region_at(&engine->ledger, address);
    if (engine->fault.code)
        return;
    if (engine->books.pending_blocks == 0 || size > engine->books.active - engine->books.allocated ||
        (size && region != ASIM_NO_INDEX && !asim_ledger_vacate(&engine->ledger, region, address, size))) {
        asim_fail(&engine->fault, ASIM_E_BUG,
                  "policy %s completed the free of %" PRIu64 " bytes at 0x%" PRIx64
                  ", which is not pending there",
                  engine->policy->name, size, address);
        return;
    }
    engine->books.active -= size;
    engine->books.pending_blocks--;
    asim_engine_mix(engine, ASIM_DIGEST_DONE, address, size);
    if (size == 0) /* scattered: its pieces are told */
        return;
    for (uint32_t i = 0; i < engine->observer_count && !engine->fault.code; i++)
        if (engine->observers[i].observer->completed)
            engine->observers[i].observer->completed(engine->observers[i].state, address, size,
                                                     &engine->fault);
}

void asim_engine_refusal(void *ctx, unsigned device, uint64_t rounded, uint64_t segment_bytes,
                         uint64_t device_free)
{
    asim_engine *engine = ctx;
    engine->refused_segment_bytes = segment_bytes;
    engine->refused_device_free = device_free;
    asim_ledger_refusal(&engine->ledger, device, rounded, device_free);
}

void asim_engine_note_mismatch(asim_engine *engine, const asim_mismatch *mismatch)
{
    if (!engine->has_mismatch) {
        engine->has_mismatch = true;
        engine->mismatch = *mismatch;
    }
}

void asim_engine_call(void *ctx, const asim_driver_call *call)
{
    asim_engine *engine = ctx;
    if (engine->in_run) {
        asim_engine_mix(engine, ASIM_DIGEST_CALL, call->address ^ (uint64_t)call->kind << 56, call->size);
        engine->peak_reserved = asim_max(engine->peak_reserved, engine->books.reserved);
        if (engine->compare && !engine->script.active && !engine->has_mismatch) {
            const asim_recorded_call *recorded =
                engine->script.next < engine->script.count &&
                        engine->script.calls[engine->script.next].event == engine->books.event
                    ? &engine->script.calls[engine->script.next]
                    : NULL;
            asim_engine_note_mismatch(engine,
                                      &(asim_mismatch){
                                          .event = engine->books.event,
                                          .size = call->size,
                                          .recorded_address = recorded ? recorded->address : ASIM_NO_ADDRESS,
                                          .address = call->address,
                                          .lane = call->lane,
                                          .is_call = true,
                                          .recorded_kind = recorded ? recorded->kind : ASIM_NO_INDEX,
                                          .kind = call->kind,
                                      });
        }
    }
    for (uint32_t i = 0; i < engine->observer_count && !engine->fault.code; i++)
        if (engine->observers[i].observer->call)
            engine->observers[i].observer->call(engine->observers[i].state, call, &engine->fault);
}

/* --- moves and pieces --- */

static asim_code tell_gone(asim_engine *engine, uint64_t address, uint64_t size)
{
    for (uint32_t i = 0; i < engine->observer_count && !engine->fault.code; i++)
        if (engine->observers[i].observer->freed)
            engine->observers[i].observer->freed(engine->observers[i].state, address, size, false,
                                                 &engine->fault);
    return engine->fault.code;
}

static asim_code tell_there(asim_engine *engine, const asim_event *event, const asim_placement *placement)
{
    for (uint32_t i = 0; i < engine->observer_count && !engine->fault.code; i++)
        if (engine->observers[i].observer->placed)
            engine->observers[i].observer->placed(engine->observers[i].state, event, placement,
                                                  &engine->fault);
    return engine->fault.code;
}

void asim_engine_moved(void *ctx, uint32_t word, uint32_t region, uint64_t address)
{
    asim_engine *engine = ctx;
    if (engine->fault.code)
        return;
    uint32_t id = engine->moves && word < engine->word_capacity ? engine->slot_of_word[word] : ASIM_NO_INDEX;
    asim_slot *slot = &engine->replaced;
    if (engine->moves && word < engine->word_capacity && id < engine->slot_capacity)
        slot = &engine->slots[id];
    if ((slot->state != ASIM_SLOT_LIVE && slot->state != ASIM_SLOT_WITHHELD) || slot->word != word) {
        asim_fail(&engine->fault, ASIM_E_BUG, "policy %s moved the block %" PRIu32 ", which does not live",
                  engine->policy->name, word);
        return;
    }
    if (!asim_ledger_vacate(&engine->ledger, slot->region, slot->address, slot->size) ||
        !asim_ledger_occupy(&engine->ledger, region, address, slot->size)) {
        asim_fail(&engine->fault, ASIM_E_BUG,
                  "policy %s moved a block of %" PRIu64 " bytes from 0x%" PRIx64 " to 0x%" PRIx64
                  ", outside of memory that is held from the device",
                  engine->policy->name, slot->size, slot->address, address);
        return;
    }
    asim_engine_mix(engine, ASIM_DIGEST_MOVED, slot->address, address);
    engine->moved_bytes += slot->size;
    if (tell_gone(engine, slot->address, slot->size))
        return;
    slot->address = address;
    slot->region = region;
    tell_there(engine,
               &(asim_event){.kind = ASIM_EV_ALLOC, .lane = slot->lane, .id = id, .size = slot->requested},
               &(asim_placement){address, slot->size, slot->rounded, region, word});
}

void asim_engine_pause(void *ctx, bool begins)
{
    asim_engine *engine = ctx;
    if (begins) {
        engine->pause_began_ns = engine->clocks.host_ns;
        return;
    }
    uint64_t pause = engine->clocks.host_ns - engine->pause_began_ns;
    engine->compactions++;
    engine->pause_ns += pause;
    engine->max_pause_ns = asim_max(engine->max_pause_ns, pause);
}

void asim_engine_piece(void *ctx, uint32_t region, uint64_t address, uint64_t size, bool taken)
{
    asim_engine *engine = ctx;
    asim_books *books = &engine->books;
    if (engine->fault.code)
        return;
    if (!(engine->policy->flags & ASIM_POLICY_SCATTERS) || (!taken && size > books->allocated) ||
        !(taken ? asim_ledger_occupy : asim_ledger_vacate)(&engine->ledger, region, address, size)) {
        asim_fail(&engine->fault, ASIM_E_BUG,
                  "policy %s %s a piece of %" PRIu64 " bytes at 0x%" PRIx64 ", which is not there",
                  engine->policy->name, taken ? "took" : "gave back", size, address);
        return;
    }
    asim_engine_mix(engine, taken ? ASIM_DIGEST_PLACED : ASIM_DIGEST_DONE, address, size);
    if (!taken) {
        books->allocated -= size;
        books->active -= size;
        tell_gone(engine, address, size);
        return;
    }
    books->allocated += size;
    books->active += size;
    engine->peak_allocated = asim_max(engine->peak_allocated, books->allocated);
    engine->peak_active = asim_max(engine->peak_active, books->active);
    tell_there(engine,
               &(asim_event){.kind = ASIM_EV_ALLOC, .lane = engine->lane, .id = ASIM_NO_INDEX, .size = size},
               &(asim_placement){address, size, size, region, ASIM_NO_INDEX});
}
