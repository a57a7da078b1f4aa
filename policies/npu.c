/* npu - the caching allocator of torch_npu, for Ascend NPUs: PyTorch's, with constants and options of its
 * own.
 *
 * What it models: Ascend/pytorch, torch_npu/csrc/core/npu/NPUCachingAllocator.cpp and NPUAllocatorConfig.cpp,
 * at commit 9e73e708 (2026-08, for PyTorch 2.13 to 2.15), and the options as its documentation of
 * PYTORCH_NPU_ALLOC_CONF describes them; https://gitcode.com/Ascend/pytorch.
 *
 * It is a fork of PyTorch's allocator, so this is a second table over torchcache's core (torchcache.c tells
 * how that works, what breaks ties and what it costs). What differs:
 *
 *   padding      32 bytes are added to a request before it is rounded, as operators may read beyond the end:
 * 512 bytes take 1024. Chips from Ascend 950 on, with CANN 9.1, need none. alignment    with expandable
 * segments a request of 2 MiB or more begins at a multiple of base_addr_aligned_kb, if the block found has
 * room:
 *
 *                    [           free           ]  ->  [ free ][   handed out   ][ free ]
 *                    at 512                                    at 16384
 *
 *   pages        page_size=1g: large segments are whole GiB, as are the pages of large expandable segments;
 *                segment_size_mb: the pages of large expandable segments, unless large_segment_size_mb says
 * otherwise. events       multi_stream_lazy_reclaim: looked at when nothing else is found, or above 512 of
 * them. releases     the device is waited for before cached memory goes back: garbage collection, the release
 * of what would serve, and that of everything. order        free blocks of one size by address, and not by
 * their segment's age as in PyTorch 2.13 and later; the memory limit is cut off at the byte. conflicts
 * expandable_segments takes neither max_split_size_mb nor garbage_collection_threshold.
 *
 * Left out: pinned host memory and its options, HCCL's zero-copy ranges, the workspace allocator, physical
 * pages kept after an unmap (a mode of emptyCache that is asked for explicitly), memory pools that help out
 * or whose blocks are never split, the text of an out-of-memory error, and the option string in one piece. A
 * trace's own settings are those of another allocator and are passed over.
 */
#include "policies/registry.h"
#include "policies/torchcache_state.h"

#include <stddef.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

typedef enum npu_page {
    NPU_PAGE_DEFAULT,
    NPU_PAGE_1G
} npu_page;

typedef struct npu_params {
    uint64_t max_split_size, max_non_split_rounding, large_segment_size, segment_size, base_addr_aligned,
        padding;
    double garbage_collection_threshold, per_process_memory_fraction, fraction;
    int page_size;
    bool expandable_segments, lazy_reclaim, throws;
    char roundup_power2_divisions[ASIM_PARAM_TEXT_MAX];
    char conf[ASIM_PARAM_TEXT_MAX];
} npu_params;

static const char *const page_sizes[] = {"default", "1g", NULL};

#define PARAM(field) offsetof(npu_params, field)

