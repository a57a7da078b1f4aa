#include "traces/tables.h"

#include "sim/hash.h"

#include <inttypes.h>

void asim_tables_init(asim_tables *tables, const asim_hostmem *mem)
{
    *tables = (asim_tables){.mem = mem, .source = ASIM_NO_INDEX, .settings = ASIM_NO_INDEX};
    asim_buf_init(&tables->text, mem);
    asim_idmap_init(&tables->string_index, mem);
    asim_idmap_init(&tables->frame_index, mem);
    asim_idmap_init(&tables->stack_index, mem);
    asim_idmap_init(&tables->lane_index, mem);
}

void asim_tables_seal(asim_tables *tables)
{
    asim_idmap_fini(&tables->string_index);
    asim_idmap_fini(&tables->frame_index);
    asim_idmap_fini(&tables->stack_index);
    asim_idmap_fini(&tables->lane_index);
}

void asim_tables_fini(asim_tables *tables)
{
    asim_tables_seal(tables);
    asim_buf_fini(&tables->text);
    asim_mem_free(tables->mem, tables->strings, tables->string_capacity, sizeof *tables->strings);
    asim_mem_free(tables->mem, tables->frames, tables->frame_capacity, sizeof *tables->frames);
    asim_mem_free(tables->mem, tables->stack_frames, tables->stack_frame_capacity,
                  sizeof *tables->stack_frames);
    asim_mem_free(tables->mem, tables->stacks, tables->stack_capacity, sizeof *tables->stacks);
    asim_mem_free(tables->mem, tables->devices, tables->device_capacity, sizeof *tables->devices);
    asim_mem_free(tables->mem, tables->lanes, tables->lane_capacity, sizeof *tables->lanes);
    asim_mem_free(tables->mem, tables->notes, tables->note_capacity, sizeof *tables->notes);
    asim_tables_init(tables, tables->mem);
}

/* Makes room for one item more in an array of the struct above. */
#define GROW(tables, items, count, capacity, extra, err)                                                     \
    grow_items((tables)->mem, (void **)&(tables)->items, &(tables)->capacity, (tables)->count, (extra),      \
               sizeof *(tables)->items, (err))

static asim_code grow_items(const asim_hostmem *mem, void **memory, size_t *capacity, size_t count,
                            size_t extra, size_t item_size, asim_err *err)
{
    if (count + extra >= ASIM_NO_INDEX)
        return asim_fail(err, ASIM_E_INPUT, "a table of the trace would hold more than %" PRIu32 " entries",
                         ASIM_NO_INDEX);
    return asim_mem_grow(mem, memory, capacity, count + extra, item_size, err);
}

