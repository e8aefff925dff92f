/* Where configuration files come from: --config-dir, ./configs, those installed with the program
 * (<prefix>/share/twinfer/configs), then those inside it. */
#ifndef CONFIG_SOURCE_H
#define CONFIG_SOURCE_H

#include "base/embed.h"
#include "text/node.h"

struct sources {
    const char *dirs[3]; /* searched in this order; of the arena */
    int n_dirs;
    const char *unasked; /* the one of them that nobody named, ./configs; NULL = none */
    const struct embed_file *embedded; /* searched last; may be NULL */
};

extern const char source_built_in[]; /* "(built in)" */

/* config_dir may be NULL; one that is no directory is ST_USAGE. */
enum st sources_init(struct arena *a, struct sources *s, const char *config_dir,
                     const struct embed_file *embedded, struct err *e);

struct source_file {
    const char *name;    /* as errors show it: "configs/model/x.yaml" */
    const char *dir;     /* of the search path: "configs", "(built in)" */
    const char *package; /* of a `# @package` header, or NULL */
    struct node *tree;   /* a map */
    bool unasked;        /* found in ./configs, and not what is inside the program */
};

/* The file `path` ("model/x", without .yaml), parsed. ST_END when there is none. */
enum st sources_load(struct arena *a, const struct sources *s, const char *path,
                     struct source_file *out, struct err *e);

/* There is a folder of that name with files in it. */
bool sources_has_group(const struct sources *s, const char *group);
/* The groups there are, sorted, each once. */
const char **sources_groups(struct arena *a, const struct sources *s, size_t *n);
/* Its files without .yaml, sorted, each once. */
const char **sources_options(struct arena *a, const struct sources *s, const char *group,
                             size_t *n);

#endif
