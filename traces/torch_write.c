#include "traces/torch_write.h"

#include "traces/pickle_write.h"
#include "traces/torch_layout.h"

#include <stdio.h>
#include <stdlib.h>

/* Texts of the layout: written once, then fetched (R161). */
#define WORDS(X)                                                                                             \
    X(SEGMENTS, "segments")                                                                                  \
    X(DEVICE_TRACES, "device_traces")                                                                        \
    X(ALLOCATOR_SETTINGS, "allocator_settings")                                                              \
    X(EXTERNAL_ANNOTATIONS, "external_annotations")                                                          \
    X(HOST_SEGMENTS, "host_segments")                                                                        \
    X(HOST_TRACES, "host_traces")                                                                            \
    X(DEVICE, "device")                                                                                      \
    X(ADDRESS, "address")                                                                                    \
    X(TOTAL_SIZE, "total_size")                                                                              \
    X(ALLOCATED_SIZE, "allocated_size")                                                                      \
    X(ACTIVE_SIZE, "active_size")                                                                            \
    X(REQUESTED_SIZE, "requested_size")                                                                      \
    X(STREAM, "stream")                                                                                      \
    X(SEGMENT_TYPE, "segment_type")                                                                          \
    X(SEGMENT_POOL_ID, "segment_pool_id")                                                                    \
    X(IS_EXPANDABLE, "is_expandable")                                                                        \
    X(FRAMES, "frames")                                                                                      \
    X(BLOCKS, "blocks")                                                                                      \
    X(SIZE, "size")                                                                                          \
    X(STATE, "state")                                                                                        \
    X(SMALL, "small")                                                                                        \
    X(LARGE, "large")                                                                                        \
    X(INACTIVE, "inactive")                                                                                  \
    X(ACTIVE_ALLOCATED, "active_allocated")                                                                  \
    X(ACTIVE_PENDING_FREE, "active_pending_free")                                                            \
    X(ACTION, "action")                                                                                      \
    X(ADDR, "addr")                                                                                          \
    X(DEVICE_FREE, "device_free")                                                                            \
    X(TIME_US, "time_us")                                                                                    \
    X(COMPILE_CONTEXT, "compile_context")                                                                    \
    X(NO_CONTEXT, "N/A")                                                                                     \
    X(USER_METADATA, "user_metadata")                                                                        \
    X(POOL_ID, "pool_id")                                                                                    \
    X(EMPTY, "")                                                                                             \
    X(ALLOC, "alloc")                                                                                        \
    X(FREE_REQUESTED, "free_requested")                                                                      \
    X(FREE_COMPLETED, "free_completed")                                                                      \
    X(SEGMENT_ALLOC, "segment_alloc")                                                                        \
    X(SEGMENT_FREE, "segment_free")                                                                          \
    X(SEGMENT_MAP, "segment_map")                                                                            \
    X(SEGMENT_UNMAP, "segment_unmap")                                                                        \
    X(OOM, "oom")                                                                                            \
    X(NAME, "name")                                                                                          \
    X(FILENAME, "filename")                                                                                  \
    X(LINE, "line")                                                                                          \
    X(STAGE, "stage")                                                                                        \
    X(START, "START")                                                                                        \
    X(END, "END")

enum {
#define X(name, text) WORD_##name,
    WORDS(X)
#undef X
    WORD_COUNT
};

static const char *const words[] = {
#define X(name, text) text,
    WORDS(X)
#undef X
};

#define NONE UINT32_MAX

typedef struct layout { /* what a release writes (sections 20.3 and 21) */
    bool bare_list;     /* 1.13: a list of segments */
    bool requested;     /* requested sizes */
    bool addresses;     /* of blocks; pool ids, expandable flags, frames */
    bool times, settings, annotations, compile_context, user_metadata, pool_ids, host;
    bool reuse_setting;
} layout;

typedef struct writer {
    const asim_torch_out *in;
    const asim_hostmem *mem;
    layout layout;
    asim_pickle_out out;
    asim_pickle_batch batches[8]; /* of the open containers, innermost last */
    int depth;
    /* Memo numbers, or NONE. */
    uint32_t words[WORD_COUNT];
    uint32_t characters[128]; /* texts of one byte, which Python keeps once each */
    uint32_t no_frames;
    uint32_t *strings, *frames, *stacks;
} writer;

