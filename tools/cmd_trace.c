/* allocsim trace: what a trace holds, whether it is well formed, and its events as text. */
#include "tools/load.h"
#include "tools/trace_info.h"
#include "tools/units.h"
#include "traces/native.h"
#include "traces/text.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

extern const asim_verb asim_verb_trace_info, asim_verb_trace_check, asim_verb_trace_head;

static int info_one(asim_cli *cli, const char *path, bool first)
{
    asim_err err = ASIM_ERR_INIT;
    asim_trace *trace;
    asim_trace_info info;
    const char *imported = NULL;
    asim_code code = asim_load_trace(cli, path, &trace, &imported, &err);
    if (code)
        return asim_say_error(&err);
    code = asim_trace_describe(trace, cli->mem, &info, &err);
    if (!code) {
        if (!first)
            putchar('\n');
        asim_print_trace_info(stdout, path, imported, trace, &info);
    }
    asim_trace_release(trace);
    return code ? asim_say_error(&err) : 0;
}

static int info(asim_cli *cli, const void *values, char **operands, size_t count)
{
    (void)values;
    int status = 0;
    for (size_t i = 0; i < count; i++) {
        int one = info_one(cli, operands[i], i == 0);
        status = one > status ? one : status;
    }
    return status;
}

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

typedef struct head_options {
    uint64_t count, from;
    bool all;
} head_options;

static const head_options head_defaults = {.count = 20};

static const asim_option head_table[] = {
    {.name = "count",
     .letter = 'n',
     .type = ASIM_OPTION_NUMBER,
     .offset = offsetof(head_options, count),
     .argument = "N",
     .help = "how many events [20]",
     .max = INT64_MAX},
    {.name = "from",
     .type = ASIM_OPTION_NUMBER,
     .offset = offsetof(head_options, from),
     .argument = "EVENT",
     .help = "the first of them, counted from 0 [0]",
     .max = INT64_MAX},
    {.name = "all",
     .letter = 'a',
     .type = ASIM_OPTION_FLAG,
     .offset = offsetof(head_options, all),
     .help = "the whole trace with its tables, as 'import' reads it"},
};

static asim_code write_text(void *ctx, const char *text, size_t length, asim_err *err)
{
    if (fwrite(text, 1, length, ctx) == length)
        return ASIM_OK;
    return asim_fail(err, ASIM_E_SYSTEM, "standard output can't be written: %s", strerror(errno));
}

/* Of a trace file only the frames that hold the window are read. */
static int head(asim_cli *cli, const void *values, char **operands, size_t count)
{
    (void)count;
    const head_options *o = values;
    const char *path = operands[0];
    asim_err err = ASIM_ERR_INIT;
    asim_trace *trace;
    bool native = asim_is_native(path) && !o->all;
    asim_code code = native ? asim_trace_load_window(path, o->from, o->count, cli->mem, &trace, &err)
                            : asim_load_trace(cli, path, &trace, NULL, &err);
    if (code) {
        if (strncmp(err.message, path, strlen(path)) != 0)
            asim_err_context(&err, "%s", path);
        return asim_say_error(&err);
    }
    asim_text_out out = {write_text, stdout};
    uint64_t first = native ? 0 : o->from;
    if (o->all)
        code = asim_text_write(trace, cli->mem, &out, &err);
    else if (first > trace->event_count)
        code = asim_fail(&err, ASIM_E_INPUT, "%s: there is no event %" PRIu64 "; it has %" PRIu64, path,
                         o->from, trace->event_count);
    else
        code = asim_text_write_events(trace, first, native ? trace->event_count : o->count, cli->mem, &out,
                                      &err);
    asim_trace_release(trace);
    return code ? asim_say_error(&err) : 0;
}

const asim_verb asim_verb_trace_info = {
    .name = "trace info",
    .operands = "TRACE...",
    .summary = "Shows what a trace holds, and what it can't tell",
    .example = "trace info trace.zst",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .run = info,
};

const asim_verb asim_verb_trace_check = {
    .name = "trace check",
    .operands = "TRACE...",
    .summary = "Verifies traces; exit 1 with the first fault",
    .example = "trace check trace.zst",
    .min_operands = 1,
    .max_operands = SIZE_MAX,
    .run = check,
};

const asim_verb asim_verb_trace_head = {
    .name = "trace head",
    .operands = "TRACE",
    .summary = "Prints a trace's first events, or those from one on, as text",
    .example = "trace head -n 5 trace.zst",
    .options = head_table,
    .option_count = sizeof head_table / sizeof head_table[0],
    .values_size = sizeof(head_options),
    .defaults = &head_defaults,
    .min_operands = 1,
    .max_operands = 1,
    .run = head,
};
