/* traces/kinds.h - which fields each kind of event uses, as data. The format, the text form and the rules all
 * read this table, so a new kind is one line here (and a line in sim/event.h and traces/FORMAT.md).
 */
#ifndef ASIM_TRACES_KINDS_H
#define ASIM_TRACES_KINDS_H

#include "sim/event.h"

typedef enum asim_lane_use {
    ASIM_LANE_UNUSED,     /* 0 */
    ASIM_LANE_ONE,        /* a lane of the table */
    ASIM_LANE_POOL,       /* a lane of the table that names a pool */
    ASIM_LANE_ONE_OR_ALL, /* a lane of the table, or ASIM_LANE_ALL */
    ASIM_LANE_BY_SCOPE,   /* SYNC: a lane, but ASIM_LANE_ALL for ASIM_SYNC_ALL */
} asim_lane_use;

typedef enum asim_id_use {
    ASIM_ID_UNUSED,  /* 0 */
    ASIM_ID_NEW,     /* a slot that is not busy; busy afterwards */
    ASIM_ID_LIVE,    /* a slot that holds a live block */
    ASIM_ID_PENDING, /* a slot whose block was freed with ASIM_FREE_PENDING */
    ASIM_ID_STRING,  /* a string of the table */
    ASIM_ID_NUMBER,  /* a small number, at most id_max */
} asim_id_use;

typedef enum asim_size_use {
    ASIM_SIZE_UNUSED,   /* 0 */
    ASIM_SIZE_BYTES,    /* at most ASIM_SIZE_LIMIT */
    ASIM_SIZE_TIME,     /* nanoseconds, at most ASIM_SIZE_LIMIT */
    ASIM_SIZE_FRACTION, /* the bits of a double from 0 to 1 */
    ASIM_SIZE_NUMBER,   /* a small number, at most size_max */
} asim_size_use;

#define ASIM_SIZE_LIMIT ((uint64_t)INT64_MAX)

typedef struct asim_kind_rule {
    uint8_t lane;  /* asim_lane_use */
    uint8_t id;    /* asim_id_use */
    uint8_t size;  /* asim_size_use */
    uint8_t flags; /* those that may be set */
    uint8_t id_max;
    uint8_t size_max;
    uint8_t minor;          /* of the format, that the kind came with */
    uint8_t minor_of_flags; /* and its flags */
} asim_kind_rule;

/* ASIM_EV_KINDS of them, indexed by kind. */
extern const asim_kind_rule asim_kind_rules[ASIM_EV_KINDS];

/* The minor version of the format that an event needs. */
static inline unsigned asim_event_minor(const asim_event *event)
{
    const asim_kind_rule *rule = &asim_kind_rules[event->kind];
    return event->flags && rule->minor_of_flags > rule->minor ? rule->minor_of_flags : rule->minor;
}

#endif
