/* sim/params.h - parameters are data: one table gives parsing, bounds, defaults, help and canonical spelling.
 *
 *     struct pow2_params { uint64_t pool_bytes; bool merge; };
 *     static const asim_param table[] = {
 *         {.name = "pool", .type = ASIM_PARAM_BYTES, .offset = offsetof(struct pow2_params, pool_bytes),
 *          .default_text = "8GiB", .min = 1 << 20, .max = UINT64_MAX, .help = "size of the one pool"}, ...
 *
 * The canonical spelling lists every parameter whose value is not the default, in table order, as
 * "key=value,key=value"; two configurations that mean the same have the same spelling. It is part of a run's
 * key in the store.
 */
#ifndef ASIM_SIM_PARAMS_H
#define ASIM_SIM_PARAMS_H

#include "sim/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum asim_param_type {
    ASIM_PARAM_U64,    /* uint64_t: decimal */
    ASIM_PARAM_MIB,    /* uint64_t, in bytes: a whole number of MiB */
    ASIM_PARAM_BYTES,  /* uint64_t: a size with an optional unit, see asim_parse_size */
    ASIM_PARAM_BOOL,   /* bool: true, false, on, off, 1, 0, True, False */
    ASIM_PARAM_REAL,   /* double */
    ASIM_PARAM_CHOICE, /* int: index into choices */
    ASIM_PARAM_TEXT,   /* char[ASIM_PARAM_TEXT_MAX]; no comma outside [] */
} asim_param_type;

enum {
    ASIM_PARAM_TEXT_MAX = 512
};
#define ASIM_PARAM_NONE UINT64_MAX /* value of U64, MIB and BYTES for the word "none" */

typedef struct asim_param {
    const char *name;
    asim_param_type type;
    size_t offset;              /* of the value in the parameter block */
    const char *default_text;   /* must parse; "none" where none_allowed */
    uint64_t min, max;          /* inclusive, in the unit of the value (bytes for MIB and BYTES) */
    double real_min, real_max;  /* inclusive, for REAL */
    const char *const *choices; /* NULL-ended, for CHOICE */
    /* For CHOICE, NULL allowed: finds the choice that a text stands for where other spellings than its own
     * are taken, or says (ASIM_E_USAGE) why there is none. */
    asim_code (*choose)(const char *text, int *ret_index, asim_err *err);
    bool none_allowed;
    const char *help; /* one line */
} asim_param;

typedef struct asim_param_table {
    const asim_param *params;
    size_t count;
    size_t block_size; /* bytes of the parameter block */
} asim_param_table;

/* Fills block with the defaults. */
void asim_params_default(const asim_param_table *table, void *block);

/* Sets one parameter from text. Errors (ASIM_E_USAGE) name the key, the value and what is allowed. */
asim_code asim_params_set(const asim_param_table *table, void *block, const char *key, const char *value,
                          asim_err *err);

/* Sets several from "key=value,key=value"; commas inside [] belong to a value. */
asim_code asim_params_parse(const asim_param_table *table, void *block, const char *text, asim_err *err);

/* Writes the canonical spelling, zero-terminated, cut at capacity bytes; returns the full length. */
size_t asim_params_canonical(const asim_param_table *table, const void *block, char *ret_text,
                             size_t capacity);

/* Writes one parameter's value in canonical form; returns the full length. */
size_t asim_param_format(const asim_param *param, const void *block, char *ret_text, size_t capacity);

/* Sizes: a decimal number, perhaps with a fraction, and B, K, KiB, M, MiB, G, GiB, T or TiB (all powers of
 * 1024; case matters not). Without a unit: bytes. A fraction of a
 * larger unit is rounded to the nearest byte (42.59GiB). Rejects what does not fit 63 bits, and fractions of
 * a byte. */
asim_code asim_parse_size(const char *text, uint64_t *ret_bytes, asim_err *err);
asim_code asim_parse_u64(const char *text, uint64_t *ret_value, asim_err *err);

#endif
