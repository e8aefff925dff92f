#include <string.h>

#include "text/jinja/parser.h"

enum { MAX_DEPTH = 64 };

/* ---- places --------------------------------------------------------------------------------- */

/* Line and column of byte `at`; counts on from the last result where possible. */
static void place(struct parser *p, size_t at, uint32_t *line, uint32_t *column)
{
    if (p->line == 0 || at < p->placed) {
        p->placed = 0;
        p->line = p->column = 1;
    }
    for (; p->placed < at && p->placed < p->text.n; p->placed++) {
        const bool ends = p->text.p[p->placed] == '\n';
        p->column = ends ? 1 : p->column + 1;
        p->line += ends;
    }
    *line = p->line;
    *column = p->column;
}

enum st jinja_parser_fail_at(struct parser *p, size_t at, const char *fmt, ...)
{
    uint32_t line, column;
    va_list ap;
    place(p, at, &line, &column);
    va_start(ap, fmt);
    const char *text = arena_vprintf(p->a, fmt, ap);
    va_end(ap);
    return err_at(p->e, ST_INPUT, p->source, line, column, "%s", text);
}

enum st jinja_parser_enter(struct parser *p)
{
    return ++p->depth > MAX_DEPTH ? jinja_parser_fail(p, "nested more than %d deep", MAX_DEPTH)
                                  : ST_OK;
}

/* ---- tokens --------------------------------------------------------------------------------- */

char jinja_parser_peek(const struct parser *p, size_t ahead)
{
    return p->at + ahead < p->text.n ? p->text.p[p->at + ahead] : 0;
}

bool jinja_parser_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

void jinja_parser_skip(struct parser *p)
{
    while (jinja_parser_is_blank(jinja_parser_peek(p, 0)))
        p->at++;
}

/* Consumes the sign if it comes next. */
bool jinja_parser_take(struct parser *p, const char *sign)
{
    const size_t n = strlen(sign);
    jinja_parser_skip(p);
    if (p->text.n - p->at < n || memcmp(p->text.p + p->at, sign, n) != 0)
        return false;
    p->at += n;
    return true;
}

enum st jinja_parser_want(struct parser *p, const char *sign)
{
    return jinja_parser_take(p, sign) ? ST_OK : jinja_parser_fail(p, "expected '%s'", sign);
}

/* The name that comes next, not consumed. */
struct sv jinja_parser_next_name(struct parser *p)
{
    size_t n = 0;
    jinja_parser_skip(p);
    if (is_letter(jinja_parser_peek(p, 0)))
        while (is_letter(jinja_parser_peek(p, n)) || is_digit(jinja_parser_peek(p, n)))
            n++;
    return (struct sv){p->text.p + p->at, n};
}

bool jinja_parser_take_word(struct parser *p, const char *word)
{
    const struct sv name = jinja_parser_next_name(p);
    if (!sv_eq(name, word))
        return false;
    p->at += name.n;
    return true;
}

