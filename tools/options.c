#include "sim/params.h"
#include "tools/cli.h"

#include <getopt.h>
#include <inttypes.h>
#include <string.h>

enum {
    CODE_HELP = 1000, /* getopt_long's values: these, else CODE_FIRST + index in the verb's table */
    CODE_QUIET,
    CODE_NO_PROGRESS,
    CODE_FIRST,
    OPTIONS_MAX = 40,
};

static asim_code set_value(const asim_option *option, const char *text, void *values, const asim_hostmem *mem,
                           asim_err *err)
{
    void *value = (char *)values + option->offset;
    asim_code code = ASIM_OK;
    switch (option->type) {
    case ASIM_OPTION_FLAG:
        *(bool *)value = true;
        break;
    case ASIM_OPTION_TEXT:
        *(const char **)value = text;
        break;
    case ASIM_OPTION_LIST: {
        asim_option_list *list = value;
        void *items = mem->resize(mem->ctx, list->items, list->count * sizeof *list->items,
                                  (list->count + 1) * sizeof *list->items);
        if (!items)
            return asim_fail_memory(err, (list->count + 1) * sizeof *list->items);
        list->items = items;
        list->items[list->count++] = text;
        break;
    }
    case ASIM_OPTION_NUMBER: {
        uint64_t number;
        code = asim_parse_u64(text, &number, err);
        if (!code && (number < option->min || number > option->max))
            code = asim_fail(err, ASIM_E_USAGE, "%.64s is out of range; allowed: %" PRIu64 " to %" PRIu64,
                             text, option->min, option->max);
        if (!code)
            *(uint64_t *)value = number;
        break;
    }
    case ASIM_OPTION_SIZE: {
        uint64_t size;
        code = asim_parse_size(text, &size, err);
        if (!code && (size < option->min || size > option->max))
            code = asim_fail(err, ASIM_E_USAGE,
                             "%.64s is out of range; allowed: %" PRIu64 " to %" PRIu64 " bytes", text,
                             option->min, option->max);
        if (!code)
            *(uint64_t *)value = size;
        break;
    }
    case ASIM_OPTION_CHOICE: {
        int found = -1;
        char list[200] = "";
        for (int i = 0; option->choices[i]; i++) {
            size_t length = strlen(list);
            snprintf(list + length, sizeof list - length, "%s%s", i ? ", " : "", option->choices[i]);
            if (strcmp(option->choices[i], text) == 0)
                found = i;
        }
        if (found < 0)
            code = asim_fail(err, ASIM_E_USAGE, "'%.64s' is none of its values: %s", text, list);
        else
            *(int *)value = found;
        break;
    }
    }
    return code ? asim_err_context(err, "--%s", option->name) : ASIM_OK;
}

static asim_code fail_unknown(const asim_verb *verb, const char *word, int letter, const struct option *table,
                              asim_err *err)
{
    if (letter)
        return asim_fail(err, ASIM_E_USAGE, "there is no option -%c; see 'allocsim %s --help'", letter,
                         verb->name);
    char name[64];
    snprintf(name, sizeof name, "%s", word + 2);
    name[strcspn(name, "=")] = 0;
    const char *names[OPTIONS_MAX + 1];
    size_t count = 0, matches = 0;
    char matching[200] = "";
    for (; table[count].name; count++) {
        names[count] = table[count].name;
        if (strncmp(table[count].name, name, strlen(name)) != 0)
            continue;
        size_t length = strlen(matching);
        snprintf(matching + length, sizeof matching - length, "%s--%s", matches++ ? " or " : "",
                 table[count].name);
    }
    names[count] = NULL;
    if (matches == 1)
        return asim_fail(err, ASIM_E_USAGE, "option %s takes no value; see 'allocsim %s --help'", matching,
                         verb->name);
    if (matches > 1)
        return asim_fail(err, ASIM_E_USAGE, "option --%s is ambiguous: %s?", name, matching);
    const char *near = asim_nearest(name, names);
    if (near)
        return asim_fail(err, ASIM_E_USAGE, "there is no option --%s; did you mean --%s?", name, near);
    return asim_fail(err, ASIM_E_USAGE, "there is no option --%s; see 'allocsim %s --help'", name,
                     verb->name);
}

