#include "config/compose.h"

#include <string.h>

#include "base/map.h"
#include "config/option.h"

struct merge {
    struct arena *a;
    const struct compose_args *args;
    struct composed *out;
    uint32_t bit; /* of the command */
    enum layer layer;
    const char *what;
    bool unasked;
    struct err *e;
};

static const char *below(struct arena *a, const char *key, struct sv name)
{
    return *key ? arena_printf(a, "%s.%.*s", key, (int)name.n, name.p)
                : arena_strn(a, name.p, name.n);
}

static void record(struct merge *m, const char *key, const struct node *value)
{
    struct layer_set *s = arena_one(m->a, struct layer_set);
    *s = (struct layer_set){.older = m->out->sets,
                            .key = key,
                            .value = value ? node_copy(m->a, value) : NULL,
                            .layer = m->layer,
                            .what = m->what,
                            .unasked = m->unasked};
    m->out->sets = s;
}

static struct node_pair *pair_of(const struct node *map, struct sv key)
{
    for (uint32_t i = 0; i < map->n; i++)
        if (map->pairs[i].key.n == key.n && memcmp(map->pairs[i].key.p, key.p, key.n) == 0)
            return &map->pairs[i];
    return NULL;
}

/* The map at a dotted key, made where it is missing. */
static enum st section(struct merge *m, const char *key, struct node **out)
{
    struct node *at = m->out->root;
    for (const char *p = key; *p;) {
        size_t n = strcspn(p, ".");
        struct node_pair *pair = pair_of(at, (struct sv){p, n});
        struct node *next = pair ? pair->value : NULL;
        if (!next || next->kind == NODE_NULL) {
            next = node_new(m->a, NODE_MAP);
            node_set(m->a, at, (struct sv){p, n}, next);
        } else if (next->kind != NODE_MAP) {
            return node_err(next, ST_USAGE, m->e, "%.*s: expected a map of keys, got %s",
                            (int)(p + n - key), key, node_kind_name(next->kind));
        }
        at = next;
        p += n + (p[n] == '.');
    }
    *out = at;
    return ST_OK;
}

/* ---- files ------------------------------------------------------------------------------- */

/* The keys that a map has, for many look-ups: map->pairs[i] by its key. */
static void index_keys(struct map *index, struct arena *a, const struct node *map)
{
    map_init(index, a);
    for (uint32_t i = 0; i < map->n; i++)
        map_put(index, map->pairs[i].key.p, map->pairs[i].key.n, NULL)->i = i;
}

/* The keys of src are unique: what it adds to dst is not looked for again. */
static enum st merge_map(struct merge *m, struct node *dst, const struct node *src, const char *key)
{
    struct map index;
    index_keys(&index, m->a, dst);
    for (uint32_t i = 0; i < src->n; i++) {
        const struct node_pair *from = &src->pairs[i];
        const char *name = below(m->a, key, from->key);
        bool free_form = option_map_of(name) != NULL;
        if (!free_form && memchr(from->key.p, '.', from->key.n)) {
            err_at(m->e, ST_USAGE, from->value->source, from->line, from->column,
                   "'%.*s': keys in files are nested, not dotted", (int)from->key.n, from->key.p);
            return err_hint(m->e, "write a: {b: value} for a.b");
        }
        const struct map_entry *had = map_find(&index, from->key.p, from->key.n);
        struct node_pair *to = had ? &dst->pairs[had->i] : node_append(m->a, dst, from->key);
        if (from->value->kind == NODE_MAP) {
            struct node *map = to->value;
            if (!map || map->kind != NODE_MAP) {
                to->value = map = node_new(m->a, NODE_MAP);
                map->source = from->value->source;
                map->line = from->value->line, map->column = from->value->column;
                if (from->value->n == 0)
                    record(m, name, map);
            }
            TRY(merge_map(m, map, from->value, name));
        } else {
            to->value = node_copy(m->a, from->value);
            record(m, name, from->value);
        }
        to->line = from->line, to->column = from->column;
    }
    return ST_OK;
}

static enum st merge_file(struct merge *m, const struct defaults_file *f)
{
    m->layer = LAYER_FILE;
    m->what = f->path;
    m->unasked = f->file->unasked;
    struct node *at;
    TRY(section(m, f->package, &at));
    TRY(merge_map(m, at, f->file->tree, f->package));
    const char *before = m->out->unasked;
    if (m->unasked)
        m->out->unasked =
            before ? arena_printf(m->a, "%s, %s", before, f->file->name) : f->file->name;
    m->unasked = false;
    return ST_OK;
}

/* ---- the option table -------------------------------------------------------------------- */

