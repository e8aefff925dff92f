#include "profile/journal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "base/order.h"

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

/* ---- order of operators ---------------------------------------------------------------------- */

/* New kinds are appended. */
static const enum op_kind order[] = {
    OP_EMB,           OP_EMB_NORM,       OP_INPUT_NORM,     OP_ATTN_PRE_PROJ,
    OP_QK_NORM,       OP_ROPE,           OP_KV_SAVE,        OP_ATTN_PREFILL,
    OP_ATTN_DECODE,   OP_ATTN_POST_PROJ, OP_POST_ATTN_NORM, OP_MLP_UP_PROJ,
    OP_MLP_ACT,       OP_MLP_DOWN_PROJ,  OP_MOE_ROUTER,     OP_MOE_UP_PROJ,
    OP_MOE_ACT,       OP_MOE_DOWN_PROJ,  OP_MOE_COMBINE,    OP_ADD,
    OP_FINAL_NORM,    OP_LM_HEAD,        OP_SAMPLE,         OP_GAP,
    OP_ATTN_OUT_NORM, OP_MLP_OUT_NORM,   OP_INDEX_PREFILL,  OP_INDEX_DECODE,
    OP_STATE_PREFILL, OP_STATE_DECODE};
static_assert(sizeof order / sizeof *order == OP_KINDS, "a kind without a place");
enum { PLACE_OF_GAP = 23 }; /* what samples of executors that measure no gap had */

static int row_at(int place)
{
    return place < OP_KINDS ? (int)order[place] : place;
}

static uint64_t moved(uint64_t set, bool to_rows)
{
    uint64_t out = 0;
    for (int place = 0; place < OP_ROWS; place++) {
        const int from = to_rows ? place : row_at(place), to = to_rows ? row_at(place) : place;
        out |= (set >> from & 1) << to;
    }
    return out;
}

uint64_t journal_bits(uint64_t rows)
{
    return moved(rows, false);
}

uint64_t journal_rows_of(uint64_t bits)
{
    return moved(bits, true);
}

/* ---- lines ----------------------------------------------------------------------------------- */

struct replay {
    struct journal *j;
    size_t run_begin, row_begin, number_begin; /* sizes when the last run or row was complete */
};

typedef bool line_fn(struct journal *j, char kind, const double *v, int n);

static bool read_sample(struct journal *j, char kind, const double *v, int n)
{
    (void)kind;
    if (!(v[0] >= 0 && v[0] < (double)j->n_points))
        return false;
    struct sample s = {.session = j->session};
    for (int place = 0; place < n - 1; place++)
        s.op_s[row_at(place)] = v[1 + place];
    vec_push(&j->samples[(int64_t)v[0]], s);
    j->now[(int64_t)v[0]].samples++;
    j->resumed++;
    return true;
}

static bool read_visit(struct journal *j, char kind, const double *v, int n)
{
    (void)kind, (void)n;
    if (!(v[0] >= 0 && v[0] < (double)j->n_points))
        return false;
    j->now[(int64_t)v[0]].visits++;
    j->now[(int64_t)v[0]].spent_s += v[1];
    return true;
}

static bool read_host_sample(struct journal *j, char kind, const double *v, int n)
{
    const bool more = n == 7;
    (void)kind;
    vec_push(&j->host, (struct host_sample){.batch = (int64_t)v[0],
                                            .chunks = (int64_t)v[1],
                                            .host_s = v[2],
                                            .executor_s = v[3],
                                            .device_s = v[4],
                                            .launch_s = more ? v[5] : 0,
                                            .answer_s = more ? v[6] : 0,
                                            .session = j->session});
    return n != 6;
}

static bool read_run(struct journal *j, char kind, const double *v, int n)
{
    (void)kind, (void)n;
    vec_push(&j->runs, (int64_t)v[0]);
    return true;
}

static bool keep_row(struct journal *j, char kind, const double *v, int n)
{
    vec_push(&j->rows, (struct journal_row){kind, n, j->numbers.n});
    for (int i = 0; i < n; i++)
        vec_push(&j->numbers, v[i]);
    return true;
}

static bool begin_session(struct journal *j, char kind, const double *v, int n)
{
    j->session++;
    memset(j->now, 0, (size_t)j->n_points * sizeof *j->now);
    j->session_runs = j->runs.n;
    j->session_rows = j->rows.n;
    return keep_row(j, kind, v, n);
}

