#include "artifact/artifact.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "text/json.h"
#include "text/yaml.h"

#define INCOMPLETE_NAME "incomplete.json"
enum { SCHEMA_VERSION = 1 };

/* Meta file of each kind of artifact, so that errors name the kind that was found, and the newest
 * schema_version that is read. */
static const struct {
    const char *file, *what;
    int newest;
} kinds[] = {
    {"run_meta.json", "a run", 1},
    {"workload_meta.json", "a workload", 2},
    {"bundle_meta.json", "a profiling bundle", 1},
    {"manifest.json", "a capsule", 1},
};

static const char *kind_of(const char *meta_name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].file, meta_name) == 0)
            return kinds[i].what;
    return "an artifact";
}

static int newest_schema(const char *meta_name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].file, meta_name) == 0)
            return kinds[i].newest;
    return SCHEMA_VERSION;
}

static char *without_trailing_slashes(struct arena *a, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    return arena_strn(a, path, n);
}

/* ---- writing ----------------------------------------------------------------------------- */

static enum st refuse_existing(const struct artifact *art, struct err *e)
{
    const char *dir = art->final_dir;
    struct stat s;
    if (lstat(dir, &s) != 0)
        return ST_OK;
    if (S_ISLNK(s.st_mode)) {
        err_set(e, ST_USAGE, "out: %s already exists and is a symbolic link", dir);
        return err_hint(e, "choose another out=, or remove the link");
    }
    if (!S_ISDIR(s.st_mode)) {
        err_set(e, ST_USAGE, "out: %s already exists and is not a folder", dir);
        return err_hint(e, "choose another out=, or remove the file");
    }
    err_set(e, ST_USAGE, "out: %s already exists", dir);
    struct arena *a = arena_new();
    bool whole = fs_exists(fs_join(a, dir, art->meta_name));
    bool abandoned = fs_exists(fs_join(a, dir, INCOMPLETE_NAME));
    arena_free(&a);
    if (whole)
        return err_hint(e, "choose another out=; for a further run of the same job bench and "
                           "simulate take repeat=");
    if (abandoned)
        return err_hint(e, "it is incomplete (%s says why): remove it, or choose another out=",
                        INCOMPLETE_NAME);
    return err_hint(e, "it holds no %s: choose another out=, or remove it", art->meta_name);
}