asim_code asim_options_parse(const asim_verb *verb, int argc, char **argv, asim_cli *cli, void *values,
                             char ***ret_operands, size_t *ret_count, bool *ret_help, asim_err *err)
{
    struct option table[OPTIONS_MAX + 1] = {{"help", no_argument, NULL, CODE_HELP},
                                            {"quiet", no_argument, NULL, CODE_QUIET},
                                            {"no-progress", no_argument, NULL, CODE_NO_PROGRESS}};
    char letters[2 * OPTIONS_MAX + 8] = ":hq";
    size_t known = 3;
    if (verb->option_count > OPTIONS_MAX - known)
        return asim_fail(err, ASIM_E_BUG, "the verb %s has too many options", verb->name);
    for (size_t i = 0; i < verb->option_count; i++) {
        const asim_option *option = &verb->options[i];
        bool flag = option->type == ASIM_OPTION_FLAG;
        table[known++] =
            (struct option){option->name, flag ? no_argument : required_argument, NULL, CODE_FIRST + (int)i};
        size_t length = strlen(letters);
        if (option->letter)
            snprintf(letters + length, sizeof letters - length, "%c%s", option->letter, flag ? "" : ":");
    }
    optind = 0; /* glibc: start afresh */
    opterr = 0;
    for (;;) {
        optopt = 0;
        int found = getopt_long(argc, argv, letters, table, NULL);
        if (found == -1)
            break;
        const char *word = argv[optind - 1];
        if (found == '?') {
            /* A known long option that was given a value it doesn't take leaves its code in optopt. */
            int letter = optopt > 0 && optopt < CODE_HELP ? optopt : 0;
            return fail_unknown(verb, word, letter, table, err);
        }
        if (found == ':')
            return asim_fail(err, ASIM_E_USAGE, "option %s needs a value; see 'allocsim %s --help'", word,
                             verb->name);
        if (found == 'h' || found == CODE_HELP) {
            *ret_help = true;
            return ASIM_OK;
        }
        if (found == 'q' || found == CODE_QUIET) {
            cli->quiet = true;
            continue;
        }
        if (found == CODE_NO_PROGRESS) {
            cli->no_progress = true;
            continue;
        }
        for (size_t i = 0; i < verb->option_count && found < CODE_HELP; i++)
            if (verb->options[i].letter == found)
                found = CODE_FIRST + (int)i;
        asim_code code = set_value(&verb->options[found - CODE_FIRST], optarg, values, cli->mem, err);
        if (code)
            return code;
    }
    size_t count = (size_t)(argc - optind);
    if (count < verb->min_operands)
        return asim_fail(err, ASIM_E_USAGE, "%s needs %s; see 'allocsim %s --help'", verb->name,
                         verb->operands, verb->name);
    if (count > verb->max_operands)
        return asim_fail(err, ASIM_E_USAGE, "too many operands: '%.200s'; see 'allocsim %s --help'",
                         argv[optind + (int)verb->max_operands], verb->name);
    *ret_operands = argv + optind;
    *ret_count = count;
    return ASIM_OK;
}

void asim_options_fini(const asim_verb *verb, void *values, const asim_hostmem *mem)
{
    for (size_t i = 0; i < verb->option_count; i++)
        if (verb->options[i].type == ASIM_OPTION_LIST) {
            asim_option_list *list = (asim_option_list *)(void *)((char *)values + verb->options[i].offset);
            asim_mem_free(mem, (void *)list->items, list->count, sizeof *list->items);
            *list = (asim_option_list){0};
        }
}

static void print_option(FILE *out, const asim_option *option, int width)
{
    char left[80], letter[4] = "  ";
    if (option->letter)
        snprintf(letter, sizeof letter, "-%c", option->letter);
    snprintf(left, sizeof left, "%s%c --%s%s%s", letter, option->letter ? ',' : ' ', option->name,
             option->argument ? " " : "", option->argument ? option->argument : "");
    fprintf(out, "  %-*s  %s\n", width, left, option->help);
}

void asim_help_verb(const asim_verb *verb, FILE *out)
{
    static const asim_option common = {
        .name = "quiet", .letter = 'q', .help = "no notes; --no-progress: no bar; --help: this"};
    fprintf(out, "Usage: allocsim %s [options]%s%s\n%s.\n", verb->name, verb->operands[0] ? " " : "",
            verb->operands, verb->summary);
    if (verb->text)
        fprintf(out, "%s\n", verb->text);
    fputc('\n', out);
    int width = 12;
    for (size_t i = 0; i < verb->option_count; i++) {
        const asim_option *option = &verb->options[i];
        int length =
            6 + (int)strlen(option->name) + (option->argument ? 1 + (int)strlen(option->argument) : 0);
        if (length > width)
            width = length;
    }
    for (size_t i = 0; i < verb->option_count; i++)
        if (verb->options[i].help)
            print_option(out, &verb->options[i], width);
    print_option(out, &common, width);
    fprintf(out, "\nExample: allocsim %s\n", verb->example);
}
