/* Laws that every policy obeys, over random workloads: order of admission, tokens and blocks that
 * are neither lost nor made, no idle server, Lindley's recursion, waits that grow with the rate. */
#include <math.h>

#include "base/clock.h"
#include "base/rng.h"
#include "support/random_case.h"
#include "support/support.h"

enum { SEEDS = 30 };

static const struct sched_ops *policy_of(void **state)
{
    return *(const struct sched_ops *const *)*state;
}

/* What a run has besides its policy. */
struct variant {
    const char *name;
    uint32_t knob; /* needed */
    void (*set)(struct harness *h);
};

static void plain(struct harness *h)
{
    (void)h;
}

static void cached(struct harness *h)
{
    h->p.prefix_caching = true;
}

static void disaggregated(struct harness *h)
{
    h->fake.computes = false;
    h->p.replicas = 3;
    h->p.prefill_replicas = 1;
    h->p.kv_bandwidth_gb_s = 1000e-9;
    h->p.kv_latency_s = 0.25;
    h->p.kv_bytes_per_token = 40;
}

static void cached_and_disaggregated(struct harness *h)
{
    cached(h);
    disaggregated(h);
}

static void disaggregated_in_lanes(struct harness *h)
{
    disaggregated(h);
    h->fake.lanes = h->fake.max_in_flight = 2;
}

static void speculative(struct harness *h)
{
    h->fake.computes = false;
    h->p.draft_tokens = 1 + (int64_t)h->n_requests % 6;
    h->p.acceptance = 0.7;
    h->p.num_blocks += 7; /* drafts behind the longest sequence */
    if (h->p.token_budget)
        h->p.token_budget *= 7;
}

static void speculative_and_disaggregated(struct harness *h)
{
    speculative(h);
    disaggregated(h);
    h->fake.lanes = h->fake.max_in_flight = 2;
}

static const struct variant variants[] = {
    {"plain", 0, plain},
    {"prefix caching", KNOB_PREFIX_CACHING, cached},
    {"disaggregated", KNOB_DISAGGREGATION, disaggregated},
    {"disaggregated, two lanes", KNOB_DISAGGREGATION, disaggregated_in_lanes},
    {"speculative", KNOB_SPECULATION, speculative},
    {"speculative and disaggregated", KNOB_SPECULATION | KNOB_DISAGGREGATION,
     speculative_and_disaggregated},
    {"both", KNOB_PREFIX_CACHING | KNOB_DISAGGREGATION, cached_and_disaggregated},
};

/* Every variant that the policy models, over random workloads. */
static void each_run(void **state, void (*check)(struct harness *h))
{
    struct workload_request w[RANDOM_REQUESTS];
    const struct sched_ops *sched = policy_of(state);
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        if ((sched->knobs & variants[v].knob) != variants[v].knob)
            continue;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            struct harness h = random_case(sched, 1000 + seed, w);
            for (size_t i = 0; i < h.n_requests; i++)
                w[i].request_id += HARNESS_ALIKE;
            h.fake.computes = seed % 2;
            variants[v].set(&h);
            harness_run(&h);
            harness_check(&h);
            check(&h);
            harness_free(&h);
        }
    }
}

/* ---- no starvation --------------------------------------------------------------------------- */

/* All policies promise to admit in order of arrival: nobody is overtaken, so nobody waits for more
 * than those before it. */
static void first_come(struct harness *h)
{
    int64_t last_ns = 0;
    for (size_t i = 0; i < h->n_requests; i++) {
        const struct run_request *r = harness_row(h, h->requests[i].request_id);
        if (r->status == RUN_REJECTED)
            continue;
        assert_true(r->scheduled_ns >= last_ns);
        last_ns = r->scheduled_ns;
    }
}

static void first_come_first_admitted(void **state)
{
    each_run(state, first_come);
}

/* ---- no idle server -------------------------------------------------------------------------- */

/* Between two batches time passes only when nobody is there. */
static void never_idle(struct harness *h)
{
    int64_t free_ns = 0;
    if (h->p.replicas > 1)
        return;
    for (size_t i = 0; i < h->batches.n; i++) {
        const struct run_batch *b = &h->batches.p[i];
        for (size_t k = 0; b->start_ns > free_ns && k < h->rows.n; k++) {
            const struct run_request *r = &h->rows.p[k];
            bool there = r->status == RUN_OK && r->arrival_ns < b->start_ns - 1 &&
                         r->completion_ns > free_ns + 1;
            assert_false(there);
        }
        free_ns = b->start_ns + b->duration_ns;
    }
}

static void no_server_idles_while_requests_wait(void **state)
{
    each_run(state, never_idle);
}

/* ---- conservation ---------------------------------------------------------------------------- */

/* Every row that emits gives one token: decode rows, and chunks that complete a prefill ("!"). */
static void tokens_balance(struct harness *h)
{
    int64_t emitted = 0, prompts = 0, computed = 0;
    for (size_t i = 0; i < h->lines.n; i++)
        for (const char *s = h->lines.p[i]; *s; s++)
            emitted += *s == '!';
    for (size_t i = 0; i < h->batches.n; i++) {
        emitted += h->batches.p[i].num_decode_tokens;
        computed += h->batches.p[i].num_prefill_tokens;
    }
    for (size_t i = 0; i < h->rows.n; i++)
        if (h->rows.p[i].status == RUN_OK)
            prompts += h->rows.p[i].num_prefill_tokens;
    assert_int_equal(emitted + h->n.spec_accepted_tokens, h->n.tokens);
    if (h->n.preemptions == 0)
        assert_int_equal(computed + h->n.prefix_hit_tokens, prompts);
    else
        assert_true(computed + h->n.prefix_hit_tokens > prompts);
}

