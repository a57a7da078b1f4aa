/* churn - random requests and frees around a target of live bytes, on several streams. */
#include "traces/gen.h"

#include <stddef.h>

typedef struct churn_params {
    uint64_t events, live, smallest, largest, streams, uses;
} churn_params;

#define AT(field) offsetof(churn_params, field)
static const asim_param params[] = {
    {.name = "events",
     .type = ASIM_PARAM_U64,
     .offset = AT(events),
     .default_text = "100000",
     .min = 1,
     .max = UINT64_C(1) << 40,
     .help = "allocations and frees"},
    {.name = "live",
     .type = ASIM_PARAM_BYTES,
     .offset = AT(live),
     .default_text = "8GiB",
     .min = 1,
     .max = UINT64_C(1) << 46,
     .help = "bytes around which it stays"},
    {.name = "smallest",
     .type = ASIM_PARAM_BYTES,
     .offset = AT(smallest),
     .default_text = "512",
     .min = 1,
     .max = UINT64_C(1) << 40,
     .help = "bytes of the smallest block"},
    {.name = "largest",
     .type = ASIM_PARAM_BYTES,
     .offset = AT(largest),
     .default_text = "256MiB",
     .min = 1,
     .max = UINT64_C(1) << 40,
     .help = "bytes of the largest; logarithms are evenly spread"},
    {.name = "streams",
     .type = ASIM_PARAM_U64,
     .offset = AT(streams),
     .default_text = "1",
     .min = 1,
     .max = 64,
     .help = "streams that ask for memory"},
    {.name = "uses",
     .type = ASIM_PARAM_U64,
     .offset = AT(uses),
     .default_text = "0",
     .min = 0,
     .max = 100,
     .help = "percent of the blocks that a second stream uses, too"},
};

typedef struct live_block {
    uint64_t size;
    uint32_t slot;
} live_block;

static asim_code generate(const void *block, uint64_t seed, const asim_sink *sink, const asim_hostmem *mem,
                          asim_err *err)
{
    enum {
        SYNC_EVERY = 64
    };
    const churn_params *p = block;
    asim_rng rng = {seed};
    asim_gen_writer w;
    live_block *live = NULL;
    size_t count = 0, capacity = 0;
    uint64_t bytes = 0;
    if (p->smallest > p->largest)
        return asim_fail(err, ASIM_E_USAGE, "smallest is larger than largest");
    if (p->uses && p->streams < 2)
        return asim_fail(err, ASIM_E_USAGE, "uses needs a second stream: streams=2 or more");
    asim_gen_begin(&w, "gen-churn", (uint32_t)p->streams, sink, mem, err);
    for (uint64_t i = 0; i < p->events && !w.code; i++) {
        /* Above the target a free is three times as likely as a request, below it the other way round. */
        bool frees = count && asim_rng_below(&rng, 4) < (bytes > p->live ? 3 : 1);
        if (frees) {
            size_t victim = (size_t)asim_rng_below(&rng, count);
            bytes -= live[victim].size;
            asim_gen_free(&w, live[victim].slot);
            live[victim] = live[--count];
            continue;
        }
        void *grown = live;
        uint32_t stream = (uint32_t)asim_rng_below(&rng, p->streams);
        uint64_t size = asim_gen_size(&rng, p->smallest, p->largest);
        w.code = asim_mem_grow(mem, &grown, &capacity, count + 1, sizeof *live, err);
        live = grown;
        if (w.code)
            break;
        live[count].size = size;
        live[count].slot = asim_gen_alloc(&w, size, stream, 0);
        bytes += size;
        if (p->uses && asim_rng_below(&rng, 100) < p->uses) {
            uint32_t other = (uint32_t)((stream + 1 + asim_rng_below(&rng, p->streams - 1)) % p->streams);
            asim_gen_use(&w, live[count].slot, other);
        }
        count++;
        if (p->uses && i % SYNC_EVERY == SYNC_EVERY - 1)
            asim_gen_sync(&w);
    }
    asim_mem_free(mem, live, capacity, sizeof *live);
    return asim_gen_end(&w);
}

const asim_generator asim_gen_churn = {
    .name = "churn",
    .summary = "random requests and frees around a target of live bytes",
    .shows = "the long run: fragmentation when nothing repeats",
    .params = {params, sizeof params / sizeof params[0], sizeof(churn_params)},
    .generate = generate,
};
