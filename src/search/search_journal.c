#include "search/search_journal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "text/json.h"

enum { MAX_BYTES = 1 << 30 };

static struct node *parse_line(struct arena *a, const char *p, size_t n)
{
    struct node *line;
    struct err ignored = {0};
    bool ok = json_parse(a, "journal", (struct sv){p, n}, NULL, &line, &ignored) == ST_OK;
    return ok && line->kind == NODE_MAP ? line : NULL;
}

static bool is_header(const struct node *line, const char *id, size_t n)
{
    const struct node *search = node_find(line, "search"), *jobs = node_find(line, "jobs");
    const struct node *version = node_find(line, "version");
    return search && search->kind == NODE_STR && sv_eq(search->s, id) && jobs &&
           jobs->kind == NODE_INT && jobs->i == (int64_t)n && version &&
           version->kind == NODE_STR && sv_eq(version->s, TW_VERSION);
}

void search_journal_parse(struct arena *a, struct sv text, const char *id, struct node **results,
                          size_t n, size_t *keep)
{
    const char *at = text.p, *end = text.p + text.n, *line_end;
    bool first = true;
    *keep = 0;
    for (; at < end && (line_end = memchr(at, '\n', (size_t)(end - at))); at = line_end + 1) {
        struct node *line = parse_line(a, at, (size_t)(line_end - at));
        struct node *result = node_find(line, "result"), *job = node_find(line, "job");
        if (first && !(line && is_header(line, id, n)))
            return;
        if (!first) {
            if (!result || result->kind != NODE_MAP || !job || job->kind != NODE_INT ||
                job->i < 0 || (uint64_t)job->i >= n)
                return;
            results[job->i] = result;
        }
        first = false;
        *keep = (size_t)(line_end + 1 - text.p);
    }
}

static enum st write_line(struct search_journal *j, const struct buf *line, struct err *e)
{
    if (fwrite(line->p, 1, line->n, j->f) == line->n && fflush(j->f) == 0 &&
        fsync(fileno(j->f)) == 0)
        return ST_OK;
    return err_errno(e, false, "cannot write %s", j->path);
}

static enum st read_old(struct arena *a, struct search_journal *j, const char *id, size_t *keep,
                        struct err *e)
{
    struct sv text;
    *keep = 0;
    if (!fs_exists(j->path))
        return ST_OK;
    TRY(fs_read(a, j->path, MAX_BYTES, &text, e));
    search_journal_parse(a, text, id, j->results, j->n, keep);
    j->other = *keep == 0 && text.n > 0;
    for (size_t i = 0; i < j->n; i++)
        j->done += j->results[i] != NULL;
    return ST_OK;
}

enum st search_journal_open(struct arena *a, const char *path, const char *id, size_t n,
                            struct search_journal *out, struct err *e)
{
    size_t keep;
    *out = (struct search_journal){
        .path = arena_str(a, path), .results = arena_array(a, struct node *, n), .n = n};
    TRY(fs_mkdirs(fs_dir(a, path), e));
    TRY(fs_open_append(path, &out->f, e));
    enum st st = read_old(a, out, id, &keep, e);
    if (st == ST_OK && ftruncate(fileno(out->f), (off_t)keep) != 0)
        st = err_errno(e, false, "cannot write %s", path);
    if (st != ST_OK) {
        search_journal_close(out, false);
        return st;
    }
    if (keep > 0)
        return ST_OK;
    struct buf line = {0};
    buf_printf(&line, "{\"jobs\": %zu, \"search\": ", n);
    json_quote(&line, sv_of(id));
    buf_puts(&line, ", \"version\": ");
    json_quote(&line, sv_of(TW_VERSION));
    buf_puts(&line, "}\n");
    st = write_line(out, &line, e);
    buf_free(&line);
    if (st != ST_OK)
        search_journal_close(out, false);
    return st;
}

enum st search_journal_add(struct arena *a, struct search_journal *j, size_t job, struct sv bytes,
                           struct err *e)
{
    ASSERT(job < j->n && !memchr(bytes.p, '\n', bytes.n));
    TRY(json_parse(a, "a worker's result", bytes, NULL, &j->results[job], e));
    j->done++;
    struct buf line = {0};
    buf_printf(&line, "{\"job\": %zu, \"result\": ", job);
    buf_add(&line, bytes.p, bytes.n);
    buf_puts(&line, "}\n");
    enum st st = write_line(j, &line, e);
    buf_free(&line);
    return st;
}

void search_journal_close(struct search_journal *j, bool remove)
{
    if (j->f)
        fclose(j->f);
    j->f = NULL;
    if (remove)
        unlink(j->path);
}
