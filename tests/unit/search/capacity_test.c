#include "search/capacity.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "search/capacity_result.h"
#include "support/support.h"
#include "text/json.h"

/* A system whose capacity is known: limit requests/s for seed 0, 1 % more for each further seed. */
struct known {
    double limit;
    int probes;
    double late; /* delay of the last quarter at any rate */
    double deaf,
        least; /* the client is late above that rate (0 = never); probes take no lower one */
    double alone, alone_bad;
};

static enum st run_known(void *self, double rate, uint64_t seed, struct probe_result *out,
                         struct err *e)
{
    (void)e;
    struct known *k = self;
    double capacity = k->limit * (1 + 0.01 * (double)seed);
    k->probes++;
    *out = (struct probe_result){.requests = 100, .energy_j = (double)NAN};
    out->client_delay_p99_s = 0.02;
    out->unhealthy = k->deaf > 0 && rate > k->deaf;
    out->good = rate <= capacity ? 1 : 0.5;
    out->alone = k->alone;
    out->alone_bad = k->alone_bad;
    out->requests_per_s = rate < capacity ? rate : capacity;
    out->early_delay_s = 0.1;
    out->late_delay_s = k->late;
    return ST_OK;
}

static const struct probe_ops known_ops = {
    .name = "known", .help = "", .version = PROBE_VERSION, .run = run_known};
static const struct probe_ops flooded_ops = {
    .name = "known", .help = "", .version = PROBE_VERSION, .run = run_known, .may_flood = true};

static double known_least(void *self, uint64_t seed)
{
    (void)seed;
    return ((struct known *)self)->least;
}
static const struct probe_ops slow_ops = {.name = "known",
                                          .help = "",
                                          .version = PROBE_VERSION,
                                          .run = run_known,
                                          .least_rate = known_least};

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
        struct rate_probe probe = {i % 2 ? &known_ops : &flooded_ops, &k};
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

/* Of 100 requests at least 99 must be good. */
static void a_search_ends_where_requests_alone_are_too_slow(void **state)
{
    struct test *t = *state;
    static const struct {
        double alone, bad;
        int probes; /* 11: down to 1/1024 of the first rate */
    } rows[] = {{3, 3, 1}, {2, 2, 11}, {50, 26, 1}, {50, 25, 11}, {100, 0, 11}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct known k = {.limit = 1e-9, .alone = rows[i].alone, .alone_bad = rows[i].bad};
        struct rate_probe probe = {&known_ops, &k};
        struct capacity_params p = params();
        struct capacity_seed s;
        p.start_rate = 8;
        assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), t);
        assert_int_equal(k.probes, rows[i].probes);
        assert_near(s.low, 0, 0);
        assert_int_equal(s.end, CAPACITY_BROKEN);
    }
    struct known some = {
        .limit = 10, .alone = 3, .alone_bad = 3}; /* on the way up it says nothing */
    struct rate_probe probe = {&known_ops, &some};
    struct capacity_params p = params();
    struct capacity_seed s;
    p.start_rate = 8;
    assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), t);
    assert_near(s.low, 10, 0.1);
}

static void a_search_begins_where_it_is_told(void **state)
{
    struct test *t = *state;
    struct known k = {.limit = 3};
    struct rate_probe probe = {&flooded_ops, &k};
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
    struct rate_probe probe = {&known_ops, &k};
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
    assert_string_equal(r.notes[0], "The objective holds at no rate: at 0.000977 requests/s, the "
                                    "lowest that was tried, 50.0 % of requests meet it.");
}

static void a_workload_without_a_queue_is_rejected(void **state)
{
    struct test *t = *state;
    struct known k = {.limit = 1e9};
    struct rate_probe probe = {&known_ops, &k};
    struct capacity_params p = params();
    struct capacity_seed s;
    assert_err(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), ST_REJECTED, t,
               "the objective still holds at 1024 requests/s, 1024 times where the search began: "
               "this workload ends before a queue forms\n"
               "hint: ask for more requests (workload.num_requests=) or a tighter slo=");
}

/* A start that was expected to be near, and is not: what 60 requests allow says little of what 240
 * do. */
static void a_start_that_is_far_off_is_left(void **state)
{
    struct test *t = *state;
    struct rate_probe probe;
    struct capacity_params p = params();
    struct capacity_seed s;
    p.step = LONG_RUN_BRACKET;
    for (int up = 0; up < 2; up++) {
        struct known k = {.limit = up ? 5 : 0.1};
        probe = (struct rate_probe){&known_ops, &k};
        p.start_rate = up ? 0.05 : 5;
        assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), t);
        assert_true(s.low <= k.limit && s.high >= k.limit);
        assert_true(s.high <= s.low * (1 + p.tolerance));
    }
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

