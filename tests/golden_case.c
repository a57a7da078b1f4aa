#include "tests/golden_case.h"

#include "tests/golden_reader.h"

#include <stdio.h>

#define CAPACITY_LIMIT (UINT64_C(1) << 50) /* bytes of a device */

asim_code golden_reader_open(const char *path, golden_reader **ret_reader, asim_err *err)
{
    golden_reader *reader = asim_mem_new(asim_hostmem_libc(), 1, sizeof *reader);
    if (!reader)
        return asim_fail_memory(err, sizeof *reader);
    asim_idmap_init(&reader->slots, asim_hostmem_libc());
    asim_code code = golden_input_open(path, &reader->input, err);
    if (code)
        golden_reader_close(reader);
    else
        *ret_reader = reader;
    return code;
}

void golden_reader_close(golden_reader *reader)
{
    if (!reader)
        return;
    const asim_hostmem *mem = asim_hostmem_libc();
    golden_input_close(reader->input);
    golden_text_fini(&reader->c.text);
    asim_idmap_fini(&reader->slots);
    asim_mem_free(mem, reader->live, reader->live_capacity, sizeof *reader->live);
    asim_mem_free(mem, reader->c.ops, reader->c.op_capacity, sizeof *reader->c.ops);
    asim_mem_free(mem, reader->c.strings, reader->c.string_capacity, sizeof *reader->c.strings);
    asim_mem_free(mem, reader, 1, sizeof *reader);
}

asim_code golden_bad_line(const golden_reader *reader, asim_err *err, const char *what, const char *line)
{
    return asim_fail(err, ASIM_E_INPUT, "line %llu: %s, found \"%.80s\"",
                     (unsigned long long)golden_input_line_number(reader->input), what, line);
}

/* The next line, which must exist; *ret_offset is where it begins in the text. */
static asim_code next_line(golden_reader *reader, size_t *ret_offset, asim_err *err)
{
    bool end;
    *ret_offset = reader->c.text.length;
    asim_code code = golden_input_line(reader->input, &reader->c.text, GOLDEN_CASE_MAX, &end, err);
    if (!code && end)
        return asim_fail(err, ASIM_E_INPUT, "line %llu: the file ends inside case \"%.80s\"",
                         (unsigned long long)golden_input_line_number(reader->input) + 1,
                         golden_at(&reader->c, 0) + strlen("case "));
    return code;
}

/* A line "KEYWORD REST"; *ret_offset is where REST begins. */
static asim_code keyword_line(golden_reader *reader, const char *keyword, size_t *ret_offset, asim_err *err)
{
    asim_code code = next_line(reader, ret_offset, err);
    if (code)
        return code;
    const char *line = golden_at(&reader->c, *ret_offset);
    size_t length = strlen(keyword);
    if (strncmp(line, keyword, length) || line[length] != ' ') {
        char what[64];
        snprintf(what, sizeof what, "expected a line \"%s ...\"", keyword);
        return golden_bad_line(reader, err, what, line);
    }
    *ret_offset += length + 1;
    return ASIM_OK;
}

static asim_code read_capacities(golden_reader *reader, asim_err *err)
{
    golden_case *c = &reader->c;
    size_t offset;
    asim_code code = keyword_line(reader, "capacity", &offset, err);
    if (code)
        return code;
    const char *text = golden_at(c, offset);
    do {
        if (c->device_count == GOLDEN_DEVICES ||
            !golden_scan_number(&text, CAPACITY_LIMIT, &c->capacities[c->device_count]))
            return golden_bad_line(reader, err, "expected 1 to 8 device capacities of at most 2^50 bytes",
                                   golden_at(c, offset));
        c->device_count++;
    } while (golden_scan_space(&text));
    return *text ? golden_bad_line(reader, err, "expected nothing after the capacities", text) : ASIM_OK;
}

static asim_code read_head(golden_reader *reader, uint64_t *ret_ops, size_t *ret_conf, asim_err *err)
{
    golden_case *c = &reader->c;
    size_t offset;
    asim_code code;
    if ((code = keyword_line(reader, "conf", ret_conf, err)) || (code = read_capacities(reader, err)) ||
        (code = keyword_line(reader, "fraction", &offset, err)))
        return code;
    const char *text = golden_at(c, offset);
    c->has_fraction = strcmp(text, "-") != 0;
    if (c->has_fraction && (!golden_scan_fraction(&text, &c->fraction) || *text))
        return golden_bad_line(reader, err, "expected a fraction from 0 to 1, or -", golden_at(c, offset));
    if ((code = keyword_line(reader, "ops", &offset, err)))
        return code;
    text = golden_at(c, offset);
    if (!golden_scan_number(&text, UINT32_MAX, ret_ops) || *text)
        return golden_bad_line(reader, err, "expected the number of operations", golden_at(c, offset));
    return ASIM_OK;
}

static unsigned field_count(const char *line)
{
    unsigned count = 0;
    for (; *line; line++)
        count += *line == ' ';
    return count;
}

