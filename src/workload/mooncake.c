#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "workload/chains.h"
#include "workload/format.h"
#include "workload/jsonl.h"
#include "workload/make.h"

enum { MAX_LINE_BYTES = 16 << 20 };

static const struct mooncake_params published = {MOONCAKE_BLOCK, NS_PER_MS, false};

bool workload_is_mooncake(const char *path)
{
    size_t n = strlen(path), tail = strlen(".jsonl");
    return n > tail && strcmp(path + n - tail, ".jsonl") == 0;
}

/* "s", "ms", "us", "ns" */
static bool find_unit(const char *name, int64_t *ns)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"s", NS_PER_S}, {"ms", NS_PER_MS}, {"us", NS_PER_MS / 1000}, {"ns", 1}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(name, units[i].name) != 0)
            continue;
        *ns = units[i].ns;
        return true;
    }
    return false;
}

/* ---- a line ---------------------------------------------------------------------------------- */

enum st line_hash_ids(struct arena *a, const struct node *line, int64_t block,
                      struct workload_request *q, struct err *e)
{
    struct node *list;
    TRY(node_get(line, "hash_ids", NODE_LIST, &list, e));
    int64_t n = (q->num_prefill_tokens + block - 1) / block;
    if (list->n != n)
        return node_err(list, ST_INPUT, e,
                        "hash_ids: %u ids for a prompt of %lld tokens, expected %lld (one for each "
                        "%lld tokens)",
                        list->n, (long long)q->num_prefill_tokens, (long long)n, (long long)block);
    int64_t *ids = arena_array(a, int64_t, n);
    for (int64_t i = 0; i < n; i++) {
        const struct node *id = list->items[i];
        if (id->kind != NODE_INT || id->i < 0)
            return node_err(id, ST_INPUT, e, "hash_ids: expected an integer, 0 or more");
        ids[i] = id->i;
    }
    q->hash_ids = ids;
    q->hash_tokens = block;
    return ST_OK;
}

enum st line_time(const struct node *line, const char *key, int64_t unit_ns, int64_t *ns,
                  struct err *e)
{
    const struct node *t = node_find(line, key);
    const int64_t most = INT64_MAX / unit_ns;
    int64_t whole;
    double f;
    if (t && t->kind == NODE_FLOAT) {
        TRY(node_get_double(line, key, 0, (double)(most - 1), &f, e));
        *ns = llround(f * (double)unit_ns);
        return ST_OK;
    }
    TRY(node_get_int(line, key, 0, most, &whole, e));
    *ns = whole * unit_ns;
    return ST_OK;
}

/* Traces of another kind that have the same members, in other units. */
static enum st check_kind(const struct node *line, struct err *e)
{
    const struct node *chat = node_find(line, "chat_id");
    const struct node *parent = node_find(line, "parent_chat_id");
    if (!chat && !parent)
        return ST_OK;
    node_err(
        chat ? chat : parent, ST_INPUT, e,
        "%s: this is a Bailian trace, whose times are in s and whose hash_ids are of 16 tokens",
        chat ? "chat_id" : "parent_chat_id");
    return err_hint(e, "twinfer workload import=bailian reads it");
}

/* least: minimum of tokens of a prompt and of an answer. */
static enum st read_lengths(const struct node *line, int64_t least, struct workload_request *q,
                            struct err *e)
{
    TRY(node_get_int(line, "input_length", least, INT32_MAX, &q->num_prefill_tokens, e));
    return node_get_int(line, "output_length", least, INT32_MAX, &q->num_decode_tokens, e);
}

static enum st read_request(struct arena *a, const struct node *line,
                            const struct mooncake_params *p, struct workload_request *q,
                            struct err *e)
{
    TRY(check_kind(line, e));
    TRY(line_time(line, "timestamp", p->unit_ns, &q->arrival_ns, e));
    TRY(read_lengths(line, 1, q, e));
    q->arrival_s = ns_to_s(q->arrival_ns);
    return node_find(line, "hash_ids") ? line_hash_ids(a, line, p->block_tokens, q, e) : ST_OK;
}

