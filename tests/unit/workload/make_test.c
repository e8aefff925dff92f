#include "workload/workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/fake_tokenizer.h"
#include "support/support.h"

struct fixture {
    struct tmp tmp;
    struct arena *a;
    struct err e;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->tmp = tmp_new();
    f->a = arena_new();
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    arena_free(&f->a);
    tmp_free(&f->tmp);
    free(f);
    return 0;
}

static struct workload_params params(void)
{
    return (struct workload_params){.seed = 42,
                                    .num_requests = 100,
                                    .arrival_kind = ARRIVAL_STATIC,
                                    .rate = 4,
                                    .burstiness = 1,
                                    .inter_arrival_ns = 1000,
                                    .lengths_kind = LENGTHS_FIXED,
                                    .prefill_tokens = 100,
                                    .decode_tokens = 10,
                                    .min_tokens = 1024,
                                    .max_tokens = 4096,
                                    .zipf_theta = 0.6,
                                    .prefill_decode_ratio = 20};
}

static struct workload make(struct fixture *f, const struct workload_params *p)
{
    struct workload w;
    assert_ok(workload_make(f->a, p, &w, &f->e), &f->e);
    return w;
}

/* ---- arrivals ---------------------------------------------------------------------------- */

static void static_arrivals_are_all_at_0(void **state)
{
    struct workload_params p = params();
    struct workload w = make(*state, &p);
    assert_int_equal(w.n, 100);
    for (size_t i = 0; i < w.n; i++) {
        assert_int_equal(w.requests[i].request_id, i);
        assert_int_equal(w.requests[i].arrival_ns, 0);
    }
}

static void fixed_intervals_begin_at_0(void **state)
{
    struct workload_params p = params();
    p.arrival_kind = ARRIVAL_FIXED_INTERVAL;
    struct workload w = make(*state, &p);
    for (size_t i = 0; i < w.n; i++)
        assert_int_equal(w.requests[i].arrival_ns, i * 1000);
    assert_true(w.requests[1].arrival_s == 1e-6);
}

static void a_fixed_interval_may_be_given_as_a_rate(void **state)
{
    struct workload_params p = params();
    p.arrival_kind = ARRIVAL_FIXED_INTERVAL;
    p.inter_arrival_ns = 0;
    p.rate = 3;
    struct workload w = make(*state, &p);
    for (size_t i = 0; i < w.n; i++)
        assert_int_equal(w.requests[i].arrival_ns, llround((double)i * 1e9 / 3));
}

/* Mean and coefficient of variation of n gaps, the first one from 0. */
static void gaps(const struct workload *w, double *mean, double *cv)
{
    double sum = 0, squares = 0, before = 0;
    for (size_t i = 0; i < w->n; i++) {
        double gap = (double)w->requests[i].arrival_ns - before;
        before = (double)w->requests[i].arrival_ns;
        sum += gap;
        squares += gap * gap;
    }
    double n = (double)w->n;
    *mean = sum / n;
    *cv = sqrt(squares / n - *mean * *mean) / *mean;
}

/* Gamma gaps of shape b have mean 1/rate and CV 1/sqrt(b). With n = 200,000 the standard error of
 * the mean is CV/sqrt(n), that of the CV about CV * sqrt((kurtosis + 2)/(4 n)) at most; four of
 * each are allowed. */
static void random_gaps_follow_theory(void **state)
{
    static const double shapes[] = {1, 0.25, 0.5, 4, 25};
    const double n = 200000;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct workload_params p = params();
        p.num_requests = (int64_t)n;
        p.arrival_kind = i == 0 ? ARRIVAL_POISSON : ARRIVAL_GAMMA;
        p.burstiness = shapes[i];
        struct workload w = make(*state, &p);
        double mean, cv, want_cv = 1 / sqrt(shapes[i]);
        gaps(&w, &mean, &cv);
        assert_near(mean, 2.5e8, 2.5e8 * 4 * want_cv / sqrt(n));
        assert_near(cv, want_cv, 4 * want_cv * sqrt((6 / shapes[i] + 2) / (4 * n)));
        assert_true(w.requests[0].arrival_ns > 0); /* one gap after 0 */
    }
}

