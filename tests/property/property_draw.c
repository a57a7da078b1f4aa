#include "tests/property/property_scenario.h"

#include <string.h>

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)

enum {
    IDS = 40
};

asim_lane scenario_lane(unsigned lane)
{
    const unsigned device = lane / (SCENARIO_STREAMS * SCENARIO_POOLS);
    const unsigned stream = lane / SCENARIO_POOLS % SCENARIO_STREAMS;
    return (asim_lane){.stream =
                           stream ? 16 * device + stream : 0, /* the default stream is 0 on each (R71) */
                       .device = (uint16_t)device,
                       .pool = (uint16_t)(lane % SCENARIO_POOLS)};
}

static uint16_t lane_at(asim_rng *rng, unsigned pool)
{
    const unsigned device = asim_rng_below(rng, 4) == 0, stream = (unsigned)asim_rng_below(rng, 5) % 3;
    return (uint16_t)((device * SCENARIO_STREAMS + stream) * SCENARIO_POOLS + pool);
}

/* On a threshold of the rules, beside it, or anywhere below one. */
static uint64_t size_of(asim_rng *rng, const scenario *s)
{
    static const uint64_t marks[] = {512,      KIB,       4 * KIB,  64 * KIB, 512 * KIB, MIB,
                                     MIB,      2 * MIB,   4 * MIB,  5 * MIB,  9 * MIB,   10 * MIB,
                                     19 * MIB, 20 * MIB,  21 * MIB, 25 * MIB, 32 * MIB,  40 * MIB,
                                     64 * MIB, 100 * MIB, 3 * MIB,  7 * MIB,  12 * MIB};
    uint64_t mark = marks[asim_rng_below(rng, sizeof marks / sizeof marks[0])];
    switch (asim_rng_below(rng, 24)) {
    case 0:
        return asim_rng_below(rng, 4) ? 0 : UINT64_C(1) << 60;
    case 1:
        return s->capacities[0] + asim_rng_below(rng, 3) * MIB;
    case 2:
    case 3:
        if (s->confs[0].max_split != UINT64_MAX)
            mark = s->confs[0].max_split + asim_rng_below(rng, 3) * 20 * MIB;
        return mark - asim_rng_below(rng, 2) * 512;
    case 4:
    case 5:
    case 6:
        return mark;
    case 7:
        return mark + 1;
    case 8:
        return mark - 1;
    case 9:
        return mark - 512;
    case 10:
        return mark + 512;
    default:
        return 1 + asim_rng_below(rng, mark);
    }
}

static asim_event draw_pool_event(asim_rng *rng)
{
    static const uint8_t kinds[] = {ASIM_EV_POOL_BEGIN, ASIM_EV_POOL_JOIN,    ASIM_EV_POOL_END,
                                    ASIM_EV_POOL_END,   ASIM_EV_POOL_RELEASE, ASIM_EV_POOL_RELEASE,
                                    ASIM_EV_POOL_ENTER, ASIM_EV_POOL_LEAVE,   ASIM_EV_POOL_LEAVE,
                                    ASIM_EV_POOL_RETAIN};
    static const uint8_t flags[] = {0, ASIM_POOL_ALL, ASIM_POOL_CAPTURE};
    asim_event event = {.kind = kinds[asim_rng_below(rng, sizeof kinds)],
                        .lane = lane_at(rng, 1 + (unsigned)asim_rng_below(rng, SCENARIO_POOLS - 1))};
    if (event.kind == ASIM_EV_POOL_BEGIN)
        event.flags = flags[asim_rng_below(rng, sizeof flags)];
    return event;
}

static asim_event draw_rare(asim_rng *rng, unsigned confs)
{
    asim_event event = {.lane = lane_at(rng, 0)};
    double fraction = (double)(10 + asim_rng_below(rng, 91)) / 100;
    switch (asim_rng_below(rng, 8)) {
    case 0:
    case 1:
        event.kind = ASIM_EV_TRIM;
        event.lane = ASIM_LANE_ALL;
        break;
    case 2:
        event.kind = ASIM_EV_SETTINGS;
        event.lane = ASIM_LANE_ALL;
        event.id = (uint32_t)asim_rng_below(rng, confs);
        break;
    case 3:
        event.kind = ASIM_EV_FRACTION;
        memcpy(&event.size, &fraction, sizeof event.size);
        break;
    case 4:
        event.kind = ASIM_EV_STATS_RESET;
        event.id = (uint32_t)asim_rng_below(rng, 2);
        break;
    default:
        event.kind = ASIM_EV_SYNC;
        event.id = (uint32_t)asim_rng_below(rng, ASIM_SYNC_ALL + 1);
        break;
    }
    return event;
}

static asim_event draw_event(asim_rng *rng, const scenario *s, bool pools, bool recorded)
{
    const unsigned dice = (unsigned)asim_rng_below(rng, 100);
    asim_event event = {.id = (uint32_t)asim_rng_below(rng, IDS)};
    if (dice < 50) {
        event.kind = ASIM_EV_ALLOC;
        event.lane = lane_at(rng, pools && asim_rng_below(rng, 12) == 0 ? 1 : 0);
        event.size = size_of(rng, s);
    } else if (dice < 76) {
        event.kind = ASIM_EV_FREE;
        event.flags = recorded && asim_rng_below(rng, 4) == 0 ? ASIM_FREE_PENDING : 0;
    } else if (dice < 78) {
        event.kind = ASIM_EV_FREE_DONE;
    } else if (dice < 87) {
        event.kind = ASIM_EV_USE;
        event.lane = lane_at(rng, 0);
    } else if (dice < 93 && pools) {
        return draw_pool_event(rng);
    } else {
        return draw_rare(rng, SCENARIO_CONFS);
    }
    return event;
}

void scenario_draw(const grammar *rules, uint64_t seed, scenario *ret_scenario)
{
    static const uint64_t capacities[] = {24, 64, 100, 128, 200, 400, 1000, 4000};
    scenario *s = ret_scenario;
    asim_rng rng = {seed};
    *s = (scenario){.seed = seed, .fraction = -1};
    const size_t release = (size_t)asim_rng_below(&rng, rules->release_count);
    s->release = rules->releases[release];
    s->version = version_of(s->release);
    for (unsigned i = 0; i < SCENARIO_DEVICES; i++)
        s->capacities[i] = capacities[asim_rng_below(&rng, sizeof capacities / sizeof capacities[0])] * MIB;
    if (asim_rng_below(&rng, 4) == 0)
        s->fraction = (double)(20 + asim_rng_below(&rng, 81)) / 100;
    for (unsigned i = 0; i < SCENARIO_CONFS; i++)
        conf_draw(rules, release, &rng, &s->confs[i]);
    if (s->version < 206 && s->confs[0].expandable == 1 && s->confs[0].max_split != UINT64_MAX)
        s->confs[0] = (drawn_conf){.max_split = UINT64_MAX, .expandable = -1}; /* R55 */
    const bool pools = asim_rng_below(&rng, 2), recorded = asim_rng_below(&rng, 3) == 0;
    s->event_count = SCENARIO_EVENTS;
    for (size_t i = 0; i < s->event_count; i++)
        s->events[i] = draw_event(&rng, s, pools, recorded);
}
