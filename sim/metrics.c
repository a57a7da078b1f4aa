#include "sim/metrics.h"

const char *asim_metric_name(asim_metric metric)
{
    static const char *const names[] = {
#define ASIM_METRIC_NAME(name, meaning) #name,
        ASIM_METRICS(ASIM_METRIC_NAME)
#undef ASIM_METRIC_NAME
    };
    return names[metric];
}

const char *asim_metric_meaning(asim_metric metric)
{
    static const char *const meanings[] = {
#define ASIM_METRIC_MEANING(name, meaning) meaning,
        ASIM_METRICS(ASIM_METRIC_MEANING)
#undef ASIM_METRIC_MEANING
    };
    return meanings[metric];
}

uint64_t asim_gap_ppm(uint64_t part, uint64_t whole)
{
    if (part >= whole)
        return 0;
    uint64_t gap = whole - part;
    if (gap <= UINT64_MAX / 1000000)
        return gap * 1000000 / whole;
    return (uint64_t)((unsigned __int128)gap * 1000000 / whole);
}
