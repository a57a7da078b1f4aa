#include "policies/size_classes.h"

uint64_t asim_je_class(uint64_t size, uint64_t quantum)
{
    if (size == 0 || size > ASIM_JE_LARGEST)
        return 0;
    if (size <= 8)
        return 8;
    uint64_t step = quantum;
    if (size > 4 * quantum) {
        /* size - 1: a power of two is the last class of the group below it. */
        const unsigned octave = 63U - (unsigned)__builtin_clzll(size - 1);
        step = UINT64_C(1) << (octave - 2);
    }
    return (size + step - 1) & ~(step - 1);
}

unsigned asim_je_number(uint64_t size, uint64_t quantum)
{
    if (size <= 8)
        return 0;
    if (size <= 4 * quantum)
        return (unsigned)((size + quantum - 1) / quantum);
    const unsigned octave = 63U - (unsigned)__builtin_clzll(size - 1);
    const unsigned group = octave - 2U - (unsigned)__builtin_ctzll(quantum);
    return 4 * group + (unsigned)((size - 1) >> (octave - 2)) + 1;
}

uint64_t asim_je_slab(uint64_t size_class, uint64_t page)
{
    /* The class is an odd number times a power of two: only the odd part is missing in a page. */
    const unsigned twos = (unsigned)__builtin_ctzll(size_class);
    const uint64_t power = UINT64_C(1) << twos;
    return power >= page ? size_class : (size_class >> twos) * page;
}
