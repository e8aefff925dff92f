/* The option table. A row is a key of the configuration: its type, unit, default, range, allowed
 * values, the commands that use it, the settings it depends on, the field it fills, and its help.
 * The command line, YAML binding, --explain, --help, the manual pages, completion and docs/cli are
 * all made from these rows.
 *
 * A setting is declared once, by the stage that reads it: the field in the stage's struct, the row
 * in a section beside it (config/option_rows.h). All these structs together are the plan, struct
 * plan to the program and so many bytes here: option_table says which section fills which part. */
#ifndef CONFIG_OPTION_H
#define CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/command.h"

struct plan; /* job/plan.h */

enum option_type {
    OPT_BOOL,   /* bool */
    OPT_INT,    /* int64_t; 1e6 is accepted, 1.5 is not */
    OPT_DOUBLE, /* double, finite */
    OPT_STR,    /* const char *, never ""; NULL when unset */
    OPT_ENUM,   /* int or enum: index into `allowed` */
    OPT_LIST,   /* struct texts; an unquoted string is split at commas */
    OPT_MAP,    /* const struct node *, NULL when unset: a free-form map, keys are added with + */
};

/* A row is read only where all its conditions hold (config/when.h). A condition on a key that the
 * command does not use holds. */
struct option_when {
    const char
        *key; /* of another row, or with WHEN_SET several, "import|export"; NULL ends a list */
    enum option_test {
        WHEN_IS,    /* its value is one of `values` */
        WHEN_NOT,   /* it is none of them */
        WHEN_SET,   /* it has a value; an empty list is none */
        WHEN_UNSET, /* it has none */
    } test;
    const char *values; /* "gamma|poisson"; "@server": the members that have that capability */
    uint32_t of;        /* commands that have the condition; 0 = all */
    bool files;         /* of values from files too, not of those from the command line alone */
};

struct option {
    const char *key; /* "workload.arrival.rate" */
    enum option_type type;
    const char *unit;    /* "1/s", "tokens", "ns"; NULL = none */
    const char *def;     /* as typed on a command line; NULL = unset: NULL, 0, false, no items */
    double min, max;     /* OPT_INT, OPT_DOUBLE, inclusive; INFINITY = open; both 0 = no limit */
    bool starts;         /* it names a program or library that this one runs, or what that does: it
                          * is not taken from a file that nobody named (config/source.h) */
    bool null_is_word;   /* OPT_STR: null is one of its names, not "unset" */
    const char *allowed; /* "a|b|c": OPT_ENUM's values; OPT_STR: others are refused; NULL = any */
    uint32_t commands;   /* CMD_... bits. On the command line of another command the key is
                          * refused; in a file, which commands share, it is checked and ignored */
    const struct option_when *when; /* conditions; NULL = none */
    struct {
        uint32_t commands; /* which have another default than def */
        const char *def;
    } instead;
    size_t offset;    /* in the section's struct */
    const char *help; /* one sentence, no full stop */
};

/* What some members of a registry can do, as rows ask for it: "@server" in a condition on
 * engine.kind is "openai", and "@{scheduler.policy:chunk_size}" in a help text the list of policies
 * that have chunks. So a new member touches no row. */
struct option_capability {
    const char *key, *word;                        /* "engine.kind", "server"; NULL ends a list */
    void (*names)(struct buf *out, uint32_t bits); /* option_name of each member that has it */
    uint32_t bits;                                 /* the registry's own */
};
void option_name(struct buf *names, const char *member);

/* Rows that fill one struct. */
struct option_section {
    const struct option *rows;
    size_t n;
};

/* The sections of the program, defined above all stages (job/plan.c), in the order of --help. It
 * also is that of --cfg, and the stable ids of runs are made from that: a row that moves gives
 * every run another id. */
struct option_place {
    const struct option_section *section;
    size_t offset, size; /* of its struct, in the plan */
};
struct option_table {
    const struct option_place *places;
    size_t n;
    size_t plan_size;
    const struct option_capability *const *capabilities; /* lists, NULL-terminated */
};
extern const struct option_table option_table;

/* All rows, in that order:
 *
 *     for (struct option_iter i = {0}; option_next(&i);)
 *         use(i.o); */
struct option_iter {
    const struct option *o;
    size_t offset;       /* of its field, in the plan */
    size_t section, row; /* the next one */
};
bool option_next(struct option_iter *i);

/* The default for a command, NULL when there is none. */
const char *option_default(const struct option *o, uint32_t command);

const struct option *option_find(const char *key);

/* The OPT_MAP row that key is under ("model.config" for "model.config.hidden_size"), or NULL. */
const struct option *option_map_of(const char *key);
/* "a.b.c" is below "a.b" and "a". */
bool option_is_below(const char *key, const char *section);
/* Rows stand below "<key>.": "workload", "workload.arrival". */
bool option_is_section(const char *key);

/* "auto|@bundle" of a key with members in place of capabilities; those that there are not stay. */
const char *option_members(struct arena *a, const char *key, const char *values);
/* The help with members in place of capabilities. */
const char *option_help_text(struct arena *a, const struct option *o);

/* "a, b or c" for "a|b|c" and last " or ". */
void option_list_values(struct buf *out, const char *values, const char *last);

/* Up to `max` keys that look most like the unknown one, best first, among the rows of the commands
 * in `bits`; *close is set when the first is close enough to be a typo; keys much farther are then
 * left out. Returns how many. */
size_t option_nearest(const char *unknown, uint32_t bits, const char **out, size_t max,
                      bool *close);

/* The hint that goes with an unknown key: "did you mean seed? also near: ..." */
void option_hint(const char *unknown, uint32_t bits, struct err *e);

#endif
