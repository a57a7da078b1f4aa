#include "sim/ranges.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    ITEM_MAX = ASIM_PARAM_TEXT_MAX,
    DECIMALS_MAX = 9,
};

asim_range_kind asim_range_kind_of(asim_param_type type)
{
    switch (type) {
    case ASIM_PARAM_U64:
    case ASIM_PARAM_MIB:
    case ASIM_PARAM_REAL:
        return ASIM_RANGE_NUMBER;
    case ASIM_PARAM_BYTES:
        return ASIM_RANGE_SIZE;
    case ASIM_PARAM_BOOL:
    case ASIM_PARAM_CHOICE:
    case ASIM_PARAM_TEXT:
        break;
    }
    return ASIM_RANGE_NONE;
}

static asim_code append(asim_values *values, const char *text, const asim_hostmem *mem, asim_err *err)
{
    if (values->count == ASIM_VALUES_MAX)
        return asim_fail(err, ASIM_E_USAGE, "more than %d values; take a larger step", ASIM_VALUES_MAX);
    void *items = values->items;
    asim_code code =
        asim_mem_grow(mem, &items, &values->capacity, values->count + 1, sizeof *values->items, err);
    if (code)
        return code;
    values->items = items;
    size_t size = strlen(text) + 1;
    char *copy = asim_mem_new(mem, size, 1);
    if (!copy)
        return asim_fail_memory(err, size);
    memcpy(copy, text, size);
    values->items[values->count++] = copy;
    return ASIM_OK;
}

/* A decimal number as a count of 10^-decimals. Returns false where text is none, or too long. */
static bool read_decimal(const char *text, uint64_t *ret_digits, unsigned *ret_decimals)
{
    uint64_t digits = 0;
    unsigned decimals = 0;
    bool point = false, any = false;
    for (const char *p = text; *p; p++) {
        if (*p == '.' && !point && any) {
            point = true;
            continue;
        }
        if (!isdigit((unsigned char)*p) || __builtin_mul_overflow(digits, UINT64_C(10), &digits) ||
            __builtin_add_overflow(digits, (uint64_t)(*p - '0'), &digits))
            return false;
        any = true;
        decimals += point;
    }
    *ret_digits = digits;
    *ret_decimals = decimals;
    return any && decimals <= DECIMALS_MAX && text[strlen(text) - 1] != '.';
}

static bool scale(uint64_t *number, unsigned *decimals, unsigned to)
{
    for (; *decimals < to; ++*decimals)
        if (__builtin_mul_overflow(*number, UINT64_C(10), number))
            return false;
    return true;
}

typedef struct range {
    uint64_t low, high, step; /* numbers: counts of 10^-decimals; sizes: bytes */
    unsigned decimals;
    bool by_factor; /* step is a factor */
} range;

/* The three numbers. A factor is a whole number, whatever the unit of the others. */
static asim_code read_range(char *parts[3], asim_range_kind kind, range *ret_range, asim_err *err)
{
    range r = {.by_factor = parts[2][0] == 'x'};
    const char *step = parts[2] + 1;
    if (parts[2][0] != 'x' && parts[2][0] != '+')
        return asim_fail(err, ASIM_E_USAGE, "a range is LOW:HIGH:+STEP or LOW:HIGH:xFACTOR, as in 64:512:x2");
    asim_code code;
    if (r.by_factor && ((code = asim_parse_u64(step, &r.step, err))))
        return asim_err_context(err, "the factor");
    if (kind == ASIM_RANGE_SIZE) {
        if ((code = asim_parse_size(parts[0], &r.low, err)) ||
            (code = asim_parse_size(parts[1], &r.high, err)) ||
            (!r.by_factor && (code = asim_parse_size(step, &r.step, err))))
            return code;
    } else {
        unsigned low = 0, high = 0, by = 0;
        const char *const texts[] = {parts[0], parts[1], step};
        uint64_t *const numbers[] = {&r.low, &r.high, &r.step};
        unsigned *const decimals[] = {&low, &high, &by};
        size_t count = r.by_factor ? 2 : 3;
        for (size_t i = 0; i < count; i++) {
            if (!read_decimal(texts[i], numbers[i], decimals[i]))
                return asim_fail(err, ASIM_E_USAGE, "'%.64s' is not a number", texts[i]);
            r.decimals = *decimals[i] > r.decimals ? *decimals[i] : r.decimals;
        }
        for (size_t i = 0; i < count; i++)
            if (!scale(numbers[i], decimals[i], r.decimals))
                return asim_fail(err, ASIM_E_USAGE, "'%.64s' has too many digits", texts[i]);
    }
    if (r.low > r.high)
        return asim_fail(err, ASIM_E_USAGE, "it ends before it begins");
    if (r.by_factor && (r.step < 2 || r.low == 0))
        return asim_fail(err, ASIM_E_USAGE,
                         r.low ? "a factor is 2 or more" : "a range of factors can't begin at 0");
    if (r.step == 0)
        return asim_fail(err, ASIM_E_USAGE, "a step of 0 never ends");
    *ret_range = r;
    return ASIM_OK;
}