/* Bytes of the well-formed character at p, 0 if there is none (Unicode 15, table 3-7). */
static size_t utf8_character(const uint8_t *p, size_t left)
{
    uint8_t low = 0x80, high = 0xBF;
    size_t length;
    if (p[0] == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xC2 || p[0] > 0xF4)
        return 0;
    length = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (p[0] == 0xE0)
        low = 0xA0;
    else if (p[0] == 0xED)
        high = 0x9F;
    else if (p[0] == 0xF0)
        low = 0x90;
    else if (p[0] == 0xF4)
        high = 0x8F;
    if (length > left || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if (p[i] < 0x80 || p[i] > 0xBF)
            return 0;
    return length;
}

size_t asim_utf8_prefix(const char *text, size_t length)
{
    const uint8_t *p = (const uint8_t *)text;
    size_t good = 0;
    while (good < length) {
        size_t step = utf8_character(p + good, length - good);
        if (step == 0)
            break;
        good += step;
    }
    return good;
}

static asim_code intern_string(asim_tables *tables, const char *text, size_t length, uint32_t *ret_index,
                               asim_err *err)
{
    uint64_t key = asim_hash_bytes(ASIM_HASH_INIT, text, length);
    uint32_t index;
    for (; asim_idmap_get(&tables->string_index, key, &index); key++)
        if (tables->strings[index].length == length &&
            memcmp(tables->strings[index].text, text, length) == 0) {
            *ret_index = index;
            return ASIM_OK;
        }
    asim_code code = GROW(tables, strings, string_count, string_capacity, 1, err);
    if (!code)
        code = asim_buf_reserve(&tables->text, length + 1, err);
    if (code)
        return code;
    char *next = (char *)tables->text.bytes;
    if (tables->string_count && tables->strings[0].text != next) /* the text has moved */
        for (size_t i = 0; i < tables->string_count; i++) {
            tables->strings[i].text = next;
            next += tables->strings[i].length + 1;
        }
    index = (uint32_t)tables->string_count;
    code = asim_idmap_put(&tables->string_index, key, index, err);
    if (code)
        return code;
    char *own = (char *)tables->text.bytes + tables->text.length;
    memcpy(own, text, length);
    own[length] = 0;
    tables->text.length += length + 1;
    tables->strings[tables->string_count++] = (asim_string){own, (uint32_t)length};
    *ret_index = index;
    return ASIM_OK;
}

asim_code asim_tables_string(asim_tables *tables, const char *text, size_t length, uint32_t *ret_index,
                             asim_err *err)
{
    if (length > ASIM_STRING_MAX)
        return asim_fail(err, ASIM_E_INPUT, "a string of %zu bytes; the limit is %d", length,
                         ASIM_STRING_MAX);
    size_t good = length ? asim_utf8_prefix(text, length) : 0;
    if (good == length)
        return intern_string(tables, text ? text : "", length, ret_index, err);
    asim_buf clean;
    asim_buf_init(&clean, tables->mem);
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < length && !code; i += good + 1) {
        good = asim_utf8_prefix(text + i, length - i);
        code = asim_buf_append(&clean, text + i, good, err);
        if (!code && i + good < length)
            code = asim_buf_append(&clean, "\xEF\xBF\xBD", 3, err);
    }
    if (!code && clean.length > ASIM_STRING_MAX)
        code = asim_fail(err, ASIM_E_INPUT, "a string is too long once repaired; the limit is %d bytes",
                         ASIM_STRING_MAX);
    if (!code)
        code = intern_string(tables, (const char *)clean.bytes, clean.length, ret_index, err);
    asim_buf_fini(&clean);
    return code;
}

static asim_code intern_frame(asim_tables *tables, const asim_frame *frame, uint32_t *ret_index,
                              asim_err *err)
{
    if (frame->function >= tables->string_count || frame->file >= tables->string_count)
        return asim_fail(err, ASIM_E_INPUT, "a stack frame names a string that does not exist");
    uint64_t key = asim_hash_u64(ASIM_HASH_INIT, (uint64_t)frame->function << 32 | frame->file);
    key = asim_hash_u64(key, frame->line);
    uint32_t index;
    for (; asim_idmap_get(&tables->frame_index, key, &index); key++) {
        const asim_frame *other = &tables->frames[index];
        if (other->function == frame->function && other->file == frame->file && other->line == frame->line) {
            *ret_index = index;
            return ASIM_OK;
        }
    }
    asim_code code = GROW(tables, frames, frame_count, frame_capacity, 1, err);
    if (!code)
        code = asim_idmap_put(&tables->frame_index, key, (uint32_t)tables->frame_count, err);
    if (code)
        return code;
    *ret_index = (uint32_t)tables->frame_count;
    tables->frames[tables->frame_count++] = *frame;
    return ASIM_OK;
}

/* The new stack is put together at the end of stack_frames, and stays there if there is none like it. */
asim_code asim_tables_stack(asim_tables *tables, const asim_frame *frames, size_t count, uint32_t *ret_index,
                            asim_err *err)
{
    if (count > ASIM_STACK_MAX)
        return asim_fail(err, ASIM_E_INPUT, "a call stack of %zu frames; the limit is %d", count,
                         ASIM_STACK_MAX);
    asim_code code = GROW(tables, stack_frames, stack_frame_count, stack_frame_capacity, count, err);
    if (!code)
        code = GROW(tables, stacks, stack_count, stack_capacity, 1, err);
    if (code)
        return code;
    uint32_t *own = count ? tables->stack_frames + tables->stack_frame_count : NULL;
    uint64_t key = ASIM_HASH_INIT;
    for (size_t i = 0; i < count; i++) {
        code = intern_frame(tables, &frames[i], &own[i], err);
        if (code)
            return code;
        key = asim_hash_u64(key, own[i]);
    }
    key = asim_hash_u64(key, count);
    uint32_t index;
    for (; asim_idmap_get(&tables->stack_index, key, &index); key++) {
        const asim_stack *other = &tables->stacks[index];
        if (other->count == count &&
            (count == 0 || memcmp(tables->stack_frames + other->first, own, count * sizeof *own) == 0)) {
            *ret_index = index;
            return ASIM_OK;
        }
    }
    index = (uint32_t)tables->stack_count;
    code = asim_idmap_put(&tables->stack_index, key, index, err);
    if (code)
        return code;
    tables->stacks[tables->stack_count++] =
        (asim_stack){(uint32_t)tables->stack_frame_count, (uint32_t)count};
    tables->stack_frame_count += count;
    *ret_index = index;
    return ASIM_OK;
}

