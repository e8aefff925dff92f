/* The loop: times of batches, late ends of sequences, rejections, errors of what it is given. What
 * policies do is tested in sched/ and over random workloads in tests/conform/sched_test.c. */
#include "serve/serve.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "support/serve_harness.h"
#include "support/support.h"

static const struct workload_request two[] = {
    {.request_id = 0, .num_prefill_tokens = 4, .num_decode_tokens = 3},
    {.request_id = 1, .arrival_s = 10, .num_prefill_tokens = 4, .num_decode_tokens = 2},
};

static struct harness with(const struct workload_request *w, size_t n)
{
    struct harness h = harness_default();
    h.requests = w;
    h.n_requests = n;
    return h;
}

/* ---- times ---- */

static void a_batch_starts_where_the_one_before_ended(void **state)
{
    (void)state;
    struct harness h = with(two, 2);
    h.fake.host_s = 0.25;
    harness_run(&h);
    harness_check(&h);
    const int64_t start_ms[] = {0, 1250, 2500, 10000, 11250};
    assert_int_equal(h.batches.n, 5);
    for (size_t i = 0; i < 5; i++) {
        const struct run_batch *b = &h.batches.p[i];
        assert_int_equal(b->iteration, i);
        assert_int_equal(b->start_ns, start_ms[i] * NS_PER_MS);
        assert_int_equal(b->duration_ns, 1250 * NS_PER_MS);
        assert_int_equal(b->host_ns, 250 * NS_PER_MS);
        assert_int_equal(b->device_ns, 1000 * NS_PER_MS);
    }
    assert_int_equal(harness_row(&h, 1)->scheduled_ns, 10000 * NS_PER_MS);
    assert_int_equal(harness_row(&h, 1)->first_token_ns, 11250 * NS_PER_MS);
    assert_true(h.n.end_s == 12.5);
    assert_int_equal(h.n.events, 2 + 5);
    harness_free(&h);
}

/* With two batches out, durations count from the end of the batch before: they add up to the time
 * the lane was busy. */
static void durations_of_overlapping_batches_add_up(void **state)
{
    (void)state;
    struct harness h = with(two, 1);
    h.fake.max_in_flight = 2;
    harness_run(&h);
    harness_check(&h);
    for (size_t i = 0; i < h.batches.n; i++) {
        assert_int_equal(h.batches.p[i].start_ns, (int64_t)i * NS_PER_S);
        assert_int_equal(h.batches.p[i].duration_ns, NS_PER_S);
        assert_int_equal(h.batches.p[i].host_ns, 0);
    }
    assert_int_equal(h.batches.n, 3);
    harness_free(&h);
}

/* On the real clock a busy loop's batches follow each other without a gap, whatever the loop did in
 * between; after an idle time the next one starts no earlier than its request came. */
static void real_batches_leave_no_gap(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 4, .num_decode_tokens = 5},
        {.request_id = 1, .arrival_s = 2, .num_prefill_tokens = 4, .num_decode_tokens = 3},
    };
    struct harness h = with(w, 2);
    h.real_clock = true;
    h.fake.batch_s = 0.002;
    harness_run(&h);
    harness_check(&h);
    assert_int_equal(h.batches.n, 8);
    for (size_t i = 1; i < 8; i++) {
        int64_t end_ns = h.batches.p[i - 1].start_ns + h.batches.p[i - 1].duration_ns;
        assert_true(llabs(h.batches.p[i].device_ns - 2 * NS_PER_MS) <= 1);
        if (i == 5)
            assert_true(h.batches.p[i].start_ns >= 2 * NS_PER_S);
        else
            assert_true(llabs(h.batches.p[i].start_ns - end_ns) <= 1);
    }
    harness_free(&h);
}

static void real_replicas_share_the_loop(void **state)
{
    (void)state;
    struct workload_request w[6];
    for (int i = 0; i < 6; i++)
        w[i] = (struct workload_request){.request_id = i,
                                         .arrival_s = 0.001 * i,
                                         .num_prefill_tokens = 3,
                                         .num_decode_tokens = 4};
    struct harness h = with(w, 6);
    h.real_clock = true;
    h.p.replicas = 2;
    h.fake.batch_s = 0.001;
    harness_run(&h);
    harness_check(&h);
    int64_t of[2] = {0, 0};
    for (size_t i = 0; i < h.batches.n; i++)
        of[h.batches.p[i].replica]++;
    assert_true(of[0] > 0 && of[1] > 0);
    harness_free(&h);
}

