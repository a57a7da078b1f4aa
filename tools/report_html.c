/* The page: head, tables, plots as inline SVG, and how to make each run again. No script, nothing from
 * elsewhere.
 */
#include "tools/cli.h"
#include "tools/report.h"
#include "tools/units.h"

#include <inttypes.h>
#include <string.h>

enum {
    TRACES_SHOWN = 8,
    ROWS_SHOWN = 1000
};

typedef struct page {
    asim_report *report;
    const asim_report_request *request;
    asim_buf *buf;
    asim_err *err;
    asim_code code;
    unsigned plots;
} page;

#define SAY(p, ...)                                                                                          \
    do {                                                                                                     \
        if (!(p)->code)                                                                                      \
            (p)->code = asim_buf_printf((p)->buf, (p)->err, __VA_ARGS__);                                    \
    } while (0)

/* Text of any origin as text of the page. */
static void say_text(page *p, const char *text)
{
    asim_buf clean;
    asim_buf_init(&clean, p->report->mem);
    if (!p->code)
        p->code = asim_plot_clean(&clean, text, 0, p->err);
    for (size_t i = 0; i < clean.length && !p->code; i++) {
        const uint8_t c = clean.bytes[i];
        const char *entity = c == '<'   ? "&lt;"
                             : c == '>' ? "&gt;"
                             : c == '&' ? "&amp;"
                             : c == '"' ? "&quot;"
                                        : NULL;
        p->code = entity ? asim_buf_append(p->buf, entity, strlen(entity), p->err)
                         : asim_buf_append(p->buf, &c, 1, p->err);
    }
    asim_buf_fini(&clean);
}

static const char style[] =
    "body{font:16px/1.45 system-ui,sans-serif;max-width:66rem;margin:1.5rem auto;padding:0 1rem;color:#111;"
    "background:#fff}h1{font-size:1.6rem}h2{margin-top:2.2rem;border-bottom:1px solid #bbb}"
    "table{border-collapse:collapse;font-size:.85rem}th,td{padding:.2rem .6rem;border-bottom:1px solid #ddd;"
    "text-align:left;vertical-align:top}th{border-bottom:2px solid #555}td.n,th.n{text-align:right;"
    "white-space:nowrap;font-variant-numeric:tabular-nums}.wide{overflow-x:auto}"
    "pre{background:#f4f4f4;padding:.6rem;white-space:pre-wrap;overflow-wrap:anywhere;font-size:.8rem}"
    "figure{margin:1.2rem 0}figure svg{width:100%;height:auto}figcaption{color:#444;font-size:.9rem}"
    ".bad{color:#a03000;font-weight:bold}td.p{overflow-wrap:anywhere}"
    "@page{margin:14mm}@media print{body{max-width:none;margin:0;padding:0;font-size:10pt}"
    "figure,tr,pre{break-inside:avoid}h2,h3{break-after:avoid}.wide{overflow:visible}thead{display:"
    "table-header-group}}";

static void head(page *p)
{
    SAY(p, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
           "<link rel=\"icon\" href=\"data:,\">\n<title>allocsim report: ");
    say_text(p, asim_report_base(p->report->path));
    SAY(p, "</title>\n<style>%s</style>\n</head>\n<body>\n<h1>allocsim report: ", style);
    say_text(p, asim_report_base(p->report->path));
    SAY(p,
        "</h1>\n<p>%zu run%s, drawn by allocsim %s. Sizes are in powers of 1024. A policy has the same "
        "colour in "
        "every plot.</p>\n",
        p->report->run_count, p->report->run_count == 1 ? "" : "s", ASIM_PROGRAM_VERSION);
}

static void bytes_cell(page *p, int64_t bytes)
{
    char text[ASIM_UNITS_MAX];
    SAY(p, "<td class=\"n\" title=\"%" PRId64 " bytes\">%s</td>", bytes,
        asim_human_bytes((uint64_t)bytes, text));
}

static void count_cell(page *p, int64_t count)
{
    char text[ASIM_UNITS_MAX];
    SAY(p, "<td class=\"n\">%s</td>", asim_human_count((uint64_t)count, text));
}

static void table_row(page *p, const asim_report_run *run)
{
    char text[ASIM_UNITS_MAX];
    const bool oom = strcmp(run->status, "ok") != 0;
    SAY(p, "<tr><td class=\"n\">%" PRId64 "</td><td>", run->run_id);
    say_text(p, run->policy);
    SAY(p, "</td><td class=\"p\">");
    say_text(p, run->params);
    SAY(p, "</td><td%s>%s</td>", oom ? " class=\"bad\"" : "", oom ? "out of memory" : "ok");
    bytes_cell(p, run->peak_reserved);
    bytes_cell(p, run->peak_allocated);
    bytes_cell(p, run->lower_bound);
    SAY(p, "<td class=\"n\">%s</td>", asim_human_ppm((uint64_t)run->reserve_gap_ppm, text));
    count_cell(p, run->device_allocs + run->device_frees + run->device_maps + run->device_unmaps);
    SAY(p, "<td class=\"n\">%s</td>", asim_human_ns((uint64_t)run->stall_ns, text));
    count_cell(p, run->ooms);
    SAY(p, "</tr>\n");
}

