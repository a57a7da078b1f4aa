#include "tests/oracle/fake_cudart.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    STREAMS_MAX = 256,
    ENTRY_POINT_FOUND = 0,
    ENTRY_POINT_MISSING = 1
};

static const uint64_t granule = 2097152;
static const uint64_t first_address = 1ull << 40;

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

struct event {
    struct stream *stream;
    uint64_t number;
    int device;
};

struct page {
    uint64_t size;
    int device;
};

static struct {
    int devices, current;
    uint64_t capacity[FAKE_DEVICES_MAX], used[FAKE_DEVICES_MAX];
    struct fake_counts counts[FAKE_DEVICES_MAX];
    struct region *regions;
    uint32_t region_count, region_room;
    uint64_t next_address;
    struct stream streams[STREAMS_MAX];
    int stream_count;
    uint64_t next_stream;
    int last_error;
    fake_segment_fn *hook;
    void *hook_user;
} fake = {.devices = 1, .capacity = {1ull << 34}, .next_address = 1ull << 40, .next_stream = 1ull << 24};

static void die(const char *what)
{
    fprintf(stderr, "simulated device: %s\n", what);
    exit(3);
}

static uint64_t round_up(uint64_t size)
{
    return (size + granule - 1) / granule * granule;
}

static int fail(int error)
{
    fake.last_error = error;
    return error;
}

void fake_configure(int devices, const uint64_t *capacity)
{
    if (devices < 1 || devices > FAKE_DEVICES_MAX)
        die("the number of devices must be 1 to 8");
    fake.devices = devices;
    for (int i = 0; i < devices; i++)
        fake.capacity[i] = capacity[i];
}

void fake_forget(void)
{
    memset(fake.counts, 0, sizeof fake.counts);
    fake.region_count = 0;
}

const struct fake_counts *fake_counts(int device)
{
    return &fake.counts[device];
}

void fake_set_segment_hook(fake_segment_fn *hook, void *user)
{
    fake.hook = hook;
    fake.hook_user = user;
}

static struct stream *find_stream(int device, uint64_t handle)
{
    for (int i = 0; i < fake.stream_count; i++)
        if (fake.streams[i].handle == handle && fake.streams[i].device == device)
            return &fake.streams[i];
    if (fake.stream_count == STREAMS_MAX)
        die("more than 256 streams");
    struct stream *stream = &fake.streams[fake.stream_count++];
    *stream = (struct stream){.handle = handle, .device = device};
    return stream;
}

void fake_finish_all(void)
{
    for (int i = 0; i < fake.stream_count; i++)
        fake.streams[i].completed = fake.streams[i].issued;
}

void fake_finish_stream(int device, uint64_t handle)
{
    struct stream *stream = find_stream(device, handle);
    stream->completed = stream->issued;
}

void fake_capture_stream(int device, uint64_t handle, bool captured)
{
    find_stream(device, handle)->captured = captured;
}

