#include "traces/pickle.h"

#include "traces/pickle_machine.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    BUFFER_SIZE = 1 << 18,
    OPCODE_MAX = 16, /* bytes of the longest opcode with a fixed argument, and some */
    LONG_MAX_BYTES = 255,
    NAME_MAX_BYTES = 200, /* of a class reference, for the message */
};

struct asim_pickle {
    asim_input input;
    asim_pickle_client client;
    const asim_hostmem *mem;
    uint64_t base; /* offset of buffer[0] in the file */
    const uint8_t *next, *end;
    bool input_ended;
    char *text; /* strings that don't fit into the buffer */
    size_t text_capacity;
    uint64_t puts; /* MEMOIZE opcodes */
    asim_pickle_machine machine;
    uint8_t buffer[BUFFER_SIZE];
};

asim_code asim_pickle_new(const asim_input *input, const asim_pickle_client *client, const asim_hostmem *mem,
                          asim_pickle **ret_pickle, asim_err *err)
{
    asim_pickle *p = mem->resize(mem->ctx, NULL, 0, sizeof *p);
    if (!p)
        return asim_fail_memory(err, sizeof *p);
    memset(p, 0, offsetof(asim_pickle, buffer));
    p->input = *input;
    p->client = *client;
    p->mem = mem;
    p->next = p->end = p->buffer + OPCODE_MAX; /* so that end - OPCODE_MAX never points before the buffer */
    p->base = 0 - (uint64_t)OPCODE_MAX;
    p->machine.client = &p->client;
    p->machine.mem = mem;
    *ret_pickle = p;
    return ASIM_OK;
}

void asim_pickle_free(asim_pickle *p)
{
    if (!p)
        return;
    asim_pickle_machine_fini(&p->machine);
    asim_mem_free(p->mem, p->text, p->text_capacity, 1);
    asim_mem_free(p->mem, p, 1, sizeof *p);
}

static uint64_t offset_of(const asim_pickle *p, const uint8_t *at)
{
    return p->base + (uint64_t)(at - p->buffer);
}

/* Reads on until at least count bytes (at most the buffer) lie between next and end, or the input ends. */
static asim_code refill(asim_pickle *p, size_t count, asim_err *err)
{
    size_t left = (size_t)(p->end - p->next);
    p->base += (uint64_t)(p->next - p->buffer);
    memmove(p->buffer, p->next, left);
    p->next = p->buffer;
    while (left < count && !p->input_ended) {
        size_t length = 0;
        asim_code code = p->input.read(p->input.ctx, p->buffer + left, BUFFER_SIZE - left, &length, err);
        if (code)
            return code;
        p->input_ended = length == 0;
        left += length;
    }
    p->end = p->buffer + left;
    return ASIM_OK;
}

static uint64_t little(const uint8_t *bytes, size_t count)
{
    uint64_t number = 0;
    for (size_t i = count; i-- > 0;)
        number = number << 8 | bytes[i];
    return number;
}

static asim_code push_string(asim_pickle *p, uint64_t length, asim_err *err)
{
    uint32_t number;
    asim_code code;
    if (length > ASIM_PICKLE_STRING_MAX)
        return asim_fail(err, ASIM_E_INPUT,
                         "a string of %" PRIu64 " bytes: no memory snapshot holds one over %d", length,
                         ASIM_PICKLE_STRING_MAX);
    if (length <= BUFFER_SIZE) {
        if ((size_t)(p->end - p->next) < length && (code = refill(p, length, err)))
            return code;
        size_t there = (size_t)(p->end - p->next);
        if (there < length)
            return asim_fail(err, ASIM_E_INPUT,
                             "truncated: the file ends %zu bytes into a string of %" PRIu64, there, length);
        code = asim_strtab_add(p->client.strings, (const char *)p->next, length, &number, err);
        p->next += length;
    } else {
        size_t have = 0;
        while (have < length) {
            if (p->next == p->end && (code = refill(p, 1, err)))
                return code;
            size_t part = (size_t)(p->end - p->next);
            if (part == 0)
                return asim_fail(err, ASIM_E_INPUT,
                                 "truncated: the file ends %zu bytes into a string of %" PRIu64, have,
                                 length);
            if (part > length - have)
                part = length - have;
            if ((code = asim_mem_grow(p->mem, (void **)&p->text, &p->text_capacity, have + part, 1, err)))
                return code;
            memcpy(p->text + have, p->next, part);
            p->next += part;
            have += part;
        }
        code = asim_strtab_add(p->client.strings, p->text, length, &number, err);
    }
    if (code)
        return code;
    return asim_pickle_push(&p->machine, asim_pickle_make(ASIM_PICKLE_STRING, number));
}

