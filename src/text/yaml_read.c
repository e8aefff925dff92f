#include <string.h>
#include <yaml.h>

#include "base/fs.h"
#include "base/map.h"
#include "base/vec.h"
#include "text/yaml.h"
#include "text/yaml_scalar.h"

#define CORE_TAG "tag:yaml.org,2002:"

struct yaml_loader {
    struct arena *a;
    const char *source;
    struct sv text;
    yaml_parser_t parser;
    struct map anchors; /* name -> struct node *, complete nodes only */
    uint32_t nodes, depth;
    size_t repeated; /* bytes of texts that aliases stand for */
};

static enum st at_mark(struct yaml_loader *l, yaml_mark_t mark, struct err *e, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

static enum st at_mark(struct yaml_loader *l, yaml_mark_t mark, struct err *e, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_at(e, ST_INPUT, l->source, (long)mark.line + 1, (long)mark.column + 1, "%s", text);
}

/* The place of byte `at`: columns count characters, as libyaml's do. */
static yaml_mark_t mark_of(struct sv text, size_t at)
{
    yaml_mark_t m = {0};
    for (size_t i = 0; i < at; i++) {
        bool newline = text.p[i] == '\n';
        m.line += newline;
        m.column = newline ? 0 : m.column + ((text.p[i] & 0xc0) != 0x80);
    }
    return m;
}

static enum st next_event(struct yaml_loader *l, yaml_event_t *ev, struct err *e)
{
    if (yaml_parser_parse(&l->parser, ev))
        return ST_OK;
    const yaml_parser_t *p = &l->parser;
    if (p->error == YAML_READER_ERROR)
        return at_mark(l, mark_of(l->text, p->problem_offset), e, "%s", p->problem);
    yaml_mark_t mark = p->problem_mark, last = mark_of(l->text, l->text.n);
    if (mark.line > last.line) /* libyaml begins a line of its own at the end of the text */
        mark = last;
    if (p->context)
        return at_mark(l, mark, e, "%s %s", p->problem, p->context);
    return at_mark(l, mark, e, "%s", p->problem ? p->problem : "out of memory");
}

static enum st count_node(struct yaml_loader *l, yaml_mark_t mark, struct err *e)
{
    if (l->nodes++ < YAML_MAX_NODES)
        return ST_OK;
    return at_mark(l, mark, e, "more than %d values once anchors are expanded", YAML_MAX_NODES);
}

/* Enters a container; the caller leaves it with l->depth--. */
static enum st enter(struct yaml_loader *l, yaml_mark_t mark, struct err *e)
{
    if (l->depth == YAML_MAX_DEPTH)
        return at_mark(l, mark, e, "nested deeper than %d levels", YAML_MAX_DEPTH);
    l->depth++;
    return ST_OK;
}

static enum st new_node(struct yaml_loader *l, enum node_kind kind, yaml_mark_t mark,
                        struct node **out, struct err *e)
{
    TRY(count_node(l, mark, e));
    struct node *n = node_new(l->a, kind);
    n->source = l->source;
    n->line = (uint32_t)mark.line + 1;
    n->column = (uint32_t)mark.column + 1;
    *out = n;
    return ST_OK;
}

static void remember(struct yaml_loader *l, const yaml_char_t *anchor, struct node *n)
{
    if (anchor)
        map_put(&l->anchors, (const char *)anchor, strlen((const char *)anchor), NULL)->p = n;
}

static enum st repeat(struct yaml_loader *l, size_t bytes, yaml_mark_t mark, struct err *e)
{
    l->repeated += bytes;
    if (l->repeated <= YAML_MAX_BYTES)
        return ST_OK;
    return at_mark(l, mark, e, "more than %d bytes of text once anchors are expanded",
                   YAML_MAX_BYTES);
}

/* A copy for an alias. Texts are shared: they never change. */
static enum st expand(struct yaml_loader *l, const struct node *n, yaml_mark_t mark,
                      struct node **out, struct err *e)
{
    TRY(count_node(l, mark, e));
    struct node *c = arena_copy(l->a, n, sizeof *n);
    c->cap = c->n;
    *out = c;
    if (n->kind == NODE_STR)
        TRY(repeat(l, n->s.n, mark, e));
    if (n->kind != NODE_LIST && n->kind != NODE_MAP)
        return ST_OK;
    TRY(enter(l, mark, e));
    if (n->kind == NODE_LIST) {
        c->items = arena_array(l->a, struct node *, n->n);
        for (uint32_t i = 0; i < n->n; i++)
            TRY(expand(l, n->items[i], mark, &c->items[i], e));
    } else {
        c->pairs = arena_copy(l->a, n->pairs, n->n * sizeof *n->pairs);
        for (uint32_t i = 0; i < n->n; i++) {
            TRY(repeat(l, n->pairs[i].key.n, mark, e));
            TRY(expand(l, n->pairs[i].value, mark, &c->pairs[i].value, e));
        }
    }
    l->depth--;
    return ST_OK;
}

static enum st alias(struct yaml_loader *l, const yaml_event_t *ev, struct node **out,
                     struct err *e)
{
    const char *name = (const char *)ev->data.alias.anchor;
    const struct map_entry *found = map_find(&l->anchors, name, strlen(name));
    if (!found)
        return at_mark(l, ev->start_mark, e, "the alias *%.100s has no anchor before it", name);
    return expand(l, found->p, ev->start_mark, out, e);
}

/* The last part of a core tag ("int"), NULL for no tag, or an error for another tag. */
static enum st core_tag(struct yaml_loader *l, const yaml_char_t *tag, yaml_mark_t mark,
                        const char **out, struct err *e)
{
    const char *t = (const char *)tag;
    *out = NULL;
    if (!t)
        return ST_OK;
    if (strcmp(t, "!") == 0) {
        *out = "str";
        return ST_OK;
    }
    static const char *const known[] = {"str", "int", "float", "bool", "null", "seq", "map"};
    if (strncmp(t, CORE_TAG, strlen(CORE_TAG)) == 0)
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strcmp(t + strlen(CORE_TAG), known[i]) == 0)
                *out = known[i];
    return *out ? ST_OK : at_mark(l, mark, e, "the tag %.100s is not supported", t);
}

