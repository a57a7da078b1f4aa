#include "tools/tune_print.h"

#include "tools/json.h"
#include "tools/tune_words.h"
#include "tools/units.h"

#include <string.h>

#define BOLD  "\033[1m"
#define PLAIN "\033[0m"

enum {
    WORDS_WIDTH = 44
};

bool asim_tune_gains(const asim_tune_view *view)
{
    const asim_tune_value *best = &view->found->values[view->found->best],
                          *baseline = &view->found->values[0];
    if (best == baseline)
        return false;
    if (best->refused != baseline->refused || baseline->faulty)
        return best->refused < baseline->refused || baseline->faulty;
    if (view->job->objective == ASIM_TUNE_PEAK)
        return best->peak < baseline->peak || best->peak_sum < baseline->peak_sum;
    return view->job->objective == ASIM_TUNE_STALL ? best->stall < baseline->stall : false;
}

static char *above(uint64_t reserved, uint64_t bound, char text[ASIM_UNITS_MAX])
{
    if (bound == 0 || reserved < bound) {
        strcpy(text, "-");
        return text;
    }
    uint64_t tenths = (uint64_t)(((unsigned __int128)(reserved - bound) * 1000 + bound / 2) / bound);
    snprintf(text, ASIM_UNITS_MAX, "+%llu.%llu %%", (unsigned long long)(tenths / 10),
             (unsigned long long)(tenths % 10));
    return text;
}

/* What is requested and alive at once: no allocator can need less. */
static uint64_t bound_of(const asim_tune_view *view, const asim_tune_value *value)
{
    return view->job->traces[value->worst].peak_live_bytes;
}

static void print_row(FILE *out, const asim_tune_view *view, const asim_tune_value *value, const char *words,
                      char sign)
{
    char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX], c[ASIM_UNITS_MAX], d[ASIM_UNITS_MAX], e[ASIM_UNITS_MAX];
    const bool bold = view->colour && sign == '*';
    fprintf(out, "%s%c %-*s", bold ? BOLD : "", sign, WORDS_WIDTH, words);
    if (strlen(words) > WORDS_WIDTH)
        fprintf(out, "\n  %-*s", WORDS_WIDTH, "");
    fprintf(out, " %11s %8s %9s %7s %7s", asim_human_bytes(value->peak, a),
            value->refused || value->faulty ? "-" : above(value->peak, bound_of(view, value), b),
            asim_human_ns(value->stall, c), asim_human_count(value->calls, d),
            value->retries ? asim_human_count(value->retries, e) : "none");
    if (view->job->trace_count > 1)
        fprintf(out, "  %s", view->job->traces[value->worst].path);
    fprintf(out, "%s\n", bold ? PLAIN : "");
}

static void print_front(FILE *out, const asim_tune_view *view, bool gains)
{
    const asim_tune_found *found = view->found;
    const asim_tune_value *values = found->values;
    size_t front[ASIM_TUNE_FRONT_MAX], total;
    size_t count = asim_tune_front(found, view->job->base, front, ASIM_TUNE_FRONT_MAX, &total);
    char words[ASIM_TUNE_TEXT_MAX], title[ASIM_TUNE_TEXT_MAX + 16];
    fprintf(out, "\n  %-*s %11s %8s %9s %7s %7s%s\n", WORDS_WIDTH, "setting", "reserved", "above", "stall",
            "driver", "retries", view->job->trace_count > 1 ? "  worst" : "");
    fprintf(out, "  %-*s %11s %8s %9s %7s\n", WORDS_WIDTH, "", "at peak", "bound", "", "calls");
    asim_tune_words(view->job->base, &view->job->base->setting, words);
    snprintf(title, sizeof title, "as it is: %s", words);
    print_row(out, view, &values[0], title, values[0].faulty || values[0].refused ? '!' : ' ');
    bool listed = !gains;
    for (size_t i = 0; i < count; i++) {
        if (front[i] == 0)
            continue;
        listed = listed || front[i] == found->best;
        asim_tune_words(view->job->base, &values[front[i]].setting, words);
        print_row(out, view, &values[front[i]], words, gains && front[i] == found->best ? '*' : ' ');
    }
    if (!listed) {
        asim_tune_words(view->job->base, &values[found->best].setting, words);
        print_row(out, view, &values[found->best], words, values[found->best].refused ? '!' : '*');
    }
    if (total > count)
        fprintf(out, "  %zu of the %zu settings than which no other has both less reserved and less stall",
                count, total);
    else
        fprintf(out, "  no other setting has %s",
                count > 1 ? "both less reserved and less stall" : "less of both");
    fprintf(out, "; settings tried: %zu\n", found->count);
    if (values[0].refused || values[found->best].refused) {
        char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX];
        fprintf(out, "  ! requests refused: %s as it is, %s with the best setting\n",
                asim_human_count(values[0].refused, a), asim_human_count(values[found->best].refused, b));
    }
}

