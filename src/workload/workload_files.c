#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "text/json.h"
#include "workload/make.h"

#define PROMPTS_NAME   "prompts.jsonl"
#define LENGTHS_NAME   "trace_lengths.csv"
#define INTERVALS_NAME "trace_intervals.csv"

/* ---- writing ----------------------------------------------------------------------------- */

static void put_header(struct csv_writer *w, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        csv_put_str(w, names[i]);
    csv_end_row(w);
}

/* A file being written row by row, and its watcher. */
struct workload_writing {
    const struct artifact *art;
    const struct workload_watch *watch;
    FILE *f;
    int64_t rows; /* of all files so far */
};

static bool stopped(const struct workload_writing *w)
{
    return w->watch && w->watch->stop && *w->watch->stop;
}

/* False when writing shall stop. */
static bool count_row(struct workload_writing *w)
{
    enum { LOOK_EVERY = 1024 };
    if (++w->rows % LOOK_EVERY != 0 || !w->watch)
        return true;
    if (w->watch->progress)
        progress_at(w->watch->progress, w->rows, NULL);
    return !stopped(w);
}

static void put_lengths(struct workload_writing *to, const struct workload *w)
{
    static const char *const names[] = {"request_id", "prompt_id", "num_prefill_tokens",
                                        "num_decode_tokens"};
    struct csv_writer out = {.f = to->f};
    put_header(&out, names, 4);
    for (size_t i = 0; i < w->n && count_row(to); i++) {
        const struct workload_request *r = &w->requests[i];
        csv_put_int(&out, r->request_id);
        r->prompt_id ? csv_put_str(&out, r->prompt_id) : csv_put_empty(&out);
        csv_put_int(&out, r->num_prefill_tokens);
        csv_put_int(&out, r->num_decode_tokens);
        csv_end_row(&out);
    }
}

static void put_intervals(struct workload_writing *to, const struct workload *w)
{
    static const char *const names[] = {"request_id", "inter_arrival_ns", "arrival_time_ns"};
    struct csv_writer out = {.f = to->f};
    put_header(&out, names, 3);
    int64_t before_ns = 0;
    for (size_t i = 0; i < w->n && count_row(to); i++) {
        const struct workload_request *r = &w->requests[i];
        csv_put_int(&out, r->request_id);
        csv_put_int(&out, r->arrival_ns - before_ns);
        csv_put_int(&out, r->arrival_ns);
        csv_end_row(&out);
        before_ns = r->arrival_ns;
    }
}

static void put_prompts(struct workload_writing *to, const struct prompt *p, size_t n)
{
    struct buf line = {0};
    for (size_t i = 0; i < n && count_row(to); i++) {
        buf_clear(&line);
        buf_puts(&line, "{\"prompt_id\": ");
        json_quote(&line, sv_of(p[i].id));
        buf_puts(&line, ", \"text\": ");
        json_quote(&line, sv_of(p[i].text));
        buf_puts(&line, "}\n");
        fwrite(line.p, 1, line.n, to->f);
    }
    buf_free(&line);
}

static enum st end_file(struct workload_writing *w, const char *name, struct err *e)
{
    enum st st = artifact_close_file(w->art, name, &w->f, e);
    return st == ST_OK && stopped(w)
               ? err_set(e, ST_INTERRUPTED, "interrupted; nothing is left of %s", w->art->final_dir)
               : st;
}

enum st workload_write(const struct artifact *art, const struct workload *w,
                       const struct prompt *prompts, size_t n_prompts,
                       const struct workload_watch *watch, struct err *e)
{
    struct workload_writing to = {.art = art, .watch = watch};
    TRY(artifact_create_file(art, PROMPTS_NAME, &to.f, e));
    put_prompts(&to, prompts, n_prompts);
    TRY(end_file(&to, PROMPTS_NAME, e));
    TRY(artifact_create_file(art, LENGTHS_NAME, &to.f, e));
    put_lengths(&to, w);
    TRY(end_file(&to, LENGTHS_NAME, e));
    TRY(artifact_create_file(art, INTERVALS_NAME, &to.f, e));
    put_intervals(&to, w);
    TRY(end_file(&to, INTERVALS_NAME, e));
    if (workload_has_hash_ids(w))
        TRY(hash_ids_write(art, w, e));
    return workload_has_sessions(w) ? sessions_write(art, w, e) : ST_OK;
}

