/* Every registered policy, over random workloads: what must hold whatever the policy does. The fake
 * executor replays each batch's delta into rows and, when it computes, reads the KV cache back
 * through the block tables, so any slip of the loop shows as a wrong sum or a wrong token. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "support/random_case.h"

enum { SEEDS = 25 };

static const struct sched_ops *policy_of(void **state)
{
    return *(const struct sched_ops *const *)*state;
}

static void run_and_check(struct harness *h)
{
    harness_run(h);
    harness_check(h);
    harness_free(h);
}

static void predicted(void **state)
{
    struct workload_request w[RANDOM_REQUESTS];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct harness h = random_case(policy_of(state), seed, w);
        run_and_check(&h);
    }
}

static void computed(void **state)
{
    struct workload_request w[RANDOM_REQUESTS];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct harness h = random_case(policy_of(state), seed, w);
        h.fake.computes = true;
        run_and_check(&h);
    }
}

/* The batch after is built before the tokens of the one before are known. */
static void two_in_flight(void **state)
{
    struct workload_request w[RANDOM_REQUESTS];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct harness h = random_case(policy_of(state), seed, w);
        h.fake.max_in_flight = 2 + (int32_t)(seed % 2);
        h.fake.computes = seed % 4 < 2;
        run_and_check(&h);
    }
}

/* As with pipeline stages: disjoint batches. */
static void lanes(void **state)
{
    struct workload_request w[RANDOM_REQUESTS];
    if (policy_of(state)->traits & SCHED_ONE_LANE)
        return;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct harness h = random_case(policy_of(state), seed, w);
        h.fake.lanes = 2 + (int32_t)(seed % 2);
        h.fake.max_in_flight = h.fake.lanes * (seed % 5 ? 1 : 2);
        h.fake.computes = seed % 4 < 2;
        run_and_check(&h);
    }
}

static void replicas(void **state)
{
    struct workload_request w[RANDOM_REQUESTS];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct harness h = random_case(policy_of(state), seed, w);
        h.p.replicas = 3;
        run_and_check(&h);
    }
}

/* Sequences end when the model says so, with one batch out and with two: the tokens are those of
 * each request computed alone, up to the end token. */
static void ends_early(void **state)
{
    struct workload_request w[RANDOM_REQUESTS];
    int64_t early = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct harness h = random_case(policy_of(state), seed, w);
        h.fake.computes = true;
        h.fake.max_in_flight = 1 + (int32_t)(seed % 3);
        size_t k = h.n_requests / 2;
        h.fake.eos_id = harness_expected_token(&w[k], w[k].num_decode_tokens / 2);
        harness_run(&h);
        harness_check(&h);
        for (size_t i = 0; i < h.n_requests; i++) {
            int64_t n = 1;
            while (n < w[i].num_decode_tokens &&
                   harness_expected_token(&w[i], n - 1) != h.fake.eos_id)
                n++;
            assert_int_equal(harness_row(&h, (int64_t)i)->num_decode_tokens_actual, n);
            early += n < w[i].num_decode_tokens;
        }
        harness_free(&h);
    }
    assert_true(early >= SEEDS / 2);
}

static void same_requests(const struct harness *x, const struct harness *y)
{
    assert_int_equal(x->rows.n, y->rows.n);
    for (size_t i = 0; i < x->rows.n; i++) {
        const struct run_request *a = &x->rows.p[i], *b = &y->rows.p[i];
        assert_int_equal(a->request_id, b->request_id);
        assert_int_equal(a->scheduled_ns, b->scheduled_ns);
        assert_int_equal(a->first_token_ns, b->first_token_ns);
        assert_int_equal(a->completion_ns, b->completion_ns);
        assert_int_equal(a->num_decode_tokens_actual, b->num_decode_tokens_actual);
        assert_int_equal(a->preemptions, b->preemptions);
        assert_int_equal(a->status, b->status);
    }
}

static void same_batches(const struct harness *x, const struct harness *y)
{
    assert_int_equal(x->lines.n, y->lines.n);
    for (size_t i = 0; i < x->lines.n; i++) {
        assert_string_equal(x->lines.p[i], y->lines.p[i]);
        assert_int_equal(x->batches.p[i].start_ns, y->batches.p[i].start_ns);
        assert_int_equal(x->batches.p[i].duration_ns, y->batches.p[i].duration_ns);
        assert_int_equal(x->batches.p[i].kv_blocks, y->batches.p[i].kv_blocks);
    }
}