static struct node *default_node(struct merge *m, const struct option *o)
{
    const char *def = option_default(o, m->bit);
    bool text = o->type == OPT_STR || o->type == OPT_ENUM || o->type == OPT_LIST;
    struct node *n = text ? node_str(m->a, def) : override_scalar(m->a, sv_of(def));
    n->source = "default";
    return n;
}

static enum st put_default(struct merge *m, const struct option *o)
{
    const char *dot = strrchr(o->key, '.');
    struct node *at;
    TRY(section(m, dot ? arena_strn(m->a, o->key, (size_t)(dot - o->key)) : "", &at));
    node_set(m->a, at, sv_of(dot ? dot + 1 : o->key), default_node(m, o));
    return ST_OK;
}

static enum st merge_defaults(struct merge *m)
{
    m->layer = LAYER_DEFAULT;
    m->what = "default";
    for (struct option_iter i = {0}; option_next(&i);) {
        if (!option_default(i.o, m->bit) || !(i.o->commands & m->bit))
            continue;
        TRY(put_default(m, i.o));
        record(m, i.o->key, node_path(m->out->root, i.o->key));
    }
    return ST_OK;
}

/* ---- the command line -------------------------------------------------------------------- */

static enum st refuse(struct merge *m, const char *key, const char *why)
{
    return err_set(m->e, ST_USAGE, "%s: %s: %s", override_source, key, why);
}

/* The group with a name close to a bare word, or NULL. */
static const char *group_meant(struct merge *m, const char *word)
{
    enum { NEAR = 2 };
    int best = NEAR + 1;
    const char *meant = NULL;
    for (struct option_iter i = {0}; option_next(&i);) {
        const char *group = arena_strn(m->a, i.o->key, strcspn(i.o->key, "."));
        int d = str_distance(word, group);
        if (d < best && sources_has_group(m->args->sources, group))
            best = d, meant = group;
    }
    return meant;
}

static enum st unknown_key(struct merge *m, const char *key)
{
    err_set(m->e, ST_USAGE, "%s: unknown key '%s'", override_source, key);
    const char *group = group_meant(m, key);
    if (group)
        return err_hint(m->e, "did you mean the group %s?", group);
    option_hint(key, m->bit, m->e);
    return m->e->st;
}

static enum st check_command(struct merge *m, const struct option *row, const char *key)
{
    if (row->commands & m->bit)
        return ST_OK;
    err_set(m->e, ST_USAGE, "%s: %s does not use %s", override_source,
            command_name(m->args->command), key);
    struct buf names = {0};
    command_names(&names, row->commands);
    err_hint(m->e, "it is a key of: %s", buf_str(&names));
    buf_free(&names);
    return m->e->st;
}

static enum st put(struct merge *m, const char *key, struct node *value)
{
    const char *dot = strrchr(key, '.');
    struct node *at;
    TRY(section(m, dot ? arena_strn(m->a, key, (size_t)(dot - key)) : "", &at));
    node_set(m->a, at, sv_of(dot ? dot + 1 : key), value);
    record(m, key, value);
    return ST_OK;
}

static enum st put_any(struct merge *m, const struct override *o, const char *key,
                       const struct option *row, struct node *value);

/* {a: 1, b: 2} on the command line merges into a section or a free-form map. */
static enum st put_map(struct merge *m, const struct override *o, const char *key,
                       const struct node *map)
{
    if (map->n == 0 && option_find(key) && !node_path(m->out->root, key))
        return put(m, key, node_copy(m->a, map));
    for (uint32_t i = 0; i < map->n; i++)
        TRY(put_any(m, o, below(m->a, key, map->pairs[i].key), NULL, map->pairs[i].value));
    return ST_OK;
}

static enum st put_free(struct merge *m, const struct override *o, const char *key,
                        struct node *value)
{
    const struct node *old = node_path(m->out->root, key);
    if (value->kind == NODE_MAP && (!old || old->kind == NODE_MAP) && value->n)
        return put_map(m, o, key, value);
    if (o->kind == OVERRIDE_SET && !old) {
        refuse(m, key, "there is no such key to set");
        return err_hint(m->e, "+%s=... adds it", key);
    }
    if (o->kind == OVERRIDE_ADD && old) {
        refuse(m, key, "the key is there already");
        return err_hint(m->e, "%s=... sets it, ++%s=... does either", key, key);
    }
    return put(m, key, value);
}

static enum st not_a_value(struct merge *m, const char *section_key)
{
    refuse(m, section_key, "is a section, not a value");
    struct buf keys = {0};
    for (struct option_iter i = {0}; option_next(&i);)
        if (option_is_below(i.o->key, section_key) && (i.o->commands & m->bit))
            buf_printf(&keys, "%s%s", keys.n ? ", " : "", i.o->key);
    if (keys.n)
        err_hint(m->e, "its keys are %s", keys.p);
    buf_free(&keys);
    return m->e->st;
}

