#include "sim/ledger.h"

#include <inttypes.h>
#include <string.h>

#define PAGE_UNMAPPED UINT32_MAX

void asim_ledger_init(asim_ledger *ledger, asim_device device, asim_books *books, asim_script *script,
                      const asim_hostmem *mem)
{
    memset(ledger, 0, sizeof *ledger);
    ledger->mem = mem;
    ledger->device = device;
    ledger->books = books;
    ledger->script = script;
    asim_intervals_init(&ledger->by_address, mem);
}

void asim_ledger_fini(asim_ledger *ledger)
{
    for (uint32_t i = 0; i < ledger->region_count; i++)
        asim_mem_free(ledger->mem, ledger->regions[i].pages, ledger->regions[i].page_count, sizeof(uint32_t));
    if (ledger->mem)
        asim_mem_free(ledger->mem, ledger->regions, ledger->region_capacity, sizeof(asim_held_region));
    asim_intervals_fini(&ledger->by_address);
}

static asim_device_result misuse(asim_ledger *ledger, const char *what, uint32_t region)
{
    if (!ledger->fault.code)
        asim_fail(&ledger->fault, ASIM_E_BUG, "%s region %" PRIu32 ": no such region, or not mapped so", what,
                  region);
    return ASIM_DEVICE_ERROR;
}

/* The device table reports its own faults as ASIM_DEVICE_ERROR: misuse, or memory that ran out. */
static asim_device_result device_fault(asim_ledger *ledger, const char *what)
{
    if (!ledger->fault.code)
        asim_fail(&ledger->fault, ASIM_E_SYSTEM,
                  "the device failed in %s: misuse, no address space, or no host memory", what);
    return ASIM_DEVICE_ERROR;
}

static void tell(asim_ledger *ledger, const asim_driver_call *call)
{
    if (ledger->claiming)
        return;
    asim_script *script = ledger->script;
    if (script->active) {
        const asim_recorded_call *recorded = asim_script_peek(script);
        bool same = recorded && recorded->kind == (uint8_t)call->kind && recorded->size == call->size &&
                    (call->kind == ASIM_CALL_OOM || recorded->address == call->address);
        if (same) {
            script->next++;
            ledger->call_matches++;
        } else {
            script->active = false;
        }
    }
    ledger->told(ledger->ctx, call);
}

static bool enter(asim_ledger *ledger, const asim_region *region, unsigned device, unsigned lane, bool range)
{
    void *regions = ledger->regions;
    size_t old = ledger->region_capacity;
    if (region->index >= UINT32_MAX - 1 ||
        asim_mem_grow(ledger->mem, &regions, &ledger->region_capacity, (size_t)region->index + 1,
                      sizeof(asim_held_region), &ledger->fault))
        return false;
    ledger->regions = regions;
    if (ledger->region_capacity > old)
        memset(&ledger->regions[old], 0, (ledger->region_capacity - old) * sizeof(asim_held_region));
    asim_interval interval = {region->address, region->address + region->size, region->index};
    if (asim_intervals_add(&ledger->by_address, interval, &ledger->fault))
        return false;
    ledger->regions[region->index] = (asim_held_region){.address = region->address,
                                                        .size = region->size,
                                                        .device = (uint16_t)device,
                                                        .lane = (uint16_t)lane,
                                                        .range = range,
                                                        .live = true};
    if (ledger->region_count <= region->index)
        ledger->region_count = region->index + 1;
    return true;
}

static asim_held_region *live_region(asim_ledger *ledger, uint32_t index, bool range)
{
    if (index >= ledger->region_count || !ledger->regions[index].live ||
        ledger->regions[index].range != range)
        return NULL;
    return &ledger->regions[index];
}

static void leave(asim_ledger *ledger, asim_held_region *region)
{
    region->live = false;
    asim_intervals_remove(&ledger->by_address, region->address);
}

static asim_device_result ledger_alloc(void *ctx, unsigned device, uint64_t size, unsigned lane,
                                       asim_region *ret_region)
{
    asim_ledger *ledger = ctx;
    asim_device_result result = ledger->device.ops->alloc(ledger->device.ctx, device, size, lane, ret_region);
    if (result == ASIM_DEVICE_ERROR)
        return device_fault(ledger, "alloc");
    if (result != ASIM_DEVICE_OK)
        return result;
    if (!enter(ledger, ret_region, device, lane, false))
        return ASIM_DEVICE_ERROR;
    ledger->books->reserved += size;
    ledger->allocs++;
    tell(ledger, &(asim_driver_call){.kind = ASIM_CALL_SEGMENT_ALLOC,
                                     .region = ret_region->index,
                                     .address = ret_region->address,
                                     .size = size,
                                     .device = (uint16_t)device,
                                     .lane = (uint16_t)lane});
    return ASIM_DEVICE_OK;
}

