/* tools/expect.h - conditions on a run's result, for continuous integration: "no-oom",
 * "peak_reserved_bytes<=78GiB".
 */
#ifndef ASIM_TOOLS_EXPECT_H
#define ASIM_TOOLS_EXPECT_H

#include "sim/engine.h"

#include <stdio.h>

typedef enum asim_relation {
    ASIM_REL_LE,
    ASIM_REL_GE,
    ASIM_REL_EQ,
    ASIM_REL_NE,
    ASIM_REL_LT,
    ASIM_REL_GT,
} asim_relation;

typedef struct asim_expectation {
    const char *text; /* as given */
    asim_metric metric;
    asim_relation relation;
    uint64_t value;
} asim_expectation;

/* Sizes may carry a unit where the metric's name ends in _bytes. text stays the caller's. */
asim_code asim_expect_parse(const char *text, asim_expectation *ret_expectation, asim_err *err);
bool asim_expect_holds(const asim_expectation *expectation, const asim_run_record *record);

#endif
