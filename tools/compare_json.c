/* `compare --format json`. */
#include "tools/compare.h"
#include "tools/json.h"

#include <string.h>

static void json_effects(asim_json *json, const asim_effects *effects)
{
    static const char *const kinds[] = {"placed",       "freed", "pending", "completed", "segment_alloc",
                                        "segment_free", "map",   "unmap",   "oom"};
    asim_json_begin(json, "effects", '[');
    for (uint64_t i = 0; i < effects->total && i < ASIM_EFFECTS_MAX; i++) {
        const asim_effect *effect = &effects->items[i];
        asim_json_begin(json, NULL, '{');
        asim_json_text(json, "kind", kinds[effect->kind]);
        asim_json_number(json,
                         effect->kind == ASIM_EFFECT_CALL + ASIM_CALL_OOM ? "device_free_bytes" : "address",
                         effect->address);
        asim_json_number(json, "size", effect->size);
        asim_json_end(json, '}');
    }
    asim_json_end(json, ']');
    asim_json_number(json, "effects_total", effects->total);
}

static void json_stack(asim_json *json, const asim_trace *trace, uint64_t event)
{
    uint32_t stack = trace->stacks ? trace->stacks[event] : (uint32_t)ASIM_NO_INDEX;
    asim_json_begin(json, "stack", '[');
    for (uint32_t i = 0; stack < trace->stack_count && i < trace->stack_table[stack].count; i++) {
        const asim_frame *frame = &trace->frames[trace->stack_frames[trace->stack_table[stack].first + i]];
        asim_json_begin(json, NULL, '{');
        asim_json_text(json, "function", trace->strings[frame->function].text);
        asim_json_text(json, "file", trace->strings[frame->file].text);
        asim_json_number(json, "line", frame->line);
        asim_json_end(json, '}');
    }
    asim_json_end(json, ']');
}

static void json_part_side(asim_json *json, const char *key, const asim_compare_side *side, uint64_t event)
{
    asim_json_begin(json, key, '{');
    if (event < side->trace_events) {
        const asim_event *e = &side->trace->events[event];
        const char *kind = asim_event_kind_name(e->kind);
        asim_json_text(json, "event", kind ? kind : "unknown");
        asim_json_number(json, "id", e->id);
        asim_json_number(json, "size", e->size);
        if (e->lane < side->trace->lane_count) {
            asim_json_number(json, "device", side->trace->lanes[e->lane].device);
            asim_json_number(json, "stream", side->trace->lanes[e->lane].stream);
            asim_json_number(json, "pool", side->trace->lanes[e->lane].pool);
        }
        json_stack(json, side->trace, event);
    } else {
        asim_json_null(json, "event");
    }
    json_effects(json, &side->effects);
    asim_json_end(json, '}');
}

static void json_parting(asim_json *json, const asim_comparison *c)
{
    if (!c->parted) {
        asim_json_null(json, "parting");
        return;
    }
    asim_json_begin(json, "parting", '{');
    if (c->part_event == ASIM_WATCH_OPENING)
        asim_json_null(json, "event");
    else
        asim_json_number(json, "event", c->part_event);
    asim_json_text(json, "differ_in", c->part_requests ? "requests" : "effects");
    json_part_side(json, "a", &c->sides[0], c->part_event);
    json_part_side(json, "b", &c->sides[1], c->part_event);
    asim_json_end(json, '}');
}

static void json_oom(asim_json *json, const asim_compare_side *side)
{
    const asim_oom *oom = &side->kept.record.oom;
    if (!side->kept.record.has_oom) {
        asim_json_null(json, "oom");
        return;
    }
    asim_json_begin(json, "oom", '{');
    asim_json_number(json, "event", oom->event);
    asim_json_number(json, "requested_bytes", oom->requested_bytes);
    asim_json_number(json, "segment_bytes", oom->segment_bytes);
    asim_json_number(json, "allocated_bytes", oom->allocated_bytes);
    asim_json_number(json, "reserved_bytes", oom->reserved_bytes);
    asim_json_number(json, "device_free_bytes", oom->device_free_bytes);
    asim_json_number(json, "largest_free_bytes", oom->largest_free_bytes);
    asim_json_number(json, "device", oom->device);
    asim_json_end(json, '}');
}

