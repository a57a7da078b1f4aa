#include "tests/golden_text.h"

#include <stdlib.h>

void golden_text_fini(golden_text *text)
{
    asim_mem_free(asim_hostmem_libc(), text->bytes, text->capacity, 1);
    *text = (golden_text){0};
}

void golden_text_append(golden_text *text, const char *bytes, size_t length)
{
    if (length == 0)
        return;
    if (length > text->capacity - text->length) {
        void *memory = text->bytes;
        if (asim_mem_grow(asim_hostmem_libc(), &memory, &text->capacity, text->length + length, 1, NULL)) {
            text->refused = true;
            return;
        }
        text->bytes = memory;
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

void golden_text_number(golden_text *text, uint64_t number)
{
    char digits[20];
    size_t first = sizeof digits;
    do
        digits[--first] = (char)('0' + number % 10);
    while (number /= 10);
    golden_text_append(text, digits + first, sizeof digits - first);
}

static bool at_end(const char *text)
{
    return *text == 0 || *text == ' ';
}

bool golden_scan_number(const char **text, uint64_t limit, uint64_t *ret_number)
{
    const char *p = *text;
    uint64_t number = 0;
    if (*p == '0' && !at_end(p + 1))
        return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (number > (limit - digit) / 10 || digit > limit)
            return false;
        number = number * 10 + digit;
    }
    if (p == *text || !at_end(p))
        return false;
    *ret_number = number;
    *text = p;
    return true;
}

bool golden_scan_space(const char **text)
{
    if (**text != ' ')
        return false;
    ++*text;
    return true;
}

bool golden_scan_fraction(const char **text, double *ret_fraction)
{
    if (**text < '0' || **text > '9')
        return false;
    char *end;
    double fraction = strtod(*text, &end);
    if (!at_end(end) || !(fraction >= 0 && fraction <= 1))
        return false;
    *ret_fraction = fraction;
    *text = end;
    return true;
}
