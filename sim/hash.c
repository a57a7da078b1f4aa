#include "sim/hash.h"

uint64_t asim_hash_bytes(uint64_t state, const void *bytes, size_t length)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < length; i += 8) {
        uint64_t word = 0;
        for (size_t k = 0; k < 8 && i + k < length; k++)
            word |= (uint64_t)p[i + k] << (8 * k);
        state = asim_hash_u64(state, word);
    }
    return asim_hash_u64(state, length);
}