static const asim_param params[] = {
    {.name = "max_split_size_mb",
     .type = ASIM_PARAM_MIB,
     .offset = PARAM(max_split_size),
     .default_text = "none",
     .min = 1 * MIB,
     .max = UINT64_MAX / MIB * MIB,
     .none_allowed = true,
     .help = "blocks of this size and more are not split; at least large_segment_size_mb"},
    {.name = "max_non_split_rounding_mb",
     .type = ASIM_PARAM_MIB,
     .offset = PARAM(max_non_split_rounding),
     .default_text = "none",
     .min = 1 * MIB,
     .max = UINT64_MAX / MIB * MIB,
     .none_allowed = true,
     .help = "an unsplit block may be this much larger than its request; none: large_segment_size_mb"},
    {.name = "large_segment_size_mb",
     .type = ASIM_PARAM_MIB,
     .offset = PARAM(large_segment_size),
     .default_text = "20",
     .min = 11 * MIB,
     .max = ASIM_TC_HARD_LIMIT,
     .help = "segments for requests of 1 to 10 MiB, and pages of large expandable segments"},
    {.name = "segment_size_mb",
     .type = ASIM_PARAM_MIB,
     .offset = PARAM(segment_size),
     .default_text = "none",
     .min = 20 * MIB,
     .max = 512 * MIB,
     .none_allowed = true,
     .help = "pages of large expandable segments, where large_segment_size_mb is 20"},
    {.name = "page_size",
     .type = ASIM_PARAM_CHOICE,
     .offset = PARAM(page_size),
     .default_text = "default",
     .choices = page_sizes,
     .help = "1g: the large pool takes memory in whole GiB"},
    {.name = "garbage_collection_threshold",
     .type = ASIM_PARAM_REAL,
     .offset = PARAM(garbage_collection_threshold),
     .default_text = "0",
     .real_min = 0,
     .real_max = 1,
     .help = "share of the memory limit above which old free segments go; 0: off; needs a fraction"},
    {.name = "roundup_power2_divisions",
     .type = ASIM_PARAM_TEXT,
     .offset = PARAM(roundup_power2_divisions),
     .default_text = "",
     .help = "a power of two, or a list [256:1,512:2,>:4]; empty: off"},
    {.name = "expandable_segments",
     .type = ASIM_PARAM_BOOL,
     .offset = PARAM(expandable_segments),
     .default_text = "false",
     .help = "grow segments by mapping pages"},
    {.name = "base_addr_aligned_kb",
     .type = ASIM_PARAM_U64,
     .offset = PARAM(base_addr_aligned),
     .default_text = "16",
     .min = 0,
     .max = 16,
     .help =
         "with expandable segments, where requests of 2 MiB and more begin; 0: at multiples of 512 bytes"},
    {.name = "multi_stream_lazy_reclaim",
     .type = ASIM_PARAM_BOOL,
     .offset = PARAM(lazy_reclaim),
     .default_text = "false",
     .help = "look at events only where no block is found, or above 512 of them"},
    {.name = "per_process_memory_fraction",
     .type = ASIM_PARAM_REAL,
     .offset = PARAM(per_process_memory_fraction),
     .default_text = "1",
     .real_min = 0,
     .real_max = 1,
     .help = "share of the device that may be reserved; 1: no limit"},
    {.name = "throw_on_npumalloc_oom",
     .type = ASIM_PARAM_BOOL,
     .offset = PARAM(throws),
     .default_text = "false",
     .help = "refuse at once what would exceed the device's memory, without releasing anything"},
    {.name = "fraction",
     .type = ASIM_PARAM_REAL,
     .offset = PARAM(fraction),
     .default_text = "-1",
     .real_min = -1,
     .real_max = 1,
     .help = "as set_per_process_memory_fraction sets it later; -1: not called"},
    {.name = "padding",
     .type = ASIM_PARAM_U64,
     .offset = PARAM(padding),
     .default_text = "32",
     .min = 0,
     .max = 32,
     .help = "bytes added to each request; 0: as on Ascend 950 with CANN 9.1"},
    {.name = "conf",
     .type = ASIM_PARAM_TEXT,
     .offset = PARAM(conf),
     .default_text = "",
     .help = "the whole PYTORCH_NPU_ALLOC_CONF string, in [] where it holds commas; overrides the others"},
};

/* NPUAllocatorConfig::instance. */
static asim_code check_conflicts(const asim_tc_options *options, asim_err *err)
{
    if (options->expandable && options->max_split != ASIM_TC_UNLIMITED)
        return asim_fail(err, ASIM_E_USAGE, "max_split_size_mb can't be set with expandable_segments");
    if (options->expandable && options->gc_threshold > 0)
        return asim_fail(err, ASIM_E_USAGE,
                         "garbage_collection_threshold can't be set with expandable_segments");
    if (options->gc_threshold >= 1)
        return asim_fail(err, ASIM_E_USAGE, "garbage_collection_threshold must be below 1");
    return ASIM_OK;
}

/* The whole string, which may stand in []. */
static asim_code apply_conf(const npu_params *given, asim_tc_options *options, asim_err *err)
{
    char text[ASIM_PARAM_TEXT_MAX];
    const size_t length = strlen(given->conf);
    const bool wrapped = length > 1 && given->conf[0] == '[' && given->conf[length - 1] == ']';
    memcpy(text, given->conf + wrapped, length - 2 * wrapped);
    text[length - 2 * wrapped] = 0;
    asim_code code = length ? asim_tc_options_apply(&asim_tc_npu, text, options, err) : ASIM_OK;
    if (code)
        asim_err_context(err, "conf");
    return code;
}

