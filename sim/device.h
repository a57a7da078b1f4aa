/* sim/device.h - the device is a table: the model, a faulty double and a real GPU look the same to a policy.
 *
 * A policy reaches memory through this table alone. Device memory is never touched; addresses are numbers.
 * A region is what one call to alloc or reserve returned; its index is unique in a run and never reused.
 * Sizes and offsets are bytes. device is an index into the trace's device table.
 */
#ifndef ASIM_SIM_DEVICE_H
#define ASIM_SIM_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum asim_device_result {
    ASIM_DEVICE_OK = 0,
    ASIM_DEVICE_OOM = 1,   /* refused for lack of memory; nothing changed */
    ASIM_DEVICE_ERROR = 2, /* misuse or a failing driver: the run ends as broken */
} asim_device_result;

typedef struct asim_region {
    uint64_t address;
    uint64_t size;
    uint32_t index;
} asim_region;

typedef struct asim_device_ops {
    /* Plain memory (cudaMalloc). lane: who asked, for the record. */
    asim_device_result (*alloc)(void *ctx, unsigned device, uint64_t size, unsigned lane,
                                asim_region *ret_region);
    asim_device_result (*free)(void *ctx, uint32_t region);

    /* Address space without memory (cuMemAddressReserve); pages of page bytes are mapped into it. offset
     * and size are multiples of page. A map that is refused gives back what it had obtained. */
    asim_device_result (*reserve)(void *ctx, unsigned device, uint64_t size, unsigned lane,
                                  asim_region *ret_region);
    asim_device_result (*unreserve)(void *ctx, uint32_t region);
    asim_device_result (*map)(void *ctx, uint32_t region, uint64_t offset, uint64_t size, uint64_t page);
    asim_device_result (*unmap)(void *ctx, uint32_t region, uint64_t offset, uint64_t size, uint64_t page);

    /* While a policy adopts an opening state, and only then: take over what the recording holds. A claimed
     * range is reserved address space; its pages are then mapped with map. Neither counts as a driver call.
     */
    asim_device_result (*claim)(void *ctx, unsigned device, uint64_t address, uint64_t size, bool range,
                                asim_region *ret_region);

    /* cudaMemGetInfo. */
    void (*memory)(void *ctx, unsigned device, uint64_t *ret_free, uint64_t *ret_total);

    /* Events order a block's reuse after another stream's work. event_record notes the work issued so far
     * on the lane's stream; query tells whether it is done; wait blocks the host until it is. An event ends
     * with the query that returns true, or with wait. */
    uint64_t (*event_record)(void *ctx, unsigned lane);
    bool (*event_query)(void *ctx, uint64_t event);
    void (*event_wait)(void *ctx, uint64_t event);
    void (*stream_wait)(void *ctx, unsigned lane);
    void (*device_wait)(void *ctx, unsigned device);

    /* Move size bytes inside the device (compaction); the caller may not use either range meanwhile. */
    asim_device_result (*copy)(void *ctx, unsigned device, uint64_t to, uint64_t from, uint64_t size);

    /* A second address for mapped memory (cuMemMap of a handle that is mapped elsewhere too): [offset, offset
     * + size) of the range region shows the pages at from_offset of the range from. A range holds pages or
     * shows those of others, never both. No memory is obtained, and blocks are placed in the range that holds
     * it. unalias ends all that the range shows; until then it can't be unreserved. */
    asim_device_result (*alias)(void *ctx, uint32_t region, uint64_t offset, uint32_t from,
                                uint64_t from_offset, uint64_t size, uint64_t page);
    asim_device_result (*unalias)(void *ctx, uint32_t region, uint64_t page);

    /* The host's clock of this run, in nanoseconds, never backwards: for what an allocator does by time. */
    uint64_t (*now_ns)(void *ctx);
} asim_device_ops;

typedef struct asim_device {
    const asim_device_ops *ops;
    void *ctx;
} asim_device;

#endif
