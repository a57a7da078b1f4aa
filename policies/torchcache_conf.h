/* policies/torchcache_conf.h - the allocator's options and the option string that sets them (section 5).
 *
 * The string is what users put into PYTORCH_CUDA_ALLOC_CONF, parsed as the chosen release parses it, with its
 * traps: a number's trailing garbage is ignored (R19), a repeated key overrides (R17), True and False alone
 * are booleans (R18), and from release 2.10 on a wrong separator goes unnoticed (R14).
 */
#ifndef ASIM_POLICIES_TORCHCACHE_CONF_H
#define ASIM_POLICIES_TORCHCACHE_CONF_H

#include "policies/torchcache_release.h"
#include "policies/torchcache_round.h"
#include "sim/err.h"

typedef struct asim_tc_options {
    uint64_t max_split;     /* m; ASIM_TC_UNLIMITED: no limit */
    uint64_t max_rounding;  /* r of R37, bytes */
    double gc_threshold;    /* 0: off */
    uint64_t large_segment; /* LARGE_SEG, bytes */
    bool expandable;        /* expandable_segments */
    bool throws;            /* throw_on_cudamalloc_oom */
    bool graph_reuse;       /* graph_capture_record_stream_reuse */
    bool reserve_is_share;  /* reserve is a share of the device, otherwise bytes */
    double reserve;         /* expandable_segments_reserve; 0: unset */
    double fraction;        /* per_process_memory_fraction */
    asim_tc_rounding rounding;
    /* Of torch_npu alone; 0 or false otherwise. */
    uint64_t base_align; /* base_addr_aligned_kb, bytes */
    uint64_t huge_page;  /* page_size, bytes */
    uint64_t page;       /* segment_size_mb, bytes; of large expandable segments */
    bool lazy_reclaim;   /* multi_stream_lazy_reclaim */
} asim_tc_options;

/* What is asked of the device for a request of this rounded size. */
static inline uint64_t asim_tc_segment_bytes(const asim_tc_options *options, uint64_t rounded)
{
    if (options->huge_page && asim_tc_is_large(rounded))
        return asim_tc_ceil(rounded, options->huge_page);
    return asim_tc_segment_size(rounded, options->large_segment);
}

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

/* 5.3: max_split_size_mb and max_non_split_rounding_mb in bytes; large_segment_size_mb likewise. */
asim_code asim_tc_check_split_limit(const asim_tc_release *release, const asim_tc_options *options,
                                    const char *key, uint64_t bytes, asim_err *err);
asim_code asim_tc_check_large_segment(const char *key, uint64_t bytes, asim_err *err);

/* No device has more, and sums with it must not overflow. */
static inline uint64_t asim_tc_clamp_large_segment(uint64_t bytes)
{
    return bytes < ASIM_TC_HARD_LIMIT ? bytes : ASIM_TC_HARD_LIMIT;
}

/* Whether the release has an option of that name. */
bool asim_tc_option_known(const asim_tc_release *release, const char *key);

#endif
