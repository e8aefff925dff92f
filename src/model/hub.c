#include "model/hub.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"

enum { NAME_MOST = 96, REVISION_MOST = 255, REF_BYTES = 4096, COMMIT_DIGITS = 40 };

struct hub_request {
    struct arena *a;
    const char *cache, *name, *revision; /* revision: "main" where none was given */
    bool stated;                         /* one was given */
    const char *folder;                  /* models--ORG--NAME */
};

/* ---- names ----------------------------------------------------------------------------------- */

/* A part of a repository's name: letters, digits, '-', '_' and '.', no "--" or "..", which do not
 * begin or end it. */
static bool good_part(const char *p, size_t n)
{
    if (n == 0 || n > NAME_MOST || p[0] == '-' || p[0] == '.' || p[n - 1] == '-' || p[n - 1] == '.')
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)p[i]) && !strchr("-_.", p[i]))
            return false;
        if (i && p[i] == p[i - 1] && (p[i] == '-' || p[i] == '.'))
            return false;
    }
    return true;
}

/* A path below refs: "main", "v1.0", "refs/pr/1". */
static bool good_revision(const char *s)
{
    if (!*s || strlen(s) > REVISION_MOST)
        return false;
    for (const char *p = s;; p++) {
        if (*p && !isgraph((unsigned char)*p))
            return false;
        if (*p && *p != '/')
            continue;
        const size_t n = (size_t)(p - s);
        if (n == 0 || (n <= 2 && strspn(s, ".") == n))
            return false;
        if (!*p)
            return true;
        s = p + 1;
    }
}

bool hub_is_name(const char *text)
{
    const char *slash = strchr(text, '/'), *at = strchr(text, '@');
    const char *end = at ? at : text + strlen(text);
    return slash && slash < end && good_part(text, (size_t)(slash - text)) &&
           good_part(slash + 1, (size_t)(end - slash - 1)) && (!at || good_revision(at + 1));
}

/* ---- the cache ------------------------------------------------------------------------------- */