/* Same input, same rows; and rows do not depend on whether tokens are wanted. */
static void repeats(void **state)
{
    struct workload_request w[RANDOM_REQUESTS];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct harness one = random_case(policy_of(state), seed, w);
        struct harness two = one, quiet = one;
        quiet.p.emit_tokens = false;
        harness_run(&one);
        harness_run(&two);
        harness_run(&quiet);
        same_requests(&one, &two);
        same_requests(&one, &quiet);
        same_batches(&one, &two);
        same_batches(&one, &quiet);
        assert_int_equal(quiet.tokens.n, 0);
        assert_int_equal(one.tokens.n, two.tokens.n);
        for (size_t i = 0; i < one.tokens.n; i++) {
            assert_int_equal(one.tokens.p[i].request_id, two.tokens.p[i].request_id);
            assert_int_equal(one.tokens.p[i].token_time_ns, two.tokens.p[i].token_time_ns);
        }
        harness_free(&one);
        harness_free(&two);
        harness_free(&quiet);
    }
}

/* With prefix caching every token is the same, read back through blocks that others filled; what a
 * request found is what it did not compute. Policies without the knob refuse it. */
static void prefix_caching(void **state)
{
    struct workload_request w[RANDOM_REQUESTS];
    int64_t hits = 0, preemptions = 0, evictions = 0;
    for (uint64_t seed = 0; seed < 2 * SEEDS; seed++) {
        struct harness h = random_case(policy_of(state), seed, w);
        if (!(policy_of(state)->knobs & KNOB_PREFIX_CACHING))
            return harness_free(&h);
        h.p.prefix_caching = true;
        h.fake.computes = seed % 3 != 0;
        h.fake.max_in_flight = 1 + (int32_t)(seed % 2);
        h.fake.lanes = h.fake.max_in_flight == 2 && seed % 4 == 1 ? 2 : 1;
        for (size_t i = 0; i < h.n_requests; i++)
            w[i].request_id += HARNESS_ALIKE;
        harness_run(&h);
        harness_check(&h);
        int64_t prompts = 0;
        for (size_t i = 0; i < h.n_requests; i++)
            prompts += w[i].num_prefill_tokens;
        if (h.n.preemptions == 0) {
            assert_int_equal(h.n.prefix_looked_tokens, prompts);
            assert_int_equal(h.n.prefill_tokens, prompts - h.n.prefix_hit_tokens);
        }
        assert_true(h.n.prefix_looked_tokens - h.n.prefix_hit_tokens >= h.n.prefill_tokens);
        hits += h.n.prefix_hit_tokens;
        preemptions += h.n.preemptions;
        evictions += h.n.prefix_evictions;
        harness_free(&h);
    }
    assert_true(hits > 1000 && evictions > 100);
    assert_true(!(policy_of(state)->traits & SCHED_PREEMPTS) || preemptions > 10);
}

/* So few blocks that one request fits and a second one hardly does. */
static void preemption_storm(void **state)
{
    struct workload_request w[RANDOM_REQUESTS];
    int64_t preemptions = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct harness h = random_case(policy_of(state), seed, w);
        h.p.batch_cap = 8;
        random_case_knobs(&h.p, policy_of(state), 32);
        random_case_blocks(&h.p, policy_of(state), 2, 31);
        h.p.watermark = 0;
        h.fake.computes = seed % 2;
        h.fake.max_in_flight = 1 + (int32_t)(seed % 3 == 2);
        for (size_t i = 0; i < h.n_requests; i++)
            w[i].arrival_s = 0;
        harness_run(&h);
        harness_check(&h);
        preemptions += h.n.preemptions;
        harness_free(&h);
    }
    if (policy_of(state)->traits & SCHED_PREEMPTS)
        assert_true(preemptions > 5 * SEEDS);
    else
        assert_int_equal(preemptions, 0);
}