/* The values of max_split_size_mb that do the same, where nothing else is changed. */
static void print_interval(FILE *out, const asim_tune_view *view, const asim_tune_setting *setting)
{
    const asim_tune_found *found = view->found;
    const asim_tune_setting *base = &view->job->base->setting;
    if (!setting->max_split_mib || setting->divisions != base->divisions ||
        setting->large_segment_mib != base->large_segment_mib || !found->breaks_complete)
        return;
    for (size_t i = 0; i + 1 < found->break_count; i++)
        if (found->breaks[i] == setting->max_split_mib && found->breaks[i + 1] > found->breaks[i] + 1)
            fprintf(out, "  every max_split_size_mb from %llu to %llu does the same\n",
                    (unsigned long long)found->breaks[i], (unsigned long long)found->breaks[i + 1] - 1);
}

/* Where the best changes several things: what one change alone is worth. */
static void print_single(FILE *out, const asim_tune_view *view)
{
    const asim_tune_found *found = view->found;
    const asim_tune_setting *base = &view->job->base->setting;
    const asim_tune_value *best = NULL;
    char words[ASIM_TUNE_TEXT_MAX], a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX];
    if (asim_tune_changes(&found->values[found->best].setting, base) < 2)
        return;
    for (size_t i = 1; i < found->count; i++)
        if (asim_tune_changes(&found->values[i].setting, base) == 1 &&
            asim_tune_allows(view->job, &found->values[i].setting) &&
            (!best || asim_tune_better(view->job, &found->values[0], &found->values[i], best)))
            best = &found->values[i];
    if (!best || best->refused || !asim_tune_better(view->job, &found->values[0], best, &found->values[0]))
        return;
    asim_tune_words(view->job->base, &best->setting, words);
    fprintf(out, "  with one change alone, %s: %s at the peak, %s of stall\n", words,
            asim_human_bytes(best->peak, a), asim_human_ns(best->stall, b));
}

static void print_difference(FILE *out, const char *what, const char *more, const char *less, uint64_t before,
                             uint64_t after, char *(*human)(uint64_t, char *))
{
    char a[ASIM_UNITS_MAX];
    if (before != after)
        fprintf(out, "  %s %s %s\n", after < before ? less : more,
                human(after < before ? before - after : after - before, a), what);
}