static enum st put_any(struct merge *m, const struct override *o, const char *key,
                       const struct option *row, struct node *value)
{
    row = row ? row : option_find(key);
    const struct option *map = option_map_of(key);
    if (row || map)
        TRY(check_command(m, row ? row : map, key));
    if (map)
        return put_free(m, o, key, value);
    if (row && row->type == OPT_MAP && value->kind == NODE_MAP)
        return put_map(m, o, key, value);
    if (row && o->kind == OVERRIDE_ADD) {
        refuse(m, key, "the key exists, + adds only to free-form maps");
        return err_hint(m->e, "write %s", o->typed + 1);
    }
    if (row)
        return put(m, key, value);
    if (!option_is_section(key))
        return unknown_key(m, key);
    if (value->kind != NODE_MAP)
        return not_a_value(m, key);
    return put_map(m, o, key, value);
}

static bool same_value(const struct node *n, struct sv text)
{
    if (n->kind == NODE_STR)
        return n->s.n == text.n && memcmp(n->s.p, text.p, text.n) == 0;
    struct arena *a = arena_new();
    const struct node *other = override_scalar(a, text);
    bool same = other->kind == n->kind &&
                ((n->kind == NODE_INT && n->i == other->i) || n->kind == NODE_NULL ||
                 (n->kind == NODE_FLOAT && n->f <= other->f && n->f >= other->f) ||
                 (n->kind == NODE_BOOL && n->b == other->b));
    arena_free(&a);
    return same;
}

static enum st remove_key(struct merge *m, const struct override *o)
{
    const struct option *row = option_find(o->key), *map = option_map_of(o->key);
    if (!row && !map && !option_is_section(o->key))
        return unknown_key(m, o->key);
    if (row || map)
        TRY(check_command(m, row ? row : map, o->key));
    const struct node *old = node_path(m->out->root, o->key);
    if (!old)
        return refuse(m, o->typed, "the key is not set");
    if (o->has_value && !same_value(old, o->text))
        return refuse(m, o->typed, "the key has another value");
    record(m, o->key, NULL);
    if (row && option_default(row, m->bit))
        return put_default(m, row);
    const char *dot = strrchr(o->key, '.');
    struct node *parent = m->out->root;
    if (dot)
        TRY(section(m, arena_strn(m->a, o->key, (size_t)(dot - o->key)), &parent));
    node_remove(parent, sv_of(dot ? dot + 1 : o->key));
    for (struct option_iter i = {0}; option_next(&i);)
        if (option_is_below(i.o->key, o->key) && option_default(i.o, m->bit) &&
            (i.o->commands & m->bit))
            TRY(put_default(m, i.o));
    return ST_OK;
}

static enum st apply(struct merge *m, const struct override *o)
{
    m->layer = LAYER_COMMAND_LINE;
    m->what = o->typed;
    if (o->package)
        return refuse(m, o->typed, "only groups take an @package");
    if (strchr(o->key, '/'))
        return err_set(m->e, ST_USAGE, "%s: %s: there is no group '%s'", override_source, o->typed,
                       o->key);
    if (o->kind == OVERRIDE_REMOVE)
        return remove_key(m, o);
    const struct option *row = option_find(o->key);
    if (!row && !option_map_of(o->key) && !option_is_section(o->key))
        return unknown_key(m, o->key);
    enum value_style style = VALUE_TYPED;
    if (row && row->type == OPT_LIST)
        style = VALUE_LIST;
    else if (row && (row->type == OPT_STR || row->type == OPT_ENUM))
        style = VALUE_TEXT;
    struct node *value;
    TRY(override_value(m->a, o, style, &value, m->e));
    return put_any(m, o, o->key, row, value);
}

enum st compose(struct arena *a, const struct compose_args *args, struct composed *out,
                struct err *e)
{
    *out = (struct composed){.root = node_new(a, NODE_MAP)};
    struct merge m = {.a = a, .args = args, .out = out, .bit = command_bit(args->command), .e = e};
    struct defaults files;
    TRY(defaults_expand(a, args, &files, e));
    out->dir = files.dir;
    out->stand_in = files.stand_in;
    TRY(merge_defaults(&m));
    for (size_t i = 0; i < files.n; i++)
        TRY(merge_file(&m, &files.files[i]));
    for (size_t i = 0; i < args->n_overrides; i++)
        if (!defaults_is_group(args->sources, &args->overrides[i]))
            TRY(apply(&m, &args->overrides[i]));
    return ST_OK;
}
