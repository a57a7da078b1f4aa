/* allocsim db: what a store holds, whether it is whole, and joining several. */
#include "sim/store.h"
#include "tools/cli.h"
#include "tools/units.h"

#include <inttypes.h>

extern const asim_verb asim_verb_db_ls, asim_verb_db_check, asim_verb_db_merge;

static const char *file_of(char **operands, size_t count)
{
    return count ? operands[0] : "allocsim.db";
}

static void print_row(void *ctx, const asim_store_row *row)
{
    char reserved[ASIM_UNITS_MAX], allocated[ASIM_UNITS_MAX], stall[ASIM_UNITS_MAX], capacity[ASIM_UNITS_MAX];
    bool *any = ctx;
    if (!*any)
        printf("%4s  %-6s %11s %11s %6s %9s  %s\n", "run", "status", "reserved", "allocated", "OOMs", "stall",
               "trace");
    *any = true;
    printf("%4" PRId64 "  %-6s %11s %11s %6" PRId64 " %9s  %s\n", row->run_id, row->status,
           asim_human_bytes((uint64_t)row->peak_reserved_bytes, reserved),
           asim_human_bytes((uint64_t)row->peak_allocated_bytes, allocated), row->ooms,
           asim_human_ns((uint64_t)row->stall_ns, stall), row->trace_path);
    printf("      %s%s%s on %s, %s\n", row->policy, row->params[0] ? "," : "", row->params, row->device,
           asim_human_bytes((uint64_t)row->capacity_bytes, capacity));
}

static int ls(asim_cli *cli, const void *values, char **operands, size_t count)
{
    (void)values;
    asim_err err = ASIM_ERR_INIT;
    asim_store *store;
    if (asim_store_open(file_of(operands, count), ASIM_STORE_READ, cli->mem, &store, &err))
        return asim_say_error(&err);
    bool any = false;
    asim_code code = asim_store_list(store, print_row, &any, &err);
    asim_store_close(store);
    if (code)
        return asim_say_error(&err);
    if (!any)
        asim_note(cli, "%s holds no runs", file_of(operands, count));
    return 0;
}

static void print_fault(void *ctx, const char *text)
{
    printf("%s: %s\n", (const char *)ctx, text);
}

static int check(asim_cli *cli, const void *values, char **operands, size_t count)
{
    (void)values;
    asim_err err = ASIM_ERR_INIT;
    asim_store *store;
    char *file = count ? operands[0] : (char[]){"allocsim.db"};
    uint64_t faults = 0, runs = 0;
    if (asim_store_open(file, ASIM_STORE_READ, cli->mem, &store, &err))
        return asim_say_error(&err);
    asim_code code = asim_store_check(store, print_fault, file, &faults, &runs, &err);
    asim_store_close(store);
    if (code)
        return asim_say_error(&err);
    if (faults) {
        asim_say("%s: %" PRIu64 " faults", file, faults);
        return ASIM_EXIT_NO;
    }
    printf("%s: whole, %" PRIu64 " runs\n", file, runs);
    return 0;
}

static int merge(asim_cli *cli, const void *values, char **operands, size_t count)
{
    (void)values;
    asim_err err = ASIM_ERR_INIT;
    asim_store *store;
    asim_merge_counts counts;
    if (asim_store_open(operands[0], ASIM_STORE_WRITE, cli->mem, &store, &err))
        return asim_say_error(&err);
    asim_code code = asim_store_merge(store, (const char *const *)(operands + 1), count - 1, &counts, &err);
    asim_store_close(store);
    if (code)
        return asim_say_error(&err);
    printf("%s: %" PRIu64 " runs added, %" PRIu64 " were there with the same results\n", operands[0],
           counts.added, counts.same);
    return 0;
}

const asim_verb asim_verb_db_ls = {
    .name = "db ls",
    .operands = "[FILE]",
    .summary = "Lists the runs of a store [allocsim.db]",
    .example = "db ls allocsim.db",
    .max_operands = 1,
    .run = ls,
};

const asim_verb asim_verb_db_check = {
    .name = "db check",
    .operands = "[FILE]",
    .summary = "Verifies a store [allocsim.db]; exit 1 with its faults",
    .example = "db check allocsim.db",
    .max_operands = 1,
    .run = check,
};

const asim_verb asim_verb_db_merge = {
    .name = "db merge",
    .operands = "OUT STORE...",
    .summary = "Adds the runs of stores to OUT, all or none",
    .text = "A run that two of them have must have the same results: else exit 4.",
    .example = "db merge all.db allocsim.db",
    .min_operands = 2,
    .max_operands = SIZE_MAX,
    .run = merge,
};