static void a_queue_that_grows_is_told(void **state)
{
    struct test *t = *state;
    struct capacity_params p = params();
    for (int grows = 0; grows < 2; grows++) {
        struct known k = {.limit = 3, .late = grows ? 0.6 : 0.15};
        struct rate_probe probe = {&flooded_ops, &k};
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
    struct rate_probe probe = {&flooded_ops, &k};
    struct capacity_params p = params();
    struct capacity_seed s, back;
    struct buf one = {0}, two = {0};
    struct node *n;
    assert_ok(capacity_bisect(t->a, &p, &probe, 4, &s, &t->e), t);
    json_write(&one, fields_node(t->a, &capacity_seed_fields, &s), 2, true);
    assert_ok(json_parse(t->a, "x", (struct sv){one.p, one.n}, NULL, &n, &t->e), t);
    assert_ok(fields_read(t->a, &capacity_seed_fields, n, &back, &t->e), t);
    json_write(&two, fields_node(t->a, &capacity_seed_fields, &back), 2, true);
    assert_string_equal(buf_str(&one), buf_str(&two));
    assert_int_equal(back.n, s.n);
    assert_true(isnan(back.probes[0].r.energy_j));
    buf_free(&one);
    buf_free(&two);
}

/* Latencies count from the plan: where the client was late and the objective held all the same, it
 * holds. Where it did not, nothing is known. */
static void a_late_client_does_not_undo_what_holds(void **state)
{
    struct test *t = *state;
    struct capacity_params p = params();
    struct known k = {.limit = 20, .deaf = 1e-9}; /* late at any rate */
    struct rate_probe probe = {&known_ops, &k};
    struct capacity_seed s;
    struct capacity c;
    p.start_rate = 1;
    assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), t);
    assert_true(s.low > 19.8 && s.low <= 20 && s.high > 20);
    assert_int_equal(s.end, CAPACITY_CLIENT); /* what failed above may be the client's */
    capacity_sum(&p, &s, 1, &c);
    assert_near(c.rate, s.low, 0);
    const struct probe_result good = {.good = 1, .unhealthy = 1},
                              bad = {.good = 0.5, .unhealthy = 1}, lost = {.good = 0.5};
    assert_true(capacity_holds(&p.slo, &good) && !capacity_undecided(&p.slo, &good));
    assert_true(!capacity_holds(&p.slo, &bad) && capacity_undecided(&p.slo, &bad));
    assert_true(!capacity_holds(&p.slo, &lost) && !capacity_undecided(&p.slo, &lost));
    /* the time between tokens does not see that all were sent late */
    p.slo.limit_s[SLO_DELAY] = (double)INFINITY;
    p.slo.limit_s[SLO_TPOT] = 0.05;
    assert_true(!capacity_holds(&p.slo, &good) && capacity_undecided(&p.slo, &good));
    p.slo.limit_s[SLO_TTFT] = 1;
    assert_true(capacity_holds(&p.slo, &good));
}

/* Whether the client gives up above or below what the system can do decides what may be said. */
static void a_late_client_bounds_the_search_and_decides_nothing(void **state)
{
    struct test *t = *state;
    struct capacity_params p = params();
    struct known below = {.limit = 20, .deaf = 15}, above = {.limit = 20, .deaf = 25};
    struct rate_probe probe = {&known_ops, &below};
    struct capacity_seed s[2];
    struct capacity c;
    assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s[0], &t->e), t);
    assert_int_equal(s[0].end, CAPACITY_CLIENT);
    assert_true(s[0].low <= 20 && s[0].high > 20 && s[0].high <= s[0].low * 1.01);
    probe.self = &above; /* 32 is late, then 24 fails by itself */
    assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s[1], &t->e), t);
    assert_int_equal(s[1].end, CAPACITY_BROKEN);
    assert_true(s[1].low <= 20 && s[1].high > 20);
    capacity_sum(&p, &s[1], 1, &c);
    assert_int_equal(c.end, CAPACITY_BROKEN);
    capacity_sum(&p, s, 2, &c);
    assert_int_equal(c.end, CAPACITY_CLIENT);
    struct capacity_result r = {.params = p, .seeds = s, .n_seeds = 2, .sum = c};
    capacity_notes(t->a, &r, NULL, 0);
    assert_string_equal(
        r.notes[0],
        "Inconclusive: at 20.12 requests/s the objective is not met, and the client did not keep "
        "its schedule (p99 of its delay 20.0 ms), so what failed there may be the client. The "
        "capacity is at least the rate given. A core of its own for the client may help.");
}

