/* tests/golden_watch.h - names what an engine does as the golden files do: regions, tokens and maps.
 *
 * Regions carry the numbers that the device gave them; a position is a region and an offset in it.
 */
#ifndef ASIM_TESTS_GOLDEN_WATCH_H
#define ASIM_TESTS_GOLDEN_WATCH_H

#include "sim/engine.h"
#include "tests/golden_case.h"

typedef struct golden_region {
    uint64_t address; /* of its first byte */
    uint32_t index;
} golden_region;

typedef struct golden_watch {
    golden_format format;
    golden_text tokens;     /* of the current operation, a space in front of each */
    golden_region *regions; /* seen so far, by address */
    size_t region_count, region_capacity;
    const asim_lane *lanes;
} golden_watch;

extern const asim_observer golden_observer; /* its config: a golden_watch */

/* A stream's handle is its number on device 0, and larger on later devices; the legacy stream is 0 on all. */
static inline uint64_t golden_stream_handle(unsigned device, unsigned stream)
{
    return stream ? (uint64_t)device * GOLDEN_STREAMS + stream : 0;
}

void golden_watch_fini(golden_watch *watch);

/* Appends REGION and OFFSET, each behind the separator. region: what the policy said, or ASIM_NO_INDEX. */
void golden_position(const golden_watch *watch, golden_text *text, char separator, uint64_t address,
                     uint32_t region);

/* Appends the map of one device, a zero behind each line; returns the number of lines. pool: that pool
 * alone, and of its expandable segments only what is mapped at the start; 0: everything. */
size_t golden_map(const asim_engine *engine, const golden_watch *watch, unsigned device, unsigned pool,
                  golden_text *text);

#endif
