#include "sim/sweep.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

enum {
    TRACES = 5,
    CONFIGS = 13
};

/* Counts every call; the lock also makes the order of opening, running and closing visible. */
typedef struct tally {
    pthread_mutex_t lock;
    int opened[TRACES], closed[TRACES], ran[TRACES][CONFIGS];
    int total;
    size_t refuse; /* the trace that can't be opened; TRACES: none */
    int stop_after, end_after;
    atomic_bool stop;
    bool wrong; /* a run of a trace that was not open */
} tally;

static asim_code open_one(void *ctx, size_t trace)
{
    tally *t = ctx;
    pthread_mutex_lock(&t->lock);
    t->opened[trace]++;
    pthread_mutex_unlock(&t->lock);
    return trace == t->refuse ? ASIM_E_INPUT : ASIM_OK;
}

static asim_code run_one(void *ctx, size_t trace, size_t config)
{
    tally *t = ctx;
    pthread_mutex_lock(&t->lock);
    t->ran[trace][config]++;
    t->wrong = t->wrong || t->opened[trace] != 1 || t->closed[trace] != 0;
    int total = ++t->total;
    if (total == t->stop_after)
        atomic_store(&t->stop, true);
    pthread_mutex_unlock(&t->lock);
    return total == t->end_after ? ASIM_E_SYSTEM : ASIM_OK;
}

static void close_one(void *ctx, size_t trace)
{
    tally *t = ctx;
    pthread_mutex_lock(&t->lock);
    t->closed[trace]++;
    pthread_mutex_unlock(&t->lock);
}

static asim_sweep grid(tally *t, size_t jobs)
{
    pthread_mutex_init(&t->lock, NULL);
    return (asim_sweep){.trace_count = TRACES,
                        .config_count = CONFIGS,
                        .jobs = jobs,
                        .stop = &t->stop,
                        .open = open_one,
                        .run = run_one,
                        .close = close_one,
                        .ctx = t};
}

static void work(const asim_sweep *sweep)
{
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_sweep_work(sweep, asim_hostmem_libc(), &err), ASIM_OK, "%s", err.message);
}

static void check_balance(const tally *t)
{
    cr_assert_not(t->wrong);
    for (size_t i = 0; i < TRACES; i++) {
        cr_assert_leq(t->opened[i], 1);
        cr_assert_eq(t->closed[i], i == t->refuse ? 0 : t->opened[i]);
    }
}

Test(sweep, each_run_once_with_any_number_of_threads)
{
    static const size_t jobs[] = {1, 2, 3, 8, 200};
    for (size_t k = 0; k < sizeof jobs / sizeof jobs[0]; k++) {
        tally t = {.refuse = TRACES};
        asim_sweep sweep = grid(&t, jobs[k]);
        work(&sweep);
        check_balance(&t);
        for (size_t i = 0; i < TRACES * CONFIGS; i++)
            cr_assert_eq(t.ran[i / CONFIGS][i % CONFIGS], 1);
    }
}

Test(sweep, parts_make_the_whole)
{
    for (size_t shards = 1; shards <= TRACES * CONFIGS + 1; shards += 4) {
        int ran[TRACES * CONFIGS] = {0};
        for (size_t shard = 0; shard < shards; shard++) {
            tally t = {.refuse = TRACES};
            asim_sweep sweep = grid(&t, 3);
            sweep.shard = shard;
            sweep.shards = shards;
            work(&sweep);
            check_balance(&t);
            for (size_t i = 0; i < TRACES * CONFIGS; i++) {
                cr_assert_eq(t.ran[i / CONFIGS][i % CONFIGS], asim_sweep_has(&sweep, i));
                ran[i] += t.ran[i / CONFIGS][i % CONFIGS];
            }
        }
        for (size_t i = 0; i < TRACES * CONFIGS; i++)
            cr_assert_eq(ran[i], 1);
    }
}

Test(sweep, a_trace_that_cannot_be_opened_is_left_out)
{
    tally t = {.refuse = 2};
    asim_sweep sweep = grid(&t, 4);
    work(&sweep);
    check_balance(&t);
    cr_assert_eq(t.total, (TRACES - 1) * CONFIGS);
    cr_assert_eq(t.ran[2][0], 0);
}

/* What runs at that moment ends; with n threads that is at most n - 1 more. */
Test(sweep, ends_when_asked_to)
{
    tally stopped = {.refuse = TRACES, .stop_after = 20};
    asim_sweep sweep = grid(&stopped, 4);
    work(&sweep);
    check_balance(&stopped);
    cr_assert_geq(stopped.total, 20);
    cr_assert_leq(stopped.total, 23);

    tally ended = {.refuse = TRACES, .end_after = 20};
    sweep = grid(&ended, 4);
    work(&sweep);
    check_balance(&ended);
    cr_assert_geq(ended.total, 20);
    cr_assert_leq(ended.total, 23);

    tally never = {.refuse = TRACES, .stop = true};
    sweep = grid(&never, 4);
    work(&sweep);
    check_balance(&never);
    cr_assert_eq(never.total, 0);
}

Test(sweep, nothing_to_do)
{
    tally t = {.refuse = TRACES};
    asim_sweep sweep = grid(&t, 4);
    sweep.config_count = 0;
    work(&sweep);
    cr_assert_eq(t.total, 0);
}

static void *refuse_all(void *ctx, void *memory, size_t old_size, size_t new_size)
{
    (void)ctx;
    (void)memory;
    (void)old_size;
    (void)new_size;
    return NULL;
}

Test(sweep, lack_of_memory_is_an_error)
{
    tally t = {.refuse = TRACES};
    asim_sweep sweep = grid(&t, 4);
    asim_hostmem none = {refuse_all, NULL};
    cr_assert_eq(asim_sweep_work(&sweep, &none, NULL), ASIM_E_SYSTEM);
    cr_assert_eq(t.total, 0);
}
