/* tools/progress.h - a bar on standard error: only on a terminal, and only for work that takes over a second.
 *
 * Several threads may report to one bar.
 */
#ifndef ASIM_TOOLS_PROGRESS_H
#define ASIM_TOOLS_PROGRESS_H

#include "tools/cli.h"

#include <pthread.h>

typedef struct asim_progress {
    const char *what; /* "replaying" */
    bool on, shown;
    uint64_t started_ns, drawn_ns;
    uint64_t done, total;
    char note[40]; /* stands before the rate; "" at first */
    pthread_mutex_t lock;
} asim_progress;

void asim_progress_init(asim_progress *progress, const asim_cli *cli, const char *what);
void asim_progress_fini(asim_progress *progress);                  /* wipes the bar */
void asim_progress_wipe(asim_progress *progress);                  /* before other output; it comes back */
void asim_progress_expect(asim_progress *progress, uint64_t more); /* so many events more to come */
void asim_progress_advance(asim_progress *progress, uint64_t more);
void asim_progress_note(asim_progress *progress, const char *text); /* "26 of 64 runs" */

uint64_t asim_wall_ns(void); /* a monotonic clock */

#endif
