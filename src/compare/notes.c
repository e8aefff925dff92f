#include "compare/intern.h"

void compare_note(struct notes *n, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vec_push(&n->v, arena_vprintf(n->a, fmt, ap));
    va_end(ap);
}

size_t compare_notes_end(struct notes *n, const char *const **out)
{
    const size_t found = n->v.n;
    *out = arena_copy(n->a, n->v.p, found * sizeof *n->v.p);
    vec_free(&n->v);
    return found;
}
