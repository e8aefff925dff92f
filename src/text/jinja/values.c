#include <math.h>
#include <string.h>

#include "text/jinja/parts.h"
#include "text/json.h"

enum { DEEPEST = 100 };           /* nested lists, which may contain themselves */
enum { MOST_COMPARED = 1000000 }; /* values, by one == */
enum { MOST_JSON_BYTES = 64 << 20 };

struct node *jinja_text(struct arena *a, const char *p, size_t n)
{
    struct node *v = node_new(a, NODE_STR);
    v->s = (struct sv){arena_strn(a, p, n), n};
    return v;
}

static bool is(const struct node *v, enum node_kind kind)
{
    return v && v->kind == kind;
}

static bool is_number(const struct node *v)
{
    return is(v, NODE_INT) || is(v, NODE_FLOAT) || is(v, NODE_BOOL);
}

static bool is_whole(const struct node *v)
{
    return is(v, NODE_INT) || is(v, NODE_BOOL);
}

static int64_t whole(const struct node *v)
{
    return v->kind == NODE_BOOL ? v->b : v->i;
}

static double real(const struct node *v)
{
    return v->kind == NODE_FLOAT ? v->f : (double)whole(v);
}

static const char *name_of(const struct node *v)
{
    return v ? node_kind_name(v->kind) : "an undefined value";
}

bool jinja_true(const struct node *v)
{
    if (!v)
        return false;
    switch (v->kind) {
    case NODE_NULL:
        return false;
    case NODE_BOOL:
        return v->b;
    case NODE_INT:
        return v->i != 0;
    case NODE_FLOAT:
        return v->f < 0 || v->f > 0;
    case NODE_STR:
        return v->s.n > 0;
    case NODE_LIST:
    case NODE_MAP:
        return v->n > 0;
    }
    return false;
}

static bool same_text(struct sv x, struct sv y)
{
    return x.n == y.n && memcmp(x.p, y.p, x.n) == 0;
}

static bool equal(const struct node *x, const struct node *y, int depth, int64_t *left)
{
    if (x == y)
        return true;
    if (depth > DEEPEST || --*left < 0)
        return false;
    if (!x || !y)
        return false;
    if (is_whole(x) && is_whole(y))
        return whole(x) == whole(y);
    if (is_number(x) && is_number(y))
        return real(x) <= real(y) && real(x) >= real(y);
    if (x->kind != y->kind)
        return false;
    if (x->kind == NODE_STR)
        return same_text(x->s, y->s);
    if (x->kind == NODE_NULL)
        return true;
    if (x->n != y->n)
        return false;
    for (uint32_t i = 0; i < x->n; i++) {
        const struct node *other = x->kind == NODE_LIST ? y->items[i] : NULL;
        if (x->kind == NODE_MAP)
            other = node_find(y, x->pairs[i].key.p);
        if (!equal(x->kind == NODE_LIST ? x->items[i] : x->pairs[i].value, other, depth + 1, left))
            return false;
    }
    return true;
}

