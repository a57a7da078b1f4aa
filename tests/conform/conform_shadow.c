#include "tests/conform/conform_shadow.h"

#include <inttypes.h>
#include <string.h>

struct asim_observer_state {
    conform_shadow *shadow;
};

static asim_code shadow_init(asim_observer_state *state, const void *config, const asim_hostmem *mem,
                             asim_err *err)
{
    (void)mem, (void)err;
    memcpy(&state->shadow, config, sizeof state->shadow);
    return ASIM_OK;
}

static bool touch(const conform_piece *a, uint64_t address, uint64_t size)
{
    return a->address < address + size && address < a->address + a->size;
}

/* Bytes of [address, address + size) that are held in the region. Held pieces don't overlap. */
static uint64_t held_bytes(const conform_shadow *shadow, uint64_t address, uint64_t size, uint32_t region)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < shadow->held_count; i++) {
        const conform_piece *piece = &shadow->held[i];
        if (piece->region != region || !touch(piece, address, size))
            continue;
        uint64_t low = piece->address > address ? piece->address : address;
        uint64_t high =
            piece->address + piece->size < address + size ? piece->address + piece->size : address + size;
        sum += high - low;
    }
    return sum;
}

static asim_code shadow_placed(asim_observer_state *state, const asim_event *event,
                               const asim_placement *placement, asim_err *err)
{
    conform_shadow *shadow = state->shadow;
    const uint64_t address = placement->address, size = placement->size;
    shadow->placed++;
    shadow->scattered |= event->id == ASIM_NO_INDEX;
    if (size < event->size || size == 0)
        return asim_fail(err, ASIM_E_BUG, "shadow: %" PRIu64 " bytes for a request of %" PRIu64, size,
                         event->size);
    if (placement->region != ASIM_NO_INDEX && held_bytes(shadow, address, size, placement->region) != size)
        return asim_fail(err, ASIM_E_BUG, "shadow: the block at %" PRIx64 " is not inside held memory",
                         address);
    for (size_t i = 0; i < shadow->block_count; i++)
        if (touch(&shadow->blocks[i], address, size))
            return asim_fail(err, ASIM_E_BUG, "shadow: blocks at %" PRIx64 " and %" PRIx64 " overlap",
                             address, shadow->blocks[i].address);
    if (shadow->block_count == CONFORM_BLOCKS)
        return asim_fail(err, ASIM_E_USAGE, "shadow: more than %d blocks", CONFORM_BLOCKS);
    shadow->blocks[shadow->block_count++] =
        (conform_piece){address, size, event->size, placement->region, false};
    return ASIM_OK;
}

static conform_piece *find_block(conform_shadow *shadow, uint64_t address, uint64_t size, bool pending)
{
    for (size_t i = 0; i < shadow->block_count; i++) {
        conform_piece *block = &shadow->blocks[i];
        if (block->address == address && block->size == size && block->pending == pending)
            return block;
    }
    return NULL;
}

static asim_code shadow_freed(asim_observer_state *state, uint64_t address, uint64_t size, bool pending,
                              asim_err *err)
{
    conform_shadow *shadow = state->shadow;
    conform_piece *block = find_block(shadow, address, size, false);
    if (!block)
        return asim_fail(err, ASIM_E_BUG, "shadow: no live block at %" PRIx64 " to free", address);
    if (pending)
        block->pending = true;
    else
        *block = shadow->blocks[--shadow->block_count];
    return ASIM_OK;
}

static asim_code shadow_completed(asim_observer_state *state, uint64_t address, uint64_t size, asim_err *err)
{
    conform_shadow *shadow = state->shadow;
    conform_piece *block = find_block(shadow, address, size, true);
    if (!block)
        return asim_fail(err, ASIM_E_BUG, "shadow: no pending block at %" PRIx64 " to complete", address);
    *block = shadow->blocks[--shadow->block_count];
    return ASIM_OK;
}

static asim_code take_held(conform_shadow *shadow, const asim_driver_call *call, asim_err *err)
{
    for (size_t i = 0; i < shadow->held_count; i++)
        if (touch(&shadow->held[i], call->address, call->size))
            return asim_fail(err, ASIM_E_BUG, "shadow: %" PRIx64 " is held twice", call->address);
    if (shadow->held_count == CONFORM_HELD)
        return asim_fail(err, ASIM_E_USAGE, "shadow: more than %d pieces of memory", CONFORM_HELD);
    shadow->held[shadow->held_count++] = (conform_piece){call->address, call->size, 0, call->region, false};
    return ASIM_OK;
}

