#include "sim/history.h"

#include "sim/idmap.h"

#include <string.h>

struct asim_history {
    const asim_hostmem *mem;
    const asim_trace *trace;
    bool begun;
    uint64_t event; /* the current one */

    asim_history_entry *entries; /* a ring of limit items once it is full */
    size_t allotted;
    uint64_t limit, total; /* total: entries ever made; the last limit of them are held */
    uint64_t releases;     /* the latest entries of this event that are releases, one after another */

    asim_idmap block_index; /* address to a number of blocks */
    asim_history_block *blocks;
    size_t block_count, block_capacity;
    uint32_t free_block; /* first of the unused ones, linked through stack; ASIM_NO_INDEX ends */

    asim_idmap segment_index; /* address to a number of blocks: of memory obtained with a stack */
    uint32_t *opening_stacks; /* by slot, until the run begins */
};

struct asim_observer_state {
    asim_history *history;
};

/* --- blocks and segments --- */

static asim_code new_block(asim_history *h, asim_idmap *index, uint64_t address, uint32_t *ret_number,
                           asim_err *err)
{
    uint32_t number = h->free_block;
    if (asim_idmap_get(index, address, ret_number))
        return ASIM_OK; /* a policy that places two at one address: the later one counts */
    if (number == ASIM_NO_INDEX) {
        void *items = h->blocks;
        asim_code code =
            asim_mem_grow(h->mem, &items, &h->block_capacity, h->block_count + 1, sizeof *h->blocks, err);
        if (code)
            return code;
        h->blocks = items;
        number = (uint32_t)h->block_count;
    }
    asim_code code = asim_idmap_put(index, address, number, err);
    if (code)
        return code;
    if (number == h->block_count)
        h->block_count++;
    else
        h->free_block = h->blocks[number].stack;
    *ret_number = number;
    return ASIM_OK;
}

static bool take_block(asim_history *h, asim_idmap *index, uint64_t address, asim_history_block *ret_block)
{
    uint32_t number;
    if (!asim_idmap_take(index, address, &number))
        return false;
    *ret_block = h->blocks[number];
    h->blocks[number].stack = h->free_block;
    h->free_block = number;
    return true;
}

/* Of memory that a stack obtained: its size and the stack. */
static asim_code note_segment(asim_history *h, uint64_t address, uint64_t size, uint32_t stack, asim_err *err)
{
    uint32_t number;
    if (stack == ASIM_NO_INDEX)
        return ASIM_OK;
    asim_code code = new_block(h, &h->segment_index, address, &number, err);
    if (!code)
        h->blocks[number] = (asim_history_block){.requested = size, .stack = stack};
    return code;
}

/* Recordings show the stack of a segment only while it was never cut: it stays with the rest. */
static void note_cut(asim_history *h, uint64_t address, uint64_t size)
{
    asim_history_block cut;
    uint32_t number;
    if (asim_idmap_get(&h->segment_index, address, &number) && size < h->blocks[number].requested)
        take_block(h, &h->segment_index, address, &cut);
}

/* --- life cycle --- */

static asim_code read_opening(asim_history *h, asim_err *err)
{
    const asim_trace *trace = h->trace;
    asim_code code = ASIM_OK;
    if (trace->opening_segment_count == 0 || trace->slot_count == 0)
        return ASIM_OK;
    h->opening_stacks = asim_mem_new(h->mem, trace->slot_count, sizeof *h->opening_stacks);
    if (!h->opening_stacks)
        return asim_fail_memory(err, trace->slot_count * sizeof *h->opening_stacks);
    memset(h->opening_stacks, 0xFF, trace->slot_count * sizeof *h->opening_stacks);
    for (uint32_t i = 0; i < trace->opening_block_count; i++)
        if (trace->opening_blocks[i].id < trace->slot_count)
            h->opening_stacks[trace->opening_blocks[i].id] = trace->opening_blocks[i].stack;
    for (uint32_t i = 0; i < trace->opening_segment_count && !code; i++)
        code = note_segment(h, trace->opening_segments[i].address, trace->opening_segments[i].size,
                            trace->opening_segments[i].stack, err);
    return code;
}

