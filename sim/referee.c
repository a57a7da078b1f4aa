#include "sim/referee.h"

#include <inttypes.h>
#include <string.h>

struct asim_observer_state {
    asim_referee *referee;
};

void asim_referee_init(asim_referee *referee, const asim_hostmem *mem)
{
    asim_intervals_init(&referee->held, mem);
    asim_intervals_init(&referee->blocks, mem);
    asim_intervals_init(&referee->leaving, mem);
}

void asim_referee_fini(asim_referee *referee)
{
    asim_intervals_fini(&referee->held);
    asim_intervals_fini(&referee->blocks);
    asim_intervals_fini(&referee->leaving);
}

static asim_code referee_init(asim_observer_state *state, const void *config, const asim_hostmem *mem,
                              asim_err *err)
{
    (void)mem;
    (void)err;
    union {
        const void *from;
        asim_referee *to;
    } given = {config}; /* the config is ours to change: it is this observer's own object */
    state->referee = given.to;
    return ASIM_OK;
}

/* Whether [start, end) is held, all of it in one region (several mapped ranges may make it up). */
static bool is_held(const asim_referee *referee, uint64_t start, uint64_t end, uint32_t region)
{
    while (start < end) {
        const asim_interval *held = asim_intervals_find(&referee->held, start);
        if (!held || held->start > start || held->value != region)
            return false;
        start = held->end;
    }
    return true;
}

static asim_code referee_placed(asim_observer_state *state, const asim_event *event,
                                const asim_placement *placement, asim_err *err)
{
    asim_referee *referee = state->referee;
    if (placement->size == 0 || placement->size < event->size || placement->rounded < event->size ||
        placement->rounded > placement->size)
        return asim_fail(err, ASIM_E_BUG,
                         "a request of %" PRIu64 " bytes, rounded to %" PRIu64 ", got a block of %" PRIu64,
                         event->size, placement->rounded, placement->size);
    uint64_t end = placement->address + placement->size;
    if (placement->region != ASIM_NO_INDEX &&
        (end < placement->address || !is_held(referee, placement->address, end, placement->region)))
        return asim_fail(err, ASIM_E_BUG,
                         "a block at 0x%" PRIx64 " of %" PRIu64
                         " bytes lies outside of the memory held in region %" PRIu32,
                         placement->address, placement->size, placement->region);
    if (asim_intervals_add(&referee->blocks, (asim_interval){placement->address, end, 0}, err))
        return asim_err_context(err, "two blocks at once");
    return ASIM_OK;
}

static asim_code take_block(asim_referee *referee, uint64_t address, uint64_t size, uint32_t value,
                            const char *what, asim_err *err)
{
    const asim_interval *block = asim_intervals_find(&referee->blocks, address);
    if (!block || block->start != address || block->value != value)
        return asim_fail(err, ASIM_E_BUG, "%s at 0x%" PRIx64 ", where no such block is %s", what, address,
                         value ? "pending" : "live");
    if (block->end - block->start != size)
        return asim_fail(err, ASIM_E_BUG,
                         "%s at 0x%" PRIx64 " of %" PRIu64 " bytes, but the block has %" PRIu64, what,
                         address, size, block->end - block->start);
    asim_intervals_remove(&referee->blocks, address);
    return ASIM_OK;
}

static asim_code referee_freed(asim_observer_state *state, uint64_t address, uint64_t size, bool pending,
                               asim_err *err)
{
    asim_code code = take_block(state->referee, address, size, 0, "a free", err);
    if (!code && pending)
        code = asim_intervals_add(&state->referee->blocks, (asim_interval){address, address + size, 1}, err);
    return code;
}

static asim_code referee_completed(asim_observer_state *state, uint64_t address, uint64_t size, asim_err *err)
{
    return take_block(state->referee, address, size, 1, "a completed free", err);
}

/* Remembers the blocks in memory that goes back: a policy may give a segment back inside the very free that
 * empties it, so they may still be here, but not at the event's end. */
static asim_code note_blocks(asim_referee *referee, uint64_t start, uint64_t end, asim_err *err)
{
    while (start < end) {
        const asim_interval *block = asim_intervals_find(&referee->blocks, start);
        if (!block || block->start >= end)
            break;
        const asim_interval *noted = asim_intervals_find(&referee->leaving, block->start);
        if (!noted || noted->start > block->start) {
            asim_code code = asim_intervals_add(&referee->leaving, *block, err);
            if (code)
                return code;
        }
        start = block->end;
    }
    return ASIM_OK;
}

/* Takes [start, end) out of what is held; it may be part of several intervals of one region. */
static asim_code give_back(asim_referee *referee, uint64_t start, uint64_t end, uint32_t region,
                           asim_err *err)
{
    asim_code code = note_blocks(referee, start, end, err);
    if (code)
        return code;
    if (!is_held(referee, start, end, region))
        return asim_fail(err, ASIM_E_BUG,
                         "0x%" PRIx64 " to 0x%" PRIx64 " went back to the device but was not held", start,
                         end);
    while (start < end) {
        asim_interval held = *asim_intervals_find(&referee->held, start);
        asim_intervals_remove(&referee->held, held.start);
        if (held.start < start)
            code = asim_intervals_add(&referee->held, (asim_interval){held.start, start, region}, err);
        if (!code && held.end > end)
            code = asim_intervals_add(&referee->held, (asim_interval){end, held.end, region}, err);
        if (code)
            return code;
        start = held.end;
    }
    return ASIM_OK;
}

