#include "sim/buf.h"
#include "sim/params.h"
#include "traces/kinds.h"
#include "traces/slots.h"
#include "traces/tables.h"
#include "traces/text.h"
#include "traces/text_tokens.h"
#include "traces/words.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct reader {
    const asim_sink *sink;
    const asim_hostmem *mem;
    asim_err *err;
    asim_text_lines lines;
    asim_tables names;                         /* strings only: every name that the text gives to anything */
    asim_idmap devices, lanes, frames, stacks; /* number of the name -> index */
    asim_frame *frame_table, *stack_lines;
    size_t frame_count, frame_capacity, stack_capacity;
    asim_slots slots;
    bool exact; /* "ids slots": ids are slots */
    uint64_t time_ns;
    bool in_segment; /* its blocks are being listed */
    asim_opening_segment segment;
    asim_opening_block *blocks;
    size_t block_count, block_capacity;
} reader;

#define FAIL(r, ...) asim_fail((r)->err, ASIM_E_INPUT, __VA_ARGS__)

/* The tokens of a line not used up yet. */
typedef struct args {
    const asim_token *next;
    size_t left;
} args;

static const asim_token *take(args *a)
{
    if (a->left == 0)
        return NULL;
    a->left--;
    return a->next++;
}

/* The next token if it is KEY=VALUE with this key: its value. */
static const char *take_option(args *a, const char *key)
{
    size_t length = strlen(key);
    if (a->left == 0 || a->next->quoted_first || strncmp(a->next->text, key, length) != 0)
        return NULL;
    return take(a)->text + length;
}

static bool take_word(args *a, const char *word)
{
    if (a->left == 0 || a->next->quoted_first || strcmp(a->next->text, word) != 0)
        return false;
    take(a);
    return true;
}

static asim_code parse_size(reader *r, const char *text, const char *what, uint64_t *ret_size)
{
    bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    if (hex && text[2] && text[2 + strspn(text + 2, "0123456789abcdefABCDEF")] == 0 && strlen(text) <= 18) {
        *ret_size = strtoull(text, NULL, 16);
        return ASIM_OK;
    }
    bool digits = text[0] && text[strspn(text, "0123456789")] == 0;
    if (!hex &&
        (digits ? asim_parse_u64(text, ret_size, NULL) : asim_parse_size(text, ret_size, NULL)) == ASIM_OK)
        return ASIM_OK;
    return FAIL(r, "'%.64s' is no %s", text, what);
}

static asim_code take_size(reader *r, args *a, const char *what, uint64_t *ret_size)
{
    const asim_token *token = take(a);
    return token ? parse_size(r, token->text, what, ret_size) : FAIL(r, "a %s is missing", what);
}

static asim_code take_listed(reader *r, args *a, const char *what, const char *const *words,
                             uint32_t *ret_value)
{
    const asim_token *token = take(a);
    if (!token)
        return FAIL(r, "a %s is missing", what);
    for (uint32_t i = 0; words[i]; i++)
        if (strcmp(words[i], token->text) == 0) {
            *ret_value = i;
            return ASIM_OK;
        }
    return FAIL(r, "'%.64s' is no %s", token->text, what);
}

static asim_code take_string(reader *r, args *a, const char *what, uint32_t *ret_index)
{
    const asim_token *token = take(a);
    if (!token)
        return FAIL(r, "a %s is missing", what);
    return r->sink->ops->string(r->sink->ctx, token->text, token->length, ret_index, r->err);
}

static asim_code name_number(reader *r, const char *name, uint32_t *ret_number)
{
    return asim_tables_string(&r->names, name, strlen(name), ret_number, r->err);
}

/* Gives a name to item index of a table. */
static asim_code define(reader *r, asim_idmap *map, args *a, const char *what, uint32_t index)
{
    uint32_t number, other;
    const asim_token *token = take(a);
    if (!token)
        return FAIL(r, "the %s's name is missing", what);
    asim_code code = name_number(r, token->text, &number);
    if (!code && asim_idmap_get(map, number, &other))
        return FAIL(r, "there is a %s '%.64s' already", what, token->text);
    return code ? code : asim_idmap_put(map, number, index, r->err);
}