static void tokens_are_conserved(void **state)
{
    each_run(state, tokens_balance);
}

/* Blocks in use are at most what the requests in the system may hold; when the last one is gone all
 * are free again, which the loop asserts. */
static void blocks_balance(struct harness *h)
{
    int64_t most = 0;
    for (size_t i = 0; i < h->batches.n; i++) {
        const struct run_batch *b = &h->batches.p[i];
        int64_t held = 0;
        for (size_t k = 0; k < h->rows.n; k++) {
            const struct run_request *r = &h->rows.p[k];
            if (r->status != RUN_OK || r->scheduled_ns > b->start_ns + 1 ||
                r->completion_ns <= b->start_ns)
                continue;
            int64_t kv = r->num_prefill_tokens + r->num_decode_tokens - 1 + h->p.draft_tokens;
            int64_t tokens = h->p.max_model_len > kv ? h->p.max_model_len : kv;
            held += (tokens + h->p.block_size - 1) / h->p.block_size;
        }
        assert_in_range(b->kv_blocks, 1, h->p.num_blocks);
        assert_true(b->kv_blocks <= held);
        most = b->kv_blocks > most ? b->kv_blocks : most;
    }
    assert_true(most <= h->n.kv_blocks_peak);
    if (h->p.replicas == 1)
        assert_int_equal(most, h->n.kv_blocks_peak);
}

static void blocks_are_conserved(void **state)
{
    each_run(state, blocks_balance);
}

/* ---- queueing theory ------------------------------------------------------------------------- */

enum { QUEUE = 400 };

/* One request at a time, one batch each: the k-th waits w(k) = max(0, w(k-1) + service(k-1) -
 * gap(k)), to the nanosecond. */
static void waits_follow_lindley(void **state)
{
    static struct workload_request w[QUEUE];
    const struct sched_ops *sched = policy_of(state);
    struct rng rng = rng_stream(3, sched->name);
    struct harness h = harness_default();
    double at_s = 0;
    for (int64_t i = 0; i < QUEUE; i++) {
        at_s += rng_exponential(&rng) * 3;
        w[i] = (struct workload_request){.request_id = i,
                                         .arrival_s = at_s,
                                         .num_prefill_tokens = 1 + (int64_t)rng_below(&rng, 30),
                                         .num_decode_tokens = 1};
    }
    random_case_knobs(&h.p, sched, 64);
    random_case_blocks(&h.p, sched, 4, 100);
    h.p.batch_cap = 1;
    h.requests = w;
    h.n_requests = QUEUE;
    h.fake.batch_s = 0.5;
    h.fake.token_s = 0.125;
    harness_run(&h);
    assert_int_equal(h.st, ST_OK);
    double free_s = 0, waited_s = 0;
    for (size_t i = 0; i < QUEUE; i++) {
        double start_s = w[i].arrival_s > free_s ? w[i].arrival_s : free_s;
        free_s = start_s + 0.5 + 0.125 * (double)w[i].num_prefill_tokens;
        const struct run_request *r = harness_row(&h, (int64_t)i);
        assert_near((double)r->scheduled_ns, (double)ns_from_s(start_s), 2);
        assert_near((double)r->completion_ns, (double)ns_from_s(free_s), 2);
        waited_s += start_s - w[i].arrival_s;
    }
    assert_true(waited_s > QUEUE);
    harness_free(&h);
}

/* The same requests closer together: nobody's wait gets shorter on the whole. Lengths and the order
 * are the same, so only the rate speaks. */
static double mean_latency_s(const struct sched_ops *sched, double gap_s)
{
    static struct workload_request w[QUEUE];
    struct rng rng = rng_stream(5, "rate");
    struct harness h = harness_default();
    double at_s = 0, sum_s = 0;
    for (int64_t i = 0; i < QUEUE; i++) {
        at_s += rng_exponential(&rng) * gap_s;
        w[i] = (struct workload_request){.request_id = i,
                                         .arrival_s = at_s,
                                         .num_prefill_tokens = 1 + (int64_t)rng_below(&rng, 30),
                                         .num_decode_tokens = 1 + (int64_t)rng_below(&rng, 20)};
    }
    random_case_knobs(&h.p, sched, 64);
    random_case_blocks(&h.p, sched, 4, 60);
    h.p.max_model_len = sched->traits & SCHED_PLANNED_BATCH ? 50 : 0;
    h.requests = w;
    h.n_requests = QUEUE;
    h.fake.batch_s = 0.5;
    h.fake.token_s = 0.125;
    harness_run(&h);
    harness_check(&h);
    for (size_t i = 0; i < QUEUE; i++)
        sum_s += (double)(h.rows.p[i].completion_ns - h.rows.p[i].arrival_ns) / 1e9;
    harness_free(&h);
    return sum_s / QUEUE;
}

static void latency_grows_with_the_rate(void **state)
{
    double before = INFINITY;
    for (double gap_s = 0.5; gap_s < 100; gap_s *= 2) {
        double mean = mean_latency_s(policy_of(state), gap_s);
        assert_true(mean < before);
        before = mean;
    }
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
            CASE(first_come_first_admitted), CASE(no_server_idles_while_requests_wait),
            CASE(tokens_are_conserved),      CASE(blocks_are_conserved),
            CASE(waits_follow_lindley),      CASE(latency_grows_with_the_rate),
        };
        failed += cmocka_run_group_tests_name(sched_registry[i]->name, tests, NULL, NULL);
    }
    return failed;
}
