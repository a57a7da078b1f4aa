#include "traces/table_code.h"

#include "traces/zframe.h"

#include <inttypes.h>

enum {
    CHUNK_TEXT = 1 << 20,  /* bytes of strings in one frame; the last string may pass it */
    CHUNK_ITEMS = 1 << 16, /* frames, stack lines, notes; the last stack may pass it */
};

/* A reference that may be absent: 0, otherwise one more. */
static uint64_t plus_one(uint32_t index)
{
    return index == ASIM_NO_INDEX ? 0 : (uint64_t)index + 1;
}

static void start(asim_buf *columns)
{
    for (unsigned i = 0; i < ASIM_SECTIONS_MAX; i++)
        asim_buf_reset(&columns[i]);
}

static asim_code finish(asim_buf *columns, unsigned end, asim_buf *content, asim_err *err)
{
    asim_code code = ASIM_OK;
    for (unsigned i = 1; !code && i < end; i++)
        code = asim_put_section(content, (uint8_t)i, &columns[i], err);
    return code;
}

/* Room for count varints in each of the columns 1 to end - 1, so that put needs no check. */
static asim_code reserve(asim_buf *columns, unsigned end, size_t count, asim_err *err)
{
    asim_code code = ASIM_OK;
    for (unsigned i = 1; !code && i < end; i++)
        code = asim_buf_reserve(&columns[i], count * ASIM_VARINT_MAX, err);
    return code;
}

static void put(asim_buf *column, uint64_t value)
{
    column->length = (size_t)(asim_put_varint(column->bytes + column->length, value) - column->bytes);
}

bool asim_tables_pending(const asim_tables *tables, const asim_table_mark *mark, bool last)
{
    return mark->strings < tables->string_count || mark->stacks < tables->stack_count ||
           mark->devices < tables->device_count || mark->lanes < tables->lane_count ||
           mark->notes < tables->note_count || (last && !mark->facts);
}

static asim_code encode_strings(const asim_tables *tables, asim_table_mark *mark, asim_buf *columns,
                                asim_err *err)
{
    asim_code code = ASIM_OK;
    while (!code && mark->strings < tables->string_count && columns[ASIM_T_STRING_TEXT].length < CHUNK_TEXT &&
           columns[ASIM_T_STRING_LENGTHS].length < CHUNK_TEXT) {
        const asim_string *string = &tables->strings[mark->strings++];
        code = asim_buf_varint(&columns[ASIM_T_STRING_LENGTHS], string->length, err);
        if (!code)
            code = asim_buf_append(&columns[ASIM_T_STRING_TEXT], string->text, string->length, err);
    }
    return code;
}

/* Stacks, and the frames that they are the first to use, which come right after those used before. */
static asim_code encode_stacks(const asim_tables *tables, asim_table_mark *mark, asim_buf *columns,
                               asim_err *err)
{
    asim_code code = ASIM_OK;
    uint32_t function = 0, line = 0;
    size_t used = mark->frames;
    for (size_t lines = 0; !code && lines < CHUNK_ITEMS && mark->stacks < tables->stack_count;
         mark->stacks++) {
        const asim_stack *stack = &tables->stacks[mark->stacks];
        code = asim_buf_varint(&columns[ASIM_T_STACK_COUNTS], stack->count, err);
        for (uint32_t k = 0; !code && k < stack->count; k++) {
            uint32_t frame = tables->stack_frames[stack->first + k];
            code = asim_buf_varint(&columns[ASIM_T_STACK_FRAMES], frame, err);
            if (frame >= used)
                used = (size_t)frame + 1;
        }
        lines += (size_t)stack->count + 1;
    }
    for (; !code && mark->frames < used; mark->frames++) {
        const asim_frame *frame = &tables->frames[mark->frames];
        code = asim_buf_varint(&columns[ASIM_T_FRAME_FUNCTIONS],
                               asim_zigzag((int64_t)frame->function - function), err);
        if (!code)
            code = asim_buf_varint(&columns[ASIM_T_FRAME_FILES], frame->file, err);
        if (!code)
            code =
                asim_buf_varint(&columns[ASIM_T_FRAME_LINES], asim_zigzag((int64_t)frame->line - line), err);
        function = frame->function;
        line = frame->line;
    }
    return code;
}

