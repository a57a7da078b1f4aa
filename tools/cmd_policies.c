/* allocsim policies: the registry, one policy's parameters, and what an option string means to PyTorch. */
#include "policies/registry.h"
#include "policies/torchcache_lint.h"
#include "tools/setup.h"

#include <string.h>

extern const asim_verb asim_verb_policies;

typedef struct options {
    const char *lint, *torch;
} options;

static const asim_option table[] = {
    {.name = "lint",
     .type = ASIM_OPTION_TEXT,
     .offset = offsetof(options, lint),
     .argument = "STRING",
     .help = "judge it as PYTORCH_CUDA_ALLOC_CONF; exit 1 if refused"},
    {.name = "torch",
     .type = ASIM_OPTION_TEXT,
     .offset = offsetof(options, torch),
     .argument = "VERSION",
     .help = "the PyTorch release that reads it"},
};

static void list_choices(const asim_param *param, char *ret_text, size_t capacity)
{
    size_t used = 0;
    ret_text[0] = 0;
    for (size_t i = 0; param->choices[i] && used < capacity; i++)
        used += (size_t)snprintf(ret_text + used, capacity - used, "%s%s", i ? " | " : "", param->choices[i]);
}

/* block is scratch: it holds the bounds while they are formatted. */
static void describe_range(const asim_param *param, void *block, char *ret_text, size_t capacity)
{
    static const char *const kinds[] = {
        [ASIM_PARAM_U64] = "a number", [ASIM_PARAM_MIB] = "whole MiB", [ASIM_PARAM_BYTES] = "a size"};
    char low[64], high[64];
    uint64_t *value = (uint64_t *)(void *)((char *)block + param->offset);
    switch (param->type) {
    case ASIM_PARAM_U64:
    case ASIM_PARAM_MIB:
    case ASIM_PARAM_BYTES:
        *value = param->min;
        asim_param_format(param, block, low, sizeof low);
        *value = param->max;
        asim_param_format(param, block, high, sizeof high);
        bool open = param->max >= INT64_MAX;
        snprintf(ret_text, capacity, "%s, %s %s%s%s", kinds[param->type], low, open ? "and more" : "to ",
                 open ? "" : high, param->none_allowed ? ", or none" : "");
        break;
    case ASIM_PARAM_BOOL:
        snprintf(ret_text, capacity, "true | false");
        break;
    case ASIM_PARAM_REAL:
        snprintf(ret_text, capacity, "a number, %g to %g", param->real_min, param->real_max);
        break;
    case ASIM_PARAM_CHOICE:
        list_choices(param, ret_text, capacity);
        break;
    case ASIM_PARAM_TEXT:
        snprintf(ret_text, capacity, "text");
        break;
    }
}

static int show(asim_cli *cli, const asim_policy *policy)
{
    printf("%s: %s\nSource: %s\n", policy->name, policy->summary, policy->source);
    if (policy->params.count == 0) {
        puts("It has no parameters.");
        return 0;
    }
    void *block = asim_mem_new(cli->mem, 1, policy->params.block_size);
    if (!block) {
        asim_say("out of host memory");
        return ASIM_E_SYSTEM;
    }
    puts("Parameters, given as --policy NAME,key=value,...:");
    for (size_t i = 0; i < policy->params.count; i++) {
        const asim_param *param = &policy->params.params[i];
        char range[400], standard[ASIM_PARAM_TEXT_MAX];
        asim_params_default(&policy->params, block);
        asim_param_format(param, block, standard, sizeof standard);
        describe_range(param, block, range, sizeof range);
        printf("\n  %s   [%s]   %s\n      %s\n", param->name, standard, range, param->help);
    }
    asim_mem_free(cli->mem, block, 1, policy->params.block_size);
    return 0;
}

static int lint(asim_cli *cli, const options *o, const char *name)
{
    asim_err err = ASIM_ERR_INIT;
    asim_setup setup;
    asim_setup_request request = {.policy = name, .torch = o->torch};
    if (!name || strcmp(name, "torchcache") != 0) {
        asim_say(
            "--lint needs the policy that reads such strings: allocsim policies torchcache --lint STRING");
        return ASIM_E_USAGE;
    }
    if (asim_setup_policy(cli, &request, NULL, &setup, &err))
        return asim_say_error(&err);
    asim_tc_lint found;
    asim_tc_lint_conf(asim_tc_release_named(setup.torch), o->lint, -1, &found);
    asim_setup_fini(&setup, cli->mem);
    for (size_t i = 0; i < found.count; i++)
        printf("%s: %s\n", found.findings[i].refused ? "error" : "warning", found.findings[i].text);
    if (found.left_out > 0)
        printf("and %zu more\n", found.left_out);
    if (found.count == 0)
        puts("no warnings");
    return found.refused ? ASIM_EXIT_NO : 0;
}

static int run(asim_cli *cli, const void *values, char **operands, size_t count)
{
    const options *o = values;
    if (o->lint)
        return lint(cli, o, count ? operands[0] : NULL);
    if (o->torch) {
        asim_say("--torch goes with --lint; 'allocsim policies torchcache' lists the releases");
        return ASIM_E_USAGE;
    }
    if (count == 0) {
        for (size_t i = 0; asim_policies[i]; i++)
            printf("%-16s %s\n", asim_policies[i]->name, asim_policies[i]->summary);
        return 0;
    }
    asim_err err = ASIM_ERR_INIT;
    const asim_policy *policy;
    const char *params;
    if (asim_setup_find(operands[0], &policy, &params, &err))
        return asim_say_error(&err);
    return show(cli, policy);
}

const asim_verb asim_verb_policies = {
    .name = "policies",
    .operands = "[NAME]",
    .summary = "Lists the policies, or one policy's parameters",
    .example = "policies torchcache --lint 'max_split_size_mb:64'",
    .options = table,
    .option_count = sizeof table / sizeof table[0],
    .values_size = sizeof(options),
    .max_operands = 1,
    .run = run,
};
