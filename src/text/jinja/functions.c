#include <string.h>

#include "text/jinja/parts.h"

static bool is(const struct node *v, enum node_kind kind)
{
    return v && v->kind == kind;
}

/* An argument by position or name; NULL = not given. */
static struct node *arg(const struct call *c, size_t place, const char *name)
{
    size_t at = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->names[i].p ? name && sv_eq(c->names[i], name) : at == place)
            return c->args[i];
        at += !c->names[i].p;
    }
    return NULL;
}

static enum st want_text(struct jinja_run *r, const struct node *v, struct sv *out)
{
    *out = (struct sv){"", 0};
    if (!is(v, NODE_STR))
        return jinja_error(r, "expected a text, got %s",
                           v ? node_kind_name(v->kind) : "an undefined value");
    *out = v->s;
    return ST_OK;
}

static enum st text_out(struct jinja_run *r, struct sv s, struct node **out)
{
    *out = jinja_text(r->a, s.p, s.n);
    return ST_OK;
}

static enum st buf_out(struct jinja_run *r, struct buf *b, enum st st, struct node **out)
{
    if (st == ST_OK)
        *out = jinja_text(r->a, buf_str(b), b->n);
    buf_free(b);
    return st;
}

/* ---- white space ----------------------------------------------------------------------------- */

/* Bytes of the character at p if Python counts it as white space; else 0. */
static size_t space_at(const char *p, size_t n)
{
    static const char *const wide[] = {
        "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
        "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
        "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
        "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    const unsigned char c = n ? (unsigned char)*p : 0;
    if (n > 0 && (c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31)))
        return 1;
    for (size_t i = 0; c >= 0x80 && i < sizeof wide / sizeof *wide; i++)
        if (strlen(wide[i]) <= n && memcmp(wide[i], p, strlen(wide[i])) == 0)
            return strlen(wide[i]);
    return 0;
}

/* Bytes at the beginning (or the end) of s that strip removes: a character of `set`, or white space
 * where it is NULL. */
static size_t stripped(struct sv s, const struct sv *set, bool at_end)
{
    if (s.n == 0)
        return 0;
    if (set) /* ASCII, checked */
        return memchr(set->p, at_end ? s.p[s.n - 1] : *s.p, set->n) != NULL;
    for (size_t n = 1; at_end && n <= 3 && n <= s.n; n++)
        if (space_at(s.p + s.n - n, n) == n)
            return n;
    return at_end ? 0 : space_at(s.p, s.n);
}

static enum st strip(struct jinja_run *r, const struct call *c, bool left, bool right,
                     struct node **out)
{
    struct sv s, chars, *set = NULL;
    TRY(want_text(r, c->self, &s));
    const struct node *given = arg(c, 0, "chars");
    if (given && given->kind != NODE_NULL) {
        TRY(want_text(r, given, &chars));
        set = &chars;
        for (size_t i = 0; i < chars.n; i++)
            if (chars.p[i] & 0x80)
                return jinja_error(r, "strip: only ASCII characters are stripped here");
    }
    for (size_t n; left && (n = stripped(s, set, false)) > 0;)
        s = (struct sv){s.p + n, s.n - n};
    for (size_t n; right && (n = stripped(s, set, true)) > 0;)
        s.n -= n;
    return text_out(r, s, out);
}

static enum st do_strip(struct jinja_run *r, const struct call *c, struct node **out)
{
    return strip(r, c, true, true, out);
}

static enum st do_lstrip(struct jinja_run *r, const struct call *c, struct node **out)
{
    return strip(r, c, true, false, out);
}

static enum st do_rstrip(struct jinja_run *r, const struct call *c, struct node **out)
{
    return strip(r, c, false, true, out);
}

/* ---- texts ----------------------------------------------------------------------------------- */

enum letters { UPPER, LOWER, CAPITALIZE, TITLE };

