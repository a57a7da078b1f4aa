#include "tools/expect.h"

#include "sim/params.h"
#include "tools/cli.h"

#include <string.h>

static const struct {
    const char *sign; /* longer ones first */
    asim_relation relation;
} relations[] = {
    {"<=", ASIM_REL_LE}, {">=", ASIM_REL_GE}, {"==", ASIM_REL_EQ},
    {"!=", ASIM_REL_NE}, {"<", ASIM_REL_LT},  {">", ASIM_REL_GT},
};

/* Copies text without blanks; false when it is too long. */
static bool without_blanks(const char *text, char *ret_text, size_t capacity)
{
    size_t length = 0;
    for (; *text; text++)
        if (*text != ' ') {
            if (length + 1 >= capacity)
                return false;
            ret_text[length++] = *text;
        }
    ret_text[length] = 0;
    return true;
}

static asim_code find_metric(const char *name, asim_metric *ret_metric, asim_err *err)
{
    const char *names[ASIM_METRIC_COUNT + 1];
    for (unsigned i = 0; i < ASIM_METRIC_COUNT; i++) {
        names[i] = asim_metric_name((asim_metric)i);
        if (strcmp(names[i], name) == 0) {
            *ret_metric = (asim_metric)i;
            return ASIM_OK;
        }
    }
    names[ASIM_METRIC_COUNT] = NULL;
    const char *near = asim_nearest(name, names);
    return asim_fail(err, ASIM_E_USAGE, "there is no metric '%s'%s%s%s", name, near ? "; did you mean " : "",
                     near ? near : "", near ? "?" : "; 'run --format csv' shows their names");
}

asim_code asim_expect_parse(const char *text, asim_expectation *ret_expectation, asim_err *err)
{
    char copy[128];
    asim_expectation parsed = {.text = text};
    if (!without_blanks(text, copy, sizeof copy))
        return asim_fail(err, ASIM_E_USAGE, "--expect '%.40s...': too long", text);
    if (strcmp(copy, "no-oom") == 0) {
        parsed.metric = ASIM_METRIC_ooms;
        parsed.relation = ASIM_REL_EQ;
        *ret_expectation = parsed;
        return ASIM_OK;
    }
    size_t at = strcspn(copy, "<>=!"), known = 0, count = sizeof relations / sizeof relations[0];
    while (known < count && strncmp(copy + at, relations[known].sign, strlen(relations[known].sign)) != 0)
        known++;
    if (known == count || at == 0)
        return asim_fail(err, ASIM_E_USAGE,
                         "--expect '%s': write no-oom, or a metric, one of <= >= < > == !=, and a number",
                         text);
    const char *value = copy + at + strlen(relations[known].sign);
    parsed.relation = relations[known].relation;
    copy[at] = 0;
    asim_code code = find_metric(copy, &parsed.metric, err);
    if (!code) {
        const char *end = strrchr(copy, '_');
        bool is_size = end && strcmp(end, "_bytes") == 0;
        code =
            is_size ? asim_parse_size(value, &parsed.value, err) : asim_parse_u64(value, &parsed.value, err);
    }
    if (code)
        return asim_err_context(err, "--expect '%s'", text);
    *ret_expectation = parsed;
    return ASIM_OK;
}

bool asim_expect_holds(const asim_expectation *expectation, const asim_run_record *record)
{
    uint64_t value = record->metrics[expectation->metric];
    switch (expectation->relation) {
    case ASIM_REL_LE:
        return value <= expectation->value;
    case ASIM_REL_GE:
        return value >= expectation->value;
    case ASIM_REL_EQ:
        return value == expectation->value;
    case ASIM_REL_NE:
        return value != expectation->value;
    case ASIM_REL_LT:
        return value < expectation->value;
    case ASIM_REL_GT:
        return value > expectation->value;
    }
    return false;
}
