/* JSON: an event reader for streams of any length, trees for documents, and a writer.
 *
 * The reader is strict (RFC 8259: no comments, no trailing commas, valid UTF-8, valid surrogate
 * pairs), bounded and exact: integers that fit int64 stay integers, a larger one is an error, other
 * numbers are doubles. Duplicate keys are errors in trees. Every error names file:line:column. */
#ifndef TEXT_JSON_H
#define TEXT_JSON_H

#include "text/node.h"

/* ---- events ------------------------------------------------------------------------------ */

enum json_event {
    JSON_END,  /* the value is complete and nothing but white space follows */
    JSON_MORE, /* all bytes given so far are used up: feed again, or finish */
    JSON_NULL,
    JSON_TRUE,
    JSON_FALSE,
    JSON_INT,    /* json_int */
    JSON_FLOAT,  /* json_double */
    JSON_STRING, /* json_text */
    JSON_KEY,    /* json_text */
    JSON_LIST_BEGIN,
    JSON_LIST_END,
    JSON_MAP_BEGIN,
    JSON_MAP_END,
    JSON_ERROR,
};

struct json_limits {
    uint32_t max_depth;      /* 0 = 64 */
    size_t max_string_bytes; /* 0 = 16 MiB */
    size_t max_bytes;        /* of a whole document; 0 = 64 MiB (trees only) */
    size_t max_values;       /* of a whole document; 0 = 8 Mi, or max_bytes / 8 where that is more:
                                a tree takes some 64 bytes for each (trees only) */
    uint32_t first_line;     /* number of the text's first line, for places; 0 = 1 */
    /* Python's json module writes NaN, Infinity and -Infinity, which RFC 8259 has not: read NaN as
     * null and the others as JSON_FLOAT. */
    bool python;
    /* That, half of a surrogate pair as U+FFFD, and numbers that fit neither int64 nor a double as
     * the nearest double. */
    bool lenient;
};

struct json_reader;
struct json_reader *json_reader_new(const char *source, const struct json_limits *limits);
void json_reader_free(struct json_reader **r);
/* Give more bytes; they are borrowed until json_next returns JSON_MORE. */
void json_feed(struct json_reader *r, const char *p, size_t n);
void json_finish(struct json_reader *r); /* no more bytes will come */
/* The next event. JSON_ERROR fills e and repeats from then on. */
enum json_event json_next(struct json_reader *r, struct err *e);
struct sv json_text(const struct json_reader *r); /* valid until the next json_next */
int64_t json_int(const struct json_reader *r);
double json_double(const struct json_reader *r); /* of JSON_INT too */
void json_place(const struct json_reader *r, uint32_t *line, uint32_t *column);

/* ---- trees ------------------------------------------------------------------------------- */

enum st json_parse(struct arena *a, const char *source, struct sv text,
                   const struct json_limits *limits, struct node **out, struct err *e);
enum st json_load(struct arena *a, const char *path, const struct json_limits *limits,
                  struct node **out, struct err *e);

/* ---- writing ----------------------------------------------------------------------------- */

/* Text of a tree: two-space indent (indent 2) or one line (indent 0); keys sorted bytewise when
 * `sorted`; doubles in their shortest exact form, non-finite ones as null; ends in a newline when
 * indented. Same tree, same bytes. */
void json_write(struct buf *out, const struct node *n, int indent, bool sorted);
/* "text" with quotes and escapes; bytes that are not UTF-8 become U+FFFD. */
void json_quote(struct buf *out, struct sv text);

#endif
