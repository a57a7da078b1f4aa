#include "policies/torchcache_lint.h"

#include "sim/nearest.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

enum {
    PIECES_MAX = 64, /* options looked at; a string of more is only parsed */
    TEXT_MAX = 300   /* of a key or a value; longer ones are no option of any release */
};

typedef enum value_kind {
    WHOLE, /* a whole number */
    REAL,
    DIVISIONS,
    WORD
} value_kind;

static const char *const host_only = "concerns pinned host memory; it changes nothing on the device";
static const char *const one_thread =
    "matters to programs with several threads; it changes nothing in a simulation";

static const struct option {
    const char *key;
    value_kind kind;
    const char *inert; /* why it changes nothing */
} options[] = {
    {"max_split_size_mb", WHOLE, NULL},
    {"max_non_split_rounding_mb", WHOLE, NULL},
    {"large_segment_size_mb", WHOLE, NULL},
    {"garbage_collection_threshold", REAL, NULL},
    {"roundup_power2_divisions", DIVISIONS, NULL},
    {"roundup_bypass_threshold_mb", WHOLE, NULL},
    {"expandable_segments", WORD, NULL},
    {"expandable_segments_reserve", WORD, NULL},
    {"expandable_segments_reserve_by_class", WORD, NULL},
    {"per_process_memory_fraction", REAL, NULL},
    {"throw_on_cudamalloc_oom", WORD, NULL},
    {"graph_capture_record_stream_reuse", WORD, NULL},
    {"backend", WORD, "names the allocator that is taken anyway; it changes nothing"},
    {"release_lock_on_cudamalloc", WORD, one_thread},
    {"release_lock_on_hipmalloc", WORD, one_thread},
    {"pinned_use_cuda_host_register", WORD, host_only},
    {"pinned_num_register_threads", WHOLE, host_only},
    {"pinned_use_background_threads", WORD, host_only},
    {"pinned_reserve_segment_size_mb", WHOLE, host_only},
    {"pinned_free_catch_all", WORD, host_only},
    {"pinned_max_round_threshold_mb", WHOLE, host_only},
    {"pinned_max_cached_size_mb", WHOLE, host_only},
};

enum {
    OPTION_COUNT = sizeof options / sizeof options[0]
};

typedef struct piece { /* an option of the string, spaces taken out as the parser does */
    char key[TEXT_MAX], value[TEXT_MAX];
    const struct option *option; /* NULL: none that any release has */
} piece;

typedef struct linter {
    const asim_tc_release *release;
    const char *text;
    double fraction;
    asim_tc_lint *out;
    asim_tc_options options; /* as parsed */
    piece pieces[PIECES_MAX];
    size_t piece_count;
} linter;

static void add(linter *l, bool refused, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void add(linter *l, bool refused, const char *format, ...)
{
    asim_tc_lint *out = l->out;
    out->refused |= refused;
    if (out->count == ASIM_TC_FINDINGS_MAX) {
        out->left_out++;
        return;
    }
    asim_tc_finding *finding = &out->findings[out->count++];
    finding->refused = refused;
    va_list args;
    va_start(args, format);
    vsnprintf(finding->text, sizeof finding->text, format, args);
    va_end(args);
}

/* --- taking the string apart --- */

/* R12: spaces alone are taken out, from the lenient grammar on all white space. */
static bool is_space(const linter *l, char c)
{
    return c == ' ' || (l->release->lenient_grammar && isspace((unsigned char)c));
}

/* Copies length bytes without spaces; what is too long is cut. */
static void squeeze(const linter *l, const char *from, size_t length, char ret_text[TEXT_MAX])
{
    size_t used = 0;
    for (size_t i = 0; i < length && used + 1 < TEXT_MAX; i++)
        if (!is_space(l, from[i]))
            ret_text[used++] = from[i];
    ret_text[used] = 0;
}

static void add_piece(linter *l, const char *key, size_t key_length, const char *value, size_t value_length)
{
    if (l->piece_count == PIECES_MAX)
        return;
    piece *p = &l->pieces[l->piece_count++];
    squeeze(l, key, key_length, p->key);
    squeeze(l, value, value_length, p->value);
    p->option = NULL;
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strcmp(options[i].key, p->key) == 0)
            p->option = &options[i];
}