static asim_code push_float(asim_pickle *p, const uint8_t *bytes)
{
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | bytes[i];
    return asim_pickle_push(&p->machine, (bits & ~UINT64_C(15)) | ASIM_PICKLE_FLOAT);
}

/* --- what is refused ----------------------------------------------------------------------------------- */

static size_t copy_line(asim_pickle *p, char *out, size_t room)
{
    size_t length = 0;
    while (p->next < p->end && *p->next != '\n') {
        if (length + 1 < room)
            out[length++] = (char)*p->next;
        p->next++;
    }
    if (p->next < p->end)
        p->next++;
    out[length] = 0;
    asim_strtab_clean(out, out, length);
    return length;
}

static asim_code refuse_class(asim_pickle *p, const char *module, const char *name, asim_err *err)
{
    (void)p;
    return asim_fail(err, ASIM_E_INPUT,
                     "holds a class reference (%s.%s): not a memory snapshot; nothing was executed", module,
                     name);
}

static asim_code refuse_line(asim_pickle *p, asim_err *err)
{
    char module[NAME_MAX_BYTES], name[NAME_MAX_BYTES];
    asim_code code = refill(p, 4 * NAME_MAX_BYTES, err);
    if (code)
        return code;
    copy_line(p, module, sizeof module);
    copy_line(p, name, sizeof name);
    return refuse_class(p, module, name, err);
}

static void stack_text(const asim_pickle *p, size_t below_top, char *out, size_t room)
{
    const asim_pickle_machine *m = &p->machine;
    snprintf(out, room, "?");
    if (m->depth - m->floor <= below_top)
        return;
    asim_pickle_value value = m->stack[m->depth - 1 - below_top];
    if (asim_pickle_tag(value) != ASIM_PICKLE_STRING)
        return;
    uint32_t number = (uint32_t)asim_pickle_payload(value);
    size_t length = p->client.strings->items[number].length;
    if (length >= room)
        length = room - 1;
    asim_strtab_clean(out, asim_strtab_text(p->client.strings, number), length);
    out[length] = 0;
}

