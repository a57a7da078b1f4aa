#include "tools/sweep_rows.h"

#include "policies/registry.h"

#include <stdlib.h>
#include <string.h>

enum {
    LABEL_MAX = 4096
};

const char *const asim_sweep_orders[] = {"listed", "reserved", "internal", "external",
                                         "calls",  "stall",    "failures", NULL};

static uint64_t order_value(const asim_sweep_row *row, asim_sweep_order order)
{
    switch (order) {
    case ASIM_ORDER_LISTED:
        return 0;
    case ASIM_ORDER_RESERVED:
        return row->reserved;
    case ASIM_ORDER_INTERNAL:
        return row->internal;
    case ASIM_ORDER_EXTERNAL:
        return row->external;
    case ASIM_ORDER_CALLS:
        return row->calls;
    case ASIM_ORDER_STALL:
        return row->stall;
    case ASIM_ORDER_FAILURES:
        return row->failures;
    }
    return 0;
}

/* A run that failed looks small: whatever is compared, it comes after those that served everything. */
static unsigned order_class(const asim_sweep_row *row, asim_sweep_order order)
{
    if (order == ASIM_ORDER_LISTED)
        return 0;
    return row->result->failed ? 2 : row->failures > 0;
}

static int compare(const void *left, const void *right, void *ctx)
{
    const asim_sweep_row *a = left, *b = right;
    asim_sweep_order order = *(const asim_sweep_order *)ctx;
    unsigned class_a = order_class(a, order), class_b = order_class(b, order);
    uint64_t value_a = order_value(a, order), value_b = order_value(b, order);
    if (class_a != class_b)
        return class_a < class_b ? -1 : 1;
    if (value_a != value_b)
        return value_a < value_b ? -1 : 1;
    return a->result->config < b->result->config ? -1 : a->result->config > b->result->config;
}

asim_code asim_sweep_rows_make(const asim_sweep_view *view, const asim_sweep_trace *trace, bool only,
                               uint64_t capacity, asim_sweep_rows *rows, const asim_hostmem *mem,
                               asim_err *err)
{
    *rows = (asim_sweep_rows){0};
    if (!trace->opened)
        return ASIM_OK;
    for (size_t i = 0; i < view->outcome->config_count; i++) {
        const asim_sweep_result *result = trace->results[i];
        if (!result || (!result->done && !result->failed))
            continue;
        if (only && view->plan->configs[i].capacity != capacity)
            continue;
        void *grown = rows->rows;
        asim_code code =
            asim_mem_grow(mem, &grown, &rows->capacity, rows->count + 1, sizeof *rows->rows, err);
        if (code)
            return code;
        rows->rows = grown;
        const uint64_t *m = result->run.record.metrics;
        rows->rows[rows->count++] =
            (asim_sweep_row){.result = result,
                             .reserved = m[ASIM_METRIC_peak_reserved_bytes],
                             .internal = m[ASIM_METRIC_peak_internal_frag_bytes],
                             .external = m[ASIM_METRIC_mean_external_frag_ppm],
                             .calls = m[ASIM_METRIC_device_allocs] + m[ASIM_METRIC_device_frees] +
                                      m[ASIM_METRIC_device_maps] + m[ASIM_METRIC_device_unmaps],
                             .stall = m[ASIM_METRIC_stall_ns],
                             .failures = m[ASIM_METRIC_ooms]};
    }
    asim_sweep_order order = view->order;
    if (rows->count > 1)
        qsort_r(rows->rows, rows->count, sizeof *rows->rows, compare, &order);
    return ASIM_OK;
}

/* The length of a parameter at text, up to the comma outside brackets. */
static size_t item_length(const char *text)
{
    size_t length = 0;
    for (int depth = 0; text[length] && (text[length] != ',' || depth > 0); length++)
        depth += text[length] == '[' ? 1 : text[length] == ']' && depth > 0 ? -1 : 0;
    return length;
}

static bool has_item(const char *params, const char *item, size_t length)
{
    while (*params) {
        size_t this = item_length(params);
        if (this == length && memcmp(params, item, length) == 0)
            return true;
        params += this + (params[this] == ',');
    }
    return false;
}

static void append(char *text, size_t capacity, const char *separator, const char *item, size_t length)
{
    size_t used = strlen(text);
    snprintf(text + used, capacity - used, "%s%.*s", separator, (int)length, item);
}

