/* Records as JSON: one table says what the members of a struct are called in a file. Writers,
 * readers and pages go by that table.
 *
 *     struct seed { int64_t n; double rate; const char *name; };
 *
 *     static const struct field seed_rows[] = {
 *         FIELD(struct seed, n, .min = 1, .max = 1000),
 *         FIELD_AS(struct seed, rate, "rate_per_s", .optional = true),
 *         FIELD(struct seed, name),
 *     };
 *     static const struct fields seed_fields = FIELDS(struct seed, seed_rows);
 *
 *     struct node *map = fields_node(a, &seed_fields, &seed);
 *     TRY(fields_read(a, &seed_fields, map, &seed, e));
 *
 * Kinds follow from the member's type: int32_t, uint32_t, int64_t, uint64_t and size_t, double,
 * bool, const char *, const struct node * (a subtree as it is), struct doubles. Another type does
 * not compile.
 *
 * Unknown is null in JSON: a double that is not finite, a NULL text or tree, a pair whose lower end
 * is not finite, an enum beyond its names, an integer 0 under `zero_is_null`.
 *
 * Reading is strict. A member that is missing, null, of another kind or out of range is ST_INPUT at
 * its place and with its path, and with the table's remedy as the hint:
 *     capacity.json:7:12: seeds[2].probes[0].rate: -1 is below the minimum 0
 * An `optional` member may be missing or null; it is `otherwise` then, or unknown: NAN, 0, false,
 * NULL, an empty list. Further keys are ignored. An integer is taken where a double is meant, a
 * double never where an integer is. After an error the record is half filled.
 *
 * Lists, maps by key and arrays that are read live in the arena; texts and trees are those of the
 * tree that is read, and live as long. */
#ifndef TEXT_FIELDS_H
#define TEXT_FIELDS_H

#include <stddef.h>

#include "text/node.h"

/* A list of numbers; for lists of lists. */
struct doubles {
    double *v;
    size_t n;
};

struct fields;
typedef const char *field_name_fn(unsigned i); /* const char *verdict_name(enum verdict) is one */
typedef struct node *field_make_fn(struct arena *a, const void *record);

enum field_kind {
    FIELD_KIND_NONE,
    FIELD_KIND_INT32,
    FIELD_KIND_UINT32,
    FIELD_KIND_INT64,
    FIELD_KIND_UINT64, /* up to INT64_MAX */
    FIELD_KIND_DOUBLE,
    FIELD_KIND_BOOL,
    FIELD_KIND_TEXT,
    FIELD_KIND_TREE,
    FIELD_KIND_ENUM, /* a text: name(value); of a bool: name(false), name(true) */
    FIELD_KIND_DOUBLES,
    FIELD_KIND_RECORD, /* a map as `of` says */
    FIELD_KIND_MADE,   /* what make() says; not read */
};

enum field_shape {
    FIELD_SHAPE_ONE,
    FIELD_SHAPE_PAIR,  /* two doubles: [low, high] */
    FIELD_SHAPE_LIST,  /* pointer and size_t count: a list */
    FIELD_SHAPE_KEYED, /* the same of records that begin with const char *key: a map by that key */
    FIELD_SHAPE_NAMED, /* array of n: a map by name(i), NULL = none; all of it may be missing */
};

/* A row, made by the macros below. The first group is theirs; the second may follow as designated
 * initialisers. */
struct field {
    const char *key; /* NULL: the members of a record stand in the map of the record around it */
    enum field_kind kind;
    enum field_shape shape;
    size_t at, bytes; /* of the member; of a list's or array's element */
    size_t also_at;   /* of the count, of the pair's higher end */
    field_name_fn *name;
    unsigned n; /* names of an enum, elements of an array */
    const struct fields *of;
    field_make_fn *make;

    double min, max;  /* of numbers, inclusive, always both; both 0 = any */
    double otherwise; /* of an optional number or enum; 0 = unknown */
    bool optional;    /* may be missing or null */
    bool omit; /* optional, and not written where it is unknown, an integer 0, false or empty */
    bool zero_is_null; /* an integer: unknown is 0 */
    bool nulls;        /* elements of a list or ends of a pair may be null */
    /* FIELD_IF: a condition on a member of the same record. Where it is unknown, an integer 0 or
     * false, a row with a key is null and one without leaves out its members. Reading sets a bool
     * by what is there. */
    enum field_kind if_kind;
    size_t if_at;
};

struct fields {
    const struct field *rows;
    size_t n, bytes;
    const char *remedy; /* NULL = none */
};

/* Members, in the order in which they are set; files are written sorted. */
struct node *fields_node(struct arena *a, const struct fields *f, const void *record);
/* The same into a map that is there. */
void fields_put(struct arena *a, struct node *map, const struct fields *f, const void *record);

enum st fields_read(struct arena *a, const struct fields *f, const struct node *map, void *record,
                    struct err *e);
/* For pages, which show what a file has: members that would be an error are unknown, elements of a
 * list that would be one are left out. map may be NULL. */
