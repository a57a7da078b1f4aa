/* traces/strtab.h - distinct byte strings, numbered from 0 in the order in which they first appear.
 *
 * An importer names things by these numbers, so that comparing keys is comparing integers. Text is kept as
 * it came, with any bytes in it; asim_strtab_clean gives what a trace may hold.
 */
#ifndef ASIM_TRACES_STRTAB_H
#define ASIM_TRACES_STRTAB_H

#include "sim/hostmem.h"

#include <stdint.h>

typedef struct asim_strtab_item {
    uint64_t offset; /* into bytes; a zero byte follows the text */
    uint32_t length;
    uint32_t hash;
} asim_strtab_item;

typedef struct asim_strtab {
    const asim_hostmem *mem;
    char *bytes;
    size_t used, capacity;
    asim_strtab_item *items;
    size_t count, item_capacity;
    uint32_t *slots; /* open addressing, number + 1; a power of two of them, at most half full */
    size_t slot_count;
} asim_strtab;

void asim_strtab_init(asim_strtab *table, const asim_hostmem *mem);
void asim_strtab_fini(asim_strtab *table); /* a zeroed table is fine */

/* The number of this text, added if it is new. ASIM_E_SYSTEM when memory is refused. */
asim_code asim_strtab_add(asim_strtab *table, const char *text, size_t length, uint32_t *ret_number,
                          asim_err *err);

/* Text of a number below count; valid until the next add. */
static inline const char *asim_strtab_text(const asim_strtab *table, uint32_t number)
{
    return table->bytes + table->items[number].offset;
}

/* Copies length bytes to out, with every byte that is not part of valid UTF-8, and every zero byte, replaced
 * by '?'. The length does not change; out and text may be the same. */
void asim_strtab_clean(char *out, const char *text, size_t length);

#endif
