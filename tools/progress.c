#include "tools/progress.h"

#include "tools/units.h"

#include <inttypes.h>
#include <time.h>
#include <unistd.h>

enum {
    BAR_WIDTH = 30,
};
#define SECOND_NS UINT64_C(1000000000)

uint64_t asim_wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static void make_room(void *ctx)
{
    asim_progress_wipe(ctx);
}

void asim_progress_init(asim_progress *progress, const asim_cli *cli, const char *what)
{
    *progress = (asim_progress){.what = what,
                                .on = !cli->quiet && !cli->no_progress && isatty(STDERR_FILENO),
                                .started_ns = asim_wall_ns()};
    pthread_mutex_init(&progress->lock, NULL);
    if (progress->on)
        asim_say_before(make_room, progress);
}

void asim_progress_wipe(asim_progress *progress)
{
    pthread_mutex_lock(&progress->lock);
    if (progress->shown)
        fputs("\r\033[K", stderr);
    progress->shown = false;
    pthread_mutex_unlock(&progress->lock);
}

void asim_progress_fini(asim_progress *progress)
{
    asim_say_before(NULL, NULL);
    asim_progress_wipe(progress);
    pthread_mutex_destroy(&progress->lock);
}

static void draw(asim_progress *progress, uint64_t now)
{
    char bar[BAR_WIDTH + 1], done[sizeof progress->note], left[ASIM_UNITS_MAX];
    double part = progress->total ? (double)progress->done / (double)progress->total : 0;
    if (part > 1)
        part = 1;
    for (int i = 0; i < BAR_WIDTH; i++)
        bar[i] = i < (int)(part * BAR_WIDTH) ? '#' : '.';
    bar[BAR_WIDTH] = 0;
    double elapsed = (double)(now - progress->started_ns);
    uint64_t left_ns = part > 0.001 ? (uint64_t)(elapsed * (1 - part) / part) : 0;
    if (progress->note[0])
        snprintf(done, sizeof done, "%s", progress->note);
    else
        snprintf(done, sizeof done, "%" PRIu64 " k events", progress->done / 1000);
    fprintf(stderr, "\r%s [%s] %3.0f %%  %s, %.1f M/s, %s left\033[K", progress->what, bar, part * 100, done,
            (double)progress->done * 1e3 / elapsed, asim_human_ns(left_ns, left));
    fflush(stderr);
    progress->shown = true;
    progress->drawn_ns = now;
}

void asim_progress_expect(asim_progress *progress, uint64_t more)
{
    pthread_mutex_lock(&progress->lock);
    progress->total += more;
    pthread_mutex_unlock(&progress->lock);
}

void asim_progress_advance(asim_progress *progress, uint64_t more)
{
    pthread_mutex_lock(&progress->lock);
    progress->done += more;
    uint64_t now = progress->on ? asim_wall_ns() : 0;
    if (progress->on && now - progress->started_ns > SECOND_NS && now - progress->drawn_ns > SECOND_NS / 10)
        draw(progress, now);
    pthread_mutex_unlock(&progress->lock);
}

void asim_progress_note(asim_progress *progress, const char *text)
{
    pthread_mutex_lock(&progress->lock);
    snprintf(progress->note, sizeof progress->note, "%s", text);
    pthread_mutex_unlock(&progress->lock);
}
