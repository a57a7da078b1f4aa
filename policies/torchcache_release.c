#include "policies/torchcache_release.h"

#include <stddef.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

const char *const asim_tc_release_names[] = {"1.13", "2.6", NULL};

const asim_tc_release asim_tc_releases[] = {
    {
        .name = "1.13",
        .old_grammar = true,
        .single_division = true,
        .oom_old_order = true,
        .oom_names_limit = true,
        .oom_advice = "max_split_size_mb",
        .min_split_bytes = 21 * MIB,
    },
    {
        .name = "2.6",
        .division_one_rounds = true,
        .division_zero_allowed = true,
        .non_split_rounding = true,
        .expandable = true,
        .keeps_requested = true,
        .counts_driver_calls = true,
        .drops_capture_uses = true,
        .oom_counts_pools = true,
        .oom_names_limit = true,
        .oom_advice = "expandable_segments:True",
        .min_split_bytes = 21 * MIB,
    },
    {.name = NULL},
};

const asim_tc_release *asim_tc_release_named(const char *name)
{
    for (size_t i = 0; asim_tc_releases[i].name; i++)
        if (strcmp(asim_tc_releases[i].name, name) == 0)
            return &asim_tc_releases[i];
    return NULL;
}
