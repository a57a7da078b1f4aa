/* allocsim estimate: what serving a model takes, from its configuration. */
#include "sim/params.h"
#include "tools/estimate.h"
#include "tools/json.h"
#include "tools/load.h"
#include "tools/units.h"

#include <inttypes.h>
#include <string.h>

extern const asim_verb asim_verb_estimate;

typedef struct options {
    const char *model;
    int precision, kv_precision, formula, format;
    uint64_t concurrency, input, output, batch_tokens, gpus, offload;
    uint64_t memory, peak, bandwidth, link, utilisation, memory_utilisation;
    uint64_t weights, non_torch, activation_peak;
    bool serve_log;
} options;

static const char *const precisions[] = {"fp16", "bf16", "fp8", "int8", "int4", NULL};
static const unsigned precision_bits[] = {16, 16, 8, 8, 4};
static const char *const kv_precisions[] = {"auto", "fp16", "bf16", "fp8", "int8", "int4", NULL};
static const char *const formulas[] = {"stored", "published", NULL};
static const char *const formats[] = {"table", "json", NULL};

static const options defaults = {.precision = 1,
                                 .concurrency = 1,
                                 .input = 2048,
                                 .output = 2048,
                                 .batch_tokens = 8192,
                                 .gpus = 1,
                                 .memory = UINT64_C(80) << 30,
                                 .peak = 989,
                                 .bandwidth = 3350,
                                 .link = 450,
                                 .memory_utilisation = 95,
                                 .weights = UINT64_MAX,
                                 .non_torch = UINT64_C(2469606195), /* 2.30 GiB */
                                 .activation_peak = UINT64_MAX};

#define AT(field) offsetof(options, field)
#define MANY      (UINT64_C(1) << 40)
#define NUMBER(option_name, field, shown, low, high, text)                                                   \
    {                                                                                                        \
        .name = option_name, .type = ASIM_OPTION_NUMBER, .offset = AT(field), .argument = shown, .min = low, \
        .max = high, .help = text                                                                            \
    }
#define SIZE(option_name, field, text)                                                                       \
    {                                                                                                        \
        .name = option_name, .type = ASIM_OPTION_SIZE, .offset = AT(field), .argument = "SIZE", .min = 1,    \
        .max = MANY << 10, .help = text                                                                      \
    }
#define CHOICE(option_name, field, shown, list, text)                                                        \
    {                                                                                                        \
        .name = option_name, .type = ASIM_OPTION_CHOICE, .offset = AT(field), .argument = shown,             \
        .choices = list, .help = text                                                                        \
    }
static const asim_option table[] = {
    CHOICE("precision", precision, "P", precisions, "of weights: fp16, bf16 (default), fp8, int8, int4"),
    CHOICE("kv-precision", kv_precision, "P", kv_precisions,
           "of the cache; auto: fp8 weights' own, else bf16"),
    NUMBER("concurrency", concurrency, "N", 1, MANY, "sequences at a time (1)"),
    NUMBER("input", input, "TOKENS", 0, MANY, "a sequence's prompt (2048); --output: its answer"),
    NUMBER("output", output, "TOKENS", 0, MANY, NULL),
    NUMBER("batch-tokens", batch_tokens, "N", 1, MANY, "tokens in one prefill step (8192)"),
    NUMBER("gpus", gpus, "N", 1, 65536, "tensor parallel ranks (1)"),
    NUMBER("offload", offload, "PCT", 0, 100, "of the experts' weights, to the host"),
    SIZE("memory", memory, "of one GPU (80GiB)"),
    NUMBER("peak", peak, "TFLOPS", 1, 1000000, "of one GPU (989)"),
    NUMBER("bandwidth", bandwidth, "GB/S", 1, 1000000, "of its memory (3350); --link: between GPUs (450)"),
    NUMBER("link", link, "GB/S", 1, 1000000, NULL),
    NUMBER("utilisation", utilisation, "PCT", 1, 100, "of the bandwidth (60; 40 on several GPUs)"),
    CHOICE("formula", formula, "F", formulas, "stored (default) or published: see the manual"),
    {.name = "serve-log",
     .type = ASIM_OPTION_FLAG,
     .offset = AT(serve_log),
     .help = "how vLLM splits a GPU at start; these give sizes:"},
    SIZE("weights", weights, "--non-torch (2.3GiB), --activation-peak likewise"),
    SIZE("non-torch", non_torch, NULL),
    SIZE("activation-peak", activation_peak, NULL),
    NUMBER("share", memory_utilisation, "PCT", 1, 100, "of the GPU that vLLM may use (95)"),
    CHOICE("format", format, "F", formats, "table or json"),
};

