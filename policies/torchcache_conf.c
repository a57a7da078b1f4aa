#include "policies/torchcache_conf.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
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
        .large_segment = ASIM_TC_LARGE_SEG,
        .fraction = 1,
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
            if (colons < option && key == 0)
                return asim_fail(in->err, ASIM_E_USAGE, "'%.32s': an option has no name", p);
            p += option; /* no value */
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

/* R12: spaces alone, later all white space. */
static bool is_dropped(char c, bool all_space)
{
    return c == ' ' || (all_space && isspace((unsigned char)c));
}

static asim_code advance(reader *in)
{
    const char *p = in->rest;
    size_t length = 0;
    if (in->release->old_grammar)
        return advance_old(in);
    const bool all_space = in->release->lenient_grammar;
    while (is_dropped(*p, all_space))
        p++;
    if (*p && strchr(",:[]", *p)) {
        in->token[length++] = *p++;
    } else {
        for (; *p && !strchr(",:[]", *p); p++) {
            if (is_dropped(*p, all_space))
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

/* R14: later releases only want anything to be there. */
static asim_code expect(reader *in, const char *separator)
{
    if (in->release->lenient_grammar ? !in->token[0] : strcmp(in->token, separator) != 0)
        return asim_fail(in->err, ASIM_E_USAGE, "expected '%s' %s%s%s", separator,
                         in->token[0] ? "instead of '" : "at the end", in->token, in->token[0] ? "'" : "");
    return advance(in);
}

/* R19: a prefix parser, as the C library's; what follows the digits is ignored, and a minus wraps around. A C
 * int, extended to 64 bits, or from 2.10 on, and wherever is_wide, 64 bits. */
static asim_code parse_number(reader *in, const char *key, bool is_wide, uint64_t *ret_value)
{
    is_wide |= in->release->lenient_grammar;
    char *end;
    errno = 0;
    uint64_t value = is_wide ? strtoull(in->token, &end, 10) : (uint64_t)strtoll(in->token, &end, 10);
    if (end == in->token)
        return asim_fail(in->err, ASIM_E_USAGE, "%s: '%s' is not a number", key, in->token);
    if (errno || (!is_wide && ((int64_t)value > INT_MAX || (int64_t)value < INT_MIN)))
        return asim_fail(in->err, ASIM_E_USAGE, "%s: %s does not fit %s", key, in->token,
                         is_wide ? "64 bits" : "a C int");
    *ret_value = value;
    return advance(in);
}

static bool is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

asim_code asim_tc_check_split_limit(const asim_tc_release *release, const asim_tc_options *options,
                                    const char *key, uint64_t bytes, asim_err *err)
{
    const uint64_t least = release->min_split_bytes ? release->min_split_bytes : options->large_segment;
    if (bytes >= least)
        return ASIM_OK;
    return asim_fail(err, ASIM_E_USAGE,
                     "%s: %" PRIu64 " is too small; PyTorch %s takes %" PRIu64 " and more%s", key,
                     bytes / MIB, release->name, least / MIB,
                     release->min_split_bytes ? "" : ", the size of large segments");
}

asim_code asim_tc_check_large_segment(const char *key, uint64_t bytes, asim_err *err)
{
    if (bytes > ASIM_TC_MEDIUM_LIMIT)
        return ASIM_OK;
    return asim_fail(err, ASIM_E_USAGE, "%s: %" PRIu64 " is too small; it must be more than 10", key,
                     bytes / MIB);
}

/* Huge numbers are clamped (5.3). */
static asim_code parse_mib(reader *in, const char *key, uint64_t *ret_bytes)
{
    uint64_t mib = 0;
    asim_code code = parse_number(in, key, false, &mib);
    if (mib > UINT64_MAX / MIB)
        mib = UINT64_MAX / MIB;
    *ret_bytes = mib * MIB;
    return code;
}

static asim_code parse_split_limit(reader *in, const char *key, const asim_tc_options *options,
                                   uint64_t *ret_bytes)
{
    asim_code code = parse_mib(in, key, ret_bytes);
    return code ? code : asim_tc_check_split_limit(in->release, options, key, *ret_bytes, in->err);
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
    uint64_t value = 0;
    asim_code code = parse_number(in, "roundup_power2_divisions", false, &value);
    if (code)
        return code;
    if (value > INT32_MAX || (value == 0 ? !zero_allowed : !is_power_of_two(value)))
        return asim_fail(in->err, ASIM_E_USAGE,
                         "roundup_power2_divisions: %" PRId64 " divisions are not a power of two",
                         (int64_t)value);
    *ret_division = (uint32_t)value;
    return ASIM_OK;
}

typedef struct division_list { /* state of R21 */
    bool first;
    unsigned last;
} division_list;

/* One item "B:N" or ">:N". */
static asim_code parse_interval(reader *in, division_list *list, uint32_t *slots)
{
    const bool zero_allowed = in->release->division_zero;
    uint32_t division = 0;
    asim_code code;
    if (strcmp(in->token, ">") == 0) {
        if ((code = advance(in)) || (code = expect(in, ":")) ||
            (code = parse_division(in, zero_allowed, &division)))
            return code;
        for (unsigned slot = list->last + in->release->division_rest_next; slot < ASIM_TC_SLOTS; slot++)
            slots[slot] = division;
        return ASIM_OK;
    }
    uint64_t mib = 0;
    if ((code = parse_number(in, "roundup_power2_divisions", true, &mib)))
        return code;
    if (!is_power_of_two(mib))
        return asim_fail(in->err, ASIM_E_USAGE,
                         "roundup_power2_divisions: an interval of %" PRId64 " MiB is not a power of two",
                         (int64_t)mib);
    if ((code = expect(in, ":")) || (code = parse_division(in, zero_allowed, &division)))
        return code;
    unsigned slot = 63U - (unsigned)__builtin_clzll(mib);
    if (slot > ASIM_TC_SLOTS - 1)
        slot = ASIM_TC_SLOTS - 1;
    for (unsigned lower = 0; list->first && lower < slot; lower++)
        slots[lower] = division;
    slots[slot] = division;
    *list = (division_list){false, slot};
    return ASIM_OK;
}

/* R21: the list form. */
static asim_code parse_division_list(reader *in, uint32_t *slots)
{
    division_list list = {true, 0};
    asim_code code = advance(in);
    while (!code && strcmp(in->token, "]") != 0) {
        if ((code = parse_interval(in, &list, slots)))
            return code;
        if (strcmp(in->token, "]") != 0)
            code = expect(in, ",");
    }
    return code ? code : advance(in);
}

static asim_code parse_divisions(reader *in, asim_tc_rounding *rounding)
{
    asim_code code;
    if (strcmp(in->token, "[") == 0 && in->release->division_list) {
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

static asim_code parse_real(reader *in, const char *key, double *ret_value)
{
    char *end;
    *ret_value = strtod(in->token, &end);
    if (end == in->token)
        return asim_fail(in->err, ASIM_E_USAGE, "%s: '%s' is not a number", key, in->token);
    return ASIM_OK;
}

static asim_code parse_threshold(reader *in, const char *key, double *ret_threshold)
{
    asim_code code = parse_real(in, key, ret_threshold);
    if (!code && !(*ret_threshold > 0 && *ret_threshold < 1))
        code = asim_fail(in->err, ASIM_E_USAGE, "%s: %s is out of range; it must be above 0 and below 1", key,
                         in->token);
    return code ? code : advance(in);
}

static asim_code parse_fraction(reader *in, const char *key, double *ret_fraction)
{
    asim_code code = parse_real(in, key, ret_fraction);
    if (!code && !(*ret_fraction >= 0 && *ret_fraction <= 1))
        code = asim_fail(in->err, ASIM_E_USAGE, "%s: %s is out of range; it must be 0 to 1", key, in->token);
    return code ? code : advance(in);
}

/* R84: a share of the device, or GiB; anything else is ignored. */
static asim_code parse_reserve(reader *in, asim_tc_options *options)
{
    char *end;
    double value = strtod(in->token, &end);
    const bool is_share = *end != 'G' && *end != 'g';
    if (end != in->token && !end[!is_share] && isfinite(value) && value > 0) {
        options->reserve = is_share ? value : value * 1073741824.0;
        options->reserve_is_share = is_share;
    }
    return advance(in);
}

/* "[NAME:VALUE,...]", which changes nothing on streams without a class. */
static asim_code skip_list(reader *in)
{
    asim_code code = expect(in, "[");
    while (!code && strcmp(in->token, "]") != 0) {
        if ((code = expect(in, "a name")) || (code = expect(in, ":")) || (code = expect(in, "a value")))
            return code;
        if (strcmp(in->token, "]") != 0)
            code = expect(in, ",");
    }
    return code ? code : advance(in);
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
    uint64_t number = 0;
    asim_code code = parse_number(in, key, false, &number);
    if (!code && (!is_power_of_two(number) || number > 128))
        return asim_fail(in->err, ASIM_E_USAGE, "%s: %" PRId64 " is not a power of two up to 128", key,
                         (int64_t)number);
    return code;
}

static asim_code parse_host_size(reader *in, const char *key, bool zero_allowed)
{
    uint64_t mib = 0;
    asim_code code = parse_number(in, key, false, &mib);
    if (!code && mib == 0 && !zero_allowed)
        return asim_fail(in->err, ASIM_E_USAGE, "%s: must be above 0", key);
    return code;
}

/* torch_npu's: digits alone, within bounds, times unit. */
static asim_code parse_bounded(reader *in, const char *key, uint64_t least, uint64_t most, uint64_t unit,
                               uint64_t *ret_bytes)
{
    const size_t digits = strspn(in->token, "0123456789");
    const uint64_t value = strtoull(in->token, NULL, 10);
    if (digits == 0 || in->token[digits] || value < least || value > most)
        return asim_fail(in->err, ASIM_E_USAGE, "%s: '%s' is no number from %" PRIu64 " to %" PRIu64, key,
                         in->token, least, most);
    *ret_bytes = value * unit;
    return advance(in);
}

static asim_code parse_page_size(reader *in, const char *key, uint64_t *ret_bytes)
{
    if (strcmp(in->token, "1g") != 0)
        return asim_fail(in->err, ASIM_E_USAGE, "%s: '%s' is not its one value, 1g", key, in->token);
    *ret_bytes = UINT64_C(1) << 30;
    return advance(in);
}

static asim_tc_option option_of(const asim_tc_release *release, const char *key)
{
    static const struct {
        const char *key;
        asim_tc_option option;
    } known[] = {
        {"max_split_size_mb", ASIM_TC_MAX_SPLIT},
        {"max_non_split_rounding_mb", ASIM_TC_MAX_ROUNDING},
        {"large_segment_size_mb", ASIM_TC_LARGE_SEGMENT},
        {"garbage_collection_threshold", ASIM_TC_GC_THRESHOLD},
        {"roundup_power2_divisions", ASIM_TC_DIVISIONS},
        {"roundup_bypass_threshold_mb", ASIM_TC_BYPASS},
        {"expandable_segments", ASIM_TC_EXPANDABLE},
        {"per_process_memory_fraction", ASIM_TC_FRACTION},
        {"throw_on_cudamalloc_oom", ASIM_TC_THROW},
        {"expandable_segments_reserve", ASIM_TC_RESERVE},
        {"expandable_segments_reserve_by_class", ASIM_TC_RESERVE_BY_CLASS},
        {"graph_capture_record_stream_reuse", ASIM_TC_GRAPH_REUSE},
        {"backend", ASIM_TC_BACKEND},
        {"release_lock_on_cudamalloc", ASIM_TC_RELEASE_LOCK},
        {"release_lock_on_hipmalloc", ASIM_TC_RELEASE_LOCK},
        {"pinned_use_cuda_host_register", ASIM_TC_PINNED_REGISTER},
        {"pinned_num_register_threads", ASIM_TC_PINNED_THREADS},
        {"pinned_use_background_threads", ASIM_TC_PINNED_BACKGROUND},
        {"pinned_reserve_segment_size_mb", ASIM_TC_PINNED_SEGMENT},
        {"pinned_free_catch_all", ASIM_TC_PINNED_CATCH_ALL},
        {"pinned_max_round_threshold_mb", ASIM_TC_PINNED_SIZES},
        {"pinned_max_cached_size_mb", ASIM_TC_PINNED_SIZES},
        {"base_addr_aligned_kb", ASIM_TC_NPU_BASE_ALIGN},
        {"page_size", ASIM_TC_NPU_PAGE_SIZE},
        {"segment_size_mb", ASIM_TC_NPU_SEGMENT_SIZE},
        {"multi_stream_lazy_reclaim", ASIM_TC_NPU_LAZY_RECLAIM},
        {"throw_on_npumalloc_oom", ASIM_TC_NPU_THROW},
        {"release_lock_on_npumalloc", ASIM_TC_NPU_OTHERS},
        {"pin_memory_expandable_segments", ASIM_TC_NPU_OTHERS},
        {"pinned_mem_register", ASIM_TC_NPU_OTHERS},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(key, known[i].key) == 0 && asim_tc_has(release, known[i].option))
            return known[i].option;
    return ASIM_TC_OPTIONS;
}

static asim_code parse_value(reader *in, asim_tc_option option, const char *key, asim_tc_options *options)
{
    bool ignored;
    uint64_t ignored_bytes;
    switch (option) {
    case ASIM_TC_MAX_SPLIT:
        return parse_split_limit(in, key, options, &options->max_split);
    case ASIM_TC_MAX_ROUNDING:
        return parse_split_limit(in, key, options, &options->max_rounding);
    case ASIM_TC_GC_THRESHOLD:
        return parse_threshold(in, key, &options->gc_threshold);
    case ASIM_TC_DIVISIONS:
        return parse_divisions(in, &options->rounding);
    case ASIM_TC_BYPASS:
        return parse_mib(in, key, &options->rounding.bypass);
    case ASIM_TC_EXPANDABLE:
        return parse_bool(in, key, &options->expandable);
    case ASIM_TC_FRACTION:
        return parse_fraction(in, key, &options->fraction);
    case ASIM_TC_THROW:
    case ASIM_TC_NPU_THROW:
        return parse_bool(in, key, &options->throws);
    case ASIM_TC_RESERVE:
        return parse_reserve(in, options);
    case ASIM_TC_RESERVE_BY_CLASS:
        return skip_list(in);
    case ASIM_TC_GRAPH_REUSE:
        return parse_bool(in, key, &options->graph_reuse);
    case ASIM_TC_BACKEND:
        return parse_backend(in);
    case ASIM_TC_PINNED_THREADS:
        return parse_threads(in, key);
    case ASIM_TC_LARGE_SEGMENT: /* read before all others */
        return parse_mib(in, key, &ignored_bytes);
    case ASIM_TC_NPU_BASE_ALIGN:
        return parse_bounded(in, key, 0, 16, 1024, &options->base_align);
    case ASIM_TC_NPU_PAGE_SIZE:
        return parse_page_size(in, key, &options->huge_page);
    case ASIM_TC_NPU_SEGMENT_SIZE:
        return parse_bounded(in, key, 20, 512, MIB, &options->page);
    case ASIM_TC_NPU_LAZY_RECLAIM:
        return parse_bool(in, key, &options->lazy_reclaim);
    case ASIM_TC_PINNED_SEGMENT:
    case ASIM_TC_PINNED_SIZES:
        return parse_host_size(in, key, option == ASIM_TC_PINNED_SIZES);
    default:
        return parse_bool(in, key, &ignored);
    }
}

/* R17: the size of large segments is looked for in a pass of its own, before everything else. */
static asim_code read_large_segment(const asim_tc_release *release, const char *text,
                                    asim_tc_options *options, asim_err *err)
{
    static const char key[] = "large_segment_size_mb";
    reader in = {.rest = text, .release = release, .err = err};
    if (!asim_tc_has(release, ASIM_TC_LARGE_SEGMENT))
        return ASIM_OK;
    asim_code code = advance(&in);
    while (!code && in.token[0]) {
        bool found = strcmp(in.token, key) == 0;
        if ((code = advance(&in)) || !found)
            continue;
        if ((code = expect(&in, ":")) || (code = parse_mib(&in, key, &options->large_segment)))
            break;
        code = asim_tc_check_large_segment(key, options->large_segment, err);
        options->large_segment = options->max_rounding = asim_tc_clamp_large_segment(options->large_segment);
    }
    return code;
}

asim_code asim_tc_options_replace(const asim_tc_release *release, const char *text, asim_tc_options *options,
                                  asim_err *err)
{
    asim_tc_options changed = *options;
    changed.max_split = ASIM_TC_UNLIMITED;
    changed.gc_threshold = 0;
    changed.rounding.on = false;
    memset(changed.rounding.divisions, 0, sizeof changed.rounding.divisions);
    asim_code code = read_large_segment(release, text, &changed, err);
    if (release->resets_rounding)
        changed.max_rounding = changed.large_segment;
    if (!code)
        code = asim_tc_options_apply(release, text, &changed, err);
    if (!code)
        *options = changed;
    return code;
}

asim_code asim_tc_options_apply(const asim_tc_release *release, const char *text, asim_tc_options *options,
                                asim_err *err)
{
    asim_tc_options changed = *options;
    reader in = {.rest = text, .release = release, .err = err};
    asim_code code = read_large_segment(release, text, &changed, err);
    if (!code)
        code = advance(&in);
    while (!code && in.token[0]) {
        char key[TOKEN_MAX];
        memcpy(key, in.token, sizeof key);
        asim_tc_option option = option_of(release, key);
        if (option == ASIM_TC_OPTIONS)
            return asim_fail(err, ASIM_E_USAGE, "PyTorch %s has no allocator option '%s'", release->name,
                             key);
        if ((code = advance(&in)) || (code = expect(&in, ":")) ||
            (code = parse_value(&in, option, key, &changed)))
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
    return option_of(release, key) != ASIM_TC_OPTIONS;
}
