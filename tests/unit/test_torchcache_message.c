/* The out-of-memory message (specification, section 24). The numbers of the larger tests are those that the
 * genuine releases 1.13.1, 2.1.2, 2.4.1 and 2.6.0 put into their messages when they ran the same requests. */
#include "policies/torchcache_message.h"
#include "policies/torchcache_round.h"

#include <criterion/criterion.h>
#include <string.h>

#define MIB UINT64_C(1048576)

static void expect_size(uint64_t bytes, const char *text)
{
    char found[ASIM_TC_SIZE_TEXT];
    asim_tc_size_text(bytes, found);
    cr_expect_str_eq(found, text);
}

/* R174. */
Test(torchcache_message, sizes)
{
    expect_size(0, "0 bytes");
    expect_size(1024, "1024 bytes");
    expect_size(1025, "1.00 KiB");
    expect_size(1536, "1.50 KiB");
    expect_size(1048576, "1024.00 KiB");
    expect_size(1048577, "1.00 MiB");
    expect_size(20 * MIB, "20.00 MiB");
    expect_size(1024 * MIB, "1024.00 MiB");
    expect_size(1024 * MIB + 1, "1.00 GiB");
    expect_size(UINT64_C(1) << 60, "1073741824.00 GiB");
    expect_size(UINT64_MAX, "17179869184.00 GiB");
}

/* Numbers, as they appear one after the other, each with its unit. */
static void expect_numbers(const char *message, const char *const *numbers)
{
    const char *at = message;
    for (; *numbers; numbers++) {
        const char *found = strstr(at, *numbers);
        cr_assert_not_null(found, "%s does not follow in: %s", *numbers, message);
        at = found + strlen(*numbers);
    }
    cr_expect_null(strpbrk(at, "0123456789"), "one more number in: %s", message);
}

#define NUMBERS(...)                                                                                         \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }

static void expect_refusal(const asim_tc_release *release, const asim_tc_refusal *refusal,
                           const char *const *numbers, const char *advice)
{
    char text[768];
    cr_assert_lt(asim_tc_refusal_text(release, refusal, text, sizeof text), sizeof text);
    expect_numbers(text, numbers);
    size_t length = strlen(text), tail = strlen(advice);
    cr_assert(length > tail + 1 && text[length - 1] == '.' &&
                  strncmp(text + length - 1 - tail, advice, tail) == 0,
              "the advice is not %s: %s", advice, text);
    char cut[10];
    cr_expect_eq(asim_tc_refusal_text(release, refusal, cut, sizeof cut), length);
    cr_expect_eq(strlen(cut), 9);
}

/* A device of 1024 MiB with the limit 512 MiB: 30 MiB, then 100 bytes, live; 1024 MiB refused. */
static const asim_tc_refusal limited = {.kind = ASIM_TC_OUT_OF_MEMORY,
                                        .attempted = 1024 * MIB,
                                        .total = 1024 * MIB,
                                        .free = 992 * MIB,
                                        .limit = 512 * MIB,
                                        .allocated = 30 * MIB + 512,
                                        .reserved = 32 * MIB};

/* 100 MiB: 30 MiB freed and 1000 bytes live in a private pool, 100 and 5,000,000 bytes live outside. */
static const asim_tc_refusal pooled = {.kind = ASIM_TC_OUT_OF_MEMORY,
                                       .attempted = 1024 * MIB,
                                       .total = 100 * MIB,
                                       .free = 46 * MIB,
                                       .limit = ASIM_TC_UNLIMITED,
                                       .allocated = 1024 + 512 + 5000192,
                                       .pool_free = 30 * MIB + 2 * MIB - 1024,
                                       .reserved = 54 * MIB};

/* R177. */
Test(torchcache_message, old_order)
{
    const asim_tc_release *release = asim_tc_release_named("1.13");
    expect_refusal(release, &limited,
                   NUMBERS("1024.00 MiB", "GPU 0", "1024.00 MiB", "30.00 MiB", "992.00 MiB",
                           "512.00 MiB allowed; ", "32.00 MiB"),
                   "max_split_size_mb");
}

/* R175 with the limit. */
Test(torchcache_message, limit)
{
    const asim_tc_release *release = asim_tc_release_named("2.6");
    expect_refusal(release, &limited,
                   NUMBERS("1024.00 MiB", "GPU 0", "1024.00 MiB", "992.00 MiB", "512.00 MiB allowed; ",
                           "30.00 MiB", "2.00 MiB"),
                   "expandable_segments:True");
}

