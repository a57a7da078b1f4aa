/* The content of an events frame and of the table frames, without the compression and checksums around them:
 * the first byte chooses the decoder and the number of items, the rest is its content. */
#include "traces/body.h"
#include "traces/event_code.h"
#include "traces/table_code.h"
#include "traces/zframe.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode_events(const asim_bytes sections[ASIM_SECTIONS_MAX], size_t count)
{
    asim_err err = ASIM_ERR_INIT;
    asim_event_coder *coder = asim_event_coder_new(asim_hostmem_libc(), count, &err);
    asim_event *events = calloc(count, sizeof *events);
    uint64_t *times = calloc(count, sizeof *times), *addresses = calloc(count, sizeof *addresses);
    uint32_t *stacks = calloc(count, sizeof *stacks);
    if (!coder || !events || !times || !addresses || !stacks)
        abort();
    asim_event_batch batch = {events, times, addresses, stacks, count};
    size_t unknown = 0;
    for (int newer = 0; newer < 2; newer++) {
        asim_code code = asim_decode_events(coder, sections, 0, newer, &batch, &unknown, &err);
        if (code != ASIM_OK && code != ASIM_E_INPUT)
            abort();
    }
    free(events);
    free(times);
    free(addresses);
    free(stacks);
    asim_event_coder_free(coder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    asim_bytes sections[ASIM_SECTIONS_MAX];
    asim_err err = ASIM_ERR_INIT;
    bool skipped = false;
    if (size < 1)
        return 0;
    size_t count = 1 + data[0] / 8;
    asim_bytes content = {data + 1, data + size};
    if (asim_take_sections(content, ASIM_SECTIONS_MAX, true, sections, &skipped, &err))
        return 0;
    asim_body *body = asim_body_new(asim_hostmem_libc(), &err);
    asim_frame_entry entries[33];
    if (!body)
        abort();
    asim_code code = ASIM_OK;
    switch (data[0] % 8) {
    case 0:
        code = asim_decode_tables(sections, &body->tables, asim_hostmem_libc(), &err);
        break;
    case 1:
        code = asim_decode_segments(sections, count, body, &err);
        break;
    case 2:
        code = asim_decode_blocks(sections, count, body, &err);
        break;
    case 3:
        code = asim_decode_calls(sections, count, body, &err);
        break;
    case 4:
        code = asim_decode_index(sections, 96, entries, count, &err);
        break;
    default:
        decode_events(sections, count);
        break;
    }
    if (code != ASIM_OK && code != ASIM_E_INPUT)
        abort();
    asim_body_free(body);
    return 0;
}
