/* sim/err.h - errors are values: a code, a message and, where input is read, a position.
 *
 * Library code returns an asim_code and fills the caller's asim_err; it never prints and never exits.
 * A message says what was wrong and what to do, begins in lower case and ends without a full stop. The
 * caller that knows the file's name puts it in front with asim_err_context().
 *
 *     asim_err err = ASIM_ERR_INIT;
 *     if (asim_trace_load(path, mem, &trace, &err))
 *         fprintf(stderr, "allocsim: %s\n", err.message);
 */
#ifndef ASIM_SIM_ERR_H
#define ASIM_SIM_ERR_H

#include <stdint.h>

/* The values are the program's exit statuses (contract, section 1). */
typedef enum asim_code {
    ASIM_OK = 0,
    ASIM_E_USAGE = 2,  /* an option or a parameter is wrong */
    ASIM_E_INPUT = 3,  /* a file from outside is not what it should be */
    ASIM_E_BUG = 4,    /* our own fault: an invariant or a referee check failed */
    ASIM_E_SYSTEM = 5, /* the system refused: disk, memory, GPU */
} asim_code;

enum {
    ASIM_ERR_MESSAGE_MAX = 1024
}; /* bytes, with the terminating zero; longer text is cut */
#define ASIM_NO_POSITION UINT64_MAX

typedef struct asim_err {
    asim_code code;
    uint64_t position; /* byte offset, line or event, as the message says; ASIM_NO_POSITION where none */
    char message[ASIM_ERR_MESSAGE_MAX];
} asim_err;

#define ASIM_ERR_INIT                                                                                        \
    {                                                                                                        \
        ASIM_OK, ASIM_NO_POSITION, ""                                                                        \
    }

/* Fill *err (NULL is allowed: nothing is stored) and return code, so that a caller can write
 * `return asim_fail(err, ASIM_E_INPUT, "...")`. */
asim_code asim_fail(asim_err *err, asim_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
asim_code asim_fail_at(asim_err *err, asim_code code, uint64_t position, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The one message for host memory that ran out; bytes is what was asked for. Returns ASIM_E_SYSTEM. */
asim_code asim_fail_memory(asim_err *err, uint64_t bytes);

/* Put "CONTEXT: " in front of the message of an error that is already set. Returns err->code. */
asim_code asim_err_context(asim_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