/* ---- a workload to run, as it stands --------------------------------------------------------- */

static enum st too_early(const struct node *line, int64_t ns, struct err *e)
{
    char ms[STR_DOUBLE_MAX];
    str_from_double(ms, (double)ns / NS_PER_MS);
    node_err(node_find(line, "timestamp"), ST_INPUT, e, "timestamp: %s is before the line above it",
             ms);
    return err_hint(e, "twinfer workload import=mooncake puts the lines in order");
}

static enum st no_session(const struct node *line, struct err *e)
{
    const struct node *session = node_find(line, "session_id");
    if (!session || session->kind == NODE_NULL)
        return ST_OK;
    node_err(session, ST_INPUT, e, "session_id: turns of sessions follow each other's ends");
    return err_hint(e, "twinfer workload import=mooncake makes sessions of them");
}

typedef VEC(struct workload_request) request_vec;

static enum st read_requests(struct arena *a, struct jsonl *j, request_vec *v, struct err *e)
{
    int64_t before_ns = 0;
    struct node *line;
    enum st st;
    while ((st = jsonl_next(j, &line, e)) == ST_OK) {
        struct workload_request q = {.request_id = (int64_t)v->n};
        TRY(no_session(line, e));
        TRY(read_request(a, line, &published, &q, e));
        if (q.arrival_ns < before_ns)
            return too_early(line, q.arrival_ns, e);
        before_ns = q.arrival_ns;
        vec_push(v, q);
    }
    if (st == ST_END && v->n == 0)
        return err_at(e, ST_INPUT, j->path, 0, 0, "has no requests");
    return st == ST_END ? ST_OK : st;
}

enum st workload_load_mooncake(struct arena *a, const char *path, struct workload *out,
                               struct err *e)
{
    struct jsonl j;
    request_vec v = {0};
    *out = (struct workload){0};
    enum st st = jsonl_open(&j, path, MAX_LINE_BYTES, e);
    if (st == ST_OK)
        st = read_requests(a, &j, &v, e);
    jsonl_close(&j);
    if (st == ST_OK) {
        out->requests = arena_copy(a, v.p, v.n * sizeof *v.p);
        out->n = v.n;
    }
    vec_free(&v);
    return st;
}

/* ---- an import ------------------------------------------------------------------------------- */

/* The last row of a session, and when that was. */
struct session_end {
    size_t row; /* CHAIN_NONE = all were left out */
    int64_t at_ns;
};

struct import {
    struct arena *a;
    const struct mooncake_params *p;
    struct map sessions; /* by their id */
    chain_vec rows;
    int64_t left_out, next_id, max_requests;
    bool fraction; /* a time is no whole number of units */
};

static struct session_end *session_of(struct import *m, const struct node *line, bool *is_new)
{
    const struct node *id = node_find(line, "session_id");
    const char *text = id ? node_scalar_text(m->a, id) : NULL;
    if (!text)
        return NULL;
    struct map_entry *at = map_put(&m->sessions, arena_str(m->a, text), strlen(text), is_new);
    if (*is_new) {
        struct session_end *s = arena_one(m->a, struct session_end);
        *s = (struct session_end){.row = CHAIN_NONE};
        at->p = s;
    }
    return at->p;
}

/* When a row is sent: at its timestamp, or, as a later turn, a delay after the end of the one
 * before. Without a delay that is the time between both, as the trace has no ends. */
