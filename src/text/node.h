/* A document as a tree: what JSON and YAML have in common, with the place each value came from.
 *
 * Nodes live in one arena. Maps keep the order of the text. Getters of a typed value report a wrong
 * kind, range or absence at file:line:column with the path of the key:
 *     config.json:12:18: hidden_size: expected an integer, got a string
 */
#ifndef TEXT_NODE_H
#define TEXT_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

enum node_kind { NODE_NULL, NODE_BOOL, NODE_INT, NODE_FLOAT, NODE_STR, NODE_LIST, NODE_MAP };

struct node;

struct node_pair {
    struct sv key;
    struct node *value;
    uint32_t line, column; /* of the key */
};

struct node {
    enum node_kind kind;
    bool quoted;           /* NODE_STR written in quotes (YAML): never re-typed */
    uint32_t line, column; /* from 1; 0 = made by the program */
    const char *source;    /* file name or "command line"; shared, may be NULL */
    uint32_t n, cap;       /* of items or pairs */
    union {
        bool b;
        int64_t i;
        double f;
        struct sv s; /* NUL-terminated as well */
        struct node **items;
        struct node_pair *pairs;
    };
};

const char *node_kind_name(enum node_kind k); /* "a string", "an integer", ... */
/* As it is typed: "abc", "3", "0.1", "true"; NULL of a list, a map or null. */
const char *node_scalar_text(struct arena *a, const struct node *n);

struct node *node_new(struct arena *a, enum node_kind k);
struct node *node_str(struct arena *a, const char *s);
struct node *node_int(struct arena *a, int64_t v);
struct node *node_float(struct arena *a, double v);
struct node *node_bool(struct arena *a, bool v);
struct node *node_number(struct arena *a, double v); /* null unless finite: unknown */
struct node *node_str_or_null(struct arena *a, const char *s);
struct node *node_copy(struct arena *a, const struct node *n); /* deep */

void node_push(struct arena *a, struct node *list, struct node *item);
/* Set or replace; a new key goes to the end. Returns value. */
struct node *node_set(struct arena *a, struct node *map, struct sv key, struct node *value);
/* A pair with a key that the map is known not to have, and no value yet. Valid until the next. */
struct node_pair *node_append(struct arena *a, struct node *map, struct sv key);
struct node *node_put(struct arena *a, struct node *map, const char *key, struct node *value);
bool node_remove(struct node *map, struct sv key);

/* The second of two pairs with one key, NULL when all keys differ. O(n). */
const struct node_pair *node_duplicate(const struct node *map);

/* Look up without an error: NULL when absent or when map is NULL or not a map. Linear in the
 * number of keys: walk the pairs of a map with thousands of keys instead. */
struct node *node_find(const struct node *map, const char *key);
struct node *node_path(const struct node *root, const char *dotted); /* "a.b.c" */

/* Typed members of a map. `key` absent: ST_INPUT, unless the function takes a default. NODE_INT is
 * accepted as a double; an integral double is not accepted as an integer. */
enum st node_get(const struct node *map, const char *key, enum node_kind kind, struct node **out,
                 struct err *e);
enum st node_get_int(const struct node *map, const char *key, int64_t min, int64_t max,
                     int64_t *out, struct err *e);
enum st node_get_double(const struct node *map, const char *key, double min, double max,
                        double *out, struct err *e);
enum st node_get_bool(const struct node *map, const char *key, bool *out, struct err *e);
enum st node_get_str(const struct node *map, const char *key, const char **out, struct err *e);

/* The same of a value at hand; `what` names it in errors. */
enum st node_to_int(const struct node *n, const char *what, int64_t min, int64_t max, int64_t *out,
                    struct err *e);
enum st node_to_double(const struct node *n, const char *what, double min, double max, double *out,
                       struct err *e);
enum st node_to_str(const struct node *n, const char *what, const char **out, struct err *e);

/* A document's version, an integer under `key`: ST_INPUT when it is newer than `newest`. Absent or
 * of another kind is fine: of before versions, or of another program. */
enum st node_check_version(const struct node *doc, const char *key, int newest, struct err *e);

/* An error at a node's place: "source:line:column: text"; the text alone for a node made by the
 * program. */
enum st node_err(const struct node *n, enum st st, struct err *e, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

#endif
