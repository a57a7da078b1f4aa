#include "tools/compare_rows.h"

#include "sim/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void asim_rows_init(asim_rows *rows, const asim_hostmem *mem)
{
    *rows = (asim_rows){.mem = mem};
    asim_idmap_init(&rows->index, mem);
}

void asim_rows_fini(asim_rows *rows)
{
    if (!rows->mem)
        return;
    asim_idmap_fini(&rows->index);
    asim_mem_free(rows->mem, rows->rows, rows->capacity, sizeof *rows->rows);
    *rows = (asim_rows){0};
}

asim_code asim_rows_add(asim_rows *rows, unsigned side, const char *key, uint64_t bytes, asim_err *err)
{
    char own[ASIM_ROW_KEY];
    snprintf(own, sizeof own, "%s", key);
    uint64_t hash = asim_hash_bytes(0, own, strlen(own));
    uint32_t at;
    while (asim_idmap_get(&rows->index, hash, &at) && strcmp(rows->rows[at].key, own) != 0)
        hash++; /* two keys of one hash */
    if (!asim_idmap_get(&rows->index, hash, &at)) {
        void *items = rows->rows;
        asim_code code =
            asim_mem_grow(rows->mem, &items, &rows->capacity, rows->count + 1, sizeof *rows->rows, err);
        if (code)
            return code;
        rows->rows = items;
        at = (uint32_t)rows->count;
        if ((code = asim_idmap_put(&rows->index, hash, at, err)))
            return code;
        rows->rows[rows->count] = (asim_row){0};
        memcpy(rows->rows[rows->count++].key, own, sizeof own);
    }
    rows->rows[at].bytes[side] += bytes;
    rows->rows[at].count[side]++;
    return ASIM_OK;
}

static uint64_t distance(const uint64_t pair[2])
{
    return pair[0] > pair[1] ? pair[0] - pair[1] : pair[1] - pair[0];
}

static int descending(uint64_t x, uint64_t y)
{
    return (x < y) - (x > y);
}

static int order(const void *left, const void *right)
{
    const asim_row *x = left, *y = right;
    int by = descending(distance(x->bytes), distance(y->bytes));
    if (!by)
        by = descending(distance(x->count), distance(y->count));
    if (!by)
        by = descending(x->bytes[0] > x->bytes[1] ? x->bytes[0] : x->bytes[1],
                        y->bytes[0] > y->bytes[1] ? y->bytes[0] : y->bytes[1]);
    return by ? by : strcmp(x->key, y->key);
}

void asim_rows_sort(asim_rows *rows)
{
    if (rows->count)
        qsort(rows->rows, rows->count, sizeof *rows->rows, order);
    asim_idmap_fini(&rows->index);
}
