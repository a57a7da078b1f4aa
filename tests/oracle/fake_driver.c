#include "tests/oracle/fake_calls.h"
#include "tests/oracle/fake_state.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENTRY_POINT_FOUND = 0,
    ENTRY_POINT_MISSING = 1
};

struct page {
    uint64_t size;
    int device;
};

/* ---- driver interface: what expandable segments use ---- */

int cuMemAddressReserve(uint64_t *pointer, size_t size, size_t alignment, uint64_t wanted,
                        unsigned long long flags)
{
    (void)alignment, (void)wanted, (void)flags;
    *pointer = fake_add_region(size)->start;
    fake.counts[fake.current].reservations++;
    return SUCCESS;
}

int cuMemAddressFree(uint64_t pointer, size_t size)
{
    struct region *region = fake_find_region(pointer);
    if (!region || !region->live || region->start != pointer || region->size != size)
        return INVALID_VALUE;
    region->live = false;
    return SUCCESS;
}

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
    if (!fake_take(device, size)) {
        fake.counts[device].failed_pages++;
        return MEMORY_ALLOCATION;
    }
    struct page *page = malloc(sizeof *page);
    if (!page)
        fake_die("no memory for a page");
    *page = (struct page){.size = size, .device = device};
    fake.counts[device].pages++;
    *handle = (uintptr_t)page;
    return SUCCESS;
}

int cuMemRelease(uint64_t handle)
{
    struct page *page = (struct page *)(uintptr_t)handle; /* NOLINT */
    fake.used[page->device] -= fake_round_up(page->size);
    fake.counts[page->device].released_pages++;
    free(page);
    return SUCCESS;
}

int cuMemMap(uint64_t pointer, size_t size, size_t offset, uint64_t handle, unsigned long long flags)
{
    (void)offset, (void)handle, (void)flags;
    const struct region *region = fake_find_region(pointer);
    return region && size <= region->size - (pointer - region->start) ? SUCCESS : INVALID_VALUE;
}

int cuMemUnmap(uint64_t pointer, size_t size)
{
    const struct region *region = fake_find_region(pointer);
    return region && size <= region->size - (pointer - region->start) ? SUCCESS : INVALID_VALUE;
}

int cuMemSetAccess(uint64_t pointer, size_t size, const void *access, size_t count)
{
    (void)pointer, (void)size, (void)access, (void)count;
    return SUCCESS;
}

int cuMemGetAllocationGranularity(size_t *size, const void *properties, int option)
{
    (void)properties, (void)option;
    *size = FAKE_GRANULE;
    return SUCCESS;
}

int cuGetErrorString(int error, const char **text)
{
    *text = cudaGetErrorString(error);
    return SUCCESS;
}

int cuDeviceGet(int *handle, int device)
{
    *handle = device;
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)attribute, (void)device;
    *value = 0;
    return SUCCESS;
}

/* ---- management interface: asked for the text of an out-of-memory message; old releases insist on having it
 * ---- */

int nvmlInit_v2(void)
{
    return SUCCESS;
}

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

int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *processes)
{
    return no_processes(device, count, processes);
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *processes)
{
    return no_processes(device, count, processes);
}

/* ---- what must resolve but lies off every path of the oracle ---- */

#define UNSUPPORTED(name)                                                                                    \
    int name(void);                                                                                          \
    int name(void)                                                                                           \
    {                                                                                                        \
        return fake_fail(NOT_SUPPORTED);                                                                     \
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
    if (!self && dladdr(&fake, &info))
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

int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *status)
{
    (void)flags;
    return entry_point(name, function, status);
}

int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                     unsigned long long flags, int *status)
{
    (void)version, (void)flags;
    return entry_point(name, function, status);
}
