#include "config/override.h"

#include <math.h>
#include <string.h>

#include "base/vec.h"

const char override_source[] = "command line";

enum { MAX_DEPTH = 32, MAX_PIECES = 10000 };

static enum st bad_key(const char *typed, struct err *e, const char *why)
{
    err_set(e, ST_USAGE, "%s: '%s': %s", override_source, typed, why);
    return err_hint(e, "overrides are key=value, +key=value, ++key=value or ~key");
}

static enum st check_key(const char *typed, const char *key, struct err *e)
{
    if (!*key)
        return bad_key(typed, e, "the key is empty");
    char before = '.';
    for (const char *p = key;; p++) {
        bool separator = *p == '.' || *p == '/';
        if ((separator || !*p) && (before == '.' || before == '/'))
            return bad_key(typed, e, "the key has an empty part");
        if (!*p)
            return ST_OK;
        if ((unsigned char)*p <= ' ' || *p == 127 || strchr("'\"`[]{}(),:;|&\\~+=@", *p))
            return bad_key(typed, e, "the key has a character that no key has");
        before = *p;
    }
}

struct sv override_key_of(const char *typed)
{
    const size_t skip = strspn(typed, "+");
    return (struct sv){typed + skip, strcspn(typed + skip, "=")};
}

const char *override_value_of(const char *typed)
{
    const char *equals = strchr(typed, '=');
    return equals ? equals + 1 : "";
}

enum st override_parse(struct arena *a, const char *typed, struct override *out, struct err *e)
{
    *out = (struct override){.typed = typed};
    size_t n = strlen(typed), good = str_utf8_valid(typed, n);
    if (good < n)
        return err_set(e, ST_USAGE, "%s: '%.*s...': byte %zu is not valid UTF-8", override_source,
                       (int)good, typed, good + 1);
    const char *p = typed;
    if (strncmp(p, "++", 2) == 0)
        out->kind = OVERRIDE_FORCE, p += 2;
    else if (*p == '+')
        out->kind = OVERRIDE_ADD, p++;
    else if (*p == '~')
        out->kind = OVERRIDE_REMOVE, p++;

    const char *eq = strchr(p, '=');
    if (!eq && out->kind != OVERRIDE_REMOVE)
        return bad_key(typed, e, "there is no '='");
    char *key = eq ? arena_strn(a, p, (size_t)(eq - p)) : arena_str(a, p);
    char *at = strchr(key, '@');
    if (at) {
        *at = 0;
        out->package = at + 1;
        TRY(check_key(typed, out->package, e));
    }
    out->key = key;
    TRY(check_key(typed, key, e));
    if (eq) {
        out->has_value = true;
        out->text = sv_trim(sv_of(eq + 1));
    } else {
        out->text = SV("");
    }
    return ST_OK;
}

/* ---- values ------------------------------------------------------------------------------ */

struct override_reader {
    struct arena *a;
    const struct override *o;
    struct sv s;
    size_t i;
    int depth;
    bool text; /* bare words stay strings */
    struct err *e;
};

static enum st bad_value(const struct override_reader *r, size_t at, const char *why)
{
    return err_set(r->e, ST_USAGE, "%s: %s: %s at character %zu of %.*s", override_source,
                   r->o->key, why, at + 1, (int)r->s.n, r->s.p);
}

static void skip_space(struct override_reader *r)
{
    while (r->i < r->s.n && (r->s.p[r->i] == ' ' || r->s.p[r->i] == '\t'))
        r->i++;
}

static char peek(const struct override_reader *r)
{
    return r->i < r->s.n ? r->s.p[r->i] : 0;
}

struct node *override_scalar(struct arena *a, struct sv text)
{
    int64_t i;
    double d;
    struct node *n;
    if (text.n == 0)
        n = node_str(a, "");
    else if (sv_eq(text, "null") || sv_eq(text, "~"))
        n = node_new(a, NODE_NULL);
    else if (sv_eq(text, "true") || sv_eq(text, "True"))
        n = node_bool(a, true);
    else if (sv_eq(text, "false") || sv_eq(text, "False"))
        n = node_bool(a, false);
    else if (str_int64(text, &i))
        n = node_int(a, i);
    else if (str_double(text, &d))
        n = node_float(a, d);
    else
        n = node_str(a, arena_strn(a, text.p, text.n));
    return n;
}

static struct node *placed(struct node *n)
{
    n->source = override_source;
    return n;
}

/* The index after the ${...} that begins at i, or 0 when it is not closed. Quotes inside hide
 * braces. */