/* ---- ends of sequences ---- */

static void an_end_is_seen_when_the_host_sees_it(void **state)
{
    (void)state;
    const struct fake_eos eos[] = {{1, 0}};
    struct harness h = with(two, 1);
    h.fake.eos = eos;
    h.fake.n_eos = 1;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:4@0! | 0", "1: +0 | 1");
    assert_int_equal(harness_row(&h, 0)->num_decode_tokens_actual, 2);
    assert_int_equal(harness_row(&h, 0)->completion_ns, 2 * NS_PER_S);
    harness_free(&h);
}

/* Batch 2 is out with slot 0 in it when the end in batch 1 is seen: its token is dropped, and the
 * slot is not given away before it is back. */
static void a_late_end_drops_the_token_and_keeps_the_slot(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 4, .num_decode_tokens = 9},
        {.request_id = 1, .arrival_s = 2.5, .num_prefill_tokens = 4, .num_decode_tokens = 1},
        {.request_id = 2, .arrival_s = 3.5, .num_prefill_tokens = 4, .num_decode_tokens = 1},
    };
    const struct fake_eos eos[] = {{1, 0}};
    struct harness h = with(w, 3);
    h.fake.eos = eos;
    h.fake.n_eos = 1;
    h.fake.max_in_flight = 2;
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:4@0! | 0", "1: +0 | 1", "2: | 1", "3: 1:4@0! -0 | 0", "4: 0:4@0! | 0");
    assert_int_equal(harness_row(&h, 0)->num_decode_tokens_actual, 2);
    assert_int_equal(harness_row(&h, 0)->completion_ns, 2 * NS_PER_S);
    assert_int_equal(h.n.tokens, 4);
    harness_free(&h);
}

/* The first token may be the last. */
static void an_end_in_the_prefill(void **state)
{
    (void)state;
    const struct fake_eos eos[] = {{0, 0}};
    for (int32_t out = 1; out <= 3; out++) {
        struct harness h = with(two, 1);
        h.fake.eos = eos;
        h.fake.n_eos = 1;
        h.fake.max_in_flight = out;
        harness_run(&h);
        harness_check(&h);
        assert_int_equal(harness_row(&h, 0)->num_decode_tokens_actual, 1);
        assert_int_equal(h.n.iterations, out);
        harness_free(&h);
    }
}

/* ---- requests ---- */

static void what_can_never_run_is_rejected(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 397, .num_decode_tokens = 5},
        {.request_id = 1, .num_prefill_tokens = 60, .num_decode_tokens = 41},
        {.request_id = 2, .num_prefill_tokens = 0, .num_decode_tokens = 4},
        {.request_id = 3, .num_prefill_tokens = 60, .num_decode_tokens = 40},
        {.request_id = 4, .num_prefill_tokens = INT64_MAX, .num_decode_tokens = INT64_MAX},
    };
    struct harness h = with(w, 5);
    h.p.max_model_len = 0;
    h.n_requests = 1;
    harness_run(&h);
    harness_check(&h);
    assert_string_equal(h.rows.p[0].error_msg, "needs 101 KV blocks, a replica has 100");
    assert_string_equal(h.rows.p[0].error_type, "kv_blocks");
    harness_free(&h);

    h = with(w, 5);
    h.p.max_model_len = 100;
    harness_run(&h);
    harness_check(&h);
    assert_string_equal(harness_row(&h, 1)->error_msg,
                        "prompt and output of 101 tokens exceed max_model_len 100");
    assert_string_equal(harness_row(&h, 1)->error_type, "max_model_len");
    assert_string_equal(harness_row(&h, 2)->error_msg,
                        "a request needs a prompt and at least one output token");
    assert_int_equal(harness_row(&h, 2)->status, RUN_REJECTED);
    assert_int_equal(harness_row(&h, 3)->status, RUN_OK);
    assert_int_equal(harness_row(&h, 4)->status, RUN_REJECTED);
    assert_int_equal(harness_row(&h, 4)->completion_ns, RUN_NONE);
    assert_int_equal(h.n.rejected, 4);
    assert_int_equal(h.n.requests, 5);
    harness_free(&h);
}

