/* The one option table. A row is a key of the configuration: its type, unit, default, range,
 * allowed values, the commands that use it, where it lands in struct plan, and its help. The
 * command line, YAML binding, --explain, --help and docs/cli are all made from these rows. */
#ifndef CONFIG_OPTION_H
#define CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum option_type {
    OPT_BOOL,   /* bool */
    OPT_INT,    /* int64_t */
    OPT_DOUBLE, /* double */
    OPT_STR,    /* const char *; NULL when unset */
    OPT_ENUM,   /* int: index into `allowed` */
    OPT_LIST,   /* struct option_list: list of strings; a plain string is split at commas */
    OPT_MAP,    /* const struct node *: a free-form map, keys may be added with + */
};

struct option_list {
    const char **items;
    size_t n;
};

struct option {
    const char *key; /* "workload.arrival.rate" */
    enum option_type type;
    const char *unit;    /* "1/s", "tokens", "ns", "" */
    const char *def;     /* YAML text; "" = unset (NULL, 0 and option_is_set false) */
    double min, max;     /* OPT_INT, OPT_DOUBLE; both 0 = no limit */
    const char *allowed; /* "a|b|c": OPT_ENUM's values; OPT_STR: refused otherwise; NULL = any */
    uint32_t commands;   /* CMD_... bits that show it in help; others still accept the key */
    size_t offset;       /* in struct plan */
    const char *help;    /* one sentence, no full stop */
};

extern const struct option config_options[];
extern const size_t config_options_n;

const struct option *option_find(const char *key);

/* Help lines of the rows a command uses, aligned, with unit, range and default. */
void option_help(struct buf *out, uint32_t command_bit);

#endif
