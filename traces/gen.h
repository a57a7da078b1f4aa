/* traces/gen.h - generated workloads: a name, parameters and a seed give the same trace on every machine.
 *
 * A generator is a const table, listed in gen.c. It writes events to a sink as it goes and keeps in memory no
 * more than what lives at once, so that a trace of any length can be written.
 */
#ifndef ASIM_TRACES_GEN_H
#define ASIM_TRACES_GEN_H

#include "sim/params.h"
#include "sim/rng.h"
#include "sim/source.h"

typedef struct asim_generator {
    const char *name;    /* as typed */
    const char *summary; /* one line */
    const char *shows;   /* what it is for, one line */
    asim_param_table params;
    asim_code (*generate)(const void *params, uint64_t seed, const asim_sink *sink, const asim_hostmem *mem,
                          asim_err *err);
} asim_generator;

/* NULL-ended, in the order of help. */
extern const asim_generator *const asim_generators[];

const asim_generator *asim_generator_named(const char *name);

extern const asim_generator asim_gen_steady, asim_gen_churn, asim_gen_adversary, asim_gen_train;

/* What generators share: a sink with one device, lanes by stream, slots and labels. Errors stick: after the
 * first one nothing more is written, and the writer's code says why. */
typedef struct asim_gen_writer {
    const asim_sink *sink;
    const asim_hostmem *mem;
    asim_err *err;
    asim_code code;
    uint16_t lanes[64];
    uint32_t lane_count;
    uint64_t time_ns, events;
    uint32_t *spare; /* slots that are free again, last in first out */
    size_t spare_count, spare_capacity;
    uint32_t slot_count;
} asim_gen_writer;

/* source: the generator's name. streams: 1 to 64 lanes of one device, of handles 0, 1, ... */
void asim_gen_begin(asim_gen_writer *w, const char *source, uint32_t streams, const asim_sink *sink,
                    const asim_hostmem *mem, asim_err *err);
asim_code asim_gen_end(asim_gen_writer *w);

/* Each takes step_ns of time. alloc returns the slot. */
uint32_t asim_gen_alloc(asim_gen_writer *w, uint64_t size, uint32_t stream, uint8_t flags);
void asim_gen_free(asim_gen_writer *w, uint32_t slot);
void asim_gen_use(asim_gen_writer *w, uint32_t slot, uint32_t stream);
void asim_gen_kernel(asim_gen_writer *w, uint32_t stream, uint64_t ns);
void asim_gen_sync(asim_gen_writer *w);
/* flags: ASIM_MARK_BEGIN, ASIM_MARK_END or 0. number: appended to the label, unless UINT64_MAX. */
void asim_gen_mark(asim_gen_writer *w, asim_mark_kind kind, uint8_t flags, const char *label,
                   uint64_t number);
void asim_gen_note(asim_gen_writer *w, const char *text);

/* A size between low and high, its logarithm evenly spread; rounded to a multiple of 4 bytes. */
uint64_t asim_gen_size(asim_rng *rng, uint64_t low, uint64_t high);

#endif
