/* Text of a snapshot. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "metrics/prometheus.h"

struct prom_parser {
    struct arena *a;
    struct prom_snapshot *out;
    struct sv text; /* of the line, without its end */
    size_t at;
    long number;
    bool ended; /* "# EOF" came */
    VEC(struct prom_sample) samples;
    VEC(struct prom_label) labels; /* of the line */
    struct buf key;
};

static enum st fault(const struct prom_parser *c, struct err *e, const char *what)
{
    err_at(e, ST_INPUT, c->out->source, c->number, (long)c->at + 1, "Prometheus text: %s", what);
    return err_hint(e, "a sample is NAME{LABEL=\"VALUE\",...} VALUE");
}

static bool at_end(const struct prom_parser *c)
{
    return c->at >= c->text.n;
}

static char peek(const struct prom_parser *c)
{
    return at_end(c) ? 0 : c->text.p[c->at];
}

static void skip_blanks(struct prom_parser *c)
{
    while (peek(c) == ' ' || peek(c) == '\t')
        c->at++;
}

static bool is_letter(char x)
{
    return (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z') || x == '_';
}

/* A name; those of metrics may have colons. Empty: there is none. */
static struct sv take_name(struct prom_parser *c, bool colons)
{
    const size_t from = c->at;
    for (; !at_end(c); c->at++) {
        const char x = peek(c);
        const bool digit = x >= '0' && x <= '9';
        if (!is_letter(x) && !(colons && x == ':') && !(digit && c->at > from))
            break;
    }
    return (struct sv){c->text.p + from, c->at - from};
}

/* Up to a blank, or `end`. */
static struct sv take_word(struct prom_parser *c, char end)
{
    const size_t from = c->at;
    while (!at_end(c) && peek(c) != ' ' && peek(c) != '\t' && peek(c) != end)
        c->at++;
    return (struct sv){c->text.p + from, c->at - from};
}

static enum st take_value(struct prom_parser *c, double *out, struct err *e)
{
    const size_t from = c->at;
    struct sv word = take_word(c, 0);
    const bool negative = word.n && word.p[0] == '-';
    if (word.n > 1 && word.p[0] == '+' && word.p[1] != '-')
        word = (struct sv){word.p + 1, word.n - 1};
    *out = (double)NAN;
    if (sv_eq(word, "NaN") || str_double(word, out))
        return ST_OK;
    if (sv_eq(word, "Inf") || sv_eq(word, "-Inf")) {
        *out = negative ? -(double)INFINITY : (double)INFINITY;
        return ST_OK;
    }
    c->at = from;
    return fault(c, e, "expected a value");
}

/* The text between quotes. Only a value with escapes is copied. */
static enum st take_quoted(struct prom_parser *c, struct sv *out, struct err *e)
{
    if (peek(c) != '"')
        return fault(c, e, "expected \"");
    const size_t from = ++c->at;
    size_t escapes = 0;
    for (; !at_end(c) && peek(c) != '"'; c->at++) {
        if (peek(c) != '\\')
            continue;
        c->at++;
        if (peek(c) != '\\' && peek(c) != '"' && peek(c) != 'n')
            return fault(c, e, "expected \\\\, \\\" or \\n");
        escapes++;
    }
    if (at_end(c))
        return fault(c, e, "expected \"");
    *out = (struct sv){c->text.p + from, c->at++ - from};
    if (escapes == 0)
        return ST_OK;
    char *copy = arena_alloc(c->a, out->n);
    size_t n = 0;
    for (size_t i = 0; i < out->n; i++) {
        const bool escaped = out->p[i] == '\\';
        i += escaped;
        copy[n++] = escaped && out->p[i] == 'n' ? '\n' : out->p[i];
    }
    *out = (struct sv){copy, n};
    return ST_OK;
}

static int by_name(const void *x, const void *y)
{
    const struct prom_label *a = x, *b = y;
    const size_t n = a->name.n < b->name.n ? a->name.n : b->name.n;
    const int order = memcmp(a->name.p, b->name.p, n);
    return order ? order : (a->name.n > b->name.n) - (a->name.n < b->name.n);
}

static bool sv_same(struct sv a, struct sv b)
{
    return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

/* {a="b",...}, a comma before the brace too. */
static enum st take_labels(struct prom_parser *c, struct err *e)
{
    vec_clear(&c->labels);
    if (peek(c) != '{')
        return ST_OK;
    c->at++;
    for (;;) {
        struct prom_label label;
        skip_blanks(c);
        if (peek(c) == '}')
            break;
        label.name = take_name(c, false);
        if (label.name.n == 0)
            return fault(c, e, "expected the name of a label, or }");
        skip_blanks(c);
        if (peek(c) != '=')
            return fault(c, e, "expected =");
        c->at++;
        skip_blanks(c);
        TRY(take_quoted(c, &label.value, e));
        vec_push(&c->labels, label);
        skip_blanks(c);
        if (peek(c) == ',')
            c->at++;
        else if (peek(c) != '}')
            return fault(c, e, "expected , or }");
    }
    c->at++;
    if (c->labels.n > 1)
        qsort(c->labels.p, c->labels.n, sizeof *c->labels.p, by_name);
    for (size_t i = 1; i < c->labels.n; i++)
        if (sv_same(c->labels.p[i].name, c->labels.p[i - 1].name))
            return fault(c, e, "a label is there twice");
    return ST_OK;
}

/* An exemplar behind a sample: read, and not kept. */
static enum st skip_exemplar(struct prom_parser *c, struct err *e)
{
    double ignored;
    skip_blanks(c);
    if (peek(c) != '#')
        return ST_OK;
    c->at++;
    skip_blanks(c);
    if (peek(c) != '{')
        return fault(c, e, "expected { of an exemplar");
    TRY(take_labels(c, e));
    skip_blanks(c);
    TRY(take_value(c, &ignored, e));
    skip_blanks(c);
    return at_end(c) ? ST_OK : take_value(c, &ignored, e);
}

/* Name and labels of a series, told from every other's: lengths lead the texts. */
static void write_key(struct buf *key, struct sv name, const struct prom_label *labels, size_t n)
{
    buf_clear(key);
    buf_add(key, name.p, name.n);
    for (size_t i = 0; i < n; i++) {
        buf_printf(key, "|%zu,%zu:", labels[i].name.n, labels[i].value.n);
        buf_add(key, labels[i].name.p, labels[i].name.n);
        buf_add(key, labels[i].value.p, labels[i].value.n);
    }
}

static enum st keep_sample(struct prom_parser *c, struct prom_sample *x, struct err *e)
{
    bool is_new;
    write_key(&c->key, x->name, x->labels, x->n_labels);
    struct map_entry *entry = map_put(&c->out->series, buf_str(&c->key), c->key.n, &is_new);
    if (!is_new) {
        c->at = 0;
        return fault(
            c, e,
            arena_printf(c->a, "the same series is in line %ld", c->samples.p[entry->i].line));
    }
    entry->i = (int64_t)c->samples.n;
    x->key = (struct sv){entry->key, entry->key_len};
    vec_push(&c->samples, *x);
    return ST_OK;
}

static enum st read_sample(struct prom_parser *c, struct err *e)
{
    struct prom_sample x = {.line = c->number};
    double timestamp;
    if (c->ended)
        return fault(c, e, "a sample after # EOF");
    x.name = take_name(c, true);
    if (x.name.n == 0)
        return fault(c, e, "expected the name of a metric");
    skip_blanks(c);
    TRY(take_labels(c, e));
    x.n_labels = (uint32_t)c->labels.n;
    x.labels = arena_copy(c->a, c->labels.p, c->labels.n * sizeof *c->labels.p);
    skip_blanks(c);
    TRY(take_value(c, &x.value, e));
    skip_blanks(c);
    if (!at_end(c) && peek(c) != '#')
        TRY(take_value(c, &timestamp, e));
    TRY(skip_exemplar(c, e));
    skip_blanks(c);
    if (!at_end(c))
        return fault(c, e, "expected the end of the line");
    return keep_sample(c, &x, e);
}

/* "# TYPE name kind"; other comments are skipped. */
static enum st read_comment(struct prom_parser *c, struct err *e)
{
    bool is_new;
    c->at++;
    skip_blanks(c);
    const struct sv word = take_word(c, 0);
    if (sv_eq(word, "EOF"))
        c->ended = true;
    if (!sv_eq(word, "TYPE"))
        return ST_OK;
    skip_blanks(c);
    const struct sv name = take_name(c, true);
    if (name.n == 0)
        return fault(c, e, "expected the name of a metric");
    skip_blanks(c);
    const size_t at = c->at;
    const struct sv kind = take_word(c, 0);
    if (kind.n == 0)
        return fault(c, e, "expected the kind of a metric");
    struct map_entry *entry = map_put(&c->out->types, name.p, name.n, &is_new);
    if (is_new)
        entry->p = arena_strn(c->a, kind.p, kind.n);
    c->at = at;
    if (!sv_eq(kind, entry->p))
        return fault(c, e,
                     arena_printf(c->a, "TYPE of %.*s was %s before", (int)name.n, name.p,
                                  (const char *)entry->p));
    return ST_OK;
}

static enum st read_lines(struct prom_parser *c, struct sv text, struct err *e)
{
    while (text.n) {
        const char *end = memchr(text.p, '\n', text.n);
        const size_t n = end ? (size_t)(end - text.p) : text.n;
        c->text = (struct sv){text.p, n && text.p[n - 1] == '\r' ? n - 1 : n};
        c->at = 0;
        c->number++;
        skip_blanks(c);
        if (peek(c) == '#')
            TRY(read_comment(c, e));
        else if (!at_end(c))
            TRY(read_sample(c, e));
        text.p += end ? n + 1 : n;
        text.n -= end ? n + 1 : n;
    }
    return ST_OK;
}

enum st prom_parse(struct arena *a, const char *source, struct sv text, struct prom_snapshot *out,
                   struct err *e)
{
    struct prom_parser c = {.a = a, .out = out};
    *out = (struct prom_snapshot){.source = arena_str(a, source)};
    map_init(&out->types, a);
    map_init(&out->series, a);
    const enum st st = read_lines(&c, (struct sv){arena_strn(a, text.p, text.n), text.n}, e);
    out->n = c.samples.n;
    out->of = arena_copy(a, c.samples.p, c.samples.n * sizeof *c.samples.p);
    vec_free(&c.samples);
    vec_free(&c.labels);
    buf_free(&c.key);
    return st;
}