static asim_code refuse(asim_pickle *p, uint8_t opcode, asim_err *err)
{
    char module[NAME_MAX_BYTES], name[NAME_MAX_BYTES];
    switch (opcode) {
    case 'c': /* GLOBAL */
    case 'i': /* INST */
        return refuse_line(p, err);
    case 0x93: /* STACK_GLOBAL */
        stack_text(p, 1, module, sizeof module);
        stack_text(p, 0, name, sizeof name);
        return refuse_class(p, module, name, err);
    case 'R':  /* REDUCE */
    case 'b':  /* BUILD */
    case 'o':  /* OBJ */
    case 0x81: /* NEWOBJ */
    case 0x92: /* NEWOBJ_EX */
        return asim_fail(err, ASIM_E_INPUT,
                         "builds or calls an object (opcode 0x%02X): not a memory snapshot; nothing was "
                         "executed",
                         opcode);
    case 0x82: /* EXT1 */
    case 0x83: /* EXT2 */
    case 0x84: /* EXT4 */
        return asim_fail(
            err, ASIM_E_INPUT,
            "holds a class reference by number (extension opcode 0x%02X): not a memory snapshot; "
            "nothing was executed",
            opcode);
    case 'P': /* PERSID */
    case 'Q': /* BINPERSID */
        return asim_fail(
            err, ASIM_E_INPUT,
            "refers to an object outside the file (persistent id): not a memory snapshot; nothing "
            "was executed");
    case 'B':  /* BINBYTES */
    case 'C':  /* SHORT_BINBYTES */
    case 0x8E: /* BINBYTES8 */
    case 0x96: /* BYTEARRAY8 */
    case 0x97: /* NEXT_BUFFER */
    case 0x98: /* READONLY_BUFFER */
    case 0x8F: /* EMPTY_SET */
    case 0x90: /* ADDITEMS */
    case 0x91: /* FROZENSET */
        return asim_fail(err, ASIM_E_INPUT, "holds %s (opcode 0x%02X), which no memory snapshot does",
                         opcode >= 0x8F && opcode <= 0x91 ? "a set" : "raw bytes", opcode);
    case 'F':
    case 'I':
    case 'L':
    case 'S':
    case 'V':
    case 'p':
    case 'g':
        return asim_fail(err, ASIM_E_INPUT,
                         "text opcode '%c' of pickle protocol 0: write the snapshot with protocol 2 or later",
                         opcode);
    default:
        return asim_fail(err, ASIM_E_INPUT, "0x%02X is no pickle opcode: damaged, or not a pickle", opcode);
    }
}

/* --- the loop ------------------------------------------------------------------------------------------ */

#define ARGUMENT(n)                                                                                          \
    do {                                                                                                     \
        if ((size_t)(p->end - p->next) < (n))                                                                \
            return asim_fail(err, ASIM_E_INPUT, "truncated: the file ends inside an opcode");                \
        arg = p->next;                                                                                       \
        p->next += (n);                                                                                      \
    } while (0)

static asim_code step_long(asim_pickle *p, uint64_t length, asim_err *err)
{
    const uint8_t *arg;
    if (length > LONG_MAX_BYTES)
        return asim_fail(err, ASIM_E_INPUT, "an integer of %" PRIu64 " bytes: no memory snapshot holds one",
                         length);
    asim_code code = (size_t)(p->end - p->next) < length ? refill(p, length, err) : ASIM_OK;
    if (code)
        return code;
    ARGUMENT(length);
    return asim_pickle_push_number(&p->machine, arg, length);
}

