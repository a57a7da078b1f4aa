/* A second address for mapped memory: what the ledger lets through, what it counts, and what it refuses. */
#include "sim/device_model.h"
#include "sim/ledger.h"

#include <criterion/criterion.h>
#include <string.h>

#define PAGE (UINT64_C(2) << 20)

static asim_books books;
static asim_ledger ledger;
static asim_device_model *model;
static asim_clocks clocks;
static uint64_t stream_ns[2];
static asim_profile profile;
static asim_device device;
static asim_region home, view;
static unsigned told;

static void note_call(void *ctx, const asim_driver_call *call)
{
    (void)ctx;
    (void)call;
    told++;
}

/* A range of four pages of memory, and one of four pages of addresses. */
static void begin(void)
{
    static const asim_lane lanes[] = {{.stream = 0}};
    static const asim_trace_device devices[] = {{.name = ASIM_NO_INDEX}};
    static asim_script script;
    static const uint64_t capacities[] = {64 * PAGE};
    const asim_trace trace = {.lanes = lanes, .lane_count = 1, .devices = devices, .device_count = 1};
    asim_err err = ASIM_ERR_INIT;
    cr_assert(asim_profile_builtin("generic-80g", &profile));
    clocks.stream_ns = stream_ns;
    cr_assert_eq(asim_device_model_new(&trace, &profile, capacities, false, &script, &clocks,
                                       asim_hostmem_libc(), &model, &err),
                 ASIM_OK, "%s", err.message);
    asim_ledger_init(&ledger, asim_device_model_table(model), &books, &script, asim_hostmem_libc());
    ledger.told = note_call;
    device = asim_ledger_table(&ledger);
    cr_assert_eq(device.ops->reserve(device.ctx, 0, 4 * PAGE, 0, &home), ASIM_DEVICE_OK);
    cr_assert_eq(device.ops->reserve(device.ctx, 0, 4 * PAGE, 0, &view), ASIM_DEVICE_OK);
    cr_assert_eq(device.ops->map(device.ctx, home.index, 0, 3 * PAGE, PAGE), ASIM_DEVICE_OK);
}

static asim_device_result alias(uint64_t offset, uint64_t from_offset, uint64_t size)
{
    return device.ops->alias(device.ctx, view.index, offset, home.index, from_offset, size, PAGE);
}

static void end(void)
{
    asim_ledger_fini(&ledger);
    asim_device_model_free(model);
}

/* Costs of a map, no memory; counted as maps and unmaps; observers hear nothing. */
Test(alias, shows_memory_and_obtains_none, .init = begin, .fini = end)
{
    uint64_t before, after, total;
    device.ops->memory(device.ctx, 0, &before, &total);
    const uint64_t stall = clocks.stall_ns, heard = told;
    cr_expect_eq(alias(PAGE, 0, 2 * PAGE), ASIM_DEVICE_OK);
    cr_expect_eq(alias(0, 2 * PAGE, PAGE), ASIM_DEVICE_OK);
    device.ops->memory(device.ctx, 0, &after, &total);
    cr_expect_eq(before, after);
    cr_expect_eq(books.reserved, 3 * PAGE);
    cr_expect_eq(clocks.stall_ns - stall, 2 * profile.map_ns + 3 * profile.map_per_page_ns);
    cr_expect_eq(ledger.maps, 3);
    cr_expect_eq(told, heard);
    cr_expect_eq(device.ops->unalias(device.ctx, view.index, PAGE), ASIM_DEVICE_OK);
    cr_expect_eq(ledger.unmaps, 1);
    cr_expect_eq(books.reserved, 3 * PAGE);
    cr_expect_eq(device.ops->unreserve(device.ctx, view.index), ASIM_DEVICE_OK);
    cr_expect_eq(ledger.fault.code, ASIM_OK);
}

/* Memory in use can be shown too: that is what a stitched block does when it is in use itself. */
Test(alias, of_memory_in_use, .init = begin, .fini = end)
{
    cr_assert(asim_ledger_occupy(&ledger, home.index, home.address, PAGE));
    cr_expect_eq(alias(0, 0, PAGE), ASIM_DEVICE_OK);
}

Test(alias, of_pages_that_are_not_mapped, .init = begin, .fini = end)
{
    cr_expect_eq(alias(0, 2 * PAGE, 2 * PAGE), ASIM_DEVICE_ERROR);
    cr_expect(strstr(ledger.fault.message, "alias in"), "%s", ledger.fault.message);
}

Test(alias, beyond_the_range, .init = begin, .fini = end)
{
    cr_expect_eq(alias(2 * PAGE, 0, 3 * PAGE), ASIM_DEVICE_ERROR);
}

Test(alias, off_the_pages, .init = begin, .fini = end)
{
    cr_expect_eq(alias(0, 512, PAGE), ASIM_DEVICE_ERROR);
}

Test(alias, of_itself, .init = begin, .fini = end)
{
    cr_expect_eq(device.ops->alias(device.ctx, home.index, 3 * PAGE, home.index, 0, PAGE, PAGE),
                 ASIM_DEVICE_ERROR);
}

Test(alias, where_memory_is_mapped, .init = begin, .fini = end)
{
    cr_assert_eq(device.ops->map(device.ctx, view.index, 0, PAGE, PAGE), ASIM_DEVICE_OK);
    cr_expect_eq(alias(2 * PAGE, 0, PAGE), ASIM_DEVICE_ERROR);
}

Test(alias, ends_before_its_range, .init = begin, .fini = end)
{
    cr_assert_eq(alias(0, 0, PAGE), ASIM_DEVICE_OK);
    cr_expect_eq(device.ops->unreserve(device.ctx, view.index), ASIM_DEVICE_ERROR);
    cr_expect(strstr(ledger.fault.message, "unreserve of region"), "%s", ledger.fault.message);
    const asim_device behind = asim_device_model_table(model); /* the device sees to it by itself */
    cr_expect_eq(behind.ops->unreserve(behind.ctx, view.index), ASIM_DEVICE_ERROR);
    cr_expect_eq(behind.ops->unalias(behind.ctx, view.index, PAGE), ASIM_DEVICE_OK);
    cr_expect_eq(behind.ops->unreserve(behind.ctx, view.index), ASIM_DEVICE_OK);
}

Test(alias, and_memory_in_one_range, .init = begin, .fini = end)
{
    cr_assert_eq(alias(0, 0, PAGE), ASIM_DEVICE_OK);
    cr_expect_eq(device.ops->map(device.ctx, view.index, PAGE, PAGE, PAGE), ASIM_DEVICE_ERROR);
}

Test(alias, that_is_none, .init = begin, .fini = end)
{
    cr_expect_eq(device.ops->unalias(device.ctx, view.index, PAGE), ASIM_DEVICE_ERROR);
}
