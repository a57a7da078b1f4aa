/* sim/rng.h - a seeded generator (splitmix64, Steele, Lea and Flood, OOPSLA 2014), the same on every machine.
 */
#ifndef ASIM_SIM_RNG_H
#define ASIM_SIM_RNG_H

#include <stdint.h>

typedef struct asim_rng {
    uint64_t state;
} asim_rng;

static inline uint64_t asim_rng_next(asim_rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* A number below bound (> 0), without bias: Lemire's multiply and reject, TOMACS 29(1), 2019. */
static inline uint64_t asim_rng_below(asim_rng *rng, uint64_t bound)
{
    for (;;) {
        unsigned __int128 product = (unsigned __int128)asim_rng_next(rng) * bound;
        if ((uint64_t)product >= bound || (uint64_t)product >= -bound % bound)
            return (uint64_t)(product >> 64);
    }
}

#endif
