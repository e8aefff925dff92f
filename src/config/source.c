#include "config/source.h"

#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/vec.h"
#include "text/yaml.h"

const char source_built_in[] = "(built in)";

enum st sources_init(struct arena *a, struct sources *s, const char *config_dir,
                     const struct embed_file *embedded, struct err *e)
{
    *s = (struct sources){.embedded = embedded};
    if (config_dir) {
        if (!fs_is_dir(config_dir))
            return err_set(e, ST_USAGE, "--config-dir: %s is not a directory", config_dir);
        s->dirs[s->n_dirs++] = config_dir;
    }
    if (fs_is_dir("configs"))
        s->dirs[s->n_dirs++] = s->unasked = "configs";
    const char *installed = arena_printf(a, "%s/share/twinfer/configs", fs_dir(a, fs_self_dir(a)));
    if (fs_is_dir(installed))
        s->dirs[s->n_dirs++] = installed;
    return ST_OK;
}

/* `# @package NAME` among the comments the file begins with. */
static const char *package_header(struct arena *a, struct sv text)
{
    while (text.n) {
        const char *nl = memchr(text.p, '\n', text.n);
        size_t n = nl ? (size_t)(nl - text.p) : text.n;
        struct sv line = sv_trim((struct sv){text.p, n});
        if (line.n && line.p[0] != '#')
            return NULL;
        if (line.n) {
            line = sv_trim((struct sv){line.p + 1, line.n - 1});
            static const char mark[] = "@package";
            size_t m = sizeof mark - 1;
            if (line.n > m && memcmp(line.p, mark, m) == 0 &&
                (line.p[m] == ' ' || line.p[m] == '\t')) {
                line = sv_trim((struct sv){line.p + m, line.n - m});
                return arena_strn(a, line.p, line.n);
            }
        }
        text = nl ? (struct sv){nl + 1, text.n - n - 1} : SV("");
    }
    return NULL;
}

static bool same_text(const struct embed_file *row, struct sv text)
{
    return row && row->size == text.n && memcmp(row->bytes, text.p, text.n) == 0;
}

static enum st parse(struct arena *a, struct sv text, struct source_file *out, struct err *e)
{
    out->package = package_header(a, text);
    TRY(yaml_parse(a, out->name, text, &out->tree, e));
    if (out->tree->kind == NODE_NULL)
        out->tree = node_new(a, NODE_MAP);
    if (out->tree->kind != NODE_MAP)
        return node_err(out->tree, ST_INPUT, e, "a configuration file is a map of keys, not %s",
                        node_kind_name(out->tree->kind));
    return ST_OK;
}

enum st sources_load(struct arena *a, const struct sources *s, const char *path,
                     struct source_file *out, struct err *e)
{
    const char *name = arena_printf(a, "%s.yaml", path);
    const struct embed_file *row = s->embedded ? embed_find(s->embedded, name) : NULL;
    for (int i = 0; i < s->n_dirs; i++) {
        const char *file = fs_join(a, s->dirs[i], name);
        if (!fs_exists(file))
            continue;
        if (fs_is_dir(file))
            return err_set(e, ST_USAGE, "%s is a directory, not a configuration file", file);
        struct sv text;
        TRY(fs_read(a, file, YAML_MAX_BYTES, &text, e));
        *out = (struct source_file){.name = file,
                                    .dir = s->dirs[i],
                                    .unasked = s->dirs[i] == s->unasked && !same_text(row, text)};
        return parse(a, text, out, e);
    }
    if (!row)
        return ST_END;
    *out = (struct source_file){.name = arena_printf(a, "%s/%s", source_built_in, name),
                                .dir = source_built_in};
    return parse(a, (struct sv){row->bytes, row->size}, out, e);
}

/* The name of the file when path is "<group>/<name>.yaml", else n == 0. */
static struct sv option_in(const char *path, const char *group)
{
    size_t g = strlen(group), n = strlen(path);
    if (n <= g + 6 || strncmp(path, group, g) != 0 || path[g] != '/' ||
        strcmp(path + n - 5, ".yaml") != 0 || strchr(path + g + 1, '/'))
        return SV("");
    return (struct sv){path + g + 1, n - g - 6};
}

bool sources_has_group(const struct sources *s, const char *group)
{
    size_t g = strlen(group);
    for (const struct embed_file *f = s->embedded; f && f->path; f++)
        if (strncmp(f->path, group, g) == 0 && f->path[g] == '/')
            return true;
    struct arena *a = arena_new();
    bool found = false;
    for (int i = 0; i < s->n_dirs && !found; i++)
        found = fs_is_dir(fs_join(a, s->dirs[i], group));
    arena_free(&a);
    return found;
}

static int by_name(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

typedef VEC(const char *) name_vec;

/* Sorted, each once; frees v. */
static const char **unique_names(struct arena *a, name_vec *v, size_t *n)
{
    if (v->n)
        qsort(v->p, v->n, sizeof *v->p, by_name);
    size_t kept = 0;
    for (size_t i = 0; i < v->n; i++)
        if (kept == 0 || strcmp(v->p[kept - 1], v->p[i]) != 0)
            v->p[kept++] = v->p[i];
    const char **out = arena_copy(a, v->p, kept * sizeof *v->p);
    vec_free(v);
    *n = kept;
    return out;
}

const char **sources_groups(struct arena *a, const struct sources *s, size_t *n)
{
    name_vec v = {0};
    for (int i = 0; i < s->n_dirs; i++) {
        const char **names;
        size_t n_names;
        struct err ignored = {0};
        if (fs_list(a, s->dirs[i], &names, &n_names, &ignored) != ST_OK)
            continue;
        for (size_t k = 0; k < n_names; k++)
            if (fs_is_dir(fs_join(a, s->dirs[i], names[k])))
                vec_push(&v, names[k]);
    }
    for (const struct embed_file *f = s->embedded; f && f->path; f++) {
        const char *slash = strrchr(f->path, '/');
        if (slash)
            vec_push(&v, arena_strn(a, f->path, (size_t)(slash - f->path)));
    }
    return unique_names(a, &v, n);
}

const char **sources_options(struct arena *a, const struct sources *s, const char *group, size_t *n)
{
    name_vec v = {0};
    for (int i = 0; i < s->n_dirs; i++) {
        const char **files;
        size_t n_files;
        struct err ignored = {0};
        if (fs_list(a, fs_join(a, s->dirs[i], group), &files, &n_files, &ignored) != ST_OK)
            continue;
        for (size_t k = 0; k < n_files; k++) {
            size_t len = strlen(files[k]);
            if (len > 5 && strcmp(files[k] + len - 5, ".yaml") == 0)
                vec_push(&v, arena_strn(a, files[k], len - 5));
        }
    }
    for (const struct embed_file *f = s->embedded; f && f->path; f++) {
        struct sv name = option_in(f->path, group);
        if (name.n)
            vec_push(&v, arena_strn(a, name.p, name.n));
    }
    return unique_names(a, &v, n);
}
