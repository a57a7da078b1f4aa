/* policies/static_plan_trace.h - the requests of a whole trace, with their lifetimes, and a plan for each
 * device.
 *
 * Time is counted in events: what the opening state holds begins at 0, and event i happens at i + 1. A block
 * lives until its free, or, where the recording says when a free completes, until then; what is never freed
 * lives to the end. A block that changes its size has the largest one from the start. Requests of no bytes,
 * and sizes that no plan can hold (rounded, beyond the device), are left out.
 */
#ifndef ASIM_POLICIES_STATIC_PLAN_TRACE_H
#define ASIM_POLICIES_STATIC_PLAN_TRACE_H

#include "policies/static_plan_pack.h"
#include "sim/policy.h"

typedef struct asim_plan_request { /* in the order in which a policy is asked */
    uint64_t asked;                /* bytes, as asked for */
    uint64_t size;                 /* bytes in the plan; 0: not planned */
    uint64_t offset;
    uint32_t rank; /* of its offset among those of its device */
    uint16_t device;
    uint8_t state; /* asim_block_state; the policy's own */
} asim_plan_request;

typedef struct asim_trace_plan {
    const asim_hostmem *memory;
    asim_plan_request *requests;
    size_t request_room;
    uint32_t count;
    asim_plan_result *results; /* of each device */
    uint32_t device_count;
} asim_trace_plan;

/* Plans env->future; align, at least 1: offsets and sizes are multiples of it. Errors: ASIM_E_INPUT (the
 * sizes add up beyond 2^62), ASIM_E_SYSTEM. asim_trace_plan_fini follows in any case. */
asim_code asim_trace_plan_make(asim_trace_plan *plan, const asim_policy_env *env, uint64_t align,
                               const asim_plan_options *options, asim_err *err);
void asim_trace_plan_fini(asim_trace_plan *plan); /* accepts a zeroed one */

#endif
