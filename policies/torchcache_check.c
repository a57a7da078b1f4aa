/* Every invariant of a torchcache run, in one pass over segments and sets. */
#include "policies/torchcache_blocks.h"

#include <inttypes.h>
#include <string.h>

typedef struct tally { /* of one device, [0] small, [1] large */
    uint64_t live[2], live_bytes[2], active[2], active_bytes[2], requested[2];
    uint64_t segments[2], reserved[2], split[2], split_bytes[2];
} tally;

static asim_code broken_block(const asim_tc_state *state, uint32_t block, const char *what, asim_err *err)
{
    return asim_fail(err, ASIM_E_BUG, "block %u at %#" PRIx64 ", %" PRIu64 " bytes: %s", block,
                     asim_tc_address(state, block), state->extents[block].size, what);
}

static asim_code check_block(const asim_tc_state *state, uint32_t block, uint32_t segment, tally *sum,
                             asim_err *err)
{
    const asim_extent *extent = &state->extents[block];
    const asim_tc_block *record = &state->blocks[block];
    const asim_tc_segment *home = &state->segments[segment];
    const unsigned large = state->shelves[home->shelf]->large;
    if (record->segment != segment || record->shelf != home->shelf || record->expandable != (home->page != 0))
        return broken_block(state, block, "it belongs to another segment", err);
    if (extent->size == 0)
        return broken_block(state, block, "it is empty", err);
    if (extent->next) {
        const asim_extent *next = &state->extents[extent->next];
        if (next->prev != block || next->address != extent->address + extent->size)
            return broken_block(state, block, "its neighbour does not join on", err);
        uint8_t other = state->blocks[extent->next].state;
        if (record->state == other && (other == ASIM_TC_FREE || other == ASIM_TC_UNMAPPED))
            return broken_block(state, block, "two free neighbours did not merge (R6)", err);
    } else if (asim_tc_address(state, block) + extent->size != home->address + home->size) {
        return broken_block(state, block, "it is last, and does not end with its segment", err);
    }
    switch (record->state) {
    case ASIM_TC_LIVE:
    case ASIM_TC_PENDING:
        sum->live[large] += record->state == ASIM_TC_LIVE;
        sum->live_bytes[large] += record->state == ASIM_TC_LIVE ? extent->size : 0;
        sum->active[large]++;
        sum->active_bytes[large] += extent->size;
        sum->requested[large] += record->requested;
        break;
    case ASIM_TC_FREE:
        if (record->uses || record->events)
            return broken_block(state, block, "it is free, and other streams use it", err);
        if (home->page == 0 && asim_tc_is_split(state, block)) {
            sum->split[large]++;
            sum->split_bytes[large] += extent->size;
        }
        break;
    case ASIM_TC_UNMAPPED:
        if (home->page == 0 || (asim_tc_address(state, block) - home->address) % home->page ||
            extent->size % home->page)
            return broken_block(state, block, "it is unmapped, and is not whole pages of a range", err);
        break;
    default:
        return broken_block(state, block, "a record that is not in use is part of a segment", err);
    }
    if (record->state != ASIM_TC_UNMAPPED)
        sum->reserved[large] += extent->size;
    return ASIM_OK;
}

/* Every member of a shelf's sets must be a free (unmapped) block of the shelf; there must be as many as the
 * segments hold. */
static asim_code check_shelf(const asim_tc_state *state, const asim_tc_shelf *shelf, uint64_t *ret_free,
                             uint64_t *ret_unmapped, asim_err *err)
{
    uint32_t count = asim_free_check(&shelf->free, state->extents, state->block_count);
    if (count == UINT32_MAX)
        return asim_fail(err, ASIM_E_BUG, "the free set of stream %#" PRIx64 " is out of order",
                         shelf->stream);
    for (uint32_t b = asim_free_first(&shelf->free, state->extents); b;
         b = asim_free_next(&shelf->free, state->extents, b))
        if (state->blocks[b].state != ASIM_TC_FREE || state->blocks[b].shelf != shelf->index)
            return broken_block(state, b, "it is in a free set where it does not belong", err);
    for (size_t i = 0; i < shelf->unmapped_count; i++) {
        uint32_t b = shelf->unmapped[i];
        if (state->blocks[b].state != ASIM_TC_UNMAPPED || state->blocks[b].shelf != shelf->index ||
            (i && asim_tc_address(state, shelf->unmapped[i - 1]) >= asim_tc_address(state, b)))
            return broken_block(state, b, "it is in an unmapped set where it does not belong", err);
    }
    *ret_free += count;
    *ret_unmapped += shelf->unmapped_count;
    return ASIM_OK;
}

