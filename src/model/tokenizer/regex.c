#include "model/tokenizer/regex.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "model/tokenizer/utf8.h"

/* ---- rewriting ------------------------------------------------------------------------------- */

#define SPACE_SET "\\t-\\r\\x{85}\\p{Z}" /* PCRE2's own \s takes U+180E too */

struct rewrite {
    struct sv in;
    size_t at;
    struct buf *out;
    struct err *e;
};

static enum st refuse(const struct rewrite *r, const char *what)
{
    return err_set(r->e, ST_INPUT, "%s at byte %zu of the pattern is not supported", what, r->at);
}

static int peek(const struct rewrite *r, size_t ahead)
{
    return r->at + ahead < r->in.n ? (unsigned char)r->in.p[r->at + ahead] : -1;
}

static bool looking_at(const struct rewrite *r, const char *s)
{
    size_t n = strlen(s);
    return r->in.n - r->at >= n && memcmp(r->in.p + r->at, s, n) == 0;
}

static void copy(struct rewrite *r, size_t n)
{
    buf_add(r->out, r->in.p + r->at, n);
    r->at += n;
}

static bool is_alnum(int c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* \p{..}, \x{..}: copied with their braces; PCRE2 checks their content. */
static enum st copy_braced(struct rewrite *r)
{
    const char *close = memchr(r->in.p + r->at, '}', r->in.n - r->at);
    if (peek(r, 2) != '{' || !close)
        return refuse(r, "an escape without {..}");
    copy(r, (size_t)(close - (r->in.p + r->at)) + 1);
    return ST_OK;
}

static bool is_hex(int c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* \xHH and \uHHHH */
static enum st put_hex(struct rewrite *r, size_t digits)
{
    for (size_t i = 0; i < digits; i++)
        if (!is_hex(peek(r, 2 + i)))
            return refuse(r, "a malformed hexadecimal escape");
    buf_printf(r->out, "\\x{%.*s}", (int)digits, r->in.p + r->at + 2);
    r->at += 2 + digits;
    return ST_OK;
}

static enum st put_escape(struct rewrite *r, bool in_class)
{
    int c = peek(r, 1);
    const char *text = NULL;
    switch (c) {
    case 's':
        text = in_class ? SPACE_SET : "[" SPACE_SET "]";
        break;
    case 'S':
        text = in_class ? NULL : "[^" SPACE_SET "]";
        break;
    case 'v':
        text = "\\x0b";
        break;
    case 'A':
    case 'z':
        text = in_class ? NULL : c == 'A' ? "\\A" : "\\z";
        break;
    case 'p':
    case 'P':
        return copy_braced(r);
    case 'x':
        return peek(r, 2) == '{' ? copy_braced(r) : put_hex(r, 2);
    case 'u':
        return put_hex(r, 4);
    case 'd':
    case 'D':
    case 'r':
    case 'n':
    case 't':
    case 'f':
    case 'a':
    case 'e':
        copy(r, 2);
        return ST_OK;
    default:
        if (c < 0 || is_alnum(c) || c >= 0x80)
            break;
        copy(r, 2);
        return ST_OK;
    }
    char what[16] = "the escape \\?";
    if (!text) {
        what[12] = c >= 0x20 && c < 0x7f ? (char)c : '?';
        return refuse(r, what);
    }
    buf_puts(r->out, text);
    r->at += 2;
    return ST_OK;
}

/* The inside of a class up to and with its ]; an inner positive class adds to the outer one. */
static enum st put_class_items(struct rewrite *r)
{
    int depth = 1;
    if (peek(r, 0) == ']')
        return refuse(r, "an empty class");
    while (depth > 0) {
        int c = peek(r, 0);
        if (c < 0)
            return refuse(r, "a class without its ]");
        if (c == ']') {
            depth--;
            r->at++;
        } else if (looking_at(r, "[^") || looking_at(r, "[:") || looking_at(r, "[]")) {
            return refuse(r, "this class inside a class");
        } else if (c == '[') {
            depth++;
            r->at++;
        } else if (looking_at(r, "&&")) {
            return refuse(r, "&&");
        } else if (c == '\\') {
            TRY(put_escape(r, true));
        } else {
            copy(r, 1);
        }
    }
    return ST_OK;
}

static enum st put_class(struct rewrite *r)
{
    copy(r, peek(r, 1) == '^' ? 2 : 1);
    TRY(put_class_items(r));
    buf_putc(r->out, ']');
    return ST_OK;
}

static enum st put_group(struct rewrite *r)
{
    static const char *const known[] = {
        "(?:", "(?i:", "(?-i:", "(?i)", "(?=", "(?!", "(?<=", "(?<!", "(?>"};
    if (peek(r, 1) != '?') {
        copy(r, 1);
        return ST_OK;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (looking_at(r, known[i])) {
            copy(r, strlen(known[i]));
            return ST_OK;
        }
    }
    return refuse(r, "this kind of group");
}

/* {n}, {n,}, {n,m}; Ruby has {,m} as well, and reads + behind } as "one or more of that". */
static enum st put_interval(struct rewrite *r)
{
    size_t n = 1;
    while (is_hex(peek(r, n)) && peek(r, n) <= '9')
        n++;
    bool counted = n > 1;
    if (peek(r, n) == ',')
        for (n++; is_hex(peek(r, n)) && peek(r, n) <= '9';)
            n++;
    if (!counted || peek(r, n) != '}' || peek(r, n + 1) == '+')
        return refuse(r, "this use of {");
    copy(r, n + 1);
    return ST_OK;
}

enum st regex_rewrite(struct sv pattern, struct buf *out, struct err *e)
{
    struct rewrite r = {.in = pattern, .out = out, .e = e};
    while (r.at < pattern.n) {
        switch (pattern.p[r.at]) {
        case '\\':
            TRY(put_escape(&r, false));
            break;
        case '[':
            TRY(put_class(&r));
            break;
        case '(':
            TRY(put_group(&r));
            break;
        case '{':
            TRY(put_interval(&r));
            break;
        case '^':
        case '$':
            return refuse(&r, pattern.p[r.at] == '^' ? "the anchor ^" : "the anchor $");
        default:
            copy(&r, 1);
        }
    }
    return ST_OK;
}

/* ---- matching -------------------------------------------------------------------------------- */

enum { JIT_STACK_START = 32 << 10, JIT_STACK_MAX = 4 << 20, MATCH_LIMIT = 1000000 };

struct regex {
    pcre2_code *code;
    bool jit;
};

struct regex_match {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

static enum st compile(const struct buf *pattern, struct regex *r, struct err *e)
{
    int error;
    PCRE2_SIZE at;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    ASSERT(context);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    r->code = pcre2_compile((PCRE2_SPTR)buf_str(pattern), pattern->n, PCRE2_UTF | PCRE2_UCP, &error,
                            &at, context);
    pcre2_compile_context_free(context);
    if (!r->code) {
        PCRE2_UCHAR text[128];
        pcre2_get_error_message(error, text, sizeof text);
        return err_set(e, ST_INPUT, "%s", (const char *)text);
    }
    r->jit = pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE) == 0;
    return ST_OK;
}

enum st regex_compile(struct sv pattern, struct regex **out, struct err *e)
{
    struct buf rewritten = {0};
    struct regex *r = mem_alloc(sizeof *r);
    *r = (struct regex){0};
    enum st st = regex_rewrite(pattern, &rewritten, e);
    if (st == ST_OK)
        st = compile(&rewritten, r, e);
    buf_free(&rewritten);
    if (st != ST_OK)
        regex_free(&r);
    *out = r;
    return st;
}

void regex_free(struct regex **r)
{
    if (*r) {
        pcre2_code_free((*r)->code);
        mem_free(*r);
    }
    *r = NULL;
}

struct regex_match *regex_match_new(void)
{
    struct regex_match *m = mem_alloc(sizeof *m);
    *m =
        (struct regex_match){.data = pcre2_match_data_create(1, NULL),
                             .context = pcre2_match_context_create(NULL),
                             .stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MAX, NULL)};
    ASSERT(m->data && m->context);
    pcre2_set_match_limit(m->context, MATCH_LIMIT);
    if (m->stack)
        pcre2_jit_stack_assign(m->context, NULL, m->stack);
    return m;
}

void regex_match_free(struct regex_match **m)
{
    if (*m) {
        pcre2_jit_stack_free((*m)->stack);
        pcre2_match_context_free((*m)->context);
        pcre2_match_data_free((*m)->data);
        mem_free(*m);
    }
    *m = NULL;
}

static int match(const struct regex *r, struct regex_match *m, struct sv text, size_t from,
                 uint32_t options)
{
    return pcre2_match(r->code, (PCRE2_SPTR)text.p, text.n, from, options | PCRE2_NO_UTF_CHECK,
                       m->data, m->context);
}

enum st regex_find(const struct regex *r, struct regex_match *m, struct sv text, size_t from,
                   size_t *begin, size_t *end, struct err *e)
{
    *begin = *end = text.n;
    while (from < text.n) {
        int n = match(r, m, text, from, 0);
        if (n == PCRE2_ERROR_JIT_STACKLIMIT)
            n = match(r, m, text, from, PCRE2_NO_JIT); /* its stack is the heap */
        if (n == PCRE2_ERROR_NOMATCH)
            return ST_OK;
        if (n < 0) {
            PCRE2_UCHAR why[128];
            pcre2_get_error_message(n, why, sizeof why);
            return err_set(e, ST_INPUT, "the tokenizer's pattern fails at byte %zu of the text: %s",
                           from, (const char *)why);
        }
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(m->data);
        if (at[1] > at[0]) {
            *begin = at[0];
            *end = at[1];
            return ST_OK;
        }
        if (at[1] >= text.n)
            return ST_OK;
        from = at[1] + utf8_length(text.p[at[1]]);
    }
    return ST_OK;
}
