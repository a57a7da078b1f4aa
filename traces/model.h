/* traces/model.h - the shape of a language model, and what follows from it: parameters, KV cache.
 *
 * The shape is read from a Hugging Face config.json: dense and mixture-of-experts models, with multi-head,
 * grouped-query or multi-head latent attention (MLA). Counts are of weights, not of bytes. What is counted,
 * per layer of width h: attention q, k, v, o (with biases where the model has them) or MLA's compressed
 * forms, three matrices h x intermediate for each gated MLP or expert, the router, two norms; and the
 * embedding, the output matrix unless tied, and the last norm. For DeepSeek-V3 that gives 671.03e9
 * (published: 671B), for Llama 3 8B 8.030e9 (published: 8.03B).
 */
#ifndef ASIM_TRACES_MODEL_H
#define ASIM_TRACES_MODEL_H

#include "sim/err.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ASIM_MODEL_NAME_MAX = 64,
    ASIM_MODEL_CONFIG_MAX = 1 << 20 /* bytes of a config.json; more is refused */
};

typedef struct asim_model {
    char name[ASIM_MODEL_NAME_MAX];
    uint64_t layers, hidden, vocab;
    uint64_t heads, kv_heads, head_dim;
    bool latent; /* MLA: the five below; otherwise grouped-query with kv_heads */
    uint64_t q_rank, kv_rank, nope_dim, rope_dim, value_dim;
    bool tied; /* the output matrix is the embedding */
    bool qkv_bias;
    uint64_t intermediate;               /* of a dense MLP */
    uint64_t dense_layers;               /* the first ones; the others are mixtures of experts */
    uint64_t experts, shared, per_token; /* 0: all layers are dense */
    uint64_t expert_intermediate, shared_intermediate; /* of one expert; of all shared ones together */
    uint64_t published, published_active; /* parameters as the publisher states them; 0 where unknown */
} asim_model;

/* Reads a config.json, zero-terminated. ASIM_E_INPUT names the key that is missing or nonsense. */
asim_code asim_model_parse(const char *text, asim_model *ret_model, asim_err *err);

/* The built-in model of that name; false where there is none. Names: NULL-ended, sorted by size. */
bool asim_model_builtin(const char *name, asim_model *ret_model);
const char *const *asim_model_names(void);

/* Weights of the whole model, and of those that one token passes through. */
uint64_t asim_model_parameters(const asim_model *model);
uint64_t asim_model_active_parameters(const asim_model *model);

/* Weights of all routed experts: what can live elsewhere than in device memory. */
uint64_t asim_model_expert_parameters(const asim_model *model);

/* Elements that one token leaves in the KV cache of all layers: 2 x layers x kv_heads x head_dim, and with
 * latent attention layers x (kv_rank + rope_dim). */
uint64_t asim_model_kv_elements(const asim_model *model);

#endif
