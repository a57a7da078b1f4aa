#include "policies/torchcache_message.h"

#include "policies/torchcache_round.h"

#include <inttypes.h>
#include <stdio.h>

void asim_tc_size_text(uint64_t bytes, char ret_text[ASIM_TC_SIZE_TEXT])
{
    static const char *const units[] = {"KiB", "MiB", "GiB"};
    uint64_t unit = 1024;
    unsigned i = 0;
    if (bytes <= unit) {
        snprintf(ret_text, ASIM_TC_SIZE_TEXT, "%" PRIu64 " bytes", bytes);
        return;
    }
    for (; i < 2 && bytes > unit * 1024; i++)
        unit *= 1024;
    snprintf(ret_text, ASIM_TC_SIZE_TEXT, "%.2f %s", (double)bytes / (double)unit, units[i]);
}

static void advise(const asim_tc_release *release, const asim_tc_refusal *refusal, char ret_text[160])
{
    char range[ASIM_TC_SIZE_TEXT], attempted[ASIM_TC_SIZE_TEXT];
    asim_tc_size_text(refusal->range, range);
    asim_tc_size_text(refusal->attempted, attempted);
    if (!release->oom_advises_reserve || refusal->range == 0)
        snprintf(ret_text, 160, "If much is reserved but unallocated, try %s.", release->oom_advice);
    else if (refusal->range < refusal->attempted && refusal->attempted <= refusal->total)
        snprintf(ret_text, 160,
                 "The range of addresses, %s, is smaller than %s; try expandable_segments_reserve.", range,
                 attempted);
    else
        snprintf(ret_text, 160, "If the range of addresses is used up, try expandable_segments_reserve.");
}

/* R44. */
static int out_of_memory(const asim_tc_release *release, const asim_tc_refusal *refusal, char *ret_text,
                         size_t capacity)
{
    const uint64_t pool_free = release->oom_counts_pools ? refusal->pool_free : 0;
    char attempted[ASIM_TC_SIZE_TEXT], total[ASIM_TC_SIZE_TEXT], free[ASIM_TC_SIZE_TEXT];
    char allocated[ASIM_TC_SIZE_TEXT], reserved[ASIM_TC_SIZE_TEXT], pools[ASIM_TC_SIZE_TEXT];
    char unallocated[ASIM_TC_SIZE_TEXT], limit[ASIM_TC_SIZE_TEXT], allowed[64] = "", in_pools[80] = "";
    char advice[160];
    advise(release, refusal, advice);
    asim_tc_size_text(refusal->attempted, attempted);
    asim_tc_size_text(refusal->total, total);
    asim_tc_size_text(refusal->free, free);
    asim_tc_size_text(refusal->allocated + pool_free, allocated);
    asim_tc_size_text(refusal->reserved, reserved);
    asim_tc_size_text(refusal->reserved - refusal->allocated - pool_free, unallocated);
    if (release->oom_names_limit && refusal->limit != ASIM_TC_UNLIMITED) {
        asim_tc_size_text(refusal->limit, limit);
        snprintf(allowed, sizeof allowed, "%s allowed; ", limit);
    }
    if (release->oom_old_order)
        return snprintf(ret_text, capacity,
                        "CUDA out of memory: tried to get %s on GPU %u (capacity %s; allocated %s; free %s; "
                        "%sreserved %s). %s",
                        attempted, refusal->device, total, allocated, free, allowed, reserved, advice);
    if (pool_free > 0) {
        asim_tc_size_text(pool_free, pools);
        snprintf(in_pools, sizeof in_pools, ", of which %s in private pools", pools);
    }
    return snprintf(ret_text, capacity,
                    "CUDA out of memory: tried to get %s on GPU %u (capacity %s, %s free; %sallocated by "
                    "PyTorch %s%s; reserved but unallocated %s). %s",
                    attempted, refusal->device, total, free, allowed, allocated, in_pools, unallocated,
                    advice);
}

size_t asim_tc_refusal_text(const asim_tc_release *release, const asim_tc_refusal *refusal, char *ret_text,
                            size_t capacity)
{
    char requested[ASIM_TC_SIZE_TEXT];
    int length = 0;
    switch (refusal->kind) {
    case ASIM_TC_NOT_REFUSED:
        break;
    case ASIM_TC_OUT_OF_MEMORY:
        length = out_of_memory(release, refusal, ret_text, capacity);
        break;
    case ASIM_TC_TOO_LARGE:
        length = snprintf(ret_text, capacity, "CUDA out of memory: more than 1EB was asked for.");
        break;
    case ASIM_TC_REJECTED:
        asim_tc_size_text(refusal->requested, requested);
        length = snprintf(ret_text, capacity,
                          "CUDA out of memory: %s were refused without asking the device, as they exceed "
                          "the share that per_process_memory_fraction allows.",
                          requested);
        break;
    }
    return length < 0 ? 0 : (size_t)length;
}