static asim_code referee_call(asim_observer_state *state, const asim_driver_call *call, asim_err *err)
{
    uint64_t end = call->address + call->size;
    switch (call->kind) {
    case ASIM_CALL_SEGMENT_ALLOC:
    case ASIM_CALL_MAP:
        if (asim_intervals_add(&state->referee->held, (asim_interval){call->address, end, call->region}, err))
            return asim_err_context(err, "memory obtained twice");
        return ASIM_OK;
    case ASIM_CALL_SEGMENT_FREE:
    case ASIM_CALL_UNMAP:
        return give_back(state->referee, call->address, end, call->region, err);
    case ASIM_CALL_OOM:
        break;
    }
    return ASIM_OK;
}

static asim_code referee_after(asim_observer_state *state, const asim_event *event, const asim_books *books,
                               const asim_policy_counters *counters, asim_err *err)
{
    asim_referee *referee = state->referee;
    (void)event;
    (void)books;
    (void)counters;
    while (referee->leaving.count) {
        const asim_interval left = *asim_intervals_find(&referee->leaving, 0);
        const asim_interval *block = asim_intervals_find(&referee->blocks, left.start);
        if (block && block->start < left.end)
            return asim_fail(err, ASIM_E_BUG,
                             "memory went back to the device with a block inside, at 0x%" PRIx64, left.start);
        asim_intervals_remove(&referee->leaving, left.start);
    }
    return ASIM_OK;
}

const asim_observer asim_referee_observer = {
    .name = "referee",
    .state_size = sizeof(asim_observer_state),
    .init = referee_init,
    .placed = referee_placed,
    .freed = referee_freed,
    .completed = referee_completed,
    .call = referee_call,
    .after = referee_after,
};

/* --- the policy's walk against what was seen --- */

typedef struct walk_check {
    const asim_referee *referee;
    asim_err *err;
    asim_code code;
    asim_walk_segment segment;
    uint64_t position; /* where the segment's next block must begin */
    uint64_t held, largest_free;
    size_t blocks;
    bool begun;
} walk_check;

static void finish_segment(walk_check *check)
{
    if (check->begun && !check->code && check->position != check->segment.address + check->segment.size)
        check->code = asim_fail(check->err, ASIM_E_BUG,
                                "walk: the blocks of the segment at 0x%" PRIx64 " do not fill it",
                                check->segment.address);
}

static void walked_segment(void *ctx, const asim_walk_segment *segment)
{
    walk_check *check = ctx;
    finish_segment(check);
    if (check->code)
        return;
    if (check->begun && (segment->device < check->segment.device ||
                         (segment->device == check->segment.device &&
                          segment->address < check->segment.address + check->segment.size)))
        check->code = asim_fail(check->err, ASIM_E_BUG, "walk: the segment at 0x%" PRIx64 " is out of order",
                                segment->address);
    else if (!is_held(check->referee, segment->address, segment->address + segment->size, segment->region))
        check->code =
            asim_fail(check->err, ASIM_E_BUG,
                      "walk: the segment at 0x%" PRIx64 " is not held from the device", segment->address);
    check->segment = *segment;
    check->position = segment->address;
    check->held += segment->size;
    check->begun = true;
}

static void walked_block(void *ctx, const asim_walk_block *block)
{
    walk_check *check = ctx;
    if (check->code)
        return;
    if (!check->begun || block->address != check->position || block->size == 0) {
        check->code =
            asim_fail(check->err, ASIM_E_BUG, "walk: the block at 0x%" PRIx64 " should begin at 0x%" PRIx64,
                      block->address, check->position);
        return;
    }
    check->position += block->size;
    const asim_interval *seen = asim_intervals_find(&check->referee->blocks, block->address);
    if (block->state == ASIM_BLOCK_FREE) {
        if (seen && seen->start < check->position)
            check->code =
                asim_fail(check->err, ASIM_E_BUG,
                          "walk: the block at 0x%" PRIx64 " is called free but is not", block->address);
        if (block->size > check->largest_free)
            check->largest_free = block->size;
        return;
    }
    check->blocks++;
    if (!seen || seen->start != block->address || seen->end != check->position ||
        seen->value != (block->state == ASIM_BLOCK_PENDING))
        check->code = asim_fail(
            check->err, ASIM_E_BUG,
            "walk: the block at 0x%" PRIx64 " of %" PRIu64 " bytes is not one that was placed and is %s",
            block->address, block->size, block->state == ASIM_BLOCK_PENDING ? "pending" : "live");
}

asim_code asim_referee_full(const asim_referee *referee, const asim_policy *policy,
                            const asim_policy_state *state, const asim_policy_counters *counters,
                            uint64_t reserved_bytes, asim_err *err)
{
    asim_code code = policy->check(state, err);
    if (code)
        return asim_err_context(err, "the check of policy %s", policy->name);
    if (policy->flags & ASIM_POLICY_REFERENCE)
        return ASIM_OK;
    walk_check check = {.referee = referee, .err = err};
    asim_walker walker = {walked_segment, walked_block, &check};
    policy->walk(state, &walker);
    finish_segment(&check);
    if (check.code)
        return check.code;
    if (check.blocks != referee->blocks.count)
        return asim_fail(err, ASIM_E_BUG, "walk: %zu blocks are live or pending, %zu were shown",
                         referee->blocks.count, check.blocks);
    if (check.held != reserved_bytes)
        return asim_fail(err, ASIM_E_BUG, "walk: %" PRIu64 " bytes are held, %" PRIu64 " were shown",
                         reserved_bytes, check.held);
    if (check.largest_free != counters->largest_free_bytes)
        return asim_fail(err, ASIM_E_BUG,
                         "the largest free block has %" PRIu64 " bytes, the policy says %" PRIu64,
                         check.largest_free, counters->largest_free_bytes);
    return ASIM_OK;
}
