/* tests/property/property_model.h - slow and obvious bookkeeping beside torchcache, and what it says of its
 * statistics.
 *
 * The model sees what anyone can see: the operations, the placements, the frees that complete, the driver
 * calls. From these it keeps the list of blocks of every region. After each single thing that happened it
 * counts all blocks again from the start; what changed since the last count is the increase or decrease that
 * the specification (R118, R119, R121) adds to current, peak, allocated and freed. As everything is seen in
 * the order in which it happened, peaks follow too (R120). It shares no code with a policy.
 *
 * Exactly derived: all four fields of every array statistic for all, small and large; both oversize
 * statistics, with the max_split_size of the moment; num_ooms, num_device_alloc, num_device_free and
 * max_split_size. num_alloc_retries and num_sync_all_streams leave no trace of their own. They are exact
 * where the device's answers settle whether the last attempt was reached, and otherwise bounded: one more or
 * none, and both or neither. model_doubts counts how often.
 */
#ifndef ASIM_TESTS_PROPERTY_PROPERTY_MODEL_H
#define ASIM_TESTS_PROPERTY_PROPERTY_MODEL_H

#include "sim/engine.h"

enum {
    MODEL_DEVICES = 2,
    MODEL_POOLS = 3, /* 0: none */
    MODEL_IDS = 64,
    MODEL_NESTED = 2,
    MODEL_STATS = 9,
    MODEL_TEXT = 512
};

typedef enum model_block_state {
    MODEL_FREE,
    MODEL_LIVE,
    MODEL_PENDING
} model_block_state;

typedef struct model_block {
    uint64_t address, size, requested;
    model_block_state state;
} model_block;

typedef struct model_region {
    uint32_t index;
    uint16_t device, pool;
    bool large, expandable;
    bool fresh; /* obtained by the operation that runs */
    uint64_t base, stream;
    model_block *blocks; /* by address; between blocks of an expandable region nothing is mapped */
    size_t count, capacity;
} model_region;

typedef struct model_stat {
    int64_t current, peak, allocated, freed;
} model_stat;

typedef struct model_pool {
    bool exists, open;
    int64_t uses;
} model_pool;

typedef struct model_scope { /* an open one (R103) */
    uint16_t pool;
    bool all;
    uint64_t streams[8];
    unsigned stream_count;
} model_scope;

typedef struct model_device {
    model_stat stats[MODEL_STATS][3]; /* all, small, large */
    model_stat oversize_allocations, oversize_segments;
    int64_t ooms, rejections, device_allocs, device_frees;
    int64_t retries_least, retries_most, syncs_least, syncs_most;
    bool retry_syncs; /* the operation's retries and synchronisations come together */
    model_pool pools[MODEL_POOLS];
    model_stat pool_reserved[MODEL_POOLS][3];
    model_scope scopes[MODEL_POOLS]; /* oldest first */
    unsigned scope_count;
    uint16_t active[MODEL_NESTED];
    unsigned active_count;
    bool limited; /* a memory fraction was set */
} model_device;

typedef enum model_id_state {
    MODEL_ID_EMPTY,
    MODEL_ID_LIVE,
    MODEL_ID_PENDING /* its completion is recorded and follows */
} model_id_state;

typedef struct model_id {
    model_id_state state;
    uint16_t device;
} model_id;

typedef struct model {
    unsigned version;   /* of the release: 206 is 2.6 */
    uint64_t max_split; /* m of the moment; UINT64_MAX: none */
    int64_t first_max_split;
    bool expandable, ever_expandable;
    model_region *regions;
    size_t region_count, region_capacity;
    model_device devices[MODEL_DEVICES];
    model_id ids[MODEL_IDS];
    /* The operation that runs. */
    const asim_lane *lanes;
    asim_event event;
    unsigned refusals; /* of the device */
    bool obtained, refused;
    uint64_t doubts;
    bool failed;
    char message[MODEL_TEXT]; /* the first thing that was wrong */
} model;

void model_init(model *m, const asim_lane *lanes, unsigned version, uint64_t max_split, bool expandable);
void model_fini(model *m);
/* Notes the first thing that is wrong. */
void model_fail(model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Around an operation. model_end also settles what the result says of retries. */
void model_begin(model *m, const asim_event *event);
void model_end(model *m, asim_alloc_result result);
/* What happens meanwhile, in order. */
void model_call(model *m, const asim_driver_call *call);
void model_placed(model *m, const asim_event *event, const asim_placement *placement);
void model_freed(model *m, uint64_t address, uint64_t size, bool pending);
void model_completed(model *m, uint64_t address, uint64_t size);

/* Whether an operation means something now and is well defined in PyTorch; others are left out. */
bool model_allows(const model *m, const asim_event *event);

/* R106: the pool that a request on the lane goes to. */
uint16_t model_route(const model *m, const asim_lane *lane);

/* The regions by device and address, each with its blocks: for the comparison with a walk. */
void model_sort(model *m);
model_region *model_region_of(model *m, uint64_t address);

/* Compares one statistic of a device. */
void model_compare(model *m, unsigned device, const char *name, int64_t value);
/* After all of a device's were compared. */
void model_compared(model *m, unsigned device, int64_t retries, int64_t syncs, bool has_syncs);

#endif
