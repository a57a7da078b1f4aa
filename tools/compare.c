/* What a comparison is made of: results, views of a layout, call sites. */
#include "tools/compare.h"

#include "tools/units.h"

#include <inttypes.h>
#include <string.h>

void asim_comparison_init(asim_comparison *comparison, const asim_hostmem *mem)
{
    memset(comparison, 0, sizeof *comparison);
    for (unsigned i = 0; i < ASIM_VIEWS; i++)
        asim_rows_init(&comparison->views[i], mem);
}

static void side_fini(asim_compare_side *side, const asim_hostmem *mem)
{
    asim_mem_free(mem, side->phases, side->phase_capacity, sizeof *side->phases);
    asim_layout_fini(&side->layout, mem);
}

void asim_comparison_fini(asim_comparison *comparison, const asim_hostmem *mem)
{
    for (unsigned i = 0; i < ASIM_VIEWS; i++)
        asim_rows_fini(&comparison->views[i]);
    side_fini(&comparison->sides[0], mem);
    side_fini(&comparison->sides[1], mem);
}

const char *asim_compare_view_name(asim_compare_view view)
{
    static const char *const names[] = {
        [ASIM_VIEW_USE] = "by use",
        [ASIM_VIEW_SEGMENT] = "by segment",
        [ASIM_VIEW_CLASS] = "by size class of its blocks",
        [ASIM_VIEW_STREAM] = "by stream",
        [ASIM_VIEW_GROWN] = "by the call site that made it grow",
        [ASIM_VIEW_LIVE] = "blocks in use, by call site",
    };
    return names[view];
}

const char *asim_compare_view_key(asim_compare_view view)
{
    static const char *const keys[] = {
        [ASIM_VIEW_USE] = "use",       [ASIM_VIEW_SEGMENT] = "segment", [ASIM_VIEW_CLASS] = "size_class",
        [ASIM_VIEW_STREAM] = "stream", [ASIM_VIEW_GROWN] = "grown_by",  [ASIM_VIEW_LIVE] = "live_by",
    };
    return keys[view];
}

void asim_compare_plain(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F)
            *text = '?';
}

/* --- results --- */

static uint64_t own_value(const asim_run_record *record, const char *name)
{
    for (uint32_t i = 0; i < record->own_count; i++)
        if (strcmp(record->own[i].name, name) == 0)
            return record->own[i].value;
    return 0;
}

const char *asim_compare_metric(const asim_comparison *comparison, size_t i, uint64_t ret_values[2])
{
    const asim_run_record *a = &comparison->sides[0].kept.record, *b = &comparison->sides[1].kept.record;
    if (i < ASIM_METRIC_COUNT) {
        ret_values[0] = a->metrics[i];
        ret_values[1] = b->metrics[i];
        return asim_metric_name((asim_metric)i);
    }
    i -= ASIM_METRIC_COUNT;
    if (i >= (size_t)a->own_count + b->own_count)
        return NULL;
    const char *name = i < a->own_count ? a->own[i].name : b->own[i - a->own_count].name;
    ret_values[0] = own_value(a, name);
    ret_values[1] = own_value(b, name);
    if (i >= a->own_count) /* A has it, too: it was told before */
        for (uint32_t k = 0; k < a->own_count; k++)
            if (strcmp(a->own[k].name, name) == 0)
                ret_values[0] = ret_values[1] = 0;
    return name;
}

static bool own_differ(const asim_run_record *a, const asim_run_record *b)
{
    for (uint32_t i = 0; i < a->own_count; i++)
        if (own_value(b, a->own[i].name) != a->own[i].value)
            return true;
    for (uint32_t i = 0; i < b->own_count; i++)
        if (own_value(a, b->own[i].name) != b->own[i].value)
            return true;
    return false;
}

bool asim_compare_results_differ(const asim_compare_side *a, const asim_compare_side *b)
{
    const asim_run_record *x = &a->kept.record, *y = &b->kept.record;
    if (x->status != y->status || memcmp(x->metrics, y->metrics, sizeof x->metrics) != 0 || own_differ(x, y))
        return true;
    return a->trace_digest == b->trace_digest && x->placement_digest != y->placement_digest;
}

/* --- views of a layout --- */

static void place_text(const asim_walk_segment *segment, char *ret_text, size_t capacity)
{
    int length = snprintf(ret_text, capacity, "stream 0x%" PRIx64, segment->stream);
    if (segment->pool)
        length +=
            snprintf(ret_text + length, capacity - (size_t)length, ", pool %u", (unsigned)segment->pool);
    if (segment->device)
        snprintf(ret_text + length, capacity - (size_t)length, ", device %u", (unsigned)segment->device);
}

