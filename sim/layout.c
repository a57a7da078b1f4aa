#include "sim/store.h"

static void collect_segment(void *ctx, const asim_walk_segment *segment)
{
    asim_layout_collector *collector = ctx;
    asim_layout *layout = collector->layout;
    void *items = layout->segments;
    if (!collector->code)
        collector->code = asim_mem_grow(collector->mem, &items, &layout->segment_capacity,
                                        layout->segment_count + 1, sizeof *segment, NULL);
    if (collector->code)
        return;
    layout->segments = items;
    layout->segments[layout->segment_count++] = *segment;
}

static void collect_block(void *ctx, const asim_walk_block *block)
{
    asim_layout_collector *collector = ctx;
    asim_layout *layout = collector->layout;
    void *items = layout->blocks;
    if (!collector->code)
        collector->code = asim_mem_grow(collector->mem, &items, &layout->block_capacity,
                                        layout->block_count + 1, sizeof(asim_layout_block), NULL);
    if (collector->code)
        return;
    layout->blocks = items;
    layout->blocks[layout->block_count++] =
        (asim_layout_block){.block = *block, .segment = (uint32_t)(layout->segment_count - 1)};
}

asim_walker asim_layout_walker(asim_layout_collector *collector)
{
    return (asim_walker){.segment = collect_segment, .block = collect_block, .ctx = collector};
}

void asim_layout_fini(asim_layout *layout, const asim_hostmem *mem)
{
    asim_mem_free(mem, layout->segments, layout->segment_capacity, sizeof(asim_walk_segment));
    asim_mem_free(mem, layout->blocks, layout->block_capacity, sizeof(asim_layout_block));
    *layout = (asim_layout){0};
}
