#include "profile/journal.h"

#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"

static const size_t MAX_BYTES = (size_t)1 << 30;
#define MAGIC "twinfer-profile-journal 1 "

/* Up to `max` numbers of a line after its letter; -1 when something else is there. */
static int numbers(struct sv line, double *out, int max)
{
    int n = 0;
    size_t i = 1;
    while (i < line.n) {
        if (line.p[i++] != ' ' || n == max)
            return -1;
        size_t end = i;
        while (end < line.n && line.p[end] != ' ')
            end++;
        if (!str_double((struct sv){line.p + i, end - i}, &out[n++]))
            return -1;
        i = end;
    }
    return n;
}

struct replay {
    struct journal *j;
    size_t run_begin; /* first host sample of the run being read */
};

static bool replay_line(struct replay *r, struct sv line)
{
    struct journal *j = r->j;
    double v[OP_KINDS + 1];
    int n = line.n ? numbers(line, v, OP_KINDS + 1) : -1;
    switch (line.n ? line.p[0] : 0) {
    case 's':
        if (n != OP_KINDS + 1 || !(v[0] >= 0 && v[0] < (double)j->n_points))
            return false;
        struct sample s;
        memcpy(s.op_s, v + 1, sizeof s.op_s);
        vec_push(&j->samples[(int64_t)v[0]], s);
        j->resumed++;
        return true;
    case 'h':
        if (n != 5)
            return false;
        vec_push(&j->host, (struct host_sample){(int64_t)v[0], (int64_t)v[1], v[2], v[3], v[4]});
        return true;
    case 'b':
        if (n != 1)
            return false;
        vec_push(&j->runs, (int64_t)v[0]);
        r->run_begin = j->host.n;
        return true;
    case 'p':
        j->publishing = true;
        return n == 0;
    default:
        return false;
    }
}

/* Bytes of the file that are whole and belong to this key; 0 = start anew. */
static size_t replay(struct journal *j, struct sv text, const char *key)
{
    struct replay r = {.j = j};
    size_t at = 0, good = 0;
    for (const char *nl; at < text.n && (nl = memchr(text.p + at, '\n', text.n - at)) != NULL;) {
        struct sv line = {text.p + at, (size_t)(nl - text.p) - at};
        size_t next = (size_t)(nl - text.p) + 1;
        if (at == 0 ? !(line.n == strlen(MAGIC) + strlen(key) &&
                        memcmp(line.p, MAGIC, strlen(MAGIC)) == 0 &&
                        memcmp(line.p + strlen(MAGIC), key, strlen(key)) == 0)
                    : !replay_line(&r, line))
            break;
        at = next;
        if (line.p[0] != 'h')
            good = at;
    }
    j->host.n = r.run_begin;
    return good;
}

static enum st read_old(struct arena *a, struct journal *j, const char *key, size_t *keep,
                        struct err *e)
{
    struct sv text;
    TRY(fs_read(a, j->path, MAX_BYTES, &text, e));
    *keep = replay(j, text, key);
    if (text.n > 0 && *keep == 0)
        log_info("profile: the unfinished measurement in %s is of another model, grid, device or "
                 "setting: starting anew",
                 j->dir);
    else if (j->resumed > 0)
        log_info("profile: going on with %lld samples of an interrupted run in %s",
                 (long long)j->resumed, j->dir);
    return ST_OK;
}

static enum st flush(struct journal *j, struct err *e)
{
    if (fflush(j->f) != 0 || ferror(j->f))
        return err_errno(e, false, "cannot write %s", j->path);
    return ST_OK;
}

enum st journal_open(struct arena *a, const char *dir, const char *key, int64_t n_points,
                     struct journal *j, struct err *e)
{
    *j = (struct journal){.dir = dir, .path = fs_join(a, dir, "journal.txt"), .n_points = n_points};
    j->samples = arena_alloc_n(a, (size_t)n_points, sizeof *j->samples);
    TRY(fs_mkdirs(dir, e));
    j->f = fopen(j->path, "ab");
    if (!j->f)
        return err_errno(e, false, "cannot write %s", j->path);
    fchmod(fileno(j->f), 0600);
    if (flock(fileno(j->f), LOCK_EX | LOCK_NB) != 0) {
        err_set(e, ST_USAGE, "%s is in use by another profile of the same model and hardware",
                j->path);
        journal_close(j);
        return e->st;
    }
    size_t keep = 0;
    enum st st = read_old(a, j, key, &keep, e);
    if (st == ST_OK && ftruncate(fileno(j->f), (off_t)keep) != 0)
        st = err_errno(e, false, "cannot write %s", j->path);
    if (st == ST_OK && keep == 0)
        fprintf(j->f, MAGIC "%s\n", key);
    if (st == ST_OK)
        st = flush(j, e);
    if (st != ST_OK)
        journal_close(j);
    return st;
}

enum st journal_sample(struct journal *j, int64_t point, const double op_s[OP_KINDS], struct err *e)
{
    struct sample s;
    memcpy(s.op_s, op_s, sizeof s.op_s);
    vec_push(&j->samples[point], s);
    fprintf(j->f, "s %lld", (long long)point);
    for (int k = 0; k < OP_KINDS; k++)
        fprintf(j->f, " %.17g", op_s[k]);
    fputc('\n', j->f);
    return flush(j, e);
}

enum st journal_host_run(struct journal *j, int64_t batch, const struct host_sample *h, size_t n,
                         struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        vec_push(&j->host, h[i]);
        fprintf(j->f, "h %lld %lld %.17g %.17g %.17g\n", (long long)h[i].batch,
                (long long)h[i].chunks, h[i].host_s, h[i].executor_s, h[i].device_s);
    }
    vec_push(&j->runs, batch);
    fprintf(j->f, "b %lld\n", (long long)batch);
    return flush(j, e);
}

enum st journal_publish(struct journal *j, struct err *e)
{
    j->publishing = true;
    fputs("p\n", j->f);
    return flush(j, e);
}

void journal_close(struct journal *j)
{
    if (j->f)
        fclose(j->f);
    j->f = NULL;
    for (int64_t i = 0; i < j->n_points; i++)
        vec_free(&j->samples[i]);
    vec_free(&j->host);
    vec_free(&j->runs);
}

bool journal_published(struct arena *a, const char *dir)
{
    struct sv text;
    struct err none = {0};
    const char *path = fs_join(a, dir, "journal.txt");
    return fs_exists(path) && fs_read(a, path, MAX_BYTES, &text, &none) == ST_OK && text.n >= 3 &&
           memcmp(text.p + text.n - 3, "\np\n", 3) == 0;
}

enum st journal_remove(const char *dir, struct err *e)
{
    TRY(fs_remove_tree(dir, e));
    struct buf up = {0};
    buf_puts(&up, dir);
    while (rmdir(up.p) == 0 || errno == ENOENT) {
        char *slash = strrchr(up.p, '/');
        if (!slash || strcmp(fs_base(up.p), ".partial") == 0)
            break;
        *slash = 0;
    }
    buf_free(&up);
    return ST_OK;
}
