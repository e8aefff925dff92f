/* Composition: merges the files of a defaults list and the overrides of the command line into one
 * tree and records every layer that set a key. Interpolation comes after. */
#ifndef CONFIG_COMPOSE_H
#define CONFIG_COMPOSE_H

#include "config/defaults.h"

enum layer { LAYER_DEFAULT, LAYER_FILE, LAYER_COMMAND_LINE };

/* One layer set a key, or removed it. Newest first. */
struct layer_set {
    const struct layer_set *older;
    const char *key;
    const struct node *value; /* before interpolation; NULL = removed */
    enum layer layer;
    const char *what; /* the file's path below its folder, or the override as typed */
    bool unasked;     /* of a file that nobody named (config/source.h) */
};

struct composed {
    struct node *root;
    const struct layer_set *sets;
    const char *dir; /* the search folder of the primary file */
    const char
        *unasked;  /* "configs/bench.yaml, configs/model/x.yaml": files that nobody named; NULL */
    bool stand_in; /* the model is that of config/stand_in.h */
};

enum st compose(struct arena *a, const struct compose_args *args, struct composed *out,
                struct err *e);

#endif
