#include "traces/torch_records.h"

#include "traces/torch_layout.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The words that mean something, put into the string table first, so that a word's string number is its
 * place here. */
#define WORDS(X)                                                                                             \
    X(action)                                                                                                \
    X(addr)                                                                                                  \
    X(device_free)                                                                                           \
    X(size)                                                                                                  \
    X(stream)                                                                                                \
    X(time_us)                                                                                               \
    X(frames)                                                                                                \
    X(pool_id)                                                                                               \
    X(compile_context)                                                                                       \
    X(user_metadata)                                                                                         \
    X(device)                                                                                                \
    X(address)                                                                                               \
    X(total_size)                                                                                            \
    X(segment_type)                                                                                          \
    X(segment_pool_id)                                                                                       \
    X(is_expandable)                                                                                         \
    X(blocks)                                                                                                \
    X(state)                                                                                                 \
    X(requested_size)                                                                                        \
    X(history)                                                                                               \
    X(real_size)                                                                                             \
    X(name)                                                                                                  \
    X(filename)                                                                                              \
    X(line)                                                                                                  \
    X(stage)                                                                                                 \
    X(segments)                                                                                              \
    X(device_traces)                                                                                         \
    X(allocator_settings)                                                                                    \
    X(external_annotations)                                                                                  \
    X(host_segments)                                                                                         \
    X(PYTORCH_CUDA_ALLOC_CONF)                                                                               \
    X(PYTORCH_ALLOC_CONF)                                                                                    \
    X(max_split_size)                                                                                        \
    X(garbage_collection_threshold)                                                                          \
    X(expandable_segments)                                                                                   \
    X(roundup_power2_divisions)                                                                              \
    X(alloc)                                                                                                 \
    X(free_requested)                                                                                        \
    X(free_completed)                                                                                        \
    X(free)                                                                                                  \
    X(segment_alloc)                                                                                         \
    X(segment_free)                                                                                          \
    X(segment_map)                                                                                           \
    X(segment_unmap)                                                                                         \
    X(snapshot)                                                                                              \
    X(oom)                                                                                                   \
    X(active_allocated)                                                                                      \
    X(active_pending_free)                                                                                   \
    X(active_awaiting_free)                                                                                  \
    X(inactive)                                                                                              \
    X(small)                                                                                                 \
    X(large)                                                                                                 \
    X(START)                                                                                                 \
    X(END)

enum {
#define X(word) W_##word,
    WORDS(X)
#undef X
    WORD_COUNT
};

_Static_assert(WORD_COUNT <= 64, "a set of words is one integer");

enum { /* strings right after the words */
    EMPTY_STRING = WORD_COUNT,
    NOT_AVAILABLE,
};

#define HAS(set, word) ((set) >> W_##word & 1)

enum { /* tags of values that stand for complete containers */
    FRAME = 8,
    STACK = 9,
    ENTRY = 10,
    BLOCK = 11,
    SEGMENT = 12,
    RANGE = 13, /* a list; index into ranges, whose tag says of what */
    OTHER = 14, /* the low four bits of the payload say what, the rest is an index */
};

enum { /* kinds of OTHER */
    OPAQUE = 0,
    PAIR = 1,
    OWNER = 2,
    DIVISIONS = 3,
    SETTINGS = 4,
    TOP = 5,
};

#define BAD(...) asim_fail(err, ASIM_E_INPUT, __VA_ARGS__)

static asim_pickle_value other(unsigned kind, uint64_t index)
{
    return asim_pickle_make(OTHER, index << 4 | kind);
}

static bool is_other(asim_pickle_value value, unsigned kind, uint64_t *ret_index)
{
    uint64_t payload = asim_pickle_payload(value);
    if (asim_pickle_tag(value) != OTHER || (payload & 15) != kind)
        return false;
    *ret_index = payload >> 4;
    return true;
}

/* The word a value is, or WORD_COUNT. */
static uint32_t word_of(asim_pickle_value value)
{
    uint64_t payload = asim_pickle_payload(value);
    return asim_pickle_tag(value) == ASIM_PICKLE_STRING && payload < WORD_COUNT ? (uint32_t)payload
                                                                                : WORD_COUNT;
}

