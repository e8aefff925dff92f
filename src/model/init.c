#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/partial.h"
#include "model/random.h"
#include "model/safetensors.h"
#include "text/json.h"

#define MIB (INT64_C(1) << 20)

/* ---- a file written in pieces, then renamed -------------------------------------------------- */

struct out_file {
    FILE *f;
    const char *path, *tmp;
};

static enum st out_open(struct arena *a, const char *path, struct out_file *o, struct err *e)
{
    *o = (struct out_file){.path = path};
    int fd = fs_create_temp(a, path, &o->tmp, e);
    if (fd < 0)
        return e->st;
    o->f = fdopen(fd, "wb");
    ASSERT(o->f);
    return ST_OK;
}

static enum st out_put(struct out_file *o, const void *p, size_t n, struct err *e)
{
    if (n != 0 && fwrite(p, 1, n, o->f) != n)
        return err_errno(e, false, "cannot write %s", o->tmp);
    return ST_OK;
}

/* st: result so far; anything but ST_OK removes the file. */
static enum st out_close(struct out_file *o, enum st st, struct err *e)
{
    if (st == ST_OK && (fflush(o->f) != 0 || fsync(fileno(o->f)) != 0))
        st = err_errno(e, false, "cannot write %s", o->tmp);
    fclose(o->f);
    if (st == ST_OK && rename(o->tmp, o->path) != 0)
        st = err_errno(e, false, "cannot rename %s to %s", o->tmp, o->path);
    if (st != ST_OK)
        unlink(o->tmp);
    return st;
}

typedef enum st (*put_tensor_fn)(struct out_file *o, const struct tensor *t, void *arg,
                                 struct err *e);

static enum st write_file(const char *path, const struct node *metadata,
                          const struct tensor *tensors, size_t n, put_tensor_fn put, void *arg,
                          struct err *e)
{
    struct arena *a = arena_new();
    struct out_file o;
    enum st st = out_open(a, path, &o, e);
    if (st == ST_OK) {
        struct buf header = {0};
        safetensors_header(&header, metadata, tensors, n);
        st = out_put(&o, header.p, header.n, e);
        buf_free(&header);
        for (size_t i = 0; st == ST_OK && i < n; i++)
            st = put(&o, &tensors[i], arg, e);
        st = out_close(&o, st, e);
    }
    arena_free(&a);
    return st;
}

static enum st put_given(struct out_file *o, const struct tensor *t, void *arg, struct err *e)
{
    (void)arg;
    return out_put(o, t->data, (size_t)tensor_elements(t) * dtype_bytes(t->dtype), e);
}

enum st weights_write(const char *path, const struct tensor *tensors, size_t n, struct err *e)
{
    return write_file(path, NULL, tensors, n, put_given, NULL, e);
}

/* ---- a whole model folder -------------------------------------------------------------------- */

/* Progress of writing weights, in readable units. */
struct weights_writing {
    const struct model_init_params *p;
    struct progress progress;
    int64_t bytes;
};

static enum st put_random(struct out_file *o, const struct tensor *t, void *arg, struct err *e)
{
    enum { PIECE = 1 << 16 };
    struct weights_writing *w = arg;
    const struct random_weights r = random_weights_of(t, w->p->seed);
    float *piece = mem_alloc(PIECE * sizeof *piece);
    const int64_t all = tensor_elements(t);
    enum st st = ST_OK;
    for (int64_t at = 0; st == ST_OK && at < all; at += PIECE) {
        const size_t n = (size_t)(all - at < PIECE ? all - at : PIECE);
        random_weights_get(&r, at, n, piece);
        st = out_put(o, piece, n * sizeof *piece, e);
        w->bytes += (int64_t)(n * sizeof *piece);
        progress_at(&w->progress, w->bytes / MIB, NULL);
        if (st == ST_OK && w->p->stop && *w->p->stop)
            st = err_set(e, ST_INTERRUPTED, "interrupted; nothing is left of %s", w->p->dir);
    }
    mem_free(piece);
    return st;
}