static asim_code encode_rest(const asim_tables *tables, asim_table_mark *mark, bool last, asim_buf *columns,
                             asim_err *err)
{
    size_t devices = tables->device_count - mark->devices, lanes = tables->lane_count - mark->lanes;
    size_t notes = tables->note_count - mark->notes;
    if (notes > CHUNK_ITEMS)
        notes = CHUNK_ITEMS;
    asim_code code = asim_buf_reserve(&columns[ASIM_T_DEVICES], 2 * devices * ASIM_VARINT_MAX, err);
    if (!code)
        code = asim_buf_reserve(&columns[ASIM_T_LANES], 3 * lanes * ASIM_VARINT_MAX, err);
    if (!code)
        code = asim_buf_reserve(&columns[ASIM_T_NOTES], notes * ASIM_VARINT_MAX, err);
    if (!code)
        code = asim_buf_reserve(&columns[ASIM_T_FACTS], 3 * (size_t)ASIM_VARINT_MAX, err);
    if (code)
        return code;
    for (; mark->devices < tables->device_count; mark->devices++) {
        put(&columns[ASIM_T_DEVICES], plus_one(tables->devices[mark->devices].name));
        put(&columns[ASIM_T_DEVICES], tables->devices[mark->devices].capacity);
    }
    for (; mark->lanes < tables->lane_count; mark->lanes++) {
        const asim_lane *lane = &tables->lanes[mark->lanes];
        put(&columns[ASIM_T_LANES], lane->stream);
        put(&columns[ASIM_T_LANES], lane->device);
        put(&columns[ASIM_T_LANES], lane->pool);
    }
    for (size_t i = 0; i < notes; i++)
        put(&columns[ASIM_T_NOTES], tables->notes[mark->notes++]);
    if (last && !mark->facts && mark->notes == tables->note_count) {
        put(&columns[ASIM_T_FACTS], plus_one(tables->source));
        put(&columns[ASIM_T_FACTS], plus_one(tables->settings));
        put(&columns[ASIM_T_FACTS], tables->start_unix_ns);
        mark->facts = true;
    }
    return ASIM_OK;
}

asim_code asim_encode_tables(const asim_tables *tables, asim_table_mark *mark, bool last, asim_buf *columns,
                             asim_buf *content, asim_err *err)
{
    start(columns);
    asim_code code = encode_strings(tables, mark, columns, err);
    if (!code && mark->strings == tables->string_count)
        code = encode_stacks(tables, mark, columns, err);
    if (!code && mark->strings == tables->string_count && mark->stacks == tables->stack_count)
        code = encode_rest(tables, mark, last, columns, err);
    return code ? code : finish(columns, ASIM_T_END, content, err);
}

static asim_code damaged(const char *what, asim_err *err)
{
    return asim_fail(err, ASIM_E_INPUT, "its %s are damaged", what);
}

static bool take_u32(asim_bytes *in, uint32_t *ret_value)
{
    uint64_t value;
    if (!asim_take_varint(in, &value) || value > UINT32_MAX)
        return false;
    *ret_value = (uint32_t)value;
    return true;
}

static bool take_optional(asim_bytes *in, uint32_t *ret_index)
{
    uint64_t value;
    if (!asim_take_varint(in, &value) || value > UINT32_MAX)
        return false;
    *ret_index = value ? (uint32_t)(value - 1) : ASIM_NO_INDEX;
    return true;
}

static bool take_delta(asim_bytes *in, uint32_t *value)
{
    uint64_t delta;
    if (!asim_take_varint(in, &delta))
        return false;
    uint64_t sum = *value + (uint64_t)asim_unzigzag(delta);
    if (sum > UINT32_MAX)
        return false;
    *value = (uint32_t)sum;
    return true;
}

static bool used_up(const asim_bytes *sections, unsigned end)
{
    for (unsigned i = 1; i < end; i++)
        if (sections[i].next != sections[i].end)
            return false;
    return true;
}

