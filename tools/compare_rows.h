/* tools/compare_rows.h - sums for two sides under text keys, and their order. */
#ifndef ASIM_TOOLS_COMPARE_ROWS_H
#define ASIM_TOOLS_COMPARE_ROWS_H

#include "sim/idmap.h"

enum {
    ASIM_ROW_KEY = 200
};

typedef struct asim_row {
    char key[ASIM_ROW_KEY];
    uint64_t bytes[2], count[2];
} asim_row;

typedef struct asim_rows {
    const asim_hostmem *mem;
    asim_row *rows;
    size_t count, capacity;
    asim_idmap index;
} asim_rows;

void asim_rows_init(asim_rows *rows, const asim_hostmem *mem);
void asim_rows_fini(asim_rows *rows);
/* Adds bytes to side (0 or 1) of the row with that key, and one to its count. */
asim_code asim_rows_add(asim_rows *rows, unsigned side, const char *key, uint64_t bytes, asim_err *err);
/* Largest difference in bytes first, then in count, then the largest row; then by key. Nothing can be added
 * afterwards. */
void asim_rows_sort(asim_rows *rows);

#endif
