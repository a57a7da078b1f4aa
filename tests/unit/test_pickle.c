/* The pickle reader: each opcode, by a client that spells values out; and hostile input. Expected values are
 * what Python's pickle module documents for the opcodes. */
#include "tests/pickle_text.h"
#include "traces/pickle.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A client whose values are texts; containers are spelled when complete. */
typedef struct speller {
    asim_pickle *pickle;
    asim_strtab strings;
    char *texts[256];
    size_t count, lists;
} speller;

static void spell(const speller *s, asim_pickle_value value, char *out, size_t room)
{
    uint64_t payload = asim_pickle_payload(value), number;
    double real;
    switch (asim_pickle_tag(value)) {
    case ASIM_PICKLE_NONE:
        snprintf(out, room, "None");
        break;
    case ASIM_PICKLE_BOOL:
        snprintf(out, room, payload ? "True" : "False");
        break;
    case ASIM_PICKLE_INT:
        cr_assert(asim_pickle_unsigned(s->pickle, value, &number));
        snprintf(out, room, "%" PRId64, (int64_t)number);
        break;
    case ASIM_PICKLE_BIG:
        if (asim_pickle_unsigned(s->pickle, value, &number))
            snprintf(out, room, "0x%" PRIx64, number);
        else
            snprintf(out, room, "huge");
        break;
    case ASIM_PICKLE_FLOAT:
        cr_assert(asim_pickle_double(value, &real));
        snprintf(out, room, "%g", real);
        break;
    case ASIM_PICKLE_STRING:
        snprintf(out, room, "'%.40s'", asim_strtab_text(&s->strings, (uint32_t)payload));
        break;
    case ASIM_PICKLE_CLIENT:
        snprintf(out, room, "%s", s->texts[payload]);
        break;
    default:
        cr_assert_fail("a client may not see tag %u", asim_pickle_tag(value));
    }
}

static asim_code keep(speller *s, const char *text, asim_pickle_value *ret_value)
{
    if (s->count < sizeof s->texts / sizeof *s->texts)
        s->texts[s->count++] = strdup(text);
    *ret_value = asim_pickle_make(ASIM_PICKLE_CLIENT, s->count - 1);
    return ASIM_OK;
}

static void add(char *text, size_t room, const char *part)
{
    size_t length = strlen(text);
    snprintf(text + length, room - length, "%s", part);
}

static asim_code spell_dict(void *ctx, const asim_pickle_item *pairs, size_t count,
                            asim_pickle_value *ret_value, asim_err *err)
{
    speller *s = ctx;
    char text[2000] = "{", part[500];
    (void)err;
    for (size_t i = 0; i < count; i++) {
        add(text, sizeof text, i ? ", " : "");
        spell(s, pairs[i].a, part, sizeof part);
        add(text, sizeof text, part);
        spell(s, pairs[i].b, part, sizeof part);
        add(text, sizeof text, ": ");
        add(text, sizeof text, part);
    }
    add(text, sizeof text, "}");
    return keep(s, text, ret_value);
}

static asim_code spell_list(void *ctx, const asim_pickle_item *runs, size_t count,
                            asim_pickle_value *ret_value, asim_err *err)
{
    speller *s = ctx;
    char text[2000] = "[", part[500];
    (void)err;
    s->lists++;
    for (size_t i = 0; i < count; i++) {
        for (uint64_t k = 0; k < runs[i].b && k < 10; k++) {
            add(text, sizeof text, i || k ? ", " : "");
            spell(s, runs[i].a + (k << 4), part, sizeof part);
            add(text, sizeof text, part);
        }
    }
    add(text, sizeof text, "]");
    return keep(s, text, ret_value);
}

static asim_code spell_tuple(void *ctx, const asim_pickle_value *items, size_t count,
                             asim_pickle_value *ret_value, asim_err *err)
{
    speller *s = ctx;
    char text[2000] = "(", part[500];
    (void)err;
    for (size_t i = 0; i < count; i++) {
        add(text, sizeof text, i ? ", " : "");
        spell(s, items[i], part, sizeof part);
        add(text, sizeof text, part);
    }
    add(text, sizeof text, ")");
    return keep(s, text, ret_value);
}

