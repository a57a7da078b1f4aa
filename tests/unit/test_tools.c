#include "sim/params.h"
#include "tools/cli.h"
#include "tools/expect.h"
#include "tools/json.h"
#include "tools/memory_summary.h"
#include "tools/torch_stats.h"
#include "tools/units.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define RULE(sign) "|" sign sign sign sign sign sign sign sign sign sign sign sign sign sign sign "|\n"
#define DOUBLE     RULE("=====")
#define SINGLE     RULE("-----")
#define BYTES(label)                                                                                         \
    SINGLE "| " label " |      0 B   |      0 B   |      0 B   |      0 B   |\n"                             \
           "|       from large pool |      0 B   |      0 B   |      0 B   |      0 B   |\n"                 \
           "|       from small pool |      0 B   |      0 B   |      0 B   |      0 B   |\n"
#define ROW(label)    "| " label " |       0    |       0    |       0    |       0    |\n"
#define COUNTS(label) SINGLE ROW(label) ROW("      from large pool") ROW("      from small pool")

static char *summary_of_form(const asim_memory_stats *stats, unsigned device, bool old_release,
                             bool abbreviated)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    cr_assert_not_null(out);
    asim_memory_summary(out, stats, device, old_release, abbreviated);
    fclose(out);
    return text;
}

static char *summary_of(const asim_memory_stats *stats, unsigned device, bool old_release)
{
    return summary_of_form(stats, device, old_release, false);
}

/* R129 to R132, with nothing allocated. */
Test(summary, layout)
{
    static const char expected[] =
        DOUBLE "|                  PyTorch CUDA memory summary, device ID 0                 |\n" SINGLE
               "|            CUDA OOMs: 0            |        cudaMalloc retries: 0         |\n" DOUBLE
               "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n" BYTES(
                   "Allocated memory     ") BYTES("Active memory        ") BYTES("Requested memory     ")
                   BYTES("GPU reserved memory  ") BYTES("Non-releasable memory")
                       COUNTS("Allocations          ") COUNTS("Active allocs        ")
                           COUNTS("GPU reserved segments") COUNTS("Non-releasable allocs")
                               SINGLE ROW("Oversize allocations ") SINGLE ROW("Oversize GPU segments") DOUBLE;
    asim_memory_stats stats = {0};
    char *text = summary_of(&stats, 0, false);
    cr_assert_str_eq(text, expected);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        cr_assert_eq(strchr(line, '\n') - line, 77); /* 75 and the two bars */
    free(text);
}

static void take(asim_memory_stats *stats, const char *metric, const char *pool, int64_t current,
                 int64_t peak, int64_t allocated, int64_t freed)
{
    const int64_t values[] = {current, peak, allocated, freed};
    static const char *const fields[] = {"current", "peak", "allocated", "freed"};
    for (int i = 0; i < 4; i++) {
        char name[100];
        snprintf(name, sizeof name, "%s%s%s.%s", metric, pool ? "." : "", pool ? pool : "", fields[i]);
        asim_memory_stats_take(stats, name, values[i]);
    }
}

/* R133 and R134: the prefix changes at 768 x 1024 bytes and at 750 000, and the row of all decides it. */
Test(summary, prefixes)
{
    asim_memory_stats stats = {0};
    take(&stats, "allocated_bytes", "all", 786431, 786432, INT64_C(5) << 30, INT64_C(768) << 30);
    take(&stats, "allocated_bytes", "large_pool", 1000, 1023, 1048575, 1 << 30);
    take(&stats, "allocated_bytes", "small_pool", 785431, 1024, 1048576, 0);
    take(&stats, "allocation", "all", 749999, 750000, 749999999, 750000000);
    take(&stats, "allocation", "large_pool", 1, 999, 1000, 999999);
    take(&stats, "oversize_segments", NULL, 7, 8, 9, 2);
    asim_memory_stats_take(&stats, "num_ooms", 12);
    asim_memory_stats_take(&stats, "num_alloc_retries", 345);
    asim_memory_stats_take(&stats, "no_such_name", 345);
    char *text = summary_of(&stats, 3, false);
    cr_assert(strstr(text, "| Allocated memory      | 786431 B   |    768 KiB |   5120 MiB |    768 GiB |\n"
                           "|       from large pool |   1000 B   |      0 KiB |      0 MiB |      1 GiB |\n"
                           "|       from small pool | 785431 B   |      1 KiB |      1 MiB |      0 GiB |\n"),
              "%s", text);
    cr_assert(strstr(text, "| Allocations           |  749999    |     750 K  |  749999 K  |     750 M  |\n"
                           "|       from large pool |       1    |       0 K  |       1 K  |       0 M  |\n"),
              "%s", text);
    cr_assert(
        strstr(text, "| Oversize GPU segments |       7    |       8    |       9    |       2    |\n"));
    cr_assert(
        strstr(text, "|            CUDA OOMs: 12           |        cudaMalloc retries: 345       |\n"));
    cr_assert(strstr(text, "memory summary, device ID 3                 |\n"));
    free(text);
}

