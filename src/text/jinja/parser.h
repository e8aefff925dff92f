/* Parser state and tokens, shared by the files of the parser. */
#ifndef TEXT_JINJA_PARSER_H
#define TEXT_JINJA_PARSER_H

#include "text/jinja/parts.h"

struct parser {
    struct arena *a;
    const char *source;
    struct sv text;
    size_t at;
    bool line_starts; /* the last tag consumed the line's end */
    int depth;
    struct err *e;
    size_t placed; /* byte that line and column belong to */
    uint32_t line, column;
};

/* ---- tokens (expr.c) ------------------------------------------------------------------------- */

enum st jinja_parser_fail_at(struct parser *p, size_t at, const char *fmt, ...) PRINTF_LIKE(3, 4);
#define jinja_parser_fail(p, ...) jinja_parser_fail_at(p, (p)->at, __VA_ARGS__)

enum st jinja_parser_enter(struct parser *p); /* one level deeper; leave with p->depth-- */
char jinja_parser_peek(const struct parser *p, size_t ahead); /* 0 behind the end */
bool jinja_parser_is_blank(char c);
void jinja_parser_skip(struct parser *p); /* white space */
/* Skips white space, then consumes the sign or word if it comes next. */
bool jinja_parser_take(struct parser *p, const char *sign);
bool jinja_parser_take_word(struct parser *p, const char *word);
enum st jinja_parser_want(struct parser *p, const char *sign);
/* The name that comes next, not consumed; n 0 = something else. */
struct sv jinja_parser_next_name(struct parser *p);
/* A name that is no reserved word; copied, with a NUL. */
enum st jinja_parser_take_name(struct parser *p, struct sv *out);

/* ---- expressions (expr.c) ------------------------------------------------------------------- */

enum st jinja_parser_expression(struct parser *p, struct expr **out);
/* An expression without "a if b else c" at its top: what a loop iterates over. */
enum st jinja_parser_disjunction(struct parser *p, struct expr **out);

#endif