static asim_code give_held(conform_shadow *shadow, const asim_driver_call *call, asim_err *err)
{
    const uint64_t address = call->address, end = call->address + call->size;
    if (held_bytes(shadow, address, call->size, call->region) != call->size)
        return asim_fail(err, ASIM_E_BUG, "shadow: %" PRIx64 " goes back but is not held", address);
    for (size_t i = shadow->held_count; i-- > 0;) {
        conform_piece piece = shadow->held[i];
        if (!touch(&piece, address, call->size))
            continue;
        shadow->held[i] = shadow->held[--shadow->held_count];
        if (shadow->held_count > CONFORM_HELD - 2)
            return asim_fail(err, ASIM_E_USAGE, "shadow: more than %d pieces of memory", CONFORM_HELD);
        if (piece.address < address)
            shadow->held[shadow->held_count++] =
                (conform_piece){piece.address, address - piece.address, 0, piece.region, false};
        if (piece.address + piece.size > end)
            shadow->held[shadow->held_count++] =
                (conform_piece){end, piece.address + piece.size - end, 0, piece.region, false};
    }
    return ASIM_OK;
}

static asim_code shadow_call(asim_observer_state *state, const asim_driver_call *call, asim_err *err)
{
    switch (call->kind) {
    case ASIM_CALL_SEGMENT_ALLOC:
    case ASIM_CALL_MAP:
        return take_held(state->shadow, call, err);
    case ASIM_CALL_SEGMENT_FREE:
    case ASIM_CALL_UNMAP:
        return give_held(state->shadow, call, err);
    case ASIM_CALL_OOM:
        state->shadow->refusals++;
        break;
    }
    return ASIM_OK;
}

static asim_code shadow_after(asim_observer_state *state, const asim_event *event, const asim_books *books,
                              const asim_policy_counters *counters, asim_err *err)
{
    const conform_shadow *shadow = state->shadow;
    uint64_t requested = 0, allocated = 0, active = 0, reserved = 0;
    (void)event;
    for (size_t i = 0; i < shadow->block_count; i++) {
        const conform_piece *block = &shadow->blocks[i];
        active += block->size;
        allocated += block->pending ? 0 : block->size;
        requested += block->pending ? 0 : block->requested;
        if (block->region != ASIM_NO_INDEX &&
            held_bytes(shadow, block->address, block->size, block->region) != block->size)
            return asim_fail(err, ASIM_E_BUG, "shadow: the memory of the block at %" PRIx64 " is gone",
                             block->address);
    }
    for (size_t i = 0; i < shadow->held_count; i++)
        reserved += shadow->held[i].size;
    if (active != books->active || reserved != books->reserved)
        return asim_fail(err, ASIM_E_BUG,
                         "shadow: %" PRIu64 " bytes active and %" PRIu64 " reserved, the books say %" PRIu64
                         " and %" PRIu64,
                         active, reserved, books->active, books->reserved);
    /* Pieces can be shared by several allocations, each of which counts what it asked for. A free that the
     * engine keeps back until its recorded completion is still live to observers. */
    if (allocated < books->allocated || (requested < books->requested && !shadow->scattered))
        return asim_fail(err, ASIM_E_BUG, "shadow: %" PRIu64 " bytes allocated, the books say %" PRIu64,
                         allocated, books->allocated);
    if (reserved && counters->largest_free_bytes > reserved - active)
        return asim_fail(err, ASIM_E_BUG,
                         "shadow: %" PRIu64
                         " bytes are free, the largest free block is said to have %" PRIu64,
                         reserved - active, counters->largest_free_bytes);
    return ASIM_OK;
}

const asim_observer conform_shadow_observer = {
    .name = "shadow",
    .state_size = sizeof(asim_observer_state),
    .init = shadow_init,
    .placed = shadow_placed,
    .freed = shadow_freed,
    .completed = shadow_completed,
    .call = shadow_call,
    .after = shadow_after,
};
