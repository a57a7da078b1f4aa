#include "traces/pickle_machine.h"

#include <inttypes.h>
#include <string.h>

enum {
    SPILLED = 7, /* a memo tag: the payload did not fit into 28 bits */
    UNSET = 15,  /* a memo tag: no value under this number */
    KEEP_ITEMS = 1024,
    ARGUMENT_MAX = 1 << 28,
};

#define BAD(...)     asim_fail(m->err, ASIM_E_INPUT, __VA_ARGS__)
#define UNSET_ENTRY  ((uint32_t)UNSET)
#define PACKED(v)    ((uint32_t)(v))
#define FITS_MEMO(v) ((v) <= UINT32_MAX)

void asim_pickle_machine_fini(asim_pickle_machine *m)
{
    for (uint32_t i = 0; i < m->container_count; i++)
        asim_mem_free(m->mem, m->containers[i].items, m->containers[i].capacity, sizeof(asim_pickle_item));
    asim_mem_free(m->mem, m->stack, m->stack_capacity, sizeof *m->stack);
    asim_mem_free(m->mem, m->memo, m->memo_capacity, sizeof *m->memo);
    asim_mem_free(m->mem, m->spilled, m->spilled_capacity, sizeof *m->spilled);
    asim_mem_free(m->mem, m->bigs, m->big_capacity, sizeof *m->bigs);
}

asim_code asim_pickle_grow_stack(asim_pickle_machine *m)
{
    if (m->depth >= ASIM_PICKLE_STACK_MAX)
        return BAD("more than %d values wait on the stack: not a memory snapshot", ASIM_PICKLE_STACK_MAX);
    return asim_mem_grow(m->mem, (void **)&m->stack, &m->stack_capacity, m->depth + 1, sizeof *m->stack,
                         m->err);
}

static asim_code need(asim_pickle_machine *m, size_t count)
{
    if (m->depth - m->floor < count)
        return BAD("stack underflow: this opcode takes %zu value%s, %zu there", count, count == 1 ? "" : "s",
                   m->depth - m->floor);
    return ASIM_OK;
}

static asim_code take_mark(asim_pickle_machine *m, size_t *ret_first)
{
    if (m->mark_count == 0)
        return BAD("MARK missing: this opcode takes the values since a mark and there is none");
    *ret_first = m->marks[--m->mark_count];
    m->floor = m->mark_count ? m->marks[m->mark_count - 1] : 0;
    return ASIM_OK;
}

asim_code asim_pickle_push_mark(asim_pickle_machine *m)
{
    if (m->mark_count == ASIM_PICKLE_OPEN_MAX)
        return BAD("nested too deeply: more than %d marks open at once", ASIM_PICKLE_OPEN_MAX);
    m->marks[m->mark_count++] = (uint32_t)m->depth;
    m->floor = m->depth;
    return ASIM_OK;
}

/* --- containers ---------------------------------------------------------------------------------------- */

static asim_code complete(asim_pickle_machine *m, uint32_t index, asim_pickle_value *ret_value)
{
    asim_pickle_container *c = &m->containers[index];
    if (!c->complete) {
        c->complete = true; /* before the client is asked: nothing may fill it any more */
        asim_code code = (c->is_list ? m->client->list : m->client->dict)(m->client->ctx, c->items, c->count,
                                                                          &c->value, m->err);
        if (code)
            return code;
        if (c->memo && m->memo[c->memo - 1] == PACKED(asim_pickle_make(ASIM_PICKLE_CONTAINER, index)) &&
            FITS_MEMO(c->value))
            m->memo[c->memo - 1] = PACKED(c->value);
        else if (c->memo)
            c->pinned = true;
    }
    *ret_value = c->value;
    return ASIM_OK;
}

/* A value leaves its place on the stack: what it stands for once complete. */
static asim_code release(asim_pickle_machine *m, asim_pickle_value value, asim_pickle_value *ret_value)
{
    if (asim_pickle_tag(value) != ASIM_PICKLE_CONTAINER) {
        *ret_value = value;
        return ASIM_OK;
    }
    uint32_t index = (uint32_t)asim_pickle_payload(value);
    asim_code code = complete(m, index, ret_value);
    if (code)
        return code;
    asim_pickle_container *c = &m->containers[index];
    if (--c->uses == 0 && !c->pinned) {
        if (c->capacity > KEEP_ITEMS) {
            asim_mem_free(m->mem, c->items, c->capacity, sizeof *c->items);
            c->items = NULL;
            c->capacity = 0;
        }
        c->next_unused = m->unused;
        m->unused = index + 1;
    }
    return ASIM_OK;
}

