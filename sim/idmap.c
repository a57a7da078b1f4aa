#include "sim/idmap.h"

#include <string.h>

enum {
    SIZE_FIRST = 64
};

/* The finishing steps of splitmix64: addresses differ in few bits, linear probing wants them spread. */
static size_t home(const asim_idmap *map, uint64_t key)
{
    key = (key ^ (key >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    key = (key ^ (key >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (size_t)(key ^ (key >> 31)) & (map->size - 1);
}

/* The entry that holds key, or the free one where it would go. There is always a free one. */
static asim_idmap_entry *find(const asim_idmap *map, uint64_t key)
{
    size_t i = home(map, key);
    while (map->entries[i].used && map->entries[i].key != key)
        i = (i + 1) & (map->size - 1);
    return &map->entries[i];
}

void asim_idmap_init(asim_idmap *map, const asim_hostmem *mem)
{
    *map = (asim_idmap){.mem = mem};
}

void asim_idmap_fini(asim_idmap *map)
{
    asim_mem_free(map->mem, map->entries, map->size, sizeof *map->entries);
    asim_idmap_init(map, map->mem);
}

void asim_idmap_reset(asim_idmap *map)
{
    if (map->count)
        memset(map->entries, 0, map->size * sizeof *map->entries);
    map->count = 0;
}

bool asim_idmap_get(const asim_idmap *map, uint64_t key, uint32_t *ret_value)
{
    if (map->count == 0)
        return false;
    const asim_idmap_entry *entry = find(map, key);
    if (!entry->used)
        return false;
    *ret_value = entry->value;
    return true;
}

static asim_code grow(asim_idmap *map, asim_err *err)
{
    asim_idmap larger = {
        .mem = map->mem, .size = map->size ? map->size * 2 : SIZE_FIRST, .count = map->count};
    larger.entries = asim_mem_new(map->mem, larger.size, sizeof *larger.entries);
    if (!larger.entries)
        return asim_fail_memory(err, (uint64_t)larger.size * sizeof *larger.entries);
    for (size_t i = 0; i < map->size; i++)
        if (map->entries[i].used)
            *find(&larger, map->entries[i].key) = map->entries[i];
    asim_idmap_fini(map);
    *map = larger;
    return ASIM_OK;
}

asim_code asim_idmap_put(asim_idmap *map, uint64_t key, uint32_t value, asim_err *err)
{
    asim_idmap_entry *entry = map->size ? find(map, key) : NULL;
    if (entry && entry->used) {
        entry->value = value;
        return ASIM_OK;
    }
    if (map->count >= map->size / 4 * 3) {
        asim_code code = grow(map, err);
        if (code)
            return code;
        entry = find(map, key);
    }
    *entry = (asim_idmap_entry){.key = key, .value = value, .used = 1};
    map->count++;
    return ASIM_OK;
}

bool asim_idmap_take(asim_idmap *map, uint64_t key, uint32_t *ret_value)
{
    if (map->count == 0)
        return false;
    asim_idmap_entry *entry = find(map, key);
    if (!entry->used)
        return false;
    if (ret_value)
        *ret_value = entry->value;
    size_t mask = map->size - 1, hole = (size_t)(entry - map->entries);
    /* An entry may move back into the hole unless its home lies behind the hole, cyclically. */
    for (size_t i = (hole + 1) & mask; map->entries[i].used; i = (i + 1) & mask) {
        size_t distance = (i - home(map, map->entries[i].key)) & mask;
        if (distance >= ((i - hole) & mask)) {
            map->entries[hole] = map->entries[i];
            hole = i;
        }
    }
    map->entries[hole].used = 0;
    map->count--;
    return true;
}

bool asim_idmap_next(const asim_idmap *map, size_t *cursor, uint64_t *ret_key, uint32_t *ret_value)
{
    while (*cursor < map->size) {
        const asim_idmap_entry *entry = &map->entries[(*cursor)++];
        if (entry->used) {
            *ret_key = entry->key;
            *ret_value = entry->value;
            return true;
        }
    }
    return false;
}
