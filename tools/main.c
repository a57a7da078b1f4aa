/* allocsim: finds the verb, reads its options, runs it, checks that the output arrived. */
#include "tools/cli.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool terminal_has_colours(void)
{
    const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && !(no_colour && no_colour[0]) && terminal && strcmp(terminal, "dumb") != 0;
}

static int run_verb(const asim_verb *verb, int argc, char **argv, asim_cli *cli)
{
    asim_err err = ASIM_ERR_INIT;
    void *values = asim_mem_new(cli->mem, 1, verb->values_size + 1);
    if (!values) {
        asim_fail_memory(&err, verb->values_size);
        return asim_say_error(&err);
    }
    if (verb->defaults)
        memcpy(values, verb->defaults, verb->values_size);
    char **operands = NULL;
    size_t count = 0;
    bool help = false;
    int status;
    if (asim_options_parse(verb, argc, argv, cli, values, &operands, &count, &help, &err)) {
        status = asim_say_error(&err);
    } else if (help) {
        asim_help_verb(verb, stdout);
        status = 0;
    } else {
        status = verb->run(cli, values, operands, count);
    }
    asim_options_fini(verb, values, cli->mem);
    asim_mem_free(cli->mem, values, 1, verb->values_size + 1);
    return status;
}

int main(int argc, char **argv)
{
    /* A file that may grow no further is an error like a full disk, rather than our death. */
    signal(SIGXFSZ, SIG_IGN);
    asim_cli cli = {.mem = asim_hostmem_libc(), .colour = terminal_has_colours()};
    const char *first = argc < 2 ? "--help" : argv[1];
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0) {
        asim_help_program(stdout);
        return asim_finish_output(0);
    }
    if (strcmp(first, "--version") == 0) {
        puts("allocsim " ASIM_PROGRAM_VERSION);
        return asim_finish_output(0);
    }
    if (first[0] == '-') {
        asim_say("there is no option %.64s before a verb; see 'allocsim help'", first);
        return ASIM_E_USAGE;
    }
    size_t words;
    const asim_verb *verb = asim_verb_find(argv + 1, (size_t)(argc - 1), &words);
    bool help = argc == 3 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0);
    if (!verb && help && asim_help_group(first, stdout))
        return asim_finish_output(0);
    if (!verb)
        return asim_verb_unknown(argv + 1, (size_t)(argc - 1));
    /* getopt takes its argv[0] for the program's name. */
    return asim_finish_output(run_verb(verb, argc - (int)words, argv + words, &cli));
}
