/* Names of template instances short enough for a table: "elementwise_kernel<128, 4,
 * gpu_kernel_impl_nocast<MulFunctor<float>>(int)>" of a name of 700 bytes. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "trace/trace.h"

enum { LONGEST = 120, HEAD = 80, TAIL = 37, DEPTH = 64 };

struct label_reader {
    struct buf *out;
    const char *p;
    int depth;
};

static bool takes(struct label_reader *r, const char *text)
{
    size_t n = strlen(text);
    if (strncmp(r->p, text, n) != 0)
        return false;
    r->p += n;
    return true;
}

static void cut_to(struct buf *b, size_t n)
{
    b->n = n < b->n ? n : b->n;
}

static void entity(struct label_reader *r, bool whole);

/* What stands between `open`, which is past, and its closing bracket, separated by commas; nothing
 * where it is empty. Too deep a nest becomes "...". */
static void list(struct label_reader *r, char open, char close)
{
    buf_putc(r->out, open);
    if (r->depth == DEPTH) {
        r->p = trace_past_brackets(r->p - 1);
        buf_puts(r->out, "...");
    } else {
        size_t begin = r->out->n;
        r->depth++;
        while (*r->p && *r->p != close) {
            if (r->out->n > begin)
                buf_puts(r->out, ", ");
            entity(r, false);
            r->p += *r->p && *r->p != close; /* a comma, or another's bracket */
            while (*r->p == ' ')
                r->p++;
        }
        r->p += *r->p == close;
        r->depth--;
    }
    buf_putc(r->out, close);
}

/* "::{lambda(float)#1}" behind a function's name: types of the last one tell instances apart. */
static void lambda(struct label_reader *r, size_t name_end)
{
    cut_to(r->out, name_end);
    if (*r->p == ')')
        r->p++;
    else
        list(r, '(', ')');
    while (*r->p && *r->p != '}')
        r->p++;
    r->p += *r->p == '}';
}

/* "2ul" as "2": the number is read, its suffix skipped. */
static void number(struct label_reader *r)
{
    while (isalnum((unsigned char)*r->p) || *r->p == '.') {
        if (!strchr("uUlL", *r->p))
            buf_putc(r->out, *r->p);
        r->p++;
    }
}

/* One type, value or function: the last part of its qualified name, with template arguments.
 * whole: the name of the kernel, with a return type in front and parameters behind. */
static void entity(struct label_reader *r, bool whole)
{
    size_t from = r->out->n, name_end = from;
    bool parameters = false;
    while (*r->p) {
        char c = *r->p;
        if (!whole && strchr(",>)}", c))
            return;
        if (takes(r, "(anonymous namespace)")) {
            continue;
        } else if (takes(r, "::{lambda(")) {
            lambda(r, name_end);
        } else if (takes(r, "::operator()")) {
            parameters = true; /* those behind it follow as any others */
        } else if (takes(r, "::")) {
            cut_to(r->out, from);
            parameters = false;
        } else if (c == '<') {
            r->p++;
            list(r, '<', '>');
            name_end = r->out->n;
        } else if (c == '(' && r->out->n == from) {
            r->p++;
            list(r, '(', ')');
        } else if (c == '(' || c == '{') {
            r->p = trace_past_brackets(r->p);
            parameters = true;
        } else if (c == ' ' && (parameters || r->p[1] == '>')) {
            r->p++;
            if (whole && *r->p == '[')
                return;
            takes(r, "const");
        } else if (c == ' ' && whole) {
            r->p++;
            cut_to(r->out, from);
        } else if (isdigit((unsigned char)c) && r->out->n == from) {
            number(r);
        } else {
            buf_putc(r->out, c);
            r->p++;
            name_end = r->out->n;
        }
    }
}

/* Begin and end of a long name: template arguments run to thousands of bytes, and a table is as
 * wide as its widest cell. */
static const char *cut(struct arena *a, const char *name, size_t n)
{
    if (n <= LONGEST)
        return arena_strn(a, name, n);
    size_t head = HEAD, tail = n - TAIL;
    while (head > 0 && ((unsigned char)name[head] & 0xc0) == 0x80)
        head--;
    while (tail < n && ((unsigned char)name[tail] & 0xc0) == 0x80)
        tail++;
    return arena_printf(a, "%.*s...%.*s", (int)head, name, (int)(n - tail), name + tail);
}

const char *trace_label(struct arena *a, const char *name)
{
    struct buf out = {0};
    struct label_reader r = {.out = &out, .p = name};
    if (strpbrk(name, "<(") && *name != '[')
        entity(&r, true);
    const char *label = out.n ? cut(a, buf_str(&out), out.n) : cut(a, name, strlen(name));
    buf_free(&out);
    return label;
}

struct named {
    const char *name, *label;
    uint32_t at;
};

static int by_label(const void *x, const void *y)
{
    const struct named *a = x, *b = y;
    int order = strcmp(a->label, b->label);
    return order ? order : strcmp(a->name, b->name);
}

const char **trace_labels(struct arena *a, const char *const *names, size_t n)
{
    const char **out = arena_array(a, const char *, n + 1);
    struct named *all = mem_alloc((n + 1) * sizeof *all);
    for (size_t i = 0; i < n; i++)
        all[i] = (struct named){names[i], trace_label(a, names[i]), (uint32_t)i};
    qsort(all, n, sizeof *all, by_label);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && strcmp(all[end].label, all[i].label) == 0;)
            end++;
        for (size_t k = i, number = 1; k < end; k++) {
            number += k > i && strcmp(all[k].name, all[k - 1].name) != 0;
            bool alone = strcmp(all[i].name, all[end - 1].name) == 0;
            out[all[k].at] =
                alone ? all[k].label : arena_printf(a, "%s #%zu", all[k].label, number);
        }
    }
    mem_free(all);
    return out;
}
