/* Growing arrays: `VEC(int) v = {0}; vec_push(&v, 3); v.p[0]; v.n; vec_free(&v);`
 *
 * Elements move when the vector grows: keep indices, not pointers. */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include "base/arena.h"

#define VEC(type)      \
    struct {           \
        type *p;       \
        size_t n, cap; \
    }

#define vec_reserve(v, want)                                                               \
    ((void)((v)->cap < (want) ? ((v)->cap = (want) > (v)->cap * 2 ? (want) : (v)->cap * 2, \
                                 (v)->p = mem_resize((v)->p, (v)->cap * sizeof *(v)->p))   \
                              : 0))
#define vec_push(v, ...) (vec_reserve(v, (v)->n + 1), (void)((v)->p[(v)->n++] = (__VA_ARGS__)))
#define vec_pop(v)       ((v)->p[--(v)->n])
#define vec_last(v)      ((v)->p[(v)->n - 1])
#define vec_clear(v)     ((void)((v)->n = 0))
#define vec_free(v)      (mem_free((v)->p), (void)((v)->p = NULL, (v)->n = (v)->cap = 0))

#endif
