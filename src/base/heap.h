/* A VEC as a binary heap: p[0] comes before all others.
 *
 *     static bool earlier(const struct event *a, const struct event *b);
 *     VEC(struct event) v = {0};
 *     heap_push(&v, earlier, event);
 *     while (v.n) { struct event first; heap_pop(&v, earlier, &first); }
 *
 * heap_make orders what was pushed with vec_push. The order of elements of which neither comes
 * before the other is not defined: give `before` a sequence number for a last word. It is called
 * inline. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include "base/vec.h"

#define heap_push(v, before, x)                                                      \
    do {                                                                             \
        vec_push((v), (x));                                                          \
        size_t at_ = (v)->n - 1;                                                     \
        for (; at_ > 0 && before(&(x), &(v)->p[(at_ - 1) / 2]); at_ = (at_ - 1) / 2) \
            (v)->p[at_] = (v)->p[(at_ - 1) / 2];                                     \
        (v)->p[at_] = (x);                                                           \
    } while (0)

/* The hole at `hole` among the first `count` goes down to where p[from], behind them, belongs. */
#define heap_sink_(v, before, count, hole, from)                                   \
    do {                                                                           \
        size_t at_ = (hole);                                                       \
        for (size_t next_; (next_ = 2 * at_ + 1) < (count); at_ = next_) {         \
            if (next_ + 1 < (count) && before(&(v)->p[next_ + 1], &(v)->p[next_])) \
                next_++;                                                           \
            if (!before(&(v)->p[next_], &(v)->p[from]))                            \
                break;                                                             \
            (v)->p[at_] = (v)->p[next_];                                           \
        }                                                                          \
        (v)->p[at_] = (v)->p[from];                                                \
    } while (0)

#define heap_pop(v, before, out)          \
    do {                                  \
        *(out) = (v)->p[0];               \
        size_t n_ = --(v)->n;             \
        heap_sink_(v, before, n_, 0, n_); \
    } while (0)

#define heap_make(v, before)                                         \
    do {                                                             \
        size_t n_ = (v)->n;                                          \
        vec_reserve((v), n_ + 1); /* one place to hold what sinks */ \
        for (size_t i_ = n_ / 2; i_-- > 0;) {                        \
            (v)->p[n_] = (v)->p[i_];                                 \
            heap_sink_(v, before, n_, i_, n_);                       \
        }                                                            \
    } while (0)

#endif