/* Half of exponential gaps are below ln 2 of the mean; none are cut at three means. */
static void poisson_gaps_are_exponential(void **state)
{
    struct workload_params p = params();
    p.num_requests = 100000;
    p.arrival_kind = ARRIVAL_POISSON;
    struct workload w = make(*state, &p);
    int64_t before = 0;
    int below = 0, beyond = 0;
    for (size_t i = 0; i < w.n; i++) {
        int64_t gap = w.requests[i].arrival_ns - before;
        before = w.requests[i].arrival_ns;
        below += (double)gap < 2.5e8 * log(2);
        beyond += (double)gap > 7.5e8;
    }
    assert_near(below / 1e5, 0.5, 4 * sqrt(0.25 / 1e5));
    assert_near(beyond / 1e5, exp(-3), 4 * sqrt(exp(-3) / 1e5));
}

static void equal_seeds_give_equal_workloads(void **state)
{
    struct workload_params p = params();
    p.arrival_kind = ARRIVAL_GAMMA;
    p.lengths_kind = LENGTHS_UNIFORM;
    struct workload one = make(*state, &p), two = make(*state, &p);
    assert_memory_equal(one.requests, two.requests, one.n * sizeof *one.requests);
    p.seed++;
    two = make(*state, &p);
    assert_memory_not_equal(one.requests, two.requests, one.n * sizeof *one.requests);
    p.seed--;
    p.arrival_kind = ARRIVAL_POISSON; /* other arrivals, same lengths */
    two = make(*state, &p);
    for (size_t i = 0; i < one.n; i++)
        assert_int_equal(one.requests[i].num_prefill_tokens, two.requests[i].num_prefill_tokens);
}

/* ---- lengths ----------------------------------------------------------------------------- */

static void uniform_lengths_split_a_total(void **state)
{
    struct workload_params p = params();
    p.lengths_kind = LENGTHS_UNIFORM;
    p.num_requests = 50000;
    struct workload w = make(*state, &p);
    double sum = 0;
    for (size_t i = 0; i < w.n; i++) {
        int64_t prefill = w.requests[i].num_prefill_tokens,
                decode = w.requests[i].num_decode_tokens;
        assert_true(prefill + decode >= 1023 && prefill + decode <= 4096);
        /* decode = ceil(total / 21) and prefill = floor(total - decode) */
        assert_true(decode >= (prefill + decode + 20) / 21 &&
                    decode <= (prefill + decode + 21) / 21);
        sum += (double)(prefill + decode);
    }
    /* mean of floor of U(1024, 4096): 2559.5; deviation 887 */
    assert_near(sum / (double)w.n, 2559.5, 4 * 887 / sqrt((double)w.n));
    p.min_tokens = p.max_tokens = 1; /* clipped to at least one token each */
    w = make(*state, &p);
    assert_int_equal(w.requests[0].num_prefill_tokens, 1);
    assert_int_equal(w.requests[0].num_decode_tokens, 1);
    p.min_tokens = p.max_tokens = 2100;
    w = make(*state, &p);
    assert_int_equal(w.requests[0].num_prefill_tokens, 2000);
    assert_int_equal(w.requests[0].num_decode_tokens, 100);
}

/* Of m = 100 lengths, rank k has probability k^-0.6 / sum(k^-0.6). The method is exact for ranks 1
 * and 2 and an approximation beyond. */
static void zipf_lengths_prefer_small_ones(void **state)
{
    struct workload_params p = params();
    p.lengths_kind = LENGTHS_ZIPF;
    p.num_requests = 100000;
    p.min_tokens = 1001;
    p.max_tokens = 1100;
    p.prefill_decode_ratio = 1e9; /* decode = 1: prefill = total - 1 */
    struct workload w = make(*state, &p);
    double zeta = 0;
    for (int k = 1; k <= 100; k++)
        zeta += pow(k, -0.6);
    int count[100] = {0};
    for (size_t i = 0; i < w.n; i++) {
        int64_t rank = w.requests[i].num_prefill_tokens - 1000;
        assert_true(rank >= 0 && rank < 100);
        count[rank]++;
    }
    for (int k = 1; k <= 2; k++) {
        double q = pow(k, -0.6) / zeta;
        assert_near(count[k - 1] / 1e5, q, 4 * sqrt(q / 1e5));
    }
    double tail = 0, want = 0;
    for (int k = 51; k <= 100; k++) {
        tail += count[k - 1] / 1e5;
        want += pow(k, -0.6) / zeta;
    }
    assert_near(tail, want, 0.02);
}

/* ---- traces ------------------------------------------------------------------------------ */

static char *put(struct fixture *f, const char *name, const char *text)
{
    return arena_str(f->a, tmp_file(&f->tmp, name, text, strlen(text)));
}

