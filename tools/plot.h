/* tools/plot.h - a plot as numbers: series of integer rows with labels, before anything draws it.
 *
 *     asim_plot plot;
 *     asim_plot_init(&plot, "timeline", mem);
 *     asim_plot_series *s = asim_plot_add(&plot, ASIM_PLOT_STEPS, 0, &err, "reserved");
 *     if (s && !asim_plot_row(&plot, s, (int64_t[]){event, bytes}, &err)) ...
 *     asim_plot_fini(&plot);
 *
 * Numbers are exact (bytes, events, nanoseconds, millionths); only the drawing divides by the unit. Texts may
 * come from outside: the drawing escapes them.
 */
#ifndef ASIM_TOOLS_PLOT_H
#define ASIM_TOOLS_PLOT_H

#include "sim/buf.h"
#include "sim/err.h"
#include "sim/hostmem.h"

#include <stdbool.h>
#include <stdio.h>

/* What a row holds, by style. */
typedef enum asim_plot_style {
    ASIM_PLOT_STEPS,  /* x, y; x grows: thinned to the extremes of each pixel column */
    ASIM_PLOT_LINE,   /* x, y */
    ASIM_PLOT_POINTS, /* x, y */
    ASIM_PLOT_BARS,   /* lying bars: position (0 at the top), begin, end */
    ASIM_PLOT_TICKS,  /* position, x: a short upright line across a lying bar */
    ASIM_PLOT_BOXES,  /* standing boxes: position, height */
    ASIM_PLOT_RECTS,  /* position, begin, end, bytes of a block */
} asim_plot_style;

typedef enum asim_plot_unit {
    ASIM_PLOT_COUNT,
    ASIM_PLOT_BYTES,
    ASIM_PLOT_NS,
    ASIM_PLOT_PPM, /* drawn as per cent */
    ASIM_PLOT_MIB, /* a number of MiB, drawn as it is */
} asim_plot_unit;

enum {
    ASIM_PLOT_COLUMNS = 1600, /* pixel columns that a thinned series keeps the extremes of */
    ASIM_PLOT_LABEL_MAX = 160,
    ASIM_PLOT_WIDTH = 4, /* integers a row, at most */
};

/* Colours: 0 to 6 are those of Okabe and Ito's palette that show on white, 7 is black, 8 a light grey,
 * 9 coloured by the row's size. */
enum {
    ASIM_PLOT_BLACK = 7,
    ASIM_PLOT_GREY = 8,
    ASIM_PLOT_BY_SIZE = 9
};

typedef struct asim_plot_series {
    char label[ASIM_PLOT_LABEL_MAX];
    asim_plot_style style;
    unsigned colour;
    unsigned dash; /* 0 solid; others tell series of one colour apart; also the shape of points */
    unsigned width;
    int64_t *values;
    size_t count, capacity; /* of values */
    /* The pixel column being thinned: its rows so far, and where the lowest and highest lie. */
    int64_t column, first[2], low[2], high[2], last[2];
    bool open;
} asim_plot_series;

typedef struct asim_plot_label {
    int64_t at;
    char text[ASIM_PLOT_LABEL_MAX];
} asim_plot_label;

typedef struct asim_plot {
    const asim_hostmem *mem;
    const char *name;
    char title[512];
    const char *x_label, *y_label;
    asim_plot_unit x_unit, y_unit;
    bool log_x;
    bool zero_y;
    int64_t x_low, x_high; /* of a thinned axis */
    asim_plot_series *series;
    size_t series_count, series_capacity;
    asim_plot_label *rows; /* names of the positions of bars, boxes and rectangles */
    size_t row_count, row_capacity;
    asim_plot_label *marks; /* upright lines with a text */
    size_t mark_count, mark_capacity;
} asim_plot;

void asim_plot_init(asim_plot *plot, const char *name, const asim_hostmem *mem);
void asim_plot_fini(asim_plot *plot);

/* NULL on failure. A series lives until the next one is added: fill it, or find it again by its index. */
asim_plot_series *asim_plot_add(asim_plot *plot, asim_plot_style style, unsigned colour, asim_err *err,
                                const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Appends a row of asim_plot_width(style) integers as it is. */
asim_code asim_plot_row(asim_plot *plot, asim_plot_series *series, const int64_t *row, asim_err *err);
/* Appends a point of a series whose x never falls, keeping of each pixel column (plot->x_low to x_high) the
 * first, the lowest, the highest and the last one; asim_plot_thinned ends the series. */
asim_code asim_plot_thin(asim_plot *plot, asim_plot_series *series, int64_t x, int64_t y, asim_err *err);
asim_code asim_plot_thinned(asim_plot *plot, asim_plot_series *series, asim_err *err);

asim_code asim_plot_name_row(asim_plot *plot, int64_t at, asim_err *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
asim_code asim_plot_mark(asim_plot *plot, int64_t at, const char *text, asim_err *err);

unsigned asim_plot_width(asim_plot_style style);
bool asim_plot_is_empty(const asim_plot *plot);

/* The same colour and dash for the same policy in every plot of every store. */
unsigned asim_plot_policy_colour(const char *policy, unsigned *ret_dash);

/* The plot's rows, a line each: plot, series, integers; separated by tabs, control characters of names shown
 * as
 * '?'. */
void asim_plot_print(const asim_plot *plot, FILE *out);

/* Appends text with control characters and what is no UTF-8 as '?', and each quote character doubled when
 * quote is not 0. */
asim_code asim_plot_clean(asim_buf *buf, const char *text, char quote, asim_err *err);

/* tools/plot_draw.c: draws with gnuplot. terminal: "svg", "pngcairo" or "pdfcairo". What gnuplot writes is
 * appended to ret_image. ASIM_E_SYSTEM when gnuplot is missing or refuses. */
asim_code asim_plot_draw(const asim_plot *plot, const char *terminal, asim_buf *ret_image, asim_err *err);

/* tools/plot_script.c: the commands that draw it, appended to ret_script. */
asim_code asim_plot_script(const asim_plot *plot, const char *terminal, asim_buf *ret_script, asim_err *err);

#endif
