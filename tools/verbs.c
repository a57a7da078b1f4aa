#include "tools/cli.h"

#include <string.h>

extern const asim_verb asim_verb_run, asim_verb_sweep, asim_verb_tune, asim_verb_fit, asim_verb_compare,
    asim_verb_report, asim_verb_import, asim_verb_trace_info, asim_verb_trace_check, asim_verb_trace_head,
    asim_verb_policies, asim_verb_estimate, asim_verb_gen, asim_verb_db_ls, asim_verb_db_check,
    asim_verb_db_merge, asim_verb_help;

const asim_verb *const asim_verbs[] = {
    &asim_verb_run,        &asim_verb_sweep,      &asim_verb_tune,
    &asim_verb_fit,        &asim_verb_compare,    &asim_verb_report,
    &asim_verb_import,     &asim_verb_trace_info, &asim_verb_trace_check,
    &asim_verb_trace_head, &asim_verb_policies,   &asim_verb_estimate,
    &asim_verb_gen,        &asim_verb_db_ls,      &asim_verb_db_check,
    &asim_verb_db_merge,   &asim_verb_help,       NULL,
};

/* Names that documents promise and this version does not have yet. */
static const char *const later[] = {"explain", "export", "record", "gpu", "trace cut", "trace merge", NULL};

static bool names_verb(const char *name, char **words, size_t count, size_t *ret_words)
{
    const char *space = strchr(name, ' ');
    if (!space) {
        *ret_words = 1;
        return count >= 1 && strcmp(words[0], name) == 0;
    }
    *ret_words = 2;
    return count >= 2 && strlen(words[0]) == (size_t)(space - name) &&
           memcmp(words[0], name, (size_t)(space - name)) == 0 && strcmp(words[1], space + 1) == 0;
}

const asim_verb *asim_verb_find(char **words, size_t count, size_t *ret_words)
{
    for (size_t i = 0; asim_verbs[i]; i++)
        if (names_verb(asim_verbs[i]->name, words, count, ret_words))
            return asim_verbs[i];
    return NULL;
}

/* The verbs of a group ("trace"), as "info, check, head"; empty when there is no such group. */
static void list_group(const char *group, char *ret_list, size_t capacity)
{
    size_t length = strlen(group);
    ret_list[0] = 0;
    for (size_t i = 0; asim_verbs[i]; i++) {
        const char *name = asim_verbs[i]->name;
        if (strncmp(name, group, length) != 0 || name[length] != ' ')
            continue;
        size_t used = strlen(ret_list);
        snprintf(ret_list + used, capacity - used, "%s%s", used ? ", " : "", name + length + 1);
    }
}

int asim_verb_unknown(char **words, size_t count)
{
    size_t taken;
    for (size_t i = 0; later[i]; i++)
        if (names_verb(later[i], words, count, &taken)) {
            asim_say("'%s' is not available in this version; 'allocsim help' lists what is", later[i]);
            return ASIM_E_USAGE;
        }
    char group[200];
    list_group(words[0], group, sizeof group);
    if (group[0] && (count < 2 || words[1][0] == '-')) {
        asim_say("'%s' needs one of: %s; see 'allocsim help'", words[0], group);
        return ASIM_E_USAGE;
    }
    if (group[0]) {
        asim_say("there is no '%s %.64s'; '%s' has: %s", words[0], words[1], words[0], group);
        return ASIM_E_USAGE;
    }
    const char *names[32];
    size_t known = 0;
    for (size_t i = 0; asim_verbs[i] && known < 31; i++)
        names[known++] = asim_verbs[i]->name;
    names[known] = NULL;
    const char *near = asim_nearest(words[0], names);
    if (near)
        asim_say("there is no command '%.64s'; did you mean '%s'?", words[0], near);
    else
        asim_say("there is no command '%.64s'; see 'allocsim help'", words[0]);
    return ASIM_E_USAGE;
}

bool asim_help_group(const char *group, FILE *out)
{
    size_t length = strlen(group);
    bool found = false;
    for (size_t i = 0; asim_verbs[i]; i++) {
        const asim_verb *verb = asim_verbs[i];
        if (strncmp(verb->name, group, length) != 0 || verb->name[length] != ' ')
            continue;
        if (!found)
            fprintf(out, "Usage: allocsim %s VERB [options] ...\n\n", group);
        found = true;
        fprintf(out, "  %-12s  %s\n", verb->name, verb->summary);
    }
    if (found)
        fprintf(out, "\n'allocsim %s VERB --help' shows a verb's options.\n", group);
    return found;
}

void asim_help_program(FILE *out)
{
    fputs("Usage: allocsim VERB [options] ...\n"
          "Simulates GPU memory allocators on recorded workloads.\n\n",
          out);
    for (size_t i = 0; asim_verbs[i]; i++)
        fprintf(out, "  %-12s  %s\n", asim_verbs[i]->name, asim_verbs[i]->summary);
    fputs("\n'allocsim VERB --help' shows a verb's options; 'allocsim --version' the version.\n"
          "\nExample: allocsim run --policy torchcache --max-split 256 trace.zst\n",
          out);
}