static asim_code add_segment(asim_comparison *c, unsigned which, const asim_walk_segment *segment,
                             asim_err *err)
{
    char place[80], key[ASIM_ROW_KEY], human[ASIM_UNITS_MAX];
    place_text(segment, place, sizeof place);
    asim_code code = asim_rows_add(&c->views[ASIM_VIEW_STREAM], which, place, segment->size, err);
    if (code)
        return code;
    snprintf(key, sizeof key, "%s%s%s, %s", asim_human_bytes(segment->size, human),
             segment->small ? " small" : "", segment->expandable ? " expandable" : "", place);
    return asim_rows_add(&c->views[ASIM_VIEW_SEGMENT], which, key, segment->size, err);
}

static asim_code add_block(asim_comparison *c, unsigned which, const asim_walk_block *block, asim_err *err)
{
    static const char *const states[] = {
        [ASIM_BLOCK_FREE] = "free", [ASIM_BLOCK_LIVE] = "live", [ASIM_BLOCK_PENDING] = "pending"};
    static const char *const uses[] = {[ASIM_BLOCK_FREE] = "free inside segments",
                                       [ASIM_BLOCK_LIVE] = "asked for by live blocks",
                                       [ASIM_BLOCK_PENDING] = "freed, waits for another stream"};
    char key[ASIM_ROW_KEY], human[ASIM_UNITS_MAX];
    uint64_t limit = 512;
    while (limit < block->size && limit < UINT64_C(1) << 62)
        limit *= 2;
    snprintf(key, sizeof key, "%s, up to %s", states[block->state], asim_human_bytes(limit, human));
    asim_code code = asim_rows_add(&c->views[ASIM_VIEW_CLASS], which, key, block->size, err);
    if (code)
        return code;
    uint64_t asked =
        block->state == ASIM_BLOCK_LIVE && block->requested < block->size ? block->requested : block->size;
    code = asim_rows_add(&c->views[ASIM_VIEW_USE], which, uses[block->state], asked, err);
    if (!code && asked < block->size)
        code = asim_rows_add(&c->views[ASIM_VIEW_USE], which, "rounding and slack of live blocks",
                             block->size - asked, err);
    return code;
}

asim_code asim_compare_add_layout(asim_comparison *comparison, unsigned which, asim_err *err)
{
    const asim_layout *layout = &comparison->sides[which].layout;
    asim_code code = ASIM_OK;
    for (size_t i = 0; i < layout->segment_count && !code; i++)
        code = add_segment(comparison, which, &layout->segments[i], err);
    for (size_t i = 0; i < layout->block_count && !code; i++)
        code = add_block(comparison, which, &layout->blocks[i].block, err);
    return code;
}

/* --- call sites --- */

static bool is_python(const char *file)
{
    size_t length = strlen(file);
    return length > 3 && strcmp(file + length - 3, ".py") == 0;
}

/* In an installed torch, under either kind of separator. */
static bool is_torchs_own(const char *file)
{
    const char *at = strstr(file, "site-packages"); /* 13 letters, as the other */
    if (!at)
        at = strstr(file, "dist-packages");
    return at && at[13] && strncmp(at + 14, "torch", 5) == 0 && (at[19] == '/' || at[19] == '\\');
}

/* Which line of a stack says most about who asked; 0 for a line that any request has. */
static unsigned rank_of(const char *function, const char *file)
{
    if (is_python(file))
        return is_torchs_own(file) ? 3 : 4;
    if (strstr(function, "autograd::generated::") && strstr(function, "::apply("))
        return 2; /* a step of the backward pass, which has no Python line */
    return strstr(function, "at::_ops::") ? 1 : 0;
}

void asim_compare_site(const asim_trace *trace, uint32_t stack, char *ret_text, size_t capacity)
{
    if (stack >= trace->stack_count || trace->stack_table[stack].count == 0) {
        snprintf(ret_text, capacity, "(no call stack)");
        return;
    }
    const asim_stack *lines = &trace->stack_table[stack];
    const asim_frame *best = NULL;
    unsigned best_rank = 0;
    for (uint32_t i = 0; i < lines->count; i++) {
        const asim_frame *frame = &trace->frames[trace->stack_frames[lines->first + i]];
        unsigned rank = rank_of(trace->strings[frame->function].text, trace->strings[frame->file].text);
        if (!best || rank > best_rank) {
            best = frame;
            best_rank = rank;
        }
    }
    snprintf(ret_text, capacity, "%.80s (%.100s:%" PRIu32 ")", trace->strings[best->function].text,
             trace->strings[best->file].text, best->line);
    asim_compare_plain(ret_text);
}
