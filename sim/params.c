#include "sim/params.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One value of any type, as it lies in a parameter block. */
typedef union value {
    uint64_t u64;
    bool boolean;
    double real;
    int choice;
    char text[ASIM_PARAM_TEXT_MAX];
} value;

static const struct {
    const char *name; /* lower case */
    unsigned shift;
} size_units[] = {
    {"", 0},     {"b", 0},  {"k", 10},   {"kib", 10}, {"m", 20},
    {"mib", 20}, {"g", 30}, {"gib", 30}, {"t", 40},   {"tib", 40},
};

asim_code asim_parse_u64(const char *text, uint64_t *ret_value, asim_err *err)
{
    uint64_t number = 0;
    const char *p = text;
    for (; isdigit((unsigned char)*p); p++)
        if (__builtin_mul_overflow(number, UINT64_C(10), &number) ||
            __builtin_add_overflow(number, (uint64_t)(*p - '0'), &number))
            return asim_fail(err, ASIM_E_USAGE, "'%.64s' is too large; the largest number is %" PRIu64, text,
                             UINT64_MAX);
    if (p == text || *p)
        return asim_fail(err, ASIM_E_USAGE, "'%.64s' is not a whole decimal number", text);
    *ret_value = number;
    return ASIM_OK;
}

/* Reads "12.5" into 125 and 1 decimal, trailing zeros of the fraction dropped. Returns the first character
 * after it, or NULL where no number stands or it has more digits than 64 bits hold. */
static const char *parse_decimal(const char *text, uint64_t *ret_digits, unsigned *ret_decimals)
{
    uint64_t digits = 0;
    unsigned decimals = 0;
    const char *p = text;
    if (!isdigit((unsigned char)*p))
        return NULL;
    for (; isdigit((unsigned char)*p); p++)
        if (__builtin_mul_overflow(digits, UINT64_C(10), &digits) ||
            __builtin_add_overflow(digits, (uint64_t)(*p - '0'), &digits))
            return NULL;
    if (*p == '.') {
        const char *fraction = ++p;
        while (isdigit((unsigned char)*p))
            p++;
        const char *last = p;
        if (last == fraction)
            return NULL;
        while (last > fraction && last[-1] == '0')
            last--;
        for (const char *q = fraction; q < last; q++, decimals++)
            if (__builtin_mul_overflow(digits, UINT64_C(10), &digits) ||
                __builtin_add_overflow(digits, (uint64_t)(*q - '0'), &digits))
                return NULL;
    }
    *ret_digits = digits;
    *ret_decimals = decimals;
    return p;
}

asim_code asim_parse_size(const char *text, uint64_t *ret_bytes, asim_err *err)
{
    uint64_t digits;
    unsigned decimals;
    const char *unit = parse_decimal(text, &digits, &decimals);
    size_t known = 0, count = sizeof size_units / sizeof size_units[0];
    while (unit && known < count && strcasecmp(unit, size_units[known].name) != 0)
        known++;
    if (!unit || known == count)
        return asim_fail(err, ASIM_E_USAGE,
                         "'%.64s' is not a size; write a number and B, KiB, MiB, GiB or TiB (or K, M, G, T), "
                         "as in 80GiB",
                         text);
    unsigned __int128 bytes = (unsigned __int128)digits << size_units[known].shift;
    unsigned __int128 whole = 1;
    for (; decimals > 0; decimals--)
        whole *= 10;
    if (bytes % whole != 0 && size_units[known].shift == 0)
        return asim_fail(err, ASIM_E_USAGE, "the size '%.64s' is not a whole number of bytes", text);
    bytes = (bytes + whole / 2) / whole;
    if (bytes > INT64_MAX)
        return asim_fail(err, ASIM_E_USAGE, "the size '%.64s' is too large; the limit is 8388607TiB", text);
    *ret_bytes = (uint64_t)bytes;
    return ASIM_OK;
}