static asim_code read_options(const npu_params *given, asim_tc_options *ret_options, asim_err *err)
{
    asim_tc_options *options = ret_options;
    asim_tc_options_default(&asim_tc_npu, options);
    asim_code code = ASIM_OK;
    options->large_segment = options->max_rounding = given->large_segment_size;
    if (!code && given->max_split_size != ASIM_PARAM_NONE)
        code =
            asim_tc_check_split_limit(&asim_tc_npu, options, "max_split_size_mb", given->max_split_size, err);
    if (!code && given->max_non_split_rounding != ASIM_PARAM_NONE) {
        code = asim_tc_check_split_limit(&asim_tc_npu, options, "max_non_split_rounding_mb",
                                         given->max_non_split_rounding, err);
        options->max_rounding = given->max_non_split_rounding;
    }
    if (!code && given->roundup_power2_divisions[0])
        code =
            asim_tc_divisions_parse(&asim_tc_npu, given->roundup_power2_divisions, &options->rounding, err);
    options->max_split = given->max_split_size;
    options->gc_threshold = given->garbage_collection_threshold;
    options->expandable = given->expandable_segments;
    options->throws = given->throws;
    options->fraction = given->per_process_memory_fraction;
    options->lazy_reclaim = given->lazy_reclaim;
    options->base_align = given->base_addr_aligned * 1024;
    options->huge_page = given->page_size == NPU_PAGE_1G ? UINT64_C(1) << 30 : 0;
    options->page = given->segment_size == ASIM_PARAM_NONE ? 0 : given->segment_size;
    options->rounding.padding = (uint32_t)given->padding;
    if (!code)
        code = apply_conf(given, options, err);
    if (options->large_segment != ASIM_TC_LARGE_SEG)
        options->page = 0;
    return code ? code : check_conflicts(options, err);
}

static asim_code npu_init(asim_policy_state *state, const asim_policy_env *env, const void *block,
                          asim_err *err)
{
    const npu_params *given = block;
    asim_tc_options options;
    asim_code code = read_options(given, &options, err);
    return code ? code : asim_tc_begin(state, env, &asim_tc_npu, &options, given->fraction, err);
}

/* A rejection ahead of the driver is no OOM entry of a recorded trace, so the core is silent about it; here
 * there is no recording to follow. */
static asim_alloc_result npu_alloc(asim_policy_state *state, const asim_event *event,
                                   asim_placement *ret_placement)
{
    const asim_alloc_result result = asim_tc_alloc(state, event, ret_placement);
    if (result != ASIM_REFUSED || event->size >= ASIM_TC_HARD_LIMIT || !state->rejected)
        return result;
    const unsigned device = state->lane_table[event->lane].device;
    const uint64_t rounded = asim_tc_round(&state->options.rounding, event->size);
    uint64_t free_bytes, total;
    state->driver.ops->memory(state->driver.ctx, device, &free_bytes, &total);
    state->listener->refusal(state->listener->ctx, device, rounded,
                             asim_tc_segment_bytes(&state->options, rounded), free_bytes);
    return result;
}

const asim_policy asim_policy_npu = {
    .version = ASIM_POLICY_VERSION,
    .name = "npu",
    .summary = "torch_npu's caching allocator for Ascend NPUs",
    .source = "Ascend/pytorch 9e73e708 (2026-08), NPUCachingAllocator",
    .state_size = sizeof(asim_policy_state),
    .params = {params, sizeof params / sizeof params[0], sizeof(npu_params)},
    .init = npu_init,
    .alloc = npu_alloc,
    .free = asim_tc_free,
    .check = asim_tc_check,
    .walk = asim_tc_walk,
    .fini = asim_tc_tables_fini,
    .free_done = asim_tc_free_done,
    .use = asim_tc_use,
    .trim = asim_tc_trim,
    .pool = asim_tc_pool_event,
    .fraction = asim_tc_fraction,
    .reset_stats = asim_tc_reset_stats,
    .report = asim_tc_report,
};