static asim_code number(asim_torch_records *r, uint32_t key, asim_pickle_value value, uint64_t *ret_number,
                        asim_err *err)
{
    double real;
    if (asim_pickle_unsigned(r->pickle, value, ret_number))
        return ASIM_OK;
    if (key == W_time_us && asim_pickle_double(value, &real) && real >= 0 && real < 9e18) {
        *ret_number = (uint64_t)real;
        return ASIM_OK;
    }
    return BAD("the value of '%s' is not an integer of 64 bits", asim_strtab_text(&r->strings, key));
}

/* The stack that a value of `frames` names; anything that is not a list of frames counts as none. */
static uint32_t stack_of(asim_pickle_value value)
{
    return asim_pickle_tag(value) == STACK ? (uint32_t)asim_pickle_payload(value) : ASIM_NO_INDEX;
}

static asim_code pool_of(asim_torch_records *r, asim_pickle_value value, uint16_t *ret_pool, asim_err *err)
{
    uint64_t pair;
    if (!is_other(value, PAIR, &pair))
        return ASIM_OK;
    return asim_torch_pool_number(r, (uint32_t)pair, ret_pool, err);
}

static bool says_something(asim_pickle_value value)
{
    uint64_t string = asim_pickle_payload(value);
    return asim_pickle_tag(value) == ASIM_PICKLE_STRING && string != EMPTY_STRING && string != NOT_AVAILABLE;
}

static void met_key(asim_torch_records *r, unsigned since)
{
    if (r->newest_key < since)
        r->newest_key = since;
}

static asim_code read_entry(asim_torch_records *r, const asim_pickle_item *pairs, size_t count,
                            asim_pickle_value *ret_value, asim_err *err)
{
    asim_torch_entry e = {.address = ASIM_NO_ADDRESS, .stack = ASIM_NO_INDEX};
    uint64_t stream = 0, device_free = ASIM_NO_ADDRESS;
    uint16_t pool = ASIM_TORCH_NO_POOL;
    bool sized = false;
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < count && !code; i++) {
        asim_pickle_value value = pairs[i].b;
        uint32_t key = word_of(pairs[i].a);
        switch (key) {
        case W_action: {
            uint32_t word = word_of(value);
            e.action = word >= W_alloc && word <= W_oom ? (uint8_t)(word - W_alloc + ASIM_TORCH_ALLOC)
                                                        : ASIM_TORCH_UNKNOWN;
            break;
        }
        case W_addr:
            code = number(r, key, value, &e.address, err);
            break;
        case W_device_free:
            code = number(r, key, value, &device_free, err);
            break;
        case W_size:
            code = number(r, key, value, &e.size, err);
            sized = true;
            break;
        case W_stream:
            code = number(r, key, value, &stream, err);
            break;
        case W_time_us:
            met_key(r, ASIM_TORCH_SINCE_TIMES);
            if (asim_pickle_tag(value) != ASIM_PICKLE_NONE)
                code = number(r, key, value, &e.time_us, err);
            break;
        case W_frames:
            e.stack = stack_of(value);
            break;
        case W_pool_id:
            met_key(r, ASIM_TORCH_SINCE_POOL_IDS);
            code = pool_of(r, value, &pool, err);
            break;
        case W_compile_context:
        case W_user_metadata:
            met_key(r, key == W_compile_context ? ASIM_TORCH_SINCE_CONTEXTS : ASIM_TORCH_SINCE_METADATA);
            r->has_metadata = r->has_metadata || says_something(value);
            break;
        default:
            break;
        }
    }
    if (code)
        return code;
    bool placed = e.action != ASIM_TORCH_UNKNOWN && e.action != ASIM_TORCH_SNAPSHOT;
    if (e.action == ASIM_TORCH_OOM)
        e.address = device_free;
    else if (placed && e.address == ASIM_NO_ADDRESS)
        return BAD("a history entry without 'addr'");
    if (placed && !sized)
        return BAD("a history entry without 'size'");
    if (placed && (e.size >> 62 || (e.action != ASIM_TORCH_OOM && e.address + e.size < e.address)))
        return BAD("a history entry's 'size' (%" PRIu64 ") runs past the end of the address space", e.size);
    code = asim_torch_route_number(r, stream, pool, &e.route, err);
    if (!code)
        code = asim_torch_entries_add(&r->entries, &e, err);
    *ret_value = asim_pickle_make(ENTRY, r->entries.count - 1);
    return code;
}

