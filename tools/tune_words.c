#include "tools/tune_words.h"

#include "tools/units.h"

#include <stdarg.h>
#include <string.h>

static void add(asim_tune_lines *lines, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(asim_tune_lines *lines, const char *format, ...)
{
    va_list args;
    if (lines->count == ASIM_TUNE_LINES_MAX)
        return;
    va_start(args, format);
    vsnprintf(lines->lines[lines->count++], ASIM_TUNE_LINE_MAX, format, args);
    va_end(args);
}

void asim_tune_paste(const asim_tune_view *view, const asim_tune_setting *setting, asim_tune_lines *lines)
{
    const asim_tune_base *base = view->job->base;
    char conf[ASIM_PARAM_TEXT_MAX];
    asim_tune_conf(base, setting, conf);
    if (conf[0])
        add(lines, "PYTORCH_CUDA_ALLOC_CONF=%s", conf);
    else if (base->given[0])
        add(lines, "unset PYTORCH_CUDA_ALLOC_CONF");
    if (asim_tune_needs_fraction(base, setting))
        add(lines, "torch.cuda.set_per_process_memory_fraction(0.%d)  # before the first allocation",
            ASIM_TUNE_FRACTION_PERCENT);
    if (setting->switch_place) {
        asim_tune_switch_conf(base, setting, conf);
        add(lines, "torch.cuda.memory._set_allocator_settings(\"%s\")  # once, at the first '%.80s'", conf,
            base->places[setting->switch_place - 1].label);
    }
    if (setting->block_percent) {
        const asim_tune_trace *trace = &view->job->traces[0];
        for (uint32_t d = 0; d < trace->trace->device_count; d++)
            if (trace->needs[d].lane != ASIM_LANE_ALL)
                add(lines,
                    "torch.empty(%llu, dtype=torch.uint8, device=\"cuda:%u\")  # %s%.80s%s, and not kept",
                    (unsigned long long)asim_tune_block_bytes(&trace->needs[d], setting->block_percent), d,
                    setting->block_place ? "once, at '" : "once, at the start",
                    setting->block_place ? base->places[setting->block_place - 1].label : "",
                    setting->block_place ? "'" : "");
    }
    if (setting->trim_place)
        add(lines, "torch.cuda.empty_cache()  # at %s '%.80s'", setting->trim_each ? "each" : "the first",
            base->places[setting->trim_place - 1].label);
}

void asim_tune_warnings(const asim_tune_view *view, asim_tune_lines *lines)
{
    const asim_tune_trap *trap = view->trap;
    char a[ASIM_UNITS_MAX], b[ASIM_UNITS_MAX], c[ASIM_UNITS_MAX], growth[ASIM_TUNE_POINTS * 40] = "";
    if (!trap->warns)
        return;
    for (size_t i = 0; i < trap->point_count; i++)
        snprintf(growth + strlen(growth), sizeof growth - strlen(growth), "%s%s", i ? ", " : "",
                 asim_human_bytes(trap->points[i], a));
    if (trap->ends) {
        add(lines,
            "max_split_size_mb:%llu with expandable_segments:True: PyTorch %s does not survive this trace "
            "with "
            "both%s",
            (unsigned long long)trap->max_split_mib, view->job->base->release->name,
            trap->users ? "; you have both set: leave one out" : "");
        return;
    }
    add(lines,
        "max_split_size_mb:%llu with expandable_segments:True fight each other (pytorch issue 123548)%s",
        (unsigned long long)trap->max_split_mib,
        trap->users ? "; you have both set: leave one out" : ": don't set both");
    add(lines, "reserved along the trace with both: %s", growth);
    add(lines, "reserved at the peak: %s with both, %s with the first alone, %s with the second alone",
        asim_human_bytes(trap->peak, a), asim_human_bytes(trap->split_alone, b),
        asim_human_bytes(trap->expandable_alone, c));
}

static void about_opening(const asim_tune_view *view, asim_tune_lines *lines)
{
    char a[ASIM_UNITS_MAX];
    for (size_t t = 0; t < view->job->trace_count; t++) {
        const asim_trace *trace = view->job->traces[t].original;
        uint64_t held = 0;
        for (uint32_t i = 0; i < trace->opening_segment_count; i++)
            held += trace->opening_segments[i].size;
        if (held == 0)
            continue;
        if (view->job->traces[t].afresh) {
            add(lines,
                "%.300s begins in mid-run; what was alive then (of %s reserved) is asked for anew, in the "
                "order "
                "of addresses: what was freed before is not known",
                view->job->traces[t].path, asim_human_bytes(held, a));
            continue;
        }
        add(lines,
            "%.300s begins in mid-run with %s reserved; what other settings would have made of the time "
            "before is not known",
            view->job->traces[t].path, asim_human_bytes(held, a));
        if (t == view->found->values[0].worst && view->found->values[0].peak <= held)
            add(lines,
                "that is the peak itself, so that no setting can lower it: record from the start of the "
                "program, or see what --afresh says");
    }
}

void asim_tune_uncertain(const asim_tune_view *view, asim_tune_lines *lines)
{
    const asim_tune_job *job = view->job;
    const asim_tune_found *found = view->found;
    about_opening(view, lines);
    if (view->torch_assumed)
        add(lines, "PyTorch's release is not known; %s is assumed (--torch names another)",
            job->base->release->name);
    for (size_t t = 0; t < job->trace_count; t++) {
        const asim_trace *trace = job->traces[t].trace;
        for (uint32_t i = 0; i < trace->note_count && i < 12; i++) {
            if (job->trace_count > 1)
                add(lines, "%.300s: %.600s", job->traces[t].path, trace->strings[trace->notes[i]].text);
            else
                add(lines, "%.900s", trace->strings[trace->notes[i]].text);
        }
    }
    if (!job->profile->measured)
        add(lines, "stall times follow the estimated costs of the device profile %s", job->profile->name);
    if (!found->breaks_complete)
        add(lines, "max_split_size_mb has more than %d values that can differ: not every one was tried",
            ASIM_TUNE_BREAKS_MAX);
    if (found->out_of_time)
        add(lines, "the budget was spent: the search was not finished, and repeated it may end elsewhere");
    if (found->faulty)
        add(lines, "settings that PyTorch would not survive on this trace, and that are left out: %zu",
            found->faulty);
    if (asim_tune_changes_events(&found->values[found->best].setting))
        add(lines,
            "the added calls stand in for a change of your program; the rest of it is taken to stay as "
            "it is");
}
