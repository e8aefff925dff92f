#include <string.h>

#include "base/fs.h"
#include "base/vec.h"
#include "text/json.h"

/* Children of the open containers wait on two stacks and move to the arena, in one piece of the
 * right size, when their container closes. */
struct tree_builder {
    struct arena *a;
    struct json_reader *r;
    const char *source;
    VEC(struct node *) open;
    VEC(struct node *) items;    /* of open lists */
    VEC(struct node_pair) pairs; /* of open maps; the last value may be missing */
    VEC(size_t) first;           /* per open container: its first item or pair */
    struct node *root;
    size_t values, max_values;
};

static struct node *make(struct tree_builder *b, enum node_kind kind)
{
    struct node *n = node_new(b->a, kind);
    n->source = b->source;
    json_place(b->r, &n->line, &n->column);
    b->values++;
    return n;
}

static struct sv keep_text(struct tree_builder *b)
{
    struct sv s = json_text(b->r);
    return (struct sv){arena_strn(b->a, s.p, s.n), s.n};
}

static void attach(struct tree_builder *b, struct node *n)
{
    if (b->open.n == 0)
        b->root = n;
    else if (vec_last(&b->open)->kind == NODE_LIST)
        vec_push(&b->items, n);
    else
        vec_last(&b->pairs).value = n;
}

static void open_node(struct tree_builder *b, enum node_kind kind)
{
    struct node *n = make(b, kind);
    attach(b, n);
    vec_push(&b->open, n);
    vec_push(&b->first, kind == NODE_LIST ? b->items.n : b->pairs.n);
}

static void close_list(struct tree_builder *b)
{
    struct node *n = vec_pop(&b->open);
    size_t first = vec_pop(&b->first);
    n->n = n->cap = (uint32_t)(b->items.n - first);
    if (n->n)
        n->items = arena_copy(b->a, b->items.p + first, n->n * sizeof *n->items);
    b->items.n = first;
}

static enum st close_map(struct tree_builder *b, struct err *e)
{
    struct node *n = vec_pop(&b->open);
    size_t first = vec_pop(&b->first);
    n->n = n->cap = (uint32_t)(b->pairs.n - first);
    if (n->n)
        n->pairs = arena_copy(b->a, b->pairs.p + first, n->n * sizeof *n->pairs);
    b->pairs.n = first;
    const struct node_pair *twice = node_duplicate(n);
    if (twice)
        return err_at(e, ST_INPUT, b->source, (long)twice->line, (long)twice->column,
                      "the key '%.100s' appears twice in one map", twice->key.p);
    return ST_OK;
}

static void key(struct tree_builder *b)
{
    struct node_pair p = {.key = keep_text(b)};
    json_place(b->r, &p.line, &p.column);
    vec_push(&b->pairs, p);
}

static enum st build(struct tree_builder *b, struct err *e)
{
    while (b->values <= b->max_values) {
        struct node *n;
        switch (json_next(b->r, e)) {
        case JSON_END:
            return ST_OK;
        case JSON_MORE:
            json_finish(b->r);
            break;
        case JSON_NULL:
            attach(b, make(b, NODE_NULL));
            break;
        case JSON_TRUE:
            n = make(b, NODE_BOOL);
            n->b = true;
            attach(b, n);
            break;
        case JSON_FALSE:
            attach(b, make(b, NODE_BOOL));
            break;
        case JSON_INT:
            n = make(b, NODE_INT);
            n->i = json_int(b->r);
            attach(b, n);
            break;
        case JSON_FLOAT:
            n = make(b, NODE_FLOAT);
            n->f = json_double(b->r);
            attach(b, n);
            break;
        case JSON_STRING:
            n = make(b, NODE_STR);
            n->s = keep_text(b);
            n->quoted = true;
            attach(b, n);
            break;
        case JSON_KEY:
            key(b);
            break;
        case JSON_LIST_BEGIN:
            open_node(b, NODE_LIST);
            break;
        case JSON_MAP_BEGIN:
            open_node(b, NODE_MAP);
            break;
        case JSON_LIST_END:
            close_list(b);
            break;
        case JSON_MAP_END:
            TRY(close_map(b, e));
            break;
        case JSON_ERROR:
            return e->st;
        }
    }
    return err_set(e, ST_INPUT, "%s has more than %zu values; the limit for this kind of file",
                   b->source, b->max_values);
}

static size_t byte_limit(const struct json_limits *limits)
{
    enum { MAX_BYTES = 64 << 20 };
    return limits && limits->max_bytes ? limits->max_bytes : MAX_BYTES;
}

static size_t value_limit(const struct json_limits *limits)
{
    enum { MAX_VALUES = 8 << 20, BYTES_PER_VALUE = 8 };
    if (limits && limits->max_values)
        return limits->max_values;
    const size_t n = byte_limit(limits) / BYTES_PER_VALUE;
    return n > MAX_VALUES ? n : MAX_VALUES;
}

enum st json_parse(struct arena *a, const char *source, struct sv text,
                   const struct json_limits *limits, struct node **out, struct err *e)
{
    if (text.n > byte_limit(limits))
        return err_set(e, ST_INPUT, "%s has %zu bytes; the limit for this kind of file is %zu",
                       source, text.n, byte_limit(limits));
    struct tree_builder b = {
        .a = a, .source = arena_str(a, source), .max_values = value_limit(limits)};
    b.r = json_reader_new(source, limits);
    json_feed(b.r, text.p, text.n);
    enum st st = build(&b, e);
    if (st == ST_OK)
        *out = b.root;
    json_reader_free(&b.r);
    vec_free(&b.open);
    vec_free(&b.items);
    vec_free(&b.pairs);
    vec_free(&b.first);
    return st;
}

enum st json_load(struct arena *a, const char *path, const struct json_limits *limits,
                  struct node **out, struct err *e)
{
    struct arena *bytes = arena_new();
    struct sv text;
    enum st st = fs_read(bytes, path, byte_limit(limits), &text, e);
    if (st == ST_OK)
        st = json_parse(a, path, text, limits, out, e);
    arena_free(&bytes);
    return st;
}
