/* Why a comparison is inconclusive: one list, by weight, in the JSON and in words. */
#include "compare/cause.h"

#include "compare/compare.h"
#include "support/fake_run.h"
#include "text/json.h"

static void compare_fakes(struct test *t, const struct fake_run *real, const struct fake_run *sim,
                          struct comparison *c)
{
    struct compare_params *p = arena_one(t->a, struct compare_params);
    *p = (struct compare_params){.real_dir = fake_run_write(t, "real", real),
                                 .sim_dir = fake_run_write(t, "sim", sim),
                                 .pass_percent = 5,
                                 .warn_percent = 9};
    assert_ok(compare_runs(t->a, p, c, &t->e), t);
}

static void check(struct test *t, const struct comparison *c, const char *const *ids, size_t n,
                  const char *outcome)
{
    const struct node *tree = compare_node(t->a, c);
    const struct node *list = node_find(tree, "causes");
    assert_int_equal(c->verdict, VERDICT_INCONCLUSIVE);
    assert_string_equal(compare_outcome(t->a, c), outcome);
    assert_string_equal(node_find(tree, "outcome")->s.p, outcome);
    assert_string_equal(node_find(tree, "cause")->s.p, ids[0]);
    assert_int_equal(list->n, n);
    for (uint32_t i = 0; i < list->n; i++)
        assert_string_equal(node_find(list->items[i], "id")->s.p, ids[i]);
}

static void ids_are_stable(void **state)
{
    static const char *const ids[CAUSES] = {
        "client_late",      "workloads_differ", "models_differ",
        "hardware_differs", "machine_changed",  "waited_for_cores",
        "stated_error",     "spread",           "interval"};
    (void)state;
    for (enum compare_cause k = 0; k < CAUSES; k++)
        assert_string_equal(cause_id(k), ids[k]);
}

static void a_busy_machine_is_the_cause(void **state)
{
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    real.waiting = 0.25;
    sim.base_s *= 1.5;
    compare_fakes(*state, &real, &sim, &c);
    check(*state, &c, (const char *const[]){"waited_for_cores"}, 1,
          "inconclusive: the machine was busy: the real run waited for cores 25 % of the time");
    const struct node *r = node_find(compare_node(((struct test *)*state)->a, &c), "causes");
    assert_near(node_path(r->items[0], "figures.share")->f, 0.25, 1e-9);
    assert_string_equal(node_path(r->items[0], "figures.side")->s.p, "real");
    assert_true(node_find(r->items[0], "cells")->i > 0);
}

/* Each of the real runs counts, not the first alone. */
static void a_busy_machine_in_a_repeat_is_the_cause(void **state)
{
    struct test *t = *state;
    struct comparison c;
    struct fake_run real = fake_run_default("real"), again = real, sim = fake_run_default("vidur");
    again.waiting = 0.25;
    sim.base_s *= 1.5;
    const char *repeat = fake_run_write(t, "again", &again);
    const struct compare_params p = {.real_dir = fake_run_write(t, "real", &real),
                                     .sim_dir = fake_run_write(t, "sim", &sim),
                                     .spread_dirs = &repeat,
                                     .n_spread = 1,
                                     .pass_percent = 5,
                                     .warn_percent = 9};
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    check(t, &c, (const char *const[]){"waited_for_cores"}, 1,
          arena_printf(t->a,
                       "inconclusive: the machine was busy: the real run %s waited for cores 25 %% "
                       "of the time",
                       repeat));
}

/* A neighbour that left the run its cores, or a server whose threads are not known. */
static void pressure_on_the_machine_is_the_cause(void **state)
{
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    real.pressure = 0.2;
    real.waiting = 0.001;
    sim.base_s *= 1.5;
    compare_fakes(*state, &real, &sim, &c);
    check(*state, &c, (const char *const[]){"waited_for_cores"}, 1,
          "inconclusive: the machine was busy: during the real run tasks waited for cores 20 % of "
          "the "
          "time");
}

/* Below the limit a run that waited is slower for it by up to four times that share, a profile that
 * waited makes the simulation slower. */