/* A probe at a low rate has fewer requests than one at a high rate: the one that decides counts. */
static void the_runs_that_decided_are_named(void **state)
{
    struct test *t = *state;
    struct capacity_probe probes[] = {{.rate = 1, .holds = true, .r.requests = 50},
                                      {.rate = 16, .holds = false, .r.requests = 480},
                                      {.rate = 15.5, .holds = true, .r.requests = 465}};
    struct capacity_seed s[2] = {{.low = 15.5, .high = 16, .probes = probes, .n = 3},
                                 {.low = 0, .high = 1, .probes = probes, .n = 1}};
    struct capacity_result r = {.seeds = s, .n_seeds = 1};
    struct capacity_runs runs = capacity_runs(&r);
    assert_true(runs.least == 465 && runs.most == 465);
    r.n_seeds = 2;
    runs = capacity_runs(&r);
    assert_true(runs.least == 50 && runs.most == 465);
    assert_string_equal(capacity_sure(t->a, 2, 9, 11), "95 % interval 9 to 11");
    assert_string_equal(capacity_sure(t->a, 1, 15.5, 16), "one seed: held at 15.5, not at 16");
    assert_string_equal(capacity_sure(t->a, 1, 0, 1), "one seed: not at 1");
}

/* Capacities of 200 and 240: mean 220, standard error 20. Five of the same spread say enough. */
static void the_user_is_told_why_two_seeds_give_a_wide_interval(void **state)
{
    struct test *t = *state;
    struct capacity_params p = params();
    struct capacity_probe one = {.rate = 200, .holds = true};
    struct capacity_seed s[5];
    for (int i = 0; i < 5; i++)
        s[i] = (struct capacity_seed){.low = i % 2 ? 240 : 200,
                                      .high = i % 2 ? 240 : 200,
                                      .end = CAPACITY_BROKEN,
                                      .probes = &one,
                                      .n = 1};
    struct capacity_result r = {.params = p, .seeds = s, .n_seeds = 2};
    capacity_sum(&p, s, 2, &r.sum);
    assert_true(fabs(r.sum.high - (220 + 12.7062 * 20)) < 1e-9 && r.sum.low == 0);
    capacity_notes(t->a, &r, NULL, 0);
    assert_int_equal(r.n_notes, 1);
    assert_string_equal(r.notes[0],
                        "Of 2 seeds the spread is hardly known, so the interval is wide: 12.7 "
                        "standard errors to either side, 2.8 with capacity.seeds=5.");
    r.n_seeds = 5;
    capacity_sum(&p, s, 5, &r.sum);
    capacity_notes(t->a, &r, NULL, 0);
    assert_int_equal(r.n_notes, 0);
    s[1].low = s[1].high = 201; /* two that agree */
    r.n_seeds = 2;
    capacity_sum(&p, s, 2, &r.sum);
    capacity_notes(t->a, &r, NULL, 0);
    assert_int_equal(r.n_notes, 0);
}

static void a_client_that_is_always_late_ends_the_search(void **state)
{
    struct test *t = *state;
    struct capacity_params p = params();
    struct known k = {.limit = 1e-3, .deaf = 1e-9}; /* and the objective is not met */
    struct rate_probe probe = {&known_ops, &k};
    struct capacity_seed s;
    p.start_rate = 100; /* 100, 50, 25, 12.5, 6.25 */
    assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), t);
    assert_int_equal(s.n, 5);
    assert_int_equal(s.end, CAPACITY_CLIENT);
    assert_near(s.low, 0, 0);
    assert_near(s.high, 6.25, 0);
    p.start_rate = 5; /* at which no client is late because of the rate */
    assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), t);
    assert_int_equal(s.n, 1);
    struct capacity_result r = {.params = p, .seeds = &s, .n_seeds = 1};
    capacity_sum(&p, &s, 1, &r.sum);
    capacity_notes(t->a, &r, NULL, 0);
    assert_true(r.n_notes > 0 && strstr(r.notes[0], "Nothing is known of the system."));
}

