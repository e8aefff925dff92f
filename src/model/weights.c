#include "model/weights.h"

#include <string.h>

#include "base/fs.h"
#include "base/map.h"
#include "base/vec.h"
#include "model/safetensors.h"
#include "text/json.h"

struct weights {
    struct arena *a;
    const char *path; /* as requested */
    VEC(struct fs_map) files;
    VEC(struct tensor) tensors;
    struct map by_name; /* index into tensors */
};

static void add_tensor(struct weights *w, const struct tensor *t)
{
    map_put(&w->by_name, t->name, strlen(t->name), NULL)->i = (int64_t)w->tensors.n;
    vec_push(&w->tensors, *t);
}

static enum st map_file(struct weights *w, const char *path, struct tensor **t, size_t *n,
                        struct err *e)
{
    struct fs_map file;
    TRY(fs_map(path, &file, e));
    vec_push(&w->files, file);
    return safetensors_parse(w->a, path, (struct sv){file.p, file.n}, t, n, e);
}

static enum st open_file(struct weights *w, const char *path, struct err *e)
{
    struct tensor *t;
    size_t n;
    TRY(map_file(w, path, &t, &n, e));
    for (size_t i = 0; i < n; i++)
        add_tensor(w, &t[i]);
    return ST_OK;
}

/* Takes the tensors that the index assigns to the shard; ignores others in it. */
static enum st open_shard(struct weights *w, const char *dir, const struct node *weight_map,
                          const struct node *name, struct err *e)
{
    char *path;
    struct tensor *t;
    size_t n;
    if (fs_join_inside(w->a, dir, name->s.p, &path, e) != ST_OK) {
        err_hint(e, "shards lie beside their index; of a folder of links (the Hugging Face cache), "
                    "use a copy made with cp -rL");
        return err_add(e, "%s:%u:%u: cannot use this shard", name->source, name->line,
                       name->column);
    }
    TRY(map_file(w, path, &t, &n, e));
    for (size_t i = 0; i < n; i++) {
        const struct node *in = node_find(weight_map, t[i].name);
        if (in && sv_eq(in->s, name->s.p))
            add_tensor(w, &t[i]);
    }
    return ST_OK;
}

static enum st check_shard_name(const struct node_pair *pair, struct err *e)
{
    const struct node *v = pair->value;
    if (v->kind != NODE_STR || memchr(v->s.p, 0, v->s.n))
        return node_err(v, ST_INPUT, e, "weight_map: expected a file name, got %s",
                        v->kind == NODE_STR ? "a NUL character" : node_kind_name(v->kind));
    return ST_OK;
}