static asim_code read_frame(asim_torch_records *r, const asim_pickle_item *pairs, size_t count,
                            asim_pickle_value *ret_value, asim_err *err)
{
    asim_frame frame = {ASIM_NO_INDEX, ASIM_NO_INDEX, 0};
    for (size_t i = 0; i < count; i++) {
        uint32_t key = word_of(pairs[i].a);
        uint64_t line;
        bool text = asim_pickle_tag(pairs[i].b) == ASIM_PICKLE_STRING;
        uint32_t string = text ? (uint32_t)asim_pickle_payload(pairs[i].b) : ASIM_NO_INDEX;
        if (key == W_name)
            frame.function = string;
        else if (key == W_filename)
            frame.file = string;
        else if (key == W_line && asim_pickle_unsigned(r->pickle, pairs[i].b, &line))
            frame.line = line <= UINT32_MAX ? (uint32_t)line : 0;
    }
    uint32_t index;
    asim_code code = asim_torch_frame(r, frame, &index, err);
    *ret_value = asim_pickle_make(FRAME, index);
    return code;
}

static asim_code add_block(asim_torch_records *r, asim_torch_block **array, size_t *count, size_t *capacity,
                           const asim_torch_block *block, asim_err *err)
{
    asim_code code = asim_mem_grow(r->mem, (void **)array, capacity, *count + 1, sizeof **array, err);
    if (!code)
        (*array)[(*count)++] = *block;
    return code;
}

static asim_code read_block(asim_torch_records *r, const asim_pickle_item *pairs, size_t count,
                            asim_pickle_value *ret_value, asim_err *err)
{
    asim_torch_block b = {.address = ASIM_NO_ADDRESS, .stack = ASIM_NO_INDEX};
    uint64_t owner = ASIM_NO_ADDRESS;
    bool requested = false, sized = false;
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < count && !code; i++) {
        asim_pickle_value value = pairs[i].b;
        uint32_t key = word_of(pairs[i].a);
        switch (key) {
        case W_address:
            code = number(r, key, value, &b.address, err);
            break;
        case W_size:
            code = number(r, key, value, &b.size, err);
            sized = true;
            break;
        case W_requested_size:
            code = number(r, key, value, &b.requested, err);
            requested = true;
            break;
        case W_state:
            switch (word_of(value)) {
            case W_active_allocated:
                b.state = ASIM_BLOCK_LIVE;
                break;
            case W_active_pending_free:
            case W_active_awaiting_free:
                b.state = ASIM_BLOCK_PENDING;
                break;
            case W_inactive:
                b.state = ASIM_BLOCK_FREE;
                break;
            default:
                code = BAD("a block's 'state' is none of active_allocated, active_pending_free, inactive");
            }
            break;
        case W_frames:
            b.stack = stack_of(value);
            break;
        case W_history:
            (void)is_other(value, OWNER, &owner);
            break;
        default:
            break;
        }
    }
    if (code)
        return code;
    if (!sized)
        return BAD("a block without 'size'");
    if (owner != ASIM_NO_ADDRESS) {
        if (!requested)
            b.requested = r->owners[owner].requested;
        if (b.stack == ASIM_NO_INDEX)
            b.stack = r->owners[owner].stack;
    }
    code = add_block(r, &r->blocks, &r->block_count, &r->block_capacity, &b, err);
    *ret_value = asim_pickle_make(BLOCK, r->block_count - 1);
    return code;
}

/* One entry of a block's history: who had the block, the present owner first (layouts of 2.0 and before). */
static asim_code read_owner(asim_torch_records *r, const asim_pickle_item *pairs, size_t count,
                            asim_pickle_value *ret_value, asim_err *err)
{
    asim_torch_block b = {.address = ASIM_NO_ADDRESS, .stack = ASIM_NO_INDEX};
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < count && !code; i++) {
        uint32_t key = word_of(pairs[i].a);
        if (key == W_real_size)
            code = number(r, key, pairs[i].b, &b.requested, err);
        else if (key == W_frames)
            b.stack = stack_of(pairs[i].b);
    }
    if (!code)
        code = add_block(r, &r->owners, &r->owner_count, &r->owner_capacity, &b, err);
    *ret_value = other(OWNER, r->owner_count - 1);
    return code;
}