asim_code asim_tables_device(asim_tables *tables, const asim_trace_device *device, uint32_t *ret_index,
                             asim_err *err)
{
    if (tables->device_count == ASIM_DEVICES_MAX)
        return asim_fail(err, ASIM_E_INPUT, "more than %d devices", ASIM_DEVICES_MAX);
    if (device->name != ASIM_NO_INDEX && device->name >= tables->string_count)
        return asim_fail(err, ASIM_E_INPUT, "a device's name is a string that does not exist");
    asim_code code = GROW(tables, devices, device_count, device_capacity, 1, err);
    if (code)
        return code;
    *ret_index = (uint32_t)tables->device_count;
    tables->devices[tables->device_count++] =
        (asim_trace_device){.name = device->name, .capacity = device->capacity};
    return ASIM_OK;
}

asim_code asim_tables_lane(asim_tables *tables, const asim_lane *lane, uint32_t *ret_index, asim_err *err)
{
    if (lane->device >= tables->device_count)
        return asim_fail(err, ASIM_E_INPUT, "a lane names device %u, but there are only %zu", lane->device,
                         tables->device_count);
    uint64_t key =
        asim_hash_u64(asim_hash_u64(ASIM_HASH_INIT, lane->stream), (uint64_t)lane->device << 16 | lane->pool);
    uint32_t index;
    for (; asim_idmap_get(&tables->lane_index, key, &index); key++) {
        const asim_lane *other = &tables->lanes[index];
        if (other->stream == lane->stream && other->device == lane->device && other->pool == lane->pool) {
            *ret_index = index;
            return ASIM_OK;
        }
    }
    if (tables->lane_count == ASIM_LANES_MAX)
        return asim_fail(err, ASIM_E_INPUT, "more than %d different (device, stream, pool)", ASIM_LANES_MAX);
    asim_code code = GROW(tables, lanes, lane_count, lane_capacity, 1, err);
    if (!code)
        code = asim_idmap_put(&tables->lane_index, key, (uint32_t)tables->lane_count, err);
    if (code)
        return code;
    *ret_index = (uint32_t)tables->lane_count;
    tables->lanes[tables->lane_count++] = *lane;
    return ASIM_OK;
}

asim_code asim_tables_source(asim_tables *tables, const char *format, asim_err *err)
{
    return asim_tables_string(tables, format, strlen(format), &tables->source, err);
}

asim_code asim_tables_settings(asim_tables *tables, const char *text, asim_err *err)
{
    return asim_tables_string(tables, text, strlen(text), &tables->settings, err);
}

asim_code asim_tables_note(asim_tables *tables, const char *text, asim_err *err)
{
    asim_code code = GROW(tables, notes, note_count, note_capacity, 1, err);
    if (!code)
        code = asim_tables_string(tables, text, strlen(text), &tables->notes[tables->note_count], err);
    if (!code)
        tables->note_count++;
    return code;
}

void asim_tables_view(const asim_tables *tables, asim_trace *trace)
{
    trace->lanes = tables->lanes;
    trace->lane_count = (uint32_t)tables->lane_count;
    trace->devices = tables->devices;
    trace->device_count = (uint32_t)tables->device_count;
    trace->strings = tables->strings;
    trace->string_count = (uint32_t)tables->string_count;
    trace->frames = tables->frames;
    trace->frame_count = (uint32_t)tables->frame_count;
    trace->stack_frames = tables->stack_frames;
    trace->stack_frame_count = (uint32_t)tables->stack_frame_count;
    trace->stack_table = tables->stacks;
    trace->stack_count = (uint32_t)tables->stack_count;
    trace->source = tables->source;
    trace->settings = tables->settings;
    trace->notes = tables->notes;
    trace->note_count = (uint32_t)tables->note_count;
    trace->start_unix_ns = tables->start_unix_ns;
}
