#include "tests/trace_sample.h"

#include "sim/rng.h"
#include "traces/native.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct feeder {
    const asim_sink *sink;
    asim_err *err;
    asim_code code;
    uint64_t time_ns;
    uint32_t stack;
} feeder;

static uint32_t string(feeder *f, const char *text)
{
    uint32_t index = 0;
    if (!f->code)
        f->code = f->sink->ops->string(f->sink->ctx, text, strlen(text), &index, f->err);
    return index;
}

static void event_at(feeder *f, asim_event event, uint64_t address)
{
    asim_sink_event item = {event, f->time_ns, address, f->stack};
    if (!f->code)
        f->code = f->sink->ops->event(f->sink->ctx, &item, f->err);
}

static void event(feeder *f, asim_event event)
{
    event_at(f, event, ASIM_NO_ADDRESS);
    f->time_ns += 1500;
}

static uint16_t lane(feeder *f, uint16_t device, uint64_t stream, uint16_t pool)
{
    uint32_t index = 0;
    asim_lane item = {.stream = stream, .device = device, .pool = pool};
    if (!f->code)
        f->code = f->sink->ops->lane(f->sink->ctx, &item, &index, f->err);
    return (uint16_t)index;
}

static void call(feeder *f, asim_call_kind kind, uint16_t on, uint64_t address, uint64_t size)
{
    asim_recorded_call item = {.address = address, .size = size, .lane = on, .kind = (uint8_t)kind};
    if (!f->code)
        f->code = f->sink->ops->call(f->sink->ctx, &item, f->err);
}