/* A "G" line tells the format. */
static asim_code map_line(golden_reader *reader, size_t offset, asim_err *err)
{
    const char *line = golden_at(&reader->c, offset);
    unsigned fields = field_count(line);
    if (line[0] == 'G' && line[1] == ' ') {
        if (fields != 8 && fields != 10 && fields != 11)
            return golden_bad_line(reader, err, "expected 8, 10 or 11 fields of a segment", line);
        reader->c.format = fields == 8 ? GOLDEN_RELEASE_1_13 : fields == 10 ? GOLDEN_BASE : GOLDEN_EXTENDED;
        return ASIM_OK;
    }
    if (line[0] == 'B' && line[1] == ' ' && (fields == 3 || fields == 4))
        return ASIM_OK;
    return golden_bad_line(reader, err, "expected a line of a memory map, G or B", line);
}

/* "M K" and K lines. */
static asim_code read_map(golden_reader *reader, golden_op *op, asim_err *err)
{
    const char *text = golden_at(&reader->c, op->expected);
    if (text[0] != 'M' || (text++, !golden_scan_space(&text)) ||
        !golden_scan_number(&text, UINT32_MAX, &op->size) || *text)
        return golden_bad_line(reader, err, "expected M and the number of lines",
                               golden_at(&reader->c, op->expected));
    for (uint64_t i = 0; i < op->size; i++) {
        size_t offset;
        asim_code code;
        if ((code = next_line(reader, &offset, err)) || (code = map_line(reader, offset, err)))
            return code;
    }
    return ASIM_OK;
}

static asim_code read_op(golden_reader *reader, asim_err *err)
{
    golden_case *c = &reader->c;
    golden_op op = {0};
    asim_code code = next_line(reader, &op.text, err);
    if (code)
        return code;
    char *tab = strchr(c->text.bytes + op.text, '\t');
    if (!tab)
        return golden_bad_line(reader, err, "expected an operation, a tab and a result",
                               golden_at(c, op.text));
    *tab = 0;
    op.expected = (size_t)(tab + 1 - c->text.bytes);
    if ((code = golden_parse_op(reader, &op, err)) ||
        (op.kind == GOLDEN_MAP && (code = read_map(reader, &op, err))))
        return code;
    void *memory = c->ops;
    code = asim_mem_grow(asim_hostmem_libc(), &memory, &c->op_capacity, c->op_count + 1, sizeof *c->ops, err);
    if (code)
        return code;
    c->ops = memory;
    c->ops[c->op_count++] = op;
    return ASIM_OK;
}

/* Q, G and B, D: once for each device. */
static asim_code read_ends(golden_reader *reader, asim_err *err)
{
    golden_case *c = &reader->c;
    for (uint32_t device = 0; device < c->device_count; device++) {
        golden_end *end = &c->ends[device];
        asim_code code = keyword_line(reader, "Q", &end->statistics, err);
        if (code)
            return code;
        end->statistics -= 2;
        c->statistics = field_count(golden_at(c, end->statistics));
        if (c->statistics == GOLDEN_STATISTICS_1_13)
            c->format = GOLDEN_RELEASE_1_13;
        end->map = c->text.length;
        for (;; end->map_lines++) {
            size_t offset;
            if ((code = next_line(reader, &offset, err)))
                return code;
            if (golden_at(c, offset)[0] == 'D') {
                end->counts = offset;
                break;
            }
            if ((code = map_line(reader, offset, err)))
                return code;
        }
    }
    return ASIM_OK;
}

static void reset(golden_reader *reader)
{
    golden_case *c = &reader->c;
    c->text.length = c->op_count = c->string_count = 0;
    c->device_count = c->slot_count = 0;
    c->has_fraction = c->has_pools = false;
    c->format = GOLDEN_BASE;
    memset(c->ends, 0, sizeof c->ends);
    memset(reader->devices, 0, sizeof reader->devices);
    for (unsigned i = 0; i < GOLDEN_DEVICES; i++) {
        memset(reader->devices[i].capture, GOLDEN_NO_POOL, GOLDEN_STREAMS);
        memset(reader->devices[i].captured, GOLDEN_NO_POOL, GOLDEN_STREAMS);
    }
    asim_idmap_reset(&reader->slots);
    reader->device = 0;
}

asim_code golden_reader_next(golden_reader *reader, const golden_case **ret_case, asim_err *err)
{
    golden_case *c = &reader->c;
    reset(reader);
    bool end;
    asim_code code = golden_input_line(reader->input, &c->text, GOLDEN_CASE_MAX, &end, err);
    if (code)
        return code;
    if (end) {
        *ret_case = NULL;
        return ASIM_OK;
    }
    static const char keyword[] = "case ";
    if (strncmp(golden_at(c, 0), keyword, strlen(keyword)))
        return golden_bad_line(reader, err, "expected a line \"case NAME\"", golden_at(c, 0));
    uint64_t ops;
    size_t conf, offset;
    if ((code = read_head(reader, &ops, &conf, err)))
        return code;
    for (uint64_t i = 0; i < ops; i++)
        if ((code = read_op(reader, err)))
            return code;
    if ((code = read_ends(reader, err)) || (code = next_line(reader, &offset, err)))
        return code;
    if (strcmp(golden_at(c, offset), "end"))
        return golden_bad_line(reader, err, "expected the line \"end\"", golden_at(c, offset));
    c->name = golden_at(c, strlen(keyword));
    c->conf = golden_at(c, conf);
    *ret_case = c;
    return ASIM_OK;
}
