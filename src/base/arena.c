#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { FIRST_BLOCK = 4096, MAX_BLOCK = 1 << 20, ALIGN = 16 };

struct block {
    struct block *next;
    size_t size, used;
    _Alignas(ALIGN) char bytes[];
};

struct arena {
    struct block *head; /* newest first; allocation happens in the head */
    size_t used;
};

static _Noreturn void out_of_memory(size_t bytes)
{
    char size[STR_BYTES_MAX];
    str_from_bytes(size, bytes < INT64_MAX ? (int64_t)bytes : INT64_MAX);
    fprintf(stderr,
            "twinfer: out of memory: the system refused %s\n"
            "  hint: a smaller input, more memory, or a higher limit (ulimit -v, a container's)\n",
            size);
    _Exit(err_exit_code(ST_IO));
}

void *mem_alloc(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);
    if (!p)
        out_of_memory(bytes);
    return p;
}

void *mem_resize(void *p, size_t bytes)
{
    void *q = realloc(p, bytes ? bytes : 1);
    if (!q)
        out_of_memory(bytes);
    return q;
}

void mem_free(void *p)
{
    free(p);
}

struct arena *arena_new(void)
{
    return mem_alloc(sizeof(struct arena));
}

void arena_free(struct arena **a)
{
    if (!a || !*a)
        return;
    for (struct block *b = (*a)->head, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(*a);
    *a = NULL;
}

void arena_reset(struct arena *a)
{
    struct block *keep = a->head;
    if (keep) {
        for (struct block *b = keep->next, *next; b; b = next) {
            next = b->next;
            free(b);
        }
        keep->next = NULL;
        memset(keep->bytes, 0, keep->used);
        keep->used = 0;
    }
    a->used = 0;
}

size_t arena_used(const struct arena *a)
{
    return a->used;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        out_of_memory(bytes);
    size_t need = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    struct block *b = a->head;
    if (!b || b->size - b->used < need) {
        size_t size = b ? b->size * 2 : FIRST_BLOCK;
        size = size > MAX_BLOCK ? MAX_BLOCK : size;
        size = size < need ? need : size;
        b = mem_alloc(sizeof *b + size);
        b->size = size;
        b->next = a->head;
        a->head = b;
    }
    void *p = b->bytes + b->used;
    b->used += need;
    a->used += need;
    return p;
}

void *arena_alloc_n(struct arena *a, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes))
        out_of_memory(SIZE_MAX);
    return arena_alloc(a, bytes);
}

void *arena_copy(struct arena *a, const void *p, size_t bytes)
{
    void *q = arena_alloc(a, bytes);
    if (bytes)
        memcpy(q, p, bytes);
    return q;
}

char *arena_strn(struct arena *a, const char *s, size_t n)
{
    char *q = arena_alloc(a, n + 1);
    if (n)
        memcpy(q, s, n);
    return q;
}

char *arena_str(struct arena *a, const char *s)
{
    return arena_strn(a, s, strlen(s));
}

char *arena_vprintf(struct arena *a, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    ASSERT(n >= 0);
    char *s = arena_alloc(a, (size_t)n + 1);
    vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    return s;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *s = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return s;
}
