#include "metrics/batch_load.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/order.h"

struct batches {
    const struct run *r;
    const struct key_spans *spans; /* of the model */
    struct batch_load *of;         /* [n] */
    bool *unknown;                 /* [n] what it decoded */
    size_t n;
};

/* Number of the batches that began before a token came. It came with the last of them: the first
 * that ends at or after it, within the clocks' slack, as tokens are handed on a little later than
 * their batch ends. */
static size_t begun_before(const struct run *r, int64_t time_ns)
{
    size_t low = 0, high = r->n_batches;
    while (low < high) { /* the first that begins at or after time_ns */
        size_t mid = low + (high - low) / 2;
        if (r->batches[mid].start_ns < time_ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct batch_load *batch_of(const struct batches *b, int64_t time_ns)
{
    const size_t n = begun_before(b->r, time_ns);
    return n ? &b->of[n - 1] : NULL;
}

static void add_prompt(const struct batches *b, struct batch_load *x, int64_t tokens)
{
    op_load_add_chunk(&x->load, b->spans, 0, tokens);
    x->load.tokens += tokens;
    x->load.rows++;
    x->chunks++;
}

static void add_decode(const struct batches *b, struct batch_load *x, int64_t cached)
{
    op_load_add_keys(&x->load, b->spans, cached);
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
        struct batch_load *x = batch_of(b, t->token_time_ns);
        if (x && t->token_index == 0)
            add_prompt(b, x, prompt);
        else if (x)
            add_decode(b, x, prompt + t->token_index);
    }
}

/* Likewise without rows of tokens. Where the last one does not come with the batch that it then has
 * to, nothing is known of those between. */
static void follow_request(const struct batches *b, size_t i)
{
    const struct run_request *q = &b->r->requests[i];
    if (q->status != RUN_OK || q->first_token_ns == RUN_NONE || q->completion_ns == RUN_NONE)
        return;
    struct batch_load *const first = batch_of(b, q->first_token_ns), *const last = batch_of(
                                                                         b, q->completion_ns);
    if (!first || !last)
        return;
    add_prompt(b, first, q->num_prefill_tokens);
    int64_t token = 1;
    for (struct batch_load *x = first + 1; x <= last; x++)
        if (b->r->batches[x - b->of].num_decode_tokens > 0)
            add_decode(b, x, q->num_prefill_tokens + token++);
    for (struct batch_load *x = first; x <= last && token != q->num_decode_tokens_actual; x++)
        b->unknown[x - b->of] = true;
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
static int64_t began_ns(const struct run_batch *x, const struct batch_load *y, int64_t last_end_ns)
{
    const bool waited = y->load.seqs > 0 && last_end_ns != RUN_NONE && last_end_ns < x->start_ns;
    return waited ? last_end_ns : x->start_ns;
}

/* Counts agree with what the requests say. */
static bool agrees(const struct run_batch *x, const struct batch_load *y)
{
    return y->load.tokens > 0 && y->load.seqs == x->num_decode_tokens &&
           y->load.tokens - y->load.seqs == x->num_prefill_tokens;
}

struct batch_load *batch_loads(struct arena *a, const struct run *r, const struct key_spans *spans)
{
    int64_t last_end_ns = RUN_NONE;
    if (!r->batches || !in_order(r))
        return NULL;
    const struct batches b = {.r = r,
                              .spans = spans,
                              .n = r->n_batches,
                              .of = arena_array(a, struct batch_load, r->n_batches),
                              .unknown = arena_array(a, bool, r->n_batches)};
    for (size_t i = 0; i < r->n_requests; i++)
        if (r->tokens)
            add_request(&b, i);
        else
            follow_request(&b, i);
    for (size_t i = 0; i < b.n; i++) {
        const struct run_batch *x = &r->batches[i];
        struct batch_load *y = &b.of[i];
        y->load.n_spans = spans ? spans->n : 0;
        if (x->stage != 0 || x->replica != 0)
            continue;
        const int64_t start_ns = began_ns(x, y, last_end_ns);
        last_end_ns = x->start_ns + x->duration_ns;
        y->duration_s = ns_to_s(last_end_ns - start_ns);
        y->known = agrees(x, y) && !b.unknown[i];
    }
    return b.of;
}

double batch_first_token_lag_s(struct arena *a, const struct run *r)
{
    double *lag = arena_array(a, double, r->n_requests);
    size_t n = 0;
    for (size_t i = 0; i < r->n_requests; i++) {
        const int64_t first_ns = r->requests[i].first_token_ns;
        const size_t begun = first_ns == RUN_NONE ? 0 : begun_before(r, first_ns);
        const struct run_batch *from = begun ? &r->batches[begun - 1] : NULL;
        if (from)
            lag[n++] = ns_to_s(first_ns - from->start_ns - from->duration_ns);
    }
    qsort(lag, n, sizeof *lag, order_double);
    return n ? fmax(lag[n / 2], 0) : (double)NAN;
}
