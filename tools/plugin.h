/* tools/plugin.h - policies in shared objects: `--policy ./mine.so`.
 *
 * The object defines one table, `const asim_policy asim_policy_NAME`, where NAME is the file's name up to its
 * first dot, without a leading "lib", with '-' as '_': mine.so has asim_policy_mine. It may call what sim/
 * and the helpers of policies/ offer. policies/README.md says how to build one.
 *
 * A plug-in is code: loading one runs it, with all rights of the user.
 */
#ifndef ASIM_TOOLS_PLUGIN_H
#define ASIM_TOOLS_PLUGIN_H

#include "sim/policy.h"

/* Whether text names a file rather than a policy: it holds a '/' or ends in ".so". */
bool asim_plugin_is(const char *text);

/* Loads the file and checks its table: size and interface version, then asim_policy_validate. The policy's
 * name becomes NAME@DIGEST, with 8 digits of the file's content, so that a store keeps two builds of one
 * plug-in apart. The policy lives as long as the process; loading the same path again gives the same one,
 * from any thread. Errors are ASIM_E_INPUT, or ASIM_E_SYSTEM for lack of memory, and name the file. */
asim_code asim_plugin_load(const char *path, const asim_policy **ret_policy, asim_err *err);

#endif