asim_code asim_pickle_push_container(asim_pickle_machine *m, bool is_list)
{
    if (m->depth > m->floor) {
        asim_pickle_value below = m->stack[m->depth - 1];
        if (asim_pickle_tag(below) == ASIM_PICKLE_CONTAINER &&
            !m->containers[asim_pickle_payload(below)].is_list) {
            asim_code code = release(m, below, &m->stack[m->depth - 1]);
            if (code)
                return code;
        }
    }
    uint32_t index;
    if (m->unused) {
        index = m->unused - 1;
        m->unused = m->containers[index].next_unused;
    } else if (m->container_count < ASIM_PICKLE_OPEN_MAX) {
        index = m->container_count++;
    } else {
        return BAD("nested too deeply: more than %d containers open at once", ASIM_PICKLE_OPEN_MAX);
    }
    asim_pickle_container *c = &m->containers[index];
    *c = (asim_pickle_container){.items = c->items, .capacity = c->capacity, .uses = 1, .is_list = is_list};
    return asim_pickle_push(m, asim_pickle_make(ASIM_PICKLE_CONTAINER, index));
}

/* The container at this place of the stack, which must be of this kind and open. */
static asim_code target(asim_pickle_machine *m, size_t place, bool is_list, asim_pickle_container **ret)
{
    asim_pickle_value value = m->stack[place];
    const char *kind = is_list ? "list" : "dict";
    if (asim_pickle_tag(value) != ASIM_PICKLE_CONTAINER)
        return BAD("what is to be filled is not an open %s (or was used before it was filled)", kind);
    asim_pickle_container *c = &m->containers[asim_pickle_payload(value)];
    if (c->is_list != is_list)
        return BAD("what is to be filled is not a %s", kind);
    if (c->complete)
        return BAD("a %s is filled after it was used, as in a cycle: not a memory snapshot", kind);
    *ret = c;
    return ASIM_OK;
}

static asim_code reserve_items(asim_pickle_machine *m, asim_pickle_container *c, size_t more)
{
    if (c->capacity - c->count >= more)
        return ASIM_OK;
    return asim_mem_grow(m->mem, (void **)&c->items, &c->capacity, c->count + more, sizeof *c->items, m->err);
}

static void add_to_list(const asim_pickle_machine *m, asim_pickle_container *c, asim_pickle_value value)
{
    if ((m->client->series >> asim_pickle_tag(value) & 1) && c->count) {
        asim_pickle_item *last = &c->items[c->count - 1];
        if (last->a + (last->b << 4) == value) {
            last->b++;
            return;
        }
    }
    c->items[c->count++] = (asim_pickle_item){value, 1};
}

/* Whether stack[first..end) holds values that go into a list just as they are. */
static bool all_plain(const asim_pickle_machine *m, size_t first, size_t end)
{
    unsigned special = m->client->series | 1u << ASIM_PICKLE_CONTAINER, found = 0;
    for (size_t i = first; i < end; i++)
        found |= special >> asim_pickle_tag(m->stack[i]);
    return !(found & 1);
}

static asim_code fill_list(asim_pickle_machine *m, asim_pickle_container *c, size_t first)
{
    /* In pieces, because a series of any length takes the room of one item. */
    enum {
        PIECE = 256
    };
    while (first < m->depth) {
        size_t end = m->depth - first < PIECE ? m->depth : first + PIECE;
        asim_code code = reserve_items(m, c, end - first);
        if (code)
            return code;
        if (all_plain(m, first, end)) {
            asim_pickle_item *items = c->items + c->count;
            for (size_t i = first; i < end; i++)
                items[i - first] = (asim_pickle_item){m->stack[i], 1};
            c->count += end - first;
            first = end;
        }
        for (; first < end; first++) {
            asim_pickle_value value = m->stack[first];
            if (asim_pickle_tag(value) == ASIM_PICKLE_CONTAINER) {
                if ((code = release(m, value, &value)))
                    return code;
                if (c->complete)
                    return BAD("a container holds itself: not a memory snapshot");
            }
            add_to_list(m, c, value);
        }
    }
    return ASIM_OK;
}

