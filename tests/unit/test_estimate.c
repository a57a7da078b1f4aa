/* Estimates against published figures and hand calculations. */
#include "tools/estimate.h"

#include <criterion/criterion.h>
#include <string.h>

static asim_estimate_input input_for(const char *model)
{
    asim_estimate_input in = {.weight_bits = 16,
                              .kv_bits = 16,
                              .concurrency = 1,
                              .input = 2048,
                              .output = 2048,
                              .batch_tokens = 1024,
                              .gpus = 1,
                              .peak_tflops = 1000,
                              .bandwidth_gbs = 1000,
                              .link_gbs = 100};
    cr_assert(asim_model_builtin(model, &in.model));
    return in;
}

static asim_estimate make(const asim_estimate_input *in)
{
    asim_estimate e;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_estimate_make(in, &e, &err), ASIM_OK, "%s", err.message);
    return e;
}

/* DeepSeek-R1 in fp8, 30 sequences of 2048 + 2048: 671 GB, 37 GB and 100.08, which is GiB: 30 x 4096 x 2 x 61
 * x 7168 bytes. */
Test(estimate, published_sum_of_deepseek_r1)
{
    asim_estimate_input in = input_for("deepseek-r1");
    in.formula = ASIM_ESTIMATE_PUBLISHED;
    in.weight_bits = in.kv_bits = 8;
    in.concurrency = 30;
    asim_estimate e = make(&in);
    cr_assert_eq(e.weights, UINT64_C(671000000000));
    cr_assert_eq(e.activations, UINT64_C(37000000000));
    cr_assert_eq(e.kv, UINT64_C(30) * 4096 * 2 * 61 * 7168);
    cr_assert_float_eq((double)e.kv / 1073741824.0, 100.08, 0.005);
}

/* 80 layers of width 8192 in fp16: 1024 tokens leave 2.68 GB, 8192 leave 21.47. */
Test(estimate, published_cache_of_llama_70b)
{
    asim_estimate_input in = input_for("llama-3-70b");
    in.formula = ASIM_ESTIMATE_PUBLISHED;
    in.input = 1024;
    in.output = 0;
    cr_assert_eq(make(&in).kv, UINT64_C(2684354560));
    in.input = 8192;
    cr_assert_eq(make(&in).kv, UINT64_C(21474836480));
}

/* In int4: 335.5 + 5.3 GB. */
Test(estimate, published_four_bit_weights)
{
    asim_estimate_input in = input_for("deepseek-r1");
    in.formula = ASIM_ESTIMATE_PUBLISHED;
    in.weight_bits = in.kv_bits = 4;
    asim_estimate e = make(&in);
    cr_assert_eq(e.weights, UINT64_C(335500000000));
    cr_assert_eq(e.scales, UINT64_C(5300000000));
}

/* 8 heads of 128 in 32 layers, 2 bytes: 131072 bytes a token. 16 ranks share 8 heads, so a rank holds an
 * eighth. */
Test(estimate, grouped_heads_are_shared_as_far_as_they_go)
{
    asim_estimate_input in = input_for("llama-3-8b");
    asim_estimate one = make(&in);
    cr_assert_eq(one.kv_token, 131072);
    cr_assert_eq(one.kv, UINT64_C(4096) * 131072);
    in.gpus = 16;
    asim_estimate many = make(&in);
    cr_assert_eq(many.rank_kv, one.kv / 8);
    cr_assert_eq(many.kv, 2 * one.kv);
    in.model.latent = true; /* MLA's vector is every rank's */
    in.model.kv_rank = 512;
    in.model.rope_dim = 64;
    cr_assert_eq(make(&in).rank_kv, UINT64_C(4096) * 32 * 576 * 2);
}

/* Published: 671e9 bytes at 0.6 of 1000 GB/s take 1118.33 ms; the first token 671e9 x 2048 / (0.9 x 10^15) =
 * 1526.9 ms; links 7168 x 2 x 61 bytes at 100 GB/s: 8.7 us. */
Test(estimate, latencies_by_hand)
{
    asim_estimate_input in = input_for("deepseek-r1");
    in.formula = ASIM_ESTIMATE_PUBLISHED;
    in.weight_bits = in.kv_bits = 8;
    asim_estimate e = make(&in);
    cr_assert_eq(e.weights_ns, UINT64_C(671000000) * 10 / 6);
    cr_assert_eq(e.first_token_ns, (uint64_t)(671e9 * 2048 / 0.9e15 * 1e9));
    cr_assert_eq(e.link_ns, 7168 * 2 * 61 / 100);
    cr_assert_eq(e.token_ns, e.weights_ns + e.kv_ns + e.link_ns);
    in.gpus = 4; /* 0.4 of four times the bandwidth */
    cr_assert_eq(make(&in).weights_ns, UINT64_C(671000000) * 10 / 4 / 4);
}

/* One sequence meets 8 of 256 experts; very many meet all: then all weights are read. */
Test(estimate, experts_met)
{
    asim_estimate_input in = input_for("deepseek-r1");
    in.weight_bits = 8;
    in.utilisation_percent = 100;
    double one = 1000.0 * (double)make(&in).weights_ns; /* bytes, at 1000 GB/s */
    double active = (double)asim_model_active_parameters(&in.model);
    cr_assert(one > active * 0.999 && one < active * 1.001, "%f of %f", one, active);
    in.concurrency = 100000;
    double many = 1000.0 * (double)make(&in).weights_ns, all = (double)asim_model_parameters(&in.model);
    cr_assert(many > all * 0.999 && many <= all, "%f of %f", many, all);
}

Test(estimate, offloaded_experts_leave_the_device)
{
    asim_estimate_input in = input_for("deepseek-r1");
    in.weight_bits = 8;
    uint64_t before = make(&in).weights;
    in.offload_percent = 50;
    asim_estimate e = make(&in);
    cr_assert_eq(e.offloaded, asim_model_expert_parameters(&in.model) / 2);
    cr_assert_eq(e.weights + e.offloaded, before);
}

Test(estimate, too_much_is_refused)
{
    asim_estimate_input in = input_for("llama-3-8b");
    asim_estimate e;
    asim_err err = ASIM_ERR_INIT;
    in.concurrency = in.input = UINT64_C(1) << 40;
    cr_assert_eq(asim_estimate_make(&in, &e, &err), ASIM_E_USAGE);
    cr_assert(strstr(err.message, "more than 2^62 bytes"));
}

/* A start-up log: of 80 GiB 95 % may be used; weights 42.59, non-torch 2.30, activations 1.42 GiB
 * leave 29.69. */
Test(estimate, the_split_at_start)
{
    const double gib = 1073741824.0;
    asim_serve_split s = {(uint64_t)(42.59 * gib),
                          (uint64_t)(2.30 * gib),
                          (uint64_t)(1.42 * gib),
                          UINT64_C(80) << 30,
                          95,
                          0,
                          0};
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_serve_split_make(&s, &err), ASIM_OK);
    cr_assert_float_eq((double)s.kv / gib, 29.69, 0.0001);
    cr_assert_float_eq((double)s.reported / gib, 76, 0.0001);
    s.memory = UINT64_C(40) << 30;
    cr_assert_eq(asim_serve_split_make(&s, &err), ASIM_E_USAGE);
    cr_assert(strstr(err.message, "nothing is left for the KV cache"), "%s", err.message);
}
