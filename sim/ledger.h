/* sim/ledger.h - the device as a policy sees it: every call passes through here into the books.
 *
 * The ledger stands between a policy and the device table. It counts driver calls, keeps reserved and pinned
 * bytes, compares with the recorded calls, and tells the observers. Pinned bytes are free bytes that no
 * release can return: those of a segment, or of a page of a range, that also holds live bytes.
 */
#ifndef ASIM_SIM_LEDGER_H
#define ASIM_SIM_LEDGER_H

#include "sim/intervals.h"
#include "sim/observer.h"
#include "sim/script.h"

typedef struct asim_held_region {
    uint64_t address, size;
    uint64_t active; /* bytes of live and pending blocks; of a segment */
    uint64_t page;   /* of a range: bytes, 0 until the first map */
    uint32_t *pages; /* of a range: active bytes of each page; PAGE_UNMAPPED where nothing is mapped */
    uint64_t page_count;
    uint64_t aliased; /* of a range: bytes of other ranges' pages that it shows */
    uint16_t device, lane;
    uint8_t range, live;
} asim_held_region;

typedef struct asim_ledger {
    const asim_hostmem *mem;
    asim_device device; /* the table behind */
    asim_books *books;
    asim_script *script;
    /* Every call that succeeded, and every refusal: told once it is in the books. */
    void (*told)(void *ctx, const asim_driver_call *call);
    void *ctx;

    asim_held_region *regions; /* by index */
    size_t region_capacity;
    uint32_t region_count;
    asim_intervals by_address; /* live regions */
    uint64_t pinned;
    uint64_t allocs, frees, maps, unmaps;
    uint64_t call_matches; /* recorded calls that were made, in order */
    bool claiming;         /* the opening state is being adopted: no driver calls */
    asim_err fault;        /* code set: the run must end; misuse, or host memory that ran out */
} asim_ledger;

void asim_ledger_init(asim_ledger *ledger, asim_device device, asim_books *books, asim_script *script,
                      const asim_hostmem *mem);
void asim_ledger_fini(asim_ledger *ledger);

/* The table that a policy gets. */
asim_device asim_ledger_table(asim_ledger *ledger);

/* A block begins or ends to occupy [address, address + size) of a region. False: not inside it, or not
 * mapped. */
bool asim_ledger_occupy(asim_ledger *ledger, uint32_t region, uint64_t address, uint64_t size);
bool asim_ledger_vacate(asim_ledger *ledger, uint32_t region, uint64_t address, uint64_t size);

/* The live region that holds address, or ASIM_NO_INDEX. */
uint32_t asim_ledger_region_at(const asim_ledger *ledger, uint64_t address);

/* A request failed for good: an OOM entry in the sequence of calls. */
void asim_ledger_refusal(asim_ledger *ledger, unsigned device, uint64_t rounded, uint64_t device_free);

#endif
