#include "traces/event_model.h"
#include "traces/kinds.h"

#include <inttypes.h>

typedef struct op {
    asim_event event;
    uint8_t coding;
} op;

typedef struct decoder {
    asim_event_coder *coder;
    asim_bytes columns[ASIM_SECTIONS_MAX];
    op *ops;
    size_t op_count;
    size_t unknown;
    unsigned shift; /* of addresses */
} decoder;

static const char *const column_names[ASIM_E_END] = {
    "",      "head",  "operations", "codes",     "ages",      "ids",    "numbers", "sizes",
    "sizes", "times", "done times", "addresses", "addresses", "stacks", "stacks"};

static asim_code fail_column(unsigned column, size_t event, asim_err *err)
{
    return asim_fail(err, ASIM_E_INPUT, "its column of %s is wrong at event %zu of the frame",
                     column_names[column], event);
}

asim_event_coder *asim_event_coder_new(const asim_hostmem *mem, size_t limit, asim_err *err)
{
    asim_event_coder *coder = asim_mem_new(mem, 1, sizeof *coder);
    if (!coder) {
        asim_fail_memory(err, sizeof *coder);
        return NULL;
    }
    coder->mem = mem;
    coder->limit = limit;
    asim_idmap_init(&coder->op_index, mem);
    asim_idmap_init(&coder->size_index, mem);
    asim_idmap_init(&coder->address_index, mem);
    asim_idmap_init(&coder->stack_index, mem);
    for (unsigned i = 0; i < ASIM_SECTIONS_MAX; i++)
        asim_buf_init(&coder->columns[i], mem);
    size_t count = limit + 1;
    uint32_t **small[] = {&coder->released, &coder->alloc_slot, &coder->alloc_size, &coder->stacks,
                          &coder->stack_next};
    uint64_t **large[] = {&coder->alloc_address, &coder->sizes, &coder->freed_at, &coder->addresses};
    bool whole = true;
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        whole &= (*small[i] = asim_mem_new(mem, count, sizeof **small[i])) != NULL;
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        whole &= (*large[i] = asim_mem_new(mem, count, sizeof **large[i])) != NULL;
    if (!whole) {
        asim_event_coder_free(coder);
        asim_fail_memory(err, count * sizeof(uint64_t));
        return NULL;
    }
    return coder;
}

void asim_event_coder_free(asim_event_coder *coder)
{
    if (!coder)
        return;
    const asim_hostmem *mem = coder->mem;
    size_t count = coder->limit + 1;
    uint32_t *small[] = {coder->released, coder->alloc_slot, coder->alloc_size, coder->stacks,
                         coder->stack_next};
    uint64_t *large[] = {coder->alloc_address, coder->sizes, coder->freed_at, coder->addresses};
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        asim_mem_free(mem, small[i], count, sizeof *small[i]);
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        asim_mem_free(mem, large[i], count, sizeof *large[i]);
    asim_mem_free(mem, coder->slot_alloc, coder->slot_capacity, sizeof *coder->slot_alloc);
    asim_idmap_fini(&coder->op_index);
    asim_idmap_fini(&coder->size_index);
    asim_idmap_fini(&coder->address_index);
    asim_idmap_fini(&coder->stack_index);
    for (unsigned i = 0; i < ASIM_SECTIONS_MAX; i++)
        asim_buf_fini(&coder->columns[i]);
    asim_mem_free(mem, coder, 1, sizeof *coder);
}

/* The coding that fits the kind. A kind that does not exist here may have numbers, sizes and a live slot, but
 * it neither takes nor releases one: then it can be left out. */
static bool coding_fits(const asim_event *event, unsigned coding)
{
    unsigned id = coding & ASIM_OP_ID_MASK;
    if (event->kind >= ASIM_EV_KINDS)
        return id == ASIM_OP_NO_ID || id == ASIM_OP_AGE || id == ASIM_OP_NUMBER;
    const asim_kind_rule *rule = &asim_kind_rules[event->kind];
    bool size = rule->size == ASIM_SIZE_BYTES, magnitude = rule->size != ASIM_SIZE_UNUSED && !size;
    if (size != !!(coding & ASIM_OP_SIZE) || magnitude != !!(coding & ASIM_OP_MAGNITUDE))
        return false;
    switch ((asim_id_use)rule->id) {
    case ASIM_ID_UNUSED:
        return id == ASIM_OP_NO_ID;
    case ASIM_ID_NEW:
        return id == ASIM_OP_NEW || id == ASIM_OP_NEW_ID;
    case ASIM_ID_LIVE:
        return id == ASIM_OP_AGE;
    case ASIM_ID_PENDING:
        return id == ASIM_OP_DONE || id == ASIM_OP_DONE_ID;
    case ASIM_ID_STRING:
    case ASIM_ID_NUMBER:
        return id == ASIM_OP_NUMBER;
    }
    return false;
}

