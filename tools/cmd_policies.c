/* allocsim policies: the registry, and one policy's parameters. */
#include "policies/registry.h"
#include "tools/cli.h"

#include <stdint.h>

extern const asim_verb asim_verb_policies;

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

static int run(asim_cli *cli, const void *values, char **operands, size_t count)
{
    (void)values;
    if (count == 0) {
        for (size_t i = 0; asim_policies[i]; i++)
            printf("%-16s %s\n", asim_policies[i]->name, asim_policies[i]->summary);
        return 0;
    }
    const asim_policy *policy = asim_policy_find(operands[0]);
    if (policy)
        return show(cli, policy);
    const char *names[64];
    size_t known = 0;
    for (; asim_policies[known] && known < 63; known++)
        names[known] = asim_policies[known]->name;
    names[known] = NULL;
    const char *near = asim_nearest(operands[0], names);
    asim_say("there is no policy '%.64s'%s%s%s; 'allocsim policies' lists them", operands[0],
             near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    return ASIM_E_USAGE;
}

const asim_verb asim_verb_policies = {
    .name = "policies",
    .operands = "[NAME]",
    .summary = "Lists the policies, or one policy's parameters",
    .example = "policies torchcache",
    .max_operands = 1,
    .run = run,
};
