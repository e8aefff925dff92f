#include "config/bind.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "config/option_help.h"
#include "config/override.h"

struct binding {
    struct arena *a;
    const struct option *o;
    struct node *n;
    void *field;
    struct err *e;
};

/* ---- errors ------------------------------------------------------------------------------ */

/* The value as shown in messages: 'x', 1.5, a list. */
static const char *shown(struct arena *a, const struct node *n)
{
    if (n->kind == NODE_STR)
        return arena_printf(a, "'%.*s'", (int)(n->s.n < 200 ? n->s.n : 200), n->s.p);
    if (n->kind == NODE_FLOAT && !isfinite(n->f))
        return "a number that is not finite";
    const char *text = node_scalar_text(a, n);
    return text ? text : node_kind_name(n->kind);
}

static enum st expected(const struct binding *b, const char *what)
{
    return node_err(b->n, ST_USAGE, b->e, "%s: expected %s, got %s", b->o->key, what,
                    shown(b->a, b->n));
}

static enum st check_range(const struct binding *b, double v)
{
    const struct option *o = b->o;
    if ((o->min == 0 && o->max == 0) || (v >= o->min && v <= o->max))
        return ST_OK;
    char limit[STR_DOUBLE_MAX];
    bool low = v < o->min;
    str_from_double(limit, low ? o->min : o->max);
    return node_err(b->n, ST_USAGE, b->e, "%s: %s is %s %s%s%s", o->key, shown(b->a, b->n),
                    low ? "below the minimum" : "above the maximum", limit, o->unit ? " " : "",
                    o->unit ? o->unit : "");
}

/* Index of text among "a|b|c", or -1. */
static int allowed_index(const char *allowed, struct sv text)
{
    for (int i = 0;; i++) {
        size_t n = strcspn(allowed, "|");
        if (n == text.n && memcmp(allowed, text.p, n) == 0)
            return i;
        if (!allowed[n])
            return -1;
        allowed += n + 1;
    }
}

static enum st not_allowed(const struct binding *b)
{
    struct buf range = {0};
    option_range(&range, b->o);
    node_err(b->n, ST_USAGE, b->e, "%s: %s is not %s", b->o->key, shown(b->a, b->n),
             buf_str(&range));
    buf_free(&range);
    return ST_USAGE;
}

/* ---- one function per type --------------------------------------------------------------- */

/* Parses text produced by interpolation as the scalar it spells. */
static void retype(struct binding *b)
{
    if (b->n->kind != NODE_STR || b->n->quoted)
        return;
    struct node *n = override_scalar(b->a, b->n->s);
    n->source = b->n->source, n->line = b->n->line, n->column = b->n->column;
    *b->n = *n;
}

static enum st bind_bool(struct binding *b)
{
    retype(b);
    if (b->n->kind != NODE_BOOL)
        return expected(b, "true or false");
    *(bool *)b->field = b->n->b;
    return ST_OK;
}

static enum st bind_int(struct binding *b)
{
    retype(b);
    if (b->n->kind == NODE_FLOAT && fabs(b->n->f) <= 0x1p53 && rint(b->n->f) >= b->n->f &&
        rint(b->n->f) <= b->n->f) {
        b->n->i = (int64_t)b->n->f;
        b->n->kind = NODE_INT;
    }
    if (b->n->kind != NODE_INT)
        return expected(b, "an integer");
    *(int64_t *)b->field = b->n->i;
    return check_range(b, (double)b->n->i);
}

static enum st bind_double(struct binding *b)
{
    retype(b);
    if (b->n->kind != NODE_INT && (b->n->kind != NODE_FLOAT || !isfinite(b->n->f)))
        return expected(b, "a number");
    double v = b->n->kind == NODE_INT ? (double)b->n->i : b->n->f;
    *(double *)b->field = v;
    return check_range(b, v);
}

static enum st check_text(const struct binding *b, struct node *n)
{
    struct binding at = *b;
    at.n = n;
    if (n->kind != NODE_STR) {
        expected(&at, "text");
        bool scalar = n->kind == NODE_INT || n->kind == NODE_FLOAT || n->kind == NODE_BOOL;
        return scalar ? err_hint(b->e, "put it in quotes") : ST_USAGE;
    }
    if (n->s.n == 0) {
        node_err(n, ST_USAGE, b->e, "%s: the text is empty", b->o->key);
        return err_hint(b->e, "null leaves a key unset");
    }
    if (memchr(n->s.p, 0, n->s.n))
        return node_err(n, ST_USAGE, b->e, "%s: a NUL character in the text", b->o->key);
    return ST_OK;
}

/* "~/x" is below the home folder, as shells have it where they see it: bash leaves `a.b=~/x` alone,
 * sh any `key=~/x`. "~name/x" is refused. */
static enum st expand_home(const struct binding *b, struct node *n)
{
    const char *s = n->s.p, *home = getenv("HOME");
    const size_t name = s[0] == '~' ? strcspn(s + 1, "/") : 0;
    if (s[0] != '~' || (name > 0 && !s[1 + name]))
        return ST_OK;
    for (size_t i = 1; i <= name; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("._-", s[i]))
            return ST_OK;
    if (name > 0) {
        node_err(n, ST_USAGE, b->e, "%s: the home folder of %.*s is not looked up", b->o->key,
                 (int)name, s + 1);
        return err_hint(b->e, "write the folder out; ./%s is one of that name here", s);
    }
    if (!home || !*home) {
        node_err(n, ST_USAGE, b->e, "%s: ~ is the home folder, and HOME is not set", b->o->key);
        return err_hint(b->e, "write the folder out; ./%s is one of that name here", s);
    }
    n->s = sv_of(arena_printf(b->a, "%s%s", home, s + 1));
    return ST_OK;
}

