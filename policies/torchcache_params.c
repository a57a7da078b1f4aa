#include "policies/torchcache_params.h"

#include <stddef.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

#define PARAM(field) offsetof(asim_tc_params, field)

const asim_param asim_tc_param_list[ASIM_TC_PARAMS] = {
    {.name = "torch",
     .type = ASIM_PARAM_CHOICE,
     .offset = PARAM(release),
     .default_text = "2.15",
     .choices = asim_tc_release_names,
     .choose = asim_tc_release_find,
     .help = "the PyTorch release whose rules are followed; a recording's own, where it has placements"},
    {.name = "max_split_size_mb",
     .type = ASIM_PARAM_MIB,
     .offset = PARAM(max_split_size),
     .default_text = "none",
     .min = 1 * MIB,
     .max = UINT64_MAX / MIB * MIB,
     .none_allowed = true,
     .help = "blocks of this size and more are not split; above 20, from release 2.10 on 20 or more"},
    {.name = "max_non_split_rounding_mb",
     .type = ASIM_PARAM_MIB,
     .offset = PARAM(max_non_split_rounding),
     .default_text = "20",
     .min = 1 * MIB,
     .max = UINT64_MAX / MIB * MIB,
     .help = "an unsplit block may be this much larger than its request; from release 2.6 on"},
    {.name = "large_segment_size_mb",
     .type = ASIM_PARAM_MIB,
     .offset = PARAM(large_segment_size),
     .default_text = "20",
     .min = 11 * MIB,
     .max = UINT64_MAX / MIB * MIB,
     .help = "segments and pages for requests of 1 to 10 MiB; from release 2.11 on"},
    {.name = "garbage_collection_threshold",
     .type = ASIM_PARAM_REAL,
     .offset = PARAM(garbage_collection_threshold),
     .default_text = "0",
     .real_min = 0,
     .real_max = 1,
     .help = "share of the memory limit above which old free segments go; 0: off; needs fraction"},
    {.name = "roundup_power2_divisions",
     .type = ASIM_PARAM_TEXT,
     .offset = PARAM(roundup_power2_divisions),
     .default_text = "",
     .help = "a power of two, or a list [256:1,512:2,>:4]; empty: off"},
    {.name = "roundup_bypass_threshold_mb",
     .type = ASIM_PARAM_MIB,
     .offset = PARAM(roundup_bypass_threshold),
     .default_text = "none",
     .min = 0,
     .max = UINT64_MAX / MIB * MIB,
     .none_allowed = true,
     .help = "larger requests skip the divisions; release 1.13 alone"},
    {.name = "expandable_segments",
     .type = ASIM_PARAM_BOOL,
     .offset = PARAM(expandable_segments),
     .default_text = "false",
     .help = "grow segments by mapping pages"},
    {.name = "fraction",
     .type = ASIM_PARAM_REAL,
     .offset = PARAM(fraction),
     .default_text = "-1",
     .real_min = -1,
     .real_max = 1,
     .help = "share of the device that may be reserved (set_per_process_memory_fraction); -1: no limit"},
    {.name = "conf",
     .type = ASIM_PARAM_TEXT,
     .offset = PARAM(conf),
     .default_text = "",
     .help = "the whole PYTORCH_CUDA_ALLOC_CONF string, in [] where it holds commas; overrides the others"},
};

asim_code asim_tc_params_read(const asim_tc_params *given, const asim_tc_release *release,
                              asim_tc_options *ret_options, asim_err *err)
{
    asim_tc_options *options = ret_options;
    asim_code code = ASIM_OK;
    asim_tc_options_default(release, options);
    if (given->large_segment_size != options->large_segment) {
        if (!asim_tc_has(release, ASIM_TC_LARGE_SEGMENT))
            return asim_fail(err, ASIM_E_USAGE, "PyTorch %s has no large_segment_size_mb", release->name);
        if ((code = asim_tc_check_large_segment("large_segment_size_mb", given->large_segment_size, err)))
            return code;
        options->large_segment = options->max_rounding =
            asim_tc_clamp_large_segment(given->large_segment_size);
    }
    if (given->max_split_size != ASIM_PARAM_NONE &&
        (code = asim_tc_check_split_limit(release, options, "max_split_size_mb", given->max_split_size, err)))
        return code;
    options->max_split = given->max_split_size;
    if (given->max_non_split_rounding != ASIM_TC_LARGE_SEG) {
        if (!asim_tc_has(release, ASIM_TC_MAX_ROUNDING))
            return asim_fail(err, ASIM_E_USAGE, "PyTorch %s has no max_non_split_rounding_mb", release->name);
        if ((code = asim_tc_check_split_limit(release, options, "max_non_split_rounding_mb",
                                              given->max_non_split_rounding, err)))
            return code;
        options->max_rounding = given->max_non_split_rounding;
    }
    if (given->garbage_collection_threshold >= 1)
        return asim_fail(err, ASIM_E_USAGE, "garbage_collection_threshold: must be below 1");
    options->gc_threshold = given->garbage_collection_threshold;
    if (given->roundup_power2_divisions[0] &&
        (code = asim_tc_divisions_parse(release, given->roundup_power2_divisions, &options->rounding, err)))
        return code;
    if (given->roundup_bypass_threshold != ASIM_PARAM_NONE && !asim_tc_has(release, ASIM_TC_BYPASS))
        return asim_fail(err, ASIM_E_USAGE, "PyTorch %s has no roundup_bypass_threshold_mb", release->name);
    options->rounding.bypass = given->roundup_bypass_threshold;
    if (given->expandable_segments && !asim_tc_has(release, ASIM_TC_EXPANDABLE))
        return asim_fail(err, ASIM_E_USAGE, "PyTorch %s has no expandable_segments", release->name);
    options->expandable = given->expandable_segments;

    char text[ASIM_PARAM_TEXT_MAX];
    size_t length = strlen(given->conf);
    bool wrapped = length > 1 && given->conf[0] == '[' && given->conf[length - 1] == ']';
    memcpy(text, given->conf + wrapped, length - 2 * wrapped);
    text[length - 2 * wrapped] = 0;
    if (length && (code = asim_tc_options_apply(release, text, options, err)))
        asim_err_context(err, "conf");
    return code;
}