static asim_code look_up(reader *r, const asim_idmap *map, const char *name, const char *what,
                         uint32_t *ret_index)
{
    uint32_t number;
    asim_code code = name_number(r, name, &number);
    if (!code && !asim_idmap_get(map, number, ret_index))
        code = FAIL(r, "there is no %s '%.64s'", what, name);
    return code;
}

/* A text that names no lane, or no device, means one of each. */
static asim_code default_device(reader *r)
{
    asim_trace_device device = {.name = ASIM_NO_INDEX};
    uint32_t index, number;
    if (r->devices.count)
        return ASIM_OK;
    asim_code code = r->sink->ops->device(r->sink->ctx, &device, &index, r->err);
    if (!code)
        code = name_number(r, "0", &number);
    return code ? code : asim_idmap_put(&r->devices, number, index, r->err);
}

static asim_code default_lane(reader *r)
{
    asim_lane lane = {.stream = 0};
    uint32_t index, number;
    if (r->lanes.count)
        return ASIM_OK;
    asim_code code = default_device(r);
    if (!code)
        code = r->sink->ops->lane(r->sink->ctx, &lane, &index, r->err);
    if (!code)
        code = name_number(r, "0", &number);
    return code ? code : asim_idmap_put(&r->lanes, number, index, r->err);
}

static asim_code parse_lane(reader *r, const char *name, uint16_t *ret_lane)
{
    uint32_t index;
    if (strcmp(name, "all") == 0) {
        *ret_lane = ASIM_LANE_ALL;
        return ASIM_OK;
    }
    asim_code code = default_lane(r);
    if (!code)
        code = look_up(r, &r->lanes, name, "lane", &index);
    if (!code)
        *ret_lane = (uint16_t)index;
    return code;
}

static asim_code read_ids(reader *r, args *a)
{
    if (take_word(a, "slots"))
        r->exact = true;
    else if (take_word(a, "names"))
        r->exact = false;
    else
        return FAIL(r, "'ids slots' or 'ids names' is possible");
    return ASIM_OK;
}

static asim_code read_string(reader *r, args *a)
{
    uint32_t index;
    return take_string(r, a, "string", &index);
}

static asim_code read_source(reader *r, args *a)
{
    const asim_token *token = take(a);
    return token ? r->sink->ops->source(r->sink->ctx, token->text, r->err) : FAIL(r, "the source is missing");
}

static asim_code read_recorded_settings(reader *r, args *a)
{
    const asim_token *token = take(a);
    return token ? r->sink->ops->settings(r->sink->ctx, token->text, r->err)
                 : FAIL(r, "the settings are missing");
}

static asim_code read_note(reader *r, args *a)
{
    const asim_token *token = take(a);
    return token ? r->sink->ops->note(r->sink->ctx, token->text, r->err) : FAIL(r, "the note is missing");
}

static asim_code read_start(reader *r, args *a)
{
    uint64_t unix_ns;
    asim_code code = take_size(r, a, "time in nanoseconds", &unix_ns);
    return code ? code : r->sink->ops->start(r->sink->ctx, unix_ns, r->err);
}

static asim_code read_device(reader *r, args *a)
{
    asim_trace_device device = {.name = ASIM_NO_INDEX};
    uint32_t index = (uint32_t)r->devices.count;
    asim_code code = define(r, &r->devices, a, "device", index);
    for (const char *value; !code && a->left;) {
        if ((value = take_option(a, "capacity=")) != NULL)
            code = parse_size(r, value, "size", &device.capacity);
        else if ((value = take_option(a, "name=")) != NULL)
            code = r->sink->ops->string(r->sink->ctx, value, strlen(value), &device.name, r->err);
        else
            return FAIL(r, "capacity= or name= is possible here");
    }
    return code ? code : r->sink->ops->device(r->sink->ctx, &device, &index, r->err);
}

