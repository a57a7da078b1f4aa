#include "traces/buffers.h"

#include "sim/buf.h"
#include "traces/slots.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    LINE_MAX_BYTES = 1 << 16,
    PORTION = 1 << 16, /* bytes read at once */
    COLUMNS_MAX = 16,
};

/* --- rows --------------------------------------------------------------------------------------------------
 */

typedef enum column {
    COLUMN_ID,
    COLUMN_LOWER,
    COLUMN_UPPER,
    COLUMN_SIZE,
    COLUMN_ALIGNMENT,
    COLUMN_OFFSET,
    COLUMN_GAPS,
    COLUMN_COUNT
} column;

static const struct {
    const char *name;
    column column;
    bool inclusive; /* the value is the last moment, not the first after it */
} names[] = {
    {"id", COLUMN_ID, false},         {"buffer", COLUMN_ID, false},
    {"buffer_id", COLUMN_ID, false},  {"lower", COLUMN_LOWER, false},
    {"begin", COLUMN_LOWER, false},   {"start", COLUMN_LOWER, false},
    {"upper", COLUMN_UPPER, false},   {"end", COLUMN_UPPER, true},
    {"size", COLUMN_SIZE, false},     {"alignment", COLUMN_ALIGNMENT, false},
    {"offset", COLUMN_OFFSET, false}, {"gaps", COLUMN_GAPS, false},
};

typedef struct field {
    const char *text;
    size_t length;
} field;

typedef struct head {
    column columns[COLUMNS_MAX];
    size_t count;
    bool inclusive;
} head;

static bool find_name(field f, column *ret_column, bool *ret_inclusive)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i].name) == f.length && memcmp(names[i].name, f.text, f.length) == 0) {
            *ret_column = names[i].column;
            *ret_inclusive |= names[i].inclusive;
            return true;
        }
    return false;
}

/* The fields of a line; 0: more than there may be. */
static size_t cut(field line, field fields[COLUMNS_MAX])
{
    size_t count = 0;
    for (const char *at = line.text, *end = line.text + line.length;; count++) {
        const char *comma = at < end ? memchr(at, ',', (size_t)(end - at)) : NULL;
        if (count == COLUMNS_MAX)
            return 0;
        fields[count] = (field){at, (size_t)((comma ? comma : end) - at)};
        if (!comma)
            return count + 1;
        at = comma + 1;
    }
}

static asim_code read_head(field line, head *ret_head, asim_err *err)
{
    field fields[COLUMNS_MAX];
    bool seen[COLUMN_COUNT] = {false};
    *ret_head = (head){.count = cut(line, fields)};
    if (ret_head->count == 0)
        return asim_fail(err, ASIM_E_INPUT, "more than %d columns", COLUMNS_MAX);
    for (size_t i = 0; i < ret_head->count; i++) {
        column *found = &ret_head->columns[i];
        if (!find_name(fields[i], found, &ret_head->inclusive))
            return asim_fail(err, ASIM_E_INPUT, "'%.*s' is no column of a list of buffers",
                             (int)(fields[i].length < 64 ? fields[i].length : 64), fields[i].text);
        if (seen[*found])
            return asim_fail(err, ASIM_E_INPUT, "the column '%.*s' stands there twice", (int)fields[i].length,
                             fields[i].text);
        seen[*found] = true;
    }
    for (int i = COLUMN_ID; i <= COLUMN_SIZE; i++)
        if (!seen[i])
            return asim_fail(err, ASIM_E_INPUT, "the columns must name id, lower, upper and size");
    return ASIM_OK;
}

static asim_code read_number(field f, const char *what, uint64_t least, uint64_t *ret_value, asim_err *err)
{
    uint64_t value = 0;
    bool good = f.length > 0;
    for (size_t i = 0; i < f.length && good; i++) {
        good = f.text[i] >= '0' && f.text[i] <= '9' && value <= (INT64_MAX - 9) / 10;
        value = value * 10 + (good ? (uint64_t)(f.text[i] - '0') : 0);
    }
    if (!good || value < least)
        return asim_fail(err, ASIM_E_INPUT, "the %s '%.*s' is no integer from %" PRIu64 " to 2^63 - 10", what,
                         (int)(f.length < 64 ? f.length : 64), f.text, least);
    *ret_value = value;
    return ASIM_OK;
}

