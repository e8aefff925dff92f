#include "workload/stages.h"

#include <math.h>

#include "support/support.h"
#include "workload/workload.h"

static void stages_are_read(void **state)
{
    struct test *t = *state;
    const char *const items[] = {"10:0-4", " 60 : 4 ", "0.5:4 - 1"};
    struct rate_stage *s;
    assert_ok(stages_parse(t->a, items, 3, &s, &t->e), t);
    assert_near(s[0].s, 10, 0);
    assert_near(s[0].from, 0, 0);
    assert_near(s[0].to, 4, 0);
    assert_near(s[1].from, 4, 0);
    assert_near(s[1].to, 4, 0);
    assert_near(s[2].s, 0.5, 0);
    assert_near(s[2].to, 1, 0);
}

static void what_is_no_stage_is_named(void **state)
{
    struct test *t = *state;
    static const char *const bad[] = {"10", "0:4", "10:", "10:-4", "10:0", "10:4-", "-1:4", "10:a"};
    struct rate_stage *s;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err_clear(&t->e);
        assert_err(stages_parse(t->a, &bad[i], 1, &s, &t->e), ST_USAGE, t,
                   arena_printf(t->a,
                                "workload.arrival.stages: '%s' is no stage\nhint: SECONDS:RATE or "
                                "SECONDS:RATE-RATE, as in [10:0-4,60:4]",
                                bad[i]));
    }
    err_clear(&t->e);
    assert_err(stages_parse(t->a, (const char *const[]){"9:4-0"}, 1, &s, &t->e), ST_USAGE, t,
               "workload.arrival.stages: the last rate goes on for ever and must be above 0");
}

/* The expected number up to the time of S is S. */
static void the_inverse_is_one(void **state)
{
    (void)state;
    const struct rate_stage s[] = {{10, 0, 4}, {5, 4, 4}, {4, 4, 0}, {2, 1, 3}};
    struct stages_at at = {0};
    const struct {
        double S, t;
    } points[] = {{0, 0},   {5, 5},   {20, 10}, {30, 12.5}, {40, 15},
                  {46, 17}, {48, 19}, {52, 21}, {55, 22},   {58, 23}};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        assert_near(stages_time_s(s, 4, &at, points[i].S), points[i].t, 1e-9);
}

/* Twice the rate, twice the arrivals; and they never go back. */
static void arrivals_follow_the_rate(void **state)
{
    struct test *t = *state;
    const struct rate_stage s[] = {{100, 10, 10}, {100, 20, 20}, {100, 20, 60}};
    static const int kinds[] = {ARRIVAL_POISSON, ARRIVAL_GAMMA, ARRIVAL_FIXED_INTERVAL};
    for (size_t k = 0; k < 3; k++) {
        struct workload_params p = {.arrival_kind = kinds[k],
                                    .num_requests = 8000,
                                    .burstiness = 2,
                                    .lengths_kind = LENGTHS_FIXED,
                                    .prefill_tokens = 1,
                                    .decode_tokens = 1,
                                    .stages = s,
                                    .n_stages = 3};
        struct workload w;
        int64_t counts[3] = {0};
        assert_ok(workload_make(t->a, &p, &w, &t->e), t);
        for (size_t i = 0; i < w.n; i++) {
            int stage = (int)(w.requests[i].arrival_s / 100);
            if (stage < 3)
                counts[stage]++;
            assert_true(i == 0 || w.requests[i].arrival_ns >= w.requests[i - 1].arrival_ns);
        }
        assert_near((double)counts[0], 1000, 4 * sqrt(1000));
        assert_near((double)counts[1], 2000, 4 * sqrt(2000));
        assert_near((double)counts[2], 4000, 4 * sqrt(4000));
    }
}

/* One stage is no stage. */
static void a_constant_stage_is_a_rate(void **state)
{
    struct test *t = *state;
    const struct rate_stage s[] = {{7, 3, 3}};
    struct workload_params p = {.arrival_kind = ARRIVAL_POISSON,
                                .num_requests = 500,
                                .rate = 3,
                                .lengths_kind = LENGTHS_FIXED,
                                .prefill_tokens = 1,
                                .decode_tokens = 1};
    struct workload plain, staged;
    assert_ok(workload_make(t->a, &p, &plain, &t->e), t);
    p.stages = s;
    p.n_stages = 1;
    assert_ok(workload_make(t->a, &p, &staged, &t->e), t);
    for (size_t i = 0; i < 500; i++)
        assert_near((double)staged.requests[i].arrival_ns, (double)plain.requests[i].arrival_ns,
                    1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stages_are_read),          TEST(what_is_no_stage_is_named),  TEST(the_inverse_is_one),
        TEST(arrivals_follow_the_rate), TEST(a_constant_stage_is_a_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