static bool is_reserved(struct sv name)
{
    static const char *const words[] = {"and", "else", "elif", "if", "in", "is", "not", "or"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (sv_eq(name, words[i]))
            return true;
    return false;
}

enum st jinja_parser_take_name(struct parser *p, struct sv *out)
{
    const struct sv name = jinja_parser_next_name(p);
    if (name.n == 0 || is_reserved(name))
        return jinja_parser_fail(p, "expected a name");
    p->at += name.n;
    *out = (struct sv){arena_strn(p->a, name.p, name.n), name.n};
    return ST_OK;
}

/* ---- expressions ---------------------------------------------------------------------------- */

static struct expr *expr_new(struct parser *p, enum expr_kind kind, struct expr *a, struct expr *b)
{
    struct expr *x = arena_one(p->a, struct expr);
    x->kind = kind;
    x->a = a;
    x->b = b;
    place(p, p->at, &x->line, &x->column);
    return x;
}

static void add_utf8(struct buf *b, unsigned c)
{
    if (c < 0x80) {
        buf_putc(b, (char)c);
    } else if (c < 0x800) {
        buf_putc(b, (char)(0xc0 | c >> 6));
        buf_putc(b, (char)(0x80 | (c & 63)));
    } else {
        buf_putc(b, (char)(0xe0 | c >> 12));
        buf_putc(b, (char)(0x80 | (c >> 6 & 63)));
        buf_putc(b, (char)(0x80 | (c & 63)));
    }
}

/* After a backslash, as in Python. */
static enum st escape(struct parser *p, struct buf *b)
{
    static const char from[] = "ntr\\'\"abfv0", to[] = "\n\t\r\\'\"\a\b\f\v";
    const char c = jinja_parser_peek(p, 0);
    const char *at = c && c != '0' ? strchr(from, c) : NULL;
    p->at++;
    if (at) {
        buf_putc(b, to[at - from]);
        return ST_OK;
    }
    if (c == '\n')
        return ST_OK;
    if (c != 'u' && c != 'x') {
        buf_putc(b, '\\');
        buf_putc(b, c);
        return ST_OK;
    }
    unsigned code = 0;
    for (int i = 0; i < (c == 'u' ? 4 : 2); i++, p->at++) {
        static const char hex[] = "0123456789abcdef";
        const char d = jinja_parser_peek(p, 0);
        const char *digit = d ? strchr(hex, d >= 'A' && d <= 'F' ? d + 32 : d) : NULL;
        if (!digit)
            return jinja_parser_fail(p, "expected a hexadecimal digit");
        code = code * 16 + (unsigned)(digit - hex);
    }
    if (code == 0 || (code >= 0xd800 && code < 0xe000))
        return jinja_parser_fail(p, "an escape of no character");
    add_utf8(b, code);
    return ST_OK;
}

static enum st string(struct parser *p, struct expr **out)
{
    const size_t begin = p->at;
    const char quote = jinja_parser_peek(p, 0);
    struct buf b = {0};
    enum st st = ST_OK;
    p->at++;
    while (st == ST_OK && p->at < p->text.n && jinja_parser_peek(p, 0) != quote) {
        const char c = jinja_parser_peek(p, 0);
        p->at++;
        if (c == '\\')
            st = escape(p, &b);
        else
            buf_putc(&b, c);
    }
    if (st == ST_OK && p->at >= p->text.n)
        st = jinja_parser_fail_at(p, begin, "a text without an end");
    p->at++;
    if (st == ST_OK) {
        *out = expr_new(p, EXPR_VALUE, NULL, NULL);
        (*out)->value = jinja_text(p->a, buf_str(&b), b.n);
    }
    buf_free(&b);
    return st;
}

static enum st number(struct parser *p, struct expr **out)
{
    size_t n = 0;
    int64_t i;
    double f;
    while (is_digit(jinja_parser_peek(p, n)))
        n++;
    if (jinja_parser_peek(p, n) == '.' && is_digit(jinja_parser_peek(p, n + 1)))
        for (n++; is_digit(jinja_parser_peek(p, n));)
            n++;
    size_t e = n + 1;
    e += jinja_parser_peek(p, n) == 'e' &&
         (jinja_parser_peek(p, e) == '+' || jinja_parser_peek(p, e) == '-');
    if (jinja_parser_peek(p, n) == 'e' && is_digit(jinja_parser_peek(p, e)))
        for (n = e; is_digit(jinja_parser_peek(p, n));)
            n++;
    const struct sv digits = {p->text.p + p->at, n};
    *out = expr_new(p, EXPR_VALUE, NULL, NULL);
    if (str_int64(digits, &i))
        (*out)->value = node_int(p->a, i);
    else if ((memchr(digits.p, '.', n) || memchr(digits.p, 'e', n)) && str_double(digits, &f))
        (*out)->value = node_float(p->a, f);
    else
        return jinja_parser_fail(p, "a number that is too large");
    p->at += n;
    return ST_OK;
}

/* Room doubles at powers of two. */
static struct arg *add_arg(struct parser *p, struct expr *to)
{
    const size_t n = to->n_args;
    if ((n & (n - 1)) == 0) {
        struct arg *more = arena_array(p->a, struct arg, n ? 2 * n : 1);
        for (size_t i = 0; i < n; i++)
            more[i] = to->args[i];
        to->args = more;
    }
    return &to->args[to->n_args++];
}

/* Arguments up to the closing sign, which is consumed. pairs: key and value of a map. named:
 * NAME=value is allowed. */
static enum st arguments(struct parser *p, const char *close, bool pairs, bool named,
                         struct expr *to)
{
    while (!jinja_parser_take(p, close)) {
        if (to->n_args > 0) {
            TRY(jinja_parser_want(p, ","));
            if (jinja_parser_take(p, close))
                break;
        }
        struct arg *x = add_arg(p, to);
        const size_t begin = p->at;
        const struct sv name = jinja_parser_next_name(p);
        p->at += name.n;
        if (named && name.n > 0 && jinja_parser_take(p, "=") && jinja_parser_peek(p, 0) != '=')
            x->name = (struct sv){arena_strn(p->a, name.p, name.n), name.n};
        else
            p->at = begin;
        TRY(jinja_parser_expression(p, &x->value));
        if (pairs) {
            TRY(jinja_parser_want(p, ":"));
            TRY(jinja_parser_expression(p, &add_arg(p, to)->value));
        }
    }
    return ST_OK;
}

/* A call of the function `name` (at byte `at`), with its arguments when "(" was consumed. */
static enum st call(struct parser *p, size_t at, enum function_kind kind, struct sv name,
                    bool braces, struct expr *x)
{
    static const char *const kinds[] = {"filter", "test", "method", "function"};
    x->name = name;
    x->function = jinja_function_find(kind, name);
    if (!x->function)
        return jinja_parser_fail_at(p, at, "%s %s: not done here", kinds[kind], name.p);
    if (braces)
        TRY(arguments(p, ")", false, true, x));
    if (x->n_args > x->function->most)
        return jinja_parser_fail_at(p, at, "%s %s: takes %zu arguments at most", kinds[kind],
                                    name.p, x->function->most);
    return ST_OK;
}

static enum st named(struct parser *p, struct expr **out)
{
    static const char *const words[] = {"true", "True", "false", "False", "none", "None"};
    struct sv name;
    TRY(jinja_parser_take_name(p, &name));
    const size_t at = p->at - name.n;
    if (jinja_parser_take(p, "(")) {
        *out = expr_new(p, EXPR_CALL, NULL, NULL);
        return call(p, at, IS_FUNCTION, name, true, *out);
    }
    *out = expr_new(p, EXPR_NAME, NULL, NULL);
    (*out)->name = name;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (sv_eq(name, words[i])) {
            (*out)->kind = EXPR_VALUE;
            (*out)->value = i < 4 ? node_bool(p->a, i < 2) : node_new(p->a, NODE_NULL);
        }
    return ST_OK;
}

/* A tuple is a list. */
static enum st in_braces(struct parser *p, struct expr **out)
{
    if (jinja_parser_take(p, ")")) {
        *out = expr_new(p, EXPR_LIST, NULL, NULL);
        return ST_OK;
    }
    TRY(jinja_parser_expression(p, out));
    if (jinja_parser_take(p, ")"))
        return ST_OK;
    struct expr *first = *out;
    TRY(jinja_parser_want(p, ","));
    struct expr *list = *out = expr_new(p, EXPR_LIST, NULL, NULL);
    TRY(arguments(p, ")", false, false, list));
    add_arg(p, list);
    for (size_t i = list->n_args - 1; i > 0; i--)
        list->args[i] = list->args[i - 1];
    list->args[0].value = first;
    return ST_OK;
}

static enum st primary(struct parser *p, struct expr **out)
{
    jinja_parser_skip(p);
    const char c = jinja_parser_peek(p, 0);
    if (c == '"' || c == '\'') {
        TRY(string(p, out));
        for (jinja_parser_skip(p);
             jinja_parser_peek(p, 0) == '"' || jinja_parser_peek(p, 0) == '\'';
             jinja_parser_skip(p)) { /* one after another */
            struct expr *more, *both = expr_new(p, EXPR_OP, *out, NULL);
            TRY(string(p, &more));
            both->op = OP_PLUS;
            both->b = more;
            *out = both;
        }
        return ST_OK;
    }
    if (is_digit(c))
        return number(p, out);
    if (jinja_parser_take(p, "("))
        return in_braces(p, out);
    if (jinja_parser_take(p, "[")) {
        *out = expr_new(p, EXPR_LIST, NULL, NULL);
        return arguments(p, "]", false, false, *out);
    }
    if (jinja_parser_take(p, "{")) {
        *out = expr_new(p, EXPR_MAP, NULL, NULL);
        return arguments(p, "}", true, false, *out);
    }
    return named(p, out);
}

/* Parses the rest of a subscript, behind "[". */
static enum st subscript(struct parser *p, struct expr **of)
{
    struct expr *x = expr_new(p, EXPR_INDEX, *of, NULL);
    struct expr **parts[] = {&x->b, &x->c, &x->d};
    *of = x;
    for (int i = 0; i < 3; i++) {
        jinja_parser_skip(p);
        if (jinja_parser_peek(p, 0) != ':' && jinja_parser_peek(p, 0) != ']')
            TRY(jinja_parser_expression(p, parts[i]));
        if (!jinja_parser_take(p, ":"))
            break;
        x->kind = EXPR_SLICE;
    }
    if (x->kind == EXPR_INDEX && !x->b)
        return jinja_parser_fail(p, "expected an index");
    return jinja_parser_want(p, "]");
}

static enum st member(struct parser *p, struct expr **of)
{
    struct sv name;
    TRY(jinja_parser_take_name(p, &name));
    const size_t at = p->at - name.n;
    if (jinja_parser_take(p, "(")) {
        *of = expr_new(p, EXPR_METHOD, *of, NULL);
        return call(p, at, IS_METHOD, name, true, *of);
    }
    *of = expr_new(p, EXPR_MEMBER, *of, NULL);
    (*of)->name = name;
    return ST_OK;
}

static enum st test(struct parser *p, struct expr **of)
{
    const bool not = jinja_parser_take_word(p, "not");
    struct sv name = jinja_parser_next_name(p); /* "in" is a test, too, and no name elsewhere */
    const size_t at = p->at;
    p->at += name.n;
    name.p = arena_strn(p->a, name.p, name.n);
    *of = expr_new(p, EXPR_TEST, *of, NULL);
    TRY(call(p, at, IS_TEST, name, jinja_parser_take(p, "("), *of));
    if (not )
        *of = expr_new(p, EXPR_NOT, *of, NULL);
    return ST_OK;
}

/* Parses what follows a value: members, subscripts, filters, tests. */
static enum st tail(struct parser *p, bool filters, struct expr **of)
{
    for (;;) {
        jinja_parser_skip(p);
        if (jinja_parser_peek(p, 0) == '.' && is_letter(jinja_parser_peek(p, 1))) {
            p->at++;
            TRY(member(p, of));
        } else if (jinja_parser_take(p, "[")) {
            TRY(subscript(p, of));
        } else if (filters && jinja_parser_take(p, "|")) {
            struct sv name;
            TRY(jinja_parser_take_name(p, &name));
            const size_t at = p->at - name.n;
            *of = expr_new(p, EXPR_FILTER, *of, NULL);
            TRY(call(p, at, IS_FILTER, name, jinja_parser_take(p, "("), *of));
        } else if (filters && jinja_parser_take_word(p, "is")) {
            TRY(test(p, of));
        } else {
            return jinja_parser_peek(p, 0) == '('
                       ? jinja_parser_fail(p, "only names can be called here")
                       : ST_OK;
        }
    }
}

static enum st unary(struct parser *p, bool filters, struct expr **out)
{
    TRY(jinja_parser_enter(p));
    jinja_parser_skip(p);
    if (jinja_parser_peek(p, 0) == '-' && jinja_parser_peek(p, 1) != '%' &&
        jinja_parser_peek(p, 1) != '}' && jinja_parser_take(p, "-")) {
        struct expr *of;
        TRY(unary(p, false, &of));
        *out = expr_new(p, EXPR_MINUS, of, NULL);
    } else {
        TRY(primary(p, out));
    }
    p->depth--;
    return tail(p, filters, out);
}

struct level_op {
    const char *sign;
    enum jinja_op op;
};

/* Left-associative operators of one level; "-%}" ends a tag and is no minus. */
static enum st level(struct parser *p, const struct level_op *ops, size_t n,
                     enum st (*next)(struct parser *, struct expr **), struct expr **out)
{
    TRY(next(p, out));
    for (;;) {
        size_t i = 0;
        jinja_parser_skip(p);
        const bool ends = (jinja_parser_peek(p, 0) == '-' || jinja_parser_peek(p, 0) == '+' ||
                           jinja_parser_peek(p, 0) == '%') &&
                          (jinja_parser_peek(p, 1) == '}' ||
                           (jinja_parser_peek(p, 1) == '%' && jinja_parser_peek(p, 2) == '}'));
        while (i < n && (ends || !jinja_parser_take(p, ops[i].sign)))
            i++;
        if (i == n)
            return ST_OK;
        *out = expr_new(p, EXPR_OP, *out, NULL);
        (*out)->op = ops[i].op;
        TRY(next(p, &(*out)->b));
    }
}

static enum st value(struct parser *p, struct expr **out)
{
    return unary(p, true, out);
}

static enum st products(struct parser *p, struct expr **out)
{
    static const struct level_op ops[] = {
        {"//", OP_FLOOR}, {"*", OP_TIMES}, {"/", OP_DIVIDE}, {"%", OP_MODULO}};
    return level(p, ops, 4, value, out);
}

static enum st joined(struct parser *p, struct expr **out)
{
    static const struct level_op ops[] = {{"~", OP_JOIN}};
    return level(p, ops, 1, products, out);
}

static enum st sums(struct parser *p, struct expr **out)
{
    static const struct level_op ops[] = {{"+", OP_PLUS}, {"-", OP_MINUS}};
    return level(p, ops, 2, joined, out);
}

static bool take_comparison(struct parser *p, enum jinja_op *out)
{
    static const struct level_op ops[] = {{"==", OP_EQ}, {"!=", OP_NE}, {"<=", OP_LE},
                                          {">=", OP_GE}, {"<", OP_LT},  {">", OP_GT}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (jinja_parser_take(p, ops[i].sign)) {
            *out = ops[i].op;
            return true;
        }
    const size_t begin = p->at;
    *out = jinja_parser_take_word(p, "not") ? OP_NOT_IN : OP_IN;
    if (jinja_parser_take_word(p, "in"))
        return true;
    p->at = begin;
    return false;
}

static enum st comparison(struct parser *p, struct expr **out)
{
    struct expr *left, *all = NULL;
    enum jinja_op op;
    TRY(sums(p, &left));
    while (take_comparison(p, &op)) { /* a < b < c is a < b and b < c */
        struct expr *x = expr_new(p, EXPR_OP, left, NULL);
        x->op = op;
        TRY(sums(p, &x->b));
        left = x->b;
        all = all ? expr_new(p, EXPR_AND, all, x) : x;
    }
    *out = all ? all : left;
    return ST_OK;
}

static enum st negation(struct parser *p, struct expr **out)
{
    if (!jinja_parser_take_word(p, "not"))
        return comparison(p, out);
    struct expr *of;
    TRY(jinja_parser_enter(p));
    TRY(negation(p, &of));
    p->depth--;
    *out = expr_new(p, EXPR_NOT, of, NULL);
    return ST_OK;
}

static enum st conjunction(struct parser *p, struct expr **out)
{
    TRY(negation(p, out));
    while (jinja_parser_take_word(p, "and")) {
        *out = expr_new(p, EXPR_AND, *out, NULL);
        TRY(negation(p, &(*out)->b));
    }
    return ST_OK;
}

enum st jinja_parser_disjunction(struct parser *p, struct expr **out)
{
    TRY(conjunction(p, out));
    while (jinja_parser_take_word(p, "or")) {
        *out = expr_new(p, EXPR_OR, *out, NULL);
        TRY(conjunction(p, &(*out)->b));
    }
    return ST_OK;
}

enum st jinja_parser_expression(struct parser *p, struct expr **out)
{
    TRY(jinja_parser_enter(p));
    TRY(jinja_parser_disjunction(p, out));
    while (jinja_parser_take_word(p, "if")) {
        *out = expr_new(p, EXPR_IF, *out, NULL);
        TRY(jinja_parser_disjunction(p, &(*out)->b));
        if (jinja_parser_take_word(p, "else"))
            TRY(jinja_parser_expression(p, &(*out)->c));
    }
    p->depth--;
    return ST_OK;
}
