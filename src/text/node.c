#include "text/node.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"

const char *node_kind_name(enum node_kind k)
{
    static const char *const names[] = {
        [NODE_NULL] = "null",      [NODE_BOOL] = "true or false", [NODE_INT] = "an integer",
        [NODE_FLOAT] = "a number", [NODE_STR] = "a string",       [NODE_LIST] = "a list",
        [NODE_MAP] = "a map",
    };
    return names[k];
}

const char *node_scalar_text(struct arena *a, const struct node *n)
{
    char number[STR_DOUBLE_MAX];
    switch (n->kind) {
    case NODE_STR:
        return n->s.p;
    case NODE_INT:
        return arena_printf(a, "%lld", (long long)n->i);
    case NODE_FLOAT:
        str_from_double(number, n->f);
        return arena_str(a, number);
    case NODE_BOOL:
        return n->b ? "true" : "false";
    case NODE_NULL:
    case NODE_LIST:
    case NODE_MAP:
        break;
    }
    return NULL;
}

struct node *node_new(struct arena *a, enum node_kind k)
{
    struct node *n = arena_one(a, struct node);
    n->kind = k;
    if (k == NODE_STR)
        n->s = (struct sv){"", 0};
    return n;
}

struct node *node_str(struct arena *a, const char *s)
{
    struct node *n = node_new(a, NODE_STR);
    n->s = sv_of(arena_str(a, s));
    return n;
}

struct node *node_int(struct arena *a, int64_t v)
{
    struct node *n = node_new(a, NODE_INT);
    n->i = v;
    return n;
}

struct node *node_float(struct arena *a, double v)
{
    struct node *n = node_new(a, NODE_FLOAT);
    n->f = v;
    return n;
}

struct node *node_number(struct arena *a, double v)
{
    return isfinite(v) ? node_float(a, v) : node_new(a, NODE_NULL);
}

struct node *node_str_or_null(struct arena *a, const char *s)
{
    return s ? node_str(a, s) : node_new(a, NODE_NULL);
}

struct node *node_bool(struct arena *a, bool v)
{
    struct node *n = node_new(a, NODE_BOOL);
    n->b = v;
    return n;
}

static struct sv copy_text(struct arena *a, struct sv s)
{
    return (struct sv){arena_strn(a, s.p, s.n), s.n};
}

struct node *node_copy(struct arena *a, const struct node *n)
{
    struct node *c = arena_copy(a, n, sizeof *n);
    c->cap = c->n;
    if (n->kind == NODE_STR)
        c->s = copy_text(a, n->s);
    if (n->kind == NODE_LIST) {
        c->items = arena_array(a, struct node *, n->n);
        for (uint32_t i = 0; i < n->n; i++)
            c->items[i] = node_copy(a, n->items[i]);
    }
    if (n->kind == NODE_MAP) {
        c->pairs = arena_copy(a, n->pairs, n->n * sizeof *n->pairs);
        for (uint32_t i = 0; i < n->n; i++) {
            c->pairs[i].key = copy_text(a, n->pairs[i].key);
            c->pairs[i].value = node_copy(a, n->pairs[i].value);
        }
    }
    return c;
}

/* Room for one more element of `size` bytes; the old array stays behind in the arena. */
static void *grown(struct arena *a, struct node *n, void *old, size_t size)
{
    if (n->n < n->cap)
        return old;
    uint32_t cap = n->cap ? n->cap * 2 : 4;
    void *p = arena_alloc_n(a, cap, size);
    if (n->n)
        memcpy(p, old, n->n * size);
    n->cap = cap;
    return p;
}

void node_push(struct arena *a, struct node *list, struct node *item)
{
    ASSERT(list->kind == NODE_LIST);
    list->items = grown(a, list, list->items, sizeof(struct node *));
    list->items[list->n++] = item;
}

static struct node_pair *find_pair(const struct node *map, struct sv key)
{
    if (!map || map->kind != NODE_MAP)
        return NULL;
    for (uint32_t i = 0; i < map->n; i++) {
        struct sv k = map->pairs[i].key;
        if (k.n == key.n && memcmp(k.p, key.p, key.n) == 0)
            return &map->pairs[i];
    }
    return NULL;
}

struct node_pair *node_append(struct arena *a, struct node *map, struct sv key)
{
    map->pairs = grown(a, map, map->pairs, sizeof *map->pairs);
    struct node_pair *p = &map->pairs[map->n++];
    *p = (struct node_pair){.key = copy_text(a, key)};
    return p;
}

struct node *node_set(struct arena *a, struct node *map, struct sv key, struct node *value)
{
    ASSERT(map->kind == NODE_MAP);
    struct node_pair *p = find_pair(map, key);
    if (!p)
        p = node_append(a, map, key);
    p->value = value;
    p->line = value->line;
    p->column = value->column;
    return value;
}

struct node *node_put(struct arena *a, struct node *map, const char *key, struct node *value)
{
    return node_set(a, map, sv_of(key), value);
}

bool node_remove(struct node *map, struct sv key)
{
    struct node_pair *p = find_pair(map, key);
    if (!p)
        return false;
    size_t after = (size_t)(map->pairs + map->n - (p + 1));
    memmove(p, p + 1, after * sizeof *p);
    map->n--;
    return true;
}

struct node *node_find(const struct node *map, const char *key)
{
    struct node_pair *p = find_pair(map, sv_of(key));
    return p ? p->value : NULL;
}

struct node *node_path(const struct node *root, const char *dotted)
{
    for (;;) {
        size_t n = strcspn(dotted, ".");
        struct node_pair *p = find_pair(root, (struct sv){dotted, n});
        if (!p || dotted[n] == 0)
            return p ? p->value : NULL;
        root = p->value;
        dotted += n + 1;
    }
}

