#include "tools/cli.h"

static int run(asim_cli *cli, const void *values, char **operands, size_t count)
{
    (void)cli;
    (void)values;
    if (count == 0) {
        asim_help_program(stdout);
        return 0;
    }
    size_t words;
    const asim_verb *verb = asim_verb_find(operands, count, &words);
    if (!verb && count == 1 && asim_help_group(operands[0], stdout))
        return 0;
    if (!verb)
        return asim_verb_unknown(operands, count);
    asim_help_verb(verb, stdout);
    return 0;
}

extern const asim_verb asim_verb_help;
const asim_verb asim_verb_help = {
    .name = "help",
    .operands = "[VERB]",
    .summary = "The list of verbs, or one verb's options",
    .example = "help run",
    .max_operands = 2,
    .run = run,
};