static asim_code read_lane(reader *r, args *a)
{
    asim_lane lane = {.stream = 0};
    uint32_t index = (uint32_t)r->lanes.count, got, device;
    uint64_t pool;
    asim_code code = default_device(r);
    if (!code)
        code = define(r, &r->lanes, a, "lane", index);
    for (const char *value; !code && a->left;) {
        if ((value = take_option(a, "device=")) != NULL) {
            code = look_up(r, &r->devices, value, "device", &device);
            lane.device = code ? 0 : (uint16_t)device;
        } else if ((value = take_option(a, "stream=")) != NULL) {
            code = parse_size(r, value, "stream", &lane.stream);
        } else if ((value = take_option(a, "pool=")) != NULL) {
            code = parse_size(r, value, "pool", &pool);
            if (!code && pool > UINT16_MAX)
                code = FAIL(r, "pools are numbers up to %u", UINT16_MAX);
            lane.pool = code ? 0 : (uint16_t)pool;
        } else {
            return FAIL(r, "device=, stream= or pool= is possible here");
        }
    }
    if (!code)
        code = r->sink->ops->lane(r->sink->ctx, &lane, &got, r->err);
    if (!code && got != index)
        code = FAIL(r, "there is a lane with this device, stream and pool already");
    return code;
}

static asim_code read_frame(reader *r, args *a)
{
    asim_frame frame;
    uint64_t line;
    asim_code code = define(r, &r->frames, a, "frame", (uint32_t)r->frame_count);
    if (!code)
        code = take_string(r, a, "function", &frame.function);
    if (!code)
        code = take_string(r, a, "file", &frame.file);
    if (!code)
        code = take_size(r, a, "line number", &line);
    if (!code && line > UINT32_MAX)
        code = FAIL(r, "a line number is too large");
    if (!code)
        code = asim_mem_grow(r->mem, (void **)&r->frame_table, &r->frame_capacity, r->frame_count + 1,
                             sizeof *r->frame_table, r->err);
    if (!code) {
        frame.line = (uint32_t)line;
        r->frame_table[r->frame_count++] = frame;
    }
    return code;
}

static asim_code read_stack(reader *r, args *a)
{
    uint32_t index = (uint32_t)r->stacks.count, got, frame;
    size_t count = 0;
    asim_code code = define(r, &r->stacks, a, "stack", index);
    if (!code)
        code = asim_mem_grow(r->mem, (void **)&r->stack_lines, &r->stack_capacity, a->left,
                             sizeof *r->stack_lines, r->err);
    while (!code && a->left) {
        code = look_up(r, &r->frames, take(a)->text, "frame", &frame);
        if (!code)
            r->stack_lines[count++] = r->frame_table[frame];
    }
    if (!code)
        code = r->sink->ops->stack(r->sink->ctx, r->stack_lines, count, &got, r->err);
    if (!code && got != index)
        code = FAIL(r, "there is a stack of these frames already");
    return code;
}

static asim_code end_segment(reader *r)
{
    if (!r->in_segment)
        return ASIM_OK;
    r->in_segment = false;
    return r->sink->ops->opening(r->sink->ctx, &r->segment, r->blocks, r->block_count, r->err);
}

static asim_code read_segment(reader *r, args *a)
{
    r->segment = (asim_opening_segment){.stack = ASIM_NO_INDEX};
    r->block_count = 0;
    asim_code code = take_size(r, a, "address", &r->segment.address);
    if (!code)
        code = take_size(r, a, "size", &r->segment.size);
    if (!code)
        code = default_lane(r);
    for (const char *value; !code && a->left;) {
        if ((value = take_option(a, "lane=")) != NULL)
            code = parse_lane(r, value, &r->segment.lane);
        else if ((value = take_option(a, "stack=")) != NULL)
            code = look_up(r, &r->stacks, value, "stack", &r->segment.stack);
        else if (take_word(a, "small"))
            r->segment.small = 1;
        else if (take_word(a, "expandable"))
            r->segment.expandable = 1;
        else
            return FAIL(r, "small, expandable, lane= or stack= is possible here");
    }
    r->in_segment = !code;
    return code;
}