asim_code sample_feed(const asim_sink *sink, asim_err *err)
{
    feeder f = {.sink = sink, .err = err, .stack = ASIM_NO_INDEX};
    uint32_t name = string(&f, "NVIDIA H100 80GB HBM3"), index;
    uint32_t file = string(&f, "/srv/train.py"), step = string(&f, "step"),
             odd = string(&f, "two words \"\\\n\xC3\xA9");
    uint32_t conf = string(&f, "max_split_size_mb:128"), empty = string(&f, "");
    asim_frame frames[3] = {{step, file, 17}, {odd, file, 200000}, {empty, file, 0}};
    uint32_t stacks[3] = {0, 0, 0};
    for (size_t i = 0; i < 3 && !f.code; i++)
        f.code = sink->ops->stack(sink->ctx, frames + i, 3 - i, &stacks[i], err);
    asim_trace_device devices[2] = {{name, UINT64_C(85899345920)}, {ASIM_NO_INDEX, 0}};
    for (size_t i = 0; i < 2 && !f.code; i++)
        f.code = sink->ops->device(sink->ctx, &devices[i], &index, err);
    uint16_t plain = lane(&f, 0, 0, 0), side = lane(&f, 0, UINT64_C(0x55d0c0ffee00), 0);
    uint16_t graph = lane(&f, 0, 0, 3), second = lane(&f, 1, 7, 0);
    if (!f.code)
        f.code = sink->ops->source(sink->ctx, "hand", err);
    if (!f.code)
        f.code = sink->ops->settings(sink->ctx, "expandable_segments:True", err);
    if (!f.code)
        f.code = sink->ops->start(sink->ctx, UINT64_C(1700000000123456789), err);
    if (!f.code)
        f.code = sink->ops->note(sink->ctx, "streams are not recorded", err);
    if (!f.code)
        f.code = sink->ops->note(sink->ctx, "written by hand", err);

    asim_opening_segment segments[2] = {
        {.address = UINT64_C(0x7f0000000000), .size = 2 << 20, .lane = plain, .small = 1, .stack = stacks[0]},
        {.address = UINT64_C(0x7f1000000000),
         .size = 20 << 20,
         .lane = side,
         .expandable = 1,
         .stack = ASIM_NO_INDEX},
    };
    asim_opening_block blocks[5] = {
        {.size = 512, .requested = 100, .id = 0, .stack = stacks[1], .state = ASIM_BLOCK_LIVE},
        {.size = (2 << 20) - 512, .id = ASIM_NO_INDEX, .stack = ASIM_NO_INDEX, .state = ASIM_BLOCK_FREE},
        {.size = 4 << 20, .requested = 0, .id = 2, .stack = ASIM_NO_INDEX, .state = ASIM_BLOCK_PENDING},
        {.size = 8 << 20, .requested = 8 << 20, .id = 1, .stack = ASIM_NO_INDEX, .state = ASIM_BLOCK_LIVE},
        {.size = 8 << 20, .id = ASIM_NO_INDEX, .stack = stacks[2], .state = ASIM_BLOCK_FREE},
    };
    for (size_t i = 0; i < 2 && !f.code; i++)
        f.code = sink->ops->opening(sink->ctx, &segments[i], blocks + 2 * i, 2 + i, err);

    double half = 0.625;
    uint64_t half_bits;
    memcpy(&half_bits, &half, sizeof half_bits);
    event(&f, (asim_event){
                  .kind = ASIM_EV_MARK, .flags = ASIM_MARK_BEGIN, .id = step, .size = ASIM_MARK_ITERATION});
    f.stack = stacks[0];
    call(&f, ASIM_CALL_SEGMENT_ALLOC, plain, UINT64_C(0x7f2000000000), 2 << 20);
    event_at(&f, (asim_event){.kind = ASIM_EV_ALLOC, .lane = plain, .id = 3, .size = 1000},
             UINT64_C(0x7f0000000200));
    event_at(
        &f,
        (asim_event){.kind = ASIM_EV_ALLOC, .flags = ASIM_ALLOC_GROWS, .lane = second, .id = 4, .size = 0},
        ASIM_NO_ADDRESS);
    f.stack = stacks[1];
    event(&f, (asim_event){.kind = ASIM_EV_USE, .lane = side, .id = 3});
    event(&f, (asim_event){.kind = ASIM_EV_FREE, .flags = ASIM_FREE_PENDING, .id = 3});
    event(&f, (asim_event){.kind = ASIM_EV_FREE_DONE, .id = 2});
    event(&f, (asim_event){.kind = ASIM_EV_FREE, .id = 0});
    f.stack = ASIM_NO_INDEX;
    event_at(&f, (asim_event){.kind = ASIM_EV_ALLOC, .lane = plain, .id = 0, .size = 1000},
             UINT64_C(0x7f0000000000));
    event(&f, (asim_event){.kind = ASIM_EV_FREE_DONE, .id = 3});
    event(&f, (asim_event){.kind = ASIM_EV_RESIZE, .id = 4, .size = UINT64_C(3) << 30});
    event(&f, (asim_event){.kind = ASIM_EV_ACCESS, .lane = second, .id = 4, .size = 4096});
    event(&f, (asim_event){.kind = ASIM_EV_PREFIX, .id = 4, .size = 512});
    event(&f, (asim_event){.kind = ASIM_EV_KERNEL, .lane = side, .size = 123456});
    event(&f, (asim_event){.kind = ASIM_EV_SYNC, .lane = side, .id = ASIM_SYNC_STREAM});
    event(&f, (asim_event){.kind = ASIM_EV_SYNC, .lane = second, .id = ASIM_SYNC_DEVICE});
    event(&f, (asim_event){.kind = ASIM_EV_SYNC, .lane = ASIM_LANE_ALL, .id = ASIM_SYNC_ALL});
    event(&f, (asim_event){.kind = ASIM_EV_TRIM, .lane = ASIM_LANE_ALL});
    event(&f, (asim_event){.kind = ASIM_EV_TRIM, .lane = graph});
    event(&f, (asim_event){.kind = ASIM_EV_POOL_RETAIN,
                           .flags = ASIM_POOL_USE_ON_OOM | ASIM_POOL_NO_SPLIT,
                           .lane = graph});
    event(&f, (asim_event){.kind = ASIM_EV_POOL_BEGIN, .flags = ASIM_POOL_CAPTURE, .lane = graph});
    event(&f, (asim_event){.kind = ASIM_EV_POOL_JOIN, .lane = graph});
    call(&f, ASIM_CALL_OOM, plain, 512, UINT64_C(1) << 40);
    call(&f, ASIM_CALL_MAP, graph, UINT64_C(0x7f3000000000), 20 << 20);
    event_at(
        &f,
        (asim_event){
            .kind = ASIM_EV_ALLOC, .flags = ASIM_ALLOC_UNMOVABLE, .lane = graph, .id = 5, .size = 20 << 20},
        UINT64_C(0x7f3000000000));
    event(&f, (asim_event){.kind = ASIM_EV_POOL_END, .lane = graph});
    event(&f, (asim_event){.kind = ASIM_EV_POOL_BEGIN, .flags = ASIM_POOL_ALL, .lane = graph});
    event(&f, (asim_event){.kind = ASIM_EV_POOL_END, .lane = graph});
    event(&f, (asim_event){.kind = ASIM_EV_POOL_ENTER, .lane = graph});
    event(&f, (asim_event){.kind = ASIM_EV_POOL_LEAVE, .lane = graph});
    event(&f, (asim_event){.kind = ASIM_EV_POOL_RELEASE, .lane = graph});
    event(&f, (asim_event){.kind = ASIM_EV_SETTINGS, .id = conf});
    event(&f, (asim_event){.kind = ASIM_EV_FRACTION, .lane = plain, .size = half_bits});
    event(&f, (asim_event){.kind = ASIM_EV_STATS_RESET, .lane = second, .id = 1});
    event(&f, (asim_event){
                  .kind = ASIM_EV_MARK, .flags = ASIM_MARK_END, .id = step, .size = ASIM_MARK_ITERATION});
    event(&f, (asim_event){.kind = ASIM_EV_MARK, .id = odd, .size = ASIM_MARK_REQUEST});
    event(&f, (asim_event){.kind = ASIM_EV_FREE, .id = 1});
    call(&f, ASIM_CALL_UNMAP, graph, UINT64_C(0x7f3000000000), 20 << 20);
    call(&f, ASIM_CALL_SEGMENT_FREE, ASIM_LANE_ALL, UINT64_C(0x7f2000000000), 2 << 20);
    return f.code;
}

