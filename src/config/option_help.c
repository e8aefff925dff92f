#include "config/option_help.h"

#include <math.h>
#include <string.h>

#include "config/when.h"

void option_range(struct buf *out, const struct option *o)
{
    /* larger bounds only prevent overflow: not shown */
    enum { NO_REAL_LIMIT = 100000 };
    char text[STR_DOUBLE_MAX];
    if (o->allowed) {
        buf_puts(out, "one of ");
        option_list_values(out, o->allowed, ", ");
        return;
    }
    if (o->min == 0 && o->max == 0)
        return;
    bool tiny = o->type == OPT_DOUBLE && o->min > 0 && o->min < 1e-2;
    str_from_double(text, tiny ? 0 : o->min);
    buf_printf(out, "%s%s", tiny ? "above " : "", text);
    if (o->max < NO_REAL_LIMIT) {
        str_from_double(text, o->max);
        buf_printf(out, " to %s", text);
    } else if (!tiny) {
        buf_puts(out, " or more");
    }
}

static const char *const type_names[] = {
    [OPT_BOOL] = "true or false",
    [OPT_INT] = "integer",
    [OPT_DOUBLE] = "number",
    [OPT_STR] = "",
    [OPT_ENUM] = "",
    [OPT_LIST] = "list",
    [OPT_MAP] = "map",
};

/* A non-breaking space. */
enum { HARD_SPACE = 0x1f };

static void add_fact(struct buf *out, const char *before, const char *text)
{
    if (*text)
        buf_printf(out, "%s%s%s", out->n ? ", " : "", before, text);
}

void option_facts(struct buf *out, const struct option *o, uint32_t command)
{
    const char *def = option_default(o, command);
    struct buf range = {0}, when = {0};
    option_range(&range, o);
    add_fact(out, "", range.n ? "" : type_names[o->type]);
    add_fact(out, "", buf_str(&range));
    if (range.n && o->unit)
        buf_printf(out, " %s", o->unit);
    else if (o->unit)
        add_fact(out, "", o->unit);
    if (def)
        buf_printf(out, "%sdefault %s", out->n ? "; " : "", def);
    when_text(&when, o, command);
    if (when.n)
        buf_printf(out, "%s%s", out->n ? "; " : "", buf_str(&when));
    buf_free(&range);
    buf_free(&when);
}

static void add_facts(struct buf *out, const struct option *o, uint32_t command)
{
    struct buf facts = {0};
    option_facts(&facts, o, command);
    size_t bracketed = facts.n + 2;
    if (facts.n)
        buf_printf(out, " [%s]", facts.p);
    enum { SHORT = 50 };
    for (size_t i = bracketed; facts.n && i > 1 && bracketed < SHORT; i--)
        if (out->p[out->n - i] == ' ')
            out->p[out->n - i] = HARD_SPACE;
    buf_free(&facts);
}

/* Words of text from column `indent` on, broken before column 100. */
static void add_wrapped(struct buf *out, const char *text, int indent)
{
    enum { WIDTH = 100 };
    int column = indent;
    for (const char *p = text; *p;) {
        int n = (int)strcspn(p, " ");
        if (column > indent && column + 1 + n > WIDTH) {
            buf_printf(out, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            buf_putc(out, ' ');
            column++;
        }
        for (int i = 0; i < n; i++)
            buf_putc(out, p[i] == HARD_SPACE ? ' ' : p[i]);
        column += n;
        p += n + (p[n] == ' ');
    }
    buf_putc(out, '\n');
}

void option_help(struct buf *out, uint32_t command)
{
    int width = 0;
    for (struct option_iter i = {0}; option_next(&i);) {
        int n = (int)strlen(i.o->key);
        if ((i.o->commands & command) && n > width)
            width = n;
    }
    struct arena *a = arena_new();
    struct buf text = {0};
    for (struct option_iter i = {0}; option_next(&i);) {
        const struct option *o = i.o;
        if (!(o->commands & command))
            continue;
        buf_clear(&text);
        buf_puts(&text, option_help_text(a, o));
        add_facts(&text, o, command);
        buf_printf(out, "  %-*s  ", width, o->key);
        add_wrapped(out, buf_str(&text), width + 4);
    }
    arena_free(&a);
    buf_free(&text);
}
