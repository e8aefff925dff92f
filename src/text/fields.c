#include "text/fields.h"

#include <math.h>
#include <string.h>

/* ---- values in records --------------------------------------------------------------------- */

static const void *at(const void *record, size_t offset)
{
    return (const char *)record + offset;
}

static void *into(void *record, size_t offset)
{
    return (char *)record + offset;
}

#define LOAD(type, p) (*(type const *)(p))

static bool is_int(enum field_kind kind)
{
    return kind >= FIELD_KIND_INT32 && kind <= FIELD_KIND_UINT64;
}

static int64_t load_int(enum field_kind kind, const void *p)
{
    if (kind == FIELD_KIND_INT32)
        return LOAD(int32_t, p);
    if (kind == FIELD_KIND_UINT32)
        return LOAD(uint32_t, p);
    return LOAD(int64_t, p);
}

static void store_int(enum field_kind kind, void *p, int64_t v)
{
    if (kind == FIELD_KIND_INT64 || kind == FIELD_KIND_UINT64)
        *(int64_t *)p = v;
    else
        *(int32_t *)p = (int32_t)v;
}

static unsigned load_enum(const struct field *f, const void *p)
{
    return f->bytes == sizeof(bool) ? LOAD(bool, p) : LOAD(unsigned, p);
}

static void store_enum(const struct field *f, void *p, unsigned v)
{
    if (f->bytes == sizeof(bool))
        *(bool *)p = v;
    else
        *(unsigned *)p = v;
}

/* Unknown, an integer 0, false or empty. */
static bool is_nothing(enum field_kind kind, const void *p)
{
    if (kind == FIELD_KIND_DOUBLE)
        return !isfinite(LOAD(double, p));
    if (kind == FIELD_KIND_BOOL)
        return !LOAD(bool, p);
    if (kind == FIELD_KIND_TEXT || kind == FIELD_KIND_TREE)
        return !LOAD(void *, p);
    return is_int(kind) && load_int(kind, p) == 0;
}

static bool condition_fails(const struct field *f, const void *record)
{
    return f->if_kind && is_nothing(f->if_kind, at(record, f->if_at));
}

/* ---- writing ------------------------------------------------------------------------------- */

static struct node *doubles_node(struct arena *a, const struct doubles *d)
{
    struct node *list = node_new(a, NODE_LIST);
    for (size_t i = 0; i < d->n; i++)
        node_push(a, list, node_number(a, d->v[i]));
    return list;
}

static struct node *value_node(struct arena *a, const struct field *f, const void *p)
{
    switch (f->kind) {
    case FIELD_KIND_INT32:
    case FIELD_KIND_UINT32:
    case FIELD_KIND_INT64:
    case FIELD_KIND_UINT64: {
        int64_t v = load_int(f->kind, p);
        return v == 0 && f->zero_is_null ? node_new(a, NODE_NULL) : node_int(a, v);
    }
    case FIELD_KIND_DOUBLE:
        return node_number(a, LOAD(double, p));
    case FIELD_KIND_BOOL:
        return node_bool(a, LOAD(bool, p));
    case FIELD_KIND_TEXT:
        return node_str_or_null(a, LOAD(char *, p));
    case FIELD_KIND_TREE:
        return LOAD(struct node *, p) ? node_copy(a, LOAD(struct node *, p))
                                      : node_new(a, NODE_NULL);
    case FIELD_KIND_ENUM:
        return node_str_or_null(a, load_enum(f, p) < f->n ? f->name(load_enum(f, p)) : NULL);
    case FIELD_KIND_DOUBLES:
        return doubles_node(a, p);
    case FIELD_KIND_RECORD:
        return fields_node(a, f->of, p);
    case FIELD_KIND_MADE:
        return f->make(a, p);
    case FIELD_KIND_NONE:
        break;
    }
    ASSERT(f->kind != FIELD_KIND_NONE);
    return NULL;
}

static struct node *pair_node(struct arena *a, const struct field *f, const void *record)
{
    double low = LOAD(double, at(record, f->at)), high = LOAD(double, at(record, f->also_at));
    double ends[] = {low, high};
    return isfinite(low) ? doubles_node(a, &(struct doubles){ends, 2}) : node_new(a, NODE_NULL);
}

