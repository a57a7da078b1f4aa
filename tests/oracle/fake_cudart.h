/*
 * The simulated device behind the oracle, from the side of its driver program.
 *
 * The fake_*.c files stand in for NVIDIA's runtime and driver libraries: they answer the calls that PyTorch's
 * allocator library makes (cudaMalloc, events, mapping of pages and so on) from a model of memory that needs
 * no hardware. The model is the one of the golden sets: granules of 2 MiB, no fragmentation, addresses that
 * only grow and never touch, events that stay pending until told otherwise.
 *
 * Regions (successful device allocations and reservations of address space) are numbered from 0 over all
 * devices in the order in which they are handed out. Numbers and addresses are never used twice.
 *
 * Not thread-safe. The functions below configure and watch the model; none of them may be called from inside
 * a call of the allocator, except from the hook.
 */
#ifndef ASIM_TESTS_ORACLE_FAKE_CUDART_H
#define ASIM_TESTS_ORACLE_FAKE_CUDART_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    FAKE_DEVICES_MAX = 8
};

/* What a device was asked; the nine numbers of a `D` line, in its order. */
struct fake_counts {
    uint64_t allocations, failed_allocations, frees;
    uint64_t pages, failed_pages, released_pages;
    uint64_t reservations, events, queries;
};

/* A region was obtained (size > 0 allocated or freed by cudaMalloc or cudaFree); reservations are not
 * reported. */
typedef void fake_segment_fn(void *user, bool freed, uint32_t region, uint64_t size);

/* Sets the number of devices and their memory in bytes; before the allocator library is first used. */
void fake_configure(int devices, const uint64_t *capacity);

/* Sets all counts to 0 and forgets all regions, whose numbers start anew; none may be in use. */
void fake_forget(void);

/* All work issued so far completes: on every stream of every device, or on one stream of one device. */
void fake_finish_all(void);
void fake_finish_stream(int device, uint64_t stream);

/* While captured, a stream answers that it takes part in a graph capture. */
void fake_capture_stream(int device, uint64_t stream, bool captured);

/* The region that holds `address` and the offset in it; false when no region does. */
bool fake_locate(uint64_t address, uint32_t *region, uint64_t *offset);

const struct fake_counts *fake_counts(int device);
void fake_set_segment_hook(fake_segment_fn *hook, void *user);

/* The address of the function of the runtime interface called `name`, or NULL; for libraries with their own
 * copy. */
void *fake_runtime_function(const char *name);

#ifdef __cplusplus
}
#endif
#endif
