/* Stages on the decode loop of support/fake_spool.h. */
#include "deep/stages.h"

#include <math.h>
#include <string.h>

#include "deep/collectives.h"
#include "deep/table.h"
#include "kernels/gantt.h"
#include "support/fake_spool.h"
#include "support/support.h"
#include "text/yaml.h"

struct loaded {
    struct trace t;
    struct kernels k;
    struct deep_stages s;
};

static struct loaded *load(struct test *t, const char *tree, int64_t steps)
{
    struct loaded *x = arena_one(t->a, struct loaded);
    struct node *root;
    const char *path = test_path(t, "t.spool");
    fake_spool_write(path, &(struct fake_spool){.steps = steps});
    assert_ok(yaml_parse(t->a, "t", sv_of(tree), &root, &t->e), t);
    assert_ok(deep_stages_read(t->a, root, &x->s, &t->e), t);
    assert_ok(trace_load(&x->t, path, NULL, &t->e), t);
    kernels_open(&x->k, &x->t, NULL);
    deep_stages_measure(t->a, &x->s, &x->k);
    return x;
}

static void unload(struct loaded *x)
{
    kernels_close(&x->k);
    trace_free(&x->t);
}

/* Launches at 5, 15, 35 us are inside "prefill" (4, 2, 6 us on the GPU, the last ends at 46 us);
 * those at 55 and 80 us are in the step alone (1 us each). */
static void time_of_a_stage_includes_its_sub_stages(void **state)
{
    struct test *t = *state;
    struct loaded *x = load(t, "step:\n  range: step*\n  prefill:\n", 10);
    assert_int_equal(x->s.n, 2);
    const struct deep_stage *step = &x->s.p[0], *prefill = &x->s.p[1];
    assert_string_equal(prefill->path, "step/prefill");
    assert_int_equal(step->all.instances, 10);
    assert_int_equal(step->all.operations, 50);
    assert_int_equal(step->all.gpu_ns, 140000);
    assert_int_equal(step->all.exclusive_ns, 20000);
    assert_int_equal(step->all.elapsed_ns, 900000); /* 0 to 90 us */
    assert_int_equal(prefill->all.gpu_ns, 120000);
    assert_int_equal(prefill->all.exclusive_ns, 120000);
    assert_int_equal(prefill->all.host_ns, 390000);
    assert_int_equal(prefill->all.elapsed_ns, 450000); /* 1 us to the end of the last kernel */
    assert_int_equal(prefill->all.busy_ns, 120000);
    assert_true(deep_stages_found(&x->s));
    unload(x);
}

/* A sub-stage counts only inside its parent. */
static void a_range_outside_its_parent_is_no_stage(void **state)
{
    struct test *t = *state;
    struct loaded *x = load(t, "prefill:\n  step:\n    range: step*\nother:\n", 3);
    assert_int_equal(x->s.p[0].all.instances, 3);
    assert_int_equal(x->s.p[1].all.instances, 0);
    assert_int_equal(x->s.p[2].all.instances, 0);
    unload(x);
}

/* One instance of 100 prompt tokens, and the same figures given. What a sub-stage's load says is
 * added to its parent's, bytes that it does not say are not known of both; one without a load is in
 * its parent's. */
static void mfu_is_by_the_operator_list(void **state)
{
    struct test *t = *state;
    struct loaded *x = load(t,
                            "all:\n  range: step*\n  load: {flop: 1e6, bytes: 2e3}\n  prefill:\n"
                            "    load: {prompt_tokens: 100}\n",
                            2);
    struct node *config;
    struct model m;
    struct deep_roofs roofs = {.dram_per_s = 1e9};
    for (int i = 0; i < UNITS; i++)
        roofs.flop_per_s[i] = NAN;
    roofs.flop_per_s[UNIT_TENSOR_BF16] = 1e12;
    assert_ok(yaml_load(t->a, "configs/model/qwen3_0_6b.yaml", &config, &t->e), t);
    assert_ok(model_from_config(t->a, "m", node_find(config, "config"), &m, &t->e), t);
    deep_stages_rate(&x->s, &m, &roofs);
    assert_true(x->s.p[0].flop == 2e6 + x->s.p[1].flop);
    assert_true(x->s.p[0].bytes == 4e3 + x->s.p[1].bytes);
    /* two flops for each weight of the layers and token, at the least */
    assert_true(x->s.p[1].flop > 2 * 2 * 100 * 0.4e9 && x->s.p[1].flop < 2 * 2 * 100 * 0.8e9);
    x->s.p[1].load.flop = 7; /* of which the bytes are not known */
    x->s.p[1].load.prompt_tokens = 0;
    deep_stages_rate(&x->s, &m, &roofs);
    assert_true(x->s.p[0].flop == 2e6 + 14 && isnan(x->s.p[0].bytes));
    x->s.p[1].load = (struct deep_load){.flop = NAN, .bytes = NAN}; /* none */
    deep_stages_rate(&x->s, &m, &roofs);
    assert_true(isnan(x->s.p[1].flop));
    assert_true(x->s.p[0].flop == 2e6);
    assert_true(fabs(x->s.p[0].mfu - 2e6 / 180e-6 / 1e12) < 1e-12);
    assert_true(fabs(x->s.p[0].bandwidth - 4e3 / 180e-6 / 1e9) < 1e-12);
    assert_true(x->s.p[0].all.least_ns == 90000 && x->s.p[0].all.most_ns == 90000);
    unload(x);
}

