#define _GNU_SOURCE /* mremap */
#include "inject/list.h"

#include <string.h>
#include <sys/mman.h>

#include "inject/guest.h"

void *inject_list_grow(struct list *l, size_t n, size_t size)
{
    enum { SMALLEST = 4096 };
    size_t used = l->n * size, want = used + n * size;
    if (want > l->bytes || !l->p) { /* of no elements too: NULL is no memory */
        size_t bytes = l->bytes ? l->bytes : SMALLEST;
        while (bytes < want)
            bytes *= 2;
        void *p = l->p ? mremap(l->p, l->bytes, bytes, MREMAP_MAYMOVE) : inject_pages(bytes);
        if (!p || p == MAP_FAILED)
            return NULL;
        l->p = p;
        l->bytes = bytes;
    }
    l->n += n;
    return memset(l->p + used, 0, n * size);
}

bool inject_list_append(struct list *l, const void *from, size_t n, size_t size)
{
    void *to = inject_list_grow(l, n, size);
    if (to && n > 0)
        memcpy(to, from, n * size);
    return to != NULL;
}

void inject_list_free(struct list *l)
{
    if (l->p)
        munmap(l->p, l->bytes);
    *l = (struct list){0};
}
