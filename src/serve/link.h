/* Circular doubly linked lists through a member of the listed struct: O(1) insertion and removal,
 * no memory of their own. A list head is a link outside any listed struct; never remove an unlinked
 * link again. */
#ifndef SERVE_LINK_H
#define SERVE_LINK_H

#include <stdbool.h>
#include <stddef.h>

struct link {
    struct link *prev, *next;
};

static inline void link_init(struct link *head)
{
    head->prev = head->next = head;
}

static inline bool link_empty(const struct link *head)
{
    return head->next == head;
}

static inline void link_add_after(struct link *at, struct link *l)
{
    l->prev = at;
    l->next = at->next;
    at->next->prev = l;
    at->next = l;
}

static inline void link_push(struct link *head, struct link *l) /* at the end */
{
    link_add_after(head->prev, l);
}

static inline void link_remove(struct link *l)
{
    l->prev->next = l->next;
    l->next->prev = l->prev;
}

/* The struct a link is a member of. */
#define LINK_OF(link_, type, member) ((type *)(void *)((char *)(link_)-offsetof(type, member)))

#endif