static double gb(uint64_t bytes)
{
    return (double)bytes / 1e9;
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)(UINT64_C(1) << 30);
}

static void row(const char *what, uint64_t bytes, uint64_t rank, uint64_t gpus)
{
    printf("  %-14s %12.2f GB %12.2f GiB", what, gb(bytes), gib(bytes));
    if (gpus > 1)
        printf(" %12.2f GiB", gib(rank));
    putchar('\n');
}

static void print_latency(const options *o, const asim_estimate *e)
{
    char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX], c[ASIM_UNITS_MAX], d[ASIM_UNITS_MAX];
    printf("first token      %s for %" PRIu64 " x %" PRIu64 " tokens\n", asim_human_ns(e->first_token_ns, a),
           o->concurrency, o->input);
    printf("a token          %s: weights %s, KV cache %s, links %s, at %" PRIu64 " %% of the bandwidth\n",
           asim_human_ns(e->token_ns, a), asim_human_ns(e->weights_ns, b), asim_human_ns(e->kv_ns, c),
           asim_human_ns(e->link_ns, d), e->utilisation_percent);
}

static void print_published(const options *o, const asim_estimate_input *in, const asim_estimate *e)
{
    if (in->weight_bits == 4) {
        printf("model            %.1f + %.1f = %.1f GB: weights and their scales, a byte for each 128, "
               "rounded up\n",
               gb(e->weights), gb(e->scales), gb(e->weights) + gb(e->scales));
    } else {
        printf("published sum    %.4g + %.4g + %.2f = %.2f GB\n", gb(e->weights), gb(e->activations),
               gib(e->kv), gb(e->weights) + gb(e->activations) + gib(e->kv));
        printf("                 mixes units: the cache's %.2f are GiB; in GB all of it is %.2f\n",
               gib(e->kv), gb(e->total));
    }
    print_latency(o, e);
}

/* Where the published formula would say something else, and why. */
static void print_differences(const asim_estimate_input *in, const asim_estimate *e)
{
    asim_estimate_input other = *in;
    asim_estimate p;
    other.formula = ASIM_ESTIMATE_PUBLISHED;
    other.kv_bits = in->weight_bits == 4 ? in->kv_bits : in->weight_bits;
    if (asim_estimate_make(&other, &p, NULL))
        return;
    printf("the published formula (--formula published) says:\n");
    printf("  weights        %.2f GB for %.4g parameters; the shape has %.4g%s\n", gb(p.weights),
           (double)p.parameters, (double)e->parameters, e->offloaded ? ", some of them on the host" : "");
    printf("  activations    %.2f GB: takes them for as large as the active weights; here: what one batch of "
           "tokens\n"
           "                 keeps at the widest layer\n",
           gb(p.activations));
    const asim_model *m = &in->model;
    printf("  KV cache       %.2f GiB: counts two vectors of width %" PRIu64 " a layer; the model stores ",
           gib(p.kv), m->hidden);
    if (m->latent)
        printf("one of %" PRIu64 " + %" PRIu64 "\n", m->kv_rank, m->rope_dim);
    else
        printf("two of %" PRIu64 " (%" PRIu64 " heads of %" PRIu64 ")\n", m->kv_heads * m->head_dim,
               m->kv_heads, m->head_dim);
    if (m->latent && in->gpus > 1)
        printf("                 which every rank keeps whole, as it belongs to all heads\n");
    if (m->experts)
        printf("  a token        reads all %" PRIu64 " experts; %" PRIu64
               " sequences meet some of them only\n",
               m->experts, in->concurrency);
}

