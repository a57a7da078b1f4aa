/* plan_bench [--buffers N] [FILE.csv...]: how long packing takes, and how close to the lower bound it comes.
 *
 * Without files: N generated buffers (a million), heuristics alone, in two shapes. `steps`: iterations of 400
 * layers forwards and backwards, with temporaries and some buffers that live across iterations. `pareto`:
 * begins anywhere, lifetimes with a heavy tail. With files: the lists of buffers, each into the capacity that
 * its name tells (A.1048576.csv), with the exact search. Seconds are processor time; the best of three runs,
 * which must all give the same plan. */
#include "policies/static_plan_pack.h"
#include "sim/params.h"
#include "sim/rng.h"
#include "traces/buffers.h"
#include "traces/input.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    RUNS = 3,
    LAYERS = 400
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int measure(const char *name, asim_plan_buffer *buffers, uint32_t count,
                   const asim_plan_options *options)
{
    asim_plan_result result = {0}, first = {0};
    asim_err err = ASIM_ERR_INIT;
    double best = 1e9;
    for (int run = 0; run < RUNS; run++) {
        const double begun = now();
        if (asim_plan_pack(buffers, count, options, asim_hostmem_libc(), &result, &err)) {
            fprintf(stderr, "plan_bench: %s: %s\n", name, err.message);
            return 1;
        }
        const double took = now() - begun;
        best = took < best ? took : best;
        if (run == 0)
            first = result;
        if (first.bytes != result.bytes || first.steps != result.steps) {
            fprintf(stderr, "plan_bench: %s: two runs differ\n", name);
            return 1;
        }
    }
    printf("%-20s %8" PRIu32 " buffers  %12" PRIu64 " bytes, %.3f %% above the bound  %9" PRIu64
           " steps  %7.3f s%s\n",
           name, count, result.bytes,
           100.0 * (double)(result.bytes - result.lower_bound) /
               (double)(result.lower_bound ? result.lower_bound : 1),
           result.steps, best, options->enough && result.bytes > options->enough ? "  NOT PACKED" : "");
    return options->enough && result.bytes > options->enough;
}

/* --- generated ---------------------------------------------------------------------------------------------
 */

typedef struct generator {
    asim_plan_buffer *buffers;
    uint32_t count, room;
    asim_rng rng;
} generator;

static void add(generator *g, uint64_t begin, uint64_t life, uint64_t units)
{
    if (g->count < g->room)
        g->buffers[g->count++] =
            (asim_plan_buffer){.begin = begin, .end = begin + life, .size = 512 * units, .align = 512};
}

static uint64_t below(generator *g, uint64_t bound)
{
    return asim_rng_below(&g->rng, bound);
}

static void generate_steps(generator *g)
{
    uint64_t begins[LAYERS], t = 0;
    while (g->count < g->room) {
        for (int layer = 0; layer < LAYERS; layer++, t++) {
            for (int k = 0; k < 4; k++, t++)
                add(g, t, 1 + below(g, 6), 1 + below(g, 20000));
            begins[layer] = t;
        }
        for (int layer = LAYERS; layer-- > 0; t++) {
            add(g, t, 1 + below(g, 5), 1 + below(g, 40000));
            add(g, begins[layer], t - begins[layer], 1 + below(g, 40000));
        }
        if (below(g, 3) == 0)
            add(g, t, 1 + below(g, 200000), 1 + below(g, 10000));
    }
}

/* A lifetime of at least 2^k with probability (5/8)^k, up to 2^19: a tail of index 0.68. */
static void generate_pareto(generator *g)
{
    while (g->count < g->room) {
        unsigned octave = 0;
        while (octave < 18 && below(g, 8) < 5)
            octave++;
        const uint64_t life = (UINT64_C(1) << octave) + below(g, UINT64_C(1) << octave);
        add(g, below(g, 2 * (uint64_t)g->room), life, 1 + below(g, 20000));
    }
}

static int measure_generated(uint32_t count)
{
    static const struct {
        const char *name;
        void (*generate)(generator *g);
    } shapes[] = {{"steps", generate_steps}, {"pareto", generate_pareto}};
    const asim_plan_options options = {.steps = 0};
    int failed = 0;
    generator g = {.buffers = calloc(count, sizeof *g.buffers), .room = count};
    if (!g.buffers)
        return 1;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        g.count = 0;
        g.rng = (asim_rng){1};
        shapes[i].generate(&g);
        failed |= measure(shapes[i].name, g.buffers, g.count, &options);
    }
    free(g.buffers);
    return failed;
}

/* --- from files --------------------------------------------------------------------------------------------
 */

static int measure_file(const char *path)
{
    asim_plan_options options = {.steps = 100000000, .exact_max = ASIM_PLAN_EXACT_MAX};
    asim_file_input *file = NULL;
    asim_buffer_list list = {0};
    asim_err err = ASIM_ERR_INIT;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strchr(name, '.');
    if (dot)
        options.enough = strtoull(dot + 1, NULL, 10);
    asim_code code = asim_file_input_open(path, asim_hostmem_libc(), &file, &err);
    if (!code) {
        const asim_input input = asim_file_input_stream(file);
        code = asim_buffers_read(&input, asim_hostmem_libc(), &list, &err);
        asim_file_input_close(file);
    }
    asim_plan_buffer *buffers = calloc(list.count + 1, sizeof *buffers);
    for (size_t i = 0; i < list.count && buffers; i++)
        buffers[i] = (asim_plan_buffer){.begin = list.rows[i].lower,
                                        .end = list.rows[i].upper,
                                        .size = list.rows[i].size,
                                        .align = list.rows[i].alignment};
    int failed = 1;
    if (code)
        fprintf(stderr, "plan_bench: %s: %s\n", path, err.message);
    else if (buffers)
        failed = measure(name, buffers, (uint32_t)list.count, &options);
    free(buffers);
    asim_buffers_fini(&list);
    return failed;
}

int main(int argc, char **argv)
{
    uint64_t count = 1000000;
    asim_err err = ASIM_ERR_INIT;
    int at = 1, failed = 0;
    if (argc > 2 && strcmp(argv[1], "--buffers") == 0) {
        if (asim_parse_u64(argv[2], &count, &err) || count == 0 || count > UINT32_MAX / 4) {
            fprintf(stderr, "usage: plan_bench [--buffers N] [FILE.csv...]\n");
            return 2;
        }
        at = 3;
    }
    if (at == argc)
        return measure_generated((uint32_t)count);
    for (; at < argc; at++)
        failed |= measure_file(argv[at]);
    return failed;
}
