/* The functions of NVIDIA's runtime, driver and management interfaces that the simulated device answers.
 * Handles are void pointers here. */
#ifndef ASIM_TESTS_ORACLE_FAKE_CALLS_H
#define ASIM_TESTS_ORACLE_FAKE_CALLS_H

#include <stddef.h>
#include <stdint.h>

int cudaGetDeviceCount(int *count);
int cudaGetDevice(int *device);
int cudaSetDevice(int device);
int cudaGetDeviceProperties(void *properties, int device);
int cudaGetDeviceProperties_v2(void *properties, int device);
int cudaDeviceGetAttribute(int *value, int attribute, int device);
int cudaDeviceCanAccessPeer(int *can, int device, int peer);
int cudaDriverGetVersion(int *version);
int cudaRuntimeGetVersion(int *version);
int cudaGetLastError(void);
int cudaPeekAtLastError(void);
const char *cudaGetErrorString(int error);
const char *cudaGetErrorName(int error);
int cudaMalloc(void **pointer, size_t size);
int cudaFree(void *pointer);
int cudaMemGetInfo(size_t *free, size_t *total);
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
int cudaStreamCreateWithPriority(void **stream, unsigned flags, int priority);
int cudaStreamGetPriority(void *stream, int *priority);
int cudaStreamQuery(void *handle);
int cudaStreamSynchronize(void *handle);
int cudaDeviceSynchronize(void);
int cudaStreamIsCapturing(void *handle, int *status);
int cudaStreamGetCaptureInfo(void *handle, int *status, uint64_t *id);
int cudaStreamGetCaptureInfo_v2(void *handle, int *status, uint64_t *id);
int cudaStreamGetCaptureInfo_v3(void *handle, int *status, uint64_t *id);
int cudaThreadExchangeStreamCaptureMode(int *mode);
int cudaEventCreateWithFlags(void **event, unsigned flags);
int cudaEventDestroy(void *event);
int cudaEventRecord(void *handle, void *stream);
int cudaEventQuery(void *handle);
int cudaEventSynchronize(void *handle);
int cudaEventElapsedTime(float *milliseconds, void *start, void *end);
int cuMemAddressReserve(uint64_t *pointer, size_t size, size_t alignment, uint64_t wanted,
                        unsigned long long flags);
int cuMemAddressFree(uint64_t pointer, size_t size);
int cuMemCreate(uint64_t *handle, size_t size, const void *properties, unsigned long long flags);
int cuMemRelease(uint64_t handle);
int cuMemMap(uint64_t pointer, size_t size, size_t offset, uint64_t handle, unsigned long long flags);
int cuMemUnmap(uint64_t pointer, size_t size);
int cuMemSetAccess(uint64_t pointer, size_t size, const void *access, size_t count);
int cuMemGetAllocationGranularity(size_t *size, const void *properties, int option);
int cuGetErrorString(int error, const char **text);
int cuDeviceGet(int *handle, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int nvmlInit_v2(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, void *processes);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, void *processes);
int cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *status);
int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                     unsigned long long flags, int *status);

#endif