static asim_code take_ops(decoder *d, size_t count, bool newer, asim_err *err)
{
    asim_bytes *in = &d->columns[ASIM_E_OPS];
    while (in->next < in->end) {
        uint64_t kind, flags, lane, coding;
        if (!asim_take_varint(in, &kind) || !asim_take_varint(in, &flags) || !asim_take_varint(in, &lane) ||
            !asim_take_varint(in, &coding) || d->op_count == count)
            return fail_column(ASIM_E_OPS, d->op_count, err);
        bool unknown = kind >= ASIM_EV_KINDS;
        asim_event event = {.kind = (uint8_t)kind, .flags = (uint8_t)flags, .lane = (uint16_t)lane};
        if (kind == 0 || kind > UINT8_MAX || flags > UINT8_MAX || lane > UINT16_MAX ||
            coding >= 2 * ASIM_OP_MAGNITUDE || (unknown && !newer) || !coding_fits(&event, (unsigned)coding))
            return asim_fail(err, ASIM_E_INPUT,
                             "operation %zu (kind %" PRIu64 ", coding %" PRIu64
                             ") does not exist in this version",
                             d->op_count, kind, coding);
        if (unknown)
            event.kind = ASIM_EV_NONE;
        d->ops[d->op_count++] = (op){.event = event, .coding = (uint8_t)coding};
    }
    return ASIM_OK;
}

static inline bool take_size(decoder *d, uint64_t *ret_size, uint32_t *ret_index)
{
    asim_event_coder *coder = d->coder;
    uint64_t code;
    if (!asim_take_varint(&d->columns[ASIM_E_SIZES], &code))
        return false;
    if (code == ASIM_SIZE_NEW) {
        if (!asim_take_varint(&d->columns[ASIM_E_NEW_SIZES], ret_size))
            return false;
        *ret_index = asim_model_new_size(coder, *ret_size);
        return true;
    }
    if (code - ASIM_SIZE_MET >= coder->size_count)
        return false;
    *ret_index = (uint32_t)(code - ASIM_SIZE_MET);
    *ret_size = coder->sizes[*ret_index];
    return true;
}

static inline bool take_address(decoder *d, uint32_t size_index, uint64_t *ret_address)
{
    asim_event_coder *coder = d->coder;
    uint64_t code, delta, address;
    if (!asim_take_varint(&d->columns[ASIM_E_ADDRESSES], &code))
        return false;
    if (code == ASIM_ADDRESS_AGAIN) {
        address = coder->freed_at[size_index];
    } else if (code == ASIM_ADDRESS_NONE) {
        address = ASIM_NO_ADDRESS;
    } else if (code == ASIM_ADDRESS_NEW) {
        if (!asim_take_varint(&d->columns[ASIM_E_NEW_ADDRESSES], &delta))
            return false;
        coder->last_address += (uint64_t)asim_unzigzag(delta);
        address = coder->last_address << d->shift;
        coder->addresses[coder->address_count++] = address;
    } else if (code - ASIM_ADDRESS_MET < coder->address_count) {
        address = coder->addresses[code - ASIM_ADDRESS_MET];
    } else {
        return false;
    }
    coder->alloc_address[coder->alloc_count - 1] = address;
    coder->alloc_size[coder->alloc_count - 1] = size_index;
    *ret_address = address;
    return true;
}

static inline bool take_u32(asim_bytes *column, uint32_t *ret_value)
{
    uint64_t value;
    if (!asim_take_varint(column, &value) || value > UINT32_MAX)
        return false;
    *ret_value = (uint32_t)value;
    return true;
}

/* A live slot: so many allocations ago, or by its number. */
static inline bool take_live(decoder *d, uint32_t *ret_slot, uint32_t *ret_age)
{
    asim_event_coder *coder = d->coder;
    uint64_t age;
    if (!asim_take_varint(&d->columns[ASIM_E_AGES], &age) || age > coder->alloc_count)
        return false;
    *ret_age = (uint32_t)age;
    if (age == 0)
        return take_u32(&d->columns[ASIM_E_IDS], ret_slot);
    *ret_slot = coder->alloc_slot[coder->alloc_count - age];
    return true;
}