static const char *set_variable(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* "~/x" is below the home folder. */
static const char *expanded(struct arena *a, const char *path)
{
    const char *home = set_variable("HOME");
    const bool below = path[0] == '~' && (path[1] == '/' || !path[1]);
    return below && home ? arena_printf(a, "%s%s", home, path + 1) : path;
}

/* The folder of the cache; NULL = no variable says, HOME among them. */
static const char *cache_folder(struct arena *a)
{
    static const struct {
        const char *variable, *below;
    } rows[] = {
        {"HF_HUB_CACHE", ""},
        {"HUGGINGFACE_HUB_CACHE", ""},
        {"HF_HOME", "/hub"},
        {"XDG_CACHE_HOME", "/huggingface/hub"},
        {"HOME", "/.cache/huggingface/hub"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *v = set_variable(rows[i].variable);
        if (v)
            return arena_printf(a, "%s%s", expanded(a, v), rows[i].below);
    }
    return NULL;
}

static const char *folder_of(struct arena *a, const char *cache, const char *name)
{
    const char *slash = strchr(name, '/');
    return arena_printf(a, "%s/models--%.*s--%s", cache, (int)(slash - name), name, slash + 1);
}

/* How to get it, by those who have a network. */
static enum st hint_download(const struct hub_request *q, struct err *e)
{
    const char *slash = strchr(q->name, '/') + 1;
    struct buf revision = {0}; /* one part of an address */
    for (const char *p = q->revision; *p; p++)
        buf_printf(&revision, *p == '/' ? "%%2F" : "%c", *p);
    err_hint(
        e,
        "`hf download %s%s%s --include '*config.json'` puts it there; without that program `curl "
        "-fL --create-dirs -o %s/config.json https://huggingface.co/%s/resolve/%s/config.json`, "
        "and model.ref=%s takes the folder",
        q->name, q->stated ? " --revision " : "", q->stated ? q->revision : "", slash, q->name,
        buf_str(&revision), slash);
    buf_free(&revision);
    return e->st;
}

static bool is_commit(const char *s)
{
    return strlen(s) == COMMIT_DIGITS && strspn(s, "0123456789abcdef") == COMMIT_DIGITS;
}

/* The commit that a branch or tag is at; NULL = there is no such file, or it names none. */
static const char *commit_of(const struct hub_request *q)
{
    struct sv text;
    struct err ignored = {0};
    const char *path = fs_join(q->a, fs_join(q->a, q->folder, "refs"), q->revision);
    if (fs_is_dir(path) || fs_read(q->a, path, REF_BYTES, &text, &ignored) != ST_OK)
        return NULL;
    text = sv_trim(text);
    return good_part(text.p, text.n) ? arena_strn(q->a, text.p, text.n) : NULL;
}

static enum st choose_snapshot(const struct hub_request *q, const char **commit, struct err *e)
{
    const char **names = NULL;
    size_t n = 0;
    struct err ignored = {0};
    *commit = q->stated && is_commit(q->revision) ? q->revision : commit_of(q);
    if (*commit)
        return ST_OK;
    if (fs_list(q->a, fs_join(q->a, q->folder, "snapshots"), &names, &n, &ignored) != ST_OK)
        n = 0;
    if (!q->stated && n == 1) {
        *commit = names[0];
        return ST_OK;
    }
    if (q->stated || n == 0) {
        if (q->stated)
            err_set(e, ST_INPUT, "model %s: %s has no revision %s of it", q->name, q->cache,
                    q->revision);
        else
            err_set(e, ST_INPUT, "model %s: %s has no snapshot of it", q->name, q->cache);
        return hint_download(q, e);
    }
    struct buf list = {0};
    for (size_t i = 0; i < n; i++)
        buf_printf(&list, "%s%s", i ? ", " : "", names[i]);
    err_set(e, ST_INPUT, "model %s: %s has no refs/main of it, and %zu snapshots: %s", q->name,
            q->cache, n, buf_str(&list));
    err_hint(e, "%s@%s takes one of them", q->name, names[0]);
    buf_free(&list);
    return e->st;
}

/* Whether config.json stands alone. */
static bool is_bare(struct arena *a, const char *dir)
{
    const char **names;
    size_t n;
    struct err ignored = {0};
    return fs_list(a, dir, &names, &n, &ignored) == ST_OK && n == 1;
}

enum st hub_find(struct arena *a, const char *text, struct hub_snapshot *out, struct err *e)
{
    const char *at = strchr(text, '@');
    struct hub_request q = {.a = a,
                            .cache = cache_folder(a),
                            .name = at ? arena_strn(a, text, (size_t)(at - text)) : text,
                            .revision = at ? at + 1 : "main",
                            .stated = at != NULL};
    const char *commit;
    if (!q.cache) {
        err_set(e, ST_INPUT,
                "model %s: no such folder, and no local cache of the hub: HOME is not set", q.name);
        return err_hint(e, "HF_HUB_CACHE=DIR names one");
    }
    q.folder = folder_of(a, q.cache, q.name);
    if (!fs_is_dir(q.folder)) {
        err_set(e, ST_INPUT, "model %s: no such folder, and not in the local cache of the hub, %s",
                q.name, q.cache);
        return hint_download(&q, e);
    }
    TRY(choose_snapshot(&q, &commit, e));
    const char *dir = fs_join(a, fs_join(a, q.folder, "snapshots"), commit);
    if (access(fs_join(a, dir, "config.json"), R_OK) != 0) {
        err_set(e, ST_INPUT, "model %s: %s has no config.json, or a link to one that is gone",
                q.name, dir);
        return hint_download(&q, e);
    }
    *out = (struct hub_snapshot){
        .name = q.name, .commit = commit, .dir = dir, .bare = is_bare(a, dir)};
    return ST_OK;
}