static void print_table(const options *o, const asim_estimate_input *in, const asim_estimate *e)
{
    const uint64_t n = o->gpus;
    printf("model            %s: %.4g parameters, %.4g for a token; %" PRIu64 " bytes of cache a token\n",
           in->model.name, (double)e->parameters, (double)e->active_parameters, e->kv_token);
    printf("memory                      all%s\n", n > 1 ? "                             a GPU" : "");
    row("weights", e->weights, e->rank_weights, n);
    if (e->scales)
        printf("  %-14s %12.2f GB %12.2f GiB\n", "scales", gb(e->scales), gib(e->scales));
    row("activations", e->activations, e->rank_activations, n);
    row("KV cache", e->kv, e->rank_kv, n);
    row("sum", e->total, e->rank_total, n);
    if (e->offloaded)
        row("on the host", e->offloaded, e->offloaded / n, n);
    if (in->formula == ASIM_ESTIMATE_PUBLISHED) {
        print_published(o, in, e);
        return;
    }
    printf("fits             %s: %.2f of %.2f GiB a GPU\n", e->rank_total <= o->memory ? "yes" : "no",
           gib(e->rank_total), gib(o->memory));
    print_latency(o, e);
    print_differences(in, e);
}

static void print_json(const asim_estimate_input *in, const asim_estimate *e)
{
    asim_json json = {.out = stdout};
    asim_json_begin(&json, NULL, '{');
    asim_json_text(&json, "model", in->model.name);
    asim_json_text(&json, "formula", formulas[in->formula]);
    asim_json_number(&json, "parameters", e->parameters);
    asim_json_number(&json, "active_parameters", e->active_parameters);
    asim_json_number(&json, "kv_bytes_per_token", e->kv_token);
    asim_json_number(&json, "weights_bytes", e->weights);
    asim_json_number(&json, "scales_bytes", e->scales);
    asim_json_number(&json, "activations_bytes", e->activations);
    asim_json_number(&json, "kv_bytes", e->kv);
    asim_json_number(&json, "total_bytes", e->total);
    asim_json_number(&json, "offloaded_bytes", e->offloaded);
    asim_json_number(&json, "gpu_weights_bytes", e->rank_weights);
    asim_json_number(&json, "gpu_activations_bytes", e->rank_activations);
    asim_json_number(&json, "gpu_kv_bytes", e->rank_kv);
    asim_json_number(&json, "gpu_total_bytes", e->rank_total);
    asim_json_number(&json, "first_token_ns", e->first_token_ns);
    asim_json_number(&json, "token_ns", e->token_ns);
    asim_json_number(&json, "token_weights_ns", e->weights_ns);
    asim_json_number(&json, "token_kv_ns", e->kv_ns);
    asim_json_number(&json, "token_link_ns", e->link_ns);
    asim_json_end(&json, '}');
}

static void serve_row(const char *what, uint64_t bytes, uint64_t gpus)
{
    printf("  %-20s %10.2f GiB %12.2f GiB\n", what, gib(bytes), (double)(gpus)*gib(bytes));
}

static asim_code print_serve_log(const options *o, const asim_estimate *e, asim_err *err)
{
    asim_serve_split s = {.weights = o->weights != UINT64_MAX ? o->weights : e->rank_weights,
                          .non_torch = o->non_torch,
                          .activation_peak =
                              o->activation_peak != UINT64_MAX ? o->activation_peak : e->rank_activations,
                          .memory = o->memory,
                          .utilisation_percent = o->memory_utilisation};
    asim_code code = asim_serve_split_make(&s, err);
    if (code)
        return code;
    const uint64_t others = s.memory - s.reported;
    if (o->format) {
        asim_json json = {.out = stdout};
        asim_json_begin(&json, NULL, '{');
        asim_json_number(&json, "gpus", o->gpus);
        asim_json_number(&json, "weights_bytes", s.weights);
        asim_json_number(&json, "non_torch_bytes", s.non_torch);
        asim_json_number(&json, "activation_peak_bytes", s.activation_peak);
        asim_json_number(&json, "kv_bytes", s.kv);
        asim_json_number(&json, "smi_bytes", s.reported);
        asim_json_number(&json, "kv_tokens", e->kv_token ? s.kv / e->kv_token : 0);
        asim_json_end(&json, '}');
        return ASIM_OK;
    }
    printf("at start               one GPU of %.2f GiB      %" PRIu64 " GPUs\n", gib(s.memory), o->gpus);
    serve_row("weights", s.weights, o->gpus);
    serve_row("non-torch", s.non_torch, o->gpus);
    serve_row("activation peak", s.activation_peak, o->gpus);
    serve_row("KV cache: the rest", s.kv, o->gpus);
    serve_row("nvidia-smi shows", s.reported, o->gpus);
    printf("  left to others       %10.2f GiB: %" PRIu64 " %% of the GPU may be used\n", gib(others),
           o->memory_utilisation);
    return ASIM_OK;
}

