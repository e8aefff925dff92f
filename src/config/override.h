/* One override of the command line: `[+|++|~]key[@package][=value]`.
 *
 * Values: a quoted string ('it''s' is written 'it\'s'), [list, of, values], {key: value}, or bare
 * text, which is null, true, false, an integer, a number or else a string. In bare text a backslash
 * escapes , ( ) [ ] { } : = and itself; ${...} stays for interpolation. */
#ifndef CONFIG_OVERRIDE_H
#define CONFIG_OVERRIDE_H

#include "text/node.h"

enum override_kind {
    OVERRIDE_SET,    /* key=value */
    OVERRIDE_ADD,    /* +key=value */
    OVERRIDE_FORCE,  /* ++key=value */
    OVERRIDE_REMOVE, /* ~key or ~key=value */
};

struct override {
    enum override_kind kind;
    const char *typed;   /* all of it */
    const char *key;     /* "a.b", "group", "group/sub" */
    const char *package; /* after '@', or NULL */
    bool has_value;
    struct sv text; /* the value, trimmed; "" without one */
};

extern const char override_source[]; /* node.source of such values: "command line" */

enum st override_parse(struct arena *a, const char *typed, struct override *out, struct err *e);

/* Of a word that was typed, as texts: what is before and behind its '='; "" without one. */
struct sv override_key_of(const char *typed);
const char *override_value_of(const char *typed);

enum value_style {
    VALUE_TYPED, /* bare text is typed */
    VALUE_TEXT,  /* bare text stays text: `007` for a string key is no number */
    VALUE_LIST,  /* the same, and commas need no quotes: a,b,c */
};

/* The value as a tree. A comma or choice(), range() at the top is an error that names -m. */
enum st override_value(struct arena *a, const struct override *o, enum value_style style,
                       struct node **out, struct err *e);

/* One bare word or number as a node; quoted = keep it a string. */
struct node *override_scalar(struct arena *a, struct sv text);

/* The values a sweep takes: pieces between top-level commas, or what choice() and range() list, as
 * texts. One piece when there is nothing to sweep. */
enum st override_pieces(struct arena *a, const struct override *o, bool commas, struct sv **out,
                        size_t *n, struct err *e);

/* An override to be typed in a shell, which reads back as these texts: key=text, and of a list
 * key='[a,b]'. */
void override_word(struct buf *out, const char *key, const char *text);
void override_list_word(struct buf *out, const char *key, const char *const *texts, size_t n);

#endif
