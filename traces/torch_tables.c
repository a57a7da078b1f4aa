#include "sim/hash.h"
#include "traces/torch_records.h"

#include <string.h>

/* The maps go from a 64-bit hash to a number. Two contents with one hash share nothing: the later one looks
 * at the next hash of its own chain, so a hash that collides costs time and never mixes things up. */
static uint64_t next_hash(uint64_t hash)
{
    return asim_hash_u64(hash, 1);
}

#define GROW(array, count, capacity, need)                                                                   \
    asim_mem_grow(r->mem, (void **)&r->array, &r->capacity, (need), sizeof *r->array, err)

asim_code asim_torch_frame(asim_torch_records *r, asim_frame frame, uint32_t *ret_number, asim_err *err)
{
    uint64_t hash =
        asim_hash_u64(asim_hash_u64(ASIM_HASH_INIT, (uint64_t)frame.function << 32 | frame.file), frame.line);
    uint32_t number;
    for (; asim_idmap_get(&r->frame_index, hash, &number); hash = next_hash(hash)) {
        const asim_frame *other = &r->frames[number];
        if (other->function == frame.function && other->file == frame.file && other->line == frame.line) {
            *ret_number = number;
            return ASIM_OK;
        }
    }
    asim_code code = GROW(frames, frame_count, frame_capacity, r->frame_count + 1);
    if (!code)
        code = asim_idmap_put(&r->frame_index, hash, (uint32_t)r->frame_count, err);
    if (code)
        return code;
    r->frames[r->frame_count] = frame;
    *ret_number = (uint32_t)r->frame_count++;
    return ASIM_OK;
}

asim_code asim_torch_stack(asim_torch_records *r, const asim_pickle_item *frames, size_t count,
                           uint32_t *ret_number, asim_err *err)
{
    asim_code code =
        GROW(stack_frames, stack_frame_count, stack_frame_capacity, r->stack_frame_count + count);
    if (code)
        return code;
    uint32_t *place = r->stack_frames + r->stack_frame_count;
    uint64_t hash = asim_hash_u64(ASIM_HASH_INIT, count);
    uint64_t tags = 0;
    for (size_t i = 0; i < count; i++) {
        place[i] = (uint32_t)asim_pickle_payload(frames[i].a);
        tags |= frames[i].a ^ frames[0].a;
    }
    *ret_number = ASIM_NO_INDEX;
    if (tags & 15)
        return ASIM_OK;
    /* Two chains of two frames a step: the multiplications of one wait for those of no other. */
    uint64_t second = hash + 1;
    size_t at = 0;
    for (; at + 4 <= count; at += 4) {
        hash = asim_hash_u64(hash, (uint64_t)place[at] << 32 | place[at + 1]);
        second = asim_hash_u64(second, (uint64_t)place[at + 2] << 32 | place[at + 3]);
    }
    for (; at < count; at++)
        hash = asim_hash_u64(hash, place[at]);
    hash = asim_hash_u64(hash, second);
    uint32_t number;
    for (; asim_idmap_get(&r->stack_index, hash, &number); hash = next_hash(hash)) {
        const asim_stack *other = &r->stacks[number];
        if (other->count == count && !memcmp(r->stack_frames + other->first, place, count * sizeof *place)) {
            *ret_number = number;
            return ASIM_OK;
        }
    }
    if (r->stack_frame_count + count > UINT32_MAX)
        return asim_fail(err, ASIM_E_INPUT, "more than 2^32 frames in the distinct call stacks");
    code = GROW(stacks, stack_count, stack_capacity, r->stack_count + 1);
    if (!code)
        code = asim_idmap_put(&r->stack_index, hash, (uint32_t)r->stack_count, err);
    if (code)
        return code;
    r->stacks[r->stack_count] = (asim_stack){(uint32_t)r->stack_frame_count, (uint32_t)count};
    r->stack_frame_count += count;
    *ret_number = (uint32_t)r->stack_count++;
    return ASIM_OK;
}

asim_code asim_torch_pair(asim_torch_records *r, uint64_t first, uint64_t second, uint32_t *ret_number,
                          asim_err *err)
{
    uint64_t hash = asim_hash_u64(asim_hash_u64(ASIM_HASH_INIT, first), second);
    uint32_t number;
    for (; asim_idmap_get(&r->pair_index, hash, &number); hash = next_hash(hash)) {
        if (r->pairs[number].first == first && r->pairs[number].second == second) {
            *ret_number = number;
            return ASIM_OK;
        }
    }
    asim_code code = GROW(pairs, pair_count, pair_capacity, r->pair_count + 1);
    if (!code)
        code = asim_idmap_put(&r->pair_index, hash, (uint32_t)r->pair_count, err);
    if (code)
        return code;
    r->pairs[r->pair_count] = (asim_torch_pool){first, second};
    *ret_number = (uint32_t)r->pair_count++;
    return ASIM_OK;
}

asim_code asim_torch_pool_number(asim_torch_records *r, uint32_t pair, uint16_t *ret_pool, asim_err *err)
{
    const asim_torch_pool id = r->pairs[pair];
    uint32_t number = 0;
    if (id.first || id.second) {
        if (!asim_idmap_get(&r->pool_index, pair, &number)) {
            if (r->pool_count >= ASIM_TORCH_NO_POOL)
                return asim_fail(err, ASIM_E_INPUT, "more than %d distinct pool ids", ASIM_TORCH_NO_POOL);
            number = (uint32_t)r->pool_count;
            asim_code code = GROW(pools, pool_count, pool_capacity, r->pool_count + 1);
            if (!code)
                code = asim_idmap_put(&r->pool_index, pair, number, err);
            if (code)
                return code;
            r->pools[r->pool_count++] = id;
        }
    }
    *ret_pool = (uint16_t)number;
    return ASIM_OK;
}

asim_code asim_torch_route_number(asim_torch_records *r, uint64_t stream, uint16_t pool, uint16_t *ret_route,
                                  asim_err *err)
{
    if (r->route_count && r->routes[r->last_route].stream == stream &&
        r->routes[r->last_route].pool == pool) {
        *ret_route = r->last_route;
        return ASIM_OK;
    }
    uint64_t hash = asim_hash_u64(asim_hash_u64(ASIM_HASH_INIT, stream), pool);
    uint32_t number;
    for (; asim_idmap_get(&r->route_index, hash, &number); hash = next_hash(hash)) {
        if (r->routes[number].stream == stream && r->routes[number].pool == pool) {
            *ret_route = r->last_route = (uint16_t)number;
            return ASIM_OK;
        }
    }
    if (r->route_count >= UINT16_MAX)
        return asim_fail(err, ASIM_E_INPUT, "more than %d distinct pairs of stream and pool", UINT16_MAX);
    asim_code code = GROW(routes, route_count, route_capacity, r->route_count + 1);
    if (!code)
        code = asim_idmap_put(&r->route_index, hash, (uint32_t)r->route_count, err);
    if (code)
        return code;
    r->routes[r->route_count] = (asim_torch_route){stream, pool};
    *ret_route = r->last_route = (uint16_t)r->route_count++;
    return ASIM_OK;
}
