#include "search/capacity.h"

#include <math.h>

#include "base/rng.h"
#include "search/capacity_result.h"
#include "support/support.h"
#include "text/json.h"

/* A system whose capacity is known: limit requests/s for seed 0, 1 % more for each further seed. */
struct known {
    double limit;
    int probes;
    double late; /* delay of the last quarter at any rate */
};

static enum st run_known(void *self, double rate, uint64_t seed, struct probe_result *out,
                         struct err *e)
{
    (void)e;
    struct known *k = self;
    double capacity = k->limit * (1 + 0.01 * (double)seed);
    k->probes++;
    *out = (struct probe_result){.requests = 100, .energy_j = (double)NAN};
    out->good = rate <= capacity ? 1 : 0.5;
    out->requests_per_s = rate < capacity ? rate : capacity;
    out->early_delay_s = 0.1;
    out->late_delay_s = k->late;
    return ST_OK;
}

static const struct probe_ops known_ops = {
    .name = "known", .help = "", .version = PROBE_VERSION, .run = run_known};
static const struct probe_ops flooded_ops = {
    .name = "known", .help = "", .version = PROBE_VERSION, .run = run_known, .may_flood = true};

static struct capacity_params params(void)
{
    struct capacity_params p = {.tolerance = 0.01, .seeds = 1, .slo = {.fraction = 0.99}};
    for (int m = 0; m < SLO_METRICS; m++)
        p.slo.limit_s[m] = (double)INFINITY;
    p.slo.limit_s[SLO_DELAY] = 5;
    return p;
}

static void any_capacity_is_bracketed_within_the_tolerance(void **state)
{
    struct test *t = *state;
    struct rng r = rng_stream(1, "limits");
    for (int i = 0; i < 200; i++) {
        struct known k = {.limit = exp(6 * rng_unit(&r) - 3)};
        struct probe probe = {i % 2 ? &known_ops : &flooded_ops, &k};
        struct capacity_params p = params();
        struct capacity_seed s;
        assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), t);
        assert_true(s.low <= k.limit && k.limit < s.high);
        assert_true(s.high <= s.low * 1.01);
        assert_true(k.probes < 20);
        for (size_t n = 0; n < s.n; n++)
            assert_int_equal(s.probes[n].holds, s.probes[n].rate <= k.limit);
    }
}

static void a_search_begins_where_it_is_told(void **state)
{
    struct test *t = *state;
    struct known k = {.limit = 3};
    struct probe probe = {&flooded_ops, &k};
    struct capacity_params p = params();
    struct capacity_seed s;
    assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), t);
    assert_near(s.flood_per_s, 3, 0);
    assert_near(s.probes[0].rate, 3, 0);
    p.start_rate = 7;
    assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), t);
    assert_true(isnan(s.flood_per_s));
    assert_near(s.probes[0].rate, 7, 0);
}

static void no_rate_at_all_is_capacity_0(void **state)
{
    struct test *t = *state;
    struct known k = {.limit = 1e-9};
    struct probe probe = {&known_ops, &k};
    struct capacity_params p = params();
    struct capacity_seed s[2];
    struct capacity c;
    assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s[0], &t->e), t);
    assert_near(s[0].low, 0, 0);
    assert_near(s[0].high, 1.0 / 1024, 0);
    k.limit = 2;
    assert_ok(capacity_bisect(t->a, &p, &probe, 1, &s[1], &t->e), t);
    capacity_sum(&p, s, 2, &c);
    assert_near(c.rate, 0, 0);
    struct capacity_result r = {.params = p, .seeds = s, .n_seeds = 1, .probe = "known"};
    capacity_sum(&p, s, 1, &r.sum);
    capacity_notes(t->a, &r, NULL, 0);
    assert_string_equal(r.notes[0], "The objective holds at no rate: at 0.000977 requests/s, where "
                                    "requests hardly meet, 50.0 % of them meet it.");
}

static void a_workload_without_a_queue_is_rejected(void **state)
{
    struct test *t = *state;
    struct known k = {.limit = 1e9};
    struct probe probe = {&known_ops, &k};
    struct capacity_params p = params();
    struct capacity_seed s;
    assert_err(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), ST_REJECTED, t,
               "the objective still holds at 1024 requests/s, 1024 times where the search began: "
               "this workload ends before a queue forms\n"
               "hint: ask for more requests (workload.num_requests=) or a tighter slo=");
}

static void the_interval_holds_bracket_and_draws(void **state)
{
    (void)state;
    struct capacity_params p = params();
    struct capacity_seed s[3] = {
        {.low = 9, .high = 9.1}, {.low = 10, .high = 10.1}, {.low = 11, .high = 11.1}};
    struct capacity c;
    capacity_sum(&p, s, 3, &c);
    /* s = 1, n = 3, t = 4.3027 */
    assert_near(c.rate, 10, 1e-12);
    assert_near(c.low, 10 - 4.3027 / sqrt(3), 1e-4);
    assert_near(c.high, 10.1 + 4.3027 / sqrt(3), 1e-4);
    capacity_sum(&p, s, 1, &c);
    assert_near(c.low, 9, 0);
    assert_near(c.high, 9.1, 0);
}

static void students_t_is_right(void **state)
{
    (void)state;
    assert_near(capacity_student_95(1), 12.7062, 1e-4);
    assert_near(capacity_student_95(30), 2.0423, 1e-4);
    assert_near(capacity_student_95(40), 2.0211, 2e-3);
    assert_near(capacity_student_95(120), 1.9799, 2e-4);
    assert_near(capacity_student_95(1000000), 1.95997, 1e-5);
}

static void a_queue_that_grows_is_told(void **state)
{
    struct test *t = *state;
    struct capacity_params p = params();
    for (int grows = 0; grows < 2; grows++) {
        struct known k = {.limit = 3, .late = grows ? 0.6 : 0.15};
        struct probe probe = {&flooded_ops, &k};
        struct capacity_seed s;
        struct capacity c;
        assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), t);
        capacity_sum(&p, &s, 1, &c);
        assert_int_equal(c.growing, grows);
    }
}

static void a_seed_survives_its_tree(void **state)
{
    struct test *t = *state;
    struct known k = {.limit = 3};
    struct probe probe = {&flooded_ops, &k};
    struct capacity_params p = params();
    struct capacity_seed s, back;
    struct buf one = {0}, two = {0};
    struct node *n;
    assert_ok(capacity_bisect(t->a, &p, &probe, 4, &s, &t->e), t);
    json_write(&one, capacity_seed_node(t->a, &s), 2, true);
    assert_ok(json_parse(t->a, "x", (struct sv){one.p, one.n}, NULL, &n, &t->e), t);
    assert_ok(capacity_seed_read(t->a, n, &back, &t->e), t);
    json_write(&two, capacity_seed_node(t->a, &back), 2, true);
    assert_string_equal(buf_str(&one), buf_str(&two));
    assert_int_equal(back.n, s.n);
    assert_true(isnan(back.probes[0].r.energy_j));
    buf_free(&one);
    buf_free(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(any_capacity_is_bracketed_within_the_tolerance),
        TEST(a_search_begins_where_it_is_told),
        TEST(no_rate_at_all_is_capacity_0),
        TEST(a_workload_without_a_queue_is_rejected),
        TEST(the_interval_holds_bracket_and_draws),
        TEST(students_t_is_right),
        TEST(a_queue_that_grows_is_told),
        TEST(a_seed_survives_its_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