static void what_little_waiting_explains_is_not_judged(void **state)
{
    static const struct {
        double real, profile, faster; /* the simulation than the real run */
        enum verdict verdict;
    } cases[] = {
        {0.04, 0, 1.12, VERDICT_INCONCLUSIVE},
        {0.04, 0, 1 / 1.12, VERDICT_FAIL},
        {0, 0.04, 1 / 1.12, VERDICT_INCONCLUSIVE},
        {0, 0.04, 1.12, VERDICT_FAIL},
        {0.04, 0, 1.5, VERDICT_FAIL},
        {0.01, 0.01, 1.12, VERDICT_FAIL},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct comparison c;
        struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
        const char *r = arena_printf(t->a, "real%zu", i), *s = arena_printf(t->a, "sim%zu", i);
        real.waiting = cases[i].real;
        sim.waiting = cases[i].profile;
        real.rate = sim.rate = 1; /* no queues: all times by one factor */
        real.jitter = sim.jitter = 0;
        sim.host_s = real.host_s / cases[i].faster, sim.base_s = real.base_s / cases[i].faster;
        sim.prefill_token_s = real.prefill_token_s / cases[i].faster;
        sim.sequence_s = real.sequence_s / cases[i].faster;
        const struct compare_params p = {.real_dir = fake_run_write(t, r, &real),
                                         .sim_dir = fake_run_write(t, s, &sim),
                                         .pass_percent = 5,
                                         .warn_percent = 9};
        assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
        assert_int_equal(c.verdict, cases[i].verdict);
    }
}

/* Both explain every miss; with equal weights the order of the list counts. */
static void several_causes_stand_by_weight(void **state)
{
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    real.waiting = 0.25;
    real.reference = 1.12e-3;
    sim.reference = 1e-3;
    real.base_s *= 1.12, real.sequence_s *= 1.12, real.prefill_token_s *= 1.12;
    compare_fakes(*state, &real, &sim, &c);
    check(*state, &c, (const char *const[]){"machine_changed", "waited_for_cores"}, 2,
          "inconclusive: the machine itself was 12 % slower in the real run than while it was "
          "profiled; the machine was busy: the real run waited for cores 25 % of the time");
    assert_string_equal(c.cells[METRIC_E2E][0].why, "the machine itself had become 12 % slower");
    assert_int_equal(c.cells[METRIC_E2E][0].causes,
                     1u << CAUSE_MACHINE_CHANGED | 1u << CAUSE_WAITED_FOR_CORES);
}

/* The drift explains no miss of the other direction: the other cause has all of them. */
static void the_cause_of_more_cells_weighs_more(void **state)
{
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    real.waiting = 0.25;
    real.reference = 1.12e-3;
    sim.reference = 1e-3;
    sim.base_s *= 1.5;
    compare_fakes(*state, &real, &sim, &c);
    check(*state, &c, (const char *const[]){"waited_for_cores"}, 1,
          "inconclusive: the machine was busy: the real run waited for cores 25 % of the time");
}

static void other_workloads_leave_every_cell_open(void **state)
{
    struct test *t = *state;
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    sim.workload_seed++;
    compare_fakes(t, &real, &sim, &c);
    assert_string_equal(cause_id(c.reasons[0].cause), "workloads_differ");
    assert_int_equal(c.reasons[0].n_cells, 10);
    const struct node *figures = c.reasons[0].figures;
    assert_near(node_find(figures, "requests")->f, (double)c.n_aligned, 0);
}

static void another_model_is_not_judged(void **state)
{
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    sim.model = "large";
    compare_fakes(*state, &real, &sim, &c);
    check(*state, &c, (const char *const[]){"models_differ"}, 1,
          "inconclusive: the runs are not of one model: model is tiny in the real run, large in "
          "the simulated one");
}

/* One request, so that metas can be written by hand. */
static const char *put_meta(struct test *t, const char *name, const char *meta)
{
    test_write(t, arena_printf(t->a, "%s/request_metrics.csv", name),
               "request_id,arrival_time_ns,first_token_time_ns,ttft_ns,completion_time_ns,"
               "num_prefill_tokens,num_decode_tokens,num_decode_tokens_actual,status\n"
               "0,0,100,100,300,4,3,3,ok\n");
    test_write(t, arena_printf(t->a, "%s/run_meta.json", name),
               arena_printf(t->a, "{\"schema_version\": 1, %s}", meta));
    return test_path(t, name);
}

