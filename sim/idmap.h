/* sim/idmap.h - a hash map from 64-bit keys (addresses, handles, hashes) to 32-bit numbers.
 *
 * Open addressing with linear probing in one array; at most 3/4 full; removal shifts the followers back, so
 * there are no tombstones and a map that grows and shrinks stays fast. Every key is allowed, 0 included.
 * Expected O(1) each; an adversary who knows the mixer can make it slow, never wrong. Not thread safe.
 *
 *     asim_idmap map;
 *     asim_idmap_init(&map, mem);
 *     if (asim_idmap_put(&map, address, slot, &err)) ...
 *     uint32_t slot;
 *     if (asim_idmap_take(&map, address, &slot)) ...
 *     asim_idmap_fini(&map);
 */
#ifndef ASIM_SIM_IDMAP_H
#define ASIM_SIM_IDMAP_H

#include "sim/err.h"
#include "sim/hostmem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct asim_idmap_entry {
    uint64_t key;
    uint32_t value;
    uint32_t used;
} asim_idmap_entry;

typedef struct asim_idmap {
    const asim_hostmem *mem;
    asim_idmap_entry *entries; /* NULL until the first put */
    size_t size;               /* of entries: 0 or a power of two */
    size_t count;              /* keys in the map */
} asim_idmap;

void asim_idmap_init(asim_idmap *map, const asim_hostmem *mem);
void asim_idmap_fini(asim_idmap *map);  /* frees; the map is empty and usable again */
void asim_idmap_reset(asim_idmap *map); /* forgets every key, keeps the memory */

/* True and *ret_value if the key is there; otherwise false and *ret_value is untouched. */
bool asim_idmap_get(const asim_idmap *map, uint64_t key, uint32_t *ret_value);

/* Sets the key's value, whether it was there or not. On ASIM_E_SYSTEM the map is as it was. */
asim_code asim_idmap_put(asim_idmap *map, uint64_t key, uint32_t value, asim_err *err);

/* Removes the key: true and *ret_value (NULL allowed) if it was there. */
bool asim_idmap_take(asim_idmap *map, uint64_t key, uint32_t *ret_value);

/* Walks the map in no meaningful order: start with *cursor = 0; false at the end. Don't change the map
 * meanwhile, and don't let the order reach any result. */
bool asim_idmap_next(const asim_idmap *map, size_t *cursor, uint64_t *ret_key, uint32_t *ret_value);

#endif
