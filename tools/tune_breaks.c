#include "tools/tune_breaks.h"

#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static size_t sort_distinct(uint64_t *values, size_t count)
{
    size_t kept = 0;
    if (count > 1)
        qsort(values, count, sizeof *values, compare);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || values[kept - 1] != values[i])
            values[kept++] = values[i];
    return kept;
}

asim_code asim_tune_sizes_add(asim_tune_sizes *sizes, const asim_trace *trace, const asim_hostmem *mem,
                              asim_err *err)
{
    asim_code code = asim_mem_grow(mem, (void **)&sizes->sizes, &sizes->capacity,
                                   sizes->count + (size_t)trace->event_count + trace->opening_block_count + 1,
                                   sizeof *sizes->sizes, err);
    if (!code)
        code = asim_mem_grow(mem, (void **)&sizes->segments, &sizes->segment_capacity,
                             sizes->segment_count + trace->opening_segment_count + 1, sizeof *sizes->segments,
                             err);
    if (code)
        return code;
    for (uint64_t i = 0; i < trace->event_count; i++) {
        const asim_event *event = &trace->events[i];
        bool asks = event->kind == ASIM_EV_ALLOC || event->kind == ASIM_EV_RESIZE;
        if (asks && event->size > 0 && event->size < ASIM_TC_HARD_LIMIT)
            sizes->sizes[sizes->count++] = event->size;
    }
    for (uint32_t i = 0; i < trace->opening_block_count; i++) { /* where they are asked for anew */
        const asim_opening_block *block = &trace->opening_blocks[i];
        uint64_t size = block->requested ? block->requested : block->size;
        if (block->state != ASIM_BLOCK_FREE && size > 0 && size < ASIM_TC_HARD_LIMIT)
            sizes->sizes[sizes->count++] = size;
    }
    for (uint32_t i = 0; i < trace->opening_segment_count; i++) {
        const asim_opening_segment *segment = &trace->opening_segments[i];
        if (segment->small || segment->size >= ASIM_TC_HARD_LIMIT)
            continue;
        sizes->segments[sizes->segment_count++] = segment->size;
        if ((segment->block_count > 1 || segment->expandable) && segment->size > sizes->cut_bytes)
            sizes->cut_bytes = segment->size;
    }
    sizes->count = sort_distinct(sizes->sizes, sizes->count);
    sizes->segment_count = sort_distinct(sizes->segments, sizes->segment_count);
    for (size_t i = 0; i < sizes->count; i++)
        sizes->any_medium = sizes->any_medium ||
                            (sizes->sizes[i] > ASIM_TC_SMALL_MAX && sizes->sizes[i] < ASIM_TC_MEDIUM_LIMIT);
    return ASIM_OK;
}

void asim_tune_sizes_fini(asim_tune_sizes *sizes, const asim_hostmem *mem)
{
    asim_mem_free(mem, sizes->sizes, sizes->capacity, sizeof *sizes->sizes);
    asim_mem_free(mem, sizes->segments, sizes->segment_capacity, sizeof *sizes->segments);
    *sizes = (asim_tune_sizes){0};
}

/* The smallest value that the release takes, in MiB. */
static uint64_t smallest_limit(const asim_tc_release *release, uint64_t large_segment)
{
    asim_tc_options options;
    uint64_t mib = 1;
    asim_tc_options_default(release, &options);
    options.large_segment = large_segment;
    while (mib < large_segment / MIB + 2 &&
           asim_tc_check_split_limit(release, &options, "max_split_size_mb", mib * MIB, NULL))
        mib++;
    /* Below the size of medium segments, the argument of the header does not hold. */
    return mib < large_segment / MIB ? large_segment / MIB : mib;
}

asim_code asim_tune_breaks(const asim_tune_sizes *sizes, const asim_tc_release *release,
                           const asim_tc_rounding *rounding, uint64_t large_segment,
                           uint64_t ret_mib[ASIM_TUNE_BREAKS_MAX], size_t *ret_count, bool *ret_complete,
                           const asim_hostmem *mem, asim_err *err)
{
    const uint64_t least = smallest_limit(release, large_segment);
    const size_t cut = sizes->cut_bytes / MIB > least ? (size_t)(sizes->cut_bytes / MIB - least) + 1 : 0;
    const size_t dense = cut < 8192 ? cut : 8192; /* values for segments that are cut already */
    const size_t room = 2 * sizes->count + sizes->segment_count + dense + 2;
    uint64_t *starts = asim_mem_new(mem, room, sizeof *starts);
    size_t count = 0;
    if (!starts)
        return asim_fail_memory(err, room * sizeof *starts);
    starts[count++] = least;
    for (size_t i = 0; i < sizes->count; i++) {
        uint64_t rounded = asim_tc_round(rounding, sizes->sizes[i]);
        if (!asim_tc_is_large(rounded))
            continue;
        starts[count++] = rounded / MIB + 1;
        starts[count++] = asim_tc_segment_size(rounded, large_segment) / MIB + 1;
    }
    for (size_t i = 0; i < sizes->segment_count; i++)
        starts[count++] = sizes->segments[i] / MIB + 1;
    for (size_t i = 0; i < dense; i++)
        starts[count++] = least + i * cut / dense;
    count = sort_distinct(starts, count);
    size_t first = 0;
    while (starts[first] < least)
        first++;
    count -= first;
    count -= count > 0; /* the last interval is that of `none` */
    const size_t given = count < ASIM_TUNE_BREAKS_MAX ? count : ASIM_TUNE_BREAKS_MAX;
    const size_t all = given == count ? given : given / 2; /* so many smallest ones are all given */
    for (size_t i = 0; i < given; i++)
        ret_mib[i] = starts[first + (i < all ? i : all + (i - all) * (count - all) / (given - all))];
    *ret_count = given;
    *ret_complete = given == count && dense == cut;
    asim_mem_free(mem, starts, room, sizeof *starts);
    return ASIM_OK;
}
