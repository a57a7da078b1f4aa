/* property - random options and operations through torchcache, every statistic against slow bookkeeping.
 *
 * A failure prints the seed, what was wrong, and the operations that still show it after all others were left
 * out. --first SEED --seeds 1 shows it again.
 */
#include "policies/registry.h"
#include "tests/property/property_scenario.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: property [--seeds N] [--first SEED] [--torch RELEASE]\n"
    "  --seeds N        that many scenarios (600)\n"
    "  --first SEED     the first seed (1); the others follow it\n"
    "  --torch RELEASE  that release alone, instead of one drawn from all that torchcache models\n"
    "Example: property --seeds 20000 --torch 2.6\n";

static void print_event(const scenario *s, size_t index)
{
    const asim_event *event = &s->events[index];
    printf("  %3zu %s", index, asim_event_kind_name(event->kind));
    if (event->lane != ASIM_LANE_ALL) {
        const asim_lane lane = scenario_lane(event->lane);
        printf(" device %u stream %" PRIu64 " pool %u", lane.device, lane.stream, lane.pool);
    }
    if (event->kind == ASIM_EV_SETTINGS)
        printf(" \"%s\"\n", s->confs[event->id].text);
    else
        printf(" id %u size %" PRIu64 " flags %u\n", event->id, event->size, event->flags);
}

/* Leaves out ever smaller pieces as long as something still goes wrong. */
static void shrink(const grammar *rules, const scenario *s, bool *chosen, outcome *last)
{
    for (size_t i = last->at + 1; i < s->event_count; i++)
        chosen[i] = false;
    for (size_t piece = last->at / 2 + 1; piece > 0; piece /= 2)
        for (size_t from = 0; from < s->event_count; from += piece) {
            bool tried[SCENARIO_EVENTS];
            outcome now;
            bool some = false;
            memcpy(tried, chosen, sizeof tried);
            for (size_t i = from; i < from + piece && i < s->event_count; i++) {
                some |= tried[i];
                tried[i] = false;
            }
            if (!some)
                continue;
            scenario_run(rules, s, tried, &now);
            if (!now.failed)
                continue;
            memcpy(chosen, tried, sizeof tried);
            *last = now;
        }
}

static void explain(const grammar *rules, const scenario *s, const outcome *first)
{
    bool chosen[SCENARIO_EVENTS];
    outcome last = *first;
    printf("seed %" PRIu64 ", operation %zu: %s\n", s->seed, first->at, first->message);
    memset(chosen, true, sizeof chosen);
    shrink(rules, s, chosen, &last);
    printf("  torch %s, capacity %" PRIu64 " and %" PRIu64 ", fraction %g, options \"%s\"\n", s->release,
           s->capacities[0], s->capacities[1], s->fraction, s->confs[0].text);
    for (size_t i = 0; i < s->event_count; i++)
        if (chosen[i])
            print_event(s, i);
    printf("  then: %s\n", last.message);
}

static int complain(const char *what)
{
    fprintf(stderr, "property: %s\n%s", what, usage);
    return 2;
}

int main(int argc, char **argv)
{
    uint64_t seeds = 600, first = 1;
    const char *only = NULL;
    for (int i = 1; i < argc; i += 2) {
        if (!strcmp(argv[i], "--help")) {
            fputs(usage, stdout);
            return 0;
        }
        if (i + 1 == argc)
            return complain("a value is missing");
        if (!strcmp(argv[i], "--seeds"))
            seeds = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--first"))
            first = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--torch"))
            only = argv[i + 1];
        else
            return complain("unknown option");
    }
    grammar all;
    grammar_read(asim_policy_find("torchcache"), &all);
    if (only) {
        size_t kept = 0;
        for (size_t i = 0; i < all.release_count; i++)
            if (!strcmp(all.releases[i], only)) {
                all.releases[0] = all.releases[i];
                all.keys[0] = all.keys[i];
                kept = 1;
            }
        all.release_count = kept;
    }
    if (!all.release_count || !seeds)
        return complain("no such release, or no scenario");
    scenario *s = malloc(sizeof *s);
    if (!s)
        abort();
    outcome sum = {0};
    for (uint64_t i = 0; i < seeds && !sum.failed; i++) {
        outcome now;
        scenario_draw(&all, first + i, s);
        scenario_run(&all, s, NULL, &now);
        sum.operations += now.operations;
        sum.doubts += now.doubts;
        sum.ooms += now.ooms;
        sum.retries += now.retries;
        sum.failed = now.failed;
        if (now.failed)
            explain(&all, s, &now);
    }
    free(s);
    if (!sum.failed)
        printf("%" PRIu64 " scenarios of %zu releases, %" PRIu64 " operations, %" PRIu64
               " requests refused; retries known up to one in %" PRIu64 " places\n",
               seeds, all.release_count, sum.operations, sum.ooms, sum.doubts);
    return sum.failed;
}