static void no_more_is_asked_than_allowed(void **state)
{
    struct test *t = *state;
    struct capacity_params p = params();
    struct known k = {.limit = 20};
    struct rate_probe probe = {&known_ops, &k};
    struct capacity_seed s;
    p.max_rate = 6;
    assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), t);
    assert_int_equal(s.n, 4); /* 1, 2, 4, 6 */
    assert_near(s.probes[3].rate, 6, 0);
    assert_int_equal(s.end, CAPACITY_CAPPED);
    assert_near(s.low, 6, 0);
    assert_near(s.high, 6, 0);
    p.start_rate = 100; /* and not at the beginning either */
    assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), t);
    assert_int_equal(s.n, 1);
    assert_near(s.probes[0].rate, 6, 0);
    k.limit = 5;
    assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), t);
    assert_int_equal(s.end, CAPACITY_BROKEN);
    assert_true(s.low <= 5 && s.high > 5);
}

static void rates_stay_above_what_a_probe_has_time_for(void **state)
{
    struct test *t = *state;
    struct capacity_params p = params();
    struct known k = {.limit = 1e-9, .least = 0.2};
    struct rate_probe probe = {&slow_ops, &k};
    struct capacity_seed s;
    assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), t);
    assert_near(s.low, 0, 0);
    assert_near(s.probes[s.n - 1].rate, 0.25, 0);
    k.least = 2;
    assert_err(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), ST_USAGE, t,
               "at 1 requests/s, where the search begins, the arrivals alone take longer than the "
               "time limit of a probe\n"
               "hint: capacity.start_rate=2 or more, fewer requests (workload.num_requests=), or a "
               "longer capacity.probe_timeout_s=");
}

/* Capacities that fall towards 10 as queues make them: the excess halves when the run is four times
 * as long. The interval of each length is narrow around its own. */
static void the_long_run_is_inside_its_interval(void **state)
{
    (void)state;
    struct capacity last = {.rate = 12, .low = 11.9, .high = 12.1};
    double excess = 2;
    assert_true(last.low > 10);
    for (int i = 1; i <= 8; i++) {
        excess /= 2;
        const struct capacity c = {
            .rate = 10 + excess, .low = 9.95 + excess, .high = 10.05 + excess};
        const struct capacity_long_run l = capacity_long_run(&last, &c, 100 * pow(4, i), 0.01);
        assert_true(l.low < 10 && 10 < l.high);
        assert_near(l.rate, c.rate, 0);
        assert_near(l.high, c.high, 0);
        assert_near(l.requests, 100 * pow(4, i), 0);
        assert_int_equal(l.settled, excess < 0.21); /* two tolerances */
        last = c;
    }
    const struct capacity more = {.rate = 11, .low = 10.9, .high = 11.1}; /* by chance */
    assert_near(capacity_long_run(&last, &more, 1, 0.01).low, 10.9, 0);
    assert_false(capacity_long_run(&last, &more, 1, 0.01).settled);
}

/* The bracket goes by the step: near a known rate few probes are needed. */
static void a_bracket_may_be_narrow(void **state)
{
    struct test *t = *state;
    struct known k = {.limit = 9};
    struct rate_probe probe = {&known_ops, &k};
    struct capacity_params p = params();
    struct capacity_seed s;
    p.start_rate = 10;
    p.step = 1.25;
    assert_ok(capacity_bisect(t->a, &p, &probe, 0, &s, &t->e), t);
    assert_near(s.probes[0].rate, 10, 0);
    assert_near(s.probes[1].rate, 8, 0);
    assert_true(s.low <= 9 && 9 < s.high && k.probes <= 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_long_run_is_inside_its_interval),
        TEST(a_bracket_may_be_narrow),
        TEST(a_late_client_does_not_undo_what_holds),
        TEST(the_runs_that_decided_are_named),
        TEST(a_late_client_bounds_the_search_and_decides_nothing),
        TEST(the_user_is_told_why_two_seeds_give_a_wide_interval),
        TEST(a_client_that_is_always_late_ends_the_search),
        TEST(no_more_is_asked_than_allowed),
        TEST(rates_stay_above_what_a_probe_has_time_for),
        TEST(any_capacity_is_bracketed_within_the_tolerance),
        TEST(a_search_ends_where_requests_alone_are_too_slow),
        TEST(a_search_begins_where_it_is_told),
        TEST(no_rate_at_all_is_capacity_0),
        TEST(a_workload_without_a_queue_is_rejected),
        TEST(a_start_that_is_far_off_is_left),
        TEST(the_interval_holds_bracket_and_draws),
        TEST(a_queue_that_grows_is_told),
        TEST(a_seed_survives_its_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