static asim_code read_segment(asim_torch_records *r, const asim_pickle_item *pairs, size_t count,
                              asim_pickle_value *ret_value, asim_err *err)
{
    asim_torch_segment s = {.address = ASIM_NO_ADDRESS, .stack = ASIM_NO_INDEX};
    uint64_t device = 0;
    bool sized = false, typed = false;
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < count && !code; i++) {
        asim_pickle_value value = pairs[i].b;
        uint32_t key = word_of(pairs[i].a);
        switch (key) {
        case W_device:
            code = number(r, key, value, &device, err);
            break;
        case W_address:
            code = number(r, key, value, &s.address, err);
            break;
        case W_total_size:
            code = number(r, key, value, &s.size, err);
            sized = true;
            break;
        case W_stream:
            code = number(r, key, value, &s.stream, err);
            break;
        case W_segment_type:
            s.small = word_of(value) == W_small;
            typed = word_of(value) == W_small || word_of(value) == W_large;
            break;
        case W_segment_pool_id:
            code = pool_of(r, value, &s.pool, err);
            break;
        case W_is_expandable:
            s.expandable = value == asim_pickle_make(ASIM_PICKLE_BOOL, 1);
            break;
        case W_frames:
            s.stack = stack_of(value);
            break;
        case W_blocks:
            if (asim_pickle_tag(value) == RANGE) {
                const asim_torch_range *range = &r->ranges[asim_pickle_payload(value)];
                if (range->tag == BLOCK && range->first >= r->claimed_blocks &&
                    range->first + range->count < UINT32_MAX) {
                    r->claimed_blocks = range->first + range->count;
                    s.first_block = (uint32_t)range->first;
                    s.block_count = (uint32_t)range->count;
                } else if (range->count) {
                    code = BAD("a segment's 'blocks' are not a list of blocks of its own");
                }
            } else {
                code = BAD("a segment's 'blocks' are not a list of blocks of its own");
            }
            break;
        default:
            break;
        }
    }
    if (code)
        return code;
    if (s.address == ASIM_NO_ADDRESS)
        return BAD("a segment without 'address'");
    if (device >= ASIM_DEVICES_MAX)
        return BAD("a segment on device %" PRIu64 ": at most %d devices", device, ASIM_DEVICES_MAX);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s.block_count; i++)
        if (__builtin_add_overflow(sum, r->blocks[s.first_block + i].size, &sum))
            return BAD("a segment's blocks are larger than the address space");
    if (!sized)
        s.size = sum;
    if (!typed) /* large segments are never of the size of a small one (R31) */
        s.small = s.size == UINT64_C(2097152);
    if (s.address + s.size < s.address || s.size >> 62)
        return BAD("a segment's size (%" PRIu64 ") runs past the end of the address space", s.size);
    s.device = (uint16_t)device;
    code = asim_mem_grow(r->mem, (void **)&r->segments, &r->segment_capacity, r->segment_count + 1,
                         sizeof *r->segments, err);
    if (!code)
        r->segments[r->segment_count++] = s;
    *ret_value = asim_pickle_make(SEGMENT, r->segment_count - 1);
    return code;
}

static asim_code read_annotation(asim_torch_records *r, const asim_pickle_item *pairs, size_t count,
                                 asim_pickle_value *ret_value, asim_err *err)
{
    asim_torch_annotation a = {.name = ASIM_NO_INDEX};
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < count && !code; i++) {
        asim_pickle_value value = pairs[i].b;
        uint32_t key = word_of(pairs[i].a);
        if (key == W_time_us)
            code = number(r, key, value, &a.time_us, err);
        else if (key == W_name && asim_pickle_tag(value) == ASIM_PICKLE_STRING)
            a.name = (uint32_t)asim_pickle_payload(value);
        else if (key == W_stage)
            a.stage = word_of(value) == W_START ? ASIM_TORCH_START
                      : word_of(value) == W_END ? ASIM_TORCH_END
                                                : ASIM_TORCH_MOMENT;
    }
    if (!code)
        code = asim_mem_grow(r->mem, (void **)&r->annotations, &r->annotation_capacity,
                             r->annotation_count + 1, sizeof *r->annotations, err);
    if (!code)
        r->annotations[r->annotation_count++] = a;
    *ret_value = other(OPAQUE, 0);
    return code;
}

