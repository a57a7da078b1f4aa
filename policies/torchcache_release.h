/* policies/torchcache_release.h - what differs between PyTorch releases, in one table.
 *
 * The specification (sections 2 and 26) and tests/oracle/FINDINGS.md say which release does what; code asks
 * the flags here and never the release's name. A release is listed once operations recorded from it agree.
 */
#ifndef ASIM_POLICIES_TORCHCACHE_RELEASE_H
#define ASIM_POLICIES_TORCHCACHE_RELEASE_H

#include "sim/err.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum asim_tc_option { /* of the option string (5.3) */
    ASIM_TC_MAX_SPLIT,
    ASIM_TC_MAX_ROUNDING,
    ASIM_TC_LARGE_SEGMENT,
    ASIM_TC_GC_THRESHOLD,
    ASIM_TC_DIVISIONS,
    ASIM_TC_BYPASS,
    ASIM_TC_EXPANDABLE,
    ASIM_TC_FRACTION,
    ASIM_TC_THROW,
    ASIM_TC_RESERVE,
    ASIM_TC_RESERVE_BY_CLASS,
    ASIM_TC_GRAPH_REUSE,
    ASIM_TC_BACKEND,
    ASIM_TC_RELEASE_LOCK,
    ASIM_TC_PINNED_REGISTER,
    ASIM_TC_PINNED_THREADS,
    ASIM_TC_PINNED_BACKGROUND,
    ASIM_TC_PINNED_SEGMENT,
    ASIM_TC_PINNED_CATCH_ALL,
    ASIM_TC_PINNED_SIZES,
    ASIM_TC_NPU_BASE_ALIGN, /* torch_npu's own */
    ASIM_TC_NPU_PAGE_SIZE,
    ASIM_TC_NPU_SEGMENT_SIZE,
    ASIM_TC_NPU_LAZY_RECLAIM,
    ASIM_TC_NPU_THROW,
    ASIM_TC_NPU_OTHERS,
    ASIM_TC_OPTIONS
} asim_tc_option;

typedef struct asim_tc_release {
    const char *name;
    uint32_t options;          /* those it knows: a bit each, 1 << asim_tc_option */
    uint64_t min_split_bytes;  /* 5.3: smallest max_split_size_mb and max_non_split_rounding_mb, in bytes; 0:
                                  the size of large segments */
    const char *oom_advice;    /* R176, R177: the setting that the message advises to try */
    bool old_grammar;          /* R15: the option string of 1.13 */
    bool lenient_grammar;      /* R14, R19: separators are skipped unread; numbers have 64 bits */
    bool division_list;        /* R21: divisions by interval */
    bool division_one_rounds;  /* R27, against R28: one division means plain 512-byte rounding */
    bool division_zero;        /* R21: 0 in a list of divisions */
    bool division_rest_next;   /* R21: ">" begins with the interval after the last one named */
    bool resets_rounding;      /* R10: new settings reset max_non_split_rounding_mb */
    bool full_lifts_limit;     /* R114: the fraction 1 removes the limit */
    bool limit_rounds;         /* R114: the limit is rounded to the nearest byte */
    bool pools_expand;         /* R81: private pools use expandable segments */
    bool available_skips;      /* R54, R55: release-available passes expandable blocks over */
    bool returns_short_range;  /* R87: a range smaller than its request is given back at once */
    bool drops_capture_uses;   /* R79: uses made during a capture get no event afterwards */
    bool captures_by_stream;   /* R77: only a capture of the current stream counts */
    bool newest_scope_wins;    /* R106: of several open scopes that match */
    bool last_try_in_pool;     /* R61: with an active pool, the last attempt releases that pool alone */
    bool trims_default;        /* R61: emptying the cache looks at no active pool */
    bool no_expandable_active; /* a pool may not become active with expandable_segments on */
    bool pools_help;           /* R111: use_on_oom of pools */
    bool pools_help_first;     /* R42: before memory is released, not after */
    bool pools_unsplit;        /* R112: no_split of pools */
    bool unsplit_ends;         /* R103: that mark goes with the pool's last use, else it stays with the id */
    bool oldest_first;         /* R33: of free blocks of one size, that of the oldest segment */
    bool keeps_requested;      /* the statistic requested_bytes and the requested size of blocks */
    bool counts_driver_calls;  /* num_sync_all_streams, num_device_alloc, num_device_free */
    bool counts_rejections;    /* R116: num_oom_rejections; R123: reserved_bytes_by_private_pools */
    bool oom_old_order;        /* R177: the numbers of the out-of-memory message, against R175 */
    bool oom_counts_pools; /* R175: they name the free bytes of private pools, and count them as allocated */
    bool oom_names_limit;  /* R175 item 6: they name the memory limit */
    bool waits_before_release; /* torch_npu: the device is waited for before cached memory goes back */
    bool oom_advises_reserve;  /* R176: with expandable segments on, it advises a larger range of addresses */
} asim_tc_release;

/* Ends with a NULL name. The order is that of asim_tc_release_names. */
extern const asim_tc_release asim_tc_releases[];
/* torch_npu's variant, no release of PyTorch's and in no list: policies/npu.c. */
extern const asim_tc_release asim_tc_npu;
extern const char *const asim_tc_release_names[]; /* NULL-ended */

/* The release of that name; NULL: none. */
const asim_tc_release *asim_tc_release_named(const char *name);

/* The index of a release by its series or a full version: "2.6", "2.6.0", "2.9.1+cu128". ASIM_E_USAGE says
 * which there are, and why a known one is missing. */
asim_code asim_tc_release_find(const char *text, int *ret_index, asim_err *err);

static inline bool asim_tc_has(const asim_tc_release *release, asim_tc_option option)
{
    return (release->options >> option & 1) != 0;
}

#endif
