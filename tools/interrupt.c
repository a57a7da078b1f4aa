#include "tools/interrupt.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

static atomic_bool stop;
static volatile sig_atomic_t came;
static const int watched[] = {SIGINT, SIGTERM, SIGHUP};

static void note(int number)
{
    came = number;
    atomic_store(&stop, true);
}

const atomic_bool *asim_interrupt_watch(void)
{
    struct sigaction before, action = {.sa_handler = note, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    atomic_store(&stop, false);
    came = 0;
    for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++)
        if (sigaction(watched[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(watched[i], &action, NULL);
    return &stop;
}

void asim_interrupt_follow(void)
{
    struct sigaction now;
    for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++)
        if (sigaction(watched[i], NULL, &now) == 0 && now.sa_handler == note)
            signal(watched[i], SIG_DFL);
    if (came) {
        fflush(NULL);
        raise(came);
    }
}
