/* policies/torchcache_params.h - torchcache's parameters, and the options they stand for. */
#ifndef ASIM_POLICIES_TORCHCACHE_PARAMS_H
#define ASIM_POLICIES_TORCHCACHE_PARAMS_H

#include "policies/torchcache_conf.h"
#include "sim/params.h"

typedef struct asim_tc_params { /* the parameter block */
    int release;                /* index into asim_tc_releases */
    uint64_t max_split_size;
    uint64_t max_non_split_rounding;
    uint64_t large_segment_size;
    double garbage_collection_threshold;
    char roundup_power2_divisions[ASIM_PARAM_TEXT_MAX];
    uint64_t roundup_bypass_threshold;
    bool expandable_segments;
    double fraction; /* negative: no limit */
    char conf[ASIM_PARAM_TEXT_MAX];
} asim_tc_params;

enum {
    ASIM_TC_PARAMS = 10
};

extern const asim_param asim_tc_param_list[ASIM_TC_PARAMS];

/* The options at the start of a run: the single parameters first, then conf, which overrides them. What the
 * release does not know, or does not allow, is ASIM_E_USAGE. fraction is no option; the caller applies it. */
asim_code asim_tc_params_read(const asim_tc_params *given, const asim_tc_release *release,
                              asim_tc_options *ret_options, asim_err *err);

#endif
