/* Arenas: memory that lives and dies together.
 *
 * A function that returns memory takes `struct arena *a` first; the result lives as long as that
 * arena. One arena per run, a scratch arena per stage. Memory is zeroed. Running out of memory is
 * not an error to handle: the process ends with a message and the exit code of ST_IO. Not
 * thread-safe: one arena, one thread at a time. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

#include "base/err.h"

struct arena;

struct arena *arena_new(void);
void arena_free(struct arena **a);        /* NULL and *a == NULL are fine; clears *a */
void arena_reset(struct arena *a);        /* forget all; keeps one block for reuse */
size_t arena_used(const struct arena *a); /* bytes handed out since new or reset */

void *arena_alloc(struct arena *a, size_t bytes); /* 16-byte aligned, zeroed; 0 bytes is fine */
void *arena_copy(struct arena *a, const void *p, size_t bytes);
char *arena_str(struct arena *a, const char *s);            /* copy of s */
char *arena_strn(struct arena *a, const char *s, size_t n); /* copy of n bytes, NUL added */
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);
char *arena_vprintf(struct arena *a, const char *fmt, va_list ap) PRINTF_LIKE(2, 0);

/* n zeroed objects of a type: struct row *r = arena_array(a, struct row, n); */
#define arena_array(a, type, n) ((type *)arena_alloc_n(a, (size_t)(n), sizeof(type)))
#define arena_one(a, type)      ((type *)arena_alloc(a, sizeof(type)))
void *arena_alloc_n(struct arena *a, size_t n, size_t size); /* n * size, overflow checked */

/* Heap memory that never fails quietly, for buffers that grow (vec.h, str.h) or are huge. */
void *mem_alloc(size_t bytes);
void *mem_resize(void *p, size_t bytes);
void mem_free(void *p);

#endif
