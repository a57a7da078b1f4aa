/* How small and how fast the native trace format is.
 *
 *     bench_trace [--check] [--columns] [RECORDING...]
 *
 * For each recording: bytes an event, and how many times smaller than the unpacked recording the trace is,
 * with call stacks and without. Then, on a synthetic training run of several million events: events a second
 * written, decoded, and gone through by a bare loop that does nothing but decompress the same frames and cut
 * their bytes into varints. Each loop is repeated until it has run for a second in all; the best run counts.
 * The decoded trace has to have the digest of the written one, or the timing is void. --check: exit 1 if a
 * goal is missed.
 */
#include "sim/rng.h"
#include "traces/format.h"
#include "traces/input.h"
#include "traces/native.h"
#include "traces/torch_snapshot.h"
#include "traces/zframe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

static bool missed;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(asim_code code, const asim_err *err)
{
    if (code) {
        fprintf(stderr, "bench_trace: %s\n", err->message);
        exit((int)code);
    }
}

static void goal(const char *what, double value, const char *unit, double bound, bool at_least)
{
    bool met = at_least ? value >= bound : value <= bound;
    printf("  %-44s %10.2f %-12s goal: at %s %g, %s\n", what, value, unit, at_least ? "least" : "most", bound,
           met ? "met" : "MISSED");
    missed |= !met;
}

static asim_trace *import(const char *path, uint64_t *ret_bytes)
{
    asim_err err = ASIM_ERR_INIT;
    const asim_hostmem *mem = asim_hostmem_libc();
    asim_file_input *file;
    must(asim_file_input_open(path, mem, &file, &err), &err);
    asim_input input = asim_file_input_stream(file);
    char block[1 << 16];
    size_t length;
    *ret_bytes = 0;
    do {
        must(input.read(input.ctx, block, sizeof block, &length, &err), &err);
        *ret_bytes += length;
    } while (length);
    asim_file_input_close(file);
    must(asim_file_input_open(path, mem, &file, &err), &err);
    input = asim_file_input_stream(file);
    asim_trace_builder *builder;
    must(asim_trace_builder_new(mem, &builder, &err), &err);
    asim_sink sink = asim_trace_builder_sink(builder);
    must(asim_importer_torch_snapshot.import(&input, &sink, mem, &err), &err);
    asim_trace *trace;
    must(asim_trace_builder_finish(builder, &trace, &err), &err);
    asim_file_input_close(file);
    return trace;
}

static uint64_t write_trace(const asim_trace *trace, const char *path)
{
    asim_err err = ASIM_ERR_INIT;
    asim_trace_writer *writer;
    must(asim_trace_writer_open(path, asim_hostmem_libc(), &writer, &err), &err);
    asim_sink sink = asim_trace_writer_sink(writer);
    must(asim_trace_copy(trace, &sink, &err), &err);
    must(asim_trace_writer_close(writer, false, &err), &err);
    struct stat status;
    if (stat(path, &status) != 0)
        exit(5);
    return (uint64_t)status.st_size;
}

static uint8_t *slurp(const char *path, size_t *ret_length)
{
    FILE *file = fopen(path, "rb");
    struct stat status;
    if (!file || fstat(fileno(file), &status) != 0)
        exit(5);
    uint8_t *bytes = malloc((size_t)status.st_size + 1);
    *ret_length = bytes ? fread(bytes, 1, (size_t)status.st_size, file) : 0;
    fclose(file);
    return bytes;
}

/* Decompresses every frame and cuts the bytes into varints, whatever they mean. */
static uint64_t bare_pass(const uint8_t *file, size_t length, uint8_t *content, ZSTD_DCtx *context,
                          uint64_t *ret_bytes)
{
    void *values = NULL;
    size_t capacity = 0, count = 0;
    *ret_bytes = 0;
    for (size_t at = 0; at < length;) {
        size_t frame = ZSTD_findFrameCompressedSize(file + at, length - at);
        size_t size = ZSTD_decompressDCtx(context, content, ASIM_FRAME_CONTENT, file + at, frame);
        if (ZSTD_isError(frame) || ZSTD_isError(size) ||
            asim_mem_grow(asim_hostmem_libc(), &values, &capacity, count + size, sizeof(uint64_t), NULL))
            exit(4);
        asim_bytes in = {content, content + size};
        uint64_t *out = values;
        while (in.next < in.end)
            if (asim_take_varint(&in, &out[count]))
                count++;
            else
                in.next++;
        *ret_bytes += size;
        at += frame;
    }
    uint64_t last = count ? ((uint64_t *)values)[count - 1] : 0;
    asim_mem_free(asim_hostmem_libc(), values, capacity, sizeof(uint64_t));
    return count + last;
}

