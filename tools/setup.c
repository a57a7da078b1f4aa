#include "tools/setup.h"

#include "policies/registry.h"
#include "policies/torchcache_lint.h"
#include "tools/load.h"
#include "tools/plugin.h"
#include "traces/torch_notes.h"
#include "traces/torch_write.h"

#include <string.h>

enum {
    NAME_MAX_LENGTH = 64,
    PATH_MAX_LENGTH = 4095,
    PROFILE_FILE_MAX = 64 << 10,
};

const asim_param *asim_setup_param(const asim_policy *policy, const char *name)
{
    for (size_t i = 0; i < policy->params.count; i++)
        if (strcmp(policy->params.params[i].name, name) == 0)
            return &policy->params.params[i];
    return NULL;
}

asim_code asim_setup_find(const char *text, const asim_policy **ret_policy, const char **ret_params,
                          asim_err *err)
{
    char name[NAME_MAX_LENGTH + 1], path[PATH_MAX_LENGTH + 1];
    size_t length = strcspn(text, ",");
    snprintf(path, sizeof path, "%.*s", (int)(length < PATH_MAX_LENGTH ? length : PATH_MAX_LENGTH), text);
    if (asim_plugin_is(path)) {
        *ret_params = text[length] ? text + length + 1 : "";
        asim_code code = asim_plugin_load(path, ret_policy, err);
        return code ? asim_err_context(err, "--policy") : ASIM_OK;
    }
    snprintf(name, sizeof name, "%.*s", (int)(length < NAME_MAX_LENGTH ? length : NAME_MAX_LENGTH), text);
    const asim_policy *policy = asim_policy_find(name);
    if (policy) {
        *ret_policy = policy;
        *ret_params = text[length] ? text + length + 1 : "";
        return ASIM_OK;
    }
    const char *names[64];
    size_t count = 0;
    for (; asim_policies[count] && count < 63; count++)
        names[count] = asim_policies[count]->name;
    names[count] = NULL;
    const char *near = asim_nearest(name, names);
    return asim_fail(err, ASIM_E_USAGE, "there is no policy '%s'%s%s%s; 'allocsim policies' lists them", name,
                     near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static bool has_placements(const asim_trace *trace)
{
    for (uint64_t i = 0; trace->recorded_addresses && i < trace->event_count; i++)
        if (trace->recorded_addresses[i] != ASIM_NO_ADDRESS)
            return true;
    return false;
}

/* The release to follow where the user names none, by its place among the choices; -1: the default. */
static int recorded_release(const asim_policy *policy, const asim_trace *recording)
{
    enum {
        UNTOLD = ASIM_TORCH_SINCE_POOL_IDS - 1
    };
    const asim_param *param = asim_setup_param(policy, "torch");
    if (!recording || !param || param->type != ASIM_PARAM_CHOICE ||
        !(policy->flags & ASIM_POLICY_MODELS_TORCH) || !has_placements(recording))
        return -1;
    unsigned newest = asim_torch_noted_release(recording), best = 0;
    int found = -1;
    for (int i = 0; param->choices[i]; i++) {
        unsigned release = asim_torch_release(param->choices[i]);
        if (release <= (newest ? newest : UNTOLD) && release >= best) {
            best = release;
            found = i;
        }
    }
    return found;
}

/* The defaults, but for the release that the recording chooses. */
static void begin_parameters(const asim_policy *policy, void *params, int release)
{
    asim_params_default(&policy->params, params);
    if (release >= 0)
        memcpy((char *)params + asim_setup_param(policy, "torch")->offset, &release, sizeof release);
}

/* Whether a value means the same to PyTorch's parser and to ours. */
static bool is_plain(const asim_param *param, const char *value)
{
    size_t length = strlen(value);
    switch (param->type) {
    case ASIM_PARAM_MIB:
        return length > 0 && length < 9 && !value[strspn(value, "0123456789")];
    case ASIM_PARAM_BOOL:
        return strcmp(value, "True") == 0 || strcmp(value, "False") == 0;
    case ASIM_PARAM_REAL:
        return strncmp(value, "0.", 2) == 0 && value[2] && !value[2 + strspn(value + 2, "0123456789")] &&
               value[2 + strspn(value + 2, "0")];
    case ASIM_PARAM_TEXT:
        return length > 0 && (!value[strspn(value, "0123456789")] ||
                              (length > 2 && value[0] == '[' && value[length - 1] == ']' &&
                               strspn(value + 1, "0123456789:,>") == length - 2));
    default:
        return false;
    }
}

/* Cuts the next option off an option string, at a comma outside brackets. NULL at the end. */
static char *next_option(char **rest)
{
    char *start = *rest;
    int depth = 0;
    if (!start)
        return NULL;
    for (char *p = start; *p; p++) {
        depth += (*p == '[') - (*p == ']');
        if (*p == ',' && depth <= 0) {
            *p = 0;
            *rest = p + 1;
            return start;
        }
    }
    *rest = NULL;
    return start;
}

/* Turns options that are plain into parameters, so that two ways to say one thing have one canonical spelling
 * and other options of the command line can override them; what is left stays an option string, which the
 * policy parses as its release does. False, and nothing said about the parameters: the whole must be left to
 * the policy. */
static bool expand_conf(const asim_policy *policy, void *params, const char *conf,
                        char ret_left[ASIM_PARAM_TEXT_MAX])
{
    char copy[ASIM_PARAM_TEXT_MAX];
    const asim_param *seen[32];
    size_t seen_count = 0;
    if (strlen(conf) >= sizeof copy || strpbrk(conf, " \t\n"))
        return false;
    strcpy(copy, conf);
    ret_left[0] = 0;
    char *rest = copy, *item;
    while ((item = next_option(&rest))) {
        char *colon = strchr(item, ':');
        if (!colon)
            return false;
        *colon = 0;
        const asim_param *param = asim_setup_param(policy, item);
        for (size_t i = 0; i < seen_count; i++)
            if (param == seen[i])
                return false; /* the last one counts, and they may not be of one kind */
        if (param && seen_count < 32)
            seen[seen_count++] = param;
        if (param && is_plain(param, colon + 1)) {
            if (asim_params_set(&policy->params, params, item, colon + 1, NULL))
                return false;
            continue;
        }
        *colon = ':';
        size_t used = strlen(ret_left);
        snprintf(ret_left + used, ASIM_PARAM_TEXT_MAX - used, "%s%s", used ? "," : "", item);
    }
    return true;
}

static asim_code apply_conf(const asim_policy *policy, void *params, const char *conf, int release,
                            asim_err *err)
{
    char left[ASIM_PARAM_TEXT_MAX], wrapped[ASIM_PARAM_TEXT_MAX + 2];
    if (!conf[0])
        return ASIM_OK;
    if (strlen(conf) > ASIM_PARAM_TEXT_MAX - 3)
        return asim_fail(err, ASIM_E_USAGE, "the option string is too long; the limit is %d bytes",
                         ASIM_PARAM_TEXT_MAX - 3);
    if (!expand_conf(policy, params, conf, left)) {
        begin_parameters(policy, params, release);
        strcpy(left, conf);
    }
    if (!left[0])
        return ASIM_OK;
    snprintf(wrapped, sizeof wrapped, "[%s]", left);
    return asim_params_set(&policy->params, params, "conf", wrapped, err);
}

/* For an option that means a parameter which not every policy has. */
static asim_code set_special(const asim_policy *policy, void *params, const char *option, const char *key,
                             const char *value, asim_err *err)
{
    if (!value)
        return ASIM_OK;
    if (!asim_setup_param(policy, key))
        return asim_fail(err, ASIM_E_USAGE,
                         "--%s: the policy %s has no parameter %s; 'allocsim policies %s' lists them", option,
                         policy->name, key, policy->name);
    asim_code code = asim_params_set(&policy->params, params, key, value, err);
    return code ? asim_err_context(err, "--%s", option) : ASIM_OK;
}

/* Whether the user named a release: --torch, or torch= among the policy's parameters. */
static bool names_release(const asim_setup_request *request, const char *own)
{
    const char *at = strstr(own, "torch=");
    return request->torch || (at && (at == own || at[-1] == ','));
}

static asim_code set_parameters(const asim_setup_request *request, const char *own,
                                const asim_trace *recording, asim_setup *setup, asim_err *err)
{
    const asim_policy *policy = setup->policy;
    void *params = setup->params;
    const char *recorded_settings = recording && recording->settings != ASIM_NO_INDEX
                                        ? recording->strings[recording->settings].text
                                        : NULL;
    setup->torch_named = names_release(request, own);
    const int release = setup->torch_named ? -1 : recorded_release(policy, recording);
    setup->torch_recorded = release >= 0;
    begin_parameters(policy, params, release);
    asim_code code = ASIM_OK;
    if (request->conf) {
        if (!asim_setup_param(policy, "conf"))
            return asim_fail(err, ASIM_E_USAGE, "--conf: the policy %s does not take PyTorch's options",
                             policy->name);
        if ((code = apply_conf(policy, params, request->conf, release, err)))
            return asim_err_context(err, "--conf");
    } else if (recorded_settings && (policy->flags & ASIM_POLICY_MODELS_TORCH) &&
               asim_setup_param(policy, "conf")) {
        if ((code = apply_conf(policy, params, recorded_settings, release, err)))
            return asim_err_context(err, "the recording's settings '%.200s'", recorded_settings);
    }
    if ((code = asim_params_parse(&policy->params, params, own, err)))
        return asim_err_context(err, "--policy %s", policy->name);
    if ((code = set_special(policy, params, "torch", "torch", request->torch, err)))
        return code;
    return set_special(policy, params, "max-split", "max_split_size_mb", request->max_split, err);
}

/* The name of the chosen release lives in the policy's own table. */
static const char *torch_release(const asim_setup *setup)
{
    const asim_param *param = asim_setup_param(setup->policy, "torch");
    if (!param || param->type != ASIM_PARAM_CHOICE)
        return "";
    int index;
    memcpy(&index, (const char *)setup->params + param->offset, sizeof index);
    return param->choices[index];
}

asim_code asim_setup_policy(const asim_cli *cli, const asim_setup_request *request,
                            const asim_trace *recording, asim_setup *ret_setup, asim_err *err)
{
    asim_setup setup = {0};
    const char *own;
    asim_code code =
        asim_setup_find(request->policy ? request->policy : "torchcache", &setup.policy, &own, err);
    if (code)
        return code;
    setup.params = asim_mem_new(cli->mem, 1, setup.policy->params.block_size + 1);
    if (!setup.params)
        return asim_fail_memory(err, setup.policy->params.block_size + 1);
    code = set_parameters(request, own, recording, &setup, err);
    if (!code) {
        setup.canonical_size = asim_params_canonical(&setup.policy->params, setup.params, NULL, 0) + 1;
        setup.canonical = asim_mem_new(cli->mem, setup.canonical_size, 1);
        if (!setup.canonical)
            code = asim_fail_memory(err, setup.canonical_size);
    }
    if (code) {
        asim_setup_fini(&setup, cli->mem);
        return code;
    }
    asim_params_canonical(&setup.policy->params, setup.params, setup.canonical, setup.canonical_size);
    setup.torch = torch_release(&setup);
    *ret_setup = setup;
    return ASIM_OK;
}

/* The memory fraction that the policy's parameters set; negative: none. */
static double given_fraction(const asim_setup *setup)
{
    double fraction = -1;
    const asim_param *param = asim_setup_param(setup->policy, "fraction");
    if (param && param->type == ASIM_PARAM_REAL)
        memcpy(&fraction, (const char *)setup->params + param->offset, sizeof fraction);
    return fraction;
}

static bool reads_conf(const asim_setup *setup, const char *conf)
{
    return conf && strcmp(setup->policy->name, "torchcache") == 0;
}

asim_code asim_setup_check_conf(const asim_setup *setup, const char *conf, asim_err *err)
{
    if (!reads_conf(setup, conf))
        return ASIM_OK;
    asim_tc_lint found;
    if (!setup->torch_named)
        for (size_t i = 0; asim_tc_releases[i].name; i++) {
            asim_tc_lint_conf(&asim_tc_releases[i], conf, given_fraction(setup), &found);
            if (!found.refused)
                return ASIM_OK;
        }
    asim_tc_lint_conf(asim_tc_release_named(setup->torch), conf, given_fraction(setup), &found);
    for (size_t i = 0; i < found.count; i++)
        if (found.findings[i].refused)
            return asim_fail(err, ASIM_E_USAGE, "--conf: %s", found.findings[i].text);
    return ASIM_OK;
}

void asim_setup_warn_conf(const asim_setup *setup, const char *conf, const char *prefix)
{
    if (!reads_conf(setup, conf))
        return;
    asim_tc_lint found;
    asim_tc_lint_conf(asim_tc_release_named(setup->torch), conf, given_fraction(setup), &found);
    for (size_t i = 0; i < found.count; i++)
        if (!found.findings[i].refused)
            asim_say("%s: warning: %s", prefix, found.findings[i].text);
}

void asim_setup_fini(asim_setup *setup, const asim_hostmem *mem)
{
    asim_mem_free(mem, setup->canonical, setup->canonical_size, 1);
    if (setup->params)
        asim_mem_free(mem, setup->params, 1, setup->policy->params.block_size + 1);
    *setup = (asim_setup){0};
}

asim_code asim_setup_profile(const asim_cli *cli, const char *name, asim_profile *ret_profile, asim_err *err)
{
    const char *const *names = asim_profile_names();
    if (asim_profile_builtin(name ? name : names[0], ret_profile))
        return ASIM_OK;
    if (!strpbrk(name, "/.")) {
        const char *near = asim_nearest(name, names);
        return asim_fail(
            err, ASIM_E_USAGE,
            "--device: there is no profile '%.64s'; known: %s%s; a file has a / or . in its name", name,
            near ? near : names[0], names[1] ? ", ..." : "");
    }
    char *text;
    size_t length;
    asim_code code = asim_load_text(cli, name, PROFILE_FILE_MAX, &text, &length, err);
    if (code)
        return code;
    code = asim_profile_parse(text, length, ret_profile, err);
    asim_mem_free(cli->mem, text, length + 1, 1);
    return code ? asim_err_context(err, "%s", name) : ASIM_OK;
}
