#include "engine/sampler.h"

#include <math.h>

#include "support/support.h"

enum { N = 8, DRAWS = 20000 };
/* Shares at temperature 1: 0.4, 0.3, 0.15, 0.1, 0.05, at ids 3, 1, 6, 0, 4; the others have none.
 */
static float logits[N];
static const double shares[N] = {0.1, 0.3, 0, 0.4, 0.05, 0, 0.15, 0};

static void prepare(void)
{
    for (int i = 0; i < N; i++)
        logits[i] = shares[i] > 0 ? (float)log(shares[i]) : -INFINITY;
    logits[7] = NAN;
}

/* How often each token is drawn at DRAWS positions. */
static void draw_all(const struct sampling *s, int64_t *counts)
{
    struct sampler x = {0};
    prepare();
    memset(counts, 0, N * sizeof *counts);
    for (int64_t i = 0; i < DRAWS; i++)
        counts[sampler_draw(&x, s, i, N, logits)]++;
    sampler_free(&x);
}

/* Six standard deviations: once in 10^9 seeds. */
static void assert_shares(const struct sampling *s, const double want[N])
{
    int64_t counts[N];
    double sum = 0;
    draw_all(s, counts);
    for (int i = 0; i < N; i++)
        sum += want[i];
    for (int i = 0; i < N; i++) {
        const double p = want[i] / sum;
        assert_near((double)counts[i], DRAWS * p, 6 * sqrt(DRAWS * p * (1 - p)));
    }
}

static void tokens_come_as_often_as_they_are_likely(void **state)
{
    (void)state;
    assert_shares(&(struct sampling){.temperature = 1, .top_p = 1, .seed = 1}, shares);
    double half[N], twice[N];
    for (int i = 0; i < N; i++) {
        half[i] = shares[i] * shares[i];
        twice[i] = sqrt(shares[i]);
    }
    assert_shares(&(struct sampling){.temperature = 0.5, .top_p = 1, .seed = 2}, half);
    assert_shares(&(struct sampling){.temperature = 2, .top_p = 1, .seed = 3}, twice);
}

static void candidates_are_left_out(void **state)
{
    (void)state;
    static const struct {
        struct sampling s;
        double want[N];
    } rows[] = {
        {{.temperature = 1, .top_p = 1, .top_k = 2}, {0, 0.3, 0, 0.4}},
        {{.temperature = 1, .top_p = 1, .top_k = 100}, {0.1, 0.3, 0, 0.4, 0.05, 0, 0.15}},
        {{.temperature = 1, .top_p = 0.6}, {0, 0.3, 0, 0.4}}, /* 0.4 is not enough */
        {{.temperature = 1, .top_p = 0.86}, {0.1, 0.3, 0, 0.4, 0, 0, 0.15}},
        {{.temperature = 1, .top_p = 0}, {0, 0, 0, 1}},
        {{.temperature = 1, .top_p = 1, .min_p = 0.3}, {0, 0.3, 0, 0.4, 0, 0, 0.15}},
        {{.temperature = 1, .top_p = 1, .min_p = 1}, {0, 0, 0, 1}},
        /* of the three that top_k keeps, two have 0.8 of 0.85 together */
        {{.temperature = 1, .top_p = 0.8, .top_k = 3}, {0, 0.3, 0, 0.4}},
        {{.temperature = 1e-6, .top_p = 1}, {0, 0, 0, 1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_shares(&rows[i].s, rows[i].want);
}

static void a_seed_and_a_position_draw_one_token(void **state)
{
    (void)state;
    struct sampler x = {0}, y = {0};
    const struct sampling s = {.temperature = 1, .top_p = 1, .seed = 5};
    struct sampling other = s;
    int differ = 0;
    prepare();
    other.seed = 6;
    for (int64_t i = 0; i < 200; i++) {
        const int32_t id = sampler_draw(&x, &s, 199 - i, N, logits);
        assert_int_equal(sampler_draw(&y, &s, 199 - i, N, logits), id); /* whatever came before */
        differ += sampler_draw(&y, &other, 199 - i, N, logits) != id;
    }
    assert_true(differ > 50);
    sampler_free(&x);
    sampler_free(&y);
}

/* Against sorting: what is drawn is always among the first k, and of the smallest enough set. */
static void large_vocabularies_are_cut_as_by_sorting(void **state)
{
    struct test *t = *state;
    enum { V = 5000 };
    float *x = arena_array(t->a, float, V);
    for (int i = 0; i < V; i++)
        x[i] = (float)((i * 7919 + 13) % 1000) / 100; /* many are equal */
    struct sampler sampler = {0};
    const struct sampling s = {.temperature = 3, .top_p = 0.5, .top_k = 37, .seed = 9};
    for (int64_t position = 0; position < 300; position++) {
        const int32_t id = sampler_draw(&sampler, &s, position, V, x);
        int before = 0;
        for (int i = 0; i < V; i++)
            before += x[i] > x[id] || (x[i] >= x[id] && i < id);
        assert_true(before < 37);
        assert_true(before <= 19); /* weights differ by little: half of them is half of 37 */
    }
    sampler_free(&sampler);
}

static void nothing_to_draw_is_token_0(void **state)
{
    (void)state;
    struct sampler x = {0};
    const struct sampling s = {.temperature = 1, .top_p = 0.5, .top_k = 3};
    const float none[3] = {NAN, NAN, NAN}, sure[3] = {0, INFINITY, 0};
    assert_int_equal(sampler_draw(&x, &s, 0, 3, none), 0);
    assert_int_equal(sampler_draw(&x, &s, 0, 3, sure), 1);
    sampler_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tokens_come_as_often_as_they_are_likely),
        TEST(candidates_are_left_out),
        TEST(a_seed_and_a_position_draw_one_token),
        TEST(large_vocabularies_are_cut_as_by_sorting),
        TEST(nothing_to_draw_is_token_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
