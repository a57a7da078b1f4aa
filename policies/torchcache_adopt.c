/* Taking over the opening state of a recording that begins in mid-run.
 *
 * Plain segments are claimed as they are. Of an expandable segment a recording shows the mapped runs only;
 * runs of one stream and pool that fit into one range as section 15.2 sizes it are taken for one range that
 * begins with the first of them, and what lies between and after them is unmapped (R85). Statistics begin
 * with this state: current values are right, totals equal them (R172).
 */
#include "policies/torchcache_blocks.h"

#include <inttypes.h>

typedef struct adoption {
    asim_tc_state *state;
    const asim_trace *trace;
    asim_placement *placements;
} adoption;

static asim_code fault_of(const asim_tc_state *state, asim_err *err)
{
    return asim_fail(err, state->fault.code, "%s", state->fault.message);
}

/* Cuts the recorded blocks of a run off the front of rest, a block in no set that the run begins. The last
 * one takes rest itself when cover says that the run ends with it. */
static bool cut_blocks(const adoption *adopted, const asim_opening_segment *run, asim_tc_shelf *shelf,
                       uint32_t rest, bool cover)
{
    asim_tc_state *state = adopted->state;
    asim_tc_stats *stats = &state->devices[shelf->device].stats;
    for (uint32_t i = 0; i < run->block_count; i++) {
        const asim_opening_block *recorded = &adopted->trace->opening_blocks[run->first_block + i];
        uint32_t block = rest;
        if (!(cover && i + 1 == run->block_count)) {
            block = asim_tc_cut_front(state, rest, recorded->size);
            if (!block)
                return false;
        }
        const uint64_t size = recorded->size;
        asim_tc_block *record = &state->blocks[block];
        record->requested = recorded->requested;
        if (recorded->state == ASIM_BLOCK_FREE) {
            asim_tc_free_add(state, shelf, block);
            if (!record->expandable && run->block_count > 1) {
                asim_tc_up(&stats->inactive_split, shelf->large, 1);
                asim_tc_up(&stats->inactive_split_bytes, shelf->large, size);
            }
            continue;
        }
        record->state = recorded->state;
        if (recorded->state == ASIM_BLOCK_PENDING) {
            asim_tc_count_adopted_pending(stats, shelf->requests, size, recorded->requested);
        } else {
            asim_tc_count_handed_out(stats, shelf->requests, size, recorded->requested);
            if (size >= state->options.max_split)
                asim_tc_counter_up(&stats->oversize_allocations, 1);
        }
        uint64_t rounded =
            recorded->requested ? asim_tc_round(&state->options.rounding, recorded->requested) : size;
        adopted->placements[run->first_block + i] = (asim_placement){
            .address = asim_tc_address(state, block),
            .size = size,
            .rounded = rounded < size ? rounded : size,
            .region = state->segments[record->segment].region,
            .word = block,
        };
    }
    return true;
}

static asim_code check_run(const asim_trace *trace, const asim_opening_segment *run, asim_err *err)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < run->block_count; i++) {
        uint64_t size = trace->opening_blocks[run->first_block + i].size;
        if (size == 0 || size > run->size - sum)
            return asim_fail(err, ASIM_E_INPUT,
                             "opening state: the blocks of the segment at %#" PRIx64 " do not cut it",
                             run->address);
        sum += size;
    }
    if (sum != run->size)
        return asim_fail(err, ASIM_E_INPUT,
                         "opening state: the blocks of the segment at %#" PRIx64 " hold %" PRIu64
                         " of its %" PRIu64 " bytes",
                         run->address, sum, run->size);
    return ASIM_OK;
}

static asim_tc_shelf *shelf_of_run(asim_tc_state *state, const asim_opening_segment *run)
{
    const asim_tc_lane *lane = &state->lanes[run->lane];
    if (lane->group->pool)
        asim_tc_group_ensure(lane->group);
    return asim_tc_shelf_of(state, lane->group, lane->stream, !run->small);
}

static void reserve(asim_tc_state *state, asim_tc_shelf *shelf, uint64_t size)
{
    asim_tc_count_reserved(state, shelf, size);
    shelf->group->segments++;
}

static asim_code adopt_plain(const adoption *adopted, const asim_opening_segment *run, asim_err *err)
{
    asim_tc_state *state = adopted->state;
    asim_tc_shelf *shelf = shelf_of_run(state, run);
    if (!shelf)
        return fault_of(state, err);
    asim_region region;
    if (state->driver.ops->claim(state->driver.ctx, shelf->device, run->address, run->size, false, &region) !=
        ASIM_DEVICE_OK)
        return asim_fail(err, ASIM_E_INPUT,
                         "opening state: the device has no room for the segment of %" PRIu64
                         " bytes at %#" PRIx64 "; give it more capacity",
                         run->size, run->address);
    region.address = run->address;
    region.size = run->size;
    uint32_t block = asim_tc_segment_new(state, shelf, &region, 0);
    if (!block)
        return fault_of(state, err);
    asim_tc_device *device = &state->devices[shelf->device];
    reserve(state, shelf, run->size);
    asim_tc_up(&device->stats.segment, shelf->large, 1);
    if (run->size >= state->options.max_split)
        asim_tc_counter_up(&device->stats.oversize_segments, 1);
    return cut_blocks(adopted, run, shelf, block, true) ? ASIM_OK : fault_of(state, err);
}