/* --- containers: the number of their items is given when they begin --- */

static void begin(writer *w, uint64_t count, bool list)
{
    w->batches[w->depth++] = asim_pickle_batch_of(count, list);
}

static uint32_t begin_dict(writer *w, uint64_t count)
{
    uint32_t memo = asim_pickle_out_dict(&w->out);
    begin(w, count, false);
    return memo;
}

static uint32_t begin_list(writer *w, uint64_t count)
{
    uint32_t memo = asim_pickle_out_list(&w->out);
    begin(w, count, true);
    return memo;
}

static void before(writer *w)
{
    asim_pickle_out_before(&w->out, &w->batches[w->depth - 1]);
}

static void after(writer *w)
{
    asim_pickle_out_after(&w->out, &w->batches[w->depth - 1]);
}

static void end(writer *w)
{
    w->depth--;
}

/* --- values --- */

static void once(writer *w, uint32_t *memo, const char *text, size_t length)
{
    if (length == 1 && (unsigned char)text[0] < 128)
        memo = &w->characters[(unsigned char)text[0]];
    if (*memo == NONE)
        *memo = asim_pickle_out_text(&w->out, text, length);
    else
        asim_pickle_out_get(&w->out, *memo);
}

static void word(writer *w, int number)
{
    once(w, &w->words[number], words[number], strlen(words[number]));
}

static void string(writer *w, uint32_t number)
{
    const asim_string *text = &w->in->trace->strings[number];
    if (text->length == 0)
        word(w, WORD_EMPTY);
    else
        once(w, &w->strings[number], text->text, text->length);
}

static void key(writer *w, int number)
{
    before(w);
    word(w, number);
}

static void key_number(writer *w, int number, uint64_t value)
{
    key(w, number);
    asim_pickle_out_unsigned(&w->out, value);
    after(w);
}

static void key_word(writer *w, int number, int value)
{
    key(w, number);
    word(w, value);
    after(w);
}

static void key_bool(writer *w, int number, bool value)
{
    key(w, number);
    asim_pickle_out_bool(&w->out, value);
    after(w);
}

static void key_pool(writer *w, int number, asim_torch_out_pool pool)
{
    key(w, number);
    asim_pickle_out_pair(&w->out, pool.first, pool.second);
    after(w);
}

static void frame(writer *w, uint32_t number)
{
    const asim_frame *f = &w->in->trace->frames[number];
    if (w->frames[number] != NONE) {
        asim_pickle_out_get(&w->out, w->frames[number]);
        return;
    }
    w->frames[number] = begin_dict(w, 3);
    key(w, WORD_NAME);
    string(w, f->function);
    after(w);
    key(w, WORD_FILENAME);
    string(w, f->file);
    after(w);
    key_number(w, WORD_LINE, f->line);
    end(w);
}

static bool has_stack(const writer *w, uint32_t stack)
{
    return stack != ASIM_NO_INDEX && w->in->trace->stack_table[stack].count > 0;
}

static void key_frames(writer *w, uint32_t number)
{
    const asim_trace *trace = w->in->trace;
    bool none = !has_stack(w, number);
    uint32_t *memo = none ? &w->no_frames : &w->stacks[number];
    key(w, WORD_FRAMES);
    if (*memo != NONE) {
        asim_pickle_out_get(&w->out, *memo);
    } else {
        const asim_stack stack = none ? (asim_stack){0, 0} : trace->stack_table[number];
        *memo = begin_list(w, stack.count);
        for (uint32_t i = 0; i < stack.count; i++) {
            before(w);
            frame(w, trace->stack_frames[stack.first + i]);
            after(w);
        }
        end(w);
    }
    after(w);
}

/* --- segments --- */

static void block(writer *w, const asim_torch_out_block *b, uint64_t address)
{
    static const int states[] = {[ASIM_BLOCK_FREE] = WORD_INACTIVE,
                                 [ASIM_BLOCK_LIVE] = WORD_ACTIVE_ALLOCATED,
                                 [ASIM_BLOCK_PENDING] = WORD_ACTIVE_PENDING_FREE};
    const layout *l = &w->layout;
    begin_dict(w, 2 + (uint64_t)l->requested + (l->addresses ? 2 : 0));
    if (l->addresses)
        key_number(w, WORD_ADDRESS, address);
    key_number(w, WORD_SIZE, b->size);
    if (l->requested)
        key_number(w, WORD_REQUESTED_SIZE, b->requested);
    key_word(w, WORD_STATE, states[b->state]);
    if (l->addresses)
        key_frames(w, b->stack);
    end(w);
}

