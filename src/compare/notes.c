#include "compare/intern.h"

void compare_note(struct notes *n, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vec_push(&n->v, arena_vprintf(n->a, fmt, ap));
    va_end(ap);
}
