#include "traces/event_model.h"
#include "traces/kinds.h"
#include "traces/zframe.h"

/* Room for one varint more in a column was made when the frame began. */
static inline void put(asim_event_coder *coder, unsigned column, uint64_t value)
{
    asim_buf *buf = &coder->columns[column];
    buf->length = (size_t)(asim_put_varint(buf->bytes + buf->length, value) - buf->bytes);
}

static asim_code begin(asim_event_coder *coder, const asim_event_batch *batch, asim_err *err)
{
    asim_idmap_reset(&coder->op_index);
    asim_idmap_reset(&coder->size_index);
    asim_idmap_reset(&coder->address_index);
    asim_idmap_reset(&coder->stack_index);
    asim_model_reset(coder, coder->slots_used);
    asim_code code = ASIM_OK;
    for (unsigned i = 1; i < ASIM_E_END && !code; i++) {
        size_t items = i == ASIM_E_NUMBERS ? 2 * batch->count : batch->count;
        asim_buf_reset(&coder->columns[i]);
        if (i != ASIM_E_OPS)
            code = asim_buf_reserve(&coder->columns[i], (items + 8) * ASIM_VARINT_MAX, err);
    }
    return code;
}

static asim_code put_op(asim_event_coder *coder, const asim_event *event, unsigned coding, asim_err *err)
{
    uint64_t key = (uint64_t)event->kind | (uint64_t)event->flags << 8 | (uint64_t)event->lane << 16 |
                   (uint64_t)coding << 32;
    uint32_t index;
    if (!asim_idmap_get(&coder->op_index, key, &index)) {
        asim_buf *ops = &coder->columns[ASIM_E_OPS];
        index = (uint32_t)coder->op_index.count;
        asim_code code = asim_idmap_put(&coder->op_index, key, index, err);
        if (!code)
            code = asim_buf_reserve(ops, 4 * ASIM_VARINT_MAX, err);
        if (code)
            return code;
        put(coder, ASIM_E_OPS, event->kind);
        put(coder, ASIM_E_OPS, event->flags);
        put(coder, ASIM_E_OPS, event->lane);
        put(coder, ASIM_E_OPS, coding);
    }
    put(coder, ASIM_E_CODES, index);
    return ASIM_OK;
}

static asim_code put_size(asim_event_coder *coder, uint64_t size, uint32_t *ret_index, asim_err *err)
{
    if (asim_idmap_get(&coder->size_index, size, ret_index)) {
        put(coder, ASIM_E_SIZES, ASIM_SIZE_MET + (uint64_t)*ret_index);
        return ASIM_OK;
    }
    *ret_index = asim_model_new_size(coder, size);
    put(coder, ASIM_E_SIZES, ASIM_SIZE_NEW);
    put(coder, ASIM_E_NEW_SIZES, size);
    return asim_idmap_put(&coder->size_index, size, *ret_index, err);
}

static asim_code put_address(asim_event_coder *coder, uint64_t address, uint32_t size_index, unsigned shift,
                             asim_err *err)
{
    uint32_t index;
    coder->alloc_address[coder->alloc_count - 1] = address;
    coder->alloc_size[coder->alloc_count - 1] = size_index;
    bool met = asim_idmap_get(&coder->address_index, address, &index);
    if (address == ASIM_NO_ADDRESS)
        put(coder, ASIM_E_ADDRESSES, ASIM_ADDRESS_NONE);
    else if (coder->freed_at[size_index] == address)
        put(coder, ASIM_E_ADDRESSES, ASIM_ADDRESS_AGAIN);
    else if (met)
        put(coder, ASIM_E_ADDRESSES, ASIM_ADDRESS_MET + (uint64_t)index);
    else {
        put(coder, ASIM_E_ADDRESSES, ASIM_ADDRESS_NEW);
        put(coder, ASIM_E_NEW_ADDRESSES,
            asim_zigzag((int64_t)(address >> shift) - (int64_t)coder->last_address));
        coder->last_address = address >> shift;
        coder->addresses[coder->address_count] = address;
        return asim_idmap_put(&coder->address_index, address, coder->address_count++, err);
    }
    return ASIM_OK;
}

static asim_code note_alloc(asim_event_coder *coder, uint32_t slot, asim_err *err)
{
    if (slot >= coder->slot_capacity) {
        size_t old = coder->slot_capacity;
        asim_code code = asim_mem_grow(coder->mem, (void **)&coder->slot_alloc, &coder->slot_capacity,
                                       (size_t)slot + 1, sizeof *coder->slot_alloc, err);
        if (code)
            return code;
        memset(coder->slot_alloc + old, 0, (coder->slot_capacity - old) * sizeof *coder->slot_alloc);
    }
    asim_model_alloc(coder, slot);
    coder->slot_alloc[slot] = ++coder->allocs;
    if (slot >= coder->slots_used)
        coder->slots_used = slot + 1;
    return ASIM_OK;
}

/* How many allocations ago the slot was given out, 0 if not in this frame. */
static uint32_t age_of(const asim_event_coder *coder, uint32_t slot)
{
    uint64_t number = slot < coder->slot_capacity ? coder->slot_alloc[slot] : 0;
    uint64_t age = coder->allocs + 1 - number;
    return number && age <= coder->alloc_count ? (uint32_t)age : 0;
}