static enum st scalar(struct yaml_loader *l, const yaml_event_t *ev, struct node **out,
                      struct err *e)
{
    static const struct {
        const char *tag;
        enum node_kind kind;
    } kinds[] = {
        {"int", NODE_INT}, {"float", NODE_FLOAT}, {"bool", NODE_BOOL}, {"null", NODE_NULL}};
    struct node *n;
    const char *tag;
    TRY(new_node(l, NODE_STR, ev->start_mark, &n, e));
    TRY(core_tag(l, ev->data.scalar.tag, ev->start_mark, &tag, e));
    struct sv text = {(const char *)ev->data.scalar.value, ev->data.scalar.length};
    bool plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if ((plain && !tag) || (tag && strcmp(tag, "str") != 0)) {
        const char *fault = yaml_type_scalar(text, n);
        if (fault)
            return at_mark(l, ev->start_mark, e, "%s", fault);
    }
    for (size_t i = 0; tag && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(tag, kinds[i].tag) == 0) {
            if (kinds[i].kind == NODE_FLOAT && n->kind == NODE_INT) {
                n->kind = NODE_FLOAT;
                n->f = (double)n->i;
            }
            if (n->kind != kinds[i].kind)
                return at_mark(l, ev->start_mark, e, "'%.60s' is not of the type !!%s", text.p,
                               tag);
        }
    if (tag && (strcmp(tag, "seq") == 0 || strcmp(tag, "map") == 0))
        return at_mark(l, ev->start_mark, e, "'%.60s' is not of the type !!%s", text.p, tag);
    if (n->kind == NODE_STR) {
        n->s = (struct sv){arena_strn(l->a, text.p, text.n), text.n};
        n->quoted = !plain || tag;
    }
    remember(l, ev->data.scalar.anchor, n);
    *out = n;
    return ST_OK;
}

static enum st value(struct yaml_loader *l, yaml_event_t *ev, struct node **out, struct err *e);

