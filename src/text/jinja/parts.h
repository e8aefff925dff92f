/* The parsed template: a tree of statements, each with expressions; made by the parser, executed by
 * render.c. */
#ifndef TEXT_JINJA_PARTS_H
#define TEXT_JINJA_PARTS_H

#include "text/jinja.h"

enum expr_kind {
    EXPR_VALUE,
    EXPR_NAME,
    EXPR_LIST,   /* args */
    EXPR_MAP,    /* args: key, value, key, value, ... */
    EXPR_MEMBER, /* a.name */
    EXPR_INDEX,  /* a[b] */
    EXPR_SLICE,  /* a[b:c:d] */
    EXPR_CALL,   /* function(args) */
    EXPR_METHOD, /* a.function(args) */
    EXPR_FILTER, /* a | function(args) */
    EXPR_TEST,   /* a is function */
    EXPR_NOT,
    EXPR_MINUS,
    EXPR_AND,
    EXPR_OR,
    EXPR_IF, /* a if b else c */
    EXPR_OP, /* a op b */
};

enum jinja_op {
    OP_PLUS,
    OP_MINUS,
    OP_TIMES,
    OP_DIVIDE,
    OP_FLOOR,
    OP_MODULO,
    OP_JOIN, /* ~ */
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOT_IN,
};

struct function;

struct arg {
    struct sv name; /* p NULL = positional */
    struct expr *value;
};

struct expr {
    enum expr_kind kind;
    enum jinja_op op;
    uint32_t line, column;
    struct expr *a, *b, *c, *d; /* NULL = left out */
    struct arg *args;
    size_t n_args;
    struct sv name;
    struct node *value;
    const struct function *function;
};

enum statement_kind { DO_TEXT, DO_PRINT, DO_IF, DO_FOR, DO_SET, DO_BLOCK };

struct statement {
    enum statement_kind kind;
    struct statement *next;
    struct sv text; /* DO_TEXT */
    struct expr
        *value; /* printed, tested, iterated over, or assigned; NULL = assign what body prints */
    struct expr *only;  /* DO_FOR: condition, or NULL */
    struct sv names[2]; /* DO_FOR: of the items; DO_SET: name, or object and member */
    size_t n_names;
    struct statement *body, *otherwise;
};

struct jinja {
    const char *source;
    struct statement *first;
};

/* ---- what runs ------------------------------------------------------------------------------ */

struct frame {
    struct frame *outer;
    struct node *names; /* a map */
};

struct jinja_run {
    const struct jinja *program;
    struct arena *a;
    struct frame *frame;
    struct buf *out;
    int64_t steps;
    size_t used; /* bytes of the arena before the run */
    int depth;
    const struct expr *at; /* for messages */
    struct err *e;
};

enum st jinja_error(struct jinja_run *r, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* ---- values (values.c) ----------------------------------------------------------------------- */

struct node *jinja_text(struct arena *a, const char *p, size_t n);
bool jinja_true(const struct node *v);
bool jinja_equal(const struct node *x, const struct node *y);
/* As printing does: ST_INPUT for lists and maps. */
enum st jinja_print(struct jinja_run *r, const struct node *v, struct buf *out);
/* As Python's json.dumps; indent 0 = one line. */
enum st jinja_json(struct jinja_run *r, const struct node *v, int64_t indent, int64_t depth,
                   struct buf *out);
enum st jinja_op(struct jinja_run *r, enum jinja_op op, struct node *x, struct node *y,
                 struct node **out);
enum st jinja_index(struct jinja_run *r, struct node *of, const struct node *at, struct node **out);
/* from, to, step: integers, or NULL. */
enum st jinja_slice(struct jinja_run *r, struct node *of, const struct node *from,
                    const struct node *to, const struct node *step, struct node **out);
size_t jinja_length(const struct node *v); /* texts: characters */

/* ---- functions by name (functions.c) ----------------------------------------------------------*/

enum function_kind { IS_FILTER, IS_TEST, IS_METHOD, IS_FUNCTION };
enum { FUNCTION_ARGS = 8 };

struct call {
    struct node *self; /* of a filter, test or method */
    struct node *args[FUNCTION_ARGS];
    struct sv names[FUNCTION_ARGS]; /* p NULL = positional */
    size_t n;
};

struct function {
    const char *name;
    enum function_kind kind;
    size_t most; /* arguments */
    enum st (*run)(struct jinja_run *r, const struct call *c, struct node **out);
};

const struct function *jinja_function_find(enum function_kind kind, struct sv name);

#endif
