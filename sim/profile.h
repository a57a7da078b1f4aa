/* sim/profile.h - device profiles: capacity, granularity, context overhead and the cost of driver calls.
 *
 * A profile is a text file of "name value" lines; # begins a comment. Every number says where it comes from
 * (`origin measured ...` or `origin estimated ...`). The built-in ones lie in sim/profiles/.
 */
#ifndef ASIM_SIM_PROFILE_H
#define ASIM_SIM_PROFILE_H

#include "sim/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct asim_profile {
    char name[64];
    char origin[128]; /* "estimated: ..." or "measured: ..." */
    bool measured;
    uint64_t capacity_bytes; /* total device memory */
    uint64_t context_bytes;  /* what a process's context takes outside the allocator */
    uint64_t granule_bytes;  /* memory is accounted in multiples of this; a power of two */
    /* Costs in nanoseconds of host time; ..._per_mib for each MiB of the call. */
    uint64_t hit_ns; /* an allocation or free that needs no driver call */
    uint64_t malloc_ns, malloc_per_mib_ns;
    uint64_t free_ns, free_per_mib_ns; /* on top of the synchronisation that cudaFree implies */
    uint64_t reserve_ns, unreserve_ns;
    uint64_t map_ns, map_per_page_ns; /* page: the granule that the allocator maps, 2 or 20 MiB */
    uint64_t unmap_ns, unmap_per_page_ns;
    uint64_t event_record_ns, event_query_ns, wait_ns;
    uint64_t launch_ns;         /* host time of a kernel launch */
    uint64_t copy_bytes_per_us; /* device-to-device copy bandwidth */
    uint64_t move_ns;           /* per block moved by a compaction */
} asim_profile;

/* Fills *ret_profile with the built-in profile of that name; false where there is none. */
bool asim_profile_builtin(const char *name, asim_profile *ret_profile);

/* Names of the built-in profiles, ended by NULL; the first is the default. */
const char *const *asim_profile_names(void);

/* A hash of every number of the profile: part of a run's key, so that two profiles of one name differ. */
uint64_t asim_profile_digest(const asim_profile *profile);

/* Parses the text of a profile file; unknown names, missing numbers and nonsense are ASIM_E_INPUT with the
 * line. */
asim_code asim_profile_parse(const char *text, size_t length, asim_profile *ret_profile, asim_err *err);

#endif