/* R132 and R133, 1.13: no requested bytes, prefixes of two letters. */
Test(summary, old_release)
{
    asim_memory_stats stats = {0};
    take(&stats, "allocated_bytes", "all", 786431, 786432, 0, 0);
    char *text = summary_of(&stats, 0, true);
    cr_assert(strstr(text, "| Allocated memory      |  786431 B  |     768 KB |       0 B  |       0 B  |\n"),
              "%s", text);
    cr_assert_null(strstr(text, "Requested"));
    free(text);
}

/* R132: the rows of the pools are left out, and nothing else. */
Test(summary, abbreviated)
{
    asim_memory_stats stats = {0};
    take(&stats, "allocated_bytes", "all", 786431, 786432, 0, 0);
    char *whole = summary_of(&stats, 0, false), *text = summary_of_form(&stats, 0, false, true);
    const char *at = text;
    for (const char *line = whole; *line; line = strchr(line, '\n') + 1) {
        size_t length = (size_t)(strchr(line, '\n') - line) + 1;
        if (strncmp(line, "|       from ", 13) == 0)
            continue;
        cr_assert(strncmp(at, line, length) == 0, "at %.77s", line);
        at += length;
    }
    cr_assert_eq(*at, 0);
    free(whole);
    free(text);
}

/* R126: keys sorted as strings; R122: -1 for an unlimited split size. */
Test(torch_stats, sorted_and_signed)
{
    asim_torch_stats stats = {.mem = asim_hostmem_libc()};
    asim_torch_stats_take(&stats, "max_split_size", -1);
    asim_torch_stats_take(&stats, "allocation.all.peak", 2);
    asim_torch_stats_take(&stats, "allocated_bytes.all.peak", 1024);
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    asim_json json = {.out = out};
    asim_torch_stats_print(&json, NULL, &stats);
    fclose(out);
    cr_assert_str_eq(text, "{\n  \"allocated_bytes.all.peak\": 1024,\n  \"allocation.all.peak\": 2,\n"
                           "  \"max_split_size\": -1\n}\n");
    free(text);
    asim_torch_stats_fini(&stats);
}

Test(summary, missing_names_are_told)
{
    asim_memory_stats stats = {0};
    char name[64];
    cr_assert_str_eq(asim_memory_stats_missing(&stats, false, name), "allocated_bytes.all.current");
    memset(stats.known, 1, sizeof stats.known);
    cr_assert_null(asim_memory_stats_missing(&stats, false, name));
    for (int i = 24; i < 36; i++) /* requested_bytes */
        stats.known[i] = false;
    cr_assert_str_eq(asim_memory_stats_missing(&stats, false, name), "requested_bytes.all.current");
    cr_assert_null(asim_memory_stats_missing(&stats, true, name));
}

Test(json, escapes_and_nesting)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    asim_json json = {.out = out};
    asim_json_begin(&json, NULL, '{');
    asim_json_text(&json, "a\"b", "tab\t, quote\", back\\, bell\a, \xC3\xA9, bad \xFF\xC3(");
    asim_json_number(&json, "n", UINT64_MAX);
    asim_json_digest(&json, "d", 0xAB);
    asim_json_begin(&json, "list", '[');
    asim_json_null(&json, NULL);
    asim_json_end(&json, ']');
    asim_json_begin(&json, "empty", '{');
    asim_json_end(&json, '}');
    asim_json_end(&json, '}');
    fclose(out);
    cr_assert_str_eq(text, "{\n"
                           "  \"a\\\"b\": \"tab\\t, quote\\\", back\\\\, bell\\u0007, \xC3\xA9, bad "
                           "\\ufffd\\ufffd(\",\n"
                           "  \"n\": 18446744073709551615,\n"
                           "  \"d\": \"00000000000000ab\",\n"
                           "  \"list\": [\n"
                           "    null\n"
                           "  ],\n"
                           "  \"empty\": {}\n"
                           "}\n");
    free(text);
}

