#include "policies/torchcache_release.h"

#include <stddef.h>

#define MIB (UINT64_C(1) << 20)

const char *const asim_tc_release_names[] = {"1.13", "2.6", NULL};

const asim_tc_release asim_tc_releases[] = {
    {
        .name = "1.13",
        .old_grammar = true,
        .single_division = true,
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
        .min_split_bytes = 21 * MIB,
    },
    {.name = NULL},
};
