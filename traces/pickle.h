/* traces/pickle.h - a streaming reader of Python pickles, for data only.
 *
 * Reads protocols 2 to 5 (the opcodes of specification section 22 and the harmless rest). Whatever names a
 * class, calls something or refers outside the file is refused; nothing is ever executed or looked up. The
 * file goes through one buffer and no tree of it is built: when a dict, list or tuple is complete the client
 * says in one value what stands for it from then on, and that is what the memo keeps.
 *
 * A container is complete when something else takes it: another container, a pop, or the end. A dict is also
 * complete when a container is pushed right on top of it (containers can't be keys), so that a list written
 * in one piece of any length holds one value an element. Filling a container after it was taken (a cycle) is
 * refused.
 *
 * Memory: the buffer, the distinct strings, four bytes a memo number, eight bytes a value on the stack, and
 * what the client keeps. Nothing is taken because of a length or number that the file merely claims.
 *
 *     asim_pickle *pickle;
 *     if (!(code = asim_pickle_new(&input, &client, mem, &pickle, &err)))
 *         code = asim_pickle_run(pickle, &value, &err);
 *     asim_pickle_free(pickle);
 */
#ifndef ASIM_TRACES_PICKLE_H
#define ASIM_TRACES_PICKLE_H

#include "sim/source.h"
#include "traces/strtab.h"

/* The low four bits are a tag, the rest is the payload. */
typedef uint64_t asim_pickle_value;

enum {
    ASIM_PICKLE_NONE = 0,
    ASIM_PICKLE_BOOL = 1,      /* payload 0 or 1 */
    ASIM_PICKLE_INT = 2,       /* payload: a signed number of 60 bits */
    ASIM_PICKLE_BIG = 3,       /* a larger number: asim_pickle_unsigned */
    ASIM_PICKLE_FLOAT = 4,     /* a double without its last four bits: asim_pickle_double */
    ASIM_PICKLE_STRING = 5,    /* payload: number in the string table */
    ASIM_PICKLE_CONTAINER = 6, /* not complete yet; never seen by a client */
    ASIM_PICKLE_CLIENT = 8,    /* 8 to 15: the client's own */
};

enum {
    ASIM_PICKLE_OPEN_MAX = 4096,      /* containers that may be incomplete at once, and marks */
    ASIM_PICKLE_STACK_MAX = 1 << 25,  /* values on the stack */
    ASIM_PICKLE_STRING_MAX = 1 << 24, /* bytes */
};

static inline asim_pickle_value asim_pickle_make(unsigned tag, uint64_t payload)
{
    return payload << 4 | tag;
}

static inline unsigned asim_pickle_tag(asim_pickle_value value)
{
    return (unsigned)(value & 15);
}

static inline uint64_t asim_pickle_payload(asim_pickle_value value)
{
    return value >> 4;
}

/* Of a dict: a key (a) and its value (b), in file order; a later pair with the same key replaces an earlier.
 * Of a list: b items, of which the first is a and the payload of each is one more than that of the one
 * before (b is 1 except for tags in the client's series). */
typedef struct asim_pickle_item {
    asim_pickle_value a;
    uint64_t b;
} asim_pickle_item;

/* Each gives the value that stands for the complete container, of any tag but CONTAINER. The arrays belong
 * to the reader. An error ends the reading; the reader adds the position. */
typedef struct asim_pickle_client {
    asim_code (*dict)(void *ctx, const asim_pickle_item *pairs, size_t count, asim_pickle_value *ret_value,
                      asim_err *err);
    asim_code (*list)(void *ctx, const asim_pickle_item *runs, size_t count, asim_pickle_value *ret_value,
                      asim_err *err);
    asim_code (*tuple)(void *ctx, const asim_pickle_value *items, size_t count, asim_pickle_value *ret_value,
                       asim_err *err);
    asim_strtab *strings; /* strings are added to it; the client may have put its own there before */
    unsigned series;      /* bit (1 << tag): runs of consecutive payloads are kept as one item of a list */
    void *ctx;
} asim_pickle_client;

typedef struct asim_pickle asim_pickle;

/* input and client must stay valid until asim_pickle_free. */
asim_code asim_pickle_new(const asim_input *input, const asim_pickle_client *client, const asim_hostmem *mem,
                          asim_pickle **ret_pickle, asim_err *err);
void asim_pickle_free(asim_pickle *pickle); /* NULL is fine */

/* Reads one pickle to its STOP. Errors are ASIM_E_INPUT with the byte offset of the opcode in the message and
 * in err->position. */
asim_code asim_pickle_run(asim_pickle *pickle, asim_pickle_value *ret_value, asim_err *err);

/* Whether bytes follow the pickle that was read; looks at one more piece of the input, which also lets a
 * compressed input check its own end. */
asim_code asim_pickle_at_end(asim_pickle *pickle, bool *ret_end, asim_err *err);

/* The number as 64 bits: an int or bool of 0 to 2^64 - 1, or a negative one of 64 bits as its two's
 * complement (handles are written either way). False for everything else. */
bool asim_pickle_unsigned(const asim_pickle *pickle, asim_pickle_value value, uint64_t *ret_number);
/* A float or a number of 60 bits. */
bool asim_pickle_double(asim_pickle_value value, double *ret_number);

#endif
