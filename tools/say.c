#include "tools/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

static void (*before_saying)(void *ctx);
static void *before_context;

void asim_say_before(void (*before)(void *ctx), void *ctx)
{
    before_saying = before;
    before_context = ctx;
}

__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list args)
{
    if (before_saying)
        before_saying(before_context);
    char text[4096];
    vsnprintf(text, sizeof text, format, args);
    /* A file's name or content may not steer the terminal. */
    for (char *p = text; *p; p++)
        if (((unsigned char)*p < 0x20 && *p != '\n') || *p == 0x7F)
            *p = '?';
    fprintf(stderr, "allocsim: %s\n", text);
}

void asim_say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

void asim_note(const asim_cli *cli, const char *format, ...)
{
    if (cli->quiet)
        return;
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

int asim_say_error(const asim_err *err)
{
    asim_say("%s", err->message);
    return (int)err->code;
}

int asim_finish_output(int status)
{
    bool failed = ferror(stdout) != 0;
    int reason = 0;
    if (fflush(stdout) != 0) {
        failed = true;
        reason = errno;
    }
    if (!failed)
        return status;
    asim_say("standard output can't be written%s%s", reason ? ": " : "", reason ? strerror(reason) : "");
    return ASIM_E_SYSTEM;
}
