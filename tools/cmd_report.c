/* allocsim report: pictures and tables of a store. */
#include "tools/load.h"
#include "tools/report.h"
#include "traces/native.h"
#include "traces/out_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

extern const asim_verb asim_verb_report;

typedef struct options {
    const char *db, *output, *plot;
    asim_option_list runs;
    bool data;
} options;

static const options defaults = {.db = "allocsim.db"};

#define AT(field) offsetof(options, field)
static const asim_option table[] = {
    {.name = "db",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(db),
     .argument = "FILE",
     .help = "the store [allocsim.db]"},
    {.name = "output",
     .letter = 'o',
     .type = ASIM_OPTION_TEXT,
     .offset = AT(output),
     .argument = "FILE",
     .help = ".html: everything; .png, .svg, .pdf: one plot"},
    {.name = "run",
     .letter = 'n',
     .type = ASIM_OPTION_LIST,
     .offset = AT(runs),
     .argument = "N",
     .help = "a run, as 'db ls' numbers them [the last]; repeatable"},
    {.name = "plot",
     .type = ASIM_OPTION_TEXT,
     .offset = AT(plot),
     .argument = "NAME",
     .help = "its name [timeline]"},
    {.name = "data",
     .type = ASIM_OPTION_FLAG,
     .offset = AT(data),
     .help = "print the plot's numbers, separated by tabs"},
};

typedef struct job {
    const options *o;
    const asim_cli *cli;
    asim_report report;
    int64_t *runs;
    size_t run_count;
    char **files;
    asim_trace **traces;
    size_t trace_count;
} job;

static const char *const endings[] = {".html", ".png", ".svg", ".pdf"};
static const char *const terminals[] = {NULL, "pngcairo", "svg", "pdfcairo"};

/* Which of the endings the name has, or -1. */
static int ending_of(const char *path)
{
    const size_t length = strlen(path);
    for (int i = 0; i < 4; i++) {
        const size_t tail = strlen(endings[i]);
        if (length > tail && strcmp(path + length - tail, endings[i]) == 0)
            return i;
    }
    return -1;
}

static asim_code unknown_plot(const char *name, asim_err *err)
{
    char known[200] = "";
    const char *names[ASIM_PLOT_KINDS + 1] = {NULL};
    for (size_t i = 0; i < ASIM_PLOT_KINDS; i++) {
        const size_t used = strlen(known);
        names[i] = asim_plot_kinds[i].name;
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", names[i]);
    }
    const char *near = asim_nearest(name, names);
    if (near)
        return asim_fail(err, ASIM_E_USAGE,
                         "--plot: there is no plot '%.64s'; did you mean '%s'? There are: %s", name, near,
                         known);
    return asim_fail(err, ASIM_E_USAGE, "--plot: there is no plot '%.64s'; there are: %s", name, known);
}

static asim_code check_options(const options *o, size_t files, asim_err *err)
{
    const asim_plot_kind *kind = o->plot ? asim_plot_kind_find(o->plot) : NULL;
    if (o->plot && !kind)
        return unknown_plot(o->plot, err);
    if (!o->output && !o->data)
        return asim_fail(err, ASIM_E_USAGE,
                         "where to? -o report.html, or -o with .png, .svg or .pdf for one plot");
    const int ending = o->output ? ending_of(o->output) : 1;
    if (ending < 0)
        return asim_fail(err, ASIM_E_USAGE, "-o %.200s: the name must end in .html, .png, .svg or .pdf",
                         o->output);
    if (ending == 0 && (o->plot || o->data))
        return asim_fail(err, ASIM_E_USAGE, "--%s is for one plot, but -o %.200s holds all of them",
                         o->plot ? "plot" : "data", o->output);
    if (ending != 0 && o->runs.count > 1)
        return asim_fail(err, ASIM_E_USAGE, "one plot shows one --run; -o report.html shows several");
    if (kind && kind->scope == ASIM_PLOT_OF_FILE && !files)
        return asim_fail(err, ASIM_E_USAGE,
                         "--plot %s needs the trace file, as a store holds no events: add it to the command",
                         kind->name);
    return ASIM_OK;
}

static asim_code read_runs(job *j, asim_err *err)
{
    const size_t count = j->o->runs.count;
    if (!count)
        return ASIM_OK;
    if (!(j->runs = asim_mem_new(j->cli->mem, count, sizeof *j->runs)))
        return asim_fail_memory(err, count * sizeof *j->runs);
    for (size_t i = 0; i < count; i++) {
        const char *text = j->o->runs.items[i];
        char *end;
        errno = 0;
        j->runs[i] = strtoll(text, &end, 10);
        if (errno || *end || end == text)
            return asim_fail(err, ASIM_E_USAGE,
                             "--run: '%.64s' is no number; 'allocsim db ls %s' lists the runs", text,
                             j->o->db);
        if (!asim_report_find(&j->report, j->runs[i]))
            return asim_fail(err, ASIM_E_INPUT, "%s holds no run %" PRId64 "; 'allocsim db ls %s' lists them",
                             j->o->db, j->runs[i], j->o->db);
        j->run_count++;
    }
    return ASIM_OK;
}

