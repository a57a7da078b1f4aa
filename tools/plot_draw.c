/* Runs gnuplot: the script goes in through a pipe, the picture comes out into a file without a name. */
#include "tools/plot.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct child {
    pid_t pid;
    int input; /* where its script goes */
} child;

static asim_code start(child *c, int output, int messages, asim_err *err)
{
    char name[] = "gnuplot", bare[] = "-d"; /* no start-up file of a user */
    char *const command[] = {name, bare, NULL};
    int ends[2];
    if (pipe(ends))
        return asim_fail(err, ASIM_E_SYSTEM, "can't make a pipe to gnuplot: %s", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
    posix_spawn_file_actions_adddup2(&actions, output, 1);
    posix_spawn_file_actions_adddup2(&actions, messages, 2);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    const int failed = posix_spawnp(&c->pid, command[0], &actions, &attributes, command, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    c->input = ends[1];
    if (!failed)
        return ASIM_OK;
    close(ends[1]);
    if (failed == ENOENT)
        return asim_fail(
            err, ASIM_E_SYSTEM,
            "gnuplot is not installed; 'apt-get install gnuplot-nox' brings it, and --data prints "
            "the numbers of a plot without it");
    return asim_fail(err, ASIM_E_SYSTEM, "can't start gnuplot: %s", strerror(failed));
}

/* All of it, unless gnuplot stops reading: what it then says is the error. */
static void feed(int input, const asim_buf *script)
{
    size_t done = 0;
    while (done < script->length) {
        const ssize_t wrote = write(input, script->bytes + done, script->length - done);
        if (wrote > 0)
            done += (size_t)wrote;
        else if (errno != EINTR)
            return;
    }
}

static asim_code read_all(FILE *file, asim_buf *buf, asim_err *err)
{
    char piece[1 << 14];
    size_t got;
    rewind(file);
    while ((got = fread(piece, 1, sizeof piece, file)) > 0) {
        asim_code code = asim_buf_append(buf, piece, got, err);
        if (code)
            return code;
    }
    if (ferror(file))
        return asim_fail(err, ASIM_E_SYSTEM, "can't read gnuplot's picture: %s", strerror(errno));
    return ASIM_OK;
}

/* gnuplot's complaint without its echo of the command: the last line that says something. */
static asim_code complain(FILE *messages, int status, asim_err *err)
{
    char line[512], last[512] = "no message";
    rewind(messages);
    while (fgets(line, sizeof line, messages)) {
        line[strcspn(line, "\r\n")] = 0;
        if (line[strspn(line, " \t^")])
            memcpy(last, line, sizeof last);
    }
    if (WIFSIGNALED(status))
        return asim_fail(err, ASIM_E_SYSTEM, "gnuplot was stopped by signal %d", WTERMSIG(status));
    return asim_fail(err, ASIM_E_SYSTEM, "gnuplot failed: %s", last + strspn(last, " \t"));
}

static asim_code converse(const asim_buf *script, FILE *output, FILE *messages, asim_buf *ret_image,
                          asim_err *err)
{
    child c;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    asim_code code = start(&c, fileno(output), fileno(messages), err);
    if (code)
        return code;
    sigaction(SIGPIPE, &ignore, &before);
    feed(c.input, script);
    sigaction(SIGPIPE, &before, NULL);
    close(c.input);
    int status = 0;
    while (waitpid(c.pid, &status, 0) < 0)
        if (errno != EINTR)
            return asim_fail(err, ASIM_E_SYSTEM, "lost sight of gnuplot: %s", strerror(errno));
    const size_t length = ret_image->length;
    code = status ? complain(messages, status, err) : read_all(output, ret_image, err);
    return !code && ret_image->length == length ? complain(messages, status, err) : code;
}

asim_code asim_plot_draw(const asim_plot *plot, const char *terminal, asim_buf *ret_image, asim_err *err)
{
    asim_buf script;
    asim_buf_init(&script, plot->mem);
    asim_code code = asim_plot_script(plot, terminal, &script, err);
    if (!code) {
        FILE *output = tmpfile(), *messages = tmpfile();
        code = output && messages
                   ? converse(&script, output, messages, ret_image, err)
                   : asim_fail(err, ASIM_E_SYSTEM, "can't make a temporary file: %s", strerror(errno));
        if (output)
            fclose(output);
        if (messages)
            fclose(messages);
    }
    asim_buf_fini(&script);
    return code;
}