/* The configuration as given, with the dtype that is written. */
static enum st write_config(struct arena *a, const char *dir, const struct node *config,
                            struct err *e)
{
    struct node *c = node_copy(a, config);
    const char *key = node_find(c, "dtype") ? "dtype" : "torch_dtype";
    struct buf text = {0};
    node_set(a, c, sv_of(key), node_str(a, "float32"));
    json_write(&text, c, 2, true);
    enum st st = fs_write_atomic(fs_join(a, dir, "config.json"), text.p, text.n, e);
    buf_free(&text);
    return st;
}

static enum st copy_tokenizer(struct arena *a, const char *from, const char *dir, struct err *e)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "special_tokens_map.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = fs_join(a, from, names[i]);
        struct fs_map file;
        if (!fs_exists(path))
            continue;
        TRY(fs_map(path, &file, e));
        enum st st = fs_write_atomic(fs_join(a, dir, names[i]), file.p, file.n, e);
        fs_unmap(&file);
        TRY(st);
    }
    return ST_OK;
}

/* What the weights are, for readers of the file: the format's metadata are strings. */
static const struct node *random_metadata(struct arena *a, uint64_t seed)
{
    struct node *m = node_new(a, NODE_MAP);
    node_set(a, m, SV("random_weights_version"),
             node_str(a, arena_printf(a, "%d", RANDOM_WEIGHTS_VERSION)));
    node_set(a, m, SV("random_weights_generator"), node_str(a, RANDOM_WEIGHTS_GENERATOR));
    node_set(a, m, SV("random_weights_seed"),
             node_str(a, arena_printf(a, "%llu", (unsigned long long)seed)));
    return m;
}

/* Bytes of the weights and a reserve for the other files. */
static int64_t disk_bytes(const struct tensor *t, size_t n)
{
    int64_t bytes = 16 * MIB;
    for (size_t i = 0; i < n; i++)
        bytes += (int64_t)t[i].bytes;
    return bytes;
}

static enum st fill(struct arena *a, const struct model_init_params *p, const struct tensor *t,
                    size_t n, const char *dir, struct err *e)
{
    struct weights_writing w = {.p = p};
    if (p->from_dir)
        TRY(copy_tokenizer(a, p->from_dir, dir, e));
    TRY(write_config(a, dir, p->config, e));
    progress_begin(&w.progress, "model", "MiB", disk_bytes(t, n) / MIB);
    enum st st = write_file(fs_join(a, dir, "model.safetensors"), random_metadata(a, p->seed), t, n,
                            put_random, &w, e);
    progress_end(&w.progress);
    return st == ST_OK ? fs_sync_dir(dir, e) : st;
}

static enum st check_absent(struct arena *a, const char *dir, struct err *e)
{
    const char **names;
    size_t n = 0;
    if (!fs_exists(dir))
        return ST_OK;
    if (!fs_is_dir(dir))
        return err_set(e, ST_USAGE, "%s exists and is not a folder", dir);
    TRY(fs_list(a, dir, &names, &n, e));
    return n == 0 ? ST_OK : err_set(e, ST_USAGE, "%s exists and is not empty", dir);
}

static enum st init(struct arena *a, const struct model_init_params *p, struct err *e)
{
    size_t n = strlen(p->dir), n_tensors;
    while (n > 1 && p->dir[n - 1] == '/')
        n--;
    const char *dir = arena_strn(a, p->dir, n);
    TRY(model_check_computed(p->model, e));
    TRY(check_absent(a, dir, e));
    const struct tensor *t = model_tensors(a, p->model, NULL, &n_tensors);
    TRY(fs_need_space(dir, disk_bytes(t, n_tensors), e));
    struct partial partial;
    TRY(partial_make(a, dir, &partial, e));
    enum st st = fill(a, p, t, n_tensors, partial.path, e);
    if (st == ST_OK && rename(partial.path, dir) != 0)
        st = err_errno(e, false, "cannot rename %s to %s", partial.path, dir);
    if (st == ST_OK)
        partial_release(&partial);
    else
        partial_discard(&partial);
    return st;
}

enum st model_init(const struct model_init_params *p, struct err *e)
{
    struct arena *a = arena_new();
    enum st st = init(a, p, e);
    arena_free(&a);
    return st;
}