/* R13: options end at a comma outside brackets; the key at the first colon. */
static void take_apart(linter *l)
{
    int depth = 0;
    const char *start = l->text;
    for (const char *p = l->text;; p++) {
        if (*p && (*p != ',' || depth > 0)) {
            depth += (*p == '[') - (*p == ']');
            continue;
        }
        size_t length = (size_t)(p - start), spaces = strspn(start, " ");
        const char *colon = memchr(start, ':', length);
        size_t key = colon ? (size_t)(colon - start) : length;
        if (spaces < length)
            add_piece(l, start, key, colon ? colon + 1 : p, colon ? length - key - 1 : 0);
        if (!*p)
            return;
        start = p + 1;
    }
}

/* R15: options end at commas and white space; what has no value, and what follows the value, is passed over.
 */
static void take_apart_old(linter *l)
{
    static const char ends[] = ", \t\n\v\f\r", marks[] = ":, \t\n\v\f\r";
    for (const char *p = l->text + strspn(l->text, ends); *p; p += strspn(p, ends)) {
        size_t whole = strcspn(p, ends), key = strcspn(p, marks), colons = strspn(p + key, ":");
        int shown = (int)(whole < 60 ? whole : 60);
        if (key == 0 || key + colons == whole) {
            add(l, false, "'%.*s' is passed over: a key and a value must stand together, as key:value", shown,
                p);
        } else {
            size_t value = strcspn(p + key + colons, marks);
            add_piece(l, p, key, p + key + colons, value);
            if (key + colons + value < whole)
                add(l, false, "'%.*s': what follows the second colon is passed over", shown, p);
        }
        p += whole;
    }
}

static const piece *last_of(const linter *l, const char *key)
{
    for (size_t i = l->piece_count; i-- > 0;)
        if (strcmp(l->pieces[i].key, key) == 0)
            return &l->pieces[i];
    return NULL;
}

/* --- what is refused --- */

/* The first later release that has the option, else the last earlier one; NULL: none. */
static const char *release_with(const asim_tc_release *release, const char *key, bool *ret_later)
{
    const char *earlier = NULL;
    *ret_later = false;
    for (const asim_tc_release *other = asim_tc_releases; other->name; other++) {
        *ret_later |= other == release;
        if (other == release || !asim_tc_option_known(other, key))
            continue;
        if (*ret_later)
            return other->name;
        earlier = other->name;
    }
    *ret_later = false;
    return earlier;
}