static asim_code step(asim_pickle *p, uint8_t opcode, asim_err *err)
{
    asim_pickle_machine *m = &p->machine;
    const uint8_t *arg;
    switch (opcode) {
    case 'h': /* BINGET */
        ARGUMENT(1);
        return asim_pickle_memo_get(m, *arg);
    case 'j': /* LONG_BINGET */
        ARGUMENT(4);
        return asim_pickle_memo_get(m, little(arg, 4));
    case 0x94: /* MEMOIZE: the number is the count of entries so far */
        return asim_pickle_memo_put(m, m->memo_count, offset_of(p, p->next));
    case 'q': /* BINPUT */
        ARGUMENT(1);
        return asim_pickle_memo_put(m, *arg, offset_of(p, p->next));
    case 'r': /* LONG_BINPUT */
        ARGUMENT(4);
        return asim_pickle_memo_put(m, little(arg, 4), offset_of(p, p->next));
    case 'K': /* BININT1 */
        ARGUMENT(1);
        return asim_pickle_push(m, asim_pickle_make(ASIM_PICKLE_INT, *arg));
    case 'M': /* BININT2 */
        ARGUMENT(2);
        return asim_pickle_push(m, asim_pickle_make(ASIM_PICKLE_INT, little(arg, 2)));
    case 'J': /* BININT */
        ARGUMENT(4);
        return asim_pickle_push(
            m, asim_pickle_make(ASIM_PICKLE_INT, (uint64_t)(int64_t)(int32_t)(uint32_t)little(arg, 4)));
    case 0x8A: /* LONG1 */
        ARGUMENT(1);
        return step_long(p, *arg, err);
    case 0x8B: /* LONG4 */
        ARGUMENT(4);
        if (arg[3] >= 0x80)
            return asim_fail(err, ASIM_E_INPUT, "an integer with a negative length");
        return step_long(p, little(arg, 4), err);
    case 'G': /* BINFLOAT */
        ARGUMENT(8);
        return push_float(p, arg);
    case 0x8C: /* SHORT_BINUNICODE */
    case 'U':  /* SHORT_BINSTRING, the text of Python 2 */
        ARGUMENT(1);
        return push_string(p, *arg, err);
    case 'X': /* BINUNICODE */
    case 'T': /* BINSTRING */
        ARGUMENT(4);
        return push_string(p, little(arg, 4), err);
    case 0x8D: /* BINUNICODE8 */
        ARGUMENT(8);
        return push_string(p, little(arg, 8), err);
    case 'N': /* NONE */
        return asim_pickle_push(m, asim_pickle_make(ASIM_PICKLE_NONE, 0));
    case 0x88: /* NEWTRUE */
        return asim_pickle_push(m, asim_pickle_make(ASIM_PICKLE_BOOL, 1));
    case 0x89: /* NEWFALSE */
        return asim_pickle_push(m, asim_pickle_make(ASIM_PICKLE_BOOL, 0));
    case '(': /* MARK */
        return asim_pickle_push_mark(m);
    case '}': /* EMPTY_DICT */
        return asim_pickle_push_container(m, false);
    case ']': /* EMPTY_LIST */
        return asim_pickle_push_container(m, true);
    case ')': /* EMPTY_TUPLE */
        return asim_pickle_tuple(m, 0);
    case 'u': /* SETITEMS */
        return asim_pickle_set_items(m, true);
    case 's': /* SETITEM */
        return asim_pickle_set_items(m, false);
    case 'e': /* APPENDS */
        return asim_pickle_append(m, true);
    case 'a': /* APPEND */
        return asim_pickle_append(m, false);
    case 't': /* TUPLE */
        return asim_pickle_tuple_from_mark(m);
    case 0x85: /* TUPLE1 */
    case 0x86: /* TUPLE2 */
    case 0x87: /* TUPLE3 */
        return asim_pickle_tuple(m, opcode - 0x84u);
    case 'l': /* LIST */
        return asim_pickle_collect(m, true);
    case 'd': /* DICT */
        return asim_pickle_collect(m, false);
    case '0': /* POP */
        return asim_pickle_pop(m);
    case '1': /* POP_MARK */
        return asim_pickle_pop_mark(m);
    case '2': /* DUP */
        return asim_pickle_duplicate(m);
    case 0x95: /* FRAME: how the writer cut the file into pieces; we read through */
        ARGUMENT(8);
        return ASIM_OK;
    case 0x80: /* PROTO */
        ARGUMENT(1);
        if (*arg < 2 || *arg > 5)
            return asim_fail(err, ASIM_E_INPUT, "pickle protocol %u: 2 to 5 are read", *arg);
        return ASIM_OK;
    default:
        return refuse(p, opcode, err);
    }
}

/* Nine opcodes of ten fetch from the memo or push a small number. They are taken here as long as nothing is
 * unusual about them; whatever is (the buffer's end, a full stack, a bad number) is left to step, unread. */
