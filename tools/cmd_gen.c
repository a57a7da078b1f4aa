/* allocsim gen: a generated workload becomes a trace file. */
#include "tools/load.h"
#include "tools/setup.h"
#include "tools/units.h"
#include "traces/gen.h"
#include "traces/native.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

extern const asim_verb asim_verb_gen;

typedef struct options {
    const char *output;
    uint64_t seed;
    bool list, force;
} options;

#define AT(field) offsetof(options, field)
static const asim_option table[] = {
    {.name = "output",
     .letter = 'o',
     .type = ASIM_OPTION_TEXT,
     .offset = AT(output),
     .argument = "T.zst",
     .help = "the trace to write (required)"},
    {.name = "seed",
     .type = ASIM_OPTION_NUMBER,
     .offset = AT(seed),
     .argument = "N",
     .help = "of what is drawn at random [0]",
     .max = INT64_MAX},
    {.name = "list",
     .type = ASIM_OPTION_FLAG,
     .offset = AT(list),
     .help = "the workloads; of one that is named, its parameters"},
    {.name = "force",
     .letter = 'f',
     .type = ASIM_OPTION_FLAG,
     .offset = AT(force),
     .help = "replace an output that is no trace of allocsim"},
};

static void list_one(const asim_generator *g)
{
    printf("%s: %s\n  %s\n", g->name, g->summary, g->shows);
    for (size_t i = 0; i < g->params.count; i++)
        printf("  %-12s [%s] %s\n", g->params.params[i].name, g->params.params[i].default_text,
               g->params.params[i].help);
}

static asim_code find(const char *text, const asim_generator **ret_generator, const char **ret_params,
                      asim_err *err)
{
    char name[32], known[200] = "";
    size_t length = strcspn(text, ",");
    snprintf(name, sizeof name, "%.*s", length < 31 ? (int)length : 31, text);
    *ret_params = text[length] ? text + length + 1 : "";
    *ret_generator = asim_generator_named(name);
    if (*ret_generator)
        return ASIM_OK;
    for (size_t i = 0; asim_generators[i]; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", asim_generators[i]->name);
    }
    return asim_fail(err, ASIM_E_USAGE, "there is no workload '%s'; known: %s", name, known);
}

/* A slip of the keyboard may not cost a file. */
static asim_code check_output(const options *o, asim_err *err)
{
    struct stat out;
    if (!o->output || !o->output[0])
        return asim_fail(err, ASIM_E_USAGE, "gen needs -o T.zst, the trace to write");
    if (stat(o->output, &out) == 0 && S_ISDIR(out.st_mode))
        return asim_fail(err, ASIM_E_USAGE, "%s: a directory; name a file with -o", o->output);
    if (stat(o->output, &out) == 0 && out.st_size > 0 && !o->force && !asim_is_native(o->output))
        return asim_fail(err, ASIM_E_USAGE, "%s exists and is no trace of allocsim; --force replaces it",
                         o->output);
    return ASIM_OK;
}

static asim_code write_trace(const asim_cli *cli, const options *o, const asim_generator *generator,
                             const char *text, asim_err *err)
{
    void *params = asim_mem_new(cli->mem, generator->params.block_size, 1);
    if (!params)
        return asim_fail_memory(err, generator->params.block_size);
    asim_params_default(&generator->params, params);
    asim_code code = asim_params_parse(&generator->params, params, text, err);
    asim_trace_writer *writer;
    if (!code && !(code = asim_trace_writer_open(o->output, cli->mem, &writer, err))) {
        asim_sink sink = asim_trace_writer_sink(writer);
        code = generator->generate(params, o->seed, &sink, cli->mem, err);
        asim_code closed = asim_trace_writer_close(writer, code != ASIM_OK, code ? NULL : err);
        code = code ? code : closed;
    }
    asim_mem_free(cli->mem, params, generator->params.block_size, 1);
    return code;
}

static int run(asim_cli *cli, const void *values, char **operands, size_t count)
{
    const options *o = values;
    const asim_generator *generator = NULL;
    const char *params = "";
    asim_err err = ASIM_ERR_INIT;
    if (count == 0 && !o->list)
        asim_fail(&err, ASIM_E_USAGE, "gen needs the name of a workload; 'allocsim gen --list' shows them");
    else if (count)
        find(operands[0], &generator, &params, &err);
    if (err.code)
        return asim_say_error(&err);
    if (o->list) {
        for (size_t i = 0; asim_generators[i] && !generator; i++)
            printf("%-10s %s\n", asim_generators[i]->name, asim_generators[i]->summary);
        if (generator)
            list_one(generator);
        return 0;
    }
    if (check_output(o, &err))
        return asim_say_error(&err);
    if (write_trace(cli, o, generator, params, &err)) {
        if (err.code == ASIM_E_USAGE)
            asim_err_context(&err, "%s", generator->name);
        return asim_say_error(&err);
    }
    struct stat out;
    char size[ASIM_UNITS_MAX];
    if (stat(o->output, &out) == 0)
        asim_note(cli, "wrote %s: %s", o->output, asim_human_bytes((uint64_t)out.st_size, size));
    return 0;
}

const asim_verb asim_verb_gen = {
    .name = "gen",
    .operands = "WORKLOAD[,KEY=V...]",
    .summary = "Generates a workload: steady, churn, adversary, train",
    .example = "gen train,steps=4,checkpoint=true -o train.zst",
    .options = table,
    .option_count = sizeof table / sizeof table[0],
    .values_size = sizeof(options),
    .min_operands = 0,
    .max_operands = 1,
    .run = run,
};