static size_t skip_interpolation(struct sv s, size_t i)
{
    int depth = 0;
    char quote = 0;
    for (; i < s.n; i++) {
        char c = s.p[i];
        if (c == '\\') {
            i++;
        } else if (quote) {
            quote = c == quote ? 0 : quote;
        } else if (c == '\'' || c == '"') {
            quote = c;
        } else if (c == '{') {
            depth++;
        } else if (c == '}' && --depth == 0) {
            return i + 1;
        }
    }
    return 0;
}

static enum st read_quoted(struct override_reader *r, struct node **out)
{
    size_t start = r->i;
    char quote = r->s.p[r->i++];
    struct buf b = {0};
    while (r->i < r->s.n && r->s.p[r->i] != quote) {
        char next = r->i + 1 < r->s.n ? r->s.p[r->i + 1] : 0;
        if (r->s.p[r->i] == '\\' && (next == quote || next == '\\'))
            r->i++;
        buf_putc(&b, r->s.p[r->i++]);
    }
    bool closed = r->i < r->s.n;
    if (closed) {
        r->i++;
        *out = placed(node_str(r->a, arena_strn(r->a, buf_str(&b), b.n)));
        (*out)->quoted = true;
    }
    buf_free(&b);
    return closed ? ST_OK : bad_value(r, start, "a quote is not closed");
}

/* Bare text up to one of `stops`, escapes taken out. */
static enum st read_bare(struct override_reader *r, const char *stops, struct node **out)
{
    size_t start = r->i;
    struct buf b = {0};
    bool escaped = false;
    while (r->i < r->s.n && !strchr(stops, r->s.p[r->i])) {
        char c = r->s.p[r->i], next = r->i + 1 < r->s.n ? r->s.p[r->i + 1] : 0;
        if (c == '$' && next == '{') {
            size_t end = skip_interpolation(r->s, r->i + 1);
            if (end == 0) {
                buf_free(&b);
                return bad_value(r, r->i, "'${' is not closed");
            }
            buf_add(&b, r->s.p + r->i, end - r->i);
            r->i = end;
            continue;
        }
        if (c == '\\' && next && strchr(",()[]{}:= \\'\"", next)) {
            escaped = true;
            buf_putc(&b, next);
            r->i += 2;
            continue;
        }
        if (c == '\\' && next == '$') { /* keep \${ for interpolation */
            buf_add(&b, "\\$", 2);
            r->i += 2;
            continue;
        }
        buf_putc(&b, c);
        r->i++;
    }
    struct sv text = {buf_str(&b), b.n};
    text = sv_trim(text);
    if (text.n == 0 && *stops) {
        buf_free(&b);
        return bad_value(r, start, "a value is missing");
    }
    if (escaped || r->text)
        *out = node_str(r->a, arena_strn(r->a, text.p, text.n));
    else
        *out = override_scalar(r->a, text);
    if (r->text && sv_eq(text, "null"))
        *out = node_new(r->a, NODE_NULL);
    placed(*out);
    buf_free(&b);
    return ST_OK;
}

static enum st read_value(struct override_reader *r, const char *stops, struct node **out);

static enum st read_list(struct override_reader *r, struct node **out)
{
    size_t start = r->i++;
    *out = placed(node_new(r->a, NODE_LIST));
    skip_space(r);
    if (peek(r) == ']') {
        r->i++;
        return ST_OK;
    }
    for (;;) {
        struct node *item;
        TRY(read_value(r, ",]", &item));
        node_push(r->a, *out, item);
        skip_space(r);
        char c = peek(r);
        r->i++;
        if (c == ']')
            return ST_OK;
        if (c != ',')
            return bad_value(r, start, "'[' is not closed");
    }
}

static enum st read_map(struct override_reader *r, struct node **out)
{
    size_t start = r->i++;
    *out = placed(node_new(r->a, NODE_MAP));
    skip_space(r);
    if (peek(r) == '}') {
        r->i++;
        return ST_OK;
    }
    for (;;) {
        skip_space(r);
        struct node *key, *value;
        bool text = r->text;
        r->text = true;
        size_t at = r->i;
        enum st st =
            peek(r) == '\'' || peek(r) == '"' ? read_quoted(r, &key) : read_bare(r, ":,}", &key);
        r->text = text;
        TRY(st);
        skip_space(r);
        if (peek(r) != ':')
            return bad_value(r, at, "a key without ': value'");
        if (key->kind != NODE_STR)
            return bad_value(r, at, "a key must be text");
        r->i++;
        TRY(read_value(r, ",}", &value));
        if (node_find(*out, key->s.p))
            return bad_value(r, at, "a key stands twice");
        node_set(r->a, *out, key->s, value);
        skip_space(r);
        char c = peek(r);
        r->i++;
        if (c == '}')
            return ST_OK;
        if (c != ',')
            return bad_value(r, start, "'{' is not closed");
    }
}

