/* sim/hash.h - a stable 64-bit hash: the same input gives the same number on every machine, forever.
 *
 * Used for digests that are stored and compared. It guards against accidents, not against an adversary.
 * One multiplication a word: state = (state ^ word) * K, then the high half is folded into the low one; K is
 * the 64-bit golden ratio, made odd (Knuth, TAOCP 3, 6.4).
 */
#ifndef ASIM_SIM_HASH_H
#define ASIM_SIM_HASH_H

#include <stddef.h>
#include <stdint.h>

#define ASIM_HASH_INIT UINT64_C(0x243F6A8885A308D3) /* the fraction of pi */

static inline uint64_t asim_hash_u64(uint64_t state, uint64_t word)
{
    state = (state ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return state ^ (state >> 32);
}

/* Hashes length bytes, little-endian words of 8, the last one padded with zeros, then the length. */
uint64_t asim_hash_bytes(uint64_t state, const void *bytes, size_t length);

#endif
