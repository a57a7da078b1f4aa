#include "tools/sweep_plan.h"

#include "policies/registry.h"
#include "sim/ranges.h"
#include "tools/setup.h"

#include <string.h>

enum {
    AXES_MAX = 64,
    KEY_MAX = 64,
    CONFIG_MAX = 4096, /* bytes of one configuration's text */
};

/* One parameter and the values that it takes. */
typedef struct axis {
    char key[KEY_MAX];
    asim_values values;
} axis;

/* A parameter for all policies that have it. */
typedef struct shared_axis {
    const char *option; /* "--set" */
    char key[KEY_MAX];
    const char *range;
    bool used;
} shared_axis;

typedef struct planner {
    const asim_cli *cli;
    const asim_sweep_request *request;
    asim_sweep_plan *plan;
    shared_axis shared[AXES_MAX];
    size_t shared_count;
    bool conf_used;
    asim_err *err;
} planner;

static bool has_key(const char *item, size_t *ret_length)
{
    *ret_length = strspn(item, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return *ret_length > 0 && *ret_length < KEY_MAX && item[*ret_length] == '=';
}

static asim_code add_axis(const planner *p, const asim_policy *policy, const char *key, const char *range,
                          axis *axes, size_t *count)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp(axes[i].key, key) == 0)
            return asim_fail(p->err, ASIM_E_USAGE, "policy %s: the parameter %s is given twice", policy->name,
                             key);
    if (*count == AXES_MAX)
        return asim_fail(p->err, ASIM_E_USAGE, "policy %s: more than %d parameters", policy->name, AXES_MAX);
    axis *next = &axes[(*count)++];
    snprintf(next->key, sizeof next->key, "%s", key);
    const asim_param *param = asim_setup_param(policy, key);
    asim_range_kind kind = param ? asim_range_kind_of(param->type) : ASIM_RANGE_NONE;
    asim_code code = asim_values_parse(range, kind, &next->values, p->cli->mem, p->err);
    return code ? asim_err_context(p->err, "parameter %s", key) : ASIM_OK;
}

/* Cuts "key=1,2,other=3" into axes: what has no key belongs to the list before it. */
static asim_code add_own_axes(const planner *p, const asim_policy *policy, const char *text, axis *axes,
                              size_t *count)
{
    while (*text) {
        size_t length, unused, end = 0;
        char key[KEY_MAX], range[CONFIG_MAX];
        if (!has_key(text, &length))
            return asim_fail(p->err, ASIM_E_USAGE, "'%.64s' is not of the form key=value", text);
        snprintf(key, sizeof key, "%.*s", (int)length, text);
        text += length + 1;
        for (int depth = 0; text[end]; end++) {
            depth += text[end] == '[' ? 1 : text[end] == ']' && depth > 0 ? -1 : 0;
            if (text[end] == ',' && depth == 0 && has_key(text + end + 1, &unused))
                break;
        }
        if (end >= sizeof range)
            return asim_fail(p->err, ASIM_E_USAGE, "parameter %s: its list of values is too long", key);
        snprintf(range, sizeof range, "%.*s", (int)end, text);
        asim_code code = add_axis(p, policy, key, range, axes, count);
        if (code)
            return code;
        text += end + (text[end] == ',');
    }
    return ASIM_OK;
}

static asim_code add_config(planner *p, const char *text, const char *conf, uint64_t capacity)
{
    asim_sweep_plan *plan = p->plan;
    if (plan->count == ASIM_SWEEP_MAX)
        return asim_fail(p->err, ASIM_E_USAGE,
                         "more than %d configurations: take larger steps or fewer parameters",
                         ASIM_SWEEP_MAX);
    void *configs = plan->configs;
    asim_code code =
        asim_mem_grow(p->cli->mem, &configs, &plan->capacity, plan->count + 1, sizeof *plan->configs, p->err);
    if (code)
        return code;
    plan->configs = configs;
    size_t size = strlen(text) + 1;
    char *copy = asim_mem_new(p->cli->mem, size, 1);
    if (!copy)
        return asim_fail_memory(p->err, size);
    memcpy(copy, text, size);
    plan->configs[plan->count++] = (asim_sweep_config){copy, size, conf, capacity};
    return ASIM_OK;
}

