#include "policies/torchcache_round.h"

static unsigned log2_of(uint64_t size)
{
    return 63U - (unsigned)__builtin_clzll(size);
}

uint64_t asim_tc_round_divided(const asim_tc_rounding *rounding, uint64_t size)
{
    unsigned log = log2_of(size);
    unsigned slot = log < 20 ? 0 : log - 20;
    if (slot >= ASIM_TC_SLOTS)
        slot = ASIM_TC_SLOTS - 1;
    uint64_t divisions = rounding->divisions[slot];
    bool divides = divisions > 1 || (divisions == 1 && rounding->one_is_exact);
    if (size < ASIM_TC_MIN_BLOCK || !divides || size > rounding->bypass ||
        size <= ASIM_TC_MIN_BLOCK * divisions)
        return asim_tc_ceil(size, ASIM_TC_MIN_BLOCK);
    if (divisions == 1)
        return size;
    /* A power of two is a multiple of every step; otherwise the next multiple, at most the next power. */
    uint64_t step = (UINT64_C(1) << log) >> log2_of(divisions);
    return asim_tc_ceil(size, step);
}