bool jinja_equal(const struct node *x, const struct node *y)
{
    int64_t left = MOST_COMPARED;
    return equal(x, y, 0, &left);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static bool goes_on(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

size_t jinja_length(const struct node *v)
{
    size_t n = 0;
    if (v->kind != NODE_STR)
        return v->n;
    for (size_t i = 0; i < v->s.n; i++)
        n += !goes_on(v->s.p[i]);
    return n;
}

/* Byte offset of character k; the end of the text for one behind it. */
static size_t offset_of(struct sv s, size_t k)
{
    size_t at = 0;
    for (; at < s.n && k > 0; k--)
        for (at++; at < s.n && goes_on(s.p[at]);)
            at++;
    return at;
}

enum st jinja_print(struct jinja_run *r, const struct node *v, struct buf *out)
{
    char digits[STR_DOUBLE_MAX];
    if (!v)
        return ST_OK;
    switch (v->kind) {
    case NODE_NULL:
        buf_puts(out, "None");
        return ST_OK;
    case NODE_BOOL:
        buf_puts(out, v->b ? "True" : "False");
        return ST_OK;
    case NODE_INT:
        buf_printf(out, "%lld", (long long)v->i);
        return ST_OK;
    case NODE_FLOAT:
        if (!isfinite(v->f))
            return jinja_error(r, "a number that is not finite");
        str_from_double(digits, v->f);
        buf_puts(out, digits);
        if (!strpbrk(digits, ".e"))
            buf_puts(out, ".0");
        return ST_OK;
    case NODE_STR:
        buf_add(out, v->s.p, v->s.n);
        return ST_OK;
    case NODE_LIST:
    case NODE_MAP:
        break;
    }
    return jinja_error(r, "%s is printed: tojson makes a text of it", name_of(v));
}

static void json_line(struct buf *out, int64_t indent, int64_t depth)
{
    if (indent <= 0)
        return;
    buf_putc(out, '\n');
    for (int64_t i = 0; i < indent * depth; i++)
        buf_putc(out, ' ');
}

/* As Python's json.dumps: ", " between items of a line. */
enum st jinja_json(struct jinja_run *r, const struct node *v, int64_t indent, int64_t depth,
                   struct buf *out)
{
    if (!v || (v->kind != NODE_LIST && v->kind != NODE_MAP)) {
        static const struct node none = {.kind = NODE_NULL};
        json_write(out, v ? v : &none, 0, false);
        return ST_OK;
    }
    if (depth > DEEPEST || out->n > MOST_JSON_BYTES)
        return jinja_error(r, "tojson: of lists that hold themselves, or too much");
    const bool list = v->kind == NODE_LIST;
    buf_putc(out, list ? '[' : '{');
    for (uint32_t i = 0; i < v->n; i++) {
        if (i > 0)
            buf_puts(out, indent > 0 ? "," : ", ");
        json_line(out, indent, depth + 1);
        if (!list) {
            json_quote(out, v->pairs[i].key);
            buf_puts(out, ": ");
        }
        TRY(jinja_json(r, list ? v->items[i] : v->pairs[i].value, indent, depth + 1, out));
    }
    if (v->n > 0)
        json_line(out, indent, depth);
    buf_putc(out, list ? ']' : '}');
    return ST_OK;
}

/* ---- operators ------------------------------------------------------------------------------- */

static enum st no_meaning(struct jinja_run *r, const char *sign, const struct node *x,
                          const struct node *y)
{
    return jinja_error(r, "%s %s %s has no meaning", name_of(x), sign, name_of(y));
}

static const char *const signs[] = {
    "+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};

static enum st on_whole(struct jinja_run *r, enum jinja_op op, int64_t x, int64_t y,
                        struct node **out)
{
    int64_t v = 0;
    bool bad = false;
    if ((op == OP_FLOOR || op == OP_MODULO) && (y == 0 || (x == INT64_MIN && y == -1)))
        return jinja_error(r, "a division by %lld", (long long)y);
    if (op == OP_PLUS) {
        bad = __builtin_add_overflow(x, y, &v);
    } else if (op == OP_MINUS) {
        bad = __builtin_sub_overflow(x, y, &v);
    } else if (op == OP_TIMES) {
        bad = __builtin_mul_overflow(x, y, &v);
    } else { /* rounded down, as Python does */
        const int64_t rest = x % y;
        const bool down = rest != 0 && (rest < 0) != (y < 0);
        v = op == OP_FLOOR ? x / y - down : rest + (down ? y : 0);
    }
    if (bad)
        return jinja_error(r, "a number that is too large");
    *out = node_int(r->a, v);
    return ST_OK;
}

static enum st on_real(struct jinja_run *r, enum jinja_op op, double x, double y, struct node **out)
{
    double v = 0;
    if ((op == OP_DIVIDE || op == OP_FLOOR || op == OP_MODULO) && !(y < 0 || y > 0))
        return jinja_error(r, "a division by 0");
    switch ((int)op) {
    case OP_PLUS:
        v = x + y;
        break;
    case OP_MINUS:
        v = x - y;
        break;
    case OP_TIMES:
        v = x * y;
        break;
    case OP_DIVIDE:
        v = x / y;
        break;
    case OP_FLOOR:
        v = floor(x / y);
        break;
    default:
        v = x - y * floor(x / y);
        break;
    }
    *out = node_float(r->a, v);
    return ST_OK;
}

static struct node *joined(struct jinja_run *r, struct sv x, struct sv y)
{
    char *p = arena_alloc(r->a, x.n + y.n + 1);
    struct node *v = node_new(r->a, NODE_STR);
    memcpy(p, x.p, x.n);
    memcpy(p + x.n, y.p, y.n);
    v->s = (struct sv){p, x.n + y.n};
    return v;
}

static enum st arithmetic(struct jinja_run *r, enum jinja_op op, const struct node *x,
                          const struct node *y, struct node **out)
{
    if (is_number(x) && is_number(y))
        return is_whole(x) && is_whole(y) && op != OP_DIVIDE
                   ? on_whole(r, op, whole(x), whole(y), out)
                   : on_real(r, op, real(x), real(y), out);
    if (op == OP_PLUS && is(x, NODE_STR) && is(y, NODE_STR)) {
        *out = joined(r, x->s, y->s);
        return ST_OK;
    }
    if (op == OP_PLUS && is(x, NODE_LIST) && is(y, NODE_LIST)) {
        *out = node_new(r->a, NODE_LIST);
        for (uint32_t i = 0; i < x->n; i++)
            node_push(r->a, *out, x->items[i]);
        for (uint32_t i = 0; i < y->n; i++)
            node_push(r->a, *out, y->items[i]);
        return ST_OK;
    }
    return no_meaning(r, signs[op], x, y);
}

static enum st join(struct jinja_run *r, const struct node *x, const struct node *y,
                    struct node **out)
{
    struct buf b = {0};
    enum st st = jinja_print(r, x, &b);
    if (st == ST_OK)
        st = jinja_print(r, y, &b);
    if (st == ST_OK)
        *out = jinja_text(r->a, buf_str(&b), b.n);
    buf_free(&b);
    return st;
}

static enum st is_in(struct jinja_run *r, const struct node *x, const struct node *y, bool *out)
{
    *out = false;
    if (is(y, NODE_STR) && is(x, NODE_STR)) {
        for (size_t i = 0; !*out && i + x->s.n <= y->s.n; i++)
            *out = memcmp(y->s.p + i, x->s.p, x->s.n) == 0;
        return ST_OK;
    }
    if (!is(y, NODE_LIST) && !is(y, NODE_MAP))
        return no_meaning(r, "in", x, y);
    for (uint32_t i = 0; !*out && i < y->n; i++)
        *out = y->kind == NODE_LIST ? jinja_equal(x, y->items[i])
                                    : is(x, NODE_STR) && same_text(x->s, y->pairs[i].key);
    return ST_OK;
}

static enum st compare(struct jinja_run *r, enum jinja_op op, const struct node *x,
                       const struct node *y, bool *out)
{
    int sign;
    if (is_whole(x) && is_whole(y)) {
        sign = whole(x) < whole(y) ? -1 : whole(x) > whole(y);
    } else if (is_number(x) && is_number(y)) {
        sign = real(x) < real(y) ? -1 : real(x) > real(y);
    } else if (is(x, NODE_STR) && is(y, NODE_STR)) {
        const size_t n = x->s.n < y->s.n ? x->s.n : y->s.n;
        sign = memcmp(x->s.p, y->s.p, n);
        sign = sign ? sign : x->s.n < y->s.n ? -1 : x->s.n > y->s.n;
    } else {
        return no_meaning(r, signs[op], x, y);
    }
    *out = op == OP_LT ? sign < 0 : op == OP_LE ? sign <= 0 : op == OP_GT ? sign > 0 : sign >= 0;
    return ST_OK;
}

enum st jinja_op(struct jinja_run *r, enum jinja_op op, struct node *x, struct node *y,
                 struct node **out)
{
    bool yes = false;
    if (op < OP_JOIN)
        return arithmetic(r, op, x, y, out);
    if (op == OP_JOIN)
        return join(r, x, y, out);
    if (op == OP_EQ || op == OP_NE) {
        yes = jinja_equal(x, y) == (op == OP_EQ);
    } else if (op == OP_IN || op == OP_NOT_IN) {
        TRY(is_in(r, x, y, &yes));
        yes = yes == (op == OP_IN);
    } else {
        TRY(compare(r, op, x, y, &yes));
    }
    *out = node_bool(r->a, yes);
    return ST_OK;
}

/* ---- parts ----------------------------------------------------------------------------------- */

enum st jinja_index(struct jinja_run *r, struct node *of, const struct node *at, struct node **out)
{
    *out = NULL;
    if (!of)
        return jinja_error(r, "an undefined value has no members");
    if (of->kind == NODE_MAP && is(at, NODE_STR)) {
        for (uint32_t i = 0; i < of->n && !*out; i++)
            if (same_text(of->pairs[i].key, at->s))
                *out = of->pairs[i].value;
        return ST_OK;
    }
    if ((of->kind != NODE_LIST && of->kind != NODE_STR) || !is(at, NODE_INT))
        return ST_OK; /* undefined, as in Jinja */
    const int64_t n = (int64_t)jinja_length(of), i = at->i < 0 ? at->i + n : at->i;
    if (i < 0 || i >= n)
        return ST_OK;
    if (of->kind == NODE_LIST) {
        *out = of->items[i];
        return ST_OK;
    }
    const size_t begin = offset_of(of->s, (size_t)i);
    const struct sv rest = {of->s.p + begin, of->s.n - begin};
    *out = jinja_text(r->a, rest.p, offset_of(rest, 1));
    return ST_OK;
}

/* An end of a slice as an index from 0 to n (going up), or from -1 to n - 1 (going down). */
static int64_t bound(const struct node *v, int64_t def, int64_t n, bool down)
{
    if (!v)
        return def;
    int64_t i = v->i < -n ? -1 : v->i < 0 ? v->i + n : v->i;
    i = i < 0 && !down ? 0 : i;
    return i > n - down ? n - down : i;
}

enum st jinja_slice(struct jinja_run *r, struct node *of, const struct node *from,
                    const struct node *to, const struct node *step, struct node **out)
{
    const struct node *const given[] = {from, to, step};
    for (int i = 0; i < 3; i++)
        if (given[i] && given[i]->kind != NODE_INT)
            return jinja_error(r, "a slice has integers as ends, not %s", name_of(given[i]));
    if (!of || (of->kind != NODE_LIST && of->kind != NODE_STR))
        return jinja_error(r, "%s has no slices", name_of(of));
    const int64_t n = (int64_t)jinja_length(of), by = step ? step->i : 1;
    const bool down = by < 0;
    if (by == 0)
        return jinja_error(r, "a slice of step 0");
    int64_t i = bound(from, down ? n - 1 : 0, n, down);
    const int64_t end = bound(to, down ? -1 : n, n, down);
    if (of->kind == NODE_STR && by == 1) {
        const size_t begin = offset_of(of->s, (size_t)i);
        const struct sv rest = {of->s.p + begin, of->s.n - begin};
        *out = jinja_text(r->a, rest.p, end > i ? offset_of(rest, (size_t)(end - i)) : 0);
        return ST_OK;
    }
    if (of->kind == NODE_STR)
        return jinja_error(r, "a slice of a text goes up by 1");
    *out = node_new(r->a, NODE_LIST);
    for (; down ? i > end : i < end; i += by) {
        node_push(r->a, *out, of->items[i]);
        if (!down && i > INT64_MAX - by)
            break;
    }
    return ST_OK;
}