static void table_of(page *p, int64_t trace_id)
{
    size_t shown = 0, all = 0;
    SAY(p,
        "<div class=\"wide\"><table>\n<thead><tr><th class=\"n\">run</th><th>policy</th><th>parameters</th>"
        "<th>outcome</th><th class=\"n\">peak reserved</th><th class=\"n\">peak allocated</th>"
        "<th class=\"n\">lower bound</th><th class=\"n\">reserve gap</th><th class=\"n\">driver calls</th>"
        "<th class=\"n\">stalls</th><th class=\"n\">refused</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < p->report->run_count; i++) {
        if (p->report->runs[i].trace_id != trace_id || ++all > ROWS_SHOWN)
            continue;
        table_row(p, &p->report->runs[i]);
        shown++;
    }
    SAY(p, "</tbody></table></div>\n");
    if (shown < all)
        SAY(p, "<p>%zu more runs are in the store.</p>\n", all - shown);
}

/* The image without what stands before its <svg>; ids get the plot's number, as they must differ in a page.
 */
static void inline_svg(page *p, const asim_buf *image)
{
    const char *text = (const char *)image->bytes, *end = text + image->length;
    const char *at = memmem(text, image->length, "<svg", 4);
    char id[32];
    if (!at) {
        p->code = asim_fail(p->err, ASIM_E_SYSTEM, "gnuplot wrote no SVG");
        return;
    }
    snprintf(id, sizeof id, "p%u_", p->plots);
    while (at < end && !p->code) {
        static const char *const before[] = {"id=\"", "id='", "href=\"#", "href='#", "url(#"};
        size_t step = 1;
        bool reference = false;
        for (size_t i = 0; i < 5 && !reference; i++) {
            const size_t length = strlen(before[i]);
            reference = (size_t)(end - at) > length && memcmp(at, before[i], length) == 0;
            step = reference ? length : 1;
        }
        p->code = asim_buf_append(p->buf, at, step, p->err);
        if (reference && !p->code)
            p->code = asim_buf_append(p->buf, id, strlen(id), p->err);
        at += step;
    }
}

static void figure(page *p, const asim_plot_kind *kind, const asim_plot *plot)
{
    asim_buf image;
    asim_buf_init(&image, p->report->mem);
    p->plots++;
    p->code = asim_plot_draw(plot, "svg", &image, p->err);
    SAY(p, "<figure id=\"plot-%u-%s\">\n", p->plots, kind->name);
    if (!p->code)
        inline_svg(p, &image);
    SAY(p, "<figcaption>%s</figcaption>\n</figure>\n", kind->about);
    asim_buf_fini(&image);
}

static void plot_of(page *p, const asim_plot_kind *kind, const asim_report_run *run, const asim_trace *trace,
                    const char *file)
{
    asim_plot plot;
    if (p->code)
        return;
    asim_plot_init(&plot, kind->name, p->report->mem);
    if (kind->scope == ASIM_PLOT_OF_FILE) {
        snprintf(plot.title, sizeof plot.title, "%s: %.200s", kind->name, asim_report_base(file));
        p->code = kind->of_file(trace, &plot, p->err);
    } else {
        p->code = kind->of_store(p->report, run, &plot, p->err);
    }
    if (!p->code && asim_plot_is_empty(&plot))
        SAY(p, "<p>No plot of %s: %s.</p>\n", kind->name, kind->missing);
    else if (!p->code)
        figure(p, kind, &plot);
    asim_plot_fini(&plot);
}

static void plots_of_scope(page *p, asim_plot_scope scope, const asim_report_run *run,
                           const asim_trace *trace, const char *file)
{
    for (size_t i = 0; i < ASIM_PLOT_KINDS; i++)
        if (asim_plot_kinds[i].scope == scope)
            plot_of(p, &asim_plot_kinds[i], run, trace, file);
}

static void run_section(page *p, const asim_report_run *run)
{
    char text[ASIM_UNITS_MAX];
    SAY(p, "<h3>Run %" PRId64 ": ", run->run_id);
    say_text(p, run->policy);
    SAY(p, " ");
    say_text(p, run->params);
    SAY(p, "</h3>\n<p>Device ");
    say_text(p, run->device);
    SAY(p, ", capacity %s, seed %" PRId64 ", placement digest ",
        asim_human_bytes((uint64_t)run->capacity, text), run->seed);
    say_text(p, run->digest);
    SAY(p, "; ");
    say_text(p, run->about);
    SAY(p, ".</p>\n");
    plots_of_scope(p, ASIM_PLOT_OF_RUN, run, NULL, NULL);
}

