/* sim/script.h - the recorded driver calls, followed as long as the run makes the same ones.
 *
 * The device model looks at the next recorded call to answer as the recorded driver did; the ledger compares
 * each call that was made and moves on. The first difference ends the script for good: from there the run is
 * a what-if, and calls are no longer compared.
 */
#ifndef ASIM_SIM_SCRIPT_H
#define ASIM_SIM_SCRIPT_H

#include "sim/event.h"

typedef struct asim_script {
    const asim_recorded_call *calls;
    uint32_t count;
    uint32_t next;
    uint64_t event; /* index of the event being replayed */
    bool active;
} asim_script;

/* The recorded call that comes next during the current event, or NULL (none, or the script has ended). */
static inline const asim_recorded_call *asim_script_peek(const asim_script *script)
{
    if (!script->active || script->next == script->count ||
        script->calls[script->next].event != script->event)
        return 0;
    return &script->calls[script->next];
}

#endif
