/* Templates in the part of Jinja that chat templates of language models are written in.
 *
 * Statements: for (with two names, a condition, else), if, set (of names, of namespace members, and
 * of blocks), generation (which marks, and does nothing). Expressions: literals, lists, maps,
 * attributes, subscripts and slices, arithmetic, ~, comparisons, in, and, or, not, a if b else c;
 * the filters, tests, functions and methods of jinja/functions.c. White space is cut as Hugging
 * Face has it: trim_blocks and lstrip_blocks are on. Macros, imports, inheritance and the rest are
 * refused, by name and place, when a template is read: what was read can be rendered.
 *
 * Values are those of text/node.h; NULL is an undefined one, as in Jinja printed as nothing. */
#ifndef TEXT_JINJA_H
#define TEXT_JINJA_H

#include "text/node.h"

struct jinja;

/* source: its name in messages. The program lives in the arena and borrows nothing. ST_INPUT names
 * source:line:column. */
enum st jinja_parse(struct arena *a, const char *source, struct sv text, struct jinja **out,
                    struct err *e);

/* Appends the text for these variables, a map. ST_INPUT: the template raised an exception (its text
 * is the message), or applied an operation to a wrong type, or exceeded the limit on steps.
 * Intermediate values live in the arena. Thread-safe: a program is constant. */
enum st jinja_render(struct arena *a, const struct jinja *program, const struct node *variables,
                     struct buf *out, struct err *e);

#endif
