/* What the results of a search rest on beside its settings. */
#include <string.h>

#include "base/fs.h"
#include "base/hash.h"
#include "base/map.h"
#include "job/search.h"

struct inputs {
    struct arena *a;
    struct map files; /* path -> 0, each once, in the order of the candidates */
};

static void add_file(struct inputs *in, const char *path)
{
    if (path)
        map_put(&in->files, path, strlen(path), NULL);
}

/* The files in it, not those of folders in it. */
static void add_folder(struct inputs *in, const char *dir)
{
    const char **names;
    size_t n;
    struct err ignored = {0};
    if (!dir || fs_list(in->a, dir, &names, &n, &ignored) != ST_OK)
        return;
    for (size_t i = 0; i < n; i++) {
        const char *path = fs_join(in->a, dir, names[i]);
        if (!fs_is_dir(path))
            add_file(in, path);
    }
}

static void add_model(struct inputs *in, const struct job_context *c, const struct job_model *m)
{
    const char *paths[BUNDLE_FILES];
    const struct bundle_key key = job_bundle_key(c, m);
    const int n = bundle_files(in->a, &key, paths);
    for (int i = 0; i < n; i++)
        add_file(in, paths[i]);
    add_file(in, m->tokenizer);
    if (m->dir) {
        add_file(in, fs_join(in->a, m->dir, "config.json"));
        add_file(in, fs_join(in->a, m->dir, "generation_config.json"));
    }
}

static void add_plan(struct inputs *in, const struct plan *p)
{
    add_folder(in, p->predictor.tables);
    add_folder(in, p->workload.dir);
    add_file(in, p->workload.trace);
    add_file(in, p->workload.prompts);
    add_file(in, p->workload.make.lengths_trace);
    add_file(in, p->workload.make.arrival_trace);
}

/* A file that cannot be read counts by its name: the candidates that need it are refused. */
static const char *digest_of(struct arena *a, const char *path)
{
    struct fs_map file;
    struct err ignored = {0};
    char hex[HASH_SHA256_HEX + 1];
    if (fs_is_dir(path) || fs_map(path, &file, &ignored) != ST_OK)
        return path;
    hash_sha256(file.p, file.n, hex);
    fs_unmap(&file);
    return arena_printf(a, "%s %s", path, hex);
}

enum st job_search_inputs(const struct job_search *s, const char **out, struct err *e)
{
    struct inputs in = {.a = arena_new()};
    struct arena *scratch = arena_new();
    enum st st = ST_OK;
    map_init(&in.files, in.a);
    for (size_t i = 0; i < s->candidates.n && st == ST_OK; i++) {
        struct config config;
        struct job_context c = *s->c;
        struct job_model m;
        struct err ignored = {0};
        st = job_search_config(scratch, s, &s->candidates.p[i], &config, e);
        if (st != ST_OK)
            break;
        c.a = scratch;
        c.config = &config;
        c.plan = config.plan;
        add_plan(&in, c.plan);
        if (job_model(&c, false, &m, &ignored) == ST_OK)
            add_model(&in, &c, &m);
        err_clear(&ignored);
        arena_reset(scratch);
    }
    const char **parts = arena_array(in.a, const char *, in.files.n);
    for (uint32_t i = 0; i < in.files.n; i++)
        parts[i] = digest_of(in.a, in.files.entries[i].key);
    *out = hash_stable_id(s->c->a, "inputs", parts, in.files.n);
    arena_free(&scratch);
    arena_free(&in.a);
    return st;
}
