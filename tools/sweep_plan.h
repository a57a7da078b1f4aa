/* tools/sweep_plan.h - the configurations that the options of `sweep` stand for, written out one by one.
 *
 *     --policy torchcache,max_split_size_mb=64:256:x2 --policy bfc --set pool=1GiB,2GiB --capacity
 * 40GiB,80GiB
 *
 * Their order is that of the table: capacities, then policies as given, then their option strings, then their
 * parameters as given, the last one running fastest. A parameter of --set goes to every policy that has it.
 */
#ifndef ASIM_TOOLS_SWEEP_PLAN_H
#define ASIM_TOOLS_SWEEP_PLAN_H

#include "sim/policy.h"
#include "tools/cli.h"

enum {
    ASIM_SWEEP_MAX = 100000 /* runs of one sweep */
};

typedef struct asim_sweep_request { /* as typed; NULL or no items: not given */
    asim_option_list policies;      /* "NAME[,key=RANGE...]" or "all" */
    asim_option_list sets;          /* "KEY=RANGE" */
    asim_option_list confs;         /* option strings, each an alternative */
    const char *max_split, *torch;  /* RANGE */
    const char *capacity;           /* RANGE of sizes */
} asim_sweep_request;

typedef struct asim_sweep_config {
    char *policy; /* "NAME,key=value,...", as asim_setup_request takes it */
    size_t policy_size;
    const char *conf;  /* the caller's; NULL: none given */
    uint64_t capacity; /* bytes; 0: not given */
} asim_sweep_config;

typedef struct asim_sweep_plan {
    asim_sweep_config *configs;
    size_t count, capacity; /* capacity: of the array */
} asim_sweep_plan;

/* Every configuration was tried: none has an unknown parameter or a value out of bounds. Errors are
 * ASIM_E_USAGE and name the option. Freed with asim_sweep_plan_fini, also after an error. */
asim_code asim_sweep_plan_make(const asim_cli *cli, const asim_sweep_request *request, asim_sweep_plan *plan,
                               asim_err *err);
void asim_sweep_plan_fini(asim_sweep_plan *plan, const asim_hostmem *mem);

#endif