static asim_code decode_strings(asim_bytes *sections, asim_tables *tables, asim_err *err)
{
    asim_bytes *lengths = &sections[ASIM_T_STRING_LENGTHS];
    while (lengths->next < lengths->end) {
        uint64_t length;
        asim_bytes text;
        uint32_t index;
        if (!asim_take_varint(lengths, &length) || length > ASIM_STRING_MAX ||
            !asim_take_bytes(&sections[ASIM_T_STRING_TEXT], length, &text) ||
            asim_utf8_prefix((const char *)text.next, (size_t)length) < length)
            return damaged("strings", err);
        size_t before = tables->string_count;
        asim_code code = asim_tables_string(tables, (const char *)text.next, (size_t)length, &index, err);
        if (code)
            return code;
        if (index != before)
            return asim_fail(err, ASIM_E_INPUT, "a string is there twice");
    }
    return ASIM_OK;
}

/* The frames of the file so far, in *frames, must be numbered in the order in which stacks use them. */
static asim_code decode_stacks(asim_bytes *sections, asim_tables *tables, asim_frame *frames,
                               size_t frame_count, asim_err *err)
{
    asim_bytes *counts = &sections[ASIM_T_STACK_COUNTS];
    size_t base = tables->frame_count;
    while (counts->next < counts->end) {
        uint32_t count, index;
        if (!take_u32(counts, &count) || count > ASIM_STACK_MAX)
            return damaged("stacks", err);
        asim_frame lines[64], *all = lines;
        size_t capacity = 0;
        asim_code code = ASIM_OK;
        if (count > 64) {
            if (count > asim_bytes_left(&sections[ASIM_T_STACK_FRAMES]))
                return damaged("stacks", err);
            all = NULL;
            code = asim_mem_grow(tables->mem, (void **)&all, &capacity, count, sizeof *all, err);
        }
        size_t known = tables->frame_count;
        for (uint32_t k = 0; !code && k < count; k++) {
            uint32_t frame = 0;
            if (!take_u32(&sections[ASIM_T_STACK_FRAMES], &frame) || frame > known ||
                frame >= base + frame_count)
                code = damaged("stacks", err);
            else
                all[k] = frame < base ? tables->frames[frame] : frames[frame - base];
            known += !code && frame == known;
        }
        size_t before = tables->stack_count;
        if (!code)
            code = asim_tables_stack(tables, all, count, &index, err);
        if (!code && (index != before || tables->frame_count != known))
            code = asim_fail(err, ASIM_E_INPUT, "a stack or one of its frames is there twice");
        asim_mem_free(tables->mem, capacity ? all : NULL, capacity, sizeof *all);
        if (code)
            return code;
    }
    if (tables->frame_count != base + frame_count)
        return asim_fail(err, ASIM_E_INPUT, "it holds frames that no stack of it uses");
    return ASIM_OK;
}

static asim_code decode_frames(asim_bytes *sections, asim_tables *tables, const asim_hostmem *mem,
                               asim_err *err)
{
    asim_frame *frames = NULL;
    size_t capacity = 0, count = 0;
    uint32_t function = 0, file = 0, line = 0;
    asim_code code = ASIM_OK;
    while (!code && sections[ASIM_T_FRAME_FILES].next < sections[ASIM_T_FRAME_FILES].end) {
        if (!take_delta(&sections[ASIM_T_FRAME_FUNCTIONS], &function) ||
            !take_u32(&sections[ASIM_T_FRAME_FILES], &file) ||
            !take_delta(&sections[ASIM_T_FRAME_LINES], &line))
            code = damaged("frames", err);
        else
            code = asim_mem_grow(mem, (void **)&frames, &capacity, count + 1, sizeof *frames, err);
        if (!code)
            frames[count++] = (asim_frame){function, file, line};
    }
    if (!code)
        code = decode_stacks(sections, tables, frames, count, err);
    asim_mem_free(mem, frames, capacity, sizeof *frames);
    return code;
}