static asim_code take_id(reader *r, args *a, unsigned use, uint32_t *ret_id)
{
    const asim_token *token = take(a);
    if (!token)
        return FAIL(r, "the block's id is missing");
    uint64_t number;
    uint32_t name;
    if (r->exact) {
        asim_code code = parse_size(r, token->text, "slot", &number);
        if (!code && number >= ASIM_NO_INDEX)
            code = FAIL(r, "'%.64s' is no slot", token->text);
        *ret_id = code ? 0 : (uint32_t)number;
        return code;
    }
    asim_code code = name_number(r, token->text, &name);
    if (code)
        return code;
    bool live = asim_slots_find(&r->slots, name, ret_id);
    if (live == (use == ASIM_ID_NEW))
        return FAIL(r, "block '%.64s' is %s", token->text, live ? "live already" : "not live");
    return use == ASIM_ID_NEW ? asim_slots_open(&r->slots, name, ret_id, r->err) : ASIM_OK;
}

/* Once an event that ends a block has been taken by the sink. */
static void end_id(reader *r, const char *name, const asim_event *event)
{
    uint32_t number;
    bool done = event->kind == ASIM_EV_FREE_DONE ||
                (event->kind == ASIM_EV_FREE && !(event->flags & ASIM_FREE_PENDING));
    if (done && !r->exact && name_number(r, name, &number) == ASIM_OK)
        asim_slots_close(&r->slots, number, NULL);
}

static asim_code read_block(reader *r, args *a)
{
    asim_opening_block block = {.id = ASIM_NO_INDEX, .stack = ASIM_NO_INDEX};
    uint32_t state;
    if (!r->in_segment)
        return FAIL(r, "a block belongs below its segment");
    asim_code code = take_listed(r, a, "state (free, live, pending)", asim_block_words, &state);
    if (!code && state != ASIM_BLOCK_FREE)
        code = take_id(r, a, ASIM_ID_NEW, &block.id);
    if (!code)
        code = take_size(r, a, "size", &block.size);
    for (const char *value; !code && a->left;) {
        if ((value = take_option(a, "requested=")) != NULL)
            code = parse_size(r, value, "size", &block.requested);
        else if ((value = take_option(a, "stack=")) != NULL)
            code = look_up(r, &r->stacks, value, "stack", &block.stack);
        else
            return FAIL(r, "requested= or stack= is possible here");
    }
    if (!code)
        code = asim_mem_grow(r->mem, (void **)&r->blocks, &r->block_capacity, r->block_count + 1,
                             sizeof *r->blocks, r->err);
    if (!code) {
        block.state = (uint8_t)state;
        r->blocks[r->block_count++] = block;
    }
    return code;
}

static asim_code read_call(reader *r, args *a)
{
    asim_recorded_call call = {.lane = 0};
    uint32_t kind;
    const char *value;
    asim_code code = default_lane(r);
    if (!code)
        code = take_listed(r, a, "recorded call", asim_call_words, &kind);
    if (!code)
        code = take_size(r, a, "address", &call.address);
    if (!code)
        code = take_size(r, a, "size", &call.size);
    if (!code && (value = take_option(a, "lane=")) != NULL)
        code = parse_lane(r, value, &call.lane);
    if (code)
        return code;
    call.kind = (uint8_t)kind;
    return r->sink->ops->call(r->sink->ctx, &call, r->err);
}

static asim_code take_fraction(reader *r, args *a, uint64_t *ret_bits)
{
    const asim_token *token = take(a);
    if (!token)
        return FAIL(r, "the fraction is missing");
    char *end;
    double value = strtod(token->text, &end);
    if (token->text[strspn(token->text, "0123456789.e+-")] || *end || end == token->text)
        return FAIL(r, "'%.64s' is no fraction", token->text);
    memcpy(ret_bits, &value, sizeof value);
    return ASIM_OK;
}

