/* Expected loads against routings that are drawn token by token. */
#include "model/expert_load.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "support/support.h"

enum { MOST = 256 };

/* The k of n experts that a token goes through: the first to ring, each at its rate. */
static void choose(const double *rate, int64_t n, int64_t k, struct rng *r, int64_t *chosen)
{
    double at[MOST];
    for (int64_t e = 0; e < n; e++)
        at[e] = rng_exponential(r) / rate[e];
    for (int64_t i = 0; i < k; i++) {
        int64_t first = 0;
        for (int64_t e = 1; e < n; e++)
            first = at[e] < at[first] ? e : first;
        chosen[i] = first;
        at[first] = INFINITY;
    }
}

static struct expert_pairs drawn(const struct model *m, int64_t ep, double skew, int64_t tokens,
                                 int times)
{
    struct rng r = rng_stream(3, "routing");
    struct expert_pairs mean = {0};
    const int64_t each = m->experts / ep;
    for (int i = 0; i < times; i++) {
        double rate[MOST];
        int64_t count[MOST] = {0}, chosen[MOST], most = -1, hit = 0;
        for (int64_t e = 0; e < m->experts; e++)
            rate[e] = pow((double)(e + 1), -skew);
        for (int64_t e = m->experts - 1; e > 0; e--) { /* which device has which */
            const int64_t j = (int64_t)rng_below(&r, (uint64_t)e + 1);
            const double swap = rate[e];
            rate[e] = rate[j];
            rate[j] = swap;
        }
        for (int64_t t = 0; t < tokens; t++) {
            choose(rate, m->experts, m->experts_per_token, &r, chosen);
            for (int64_t k = 0; k < m->experts_per_token; k++)
                count[chosen[k]]++;
        }
        for (int64_t d = 0; d < ep; d++) {
            int64_t pairs = 0, own = 0;
            for (int64_t e = d * each; e < (d + 1) * each; e++) {
                pairs += count[e];
                own += count[e] > 0;
            }
            hit = pairs > most ? own : hit;
            most = pairs > most ? pairs : most;
        }
        mean.pairs += (double)most / times;
        mean.hit += (double)hit / times;
    }
    return mean;
}

/* Mixtral, Qwen3-30B-A3B, DeepSeek-V3; few devices and many; one token and many. */
static const struct {
    int64_t experts, k, ep;
} shapes[] = {{8, 2, 2}, {8, 2, 8}, {128, 8, 4}, {128, 8, 16}, {256, 8, 32}};
static const int64_t tokens[] = {1, 4, 16, 100, 250};

static void the_busiest_device_is_as_busy_as_in_drawn_routings(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct model m = {.experts = shapes[i].experts, .experts_per_token = shapes[i].k};
        struct expert_load load;
        expert_load_make(&m, shapes[i].ep, 0, &load);
        for (size_t k = 0; k < sizeof tokens / sizeof *tokens; k++) {
            const struct expert_pairs got = expert_load_at(&load, (double)tokens[k]);
            const struct expert_pairs want = drawn(&m, shapes[i].ep, 0, tokens[k],
                                                   tokens[k] > 50  ? 60
                                                   : tokens[k] > 4 ? 600
                                                                   : 4000);
            print_message("%lld experts, %lld, ep %lld, %lld tokens: pairs %.3f (%.3f), hit %.3f "
                          "(%.3f)\n",
                          (long long)m.experts, (long long)m.experts_per_token,
                          (long long)shapes[i].ep, (long long)tokens[k], got.pairs, want.pairs,
                          got.hit, want.hit);
            const double off = tokens[k] < 16 ? 0.07 : 0.05;
            assert_near_rel(got.pairs, want.pairs, off);
            assert_near_rel(got.hit, want.hit, off);
        }
    }
}

static void popular_experts_make_their_device_busier(void **state)
{
    (void)state;
    const struct model m = {.experts = 128, .experts_per_token = 8};
    static const double skews[] = {0.5, 1};
    for (size_t i = 0; i < sizeof skews / sizeof *skews; i++)
        for (int64_t ep = 4; ep <= 16; ep *= 4) {
            struct expert_load load;
            expert_load_make(&m, ep, skews[i], &load);
            for (int64_t t = 4; t <= 256; t *= 8) {
                const struct expert_pairs got = expert_load_at(&load, (double)t);
                const struct expert_pairs want = drawn(&m, ep, skews[i], t, t > 100 ? 100 : 400);
                print_message("skew %g, ep %lld, %lld tokens: pairs %.3f (%.3f), hit %.3f (%.3f)\n",
                              skews[i], (long long)ep, (long long)t, got.pairs, want.pairs, got.hit,
                              want.hit);
                assert_near_rel(got.pairs, want.pairs, 0.06);
                assert_near_rel(got.hit, want.hit, 0.06);
            }
        }
}

static void one_device_has_all(void **state)
{
    (void)state;
    const struct model m = {.experts = 16, .experts_per_token = 4};
    struct expert_load load;
    expert_load_make(&m, 1, 0, &load);
    for (int i = 0; i < 20; i++) {
        const double t = load.tokens[i];
        assert_near_rel(expert_load_at(&load, t).hit, model_experts_hit(&m, t), 0.02);
        assert_near_rel(expert_load_at(&load, t).pairs, 4 * t, 0.02);
    }
    const struct model all = {.experts = 8, .experts_per_token = 8}; /* each token through each */
    expert_load_make(&all, 4, 1, &load);
    assert_near_rel(expert_load_at(&load, 100).pairs, 200, 1e-6);
    assert_near_rel(expert_load_at(&load, 100).hit, 2, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_busiest_device_is_as_busy_as_in_drawn_routings),
        cmocka_unit_test(popular_experts_make_their_device_busier),
        cmocka_unit_test(one_device_has_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
