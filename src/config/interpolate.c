#include "config/interpolate.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/hash.h"
#include "base/map.h"
#include "config/option.h"
#include "config/override.h"

enum { MAX_DEPTH = 64, MAX_VALUES = 100000, MAX_BYTES = 4 << 20, MAX_ARGS = 64 };

/* A node and the containers around it, innermost first. */
struct node_frame {
    const struct node_frame *up;
    struct node *node;
    struct sv name;
};

/* Strings being evaluated, innermost first. */
struct active {
    const struct active *up;
    const struct node_frame *at;
};

struct interpolation {
    struct arena *a;
    struct map done; /* by address: nodes whose text is final */
    const struct active *active;
    int depth;
    size_t values, bytes;
    struct err *e;
};

/* Parser position in the text of one node. */
struct text_cursor {
    const struct node_frame *at;
    struct sv s;
    size_t i;
};

static const char *key_of(struct arena *a, const struct node_frame *f)
{
    if (!f->up)
        return "";
    const char *above = key_of(a, f->up);
    return arena_printf(a, "%s%s%.*s", above, *above ? "." : "", (int)f->name.n, f->name.p);
}

static enum st fail(struct interpolation *x, const struct node_frame *at, const char *text)
{
    return node_err(at->node, ST_USAGE, x->e, "%s: %s", key_of(x->a, at), text);
}

static bool is_done(const struct interpolation *x, const struct node *n)
{
    return map_find(&x->done, (const char *)&n, sizeof n) != NULL;
}

static void mark_done(struct interpolation *x, const struct node *n)
{
    if (n->kind == NODE_STR)
        map_put(&x->done, (const char *)&n, sizeof n, NULL);
    if (n->kind == NODE_LIST)
        for (uint32_t i = 0; i < n->n; i++)
            mark_done(x, n->items[i]);
    if (n->kind == NODE_MAP)
        for (uint32_t i = 0; i < n->n; i++)
            mark_done(x, n->pairs[i].value);
}

static size_t count_values(const struct node *n)
{
    size_t sum = 1;
    if (n->kind == NODE_LIST)
        for (uint32_t i = 0; i < n->n; i++)
            sum += count_values(n->items[i]);
    if (n->kind == NODE_MAP)
        for (uint32_t i = 0; i < n->n; i++)
            sum += count_values(n->pairs[i].value);
    return sum;
}

static enum st spend(struct interpolation *x, const struct node_frame *at, size_t values,
                     size_t bytes)
{
    x->values += values;
    x->bytes += bytes;
    if (x->values > MAX_VALUES || x->bytes > MAX_BYTES)
        return fail(x, at, "interpolation makes more than 100000 values or 4 MiB of text");
    return ST_OK;
}

static enum st resolve(struct interpolation *x, const struct node_frame *at);
static enum st read_interpolation(struct interpolation *x, struct text_cursor *c,
                                  struct node **out);

/* ---- text of values ---------------------------------------------------------------------- */

static enum st add_text(struct interpolation *x, const struct text_cursor *c, const struct node *n,
                        struct buf *out)
{
    char number[STR_DOUBLE_MAX];
    size_t before = out->n;
    switch (n->kind) {
    case NODE_STR:
        buf_add(out, n->s.p, n->s.n);
        break;
    case NODE_INT:
        buf_printf(out, "%lld", (long long)n->i);
        break;
    case NODE_BOOL:
        buf_puts(out, n->b ? "True" : "False"); /* as Hydra, so that ids agree */
        break;
    case NODE_FLOAT:
        if (n->f - n->f < 0 || n->f - n->f > 0)
            return fail(x, c->at, "a number that is not finite cannot be part of a text");
        str_from_double(number, n->f);
        buf_puts(out, number);
        if (strspn(number, "-0123456789") == strlen(number))
            buf_puts(out, ".0");
        break;
    case NODE_NULL:
        return fail(x, c->at, "a key that is not set cannot be part of a text");
    case NODE_LIST:
    case NODE_MAP:
        return fail(x, c->at, "a list or map cannot be part of a text");
    }
    return spend(x, c->at, 0, out->n - before);
}

/* ---- keys -------------------------------------------------------------------------------- */

static enum st no_key(struct interpolation *x, const struct text_cursor *c, const char *path)
{
    fail(x, c->at, arena_printf(x->a, "there is no key '%s' to interpolate", path));
    if (*path != '.')
        option_hint(path, CMD_ANY, x->e);
    return x->e->st;
}

