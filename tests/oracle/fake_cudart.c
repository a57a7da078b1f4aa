#include "tests/oracle/fake_calls.h"
#include "tests/oracle/fake_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct event {
    struct stream *stream;
    uint64_t number;
    int device;
};

/* ---- runtime interface: devices ---- */

int cudaGetDeviceCount(int *count)
{
    *count = fake.devices;
    return SUCCESS;
}

int cudaGetDevice(int *device)
{
    *device = fake.current;
    return SUCCESS;
}

int cudaSetDevice(int device)
{
    if (device < 0 || device >= fake.devices)
        return fake_fail(INVALID_DEVICE);
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
        return fake_fail(INVALID_DEVICE);
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

int cudaGetDeviceProperties(void *properties, int device)
{
    return device_properties(properties, device);
}

int cudaGetDeviceProperties_v2(void *properties, int device)
{
    return device_properties(properties, device);
}

int cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)attribute, (void)device;
    *value = 0;
    return SUCCESS;
}

int cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    (void)device, (void)peer;
    *can = 0;
    return SUCCESS;
}

int cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return SUCCESS;
}

int cudaRuntimeGetVersion(int *version)
{
    return cudaDriverGetVersion(version);
}

int cudaGetLastError(void)
{
    int error = fake.last_error;
    fake.last_error = SUCCESS;
    return error;
}

int cudaPeekAtLastError(void)
{
    return fake.last_error;
}

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

const char *cudaGetErrorName(int error)
{
    return cudaGetErrorString(error);
}

/* ---- runtime interface: memory ---- */

int cudaMalloc(void **pointer, size_t size)
{
    struct fake_counts *counts = &fake.counts[fake.current];
    if (!fake_take(fake.current, size)) {
        counts->failed_allocations++;
        return fake_fail(MEMORY_ALLOCATION);
    }
    struct region *region = fake_add_region(size);
    counts->allocations++;
    *pointer = (void *)(uintptr_t)region->start; /* NOLINT: an address in the simulated space */
    if (fake.hook)
        fake.hook(fake.hook_user, false, (uint32_t)(region - fake.regions), size);
    return SUCCESS;
}

int cudaFree(void *pointer)
{
    if (!pointer)
        return SUCCESS;
    struct region *region = fake_find_region((uintptr_t)pointer);
    if (!region || !region->live || region->start != (uintptr_t)pointer)
        return fake_fail(INVALID_VALUE);
    region->live = false;
    fake.used[region->device] -= fake_round_up(region->size);
    fake.counts[region->device].frees++;
    if (fake.hook)
        fake.hook(fake.hook_user, true, (uint32_t)(region - fake.regions), region->size);
    return SUCCESS;
}

int cudaMemGetInfo(size_t *free, size_t *total)
{
    *free = fake.capacity[fake.current] - fake.used[fake.current];
    *total = fake.capacity[fake.current];
    return SUCCESS;
}

/* ---- runtime interface: streams and events ---- */

int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = 0;
    return SUCCESS;
}

int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
    (void)flags, (void)priority;
    fake.next_stream += 4096;
    *stream = (void *)(uintptr_t)fake.next_stream; /* NOLINT */
    return SUCCESS;
}

int cudaStreamGetPriority(void *stream, int *priority)
{
    (void)stream;
    *priority = 0;
    return SUCCESS;
}

int cudaStreamQuery(void *handle)
{
    const struct stream *stream = fake_find_stream(fake.current, (uintptr_t)handle);
    return stream->completed == stream->issued ? SUCCESS : NOT_READY;
}

int cudaStreamSynchronize(void *handle)
{
    fake_finish_stream(fake.current, (uintptr_t)handle);
    return SUCCESS;
}

int cudaDeviceSynchronize(void)
{
    for (int i = 0; i < fake.stream_count; i++)
        if (fake.streams[i].device == fake.current)
            fake.streams[i].completed = fake.streams[i].issued;
    return SUCCESS;
}

static int capture_info(void *handle, int *status, uint64_t *id)
{
    bool captured = fake_find_stream(fake.current, (uintptr_t)handle)->captured;
    *status = captured ? 1 : 0;
    if (id)
        *id = captured ? 1 : 0;
    return SUCCESS;
}

int cudaStreamIsCapturing(void *handle, int *status)
{
    return capture_info(handle, status, NULL);
}

/* The longer forms of later versions have further results, which are of no use without a capture of the
 * device. */
int cudaStreamGetCaptureInfo(void *handle, int *status, uint64_t *id)
{
    return capture_info(handle, status, id);
}
int cudaStreamGetCaptureInfo_v2(void *handle, int *status, uint64_t *id)
{
    return capture_info(handle, status, id);
}
int cudaStreamGetCaptureInfo_v3(void *handle, int *status, uint64_t *id)
{
    return capture_info(handle, status, id);
}

int cudaThreadExchangeStreamCaptureMode(int *mode)
{
    (void)mode;
    return SUCCESS;
}

int cudaEventCreateWithFlags(void **event, unsigned flags)
{
    (void)flags;
    struct event *created = calloc(1, sizeof *created);
    if (!created)
        fake_die("no memory for an event");
    created->device = fake.current;
    *event = created;
    return SUCCESS;
}

int cudaEventDestroy(void *event)
{
    free(event);
    return SUCCESS;
}

int cudaEventRecord(void *handle, void *stream)
{
    struct event *event = handle;
    event->device = fake.current;
    event->stream = fake_find_stream(fake.current, (uintptr_t)stream);
    event->number = ++event->stream->issued;
    fake.counts[fake.current].events++;
    return SUCCESS;
}

int cudaEventQuery(void *handle)
{
    const struct event *event = handle;
    fake.counts[event->device].queries++;
    if (event->stream && event->number > event->stream->completed)
        return fake_fail(NOT_READY);
    return SUCCESS;
}

int cudaEventSynchronize(void *handle)
{
    const struct event *event = handle;
    if (event->stream && event->number > event->stream->completed)
        event->stream->completed = event->number;
    return SUCCESS;
}

int cudaEventElapsedTime(float *milliseconds, void *start, void *end)
{
    (void)start, (void)end;
    *milliseconds = 0;
    return SUCCESS;
}
