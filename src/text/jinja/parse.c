#include <string.h>

#include "text/jinja/parser.h"

enum { MAX_BYTES = 1 << 20 };

static enum st body(struct parser *p, const char *const *ends, struct statement **out,
                    struct sv *end);

/* ---- text and tags --------------------------------------------------------------------------- */

/* After the sign that closes a tag; cut: "-" stood before it. Blocks consume the line's end too. */
static void after_tag(struct parser *p, bool cut, bool block)
{
    const size_t begin = p->at;
    while (cut && jinja_parser_is_blank(jinja_parser_peek(p, 0)))
        p->at++;
    if (!cut && block && jinja_parser_peek(p, 0) == '\n')
        p->at++;
    p->line_starts = p->at > begin && p->text.p[p->at - 1] == '\n';
}

/* The sign that closes a tag: "%}" or "}}". */
static enum st close_tag(struct parser *p, const char *sign)
{
    jinja_parser_skip(p);
    const char mark = jinja_parser_peek(p, 0);
    const bool cut = mark == '-', marked = cut || mark == '+';
    p->at += marked;
    if (jinja_parser_peek(p, 0) != sign[0] || jinja_parser_peek(p, 1) != sign[1]) {
        p->at -= marked;
        return jinja_parser_fail(p, "expected '%s'", sign);
    }
    p->at += 2;
    after_tag(p, cut, sign[0] == '%' && mark != '+');
    return ST_OK;
}

/* Where the next tag begins, or the end. */
static size_t find_tag(const struct parser *p)
{
    size_t at = p->at;
    while (at < p->text.n && !(p->text.p[at] == '{' && at + 1 < p->text.n &&
                               strchr("{%#", p->text.p[at + 1]) && p->text.p[at + 1]))
        at++;
    return at;
}

/* The text before a tag, without the white space that the tag strips. */
static struct sv text_before(const struct parser *p, size_t tag)
{
    struct sv s = {p->text.p + p->at, tag - p->at};
    if (tag == p->text.n)
        return s;
    const char mark = tag + 2 < p->text.n ? p->text.p[tag + 2] : 0;
    if (mark == '-') {
        while (s.n > 0 && jinja_parser_is_blank(s.p[s.n - 1]))
            s.n--;
    } else if (mark != '+' && p->text.p[tag + 1] != '{') {
        size_t n = s.n;
        while (n > 0 && (s.p[n - 1] == ' ' || s.p[n - 1] == '\t'))
            n--;
        if (n > 0 ? s.p[n - 1] == '\n' : p->line_starts)
            s.n = n;
    }
    return s;
}

static enum st skip_comment(struct parser *p)
{
    const size_t begin = p->at;
    for (p->at += 2; p->at < p->text.n; p->at++)
        if (jinja_parser_peek(p, 0) == '#' && jinja_parser_peek(p, 1) == '}') {
            const bool cut = p->text.p[p->at - 1] == '-';
            p->at += 2;
            after_tag(p, cut, true);
            return ST_OK;
        }
    return jinja_parser_fail_at(p, begin, "a comment without an end");
}

/* ---- statements ----------------------------------------------------------------------------- */

static enum st if_tag(struct parser *p, struct statement *s)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL}, *const last[] = {"endif",
                                                                                        NULL};
    struct sv end;
    s->kind = DO_IF;
    TRY(jinja_parser_expression(p, &s->value));
    TRY(close_tag(p, "%}"));
    TRY(body(p, ends, &s->body, &end));
    if (sv_eq(end, "elif")) {
        s->otherwise = arena_one(p->a, struct statement);
        TRY(jinja_parser_enter(p));
        TRY(if_tag(p, s->otherwise)); /* consumes our endif */
        p->depth--;
        return ST_OK;
    }
    TRY(close_tag(p, "%}"));
    if (sv_eq(end, "else")) {
        TRY(body(p, last, &s->otherwise, &end));
        TRY(close_tag(p, "%}"));
    }
    return ST_OK;
}

static enum st for_tag(struct parser *p, struct statement *s)
{
    static const char *const ends[] = {"else", "endfor", NULL}, *const last[] = {"endfor", NULL};
    struct sv end;
    s->kind = DO_FOR;
    TRY(jinja_parser_take_name(p, &s->names[0]));
    s->n_names = 1;
    if (jinja_parser_take(p, ",")) {
        TRY(jinja_parser_take_name(p, &s->names[1]));
        s->n_names = 2;
    }
    if (!jinja_parser_take_word(p, "in"))
        return jinja_parser_fail(p, "expected 'in'");
    TRY(jinja_parser_disjunction(p, &s->value));
    if (jinja_parser_take_word(p, "if"))
        TRY(jinja_parser_expression(p, &s->only));
    TRY(close_tag(p, "%}"));
    TRY(body(p, ends, &s->body, &end));
    TRY(close_tag(p, "%}"));
    if (sv_eq(end, "else")) {
        TRY(body(p, last, &s->otherwise, &end));
        TRY(close_tag(p, "%}"));
    }
    return ST_OK;
}

