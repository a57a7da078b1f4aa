/* steady - the same iteration again and again, as training does once it has warmed up.
 *
 * An iteration allocates `blocks` blocks, keeps each for a while, and ends with nothing of its own alive; the
 * sizes and lifetimes are drawn once. `drift` makes the sizes of every iteration differ by up to that many
 * percent, as sequence lengths do. */
#include "traces/gen.h"

#include <stddef.h>

typedef struct steady_params {
    uint64_t iterations, blocks, smallest, largest, kept, drift;
} steady_params;

#define AT(field) offsetof(steady_params, field)
static const asim_param params[] = {
    {.name = "iterations",
     .type = ASIM_PARAM_U64,
     .offset = AT(iterations),
     .default_text = "100",
     .min = 1,
     .max = UINT64_C(1) << 40,
     .help = "how often it repeats"},
    {.name = "blocks",
     .type = ASIM_PARAM_U64,
     .offset = AT(blocks),
     .default_text = "200",
     .min = 1,
     .max = 1 << 20,
     .help = "allocations in one iteration"},
    {.name = "smallest",
     .type = ASIM_PARAM_BYTES,
     .offset = AT(smallest),
     .default_text = "1KiB",
     .min = 1,
     .max = UINT64_C(1) << 40,
     .help = "bytes of the smallest block"},
    {.name = "largest",
     .type = ASIM_PARAM_BYTES,
     .offset = AT(largest),
     .default_text = "64MiB",
     .min = 1,
     .max = UINT64_C(1) << 40,
     .help = "bytes of the largest"},
    {.name = "kept",
     .type = ASIM_PARAM_BYTES,
     .offset = AT(kept),
     .default_text = "1GiB",
     .min = 0,
     .max = UINT64_C(1) << 46,
     .help = "bytes that live throughout, in blocks of 64 MiB (weights)"},
    {.name = "drift",
     .type = ASIM_PARAM_U64,
     .offset = AT(drift),
     .default_text = "0",
     .min = 0,
     .max = 100,
     .help = "percent by which the sizes of an iteration may lie below"},
};

/* Every second block dies soon after the next one is there, the others in reverse at the end: forward and
 * backward. */
static void iterate(asim_gen_writer *w, const steady_params *p, const uint64_t *sizes, uint32_t *slots,
                    asim_rng *rng)
{
    const uint64_t percent = p->drift ? 100 - asim_rng_below(rng, p->drift + 1) : 100;
    uint64_t live = 0;
    for (uint64_t i = 0; i < p->blocks && !w->code; i++) {
        uint64_t size = (uint64_t)((unsigned __int128)sizes[i] * percent / 100);
        uint32_t slot = asim_gen_alloc(w, size ? size : 1, 0, 0);
        if (i % 2 && live)
            asim_gen_free(w, slots[--live]);
        slots[live++] = slot;
    }
    while (live && !w->code)
        asim_gen_free(w, slots[--live]);
}

static asim_code generate(const void *block, uint64_t seed, const asim_sink *sink, const asim_hostmem *mem,
                          asim_err *err)
{
    const steady_params *p = block;
    asim_rng rng = {seed};
    asim_gen_writer w;
    if (p->smallest > p->largest)
        return asim_fail(err, ASIM_E_USAGE, "smallest is larger than largest");
    uint64_t *sizes = asim_mem_new(mem, p->blocks, sizeof *sizes);
    uint32_t *slots = asim_mem_new(mem, p->blocks, sizeof *slots);
    asim_code code = sizes && slots ? ASIM_OK : asim_fail_memory(err, p->blocks * sizeof *sizes);
    if (!code) {
        for (uint64_t i = 0; i < p->blocks; i++)
            sizes[i] = asim_gen_size(&rng, p->smallest, p->largest);
        asim_gen_begin(&w, "gen-steady", 1, sink, mem, err);
        for (uint64_t left = p->kept; left && !w.code;) {
            uint64_t size = left < (UINT64_C(64) << 20) ? left : UINT64_C(64) << 20;
            asim_gen_alloc(&w, size, 0, 0);
            left -= size;
        }
        for (uint64_t i = 0; i < p->iterations && !w.code; i++) {
            asim_gen_mark(&w, ASIM_MARK_ITERATION, ASIM_MARK_BEGIN, "iteration", UINT64_MAX);
            iterate(&w, p, sizes, slots, &rng);
            asim_gen_mark(&w, ASIM_MARK_ITERATION, ASIM_MARK_END, "iteration", UINT64_MAX);
        }
        code = asim_gen_end(&w);
    }
    asim_mem_free(mem, sizes, p->blocks, sizeof *sizes);
    asim_mem_free(mem, slots, p->blocks, sizeof *slots);
    return code;
}

const asim_generator asim_gen_steady = {
    .name = "steady",
    .summary = "the same iteration again and again",
    .shows = "what an allocator settles down to, and whether it does",
    .params = {params, sizeof params / sizeof params[0], sizeof(steady_params)},
    .generate = generate,
};