static void read_settings(asim_torch_records *r, const asim_pickle_item *pairs, size_t count)
{
    asim_torch_settings *s = &r->settings;
    s->present = true;
    for (size_t i = 0; i < count; i++) {
        asim_pickle_value value = pairs[i].b;
        uint64_t bytes;
        switch (word_of(pairs[i].a)) {
        case W_PYTORCH_CUDA_ALLOC_CONF:
        case W_PYTORCH_ALLOC_CONF:
            if (asim_pickle_tag(value) == ASIM_PICKLE_STRING)
                s->conf = (uint32_t)asim_pickle_payload(value);
            break;
        case W_max_split_size:
            if (asim_pickle_unsigned(r->pickle, value, &bytes)) /* -1, and anything so large: unlimited */
                s->max_split_size = bytes >> 62 ? UINT64_MAX : bytes;
            break;
        case W_garbage_collection_threshold:
            (void)asim_pickle_double(value, &s->gc_threshold);
            break;
        case W_expandable_segments:
            s->expandable = value == asim_pickle_make(ASIM_PICKLE_BOOL, 1);
            break;
        default:
            break;
        }
    }
}

/* The dict of rounding divisions: keys are the decimal numbers 1, 2, 4, ... 32768 (R154). */
static bool read_divisions(asim_torch_records *r, const asim_pickle_item *pairs, size_t count)
{
    uint32_t found[16] = {0};
    bool one = false;
    for (size_t i = 0; i < count; i++) {
        uint64_t divisions;
        if (asim_pickle_tag(pairs[i].a) != ASIM_PICKLE_STRING)
            return false;
        const char *text = asim_strtab_text(&r->strings, (uint32_t)asim_pickle_payload(pairs[i].a));
        uint32_t slot = 0, key = 0;
        for (; *text >= '0' && *text <= '9' && key < 100000; text++)
            key = key * 10 + (uint32_t)(*text - '0');
        while (slot < 16 && UINT32_C(1) << slot != key)
            slot++;
        if (*text || slot == 16 || !asim_pickle_unsigned(r->pickle, pairs[i].b, &divisions) ||
            divisions > UINT32_MAX)
            return false;
        found[slot] = (uint32_t)divisions;
        one = one || divisions > 1;
    }
    memcpy(r->settings.divisions, found, sizeof found);
    r->settings.divisions_present = one;
    return true;
}

static asim_code read_top(asim_torch_records *r, const asim_pickle_item *pairs, size_t count, asim_err *err)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t key = word_of(pairs[i].a);
        if (key == W_allocator_settings)
            met_key(r, ASIM_TORCH_SINCE_SETTINGS);
        else if (key == W_external_annotations)
            met_key(r, ASIM_TORCH_SINCE_ANNOTATIONS);
        else if (key == W_host_segments)
            met_key(r, ASIM_TORCH_SINCE_HOST);
        if (key != W_segments && key != W_device_traces)
            continue;
        if (asim_pickle_tag(pairs[i].b) != RANGE)
            return BAD("'%s' is not a list of the right things", asim_strtab_text(&r->strings, key));
        asim_torch_range range = r->ranges[asim_pickle_payload(pairs[i].b)];
        if (range.count && range.tag != (key == W_segments ? SEGMENT : RANGE))
            return BAD("'%s' is not a list of the right things", asim_strtab_text(&r->strings, key));
        *(key == W_segments ? &r->segment_range : &r->trace_ranges) = range;
    }
    for (uint64_t i = 0; i < r->trace_ranges.count; i++) {
        const asim_torch_range *trace = &r->ranges[r->trace_ranges.first + i];
        if (trace->count && trace->tag != ENTRY)
            return BAD("'device_traces' holds a list that is no history");
    }
    if (r->trace_ranges.count > ASIM_DEVICES_MAX)
        return BAD("'device_traces' of %" PRIu64 " devices: at most %d", r->trace_ranges.count,
                   ASIM_DEVICES_MAX);
    return ASIM_OK;
}

static asim_code on_dict(void *ctx, const asim_pickle_item *pairs, size_t count, asim_pickle_value *ret_value,
                         asim_err *err)
{
    asim_torch_records *r = ctx;
    uint64_t keys = 0;
    if (count && word_of(pairs[0].a) == W_action) /* as PyTorch writes them; other orders come out below */
        return read_entry(r, pairs, count, ret_value, err);
    for (size_t i = 0; i < count; i++) {
        uint32_t word = word_of(pairs[i].a);
        if (word < WORD_COUNT)
            keys |= UINT64_C(1) << word;
    }
    *ret_value = other(OPAQUE, 0);
    if (HAS(keys, action))
        return read_entry(r, pairs, count, ret_value, err);
    if (HAS(keys, filename) || (HAS(keys, name) && HAS(keys, line)))
        return read_frame(r, pairs, count, ret_value, err);
    if (HAS(keys, blocks) || HAS(keys, total_size))
        return read_segment(r, pairs, count, ret_value, err);
    if (HAS(keys, state))
        return read_block(r, pairs, count, ret_value, err);
    if (HAS(keys, segments) || HAS(keys, device_traces)) {
        *ret_value = other(TOP, 0);
        return read_top(r, pairs, count, err);
    }
    if (HAS(keys, stage) || (HAS(keys, time_us) && HAS(keys, name)))
        return read_annotation(r, pairs, count, ret_value, err);
    if (HAS(keys, real_size))
        return read_owner(r, pairs, count, ret_value, err);
    if (HAS(keys, PYTORCH_CUDA_ALLOC_CONF) || HAS(keys, max_split_size))
        read_settings(r, pairs, count);
    else if (count)
        (void)read_divisions(r, pairs, count);
    return ASIM_OK;
}