static void print_worth(FILE *out, const asim_tune_view *view)
{
    const asim_tune_value *best = &view->found->values[view->found->best],
                          *baseline = &view->found->values[0];
    char a[ASIM_UNITS_MAX];
    print_difference(out, "at the peak", "costs", "saves", baseline->peak, best->peak, asim_human_bytes);
    if (view->job->trace_count > 1)
        print_difference(out, "over all traces", "costs", "saves", baseline->peak_sum, best->peak_sum,
                         asim_human_bytes);
    print_difference(out, "of stall", "costs", "saves", baseline->stall, best->stall, asim_human_ns);
    print_difference(out, "driver calls", "costs", "saves", baseline->calls, best->calls, asim_human_count);
    if (best->peak > bound_of(view, best) && !best->refused)
        fprintf(out, "  leaves a gap of %s to the lower bound, what is alive at once\n",
                asim_human_bytes(best->peak - bound_of(view, best), a));
    print_interval(out, view, &best->setting);
    print_single(out, view);
    if (view->run_ids && view->db) {
        fprintf(out, "  confirmed by full runs under the referee:");
        for (size_t i = 0; i < 2 * view->job->trace_count; i++)
            fprintf(out, "%s %lld", i ? "," : "", (long long)view->run_ids[i]);
        fprintf(out, " in %s\n", view->db);
    } else if (view->run_ids) {
        fprintf(out, "  confirmed by full runs under the referee, not stored\n");
    }
}

static void print_lines(FILE *out, const char *title, const asim_tune_lines *lines, const char *bullet)
{
    enum {
        WIDTH = 100
    };
    if (lines->count)
        fprintf(out, "\n%s\n", title);
    for (size_t i = 0; i < lines->count; i++) {
        const char *at = lines->lines[i];
        bool first = true;
        while (*at) { /* words are kept whole, except in what is to be pasted */
            size_t length = strlen(at);
            if (*bullet && length > WIDTH) {
                length = WIDTH;
                while (length > 0 && at[length] != ' ')
                    length--;
                length = length ? length : strlen(at);
            }
            fprintf(out, "  %s%.*s\n", first ? bullet : *bullet ? "  " : "", (int)length, at);
            at += length + (at[length] == ' ');
            first = false;
        }
    }
}

void asim_tune_table(FILE *out, const asim_tune_view *view)
{
    const asim_tune_job *job = view->job;
    const asim_tune_value *best = &view->found->values[view->found->best],
                          *baseline = &view->found->values[0];
    const bool gains = asim_tune_gains(view);
    char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX];
    asim_tune_lines lines = {.count = 0};
    for (size_t t = 0; t < job->trace_count; t++)
        fprintf(out, "%s\n  %s events; at most %s are alive at once\n", job->traces[t].path,
                asim_human_count(job->traces[t].trace->event_count, a),
                asim_human_bytes(job->traces[t].peak_live_bytes, b));
    fprintf(out, "  device %s, %s, costs %s\n", job->profile->name,
            asim_human_bytes(asim_engine_capacity(job->traces[0].trace, job->profile, job->capacity, 0), a),
            job->profile->measured ? "measured" : "estimated");
    fprintf(out, "  PyTorch %s, %s; objective: %s\n", job->base->release->name, view->torch_why,
            view->objective_name);
    print_front(out, view, gains);
    if (gains) {
        asim_tune_paste(view, &best->setting, &lines);
        print_lines(out, "Paste", &lines, "");
        print_worth(out, view);
    } else {
        fprintf(out, "\nNothing to gain\n  no setting is better than what is set now");
        if (baseline->peak > bound_of(view, baseline) && !baseline->refused)
            fprintf(out, "; the gap to the lower bound, what is alive at once, is %s",
                    asim_human_bytes(baseline->peak - bound_of(view, baseline), a));
        fputc('\n', out);
        if (view->run_ids && view->db)
            fprintf(out, "  confirmed by a full run under the referee: %lld in %s\n",
                    (long long)view->run_ids[0], view->db);
    }
    lines.count = 0;
    asim_tune_warnings(view, &lines);
    print_lines(out, "Warning", &lines, "- ");
    lines.count = 0;
    asim_tune_uncertain(view, &lines);
    print_lines(out, "What stays uncertain", &lines, "- ");
}

static void json_lines(asim_json *json, const char *key, const asim_tune_lines *lines)
{
    asim_json_begin(json, key, '[');
    for (size_t i = 0; i < lines->count; i++)
        asim_json_text(json, NULL, lines->lines[i]);
    asim_json_end(json, ']');
}