/* Reads bytes; out gets the spelled value, or the message of the error. */
static asim_code read_bytes(const void *bytes, size_t length, size_t piece, const asim_hostmem *mem,
                            char *out, size_t room, uint64_t *ret_position)
{
    memory_input memory = {bytes, length, 0, piece};
    asim_input input = memory_input_stream(&memory);
    speller s = {0};
    asim_pickle_client client = {spell_dict, spell_list, spell_tuple, &s.strings, 1u << ASIM_PICKLE_CLIENT,
                                 &s};
    asim_pickle_value value;
    asim_err err = ASIM_ERR_INIT;
    asim_strtab_init(&s.strings, mem);
    asim_code code = asim_pickle_new(&input, &client, mem, &s.pickle, &err);
    if (!code)
        code = asim_pickle_run(s.pickle, &value, &err);
    if (!code)
        spell(&s, value, out, room);
    else
        snprintf(out, room, "%s", err.message);
    if (ret_position)
        *ret_position = err.position;
    asim_pickle_free(s.pickle);
    asim_strtab_fini(&s.strings);
    for (size_t i = 0; i < s.count; i++)
        free(s.texts[i]);
    return code;
}

typedef struct example {
    const char *name;
    const char *bytes;
    size_t length;
    const char *expected;
} example;

#define BYTES(text) text, sizeof(text) - 1

