#include "policies/registry.h"

#include <string.h>

/* One a line, so that additions don't meet. */
/* clang-format off */
const asim_policy *const asim_policies[] = {
    &asim_policy_torchcache,
    &asim_policy_npu,
    &asim_policy_bfc,
    &asim_policy_rmm_pool,
    &asim_policy_rmm_arena,
    &asim_policy_rmm_binning,
    &asim_policy_stitch,
    &asim_policy_native,
    &asim_policy_async,
    &asim_policy_static_plan,
    &asim_policy_jemalloc,
    &asim_policy_lower_bound,
    &asim_policy_pow2,
    &asim_policy_first_fit,
    &asim_policy_best_fit,
    &asim_policy_buddy,
    &asim_policy_tlsf,
    &asim_policy_paged,
    &asim_policy_prealloc,
    &asim_policy_tiers,
    &asim_policy_null,
    &asim_policy_skeleton,
    NULL,
};
/* clang-format on */

const asim_policy *asim_policy_find(const char *name)
{
    for (size_t i = 0; asim_policies[i]; i++)
        if (strcmp(asim_policies[i]->name, name) == 0)
            return asim_policies[i];
    return NULL;
}