asim_code asim_history_new(const asim_trace *trace, uint64_t capacity, const asim_hostmem *mem,
                           asim_history **ret_history, asim_err *err)
{
    if (capacity == 0)
        return asim_fail(err, ASIM_E_USAGE, "a history keeps at least 1 entry");
    asim_history *h = asim_mem_new(mem, 1, sizeof *h);
    if (!h)
        return asim_fail_memory(err, sizeof *h);
    h->mem = mem;
    h->trace = trace;
    h->limit = capacity;
    h->free_block = ASIM_NO_INDEX;
    asim_idmap_init(&h->block_index, mem);
    asim_idmap_init(&h->segment_index, mem);
    asim_code code = read_opening(h, err);
    if (code) {
        asim_history_free(h);
        return code;
    }
    *ret_history = h;
    return ASIM_OK;
}

static void drop_opening(asim_history *h)
{
    asim_mem_free(h->mem, h->opening_stacks, h->trace->slot_count, sizeof *h->opening_stacks);
    h->opening_stacks = NULL;
}

void asim_history_free(asim_history *h)
{
    if (!h)
        return;
    drop_opening(h);
    asim_idmap_fini(&h->block_index);
    asim_idmap_fini(&h->segment_index);
    asim_mem_free(h->mem, h->entries, h->allotted, sizeof *h->entries);
    asim_mem_free(h->mem, h->blocks, h->block_capacity, sizeof *h->blocks);
    asim_mem_free(h->mem, h, 1, sizeof *h);
}

void asim_history_begin(asim_history *h)
{
    drop_opening(h);
    h->begun = true;
}

/* --- entries --- */

static asim_history_entry *place(const asim_history *h, uint64_t number)
{
    return &h->entries[number % h->limit];
}

static asim_code enter(asim_history *h, asim_history_kind kind, uint64_t address, uint64_t size,
                       unsigned lane, asim_err *err)
{
    if (!h->begun)
        return ASIM_OK;
    if (h->total < h->limit && h->total == h->allotted) {
        void *items = h->entries;
        asim_code code =
            asim_mem_grow(h->mem, &items, &h->allotted, h->allotted + 1, sizeof *h->entries, err);
        if (code)
            return code;
        h->entries = items;
    }
    *place(h, h->total++) = (asim_history_entry){.address = address,
                                                 .size = size,
                                                 .event = h->event & ((UINT64_C(1) << 40) - 1),
                                                 .lane = (uint16_t)lane,
                                                 .kind = (uint8_t)kind};
    bool release = kind == ASIM_HISTORY_SEGMENT_FREE || kind == ASIM_HISTORY_UNMAP;
    h->releases = release ? h->releases + 1 : 0;
    return ASIM_OK;
}

/* A policy may give memory back within the very free that empties it, and the engine tells of the free when
 * it is over. What was released comes after it in the history, as R143 orders one free. */
static asim_code enter_free(asim_history *h, uint64_t address, const asim_history_block *block, asim_err *err)
{
    uint64_t releases = h->releases;
    asim_code code = enter(h, ASIM_HISTORY_FREE_REQUESTED, address, block->requested, block->lane, err);
    if (!code)
        code = enter(h, ASIM_HISTORY_FREE_COMPLETED, address, block->requested, block->lane, err);
    if (code || !h->begun || releases == 0 || h->limit < 2)
        return code;
    if (releases > h->limit - 2)
        releases = h->limit - 2; /* the older ones are gone */
    const asim_history_entry requested = *place(h, h->total - 2), completed = *place(h, h->total - 1);
    uint64_t first = h->total - 2 - releases;
    for (uint64_t i = h->total - 2; i-- > first;)
        *place(h, i + 2) = *place(h, i);
    *place(h, first) = requested;
    *place(h, first + 1) = completed;
    return ASIM_OK;
}

static uint32_t stack_now(const asim_history *h, const asim_event *event)
{
    if (!h->begun)
        return h->opening_stacks && event->id < h->trace->slot_count ? h->opening_stacks[event->id]
                                                                     : ASIM_NO_INDEX;
    return h->trace->stacks && h->event < h->trace->event_count ? h->trace->stacks[h->event] : ASIM_NO_INDEX;
}

/* --- the observer --- */

static asim_code history_init(asim_observer_state *state, const void *config, const asim_hostmem *mem,
                              asim_err *err)
{
    (void)mem;
    (void)err;
    /* The caller's own object comes through the const pointer that every observer's config has. */
    memcpy(&state->history, &config, sizeof config);
    return ASIM_OK;
}

