#include "support/serve_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"

struct harness harness_default(void)
{
    return (struct harness){.p = {.policy = "vllm_v1",
                                  .replicas = 1,
                                  .batch_cap = 8,
                                  .block_size = 4,
                                  .num_blocks = 100,
                                  .token_budget = 8,
                                  .emit_tokens = true},
                            .fake = {.batch_s = 1}};
}

void harness_prompt(int64_t request_id, int64_t n, int32_t *ids)
{
    int64_t i = 0, k = request_id - HARNESS_ALIKE;
    for (; k >= 0 && i < n && i < k % 7 * 5; i++)
        ids[i] = (int32_t)((k % 4 * 17 + i * 3) % FAKE_VOCAB);
    for (; i < n; i++)
        ids[i] = (int32_t)((request_id * 131 + i * 7 + 1) % FAKE_VOCAB);
}

int32_t harness_expected_token(const struct workload_request *r, int64_t index)
{
    int32_t ids[4096];
    harness_prompt(r->request_id, r->num_prefill_tokens, ids);
    for (int64_t i = 0; i <= index; i++)
        ids[r->num_prefill_tokens + i] = fake_token(ids, r->num_prefill_tokens + i);
    return ids[r->num_prefill_tokens + index];
}

static enum st source_next(void *self, struct workload_request *out, struct err *e)
{
    struct harness *h = self;
    (void)e;
    if (h->pulled == h->n_requests)
        return ST_END;
    *out = h->requests[h->pulled++];
    if (out->arrival_ns == 0)
        out->arrival_ns = ns_from_s(out->arrival_s);
    return ST_OK;
}

static enum st source_ids(void *self, const struct workload_request *r, int32_t *ids, struct err *e)
{
    (void)self;
    (void)e;
    harness_prompt(r->request_id, r->num_prefill_tokens, ids);
    return ST_OK;
}

static void sink_request(void *self, const struct run_request *r)
{
    struct harness *h = self;
    struct run_request copy = *r;
    if (r->error_msg)
        copy.error_msg = strdup(r->error_msg);
    vec_push(&h->rows, copy);
}

static void sink_token(void *self, const struct run_token *t)
{
    struct harness *h = self;
    vec_push(&h->tokens, *t);
}

static void sink_batch(void *self, const struct run_batch *b, const struct completion *c)
{
    struct harness *h = self;
    (void)c;
    vec_push(&h->batches, *b);
}

static void batch_seen(void *self, const struct batch *b)
{
    struct harness *h = self;
    char *line = malloc(HARNESS_LINE);
    fake_batch_text(b, line, HARNESS_LINE);
    vec_push(&h->lines, line);
    if (h->stop_at_batch && (int64_t)h->lines.n == h->stop_at_batch)
        h->stop = 1;
}

void harness_run(struct harness *h)
{
    struct executor ex[16];
    h->clock = h->real_clock ? clock_real() : clock_virtual();
    h->fake.clock = &h->clock;
    h->fake.block_size = h->p.block_size;
    h->fake.num_blocks = h->p.num_blocks;
    h->fake.batch_cap = h->p.batch_cap;
    h->fake.shares_blocks = h->p.prefix_caching;
    h->fake.spans = h->p.spans;
    h->fake.receives = h->p.prefill_replicas > 0;
    h->fake.seen = batch_seen;
    h->fake.seen_self = h;
    for (int32_t i = 0; i < h->p.replicas; i++)
        ex[i] = fake_executor(&h->fake);
    struct request_source source = {h, source_next, h->no_prompt_ids ? NULL : source_ids, NULL};
    struct serve_sink sink = {
        .self = h, .request = sink_request, .token = sink_token, .batch = sink_batch};
    struct serve_sink none = {0};
    h->st = serve_run(&h->p, &h->clock, ex, &source, h->no_rows ? &none : &sink, &h->stop, &h->n,
                      &h->e);
    for (int32_t i = 0; i < h->p.replicas; i++)
        ex[i].ops->close(ex[i].self);
}

void harness_free(struct harness *h)
{
    for (size_t i = 0; i < h->rows.n; i++)
        free((char *)(uintptr_t)h->rows.p[i].error_msg);
    for (size_t i = 0; i < h->lines.n; i++)
        free(h->lines.p[i]);
    vec_free(&h->rows);
    vec_free(&h->tokens);
    vec_free(&h->batches);
    vec_free(&h->lines);
}

void harness_expect(const struct harness *h, const char *const *want, size_t n)
{
    for (size_t i = 0; i < n && i < h->lines.n; i++)
        assert_string_equal(h->lines.p[i], want[i]);
    assert_int_equal(h->lines.n, n);
}

