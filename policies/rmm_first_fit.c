#include "policies/rmm_first_fit.h"

/* Odd multiplier: distinct indices have distinct priorities. */
static uint32_t priority(uint32_t node)
{
    return node * UINT32_C(0x9E3779B1);
}

static uint64_t largest_of(const asim_rmm_node *nodes, uint32_t node)
{
    const asim_rmm_node *n = &nodes[node];
    uint64_t largest = n->size;
    if (n->left && nodes[n->left].largest > largest)
        largest = nodes[n->left].largest;
    if (n->right && nodes[n->right].largest > largest)
        largest = nodes[n->right].largest;
    return largest;
}

static void adopt(asim_rmm_node *nodes, uint32_t parent, uint32_t child)
{
    if (child)
        nodes[child].parent = parent;
}

/* The node's subtree has changed: largest sizes are formed anew upwards, as long as they change. */
static void climb(asim_rmm_node *nodes, uint32_t node)
{
    for (; node; node = nodes[node].parent) {
        const uint64_t largest = largest_of(nodes, node);
        if (nodes[node].largest == largest)
            return;
        nodes[node].largest = largest;
    }
}

/* Cuts a tree in two: what lies below address, and the rest. The caller adopts both. */
static void cut(asim_rmm_node *nodes, uint32_t root, uint64_t address, uint32_t *ret_low, uint32_t *ret_high)
{
    if (!root) {
        *ret_low = *ret_high = 0;
        return;
    }
    if (nodes[root].address < address) {
        *ret_low = root;
        cut(nodes, nodes[root].right, address, &nodes[root].right, ret_high);
        adopt(nodes, root, nodes[root].right);
    } else {
        *ret_high = root;
        cut(nodes, nodes[root].left, address, ret_low, &nodes[root].left);
        adopt(nodes, root, nodes[root].left);
    }
    nodes[root].largest = largest_of(nodes, root);
}

/* Joins two trees, all of low below all of high. The caller adopts the result. */
static uint32_t join(asim_rmm_node *nodes, uint32_t low, uint32_t high)
{
    if (!low || !high)
        return low | high;
    const bool low_on_top = priority(low) > priority(high);
    const uint32_t top = low_on_top ? low : high;
    uint32_t *link = low_on_top ? &nodes[low].right : &nodes[high].left;
    *link = low_on_top ? join(nodes, *link, high) : join(nodes, low, *link);
    adopt(nodes, top, *link);
    nodes[top].largest = largest_of(nodes, top);
    return top;
}

/* On the way down each node takes over the size that comes below it. */
void asim_rmm_fit_insert(uint32_t *root, asim_rmm_node *nodes, uint32_t node)
{
    asim_rmm_node *added = &nodes[node];
    uint32_t *link = root, parent = 0;
    while (*link && priority(*link) > priority(node)) {
        parent = *link;
        asim_rmm_node *above = &nodes[parent];
        if (above->largest < added->size)
            above->largest = added->size;
        link = added->address < above->address ? &above->left : &above->right;
    }
    cut(nodes, *link, added->address, &added->left, &added->right);
    adopt(nodes, node, added->left);
    adopt(nodes, node, added->right);
    added->largest = largest_of(nodes, node);
    added->parent = parent;
    *link = node;
}

void asim_rmm_fit_remove(uint32_t *root, asim_rmm_node *nodes, uint32_t node)
{
    const uint32_t parent = nodes[node].parent;
    uint32_t *link = !parent ? root : nodes[parent].left == node ? &nodes[parent].left : &nodes[parent].right;
    *link = join(nodes, nodes[node].left, nodes[node].right);
    adopt(nodes, parent, *link);
    climb(nodes, parent);
}

void asim_rmm_fit_set(asim_rmm_node *nodes, uint32_t node, uint64_t address, uint64_t size)
{
    nodes[node].address = address;
    nodes[node].size = size;
    climb(nodes, node);
}

uint32_t asim_rmm_fit_first(uint32_t root, const asim_rmm_node *nodes, uint64_t size, uint64_t *steps)
{
    uint32_t node = root;
    ++*steps;
    if (asim_rmm_fit_largest(root, nodes) < size)
        return 0;
    for (;; ++*steps) {
        const asim_rmm_node *n = &nodes[node];
        if (n->left && nodes[n->left].largest >= size)
            node = n->left;
        else if (n->size >= size)
            return node;
        else
            node = n->right;
    }
}

/* Nodes of a subtree, all within [low, high). */
static uint32_t count(const asim_rmm_node *nodes, uint32_t root, uint64_t low, uint64_t high)
{
    if (!root)
        return 0;
    const asim_rmm_node *n = &nodes[root];
    if ((n->left && nodes[n->left].parent != root) || (n->right && nodes[n->right].parent != root))
        return UINT32_MAX;
    if (n->address < low || n->address >= high || n->largest != largest_of(nodes, root) ||
        (n->left && priority(n->left) > priority(root)) || (n->right && priority(n->right) > priority(root)))
        return UINT32_MAX;
    const uint32_t left = count(nodes, n->left, low, n->address);
    const uint32_t right = count(nodes, n->right, n->address + n->size, high);
    return left == UINT32_MAX || right == UINT32_MAX ? UINT32_MAX : left + 1 + right;
}

uint32_t asim_rmm_fit_check(uint32_t root, const asim_rmm_node *nodes)
{
    return root && nodes[root].parent ? UINT32_MAX : count(nodes, root, 0, UINT64_MAX);
}
