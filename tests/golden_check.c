/* tests/golden_check.c - replays golden files through the engine: is the policy the recorded allocator?
 *
 * Exit status: 0 every case equal; 1 a difference; 2 usage; 3 a file that is not what it should be;
 * 4 a fault of ours; 5 the system refused.
 */
#include "policies/registry.h"
#include "tests/golden_replay.h"

#include <regex.h>
#include <stdio.h>

static const char usage[] =
    "usage: golden_check [options] FILE...\n"
    "Replays golden files (plain or zstd) and compares every result, statistic, map and device count.\n"
    "  --policy NAME    policy to check (torchcache)\n"
    "  --torch VERSION  release whose rules it follows (that of the folder torchcache-VERSION; otherwise as "
    "the\n"
    "                   number of statistics tells, 1.13, 2.1 or 2.6)\n"
    "  --cases REGEX    only cases whose name matches the extended regular expression\n"
    "  --check LEVEL    off, placements or full: referee and self-checks of the policy (placements)\n"
    "  --table          a table of the files instead of a line each\n"
    "Example: golden_check --cases '^edges-00' tests/golden/torchcache/edges.txt.zst\n";

typedef struct file_tally {
    uint64_t cases, equal, ops;
} file_tally;

typedef struct run_settings {
    golden_options options;
    regex_t cases;
    bool has_cases, table;
} run_settings;

/* The release that the file's folder names, torchcache-VERSION, if any. */
static bool release_of(const char *path, char *ret_release, size_t size)
{
    static const char prefix[] = "torchcache-";
    const char *slash = strrchr(path, '/'), *folder = slash;
    while (folder && folder > path && folder[-1] != '/')
        folder--;
    size_t length = folder ? (size_t)(slash - folder) : 0;
    if (length < sizeof prefix || memcmp(folder, prefix, strlen(prefix)) != 0)
        return false;
    snprintf(ret_release, size, "%.*s", (int)(length - strlen(prefix)), folder + strlen(prefix));
    return true;
}

static asim_code check_file(const char *path, const run_settings *settings, file_tally *tally,
                            golden_text *difference, asim_err *err)
{
    golden_reader *reader;
    const golden_case *c;
    golden_options options = settings->options;
    char release[32];
    if (!options.release && release_of(path, release, sizeof release))
        options.release = release;
    asim_code code = golden_reader_open(path, &reader, err);
    if (code)
        return code;
    while (!(code = golden_reader_next(reader, &c, err)) && c) {
        if (settings->has_cases && regexec(&settings->cases, c->name, 0, NULL, 0))
            continue;
        bool equal = false;
        size_t length = difference->length;
        if ((code = golden_replay(c, &options, &equal, difference, err))) {
            asim_err_context(err, "case %s", c->name);
            break;
        }
        if (length)
            difference->length = length; /* the first one only */
        tally->cases++;
        tally->equal += equal;
        tally->ops += c->op_count;
    }
    golden_reader_close(reader);
    return code;
}

/* "edges", or "2.9 edges" in a folder of a release's. */
static void family_of(const char *path, char *ret_name, size_t size)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *dot = strchr(base, '.');
    char release[32] = "";
    bool named = release_of(path, release, sizeof release);
    int length = (int)(dot && dot != base ? (size_t)(dot - base) : strlen(base));
    snprintf(ret_name, size, "%s%s%.*s", release, named ? " " : "", length, base);
}

static void print_tally(const run_settings *settings, const char *family, const file_tally *tally)
{
    const unsigned long long cases = tally->cases, equal = tally->equal, ops = tally->ops;
    if (settings->table)
        printf("%-18s %6llu %6llu %10llu\n", family, cases, equal, ops);
    else
        printf("%s: %llu of %llu cases equal, %llu operations\n", family, equal, cases, ops);
}

static int run(char **paths, int count, const run_settings *settings)
{
    int status = 0;
    file_tally total = {0};
    if (settings->table)
        printf("%-18s %6s %6s %10s\n", "family", "cases", "equal", "operations");
    for (int i = 0; i < count; i++) {
        asim_err err = ASIM_ERR_INIT;
        file_tally tally = {0};
        golden_text difference = {0};
        char family[64];
        asim_code code = check_file(paths[i], settings, &tally, &difference, &err);
        family_of(paths[i], family, sizeof family);
        if (code) {
            fflush(stdout);
            fprintf(stderr, "golden_check: %s: %s\n", paths[i], err.message);
        } else {
            print_tally(settings, family, &tally);
        }
        if (difference.length)
            printf("%.*s", (int)difference.length, difference.bytes);
        golden_text_fini(&difference);
        int outcome = code ? (int)code : tally.equal != tally.cases;
        status = outcome > status ? outcome : status;
        total.cases += tally.cases;
        total.equal += tally.equal;
        total.ops += tally.ops;
    }
    if (settings->table)
        print_tally(settings, "all", &total);
    if (!total.cases && !status) {
        fprintf(stderr, "golden_check: no case was replayed; check the files and --cases\n");
        status = ASIM_E_USAGE;
    }
    return status;
}

static int complain(const char *what, const char *value)
{
    fprintf(stderr, "golden_check: %s%s\n%s", what, value, usage);
    return ASIM_E_USAGE;
}

static int check_level(const char *text, asim_check *ret_check)
{
    static const char *const names[] = {"off", "placements", "full"};
    for (int i = 0; i < 3; i++)
        if (!strcmp(text, names[i])) {
            *ret_check = (asim_check)i;
            return 0;
        }
    return complain("--check wants off, placements or full, not ", text);
}

static int parse_option(const char *name, const char *value, run_settings *settings)
{
    if (!strcmp(name, "--policy")) {
        settings->options.policy = asim_policy_find(value);
        return settings->options.policy ? 0 : complain("no such policy: ", value);
    }
    if (!strcmp(name, "--torch")) {
        settings->options.release = value;
        return 0;
    }
    if (!strcmp(name, "--check"))
        return check_level(value, &settings->options.check);
    if (settings->has_cases)
        regfree(&settings->cases);
    settings->has_cases = regcomp(&settings->cases, value, REG_EXTENDED | REG_NOSUB) == 0;
    return settings->has_cases ? 0 : complain("not a regular expression: ", value);
}

int main(int argc, char **argv)
{
    run_settings settings = {.options = {asim_policy_find("torchcache"), NULL, ASIM_CHECK_PLACEMENTS}};
    int i = 1, status = 0;
    for (; i < argc && argv[i][0] == '-' && !status; i++) {
        static const char *const with_value[] = {"--policy", "--torch", "--cases", "--check"};
        bool takes = false;
        for (size_t k = 0; k < sizeof with_value / sizeof *with_value; k++)
            takes |= !strcmp(argv[i], with_value[k]);
        if (!strcmp(argv[i], "--help")) {
            fputs(usage, stdout);
            return 0;
        }
        if (!strcmp(argv[i], "--table"))
            settings.table = true;
        else if (!takes)
            status = complain("unknown option ", argv[i]);
        else if (i + 1 == argc)
            status = complain("a value is missing behind ", argv[i]);
        else {
            status = parse_option(argv[i], argv[i + 1], &settings);
            i++;
        }
    }
    if (!status && i == argc)
        status = complain("no file", "");
    if (!status)
        status = run(argv + i, argc - i, &settings);
    if (settings.has_cases)
        regfree(&settings.cases);
    if (fflush(stdout) && !status) {
        perror("golden_check: standard output");
        status = ASIM_E_SYSTEM;
    }
    return status;
}