static void key_blocks(writer *w, const asim_torch_out_segment *s)
{
    uint64_t address = s->address;
    key(w, WORD_BLOCKS);
    begin_list(w, s->block_count);
    for (size_t i = 0; i < s->block_count; i++) {
        const asim_torch_out_block *b = &w->in->blocks[s->first_block + i];
        before(w);
        block(w, b, address);
        after(w);
        address += b->size;
    }
    end(w);
    after(w);
}

static void segment(writer *w, const asim_torch_out_segment *s)
{
    const layout *l = &w->layout;
    uint64_t total = 0, allocated = 0, active = 0, requested = 0;
    for (size_t i = 0; i < s->block_count; i++) { /* R148 */
        const asim_torch_out_block *b = &w->in->blocks[s->first_block + i];
        total += b->size;
        allocated += b->state == ASIM_BLOCK_LIVE ? b->size : 0;
        active += b->state != ASIM_BLOCK_FREE ? b->size : 0;
        requested += b->state != ASIM_BLOCK_FREE ? b->requested : 0;
    }
    begin_dict(w, 8 + (uint64_t)l->requested + (l->addresses ? 3 : 0));
    key_number(w, WORD_DEVICE, s->device);
    key_number(w, WORD_ADDRESS, s->address);
    key_number(w, WORD_TOTAL_SIZE, total);
    key_number(w, WORD_ALLOCATED_SIZE, allocated);
    key_number(w, WORD_ACTIVE_SIZE, active);
    if (l->requested)
        key_number(w, WORD_REQUESTED_SIZE, requested);
    key_number(w, WORD_STREAM, s->stream);
    key_word(w, WORD_SEGMENT_TYPE, s->small ? WORD_SMALL : WORD_LARGE);
    bool late = has_stack(w, s->stack); /* R147: frames that say something come after the blocks */
    if (l->addresses) {
        key_pool(w, WORD_SEGMENT_POOL_ID, s->pool);
        key_bool(w, WORD_IS_EXPANDABLE, s->expandable);
        if (!late)
            key_frames(w, s->stack);
    }
    key_blocks(w, s);
    if (l->addresses && late)
        key_frames(w, s->stack);
    end(w);
}

static void segments(writer *w)
{
    begin_list(w, w->in->segment_count);
    for (size_t i = 0; i < w->in->segment_count; i++) {
        before(w);
        segment(w, &w->in->segments[i]);
        after(w);
    }
    end(w);
}

/* --- history --- */

static void entry(writer *w, const asim_torch_out_entry *e)
{
    static const int actions[] = {
        [ASIM_TORCH_OUT_ALLOC] = WORD_ALLOC,
        [ASIM_TORCH_OUT_FREE_REQUESTED] = WORD_FREE_REQUESTED,
        [ASIM_TORCH_OUT_FREE_COMPLETED] = WORD_FREE_COMPLETED,
        [ASIM_TORCH_OUT_SEGMENT_ALLOC] = WORD_SEGMENT_ALLOC,
        [ASIM_TORCH_OUT_SEGMENT_FREE] = WORD_SEGMENT_FREE,
        [ASIM_TORCH_OUT_SEGMENT_MAP] = WORD_SEGMENT_MAP,
        [ASIM_TORCH_OUT_SEGMENT_UNMAP] = WORD_SEGMENT_UNMAP,
        [ASIM_TORCH_OUT_OOM] = WORD_OOM,
    };
    const layout *l = &w->layout;
    bool timed = l->times && w->in->timed, framed = has_stack(w, e->stack);
    begin_dict(w, 4 + (uint64_t)timed + (uint64_t)l->compile_context + (uint64_t)l->user_metadata +
                      (uint64_t)l->pool_ids + (uint64_t)framed);
    key_word(w, WORD_ACTION, actions[e->action]);
    key_number(w, e->action == ASIM_TORCH_OUT_OOM ? WORD_DEVICE_FREE : WORD_ADDR, e->address);
    key_number(w, WORD_SIZE, e->size);
    key_number(w, WORD_STREAM, e->stream);
    if (timed)
        key_number(w, WORD_TIME_US, e->time_us);
    if (l->compile_context)
        key_word(w, WORD_COMPILE_CONTEXT, WORD_NO_CONTEXT);
    if (l->user_metadata)
        key_word(w, WORD_USER_METADATA, WORD_EMPTY);
    if (l->pool_ids)
        key_pool(w, WORD_POOL_ID, e->pool);
    if (framed) /* R144 */
        key_frames(w, e->stack);
    end(w);
}

