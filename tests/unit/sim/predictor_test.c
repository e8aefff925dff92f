#include "sim/predictor.h"

#include "support/support.h"
#include "text/json.h"

static void registry_is_whole(void **state)
{
    struct test *t = *state;
    const struct predictor_ops *ops;
    for (int i = 0; predictor_registry[i]; i++) {
        assert_ok(predictor_find(predictor_registry[i]->name, &ops, &t->e), t);
        assert_ptr_equal(ops, predictor_registry[i]);
        assert_int_equal(ops->version, PREDICTOR_VERSION);
        assert_non_null(ops->help);
        assert_true(ops->open && ops->predict);
    }
    assert_err(predictor_find("oracle", &ops, &t->e), ST_USAGE, t,
               "predictor.kind: there is none called 'oracle'\nhint: known: bundle, vidur_tables, "
               "roofline");
}

/* Sums of operators are divided evenly, and such stages are not alike. */
static void stages_of_layers_that_differ(void **state)
{
    struct test *t = *state;
    static const char json[] =
        "{\"model_type\": \"gpt_oss\", \"vocab_size\": 1000, \"hidden_size\": 64,"
        " \"intermediate_size\": 32, \"num_hidden_layers\": 4, \"num_attention_heads\": 4,"
        " \"num_key_value_heads\": 2, \"head_dim\": 16, \"sliding_window\": 8,"
        " \"num_local_experts\": 4, \"num_experts_per_tok\": 2}";
    struct node *config;
    struct model m;
    struct predictor out;
    const struct iteration_hardware gpu = {.dram_bytes_per_s = 1e12,
                                           .flop_per_s = {[PRECISION_BF16] = 1e14},
                                           .links.link_bytes_per_s = 1e11};
    assert_ok(json_parse(t->a, "config.json", sv_of(json), NULL, &config, &t->e), t);
    assert_ok(model_from_config(t->a, "small", config, &m, &t->e), t);
    const struct predictor_params p = {
        .model = &m, .tp = 1, .pp = 2, .ep = 1, .hardware = &gpu, .tables = "nowhere"};
    assert_err(predictor_open(t->a, &predictor_vidur_tables, &p, &out, &t->e), ST_USAGE, t,
               "parallel.pp: stages of small, whose layers differ, are not in Vidur's tables: "
               "predictor=roofline and bundles predict them");
    assert_ok(predictor_open(t->a, &predictor_roofline, &p, &out, &t->e), t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(registry_is_whole), TEST(stages_of_layers_that_differ)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
