/* Alibaba's Bailian traces (qwen-bailian-usagetraces-anon): a JSON object a line with timestamp (s
 * from the trace's start), input_length of the whole prompt, output_length, hash_ids of 16 tokens
 * each, chat_id, and parent_chat_id, the chat whose answer the prompt goes on from; -1 = none. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "workload/chains.h"
#include "workload/format.h"
#include "workload/jsonl.h"

enum { MAX_LINE_BYTES = 16 << 20, BLOCK = 16 };

struct bailian_line {
    struct workload_request q;
    const char *chat, *parent; /* NULL = none */
    size_t place;              /* in the file */
};
typedef VEC(struct bailian_line) line_vec;

/* Ids of the whole pieces alone: the prompt's last tokens are its own. */
static bool lacks_last(const struct node *line, const struct workload_request *q)
{
    const struct node *ids = node_find(line, "hash_ids");
    return ids && ids->kind == NODE_LIST && q->num_prefill_tokens % BLOCK != 0 &&
           ids->n == q->num_prefill_tokens / BLOCK;
}

static enum st read_ids(struct arena *a, const struct node *line, int64_t *next_id,
                        struct workload_request *q, struct err *e)
{
    const int64_t tokens = q->num_prefill_tokens, whole = tokens / BLOCK;
    if (!node_find(line, "hash_ids"))
        return ST_OK;
    if (!lacks_last(line, q))
        return line_hash_ids(a, line, BLOCK, q, e);
    int64_t *ids = arena_array(a, int64_t, whole + 1);
    q->num_prefill_tokens = whole * BLOCK;
    TRY(line_hash_ids(a, line, BLOCK, q, e));
    if (whole)
        memcpy(ids, q->hash_ids, (size_t)whole * sizeof *ids);
    ids[whole] = (*next_id)++;
    q->hash_ids = ids;
    q->hash_tokens = BLOCK;
    q->num_prefill_tokens = tokens;
    return ST_OK;
}

/* A chat's id: a number, or a text; NULL = -1, null or absent. */
static const char *id_of(struct arena *a, const struct node *line, const char *key)
{
    const struct node *n = node_find(line, key);
    const char *text = n ? node_scalar_text(a, n) : NULL;
    return text && strcmp(text, "-1") != 0 ? arena_str(a, text) : NULL;
}

static enum st read_line(struct arena *a, const struct node *line, int64_t *next_id,
                         struct bailian_line *out, struct err *e)
{
    struct workload_request *q = &out->q;
    struct node *chat;
    TRY(line_time(line, "timestamp", NS_PER_S, &q->arrival_ns, e));
    TRY(node_get_int(line, "input_length", 0, INT32_MAX, &q->num_prefill_tokens, e));
    TRY(node_get_int(line, "output_length", 0, INT32_MAX, &q->num_decode_tokens, e));
    out->chat = id_of(a, line, "chat_id");
    out->parent = id_of(a, line, "parent_chat_id");
    if (!out->chat) /* named where it is missing */
        TRY(node_get(line, "chat_id", NODE_INT, &chat, e));
    q->arrival_s = ns_to_s(q->arrival_ns);
    return read_ids(a, line, next_id, q, e);
}

static enum st read_lines(struct arena *a, const struct format_params *p, struct jsonl *j,
                          line_vec *v, int64_t *left_out, struct err *e)
{
    int64_t next_id = CHAIN_OWN_IDS;
    struct node *line;
    while (!p->max_requests || (int64_t)v->n < p->max_requests) {
        struct bailian_line l = {.place = v->n};
        enum st st = jsonl_next(j, &line, e);
        if (st == ST_END)
            break;
        TRY(st);
        TRY(read_line(a, line, &next_id, &l, e));
        if (l.q.num_prefill_tokens == 0 || l.q.num_decode_tokens == 0)
            ++*left_out;
        else
            vec_push(v, l);
    }
    return ST_OK;
}

static int by_arrival(const void *pa, const void *pb)
{
    const struct bailian_line *a = pa, *b = pb;
    if (a->q.arrival_ns != b->q.arrival_ns)
        return a->q.arrival_ns < b->q.arrival_ns ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* Parents are looked for among the chats before: the trace may begin in the middle of a session.
 * The trace has no ends, so a turn's think time is from the arrival of the one before. */
static void make_rows(struct arena *a, line_vec *v, chain_vec *rows)
{
    struct map chats;
    map_init(&chats, a);
    if (v->n)
        qsort(v->p, v->n, sizeof *v->p, by_arrival);
    for (size_t i = 0; i < v->n; i++) {
        const struct bailian_line *l = &v->p[i];
        struct chain_row row = {.q = l->q, .parent = CHAIN_NONE};
        const struct map_entry *parent =
            l->parent ? map_find(&chats, l->parent, strlen(l->parent)) : NULL;
        if (parent) {
            row.parent = (size_t)parent->i;
            row.think_ns = l->q.arrival_ns - v->p[row.parent].q.arrival_ns;
        }
        if (l->chat)
            map_put(&chats, l->chat, strlen(l->chat), NULL)->i = (int64_t)i;
        vec_push(rows, row);
    }
}

enum st format_bailian_read(struct arena *a, const struct format_params *p,
                            struct format_result *out, struct err *e)
{
    struct jsonl j;
    line_vec v = {0};
    chain_vec rows = {0};
    *out = (struct format_result){0};
    enum st st = jsonl_open(&j, p->path, MAX_LINE_BYTES, e);
    if (st == ST_OK)
        st = read_lines(a, p, &j, &v, &out->left_out, e);
    jsonl_close(&j);
    if (st == ST_OK) {
        make_rows(a, &v, &rows);
        chains_order(a, &rows, &out->w);
        st = format_settle(p->path, out, false, e);
    }
    vec_free(&v);
    vec_free(&rows);
    return st;
}
