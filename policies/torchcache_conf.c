#include "policies/torchcache_conf.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

enum {
    TOKEN_MAX = 128 /* bytes; longer ones mean nothing in any release */
};

typedef enum part { /* of an option, in the old grammar */
    PART_KEY,
    PART_COLON,
    PART_VALUE,
    PART_COMMA,
    PARTS
} part;

typedef struct reader { /* R12: what is left of the string, and the token at its front */
    const char *rest;
    char token[TOKEN_MAX]; /* empty at the end */
    const asim_tc_release *release;
    asim_err *err;
    part part; /* what comes next, in the old grammar */
} reader;

void asim_tc_options_default(const asim_tc_release *release, asim_tc_options *ret_options)
{
    *ret_options = (asim_tc_options){
        .max_split = ASIM_TC_UNLIMITED,
        .max_rounding = ASIM_TC_LARGE_SEG,
        .rounding = {.one_is_exact = !release->division_one_rounds, .bypass = ASIM_TC_UNLIMITED},
    };
}

/* R15: options are separated by commas and white space, key and value by colons; what has no value, and what
 * follows a second colon, is passed over. Gives the tokens KEY : VALUE , that the other releases give. */
static asim_code advance_old(reader *in)
{
    static const char ends[] = ", \t\n\v\f\r", marks[] = ":, \t\n\v\f\r";
    if (in->part == PART_KEY) {
        const char *p = in->rest;
        for (;;) {
            p += strspn(p, ends);
            size_t option = strcspn(p, ends), key = strcspn(p, marks);
            size_t colons = strspn(p + key, ":");
            if (!*p || (key > 0 && key + colons < option))
                break;
            p += option; /* no value, or no key */
        }
        in->rest = p;
    }
    size_t length = 0;
    if (in->part == PART_KEY || in->part == PART_VALUE) {
        in->rest += in->part == PART_VALUE ? strspn(in->rest, ":") : 0;
        length = strcspn(in->rest, marks);
        if (length >= TOKEN_MAX)
            return asim_fail(in->err, ASIM_E_USAGE, "'%.32s...' is too long for a key or a value", in->rest);
        memcpy(in->token, in->rest, length);
        in->rest += length;
        if (in->part == PART_VALUE) {
            in->rest += strcspn(in->rest, ends);
            in->rest += strspn(in->rest, ends);
        }
    } else if (in->part == PART_COLON || in->rest[strspn(in->rest, ends)]) {
        in->token[length++] = in->part == PART_COLON ? ':' : ',';
    }
    in->token[length] = 0;
    in->part = (part)((in->part + 1) % PARTS);
    return ASIM_OK;
}

static asim_code advance(reader *in)
{
    const char *p = in->rest;
    size_t length = 0;
    if (in->release->old_grammar)
        return advance_old(in);
    while (*p == ' ')
        p++;
    if (*p && strchr(",:[]", *p)) {
        in->token[length++] = *p++;
    } else {
        for (; *p && !strchr(",:[]", *p); p++) {
            if (*p == ' ')
                continue;
            if (length + 1 == TOKEN_MAX)
                return asim_fail(in->err, ASIM_E_USAGE, "'%.32s...' is too long for a key or a value",
                                 in->token);
            in->token[length++] = *p;
        }
    }
    in->token[length] = 0;
    in->rest = p;
    return ASIM_OK;
}

static asim_code expect(reader *in, const char *separator)
{
    if (strcmp(in->token, separator) != 0)
        return asim_fail(in->err, ASIM_E_USAGE, "expected '%s' %s%s%s", separator,
                         in->token[0] ? "instead of '" : "at the end", in->token, in->token[0] ? "'" : "");
    return advance(in);
}

/* R19: a prefix parser, as the C library's; what follows the digits is ignored. */
static asim_code parse_int(reader *in, const char *key, int *ret_value)
{
    char *end;
    long value = strtol(in->token, &end, 10);
    if (end == in->token)
        return asim_fail(in->err, ASIM_E_USAGE, "%s: '%s' is not a number", key, in->token);
    if (value > INT_MAX || value < INT_MIN)
        return asim_fail(in->err, ASIM_E_USAGE, "%s: %s does not fit a C int", key, in->token);
    *ret_value = (int)value;
    return advance(in);
}

static bool is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

asim_code asim_tc_check_split_limit(const asim_tc_release *release, const char *key, uint64_t bytes,
                                    asim_err *err)
{
    if (bytes >= release->min_split_bytes)
        return ASIM_OK;
    return asim_fail(err, ASIM_E_USAGE, "%s: %" PRIu64 " is too small; PyTorch %s takes %" PRIu64 " and more",
                     key, bytes / MIB, release->name, release->min_split_bytes / MIB);
}

