#include "sim/hostmem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void *libc_resize(void *ctx, void *memory, size_t old_size, size_t new_size)
{
    (void)ctx;
    (void)old_size;
    if (new_size == 0) {
        free(memory);
        return NULL;
    }
    return realloc(memory, new_size);
}

const asim_hostmem *asim_hostmem_libc(void)
{
    static const asim_hostmem libc_memory = {libc_resize, NULL};
    return &libc_memory;
}

void *asim_mem_new(const asim_hostmem *mem, size_t count, size_t item_size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, item_size, &bytes) || bytes == 0)
        return NULL;
    void *memory = mem->resize(mem->ctx, NULL, 0, bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

void asim_mem_free(const asim_hostmem *mem, void *memory, size_t count, size_t item_size)
{
    if (memory)
        mem->resize(mem->ctx, memory, count * item_size, 0);
}

asim_code asim_mem_grow(const asim_hostmem *mem, void **memory, size_t *capacity, size_t need,
                        size_t item_size, asim_err *err)
{
    if (need <= *capacity)
        return ASIM_OK;
    size_t wanted = *capacity + *capacity / 2;
    if (wanted < need)
        wanted = need;
    if (wanted < 16)
        wanted = 16;
    size_t bytes;
    if (__builtin_mul_overflow(wanted, item_size, &bytes))
        return asim_fail_memory(err, UINT64_MAX);
    void *moved = mem->resize(mem->ctx, *memory, *capacity * item_size, bytes);
    if (!moved)
        return asim_fail_memory(err, bytes);
    *memory = moved;
    *capacity = wanted;
    return ASIM_OK;
}
