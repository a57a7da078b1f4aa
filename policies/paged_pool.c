#include "policies/paged_pool.h"

asim_device_result asim_paged_open(asim_paged_pool *pool, unsigned device, unsigned lane, uint32_t count)
{
    const asim_device *table = &pool->env->device;
    asim_device_result result =
        table->ops->alloc(table->ctx, device, count * pool->block_bytes, lane, &pool->region);
    if (result == ASIM_DEVICE_OK) {
        pool->count = count;
        pool->totals->blocks += count;
    }
    return result;
}

void asim_paged_fini(asim_paged_pool *pool)
{
    asim_mem_free(pool->env->memory, pool->blocks, pool->capacity, sizeof *pool->blocks);
}

asim_code asim_paged_prepare(asim_paged_pool *pool, uint32_t more, asim_err *err)
{
    size_t need = (size_t)pool->begun + more + 1;
    if (need > (size_t)pool->count + 1)
        need = (size_t)pool->count + 1;
    void *blocks = pool->blocks;
    asim_code code =
        asim_mem_grow(pool->env->memory, &blocks, &pool->capacity, need, sizeof *pool->blocks, err);
    pool->blocks = blocks;
    return code;
}

static void tell(const asim_paged_pool *pool, uint32_t block, bool taken)
{
    const asim_listener *listener = pool->env->listener;
    listener->piece(listener->ctx, pool->region.index, asim_paged_address(pool, block), pool->block_bytes,
                    taken);
}

void asim_paged_append(asim_paged_pool *pool, asim_paged_table *table)
{
    asim_paged_totals *totals = pool->totals;
    uint32_t block = pool->stack;
    if (block)
        pool->stack = pool->blocks[block].before;
    else
        block = ++pool->begun;
    pool->blocks[block] = (asim_paged_block){.references = 1, .before = table->last};
    table->last = block;
    table->count++;
    pool->in_use++;
    if (++totals->in_use > totals->peak_in_use)
        totals->peak_in_use = totals->in_use;
    tell(pool, block, true);
}

uint32_t asim_paged_at(const asim_paged_pool *pool, const asim_paged_table *table, uint32_t index)
{
    uint32_t block = table->last;
    for (uint32_t i = table->count - 1; i > index; i--)
        block = pool->blocks[block].before;
    return block;
}

void asim_paged_share(asim_paged_pool *pool, asim_paged_table *table, const asim_paged_table *from,
                      uint32_t count)
{
    asim_paged_totals *totals = pool->totals;
    *table = (asim_paged_table){.last = count ? asim_paged_at(pool, from, count - 1) : 0, .count = count};
    for (uint32_t block = table->last; block; block = pool->blocks[block].before)
        if (++pool->blocks[block].references == 2 && ++totals->shared > totals->peak_shared)
            totals->peak_shared = totals->shared;
}

bool asim_paged_copy(asim_paged_pool *pool, unsigned device, uint32_t to, uint32_t from)
{
    const asim_device *table = &pool->env->device;
    pool->totals->copies++;
    return table->ops->copy(table->ctx, device, asim_paged_address(pool, to), asim_paged_address(pool, from),
                            pool->block_bytes) == ASIM_DEVICE_OK;
}

/* As if they were given back first to last: the last one lies on top of the stack. */
void asim_paged_cut(asim_paged_pool *pool, asim_paged_table *table, uint32_t blocks)
{
    const uint32_t stack = pool->stack;
    uint32_t block = table->last, *under = &pool->stack;
    table->count -= blocks;
    for (; blocks > 0; blocks--) {
        asim_paged_block *record = &pool->blocks[block];
        const uint32_t before = record->before;
        if (--record->references == 0) {
            *under = block;
            under = &record->before;
            pool->in_use--;
            pool->totals->in_use--;
            tell(pool, block, false);
        } else if (record->references == 1) {
            pool->totals->shared--;
        }
        block = before;
    }
    *under = stack;
    table->last = block;
}

asim_code asim_paged_check_pool(const asim_paged_pool *pool, asim_err *err)
{
    uint32_t free_blocks = 0, used = 0;
    for (uint32_t b = 1; b <= pool->begun; b++)
        used += pool->blocks[b].references > 0;
    for (uint32_t b = pool->stack; b; b = pool->blocks[b].before)
        if (b > pool->begun || pool->blocks[b].references || ++free_blocks > pool->begun)
            return asim_fail(err, ASIM_E_BUG, "block %u lies on the free stack and should not", b);
    if (used != pool->in_use || used + free_blocks != pool->begun || pool->begun > pool->count)
        return asim_fail(err, ASIM_E_BUG, "%u blocks are in use and %u free, of %u begun and %u in all", used,
                         free_blocks, pool->begun, pool->count);
    return ASIM_OK;
}
