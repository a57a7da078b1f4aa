/* policies/tlsf_map.h - from a size to its two indices, as TLSF has them.
 *
 * Masmano, Ripoll, Crespo and Real, ECRTS 2004: the first index is the power of two below the size, the
 * second one of 2^J equal parts of the range above it:
 *
 *     f = floor(log2(size))        s = floor((size - 2^f) * 2^J / 2^f)
 *
 *     460 with J = 4:  f = 8, s = floor(204 * 16 / 256) = 12
 *
 * Sizes are 2^J at least.
 */
#ifndef ASIM_POLICIES_TLSF_MAP_H
#define ASIM_POLICIES_TLSF_MAP_H

#include <stdint.h>

typedef struct asim_tlsf_index {
    unsigned f, s;
} asim_tlsf_index;

/* The list in which a free block of size bytes is kept. */
static inline asim_tlsf_index asim_tlsf_map(uint64_t size, unsigned j)
{
    const unsigned f = 63U - (unsigned)__builtin_clzll(size);
    return (asim_tlsf_index){f, (unsigned)((size >> (f - j)) & ((UINT64_C(1) << j) - 1))};
}

/* The least size that begins a list and is not below size: the search starts in that list, whose blocks all
 * have room. size is below 2^62. */
static inline uint64_t asim_tlsf_round(uint64_t size, unsigned j)
{
    const uint64_t part = UINT64_C(1) << (63U - (unsigned)__builtin_clzll(size) - j);
    return (size + part - 1) & ~(part - 1);
}

#endif