/* Stopped at any batch, every request taken in has its row and its tokens so far. */
static void interrupted(void **state)
{
    struct workload_request w[RANDOM_REQUESTS];
    for (int64_t at = 1; at < 30; at++) {
        struct harness h = random_case(policy_of(state), 3, w);
        h.n_requests = 20;
        for (size_t i = 0; i < h.n_requests; i++)
            w[i] = (struct workload_request){.request_id = (int64_t)i,
                                             .arrival_s = (double)i / 2,
                                             .num_prefill_tokens = 5,
                                             .num_decode_tokens = 20};
        h.stop_at_batch = at;
        h.fake.max_in_flight = 1 + (int32_t)(at % 2);
        h.fake.computes = at % 3 == 0;
        harness_run(&h);
        assert_int_equal(h.st, ST_INTERRUPTED);
        assert_int_equal(h.rows.n, h.n.requests);
        int64_t tokens = 0, cancelled = 0;
        for (size_t i = 0; i < h.rows.n; i++) {
            tokens += h.rows.p[i].num_decode_tokens_actual;
            cancelled += h.rows.p[i].status == RUN_CANCELLED;
        }
        assert_int_equal(tokens, h.tokens.n);
        assert_int_equal(tokens, h.n.tokens);
        assert_true(cancelled > 0);
        harness_free(&h);
    }
}

/* A knob that the policy does not read is refused by name. */
static void foreign_knobs_are_refused(void **state)
{
    const struct sched_ops *sched = policy_of(state);
    const struct {
        uint32_t bit;
        struct serve_params p;
        const char *name;
    } knobs[] = {
        {KNOB_CHUNK_SIZE, {.chunk_size = 512}, "chunk_size"},
        {KNOB_TOKEN_BUDGET, {.token_budget = 512}, "token_budget"},
        {KNOB_MAX_TOKENS_IN_BATCH, {.max_tokens_in_batch = 512}, "max_tokens_in_batch"},
        {KNOB_WATERMARK, {.watermark = 0.01}, "watermark"},
        {KNOB_MAX_WAITING_ITERS, {.max_waiting_iters = 3}, "max_waiting_iters"},
        {KNOB_PREFIX_CACHING, {.prefix_caching = true}, "prefix_caching"},
    };
    for (size_t i = 0; i < sizeof knobs / sizeof *knobs; i++) {
        struct serve_params p = knobs[i].p;
        struct err e = {0};
        char want[120];
        p.policy = sched->name;
        p.replicas = 1;
        p.batch_cap = p.num_blocks = 16;
        random_case_blocks(&p, sched, 16, 16);
        snprintf(want, sizeof want, "scheduler.%s: policy %s has no such knob", knobs[i].name,
                 sched->name);
        enum st st = serve_check_params(&p, &e);
        assert_int_equal(st, sched->knobs & knobs[i].bit ? ST_OK : ST_USAGE);
        if (st != ST_OK)
            assert_string_equal(err_cause(&e, 0), want);
    }
}

/* ---- queueing theory ------------------------------------------------------------------------ */

struct waits {
    struct rng arrivals, service;
    double rate, at_s;
    int64_t left, id;
    double sum[20]; /* batch means */
    int64_t n, total;
};

static enum st next_arrival(void *self, struct workload_request *out, struct err *e)
{
    struct waits *x = self;
    (void)e;
    if (x->left-- == 0)
        return ST_END;
    x->at_s += rng_exponential(&x->arrivals) / x->rate;
    *out = (struct workload_request){.request_id = x->id++,
                                     .arrival_s = x->at_s,
                                     .arrival_ns = (int64_t)(x->at_s * 1e9),
                                     .num_prefill_tokens = 1,
                                     .num_decode_tokens = 1};
    return ST_OK;
}

static void note_wait(void *self, const struct run_request *r)
{
    struct waits *x = self;
    x->sum[20 * x->n++ / x->total] += (double)(r->scheduled_ns - r->arrival_ns) / 1e9;
}

static double exponential_service(void *self, const struct batch *b)
{
    struct waits *x = self;
    (void)b;
    return rng_exponential(&x->service);
}

/* Mean wait with one server of mean service time 1 s, and its standard error from 20 batch means.
 */
static double mean_wait(const struct sched_ops *sched, double rate, bool exponential, double *error)
{
    struct waits x = {.arrivals = rng_stream(7, "arrivals"),
                      .service = rng_stream(7, "service"),
                      .rate = rate,
                      .left = 200000,
                      .total = 200000};
    struct harness h = harness_default();
    struct fake_params fake = {
        .batch_s = 1, .time_s = exponential ? exponential_service : NULL, .time_self = &x};
    h.p.batch_cap = 1;
    random_case_knobs(&h.p, sched, 1);
    random_case_blocks(&h.p, sched, 4, 100);
    h.p.emit_tokens = false;
    struct executor ex = fake_executor(&fake);
    struct serve_clock clock = clock_virtual();
    struct request_source source = {&x, next_arrival, NULL, NULL};
    struct serve_sink sink = {.self = &x, .request = note_wait};
    assert_int_equal(serve_run(&h.p, &clock, &ex, &source, &sink, NULL, &h.n, &h.e), ST_OK);
    ex.ops->close(ex.self);
    double mean = 0, var = 0;
    for (int i = 0; i < 20; i++)
        mean += x.sum[i] / (double)x.total;
    for (int i = 0; i < 20; i++) {
        double d = x.sum[i] / ((double)x.total / 20) - mean;
        var += d * d / 19;
    }
    *error = sqrt(var / 20);
    return mean;
}

