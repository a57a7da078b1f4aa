#include "tools/json.h"

#include <string.h>

/* The length of the UTF-8 sequence that starts at p, or 0 where none does (Unicode 15, table 3-7). */
static size_t utf8_length(const unsigned char *p)
{
    static const struct {
        unsigned char low, high, second_low, second_high;
        size_t length;
    } rows[] = {
        {0x00, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (p[0] < rows[i].low || p[0] > rows[i].high)
            continue;
        if (rows[i].length > 1 && (p[1] < rows[i].second_low || p[1] > rows[i].second_high))
            return 0;
        for (size_t k = 2; k < rows[i].length; k++)
            if (p[k] < 0x80 || p[k] > 0xBF)
                return 0;
        return rows[i].length;
    }
    return 0;
}

static void write_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        size_t length = utf8_length(p);
        if (length == 0)
            fputs("\\ufffd", out);
        else if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else if (*p == '\n')
            fputs("\\n", out);
        else if (*p == '\t')
            fputs("\\t", out);
        else if (*p < 0x20 || *p == 0x7F)
            fprintf(out, "\\u%04x", *p);
        else
            fwrite(p, 1, length, out);
        p += length ? length : 1;
    }
    fputc('"', out);
}

static void start_value(asim_json *json, const char *key)
{
    if (json->depth > 0) {
        fputs(json->first ? "\n" : ",\n", json->out);
        for (unsigned i = 0; i < json->depth; i++)
            fputs("  ", json->out);
    }
    json->first = false;
    if (key) {
        write_string(json->out, key);
        fputs(": ", json->out);
    }
}

void asim_json_begin(asim_json *json, const char *key, char bracket)
{
    start_value(json, key);
    fputc(bracket, json->out);
    json->depth++;
    json->first = true;
}

void asim_json_end(asim_json *json, char bracket)
{
    json->depth--;
    if (!json->first) {
        fputc('\n', json->out);
        for (unsigned i = 0; i < json->depth; i++)
            fputs("  ", json->out);
    }
    fputc(bracket, json->out);
    json->first = false;
    if (json->depth == 0)
        fputc('\n', json->out);
}

void asim_json_text(asim_json *json, const char *key, const char *text)
{
    start_value(json, key);
    write_string(json->out, text);
}

void asim_json_number(asim_json *json, const char *key, uint64_t number)
{
    start_value(json, key);
    fprintf(json->out, "%" PRIu64, number);
}

void asim_json_integer(asim_json *json, const char *key, int64_t number)
{
    start_value(json, key);
    fprintf(json->out, "%" PRId64, number);
}

void asim_json_digest(asim_json *json, const char *key, uint64_t digest)
{
    start_value(json, key);
    fprintf(json->out, "\"%016" PRIx64 "\"", digest);
}

void asim_json_null(asim_json *json, const char *key)
{
    start_value(json, key);
    fputs("null", json->out);
}
