#include "tools/units.h"

#include <inttypes.h>
#include <stdio.h>

char *asim_human_bytes(uint64_t bytes, char text[ASIM_UNITS_MAX])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned unit = 0;
    while (unit < 6 && bytes >> (10 * (unit + 1)))
        unit++;
    if (unit == 0)
        snprintf(text, ASIM_UNITS_MAX, "%" PRIu64 " B", bytes);
    else
        snprintf(text, ASIM_UNITS_MAX, "%.2f %s", (double)bytes / (double)(UINT64_C(1) << (10 * unit)),
                 names[unit]);
    return text;
}

char *asim_human_count(uint64_t count, char text[ASIM_UNITS_MAX])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, count), to = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            text[to++] = ' ';
        text[to++] = digits[i];
    }
    text[to] = 0;
    return text;
}

char *asim_human_ns(uint64_t ns, char text[ASIM_UNITS_MAX])
{
    if (ns < 1000)
        snprintf(text, ASIM_UNITS_MAX, "%" PRIu64 " ns", ns);
    else if (ns < 1000000)
        snprintf(text, ASIM_UNITS_MAX, "%.1f us", (double)ns / 1e3);
    else if (ns < UINT64_C(1000000000))
        snprintf(text, ASIM_UNITS_MAX, "%.1f ms", (double)ns / 1e6);
    else
        snprintf(text, ASIM_UNITS_MAX, "%.2f s", (double)ns / 1e9);
    return text;
}

char *asim_human_ppm(uint64_t ppm, char text[ASIM_UNITS_MAX])
{
    snprintf(text, ASIM_UNITS_MAX, "%" PRIu64 ".%02" PRIu64 " %%", ppm / 10000, ppm % 10000 / 100);
    return text;
}
