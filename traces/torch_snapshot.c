#include "traces/torch_snapshot.h"

#include "traces/torch_emit.h"
#include "traces/torch_layout.h"
#include "traces/torch_notes.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct import {
    asim_torch_records records;
    asim_torch_device devices[ASIM_DEVICES_MAX]; /* those in use */
    size_t device_count;
    asim_torch_tally tally;
    uint64_t base_us, entries;
    const asim_sink *sink;
    asim_code code; /* of the notes */
    asim_err *err;
} import;

static int probe(const uint8_t *head, size_t length)
{
    if (length < 2 || head[0] != 0x80 || head[1] < 2 || head[1] > 5)
        return 0;
    static const char *const words[] = {"segments", "device_traces", "total_size", "allocated_size"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(head, length, words[i], strlen(words[i])))
            return 100;
    return 10;
}

static void note(import *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(import *m, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!m->code)
        m->code = m->sink->ops->note(m->sink->ctx, text, m->err);
}

/* Devices with a history or with segments, and the first moment of the whole. */
static asim_code find_devices(import *m)
{
    const asim_torch_records *r = &m->records;
    bool used[ASIM_DEVICES_MAX] = {false};
    for (uint64_t i = 0; i < r->segment_range.count; i++)
        used[r->segments[r->segment_range.first + i].device] = true;
    for (size_t i = 0; i < ASIM_DEVICES_MAX; i++) {
        uint64_t first;
        uint64_t count = asim_torch_trace(r, i, &first);
        m->entries += count;
        if (count || used[i])
            m->devices[m->device_count++].number = (unsigned)i;
    }
    if (m->device_count == 0) /* an empty snapshot is one of device 0 with nothing in it */
        m->device_count = 1;
    return ASIM_OK;
}

static void earliest(import *m, uint64_t time_us)
{
    if (time_us && (!m->base_us || time_us < m->base_us))
        m->base_us = time_us;
}

static asim_code find_start(import *m, const asim_hostmem *mem)
{
    asim_torch_cursor *cursor = asim_mem_new(mem, 1, sizeof *cursor);
    if (!cursor)
        return asim_fail_memory(m->err, sizeof *cursor);
    asim_torch_cursor_init(cursor, &m->records.entries);
    for (size_t i = 0; i < m->device_count; i++) {
        const asim_torch_device *d = &m->devices[i];
        if (d->count) /* times do not run backwards (R173) */
            earliest(m, asim_torch_cursor_at(cursor, d->first)->time_us);
    }
    if (m->base_us)
        for (size_t i = 0; i < m->records.annotation_count; i++)
            earliest(m, m->records.annotations[i].time_us);
    asim_mem_free(mem, cursor, 1, sizeof *cursor);
    return ASIM_OK;
}

static asim_code settings(import *m)
{
    const asim_torch_settings *s = &m->records.settings;
    if (!s->present)
        return ASIM_OK;
    if (s->conf != ASIM_NO_INDEX && m->records.strings.items[s->conf].length) {
        const char *text = asim_strtab_text(&m->records.strings, s->conf);
        char clean[4096];
        size_t length = m->records.strings.items[s->conf].length;
        if (length >= sizeof clean)
            return asim_fail(m->err, ASIM_E_INPUT, "PYTORCH_CUDA_ALLOC_CONF of %zu bytes", length);
        asim_strtab_clean(clean, text, length);
        clean[length] = 0;
        return m->sink->ops->settings(m->sink->ctx, clean, m->err);
    }
    /* No string although values differ from the defaults: say them as a string. */
    char text[256] = "";
    size_t at = 0;
    if (s->max_split_size != UINT64_MAX)
        at += (size_t)snprintf(text + at, sizeof text - at, "max_split_size_mb:%" PRIu64 ",",
                               s->max_split_size >> 20);
    if (s->gc_threshold > 0 && s->gc_threshold < 1)
        at += (size_t)snprintf(text + at, sizeof text - at, "garbage_collection_threshold:%g,",
                               s->gc_threshold);
    if (s->expandable)
        at += (size_t)snprintf(text + at, sizeof text - at, "expandable_segments:True,");
    if (at == 0)
        return ASIM_OK;
    text[at - 1] = 0;
    return m->sink->ops->settings(m->sink->ctx, text, m->err);
}

