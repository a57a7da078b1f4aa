/* sim/hostmem.h - host memory is reached through a table, so that tests can refuse the n-th request.
 *
 * One function does it all: resize(ctx, NULL, 0, n) allocates, resize(ctx, p, old, n) moves,
 * resize(ctx, p, old, 0) frees and returns NULL. A refusal returns NULL and leaves p as it was.
 */
#ifndef ASIM_SIM_HOSTMEM_H
#define ASIM_SIM_HOSTMEM_H

#include "sim/err.h"

#include <stddef.h>

typedef struct asim_hostmem {
    void *(*resize)(void *ctx, void *memory, size_t old_size, size_t new_size);
    void *ctx;
} asim_hostmem;

/* The C library's heap. Thread safe; never freed. */
const asim_hostmem *asim_hostmem_libc(void);

/* Zeroed memory for count items of item_size bytes, or NULL (also when the product overflows, or is 0). */
void *asim_mem_new(const asim_hostmem *mem, size_t count, size_t item_size);

/* Frees count items of item_size bytes obtained above; NULL does nothing. */
void asim_mem_free(const asim_hostmem *mem, void *memory, size_t count, size_t item_size);

/* Grows *memory, an array of items of item_size bytes with room for *capacity of them, so that it holds at
 * least need items; capacity grows by half at least, new items are not cleared. On failure nothing changes.
 */
asim_code asim_mem_grow(const asim_hostmem *mem, void **memory, size_t *capacity, size_t need,
                        size_t item_size, asim_err *err);

#endif
