#include "tools/plot.h"

#include "policies/registry.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

void asim_plot_init(asim_plot *plot, const char *name, const asim_hostmem *mem)
{
    *plot = (asim_plot){.mem = mem, .name = name, .zero_y = true, .x_label = "", .y_label = ""};
}

void asim_plot_fini(asim_plot *plot)
{
    for (size_t i = 0; i < plot->series_count; i++)
        asim_mem_free(plot->mem, plot->series[i].values, plot->series[i].capacity, sizeof(int64_t));
    asim_mem_free(plot->mem, plot->series, plot->series_capacity, sizeof *plot->series);
    asim_mem_free(plot->mem, plot->rows, plot->row_capacity, sizeof *plot->rows);
    asim_mem_free(plot->mem, plot->marks, plot->mark_capacity, sizeof *plot->marks);
    *plot = (asim_plot){.mem = plot->mem};
}

unsigned asim_plot_width(asim_plot_style style)
{
    return style == ASIM_PLOT_RECTS ? 4 : style == ASIM_PLOT_BARS ? 3 : 2;
}

bool asim_plot_is_empty(const asim_plot *plot)
{
    for (size_t i = 0; i < plot->series_count; i++)
        if (plot->series[i].count)
            return false;
    return true;
}

asim_plot_series *asim_plot_add(asim_plot *plot, asim_plot_style style, unsigned colour, asim_err *err,
                                const char *format, ...)
{
    void *memory = plot->series;
    if (asim_mem_grow(plot->mem, &memory, &plot->series_capacity, plot->series_count + 1,
                      sizeof *plot->series, err))
        return NULL;
    plot->series = memory;
    asim_plot_series *series = &plot->series[plot->series_count++];
    *series = (asim_plot_series){.style = style, .colour = colour, .width = 2};
    va_list args;
    va_start(args, format);
    vsnprintf(series->label, sizeof series->label, format, args);
    va_end(args);
    return series;
}

asim_code asim_plot_row(asim_plot *plot, asim_plot_series *series, const int64_t *row, asim_err *err)
{
    const size_t width = asim_plot_width(series->style);
    void *memory = series->values;
    asim_code code = asim_mem_grow(plot->mem, &memory, &series->capacity, series->count + width,
                                   sizeof *series->values, err);
    if (code)
        return code;
    series->values = memory;
    memcpy(series->values + series->count, row, width * sizeof *row);
    series->count += width;
    return ASIM_OK;
}

asim_code asim_plot_thinned(asim_plot *plot, asim_plot_series *s, asim_err *err)
{
    if (!s->open)
        return ASIM_OK;
    s->open = false;
    const bool low_first = s->low[0] <= s->high[0];
    const int64_t *kept[4] = {s->first, low_first ? s->low : s->high, low_first ? s->high : s->low, s->last};
    asim_code code = ASIM_OK;
    int64_t x = INT64_MIN;
    for (int i = 0; i < 4 && !code; i++) {
        if (i && kept[i][0] <= x)
            continue;
        x = kept[i][0];
        code = asim_plot_row(plot, s, kept[i], err);
    }
    return code;
}

asim_code asim_plot_thin(asim_plot *plot, asim_plot_series *s, int64_t x, int64_t y, asim_err *err)
{
    const double span = (double)plot->x_high - (double)plot->x_low;
    const double place = span > 0 ? ((double)x - (double)plot->x_low) / span * (ASIM_PLOT_COLUMNS - 1) : 0;
    const int64_t column = (int64_t)place;
    if (s->open && s->column != column) {
        asim_code code = asim_plot_thinned(plot, s, err);
        if (code)
            return code;
    }
    const int64_t point[2] = {x, y};
    if (!s->open) {
        s->open = true;
        s->column = column;
        memcpy(s->first, point, sizeof point);
        memcpy(s->low, point, sizeof point);
        memcpy(s->high, point, sizeof point);
    }
    if (y < s->low[1])
        memcpy(s->low, point, sizeof point);
    if (y > s->high[1])
        memcpy(s->high, point, sizeof point);
    memcpy(s->last, point, sizeof point);
    return ASIM_OK;
}