static void format_decimal(uint64_t digits, unsigned decimals, char *ret_text, size_t capacity)
{
    uint64_t unit = 1;
    for (unsigned i = 0; i < decimals; i++)
        unit *= 10;
    if (decimals == 0)
        snprintf(ret_text, capacity, "%" PRIu64, digits);
    else
        snprintf(ret_text, capacity, "%" PRIu64 ".%0*" PRIu64, digits / unit, (int)decimals, digits % unit);
}

static asim_code write_out(const range *r, asim_values *values, const asim_hostmem *mem, asim_err *err)
{
    for (uint64_t at = r->low;;) {
        char text[48];
        format_decimal(at, r->decimals, text, sizeof text);
        asim_code code = append(values, text, mem, err);
        if (code)
            return code;
        uint64_t next;
        bool over = r->by_factor ? __builtin_mul_overflow(at, r->step, &next)
                                 : __builtin_add_overflow(at, r->step, &next);
        if (over || next > r->high)
            return ASIM_OK;
        at = next;
    }
}

/* Cuts item, which may be changed, at its colons; false where it has not just two. */
static bool cut_range(char *item, char *ret_parts[3])
{
    size_t count = 0;
    ret_parts[count++] = item;
    for (char *p = item; *p; p++)
        if (*p == ':') {
            if (count == 3)
                return false;
            *p = 0;
            ret_parts[count++] = p + 1;
        }
    return count == 3;
}

static asim_code parse_item(const char *item, asim_range_kind kind, asim_values *values,
                            const asim_hostmem *mem, asim_err *err)
{
    char copy[ITEM_MAX], *parts[3];
    if (!item[0])
        return asim_fail(err, ASIM_E_USAGE, "a value is missing at a comma");
    if (kind == ASIM_RANGE_NONE || !strchr(item, ':'))
        return append(values, item, mem, err);
    snprintf(copy, sizeof copy, "%s", item);
    if (!cut_range(copy, parts))
        return asim_fail(err, ASIM_E_USAGE,
                         "'%.64s': a range is LOW:HIGH:+STEP or LOW:HIGH:xFACTOR, as in 64:512:x2", item);
    range r = {0};
    asim_code code = read_range(parts, kind, &r, err);
    if (!code)
        code = write_out(&r, values, mem, err);
    return code == ASIM_E_USAGE ? asim_err_context(err, "the range %.64s", item) : code;
}

asim_code asim_values_parse(const char *text, asim_range_kind kind, asim_values *values,
                            const asim_hostmem *mem, asim_err *err)
{
    for (;;) {
        char item[ITEM_MAX];
        size_t length = 0;
        for (int depth = 0; text[length] && (text[length] != ',' || depth > 0); length++)
            depth += text[length] == '[' ? 1 : text[length] == ']' && depth > 0 ? -1 : 0;
        if (length >= sizeof item)
            return asim_fail(err, ASIM_E_USAGE, "'%.40s...' is too long; the limit is %zu bytes", text,
                             sizeof item - 1);
        memcpy(item, text, length);
        item[length] = 0;
        asim_code code = parse_item(item, kind, values, mem, err);
        if (code || !text[length])
            return code;
        text += length + 1;
    }
}

void asim_values_fini(asim_values *values, const asim_hostmem *mem)
{
    for (size_t i = 0; i < values->count; i++)
        asim_mem_free(mem, values->items[i], strlen(values->items[i]) + 1, 1);
    asim_mem_free(mem, values->items, values->capacity, sizeof *values->items);
    *values = (asim_values){0};
}
