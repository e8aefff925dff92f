#include <string.h>

#include "text/jinja/parts.h"

enum { MAX_DEPTH = 300, MAX_STEPS = 4000000, MAX_BYTES = 256 << 20 };

static enum st eval(struct jinja_run *r, const struct expr *x, struct node **out);
static enum st run_all(struct jinja_run *r, const struct statement *s);

enum st jinja_error(struct jinja_run *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(r->a, fmt, ap);
    va_end(ap);
    return err_at(r->e, ST_INPUT, r->program->source, r->at ? r->at->line : 1,
                  r->at ? r->at->column : 1, "%s", text);
}

/* ---- names ----------------------------------------------------------------------------------- */

static struct node *look_up(const struct jinja_run *r, struct sv name)
{
    for (const struct frame *f = r->frame; f; f = f->outer)
        for (uint32_t i = 0; i < f->names->n; i++) {
            const struct sv key = f->names->pairs[i].key;
            if (key.n == name.n && memcmp(key.p, name.p, name.n) == 0)
                return f->names->pairs[i].value;
        }
    return NULL;
}

static void set_name(struct jinja_run *r, struct sv name, struct node *value)
{
    node_set(r->a, r->frame->names, name, value);
}

/* ---- expressions ----------------------------------------------------------------------------- */

static enum st eval_args(struct jinja_run *r, const struct expr *x, struct call *c)
{
    for (size_t i = 0; i < x->n_args; i++) {
        c->names[i] = x->args[i].name;
        TRY(eval(r, x->args[i].value, &c->args[i]));
    }
    c->n = x->n_args;
    return ST_OK;
}

static enum st eval_call(struct jinja_run *r, const struct expr *x, struct node **out)
{
    struct call c = {0};
    if (x->a)
        TRY(eval(r, x->a, &c.self));
    TRY(eval_args(r, x, &c));
    r->at = x;
    return x->function->run(r, &c, out);
}

static struct node *none(struct jinja_run *r)
{
    return node_new(r->a, NODE_NULL);
}

static enum st eval_list(struct jinja_run *r, const struct expr *x, struct node **out)
{
    const bool map = x->kind == EXPR_MAP;
    *out = node_new(r->a, map ? NODE_MAP : NODE_LIST);
    for (size_t i = 0; i < x->n_args; i++) {
        struct node *v, *key = NULL;
        if (map)
            TRY(eval(r, x->args[i++].value, &key));
        if (map && (!key || key->kind != NODE_STR))
            return jinja_error(r, "the keys of a map are texts here");
        TRY(eval(r, x->args[i].value, &v));
        v = v ? v : none(r);
        if (map)
            node_set(r->a, *out, key->s, v);
        else
            node_push(r->a, *out, v);
    }
    return ST_OK;
}

static enum st eval_slice(struct jinja_run *r, const struct expr *x, struct node **out)
{
    const struct expr *const parts[] = {x->b, x->c, x->d};
    struct node *of, *ends[3] = {0};
    TRY(eval(r, x->a, &of));
    for (int i = 0; i < 3; i++) {
        if (parts[i])
            TRY(eval(r, parts[i], &ends[i]));
        if (ends[i] && ends[i]->kind == NODE_NULL)
            ends[i] = NULL;
    }
    r->at = x;
    return jinja_slice(r, of, ends[0], ends[1], ends[2], out);
}

static enum st eval_minus(struct jinja_run *r, const struct expr *x, struct node **out)
{
    struct node *v;
    TRY(eval(r, x->a, &v));
    r->at = x;
    return jinja_op(r, OP_MINUS, node_int(r->a, 0), v, out);
}

