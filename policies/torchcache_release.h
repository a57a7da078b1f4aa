/* policies/torchcache_release.h - what differs between PyTorch releases, in one table.
 *
 * The specification (sections 2 and 26) says which release does what; code asks the flags here and never the
 * release's name. A release is listed once its recorded operations agree.
 */
#ifndef ASIM_POLICIES_TORCHCACHE_RELEASE_H
#define ASIM_POLICIES_TORCHCACHE_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct asim_tc_release {
    const char *name;
    bool old_grammar;           /* R15: the option string of 1.13 */
    bool single_division;       /* R29: one number of rounding divisions, and the bypass threshold */
    bool division_one_rounds;   /* R27, against R28: one division means plain 512-byte rounding */
    bool division_zero_allowed; /* R21: 0 in a list of divisions */
    bool non_split_rounding;    /* 5.3: the option max_non_split_rounding_mb */
    bool expandable;            /* section 15: the option expandable_segments */
    bool keeps_requested;       /* the statistic requested_bytes and the requested size of blocks */
    bool counts_driver_calls;   /* num_sync_all_streams, num_device_alloc, num_device_free */
    bool drops_capture_uses;    /* R79: uses made during a capture get no event afterwards */
    bool newest_scope_wins;     /* R106: of several open scopes that match */
    bool oom_old_order;         /* R177: the numbers of the out-of-memory message, against R175 */
    bool oom_counts_pools;  /* R175: they name the free bytes of private pools, and count them as allocated */
    bool oom_names_limit;   /* R175 item 6: they name the memory limit */
    const char *oom_advice; /* R176, R177: the setting that the message advises to try */
    uint64_t min_split_bytes; /* 5.3: smallest max_split_size_mb and max_non_split_rounding_mb, in bytes */
} asim_tc_release;

/* Ends with a NULL name. The order is that of asim_tc_release_names. */
extern const asim_tc_release asim_tc_releases[];
extern const char *const asim_tc_release_names[]; /* NULL-ended */

/* The release of that name; NULL: none. */
const asim_tc_release *asim_tc_release_named(const char *name);

#endif