static enum st change_case(struct jinja_run *r, const struct call *c, enum letters how,
                           struct node **out)
{
    struct sv s;
    TRY(want_text(r, c->self, &s));
    char *p = arena_strn(r->a, s.p, s.n);
    bool first = true;
    for (size_t i = 0; i < s.n; i++) {
        const bool upper = how == UPPER || (how != LOWER && first);
        const char x = p[i];
        const bool letter = (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z');
        if (x & 0x80)
            return jinja_error(r, "upper and lower case: only of ASCII here");
        if (letter)
            p[i] = (char)(upper ? x & ~0x20 : x | 0x20);
        first = how == TITLE ? !letter : false;
    }
    return text_out(r, (struct sv){p, s.n}, out);
}

static enum st do_upper(struct jinja_run *r, const struct call *c, struct node **out)
{
    return change_case(r, c, UPPER, out);
}

static enum st do_lower(struct jinja_run *r, const struct call *c, struct node **out)
{
    return change_case(r, c, LOWER, out);
}

static enum st do_capitalize(struct jinja_run *r, const struct call *c, struct node **out)
{
    return change_case(r, c, CAPITALIZE, out);
}

static enum st do_title(struct jinja_run *r, const struct call *c, struct node **out)
{
    return change_case(r, c, TITLE, out);
}

static size_t find(struct sv in, size_t from, struct sv what)
{
    for (size_t i = from; i + what.n <= in.n; i++)
        if (memcmp(in.p + i, what.p, what.n) == 0)
            return i;
    return in.n;
}

static enum st do_replace(struct jinja_run *r, const struct call *c, struct node **out)
{
    struct sv s, from, to;
    struct buf b = {0};
    TRY(want_text(r, c->self, &s));
    TRY(want_text(r, arg(c, 0, "old"), &from));
    TRY(want_text(r, arg(c, 1, "new"), &to));
    if (from.n == 0)
        return jinja_error(r, "replace: of an empty text");
    size_t at = 0;
    for (size_t next; (next = find(s, at, from)) < s.n; at = next + from.n) {
        buf_add(&b, s.p + at, next - at);
        buf_add(&b, to.p, to.n);
    }
    buf_add(&b, s.p + at, s.n - at);
    return buf_out(r, &b, ST_OK, out);
}

static enum st do_split(struct jinja_run *r, const struct call *c, struct node **out)
{
    struct sv s, by = {NULL, 0};
    TRY(want_text(r, c->self, &s));
    const struct node *given = arg(c, 0, "sep"), *most = arg(c, 1, "maxsplit");
    int64_t left = is(most, NODE_INT) && most->i >= 0 ? most->i : INT64_MAX;
    *out = node_new(r->a, NODE_LIST);
    if (given && given->kind != NODE_NULL) {
        TRY(want_text(r, given, &by));
        if (by.n == 0)
            return jinja_error(r, "split: at an empty text");
        size_t at = 0;
        for (size_t next; left > 0 && (next = find(s, at, by)) + by.n <= s.n; left--) {
            node_push(r->a, *out, jinja_text(r->a, s.p + at, next - at));
            at = next + by.n;
        }
        node_push(r->a, *out, jinja_text(r->a, s.p + at, s.n - at));
        return ST_OK;
    }
    for (;; left--) { /* at runs of white space */
        for (size_t n; (n = space_at(s.p, s.n)) > 0;)
            s = (struct sv){s.p + n, s.n - n};
        size_t n = 0;
        while (n < s.n && (left <= 0 || space_at(s.p + n, s.n - n) == 0))
            n++;
        if (n == 0)
            return ST_OK;
        node_push(r->a, *out, jinja_text(r->a, s.p, n));
        s = (struct sv){s.p + n, s.n - n};
    }
}

static enum st begins(struct jinja_run *r, const struct call *c, bool at_end, struct node **out)
{
    struct sv s, what;
    TRY(want_text(r, c->self, &s));
    TRY(want_text(r, arg(c, 0, NULL), &what));
    const char *at = at_end && what.n <= s.n ? s.p + s.n - what.n : s.p;
    *out = node_bool(r->a, what.n <= s.n && memcmp(at, what.p, what.n) == 0);
    return ST_OK;
}

static enum st do_startswith(struct jinja_run *r, const struct call *c, struct node **out)
{
    return begins(r, c, false, out);
}

static enum st do_endswith(struct jinja_run *r, const struct call *c, struct node **out)
{
    return begins(r, c, true, out);
}

static enum st do_string(struct jinja_run *r, const struct call *c, struct node **out)
{
    struct buf b = {0};
    return buf_out(r, &b, jinja_print(r, c->self, &b), out);
}

static enum st do_tojson(struct jinja_run *r, const struct call *c, struct node **out)
{
    struct buf b = {0};
    const struct node *indent = arg(c, 0, "indent");
    const int64_t n = is(indent, NODE_INT) && indent->i > 0 && indent->i < 16 ? indent->i : 0;
    return buf_out(r, &b, jinja_json(r, c->self, n, 0, &b), out);
}

static enum st do_itself(struct jinja_run *r, const struct call *c, struct node **out)
{
    (void)r;
    *out = c->self;
    return ST_OK;
}

static enum st do_int(struct jinja_run *r, const struct call *c, struct node **out)
{
    const struct node *v = c->self;
    int64_t i = 0;
    if (is(v, NODE_STR))
        (void)str_int64(sv_trim(v->s), &i);
    else if (is(v, NODE_INT) || is(v, NODE_BOOL))
        i = v->kind == NODE_INT ? v->i : v->b;
    else if (is(v, NODE_FLOAT) && v->f > -9e18 && v->f < 9e18)
        i = (int64_t)v->f;
    *out = node_int(r->a, i);
    return ST_OK;
}

/* ---- lists and maps -------------------------------------------------------------------------- */

static enum st want_items(struct jinja_run *r, const struct node *v)
{
    return is(v, NODE_LIST) || is(v, NODE_MAP) || is(v, NODE_STR)
               ? ST_OK
               : jinja_error(r, "expected a list, a map or a text, got %s",
                             v ? node_kind_name(v->kind) : "an undefined value");
}

static enum st do_length(struct jinja_run *r, const struct call *c, struct node **out)
{
    TRY(want_items(r, c->self));
    *out = node_int(r->a, (int64_t)jinja_length(c->self));
    return ST_OK;
}

static enum st do_first(struct jinja_run *r, const struct call *c, struct node **out)
{
    TRY(want_items(r, c->self));
    return jinja_index(r, c->self, node_int(r->a, 0), out);
}

static enum st do_last(struct jinja_run *r, const struct call *c, struct node **out)
{
    TRY(want_items(r, c->self));
    return jinja_index(r, c->self, node_int(r->a, -1), out);
}

static enum st do_list(struct jinja_run *r, const struct call *c, struct node **out)
{
    TRY(want_items(r, c->self));
    *out = node_new(r->a, NODE_LIST);
    const size_t n = jinja_length(c->self);
    for (size_t i = 0; i < n; i++) {
        struct node *item = NULL;
        if (c->self->kind == NODE_MAP)
            item = jinja_text(r->a, c->self->pairs[i].key.p, c->self->pairs[i].key.n);
        else
            TRY(jinja_index(r, c->self, node_int(r->a, (int64_t)i), &item));
        node_push(r->a, *out, item);
    }
    return ST_OK;
}

static enum st do_reverse(struct jinja_run *r, const struct call *c, struct node **out)
{
    return jinja_slice(r, c->self, NULL, NULL, node_int(r->a, -1), out);
}

static enum st join(struct jinja_run *r, const struct node *list, const struct node *by,
                    struct buf *b)
{
    if (!is(list, NODE_LIST))
        return jinja_error(r, "join: expected a list");
    for (uint32_t i = 0; i < list->n; i++) {
        if (i > 0 && by)
            TRY(jinja_print(r, by, b));
        TRY(jinja_print(r, list->items[i], b));
    }
    return ST_OK;
}

static enum st do_join(struct jinja_run *r, const struct call *c, struct node **out)
{
    struct buf b = {0};
    return buf_out(r, &b, join(r, c->self, arg(c, 0, "d"), &b), out);
}

static enum st do_join_method(struct jinja_run *r, const struct call *c, struct node **out)
{
    struct buf b = {0};
    return buf_out(r, &b, join(r, arg(c, 0, NULL), c->self, &b), out);
}

enum pair_part { KEYS = 1, VALUES = 2 };

static enum st parts(struct jinja_run *r, const struct call *c, int which, struct node **out)
{
    if (!is(c->self, NODE_MAP))
        return jinja_error(r, "items: expected a map");
    *out = node_new(r->a, NODE_LIST);
    for (uint32_t i = 0; i < c->self->n; i++) {
        const struct node_pair *p = &c->self->pairs[i];
        struct node *key = jinja_text(r->a, p->key.p, p->key.n), *both = node_new(r->a, NODE_LIST);
        node_push(r->a, both, key);
        node_push(r->a, both, p->value);
        node_push(r->a, *out, which == KEYS ? key : which == VALUES ? p->value : both);
    }
    return ST_OK;
}

static enum st do_items(struct jinja_run *r, const struct call *c, struct node **out)
{
    return parts(r, c, KEYS | VALUES, out);
}

static enum st do_keys(struct jinja_run *r, const struct call *c, struct node **out)
{
    return parts(r, c, KEYS, out);
}

static enum st do_values(struct jinja_run *r, const struct call *c, struct node **out)
{
    return parts(r, c, VALUES, out);
}

static enum st do_get(struct jinja_run *r, const struct call *c, struct node **out)
{
    if (!is(c->self, NODE_MAP))
        return jinja_error(r, "get: expected a map");
    TRY(jinja_index(r, c->self, arg(c, 0, NULL), out));
    if (!*out)
        *out = c->n > 1 ? arg(c, 1, NULL) : node_new(r->a, NODE_NULL);
    return ST_OK;
}

static enum st do_default(struct jinja_run *r, const struct call *c, struct node **out)
{
    const bool also_false = jinja_true(arg(c, 1, "boolean"));
    *out = c->self && (!also_false || jinja_true(c->self)) ? c->self : arg(c, 0, "default_value");
    if (!*out && c->n == 0)
        *out = jinja_text(r->a, "", 0);
    return ST_OK;
}

/* map(attribute=...) */
static enum st do_map(struct jinja_run *r, const struct call *c, struct node **out)
{
    struct node *name = arg(c, FUNCTION_ARGS, "attribute");
    if (!name || !is(c->self, NODE_LIST))
        return jinja_error(r, "map: done for a list with attribute= only");
    *out = node_new(r->a, NODE_LIST);
    for (uint32_t i = 0; i < c->self->n; i++) {
        struct node *part;
        TRY(jinja_index(r, c->self->items[i], name, &part));
        node_push(r->a, *out, part ? part : node_new(r->a, NODE_NULL));
    }
    return ST_OK;
}

/* selectattr(name), selectattr(name, "equalto", value) */
static enum st select_items(struct jinja_run *r, const struct call *c, bool yes, struct node **out)
{
    const struct node *name = arg(c, 0, NULL), *test = arg(c, 1, NULL), *want = arg(c, 2, NULL);
    if (!is(c->self, NODE_LIST) || !name)
        return jinja_error(r, "selectattr: expected a list and a name");
    if (test && !(is(test, NODE_STR) &&
                  (sv_eq(test->s, "equalto") || sv_eq(test->s, "==") || sv_eq(test->s, "eq"))))
        return jinja_error(r, "selectattr: only the test equalto is done here");
    *out = node_new(r->a, NODE_LIST);
    for (uint32_t i = 0; i < c->self->n; i++) {
        struct node *part;
        TRY(jinja_index(r, c->self->items[i], name, &part));
        if ((test ? jinja_equal(part, want) : jinja_true(part)) == yes)
            node_push(r->a, *out, c->self->items[i]);
    }
    return ST_OK;
}

static enum st do_selectattr(struct jinja_run *r, const struct call *c, struct node **out)
{
    return select_items(r, c, true, out);
}

static enum st do_rejectattr(struct jinja_run *r, const struct call *c, struct node **out)
{
    return select_items(r, c, false, out);
}

/* ---- functions ------------------------------------------------------------------------------- */

static enum st do_namespace(struct jinja_run *r, const struct call *c, struct node **out)
{
    *out = node_new(r->a, NODE_MAP);
    for (size_t i = 0; i < c->n; i++) {
        if (!c->names[i].p)
            return jinja_error(r, "namespace: every argument has a name here");
        node_set(r->a, *out, c->names[i], c->args[i] ? c->args[i] : node_new(r->a, NODE_NULL));
    }
    return ST_OK;
}

static enum st do_raise(struct jinja_run *r, const struct call *c, struct node **out)
{
    struct sv text;
    (void)out;
    TRY(want_text(r, arg(c, 0, NULL), &text));
    return err_set(r->e, ST_INPUT, "%.*s", (int)(text.n < 300 ? text.n : 300), text.p);
}

static enum st do_range(struct jinja_run *r, const struct call *c, struct node **out)
{
    enum { MOST = 10000 };
    int64_t ends[3] = {0, 0, 1};
    for (size_t i = 0; i < c->n; i++) {
        if (!is(c->args[i], NODE_INT))
            return jinja_error(r, "range: expected integers");
        ends[c->n == 1 ? 1 : i] = c->args[i]->i;
    }
    const int64_t by = ends[2];
    if (c->n == 0 || by == 0)
        return jinja_error(r, "range: expected an end, and no step of 0");
    *out = node_new(r->a, NODE_LIST);
    for (int64_t i = ends[0]; by > 0 ? i < ends[1] : i > ends[1]; i += by) {
        if ((*out)->n == MOST || i > INT64_MAX / 2 || i < -(INT64_MAX / 2) || by > INT64_MAX / 2 ||
            by < -(INT64_MAX / 2))
            return jinja_error(r, "range: more than %d numbers, or too large ones", MOST);
        node_push(r->a, *out, node_int(r->a, i));
    }
    return ST_OK;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static enum st yes_if(struct jinja_run *r, bool yes, struct node **out)
{
    *out = node_bool(r->a, yes);
    return ST_OK;
}

#define KIND_TEST(name, condition)                                                    \
    static enum st name(struct jinja_run *r, const struct call *c, struct node **out) \
    {                                                                                 \
        const struct node *v = c->self;                                               \
        return yes_if(r, condition, out);                                             \
    }
KIND_TEST(is_defined, v != NULL)
KIND_TEST(is_undefined, v == NULL)
KIND_TEST(is_none, is(v, NODE_NULL))
KIND_TEST(is_string, is(v, NODE_STR))
KIND_TEST(is_number, is(v, NODE_INT) || is(v, NODE_FLOAT) || is(v, NODE_BOOL))
KIND_TEST(is_integer, is(v, NODE_INT))
KIND_TEST(is_float, is(v, NODE_FLOAT))
KIND_TEST(is_boolean, is(v, NODE_BOOL))
KIND_TEST(is_true, is(v, NODE_BOOL) && v->b)
KIND_TEST(is_false, is(v, NODE_BOOL) && !v->b)
KIND_TEST(is_mapping, is(v, NODE_MAP))
KIND_TEST(is_iterable, !v || is(v, NODE_STR) || is(v, NODE_LIST) || is(v, NODE_MAP))
KIND_TEST(is_odd, is(v, NODE_INT) && v->i % 2 != 0)
KIND_TEST(is_even, is(v, NODE_INT) && v->i % 2 == 0)

static const struct function functions[] = {
    {"trim", IS_FILTER, 1, do_strip},
    {"length", IS_FILTER, 0, do_length},
    {"count", IS_FILTER, 0, do_length},
    {"upper", IS_FILTER, 0, do_upper},
    {"lower", IS_FILTER, 0, do_lower},
    {"capitalize", IS_FILTER, 0, do_capitalize},
    {"title", IS_FILTER, 0, do_title},
    {"replace", IS_FILTER, 2, do_replace},
    {"string", IS_FILTER, 0, do_string},
    {"safe", IS_FILTER, 0, do_itself},
    {"tojson", IS_FILTER, 1, do_tojson},
    {"int", IS_FILTER, 0, do_int},
    {"first", IS_FILTER, 0, do_first},
    {"last", IS_FILTER, 0, do_last},
    {"list", IS_FILTER, 0, do_list},
    {"reverse", IS_FILTER, 0, do_reverse},
    {"join", IS_FILTER, 1, do_join},
    {"items", IS_FILTER, 0, do_items},
    {"default", IS_FILTER, 2, do_default},
    {"d", IS_FILTER, 2, do_default},
    {"map", IS_FILTER, 1, do_map},
    {"selectattr", IS_FILTER, 3, do_selectattr},
    {"rejectattr", IS_FILTER, 3, do_rejectattr},
    {"defined", IS_TEST, 0, is_defined},
    {"undefined", IS_TEST, 0, is_undefined},
    {"none", IS_TEST, 0, is_none},
    {"string", IS_TEST, 0, is_string},
    {"number", IS_TEST, 0, is_number},
    {"integer", IS_TEST, 0, is_integer},
    {"float", IS_TEST, 0, is_float},
    {"boolean", IS_TEST, 0, is_boolean},
    {"true", IS_TEST, 0, is_true},
    {"false", IS_TEST, 0, is_false},
    {"mapping", IS_TEST, 0, is_mapping},
    {"iterable", IS_TEST, 0, is_iterable},
    {"sequence", IS_TEST, 0, is_iterable},
    {"odd", IS_TEST, 0, is_odd},
    {"even", IS_TEST, 0, is_even},
    {"strip", IS_METHOD, 1, do_strip},
    {"lstrip", IS_METHOD, 1, do_lstrip},
    {"rstrip", IS_METHOD, 1, do_rstrip},
    {"split", IS_METHOD, 2, do_split},
    {"startswith", IS_METHOD, 1, do_startswith},
    {"endswith", IS_METHOD, 1, do_endswith},
    {"replace", IS_METHOD, 2, do_replace},
    {"upper", IS_METHOD, 0, do_upper},
    {"lower", IS_METHOD, 0, do_lower},
    {"capitalize", IS_METHOD, 0, do_capitalize},
    {"title", IS_METHOD, 0, do_title},
    {"join", IS_METHOD, 1, do_join_method},
    {"items", IS_METHOD, 0, do_items},
    {"keys", IS_METHOD, 0, do_keys},
    {"values", IS_METHOD, 0, do_values},
    {"get", IS_METHOD, 2, do_get},
    {"namespace", IS_FUNCTION, FUNCTION_ARGS, do_namespace},
    {"dict", IS_FUNCTION, FUNCTION_ARGS, do_namespace},
    {"raise_exception", IS_FUNCTION, 1, do_raise},
    {"range", IS_FUNCTION, 3, do_range},
};

const struct function *jinja_function_find(enum function_kind kind, struct sv name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (functions[i].kind == kind && sv_eq(name, functions[i].name))
            return &functions[i];
    return NULL;
}