/* 0, or the column at fault. Compiled twice, with and without addresses. */
static inline __attribute__((always_inline)) unsigned take_event(decoder *d, asim_event *ret_event,
                                                                 uint64_t *ret_address)
{
    asim_event_coder *coder = d->coder;
    uint64_t code;
    if (!asim_take_varint(&d->columns[ASIM_E_CODES], &code) || code >= d->op_count)
        return ASIM_E_CODES;
    const op *o = &d->ops[code];
    asim_event event = o->event;
    uint32_t age, size_index;
    switch (o->coding & ASIM_OP_ID_MASK) {
    case ASIM_OP_NEW:
        event.id = asim_model_next_slot(coder);
        asim_model_alloc(coder, event.id);
        break;
    case ASIM_OP_NEW_ID:
        asim_model_next_slot(coder);
        if (!take_u32(&d->columns[ASIM_E_IDS], &event.id))
            return ASIM_E_IDS;
        asim_model_alloc(coder, event.id);
        break;
    case ASIM_OP_AGE:
        if (!take_live(d, &event.id, &age))
            return ASIM_E_AGES;
        if (event.kind == ASIM_EV_FREE) {
            if (ret_address && age)
                asim_model_vacate(coder, coder->alloc_count - age);
            if (event.flags & ASIM_FREE_PENDING)
                coder->last_freed = event.id;
            else
                asim_model_release(coder, event.id);
        }
        break;
    case ASIM_OP_DONE:
        event.id = coder->last_freed;
        asim_model_release(coder, event.id);
        break;
    case ASIM_OP_DONE_ID:
        if (!take_u32(&d->columns[ASIM_E_IDS], &event.id))
            return ASIM_E_IDS;
        asim_model_release(coder, event.id);
        break;
    case ASIM_OP_NUMBER:
        if (!take_u32(&d->columns[ASIM_E_NUMBERS], &event.id))
            return ASIM_E_NUMBERS;
        break;
    default:
        break;
    }
    if ((o->coding & ASIM_OP_MAGNITUDE) && !asim_take_varint(&d->columns[ASIM_E_NUMBERS], &event.size))
        return ASIM_E_NUMBERS;
    if (o->coding & ASIM_OP_SIZE) {
        if (!take_size(d, &event.size, &size_index))
            return ASIM_E_SIZES;
        if (ret_address && event.kind == ASIM_EV_ALLOC && !take_address(d, size_index, ret_address))
            return ASIM_E_ADDRESSES;
    }
    *ret_event = event;
    return 0;
}

static asim_code take_events(decoder *d, asim_event_batch *batch, asim_err *err)
{
    unsigned bad = 0;
    size_t i;
    decoder local = *d; /* the cursors can stay in registers */
    if (local.columns[ASIM_E_ADDRESSES].next == local.columns[ASIM_E_ADDRESSES].end) {
        for (i = 0; i < batch->count && !bad; i++)
            bad = take_event(&local, &batch->events[i], NULL);
        for (size_t k = 0; batch->addresses && k < batch->count; k++)
            batch->addresses[k] = ASIM_NO_ADDRESS;
    } else {
        if (!batch->addresses)
            return asim_fail(err, ASIM_E_INPUT, "it holds addresses, which the header does not announce");
        for (i = 0; i < batch->count && !bad; i++) {
            batch->addresses[i] = ASIM_NO_ADDRESS;
            bad = take_event(&local, &batch->events[i], &batch->addresses[i]);
        }
    }
    *d = local;
    return bad ? fail_column(bad, i - 1, err) : ASIM_OK;
}

static asim_code take_times(decoder *d, uint64_t base, uint64_t unit, asim_event_batch *batch, asim_err *err)
{
    if (!batch->times)
        return base || unit
                   ? asim_fail(err, ASIM_E_INPUT, "it holds times, which the header does not announce")
                   : ASIM_OK;
    asim_bytes times = d->columns[ASIM_E_TIMES], done = d->columns[ASIM_E_DONE_TIMES];
    uint64_t now = base, delta = 0;
    for (size_t i = 0; i < batch->count; i++) {
        asim_bytes *in = batch->events[i].kind == ASIM_EV_FREE_DONE ? &done : &times;
        if (unit && (!asim_take_varint(in, &delta) || __builtin_mul_overflow(delta, unit, &delta) ||
                     __builtin_add_overflow(now, delta, &now)))
            return fail_column(ASIM_E_TIMES, i, err);
        batch->times[i] = now;
    }
    d->columns[ASIM_E_TIMES] = times;
    d->columns[ASIM_E_DONE_TIMES] = done;
    return ASIM_OK;
}