static enum st read_value(struct override_reader *r, const char *stops, struct node **out)
{
    skip_space(r);
    if (++r->depth > MAX_DEPTH)
        return bad_value(r, r->i, "too deeply nested");
    char c = peek(r);
    enum st st;
    if (c == '[')
        st = read_list(r, out);
    else if (c == '{')
        st = read_map(r, out);
    else if (c == '\'' || c == '"')
        st = read_quoted(r, out);
    else
        st = read_bare(r, stops, out);
    r->depth--;
    return st;
}

enum st override_value(struct arena *a, const struct override *o, enum value_style style,
                       struct node **out, struct err *e)
{
    struct sv *pieces;
    size_t n;
    TRY(override_pieces(a, o, style != VALUE_LIST, &pieces, &n, e));
    if (n != 1 || pieces[0].p != o->text.p) {
        err_set(e, ST_USAGE, "%s: %s: '%.*s' is a sweep over several values", override_source,
                o->key, (int)o->text.n, o->text.p);
        return err_hint(e,
                        "-m runs one job for each; if the comma belongs to the value, quote it: "
                        "%s=\"'...'\"",
                        o->key);
    }
    struct override_reader r = {.a = a, .o = o, .s = o->text, .text = style != VALUE_TYPED, .e = e};
    TRY(read_value(&r, "", out));
    skip_space(&r);
    if (r.i < r.s.n)
        return bad_value(&r, r.i, "unexpected text after the value");
    return ST_OK;
}

/* ---- sweeps ------------------------------------------------------------------------------ */

typedef VEC(struct sv) sv_vec;

/* Splits at commas outside quotes, brackets and interpolations. */
static enum st split(const struct override *o, struct sv s, sv_vec *out, struct err *e)
{
    int depth = 0;
    size_t from = 0;
    char quote = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '\\') {
            i++;
        } else if (quote) {
            quote = c == quote ? 0 : quote;
        } else if (c == '\'' || c == '"') {
            /* a quote inside bare text is part of it: it's */
            struct sv before = sv_trim((struct sv){s.p + from, i - from});
            quote = before.n == 0 || depth > 0 ? c : 0;
        } else if (strchr("[{(", c)) {
            depth++;
        } else if (strchr("]})", c)) {
            depth--;
        } else if (c == ',' && depth <= 0) {
            vec_push(out, sv_trim((struct sv){s.p + from, i - from}));
            from = i + 1;
        }
    }
    vec_push(out, sv_trim((struct sv){s.p + from, s.n - from}));
    if (out->n > 1)
        for (size_t i = 0; i < out->n; i++)
            if (out->p[i].n == 0)
                return err_set(e, ST_USAGE, "%s: %s: value %zu of '%.*s' is empty", override_source,
                               o->key, i + 1, (int)s.n, s.p);
    return ST_OK;
}

/* The text inside "name(...)" when that is all of s. */
static bool call_of(struct sv s, const char *name, struct sv *inside)
{
    size_t n = strlen(name);
    if (s.n < n + 2 || strncmp(s.p, name, n) != 0 || s.p[n] != '(' || s.p[s.n - 1] != ')')
        return false;
    *inside = sv_trim((struct sv){s.p + n + 1, s.n - n - 2});
    return true;
}

static enum st bad_range(const struct override *o, struct err *e, const char *why)
{
    err_set(e, ST_USAGE, "%s: %s: %.*s: %s", override_source, o->key, (int)o->text.n, o->text.p,
            why);
    return err_hint(e, "range(stop), range(start, stop) or range(start, stop, step); the stop is "
                       "left out");
}

