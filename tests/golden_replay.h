/* tests/golden_replay.h - one golden case through the engine, as a user's trace goes through it.
 *
 * The engine is stepped with the events that the operations stand for; an observer collects what happened
 * during each. What came out is written as the file writes it and compared line by line.
 */
#ifndef ASIM_TESTS_GOLDEN_REPLAY_H
#define ASIM_TESTS_GOLDEN_REPLAY_H

#include "sim/engine.h"
#include "tests/golden_case.h"

typedef struct golden_options {
    const asim_policy *policy;
    const char *release; /* of PyTorch, "2.6"; NULL: as the number of statistics tells, 1.13, 2.1 or 2.6 */
    asim_check check;
} golden_options;

/* Replays the case up to its end or the first difference. *ret_equal tells which; a difference is appended to
 * *difference in full, and so is an error of the engine. The code returned is ASIM_OK but for a release that
 * the policy does not know (ASIM_E_USAGE), options of the case that it refuses (ASIM_E_INPUT), and host
 * memory that ran out. */
asim_code golden_replay(const golden_case *c, const golden_options *options, bool *ret_equal,
                        golden_text *difference, asim_err *err);

#endif
