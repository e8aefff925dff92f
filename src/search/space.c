#include "search/space.h"

#include <string.h>

/* The value as a word of the command line. */
static const char *word_of(struct arena *a, const char *key, const struct node *v, const char *text)
{
    if (v->kind != NODE_STR)
        return arena_printf(a, "%s=%s", key, text);
    struct buf b = {0};
    buf_printf(&b, "%s='", key);
    for (const char *p = text; *p; p++) {
        if (*p == '\'' || *p == '\\')
            buf_putc(&b, '\\');
        buf_putc(&b, *p);
    }
    buf_putc(&b, '\'');
    const char *word = arena_str(a, buf_str(&b));
    buf_free(&b);
    return word;
}

/* Group options are names and stay bare: groups take no quotes. */
static bool is_name(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./");
    return n > 0 && s[n] == 0;
}

static enum st read_value(struct arena *a, const char *key, const struct node *v,
                          const char **value, const char **word, struct err *e)
{
    char number[STR_DOUBLE_MAX];
    *value = *word = NULL;
    switch (v->kind) {
    case NODE_NULL:
        return ST_OK;
    case NODE_BOOL:
        *value = v->b ? "true" : "false";
        break;
    case NODE_INT:
        *value = arena_printf(a, "%lld", (long long)v->i);
        break;
    case NODE_FLOAT:
        str_from_double(number, v->f);
        *value = arena_str(a, number);
        break;
    case NODE_STR:
        *value = arena_str(a, v->s.p);
        if (is_name(*value)) {
            *word = arena_printf(a, "%s=%s", key, *value);
            return ST_OK;
        }
        break;
    case NODE_LIST:
    case NODE_MAP:
        return node_err(v, ST_USAGE, e, "search.space: %s: a value to try must be a scalar, not %s",
                        key, node_kind_name(v->kind));
    }
    *word = word_of(a, key, v, *value);
    return ST_OK;
}

static enum st read_axis(struct arena *a, const char *key, const struct node *v, struct space *s,
                         struct err *e)
{
    if (s->n_axes == SPACE_MAX_AXES)
        return node_err(v, ST_USAGE, e, "search.space: more than %d settings", SPACE_MAX_AXES);
    for (size_t i = 0; i < s->n_axes; i++)
        if (strcmp(s->axes[i].key, key) == 0)
            return node_err(v, ST_USAGE, e, "search.space: %s is given twice", key);
    uint32_t n = v->kind == NODE_LIST ? v->n : 1;
    if (n == 0)
        return node_err(v, ST_USAGE, e, "search.space: %s has no values to try", key);
    const char **values = arena_array(a, const char *, n),
               **words = arena_array(a, const char *, n);
    for (uint32_t i = 0; i < n; i++)
        TRY(read_value(a, key, v->kind == NODE_LIST ? v->items[i] : v, &values[i], &words[i], e));
    s->axes[s->n_axes++] = (struct space_axis){key, values, words, n};
    s->n *= n;
    if (s->n > SPACE_MAX_POINTS)
        return node_err(v, ST_USAGE, e, "search.space: more than %d combinations",
                        SPACE_MAX_POINTS);
    return ST_OK;
}

static enum st read_axes(struct arena *a, const char *prefix, const struct node *map,
                         struct space *s, struct err *e)
{
    for (uint32_t i = 0; i < map->n; i++) {
        const struct node_pair *p = &map->pairs[i];
        const char *key = arena_printf(a, "%s%.*s", prefix, (int)p->key.n, p->key.p);
        if (*prefix && sv_eq(p->key, "group")) /* scheduler.group is what picks scheduler's file */
            key = arena_strn(a, prefix, strlen(prefix) - 1);
        if (p->value->kind == NODE_MAP)
            TRY(read_axes(a, arena_printf(a, "%s.", key), p->value, s, e));
        else
            TRY(read_axis(a, key, p->value, s, e));
    }
    return ST_OK;
}

enum st space_read(struct arena *a, const struct node *map, struct space *out, struct err *e)
{
    *out = (struct space){.n = 1};
    if (map)
        TRY(read_axes(a, "", map, out, e));
    if (out->n_axes > 0)
        return ST_OK;
    err_set(e, ST_USAGE, "search.space is empty: there is nothing to try");
    return err_hint(e, "+search.space.scheduler.group=[vllm,sarathi] "
                       "+search.space.scheduler.batch_cap=[32,128], or a map of lists in a file "
                       "for --config-name");
}

size_t space_at(const struct space *s, size_t i, size_t k)
{
    for (size_t j = s->n_axes - 1; j > k; j--)
        i /= s->axes[j].n;
    return i % s->axes[k].n;
}