static asim_code decode_devices(asim_bytes *sections, asim_tables *tables, asim_err *err)
{
    asim_bytes *in = &sections[ASIM_T_DEVICES];
    uint32_t index;
    asim_code code = ASIM_OK;
    while (!code && in->next < in->end) {
        asim_trace_device device = {0};
        if (!take_optional(in, &device.name) || !asim_take_varint(in, &device.capacity))
            return damaged("devices", err);
        code = asim_tables_device(tables, &device, &index, err);
    }
    in = &sections[ASIM_T_LANES];
    while (!code && in->next < in->end) {
        uint64_t stream;
        uint32_t device, pool;
        if (!asim_take_varint(in, &stream) || !take_u32(in, &device) || !take_u32(in, &pool) ||
            device >= ASIM_DEVICES_MAX || pool > UINT16_MAX)
            return damaged("lanes", err);
        asim_lane lane = {.stream = stream, .device = (uint16_t)device, .pool = (uint16_t)pool};
        size_t before = tables->lane_count;
        code = asim_tables_lane(tables, &lane, &index, err);
        if (!code && index != before)
            code = asim_fail(err, ASIM_E_INPUT, "a lane is there twice");
    }
    return code;
}

static asim_code decode_facts(asim_bytes *sections, asim_tables *tables, asim_err *err)
{
    asim_bytes *in = &sections[ASIM_T_NOTES];
    while (in->next < in->end) {
        uint32_t note;
        if (!take_u32(in, &note) || note >= tables->string_count)
            return damaged("notes", err);
        asim_code code = asim_mem_grow(tables->mem, (void **)&tables->notes, &tables->note_capacity,
                                       tables->note_count + 1, sizeof *tables->notes, err);
        if (code)
            return code;
        tables->notes[tables->note_count++] = note;
    }
    in = &sections[ASIM_T_FACTS];
    if (in->next == in->end)
        return ASIM_OK;
    if (!take_optional(in, &tables->source) || !take_optional(in, &tables->settings) ||
        !asim_take_varint(in, &tables->start_unix_ns) ||
        (tables->source != ASIM_NO_INDEX && tables->source >= tables->string_count) ||
        (tables->settings != ASIM_NO_INDEX && tables->settings >= tables->string_count))
        return damaged("facts", err);
    return ASIM_OK;
}

asim_code asim_decode_tables(const asim_bytes given[ASIM_SECTIONS_MAX], asim_tables *tables,
                             const asim_hostmem *mem, asim_err *err)
{
    asim_bytes sections[ASIM_SECTIONS_MAX];
    memcpy(sections, given, sizeof sections);
    asim_code code = decode_strings(sections, tables, err);
    if (!code)
        code = decode_frames(sections, tables, mem, err);
    if (!code)
        code = decode_devices(sections, tables, err);
    if (!code)
        code = decode_facts(sections, tables, err);
    if (!code && !used_up(sections, ASIM_T_END))
        code = asim_fail(err, ASIM_E_INPUT, "its tables have more of one part than of another");
    return code;
}

asim_code asim_encode_segments(const asim_opening_segment *segments, size_t count, asim_buf *columns,
                               asim_buf *content, asim_err *err)
{
    start(columns);
    asim_code code = reserve(columns, ASIM_S_END, count, err);
    uint64_t end = 0;
    for (size_t i = 0; !code && i < count; i++) {
        const asim_opening_segment *s = &segments[i];
        put(&columns[ASIM_S_LANES], s->lane);
        put(&columns[ASIM_S_FLAGS], (uint64_t)s->expandable | (uint64_t)s->small << 1);
        put(&columns[ASIM_S_ADDRESSES], asim_zigzag((int64_t)(s->address - end)));
        put(&columns[ASIM_S_SIZES], s->size);
        put(&columns[ASIM_S_BLOCK_COUNTS], s->block_count);
        put(&columns[ASIM_S_STACKS], plus_one(s->stack));
        end = s->address + s->size;
    }
    return code ? code : finish(columns, ASIM_S_END, content, err);
}

