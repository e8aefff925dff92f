#include "model/module_names.h"

#include "support/support.h"

static int64_t copies_that_fit(struct test *t, const char *family, const char *module,
                               int64_t layer, int64_t copies, const char *entry)
{
    struct module_rules *r = module_rules_new();
    struct module_names names;
    struct module_match m;
    assert_ok(module_rules_add(r, NULL, sv_of(entry), 3, &t->e), t);
    module_names_of(t->a, family, module, &names);
    module_rules_find(r, &names, layer, copies, &m);
    module_rules_free(&r);
    return m.value == 3 ? copies : m.numbered[3];
}

static void entries_fit_names(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *family, *module;
        int64_t layer, copies;
        const char *entry;
        int64_t fit;
    } cases[] = {
        /* the whole name, an ancestor, a part; not half a component or another layer */
        {"llama", "self_attn.q_proj", 3, 1, "model.layers.3.self_attn.q_proj", 1},
        {"llama", "self_attn.q_proj", 3, 1, "model.layers.3.self_attn", 1},
        {"llama", "self_attn.q_proj", 3, 1, "model.language_model.layers.3", 1},
        {"llama", "self_attn.q_proj", 3, 1, "language_model.model.layers.3.self_attn.q_proj", 1},
        {"llama", "self_attn.q_proj", 3, 1, "self_attn", 1},
        {"llama", "self_attn.q_proj", 3, 1, "q_proj", 1},
        {"llama", "self_attn.q_proj", 3, 1, "proj", 0},
        {"llama", "self_attn.q_proj", 13, 1, "model.layers.3.self_attn", 0},
        {"llama", "self_attn.q_proj", 3, 1, "model.layers.3.self_attn.q", 0},
        {"llama", "self_attn.q_proj", 3, 1, "mtp.layers.3.self_attn.q_proj", 0},
        {"llama", "self_attn.q_proj", 3, 1, "visual.layers.3.self_attn.q_proj", 0},
        {"llama", "self_attn.k_proj", 3, 1, "model.layers.3.self_attn.qkv_proj", 1},
        {"llama", "mlp.gate_proj", 0, 1, "mlp.gate", 0},
        {"llama", "mlp.gate_proj", 0, 1, "gate", 0},
        {"qwen3_moe", "mlp.gate", 0, 1, "mlp.gate.", 1},
        {"llama", "lm_head", -1, 1, "lm_head", 1},
        {"llama", "lm_head", -1, 1, "language_model.lm_head", 1},
        {"deepseek_v4", "lm_head", -1, 1, "head", 1},
        /* other families' names */
        {"minimax_m2", "mlp.experts.down_proj", 4, 8, "model.layers.4.block_sparse_moe.experts", 8},
        {"minimax_m2", "mlp.gate", 4, 1, "model.layers.4.block_sparse_moe.gate", 1},
        {"nemotron_h", "mamba.in_proj", 4, 1, "backbone.layers.4.mixer.in_proj", 1},
        {"nemotron_h", "self_attn.k_proj", 4, 1, "backbone.layers.4.mixer.k_proj", 1},
        {"deepseek_v4", "self_attn.o_a_proj", 4, 1, "layers.4.attn.wo_a", 1},
        {"glm_moe_dsa", "self_attn.indexer.weights_proj", 4, 1,
         "model.layers.4.self_attn.indexers_proj", 1},
        {"qwen3_5_moe_text", "mlp.shared_experts.up_proj", 4, 1,
         "model.language_model.layers.4.mlp.shared_expert.up_proj", 1},
        /* experts beside the dense MLP */
        {"gemma4_text", "mlp.experts.up_proj", 4, 8, "model.language_model.layers.4.mlp*", 0},
        {"gemma4_text", "mlp.shared_experts.up_proj", 4, 1, "model.language_model.layers.4.mlp*",
         1},
        {"gemma4_text", "mlp.gate", 4, 1, "model.language_model.layers.4.router*", 1},
        /* single experts */
        {"qwen3_moe", "mlp.experts.up_proj", 4, 8, "model.layers.4.mlp.experts.7.up_proj", 1},
        {"qwen3_moe", "mlp.experts.up_proj", 4, 8, "model.layers.4.mlp.experts.7", 1},
        {"mixtral", "mlp.experts.up_proj", 4, 8, "model.layers.4.block_sparse_moe.experts.7.w3", 1},
        {"mixtral", "mlp.experts.up_proj", 4, 8, "model.layers.4.block_sparse_moe.experts.7.w2", 0},
        {"qwen3_moe", "mlp.experts.up_proj", 4, 8, "re:.*experts\\.[1-3]\\.up_proj", 3},
        {"qwen3_moe", "mlp.experts.up_proj", 4, 8, "*.experts.7.*", 1},
        /* wildcards span dots; one for layer 1 is not one for layer 10 unless it says so */
        {"llama", "mlp.up_proj", 10, 1, "model.layers.10*", 1},
        {"llama", "mlp.up_proj", 10, 1, "model.layers.1.*", 0},
        {"llama", "mlp.up_proj", 10, 1, "model.layers.1*", 1},
        {"llama", "mlp.up_proj", 10, 1, "model.layers.*.mlp", 1},
        {"llama", "mlp.up_proj", 10, 1, "*.mlp.*", 1},
        {"llama", "mlp.up_proj", 10, 1, "*mlp.up", 0},
        {"llama", "mlp.up_proj", 10, 1, "model.vision_tower*", 0},
        {"llama", "lm_head", -1, 1, "model.layers.1*", 0},
        {"llama", "lm_head", -1, 1, "*lm_head*", 1},
        /* patterns, from the start of the name */
        {"llama", "mlp.up_proj", 10, 1, "re:.*mlp\\.(gate|up|gate_up|down)_proj.*", 1},
        {"qwen3_moe", "mlp.experts.up_proj", 10, 8, "re:.*mlp\\.(gate|up|gate_up|down)_proj.*", 0},
        {"llama", "mlp.up_proj", 10, 1, "re:model\\.layers\\.10\\.mlp", 1},
        {"llama", "mlp.up_proj", 10, 1, "re:mlp", 0},
        {"llama", "mlp.up_proj", 10, 1, ".*\\.10\\..*", 1},
        {"llama", "mlp.up_proj", 10, 1, "re:.*vision.*", 0},
        {"llama", "mlp.up_proj", 10, 1, "re:.*up_proj$", 1},
        {"llama", "mlp.up_proj", 10, 1, "re:.*\\.up$", 0},
        {"qwen3_moe", "mlp.experts.up_proj", 10, 8, "re:^(?!.*experts).*proj", 0},
        {"qwen3_moe", "self_attn.q_proj", 10, 1, "re:^(?!.*experts).*proj", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t fit = copies_that_fit(t, cases[i].family, cases[i].module, cases[i].layer,
                                            cases[i].copies, cases[i].entry);
        if (fit != cases[i].fit)
            fail_msg("%s of layer %lld: '%s' fits %lld copies, not %lld", cases[i].module,
                     (long long)cases[i].layer, cases[i].entry, (long long)fit,
                     (long long)cases[i].fit);
    }
}