static void lint_unknown(linter *l, const piece *p)
{
    const char *names[OPTION_COUNT + 1];
    size_t count = 0;
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (asim_tc_option_known(l->release, options[i].key))
            names[count++] = options[i].key;
    names[count] = NULL;
    bool later;
    const char *with = release_with(l->release, p->key, &later), *near = asim_nearest(p->key, names);
    if (with)
        add(l, true, "PyTorch %s has no option '%s'; %s %s", l->release->name, p->key,
            later ? "it came later, and is in" : "it was dropped, and was last in", with);
    else if (p->option)
        add(l, true, "PyTorch %s has no option '%s', and no release that can be simulated has it",
            l->release->name, p->key);
    else
        add(l, true, "PyTorch %s has no option '%.80s'%s%s%s", l->release->name, p->key,
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static void lint_refused(linter *l, const asim_err *err)
{
    bool unknown = false;
    for (size_t i = 0; i < l->piece_count; i++) {
        l->pieces[i].key[strcspn(l->pieces[i].key, "[]")] = 0; /* a token ends there */
        if (!asim_tc_option_known(l->release, l->pieces[i].key)) {
            lint_unknown(l, &l->pieces[i]);
            unknown = true;
        }
    }
    if (!unknown || !strstr(err->message, "no allocator option"))
        add(l, true, "%s", err->message);
}

/* --- option by option --- */

/* R12: spaces inside a key, a number or a word vanish. */
static void lint_spaces(linter *l)
{
    for (const char *p = l->text; *p;) {
        size_t length = strcspn(p, ",:[]"), start = 0, end = length, inside = 0;
        while (start < end && is_space(l, p[start]))
            start++;
        while (end > start && is_space(l, p[end - 1]))
            end--;
        for (size_t i = start; i < end; i++)
            inside += is_space(l, p[i]);
        if (inside > 0) {
            char joined[TEXT_MAX];
            squeeze(l, p + start, end - start, joined);
            add(l, false,
                "'%.*s' is read as '%.60s': spaces inside a word are taken out, they separate nothing",
                (int)(end - start < 60 ? end - start : 60), p + start, joined);
        }
        p += length + (p[length] != 0);
    }
}

/* R14: on a string that is taken, what looks like no option shows that another sign stands for a separator.
 */
static void lint_separators(linter *l)
{
    for (size_t i = 0; l->release->lenient_grammar && i < l->piece_count; i++) {
        const piece *p = &l->pieces[i];
        if (asim_tc_option_known(l->release, p->key) && (p->value[0] == '[' || !strpbrk(p->value, ":[]")))
            continue;
        add(l, false,
            "'%.60s%s%.60s' has a wrong sign between its parts; PyTorch %s reads any of , : [ ] there as the "
            "one "
            "it wants",
            p->key, p->value[0] ? ":" : "", p->value, l->release->name);
    }
}

/* R19: the numbers of a value are prefixes. */
static void lint_numbers(linter *l, const piece *p)
{
    for (const char *at = p->value; *at;) {
        size_t length = strcspn(at, ",:[]");
        char word[TEXT_MAX], *end;
        memcpy(word, at, length);
        word[length] = 0;
        if (length > 0 && strcmp(word, ">") != 0) {
            if (p->option->kind == REAL)
                (void)strtod(word, &end);
            else
                (void)strtol(word, &end, 10);
            if (*end && end > word)
                add(l, false, "%s: '%.40s' is read as %.*s; what follows the digits is ignored", p->key, word,
                    (int)(end - word), word);
            else if (word[0] == '-' && p->option->kind == WHOLE)
                add(l, false, "%s: %.40s wraps round to a huge number, which is no limit", p->key, word);
        }
        at += length + (at[length] != 0);
    }
}

static void lint_piece(linter *l, const piece *p)
{
    const piece *last = last_of(l, p->key);
    if (last != p) {
        bool first = true;
        for (const piece *before = l->pieces; before < p; before++)
            first &= strcmp(before->key, p->key) != 0;
        if (first) /* R17 */
            add(l, false, "%s is given more than once; the last one holds, %.60s", p->key, last->value);
        return;
    }
    if (!p->option)
        return;
    if (p->option->inert)
        add(l, false, "%s %s", p->key, p->option->inert);
    if (p->option->kind != WORD)
        lint_numbers(l, p);
}

/* --- rounding --- */

/* Whether > takes in the interval listed before it; PyTorch changed that. */
static bool rest_overrides(const asim_tc_release *release)
{
    asim_tc_rounding rounding = {.on = false};
    return !asim_tc_divisions_parse(release, "[4:2,>:4]", &rounding, NULL) && rounding.divisions[2] == 4;
}

typedef struct listed { /* the items of a list of divisions, R21 */
    bool slots[ASIM_TC_SLOTS];
    bool any, rest;        /* an interval is listed; > is */
    unsigned last;         /* slot of the interval before > */
    long division, beyond; /* of that interval, and of > */
} listed;

static listed read_list(const char *value, bool overrides)
{
    listed list = {.division = 0};
    for (const char *at = value + strspn(value, "["); *at && *at != ']'; at += strspn(at, ",")) {
        const char *colon = at + strcspn(at, ":");
        long division = *colon ? strtol(colon + 1, NULL, 10) : 0;
        if (*at == '>') {
            list.rest = true;
            list.beyond = division;
            for (unsigned slot = list.any ? list.last : 0; slot < ASIM_TC_SLOTS; slot++)
                list.slots[slot] |= slot > 0 || list.any || overrides;
        } else {
            unsigned slot = 0;
            for (long mib = strtol(at, NULL, 10); mib > 1 && slot < ASIM_TC_SLOTS - 1; mib /= 2)
                slot++;
            for (unsigned lower = list.any ? slot : 0; lower <= slot; lower++)
                list.slots[lower] = true;
            list.any = true;
            if (!list.rest) {
                list.last = slot;
                list.division = division;
            }
        }
        at = colon + strcspn(colon, ",]");
    }
    return list;
}

static void lint_list(linter *l, const char *value)
{
    const uint32_t *divisions = l->options.rounding.divisions;
    const bool overrides = rest_overrides(l->release);
    const listed list = read_list(value, overrides);
    if (list.rest && list.any && list.beyond != list.division && overrides)
        add(l, false,
            "roundup_power2_divisions: '>' begins with the last interval listed, so %u MiB gets %ld "
            "divisions "
            "and not %ld",
            1U << list.last, list.beyond, list.division);
    for (unsigned slot = 0, end; slot < ASIM_TC_SLOTS; slot = end) {
        end = slot + 1;
        if (list.slots[slot] || divisions[slot] != 0)
            continue;
        while (end < ASIM_TC_SLOTS && !list.slots[end] && divisions[end] == 0)
            end++;
        char from[32] = "0", to[32] = "";
        if (slot > 0)
            snprintf(from, sizeof from, "%u MiB", 1U << slot);
        if (end < ASIM_TC_SLOTS)
            snprintf(to, sizeof to, " to %u MiB", 1U << end);
        add(l, false,
            "roundup_power2_divisions: sizes from %s%s%s are in no interval listed and are rounded to 512 "
            "bytes",
            from, to, to[0] ? "" : " on");
    }
}

static void lint_rounding(linter *l)
{
    const piece *p = last_of(l, "roundup_power2_divisions");
    const asim_tc_rounding *rounding = &l->options.rounding;
    uint32_t most = 0;
    bool one = false;
    if (!p) {
        if (last_of(l, "roundup_bypass_threshold_mb"))
            add(l, false, "roundup_bypass_threshold_mb does nothing without roundup_power2_divisions");
        return;
    }
    for (unsigned slot = 0; slot < ASIM_TC_SLOTS; slot++) {
        most = rounding->divisions[slot] > most ? rounding->divisions[slot] : most;
        one |= rounding->divisions[slot] == 1;
    }
    if (one && !l->release->division_one_rounds) { /* R28 */
        add(l, false,
            "roundup_power2_divisions: with 1 division, PyTorch %s leaves sizes above 512 bytes unrounded",
            l->release->name);
    } else if (most <= 1) { /* R27 */
        add(l, false,
            "roundup_power2_divisions changes nothing: with 1 division or none, sizes are rounded to 512 "
            "bytes");
        return;
    }
    if (p->value[0] == '[')
        lint_list(l, p->value);
}

/* --- several options --- */

static void lint_together(linter *l)
{
    const asim_tc_options *o = &l->options;
    const piece *fraction = last_of(l, "per_process_memory_fraction");
    const bool splits = o->max_split < UINT64_MAX / MIB * MIB; /* -1 is clamped to that (5.3) */
    const bool limited = l->fraction >= 0 || (fraction && strtod(fraction->value, NULL) < 1);
    if (fraction && strtod(fraction->value, NULL) >= 1)
        add(l, false, "per_process_memory_fraction:%.20s sets no limit", fraction->value);
    if (o->gc_threshold > 0 && !limited) /* R47 */
        add(l, false,
            "garbage_collection_threshold does nothing without a memory fraction; set one "
            "(torch.cuda.set_per_process_memory_fraction; here, the parameter fraction)");
    if (o->gc_threshold > 0 && o->expandable) /* R50, R51 */
        add(l, false,
            "garbage_collection_threshold does nothing with expandable_segments: segments that grow are not "
            "collected");
    if (splits && o->expandable) /* R100 */
        add(l, false,
            "max_split_size_mb fights expandable_segments: free blocks of %llu MiB and more are kept from "
            "smaller requests, which map new memory instead, so reserved memory can grow while much is free "
            "(pytorch issue 123548)",
            (unsigned long long)(o->max_split / MIB));
    if (!splits && last_of(l, "max_non_split_rounding_mb"))
        add(l, false, "max_non_split_rounding_mb does nothing without max_split_size_mb");
    if (!o->expandable &&
        (last_of(l, "expandable_segments_reserve") || last_of(l, "expandable_segments_reserve_by_class")))
        add(l, false, "expandable_segments_reserve does nothing without expandable_segments:True");
}

void asim_tc_lint_conf(const asim_tc_release *release, const char *text, double fraction,
                       asim_tc_lint *ret_lint)
{
    asim_err err = ASIM_ERR_INIT;
    linter l = {.release = release, .text = text, .fraction = fraction, .out = ret_lint};
    ret_lint->count = ret_lint->left_out = 0;
    ret_lint->refused = false;
    asim_tc_options_default(release, &l.options);
    bool refused = asim_tc_options_apply(release, text, &l.options, &err) != ASIM_OK;
    if (release->old_grammar)
        take_apart_old(&l);
    else
        take_apart(&l);
    if (refused) {
        lint_refused(&l, &err);
        return;
    }
    if (!release->old_grammar)
        lint_spaces(&l);
    lint_separators(&l);
    for (size_t i = 0; i < l.piece_count; i++)
        lint_piece(&l, &l.pieces[i]);
    lint_rounding(&l);
    lint_together(&l);
}