static const example good[] = {
    {"NONE", BYTES("\x80\x04N."), "None"},
    {"protocol 2", BYTES("\x80\x02N."), "None"},
    {"protocol 5", BYTES("\x80\x05N."), "None"},
    {"NEWTRUE", BYTES("\x80\x04\x88."), "True"},
    {"NEWFALSE", BYTES("\x80\x04\x89."), "False"},
    {"BININT1", BYTES("\x80\x04K\xFF."), "255"},
    {"BININT2", BYTES("\x80\x04M\x01\x02."), "513"},
    {"BININT", BYTES("\x80\x04J\xFE\xFF\xFF\xFF."), "-2"},
    {"LONG1 of no bytes", BYTES("\x80\x04\x8A\x00."), "0"},
    {"LONG1 of an address", BYTES("\x80\x04\x8A\x06\x00\x00\x60\xA8\x20\x7F."), "139778240544768"},
    {"LONG1 negative", BYTES("\x80\x04\x8A\x01\xFF."), "-1"},
    {"LONG1 of 64 bits", BYTES("\x80\x04\x8A\x09\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x00."),
     "0xffffffffffffffff"},
    {"LONG1 beyond", BYTES("\x80\x04\x8A\x09\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01."), "huge"},
    {"LONG4", BYTES("\x80\x04\x8B\x02\x00\x00\x00\x00\x80."), "-32768"},
    {"BINFLOAT", BYTES("\x80\x04G\x3F\xF8\x00\x00\x00\x00\x00\x00."), "1.5"},
    {"SHORT_BINUNICODE",
     BYTES("\x80\x04\x8C\x03"
           "abc."),
     "'abc'"},
    {"BINUNICODE", BYTES("\x80\x04X\x02\x00\x00\x00hi."), "'hi'"},
    {"BINUNICODE8", BYTES("\x80\x04\x8D\x02\x00\x00\x00\x00\x00\x00\x00hi."), "'hi'"},
    {"text of Python 2", BYTES("\x80\x02U\x02hi."), "'hi'"},
    {"long text of Python 2", BYTES("\x80\x02T\x02\x00\x00\x00hi."), "'hi'"},
    {"EMPTY_TUPLE", BYTES("\x80\x04)."), "()"},
    {"TUPLE1", BYTES("\x80\x04K\x01\x85."), "(1)"},
    {"TUPLE2", BYTES("\x80\x04K\x01K\x02\x86."), "(1, 2)"},
    {"TUPLE3", BYTES("\x80\x04K\x01K\x02K\x03\x87."), "(1, 2, 3)"},
    {"TUPLE", BYTES("\x80\x04(K\x01K\x02K\x03K\x04t."), "(1, 2, 3, 4)"},
    {"EMPTY_DICT", BYTES("\x80\x04}."), "{}"},
    {"SETITEM", BYTES("\x80\x04}K\x01K\x02s."), "{1: 2}"},
    {"SETITEMS", BYTES("\x80\x04}(K\x01K\x02K\x03K\x04u."), "{1: 2, 3: 4}"},
    {"SETITEMS of nothing", BYTES("\x80\x04}(u."), "{}"},
    {"a dict in two pieces", BYTES("\x80\x04}(K\x01K\x02uK\x03K\x04s."), "{1: 2, 3: 4}"},
    {"EMPTY_LIST", BYTES("\x80\x04]."), "[]"},
    {"APPEND",
     BYTES("\x80\x04]K\x07"
           "a."),
     "[7]"},
    {"APPENDS",
     BYTES("\x80\x04](K\x07K\x08"
           "e."),
     "[7, 8]"},
    {"APPENDS of nothing", BYTES("\x80\x02](e."), "[]"},
    {"a list in two pieces",
     BYTES("\x80\x04](K\x01K\x02"
           "eK\x03"
           "a."),
     "[1, 2, 3]"},
    {"LIST", BYTES("\x80\x02(K\x01K\x02l."), "[1, 2]"},
    {"DICT",
     BYTES("\x80\x02(K\x01K\x02"
           "d."),
     "{1: 2}"},
    {"FRAME", BYTES("\x80\x04\x95\x02\x00\x00\x00\x00\x00\x00\x00N."), "None"},
    {"MEMOIZE and BINGET", BYTES("\x80\x04\x8C\x01x\x94h\x00\x86."), "('x', 'x')"},
    {"BINPUT and LONG_BINGET", BYTES("\x80\x02K\x05q\x00j\x00\x00\x00\x00\x86."), "(5, 5)"},
    {"LONG_BINPUT", BYTES("\x80\x02K\x05r\x01\x00\x00\x00h\x01\x86."), "(5, 5)"},
    {"a large number memoised", BYTES("\x80\x04\x8A\x05\x00\x00\x00\x00\x10\x94h\x00\x86."),
     "(68719476736, 68719476736)"},
    {"a list used before its parent takes it", BYTES("\x80\x04}(K\x01]\x94K\x02h\x00u."), "{1: [], 2: []}"},
    {"a list memoised twice",
     BYTES("\x80\x02]q\x00q\x01(K\x01"
           "eh\x00h\x01\x87."),
     "([1], [1], [1])"},
    {"a shared dict",
     BYTES("\x80\x04](}\x94K\x01K\x02sh\x00"
           "e."),
     "[{1: 2}, {1: 2}]"},
    {"dicts side by side", BYTES("\x80\x04](}(K\x01K\x02u}(K\x03K\x04u}(K\x05K\x06ue."),
     "[{1: 2}, {3: 4}, {5: 6}]"},
    {"an empty dict under another", BYTES("\x80\x04](}}}e."), "[{}, {}, {}]"},
    {"a memo number that is used again", BYTES("\x80\x02]q\x00K\x05q\x00h\x00\x87."), "([], 5, 5)"},
    {"POP",
     BYTES("\x80\x04K\x01K\x02"
           "0."),
     "1"},
    {"POP of a list that the memo keeps",
     BYTES("\x80\x04]\x94(K\x01"
           "e0h\x00."),
     "[1]"},
    {"POP of a mark", BYTES("\x80\x04K\x01(0."), "1"},
    {"POP_MARK", BYTES("\x80\x04K\x01(K\x02]1."), "1"},
    {"DUP",
     BYTES("\x80\x04K\x01"
           "2\x86."),
     "(1, 1)"},
    {"DUP of a list",
     BYTES("\x80\x04]K\x01"
           "a2\x86."),
     "([1], [1])"},
    {"more than one value at STOP", BYTES("\x80\x04K\x01K\x02."), "2"},
};

Test(pickle, every_opcode)
{
    char out[ASIM_ERR_MESSAGE_MAX];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        for (size_t piece = 0; piece < 2; piece++) { /* all at once, and byte by byte */
            asim_code code =
                read_bytes(good[i].bytes, good[i].length, piece, asim_hostmem_libc(), out, sizeof out, NULL);
            cr_expect_eq(code, ASIM_OK, "%s: %s", good[i].name, out);
            cr_expect_str_eq(out, good[i].expected, "%s: %s", good[i].name, out);
        }
    }
}