static struct region *find_region(uint64_t address)
{
    uint32_t low = 0, high = fake.region_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (fake.regions[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    struct region *region = &fake.regions[low - 1];
    return address - region->start < region->size ? region : NULL;
}

bool fake_locate(uint64_t address, uint32_t *region, uint64_t *offset)
{
    const struct region *found = find_region(address);
    if (!found)
        return false;
    *region = (uint32_t)(found - fake.regions);
    *offset = address - found->start;
    return true;
}

static struct region *add_region(uint64_t size)
{
    if (fake.region_count == fake.region_room) {
        fake.region_room = fake.region_room ? 2 * fake.region_room : 1024;
        fake.regions = realloc(fake.regions, fake.region_room * sizeof *fake.regions);
        if (!fake.regions)
            die("no memory for the table of regions");
    }
    if (fake.next_address < first_address || size > (1ull << 62) - fake.next_address)
        die("the address space is used up");
    struct region *region = &fake.regions[fake.region_count++];
    *region = (struct region){.start = fake.next_address, .size = size, .device = fake.current, .live = true};
    fake.next_address += round_up(size) + granule; /* a gap, so that regions never touch */
    return region;
}

/* Takes memory of the current device; false when it has too little. */
static bool take(int device, uint64_t size)
{
    uint64_t free = fake.capacity[device] - fake.used[device];
    if (size > free || round_up(size) > free)
        return false;
    fake.used[device] += round_up(size);
    return true;
}

/* ---- runtime interface: devices ---- */

int cudaGetDeviceCount(int *count);
int cudaGetDeviceCount(int *count)
{
    *count = fake.devices;
    return SUCCESS;
}

int cudaGetDevice(int *device);
int cudaGetDevice(int *device)
{
    *device = fake.current;
    return SUCCESS;
}

int cudaSetDevice(int device);
int cudaSetDevice(int device)
{
    if (device < 0 || device >= fake.devices)
        return fail(INVALID_DEVICE);
    fake.current = device;
    return SUCCESS;
}

/*
 * The caller's structure differs in length between major versions, but not in the fields up to `minor`: name
 * 256 bytes, uuid 16, luid 8, node mask 4, then from 288 the total memory and on. Only fields inside that
 * common part are written.
 */
static int device_properties(char *properties, int device)
{
    enum {
        TOTAL_MEMORY = 288,
        WARP_SIZE = 308,
        MAX_THREADS = 320,
        MAJOR = 360,
        MINOR = 364,
        COMMON = 368
    };
    if (device < 0 || device >= fake.devices)
        return fail(INVALID_DEVICE);
    memset(properties, 0, COMMON);
    snprintf(properties, 256, "simulated device %d", device);
    memcpy(properties + TOTAL_MEMORY, &fake.capacity[device], sizeof(uint64_t));
    const int warp = 32, threads = 1024, major = 8, minor = 0;
    memcpy(properties + WARP_SIZE, &warp, sizeof warp);
    memcpy(properties + MAX_THREADS, &threads, sizeof threads);
    memcpy(properties + MAJOR, &major, sizeof major);
    memcpy(properties + MINOR, &minor, sizeof minor);
    return SUCCESS;
}

int cudaGetDeviceProperties(void *properties, int device);
int cudaGetDeviceProperties(void *properties, int device)
{
    return device_properties(properties, device);
}

int cudaGetDeviceProperties_v2(void *properties, int device);
int cudaGetDeviceProperties_v2(void *properties, int device)
{
    return device_properties(properties, device);
}

int cudaDeviceGetAttribute(int *value, int attribute, int device);
int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)attribute, (void)device;
    *value = 0;
    return SUCCESS;
}

int cudaDeviceCanAccessPeer(int *can, int device, int peer);
int cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    (void)device, (void)peer;
    *can = 0;
    return SUCCESS;
}

int cudaDriverGetVersion(int *version);
int cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return SUCCESS;
}

int cudaRuntimeGetVersion(int *version);
int cudaRuntimeGetVersion(int *version)
{
    return cudaDriverGetVersion(version);
}

int cudaGetLastError(void);
int cudaGetLastError(void)
{
    int error = fake.last_error;
    fake.last_error = SUCCESS;
    return error;
}

int cudaPeekAtLastError(void);
int cudaPeekAtLastError(void)
{
    return fake.last_error;
}

const char *cudaGetErrorString(int error);
const char *cudaGetErrorString(int error)
{
    switch (error) {
    case SUCCESS:
        return "no error";
    case MEMORY_ALLOCATION:
        return "out of memory";
    case NOT_READY:
        return "device not ready";
    default:
        return "error of the simulated device";
    }
}

const char *cudaGetErrorName(int error);
const char *cudaGetErrorName(int error)
{
    return cudaGetErrorString(error);
}

/* ---- runtime interface: memory ---- */

int cudaMalloc(void **pointer, size_t size);
int cudaMalloc(void **pointer, size_t size)
{
    struct fake_counts *counts = &fake.counts[fake.current];
    if (!take(fake.current, size)) {
        counts->failed_allocations++;
        return fail(MEMORY_ALLOCATION);
    }
    struct region *region = add_region(size);
    counts->allocations++;
    *pointer = (void *)(uintptr_t)region->start; /* NOLINT: an address in the simulated space */
    if (fake.hook)
        fake.hook(fake.hook_user, false, (uint32_t)(region - fake.regions), size);
    return SUCCESS;
}

int cudaFree(void *pointer);
int cudaFree(void *pointer)
{
    if (!pointer)
        return SUCCESS;
    struct region *region = find_region((uintptr_t)pointer);
    if (!region || !region->live || region->start != (uintptr_t)pointer)
        return fail(INVALID_VALUE);
    region->live = false;
    fake.used[region->device] -= round_up(region->size);
    fake.counts[region->device].frees++;
    if (fake.hook)
        fake.hook(fake.hook_user, true, (uint32_t)(region - fake.regions), region->size);
    return SUCCESS;
}

