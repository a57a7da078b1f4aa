/* train - steps of training a transformer on one device: forward, backward, optimizer.
 *
 * Persistent: weights and gradients (two bytes a parameter each), and Adam's two moments with the master
 * weights (four bytes each), sharded by the ZeRO stage over `ranks`: stage 1 the optimizer's, 2 gradients
 * too, 3 weights too. A step: embeddings; a layer forward keeps, for the backward pass, the inputs of its
 * matrices and of its activation (with `checkpoint` only its input, the rest is computed again); logits and
 * their gradient in four bytes; backward frees what forward kept, layer by layer; stage 3 gathers a layer's
 * weights while it computes. Bytes of what a layer keeps follow Korthikanti et al., Reducing Activation
 * Recomputation (MLSys 2023), equation 1, without its dropout masks and with attention that does not store
 * its scores: tokens x hidden x 2 for each tensor. Sequence lengths come from `buckets` equal buckets up to
 * `sequence`.
 */
#include "traces/gen.h"
#include "traces/model.h"

#include <stddef.h>
#include <string.h>

typedef struct train_params {
    char model[ASIM_PARAM_TEXT_MAX];
    uint64_t steps, batch, sequence, buckets, ranks, zero;
    bool checkpoint;
} train_params;

#define AT(field) offsetof(train_params, field)
static const asim_param params[] = {
    {.name = "model",
     .type = ASIM_PARAM_TEXT,
     .offset = AT(model),
     .default_text = "qwen2.5-1.5b",
     .help = "a built-in model: qwen2.5-1.5b, llama-3-8b, llama-3-70b, ..."},
    {.name = "steps",
     .type = ASIM_PARAM_U64,
     .offset = AT(steps),
     .default_text = "10",
     .min = 1,
     .max = UINT64_C(1) << 32,
     .help = "training steps"},
    {.name = "batch",
     .type = ASIM_PARAM_U64,
     .offset = AT(batch),
     .default_text = "4",
     .min = 1,
     .max = 1 << 20,
     .help = "sequences in a batch"},
    {.name = "sequence",
     .type = ASIM_PARAM_U64,
     .offset = AT(sequence),
     .default_text = "2048",
     .min = 1,
     .max = 1 << 24,
     .help = "tokens of the longest sequence"},
    {.name = "buckets",
     .type = ASIM_PARAM_U64,
     .offset = AT(buckets),
     .default_text = "1",
     .min = 1,
     .max = 1024,
     .help = "sequence lengths that occur, evenly spaced; one is drawn for each step"},
    {.name = "ranks",
     .type = ASIM_PARAM_U64,
     .offset = AT(ranks),
     .default_text = "1",
     .min = 1,
     .max = 65536,
     .help = "data parallel ranks; the trace is of one of them"},
    {.name = "zero",
     .type = ASIM_PARAM_U64,
     .offset = AT(zero),
     .default_text = "0",
     .min = 0,
     .max = 3,
     .help = "ZeRO stage: what the ranks share out"},
    {.name = "checkpoint",
     .type = ASIM_PARAM_BOOL,
     .offset = AT(checkpoint),
     .default_text = "false",
     .help = "keep only the input of each layer, and compute the rest again"},
};

enum {
    KEPT_MAX = 16 /* tensors that a layer keeps for its backward pass */
};

typedef struct step {
    asim_gen_writer *w;
    const train_params *p;
    const asim_model *m;
    uint64_t tokens;
    uint64_t layer_bytes; /* of one layer's weights, as a whole */
} step;

static uint64_t share(uint64_t bytes, uint64_t ranks, bool shared)
{
    uint64_t part = shared ? (bytes + ranks - 1) / ranks : bytes;
    return part ? part : 1;
}

/* The tensors that the layer's matrices and its activation need again: input, normed input, q, k, v,
 * attention's output, the sum, its normed form, gate, up and their product. Widths in elements of two bytes.
 */
static unsigned layer_tensors(const asim_model *m, uint64_t ret_width[KEPT_MAX])
{
    uint64_t q = m->latent ? m->heads * (m->nope_dim + m->rope_dim) : m->heads * m->head_dim;
    uint64_t kv = m->latent ? m->heads * m->value_dim : m->kv_heads * m->head_dim;
    uint64_t inner =
        m->experts ? m->per_token * m->expert_intermediate + m->shared_intermediate : m->intermediate;
    const uint64_t widths[] = {m->hidden, m->hidden, q, kv, kv, q, m->hidden, m->hidden, inner, inner, inner};
    memcpy(ret_width, widths, sizeof widths);
    return sizeof widths / sizeof widths[0];
}

static unsigned forward_layer(const step *s, uint32_t kept[KEPT_MAX], bool keep_all)
{
    uint64_t width[KEPT_MAX];
    unsigned count = layer_tensors(s->m, width);
    uint32_t gathered = UINT32_MAX;
    if (s->p->zero == 3)
        gathered = asim_gen_alloc(s->w, s->layer_bytes, 0, 0);
    for (unsigned i = 0; i < count; i++)
        kept[i] = asim_gen_alloc(s->w, s->tokens * width[i] * 2, 0, 0);
    if (gathered != UINT32_MAX)
        asim_gen_free(s->w, gathered);
    for (unsigned i = 1; i < count && !keep_all; i++)
        asim_gen_free(s->w, kept[i]);
    return keep_all ? count : 1;
}