/* A negative number wraps around to a huge one, and huge ones are clamped (R19, 5.3). */
static asim_code parse_mib(reader *in, const char *key, bool has_minimum, uint64_t *ret_bytes)
{
    int value = 0;
    asim_code code = parse_int(in, key, &value);
    if (code)
        return code;
    uint64_t mib = (uint64_t)(int64_t)value;
    if (mib > UINT64_MAX / MIB)
        mib = UINT64_MAX / MIB;
    *ret_bytes = mib * MIB;
    return has_minimum ? asim_tc_check_split_limit(in->release, key, *ret_bytes, in->err) : ASIM_OK;
}

static asim_code parse_bool(reader *in, const char *key, bool *ret_value)
{
    if (strcmp(in->token, "True") != 0 && strcmp(in->token, "False") != 0)
        return asim_fail(in->err, ASIM_E_USAGE, "%s: '%s' is neither True nor False", key, in->token);
    *ret_value = in->token[0] == 'T';
    return advance(in);
}

static asim_code parse_division(reader *in, bool zero_allowed, uint32_t *ret_division)
{
    int value = 0;
    asim_code code = parse_int(in, "roundup_power2_divisions", &value);
    if (code)
        return code;
    if (value < 0 || (value == 0 ? !zero_allowed : !is_power_of_two((uint64_t)value)))
        return asim_fail(in->err, ASIM_E_USAGE,
                         "roundup_power2_divisions: %d divisions are not a power of two", value);
    *ret_division = (uint32_t)value;
    return ASIM_OK;
}

/* R21: the list form. */
static asim_code parse_division_list(reader *in, uint32_t *slots)
{
    const bool zero_allowed = in->release->division_zero_allowed;
    bool first = true;
    unsigned last = 0;
    asim_code code = expect(in, "[");
    while (!code) {
        uint32_t division = 0;
        if (strcmp(in->token, ">") == 0) {
            if ((code = advance(in)) || (code = expect(in, ":")) ||
                (code = parse_division(in, zero_allowed, &division)))
                break;
            for (unsigned slot = last; slot < ASIM_TC_SLOTS; slot++)
                slots[slot] = division;
        } else {
            int mib = 0;
            if ((code = parse_int(in, "roundup_power2_divisions", &mib)))
                break;
            if (mib <= 0 || !is_power_of_two((uint64_t)mib)) {
                code =
                    asim_fail(in->err, ASIM_E_USAGE,
                              "roundup_power2_divisions: an interval of %d MiB is not a power of two", mib);
                break;
            }
            if ((code = expect(in, ":")) || (code = parse_division(in, zero_allowed, &division)))
                break;
            unsigned slot = 31U - (unsigned)__builtin_clz((unsigned)mib);
            if (slot > ASIM_TC_SLOTS - 1)
                slot = ASIM_TC_SLOTS - 1;
            for (unsigned lower = 0; first && lower < slot; lower++)
                slots[lower] = division;
            first = false;
            slots[slot] = division;
            last = slot;
        }
        if (strcmp(in->token, "]") == 0)
            return advance(in);
        code = expect(in, ",");
    }
    return code;
}

static asim_code parse_divisions(reader *in, asim_tc_rounding *rounding)
{
    asim_code code;
    if (strcmp(in->token, "[") == 0 && !in->release->single_division) {
        code = parse_division_list(in, rounding->divisions);
    } else {
        uint32_t division = 0;
        code = parse_division(in, false, &division);
        for (unsigned slot = 0; !code && slot < ASIM_TC_SLOTS; slot++)
            rounding->divisions[slot] = division;
    }
    rounding->on = false;
    for (unsigned slot = 0; slot < ASIM_TC_SLOTS; slot++)
        rounding->on |= rounding->divisions[slot] != 0;
    return code;
}

static asim_code parse_threshold(reader *in, double *ret_threshold)
{
    char *end;
    double value = strtod(in->token, &end);
    if (end == in->token)
        return asim_fail(in->err, ASIM_E_USAGE, "garbage_collection_threshold: '%s' is not a number",
                         in->token);
    if (!(value > 0 && value < 1))
        return asim_fail(in->err, ASIM_E_USAGE,
                         "garbage_collection_threshold: %s is out of range; it must be above 0 and below 1",
                         in->token);
    *ret_threshold = value;
    return advance(in);
}

/* Options that change nothing here: checked as far as their kind goes. */
static asim_code parse_backend(reader *in)
{
    if (strcmp(in->token, "native") != 0)
        return asim_fail(in->err, ASIM_E_USAGE, "backend: only native is simulated, not '%s'", in->token);
    return advance(in);
}

