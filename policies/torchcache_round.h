/* policies/torchcache_round.h - sizes: rounding of requests, choice of pool, size of segments (section 6).
 */
#ifndef ASIM_POLICIES_TORCHCACHE_ROUND_H
#define ASIM_POLICIES_TORCHCACHE_ROUND_H

#include <stdbool.h>
#include <stdint.h>

#define ASIM_TC_MIN_BLOCK    UINT64_C(512)
#define ASIM_TC_SMALL_MAX    (UINT64_C(1) << 20) /* largest rounded size of the small pool */
#define ASIM_TC_SMALL_SEG    (UINT64_C(2) << 20)
#define ASIM_TC_LARGE_SEG    (UINT64_C(20) << 20) /* unless large_segment_size_mb says otherwise */
#define ASIM_TC_MEDIUM_LIMIT (UINT64_C(10) << 20)
#define ASIM_TC_ROUND_SEG    (UINT64_C(2) << 20)
#define ASIM_TC_HARD_LIMIT   (UINT64_C(1) << 60) /* R24 */
#define ASIM_TC_UNLIMITED    UINT64_MAX

enum {
    ASIM_TC_SLOTS = 16,
    ASIM_TC_LAZY_EVENTS = 512, /* torch_npu: pending events above which a lazy request looks at them */
};

typedef struct asim_tc_rounding {
    bool on;           /* some slot is not 0 */
    bool one_is_exact; /* R28: one division leaves the size as it is */
    uint32_t padding;  /* of torch_npu: bytes added to a request first */
    uint64_t bypass;   /* R29: larger sizes are rounded to 512 */
    uint32_t divisions[ASIM_TC_SLOTS];
} asim_tc_rounding;

static inline uint64_t asim_tc_ceil(uint64_t size, uint64_t multiple)
{
    return (size + multiple - 1) / multiple * multiple;
}

/* R23 and R26, for size > 0: by the divisions of the size's own power of two. */
uint64_t asim_tc_round_divided(const asim_tc_rounding *rounding, uint64_t size);

/* R25. size is positive and below ASIM_TC_HARD_LIMIT. */
static inline uint64_t asim_tc_round(const asim_tc_rounding *rounding, uint64_t size)
{
    size += rounding->padding;
    if (rounding->on)
        return asim_tc_round_divided(rounding, size);
    return asim_tc_ceil(size, ASIM_TC_MIN_BLOCK);
}

/* R30. */
static inline bool asim_tc_is_large(uint64_t rounded)
{
    return rounded > ASIM_TC_SMALL_MAX;
}

/* R31: what is asked of the device for a request of this rounded size, and counts against a limit.
 * large_segment: the option large_segment_size_mb, in bytes. */
static inline uint64_t asim_tc_segment_size(uint64_t rounded, uint64_t large_segment)
{
    if (rounded <= ASIM_TC_SMALL_MAX)
        return ASIM_TC_SMALL_SEG;
    if (rounded < ASIM_TC_MEDIUM_LIMIT)
        return large_segment;
    return asim_tc_ceil(rounded, ASIM_TC_ROUND_SEG);
}

#endif