static void the_first_are_warm_up(void **state)
{
    (void)state;
    struct workload_request w[4];
    for (int i = 0; i < 4; i++)
        w[i] = (struct workload_request){
            .request_id = i, .num_prefill_tokens = 1, .num_decode_tokens = 1};
    struct harness h = with(w, 4);
    h.p.warmup_requests = 2;
    harness_run(&h);
    harness_check(&h);
    for (int i = 0; i < 4; i++)
        assert_int_equal(harness_row(&h, i)->warmup, i < 2);
    harness_free(&h);
}

static void no_requests_no_batches(void **state)
{
    (void)state;
    struct harness h = with(two, 0);
    harness_run(&h);
    harness_check(&h);
    assert_int_equal(h.n.iterations, 0);
    harness_free(&h);
}

static void a_loop_without_sink_counts_the_same(void **state)
{
    (void)state;
    struct harness h = with(two, 2), quiet = h;
    quiet.no_rows = true;
    harness_run(&h);
    harness_run(&quiet);
    harness_check(&quiet);
    assert_int_equal(h.n.tokens, quiet.n.tokens);
    assert_int_equal(h.n.iterations, quiet.n.iterations);
    harness_free(&h);
    harness_free(&quiet);
}

/* ---- ends of runs ---- */

static void stopping_while_idle(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 1, .num_decode_tokens = 1},
        {.request_id = 1, .arrival_s = 3600, .num_prefill_tokens = 1, .num_decode_tokens = 1},
    };
    struct harness h = with(w, 2);
    h.real_clock = true;
    h.fake.batch_s = 0.001;
    h.stop_at_batch = 1;
    harness_run(&h);
    assert_int_equal(h.st, ST_INTERRUPTED);
    assert_string_equal(err_cause(&h.e, 0), "interrupted");
    assert_int_equal(h.rows.n, 1); /* the batch in flight was waited for */
    assert_int_equal(h.rows.p[0].status, RUN_OK);
    harness_free(&h);
}

static void errors_of_the_executor_end_the_run(void **state)
{
    (void)state;
    struct harness h = with(two, 2);
    h.fake.fail_submit = 2;
    harness_run(&h);
    assert_int_equal(h.st, ST_DEVICE);
    assert_string_equal(err_cause(&h.e, 0), "the fake refuses batch 1");
    assert_int_equal(h.rows.n, 1);
    assert_int_equal(h.rows.p[0].status, RUN_ERROR);
    assert_string_equal(h.rows.p[0].error_msg, "the fake refuses batch 1");
    assert_int_equal(h.rows.p[0].num_decode_tokens_actual, 1);
    harness_free(&h);

    h = with(two, 2);
    h.fake.computes = true;
    h.fake.fail_next = 2;
    harness_run(&h);
    assert_int_equal(h.st, ST_DEVICE);
    assert_string_equal(err_cause(&h.e, 0), "the fake lost its batches");
    harness_free(&h);

    const struct fake_eos eos[] = {{1, 7}};
    h = with(two, 2);
    h.fake.eos = eos;
    h.fake.n_eos = 1;
    harness_run(&h);
    assert_int_equal(h.st, ST_DEVICE);
    assert_string_equal(err_cause(&h.e, 0),
                        "executor fake: end of slot 7, which has no row in the batch");
    harness_free(&h);
}

/* An executor that answers with whatever the test wants. */
struct liar {
    struct completion says;
    bool answers;
};

static int32_t liar_out(void *self)
{
    (void)self;
    return 1;
}

static enum st liar_submit(void *self, const struct batch *b, uint64_t *ticket, struct err *e)
{
    (void)self;
    (void)b;
    (void)e;
    *ticket = 1;
    return ST_OK;
}

static enum st liar_next(void *self, double deadline_s, struct completion *out, struct err *e)
{
    struct liar *x = self;
    (void)deadline_s;
    (void)e;
    *out = x->says;
    return x->answers ? ST_OK : ST_END;
}

static void liar_bind(void *self, struct slot_source source)
{
    (void)self;
    (void)source;
}

