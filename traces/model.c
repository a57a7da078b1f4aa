#include "traces/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <yajl/yajl_tree.h>

#define SIZE_LIMIT UINT64_C(1000000) /* of one dimension */

enum {
    NESTING_MAX = 64
};

#define PARAMETERS_MAX UINT64_C(1000000000000000)

typedef unsigned __int128 wide; /* a product of five dimensions fits */

typedef struct reading {
    yajl_val root;
    asim_err *err;
    asim_code code;
} reading;

/* The first of several names under which a key is known, in the text model where the model has several parts.
 */
static yajl_val find(const reading *r, const char *const *names)
{
    for (size_t i = 0; names[i]; i++) {
        const char *plain[] = {names[i], NULL}, *nested[] = {"text_config", names[i], NULL};
        yajl_val found = yajl_tree_get(r->root, plain, yajl_t_any);
        if (!found)
            found = yajl_tree_get(r->root, nested, yajl_t_any);
        if (found && !YAJL_IS_NULL(found))
            return found;
    }
    return NULL;
}

static uint64_t number(reading *r, const char *const *names, bool required, uint64_t otherwise,
                       uint64_t limit)
{
    yajl_val value = find(r, names);
    if (r->code)
        return 1;
    if (!value && required) {
        r->code =
            asim_fail(r->err, ASIM_E_INPUT, "the key \"%s\" is missing: is this a config.json?", names[0]);
        return 1;
    }
    if (!value)
        return otherwise;
    if (!YAJL_IS_INTEGER(value) || YAJL_GET_INTEGER(value) < 0 || (uint64_t)YAJL_GET_INTEGER(value) > limit ||
        (required && YAJL_GET_INTEGER(value) == 0)) {
        r->code = asim_fail(r->err, ASIM_E_INPUT, "\"%s\" must be a whole number from %d to %" PRIu64,
                            names[0], required ? 1 : 0, limit);
        return 1;
    }
    return (uint64_t)YAJL_GET_INTEGER(value);
}

static bool flag(reading *r, const char *name, bool otherwise)
{
    yajl_val value = find(r, (const char *const[]){name, NULL});
    if (!value || r->code)
        return otherwise;
    if (!YAJL_IS_TRUE(value) && !YAJL_IS_FALSE(value))
        r->code = asim_fail(r->err, ASIM_E_INPUT, "\"%s\" must be true or false", name);
    return YAJL_IS_TRUE(value);
}

static bool type_is(const reading *r, const char *type)
{
    yajl_val value = find(r, (const char *const[]){"model_type", NULL});
    const char *text = value ? YAJL_GET_STRING(value) : NULL;
    return text && strcmp(text, type) == 0;
}

#define KEYS(...)            ((const char *const[]){__VA_ARGS__, NULL})
#define NEEDED(...)          number(r, KEYS(__VA_ARGS__), true, 0, SIZE_LIMIT)
#define OPTIONAL(other, ...) number(r, KEYS(__VA_ARGS__), false, other, SIZE_LIMIT)

static void read_experts(reading *r, asim_model *m)
{
    m->experts = OPTIONAL(0, "n_routed_experts", "num_local_experts", "num_experts");
    m->dense_layers = m->experts ? OPTIONAL(0, "first_k_dense_replace") : m->layers;
    if (m->experts == 0)
        return;
    m->per_token = NEEDED("num_experts_per_tok", "experts_per_token");
    m->shared = OPTIONAL(0, "n_shared_experts");
    m->expert_intermediate = OPTIONAL(m->intermediate, "moe_intermediate_size");
    m->shared_intermediate = OPTIONAL(m->shared * m->expert_intermediate, "shared_expert_intermediate_size");
    if (!r->code && (m->per_token > m->experts || m->dense_layers > m->layers))
        r->code = asim_fail(r->err, ASIM_E_INPUT,
                            "%" PRIu64 " of %" PRIu64 " experts a token and %" PRIu64 " dense of %" PRIu64
                            " layers can't be",
                            m->per_token, m->experts, m->dense_layers, m->layers);
}

static void read_shape(reading *r, asim_model *m)
{
    m->layers = number(r, KEYS("num_hidden_layers"), true, 0, 10000);
    m->hidden = NEEDED("hidden_size");
    m->vocab = number(r, KEYS("vocab_size"), true, 0, SIZE_LIMIT * 100);
    m->heads = NEEDED("num_attention_heads");
    m->intermediate = NEEDED("intermediate_size");
    m->tied = flag(r, "tie_word_embeddings", false);
    m->qkv_bias = flag(r, "attention_bias", type_is(r, "qwen2") || type_is(r, "qwen2_moe"));
    m->kv_rank = OPTIONAL(0, "kv_lora_rank");
    m->latent = m->kv_rank > 0;
    if (m->latent) {
        m->q_rank = OPTIONAL(0, "q_lora_rank");
        m->nope_dim = NEEDED("qk_nope_head_dim");
        m->rope_dim = NEEDED("qk_rope_head_dim");
        m->value_dim = NEEDED("v_head_dim");
    } else {
        m->kv_heads = OPTIONAL(m->heads, "num_key_value_heads");
        m->head_dim = OPTIONAL(m->heads ? m->hidden / m->heads : 0, "head_dim");
        if (!r->code && (m->kv_heads == 0 || m->kv_heads > m->heads || m->head_dim == 0))
            r->code =
                asim_fail(r->err, ASIM_E_INPUT,
                          "%" PRIu64 " key-value heads for %" PRIu64 " heads of width %" PRIu64 " can't be",
                          m->kv_heads, m->heads, m->head_dim);
    }
    read_experts(r, m);
    m->published = number(r, KEYS("published_parameters"), false, 0, UINT64_C(1) << 50);
    m->published_active =
        number(r, KEYS("published_active_parameters"), false, m->published, UINT64_C(1) << 50);
}

