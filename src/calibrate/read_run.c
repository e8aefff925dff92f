/* Run directories of twinfer. With batches.csv the load of each batch is known: which sequences it
 * decoded, and how long their caches were, by token_metrics.csv or, where that was not kept, as
 * sequences that are there have a token in each batch that decodes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "artifact/run.h"
#include "base/clock.h"
#include "calibrate/observed.h"

bool observed_is_run(struct arena *a, const char *path)
{
    return fs_is_dir(path) && fs_exists(fs_join(a, path, "run_meta.json"));
}

static double seconds(int64_t ns)
{
    return ns == RUN_NONE ? (double)NAN : ns_to_s(ns);
}

static struct observed_row *rows_of(struct arena *a, const struct run *r, size_t *n)
{
    struct observed_row *rows = arena_array(a, struct observed_row, r->n_requests);
    *n = 0;
    for (size_t i = 0; i < r->n_requests; i++) {
        const struct run_request *q = &r->requests[i];
        if (q->warmup)
            continue;
        rows[(*n)++] = (struct observed_row){
            .arrival_s = seconds(q->arrival_ns),
            .first_token_s = seconds(q->first_token_ns),
            .end_s = seconds(q->completion_ns),
            .prompt_tokens = q->num_prefill_tokens,
            .output_tokens = q->num_decode_tokens_actual,
            .cached_tokens = -1,
            .ok = q->status == RUN_OK,
        };
    }
    return rows;
}

/* ---- what the run states of the server ------------------------------------------------------- */

static const char *text_at(const struct node *meta, const char *path)
{
    const struct node *n = node_path(meta, path);
    return n && n->kind == NODE_STR ? n->s.p : NULL;
}

static int64_t count_at(const struct node *meta, const char *path)
{
    const struct node *n = node_path(meta, path);
    return n && n->kind == NODE_INT && n->i > 0 ? n->i : 0;
}

/* A worker says who it is, and on which GPU. */
static void worker_of(struct arena *a, const struct node *meta, struct observed_settings *s)
{
    const char *name = text_at(meta, "worker.hello.name");
    const char *batching = text_at(meta, "worker.hello.capabilities.batching");
    s->gpu = text_at(meta, "worker.hello.info.gpu");
    if (name)
        s->engine = batching ? arena_printf(a, "%s, %s batching", name, batching) : name;
}

/* A run of our own engines has the scheduler it ran with; that of a server that batches by itself
 * (openai, worker) has our defaults, which say nothing of it. */
static void settings_of(struct arena *a, const struct node *meta, struct observed_settings *s)
{
    const char *kind = text_at(meta, "params.engine.kind");
    s->model = text_at(meta, "params.model.hub");
    s->gpu = text_at(meta, "params.hardware.id");
    if (!kind || strcmp(kind, "openai") == 0 || strcmp(kind, "worker") == 0) {
        s->gpu = NULL;
        if (kind && strcmp(kind, "openai") == 0)
            s->model = NULL;
        else if (kind)
            worker_of(a, meta, s);
        return;
    }
    const struct node *caching = node_path(meta, "params.scheduler.prefix_caching");
    s->tp = count_at(meta, "params.parallel.tp");
    s->token_budget = count_at(meta, "params.scheduler.token_budget");
    s->batch_cap = count_at(meta, "params.scheduler.batch_cap");
    s->max_model_len = count_at(meta, "params.scheduler.max_model_len");
    s->prefix_caching = caching && caching->kind == NODE_BOOL ? caching->b : -1;
}

/* ---- batches --------------------------------------------------------------------------------- */

struct batches {
    const struct run *r;
    struct observed_batch *of; /* [n] */
    bool *unknown;             /* [n] what it decoded */
    size_t n;
};

/* The batch a token came with: the first that ends at or after it, within the clocks' slack; tokens
 * are handed on a little later than their batch ends, so that is the last that began before it. */