static asim_code add_range(asim_torch_records *r, asim_torch_range range, uint64_t *ret_index, asim_err *err)
{
    asim_code code = asim_mem_grow(r->mem, (void **)&r->ranges, &r->range_capacity, r->range_count + 1,
                                   sizeof *r->ranges, err);
    if (code)
        return code;
    *ret_index = r->range_count;
    r->ranges[r->range_count++] = range;
    return ASIM_OK;
}

static asim_code on_list(void *ctx, const asim_pickle_item *runs, size_t count, asim_pickle_value *ret_value,
                         asim_err *err)
{
    asim_torch_records *r = ctx;
    asim_torch_range range = {0};
    uint64_t index = 0, first, second;
    uint32_t found;
    *ret_value = count ? other(OPAQUE, 0) : asim_pickle_make(RANGE, 0);
    if (count == 0)
        return ASIM_OK;
    unsigned tag = asim_pickle_tag(runs[0].a);
    if (tag == FRAME) {
        asim_code code = asim_torch_stack(r, runs, count, &found, err);
        if (code || found != ASIM_NO_INDEX) {
            *ret_value = asim_pickle_make(STACK, found);
            return code;
        }
    }
    bool uniform = true;
    for (size_t i = 1; i < count && uniform; i++)
        uniform = asim_pickle_tag(runs[i].a) == tag;
    asim_code code = ASIM_OK;
    if (is_other(runs[0].a, OWNER, &index)) {
        *ret_value = runs[0].a;
        return ASIM_OK;
    }
    if (!uniform) {
        for (size_t i = 0; i < count; i++)
            if (asim_pickle_tag(runs[i].a) == ENTRY)
                return BAD("a list mixes history entries with other things");
        return ASIM_OK;
    }
    switch (tag) {
    case ENTRY:
    case BLOCK:
    case SEGMENT:
        if (count > 1)
            return BAD("a list holds the same %s twice, or one of another list", tag == ENTRY
                                                                                     ? "history entry"
                                                                                 : tag == BLOCK ? "block"
                                                                                                : "segment");
        range = (asim_torch_range){asim_pickle_payload(runs[0].a), runs[0].b, (uint8_t)tag};
        break;
    case RANGE:
        range = (asim_torch_range){r->range_count, count, RANGE};
        for (size_t i = 0; i < count && !code; i++)
            code = add_range(r, r->ranges[asim_pickle_payload(runs[i].a)], &index, err);
        break;
    case ASIM_PICKLE_INT: /* a pool id written as a list */
        if (count != 2 || !asim_pickle_unsigned(r->pickle, runs[0].a, &first) ||
            !asim_pickle_unsigned(r->pickle, runs[1].a, &second))
            return ASIM_OK;
        code = asim_torch_pair(r, first, second, &found, err);
        *ret_value = other(PAIR, found);
        return code;
    default:
        return ASIM_OK;
    }
    if (!code)
        code = add_range(r, range, &index, err);
    *ret_value = asim_pickle_make(RANGE, index);
    return code;
}

static asim_code on_tuple(void *ctx, const asim_pickle_value *items, size_t count,
                          asim_pickle_value *ret_value, asim_err *err)
{
    asim_torch_records *r = ctx;
    uint64_t first, second;
    uint32_t pair;
    *ret_value = other(OPAQUE, 0);
    if (count != 2 || !asim_pickle_unsigned(r->pickle, items[0], &first) ||
        !asim_pickle_unsigned(r->pickle, items[1], &second))
        return ASIM_OK;
    asim_code code = asim_torch_pair(r, first, second, &pair, err);
    if (!code)
        *ret_value = other(PAIR, pair);
    return code;
}

