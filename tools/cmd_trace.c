/* allocsim trace: what a trace holds, and whether it is well formed. */
#include "tools/load.h"
#include "tools/units.h"
#include "traces/native.h"

extern const asim_verb asim_verb_trace_check;

/* A file that is no trace at all is bad input; one that is, with a fault in it, is the answer no. */
static int check_one(asim_cli *cli, const char *path)
{
    asim_err err = ASIM_ERR_INIT;
    asim_trace *trace;
    bool native = asim_is_native(path);
    asim_code code = asim_load_trace(cli, path, &trace, NULL, &err);
    if (code) {
        asim_say_error(&err);
        return native && code == ASIM_E_INPUT ? ASIM_EXIT_NO : (int)code;
    }
    char events[ASIM_UNITS_MAX];
    printf("%s: well formed, %s events\n", path, asim_human_count(trace->event_count, events));
    asim_trace_release(trace);
    return 0;
}

static int check(asim_cli *cli, const void *values, char **operands, size_t count)
{
    (void)values;
    int status = 0;
    for (size_t i = 0; i < count; i++) {
        int one = check_one(cli, operands[i]);
        if (one > status)
            status = one;
    }
    return status;
}

const asim_verb asim_verb_trace_check = {
    .name = "trace check",
    .operands = "TRACE...",
    .summary = "Verifies traces; exit 1 with the first fault",
    .example = "trace check trace.zst",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .run = check,
};