void fields_read_loose(struct arena *a, const struct fields *f, const struct node *map,
                       void *record);

/* ---- rows ---------------------------------------------------------------------------------- */

#define FIELDS(T, rows_, ...)                                                                     \
    {                                                                                             \
        .rows = rows_, .n = sizeof(rows_) / sizeof(struct field), .bytes = sizeof(T), __VA_ARGS__ \
    }

#define FIELD_MEMBER(T, m) (((T *)0)->m)
#define FIELD_PLACE(T, m, m0, key_, shape_, kind_)                                   \
    .key = key_, .shape = FIELD_SHAPE_##shape_, .kind = kind_, .at = offsetof(T, m), \
    .bytes = sizeof(FIELD_MEMBER(T, m0))
#define FIELD_COUNT(T, count) \
    .also_at = offsetof(T, count) + 0 * sizeof(_Generic(FIELD_MEMBER(T, count), size_t : 1))

/* One value under the member's name; under another key. */
#define FIELD(T, m, ...) FIELD_AS(T, m, #m, __VA_ARGS__)
#define FIELD_AS(T, m, key, ...)                                                    \
    {                                                                               \
        FIELD_PLACE(T, m, m, key, ONE, FIELD_KIND(FIELD_MEMBER(T, m))), __VA_ARGS__ \
    }
#define FIELD_ENUM(T, m, key, name_, n_, ...)                                                \
    {                                                                                        \
        FIELD_PLACE(T, m, m, key, ONE, FIELD_KIND_ENUM), .name = name_, .n = n_, __VA_ARGS__ \
    }
#define FIELD_PAIR(T, low, high, key, ...)                                     \
    {                                                                          \
        FIELD_PLACE(T, low, low, key, PAIR, FIELD_KIND(FIELD_MEMBER(T, low))), \
            .also_at = offsetof(T, high), __VA_ARGS__                          \
    }
#define FIELD_MADE(key_, make_)                             \
    {                                                       \
        .key = key_, .kind = FIELD_KIND_MADE, .make = make_ \
    }

/* A record inside the record; further members of the same record, as a map of their own. */
#define FIELD_MAP(T, m, key, of_, ...)                                            \
    {                                                                             \
        FIELD_PLACE(T, m, m, key, ONE, FIELD_KIND_RECORD), .of = of_, __VA_ARGS__ \
    }
#define FIELD_PART(key_, of_, ...)                                     \
    {                                                                  \
        .key = key_, .kind = FIELD_KIND_RECORD, .of = of_, __VA_ARGS__ \
    }
#define FIELD_IF(T, m) .if_kind = FIELD_KIND(FIELD_MEMBER(T, m)), .if_at = offsetof(T, m)

/* count elements behind a pointer: values, records, records that begin with their key. */
#define FIELD_LIST(T, m, count, key, ...)                                      \
    {                                                                          \
        FIELD_PLACE(T, m, m[0], key, LIST, FIELD_KIND(FIELD_MEMBER(T, m[0]))), \
            FIELD_COUNT(T, count), __VA_ARGS__                                 \
    }
#define FIELD_MAPS(T, m, count, key, of_, ...)                                                    \
    {                                                                                             \
        FIELD_PLACE(T, m, m[0], key, LIST, FIELD_KIND_RECORD), FIELD_COUNT(T, count), .of = of_,  \
                                                                                      __VA_ARGS__ \
    }
#define FIELD_KEYED(T, m, count, key, of_, ...)                                                    \
    {                                                                                              \
        FIELD_PLACE(T, m, m[0], key, KEYED, FIELD_KIND_RECORD), FIELD_COUNT(T, count), .of = of_,  \
                                                                                       __VA_ARGS__ \
    }

/* An array with a name for each element: of values, of records. */
#define FIELD_NAMED(T, m, key, name_, n_, ...)                                  \
    {                                                                           \
        FIELD_PLACE(T, m, m[0], key, NAMED, FIELD_KIND(FIELD_MEMBER(T, m[0]))), \
            .name = name_, .n = n_, __VA_ARGS__                                 \
    }
#define FIELD_NAMED_MAPS(T, m, key, name_, n_, of_, ...)                                           \
    {                                                                                              \
        FIELD_PLACE(T, m, m[0], key, NAMED, FIELD_KIND_RECORD), .name = name_, .n = n_, .of = of_, \
                                                                __VA_ARGS__                        \
    }

#define FIELD_KIND(x) \
    _Generic((x), int32_t : FIELD_KIND_INT32, uint32_t : FIELD_KIND_UINT32, int64_t : FIELD_KIND_INT64, uint64_t : FIELD_KIND_UINT64, double : FIELD_KIND_DOUBLE, bool : FIELD_KIND_BOOL, const char * : FIELD_KIND_TEXT, char * : FIELD_KIND_TEXT, const struct node * : FIELD_KIND_TREE, struct node * : FIELD_KIND_TREE, struct doubles : FIELD_KIND_DOUBLES)

#endif
