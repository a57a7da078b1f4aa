#include "tools/load.h"

#include "traces/format.h"
#include "traces/formats.h"
#include "traces/native.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void warn(void *ctx, const char *text)
{
    asim_say("%s: warning: %s", *(const char **)ctx, text);
}

enum {
    MAGIC_TEXT = 8, /* where the name stands: after the zstd magic and a length, the reader's business */
    MAGIC_END = MAGIC_TEXT + sizeof ASIM_FORMAT_MAGIC - 1
};

/* A trace that is cut off within the name is still known. */
static bool head_is_native(const uint8_t *head, size_t length)
{
    length = length < MAGIC_END ? length : MAGIC_END;
    return length > MAGIC_TEXT && memcmp(head, "\x5A\x2A\x4D\x18", 4) == 0 &&
           memcmp(head + MAGIC_TEXT, ASIM_FORMAT_MAGIC, length - MAGIC_TEXT) == 0;
}

asim_code asim_recording_open(const asim_cli *cli, const char *path, const char *format,
                              asim_file_input **ret_file, const asim_importer **ret_importer, asim_err *err)
{
    asim_file_input *file;
    asim_code code = asim_file_input_open(path, cli->mem, &file, err);
    if (code)
        return code;
    const uint8_t *head;
    size_t length;
    code = asim_file_input_head(file, &head, &length, err);
    const asim_importer *importer = NULL;
    if (!code)
        importer = format ? asim_importer_named(format) : asim_importer_for(head, length);
    if (!code && !importer && head_is_native(head, length))
        code = asim_fail(err, ASIM_E_INPUT,
                         "a trace of allocsim can't be read from a pipe: save it in a file, and name that");
    else if (!code && !importer)
        code = asim_fail(err, ASIM_E_INPUT,
                         "neither a trace of allocsim nor a recording that it can import; "
                         "'allocsim import --help' lists the formats");
    if (code) {
        asim_file_input_close(file);
        return code;
    }
    *ret_file = file;
    *ret_importer = importer;
    return ASIM_OK;
}

static asim_code import_in_memory(const asim_cli *cli, const char *path, asim_trace **ret_trace,
                                  const char **ret_imported, asim_err *err)
{
    asim_file_input *file;
    const asim_importer *importer;
    asim_code code = asim_recording_open(cli, path, NULL, &file, &importer, err);
    if (code)
        return code;
    asim_trace_builder *builder;
    code = asim_trace_builder_new(cli->mem, &builder, err);
    if (!code) {
        asim_input input = asim_file_input_stream(file);
        asim_sink sink = asim_trace_builder_sink(builder);
        code = importer->import(&input, &sink, cli->mem, err);
        asim_trace *trace = NULL;
        if (code)
            asim_trace_builder_finish(builder, NULL, NULL);
        else
            code = asim_trace_builder_finish(builder, &trace, err);
        if (!code) {
            *ret_trace = trace;
            *ret_imported = importer->name;
        }
    }
    asim_file_input_close(file);
    return code;
}

bool asim_is_native(const char *path)
{
    uint8_t head[MAGIC_END];
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe is no trace, and is not waited for */
    struct stat status;
    if (fd < 0)
        return false;
    ssize_t length = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) ? read(fd, head, sizeof head) : 0;
    close(fd);
    return length > 0 && head_is_native(head, (size_t)length);
}

asim_code asim_load_trace(const asim_cli *cli, const char *path, asim_trace **ret_trace,
                          const char **ret_imported, asim_err *err)
{
    const char *imported = NULL;
    asim_code code = asim_is_native(path) ? asim_trace_load(path, cli->mem, warn, &path, ret_trace, err)
                                          : import_in_memory(cli, path, ret_trace, &imported, err);
    if (code) {
        if (strncmp(err->message, path, strlen(path)) != 0)
            asim_err_context(err, "%s", path);
        return code;
    }
    if (ret_imported)
        *ret_imported = imported;
    return ASIM_OK;
}

asim_code asim_load_text(const asim_cli *cli, const char *path, size_t limit, char **ret_text,
                         size_t *ret_length, asim_err *err)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return asim_fail(err, errno == ENOENT ? ASIM_E_INPUT : ASIM_E_SYSTEM, "%s: %s", path,
                         strerror(errno));
    char *text = asim_mem_new(cli->mem, limit + 2, 1);
    asim_code code = ASIM_OK;
    size_t length = 0;
    if (!text)
        code = asim_fail_memory(err, limit + 2);
    if (!code) {
        length = fread(text, 1, limit + 1, file);
        if (ferror(file))
            code = asim_fail(err, errno == EISDIR ? ASIM_E_INPUT : ASIM_E_SYSTEM, "%s: %s", path,
                             strerror(errno));
        else if (length > limit)
            code =
                asim_fail(err, ASIM_E_INPUT, "%s: too long for a profile (more than %zu bytes)", path, limit);
        else if (memchr(text, 0, length))
            code = asim_fail(err, ASIM_E_INPUT, "%s: not a text file", path);
    }
    fclose(file);
    char *fitted = code ? NULL : cli->mem->resize(cli->mem->ctx, text, limit + 2, length + 1);
    if (!code && !fitted)
        code = asim_fail_memory(err, length + 1);
    if (code) {
        asim_mem_free(cli->mem, text, limit + 2, 1);
        return code;
    }
    fitted[length] = 0;
    *ret_text = fitted;
    *ret_length = length;
    return ASIM_OK;
}