/* What stands behind the kind's name and has a fixed place. */
static asim_code read_fixed(reader *r, args *a, asim_event *event)
{
    const asim_kind_rule *rule = &asim_kind_rules[event->kind];
    uint32_t value = 0, mark = 0;
    asim_code code = ASIM_OK;
    if (rule->id == ASIM_ID_NEW || rule->id == ASIM_ID_LIVE || rule->id == ASIM_ID_PENDING)
        code = take_id(r, a, rule->id, &event->id);
    if (!code && (rule->size == ASIM_SIZE_BYTES || rule->size == ASIM_SIZE_TIME))
        code = take_size(r, a, rule->size == ASIM_SIZE_BYTES ? "size" : "time in nanoseconds", &event->size);
    if (code)
        return code;
    switch (event->kind) {
    case ASIM_EV_SYNC:
        code = take_listed(r, a, "scope (stream, device, all)", asim_sync_words, &event->id);
        event->lane = !code && event->id == ASIM_SYNC_ALL ? ASIM_LANE_ALL : 0;
        return code;
    case ASIM_EV_STATS_RESET:
        return take_listed(r, a, "statistic (peaks, totals)", asim_reset_words, &event->id);
    case ASIM_EV_FRACTION:
        return take_fraction(r, a, &event->size);
    case ASIM_EV_MARK:
        code = take_listed(r, a, "mark (point, begin, end)", asim_phase_words, &value);
        if (!code)
            code =
                take_listed(r, a, "kind of mark (iteration, phase, request, other)", asim_mark_words, &mark);
        event->flags = (uint8_t)value;
        event->size = mark;
        return code ? code : take_string(r, a, "label", &event->id);
    case ASIM_EV_SETTINGS:
        return take_string(r, a, "option string", &event->id);
    default:
        return ASIM_OK;
    }
}

static asim_code read_event(reader *r, args *a, unsigned kind)
{
    asim_sink_event event = {.event = {.kind = (uint8_t)kind},
                             .time_ns = r->time_ns,
                             .recorded_address = ASIM_NO_ADDRESS,
                             .stack = ASIM_NO_INDEX};
    const char *name = a->left ? a->next->text : "";
    event.event.lane = kind == ASIM_EV_TRIM ? ASIM_LANE_ALL : 0;
    asim_code code = asim_kind_rules[kind].lane != ASIM_LANE_UNUSED ? default_lane(r) : ASIM_OK;
    if (!code)
        code = read_fixed(r, a, &event.event);
    for (const char *value; !code && a->left;) {
        if ((value = take_option(a, "lane=")) != NULL)
            code = parse_lane(r, value, &event.event.lane);
        else if ((value = take_option(a, "stack=")) != NULL)
            code = look_up(r, &r->stacks, value, "stack", &event.stack);
        else if ((value = take_option(a, "at=")) != NULL)
            code = parse_size(r, value, "address", &event.recorded_address);
        else if (kind == ASIM_EV_FREE && take_word(a, "pending"))
            event.event.flags |= ASIM_FREE_PENDING;
        else if (kind == ASIM_EV_ALLOC && take_word(a, "unmovable"))
            event.event.flags |= ASIM_ALLOC_UNMOVABLE;
        else if (kind == ASIM_EV_ALLOC && take_word(a, "grows"))
            event.event.flags |= ASIM_ALLOC_GROWS;
        else if (kind == ASIM_EV_POOL_RETAIN && take_word(a, "use_on_oom"))
            event.event.flags |= ASIM_POOL_USE_ON_OOM;
        else if (kind == ASIM_EV_POOL_RETAIN && take_word(a, "no_split"))
            event.event.flags |= ASIM_POOL_NO_SPLIT;
        else if (kind == ASIM_EV_POOL_BEGIN && take_word(a, "all"))
            event.event.flags |= ASIM_POOL_ALL;
        else if (kind == ASIM_EV_POOL_BEGIN && take_word(a, "capture"))
            event.event.flags |= ASIM_POOL_CAPTURE;
        else
            return FAIL(r, "'%.64s' is not understood behind %s", a->next->text, asim_event_kind_name(kind));
    }
    if (!code)
        code = r->sink->ops->event(r->sink->ctx, &event, r->err);
    if (!code)
        end_id(r, name, &event.event);
    return code;
}

static const struct statement {
    const char *name;
    asim_code (*read)(reader *r, args *a);
} statements[] = {
    {"ids", read_ids},         {"string", read_string},
    {"source", read_source},   {"recorded_settings", read_recorded_settings},
    {"note", read_note},       {"start", read_start},
    {"device", read_device},   {"lane", read_lane},
    {"frame", read_frame},     {"stack", read_stack},
    {"segment", read_segment}, {"block", read_block},
    {"call", read_call},
};

