#include "traces/out_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct asim_out_file {
    const asim_hostmem *mem;
    char *path, *temporary;
    size_t path_size, temporary_size;
    int fd;      /* -1: closed */
    bool direct; /* no temporary file: the target is no regular file */
    bool exists; /* the temporary file does */
};

static asim_code refused(const asim_out_file *file, const char *what, int reason, asim_err *err)
{
    return asim_fail(err, ASIM_E_SYSTEM, "%s: %s: %s", file->path, what, strerror(reason));
}

static asim_code open_temporary(asim_out_file *file, asim_err *err)
{
    for (unsigned attempt = 0; attempt < 100; attempt++) {
        snprintf(file->temporary, file->temporary_size, "%s.%ld-%u.tmp", file->path, (long)getpid(), attempt);
        file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd >= 0) {
            file->exists = true;
            return ASIM_OK;
        }
        if (errno != EEXIST)
            break;
    }
    return refused(file, "can't be created", errno, err);
}

static asim_code open_target(asim_out_file *file, const char *path, asim_err *err)
{
    struct stat status;
    char *resolved = realpath(path, NULL); /* NULL: not there yet */
    const char *name = resolved ? resolved : path;
    file->path_size = strlen(name) + 1;
    file->temporary_size = file->path_size + 48;
    file->path = asim_mem_new(file->mem, file->path_size, 1);
    file->temporary = asim_mem_new(file->mem, file->temporary_size, 1);
    if (file->path)
        memcpy(file->path, name, file->path_size);
    free(resolved);
    if (!file->path || !file->temporary)
        return asim_fail_memory(err, file->temporary_size);
    if (stat(file->path, &status) == 0 && !S_ISREG(status.st_mode)) {
        file->direct = true;
        file->fd = open(file->path, O_WRONLY | O_CLOEXEC);
        return file->fd >= 0 ? ASIM_OK : refused(file, "can't be written", errno, err);
    }
    return open_temporary(file, err);
}

asim_code asim_out_file_open(const char *path, const asim_hostmem *mem, asim_out_file **ret_file,
                             asim_err *err)
{
    asim_out_file *file = asim_mem_new(mem, 1, sizeof *file);
    if (!file)
        return asim_fail_memory(err, sizeof *file);
    file->mem = mem;
    file->fd = -1;
    asim_code code = open_target(file, path, err);
    if (code) {
        asim_out_file_close(file);
        return code;
    }
    *ret_file = file;
    return ASIM_OK;
}

asim_code asim_out_file_try(const char *path, const asim_hostmem *mem, asim_err *err)
{
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        return ASIM_OK; /* opening a pipe is heard at its other end */
    asim_out_file *file;
    asim_code code = asim_out_file_open(path, mem, &file, err);
    if (!code)
        asim_out_file_close(file);
    return code;
}

asim_code asim_out_file_write(asim_out_file *file, const void *bytes, size_t length, asim_err *err)
{
    const char *next = bytes;
    while (length > 0) {
        ssize_t step = write(file->fd, next, length);
        if (step < 0 && errno == EINTR)
            continue;
        if (step <= 0)
            return refused(file, "can't be written", step < 0 ? errno : EIO, err);
        next += step;
        length -= (size_t)step;
    }
    return ASIM_OK;
}

asim_code asim_out_file_commit(asim_out_file *file, asim_err *err)
{
    if (!file->direct && fsync(file->fd) != 0)
        return refused(file, "can't be written", errno, err);
    int fd = file->fd;
    file->fd = -1;
    if (close(fd) != 0)
        return refused(file, "can't be written", errno, err);
    if (file->direct)
        return ASIM_OK;
    if (rename(file->temporary, file->path) != 0)
        return refused(file, "can't be replaced", errno, err);
    file->exists = false;
    return ASIM_OK;
}

void asim_out_file_close(asim_out_file *file)
{
    if (!file)
        return;
    const asim_hostmem *mem = file->mem;
    if (file->fd >= 0)
        close(file->fd);
    if (file->exists)
        unlink(file->temporary);
    asim_mem_free(mem, file->path, file->path_size, 1);
    asim_mem_free(mem, file->temporary, file->temporary_size, 1);
    asim_mem_free(mem, file, 1, sizeof *file);
}