static asim_code fill_dict(asim_pickle_machine *m, asim_pickle_container *c, size_t first)
{
    asim_code code = reserve_items(m, c, (m->depth - first) / 2);
    for (size_t i = first; !code && i < m->depth; i += 2) {
        asim_pickle_value key = m->stack[i], value = m->stack[i + 1];
        if (asim_pickle_tag(key) == ASIM_PICKLE_CONTAINER)
            return BAD("a dict key is itself a container");
        if (asim_pickle_tag(value) == ASIM_PICKLE_CONTAINER) {
            code = release(m, value, &value);
            if (!code && c->complete)
                return BAD("a container holds itself: not a memory snapshot");
        }
        c->items[c->count++] = (asim_pickle_item){key, value};
    }
    return code;
}

/* Moves stack[first..depth) into the container just below. */
static asim_code fill(asim_pickle_machine *m, size_t first, bool is_list)
{
    if (first == m->floor)
        return BAD("stack underflow: no container under the values that go into it");
    if (!is_list && (m->depth - first) % 2)
        return BAD("a dict is given a key without a value");
    asim_pickle_container *c = NULL;
    asim_code code = target(m, first - 1, is_list, &c);
    if (!code)
        code = is_list ? fill_list(m, c, first) : fill_dict(m, c, first);
    m->depth = first;
    return code;
}

asim_code asim_pickle_append(asim_pickle_machine *m, bool many)
{
    size_t first = m->depth - 1;
    asim_code code = many ? take_mark(m, &first) : need(m, 2);
    return code ? code : fill(m, first, true);
}

asim_code asim_pickle_set_items(asim_pickle_machine *m, bool many)
{
    size_t first = m->depth - 2;
    asim_code code = many ? take_mark(m, &first) : need(m, 3);
    return code ? code : fill(m, first, false);
}

asim_code asim_pickle_tuple(asim_pickle_machine *m, size_t count)
{
    asim_code code = need(m, count);
    size_t first = m->depth - count;
    for (size_t i = first; !code && i < m->depth; i++)
        code = release(m, m->stack[i], &m->stack[i]);
    asim_pickle_value value = 0;
    if (!code)
        code = m->client->tuple(m->client->ctx, m->stack + first, count, &value, m->err);
    if (code)
        return code;
    m->depth = first;
    return asim_pickle_push(m, value);
}

asim_code asim_pickle_tuple_from_mark(asim_pickle_machine *m)
{
    size_t first = 0;
    asim_code code = take_mark(m, &first);
    return code ? code : asim_pickle_tuple(m, m->depth - first);
}

asim_code asim_pickle_collect(asim_pickle_machine *m, bool is_list)
{
    size_t first = 0;
    asim_code code = take_mark(m, &first);
    if (code)
        return code;
    /* The container belongs under the values: push it, then turn it down. */
    size_t count = m->depth - first;
    m->floor = m->depth;
    code = asim_pickle_push_container(m, is_list);
    if (code)
        return code;
    asim_pickle_value container = m->stack[m->depth - 1];
    memmove(m->stack + first + 1, m->stack + first, count * sizeof *m->stack);
    m->stack[first] = container;
    m->floor = m->mark_count ? m->marks[m->mark_count - 1] : 0;
    return fill(m, first + 1, is_list);
}

asim_code asim_pickle_take(asim_pickle_machine *m, asim_pickle_value *ret_value)
{
    asim_code code = need(m, 1);
    return code ? code : release(m, m->stack[--m->depth], ret_value);
}

asim_code asim_pickle_pop(asim_pickle_machine *m)
{
    size_t first = 0;
    if (m->depth == m->floor && m->mark_count)
        return take_mark(m, &first);
    asim_pickle_value ignored;
    return asim_pickle_take(m, &ignored);
}

asim_code asim_pickle_pop_mark(asim_pickle_machine *m)
{
    size_t first = 0;
    asim_pickle_value ignored;
    asim_code code = take_mark(m, &first);
    while (!code && m->depth > first)
        code = release(m, m->stack[--m->depth], &ignored);
    return code;
}