static enum st sequence(struct yaml_loader *l, const yaml_event_t *ev, struct node **out,
                        struct err *e)
{
    struct node *n;
    const char *tag;
    TRY(enter(l, ev->start_mark, e));
    TRY(new_node(l, NODE_LIST, ev->start_mark, &n, e));
    TRY(core_tag(l, ev->data.sequence_start.tag, ev->start_mark, &tag, e));
    if (tag && strcmp(tag, "seq") != 0)
        return at_mark(l, ev->start_mark, e, "a list is not of the type !!%s", tag);
    for (;;) {
        yaml_event_t item;
        struct node *v;
        TRY(next_event(l, &item, e));
        if (item.type == YAML_SEQUENCE_END_EVENT) {
            yaml_event_delete(&item);
            break;
        }
        TRY(value(l, &item, &v, e));
        node_push(l->a, n, v);
    }
    l->depth--;
    remember(l, ev->data.sequence_start.anchor, n);
    *out = n;
    return ST_OK;
}

static void add_pair(struct arena *a, struct node *map, struct node_pair p)
{
    if (map->n == map->cap) {
        map->cap = map->cap ? map->cap * 2 : 4;
        struct node_pair *bigger = arena_array(a, struct node_pair, map->cap);
        if (map->n)
            memcpy(bigger, map->pairs, map->n * sizeof *bigger);
        map->pairs = bigger;
    }
    map->pairs[map->n++] = p;
}

/* The pairs of `from` whose keys the map has not; `seen` holds the map's keys. */
static void merge_map(struct yaml_loader *l, struct node *map, struct map *seen,
                      const struct node *from)
{
    for (uint32_t i = 0; i < from->n; i++) {
        bool is_new;
        map_put(seen, from->pairs[i].key.p, from->pairs[i].key.n, &is_new);
        if (is_new)
            add_pair(l->a, map, from->pairs[i]);
    }
}

static enum st merge(struct yaml_loader *l, struct node *map, const struct node *from,
                     struct err *e)
{
    bool ok = from->kind == NODE_MAP || from->kind == NODE_LIST;
    for (uint32_t i = 0; from->kind == NODE_LIST && i < from->n; i++)
        ok = ok && from->items[i]->kind == NODE_MAP;
    if (!ok)
        return node_err(from, ST_INPUT, e, "a merge key << wants a map or a list of maps");
    struct arena *scratch = arena_new();
    struct map seen;
    map_init(&seen, scratch);
    for (uint32_t i = 0; i < map->n; i++)
        map_put(&seen, map->pairs[i].key.p, map->pairs[i].key.n, NULL);
    if (from->kind == NODE_MAP)
        merge_map(l, map, &seen, from);
    for (uint32_t i = 0; from->kind == NODE_LIST && i < from->n; i++)
        merge_map(l, map, &seen, from->items[i]);
    arena_free(&scratch);
    return ST_OK;
}

static enum st key_text(struct yaml_loader *l, yaml_event_t *ev, struct node_pair *p,
                        bool *is_merge, struct err *e)
{
    p->line = (uint32_t)ev->start_mark.line + 1;
    p->column = (uint32_t)ev->start_mark.column + 1;
    if (ev->type == YAML_ALIAS_EVENT)
        return at_mark(l, ev->start_mark, e, "an alias cannot be a key");
    if (ev->type != YAML_SCALAR_EVENT)
        return at_mark(l, ev->start_mark, e, "a key must be a scalar");
    struct node *n; /* checks the tag and serves the anchor */
    TRY(scalar(l, ev, &n, e));
    struct sv text = {(const char *)ev->data.scalar.value, ev->data.scalar.length};
    p->key = (struct sv){arena_strn(l->a, text.p, text.n), text.n};
    *is_merge = n->kind == NODE_STR && !n->quoted && sv_eq(text, "<<");
    return ST_OK;
}

static enum st mapping(struct yaml_loader *l, const yaml_event_t *ev, struct node **out,
                       struct err *e)
{
    struct node *n, *merged = NULL;
    const char *tag;
    TRY(enter(l, ev->start_mark, e));
    TRY(new_node(l, NODE_MAP, ev->start_mark, &n, e));
    TRY(core_tag(l, ev->data.mapping_start.tag, ev->start_mark, &tag, e));
    if (tag && strcmp(tag, "map") != 0)
        return at_mark(l, ev->start_mark, e, "a map is not of the type !!%s", tag);
    for (;;) {
        yaml_event_t item;
        struct node_pair p = {0};
        bool is_merge = false;
        TRY(next_event(l, &item, e));
        bool end = item.type == YAML_MAPPING_END_EVENT;
        enum st st = end ? ST_OK : key_text(l, &item, &p, &is_merge, e);
        yaml_event_delete(&item);
        TRY(st);
        if (end)
            break;
        TRY(next_event(l, &item, e));
        TRY(value(l, &item, &p.value, e));
        if (!is_merge)
            add_pair(l->a, n, p);
        else if (merged)
            return err_at(e, ST_INPUT, l->source, (long)p.line, (long)p.column,
                          "the key '<<' appears twice in one map");
        else
            merged = p.value;
    }
    const struct node_pair *twice = node_duplicate(n);
    if (twice)
        return err_at(e, ST_INPUT, l->source, (long)twice->line, (long)twice->column,
                      "the key '%.100s' appears twice in one map", twice->key.p);
    if (merged)
        TRY(merge(l, n, merged, e));
    l->depth--;
    remember(l, ev->data.mapping_start.anchor, n);
    *out = n;
    return ST_OK;
}