static void models_and_machines_are_known_by_what_they_are(void **state)
{
    static const struct {
        const char *real, *sim, *outcome;
    } cases[] = {
        {"\"run_type\": \"real\", \"model\": \"a\", \"params\": {\"model\": {\"config\": "
         "{\"hidden_size\": 64, \"vocab_size\": 100}}}",
         "\"run_type\": \"vidur\", \"model\": \"b\", \"params\": {\"model\": {\"config\": "
         "{\"hidden_size\": 64.0, \"more\": 1}}}",
         "pass: largest judged error 0.0 % (TTFT P50)"},
        {"\"run_type\": \"real\", \"params\": {\"model\": {\"config\": {\"hidden_size\": 64}}}",
         "\"run_type\": \"vidur\", \"params\": {\"model\": {\"config\": {\"hidden_size\": 128}}}",
         "inconclusive: the runs are not of one model: hidden_size is 64 in the real run, 128 in "
         "the simulated one"},
        {"\"run_type\": \"real\", \"hardware\": {\"hardware_id\": \"cpu\"}",
         "\"run_type\": \"vidur\", \"hardware\": {\"hardware_id\": \"h200\"}",
         "inconclusive: the runs are not of one machine: hardware is cpu in the real run, h200 "
         "where it was profiled"},
        /* The processor says more than the names of bundles. */
        {"\"run_type\": \"real\", \"hardware\": {\"hardware_id\": \"cpu\"}, \"host\": "
         "{\"cpu\": \"EPYC\", \"cores\": 2}",
         "\"run_type\": \"vidur\", \"hardware\": {\"hardware_id\": \"mine\"}, \"profile_host\": "
         "{\"cpu\": \"EPYC\", \"cores\": 2}",
         "pass: largest judged error 0.0 % (TTFT P50)"},
        {"\"run_type\": \"real\", \"host\": {\"cpu\": \"EPYC\", \"cores\": 2}",
         "\"run_type\": \"vidur\", \"profile_host\": {\"cpu\": \"Xeon\", \"cores\": 2}",
         "inconclusive: the runs are not of one machine: host.cpu is EPYC in the real run, Xeon "
         "where it was profiled"},
        /* What a server runs on is not what bench was told. */
        {"\"run_type\": \"real\", \"model\": \"a\", \"hardware\": {\"hardware_id\": \"cpu\"}, "
         "\"http\": {\"url\": \"u\"}",
         "\"run_type\": \"vidur\", \"model\": \"b\", \"hardware\": {\"hardware_id\": \"h200\"}",
         "pass: largest judged error 0.0 % (TTFT P50)"},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct comparison c;
        const struct compare_params p = {
            .real_dir = put_meta(t, arena_printf(t->a, "real%zu", i), cases[i].real),
            .sim_dir = put_meta(t, arena_printf(t->a, "sim%zu", i), cases[i].sim),
            .pass_percent = 5,
            .warn_percent = 9};
        assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
        assert_string_equal(compare_outcome(t->a, &c), cases[i].outcome);
    }
}

static bool has_note(const struct comparison *c, const char *text)
{
    for (size_t i = 0; i < c->n_notes; i++)
        if (strstr(c->notes[i], text))
            return true;
    return false;
}

/* A server is told a folder, its simulation a name of the hub. */
static void a_folder_is_no_other_model(void **state)
{
    static const char two_names[] = "two names of one model",
                      not_known[] = "though a folder's name does not tell";
    static const struct {
        const char *real, *sim, *note; /* NULL: other models */
    } cases[] = {
        {"/data/models/Qwen3-0.6B", "Qwen/Qwen3-0.6B", two_names},
        {"/data/models/Qwen3-0.6B/", "qwen3_0_6b", two_names},
        {"Qwen/Qwen3-0.6B", "qwen3_0_6b", two_names},
        {"/root/.cache/huggingface/hub/models--Qwen--Qwen3-0.6B/snapshots/c1899de2",
         "Qwen/Qwen3-0.6B", two_names},
        {"../w", "Qwen/Qwen3-0.6B", not_known},
        {"Qwen/Qwen3-0.6B", "/mnt/model", not_known},
        {"Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B", NULL},
        {"/models/Qwen3-0.6B", "/models/Qwen3-1.7B", NULL},
    };
    struct test *t = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct comparison c;
        struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
        const char *r = arena_printf(t->a, "real%zu", i), *s = arena_printf(t->a, "sim%zu", i);
        real.model = cases[i].real;
        sim.model = cases[i].sim;
        const struct compare_params p = {.real_dir = fake_run_write(t, r, &real),
                                         .sim_dir = fake_run_write(t, s, &sim),
                                         .pass_percent = 5,
                                         .warn_percent = 9};
        assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
        assert_true(!c.found[CAUSE_MODELS_DIFFER].text == (cases[i].note != NULL));
        if (cases[i].note)
            assert_true(has_note(&c, cases[i].note));
        assert_true(has_note(&c, "The model is called") == (cases[i].note != NULL));
    }
}

