/* traces/words.h - the words of the text form that stand for numbers. Shared by its writer and its reader. */
#ifndef ASIM_TRACES_WORDS_H
#define ASIM_TRACES_WORDS_H

/* Each list ends with NULL and is indexed by the value. */
extern const char *const asim_sync_words[];  /* asim_sync_scope */
extern const char *const asim_mark_words[];  /* asim_mark_kind */
extern const char *const asim_phase_words[]; /* flags of MARK */
extern const char *const asim_reset_words[]; /* id of STATS_RESET */
extern const char *const asim_call_words[];  /* asim_call_kind */
extern const char *const asim_block_words[]; /* asim_block_state */

#endif