int64_t workload_rows(const struct workload *w, size_t n_prompts)
{
    return (int64_t)n_prompts + 2 * (int64_t)w->n;
}

static int64_t digits(int64_t v)
{
    int64_t n = 1;
    while (v >= 10)
        v /= 10, n++;
    return n;
}

int64_t workload_disk_bytes(const struct workload *w, const struct prompt *prompts,
                            size_t n_prompts)
{
    enum {
        META = 1 << 16,
        PROMPT_KEYS = 32,
        HASH_KEYS = 64,
        HASH_BYTES = 8,
        SEPARATORS = 7,
        SESSION_BYTES = 40
    };
    int64_t bytes = META, before_ns = 0;
    for (size_t i = 0; i < n_prompts; i++)
        bytes += PROMPT_KEYS + (int64_t)(strlen(prompts[i].id) + strlen(prompts[i].text));
    for (size_t i = 0; i < w->n; i++) {
        const struct workload_request *r = &w->requests[i];
        bytes += 2 * digits(r->request_id) + digits(r->num_prefill_tokens) +
                 digits(r->num_decode_tokens) + digits(r->arrival_ns) +
                 digits(r->arrival_ns - before_ns) + SEPARATORS;
        before_ns = r->arrival_ns;
        if (r->prompt_id)
            bytes += (int64_t)strlen(r->prompt_id);
        if (r->hash_ids)
            bytes += HASH_KEYS + HASH_BYTES * hash_ids_pieces(r, r->hash_tokens);
        if (r->turn)
            bytes += SESSION_BYTES;
    }
    return bytes;
}

/* ---- workload_meta.json ------------------------------------------------------------------ */

/* What is read of it, and where the files stand. */
struct described {
    const char *workload_id, *model;
    const char *prompts, *trace_lengths, *trace_intervals, *hash_ids, *sessions;
};
#define ROW(m, ...) FIELD(struct described, m, __VA_ARGS__)

static const struct field path_rows[] = {ROW(prompts), ROW(trace_lengths), ROW(trace_intervals),
                                         ROW(hash_ids, .omit = true), ROW(sessions, .omit = true)};
static const struct fields path_fields = FIELDS(struct described, path_rows);

static const struct field described_rows[] = {ROW(workload_id, .optional = true),
                                              ROW(model, .optional = true),
                                              FIELD_PART("paths", &path_fields)};
static const struct fields described_fields = FIELDS(struct described, described_rows);

static const struct field meta_rows[] = {
    FIELD(struct workload_meta, seed),
    FIELD(struct workload_meta, tokenizer_ref),
    FIELD_MAP(struct workload_meta, hydra, "hydra", &hydra_fields),
};
static const struct fields meta_fields = FIELDS(struct workload_meta, meta_rows);

struct node *workload_meta_node(struct arena *a, const struct workload_meta *m)
{
    const struct described d = {.workload_id = m->workload_id,
                                .model = m->model,
                                .prompts = PROMPTS_NAME,
                                .trace_lengths = LENGTHS_NAME,
                                .trace_intervals = INTERVALS_NAME,
                                .hash_ids = m->hash_ids ? HASH_IDS_NAME : NULL,
                                .sessions = m->sessions ? SESSIONS_NAME : NULL};
    struct node *n = fields_node(a, &described_fields, &d);
    if (m->concurrency)
        node_set(a, n, SV("concurrency"), concurrency_node(a, m->concurrency));
    if (m->concurrency || m->sessions) /* older programs would send everything at its arrival */
        artifact_need_schema(a, n, WORKLOAD_SCHEMA_RELEASE);
    fields_put(a, n, &meta_fields, m);
    node_set(a, n, SV("created_at"), artifact_time(a, clock_wall_ns()));
    node_set(a, n, SV("working_directory_git"), artifact_working_directory_git(a));
    node_set(a, n, SV("params"), m->params ? node_copy(a, m->params) : node_new(a, NODE_MAP));
    node_set(a, n, SV("tool"), artifact_tool(a));
    return n;
}

/* ---- reading ----------------------------------------------------------------------------- */

/* A row of trace_lengths.csv by its request id. */
struct length_row {
    int64_t id, prefill, decode;
    const char *prompt_id;
    size_t row;
    long line;
    bool used;
};