/* Which releases write the keys that the snapshot has. */
static void note_layout(import *m)
{
    static const unsigned since[] = {ASIM_TORCH_SINCE_DICT,     ASIM_TORCH_SINCE_TIMES,
                                     ASIM_TORCH_SINCE_SETTINGS, ASIM_TORCH_SINCE_ANNOTATIONS,
                                     ASIM_TORCH_SINCE_CONTEXTS, ASIM_TORCH_SINCE_METADATA,
                                     ASIM_TORCH_SINCE_POOL_IDS, ASIM_TORCH_SINCE_HOST};
    const size_t count = sizeof since / sizeof *since;
    size_t at = 0;
    while (at + 1 < count && since[at + 1] <= m->records.newest_key)
        at++;
    if (at + 1 == count)
        note(m, ASIM_TORCH_NEWEST_NOTE, since[at] / 100, since[at] % 100);
    else
        note(m, ASIM_TORCH_LAYOUT_NOTE, since[at] / 100, since[at] % 100, (since[at + 1] - 1) / 100,
             (since[at + 1] - 1) % 100);
}

static void notes_of_window(import *m)
{
    const asim_torch_tally *t = &m->tally;
    const asim_torch_records *r = &m->records;
    if (m->entries == 0)
        note(m, "There is no history: the recording shows what is in memory, not how it came there.");
    else if (m->entries <= m->device_count)
        note(m,
             "The history holds one entry a device (a ring buffer of one, or recording of the state only): "
             "what is in memory is known, not how it came there.");
    else if (t->opening_live + t->opening_pending)
        note(m,
             "The history begins in mid-run: %" PRIu64 " blocks are older than its first entry; when and by "
             "whom they were allocated is not recorded, except for the call stacks of those that live to "
             "the end.",
             t->opening_live + t->opening_pending);
    if (t->opening_pending && m->entries)
        note(m, "%" PRIu64 " of the blocks at the start were already freed and waited for another stream.",
             t->opening_pending);
    if (m->entries && t->opening_live + t->opening_pending)
        note(m,
             "Allocated and freed totals, peaks and retries before the first entry are not recorded; neither "
             "is what was last asked for in blocks that were free then.");
    if (t->never_completed && m->entries)
        note(m, "%" PRIu64 " freed blocks still wait for another stream at the end.", t->never_completed);
    if (m->entries && !m->base_us)
        note(m, "The history has no times: only the order of events on each device is known.");
    if (t->times_back)
        note(m, "The clock ran backwards %" PRIu64 " times; it is held still there.", t->times_back);
    if (t->stacks == 0 && r->stack_count == 0)
        note(m, "No call stacks were recorded.");
    if (!r->settings.present)
        note(m, "The allocator's settings are not recorded.");
    if (r->bare)
        note(m, "A bare list of segments (memory_snapshot): no history and no settings.");
}

static void notes_of_calls(import *m)
{
    const asim_torch_tally *t = &m->tally;
    if (m->entries)
        note(m, "Uses of a block by other streams (record_stream), limits and changes of settings are not "
                "recorded; completions of frees are.");
    if (t->trims)
        note(m,
             "%" PRIu64 " times memory was released without a request that followed: taken as empty_cache.",
             t->trims - t->fitting_releases - t->roomy_releases);
    if (t->fitting_releases + t->roomy_releases + t->retry_releases)
        note(m,
             "%" PRIu64
             " releases came directly before new memory was obtained or refused, which the recording "
             "does not explain: %" PRIu64 " taken as an empty_cache before the request because a released "
             "segment could have served it, %" PRIu64 " because the device had room, %" PRIu64 " as the "
             "request's own retry.",
             t->fitting_releases + t->roomy_releases + t->retry_releases, t->fitting_releases,
             t->roomy_releases, t->retry_releases);
    if (t->ooms)
        note(m, "%" PRIu64 " requests failed; their size is recorded rounded, not as asked for.", t->ooms);
    if (t->calls_left)
        note(m, "%" PRIu64 " driver calls at the end belong to a request that is not recorded: left out.",
             t->calls_left);
    if (t->unknown_frees)
        note(m, "%" PRIu64 " frees of addresses that are not known to be in use: left out.",
             t->unknown_frees);
    if (t->reused_addresses)
        note(m,
             "%" PRIu64 " allocations at an address still in use: the earlier block is taken as freed there.",
             t->reused_addresses);
    if (t->marks_left)
        note(m, "%" PRIu64 " annotations have no place among events without times: left out.", t->marks_left);
    if (t->marks_end_first)
        note(m, "%" PRIu64 " annotated ranges end without having begun: they began before the recording.",
             t->marks_end_first);
}