asim_code asim_decode_segments(const asim_bytes given[ASIM_SECTIONS_MAX], size_t count, asim_body *body,
                               asim_err *err)
{
    asim_bytes in[ASIM_SECTIONS_MAX];
    memcpy(in, given, sizeof in);
    uint64_t end = 0, delta, first = 0;
    if (body->segment_count) {
        const asim_opening_segment *last = &body->segments[body->segment_count - 1];
        first = (uint64_t)last->first_block + last->block_count;
    }
    for (size_t i = 0; i < count; i++) {
        asim_opening_segment s = {0};
        uint32_t lane, flags;
        if (!take_u32(&in[ASIM_S_LANES], &lane) || lane > UINT16_MAX ||
            !take_u32(&in[ASIM_S_FLAGS], &flags) || flags > 3 ||
            !asim_take_varint(&in[ASIM_S_ADDRESSES], &delta) ||
            !asim_take_varint(&in[ASIM_S_SIZES], &s.size) ||
            !take_u32(&in[ASIM_S_BLOCK_COUNTS], &s.block_count) ||
            !take_optional(&in[ASIM_S_STACKS], &s.stack) || first + s.block_count >= ASIM_NO_INDEX)
            return damaged("segments", err);
        s.lane = (uint16_t)lane;
        s.expandable = flags & 1;
        s.small = (uint8_t)(flags >> 1);
        s.address = end + (uint64_t)asim_unzigzag(delta);
        s.first_block = (uint32_t)first;
        first += s.block_count;
        end = s.address + s.size;
        asim_code code = asim_body_segment(body, &s, err);
        if (code)
            return code;
    }
    return used_up(in, ASIM_S_END) ? ASIM_OK : damaged("segments", err);
}

asim_code asim_encode_blocks(const asim_opening_block *blocks, size_t count, asim_buf *columns,
                             asim_buf *content, asim_err *err)
{
    start(columns);
    asim_code code = reserve(columns, ASIM_B_END, count, err);
    uint32_t id = UINT32_MAX;
    for (size_t i = 0; !code && i < count; i++) {
        const asim_opening_block *b = &blocks[i];
        put(&columns[ASIM_B_STATES], b->state);
        put(&columns[ASIM_B_SIZES], b->size);
        /* The difference is negative where a free block remembers a larger request (R2). */
        put(&columns[ASIM_B_REQUESTED],
            b->requested ? asim_zigzag((int64_t)(b->size - b->requested)) + 1 : 0);
        if (b->state != ASIM_BLOCK_FREE) {
            put(&columns[ASIM_B_IDS], asim_zigzag((int32_t)(b->id - id - 1)));
            id = b->id;
        }
        put(&columns[ASIM_B_STACKS], plus_one(b->stack));
    }
    return code ? code : finish(columns, ASIM_B_END, content, err);
}

asim_code asim_decode_blocks(const asim_bytes given[ASIM_SECTIONS_MAX], size_t count, asim_body *body,
                             asim_err *err)
{
    asim_bytes in[ASIM_SECTIONS_MAX];
    memcpy(in, given, sizeof in);
    uint32_t id = UINT32_MAX;
    for (size_t i = 0; i < count; i++) {
        asim_opening_block b = {.id = ASIM_NO_INDEX};
        uint64_t unused, delta;
        uint32_t state;
        if (!take_u32(&in[ASIM_B_STATES], &state) || state > ASIM_BLOCK_PENDING ||
            !asim_take_varint(&in[ASIM_B_SIZES], &b.size) ||
            !asim_take_varint(&in[ASIM_B_REQUESTED], &unused) || !take_optional(&in[ASIM_B_STACKS], &b.stack))
            return damaged("blocks", err);
        b.state = (uint8_t)state;
        b.requested = unused ? b.size - (uint64_t)asim_unzigzag(unused - 1) : 0;
        if (b.requested > INT64_MAX || (unused && b.requested == 0))
            return damaged("blocks", err);
        if (state != ASIM_BLOCK_FREE) {
            if (!asim_take_varint(&in[ASIM_B_IDS], &delta) || delta > UINT32_MAX)
                return damaged("blocks", err);
            id += 1 + (uint32_t)asim_unzigzag(delta);
            b.id = id;
        }
        asim_code code = asim_body_block(body, &b, err);
        if (code)
            return code;
    }
    return used_up(in, ASIM_B_END) ? ASIM_OK : damaged("blocks", err);
}