/* R175 items 7 to 9. */
Test(torchcache_message, private_pools)
{
    const asim_tc_release *release = asim_tc_release_named("2.6");
    expect_refusal(
        release, &pooled,
        NUMBERS("1024.00 MiB", "GPU 0", "100.00 MiB", "46.00 MiB", "36.77 MiB", "32.00 MiB", "17.23 MiB"),
        "expandable_segments:True");
    asim_tc_refusal none = pooled;
    none.pool_free = 0;
    expect_refusal(release, &none,
                   NUMBERS("1024.00 MiB", "GPU 0", "100.00 MiB", "46.00 MiB", "4.77 MiB", "49.23 MiB"),
                   "expandable_segments:True");
}

/* R175 and R176, release by release: 2.1 to 2.4 name no limit, 2.1 to 2.3 count no pools. */
Test(torchcache_message, releases)
{
    for (const asim_tc_release *release = &asim_tc_releases[1]; release->name; release++) {
        const bool first = strcmp(release->name, "2.1") == 0;
        const bool counts = !first && strcmp(release->name, "2.2") != 0 && strcmp(release->name, "2.3") != 0;
        const bool limit = counts && strcmp(release->name, "2.4") != 0;
        const char *advice = first ? "max_split_size_mb" : "expandable_segments:True";
        if (limit)
            expect_refusal(release, &limited,
                           NUMBERS("1024.00 MiB", "GPU 0", "1024.00 MiB", "992.00 MiB",
                                   "512.00 MiB allowed; ", "30.00 MiB", "2.00 MiB"),
                           advice);
        else
            expect_refusal(
                release, &limited,
                NUMBERS("1024.00 MiB", "GPU 0", "1024.00 MiB", "992.00 MiB", "30.00 MiB", "2.00 MiB"),
                advice);
        if (counts)
            expect_refusal(release, &pooled,
                           NUMBERS("1024.00 MiB", "GPU 0", "100.00 MiB", "46.00 MiB", "36.77 MiB",
                                   "32.00 MiB", "17.23 MiB"),
                           advice);
        else
            expect_refusal(
                release, &pooled,
                NUMBERS("1024.00 MiB", "GPU 0", "100.00 MiB", "46.00 MiB", "4.77 MiB", "49.23 MiB"), advice);
    }
}

/* R176: 2.15 speaks of addresses when expandable segments are on; with both sizes where the range is too
 * small for a request that the device could hold. */
Test(torchcache_message, address_space)
{
    const asim_tc_release *release = asim_tc_release_named("2.15");
    asim_tc_refusal refusal = pooled;
    refusal.attempted = 80 * MIB;
    refusal.range = 112 * MIB;
    expect_refusal(
        release, &refusal,
        NUMBERS("80.00 MiB", "GPU 0", "100.00 MiB", "46.00 MiB", "36.77 MiB", "32.00 MiB", "17.23 MiB"),
        "expandable_segments_reserve");
    refusal.range = 60 * MIB;
    expect_refusal(release, &refusal,
                   NUMBERS("80.00 MiB", "GPU 0", "100.00 MiB", "46.00 MiB", "36.77 MiB", "32.00 MiB",
                           "17.23 MiB", "60.00 MiB", "80.00 MiB"),
                   "expandable_segments_reserve");
    refusal.attempted = 120 * MIB; /* more than the device has: the range is not to blame */
    expect_refusal(
        release, &refusal,
        NUMBERS("120.00 MiB", "GPU 0", "100.00 MiB", "46.00 MiB", "36.77 MiB", "32.00 MiB", "17.23 MiB"),
        "expandable_segments_reserve");
    expect_refusal(
        asim_tc_release_named("2.14"), &refusal,
        NUMBERS("120.00 MiB", "GPU 0", "100.00 MiB", "46.00 MiB", "36.77 MiB", "32.00 MiB", "17.23 MiB"),
        "expandable_segments:True");
}

/* R24 and R116: errors with texts of their own, alike in every release that has them. The one names no size
 * but the bound; the other the size that was requested, not the segment, and no other number. */
Test(torchcache_message, texts_of_their_own)
{
    char text[256];
    const asim_tc_refusal none = {.kind = ASIM_TC_NOT_REFUSED};
    const asim_tc_refusal large = {.kind = ASIM_TC_TOO_LARGE, .requested = UINT64_C(1) << 60};
    const asim_tc_refusal rejected = {.kind = ASIM_TC_REJECTED, .requested = 50 * MIB + 512 * 1024};
    for (const asim_tc_release *release = asim_tc_releases; release->name; release++) {
        cr_expect_eq(asim_tc_refusal_text(release, &none, text, sizeof text), 0);
        cr_assert_lt(asim_tc_refusal_text(release, &large, text, sizeof text), sizeof text);
        expect_numbers(text, NUMBERS("more than 1EB"));
        cr_assert_lt(asim_tc_refusal_text(release, &rejected, text, sizeof text), sizeof text);
        expect_numbers(text, NUMBERS("50.50 MiB"));
    }
}
