#include "tools/torch_stats.h"

#include <stdlib.h>
#include <string.h>

void asim_torch_stats_take(void *ctx, const char *name, int64_t value)
{
    asim_torch_stats *stats = ctx;
    if (asim_mem_grow(stats->mem, (void **)&stats->items, &stats->capacity, stats->count + 1,
                      sizeof *stats->items, NULL)) {
        stats->lacks_memory = true;
        return;
    }
    asim_torch_stat *item = &stats->items[stats->count++];
    snprintf(item->name, sizeof item->name, "%s", name);
    item->value = value;
}

void asim_torch_stats_fini(asim_torch_stats *stats)
{
    if (stats->items)
        asim_mem_free(stats->mem, stats->items, stats->capacity, sizeof *stats->items);
    *stats = (asim_torch_stats){0};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const asim_torch_stat *)a)->name, ((const asim_torch_stat *)b)->name);
}

void asim_torch_stats_print(asim_json *json, const char *key, asim_torch_stats *stats)
{
    if (stats->count > 0)
        qsort(stats->items, stats->count, sizeof *stats->items, by_name);
    asim_json_begin(json, key, '{');
    for (size_t i = 0; i < stats->count; i++)
        asim_json_integer(json, stats->items[i].name, stats->items[i].value);
    asim_json_end(json, '}');
}
