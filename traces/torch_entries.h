/* traces/torch_entries.h - entries of a torch snapshot's history, packed while they are kept.
 *
 * A snapshot names its segments before its history and the opening state is found by walking the history
 * backwards, so all entries must be kept. They are packed in chunks (differences to the entry before, as
 * variable-length integers, about 12 bytes each) that are unpacked whole, into a cursor, when one is read.
 */
#ifndef ASIM_TRACES_TORCH_ENTRIES_H
#define ASIM_TRACES_TORCH_ENTRIES_H

#include "sim/hostmem.h"

#include <stdint.h>

typedef enum asim_torch_action {
    ASIM_TORCH_UNKNOWN = 0,
    ASIM_TORCH_ALLOC = 1,
    ASIM_TORCH_FREE_REQUESTED = 2,
    ASIM_TORCH_FREE_COMPLETED = 3,
    ASIM_TORCH_FREE = 4, /* an old word: requested and completed in one */
    ASIM_TORCH_SEGMENT_ALLOC = 5,
    ASIM_TORCH_SEGMENT_FREE = 6,
    ASIM_TORCH_SEGMENT_MAP = 7,
    ASIM_TORCH_SEGMENT_UNMAP = 8,
    ASIM_TORCH_SNAPSHOT = 9,
    ASIM_TORCH_OOM = 10,
    ASIM_TORCH_ACTIONS = 11
} asim_torch_action;

typedef struct asim_torch_entry {
    uint64_t address; /* of an oom: the driver's free bytes */
    uint64_t size;
    uint64_t time_us; /* 0: none */
    uint32_t stack;   /* or ASIM_NO_INDEX */
    uint16_t route;   /* index of a (stream, pool) */
    uint8_t action;   /* asim_torch_action */
} asim_torch_entry;

_Static_assert(sizeof(asim_torch_entry) == 32, "an unpacked entry costs 32 bytes");

enum {
    ASIM_TORCH_CHUNK = 1024
}; /* entries */

typedef struct asim_torch_entries {
    const asim_hostmem *mem;
    uint8_t *bytes; /* full chunks, packed */
    size_t used, capacity;
    uint64_t *offsets; /* of each full chunk */
    size_t chunk_count, offset_capacity;
    uint64_t count;                          /* entries in all */
    asim_torch_entry open[ASIM_TORCH_CHUNK]; /* the last, incomplete chunk */
} asim_torch_entries;

void asim_torch_entries_init(asim_torch_entries *entries, const asim_hostmem *mem);
void asim_torch_entries_fini(asim_torch_entries *entries);
asim_code asim_torch_entries_add(asim_torch_entries *entries, const asim_torch_entry *entry, asim_err *err);

/* Reads entries in any order; cheap when the next one lies near the last. Don't add meanwhile. */
typedef struct asim_torch_cursor {
    const asim_torch_entries *entries;
    uint64_t chunk; /* the one unpacked below, or UINT64_MAX */
    asim_torch_entry items[ASIM_TORCH_CHUNK];
} asim_torch_cursor;

void asim_torch_cursor_init(asim_torch_cursor *cursor, const asim_torch_entries *entries);
void asim_torch_cursor_load(asim_torch_cursor *cursor, uint64_t chunk);

/* Entry number, below entries->count; valid until the next call. */
static inline const asim_torch_entry *asim_torch_cursor_at(asim_torch_cursor *cursor, uint64_t number)
{
    if (number / ASIM_TORCH_CHUNK != cursor->chunk)
        asim_torch_cursor_load(cursor, number / ASIM_TORCH_CHUNK);
    return &cursor->items[number % ASIM_TORCH_CHUNK];
}

#endif