enum st artifact_begin(struct arena *a, const char *final_dir, const char *meta_name,
                       struct artifact *out, struct err *e)
{
    *out = (struct artifact){.a = a, .meta_name = meta_name, .started_wall_ns = clock_wall_ns()};
    out->final_dir = without_trailing_slashes(a, final_dir);
    const char *name = fs_base(out->final_dir);
    if (name[0] == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return err_set(e, ST_USAGE, "out: '%s' is not the name of a new folder", final_dir);
    if (partial_is_name(name))
        return err_set(e, ST_USAGE,
                       "out: %s: names that begin with .partial- mark unfinished folders",
                       out->final_dir);
    TRY(refuse_existing(out, e));
    return partial_make(a, out->final_dir, &out->partial, e);
}

char *artifact_path(struct arena *a, const struct artifact *art, const char *name)
{
    return fs_join(a, art->partial.path, name);
}

static enum st full_disk_hint(struct err *e)
{
    return err_hint(e, "free space there, or choose another place with out=");
}

enum st artifact_create_file(const struct artifact *art, const char *name, FILE **f, struct err *e)
{
    *f = NULL;
    char *path = artifact_path(art->a, art, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd >= 0 && !(*f = fdopen(fd, "w"))) {
        int code = errno;
        close(fd);
        errno = code;
    }
    if (*f)
        return ST_OK;
    err_errno(e, false, "cannot create %s", path);
    return full_disk_hint(e);
}

enum st artifact_close_file(const struct artifact *art, const char *name, FILE **f, struct err *e)
{
    if (!*f)
        return ST_OK;
    int code = 0;
    if (ferror(*f)) /* errno is lost: one more write fails the same way */
        code = write(fileno(*f), "\n", 1) < 0 ? errno : EIO;
    else if (fflush(*f) != 0 || fsync(fileno(*f)) != 0)
        code = errno;
    if (fclose(*f) != 0 && code == 0)
        code = errno;
    *f = NULL;
    if (code == 0)
        return ST_OK;
    errno = code;
    err_errno(e, false, "cannot write %s", artifact_path(art->a, art, name));
    return full_disk_hint(e);
}

enum st artifact_write(const struct artifact *art, const char *name, const struct buf *bytes,
                       struct err *e)
{
    FILE *f;
    TRY(artifact_create_file(art, name, &f, e));
    if (bytes->n > 0)
        fwrite(bytes->p, 1, bytes->n, f); /* a full disk shows when it is closed */
    return artifact_close_file(art, name, &f, e);
}

enum st artifact_write_json(const struct artifact *art, const char *name, const struct node *n,
                            struct err *e)
{
    struct buf text = {0};
    json_write(&text, n, 2, true);
    const enum st st = artifact_write(art, name, &text, e);
    buf_free(&text);
    return st;
}

/* At once or not at all: the meta file says that the rest is there. */
static enum st write_json(const struct artifact *art, const char *name, const struct node *n,
                          struct err *e)
{
    struct buf b = {0};
    json_write(&b, n, 2, true);
    enum st st = fs_write_atomic(artifact_path(art->a, art, name), b.p, b.n, e);
    buf_free(&b);
    return st == ST_OK ? ST_OK : full_disk_hint(e);
}

/* rename() would replace an empty folder created meanwhile; it refuses everything else. */
static enum st move_into_place(struct artifact *art, struct err *e)
{
    const char *from = art->partial.path;
    TRY(fs_sync_dir(from, e));
    TRY(refuse_existing(art, e));
    if (rename(from, art->final_dir) != 0)
        return err_errno(e, false, "cannot rename %s to %s", from, art->final_dir);
    partial_release(&art->partial);
    return fs_sync_dir(fs_dir(art->a, art->final_dir), e);
}

enum st run_snapshot(const struct artifact *art, const char *config_yaml,
                     const char *const *overrides, size_t n, struct err *e)
{
    struct node *list = node_new(art->a, NODE_LIST);
    for (size_t i = 0; i < n; i++)
        node_push(art->a, list, node_str(art->a, overrides[i]));
    TRY(fs_write_atomic(artifact_path(art->a, art, "config.yaml"), config_yaml, strlen(config_yaml),
                        e));
    struct buf b = {0};
    yaml_write(&b, list);
    enum st st = fs_write_atomic(artifact_path(art->a, art, "overrides.yaml"), buf_str(&b), b.n, e);
    buf_free(&b);
    return st;
}

void artifact_need_schema(struct arena *a, struct node *meta, int64_t version)
{
    node_set(a, meta, SV("schema_version"), node_int(a, version));
}

enum st artifact_commit(struct artifact *art, struct node *meta, struct err *e)
{
    ASSERT(art->partial.path);
    if (!meta)
        meta = node_new(art->a, NODE_MAP);
    if (!node_find(meta, "schema_version"))
        artifact_need_schema(art->a, meta, SCHEMA_VERSION);
    enum st st = write_json(art, art->meta_name, meta, e);
    if (st == ST_OK)
        st = move_into_place(art, e);
    return st == ST_OK ? ST_OK : err_add(e, "cannot finish %s", art->final_dir);
}

enum st artifact_abandon(struct artifact *art, const char *why, struct err *e)
{
    ASSERT(art->partial.path);
    struct arena *a = art->a;
    if (unlink(artifact_path(a, art, art->meta_name)) != 0 && errno != ENOENT)
        return err_errno(e, false, "cannot remove %s", artifact_path(a, art, art->meta_name));
    struct node *n = node_new(a, NODE_MAP);
    node_set(a, n, SV("reason"), node_str(a, why));
    node_set(a, n, SV("started_at"), artifact_time(a, art->started_wall_ns));
    node_set(a, n, SV("ended_at"), artifact_time(a, clock_wall_ns()));
    enum st st = write_json(art, INCOMPLETE_NAME, n, e);
    if (st == ST_OK)
        st = move_into_place(art, e);
    return st == ST_OK ? ST_OK : err_add(e, "cannot keep what was measured in %s", art->final_dir);
}

void artifact_discard(struct artifact *art)
{
    partial_discard(&art->partial);
}

/* ---- reading ----------------------------------------------------------------------------- */

/* By the name of the folder itself, however it was reached: through a link, "." or "x/..". */
enum st artifact_refuse_partial(const char *dir, struct err *e)
{
    char real[PATH_MAX];
    const char *path = realpath(dir, real) ? real : dir;
    if (!partial_is_name(fs_base(path)))
        return ST_OK;
    err_set(e, ST_INPUT, "%s is an unfinished folder: its writer was killed or still runs", dir);
    return err_hint(
        e, "run that stage again; twinfer doctor says whether something still writes to it");
}

static enum st refuse_without_meta(struct arena *a, const char *dir, const char *meta_name,
                                   struct err *e)
{
    char *note = fs_join(a, dir, INCOMPLETE_NAME);
    struct node *n;
    const char *why;
    struct err quiet = {0};
    if (fs_exists(note) && json_load(a, note, NULL, &n, &quiet) == ST_OK &&
        node_get_str(n, "reason", &why, &quiet) == ST_OK) {
        err_set(e, ST_INPUT, "%s is incomplete: %s", dir, why);
        return err_hint(e,
                        "its files may be looked at, but no later stage takes them: run it again");
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (fs_exists(fs_join(a, dir, kinds[i].file)))
            return err_set(e, ST_INPUT, "%s is %s, not %s: it has %s and no %s", dir, kinds[i].what,
                           kind_of(meta_name), kinds[i].file, meta_name);
    err_set(e, ST_INPUT, "%s is incomplete: it has no %s", dir, meta_name);
    return err_hint(e, "%s is written last; make the folder again", meta_name);
}

bool artifact_is_foreign_v1(const struct node *meta)
{
    const struct node *version = node_find(meta, "schema_version");
    return version && version->kind == NODE_STR && sv_eq(version->s, "v1");
}

static enum st check_schema(const struct node *meta, const char *path, int newest, struct err *e)
{
    int64_t version;
    if (meta->kind != NODE_MAP)
        return err_at(e, ST_INPUT, path, 1, 1, "expected a map, got %s",
                      node_kind_name(meta->kind));
    if (artifact_is_foreign_v1(meta))
        return ST_OK;
    TRY(node_get_int(meta, "schema_version", 1, INT64_MAX, &version, e));
    return node_check_version(meta, "schema_version", newest, e);
}

static bool type_matches(const char *types, const char *have)
{
    size_t n = strlen(have);
    for (const char *p = types;;) {
        size_t len = strcspn(p, "|");
        if (len == n && memcmp(p, have, n) == 0)
            return true;
        if (!p[len])
            return false;
        p += len + 1;
    }
}

static enum st check_type(const struct node *meta, const char *dir, const char *type, struct err *e)
{
    const char *have;
    TRY(node_get_str(meta, "run_type", &have, e));
    if (type_matches(type, have))
        return ST_OK;
    struct buf want = {0};
    for (const char *p = type; *p; p++)
        *p == '|' ? buf_puts(&want, " or ") : buf_putc(&want, *p);
    err_set(e, ST_INPUT, "%s is a run of type '%s', expected %s", dir, have, buf_str(&want));
    buf_free(&want);
    return e->st;
}

enum st artifact_open(struct arena *a, const char *dir, const char *meta_name, const char *type,
                      struct node **meta, struct err *e)
{
    if (dir[0] == 0)
        return err_set(e, ST_INPUT, "the name of a folder is empty");
    struct stat s;
    if (stat(dir, &s) != 0)
        return errno == ENOENT ? err_set(e, ST_INPUT, "%s does not exist", dir)
                               : err_errno(e, true, "cannot open %s", dir);
    if (!S_ISDIR(s.st_mode))
        return err_set(e, ST_INPUT, "%s is not a folder", dir);
    TRY(artifact_refuse_partial(dir, e));
    char *path = fs_join(a, dir, meta_name);
    if (!fs_exists(path))
        return refuse_without_meta(a, dir, meta_name, e);
    TRY(json_load(a, path, NULL, meta, e));
    TRY(check_schema(*meta, path, newest_schema(meta_name), e));
    return type ? check_type(*meta, dir, type, e) : ST_OK;
}
