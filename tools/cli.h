/* tools/cli.h - the program's frame: verbs, their options, and how it speaks.
 *
 * Data goes to standard output with stdio; everything else to standard error through the functions below. A
 * verb is a const table in its own file (cmd_NAME.c), listed in tools/verbs.c; parsing, --help and the
 * manual's synopsis come from its option table. tools/README.md says how to add one.
 */
#ifndef ASIM_TOOLS_CLI_H
#define ASIM_TOOLS_CLI_H

#include "sim/err.h"
#include "sim/hostmem.h"
#include "sim/nearest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ASIM_PROGRAM_VERSION "0.1.0"

/* Exit statuses are those of asim_code, and this one: the answer is no. */
enum {
    ASIM_EXIT_NO = 1
};

typedef enum asim_option_type {
    ASIM_OPTION_FLAG,   /* bool */
    ASIM_OPTION_TEXT,   /* const char * */
    ASIM_OPTION_LIST,   /* asim_option_list: may be given several times */
    ASIM_OPTION_NUMBER, /* uint64_t within min and max */
    ASIM_OPTION_SIZE,   /* uint64_t, bytes; see asim_parse_size */
    ASIM_OPTION_CHOICE, /* int: index into choices */
} asim_option_type;

typedef struct asim_option_list {
    const char **items;
    size_t count;
} asim_option_list;

typedef struct asim_option {
    const char *name; /* long, without the dashes */
    char letter;      /* short form, or 0 */
    asim_option_type type;
    size_t offset;        /* of the value in the verb's values */
    const char *argument; /* as help shows it; NULL for a flag */
    const char *help;     /* a line; NULL: another option's line names this one, too */
    uint64_t min, max;
    const char *const *choices; /* ended by NULL */
} asim_option;

/* What every verb is given. */
typedef struct asim_cli {
    const asim_hostmem *mem;
    bool quiet;       /* no notes */
    bool no_progress; /* no progress bar */
    bool colour;      /* standard output is a terminal that shows colours */
} asim_cli;

typedef struct asim_verb {
    const char *name;     /* "run", or of a group "trace info" */
    const char *operands; /* as help shows them: "TRACE..." */
    const char *summary;  /* one line */
    const char *text;     /* more lines of help, or NULL */
    const char *example;  /* a command line, without "allocsim " */
    const asim_option *options;
    size_t option_count;
    size_t values_size;
    const void *defaults; /* values before the options are read, or NULL: zeros */
    size_t min_operands, max_operands;
    int (*run)(asim_cli *cli, const void *values, char **operands,
               size_t count); /* returns the exit status */
} asim_verb;

/* The verbs, in the order of help, ended by NULL. */
extern const asim_verb *const asim_verbs[];

/* The verb of that name, or NULL; *ret_words is how many words it takes up. */
const asim_verb *asim_verb_find(char **words, size_t count, size_t *ret_words);
/* Answers for words that name no verb: writes what is wrong and what to do; returns ASIM_E_USAGE. */
int asim_verb_unknown(char **words, size_t count);

void asim_help_program(FILE *out);
/* The verbs of a group such as "trace"; false, and nothing printed, when there is no such group. */
bool asim_help_group(const char *group, FILE *out);
void asim_help_verb(const asim_verb *verb, FILE *out);

/* Reads options and operands (argv[0] is skipped) into values, which the caller zeroed or defaulted.
 * *ret_help:
 * --help was among them. Messages end with where to look. */
asim_code asim_options_parse(const asim_verb *verb, int argc, char **argv, asim_cli *cli, void *values,
                             char ***ret_operands, size_t *ret_count, bool *ret_help, asim_err *err);
void asim_options_fini(const asim_verb *verb, void *values, const asim_hostmem *mem);

/* "allocsim: TEXT" on standard error. Control characters in it are shown, not sent. */
void asim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, but not with --quiet. */
void asim_note(const asim_cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Called before anything is said, by any thread: a progress bar makes room. NULL: nothing. */
void asim_say_before(void (*before)(void *ctx), void *ctx);
/* Says err's message and returns its code, the exit status. */
int asim_say_error(const asim_err *err);

/* Flushes standard output; returns status, or ASIM_E_SYSTEM after saying why it could not be written. */
int asim_finish_output(int status);

#endif
