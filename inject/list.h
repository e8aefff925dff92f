/* Arrays that grow, on pages straight from the kernel: the guest never calls malloc while the
 * program is inside CUDA. Zeroed, released as a whole. Not thread-safe. */
#ifndef INJECT_LIST_H
#define INJECT_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct list {
    unsigned char *p;
    size_t n, bytes; /* elements; bytes of pages */
};

/* Room for n more elements of `size` bytes, zeroed and counted; NULL = no memory, nothing changed.
 * Earlier pointers into the list are void. */
void *inject_list_grow(struct list *l, size_t n, size_t size);
bool inject_list_append(struct list *l, const void *from, size_t n, size_t size);
void inject_list_free(struct list *l);

#define LIST_AT(l, type, i) (&((type *)(void *)(l)->p)[i])

#endif