/* All combinations of the axes' values, the last axis running fastest. */
static asim_code add_product(planner *p, const char *name, const axis *axes, size_t count, const char *conf,
                             uint64_t capacity)
{
    size_t at[AXES_MAX] = {0};
    for (;;) {
        char text[CONFIG_MAX];
        size_t used = (size_t)snprintf(text, sizeof text, "%s", name);
        for (size_t i = 0; i < count && used < sizeof text; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, ",%s=%s", axes[i].key,
                                     axes[i].values.items[at[i]]);
        if (used >= sizeof text)
            return asim_fail(p->err, ASIM_E_USAGE, "a configuration of more than %zu bytes: '%.64s...'",
                             sizeof text - 1, text);
        asim_code code = add_config(p, text, conf, capacity);
        if (code)
            return code;
        size_t turn = count;
        while (turn > 0 && ++at[turn - 1] == axes[turn - 1].values.count)
            at[--turn] = 0;
        if (turn == 0)
            return ASIM_OK;
    }
}

static asim_code add_policy(planner *p, const char *text, uint64_t capacity)
{
    const asim_policy *policy;
    const char *own;
    axis axes[AXES_MAX] = {0};
    size_t count = 0;
    asim_code code = asim_setup_find(text, &policy, &own, p->err);
    if (code)
        return code;
    char name[CONFIG_MAX];
    size_t length = own[0] ? (size_t)(own - text) - 1 : strcspn(text, ",");
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name), text);
    code = add_own_axes(p, policy, own, axes, &count);
    if (code)
        asim_err_context(p->err, "--policy %s", policy->name);
    for (size_t i = 0; i < p->shared_count && !code; i++)
        if (asim_setup_param(policy, p->shared[i].key)) {
            p->shared[i].used = true;
            code = add_axis(p, policy, p->shared[i].key, p->shared[i].range, axes, &count);
            if (code)
                asim_err_context(p->err, "%s", p->shared[i].option);
        }
    const asim_option_list *confs = &p->request->confs;
    bool takes_conf = confs->count > 0 && asim_setup_param(policy, "conf");
    p->conf_used = p->conf_used || takes_conf;
    for (size_t i = 0; i < (takes_conf ? confs->count : 1) && !code; i++)
        code = add_product(p, name, axes, count, takes_conf ? confs->items[i] : NULL, capacity);
    for (size_t i = 0; i < count; i++)
        asim_values_fini(&axes[i].values, p->cli->mem);
    return code;
}

static asim_code add_policies(planner *p, uint64_t capacity)
{
    const asim_option_list *given = &p->request->policies;
    if (given->count == 0)
        return add_policy(p, "torchcache", capacity);
    for (size_t i = 0; i < given->count; i++) {
        asim_code code = ASIM_OK;
        if (strncmp(given->items[i], "all,", 4) == 0)
            return asim_fail(p->err, ASIM_E_USAGE,
                             "--policy all takes no parameters; --set KEY=RANGE sets one of all policies "
                             "that have it");
        if (strcmp(given->items[i], "all") != 0)
            code = add_policy(p, given->items[i], capacity);
        for (size_t k = 0; strcmp(given->items[i], "all") == 0 && asim_policies[k] && !code; k++)
            if (asim_policies[k] != &asim_policy_skeleton)
                code = add_policy(p, asim_policies[k]->name, capacity);
        if (code)
            return code;
    }
    return ASIM_OK;
}

static asim_code add_shared(planner *p, const char *option, const char *key, size_t key_length,
                            const char *range)
{
    if (p->shared_count == AXES_MAX)
        return asim_fail(p->err, ASIM_E_USAGE, "more than %d parameters", AXES_MAX);
    shared_axis *next = &p->shared[p->shared_count++];
    *next = (shared_axis){.option = option, .range = range};
    snprintf(next->key, sizeof next->key, "%.*s", (int)key_length, key);
    return ASIM_OK;
}

static asim_code read_shared(planner *p)
{
    const asim_sweep_request *request = p->request;
    for (size_t i = 0; i < request->sets.count; i++) {
        size_t length;
        if (!has_key(request->sets.items[i], &length))
            return asim_fail(p->err, ASIM_E_USAGE, "--set '%.64s' is not of the form KEY=RANGE",
                             request->sets.items[i]);
        asim_code code =
            add_shared(p, "--set", request->sets.items[i], length, request->sets.items[i] + length + 1);
        if (code)
            return code;
    }
    if (request->max_split)
        add_shared(p, "--max-split", "max_split_size_mb", KEY_MAX, request->max_split);
    if (request->torch)
        add_shared(p, "--torch", "torch", KEY_MAX, request->torch);
    return ASIM_OK;
}