static void takes_arrivals_and_lengths_from_traces(void **state)
{
    struct fixture *f = *state;
    struct workload_params p = params();
    p.num_requests = 0;
    p.arrival_kind = ARRIVAL_TRACE;
    p.lengths_kind = LENGTHS_TRACE;
    p.arrival_trace = put(f, "a.csv", "arrived_at\n0.0\n0.052\n4.314579\n");
    p.lengths_trace = put(f, "l.csv", "num_decode_tokens,num_prefill_tokens\n1,2\n3,4.0\n");
    struct workload w = make(f, &p);
    assert_int_equal(w.n, 2); /* the shorter one */
    assert_int_equal(w.requests[1].arrival_ns, 52000000);
    assert_int_equal(w.requests[1].num_prefill_tokens, 4);
    assert_int_equal(w.requests[1].num_decode_tokens, 3);
    p.arrival_trace = put(f, "a.csv", "arrival_time_ns\n7\n9\n");
    w = make(f, &p);
    assert_int_equal(w.requests[1].arrival_ns, 9);
    p.num_requests = 3;
    assert_int_equal(workload_make(f->a, &p, &w, &f->e), ST_USAGE);
    assert_cause(&f->e, arena_printf(f->a, "workload.num_requests is 3, but %s/a.csv has 2 rows",
                                     f->tmp.dir));
    assert_string_equal(err_hint_text(&f->e), "set workload.num_requests=2 or less");
}

static void prompts_are_used_in_order_and_again(void **state)
{
    const struct prompt prompts[] = {{"a", "x"}, {"b", "y"}};
    struct workload_params p = params();
    p.num_requests = 5;
    p.prompts = prompts;
    p.n_prompts = 2;
    struct workload w = make(*state, &p);
    const char *const want[] = {"a", "b", "a", "b", "a"};
    for (int i = 0; i < 5; i++)
        assert_string_equal(w.requests[i].prompt_id, want[i]);
    p.num_requests = 0;
    assert_int_equal(make(*state, &p).n, 2);
}

static void prompts_give_their_tokens(void **state)
{
    struct fixture *f = *state;
    const struct prompt prompts[] = {{"a", "one"}, {"b", "one two three"}, {"c", "!"}};
    struct workload_params p = params();
    p.num_requests = 3;
    p.lengths_kind = LENGTHS_TOKENIZER;
    p.prompts = prompts;
    p.n_prompts = 2;
    struct workload w = make(f, &p);
    const int64_t estimated[] = {1, 4, 1}; /* of 3, 13 and 3 bytes */
    for (int i = 0; i < 3; i++)
        assert_int_equal(w.requests[i].num_prefill_tokens, estimated[i]);
    p.tokenizer = fake_tokenizer();
    w = make(f, &p);
    const int64_t want[] = {2, 4, 2}; /* words and the beginning of the sequence */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(w.requests[i].num_prefill_tokens, want[i]);
        assert_int_equal(w.requests[i].num_decode_tokens, 10);
    }
    p.n_prompts = 3;
    assert_int_equal(workload_make(f->a, &p, &w, &f->e), ST_INPUT);
    assert_cause(&f->e, "the tokenizer refuses");
    assert_string_equal(err_cause(&f->e, 0), "cannot tokenize prompt 'c'");
}

/* ---- refusals ---------------------------------------------------------------------------- */

#define PARAM(member, v)                                \
    static void set_##member(struct workload_params *p) \
    {                                                   \
        p->v;                                           \
    }
PARAM(none, num_requests = 0)
PARAM(many, num_requests = 100000001)
PARAM(negative, num_requests = -1)
PARAM(tokenizer, lengths_kind = LENGTHS_TOKENIZER)
PARAM(arrival_trace, arrival_kind = ARRIVAL_TRACE)
PARAM(lengths_trace, lengths_kind = LENGTHS_TRACE)
PARAM(prefill, prefill_tokens = 0)
PARAM(decode, decode_tokens = INT64_MAX)

