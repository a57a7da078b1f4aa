#include "sim/policy.h"

#include <stdalign.h>
#include <string.h>

enum {
    STATE_SIZE_MAX = 1 << 24, /* bytes: what grows with the trace is allocated by init */
    NAME_MAX_LENGTH = 31,
};

/* Names are typed on command lines and stored: lower case letters, digits, - and _. */
static bool is_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t length = name ? strlen(name) : 0;
    return length > 0 && length <= NAME_MAX_LENGTH && strspn(name, allowed) == length && name[0] >= 'a' &&
           name[0] <= 'z';
}

static bool is_line(const char *text)
{
    return text && *text && !strchr(text, '\n');
}

static const char *missing_operation(const asim_policy *policy)
{
    return !policy->init    ? "init"
           : !policy->alloc ? "alloc"
           : !policy->free  ? "free"
           : !policy->check ? "check"
           : !policy->walk  ? "walk"
           : !policy->fini  ? "fini"
                            : NULL;
}

static size_t value_size(asim_param_type type)
{
    switch (type) {
    case ASIM_PARAM_U64:
    case ASIM_PARAM_MIB:
    case ASIM_PARAM_BYTES:
        return sizeof(uint64_t);
    case ASIM_PARAM_BOOL:
        return sizeof(bool);
    case ASIM_PARAM_REAL:
        return sizeof(double);
    case ASIM_PARAM_CHOICE:
        return sizeof(int);
    case ASIM_PARAM_TEXT:
        return ASIM_PARAM_TEXT_MAX;
    }
    return 0;
}

static size_t value_alignment(asim_param_type type)
{
    size_t size = value_size(type);
    return type == ASIM_PARAM_TEXT ? 1 : size > alignof(max_align_t) ? alignof(max_align_t) : size;
}

/* What is wrong with parameter number i as a declaration, or NULL. */
static const char *param_fault(const asim_param_table *table, size_t i)
{
    const asim_param *param = &table->params[i];
    size_t size = value_size(param->type);
    if (!is_name(param->name))
        return "its name is not of lower case letters, digits, - and _";
    for (size_t k = 0; k < i; k++)
        if (!strcmp(table->params[k].name, param->name))
            return "its name is used twice";
    if (!is_line(param->help))
        return "it has no help of one line";
    if (size == 0)
        return "its type does not exist";
    if (size > table->block_size || param->offset > table->block_size - size)
        return "its value lies outside the parameter block";
    if (param->offset % value_alignment(param->type))
        return "its value is not aligned";
    if (param->type == ASIM_PARAM_CHOICE && (!param->choices || !param->choices[0]))
        return "it offers no choice";
    if (param->min > param->max || param->real_min > param->real_max)
        return "its least value is above its largest";
    return param->default_text ? NULL : "it has no default";
}

static asim_code check_params(const asim_policy *policy, void *block, asim_err *err)
{
    const asim_param_table *table = &policy->params;
    for (size_t i = 0; i < table->count; i++) {
        const asim_param *param = &table->params[i];
        const char *fault = param_fault(table, i);
        if (fault)
            return asim_fail(err, ASIM_E_BUG, "policy %s, parameter %s: %s", policy->name,
                             param->name ? param->name : "(null)", fault);
        asim_err cause = ASIM_ERR_INIT;
        if (asim_params_set(table, block, param->name, param->default_text, &cause))
            return asim_fail(err, ASIM_E_BUG, "policy %s, parameter %s: its default is refused: %s",
                             policy->name, param->name, cause.message);
    }
    char text[8];
    if (asim_params_canonical(table, block, text, sizeof text) != 0)
        return asim_fail(err, ASIM_E_BUG, "policy %s: its defaults have a canonical spelling, \"%s...\"",
                         policy->name, text);
    return ASIM_OK;
}

asim_code asim_policy_validate(const asim_policy *policy, asim_err *err)
{
    if (policy->version != ASIM_POLICY_VERSION)
        return asim_fail(err, ASIM_E_BUG, "the policy is built for interface version %u, this is version %d",
                         policy->version, ASIM_POLICY_VERSION);
    if (!is_name(policy->name))
        return asim_fail(err, ASIM_E_BUG,
                         "policy \"%.40s\": a name has at most %d lower case letters, digits, - and _",
                         policy->name ? policy->name : "(null)", NAME_MAX_LENGTH);
    if (!is_line(policy->summary) || !is_line(policy->source))
        return asim_fail(err, ASIM_E_BUG, "policy %s: its summary or its source is not one line of text",
                         policy->name);
    const char *operation = missing_operation(policy);
    if (operation)
        return asim_fail(err, ASIM_E_BUG, "policy %s: the required operation %s is missing", policy->name,
                         operation);
    if (policy->state_size == 0 || policy->state_size > STATE_SIZE_MAX)
        return asim_fail(err, ASIM_E_BUG, "policy %s: a state of %zu bytes, where 1 to %d are possible",
                         policy->name, policy->state_size, STATE_SIZE_MAX);
    const asim_param_table *table = &policy->params;
    if (table->count == 0)
        return ASIM_OK;
    if (!table->params || table->block_size == 0 || table->block_size > STATE_SIZE_MAX)
        return asim_fail(err, ASIM_E_BUG, "policy %s: %zu parameters in a block of %zu bytes", policy->name,
                         table->count, table->block_size);
    const asim_hostmem *mem = asim_hostmem_libc();
    void *block = asim_mem_new(mem, 1, table->block_size);
    if (!block)
        return asim_fail_memory(err, table->block_size);
    asim_code code = check_params(policy, block, err);
    asim_mem_free(mem, block, 1, table->block_size);
    return code;
}