static asim_code parse_threads(reader *in, const char *key)
{
    int number = 0;
    asim_code code = parse_int(in, key, &number);
    if (!code && (number < 0 || !is_power_of_two((uint64_t)number) || number > 128))
        return asim_fail(in->err, ASIM_E_USAGE, "%s: %d is not a power of two up to 128", key, number);
    return code;
}

typedef enum option_kind {
    MAX_SPLIT,
    MAX_ROUNDING,
    GC_THRESHOLD,
    DIVISIONS,
    BYPASS,
    EXPANDABLE,
    BACKEND,
    THREADS,
    INERT_SWITCH,
    OPTIONS
} option_kind;

static option_kind option_of(const asim_tc_release *release, const char *key)
{
    static const struct {
        const char *key;
        option_kind kind;
    } known[] = {
        {"max_split_size_mb", MAX_SPLIT},
        {"max_non_split_rounding_mb", MAX_ROUNDING},
        {"garbage_collection_threshold", GC_THRESHOLD},
        {"roundup_power2_divisions", DIVISIONS},
        {"roundup_bypass_threshold_mb", BYPASS},
        {"expandable_segments", EXPANDABLE},
        {"backend", BACKEND},
        {"pinned_num_register_threads", THREADS},
        {"pinned_use_cuda_host_register", INERT_SWITCH},
        {"release_lock_on_cudamalloc", INERT_SWITCH},
    };
    option_kind found = OPTIONS;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(key, known[i].key) == 0)
            found = known[i].kind;
    if ((found == MAX_ROUNDING && !release->non_split_rounding) ||
        (found == EXPANDABLE && !release->expandable) || (found == BYPASS && !release->single_division) ||
        (found > EXPANDABLE && found < OPTIONS && release->old_grammar && found != BACKEND))
        return OPTIONS;
    return found;
}

static asim_code parse_value(reader *in, option_kind kind, const char *key, asim_tc_options *options)
{
    bool ignored;
    switch (kind) {
    case MAX_SPLIT:
        return parse_mib(in, key, true, &options->max_split);
    case MAX_ROUNDING:
        return parse_mib(in, key, true, &options->max_rounding);
    case GC_THRESHOLD:
        return parse_threshold(in, &options->gc_threshold);
    case DIVISIONS:
        return parse_divisions(in, &options->rounding);
    case BYPASS:
        return parse_mib(in, key, false, &options->rounding.bypass);
    case EXPANDABLE:
        return parse_bool(in, key, &options->expandable);
    case BACKEND:
        return parse_backend(in);
    case THREADS:
        return parse_threads(in, key);
    default:
        return parse_bool(in, key, &ignored);
    }
}

asim_code asim_tc_options_replace(const asim_tc_release *release, const char *text, asim_tc_options *options,
                                  asim_err *err)
{
    asim_tc_options changed = *options;
    changed.max_split = ASIM_TC_UNLIMITED;
    changed.gc_threshold = 0;
    changed.rounding.on = false;
    memset(changed.rounding.divisions, 0, sizeof changed.rounding.divisions);
    asim_code code = asim_tc_options_apply(release, text, &changed, err);
    if (!code)
        *options = changed;
    return code;
}

asim_code asim_tc_options_apply(const asim_tc_release *release, const char *text, asim_tc_options *options,
                                asim_err *err)
{
    asim_tc_options changed = *options;
    reader in = {.rest = text, .release = release, .err = err};
    asim_code code = advance(&in);
    while (!code && in.token[0]) {
        char key[TOKEN_MAX];
        memcpy(key, in.token, sizeof key);
        option_kind kind = option_of(release, key);
        if (kind == OPTIONS)
            return asim_fail(err, ASIM_E_USAGE, "PyTorch %s has no allocator option '%s'", release->name,
                             key);
        if ((code = advance(&in)) || (code = expect(&in, ":")) ||
            (code = parse_value(&in, kind, key, &changed)))
            break;
        if (in.token[0])
            code = expect(&in, ",");
    }
    if (!code)
        *options = changed;
    return code;
}

asim_code asim_tc_divisions_parse(const asim_tc_release *release, const char *text,
                                  asim_tc_rounding *rounding, asim_err *err)
{
    reader in = {.rest = text, .release = release, .err = err, .part = PART_VALUE};
    asim_code code = advance(&in);
    if (!code)
        code = parse_divisions(&in, rounding);
    if (!code && in.token[0] && !release->old_grammar)
        return asim_fail(err, ASIM_E_USAGE, "roundup_power2_divisions: '%s' follows the value", in.token);
    return code;
}

bool asim_tc_option_known(const asim_tc_release *release, const char *key)
{
    return option_of(release, key) != OPTIONS;
}