static enum st eval_any(struct jinja_run *r, const struct expr *x, struct node **out)
{
    struct node *a = NULL, *b = NULL;
    switch (x->kind) {
    case EXPR_VALUE:
        *out = x->value;
        return ST_OK;
    case EXPR_NAME:
        *out = look_up(r, x->name);
        return ST_OK;
    case EXPR_LIST:
    case EXPR_MAP:
        return eval_list(r, x, out);
    case EXPR_MEMBER:
        TRY(eval(r, x->a, &a));
        r->at = x;
        return jinja_index(r, a, jinja_text(r->a, x->name.p, x->name.n), out);
    case EXPR_INDEX:
        TRY(eval(r, x->a, &a));
        TRY(eval(r, x->b, &b));
        r->at = x;
        return jinja_index(r, a, b, out);
    case EXPR_SLICE:
        return eval_slice(r, x, out);
    case EXPR_CALL:
    case EXPR_METHOD:
    case EXPR_FILTER:
    case EXPR_TEST:
        return eval_call(r, x, out);
    case EXPR_NOT:
        TRY(eval(r, x->a, &a));
        *out = node_bool(r->a, !jinja_true(a));
        return ST_OK;
    case EXPR_MINUS:
        return eval_minus(r, x, out);
    case EXPR_AND:
    case EXPR_OR:
        TRY(eval(r, x->a, out));
        return jinja_true(*out) == (x->kind == EXPR_AND) ? eval(r, x->b, out) : ST_OK;
    case EXPR_IF:
        TRY(eval(r, x->b, &b));
        if (jinja_true(b))
            return eval(r, x->a, out);
        *out = NULL;
        return x->c ? eval(r, x->c, out) : ST_OK;
    case EXPR_OP:
        TRY(eval(r, x->a, &a));
        TRY(eval(r, x->b, &b));
        r->at = x;
        return jinja_op(r, x->op, a, b, out);
    }
    return ST_OK;
}

/* Bounds the steps and memory of a template that never ends or keeps doubling a text. */
static enum st count_step(struct jinja_run *r)
{
    if (++r->steps > MAX_STEPS || arena_used(r->a) - r->used > MAX_BYTES || r->out->n > MAX_BYTES)
        return jinja_error(r, "the template runs for too long");
    return ST_OK;
}

static enum st eval(struct jinja_run *r, const struct expr *x, struct node **out)
{
    *out = NULL;
    r->at = x;
    TRY(count_step(r));
    if (++r->depth > MAX_DEPTH)
        return jinja_error(r, "nested more than %d deep", MAX_DEPTH);
    const enum st st = eval_any(r, x, out);
    r->depth--;
    return st;
}

/* ---- statements ------------------------------------------------------------------------------ */

static struct node *loop_of(struct jinja_run *r, const struct node *items, uint32_t i)
{
    struct node *loop = node_new(r->a, NODE_MAP);
    const int64_t n = items->n, at = i;
    const struct {
        struct sv name;
        struct node *value;
    } parts[] = {{SV("index"), node_int(r->a, at + 1)},
                 {SV("index0"), node_int(r->a, at)},
                 {SV("revindex"), node_int(r->a, n - at)},
                 {SV("revindex0"), node_int(r->a, n - at - 1)},
                 {SV("length"), node_int(r->a, n)},
                 {SV("first"), node_bool(r->a, i == 0)},
                 {SV("last"), node_bool(r->a, i + 1 == items->n)},
                 {SV("previtem"), i > 0 ? items->items[i - 1] : NULL},
                 {SV("nextitem"), i + 1 < items->n ? items->items[i + 1] : NULL}};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        if (parts[k].value)
            node_set(r->a, loop, parts[k].name, parts[k].value);
    return loop;
}

static enum st set_item(struct jinja_run *r, const struct statement *s, struct node *item)
{
    if (s->n_names == 1) {
        set_name(r, s->names[0], item);
        return ST_OK;
    }
    if (item->kind != NODE_LIST || item->n != 2)
        return jinja_error(r, "for: two names, and an item that is not a pair");
    set_name(r, s->names[0], item->items[0]);
    set_name(r, s->names[1], item->items[1]);
    return ST_OK;
}

