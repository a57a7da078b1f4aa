#include "traces/strtab.h"

#include <string.h>

void asim_strtab_init(asim_strtab *table, const asim_hostmem *mem)
{
    memset(table, 0, sizeof *table);
    table->mem = mem;
}

void asim_strtab_fini(asim_strtab *table)
{
    if (!table->mem)
        return;
    asim_mem_free(table->mem, table->bytes, table->capacity, 1);
    asim_mem_free(table->mem, table->items, table->item_capacity, sizeof *table->items);
    asim_mem_free(table->mem, table->slots, table->slot_count, sizeof *table->slots);
    memset(table, 0, sizeof *table);
}

static uint32_t hash_text(const char *text, size_t length)
{
    uint64_t state = length * UINT64_C(0x9E3779B97F4A7C15), word;
    for (; length >= 8; text += 8, length -= 8) {
        memcpy(&word, text, 8);
        state = (state ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        state ^= state >> 32;
    }
    word = 0;
    if (length)
        memcpy(&word, text, length);
    state = (state ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(state >> 32);
}

static asim_code grow_slots(asim_strtab *table, asim_err *err)
{
    size_t wanted = table->slot_count ? table->slot_count * 2 : 256;
    uint32_t *slots = asim_mem_new(table->mem, wanted, sizeof *slots);
    if (!slots)
        return asim_fail_memory(err, wanted * sizeof *slots);
    for (size_t i = 0; i < table->count; i++) {
        size_t at = table->items[i].hash & (wanted - 1);
        while (slots[at])
            at = (at + 1) & (wanted - 1);
        slots[at] = (uint32_t)i + 1;
    }
    asim_mem_free(table->mem, table->slots, table->slot_count, sizeof *slots);
    table->slots = slots;
    table->slot_count = wanted;
    return ASIM_OK;
}

asim_code asim_strtab_add(asim_strtab *table, const char *text, size_t length, uint32_t *ret_number,
                          asim_err *err)
{
    if (table->count * 2 >= table->slot_count) {
        asim_code code = grow_slots(table, err);
        if (code)
            return code;
    }
    uint32_t hash = hash_text(text, length);
    size_t at = hash & (table->slot_count - 1);
    for (; table->slots[at]; at = (at + 1) & (table->slot_count - 1)) {
        const asim_strtab_item *item = &table->items[table->slots[at] - 1];
        if (item->hash == hash && item->length == length &&
            memcmp(table->bytes + item->offset, text, length) == 0) {
            *ret_number = table->slots[at] - 1;
            return ASIM_OK;
        }
    }
    if (length >= UINT32_MAX || table->count >= UINT32_MAX - 1)
        return asim_fail(err, ASIM_E_INPUT, "more than 2^32 distinct strings, or one of 4 GiB");
    asim_code code =
        asim_mem_grow(table->mem, (void **)&table->bytes, &table->capacity, table->used + length + 1, 1, err);
    if (!code)
        code = asim_mem_grow(table->mem, (void **)&table->items, &table->item_capacity, table->count + 1,
                             sizeof *table->items, err);
    if (code)
        return code;
    char *place = table->bytes + table->used;
    if (length)
        memcpy(place, text, length);
    place[length] = 0;
    table->items[table->count] = (asim_strtab_item){table->used, (uint32_t)length, hash};
    table->used += length + 1;
    table->slots[at] = (uint32_t)++table->count;
    *ret_number = (uint32_t)table->count - 1;
    return ASIM_OK;
}

/* Bytes of the UTF-8 sequence that begins at p, or 0 if none does (Unicode 15, table 3-7). */
static size_t sequence_length(const unsigned char *p, size_t left)
{
    if (p[0] < 0x80)
        return p[0] != 0;
    if (p[0] < 0xC2 || p[0] > 0xF4)
        return 0;
    size_t length = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (left < length)
        return 0;
    unsigned low = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
    unsigned high = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

void asim_strtab_clean(char *out, const char *text, size_t length)
{
    const unsigned char *in = (const unsigned char *)text;
    for (size_t i = 0; i < length;) {
        size_t step = sequence_length(in + i, length - i);
        if (step == 0) {
            out[i++] = '?';
            continue;
        }
        memmove(out + i, in + i, step);
        i += step;
    }
}