/* The gradient of the output goes in, that of the input comes out, in memory of its own. */
static void backward_layer(const step *s, uint32_t kept[KEPT_MAX], uint32_t *gradient)
{
    uint32_t gathered = UINT32_MAX;
    uint64_t width[KEPT_MAX];
    unsigned count = layer_tensors(s->m, width);
    if (s->p->checkpoint) /* the input is there, the rest is made again */
        for (unsigned i = 1; i < count; i++)
            kept[i] = asim_gen_alloc(s->w, s->tokens * width[i] * 2, 0, 0);
    if (s->p->zero == 3)
        gathered = asim_gen_alloc(s->w, s->layer_bytes, 0, 0);
    for (unsigned i = count; i-- > 0;) {
        uint32_t fresh = asim_gen_alloc(s->w, s->tokens * width[i] * 2, 0, 0);
        asim_gen_free(s->w, *gradient);
        asim_gen_free(s->w, kept[i]);
        *gradient = fresh;
    }
    if (gathered != UINT32_MAX)
        asim_gen_free(s->w, gathered);
}

static void run_step(const step *s, uint32_t (*kept)[KEPT_MAX])
{
    asim_gen_writer *w = s->w;
    const uint64_t logits = s->tokens * s->m->vocab * 4;
    asim_gen_mark(w, ASIM_MARK_PHASE, ASIM_MARK_BEGIN, "forward", UINT64_MAX);
    for (uint64_t l = 0; l < s->m->layers && !w->code; l++)
        forward_layer(s, kept[l], !s->p->checkpoint);
    uint32_t output = asim_gen_alloc(w, logits, 0, 0);
    asim_gen_mark(w, ASIM_MARK_PHASE, ASIM_MARK_END, "forward", UINT64_MAX);
    asim_gen_mark(w, ASIM_MARK_PHASE, ASIM_MARK_BEGIN, "backward", UINT64_MAX);
    uint32_t gradient = asim_gen_alloc(w, logits, 0, 0);
    asim_gen_free(w, output);
    for (uint64_t l = s->m->layers; l-- > 0 && !w->code;)
        backward_layer(s, kept[l], &gradient);
    asim_gen_free(w, gradient);
    asim_gen_mark(w, ASIM_MARK_PHASE, ASIM_MARK_END, "backward", UINT64_MAX);
}

static asim_code generate(const void *block, uint64_t seed, const asim_sink *sink, const asim_hostmem *mem,
                          asim_err *err)
{
    const train_params *p = block;
    asim_model model;
    asim_gen_writer w;
    asim_rng rng = {seed};
    if (!asim_model_builtin(p->model, &model))
        return asim_fail(err, ASIM_E_USAGE,
                         "there is no model '%.64s'; 'allocsim estimate' names those there are", p->model);
    const uint64_t parameters = asim_model_parameters(&model);
    if (p->batch * p->sequence > (UINT64_C(1) << 34))
        return asim_fail(err, ASIM_E_USAGE, "batch x sequence is more than 2^34 tokens");
    uint32_t(*kept)[KEPT_MAX] = asim_mem_new(mem, model.layers, sizeof *kept);
    if (!kept)
        return asim_fail_memory(err, model.layers * sizeof *kept);
    asim_gen_begin(&w, "gen-train", 1, sink, mem, err);
    step s = {&w, p, &model, 0, parameters / model.layers * 2};
    for (uint64_t l = 0; l < model.layers && !w.code; l++) {
        asim_gen_alloc(&w, share(s.layer_bytes, p->ranks, p->zero >= 3), 0, 0);
        asim_gen_alloc(&w, share(s.layer_bytes, p->ranks, p->zero >= 2), 0, 0);
        for (unsigned state = 0; state < 3; state++)
            asim_gen_alloc(&w, share(s.layer_bytes * 2, p->ranks, p->zero >= 1), 0, 0);
    }
    for (uint64_t i = 0; i < p->steps && !w.code; i++) {
        uint64_t bucket = 1 + asim_rng_below(&rng, p->buckets);
        s.tokens = p->batch * ((p->sequence * bucket + p->buckets - 1) / p->buckets);
        asim_gen_mark(&w, ASIM_MARK_ITERATION, ASIM_MARK_BEGIN, "step", UINT64_MAX);
        run_step(&s, kept);
        asim_gen_mark(&w, ASIM_MARK_ITERATION, ASIM_MARK_END, "step", UINT64_MAX);
    }
    asim_mem_free(mem, kept, model.layers, sizeof *kept);
    return asim_gen_end(&w);
}

const asim_generator asim_gen_train = {
    .name = "train",
    .summary = "steps of training a transformer on one rank",
    .shows = "forward and backward, checkpointing, ZeRO, sequence buckets",
    .params = {params, sizeof params / sizeof params[0], sizeof(train_params)},
    .generate = generate,
};