static asim_device_result ledger_free(void *ctx, uint32_t index)
{
    asim_ledger *ledger = ctx;
    asim_held_region *region = live_region(ledger, index, false);
    if (!region || region->active)
        return misuse(ledger, region ? "free, with live blocks inside, of" : "free of", index);
    if (ledger->device.ops->free(ledger->device.ctx, index) != ASIM_DEVICE_OK)
        return device_fault(ledger, "free");
    leave(ledger, region);
    ledger->books->reserved -= region->size;
    ledger->frees++;
    tell(ledger, &(asim_driver_call){.kind = ASIM_CALL_SEGMENT_FREE,
                                     .region = index,
                                     .address = region->address,
                                     .size = region->size,
                                     .device = region->device,
                                     .lane = region->lane});
    return ASIM_DEVICE_OK;
}

static asim_device_result ledger_reserve(void *ctx, unsigned device, uint64_t size, unsigned lane,
                                         asim_region *ret_region)
{
    asim_ledger *ledger = ctx;
    asim_device_result result =
        ledger->device.ops->reserve(ledger->device.ctx, device, size, lane, ret_region);
    if (result == ASIM_DEVICE_ERROR)
        return device_fault(ledger, "reserve");
    if (result != ASIM_DEVICE_OK)
        return result;
    return enter(ledger, ret_region, device, lane, true) ? ASIM_DEVICE_OK : ASIM_DEVICE_ERROR;
}

static asim_device_result ledger_unreserve(void *ctx, uint32_t index)
{
    asim_ledger *ledger = ctx;
    asim_held_region *region = live_region(ledger, index, true);
    if (!region || region->aliased)
        return misuse(ledger, "unreserve of", index);
    if (ledger->device.ops->unreserve(ledger->device.ctx, index) != ASIM_DEVICE_OK)
        return device_fault(ledger, "unreserve");
    leave(ledger, region);
    return ASIM_DEVICE_OK;
}

/* The page table of a range comes with its first map; its page size is then fixed. */
static bool has_pages(asim_ledger *ledger, asim_held_region *region, uint64_t page)
{
    if (region->page)
        return region->page == page;
    if (page == 0 || page >= PAGE_UNMAPPED)
        return false;
    uint64_t count = (region->size + page - 1) / page;
    region->pages = asim_mem_new(ledger->mem, count, sizeof(uint32_t));
    if (!region->pages) {
        asim_fail_memory(&ledger->fault, count * sizeof(uint32_t));
        return false;
    }
    memset(region->pages, 0xFF, count * sizeof(uint32_t));
    region->page_count = count;
    region->page = page;
    return true;
}

static bool pages_are(const asim_held_region *region, uint64_t offset, uint64_t size, uint32_t value)
{
    if (size == 0 || offset % region->page || size % region->page || offset > region->size ||
        size > region->size - offset)
        return false;
    for (uint64_t i = offset / region->page; i < (offset + size) / region->page; i++)
        if (region->pages[i] != value)
            return false;
    return true;
}

static void set_pages(asim_held_region *region, uint64_t offset, uint64_t size, uint32_t value)
{
    for (uint64_t i = offset / region->page; i < (offset + size) / region->page; i++)
        region->pages[i] = value;
}

static asim_device_result ledger_map(void *ctx, uint32_t index, uint64_t offset, uint64_t size, uint64_t page)
{
    asim_ledger *ledger = ctx;
    asim_held_region *region = live_region(ledger, index, true);
    if (!region || region->aliased || !has_pages(ledger, region, page) ||
        !pages_are(region, offset, size, PAGE_UNMAPPED))
        return misuse(ledger, "map in", index);
    asim_device_result result = ledger->device.ops->map(ledger->device.ctx, index, offset, size, page);
    if (result == ASIM_DEVICE_ERROR)
        return device_fault(ledger, "map");
    if (result != ASIM_DEVICE_OK)
        return result;
    set_pages(region, offset, size, 0);
    ledger->books->reserved += size;
    ledger->maps++;
    tell(ledger, &(asim_driver_call){.kind = ASIM_CALL_MAP,
                                     .region = index,
                                     .address = region->address + offset,
                                     .size = size,
                                     .offset = offset,
                                     .device = region->device,
                                     .lane = region->lane});
    return ASIM_DEVICE_OK;
}