static const char not_executed[] = ": not a memory snapshot; nothing was executed";

static const example bad[] = {
    {"empty", BYTES(""), "byte 0: the file is empty"},
    {"text", BYTES("hello"), "byte 0: does not begin like a pickle of protocol 2 to 5 (0x80, not 0x68)"},
    {"protocol 0", BYTES("(dp0\n."),
     "byte 0: does not begin like a pickle of protocol 2 to 5 (0x80, not 0x28)"},
    {"protocol 1", BYTES("\x80\x01N."), "byte 0: pickle protocol 1: 2 to 5 are read"},
    {"protocol 6", BYTES("\x80\x06N."), "byte 0: pickle protocol 6: 2 to 5 are read"},
    {"GLOBAL",
     BYTES("\x80\x02"
           "cos\nsystem\n."),
     "byte 2: holds a class reference (os.system)"},
    {"STACK_GLOBAL", BYTES("\x80\x04\x8C\x02os\x8C\x06system\x93."),
     "byte 14: holds a class reference (os.system)"},
    {"STACK_GLOBAL of nothing", BYTES("\x80\x04\x93."), "byte 2: holds a class reference (?.?)"},
    {"INST", BYTES("\x80\x02(ios\nsystem\n."), "byte 3: holds a class reference (os.system)"},
    {"REDUCE", BYTES("\x80\x04NNR."), "byte 4: builds or calls an object (opcode 0x52)"},
    {"BUILD", BYTES("\x80\x04NNb."), "byte 4: builds or calls an object (opcode 0x62)"},
    {"OBJ", BYTES("\x80\x04(No."), "byte 4: builds or calls an object (opcode 0x6F)"},
    {"NEWOBJ", BYTES("\x80\x04NN\x81."), "byte 4: builds or calls an object (opcode 0x81)"},
    {"NEWOBJ_EX", BYTES("\x80\x04NNN\x92."), "byte 5: builds or calls an object (opcode 0x92)"},
    {"EXT1", BYTES("\x80\x02\x82\x01."), "byte 2: holds a class reference by number (extension opcode 0x82)"},
    {"PERSID", BYTES("\x80\x02Pabc\n."), "byte 2: refers to an object outside the file (persistent id)"},
    {"BINPERSID", BYTES("\x80\x02NQ."), "byte 3: refers to an object outside the file (persistent id)"},
    {"BINBYTES",
     BYTES("\x80\x04"
           "C\x01x."),
     "byte 2: holds raw bytes (opcode 0x43), which no memory snapshot does"},
    {"EMPTY_SET", BYTES("\x80\x04\x8F."), "byte 2: holds a set (opcode 0x8F), which no memory snapshot does"},
    {"INT of protocol 0", BYTES("\x80\x02I1\n."),
     "byte 2: text opcode 'I' of pickle protocol 0: write the snapshot with protocol 2 or later"},
    {"no opcode", BYTES("\x80\x04\xFF."), "byte 2: 0xFF is no pickle opcode: damaged, or not a pickle"},
    {"string of 2^60 bytes", BYTES("\x80\x04\x8D\x00\x00\x00\x00\x00\x00\x00\x10x"),
     "byte 2: a string of 1152921504606846976 bytes: no memory snapshot holds one over 16777216"},
    {"string of 2 MiB that is not there", BYTES("\x80\x04X\x00\x00\x20\x00xyz"),
     "byte 2: truncated: the file ends 3 bytes into a string of 2097152"},
    {"LONG4 of 2^30 bytes", BYTES("\x80\x04\x8B\x00\x00\x00\x40x"),
     "byte 2: an integer of 1073741824 bytes: no memory snapshot holds one"},
    {"LONG4 of -1 bytes", BYTES("\x80\x04\x8B\xFF\xFF\xFF\xFF."),
     "byte 2: an integer with a negative length"},
    {"memo number of 4 billion", BYTES("\x80\x02Nr\xFF\xFF\xFF\xFF."),
     "byte 3: memo number 4294967295 can't have been reached in 8 bytes"},
    {"memo number never set", BYTES("\x80\x02h\x05."), "byte 2: memo number 5 is used before it was set"},
    {"memo number passed over", BYTES("\x80\x02Nq\x01h\x00."),
     "byte 5: memo number 0 is used before it was set"},
    {"MEMOIZE of nothing", BYTES("\x80\x04\x94."),
     "byte 2: stack underflow: this opcode takes 1 value, 0 there"},
    {"STOP with nothing", BYTES("\x80\x04."), "byte 2: stack underflow: this opcode takes 1 value, 0 there"},
    {"STOP under a mark", BYTES("\x80\x04N(."), "byte 4: STOP while 1 marks are open"},
    {"SETITEM of two", BYTES("\x80\x04NNs."), "byte 4: stack underflow: this opcode takes 3 values, 2 there"},
    {"SETITEM through a mark", BYTES("\x80\x04}(NNs."),
     "byte 6: stack underflow: this opcode takes 3 values, 2 there"},
    {"APPENDS without a mark", BYTES("\x80\x04]Ne."),
     "byte 4: MARK missing: this opcode takes the values since a mark and there is none"},
    {"APPENDS on nothing", BYTES("\x80\x04(Ne."),
     "byte 4: stack underflow: no container under the values that go into it"},
    {"APPEND on a dict", BYTES("\x80\x04}Na."), "byte 4: what is to be filled is not a list"},
    {"APPEND on a number", BYTES("\x80\x04K\x01Na."),
     "byte 5: what is to be filled is not an open list (or was used before it was filled)"},
    {"a key without a value", BYTES("\x80\x04}(NNNu."), "byte 7: a dict is given a key without a value"},
    {"a list as key", BYTES("\x80\x04}]Ns."),
     "byte 5: what is to be filled is not an open dict (or was used "
     "before it was filled)"},
    {"a dict that holds itself", BYTES("\x80\x04}\x94K\x01h\x00s."),
     "byte 8: a container holds itself: not a memory snapshot"},
    {"a list that holds itself",
     BYTES("\x80\x04]\x94h\x00"
           "a."),
     "byte 6: a container holds itself: not a memory snapshot"},
    {"a list filled after it was used",
     BYTES("\x80\x04]\x94]h\x00"
           "ah\x00K\x01"
           "a."),
     "byte 12: what is to be filled is not an open list (or was used before it was filled)"},
};

