/* Cases of `vllm bench forward` as loads, and what they tell of a device whose parameters are
 * known: the iteration model itself plays the device that was measured. */
#include "calibrate/forward.h"

#include <math.h>

#include "support/h100.h"
#include "support/support.h"

#define RANK(tokens)                                                                           \
    "{\"num_tokens\": " tokens ", \"kv_blocks\": 9, \"routing\": \"real\", \"finite\": true, " \
    "\"timing_scope\": \"target_only\", \"graph_vs_eager\": {\"relative_rms\": NaN}, "         \
    "\"latency_us\": {\"timer\": \"graph_events\", \"median\": 12000.5, "                      \
    "\"sample_spread_pct\": 0.25, \"samples_us\": [12000.5]}}"
#define REQUEST(q, k) \
    "{\"query_len\": " q ", \"kv_len\": " k ", \"num_draft_tokens\": 0, \"chunked\": false}"
#define CASE(requests, ranks)                                                                      \
    "{\"case\": \"mix\", \"median_us\": 12000.5, \"requests\": [" requests "], \"ranks\": [" ranks \
    "]}"

static enum st read_text(struct test *t, const char *text, struct forward_bench *b)
{
    return forward_read(t->a, test_write(t, "forward.json", text), NULL, b, &t->e);
}

static void cases_are_loads(void **state)
{
    struct test *t = *state;
    struct forward_bench b;
    assert_ok(read_text(t,
                        "[" CASE(REQUEST("512", "2048") ", " REQUEST("1", "700") ", " REQUEST(
                                     "1", "300") ", " REQUEST("1", "1"),
                                 RANK("515") ", " RANK("515")) "]",
                        &b),
              t);
    assert_int_equal(b.n, 1);
    assert_int_equal(b.gpus, 2);
    const struct forward_case *c = &b.of[0];
    assert_string_equal(c->name, "mix");
    assert_near(c->device_s, 0.0120005, 1e-12);
    assert_near(c->spread, 0.0025, 1e-12);
    assert_int_equal(c->chunks, 2); /* a prompt of one token is no decode */
    assert_int_equal(c->load.tokens, 515);
    assert_int_equal(c->load.rows, 0);
    assert_int_equal(c->load.seqs, 2);
    assert_int_equal(c->load.kv_tokens, 1000);
    assert_int_equal(c->load.kv_tokens_prefill, 512 * 1536);
    assert_int_equal(c->load.kv_read_tokens, 2048 + 1);
}

static void faults_are_named(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *text, *cause;
    } cases[] = {
        {"{}", "DIR/forward.json:1:1: expected a list of cases, got a map"},
        {"[]", "DIR/forward.json:1:1: expected a list of cases, got a list"},
        {"[{\"case\": \"a\"}]", "DIR/forward.json:1:2: median_us: missing"},
        {"[" CASE("", RANK("1")) "]", "DIR/forward.json:1:52: requests: a case without any"},
        {"[" CASE(REQUEST("2", "1"), RANK("1")) "]",
         "DIR/forward.json:1:80: kv_len: 1 is below the minimum 2"},
        {"[" CASE(REQUEST("1", "2"), "") "]", "DIR/forward.json:1:135: ranks: a case without any"},
        {"[" CASE(REQUEST("1", "2"), RANK("3")) "]",
         "DIR/forward.json:1:136: num_tokens: 3 were computed where 1 were asked for: replayed "
         "prefixes are not known"},
        {"[" CASE(REQUEST("1", "2"), RANK("1")) ", " CASE(REQUEST("1", "2"),
                                                          RANK("1") ", " RANK("1")) "]",
         "DIR/forward.json:1:525: ranks: 2 GPUs, the case before has 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct forward_bench b;
        err_clear(&t->e);
        assert_int_equal(read_text(t, cases[i].text, &b), ST_INPUT);
        const char *cause = err_cause(&t->e, 0);
        assert_string_equal(strstr(cause, "forward.json"), strstr(cases[i].cause, "forward.json"));
    }
}

static void what_is_no_plain_forward_is_refused(void **state)
{
    struct test *t = *state;
    struct forward_bench b;
    assert_int_equal(
        read_text(t,
                  "[{\"case\": \"v\", \"median_us\": 1, \"requests\": [{\"query_len\": 4, "
                  "\"kv_len\": 9, \"num_draft_tokens\": 3}], \"ranks\": []}]",
                  &b),
        ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "a case that verifies drafts"));
    err_clear(&t->e);
    assert_int_equal(
        read_text(t,
                  "[{\"case\": \"v\", \"median_us\": 1, \"requests\": [{\"query_len\": 4, "
                  "\"kv_len\": 9, \"num_draft_tokens\": 0}], \"ranks\": [{\"num_tokens\": 4, "
                  "\"timing_scope\": \"target_and_drafter\", \"finite\": true}]}]",
                  &b),
        ST_INPUT);
    assert_non_null(strstr(err_cause(&t->e, 0), "expected target_only, got target_and_drafter"));
}

/* ---- the fit ------------------------------------------------------------------------------- */

static struct forward_case case_of(const char *name, int64_t chunks, int64_t tokens, int64_t seqs,
                                   int64_t kv)
{
    struct forward_case c = {.name = name, .chunks = chunks};
    for (int64_t i = 0; i < chunks; i++)
        op_load_add_chunk(&c.load, NULL, 0, tokens);
    for (int64_t i = 0; i < seqs; i++)
        op_load_add_keys(&c.load, NULL, kv);
    c.load.tokens = chunks * tokens + seqs;
    c.load.seqs = seqs;
    return c;
}

