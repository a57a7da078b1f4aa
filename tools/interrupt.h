/* tools/interrupt.h - Ctrl-C and its kin end long work in order: what is done stays, then the program ends as
 * the signal would have ended it. A second signal ends it at once.
 */
#ifndef ASIM_TOOLS_INTERRUPT_H
#define ASIM_TOOLS_INTERRUPT_H

#include <stdatomic.h>

/* From now on SIGINT, SIGTERM and SIGHUP (where not ignored) only raise the flag, which is returned. */
const atomic_bool *asim_interrupt_watch(void);

/* Ends the program by the signal that came; returns where none did, with the signals as they were before. */
void asim_interrupt_follow(void);

#endif
