#include "tests/golden_reader.h"

#define SIZE_LIMIT (UINT64_C(1) << 62) /* bytes of a request */

static bool scan_byte(const char **text, uint32_t below, uint8_t *ret_number)
{
    uint64_t number;
    if (!golden_scan_space(text) || !golden_scan_number(text, below - 1, &number))
        return false;
    *ret_number = (uint8_t)number;
    return true;
}

/* " *" or " 0,2": a bit a stream. */
static bool scan_streams(const char **text, uint8_t *ret_streams)
{
    const char *p = *text;
    if (!golden_scan_space(&p))
        return false;
    uint8_t streams = 0;
    if (*p == '*') {
        p++;
    } else {
        do {
            if (*p < '0' || *p >= '0' + GOLDEN_STREAMS)
                return false;
            streams = (uint8_t)(streams | 1u << (*p++ - '0'));
        } while (*p == ',' && *++p);
    }
    *ret_streams = streams;
    *text = p;
    return true;
}

static asim_code slot_of(golden_reader *reader, uint64_t id, uint32_t *ret_slot, asim_err *err)
{
    if (asim_idmap_get(&reader->slots, id, ret_slot))
        return ASIM_OK;
    uint32_t slot = reader->c.slot_count;
    void *memory = reader->live;
    asim_code code = asim_mem_grow(asim_hostmem_libc(), &memory, &reader->live_capacity, (size_t)slot + 1,
                                   sizeof *reader->live, err);
    if (code)
        return code;
    reader->live = memory;
    if ((code = asim_idmap_put(&reader->slots, id, slot, err)))
        return code;
    reader->live[slot] = false;
    *ret_slot = reader->c.slot_count++;
    return ASIM_OK;
}

/* a, f and r: the ID, and whether it is live here, as the expected results tell. */
static asim_code block_op(golden_reader *reader, golden_op *op, const char **text, asim_err *err)
{
    const char *line = golden_at(&reader->c, op->text), *result = golden_at(&reader->c, op->expected);
    uint64_t id;
    if (!golden_scan_space(text) || !golden_scan_number(text, UINT64_MAX, &id))
        return golden_bad_line(reader, err, "expected an ID", line);
    asim_code code = slot_of(reader, id, &op->slot, err);
    if (code)
        return code;
    bool *live = &reader->live[op->slot];
    if (op->kind == GOLDEN_ALLOC) {
        if (!golden_scan_space(text) || !golden_scan_number(text, SIZE_LIMIT, &op->size))
            return golden_bad_line(reader, err, "expected a size of at most 2^62 bytes", line);
        if (*live)
            return golden_bad_line(reader, err, "this ID is live already", line);
        *live = *result == 'A';
    } else {
        if (*live != (*result != '-'))
            return golden_bad_line(reader, err,
                                   *live ? "the ID is live, so a result is expected"
                                         : "the ID is not live, so the result - is expected",
                                   line);
        if (op->kind == GOLDEN_FREE)
            *live = false;
    }
    return ASIM_OK;
}

/* RETAIN, BEGIN, CAPTURE */
static const char *begin_pool(golden_device_state *state, const golden_op *op)
{
    if (op->kind == GOLDEN_CAPTURE) {
        if (state->capture[op->stream] != GOLDEN_NO_POOL)
            return "the stream takes part in a capture already";
        state->capture[op->stream] = state->captured[op->stream] = op->pool;
    }
    if (op->kind != GOLDEN_RETAIN) {
        if (state->filling[op->pool])
            return "the pool is being filled already";
        state->filling[op->pool] = true;
    }
    state->uses[op->pool]++;
    return NULL;
}

/* END, CAPTURED */
static const char *end_pool(golden_device_state *state, golden_op *op)
{
    if (op->kind == GOLDEN_CAPTURED) {
        op->pool = state->captured[op->stream];
        if (op->pool == GOLDEN_NO_POOL)
            return "no capture was begun on the stream";
        state->captured[op->stream] = GOLDEN_NO_POOL;
        for (unsigned i = 0; i < GOLDEN_STREAMS; i++)
            if (state->capture[i] == op->pool)
                state->capture[i] = GOLDEN_NO_POOL;
    }
    if (!state->filling[op->pool])
        return "the pool is not being filled";
    state->filling[op->pool] = false;
    return NULL;
}

static const char *join_capture(golden_device_state *state, golden_op *op)
{
    if (state->capture[op->stream] != GOLDEN_NO_POOL)
        return "the stream that joins takes part in a capture already";
    op->pool = state->capture[op->pool]; /* until here the stream that is joined */
    if (op->pool == GOLDEN_NO_POOL)
        return "the first stream takes part in no capture";
    state->capture[op->stream] = op->pool;
    return NULL;
}

/* What is wrong with the operation at this point, or NULL. */
static const char *pool_op(golden_device_state *state, golden_op *op)
{
    switch (op->kind) {
    case GOLDEN_RETAIN:
    case GOLDEN_BEGIN:
    case GOLDEN_CAPTURE:
        return begin_pool(state, op);
    case GOLDEN_END:
    case GOLDEN_CAPTURED:
        return end_pool(state, op);
    case GOLDEN_JOIN:
        return join_capture(state, op);
    case GOLDEN_RELEASE:
        if (!state->uses[op->pool])
            return "the pool has no use left";
        state->uses[op->pool]--;
        return NULL;
    case GOLDEN_ENTER:
        if (state->active_count == GOLDEN_NESTED)
            return "more than 64 pools are nested";
        state->active_count++;
        return NULL;
    default: /* GOLDEN_LEAVE */
        if (!state->active_count)
            return "no pool is active";
        state->active_count--;
        return NULL;
    }
}