asim_code asim_encode_calls(const asim_recorded_call *calls, size_t count, asim_buf *columns,
                            asim_buf *content, asim_err *err)
{
    start(columns);
    asim_code code = reserve(columns, ASIM_C_END, count, err);
    uint64_t event = 0, end = 0;
    for (size_t i = 0; !code && i < count; i++) {
        const asim_recorded_call *c = &calls[i];
        put(&columns[ASIM_C_EVENTS], c->event - event);
        put(&columns[ASIM_C_KINDS], c->kind);
        put(&columns[ASIM_C_LANES], c->lane);
        put(&columns[ASIM_C_ADDRESSES], asim_zigzag((int64_t)(c->address - end)));
        put(&columns[ASIM_C_SIZES], c->size);
        event = c->event;
        end = c->address + c->size;
    }
    return code ? code : finish(columns, ASIM_C_END, content, err);
}

asim_code asim_decode_calls(const asim_bytes given[ASIM_SECTIONS_MAX], size_t count, asim_body *body,
                            asim_err *err)
{
    asim_bytes in[ASIM_SECTIONS_MAX];
    memcpy(in, given, sizeof in);
    uint64_t event = 0, end = 0, delta;
    for (size_t i = 0; i < count; i++) {
        asim_recorded_call c = {0};
        uint32_t kind, lane;
        if (!asim_take_varint(&in[ASIM_C_EVENTS], &delta) || __builtin_add_overflow(event, delta, &event) ||
            !take_u32(&in[ASIM_C_KINDS], &kind) || kind > UINT8_MAX || !take_u32(&in[ASIM_C_LANES], &lane) ||
            lane > UINT16_MAX || !asim_take_varint(&in[ASIM_C_ADDRESSES], &delta) ||
            !asim_take_varint(&in[ASIM_C_SIZES], &c.size))
            return damaged("recorded calls", err);
        c.event = event;
        c.kind = (uint8_t)kind;
        c.lane = (uint16_t)lane;
        c.address = end + (uint64_t)asim_unzigzag(delta);
        end = c.address + c.size;
        asim_code code = asim_body_call(body, &c, err);
        if (code)
            return code;
    }
    return used_up(in, ASIM_C_END) ? ASIM_OK : damaged("recorded calls", err);
}

asim_code asim_encode_index(const asim_frame_entry *entries, size_t count, asim_buf *columns,
                            asim_buf *content, asim_err *err)
{
    start(columns);
    asim_code code = reserve(columns, ASIM_I_END, count, err);
    for (size_t i = 0; !code && i < count; i++) {
        put(&columns[ASIM_I_TYPES], entries[i].type);
        put(&columns[ASIM_I_LENGTHS], entries[i].length);
        put(&columns[ASIM_I_CONTENTS], entries[i].content);
        put(&columns[ASIM_I_COUNTS], entries[i].count);
        if (entries[i].type == ASIM_FRAME_CALLS)
            put(&columns[ASIM_I_FIRSTS], entries[i].first);
    }
    return code ? code : finish(columns, ASIM_I_END, content, err);
}

asim_code asim_decode_index(const asim_bytes given[ASIM_SECTIONS_MAX], uint64_t offset,
                            asim_frame_entry *entries, size_t count, asim_err *err)
{
    asim_bytes in[ASIM_SECTIONS_MAX];
    memcpy(in, given, sizeof in);
    uint64_t events = 0;
    for (size_t i = 0; i < count; i++) {
        asim_frame_entry e = {.offset = offset};
        uint32_t type;
        if (!take_u32(&in[ASIM_I_TYPES], &type) || type > UINT8_MAX ||
            !asim_take_varint(&in[ASIM_I_LENGTHS], &e.length) ||
            !asim_take_varint(&in[ASIM_I_CONTENTS], &e.content) || !take_u32(&in[ASIM_I_COUNTS], &e.count) ||
            __builtin_add_overflow(offset, e.length, &offset))
            return damaged("entries", err);
        e.type = (uint8_t)type;
        if (type == ASIM_FRAME_CALLS && !asim_take_varint(&in[ASIM_I_FIRSTS], &e.first))
            return damaged("entries", err);
        if (type == ASIM_FRAME_EVENTS_TYPE) {
            e.first = events;
            events += e.count;
        }
        entries[i] = e;
    }
    return used_up(in, ASIM_I_END) ? ASIM_OK : damaged("entries", err);
}