static void json_side(asim_json *json, const char *key, const asim_compare_side *side)
{
    asim_json_begin(json, key, '{');
    asim_json_text(json, "name", side->name);
    asim_json_text(json, "trace", side->trace_path);
    asim_json_digest(json, "trace_digest", side->trace_digest);
    asim_json_number(json, "events", side->trace_events);
    asim_json_text(json, "policy", side->policy);
    asim_json_text(json, "params", side->params);
    if (side->torch[0])
        asim_json_text(json, "torch", side->torch);
    asim_json_text(json, "device", side->device);
    asim_json_number(json, "capacity_bytes", side->kept.record.capacity);
    asim_json_number(json, "seed", side->seed);
    asim_json_text(json, "status", side->kept.record.status == ASIM_RUN_OOM ? "oom" : "ok");
    asim_json_digest(json, "placement_digest", side->kept.record.placement_digest);
    json_oom(json, side);
    if (side->trace) {
        if (side->peak_event == ASIM_WATCH_OPENING)
            asim_json_null(json, "peak_event");
        else
            asim_json_number(json, "peak_event", side->peak_event);
    }
    asim_json_end(json, '}');
}

static void json_pair(asim_json *json, const uint64_t pair[2])
{
    asim_json_number(json, "a", pair[0]);
    asim_json_number(json, "b", pair[1]);
    asim_json_integer(json, "difference", (int64_t)(pair[1] - pair[0]));
}

static void json_metrics(asim_json *json, const asim_comparison *c)
{
    uint64_t pair[2];
    const char *name;
    asim_json_begin(json, "metrics", '{');
    for (size_t i = 0; (name = asim_compare_metric(c, i, pair)); i++) {
        if (pair[0] == pair[1])
            continue;
        asim_json_begin(json, name, '{');
        json_pair(json, pair);
        asim_json_end(json, '}');
    }
    asim_json_end(json, '}');
}

static void json_phases(asim_json *json, const asim_comparison *c)
{
    const asim_compare_side *a = &c->sides[0], *b = &c->sides[1];
    asim_json_begin(json, "phases", '[');
    for (size_t i = 0; i < a->phase_count && i < b->phase_count; i++) {
        uint64_t pair[2] = {a->phases[i].peak_reserved, b->phases[i].peak_reserved};
        if (pair[0] == pair[1] || strcmp(a->phases[i].label, b->phases[i].label) != 0)
            continue;
        asim_json_begin(json, NULL, '{');
        asim_json_number(json, "phase", i);
        asim_json_text(json, "label", a->phases[i].label);
        asim_json_begin(json, "peak_reserved_bytes", '{');
        json_pair(json, pair);
        asim_json_end(json, '}');
        asim_json_end(json, '}');
    }
    asim_json_end(json, ']');
}

static void json_views(asim_json *json, const asim_comparison *c)
{
    if (!c->has_views) {
        asim_json_null(json, "reserved");
        return;
    }
    asim_json_begin(json, "reserved", '{');
    asim_json_text(json, "moment", c->replayed ? "peak" : "end");
    for (unsigned view = 0; view < ASIM_VIEWS; view++) {
        if (!c->has_sites && view >= ASIM_VIEW_GROWN)
            break;
        asim_json_begin(json, asim_compare_view_key((asim_compare_view)view), '[');
        for (size_t i = 0; i < c->views[view].count; i++) {
            const asim_row *row = &c->views[view].rows[i];
            asim_json_begin(json, NULL, '{');
            asim_json_text(json, "key", row->key);
            json_pair(json, row->bytes);
            asim_json_number(json, "count_a", row->count[0]);
            asim_json_number(json, "count_b", row->count[1]);
            asim_json_end(json, '}');
        }
        asim_json_end(json, ']');
    }
    asim_json_end(json, '}');
}

void asim_compare_print_json(FILE *out, const asim_comparison *comparison)
{
    asim_json json = {.out = out};
    asim_json_begin(&json, NULL, '{');
    asim_json_text(&json, "result", comparison->differs ? "different" : "equal");
    json_side(&json, "a", &comparison->sides[0]);
    json_side(&json, "b", &comparison->sides[1]);
    json_metrics(&json, comparison);
    json_parting(&json, comparison);
    json_phases(&json, comparison);
    json_views(&json, comparison);
    asim_json_end(&json, '}');
}