Test(pickle, hostile_input_gets_its_own_message)
{
    char out[ASIM_ERR_MESSAGE_MAX], expected[ASIM_ERR_MESSAGE_MAX];
    counting_memory counter = {.limit = 8 << 20}; /* whatever the input claims */
    asim_hostmem mem = counting_memory_table(&counter);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t position, wanted = strtoull(bad[i].expected + 5, NULL, 10);
        asim_code code = read_bytes(bad[i].bytes, bad[i].length, 0, &mem, out, sizeof out, &position);
        bool executes = strstr(bad[i].expected, "class reference") || strstr(bad[i].expected, "object");
        snprintf(expected, sizeof expected, "%s%s", bad[i].expected, executes ? not_executed : "");
        cr_expect_eq(code, ASIM_E_INPUT, "%s: %s", bad[i].name, out);
        cr_expect_str_eq(out, expected, "%s: %s", bad[i].name, out);
        cr_expect_eq(position, wanted, "%s: position %" PRIu64, bad[i].name, position);
    }
    cr_assert_eq(counter.used, 0);
}

/* Everything in one pickle, cut at every byte: each piece is called truncated, with a position in it. */
Test(pickle, truncated_at_every_byte)
{
    static const char whole[] =
        "\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94(\x8C\x03"
        "abc\x94K\x01M\x02\x01J\x01\x02\x03\x04\x8A\x02\x01\x02\x8B\x01\x00\x00\x00\x05"
        "G\x3F\xF8\x00\x00\x00\x00\x00\x00\x88h\x01j\x01\x00\x00\x00)](NNeu.";
    size_t length = sizeof whole - 1;
    char out[ASIM_ERR_MESSAGE_MAX];
    uint64_t position;
    cr_assert_eq(read_bytes(whole, length, 0, asim_hostmem_libc(), out, sizeof out, NULL), ASIM_OK, "%s",
                 out);
    for (size_t n = 0; n < length; n++) {
        for (size_t piece = 0; piece < 2; piece++) {
            asim_code code = read_bytes(whole, n, piece, asim_hostmem_libc(), out, sizeof out, &position);
            cr_expect_eq(code, ASIM_E_INPUT, "cut at %zu", n);
            cr_expect(strstr(out, n ? "truncated: the file ends " : "the file is empty"), "cut at %zu: %s", n,
                      out);
            cr_expect_leq(position, n);
        }
    }
}

