/* policies/torchcache_lint.h - what an option string does that its writer may not have meant.
 *
 *     asim_tc_lint lint;
 *     asim_tc_lint_conf(asim_tc_release_named("2.6"), "garbage_collection_threshold:0.8", -1, &lint);
 *     // lint.findings[0].text: "garbage_collection_threshold does nothing without a memory fraction; ..."
 *
 * The string is read as torchcache_conf.h reads it for the release. What the release refuses is told with
 * what was probably meant and which release has it; a string that it takes is searched for settings without
 * effect, settings that fight each other, and text that is read otherwise than it looks (specification,
 * section 5).
 */
#ifndef ASIM_POLICIES_TORCHCACHE_LINT_H
#define ASIM_POLICIES_TORCHCACHE_LINT_H

#include "policies/torchcache_conf.h"

#include <stddef.h>

enum {
    ASIM_TC_FINDINGS_MAX = 24,
    ASIM_TC_FINDING_TEXT = 400 /* bytes with the closing zero; longer ones are cut */
};

typedef struct asim_tc_finding {
    bool refused; /* the release does not take the string; otherwise a warning */
    char text[ASIM_TC_FINDING_TEXT];
} asim_tc_finding;

typedef struct asim_tc_lint {
    asim_tc_finding findings[ASIM_TC_FINDINGS_MAX];
    size_t count;
    size_t left_out; /* findings for which there was no room */
    bool refused;    /* one of them is */
} asim_tc_lint;

/* fraction: the memory fraction that is set apart from the string; negative: none. Findings come in a fixed
 * order: what is passed over (1.13); then what is refused, and nothing else; or, option by option, what is
 * odd about it, and then what concerns several. Needs no host memory and can't fail. */
void asim_tc_lint_conf(const asim_tc_release *release, const char *text, double fraction,
                       asim_tc_lint *ret_lint);

#endif
