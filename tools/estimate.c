#include "tools/estimate.h"

#include <inttypes.h>

typedef unsigned __int128 wide;

enum {
    SCALE_GROUP = 128, /* weights that share one scale */
    PUBLISHED_FLOPS_PERCENT = 90,
};

static wide round_up(wide value, wide by)
{
    return (value + by - 1) / by;
}

static wide bits_to_bytes(wide elements, unsigned bits)
{
    return round_up(elements * bits, 8);
}

/* Millionths of e that c tokens meet, each picking k of e at random: 1 - (1 - k/e)^c. Integer arithmetic, so
 * that every machine prints the same. */
static uint64_t met_ppm(uint64_t e, uint64_t k, uint64_t c)
{
    const uint64_t one = UINT64_C(1) << 32;
    uint64_t missed = one, base = one - (uint64_t)(((wide)k << 32) / e);
    for (uint64_t rest = c; rest; rest >>= 1) {
        if (rest & 1)
            missed = (uint64_t)((wide)missed * base >> 32);
        base = (uint64_t)((wide)base * base >> 32);
    }
    return (uint64_t)((wide)(one - missed) * 1000000 >> 32);
}

typedef struct sums {
    wide weights, scales, activations, kv, offloaded, rank_weights, rank_activations, rank_kv, read;
} sums;

static void published(const asim_estimate_input *in, asim_estimate *e, sums *s)
{
    const asim_model *m = &in->model;
    const wide tokens = (wide)in->concurrency * (in->input + in->output);
    e->parameters = m->published ? m->published : asim_model_parameters(m);
    e->active_parameters = m->published_active ? m->published_active : asim_model_active_parameters(m);
    s->weights = bits_to_bytes(e->parameters, in->weight_bits);
    /* The published 4-bit sum is 335.5 + 5.3 GB: a byte a group of weights, rounded up to a tenth of a GB. */
    if (in->weight_bits == 4)
        s->scales = round_up(round_up(e->parameters, SCALE_GROUP), 100000000) * 100000000;
    s->activations = bits_to_bytes(e->active_parameters, in->weight_bits);
    s->kv = bits_to_bytes(tokens * 2 * m->layers * m->hidden, in->kv_bits);
    e->kv_token = (uint64_t)bits_to_bytes((wide)2 * m->layers * m->hidden, in->kv_bits);
    s->rank_weights = round_up(s->weights + s->scales, in->gpus);
    s->rank_activations = round_up(s->activations, in->gpus);
    s->rank_kv = round_up(s->kv, in->gpus);
    s->read = s->weights;
}

/* The widest moment of a layer: the residual and its normed copy, beside the attention's q, k, v and output
 * or the MLP's gate, up and product; then the logits, four bytes each, of one token a sequence. Elements of
 * two bytes. */
static wide live_activations(const asim_model *m, uint64_t tokens, uint64_t sequences, uint64_t ranks)
{
    wide q = m->latent ? (wide)m->heads * (m->nope_dim + m->rope_dim) : (wide)m->heads * m->head_dim;
    wide v = m->latent ? (wide)m->heads * m->value_dim : (wide)m->kv_heads * m->head_dim;
    wide attention = 2 * q + 2 * v;
    wide dense = m->dense_layers ? 3 * (wide)m->intermediate : 0;
    wide experts = m->experts ? 3 * ((wide)m->per_token * m->expert_intermediate + m->shared_intermediate) +
                                    (wide)m->per_token * m->hidden * ranks
                              : 0;
    wide widest = attention > dense ? attention : dense;
    widest = experts > widest ? experts : widest;
    wide layer = tokens * 2 * (2 * (wide)m->hidden + round_up(widest, ranks));
    wide logits = (wide)sequences * m->vocab * 4;
    return layer > logits ? layer : logits;
}