static size_t format_size(uint64_t bytes, char *ret_text, size_t capacity)
{
    static const char *const names[] = {"", "KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;
    while (unit < 4 && bytes != 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    return (size_t)snprintf(ret_text, capacity, "%" PRIu64 "%s", bytes, names[unit]);
}

/* The shortest decimal that reads back as the same number. */
static size_t format_real(double number, char *ret_text, size_t capacity)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    return (size_t)snprintf(ret_text, capacity, "%s", text);
}

static asim_code parse_number(const asim_param *param, const char *text, uint64_t *ret_number, asim_err *err)
{
    if (param->none_allowed && strcmp(text, "none") == 0) {
        *ret_number = ASIM_PARAM_NONE;
        return ASIM_OK;
    }
    uint64_t number;
    asim_code code = param->type == ASIM_PARAM_BYTES ? asim_parse_size(text, &number, err)
                                                     : asim_parse_u64(text, &number, err);
    if (code)
        return code;
    bool fits = true;
    if (param->type == ASIM_PARAM_MIB)
        fits = !__builtin_mul_overflow(number, UINT64_C(1) << 20, &number);
    if (!fits || number < param->min || number > param->max ||
        (param->none_allowed && number == ASIM_PARAM_NONE)) {
        char low[32], high[32] = "";
        if (param->type == ASIM_PARAM_U64) {
            snprintf(low, sizeof low, "%" PRIu64, param->min);
            snprintf(high, sizeof high, "%" PRIu64, param->max);
        } else {
            format_size(param->min, low, sizeof low);
            format_size(param->max, high, sizeof high);
        }
        if (param->max == UINT64_MAX)
            return asim_fail(err, ASIM_E_USAGE, "out of range; allowed: %s and more%s", low,
                             param->none_allowed ? ", or none" : "");
        return asim_fail(err, ASIM_E_USAGE, "out of range; allowed: %s to %s%s", low, high,
                         param->none_allowed ? ", or none" : "");
    }
    *ret_number = number;
    return ASIM_OK;
}

static asim_code parse_bool(const char *text, bool *ret_value, asim_err *err)
{
    static const char *const words[] = {"false", "true", "off", "on", "0", "1", "False", "True"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(text, words[i]) == 0) {
            *ret_value = i % 2 == 1;
            return ASIM_OK;
        }
    return asim_fail(err, ASIM_E_USAGE, "not a switch; allowed: true, false, on, off, 1, 0");
}

static asim_code parse_real(const asim_param *param, const char *text, double *ret_value, asim_err *err)
{
    char *end;
    double number = strtod(text, &end);
    if (text[0] == 0 || text[strspn(text, "0123456789.eE+-")] != 0 || *end || !isfinite(number))
        return asim_fail(err, ASIM_E_USAGE, "not a number; write it as in 0.25");
    if (number < param->real_min || number > param->real_max)
        return asim_fail(err, ASIM_E_USAGE, "out of range; allowed: %g to %g", param->real_min,
                         param->real_max);
    *ret_value = number == 0 ? 0.0 : number; /* no -0 */
    return ASIM_OK;
}

static asim_code parse_choice(const asim_param *param, const char *text, int *ret_value, asim_err *err)
{
    if (param->choose)
        return param->choose(text, ret_value, err);
    for (int i = 0; param->choices[i]; i++)
        if (strcmp(text, param->choices[i]) == 0) {
            *ret_value = i;
            return ASIM_OK;
        }
    char list[400] = "";
    for (int i = 0; param->choices[i]; i++) {
        size_t length = strlen(list);
        snprintf(list + length, sizeof list - length, "%s%s", i ? ", " : "", param->choices[i]);
    }
    return asim_fail(err, ASIM_E_USAGE, "not one of its values; allowed: %s", list);
}

/* The length of text up to the first comma outside brackets. */
static size_t item_length(const char *text)
{
    size_t length = 0;
    for (int depth = 0; text[length] && (text[length] != ',' || depth > 0); length++) {
        if (text[length] == '[')
            depth++;
        else if (text[length] == ']' && depth > 0)
            depth--;
    }
    return length;
}

static asim_code parse_text(const char *text, char *ret_text, asim_err *err)
{
    size_t length = strlen(text);
    if (length >= ASIM_PARAM_TEXT_MAX)
        return asim_fail(err, ASIM_E_USAGE, "too long; the limit is %d bytes", ASIM_PARAM_TEXT_MAX - 1);
    if (item_length(text) != length)
        return asim_fail(err, ASIM_E_USAGE, "a comma may only stand inside []");
    memset(ret_text, 0, ASIM_PARAM_TEXT_MAX);
    memcpy(ret_text, text, length);
    return ASIM_OK;
}

static asim_code parse_value(const asim_param *param, const char *text, value *ret_value, asim_err *err)
{
    switch (param->type) {
    case ASIM_PARAM_U64:
    case ASIM_PARAM_MIB:
    case ASIM_PARAM_BYTES:
        return parse_number(param, text, &ret_value->u64, err);
    case ASIM_PARAM_BOOL:
        return parse_bool(text, &ret_value->boolean, err);
    case ASIM_PARAM_REAL:
        return parse_real(param, text, &ret_value->real, err);
    case ASIM_PARAM_CHOICE:
        return parse_choice(param, text, &ret_value->choice, err);
    case ASIM_PARAM_TEXT:
        return parse_text(text, ret_value->text, err);
    }
    return asim_fail(err, ASIM_E_BUG, "parameter %s has a type that does not exist", param->name);
}

static size_t value_size(asim_param_type type)
{
    switch (type) {
    case ASIM_PARAM_U64:
    case ASIM_PARAM_MIB:
    case ASIM_PARAM_BYTES:
        return sizeof(uint64_t);
    case ASIM_PARAM_BOOL:
        return sizeof(bool);
    case ASIM_PARAM_REAL:
        return sizeof(double);
    case ASIM_PARAM_CHOICE:
        return sizeof(int);
    case ASIM_PARAM_TEXT:
        return ASIM_PARAM_TEXT_MAX;
    }
    return 0;
}

static asim_code parse_key(const asim_param_table *table, const char *key, size_t key_length,
                           const char *text, const asim_param **ret_param, value *ret_value, asim_err *err)
{
    const asim_param *param = NULL;
    for (size_t i = 0; i < table->count && !param; i++)
        if (strlen(table->params[i].name) == key_length &&
            memcmp(table->params[i].name, key, key_length) == 0)
            param = &table->params[i];
    if (!param) {
        char list[700] = "";
        for (size_t i = 0; i < table->count; i++) {
            size_t length = strlen(list);
            snprintf(list + length, sizeof list - length, "%s%s", i ? ", " : "", table->params[i].name);
        }
        if (table->count == 0)
            return asim_fail(err, ASIM_E_USAGE, "there is no parameter '%.*s'; this policy takes none",
                             (int)(key_length < 64 ? key_length : 64), key);
        return asim_fail(err, ASIM_E_USAGE, "there is no parameter '%.*s'; known: %s",
                         (int)(key_length < 64 ? key_length : 64), key, list);
    }
    asim_code code = parse_value(param, text, ret_value, err);
    if (code)
        return asim_err_context(err, "parameter %s=%.64s", param->name, text);
    *ret_param = param;
    return ASIM_OK;
}

void asim_params_default(const asim_param_table *table, void *block)
{
    memset(block, 0, table->block_size);
    for (size_t i = 0; i < table->count; i++) {
        const asim_param *param = &table->params[i];
        value parsed;
        if (parse_value(param, param->default_text, &parsed, NULL) == ASIM_OK)
            memcpy((char *)block + param->offset, &parsed, value_size(param->type));
    }
}

asim_code asim_params_set(const asim_param_table *table, void *block, const char *key, const char *text,
                          asim_err *err)
{
    const asim_param *param;
    value parsed;
    asim_code code = parse_key(table, key, strlen(key), text, &param, &parsed, err);
    if (code)
        return code;
    memcpy((char *)block + param->offset, &parsed, value_size(param->type));
    return ASIM_OK;
}

/* With block NULL the text is only checked. */
static asim_code parse_items(const asim_param_table *table, void *block, const char *text, asim_err *err)
{
    while (*text) {
        size_t length = item_length(text);
        const char *equals = memchr(text, '=', length);
        if (!equals || equals == text)
            return asim_fail(err, ASIM_E_USAGE, "'%.*s' is not of the form key=value",
                             (int)(length < 64 ? length : 64), text);
        char item[ASIM_PARAM_TEXT_MAX + 1]; /* one more than fits, so that too long stays too long */
        size_t value_length = length - (size_t)(equals + 1 - text);
        if (value_length > ASIM_PARAM_TEXT_MAX)
            value_length = ASIM_PARAM_TEXT_MAX;
        memcpy(item, equals + 1, value_length);
        item[value_length] = 0;
        const asim_param *param;
        value parsed;
        asim_code code = parse_key(table, text, (size_t)(equals - text), item, &param, &parsed, err);
        if (code)
            return code;
        if (block)
            memcpy((char *)block + param->offset, &parsed, value_size(param->type));
        text += length;
        if (*text == ',' && *++text == 0)
            return asim_fail(err, ASIM_E_USAGE, "a parameter is missing after the last comma");
    }
    return ASIM_OK;
}

asim_code asim_params_parse(const asim_param_table *table, void *block, const char *text, asim_err *err)
{
    asim_code code = parse_items(table, NULL, text, err);
    return code ? code : parse_items(table, block, text, err);
}

static size_t format_value(const asim_param *param, const value *from, char *ret_text, size_t capacity)
{
    switch (param->type) {
    case ASIM_PARAM_U64:
    case ASIM_PARAM_MIB:
    case ASIM_PARAM_BYTES:
        if (param->none_allowed && from->u64 == ASIM_PARAM_NONE)
            return (size_t)snprintf(ret_text, capacity, "none");
        if (param->type == ASIM_PARAM_BYTES)
            return format_size(from->u64, ret_text, capacity);
        return (size_t)snprintf(ret_text, capacity, "%" PRIu64,
                                param->type == ASIM_PARAM_MIB ? from->u64 >> 20 : from->u64);
    case ASIM_PARAM_BOOL:
        return (size_t)snprintf(ret_text, capacity, "%s", from->boolean ? "true" : "false");
    case ASIM_PARAM_REAL:
        return format_real(from->real, ret_text, capacity);
    case ASIM_PARAM_CHOICE:
        return (size_t)snprintf(ret_text, capacity, "%s", param->choices[from->choice]);
    case ASIM_PARAM_TEXT:
        return (size_t)snprintf(ret_text, capacity, "%s", from->text);
    }
    return 0;
}

static bool same_value(asim_param_type type, const value *a, const value *b)
{
    switch (type) {
    case ASIM_PARAM_U64:
    case ASIM_PARAM_MIB:
    case ASIM_PARAM_BYTES:
        return a->u64 == b->u64;
    case ASIM_PARAM_BOOL:
        return a->boolean == b->boolean;
    case ASIM_PARAM_REAL:
        return a->real == b->real;
    case ASIM_PARAM_CHOICE:
        return a->choice == b->choice;
    case ASIM_PARAM_TEXT:
        return strcmp(a->text, b->text) == 0;
    }
    return false;
}

size_t asim_param_format(const asim_param *param, const void *block, char *ret_text, size_t capacity)
{
    value from;
    memcpy(&from, (const char *)block + param->offset, value_size(param->type));
    return format_value(param, &from, ret_text, capacity);
}

size_t asim_params_canonical(const asim_param_table *table, const void *block, char *ret_text,
                             size_t capacity)
{
    size_t length = 0;
    if (capacity)
        ret_text[0] = 0;
    for (size_t i = 0; i < table->count; i++) {
        const asim_param *param = &table->params[i];
        value from, standard;
        memcpy(&from, (const char *)block + param->offset, value_size(param->type));
        if (parse_value(param, param->default_text, &standard, NULL) == ASIM_OK &&
            same_value(param->type, &from, &standard))
            continue;
        char text[ASIM_PARAM_TEXT_MAX];
        format_value(param, &from, text, sizeof text);
        size_t room = length < capacity ? capacity - length : 0;
        length += (size_t)snprintf(room ? ret_text + length : NULL, room, "%s%s=%s", length ? "," : "",
                                   param->name, text);
    }
    return length;
}
