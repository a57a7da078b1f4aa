/* A library to preload: counts the calls that change files, and at the FAULT_AT-th kills the process before
 * it (FAULT_MODE=kill) or fills the disk (FAULT_MODE=enospc): from then on no file grows.
 */
#undef _FILE_OFFSET_BITS /* both families of names are wanted, each as itself */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long steps;

static long fault_at(void)
{
    const char *text = getenv("FAULT_AT");
    return text ? atol(text) : 0;
}

/* True: the call is to fail. */
static int step(int needs_space)
{
    long at = fault_at();
    if (at == 0 || ++steps < at)
        return 0;
    const char *mode = getenv("FAULT_MODE");
    if (mode && strcmp(mode, "enospc") == 0) {
        errno = ENOSPC;
        return needs_space;
    }
    raise(SIGKILL);
    return 1;
}

static int regular(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

static int grows(int fd, off64_t end)
{
    struct stat status;
    return fstat(fd, &status) == 0 && end > status.st_size;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *buffer, size_t length)
{
    return regular(fd) && step(1) ? -1 : REAL(write)(fd, buffer, length);
}

ssize_t pwrite(int fd, const void *buffer, size_t length, off_t offset)
{
    return step(grows(fd, offset + (off_t)length)) ? -1 : REAL(pwrite)(fd, buffer, length, offset);
}

ssize_t pwrite64(int fd, const void *buffer, size_t length, off64_t offset)
{
    return step(grows(fd, offset + (off64_t)length)) ? -1 : REAL(pwrite64)(fd, buffer, length, offset);
}

int fsync(int fd)
{
    return step(0) ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    return step(0) ? -1 : REAL(fdatasync)(fd);
}

int ftruncate(int fd, off_t length)
{
    return step(0) ? -1 : REAL(ftruncate)(fd, length);
}

int ftruncate64(int fd, off64_t length)
{
    return step(0) ? -1 : REAL(ftruncate64)(fd, length);
}

int unlink(const char *path)
{
    return step(0) ? -1 : REAL(unlink)(path);
}

int rename(const char *from, const char *to)
{
    return step(0) ? -1 : REAL(rename)(from, to);
}
