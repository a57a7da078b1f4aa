#include "traces/slots.h"

#include <inttypes.h>

void asim_slots_init(asim_slots *slots, const asim_hostmem *mem)
{
    *slots = (asim_slots){.slot_count = 0};
    asim_idmap_init(&slots->live, mem);
}

void asim_slots_fini(asim_slots *slots)
{
    const asim_hostmem *mem = slots->live.mem;
    asim_mem_free(mem, slots->released, slots->released_capacity, sizeof *slots->released);
    asim_idmap_fini(&slots->live);
    asim_slots_init(slots, mem);
}

/* There is room in released for every slot ever given out, so that a release never fails. */
asim_code asim_slots_open(asim_slots *slots, uint64_t key, uint32_t *ret_slot, asim_err *err)
{
    uint32_t slot;
    if (asim_idmap_get(&slots->live, key, &slot))
        return asim_fail(err, ASIM_E_INPUT, "0x%" PRIx64 " is allocated twice", key);
    bool fresh = slots->released_count == 0;
    if (fresh && slots->slot_count == UINT32_MAX)
        return asim_fail(err, ASIM_E_INPUT, "more than 2^32 live blocks");
    asim_code code = ASIM_OK;
    if (fresh)
        code = asim_mem_grow(slots->live.mem, (void **)&slots->released, &slots->released_capacity,
                             (size_t)slots->slot_count + 1, sizeof *slots->released, err);
    if (code)
        return code;
    slot = fresh ? slots->slot_count : slots->released[slots->released_count - 1];
    code = asim_idmap_put(&slots->live, key, slot, err);
    if (code)
        return code;
    if (fresh)
        slots->slot_count++;
    else
        slots->released_count--;
    *ret_slot = slot;
    return ASIM_OK;
}

bool asim_slots_find(const asim_slots *slots, uint64_t key, uint32_t *ret_slot)
{
    return asim_idmap_get(&slots->live, key, ret_slot);
}

bool asim_slots_detach(asim_slots *slots, uint64_t key, uint32_t *ret_slot)
{
    return asim_idmap_take(&slots->live, key, ret_slot);
}

void asim_slots_release(asim_slots *slots, uint32_t slot)
{
    slots->released[slots->released_count++] = slot;
}

bool asim_slots_close(asim_slots *slots, uint64_t key, uint32_t *ret_slot)
{
    uint32_t slot;
    if (!asim_idmap_take(&slots->live, key, &slot))
        return false;
    asim_slots_release(slots, slot);
    if (ret_slot)
        *ret_slot = slot;
    return true;
}