static void set_rate(struct workload_params *p)
{
    p->arrival_kind = ARRIVAL_POISSON;
    p->rate = 0;
}
static void set_slow(struct workload_params *p)
{
    p->arrival_kind = ARRIVAL_POISSON;
    p->rate = 1e-9;
}
static void set_slower(struct workload_params *p)
{
    p->arrival_kind = ARRIVAL_POISSON;
    p->rate = 1e-300;
}
static void set_burstiness(struct workload_params *p)
{
    p->arrival_kind = ARRIVAL_GAMMA;
    p->burstiness = -1;
}
static void set_gap(struct workload_params *p)
{
    p->arrival_kind = ARRIVAL_FIXED_INTERVAL;
    p->inter_arrival_ns = -5;
}
static void set_wide_gap(struct workload_params *p)
{
    p->arrival_kind = ARRIVAL_FIXED_INTERVAL;
    p->inter_arrival_ns = INT64_MAX / 2;
}
static void set_min(struct workload_params *p)
{
    p->lengths_kind = LENGTHS_UNIFORM;
    p->min_tokens = 0;
}
static void set_max(struct workload_params *p)
{
    p->lengths_kind = LENGTHS_ZIPF;
    p->max_tokens = 1000;
}
static void set_ratio(struct workload_params *p)
{
    p->lengths_kind = LENGTHS_UNIFORM;
    p->prefill_decode_ratio = -0.5;
}
static void set_theta(struct workload_params *p)
{
    p->lengths_kind = LENGTHS_ZIPF;
    p->zipf_theta = 1;
}
static void set_span(struct workload_params *p)
{
    p->lengths_kind = LENGTHS_ZIPF;
    p->max_tokens = INT32_MAX;
}

static const struct refusal {
    void (*set)(struct workload_params *p);
    const char *error;
} refusals[] = {
    {set_none, "workload.num_requests is not set, and there is neither a trace nor a file of "
               "prompts to count"},
    {set_many, "workload.num_requests must be 0 to 100000000, got 100000001"},
    {set_negative, "workload.num_requests must be 0 to 100000000, got -1"},
    {set_tokenizer, "workload.lengths.kind=tokenizer needs workload.prompts"},
    {set_arrival_trace, "workload.arrival.kind=trace needs workload.arrival.trace"},
    {set_lengths_trace, "workload.lengths.kind=trace needs workload.lengths.trace"},
    {set_prefill, "workload.lengths.prefill_tokens must be 1 to 2147483647, got 0"},
    {set_decode, "workload.lengths.decode_tokens must be 1 to 2147483647, got 9223372036854775807"},
    {set_rate, "workload.arrival.rate must be above 0, not 0"},
    {set_slow, "the arrival of request 12 does not fit 64-bit nanoseconds (292 years)"},
    {set_slower, "the arrival of request 0 does not fit 64-bit nanoseconds (292 years)"},
    {set_burstiness, "workload.arrival.burstiness must be above 0, not -1"},
    {set_gap, "workload.arrival.inter_arrival_ns must not be negative, got -5"},
    {set_wide_gap, "the arrival of request 3 does not fit 64-bit nanoseconds (292 years)"},
    {set_min, "workload.lengths.min_tokens must be 1 to 2147483647, got 0"},
    {set_max, "workload.lengths.max_tokens must be 1024 to 2147483647, got 1000"},
    {set_ratio, "workload.lengths.prefill_decode_ratio must not be negative, got -0.5"},
    {set_theta, "workload.lengths.zipf_theta must be above 0 and below 1, got 1"},
    {set_span, "workload.lengths: zipf over 2147482624 lengths; at most 10000000 are supported"},
};

