/* Composition: merges the files of a defaults list and the overrides of the command line into one
 * tree and records every layer that set a key. Interpolation comes after. */
#ifndef CONFIG_COMPOSE_H
#define CONFIG_COMPOSE_H

#include "config/command.h"
#include "config/override.h"
#include "config/source.h"

enum layer { LAYER_DEFAULT, LAYER_FILE, LAYER_COMMAND_LINE };

/* One layer set a key, or removed it. Newest first. */
struct layer_set {
    const struct layer_set *older;
    const char *key;
    const struct node *value; /* before interpolation; NULL = removed */
    enum layer layer;
    const char *what; /* the file's path below its folder, or the override as typed */
};

struct composed {
    struct node *root;
    const struct layer_set *sets;
    const char *dir; /* the search folder of the primary file */
};

struct compose_args {
    const struct sources *sources;
    enum command command;
    const char *primary; /* file name without .yaml */
    const struct override *overrides;
    size_t n_overrides;
};

/* True: the override picks a group's file rather than a value. */
bool compose_is_group(const struct sources *s, const struct override *o);

enum st compose(struct arena *a, const struct compose_args *args, struct composed *out,
                struct err *e);

/* ---- defaults lists (defaults.c) ---- */

/* A file to merge, in order. */
struct defaults_file {
    const struct source_file *file;
    const char *path;    /* "model/tiny_qwen3" */
    const char *package; /* "model", "" = root */
};

struct defaults {
    struct defaults_file *files;
    size_t n;
    const char *dir;
};

/* Expands the primary file's defaults list under the group overrides. */
enum st defaults_expand(struct arena *a, const struct compose_args *args, struct defaults *out,
                        struct err *e);

#endif