asim_code asim_pickle_duplicate(asim_pickle_machine *m)
{
    asim_code code = need(m, 1);
    if (code)
        return code;
    asim_pickle_value top = m->stack[m->depth - 1];
    if (asim_pickle_tag(top) == ASIM_PICKLE_CONTAINER)
        m->containers[asim_pickle_payload(top)].uses++;
    return asim_pickle_push(m, top);
}

/* --- numbers and memo ---------------------------------------------------------------------------------- */

asim_code asim_pickle_push_number(asim_pickle_machine *m, const uint8_t *bytes, size_t length)
{
    uint64_t bits = 0;
    bool negative = length && bytes[length - 1] >= 0x80;
    bool beyond = length > 9 || (length == 9 && bytes[8] != 0);
    for (size_t i = length < 8 ? length : 8; i-- > 0;)
        bits = bits << 8 | bytes[i];
    if (negative && length < 8)
        bits |= UINT64_MAX << 8 * length;
    int64_t number = (int64_t)bits;
    if (length <= 8 && number >= -(INT64_C(1) << 59) && number < INT64_C(1) << 59)
        return asim_pickle_push(m, asim_pickle_make(ASIM_PICKLE_INT, bits));
    asim_pickle_big big = {bits, beyond};
    const asim_pickle_big *last = m->big_count ? &m->bigs[m->big_count - 1] : NULL;
    if (!last || last->bits != bits || last->beyond != beyond) {
        asim_code code = asim_mem_grow(m->mem, (void **)&m->bigs, &m->big_capacity, m->big_count + 1,
                                       sizeof *m->bigs, m->err);
        if (code)
            return code;
        m->bigs[m->big_count++] = big;
    }
    return asim_pickle_push(m, asim_pickle_make(ASIM_PICKLE_BIG, m->big_count - 1));
}

asim_code asim_pickle_memo_put(asim_pickle_machine *m, uint64_t number, uint64_t position)
{
    asim_code code = need(m, 1);
    if (code)
        return code;
    if (number > position || number >= ARGUMENT_MAX)
        return BAD("memo number %" PRIu64 " can't have been reached in %" PRIu64 " bytes", number, position);
    if (number >= m->memo_capacity)
        code =
            asim_mem_grow(m->mem, (void **)&m->memo, &m->memo_capacity, number + 1, sizeof *m->memo, m->err);
    if (code)
        return code;
    while (m->memo_count <= number)
        m->memo[m->memo_count++] = UNSET_ENTRY;
    asim_pickle_value value = m->stack[m->depth - 1];
    if (asim_pickle_tag(value) == ASIM_PICKLE_CONTAINER) {
        asim_pickle_container *c = &m->containers[asim_pickle_payload(value)];
        if (c->memo)
            c->pinned = true;
        else
            c->memo = (uint32_t)number + 1;
    } else if (!FITS_MEMO(value)) {
        code = asim_mem_grow(m->mem, (void **)&m->spilled, &m->spilled_capacity, m->spilled_count + 1,
                             sizeof *m->spilled, m->err);
        if (code)
            return code;
        m->spilled[m->spilled_count++] = value;
        value = asim_pickle_make(SPILLED, m->spilled_count - 1);
        if (!FITS_MEMO(value))
            return BAD("more than 2^28 values memoised: not a memory snapshot");
    }
    m->memo[number] = PACKED(value);
    return ASIM_OK;
}

asim_code asim_pickle_memo_get(asim_pickle_machine *m, uint64_t number)
{
    if (number >= m->memo_count || m->memo[number] == UNSET_ENTRY)
        return BAD("memo number %" PRIu64 " is used before it was set", number);
    asim_pickle_value value = m->memo[number];
    if (asim_pickle_tag(value) == SPILLED) {
        value = m->spilled[asim_pickle_payload(value)];
    } else if (asim_pickle_tag(value) == ASIM_PICKLE_CONTAINER) {
        asim_pickle_container *c = &m->containers[asim_pickle_payload(value)];
        if (c->complete)
            value = c->value;
        else
            c->uses++;
    }
    return asim_pickle_push(m, value);
}