/* A key of the option table that nothing has set. */
static struct node *unset_value(struct interpolation *x, const char *path)
{
    const struct option *o = option_find(path);
    if (!o)
        return NULL;
    struct node *n = !o->def ? node_new(x->a, NODE_NULL)
                     : o->type == OPT_STR || o->type == OPT_ENUM
                         ? node_str(x->a, o->def)
                         : override_scalar(x->a, sv_of(o->def));
    return n;
}

static const struct node_frame *child(struct interpolation *x, const struct node_frame *f,
                                      struct sv name)
{
    struct node *n = NULL;
    int64_t i;
    if (f->node->kind == NODE_MAP)
        n = node_find(f->node, arena_strn(x->a, name.p, name.n));
    else if (f->node->kind == NODE_LIST && str_int64(name, &i) && i >= 0 && i < f->node->n)
        n = f->node->items[i];
    if (!n)
        return NULL;
    struct node_frame *g = arena_one(x->a, struct node_frame);
    *g = (struct node_frame){.up = f, .node = n, .name = name};
    return g;
}

static enum st look_up(struct interpolation *x, const struct text_cursor *c, const char *path,
                       struct node **out)
{
    const struct node_frame *f = c->at;
    const char *p = path;
    if (*p == '.') {
        for (; *p == '.'; p++) {
            f = f->up;
            if (!f)
                return fail(x, c->at, arena_printf(x->a, "'%s' leads above the root", path));
        }
    } else {
        while (f->up)
            f = f->up;
    }
    while (*p) {
        size_t n = strcspn(p, ".[]");
        if (f->node->kind == NODE_STR)
            TRY(resolve(x, f));
        const struct node_frame *next = child(x, f, (struct sv){p, n});
        if (!next) {
            *out = *path == '.' ? NULL : unset_value(x, path);
            return *out ? ST_OK : no_key(x, c, path);
        }
        f = next;
        p += n + (p[n] == ']');
        p += *p == '.' || *p == '[';
    }
    TRY(resolve(x, f));
    *out = f->node;
    return ST_OK;
}

/* ---- resolvers --------------------------------------------------------------------------- */

static enum st resolve_env(struct interpolation *x, const struct text_cursor *c, const char **args,
                           size_t n, struct node **out)
{
    const char *v = getenv(args[0]);
    if (!v && n == 2)
        v = args[1];
    if (!v) {
        fail(x, c->at, arena_printf(x->a, "the environment variable %s is not set", args[0]));
        return err_hint(x->e, "${oc.env:%s,default} gives it a default", args[0]);
    }
    if (str_utf8_valid(v, strlen(v)) != strlen(v))
        return fail(x, c->at,
                    arena_printf(x->a, "the environment variable %s is not valid UTF-8", args[0]));
    TRY(spend(x, c->at, 1, strlen(v)));
    *out = node_str(x->a, v);
    return ST_OK;
}

