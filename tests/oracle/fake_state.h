/* The state of the simulated device, shared by the parts that answer for the runtime and for the driver. */
#ifndef ASIM_TESTS_ORACLE_FAKE_STATE_H
#define ASIM_TESTS_ORACLE_FAKE_STATE_H

#include "tests/oracle/fake_cudart.h"

#include <stddef.h>

/* Results of the runtime and of the driver interface; both number success 0 and exhausted memory 2. */
enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    MEMORY_ALLOCATION = 2,
    INVALID_DEVICE = 101,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    NOT_SUPPORTED = 801,
};

enum {
    FAKE_STREAMS_MAX = 256,
    FAKE_GRANULE = 2097152,
};

struct region {
    uint64_t start, size;
    int device;
    bool live;
};

/* Events are numbered by stream: those up to `completed` are done. */
struct stream {
    uint64_t handle, issued, completed;
    int device;
    bool captured;
};

struct fake_state {
    int devices, current;
    uint64_t capacity[FAKE_DEVICES_MAX], used[FAKE_DEVICES_MAX];
    struct fake_counts counts[FAKE_DEVICES_MAX];
    struct region *regions;
    uint32_t region_count, region_room;
    uint64_t next_address;
    struct stream streams[FAKE_STREAMS_MAX];
    int stream_count;
    uint64_t next_stream;
    int last_error;
    fake_segment_fn *hook;
    void *hook_user;
};

extern struct fake_state fake;

uint64_t fake_round_up(uint64_t size);

/* Notes an error for cudaGetLastError and returns it. */
int fake_fail(int error);

/* The region that holds an address, or NULL. */
struct region *fake_find_region(uint64_t address);

/* The stream of that handle on a device; it is made when first asked for. */
struct stream *fake_find_stream(int device, uint64_t handle);

/* A new region for the current device; takes no memory. */
struct region *fake_add_region(uint64_t size);

/* Takes memory of a device; false when it has too little. */
bool fake_take(int device, uint64_t size);

/* Ends the process: the oracle asked for more than the model holds. */
_Noreturn void fake_die(const char *what);

#endif