static void caches_of_other_sizes_are_told(void **state)
{
    struct test *t = *state;
    const int64_t of_sim[] = {0, 28800, 6048};
    for (size_t i = 0; i < sizeof of_sim / sizeof *of_sim; i++) {
        struct comparison c;
        struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
        const char *r = arena_printf(t->a, "real%zu", i), *s = arena_printf(t->a, "sim%zu", i);
        real.kv_tokens = 28800;
        sim.kv_tokens = of_sim[i];
        const struct compare_params p = {.real_dir = fake_run_write(t, r, &real),
                                         .sim_dir = fake_run_write(t, s, &sim),
                                         .pass_percent = 5,
                                         .warn_percent = 9};
        assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
        assert_true(has_note(&c, "The KV cache holds 28,800 tokens in the real run and 6,048 in "
                                 "the simulated one.") == (of_sim[i] == 6048));
    }
}

static void the_stated_error_of_a_simulation_is_a_cause(void **state)
{
    struct test *t = *state;
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    sim.base_s *= 1.5;
    const struct compare_params p = {.real_dir = fake_run_write(t, "real", &real),
                                     .sim_dir = fake_run_write(t, "sim", &sim),
                                     .pass_percent = 5,
                                     .warn_percent = 9};
    struct buf csv = {0};
    buf_puts(&csv, "metric,percentile,value_ns,low_ns,high_ns,replicas\n");
    for (enum metric m = 0; m < METRICS; m++)
        for (int k = 0; k < COMPARE_PERCENTILES; k++)
            buf_printf(&csv, "%s,%s,100,10,200,20\n", metric_name(m), compare_percentile_name(k));
    test_write(t, "sim/percentile_intervals.csv", buf_str(&csv));
    buf_free(&csv);
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    assert_int_equal(c.verdict, VERDICT_INCONCLUSIVE);
    assert_int_equal(c.n_reasons, 1);
    assert_string_equal(cause_id(c.reasons[0].cause), "stated_error");
    assert_string_equal(c.reasons[0].clause, "the simulation's own interval holds the real value");
    assert_non_null(strstr(compare_outcome(t->a, &c), "inconclusive: the simulation's own interval "
                                                      "holds the real value ("));
}

static void the_mean_of_the_replicas_is_the_simulated_value(void **state)
{
    struct test *t = *state;
    struct comparison c, plain;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    const struct compare_params p = {.real_dir = fake_run_write(t, "real", &real),
                                     .sim_dir = fake_run_write(t, "sim", &sim),
                                     .pass_percent = 5,
                                     .warn_percent = 9};
    assert_ok(compare_runs(t->a, &p, &plain, &t->e), t);
    test_write(t, "sim/percentile_intervals.csv",
               "metric,percentile,value_ns,low_ns,high_ns,mean_ns,replicas\n"
               "tpot,p50,100,90,130,107,20\ntpot,p90,100,90,130,,20\n");
    assert_ok(compare_runs(t->a, &p, &c, &t->e), t);
    assert_near(c.cells[METRIC_TPOT][0].sim_ns, 1.07 * plain.cells[METRIC_TPOT][0].sim_ns, 1e-3);
    assert_near(c.cells[METRIC_TPOT][1].sim_ns, plain.cells[METRIC_TPOT][1].sim_ns, 0);
    assert_int_equal(c.n_notes, plain.n_notes + 1);
}

static void a_fail_has_no_cause(void **state)
{
    struct test *t = *state;
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    sim.base_s *= 1.5;
    compare_fakes(t, &real, &sim, &c);
    assert_int_equal(c.verdict, VERDICT_FAIL);
    const struct node *tree = compare_node(t->a, &c);
    assert_int_equal(node_find(tree, "cause")->kind, NODE_NULL);
    assert_int_equal(node_find(tree, "causes")->n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ids_are_stable),
        TEST(a_busy_machine_is_the_cause),
        TEST(a_busy_machine_in_a_repeat_is_the_cause),
        TEST(pressure_on_the_machine_is_the_cause),
        TEST(what_little_waiting_explains_is_not_judged),
        TEST(several_causes_stand_by_weight),
        TEST(the_cause_of_more_cells_weighs_more),
        TEST(other_workloads_leave_every_cell_open),
        TEST(another_model_is_not_judged),
        TEST(models_and_machines_are_known_by_what_they_are),
        TEST(a_folder_is_no_other_model),
        TEST(caches_of_other_sizes_are_told),
        TEST(the_stated_error_of_a_simulation_is_a_cause),
        TEST(the_mean_of_the_replicas_is_the_simulated_value),
        TEST(a_fail_has_no_cause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