static void history(writer *w)
{
    const asim_torch_out *in = w->in;
    uint64_t counts[ASIM_DEVICES_MAX] = {0};
    asim_torch_out_entry e;
    for (uint64_t i = 0; i < in->entry_count; i++) {
        in->entry(in->ctx, i, &e);
        counts[e.device]++;
    }
    begin_list(w, in->device_count);
    for (uint32_t device = 0; device < in->device_count; device++) {
        before(w);
        begin_list(w, counts[device]);
        for (uint64_t i = 0, left = counts[device]; left > 0 && !w->out.err.code; i++) {
            in->entry(in->ctx, i, &e);
            if (e.device != device)
                continue;
            before(w);
            entry(w, &e);
            after(w);
            left--;
        }
        end(w);
        after(w);
    }
    end(w);
}

/* --- settings and annotations --- */

static void text_key(writer *w, const char *name)
{
    uint32_t fresh = NONE;
    before(w);
    once(w, &fresh, name, strlen(name));
}

static void settings(writer *w)
{
    const asim_torch_out_settings *s = w->in->settings;
    const layout *l = &w->layout;
    begin_dict(w, 8 + (uint64_t)l->reuse_setting);
    text_key(w, "PYTORCH_CUDA_ALLOC_CONF");
    uint32_t fresh = NONE;
    once(w, s->conf[0] ? &fresh : &w->words[WORD_EMPTY], s->conf, strlen(s->conf));
    after(w);
    text_key(w, "max_split_size");
    asim_pickle_out_signed(&w->out, s->max_split_size);
    after(w);
    text_key(w, "garbage_collection_threshold");
    asim_pickle_out_double(&w->out, s->gc_threshold);
    after(w);
    text_key(w, "expandable_segments");
    asim_pickle_out_bool(&w->out, s->expandable);
    after(w);
    text_key(w, "pinned_num_register_threads");
    asim_pickle_out_unsigned(&w->out, 1);
    after(w);
    text_key(w, "release_lock_on_cudamalloc");
    asim_pickle_out_bool(&w->out, false);
    after(w);
    text_key(w, "pinned_use_cuda_host_register");
    asim_pickle_out_bool(&w->out, false);
    after(w);
    if (l->reuse_setting) {
        text_key(w, "graph_capture_record_stream_reuse");
        asim_pickle_out_bool(&w->out, false);
        after(w);
    }
    text_key(w, "roundup_power2_divisions");
    begin_dict(w, ASIM_TORCH_OUT_DIVISIONS);
    for (unsigned i = 0; i < ASIM_TORCH_OUT_DIVISIONS; i++) {
        char name[16];
        snprintf(name, sizeof name, "%u", 1U << i);
        text_key(w, name);
        asim_pickle_out_unsigned(&w->out, s->divisions[i]);
        after(w);
    }
    end(w);
    after(w);
    end(w);
}

static void annotation(writer *w, const asim_torch_out_annotation *a)
{
    bool staged = a->flags & (ASIM_MARK_BEGIN | ASIM_MARK_END);
    begin_dict(w, staged ? 4 : 3);
    if (staged)
        key_word(w, WORD_STAGE, a->flags & ASIM_MARK_BEGIN ? WORD_START : WORD_END);
    key(w, WORD_NAME);
    string(w, a->name);
    after(w);
    key_number(w, WORD_DEVICE, a->device);
    key_number(w, WORD_TIME_US, a->time_us);
    end(w);
}

static void annotations(writer *w)
{
    begin_list(w, w->in->annotation_count);
    for (size_t i = 0; i < w->in->annotation_count; i++) {
        before(w);
        annotation(w, &w->in->annotations[i]);
        after(w);
    }
    end(w);
}

/* --- the whole --- */