/* The items that satisfy the loop's condition, as a list. */
static enum st items_of(struct jinja_run *r, const struct statement *s, struct node **out)
{
    struct node *v;
    struct call all = {0};
    TRY(eval(r, s->value, &v));
    *out = node_new(r->a, NODE_LIST);
    if (!v)
        return ST_OK;
    all.self = v;
    const struct function *list = jinja_function_find(IS_FILTER, SV("list"));
    TRY(list->run(r, &all, &v));
    for (uint32_t i = 0; i < v->n; i++) {
        struct node *yes = v;
        struct frame frame = {r->frame, node_new(r->a, NODE_MAP)};
        r->frame = &frame;
        enum st st = s->only ? set_item(r, s, v->items[i]) : ST_OK;
        if (st == ST_OK && s->only)
            st = eval(r, s->only, &yes);
        r->frame = frame.outer;
        TRY(st);
        if (jinja_true(yes))
            node_push(r->a, *out, v->items[i]);
    }
    return ST_OK;
}

static enum st run_for(struct jinja_run *r, const struct statement *s)
{
    struct node *items;
    TRY(items_of(r, s, &items));
    for (uint32_t i = 0; i < items->n; i++) {
        struct frame frame = {r->frame, node_new(r->a, NODE_MAP)};
        r->frame = &frame;
        enum st st = set_item(r, s, items->items[i]);
        set_name(r, SV("loop"), loop_of(r, items, i));
        if (st == ST_OK)
            st = run_all(r, s->body);
        r->frame = frame.outer;
        TRY(st);
    }
    return items->n == 0 ? run_all(r, s->otherwise) : ST_OK;
}

/* {% set x %}...{% endset %} */
static enum st print_to_value(struct jinja_run *r, const struct statement *s, struct node **out)
{
    struct buf text = {0}, *before = r->out;
    r->out = &text;
    const enum st st = run_all(r, s->body);
    r->out = before;
    if (st == ST_OK)
        *out = jinja_text(r->a, buf_str(&text), text.n);
    buf_free(&text);
    return st;
}

static enum st run_set(struct jinja_run *r, const struct statement *s)
{
    struct node *v = NULL;
    TRY(s->value ? eval(r, s->value, &v) : print_to_value(r, s, &v));
    v = v ? v : none(r);
    if (s->n_names == 1) {
        set_name(r, s->names[0], v);
        return ST_OK;
    }
    struct node *of = look_up(r, s->names[0]);
    if (!of || of->kind != NODE_MAP)
        return jinja_error(r, "set: %s is no namespace", s->names[0].p);
    node_set(r->a, of, s->names[1], v);
    return ST_OK;
}

static enum st run_one(struct jinja_run *r, const struct statement *s)
{
    struct node *v;
    TRY(count_step(r));
    switch (s->kind) {
    case DO_TEXT:
        buf_add(r->out, s->text.p, s->text.n);
        return ST_OK;
    case DO_PRINT:
        TRY(eval(r, s->value, &v));
        return jinja_print(r, v, r->out);
    case DO_IF:
        TRY(eval(r, s->value, &v));
        return run_all(r, jinja_true(v) ? s->body : s->otherwise);
    case DO_FOR:
        return run_for(r, s);
    case DO_SET:
        return run_set(r, s);
    case DO_BLOCK:
        return run_all(r, s->body);
    }
    return ST_OK;
}

static enum st run_all(struct jinja_run *r, const struct statement *s)
{
    for (; s; s = s->next)
        TRY(run_one(r, s));
    return ST_OK;
}

enum st jinja_render(struct arena *a, const struct jinja *program, const struct node *variables,
                     struct buf *out, struct err *e)
{
    /* own frame: assignments of the template do not change the caller's variables */
    struct frame frame = {NULL, node_new(a, NODE_MAP)};
    struct jinja_run r = {
        .program = program, .a = a, .frame = &frame, .out = out, .used = arena_used(a), .e = e};
    for (uint32_t i = 0; i < variables->n; i++)
        node_set(a, frame.names, variables->pairs[i].key, variables->pairs[i].value);
    return run_all(&r, program->first);
}
