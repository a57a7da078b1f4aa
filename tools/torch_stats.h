/* tools/torch_stats.h - PyTorch's memory_stats() as JSON, from a policy's report (specification, R118-R127).
 *
 * The names are flattened with dots and sorted as strings; which exist depends on the release (R126).
 */
#ifndef ASIM_TOOLS_TORCH_STATS_H
#define ASIM_TOOLS_TORCH_STATS_H

#include "sim/hostmem.h"
#include "tools/json.h"

enum {
    ASIM_TORCH_STAT_NAME = 80 /* bytes that hold the longest name, with the closing zero */
};

typedef struct asim_torch_stat {
    char name[ASIM_TORCH_STAT_NAME];
    int64_t value;
} asim_torch_stat;

typedef struct asim_torch_stats { /* of one device; zeroed but for mem */
    const asim_hostmem *mem;
    asim_torch_stat *items;
    size_t count, capacity;
    bool lacks_memory; /* some are missing for want of host memory */
} asim_torch_stats;

/* An emit function for asim_engine_report; ctx is an asim_torch_stats. */
void asim_torch_stats_take(void *ctx, const char *name, int64_t value);
void asim_torch_stats_fini(asim_torch_stats *stats); /* a zeroed one is fine */

/* Writes one object, its members sorted by name. Sorts the items. */
void asim_torch_stats_print(asim_json *json, const char *key, asim_torch_stats *stats);

#endif
