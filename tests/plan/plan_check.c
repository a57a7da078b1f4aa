/* plan_check [--steps N] [--exact-max N] FILE.csv [CAPACITY]
 *
 * Packs a list of buffers into CAPACITY bytes, or without one into as few as it can, and prints the list with
 * an offset for each, as MiniMalloc does. What it found is told on standard error. Exit status: 0 packed, 1
 * no plan of CAPACITY bytes was found, 2 usage, 3 bad input, 5 the system refused. validate.py checks the
 * output. */
#include "policies/static_plan_pack.h"
#include "sim/params.h"
#include "traces/buffers.h"
#include "traces/input.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static asim_code read_list(const char *path, asim_buffer_list *ret_list, asim_err *err)
{
    asim_file_input *file = NULL;
    asim_code code = asim_file_input_open(path, asim_hostmem_libc(), &file, err);
    if (code)
        return code;
    const asim_input input = asim_file_input_stream(file);
    code = asim_buffers_read(&input, asim_hostmem_libc(), ret_list, err);
    asim_file_input_close(file);
    return code;
}

static asim_code pack(const asim_buffer_list *list, const asim_plan_options *options, bool *ret_packed,
                      asim_err *err)
{
    asim_plan_buffer *buffers = calloc(list->count + 1, sizeof *buffers);
    asim_plan_result result;
    if (!buffers)
        return asim_fail_memory(err, list->count * sizeof *buffers);
    for (size_t i = 0; i < list->count; i++)
        buffers[i] = (asim_plan_buffer){.begin = list->rows[i].lower,
                                        .end = list->rows[i].upper,
                                        .size = list->rows[i].size,
                                        .align = list->rows[i].alignment};
    const double begun = now();
    const asim_code code =
        asim_plan_pack(buffers, (uint32_t)list->count, options, asim_hostmem_libc(), &result, err);
    if (!code) {
        fprintf(stderr, "%zu buffers, %" PRIu64 " bytes, at least %" PRIu64 "%s, %" PRIu64 " steps, %.3f s\n",
                list->count, result.bytes, result.lower_bound, result.least ? " (the least)" : "",
                result.steps, now() - begun);
        *ret_packed = !options->enough || result.bytes <= options->enough;
        printf("id,lower,upper,size,alignment,offset\n");
        for (size_t i = 0; i < list->count; i++)
            printf("%zu,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", i, buffers[i].begin,
                   buffers[i].end, buffers[i].size, buffers[i].align, buffers[i].offset);
    }
    free(buffers);
    return code;
}

int main(int argc, char **argv)
{
    asim_plan_options options = {.steps = 100000000, .exact_max = ASIM_PLAN_EXACT_MAX};
    asim_buffer_list list = {0};
    asim_err err = ASIM_ERR_INIT;
    uint64_t number;
    bool packed = false, good = true;
    int at = 1;
    for (; at + 1 < argc && strncmp(argv[at], "--", 2) == 0 && good; at += 2) {
        good = !asim_parse_u64(argv[at + 1], &number, &err);
        if (good && strcmp(argv[at], "--steps") == 0)
            options.steps = number;
        else if (good && strcmp(argv[at], "--exact-max") == 0 && number <= ASIM_PLAN_EXACT_MAX)
            options.exact_max = (uint32_t)number;
        else
            good = false;
    }
    if (good && argc - at == 2)
        good = !asim_parse_u64(argv[at + 1], &options.enough, &err);
    if (!good || argc - at < 1 || argc - at > 2) {
        fprintf(stderr, "usage: plan_check [--steps N] [--exact-max N] FILE.csv [CAPACITY]\n");
        return ASIM_E_USAGE;
    }
    asim_code code = read_list(argv[at], &list, &err);
    if (!code)
        code = pack(&list, &options, &packed, &err);
    asim_buffers_fini(&list);
    if (code)
        fprintf(stderr, "plan_check: %s: %s\n", argv[at], err.message);
    return code ? (int)code : packed ? 0 : 1;
}