Test(units, people_read_them)
{
    char text[ASIM_UNITS_MAX];
    cr_assert_str_eq(asim_human_bytes(0, text), "0 B");
    cr_assert_str_eq(asim_human_bytes(1023, text), "1023 B");
    cr_assert_str_eq(asim_human_bytes(1536, text), "1.50 KiB");
    cr_assert_str_eq(asim_human_bytes(UINT64_C(80) << 30, text), "80.00 GiB");
    cr_assert_str_eq(asim_human_bytes(UINT64_MAX, text), "16.00 EiB");
    cr_assert_str_eq(asim_human_count(999, text), "999");
    cr_assert_str_eq(asim_human_count(1234567, text), "1 234 567");
    cr_assert_str_eq(asim_human_ns(999, text), "999 ns");
    cr_assert_str_eq(asim_human_ns(1500, text), "1.5 us");
    cr_assert_str_eq(asim_human_ns(2500000, text), "2.5 ms");
    cr_assert_str_eq(asim_human_ns(UINT64_C(90000000000), text), "90.00 s");
    cr_assert_str_eq(asim_human_ppm(123456, text), "12.34 %");
}

Test(nearest, finds_what_was_meant)
{
    static const char *const names[] = {"policy", "params", "capacity", "seed", NULL};
    cr_assert_str_eq(asim_nearest("polcy", names), "policy");
    cr_assert_str_eq(asim_nearest("opliyc", names), "policy");
    cr_assert_str_eq(asim_nearest("seeed", names), "seed");
    cr_assert_null(asim_nearest("frobnicate", names));
    char longest[200];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    cr_assert_null(asim_nearest(longest, names));
}

static bool holds(const char *text, uint64_t value)
{
    asim_run_record record = {0};
    asim_expectation expectation;
    asim_err err = ASIM_ERR_INIT;
    cr_assert_eq(asim_expect_parse(text, &expectation, &err), ASIM_OK, "%s", err.message);
    for (unsigned i = 0; i < ASIM_METRIC_COUNT; i++)
        record.metrics[i] = value;
    return asim_expect_holds(&expectation, &record);
}

Test(expect, relations)
{
    cr_assert(holds("no-oom", 0));
    cr_assert_not(holds("no-oom", 1));
    cr_assert(holds("peak_reserved_bytes <= 1 KiB", 1024));
    cr_assert_not(holds("peak_reserved_bytes<=1KiB", 1025));
    cr_assert(holds("ooms>=3", 3) && !holds("ooms>=3", 2));
    cr_assert(holds("ooms>3", 4) && !holds("ooms>3", 3));
    cr_assert(holds("ooms<3", 2) && !holds("ooms<3", 3));
    cr_assert(holds("ooms==3", 3) && !holds("ooms==3", 4));
    cr_assert(holds("ooms!=3", 4) && !holds("ooms!=3", 3));
}

Test(expect, nonsense_is_refused)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"", "write no-oom, or a metric"},
        {"ooms", "write no-oom, or a metric"},
        {"ooms=3", "write no-oom, or a metric"},
        {"<=3", "write no-oom, or a metric"},
        {"ooms<=", "is not a whole decimal number"},
        {"ooms<=1KiB", "is not a whole decimal number"},
        {"peak_reserved_bytes<=much", "is not a size"},
        {"peak_reserved_byte<=1", "did you mean peak_reserved_bytes?"},
        {"nothing_like_it_at_all<=1", "there is no metric"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        asim_expectation expectation;
        asim_err err = ASIM_ERR_INIT;
        cr_assert_eq(asim_expect_parse(cases[i].text, &expectation, &err), ASIM_E_USAGE, "%s", cases[i].text);
        cr_assert(strstr(err.message, cases[i].part), "%s: %s", cases[i].text, err.message);
    }
}

struct values {
    bool flag;
    const char *text;
    asim_option_list list;
    uint64_t number, size;
    int choice;
};