asim_code asim_plot_name_row(asim_plot *plot, int64_t at, asim_err *err, const char *format, ...)
{
    void *memory = plot->rows;
    asim_code code =
        asim_mem_grow(plot->mem, &memory, &plot->row_capacity, plot->row_count + 1, sizeof *plot->rows, err);
    if (code)
        return code;
    plot->rows = memory;
    asim_plot_label *label = &plot->rows[plot->row_count++];
    label->at = at;
    va_list args;
    va_start(args, format);
    vsnprintf(label->text, sizeof label->text, format, args);
    va_end(args);
    return ASIM_OK;
}

asim_code asim_plot_mark(asim_plot *plot, int64_t at, const char *text, asim_err *err)
{
    void *memory = plot->marks;
    asim_code code = asim_mem_grow(plot->mem, &memory, &plot->mark_capacity, plot->mark_count + 1,
                                   sizeof *plot->marks, err);
    if (code)
        return code;
    plot->marks = memory;
    asim_plot_label *label = &plot->marks[plot->mark_count++];
    label->at = at;
    snprintf(label->text, sizeof label->text, "%s", text);
    return ASIM_OK;
}

/* Those that people hold against each other most often have a colour alone; the others share, and have a
 * dash, a shape and a pattern of their own. */
static const char *const alone[ASIM_PLOT_BLACK] = {"torchcache",  "native", "bfc",     "async",
                                                   "static-plan", "stitch", "best-fit"};

unsigned asim_plot_policy_colour(const char *policy, unsigned *ret_dash)
{
    unsigned index = 0;
    *ret_dash = 0;
    for (unsigned i = 0; i < ASIM_PLOT_BLACK; i++)
        if (strcmp(alone[i], policy) == 0)
            return i;
    while (asim_policies[index] && strcmp(asim_policies[index]->name, policy) != 0)
        index++;
    *ret_dash = 1 + index / ASIM_PLOT_BLACK;
    return index % ASIM_PLOT_BLACK;
}

static void print_name(const char *text, FILE *out)
{
    for (; *text; text++)
        fputc((unsigned char)*text < ' ' || *text == 127 ? '?' : *text, out);
}

void asim_plot_print(const asim_plot *plot, FILE *out)
{
    for (size_t i = 0; i < plot->series_count; i++) {
        const asim_plot_series *s = &plot->series[i];
        const unsigned width = asim_plot_width(s->style);
        for (size_t k = 0; k < s->count; k += width) {
            fprintf(out, "%s\t", plot->name);
            print_name(s->label, out);
            for (unsigned c = 0; c < width; c++)
                fprintf(out, "\t%" PRId64, s->values[k + c]);
            fputc('\n', out);
        }
    }
}

/* Bytes of the UTF-8 character at p, or 0: none. */
static size_t utf8_length(const unsigned char *p)
{
    const size_t length = *p < 0x80 ? 1 : *p >= 0xC2 && *p < 0xE0 ? 2 : *p >= 0xE0 && *p < 0xF0 ? 3 : 4;
    if (length == 4 && (*p < 0xF0 || *p > 0xF4))
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    if ((*p == 0xE0 && p[1] < 0xA0) || (*p == 0xED && p[1] > 0x9F) || (*p == 0xF0 && p[1] < 0x90) ||
        (*p == 0xF4 && p[1] > 0x8F) || (*p == 0xC2 && p[1] < 0xA0))
        return 0;
    return length;
}

asim_code asim_plot_clean(asim_buf *buf, const char *text, char quote, asim_err *err)
{
    asim_code code = ASIM_OK;
    const unsigned char *p = (const unsigned char *)text;
    while (*p && !code) {
        size_t length = utf8_length(p);
        if (!length || *p < ' ' || *p == 127) {
            code = asim_buf_append(buf, "?", 1, err);
            length = 1;
        } else {
            if (quote && *p == (unsigned char)quote)
                code = asim_buf_append(buf, &quote, 1, err);
            if (!code)
                code = asim_buf_append(buf, p, length, err);
        }
        p += length;
    }
    return code;
}
