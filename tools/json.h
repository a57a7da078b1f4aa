/* tools/json.h - a small JSON writer: objects and arrays of texts, integers and null, indented by two.
 *
 * Text is taken for UTF-8; bytes that are not become U+FFFD, so that what is written is always valid JSON.
 */
#ifndef ASIM_TOOLS_JSON_H
#define ASIM_TOOLS_JSON_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct asim_json {
    FILE *out;
    unsigned depth;
    bool first; /* nothing stands in the current object yet */
} asim_json;

/* key: NULL in an array and for the outermost value. */
void asim_json_begin(asim_json *json, const char *key, char bracket); /* '{' or '[' */
void asim_json_end(asim_json *json, char bracket);                    /* '}' or ']' */
void asim_json_text(asim_json *json, const char *key, const char *text);
void asim_json_number(asim_json *json, const char *key, uint64_t number);
void asim_json_integer(asim_json *json, const char *key, int64_t number);
void asim_json_digest(asim_json *json, const char *key, uint64_t digest); /* 16 hexadecimal digits, as text */
void asim_json_null(asim_json *json, const char *key);

#endif
