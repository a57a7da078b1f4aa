#include "sim/profile.h"

#include "sim/hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* X(name in the file, required): the numbers of a profile, in the order of the file. */
#define NUMBERS(X)                                                                                           \
    X(capacity_bytes)                                                                                        \
    X(context_bytes)                                                                                         \
    X(granule_bytes)                                                                                         \
    X(hit_ns)                                                                                                \
    X(malloc_ns)                                                                                             \
    X(malloc_per_mib_ns)                                                                                     \
    X(free_ns)                                                                                               \
    X(free_per_mib_ns)                                                                                       \
    X(reserve_ns)                                                                                            \
    X(unreserve_ns)                                                                                          \
    X(map_ns)                                                                                                \
    X(map_per_page_ns)                                                                                       \
    X(unmap_ns)                                                                                              \
    X(unmap_per_page_ns)                                                                                     \
    X(event_record_ns)                                                                                       \
    X(event_query_ns)                                                                                        \
    X(wait_ns)                                                                                               \
    X(launch_ns)                                                                                             \
    X(copy_bytes_per_us)                                                                                     \
    X(move_ns)

static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
#define NUMBER_FIELD(name) {#name, offsetof(asim_profile, name)},
    NUMBERS(NUMBER_FIELD)
#undef NUMBER_FIELD
};

enum {
    NUMBER_COUNT = sizeof numbers / sizeof numbers[0]
};

_Static_assert(NUMBER_COUNT < 64, "one bit a number");

static const char generic_80g[] = {
#include "sim/generic-80g.inc"
};

static const struct {
    const char *name;
    const char *text;
    size_t length;
} builtins[] = {
    {"generic-80g", generic_80g, sizeof generic_80g},
};

const char *const *asim_profile_names(void)
{
    static const char *const names[] = {"generic-80g", NULL};
    return names;
}

bool asim_profile_builtin(const char *name, asim_profile *ret_profile)
{
    for (size_t i = 0; i < sizeof builtins / sizeof builtins[0]; i++)
        if (strcmp(builtins[i].name, name) == 0)
            return asim_profile_parse(builtins[i].text, builtins[i].length, ret_profile, NULL) == ASIM_OK;
    return false;
}

uint64_t asim_profile_digest(const asim_profile *profile)
{
    uint64_t digest = ASIM_HASH_INIT;
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        uint64_t value;
        memcpy(&value, (const char *)profile + numbers[i].offset, sizeof value);
        digest = asim_hash_u64(digest, value);
    }
    return digest;
}

/* The next word of line (up to its end), moved past; length 0 at the end. */
static const char *next_word(const char **line, const char *end, size_t *ret_length)
{
    const char *p = *line;
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r'))
        p++;
    const char *start = p;
    while (p < end && *p != ' ' && *p != '\t' && *p != '\r')
        p++;
    *line = p;
    *ret_length = (size_t)(p - start);
    return start;
}

static bool parse_number(const char *word, size_t length, uint64_t *ret_value)
{
    uint64_t value = 0;
    if (length == 0)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (word[i] < '0' || word[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(word[i] - '0'), &value))
            return false;
    }
    *ret_value = value;
    return true;
}

/* Copies the rest of the line, without blanks at either end. */
static asim_code copy_text(const char *p, const char *end, uint64_t number, char *to, size_t capacity,
                           asim_err *err)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (end > p && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    size_t length = (size_t)(end - p);
    if (length == 0 || length >= capacity)
        return asim_fail_at(err, ASIM_E_INPUT, number, "line %" PRIu64 ": 1 to %zu characters wanted", number,
                            capacity - 1);
    memcpy(to, p, length);
    to[length] = 0;
    return ASIM_OK;
}

static asim_code parse_line(const char *p, const char *end, uint64_t number, asim_profile *profile,
                            uint64_t *seen, asim_err *err)
{
    size_t length;
    const char *key = next_word(&p, end, &length);
    if (length == 0)
        return ASIM_OK;
    if (length == 4 && memcmp(key, "name", 4) == 0)
        return copy_text(p, end, number, profile->name, sizeof profile->name, err);
    if (length == 6 && memcmp(key, "origin", 6) == 0) {
        asim_code code = copy_text(p, end, number, profile->origin, sizeof profile->origin, err);
        profile->measured = strncmp(profile->origin, "measured", 8) == 0;
        if (!code && !profile->measured && strncmp(profile->origin, "estimated", 9) != 0)
            code = asim_fail_at(err, ASIM_E_INPUT, number,
                                "line %" PRIu64 ": the origin begins with 'measured' or 'estimated'", number);
        return code;
    }
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        if (strlen(numbers[i].name) != length || memcmp(numbers[i].name, key, length) != 0)
            continue;
        size_t value_length, rest;
        const char *value = next_word(&p, end, &value_length);
        uint64_t parsed;
        next_word(&p, end, &rest);
        if (rest || !parse_number(value, value_length, &parsed))
            return asim_fail_at(err, ASIM_E_INPUT, number,
                                "line %" PRIu64 ": %s takes one whole number, not '%.*s'", number,
                                numbers[i].name, (int)(end - value > 40 ? 40 : end - value), value);
        if (*seen >> i & 1)
            return asim_fail_at(err, ASIM_E_INPUT, number, "line %" PRIu64 ": %s stands here twice", number,
                                numbers[i].name);
        *seen |= UINT64_C(1) << i;
        memcpy((char *)profile + numbers[i].offset, &parsed, sizeof parsed);
        return ASIM_OK;
    }
    return asim_fail_at(err, ASIM_E_INPUT, number, "line %" PRIu64 ": unknown name '%.*s'", number,
                        (int)(length > 40 ? 40 : length), key);
}

asim_code asim_profile_parse(const char *text, size_t length, asim_profile *ret_profile, asim_err *err)
{
    asim_profile profile = {.name = ""};
    uint64_t seen = 0, number = 0;
    for (const char *p = text, *end = text + length; p < end;) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *stop = newline ? newline : end;
        const char *comment = memchr(p, '#', (size_t)(stop - p));
        number++;
        asim_code code = parse_line(p, comment ? comment : stop, number, &profile, &seen, err);
        if (code)
            return code;
        p = stop + 1;
    }
    if (!profile.name[0] || !profile.origin[0])
        return asim_fail(err, ASIM_E_INPUT, "a device profile needs a name and an origin line");
    for (size_t i = 0; i < NUMBER_COUNT; i++)
        if (!(seen >> i & 1))
            return asim_fail(err, ASIM_E_INPUT, "the number %s is missing", numbers[i].name);
    if (profile.granule_bytes == 0 || (profile.granule_bytes & (profile.granule_bytes - 1)) ||
        profile.granule_bytes > (UINT64_C(1) << 40))
        return asim_fail(err, ASIM_E_INPUT, "granule_bytes is a power of two up to 2^40");
    if (profile.capacity_bytes == 0 || profile.capacity_bytes > (UINT64_C(1) << 62))
        return asim_fail(err, ASIM_E_INPUT, "capacity_bytes is at least 1 and at most 2^62");
    if (profile.copy_bytes_per_us == 0)
        return asim_fail(err, ASIM_E_INPUT, "copy_bytes_per_us is at least 1");
    *ret_profile = profile;
    return ASIM_OK;
}