static void top_level(writer *w)
{
    const layout *l = &w->layout;
    bool with_settings = l->settings && w->in->settings;
    if (l->bare_list) {
        segments(w);
        return;
    }
    begin_dict(w, 2 + (uint64_t)with_settings + (uint64_t)l->annotations + (l->host ? 2 : 0));
    key(w, WORD_SEGMENTS);
    segments(w);
    after(w);
    key(w, WORD_DEVICE_TRACES);
    history(w);
    after(w);
    if (with_settings) {
        key(w, WORD_ALLOCATOR_SETTINGS);
        settings(w);
        after(w);
    }
    if (l->annotations) {
        key(w, WORD_EXTERNAL_ANNOTATIONS);
        annotations(w);
        after(w);
    }
    for (int i = 0; l->host && i < 2; i++) { /* the host's memory is not simulated */
        key(w, i == 0 ? WORD_HOST_SEGMENTS : WORD_HOST_TRACES);
        begin_list(w, 0);
        end(w);
        after(w);
    }
    end(w);
}

static layout layout_of(unsigned release)
{
    return (layout){
        .bare_list = release < ASIM_TORCH_SINCE_DICT,
        .requested = release >= ASIM_TORCH_SINCE_DICT,
        .addresses = release >= ASIM_TORCH_SINCE_ADDRESSES,
        .times = release >= ASIM_TORCH_SINCE_TIMES,
        .settings = release >= ASIM_TORCH_SINCE_SETTINGS,
        .annotations = release >= ASIM_TORCH_SINCE_ANNOTATIONS,
        .compile_context = release >= ASIM_TORCH_SINCE_CONTEXTS,
        .user_metadata = release >= ASIM_TORCH_SINCE_METADATA,
        .reuse_setting = release >= ASIM_TORCH_SINCE_REUSE_SETTING,
        .pool_ids = release >= ASIM_TORCH_SINCE_POOL_IDS,
        .host = release >= ASIM_TORCH_SINCE_HOST,
    };
}

unsigned asim_torch_release(const char *text)
{
    char *end;
    unsigned long major = strtoul(text, &end, 10);
    if (end == text || *end != '.')
        return ASIM_TORCH_NEWEST;
    const char *rest = end + 1;
    unsigned long minor = strtoul(rest, &end, 10);
    if (end == rest || (*end && *end != '.') || major < 1 || major > 2 || minor > 98)
        return ASIM_TORCH_NEWEST;
    return (unsigned)(major * 100 + minor);
}

static uint32_t *numbers(writer *w, uint32_t count)
{
    uint32_t *items = asim_mem_new(w->mem, (size_t)count + 1, sizeof *items);
    if (items)
        memset(items, 0xFF, ((size_t)count + 1) * sizeof *items);
    return items;
}

asim_code asim_torch_write(const char *path, const asim_torch_out *out, const asim_hostmem *mem,
                           asim_err *err)
{
    writer *w = asim_mem_new(mem, 1, sizeof *w);
    if (!w)
        return asim_fail_memory(err, sizeof *w);
    const asim_trace *trace = out->trace;
    w->in = out;
    w->mem = mem;
    w->layout = layout_of(out->release);
    memset(w->words, 0xFF, sizeof w->words);
    memset(w->characters, 0xFF, sizeof w->characters);
    w->no_frames = NONE;
    w->strings = numbers(w, trace->string_count);
    w->frames = numbers(w, trace->frame_count);
    w->stacks = numbers(w, trace->stack_count);
    asim_out_file *file = NULL;
    asim_code code = ASIM_OK;
    if (!w->strings || !w->frames || !w->stacks)
        code = asim_fail_memory(err, trace->string_count * sizeof *w->strings);
    if (!code)
        code = asim_out_file_open(path, mem, &file, err);
    if (!code) {
        asim_pickle_out_init(&w->out, file, mem);
        top_level(w);
        code = asim_pickle_out_finish(&w->out, err);
        asim_pickle_out_fini(&w->out);
    }
    if (!code)
        code = asim_out_file_commit(file, err);
    asim_out_file_close(file);
    asim_mem_free(mem, w->strings, (size_t)trace->string_count + 1, sizeof *w->strings);
    asim_mem_free(mem, w->frames, (size_t)trace->frame_count + 1, sizeof *w->frames);
    asim_mem_free(mem, w->stacks, (size_t)trace->stack_count + 1, sizeof *w->stacks);
    asim_mem_free(mem, w, 1, sizeof *w);
    return code;
}
