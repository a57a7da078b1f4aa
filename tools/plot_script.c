/* The gnuplot commands of a plot. Every text goes in single quotes, where only the quote itself means
 * anything, and is drawn "noenhanced", so that no character of a trace's name is a command. */
#include "tools/plot.h"

#include <inttypes.h>
#include <string.h>

typedef struct scale {
    double divisor;
    const char *unit;
} scale;

typedef struct writer {
    asim_buf *buf;
    asim_err *err;
    asim_code code;
} writer;

#define SAY(w, ...)                                                                                          \
    do {                                                                                                     \
        if (!(w)->code)                                                                                      \
            (w)->code = asim_buf_printf((w)->buf, (w)->err, __VA_ARGS__);                                    \
    } while (0)

static void quote(writer *w, const char *text)
{
    SAY(w, "'");
    if (!w->code)
        w->code = asim_plot_clean(w->buf, text, '\'', w->err);
    SAY(w, "'");
}

/* Okabe and Ito, "Color Universal Design": vermillion, blue, bluish green, orange, reddish purple, sky blue,
 * yellow; then black and a grey. */
static const char *const colours[] = {"#D55E00", "#0072B2", "#009E73", "#E69F00", "#CC79A7",
                                      "#56B4E9", "#F0E442", "#000000", "#D8D8D8"};

