#include "policies/stream_uses.h"

#include "sim/idmap.h"

#include <string.h>

struct asim_use_note {
    uint64_t event;
    uint32_t next;
    uint32_t stream;
    uint32_t ticket; /* of an event: the note that counts for its block */
    uint32_t word;   /* of a ticket */
    uint32_t left;   /* of a ticket: events not yet done */
};

struct asim_use_queue {
    uint32_t head, tail;
};

/* A stream is named by device and handle: one map for the handles, one for (number of the handle, device). */
static asim_code number_streams(asim_stream_uses *uses, asim_idmap *handles, asim_idmap *pairs, asim_err *err)
{
    for (uint32_t lane = 0; lane < uses->lane_count; lane++) {
        const asim_lane *l = &uses->lanes[lane];
        uint32_t handle = lane, first = lane;
        asim_code code = ASIM_OK;
        if (!asim_idmap_get(handles, l->stream, &handle))
            code = asim_idmap_put(handles, l->stream, lane, err);
        const uint64_t pair = (uint64_t)handle << 16 | l->device;
        if (!code && !asim_idmap_get(pairs, pair, &first))
            code = asim_idmap_put(pairs, pair, lane, err);
        if (code)
            return code;
        uses->streams[lane] = first;
    }
    return ASIM_OK;
}

asim_code asim_uses_init(asim_stream_uses *uses, const asim_policy_env *env, asim_err *err)
{
    uses->memory = env->memory;
    uses->device = env->device;
    uses->lanes = env->lanes;
    uses->lane_count = env->lane_count;
    uses->note_count = 1;
    for (uint32_t i = 0; i < env->lane_count; i++)
        if (env->lanes[i].device >= env->device_count)
            return asim_fail(err, ASIM_E_INPUT, "lane %u names device %u of %u", i, env->lanes[i].device,
                             env->device_count);
    if (!env->lane_count)
        return ASIM_OK;
    uses->streams = asim_mem_new(env->memory, env->lane_count, sizeof *uses->streams);
    uses->queues = asim_mem_new(env->memory, env->lane_count, sizeof *uses->queues);
    uses->active = asim_mem_new(env->memory, env->lane_count, sizeof *uses->active);
    if (!uses->streams || !uses->queues || !uses->active)
        return asim_fail_memory(err, env->lane_count * sizeof *uses->queues);
    asim_idmap handles, pairs;
    asim_idmap_init(&handles, env->memory);
    asim_idmap_init(&pairs, env->memory);
    asim_code code = number_streams(uses, &handles, &pairs, err);
    asim_idmap_fini(&handles);
    asim_idmap_fini(&pairs);
    return code;
}

void asim_uses_fini(asim_stream_uses *uses)
{
    if (!uses->memory)
        return;
    asim_mem_free(uses->memory, uses->streams, uses->lane_count, sizeof *uses->streams);
    asim_mem_free(uses->memory, uses->queues, uses->lane_count, sizeof *uses->queues);
    asim_mem_free(uses->memory, uses->active, uses->lane_count, sizeof *uses->active);
    asim_mem_free(uses->memory, uses->notes, uses->note_capacity, sizeof *uses->notes);
}

static uint32_t note_new(asim_stream_uses *uses, asim_err *err)
{
    uint32_t fresh = uses->spare;
    if (fresh) {
        uses->spare = uses->notes[fresh].next;
    } else {
        void *notes = uses->notes;
        if (asim_mem_grow(uses->memory, &notes, &uses->note_capacity, (size_t)uses->note_count + 1,
                          sizeof *uses->notes, err))
            return 0;
        uses->notes = notes;
        fresh = uses->note_count++;
    }
    memset(&uses->notes[fresh], 0, sizeof *uses->notes);
    return fresh;
}

static void note_drop(asim_stream_uses *uses, uint32_t note)
{
    uses->notes[note].next = uses->spare;
    uses->spare = note;
}

asim_code asim_uses_add(asim_stream_uses *uses, uint32_t *list, unsigned own_lane, unsigned lane,
                        asim_err *err)
{
    const uint32_t stream = asim_stream_of(uses, lane);
    if (stream == asim_stream_of(uses, own_lane))
        return ASIM_OK;
    for (uint32_t note = *list; note; note = uses->notes[note].next)
        if (uses->notes[note].stream == stream)
            return ASIM_OK;
    const uint32_t note = note_new(uses, err);
    if (!note)
        return ASIM_E_SYSTEM;
    uses->notes[note].stream = stream;
    uses->notes[note].next = *list;
    *list = note;
    return ASIM_OK;
}

void asim_uses_forget(asim_stream_uses *uses, uint32_t *list)
{
    uint32_t next;
    for (uint32_t note = *list; note; note = next) {
        next = uses->notes[note].next;
        note_drop(uses, note);
    }
    *list = 0;
}

static void activate(asim_stream_uses *uses, uint32_t stream)
{
    uint32_t place = uses->active_count++;
    for (; place > 0 && uses->active[place - 1] > stream; place--)
        uses->active[place] = uses->active[place - 1];
    uses->active[place] = stream;
}

asim_code asim_uses_wait(asim_stream_uses *uses, uint32_t *list, uint32_t word, asim_err *err)
{
    const uint32_t ticket = note_new(uses, err);
    if (!ticket)
        return ASIM_E_SYSTEM;
    uses->notes[ticket].word = word;
    while (*list) {
        const uint32_t note = *list;
        asim_use_note *n = &uses->notes[note];
        asim_use_queue *queue = &uses->queues[n->stream];
        *list = n->next;
        n->next = 0;
        n->ticket = ticket;
        n->event = uses->device.ops->event_record(uses->device.ctx, n->stream);
        if (n->event == UINT64_MAX)
            return asim_fail_memory(err, sizeof n->event);
        uses->notes[ticket].left++;
        if (queue->head)
            uses->notes[queue->tail].next = note;
        else {
            queue->head = note;
            activate(uses, n->stream);
        }
        queue->tail = note;
    }
    return ASIM_OK;
}

static void finish_event(asim_stream_uses *uses, uint32_t note, asim_uses_done done, void *ctx)
{
    const uint32_t ticket = uses->notes[note].ticket;
    note_drop(uses, note);
    if (--uses->notes[ticket].left > 0)
        return;
    const uint32_t word = uses->notes[ticket].word;
    note_drop(uses, ticket);
    done(ctx, word);
}

void asim_uses_poll(asim_stream_uses *uses, bool block, asim_uses_done done, void *ctx)
{
    uint32_t kept = 0;
    const asim_device *table = &uses->device;
    for (uint32_t i = 0; i < uses->active_count; i++) {
        const uint32_t stream = uses->active[i];
        asim_use_queue *queue = &uses->queues[stream];
        while (queue->head) {
            const uint32_t note = queue->head;
            if (block)
                table->ops->event_wait(table->ctx, uses->notes[note].event);
            else if (!table->ops->event_query(table->ctx, uses->notes[note].event))
                break;
            queue->head = uses->notes[note].next;
            finish_event(uses, note, done, ctx);
        }
        if (queue->head)
            uses->active[kept++] = stream;
    }
    uses->active_count = kept;
}
