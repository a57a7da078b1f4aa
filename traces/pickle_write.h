/* traces/pickle_write.h - a streaming writer of Python pickles, protocol 4, for data only.
 *
 * Bytes come out as Python's own pickler writes the same objects (specification, R158 to R162): containers
 * are memoised when they begin, strings and tuples when they are complete, lists and dicts are filled in
 * batches of 1000, numbers take the shortest of their opcodes, and frames of 64 KiB hold the whole. So
 * pickle.dumps(pickle.load(file), 4) gives the file again.
 *
 * An object used again is fetched by its memo number, which the function that wrote it returned. A failure
 * sticks: later calls do nothing, and asim_pickle_out_finish returns it.
 *
 *     asim_pickle_out out;
 *     asim_pickle_out_init(&out, file, mem);
 *     asim_pickle_out_list(&out);
 *     asim_pickle_batch batch = asim_pickle_batch_of(2, true);
 *     for (int i = 0; i < 2; i++) {
 *         asim_pickle_out_before(&out, &batch);
 *         asim_pickle_out_unsigned(&out, i);
 *         asim_pickle_out_after(&out, &batch);
 *     }
 *     code = asim_pickle_out_finish(&out, &err);
 *     asim_pickle_out_fini(&out);
 *
 * Memory: one frame, and the longest string.
 */
#ifndef ASIM_TRACES_PICKLE_WRITE_H
#define ASIM_TRACES_PICKLE_WRITE_H

#include "sim/buf.h"
#include "traces/out_file.h"

typedef struct asim_pickle_out {
    asim_out_file *file;
    asim_buf frame;
    uint32_t memo_count;
    asim_err err; /* its code is set by the first failure */
} asim_pickle_out;

/* The file stays the caller's. */
void asim_pickle_out_init(asim_pickle_out *out, asim_out_file *file, const asim_hostmem *mem);
void asim_pickle_out_fini(asim_pickle_out *out);

/* Objects; those that return a number are memoised under it. */
uint32_t asim_pickle_out_dict(asim_pickle_out *out); /* empty so far */
uint32_t asim_pickle_out_list(asim_pickle_out *out);
uint32_t asim_pickle_out_text(asim_pickle_out *out, const char *text, size_t length); /* UTF-8 */
uint32_t asim_pickle_out_pair(asim_pickle_out *out, uint64_t first, uint64_t second); /* a tuple */
void asim_pickle_out_unsigned(asim_pickle_out *out, uint64_t value);
void asim_pickle_out_signed(asim_pickle_out *out, int64_t value);
void asim_pickle_out_double(asim_pickle_out *out, double value);
void asim_pickle_out_bool(asim_pickle_out *out, bool value);
void asim_pickle_out_get(asim_pickle_out *out, uint32_t memo);

/* Filling the container written last: before and after each item (of a dict: key and value). The number of
 * items must be known. */
typedef struct asim_pickle_batch {
    uint64_t count, done;
    bool list;
} asim_pickle_batch;

static inline asim_pickle_batch asim_pickle_batch_of(uint64_t count, bool list)
{
    return (asim_pickle_batch){count, 0, list};
}

void asim_pickle_out_before(asim_pickle_out *out, const asim_pickle_batch *batch);
void asim_pickle_out_after(asim_pickle_out *out, asim_pickle_batch *batch);

/* Ends the pickle and hands all of it to the file, which is not committed yet. */
asim_code asim_pickle_out_finish(asim_pickle_out *out, asim_err *err);

#endif
