/* policies/registry.h - every policy, in the order of every report. Adding one is a line in registry.c. */
#ifndef ASIM_POLICIES_REGISTRY_H
#define ASIM_POLICIES_REGISTRY_H

#include "sim/policy.h"

/* NULL-ended. */
extern const asim_policy *const asim_policies[];

/* By name, exactly as typed; NULL where there is none. */
const asim_policy *asim_policy_find(const char *name);

extern const asim_policy asim_policy_async;
extern const asim_policy asim_policy_best_fit;
extern const asim_policy asim_policy_bfc;
extern const asim_policy asim_policy_buddy;
extern const asim_policy asim_policy_first_fit;
extern const asim_policy asim_policy_jemalloc;
extern const asim_policy asim_policy_lower_bound;
extern const asim_policy asim_policy_native;
extern const asim_policy asim_policy_npu;
extern const asim_policy asim_policy_null;
extern const asim_policy asim_policy_paged;
extern const asim_policy asim_policy_pow2;
extern const asim_policy asim_policy_prealloc;
extern const asim_policy asim_policy_rmm_arena;
extern const asim_policy asim_policy_rmm_binning;
extern const asim_policy asim_policy_rmm_pool;
extern const asim_policy asim_policy_skeleton;
extern const asim_policy asim_policy_stitch;
extern const asim_policy asim_policy_tiers;
extern const asim_policy asim_policy_tlsf;
extern const asim_policy asim_policy_static_plan;
extern const asim_policy asim_policy_torchcache;

#endif