/* Whether two runs can be parts of one range. */
static bool same_home(const adoption *adopted, const asim_opening_segment *a, const asim_opening_segment *b)
{
    const asim_tc_lane *lanes = adopted->state->lanes;
    return b->expandable && a->small == b->small && lanes[a->lane].stream == lanes[b->lane].stream &&
           lanes[a->lane].group == lanes[b->lane].group;
}

/* Adopts runs[0] and those after it that lie in the same range; *ret_count: how many. */
static asim_code adopt_range(const adoption *adopted, const asim_opening_segment *runs, uint32_t left,
                             uint32_t *ret_count, asim_err *err)
{
    asim_tc_state *state = adopted->state;
    asim_tc_shelf *shelf = shelf_of_run(state, runs);
    if (!shelf)
        return fault_of(state, err);
    const uint64_t page = asim_tc_page_size(state, shelf);
    const uint64_t start = runs[0].address;
    uint64_t size = asim_tc_range_size(state, shelf);
    shelf->has_range = true;
    if (size < runs[0].size)
        size = asim_tc_ceil(runs[0].size, page);
    uint32_t count = 1;
    while (count < left && same_home(adopted, &runs[0], &runs[count]) && runs[count].address - start < size &&
           runs[count].size <= size - (runs[count].address - start))
        count++;
    /* A foreign segment inside the supposed range ends it: the range began before its first mapped page. */
    if (count < left && state->lanes[runs[count].lane].device == state->lanes[runs[0].lane].device &&
        runs[count].address - start < size)
        size = (runs[count].address - start) / page * page;

    asim_region region;
    if (state->driver.ops->claim(state->driver.ctx, shelf->device, start, size, true, &region) !=
        ASIM_DEVICE_OK)
        return asim_fail(
            err, ASIM_E_INPUT,
            "opening state: the range of an expandable segment at %#" PRIx64 " meets another segment", start);
    region.address = start;
    region.size = size;
    uint32_t rest = asim_tc_segment_new(state, shelf, &region, page);
    if (!rest)
        return fault_of(state, err);
    for (uint32_t i = 0; i < count; i++) {
        const asim_opening_segment *run = &runs[i];
        if ((run->address - start) % page || run->size % page || run->address - start + run->size > size)
            return asim_fail(err, ASIM_E_INPUT,
                             "opening state: the mapped run of %" PRIu64 " bytes at %#" PRIx64
                             " is not whole pages of %" PRIu64 " bytes",
                             run->size, run->address, page);
        asim_device_result result =
            state->driver.ops->map(state->driver.ctx, region.index, run->address - start, run->size, page);
        if (result != ASIM_DEVICE_OK)
            return asim_fail(err, ASIM_E_INPUT,
                             "opening state: the device has no room for the mapped run of %" PRIu64
                             " bytes at %#" PRIx64 "; give it more capacity",
                             run->size, run->address);
        const uint64_t behind = asim_tc_address(state, rest);
        if (run->address > behind) {
            uint32_t hole = asim_tc_cut_front(state, rest, run->address - behind);
            if (!hole || !asim_tc_unmapped_add(state, shelf, hole))
                return fault_of(state, err);
        }
        reserve(state, shelf, run->size);
        if (!cut_blocks(adopted, run, shelf, rest, run->size == state->extents[rest].size))
            return fault_of(state, err);
        if (run->address + run->size == start + size)
            rest = 0;
    }
    if (rest && !asim_tc_unmapped_add(state, shelf, rest))
        return fault_of(state, err);
    *ret_count = count;
    return ASIM_OK;
}

asim_code asim_tc_adopt(asim_tc_state *state, const asim_trace *trace, asim_placement *ret_placements,
                        asim_err *err)
{
    const adoption adopted = {state, trace, ret_placements};
    bool any_range = false;
    asim_code code = ASIM_OK;
    for (uint32_t i = 0; !code && i < trace->opening_segment_count; i++)
        code = check_run(trace, &trace->opening_segments[i], err);
    for (uint32_t i = 0; !code && i < trace->opening_segment_count;) {
        const asim_opening_segment *run = &trace->opening_segments[i];
        uint32_t count = 1;
        if (run->expandable)
            code = adopt_range(&adopted, run, trace->opening_segment_count - i, &count, err);
        else
            code = adopt_plain(&adopted, run, err);
        any_range |= run->expandable;
        i += count;
    }
    if (code)
        return code;
    if (any_range && !state->options.expandable)
        state->listener->warn(state->listener->ctx,
                              "the recording begins with expandable segments, and expandable_segments is "
                              "off: their free memory will not be used");
    asim_tc_settle(state);
    return ASIM_OK;
}
