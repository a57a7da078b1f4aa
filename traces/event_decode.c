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
        return (id == ASIM_OP_NO_ID || id == ASIM_OP_AGE || id == ASIM_OP_NUMBER) &&
               (coding & (ASIM_OP_SIZE | ASIM_OP_MAGNITUDE)) != (ASIM_OP_SIZE | ASIM_OP_MAGNITUDE);
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

static inline bool take_u32(asim_bytes *column, uint32_t *ret_value)
{
    uint64_t value;
    if (!asim_take_varint(column, &value) || value > UINT32_MAX)
        return false;
    *ret_value = (uint32_t)value;
    return true;
}

static bool take_address(decoder *d, uint32_t seq, uint32_t size_index, uint64_t *ret_address)
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
    coder->alloc_address[seq] = address;
    coder->alloc_size[seq] = size_index;
    *ret_address = address;
    return true;
}

/* The columns that nearly every event reads are walked by pointers of their own, and the counters of the
 * model are local: through d and coder each step would wait for the one before it to reach memory. */
typedef struct long_varint {
    const uint8_t *next; /* NULL: wrong */
    uint64_t value;
} long_varint;

static __attribute__((noinline)) long_varint take_long(const uint8_t *next, const uint8_t *end)
{
    asim_bytes in = {next, end};
    long_varint taken = {NULL, 0};
    if (asim_take_long_varint(&in, &taken.value))
        taken.next = in.next;
    return taken;
}

/* Takes a varint from the pointer p, or leaves the loop with the column at fault. */
#define TAKE(p, end, into, column)                                                                           \
    do {                                                                                                     \
        if (__builtin_expect((p) < (end) && *(p) < 0x80, 1)) {                                               \
            (into) = *(p)++;                                                                                 \
        } else {                                                                                             \
            long_varint taken_ = take_long((p), (end));                                                      \
            if (!taken_.next)                                                                                \
                return (column);                                                                             \
            (p) = taken_.next;                                                                               \
            (into) = taken_.value;                                                                           \
        }                                                                                                    \
    } while (0)

/* 0, or the column at fault; *ret_done events are whole. Compiled twice, with and without addresses. */
static inline __attribute__((always_inline)) unsigned
take_all(decoder *d, asim_event *events, uint64_t *addresses, size_t count, size_t *ret_done)
{
    asim_event_coder *coder = d->coder;
    const uint8_t *codes = d->columns[ASIM_E_CODES].next, *codes_end = d->columns[ASIM_E_CODES].end;
    const uint8_t *ages = d->columns[ASIM_E_AGES].next, *ages_end = d->columns[ASIM_E_AGES].end;
    const uint8_t *sizes = d->columns[ASIM_E_SIZES].next, *sizes_end = d->columns[ASIM_E_SIZES].end;
    const op *ops = d->ops;
    size_t op_count = d->op_count;
    uint32_t *released = coder->released, *alloc_slot = coder->alloc_slot;
    const uint64_t *size_table = coder->sizes;
    uint32_t released_count = 0, alloc_count = 0, next_slot = coder->next_slot, last_freed = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t code, age, size_index;
        *ret_done = i;
        TAKE(codes, codes_end, code, ASIM_E_CODES);
        if (code >= op_count)
            return ASIM_E_CODES;
        unsigned coding = ops[code].coding;
        uint32_t id = 0;
        uint64_t size = 0;
        if (addresses)
            addresses[i] = ASIM_NO_ADDRESS;
        switch (coding & ASIM_OP_ID_MASK) {
        case ASIM_OP_NEW:
            id = released_count ? released[--released_count] : next_slot;
            if (id >= next_slot)
                next_slot = id + 1;
            alloc_slot[alloc_count++] = id;
            break;
        case ASIM_OP_NEW_ID:
            released_count -= released_count != 0;
            if (!take_u32(&d->columns[ASIM_E_IDS], &id))
                return ASIM_E_IDS;
            if (id >= next_slot)
                next_slot = id + 1;
            alloc_slot[alloc_count++] = id;
            break;
        case ASIM_OP_AGE:
            TAKE(ages, ages_end, age, ASIM_E_AGES);
            if (age > alloc_count)
                return ASIM_E_AGES;
            if (age)
                id = alloc_slot[alloc_count - age];
            else if (!take_u32(&d->columns[ASIM_E_IDS], &id))
                return ASIM_E_IDS;
            if (ops[code].event.kind != ASIM_EV_FREE)
                break;
            if (addresses && age)
                asim_model_vacate(coder, (uint32_t)(alloc_count - age));
            if (ops[code].event.flags & ASIM_FREE_PENDING)
                last_freed = id;
            else
                released[released_count++] = id;
            break;
        case ASIM_OP_DONE:
            id = last_freed;
            released[released_count++] = id;
            break;
        case ASIM_OP_DONE_ID:
            if (!take_u32(&d->columns[ASIM_E_IDS], &id))
                return ASIM_E_IDS;
            released[released_count++] = id;
            break;
        case ASIM_OP_NUMBER:
            if (!take_u32(&d->columns[ASIM_E_NUMBERS], &id))
                return ASIM_E_NUMBERS;
            break;
        default:
            break;
        }
        if (coding & ASIM_OP_SIZE) {
            TAKE(sizes, sizes_end, size_index, ASIM_E_SIZES);
            if (__builtin_expect(size_index != ASIM_SIZE_NEW, 1)) {
                size_index -= ASIM_SIZE_MET;
                if (size_index >= coder->size_count)
                    return ASIM_E_SIZES;
            } else {
                if (!asim_take_varint(&d->columns[ASIM_E_NEW_SIZES], &size))
                    return ASIM_E_NEW_SIZES;
                size_index = asim_model_new_size(coder, size);
            }
            size = size_table[size_index];
            if (addresses && ops[code].event.kind == ASIM_EV_ALLOC &&
                !take_address(d, alloc_count - 1, (uint32_t)size_index, &addresses[i]))
                return ASIM_E_ADDRESSES;
        } else if ((coding & ASIM_OP_MAGNITUDE) && !asim_take_varint(&d->columns[ASIM_E_NUMBERS], &size)) {
            return ASIM_E_NUMBERS;
        }
        /* Kind, flags and lane in one store; putting an event together elsewhere first costs a stall. */
        memcpy(&events[i], &ops[code].event, offsetof(asim_event, id));
        events[i].id = id;
        events[i].size = size;
    }
    *ret_done = count;
    d->columns[ASIM_E_CODES].next = codes;
    d->columns[ASIM_E_AGES].next = ages;
    d->columns[ASIM_E_SIZES].next = sizes;
    return 0;
}

static asim_code take_events(decoder *d, asim_event_batch *batch, asim_err *err)
{
    unsigned bad;
    size_t done = 0;
    if (asim_bytes_left(&d->columns[ASIM_E_ADDRESSES]) == 0) {
        bad = take_all(d, batch->events, NULL, batch->count, &done);
        for (size_t k = 0; batch->addresses && k < batch->count; k++)
            batch->addresses[k] = ASIM_NO_ADDRESS;
    } else if (!batch->addresses) {
        return asim_fail(err, ASIM_E_INPUT, "it holds addresses, which the header does not announce");
    } else {
        bad = take_all(d, batch->events, batch->addresses, batch->count, &done);
    }
    return bad ? fail_column(bad, done, err) : ASIM_OK;
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