static asim_device_result ledger_unmap(void *ctx, uint32_t index, uint64_t offset, uint64_t size,
                                       uint64_t page)
{
    asim_ledger *ledger = ctx;
    asim_held_region *region = live_region(ledger, index, true);
    if (!region || !has_pages(ledger, region, page) || !pages_are(region, offset, size, 0))
        return misuse(ledger, "unmap, of pages not mapped or in use, in", index);
    if (ledger->device.ops->unmap(ledger->device.ctx, index, offset, size, page) != ASIM_DEVICE_OK)
        return device_fault(ledger, "unmap");
    set_pages(region, offset, size, PAGE_UNMAPPED);
    ledger->books->reserved -= size;
    ledger->unmaps++;
    tell(ledger, &(asim_driver_call){.kind = ASIM_CALL_UNMAP,
                                     .region = index,
                                     .address = region->address + offset,
                                     .size = size,
                                     .offset = offset,
                                     .device = region->device,
                                     .lane = region->lane});
    return ASIM_DEVICE_OK;
}

static asim_device_result ledger_claim(void *ctx, unsigned device, uint64_t address, uint64_t size,
                                       bool range, asim_region *ret_region)
{
    asim_ledger *ledger = ctx;
    if (!ledger->claiming)
        return misuse(ledger, "claim, outside of adopt,", 0);
    asim_device_result result =
        ledger->device.ops->claim(ledger->device.ctx, device, address, size, range, ret_region);
    if (result == ASIM_DEVICE_ERROR)
        return device_fault(ledger, "claim");
    if (result != ASIM_DEVICE_OK)
        return result;
    if (!enter(ledger, ret_region, device, 0, range))
        return ASIM_DEVICE_ERROR;
    if (!range)
        ledger->books->reserved += size;
    return ASIM_DEVICE_OK;
}

static void ledger_memory(void *ctx, unsigned device, uint64_t *ret_free, uint64_t *ret_total)
{
    asim_ledger *ledger = ctx;
    ledger->device.ops->memory(ledger->device.ctx, device, ret_free, ret_total);
}

static uint64_t ledger_event_record(void *ctx, unsigned lane)
{
    asim_ledger *ledger = ctx;
    uint64_t event = ledger->device.ops->event_record(ledger->device.ctx, lane);
    if (event == UINT64_MAX && !ledger->fault.code)
        asim_fail_memory(&ledger->fault, 16);
    return event;
}

static bool ledger_event_query(void *ctx, uint64_t event)
{
    asim_ledger *ledger = ctx;
    return ledger->device.ops->event_query(ledger->device.ctx, event);
}

static uint64_t ledger_now_ns(void *ctx)
{
    asim_ledger *ledger = ctx;
    return ledger->device.ops->now_ns(ledger->device.ctx);
}

static void ledger_event_wait(void *ctx, uint64_t event)
{
    asim_ledger *ledger = ctx;
    ledger->device.ops->event_wait(ledger->device.ctx, event);
}

static void ledger_stream_wait(void *ctx, unsigned lane)
{
    asim_ledger *ledger = ctx;
    ledger->device.ops->stream_wait(ledger->device.ctx, lane);
}

static void ledger_device_wait(void *ctx, unsigned device)
{
    asim_ledger *ledger = ctx;
    ledger->device.ops->device_wait(ledger->device.ctx, device);
}

static asim_device_result ledger_copy(void *ctx, unsigned device, uint64_t to, uint64_t from, uint64_t size)
{
    asim_ledger *ledger = ctx;
    asim_device_result result = ledger->device.ops->copy(ledger->device.ctx, device, to, from, size);
    return result == ASIM_DEVICE_ERROR ? device_fault(ledger, "copy") : result;
}

/* Whether [offset, offset + size) of a range is mapped, in use or not. */
static bool is_mapped(const asim_held_region *region, uint64_t offset, uint64_t size, uint64_t page)
{
    if (!region->pages || region->page != page || size == 0 || offset % page || size % page ||
        offset > region->size || size > region->size - offset)
        return false;
    for (uint64_t i = offset / page; i < (offset + size) / page; i++)
        if (region->pages[i] == PAGE_UNMAPPED)
            return false;
    return true;
}

/* Nothing is obtained, so the observers hear nothing; the calls are counted as maps and unmaps. */
static asim_device_result ledger_alias(void *ctx, uint32_t index, uint64_t offset, uint32_t from,
                                       uint64_t from_offset, uint64_t size, uint64_t page)
{
    asim_ledger *ledger = ctx;
    asim_held_region *region = live_region(ledger, index, true);
    const asim_held_region *source = live_region(ledger, from, true);
    if (!region || region->pages || !source || source == region || region->device != source->device ||
        offset > region->size || size > region->size - offset || !is_mapped(source, from_offset, size, page))
        return misuse(ledger, "alias in", index);
    asim_device_result result =
        ledger->device.ops->alias(ledger->device.ctx, index, offset, from, from_offset, size, page);
    if (result == ASIM_DEVICE_ERROR)
        return device_fault(ledger, "alias");
    if (result != ASIM_DEVICE_OK)
        return result;
    region->aliased += size;
    ledger->maps++;
    return ASIM_DEVICE_OK;
}

