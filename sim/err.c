#include "sim/err.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 4, 0))) static void
set_message(asim_err *err, asim_code code, uint64_t position, const char *format, va_list args)
{
    err->code = code;
    err->position = position;
    vsnprintf(err->message, sizeof err->message, format, args);
}

asim_code asim_fail(asim_err *err, asim_code code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        set_message(err, code, ASIM_NO_POSITION, format, args);
        va_end(args);
    }
    return code;
}

asim_code asim_fail_at(asim_err *err, asim_code code, uint64_t position, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        set_message(err, code, position, format, args);
        va_end(args);
    }
    return code;
}

asim_code asim_fail_memory(asim_err *err, uint64_t bytes)
{
    return asim_fail(err, ASIM_E_SYSTEM, "out of host memory (%" PRIu64 " bytes wanted)", bytes);
}

asim_code asim_err_context(asim_err *err, const char *format, ...)
{
    if (!err)
        return ASIM_OK;
    char old[ASIM_ERR_MESSAGE_MAX];
    memcpy(old, err->message, sizeof old);
    va_list args;
    va_start(args, format);
    int length = vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof err->message)
        snprintf(err->message + length, sizeof err->message - (size_t)length, ": %s", old);
    return err->code;
}