static bool read_publishing(struct journal *j, char kind, const double *v, int n)
{
    (void)kind, (void)v, (void)n;
    j->publishing = true;
    return true;
}

/* part: of a group of lines that is valid only when a line of another kind ends it. */
static const struct line_kind {
    char letter;
    int fewest, most; /* numbers */
    bool part;
    line_fn *read;
} kinds[] = {
    {'n', 1, 1, false, begin_session}, {'s', PLACE_OF_GAP + 1, OP_ROWS + 1, false, read_sample},
    {'v', 2, 2, false, read_visit},    {'h', 5, 7, true, read_host_sample},
    {'b', 1, 1, false, read_run},      {'r', 1, JOURNAL_NUMBERS, true, keep_row},
    {'q', 1, 1, false, keep_row},      {'w', 1, JOURNAL_NUMBERS, false, keep_row},
    {'y', 2, 2, false, keep_row},      {'c', 3, 4, false, keep_row},
    {'e', 11, 11, false, keep_row},    {'i', 8, 8, false, keep_row},
    {'t', 5, 5, true, keep_row},       {'m', 5, 5, true, keep_row},
    {'u', 1, 1, false, keep_row},      {'p', 0, 0, false, read_publishing},
};

static const struct line_kind *kind_of(char letter)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].letter == letter)
            return &kinds[i];
    return NULL;
}

static bool replay_line(struct replay *r, struct sv line)
{
    double v[JOURNAL_NUMBERS];
    const struct line_kind *kind = line.n ? kind_of(line.p[0]) : NULL;
    const int n = kind ? numbers(line, v, JOURNAL_NUMBERS) : -1;
    if (!kind || n < kind->fewest || n > kind->most || !kind->read(r->j, line.p[0], v, n))
        return false;
    if (kind->part)
        return true;
    r->run_begin = r->j->host.n;
    r->row_begin = r->j->rows.n;
    r->number_begin = r->j->numbers.n;
    return true;
}

/* Bytes of the file that are valid and belong to this key; 0 = start anew. */
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
        const struct line_kind *kind = good ? kind_of(line.p[0]) : NULL;
        if (!kind || !kind->part)
            good = at;
    }
    j->host.n = r.run_begin;
    j->rows.n = r.row_begin;
    j->numbers.n = r.number_begin;
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
        log_info("profile: going on with %lld samples taken before, in %s", (long long)j->resumed,
                 j->dir);
    return ST_OK;
}

static enum st flush(struct journal *j, struct err *e)
{
    if (fflush(j->f) != 0 || ferror(j->f))
        return err_errno(e, false, "cannot write %s", j->path);
    return ST_OK;
}

/* Opens the file for this process alone. The check of another one that begins may take the folder
 * away for a moment (profile_check_place), so making it and the file is tried again. A file without
 * a name is that of a profile which has just ended. */
static enum st open_alone(struct journal *j, const char *dir, struct err *e)
{
    enum { TRIES = 100 };
    struct stat s;
    enum st st = ST_IO;
    for (int i = 0; st != ST_OK && i < TRIES; i++) {
        err_clear(e);
        st = fs_mkdirs(dir, e);
        if (st == ST_OK)
            st = fs_open_append(j->path, &j->f, e);
    }
    TRY(st);
    if (flock(fileno(j->f), LOCK_EX | LOCK_NB) == 0 && fstat(fileno(j->f), &s) == 0 &&
        s.st_nlink > 0)
        return ST_OK;
    journal_close(j);
    return err_set(e, ST_USAGE, "%s is in use by another profile of the same model and hardware",
                   j->path);
}