static void the_longest_name_counts(void **state)
{
    struct test *t = *state;
    struct module_rules *r = module_rules_new();
    struct module_names names;
    struct module_match m;
    assert_true(module_rules_empty(r));
    assert_ok(module_rules_add(r, NULL, SV("model.layers.0.mlp"), 1, &t->e), t);
    assert_ok(module_rules_add(r, NULL, SV("model.layers.0.mlp.experts"), 2, &t->e), t);
    assert_ok(module_rules_add(r, NULL, SV("model.layers.0.mlp.experts.1.up_proj"), 3, &t->e), t);
    assert_false(module_rules_empty(r));
    module_names_of(t->a, "qwen3_moe", "mlp.experts.up_proj", &names);
    module_rules_find(r, &names, 0, 4, &m);
    assert_int_equal(m.value, 2);
    assert_int_equal(m.numbered[3], 1);
    module_names_of(t->a, "qwen3_moe", "mlp.gate", &names);
    module_rules_find(r, &names, 0, 1, &m);
    assert_int_equal(m.value, 1);
    module_rules_find(r, &names, 1, 1, &m);
    assert_int_equal(m.value, -1);
    module_rules_free(&r);
}

static void what_is_no_expression_is_refused(void **state)
{
    struct test *t = *state;
    struct module_rules *r = module_rules_new();
    struct node *n = node_str(t->a, "re:(");
    n->source = "config.json";
    n->line = 7;
    n->column = 3;
    assert_err(module_rules_add(r, n, n->s, 0, &t->e), ST_INPUT, t,
               "config.json:7:3: '(' is no regular expression: missing closing parenthesis");
    module_rules_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(entries_fit_names), TEST(the_longest_name_counts),
                                       TEST(what_is_no_expression_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
