/* sim/ranges.h - lists and ranges of values, as a sweep takes them, written out one by one.
 *
 *     "64,128,256"       these
 *     "20:1024:+4"       20, 24, ... up to 1024
 *     "32:2048:x2"       32, 64, ... up to 2048
 *     "none,1GiB:8GiB:+512MiB"   both, with units where the values are sizes
 *
 * A range ends with the last value that is not above its upper end. Values stay text: whether a parameter
 * takes them is sim/params.h's business. Numbers are decimal and exact: 0.1:0.3:+0.1 is 0.1, 0.2, 0.3.
 */
#ifndef ASIM_SIM_RANGES_H
#define ASIM_SIM_RANGES_H

#include "sim/params.h"

#include "sim/hostmem.h"

enum {
    ASIM_VALUES_MAX = 100000 /* of one list */
};

typedef enum asim_range_kind {
    ASIM_RANGE_NONE,   /* words: a:b:c is one of them */
    ASIM_RANGE_NUMBER, /* decimal, perhaps with a fraction */
    ASIM_RANGE_SIZE,   /* as asim_parse_size reads it; a range is written out in bytes */
} asim_range_kind;

typedef struct asim_values {
    char **items; /* each allocated with its length + 1 bytes */
    size_t count, capacity;
} asim_values;

/* What ranges over a parameter of that type are of. */
asim_range_kind asim_range_kind_of(asim_param_type type);

/* Appends what text stands for; commas inside [] belong to a value. Errors (ASIM_E_USAGE) name the part that
 * is wrong; what was appended before stays, and is freed by asim_values_fini. */
asim_code asim_values_parse(const char *text, asim_range_kind kind, asim_values *values,
                            const asim_hostmem *mem, asim_err *err);
void asim_values_fini(asim_values *values, const asim_hostmem *mem);

#endif
