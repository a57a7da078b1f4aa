/* policies/torchcache_message.h - the out-of-memory message of a release, with its numbers (specification,
 * section 24), and the two errors that have a text of their own (R24, R116).
 *
 * The numbers, their order, how sizes are written and what is advised are PyTorch's; the words between them
 * are this simulator's own.
 */
#ifndef ASIM_POLICIES_TORCHCACHE_MESSAGE_H
#define ASIM_POLICIES_TORCHCACHE_MESSAGE_H

#include "policies/torchcache_release.h"

#include <stddef.h>

typedef enum asim_tc_refusal_kind {
    ASIM_TC_NOT_REFUSED = 0, /* nothing is said */
    ASIM_TC_OUT_OF_MEMORY,   /* R44: every number below counts */
    ASIM_TC_TOO_LARGE,       /* R24: 2^60 bytes or more; the message names the bound alone */
    ASIM_TC_REJECTED,        /* R116: before the device was asked; the message names requested alone */
} asim_tc_refusal_kind;

typedef struct asim_tc_refusal { /* bytes, at the moment of the failure */
    asim_tc_refusal_kind kind;
    uint64_t requested;   /* n of R116: as the program asked, not rounded */
    uint64_t attempted;   /* A of R175: the segment that was wanted, not the request */
    uint64_t total, free; /* of the device, as the driver tells */
    uint64_t limit;       /* R114; ASIM_TC_UNLIMITED: none set */
    uint64_t allocated;   /* allocated_bytes.all.current */
    uint64_t pool_free;   /* F of R175: free blocks of private pools */
    uint64_t reserved;    /* reserved_bytes.all.current */
    uint64_t range;       /* of addresses, that an expandable segment gets; 0: the option is off */
    unsigned device;
} asim_tc_refusal;

enum {
    ASIM_TC_SIZE_TEXT = 32 /* bytes that hold any size, with the closing zero */
};

/* R174: "1024.00 KiB". */
void asim_tc_size_text(uint64_t bytes, char ret_text[ASIM_TC_SIZE_TEXT]);

/* Writes one line without a line end, as snprintf does: at most capacity bytes with the closing zero; returns
 * the length of the whole. 0 for ASIM_TC_NOT_REFUSED. */
size_t asim_tc_refusal_text(const asim_tc_release *release, const asim_tc_refusal *refusal, char *ret_text,
                            size_t capacity);

#endif
