/* tools/estimate.h - what serving a language model takes: memory, first token, later tokens.
 *
 * Two sets of formulas. ASIM_ESTIMATE_PUBLISHED is the one that circulates in capacity planning; with P
 * parameters, A active ones, b bytes of the precision, c concurrent sequences, t = input + output tokens, L
 * layers of width h:
 *
 *     weights      P b                        activations  A b
 *     KV cache     c t 2 L h b                scales       P / 128 (4-bit precisions only)
 *     first token  P c input b / (0.9 peak)
 *     a token      weights / (u B) + KV / (u B) + c h b 2 L / link      B: bandwidth of all ranks
 *
 * It counts each head's keys and values in full width, takes activations for as large as the active weights,
 * and reads all experts for every token. ASIM_ESTIMATE_STORED uses what the model stores: grouped-query heads
 * or MLA's compressed vector at the precision of the cache, the counted parameters with the scales of 4-bit
 * weights (two bytes a group of 128), the live intermediates of one batch, and for a token the experts that c
 * tokens are expected to meet: E (1 - (1 - k/E)^c). Both: u = 0.6 on one GPU, 0.4 on several, unless given.
 */
#ifndef ASIM_TOOLS_ESTIMATE_H
#define ASIM_TOOLS_ESTIMATE_H

#include "traces/model.h"

typedef enum asim_estimate_formula {
    ASIM_ESTIMATE_STORED = 0,
    ASIM_ESTIMATE_PUBLISHED = 1,
} asim_estimate_formula;

typedef struct asim_estimate_input {
    asim_model model;
    asim_estimate_formula formula;
    unsigned weight_bits, kv_bits;       /* 16, 8 or 4 */
    uint64_t concurrency, input, output; /* sequences; tokens of each */
    uint64_t batch_tokens;               /* tokens that one prefill step works on at once */
    uint64_t gpus;                       /* tensor parallel ranks */
    uint64_t offload_percent;            /* of the routed experts' weights, in host memory */
    uint64_t peak_tflops;                /* of one GPU, 10^12 operations a second */
    uint64_t bandwidth_gbs, link_gbs;    /* of one GPU, 10^9 bytes a second */
    uint64_t utilisation_percent;        /* of the bandwidth; 0: as the formulas say */
} asim_estimate_input;

typedef struct asim_estimate { /* bytes over all ranks, and on one of them; nanoseconds */
    uint64_t parameters, active_parameters;
    uint64_t weights, scales, activations, kv, total;
    uint64_t offloaded; /* not in weights */
    uint64_t rank_weights, rank_activations, rank_kv, rank_total;
    uint64_t kv_token; /* bytes that one token leaves */
    uint64_t first_token_ns, weights_ns, kv_ns, link_ns, token_ns;
    uint64_t utilisation_percent;
} asim_estimate;

/* ASIM_E_USAGE where the numbers make more than 2^62 bytes. */
asim_code asim_estimate_make(const asim_estimate_input *input, asim_estimate *ret_estimate, asim_err *err);

/* How vLLM divides a GPU at its start: total x utilisation less the other three goes to the KV cache. Bytes.
 * reported: what nvidia-smi then shows, as the cache is taken at once. ASIM_E_USAGE where nothing is left. */
typedef struct asim_serve_split {
    uint64_t weights, non_torch, activation_peak; /* in */
    uint64_t memory;
    uint64_t utilisation_percent;
    uint64_t kv, reported; /* out */
} asim_serve_split;

asim_code asim_serve_split_make(asim_serve_split *split, asim_err *err);

#endif
