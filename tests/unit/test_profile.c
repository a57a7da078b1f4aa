#include "sim/metrics.h"
#include "sim/profile.h"

#include <criterion/criterion.h>
#include <string.h>

Test(profile, the_default_is_an_estimate_and_says_so)
{
    asim_profile profile;
    cr_assert_str_eq(asim_profile_names()[0], "generic-80g");
    cr_assert(asim_profile_builtin("generic-80g", &profile));
    cr_assert_eq(profile.capacity_bytes, UINT64_C(80) << 30);
    cr_assert_eq(profile.granule_bytes, 2 << 20);
    cr_assert_not(profile.measured);
    cr_assert_not(asim_profile_builtin("no-such", &profile));
    for (size_t i = 0; asim_profile_names()[i]; i++)
        cr_assert(asim_profile_builtin(asim_profile_names()[i], &profile));
}

Test(profile, two_of_one_name_have_different_digests)
{
    asim_profile a, b;
    asim_profile_builtin("generic-80g", &a);
    b = a;
    cr_assert_eq(asim_profile_digest(&a), asim_profile_digest(&b));
    b.move_ns++;
    cr_assert_neq(asim_profile_digest(&a), asim_profile_digest(&b));
}

static asim_code parse(const char *text, asim_err *err)
{
    asim_profile profile;
    return asim_profile_parse(text, strlen(text), &profile, err);
}

Test(profile, errors_name_the_line)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "a device profile needs a name and an origin line"},
        {"name x\norigin guessed\n", "line 2: the origin begins with 'measured' or 'estimated'"},
        {"name x\n\nspeed 3\n", "line 3: unknown name 'speed'"},
        {"hit_ns -3\n", "line 1: hit_ns takes one whole number, not '-3'"},
        {"hit_ns 3 4\n", "line 1: hit_ns takes one whole number, not '3 4'"},
        {"hit_ns 3\nhit_ns 3\n", "line 2: hit_ns stands here twice"},
        {"hit_ns 99999999999999999999\n",
         "line 1: hit_ns takes one whole number, not '99999999999999999999'"},
        {"name x\norigin measured on y\n", "the number capacity_bytes is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        asim_err err = ASIM_ERR_INIT;
        cr_assert_eq(parse(cases[i].text, &err), ASIM_E_INPUT);
        cr_assert_str_eq(err.message, cases[i].message);
    }
}

Test(metrics, gap_in_millionths)
{
    cr_assert_eq(asim_gap_ppm(0, 0), 0);
    cr_assert_eq(asim_gap_ppm(5, 5), 0);
    cr_assert_eq(asim_gap_ppm(6, 5), 0);
    cr_assert_eq(asim_gap_ppm(0, 7), 1000000);
    cr_assert_eq(asim_gap_ppm(2, 3), 333333);
    cr_assert_eq(asim_gap_ppm(UINT64_C(1) << 62, UINT64_C(1) << 63), 500000);
    cr_assert_str_eq(asim_metric_name(ASIM_METRIC_events), "events");
    cr_assert_str_eq(asim_metric_name(ASIM_METRIC_search_steps), "search_steps");
}
