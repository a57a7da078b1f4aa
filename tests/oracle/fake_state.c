#include "tests/oracle/fake_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t first_address = 1ull << 40;

struct fake_state fake = {
    .devices = 1, .capacity = {1ull << 34}, .next_address = 1ull << 40, .next_stream = 1ull << 24};

_Noreturn void fake_die(const char *what)
{
    fprintf(stderr, "simulated device: %s\n", what);
    exit(3);
}

uint64_t fake_round_up(uint64_t size)
{
    return (size + FAKE_GRANULE - 1) / FAKE_GRANULE * FAKE_GRANULE;
}

int fake_fail(int error)
{
    fake.last_error = error;
    return error;
}

void fake_configure(int devices, const uint64_t *capacity)
{
    if (devices < 1 || devices > FAKE_DEVICES_MAX)
        fake_die("the number of devices must be 1 to 8");
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

struct stream *fake_find_stream(int device, uint64_t handle)
{
    for (int i = 0; i < fake.stream_count; i++)
        if (fake.streams[i].handle == handle && fake.streams[i].device == device)
            return &fake.streams[i];
    if (fake.stream_count == FAKE_STREAMS_MAX)
        fake_die("more than 256 streams");
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
    struct stream *stream = fake_find_stream(device, handle);
    stream->completed = stream->issued;
}

void fake_capture_stream(int device, uint64_t handle, bool captured)
{
    fake_find_stream(device, handle)->captured = captured;
}

struct region *fake_find_region(uint64_t address)
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
    const struct region *found = fake_find_region(address);
    if (!found)
        return false;
    *region = (uint32_t)(found - fake.regions);
    *offset = address - found->start;
    return true;
}

struct region *fake_add_region(uint64_t size)
{
    if (fake.region_count == fake.region_room) {
        fake.region_room = fake.region_room ? 2 * fake.region_room : 1024;
        fake.regions = realloc(fake.regions, fake.region_room * sizeof *fake.regions);
        if (!fake.regions)
            fake_die("no memory for the table of regions");
    }
    if (fake.next_address < first_address || size > (1ull << 62) - fake.next_address)
        fake_die("the address space is used up");
    struct region *region = &fake.regions[fake.region_count++];
    *region = (struct region){.start = fake.next_address, .size = size, .device = fake.current, .live = true};
    fake.next_address += fake_round_up(size) + FAKE_GRANULE; /* a gap, so that regions never touch */
    return region;
}

/* Takes memory of the current device; false when it has too little. */
bool fake_take(int device, uint64_t size)
{
    uint64_t free = fake.capacity[device] - fake.used[device];
    if (size > free || fake_round_up(size) > free)
        return false;
    fake.used[device] += fake_round_up(size);
    return true;
}