static asim_code take_stacks(decoder *d, asim_event_batch *batch, asim_err *err)
{
    asim_event_coder *coder = d->coder;
    asim_bytes codes = d->columns[ASIM_E_STACKS];
    if (!batch->stacks)
        return codes.next == codes.end
                   ? ASIM_OK
                   : asim_fail(err, ASIM_E_INPUT, "it holds stacks, which the header does not announce");
    if (codes.next == codes.end) {
        for (size_t i = 0; i < batch->count; i++)
            batch->stacks[i] = ASIM_NO_INDEX;
        return ASIM_OK;
    }
    uint32_t before = asim_model_new_stack(coder, ASIM_NO_INDEX);
    for (size_t i = 0; i < batch->count; i++) {
        uint64_t code;
        uint32_t index, stack;
        if (!asim_take_varint(&codes, &code))
            return fail_column(ASIM_E_STACKS, i, err);
        if (code == ASIM_STACK_NEXT) {
            index = coder->stack_next[before];
        } else if (code == ASIM_STACK_NEW) {
            if (!take_u32(&d->columns[ASIM_E_NEW_STACKS], &stack))
                return fail_column(ASIM_E_NEW_STACKS, i, err);
            index = asim_model_new_stack(coder, stack);
        } else {
            index = code - ASIM_STACK_MET < coder->stack_count ? (uint32_t)(code - ASIM_STACK_MET)
                                                               : ASIM_NO_INDEX;
        }
        if (index == ASIM_NO_INDEX)
            return fail_column(ASIM_E_STACKS, i, err);
        batch->stacks[i] = coder->stacks[index];
        coder->stack_next[before] = index;
        before = index;
    }
    d->columns[ASIM_E_STACKS] = codes;
    return ASIM_OK;
}

static asim_code take_head(decoder *d, uint64_t first, const asim_event_batch *batch, uint64_t *ret_base,
                           uint64_t *ret_unit, asim_err *err)
{
    asim_bytes *in = &d->columns[ASIM_E_HEAD];
    uint64_t own_first, count, slot, shift;
    if (!asim_take_varint(in, &own_first) || !asim_take_varint(in, &count) || !asim_take_varint(in, &slot) ||
        !asim_take_varint(in, ret_base) || !asim_take_varint(in, ret_unit) || !asim_take_varint(in, &shift) ||
        slot > UINT32_MAX || shift > 63)
        return asim_fail(err, ASIM_E_INPUT, "its head is wrong");
    if (own_first != first || count != batch->count)
        return asim_fail(err, ASIM_E_INPUT,
                         "it says it holds %" PRIu64 " events from %" PRIu64
                         ", the index says %zu from %" PRIu64,
                         count, own_first, batch->count, first);
    d->shift = (unsigned)shift;
    asim_model_reset(d->coder, (uint32_t)slot);
    return ASIM_OK;
}

asim_code asim_decode_events(asim_event_coder *coder, const asim_bytes sections[ASIM_SECTIONS_MAX],
                             uint64_t first, bool newer, asim_event_batch *batch, size_t *ret_unknown,
                             asim_err *err)
{
    decoder d = {.coder = coder};
    memcpy(d.columns, sections, sizeof d.columns);
    uint64_t base, unit;
    asim_code code = take_head(&d, first, batch, &base, &unit, err);
    size_t limit = asim_bytes_left(&d.columns[ASIM_E_OPS]) / 4;
    if (limit > ASIM_FRAME_EVENTS)
        limit = ASIM_FRAME_EVENTS;
    size_t capacity = limit + 1;
    if (!code && !(d.ops = asim_mem_new(coder->mem, capacity, sizeof *d.ops)))
        code = asim_fail_memory(err, capacity * sizeof *d.ops);
    if (!code)
        code = take_ops(&d, capacity, newer, err);
    if (!code)
        code = take_events(&d, batch, err);
    if (!code)
        code = take_times(&d, base, unit, batch, err);
    if (!code)
        code = take_stacks(&d, batch, err);
    for (unsigned i = 1; !code && i < ASIM_E_END; i++)
        if (d.columns[i].next != d.columns[i].end)
            code = asim_fail(err, ASIM_E_INPUT, "its column of %s goes on after the last event",
                             column_names[i]);
    size_t unknown = 0;
    for (size_t i = 0; !code && newer && i < batch->count; i++)
        unknown += batch->events[i].kind == ASIM_EV_NONE;
    asim_mem_free(coder->mem, d.ops, capacity, sizeof *d.ops);
    if (!code)
        *ret_unknown = unknown;
    return code;
}
