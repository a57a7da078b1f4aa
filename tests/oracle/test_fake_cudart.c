/* tests/oracle/test_fake_cudart.c - the simulated device obeys its model (specification 9.1). */
#include "tests/oracle/fake_calls.h"
#include "tests/oracle/fake_cudart.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576u

static int failures;

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                           \
            failures++;                                                                                      \
        }                                                                                                    \
    } while (0)

static void test_memory(void)
{
    void *a, *b, *c;
    size_t free_bytes, total;
    CHECK(cudaMalloc(&a, 1) == 0);
    CHECK(cudaMemGetInfo(&free_bytes, &total) == 0);
    CHECK(total == 64 * MIB && free_bytes == 62 * MIB); /* granules of 2 MiB */
    CHECK(cudaMalloc(&b, 62 * MIB + 1) == 2);
    CHECK(cudaGetLastError() == 2);
    CHECK(cudaGetLastError() == 0);
    CHECK(cudaMalloc(&b, 62 * MIB) == 0);
    CHECK((char *)b > (char *)a + 2 * MIB); /* ascending, never touching */
    CHECK(cudaFree(a) == 0);
    CHECK(cudaFree(a) != 0);
    CHECK(cudaGetLastError() != 0);
    CHECK(cudaMalloc(&c, 2 * MIB) == 0);
    CHECK(c > b); /* never used twice */
    uint32_t region;
    uint64_t offset;
    CHECK(fake_locate((uintptr_t)c + 512, &region, &offset) && region == 2 && offset == 512);
    CHECK(!fake_locate((uintptr_t)c + 2 * MIB, &region, &offset));
    CHECK(cudaFree(b) == 0 && cudaFree(c) == 0);
    const struct fake_counts *counts = fake_counts(0);
    CHECK(counts->allocations == 3 && counts->failed_allocations == 1 && counts->frees == 3);
}

static void test_pages(void)
{
    unsigned char properties[64] = {0};
    const int device = 1;
    memcpy(properties + 12, &device, sizeof device);
    uint64_t range, pages[2];
    CHECK(cudaSetDevice(1) == 0);
    CHECK(cuMemAddressReserve(&range, 80 * MIB, 0, 0, 0) == 0); /* costs no memory */
    CHECK(cuMemCreate(&pages[0], 20 * MIB, properties, 0) == 0);
    CHECK(cuMemCreate(&pages[1], 20 * MIB, properties, 0) == 2); /* 32 MiB in all */
    CHECK(cudaGetLastError() == 0); /* the driver's errors are not the runtime's */
    CHECK(cuMemMap(range + 60 * MIB, 20 * MIB, 0, pages[0], 0) == 0);
    CHECK(cuMemMap(range + 61 * MIB, 20 * MIB, 0, pages[0], 0) != 0);
    CHECK(cuMemRelease(pages[0]) == 0);
    CHECK(cuMemAddressFree(range, 20 * MIB) != 0);
    CHECK(cuMemAddressFree(range, 80 * MIB) == 0);
    const struct fake_counts *counts = fake_counts(1);
    CHECK(counts->pages == 1 && counts->failed_pages == 1 && counts->released_pages == 1);
    CHECK(counts->reservations == 1 && counts->allocations == 0);
    CHECK(cudaSetDevice(2) != 0 && cudaGetLastError() != 0);
    CHECK(cudaSetDevice(0) == 0);
}

static void test_events(void)
{
    void *first = NULL, *second = NULL, *other = NULL;
    int stream_a, stream_b;
    CHECK(cudaEventCreateWithFlags(&first, 0) == 0 && cudaEventCreateWithFlags(&second, 0) == 0);
    CHECK(cudaEventCreateWithFlags(&other, 0) == 0);
    CHECK(cudaEventQuery(first) == 0); /* never recorded */
    CHECK(cudaEventRecord(first, &stream_a) == 0 && cudaEventRecord(second, &stream_a) == 0);
    CHECK(cudaEventRecord(other, &stream_b) == 0);
    CHECK(cudaEventQuery(first) == 600 && cudaGetLastError() == 600);
    CHECK(cudaEventSynchronize(first) == 0 && cudaEventQuery(first) == 0);
    CHECK(cudaEventQuery(second) == 600 && cudaGetLastError() == 600);
    CHECK(cudaStreamSynchronize(&stream_a) == 0 && cudaEventQuery(second) == 0);
    CHECK(cudaEventQuery(other) == 600 && cudaGetLastError() == 600);
    fake_finish_stream(1, (uintptr_t)&stream_b); /* a stream of that handle on another device */
    CHECK(cudaEventQuery(other) == 600 && cudaGetLastError() == 600);
    fake_finish_all();
    CHECK(cudaEventQuery(other) == 0);
    CHECK(fake_counts(0)->events == 3 && fake_counts(0)->queries == 8);
    CHECK(cudaEventDestroy(first) == 0 && cudaEventDestroy(second) == 0 && cudaEventDestroy(other) == 0);
    int status;
    fake_capture_stream(0, (uintptr_t)&stream_a, true);
    CHECK(cudaStreamIsCapturing(&stream_a, &status) == 0 && status == 1);
    CHECK(cudaStreamIsCapturing(&stream_b, &status) == 0 && status == 0);
}

static void test_entry_points(void)
{
    void *function;
    int status;
    CHECK(cudaGetDriverEntryPoint("cuMemCreate", &function, 0, &status) == 0 && function && status == 0);
    CHECK(cudaGetDriverEntryPoint("cuNothingOfTheKind", &function, 0, &status) == 0 && !function &&
          status == 1);
    CHECK(fake_runtime_function("cudaMalloc") && !fake_runtime_function("cuMemCreate"));
}

static void test_properties(void)
{
    unsigned char properties[2048];
    memset(properties, 0xff, sizeof properties);
    CHECK(cudaGetDeviceProperties(properties, 1) == 0);
    uint64_t total;
    memcpy(&total, properties + 288, sizeof total);
    CHECK(total == 32 * MIB);
    CHECK(properties[368] == 0xff); /* nothing is written beyond what every version has */
}

static void test_forget(void)
{
    void *a;
    fake_forget();
    CHECK(cudaMalloc(&a, 1) == 0);
    uint32_t region;
    uint64_t offset;
    CHECK(fake_locate((uintptr_t)a, &region, &offset) && region == 0 && offset == 0);
    CHECK(fake_counts(0)->allocations == 1 && fake_counts(0)->events == 0);
    CHECK(cudaFree(a) == 0);
}

int main(void)
{
    const uint64_t capacity[] = {64 * MIB, 32 * MIB};
    fake_configure(2, capacity);
    test_memory();
    test_pages();
    test_events();
    test_entry_points();
    test_properties();
    test_forget();
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
