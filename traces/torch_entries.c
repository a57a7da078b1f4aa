#include "traces/torch_entries.h"

#include "sim/event.h"

#include <string.h>

/* A packed entry: a head byte (action, and what equals the entry before), then the time's difference, and
 * unless equal: the address's difference and the size; the route; the stack plus one. */
enum {
    SAME_BLOCK = 0x10,
    SAME_ROUTE = 0x20,
    SAME_STACK = 0x40,
    ENTRY_MAX = 1 + 10 + 10 + 10 + 3 + 5, /* bytes of the longest packed entry */
};

static const asim_torch_entry nothing = {.stack = ASIM_NO_INDEX};

void asim_torch_entries_init(asim_torch_entries *entries, const asim_hostmem *mem)
{
    memset(entries, 0, offsetof(asim_torch_entries, open));
    entries->mem = mem;
}

void asim_torch_entries_fini(asim_torch_entries *entries)
{
    if (!entries->mem)
        return;
    asim_mem_free(entries->mem, entries->bytes, entries->capacity, 1);
    asim_mem_free(entries->mem, entries->offsets, entries->offset_capacity, sizeof *entries->offsets);
    asim_torch_entries_init(entries, entries->mem);
}

static uint8_t *put(uint8_t *out, uint64_t number)
{
    while (number >= 0x80) {
        *out++ = (uint8_t)(number | 0x80);
        number >>= 7;
    }
    *out++ = (uint8_t)number;
    return out;
}

static const uint8_t *get(const uint8_t *in, uint64_t *ret_number)
{
    uint64_t number = *in & 0x7F;
    for (unsigned shift = 7; *in++ & 0x80; shift += 7)
        number |= (uint64_t)(*in & 0x7F) << shift;
    *ret_number = number;
    return in;
}

static uint64_t zigzag(uint64_t difference)
{
    return difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
}

static uint64_t unzigzag(uint64_t number)
{
    return number >> 1 ^ (0 - (number & 1));
}

static asim_code pack(asim_torch_entries *entries, asim_err *err)
{
    asim_code code = asim_mem_grow(entries->mem, (void **)&entries->offsets, &entries->offset_capacity,
                                   entries->chunk_count + 1, sizeof *entries->offsets, err);
    if (!code)
        code = asim_mem_grow(entries->mem, (void **)&entries->bytes, &entries->capacity,
                             entries->used + (size_t)ASIM_TORCH_CHUNK * ENTRY_MAX, 1, err);
    if (code)
        return code;
    const asim_torch_entry *last = &nothing;
    uint8_t *out = entries->bytes + entries->used;
    for (size_t i = 0; i < ASIM_TORCH_CHUNK; i++) {
        const asim_torch_entry *e = &entries->open[i];
        unsigned head = e->action;
        head |= e->address == last->address && e->size == last->size ? SAME_BLOCK : 0;
        head |= e->route == last->route ? SAME_ROUTE : 0;
        head |= e->stack == last->stack ? SAME_STACK : 0;
        *out++ = (uint8_t)head;
        out = put(out, zigzag(e->time_us - last->time_us));
        if (!(head & SAME_BLOCK)) {
            out = put(out, zigzag(e->address - last->address));
            out = put(out, e->size);
        }
        if (!(head & SAME_ROUTE))
            out = put(out, e->route);
        if (!(head & SAME_STACK))
            out = put(out, (uint64_t)e->stack + 1);
        last = e;
    }
    entries->offsets[entries->chunk_count++] = entries->used;
    entries->used = (size_t)(out - entries->bytes);
    return ASIM_OK;
}

asim_code asim_torch_entries_add(asim_torch_entries *entries, const asim_torch_entry *entry, asim_err *err)
{
    entries->open[entries->count % ASIM_TORCH_CHUNK] = *entry;
    if ((entries->count + 1) % ASIM_TORCH_CHUNK == 0) {
        asim_code code = pack(entries, err);
        if (code)
            return code;
    }
    entries->count++;
    return ASIM_OK;
}

void asim_torch_cursor_init(asim_torch_cursor *cursor, const asim_torch_entries *entries)
{
    cursor->entries = entries;
    cursor->chunk = UINT64_MAX;
}

void asim_torch_cursor_load(asim_torch_cursor *cursor, uint64_t chunk)
{
    const asim_torch_entries *entries = cursor->entries;
    cursor->chunk = chunk;
    if (chunk >= entries->chunk_count) {
        memcpy(cursor->items, entries->open, entries->count % ASIM_TORCH_CHUNK * sizeof *cursor->items);
        return;
    }
    const uint8_t *in = entries->bytes + entries->offsets[chunk];
    asim_torch_entry e = nothing;
    uint64_t number;
    for (size_t i = 0; i < ASIM_TORCH_CHUNK; i++) {
        unsigned head = *in++;
        e.action = head & 0x0F;
        in = get(in, &number);
        e.time_us += unzigzag(number);
        if (!(head & SAME_BLOCK)) {
            in = get(in, &number);
            e.address += unzigzag(number);
            in = get(in, &e.size);
        }
        if (!(head & SAME_ROUTE)) {
            in = get(in, &number);
            e.route = (uint16_t)number;
        }
        if (!(head & SAME_STACK)) {
            in = get(in, &number);
            e.stack = (uint32_t)(number - 1);
        }
        cursor->items[i] = e;
    }
}