const struct node_pair *node_duplicate(const struct node *map)
{
    enum { FEW = 8 };
    if (map->n <= FEW) {
        for (uint32_t i = 1; i < map->n; i++) {
            const struct node_pair *first = find_pair(map, map->pairs[i].key);
            if (first != &map->pairs[i])
                return &map->pairs[i];
        }
        return NULL;
    }
    uint32_t mask = 15;
    while (mask / 2 < map->n)
        mask = mask * 2 + 1;
    uint32_t *slots = mem_alloc(((size_t)mask + 1) * sizeof *slots); /* index + 1, 0 = free */
    const struct node_pair *found = NULL;
    for (uint32_t i = 0; i < map->n && !found; i++) {
        struct sv key = map->pairs[i].key;
        uint32_t at = (uint32_t)hash_bytes(key.p, key.n) & mask;
        for (; slots[at]; at = (at + 1) & mask) {
            struct sv k = map->pairs[slots[at] - 1].key;
            if (k.n == key.n && memcmp(k.p, key.p, k.n) == 0) {
                found = &map->pairs[i];
                break;
            }
        }
        slots[at] = i + 1;
    }
    mem_free(slots);
    return found;
}

/* ---- typed members ---- */

static enum st wrong_kind(const struct node *n, const char *what, enum node_kind want,
                          struct err *e)
{
    return node_err(n, ST_INPUT, e, "%s: expected %s, got %s", what, node_kind_name(want),
                    node_kind_name(n->kind));
}

enum st node_to_int(const struct node *n, const char *what, int64_t min, int64_t max, int64_t *out,
                    struct err *e)
{
    if (n->kind != NODE_INT)
        return wrong_kind(n, what, NODE_INT, e);
    if (n->i < min)
        return node_err(n, ST_INPUT, e, "%s: %lld is below the minimum %lld", what, (long long)n->i,
                        (long long)min);
    if (n->i > max)
        return node_err(n, ST_INPUT, e, "%s: %lld is above the maximum %lld", what, (long long)n->i,
                        (long long)max);
    *out = n->i;
    return ST_OK;
}

enum st node_to_double(const struct node *n, const char *what, double min, double max, double *out,
                       struct err *e)
{
    if (n->kind != NODE_INT && n->kind != NODE_FLOAT)
        return wrong_kind(n, what, NODE_FLOAT, e);
    double v = n->kind == NODE_INT ? (double)n->i : n->f;
    if (!isfinite(v))
        return node_err(n, ST_INPUT, e, "%s: expected a finite number", what);
    if (v < min)
        return node_err(n, ST_INPUT, e, "%s: %g is below the minimum %g", what, v, min);
    if (v > max)
        return node_err(n, ST_INPUT, e, "%s: %g is above the maximum %g", what, v, max);
    *out = v;
    return ST_OK;
}

enum st node_to_str(const struct node *n, const char *what, const char **out, struct err *e)
{
    if (n->kind != NODE_STR)
        return wrong_kind(n, what, NODE_STR, e);
    if (memchr(n->s.p, 0, n->s.n))
        return node_err(n, ST_INPUT, e, "%s: a NUL character in the text", what);
    *out = n->s.p;
    return ST_OK;
}

static enum st member(const struct node *map, const char *key, struct node **out, struct err *e)
{
    if (map->kind != NODE_MAP)
        return node_err(map, ST_INPUT, e, "expected a map with the key %s, got %s", key,
                        node_kind_name(map->kind));
    *out = node_find(map, key);
    return *out ? ST_OK : node_err(map, ST_INPUT, e, "%s: missing", key);
}

enum st node_get(const struct node *map, const char *key, enum node_kind kind, struct node **out,
                 struct err *e)
{
    struct node *n;
    TRY(member(map, key, &n, e));
    if (n->kind != kind)
        return wrong_kind(n, key, kind, e);
    *out = n;
    return ST_OK;
}

enum st node_get_int(const struct node *map, const char *key, int64_t min, int64_t max,
                     int64_t *out, struct err *e)
{
    struct node *n;
    TRY(member(map, key, &n, e));
    return node_to_int(n, key, min, max, out, e);
}

enum st node_get_double(const struct node *map, const char *key, double min, double max,
                        double *out, struct err *e)
{
    struct node *n = NULL;
    TRY(member(map, key, &n, e));
    return node_to_double(n, key, min, max, out, e);
}

enum st node_get_bool(const struct node *map, const char *key, bool *out, struct err *e)
{
    struct node *n = NULL;
    TRY(node_get(map, key, NODE_BOOL, &n, e));
    *out = n->b;
    return ST_OK;
}

enum st node_get_str(const struct node *map, const char *key, const char **out, struct err *e)
{
    struct node *n = NULL;
    TRY(member(map, key, &n, e));
    return node_to_str(n, key, out, e);
}

enum st node_check_version(const struct node *doc, const char *key, int newest, struct err *e)
{
    const struct node *version = node_find(doc, key);
    if (!version || version->kind != NODE_INT || version->i <= newest)
        return ST_OK;
    node_err(version, ST_INPUT, e, "%s: %lld is newer than %d, the newest this program knows", key,
             (long long)version->i, newest);
    return err_hint(e, "use a newer twinfer");
}

enum st node_err(const struct node *n, enum st st, struct err *e, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!n->source)
        return err_set(e, st, "%s", text);
    return err_at(e, st, n->source, (long)n->line, (long)n->column, "%s", text);
}