static asim_code load_model(const asim_cli *cli, const char *name, asim_model *ret_model, asim_err *err)
{
    char *text, list[200] = "";
    size_t length;
    if (asim_model_builtin(name, ret_model))
        return ASIM_OK;
    for (size_t i = 0; asim_model_names()[i]; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", asim_model_names()[i]);
    }
    if (!strpbrk(name, "/."))
        return asim_fail(err, ASIM_E_USAGE, "there is no model '%.64s'; known: %s; or name a config.json",
                         name, list);
    asim_code code = asim_load_text(cli, name, ASIM_MODEL_CONFIG_MAX, &text, &length, err);
    if (code)
        return code;
    code = asim_model_parse(text, ret_model, err);
    if (code)
        asim_err_context(err, "%s", name);
    asim_mem_free(cli->mem, text, length + 1, 1);
    const char *base = strrchr(name, '/');
    snprintf(ret_model->name, sizeof ret_model->name, "%s", base ? base + 1 : name);
    return code;
}

static int run(asim_cli *cli, const void *values, char **operands, size_t count)
{
    const options *o = values;
    asim_err err = ASIM_ERR_INIT;
    asim_estimate e;
    (void)count;
    asim_estimate_input in = {.formula = (asim_estimate_formula)o->formula,
                              .weight_bits = precision_bits[o->precision],
                              .concurrency = o->concurrency,
                              .input = o->input,
                              .output = o->output,
                              .batch_tokens = o->batch_tokens,
                              .gpus = o->gpus,
                              .offload_percent = o->offload,
                              .peak_tflops = o->peak,
                              .bandwidth_gbs = o->bandwidth,
                              .link_gbs = o->link,
                              .utilisation_percent = o->utilisation};
    in.kv_bits = o->kv_precision                           ? precision_bits[o->kv_precision - 1]
                 : o->formula == ASIM_ESTIMATE_PUBLISHED   ? in.weight_bits
                 : strcmp(precisions[o->precision], "fp8") ? 16
                                                           : 8;
    if (o->formula == ASIM_ESTIMATE_PUBLISHED && o->offload) {
        asim_fail(&err, ASIM_E_USAGE,
                  "the published formula knows no offloading; leave --offload or --formula");
        return asim_say_error(&err);
    }
    if (load_model(cli, operands[0], &in.model, &err) || asim_estimate_make(&in, &e, &err))
        return asim_say_error(&err);
    if (o->offload && !in.model.experts)
        asim_note(cli, "%s has no experts: --offload does nothing", in.model.name);
    if (o->serve_log) {
        if (print_serve_log(o, &e, &err))
            return asim_say_error(&err);
    } else if (o->format)
        print_json(&in, &e);
    else
        print_table(o, &in, &e);
    return 0;
}

const asim_verb asim_verb_estimate = {
    .name = "estimate",
    .operands = "MODEL",
    .summary = "Memory and latency of serving a model, from its config.json",
    .example = "estimate deepseek-r1 --precision fp8 --concurrency 30",
    .options = table,
    .option_count = sizeof table / sizeof table[0],
    .values_size = sizeof(options),
    .defaults = &defaults,
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