static asim_code read_row(asim_buffer_list *list, const head *columns, field line, asim_err *err)
{
    field fields[COLUMNS_MAX];
    if (cut(line, fields) != columns->count)
        return asim_fail(err, ASIM_E_INPUT, "the line has not the %zu fields that the first line names",
                         columns->count);
    asim_buffer_row row = {.alignment = 1, .offset = ASIM_NO_ADDRESS};
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < columns->count && !code; i++)
        switch (columns->columns[i]) {
        case COLUMN_LOWER:
            code = read_number(fields[i], "lower end", 0, &row.lower, err);
            break;
        case COLUMN_UPPER:
            code = read_number(fields[i], "upper end", 0, &row.upper, err);
            break;
        case COLUMN_SIZE:
            code = read_number(fields[i], "size", 0, &row.size, err);
            break;
        case COLUMN_ALIGNMENT:
            code = read_number(fields[i], "alignment", 1, &row.alignment, err);
            list->has_alignments |= row.alignment != 1;
            break;
        case COLUMN_OFFSET:
            code = read_number(fields[i], "offset", 0, &row.offset, err);
            list->has_offsets = true;
            break;
        case COLUMN_GAPS:
            list->has_gaps |= fields[i].length > 0;
            break;
        case COLUMN_ID:
        case COLUMN_COUNT:
            break;
        }
    row.upper += columns->inclusive;
    if (!code && row.lower >= row.upper)
        code = asim_fail(err, ASIM_E_INPUT, "the buffer ends at %" PRIu64 ", not after its begin at %" PRIu64,
                         row.upper, row.lower);
    void *rows = list->rows;
    if (!code && list->count == UINT32_MAX - 1)
        code = asim_fail(err, ASIM_E_INPUT, "more buffers than 32 bits can count");
    if (!code)
        code = asim_mem_grow(list->mem, &rows, &list->capacity, list->count + 1, sizeof row, err);
    list->rows = rows;
    if (!code)
        list->rows[list->count++] = row;
    return code;
}

/* --- lines -------------------------------------------------------------------------------------------------
 */

typedef struct lines {
    const asim_input *input;
    asim_buf text;
    size_t start; /* of the next line */
    uint64_t number;
    bool end; /* of the input */
} lines;

/* The next line without its end; text NULL: there is none. */
static asim_code next_line(lines *l, field *ret_line, asim_err *err)
{
    for (size_t looked = l->start;;) {
        const char *from = (const char *)l->text.bytes + l->start;
        const char *newline =
            looked < l->text.length ? memchr(l->text.bytes + looked, '\n', l->text.length - looked) : NULL;
        size_t length = newline ? (size_t)(newline - from) : l->text.length - l->start;
        if (length > LINE_MAX_BYTES)
            return asim_fail(err, ASIM_E_INPUT, "longer than %d bytes", LINE_MAX_BYTES);
        if (newline || l->end) {
            bool none = !newline && length == 0;
            l->start += length + (newline != NULL);
            l->number += !none;
            if (length && from[length - 1] == '\r')
                length--;
            *ret_line = (field){none ? NULL : from, length};
            return ASIM_OK;
        }
        if (l->start)
            memmove(l->text.bytes, l->text.bytes + l->start, length);
        l->start = 0;
        l->text.length = looked = length;
        size_t got = 0;
        asim_code code = asim_buf_reserve(&l->text, PORTION, err);
        if (!code)
            code = l->input->read(l->input->ctx, l->text.bytes + length, PORTION, &got, err);
        if (code)
            return code;
        l->text.length += got;
        l->end = got == 0;
    }
}

static field without_mark(field line)
{
    const bool marked = line.length >= 3 && memcmp(line.text, "\xEF\xBB\xBF", 3) == 0;
    return marked ? (field){line.text + 3, line.length - 3} : line;
}

asim_code asim_buffers_read(const asim_input *input, const asim_hostmem *mem, asim_buffer_list *ret_list,
                            asim_err *err)
{
    lines l = {.input = input};
    field line;
    head columns = {.count = 0};
    *ret_list = (asim_buffer_list){.mem = mem};
    asim_buf_init(&l.text, mem);
    asim_code code = next_line(&l, &line, err);
    if (!code)
        code = line.text ? read_head(without_mark(line), &columns, err)
                         : asim_fail(err, ASIM_E_INPUT, "the line that names the columns is missing");
    while (!code && !(code = next_line(&l, &line, err)) && line.text)
        if (line.length)
            code = read_row(ret_list, &columns, line, err);
    if (code == ASIM_E_INPUT && err) {
        asim_err_context(err, "line %" PRIu64, l.number ? l.number : 1);
        err->position = l.number ? l.number : 1;
    }
    asim_buf_fini(&l.text);
    return code;
}

