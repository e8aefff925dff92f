/* The one option table. A row is a key of the configuration: its type, unit, default, range,
 * allowed values, the commands that use it, where it lands in struct plan, and its help. The
 * command line, YAML binding, --explain, --help and docs/cli are all made from these rows. */
#ifndef CONFIG_OPTION_H
#define CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/command.h"

enum option_type {
    OPT_BOOL,   /* bool */
    OPT_INT,    /* int64_t; 1e6 is accepted, 1.5 is not */
    OPT_DOUBLE, /* double, finite */
    OPT_STR,    /* const char *, never ""; NULL when unset */
    OPT_ENUM,   /* int: index into `allowed` */
    OPT_LIST,   /* struct option_list: list of strings; an unquoted string is split at commas */
    OPT_MAP,    /* const struct node *, NULL when unset: a free-form map, keys are added with + */
};

struct option_list {
    const char **items;
    size_t n;
};

struct option {
    const char *key; /* "workload.arrival.rate" */
    enum option_type type;
    const char *unit;    /* "1/s", "tokens", "ns", "" */
    const char *def;     /* as typed on a command line; "" = unset: NULL, 0, false, no items */
    double min, max;     /* OPT_INT, OPT_DOUBLE, inclusive; INFINITY = open; both 0 = no limit */
    const char *allowed; /* "a|b|c": OPT_ENUM's values; OPT_STR: others are refused; NULL = any */
    uint32_t commands;   /* CMD_... bits. On the command line of another command the key is
                          * refused; in a file, which commands share, it is checked and ignored */
    size_t offset;       /* in struct plan */
    const char *help;    /* one sentence, no full stop */
};

extern const struct option config_options[];
extern const size_t config_options_n;

const struct option *option_find(const char *key);

/* The OPT_MAP row that key is under ("model.config" for "model.config.hidden_size"), or NULL. */
const struct option *option_map_of(const char *key);
/* "a.b.c" is below "a.b" and "a". */
bool option_is_below(const char *key, const char *section);
/* Rows stand below "<key>.": "workload", "workload.arrival". */
bool option_is_section(const char *key);

/* Up to `max` keys that look most like the unknown one, best first, among the rows of the commands
 * in `bits`; *close is set when the first is close enough to be a typo; keys much farther are then
 * left out. Returns how many. */
size_t option_nearest(const char *unknown, uint32_t bits, const char **out, size_t max,
                      bool *close);

/* The hint that goes with an unknown key: "did you mean seed? also near: ..." */
void option_hint(const char *unknown, uint32_t bits, struct err *e);

/* Help lines of the rows a command uses: key, help, and in brackets type or range, unit and
 * default; at most 100 columns. */
void option_help(struct buf *out, uint32_t command_bit);

/* The text in brackets: "1 to 64 tokens; default 8". out is empty. */
void option_facts(struct buf *out, const struct option *o);

/* "64 tokens or more", "0 to 1", "one of a, b"; nothing when every value will do. */
void option_range(struct buf *out, const struct option *o);

#endif