/* A parameter that no policy has is a mistake. */
static asim_code check_used(const planner *p)
{
    for (size_t i = 0; i < p->shared_count; i++) {
        if (p->shared[i].used)
            continue;
        const char *names[256];
        size_t count = 0;
        for (size_t k = 0; asim_policies[k]; k++)
            for (size_t n = 0; n < asim_policies[k]->params.count && count < 255; n++)
                names[count++] = asim_policies[k]->params.params[n].name;
        names[count] = NULL;
        const char *near = asim_nearest(p->shared[i].key, names);
        bool same = near && strcmp(near, p->shared[i].key) == 0;
        return asim_fail(p->err, ASIM_E_USAGE,
                         "%s: no policy of this sweep has a parameter %s%s%s%s; 'allocsim policies NAME' "
                         "lists a policy's",
                         p->shared[i].option, p->shared[i].key, near && !same ? "; did you mean " : "",
                         near && !same ? near : "", near && !same ? "?" : "");
    }
    if (p->request->confs.count > 0 && !p->conf_used)
        return asim_fail(p->err, ASIM_E_USAGE, "--conf: no policy of this sweep takes PyTorch's options");
    return ASIM_OK;
}

/* Finds every mistake before the first trace is read. */
static asim_code try_config(const planner *p, const asim_sweep_config *config, bool judge)
{
    const asim_setup_request request = {.policy = config->policy, .conf = config->conf};
    asim_setup setup;
    asim_code code = asim_setup_policy(p->cli, &request, NULL, &setup, p->err);
    if (code)
        return code;
    if (judge) {
        code = asim_setup_check_conf(&setup, config->conf, p->err);
        if (!code)
            asim_setup_warn_conf(&setup, config->conf, "--conf");
    }
    asim_setup_fini(&setup, p->cli->mem);
    return code;
}

/* An option string is judged once, with the first configuration that has it. */
static asim_code try_configs(const planner *p)
{
    const asim_option_list *confs = &p->request->confs;
    for (size_t i = 0; i < p->plan->count; i++) {
        const asim_sweep_config *config = &p->plan->configs[i];
        size_t earlier = 0;
        while (config->conf && earlier < i && p->plan->configs[earlier].conf != config->conf)
            earlier++;
        bool judge = confs->count > 0 && config->conf && earlier == i;
        asim_code code = try_config(p, config, judge);
        if (code)
            return code;
    }
    return ASIM_OK;
}

static asim_code read_capacities(const planner *p, asim_values *ret_texts)
{
    asim_code code = asim_values_parse(p->request->capacity ? p->request->capacity : "0", ASIM_RANGE_SIZE,
                                       ret_texts, p->cli->mem, p->err);
    for (size_t i = 0; i < ret_texts->count && !code && p->request->capacity; i++) {
        uint64_t bytes;
        code = asim_parse_size(ret_texts->items[i], &bytes, p->err);
        if (!code && bytes == 0)
            code = asim_fail(p->err, ASIM_E_USAGE, "a device of 0 bytes");
    }
    return code ? asim_err_context(p->err, "--capacity") : ASIM_OK;
}

asim_code asim_sweep_plan_make(const asim_cli *cli, const asim_sweep_request *request, asim_sweep_plan *plan,
                               asim_err *err)
{
    planner p = {.cli = cli, .request = request, .plan = plan, .err = err};
    asim_values capacities = {0};
    *plan = (asim_sweep_plan){0};
    asim_code code = read_shared(&p);
    if (!code)
        code = read_capacities(&p, &capacities);
    for (size_t i = 0; i < capacities.count && !code; i++) {
        uint64_t bytes = 0;
        asim_parse_size(capacities.items[i], &bytes, NULL);
        code = add_policies(&p, bytes);
    }
    asim_values_fini(&capacities, cli->mem);
    if (!code)
        code = check_used(&p);
    return code ? code : try_configs(&p);
}

void asim_sweep_plan_fini(asim_sweep_plan *plan, const asim_hostmem *mem)
{
    for (size_t i = 0; i < plan->count; i++)
        asim_mem_free(mem, plan->configs[i].policy, plan->configs[i].policy_size, 1);
    asim_mem_free(mem, plan->configs, plan->capacity, sizeof *plan->configs);
    *plan = (asim_sweep_plan){0};
}