asim_code sample_feed_random(const asim_sink *sink, uint64_t seed, uint64_t count, bool rich, asim_err *err)
{
    enum {
        LIVE_MAX = 4000
    };
    feeder f = {.sink = sink, .err = err, .stack = ASIM_NO_INDEX};
    uint32_t index, name = string(&f, "device"), stacks[40];
    asim_trace_device device = {name, UINT64_C(80) << 30};
    f.code = f.code ? f.code : sink->ops->device(sink->ctx, &device, &index, err);
    uint16_t lanes[3];
    for (uint16_t i = 0; i < 3; i++)
        lanes[i] = lane(&f, 0, i * UINT64_C(0x1000), 0);
    for (uint32_t i = 0; rich && i < 40 && !f.code; i++) {
        char text[32];
        snprintf(text, sizeof text, "function_%" PRIu32, i);
        asim_frame frame = {string(&f, text), name, i};
        f.code = f.code ? f.code : sink->ops->stack(sink->ctx, &frame, 1, &stacks[i], err);
    }
    asim_rng rng = {seed};
    static const uint64_t sizes[8] = {512, 1024, 40000, 1 << 20, 5 << 20, 33 << 20, 2048, 7};
    uint32_t *live = malloc(LIVE_MAX * sizeof *live), *idle = malloc(LIVE_MAX * sizeof *idle);
    uint32_t live_count = 0, idle_count = 0, slots = 0;
    for (uint64_t i = 0; i < count && !f.code; i++) {
        f.time_ns += rich ? 1000 * asim_rng_below(&rng, 50) : 0;
        f.stack = rich && asim_rng_below(&rng, 5) ? stacks[asim_rng_below(&rng, 40)] : ASIM_NO_INDEX;
        uint64_t size =
            asim_rng_below(&rng, 4) ? sizes[asim_rng_below(&rng, 8)] : 1 + asim_rng_below(&rng, 1 << 24);
        uint64_t address =
            rich ? UINT64_C(0x7f0000000000) + 512 * asim_rng_below(&rng, 100000) : ASIM_NO_ADDRESS;
        if (live_count == 0 || (live_count < LIVE_MAX && asim_rng_below(&rng, 2000) >= live_count / 2)) {
            uint32_t id = idle_count ? idle[--idle_count] : slots++;
            live[live_count++] = id;
            event_at(
                &f,
                (asim_event){
                    .kind = ASIM_EV_ALLOC, .lane = lanes[asim_rng_below(&rng, 3)], .id = id, .size = size},
                address);
        } else if (asim_rng_below(&rng, 50) == 0) {
            event_at(&f, (asim_event){.kind = ASIM_EV_USE, .lane = lanes[2], .id = live[live_count - 1]},
                     ASIM_NO_ADDRESS);
        } else {
            uint32_t which = (uint32_t)asim_rng_below(&rng, live_count);
            uint32_t id = live[which];
            live[which] = live[--live_count];
            idle[idle_count++] = id;
            bool pending = asim_rng_below(&rng, 3) == 0 && i + 1 < count;
            event_at(&f, (asim_event){.kind = ASIM_EV_FREE, .flags = pending, .id = id}, ASIM_NO_ADDRESS);
            if (pending) {
                event_at(&f, (asim_event){.kind = ASIM_EV_FREE_DONE, .id = id}, ASIM_NO_ADDRESS);
                i++;
            }
        }
        if (rich && i % 1000 == 999)
            call(&f, ASIM_CALL_SEGMENT_ALLOC, lanes[0], UINT64_C(0x7f0000000000) + i * 4096, 2 << 20);
    }
    free(live);
    free(idle);
    return f.code;
}

static asim_trace *finish(asim_trace_builder *builder, asim_code code, asim_err *err)
{
    asim_trace *trace = NULL;
    asim_code last = asim_trace_builder_finish(builder, code ? NULL : &trace, code ? NULL : err);
    if (code || last) {
        fprintf(stderr, "sample: %s\n", err->message);
        abort();
    }
    return trace;
}

asim_trace *sample_new(void)
{
    asim_err err = ASIM_ERR_INIT;
    asim_trace_builder *builder;
    if (asim_trace_builder_new(asim_hostmem_libc(), &builder, &err))
        abort();
    asim_sink sink = asim_trace_builder_sink(builder);
    return finish(builder, sample_feed(&sink, &err), &err);
}