/* What each column of the event frames costs on its own. */
static void print_columns(const char *path)
{
    static const char *const names[ASIM_E_END] = {
        "",          "head",  "ops",        "codes",     "ages",          "ids",    "numbers",   "sizes",
        "new sizes", "times", "done times", "addresses", "new addresses", "stacks", "new stacks"};
    size_t length, bytes[ASIM_E_END] = {0}, packed[ASIM_E_END] = {0}, other[128] = {0};
    uint8_t *file = slurp(path, &length), *content = malloc(ASIM_FRAME_CONTENT);
    void *scratch = malloc(ZSTD_compressBound(ASIM_FRAME_CONTENT));
    for (size_t at = ASIM_HEADER_SIZE; at < length;) {
        size_t frame = ZSTD_findFrameCompressedSize(file + at, length - at);
        size_t size = ZSTD_decompress(content, ASIM_FRAME_CONTENT, file + at, frame);
        at += frame;
        other[content[0] & 127] += frame;
        if (content[0] != ASIM_FRAME_EVENTS_TYPE)
            continue;
        asim_bytes sections[ASIM_SECTIONS_MAX];
        bool skipped;
        if (asim_take_sections((asim_bytes){content + 1, content + size}, ASIM_E_END, false, sections,
                               &skipped, NULL))
            exit(4);
        for (unsigned i = 1; i < ASIM_E_END; i++) {
            size_t part = asim_bytes_left(&sections[i]);
            bytes[i] += part;
            packed[i] +=
                part ? ZSTD_compress(scratch, ZSTD_compressBound(part), sections[i].next, part, 3) : 0;
        }
    }
    for (unsigned i = 0; i < 128; i++)
        if (other[i])
            printf("    frames of type %c: %zu bytes\n", (char)i, other[i]);
    for (unsigned i = 1; i < ASIM_E_END; i++)
        if (bytes[i])
            printf("    column %-14s %10zu bytes, %10zu compressed alone\n", names[i], bytes[i], packed[i]);
    free(scratch);
    free(content);
    free(file);
}

static void bench_recording(const char *path, const char *scratch, bool columns)
{
    uint64_t original;
    asim_trace *trace = import(path, &original);
    const char *slash = strrchr(path, '/');
    printf("%s: %" PRIu64 " bytes, %" PRIu64 " events\n", slash ? slash + 1 : path, original,
           trace->event_count);
    double events = trace->event_count ? (double)trace->event_count : 1;
    uint64_t with = write_trace(trace, scratch);
    goal("times smaller than the recording, with stacks", (double)original / (double)with, "", 20, true);
    if (columns)
        print_columns(scratch);
    trace->stacks = NULL;
    trace->stack_count = 0; /* and with them the strings that only frames use */
    uint32_t strings = 0;
    for (uint64_t i = 0; i < trace->event_count; i++)
        if ((trace->events[i].kind == ASIM_EV_MARK || trace->events[i].kind == ASIM_EV_SETTINGS) &&
            trace->events[i].id >= strings)
            strings = trace->events[i].id + 1;
    asim_opening_segment *segments = (asim_opening_segment *)(uintptr_t)trace->opening_segments;
    for (uint32_t i = 0; i < trace->opening_segment_count; i++)
        segments[i].stack = ASIM_NO_INDEX;
    asim_opening_block *blocks = (asim_opening_block *)(uintptr_t)trace->opening_blocks;
    for (uint32_t i = 0; i < trace->opening_block_count; i++)
        blocks[i].stack = ASIM_NO_INDEX;
    for (uint32_t i = 0; i < trace->device_count; i++)
        if (trace->devices[i].name != ASIM_NO_INDEX && trace->devices[i].name >= strings)
            strings = trace->devices[i].name + 1;
    trace->string_count = strings;
    uint64_t without = write_trace(trace, scratch);
    goal("bytes an event, without stacks", (double)without / events, "B", 4, false);
    if (columns)
        print_columns(scratch);
    printf("  %" PRIu64 " bytes with stacks, %" PRIu64 " without\n", with, without);
    asim_trace_release(trace);
    unlink(scratch);
}

/* A training run: iterations of forward and backward passes over layers whose sizes repeat, with now and then
 * a batch of another length. */