static bool asked_for(const page *p, const asim_report_run *run)
{
    for (size_t i = 0; i < p->request->run_count; i++)
        if (p->request->runs[i] == run->run_id)
            return true;
    return false;
}

/* Unless runs were asked for: of each trace those with the least and the most reserved memory. */
static void run_sections(page *p, int64_t trace_id)
{
    const asim_report_run *least = NULL, *most = NULL;
    for (size_t i = 0; i < p->report->run_count; i++) {
        const asim_report_run *run = &p->report->runs[i];
        if (run->trace_id != trace_id)
            continue;
        if (p->request->run_count && asked_for(p, run))
            run_section(p, run);
        if (!least || run->peak_reserved < least->peak_reserved)
            least = run;
        if (!most || run->peak_reserved > most->peak_reserved)
            most = run;
    }
    if (p->request->run_count || !least)
        return;
    if (most != least)
        SAY(p, "<p>Shown are the runs with the least and with the most reserved memory; <code>--run N</code> "
               "shows "
               "others.</p>\n");
    run_section(p, least);
    if (most != least)
        run_section(p, most);
}

/* before and text together as one word of a shell's command line. */
static void say_word(page *p, const char *before, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=,+:-";
    const char *const parts[] = {before, text};
    const bool quoted = text[strspn(text, plain)] || before[strspn(before, plain)] || !*text;
    SAY(p, quoted ? "'" : "");
    for (int i = 0; i < 2; i++)
        for (const char *at = parts[i], *next; *at && !p->code; at = next) {
            next = *at == '\'' ? at + 1 : at + strcspn(at, "'");
            char piece[256];
            if (next - at > (ptrdiff_t)sizeof piece - 1)
                next = at + sizeof piece - 1;
            snprintf(piece, sizeof piece, "%.*s", (int)(next - at), at);
            say_text(p, *at == '\'' ? "'\\''" : piece);
        }
    SAY(p, quoted ? "'" : "");
}

static void commands(page *p)
{
    const size_t count = p->report->run_count;
    SAY(p,
        "<h2>How to make these runs again</h2>\n<p>Each line gives the same placements, digest and metrics, "
        "whatever the machine. A run of a profile file or of a plug-in needs that file, too.</p>\n<pre>");
    for (size_t i = 0; i < count && i < ROWS_SHOWN; i++) {
        const asim_report_run *run = &p->report->runs[i];
        char policy[2048];
        asim_report_policy(run, policy, sizeof policy);
        SAY(p, "allocsim run --policy ");
        say_word(p, "", policy);
        SAY(p, " --device ");
        say_word(p, "", run->device);
        SAY(p, " --capacity %" PRId64 "B --seed %" PRIu64 " ", run->capacity, (uint64_t)run->seed);
        say_word(p, run->trace[0] == '-' ? "./" : "", run->trace);
        SAY(p, "  # run %" PRId64 "\n", run->run_id);
    }
    SAY(p, "</pre>\n");
    if (count > ROWS_SHOWN)
        SAY(p, "<p>And %zu more.</p>\n", count - ROWS_SHOWN);
}

static void trace_section(page *p, const asim_report_run *run)
{
    char text[ASIM_UNITS_MAX];
    SAY(p, "<h2>Trace ");
    say_text(p, asim_report_base(run->trace));
    SAY(p, "</h2>\n<p>%s events; ", asim_human_count((uint64_t)run->events, text));
    say_text(p, run->trace);
    SAY(p, "</p>\n");
    table_of(p, run->trace_id);
    plots_of_scope(p, ASIM_PLOT_OF_TRACE, run, NULL, NULL);
    run_sections(p, run->trace_id);
}

asim_code asim_report_html(asim_report *report, const asim_report_request *request, asim_buf *ret_page,
                           asim_err *err)
{
    page p = {.report = report, .request = request, .buf = ret_page, .err = err};
    size_t traces = 0;
    head(&p);
    for (size_t i = 0; i < report->run_count; i++) {
        size_t k = 0;
        while (report->runs[k].trace_id != report->runs[i].trace_id)
            k++;
        if (k == i && traces++ < TRACES_SHOWN)
            trace_section(&p, &report->runs[i]);
    }
    if (traces > TRACES_SHOWN)
        SAY(&p, "<p>%zu more traces are in the store; the page shows the first %d.</p>\n",
            traces - TRACES_SHOWN, TRACES_SHOWN);
    if (request->trace_count)
        SAY(&p, "<h2>What the traces ask for</h2>\n");
    else
        SAY(&p,
            "<p>No histograms of sizes and lifetimes: a store holds no events. Name the trace file after the "
            "options to have them.</p>\n");
    for (size_t i = 0; i < request->trace_count; i++)
        plots_of_scope(&p, ASIM_PLOT_OF_FILE, NULL, request->traces[i], request->files[i]);
    commands(&p);
    SAY(&p, "</body>\n</html>\n");
    return p.code;
}
