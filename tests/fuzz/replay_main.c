/* Runs a fuzz target over files, where libFuzzer is not at hand: each file as it is, cut at many places, and
 * with many seeded mutations.
 *
 *     fuzz_NAME [-m MUTATIONS] FILE...
 */
#include "sim/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Always from memory of just this size, so that a sanitizer sees each byte read too far. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *own = malloc(size ? size : 1);
    if (!own)
        exit(5);
    memcpy(own, data, size);
    LLVMFuzzerTestOneInput(own, size);
    free(own);
}

static void mutate(asim_rng *rng, uint8_t *data, size_t size)
{
    static const uint8_t odd[] = {0, 1, 0x7F, 0x80, 0xFF};
    for (uint64_t k = 1 + asim_rng_below(rng, 4); size && k > 0; k--) {
        size_t at = (size_t)asim_rng_below(rng, size), to = (size_t)asim_rng_below(rng, size);
        switch (asim_rng_below(rng, 4)) {
        case 0:
            data[at] ^= (uint8_t)(1U << asim_rng_below(rng, 8));
            break;
        case 1:
            data[at] = odd[asim_rng_below(rng, sizeof odd)];
            break;
        case 2:
            data[at] = (uint8_t)asim_rng_next(rng);
            break;
        default: {
            size_t most = size - (at > to ? at : to);
            memmove(data + to, data + at, (size_t)asim_rng_below(rng, most < 64 ? most + 1 : 64));
        }
        }
    }
}

static void replay(const char *path, uint64_t mutations)
{
    FILE *file = fopen(path, "rb");
    size_t capacity = 1 << 20, size;
    uint8_t *data = malloc(capacity), *copy = malloc(capacity);
    if (!file || !data || !copy) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(5);
    }
    size = fread(data, 1, capacity, file);
    fclose(file);
    run(data, size);
    size_t step = size / 100 + 1;
    for (size_t length = 0; length < size; length += step)
        run(data, length);
    asim_rng rng = {size};
    for (uint64_t i = 0; i < mutations; i++) {
        memcpy(copy, data, size);
        mutate(&rng, copy, size);
        run(copy, size);
    }
    free(data);
    free(copy);
}

int main(int argc, char **argv)
{
    uint64_t mutations = 500;
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "-m") == 0) {
        mutations = strtoull(argv[2], NULL, 10);
        first = 3;
    }
    for (int i = first; i < argc; i++)
        replay(argv[i], mutations);
    printf("%d files, each cut and with %llu mutations\n", argc - first, (unsigned long long)mutations);
    return first < argc ? 0 : 2;
}