static void liar_close(void *self)
{
    (void)self;
}

static enum st one_request(void *self, struct workload_request *out, struct err *e)
{
    int *left = self;
    (void)e;
    if ((*left)-- == 0)
        return ST_END;
    *out = (struct workload_request){.num_prefill_tokens = 1, .num_decode_tokens = 2};
    return ST_OK;
}

static enum st some_ids(void *self, const struct workload_request *r, int32_t *ids, struct err *e)
{
    (void)self;
    (void)e;
    memset(ids, 0, (size_t)r->num_prefill_tokens * sizeof *ids);
    return ST_OK;
}

static void lie(struct test *t, uint32_t caps, struct liar x, const char *text)
{
    const struct executor_ops ops = {.name = "liar",
                                     .help = "",
                                     .version = EXECUTOR_VERSION,
                                     .caps = caps,
                                     .max_in_flight = liar_out,
                                     .submit = liar_submit,
                                     .next = liar_next,
                                     .close = liar_close,
                                     .bind = liar_bind};
    struct harness h = harness_default();
    struct executor ex = {&ops, &x};
    struct serve_clock clock = caps & EXEC_VIRTUAL ? clock_virtual() : clock_real();
    int left = 1;
    struct request_source source = {&left, one_request, some_ids, NULL};
    struct serve_sink sink = {0};
    err_clear(&t->e);
    assert_err(serve_run(&h.p, &clock, &ex, &source, &sink, NULL, &h.n, &t->e), ST_DEVICE, t, text);
}

static void impossible_answers_are_errors(void **state)
{
    struct test *t = *state;
    const uint32_t v = EXEC_VIRTUAL, vc = EXEC_VIRTUAL | EXEC_COMPUTES;
    const struct emitted token = {5, 0}, twice[] = {{0, 1}, {0, 2}};
    lie(t, v, (struct liar){.answers = false}, "executor liar: no answer for batch 0");
    lie(t, v, (struct liar){.answers = true, .says = {.ticket = 9}},
        "executor liar: no answer for batch 0");
    lie(t, v, (struct liar){.answers = true, .says = {.ticket = 1, .end_s = -1}},
        "executor liar: batch 0 ends at -1 s, submitted at 0 s");
    lie(t, v, (struct liar){.answers = true, .says = {.ticket = 1, .end_s = INFINITY}},
        "executor liar: batch 0 ends at inf s, submitted at 0 s");
    lie(t, vc, (struct liar){.answers = true, .says = {.ticket = 1}},
        "executor liar: 0 tokens for a batch of 1 emitting rows");
    lie(t, vc,
        (struct liar){.answers = true, .says = {.ticket = 1, .tokens = &token, .n_tokens = 1}},
        "executor liar: token of slot 5, which has no row in the batch");
    lie(t, vc,
        (struct liar){.answers = true, .says = {.ticket = 1, .tokens = twice, .n_tokens = 2}},
        "executor liar: 2 tokens for a batch of 1 emitting rows");
    lie(t, 0, (struct liar){.answers = true, .says = {.ticket = 9}},
        "executor liar: a completion of no batch");
}

/* ---- errors of the source, combinations ---- */

static enum st disorderly(void *self, struct workload_request *out, struct err *e)
{
    int *n = self;
    (void)e;
    *out = (struct workload_request){.request_id = *n,
                                     .arrival_s = *n == 2 ? 0.5 : *n,
                                     .num_prefill_tokens = 1,
                                     .num_decode_tokens = 1};
    return ++*n > 3 ? ST_END : ST_OK;
}

static enum st broken(void *self, struct workload_request *out, struct err *e)
{
    (void)self;
    (void)out;
    return err_set(e, ST_IO, "the source is broken");
}

static enum st broken_ids(void *self, const struct workload_request *r, int32_t *ids, struct err *e)
{
    (void)self;
    (void)ids;
    return err_set(e, ST_INPUT, "no ids for request %lld", (long long)r->request_id);
}