static struct node *elements_node(struct arena *a, const struct field *f, const void *record)
{
    bool named = f->shape == FIELD_SHAPE_NAMED;
    const char *p = at(record, f->at);
    size_t n = named ? f->n : LOAD(size_t, at(record, f->also_at));
    struct node *out = node_new(a, f->shape == FIELD_SHAPE_LIST ? NODE_LIST : NODE_MAP);
    if (!named)
        p = LOAD(char *, p);
    for (size_t i = 0; i < n; i++, p += f->bytes) {
        const char *key = named ? f->name((unsigned)i) : LOAD(char *, p);
        if (f->shape == FIELD_SHAPE_LIST)
            node_push(a, out, value_node(a, f, p));
        else if (key && !(f->omit && is_nothing(f->kind, p)))
            node_set(a, out, sv_of(key), value_node(a, f, p));
    }
    return out;
}

static bool left_out(const struct field *f, const void *record)
{
    if (!f->omit || f->shape == FIELD_SHAPE_NAMED)
        return false;
    if (f->shape == FIELD_SHAPE_ONE)
        return is_nothing(f->kind, at(record, f->at));
    return f->shape == FIELD_SHAPE_PAIR ? !isfinite(LOAD(double, at(record, f->at)))
                                        : LOAD(size_t, at(record, f->also_at)) == 0;
}

void fields_put(struct arena *a, struct node *map, const struct fields *fields, const void *record)
{
    for (size_t i = 0; i < fields->n; i++) {
        const struct field *f = &fields->rows[i];
        const bool none = condition_fails(f, record);
        if (left_out(f, record))
            continue;
        if (!f->key && !none)
            fields_put(a, map, f->of, at(record, f->at));
        else if (f->key)
            node_set(a, map, sv_of(f->key),
                     none                           ? node_new(a, NODE_NULL)
                     : f->shape == FIELD_SHAPE_ONE  ? value_node(a, f, at(record, f->at))
                     : f->shape == FIELD_SHAPE_PAIR ? pair_node(a, f, record)
                                                    : elements_node(a, f, record));
    }
}

struct node *fields_node(struct arena *a, const struct fields *f, const void *record)
{
    struct node *map = node_new(a, NODE_MAP);
    fields_put(a, map, f, record);
    return map;
}

/* ---- reading ------------------------------------------------------------------------------- */

struct field_reading {
    struct arena *a;
    struct err *e;
    bool loose;
    size_t path_n;
    char path[256]; /* of the value being read: "seeds[2].rate"; a longer one is cut */
};

