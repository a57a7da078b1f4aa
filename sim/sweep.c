#include "sim/sweep.h"

#include <pthread.h>
#include <stdint.h>

typedef enum trace_state {
    CLOSED = 0,
    OPENING,
    OPEN,
    LEFT_OUT,
} trace_state;

typedef struct trace_use {
    trace_state state;
    size_t left; /* runs that have not ended */
} trace_use;

typedef struct pool {
    const asim_sweep *sweep;
    trace_use *traces;
    size_t next; /* the lowest number that no thread has taken */
    bool ended;  /* a run asked for the end */
    pthread_mutex_t lock;
    pthread_cond_t opened;
} pool;

bool asim_sweep_has(const asim_sweep *sweep, size_t number)
{
    return sweep->shards < 2 || number % sweep->shards == sweep->shard;
}

static bool stopped(const pool *p)
{
    return p->ended || (p->sweep->stop && atomic_load_explicit(p->sweep->stop, memory_order_relaxed));
}

/* Under the lock. The next run of this part of the grid; false: there is none. */
static bool take(pool *p, size_t *ret_trace, size_t *ret_config)
{
    const asim_sweep *sweep = p->sweep;
    size_t total = sweep->trace_count * sweep->config_count;
    while (p->next < total && !asim_sweep_has(sweep, p->next))
        p->next++;
    if (p->next >= total || stopped(p))
        return false;
    *ret_trace = p->next / sweep->config_count;
    *ret_config = p->next % sweep->config_count;
    p->next++;
    return true;
}

/* Under the lock, which is given up meanwhile. Whether the trace is open. */
static bool make_open(pool *p, size_t trace)
{
    trace_use *use = &p->traces[trace];
    if (use->state == CLOSED) {
        use->state = OPENING;
        pthread_mutex_unlock(&p->lock);
        asim_code code = p->sweep->open(p->sweep->ctx, trace);
        pthread_mutex_lock(&p->lock);
        use->state = code ? LEFT_OUT : OPEN;
        pthread_cond_broadcast(&p->opened);
    }
    while (use->state == OPENING)
        pthread_cond_wait(&p->opened, &p->lock);
    return use->state == OPEN;
}

static void *work(void *argument)
{
    pool *p = argument;
    const asim_sweep *sweep = p->sweep;
    size_t trace, config;
    pthread_mutex_lock(&p->lock);
    while (take(p, &trace, &config)) {
        bool open = make_open(p, trace);
        if (open && !stopped(p)) {
            pthread_mutex_unlock(&p->lock);
            asim_code code = sweep->run(sweep->ctx, trace, config);
            pthread_mutex_lock(&p->lock);
            p->ended = p->ended || code;
        }
        if (--p->traces[trace].left == 0 && open) {
            p->traces[trace].state = LEFT_OUT;
            pthread_mutex_unlock(&p->lock);
            sweep->close(sweep->ctx, trace);
            pthread_mutex_lock(&p->lock);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static asim_code start_and_join(pool *p, pthread_t *threads, size_t jobs, asim_err *err)
{
    size_t started = 0;
    while (started < jobs && pthread_create(&threads[started], NULL, work, p) == 0)
        started++;
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < p->sweep->trace_count; i++)
        if (p->traces[i].state == OPEN)
            p->sweep->close(p->sweep->ctx, i);
    return started ? ASIM_OK
                   : asim_fail(err, ASIM_E_SYSTEM,
                               "no thread can be started: out of memory or over a limit of the system");
}

asim_code asim_sweep_work(const asim_sweep *sweep, const asim_hostmem *mem, asim_err *err)
{
    size_t total, jobs = sweep->jobs;
    if (sweep->trace_count == 0 || sweep->config_count == 0)
        return ASIM_OK;
    if (__builtin_mul_overflow(sweep->trace_count, sweep->config_count, &total))
        return asim_fail_memory(err, UINT64_MAX);
    if (jobs > total)
        jobs = total;
    pool p = {.sweep = sweep};
    p.traces = asim_mem_new(mem, sweep->trace_count, sizeof *p.traces);
    pthread_t *threads = asim_mem_new(mem, jobs, sizeof *threads);
    asim_code code;
    if (p.traces && threads) {
        for (size_t i = 0; i < total; i++)
            p.traces[i / sweep->config_count].left += asim_sweep_has(sweep, i);
        pthread_mutex_init(&p.lock, NULL);
        pthread_cond_init(&p.opened, NULL);
        code = start_and_join(&p, threads, jobs, err);
        pthread_cond_destroy(&p.opened);
        pthread_mutex_destroy(&p.lock);
    } else {
        code = asim_fail_memory(err, sweep->trace_count * sizeof *p.traces);
    }
    asim_mem_free(mem, p.traces, sweep->trace_count, sizeof *p.traces);
    asim_mem_free(mem, threads, jobs, sizeof *threads);
    return code;
}