static enum st open_index(struct weights *w, const char *path, struct err *e)
{
    struct node *index, *weight_map;
    struct map shards;
    const struct json_limits limits = {.max_depth = 8, .max_bytes = SAFETENSORS_MAX_HEADER_BYTES};
    TRY(json_load(w->a, path, &limits, &index, e));
    TRY(node_get(index, "weight_map", NODE_MAP, &weight_map, e));
    map_init(&shards, w->a);
    for (uint32_t i = 0; i < weight_map->n; i++) {
        const struct node *v = weight_map->pairs[i].value;
        bool is_new;
        TRY(check_shard_name(&weight_map->pairs[i], e));
        map_put(&shards, v->s.p, v->s.n, &is_new);
        if (is_new)
            TRY(open_shard(w, fs_dir(w->a, path), weight_map, v, e));
    }
    for (uint32_t i = 0; i < weight_map->n; i++) {
        const struct node_pair *p = &weight_map->pairs[i];
        if (!map_find(&w->by_name, p->key.p, p->key.n))
            return node_err(p->value, ST_INPUT, e, "weight_map: tensor '%.*s' is not in %s",
                            (int)p->key.n, p->key.p, p->value->s.p);
    }
    return ST_OK;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static enum st open_path(struct weights *w, const char *path, struct err *e)
{
    if (!fs_is_dir(path))
        return ends_with(path, ".json") ? open_index(w, path, e) : open_file(w, path, e);
    const char *file = fs_join(w->a, path, "model.safetensors");
    const char *index = fs_join(w->a, path, "model.safetensors.index.json");
    if (fs_exists(file))
        return open_file(w, file, e);
    if (fs_exists(index))
        return open_index(w, index, e);
    err_set(e, ST_INPUT, "%s holds neither model.safetensors nor model.safetensors.index.json",
            path);
    return err_hint(e, "`twinfer model init` makes seeded random weights");
}

enum st weights_open(const char *path, struct weights **out, struct err *e)
{
    struct weights *w = mem_alloc(sizeof *w);
    *w = (struct weights){.a = arena_new()};
    w->path = arena_str(w->a, path);
    map_init(&w->by_name, w->a);
    enum st st = open_path(w, path, e);
    if (st != ST_OK)
        weights_close(&w);
    *out = w;
    return st;
}

void weights_close(struct weights **w)
{
    if (!*w)
        return;
    for (size_t i = 0; i < (*w)->files.n; i++)
        fs_unmap(&(*w)->files.p[i]);
    vec_free(&(*w)->files);
    vec_free(&(*w)->tensors);
    arena_free(&(*w)->a);
    mem_free(*w);
    *w = NULL;
}

size_t weights_count(const struct weights *w)
{
    return w->tensors.n;
}

const struct tensor *weights_at(const struct weights *w, size_t i)
{
    ASSERT(i < w->tensors.n);
    return &w->tensors.p[i];
}

const struct tensor *weights_find(const struct weights *w, const char *name)
{
    const struct map_entry *m = map_find(&w->by_name, name, strlen(name));
    return m ? &w->tensors.p[m->i] : NULL;
}

/* ---- against what the model needs ------------------------------------------------------------ */

/* Without its prefix, as in files of the bare model; or as in those of a model that takes images
 * too, in the forms of transformers 4 and 5. */
static const struct tensor *find_by_other_name(const struct weights *w, const char *name)
{
    static const struct {
        const char *from, *to;
    } forms[] = {
        {"model.", ""},
        {"transformer.", ""},
        {"model.", "language_model.model."},
        {"model.", "model.language_model."},
        {"lm_head.", "language_model.lm_head."},
    };
    struct buf other = {0};
    const struct tensor *t = NULL;
    for (size_t i = 0; i < sizeof forms / sizeof *forms && !t; i++) {
        const size_t n = strlen(forms[i].from);
        if (strncmp(name, forms[i].from, n) != 0)
            continue;
        other.n = 0;
        buf_printf(&other, "%s%s", forms[i].to, name + n);
        t = weights_find(w, buf_str(&other));
    }
    buf_free(&other);
    return t;
}

static bool same_shape(const struct tensor *a, const struct tensor *b)
{
    bool same = a->n_dims == b->n_dims;
    for (int i = 0; same && i < a->n_dims; i++)
        same = a->dims[i] == b->dims[i];
    return same;
}

static enum st wrong_shape(const struct weights *w, const struct tensor *got,
                           const struct tensor *want, struct err *e)
{
    struct arena *a = arena_new();
    err_set(e, ST_INPUT, "%s: tensor '%s' has the shape %s, the model needs %s", w->path, got->name,
            tensor_shape(a, got), tensor_shape(a, want));
    arena_free(&a);
    return err_hint(e, "config.json and the weights belong to different models");
}

enum st weights_require(const struct weights *w, const struct tensor *want,
                        const struct tensor **out, struct err *e)
{
    const struct tensor *t = weights_find(w, want->name);
    if (!t)
        t = find_by_other_name(w, want->name);
    if (!t) {
        err_set(e, ST_INPUT, "%s: tensor '%s' is missing", w->path, want->name);
        if (strcmp(want->name, "lm_head.weight") == 0)
            err_hint(e, "a model whose head is the embedding has tie_word_embeddings true in "
                        "config.json");
        return e->st;
    }
    if (!same_shape(t, want))
        return wrong_shape(w, t, want, e);
    if (t->dtype > DTYPE_BF16)
        return err_set(e, ST_INPUT, "%s: tensor '%s' is %s; weights are F64, F32, F16 or BF16",
                       w->path, t->name, dtype_name(t->dtype));
    *out = t;
    return ST_OK;
}
