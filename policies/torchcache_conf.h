/* policies/torchcache_conf.h - the allocator's options and the option string that sets them (section 5).
 *
 * The string is what users put into PYTORCH_CUDA_ALLOC_CONF, parsed as the chosen release parses it, with its
 * traps: a number's trailing garbage is ignored (R19), a repeated key overrides (R17), True and False alone
 * are booleans (R18).
 */
#ifndef ASIM_POLICIES_TORCHCACHE_CONF_H
#define ASIM_POLICIES_TORCHCACHE_CONF_H

#include "policies/torchcache_release.h"
#include "policies/torchcache_round.h"
#include "sim/err.h"

typedef struct asim_tc_options {
    uint64_t max_split;    /* m; ASIM_TC_UNLIMITED: no limit */
    uint64_t max_rounding; /* r of R37, bytes */
    double gc_threshold;   /* 0: off */
    bool expandable;       /* expandable_segments */
    asim_tc_rounding rounding;
} asim_tc_options;

void asim_tc_options_default(const asim_tc_release *release, asim_tc_options *ret_options);

/* R10: replaces the string. What the release resets to its default is reset, everything else keeps its value
 * unless named. On an error (ASIM_E_USAGE, naming the key, what stood there and what is allowed) *options is
 * as it was. */
asim_code asim_tc_options_replace(const asim_tc_release *release, const char *text, asim_tc_options *options,
                                  asim_err *err);

/* The same without the reset: what is not named keeps its value. */
asim_code asim_tc_options_apply(const asim_tc_release *release, const char *text, asim_tc_options *options,
                                asim_err *err);

/* R20 and R21: the value of roundup_power2_divisions alone, "4" or "[256:1,512:2,>:8]". */
asim_code asim_tc_divisions_parse(const asim_tc_release *release, const char *text,
                                  asim_tc_rounding *rounding, asim_err *err);

/* 5.3: max_split_size_mb and max_non_split_rounding_mb in bytes. */
asim_code asim_tc_check_split_limit(const asim_tc_release *release, const char *key, uint64_t bytes,
                                    asim_err *err);

/* Whether the release has an option of that name. */
bool asim_tc_option_known(const asim_tc_release *release, const char *key);

#endif
