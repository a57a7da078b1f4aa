/* allocsim import: a foreign recording becomes a trace file, with a word on what it can't tell. */
#include "tools/load.h"
#include "tools/units.h"
#include "traces/formats.h"
#include "traces/native.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

extern const asim_verb asim_verb_import;

typedef struct options {
    const char *output, *format;
    bool force;
} options;

#define AT(field) offsetof(options, field)
static const asim_option table[] = {
    {.name = "output",
     .letter = 'o',
     .type = ASIM_OPTION_TEXT,
     .offset = AT(output),
     .argument = "T.zst",
     .help = "the trace to write (required)"},
    {.name = "format",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(format),
     .argument = "NAME",
     .help = "take it for this format: torch-snapshot, ..."},
    {.name = "force",
     .letter = 'f',
     .type = ASIM_OPTION_FLAG,
     .offset = AT(force),
     .help = "replace an output that is no trace of allocsim"},
};

static asim_code check_format(const char *name, asim_err *err)
{
    char list[400] = "";
    if (!name || asim_importer_named(name))
        return ASIM_OK;
    for (size_t i = 0; asim_importers[i]; i++) {
        size_t length = strlen(list);
        snprintf(list + length, sizeof list - length, "%s%s", i ? ", " : "", asim_importers[i]->name);
    }
    return asim_fail(err, ASIM_E_USAGE, "--format: there is no format '%.64s'; known: %s", name, list);
}

/* A slip of the keyboard may not cost a file: only a trace is replaced without being asked to. */
static asim_code check_output(const options *o, const char *input, asim_err *err)
{
    struct stat in, out;
    if (!o->output || !o->output[0])
        return asim_fail(err, ASIM_E_USAGE, "import needs -o T.zst, the trace to write");
    if (stat(o->output, &out) != 0)
        return ASIM_OK;
    if (S_ISDIR(out.st_mode))
        return asim_fail(err, ASIM_E_USAGE, "%s: a directory; name a file with -o", o->output);
    if (stat(input, &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
        return asim_fail(err, ASIM_E_USAGE, "%s is both the recording and the output", input);
    if (out.st_size > 0 && !o->force && !asim_is_native(o->output))
        return asim_fail(err, ASIM_E_USAGE, "%s exists and is no trace of allocsim; --force replaces it",
                         o->output);
    return ASIM_OK;
}

static asim_code import_file(asim_cli *cli, const options *o, const char *path, const char **ret_format,
                             asim_err *err)
{
    asim_file_input *file;
    const asim_importer *importer;
    asim_code code = asim_recording_open(cli, path, o->format, &file, &importer, err);
    if (code)
        return asim_err_context(err, "%s", path);
    asim_trace_writer *writer;
    code = asim_trace_writer_open(o->output, cli->mem, &writer, err);
    if (!code) {
        asim_input input = asim_file_input_stream(file);
        asim_sink sink = asim_trace_writer_sink(writer);
        asim_code imported = importer->import(&input, &sink, cli->mem, err);
        if (imported)
            asim_err_context(err, "%s", path);
        code = asim_trace_writer_close(writer, imported != ASIM_OK, imported ? NULL : err);
        code = imported ? imported : code;
    }
    asim_file_input_close(file);
    *ret_format = importer->name;
    return code;
}

static void describe(const asim_cli *cli, const options *o, const char *path, const char *format,
                     const asim_trace *trace)
{
    struct stat in, out;
    char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX], c[ASIM_UNITS_MAX];
    asim_note(cli,
              "%s: a %s recording: %s events on %" PRIu32 " device%s, %" PRIu32 " segments before the first",
              path, format, asim_human_count(trace->event_count, a), trace->device_count,
              trace->device_count == 1 ? "" : "s", trace->opening_segment_count);
    for (uint32_t i = 0; i < trace->note_count; i++)
        asim_note(cli, "%s: %s", path, trace->strings[trace->notes[i]].text);
    if (stat(o->output, &out) != 0)
        return;
    if (stat(path, &in) != 0 || !S_ISREG(in.st_mode)) /* a pipe has no size */
        asim_note(cli, "wrote %s: %s", o->output, asim_human_bytes((uint64_t)out.st_size, b));
    else
        asim_note(cli, "wrote %s: %s, from %s", o->output, asim_human_bytes((uint64_t)out.st_size, b),
                  asim_human_bytes((uint64_t)in.st_size, c));
}

static int run(asim_cli *cli, const void *values, char **operands, size_t count)
{
    (void)count;
    const options *o = values;
    const char *path = operands[0], *format = NULL;
    asim_err err = ASIM_ERR_INIT;
    if (check_format(o->format, &err) || check_output(o, path, &err))
        return asim_say_error(&err);
    if (asim_is_native(path)) {
        asim_say("%s: already a trace of allocsim", path);
        return ASIM_E_INPUT;
    }
    if (import_file(cli, o, path, &format, &err))
        return asim_say_error(&err);
    if (cli->quiet)
        return 0;
    /* What is told is read back from the file: it is what every later command will see. */
    asim_trace *trace;
    if (asim_load_trace(cli, o->output, &trace, NULL, &err))
        return asim_say_error(&err);
    describe(cli, o, path, format, trace);
    asim_trace_release(trace);
    return 0;
}

const asim_verb asim_verb_import = {
    .name = "import",
    .operands = "FILE",
    .summary = "Turns a recording, known by its content, into a trace",
    .text = "Formats: torch-snapshot (torch.cuda.memory._dump_snapshot and its kin; plain,\n"
            "gzip or zstd). What the recording can't tell is said on standard error.",
    .example = "import snapshot.pickle -o trace.zst",
    .options = table,
    .option_count = sizeof table / sizeof table[0],
    .values_size = sizeof(options),
    .min_operands = 1,
    .max_operands = 1,
    .run = run,
};