static const char *const choices[] = {"red", "green", NULL};
static const asim_option table[] = {
    {.name = "flag",
     .letter = 'f',
     .type = ASIM_OPTION_FLAG,
     .offset = offsetof(struct values, flag),
     .help = "h"},
    {.name = "text",
     .letter = 't',
     .type = ASIM_OPTION_TEXT,
     .offset = offsetof(struct values, text),
     .argument = "T",
     .help = "h"},
    {.name = "list",
     .type = ASIM_OPTION_LIST,
     .offset = offsetof(struct values, list),
     .argument = "L",
     .help = "h"},
    {.name = "number",
     .letter = 'n',
     .type = ASIM_OPTION_NUMBER,
     .offset = offsetof(struct values, number),
     .argument = "N",
     .help = "h",
     .min = 2,
     .max = 9},
    {.name = "size",
     .type = ASIM_OPTION_SIZE,
     .offset = offsetof(struct values, size),
     .argument = "S",
     .help = "h",
     .max = INT64_MAX},
    {.name = "colour",
     .type = ASIM_OPTION_CHOICE,
     .offset = offsetof(struct values, choice),
     .argument = "C",
     .help = "h",
     .choices = choices},
};
static const asim_verb verb = {.name = "verb",
                               .operands = "FILE...",
                               .summary = "s",
                               .example = "verb x",
                               .options = table,
                               .option_count = sizeof table / sizeof table[0],
                               .values_size = sizeof(struct values),
                               .min_operands = 1,
                               .max_operands = 2};

static asim_code parse(struct values *values, asim_err *err, asim_cli *cli, const char *line,
                       char ***ret_operands, size_t *ret_count)
{
    static char buffer[300];
    static char *words[20];
    int count = 0;
    snprintf(buffer, sizeof buffer, "verb %s", line);
    for (char *word = strtok(buffer, " "); word && count < 19; word = strtok(NULL, " "))
        words[count++] = word;
    words[count] = NULL;
    bool help = false;
    memset(values, 0, sizeof *values);
    cli->mem = asim_hostmem_libc();
    return asim_options_parse(&verb, count, words, cli, values, ret_operands, ret_count, &help, err);
}

Test(options, every_type_in_any_place)
{
    struct values values;
    asim_cli cli = {0};
    asim_err err = ASIM_ERR_INIT;
    char **operands;
    size_t count;
    cr_assert_eq(
        parse(&values, &err, &cli,
              "one -fn 3 --list=a --text=b=c --size 2KiB --col green --list b -q --no-progress -- -two",
              &operands, &count),
        ASIM_OK, "%s", err.message);
    cr_assert_eq(count, 2);
    cr_assert_str_eq(operands[0], "one");
    cr_assert_str_eq(operands[1], "-two");
    cr_assert(values.flag && cli.quiet && cli.no_progress);
    cr_assert_eq(values.number, 3);
    cr_assert_eq(values.size, 2048);
    cr_assert_eq(values.choice, 1);
    cr_assert_str_eq(values.text, "b=c");
    cr_assert_eq(values.list.count, 2);
    cr_assert_str_eq(values.list.items[1], "b");
    asim_options_fini(&verb, &values, cli.mem);
}

Test(options, errors_say_what_and_where_to_look)
{
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"", "verb needs FILE...; see 'allocsim verb --help'"},
        {"a b c", "too many operands: 'c'; see 'allocsim verb --help'"},
        {"a --colur red", "there is no option --colur; did you mean --colour?"},
        {"a --frobnicate", "there is no option --frobnicate; see 'allocsim verb --help'"},
        {"a -x", "there is no option -x; see 'allocsim verb --help'"},
        {"a --flag=1", "option --flag takes no value; see 'allocsim verb --help'"},
        {"a --n 3", "option --n is ambiguous: --no-progress or --number?"},
        {"a --number", "option --number needs a value; see 'allocsim verb --help'"},
        {"a -n", "option -n needs a value; see 'allocsim verb --help'"},
        {"a --number 1", "--number: 1 is out of range; allowed: 2 to 9"},
        {"a --number x", "--number: 'x' is not a whole decimal number"},
        {"a --colour blue", "--colour: 'blue' is none of its values: red, green"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct values values;
        asim_cli cli = {0};
        asim_err err = ASIM_ERR_INIT;
        char **operands;
        size_t count;
        cr_assert_eq(parse(&values, &err, &cli, cases[i].line, &operands, &count), ASIM_E_USAGE, "%s",
                     cases[i].line);
        cr_assert_str_eq(err.message, cases[i].message);
    }
}
