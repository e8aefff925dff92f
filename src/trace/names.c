#include <setjmp.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "trace/trace.h"

enum { MANGLED_MAX = 16 << 10, RESULT_MAX = 64 << 10 };

/* A mangled name of a few hundred bytes can stand for one of many gigabytes (each part may refer to
 * parts before it twice). The demangler returns its result in pieces and owns no memory, so leaving
 * it by longjmp when there is too much is safe. */
struct demangled {
    struct buf text;
    jmp_buf too_long;
    size_t pieces;
};

static void add_piece(const char *piece, size_t n, void *self)
{
    struct demangled *r = self;
    if (r->text.n + n > RESULT_MAX || ++r->pieces > RESULT_MAX)
        longjmp(r->too_long, 1);
    buf_add(&r->text, piece, n);
}

static bool demangled(struct demangled *r, const char *name)
{
    if (setjmp(r->too_long))
        return false;
    return cplus_demangle_v3_callback(name, DMGL_PARAMS | DMGL_ANSI, add_piece, r) != 0;
}

const char *trace_demangle(struct arena *a, const char *name)
{
    if (strncmp(name, "_Z", 2) != 0 || strnlen(name, MANGLED_MAX + 1) > MANGLED_MAX)
        return name;
    struct demangled *r = mem_alloc(sizeof *r);
    bool ok = demangled(r, name);
    const char *text = ok ? arena_strn(a, buf_str(&r->text), r->text.n) : name;
    buf_free(&r->text);
    mem_free(r);
    return text;
}

/* "(anonymous namespace)::" and "{lambda(int)#1}" hold brackets that are part of the name. */
static bool anonymous(const char *p)
{
    return strncmp(p, "(anonymous namespace)", 21) == 0;
}

const char *trace_past_brackets(const char *p)
{
    long depth = 0;
    for (; *p; p++) {
        if (*p == '<' || *p == '(' || *p == '{' || *p == '[')
            depth++;
        else if ((*p == '>' && p[-1] != '-') || *p == ')' || *p == '}' || *p == ']')
            depth--;
        if (depth == 0)
            return p + 1;
    }
    return p;
}

const char *trace_short_name(struct arena *a, const char *name)
{
    const char *start = name, *end = NULL, *p = name;
    while (*p) {
        if (anonymous(p)) {
            p += 21;
        } else if (strncmp(p, "operator", 8) == 0 && (p == name || p[-1] == ':' || p[-1] == ' ')) {
            start = p;
            p += 8;
            while (*p && *p != '(' && *p != ' ')
                p++;
            end = p;
            break;
        } else if (*p == '(') {
            end = end ? end : p;
            break;
        } else if (*p == '<') {
            end = p;
            p = trace_past_brackets(p);
        } else if (p[0] == ':' && p[1] == ':') {
            p += 2;
            start = p;
            end = NULL;
        } else if (*p == ' ') {
            p++;
            if (*p && *p != '(' && *p != '[') {
                start = p;
                end = NULL;
            }
        } else {
            p++;
        }
    }
    end = end ? end : p;
    if (end <= start)
        return name;
    return arena_strn(a, start, (size_t)(end - start));
}
