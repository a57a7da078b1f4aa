/* tools/setup.h - from what the user typed to a policy with its parameters and a device profile. */
#ifndef ASIM_TOOLS_SETUP_H
#define ASIM_TOOLS_SETUP_H

#include "sim/policy.h"
#include "sim/profile.h"
#include "tools/cli.h"

typedef struct asim_setup_request { /* NULL: not given */
    const char *policy;             /* "NAME[,key=value...]" */
    const char *max_split;          /* MiB, or "none" */
    const char *conf;               /* a PYTORCH_CUDA_ALLOC_CONF string */
    const char *torch;              /* a PyTorch release */
    const char *device;             /* a built-in profile or a file */
} asim_setup_request;

typedef struct asim_setup {
    const asim_policy *policy;
    void *params;    /* the policy's parameter block */
    char *canonical; /* its canonical spelling */
    size_t canonical_size;
    const char *torch;   /* the release whose rules are followed; "" for policies without one */
    bool torch_named;    /* by the user */
    bool torch_recorded; /* chosen by the recording */
} asim_setup;

/* The policy that text ("NAME[,key=value...]") names, and where its parameters begin ("" where none do). */
asim_code asim_setup_find(const char *text, const asim_policy **ret_policy, const char **ret_params,
                          asim_err *err);
/* The policy's parameter of that name, or NULL. */
const asim_param *asim_setup_param(const asim_policy *policy, const char *name);

/* The policy part. recording: the trace that will be run, or NULL. Where the policy models PyTorch's
 * allocator and the user gave no option string, the recording's own is taken; where the recording carries
 * placements and the user named no release, the newest one is taken that the recording can come from
 * (traces/torch_notes.h; 2.11 where it does not tell: the newest whose choice between free blocks of one size
 * a recording always tells). Errors are ASIM_E_USAGE. */
asim_code asim_setup_policy(const asim_cli *cli, const asim_setup_request *request,
                            const asim_trace *recording, asim_setup *ret_setup, asim_err *err);
void asim_setup_fini(asim_setup *setup, const asim_hostmem *mem);

/* Whether PyTorch would refuse the option string conf, NULL allowed: an error (ASIM_E_USAGE). While the user
 * has named no release, a recording may still choose one: then it is refused if every release refuses it. */
asim_code asim_setup_check_conf(const asim_setup *setup, const char *conf, asim_err *err);
/* Says what is odd about it in the release that the setup follows, a warning a line, after prefix. */
void asim_setup_warn_conf(const asim_setup *setup, const char *conf, const char *prefix);

asim_code asim_setup_profile(const asim_cli *cli, const char *name, asim_profile *ret_profile, asim_err *err);

#endif