static asim_code add_string(golden_reader *reader, golden_op *op, const char *text, asim_err *err)
{
    golden_case *c = &reader->c;
    void *memory = c->strings;
    asim_code code = asim_mem_grow(asim_hostmem_libc(), &memory, &c->string_capacity, c->string_count + 1,
                                   sizeof *c->strings, err);
    if (code)
        return code;
    c->strings = memory;
    op->string = (uint32_t)c->string_count;
    c->strings[c->string_count++] = (size_t)(text - c->text.bytes);
    return ASIM_OK;
}

/* The names of the operations, and the fields that follow each: S a stream, s one or none, P a pool, D a
 * device, d one or none, * the streams of pb, o the stream that is asked to join. The rest has a function of
 * its own. */
static const struct {
    const char *name;
    golden_op_kind kind;
    const char *fields;
} op_table[] = {
    {"a", GOLDEN_ALLOC, "S"},    {"f", GOLDEN_FREE, ""},       {"r", GOLDEN_USE, "Sd"},
    {"e", GOLDEN_TRIM, ""},      {"s", GOLDEN_SYNC, "s"},      {"q", GOLDEN_QUERY, ""},
    {"m", GOLDEN_MAP, ""},       {"x", GOLDEN_FRACTION, ""},   {"c", GOLDEN_SETTINGS, ""},
    {"kp", GOLDEN_RESET, ""},    {"ka", GOLDEN_RESET, ""},     {"d", GOLDEN_DEVICE, "D"},
    {"pi", GOLDEN_RETAIN, "P"},  {"pb", GOLDEN_BEGIN, "P*"},   {"pe", GOLDEN_END, "P"},
    {"pr", GOLDEN_RELEASE, "P"}, {"pc", GOLDEN_ENTER, ""},     {"gb", GOLDEN_CAPTURE, "SP"},
    {"gj", GOLDEN_JOIN, "oS"},   {"ge", GOLDEN_CAPTURED, "S"},
};

static bool scan_fields(const golden_reader *reader, golden_op *op, const char *fields, const char **text)
{
    uint32_t devices = reader->c.device_count;
    for (; *fields; fields++) {
        bool there = **text == ' ', ok = true;
        switch (*fields) {
        case 's':
            op->stream = GOLDEN_STREAMS;
            ok = !there || scan_byte(text, GOLDEN_STREAMS, &op->stream);
            break;
        case 'S':
            ok = scan_byte(text, GOLDEN_STREAMS, &op->stream);
            break;
        case 'o':
            ok = scan_byte(text, GOLDEN_STREAMS, &op->pool);
            break;
        case 'P':
            ok = scan_byte(text, GOLDEN_POOLS, &op->pool);
            break;
        case 'D':
            ok = scan_byte(text, devices, &op->device);
            break;
        case 'd':
            op->device = GOLDEN_DEVICES; /* the block's own */
            ok = !there || scan_byte(text, devices, &op->device);
            break;
        default:
            ok = scan_streams(text, &op->streams);
        }
        if (!ok)
            return false;
    }
    return true;
}

asim_code golden_parse_op(golden_reader *reader, golden_op *op, asim_err *err)
{
    golden_case *c = &reader->c;
    const char *line = golden_at(c, op->text), *text = line;
    size_t length = strcspn(line, " "), i = 0, count = sizeof op_table / sizeof *op_table;
    while (i < count && (strlen(op_table[i].name) != length || memcmp(op_table[i].name, line, length)))
        i++;
    if (i == count)
        return golden_bad_line(reader, err, "unknown operation", line);
    op->kind = (uint8_t)op_table[i].kind;
    text += length;
    asim_code code = ASIM_OK;
    double fraction;
    switch (op->kind) {
    case GOLDEN_ALLOC:
    case GOLDEN_FREE:
    case GOLDEN_USE:
        code = block_op(reader, op, &text, err);
        break;
    case GOLDEN_FRACTION:
        if (!golden_scan_space(&text) || !golden_scan_fraction(&text, &fraction))
            return golden_bad_line(reader, err, "expected a fraction from 0 to 1", line);
        memcpy(&op->size, &fraction, sizeof op->size);
        break;
    case GOLDEN_SETTINGS:
        if (!golden_scan_space(&text))
            return golden_bad_line(reader, err, "expected a space and the options", line);
        return add_string(reader, op, text, err);
    case GOLDEN_RESET:
        op->slot = line[1] == 'a';
        break;
    case GOLDEN_ENTER:
        if (!strcmp(text, " -"))
            op->kind = GOLDEN_LEAVE, text += 2;
        else if (!scan_byte(&text, GOLDEN_POOLS, &op->pool))
            return golden_bad_line(reader, err, "expected a pool from 0 to 3, or -", line);
        break;
    default:
        break;
    }
    if (code)
        return code;
    if (!scan_fields(reader, op, op_table[i].fields, &text) || *text)
        return golden_bad_line(reader, err, "the operation's fields are not what they should be", line);
    if (op->kind == GOLDEN_DEVICE)
        reader->device = op->device;
    else if (op->kind >= GOLDEN_RETAIN) {
        c->has_pools = true;
        const char *wrong = pool_op(&reader->devices[reader->device], op);
        if (wrong)
            return golden_bad_line(reader, err, wrong, line);
    }
    return ASIM_OK;
}