/* Pollaczek-Khinchine: the mean wait is rho / (2 (1 - rho)) service times when these are constant
 * and rho / (1 - rho) when they are exponential. */
static void waits_as_theory_says(void **state)
{
    double before = 0;
    for (double rho = 0.3; rho < 0.95; rho += 0.3) {
        double error, md1 = mean_wait(policy_of(state), rho, false, &error);
        assert_true(fabs(md1 - rho / (2 * (1 - rho))) < 4 * error);
        assert_true(error < 0.1 * md1);
        assert_true(md1 > before);
        before = md1;
        double mm1 = mean_wait(policy_of(state), rho, true, &error);
        assert_true(fabs(mm1 - rho / (1 - rho)) < 4 * error);
        assert_true(error < 0.1 * mm1);
    }
}

/* Little's law on the serving stage: sequences in a batch, integrated over time, is the time that
 * requests spend between first batch and completion. Exact while none is preempted or skipped; less
 * where batches of prefills let the decodes wait. */
static void littles_law(void **state)
{
    struct workload_request w[RANDOM_REQUESTS];
    int64_t rested = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct harness h = random_case(policy_of(state), seed, w);
        h.p.num_blocks = 10000;
        h.p.max_model_len = 0;
        random_case_knobs(&h.p, policy_of(state), 100 * RANDOM_REQUESTS);
        harness_run(&h);
        harness_check(&h);
        int64_t in_batches = 0, in_service = 0;
        for (size_t i = 0; i < h.batches.n; i++)
            in_batches += h.batches.p[i].batch_size * h.batches.p[i].duration_ns;
        for (size_t i = 0; i < h.rows.n; i++)
            in_service += h.rows.p[i].completion_ns - h.rows.p[i].scheduled_ns;
        int64_t rounding = (int64_t)(h.batches.n * h.rows.n);
        assert_true(in_batches <= in_service + rounding);
        rested += in_service - in_batches > rounding;
        harness_free(&h);
    }
    assert_true(policy_of(state)->traits & SCHED_RESTS ? rested > SEEDS / 2 : rested == 0);
}

/* A policy for one lane says so when it is given two. */
static void pipeline_stages_may_be_refused(void **state)
{
    struct workload_request w[RANDOM_REQUESTS];
    struct harness h = random_case(policy_of(state), 1, w);
    h.fake.lanes = h.fake.max_in_flight = 2;
    harness_run(&h);
    bool refused = policy_of(state)->traits & SCHED_ONE_LANE;
    assert_int_equal(h.st, refused ? ST_USAGE : ST_OK);
    if (refused)
        assert_string_equal(err_cause(&h.e, 0), "policy lightllm does not run in pipeline stages");
    harness_free(&h);
}

#define CASE(f)                                             \
    {                                                       \
        .name = #f, .test_func = f, .initial_state = policy \
    }

int main(void)
{
    int failed = 0;
    for (int i = 0; sched_registry[i]; i++) {
        void *policy = (void *)(uintptr_t)&sched_registry[i];
        const struct CMUnitTest tests[] = {
            CASE(predicted),
            CASE(computed),
            CASE(two_in_flight),
            CASE(lanes),
            CASE(replicas),
            CASE(ends_early),
            CASE(repeats),
            CASE(prefix_caching),
            CASE(preemption_storm),
            CASE(interrupted),
            CASE(littles_law),
            CASE(waits_as_theory_says),
            CASE(pipeline_stages_may_be_refused),
            CASE(foreign_knobs_are_refused),
        };
        assert_non_null(sched_registry[i]->help);
        assert_int_equal(sched_registry[i]->version, SCHED_VERSION);
        assert_ptr_equal(sched_find(sched_registry[i]->name), sched_registry[i]);
        failed += cmocka_run_group_tests_name(sched_registry[i]->name, tests, NULL, NULL);
    }
    return failed;
}
