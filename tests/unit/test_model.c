/* Shapes of language models: counts against what the publishers state, and configurations that can't be. */
#include "traces/model.h"

#include <criterion/criterion.h>
#include <string.h>

static asim_model builtin(const char *name)
{
    asim_model model;
    cr_assert(asim_model_builtin(name, &model), "%s", name);
    return model;
}

/* Published counts: Llama 3 8B 8.03B and 70B 70.6B, DeepSeek-V3 671B with 37B active, DeepSeek-V2-Lite 15.7B
 * with 2.4B, Qwen2.5-1.5B 1.54B (model cards and reports). */
Test(model, counts_agree_with_what_is_published)
{
    static const struct {
        const char *name;
        double total, active, digit; /* in 10^9; active 0: as total */
    } published[] = {{"llama-3-8b", 8.03, 0, 0.01},
                     {"llama-3-70b", 70.6, 0, 0.1},
                     {"deepseek-r1", 671, 37, 1},
                     {"deepseek-v2-lite", 15.7, 2.4, 0.3},
                     {"qwen2.5-1.5b", 1.54, 0, 0.01}};
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        asim_model model = builtin(published[i].name);
        double total = (double)asim_model_parameters(&model) / 1e9;
        double active = (double)asim_model_active_parameters(&model) / 1e9;
        double wanted = published[i].active > 0 ? published[i].active : total;
        cr_expect(total > published[i].total - published[i].digit &&
                      total < published[i].total + published[i].digit,
                  "%s: %f", published[i].name, total);
        cr_expect(active > wanted - published[i].digit && active < wanted + published[i].digit,
                  "%s: %f active", published[i].name, active);
    }
}

/* Llama 3 8B by hand: 2 x 128256 x 4096 of embeddings; a layer: q and o 4096^2 each, k and v 4096 x 1024
 * each, 3 x 4096 x 14336, 2 x 4096; and 4096 at the end. */
Test(model, a_dense_model_by_hand)
{
    asim_model model = builtin("llama-3-8b");
    uint64_t layer =
        UINT64_C(2) * 4096 * 4096 + UINT64_C(2) * 4096 * 1024 + UINT64_C(3) * 4096 * 14336 + 2 * 4096;
    cr_assert_eq(asim_model_parameters(&model), UINT64_C(2) * 128256 * 4096 + 32 * layer + 4096);
    cr_assert_eq(asim_model_active_parameters(&model), asim_model_parameters(&model));
    cr_assert_eq(asim_model_expert_parameters(&model), 0);
}

/* Bytes a token at 2 bytes an element: 131072 (Llama 3 8B), 327680 (70B), 28672 (Qwen2.5-1.5B), and with
 * latent attention 70272 (DeepSeek-R1) and 31104 (V2-Lite). */
Test(model, kv_cache_of_a_token)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } known[] = {{"llama-3-8b", 131072},
                 {"llama-3-70b", 327680},
                 {"qwen2.5-1.5b", 28672},
                 {"deepseek-r1", 70272},
                 {"deepseek-v2-lite", 31104}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        asim_model model = builtin(known[i].name);
        cr_expect_eq(2 * asim_model_kv_elements(&model), known[i].bytes, "%s", known[i].name);
    }
}

/* 58 layers of 256 experts, each 3 x 7168 x 2048. */
Test(model, experts_by_hand)
{
    asim_model model = builtin("deepseek-r1");
    cr_assert_eq(asim_model_expert_parameters(&model), UINT64_C(58) * 256 * 3 * 7168 * 2048);
}

#define SMALL                                                                                                \
    "\"num_hidden_layers\": 2, \"hidden_size\": 8, \"vocab_size\": 10, \"num_attention_heads\": 2, "         \
    "\"intermediate_size\": 16"

static const char *refusal(const char *text)
{
    static asim_err err;
    asim_model model;
    err = (asim_err)ASIM_ERR_INIT;
    asim_code code = asim_model_parse(text, &model, &err);
    return code ? err.message : "";
}

Test(model, what_a_config_may_leave_out)
{
    asim_model model;
    cr_assert_eq(asim_model_parse("{" SMALL "}", &model, NULL), ASIM_OK);
    cr_assert_eq(model.kv_heads, 2);
    cr_assert_eq(model.head_dim, 4);
    cr_assert_not(model.tied);
    cr_assert_eq(asim_model_parse("{\"text_config\": {" SMALL "}}", &model, NULL), ASIM_OK);
    cr_assert_eq(model.hidden, 8);
    cr_assert_eq(asim_model_parse("{" SMALL ", \"model_type\": \"qwen2\"}", &model, NULL), ASIM_OK);
    cr_assert(model.qkv_bias);
    /* Mixtral's spelling: two of eight experts of the dense size */
    cr_assert_eq(
        asim_model_parse("{" SMALL ", \"num_local_experts\": 8, \"num_experts_per_tok\": 2}", &model, NULL),
        ASIM_OK);
    cr_assert_eq(asim_model_expert_parameters(&model), 2 * 8 * 3 * 8 * 16);
    cr_assert_eq(asim_model_parameters(&model) - asim_model_active_parameters(&model), 2 * 6 * 3 * 8 * 16);
}

Test(model, nonsense_is_refused)
{
    static char deep[200];
    memset(deep, '[', sizeof deep - 1);
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "not JSON"},
        {"{", "not JSON"},
        {"[1]", "one object"},
        {"{}", "\"num_hidden_layers\" is missing"},
        {"{\"num_hidden_layers\": 0}", "from 1 to 10000"},
        {"{\"num_hidden_layers\": -3}", "from 1 to 10000"},
        {"{\"num_hidden_layers\": 1e3}", "from 1 to 10000"},
        {"{\"num_hidden_layers\": 99999999999999999999}", "from 1 to 10000"},
        {"{" SMALL ", \"num_key_value_heads\": 3}", "3 key-value heads for 2 heads"},
        {"{" SMALL ", \"num_local_experts\": 2, \"num_experts_per_tok\": 3}", "3 of 2 experts"},
        {"{" SMALL ", \"num_local_experts\": 2}", "\"num_experts_per_tok\" is missing"},
        {"{" SMALL ", \"tie_word_embeddings\": 1}", "must be true or false"},
        {"{" SMALL ", \"kv_lora_rank\": 4}", "\"qk_nope_head_dim\" is missing"},
        {"{\"num_hidden_layers\": 10000, \"hidden_size\": 1000000, \"vocab_size\": 10, "
         "\"num_attention_heads\": 2, "
         "\"intermediate_size\": 1000000, \"num_experts\": 1000000, \"num_experts_per_tok\": 1}",
         "more than 10^15"},
        {deep, "nested more than 64 deep"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect(strstr(refusal(cases[i].text), cases[i].message), "%.80s: %s", cases[i].text,
                  refusal(cases[i].text));
}