static void run_of_pushes(asim_pickle *p)
{
    asim_pickle_machine *m = &p->machine;
    const uint8_t *next = p->next, *end = p->end - OPCODE_MAX;
    asim_pickle_value *top = m->stack + m->depth, *room = m->stack + m->stack_capacity;
    const uint32_t *memo = m->memo;
    const size_t memo_count = m->memo_count;
    while (next <= end && top < room) {
        uint32_t word;
        size_t length;
        asim_pickle_value value;
        switch (*next) {
        case 'h':
            word = next[1];
            length = 2;
            if (word >= memo_count || asim_pickle_memo_is_special(memo[word]))
                goto stop;
            value = memo[word];
            break;
        case 'j': /* a call stack is a row of these */
            do {
                memcpy(&word, next + 1, 4);
                word = le32toh(word);
                if (word >= memo_count || asim_pickle_memo_is_special(memo[word]))
                    goto stop;
                *top++ = memo[word];
                next += 5;
            } while (next <= end && top < room && *next == 'j');
            continue;
        case 'K':
            value = asim_pickle_make(ASIM_PICKLE_INT, next[1]);
            length = 2;
            break;
        case 'M':
            value = asim_pickle_make(ASIM_PICKLE_INT, little(next + 1, 2));
            length = 3;
            break;
        case 'J':
            memcpy(&word, next + 1, 4);
            value = asim_pickle_make(ASIM_PICKLE_INT, (uint64_t)(int64_t)(int32_t)le32toh(word));
            length = 5;
            break;
        default:
            goto stop;
        }
        *top++ = value;
        next += length;
    }
stop:
    m->depth = (size_t)(top - m->stack);
    p->next = next;
}

static asim_code loop(asim_pickle *p, asim_pickle_value *ret_value, asim_err *err, uint64_t *ret_position)
{
    for (bool first = true;; first = false) {
        *ret_position = offset_of(p, p->next);
        if (p->end - p->next < OPCODE_MAX && !p->input_ended) {
            asim_code code = refill(p, OPCODE_MAX, err);
            if (code)
                return code;
        }
        if (p->next == p->end)
            return asim_fail(err, ASIM_E_INPUT,
                             first ? "the file is empty" : "truncated: the file ends before the pickle does");
        uint8_t opcode = *p->next;
        if (first && opcode != 0x80)
            return asim_fail(err, ASIM_E_INPUT,
                             "does not begin like a pickle of protocol 2 to 5 (0x80, not 0x%02X)", opcode);
        p->next++;
        if (opcode == '.') { /* STOP */
            if (p->machine.mark_count)
                return asim_fail(err, ASIM_E_INPUT, "STOP while %zu marks are open", p->machine.mark_count);
            return asim_pickle_take(&p->machine, ret_value);
        }
        asim_code code = step(p, opcode, err);
        if (code)
            return code;
        run_of_pushes(p);
    }
}

asim_code asim_pickle_run(asim_pickle *p, asim_pickle_value *ret_value, asim_err *err)
{
    asim_err own = ASIM_ERR_INIT; /* positions are added to it even when the caller wants no message */
    if (!err)
        err = &own;
    err->position = ASIM_NO_POSITION;
    p->machine.err = err;
    uint64_t position = 0;
    asim_code code = loop(p, ret_value, err, &position);
    if (code == ASIM_E_INPUT && err->position == ASIM_NO_POSITION) {
        asim_err_context(err, "byte %" PRIu64, position);
        err->position = position;
    }
    return code;
}

asim_code asim_pickle_at_end(asim_pickle *p, bool *ret_end, asim_err *err)
{
    asim_code code = refill(p, 1, err);
    if (!code)
        *ret_end = p->next == p->end;
    return code;
}

bool asim_pickle_unsigned(const asim_pickle *p, asim_pickle_value value, uint64_t *ret_number)
{
    uint64_t payload = asim_pickle_payload(value);
    switch (asim_pickle_tag(value)) {
    case ASIM_PICKLE_BOOL:
        *ret_number = payload;
        return true;
    case ASIM_PICKLE_INT:
        *ret_number = (uint64_t)((int64_t)value >> 4);
        return true;
    case ASIM_PICKLE_BIG:
        *ret_number = p->machine.bigs[payload].bits;
        return !p->machine.bigs[payload].beyond;
    default:
        return false;
    }
}

bool asim_pickle_double(asim_pickle_value value, double *ret_number)
{
    if (asim_pickle_tag(value) == ASIM_PICKLE_FLOAT) {
        uint64_t bits = value & ~UINT64_C(15);
        memcpy(ret_number, &bits, sizeof bits);
        return true;
    }
    if (asim_pickle_tag(value) != ASIM_PICKLE_INT)
        return false;
    *ret_number = (double)((int64_t)value >> 4);
    return true;
}