int cudaMemGetInfo(size_t *free, size_t *total);
int cudaMemGetInfo(size_t *free, size_t *total)
{
    *free = fake.capacity[fake.current] - fake.used[fake.current];
    *total = fake.capacity[fake.current];
    return SUCCESS;
}

/* ---- runtime interface: streams and events ---- */

int cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = 0;
    return SUCCESS;
}

int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority);
int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    (void)flags, (void)priority;
    fake.next_stream += 4096;
    *stream = (void *)(uintptr_t)fake.next_stream; /* NOLINT */
    return SUCCESS;
}

int cudaStreamGetPriority(void *stream, int *priority);
int cudaStreamGetPriority(void *stream, int *priority)
{
    (void)stream;
    *priority = 0;
    return SUCCESS;
}

int cudaStreamQuery(void *handle);
int cudaStreamQuery(void *handle)
{
    const struct stream *stream = find_stream(fake.current, (uintptr_t)handle);
    return stream->completed == stream->issued ? SUCCESS : NOT_READY;
}

int cudaStreamSynchronize(void *handle);
int cudaStreamSynchronize(void *handle)
{
    fake_finish_stream(fake.current, (uintptr_t)handle);
    return SUCCESS;
}

int cudaDeviceSynchronize(void);
int cudaDeviceSynchronize(void)
{
    for (int i = 0; i < fake.stream_count; i++)
        if (fake.streams[i].device == fake.current)
            fake.streams[i].completed = fake.streams[i].issued;
    return SUCCESS;
}

static int capture_info(void *handle, int *status, uint64_t *id)
{
    bool captured = find_stream(fake.current, (uintptr_t)handle)->captured;
    *status = captured ? 1 : 0;
    if (id)
        *id = captured ? 1 : 0;
    return SUCCESS;
}

int cudaStreamIsCapturing(void *handle, int *status);
int cudaStreamIsCapturing(void *handle, int *status)
{
    return capture_info(handle, status, NULL);
}

/* The longer forms of later versions have further results, which are of no use without a capture of the
 * device. */
int cudaStreamGetCaptureInfo(void *handle, int *status, uint64_t *id);
int cudaStreamGetCaptureInfo(void *handle, int *status, uint64_t *id)
{
    return capture_info(handle, status, id);
}
int cudaStreamGetCaptureInfo_v2(void *handle, int *status, uint64_t *id);
int cudaStreamGetCaptureInfo_v2(void *handle, int *status, uint64_t *id)
{
    return capture_info(handle, status, id);
}
int cudaStreamGetCaptureInfo_v3(void *handle, int *status, uint64_t *id);
int cudaStreamGetCaptureInfo_v3(void *handle, int *status, uint64_t *id)
{
    return capture_info(handle, status, id);
}

int cudaThreadExchangeStreamCaptureMode(int *mode);
int cudaThreadExchangeStreamCaptureMode(int *mode)
{
    (void)mode;
    return SUCCESS;
}

int cudaEventCreateWithFlags(void **event, unsigned flags);
int cudaEventCreateWithFlags(void **event, unsigned flags)
{
    (void)flags;
    struct event *created = calloc(1, sizeof *created);
    if (!created)
        die("no memory for an event");
    created->device = fake.current;
    *event = created;
    return SUCCESS;
}

int cudaEventDestroy(void *event);
int cudaEventDestroy(void *event)
{
    free(event);
    return SUCCESS;
}

int cudaEventRecord(void *handle, void *stream);
int cudaEventRecord(void *handle, void *stream)
{
    struct event *event = handle;
    event->device = fake.current;
    event->stream = find_stream(fake.current, (uintptr_t)stream);
    event->number = ++event->stream->issued;
    fake.counts[fake.current].events++;
    return SUCCESS;
}

int cudaEventQuery(void *handle);
int cudaEventQuery(void *handle)
{
    const struct event *event = handle;
    fake.counts[event->device].queries++;
    if (event->stream && event->number > event->stream->completed)
        return fail(NOT_READY);
    return SUCCESS;
}

