#include <math.h>

#include "base/rng.h"
#include "support/golden_bundle.h"

static struct bundle_factors all(double f)
{
    struct bundle_factors x = {
        .decode = 1, .prompt = 1, .network = {1, 1, 1}, .host = 1, .host_prefill = 1};
    for (int k = 0; k < OP_KINDS; k++)
        x.op[k] = f;
    return x;
}

static void every_time_is_multiplied(void **state)
{
    struct test *t = *state;
    struct model m;
    const struct bundle *b = golden_bundle(t, &m);
    struct bundle_factors f = all(1.5);
    f.decode = 2;
    f.prompt = 3;
    const struct bundle *p = bundle_perturbed(t->a, b, &f);
    for (int64_t n = 1; n < 2000; n = n * 3 + 1) {
        assert_near_rel(predict_tokens_s(p, n), 1.5 * predict_tokens_s(b, n), 1e-12);
        assert_near_rel(predict_rows_s(p, n), 1.5 * predict_rows_s(b, n), 1e-12);
        assert_near_rel(predict_once_s(p, n), 1.5 * predict_once_s(b, n), 1e-12);
        assert_near_rel(predict_prefill_s(p, n / 2, n), 1.5 * predict_prefill_s(b, n / 2, n), 1e-9);
        assert_near_rel(predict_decode_s(p, n, 30 * n), 1.5 * predict_decode_s(b, n, 30 * n), 1e-9);
        assert_near_rel(bundle_decode_scale(p, n, 0), 2 * bundle_decode_scale(b, n, 0), 1e-12);
        for (int mixed = 0; mixed < 2; mixed++)
            assert_near_rel(bundle_prompt_scale(p, n, mixed), 3 * bundle_prompt_scale(b, n, mixed),
                            1e-12);
        assert_near(bundle_host_s(p, n, true), bundle_host_s(b, n, true), 0);
    }
}

static void factors_of_1_change_nothing(void **state)
{
    struct test *t = *state;
    struct model m;
    const struct bundle *b = golden_bundle(t, &m);
    struct bundle_factors f = all(1);
    const struct bundle *p = bundle_perturbed(t->a, b, &f);
    int64_t before = bundle_extrapolations(b);
    for (int64_t n = 1; n < 5000; n += 7) {
        assert_near(predict_tokens_s(p, n), predict_tokens_s(b, n), 0);
        assert_near(predict_decode_s(p, n, 9 * n), predict_decode_s(b, n, 9 * n), 0);
    }
    assert_true(bundle_extrapolations(p) > 0); /* each counts its own */
    assert_int_equal(bundle_extrapolations(b) - before, bundle_extrapolations(p));
}

static void one_operator_is_one_part(void **state)
{
    struct test *t = *state;
    struct model m;
    const struct bundle *b = golden_bundle(t, &m);
    struct bundle_factors f = all(1);
    f.op[OP_ATTN_DECODE] = 2;
    const struct bundle *p = bundle_perturbed(t->a, b, &f);
    assert_near(predict_tokens_s(p, 40), predict_tokens_s(b, 40), 0);
    assert_near(predict_prefill_s(p, 9, 40), predict_prefill_s(b, 9, 40), 0);
    assert_near_rel(predict_decode_s(p, 4, 400), 2 * predict_decode_s(b, 4, 400), 1e-12);
}

static void uncertainty_is_the_error_of_the_bundle(void **state)
{
    struct test *t = *state;
    struct model m;
    const struct bundle *b = golden_bundle(t, &m);
    struct bundle_uncertainty d;
    bundle_uncertainty(b, &d);
    assert_near_rel(d.op[OP_ATTN_DECODE], bundle_op_error(b, OP_ATTN_DECODE) * sqrt(acos(-1) / 2),
                    1e-9);
    const struct node *classes = node_path(bundle_meta(b), "iteration.decode");
    double sum = 0;
    for (uint32_t i = 0; i < classes->n; i++)
        sum += node_find(classes->items[i], "error")->f /
               sqrt((double)node_find(classes->items[i], "batches")->i);
    assert_near_rel(d.decode, sum / classes->n * sqrt(acos(-1) / 2), 1e-9);
    for (int i = 0; i < NETWORKS; i++)
        assert_near(d.network[i], 0, 0);
    assert_true(d.host > 0 && d.host_prefill > 0);
    assert_near(d.host_cv, 0.4274, 0.0001); /* mean of iteration_host_std / _mean over the rows */
}

/* Of the row of batch size 1: std 0.0028277, mean 0.0041337 ms. */
static void host_time_varies_as_it_was_measured_to(void **state)
{
    enum { N = 40000 };
    struct test *t = *state;
    struct model m;
    const struct bundle *b = golden_bundle(t, &m);
    struct bundle_factors f = all(1);
    struct rng draws = rng_stream(5, "host");
    f.host = 1.25;
    f.host_draws = &draws;
    const struct bundle *p = bundle_perturbed(t->a, b, &f), *q = bundle_perturbed(t->a, b, &f);
    double h = 1.25 * bundle_host_s(b, 1, false), sum = 0, squares = 0;
    for (int i = 0; i < N; i++) {
        double x = bundle_host_s(p, 1, false) / h;
        assert_near(x, bundle_host_s(q, 1, false) / h, 0); /* each draws from the beginning */
        sum += x;
        squares += x * x;
    }
    double cv = 0.0028276503 / 0.0041337302, mean = sum / N;
    assert_near(mean, 1, 4 * cv / sqrt(N));
    assert_near(sqrt(squares / N - mean * mean), cv, 0.05 * cv);
    squares = 0; /* with prefill chunks: std 0.0015164, mean 0.0075598 */
    double prompt = bundle_host_s(b, 1, true);
    for (int i = 0; i < N; i++)
        squares += pow(bundle_host_s(p, 1, true) / prompt - 1, 2);
    assert_near(sqrt(squares / N), 0.0015163672 / 0.0075597778, 0.01);
    f.host_draws = NULL;
    assert_near_rel(bundle_host_s(bundle_perturbed(t->a, b, &f), 1, false), h, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_time_is_multiplied),
        TEST(factors_of_1_change_nothing),
        TEST(one_operator_is_one_part),
        TEST(uncertainty_is_the_error_of_the_bundle),
        TEST(host_time_varies_as_it_was_measured_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