static char *repeated(const char *unit, size_t times, size_t *ret_length)
{
    size_t length = strlen(unit);
    char *bytes = malloc(2 + length * times);
    memcpy(bytes, "\x80\x04", 2);
    for (size_t i = 0; i < times; i++)
        memcpy(bytes + 2 + i * length, unit, length);
    *ret_length = 2 + length * times;
    return bytes;
}

Test(pickle, depth_and_memory_are_bounded)
{
    static const struct {
        const char *unit, *expected;
    } floods[] = {
        {"]", "byte 4098: nested too deeply: more than 4096 containers open at once"},
        {"](", "byte 8194: nested too deeply: more than 4096 containers open at once"},
        {"(", "byte 4098: nested too deeply: more than 4096 marks open at once"},
        {"]\x94", "byte 8194: nested too deeply: more than 4096 containers open at once"},
        {"}\x8C\x01k", "byte 16386: nested too deeply: more than 4096 containers open at once"},
    };
    char out[ASIM_ERR_MESSAGE_MAX];
    for (size_t i = 0; i < sizeof floods / sizeof *floods; i++) {
        counting_memory counter = {.limit = 8 << 20};
        asim_hostmem mem = counting_memory_table(&counter);
        size_t length;
        char *bytes = repeated(floods[i].unit, 100000, &length);
        asim_code code = read_bytes(bytes, length, 0, &mem, out, sizeof out, NULL);
        cr_expect_eq(code, ASIM_E_INPUT);
        cr_expect_str_eq(out, floods[i].expected, "%s", out);
        free(bytes);
    }
}

Test(pickle, large_strings_and_many_batches)
{
    /* A string beyond the buffer, and a list of 50,000 tuples whose consecutive numbers collapse. */
    size_t length = 400000, at = 0;
    char *bytes = malloc(length + 100000), out[ASIM_ERR_MESSAGE_MAX];
    memcpy(bytes, "\x80\x04X\x80\x1A\x06\x00", 7); /* 400000 bytes */
    memset(bytes + 7, 'y', length);
    bytes[7 + length] = '.';
    cr_assert_eq(read_bytes(bytes, length + 8, 4099, asim_hostmem_libc(), out, sizeof out, NULL), ASIM_OK,
                 "%s", out);
    cr_assert_str_eq(out, "'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy'");
    memcpy(bytes, "\x80\x04](", 4);
    for (at = 4; at < 100; at++)
        bytes[at] = ')';
    memcpy(bytes + at, "e.", 2);
    cr_assert_eq(read_bytes(bytes, at + 2, 0, asim_hostmem_libc(), out, sizeof out, NULL), ASIM_OK, "%s",
                 out);
    cr_assert_str_eq(out, "[(), (), (), (), (), (), (), (), (), ()]"); /* one run of 96, spelled up to 10 */
    free(bytes);
}

Test(pickle, every_refusal_of_memory_is_an_error)
{
    static const char text[] = "\x80\x04}\x94(\x8C\x03"
                               "abc\x94](K\x01K\x02"
                               "eK\x07K\x01K\x02\x86u.";
    char out[ASIM_ERR_MESSAGE_MAX];
    for (long n = 1;; n++) {
        counting_memory counter = {.refuse_at = n};
        asim_hostmem mem = counting_memory_table(&counter);
        asim_code code = read_bytes(text, sizeof text - 1, 0, &mem, out, sizeof out, NULL);
        cr_assert_eq(counter.used, 0, "request %ld: %zu bytes leak", n, counter.used);
        if (!code) {
            cr_assert_gt(n, 5);
            break;
        }
        cr_assert_eq(code, ASIM_E_SYSTEM);
        cr_assert(strstr(out, "out of host memory"), "%s", out);
    }
}