static void source_fails(struct test *t, struct request_source source, bool computes, enum st st,
                         const char *text)
{
    struct harness h = harness_default();
    struct executor ex = fake_executor(
        &(struct fake_params){.computes = computes, .block_size = 4, .num_blocks = 100});
    struct serve_clock clock = clock_virtual();
    struct serve_sink sink = {0};
    err_clear(&t->e);
    assert_err(serve_run(&h.p, &clock, &ex, &source, &sink, NULL, &h.n, &t->e), st, t, text);
    ex.ops->close(ex.self);
}

static void errors_of_the_source_end_the_run(void **state)
{
    struct test *t = *state;
    int n = 0, left = 1;
    source_fails(t, (struct request_source){&n, disorderly, NULL, NULL}, false, ST_INPUT,
                 "request 2 arrives at 0.5 s, before the one ahead of it (1 s)");
    source_fails(t, (struct request_source){NULL, broken, NULL, NULL}, false, ST_IO,
                 "the source is broken");
    source_fails(t, (struct request_source){&left, one_request, broken_ids, NULL}, true, ST_INPUT,
                 "no ids for request 0");
    source_fails(t, (struct request_source){&left, one_request, NULL, NULL}, true, ST_USAGE,
                 "executor fake needs the ids of prompts");
}

static void clocks_and_executors_must_match(void **state)
{
    struct test *t = *state;
    struct harness h = harness_default();
    struct executor ex[2] = {
        fake_executor(&(struct fake_params){.block_size = 4}),
        fake_executor(&(struct fake_params){.block_size = 4, .num_blocks = 9, .computes = true})};
    struct serve_clock clock = clock_real();
    struct request_source source = {NULL, broken, some_ids, NULL};
    struct serve_sink sink = {0};
    assert_err(serve_run(&h.p, &clock, ex, &source, &sink, NULL, &h.n, &t->e), ST_USAGE, t,
               "executor fake does not run on the real clock");
    clock = clock_virtual();
    h.p.replicas = 2;
    assert_err(serve_run(&h.p, &clock, ex, &source, &sink, NULL, &h.n, &t->e), ST_USAGE, t,
               "executors fake and fake cannot share a run");
    h.p.policy = "none";
    assert_int_equal(serve_run(&h.p, &clock, ex, &source, &sink, NULL, &h.n, &t->e), ST_USAGE);
    ex[0].ops->close(ex[0].self);
    ex[1].ops->close(ex[1].self);
}

/* What requests pay outside the engine lengthens their latencies, and no batch. */
static void overheads_are_no_work(void **state)
{
    (void)state;
    struct harness h = with(two, 2), plain = with(two, 2);
    h.p.overheads = (struct serve_overheads){
        .first_token_s = 0.5, .prompt_token_s = 0.01, .completion_s = 0.125};
    harness_run(&h);
    harness_run(&plain);
    harness_check(&plain);
    assert_int_equal(h.batches.n, plain.batches.n);
    for (size_t i = 0; i < h.batches.n; i++)
        assert_memory_equal(&h.batches.p[i], &plain.batches.p[i], sizeof h.batches.p[i]);
    for (int64_t id = 0; id < 2; id++) {
        const struct run_request *r = harness_row(&h, id), *p = harness_row(&plain, id);
        assert_int_equal(r->scheduled_ns, p->scheduled_ns);
        assert_int_equal(r->first_token_ns, p->first_token_ns + 540 * NS_PER_MS);
        assert_int_equal(r->completion_ns, p->completion_ns + 665 * NS_PER_MS);
    }
    for (size_t i = 0; i < h.tokens.n; i++) {
        assert_int_equal(h.tokens.p[i].token_time_ns,
                         plain.tokens.p[i].token_time_ns + 540 * NS_PER_MS);
        assert_int_equal(h.tokens.p[i].token_latency_ns, plain.tokens.p[i].token_latency_ns);
    }
    assert_true(h.n.end_s == plain.n.end_s);
    harness_free(&h);
    harness_free(&plain);
}

/* The front shares its time among what is there: two at once reach the engine together, a third
 * that comes meanwhile slows them, one behind them is alone; their latencies hold the wait. */