asim_trace *sample_random_new(uint64_t seed, uint64_t count, bool rich)
{
    asim_err err = ASIM_ERR_INIT;
    asim_trace_builder *builder;
    if (asim_trace_builder_new(asim_hostmem_libc(), &builder, &err))
        abort();
    asim_sink sink = asim_trace_builder_sink(builder);
    return finish(builder, sample_feed_random(&sink, seed, count, rich, &err), &err);
}

#define SAME(field)                                                                                          \
    do {                                                                                                     \
        if (a->field != b->field)                                                                            \
            return #field;                                                                                   \
    } while (0)
#define SAME_EACH(count, field)                                                                              \
    do {                                                                                                     \
        SAME(count);                                                                                         \
        for (size_t i = 0; i < a->count; i++)                                                                \
            SAME(field);                                                                                     \
    } while (0)
#define SAME_COLUMN(column)                                                                                  \
    do {                                                                                                     \
        if (!a->column != !b->column)                                                                        \
            return #column " is there or not";                                                               \
        if (a->column)                                                                                       \
            SAME_EACH(event_count, column[i]);                                                               \
    } while (0)

const char *sample_difference(const asim_trace *a, const asim_trace *b)
{
    SAME(digest);
    SAME(slot_count);
    SAME_EACH(event_count, events[i].kind);
    SAME_EACH(event_count, events[i].flags);
    SAME_EACH(event_count, events[i].lane);
    SAME_EACH(event_count, events[i].id);
    SAME_EACH(event_count, events[i].size);
    SAME_COLUMN(times_ns);
    SAME_COLUMN(recorded_addresses);
    SAME_COLUMN(stacks);
    SAME_EACH(lane_count, lanes[i].stream);
    SAME_EACH(lane_count, lanes[i].device);
    SAME_EACH(lane_count, lanes[i].pool);
    SAME_EACH(device_count, devices[i].name);
    SAME_EACH(device_count, devices[i].capacity);
    SAME_EACH(string_count, strings[i].length);
    for (uint32_t i = 0; i < a->string_count; i++)
        if (memcmp(a->strings[i].text, b->strings[i].text, a->strings[i].length + 1) != 0)
            return "strings[i].text";
    SAME_EACH(frame_count, frames[i].function);
    SAME_EACH(frame_count, frames[i].file);
    SAME_EACH(frame_count, frames[i].line);
    SAME_EACH(stack_frame_count, stack_frames[i]);
    SAME_EACH(stack_count, stack_table[i].first);
    SAME_EACH(stack_count, stack_table[i].count);
    SAME_EACH(opening_segment_count, opening_segments[i].address);
    SAME_EACH(opening_segment_count, opening_segments[i].size);
    SAME_EACH(opening_segment_count, opening_segments[i].first_block);
    SAME_EACH(opening_segment_count, opening_segments[i].block_count);
    SAME_EACH(opening_segment_count, opening_segments[i].lane);
    SAME_EACH(opening_segment_count, opening_segments[i].expandable);
    SAME_EACH(opening_segment_count, opening_segments[i].small);
    SAME_EACH(opening_segment_count, opening_segments[i].stack);
    SAME_EACH(opening_block_count, opening_blocks[i].size);
    SAME_EACH(opening_block_count, opening_blocks[i].requested);
    SAME_EACH(opening_block_count, opening_blocks[i].id);
    SAME_EACH(opening_block_count, opening_blocks[i].stack);
    SAME_EACH(opening_block_count, opening_blocks[i].state);
    SAME_EACH(call_count, calls[i].event);
    SAME_EACH(call_count, calls[i].address);
    SAME_EACH(call_count, calls[i].size);
    SAME_EACH(call_count, calls[i].lane);
    SAME_EACH(call_count, calls[i].kind);
    SAME(source);
    SAME(settings);
    SAME_EACH(note_count, notes[i]);
    SAME(start_unix_ns);
    return "";
}

static void *counting_resize(void *ctx, void *memory, size_t old_size, size_t new_size)
{
    sample_memory *counter = ctx;
    if (new_size > 0 && counter->requests++ == counter->refuse_at)
        return NULL;
    if (counter->bytes + (int64_t)new_size - (int64_t)old_size > counter->bytes_max)
        return NULL;
    void *moved = asim_hostmem_libc()->resize(NULL, memory, old_size, new_size);
    if (moved || new_size == 0)
        counter->bytes += (int64_t)new_size - (int64_t)old_size;
    return moved;
}

void sample_memory_init(sample_memory *memory, uint64_t refuse_at)
{
    *memory =
        (sample_memory){.mem = {counting_resize, memory}, .refuse_at = refuse_at, .bytes_max = INT64_MAX};
}