static double device_s(const struct iteration_shape *shape, const struct forward_case *c,
                       const struct theta *t)
{
    const struct iteration_batch batch = {.load = c->load, .chunks = c->chunks};
    const struct iteration_params p = theta_iteration(t);
    struct iteration_terms terms;
    iteration_terms(shape, &batch, 0, &terms);
    return iteration_time(&p, &terms, NULL).device_s;
}

struct device {
    struct iteration_shape shape;
    struct theta_prior prior;
    struct theta truth;
    struct forward_case cases[12];
};

static void open_device(struct test *t, struct device *d)
{
    static const int64_t sizes[12][4] = {{0, 0, 1, 512},   {0, 0, 8, 1024},    {0, 0, 32, 1024},
                                         {0, 0, 32, 8192}, {0, 0, 128, 2048},  {0, 0, 256, 512},
                                         {1, 128, 0, 0},   {1, 512, 0, 0},     {1, 2048, 0, 0},
                                         {1, 8192, 0, 0},  {1, 512, 32, 2048}, {4, 1024, 16, 512}};
    assert_ok(iteration_shape(t->a, &llama_7b, &h100_peaks,
                              &(struct iteration_degrees){1, 1, 1, 0, {0}}, &d->shape, &t->e),
              t);
    theta_prior_roofline(&llama_7b, &d->shape, &d->prior);
    d->truth = d->prior.mean;
    d->truth.ln[ITERATION_WEIGHTS_EFFICIENCY] = log(0.7);
    d->truth.ln[ITERATION_KV_EFFICIENCY] = log(0.6);
    d->truth.ln[ITERATION_COMPUTE_EFFICIENCY] = log(0.5);
    d->truth.ln[ITERATION_ITERATION_S] += 1; /* the host's: not in these times */
    for (size_t i = 0; i < 12; i++) {
        const int64_t *s = sizes[i];
        d->cases[i] = case_of(arena_printf(t->a, "c%zu", i), s[0], s[1], s[2], s[3]);
        d->cases[i].device_s = device_s(&d->shape, &d->cases[i], &d->truth);
    }
}

static void the_device_is_found(void **state)
{
    struct test *t = *state;
    struct device d;
    struct theta_prior out;
    const char *note;
    open_device(t, &d);
    const struct forward_bench b = {.path = "forward.json", .of = d.cases, .n = 12, .gpus = 1};
    const struct forward_case other = case_of("other", 1, 1024, 64, 4096);
    const double truth = device_s(&d.shape, &other, &d.truth);
    assert_true(fabs(device_s(&d.shape, &other, &d.prior.mean) / truth - 1) > 0.1);
    assert_ok(forward_prior(t->a, &d.shape, &b, 0, &d.prior, &out, &note, &t->e), t);
    assert_near_rel(device_s(&d.shape, &other, &out.mean), truth, 0.02);
    assert_near(out.mean.ln[ITERATION_WEIGHTS_EFFICIENCY], log(0.7), 0.03);
    assert_near(out.mean.ln[ITERATION_KV_EFFICIENCY], log(0.6), 0.03);
    assert_non_null(strstr(note, "forward.json: 12 cases of the device's times; fitted, they are "
                                 "off by "));
    assert_string_equal(out.source, "roofline, forward.json");
}

/* The host's parameters, and what a request pays, stay as they were. */
static void the_host_is_not_told(void **state)
{
    struct test *t = *state;
    struct device d;
    struct theta_prior out;
    const char *note;
    open_device(t, &d);
    const struct forward_bench b = {.path = "forward.json", .of = d.cases, .n = 12, .gpus = 1};
    assert_ok(forward_prior(t->a, &d.shape, &b, 0.5, &d.prior, &out, &note, &t->e), t);
    for (int i = ITERATION_ITERATION_S; i < THETAS; i++) {
        if (d.prior.held[i])
            continue;
        assert_near(out.mean.ln[i], d.prior.mean.ln[i], 1e-9);
        assert_near_rel(out.precision[i][i], d.prior.precision[i][i], 1e-6);
    }
    assert_true(out.precision[ITERATION_WEIGHTS_EFFICIENCY][ITERATION_WEIGHTS_EFFICIENCY] >
                d.prior.precision[ITERATION_WEIGHTS_EFFICIENCY][ITERATION_WEIGHTS_EFFICIENCY]);
}

/* One that hung says little. */
static void a_stalled_case_bends_little(void **state)
{
    struct test *t = *state;
    struct device d;
    struct theta_prior out;
    const char *note;
    open_device(t, &d);
    d.cases[3].device_s *= 4;
    const struct forward_bench b = {.path = "forward.json", .of = d.cases, .n = 12, .gpus = 1};
    assert_ok(forward_prior(t->a, &d.shape, &b, 0, &d.prior, &out, &note, &t->e), t);
    assert_near(out.mean.ln[ITERATION_WEIGHTS_EFFICIENCY], log(0.7), 0.05);
    assert_non_null(strstr(note, "(c3)"));
}

static void other_degrees_are_refused(void **state)
{
    struct test *t = *state;
    struct device d;
    struct theta_prior out;
    const char *note;
    open_device(t, &d);
    const struct forward_bench b = {.path = "forward.json", .of = d.cases, .n = 12, .gpus = 4};
    assert_err(forward_prior(t->a, &d.shape, &b, 0, &d.prior, &out, &note, &t->e), ST_USAGE, t,
               "forward.json is of 4 GPUs, and parallel.tp=1\nhint: vllm bench forward "
               "--tensor-parallel-size=1 measures these");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(cases_are_loads),
        TEST(faults_are_named),
        TEST(what_is_no_plain_forward_is_refused),
        TEST(the_device_is_found),
        TEST(the_host_is_not_told),
        TEST(a_stalled_case_bends_little),
        TEST(other_degrees_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