int cudaEventSynchronize(void *handle);
int cudaEventSynchronize(void *handle)
{
    const struct event *event = handle;
    if (event->stream && event->number > event->stream->completed)
        event->stream->completed = event->number;
    return SUCCESS;
}

int cudaEventElapsedTime(float *milliseconds, void *start, void *end);
int cudaEventElapsedTime(float *milliseconds, void *start, void *end)
{
    (void)start, (void)end;
    *milliseconds = 0;
    return SUCCESS;
}

/* ---- driver interface: what expandable segments use ---- */

int cuMemAddressReserve(uint64_t *pointer, size_t size, size_t alignment, uint64_t wanted,
                        unsigned long long flags);
int cuMemAddressReserve(uint64_t *pointer, size_t size, size_t alignment, uint64_t wanted,
                        unsigned long long flags)
{
    (void)alignment, (void)wanted, (void)flags;
    *pointer = add_region(size)->start;
    fake.counts[fake.current].reservations++;
    return SUCCESS;
}

int cuMemAddressFree(uint64_t pointer, size_t size);
int cuMemAddressFree(uint64_t pointer, size_t size)
{
    struct region *region = find_region(pointer);
    if (!region || !region->live || region->start != pointer || region->size != size)
        return INVALID_VALUE;
    region->live = false;
    return SUCCESS;
}

int cuMemCreate(uint64_t *handle, size_t size, const void *properties, unsigned long long flags);
int cuMemCreate(uint64_t *handle, size_t size, const void *properties, unsigned long long flags)
{
    enum {
        LOCATION_ID = 12
    }; /* after the type, the kinds of handle and the type of location */
    (void)flags;
    int device;
    memcpy(&device, (const char *)properties + LOCATION_ID, sizeof device);
    if (device < 0 || device >= fake.devices)
        return INVALID_DEVICE;
    if (!take(device, size)) {
        fake.counts[device].failed_pages++;
        return MEMORY_ALLOCATION;
    }
    struct page *page = malloc(sizeof *page);
    if (!page)
        die("no memory for a page");
    *page = (struct page){.size = size, .device = device};
    fake.counts[device].pages++;
    *handle = (uintptr_t)page;
    return SUCCESS;
}

int cuMemRelease(uint64_t handle);
int cuMemRelease(uint64_t handle)
{
    struct page *page = (struct page *)(uintptr_t)handle; /* NOLINT */
    fake.used[page->device] -= round_up(page->size);
    fake.counts[page->device].released_pages++;
    free(page);
    return SUCCESS;
}

int cuMemMap(uint64_t pointer, size_t size, size_t offset, uint64_t handle, unsigned long long flags);
int cuMemMap(uint64_t pointer, size_t size, size_t offset, uint64_t handle, unsigned long long flags)
{
    (void)offset, (void)handle, (void)flags;
    const struct region *region = find_region(pointer);
    return region && size <= region->size - (pointer - region->start) ? SUCCESS : INVALID_VALUE;
}

int cuMemUnmap(uint64_t pointer, size_t size);
int cuMemUnmap(uint64_t pointer, size_t size)
{
    const struct region *region = find_region(pointer);
    return region && size <= region->size - (pointer - region->start) ? SUCCESS : INVALID_VALUE;
}

int cuMemSetAccess(uint64_t pointer, size_t size, const void *access, size_t count);
int cuMemSetAccess(uint64_t pointer, size_t size, const void *access, size_t count)
{
    (void)pointer, (void)size, (void)access, (void)count;
    return SUCCESS;
}

int cuMemGetAllocationGranularity(size_t *size, const void *properties, int option);
int cuMemGetAllocationGranularity(size_t *size, const void *properties, int option)
{
    (void)properties, (void)option;
    *size = granule;
    return SUCCESS;
}

int cuGetErrorString(int error, const char **text);
int cuGetErrorString(int error, const char **text)
{
    *text = cudaGetErrorString(error);
    return SUCCESS;
}

int cuDeviceGet(int *handle, int device);
int cuDeviceGet(int *handle, int device)
{
    *handle = device;
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)attribute, (void)device;
    *value = 0;
    return SUCCESS;
}

/* ---- management interface: asked for the text of an out-of-memory message; old releases insist on having it
 * ---- */

int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
    return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
    (void)bus;
    *device = &fake;
    return SUCCESS;
}

static int no_processes(void *device, unsigned *count, void *processes)
{
    (void)device, (void)processes;
    *count = 0;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *processes);