static void json_value(asim_json *json, const char *key, const asim_tune_view *view,
                       const asim_tune_value *value)
{
    char words[ASIM_TUNE_TEXT_MAX], conf[ASIM_PARAM_TEXT_MAX];
    asim_tune_words(view->job->base, &value->setting, words);
    asim_tune_conf(view->job->base, &value->setting, conf);
    asim_json_begin(json, key, '{');
    asim_json_text(json, "setting", words);
    asim_json_text(json, "conf", conf);
    asim_json_number(json, "peak_reserved_bytes", value->peak);
    asim_json_number(json, "sum_peak_reserved_bytes", value->peak_sum);
    asim_json_number(json, "lower_bound_bytes", bound_of(view, value));
    asim_json_number(json, "stall_ns", value->stall);
    asim_json_number(json, "driver_calls", value->calls);
    asim_json_number(json, "alloc_retries", value->retries);
    asim_json_number(json, "ooms", value->refused);
    asim_json_text(json, "worst", view->job->traces[value->worst].path);
    asim_json_end(json, '}');
}

void asim_tune_json(FILE *out, const asim_tune_view *view)
{
    const asim_tune_job *job = view->job;
    const asim_tune_found *found = view->found;
    const bool gains = asim_tune_gains(view);
    asim_json json = {.out = out, .first = true};
    asim_tune_lines lines = {.count = 0};
    size_t front[ASIM_TUNE_FRONT_MAX], total;
    size_t count = asim_tune_front(found, job->base, front, ASIM_TUNE_FRONT_MAX, &total);
    asim_json_begin(&json, NULL, '{');
    asim_json_begin(&json, "traces", '[');
    for (size_t t = 0; t < job->trace_count; t++) {
        asim_json_begin(&json, NULL, '{');
        asim_json_text(&json, "path", job->traces[t].path);
        asim_json_digest(&json, "digest", job->traces[t].trace->digest);
        asim_json_number(&json, "events", job->traces[t].trace->event_count);
        asim_json_number(&json, "peak_live_bytes", job->traces[t].peak_live_bytes);
        asim_json_end(&json, '}');
    }
    asim_json_end(&json, ']');
    asim_json_text(&json, "torch", job->base->release->name);
    asim_json_text(&json, "device", job->profile->name);
    asim_json_text(&json, "objective", view->objective_name);
    json_value(&json, "baseline", view, &found->values[0]);
    asim_json_text(&json, "answer", gains ? "gain" : "nothing to gain");
    json_value(&json, "best", view, &found->values[gains ? found->best : 0]);
    if (gains)
        asim_tune_paste(view, &found->values[found->best].setting, &lines);
    json_lines(&json, "paste", &lines);
    asim_json_begin(&json, "front", '[');
    for (size_t i = 0; i < count; i++)
        json_value(&json, NULL, view, &found->values[front[i]]);
    asim_json_end(&json, ']');
    asim_json_begin(&json, "max_split_values_mib", '[');
    for (size_t i = 0; i < found->break_count; i++)
        asim_json_number(&json, NULL, found->breaks[i]);
    asim_json_end(&json, ']');
    asim_json_number(&json, "max_split_values_all", found->breaks_complete);
    asim_json_number(&json, "settings_tried", found->count);
    asim_json_number(&json, "settings_faulty", found->faulty);
    asim_json_begin(&json, "fighting_points_bytes", '[');
    for (size_t i = 0; view->trap->warns && i < view->trap->point_count; i++)
        asim_json_number(&json, NULL, view->trap->points[i]);
    asim_json_end(&json, ']');
    lines.count = 0;
    asim_tune_warnings(view, &lines);
    json_lines(&json, "warnings", &lines);
    lines.count = 0;
    asim_tune_uncertain(view, &lines);
    json_lines(&json, "uncertain", &lines);
    asim_json_end(&json, '}');
}
