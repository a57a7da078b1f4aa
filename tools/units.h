/* tools/units.h - numbers as people read them. Each writes into text, which it returns. */
#ifndef ASIM_TOOLS_UNITS_H
#define ASIM_TOOLS_UNITS_H

#include <stddef.h>
#include <stdint.h>

enum {
    ASIM_UNITS_MAX = 32 /* room that is always enough */
};

/* "12.34 GiB", "512 B": two digits after the point, rounded to nearest, of the largest unit not above the
 * value. */
char *asim_human_bytes(uint64_t bytes, char text[ASIM_UNITS_MAX]);
/* "1 234 567" in groups of three. */
char *asim_human_count(uint64_t count, char text[ASIM_UNITS_MAX]);
/* "1.23 s", "45.6 ms", "789 ns". */
char *asim_human_ns(uint64_t ns, char text[ASIM_UNITS_MAX]);
/* Millionths as "12.34 %". */
char *asim_human_ppm(uint64_t ppm, char text[ASIM_UNITS_MAX]);

#endif