int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *processes)
{
    return no_processes(device, count, processes);
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *processes);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *processes)
{
    return no_processes(device, count, processes);
}

/* ---- what must resolve but lies off every path of the oracle ---- */

#define UNSUPPORTED(name)                                                                                    \
    int name(void);                                                                                          \
    int name(void)                                                                                           \
    {                                                                                                        \
        return fail(NOT_SUPPORTED);                                                                          \
    }

#define UNSUPPORTED_RUNTIME(_)                                                                               \
    _(cudaDeviceEnablePeerAccess)                                                                            \
    _(cudaDeviceGetDefaultMemPool)                                                                           \
    _(cudaDeviceGetGraphMemAttribute)                                                                        \
    _(cudaDeviceSetGraphMemAttribute)                                                                        \
    _(cudaFreeAsync)                                                                                         \
    _(cudaGraphAddEmptyNode)                                                                                 \
    _(cudaGraphNodeGetDependencies)                                                                          \
    _(cudaGraphNodeGetType)                                                                                  \
    _(cudaIpcCloseMemHandle)                                                                                 \
    _(cudaIpcGetMemHandle)                                                                                   \
    _(cudaIpcOpenMemHandle)                                                                                  \
    _(cudaMallocAsync)                                                                                       \
    _(cudaMallocManaged)                                                                                     \
    _(cudaMemAdvise)                                                                                         \
    _(cudaMemPoolGetAttribute)                                                                               \
    _(cudaMemPoolSetAccess)                                                                                  \
    _(cudaMemPoolSetAttribute)                                                                               \
    _(cudaMemPoolTrimTo)                                                                                     \
    _(cudaMemcpy)                                                                                            \
    _(cudaMemcpyAsync)                                                                                       \
    _(cudaMemcpyPeerAsync)                                                                                   \
    _(cudaStreamUpdateCaptureDependencies)                                                                   \
    _(cudaStreamWaitEvent)

#define UNSUPPORTED_MANAGEMENT(_)                                                                            \
    _(nvmlDeviceGetNvLinkRemoteDeviceType)                                                                   \
    _(nvmlDeviceGetNvLinkRemotePciInfo_v2)                                                                   \
    _(nvmlSystemGetCudaDriverVersion_v2)

#define UNSUPPORTED_DRIVER(_)                                                                                \
    _(cuMemExportToShareableHandle)                                                                          \
    _(cuMemGetAddressRange)                                                                                  \
    _(cuMemGetAllocationPropertiesFromHandle)                                                                \
    _(cuMemImportFromShareableHandle)                                                                        \
    _(cuMemRetainAllocationHandle)                                                                           \
    _(cuMemsetD32Async)                                                                                      \
    _(cuMulticastAddDevice)                                                                                  \
    _(cuMulticastBindMem)                                                                                    \
    _(cuMulticastCreate)                                                                                     \
    _(cuMulticastUnbind)                                                                                     \
    _(cuStreamWriteValue32)

UNSUPPORTED_RUNTIME(UNSUPPORTED)
UNSUPPORTED_DRIVER(UNSUPPORTED)
UNSUPPORTED_MANAGEMENT(UNSUPPORTED)

/* ---- finding functions ---- */

/* Looks in this library alone, so that an NVIDIA library that happens to be loaded is never asked. */
static void *own_function(const char *name)
{
    static void *self;
    Dl_info info;
    if (!self && dladdr(&granule, &info))
        self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    void *found = self ? dlsym(self, name) : NULL;
    return found && dladdr(found, &info) && strstr(info.dli_fname, "libcudart") ? found : NULL;
}

void *fake_runtime_function(const char *name)
{
    return strncmp(name, "cuda", 4) == 0 ? own_function(name) : NULL;
}

static int entry_point(const char *name, void **function, int *status)
{
    *function = strncmp(name, "cuda", 4) == 0 ? NULL : own_function(name);
    if (status)
        *status = *function ? ENTRY_POINT_FOUND : ENTRY_POINT_MISSING;
    return SUCCESS;
}

int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *status);
int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *status)
{
    (void)flags;
    return entry_point(name, function, status);
}

int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                     unsigned long long flags, int *status);
int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                     unsigned long long flags, int *status)
{
    (void)version, (void)flags;
    return entry_point(name, function, status);
}