static asim_code prepare(asim_torch_records *r, const asim_hostmem *mem, asim_err *err)
{
    static const char *const words[] = {
#define X(word) #word,
        WORDS(X)
#undef X
            [EMPTY_STRING] = "",
        [NOT_AVAILABLE] = "N/A",
    };
    r->mem = mem;
    asim_strtab_init(&r->strings, mem);
    asim_torch_entries_init(&r->entries, mem);
    asim_idmap_init(&r->frame_index, mem);
    asim_idmap_init(&r->stack_index, mem);
    asim_idmap_init(&r->pair_index, mem);
    asim_idmap_init(&r->pool_index, mem);
    asim_idmap_init(&r->route_index, mem);
    r->settings.conf = ASIM_NO_INDEX;
    r->settings.max_split_size = UINT64_MAX;
    asim_code code = ASIM_OK;
    for (uint32_t i = 0, at; i < sizeof words / sizeof *words && !code; i++)
        code = asim_strtab_add(&r->strings, words[i], strlen(words[i]), &at, err);
    uint64_t empty;
    if (!code) /* range 0 is the empty list, pool 0 the default one */
        code = add_range(r, (asim_torch_range){0}, &empty, err);
    if (!code)
        code = asim_mem_grow(mem, (void **)&r->pools, &r->pool_capacity, 1, sizeof *r->pools, err);
    if (!code)
        r->pools[r->pool_count++] = (asim_torch_pool){0, 0};
    return code;
}

asim_code asim_torch_records_read(asim_torch_records *r, const asim_input *input, const asim_hostmem *mem,
                                  asim_err *err)
{
    const asim_pickle_client client = {
        .dict = on_dict,
        .list = on_list,
        .tuple = on_tuple,
        .strings = &r->strings,
        .series = 1u << ENTRY | 1u << BLOCK | 1u << SEGMENT,
        .ctx = r,
    };
    asim_pickle_value top = 0;
    uint64_t index;
    bool end = true;
    asim_code code = prepare(r, mem, err);
    if (!code)
        code = asim_pickle_new(input, &client, mem, &r->pickle, err);
    if (!code)
        code = asim_pickle_run(r->pickle, &top, err);
    if (!code)
        code = asim_pickle_at_end(r->pickle, &end, err);
    asim_pickle_free(r->pickle); /* and with it the memo, before anything else is built */
    r->pickle = NULL;
    if (code)
        return code;
    r->bytes_follow = !end;
    if (is_other(top, TOP, &index))
        return ASIM_OK;
    r->bare = true;
    if (asim_pickle_tag(top) == RANGE)
        r->segment_range = r->ranges[asim_pickle_payload(top)];
    if (asim_pickle_tag(top) != RANGE || (r->segment_range.count && r->segment_range.tag != SEGMENT))
        return BAD("a pickle, but not of a memory snapshot: neither a dict with 'segments' or "
                   "'device_traces' nor a list of segments");
    return ASIM_OK;
}

void asim_torch_records_fini(asim_torch_records *r)
{
    if (!r->mem)
        return;
    asim_strtab_fini(&r->strings);
    asim_torch_entries_fini(&r->entries);
    asim_idmap_fini(&r->frame_index);
    asim_idmap_fini(&r->stack_index);
    asim_idmap_fini(&r->pair_index);
    asim_idmap_fini(&r->pool_index);
    asim_idmap_fini(&r->route_index);
#define DROP(array, capacity) asim_mem_free(r->mem, r->array, r->capacity, sizeof *r->array)
    DROP(frames, frame_capacity);
    DROP(stack_frames, stack_frame_capacity);
    DROP(stacks, stack_capacity);
    DROP(pools, pool_capacity);
    DROP(pairs, pair_capacity);
    DROP(routes, route_capacity);
    DROP(blocks, block_capacity);
    DROP(segments, segment_capacity);
    DROP(annotations, annotation_capacity);
    DROP(owners, owner_capacity);
    DROP(ranges, range_capacity);
#undef DROP
    r->mem = NULL;
}

uint64_t asim_torch_trace(const asim_torch_records *r, size_t device, uint64_t *ret_first)
{
    if (device >= r->trace_ranges.count)
        return 0;
    const asim_torch_range *range = &r->ranges[r->trace_ranges.first + device];
    *ret_first = range->first;
    return range->count;
}
