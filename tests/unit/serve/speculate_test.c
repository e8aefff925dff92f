/* Speculative decoding against its closed form and by hand. */
#include "serve/speculate.h"

#include <math.h>

#include "base/clock.h"
#include "support/serve_harness.h"
#include "support/support.h"

/* ---- the acceptance model ---- */

/* P(m) = a^(m-1) (1 - a), the rest at k + 1; mean (1 - a^(k+1)) / (1 - a). */
static void draws_follow_the_closed_form(void **state)
{
    (void)state;
    enum { N = 200000, K = 4 };
    for (double a = 0.2; a < 0.95; a += 0.3) {
        struct serve_params p = {.draft_tokens = K, .acceptance = a, .seed = 9};
        struct speculation s = speculation_begin(&p, 0);
        int64_t count[K + 2] = {0}, sum = 0;
        for (int i = 0; i < N; i++) {
            int64_t m = speculation_draw(&s, 100);
            assert_in_range(m, 1, K + 1);
            count[m]++;
            sum += m;
        }
        double mean = (1 - pow(a, K + 1)) / (1 - a), second = 0;
        for (int m = 1; m <= K + 1; m++) {
            double chance = pow(a, m - 1) * (m <= K ? 1 - a : 1);
            assert_near((double)count[m], N * chance, 4 * sqrt(N * chance * (1 - chance)));
            second += chance * m * m;
        }
        assert_near((double)sum / N, mean, 4 * sqrt((second - mean * mean) / N));
    }
}

static void a_sequence_ends_where_it_ends(void **state)
{
    (void)state;
    struct serve_params p = {.draft_tokens = 4, .acceptance = 1};
    struct speculation s = speculation_begin(&p, 0);
    assert_int_equal(speculation_draw(&s, 100), 5);
    assert_int_equal(speculation_draw(&s, 3), 3);
    p.acceptance = 0;
    s = speculation_begin(&p, 0);
    assert_int_equal(speculation_draw(&s, 100), 1);
}

/* ---- through the loop ---- */

static struct harness one_request(const struct workload_request *w, int64_t k, double a)
{
    struct harness h = harness_default();
    h.requests = w;
    h.n_requests = 1;
    h.p.token_budget = 64;
    h.p.draft_tokens = k;
    h.p.acceptance = a;
    return h;
}

/* 9 tokens after the first, 4 a step: 4 + 4 + 1; tokens of a step come together. */
static void accepted_drafts_save_batches(void **state)
{
    (void)state;
    const struct workload_request w = {.num_prefill_tokens = 8, .num_decode_tokens = 10};
    struct harness h = one_request(&w, 3, 1);
    harness_run(&h);
    harness_check(&h);
    EXPECT_BATCHES(&h, "0: 0:8@0! | 0", "1: +0 | 1", "2: | 1", "3: | 1");
    const int64_t s[] = {1, 2, 2, 2, 2, 3, 3, 3, 3, 4};
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(h.tokens.p[i].token_time_ns, s[i] * NS_PER_S);
    assert_int_equal(h.n.spec_steps, 3);
    assert_int_equal(h.n.spec_draft_tokens, 9);
    assert_int_equal(h.n.spec_accepted_tokens, 6);
    /* 8 tokens in 2 blocks of 4; the step from 16 tokens on has room for 4 more */
    assert_int_equal(h.batches.p[0].kv_blocks, 2);
    assert_int_equal(h.batches.p[1].kv_blocks, 3);
    assert_int_equal(h.batches.p[3].kv_blocks, 5);
    assert_int_equal(h.n.kv_blocks_peak, 5);
    harness_free(&h);
}

/* All refused: the batches of plain decoding. */
static void refused_drafts_save_nothing(void **state)
{
    (void)state;
    const struct workload_request w = {.num_prefill_tokens = 8, .num_decode_tokens = 10};
    struct harness h = one_request(&w, 3, 0), plain = one_request(&w, 0, 0);
    harness_run(&h);
    harness_run(&plain);
    harness_check(&h);
    assert_int_equal(h.n.iterations, 10);
    assert_int_equal(plain.n.iterations, 10);
    assert_int_equal(harness_row(&h, 0)->completion_ns, harness_row(&plain, 0)->completion_ns);
    assert_int_equal(h.n.spec_accepted_tokens, 0);
    assert_int_equal(plain.n.spec_steps, 0);
    harness_free(&h);
    harness_free(&plain);
}

/* Blocks of refused tokens are free again: with room for the drafts and not a block more two
 * sequences run to the end. */
static void tight_blocks_suffice(void **state)
{
    (void)state;
    const struct workload_request w[] = {
        {.request_id = 0, .num_prefill_tokens = 8, .num_decode_tokens = 13},
        {.request_id = 1, .num_prefill_tokens = 8, .num_decode_tokens = 13},
    };
    struct harness h = one_request(w, 4, 0.5);
    h.n_requests = 2;
    h.p.num_blocks = 12; /* 20 tokens and 4 drafts each */
    harness_run(&h);
    harness_check(&h);
    assert_int_equal(h.n.preemptions, 0);
    assert_true(h.n.kv_blocks_peak <= 12);
    harness_free(&h);
}

/* ---- refusals ---- */

static void refused(struct serve_params p, const char *text)
{
    struct err e = {0};
    assert_int_equal(serve_check_params(&p, &e), ST_USAGE);
    assert_cause(&e, text);
}

static void what_is_not_modelled_is_refused(void **state)
{
    (void)state;
    struct harness h = harness_default();
    struct serve_params p = h.p;
    p.acceptance = 0.5;
    refused(p, "speculation.acceptance: without speculation.draft_tokens nothing is drafted");
    p.draft_tokens = 2;
    refused(p, "scheduler.token_budget: 8 is below scheduler.batch_cap 8 times 1 + "
               "speculation.draft_tokens 2");
    p.token_budget = 24;
    p.acceptance = 1.5;
    refused(p, "speculation.acceptance: 1.5 is not a probability");
    p.acceptance = 0.5;
    p.prefix_caching = true;
    refused(p, "speculation.draft_tokens: not modelled together with scheduler.prefix_caching");
    p.prefix_caching = false;
    p.policy = "orca";
    p.token_budget = 0;
    refused(p, "speculation.draft_tokens: policy orca has no speculation");
}

static void who_computes_does_not_draft(void **state)
{
    (void)state;
    const struct workload_request w = {.num_prefill_tokens = 8, .num_decode_tokens = 10};
    struct harness h = one_request(&w, 3, 1);
    h.fake.computes = true;
    harness_run(&h);
    assert_cause(&h.e,
                 "speculation.draft_tokens: executor fake drafts nothing, only predictions do");
    harness_free(&h);
    h = one_request(&w, 3, 1);
    h.fake.max_in_flight = 2;
    harness_run(&h);
    assert_cause(&h.e, "speculation.draft_tokens: executor fake wants batches before the tokens of "
                       "the one before are known");
    harness_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(draws_follow_the_closed_form), TEST(a_sequence_ends_where_it_ends),
        TEST(accepted_drafts_save_batches), TEST(refused_drafts_save_nothing),
        TEST(tight_blocks_suffice),         TEST(what_is_not_modelled_is_refused),
        TEST(who_computes_does_not_draft),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