static void push_path(struct field_reading *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void push_path(struct field_reading *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(r->path + r->path_n, sizeof r->path - r->path_n, fmt, ap);
    va_end(ap);
    r->path_n += (size_t)n;
    r->path_n = r->path_n < sizeof r->path ? r->path_n : sizeof r->path - 1;
}

static void pop_path(struct field_reading *r, size_t n)
{
    r->path_n = n;
    r->path[n] = 0;
}

static enum st wrong(struct field_reading *r, const struct node *n, const char *want)
{
    return node_err(n, ST_INPUT, r->e, "%s%sexpected %s, got %s", r->path, r->path_n ? ": " : "",
                    want, node_kind_name(n->kind));
}

static void clear_record(const struct fields *fields, void *record);

static void clear_value(const struct field *f, void *p)
{
    if (f->kind == FIELD_KIND_RECORD)
        clear_record(f->of, p);
    else if (f->kind == FIELD_KIND_DOUBLE)
        *(double *)p = f->otherwise != 0 ? f->otherwise : (double)NAN;
    else if (is_int(f->kind))
        store_int(f->kind, p, (int64_t)f->otherwise);
    else if (f->kind == FIELD_KIND_ENUM)
        store_enum(f, p, (unsigned)f->otherwise);
    else if (f->kind != FIELD_KIND_MADE)
        memset(p, 0, f->bytes);
}

/* To what it is where the file does not say it. */
static void clear_row(const struct field *f, void *record)
{
    char *p = into(record, f->at);
    if (f->if_kind == FIELD_KIND_BOOL)
        *(bool *)into(record, f->if_at) = false;
    if (f->shape == FIELD_SHAPE_ONE) {
        clear_value(f, p);
    } else if (f->shape == FIELD_SHAPE_NAMED) {
        for (unsigned i = 0; i < f->n; i++)
            clear_value(f, p + i * f->bytes);
    } else if (f->shape == FIELD_SHAPE_PAIR) {
        *(double *)(void *)p = *(double *)into(record, f->also_at) = (double)NAN;
    } else {
        *(void **)(void *)p = NULL;
        *(size_t *)into(record, f->also_at) = 0;
    }
}

static void clear_record(const struct fields *fields, void *record)
{
    for (size_t i = 0; i < fields->n; i++)
        clear_row(&fields->rows[i], record);
}

static enum st read_record(struct field_reading *r, const struct fields *fields,
                           const struct node *map, void *record);

static enum st read_int(struct field_reading *r, const struct field *f, const struct node *n,
                        void *p)
{
    static const double bits31 = INT32_MAX, bits32 = UINT32_MAX, bits63 = 0x1p63;
    const bool any = f->min == 0 && f->max == 0,
               is_signed = f->kind == FIELD_KIND_INT32 || f->kind == FIELD_KIND_INT64;
    const double most = f->kind == FIELD_KIND_INT32    ? bits31
                        : f->kind == FIELD_KIND_UINT32 ? bits32
                                                       : bits63;
    const double min = is_signed ? -most - (most < bits63) : 0;
    const double low = any ? min : fmax(f->min, min), high = any ? most : fmin(f->max, most);
    int64_t v;
    TRY(node_to_int(n, r->path, low <= -bits63 ? INT64_MIN : (int64_t)low,
                    high >= bits63 ? INT64_MAX : (int64_t)high, &v, r->e));
    store_int(f->kind, p, v);
    return ST_OK;
}

static enum st read_double(struct field_reading *r, const struct field *f, const struct node *n,
                           double *out)
{
    const bool any = f->min == 0 && f->max == 0;
    return node_to_double(n, r->path, any ? (double)-INFINITY : f->min,
                          any ? (double)INFINITY : f->max, out, r->e);
}

static enum st read_enum(struct field_reading *r, const struct field *f, const struct node *n,
                         void *p)
{
    const char *text;
    TRY(node_to_str(n, r->path, &text, r->e));
    struct buf names = {0};
    for (unsigned i = 0; i < f->n; i++) {
        const char *name = f->name(i);
        if (name && strcmp(name, text) == 0) {
            store_enum(f, p, i);
            buf_free(&names);
            return ST_OK;
        }
        if (name)
            buf_printf(&names, "%s%s", names.n ? ", " : "", name);
    }
    node_err(n, ST_INPUT, r->e, "%s: '%.80s' is not one of %s", r->path, text, buf_str(&names));
    buf_free(&names);
    return r->e->st;
}

static enum st read_doubles(struct field_reading *r, const struct field *f, const struct node *n,
                            struct doubles *out)
{
    if (n->kind != NODE_LIST)
        return wrong(r, n, "a list");
    *out = (struct doubles){arena_array(r->a, double, n->n), n->n};
    for (uint32_t i = 0; i < n->n; i++) {
        out->v[i] = (double)NAN;
        if (!f->nulls || n->items[i]->kind != NODE_NULL)
            TRY(read_double(r, f, n->items[i], &out->v[i]));
    }
    return ST_OK;
}

static enum st read_value(struct field_reading *r, const struct field *f, const struct node *n,
                          void *p)
{
    switch (f->kind) {
    case FIELD_KIND_INT32:
    case FIELD_KIND_UINT32:
    case FIELD_KIND_INT64:
    case FIELD_KIND_UINT64:
        return read_int(r, f, n, p);
    case FIELD_KIND_DOUBLE:
        return read_double(r, f, n, p);
    case FIELD_KIND_BOOL:
        if (n->kind != NODE_BOOL)
            return wrong(r, n, "true or false");
        *(bool *)p = n->b;
        return ST_OK;
    case FIELD_KIND_TEXT:
        return node_to_str(n, r->path, p, r->e);
    case FIELD_KIND_TREE:
        *(const struct node **)p = n;
        return ST_OK;
    case FIELD_KIND_ENUM:
        return read_enum(r, f, n, p);
    case FIELD_KIND_DOUBLES:
        return read_doubles(r, f, n, p);
    case FIELD_KIND_RECORD:
        return read_record(r, f->of, n, p);
    case FIELD_KIND_NONE:
    case FIELD_KIND_MADE:
        break;
    }
    return ST_OK;
}

static enum st read_pair(struct field_reading *r, const struct field *f, const struct node *n,
                         void *record)
{
    struct doubles d;
    TRY(read_doubles(r, f, n, &d));
    if (d.n != 2)
        return node_err(n, ST_INPUT, r->e, "%s: expected two numbers", r->path);
    *(double *)into(record, f->at) = d.v[0];
    *(double *)into(record, f->also_at) = d.v[1];
    return ST_OK;
}

/* One element; *taken says that it counts. */
static enum st read_element(struct field_reading *r, const struct field *f, const struct node *n,
                            void *p, bool *taken)
{
    clear_value(f, p);
    *taken = (f->nulls && n->kind == NODE_NULL) || read_value(r, f, n, p) == ST_OK;
    if (*taken || !r->loose)
        return *taken ? ST_OK : r->e->st;
    clear_value(f, p);
    err_clear(r->e);
    return ST_OK;
}

static enum st read_list(struct field_reading *r, const struct field *f, const struct node *n,
                         void *record)
{
    const bool keyed = f->shape == FIELD_SHAPE_KEYED;
    if (n->kind != (keyed ? NODE_MAP : NODE_LIST))
        return wrong(r, n, keyed ? "a map" : "a list");
    char *p = arena_alloc_n(r->a, n->n, f->bytes);
    size_t kept = 0, before = r->path_n;
    *(char **)into(record, f->at) = p;
    for (uint32_t i = 0; i < n->n; i++) {
        bool taken;
        if (keyed)
            push_path(r, ".%s", n->pairs[i].key.p);
        else
            push_path(r, "[%u]", i);
        TRY(read_element(r, f, keyed ? n->pairs[i].value : n->items[i], p, &taken));
        pop_path(r, before);
        if (taken && keyed)
            *(const char **)(void *)p = n->pairs[i].key.p;
        p += taken ? f->bytes : 0;
        kept += taken;
    }
    *(size_t *)into(record, f->also_at) = kept;
    return ST_OK;
}

static enum st read_named(struct field_reading *r, const struct field *f, const struct node *n,
                          void *record)
{
    if (n->kind != NODE_MAP)
        return wrong(r, n, "a map");
    for (unsigned i = 0; i < f->n; i++) {
        void *p = into(record, f->at + i * f->bytes);
        const char *name = f->name(i);
        const struct node *v = name ? node_find(n, name) : NULL;
        size_t before = r->path_n;
        bool taken;
        clear_value(f, p);
        if (!v || v->kind == NODE_NULL)
            continue;
        push_path(r, ".%s", name);
        TRY(read_element(r, f, v, p, &taken));
        pop_path(r, before);
    }
    return ST_OK;
}

static bool has_any(const struct fields *fields, const struct node *map)
{
    for (size_t i = 0; i < fields->n; i++) {
        const struct field *f = &fields->rows[i];
        if (f->key ? node_find(map, f->key) != NULL : has_any(f->of, map))
            return true;
    }
    return false;
}

static enum st read_row(struct field_reading *r, const struct field *f, const struct node *map,
                        void *record)
{
    const struct node *n = f->key ? node_find(map, f->key) : map;
    const bool may_miss = f->optional || f->omit || f->zero_is_null || f->if_kind;
    if (f->kind == FIELD_KIND_MADE)
        return ST_OK;
    if (f->key && !n && !may_miss)
        return node_err(map, ST_INPUT, r->e, "%s: missing", r->path);
    if (!n || (f->key && n->kind == NODE_NULL && may_miss) ||
        (!f->key && f->if_kind && !has_any(f->of, map))) {
        clear_row(f, record);
        return ST_OK;
    }
    if (f->if_kind == FIELD_KIND_BOOL)
        *(bool *)into(record, f->if_at) = true;
    switch (f->shape) {
    case FIELD_SHAPE_ONE:
        return read_value(r, f, n, into(record, f->at));
    case FIELD_SHAPE_PAIR:
        return read_pair(r, f, n, record);
    case FIELD_SHAPE_LIST:
    case FIELD_SHAPE_KEYED:
        return read_list(r, f, n, record);
    case FIELD_SHAPE_NAMED:
        return read_named(r, f, n, record);
    }
    return ST_OK;
}

static enum st read_record(struct field_reading *r, const struct fields *fields,
                           const struct node *map, void *record)
{
    if (map->kind != NODE_MAP)
        return wrong(r, map, "a map");
    const size_t before = r->path_n;
    for (size_t i = 0; i < fields->n; i++) {
        const struct field *f = &fields->rows[i];
        if (f->key)
            push_path(r, "%s%s", before ? "." : "", f->key);
        if (read_row(r, f, map, record) != ST_OK) {
            if (!r->loose)
                return r->e->st;
            clear_row(f, record);
            err_clear(r->e);
        }
        pop_path(r, before);
    }
    return ST_OK;
}

enum st fields_read(struct arena *a, const struct fields *f, const struct node *map, void *record,
                    struct err *e)
{
    struct field_reading r = {.a = a, .e = e};
    if (read_record(&r, f, map, record) == ST_OK)
        return ST_OK;
    return f->remedy ? err_hint(e, "%s", f->remedy) : e->st;
}

void fields_read_loose(struct arena *a, const struct fields *f, const struct node *map,
                       void *record)
{
    struct err ignored = {0};
    struct field_reading r = {.a = a, .e = &ignored, .loose = true};
    if (!map || read_record(&r, f, map, record) != ST_OK)
        clear_record(f, record);
}