static void the_front_of_a_server_is_shared(void **state)
{
    (void)state;
    static const struct workload_request four[] = {
        {.request_id = 0, .num_prefill_tokens = 4, .num_decode_tokens = 1},
        {.request_id = 1, .num_prefill_tokens = 4, .num_decode_tokens = 1},
        {.request_id = 2,
         .arrival_ns = 300 * NS_PER_MS,
         .arrival_s = 0.3,
         .num_prefill_tokens = 4,
         .num_decode_tokens = 1},
        {.request_id = 3,
         .arrival_ns = 900 * NS_PER_S,
         .arrival_s = 900,
         .num_prefill_tokens = 4,
         .num_decode_tokens = 1},
    };
    /* the third is ready at 0.75 s, in the batch of the two, which takes 1 s */
    static const int64_t ready_ns[] = {600 * NS_PER_MS, 600 * NS_PER_MS, 1600 * NS_PER_MS,
                                       900 * NS_PER_S + 250 * NS_PER_MS};
    struct harness h = with(four, 4);
    h.p.overheads = (struct serve_overheads){.front_s = 0.25};
    h.p.batch_cap = 4;
    h.p.token_budget = 64;
    harness_run(&h);
    harness_check(&h);
    for (int64_t id = 0; id < 4; id++) {
        const struct run_request *r = harness_row(&h, id);
        assert_int_equal(r->arrival_ns, four[id].arrival_ns);
        assert_int_equal(r->scheduled_ns, ready_ns[id]);
        assert_true(r->first_token_ns > ready_ns[id]);
    }
    harness_free(&h);
}

/* A first token waits for the requests that run then, and the later ones follow at their pace. */
static void tokens_are_handed_out_one_after_the_other(void **state)
{
    (void)state;
    static const struct workload_request both[] = {
        {.request_id = 0, .num_prefill_tokens = 4, .num_decode_tokens = 30},
        {.request_id = 1, .num_prefill_tokens = 4, .num_decode_tokens = 20},
    };
    for (size_t n = 1; n <= 2; n++) { /* alone, and together */
        struct harness h = with(both, n), plain = with(both, n);
        h.p.overheads = (struct serve_overheads){.stream_s = 0.25};
        harness_run(&h);
        harness_run(&plain);
        for (int64_t id = 0; id < (int64_t)n; id++) {
            const struct run_request *r = harness_row(&h, id), *p = harness_row(&plain, id);
            const int64_t shift = (int64_t)n * 250 * NS_PER_MS;
            assert_int_equal(r->first_token_ns, p->first_token_ns + shift);
            assert_int_equal(r->completion_ns, p->completion_ns + shift);
        }
        for (size_t i = 0; i < h.tokens.n; i++)
            assert_int_equal(h.tokens.p[i].token_latency_ns, plain.tokens.p[i].token_latency_ns);
        harness_free(&h);
        harness_free(&plain);
    }
}

/* Rows of a long and many short requests: the log of ends is trimmed and never short. */
static void tokens_of_long_and_short_requests(void **state)
{
    (void)state;
    enum { N = 300 };
    static struct workload_request w[N];
    for (int i = 0; i < N; i++)
        w[i] = (struct workload_request){.request_id = i,
                                         .arrival_s = 3 * i,
                                         .num_prefill_tokens = 1,
                                         .num_decode_tokens = i % 100 == 50 ? 150 : 1 + i % 7};
    struct harness h = with(w, N);
    harness_run(&h);
    harness_check(&h);
    harness_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_batch_starts_where_the_one_before_ended),
        TEST(durations_of_overlapping_batches_add_up),
        TEST(real_batches_leave_no_gap),
        TEST(real_replicas_share_the_loop),
        TEST(an_end_is_seen_when_the_host_sees_it),
        TEST(a_late_end_drops_the_token_and_keeps_the_slot),
        TEST(an_end_in_the_prefill),
        TEST(what_can_never_run_is_rejected),
        TEST(the_first_are_warm_up),
        TEST(no_requests_no_batches),
        TEST(a_loop_without_sink_counts_the_same),
        TEST(stopping_while_idle),
        TEST(errors_of_the_executor_end_the_run),
        TEST(impossible_answers_are_errors),
        TEST(errors_of_the_source_end_the_run),
        TEST(clocks_and_executors_must_match),
        TEST(overheads_are_no_work),
        TEST(the_front_of_a_server_is_shared),
        cmocka_unit_test(tokens_are_handed_out_one_after_the_other),
        TEST(tokens_of_long_and_short_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
