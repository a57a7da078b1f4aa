#include "tools/plugin.h"

#include "sim/hash.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    NAME_SIZE = 64,
    SYMBOL_MAX = 128,
    PATH_SIZE = 4096,
    READ_SIZE = 1 << 16,
};

typedef struct plugin {
    char path[PATH_SIZE];
    char name[NAME_SIZE]; /* "mine@1a2b3c4d" */
    asim_policy policy;
    struct plugin *next;
} plugin;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static plugin *loaded;

bool asim_plugin_is(const char *text)
{
    size_t length = strlen(text);
    return strchr(text, '/') || (length > 3 && strcmp(text + length - 3, ".so") == 0);
}

/* The loader trusts a file to be as long as its segments say, and dies of one that was cut. */
static bool is_whole_object(FILE *file, uint64_t size)
{
    ElfW(Ehdr) head;
    if (fread(&head, sizeof head, 1, file) != 1 || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
        head.e_phentsize != sizeof(ElfW(Phdr)) || head.e_phoff > INT64_MAX ||
        fseek(file, (long)head.e_phoff, SEEK_SET) != 0)
        return false;
    for (unsigned i = 0; i < head.e_phnum; i++) {
        ElfW(Phdr) segment;
        uint64_t end;
        if (fread(&segment, sizeof segment, 1, file) != 1)
            return false;
        if (segment.p_type == PT_LOAD &&
            (__builtin_add_overflow(segment.p_offset, segment.p_filesz, &end) || end > size))
            return false;
    }
    rewind(file);
    return head.e_phnum > 0;
}

/* Reads all of it, after a look at what it is. */
static asim_code hash_file(const char *path, uint64_t *ret_hash, asim_err *err)
{
    FILE *file = fopen(path, "rb");
    struct stat status;
    if (!file)
        return asim_fail(err, ASIM_E_INPUT, "%s: %s", path, strerror(errno));
    if (fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode)) {
        fclose(file);
        return asim_fail(err, ASIM_E_INPUT, "%s: not a file, so not a shared object", path);
    }
    if (!is_whole_object(file, (uint64_t)status.st_size)) {
        fclose(file);
        return asim_fail(err, ASIM_E_INPUT, "%s: not a shared object, or cut off", path);
    }
    char buffer[READ_SIZE];
    uint64_t hash = ASIM_HASH_INIT;
    size_t length;
    while ((length = fread(buffer, 1, sizeof buffer, file)) > 0)
        hash = asim_hash_bytes(hash, buffer, length);
    bool failed = ferror(file) != 0;
    fclose(file);
    *ret_hash = hash;
    return failed ? asim_fail(err, ASIM_E_SYSTEM, "%s: can't be read", path) : ASIM_OK;
}

/* "dir/libmy-own.so.1" has asim_policy_my_own. */
static void symbol_for(const char *path, char ret_symbol[SYMBOL_MAX])
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    if (strncmp(base, "lib", 3) == 0)
        base += 3;
    snprintf(ret_symbol, SYMBOL_MAX, "asim_policy_%.*s", (int)strcspn(base, "."), base);
    for (char *p = ret_symbol; *p; p++)
        *p = *p == '-' ? '_' : *p;
}

/* The linker says how large the symbol is: a table of another layout is known before it is read. */
static asim_code find_table(void *object, const char *path, const asim_policy **ret_table, asim_err *err)
{
    char symbol[SYMBOL_MAX];
    Dl_info info;
    void *extra = NULL;
    symbol_for(path, symbol);
    void *found = dlsym(object, symbol);
    if (!found)
        return asim_fail(err, ASIM_E_INPUT,
                         "%s: it defines no %s, the policy's table; the name follows from the file's: "
                         "'const asim_policy %s = {...}'",
                         path, symbol, symbol);
    if (!dladdr1(found, &info, &extra, RTLD_DL_SYMENT) || !extra)
        return asim_fail(err, ASIM_E_INPUT, "%s: nothing is known about its symbol %s", path, symbol);
    const ElfW(Sym) *entry = extra;
    uint32_t version = 0;
    if (ELF64_ST_TYPE(entry->st_info) != STT_OBJECT || entry->st_size < sizeof version)
        return asim_fail(err, ASIM_E_INPUT, "%s: its %s is no table of a policy", path, symbol);
    memcpy(&version, found, sizeof version);
    if (version != ASIM_POLICY_VERSION || entry->st_size != sizeof(asim_policy))
        return asim_fail(
            err, ASIM_E_INPUT,
            "%s: its table is of interface version %" PRIu32
            " and %zu bytes; this allocsim takes version %d of %zu bytes: build it anew with the "
            "headers of this allocsim",
            path, version, (size_t)entry->st_size, ASIM_POLICY_VERSION, sizeof(asim_policy));
    *ret_table = found;
    return ASIM_OK;
}

/* Under the lock. The object is never unloaded: records keep pointers into it. */
static asim_code load(const char *path, plugin **ret_plugin, asim_err *err)
{
    uint64_t hash;
    asim_code code = hash_file(path, &hash, err);
    if (code)
        return code;
    char with_slash[PATH_SIZE];
    int length = snprintf(with_slash, sizeof with_slash, "%s%s", strchr(path, '/') ? "" : "./", path);
    if (length < 0 || (size_t)length >= sizeof with_slash)
        return asim_fail(err, ASIM_E_INPUT, "%.80s...: the name is too long", path);
    void *object = dlopen(with_slash, RTLD_NOW | RTLD_LOCAL);
    if (!object)
        return asim_fail(err, ASIM_E_INPUT, "not a shared object that can be loaded: %s", dlerror());
    const asim_policy *table = NULL;
    code = find_table(object, path, &table, err);
    if (!code && asim_policy_validate(table, err)) {
        err->code = ASIM_E_INPUT; /* the plug-in's fault, not ours */
        code = asim_err_context(err, "%s", path);
    }
    plugin *fresh = code ? NULL : asim_mem_new(asim_hostmem_libc(), 1, sizeof *fresh);
    if (!fresh) {
        dlclose(object);
        return code ? code : asim_fail_memory(err, sizeof *fresh);
    }
    snprintf(fresh->path, sizeof fresh->path, "%s", path);
    snprintf(fresh->name, sizeof fresh->name, "%s@%08" PRIx32, table->name, (uint32_t)(hash >> 32));
    fresh->policy = *table;
    fresh->policy.name = fresh->name;
    fresh->next = loaded;
    loaded = fresh;
    *ret_plugin = fresh;
    return ASIM_OK;
}

asim_code asim_plugin_load(const char *path, const asim_policy **ret_policy, asim_err *err)
{
    asim_code code = ASIM_OK;
    pthread_mutex_lock(&lock);
    plugin *found = loaded;
    while (found && strcmp(found->path, path) != 0)
        found = found->next;
    if (!found)
        code = load(path, &found, err);
    pthread_mutex_unlock(&lock);
    if (!code)
        *ret_policy = &found->policy;
    return code;
}