static asim_code feed_training(const asim_sink *sink, uint64_t count, asim_err *err)
{
    enum {
        LAYERS = 48,
        TENSORS = 6
    };
    uint32_t index, slot[LAYERS][TENSORS], idle[LAYERS * TENSORS + 8], idle_count = 0, slots = 0;
    asim_trace_device device = {ASIM_NO_INDEX, UINT64_C(80) << 30};
    asim_lane lane = {.stream = 0};
    asim_code code = sink->ops->device(sink->ctx, &device, &index, err);
    code = code ? code : sink->ops->lane(sink->ctx, &lane, &index, err);
    asim_rng rng = {12};
    for (uint64_t done = 0; !code && done < count;) {
        uint64_t tokens = asim_rng_below(&rng, 4) ? 2048 : 512 + 64 * asim_rng_below(&rng, 48);
        for (uint32_t step = 0; !code && step < 2 * LAYERS * TENSORS; step++) {
            uint32_t layer = step / TENSORS, tensor = step % TENSORS;
            asim_sink_event event = {.recorded_address = ASIM_NO_ADDRESS, .stack = ASIM_NO_INDEX};
            if (layer < LAYERS) {
                uint32_t id = idle_count ? idle[--idle_count] : slots++;
                slot[layer][tensor] = id;
                event.event =
                    (asim_event){.kind = ASIM_EV_ALLOC, .id = id, .size = tokens * 512 * (1 + tensor)};
            } else {
                uint32_t which = (uint32_t)asim_rng_below(&rng, 8) ? tensor : TENSORS - 1 - tensor;
                uint32_t *from = slot[2 * LAYERS - 1 - layer];
                uint32_t id = from[which];
                if (id == ASIM_NO_INDEX)
                    for (uint32_t k = 0; id == ASIM_NO_INDEX; k++)
                        id = from[which = k];
                from[which] = ASIM_NO_INDEX;
                idle[idle_count++] = id;
                event.event = (asim_event){.kind = ASIM_EV_FREE, .id = id};
            }
            code = sink->ops->event(sink->ctx, &event, err);
            done++;
        }
    }
    return code;
}

typedef struct best {
    double seconds, total;
} best;

static bool again(best *b, double seconds)
{
    b->seconds = b->total == 0 || seconds < b->seconds ? seconds : b->seconds;
    b->total += seconds;
    return b->total < 1;
}

static void bench_speed(const char *scratch, bool columns)
{
    const uint64_t wanted = 4000000;
    asim_err err = ASIM_ERR_INIT;
    asim_trace_builder *builder;
    must(asim_trace_builder_new(asim_hostmem_libc(), &builder, &err), &err);
    asim_sink sink = asim_trace_builder_sink(builder);
    must(feed_training(&sink, wanted, &err), &err);
    asim_trace *trace;
    must(asim_trace_builder_finish(builder, &trace, &err), &err);
    double events = (double)trace->event_count;
    best write = {0}, read = {0}, bare = {0};
    double from;
    do {
        from = now();
        write_trace(trace, scratch);
    } while (again(&write, now() - from));
    if (columns)
        print_columns(scratch);
    do {
        asim_trace *back;
        from = now();
        must(asim_trace_load(scratch, asim_hostmem_libc(), NULL, NULL, &back, &err), &err);
        double seconds = now() - from;
        if (back->digest != trace->digest || back->event_count != trace->event_count) {
            fprintf(stderr, "bench_trace: the decoded trace is another one; the timing is void\n");
            exit(4);
        }
        asim_trace_release(back);
        if (!again(&read, seconds))
            break;
    } while (true);
    size_t length;
    uint64_t content_bytes = 0, sum = 0;
    uint8_t *file = slurp(scratch, &length), *content = malloc(ASIM_FRAME_CONTENT);
    ZSTD_DCtx *context = ZSTD_createDCtx();
    do {
        from = now();
        sum += bare_pass(file, length, content, context, &content_bytes);
    } while (again(&bare, now() - from));
    ZSTD_freeDCtx(context);
    printf("synthetic training run: %.0f events, digest %016" PRIx64
           ", %zu bytes in the file (%.2f an event), %" PRIu64 " decompressed; bare loop checksum %016" PRIx64
           "\n",
           events, trace->digest, length, (double)length / events, content_bytes, sum);
    goal("written", events / write.seconds / 1e6, "M events/s", 10, true);
    goal("decoded, checked and hashed", events / read.seconds / 1e6, "M events/s", 50, true);
    printf("  %-44s %10.2f M events/s\n", "bare loop over the same bytes", events / bare.seconds / 1e6);
    goal("decoding as a part of the bare loop", bare.seconds / read.seconds, "", 1.0 / 3, true);
    free(content);
    free(file);
    asim_trace_release(trace);
    unlink(scratch);
}

int main(int argc, char **argv)
{
    bool check = false, columns = false;
    char scratch[64];
    snprintf(scratch, sizeof scratch, "/tmp/bench_trace.%ld.zst", (long)getpid());
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--check") == 0)
            check = true;
        else if (strcmp(argv[i], "--columns") == 0)
            columns = true;
        else
            bench_recording(argv[i], scratch, columns);
    bench_speed(scratch, columns);
    return check && missed ? 1 : 0;
}
