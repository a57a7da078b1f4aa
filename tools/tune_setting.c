#include "tools/tune.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

const char *const asim_tune_knobs[] = {"max_split_size_mb",
                                       "garbage_collection_threshold",
                                       "roundup_power2_divisions",
                                       "expandable_segments",
                                       "large_segment_size_mb",
                                       "empty_cache",
                                       "preallocation",
                                       "phase_settings",
                                       NULL};

static const char *const searched[] = {"max_split_size_mb", "garbage_collection_threshold",
                                       "roundup_power2_divisions", "expandable_segments",
                                       "large_segment_size_mb"};

/* Length of the option at the start of text: up to a comma outside brackets. */
static size_t option_length(const char *text)
{
    int depth = 0;
    size_t i = 0;
    for (; text[i] && (text[i] != ',' || depth > 0); i++)
        depth += (text[i] == '[') - (text[i] == ']');
    return i;
}

static bool key_is(const char *option, size_t length, const char *key)
{
    size_t blanks = strspn(option, " \t");
    const char *colon = memchr(option, ':', length);
    if (!colon || blanks > (size_t)(colon - option))
        return false;
    size_t size = (size_t)(colon - option) - blanks;
    while (size > 0 && (option[blanks + size - 1] == ' ' || option[blanks + size - 1] == '\t'))
        size--;
    return size == strlen(key) && memcmp(option + blanks, key, size) == 0;
}

static void take_option(asim_tune_base *base, const char *option, size_t length)
{
    size_t used = strlen(base->rest);
    const char *colon = memchr(option, ':', length);
    if (key_is(option, length, "roundup_power2_divisions"))
        snprintf(base->divisions, sizeof base->divisions, "%.*s",
                 (int)(length - (size_t)(colon + 1 - option)), colon + 1);
    base->limited = base->limited || key_is(option, length, "per_process_memory_fraction");
    for (size_t i = 0; i < sizeof searched / sizeof searched[0]; i++)
        if (key_is(option, length, searched[i]))
            return;
    if (length > 0)
        snprintf(base->rest + used, sizeof base->rest - used, "%s%.*s", used ? "," : "", (int)length, option);
}

asim_code asim_tune_base_make(const asim_tc_release *release, const char *given, asim_tune_base *ret_base,
                              asim_err *err)
{
    asim_tune_base base = {.release = release, .given = given};
    if (strlen(given) >= ASIM_PARAM_TEXT_MAX - 3)
        return asim_fail(err, ASIM_E_USAGE, "the option string is too long; the limit is %d bytes",
                         ASIM_PARAM_TEXT_MAX - 3);
    asim_tc_options_default(release, &base.options);
    asim_code code = asim_tc_options_apply(release, given, &base.options, err);
    if (code)
        return code;
    for (const char *at = given; *at;) {
        size_t length = option_length(at);
        take_option(&base, at, length);
        at += length + (at[length] == ',');
    }
    const asim_tc_options *o = &base.options;
    base.setting.max_split_mib = o->max_split < UINT64_MAX / MIB * MIB ? o->max_split / MIB : 0;
    base.setting.large_segment_mib = o->large_segment != ASIM_TC_LARGE_SEG ? o->large_segment / MIB : 0;
    base.setting.gc = (uint32_t)(o->gc_threshold * 10000 + 0.5);
    base.setting.divisions = base.divisions[0] ? ASIM_TUNE_GIVEN : 0;
    base.setting.expandable = o->expandable;
    *ret_base = base;
    return ASIM_OK;
}

bool asim_tune_at_place(const asim_trace *trace, const asim_event *event, const asim_tune_place *place)
{
    return event->kind == ASIM_EV_MARK && event->flags == place->flags &&
           strcmp(trace->strings[event->id].text, place->label) == 0;
}

void asim_tune_find_places(const asim_trace *trace, asim_tune_base *base)
{
    base->place_count = 0;
    for (uint64_t i = 0; i < trace->event_count; i++) {
        const asim_event *event = &trace->events[i];
        if (event->kind != ASIM_EV_MARK)
            continue;
        size_t k = 0;
        while (k < base->place_count && !asim_tune_at_place(trace, event, &base->places[k]))
            k++;
        if (k == ASIM_TUNE_PLACES_MAX)
            continue;
        if (k == base->place_count)
            base->places[base->place_count++] =
                (asim_tune_place){trace->strings[event->id].text, event->flags, 0};
        base->places[k].count++;
    }
}

unsigned asim_tune_changes(const asim_tune_setting *a, const asim_tune_setting *b)
{
    return (unsigned)(a->max_split_mib != b->max_split_mib) +
           (unsigned)(a->large_segment_mib != b->large_segment_mib) + (unsigned)(a->gc != b->gc) +
           (unsigned)(a->divisions != b->divisions) + (unsigned)(a->expandable != b->expandable) +
           (unsigned)(a->trim_place != b->trim_place || a->trim_each != b->trim_each) +
           (unsigned)(a->block_percent != b->block_percent || a->block_place != b->block_place) +
           (unsigned)(a->switch_place != b->switch_place);
}

