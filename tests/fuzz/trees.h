/* Comparing trees in writer round trips. */
#ifndef FUZZ_TREES_H
#define FUZZ_TREES_H

#include <stdbool.h>
#include <string.h>

#include "text/node.h"

/* Equal kinds and values; an integer equals a double of that value when `loose`, since JSON writes
 * 3.0 as 3. */
static inline bool trees_equal(const struct node *a, const struct node *b, bool loose)
{
    bool numbers = (a->kind == NODE_INT || a->kind == NODE_FLOAT) &&
                   (b->kind == NODE_INT || b->kind == NODE_FLOAT);
    if (loose && numbers && a->kind != b->kind)
        return (a->kind == NODE_INT ? (double)a->i : a->f) ==
               (b->kind == NODE_INT ? (double)b->i : b->f);
    if (a->kind != b->kind || a->n != b->n)
        return false;
    for (uint32_t i = 0; a->kind == NODE_LIST && i < a->n; i++)
        if (!trees_equal(a->items[i], b->items[i], loose))
            return false;
    for (uint32_t i = 0; a->kind == NODE_MAP && i < a->n; i++) {
        struct sv x = a->pairs[i].key, y = b->pairs[i].key;
        if (x.n != y.n || memcmp(x.p, y.p, x.n) != 0 ||
            !trees_equal(a->pairs[i].value, b->pairs[i].value, loose))
            return false;
    }
    switch (a->kind) {
    case NODE_BOOL:
        return a->b == b->b;
    case NODE_INT:
        return a->i == b->i;
    case NODE_FLOAT:
        return memcmp(&a->f, &b->f, sizeof a->f) == 0;
    case NODE_STR:
        return a->s.n == b->s.n && memcmp(a->s.p, b->s.p, a->s.n) == 0;
    case NODE_NULL:
    case NODE_LIST:
    case NODE_MAP:
        break;
    }
    return true;
}

#endif
