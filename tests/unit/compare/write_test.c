#include "compare/compare.h"
#include "support/fake_run.h"
#include "text/json.h"

static void write_comparison(struct test *t, const struct fake_run *real,
                             const struct fake_run *sim, struct comparison *c)
{
    struct artifact art;
    struct compare_params *p = arena_one(t->a, struct compare_params);
    *p = (struct compare_params){.real_dir = fake_run_write(t, "real", real),
                                 .sim_dir = fake_run_write(t, "sim", sim),
                                 .pass_percent = 5,
                                 .warn_percent = 9};
    assert_ok(compare_runs(t->a, p, c, &t->e), t);
    assert_ok(artifact_begin(t->a, test_path(t, "cmp"), "run_meta.json", &art, &t->e), t);
    assert_ok(compare_write(&art, c, &t->e), t);
    assert_ok(artifact_commit(&art, NULL, &t->e), t);
}

static void the_contract_s_files_are_there(void **state)
{
    static const char *const names[] = {
        "summary.md",
        "compare.json",
        "tables/ttft_percentiles.csv",
        "tables/token_latency_percentiles.csv",
        "tables/tpot_percentiles.csv",
        "tables/e2e_percentiles.csv",
        "tables/cdf.csv",
        "tables/over_time.csv",
        "figs/ttft_cdf.svg",
        "figs/token_latency_cdf.svg",
        "figs/tpot_cdf.svg",
        "figs/e2e_cdf.svg",
        "figs/running.svg",
        "figs/waiting.svg",
    };
    struct test *t = *state;
    struct comparison c;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    write_comparison(t, &real, &sim, &c);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(*test_read(t, test_path(t, arena_printf(t->a, "cmp/%s", names[i]))));
}

static void the_percentile_table_has_its_columns_and_rows(void **state)
{
    struct test *t = *state;
    struct comparison c;
    struct fake_run real = fake_run_default("real");
    real.n = 3;
    real.jitter = 0;
    write_comparison(t, &real, &real, &c);
    char v[4][STR_DOUBLE_MAX];
    for (int p = 0; p < 4; p++)
        str_from_double(v[p], c.cells[METRIC_TTFT][p].real_ns);
    assert_string_equal(test_read(t, test_path(t, "cmp/tables/ttft_percentiles.csv")),
                        arena_printf(t->a,
                                     "metric,real_ns,sim_ns\n"
                                     "p50,%s,%s\np90,%s,%s\np95,%s,%s\np99,%s,%s\n",
                                     v[0], v[0], v[1], v[1], v[2], v[2], v[3], v[3]));
}

static void missing_values_are_empty_cells_and_nulls(void **state)
{
    struct test *t = *state;
    struct comparison c;
    struct node *tree;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    real.no_tokens = true;
    write_comparison(t, &real, &sim, &c);
    const char *csv = test_read(t, test_path(t, "cmp/tables/token_latency_percentiles.csv"));
    assert_non_null(strstr(csv, "\np50,,"));
    assert_ok(json_load(t->a, test_path(t, "cmp/compare.json"), NULL, &tree, &t->e), t);
    const struct node *cell = node_path(tree, "metrics.token_latency.percentiles.p50");
    assert_int_equal(node_find(cell, "real_ns")->kind, NODE_NULL);
    assert_int_equal(node_find(cell, "error_percent")->kind, NODE_NULL);
    assert_false(node_find(cell, "judged")->b);
}

static void check_sorted(const struct node *n)
{
    for (uint32_t i = 0; n->kind == NODE_LIST && i < n->n; i++)
        check_sorted(n->items[i]);
    for (uint32_t i = 0; n->kind == NODE_MAP && i < n->n; i++) {
        if (i > 0)
            assert_true(strcmp(n->pairs[i - 1].key.p, n->pairs[i].key.p) < 0);
        check_sorted(n->pairs[i].value);
    }
}

static void the_json_is_sorted_and_says_what_was_judged(void **state)
{
    struct test *t = *state;
    struct comparison c;
    struct node *tree;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    sim.base_s *= 1.5;
    write_comparison(t, &real, &sim, &c);
    assert_ok(json_load(t->a, test_path(t, "cmp/compare.json"), NULL, &tree, &t->e), t);
    check_sorted(tree);
    assert_sv(node_find(tree, "verdict")->s, "fail");
    const struct node *p99 = node_path(tree, "metrics.ttft.percentiles.p99");
    assert_sv(node_find(p99, "why")->s, "160 requests, 1,000 needed");
    assert_sv(node_find(p99, "verdict")->s, "not judged");
    assert_true(node_path(tree, "diagnosis.findings")->n > 0);
    assert_int_equal(node_path(tree, "alignment.aligned")->i, 160);
    assert_sv(node_path(tree, "real.meta.run_type")->s, "real");
    assert_int_equal(node_path(tree, "sim.meta.seed")->i, 1);
    assert_null(node_path(tree, "sim.meta.params"));
}