static int by_id(const void *pa, const void *pb)
{
    const struct length_row *a = pa, *b = pb;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

typedef VEC(struct length_row) length_vec;

static enum st read_lengths(struct arena *a, struct csv_reader *r, length_vec *v, struct err *e)
{
    int id, prompt = csv_find(r, "prompt_id"), prefill, decode;
    TRY(csv_require(r, "request_id", &id, e));
    TRY(csv_require(r, "num_prefill_tokens", &prefill, e));
    TRY(csv_require(r, "num_decode_tokens", &decode, e));
    for (enum st st; (st = csv_next(r, e)) != ST_END;) {
        TRY(st);
        struct length_row row = {.row = v->n, .line = csv_line(r)};
        TRY(csv_int(r, id, 0, INT64_MAX, &row.id, e));
        TRY(csv_int(r, prefill, 1, INT32_MAX, &row.prefill, e));
        TRY(csv_int(r, decode, 1, INT32_MAX, &row.decode, e));
        if (prompt >= 0 && !csv_empty(r, prompt)) {
            struct sv s = csv_cell(r, prompt);
            row.prompt_id = arena_strn(a, s.p, s.n);
        }
        vec_push(v, row);
    }
    return ST_OK;
}

static enum st check_unique(const length_vec *v, const char *path, struct err *e)
{
    for (size_t i = 1; i < v->n; i++)
        if (v->p[i].id == v->p[i - 1].id)
            return err_at(e, ST_INPUT, path, v->p[i].line, 0,
                          "request_id: %lld stands in line %ld already", (long long)v->p[i].id,
                          v->p[i - 1].line);
    return ST_OK;
}

static enum st load_lengths(struct arena *a, const char *path, length_vec *v, struct err *e)
{
    struct csv_reader *r;
    TRY(csv_open(&r, path, e));
    enum st st = read_lengths(a, r, v, e);
    csv_close(&r);
    TRY(st);
    if (v->n == 0)
        return err_at(e, ST_INPUT, path, 0, 0, "has a header and no rows");
    qsort(v->p, v->n, sizeof *v->p, by_id);
    return check_unique(v, path, e);
}

static struct length_row *find_length(const length_vec *v, int64_t id)
{
    if ((uint64_t)id < v->n && v->p[id].id == id)
        return &v->p[id];
    size_t low = 0, high = v->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (v->p[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < v->n && v->p[low].id == id ? &v->p[low] : NULL;
}

struct interval_columns {
    int id, gap, arrival;
};

static enum st read_interval(struct csv_reader *r, const struct interval_columns *c,
                             const length_vec *lengths, const char *lengths_path, int64_t *now_ns,
                             struct workload_request *out, struct err *e)
{
    int64_t id, gap_ns, arrival_ns, sum_ns;
    TRY(csv_int(r, c->id, 0, INT64_MAX, &id, e));
    TRY(csv_int(r, c->gap, 0, INT64_MAX, &gap_ns, e));
    TRY(csv_int(r, c->arrival, 0, INT64_MAX, &arrival_ns, e));
    struct length_row *l = find_length(lengths, id);
    if (!l)
        return csv_err(r, c->id, e, "%lld is not in %s", (long long)id, lengths_path);
    if (l->used)
        return csv_err(r, c->id, e, "%lld comes twice", (long long)id);
    l->used = true;
    if (__builtin_add_overflow(*now_ns, gap_ns, &sum_ns) || sum_ns != arrival_ns)
        return csv_err(r, c->arrival, e,
                       "%lld is not the sum of the gaps: %lld before and inter_arrival_ns %lld",
                       (long long)arrival_ns, (long long)*now_ns, (long long)gap_ns);
    *now_ns = arrival_ns;
    *out = (struct workload_request){.request_id = id,
                                     .prompt_id = l->prompt_id,
                                     .arrival_ns = arrival_ns,
                                     .arrival_s = ns_to_s(arrival_ns),
                                     .num_prefill_tokens = l->prefill,
                                     .num_decode_tokens = l->decode};
    return ST_OK;
}

static enum st read_intervals(struct csv_reader *r, const char *path, const length_vec *lengths,
                              const char *lengths_path, struct workload *out, struct err *e)
{
    struct interval_columns c;
    TRY(csv_require(r, "request_id", &c.id, e));
    TRY(csv_require(r, "inter_arrival_ns", &c.gap, e));
    TRY(csv_require(r, "arrival_time_ns", &c.arrival, e));
    int64_t now_ns = 0;
    for (enum st st; (st = csv_next(r, e)) != ST_END; out->n++) {
        TRY(st);
        struct workload_request next;
        TRY(read_interval(r, &c, lengths, lengths_path, &now_ns, &next, e));
        out->requests[out->n] = next; /* each length is used once, so there is room */
    }
    if (out->n == lengths->n)
        return ST_OK;
    const struct length_row *left = lengths->p;
    while (left->used)
        left++;
    return err_at(e, ST_INPUT, path, 0, 0, "request_id %lld of %s has no row here",
                  (long long)left->id, lengths_path);
}

static enum st load_tables(struct arena *a, const char *lengths_path, const char *intervals_path,
                           struct workload *out, struct err *e)
{
    length_vec lengths = {0};
    struct csv_reader *r = NULL;
    enum st st = load_lengths(a, lengths_path, &lengths, e);
    if (st == ST_OK)
        st = csv_open(&r, intervals_path, e);
    if (st == ST_OK) {
        out->requests = arena_array(a, struct workload_request, lengths.n);
        st = read_intervals(r, intervals_path, &lengths, lengths_path, out, e);
        csv_close(&r);
    }
    vec_free(&lengths);
    return st;
}

/* Only the last part of a path counts: the files stand in the workload's folder wherever that was
 * moved to, and a path in an input never leaves it. */
static enum st find_file(struct arena *a, const char *dir, const char *key, const char *name,
                         char **path, struct err *e)
{
    if (fs_join_inside(a, dir, fs_base(name), path, e) == ST_OK)
        return ST_OK;
    return err_add(e, "paths.%s of the workload", key);
}

enum st workload_find(struct arena *a, const char *dir, struct workload_paths *out, struct err *e)
{
    struct node *meta;
    struct described d;
    TRY(artifact_open(a, dir, WORKLOAD_META, NULL, &meta, e));
    TRY(fields_read(a, &described_fields, meta, &d, e));
    *out = (struct workload_paths){arena_str(a, dir), .id = d.workload_id, .model = d.model};
    TRY(find_file(a, dir, "prompts", d.prompts, &out->prompts, e));
    TRY(find_file(a, dir, "trace_lengths", d.trace_lengths, &out->lengths, e));
    TRY(find_file(a, dir, "trace_intervals", d.trace_intervals, &out->intervals, e));
    if (d.hash_ids)
        TRY(find_file(a, dir, "hash_ids", d.hash_ids, &out->hash_ids, e));
    if (d.sessions)
        TRY(find_file(a, dir, "sessions", d.sessions, &out->sessions, e));
    return concurrency_read(a, meta, &out->concurrency, e);
}

enum st workload_load(struct arena *a, const char *dir, struct workload *out, struct err *e)
{
    struct workload_paths p;
    *out = (struct workload){0};
    TRY(workload_find(a, dir, &p, e));
    *out = (struct workload){.dir = p.dir,
                             .prompts = p.prompts,
                             .id = p.id,
                             .model = p.model,
                             .concurrency = p.concurrency};
    TRY(load_tables(a, p.lengths, p.intervals, out, e));
    if (p.hash_ids)
        TRY(hash_ids_load(a, p.hash_ids, out, e));
    if (p.sessions)
        TRY(sessions_load(p.sessions, out, e));
    sessions_join(out);
    return ST_OK;
}

enum st workload_texts(struct arena *a, const struct workload *w, const struct prompt *prompts,
                       size_t n, const char ***texts, struct err *e)
{
    *texts = arena_array(a, const char *, w->n);
    struct map by_id;
    map_init(&by_id, a);
    for (size_t i = 0; i < n; i++)
        map_put(&by_id, prompts[i].id, strlen(prompts[i].id), NULL)->cp = prompts[i].text;
    for (size_t i = 0; i < w->n; i++) {
        const char *id = w->requests[i].prompt_id;
        if (!id)
            continue;
        const struct map_entry *m = map_find(&by_id, id, strlen(id));
        if (!m)
            return err_set(e, ST_INPUT, "prompt_id '%.200s' of request %lld is not in %s", id,
                           (long long)w->requests[i].request_id,
                           w->prompts ? w->prompts : "the prompts");
        (*texts)[i] = m->cp;
    }
    return ST_OK;
}
