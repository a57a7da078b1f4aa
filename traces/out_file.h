/* traces/out_file.h - a file that is either completely there or not at all.
 *
 * What is written goes to a temporary file beside the target, which takes the target's name when everything
 * is on disk. A failure, or closing before that, removes it and leaves the target as it was. A target that
 * exists and is no regular file (a pipe, /dev/stdout) is written to directly; a symbolic link is followed.
 *
 * Messages name the target; errors are ASIM_E_SYSTEM.
 */
#ifndef ASIM_TRACES_OUT_FILE_H
#define ASIM_TRACES_OUT_FILE_H

#include "sim/err.h"
#include "sim/hostmem.h"

#include <stdint.h>

typedef struct asim_out_file asim_out_file;

asim_code asim_out_file_open(const char *path, const asim_hostmem *mem, asim_out_file **ret_file,
                             asim_err *err);
/* Can path be written? Leaves nothing behind; for finding out before long work. */
asim_code asim_out_file_try(const char *path, const asim_hostmem *mem, asim_err *err);

asim_code asim_out_file_write(asim_out_file *file, const void *bytes, size_t length, asim_err *err);

/* Everything is written: the target is replaced. Close afterwards all the same. */
asim_code asim_out_file_commit(asim_out_file *file, asim_err *err);
void asim_out_file_close(asim_out_file *file); /* NULL is fine */

#endif