static void curves_read_back_as_written(void **state)
{
    struct test *t = *state;
    struct comparison c;
    struct curves *back;
    struct fake_run real = fake_run_default("real"), sim = fake_run_default("vidur");
    write_comparison(t, &real, &sim, &c);
    assert_ok(curves_load(t->a, test_path(t, "cmp/tables"), &back, &t->e), t);
    for (int k = 0; k < 2; k++) {
        assert_memory_equal(back->of[k].ns, c.curves->of[k].ns, sizeof back->of[k].ns);
        assert_memory_equal(back->of[k].running, c.curves->of[k].running,
                            sizeof back->of[k].running);
        assert_memory_equal(back->of[k].waiting, c.curves->of[k].waiting,
                            sizeof back->of[k].waiting);
    }
    assert_near_rel(back->bin_s, c.curves->bin_s, 1e-9);
}

static void damaged_curves_are_named(void **state)
{
    static const struct {
        const char *file, *text, *want;
    } cases[] = {
        {"cdf.csv", "metric,quantile,real_ns,sim_ns\nspeed,0,1,1\n",
         "DIR/t/cdf.csv:2:1: metric: no such metric: 'speed'"},
        {"cdf.csv", "metric,quantile,real_ns,sim_ns\nttft,0,1,-1\n",
         "DIR/t/cdf.csv:2:4: sim_ns: -1 is below the minimum 0"},
        {"over_time.csv",
         "time_ns,real_running,sim_running,real_waiting,sim_waiting\n5,1,1,nan,1\n",
         "DIR/t/over_time.csv:2:4: real_waiting: expected a number, got 'nan'"},
    };
    struct test *t = *state;
    struct curves *back;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = test_write(t, arena_printf(t->a, "t/%s", cases[i].file), cases[i].text);
        err_clear(&t->e);
        assert_err(curves_load(t->a, test_path(t, "t"), &back, &t->e), ST_INPUT, t, cases[i].want);
        remove(path);
    }
    assert_ok(curves_load(t->a, test_path(t, "t"), &back, &t->e), t);
    assert_false(back->of[0].has[METRIC_TTFT]);
}

/* One batch of two sequences from 0 to 1.2 s in bins of 10 ms, and a request that waits 30 ms. */
static void bins_are_time_weighted(void **state)
{
    struct test *t = *state;
    struct run_batch batches[] = {
        {.start_ns = 0, .duration_ns = 605000000, .batch_size = 2},
        {.start_ns = 1195000000, .duration_ns = 5000000, .batch_size = 4}};
    struct run_request requests[] = {{.arrival_ns = 5000000, .scheduled_ns = 35000000}};
    struct run run = {.batches = batches, .n_batches = 2, .requests = requests, .n_requests = 1};
    struct run_metrics none = {0};
    const struct curves *c =
        curves_new(t->a, 1, (const char *const[]){"x"}, (const struct run *const[]){&run},
                   (const struct run_metrics *const[]){&none});
    assert_near(c->bin_s, 0.01, 1e-12);
    assert_near(c->of[0].running[0], 2, 1e-9);
    assert_near(c->of[0].running[60], 1, 1e-9);
    assert_near(c->of[0].running[61], 0, 1e-9);
    assert_near(c->of[0].running[119], 2, 1e-9);
    assert_near(c->of[0].waiting[0], 0.5, 1e-9);
    assert_near(c->of[0].waiting[2], 1, 1e-9);
    assert_near(c->of[0].waiting[3], 0.5, 1e-9);
    assert_near(c->of[0].waiting[4], 0, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_contract_s_files_are_there),
        TEST(the_percentile_table_has_its_columns_and_rows),
        TEST(missing_values_are_empty_cells_and_nulls),
        TEST(the_json_is_sorted_and_says_what_was_judged),
        TEST(curves_read_back_as_written),
        TEST(damaged_curves_are_named),
        TEST(bins_are_time_weighted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
