/* tests/property/property_scenario.h - random option strings and operations, and how they run.
 *
 * Everything follows from a seed. Operations are drawn without looking at what became of those before; an
 * operation that means nothing at its turn (a free of what does not live) is left out when it is reached.
 * So any selection of a scenario's operations is a scenario, which is what makes shrinking cheap.
 */
#ifndef ASIM_TESTS_PROPERTY_PROPERTY_SCENARIO_H
#define ASIM_TESTS_PROPERTY_PROPERTY_SCENARIO_H

#include "sim/event.h"
#include "sim/policy.h"
#include "sim/rng.h"

enum {
    SCENARIO_DEVICES = 2,
    SCENARIO_STREAMS = 3,
    SCENARIO_POOLS = 3, /* 0: none */
    SCENARIO_LANES = SCENARIO_DEVICES * SCENARIO_STREAMS * SCENARIO_POOLS,
    SCENARIO_CONFS = 4, /* the first is the one at the start */
    SCENARIO_EVENTS = 400,
    SCENARIO_RELEASES = 32
};

typedef struct drawn_conf {
    char text[256];
    uint64_t max_split; /* bytes; UINT64_MAX: not named */
    int expandable;     /* -1: not named */
    bool limits;        /* names a memory fraction */
} drawn_conf;

typedef struct scenario {
    uint64_t seed;
    const char *release;
    unsigned version; /* 206 is 2.6 */
    uint64_t capacities[SCENARIO_DEVICES];
    double fraction; /* negative: none */
    drawn_conf confs[SCENARIO_CONFS];
    asim_event events[SCENARIO_EVENTS];
    size_t event_count;
} scenario;

/* What each release of the parameter torch takes. */
typedef struct grammar {
    const asim_policy *policy;
    const char *releases[SCENARIO_RELEASES];
    size_t release_count;
    uint32_t keys[SCENARIO_RELEASES]; /* a bit for each option that the release knows */
} grammar;

void grammar_read(const asim_policy *policy, grammar *ret_grammar);
unsigned version_of(const char *release);
void conf_draw(const grammar *rules, size_t release, asim_rng *rng, drawn_conf *ret_conf);

asim_lane scenario_lane(unsigned lane);
void scenario_draw(const grammar *rules, uint64_t seed, scenario *ret_scenario);

typedef struct outcome {
    bool failed;
    size_t at; /* index of the event */
    char message[512];
    uint64_t operations, doubts, ooms, retries;
} outcome;

/* Runs the events for which chosen is true (NULL: all). */
void scenario_run(const grammar *rules, const scenario *s, const bool *chosen, outcome *ret_outcome);

#endif