void asim_buffers_fini(asim_buffer_list *list)
{
    if (list->mem)
        asim_mem_free(list->mem, list->rows, list->capacity, sizeof *list->rows);
    *list = (asim_buffer_list){.mem = list->mem};
}

/* --- events ------------------------------------------------------------------------------------------------
 */

typedef struct moment {
    uint64_t time;
    uint32_t row;
} moment;

static int compare_moments(const void *a, const void *b)
{
    const moment *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static asim_code note(const asim_sink *sink, bool wanted, const char *text, asim_err *err)
{
    return wanted ? sink->ops->note(sink->ctx, text, err) : ASIM_OK;
}

static asim_code begin(const asim_buffer_list *list, const asim_sink *sink, uint16_t *ret_lane, asim_err *err)
{
    uint32_t device, lane = 0;
    asim_code code = sink->ops->source(sink->ctx, asim_importer_buffers.name, err);
    if (!code)
        code = sink->ops->device(sink->ctx, &(asim_trace_device){ASIM_NO_INDEX, 0}, &device, err);
    if (!code)
        code = sink->ops->lane(sink->ctx, &(asim_lane){0}, &lane, err);
    if (!code)
        code = note(sink, true,
                    "Names of buffers are not kept; times are the file's own, shown as nanoseconds.", err);
    if (!code)
        code = note(sink, list->has_alignments, "Alignments of buffers are not kept.", err);
    if (!code)
        code = note(sink, list->has_offsets, "Offsets, the packing that the file holds, are not kept.", err);
    if (!code)
        code = note(
            sink, list->has_gaps,
            "Gaps inside lifetimes are not kept: each buffer lives from its first to its last moment.", err);
    *ret_lane = (uint16_t)lane;
    return code;
}

static asim_code emit(const asim_buffer_list *list, const moment *begins, const moment *ends,
                      const asim_sink *sink, const asim_hostmem *mem, asim_err *err)
{
    asim_slots slots;
    asim_sink_event event = {.recorded_address = ASIM_NO_ADDRESS, .stack = ASIM_NO_INDEX};
    asim_code code = begin(list, sink, &event.event.lane, err);
    asim_slots_init(&slots, mem);
    for (size_t b = 0, e = 0; e < list->count && !code;) {
        const bool frees = b == list->count || ends[e].time <= begins[b].time;
        const moment *now = frees ? &ends[e++] : &begins[b++];
        event.event.kind = frees ? ASIM_EV_FREE : ASIM_EV_ALLOC;
        event.event.size = frees ? 0 : list->rows[now->row].size;
        event.time_ns = now->time;
        if (frees)
            asim_slots_close(&slots, now->row, &event.event.id);
        else
            code = asim_slots_open(&slots, now->row, &event.event.id, err);
        if (!code)
            code = sink->ops->event(sink->ctx, &event, err);
    }
    asim_slots_fini(&slots);
    return code;
}

static asim_code import(const asim_input *input, const asim_sink *sink, const asim_hostmem *mem,
                        asim_err *err)
{
    asim_buffer_list list;
    moment *moments = NULL;
    asim_code code = asim_buffers_read(input, mem, &list, err);
    const size_t count = list.count;
    if (!code && count && !(moments = asim_mem_new(mem, 2 * count, sizeof *moments)))
        code = asim_fail_memory(err, 2 * count * sizeof *moments);
    if (!code && count) {
        for (size_t i = 0; i < count; i++) {
            moments[i] = (moment){list.rows[i].lower, (uint32_t)i};
            moments[count + i] = (moment){list.rows[i].upper, (uint32_t)i};
        }
        qsort(moments, count, sizeof *moments, compare_moments);
        qsort(moments + count, count, sizeof *moments, compare_moments);
    }
    if (!code)
        code = emit(&list, moments, moments ? moments + count : NULL, sink, mem, err);
    asim_mem_free(mem, moments, 2 * count, sizeof *moments);
    asim_buffers_fini(&list);
    return code;
}

/* Ours if the first line names at least our four columns. */
static int probe(const uint8_t *bytes, size_t length)
{
    const uint8_t *newline = length ? memchr(bytes, '\n', length) : NULL;
    field line = {(const char *)bytes, newline ? (size_t)(newline - bytes) : length};
    head columns;
    line = without_mark(line);
    if (line.length && line.text[line.length - 1] == '\r')
        line.length--;
    return line.length && !read_head(line, &columns, NULL) ? 60 : 0;
}

const asim_importer asim_importer_buffers = {
    .name = "minimalloc-csv",
    .summary = "lifetimes of buffers, as MiniMalloc and TelaMalloc read them",
    .probe = probe,
    .import = import,
};
