/* The address-ordered tree against a plain array that is searched from the front. */
#include "policies/rmm_first_fit.h"
#include "sim/rng.h"

#include <criterion/criterion.h>

enum {
    PLACES = 64,
    SPACING = 1 << 20,
    STEPS = 4000
};

/* Node n, if it is there, lies in the n-th stretch of SPACING bytes: the array's order is that of addresses.
 */
typedef struct model {
    asim_rmm_node nodes[PLACES + 1];
    bool there[PLACES + 1];
    uint32_t order[PLACES + 1]; /* node at each place: indices must not follow addresses */
    uint32_t root, count;
} model;

static uint32_t first(const model *m, uint64_t size)
{
    for (uint32_t place = 1; place <= PLACES; place++)
        if (m->there[m->order[place]] && m->nodes[m->order[place]].size >= size)
            return m->order[place];
    return 0;
}

static void compare(const model *m, asim_rng *rng)
{
    uint64_t largest = 0, steps = 0;
    for (uint32_t n = 1; n <= PLACES; n++)
        if (m->there[n] && m->nodes[n].size > largest)
            largest = m->nodes[n].size;
    cr_assert_eq(asim_rmm_fit_check(m->root, m->nodes), m->count);
    cr_assert_eq(asim_rmm_fit_largest(m->root, m->nodes), largest);
    for (int i = 0; i < 4; i++) {
        const uint64_t size = 1 + asim_rng_below(rng, SPACING);
        cr_assert_eq(asim_rmm_fit_first(m->root, m->nodes, size, &steps), first(m, size));
    }
    cr_assert_eq(asim_rmm_fit_first(m->root, m->nodes, largest, &steps), largest ? first(m, largest) : 0);
    cr_assert_eq(asim_rmm_fit_first(m->root, m->nodes, largest + 1, &steps), 0);
}

Test(rmm_first_fit, random_changes)
{
    static model m;
    asim_rng rng = {5};
    for (uint32_t place = 1; place <= PLACES; place++)
        m.order[place] = place * 27 % (PLACES + 1); /* 27 and 65 share no factor */
    for (int step = 0; step < STEPS; step++) {
        const uint32_t place = 1 + (uint32_t)asim_rng_below(&rng, PLACES), node = m.order[place];
        const uint64_t offset = asim_rng_below(&rng, SPACING / 2);
        const uint64_t address = (uint64_t)place * SPACING + offset;
        const uint64_t size = 1 + asim_rng_below(&rng, SPACING - offset - 1);
        if (!m.there[node]) {
            m.nodes[node] = (asim_rmm_node){.address = address, .size = size};
            asim_rmm_fit_insert(&m.root, m.nodes, node);
            m.there[node] = true;
            m.count++;
        } else if (asim_rng_below(&rng, 2)) {
            asim_rmm_fit_set(m.nodes, node, address, size);
        } else {
            asim_rmm_fit_remove(&m.root, m.nodes, node);
            m.there[node] = false;
            m.count--;
        }
        compare(&m, &rng);
    }
    cr_assert_gt(m.count, 10);
}

Test(rmm_first_fit, check_notices)
{
    asim_rmm_node nodes[3] = {{0}, {.address = 0, .size = 512}, {.address = 512, .size = 256}};
    uint32_t root = 0;
    cr_assert_eq(asim_rmm_fit_check(root, nodes), 0);
    asim_rmm_fit_insert(&root, nodes, 1);
    asim_rmm_fit_insert(&root, nodes, 2);
    cr_assert_eq(asim_rmm_fit_check(root, nodes), 2);
    nodes[2].size = 1024; /* behind the tree's back */
    cr_assert_eq(asim_rmm_fit_check(root, nodes), UINT32_MAX);
    asim_rmm_fit_set(nodes, 2, 512, 1024);
    cr_assert_eq(asim_rmm_fit_check(root, nodes), 2);
    nodes[1].address = 4096;
    cr_assert_eq(asim_rmm_fit_check(root, nodes), UINT32_MAX);
}