static enum st range_pieces(struct arena *a, const struct override *o, const sv_vec *args,
                            sv_vec *out, struct err *e)
{
    static const char *const names[] = {"start=", "stop=", "step="};
    double v[3] = {0, NAN, 1};
    bool integers = true;
    for (size_t i = 0; i < args->n; i++) {
        struct sv arg = args->p[i];
        size_t to = args->n == 1 ? 1 : i;
        for (size_t k = 0; k < 3; k++) {
            size_t n = strlen(names[k]);
            if (arg.n > n && strncmp(arg.p, names[k], n) == 0) {
                arg = sv_trim((struct sv){arg.p + n, arg.n - n});
                to = k;
                break;
            }
        }
        int64_t whole;
        if (to > 2 || !str_double(arg, &v[to]))
            return bad_range(o, e, "the arguments are one to three numbers");
        integers = integers && str_int64(arg, &whole);
    }
    if (isnan(v[1]))
        return bad_range(o, e, "there is no stop");
    if (v[2] == 0)
        return bad_range(o, e, "the step is 0");
    double count = ceil((v[1] - v[0]) / v[2] - 1e-9);
    if (!(count >= 1))
        return bad_range(o, e, "it is empty");
    if (count > MAX_PIECES)
        return bad_range(o, e, "it has more than 10000 values");
    for (int i = 0; i < (int)count; i++) {
        char text[STR_DOUBLE_MAX];
        /* sums of a decimal step drift; 12 digits are what was meant */
        double x = v[0] + i * v[2], scale = 1e12;
        if (!integers && fabs(x) < 1e3)
            x = round(x * scale) / scale;
        str_from_double(text, x);
        bool whole = strspn(text, "-0123456789") == strlen(text);
        vec_push(out, sv_of(arena_printf(a, "%s%s", text, whole && !integers ? ".0" : "")));
    }
    return ST_OK;
}

static enum st refuse_call(const struct override *o, struct err *e)
{
    static const char *const others[] = {"interval", "glob", "sort",
                                         "shuffle",  "tag",  "extend_list"};
    struct sv inside;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (call_of(o->text, others[i], &inside)) {
            err_set(e, ST_USAGE, "%s: %s: %s() is not supported", override_source, o->key,
                    others[i]);
            return err_hint(e, "choice(a, b) and range(start, stop, step) are");
        }
    return ST_OK;
}

static enum st pieces_of(struct arena *a, const struct override *o, bool commas, sv_vec *out,
                         sv_vec *args, struct err *e)
{
    struct sv inside;
    if (call_of(o->text, "choice", &inside)) {
        if (inside.n == 0)
            return err_set(e, ST_USAGE, "%s: %s: choice() is empty", override_source, o->key);
        return split(o, inside, out, e);
    }
    if (call_of(o->text, "range", &inside)) {
        TRY(split(o, inside, args, e));
        return range_pieces(a, o, args, out, e);
    }
    TRY(refuse_call(o, e));
    if (commas)
        return split(o, o->text, out, e);
    vec_push(out, o->text);
    return ST_OK;
}

enum st override_pieces(struct arena *a, const struct override *o, bool commas, struct sv **out,
                        size_t *n, struct err *e)
{
    sv_vec pieces = {0}, args = {0};
    enum st st = pieces_of(a, o, commas, &pieces, &args, e);
    if (st == ST_OK) {
        *n = pieces.n;
        *out = arena_copy(a, pieces.p, pieces.n * sizeof *pieces.p);
    }
    vec_free(&pieces);
    vec_free(&args);
    return st;
}

/* ---- to be typed ------------------------------------------------------------------------- */

/* A text as a value of the grammar: in quotes where a character in it has a meaning there. */
static void put_value(struct buf *out, const char *text)
{
    const size_t n = strlen(text);
    const bool plain =
        n > 0 && !strpbrk(text, ",()[]{}:=\\'\"") && text[0] != ' ' && text[n - 1] != ' ';
    if (plain) {
        buf_puts(out, text);
        return;
    }
    buf_putc(out, '\'');
    for (const char *p = text; *p; p++) {
        if (*p == '\'')
            buf_putc(out, '\\');
        buf_putc(out, *p);
    }
    buf_putc(out, '\'');
}

void override_word(struct buf *out, const char *key, const char *text)
{
    struct buf value = {0};
    put_value(&value, text);
    buf_printf(out, "%s=", key);
    buf_word(out, buf_str(&value));
    buf_free(&value);
}

void override_list_word(struct buf *out, const char *key, const char *const *texts, size_t n)
{
    struct buf value = {0};
    buf_putc(&value, '[');
    for (size_t i = 0; i < n; i++) {
        buf_puts(&value, i ? "," : "");
        put_value(&value, texts[i]);
    }
    buf_putc(&value, ']');
    buf_printf(out, "%s=", key);
    buf_shell(out, buf_str(&value));
    buf_free(&value);
}