static asim_code read_line(reader *r, const asim_token *tokens, size_t count)
{
    args a = {tokens, count};
    asim_code code = ASIM_OK;
    if (tokens[0].text[0] == '@' && !tokens[0].quoted_first) {
        code = parse_size(r, take(&a)->text + 1, "time in nanoseconds", &r->time_ns);
        if (!code && a.left == 0)
            code = FAIL(r, "an event is missing behind the time");
        if (code)
            return code;
    }
    const char *name = take(&a)->text;
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++)
        if (strcmp(name, statements[i].name) == 0) {
            if (statements[i].read != read_block)
                code = end_segment(r);
            if (!code)
                code = statements[i].read(r, &a);
            if (!code && a.left)
                code = FAIL(r, "'%.64s' is not understood behind %s", a.next->text, name);
            return code;
        }
    for (unsigned kind = 1; kind < ASIM_EV_KINDS; kind++)
        if (strcmp(name, asim_event_kind_name(kind)) == 0) {
            code = end_segment(r);
            return code ? code : read_event(r, &a, kind);
        }
    return FAIL(r, "'%.64s' is neither an event nor a statement", name);
}

static void reader_init(reader *r, const asim_input *input, const asim_sink *sink, const asim_hostmem *mem,
                        asim_err *err)
{
    *r = (reader){.sink = sink, .mem = mem, .err = err};
    asim_text_lines_init(&r->lines, input, mem);
    asim_tables_init(&r->names, mem);
    asim_idmap_init(&r->devices, mem);
    asim_idmap_init(&r->lanes, mem);
    asim_idmap_init(&r->frames, mem);
    asim_idmap_init(&r->stacks, mem);
    asim_slots_init(&r->slots, mem);
}

static void reader_fini(reader *r)
{
    asim_text_lines_fini(&r->lines);
    asim_tables_fini(&r->names);
    asim_idmap_fini(&r->devices);
    asim_idmap_fini(&r->lanes);
    asim_idmap_fini(&r->frames);
    asim_idmap_fini(&r->stacks);
    asim_slots_fini(&r->slots);
    asim_mem_free(r->mem, r->frame_table, r->frame_capacity, sizeof *r->frame_table);
    asim_mem_free(r->mem, r->stack_lines, r->stack_capacity, sizeof *r->stack_lines);
    asim_mem_free(r->mem, r->blocks, r->block_capacity, sizeof *r->blocks);
}

asim_code asim_text_read(const asim_input *input, const asim_sink *sink, const asim_hostmem *mem,
                         asim_err *err)
{
    reader r;
    const asim_token *tokens;
    size_t count;
    reader_init(&r, input, sink, mem, err);
    asim_code code = asim_text_next(&r.lines, &tokens, &count, err);
    while (!code && count) {
        code = read_line(&r, tokens, count);
        if (!code)
            code = asim_text_next(&r.lines, &tokens, &count, err);
    }
    if (!code)
        code = end_segment(&r);
    if (code && err) {
        asim_err_context(err, "line %" PRIu64, r.lines.number);
        err->position = r.lines.number;
    }
    reader_fini(&r);
    return code;
}

/* A text is ours if its first line that says anything begins with one of our words. */
static int probe(const uint8_t *head, size_t length)
{
    size_t i = 0;
    while (i < length &&
           (head[i] == ' ' || head[i] == '\t' || head[i] == '\n' || head[i] == '\r' || head[i] == '#'))
        if (head[i] == '#')
            while (i < length && head[i] != '\n')
                i++;
        else
            i++;
    if (i < length && head[i] == '@') {
        while (i < length && head[i] != ' ' && head[i] != '\n')
            i++;
        i += i < length && head[i] == ' ';
    }
    char word[24] = "";
    for (size_t k = 0; k + 1 < sizeof word && i < length && head[i] > ' '; k++, i++)
        word[k] = (char)head[i];
    for (size_t k = 0; k < sizeof statements / sizeof statements[0]; k++)
        if (strcmp(word, statements[k].name) == 0)
            return 20;
    for (unsigned kind = 1; kind < ASIM_EV_KINDS; kind++)
        if (strcmp(word, asim_event_kind_name(kind)) == 0)
            return 20;
    return 0;
}

const asim_importer asim_importer_text = {
    .name = "text",
    .summary = "the text form of allocsim's own traces",
    .probe = probe,
    .import = asim_text_read,
};