static enum st read_when(const struct node *line, const struct mooncake_params *p,
                         const struct session_end *before, struct chain_row *row, struct err *e)
{
    const struct node *delay = node_find(line, "delay");
    const bool delayed = before && delay && delay->kind != NODE_NULL;
    if (delayed)
        TRY(line_time(line, "delay", p->unit_ns, &row->think_ns, e));
    if (delayed && !node_find(line, "timestamp")) {
        row->q.arrival_ns = before->at_ns;
        return ST_OK;
    }
    TRY(line_time(line, "timestamp", p->unit_ns, &row->q.arrival_ns, e));
    if (!before || delayed)
        return ST_OK;
    row->think_ns = row->q.arrival_ns - before->at_ns;
    return row->think_ns >= 0 ? ST_OK
                              : node_err(node_find(line, "timestamp"), ST_INPUT, e,
                                         "timestamp: before that of the turn above it in its "
                                         "session");
}

static void give_ids(struct import *m, struct workload_request *q, const int64_t *known, int64_t n)
{
    const int64_t pieces = (q->num_prefill_tokens + m->p->block_tokens - 1) / m->p->block_tokens;
    int64_t *ids = arena_array(m->a, int64_t, pieces);
    for (int64_t i = 0; i < pieces; i++)
        ids[i] = i < n ? known[i] : m->next_id++;
    q->hash_ids = ids;
    q->hash_tokens = m->p->block_tokens;
}

/* Whether the row's own ids say that its prompt holds the one before. */
static bool holds_before(const struct workload_request *q, const struct workload_request *before)
{
    const int64_t whole = before->hash_ids ? before->num_prefill_tokens / before->hash_tokens : 0;
    return q->hash_ids && whole > 0 && q->num_prefill_tokens >= before->num_prefill_tokens &&
           memcmp(q->hash_ids, before->hash_ids, (size_t)whole * sizeof *q->hash_ids) == 0;
}

/* A later turn has the length of what is new in it: before it stand the prompt of the turn before
 * and its answer. */
static enum st follow(struct import *m, const struct node *line, struct workload_request *before,
                      struct workload_request *q, struct err *e)
{
    if (holds_before(q, before))
        return ST_OK;
    const int64_t history = before->num_prefill_tokens + before->num_decode_tokens;
    if (history > INT32_MAX - q->num_prefill_tokens)
        return node_err(node_find(line, "input_length"), ST_INPUT, e,
                        "input_length: with the turns before it the prompt has %lld tokens",
                        (long long)(history + q->num_prefill_tokens));
    q->num_prefill_tokens += history;
    if (!before->hash_ids)
        give_ids(m, before, NULL, 0);
    give_ids(m, q, before->hash_ids, hash_ids_pieces(before, before->hash_tokens));
    return ST_OK;
}

static enum st import_line(struct import *m, const struct node *line, struct err *e)
{
    bool is_new = false;
    struct chain_row row = {.parent = CHAIN_NONE};
    struct workload_request *q = &row.q;
    TRY(check_kind(line, e));
    struct session_end *s = session_of(m, line, &is_new);
    TRY(read_when(line, m->p, s && !is_new ? s : NULL, &row, e));
    TRY(read_lengths(line, 0, q, e));
    const struct node *time = node_find(line, "timestamp");
    m->fraction |= time && time->kind == NODE_FLOAT && time->f != floor(time->f);
    q->arrival_s = ns_to_s(q->arrival_ns);
    if (s)
        s->at_ns = q->arrival_ns;
    if (q->num_prefill_tokens == 0 || q->num_decode_tokens == 0) {
        m->left_out++;
        return ST_OK;
    }
    if (node_find(line, "hash_ids"))
        TRY(line_hash_ids(m->a, line, m->p->block_tokens, q, e));
    if (s && s->row != CHAIN_NONE) {
        row.parent = s->row;
        TRY(follow(m, line, &m->rows.p[s->row].q, q, e));
    }
    if (s)
        s->row = m->rows.n;
    vec_push(&m->rows, row);
    return ST_OK;
}

/* No service in a public trace has a thousand requests a second, but one in seconds that is read as
 * milliseconds has: whoever means it says the unit. A few whole numbers may lie anywhere; fractions
 * of a millisecond, which Mooncake's traces have not, are doubted at a tenth of that. */
