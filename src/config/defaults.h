/* Which files make a configuration, in which order: the defaults list of the primary file, expanded
 * under the groups that the command line picks. Grammar: config/config.h. */
#ifndef CONFIG_DEFAULTS_H
#define CONFIG_DEFAULTS_H

#include "config/command.h"
#include "config/override.h"
#include "config/source.h"

struct compose_args {
    const struct sources *sources;
    enum command command;
    const char *primary; /* file name without .yaml */
    const struct override *overrides;
    size_t n_overrides;
};

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
    bool stand_in; /* the model is the one of config/stand_in.h */
};

enum st defaults_expand(struct arena *a, const struct compose_args *args, struct defaults *out,
                        struct err *e);

/* True: the override picks a group's file rather than a value. */
bool defaults_is_group(const struct sources *s, const struct override *o);

#endif
