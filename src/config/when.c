#include "config/when.h"

#include <string.h>

#include "config/compose.h"
#include "config/config.h"

/* ---- values ------------------------------------------------------------------------------ */

/* The value of a key, NULL when it is not set. */
static const struct node *value_of(const struct config *c, const char *key)
{
    const struct node *n = node_path(c->tree, key);
    bool empty =
        !n || n->kind == NODE_NULL || ((n->kind == NODE_LIST || n->kind == NODE_MAP) && n->n == 0);
    return empty ? NULL : n;
}

/* A scalar as it is typed; "" of a list or map. */
static const char *scalar(struct arena *a, const struct node *n)
{
    const char *text = node_scalar_text(a, n);
    return text ? text : "";
}

/* True: word is one of "a|b|c". */
static bool is_among(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; p; p = strchr(p, '|'), p = p ? p + 1 : NULL)
        if (strncmp(p, word, n) == 0 && (p[n] == 0 || p[n] == '|'))
            return true;
    return false;
}

/* ---- conditions -------------------------------------------------------------------------- */

/* The keys of a condition that a command uses, "a|b"; "" when it cannot break it. */
static const char *keys_of(struct arena *a, const struct option_when *w, uint32_t command)
{
    const char *used = "", *rest = w->key;
    while (*rest && (!w->of || w->of & command)) {
        size_t n = strcspn(rest, "|");
        const char *key = arena_strn(a, rest, n);
        if (option_find(key)->commands & command)
            used = *used ? arena_printf(a, "%s|%s", used, key) : key;
        rest += n + (rest[n] == '|');
    }
    return used;
}

/* The first of "a|b" that is set, NULL when none is. */
static const char *first_set(struct arena *a, const char *keys, const struct config *c)
{
    while (*keys) {
        size_t n = strcspn(keys, "|");
        const char *key = arena_strn(a, keys, n);
        if (value_of(c, key))
            return key;
        keys += n + (keys[n] == '|');
    }
    return NULL;
}

static bool holds(struct arena *a, const struct option_when *w, const struct config *c)
{
    const char *keys = keys_of(a, w, command_bit(c->command));
    const char *set = first_set(a, keys, c);
    const char *values = option_members(a, w->key, w->values);
    bool among = set && values && is_among(values, scalar(a, value_of(c, set)));
    switch (w->test) {
    case WHEN_IS:
        return !*keys || among;
    case WHEN_NOT:
        return !among;
    case WHEN_SET:
        return !*keys || set;
    case WHEN_UNSET:
        return !set;
    }
    return true;
}

/* ---- refusals ---------------------------------------------------------------------------- */

/* The newest word of the command line on that row gives it a value. */
static bool is_typed(const struct config *c, const struct option *o)
{
    for (const struct layer_set *s = c->sets; s && s->layer == LAYER_COMMAND_LINE; s = s->older) {
        if (strcmp(s->key, o->key) == 0 || (o->type == OPT_MAP && option_is_below(s->key, o->key)))
            return s->value && value_of(c, o->key);
        if (!s->value && option_is_below(o->key, s->key))
            return false;
    }
    return false;
}

static enum st refuse(struct arena *a, const struct config *c, const struct option *o,
                      const struct option_when *w, bool typed, struct err *e)
{
    const char *keys = keys_of(a, w, command_bit(c->command)), *set = first_set(a, keys, c);
    const char *value = set ? scalar(a, value_of(c, set)) : "";
    struct buf with = {0}, which = {0};
    option_list_values(&which, set ? set : keys, " or ");
    buf_printf(&with, "%s does not use %s %s %s%s%s", command_name(c->command), o->key,
               set ? "with" : "without", buf_str(&which), *value ? "=" : "", value);
    if (typed)
        err_set(e, ST_USAGE, "%s: %s", override_source, buf_str(&with));
    else
        node_err(value_of(c, o->key), ST_USAGE, e, "%s", buf_str(&with));
    buf_clear(&with);
    if (w->test == WHEN_IS) {
        option_list_values(&with, option_members(a, w->key, w->values), " or ");
        err_hint(e, "it is used with %s=%s", w->key, buf_str(&with));
    } else if (w->test == WHEN_NOT)
        err_hint(e, "leave it out, or choose another %s", w->key);
    else if (w->test == WHEN_SET)
        err_hint(e, "set %s, or leave it out", buf_str(&which));
    else if (config_origin(c, set) == ORIGIN_FILE)
        err_hint(e, "%s=null leaves that one out, which is set in %s", set,
                 value_of(c, set)->source);
    else
        err_hint(e, "leave one of them out");
    buf_free(&with);
    buf_free(&which);
    return e->st;
}

static enum st check_row(struct arena *a, const struct config *c, const struct option *o,
                         struct err *e)
{
    bool typed = is_typed(c, o);
    for (const struct option_when *w = o->when; w->key; w++)
        if ((typed || w->files) && !holds(a, w, c) &&
            (typed || config_origin(c, o->key) == ORIGIN_FILE))
            return refuse(a, c, o, w, typed, e);
    return ST_OK;
}

enum st config_check_read(const struct config *c, struct err *e)
{
    struct arena *a = arena_new();
    enum st st = ST_OK;
    for (struct option_iter i = {0}; st == ST_OK && option_next(&i);)
        if (i.o->when && i.o->commands & command_bit(c->command))
            st = check_row(a, c, i.o, e);
    arena_free(&a);
    return st;
}

/* ---- in words ---------------------------------------------------------------------------- */

void when_text(struct buf *out, const struct option *o, uint32_t command)
{
    struct arena *a = arena_new();
    for (const struct option_when *w = o->when; w && w->key; w++) {
        const char *keys = w->test == WHEN_UNSET ? "" : keys_of(a, w, command);
        if (!*keys)
            continue;
        bool only = w->test == WHEN_IS || w->test == WHEN_SET;
        buf_printf(out, "%s%s with ", out->n ? "; " : "", only ? "only" : "not");
        option_list_values(out, keys, " or ");
        if (w->values) {
            buf_putc(out, '=');
            option_list_values(out, option_members(a, w->key, w->values), " or ");
        }
    }
    arena_free(&a);
}