static void faults_in_the_tree_are_named(void **state)
{
    struct test *t = *state;
    struct deep_stages s;
    struct node *root;
    static const struct {
        const char *tree, *error;
    } rows[] = {
        {"a: 3\n", "t:1:4: deep.stages: a: expected a map or a pattern, got an integer"},
        {"a: {load: {tokens: 3}}\n",
         "t:1:20: deep.stages: load: unknown key 'tokens'\nhint: there are batch, "
         "prompt_tokens, context_tokens, steps, flop, bytes"},
        {"a: {load: 3}\n", "t:1:11: deep.stages: load: expected a map, got an integer"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_ok(yaml_parse(t->a, "t", sv_of(rows[i].tree), &root, &t->e), t);
        assert_err(deep_stages_read(t->a, root, &s, &t->e), ST_USAGE, t, rows[i].error);
        err_clear(&t->e);
    }
}

/* ---- kernels of a scope ---- */

static void kernels_of_a_stage_and_of_a_pattern(void **state)
{
    struct test *t = *state;
    struct loaded *x = load(t, "prefill:\n", 10);
    struct deep_join j = deep_join_make(t->a, &x->k, NULL);
    struct deep_roofs roofs = {0};
    size_t n;
    int64_t gpu_ns;
    struct deep_scope stage = {.stages = &x->s, .stage = 0, .process = -1, .device = -1};
    struct deep_kernel *k = deep_kernels_of(t->a, &j, &stage, &roofs, &n, &gpu_ns);
    assert_int_equal(n, 3);
    assert_int_equal(gpu_ns, 120000);
    assert_string_equal(k[0].name, "void flash::fwd_kernel<128>(float*)");
    assert_true(k[0].share == 0.5 && k[0].calls == 10);
    static const char *const out[] = {"*flash*"};
    struct deep_scope pattern = {
        .pattern = "step*", .stage = -1, .process = -1, .device = -1, .exclude = {out, 1}};
    k = deep_kernels_of(t->a, &j, &pattern, &roofs, &n, &gpu_ns);
    assert_int_equal(n, 4); /* and a copy and a set */
    assert_int_equal(gpu_ns, 140000);
    unload(x);
}

/* Two configurations of a kernel, one of them profiled: its figures count, and its own time in the
 * trace is what ncu's is held against. */
static void figures_go_to_the_kernel_of_that_name(void **state)
{
    struct test *t = *state;
    struct loaded *x = load(t, "prefill:\n", 10);
    struct ncu_table table;
    struct deep_roofs roofs = {0};
    size_t n;
    ncu_table_init(&table, t->a);
    assert_ok(ncu_csv_parse(&table, "t.csv",
                            SV("\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric "
                               "Value\"\n\"0\",\"nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_TNT\","
                               "\"gpu__time_duration.sum\",\"us\",\"5.00\"\n"
                               "\"1\",\"unheard_of\",\"gpu__time_duration.sum\",\"us\",\"5.00\"\n"),
                            &t->e),
              t);
    struct deep_join j = deep_join_make(t->a, &x->k, &table);
    assert_int_equal(j.unmatched, 1);
    struct deep_scope all = {.stage = -1, .process = -1, .device = -1};
    struct deep_kernel *k = deep_kernels_of(t->a, &j, &all, &roofs, &n, NULL);
    size_t i = 0;
    while (i < n && !k[i].profiled)
        i++;
    assert_true(i < n);
    assert_string_equal(k[i].short_name, "nvjet_sm90_hsh_64x8_64x16_4x1_v_bz_TNT");
    assert_true(k[i].figures.duration_ns == 5000);
    ncu_table_free(&table);
    unload(x);
}

/* ---- collectives ---- */

/* Two ranks, the second a microsecond behind: the first waits as long in each of its calls. */
static void the_rank_that_begins_first_waits(void **state)
{
    struct test *t = *state;
    struct trace trace;
    struct kernels k;
    size_t n, uneven;
    fake_spool_write(test_path(t, "a.spool"), &(struct fake_spool){.steps = 10, .host = "a"});
    fake_spool_write(test_path(t, "b.spool"),
                     &(struct fake_spool){.steps = 10, .host = "b", .shift_ns = 1000});
    assert_ok(trace_load(&trace, test_dir(t), NULL, &t->e), t);
    kernels_open(&k, &trace, NULL);
    struct deep_collective_row *rows = deep_collectives_of(t->a, &k, NULL, "nvjet*", &n, &uneven);
    assert_int_equal(n, 2);
    assert_int_equal(uneven, 0);
    assert_true(rows[0].calls == 10 && rows[0].total_ms == 0.04);
    double most = fmax(rows[0].waiting_ms, rows[1].waiting_ms);
    assert_true(fabs(most - 0.01) < 1e-9 && fmin(rows[0].waiting_ms, rows[1].waiting_ms) == 0);
    assert_true(fabs(rows[0].waiting_ms + rows[0].moving_ms - rows[0].total_ms) < 1e-9);
    kernels_close(&k);
    trace_free(&trace);
}

/* The picture: the last step of the first stage on both ranks, by one clock. */
static void both_ranks_are_in_one_picture(void **state)
{
    struct test *t = *state;
    struct trace trace;
    struct kernels k;
    struct deep_stages s;
    struct node *root;
    fake_spool_write(test_path(t, "a.spool"), &(struct fake_spool){.steps = 10, .host = "a"});
    fake_spool_write(test_path(t, "b.spool"),
                     &(struct fake_spool){.steps = 10, .host = "b", .shift_ns = 1000});
    assert_ok(yaml_parse(t->a, "t", SV("step:\n  range: step*\n"), &root, &t->e), t);
    assert_ok(deep_stages_read(t->a, root, &s, &t->e), t);
    assert_ok(trace_load(&trace, test_dir(t), NULL, &t->e), t);
    kernels_open(&k, &trace, NULL);
    deep_stages_measure(t->a, &s, &k);
    assert_int_equal(s.window_end_ns - s.window_start_ns, 90000); /* nothing follows the last */
    struct kernels_gantt g = kernels_gantt_between(t->a, &k, s.window_start_ns, s.window_end_ns);
    assert_true(kernels_gantt_ok(&g));
    assert_int_equal(g.span_ns, 90000);
    size_t hosts = 0;
    for (size_t i = 0; i < g.n_lanes; i++)
        hosts += strncmp(g.lanes[i], "process ", 8) == 0 && !strstr(g.lanes[i], "depth");
    assert_int_equal(hosts, 2);
    kernels_close(&k);
    trace_free(&trace);
}

/* A rank that calls more often than the other: which call belongs to which is not known. */
static void uneven_calls_are_left_out(void **state)
{
    struct test *t = *state;
    struct trace trace;
    struct kernels k;
    size_t n, uneven;
    fake_spool_write(test_path(t, "a.spool"), &(struct fake_spool){.steps = 10, .host = "a"});
    fake_spool_write(test_path(t, "b.spool"), &(struct fake_spool){.steps = 9, .host = "b"});
    assert_ok(trace_load(&trace, test_dir(t), NULL, &t->e), t);
    kernels_open(&k, &trace, NULL);
    deep_collectives_of(t->a, &k, NULL, "nvjet*", &n, &uneven);
    assert_int_equal(n, 0);
    assert_int_equal(uneven, 1);
    kernels_close(&k);
    trace_free(&trace);
}

static void one_process_has_no_collectives(void **state)
{
    struct test *t = *state;
    struct loaded *x = load(t, "prefill:\n", 2);
    size_t n, uneven;
    assert_null(deep_collectives_of(t->a, &x->k, NULL, "nvjet*", &n, &uneven));
    assert_int_equal(n, 0);
    unload(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(time_of_a_stage_includes_its_sub_stages),
        TEST(a_range_outside_its_parent_is_no_stage),
        TEST(mfu_is_by_the_operator_list),
        TEST(faults_in_the_tree_are_named),
        TEST(kernels_of_a_stage_and_of_a_pattern),
        TEST(figures_go_to_the_kernel_of_that_name),
        TEST(the_rank_that_begins_first_waits),
        TEST(both_ranks_are_in_one_picture),
        TEST(uneven_calls_are_left_out),
        TEST(one_process_has_no_collectives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