static void refuses_wrong_combinations(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct workload_params p = params();
        struct workload w;
        refusals[i].set(&p);
        assert_int_equal(workload_make(f->a, &p, &w, &f->e), ST_USAGE);
        assert_cause(&f->e, refusals[i].error);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- moments, prefixes, durations --------------------------------------------------------- */

static void assert_moments(const struct workload *w, bool decode, double mean, double stddev)
{
    double sum = 0, squares = 0, n = (double)w->n;
    for (size_t i = 0; i < w->n; i++) {
        const struct workload_request *r = &w->requests[i];
        double x = (double)(decode ? r->num_decode_tokens : r->num_prefill_tokens);
        assert_true(x >= 1);
        sum += x;
        squares += x * x;
    }
    double found = sqrt(squares / n - sum / n * sum / n);
    assert_near(sum / n, mean, 5 * stddev / sqrt(n)); /* five standard errors: the seed is fixed */
    assert_near(found, stddev, 0.05 * stddev);
}

static void lengths_may_have_a_mean_and_a_deviation(void **state)
{
    static const int kinds[] = {LENGTHS_NORMAL, LENGTHS_LOGNORMAL};
    struct workload_params p = params();
    p.num_requests = 20000;
    p.prefill_tokens = 1000;
    p.prefill_stddev = 200;
    p.decode_tokens = 100;
    p.decode_stddev = 20;
    for (size_t i = 0; i < 2; i++) {
        p.lengths_kind = kinds[i];
        struct workload w = make(*state, &p);
        assert_moments(&w, false, 1000, 200);
        assert_moments(&w, true, 100, 20);
    }
    p.prefill_stddev = p.decode_stddev = 0;
    struct workload w = make(*state, &p);
    assert_int_equal(w.requests[0].num_prefill_tokens, 1000);
    assert_int_equal(w.requests[7].num_decode_tokens, 100);
    struct fixture *f = *state;
    p.decode_stddev = -1;
    assert_int_equal(workload_make(f->a, &p, &w, &f->e), ST_USAGE);
    assert_cause(&f->e, "workload.lengths.decode_stddev must not be negative, got -1");
}

static void requests_of_a_group_begin_alike(void **state)
{
    enum { GROUPS = 4 };
    struct workload_params p = params();
    size_t members[GROUPS] = {0};
    p.num_requests = 400;
    p.prefix_groups = GROUPS;
    p.prefix_tokens = 64;
    struct workload w = make(*state, &p);
    int32_t a[164], b[164];
    struct arena *scratch = arena_new();
    struct err e = {0};
    for (size_t i = 0; i < w.n; i++) {
        const struct workload_request *r = &w.requests[i];
        assert_int_equal(r->num_prefill_tokens, 164); /* 100 of its own */
        assert_int_equal(r->hash_tokens, 64);
        assert_in_range(r->hash_ids[0], 0, GROUPS - 1);
        members[r->hash_ids[0]]++;
        for (size_t k = 0; k < i; k++)
            assert_true(r->hash_ids[1] != w.requests[k].hash_ids[1]);
        const struct workload_request *first = &w.requests[0];
        assert_ok(workload_prompt_ids(scratch, first, NULL, NULL, 1000, 1, a, &e), &e);
        assert_ok(workload_prompt_ids(scratch, r, NULL, NULL, 1000, 1, b, &e), &e);
        bool alike = memcmp(a, b, 64 * sizeof *a) == 0;
        assert_int_equal(alike, r->hash_ids[0] == first->hash_ids[0]);
        assert_true(i == 0 || memcmp(a + 64, b + 64, 100 * sizeof *a) != 0);
    }
    for (size_t g = 0; g < GROUPS; g++)
        assert_in_range(members[g], 60, 140); /* 100 +- 4.6 standard deviations */
    arena_free(&scratch);
    p.prefix_tokens = 0; /* and lengths are what they are without */
    struct workload plain = make(*state, &p);
    assert_null(plain.requests[0].hash_ids);
    assert_int_equal(plain.requests[0].num_prefill_tokens, 100);
}

static void a_workload_may_be_as_long_as_a_time(void **state)
{
    struct fixture *f = *state;
    struct workload_params p = params();
    struct workload all, w;
    p.arrival_kind = ARRIVAL_POISSON;
    all = make(*state, &p); /* 100 at 4/s */
    p.num_requests = 0;
    p.duration_s = 10;
    w = make(*state, &p);
    assert_true(w.n > 10 && w.n < 100);
    assert_true(w.requests[w.n - 1].arrival_s < 10);
    assert_true(all.requests[w.n].arrival_s >= 10);
    for (size_t i = 0; i < w.n; i++)
        assert_int_equal(w.requests[i].arrival_ns, all.requests[i].arrival_ns);
    p.num_requests = 5; /* at most */
    assert_int_equal(make(*state, &p).n, 5);
    p.duration_s = 1e-9;
    assert_int_equal(workload_make(f->a, &p, &w, &f->e), ST_USAGE);
    assert_cause(&f->e, "no request arrives within workload.duration_s=1e-09");
    p.arrival_kind = ARRIVAL_STATIC;
    err_clear(&f->e);
    assert_int_equal(workload_make(f->a, &p, &w, &f->e), ST_USAGE);
    assert_cause(&f->e, "workload.duration_s: static arrivals are all at 0: they have no duration");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(static_arrivals_are_all_at_0),
        CASE(fixed_intervals_begin_at_0),
        CASE(a_fixed_interval_may_be_given_as_a_rate),
        CASE(random_gaps_follow_theory),
        CASE(poisson_gaps_are_exponential),
        CASE(equal_seeds_give_equal_workloads),
        CASE(uniform_lengths_split_a_total),
        CASE(zipf_lengths_prefer_small_ones),
        CASE(takes_arrivals_and_lengths_from_traces),
        CASE(prompts_are_used_in_order_and_again),
        CASE(prompts_give_their_tokens),
        CASE(refuses_wrong_combinations),
        CASE(lengths_may_have_a_mean_and_a_deviation),
        CASE(requests_of_a_group_begin_alike),
        CASE(a_workload_may_be_as_long_as_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
