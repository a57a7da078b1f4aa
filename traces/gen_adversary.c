/* adversary - workloads that are hard on purpose.
 *
 *     comb     `count` blocks of `unit`, every second one freed, then blocks twice as large: half of the
 * memory is free, and no hole takes one carve    a block of count x unit is freed, blocks of `unit` that stay
 * are cut from its memory, and it is asked for again: pytorch issue 35901 robson   Robson's program (J. M.
 * Robson, JACM 18(3), 1971, and 21(3), 1974) played against first fit from address 0: never more than `count`
 * units alive, and a pool of at least count (1 + log2(largest)/2) - largest + 1 units is used. It looks where
 * first fit puts its blocks, which is simulated here; another allocator sees a hard sequence, but not its own
 * worst one.
 */
#include "traces/gen.h"

#include <stddef.h>

typedef struct adversary_params {
    int kind;
    uint64_t unit, count, largest, rounds;
} adversary_params;

static const char *const kinds[] = {"comb", "carve", "robson", NULL};

#define AT(field) offsetof(adversary_params, field)
static const asim_param params[] = {
    {.name = "kind",
     .type = ASIM_PARAM_CHOICE,
     .offset = AT(kind),
     .default_text = "comb",
     .choices = kinds,
     .help = "comb, carve: see the manual; robson: the worst case of first fit"},
    {.name = "unit",
     .type = ASIM_PARAM_BYTES,
     .offset = AT(unit),
     .default_text = "2MiB",
     .min = 1,
     .max = UINT64_C(1) << 34,
     .help = "bytes of a small block"},
    {.name = "count",
     .type = ASIM_PARAM_U64,
     .offset = AT(count),
     .default_text = "1024",
     .min = 2,
     .max = 1 << 20,
     .help = "small blocks, or units that may live at once"},
    {.name = "largest",
     .type = ASIM_PARAM_U64,
     .offset = AT(largest),
     .default_text = "64",
     .min = 2,
     .max = 1 << 16,
     .help = "robson: units of the largest block, a power of two"},
    {.name = "rounds",
     .type = ASIM_PARAM_U64,
     .offset = AT(rounds),
     .default_text = "1",
     .min = 1,
     .max = 1 << 20,
     .help = "comb, carve: how often"},
};

typedef struct placed {
    uint64_t address, size; /* units */
    uint32_t slot;
} placed;

static void comb(asim_gen_writer *w, const adversary_params *p, uint32_t *slots)
{
    for (uint64_t round = 0; round < p->rounds && !w->code; round++) {
        for (uint64_t i = 0; i < p->count && !w->code; i++)
            slots[i] = asim_gen_alloc(w, p->unit, 0, 0);
        for (uint64_t i = 0; i < p->count && !w->code; i += 2)
            asim_gen_free(w, slots[i]);
        for (uint64_t i = 0; i + 3 < p->count && !w->code; i += 4)
            slots[i] = asim_gen_alloc(w, 2 * p->unit, 0, 0);
        for (uint64_t i = 0; i < p->count && !w->code; i++)
            if (i % 2 || (i % 4 == 0 && i + 3 < p->count))
                asim_gen_free(w, slots[i]);
    }
}

static void carve(asim_gen_writer *w, const adversary_params *p, uint32_t *slots)
{
    uint64_t kept = 0;
    for (uint64_t round = 0; round < p->rounds && !w->code; round++) {
        uint32_t big = asim_gen_alloc(w, p->count * p->unit, 0, 0);
        asim_gen_free(w, big);
        for (uint64_t i = 0; i < p->count / p->rounds && kept < p->count && !w->code; i++)
            slots[kept++] = asim_gen_alloc(w, p->unit, 0, 0);
        big = asim_gen_alloc(w, p->count * p->unit, 0, 0);
        asim_gen_free(w, big);
    }
    while (kept && !w->code)
        asim_gen_free(w, slots[--kept]);
}

