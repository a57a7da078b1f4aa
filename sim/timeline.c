#include "sim/timeline.h"

#include <string.h>

typedef struct bucket { /* three moments of the events that fall into it */
    asim_sample last, most_reserved, most_allocated;
} bucket;

struct asim_timeline {
    const asim_hostmem *mem;
    bucket *buckets;
    size_t count, capacity;
    uint64_t width; /* events a bucket */
};

struct asim_observer_state {
    asim_timeline *timeline;
};

asim_code asim_timeline_new(size_t capacity, const asim_hostmem *mem, asim_timeline **ret_timeline,
                            asim_err *err)
{
    if (capacity < 6)
        return asim_fail(err, ASIM_E_USAGE, "a timeline keeps at least 6 samples");
    asim_timeline *timeline = asim_mem_new(mem, 1, sizeof *timeline);
    if (!timeline)
        return asim_fail_memory(err, sizeof *timeline);
    timeline->mem = mem;
    timeline->width = 1;
    timeline->capacity = capacity / 3;
    timeline->buckets = asim_mem_new(mem, timeline->capacity, sizeof(bucket));
    if (!timeline->buckets) {
        asim_timeline_free(timeline);
        return asim_fail_memory(err, capacity / 3 * sizeof(bucket));
    }
    *ret_timeline = timeline;
    return ASIM_OK;
}

void asim_timeline_free(asim_timeline *timeline)
{
    if (!timeline)
        return;
    asim_mem_free(timeline->mem, timeline->buckets, timeline->capacity, sizeof(bucket));
    asim_mem_free(timeline->mem, timeline, 1, sizeof *timeline);
}

static void join(bucket *into, const bucket *later)
{
    into->last = later->last;
    if (later->most_reserved.reserved > into->most_reserved.reserved)
        into->most_reserved = later->most_reserved;
    if (later->most_allocated.allocated > into->most_allocated.allocated)
        into->most_allocated = later->most_allocated;
}

static void halve(asim_timeline *timeline)
{
    size_t kept = 0;
    for (size_t i = 0; i < timeline->count; i += 2, kept++) {
        timeline->buckets[kept] = timeline->buckets[i];
        if (i + 1 < timeline->count)
            join(&timeline->buckets[kept], &timeline->buckets[i + 1]);
    }
    timeline->count = kept;
    timeline->width *= 2;
}

static asim_code timeline_init(asim_observer_state *state, const void *config, const asim_hostmem *mem,
                               asim_err *err)
{
    (void)mem;
    (void)err;
    union {
        const void *from;
        asim_timeline *to;
    } given = {config}; /* the config is ours to change: it is this observer's own object */
    state->timeline = given.to;
    return ASIM_OK;
}

static asim_code timeline_after(asim_observer_state *state, const asim_event *event, const asim_books *books,
                                const asim_policy_counters *counters, asim_err *err)
{
    (void)event;
    (void)err;
    asim_timeline *timeline = state->timeline;
    const bucket now = {.last = {.event = books->event,
                                 .time_ns = books->host_ns,
                                 .requested = books->requested,
                                 .allocated = books->allocated,
                                 .active = books->active,
                                 .reserved = books->reserved,
                                 .largest_free = counters->largest_free_bytes}};
    while (books->event / timeline->width >= timeline->capacity)
        halve(timeline);
    size_t index = (size_t)(books->event / timeline->width);
    bucket *b = &timeline->buckets[index];
    if (index < timeline->count) {
        const bucket later = {now.last, now.last, now.last};
        join(b, &later);
        return ASIM_OK;
    }
    while (timeline->count <= index) { /* events in between that were not told carry the same state */
        timeline->buckets[timeline->count++] = (bucket){now.last, now.last, now.last};
    }
    return ASIM_OK;
}

const asim_observer asim_timeline_observer = {
    .name = "timeline",
    .state_size = sizeof(asim_observer_state),
    .init = timeline_init,
    .after = timeline_after,
};

static void put(asim_sample *samples, size_t *count, size_t capacity, const asim_sample *sample)
{
    if (*count < capacity && (*count == 0 || samples[*count - 1].event < sample->event))
        samples[(*count)++] = *sample;
}

size_t asim_timeline_samples(const asim_timeline *timeline, asim_sample *ret_samples, size_t capacity)
{
    size_t count = 0;
    for (size_t i = 0; i < timeline->count; i++) {
        const bucket *b = &timeline->buckets[i];
        bool reserved_first = b->most_reserved.event <= b->most_allocated.event;
        put(ret_samples, &count, capacity, reserved_first ? &b->most_reserved : &b->most_allocated);
        put(ret_samples, &count, capacity, reserved_first ? &b->most_allocated : &b->most_reserved);
        put(ret_samples, &count, capacity, &b->last);
    }
    return count;
}
