/* traces/pickle_machine.h - inside of the pickle reader: the stack, the memo and open containers.
 *
 * pickle.c decodes opcodes and calls these; nobody else includes this. Each function that can fail fills
 * machine->err and returns its code; the message has no position yet.
 */
#ifndef ASIM_TRACES_PICKLE_MACHINE_H
#define ASIM_TRACES_PICKLE_MACHINE_H

#include "traces/pickle.h"

typedef struct asim_pickle_container {
    asim_pickle_item *items; /* kept, with its room, when the place is used again */
    size_t count, capacity;
    asim_pickle_value value; /* once complete */
    uint32_t uses;           /* places on the stack that hold it */
    uint32_t memo;           /* number under which the memo knows it, plus 1; 0: none */
    uint32_t next_unused;
    bool is_list, complete;
    bool pinned; /* the memo knows it twice: its place is never used again */
} asim_pickle_container;

typedef struct asim_pickle_big {
    uint64_t bits;
    bool beyond; /* more than 64 bits; no number */
} asim_pickle_big;

typedef struct asim_pickle_machine {
    const asim_pickle_client *client;
    const asim_hostmem *mem;
    asim_err *err;
    asim_pickle_value *stack;
    size_t depth, stack_capacity;
    size_t floor;                         /* values below it are under the last mark */
    uint32_t marks[ASIM_PICKLE_OPEN_MAX]; /* depth at each mark */
    size_t mark_count;
    uint32_t *memo; /* a tag and 28 bits of payload, or the tag SPILLED and an index into spilled */
    size_t memo_count, memo_capacity;
    asim_pickle_value *spilled;
    size_t spilled_count, spilled_capacity;
    asim_pickle_big *bigs;
    size_t big_count, big_capacity;
    asim_pickle_container containers[ASIM_PICKLE_OPEN_MAX];
    uint32_t container_count; /* places ever used */
    uint32_t unused;          /* first of the list of unused places below that, plus 1 */
} asim_pickle_machine;

/* Memo entries that are not the value itself: tags 6 (CONTAINER), 7 (spilled) and 15 (no value). */
static inline bool asim_pickle_memo_is_special(uint32_t entry)
{
    return (UINT32_C(0x80C0) >> (entry & 15) & 1) != 0;
}

void asim_pickle_machine_fini(asim_pickle_machine *m);

asim_code asim_pickle_grow_stack(asim_pickle_machine *m);

static inline asim_code asim_pickle_push(asim_pickle_machine *m, asim_pickle_value value)
{
    if (m->depth == m->stack_capacity) {
        asim_code code = asim_pickle_grow_stack(m);
        if (code)
            return code;
    }
    m->stack[m->depth++] = value;
    return ASIM_OK;
}

asim_code asim_pickle_push_number(asim_pickle_machine *m, const uint8_t *bytes, size_t length);
asim_code asim_pickle_push_container(asim_pickle_machine *m, bool is_list);
asim_code asim_pickle_push_mark(asim_pickle_machine *m);

/* Completes what is on top and takes it off. */
asim_code asim_pickle_take(asim_pickle_machine *m, asim_pickle_value *ret_value);
asim_code asim_pickle_pop(asim_pickle_machine *m);      /* POP: a value, or the mark on top */
asim_code asim_pickle_pop_mark(asim_pickle_machine *m); /* POP_MARK: the mark and what is above it */
asim_code asim_pickle_duplicate(asim_pickle_machine *m);

asim_code asim_pickle_append(asim_pickle_machine *m, bool many);    /* APPEND, APPENDS */
asim_code asim_pickle_set_items(asim_pickle_machine *m, bool many); /* SETITEM, SETITEMS */
asim_code asim_pickle_tuple(asim_pickle_machine *m, size_t count);  /* of the topmost values */
asim_code asim_pickle_tuple_from_mark(asim_pickle_machine *m);
asim_code asim_pickle_collect(asim_pickle_machine *m, bool is_list); /* LIST, DICT: from the mark */

/* position: bytes of the file before this opcode; no pickler can have used more numbers than that. */
asim_code asim_pickle_memo_put(asim_pickle_machine *m, uint64_t number, uint64_t position);
asim_code asim_pickle_memo_get(asim_pickle_machine *m, uint64_t number);

#endif