/* Whether a block lies over an address that is offset modulo step. */
static bool covers(const placed *block, uint64_t offset, uint64_t step)
{
    uint64_t first = block->address + (offset + step - block->address % step) % step;
    return first < block->address + block->size;
}

/* What keeping the blocks over these addresses keeps from blocks of a step. */
static uint64_t spoils(const placed *blocks, size_t count, uint64_t offset, uint64_t step)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        if (covers(&blocks[i], offset, step))
            sum += step - blocks[i].size;
    return sum;
}

/* As many blocks of step units as fit under the limit, each into the first gap: gaps are met in ascending
 * order, as nothing is freed in between. */
static size_t fill(asim_gen_writer *w, const adversary_params *p, const placed *kept, size_t kept_count,
                   uint64_t step, placed *out)
{
    uint64_t live = 0, at = 0;
    size_t count = 0, next = 0;
    for (size_t i = 0; i < kept_count; i++)
        live += kept[i].size;
    for (; live + step <= p->count && !w->code; live += step) {
        while (next < kept_count && kept[next].address - at < step) {
            at = kept[next].address + kept[next].size;
            out[count++] = kept[next++];
        }
        out[count++] = (placed){at, step, asim_gen_alloc(w, step * p->unit, 0, 0)};
        at += step;
    }
    while (next < kept_count)
        out[count++] = kept[next++];
    return count;
}

static void robson(asim_gen_writer *w, const adversary_params *p, placed *blocks, placed *other)
{
    size_t count = fill(w, p, other, 0, 1, blocks);
    uint64_t offset = 0;
    for (uint64_t step = 2; step <= p->largest && !w->code; step *= 2) {
        if (spoils(blocks, count, offset + step / 2, step) > spoils(blocks, count, offset, step))
            offset += step / 2;
        size_t kept = 0;
        for (size_t i = 0; i < count && !w->code; i++) {
            if (covers(&blocks[i], offset, step))
                blocks[kept++] = blocks[i];
            else
                asim_gen_free(w, blocks[i].slot);
        }
        count = fill(w, p, blocks, kept, step, other);
        for (size_t i = 0; i < count; i++)
            blocks[i] = other[i];
    }
    for (size_t i = 0; i < count && !w->code; i++)
        asim_gen_free(w, blocks[i].slot);
}

static asim_code generate(const void *block, uint64_t seed, const asim_sink *sink, const asim_hostmem *mem,
                          asim_err *err)
{
    const adversary_params *p = block;
    asim_gen_writer w;
    (void)seed; /* nothing is drawn */
    if (p->kind == 2 && ((p->largest & (p->largest - 1)) || p->largest > p->count))
        return asim_fail(err, ASIM_E_USAGE, "largest must be a power of two, and no more than count");
    const size_t room = (size_t)p->count + 1;
    uint32_t *slots = asim_mem_new(mem, room, sizeof *slots);
    placed *blocks = asim_mem_new(mem, room, sizeof *blocks), *other = asim_mem_new(mem, room, sizeof *other);
    asim_code code = slots && blocks && other ? ASIM_OK : asim_fail_memory(err, room * sizeof *blocks);
    if (!code) {
        asim_gen_begin(&w, "gen-adversary", 1, sink, mem, err);
        if (p->kind == 0)
            comb(&w, p, slots);
        else if (p->kind == 1)
            carve(&w, p, slots);
        else
            robson(&w, p, blocks, other);
        code = asim_gen_end(&w);
    }
    asim_mem_free(mem, slots, room, sizeof *slots);
    asim_mem_free(mem, blocks, room, sizeof *blocks);
    asim_mem_free(mem, other, room, sizeof *other);
    return code;
}

const asim_generator asim_gen_adversary = {
    .name = "adversary",
    .summary = "worst cases: comb, carved segment, Robson's program",
    .shows = "how bad it can get",
    .params = {params, sizeof params / sizeof params[0], sizeof(adversary_params)},
    .generate = generate,
};
