#include "tools/memory_summary.h"

#include <inttypes.h>
#include <string.h>

enum {
    REQUESTED = 2 /* row of requested_bytes */
};

static const struct {
    const char *key, *label;
    bool is_size;
} arrays[ASIM_SUMMARY_ARRAYS] = {
    /* R132 */
    {"allocated_bytes", "Allocated memory", true},
    {"active_bytes", "Active memory", true},
    {"requested_bytes", "Requested memory", true},
    {"reserved_bytes", "GPU reserved memory", true},
    {"inactive_split_bytes", "Non-releasable memory", true},
    {"allocation", "Allocations", false},
    {"active", "Active allocs", false},
    {"segment", "GPU reserved segments", false},
    {"inactive_split", "Non-releasable allocs", false},
};

static const struct {
    const char *key, *label;
} singles[ASIM_SUMMARY_SINGLES] = {
    {"oversize_allocations", "Oversize allocations"},
    {"oversize_segments", "Oversize GPU segments"},
};

static const char *const pools[] = {"all", "large_pool", "small_pool"}; /* in the order of the rows */
static const char *const columns[] = {"current", "peak", "allocated", "freed"};
static const char *const counters[ASIM_SUMMARY_COUNTERS] = {"num_ooms", "num_alloc_retries"};

enum {
    FIRST_SINGLE = ASIM_SUMMARY_ARRAYS * 12,
    FIRST_COUNTER = FIRST_SINGLE + ASIM_SUMMARY_SINGLES * 4
};

static void name_of(int index, char text[64])
{
    if (index >= FIRST_COUNTER)
        snprintf(text, 64, "%s", counters[index - FIRST_COUNTER]);
    else if (index >= FIRST_SINGLE)
        snprintf(text, 64, "%s.%s", singles[(index - FIRST_SINGLE) / 4].key, columns[index % 4]);
    else
        snprintf(text, 64, "%s.%s.%s", arrays[index / 12].key, pools[index / 4 % 3], columns[index % 4]);
}

void asim_memory_stats_take(void *ctx, const char *name, int64_t value)
{
    asim_memory_stats *stats = ctx;
    for (int i = 0; i < ASIM_SUMMARY_NAMES; i++) {
        char text[64];
        name_of(i, text);
        if (strcmp(text, name) == 0) {
            stats->values[i] = value;
            stats->known[i] = true;
            return;
        }
    }
}

const char *asim_memory_stats_missing(const asim_memory_stats *stats, bool old_release, char text[64])
{
    for (int i = 0; i < ASIM_SUMMARY_NAMES; i++)
        if (!stats->known[i] && !(old_release && i / 12 == REQUESTED)) {
            name_of(i, text);
            return text;
        }
    return NULL;
}

/* Python's //, which rounds down. */
static int64_t floor_div(int64_t value, int64_t by)
{
    return value / by - (value % by < 0);
}

/* R133 and R134: the row of "all" decides the prefix of the rows below it. */
static void write_value(FILE *out, int64_t value, int64_t reference, bool is_size, bool old_release)
{
    static const char *const new_sizes[] = {"B  ", "KiB", "MiB", "GiB", "TiB", "PiB"};
    static const char *const old_sizes[] = {"B ", "KB", "MB", "GB", "TB", "PB"};
    static const char *const counts[] = {" ", "K", "M"};
    const char *const *prefixes = is_size ? (old_release ? old_sizes : new_sizes) : counts;
    int prefix_count = is_size ? 6 : 3, prefix = 0;
    double base = is_size ? 1024 : 1000, limit = (is_size ? 768 : 750) * base, rest = (double)reference;
    while (prefix + 1 < prefix_count && rest >= limit) {
        prefix++;
        value = floor_div(value, (int64_t)base);
        rest /= base;
    }
    int width = is_size && !old_release ? 6 : 7;
    fprintf(out, " | %*" PRId64 " %s%s", width, value, prefixes[prefix], is_size ? "" : " ");
}

static void write_row(FILE *out, const char *label, const int64_t *values, const int64_t *reference,
                      bool is_size, bool old_release)
{
    fprintf(out, "| %-21s", label); /* R131 */
    for (int column = 0; column < 4; column++)
        write_value(out, values[column], reference[column], is_size, old_release);
    fputs(" |\n", out);
}

static void write_rule(FILE *out, char sign)
{
    char line[76];
    memset(line, sign, 75);
    line[75] = 0;
    fprintf(out, "|%s|\n", line);
}

void asim_memory_summary(FILE *out, const asim_memory_stats *stats, unsigned device, bool old_release,
                         bool abbreviated)
{
    const int64_t *values = stats->values;
    write_rule(out, '=');
    fprintf(out, "| %16s PyTorch CUDA memory summary, device ID %-17u |\n", "", device);
    write_rule(out, '-');
    fprintf(out, "|  %9s CUDA OOMs: %-12" PRId64 " | %6s cudaMalloc retries: %-8" PRId64 "  |\n", "",
            values[FIRST_COUNTER], "", values[FIRST_COUNTER + 1]);
    write_rule(out, '=');
    fputs("|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n", out);
    for (int i = 0; i < ASIM_SUMMARY_ARRAYS; i++) {
        if (old_release && i == REQUESTED)
            continue;
        const int64_t *all = values + i * 12;
        write_rule(out, '-');
        write_row(out, arrays[i].label, all, all, arrays[i].is_size, old_release);
        if (abbreviated)
            continue;
        write_row(out, "      from large pool", all + 4, all, arrays[i].is_size, old_release);
        write_row(out, "      from small pool", all + 8, all, arrays[i].is_size, old_release);
    }
    for (int i = 0; i < ASIM_SUMMARY_SINGLES; i++) {
        const int64_t *single = values + FIRST_SINGLE + i * 4;
        write_rule(out, '-');
        write_row(out, singles[i].label, single, single, false, old_release);
    }
    write_rule(out, '=');
}