static enum st bind_str(struct binding *b)
{
    TRY(check_text(b, b->n));
    if (!b->o->allowed)
        TRY(expand_home(b, b->n));
    if (b->o->allowed && allowed_index(b->o->allowed, b->n->s) < 0)
        return not_allowed(b);
    *(const char **)b->field = b->n->s.p;
    return ST_OK;
}

static enum st bind_enum(struct binding *b)
{
    int i = b->n->kind == NODE_STR ? allowed_index(b->o->allowed, b->n->s) : -1;
    if (i < 0)
        return not_allowed(b);
    *(int *)b->field = i;
    return ST_OK;
}

/* An unquoted a,b,c becomes a list of three. */
static struct node *split(struct arena *a, const struct node *n)
{
    struct node *list = node_new(a, NODE_LIST);
    list->source = n->source, list->line = n->line, list->column = n->column;
    for (struct sv rest = n->s;;) {
        const char *comma = memchr(rest.p, ',', rest.n);
        size_t len = comma ? (size_t)(comma - rest.p) : rest.n;
        struct sv part = sv_trim((struct sv){rest.p, len});
        struct node *item = node_str(a, arena_strn(a, part.p, part.n));
        item->source = n->source, item->line = n->line, item->column = n->column;
        node_push(a, list, item);
        if (!comma)
            return list;
        rest = (struct sv){comma + 1, rest.n - len - 1};
    }
}

static enum st bind_list(struct binding *b)
{
    if (b->n->kind == NODE_STR && !b->n->quoted)
        *b->n = *split(b->a, b->n);
    else if (b->n->kind == NODE_STR) {
        struct node *list = node_new(b->a, NODE_LIST);
        list->source = b->n->source, list->line = b->n->line, list->column = b->n->column;
        node_push(b->a, list, node_copy(b->a, b->n));
        *b->n = *list;
    }
    if (b->n->kind != NODE_LIST)
        return expected(b, "a list");
    const char **items = arena_array(b->a, const char *, b->n->n);
    for (uint32_t i = 0; i < b->n->n; i++) {
        TRY(check_text(b, b->n->items[i]));
        TRY(expand_home(b, b->n->items[i]));
        items[i] = b->n->items[i]->s.p;
    }
    *(struct texts *)b->field = (struct texts){items, b->n->n};
    return ST_OK;
}

static enum st bind_map(struct binding *b)
{
    if (b->n->kind != NODE_MAP)
        return expected(b, "a map");
    *(const struct node **)b->field = b->n;
    return ST_OK;
}

static enum st (*const binders[])(struct binding *) = {
    [OPT_BOOL] = bind_bool, [OPT_INT] = bind_int,   [OPT_DOUBLE] = bind_double,
    [OPT_STR] = bind_str,   [OPT_ENUM] = bind_enum, [OPT_LIST] = bind_list,
    [OPT_MAP] = bind_map,
};

/* ---- the tree ---------------------------------------------------------------------------- */

static enum st check_known(struct arena *a, const struct node *map, const char *prefix,
                           uint32_t bits, struct err *e)
{
    for (uint32_t i = 0; i < map->n; i++) {
        const struct node_pair *p = &map->pairs[i];
        const char *key =
            arena_printf(a, "%s%s%.*s", prefix, *prefix ? "." : "", (int)p->key.n, p->key.p);
        if (option_find(key))
            continue;
        if (!option_is_section(key)) {
            const char *source = p->value->source ? p->value->source : "configuration";
            err_at(e, ST_USAGE, source, p->line, p->column, "unknown key '%s'", key);
            option_hint(key, bits, e);
            return ST_USAGE;
        }
        if (p->value->kind == NODE_NULL)
            continue;
        if (p->value->kind != NODE_MAP)
            return node_err(p->value, ST_USAGE, e, "%s: expected a map of keys, got %s", key,
                            shown(a, p->value));
        TRY(check_known(a, p->value, key, bits, e));
    }
    return ST_OK;
}

enum st config_bind(struct arena *a, struct node *root, uint32_t command, struct plan *out,
                    struct err *e)
{
    memset(out, 0, option_table.plan_size);
    TRY(check_known(a, root, "", command, e));
    for (struct option_iter i = {0}; option_next(&i);) {
        const struct option *o = i.o;
        struct node *n = node_path(root, o->key);
        if (n && o->null_is_word && n->kind == NODE_NULL) {
            n->kind = NODE_STR;
            n->s = sv_of("null");
        } else if (n && !o->null_is_word && n->kind == NODE_STR && !n->quoted &&
                   sv_eq(n->s, "null")) {
            n->kind = NODE_NULL; /* made by interpolation */
        }
        if (!n || n->kind == NODE_NULL) {
            const char *def = option_default(o, command);
            if (!def)
                continue;
            n = node_str(a, def);
            n->source = "default";
        }
        struct binding b = {.a = a, .o = o, .n = n, .field = (char *)out + i.offset, .e = e};
        TRY(binders[o->type](&b));
    }
    return ST_OK;
}
