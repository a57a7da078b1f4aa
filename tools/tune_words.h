/* tools/tune_words.h - what `tune` says in sentences: lines to paste, warnings, what stays uncertain. */
#ifndef ASIM_TOOLS_TUNE_WORDS_H
#define ASIM_TOOLS_TUNE_WORDS_H

#include "tools/tune_print.h"

typedef struct asim_tune_lines {
    char lines[ASIM_TUNE_LINES_MAX][ASIM_TUNE_LINE_MAX];
    size_t count; /* lines beyond ASIM_TUNE_LINES_MAX are left out */
} asim_tune_lines;

/* What to put into the shell and the program for a setting. */
void asim_tune_paste(const asim_tune_view *view, const asim_tune_setting *setting, asim_tune_lines *lines);
/* The settings that fight. */
void asim_tune_warnings(const asim_tune_view *view, asim_tune_lines *lines);
/* What the answer stands on. */
void asim_tune_uncertain(const asim_tune_view *view, asim_tune_lines *lines);

#endif
