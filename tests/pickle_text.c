#include "tests/pickle_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static asim_code memory_read(void *ctx, void *buffer, size_t capacity, size_t *ret_length, asim_err *err)
{
    memory_input *m = ctx;
    (void)err;
    size_t length = m->length - m->at;
    if (length > capacity)
        length = capacity;
    if (m->piece && length > m->piece)
        length = m->piece;
    if (length)
        memcpy(buffer, m->bytes + m->at, length);
    m->at += length;
    *ret_length = length;
    return ASIM_OK;
}

asim_input memory_input_stream(memory_input *memory)
{
    return (asim_input){memory_read, memory};
}

static void *counting_resize(void *ctx, void *memory, size_t old_size, size_t new_size)
{
    counting_memory *m = ctx;
    if (new_size == 0) {
        m->used -= old_size;
        free(memory);
        return NULL;
    }
    m->requests++;
    size_t used = m->used - old_size + new_size;
    if ((m->refuse_at && m->requests >= m->refuse_at) || (m->limit && used > m->limit))
        return NULL;
    void *moved = realloc(memory, new_size);
    if (!moved)
        return NULL;
    m->used = used;
    if (used > m->peak)
        m->peak = used;
    return moved;
}

asim_hostmem counting_memory_table(counting_memory *memory)
{
    return (asim_hostmem){counting_resize, memory};
}

typedef struct writer {
    const char *text, *start;
    uint8_t *bytes;
    size_t length, capacity;
} writer;

static void put(writer *w, const void *bytes, size_t length)
{
    if (w->length + length > w->capacity) {
        w->capacity = (w->length + length) * 2;
        w->bytes = realloc(w->bytes, w->capacity);
        if (!w->bytes)
            abort();
    }
    memcpy(w->bytes + w->length, bytes, length);
    w->length += length;
}

static void put1(writer *w, uint8_t byte)
{
    put(w, &byte, 1);
}

static char peek(writer *w)
{
    while (*w->text == ' ' || *w->text == '\n')
        w->text++;
    return *w->text;
}

static void expect(writer *w, char wanted)
{
    if (peek(w) != wanted) {
        fprintf(stderr, "pickle_from_text: '%c' wanted at: %s\n", wanted, w->text);
        abort();
    }
    w->text++;
}

static bool word(writer *w, const char *text)
{
    if (strncmp(w->text, text, strlen(text)) != 0)
        return false;
    w->text += strlen(text);
    return true;
}

static void integer(writer *w)
{
    char *end;
    bool negative = *w->text == '-';
    uint64_t bits = negative ? (uint64_t)strtoll(w->text, &end, 0) : strtoull(w->text, &end, 0);
    if (end == w->text) {
        fprintf(stderr, "pickle_from_text: what is this: %s\n", w->text);
        abort();
    }
    w->text = end;
    put1(w, 0x8A);
    put1(w, 9);
    for (int i = 0; i < 8; i++)
        put1(w, (uint8_t)(bits >> 8 * i));
    put1(w, negative ? 0xFF : 0);
    if (negative) { /* eight bytes, as a sign in a ninth would make it too large */
        w->length--;
        w->bytes[w->length - 9] = 8;
    }
}

static void value(writer *w)
{
    char c = peek(w);
    if (c == '\'') {
        const char *end = strchr(++w->text, '\'');
        uint32_t length = (uint32_t)(end - w->text);
        put1(w, 'X');
        put(w, &length, 4);
        put(w, w->text, length);
        put1(w, 0x94);
        w->text = end + 1;
    } else if (c == '{' || c == '[') {
        char close = c == '{' ? '}' : ']';
        w->text++;
        put1(w, c == '{' ? '}' : ']');
        put1(w, 0x94);
        put1(w, '(');
        while (peek(w) != close) {
            value(w);
            if (c == '{') {
                expect(w, ':');
                value(w);
            }
            if (peek(w) != close)
                expect(w, ',');
        }
        w->text++;
        put1(w, c == '{' ? 'u' : 'e');
    } else if (c == '(') {
        unsigned count = 0;
        w->text++;
        while (peek(w) != ')') {
            value(w);
            count++;
            if (peek(w) != ')')
                expect(w, ',');
        }
        w->text++;
        put1(w, count ? (uint8_t)(0x84 + count) : ')');
        put1(w, 0x94);
    } else if (word(w, "True")) {
        put1(w, 0x88);
    } else if (word(w, "False")) {
        put1(w, 0x89);
    } else if (word(w, "None")) {
        put1(w, 'N');
    } else {
        integer(w);
    }
}

uint8_t *pickle_from_text(const char *text, size_t *ret_length)
{
    writer w = {.text = text, .start = text};
    put(&w, "\x80\x04", 2);
    value(&w);
    put1(&w, '.');
    if (peek(&w)) {
        fprintf(stderr, "pickle_from_text: more follows: %s\n", w.text);
        abort();
    }
    *ret_length = w.length;
    return w.bytes;
}
