#include "sim/policy.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct block {
    uint64_t bytes;
    bool merge;
};

static asim_code table_init(asim_policy_state *state, const asim_policy_env *env, const void *params,
                            asim_err *err)
{
    (void)state, (void)env, (void)params, (void)err;
    return ASIM_OK;
}

static asim_alloc_result table_alloc(asim_policy_state *state, const asim_event *event,
                                     asim_placement *ret_placement)
{
    (void)state, (void)event, (void)ret_placement;
    return ASIM_REFUSED;
}

static asim_free_result table_free(asim_policy_state *state, uint32_t word, bool completion_follows)
{
    (void)state, (void)word, (void)completion_follows;
    return ASIM_FREE_BROKEN;
}

static asim_code table_check(const asim_policy_state *state, asim_err *err)
{
    (void)state, (void)err;
    return ASIM_OK;
}

static void table_walk(const asim_policy_state *state, const asim_walker *walker)
{
    (void)state, (void)walker;
}

static void table_fini(asim_policy_state *state)
{
    (void)state;
}

static const asim_param good_params[2] = {
    {.name = "bytes",
     .type = ASIM_PARAM_BYTES,
     .offset = offsetof(struct block, bytes),
     .default_text = "8GiB",
     .min = 1,
     .max = UINT64_MAX - 1,
     .help = "size of the one region"},
    {.name = "merge",
     .type = ASIM_PARAM_BOOL,
     .offset = offsetof(struct block, merge),
     .default_text = "true",
     .help = "whether neighbours are merged"},
};

static asim_policy good(const asim_param *params)
{
    return (asim_policy){
        .version = ASIM_POLICY_VERSION,
        .name = "good-1",
        .summary = "a table without a fault",
        .source = "this test",
        .state_size = 16,
        .params = {params, 2, sizeof(struct block)},
        .init = table_init,
        .alloc = table_alloc,
        .free = table_free,
        .check = table_check,
        .walk = table_walk,
        .fini = table_fini,
    };
}

static void assert_fault(const asim_policy *policy, const char *fragment)
{
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_policy_validate(policy, &err), ASIM_E_BUG, "%s: not noticed", fragment);
    cr_assert(strstr(err.message, fragment), "\"%s\" lacks \"%s\"", err.message, fragment);
}

Test(policy_table, a_good_one_passes)
{
    asim_err err = ASIM_ERR_INIT;
    asim_policy policy = good(good_params);
    cr_assert_eq(asim_policy_validate(&policy, &err), ASIM_OK, "%s", err.message);
    policy.params = (asim_param_table){NULL, 0, 0};
    cr_assert_eq(asim_policy_validate(&policy, &err), ASIM_OK, "%s", err.message);
}

Test(policy_table, faults_of_the_table)
{
    asim_policy policy = good(good_params);
    policy.version++;
    assert_fault(&policy, "interface version 2");
    const char *const names[] = {
        NULL, "", "Upper", "with space", "1st", "a,b", "a-name-of-more-than-thirty-one-c"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        policy = good(good_params);
        policy.name = names[i];
        assert_fault(&policy, "a name has at most");
    }
    policy = good(good_params);
    policy.summary = "two\nlines";
    assert_fault(&policy, "not one line");
    policy = good(good_params);
    policy.source = NULL;
    assert_fault(&policy, "not one line");
    policy = good(good_params);
    policy.state_size = 0;
    assert_fault(&policy, "a state of 0 bytes");
    policy = good(good_params);
    policy.params.params = NULL;
    assert_fault(&policy, "2 parameters in a block");
}

Test(policy_table, required_operations)
{
    for (int i = 0; i < 6; i++) {
        static const char *const names[] = {"init", "alloc", "free", "check", "walk", "fini"};
        asim_policy policy = good(good_params);
        char text[64];
        switch (i) {
        case 0:
            policy.init = NULL;
            break;
        case 1:
            policy.alloc = NULL;
            break;
        case 2:
            policy.free = NULL;
            break;
        case 3:
            policy.check = NULL;
            break;
        case 4:
            policy.walk = NULL;
            break;
        default:
            policy.fini = NULL;
            break;
        }
        snprintf(text, sizeof text, "operation %s is missing", names[i]);
        assert_fault(&policy, text);
    }
}

static void assert_param_fault(asim_param second, const char *fragment)
{
    asim_param params[2] = {good_params[0], second};
    asim_policy policy = good(params);
    assert_fault(&policy, fragment);
}

Test(policy_table, faults_of_a_parameter)
{
    asim_param param = good_params[1];
    param.name = "bytes";
    assert_param_fault(param, "used twice");
    param = good_params[1];
    param.name = "Merge";
    assert_param_fault(param, "lower case");
    param = good_params[1];
    param.help = "";
    assert_param_fault(param, "no help");
    param = good_params[1];
    param.offset = sizeof(struct block);
    assert_param_fault(param, "outside the parameter block");
    param = good_params[0];
    param.name = "other";
    param.offset = 4;
    assert_param_fault(param, "not aligned");
    param = good_params[1];
    param.default_text = NULL;
    assert_param_fault(param, "no default");
    param.default_text = "perhaps";
    assert_param_fault(param, "default is refused");
    param = good_params[0];
    param.name = "other";
    param.min = 2;
    param.max = 1;
    assert_param_fault(param, "least value is above");
    param = good_params[1];
    param.type = ASIM_PARAM_CHOICE;
    param.offset = 8;
    assert_param_fault(param, "no choice");
    param.type = (asim_param_type)99;
    assert_param_fault(param, "type does not exist");
}