static void stored(const asim_estimate_input *in, asim_estimate *e, sums *s)
{
    const asim_model *m = &in->model;
    const wide tokens = (wide)in->concurrency * (in->input + in->output);
    const wide experts = asim_model_expert_parameters(m);
    e->parameters = asim_model_parameters(m);
    e->active_parameters = asim_model_active_parameters(m);
    wide away = experts * in->offload_percent / 100, kept = e->parameters - away;
    s->offloaded = bits_to_bytes(away, in->weight_bits);
    s->weights = bits_to_bytes(kept, in->weight_bits);
    s->scales = in->weight_bits == 4 ? round_up(kept, SCALE_GROUP) * 2 : 0;
    e->kv_token = (uint64_t)bits_to_bytes(asim_model_kv_elements(m), in->kv_bits);
    /* Heads are divided among the ranks as far as there are heads; MLA's vector belongs to all heads alike.
     */
    wide shares = m->latent ? 1 : in->gpus < m->kv_heads ? in->gpus : m->kv_heads;
    s->rank_kv = round_up(tokens * e->kv_token, shares);
    s->kv = s->rank_kv * in->gpus;
    s->rank_activations = live_activations(m, in->batch_tokens, in->concurrency, in->gpus);
    s->activations = s->rank_activations * in->gpus;
    s->rank_weights = round_up(s->weights + s->scales, in->gpus);
    uint64_t met = m->experts ? met_ppm(m->experts, m->per_token, in->concurrency) : 0;
    s->read = bits_to_bytes(e->parameters - experts + (experts - away) * met / 1000000, in->weight_bits);
}

static uint64_t as_ns(wide amount, wide a_second)
{
    wide ns = amount * 1000000000 / a_second;
    return ns > INT64_MAX ? INT64_MAX : (uint64_t)ns;
}

asim_code asim_estimate_make(const asim_estimate_input *in, asim_estimate *e, asim_err *err)
{
    const wide giga = 1000000000, limit = (wide)1 << 62;
    const asim_model *m = &in->model;
    sums s = {0};
    *e = (asim_estimate){.utilisation_percent = in->utilisation_percent ? in->utilisation_percent
                                                : in->gpus == 1         ? 60
                                                                        : 40};
    if (in->formula == ASIM_ESTIMATE_PUBLISHED)
        published(in, e, &s);
    else
        stored(in, e, &s);
    wide total = s.weights + s.scales + s.activations + s.kv;
    if (total > limit || s.rank_kv > limit || s.rank_activations > limit)
        return asim_fail(err, ASIM_E_USAGE,
                         "these numbers make more than 2^62 bytes; check --concurrency, --input, "
                         "--output and --batch-tokens");
    e->weights = (uint64_t)s.weights;
    e->scales = (uint64_t)s.scales;
    e->activations = (uint64_t)s.activations;
    e->kv = (uint64_t)s.kv;
    e->total = (uint64_t)total;
    e->offloaded = (uint64_t)s.offloaded;
    e->rank_weights = (uint64_t)s.rank_weights;
    e->rank_activations = (uint64_t)s.rank_activations;
    e->rank_kv = (uint64_t)s.rank_kv;
    e->rank_total = e->rank_weights + e->rank_activations + e->rank_kv;

    const wide flops = (wide)in->peak_tflops * 1000 * giga * in->gpus;
    const wide prompt = (wide)in->concurrency * in->input;
    wide work = in->formula == ASIM_ESTIMATE_PUBLISHED
                    ? bits_to_bytes(e->parameters * prompt, in->weight_bits)
                    : 2 * e->active_parameters * prompt;
    e->first_token_ns = as_ns(work * 100, flops * PUBLISHED_FLOPS_PERCENT);
    const wide bandwidth = (wide)in->bandwidth_gbs * giga * in->gpus * e->utilisation_percent;
    e->weights_ns = as_ns(s.read * 100, bandwidth);
    e->kv_ns = as_ns(s.kv * 100, bandwidth);
    wide sent = in->gpus > 1 || in->formula == ASIM_ESTIMATE_PUBLISHED
                    ? bits_to_bytes((wide)in->concurrency * m->hidden * 2 * m->layers,
                                    in->formula == ASIM_ESTIMATE_PUBLISHED ? in->weight_bits : 16)
                    : 0;
    e->link_ns = as_ns(sent, (wide)in->link_gbs * giga);
    e->token_ns = e->weights_ns + e->kv_ns + e->link_ns;
    return ASIM_OK;
}

asim_code asim_serve_split_make(asim_serve_split *split, asim_err *err)
{
    const wide budget = (wide)split->memory * split->utilisation_percent / 100;
    const wide taken = (wide)split->weights + split->non_torch + split->activation_peak;
    if (taken >= budget)
        return asim_fail(
            err, ASIM_E_USAGE,
            "weights, non-torch memory and activations take %" PRIu64 " MiB of the %" PRIu64
            " MiB that may be used: nothing is left for the KV cache; use more ranks or a smaller precision",
            (uint64_t)(taken >> 20), (uint64_t)(budget >> 20));
    split->kv = (uint64_t)(budget - taken);
    split->reported = (uint64_t)budget;
    return ASIM_OK;
}
