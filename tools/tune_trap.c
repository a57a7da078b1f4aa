#include "tools/tune_trap.h"

enum {
    SAMPLES = 400
};

static void ignore_warning(void *ctx, const char *path, const char *text)
{
    (void)ctx, (void)path, (void)text;
}

/* Reserved along the run: after marks, where there are enough; otherwise along the samples. */
static void take_points(const asim_outcome *outcome, asim_tune_trap *trap)
{
    const size_t phases = outcome->run.phase_count, samples = outcome->run.sample_count;
    const size_t count = phases >= ASIM_TUNE_POINTS ? phases : samples, last = ASIM_TUNE_POINTS - 1;
    trap->point_count = count < ASIM_TUNE_POINTS ? count : ASIM_TUNE_POINTS;
    for (size_t i = 0; i < trap->point_count; i++) {
        size_t at = count < ASIM_TUNE_POINTS ? i : i * (count - 1) / last;
        trap->points[i] = phases >= ASIM_TUNE_POINTS ? outcome->run.phases[at].end_reserved
                                                     : outcome->run.samples[at].reserved;
    }
}

/* *ret_peak: 0 where the run ended by a fault. */
static asim_code measure(const asim_cli *cli, const asim_tune_job *job, size_t trace, uint64_t max_split_mib,
                         bool expandable, uint64_t *ret_peak, asim_tune_trap *points, asim_err *err)
{
    asim_tune_setting setting = job->base->setting;
    const asim_outcome_request request = {
        .warn = ignore_warning, .stop = job->stop, .samples = points ? SAMPLES : 0};
    asim_outcome outcome = {0};
    setting.max_split_mib = max_split_mib;
    setting.expandable = expandable;
    asim_code code = asim_tune_run(cli, job, &setting, trace, request, NULL, &outcome, err);
    *ret_peak = code ? 0 : outcome.run.record.metrics[ASIM_METRIC_peak_reserved_bytes];
    if (!code && points)
        take_points(&outcome, points);
    asim_outcome_fini(&outcome, cli->mem);
    return code == ASIM_E_SYSTEM ? code : ASIM_OK;
}

static asim_code try_one(const asim_cli *cli, const asim_tune_job *job, size_t trace, uint64_t max_split_mib,
                         asim_tune_trap *ret_trap, asim_err *err)
{
    asim_tune_trap trap = {.max_split_mib = max_split_mib, .trace = trace};
    asim_code code = measure(cli, job, trace, max_split_mib, true, &trap.peak, &trap, err);
    if (!code)
        code = measure(cli, job, trace, max_split_mib, false, &trap.split_alone, NULL, err);
    if (!code)
        code = measure(cli, job, trace, 0, true, &trap.expandable_alone, NULL, err);
    const uint64_t alone =
        trap.split_alone > trap.expandable_alone ? trap.split_alone : trap.expandable_alone;
    trap.ends = trap.peak == 0;
    trap.warns = trap.peak > alone + alone / 20;
    *ret_trap = trap;
    return code;
}

asim_code asim_tune_try_trap(const asim_cli *cli, const asim_tune_job *job, const asim_tune_found *found,
                             asim_tune_trap *ret_trap, asim_err *err)
{
    static const uint64_t often_advised[] = {128, 512, 32};
    const asim_tune_base *base = job->base;
    const bool users = base->setting.expandable && base->setting.max_split_mib;
    const unsigned pair = 1U << ASIM_KNOB_MAX_SPLIT | 1U << ASIM_KNOB_EXPANDABLE;
    const size_t trace = found->values[0].worst;
    asim_code code = ASIM_OK;
    *ret_trap = (asim_tune_trap){0};
    if (!asim_tc_has(base->release, ASIM_TC_EXPANDABLE) || (!users && job->forbidden & pair))
        return ASIM_OK;
    if (users) {
        code = try_one(cli, job, trace, base->setting.max_split_mib, ret_trap, err);
        ret_trap->users = ret_trap->warns = true;
        return code;
    }
    for (size_t i = 0; i < sizeof often_advised / sizeof *often_advised && !code; i++) {
        asim_tune_trap trap;
        code = try_one(cli, job, trace, often_advised[i], &trap, err);
        if (!code && trap.warns && trap.peak > ret_trap->peak)
            *ret_trap = trap;
    }
    return code;
}