enum st journal_open(struct arena *a, const char *dir, const char *key, int64_t n_points,
                     struct journal *j, struct err *e)
{
    *j = (struct journal){.dir = dir, .path = fs_join(a, dir, "journal.txt"), .n_points = n_points};
    j->samples = arena_alloc_n(a, (size_t)n_points, sizeof *j->samples);
    j->now = arena_array(a, struct journal_point, n_points);
    TRY(open_alone(j, dir, e));
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

enum st journal_sample(struct journal *j, int64_t point, const double op_s[OP_ROWS], struct err *e)
{
    struct sample s = {.session = j->session};
    memcpy(s.op_s, op_s, sizeof s.op_s);
    vec_push(&j->samples[point], s);
    j->now[point].samples++;
    fprintf(j->f, "s %lld", (long long)point);
    int n = OP_ROWS;
    while (n > PLACE_OF_GAP && op_s[row_at(n - 1)] == 0)
        n--;
    for (int place = 0; place < n; place++)
        fprintf(j->f, " %.17g", op_s[row_at(place)]);
    fputc('\n', j->f);
    return flush(j, e);
}

enum st journal_host_run(struct journal *j, int64_t batch, const struct host_sample *h, size_t n,
                         struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        vec_push(&j->host, h[i]);
        vec_last(&j->host).session = j->session;
        fprintf(j->f, "h %lld %lld %.17g %.17g %.17g", (long long)h[i].batch,
                (long long)h[i].chunks, h[i].host_s, h[i].executor_s, h[i].device_s);
        if (h[i].launch_s > 0 || h[i].answer_s > 0)
            fprintf(j->f, " %.17g %.17g", h[i].launch_s, h[i].answer_s);
        fputc('\n', j->f);
    }
    vec_push(&j->runs, batch);
    fprintf(j->f, "b %lld\n", (long long)batch);
    return flush(j, e);
}

enum st journal_visit(struct journal *j, int64_t point, double spent_s, struct err *e)
{
    j->now[point].visits++;
    j->now[point].spent_s += spent_s;
    fprintf(j->f, "v %lld %.17g\n", (long long)point, spent_s);
    return flush(j, e);
}

enum st journal_row(struct journal *j, char kind, const double *v, int n, struct err *e)
{
    const struct line_kind *k = kind_of(kind);
    k->read(j, kind, v, n);
    fputc(kind, j->f);
    for (int i = 0; i < n; i++)
        fprintf(j->f, " %.17g", v[i]);
    fputc('\n', j->f);
    return k->part ? ST_OK : flush(j, e);
}

const double *journal_next(const struct journal *j, char kind, size_t *at, int *n)
{
    while (*at < j->rows.n) {
        const struct journal_row *row = &j->rows.p[(*at)++];
        if (row->kind != kind)
            continue;
        *n = row->n;
        return j->numbers.p + row->first;
    }
    return NULL;
}

int journal_rows(const struct journal *j, char kind)
{
    size_t at = 0;
    int n, rows = 0;
    while (journal_next(j, kind, &at, &n))
        rows++;
    return rows;
}

static void leave_out_samples(struct journal *j, int64_t point, int session)
{
    size_t kept = 0;
    for (size_t i = 0; i < j->samples[point].n; i++)
        kept += j->samples[point].p[i].session != session;
    if (kept == 0)
        return;
    kept = 0;
    for (size_t i = 0; i < j->samples[point].n; i++)
        if (j->samples[point].p[i].session != session)
            j->samples[point].p[kept++] = j->samples[point].p[i];
    j->samples[point].n = kept;
}

static bool only_session(const struct journal *j, int64_t batch, bool chunks, int session)
{
    for (size_t i = 0; i < j->host.n; i++)
        if (j->host.p[i].batch == batch && (j->host.p[i].chunks > 0) == chunks &&
            j->host.p[i].session != session)
            return false;
    return true;
}

void journal_leave_out(struct journal *j, int session)
{
    size_t kept = 0;
    for (int64_t i = 0; i < j->n_points; i++)
        leave_out_samples(j, i, session);
    for (size_t i = 0; i < j->host.n; i++) {
        const struct host_sample *h = &j->host.p[i];
        if (h->session != session || only_session(j, h->batch, h->chunks > 0, session))
            j->host.p[kept++] = *h;
    }
    j->host.n = kept;
    kept = 0;
    int at = 0;
    for (size_t i = 0; i < j->rows.n; i++) {
        const struct journal_row row = j->rows.p[i];
        at += row.kind == 'n';
        if (at != session || strchr("nceitmu", row.kind))
            j->rows.p[kept++] = row;
    }
    j->rows.n = kept;
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
    vec_free(&j->rows);
    vec_free(&j->numbers);
}

enum st journal_text(struct arena *a, const char *path, struct sv *out, struct err *e)
{
    TRY(fs_read(a, path, MAX_BYTES, out, e));
    while (out->n >= 3 && memcmp(out->p + out->n - 3, "\np\n", 3) == 0)
        out->n -= 2;
    return ST_OK;
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