/* Consumes the event. */
static enum st value(struct yaml_loader *l, yaml_event_t *ev, struct node **out, struct err *e)
{
    enum st st;
    if (ev->type == YAML_SEQUENCE_START_EVENT)
        st = sequence(l, ev, out, e);
    else if (ev->type == YAML_MAPPING_START_EVENT)
        st = mapping(l, ev, out, e);
    else if (ev->type == YAML_ALIAS_EVENT)
        st = alias(l, ev, out, e);
    else
        st = scalar(l, ev, out, e);
    yaml_event_delete(ev);
    return st;
}

static enum st skip_event(struct yaml_loader *l, yaml_event_type_t *type, yaml_mark_t *mark,
                          struct err *e)
{
    yaml_event_t ev;
    TRY(next_event(l, &ev, e));
    *type = ev.type;
    *mark = ev.start_mark;
    yaml_event_delete(&ev);
    return ST_OK;
}

static enum st document(struct yaml_loader *l, struct node **out, struct err *e)
{
    yaml_event_type_t type;
    yaml_mark_t mark;
    TRY(skip_event(l, &type, &mark, e)); /* stream start */
    TRY(skip_event(l, &type, &mark, e));
    if (type == YAML_STREAM_END_EVENT)
        return new_node(l, NODE_MAP, (yaml_mark_t){0}, out, e);
    yaml_event_t ev;
    TRY(next_event(l, &ev, e));
    TRY(value(l, &ev, out, e));
    TRY(skip_event(l, &type, &mark, e)); /* document end */
    TRY(skip_event(l, &type, &mark, e));
    if (type != YAML_STREAM_END_EVENT)
        return at_mark(l, mark, e, "a second document begins here; one a file is supported");
    return ST_OK;
}

static enum st check_utf8(const char *source, struct sv text, struct err *e)
{
    size_t valid = str_utf8_valid(text.p, text.n);
    if (valid == text.n)
        return ST_OK;
    yaml_mark_t m = mark_of(text, valid);
    return err_at(e, ST_INPUT, source, (long)m.line + 1, (long)m.column + 1,
                  "bytes that are not UTF-8");
}

enum st yaml_parse(struct arena *a, const char *source, struct sv text, struct node **out,
                   struct err *e)
{
    if (text.n > YAML_MAX_BYTES)
        return err_set(e, ST_INPUT, "%s has %zu bytes; the limit for this kind of file is %d",
                       source, text.n, YAML_MAX_BYTES);
    TRY(check_utf8(source, text, e));
    if (text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0) /* libyaml would count it */
        text = (struct sv){text.p + 3, text.n - 3};
    struct yaml_loader l = {.a = a, .source = arena_str(a, source), .text = text};
    struct arena *scratch = arena_new();
    map_init(&l.anchors, scratch);
    ASSERT(yaml_parser_initialize(&l.parser));
    yaml_parser_set_encoding(&l.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&l.parser, (const unsigned char *)(text.n ? text.p : ""), text.n);
    enum st st = document(&l, out, e);
    yaml_parser_delete(&l.parser);
    arena_free(&scratch);
    return st;
}

enum st yaml_load(struct arena *a, const char *path, struct node **out, struct err *e)
{
    struct arena *bytes = arena_new();
    struct sv text;
    enum st st = fs_read(bytes, path, YAML_MAX_BYTES, &text, e);
    if (st == ST_OK)
        st = yaml_parse(a, path, text, out, e);
    arena_free(&bytes);
    return st;
}
