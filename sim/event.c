#include "sim/event.h"

const char *asim_event_kind_name(unsigned kind)
{
    static const char *const names[ASIM_EV_KINDS] = {
        [ASIM_EV_ALLOC] = "alloc",
        [ASIM_EV_FREE] = "free",
        [ASIM_EV_FREE_DONE] = "free_done",
        [ASIM_EV_USE] = "use",
        [ASIM_EV_RESIZE] = "resize",
        [ASIM_EV_ACCESS] = "access",
        [ASIM_EV_KERNEL] = "kernel",
        [ASIM_EV_SYNC] = "sync",
        [ASIM_EV_TRIM] = "trim",
        [ASIM_EV_POOL_RETAIN] = "pool_retain",
        [ASIM_EV_POOL_BEGIN] = "pool_begin",
        [ASIM_EV_POOL_JOIN] = "pool_join",
        [ASIM_EV_POOL_END] = "pool_end",
        [ASIM_EV_POOL_RELEASE] = "pool_release",
        [ASIM_EV_POOL_ENTER] = "pool_enter",
        [ASIM_EV_POOL_LEAVE] = "pool_leave",
        [ASIM_EV_SETTINGS] = "settings",
        [ASIM_EV_FRACTION] = "fraction",
        [ASIM_EV_STATS_RESET] = "stats_reset",
        [ASIM_EV_MARK] = "mark",
        [ASIM_EV_PREFIX] = "prefix",
    };
    return kind < ASIM_EV_KINDS ? names[kind] : 0;
}