static asim_code put_event(asim_event_coder *coder, const asim_event *event, uint64_t address, bool addresses,
                           unsigned shift, asim_err *err)
{
    const asim_kind_rule *rule = &asim_kind_rules[event->kind];
    unsigned coding = rule->size == ASIM_SIZE_BYTES ? ASIM_OP_SIZE : 0;
    uint32_t age = 0, size_index;
    if (rule->size != ASIM_SIZE_BYTES && rule->size != ASIM_SIZE_UNUSED)
        coding |= ASIM_OP_MAGNITUDE;
    asim_code code = ASIM_OK;
    switch ((asim_id_use)rule->id) {
    case ASIM_ID_UNUSED:
        break;
    case ASIM_ID_NEW:
        coding |= asim_model_next_slot(coder) == event->id ? ASIM_OP_NEW : ASIM_OP_NEW_ID;
        code = note_alloc(coder, event->id, err);
        break;
    case ASIM_ID_LIVE:
        coding |= ASIM_OP_AGE;
        age = age_of(coder, event->id);
        put(coder, ASIM_E_AGES, age);
        if (event->kind == ASIM_EV_FREE) {
            if (age && addresses)
                asim_model_vacate(coder, coder->alloc_count - age);
            if (event->flags & ASIM_FREE_PENDING)
                coder->last_freed = event->id;
            else
                asim_model_release(coder, event->id);
        }
        break;
    case ASIM_ID_PENDING:
        coding |= coder->last_freed == event->id ? ASIM_OP_DONE : ASIM_OP_DONE_ID;
        asim_model_release(coder, event->id);
        break;
    case ASIM_ID_STRING:
    case ASIM_ID_NUMBER:
        coding |= ASIM_OP_NUMBER;
        put(coder, ASIM_E_NUMBERS, event->id);
        break;
    }
    unsigned id_coding = coding & ASIM_OP_ID_MASK;
    if (id_coding == ASIM_OP_NEW_ID || id_coding == ASIM_OP_DONE_ID || (id_coding == ASIM_OP_AGE && age == 0))
        put(coder, ASIM_E_IDS, event->id);
    if (coding & ASIM_OP_MAGNITUDE)
        put(coder, ASIM_E_NUMBERS, event->size);
    if (!code)
        code = put_op(coder, event, coding, err);
    if (!code && (coding & ASIM_OP_SIZE)) {
        code = put_size(coder, event->size, &size_index, err);
        if (!code && addresses && event->kind == ASIM_EV_ALLOC)
            code = put_address(coder, address, size_index, shift, err);
    }
    return code;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void put_times(asim_event_coder *coder, const asim_event_batch *batch, uint64_t unit)
{
    for (size_t i = 0; i < batch->count; i++) {
        uint64_t delta = i ? batch->times[i] - batch->times[i - 1] : 0;
        put(coder, batch->events[i].kind == ASIM_EV_FREE_DONE ? ASIM_E_DONE_TIMES : ASIM_E_TIMES,
            delta / unit);
    }
}

static asim_code put_stacks(asim_event_coder *coder, const asim_event_batch *batch, asim_err *err)
{
    uint32_t before = asim_model_new_stack(coder, ASIM_NO_INDEX);
    asim_code code = asim_idmap_put(&coder->stack_index, ASIM_NO_INDEX, before, err);
    for (size_t i = 0; !code && i < batch->count; i++) {
        uint32_t index;
        if (!asim_idmap_get(&coder->stack_index, batch->stacks[i], &index)) {
            put(coder, ASIM_E_STACKS, ASIM_STACK_NEW);
            put(coder, ASIM_E_NEW_STACKS, batch->stacks[i]);
            index = asim_model_new_stack(coder, batch->stacks[i]);
            code = asim_idmap_put(&coder->stack_index, batch->stacks[i], index, err);
        } else if (coder->stack_next[before] == index) {
            put(coder, ASIM_E_STACKS, ASIM_STACK_NEXT);
        } else {
            put(coder, ASIM_E_STACKS, ASIM_STACK_MET + (uint64_t)index);
        }
        coder->stack_next[before] = index;
        before = index;
    }
    return code;
}

asim_code asim_encode_events(asim_event_coder *coder, uint64_t first, const asim_event_batch *batch,
                             asim_buf *content, asim_err *err)
{
    uint64_t unit = 0, address_bits = 0;
    bool any_stack = false;
    for (size_t i = 0; i < batch->count; i++) {
        uint64_t delta = i ? batch->times[i] - batch->times[i - 1] : 0;
        if (delta && (unit == 0 || delta % unit != 0))
            unit = gcd(delta, unit);
        if (batch->addresses[i] != ASIM_NO_ADDRESS)
            address_bits |= batch->addresses[i] | UINT64_C(1) << 63;
        any_stack |= batch->stacks[i] != ASIM_NO_INDEX;
    }
    unsigned shift = address_bits ? (unsigned)__builtin_ctzll(address_bits) : 0;
    asim_code code = begin(coder, batch, err);
    if (code)
        return code;
    put(coder, ASIM_E_HEAD, first);
    put(coder, ASIM_E_HEAD, batch->count);
    put(coder, ASIM_E_HEAD, coder->next_slot);
    put(coder, ASIM_E_HEAD, batch->count ? batch->times[0] : 0);
    put(coder, ASIM_E_HEAD, unit);
    put(coder, ASIM_E_HEAD, shift);
    for (size_t i = 0; !code && i < batch->count; i++)
        code = put_event(coder, &batch->events[i], batch->addresses[i], address_bits != 0, shift, err);
    if (unit)
        put_times(coder, batch, unit);
    if (!code && any_stack)
        code = put_stacks(coder, batch, err);
    for (unsigned i = 1; !code && i < ASIM_E_END; i++)
        code = asim_put_section(content, (uint8_t)i, &coder->columns[i], err);
    return code;
}