static enum st set_tag(struct parser *p, struct statement *s)
{
    static const char *const ends[] = {"endset", NULL};
    struct sv end;
    s->kind = DO_SET;
    TRY(jinja_parser_take_name(p, &s->names[0]));
    s->n_names = 1;
    if (jinja_parser_peek(p, 0) == '.') {
        p->at++;
        TRY(jinja_parser_take_name(p, &s->names[1]));
        s->n_names = 2;
    }
    if (jinja_parser_take(p, "=")) {
        TRY(jinja_parser_expression(p, &s->value));
        return close_tag(p, "%}");
    }
    TRY(close_tag(p, "%}"));
    TRY(body(p, ends, &s->body, &end));
    return close_tag(p, "%}");
}

static enum st generation_tag(struct parser *p, struct statement *s)
{
    static const char *const ends[] = {"endgeneration", NULL};
    struct sv end;
    s->kind = DO_BLOCK;
    TRY(close_tag(p, "%}"));
    TRY(body(p, ends, &s->body, &end));
    return close_tag(p, "%}");
}

/* After "{%"; *end is the word when it is one of ends. */
static enum st tag(struct parser *p, const char *const *ends, struct statement **out,
                   struct sv *end)
{
    static const struct {
        const char *word;
        enum st (*read)(struct parser *p, struct statement *s);
    } tags[] = {{"if", if_tag}, {"for", for_tag}, {"set", set_tag}, {"generation", generation_tag}};
    const struct sv word = jinja_parser_next_name(p);
    *end = (struct sv){NULL, 0};
    for (; ends && *ends; ends++)
        if (sv_eq(word, *ends)) {
            p->at += word.n;
            *end = word;
            return ST_OK;
        }
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (jinja_parser_take_word(p, tags[i].word)) {
            *out = arena_one(p->a, struct statement);
            return tags[i].read(p, *out);
        }
    return jinja_parser_fail(p, "tag %.*s: not done here", (int)(word.n < 40 ? word.n : 40),
                             word.p);
}

static struct statement *text_statement(struct parser *p, struct sv text)
{
    struct statement *s = arena_one(p->a, struct statement);
    s->kind = DO_TEXT;
    s->text = text;
    return s;
}

static enum st print_tag(struct parser *p, struct statement **out)
{
    struct statement *s = *out = arena_one(p->a, struct statement);
    s->kind = DO_PRINT;
    TRY(jinja_parser_expression(p, &s->value));
    return close_tag(p, "}}");
}

/* Statements up to one of the end words, which is consumed, or (ends NULL) the end of the text. */
static enum st body(struct parser *p, const char *const *ends, struct statement **out,
                    struct sv *end)
{
    struct statement **last = out;
    *out = NULL;
    TRY(jinja_parser_enter(p));
    for (;;) {
        const size_t at = find_tag(p);
        const struct sv text = text_before(p, at);
        if (text.n > 0) {
            *last = text_statement(p, text);
            last = &(*last)->next;
        }
        p->at = at;
        if (at == p->text.n)
            break;
        if (jinja_parser_peek(p, 1) == '#') {
            TRY(skip_comment(p));
            continue;
        }
        const bool print = jinja_parser_peek(p, 1) == '{',
                   marked = jinja_parser_peek(p, 2) == '-' || jinja_parser_peek(p, 2) == '+';
        p->at += marked ? 3 : 2;
        TRY(print ? print_tag(p, last) : tag(p, ends, last, end));
        if (!print && end->p) {
            p->depth--;
            return ST_OK;
        }
        last = &(*last)->next;
    }
    p->depth--;
    return ends ? jinja_parser_fail(p, "the text ends where %s was expected", ends[0]) : ST_OK;
}

enum st jinja_parse(struct arena *a, const char *source, struct sv text, struct jinja **out,
                    struct err *e)
{
    struct sv end = {NULL, 0};
    if (text.n > MAX_BYTES)
        return err_set(e, ST_INPUT, "%s: a template of %zu bytes is over the limit of %d", source,
                       text.n, MAX_BYTES);
    char *copy = arena_alloc(a, text.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] != '\r' || i + 1 == text.n || text.p[i + 1] != '\n')
            copy[n++] = text.p[i];
    n -= n > 0 && copy[n - 1] == '\n'; /* as Jinja does */
    struct parser p = {
        .a = a, .source = arena_str(a, source), .text = {copy, n}, .line_starts = true, .e = e};
    struct jinja *program = *out = arena_one(a, struct jinja);
    program->source = p.source;
    return body(&p, NULL, &program->first, &end);
}