bool asim_tune_equal(const asim_tune_setting *a, const asim_tune_setting *b)
{
    return asim_tune_changes(a, b) == 0;
}

static void add(char *text, size_t capacity, const char *between, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void add(char *text, size_t capacity, const char *between, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    if (used)
        used += (size_t)snprintf(text + used, capacity - used, "%s", between);
    if (used >= capacity)
        return;
    va_start(args, format);
    vsnprintf(text + used, capacity - used, format, args);
    va_end(args);
}

/* Ten-thousandths as "0.85": zeros at the end are left out. */
static void format_gc(uint32_t gc, char ret_text[16])
{
    snprintf(ret_text, 16, "0.%04" PRIu32, gc % 10000);
    for (size_t i = strlen(ret_text) - 1; ret_text[i] == '0' && ret_text[i - 1] != '.'; i--)
        ret_text[i] = 0;
}

static void compose(const asim_tune_base *base, const asim_tune_setting *setting,
                    char ret_text[ASIM_PARAM_TEXT_MAX])
{
    char gc[16];
    char *t = ret_text;
    snprintf(t, ASIM_PARAM_TEXT_MAX, "%s", base->rest);
    if (setting->large_segment_mib)
        add(t, ASIM_PARAM_TEXT_MAX, ",", "large_segment_size_mb:%" PRIu64, setting->large_segment_mib);
    if (setting->max_split_mib)
        add(t, ASIM_PARAM_TEXT_MAX, ",", "max_split_size_mb:%" PRIu64, setting->max_split_mib);
    if (setting->gc) {
        format_gc(setting->gc, gc);
        add(t, ASIM_PARAM_TEXT_MAX, ",", "garbage_collection_threshold:%s", gc);
    }
    if (setting->divisions == ASIM_TUNE_GIVEN)
        add(t, ASIM_PARAM_TEXT_MAX, ",", "roundup_power2_divisions:%s", base->divisions);
    else if (setting->divisions)
        add(t, ASIM_PARAM_TEXT_MAX, ",", "roundup_power2_divisions:%" PRIu32, setting->divisions);
    if (setting->expandable)
        add(t, ASIM_PARAM_TEXT_MAX, ",", "expandable_segments:True");
}

void asim_tune_conf(const asim_tune_base *base, const asim_tune_setting *setting,
                    char ret_text[ASIM_PARAM_TEXT_MAX])
{
    if (asim_tune_changes(&base->setting, setting) == 0)
        snprintf(ret_text, ASIM_PARAM_TEXT_MAX, "%s", base->given);
    else
        compose(base, setting, ret_text);
}

/* What is not named keeps its value when settings are replaced: so expandable_segments is, either way. */
void asim_tune_switch_conf(const asim_tune_base *base, const asim_tune_setting *setting,
                           char ret_text[ASIM_PARAM_TEXT_MAX])
{
    asim_tune_setting after = *setting;
    after.expandable = !setting->expandable;
    compose(base, &after, ret_text);
    if (!after.expandable)
        add(ret_text, ASIM_PARAM_TEXT_MAX, ",", "expandable_segments:False");
}

bool asim_tune_needs_fraction(const asim_tune_base *base, const asim_tune_setting *setting)
{
    return setting->gc > 0 && !base->limited && setting->gc != base->setting.gc;
}

void asim_tune_words(const asim_tune_base *base, const asim_tune_setting *setting,
                     char ret_text[ASIM_TUNE_TEXT_MAX])
{
    asim_tune_conf(base, setting, ret_text);
    if (asim_tune_needs_fraction(base, setting))
        add(ret_text, ASIM_TUNE_TEXT_MAX, " + ", "memory fraction 0.%d", ASIM_TUNE_FRACTION_PERCENT);
    if (setting->trim_place)
        add(ret_text, ASIM_TUNE_TEXT_MAX, " + ", "empty_cache at %s '%.80s'",
            setting->trim_each ? "each" : "the first", base->places[setting->trim_place - 1].label);
    if (setting->block_percent && setting->block_place)
        add(ret_text, ASIM_TUNE_TEXT_MAX, " + ", "preallocation of %" PRIu32 " %% at the first '%.80s'",
            setting->block_percent, base->places[setting->block_place - 1].label);
    else if (setting->block_percent)
        add(ret_text, ASIM_TUNE_TEXT_MAX, " + ", "preallocation of %" PRIu32 " %% at the start",
            setting->block_percent);
    if (setting->switch_place)
        add(ret_text, ASIM_TUNE_TEXT_MAX, " + ", "expandable_segments:%s from the first '%.80s' on",
            setting->expandable ? "False" : "True", base->places[setting->switch_place - 1].label);
    if (!ret_text[0])
        snprintf(ret_text, ASIM_TUNE_TEXT_MAX, "defaults");
}