/* --- counts --- */

static wide attention(const asim_model *m)
{
    const wide h = m->hidden;
    if (!m->latent) {
        wide q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
        return h * q + 2 * h * kv + q * h + (m->qkv_bias ? q + 2 * kv : 0);
    }
    wide q_width = m->heads * (m->nope_dim + m->rope_dim);
    wide q = m->q_rank ? h * m->q_rank + m->q_rank + m->q_rank * q_width : h * q_width;
    wide kv =
        h * (m->kv_rank + m->rope_dim) + m->kv_rank + m->kv_rank * m->heads * (m->nope_dim + m->value_dim);
    return q + kv + m->heads * m->value_dim * h;
}

/* of_experts: routed experts counted in a layer */
static wide parameters(const asim_model *m, uint64_t of_experts)
{
    const wide h = m->hidden, mixed = m->layers - m->dense_layers;
    wide shared = m->layers * (attention(m) + 2 * h) + h;
    wide dense = m->dense_layers * 3 * h * m->intermediate;
    wide routed = mixed * (of_experts * 3 * h * m->expert_intermediate + 3 * h * m->shared_intermediate +
                           h * m->experts);
    return (m->tied ? 1 : 2) * m->vocab * h + shared + dense + routed;
}

/* --- reading --- */

/* The library frees a tree by recursion. */
static bool is_deep(const char *text)
{
    int depth = 0;
    bool quoted = false;
    for (; *text; text++) {
        if (quoted && *text == '\\' && text[1])
            text++;
        else if (*text == '"')
            quoted = !quoted;
        else if (!quoted && (*text == '[' || *text == '{') && ++depth > NESTING_MAX)
            return true;
        else if (!quoted && (*text == ']' || *text == '}'))
            depth--;
    }
    return false;
}

asim_code asim_model_parse(const char *text, asim_model *ret_model, asim_err *err)
{
    char why[256] = "";
    const size_t length = strlen(text);
    if (length > ASIM_MODEL_CONFIG_MAX)
        return asim_fail(err, ASIM_E_INPUT, "%zu bytes are too many for a config.json", length);
    if (is_deep(text))
        return asim_fail(err, ASIM_E_INPUT, "nested more than %d deep: this is no config.json", NESTING_MAX);
    reading r = {.root = yajl_tree_parse(text, why, sizeof why), .err = err};
    if (!r.root) {
        why[strcspn(why, "\n")] = 0;
        return asim_fail(err, ASIM_E_INPUT, "not JSON: %s", why);
    }
    memset(ret_model, 0, sizeof *ret_model);
    if (!YAJL_IS_OBJECT(r.root))
        r.code = asim_fail(err, ASIM_E_INPUT, "a config.json holds one object");
    else
        read_shape(&r, ret_model);
    yajl_tree_free(r.root);
    if (!r.code && parameters(ret_model, ret_model->experts) > PARAMETERS_MAX)
        return asim_fail(err, ASIM_E_INPUT, "these sizes make more than 10^15 parameters");
    return r.code;
}

uint64_t asim_model_parameters(const asim_model *model)
{
    return (uint64_t)parameters(model, model->experts);
}

uint64_t asim_model_active_parameters(const asim_model *model)
{
    return (uint64_t)parameters(model, model->per_token);
}

uint64_t asim_model_expert_parameters(const asim_model *m)
{
    return (m->layers - m->dense_layers) * m->experts * 3 * m->hidden * m->expert_intermediate;
}

uint64_t asim_model_kv_elements(const asim_model *m)
{
    return m->latent ? m->layers * (m->kv_rank + m->rope_dim) : 2 * m->layers * m->kv_heads * m->head_dim;
}

/* --- built in --- */

static const char qwen_1_5b[] = {
#include "traces/qwen2.5-1.5b.inc"
    0};
static const char llama_8b[] = {
#include "traces/llama-3-8b.inc"
    0};
static const char v2_lite[] = {
#include "traces/deepseek-v2-lite.inc"
    0};
static const char llama_70b[] = {
#include "traces/llama-3-70b.inc"
    0};
static const char r1[] = {
#include "traces/deepseek-r1.inc"
    0};

static const struct {
    const char *name, *text;
} builtin[] = {{"qwen2.5-1.5b", qwen_1_5b},
               {"llama-3-8b", llama_8b},
               {"deepseek-v2-lite", v2_lite},
               {"llama-3-70b", llama_70b},
               {"deepseek-r1", r1}};

bool asim_model_builtin(const char *name, asim_model *ret_model)
{
    for (size_t i = 0; i < sizeof builtin / sizeof builtin[0]; i++)
        if (strcmp(builtin[i].name, name) == 0) {
            if (asim_model_parse(builtin[i].text, ret_model, NULL))
                return false;
            snprintf(ret_model->name, sizeof ret_model->name, "%s", name);
            return true;
        }
    return false;
}

const char *const *asim_model_names(void)
{
    static const char *const names[] = {"qwen2.5-1.5b", "llama-3-8b",  "deepseek-v2-lite",
                                        "llama-3-70b",  "deepseek-r1", NULL};
    return names;
}