/* The unit in which the largest number reads well. */
static scale choose(asim_plot_unit unit, int64_t largest)
{
    static const char *const bytes[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    static const char *const times[] = {"ns", "\302\265s", "ms", "s"};
    scale s = {1, ""};
    size_t i = 0;
    if (unit == ASIM_PLOT_PPM)
        return (scale){10000, "%"};
    if (unit == ASIM_PLOT_MIB)
        return (scale){1, "MiB"};
    if (unit == ASIM_PLOT_BYTES) {
        while (i < 4 && (double)largest >= s.divisor * 1024)
            s.divisor *= 1024, i++;
        s.unit = bytes[i];
    } else if (unit == ASIM_PLOT_NS) {
        while (i < 3 && (double)largest >= s.divisor * 1000)
            s.divisor *= 1000, i++;
        s.unit = times[i];
    }
    return s;
}

static int64_t largest(const asim_plot *plot, bool x)
{
    int64_t most = 0;
    for (size_t i = 0; i < plot->series_count; i++) {
        const asim_plot_series *s = &plot->series[i];
        const unsigned width = asim_plot_width(s->style);
        const bool lying =
            s->style == ASIM_PLOT_BARS || s->style == ASIM_PLOT_TICKS || s->style == ASIM_PLOT_RECTS;
        const unsigned column = !lying ? !x : s->style == ASIM_PLOT_TICKS ? 1 : 2;
        if (lying && !x)
            continue;
        for (size_t k = column; k < s->count; k += width)
            most = s->values[k] > most ? s->values[k] : most;
    }
    return most;
}

static bool has_style(const asim_plot *plot, asim_plot_style style)
{
    for (size_t i = 0; i < plot->series_count; i++)
        if (plot->series[i].style == style && plot->series[i].count)
            return true;
    return false;
}

static void terminal_and_frame(writer *w, const asim_plot *plot, const char *terminal)
{
    const bool lying = has_style(plot, ASIM_PLOT_BARS) || has_style(plot, ASIM_PLOT_RECTS);
    const size_t rows = plot->row_count;
    const size_t height = !lying ? 460 : rows < 8 ? 320 : rows > 60 ? 1240 : 160 + rows * 18;
    SAY(w, "set encoding utf8\n");
    if (strcmp(terminal, "svg") == 0)
        SAY(w, "set terminal svg size 1000,%zu dynamic background 'white' font 'DejaVu Sans,13' name 'p'\n",
            height);
    else if (strcmp(terminal, "pdfcairo") == 0)
        SAY(w, "set terminal pdfcairo size 25cm,%.2fcm background 'white' font 'DejaVu Sans,11'\n",
            (double)height / 40);
    else
        SAY(w, "set terminal pngcairo size 1500,%zu background 'white' font 'DejaVu Sans,15'\n",
            height * 3 / 2);
    SAY(w, "set title ");
    quote(w, plot->title);
    SAY(w,
        " noenhanced\nset border 3 lc rgb '#555555'\nset tics nomirror\nset grid lc rgb '#dddddd' lw 1\n"
        "set style fill solid 1.0 noborder\nset key noenhanced %s\n",
        lying ? "outside top right Left reverse samplen 2 width 2"
              : "outside right top Left reverse samplen 2");
    if (has_style(plot, ASIM_PLOT_RECTS))
        SAY(w, "set palette defined (0 '#440154', 1 '#3b528b', 2 '#21918c', 3 '#5ec962', 4 '#fde725')\nset "
               "logscale cb 2\nset format cb '%%.0b %%BB'\nset cblabel 'block size'\n"
               "set cbrange [512:*]\nset key outside bottom center horizontal\n");
}

static void axis_label(writer *w, char axis, const char *text, const char *unit)
{
    char label[200];
    snprintf(label, sizeof label, *unit ? "%s [%s]" : "%s", text, unit);
    SAY(w, "set %clabel ", axis);
    quote(w, label);
    SAY(w, " noenhanced\n");
}

static void axes(writer *w, const asim_plot *plot, scale x, scale y)
{
    const bool standing = has_style(plot, ASIM_PLOT_BOXES);
    axis_label(w, 'x', plot->x_label, standing ? "" : x.unit);
    axis_label(w, 'y', plot->y_label, y.unit);
    if (plot->row_count) {
        SAY(w, "set %ctics noenhanced %s(", standing ? 'x' : 'y', standing ? "rotate by -45 " : "");
        for (size_t i = 0; i < plot->row_count; i++) {
            SAY(w, i ? ", " : "");
            quote(w, plot->rows[i].text);
            SAY(w, " %" PRId64, plot->rows[i].at);
        }
        SAY(w, ")\n");
        if (standing)
            SAY(w, "set xrange [-0.6:%g]\n", (double)plot->row_count - 0.4);
        else
            SAY(w, "set yrange [%g:-0.6]\nset xrange [0:*]\n", (double)plot->row_count - 0.4);
    }
    if (plot->zero_y && (!plot->row_count || standing))
        SAY(w, "set yrange [0:*]\nset offsets graph 0, 0, graph 0.06, 0\n");
    if (plot->x_unit == ASIM_PLOT_COUNT && !plot->row_count)
        SAY(w, "set format x '%%.0f'\n");
    if (plot->x_high > plot->x_low)
        SAY(w, "set xrange [%.9g:%.9g]\n", (double)plot->x_low / x.divisor, (double)plot->x_high / x.divisor);
    if (plot->log_x)
        SAY(w, "set logscale x 2\n");
    for (size_t i = 0; i < plot->mark_count; i++) {
        const double at = (double)plot->marks[i].at / x.divisor;
        SAY(w, "set arrow from first %.9g, graph 0 to first %.9g, graph 1 nohead lc rgb '#999999' dt 3\n", at,
            at);
        SAY(w, "set label ");
        quote(w, plot->marks[i].text);
        SAY(w,
            " at first %.9g, graph 0.02 rotate by 90 noenhanced font ',9' offset 0.7, 0 tc rgb '#555555'\n",
            at);
    }
}

static void block_of(writer *w, const asim_plot_series *s, size_t index)
{
    const unsigned width = asim_plot_width(s->style);
    SAY(w, "$d%zu << E\n", index);
    for (size_t k = 0; k < s->count; k += width) {
        for (unsigned c = 0; c < width; c++)
            SAY(w, c ? " %" PRId64 : "%" PRId64, s->values[k + c]);
        SAY(w, "\n");
    }
    SAY(w, "E\n");
}

static void draw(writer *w, const asim_plot_series *s, size_t index, scale x, scale y)
{
    const double xd = x.divisor, yd = y.divisor;
    char paint[64];
    if (s->colour == ASIM_PLOT_BY_SIZE)
        snprintf(paint, sizeof paint, "lc palette");
    else
        snprintf(paint, sizeof paint, "lc rgb '%s'", colours[s->colour % 9]);
    switch (s->style) {
    case ASIM_PLOT_STEPS:
        SAY(w, "$d%zu using ($1/%.1f):($2/%.1f) with steps lw %u dt %u %s", index, xd, yd, s->width,
            s->dash + 1, paint);
        break;
    case ASIM_PLOT_LINE:
        SAY(w, "$d%zu using ($1/%.1f):($2/%.1f) with linespoints lw %u dt %u pt %u ps 0.6 %s", index, xd, yd,
            s->width, s->dash + 1, 7 + s->dash * 2, paint);
        break;
    case ASIM_PLOT_POINTS:
        SAY(w, "$d%zu using ($1/%.1f):($2/%.1f) with points pt %u ps 1 %s", index, xd, yd, 7 + s->dash * 2,
            paint);
        break;
    case ASIM_PLOT_BARS:
        SAY(w, "$d%zu using (($2+$3)/2.0/%.1f):1:($2/%.1f):($3/%.1f):($1-0.38):($1+0.38) with boxxyerror %s",
            index, xd, xd, xd, paint);
        if (s->dash)
            SAY(w, " fs pattern %u border", 3 + s->dash);
        break;
    case ASIM_PLOT_TICKS:
        SAY(w, "$d%zu using ($2/%.1f):($1-0.45):(0):(0.9) with vectors nohead lw 3 dt %u %s", index, xd,
            s->dash + 1, paint);
        break;
    case ASIM_PLOT_BOXES:
        SAY(w, "$d%zu using 1:($2/%.1f):(0.85) with boxes %s", index, yd, paint);
        break;
    case ASIM_PLOT_RECTS:
        SAY(w, "$d%zu using (($2+$3)/2.0/%.1f):1:($2/%.1f):($3/%.1f):($1-0.4):($1+0.4)%s with boxxyerror %s",
            index, xd, xd, xd, s->colour == ASIM_PLOT_BY_SIZE ? ":4" : "", paint);
        break;
    }
    if (s->label[0]) {
        SAY(w, " title ");
        quote(w, s->label);
        SAY(w, " noenhanced");
    } else {
        SAY(w, " notitle");
    }
}

asim_code asim_plot_script(const asim_plot *plot, const char *terminal, asim_buf *ret_script, asim_err *err)
{
    writer w = {ret_script, err, ASIM_OK};
    const scale x = choose(plot->x_unit, largest(plot, true));
    const scale y = choose(plot->y_unit, largest(plot, false));
    terminal_and_frame(&w, plot, terminal);
    axes(&w, plot, x, y);
    for (size_t i = 0; i < plot->series_count; i++)
        if (plot->series[i].count)
            block_of(&w, &plot->series[i], i);
    bool any = false;
    for (size_t i = 0; i < plot->series_count; i++) {
        if (!plot->series[i].count)
            continue;
        SAY(&w, "%s", any ? ", \\\n  " : "plot ");
        draw(&w, &plot->series[i], i, x, y);
        any = true;
    }
    SAY(&w, "\n");
    return w.code;
}