static asim_code history_placed(asim_observer_state *state, const asim_event *event,
                                const asim_placement *placement, asim_err *err)
{
    asim_history *h = state->history;
    uint32_t number;
    asim_code code = new_block(h, &h->block_index, placement->address, &number, err);
    if (code)
        return code;
    h->blocks[number] =
        (asim_history_block){.requested = event->size, .stack = stack_now(h, event), .lane = event->lane};
    if (h->begun)
        note_cut(h, placement->address, placement->size);
    return enter(h, ASIM_HISTORY_ALLOC, placement->address, event->size, event->lane, err);
}

static asim_code history_freed(asim_observer_state *state, uint64_t address, uint64_t size, bool pending,
                               asim_err *err)
{
    asim_history *h = state->history;
    asim_history_block block;
    uint32_t number;
    (void)size;
    if (pending) {
        if (!asim_idmap_get(&h->block_index, address, &number))
            return ASIM_OK;
        block = h->blocks[number];
        return enter(h, ASIM_HISTORY_FREE_REQUESTED, address, block.requested, block.lane, err);
    }
    return take_block(h, &h->block_index, address, &block) ? enter_free(h, address, &block, err) : ASIM_OK;
}

static asim_code history_completed(asim_observer_state *state, uint64_t address, uint64_t size, asim_err *err)
{
    asim_history *h = state->history;
    asim_history_block block;
    (void)size;
    if (!take_block(h, &h->block_index, address, &block))
        return ASIM_OK;
    return enter(h, ASIM_HISTORY_FREE_COMPLETED, address, block.requested, block.lane, err);
}

static asim_code history_call(asim_observer_state *state, const asim_driver_call *call, asim_err *err)
{
    static const asim_history_kind kinds[] = {
        [ASIM_CALL_SEGMENT_ALLOC] = ASIM_HISTORY_SEGMENT_ALLOC,
        [ASIM_CALL_SEGMENT_FREE] = ASIM_HISTORY_SEGMENT_FREE,
        [ASIM_CALL_MAP] = ASIM_HISTORY_MAP,
        [ASIM_CALL_UNMAP] = ASIM_HISTORY_UNMAP,
        [ASIM_CALL_OOM] = ASIM_HISTORY_OOM,
    };
    asim_history *h = state->history;
    asim_code code = ASIM_OK;
    if (call->kind == ASIM_CALL_SEGMENT_ALLOC || call->kind == ASIM_CALL_MAP) {
        const asim_event none = {.id = ASIM_NO_INDEX};
        uint32_t stack = stack_now(h, &none);
        code = note_segment(h, call->address, call->size, stack, err);
    } else if (call->kind != ASIM_CALL_OOM) {
        asim_history_block gone;
        take_block(h, &h->segment_index, call->address, &gone);
    }
    return code ? code : enter(h, kinds[call->kind], call->address, call->size, call->lane, err);
}

static asim_code history_after(asim_observer_state *state, const asim_event *event, const asim_books *books,
                               const asim_policy_counters *counters, asim_err *err)
{
    (void)event;
    (void)counters;
    (void)err;
    state->history->event = books->event + 1;
    state->history->releases = 0;
    return ASIM_OK;
}

const asim_observer asim_history_observer = {
    .name = "history",
    .state_size = sizeof(asim_observer_state),
    .init = history_init,
    .placed = history_placed,
    .freed = history_freed,
    .completed = history_completed,
    .call = history_call,
    .after = history_after,
};

/* --- what became of it --- */

uint64_t asim_history_count(const asim_history *h)
{
    return h->total < h->limit ? h->total : h->limit;
}

const asim_history_entry *asim_history_at(const asim_history *h, uint64_t number)
{
    return place(h, h->total - asim_history_count(h) + number);
}

uint64_t asim_history_events(const asim_history *h)
{
    return h->event;
}

bool asim_history_block_at(const asim_history *h, uint64_t address, asim_history_block *ret_block)
{
    uint32_t number;
    if (!asim_idmap_get(&h->block_index, address, &number))
        return false;
    *ret_block = h->blocks[number];
    return true;
}

uint32_t asim_history_segment_stack(const asim_history *h, uint64_t address)
{
    uint32_t number;
    return asim_idmap_get(&h->segment_index, address, &number) ? h->blocks[number].stack : ASIM_NO_INDEX;
}