static struct observed_batch *batch_of(const struct batches *b, int64_t time_ns)
{
    size_t low = 0, high = b->n;
    while (low < high) { /* the first that begins at or after time_ns */
        size_t mid = low + (high - low) / 2;
        if (b->r->batches[mid].start_ns < time_ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? &b->of[low - 1] : NULL;
}

static void add_prompt(struct observed_batch *x, int64_t tokens)
{
    x->load.chunk_sq += tokens * (tokens + 1) / 2;
    x->load.kv_read_tokens += tokens;
    x->load.tokens += tokens;
    x->load.rows++;
    x->chunks++;
}

static void add_decode(struct observed_batch *x, int64_t cached)
{
    x->load.kv_tokens += cached;
    x->longest = cached > x->longest ? cached : x->longest;
    x->load.seqs++;
    x->load.tokens++;
    x->load.rows++;
}

/* Adds what a request read in each batch: its prompt in the one of its first token, its cache in
 * those of the others. */
static void add_request(const struct batches *b, size_t i)
{
    const struct run *r = b->r;
    const int64_t prompt = r->requests[i].num_prefill_tokens;
    for (size_t k = r->first_token[i]; k < r->first_token[i + 1]; k++) {
        const struct run_token *t = &r->tokens[k];
        struct observed_batch *x = batch_of(b, t->token_time_ns);
        if (x && t->token_index == 0)
            add_prompt(x, prompt);
        else if (x)
            add_decode(x, prompt + t->token_index);
    }
}

/* Likewise without rows of tokens. Where the last one does not come with the batch that it then has
 * to, nothing is known of those between. */
static void follow_request(const struct batches *b, size_t i)
{
    const struct run_request *q = &b->r->requests[i];
    if (q->status != RUN_OK || q->first_token_ns == RUN_NONE || q->completion_ns == RUN_NONE)
        return;
    struct observed_batch *const first = batch_of(b, q->first_token_ns), *const last = batch_of(
                                                                             b, q->completion_ns);
    if (!first || !last)
        return;
    add_prompt(first, q->num_prefill_tokens);
    int64_t token = 1;
    for (struct observed_batch *x = first + 1; x <= last; x++)
        if (b->r->batches[x - b->of].num_decode_tokens > 0)
            add_decode(x, q->num_prefill_tokens + token++);
    for (struct observed_batch *x = first; x <= last && token != q->num_decode_tokens_actual; x++)
        b->unknown[x - b->of] = true;
}

static int ascending(const void *pa, const void *pb)
{
    const double a = *(const double *)pa, b = *(const double *)pb;
    return a < b ? -1 : a > b;
}

/* From the end of the batch that made it to the moment a first token was handed on. */
static double first_token_lag(struct arena *a, const struct batches *b)
{
    const struct run *r = b->r;
    double *lag = arena_array(a, double, r->n_requests);
    size_t n = 0;
    for (size_t i = 0; i < r->n_requests; i++) {
        const struct observed_batch *x = r->requests[i].first_token_ns == RUN_NONE
                                             ? NULL
                                             : batch_of(b, r->requests[i].first_token_ns);
        const struct run_batch *from = x ? &r->batches[x - b->of] : NULL;
        if (from)
            lag[n++] = ns_to_s(r->requests[i].first_token_ns - from->start_ns - from->duration_ns);
    }
    qsort(lag, n, sizeof *lag, ascending);
    return n ? fmax(lag[n / 2], 0) : (double)NAN;
}

static bool in_order(const struct run *r)
{
    for (size_t i = 1; i < r->n_batches; i++)
        if (r->batches[i].start_ns < r->batches[i - 1].start_ns)
            return false;
    return true;
}

/* When a batch began, for those whose tokens it makes: sequences that decode were in the batch
 * before, so what an engine does between the two (it takes requests in, lets others go, copies
 * caches together) is of this one, though records of batches leave it out. */
static int64_t began_ns(const struct run_batch *x, const struct observed_batch *y,
                        int64_t last_end_ns)
{
    const bool waited = y->load.seqs > 0 && last_end_ns != RUN_NONE && last_end_ns < x->start_ns;
    return waited ? last_end_ns : x->start_ns;
}

/* Batches whose counts agree with what the requests say of them. */
static void read_batches(struct arena *a, const struct run *r, struct observed *out)
{
    int64_t last_end_ns = RUN_NONE;
    if (!r->batches || !in_order(r))
        return;
    struct batches b = {.r = r, .n = r->n_batches, .unknown = arena_array(a, bool, r->n_batches)};
    struct observed_batch *kept = arena_array(a, struct observed_batch, b.n);
    b.of = arena_array(a, struct observed_batch, b.n);
    for (size_t i = 0; i < r->n_requests; i++)
        if (r->tokens)
            add_request(&b, i);
        else
            follow_request(&b, i);
    for (size_t i = 0; i < b.n; i++) {
        const struct run_batch *x = &r->batches[i];
        struct observed_batch *y = &b.of[i];
        if (x->stage != 0 || x->replica != 0)
            continue;
        const int64_t start_ns = began_ns(x, y, last_end_ns);
        last_end_ns = x->start_ns + x->duration_ns;
        if (y->load.seqs != x->num_decode_tokens ||
            y->load.tokens - y->load.seqs != x->num_prefill_tokens || y->load.tokens == 0 ||
            b.unknown[i])
            continue;
        y->duration_s = ns_to_s(last_end_ns - start_ns);
        kept[out->n_batches++] = *y;
    }
    if (!r->tokens &&
        2 * out->n_batches < b.n) /* prompts in chunks, preemptions, several replicas */
        out->n_batches = 0;
    out->batches = out->n_batches ? kept : NULL;
    if (out->batches)
        out->first_token_lag_s = first_token_lag(a, &b);
}

enum st observed_read_run(struct arena *a, const char *path, struct observed *out, struct err *e)
{
    struct run r;
    size_t n;
    TRY(run_load(a, path, "real", &r, e));
    struct observed_row *rows = rows_of(a, &r, &n);
    out->n_stages = 1;
    out->stages = arena_one(a, struct observed_stage);
    out->stages->name = "0";
    settings_of(a, r.meta, &out->settings);
    read_batches(a, &r, out);
    return observed_from_rows(a, path, rows, n, out->stages, e);
}