const struct run_request *harness_row(const struct harness *h, int64_t request_id)
{
    for (size_t i = 0; i < h->rows.n; i++)
        if (h->rows.p[i].request_id == request_id)
            return &h->rows.p[i];
    return NULL;
}

static int token_order(const void *a, const void *b)
{
    const struct run_token *x = a, *y = b;
    if (x->request_id != y->request_id)
        return x->request_id < y->request_id ? -1 : 1;
    return (x->token_index > y->token_index) - (x->token_index < y->token_index);
}

/* Of a request the tokens must have come in order; then all are brought together by request. */
static void sort_tokens(struct harness *h)
{
    int64_t last[1024];
    memset(last, 0xff, sizeof last);
    for (size_t i = 0; i < h->tokens.n; i++) {
        const struct run_token *t = &h->tokens.p[i];
        if (t->request_id < (int64_t)(sizeof last / sizeof *last))
            assert_int_equal(t->token_index, ++last[t->request_id]);
    }
    if (h->tokens.n)
        qsort(h->tokens.p, h->tokens.n, sizeof *h->tokens.p, token_order);
}

/* Tokens of one request, in the order they came. */
static void check_tokens(const struct run_request *r, const struct run_token *t, int64_t n,
                         bool together)
{
    assert_int_equal(n, r->num_decode_tokens_actual);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(t[i].token_index, i);
        int64_t gap = i ? t[i].token_time_ns - t[i - 1].token_time_ns : 0;
        assert_int_equal(t[i].token_latency_ns, gap);
        assert_true(i == 0 || gap > 0 || (together && gap == 0));
    }
    if (n > 0) {
        assert_int_equal(t[0].token_time_ns, r->first_token_ns);
        assert_true(r->arrival_ns <= r->scheduled_ns && r->scheduled_ns <= r->first_token_ns);
        if (r->status == RUN_OK)
            assert_int_equal(t[n - 1].token_time_ns, r->completion_ns);
    }
}

static void check_requests(struct harness *h)
{
    size_t from = 0, to;
    struct run_token *t = h->tokens.p;
    assert_int_equal(h->rows.n, h->n.requests);
    for (size_t i = 0; i < h->n_requests; i++) {
        const struct workload_request *w = &h->requests[i];
        const struct run_request *r = harness_row(h, w->request_id);
        assert_non_null(r);
        assert_int_equal(r->num_prefill_tokens, w->num_prefill_tokens);
        assert_int_equal(r->num_decode_tokens, w->num_decode_tokens);
        assert_true(r->num_decode_tokens_actual <= w->num_decode_tokens);
        for (to = from; to < h->tokens.n && t[to].request_id == w->request_id; to++)
            if (h->fake.computes)
                assert_int_equal(t[to].token_id, harness_expected_token(w, t[to].token_index));
        if (h->p.emit_tokens)
            check_tokens(r, t + from, (int64_t)(to - from), h->p.draft_tokens > 0);
        from = to;
        if (r->status == RUN_REJECTED)
            assert_int_equal(r->num_decode_tokens_actual, 0);
        else if (!h->fake.n_eos && !h->fake.eos_id)
            assert_int_equal(r->num_decode_tokens_actual, w->num_decode_tokens);
    }
    assert_int_equal(from, h->tokens.n);
}

void harness_check(struct harness *h)
{
    if (h->st != ST_OK)
        err_print(&h->e, "harness", stderr);
    assert_int_equal(h->st, ST_OK);
    if (h->no_rows)
        return;
    sort_tokens(h);
    int64_t prefill = 0, actual = 0, preempted = 0;
    for (size_t i = 0; i < h->batches.n; i++) {
        const struct run_batch *b = &h->batches.p[i];
        prefill += b->num_prefill_tokens;
        assert_true(b->kv_blocks >= 0 && b->kv_blocks <= h->p.num_blocks);
        assert_true(b->duration_ns >= 0 && b->host_ns >= 0);
        assert_true(b->batch_size <= h->p.batch_cap);
    }
    for (size_t i = 0; i < h->rows.n; i++) {
        actual += h->rows.p[i].num_decode_tokens_actual;
        preempted += h->rows.p[i].preemptions;
    }
    assert_int_equal(h->batches.n, h->n.iterations);
    assert_int_equal(prefill, h->n.prefill_tokens);
    assert_int_equal(actual, h->n.tokens);
    assert_int_equal(preempted, h->n.preemptions);
    check_requests(h);
}