static enum st check_unit(const struct import *m, const char *path, struct err *e)
{
    enum { FEW = 100 };
    const double most_per_s = m->fraction ? 100 : 1000;
    int64_t from_ns = INT64_MAX, to_ns = 0;
    for (size_t i = 0; i < m->rows.n; i++) {
        const int64_t at = m->rows.p[i].q.arrival_ns;
        from_ns = at < from_ns ? at : from_ns;
        to_ns = at > to_ns ? at : to_ns;
    }
    const double span_s = m->rows.n ? ns_to_s(to_ns - from_ns) : 0, n = (double)m->rows.n - 1;
    if (m->p->stated || span_s <= 0 || n <= most_per_s * span_s || (!m->fraction && n < FEW))
        return ST_OK;
    err_at(e, ST_INPUT, path, 0, 0,
           "timestamp: %zu requests within %g s, if it is in ms, as in Mooncake's traces",
           m->rows.n, span_s);
    return err_hint(e, "workload.import.time_unit=s reads it in s; =ms says that it is so");
}

static enum st import_lines(struct import *m, struct jsonl *j, struct err *e)
{
    struct node *line;
    enum st st = ST_OK;
    while (!(m->max_requests && (int64_t)m->rows.n == m->max_requests) &&
           (st = jsonl_next(j, &line, e)) == ST_OK)
        TRY(import_line(m, line, e));
    return st == ST_END ? check_unit(m, j->path, e) : st == ST_OK ? check_unit(m, j->path, e) : st;
}

static enum st import_rows(struct arena *a, const char *path, const struct mooncake_params *p,
                           int64_t max_requests, struct workload *out, int64_t *left_out,
                           struct err *e)
{
    struct jsonl j;
    struct import m = {.a = a, .p = p, .next_id = CHAIN_OWN_IDS, .max_requests = max_requests};
    map_init(&m.sessions, a);
    *out = (struct workload){0};
    enum st st = jsonl_open(&j, path, MAX_LINE_BYTES, e);
    if (st == ST_OK)
        st = import_lines(&m, &j, e);
    jsonl_close(&j);
    if (st == ST_OK)
        chains_order(a, &m.rows, out);
    *left_out = m.left_out;
    vec_free(&m.rows);
    return st;
}

/* ---- a format -----------------------------------------------------------------------------------
 */

enum st format_mooncake_read(struct arena *a, const struct format_params *p,
                             struct format_result *out, struct err *e)
{
    struct mooncake_params m = {p->block_tokens ? p->block_tokens : MOONCAKE_BLOCK, NS_PER_MS,
                                p->time_unit != NULL};
    *out = (struct format_result){0};
    if (p->time_unit && !find_unit(p->time_unit, &m.unit_ns))
        return err_set(e, ST_USAGE, "there is no time unit '%s'", p->time_unit);
    TRY(import_rows(a, p->path, &m, p->max_requests, &out->w, &out->left_out, e));
    return format_settle(p->path, out, false, e);
}

enum st format_mooncake_write(struct buf *out, const struct workload *w, const char *const *texts,
                              struct err *e)
{
    (void)texts, (void)e;
    for (size_t i = 0; i < w->n; i++) {
        const struct workload_request *q = &w->requests[i];
        buf_printf(out, "{\"timestamp\": %lld, \"input_length\": %lld, \"output_length\": %lld",
                   (long long)(q->arrival_ns / NS_PER_MS), (long long)q->num_prefill_tokens,
                   (long long)q->num_decode_tokens);
        if (q->hash_ids && q->hash_tokens == MOONCAKE_BLOCK) {
            buf_puts(out, ", \"hash_ids\": [");
            for (int64_t k = 0; k * MOONCAKE_BLOCK < q->num_prefill_tokens; k++)
                buf_printf(out, "%s%lld", k ? ", " : "", (long long)q->hash_ids[k]);
            buf_putc(out, ']');
        }
        buf_puts(out, "}\n");
    }
    return ST_OK;
}
