#include "sim/nearest.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    WORD_MAX = 40
};

/* How many letters to insert, remove, replace or swap with their neighbour (optimal string alignment). */
static size_t distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);
    if (la > WORD_MAX || lb > WORD_MAX)
        return SIZE_MAX;
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t j = 0; j <= lb; j++)
        last[j] = before[j] = j;
    for (size_t i = 1; i <= la; i++) {
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[lb];
}

const char *asim_nearest(const char *text, const char *const *names)
{
    const char *nearest = NULL;
    size_t best = strlen(text) / 3 + 2; /* at most a third of its letters, and one, may be wrong */
    for (; *names; names++) {
        size_t found = distance(text, *names);
        if (found < best) {
            best = found;
            nearest = *names;
        }
    }
    return nearest;
}