static asim_device_result ledger_unalias(void *ctx, uint32_t index, uint64_t page)
{
    asim_ledger *ledger = ctx;
    asim_held_region *region = live_region(ledger, index, true);
    if (!region || !region->aliased)
        return misuse(ledger, "unalias of", index);
    if (ledger->device.ops->unalias(ledger->device.ctx, index, page) != ASIM_DEVICE_OK)
        return device_fault(ledger, "unalias");
    region->aliased = 0;
    ledger->unmaps++;
    return ASIM_DEVICE_OK;
}

asim_device asim_ledger_table(asim_ledger *ledger)
{
    static const asim_device_ops ops = {
        .alloc = ledger_alloc,
        .free = ledger_free,
        .reserve = ledger_reserve,
        .unreserve = ledger_unreserve,
        .map = ledger_map,
        .unmap = ledger_unmap,
        .claim = ledger_claim,
        .memory = ledger_memory,
        .event_record = ledger_event_record,
        .event_query = ledger_event_query,
        .event_wait = ledger_event_wait,
        .stream_wait = ledger_stream_wait,
        .device_wait = ledger_device_wait,
        .copy = ledger_copy,
        .alias = ledger_alias,
        .unalias = ledger_unalias,
        .now_ns = ledger_now_ns,
    };
    return (asim_device){&ops, ledger};
}

/* Pinned bytes of a page or segment that holds active of size bytes. */
static uint64_t pinned_of(uint64_t active, uint64_t size)
{
    return active ? size - active : 0;
}

/* Adds size (or, with sign -1, takes it away) to the pages that [offset, offset + size) covers. */
static bool touch_pages(asim_ledger *ledger, asim_held_region *region, uint64_t offset, uint64_t size,
                        int sign)
{
    uint64_t end = offset + size;
    while (offset < end) {
        uint64_t index = offset / region->page, page_end = (index + 1) * region->page;
        uint32_t part = (uint32_t)((page_end < end ? page_end : end) - offset);
        uint32_t *active = &region->pages[index];
        if (*active == PAGE_UNMAPPED || (sign > 0 ? part > region->page - *active : part > *active))
            return false;
        ledger->pinned -= pinned_of(*active, region->page);
        *active = sign > 0 ? *active + part : *active - part;
        ledger->pinned += pinned_of(*active, region->page);
        offset += part;
    }
    return true;
}

static bool touch(asim_ledger *ledger, uint32_t index, uint64_t address, uint64_t size, int sign)
{
    if (__builtin_expect(index >= ledger->region_count, 0))
        return false;
    asim_held_region *region = &ledger->regions[index];
    uint64_t offset = address - region->address;
    if (__builtin_expect(!region->live || offset > region->size || size > region->size - offset, 0))
        return false;
    if (region->range)
        return region->page && touch_pages(ledger, region, offset, size, sign);
    if (sign > 0 ? size > region->size - region->active : size > region->active)
        return false;
    ledger->pinned -= pinned_of(region->active, region->size);
    region->active = sign > 0 ? region->active + size : region->active - size;
    ledger->pinned += pinned_of(region->active, region->size);
    return true;
}

bool asim_ledger_occupy(asim_ledger *ledger, uint32_t region, uint64_t address, uint64_t size)
{
    return touch(ledger, region, address, size, 1);
}

bool asim_ledger_vacate(asim_ledger *ledger, uint32_t region, uint64_t address, uint64_t size)
{
    return touch(ledger, region, address, size, -1);
}

uint32_t asim_ledger_region_at(const asim_ledger *ledger, uint64_t address)
{
    const asim_interval *interval = asim_intervals_find(&ledger->by_address, address);
    return interval && interval->start <= address ? interval->value : ASIM_NO_INDEX;
}

void asim_ledger_refusal(asim_ledger *ledger, unsigned device, uint64_t rounded, uint64_t device_free)
{
    tell(ledger, &(asim_driver_call){.kind = ASIM_CALL_OOM,
                                     .region = ASIM_NO_INDEX,
                                     .address = device_free,
                                     .size = rounded,
                                     .device = (uint16_t)device,
                                     .lane = ASIM_LANE_ALL});
}
