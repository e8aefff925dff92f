/* Command lines as data: lists of arguments that are run as they are, never by a shell, so that
 * spaces and quotes in them mean nothing. Private to deep/.
 *
 *     struct argv v = {.a = a};
 *     argv_add(&v, "ncu");
 *     argv_option(&v, "--set", "roofline");
 *     process_start(..., {.argv = argv_words(&v)}); */
#ifndef DEEP_ARGV_H
#define DEEP_ARGV_H

#include "base/str.h"

struct argv {
    struct arena *a;
    const char **words; /* [n] */
    size_t n, cap;
};

void argv_add(struct argv *v, const char *word);
/* Two arguments, the option and its value; nothing for a NULL value. */
void argv_option(struct argv *v, const char *option, const char *value);
void argv_number(struct argv *v, const char *option, int64_t value);
/* One value of all items with commas between; nothing for an empty list. */
void argv_joined(struct argv *v, const char *option, struct texts items);
/* The option again for each item. */
void argv_each(struct argv *v, const char *option, struct texts items);
void argv_all(struct argv *v, struct texts words);
/* Ends with NULL. */
const char *const *argv_words(struct argv *v);
/* One argument a line; in an argument a line break is written \n, a backslash \\. */
void argv_print(struct buf *out, const struct argv *v);
/* One line for people, which a shell would read as the same words: those with spaces and quotes
 * stand in quotes. */
const char *argv_line(struct arena *a, struct texts words);

#endif
