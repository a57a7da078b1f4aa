#include "sim/failures.h"

#include <string.h>

asim_code asim_failures_add(asim_failures *failures, const asim_oom *oom, const char *message,
                            const asim_hostmem *mem, asim_err *err)
{
    if (failures->count == ASIM_FAILURES_MAX)
        return ASIM_OK;
    void *items = failures->items;
    asim_code code =
        asim_mem_grow(mem, &items, &failures->capacity, failures->count + 1, sizeof *failures->items, err);
    failures->items = items;
    if (code)
        return code;
    asim_failure *failure = &failures->items[failures->count];
    *failure = (asim_failure){.oom = *oom};
    if (message && message[0]) {
        const size_t size = strlen(message) + 1;
        if (!(failure->message = asim_mem_new(mem, size, 1)))
            return asim_fail_memory(err, size);
        memcpy(failure->message, message, size);
    }
    failures->count++;
    return ASIM_OK;
}

void asim_failures_fini(asim_failures *failures, const asim_hostmem *mem)
{
    for (size_t i = 0; i < failures->count; i++)
        if (failures->items[i].message)
            asim_mem_free(mem, failures->items[i].message, strlen(failures->items[i].message) + 1, 1);
    asim_mem_free(mem, failures->items, failures->capacity, sizeof *failures->items);
    *failures = (asim_failures){0};
}