static void notes_of_devices(import *m)
{
    const asim_torch_records *r = &m->records;
    for (size_t i = 0; i < m->device_count; i++) {
        const asim_torch_device *d = &m->devices[i];
        if (d->number != i)
            note(m, ASIM_TORCH_DEVICE_NOTE, i, d->number);
        if (d->contradicted)
            note(m,
                 "Recorded placements contradict the segments of device %u (%s): not kept. Its requests are "
                 "imported without addresses, driver calls and opening state.",
                 d->number, d->contradiction);
        if (!d->contradicted && d->count && d->slack_unknown)
            note(m,
                 "The exact size of %" PRIu64 " older blocks of device %u is not known (at most 1 MiB more "
                 "than taken).",
                 d->slack_unknown, d->number);
        if (d->count && d->free_is_both && d->actions[ASIM_TORCH_FREE_REQUESTED])
            note(m, "Completions of frees are not recorded on device %u: taken as immediate.", d->number);
        if (d->completion_is_both && d->actions[ASIM_TORCH_FREE_COMPLETED])
            note(m, "Only completions of frees are recorded on device %u: taken as the frees.", d->number);
        if (d->actions[ASIM_TORCH_UNKNOWN])
            note(m, "%" PRIu64 " history entries of device %u have an action that is not known: skipped.",
                 d->actions[ASIM_TORCH_UNKNOWN], d->number);
    }
    for (size_t i = 1; i < r->pool_count; i++)
        note(m, ASIM_TORCH_POOL_NOTE, i, r->pools[i].first, r->pools[i].second);
    if (r->has_metadata)
        note(m, "Entries carry compile contexts or user metadata: not imported.");
    if (r->bytes_follow)
        note(m, "Bytes follow the end of the pickle: not read.");
}

static asim_code import_all(import *m, const asim_input *input, const asim_hostmem *mem)
{
    asim_code code = asim_torch_records_read(&m->records, input, mem, m->err);
    if (!code)
        code = find_devices(m);
    for (size_t i = 0; i < m->device_count && !code; i++)
        code = asim_torch_rebuild(&m->devices[i], &m->records, m->err);
    if (!code)
        code = find_start(m, mem);
    if (!code)
        code = m->sink->ops->source(m->sink->ctx, asim_importer_torch_snapshot.name, m->err);
    if (!code)
        code = settings(m);
    if (!code && m->base_us)
        code = m->sink->ops->start(m->sink->ctx,
                                   m->base_us > UINT64_MAX / 1000 ? UINT64_MAX : m->base_us * 1000, m->err);
    if (!code)
        code =
            asim_torch_emit(&m->records, m->devices, m->device_count, m->base_us, m->sink, &m->tally, m->err);
    if (code)
        return code;
    if (m->entries > 0)
        note_layout(m);
    notes_of_window(m);
    notes_of_calls(m);
    notes_of_devices(m);
    return m->code;
}

static asim_code import_snapshot(const asim_input *input, const asim_sink *sink, const asim_hostmem *mem,
                                 asim_err *err)
{
    import *m = asim_mem_new(mem, 1, sizeof *m);
    if (!m)
        return asim_fail_memory(err, sizeof *m);
    m->sink = sink;
    m->err = err;
    asim_code code = import_all(m, input, mem);
    for (size_t i = 0; i < m->device_count; i++)
        asim_torch_device_fini(&m->devices[i], mem);
    asim_torch_records_fini(&m->records);
    asim_mem_free(mem, m, 1, sizeof *m);
    return code;
}

const asim_importer asim_importer_torch_snapshot = {
    .name = "torch-snapshot",
    .summary = "PyTorch CUDA memory snapshot (pickle of _dump_snapshot, _snapshot or memory_snapshot)",
    .probe = probe,
    .import = import_snapshot,
};