static asim_code check_stats(const asim_tc_state *state, unsigned index, const tally *sum, asim_err *err)
{
    const asim_tc_device *device = &state->devices[index];
    for (unsigned kind = 0; kind < 2; kind++) {
        const asim_tc_requests *requests = &device->stats.requests[kind];
        const struct {
            const char *name;
            int64_t current;
            uint64_t counted;
        } facts[] = {
            {"allocation", requests->live.count, sum->live[kind]},
            {"segment", device->stats.segment.kind[kind].current, sum->segments[kind]},
            {"active", requests->live.count + requests->pending.count, sum->active[kind]},
            {"inactive_split", device->stats.inactive_split.kind[kind].current, sum->split[kind]},
            {"allocated_bytes", requests->live.bytes, sum->live_bytes[kind]},
            {"reserved_bytes", device->stats.reserved_bytes.kind[kind].current, sum->reserved[kind]},
            {"active_bytes", requests->live.bytes + requests->pending.bytes, sum->active_bytes[kind]},
            {"inactive_split_bytes", device->stats.inactive_split_bytes.kind[kind].current,
             sum->split_bytes[kind]},
            {"requested_bytes", requests->live.requested, sum->requested[kind]},
        };
        for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
            if (facts[i].current != (int64_t)facts[i].counted)
                return asim_fail(
                    err, ASIM_E_BUG, "device %u: %s of the %s pools is %" PRId64 ", the blocks say %" PRIu64,
                    index, facts[i].name, kind ? "large" : "small", facts[i].current, facts[i].counted);
    }
    if (device->reserved != sum->reserved[0] + sum->reserved[1])
        return asim_fail(err, ASIM_E_BUG, "device %u: %" PRIu64 " bytes reserved, the blocks say %" PRIu64,
                         index, device->reserved, sum->reserved[0] + sum->reserved[1]);
    return ASIM_OK;
}

asim_code asim_tc_check(const asim_tc_state *state, asim_err *err)
{
    if (state->broken)
        return asim_fail(err, state->fault.code, "%s", state->fault.message);
    uint64_t free_blocks = 0, unmapped_blocks = 0, largest = 0;
    for (unsigned i = 0; i < state->device_count; i++) {
        const asim_tc_device *device = &state->devices[i];
        tally sum;
        memset(&sum, 0, sizeof sum);
        for (size_t j = 0; j < device->order_count; j++) {
            uint32_t segment = device->order[j];
            const asim_tc_segment *home = &state->segments[segment];
            if (j && state->segments[device->order[j - 1]].address >= home->address)
                return asim_fail(err, ASIM_E_BUG, "device %u: segments are out of order", i);
            if (state->extents[home->first].prev || asim_tc_address(state, home->first) != home->address)
                return broken_block(state, home->first, "it is first, and does not begin its segment", err);
            if (home->page == 0)
                sum.segments[state->shelves[home->shelf]->large]++;
            for (uint32_t b = home->first; b; b = state->extents[b].next) {
                asim_code code = check_block(state, b, segment, &sum, err);
                if (code)
                    return code;
                if (state->blocks[b].state == ASIM_TC_UNMAPPED)
                    unmapped_blocks++;
                if (state->blocks[b].state == ASIM_TC_FREE) {
                    free_blocks++;
                    if (largest < state->extents[b].size)
                        largest = state->extents[b].size;
                }
            }
        }
        asim_code code = check_stats(state, i, &sum, err);
        if (code)
            return code;
    }
    uint64_t in_free = 0, in_unmapped = 0;
    for (size_t i = 0; i < state->shelf_count; i++) {
        asim_code code = check_shelf(state, state->shelves[i], &in_free, &in_unmapped, err);
        if (code)
            return code;
    }
    if (in_free != free_blocks || in_unmapped != unmapped_blocks)
        return asim_fail(err, ASIM_E_BUG,
                         "the sets hold %" PRIu64 " free and %" PRIu64
                         " unmapped blocks, the segments %" PRIu64 " and %" PRIu64,
                         in_free, in_unmapped, free_blocks, unmapped_blocks);
    if (state->counters->largest_free_bytes != largest)
        return asim_fail(err, ASIM_E_BUG,
                         "the largest free block has %" PRIu64 " bytes, the counter says %" PRIu64, largest,
                         state->counters->largest_free_bytes);
    return ASIM_OK;
}