static asim_code read_traces(job *j, char **files, size_t count, asim_err *err)
{
    if (!count)
        return ASIM_OK;
    if (!(j->traces = asim_mem_new(j->cli->mem, count, sizeof *j->traces)))
        return asim_fail_memory(err, count * sizeof *j->traces);
    j->files = files;
    for (size_t i = 0; i < count; i++) {
        asim_trace *trace = NULL;
        asim_code code = asim_load_trace(j->cli, files[i], &trace, NULL, err);
        if (code)
            return code;
        j->traces[i] = trace;
        j->trace_count++;
    }
    return ASIM_OK;
}

/* Fills one plot, drawn into ret_image unless only its data is asked for. */
static asim_code one_plot(job *j, int ending, asim_buf *ret_image, asim_err *err)
{
    const asim_plot_kind *kind = asim_plot_kind_find(j->o->plot ? j->o->plot : "timeline");
    const asim_report_run *run =
        j->run_count ? asim_report_find(&j->report, j->runs[0]) : &j->report.runs[j->report.run_count - 1];
    asim_plot plot;
    asim_code code;
    asim_plot_init(&plot, kind->name, j->cli->mem);
    if (kind->scope == ASIM_PLOT_OF_FILE) {
        snprintf(plot.title, sizeof plot.title, "%s: %.200s", kind->name, asim_report_base(j->files[0]));
        code = kind->of_file(j->traces[0], &plot, err);
    } else {
        code = kind->of_store(&j->report, run, &plot, err);
    }
    if (!code && asim_plot_is_empty(&plot))
        code = asim_fail(err, ASIM_E_INPUT, "there is nothing to plot: %s", kind->missing);
    if (!code && j->o->output)
        code = asim_plot_draw(&plot, terminals[ending], ret_image, err);
    if (!code && j->o->data)
        asim_plot_print(&plot, stdout);
    asim_plot_fini(&plot);
    return code;
}

static asim_code write_file(const job *j, const asim_buf *content, asim_err *err)
{
    asim_out_file *file = NULL;
    asim_code code = asim_out_file_open(j->o->output, j->cli->mem, &file, err);
    if (!code)
        code = asim_out_file_write(file, content->bytes, content->length, err);
    if (!code)
        code = asim_out_file_commit(file, err);
    asim_out_file_close(file);
    return code;
}

static asim_code work(job *j, char **files, size_t count, asim_err *err)
{
    const int ending = j->o->output ? ending_of(j->o->output) : 1;
    asim_buf content;
    asim_code code = asim_report_open(j->o->db, j->cli->mem, &j->report, err);
    if (!code)
        code = read_runs(j, err);
    if (!code && j->o->output)
        code = asim_out_file_try(j->o->output, j->cli->mem, err);
    if (!code)
        code = read_traces(j, files, count, err);
    if (code)
        return code;
    asim_buf_init(&content, j->cli->mem);
    const asim_report_request request = {j->runs, j->run_count, j->files, j->traces, j->trace_count};
    code = ending == 0 ? asim_report_html(&j->report, &request, &content, err)
                       : one_plot(j, ending, &content, err);
    if (!code && j->o->output)
        code = write_file(j, &content, err);
    asim_buf_fini(&content);
    return code;
}

static int run(asim_cli *cli, const void *values, char **operands, size_t count)
{
    asim_err err = ASIM_ERR_INIT;
    job j = {.o = values, .cli = cli};
    asim_code code = check_options(j.o, count, &err);
    if (!code)
        code = work(&j, operands, count, &err);
    for (size_t i = 0; i < j.trace_count; i++)
        asim_trace_release(j.traces[i]);
    asim_mem_free(cli->mem, j.traces, count, sizeof *j.traces);
    asim_mem_free(cli->mem, j.runs, j.o->runs.count, sizeof *j.runs);
    asim_report_close(&j.report);
    return code ? asim_say_error(&err) : 0;
}

const asim_verb asim_verb_report = {
    .name = "report",
    .operands = "[TRACE...]",
    .summary = "Draws a store: one page with all plots and tables, or one plot",
    .text = "Plots of a run: timeline, fragmentation, layout (run --layout); of its trace's\n"
            "runs: policies, max-split, pareto, calls, stalls; of TRACE: sizes, lifetimes.\n"
            "Needs gnuplot.",
    .example = "report --db allocsim.db -o report.html",
    .options = table,
    .option_count = sizeof table / sizeof table[0],
    .values_size = sizeof(options),
    .defaults = &defaults,
    .max_operands = SIZE_MAX,
    .run = run,
};