static asim_sweep_shared *find_shared(const asim_sweep_rows *rows, const char *policy)
{
    for (size_t i = 0; i < rows->shared_count; i++)
        if (strcmp(rows->shared[i].policy, policy) == 0)
            return &rows->shared[i];
    return NULL;
}

/* Keeps of the shared parameters those that these have too. */
static void intersect(asim_sweep_shared *shared, const char *params)
{
    char kept[ASIM_SHARED_MAX] = "";
    for (const char *item = shared->text; *item;) {
        size_t length = item_length(item);
        if (has_item(params, item, length))
            append(kept, sizeof kept, kept[0] ? "," : "", item, length);
        item += length + (item[length] == ',');
    }
    strcpy(shared->text, kept);
}

static asim_code fill_shared(asim_sweep_rows *rows, const asim_hostmem *mem, asim_err *err)
{
    for (size_t i = 0; i < rows->count; i++) {
        const asim_stored_run *run = &rows->rows[i].result->run;
        asim_sweep_shared *shared = find_shared(rows, run->policy);
        if (shared) {
            shared->rows++;
            intersect(shared, run->params);
            continue;
        }
        void *grown = rows->shared;
        asim_code code = asim_mem_grow(mem, &grown, &rows->shared_capacity, rows->shared_count + 1,
                                       sizeof *rows->shared, err);
        if (code)
            return code;
        rows->shared = grown;
        shared = &rows->shared[rows->shared_count++];
        *shared = (asim_sweep_shared){.policy = run->policy, .rows = 1};
        if (strlen(run->params) < sizeof shared->text) /* longer ones stay in the labels */
            strcpy(shared->text, run->params);
    }
    for (size_t i = 0; i < rows->shared_count; i++)
        if (rows->shared[i].rows == 1)
            rows->shared[i].text[0] = 0;
    return ASIM_OK;
}

asim_code asim_sweep_rows_label(asim_sweep_rows *rows, const asim_hostmem *mem, asim_err *err)
{
    asim_code code = fill_shared(rows, mem, err);
    for (size_t i = 0; i < rows->count && !code; i++) {
        const asim_stored_run *run = &rows->rows[i].result->run;
        const char *shared = find_shared(rows, run->policy)->text;
        char text[LABEL_MAX] = "";
        append(text, sizeof text, "", run->policy, strlen(run->policy));
        for (const char *item = run->params; *item;) {
            size_t length = item_length(item);
            if (!has_item(shared, item, length))
                append(text, sizeof text, " ", item, length);
            item += length + (item[length] == ',');
        }
        size_t size = strlen(text) + 1;
        char *label = asim_mem_new(mem, size, 1);
        if (!label)
            return asim_fail_memory(err, size);
        memcpy(label, text, size);
        rows->rows[i].label = label;
        rows->rows[i].label_size = size;
    }
    return code;
}

/* A policy that is no allocator (null) can't be the best one. Plug-ins and others are. */
static bool may_win(const asim_sweep_row *row)
{
    const asim_policy *policy = asim_policy_find(row->result->run.policy);
    return !row->result->failed && row->failures == 0 && !(policy && (policy->flags & ASIM_POLICY_REFERENCE));
}

size_t asim_sweep_rows_best(const asim_sweep_rows *rows)
{
    size_t best = rows->count, candidates = 0;
    bool differ = false;
    for (size_t i = 0; i < rows->count; i++) {
        const asim_sweep_row *row = &rows->rows[i];
        if (!may_win(row))
            continue;
        candidates++;
        if (best < rows->count) {
            const asim_sweep_row *other = &rows->rows[best];
            differ = differ || other->reserved != row->reserved || other->stall != row->stall;
            bool smaller = row->reserved != other->reserved ? row->reserved < other->reserved
                           : row->stall != other->stall     ? row->stall < other->stall
                                                            : row->result->config < other->result->config;
            if (!smaller)
                continue;
        }
        best = i;
    }
    return candidates > 1 && !differ ? rows->count : best;
}

void asim_sweep_rows_fini(asim_sweep_rows *rows, const asim_hostmem *mem)
{
    for (size_t i = 0; i < rows->count; i++)
        asim_mem_free(mem, rows->rows[i].label, rows->rows[i].label_size, 1);
    asim_mem_free(mem, rows->rows, rows->capacity, sizeof *rows->rows);
    asim_mem_free(mem, rows->shared, rows->shared_capacity, sizeof *rows->shared);
    *rows = (asim_sweep_rows){0};
}
