/* traces/slots.h - dense slots for foreign keys: what an importer uses to turn addresses into ids.
 *
 * open gives a key the slot that was released last, or a new one; find looks it up; close ends the key and
 * releases its slot. Where the key may come back before the slot is reusable (a block freed with
 * ASIM_FREE_PENDING whose address is given out again), detach ends the key alone, and release the slot later.
 */
#ifndef ASIM_TRACES_SLOTS_H
#define ASIM_TRACES_SLOTS_H

#include "sim/idmap.h"

typedef struct asim_slots {
    asim_idmap live; /* key -> slot */
    uint32_t *released;
    size_t released_count, released_capacity;
    uint32_t slot_count; /* slots ever given out */
} asim_slots;

void asim_slots_init(asim_slots *slots, const asim_hostmem *mem);
void asim_slots_fini(asim_slots *slots);

/* Errors: ASIM_E_INPUT if the key has a slot already (ask find first), ASIM_E_SYSTEM. */
asim_code asim_slots_open(asim_slots *slots, uint64_t key, uint32_t *ret_slot, asim_err *err);

/* False, and *ret_slot untouched, if the key has none. */
bool asim_slots_find(const asim_slots *slots, uint64_t key, uint32_t *ret_slot);
bool asim_slots_close(asim_slots *slots, uint64_t key, uint32_t *ret_slot);
bool asim_slots_detach(asim_slots *slots, uint64_t key, uint32_t *ret_slot);

/* A detached slot, once. */
void asim_slots_release(asim_slots *slots, uint32_t slot);

#endif