static enum st resolve_stable_id(struct interpolation *x, const struct text_cursor *c,
                                 const char **args, size_t n, struct node **out)
{
    (void)c;
    *out = node_str(x->a, hash_stable_id(x->a, args[0], args + 1, n - 1));
    return ST_OK;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat s, t;
    return stat(a, &s) == 0 && stat(b, &t) == 0 && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

/* A file that ships with twinfer: where the program was installed (<prefix>/bin/twinfer), else
 * where it was built (<tree>/build/twinfer), in short where that is the working folder. A package
 * has documents of the same names at its top, so the installed ones come first. Only for a program
 * that lies alone it is below ./data, and never a program there (data:../adapters): the working
 * folder may be somebody else's. */
static enum st resolve_data(struct interpolation *x, const struct text_cursor *c, const char **args,
                            size_t n, struct node **out)
{
    (void)c;
    (void)n;
    const char *here = arena_printf(x->a, "data/%s", args[0]);
    const char *prefix = fs_dir(x->a, fs_self_dir(x->a));
    const char *installed = arena_printf(x->a, "%s/share/twinfer/%s", prefix, here);
    const char *built = arena_printf(x->a, "%s/%s", prefix, here), *found = here;
    if (fs_exists(installed))
        found = installed;
    else if ((fs_exists(built) || strstr(args[0], "..")) && !is_same_file(built, here))
        found = built;
    *out = node_str(x->a, found);
    return ST_OK;
}

static const struct resolver {
    const char *name;
    size_t min, max; /* arguments */
    const char *form;
    enum st (*run)(struct interpolation *x, const struct text_cursor *c, const char **args,
                   size_t n, struct node **out);
} resolvers[] = {
    {"oc.env", 1, 2, "${oc.env:NAME} or ${oc.env:NAME,default}", resolve_env},
    {"data", 1, 1, "${data:path}", resolve_data},
    {"stable_id", 1, MAX_ARGS, "${stable_id:prefix,part,...}", resolve_stable_id},
};

static enum st run_resolver(struct interpolation *x, const struct text_cursor *c, const char *name,
                            const char **args, size_t n, struct node **out)
{
    for (size_t i = 0; i < sizeof resolvers / sizeof *resolvers; i++) {
        const struct resolver *r = &resolvers[i];
        if (strcmp(r->name, name) != 0)
            continue;
        if (n < r->min || n > r->max)
            return fail(x, c->at, arena_printf(x->a, "%s takes the form %s", name, r->form));
        return r->run(x, c, args, n, out);
    }
    fail(x, c->at, arena_printf(x->a, "there is no resolver '%s'", name));
    return err_hint(x->e, "there are data, oc.env and stable_id");
}

/* ---- parsing ----------------------------------------------------------------------------- */

static bool at_open(const struct text_cursor *c)
{
    return c->i + 1 < c->s.n && c->s.p[c->i] == '$' && c->s.p[c->i + 1] == '{';
}

/* ${...} inside ${...}: its text is appended. */
static enum st add_nested(struct interpolation *x, struct text_cursor *c, struct buf *out)
{
    struct node *n;
    TRY(read_interpolation(x, c, &n));
    return add_text(x, c, n, out);
}

static void skip_space(struct text_cursor *c)
{
    while (c->i < c->s.n && (c->s.p[c->i] == ' ' || c->s.p[c->i] == '\t'))
        c->i++;
}

/* One argument up to the ',' or '}' that ends it. */
static enum st read_argument(struct interpolation *x, struct text_cursor *c, struct buf *out)
{
    skip_space(c);
    char quote = c->i < c->s.n && strchr("'\"", c->s.p[c->i]) ? c->s.p[c->i] : 0;
    size_t kept = 0; /* bytes protected from trimming */
    if (quote)
        c->i++;
    while (c->i < c->s.n) {
        char ch = c->s.p[c->i];
        if (at_open(c)) {
            TRY(add_nested(x, c, out));
            kept = out->n;
            continue;
        }
        if (ch == '\\' && c->i + 1 < c->s.n) {
            c->i++;
            buf_putc(out, c->s.p[c->i++]);
            kept = out->n;
            continue;
        }
        if (quote ? ch == quote : ch == ',' || ch == '}')
            break;
        buf_putc(out, ch);
        c->i++;
    }
    if (quote && c->i < c->s.n) {
        c->i++;
        skip_space(c);
        if (c->i < c->s.n && !strchr(",}", c->s.p[c->i]))
            return fail(x, c->at, "text after the closing quote of an argument");
    }
    while (!quote && out->n > kept && (out->p[out->n - 1] == ' ' || out->p[out->n - 1] == '\t'))
        out->p[--out->n] = 0;
    return c->i < c->s.n ? ST_OK : fail(x, c->at, "'${' is not closed");
}

/* After "name:". */
static enum st read_call(struct interpolation *x, struct text_cursor *c, const char *name,
                         struct node **out)
{
    const char *args[MAX_ARGS];
    size_t n = 0;
    skip_space(c);
    if (c->i < c->s.n && c->s.p[c->i] == '}') {
        c->i++;
        return run_resolver(x, c, name, args, 0, out);
    }
    for (;;) {
        struct buf b = {0};
        enum st st = read_argument(x, c, &b);
        const char *arg = arena_strn(x->a, buf_str(&b), b.n);
        buf_free(&b);
        TRY(st);
        if (n == MAX_ARGS)
            return fail(x, c->at, "more than 64 arguments");
        args[n++] = arg;
        if (c->s.p[c->i++] == '}')
            return run_resolver(x, c, name, args, n, out);
    }
}

static enum st read_head(struct interpolation *x, struct text_cursor *c, struct buf *head)
{
    skip_space(c);
    while (c->i < c->s.n && c->s.p[c->i] != '}' && c->s.p[c->i] != ':') {
        if (at_open(c))
            TRY(add_nested(x, c, head));
        else
            buf_putc(head, c->s.p[c->i++]);
    }
    return c->i < c->s.n ? ST_OK : fail(x, c->at, "'${' is not closed");
}

/* At "${"; leaves the cursor after the '}' that ends it. */
static enum st read_interpolation(struct interpolation *x, struct text_cursor *c, struct node **out)
{
    if (++x->depth > MAX_DEPTH)
        return fail(x, c->at, "interpolations are nested deeper than 64");
    c->i += 2;
    struct buf head = {0};
    enum st st = read_head(x, c, &head);
    struct sv name = sv_trim((struct sv){buf_str(&head), head.n});
    const char *text = arena_strn(x->a, name.p, name.n);
    buf_free(&head);
    TRY(st);
    bool call = c->s.p[c->i++] == ':';
    if (!*text)
        return fail(x, c->at, "'${}' names nothing");
    TRY(call ? read_call(x, c, text, out) : look_up(x, c, text, out));
    x->depth--;
    return ST_OK;
}

/* Backslashes before "${": each pair yields one, an odd one escapes the interpolation. */
static void read_escape(struct text_cursor *c, struct buf *out)
{
    size_t n = 0;
    while (c->i + n < c->s.n && c->s.p[c->i + n] == '\\')
        n++;
    struct text_cursor after = {.s = c->s, .i = c->i + n};
    if (n == 0 || !at_open(&after)) {
        buf_putc(out, c->s.p[c->i++]);
        return;
    }
    for (size_t k = 0; k < n / 2; k++)
        buf_putc(out, '\\');
    c->i = after.i;
    if (n % 2) {
        buf_puts(out, "${");
        c->i += 2;
    }
}

static enum st evaluate(struct interpolation *x, struct text_cursor *c, struct buf *out,
                        struct node **whole)
{
    *whole = NULL;
    while (c->i < c->s.n) {
        if (!at_open(c)) {
            read_escape(c, out);
            continue;
        }
        size_t start = c->i;
        struct node *n;
        TRY(read_interpolation(x, c, &n));
        if (start == 0 && c->i == c->s.n) {
            *whole = n;
            return ST_OK;
        }
        TRY(add_text(x, c, n, out));
    }
    return ST_OK;
}

/* ---- walking ----------------------------------------------------------------------------- */

static enum st cycle(struct interpolation *x, const struct node_frame *at)
{
    const char *text = key_of(x->a, at);
    for (const struct active *w = x->active; w; w = w->up) {
        text = arena_printf(x->a, "%s -> %s", key_of(x->a, w->at), text);
        if (w->at->node == at->node)
            break;
    }
    return fail(x, at, arena_printf(x->a, "interpolation leads back to itself: %s", text));
}

static enum st resolve_text(struct interpolation *x, const struct node_frame *at)
{
    struct node *n = at->node;
    for (const struct active *w = x->active; w; w = w->up)
        if (w->at->node == n)
            return cycle(x, at);
    struct active here = {.up = x->active, .at = at};
    x->active = &here;
    struct text_cursor c = {.at = at, .s = n->s};
    struct buf b = {0};
    struct node *whole;
    enum st st = evaluate(x, &c, &b, &whole);
    x->active = here.up;
    struct sv text = {arena_strn(x->a, buf_str(&b), b.n), b.n};
    buf_free(&b);
    TRY(st);
    struct node result = {.kind = NODE_STR};
    result.s = text;
    if (whole) {
        TRY(spend(x, at, count_values(whole), whole->kind == NODE_STR ? whole->s.n : 0));
        result = *node_copy(x->a, whole);
    }
    result.source = n->source, result.line = n->line, result.column = n->column;
    result.quoted = false;
    *n = result;
    mark_done(x, n);
    return ST_OK;
}

static enum st resolve(struct interpolation *x, const struct node_frame *at)
{
    struct node *n = at->node;
    if (n->kind == NODE_STR)
        return strstr(n->s.p, "${") && !is_done(x, n) ? resolve_text(x, at) : ST_OK;
    if (n->kind == NODE_LIST)
        for (uint32_t i = 0; i < n->n; i++) {
            char name[16];
            snprintf(name, sizeof name, "%u", i);
            struct node_frame f = {.up = at, .node = n->items[i], .name = sv_of(name)};
            TRY(resolve(x, &f));
        }
    if (n->kind == NODE_MAP)
        for (uint32_t i = 0; i < n->n; i++) {
            struct node_frame f = {.up = at, .node = n->pairs[i].value, .name = n->pairs[i].key};
            TRY(resolve(x, &f));
        }
    return ST_OK;
}

enum st config_interpolate(struct arena *a, struct node *root, struct err *e)
{
    struct interpolation x = {.a = a, .e = e};
    map_init(&x.done, a);
    struct node_frame top = {.node = root};
    return resolve(&x, &top);
}
