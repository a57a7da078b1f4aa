#include "tests/golden_watch.h"

struct asim_observer_state {
    golden_watch *watch;
};

void golden_watch_fini(golden_watch *watch)
{
    golden_text_fini(&watch->tokens);
    asim_mem_free(asim_hostmem_libc(), watch->regions, watch->region_capacity, sizeof *watch->regions);
    *watch = (golden_watch){0};
}

/* Number of regions that begin at or below the address. */
static size_t regions_below(const golden_watch *watch, uint64_t address)
{
    size_t low = 0, high = watch->region_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (watch->regions[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static asim_code know_region(golden_watch *watch, uint64_t address, uint32_t index, asim_err *err)
{
    size_t at = regions_below(watch, address);
    if (at && watch->regions[at - 1].address == address && watch->regions[at - 1].index == index)
        return ASIM_OK;
    void *memory = watch->regions;
    asim_code code = asim_mem_grow(asim_hostmem_libc(), &memory, &watch->region_capacity,
                                   watch->region_count + 1, sizeof *watch->regions, err);
    if (code)
        return code;
    watch->regions = memory;
    memmove(watch->regions + at + 1, watch->regions + at,
            (watch->region_count - at) * sizeof *watch->regions);
    watch->regions[at] = (golden_region){address, index};
    watch->region_count++;
    return ASIM_OK;
}

void golden_position(const golden_watch *watch, golden_text *text, char separator, uint64_t address,
                     uint32_t region)
{
    size_t at = regions_below(watch, address);
    if (!at) {
        golden_text_append(text, &separator, 1);
        golden_text_string(text, "(in no region)");
        golden_text_field(text, separator, address);
        return;
    }
    const golden_region *holder = &watch->regions[at - 1];
    golden_text_field(text, separator, region == ASIM_NO_INDEX ? holder->index : region);
    golden_text_field(text, separator, address - holder->address);
}

static asim_code init(asim_observer_state *state, const void *config, const asim_hostmem *mem, asim_err *err)
{
    (void)mem, (void)err;
    memcpy(state, config, sizeof *state);
    return ASIM_OK;
}

static asim_code write_completed(golden_watch *watch, uint64_t address)
{
    if (watch->format != GOLDEN_RELEASE_1_13) {
        golden_text_string(&watch->tokens, " fc");
        golden_position(watch, &watch->tokens, ':', address, ASIM_NO_INDEX);
    }
    return ASIM_OK;
}

static asim_code freed(asim_observer_state *state, uint64_t address, uint64_t size, bool pending,
                       asim_err *err)
{
    (void)size, (void)err;
    return pending ? ASIM_OK : write_completed(state->watch, address);
}

static asim_code completed(asim_observer_state *state, uint64_t address, uint64_t size, asim_err *err)
{
    (void)size, (void)err;
    return write_completed(state->watch, address);
}

static asim_code call(asim_observer_state *state, const asim_driver_call *call, asim_err *err)
{
    golden_watch *watch = state->watch;
    golden_text *text = &watch->tokens;
    asim_code code = ASIM_OK;
    if (call->kind == ASIM_CALL_SEGMENT_ALLOC)
        code = know_region(watch, call->address, call->region, err);
    else if (call->kind == ASIM_CALL_MAP)
        code = know_region(watch, call->address - call->offset, call->region, err);
    if (code)
        return code;
    bool plain = call->kind == ASIM_CALL_SEGMENT_ALLOC || call->kind == ASIM_CALL_SEGMENT_FREE;
    if (watch->format == GOLDEN_RELEASE_1_13 && !plain)
        return ASIM_OK;
    switch (call->kind) {
    case ASIM_CALL_SEGMENT_ALLOC:
    case ASIM_CALL_SEGMENT_FREE:
        golden_text_string(text, call->kind == ASIM_CALL_SEGMENT_ALLOC ? " sa" : " sf");
        golden_text_field(text, ':', call->region);
        break;
    case ASIM_CALL_MAP:
    case ASIM_CALL_UNMAP:
        golden_text_string(text, call->kind == ASIM_CALL_MAP ? " sm" : " su");
        golden_text_field(text, ':', call->region);
        golden_text_field(text, ':', call->offset);
        break;
    default: /* ASIM_CALL_OOM */
        golden_text_string(text, " oom");
        golden_text_field(text, ':', call->address);
        break;
    }
    golden_text_field(text, ':', call->size);
    if (call->kind == ASIM_CALL_SEGMENT_ALLOC || call->kind == ASIM_CALL_MAP)
        golden_text_field(text, ':', watch->lanes[call->lane].stream % GOLDEN_STREAMS);
    return ASIM_OK;
}

const asim_observer golden_observer = {
    .name = "golden",
    .state_size = sizeof(asim_observer_state),
    .init = init,
    .freed = freed,
    .completed = completed,
    .call = call,
};

typedef struct map_writer {
    const golden_watch *watch;
    golden_text *text;
    golden_text blocks; /* lines of the open segment */
    asim_walk_segment segment;
    uint64_t allocated, active, requested, block_count;
    size_t lines;
    unsigned device, pool;
    bool open;
} map_writer;

static void close_segment(map_writer *writer)
{
    if (!writer->open)
        return;
    const asim_walk_segment *segment = &writer->segment;
    golden_text *text = writer->text;
    golden_format format = writer->watch->format;
    golden_text_string(text, "G");
    golden_position(writer->watch, text, ' ', segment->address, segment->region);
    golden_text_field(text, ' ', segment->size);
    golden_text_field(text, ' ', segment->stream % GOLDEN_STREAMS);
    golden_text_field(text, ' ', !segment->small);
    if (format != GOLDEN_RELEASE_1_13)
        golden_text_field(text, ' ', segment->expandable);
    golden_text_field(text, ' ', writer->allocated);
    golden_text_field(text, ' ', writer->active);
    if (format != GOLDEN_RELEASE_1_13)
        golden_text_field(text, ' ', writer->requested);
    golden_text_field(text, ' ', writer->block_count);
    if (format == GOLDEN_EXTENDED && segment->pool)
        golden_text_field(text, ' ', segment->pool - 1u);
    else if (format == GOLDEN_EXTENDED)
        golden_text_string(text, " -");
    golden_text_append(text, "", 1);
    golden_text_append(text, writer->blocks.bytes, writer->blocks.length);
    writer->lines += 1 + writer->block_count;
    writer->open = false;
}

static void map_segment(void *ctx, const asim_walk_segment *segment)
{
    map_writer *writer = ctx;
    close_segment(writer);
    writer->segment = *segment;
    writer->blocks.length = 0;
    writer->allocated = writer->active = writer->requested = writer->block_count = 0;
    writer->open = segment->device == writer->device;
    if (writer->pool && writer->open) {
        const golden_watch *watch = writer->watch;
        size_t at = regions_below(watch, segment->address);
        bool at_start = at && watch->regions[at - 1].address == segment->address;
        writer->open = segment->pool == writer->pool && (!segment->expandable || at_start);
    }
}

static void map_block(void *ctx, const asim_walk_block *block)
{
    map_writer *writer = ctx;
    golden_text *text = &writer->blocks;
    bool allocated = block->state == ASIM_BLOCK_LIVE, active = block->state != ASIM_BLOCK_FREE;
    if (!writer->open)
        return;
    golden_text_string(text, "B");
    golden_text_field(text, ' ', block->size);
    if (writer->watch->format != GOLDEN_RELEASE_1_13)
        golden_text_field(text, ' ', block->requested);
    golden_text_field(text, ' ', allocated);
    golden_text_field(text, ' ', active);
    golden_text_append(text, "", 1);
    writer->allocated += allocated ? block->size : 0;
    writer->active += active ? block->size : 0;
    writer->requested += active ? block->requested : 0;
    writer->block_count++;
}

size_t golden_map(const asim_engine *engine, const golden_watch *watch, unsigned device, unsigned pool,
                  golden_text *text)
{
    map_writer writer = {.watch = watch, .text = text, .device = device, .pool = pool};
    asim_walker walker = {map_segment, map_block, &writer};
    asim_engine_walk(engine, &walker);
    close_segment(&writer);
    text->refused |= writer.blocks.refused;
    golden_text_fini(&writer.blocks);
    return writer.lines;
}
