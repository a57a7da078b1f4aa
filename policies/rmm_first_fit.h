/* policies/rmm_first_fit.h - free blocks in address order, and the first that is large enough.
 *
 *                 [40 |max 90]            a treap by address; each node knows the largest size below it,
 *                /            \           so the search for the lowest address with room never turns back
 *       [90|max 90]        [10|max 60]
 *                                \
 *                              [60|max 60]
 *
 * Nodes are records in an array of the owner's, named by 32-bit index; 0 is none. Priorities are a bijective
 * hash of the index (Seidel and Aragon, Algorithmica 16, 1996), so the shape depends on the members alone.
 * Expected cost of each call: O(log n); a change climbs only as far as a largest size changes. Nothing is
 * allocated, nothing can fail.
 */
#ifndef ASIM_POLICIES_RMM_FIRST_FIT_H
#define ASIM_POLICIES_RMM_FIRST_FIT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct asim_rmm_node {
    uint64_t address, size;       /* bytes; of a node in a tree changed by asim_rmm_fit_set alone */
    uint64_t largest;             /* in the subtree; the tree's own */
    uint32_t left, right, parent; /* the tree's own */
} asim_rmm_node;

/* The node must be in no tree; no node of this one has its address. */
void asim_rmm_fit_insert(uint32_t *root, asim_rmm_node *nodes, uint32_t node);

/* The node must be in this tree. */
void asim_rmm_fit_remove(uint32_t *root, asim_rmm_node *nodes, uint32_t node);

/* A node of a tree gets another place and size, between the same neighbours. */
void asim_rmm_fit_set(asim_rmm_node *nodes, uint32_t node, uint64_t address, uint64_t size);

/* The node of least address that has size bytes or more, or 0. *steps grows by the nodes looked at. */
uint32_t asim_rmm_fit_first(uint32_t root, const asim_rmm_node *nodes, uint64_t size, uint64_t *steps);

static inline uint64_t asim_rmm_fit_largest(uint32_t root, const asim_rmm_node *nodes)
{
    return root ? nodes[root].largest : 0;
}

/* Order, priorities and largest sizes. Returns the number of nodes, or UINT32_MAX on a fault. */
uint32_t asim_rmm_fit_check(uint32_t root, const asim_rmm_node *nodes);

#endif
